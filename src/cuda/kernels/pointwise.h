/* Pointwise kernels: what the launcher hands to the kernel of a row.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_POINTWISE_H
#define MX_CUDA_POINTWISE_H

#include "cuda/cuda.h"
extern "C" {
#include "op/pointwise.h"
#include "op/walk.h"
}

struct mx_cuda_operand {
    const void *data; /* NULL: the number of the scalar forms */
    int type;
};

struct mx_cuda_pointwise {
    mx_cuda_operand in[3];
    void *out;
    int out_type;
    int64_t n;
    double scalar;
    bool plain;        /* all arrays are of the compute type and of the output's shape */
    mx_pair_walk walk; /* of operands 0 and 1; without axes: all operands have the output's shape */
};

typedef void (*mx_cuda_pointwise_fn)(const mx_cuda_pointwise &job, unsigned blocks, cudaStream_t stream);
struct mx_cuda_row {
    mx_cuda_pointwise_fn forward, backward; /* NULL: the row has none for this type */
};

extern const mx_cuda_row mx_cuda_rows_f32[MX_ROW_COUNT], mx_cuda_rows_f64[MX_ROW_COUNT], mx_cuda_rows_i64[MX_ROW_COUNT];

#endif
