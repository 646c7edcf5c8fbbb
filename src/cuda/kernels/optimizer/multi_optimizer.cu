/* Optimizer updates of several tensors in one call: one launch each, LAMB four.
 *
 * Learning rates, decays and scales that are arrays are read by the kernels, never by the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/optimizer/optimizer.h"
extern "C" {
#include "op/formula/multi_optimizer.h"
}

#define PARTS 64 /* blocks that sum one tensor */

static mx_cuda_number number_at(const mx_array *x, int64_t i)
{
    return {(const char *)mx_data(x) + i * mx_dtype_size((mx_dtype)x->dtype), x->dtype};
}

/* Tensor t of the call, as the CPU's kernel reads it: weight, grad, states, 32-bit weight; rates after all groups. */
static void describe(const mx_kernel_call *call, int t, mx_cuda_tensor *x)
{
    const mx_multi_use *use = (const mx_multi_use *)call->op->user;
    const int group = mx_multi_group(use), groups = group * call->n_out;
    mx_array *const *in = call->in + t * group, *out = call->out[t], *weight = in[use->precision ? group - 1 : 0];
    *x = {};
    x->from = weight, x->grad = in[1], x->size = out->size;
    x->to = use->precision ? weight : call->out[t], x->copy = use->precision ? call->out[t] : nullptr;
    for (int i = 0; i < use->states; i++)
        x->state[i] = in[2 + i];
    for (int i = 0; i < use->tail; i++)
        x->number[i] = number_at(call->in[groups + i], use->tail == 2 ? t : 0);
    mx_multi_constants(call->op, call->attrs, t, &x->k);
}

/* ---- LAMB -------------------------------------------------------------------------------------------------------- */

struct pair {
    const void *x[2]; /* weight and direction */
    int type[2];
    int64_t size;
};
namespace /* the name is also used elsewhere */
{
struct pairs {
    pair of[MX_MAX_OUTPUTS];
};
} // namespace

/* Block (part, tensor) sums the squares of its part of both arrays: parts (tensors, 2, PARTS). */
static __global__ void sum_squares(const __grid_constant__ pairs all, double *parts)
{
    const pair &p = all.of[blockIdx.y];
    for (int which = 0; which < 2; which++) {
        double sum = 0;
        for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < p.size; i += (int64_t)PARTS * blockDim.x) {
            const double v = mx_cuda_load<double>(p.x[which], p.type[which], i);
            sum += v * v;
        }
        sum = mx_cuda_block_sum(sum);
        if (!threadIdx.x)
            parts[(blockIdx.y * 2 + which) * PARTS + blockIdx.x] = sum;
    }
}

static __global__ void finish_norms(const double *parts, double *norms)
{
    const double sum = mx_cuda_block_sum(threadIdx.x < PARTS ? parts[(int64_t)blockIdx.x * PARTS + threadIdx.x] : 0.);
    if (!threadIdx.x)
        norms[blockIdx.x] = sqrt(sum);
}

/* The norms of weights and directions: norms (n, 2). */
static mx_code find_norms(const mx_kernel_call *call, mx_cuda_device *d, int n, const mx_cuda_tensor *x, double *norms)
{
    mx_cuda_scratch parts(d, (size_t)n * 2 * PARTS * sizeof(double));
    pairs all;
    if (!parts.memory)
        return mx_error_code();
    for (int t = 0; t < n; t++)
        all.of[t] = {{mx_data(x[t].from), mx_data(x[t].to)}, {x[t].from->dtype, x[t].to->dtype}, x[t].size};
    sum_squares<<<dim3(PARTS, (unsigned)n), MX_CUDA_BLOCK, 0, d->stream>>>(all, parts.as<double>());
    finish_norms<<<(unsigned)n * 2, PARTS, 0, d->stream>>>(parts.as<double>(), norms);
    return mx_cuda_launched(call);
}

/* Both phases: the directions are written to scratch arrays, then the norms of both scale the steps. */
static mx_code lamb(const mx_kernel_call *call, mx_dtype compute, int n, mx_cuda_tensor *x)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    mx_cuda_scratch norms(d, (size_t)n * 2 * sizeof(double));
    mx_array *direction[MX_MAX_OUTPUTS], *to[MX_MAX_OUTPUTS], *copy[MX_MAX_OUTPUTS];
    mx_code code = norms.memory ? MX_OK : mx_error_code();
    int made = 0;
    for (; !code && made < n; made++) {
        const mx_shape_t shape = mx_array_shape(x[made].to);
        to[made] = x[made].to, copy[made] = x[made].copy;
        x[made].copy = nullptr;
        x[made].to = direction[made] = mx_array_new(&shape, compute, x[made].to->context);
        code = direction[made] ? MX_OK : mx_error_code();
    }
    code = code ? code : mx_cuda_update(call, MX_UPDATE_lamb_update_phase1, compute, n, x);
    code = code ? code : find_norms(call, d, n, x, norms.as<double>());
    for (int t = 0; !code && t < n; t++) {
        x[t].grad = direction[t], x[t].to = to[t], x[t].copy = copy[t];
        for (int i = 0; i < 2; i++)
            x[t].number[i] = {norms.as<double>() + t * 2 + i, MX_FLOAT64};
    }
    code = code ? code : mx_cuda_update(call, MX_UPDATE_lamb_update_phase2, compute, n, x);
    for (int t = 0; t < made; t++)
        mx_release(direction[t]);
    return code;
}

