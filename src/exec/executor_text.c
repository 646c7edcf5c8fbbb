/* An executor as text: the graph, the nodes of its gradient and the memory of a pass.  SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "exec/executor.h"
#include "graph/infer.h"

typedef struct survey {
    const mx_executor *e;
    mx_shape_t *shape; /* per entry */
    int *type;
    bool *depends; /* per node: a wanted gradient depends on it */
    bool *flows;   /* per node: a gradient of the results reaches it */
    size_t bytes;  /* of the allocation that holds these */
} survey;

static bool has_gradient(const mx_gnode *node) { return node->op && !(node->op->flags & MX_OP_ZERO_GRADIENT); }

static void mark_inputs(survey *s, int64_t i)
{
    const mx_graph *g = &s->e->graph;
    for (int64_t k = g->in_row[i]; k < g->in_row[i + 1]; k++)
        if (g->in_entry[k] >= 0)
            s->flows[mx_graph_node_of(g, g->in_entry[k])] = true;
}

/* Nodes on a way from an argument with a gradient to a result. */
static void mark(survey *s)
{
    const mx_executor *e = s->e;
    const mx_graph *g = &e->graph;
    for (int64_t i = 0; i < g->n; i++) {
        const mx_gnode *node = g->nodes[i];
        if (!node->op)
            s->depends[i] = e->place[i] >= 0 && e->reqs[e->place[i]] != MX_GRAD_NULL;
        for (int64_t k = g->in_row[i]; has_gradient(node) && k < g->in_row[i + 1]; k++)
            if (g->in_entry[k] >= 0 && s->depends[mx_graph_node_of(g, g->in_entry[k])])
                s->depends[i] = true;
    }
    for (int64_t i = 0; i < g->n_results; i++)
        s->flows[mx_graph_node_of(g, g->results[i])] = true;
    for (int64_t i = g->n - 1; i >= 0; i--)
        if (s->flows[i] && has_gradient(g->nodes[i]))
            mark_inputs(s, i);
}

static mx_code start(survey *s)
{
    const mx_graph *g = &s->e->graph;
    const size_t entries = (size_t)g->row[g->n];
    s->bytes = entries * (sizeof *s->shape + sizeof *s->type) + 2 * (size_t)g->n;
    if (!(s->shape = mx_alloc_zero(s->bytes)))
        return MX_ERR_MEMORY;
    s->type = (int *)(s->shape + entries);
    s->depends = (bool *)(s->type + entries), s->flows = s->depends + g->n;
    mx_graph_infer_start(g, s->shape, s->type);
    for (int64_t i = 0; i < g->n; i++)
        if (!g->nodes[i]->op) {
            s->shape[g->row[i]] = mx_array_shape(mx_executor_variable(s->e, i));
            s->type[g->row[i]] = mx_executor_variable(s->e, i)->dtype;
        }
    mark(s);
    return mx_graph_infer(g, s->shape, s->type);
}

/* Bytes of the outputs of a node; those of unknown shape do not count. */
static int64_t bytes_of(const survey *s, int64_t i)
{
    int64_t bytes = 0;
    for (int64_t k = s->e->graph.row[i]; k < s->e->graph.row[i + 1]; k++)
        if (mx_shape_known(&s->shape[k]) && mx_dtype_valid(s->type[k]))
            bytes += mx_shape_size(&s->shape[k]) * mx_dtype_size((mx_dtype)s->type[k]);
    return bytes;
}

static void print_backward(mx_text *text, const survey *s, int64_t i)
{
    const mx_gnode *node = s->e->graph.nodes[i];
    mx_text_print(text, "--------------------\nOp:_backward_%s, Name=%s_backward\nInputs:\n", node->op->name,
                  node->name);
    for (int k = 0; k < node->n_in; k++)
        if (node->in[k].node)
            mx_text_print(text, "\targ[%d]=%s(%u)\n", k, node->in[k].node->name, node->in[k].output);
}

/* Memory: results of all operators and, for those that the gradient passes, gradients of the same sizes. */
static void print(mx_text *text, const survey *s)
{
    const mx_graph *g = &s->e->graph;
    int64_t bytes = 0;
    for (int64_t i = 0; i < g->n; i++)
        bytes += g->nodes[i]->op ? bytes_of(s, i) : 0;
    for (int64_t i = g->n - 1; i >= 0; i--) {
        if (!s->depends[i] || !s->flows[i])
            continue;
        bytes += bytes_of(s, i);
        if (has_gradient(g->nodes[i]))
            print_backward(text, s, i);
    }
    mx_text_print(text, "Total %lld MB allocated\n", (long long)(bytes >> 20));
    mx_text_add(text, "Total 0 TempSpace resource requested\n");
}

const char *mx_executor_debug(const mx_executor *e)
{
    if (!mx_executor_ok(e, "mx_executor_debug"))
        return NULL;
    survey s = {.e = e};
    mx_text text = {0};
    const char *graph = mx_symbol_debug(e->symbol);
    if (graph && !start(&s)) {
        mx_text_add(&text, graph);
        print(&text, &s);
    }
    mx_free(s.shape, s.bytes);
    if (mx_has_error() || text.failed) {
        mx_text_free(&text);
        return NULL;
    }
    return mx_text_to_scope(&text);
}
