/* Running executors forwards and backwards, and symbols once (see exec/executor.h).
 *
 * A run is recorded whenever a gradient is wanted, in either mode, since the caller may ask for the gradient of a
 * prediction too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/backward.h"
#include "exec/executor.h"
#include "exec/interpret.h"
#include "exec/list.h"
#include "exec/sparse/sparse.h"

/* ---- forward --------------------------------------------------------------------------------------------------- */

static bool fits(const mx_array *x, const mx_array *result)
{
    const mx_shape_t a = mx_array_shape(x), b = mx_array_shape(result);
    return x->storage && result->storage && x->dtype == result->dtype && mx_shape_equal(&a, &b);
}

static bool is_same_storage(const mx_array *x, const mx_array *result)
{
    const mx_shape_t a = mx_array_shape(x), b = mx_array_shape(result);
    return mx_is_sparse(x) && mx_stype_of(x) == mx_stype_of(result) && x->dtype == result->dtype &&
           mx_shape_equal(&a, &b);
}

/* Copies the results into the outputs.  One that does not fit (its shape depends on values, it is sparse) takes the
 * place; a sparse output gets the parts of the next sparse result. */
static mx_code store_results(mx_executor *e)
{
    for (int64_t i = 0; i < e->n_out; i++) {
        mx_array *x = e->outputs[i], *result = e->results[i];
        if (x && is_same_storage(x, result)) {
            mx_sparse_take(x, result);
            continue;
        }
        if (x && fits(x, result)) {
            if (!mx_array_overlap(x, result) && mx_array_copy_data(x, result))
                return mx_error_code();
            mx_array_changed(x);
            continue;
        }
        mx_array *plain = mx_retain(mx_detach(result));
        if (!plain)
            return mx_error_code();
        mx_release(x);
        e->outputs[i] = plain;
    }
    return MX_OK;
}

static mx_code run_graph(mx_executor *e, bool training)
{
    MX_SCOPE;
    mx_executor_release_all(e->results, e->n_out);
    mx_array **values = mx_alloc_zero((size_t)e->graph.n * sizeof *values);
    if (!values)
        return MX_ERR_MEMORY;
    for (int64_t i = 0; i < e->n_args; i++)
        if (e->ones[i] && mx_array_fill(e->args[i], 1))
            return mx_free(values, (size_t)e->graph.n * sizeof *values), mx_error_code();
    for (int64_t i = 0; i < e->n_args; i++) /* an assignment gives a sparse array new parts */
        if (mx_is_sparse(e->args[i]))
            mx_sparse_take(e->windows[i], e->args[i]);
    for (int64_t i = 0; i < e->graph.n; i++)
        if (!e->graph.nodes[i]->op)
            values[i] = e->place[i] >= 0 ? e->windows[e->place[i]] : e->aux[-1 - e->place[i]];
    mx_interpretation what = {.graph = &e->graph, .values = values, .watch = e->monitor, .user = e->user,
                              .watch_all = e->monitor_all, .watch_variables = e->monitor_all, .watch_hidden = e->monitor != NULL};
    mx_mode mode = mx_mode_enter(true, training);
    mx_code code = mx_interpret(&what, e->results);
    mx_mode_leave(&mode);
    mx_free(values, (size_t)e->graph.n * sizeof *values);
    e->training = training;
    return code ? code : store_results(e);
}

mx_arrays mx_executor_forward(mx_executor *e, bool training)
{
    if (!mx_executor_ok(e, "mx_executor_forward") || run_graph(e, training))
        return mx_list_failed();
    return mx_executor_outputs(e);
}

/* ---- backward -------------------------------------------------------------------------------------------------- */

static bool reads_head(const mx_array *result)
{
    const mx_node *node = mx_live_node(result);
    return !node->op || mx_op_reads_head(node->op, node->attrs, (int)result->node_output);
}

static mx_array *cast(mx_array *x, mx_dtype type)
{
    return x->dtype == (int)type ? x : mx_g_call(MX_OP("Cast"), &type, 1, &x);
}

/* The head gradient for a result: of its type and shape; MX_NONE if the operator does not look at it. */
static mx_array *head_gradient(const mx_executor *e, int64_t i, mx_array *given)
{
    const mx_array *result = e->results[i];
    char have[MX_SHAPE_TEXT], want[MX_SHAPE_TEXT];
    if (given == MX_NONE || !reads_head(result))
        return MX_NONE;
    const mx_shape_t a = mx_array_shape(given), b = mx_array_shape(result);
    if (!mx_shape_equal(&a, &b))
        return mx_fail_null(MX_ERR_SHAPE, "backward: the head gradient of output %lld has shape %s, the output has %s",
                            (long long)i, mx_shape_text(&a, have), mx_shape_text(&b, want));
    return cast(mx_sparse_dense(given), (mx_dtype)result->dtype);
}

/* Results that depend on no variable with a gradient (labels passed through, say) are skipped. */
static int64_t collect_heads(const mx_executor *e, mx_arrays given, mx_array **heads, mx_array **grads)
{
    int64_t n = 0;
    for (int64_t i = 0; i < e->n_out; i++) {
        if (!mx_live_node(e->results[i]))
            continue;
        heads[n] = e->results[i];
        if (!(grads[n++] = head_gradient(e, i, given.n ? given.v[i] : MX_NONE)))
            return -1;
    }
    return n;
}

/* Gradients of arguments that the pass did not reach are zero. */
static mx_code clear_unreached(const mx_executor *e, uint64_t pass)
{
    for (int64_t i = 0; i < e->n_args; i++) {
        const mx_node *node = e->reqs[i] == MX_GRAD_WRITE ? e->windows[i]->node : NULL;
        if (!node || node->visit == pass)
            continue;
        if (mx_is_sparse(node->grad))
            mx_sparse_clear(node->grad);
        else if (mx_array_fill(node->grad, 0))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code check_heads(const mx_executor *e, mx_arrays *given)
{
    if (!given->n)
        return MX_OK;
    if (mx_list_check_inputs(given, "mx_executor_backward", "head_grads"))
        return mx_error_code();
    if (given->n < e->n_out)
        return mx_fail(MX_ERR_ARGUMENT, "backward: %lld head gradients were given for %lld outputs",
                       (long long)given->n, (long long)e->n_out);
    return MX_OK;
}

mx_code mx_executor_backward(mx_executor *e, mx_arrays head_grads)
{
    MX_SCOPE;
    if (!mx_executor_ok(e, "mx_executor_backward") || check_heads(e, &head_grads))
        return mx_error_code();
    if (e->n_out && !e->results[0] && run_graph(e, false))
        return mx_error_code();
    mx_array **heads = mx_list_new(e->n_out), **grads = mx_list_new(e->n_out);
    const int64_t n = heads && grads ? collect_heads(e, head_grads, heads, grads) : -1;
    if (n < 0)
        return mx_error_code();
    mx_pass pass = {.retain = true, .predict = !e->training};
    mx_code code = n ? mx_pass_run(&pass, (mx_arrays){heads, n}, (mx_arrays){grads, n}) : MX_OK;
    code = code ? code : clear_unreached(e, pass.number);
    mx_pass_free(&pass);
    return code;
}

/* ---- running once ---------------------------------------------------------------------------------------------- */

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
    mx_array **list = code ? NULL : mx_list_new(symbol->n);
    if (list)
        memcpy(list, heads, (size_t)symbol->n * sizeof *list);
    mx_arrays out = list ? (mx_arrays){list, symbol->n} : mx_list_failed();
    mx_free(given, bytes);
    mx_graph_free(&graph);
    return out;
}
