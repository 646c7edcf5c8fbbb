/* LayerNorm over the last axis, rows of some thousand elements: a row stays in the registers of one warp or of a small block.
 *
 * 16-bit arrays are read and written as they are, arithmetic is in float.  The gradient: layer_norm_gradient.cu;
 * longer rows, other axes and double: layer_norm_rows.cu.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/norm/channels.h"
#include "cuda/kernels/norm/layer_norm.h"

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

/* A row of n elements in the registers of W threads, P packs of V in each. */
template <class S, int V, int W, int P> struct held {
    float v[P][V];
    __device__ void load(const S *x, int64_t at, int n)
    {
        for (int p = 0; p < P; p++) {
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
        for (int p = 0; p < P; p++) {
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
        for (int p = 0; p < P; p++) {
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

template <class S, int V, int W, int P>
__global__ void forward(int64_t rows, int n, float eps, const S *x, const S *gamma, const S *beta, S *y, S *means,
                        S *deviations)
{
    held<S, V, W, P> scale, base, row;
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

/* ---- entries --------------------------------------------------------------------------------------------------- */

template <class S, int V, int W, int P>
static mx_code run_forward(const mx_kernel_call *call, mx_cuda_device *d, int64_t rows, int n, float eps)
{
    mx_array *const *in = call->in, *const *out = call->out;
    forward<S, V, W, P><<<mx_cuda_blocks(d, (rows * W + BLOCK - 1) / BLOCK), BLOCK, 0, d->stream>>>(
        rows, n, eps, (const S *)mx_data(in[0]), (const S *)mx_data(in[1]), (const S *)mx_data(in[2]),
        (S *)mx_data(out[0]), (S *)mx_data(out[1]), (S *)mx_data(out[2]));
    return mx_cuda_launched(call);
}

template <class S, int V> static mx_code run_rows(const mx_kernel_call *call, const mx_array *x, double eps)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const int n = (int)x->shape[x->ndim - 1];
    const int64_t rows = x->size / n;
    if (!d)
        return mx_error_code();
    const int packs = (n + V * 32 - 1) / (V * 32);
    return packs == 1   ? run_forward<S, V, 32, 1>(call, d, rows, n, (float)eps)
           : packs == 2 ? run_forward<S, V, 32, 2>(call, d, rows, n, (float)eps)
           : packs == 3 ? run_forward<S, V, 32, 3>(call, d, rows, n, (float)eps)
           : packs == 4 ? run_forward<S, V, 32, 4>(call, d, rows, n, (float)eps)
                        : run_forward<S, V, BLOCK, MOST_PACKS>(call, d, rows, n, (float)eps);
}

static mx_code run_layer_norm(const mx_kernel_call *call)
{
    const mx_layer_norm_attrs *a = (const mx_layer_norm_attrs *)call->attrs;
    const mx_array *x = call->in[0];
    if (!mx_cuda_norm_rows_suit(call, x, a->axis, BLOCK * MOST_PACKS, 0))
        return MX_DECLINED;
    return x->dtype == MX_FLOAT32   ? run_rows<float, 4>(call, x, a->eps)
           : x->dtype == MX_FLOAT16 ? run_rows<__half, 8>(call, x, a->eps)
                                    : run_rows<__nv_bfloat16, 8>(call, x, a->eps);
}

} // namespace

MX_CUDA_KERNELS(layer_norm) = {{"LayerNorm", run_layer_norm, NULL}, {NULL, NULL, NULL}};
