/* Softmax, its gradients and cross entropy: one block per row.  SPDX-License-Identifier: Apache-2.0 */
#include <cmath>

#include "cuda/kernels/softmax.h"

/* Rows of n values that stand `inner` apart. */
struct rows {
    int64_t count, n, inner;
    rows(const mx_array *x, int64_t axis)
    {
        const mx_cuda_split s(x, mx_axis(axis, x->ndim));
        count = s.outer * s.inner, n = s.n, inner = s.inner;
    }
    __device__ int64_t start(int64_t row) const { return row / inner * n * inner + row % inner; }
};

struct lengths {
    const void *data; /* NULL: all values count */
    int type;
    __device__ int64_t of(int64_t row, int64_t n) const
    {
        if (!data)
            return n;
        const int64_t k = mx_cuda_load<int64_t>(data, type, row);
        return k < 0 ? 0 : k > n ? n : k;
    }
};

template <class T> static mx_code forward(const mx_kernel_call *call, const rows &r, double factor, bool logarithm, lengths l)
{
    const T *x = (const T *)mx_data(call->in[0]), scale = (T)factor;
    T *y = (T *)mx_data(call->out[0]);
    return mx_cuda_rows(call, r.count, r.n, [=] __device__(int64_t row) {
        const int64_t at = r.start(row), valid = l.of(row, r.n);
        T most;
        const T sum = mx_cuda_softmax_sum(x + at, r.inner, valid, scale, &most), logarithm_of_sum = log(sum);
        for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x) {
            const T v = x[at + i * r.inner] * scale - most;
            y[at + i * r.inner] = i >= valid ? 0 : logarithm ? v - logarithm_of_sum : exp(v) / sum;
        }
    });
}

static double factor_of(const mx_softmax_attrs *a, double sign) { return sign / (std::isnan(a->temperature) ? 1 : a->temperature); }

template <class T> static mx_code softmax_kind(const mx_kernel_call *call, bool logarithm, double sign)
{
    const mx_softmax_attrs *a = (const mx_softmax_attrs *)call->attrs;
    lengths l = {};
    if (a->use_length && mx_is_none(call->in[1]))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "use_length is True, but the input length is absent");
    if (a->use_length)
        l = {mx_data(call->in[1]), call->in[1]->dtype};
    return forward<T>(call, rows(call->in[0], a->axis), factor_of(a, sign), logarithm, l);
}
template <class T> static mx_code softmax(const mx_kernel_call *call) { return softmax_kind<T>(call, false, 1); }
template <class T> static mx_code log_softmax(const mx_kernel_call *call) { return softmax_kind<T>(call, true, 1); }
template <class T> static mx_code softmin(const mx_kernel_call *call) { return softmax_kind<T>(call, false, -1); }

/* dx = scale y (g - sum g y), of the logarithm: scale (g - exp(y) sum g) */
template <class T> static mx_code backward_kind(const mx_kernel_call *call, bool logarithm, double sign)
{
    const mx_softmax_attrs *a = (const mx_softmax_attrs *)call->attrs;
    const rows r(call->in[0], a->axis);
    const T *g = (const T *)mx_data(call->in[0]), *y = (const T *)mx_data(call->in[1]), scale = (T)factor_of(a, sign);
    T *dx = (T *)mx_data(call->out[0]);
    return mx_cuda_rows(call, r.count, r.n, [=] __device__(int64_t row) {
        const int64_t at = r.start(row);
        T mine = 0;
        for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x)
            mine += g[at + i * r.inner] * (logarithm ? (T)1 : y[at + i * r.inner]);
        const T total = mx_cuda_block_sum(mine);
        for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x) {
            const int64_t k = at + i * r.inner;
            dx[k] = scale * (logarithm ? g[k] - exp(y[k]) * total : y[k] * (g[k] - total));
        }
    });
}
template <class T> static mx_code backward_softmax(const mx_kernel_call *call) { return backward_kind<T>(call, false, 1); }
template <class T> static mx_code backward_log_softmax(const mx_kernel_call *call) { return backward_kind<T>(call, true, 1); }
template <class T> static mx_code backward_softmin(const mx_kernel_call *call) { return backward_kind<T>(call, false, -1); }

template <class T> static mx_code activation(const mx_kernel_call *call)
{
    rows r(call->in[0], 1);
    if (((const mx_softmax_activation_attrs *)call->attrs)->mode == MX_SOFTMAX_ACTIVATION_INSTANCE)
        r.n *= r.inner, r.count /= r.inner ? r.inner : 1, r.inner = 1;
    return forward<T>(call, r, 1, false, {});
}

