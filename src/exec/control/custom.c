/* Running users' operators: on arrays as functions of the tape, on symbols as nodes (see gluon/custom.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/list.h"
#include "exec/profile.h"
#include "exec/tape.h"
#include "gluon/autograd.h"
#include "gluon/op.h"
#include "graph/call.h"
#include "graph/custom.h"
#include "graph/names.h"
#include "graph/node.h"
#include "ndarray/sparse.h"

#include "gluon/op.gen.h"

/* ---- on arrays --------------------------------------------------------------------------------------------------- */

/* One call, from its forward until the tape drops it. */
typedef struct custom_call {
    mx_custom_use *use; /* retained */
    int n_arguments, n_auxiliary, n_outputs;
    mx_array **arrays; /* arguments, auxiliary states, outputs; retained, without history */
    bool training;
    void *state;
    size_t bytes; /* of this allocation */
} custom_call;

static void release_call(void *user)
{
    custom_call *c = user;
    if (c->state && c->use->custom->release_state)
        c->use->custom->release_state(c->state);
    for (int i = 0; i < c->n_arguments + c->n_auxiliary + c->n_outputs; i++)
        mx_release(c->arrays[i]);
    mx_release(c->use);
    mx_free(c, c->bytes);
}

static mx_custom_run run_of(const custom_call *c)
{
    mx_array **a = c->arrays;
    mx_custom_run run = {.training = c->training, .state = c->state};
    run.arguments = (mx_arrays){a, c->n_arguments};
    run.auxiliary = (mx_arrays){a + c->n_arguments, c->n_auxiliary};
    run.outputs = (mx_arrays){a + c->n_arguments + c->n_auxiliary, c->n_outputs};
    run.context = c->n_arguments ? a[0]->context : mx_current_context();
    return run;
}

static mx_code custom_failed(const custom_call *c, const char *what)
{
    return mx_has_error() ? mx_error_code()
                          : mx_fail(MX_ERR_CALLBACK, "Custom '%s': %s failed", c->use->custom->op_type, what);
}

static bool any_sparse(const custom_call *c)
{
    for (int i = 0; i < c->n_arguments; i++)
        if (mx_is_sparse(c->arrays[i]))
            return true;
    return false;
}

/* Storage types of a call: dense, unless an argument is sparse and the operator says otherwise. */
typedef struct storages {
    mx_stype arguments[MX_MAX_OUTPUTS], outputs[MX_MAX_OUTPUTS];
    mx_stype output_grads[MX_MAX_OUTPUTS], argument_grads[MX_MAX_OUTPUTS];
} storages;

static mx_code ask_storage(const custom_call *c, bool backward, storages *s)
{
    *s = (storages){{MX_STYPE_DEFAULT}, {MX_STYPE_DEFAULT}, {MX_STYPE_DEFAULT}, {MX_STYPE_DEFAULT}};
    if (!any_sparse(c))
        return MX_OK;
    for (int i = 0; i < c->n_arguments; i++)
        s->arguments[i] = mx_stype_of(c->arrays[i]);
    for (int k = 0; backward && k < c->n_outputs; k++)
        s->outputs[k] = mx_stype_of(c->arrays[c->n_arguments + c->n_auxiliary + k]);
    const mx_custom_storage asked = {backward,   c->n_arguments, c->n_outputs,    s->arguments,
                                     s->outputs, s->output_grads, s->argument_grads};
    return c->use->custom->storage(c->use->self, &asked) ? custom_failed(c, "infer_storage_type") : MX_OK;
}

/* Zeros, for the scope. */
static mx_array *zeros(const mx_shape_t *shape, mx_dtype type, mx_context context, mx_stype stype)
{
    if (stype != MX_STYPE_DEFAULT)
        return mx_sparse_zeros(stype, mx_dims_of_shape(shape), type, context);
    mx_array *x = mx_scope_add(mx_array_new(shape, type, context));
    return x && !mx_array_fill(x, 0) ? x : NULL;
}

