/* What the linear algebra families share: matrices in the last two axes, and the products and solves that their
 * gradients are written in.
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

/* Checks that input i has at least `least` axes, and that its last two are equal if `square`. */
mx_code mx_linalg_check(const mx_infer *infer, int i, int least, bool square);
/* One shape for input and output, square matrices. */
mx_code mx_linalg_infer_square(mx_infer *infer);
/* (..., n, n) -> (...), (1,) for a single matrix: a classic scalar */
mx_code mx_linalg_infer_scalar(mx_infer *infer);

mx_array *mx_linalg_multiply(mx_array *a, bool transpose_a, mx_array *b, bool transpose_b, double alpha);
/* op(A) X = B, or X op(A) = B when right */
mx_array *mx_linalg_solve(mx_array *a, mx_array *b, bool transpose, bool right, bool lower);
mx_array *mx_linalg_transpose(mx_array *a);
/* One triangle, zeros in the other; the diagonal times `diagonal`. */
mx_array *mx_linalg_triangle(mx_array *a, bool lower, double diagonal);
mx_array *mx_linalg_symmetric(mx_array *a); /* (A + A') / 2 */

#endif
