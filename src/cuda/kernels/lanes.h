/* Elements of any type as float or double, one or four at a time.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_LANES_H
#define MX_CUDA_LANES_H

#include "cuda/cuda.h"

#define MX_CUDA_LANES 4

/* True if four elements can be read and written at once. */
static inline bool mx_cuda_aligned(const void *x, int type)
{
    return (uintptr_t)x % (mx_dtype_size((mx_dtype)type) == 2 ? 8 : 16) == 0;
}

struct alignas(8) mx_cuda_half4 {
    __half x[4];
};
struct alignas(8) mx_cuda_bfloat4 {
    __nv_bfloat16 x[4];
};

template <class C> __device__ inline void mx_cuda_load4(C *v, const void *x, int type, int64_t i)
{
    if (type == MX_FLOAT32) {
        const float4 four = *(const float4 *)((const float *)x + i);
        v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    } else if (type == MX_FLOAT16) {
        const mx_cuda_half4 four = *(const mx_cuda_half4 *)((const __half *)x + i);
        for (int l = 0; l < MX_CUDA_LANES; l++)
            v[l] = __half2float(four.x[l]);
    } else if (type == MX_BFLOAT16) {
        const mx_cuda_bfloat4 four = *(const mx_cuda_bfloat4 *)((const __nv_bfloat16 *)x + i);
        for (int l = 0; l < MX_CUDA_LANES; l++)
            v[l] = __bfloat162float(four.x[l]);
    } else {
        const double2 *two = (const double2 *)((const double *)x + i);
        const double2 low = two[0], high = two[1];
        v[0] = (C)low.x, v[1] = (C)low.y, v[2] = (C)high.x, v[3] = (C)high.y;
    }
}

template <class C> __device__ inline void mx_cuda_store4(const C *v, void *x, int type, int64_t i)
{
    if (type == MX_FLOAT32) {
        *(float4 *)((float *)x + i) = make_float4((float)v[0], (float)v[1], (float)v[2], (float)v[3]);
    } else if (type == MX_FLOAT16) {
        mx_cuda_half4 four;
        for (int l = 0; l < MX_CUDA_LANES; l++)
            four.x[l] = __float2half_rn((float)v[l]);
        *(mx_cuda_half4 *)((__half *)x + i) = four;
    } else if (type == MX_BFLOAT16) {
        mx_cuda_bfloat4 four;
        for (int l = 0; l < MX_CUDA_LANES; l++)
            four.x[l] = __float2bfloat16_rn((float)v[l]);
        *(mx_cuda_bfloat4 *)((__nv_bfloat16 *)x + i) = four;
    } else {
        double2 *two = (double2 *)((double *)x + i);
        two[0] = make_double2(v[0], v[1]), two[1] = make_double2(v[2], v[3]);
    }
}

/* Integers are not converted. */
template <> __device__ inline void mx_cuda_load4(int64_t *v, const void *x, int, int64_t i)
{
    const longlong2 *two = (const longlong2 *)((const int64_t *)x + i), low = two[0], high = two[1];
    v[0] = low.x, v[1] = low.y, v[2] = high.x, v[3] = high.y;
}

template <> __device__ inline void mx_cuda_store4(const int64_t *v, void *x, int, int64_t i)
{
    longlong2 *two = (longlong2 *)((int64_t *)x + i);
    two[0] = make_longlong2(v[0], v[1]), two[1] = make_longlong2(v[2], v[3]);
}

/* The first `lanes` of four; all at once if `whole`: there are four of them and they are aligned. */
template <class C>
__device__ inline void mx_cuda_load_lanes(C *v, const void *x, int type, int64_t i, int lanes, bool whole)
{
    if (whole)
        return mx_cuda_load4(v, x, type, i);
    for (int l = 0; l < MX_CUDA_LANES; l++)
        v[l] = l < lanes ? mx_cuda_load<C>(x, type, i + l) : (C)0;
}

template <class C>
__device__ inline void mx_cuda_store_lanes(const C *v, void *x, int type, int64_t i, int lanes, bool whole)
{
    if (whole)
        return mx_cuda_store4(v, x, type, i);
    for (int l = 0; l < MX_CUDA_LANES; l++)
        if (l < lanes)
            mx_cuda_store<C>(x, type, i + l, v[l]);
}

/* An array of any type whose elements are read and written as C. */
struct mx_cuda_values {
    void *data; /* NULL: absent */
    int type;
    mx_cuda_values() : data(nullptr), type(MX_FLOAT32) {}
    explicit mx_cuda_values(const mx_array *x) : data(mx_data(x)), type(x->dtype) {}
    template <class C> __device__ C get(int64_t i) const { return mx_cuda_load<C>(data, type, i); }
    template <class C> __device__ void set(int64_t i, C v) const { mx_cuda_store<C>(data, type, i, v); }
};

#endif
