/* Matrix products for kernels that need them inside, and what follows them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_GEMM_H
#define MX_CUDA_GEMM_H

#include "cuda/cuda.h"

/* C (m, n) = alpha op(A) op(B) + beta C + bias, then relu; all stored by rows that are lda, ldb, ldc elements apart, of one floating type. */
struct mx_cuda_gemm {
    bool trans_a, trans_b;
    int64_t m, n, k;
    const void *a;
    int64_t lda;
    const void *b;
    int64_t ldb;
    void *c;
    int64_t ldc;
    double alpha, beta;
    int64_t batch, stride_a, stride_b, stride_c; /* in elements */
    bool exact = false;                          /* float32 is multiplied as float32, whatever the flag for TF32 says */
    const void *bias = nullptr;                  /* (n); NULL: none.  With bias or relu, C is contiguous */
    bool relu = false;
    void *sums = nullptr; /* (m); written: the sums of A's columns, for trans_a and alpha 1 only.  NULL: not wanted */
    const void *mask = nullptr;   /* (m, n); C, which is contiguous, becomes 0 where it is not positive.  NULL: none */
    const void *addend = nullptr; /* (m, n); added to C, which is contiguous; beta is 0.  NULL: none */
};

/* What follows a product or a convolution, in one pass: out (outer, channels, inner) += bias (channels), then relu.
 * bias NULL: none. */
mx_code mx_cuda_bias_relu(const mx_kernel_call *call, mx_array *out, const mx_array *bias, int64_t channels,
                          int64_t inner, bool relu);

mx_code mx_cuda_gemm_run(const mx_kernel_call *call, int dtype, const mx_cuda_gemm &g);

/* ---- gemm_sums.cu ------------------------------------------------------------------------------------------------ */
/* out (columns) = sums over the rows of x (rows, columns), in a fixed order. */
size_t mx_cuda_column_sums_bytes(const mx_cuda_device *d, int64_t rows, int64_t columns); /* of `room` */
bool mx_cuda_column_sums_suit(int dtype, int64_t columns, const void *x);                 /* 16-bit, aligned rows */
cudaError_t mx_cuda_column_sums(const mx_cuda_device *d, int dtype, const void *x, int64_t rows, int64_t columns,
                                void *out, void *room);

/* ---- gemm_small.cu ----------------------------------------------------------------------------------------------- */
#define MX_CUDA_SMALL_TILINGS 5
bool mx_cuda_small_gemm_suits(const mx_cuda_device *d, int dtype, const mx_cuda_gemm &g, bool tf32);
cudaError_t mx_cuda_small_gemm(mx_cuda_device *d, const mx_cuda_gemm &g, int tiling);

#endif
