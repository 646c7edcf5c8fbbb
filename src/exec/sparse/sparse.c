/* Calls with sparse arrays: a function per rule of the operators' descriptions, results, recording, gradients.
 *
 *     mx_invoke --an input is sparse--> function of op->sparse --> result (sparse or dense) --> out, tape
 *
 * Invariant: an operator without a rule fails, and the error names the remedy.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/sparse/sparse.h"

#include "base/error.h"
#include "exec/tape.h"
#include "graph/node.h"

static const mx_sparse_fn functions[MX_SPARSE_RULES] = {
    [MX_SPARSE_ZEROS] = mx_sparse_map,     [MX_SPARSE_TWO] = mx_sparse_combine,     [MX_SPARSE_SUM] = mx_sparse_add_n,
    [MX_SPARSE_FOLD] = mx_sparse_fold,     [MX_SPARSE_DOT] = mx_sparse_dot,         [MX_SPARSE_EMBEDDING] = mx_sparse_embed,
    [MX_SPARSE_SLICE] = mx_sparse_slice,   [MX_SPARSE_CONCAT] = mx_sparse_concat,   [MX_SPARSE_TAKE] = mx_sparse_take_rows,
    [MX_SPARSE_RETAIN] = mx_sparse_keep,   [MX_SPARSE_STORAGE] = mx_sparse_cast,    [MX_SPARSE_UPDATE] = mx_sparse_update,
};

mx_array *mx_sparse_refuse(const mx_sparse_call *call, const char *wanted)
{
    char name[64];
    for (int i = 0; i < call->n_in; i++)
        if (mx_is_sparse(call->in[i])) {
            mx_op_fail(call->op, MX_ERR_UNSUPPORTED,
                       "input %s is a %s array%s%s; convert it to dense with tostype('default')",
                       mx_op_input_name(call->op, i, name), mx_stype_name(mx_sparse_of(call->in[i])->stype),
                       *wanted ? ": " : ", which this operator does not support", wanted);
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

/* Writes the result into the caller's array. */
static mx_code deliver(const mx_sparse_call *call, mx_array *result, mx_array *given)
{
    if (result == given)
        return MX_OK;
    if (!mx_array_any_ok(given, call->op->name, "out"))
        return mx_error_code();
    if (!same_form(result, given))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "out differs from the result in shape or type");
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
        if (in[i] != MX_NONE && mx_has_history(in[i]))
            return true;
    return false;
}

static mx_code record(const mx_sparse_call *call, mx_array *result)
{
    if (!mx_thread.modes.recording || !any_history(call->n_in, call->in))
        return MX_OK;
    if (!call->op->sparse_gradient || call->op->grad_out)
        return mx_op_fail(call->op, MX_ERR_AUTOGRAD,
                          "there is no gradient through this operator on sparse arrays; use tostype('default') first");
    return mx_tape_append(call->op, call->attrs, call->n_in, call->in, 1, &result);
}

mx_code mx_sparse_invoke(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    const mx_sparse_call call = {op, attrs ? attrs : op->defaults, n_in, in, out[0]};
    const mx_sparse_fn function = functions[op->sparse];
    if (check_inputs(op, n_in, in))
        return mx_error_code();
    if (!function || n_out < 1)
        return mx_sparse_refuse(&call, ""), mx_error_code();
    mx_array *result = NULL;
    mx_code code;
    { /* temporaries are released at once, the result moves to the caller's scope */
        MX_SCOPE;
        mx_mode mode = mx_mode_enter(0, -1);
        result = mx_retain(function(&call));
        mx_mode_leave(&mode);
        code = result ? record(&call, result) : mx_error_code();
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
        fitting = mx_sparse_copy(sum, grad->context); /* the parts may be shared */
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
