/* Cutting a subgraph out of the graph around it (see subgraph.h).
 *
 *     outside    w --- exp ----+             w --- exp ----------+
 *     mark  - - - - - - - - - -|- - -                            |
 *     inside     x_t --- mul --+      =>     node _foreach (data, ..., exp)     subgraph: mul(x_t, "exp_output")
 *
 * The nodes inside are rebuilt in the order of their creation, so that random numbers keep their order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/names.h"
#include "graph/subgraph.h"

typedef struct cut {
    mx_cutting *what;
    mx_graph graph; /* of the results, with everything outside */
    int64_t *order; /* (n) by creation */
    mx_gentry *now; /* (entries) the entry inside that replaces it; retained; node NULL: not needed so far */
} cut;

static int placeholder_of(const mx_cutting *what, const mx_gnode *node)
{
    for (int i = 0; i < what->n_placeholders; i++)
        if (what->placeholders[i] == node)
            return i;
    return -1;
}

static mx_code copy_notes(mx_gnode *to, const mx_gnode *from)
{
    for (int64_t i = 0; i < from->notes.length; i++)
        if (strcmp(from->notes.entries[i].key, "__shape__") &&
            mx_note_set(to, from->notes.entries[i].key, from->notes.entries[i].pointer))
            return mx_error_code();
    return MX_OK;
}

/* The variable inside that represents a value from outside; parameters and the like represent themselves. */
static mx_code take(cut *c, int64_t i, int64_t entry)
{
    mx_gnode *node = c->graph.nodes[i], *made = NULL;
    const int placeholder = placeholder_of(c->what, node);
    if (!node->op && placeholder < 0) {
        c->now[entry] = (mx_gentry){mx_retain(node), 0};
        return MX_OK;
    }
    if (placeholder >= 0) {
        made = mx_gnode_variable(node->name, NULL, MX_DTYPE_NONE);
        if (made && copy_notes(made, node))
            return mx_release(made), mx_error_code();
    } else {
        mx_text name = {0};
        mx_gentry outer = {node, (uint32_t)(entry - c->graph.row[i])};
        mx_gentry_name(&outer, &name);
        made = mx_text_get(&name) ? mx_gnode_variable(mx_text_get(&name), NULL, MX_DTYPE_NONE) : NULL;
        mx_text_free(&name);
    }
    c->now[entry] = (mx_gentry){made, 0};
    return made ? MX_OK : mx_error_code();
}

static bool is_inside(const cut *c, const mx_gnode *node) { return node->op && node->sequence > c->what->mark; }

/* The entry inside that replaces an entry; not retained. */
static mx_code entry_now(cut *c, int64_t entry, mx_gentry *now)
{
    *now = (mx_gentry){0};
    if (entry < 0)
        return MX_OK;
    const int64_t i = mx_graph_node_of(&c->graph, entry);
    if (!c->now[entry].node && !is_inside(c, c->graph.nodes[i]) && take(c, i, entry))
        return mx_error_code();
    *now = c->now[entry];
    return MX_OK;
}

static mx_code remake(cut *c, int64_t i)
{
    const mx_gnode *node = c->graph.nodes[i];
    const size_t bytes = (size_t)node->n_in * sizeof(mx_gentry);
    mx_gentry *in = mx_alloc(bytes);
    mx_code code = in ? MX_OK : MX_ERR_MEMORY;
    for (int k = 0; !code && k < node->n_in; k++)
        code = entry_now(c, c->graph.in_entry[c->graph.in_row[i] + k], &in[k]);
    mx_gnode *made = code ? NULL : mx_gnode_with_inputs(node, in);
    mx_free(in, bytes);
    if (!made)
        return code ? code : mx_error_code();
    for (int k = 0; k < node->n_out; k++)
        c->now[c->graph.row[i] + k] = (mx_gentry){mx_retain(made), (uint32_t)k};
    mx_release(made);
    return MX_OK;
}

/* ---- results ------------------------------------------------------------------------------------------------------- */

static mx_code copied(mx_gentry *result)
{
    char *name = mx_names_make(NULL, "identity");
    mx_gnode *made = NULL;
    if (name)
        made = mx_gnode_make(&(struct mx_gnode_args){.op = mx_op_find("_copy"), .name = name, .n_in = 1, .in = result});
    mx_strfree(name);
    if (!made || mx_notes_apply(made))
        return mx_release(made), mx_error_code();
    mx_release(result->node);
    *result = (mx_gentry){made, 0};
    return MX_OK;
}

