/* Pointwise kernels: which loop, over which runs, on which threads.
 *
 * Arithmetic is done in float, double or integers, some of it in float16 (pointwise_half.h).  Other element types (and
 * integers of mixed types) are converted in tiles that stay in the first-level cache.  Broadcasting becomes long contiguous
 * runs: in each run both operands advance, or one of them is a single number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"
#include "cpu/kernels/pointwise/pointwise_loops.h"
#include "cpu/kernels/movement/stream.h"
#include "op/walk.h"

#define TILE 512 /* elements converted at a time */

typedef union { float f; double d; int64_t i; } number; /* or a smaller integer at its start */

/* One operand (or the result) as the loops see it. */
typedef struct operand {
    char *data;
    mx_dtype dtype;
    int64_t item; /* bytes */
    bool direct;  /* already of the compute type */
} operand;

typedef struct job {
    const mx_pointwise_loops *loops;
    mx_dtype compute;
    int n_in;
    operand in[3], out;
    number constant; /* of the scalar forms */
    int form;
    bool stream;              /* the result is too large for the caches: write past them */
    const mx_pair_walk *walk; /* of binary forms */
    bool short_in[2];         /* with short runs: this operand's layout differs from the output's */
} job;

/* mx_scalar_attrs begins with the number */
static double scalar_of(const mx_kernel_call *call) { return *(const double *)call->attrs; }

#include "cpu/kernels/pointwise/pointwise_half.h"

enum { COMPUTE_HALF = MX_COMPUTE_U8 + 1 }; /* beside the types of pointwise_loops.h */
static const mx_dtype compute_dtypes[] = {MX_FLOAT32, MX_FLOAT64, MX_INT64, MX_INT32, MX_INT8, MX_UINT8, MX_FLOAT16};
static const mx_pointwise_loops *loops_of(int compute)
{
    static const mx_pointwise_loops *const tables[] = {mx_pointwise_f32, mx_pointwise_f64, mx_pointwise_i64,
                                                       mx_pointwise_i32, mx_pointwise_i8,  mx_pointwise_u8};
    return compute == COMPUTE_HALF ? half_loops : tables[compute];
}

/* Numbers outside the integer range are clipped to it. */
static number number_of(double scalar, int compute)
{
    number n = {.f = (float)scalar};
    if (compute == MX_COMPUTE_I64 && !(scalar > -0x1p63 && scalar < 0x1p63)) {
        n.i = scalar > 0 ? INT64_MAX : scalar < 0 ? INT64_MIN : 0;
        return n;
    }
    if (compute != MX_COMPUTE_F32)
        mx_convert(&n, compute_dtypes[compute], &scalar, MX_FLOAT64, 1);
    return n;
}

static bool fits(double scalar, int compute)
{
    const number small = number_of(scalar, compute);
    int64_t widened;
    mx_convert(&widened, MX_INT64, &small, compute_dtypes[compute], 1);
    return widened == number_of(scalar, MX_COMPUTE_I64).i;
}

/* Integers are computed in their own type if all arrays have it and the number fits into it, else as int64. */
static int integer_type(const mx_kernel_call *call, const mx_pointwise *use)
{
    const int dtype = call->out[0]->dtype;
    const int own = dtype == MX_INT32 ? MX_COMPUTE_I32 : dtype == MX_INT8 ? MX_COMPUTE_I8 : MX_COMPUTE_U8;
    for (int k = 0; k < call->n_in; k++)
        if (call->in[k]->dtype != dtype)
            return MX_COMPUTE_I64;
    if (dtype != (int)compute_dtypes[own] || (use->form >= MX_FORM_SCALAR && !fits(scalar_of(call), own)))
        return MX_COMPUTE_I64;
    return own;
}

static int compute_type(const mx_kernel_call *call, const mx_pointwise *use)
{
    const int dtype = call->in[0]->dtype;
    if (dtype == MX_FLOAT64)
        return MX_COMPUTE_F64;
    if (dtype == MX_FLOAT16 && computes_half(call, use))
        return COMPUTE_HALF;
    if (mx_dtype_is_float(dtype))
        return MX_COMPUTE_F32;
    return use->form >= MX_FORM_BINARY ? integer_type(call, use) : MX_COMPUTE_F64;
}

static operand operand_of(mx_array *x, mx_dtype compute)
{
    return (operand){mx_data(x), (mx_dtype)x->dtype, mx_dtype_size((mx_dtype)x->dtype), x->dtype == (int)compute};
}

static void run_loop(const job *j, const void *in[3], const int64_t step[2], void *out, int64_t n)
{
    switch (j->form) {
    case MX_FORM_UNARY: j->loops->unary(in[0], out, n); break;
    case MX_FORM_BACKWARD: j->loops->backward(in[0], in[1], in[2], out, n); break;
    case MX_FORM_BINARY: j->loops->binary(in[0], step[0], in[1], step[1], out, n); break;
    case MX_FORM_SCALAR: j->loops->binary(in[0], 1, &j->constant, 0, out, n); break;
    default: j->loops->binary(&j->constant, 0, in[0], 1, out, n); break;
    }
}

