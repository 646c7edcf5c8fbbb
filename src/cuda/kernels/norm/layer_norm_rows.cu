/* LayerNorm (over an axis), GroupNorm and InstanceNorm (over groups of channels) by a block per row: every type and
 * size.  Tried after layer_norm.cu, whose name comes first.
 *
 * Sums are in double, of x - shift, where shift is the first element, so that large means cost no precision.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"

namespace
{

struct pair {
    double a, b;
};

static __device__ pair block_sums(double a, double b) { return {mx_cuda_block_sum(a), mx_cuda_block_sum(b)}; }

struct rows {
    int64_t count, n, inner; /* values of a row are `inner` apart */
    int64_t groups;          /* parameters belong to row % groups; 0: to the values */
    double eps;
    __device__ int64_t start(int64_t row) const { return row / inner * n * inner + row % inner; }
    __device__ int64_t parameter(int64_t row, int64_t i) const { return groups ? row % groups : i; }
};

static rows along(const mx_array *x, int64_t axis)
{
    const mx_cuda_split s(x, mx_axis(axis, x->ndim));
    return {s.outer * s.inner, s.n, s.inner, 0, 0};
}

static rows in_groups(const mx_array *x, int64_t groups)
{
    const int64_t count = x->shape[0] * groups;
    return {count, count ? x->size / count : 0, 1, groups, 0};
}

template <class T> static mx_code normalise_rows(const mx_kernel_call *call, rows r)
{
    const T *x = (const T *)mx_data(call->in[0]), *gamma = (const T *)mx_data(call->in[1]),
            *beta = (const T *)mx_data(call->in[2]);
    T *y = (T *)mx_data(call->out[0]), *mean = (T *)mx_data(call->out[1]), *deviation = (T *)mx_data(call->out[2]);
    return mx_cuda_rows(call, r.count, r.n, [=] __device__(int64_t row) {
        const int64_t at = r.start(row);
        const double shift = r.n ? (double)x[at] : 0;
        double sum = 0, squares = 0;
        for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x) {
            const double v = x[at + i * r.inner] - shift;
            sum += v, squares += v * v;
        }
        const pair sums = block_sums(sum, squares);
        const double offset = sums.a / r.n, center = shift + offset;
        const double std = sqrt(fmax(sums.b / r.n - offset * offset, 0.) + r.eps);
        if (!threadIdx.x)
            mean[row] = (T)center, deviation[row] = (T)std;
        const T middle = (T)center, inverse = (T)(1 / std);
        for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x)
            y[at + i * r.inner] =
                (x[at + i * r.inner] - middle) * inverse * gamma[r.parameter(row, i)] + beta[r.parameter(row, i)];
    });
}

template <class T> static mx_code layer_norm(const mx_kernel_call *call)
{
    const mx_layer_norm_attrs *a = (const mx_layer_norm_attrs *)call->attrs;
    rows r = along(call->in[0], a->axis);
    r.eps = a->eps;
    return normalise_rows<T>(call, r);
}
template <class T> static mx_code instance_norm(const mx_kernel_call *call)
{
    rows r = in_groups(call->in[0], call->in[0]->shape[1]);
    r.eps = ((const mx_instance_norm_attrs *)call->attrs)->eps;
    return normalise_rows<T>(call, r);
}
template <class T> static mx_code group_norm(const mx_kernel_call *call)
{
    const mx_group_norm_attrs *a = (const mx_group_norm_attrs *)call->attrs;
    rows r = in_groups(call->in[0], a->num_groups);
    r.eps = a->eps;
    return normalise_rows<T>(call, r);
}

