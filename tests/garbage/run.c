/* Running one call in every way that must agree (see garbage.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "garbage.h"
#include "gluon/executor.h"
#include "outcome.h"

/* ---- the ways ------------------------------------------------------------------------------------------- */

static bool differentiable(const garbage_call *call, int k)
{
    return !call->c.absent[k] && mx_dtype_is_float((mx_dtype)call->types[k]) && !ops_mutates(call->c.op, k);
}

static int visible(const garbage_call *call)
{
    int n = mx_op_count_visible(call->c.op, call->c.attrs ? call->c.attrs : call->c.op->defaults);
    return n < 0 ? 0 : n > MX_MAX_OUTPUTS ? MX_MAX_OUTPUTS : n;
}

/* Inputs on the current context, where calls run. */
static bool make_arrays(garbage_call *call, bool guarded, mx_array **in)
{
    if (!ops_arrays(&call->c, &call->values, call->types, guarded, in))
        return false;
    for (int k = 0; k < call->c.n_in; k++)
        if (in[k] != MX_NONE && !(in[k] = mx_array_to(in[k], mx_current_context())))
            return false;
    return true;
}

/* Imperatively; `record`: with gradients, for ones at every output. */
static void run_now(garbage_call *call, bool record, outcome *o)
{
    mx_array *in[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL}, *heads[MX_MAX_OUTPUTS];
    int n_heads = 0;
    *o = (outcome){.n_in = call->c.n_in};
    if (!make_arrays(call, true, in))
        return outcome_error(o, mx_error_code());
    for (int k = 0; record && k < o->n_in; k++)
        if (differentiable(call, k))
            mx_attach_grad(in[k], MX_GRAD_WRITE);
    mx_mode mode = mx_mode_enter(record, call->c.train);
    mx_code code = mx_invoke(call->c.op, call->c.attrs, o->n_in, in, MX_MAX_OUTPUTS, out);
    mx_mode_leave(&mode);
    if (code)
        return outcome_error(o, code);
    o->n_out = visible(call);
    for (int i = 0; i < o->n_out; i++) {
        o->out[i] = out[i];
        if (out[i]->node && mx_dtype_is_float(out[i]->dtype))
            heads[n_heads++] = out[i];
    }
    if (record && n_heads && mx_backward_all((mx_arrays){heads, n_heads}, NULL) == MX_OK) {
        o->backward = true;
        for (int k = 0; k < o->n_in; k++)
            o->grad[k] = differentiable(call, k) ? mx_gradient(in[k]) : NULL;
    }
    mx_error_clear(); /* without a gradient: allowed */
}

/* The call on variables x0, x1 ..., written as JSON and read again. */
static mx_symbol *symbol_of(garbage_call *call)
{
    mx_array *in[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL};
    for (int k = 0; k < call->c.n_in; k++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", k);
        in[k] = call->c.absent[k] ? MX_NONE : mx_variable(name);
    }
    if (mx_invoke(call->c.op, call->c.attrs, call->c.n_in, in, MX_MAX_OUTPUTS, out))
        return NULL;
    mx_symbol *symbol = mx_symbol_of((mx_arrays){out, visible(call)});
    if (call->c.op->flags & MX_OP_HIDDEN) /* these never stand in files */
        return symbol;
    const char *text = symbol ? mx_symbol_json_with_casts(symbol) : NULL;
    return text ? mx_symbol_from_json(text, strlen(text)) : NULL;
}

/* Fills arrays in the order of `names`, each of which is x<k>. */
static mx_arrays in_order(mx_names names, mx_array *const *in, mx_array **list, int *which)
{
    for (int64_t i = 0; i < names.n; i++) {
        which[i] = atoi(names.v[i] + 1);
        list[i] = in[which[i]];
    }
    return (mx_arrays){list, names.n > 0 ? names.n : 0};
}

static void run_symbol(garbage_call *call, outcome *o)
{
    mx_array *in[OPS_MAX_IN], *arguments[OPS_MAX_IN], *auxiliary[OPS_MAX_IN], *gradients[OPS_MAX_IN];
    int which[OPS_MAX_IN], unused[OPS_MAX_IN];
    *o = (outcome){.n_in = call->c.n_in};
    mx_symbol *symbol = symbol_of(call);
    if (!symbol || !make_arrays(call, false, in))
        return outcome_error(o, MX_ERR_ARGUMENT);
    struct mx_bindings bindings = {.arguments = in_order(mx_symbol_arguments(symbol), in, arguments, which),
                                   .auxiliary = in_order(mx_symbol_auxiliary(symbol), in, auxiliary, unused)};
    for (int64_t i = 0; i < bindings.arguments.n; i++) {
        int k = which[i];
        gradients[i] = differentiable(call, k)
                           ? mx_array_to(ops_array(&call->values.shape[k], (mx_dtype)call->types[k], NULL, false),
                                         mx_current_context())
                           : MX_NONE;
        o->grad[k] = gradients[i] == MX_NONE ? NULL : gradients[i];
    }
    bindings.gradients = (mx_arrays){gradients, bindings.arguments.n};
    mx_executor *executor = mx_bind(symbol, mx_current_context(), &bindings);
    mx_arrays out = mx_executor_forward(executor, call->c.train);
    if (mx_error_code())
        return outcome_error(o, mx_error_code());
    o->n_out = (int)out.n;
    for (int i = 0; i < o->n_out; i++)
        o->out[i] = out.v[i];
    o->backward = mx_executor_backward(executor, (mx_arrays){0}) == MX_OK;
    mx_error_clear();
}

/* Operators that read what their outputs held before. */
static bool reads_outputs(const garbage_call *call)
{
    const mx_field *field = call->c.op->schema ? mx_schema_find(call->c.op->schema, "init_output") : NULL;
    return field && !*((const bool *)((const char *)call->c.attrs + field->offset));
}

static bool any_empty(const garbage_call *call)
{
    for (int k = 0; k < call->c.n_in; k++)
        if (!call->c.absent[k] && call->values.size[k] == 0)
            return true;
    return false;
}

/* ---- all of them ---------------------------------------------------------------------------------------- */

static const char *check_refusal(const garbage_call *call, const outcome *o)
{
    if (!*o->message)
        return outcome_wrong("refused without a message");
    if (!strstr(o->message, call->c.op->name))
        return outcome_wrong("the message does not name the operator: %s", o->message);
    return NULL;
}

const char *garbage_run(garbage_call *call)
{
    MX_SCOPE;
    const mx_op *op = call->c.op;
    outcome first, second, recorded, symbolic;
    const char *d = NULL;
    mx_error_clear();
    run_now(call, false, &first);
    if (first.code)
        return check_refusal(call, &first);
    if (op->flags & (MX_OP_RANDOM | MX_OP_CALLS) || reads_outputs(call))
        return NULL;
    run_now(call, false, &second);
    run_now(call, true, &recorded);
    if ((d = outcome_compare("once more", &first, &second)) || (d = outcome_compare("recorded", &first, &recorded)))
        return d;
    if (op->flags & MX_OP_CREATE || first.n_out == 0)
        return NULL;
    run_symbol(call, &symbolic);
    if (symbolic.code && any_empty(call)) /* a size of 0 is an unknown one in classic symbols */
        return NULL;
    return outcome_compare("as a symbol", &recorded, &symbolic);
}
