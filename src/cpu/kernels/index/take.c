/* take, Embedding, pick and their adjoints, one_hot, on the CPU.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/index/indices.h"
#include "gluon/op.gen.h"
#include "op/walk.h"

static mx_shape_t shape_of(const mx_array *x)
{
    mx_shape_t shape = {.ndim = x->ndim};
    memcpy(shape.dim, x->shape, sizeof shape.dim);
    return shape;
}

/* ---- one list of indices for all blocks ------------------------------------------------------------------------ */

/* `whole` is the array that is indexed: the source of take, the result of _take_add. */
static mx_code run_rows(const mx_kernel_call *call, const mx_array *whole, const mx_array *indices,
                        const mx_array *data, int64_t axis, int mode, bool add)
{
    const mx_shape_t shape = shape_of(whole);
    const mx_split split = mx_split_at(&shape, mx_axis(axis, shape.ndim));
    int64_t *index = mx_load_indices(indices);
    if (!index)
        return MX_ERR_MEMORY;
    mx_code code = mx_settle_indices(call->op, index, indices->size, split.size, mode);
    mx_rows rows = {split.before, indices->size, split.size, split.after, index, (mx_dtype)whole->dtype};
    if (!code && add)
        code = mx_cpu_add_rows(&rows, mx_data(call->out[0]), mx_data(data));
    else if (!code)
        mx_cpu_take_rows(&rows, mx_data(call->out[0]), mx_data(data));
    mx_free_indices(index, indices);
    return code;
}

static mx_code run_take(const mx_kernel_call *call)
{
    const mx_take_attrs *attrs = call->attrs;
    return run_rows(call, call->in[0], call->in[1], call->in[0], attrs->axis, attrs->mode, false);
}

static mx_code run_take_add(const mx_kernel_call *call)
{
    const mx_take_add_attrs *attrs = call->attrs;
    return run_rows(call, call->out[0], call->in[1], call->in[0], attrs->axis, attrs->mode, true);
}

static mx_code run_embedding(const mx_kernel_call *call)
{
    return run_rows(call, call->in[1], call->in[0], call->in[1], 0, MX_INDEX_CLIP, false);
}

/* ---- one index per element --------------------------------------------------------------------------------------- */

typedef struct along {
    int64_t size, n, after; /* whole (before, size, after), indices (before, n, after) */
    const int64_t *index;
    const void *data;
    void *out;
    size_t item;
    mx_dtype type;
} along;

#define TAKE_ALONG(T)                                                                                              \
    for (int64_t b = begin; b < end; b++)                                                                          \
        for (int64_t i = 0; i < j->n; i++)                                                                         \
            for (int64_t k = 0; k < j->after; k++) {                                                               \
                const int64_t at = (b * j->n + i) * j->after + k;                                                  \
                ((T *)j->out)[at] = ((const T *)j->data)[(b * j->size + j->index[at]) * j->after + k];             \
            }
static void take_along(void *arg, int64_t begin, int64_t end)
{
    const along *j = arg;
    switch (j->item) {
    case 1: TAKE_ALONG(uint8_t) break;
    case 2: TAKE_ALONG(uint16_t) break;
    case 4: TAKE_ALONG(uint32_t) break;
    default: TAKE_ALONG(uint64_t) break;
    }
}

#define PUT_ALONG(T, SUM)                                                                                          \
    for (int64_t b = begin; b < end; b++)                                                                          \
        for (int64_t i = 0; i < j->n; i++)                                                                         \
            for (int64_t k = 0; k < j->after; k++) {                                                               \
                const int64_t at = (b * j->n + i) * j->after + k;                                                  \
                T *to = (T *)j->out + (b * j->size + j->index[at]) * j->after + k;                                 \
                const T more = ((const T *)j->data)[at];                                                           \
                *to = SUM;                                                                                         \
            }
static void put_along(void *arg, int64_t begin, int64_t end)
{
    const along *j = arg;
    memset((char *)j->out + (size_t)(begin * j->size * j->after) * j->item, 0,
           (size_t)((end - begin) * j->size * j->after) * j->item);
    switch (j->type) {
    case MX_FLOAT32: PUT_ALONG(float, *to + more) break;
    case MX_FLOAT64: PUT_ALONG(double, *to + more) break;
    case MX_INT64: PUT_ALONG(int64_t, *to + more) break;
    case MX_INT32: PUT_ALONG(int32_t, *to + more) break;
    case MX_INT8:
    case MX_UINT8: PUT_ALONG(uint8_t, (uint8_t)(*to + more)) break;
    case MX_BOOL: PUT_ALONG(bool, *to | more) break;
    case MX_FLOAT16: PUT_ALONG(mx_half, mx_half_from_float(mx_half_to_float(*to) + mx_half_to_float(more))) break;
    default: PUT_ALONG(mx_bfloat, mx_bfloat_from_float(mx_bfloat_to_float(*to) + mx_bfloat_to_float(more))) break;
    }
}

