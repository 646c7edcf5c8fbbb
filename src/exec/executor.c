/* Executors: creation, binding to arrays, accessors (see gluon/executor.h).  SPDX-License-Identifier: Apache-2.0 */
#include "exec/executor.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/list.h"
#include "ndarray/sparse.h"

void mx_executor_release_all(mx_array **list, int64_t n)
{
    for (int64_t i = 0; list && i < n; i++) {
        if (list[i] != MX_NONE)
            mx_release(list[i]);
        list[i] = NULL;
    }
}

static void free_list(mx_array **list, int64_t n)
{
    mx_executor_release_all(list, n);
    mx_free(list, (size_t)n * sizeof *list);
}

static void destroy(mx_object *self)
{
    mx_executor *e = (mx_executor *)self;
    free_list(e->args, e->n_args);
    free_list(e->windows, e->n_args);
    free_list(e->grads, e->n_args);
    free_list(e->aux, e->n_aux);
    free_list(e->outputs, e->n_out);
    free_list(e->results, e->n_out);
    mx_free(e->reqs, (size_t)e->n_args * sizeof *e->reqs);
    mx_free(e->ones, (size_t)e->n_args);
    mx_free(e->place, (size_t)e->graph.n * sizeof *e->place);
    mx_graph_free(&e->graph);
    mx_release(e->symbol);
    mx_free(e, sizeof *e);
}
static const mx_kind executor_kind = {"executor", destroy};

bool mx_executor_ok(const mx_executor *e, const char *function)
{
    return mx_is_kind(e, &executor_kind, function, "executor");
}

/* ---- binding --------------------------------------------------------------------------------------------------- */

static mx_code number_variables(mx_executor *e)
{
    bool *is_aux = mx_alloc((size_t)e->graph.n);
    e->place = mx_alloc_zero((size_t)e->graph.n * sizeof *e->place);
    if (!is_aux || !e->place)
        return mx_free(is_aux, (size_t)e->graph.n), MX_ERR_MEMORY;
    mx_graph_auxiliary(&e->graph, is_aux);
    for (int64_t i = 0; i < e->graph.n; i++)
        if (!e->graph.nodes[i]->op)
            e->place[i] = is_aux[i] ? -1 - e->n_aux++ : e->n_args++;
    mx_free(is_aux, (size_t)e->graph.n);
    return MX_OK;
}

/* Whether an operator takes its input gamma as 1. */
static bool fixes_gamma(const mx_gnode *node)
{
    const mx_field *field = node->op && node->op->schema ? mx_schema_find(node->op->schema, "fix_gamma") : NULL;
    return field && node->attrs && *(const bool *)((const char *)node->attrs + field->offset);
}

static void mark_ones(mx_executor *e)
{
    char name[64];
    for (int64_t k = 0; k < e->graph.n; k++)
        for (int i = 0; i < e->graph.nodes[k]->n_in && fixes_gamma(e->graph.nodes[k]); i++) {
            const mx_gnode *from = e->graph.nodes[k]->in[i].node;
            if (from->op || strcmp(mx_op_input_name(e->graph.nodes[k]->op, i, name), "gamma"))
                continue;
            for (int64_t v = 0; v < e->graph.n; v++)
                if (e->graph.nodes[v] == from && e->place[v] >= 0)
                    e->ones[e->place[v]] = true;
        }
}

