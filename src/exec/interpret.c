/* Running a graph node by node (see interpret.h).  SPDX-License-Identifier: Apache-2.0 */
#include "exec/interpret.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/call.h"
#include "exec/tape.h"
#include "graph/infer.h"
#include "graph/open.h"
#include "base/thread.h"

typedef struct mx_interpreter {
    mx_interpretation what;
    const mx_graph *graph;
    int64_t next;      /* step */
    mx_array **value;  /* per entry; retained; NULL: not computed, or not needed any more */
    int64_t *users;    /* per entry: nodes and results that still need it */
    mx_array **in;     /* inputs of the current node */
    mx_shape_t *shape; /* per entry, where some node leaves sizes open; else NULL */
    size_t shape_bytes;
    size_t bytes; /* of this struct and the lists behind it */
} run;

static void count_users(run *r)
{
    const mx_graph *g = r->graph;
    for (int64_t i = 0; i < g->in_row[g->n]; i++)
        if (g->in_entry[i] >= 0)
            r->users[g->in_entry[i]]++;
    for (int64_t i = 0; i < g->n_results; i++)
        r->users[g->results[i]]++;
}

static void used(run *r, int64_t entry)
{
    if (--r->users[entry])
        return;
    mx_release(r->value[entry]);
    r->value[entry] = NULL;
}

static mx_code set_variable(run *r, int64_t i)
{
    mx_gnode *node = r->graph->nodes[i];
    mx_array *x = r->what.values && r->what.values[i] ? r->what.values[i] : node->value;
    if (!x)
        return mx_fail(MX_ERR_ARGUMENT, "variable %s has no value", node->name);
    r->value[r->graph->row[i]] = mx_retain(x);
    return MX_OK;
}

/* ---- open sizes -------------------------------------------------------------------------------------------------- */

/* Shapes of all entries from those of the variables' values.  While tracing sizes stay open. */
static mx_code find_shapes(run *r)
{
    const mx_graph *g = r->graph;
    const size_t entries = (size_t)g->row[g->n];
    if (mx_thread.modes.tracing || !mx_graph_open(g))
        return MX_OK;
    r->shape_bytes = entries * (sizeof(mx_shape_t) + sizeof(int));
    if (!(r->shape = mx_alloc(r->shape_bytes)))
        return MX_ERR_MEMORY;
    int *type = (int *)(r->shape + entries);
    mx_graph_infer_start(g, r->shape, type);
    for (int64_t i = 0; i < g->n; i++) {
        const mx_gnode *node = g->nodes[i];
        const mx_array *x = node->op ? NULL : r->what.values && r->what.values[i] ? r->what.values[i] : node->value;
        if (!x)
            continue;
        r->shape[g->row[i]] = mx_array_shape(x);
        type[g->row[i]] = x->dtype;
    }
    return mx_graph_infer(g, r->shape, type);
}