static mx_code find_results(cut *c, mx_gentry *results)
{
    for (int64_t h = 0; h < c->what->n_results; h++) {
        if (entry_now(c, c->graph.results[h], &results[h]))
            return mx_error_code();
        mx_retain(results[h].node);
    }
    for (int64_t h = 0; h < c->what->n_results; h++) {
        bool again = !results[h].node->op;
        for (int64_t k = 0; k < h && !again; k++)
            again = results[k].node == results[h].node && results[k].output == results[h].output;
        if (again && copied(&results[h]))
            return mx_error_code();
    }
    return MX_OK;
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

/* The entry outside that a variable of the subgraph represents. */
static void find_outside(const cut *c, const mx_gnode *variable, int j)
{
    const mx_graph *g = &c->graph;
    for (int64_t i = 0; i < g->n; i++)
        for (int64_t e = g->row[i]; e < g->row[i + 1]; e++) {
            if (c->now[e].node != variable)
                continue;
            c->what->placeholder[j] = placeholder_of(c->what, g->nodes[i]);
            if (c->what->placeholder[j] < 0)
                c->what->outside[j] = (mx_gentry){mx_retain(g->nodes[i]), (uint32_t)(e - g->row[i])};
            return;
        }
}

static mx_code find_inputs(const cut *c)
{
    mx_cutting *what = c->what;
    mx_graph inner;
    mx_code code = mx_graph_of(&inner, what->symbol->n, what->symbol->outputs);
    for (int64_t i = 0; !code && i < inner.n; i++)
        what->n_in += !inner.nodes[i]->op;
    what->placeholder = code ? NULL : mx_alloc_zero((size_t)what->n_in * sizeof *what->placeholder);
    what->outside = code ? NULL : mx_alloc_zero((size_t)what->n_in * sizeof *what->outside);
    if (!code && (!what->placeholder || !what->outside))
        code = MX_ERR_MEMORY;
    for (int64_t i = 0, j = 0; !code && i < inner.n; i++)
        if (!inner.nodes[i]->op)
            find_outside(c, inner.nodes[i], (int)j++);
    mx_graph_free(&inner);
    return code;
}

/* ---- the subgraph ------------------------------------------------------------------------------------------------ */

static mx_code run(cut *c)
{
    mx_cutting *what = c->what;
    const int64_t n = c->graph.n;
    mx_graph_by_creation(&c->graph, c->order);
    for (int64_t k = 0; k < n; k++)
        if (is_inside(c, c->graph.nodes[c->order[k]]) && remake(c, c->order[k]))
            return mx_error_code();
    const size_t bytes = (size_t)what->n_results * sizeof(mx_gentry);
    mx_gentry *results = mx_alloc_zero(bytes);
    mx_code code = results ? find_results(c, results) : MX_ERR_MEMORY;
    if (!code && !(what->symbol = mx_symbol_new(what->n_results, results)))
        code = mx_error_code();
    for (int64_t h = 0; results && h < what->n_results; h++)
        mx_release(results[h].node);
    mx_free(results, bytes);
    return code ? code : find_inputs(c);
}

mx_code mx_cut(mx_cutting *cutting)
{
    cut c = {.what = cutting};
    cutting->symbol = NULL, cutting->n_in = 0, cutting->placeholder = NULL, cutting->outside = NULL;
    if (mx_graph_of(&c.graph, cutting->n_results, cutting->results))
        return mx_error_code();
    const size_t entries = (size_t)c.graph.row[c.graph.n];
    c.order = mx_alloc((size_t)c.graph.n * sizeof *c.order);
    c.now = mx_alloc_zero(entries * sizeof *c.now);
    mx_code code = c.order && c.now ? run(&c) : MX_ERR_MEMORY;
    for (size_t e = 0; c.now && e < entries; e++)
        mx_release(c.now[e].node);
    mx_free(c.now, entries * sizeof *c.now);
    mx_free(c.order, (size_t)c.graph.n * sizeof *c.order);
    mx_graph_free(&c.graph);
    if (code)
        mx_cutting_free(cutting);
    return code;
}

void mx_cutting_free(mx_cutting *cutting)
{
    for (int j = 0; cutting->outside && j < cutting->n_in; j++)
        mx_release(cutting->outside[j].node);
    mx_free(cutting->outside, (size_t)cutting->n_in * sizeof *cutting->outside);
    mx_free(cutting->placeholder, (size_t)cutting->n_in * sizeof *cutting->placeholder);
    mx_release(cutting->symbol);
    cutting->symbol = NULL, cutting->placeholder = NULL, cutting->outside = NULL, cutting->n_in = 0;
}
