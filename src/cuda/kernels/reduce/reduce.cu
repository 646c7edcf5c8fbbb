/* Reductions: sums and the like over axes, in double (or int64 for integers).
 *
 * The axes are split into kept and folded groups.  Where neighbouring results are contiguous (the last axis is kept), a
 * block computes 32 of them, each by a column of threads; else a block computes one.  Short folds are done by one thread.
 * Long ones are cut into parts, joined by a second launch.  The order of additions depends on the shape only.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"
extern "C" {
#include "op/formula/reduce.h"
}

#define PARTS 64   /* at most, of one result */
#define LEAST 2048 /* elements of a part that a block folds; of a part that a column of threads folds: */
#define LEAST_COLUMN 64
#define WIDE 32 /* results side by side */
#define DEEP 8  /* threads of a column */
#define SHORT 16 /* elements that one thread folds */

namespace /* the name is also used elsewhere */
{
struct axes {
    int n;
    int64_t dim[MX_MAX_NDIM], step[MX_MAX_NDIM], size;
    __host__ __device__ int64_t offset(int64_t index) const
    {
        int64_t at = 0;
        if (n < 2)
            return n ? index * step[0] : 0;
        for (int i = n - 1; i >= 0; index /= dim[i], i--)
            at += index % dim[i] * step[i];
        return at;
    }
};
} // namespace

struct folding {
    axes kept, folded;
    const void *in;
    void *out;
    int in_type, out_type;
    mx_fold fold;
    int64_t parts, part; /* how many, and elements of each */
};

/* ---- what the folds do ------------------------------------------------------------------------------------------ */

template <class C> __device__ C start_of(mx_fold fold)
{
    switch (fold) {
    case MX_FOLD_PROD:
    case MX_FOLD_NANPROD: return (C)1;
    case MX_FOLD_MAX: return sizeof(C) == sizeof(double) && (C)0.5 != 0 ? (C)-INFINITY : (C)INT64_MIN;
    case MX_FOLD_MIN: return sizeof(C) == sizeof(double) && (C)0.5 != 0 ? (C)INFINITY : (C)INT64_MAX;
    default: return (C)0;
    }
}

template <class C> __device__ C join(mx_fold fold, C a, C b)
{
    switch (fold) {
    case MX_FOLD_PROD:
    case MX_FOLD_NANPROD: return a * b;
    case MX_FOLD_MAX: return a != a ? a : b != b ? b : a > b ? a : b;
    case MX_FOLD_MIN: return a != a ? a : b != b ? b : a < b ? a : b;
    default: return a + b;
    }
}

template <class C> __device__ C element(mx_fold fold, C x)
{
    switch (fold) {
    case MX_FOLD_NANSUM: return x == x ? x : (C)0;
    case MX_FOLD_NANPROD: return x == x ? x : (C)1;
    case MX_FOLD_NORM1: return x < 0 ? -x : x;
    case MX_FOLD_NORM2:
    case MX_FOLD_SQUARES: return x * x;
    default: return x;
    }
}

template <class C> __device__ C finish(mx_fold fold, C total, int64_t count)
{
    if (fold == MX_FOLD_MEAN)
        return total / (C)count;
    return fold == MX_FOLD_NORM2 ? (C)sqrt((double)total) : total;
}

/* ---- one result, or one part of it --------------------------------------------------------------------------------- */

template <class C> __device__ C load(const folding &f, int64_t at)
{
    return element(f.fold, mx_cuda_load<C>(f.in, f.in_type, at));
}

/* Four elements at once where the fold walks in equal steps, so that their loads do not wait for each other. */
template <class C>
__device__ C fold_range(const folding &f, int64_t base, int64_t begin, int64_t end, int first, int step)
{
    C total = start_of<C>(f.fold);
    int64_t i = begin + first;
    if (f.folded.n < 2) {
        const int64_t stride = f.folded.n ? f.folded.step[0] : 0;
        for (; i + 3 * step < end; i += 4 * step) {
            const C a = load<C>(f, base + i * stride), b = load<C>(f, base + (i + step) * stride);
            const C c = load<C>(f, base + (i + 2 * step) * stride), e = load<C>(f, base + (i + 3 * step) * stride);
            total = join(f.fold, total, join(f.fold, join(f.fold, a, b), join(f.fold, c, e)));
        }
    }
    for (; i < end; i += step)
        total = join(f.fold, total, load<C>(f, base + f.folded.offset(i)));
    return total;
}

