/* LayerNorm over the last axis, rows of some thousand elements: a row stays in the registers of one warp or of a small block.
 *
 * 16-bit arrays are read and written as they are, arithmetic is in float.  Longer rows, other axes and double: layer_norm_rows.cu.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/norm/channels.h"

#define MOST_PACKS 4 /* of 16 bytes, per thread */
#define BLOCK 128

namespace
{

template <int W> __device__ float row_sum(float x)
{
    if constexpr (W > 32)
        return mx_cuda_block_sum(x);
    else {
        for (int step = 16; step; step /= 2)
            x += __shfl_xor_sync(0xffffffffu, x, step);
        return x;
    }
}

/* A row of n elements in the registers of W threads. */
template <class S, int V, int W> struct held {
    float v[MOST_PACKS][V];
    __device__ void load(const S *x, int64_t at, int n)
    {
        for (int p = 0; p < MOST_PACKS; p++) {
            const int i = (p * W + threadIdx.x % W) * V;
            if (i < n) {
                const mx_cuda_pack<S, V> k = mx_cuda_pack<S, V>::load(x, at + i);
                for (int l = 0; l < V; l++)
                    v[p][l] = (float)k.v[l];
            } else
                for (int l = 0; l < V; l++)
                    v[p][l] = 0;
        }
    }
    __device__ void store(S *x, int64_t at, int n) const
    {
        for (int p = 0; p < MOST_PACKS; p++) {
            const int i = (p * W + threadIdx.x % W) * V;
            mx_cuda_pack<S, V> k;
            for (int l = 0; l < V; l++)
                k.v[l] = (S)v[p][l];
            if (i < n)
                k.store(x, at + i);
        }
    }
    /* f(element, its number) for all elements of the row */
    template <class F> __device__ void each(int n, F f)
    {
        for (int p = 0; p < MOST_PACKS; p++) {
            const int i = (p * W + threadIdx.x % W) * V;
            for (int l = 0; l < V; l++)
                if (i < n)
                    f(v[p][l], p, l);
        }
    }
    __device__ void statistics(int n, float eps, float *mean, float *deviation)
    {
        float sum = 0, squares = 0;
        each(n, [&](float x, int, int) { sum += x; });
        const float middle = row_sum<W>(sum) / n;
        each(n, [&](float x, int, int) { squares += (x - middle) * (x - middle); });
        *mean = middle, *deviation = sqrtf(row_sum<W>(squares) / n + eps);
    }
};

template <class S, int V, int W>
__global__ void forward(int64_t rows, int n, float eps, const S *x, const S *gamma, const S *beta, S *y, S *means,
                        S *deviations)
{
    held<S, V, W> scale, base, row;
    scale.load(gamma, 0, n), base.load(beta, 0, n);
    for (int64_t r = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / W; r < rows; r += (int64_t)gridDim.x * (BLOCK / W)) {
        float mean, deviation;
        row.load(x, r * n, n);
        row.statistics(n, eps, &mean, &deviation);
        const float inverse = 1 / deviation;
        row.each(n, [&](float &v, int p, int l) { v = (v - mean) * inverse * scale.v[p][l] + base.v[p][l]; });
        row.store(y, r * n, n);
        if (threadIdx.x % W == 0)
            means[r] = (S)mean, deviations[r] = (S)deviation;
    }
}

/* With h = g gamma and z = (x - mean) / std:  dx = (h - mean(h) - z mean(h z)) / std */
template <class S, int V, int W>
__global__ void backward(int64_t rows, int n, const S *g, const S *x, const S *gamma, const S *means,
                         const S *deviations, S *dx)
{
    held<S, V, W> scale, row, slope;
    scale.load(gamma, 0, n);
    for (int64_t r = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / W; r < rows; r += (int64_t)gridDim.x * (BLOCK / W)) {
        const float mean = (float)means[r], inverse = 1 / (float)deviations[r];
        float sum = 0, products = 0;
        row.load(x, r * n, n), slope.load(g, r * n, n);
        row.each(n, [&](float &v, int p, int l) {
            v = (v - mean) * inverse;
            slope.v[p][l] *= scale.v[p][l];
            sum += slope.v[p][l], products += slope.v[p][l] * v;
        });
        sum = row_sum<W>(sum) / n, products = row_sum<W>(products) / n;
        row.each(n, [&](float &v, int p, int l) { v = (slope.v[p][l] - sum - v * products) * inverse; });
        row.store(dx, r * n, n);
    }
}

/* dbeta = sum of g, dgamma = sum of g z, down the columns */
template <class S, int V> struct columns {
    typedef float number;
    struct channel {
    };
    struct values {
        mx_cuda_values<S, V, 2> packs;
        S mean, deviation;
    };
    const S *from[2], *means, *deviations; /* from: g, x */
    int64_t n;
    __device__ channel start(int64_t, int) const { return {}; }
    __device__ values load(int64_t at) const
    {
        const int64_t row = at / n;
        return {mx_cuda_values<S, V, 2>::load(from, at), means[row], deviations[row]};
    }
    __device__ void visit(const channel &, const values &k, int64_t, float *a, float *b) const
    {
        const mx_cuda_pack<S, V> slope = k.packs.open(0), data = k.packs.open(1);
        const float mean = (float)k.mean, inverse = 1 / (float)k.deviation;
        for (int l = 0; l < V; l++)
            a[l] += (float)slope.v[l], b[l] += (float)slope.v[l] * (((float)data.v[l] - mean) * inverse);
    }
};

/* ---- entries --------------------------------------------------------------------------------------------------- */

/* Rows along the last axis, short enough for registers. */
static bool suits(const mx_kernel_call *call, const mx_array *x, int64_t axis)
{
    const int lanes = x->dtype == MX_FLOAT32 ? 4 : 8;
    if ((x->dtype != MX_FLOAT32 && x->dtype != MX_FLOAT16 && x->dtype != MX_BFLOAT16) || !x->size ||
        mx_axis(axis, x->ndim) != x->ndim - 1)
        return false;
    const int64_t n = x->shape[x->ndim - 1];
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i]->dtype != x->dtype || (i < 3 && (uintptr_t)mx_data(call->in[i]) % 16))
            return false;
    return n % lanes == 0 && n <= (int64_t)lanes * BLOCK * MOST_PACKS && (uintptr_t)mx_data(call->out[0]) % 16 == 0;
}

