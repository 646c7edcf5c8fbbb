/* Mean and variance: a block per result, the mean first, then the squares of what is left.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"
extern "C" {
#include "op/formula/reduce.h"
}

/* Elements of an array in two groups of axes, the last ones first: those that are kept, and those that are reduced. */
struct fold {
    int kept, folded;
    int64_t kept_dim[MX_MAX_NDIM], kept_step[MX_MAX_NDIM], dim[MX_MAX_NDIM], step[MX_MAX_NDIM];
    int64_t count; /* elements of one result */
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

MX_CUDA_KERNELS(moments) = {{"moments", run_moments, NULL}, {NULL, NULL, NULL}};
