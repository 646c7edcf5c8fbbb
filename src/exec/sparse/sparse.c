/* Calls with sparse arrays: the table of operators that know them, delivering, recording, gradients.
 *
 *     mx_invoke --an input is sparse--> row of the table --> result (sparse or dense) --> out, tape
 *
 * Invariant: an operator without a row refuses, and says how to go on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/sparse/sparse.h"

#include <string.h>

#include "base/error.h"
#include "exec/tape.h"
#include "graph/node.h"

typedef struct row {
    const char *name;
    mx_sparse_fn run;
    bool recorded; /* the operator's gradient works with sparse inputs */
} row;

static const row rows[] = {
    {"dot", mx_sparse_dot, true},
    {"Embedding", mx_sparse_embed, true},
    {"elemwise_add", mx_sparse_combine, true},
    {"elemwise_sub", mx_sparse_combine, true},
    {"elemwise_mul", mx_sparse_combine, false},
    {"elemwise_div", mx_sparse_combine, false},
    {"broadcast_add", mx_sparse_combine, true},
    {"broadcast_sub", mx_sparse_combine, true},
    {"broadcast_mul", mx_sparse_combine, false},
    {"broadcast_div", mx_sparse_combine, false},
    {"add_n", mx_sparse_add_n, true},
    {"sum", mx_sparse_fold, false},
    {"mean", mx_sparse_fold, false},
    {"norm", mx_sparse_fold, false},
    {"slice", mx_sparse_slice, false},
    {"Concat", mx_sparse_concat, false},
    {"take", mx_sparse_take_rows, false},
    {"_sparse_retain", mx_sparse_keep, false},
    {"cast_storage", mx_sparse_cast, true},
    {"sgd_update", mx_sparse_update, false},
    {"sgd_mom_update", mx_sparse_update, false},
    {"adam_update", mx_sparse_update, false},
    {"_sparse_adagrad_update", mx_sparse_update, false},
    {"ftrl_update", mx_sparse_update, false},
    {"_contrib_group_adagrad_update", mx_sparse_update, false},
    /* f(0) = 0 */
    {"_mul_scalar", mx_sparse_map, true},
    {"_div_scalar", mx_sparse_map, true},
    {"_copy", mx_sparse_map, true},
    {"BlockGrad", mx_sparse_map, true},
    {"negative", mx_sparse_map, true},
    {"Cast", mx_sparse_map, false},
    {"clip", mx_sparse_map, false},
    {"zeros_like", mx_sparse_map, false},
    {"abs", mx_sparse_map, false},
    {"sign", mx_sparse_map, false},
    {"rint", mx_sparse_map, false},
    {"ceil", mx_sparse_map, false},
    {"floor", mx_sparse_map, false},
    {"trunc", mx_sparse_map, false},
    {"fix", mx_sparse_map, false},
    {"round", mx_sparse_map, false},
    {"square", mx_sparse_map, false},
    {"sqrt", mx_sparse_map, false},
    {"cbrt", mx_sparse_map, false},
    {"expm1", mx_sparse_map, false},
    {"log1p", mx_sparse_map, false},
    {"sin", mx_sparse_map, false},
    {"tan", mx_sparse_map, false},
    {"arcsin", mx_sparse_map, false},
    {"arctan", mx_sparse_map, false},
    {"sinh", mx_sparse_map, false},
    {"tanh", mx_sparse_map, false},
    {"arcsinh", mx_sparse_map, false},
    {"arctanh", mx_sparse_map, false},
    {"degrees", mx_sparse_map, false},
    {"radians", mx_sparse_map, false},
    {"relu", mx_sparse_map, false},
};

static const row *find_row(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}

