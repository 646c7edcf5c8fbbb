/* Executors: a symbol bound to arrays (see gluon/executor.h).
 *
 * The graph is run node by node on the tape.  Variables of the tape are the executor's own views of the arguments,
 * so that the caller's arrays keep their history.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/executor.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/interpret.h"
#include "exec/list.h"
#include "exec/tape.h"
#include "graph/symbol.h"

struct mx_executor {
    mx_object object;
    mx_symbol *symbol; /* retained */
    mx_graph graph;
    mx_context context;
    int64_t n_args, n_aux, n_out;
    int64_t *place;        /* (graph.n) number of a variable among arguments, or -1 - number among the auxiliary ones */
    mx_array **args;       /* (n_args) retained */
    mx_array **windows;    /* (n_args) views of them, as variables of the tape; retained */
    mx_array **grads;      /* (n_args) retained; MX_NONE: none */
    mx_grad_req *reqs;     /* (n_args) */
    mx_array **aux;        /* (n_aux) retained */
    mx_array **outputs;    /* (n_out) of the last forward; retained; NULL: none yet */
    bool trained;          /* the last forward was recorded */
    mx_monitor_fn monitor; /* NULL: none */
    void *user;
    bool monitor_all;
};

static void release_all(mx_array **list, int64_t n)
{
    for (int64_t i = 0; list && i < n; i++) {
        if (list[i] != MX_NONE)
            mx_release(list[i]);
        list[i] = NULL;
    }
}

static void free_list(mx_array **list, int64_t n)
{
    release_all(list, n);
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
    mx_free(e->reqs, (size_t)e->n_args * sizeof *e->reqs);
    mx_free(e->place, (size_t)e->graph.n * sizeof *e->place);
    mx_graph_free(&e->graph);
    mx_release(e->symbol);
    mx_free(e, sizeof *e);
}
static const mx_kind executor_kind = {"executor", destroy};

static bool ok(const mx_executor *e, const char *function)
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
        e->aux = mx_alloc_zero((size_t)e->n_aux * sizeof(mx_array *));
        e->outputs = mx_alloc_zero((size_t)e->n_out * sizeof(mx_array *));
    }
    if (!code && e->args && e->windows && e->grads && e->reqs && e->aux && e->outputs)
        return e;
    mx_release(e);
    return NULL;
}

