/* LRN and running means of channels (IdentityAttachKLSparseReg).  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"

/* ---- LRN: a thread per element, which sums its window over the channels anew: windows are short ------------------ */

/* data is (outer, channels, inner) */
struct window {
    int64_t channels, inner, half;
    double constant, scale, beta;
    window(const mx_lrn_attrs *a, const mx_array *x) : channels(1), inner(1)
    {
        const mx_cuda_split s(x, x->ndim > 1 ? 1 : 0);
        if (x->ndim > 1)
            channels = s.n, inner = s.inner;
        half = a->nsize / 2, constant = a->knorm, scale = a->alpha / (double)a->nsize, beta = a->beta;
    }
    /* The sum of f(k) over the places k of the window of element i. */
    template <class T, class F> __device__ T sum(int64_t i, F f) const
    {
        const int64_t c = i / inner % channels, first = c < half ? 0 : c - half;
        const int64_t last = c + half < channels ? c + half : channels - 1;
        T all = 0;
        for (int64_t k = first - c; k <= last - c; k++)
            all += f(i + k * inner);
        return all;
    }
};

template <class T> static mx_code lrn(const mx_kernel_call *call)
{
    const window w((const mx_lrn_attrs *)call->attrs, call->in[0]);
    const T *x = (const T *)mx_data(call->in[0]);
    T *y = (T *)mx_data(call->out[0]), *norm = (T *)mx_data(call->out[1]);
    return mx_cuda_each(call, call->in[0]->size, [=] __device__(int64_t i) {
        norm[i] = (T)w.constant + (T)w.scale * w.sum<T>(i, [=](int64_t k) { return x[k] * x[k]; });
        y[i] = x[i] * pow(norm[i], (T)-w.beta);
    });
}

template <class T> static mx_code window_sum(const mx_kernel_call *call)
{
    const window w((const mx_lrn_attrs *)call->attrs, call->in[0]);
    const T *x = (const T *)mx_data(call->in[0]);
    T *y = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, call->in[0]->size,
                        [=] __device__(int64_t i) { y[i] = w.sum<T>(i, [=](int64_t k) { return x[k]; }); });
}

/* inputs: ograd, data, norm; dx = g norm^-beta - 2 beta scale x sum over the window of g x norm^(-beta - 1) */
template <class T> static mx_code lrn_backward(const mx_kernel_call *call)
{
    const window w((const mx_lrn_attrs *)call->attrs, call->in[1]);
    const T *g = (const T *)mx_data(call->in[0]), *x = (const T *)mx_data(call->in[1]),
            *norm = (const T *)mx_data(call->in[2]);
    const T factor = (T)(2 * w.beta * w.scale);
    T *dx = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, call->in[1]->size, [=] __device__(int64_t i) {
        const T around = w.sum<T>(i, [=](int64_t k) { return g[k] * x[k] * pow(norm[k], (T)(-w.beta - 1)); });
        dx[i] = g[i] * pow(norm[i], (T)-w.beta) - factor * x[i] * around;
    });
}

/* ---- the data passed on, while training running means of its channels -------------------------------------------- */

template <class T> static mx_code means(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || !x->size)
        return d ? MX_OK : mx_error_code();
    const T *from = (const T *)mx_data(x);
    T *mean = (T *)mx_data(call->in[1]);
    if (mx_data(call->out[0]) != mx_data(x) &&
        mx_cuda_fail(cudaMemcpyAsync(mx_data(call->out[0]), from, mx_bytes(x), cudaMemcpyDeviceToDevice, d->stream),
                     call->op->name))
        return mx_error_code();
    if (!call->training)
        return MX_OK;
    const mx_cuda_split s(x, 1);
    const double momentum = ((const mx_sparse_reg_attrs *)call->attrs)->momentum;
    return mx_cuda_rows(call, s.n, s.outer * s.inner, [=] __device__(int64_t c) {
        double mine = 0;
        for (int64_t i = threadIdx.x; i < s.outer * s.inner; i += blockDim.x)
            mine += (double)from[(i / s.inner * s.n + c) * s.inner + i % s.inner];
        const double sum = mx_cuda_block_sum(mine);
        if (!threadIdx.x)
            mean[c] = (T)(momentum * (double)mean[c] + (1 - momentum) * sum / (double)(s.outer * s.inner));
    });
}

MX_CUDA_FLOATS(run_lrn, lrn)
MX_CUDA_FLOATS(run_window, window_sum)
MX_CUDA_FLOATS(run_lrn_backward, lrn_backward)
MX_CUDA_FLOATS(run_means, means)

MX_CUDA_KERNELS(lrn) = {{"LRN", run_lrn, NULL},
                        {"_channel_window_sum", run_window, NULL},
                        {"_backward_LRN", run_lrn_backward, NULL},
                        {"IdentityAttachKLSparseReg", run_means, NULL},
                        {NULL, NULL, NULL}};
