/* Singular values for NumPy's functions that need them.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_NP_SVD_H
#define MX_OP_NP_SVD_H

#include "op/expand.h"

/* x = u diag(values) v, of matrices in the last two axes, with as many values as the smaller of their sizes. */
typedef struct mx_np_factors {
    mx_array *u, *values, *v;
} mx_np_factors;
mx_code mx_np_svd_of(const mx_expand *call, mx_array *x, mx_np_factors *factors);

/* The last two axes exchanged. */
static inline mx_array *turned(mx_array *x)
{
    return x ? mx_expand1("SwapAxis", x, "dim1=%d, dim2=%d", x->ndim - 2, x->ndim - 1) : NULL;
}

/* A float array with at least two axes, all of known size; NULL with an error. */
static inline mx_array *matrices(const mx_expand *call, int i)
{
    mx_array *x = mx_expand_by_rules(call, call->in[i]);
    if (x && x->ndim < 0)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the number of axes must be known"), NULL;
    if (x && x->ndim < 2)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "wanted a matrix or a stack of them, got %d axes", x->ndim), NULL;
    return x;
}

#endif
