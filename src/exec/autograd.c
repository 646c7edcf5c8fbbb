/* The public functions of differentiation: variables, backward, grad, custom functions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/autograd.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/given.h"
#include "exec/backward.h"
#include "exec/list.h"
#include "exec/sparse/sparse.h"
#include "graph/node.h"

/* ---- variables ------------------------------------------------------------------------------------------- */

static mx_code make_variable(mx_array *x, mx_array *grad, mx_grad_req req)
{
    if (req != MX_GRAD_NULL && req != MX_GRAD_WRITE && req != MX_GRAD_ADD)
        return mx_fail(MX_ERR_ARGUMENT,
                       "attach_grad: unknown request %d, wanted MX_GRAD_NULL, MX_GRAD_WRITE or MX_GRAD_ADD", req);
    if (!x->storage && !mx_is_sparse(x))
        return mx_fail(MX_ERR_STATE, "attach_grad: the array is symbolic or only has a shape: it has no gradient");
    if (req == MX_GRAD_NULL && !grad) {
        mx_array_set_node(x, NULL, 0);
        return MX_OK;
    }
    mx_node *node = mx_node_new(0, 1, 0);
    if (!node)
        return mx_error_code();
    node->grad = mx_retain(grad);
    node->req = req;
    node->freed = req == MX_GRAD_NULL;
    if (grad)
        grad->written = 0;
    node->context = x->context;
    mx_array_set_node(x, node, 0);
    mx_release(node);
    return MX_OK;
}

mx_code mx_attach_grad(mx_array *x, mx_grad_req req)
{
    MX_SCOPE;
    if (x && x->object.guard == MX_OBJECT_ALIVE && mx_is_sparse(x))
        return mx_attach_grad_as(x, req, mx_sparse_of(x)->stype);
    if (!mx_array_ok(x, "mx_attach_grad", "x"))
        return mx_error_code();
    mx_array *grad = req == MX_GRAD_NULL || !x->storage ? NULL : mx_g1("zeros_like", mx_detach(x));
    if (req != MX_GRAD_NULL && x->storage && !grad)
        return mx_error_code();
    return make_variable(x, grad, req);
}

mx_code mx_attach_grad_as(mx_array *x, mx_grad_req req, mx_stype stype)
{
    MX_SCOPE;
    if (!mx_array_any_ok(x, "mx_attach_grad_as", "x"))
        return mx_error_code();
    if (stype == MX_STYPE_DEFAULT && x->storage)
        return mx_attach_grad(x, req);
    mx_shape_t shape = mx_array_shape(x);
    mx_array *grad = NULL;
    if (req == MX_GRAD_WRITE || req == MX_GRAD_ADD) {
        const mx_dtype dtype = (mx_dtype)x->dtype;
        grad = stype == MX_STYPE_DEFAULT ? mx_scope_add(mx_array_new(&shape, dtype, x->context))
                                         : mx_sparse_zeros(stype, mx_dims_of_shape(&shape), dtype, x->context);
        if (!grad || (grad->storage && mx_array_fill(grad, 0)))
            return mx_error_code();
    }
    return make_variable(x, grad, req);
}

mx_code mx_mark_variables(mx_arrays variables, mx_arrays gradients, const mx_grad_req *reqs)
{
    if (mx_list_check_any(&variables, "mx_mark_variables", "variables") ||
        mx_list_check_any(&gradients, "mx_mark_variables", "gradients"))
        return mx_error_code();
    if (variables.n != gradients.n)
        return mx_fail(MX_ERR_ARGUMENT, "mx_mark_variables: %lld variables but %lld gradients", (long long)variables.n,
                       (long long)gradients.n);
    for (int64_t i = 0; i < variables.n; i++) {
        const mx_array *x = variables.v[i], *g = gradients.v[i];
        if (x->ndim != g->ndim ||
            memcmp(x->shape, g->shape, (size_t)(x->ndim < 0 ? 0 : x->ndim) * sizeof x->shape[0]) ||
            x->dtype != g->dtype)
            return mx_fail(MX_ERR_SHAPE, "mx_mark_variables: gradient %lld differs from its variable in shape or type",
                           (long long)i);
        if (make_variable(variables.v[i], gradients.v[i], reqs ? reqs[i] : MX_GRAD_WRITE))
            return mx_error_code();
    }
    return MX_OK;
}

mx_array *mx_gradient(mx_array *x)
{
    if (!mx_array_any_ok(x, "mx_gradient", "x"))
        return NULL;
    mx_node *variable = mx_variable_node(x);
    return variable ? variable->grad : NULL;
}