/* partial NULL: the result itself. */
template <class C> __device__ void put(const folding &f, int64_t unit, C total, C *partial)
{
    if (partial)
        partial[unit] = total;
    else
        mx_cuda_store<C>(f.out, f.out_type, unit, finish(f.fold, total, f.folded.size));
}

/* blockIdx: columns, parts */
template <class C> __global__ void columns_kernel(folding f, C *partial)
{
    __shared__ C shared[DEEP][WIDE];
    const int lane = threadIdx.x % WIDE, high = threadIdx.x / WIDE;
    const int64_t result = (int64_t)blockIdx.x * WIDE + lane, begin = blockIdx.y * f.part;
    const int64_t end = begin + f.part < f.folded.size ? begin + f.part : f.folded.size;
    const bool inside = result < f.kept.size;
    C total = inside ? fold_range<C>(f, f.kept.offset(result), begin, end, high, DEEP) : C();
    shared[high][lane] = total;
    __syncthreads();
    if (high || !inside)
        return;
    for (int k = 1; k < DEEP; k++)
        total = join(f.fold, total, shared[k][lane]);
    put<C>(f, blockIdx.y * f.kept.size + result, total, partial);
}

template <class C>
static mx_code by_columns(const mx_kernel_call *call, mx_cuda_device *d, const folding &f, C *partial)
{
    const int64_t tiles = (f.kept.size + WIDE - 1) / WIDE;
    if (tiles > INT32_MAX)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "%lld results are too many for gpu(%d)", (long long)f.kept.size,
                          d->id);
    columns_kernel<C><<<dim3((unsigned)tiles, (unsigned)f.parts), WIDE * DEEP, 0, d->stream>>>(f, partial);
    return mx_cuda_launched(call);
}

template <class C> static mx_code by_blocks(const mx_kernel_call *call, const folding &f, C *partial)
{
    return mx_cuda_rows(call, f.kept.size * f.parts, f.part, [=] __device__(int64_t unit) {
        const int64_t result = unit % f.kept.size, begin = unit / f.kept.size * f.part;
        const int64_t end = begin + f.part < f.folded.size ? begin + f.part : f.folded.size;
        const C mine = fold_range<C>(f, f.kept.offset(result), begin, end, threadIdx.x, blockDim.x);
        const mx_fold fold = f.fold;
        const C total = mx_cuda_block_join(mine, [fold] __device__(C a, C b) { return join(fold, a, b); });
        if (!threadIdx.x)
            put<C>(f, unit, total, partial);
    });
}

/* As many parts as keep the device busy, but none too small. */
static void cut(folding *f, const mx_cuda_device *d, bool side_by_side)
{
    const int64_t units = side_by_side ? (f->kept.size + WIDE - 1) / WIDE : f->kept.size;
    const int64_t wanted = (int64_t)d->multiprocessors * 4 / (units + 1);
    const int64_t room = f->folded.size / (side_by_side ? LEAST_COLUMN : LEAST);
    f->parts = wanted < room ? wanted : room;
    f->parts = f->parts < 1 ? 1 : f->parts > PARTS ? PARTS : f->parts;
    f->part = (f->folded.size + f->parts - 1) / f->parts;
}

template <class C> static mx_code fold_as(const mx_kernel_call *call, folding f, bool side_by_side)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (f.folded.size <= SHORT) /* a thread for each result */
        return mx_cuda_each(call, f.kept.size, [=] __device__(int64_t result) {
            put<C>(f, result, fold_range<C>(f, f.kept.offset(result), 0, f.folded.size, 0, 1), (C *)nullptr);
        });
    cut(&f, d, side_by_side);
    mx_cuda_scratch scratch(d, f.parts > 1 ? (size_t)(f.parts * f.kept.size) * sizeof(C) : 0);
    C *partial = scratch.as<C>();
    if (f.parts > 1 && !partial)
        return mx_error_code();
    mx_code code = side_by_side ? by_columns<C>(call, d, f, partial) : by_blocks<C>(call, f, partial);
    if (code || !partial)
        return code;
    return mx_cuda_each(call, f.kept.size, [=] __device__(int64_t result) {
        C total = start_of<C>(f.fold);
#pragma unroll 8
        for (int64_t p = 0; p < f.parts; p++)
            total = join(f.fold, total, partial[p * f.kept.size + result]);
        put<C>(f, result, total, (C *)nullptr);
    });
}