/* With h = g gamma and z = (x - mean) / std:  dx = (h - mean(h) - z mean(h z)) / std */
template <class T> static mx_code rows_data_grad(const mx_kernel_call *call, const rows &r)
{
    const T *g = (const T *)mx_data(call->in[0]), *x = (const T *)mx_data(call->in[1]),
            *gamma = (const T *)mx_data(call->in[2]);
    const T *mean = (const T *)mx_data(call->in[3]), *deviation = (const T *)mx_data(call->in[4]);
    const T *addend = call->n_in > 5 ? (const T *)mx_data(call->in[5]) : nullptr;
    T *dx = (T *)mx_data(call->out[0]);
    return mx_cuda_rows(call, r.count, r.n, [=] __device__(int64_t row) {
        const int64_t at = r.start(row);
        const T middle = mean[row], inverse = 1 / deviation[row];
        double sum = 0, products = 0;
        for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x) {
            const double h = g[at + i * r.inner] * gamma[r.parameter(row, i)];
            sum += h, products += h * ((x[at + i * r.inner] - middle) * inverse);
        }
        const pair sums = block_sums(sum, products);
        const T mean_h = (T)(sums.a / r.n), mean_hz = (T)(sums.b / r.n);
        for (int64_t i = threadIdx.x; i < r.n; i += blockDim.x) {
            const int64_t k = at + i * r.inner;
            const T z = (x[k] - middle) * inverse;
            dx[k] = (g[k] * gamma[r.parameter(row, i)] - mean_h - z * mean_hz) * inverse + (addend ? addend[k] : 0);
        }
    });
}

/* dgamma = sum of g z, dbeta = sum of g, per value or per group. */
template <class T> static mx_code rows_parameter_grads(const mx_kernel_call *call, const rows &r)
{
    const T *g = (const T *)mx_data(call->in[0]), *x = (const T *)mx_data(call->in[1]);
    const T *mean = (const T *)mx_data(call->in[3]), *deviation = (const T *)mx_data(call->in[4]);
    T *gamma_grad = (T *)mx_data(call->out[1]), *beta_grad = (T *)mx_data(call->out[2]);
    const int64_t parameters = r.groups ? r.groups : r.n, terms = r.groups ? r.count / r.groups * r.n : r.count;
    return mx_cuda_rows(call, parameters, terms, [=] __device__(int64_t p) {
        double sum = 0, products = 0;
        for (int64_t t = threadIdx.x; t < terms; t += blockDim.x) {
            const int64_t row = r.groups ? t / r.n * r.groups + p : t, i = r.groups ? t % r.n : p;
            const int64_t k = r.start(row) + i * r.inner;
            sum += g[k], products += (double)g[k] * ((x[k] - mean[row]) / deviation[row]);
        }
        const pair sums = block_sums(sum, products);
        if (!threadIdx.x)
            gamma_grad[p] = (T)sums.b, beta_grad[p] = (T)sums.a;
    });
}

template <class T> static mx_code rows_backward(const mx_kernel_call *call, const rows &r)
{
    const mx_code code = rows_data_grad<T>(call, r);
    return code ? code : rows_parameter_grads<T>(call, r);
}
template <class T> static mx_code layer_norm_backward(const mx_kernel_call *call)
{
    return rows_backward<T>(call, along(call->in[1], ((const mx_layer_norm_attrs *)call->attrs)->axis));
}
template <class T> static mx_code group_norm_backward(const mx_kernel_call *call)
{
    return rows_backward<T>(call, in_groups(call->in[1], ((const mx_group_norm_attrs *)call->attrs)->num_groups));
}

MX_CUDA_FLOATS(run_layer_norm, layer_norm)
MX_CUDA_FLOATS(run_instance_norm, instance_norm)
MX_CUDA_FLOATS(run_group_norm, group_norm)
MX_CUDA_FLOATS(run_layer_norm_backward, layer_norm_backward)
MX_CUDA_FLOATS(run_group_norm_backward, group_norm_backward)

} // namespace

MX_CUDA_KERNELS(layer_norm_rows) = {{"LayerNorm", run_layer_norm, NULL},
                                    {"InstanceNorm", run_instance_norm, NULL},
                                    {"GroupNorm", run_group_norm, NULL},
                                    {"_backward_LayerNorm", run_layer_norm_backward, NULL},
                                    {"_backward_layer_norm_add", run_layer_norm_backward, NULL},
                                    {"_backward_GroupNorm", run_group_norm_backward, NULL},
                                    {NULL, NULL, NULL}};