/* ---- operators --------------------------------------------------------------------------------------------------- */

static mx_code run_multi(const mx_kernel_call *call)
{
    const mx_multi_use *use = (const mx_multi_use *)call->op->user;
    const mx_dtype compute = mx_cuda_compute_type(call);
    mx_cuda_tensor x[MX_MAX_OUTPUTS];
    for (int i = 0; i < call->n_in; i++)
        if (!mx_dtype_is_float(call->in[i]->dtype))
            return MX_DECLINED;
    for (int t = 0; t < call->n_out; t++)
        describe(call, t, &x[t]);
    return use->row == MX_UPDATE_lamb_update_phase1 ? lamb(call, compute, call->n_out, x)
                                                    : mx_cuda_update(call, use->row, compute, call->n_out, x);
}

/* lr eta |w| / (rescale |g| + wd |w| + eps) where both norms are positive */
static mx_code run_lars(const mx_kernel_call *call)
{
    const mx_multi_lars_attrs attrs = *(const mx_multi_lars_attrs *)call->attrs;
    mx_cuda_number in[4];
    for (int i = 0; i < 4; i++)
        in[i] = {mx_data(call->in[i]), call->in[i]->dtype};
    if (!mx_dtype_is_float(call->in[0]->dtype))
        return MX_DECLINED;
    const mx_cuda_number lr = in[0], weights = in[1], grads = in[2], wd = in[3];
    void *out = mx_data(call->out[0]);
    const int type = call->out[0]->dtype;
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        const double w = sqrt(mx_cuda_load<double>(weights.data, weights.type, i));
        const double g = sqrt(mx_cuda_load<double>(grads.data, grads.type, i)) * attrs.rescale_grad;
        const double below = g + mx_cuda_load<double>(wd.data, wd.type, i) * w + attrs.eps;
        mx_cuda_store<double>(out, type, i,
                              mx_cuda_load<double>(lr.data, lr.type, i) * (w > 0 && g > 0 ? attrs.eta * w / below : 1));
    });
}

/* One history per row. */
template <class T> static mx_code group_adagrad(const mx_kernel_call *call)
{
    const mx_group_adagrad_attrs *attrs = (const mx_group_adagrad_attrs *)call->attrs;
    const int64_t rows = call->in[0]->shape[0], n = rows ? call->in[0]->size / rows : 0;
    const T rescale = (T)attrs->rescale_grad, limit = attrs->clip_gradient < 0 ? (T)INFINITY : (T)attrs->clip_gradient;
    const T lr = (T)attrs->lr, epsilon = (T)attrs->epsilon;
    const T *weight = (const T *)mx_data(call->in[0]), *grad = (const T *)mx_data(call->in[1]);
    T *history = (T *)mx_data(call->in[2]), *out = (T *)mx_data(call->out[0]);
    return mx_cuda_rows(call, n ? rows : 0, n, [=] __device__(int64_t row) {
        const T *g = grad + row * n;
        double sum = 0;
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const T scaled = g[i] * rescale, d = scaled < -limit ? -limit : scaled > limit ? limit : scaled;
            sum += (double)(d * d);
        }
        const T past = history[row] + (T)(mx_cuda_block_sum(sum) / (double)n), step = lr / sqrt(past + epsilon);
        for (int64_t i = threadIdx.x; i < n; i += blockDim.x) {
            const T scaled = g[i] * rescale, d = scaled < -limit ? -limit : scaled > limit ? limit : scaled;
            out[row * n + i] = weight[row * n + i] - step * d;
        }
        __syncthreads(); /* all have read the history */
        if (!threadIdx.x)
            history[row] = past;
    });
}
MX_CUDA_FLOATS(run_group_adagrad, group_adagrad)

static mx_code run_reset(const mx_kernel_call *call)
{
    mx_cuda_device *d = mx_cuda_of(call);
    cudaError_t status = cudaSuccess;
    for (int i = 0; d && status == cudaSuccess && i < call->n_in; i++)
        if (call->in[i]->size)
            status = cudaMemsetAsync(mx_data(call->in[i]), 0, mx_bytes(call->in[i]), d->stream);
    return d ? mx_cuda_fail(status, call->op->name) : mx_error_code();
}

MX_CUDA_KERNELS(multi_optimizer) = {{"multi_sgd_update", run_multi, NULL},
                                    {"multi_sgd_mom_update", run_multi, NULL},
                                    {"multi_mp_sgd_update", run_multi, NULL},
                                    {"multi_mp_sgd_mom_update", run_multi, NULL},
                                    {"preloaded_multi_sgd_update", run_multi, NULL},
                                    {"preloaded_multi_sgd_mom_update", run_multi, NULL},
                                    {"preloaded_multi_mp_sgd_update", run_multi, NULL},
                                    {"preloaded_multi_mp_sgd_mom_update", run_multi, NULL},
                                    {"_multi_adamw_update", run_multi, NULL},
                                    {"_multi_mp_adamw_update", run_multi, NULL},
                                    {"_multi_lamb_update", run_multi, NULL},
                                    {"_multi_mp_lamb_update", run_multi, NULL},
                                    {"multi_lars", run_lars, NULL},
                                    {"_contrib_group_adagrad_update", run_group_adagrad, NULL},
                                    {"reset_arrays", run_reset, NULL},
                                    {NULL, NULL, NULL}};
