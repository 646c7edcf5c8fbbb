/* Kernels of all entries of the pointwise table for one compute type T; included once per type.
 *
 * Two kernel templates serve all entries (pointwise_rows.h): one for operands of the output's shape, one that
 * broadcasts.
 *
 * SPDX-License-Identifier: Apache-2.0 */

namespace
{

/* Four elements per thread. */
template <class Row> __global__ void same_shape(mx_cuda_pointwise job)
{
    const T number = (T)job.scalar;
    const int64_t stride = (int64_t)gridDim.x * blockDim.x * MX_CUDA_LANES;
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * MX_CUDA_LANES; i < job.n; i += stride) {
        const int lanes = job.n - i < MX_CUDA_LANES ? (int)(job.n - i) : MX_CUDA_LANES;
        const bool whole = job.aligned && lanes == MX_CUDA_LANES;
        T x[3][MX_CUDA_LANES], y[MX_CUDA_LANES];
#pragma unroll
        for (int k = 0; k < 3; k++)
            if (job.in[k])
                mx_cuda_load_lanes<T>(x[k], job.in[k], job.in_type[k], i, lanes, whole);
            else
                x[k][0] = x[k][1] = x[k][2] = x[k][3] = number;
#pragma unroll
        for (int l = 0; l < MX_CUDA_LANES; l++)
            y[l] = Row::apply(x[0][l], x[1][l], x[2][l]);
        mx_cuda_store_lanes<T>(y, job.out, job.out_type, i, lanes, whole);
    }
}

/* Elements of both operands that element i is computed from; I is wide enough for i. */
template <class I> __device__ inline void walk_to(const mx_pair_walk &walk, I rest, int64_t at[2])
{
    at[0] = at[1] = 0;
    for (int axis = walk.ndim - 1; axis >= 0; axis--) {
        const I dim = (I)walk.dim[axis], k = rest % dim;
        rest /= dim;
        at[0] += (int64_t)k * walk.step[0][axis], at[1] += (int64_t)k * walk.step[1][axis];
    }
}

/* Four elements of an operand: contiguous, or one element repeated. */
__device__ inline void load_four(T v[MX_CUDA_LANES], const void *x, int type, int64_t at, bool together)
{
    if (together)
        return mx_cuda_load4<T>(v, x, type, at);
    v[0] = v[1] = v[2] = v[3] = mx_cuda_load<T>(x, type, at);
}

template <class Row> __global__ void broadcast(const __grid_constant__ mx_cuda_broadcast job)
{
    const mx_cuda_pointwise &base = job.base;
    const int64_t stride = (int64_t)gridDim.x * blockDim.x;
    const int last = job.walk.ndim - 1, lanes = job.fours ? MX_CUDA_LANES : 1;
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * lanes; i < base.n; i += stride * lanes) {
        int64_t at[2];
        if (base.n <= UINT32_MAX)
            walk_to<uint32_t>(job.walk, (uint32_t)i, at);
        else
            walk_to<uint64_t>(job.walk, (uint64_t)i, at);
        if (!job.fours) {
            const T a = mx_cuda_load<T>(base.in[0], base.in_type[0], at[0]),
                    b = mx_cuda_load<T>(base.in[1], base.in_type[1], at[1]);
            mx_cuda_store<T>(base.out, base.out_type, i, Row::apply(a, b, (T)0));
            continue;
        }
        T a[MX_CUDA_LANES], b[MX_CUDA_LANES], y[MX_CUDA_LANES];
        load_four(a, base.in[0], base.in_type[0], at[0], job.walk.step[0][last] != 0);
        load_four(b, base.in[1], base.in_type[1], at[1], job.walk.step[1][last] != 0);
#pragma unroll
        for (int l = 0; l < MX_CUDA_LANES; l++)
            y[l] = Row::apply(a[l], b[l], (T)0);
        mx_cuda_store4<T>(y, base.out, base.out_type, i);
    }
}

/* True if four elements that begin at a multiple of four never cross the end of the last axis. */
bool goes_by_fours(const mx_cuda_pointwise &job, const mx_pair_walk &walk)
{
    const int last = walk.ndim - 1;
    return job.aligned && walk.dim[last] % MX_CUDA_LANES == 0 && walk.step[0][last] <= 1 && walk.step[1][last] <= 1;
}

/* The runtime's own function returns at once whether the launch was accepted. */
template <class Row> cudaError_t launch(const mx_cuda_pointwise &job, const mx_pair_walk *walk, const mx_cuda_device *d)
{
    if (walk) {
        mx_cuda_broadcast whole = {job, *walk, goes_by_fours(job, *walk)};
        void *arguments[] = {&whole};
        const int64_t each = whole.fours ? MX_CUDA_BLOCK * MX_CUDA_LANES : MX_CUDA_BLOCK;
        const unsigned blocks = mx_cuda_blocks(d, (job.n + each - 1) / each);
        return cudaLaunchKernel((const void *)broadcast<Row>, dim3(blocks), dim3(MX_CUDA_BLOCK), arguments, 0,
                                d->stream);
    }
    void *arguments[] = {(void *)&job};
    const int64_t each = MX_CUDA_BLOCK * MX_CUDA_LANES;
    const unsigned blocks = mx_cuda_blocks(d, (job.n + each - 1) / each);
    return cudaLaunchKernel((const void *)same_shape<Row>, dim3(blocks), dim3(MX_CUDA_BLOCK), arguments, 0, d->stream);
}

#include "cuda/kernels/pointwise/pointwise_rows.h"

#ifndef MX_INTEGER_ROWS
#define UNARY_ENTRY(name, ...) {launch<forward_##name>, launch<backward_##name>},
#define STEP_ENTRY(name, ...) {launch<forward_##name>, nullptr},
#else
#define UNARY_ENTRY(name, ...) {nullptr, nullptr},
#define STEP_ENTRY UNARY_ENTRY
#endif

#define BINARY_ENTRY(id, ...) {launch<binary_##id>, nullptr},

} // namespace

const mx_cuda_row TABLE[MX_ROW_COUNT] = {MX_UNARY_ROWS(UNARY_ENTRY) MX_LINEAR_ROWS(STEP_ENTRY) MX_STEP_ROWS(STEP_ENTRY)
                                             MX_BINARY_ROWS(BINARY_ENTRY) MX_COMPARE_ROWS(BINARY_ENTRY)};
