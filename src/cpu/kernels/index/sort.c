/* sort, argsort, topk on the CPU.
 *
 * A row is converted to pairs (key, index), where keys are unsigned integers in the order of the values: numbers up
 * to 32 bits have keys of 32 bits, larger ones of 64.  NaN gets the largest key; descending order inverts the key.
 * Rows are shared among threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/level.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"
#include "op/walk.h"

typedef struct pair32 {
    uint32_t key, index;
} pair32;
typedef struct pair64 {
    uint64_t key, index;
} pair64;

#define AT_ONCE ((int64_t)1 << 20) /* elements between two questions whether to stop */

#define PASTE2(a, b) a##_##b
#define PASTE(a, b) PASTE2(a, b)
#define NAME(x) PASTE(x, PAIR)
#define KEY uint32_t
#define PAIR pair32
#include "cpu/kernels/index/sort_body.h"
#undef KEY
#undef PAIR
#define KEY uint64_t
#define PAIR pair64
#include "cpu/kernels/index/sort_body.h"
#undef KEY
#undef PAIR

typedef struct job {
    mx_split split; /* of the data */
    int64_t k;      /* how many to return of each row */
    bool ascending;
    mx_dtype type, work; /* of the data, and what rows are read as: float32, int32, float64 or int64 */
    mx_dtype index_type;
    const char *data;
    char *values, *indices, *mask; /* the results; NULL: not requested */
    _Atomic int failed;            /* a thread was out of memory */
} job;

/* Memory of one thread. */
typedef struct scratch {
    void *row;      /* (size) of the work type */
    char *element;  /* (size) gathered elements, and k results */
    int64_t *index; /* (size) */
    char *pairs;    /* (2 * size) */
    size_t bytes;
} scratch;

static bool wide(const job *j) { return mx_dtype_size(j->work) == 8 || j->split.size > UINT32_MAX; }

static bool open_scratch(const job *j, scratch *s)
{
    const size_t n = (size_t)j->split.size, pair = wide(j) ? sizeof(pair64) : sizeof(pair32);
    s->bytes = n * (8 + 8 + 8 + 2 * pair);
    char *memory = mx_alloc(s->bytes);
    s->index = (int64_t *)memory;
    s->pairs = memory ? memory + 8 * n : NULL;
    s->row = memory ? s->pairs + 2 * n * pair : NULL;
    s->element = memory ? (char *)s->row + 8 * n : NULL;
    return memory != NULL;
}

static inline uint32_t key_f32(uint32_t bits, uint32_t flip)
{
    const uint32_t order = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return ((bits & 0x7fffffffu) > 0x7f800000u ? UINT32_MAX : bits == 0x80000000u ? 0x80000000u : order) ^ flip;
}
static inline uint64_t key_f64(uint64_t bits, uint64_t flip)
{
    const uint64_t top = (uint64_t)1 << 63, order = bits & top ? ~bits : bits | top;
    return ((bits & ~top) > 0x7ff0000000000000u ? UINT64_MAX : bits == top ? top : order) ^ flip;
}

/* Sorts the row in s->row; writes the order of its first k elements to s->index, unless the work is to be stopped. */
static void order_row(const job *j, scratch *s)
{
    const int64_t n = j->split.size;
    if (!wide(j)) {
        pair32 *p = (pair32 *)s->pairs;
        const uint32_t *bits = s->row, flip = j->ascending ? 0 : UINT32_MAX;
        const bool real = j->work == MX_FLOAT32;
        for (int64_t at = 0; at < n && !mx_stop_wanted(); at += AT_ONCE)
            for (int64_t i = at; i < n && i < at + AT_ONCE; i++)
                p[i] = (pair32){real ? key_f32(bits[i], flip) : (bits[i] ^ 0x80000000u) ^ flip, (uint32_t)i};
        if (mx_stop_wanted())
            return;
        select_pair32(p, p + n, n, j->k);
        for (int64_t i = 0; i < j->k; i++)
            s->index[i] = p[i].index;
        return;
    }
    pair64 *p = (pair64 *)s->pairs;
    const uint64_t *bits = s->row, flip = j->ascending ? 0 : UINT64_MAX;
    const bool real = j->work == MX_FLOAT64;
    for (int64_t at = 0; at < n && !mx_stop_wanted(); at += AT_ONCE)
        for (int64_t i = at; i < n && i < at + AT_ONCE; i++)
            p[i] = (pair64){real ? key_f64(bits[i], flip) : (bits[i] ^ (uint64_t)1 << 63) ^ flip, (uint64_t)i};
    if (mx_stop_wanted())
        return;
    select_pair64(p, p + n, n, j->k);
    for (int64_t i = 0; i < j->k; i++)
        s->index[i] = (int64_t)p[i].index;
}