template <class S, int V, int W>
static mx_code run_forward(const mx_kernel_call *call, mx_cuda_device *d, int64_t rows, int n, float eps)
{
    mx_array *const *in = call->in, *const *out = call->out;
    forward<S, V, W><<<mx_cuda_blocks(d, (rows * W + BLOCK - 1) / BLOCK), BLOCK, 0, d->stream>>>(
        rows, n, eps, (const S *)mx_data(in[0]), (const S *)mx_data(in[1]), (const S *)mx_data(in[2]),
        (S *)mx_data(out[0]), (S *)mx_data(out[1]), (S *)mx_data(out[2]));
    return mx_cuda_launched(call);
}

template <class S, int V, int W>
static mx_code run_backward(const mx_kernel_call *call, mx_cuda_device *d, int64_t rows, int n)
{
    mx_array *const *in = call->in, *const *out = call->out;
    const S *g = (const S *)mx_data(in[0]), *x = (const S *)mx_data(in[1]);
    const S *means = (const S *)mx_data(in[3]), *deviations = (const S *)mx_data(in[4]);
    backward<S, V, W><<<mx_cuda_blocks(d, (rows * W + BLOCK - 1) / BLOCK), BLOCK, 0, d->stream>>>(
        rows, n, g, x, (const S *)mx_data(in[2]), means, deviations, (S *)mx_data(out[0]));
    S *gamma_grad = (S *)mx_data(out[1]), *beta_grad = (S *)mx_data(out[2]);
    return mx_cuda_channel_sums<V>(call, d, mx_cuda_channels(in[1], -1), columns<S, V>{{g, x}, means, deviations, n},
                                   [=] __device__(int64_t c, double sum, double products) {
                                       gamma_grad[c] = (S)(float)products, beta_grad[c] = (S)(float)sum;
                                   });
}

template <class S, int V> static mx_code run_rows(const mx_kernel_call *call, const mx_array *x, double eps, bool back)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const int n = (int)x->shape[x->ndim - 1];
    const int64_t rows = x->size / n;
    const bool small = n <= V * 32 * MOST_PACKS;
    if (!d)
        return mx_error_code();
    if (back)
        return small ? run_backward<S, V, 32>(call, d, rows, n) : run_backward<S, V, BLOCK>(call, d, rows, n);
    return small ? run_forward<S, V, 32>(call, d, rows, n, (float)eps)
                 : run_forward<S, V, BLOCK>(call, d, rows, n, (float)eps);
}

static mx_code run(const mx_kernel_call *call, const mx_array *x, bool back)
{
    const mx_layer_norm_attrs *a = (const mx_layer_norm_attrs *)call->attrs;
    if (!suits(call, x, a->axis))
        return MX_DECLINED;
    return x->dtype == MX_FLOAT32   ? run_rows<float, 4>(call, x, a->eps, back)
           : x->dtype == MX_FLOAT16 ? run_rows<__half, 8>(call, x, a->eps, back)
                                    : run_rows<__nv_bfloat16, 8>(call, x, a->eps, back);
}

static mx_code run_layer_norm(const mx_kernel_call *call) { return run(call, call->in[0], false); }
static mx_code run_layer_norm_backward(const mx_kernel_call *call) { return run(call, call->in[1], true); }

} // namespace

MX_CUDA_KERNELS(layer_norm) = {
    {"LayerNorm", run_layer_norm, NULL}, {"_backward_LayerNorm", run_layer_norm_backward, NULL}, {NULL, NULL, NULL}};