/* Arrays for the outputs, of the inferred shapes. */
static mx_code make_outputs(custom_call *c)
{
    mx_shape_t shape[3 * MX_MAX_OUTPUTS];
    int type[3 * MX_MAX_OUTPUTS];
    const int n_in = c->n_arguments + c->n_auxiliary;
    for (int i = 0; i < n_in + c->n_outputs + 1; i++) {
        shape[i] = i < n_in ? mx_array_shape(c->arrays[i]) : MX_UNKNOWN_SHAPE;
        type[i] = i < n_in ? c->arrays[i]->dtype : MX_DTYPE_NONE;
    }
    mx_infer infer = {MX_OP("Custom"), NULL, n_in, c->n_outputs + 1, shape, shape + n_in, type, type + n_in, NULL};
    storages stored;
    if (mx_custom_infer(&c->use->callee, &infer) || ask_storage(c, false, &stored))
        return mx_error_code();
    const mx_context context = run_of(c).context;
    for (int k = 0; k < c->n_outputs; k++) {
        if (!mx_shape_known(&infer.out[k]) || !mx_dtype_valid(infer.out_type[k]))
            return mx_fail(MX_ERR_SHAPE,
                           "Custom '%s': the shape or type of output %s cannot be inferred from the inputs",
                           c->use->custom->op_type, c->use->names[MX_CUSTOM_OUTPUTS][k]);
        c->arrays[n_in + k] = mx_keep(zeros(&infer.out[k], (mx_dtype)infer.out_type[k], context, stored.outputs[k]));
        if (!c->arrays[n_in + k])
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code forward(void *user, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    custom_call *c = user;
    (void)n_in, (void)in;
    if (make_outputs(c))
        return mx_error_code();
    mx_custom_run run = run_of(c);
    mx_profile_custom custom;
    mx_profile_custom_enter(&custom, "", c->use->custom->op_type);
    mx_code code = c->use->custom->forward(c->use->self, &run);
    mx_profile_custom_leave(&custom);
    c->state = run.state;
    if (code)
        return custom_failed(c, "forward");
    for (int k = 0; k < n_out; k++)
        if (!(out[k] = mx_scope_add(mx_retain(run.outputs.v[k]))))
            return mx_error_code();
    return MX_OK;
}

static mx_array *zeros_like(const mx_array *x, mx_stype stype)
{
    const mx_shape_t shape = mx_array_shape(x);
    return zeros(&shape, (mx_dtype)x->dtype, x->context, stype);
}

static mx_code backward(void *user, int n_out, mx_array *const *out_grads, int n_in, mx_array **in_grads)
{
    custom_call *c = user;
    mx_custom_run run = run_of(c);
    mx_array **given = mx_list_new(n_out);
    if (!c->use->custom->backward)
        return mx_fail(MX_ERR_AUTOGRAD, "Custom '%s' has no gradient", c->use->custom->op_type);
    storages stored;
    if (ask_storage(c, true, &stored))
        return mx_error_code();
    for (int k = 0; given && k < n_out; k++)
        if (!(given[k] = out_grads[k] ? mx_tostype(out_grads[k], stored.output_grads[k])
                                      : zeros_like(run.outputs.v[k], stored.output_grads[k])))
            return mx_error_code();
    for (int i = 0; given && i < n_in; i++)
        if (!(in_grads[i] = zeros_like(run.arguments.v[i], stored.argument_grads[i])))
            return mx_error_code();
    if (!given)
        return mx_error_code();
    run.output_grads = (mx_arrays){given, n_out};
    run.argument_grads = (mx_arrays){in_grads, n_in};
    mx_profile_custom custom;
    mx_profile_custom_enter(&custom, "_backward_", c->use->custom->op_type);
    const mx_code code = c->use->custom->backward(c->use->self, &run);
    mx_profile_custom_leave(&custom);
    return code ? custom_failed(c, "backward") : MX_OK;
}

static custom_call *new_call(mx_custom_use *use, int n_in, mx_array *const *in)
{
    const int n_out = use->n[MX_CUSTOM_OUTPUTS];
    const size_t bytes = sizeof(custom_call) + ((size_t)n_in + (size_t)n_out) * sizeof(mx_array *);
    custom_call *c = mx_alloc_zero(bytes);
    if (!c)
        return NULL;
    *c = (custom_call){mx_retain(use),
                       use->n[MX_CUSTOM_ARGUMENTS],
                       use->n[MX_CUSTOM_AUXILIARY],
                       n_out,
                       (mx_array **)(c + 1),
                       mx_thread.modes.training,
                       NULL,
                       bytes};
    for (int i = 0; i < n_in; i++) {
        mx_array *x = mx_detach(in[i]);
        if (!x) {
            release_call(c);
            return NULL;
        }
        c->arrays[i] = mx_retain(x);
    }
    return c;
}

mx_code mx_custom_run_on(mx_callee *callee, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    mx_custom_use *use = (mx_custom_use *)(void *)callee;
    if (n_in != use->n[MX_CUSTOM_ARGUMENTS] + use->n[MX_CUSTOM_AUXILIARY])
        return mx_fail(MX_ERR_ARGUMENT, "Custom '%s': got %d arrays, wanted %d and %d auxiliary states",
                       use->custom->op_type, n_in, use->n[MX_CUSTOM_ARGUMENTS], use->n[MX_CUSTOM_AUXILIARY]);
    custom_call *c = new_call(use, n_in, in);
    if (!c)
        return mx_error_code();
    mx_function function = {.name = use->custom->op_type,
                            .forward = forward,
                            .backward = backward,
                            .release = release_call,
                            .n_out = n_out,
                            .zeros_left_out = true};
    mx_arrays results = mx_function_call(&function, c, (mx_arrays){in, use->n[MX_CUSTOM_ARGUMENTS]});
    if (!results.n)
        return mx_error_code();
    memcpy(out, results.v, (size_t)n_out * sizeof *out);
    return MX_OK;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

typedef struct calling {
    const struct mx_custom_args *args;
    const mx_custom_use *use;
    const char *name; /* of the node; NULL: on arrays */
    int n;            /* arguments and auxiliary states */
    mx_array **in;    /* (n) of the scope or the caller */
} calling;

static const char *input_name(const calling *c, int i)
{
    const int n = c->use->n[MX_CUSTOM_ARGUMENTS];
    return i < n ? c->use->names[MX_CUSTOM_ARGUMENTS][i] : c->use->names[MX_CUSTOM_AUXILIARY][i - n];
}

/* Inputs by position, then by name. */
static mx_code sort_inputs(calling *c)
{
    const struct mx_custom_args *a = c->args;
    int position = 0;
    for (int i = 0; i < a->n_in; i++) {
        const char *name = a->in_names ? a->in_names[i] : NULL;
        int at = name ? 0 : position++;
        while (name && at < c->n && strcmp(name, input_name(c, at)))
            at++;
        if (at >= c->n)
            return name ? mx_fail(MX_ERR_ARGUMENT, "Custom '%s': there is no input '%s'", a->op_type, name)
                        : mx_fail(MX_ERR_ARGUMENT, "Custom '%s': got %d arrays, wanted %d", a->op_type, a->n_in, c->n);
        if (c->in[at])
            return mx_fail(MX_ERR_ARGUMENT, "Custom '%s': input '%s' was given twice", a->op_type, input_name(c, at));
        if (!mx_array_any_ok(a->in[i], "Custom", input_name(c, at)))
            return mx_error_code();
        c->in[at] = a->in[i];
    }
    return MX_OK;
}

static mx_code fill_missing(calling *c)
{
    for (int i = 0; i < c->n; i++) {
        if (c->in[i])
            continue;
        if (!c->name)
            return mx_fail(MX_ERR_ARGUMENT, "Custom '%s': input '%s' is missing", c->args->op_type, input_name(c, i));
        mx_text text = {0};
        mx_text_print(&text, "%s_%s", c->name, input_name(c, i));
        mx_gnode *node = mx_text_get(&text) ? mx_gnode_variable(mx_text_get(&text), NULL, MX_DTYPE_NONE) : NULL;
        mx_text_free(&text);
        c->in[i] = node && !mx_notes_apply(node) ? mx_scope_add(mx_array_symbolic(node, 0)) : NULL;
        mx_release(node);
        if (!c->in[i])
            return mx_error_code();
    }
    return MX_OK;
}

static mx_gnode *make_node(const calling *c, const mx_custom_attrs *attrs, mx_gentry *entries)
{
    for (int i = 0; i < c->n; i++)
        if (mx_entry_for(c->in[i], &entries[i]))
            return NULL;
    struct mx_gnode_args args = {MX_OP("Custom"), attrs, NULL, c->name, c->n, entries};
    mx_gnode *node = mx_gnode_make(&args);
    if (!node || !mx_notes_apply(node))
        return node;
    mx_release(node);
    return NULL;
}

static mx_code call_symbolic(const calling *c, const mx_custom_attrs *attrs, mx_array **out)
{
    mx_gentry entries[2 * MX_MAX_OUTPUTS] = {{0}};
    mx_gnode *node = make_node(c, attrs, entries);
    for (int i = 0; i < c->n; i++)
        mx_release(entries[i].node);
    mx_code code = node ? MX_OK : mx_error_code();
    for (int k = 0; !code && k < node->n_visible; k++)
        if (!(out[k] = mx_scope_add(mx_array_symbolic(node, (uint32_t)k))))
            code = mx_error_code();
    mx_release(node);
    return code;
}

static mx_arrays call(calling *c, mx_custom_attrs *attrs)
{
    mx_array **out = mx_list_new(MX_MAX_OUTPUTS);
    if (!out || sort_inputs(c) || fill_missing(c))
        return mx_list_failed();
    mx_code code =
        c->name ? call_symbolic(c, attrs, out) : mx_invoke(MX_OP("Custom"), attrs, c->n, c->in, MX_MAX_OUTPUTS, out);
    return code ? mx_list_failed() : (mx_arrays){out, c->use->n[MX_CUSTOM_OUTPUTS]};
}

mx_arrays mx_custom(const struct mx_custom_args *args)
{
    if (!args || !args->op_type || args->n_in < 0 || (args->n_in && !args->in) ||
        (args->n_options && (!args->keys || !args->values)))
        return mx_fail(MX_ERR_ARGUMENT, "mx_custom: args, op_type, in, keys or values is NULL"), mx_list_failed();
    for (int i = 0; i < args->n_options; i++)
        if (!args->keys[i] || !args->values[i])
            return mx_fail(MX_ERR_ARGUMENT, "mx_custom: option %d has no %s", i, args->keys[i] ? "value" : "name"),
                   mx_list_failed();
    bool symbolic = args->symbolic || (!args->n_in && mx_thread.modes.tracing);
    for (int i = 0; i < args->n_in; i++)
        symbolic |= args->in[i] && mx_array_any_ok(args->in[i], "mx_custom", "in") && mx_is_symbolic(args->in[i]);
    mx_callee *callee = mx_custom_callee(args->op_type, args->n_options, args->keys, args->values);
    if (!callee)
        return mx_list_failed();
    calling c = {.args = args, .use = (const mx_custom_use *)(void *)callee};
    c.n = c.use->n[MX_CUSTOM_ARGUMENTS] + c.use->n[MX_CUSTOM_AUXILIARY];
    c.in = mx_list_new(c.n);
    char *name = symbolic ? mx_names_make(args->name, "custom") : NULL;
    c.name = name;
    mx_custom_attrs attrs = {.op_type = mx_intern(args->op_type), .properties_ = callee};
    mx_arrays out = c.in && attrs.op_type && (name || !symbolic) ? call(&c, &attrs) : mx_list_failed();
    mx_strfree(name);
    mx_release(callee);
    return out;
}