static mx_executor *new_executor(const mx_symbol *symbol, mx_context context)
{
    mx_executor *e = mx_alloc_zero(sizeof *e);
    if (!e)
        return NULL;
    mx_object_init(&e->object, &executor_kind);
    e->symbol = mx_retain((void *)(uintptr_t)symbol);
    e->context = context;
    e->n_out = symbol->n;
    mx_code code = mx_graph_of(&e->graph, symbol->n, symbol->outputs);
    code = code ? code : number_variables(e);
    const size_t n = (size_t)e->n_args * sizeof(mx_array *);
    if (!code) {
        e->args = mx_alloc_zero(n), e->windows = mx_alloc_zero(n), e->grads = mx_alloc_zero(n);
        e->reqs = mx_alloc_zero((size_t)e->n_args * sizeof *e->reqs);
        e->ones = mx_alloc_zero((size_t)e->n_args);
        e->aux = mx_alloc_zero((size_t)e->n_aux * sizeof(mx_array *));
        e->outputs = mx_alloc_zero((size_t)e->n_out * sizeof(mx_array *));
        e->results = mx_alloc_zero((size_t)e->n_out * sizeof(mx_array *));
    }
    if (!code && e->args && e->windows && e->grads && e->reqs && e->ones && e->aux && e->outputs && e->results) {
        mark_ones(e);
        return e;
    }
    mx_release(e);
    return NULL;
}

/* Sets array, gradient and request of argument i. */
static mx_code bind_argument(mx_executor *e, int64_t i, mx_array *x, mx_array *grad, mx_grad_req req)
{
    if (!mx_array_any_ok(x, "mx_bind", "an argument"))
        return mx_error_code();
    if (!x->storage && !mx_is_sparse(x))
        return mx_fail(MX_ERR_ARGUMENT, "mx_bind: argument %lld has no elements", (long long)i);
    if (grad != MX_NONE && !mx_array_any_ok(grad, "mx_bind", "a gradient"))
        return mx_error_code();
    e->args[i] = mx_retain(x);
    e->windows[i] = mx_retain(mx_detach(x));
    e->grads[i] = grad == MX_NONE ? MX_NONE : mx_retain(grad);
    e->reqs[i] = grad == MX_NONE ? MX_GRAD_NULL : req;
    if (!e->windows[i])
        return mx_error_code();
    if (e->reqs[i] == MX_GRAD_NULL)
        return MX_OK;
    return mx_mark_variables((mx_arrays){&e->windows[i], 1}, (mx_arrays){&e->grads[i], 1}, &e->reqs[i]);
}

static mx_code check_counts(const mx_executor *e, const struct mx_bindings *b)
{
    if (b->arguments.n != e->n_args)
        return mx_fail(MX_ERR_ARGUMENT, "mx_bind: %lld arguments were given, the symbol has %lld",
                       (long long)b->arguments.n, (long long)e->n_args);
    if (b->gradients.n && b->gradients.n != e->n_args)
        return mx_fail(MX_ERR_ARGUMENT, "mx_bind: %lld gradients were given for %lld arguments",
                       (long long)b->gradients.n, (long long)e->n_args);
    if (b->auxiliary.n != e->n_aux)
        return mx_fail(MX_ERR_ARGUMENT, "mx_bind: %lld auxiliary states were given, the symbol has %lld",
                       (long long)b->auxiliary.n, (long long)e->n_aux);
    return MX_OK;
}

mx_array *mx_executor_variable(const mx_executor *e, int64_t i)
{
    return e->place[i] >= 0 ? e->args[e->place[i]] : e->aux[-1 - e->place[i]];
}

/* ---- outputs --------------------------------------------------------------------------------------------------- */

mx_array *mx_leading_part(mx_array *x, const mx_shape_t *shape)
{
    return mx_shape_size(shape) <= x->size && x->storage ? mx_array_view(x, 0, shape, (mx_dtype)x->dtype) : NULL;
}

/* A size of 0 stands for one that is not known, unless all are. */
static bool is_settled(const mx_inferred *r, int64_t i)
{
    const mx_dims *dims = &r->outputs[i];
    for (int k = 0; k < dims->n && !r->complete; k++)
        if (dims->d[k] <= 0)
            return false;
    return dims->n >= 0 && r->output_types[i] != MX_DTYPE_NONE;
}

