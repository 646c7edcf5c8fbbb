/* Composition: a symbol on other inputs.
 *
 * Nodes are immutable, so those that depend on a replaced variable are rebuilt, in order; the others are shared.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "graph/rewrite.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/symbol.h"

/* ---- rebuilding ------------------------------------------------------------------------------------------------ */

static mx_gentry entry_now(const mx_gentry *now, int64_t entry)
{
    return entry < 0 ? (mx_gentry){NULL, 0} : now[entry];
}

/* Rebuilds node i if one of its inputs changed. */
static mx_code rebuild_node(const mx_graph *graph, mx_gentry *now, int64_t i)
{
    mx_gnode *node = graph->nodes[i];
    bool changed = false;
    for (int k = 0; k < node->n_in; k++) {
        const mx_gentry e = entry_now(now, graph->in_entry[graph->in_row[i] + k]);
        changed |= e.node != node->in[k].node || e.output != node->in[k].output;
    }
    if (!changed)
        return MX_OK;
    const size_t bytes = (size_t)node->n_in * sizeof(mx_gentry);
    mx_gentry *in = mx_alloc(bytes);
    if (!in)
        return MX_ERR_MEMORY;
    for (int k = 0; k < node->n_in; k++)
        in[k] = entry_now(now, graph->in_entry[graph->in_row[i] + k]);
    mx_gnode *made = mx_gnode_with_inputs(node, in);
    mx_free(in, bytes);
    if (!made)
        return mx_error_code();
    for (int k = 0; k < node->n_out; k++) {
        mx_release(now[graph->row[i] + k].node);
        now[graph->row[i] + k] = (mx_gentry){mx_retain(made), (uint32_t)k};
    }
    mx_release(made);
    return MX_OK;
}

mx_code mx_graph_rebuild(const mx_graph *graph, mx_replace_fn replace, void *user, mx_gentry *results)
{
    const int64_t entries = graph->row[graph->n];
    mx_gentry *now = mx_alloc((size_t)entries * sizeof *now);
    if (!now)
        return MX_ERR_MEMORY;
    for (int64_t i = 0; i < graph->n; i++)
        for (int k = 0; k < graph->nodes[i]->n_out; k++)
            now[graph->row[i] + k] = (mx_gentry){mx_retain(graph->nodes[i]), (uint32_t)k};
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < graph->n; i++) {
        mx_gentry other = {0};
        if (replace(graph, i, user, &other)) {
            mx_release(now[graph->row[i]].node);
            now[graph->row[i]] = (mx_gentry){mx_retain(other.node), other.output};
        } else {
            code = rebuild_node(graph, now, i);
        }
    }
    for (int64_t i = 0; !code && i < graph->n_results; i++)
        results[i] = (mx_gentry){mx_retain(now[graph->results[i]].node), now[graph->results[i]].output};
    for (int64_t e = 0; e < entries; e++)
        mx_release(now[e].node);
    mx_free(now, (size_t)entries * sizeof *now);
    return code;
}

/* ---- composition ----------------------------------------------------------------------------------------------- */

typedef struct composition {
    int count;
    const char *const *names; /* NULL: by position */
    mx_symbol *const *values;
    const bool *is_aux;
    int *used;        /* (count) times */
    int64_t position; /* of the next argument */
    const char *name; /* of the node on top; NULL: unchanged */
} composition;

static bool replace_variable(const mx_graph *graph, int64_t i, void *user, mx_gentry *other)
{
    composition *c = user;
    const mx_gnode *node = graph->nodes[i];
    if (node->op)
        return false;
    const int64_t position = c->is_aux[i] ? -1 : c->position++;
    for (int k = 0; k < c->count; k++)
        if (c->names ? !strcmp(node->name, c->names[k]) : position == k) {
            c->used[k]++;
            *other = c->values[k]->outputs[0];
            return true;
        }
    return false;
}

static mx_code check_values(const mx_symbol *symbol, int count, const char *const *names, mx_symbol *const *values)
{
    if (!mx_symbol_ok(symbol, "mx_symbol_compose"))
        return mx_error_code();
    if (count < 0 || (count && !values))
        return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_compose: values is NULL");
    if (symbol->n == 1 && !symbol->outputs[0].node->op)
        return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_compose: %s is a variable, which has no inputs",
                       symbol->outputs[0].node->name);
    for (int i = 0; i < count; i++) {
        if (!mx_symbol_ok(values[i], "mx_symbol_compose"))
            return mx_error_code();
        if (values[i]->n != 1)
            return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_compose: value %d has %lld outputs, wanted one; pick one", i,
                           (long long)values[i]->n);
        if (names && !names[i])
            return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_compose: name %d is NULL", i);
    }
    return MX_OK;
}

static mx_code check_used(const composition *c)
{
    for (int k = 0; k < c->count; k++) {
        if (c->used[k])
            continue;
        if (c->names)
            return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_compose: the symbol has no argument named '%s'", c->names[k]);
        return mx_fail(MX_ERR_ARGUMENT, "mx_symbol_compose: %d values were given, the symbol has %lld arguments",
                       c->count, (long long)c->position);
    }
    return MX_OK;
}

/* The composed symbol's own node gets the requested name. */
static mx_code rename_top(mx_gentry *results, int64_t n, const char *name)
{
    mx_gnode *top = results[0].node;
    if (!name || !top->op)
        return MX_OK;
    mx_gnode *made = mx_gnode_with_inputs(top, top->in);
    char *copy = made ? mx_strdup_packed(name) : NULL;
    if (!copy)
        return mx_release(made), mx_error_code();
    mx_strfree_packed(made->name);
    made->name = copy;
    for (int64_t i = 0; i < n; i++)
        if (results[i].node == top) {
            results[i].node = mx_retain(made);
            if (i)
                mx_release(top);
        }
    mx_release(top);
    mx_release(made);
    return MX_OK;
}

static mx_symbol *compose(const mx_symbol *symbol, const mx_graph *graph, composition *c)
{
    const size_t bytes = (size_t)symbol->n * sizeof(mx_gentry);
    mx_gentry *results = mx_alloc_zero(bytes);
    if (!results)
        return NULL;
    mx_code code = mx_graph_rebuild(graph, replace_variable, c, results);
    code = code ? code : check_used(c);
    code = code ? code : rename_top(results, symbol->n, c->name);
    mx_symbol *made = code ? NULL : mx_symbol_new(symbol->n, results);
    for (int64_t i = 0; i < symbol->n; i++)
        mx_release(results[i].node);
    mx_free(results, bytes);
    return made;
}

mx_symbol *mx_symbol_compose(const mx_symbol *symbol, const char *name, int count, const char *const *names,
                             mx_symbol *const *values)
{
    mx_graph graph = {0};
    if (check_values(symbol, count, names, values) || mx_graph_of(&graph, symbol->n, symbol->outputs))
        return NULL;
    bool *is_aux = mx_alloc((size_t)graph.n);
    int *used = mx_alloc_zero((size_t)count * sizeof *used);
    mx_symbol *made = NULL;
    if (is_aux && used) {
        mx_graph_auxiliary(&graph, is_aux);
        composition c = {
            .count = count, .names = names, .values = values, .is_aux = is_aux, .used = used, .name = name};
        made = compose(symbol, &graph, &c);
    }
    mx_free(is_aux, (size_t)graph.n);
    mx_free(used, (size_t)count * sizeof *used);
    mx_graph_free(&graph);
    return mx_scope_add(made);
}