bool mx_gradient_fresh(mx_array *x)
{
    const mx_array *grad = mx_gradient(x);
    return grad && grad->written;
}

mx_code mx_gradient_set_fresh(mx_array *x, bool fresh)
{
    mx_array *grad = mx_gradient(x);
    if (!grad)
        return mx_has_error() ? mx_error_code()
                              : mx_fail(MX_ERR_AUTOGRAD, "mx_gradient_set_fresh: the array has no gradient; "
                                                         "attach one with mx_attach_grad");
    grad->written = fresh;
    return MX_OK;
}

/* ---- backward -------------------------------------------------------------------------------------------- */

static bool is_recorded(const mx_array *x)
{
    const mx_node *node = mx_is_sparse(x) ? x->node : mx_tape_node(x);
    return node && !(mx_node_is_variable(node) && node->req == MX_GRAD_NULL);
}

static mx_code check_heads(mx_arrays *heads, mx_arrays *head_grads, const char *who)
{
    if (mx_list_check_any(heads, who, "heads"))
        return mx_error_code();
    for (int64_t i = 0; i < heads->n; i++)
        if (!is_recorded(heads->v[i]))
            return mx_fail(
                MX_ERR_AUTOGRAD,
                "%s: head %lld was not recorded; compute it inside mx_record() from a variable with a gradient "
                "(mx_attach_grad)",
                who, (long long)i);
    if (!head_grads->v)
        head_grads->n = 0;
    if (head_grads->n && mx_list_check_inputs(head_grads, who, "head_grads"))
        return mx_error_code();
    if (head_grads->n && head_grads->n != heads->n)
        return mx_fail(MX_ERR_ARGUMENT, "%s: %lld heads but %lld head gradients", who, (long long)heads->n,
                       (long long)head_grads->n);
    for (int64_t i = 0; i < head_grads->n; i++) {
        const mx_array *g = head_grads->v[i], *h = heads->v[i];
        if (g != MX_NONE && (g->ndim != h->ndim || memcmp(g->shape, h->shape, (size_t)h->ndim * sizeof h->shape[0]) ||
                             g->dtype != h->dtype))
            return mx_fail(MX_ERR_SHAPE, "%s: head gradient %lld differs from its head in shape or type", who,
                           (long long)i);
    }
    return MX_OK;
}

mx_code mx_backward_all(mx_arrays heads, const mx_backward_options *options)
{
    mx_backward_options none = {0};
    const mx_backward_options *o = options ? options : &none;
    mx_arrays head_grads = o->head_grads;
    mx_code code = check_heads(&heads, &head_grads, "mx_backward");
    if (code)
        return code;
    mx_pass pass = {.retain = o->retain_graph, .predict = o->predict_mode};
    code = mx_pass_run(&pass, heads, head_grads);
    mx_pass_free(&pass);
    return code;
}

mx_code mx_backward_one(const struct mx_backward_args *args)
{
    if (!mx_given(args, "mx_backward", "args"))
        return mx_error_code();
    mx_array *grads[1] = {args->head_grad ? args->head_grad : MX_NONE};
    mx_array *heads[1] = {args->head};
    mx_backward_options options = {.head_grads = {grads, 1}, .retain_graph = args->retain_graph};
    return mx_backward_all((mx_arrays){heads, 1}, &options);
}

/* A variable that the heads do not depend on has gradient zero. */
static mx_array *result_for(mx_pass *pass, mx_array *variable)
{
    if (!(mx_is_sparse(variable) ? variable->node : mx_tape_node(variable)))
        return mx_fail_null(MX_ERR_AUTOGRAD,
                            "mx_grad_of: a variable has no gradient attached (mx_attach_grad) and was not recorded");
    if (variable->node->visit == pass->number) {
        mx_slot *slot = &pass->slots[variable->node->slot + variable->node_output];
        if (slot->sum)
            return mx_scope_add(mx_retain(slot->sum));
    }
    return mx_g1("zeros_like", mx_detach(variable));
}

/* With create_graph every result counts as recorded: the gradient of one that does not depend on the variables is zero. */
static mx_array *connected(mx_array *result, mx_array *variable)
{
    if (!result || mx_has_history(result) || !result->storage)
        return result;
    mx_array *view = mx_detach(result);
    if (!view || mx_tape_append(MX_OP("zeros_like"), NULL, 1, &variable, 1, &view))
        return NULL;
    return view;
}

