/* Launching over planes of rows and columns, without a division per element.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_PLANES_H
#define MX_CUDA_PLANES_H

#include "cuda/cuda.h"

template <class F> __global__ void mx_cuda_planes_kernel(int64_t planes, int height, int width, F f)
{
    for (int64_t p = (int64_t)blockIdx.z * blockDim.z + threadIdx.z; p < planes; p += (int64_t)gridDim.z * blockDim.z)
        for (int y = blockIdx.y * blockDim.y + threadIdx.y; y < height; y += gridDim.y * blockDim.y)
            for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < width; x += gridDim.x * blockDim.x)
                f(p, y, x);
}

/* f(plane, y, x) for all of them, in any order.  A block is as wide as a row, then as high as a plane. */
template <class F>
mx_code mx_cuda_planes(const mx_kernel_call *call, int64_t planes, int64_t height, int64_t width, F f)
{
    const int64_t most = 65535; /* blocks along y and z */
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (!planes || !height || !width)
        return MX_OK;
    if (height > INT32_MAX / 2 || width > INT32_MAX / 2)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "images of %lld x %lld are too large for gpu(%d)", (long long)height,
                          (long long)width, d->id);
    unsigned wide = 1, high = 1;
    while (wide < width && wide < MX_CUDA_BLOCK)
        wide *= 2;
    while (high < height && wide * high < MX_CUDA_BLOCK)
        high *= 2;
    const unsigned rest = MX_CUDA_BLOCK / (wide * high), deep = rest < 64 ? rest : 64;
    const int64_t down = (height + high - 1) / high, back = (planes + deep - 1) / deep;
    const dim3 grid((unsigned)((width + wide - 1) / wide), (unsigned)(down < most ? down : most),
                    (unsigned)(back < most ? back : most));
    mx_cuda_planes_kernel<<<grid, dim3(wide, high, deep), 0, d->stream>>>(planes, (int)height, (int)width, f);
    return mx_cuda_launched(call);
}

#endif
