/* L2Normalization and LRN.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"

namespace
{

/* ---- L2Normalization: a block per row, sums in double ------------------------------------------------------------- */

struct rows {
    int64_t count, n, inner; /* values of a row are `inner` apart */
    __device__ int64_t start(int64_t row) const { return row / inner * n * inner + row % inner; }
};

static rows l2_rows(const mx_array *x, int mode)
{
    rows r = {1, 1, 1};
    for (int i = 0; i < x->ndim; i++)
        *(mode == MX_L2_NORMALIZATION_INSTANCE  ? (i ? &r.n : &r.count)
          : mode == MX_L2_NORMALIZATION_SPATIAL ? (i > 1 ? &r.n : &r.count)
          : i == 0                              ? &r.count
          : i == 1                              ? &r.n
                                                : &r.inner) *= x->shape[i];
    r.count *= r.inner;
    return r;
}

template <class T> static mx_code l2(const mx_kernel_call *call)
{
    const mx_l2_normalization_attrs *a = (const mx_l2_normalization_attrs *)call->attrs;
    const rows r = l2_rows(call->in[0], a->mode);
    const T *x = (const T *)mx_data(call->in[0]);
    T *y = (T *)mx_data(call->out[0]), *norms = (T *)mx_data(call->out[1]);
    const double eps = a->eps;
    return mx_cuda_rows(call, r.count, r.n, [=] __device__(int64_t row) {
        const int64_t at = r.start(row);
        double squares = 0;
        for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x)
            squares += (double)x[at + i * r.inner] * (double)x[at + i * r.inner];
        const double size = sqrt(mx_cuda_block_sum(squares) + eps);
        if (!threadIdx.x)
            norms[row] = (T)size;
        for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x)
            y[at + i * r.inner] = x[at + i * r.inner] * (T)(1 / size);
    });
}

/* inputs: ograd, output, norm; dx = (g - y sum(g y)) / norm */
template <class T> static mx_code l2_backward(const mx_kernel_call *call)
{
    const rows r = l2_rows(call->in[0], ((const mx_l2_normalization_attrs *)call->attrs)->mode);
    const T *g = (const T *)mx_data(call->in[0]), *y = (const T *)mx_data(call->in[1]),
            *norms = (const T *)mx_data(call->in[2]);
    T *dx = (T *)mx_data(call->out[0]);
    return mx_cuda_rows(call, r.count, r.n, [=] __device__(int64_t row) {
        const int64_t at = r.start(row);
        double products = 0;
        for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x)
            products += (double)g[at + i * r.inner] * (double)y[at + i * r.inner];
        const T sum = (T)mx_cuda_block_sum(products), inverse = 1 / norms[row];
        for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x)
            dx[at + i * r.inner] = (g[at + i * r.inner] - y[at + i * r.inner] * sum) * inverse;
    });
}

/* ---- LRN: a thread per element, which sums its window over the channels: windows are short ----------------------- */

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

MX_CUDA_FLOATS(run_l2, l2)
MX_CUDA_FLOATS(run_l2_backward, l2_backward)
MX_CUDA_FLOATS(run_lrn, lrn)
MX_CUDA_FLOATS(run_window, window_sum)
MX_CUDA_FLOATS(run_lrn_backward, lrn_backward)

} // namespace

MX_CUDA_KERNELS(normalize) = {{"L2Normalization", run_l2, NULL},
                              {"_backward_L2Normalization", run_l2_backward, NULL},
                              {"LRN", run_lrn, NULL},
                              {"_channel_window_sum", run_window, NULL},
                              {"_backward_LRN", run_lrn_backward, NULL},
                              {NULL, NULL, NULL}};
