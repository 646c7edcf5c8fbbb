/* Sums over the rows of a matrix of 16-bit elements, for gradients of a bias beside a product: at the speed of memory.
 *
 *     (rows, columns) --a block per 256 columns and some rows--> parts (blocks, columns) --> sums (columns)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/gemm/gemm.h"

#define COLUMNS 256 /* of a block: 32 threads with 8 each */
#define LINES 8     /* rows that a block reads at once */
#define PER_UNIT 4  /* blocks per multiprocessor */
#define PARTS 32    /* that are read at once */

namespace
{
template <class S> struct alignas(16) eight {
    S v[8];
};

template <class S> __global__ void some_rows(const S *x, int64_t rows, int64_t columns, int64_t each, float *parts)
{
    __shared__ float all[LINES][32][9];
    const int64_t column = ((int64_t)blockIdx.x * 32 + threadIdx.x) * 8, end = min(rows, (blockIdx.y + 1) * each);
    float sum[8] = {};
    if (column < columns)
#pragma unroll 4
        for (int64_t row = blockIdx.y * each + threadIdx.y; row < end; row += LINES) {
            const eight<S> k = *(const eight<S> *)(x + row * columns + column);
#pragma unroll
            for (int i = 0; i < 8; i++)
                sum[i] += (float)k.v[i];
        }
    for (int i = 0; i < 8; i++)
        all[threadIdx.y][threadIdx.x][i] = sum[i];
    __syncthreads();
    const int own = threadIdx.y * 32 + threadIdx.x;
    const int64_t at = (int64_t)blockIdx.x * COLUMNS + own;
    float total = 0;
    for (int line = 0; line < LINES; line++)
        total += all[line][own / 8][own % 8];
    if (at < columns)
        parts[blockIdx.y * columns + at] = total;
}

template <class S> __global__ void all_parts(const float *parts, int count, int64_t columns, S *out)
{
    __shared__ float some[PARTS][33];
    const int64_t column = (int64_t)blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    for (int k = threadIdx.y; column < columns && k < count; k += PARTS)
        sum += parts[k * columns + column];
    some[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    for (int k = 1; !threadIdx.y && k < PARTS; k++)
        sum += some[k][threadIdx.x];
    if (!threadIdx.y && column < columns)
        out[column] = (S)sum;
}

/* How rows are divided: `each` of them for one of `count` blocks. */
struct division {
    int64_t tiles, each, count;
    division(const mx_cuda_device *d, int64_t rows, int64_t columns) : tiles((columns + COLUMNS - 1) / COLUMNS)
    {
        const int64_t most = ((int64_t)d->multiprocessors * PER_UNIT + tiles - 1) / tiles, blocks = most < 1 ? 1 : most;
        each = (rows + blocks - 1) / blocks;
        count = (rows + each - 1) / each;
    }
};

template <class S>
static cudaError_t run(const mx_cuda_device *d, const void *x, int64_t rows, int64_t columns, void *out, float *parts)
{
    const division by(d, rows, columns);
    some_rows<<<dim3((unsigned)by.tiles, (unsigned)by.count), dim3(32, LINES), 0, d->stream>>>((const S *)x, rows,
                                                                                               columns, by.each, parts);
    all_parts<<<(unsigned)((columns + 31) / 32), dim3(32, PARTS), 0, d->stream>>>(parts, (int)by.count, columns,
                                                                                  (S *)out);
    return cudaGetLastError();
}
} // namespace

size_t mx_cuda_column_sums_bytes(const mx_cuda_device *d, int64_t rows, int64_t columns)
{
    return (size_t)(division(d, rows, columns).count * columns) * sizeof(float);
}

bool mx_cuda_column_sums_suit(int dtype, int64_t columns, const void *x)
{
    return (dtype == MX_FLOAT16 || dtype == MX_BFLOAT16) && columns % 8 == 0 && (uintptr_t)x % 16 == 0;
}

cudaError_t mx_cuda_column_sums(const mx_cuda_device *d, int dtype, const void *x, int64_t rows, int64_t columns,
                                void *out, void *room)
{
    return dtype == MX_FLOAT16 ? run<__half>(d, x, rows, columns, out, (float *)room)
                               : run<__nv_bfloat16>(d, x, rows, columns, out, (float *)room);
}
