/* Rows of arrays of any floating type, and the sum under a softmax, by a block.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_SOFTMAX_H
#define MX_CUDA_SOFTMAX_H

#include "cuda/kernels/lanes.h"

/* A row of values that a block works on; they are `inner` apart. */
struct mx_cuda_line {
    int64_t start, n, inner;
    bool fours; /* inner is 1, and four values can be moved at once */
};

/* f(i, value i) for the first `valid` values of the row. */
template <class C, class F>
__device__ inline void mx_cuda_line_each(const mx_cuda_values &x, const mx_cuda_line &row, int64_t valid, F f)
{
    if (!row.fours) {
        for (int64_t i = threadIdx.x; i < valid; i += blockDim.x)
            f(i, x.get<C>(row.start + i * row.inner));
        return;
    }
    for (int64_t i = threadIdx.x * MX_CUDA_LANES; i < valid; i += blockDim.x * MX_CUDA_LANES) {
        C v[MX_CUDA_LANES];
        mx_cuda_load4(v, x.data, x.type, row.start + i);
#pragma unroll
        for (int l = 0; l < MX_CUDA_LANES; l++)
            if (i + l < valid)
                f(i + l, v[l]);
    }
}

/* y[i] = f(i, x[i]) for all values of the row. */
template <class C, class F>
__device__ inline void mx_cuda_line_map(const mx_cuda_values &x, const mx_cuda_values &y, const mx_cuda_line &row, F f)
{
    if (!row.fours) {
        for (int64_t i = threadIdx.x; i < row.n; i += blockDim.x)
            y.set<C>(row.start + i * row.inner, f(i, x.get<C>(row.start + i * row.inner)));
        return;
    }
    for (int64_t i = threadIdx.x * MX_CUDA_LANES; i < row.n; i += blockDim.x * MX_CUDA_LANES) {
        C v[MX_CUDA_LANES];
        mx_cuda_load4(v, x.data, x.type, row.start + i);
#pragma unroll
        for (int l = 0; l < MX_CUDA_LANES; l++)
            v[l] = f(i + l, v[l]);
        mx_cuda_store4(v, y.data, y.type, row.start + i);
    }
}

/* Maximum of the first `valid` values, times scale, and the sum of exp(scale x - maximum). */
template <class C>
__device__ C mx_cuda_softmax_sum(const mx_cuda_values &x, const mx_cuda_line &row, int64_t valid, C scale, C *maximum)
{
    C most = -(C)INFINITY, sum = 0;
    mx_cuda_line_each<C>(x, row, valid, [&](int64_t, C v) { most = max(most, v * scale); });
    most = mx_cuda_block_max(most);
    const C shift = most > -(C)INFINITY ? most : 0;
    mx_cuda_line_each<C>(x, row, valid, [&](int64_t, C v) { sum += exp(v * scale - shift); });
    *maximum = shift;
    return mx_cuda_block_sum(sum);
}

/* A kernel written as template <class C> mx_code body<C>(call), which reads arrays of all floating types, computes in C. */
#define MX_CUDA_COMPUTES(name, body)                                                             \
    static mx_code name(const mx_kernel_call *call)                                              \
    {                                                                                            \
        if (!mx_dtype_is_float(call->in[0]->dtype))                                              \
            return MX_DECLINED;                                                                  \
        return mx_cuda_compute_type(call) == MX_FLOAT64 ? body<double>(call) : body<float>(call); \
    }

#endif
