/* Matrix products: C = act(alpha * op(A) op(B) + beta * C + bias), single and double precision.
 *
 * Everything is row-major and may have any leading dimension.  Sizes may be zero; with k == 0 the product is zero
 * and only beta, bias and relu act.  beta == 0 never reads C.  C must not overlap A or B.
 *
 * The work is split over the thread pool when it pays; a result depends neither on the number of threads nor on timing.
 * The functions fail only if a packing buffer cannot be allocated.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_GEMM_H
#define MX_CPU_GEMM_H

#include "cpu/kernels/level.h"
#include "gluon/base.h"

typedef struct mx_gemm_f32 {
    bool trans_a, trans_b; /* A is (m, k), or (k, m) when trans_a; B is (k, n), or (n, k) when trans_b */
    int64_t m, n, k;
    float alpha, beta;
    const float *a;
    int64_t lda; /* elements from one row of A to the next, as stored */
    const float *b;
    int64_t ldb;
    float *c; /* (m, n) */
    int64_t ldc;
    const float *bias; /* NULL or (n): added to every row */
    bool relu;         /* the last step: negative results become 0, NaN stays */
    int64_t batch;     /* independent products; the strides below are elements from one to the next */
    int64_t stride_a, stride_b, stride_c;
    bool panels_b; /* B is stored in panels of MX_GEMM_COLUMNS columns, each (k, columns), the last padded with zeros */
} mx_gemm_f32;

typedef struct mx_gemm_f64 { /* as mx_gemm_f32 */
    bool trans_a, trans_b;
    int64_t m, n, k;
    double alpha, beta;
    const double *a;
    int64_t lda;
    const double *b;
    int64_t ldb;
    double *c;
    int64_t ldc;
    const double *bias;
    bool relu;
    int64_t batch;
    int64_t stride_a, stride_b, stride_c;
    bool panels_b;
} mx_gemm_f64;

/* Columns of a panel of floats: two vectors.  One of doubles has half as many. */
#define MX_GEMM_COLUMNS (2 * MX_VECTOR_BYTES / 4)

/* Kernels of the same level call mx_gemm_f32_run(&g); other code uses the level's table. */
#define mx_gemm_f32_run MX_LEVEL_NAME(mx_gemm_f32_run)
#define mx_gemm_f64_run MX_LEVEL_NAME(mx_gemm_f64_run)

mx_code mx_gemm_f32_run(const mx_gemm_f32 *g); /* MX_OK or MX_ERR_MEMORY */
mx_code mx_gemm_f64_run(const mx_gemm_f64 *g);

/* Stores B of g as panels, for products with the same B; `panels` has room for n, rounded up to complete panels, times k. */
#define mx_gemm_f32_pack MX_LEVEL_NAME(mx_gemm_f32_pack)
#define mx_gemm_f64_pack MX_LEVEL_NAME(mx_gemm_f64_pack)
void mx_gemm_f32_pack(const mx_gemm_f32 *g, float *panels);
void mx_gemm_f64_pack(const mx_gemm_f64 *g, double *panels);

#endif
