/* Calls with sparse arrays: a function per rule of the operators' descriptions, results, recording, gradients.
 *
 *     mx_invoke --an input is sparse--> function of op->sparse --> result (sparse or dense) --> out, tape
 *                                  \--no rule, or it declines--> the operator on dense copies --> a dense result
 *
 * Recording.  Operators whose gradient handles sparse arrays (sparse_gradient) are recorded as they are.  For all others
 * the tape gets the dense computation: conversions of the inputs, the operator, and a conversion of its result to the
 * storage type that the rule gives.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/sparse/sparse.h"

#include "base/alloc.h"
#include "base/checking.h"
#include "base/error.h"
#include "exec/control/region.h"
#include "exec/tape.h"
#include "graph/node.h"
#include "op/control.h"

static const mx_sparse_fn functions[MX_SPARSE_RULES] = {
    [MX_SPARSE_ZEROS] = mx_sparse_map,     [MX_SPARSE_TWO] = mx_sparse_combine,     [MX_SPARSE_SUM] = mx_sparse_add_n,
    [MX_SPARSE_FOLD] = mx_sparse_fold,     [MX_SPARSE_DOT] = mx_sparse_dot,         [MX_SPARSE_EMBEDDING] = mx_sparse_embed,
    [MX_SPARSE_SLICE] = mx_sparse_slice,   [MX_SPARSE_CONCAT] = mx_sparse_concat,   [MX_SPARSE_TAKE] = mx_sparse_take_rows,
    [MX_SPARSE_RETAIN] = mx_sparse_keep,   [MX_SPARSE_STORAGE] = mx_sparse_cast,    [MX_SPARSE_UPDATE] = mx_sparse_update,
};

mx_array *mx_sparse_refuse(const mx_sparse_call *call, const char *wanted)
{
    *call->why = wanted;
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
        if (in[0] != MX_NONE && !mx_context_fits(in[i]->context, in[0]->context))
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

static bool is_recorded(const mx_sparse_call *call)
{
    return mx_thread.modes.recording && any_history(call->n_in, call->in);
}

/* ---- dense copies ------------------------------------------------------------------------------------------------- */

/* The operator on dense copies of its inputs.  An input that the operator writes (a state, a weight) gets the new values
 * back in its own storage. */
static mx_code run_dense(const mx_sparse_call *call, int n_out, mx_array **out)
{
    mx_array **dense = mx_alloc((size_t)call->n_in * sizeof *dense);
    bool ok = dense != NULL;
    for (int i = 0; ok && i < call->n_in; i++)
        ok = (dense[i] = mx_is_sparse(call->in[i]) ? mx_tostype(call->in[i], MX_STYPE_DEFAULT) : call->in[i]) != NULL;
    for (int k = 0; ok && k < n_out; k++) /* written over an input: over its copy, which is stored below */
        for (int i = 0; out[k] && i < call->n_in; i++)
            out[k] = out[k] == call->in[i] ? dense[i] : out[k];
    mx_code code = ok ? mx_invoke(call->op, call->attrs, call->n_in, dense, n_out, out) : mx_error_code();
    for (int i = 0; !code && i < call->n_in; i++) {
        bool given = i < 32 && (call->op->mutates >> i & 1);
        for (int k = 0; k < n_out; k++)
            given |= out[k] == dense[i];
        if (given && mx_is_sparse(call->in[i])) {
            mx_mode mode = mx_mode_enter(0, -1);
            code = mx_sparse_assign(call->in[i], dense[i]);
            mx_mode_leave(&mode);
        }
        for (int k = 0; k < n_out; k++)
            out[k] = out[k] == dense[i] ? call->in[i] : out[k];
    }
    mx_free(dense, (size_t)call->n_in * sizeof *dense);
    return code;
}

/* A recorded call whose gradient works on dense arrays only; the result has the storage type that the rule gives. */
static mx_array *record_dense(const mx_sparse_call *call, mx_stype stype)
{
    mx_array *out[MX_MAX_OUTPUTS] = {NULL};
    if (run_dense(call, MX_MAX_OUTPUTS, out))
        return NULL;
    return mx_tostype(out[0], stype);
}

/* The result by the operator's rule, recorded if need be; NULL with an error, or without one if the rule declines. */
static mx_array *by_rule(const mx_sparse_call *call, mx_sparse_fn function)
{
    mx_mode mode = mx_mode_enter(0, -1);
    mx_array *result = function(call);
    mx_mode_leave(&mode);
    if (!result || !is_recorded(call))
        return result;
    if (!call->op->sparse_gradient || call->op->grad_out)
        return record_dense(call, mx_stype_of(result));
    return mx_tape_append(call->op, call->attrs, call->n_in, call->in, 1, &result) ? NULL : result;
}

/* In checking mode: are the indices in range?  Sparse functions clip them. */
static mx_code check_indices(const mx_sparse_call *call)
{
    const bool by_index = call->op->sparse == MX_SPARSE_EMBEDDING || call->op->sparse == MX_SPARSE_TAKE;
    if (!by_index || !call->op->audit || mx_thread.unchecked)
        return MX_OK;
    const mx_kernel_call audited = {.op = call->op, .attrs = call->attrs, .n_in = call->n_in, .in = call->in};
    return call->op->audit(&audited);
}

mx_code mx_sparse_invoke(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    const char *why = NULL;
    const mx_sparse_call call = {op, attrs ? attrs : op->defaults, n_in, in, n_out ? out[0] : NULL, &why};
    const mx_sparse_fn function = functions[op->sparse];
    const mx_callee *callee = mx_op_calls(op) ? mx_callee_of(op, call.attrs) : NULL;
    if (callee && callee->methods && callee->methods->takes_sparse && callee->methods->takes_sparse(callee))
        return mx_region_call(op, call.attrs, n_in, in, n_out, out);
    if (check_inputs(op, n_in, in) || (mx_checking() && check_indices(&call)))
        return mx_error_code();
    mx_array *result = NULL;
    mx_code code = MX_OK;
    if (function && n_out > 0) { /* temporaries are released at once, the result moves to the caller's scope */
        MX_SCOPE;
        result = mx_retain(by_rule(&call, function));
        code = result || why ? MX_OK : mx_error_code();
        if (result && out[0])
            code = deliver(&call, result, out[0]);
    }
    if (!code && !result)
        return run_dense(&call, n_out, out);
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
