/* Moments and running sums.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/reduce/scan.h"
extern "C" {
#include "op/formula/reduce.h"
}

/* ---- moments: a block per result, the mean first, then the squares of what is left ------------------------------- */

/* Elements of an array in two groups of axes, the last ones first: those that stay, and those that are folded. */
struct fold {
    int kept, folded;
    int64_t kept_dim[MX_MAX_NDIM], kept_step[MX_MAX_NDIM], dim[MX_MAX_NDIM], step[MX_MAX_NDIM];
    int64_t count; /* elements behind one result */
};

static __device__ int64_t walk(const int64_t *dim, const int64_t *step, int n, int64_t i)
{
    int64_t at = 0;
    for (int axis = 0; axis < n; i /= dim[axis], axis++)
        at += i % dim[axis] * step[axis];
    return at;
}

static fold fold_of(const mx_array *x, int mask)
{
    fold f = {0, 0, {}, {}, {}, {}, 1};
    int64_t step = 1;
    for (int axis = x->ndim - 1; axis >= 0; step *= x->shape[axis], axis--)
        if (mask >> axis & 1)
            f.dim[f.folded] = x->shape[axis], f.step[f.folded++] = step, f.count *= x->shape[axis];
        else
            f.kept_dim[f.kept] = x->shape[axis], f.kept_step[f.kept++] = step;
    return f;
}

static mx_code run_moments(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    const int mask = mx_fold_axes(call->op, &((const mx_moments_attrs *)call->attrs)->axes, false, x->ndim);
    if (mask < 0)
        return mx_error_code();
    const fold f = fold_of(x, mask);
    const void *from = mx_data(x);
    void *mean = mx_data(call->out[0]), *var = mx_data(call->out[1]);
    const int type = x->dtype, mean_type = call->out[0]->dtype, var_type = call->out[1]->dtype;
    return mx_cuda_rows(call, call->out[0]->size, f.count, [=] __device__(int64_t i) {
        const int64_t base = walk(f.kept_dim, f.kept_step, f.kept, i);
        double sum = 0, squares = 0;
        for (int64_t k = threadIdx.x; k < f.count; k += blockDim.x)
            sum += mx_cuda_load<double>(from, type, base + walk(f.dim, f.step, f.folded, k));
        const double middle = mx_cuda_block_sum(sum) / (double)f.count;
        for (int64_t k = threadIdx.x; k < f.count; k += blockDim.x) {
            const double away = mx_cuda_load<double>(from, type, base + walk(f.dim, f.step, f.folded, k)) - middle;
            squares += away * away;
        }
        const double spread = mx_cuda_block_sum(squares) / (double)f.count;
        if (!threadIdx.x) {
            mx_cuda_store<double>(mean, mean_type, i, middle);
            mx_cuda_store<double>(var, var_type, i, spread);
        }
    });
}

/* ---- running sums: (outer, n, inner) along n, in doubles or int64 ------------------------------------------------ */

#define MANY 4096    /* columns that keep the device busy with one thread each */
#define STRETCH 4096 /* elements of a column that one block adds up; more blocks take the next ones */

template <class C> struct columns {
    mx_cuda_split s;
    const void *from;
    void *to;
    int type, out_type;
    __device__ int64_t start(int64_t column) const { return column / s.inner * s.n * s.inner + column % s.inner; }
    __device__ C get(int64_t start, int64_t k) const { return mx_cuda_load<C>(from, type, start + k * s.inner); }
    __device__ void put(int64_t start, int64_t k, C sum) const
    {
        mx_cuda_store<C>(to, out_type, start + k * s.inner, sum);
    }
};

/* sums (columns, stretches): of everything up to the end of each stretch */
template <class C>
static mx_code sum_stretches(const mx_kernel_call *call, const columns<C> &x, int64_t count, int64_t stretches, C *sums)
{
    const mx_code code = mx_cuda_rows(call, count * stretches, STRETCH, [=] __device__(int64_t unit) {
        const int64_t at = x.start(unit / stretches), first = unit % stretches * STRETCH;
        C mine = 0;
        for (int64_t k = first + threadIdx.x; k < x.s.n && k < first + STRETCH; k += blockDim.x)
            mine += x.get(at, k);
        const C sum = mx_cuda_block_sum(mine);
        if (!threadIdx.x)
            sums[unit] = sum;
    });
    return code ? code : mx_cuda_rows(call, count, stretches, [=] __device__(int64_t c) {
        C *mine = sums + c * stretches;
        mx_cuda_block_scan<C>(
            stretches, [=](int64_t i) { return mine[i]; }, [=](int64_t i, C sum) { mine[i] = sum; });
    });
}

template <class C> static mx_code running(const mx_kernel_call *call, const mx_cuda_split &s)
{
    const columns<C> x = {s, mx_data(call->in[0]), mx_data(call->out[0]), call->in[0]->dtype, call->out[0]->dtype};
    const int64_t count = s.outer * s.inner, stretches = (s.n + STRETCH - 1) / STRETCH;
    if (count >= MANY)
        return mx_cuda_each(call, count, [=] __device__(int64_t c) {
            const int64_t at = x.start(c);
            C sum = 0;
            for (int64_t k = 0; k < s.n; k++) {
                sum += x.get(at, k);
                x.put(at, k, sum);
            }
        });
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    mx_cuda_scratch room(d, stretches > 1 ? (size_t)(count * stretches) * sizeof(C) : 0);
    C *sums = room.as<C>();
    const mx_code code = stretches == 1 ? MX_OK
                         : sums         ? sum_stretches(call, x, count, stretches, sums)
                                        : mx_error_code();
    return code ? code : mx_cuda_rows(call, count * stretches, s.n, [=] __device__(int64_t unit) {
        const int64_t at = x.start(unit / stretches), first = unit % stretches * STRETCH;
        const int64_t n = s.n - first < STRETCH ? s.n - first : STRETCH;
        mx_cuda_block_scan<C>(
            n, [=](int64_t k) { return x.get(at, first + k); }, [=](int64_t k, C sum) { x.put(at, first + k, sum); },
            first ? sums[unit - 1] : (C)0);
    });
}

static mx_code run_cumsum(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    const int64_t axis = ((const mx_cumsum_attrs *)call->attrs)->axis;
    if (!x->size)
        return MX_OK;
    const bool flat = axis == MX_NONE_INT || !x->ndim;
    mx_cuda_split s(x, flat ? 0 : mx_axis(axis, x->ndim));
    if (flat)
        s.outer = s.inner = 1, s.n = x->size;
    const bool integer = !mx_dtype_is_float(x->dtype) && !mx_dtype_is_float(call->out[0]->dtype);
    return integer ? running<int64_t>(call, s) : running<double>(call, s);
}

MX_CUDA_KERNELS(stats) = {{"moments", run_moments, NULL}, {"_np_cumsum", run_cumsum, NULL}, {NULL, NULL, NULL}};