/* One operand of a tile: in place, or its elements converted into `tile`. */
static const void *load_tile(const job *j, int k, int64_t first, int64_t count, void *tile)
{
    const void *x = j->in[k].data + first * j->in[k].item;
    if (j->in[k].direct)
        return x;
    mx_convert_fast(tile, j->compute, x, j->in[k].dtype, count);
    return tile;
}

/* n elements from the given offsets (in elements), in tiles if types are converted or results streamed. */
static void run_span(const job *j, const int64_t offset[3], const int64_t step[2], int64_t at, int64_t n)
{
    double tiles[3][TILE];
    _Alignas(64) double result[TILE];
    const bool direct = j->out.direct && j->in[0].direct;
    const int64_t tile = !direct ? TILE : j->stream ? MX_STREAM_TILE / j->out.item : n;
    for (int64_t done = 0; done < n; done += tile) {
        const int64_t count = n - done < tile ? n - done : tile;
        const void *in[3] = {NULL, NULL, NULL};
        for (int k = 0; k < j->n_in; k++) {
            const int64_t advance = k < 2 ? step[k] : 1;
            in[k] = load_tile(j, k, offset[k] + done * advance, advance ? count : 1, tiles[k]);
        }
        char *out = j->out.data + (at + done) * j->out.item;
        run_loop(j, in, step, direct && !j->stream ? (void *)out : result, count);
        if (!direct)
            mx_convert_fast(out, j->out.dtype, result, j->compute, count);
        else if (j->stream)
            mx_stream(out, result, (size_t)(count * j->out.item));
    }
}

static void finish_part(const job *j)
{
    if (j->stream)
        mx_stream_end();
}

static void run_flat(void *arg, int64_t begin, int64_t end)
{
    run_span(arg, (int64_t[3]){begin, begin, begin}, (int64_t[2]){1, 1}, begin, end - begin);
    finish_part(arg);
}

/* ---- short runs: operands are first expanded into tiles -------------------------------------------------------- */

#define SHORT_RUN 48 /* elements; for shorter runs a loop call costs more than copying */

/* A run of operand elements of one size: copied, or one of them repeated. */
#define SPREAD(type)                                                                       \
    {                                                                                      \
        const type *x = (const type *)(const void *)from;                                  \
        type *tile = (type *)(void *)to;                                                   \
        for (int64_t i = 0; i < n; i++)                                                    \
            tile[i] = x[i * step];                                                         \
    }                                                                                      \
    break;

static inline void spread(char *to, const char *from, int64_t item, int64_t step, int64_t n)
{
    switch (item) {
    case 1: SPREAD(uint8_t)
    case 2: SPREAD(uint16_t)
    case 4: SPREAD(uint32_t)
    default: SPREAD(uint64_t)
    }
}

/* Elements [begin, begin + n) of operand k as the output sees them. */
static void gather(const job *j, int k, int64_t begin, int64_t n, char *tile)
{
    const mx_pair_walk *w = j->walk;
    const int last = w->ndim - 1;
    const int64_t item = j->in[k].item, *step = w->step[k];
    int64_t position[MX_MAX_NDIM], offset = 0;
    for (int64_t axis = last, rest = begin; axis >= 0; rest /= w->dim[axis], axis--) {
        position[axis] = rest % w->dim[axis];
        offset += position[axis] * step[axis];
    }
    while (n > 0) {
        const int64_t left = w->dim[last] - position[last], count = left < n ? left : n;
        spread(tile, j->in[k].data + offset * item, item, step[last], count);
        tile += count * item, n -= count;
        position[last] += count, offset += count * step[last];
        for (int axis = last; axis > 0 && position[axis] == w->dim[axis]; axis--) {
            offset += step[axis - 1] - w->dim[axis] * step[axis];
            position[axis] = 0;
            position[axis - 1]++;
        }
    }
}

static void run_short(void *arg, int64_t begin, int64_t end)
{
    const job *whole = arg;
    _Alignas(64) double tiles[2][TILE];
    for (; begin < end; begin += TILE) {
        const int64_t n = end - begin < TILE ? end - begin : TILE;
        job j = *whole;
        int64_t offset[3] = {begin, begin, 0};
        for (int k = 0; k < 2; k++)
            if (whole->short_in[k]) {
                gather(whole, k, begin, n, (char *)tiles[k]);
                j.in[k].data = (char *)tiles[k];
                offset[k] = 0;
            }
        run_span(&j, offset, (int64_t[2]){1, 1}, begin, n);
    }
    finish_part(whole);
}

/* ---- long runs ------------------------------------------------------------------------------------------------- */

