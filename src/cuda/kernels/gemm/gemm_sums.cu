/* Sums over the rows of a matrix of 16-bit elements, for gradients of a bias beside a product.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/column_sums.h"
#include "cuda/kernels/gemm/gemm.h"

#define PER_UNIT 4 /* blocks per multiprocessor */

namespace
{
template <class S> struct alignas(16) eight {
    S v[8];
};

template <class S> struct stored {
    const S *x;
    __device__ void operator()(int64_t at, float *v) const
    {
        const eight<S> k = *(const eight<S> *)(x + at);
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] = (float)k.v[i];
    }
};

template <class S>
static cudaError_t run(const mx_cuda_device *d, const void *x, int64_t rows, int64_t columns, void *out, void *parts)
{
    const mx_cuda_sum_division by(d, rows, columns, PER_UNIT);
    return mx_cuda_sum_rows(d, by, stored<S>{(const S *)x}, rows, columns, (S *)out, (float *)parts);
}
} // namespace

size_t mx_cuda_column_sums_bytes(const mx_cuda_device *d, int64_t rows, int64_t columns)
{
    return mx_cuda_sum_division(d, rows, columns, PER_UNIT).bytes(columns);
}

bool mx_cuda_column_sums_suit(int dtype, int64_t columns, const void *x)
{
    return (dtype == MX_FLOAT16 || dtype == MX_BFLOAT16) && columns % 8 == 0 && (uintptr_t)x % 16 == 0;
}

cudaError_t mx_cuda_column_sums(const mx_cuda_device *d, int dtype, const void *x, int64_t rows, int64_t columns,
                                void *out, void *room)
{
    return dtype == MX_FLOAT16 ? run<__half>(d, x, rows, columns, out, room)
                               : run<__nv_bfloat16>(d, x, rows, columns, out, room);
}
