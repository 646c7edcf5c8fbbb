/* Sums over the rows of a matrix of 16-bit elements, at the speed of memory; the elements are read from memory or computed.
 *
 *     (rows, columns) --a block per 256 columns and some rows--> parts (blocks, columns) --> sums (columns)
 *
 *     struct F { __device__ void operator()(int64_t at, float *v) const; };    // the 8 elements from number `at` on
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_COLUMN_SUMS_H
#define MX_CUDA_COLUMN_SUMS_H

#include "cuda/cuda.h"

#define MX_CUDA_SUM_LINES 8     /* rows that a block reads at once */
#define MX_CUDA_SUM_COLUMNS 256 /* of a block: 32 threads with 8 each */
#define MX_CUDA_SUM_PARTS 32    /* that are read at once */

template <class F> __global__ void mx_cuda_sum_some_rows(F f, int64_t rows, int64_t columns, int64_t each, float *parts)
{
    __shared__ float all[MX_CUDA_SUM_LINES][32][9];
    const int64_t column = ((int64_t)blockIdx.x * 32 + threadIdx.x) * 8, end = min(rows, (blockIdx.y + 1) * each);
    float sum[8] = {};
    if (column < columns)
#pragma unroll 4
        for (int64_t row = blockIdx.y * each + threadIdx.y; row < end; row += MX_CUDA_SUM_LINES) {
            float v[8];
            f(row * columns + column, v);
#pragma unroll
            for (int i = 0; i < 8; i++)
                sum[i] += v[i];
        }
    for (int i = 0; i < 8; i++)
        all[threadIdx.y][threadIdx.x][i] = sum[i];
    __syncthreads();
    const int own = threadIdx.y * 32 + threadIdx.x;
    const int64_t at = (int64_t)blockIdx.x * MX_CUDA_SUM_COLUMNS + own;
    float total = 0;
    for (int line = 0; line < MX_CUDA_SUM_LINES; line++)
        total += all[line][own / 8][own % 8];
    if (at < columns)
        parts[blockIdx.y * columns + at] = total;
}

template <class S> __global__ void mx_cuda_sum_parts(const float *parts, int count, int64_t columns, S *out)
{
    __shared__ float some[MX_CUDA_SUM_PARTS][33];
    const int64_t column = (int64_t)blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int k = threadIdx.y; column < columns && k < count; k += MX_CUDA_SUM_PARTS)
        sum += parts[k * columns + column];
    some[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    for (int k = 1; !threadIdx.y && k < MX_CUDA_SUM_PARTS; k++)
        sum += some[k][threadIdx.x];
    if (!threadIdx.y && column < columns)
        out[column] = (S)sum;
}

/* How rows are divided: `each` of them for one of `count` blocks. */
struct mx_cuda_sum_division {
    int64_t tiles, each, count;
    /* per_unit: blocks on a multiprocessor */
    mx_cuda_sum_division(const mx_cuda_device *d, int64_t rows, int64_t columns, int per_unit)
        : tiles((columns + MX_CUDA_SUM_COLUMNS - 1) / MX_CUDA_SUM_COLUMNS)
    {
        const int64_t most = ((int64_t)d->multiprocessors * per_unit + tiles - 1) / tiles, blocks = most < 1 ? 1 : most;
        each = (rows + blocks - 1) / blocks;
        count = (rows + each - 1) / each;
    }
    size_t bytes(int64_t columns) const { return (size_t)(count * columns) * sizeof(float); } /* of parts */
};

/* out (columns) = sums over the rows, in a fixed order; columns: a multiple of 8 */
template <class S, class F>
cudaError_t mx_cuda_sum_rows(const mx_cuda_device *d, const mx_cuda_sum_division &by, F f, int64_t rows,
                             int64_t columns, S *out, float *parts)
{
    mx_cuda_sum_some_rows<<<dim3((unsigned)by.tiles, (unsigned)by.count), dim3(32, MX_CUDA_SUM_LINES), 0, d->stream>>>(
        f, rows, columns, by.each, parts);
    mx_cuda_sum_parts<<<(unsigned)((columns + 31) / 32), dim3(32, MX_CUDA_SUM_PARTS), 0, d->stream>>>(
        parts, (int)by.count, columns, out);
    return cudaGetLastError();
}

#endif