/* Sets array, gradient and request of argument i. */
static mx_code bind_argument(mx_executor *e, int64_t i, mx_array *x, mx_array *grad, mx_grad_req req)
{
    if (!mx_array_ok(x, "mx_bind", "an argument"))
        return mx_error_code();
    if (!x->storage)
        return mx_fail(MX_ERR_ARGUMENT, "mx_bind: argument %lld has no elements", (long long)i);
    if (grad != MX_NONE && !mx_array_ok(grad, "mx_bind", "a gradient"))
        return mx_error_code();
    mx_shape_t shape = mx_array_shape(x);
    e->args[i] = mx_retain(x);
    e->windows[i] = mx_array_view(x, 0, &shape, (mx_dtype)x->dtype);
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

/* Checks the shapes of the arrays against those of the graph. */
static mx_code check_shapes(const mx_executor *e)
{
    MX_SCOPE;
    const size_t n = (size_t)(e->n_args + e->n_aux);
    const size_t bytes = n * (sizeof(mx_dims) + sizeof(mx_dtype) + sizeof(char *));
    mx_dims *shapes = mx_alloc_zero(bytes);
    if (!shapes)
        return MX_ERR_MEMORY;
    const char **names = (const char **)(void *)(shapes + n);
    mx_dtype *types = (mx_dtype *)(void *)(names + n);
    for (int64_t i = 0; i < e->graph.n; i++) {
        if (e->graph.nodes[i]->op)
            continue;
        const int64_t at = e->place[i] >= 0 ? e->place[i] : e->n_args - 1 - e->place[i];
        const mx_array *x = e->place[i] >= 0 ? e->args[e->place[i]] : e->aux[-1 - e->place[i]];
        names[at] = e->graph.nodes[i]->name;
        shapes[at] = mx_shape(x);
        types[at] = (mx_dtype)x->dtype;
    }
    const mx_inferred *r = mx_symbol_infer(
        e->symbol,
        &(struct mx_known){.count = (int)n, .names = names, .shapes = shapes, .types = types, .partial = true});
    mx_free(shapes, bytes);
    return r ? MX_OK : mx_error_code();
}

mx_executor *mx_bind(const mx_symbol *symbol, mx_context context, const struct mx_bindings *bindings)
{
    if (!mx_symbol_ok(symbol, "mx_bind"))
        return NULL;
    if (!bindings)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_bind: bindings is NULL");
    struct mx_bindings b = *bindings;
    if (mx_list_check(&b.arguments, "mx_bind", "arguments") || mx_list_check(&b.auxiliary, "mx_bind", "auxiliary") ||
        mx_list_check_optional(&b.gradients, "mx_bind", "gradients"))
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
    code = code ? code : check_shapes(e);
    if (!code)
        return mx_scope_add(e);
    mx_release(e);
    return NULL;
}

/* ---- simple_bind and reshape ----------------------------------------------------------------------------------- */

static mx_array *zeros(const mx_dims *dims, mx_dtype type, mx_context context)
{
    mx_array *x = mx_empty(*dims, type == MX_DTYPE_NONE ? MX_FLOAT32 : type, context);
    return x && !mx_array_fill(x, 0) ? x : NULL;
}

/* `before`, if it has the required shape; else a new array. */
static mx_array *same_or_zeros(mx_array *before, const mx_dims *dims, mx_dtype type, mx_context context)
{
    if (before) {
        mx_dims have = mx_shape(before);
        if (have.n == dims->n && !memcmp(have.d, dims->d, (size_t)have.n * sizeof have.d[0]))
            return before;
        type = (mx_dtype)before->dtype;
    }
    return zeros(dims, type, context);
}

static mx_code make_arrays(const mx_inferred *r, mx_context context, const mx_executor *before, mx_grad_req req,
                           mx_array **args, mx_array **grads, mx_array **aux)
{
    for (int64_t i = 0; i < r->n_arguments; i++) {
        args[i] = same_or_zeros(before ? before->args[i] : NULL, &r->arguments[i], r->argument_types[i], context);
        const bool wanted = before ? before->grads[i] != MX_NONE : req != MX_GRAD_NULL;
        mx_array *old = before && wanted ? before->grads[i] : NULL;
        grads[i] = !wanted ? MX_NONE : same_or_zeros(old, &r->arguments[i], r->argument_types[i], context);
        if (!args[i] || !grads[i])
            return mx_error_code();
    }
    for (int64_t i = 0; i < r->n_auxiliary; i++)
        if (!(aux[i] = same_or_zeros(before ? before->aux[i] : NULL, &r->auxiliary[i], r->auxiliary_types[i], context)))
            return mx_error_code();
    return MX_OK;
}

static mx_executor *bind_inferred(const mx_symbol *symbol, mx_context context, const struct mx_known *known,
                                  const mx_executor *before, mx_grad_req req)
{
    mx_scope scope = mx_scope_open();
    mx_executor *e = NULL;
    const mx_inferred *r = mx_symbol_infer(symbol, known);
    const int64_t n = r ? r->n_arguments : 0;
    mx_array **lists = r ? mx_list_new(2 * n + r->n_auxiliary) : NULL;
    mx_grad_req *reqs = lists ? mx_alloc((size_t)n * sizeof *reqs) : NULL;
    if (reqs && !make_arrays(r, context, before, req, lists, lists + n, lists + 2 * n)) {
        for (int64_t i = 0; i < n; i++)
            reqs[i] = before ? before->reqs[i] : req;
        struct mx_bindings b = {{lists, n}, {lists + n, n}, reqs, {lists + 2 * n, r->n_auxiliary}};
        e = mx_bind(symbol, context, &b);
    }
    mx_free(reqs, (size_t)n * sizeof *reqs);
    return mx_scope_return(&scope, e);
}

mx_executor *mx_simple_bind(const mx_symbol *symbol, mx_context context, const struct mx_known *known, mx_grad_req req)
{
    return mx_symbol_ok(symbol, "mx_simple_bind") ? bind_inferred(symbol, context, known, NULL, req) : NULL;
}

mx_executor *mx_executor_reshape(const mx_executor *e, const struct mx_known *known)
{
    return ok(e, "mx_executor_reshape") ? bind_inferred(e->symbol, e->context, known, e, MX_GRAD_WRITE) : NULL;
}

/* ---- running --------------------------------------------------------------------------------------------------- */

static mx_arrays list_of(mx_array *const *arrays, int64_t n)
{
    mx_array **list = mx_list_new(n);
    for (int64_t i = 0; list && i < n; i++)
        list[i] = arrays[i];
    return list ? (mx_arrays){list, n} : mx_list_failed();
}

mx_arrays mx_executor_forward(mx_executor *e, bool training)
{
    if (!ok(e, "mx_executor_forward"))
        return mx_list_failed();
    release_all(e->outputs, e->n_out);
    mx_array **values = mx_alloc_zero((size_t)e->graph.n * sizeof *values);
    if (!values)
        return mx_list_failed();
    for (int64_t i = 0; i < e->graph.n; i++)
        if (!e->graph.nodes[i]->op)
            values[i] = e->place[i] >= 0 ? e->windows[e->place[i]] : e->aux[-1 - e->place[i]];
    mx_interpretation what = {&e->graph, values, e->monitor, e->user, e->monitor_all, NULL};
    mx_mode mode = mx_mode_enter(training, training);
    mx_code code = mx_interpret(&what, e->outputs);
    mx_mode_leave(&mode);
    mx_free(values, (size_t)e->graph.n * sizeof *values);
    e->trained = training && !code;
    return code ? mx_list_failed() : list_of(e->outputs, e->n_out);
}

mx_code mx_executor_backward(mx_executor *e, mx_arrays head_grads)
{
    MX_SCOPE;
    if (!ok(e, "mx_executor_backward"))
        return mx_error_code();
    if (!e->trained)
        return mx_fail(MX_ERR_STATE, "mx_executor_backward: run mx_executor_forward() with training = true first");
    /* Outputs that depend on no variable with a gradient (labels passed through, say) are skipped. */
    mx_array **heads = mx_list_new(e->n_out), **grads = mx_list_new(e->n_out);
    if (!heads || !grads || (head_grads.n && mx_list_check_optional(&head_grads, "mx_executor_backward", "head_grads")))
        return mx_error_code();
    if (head_grads.n && head_grads.n != e->n_out)
        return mx_fail(MX_ERR_ARGUMENT, "mx_executor_backward: %lld head gradients were given for %lld outputs",
                       (long long)head_grads.n, (long long)e->n_out);
    int64_t n = 0;
    for (int64_t i = 0; i < e->n_out; i++)
        if (mx_tape_node(e->outputs[i])) {
            heads[n] = e->outputs[i];
            grads[n++] = head_grads.n ? head_grads.v[i] : MX_NONE;
        }
    if (!n)
        return MX_OK;
    mx_backward_options options = {.head_grads = {grads, n}, .retain_graph = true};
    return mx_backward_all((mx_arrays){heads, n}, &options);
}

/* ---- accessors ------------------------------------------------------------------------------------------------- */

const mx_symbol *mx_executor_symbol(const mx_executor *e) { return ok(e, "mx_executor_symbol") ? e->symbol : NULL; }

mx_arrays mx_executor_arguments(const mx_executor *e)
{
    return ok(e, "mx_executor_arguments") ? list_of(e->args, e->n_args) : mx_list_failed();
}
mx_arrays mx_executor_gradients(const mx_executor *e)
{
    return ok(e, "mx_executor_gradients") ? list_of(e->grads, e->n_args) : mx_list_failed();
}
mx_arrays mx_executor_auxiliary(const mx_executor *e)
{
    return ok(e, "mx_executor_auxiliary") ? list_of(e->aux, e->n_aux) : mx_list_failed();
}
mx_arrays mx_executor_outputs(const mx_executor *e)
{
    if (!ok(e, "mx_executor_outputs"))
        return mx_list_failed();
    return e->n_out && e->outputs[0] ? list_of(e->outputs, e->n_out) : mx_list_failed();
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
    if (!ok(e, "mx_executor_array"))
        return NULL;
    const int64_t i = find(e, name);
    if (i < 0)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_executor_array: there is no argument or auxiliary state named '%s'",
                            name ? name : "NULL");
    return e->place[i] >= 0 ? e->args[e->place[i]] : e->aux[-1 - e->place[i]];
}

