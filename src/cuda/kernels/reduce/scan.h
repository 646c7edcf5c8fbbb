/* Running sums by a block.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_SCAN_H
#define MX_CUDA_SCAN_H

#include "cuda/cuda.h"

/* The sum of x over this and all threads before it; *whole: over the block. */
template <class C> __device__ C mx_cuda_block_running(C x, C *whole)
{
    __shared__ C parts[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    for (int step = 1; step < 32; step *= 2) {
        const C before = __shfl_up_sync(0xffffffffu, x, step);
        x += lane >= step ? before : 0;
    }
    __syncthreads(); /* threads may still be reading in an earlier call */
    if (lane == 31)
        parts[warp] = x;
    __syncthreads();
    C sum = 0;
    for (int w = 0; w < warps; w++) {
        x += w < warp ? parts[w] : 0;
        sum += parts[w];
    }
    *whole = sum;
    return x;
}

/* put(i, carry + get(0) + ... + get(i)) for i in [0, n): neighbouring threads take neighbouring elements. */
template <class C, class Get, class Put> __device__ void mx_cuda_block_scan(int64_t n, Get get, Put put, C carry = 0)
{
    for (int64_t start = 0; start < n; start += blockDim.x) {
        const int64_t i = start + threadIdx.x;
        C whole;
        const C sum = mx_cuda_block_running<C>(i < n ? get(i) : (C)0, &whole);
        if (i < n)
            put(i, carry + sum);
        carry += whole;
    }
}

#endif