/* ---- cross entropy ---------------------------------------------------------------------------------------------- */

/* Class numbers (limited to [0, n)) or distributions. */
template <class T> struct labels {
    const void *data;
    int type;
    bool sparse;
    __device__ int64_t of(int64_t row, int64_t n) const
    {
        const int64_t k = mx_cuda_load<int64_t>(data, type, row);
        return k < 0 ? 0 : k >= n ? n - 1 : k;
    }
    __device__ T at(int64_t k) const { return ((const T *)data)[k]; }
};

/* loss = lse - x[label], or sum of label (lse - x) */
template <class T> static mx_code entropy(const mx_kernel_call *call, int64_t axis, bool sparse, T *loss)
{
    const rows r(call->in[0], axis);
    if (!r.n)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "there are no classes: the axis has size 0");
    const T *x = (const T *)mx_data(call->in[0]);
    T *lse = (T *)mx_data(call->out[1]);
    const labels<T> label = {mx_data(call->in[1]), call->in[1]->dtype, sparse};
    return mx_cuda_rows(call, r.count, r.n, [=] __device__(int64_t row) {
        const int64_t at = r.start(row);
        T most, mine = 0;
        const T total = log(mx_cuda_softmax_sum(x + at, r.inner, r.n, (T)1, &most)) + most;
        for (int64_t i = threadIdx.x; !label.sparse && i < r.n; i += blockDim.x)
            mine += label.at(at + i * r.inner) * (total - x[at + i * r.inner]);
        const T sum = label.sparse ? total - x[at + label.of(row, r.n) * r.inner] : mx_cuda_block_sum(mine);
        if (!threadIdx.x)
            loss[row] = sum, lse[row] = total;
    });
}

template <class T> static mx_code cross_entropy(const mx_kernel_call *call)
{
    const mx_softmax_ce_attrs *a = (const mx_softmax_ce_attrs *)call->attrs;
    return entropy<T>(call, a->axis, a->sparse_label, (T *)mx_data(call->out[0]));
}

/* inputs: ograd, pred, label, lse; dx = g (softmax - label), a distribution's softmax times its sum */
template <class T> static mx_code backward_cross_entropy(const mx_kernel_call *call)
{
    const mx_softmax_ce_attrs *a = (const mx_softmax_ce_attrs *)call->attrs;
    const rows r(call->in[1], a->axis);
    const T *g = (const T *)mx_data(call->in[0]), *x = (const T *)mx_data(call->in[1]), *lse = (const T *)mx_data(call->in[3]);
    const labels<T> label = {mx_data(call->in[2]), call->in[2]->dtype, a->sparse_label};
    T *dx = (T *)mx_data(call->out[0]);
    return mx_cuda_rows(call, r.count, r.n, [=] __device__(int64_t row) {
        const int64_t at = r.start(row), hit = label.sparse ? label.of(row, r.n) : -1;
        T mine = 0;
        for (int64_t i = threadIdx.x; !label.sparse && i < r.n; i += blockDim.x)
            mine += label.at(at + i * r.inner);
        const T weight = label.sparse ? (T)1 : mx_cuda_block_sum(mine);
        for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x) {
            const int64_t k = at + i * r.inner;
            dx[k] = g[row] * (weight * exp(x[k] - lse[row]) - (label.sparse ? (T)(i == hit) : label.at(k)));
        }
    });
}

MX_CUDA_FLOATS(run_softmax, softmax)
MX_CUDA_FLOATS(run_log_softmax, log_softmax)
MX_CUDA_FLOATS(run_softmin, softmin)
MX_CUDA_FLOATS(run_backward_softmax, backward_softmax)
MX_CUDA_FLOATS(run_backward_log_softmax, backward_log_softmax)
MX_CUDA_FLOATS(run_backward_softmin, backward_softmin)
MX_CUDA_FLOATS(run_activation, activation)
MX_CUDA_FLOATS(run_ce, cross_entropy)
MX_CUDA_FLOATS(run_backward_ce, backward_cross_entropy)

MX_CUDA_KERNELS(softmax) = {{"softmax", run_softmax, NULL},
                            {"log_softmax", run_log_softmax, NULL},
                            {"softmin", run_softmin, NULL},
                            {"_backward_softmax", run_backward_softmax, NULL},
                            {"_backward_log_softmax", run_backward_log_softmax, NULL},
                            {"_backward_softmin", run_backward_softmin, NULL},
                            {"SoftmaxActivation", run_activation, NULL},
                            {"_softmax_ce", run_ce, NULL},
                            {"_backward_softmax_ce", run_backward_ce, NULL},
                            {NULL, NULL, NULL}};
