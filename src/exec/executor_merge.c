/* The graph of an executor with equal subexpressions merged.
 *
 * Two nodes are equal if operator, attributes and inputs are; the later one is replaced by the earlier one.  Nodes that
 * draw random numbers, write an input or call functions stay.  Results that become one value get copies, so that there
 * are as many values as before.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/error.h"
#include "exec/executor.h"

typedef struct merging {
    const mx_graph *graph;
    int64_t *same;   /* (n) the first node that is equal to this one */
    mx_gnode **made; /* (n) the nodes of the new graph; owned; NULL: replaced by an earlier one */
    mx_gentry *in;   /* inputs of the current node */
    size_t bytes;    /* of the allocation that holds these */
} merging;

static mx_gentry entry_of(const merging *m, int64_t entry)
{
    if (entry < 0)
        return (mx_gentry){NULL, 0};
    const int64_t i = mx_graph_node_of(m->graph, entry);
    return (mx_gentry){m->made[m->same[i]], (uint32_t)(entry - m->graph->row[i])};
}

static bool can_merge(const mx_gnode *node)
{
    return node->op && !(node->op->flags & (MX_OP_RANDOM | MX_OP_CALLS | MX_OP_TRAINING)) && !node->op->mutates;
}

/* Whether earlier node k, as rebuilt, is node `node` on the inputs m->in. */
static bool equal(const merging *m, int64_t k, const mx_gnode *node)
{
    const mx_gnode *other = m->made[k];
    if (!other || other->op != node->op || other->n_in != node->n_in || other->n_out != node->n_out)
        return false;
    for (int i = 0; i < node->n_in; i++)
        if (other->in[i].node != m->in[i].node || other->in[i].output != m->in[i].output)
            return false;
    return mx_schema_equal(node->op->schema, other->attrs, node->attrs);
}

static mx_code merge_node(merging *m, int64_t i)
{
    mx_gnode *node = m->graph->nodes[i];
    bool changed = false;
    m->same[i] = i;
    for (int k = 0; k < node->n_in; k++) {
        m->in[k] = entry_of(m, m->graph->in_entry[m->graph->in_row[i] + k]);
        changed = changed || m->in[k].node != node->in[k].node;
    }
    for (int64_t k = 0; can_merge(node) && k < i; k++)
        if (equal(m, k, node))
            return m->same[i] = k, MX_OK;
    m->made[i] = changed ? mx_gnode_with_inputs(node, m->in) : mx_retain(node);
    return m->made[i] ? MX_OK : mx_error_code();
}

/* A second result of the same value: a copy of it. */
static mx_code copy_result(mx_gentry *entry, int number)
{
    mx_text name = {0};
    mx_text_print(&name, "%s_%d_copy", entry->node->name, number);
    struct mx_gnode_args args = {.op = mx_op_find("_copy"), .name = mx_text_get(&name), .n_in = 1, .in = entry};
    mx_gnode *made = args.op && args.name ? mx_gnode_make(&args) : NULL;
    mx_text_free(&name);
    *entry = (mx_gentry){made, 0};
    return made ? MX_OK : mx_error_code();
}

static bool same_entry(mx_gentry a, mx_gentry b) { return a.node == b.node && a.output == b.output; }

/* The results of the merged graph; nodes retained. */
static mx_code find_results(const merging *m, mx_gentry *results)
{
    for (int64_t i = 0; i < m->graph->n_results; i++) {
        const mx_gentry own = entry_of(m, m->graph->results[i]);
        int copies = 0;
        for (int64_t k = 0; k < i; k++)
            copies +=
                m->graph->results[k] != m->graph->results[i] && same_entry(own, entry_of(m, m->graph->results[k]));
        results[i] = own;
        if (copies && copy_result(&results[i], copies - 1))
            return mx_error_code();
        if (!copies)
            mx_retain(own.node);
    }
    return MX_OK;
}

static mx_code start(merging *m, const mx_graph *graph)
{
    size_t most = 1;
    for (int64_t i = 0; i < graph->n; i++)
        most = (size_t)graph->nodes[i]->n_in > most ? (size_t)graph->nodes[i]->n_in : most;
    m->graph = graph;
    m->bytes = (size_t)graph->n * (sizeof *m->same + sizeof *m->made) + most * sizeof *m->in;
    if (!(m->in = mx_alloc_zero(m->bytes)))
        return MX_ERR_MEMORY;
    m->made = (mx_gnode **)(void *)(m->in + most);
    m->same = (int64_t *)(void *)(m->made + graph->n);
    return MX_OK;
}

static mx_symbol *merged(merging *m)
{
    const size_t bytes = (size_t)m->graph->n_results * sizeof(mx_gentry);
    mx_gentry *results = mx_alloc_zero(bytes);
    mx_code code = results ? find_results(m, results) : MX_ERR_MEMORY;
    mx_symbol *symbol = code ? NULL : mx_symbol_new(m->graph->n_results, results);
    for (int64_t i = 0; results && i < m->graph->n_results; i++)
        mx_release(results[i].node);
    mx_free(results, bytes);
    return symbol;
}

mx_symbol *mx_executor_optimized(const mx_executor *e)
{
    merging m = {0};
    if (!mx_executor_ok(e, "mx_executor_optimized") || start(&m, &e->graph))
        return NULL;
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < e->graph.n; i++)
        code = merge_node(&m, i);
    mx_symbol *symbol = code ? NULL : merged(&m);
    for (int64_t i = 0; i < e->graph.n; i++)
        mx_release(m.made[i]);
    mx_free(m.in, m.bytes);
    return mx_scope_add(symbol);
}