/* Output i: a variable's own array, else part of the memory of `before`, else new memory. */
static mx_code make_output(mx_executor *e, int64_t i, const mx_inferred *r, const mx_executor *before)
{
    const int64_t node = mx_graph_node_of(&e->graph, e->graph.results[i]);
    if (!e->graph.nodes[node]->op) {
        mx_array *x = mx_executor_variable(e, node);
        mx_shape_t shape = mx_array_shape(x);
        e->outputs[i] = x->storage ? mx_array_view(x, 0, &shape, (mx_dtype)x->dtype) : mx_retain(x);
        return e->outputs[i] ? MX_OK : mx_error_code();
    }
    if (!is_settled(r, i))
        return MX_OK;
    const mx_shape_t shape = mx_shape_of_dims(&r->outputs[i]);
    mx_array *old = before ? before->outputs[i] : NULL;
    if (old && old->dtype == (int)r->output_types[i])
        e->outputs[i] = mx_leading_part(old, &shape);
    if (!e->outputs[i])
        e->outputs[i] = mx_array_new(&shape, r->output_types[i], e->n_args ? e->args[0]->context : e->context);
    return e->outputs[i] ? MX_OK : mx_error_code();
}

/* Checks the shapes of the arrays against those of the graph; the result belongs to the scope. */
static const mx_inferred *infer_bound(const mx_executor *e)
{
    const size_t n = (size_t)(e->n_args + e->n_aux);
    const size_t bytes = n * (sizeof(mx_dims) + sizeof(mx_dtype) + sizeof(char *));
    mx_dims *shapes = mx_alloc_zero(bytes);
    if (!shapes)
        return NULL;
    const char **names = (const char **)(void *)(shapes + n);
    mx_dtype *types = (mx_dtype *)(void *)(names + n);
    for (int64_t i = 0; i < e->graph.n; i++) {
        if (e->graph.nodes[i]->op)
            continue;
        const int64_t at = e->place[i] >= 0 ? e->place[i] : e->n_args - 1 - e->place[i];
        const mx_array *x = mx_executor_variable(e, i);
        names[at] = e->graph.nodes[i]->name;
        shapes[at] = mx_shape(x);
        types[at] = (mx_dtype)x->dtype;
    }
    const mx_inferred *r = mx_symbol_infer(
        e->symbol,
        &(struct mx_known){.count = (int)n, .names = names, .shapes = shapes, .types = types, .partial = true});
    mx_free(shapes, bytes);
    return r;
}

static mx_code make_outputs(mx_executor *e, const mx_executor *before)
{
    MX_SCOPE;
    const mx_inferred *r = infer_bound(e);
    for (int64_t i = 0; r && i < e->n_out; i++)
        if (make_output(e, i, r, before))
            return mx_error_code();
    return r ? MX_OK : mx_error_code();
}

mx_executor *mx_bind_sharing(const mx_symbol *symbol, mx_context context, const struct mx_bindings *bindings,
                             const mx_executor *before)
{
    if (!mx_symbol_ok(symbol, "mx_bind"))
        return NULL;
    if (!bindings)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_bind: bindings is NULL");
    struct mx_bindings b = *bindings;
    if (mx_list_check_any(&b.arguments, "mx_bind", "arguments") ||
        mx_list_check(&b.auxiliary, "mx_bind", "auxiliary") ||
        mx_list_check_inputs(&b.gradients, "mx_bind", "gradients"))
        return NULL;
    mx_executor *e = new_executor(symbol, context);
    if (!e)
        return NULL;
    mx_code code = check_counts(e, &b);
    for (int64_t i = 0; !code && i < e->n_args; i++)
        code = bind_argument(e, i, b.arguments.v[i], b.gradients.n ? b.gradients.v[i] : MX_NONE,
                             b.reqs ? b.reqs[i] : MX_GRAD_WRITE);
    for (int64_t i = 0; !code && i < e->n_aux; i++)
        e->aux[i] = mx_retain(b.auxiliary.v[i]);
    code = code ? code : make_outputs(e, before);
    if (!code)
        return mx_scope_add(e);
    mx_release(e);
    return NULL;
}

