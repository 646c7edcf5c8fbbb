/* Pointwise kernels: what the launcher hands to the kernel of a row.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_POINTWISE_H
#define MX_CUDA_POINTWISE_H

#include "cuda/cuda.h"
extern "C" {
#include "op/pointwise.h"
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
    bool plain;                                     /* all arrays are of the compute type and of the output's shape */
    int ndim;                                       /* 0: all operands have the output's shape */
    int64_t dim[MX_MAX_NDIM], step[2][MX_MAX_NDIM]; /* of operands 0 and 1, in elements; 0 where they are broadcast */
};

typedef void (*mx_cuda_pointwise_fn)(const mx_cuda_pointwise &job, unsigned blocks, cudaStream_t stream);
struct mx_cuda_row {
    mx_cuda_pointwise_fn forward, backward; /* NULL: the row has none for this type */
};

extern const mx_cuda_row mx_cuda_rows_f32[MX_ROW_COUNT], mx_cuda_rows_f64[MX_ROW_COUNT], mx_cuda_rows_i64[MX_ROW_COUNT];

#endif
