/* Shared by the linear algebra families: matrices in the last two axes, and the products and solves that make up
 * their gradients.
 *
 * Invariant: the functions take arrays (..., m, n) with equal leading axes and return NULL for NULL, like all
 * compositions (op.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_LINALG_H
#define MX_OP_LINALG_H

#include "op/op.h"

/* The leading axes as one number, and the last two. */
typedef struct mx_matrices {
    int64_t batch, rows, columns;
} mx_matrices;
static inline mx_matrices mx_matrices_of(const mx_shape_t *shape)
{
    mx_matrices m = {1, shape->dim[shape->ndim - 2], shape->dim[shape->ndim - 1]};
    for (int i = 0; i < shape->ndim - 2; i++)
        m.batch *= shape->dim[i];
    return m;
}

/* Matrices with their rows on some axis, (outer, rows, inner, columns), as runs of equally spaced matrices. */
typedef struct mx_strided {
    int64_t rows, columns, row; /* row: elements from one row to the next */
    int64_t runs, jump;         /* number of runs, elements from one to the next */
    int64_t count, step;        /* matrices in a run, elements from one to the next */
} mx_strided;

static inline mx_strided mx_stride_by(const mx_array *x, int64_t axis)
{
    const int row = (int)(axis < 0 ? axis + x->ndim : axis);
    const int64_t rows = x->shape[row], columns = x->shape[x->ndim - 1];
    int64_t outer = 1, inner = 1;
    for (int i = 0; i < row; i++)
        outer *= x->shape[i];
    for (int i = row + 1; i < x->ndim - 1; i++)
        inner *= x->shape[i];
    const mx_strided close = {rows, columns, columns, 1, 0, outer, rows * columns};
    const mx_strided apart = {rows, columns, inner * columns, outer, rows * inner * columns, inner, columns};
    return inner == 1 ? close : apart;
}

/* Checks that input i has at least `least` axes, and that its last two are equal if `square`. */
mx_code mx_linalg_check(const mx_infer *infer, int i, int least, bool square);
/* One shape for input and output, square matrices. */
mx_code mx_linalg_infer_square(mx_infer *infer);
/* (..., n, n) -> (...), (1,) for a single matrix */
mx_code mx_linalg_infer_scalar(mx_infer *infer);

mx_array *mx_linalg_multiply(mx_array *a, bool transpose_a, mx_array *b, bool transpose_b, double alpha);
/* op(A) X = B, or X op(A) = B when right */
mx_array *mx_linalg_solve(mx_array *a, mx_array *b, bool transpose, bool right, bool lower);
mx_array *mx_linalg_transpose(mx_array *a);
/* One triangle, zeros in the other; the diagonal times `diagonal`. */
mx_array *mx_linalg_triangle(mx_array *a, bool lower, double diagonal);
mx_array *mx_linalg_symmetric(mx_array *a); /* (A + A') / 2 */

#endif