static void run_walk(void *arg, int64_t begin, int64_t end)
{
    const job *j = arg;
    const mx_pair_walk *w = j->walk;
    int64_t position[MX_MAX_NDIM], offset[3] = {0};
    for (int64_t axis = w->ndim - 1, rest = begin; axis >= 0; rest /= w->dim[axis], axis--) {
        position[axis] = rest % w->dim[axis];
        for (int k = 0; k < 2; k++)
            offset[k] += position[axis] * w->step[k][axis];
    }
    const int last = w->ndim - 1;
    while (begin < end) {
        int64_t n = w->dim[last] - position[last] < end - begin ? w->dim[last] - position[last] : end - begin;
        run_span(j, offset, (int64_t[2]){w->step[0][last], w->step[1][last]}, begin, n);
        begin += n;
        position[last] += n;
        for (int k = 0; k < 2; k++)
            offset[k] += n * w->step[k][last];
        for (int axis = last; axis > 0 && position[axis] == w->dim[axis]; axis--) {
            position[axis] = 0;
            position[axis - 1]++;
            for (int k = 0; k < 2; k++)
                offset[k] += w->step[k][axis - 1] - w->dim[axis] * w->step[k][axis];
        }
    }
    finish_part(j);
}

/* ---- entry ----------------------------------------------------------------------------------------------------- */

static bool same_size(const mx_kernel_call *call)
{
    for (int k = 0; k < call->n_in; k++)
        if (call->in[k]->size != call->out[0]->size)
            return false;
    return true;
}

/* In place, the lines are already in the cache. */
static bool in_place(const job *j)
{
    for (int k = 0; k < j->n_in; k++)
        if (j->in[k].data == j->out.data)
            return true;
    return false;
}

/* Few elements of equal shape that need no conversion: call the loop directly, the set-up would cost more. */
static bool run_small(const mx_kernel_call *call, const mx_pointwise *use, int compute)
{
    const mx_array *out = call->out[0];
    const void *in[3];
    if (out->size > MX_GRAIN || out->dtype != (int)compute_dtypes[compute])
        return false;
    for (int k = 0; k < call->n_in; k++) {
        if (call->in[k]->size != out->size || call->in[k]->dtype != out->dtype)
            return false;
        in[k] = mx_data(call->in[k]);
    }
    job j;
    j.loops = &loops_of(compute)[use->row], j.form = use->form;
    if (use->form >= MX_FORM_SCALAR)
        j.constant = number_of(scalar_of(call), compute);
    run_loop(&j, in, (int64_t[2]){1, 1}, mx_data(out), out->size);
    return true;
}

static mx_code run_pointwise(const mx_kernel_call *call)
{
    const mx_pointwise *use = call->op->user;
    mx_array *out = call->out[0];
    const int compute = compute_type(call, use);
    if (run_small(call, use, compute))
        return MX_OK;
    job j = {
        .loops = &loops_of(compute)[use->row], .compute = compute_dtypes[compute], .n_in = call->n_in, .form = use->form};
    for (int k = 0; k < call->n_in; k++)
        j.in[k] = operand_of(call->in[k], j.compute);
    j.out = operand_of(out, j.compute);
    j.stream = (int64_t)mx_bytes(out) >= MX_STREAM_BYTES && !in_place(&j);
    if (use->form >= MX_FORM_SCALAR)
        j.constant = number_of(scalar_of(call), compute);
    if (same_size(call)) {
        mx_parallel(out->size, MX_GRAIN, run_flat, &j);
        return MX_OK;
    }
    mx_pair_walk w;
    mx_pair_walk_set(&w, call->in[0], call->in[1], out);
    j.walk = &w;
    for (int k = 0; k < 2; k++)
        j.short_in[k] = call->in[k]->size != out->size;
    mx_parallel(out->size, MX_GRAIN, w.dim[w.ndim - 1] < SHORT_RUN ? run_short : run_walk, &j);
    return MX_OK;
}

#define UNARY_KERNEL(name, ...) {#name, run_pointwise, NULL},
#define BACKWARD_KERNEL(name, ...) {"_backward_" #name, run_pointwise, NULL},
#define BINARY_KERNEL(id, en, ea, bn, ba, sn, ...) \
    {en, run_pointwise, NULL}, {bn, run_pointwise, NULL}, {sn, run_pointwise, NULL},
#define REVERSED_KERNEL(id, name, ...) {name, run_pointwise, NULL},

MX_CPU_KERNELS_ARM(pointwise) = {
    MX_UNARY_ROWS(UNARY_KERNEL) MX_UNARY_ROWS(BACKWARD_KERNEL) MX_LINEAR_ROWS(UNARY_KERNEL) MX_STEP_ROWS(UNARY_KERNEL)
    MX_BINARY_ROWS(BINARY_KERNEL) MX_REVERSED_ROWS(REVERSED_KERNEL) MX_COMPARE_ROWS(BINARY_KERNEL)
    {"_contrib_round_ste", run_pointwise, NULL}, {"_contrib_sign_ste", run_pointwise, NULL},
    {"clip", mx_run_numbers, NULL}, {"_backward_clip", mx_run_numbers, NULL}, {"smooth_l1", mx_run_numbers, NULL},
    {"hard_sigmoid", mx_run_numbers, NULL}, {"_contrib_quadratic", mx_run_numbers, NULL},
    {"_contrib_div_sqrt_dim", mx_run_numbers, NULL}, {"_contrib_gradientmultiplier", mx_run_numbers, NULL},
    {NULL, NULL, NULL}};
