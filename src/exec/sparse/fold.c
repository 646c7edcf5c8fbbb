/* Reductions of sparse arrays: sums, means, norms.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "exec/sparse/sparse.h"
#include "gluon/op.gen.h"

/* Sums of the rows (axis 1) or columns (axis 0) of a csr: a product with ones. */
static mx_array *sum_along(mx_array *x, int axis, bool keepdims)
{
    mx_shape_t one = {.ndim = 2, .dim = {x->shape[axis], 1}}, out = {.ndim = 2, .dim = {x->shape[0], x->shape[1]}};
    mx_array *ones = mx_scope_add(mx_array_new(&one, (mx_dtype)x->dtype, x->context));
    const mx_dot_attrs attrs = {.transpose_a = axis == 0, .forward_stype = -1};
    if (!ones || mx_array_fill(ones, 1))
        return NULL;
    mx_array *sum = mx_sparse_dense(mx_g_call(MX_OP("dot"), &attrs, 2, (mx_array *const[]){x, ones}));
    out.dim[axis] = 1;
    if (!keepdims)
        out = (mx_shape_t){.ndim = 1, .dim = {x->shape[1 - axis]}};
    return mx_g_reshape(sum, &out);
}

static mx_array *fold_all(const mx_sparse_call *call, bool keepdims)
{
    mx_array *x = call->in[0], *data = mx_sparse_of(x)->data;
    const bool mean = !strcmp(call->op->name, "mean");
    mx_shape_t out = {.ndim = keepdims ? x->ndim : 1};
    for (int i = 0; i < out.ndim; i++)
        out.dim[i] = 1;
    mx_norm_attrs norm = {.ord = 2, .axis = {.n = -1}, .out_dtype = MX_DTYPE_NONE};
    mx_array *all = NULL;
    if (!strcmp(call->op->name, "norm")) {
        const mx_norm_attrs *given = call->attrs;
        norm.ord = given->ord, norm.out_dtype = given->out_dtype;
        all = mx_g_call(call->op, &norm, 1, &data);
    } else
        all = mx_g1("sum", data);
    all = mean ? mx_g_scale(all, x->size ? 1. / (double)x->size : NAN) : all;
    return all ? mx_g_reshape(all, &out) : NULL;
}

mx_array *mx_sparse_fold(const mx_sparse_call *call)
{
    if (!strcmp(call->op->name, "_contrib_getnnz")) /* its attributes are others */
        return mx_sparse_count_stored(call);
    const bool norm = !strcmp(call->op->name, "norm");
    const mx_reduce_attrs *reduce = call->attrs;
    const mx_norm_attrs *of_norm = call->attrs;
    const mx_dims *axis = norm ? &of_norm->axis : &reduce->axis;
    const bool keepdims = norm ? of_norm->keepdims : reduce->keepdims;
    mx_array *x = call->in[0];
    if (axis->n <= 0 && (norm || !reduce->exclude))
        return fold_all(call, keepdims);
    const int along = axis->n == 1 ? mx_axis(axis->d[0], x->ndim) : -1;
    if (norm || reduce->exclude || along < 0 || mx_sparse_of(x)->stype != MX_CSR)
        return mx_sparse_refuse(call,
                                "it can only be reduced over all axes; a csr also along one axis, except for norm");
    mx_array *sum = sum_along(x, along, keepdims);
    return strcmp(call->op->name, "mean") ? sum : mx_g_scale(sum, x->shape[along] ? 1. / (double)x->shape[along] : NAN);
}