mx_array *mx_sparse_refuse(const mx_sparse_call *call, const char *wanted)
{
    char name[64];
    for (int i = 0; i < call->n_in; i++)
        if (mx_is_sparse(call->in[i])) {
            mx_op_fail(call->op, MX_ERR_UNSUPPORTED,
                       "input %s is a %s array%s%s; make it dense with tostype('default')",
                       mx_op_input_name(call->op, i, name), mx_stype_name(mx_sparse_of(call->in[i])->stype),
                       *wanted ? ": " : ", which this operator does not know", wanted);
            break;
        }
    return NULL;
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

static mx_code check_inputs(const mx_op *op, int n_in, mx_array *const *in)
{
    char name[64];
    for (int i = 0; i < n_in; i++) {
        if (in[i] == MX_NONE)
            continue;
        if (!mx_array_any_ok(in[i], op->name, mx_op_input_name(op, i, name)))
            return mx_error_code();
        if (!mx_is_sparse(in[i]) && !in[i]->storage)
            return mx_op_fail(op, MX_ERR_UNSUPPORTED,
                              "input %s is symbolic or only has a shape, others are sparse arrays with elements",
                              mx_op_input_name(op, i, name));
        if (!mx_context_equal(in[i]->context, in[0]->context) && in[0] != MX_NONE)
            return mx_op_fail(op, MX_ERR_DEVICE, "input %s is on another device than the ones before it",
                              mx_op_input_name(op, i, name));
    }
    return MX_OK;
}

static bool same_form(const mx_array *a, const mx_array *b)
{
    const mx_shape_t x = mx_array_shape(a), y = mx_array_shape(b);
    return mx_shape_equal(&x, &y) && a->dtype == b->dtype;
}

/* The result where the caller wants it. */
static mx_code deliver(const mx_sparse_call *call, mx_array *result, mx_array *given)
{
    if (result == given)
        return MX_OK;
    if (!mx_array_any_ok(given, call->op->name, "out"))
        return mx_error_code();
    if (!same_form(result, given))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "out has another shape or type than the result");
    if (mx_is_sparse(given)) {
        mx_array *fitting = mx_tostype(result, mx_sparse_of(given)->stype);
        if (fitting)
            mx_sparse_take(given, fitting);
        return fitting ? MX_OK : mx_error_code();
    }
    mx_array *dense = mx_sparse_dense(result);
    return dense ? mx_array_set(given, dense) : mx_error_code();
}

static bool any_history(int n_in, mx_array *const *in)
{
    for (int i = 0; i < n_in; i++)
        if (in[i] != MX_NONE && in[i]->node)
            return true;
    return false;
}

static mx_code record(const row *r, const mx_sparse_call *call, mx_array *result)
{
    if (!mx_thread_modes.recording || !any_history(call->n_in, call->in))
        return MX_OK;
    if (!r->recorded || call->op->grad_out)
        return mx_op_fail(call->op, MX_ERR_AUTOGRAD,
                          "there is no gradient through this operator on sparse arrays; use tostype('default') first");
    return mx_tape_append(call->op, call->attrs, call->n_in, call->in, 1, &result);
}

mx_code mx_sparse_invoke(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    const mx_sparse_call call = {op, attrs ? attrs : op->defaults, n_in, in, out[0]};
    const row *r = find_row(op->name);
    if (check_inputs(op, n_in, in))
        return mx_error_code();
    if (!r || n_out < 1)
        return mx_sparse_refuse(&call, ""), mx_error_code();
    mx_array *result = NULL;
    mx_code code;
    { /* temporaries go at once, the result moves to the caller's scope */
        MX_SCOPE;
        mx_mode mode = mx_mode_enter(0, -1);
        result = mx_retain(r->run(&call));
        mx_mode_leave(&mode);
        code = result ? record(r, &call, result) : mx_error_code();
        if (!code && out[0])
            code = deliver(&call, result, out[0]);
    }
    if (code || out[0]) {
        mx_release(result);
        return code;
    }
    out[0] = mx_scope_add(result);
    return out[0] ? MX_OK : mx_error_code();
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static mx_code store_sparse(mx_array *grad, mx_array *sum, mx_grad_req req)
{
    const mx_stype stype = mx_sparse_of(grad)->stype;
    if (!sum) {
        if (req != MX_GRAD_ADD)
            mx_sparse_clear(grad);
        return mx_error_code();
    }
    if (req == MX_GRAD_ADD && mx_sparse_of(grad)->indices->size)
        sum = mx_g2("elemwise_add", grad, sum);
    mx_array *fitting = sum ? mx_tostype(sum, stype) : NULL;
    if (fitting && fitting == sum && sum->object.count > 1 && req != MX_GRAD_ADD)
        fitting = mx_sparse_copy(sum, grad->context); /* somebody else may hold the parts */
    if (fitting)
        mx_sparse_take(grad, fitting);
    return fitting ? MX_OK : mx_error_code();
}

mx_code mx_sparse_store(mx_array *grad, mx_array *sum, mx_grad_req req)
{
    MX_SCOPE;
    if (mx_is_sparse(grad))
        return store_sparse(grad, sum, req);
    mx_array *dense = mx_sparse_dense(sum), *out[1] = {grad};
    if (!dense)
        return mx_error_code();
    if (req == MX_GRAD_ADD)
        return mx_invoke(MX_OP("elemwise_add"), NULL, 2, (mx_array *const[]){grad, dense}, 1, out);
    return mx_array_copy_data(grad, dense);
}
