/* Kernels of every row of the pointwise table for one compute type T; included once per type.
 *
 * One kernel template serves all rows (pointwise_rows.h).  VECTOR is a vector of LANES elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */

namespace
{

__device__ inline T operand_at(const mx_cuda_operand &x, int64_t i, T number)
{
    return x.data ? mx_cuda_load<T>(x.data, x.type, i) : number;
}

template <class Row> __global__ void general(mx_cuda_pointwise job)
{
    const T number = (T)job.scalar;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < job.n; i += (int64_t)gridDim.x * blockDim.x) {
        int64_t at[2] = {i, i};
        if (job.walk.ndim) {
            int64_t rest = i;
            at[0] = at[1] = 0;
            for (int axis = job.walk.ndim - 1; axis >= 0; axis--) {
                const int64_t k = rest % job.walk.dim[axis];
                rest /= job.walk.dim[axis];
                at[0] += k * job.walk.step[0][axis], at[1] += k * job.walk.step[1][axis];
            }
        }
        const T a = operand_at(job.in[0], at[0], number), b = operand_at(job.in[1], at[1], number);
        mx_cuda_store<T>(job.out, job.out_type, i, Row::apply(a, b, operand_at(job.in[2], i, number)));
    }
}

/* All arrays of type T and of one shape: vectors where they are aligned, which the launcher has checked. */
template <class Row> __global__ void plain(mx_cuda_pointwise job)
{
    const T number = (T)job.scalar;
    const int64_t vectors = job.n / LANES;
    for (int64_t v = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; v < vectors;
         v += (int64_t)gridDim.x * blockDim.x) {
        T x[3][LANES], y[LANES];
        for (int k = 0; k < 3; k++)
            if (job.in[k].data)
                *(VECTOR *)x[k] = ((const VECTOR *)job.in[k].data)[v];
            else
                for (int l = 0; l < LANES; l++)
                    x[k][l] = number;
        for (int l = 0; l < LANES; l++)
            y[l] = Row::apply(x[0][l], x[1][l], x[2][l]);
        ((VECTOR *)job.out)[v] = *(VECTOR *)y;
    }
    const int64_t i = vectors * LANES + (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < job.n)
        ((T *)job.out)[i] = Row::apply(operand_at(job.in[0], i, number), operand_at(job.in[1], i, number),
                                       operand_at(job.in[2], i, number));
}

template <class Row> void launch(const mx_cuda_pointwise &job, unsigned blocks, cudaStream_t stream)
{
    if (job.plain)
        plain<Row><<<blocks, MX_CUDA_BLOCK, 0, stream>>>(job);
    else
        general<Row><<<blocks, MX_CUDA_BLOCK, 0, stream>>>(job);
}

#include "cuda/kernels/pointwise_rows.h"

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