mx_arrays mx_grad_of(mx_arrays heads, mx_arrays variables, mx_arrays head_grads, bool retain_graph, bool create_graph)
{
    if (check_heads(&heads, &head_grads, "mx_grad_of") || mx_list_check_any(&variables, "mx_grad_of", "variables"))
        return mx_list_failed();
    mx_pass pass = {.retain = retain_graph || create_graph, .create_graph = create_graph, .keep_results = true};
    mx_code code = mx_pass_run(&pass, heads, head_grads);
    mx_array **results = code ? NULL : mx_list_new(variables.n);
    for (int64_t i = 0; results && i < variables.n; i++)
        if (!(results[i] = result_for(&pass, variables.v[i])) ||
            (create_graph && !(results[i] = connected(results[i], variables.v[i]))))
            results = NULL;
    mx_pass_free(&pass);
    return results ? (mx_arrays){results, variables.n} : mx_list_failed();
}

/* ---- custom functions -------------------------------------------------------------------------------------- */

static mx_node *function_node(const mx_function *function, void *user, mx_arrays in)
{
    mx_node *node = mx_node_new((int)in.n, function->n_out, sizeof *function);
    if (!node)
        return NULL;
    memcpy(node->attrs, function, sizeof *function);
    node->function = node->attrs;
    node->user = user;
    node->context = in.n ? in.v[0]->context : mx_current_context();
    for (int64_t i = 0; i < in.n; i++) {
        const mx_array *x = in.v[i];
        node->edges[i] = (mx_edge){mx_retain(mx_live_node(x)), x->node_output};
        node->in_type[i] = x->dtype;
        node->in_shape[i].ndim = x->ndim;
        memcpy(node->in_shape[i].dim, x->shape, (size_t)x->ndim * sizeof x->shape[0]);
    }
    return node;
}

static bool any_history(mx_arrays in)
{
    for (int64_t i = 0; i < in.n; i++)
        if (mx_has_history(in.v[i]))
            return true;
    return false;
}

static mx_code run_forward(const mx_function *function, void *user, mx_arrays in, mx_array **out)
{
    mx_mode mode = mx_mode_enter(0, -1);
    mx_code code = function->forward(user, (int)in.n, in.v, function->n_out, out);
    mx_mode_leave(&mode);
    if (code)
        return mx_fail(MX_ERR_CALLBACK, "forward of function %s failed", function->name);
    for (int i = 0; i < function->n_out; i++)
        if (!mx_array_any_ok(out[i], function->name, "output"))
            return mx_error_code();
    return MX_OK;
}

/* Outputs are new views, so that a forward which returns its input does not give that input a second history. */
static mx_code attach(mx_node *node, mx_array **out)
{
    for (int i = 0; i < node->n_out; i++) {
        out[i] = mx_detach(out[i]);
        if (!out[i])
            return mx_error_code();
        mx_array_set_node(out[i], node, (uint32_t)i);
    }
    return MX_OK;
}

/* `user` belongs to the call, even if it fails. */
static mx_arrays give_up(const mx_function *function, void *user)
{
    if (function->release)
        function->release(user);
    return mx_list_failed();
}

static mx_code check_function_inputs(const mx_function *function, mx_arrays *inputs)
{
    const char *name = function->name ? function->name : "function";
    if (mx_list_check_any(inputs, name, "inputs"))
        return mx_error_code();
    for (int64_t i = 0; i < inputs->n; i++)
        if (mx_is_symbolic(inputs->v[i]))
            return mx_fail(
                MX_ERR_UNSUPPORTED,
                "%s: a function with a custom backward cannot be part of a graph; its input %lld is symbolic", name,
                (long long)i);
    return MX_OK;
}

mx_arrays mx_function_call(const mx_function *function, void *user, mx_arrays inputs)
{
    if (!function || !function->forward || !function->backward || function->n_out < 1 ||
        function->n_out > MX_MAX_OUTPUTS)
        return mx_fail(MX_ERR_ARGUMENT, "mx_function_call: function is NULL or lacks forward, backward or outputs"),
               mx_list_failed();
    if (check_function_inputs(function, &inputs))
        return give_up(function, user);
    mx_array **out = mx_list_new(function->n_out);
    if (!out || run_forward(function, user, inputs, out))
        return give_up(function, user);
    if (!mx_is_recording() || !any_history(inputs)) {
        give_up(function, user); /* there will be no backward */
        return (mx_arrays){out, function->n_out};
    }
    mx_node *node = function_node(function, user, inputs);
    if (!node)
        return give_up(function, user);
    mx_code code = attach(node, out);
    mx_release(node);
    return code ? mx_list_failed() : (mx_arrays){out, function->n_out};
}