/* ---- entries --------------------------------------------------------------------------------------------------- */

static void add_axis(axes *a, int64_t dim, int64_t step)
{
    const int last = a->n - 1;
    a->size *= dim;
    if (last >= 0 && a->step[last] == dim * step) {
        a->dim[last] *= dim, a->step[last] = step;
        return;
    }
    a->dim[a->n] = dim, a->step[a->n++] = step;
}

/* `in` folded over the axes of the mask, into elements of `out` from number `first` on. */
static mx_code fold_into(const mx_kernel_call *call, mx_fold fold, const mx_array *in, int mask, const mx_array *out,
                         int64_t first)
{
    folding f = {};
    int64_t step[MX_MAX_NDIM], running = 1;
    if (mask < 0)
        return mx_error_code();
    if (!out->size)
        return MX_OK;
    for (int axis = in->ndim - 1; axis >= 0; running *= in->shape[axis], axis--)
        step[axis] = running;
    f.kept.size = f.folded.size = 1;
    for (int axis = 0; axis < in->ndim; axis++)
        if (in->shape[axis] != 1)
            add_axis(mask >> axis & 1 ? &f.folded : &f.kept, in->shape[axis], step[axis]);
    if (!f.folded.size && MX_FOLD_HAS_NO_EMPTY(fold))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "an axis of size 0 has no %s",
                          fold == MX_FOLD_MAX ? "maximum" : "minimum");
    f.in = mx_data(in), f.out = (char *)mx_data(out) + first * mx_dtype_size((mx_dtype)out->dtype);
    f.in_type = in->dtype, f.out_type = out->dtype, f.fold = fold;
    const bool side_by_side = f.kept.n && f.kept.step[f.kept.n - 1] == 1 && f.kept.dim[f.kept.n - 1] >= 32;
    if (!mx_dtype_is_float(in->dtype) && !mx_dtype_is_float(out->dtype))
        return fold_as<int64_t>(call, f, side_by_side);
    return fold_as<double>(call, f, side_by_side);
}

static mx_code fold_array(const mx_kernel_call *call, mx_fold fold, int mask)
{
    return fold_into(call, fold, call->in[0], mask, call->out[0], 0);
}

static mx_code run_reduce(const mx_kernel_call *call)
{
    const mx_reduce_attrs *a = (const mx_reduce_attrs *)call->attrs;
    return fold_array(call, (mx_fold) * (const int *)call->op->user,
                      mx_fold_axes(call->op, &a->axis, a->exclude, call->in[0]->ndim));
}

static mx_code run_sum_to(const mx_kernel_call *call)
{
    const mx_shape_t in = mx_array_shape(call->in[0]), out = mx_array_shape(call->out[0]);
    return fold_array(call, MX_FOLD_SUM, mx_broadcast_axes(&in, &out));
}

static mx_code run_norm(const mx_kernel_call *call)
{
    const mx_norm_attrs *a = (const mx_norm_attrs *)call->attrs;
    return fold_array(call, a->ord == 1 ? MX_FOLD_NORM1 : MX_FOLD_NORM2,
                      mx_fold_axes(call->op, &a->axis, false, call->in[0]->ndim));
}

/* A result per array. */
static mx_code run_multi_sum_sq(const mx_kernel_call *call)
{
    mx_code code = MX_OK;
    for (int k = 0; !code && k < call->n_in; k++)
        code = fold_into(call, MX_FOLD_SQUARES, call->in[k], (1 << call->in[k]->ndim) - 1, call->out[0], k);
    return code;
}

MX_CUDA_KERNELS(reduce) = {{"sum", run_reduce, NULL},     {"mean", run_reduce, NULL},        {"prod", run_reduce, NULL},
                           {"nansum", run_reduce, NULL},  {"nanprod", run_reduce, NULL},     {"max", run_reduce, NULL},
                           {"min", run_reduce, NULL},     {"_square_sum", run_reduce, NULL}, {"norm", run_norm, NULL},
                           {"_sum_to", run_sum_to, NULL}, {"multi_sum_sq", run_multi_sum_sq, NULL}, {NULL, NULL, NULL}};
