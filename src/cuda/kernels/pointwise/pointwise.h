/* Pointwise kernels: the arguments of the kernel of a table entry.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_POINTWISE_H
#define MX_CUDA_POINTWISE_H

#include "cuda/cuda.h"
#include "cuda/kernels/lanes.h"
extern "C" {
#include "op/formula/pointwise.h"
#include "op/walk.h"
}

/* The driver copies the arguments of a launch, so what only broadcasting needs is separate. */
struct mx_cuda_pointwise {
    const void *in[3]; /* NULL: the scalar */
    void *out;
    int64_t n;
    double scalar;
    int8_t in_type[3], out_type;
    bool aligned; /* four elements at once */
};

struct mx_cuda_broadcast {
    mx_cuda_pointwise base;
    mx_pair_walk walk; /* of operands 0 and 1 */
    bool fours;        /* four elements at once: the last axis is a multiple of four */
};

/* walk NULL: all operands have the output's shape. */
typedef cudaError_t (*mx_cuda_pointwise_fn)(const mx_cuda_pointwise &job, const mx_pair_walk *walk,
                                            const mx_cuda_device *d);
struct mx_cuda_row {
    mx_cuda_pointwise_fn forward, backward; /* NULL: the entry has none for this type */
};

/* ---- waiting.cu: small calls that are launched together; computed in float, all of one shape --------------------- */
bool mx_cuda_may_wait(const mx_cuda_device *d, const mx_cuda_pointwise &job);
mx_code mx_cuda_wait_in_queue(const mx_cuda_device *d, const mx_cuda_pointwise &job, const mx_pointwise *use);

extern const mx_cuda_row mx_cuda_rows_f32[MX_ROW_COUNT], mx_cuda_rows_f64[MX_ROW_COUNT], mx_cuda_rows_i64[MX_ROW_COUNT];

#endif
