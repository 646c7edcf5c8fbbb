/* Updates of sparse arrays.  With a row_sparse gradient: the same operator on the rows that the gradient has.
 *
 *     rows of weight and states --fetch--> operator on (rows, gradient's data, rows ...) --put back-->
 *
 * So every update that works element by element (or row by row) is lazy without a separate kernel, and its cost is that
 * of the touched rows.  With lazy_update=False, a csr array, or a sparse weight with a dense gradient, the operator runs on
 * dense copies, and what it changed goes back: rows without a gradient then decay and move by their momentum.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "exec/call.h"
#include "exec/sparse/sparse.h"

#define MOST 6 /* inputs of an update */

/* Whether the rows of the gradient can be updated alone. */
static bool is_lazy(const mx_sparse_call *call)
{
    if (mx_stype_of(call->in[1]) != MX_ROW_SPARSE)
        return false;
    for (int i = 0; i < call->n_in; i++)
        if (mx_stype_of(call->in[i]) == MX_CSR)
            return false;
    const mx_field *lazy = mx_schema_find(call->op->schema, "lazy_update");
    return !lazy || *(const bool *)((const char *)call->attrs + lazy->offset);
}

static mx_array *fetch(mx_array *x, mx_array *rows)
{
    if (!mx_is_sparse(x))
        return mx_sparse_rows_of(x, rows);
    mx_array *kept = mx_g2("_sparse_retain", x, rows);
    return kept ? mx_sparse_of(kept)->data : NULL;
}

static mx_code put_back(mx_array *x, mx_array *rows, mx_array *values)
{
    if (!mx_is_sparse(x))
        return mx_assign(x, values, MX_PICK(rows));
    mx_shape_t shape = mx_array_shape(x);
    mx_array *merged = mx_sparse_overlay(x, mx_sparse_made(MX_ROW_SPARSE, &shape, values, rows, NULL));
    if (merged)
        mx_sparse_take(x, merged);
    return merged ? MX_OK : mx_error_code();
}

static mx_array *on_all(const mx_sparse_call *call)
{
    mx_array *in[MOST];
    for (int i = 0; i < call->n_in; i++)
        if (!(in[i] = mx_sparse_dense(call->in[i])))
            return NULL;
    const bool to_sparse = call->out && mx_is_sparse(call->out);
    mx_array *made = mx_call_one(call->op, call->attrs, call->n_in, in, to_sparse ? NULL : call->out);
    for (int i = 2; made && i < call->n_in; i++)
        if ((call->op->mutates >> i & 1) && in[i] != call->in[i] && mx_array_set(call->in[i], in[i]))
            return NULL;
    if (!made || !to_sparse)
        return made;
    return mx_array_set(call->out, made) ? NULL : call->out;
}

static mx_code on_rows(const mx_sparse_call *call, mx_array *weight, const mx_sparse *grad)
{
    mx_array *in[MOST];
    for (int i = 0; i < call->n_in; i++)
        if (!(in[i] = i == 1 ? grad->data : fetch(i ? call->in[i] : weight, grad->indices)))
            return mx_error_code();
    if (!mx_call_one(call->op, call->attrs, call->n_in, in, in[0]) || put_back(weight, grad->indices, in[0]))
        return mx_error_code();
    for (int i = 2; i < call->n_in; i++)
        if ((call->op->mutates >> i & 1) && put_back(call->in[i], grad->indices, in[i]))
            return mx_error_code();
    return MX_OK;
}

static mx_code check(const mx_sparse_call *call)
{
    if (call->n_in < 2 || call->n_in > MOST)
        return mx_sparse_refuse(call, "an update has a weight, a gradient and states"), MX_DECLINED;
    for (int i = 0; i < call->n_in; i++) {
        const mx_array *x = call->in[i], *grad = call->in[1];
        if (x == MX_NONE || grad == MX_NONE)
            return mx_sparse_refuse(call, "an input is missing"), MX_DECLINED;
        if (x->ndim != grad->ndim || x->shape[0] != grad->shape[0] || x->dtype != grad->dtype)
            return mx_op_fail(call->op, MX_ERR_SHAPE, "weight, gradient and states must have one shape and type");
    }
    return MX_OK;
}

mx_array *mx_sparse_update(const mx_sparse_call *call)
{
    if (check(call))
        return NULL;
    if (!is_lazy(call))
        return on_all(call);
    mx_array *weight = call->in[0];
    if (call->out != weight) /* the new weight goes to another array */
        weight = mx_is_sparse(weight) ? mx_sparse_copy(weight, weight->context) : mx_array_copy(weight);
    const mx_sparse *grad = mx_sparse_of(call->in[1]);
    if (!weight || (grad->indices->size && on_rows(call, weight, grad)))
        return NULL;
    return weight;
}
