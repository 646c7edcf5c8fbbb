/* Batches of matrices, and the steps of factorisations: every step works on all matrices of a batch.
 *
 * A factorisation splits its matrices in halves until a block is SMALL: the host queues the steps; each small block is
 * factored by a block of threads, the rest is matrix products.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_LINALG_H
#define MX_CUDA_LINALG_H

#include "cuda/kernels/gemm/gemm.h"

/* Matrix b of a batch begins at p + b * stride; its rows are ld apart. */
template <class T> struct mx_cuda_matrices {
    T *p;
    int64_t ld, stride;
    mx_cuda_matrices at(int64_t row, int64_t column) const { return {p + row * ld + column, ld, stride}; }
};

struct mx_cuda_triangle {
    bool lower, transpose; /* which triangle is stored, and whether it is used transposed */
    bool right;            /* it is on the right */
    bool unit;             /* ones on the diagonal, which is not read */
};

static inline int64_t mx_cuda_leading(const mx_array *a)
{
    int64_t batch = 1;
    for (int i = 0; i < a->ndim - 2; i++)
        batch *= a->shape[i];
    return batch;
}

/* C (m, n) = alpha op(A) op(B) + beta C, in full precision */
template <class T>
mx_code mx_cuda_multiply(const mx_kernel_call *call, int64_t batch, bool ta, bool tb, int64_t m, int64_t n, int64_t k,
                         double alpha, mx_cuda_matrices<T> a, mx_cuda_matrices<T> b, double beta, mx_cuda_matrices<T> c)
{
    if (!m || !n || !k || !batch)
        return MX_OK;
    return mx_cuda_gemm_run(
        call, sizeof(T) == 8 ? MX_FLOAT64 : MX_FLOAT32,
        {ta, tb, m, n, k, a.p, a.ld, b.p, b.ld, c.p, c.ld, alpha, beta, batch, a.stride, b.stride, c.stride, true});
}

/* op(A) X = X in place, or X op(A) = X when right; A (n, n), `others`: columns of X, or its rows when right. */
template <class T>
mx_code mx_cuda_solve(const mx_kernel_call *call, int64_t batch, mx_cuda_triangle t, mx_cuda_matrices<T> a, int64_t n,
                      mx_cuda_matrices<T> x, int64_t others);

#endif