static void strided_copy(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, size_t item)
{
    if (to_step == from_step && to_step == (int64_t)item) {
        memcpy(to, from, (size_t)n * item);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        memcpy(to + i * to_step, from + i * from_step, item);
}

static void write_row(const job *j, scratch *s, int64_t before, int64_t after)
{
    const int64_t item = mx_dtype_size(j->type), step = j->split.after;
    const char *row = j->data + (before * j->split.size * step + after) * item;
    const int64_t target = before * j->k * step + after;
    if (j->values) {
        char *to = j->values + target * item;
        for (int64_t at = 0; at < j->k && !mx_stop_wanted(); at += AT_ONCE)
            for (int64_t i = at; i < j->k && i < at + AT_ONCE; i++)
                memcpy(to + i * step * item, row + s->index[i] * step * item, (size_t)item);
    }
    if (j->indices) {
        const int64_t size = mx_dtype_size(j->index_type);
        mx_convert(s->element, j->index_type, s->index, MX_INT64, j->k);
        strided_copy(j->indices + target * size, step * size, s->element, size, j->k, (size_t)size);
    }
    if (j->mask) {
        char one[8] = {0}, *to = j->mask + (before * j->split.size * step + after) * item;
        const double value = 1;
        mx_convert(one, j->type, &value, MX_FLOAT64, 1);
        for (int64_t i = 0; i < j->split.size; i++)
            memset(to + i * step * item, 0, (size_t)item);
        for (int64_t i = 0; i < j->k; i++)
            memcpy(to + s->index[i] * step * item, one, (size_t)item);
    }
}

static void run_rows(void *arg, int64_t begin, int64_t end)
{
    job *j = arg;
    scratch s;
    const int64_t item = mx_dtype_size(j->type), step = j->split.after, n = j->split.size;
    if (!open_scratch(j, &s)) {
        j->failed = 1;
        return;
    }
    for (int64_t r = begin; r < end; r++) {
        const int64_t before = r / step, after = r % step;
        const char *row = j->data + (before * n * step + after) * item;
        if (step > 1) {
            strided_copy(s.element, item, row, step * item, n, (size_t)item);
            row = s.element;
        }
        if (j->type == j->work)
            memcpy(s.row, row, (size_t)(n * item));
        else
            mx_convert(s.row, j->work, row, j->type, n);
        order_row(j, &s);
        if (mx_stop_wanted()) /* the order is none */
            break;
        write_row(j, &s, before, after);
    }
    mx_free(s.index, s.bytes);
}

static mx_dtype work_type(mx_dtype type, int64_t n)
{
    const bool real = mx_dtype_is_float(type), large = mx_dtype_size(type) == 8 || n > UINT32_MAX;
    return real ? (large ? MX_FLOAT64 : MX_FLOAT32) : large ? MX_INT64 : MX_INT32;
}

static mx_code run(const mx_kernel_call *call, job *j, int64_t axis)
{
    const mx_array *x = call->in[0];
    mx_shape_t shape = {.ndim = x->ndim};
    memcpy(shape.dim, x->shape, sizeof shape.dim);
    if (axis == MX_NONE_INT || x->ndim == 0)
        shape = (mx_shape_t){1, {x->size}}, axis = 0;
    j->split = mx_split_at(&shape, mx_axis(axis, shape.ndim));
    j->k = j->k < 1 ? j->split.size : j->k;
    j->type = (mx_dtype)x->dtype;
    j->work = work_type(j->type, j->split.size);
    j->data = mx_data(x);
    mx_parallel(j->split.before * j->split.after, MX_GRAIN / 8 / (j->split.size + 1) + 1, run_rows, j);
    return j->failed ? mx_op_fail(call->op, MX_ERR_MEMORY, "out of memory while sorting rows of %lld elements",
                                  (long long)j->split.size)
                     : MX_OK;
}

static mx_code run_sort(const mx_kernel_call *call)
{
    const mx_sort_attrs *attrs = call->attrs;
    job j = {.ascending = attrs->is_ascend,
             .values = mx_data(call->out[0]),
             .indices = mx_data(call->out[1]),
             .index_type = (mx_dtype)call->out[1]->dtype};
    return run(call, &j, attrs->axis);
}

static mx_code run_argsort(const mx_kernel_call *call)
{
    const mx_argsort_attrs *attrs = call->attrs;
    job j = {
        .ascending = attrs->is_ascend, .indices = mx_data(call->out[0]), .index_type = (mx_dtype)call->out[0]->dtype};
    return run(call, &j, attrs->axis);
}

static mx_code run_topk(const mx_kernel_call *call)
{
    const mx_topk_attrs *attrs = call->attrs;
    job j = {.ascending = attrs->is_ascend, .k = attrs->k};
    const int what = attrs->ret_typ;
    if (what == MX_TOPK_MASK)
        j.mask = mx_data(call->out[0]);
    if (what == MX_TOPK_VALUE || what == MX_TOPK_BOTH)
        j.values = mx_data(call->out[0]);
    if (what != MX_TOPK_MASK) {
        const mx_array *indices = call->out[what == MX_TOPK_INDICES ? 0 : 1];
        j.indices = mx_data(indices), j.index_type = (mx_dtype)indices->dtype;
    }
    return run(call, &j, attrs->axis);
}

MX_CPU_KERNELS(sort) = {
    {"sort", run_sort, NULL}, {"argsort", run_argsort, NULL}, {"topk", run_topk, NULL}, {NULL, NULL, NULL}};