/* Runs an operator without inputs, with the shape that the rest of the graph needs. */
static mx_code run_open(const run *r, int64_t i, const mx_field *field, mx_array **out)
{
    mx_gnode *node = r->graph->nodes[i];
    void *attrs = mx_sized_attrs(node, field, &r->shape[r->graph->row[i]]);
    if (!attrs)
        return MX_ERR_MEMORY;
    mx_code code = mx_invoke(node->op, attrs, 0, NULL, MX_MAX_OUTPUTS, out);
    mx_free(attrs, node->op->schema->size);
    return code;
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

static mx_code gather(run *r, int64_t i)
{
    const mx_gnode *node = r->graph->nodes[i];
    for (int k = 0; k < node->n_in; k++) {
        const int64_t e = r->graph->in_entry[r->graph->in_row[i] + k];
        r->in[k] = e < 0 ? MX_NONE : r->value[e];
        if (!r->in[k])
            return mx_fail(MX_ERR_UNSUPPORTED, "%s: input %d is output %u of %s, which only its gradient can use",
                           node->name, k, node->in[k].output, node->in[k].node->name);
    }
    return MX_OK;
}

static mx_code show(run *r, const mx_gnode *node, mx_text *text, mx_array *value)
{
    const char *name = mx_text_get(text);
    mx_code code = !name ? mx_error_code() : r->what.watch(r->what.user, name, value);
    mx_text_free(text);
    return code && !mx_has_error() ? mx_fail(MX_ERR_CALLBACK, "%s: the monitor failed", node->name) : code;
}

/* conv0_weight for the input weight of node conv0, concat0_arg1 in a list, relu0_input0 where there is only data. */
static void name_input(const mx_gnode *node, int k, mx_text *text)
{
    char name[64];
    mx_op_input_name(node->op, k, name);
    const bool nameless = node->op->declared_inputs == 1 && !node->op->input_named && !strcmp(name, "data");
    if (node->op->flags & MX_OP_LIST)
        mx_text_print(text, "%s_arg%d", node->name, k);
    else
        mx_text_print(text, "%s_%s", node->name, nameless ? "input0" : name);
}

/* An input is named after its user.  Variables are shown under their own names as well. */
static mx_code watch_input(run *r, const mx_gnode *node, int k)
{
    mx_text own = {0}, text = {0};
    const mx_gnode *from = node->in[k].node;
    if (r->in[k] == MX_NONE)
        return MX_OK;
    mx_text_add(&own, from->name);
    const bool twice = !from->op && r->what.watch_variables;
    if (twice && show(r, node, &own, r->in[k]))
        return mx_error_code();
    if (!twice)
        mx_text_free(&own);
    name_input(node, k, &text);
    return show(r, node, &text, r->in[k]);
}

static mx_code watch_node(run *r, const mx_gnode *node, mx_array **out)
{
    for (int k = 0; r->what.watch_all && k < node->n_in; k++)
        if (watch_input(r, node, k))
            return mx_error_code();
    const int n_out = r->what.watch_hidden ? mx_op_count_out(node->op, node->attrs) : node->n_visible;
    for (int k = 0; k < n_out && out[k]; k++) {
        mx_text text = {0};
        mx_gentry entry = {(mx_gnode *)(uintptr_t)node, (uint32_t)k};
        mx_gentry_name(&entry, &text);
        if (show(r, node, &text, out[k]))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code run_node(run *r, int64_t i)
{
    MX_SCOPE;
    const mx_graph *g = r->graph;
    mx_gnode *node = g->nodes[i];
    mx_array *out[MX_MAX_OUTPUTS] = {NULL};
    if (!node->op)
        return set_variable(r, i);
    const bool clean = !mx_has_error();
    mx_code code = gather(r, i);
    const mx_field *open = r->shape ? mx_open_shape(node->op, node->attrs) : NULL;
    if (!code)
        code = open                   ? run_open(r, i, open, out)
               : r->what.watch_hidden ? mx_invoke_all(node->op, node->attrs, node->n_in, r->in, out)
                                      : mx_invoke(node->op, node->attrs, node->n_in, r->in, MX_MAX_OUTPUTS, out);
    if (!code && r->what.watch)
        code = watch_node(r, node, out);
    if (code && clean)
        mx_error_mention(node->name);
    for (int k = 0; !code && k < node->n_visible; k++)
        if (r->users[g->row[i] + k])
            r->value[g->row[i] + k] = mx_retain(out[k]);
    for (int k = 0; !code && k < node->n_in; k++)
        if (g->in_entry[g->in_row[i] + k] >= 0)
            used(r, g->in_entry[g->in_row[i] + k]);
    return code;
}

mx_interpreter *mx_interpret_start(const mx_interpretation *what)
{
    const mx_graph *g = what->graph;
    size_t entries = (size_t)g->row[g->n], most = 1;
    for (int64_t i = 0; i < g->n; i++)
        most = (size_t)g->nodes[i]->n_in > most ? (size_t)g->nodes[i]->n_in : most;
    const size_t bytes = sizeof(run) + (2 * entries + most) * sizeof(int64_t);
    run *r = mx_alloc_zero(bytes);
    if (!r)
        return NULL;
    r->what = *what, r->graph = g, r->bytes = bytes;
    r->value = (mx_array **)(void *)(r + 1);
    r->users = (int64_t *)(void *)(r->value + entries);
    r->in = (mx_array **)(void *)(r->users + entries);
    count_users(r);
    if (!find_shapes(r))
        return r;
    mx_interpret_end(r, NULL);
    return NULL;
}

mx_code mx_interpret_step(mx_interpreter *r)
{
    mx_thread.precision_settled++; /* the graph runs as it is, without casts */
    const mx_code code = run_node(r, r->what.order ? r->what.order[r->next] : r->next);
    mx_thread.precision_settled--;
    r->next++;
    return code;
}

mx_code mx_interpret_end(mx_interpreter *r, mx_array **results)
{
    const mx_graph *g = r->graph;
    mx_code code = MX_OK;
    for (int64_t i = 0; results && !code && i < g->n_results; i++) {
        results[i] = r->value[g->results[i]];
        if (!results[i])
            code = mx_fail(MX_ERR_UNSUPPORTED, "output %lld is hidden: only gradients can use it", (long long)i);
    }
    for (int64_t i = 0; results && i < g->n_results; i++)
        results[i] = code ? NULL : mx_retain(results[i]);
    for (int64_t e = 0; e < g->row[g->n]; e++)
        mx_release(r->value[e]);
    mx_free(r->shape, r->shape_bytes);
    mx_free(r, r->bytes);
    return code;
}

mx_code mx_interpret(const mx_interpretation *what, mx_array **results)
{
    mx_interpreter *r = mx_interpret_start(what);
    mx_code code = r ? MX_OK : mx_error_code();
    for (int64_t i = 0; !code && i < what->graph->n; i++)
        code = mx_interpret_step(r);
    for (int64_t i = 0; code && i < what->graph->n_results; i++)
        results[i] = NULL;
    const mx_code end = r ? mx_interpret_end(r, code ? NULL : results) : code;
    return code ? code : end;
}