mx_executor *mx_bind(const mx_symbol *symbol, mx_context context, const struct mx_bindings *bindings)
{
    return mx_bind_sharing(symbol, context, bindings, NULL);
}

/* ---- accessors ------------------------------------------------------------------------------------------------- */

static mx_arrays list_of(mx_array *const *arrays, int64_t n)
{
    mx_array **list = mx_list_new(n);
    for (int64_t i = 0; list && i < n; i++)
        list[i] = arrays[i];
    return list ? (mx_arrays){list, n} : mx_list_failed();
}

const mx_symbol *mx_executor_symbol(const mx_executor *e)
{
    return mx_executor_ok(e, "mx_executor_symbol") ? e->symbol : NULL;
}

mx_arrays mx_executor_arguments(const mx_executor *e)
{
    return mx_executor_ok(e, "mx_executor_arguments") ? list_of(e->args, e->n_args) : mx_list_failed();
}
mx_arrays mx_executor_gradients(const mx_executor *e)
{
    return mx_executor_ok(e, "mx_executor_gradients") ? list_of(e->grads, e->n_args) : mx_list_failed();
}
mx_arrays mx_executor_auxiliary(const mx_executor *e)
{
    return mx_executor_ok(e, "mx_executor_auxiliary") ? list_of(e->aux, e->n_aux) : mx_list_failed();
}
mx_arrays mx_executor_outputs(const mx_executor *e)
{
    if (!mx_executor_ok(e, "mx_executor_outputs"))
        return mx_list_failed();
    for (int64_t i = 0; i < e->n_out; i++)
        if (!e->outputs[i])
            return mx_list_failed();
    return list_of(e->outputs, e->n_out);
}

/* Index of the variable called `name` in the graph; -1: none. */
static int64_t find(const mx_executor *e, const char *name)
{
    for (int64_t i = 0; name && i < e->graph.n; i++)
        if (!e->graph.nodes[i]->op && !strcmp(e->graph.nodes[i]->name, name))
            return i;
    return -1;
}

mx_array *mx_executor_array(const mx_executor *e, const char *name)
{
    if (!mx_executor_ok(e, "mx_executor_array"))
        return NULL;
    const int64_t i = find(e, name);
    if (i < 0)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_executor_array: there is no argument or auxiliary state named '%s'",
                            name ? name : "NULL");
    return mx_executor_variable(e, i);
}

mx_array *mx_executor_gradient(const mx_executor *e, const char *name)
{
    const int64_t i = mx_executor_ok(e, "mx_executor_gradient") ? find(e, name) : -1;
    if (i < 0 || e->place[i] < 0 || e->grads[e->place[i]] == MX_NONE)
        return NULL;
    return e->grads[e->place[i]];
}

mx_code mx_executor_set(mx_executor *e, const char *name, mx_array *value)
{
    mx_array *x = mx_executor_array(e, name);
    if (!x || !mx_array_any_ok(value, "mx_executor_set", "value"))
        return mx_error_code();
    mx_dims have = mx_shape(value), want = mx_shape(x);
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    if (have.n != want.n || memcmp(have.d, want.d, (size_t)(have.n < 0 ? 0 : have.n) * sizeof have.d[0]))
        return mx_fail(MX_ERR_SHAPE,
                       "mx_executor_set: %s has shape %s, the executor was bound for %s; use "
                       "mx_executor_reshape()",
                       name, mx_dims_text(&have, a), mx_dims_text(&want, b));
    return mx_array_set(x, value);
}

void mx_executor_monitor(mx_executor *e, mx_monitor_fn fn, void *user, bool all)
{
    if (!mx_executor_ok(e, "mx_executor_monitor"))
        return;
    e->monitor = fn, e->user = user, e->monitor_all = all;
}
