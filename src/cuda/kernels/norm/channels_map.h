/* Functions of elements on arrays of any floating type: 16 bytes at a time, computed in float (double for double).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_CHANNELS_MAP_H
#define MX_CUDA_CHANNELS_MAP_H

#include "cuda/kernels/norm/channels.h"

/* y[i] = f(a[i], b[i]); b NULL: f's second argument is 0.  V 1: arrays that are not aligned. */
template <class S, int V, class F> __global__ void mx_cuda_map_kernel(int64_t n, const S *a, const S *b, S *y, F f)
{
    typedef mx_cuda_wide<S> T;
    const int64_t packs = n / V, first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (int64_t i = first; i < packs; i += (int64_t)gridDim.x * blockDim.x) {
        const mx_cuda_pack<S, V> p = mx_cuda_pack<S, V>::load(a, i * V);
        mx_cuda_pack<S, V> q, made;
        if (b)
            q = mx_cuda_pack<S, V>::load(b, i * V);
        for (int l = 0; l < V; l++)
            made.v[l] = (S)f((T)p.v[l], b ? (T)q.v[l] : (T)0);
        made.store(y, i * V);
    }
    if (packs * V + first < n) {
        const int64_t i = packs * V + first;
        y[i] = (S)f((T)a[i], b ? (T)b[i] : (T)0);
    }
}

template <class S, class F>
mx_code mx_cuda_map(const mx_kernel_call *call, int64_t n, const S *a, const S *b, S *y, F f)
{
    constexpr int V = 16 / sizeof(S);
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (!n)
        return MX_OK;
    const bool aligned = ((uintptr_t)a | (uintptr_t)b | (uintptr_t)y) % 16 == 0;
    const int64_t threads = aligned ? (n + V - 1) / V : n;
    const unsigned blocks = mx_cuda_blocks(d, (threads + MX_CUDA_BLOCK - 1) / MX_CUDA_BLOCK);
    if (aligned)
        mx_cuda_map_kernel<S, V><<<blocks, MX_CUDA_BLOCK, 0, d->stream>>>(n, a, b, y, f);
    else
        mx_cuda_map_kernel<S, 1><<<blocks, MX_CUDA_BLOCK, 0, d->stream>>>(n, a, b, y, f);
    return mx_cuda_launched(call);
}

/* A kernel written as template <class S> mx_code body<S>(call) on arrays of type S becomes one for all floating types. */
#define MX_CUDA_STORED(name, body)                                                        \
    static mx_code name(const mx_kernel_call *call)                                       \
    {                                                                                     \
        const mx_dtype type = (mx_dtype)call->in[0]->dtype, wide = mx_cuda_compute_type(call); \
        if (!mx_dtype_is_float(type))                                                     \
            return MX_DECLINED;                                                           \
        if (!mx_cuda_all_of_type(call, type))                                             \
            return mx_cuda_widened(call, wide, name);                                     \
        switch (type) {                                                                   \
        case MX_FLOAT32: return body<float>(call);                                        \
        case MX_FLOAT64: return body<double>(call);                                       \
        case MX_FLOAT16: return body<__half>(call);                                       \
        case MX_BFLOAT16: return body<__nv_bfloat16>(call);                               \
        default: return MX_DECLINED;                                                      \
        }                                                                                 \
    }

#endif