mx_array *mx_executor_gradient(const mx_executor *e, const char *name)
{
    const int64_t i = ok(e, "mx_executor_gradient") ? find(e, name) : -1;
    if (i < 0 || e->place[i] < 0 || e->grads[e->place[i]] == MX_NONE)
        return NULL;
    return e->grads[e->place[i]];
}

mx_code mx_executor_set(mx_executor *e, const char *name, mx_array *value)
{
    mx_array *x = mx_executor_array(e, name);
    if (!x || !mx_array_ok(value, "mx_executor_set", "value"))
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
    if (!ok(e, "mx_executor_monitor"))
        return;
    e->monitor = fn, e->user = user, e->monitor_all = all;
}

mx_arrays mx_symbol_eval(const mx_symbol *symbol, int count, const char *const *names, mx_arrays values)
{
    mx_graph graph = {0};
    if (!mx_symbol_ok(symbol, "mx_symbol_eval") || mx_list_check(&values, "mx_symbol_eval", "values"))
        return mx_list_failed();
    if (count < 0 || (count && !names) || values.n != count)
        return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_eval: %d names for %lld values", count, (long long)values.n),
               mx_list_failed();
    if (mx_graph_of(&graph, symbol->n, symbol->outputs))
        return mx_list_failed();
    const size_t bytes = (size_t)(graph.n + symbol->n) * sizeof(mx_array *);
    mx_array **given = mx_alloc_zero(bytes), **heads = given + graph.n;
    for (int64_t i = 0; given && i < graph.n; i++)
        for (int k = 0; k < count && !graph.nodes[i]->op; k++)
            if (names[k] && !strcmp(graph.nodes[i]->name, names[k]))
                given[i] = values.v[k];
    mx_interpretation what = {.graph = &graph, .values = given};
    mx_code code = given ? mx_interpret(&what, heads) : MX_ERR_MEMORY;
    for (int64_t i = 0; !code && i < symbol->n; i++)
        if (!mx_scope_add(heads[i]))
            code = mx_error_code();
    mx_arrays out = code ? mx_list_failed() : list_of(heads, symbol->n);
    mx_free(given, bytes);
    mx_graph_free(&graph);
    return out;
}