/* whole: the indexed array, seen with `shape`; n indices along the axis. */
static mx_code run_along(const mx_kernel_call *call, const mx_array *whole, const mx_shape_t *shape, int axis, int mode,
                         mx_range_fn body)
{
    const mx_array *indices = call->in[1];
    const mx_split split = mx_split_at(shape, axis);
    int64_t *index = mx_load_indices(indices);
    if (!index)
        return MX_ERR_MEMORY;
    mx_code code = mx_settle_indices(call->op, index, indices->size, split.size, mode);
    const int64_t places = split.before * split.after, n = places ? indices->size / places : 0;
    along job = {split.size, n, split.after, index, mx_data(call->in[0]), mx_data(call->out[0]),
                 (size_t)mx_dtype_size((mx_dtype)whole->dtype), (mx_dtype)whole->dtype};
    if (!code)
        mx_parallel(split.before,
                    MX_GRAIN / ((body == put_along ? split.size : 1) * split.after + 4 * n * split.after) + 1, body,
                    &job);
    mx_free_indices(index, indices);
    return code;
}

static mx_code run_take_along(const mx_kernel_call *call)
{
    const mx_take_attrs *attrs = call->attrs;
    const mx_shape_t shape = shape_of(call->in[0]);
    return run_along(call, call->in[0], &shape, mx_axis(attrs->axis, shape.ndim), attrs->mode, take_along);
}

static mx_code run_put_along(const mx_kernel_call *call)
{
    const mx_take_add_attrs *attrs = call->attrs;
    const mx_shape_t shape = shape_of(call->out[0]);
    return run_along(call, call->out[0], &shape, mx_axis(attrs->axis, shape.ndim), attrs->mode, put_along);
}

static mx_code run_pick(const mx_kernel_call *call)
{
    const mx_pick_attrs *attrs = call->attrs;
    const bool flat = attrs->axis == MX_NONE_INT;
    const mx_shape_t shape = flat ? (mx_shape_t){1, {call->in[0]->size}} : shape_of(call->in[0]);
    return run_along(call, call->in[0], &shape, flat ? 0 : mx_axis(attrs->axis, shape.ndim),
                     attrs->mode == MX_PICK_CLIP ? MX_INDEX_CLIP : MX_INDEX_WRAP, take_along);
}

static mx_code run_batch_take(const mx_kernel_call *call)
{
    const mx_shape_t shape = shape_of(call->in[0]);
    return run_along(call, call->in[0], &shape, 1, MX_INDEX_CLIP, take_along);
}

/* ---- one_hot ------------------------------------------------------------------------------------------------ */

typedef struct hot {
    const int64_t *index;
    int64_t depth;
    char *out;
    size_t item;
    unsigned char on[8], off[8];
} hot;

static void hot_range(void *arg, int64_t begin, int64_t end)
{
    const hot *j = arg;
    const size_t row = (size_t)j->depth * j->item;
    static const unsigned char zero[8];
    for (int64_t i = begin; i < end; i++) {
        char *to = j->out + (size_t)i * row;
        if (!memcmp(j->off, zero, j->item))
            memset(to, 0, row);
        else
            for (int64_t k = 0; k < j->depth; k++)
                memcpy(to + (size_t)k * j->item, j->off, j->item);
        if (j->index[i] >= 0 && j->index[i] < j->depth)
            memcpy(to + (size_t)j->index[i] * j->item, j->on, j->item);
    }
}

static mx_code run_one_hot(const mx_kernel_call *call)
{
    const mx_one_hot_attrs *attrs = call->attrs;
    const mx_dtype type = (mx_dtype)call->out[0]->dtype;
    int64_t *index = mx_load_indices(call->in[0]);
    if (!index)
        return MX_ERR_MEMORY;
    hot job = {index, attrs->depth, mx_data(call->out[0]), (size_t)mx_dtype_size(type), {0}, {0}};
    mx_convert(job.on, type, &attrs->on_value, MX_FLOAT64, 1);
    mx_convert(job.off, type, &attrs->off_value, MX_FLOAT64, 1);
    mx_parallel(call->in[0]->size, MX_GRAIN / (attrs->depth + 1) + 1, hot_range, &job);
    mx_free_indices(index, call->in[0]);
    return MX_OK;
}

MX_CPU_KERNELS(take) = {
    {"take", run_take, NULL},       {"_take_add", run_take_add, NULL},   {"Embedding", run_embedding, NULL},
    {"_contrib_SparseEmbedding", run_embedding, NULL},
    {"_take_along", run_take_along, NULL}, {"_put_along", run_put_along, NULL}, {"pick", run_pick, NULL},
    {"batch_take", run_batch_take, NULL},  {"one_hot", run_one_hot, NULL},      {NULL, NULL, NULL},
};
