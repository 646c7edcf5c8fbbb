/* The sum under a softmax, by a block.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_SOFTMAX_H
#define MX_CUDA_SOFTMAX_H

#include "cuda/cuda.h"

/* Maximum and sum of exp(scale x - maximum) of the first `valid` values. */
template <class T> __device__ T mx_cuda_softmax_sum(const T *x, int64_t step, int64_t valid, T scale, T *maximum)
{
    T most = -(T)INFINITY, sum = 0;
    for (int64_t i = threadIdx.x; i < valid; i += blockDim.x)
        most = max(most, x[i * step] * scale);
    most = mx_cuda_block_max(most);
    const T shift = most > -(T)INFINITY ? most : 0;
    for (int64_t i = threadIdx.x; i < valid; i += blockDim.x)
        sum += exp(x[i * step] * scale - shift);
    *maximum = shift;
    return mx_cuda_block_sum(sum);
}

#endif
