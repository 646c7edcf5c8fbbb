/* Operators on sparse arrays: calls that mx_invoke hands over because an input is sparse (see gluon/sparse.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_SPARSE_H
#define MX_EXEC_SPARSE_H

#include "gluon/autograd.h"
#include "op/formula/sparse.h"

#define MX_SPARSE_CALL ((mx_code)-2) /* of mx_invoke's checks: an input is sparse, nothing else is wrong so far */

/* Like mx_invoke. */
mx_code mx_sparse_invoke(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out);

/* ---- functions of the rules (mx_sparse_rule) ------------------------------------------------------------------------------------- */
typedef struct mx_sparse_call {
    mx_op *op;
    const void *attrs;
    int n_in;
    mx_array *const *in; /* live arrays or MX_NONE, at least one of them sparse */
    mx_array *out;       /* the caller's array; NULL: none */
    const char **why;    /* set by mx_sparse_refuse: the rule does not apply to these inputs */
} mx_sparse_call;
typedef mx_array *(*mx_sparse_fn)(const mx_sparse_call *call); /* the result, owned by the scope; NULL with an error */

mx_array *mx_sparse_dot(const mx_sparse_call *call);
mx_array *mx_sparse_combine(const mx_sparse_call *call); /* + - * / of two arrays */
mx_array *mx_sparse_add_n(const mx_sparse_call *call);
mx_array *mx_sparse_map(const mx_sparse_call *call);  /* f(0) = 0: on the stored elements */
mx_array *mx_sparse_fold(const mx_sparse_call *call); /* sum, mean, norm */
mx_array *mx_sparse_embed(const mx_sparse_call *call);
mx_array *mx_sparse_slice(const mx_sparse_call *call);
mx_array *mx_sparse_concat(const mx_sparse_call *call);
mx_array *mx_sparse_take_rows(const mx_sparse_call *call); /* take: rows of a csr; edge_id: elements of one */
mx_array *mx_sparse_edges(const mx_sparse_call *call);
mx_array *mx_sparse_count_stored(const mx_sparse_call *call); /* getnnz */
mx_array *mx_sparse_keep(const mx_sparse_call *call);         /* _sparse_retain */
mx_array *mx_sparse_cast(const mx_sparse_call *call);         /* cast_storage */
mx_array *mx_sparse_update(const mx_sparse_call *call);

/* Declines the call, with the reason: it runs on dense copies instead.  Returns NULL without an error. */
mx_array *mx_sparse_refuse(const mx_sparse_call *call, const char *wanted);
mx_array *mx_sparse_dense(mx_array *x);                   /* x itself if it is dense */
mx_array *mx_sparse_rows_of(mx_array *x, mx_array *rows); /* take along axis 0 */
mx_array *mx_sparse_int64(mx_array *x);                   /* the elements as one int64 vector */
mx_array *mx_sparse_overlay(mx_array *x, mx_array *y);    /* row_sparse x with its rows replaced by those of y */
/* Rows of a dense x as a row_sparse array; any order, repeated ones once.  Errors name `who`. */
mx_array *mx_sparse_pick(mx_array *x, mx_array *row_ids, const char *who);
mx_array *mx_sparse_joined(mx_array *const *parts, int n); /* along axis 0 */
mx_array *mx_flat_keys(const mx_array *csr);               /* (n) row * columns + column of every element */

/* ---- gradients ------------------------------------------------------------------------------------------------ */
/* Stores a sum (NULL: zero) into a variable's gradient, where one of the two is sparse. */
mx_code mx_sparse_store(mx_array *grad, mx_array *sum, mx_grad_req req);

#endif
