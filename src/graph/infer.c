/* Inference over a whole graph: sweeps forwards and backwards over the nodes until nothing changes.
 *
 * Knowledge only grows, so this ends; information that flows one way along a chain of any length needs one sweep.  A
 * node whose entries are all known and agree is not visited again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "graph/infer.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/symbol.h"

typedef struct inference {
    const mx_graph *graph;
    mx_shape_t *shape; /* per entry */
    int *type;
    bool *done;           /* per node: all known and checked */
    mx_shape_t *in, *out; /* of the current node: room for the largest */
    int *in_type, *out_type;
    bool changed;
} inference;

/* ---- one node -------------------------------------------------------------------------------------------------- */

static void load(inference *v, int64_t i, int n_in)
{
    const mx_graph *g = v->graph;
    const mx_gnode *node = g->nodes[i];
    for (int k = 0; k < n_in; k++) {
        const int64_t e = k < node->n_in ? g->in_entry[g->in_row[i] + k] : -1;
        v->in[k] = e < 0 ? MX_UNKNOWN_SHAPE : v->shape[e];
        v->in_type[k] = e < 0 ? MX_DTYPE_NONE : v->type[e];
    }
    for (int k = 0; k < node->n_out; k++) {
        v->out[k] = v->shape[g->row[i] + k];
        v->out_type[k] = v->type[g->row[i] + k];
    }
}

static mx_code merge(inference *v, int64_t entry, const mx_shape_t *shape, int type, const mx_gnode *node)
{
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    const mx_gnode *maker = v->graph->nodes[mx_graph_node_of(v->graph, entry)];
    if (!mx_shape_merge(&v->shape[entry], shape, &v->changed))
        return mx_fail(MX_ERR_SHAPE, "%s (%s): %s has shape %s, wanted %s", node->name, node->op->name, maker->name,
                       mx_shape_text(&v->shape[entry], a), mx_shape_text(shape, b));
    if (type == MX_DTYPE_NONE || type == v->type[entry])
        return MX_OK;
    if (v->type[entry] != MX_DTYPE_NONE)
        return mx_fail(MX_ERR_DTYPE, "%s (%s): %s is %s, wanted %s", node->name, node->op->name, maker->name,
                       mx_dtype_name((mx_dtype)v->type[entry]), mx_dtype_name((mx_dtype)type));
    v->type[entry] = type;
    v->changed = true;
    return MX_OK;
}

static bool known(const inference *v, int64_t entry)
{
    return entry < 0 || (mx_shape_known(&v->shape[entry]) && v->type[entry] != MX_DTYPE_NONE);
}

static mx_code store(inference *v, int64_t i)
{
    const mx_graph *g = v->graph;
    const mx_gnode *node = g->nodes[i];
    bool all = true;
    for (int k = 0; k < node->n_in; k++) {
        const int64_t e = g->in_entry[g->in_row[i] + k];
        if (e >= 0 && merge(v, e, &v->in[k], v->in_type[k], node))
            return mx_error_code();
        all = all && known(v, e);
    }
    for (int k = 0; k < node->n_out; k++) {
        if (merge(v, g->row[i] + k, &v->out[k], v->out_type[k], node))
            return mx_error_code();
        all = all && known(v, g->row[i] + k);
    }
    v->done[i] = all;
    return MX_OK;
}

/* The message names the variables or outputs that are the inputs: the operator only has its own names for them. */
static void name_inputs(const inference *v, int64_t i)
{
    const mx_gnode *node = v->graph->nodes[i];
    char shape[MX_SHAPE_TEXT];
    mx_text text = {0};
    mx_text_print(&text, "node %s (", node->name);
    for (int k = 0; k < node->n_in && k < 8; k++) {
        const int64_t e = v->graph->in_entry[v->graph->in_row[i] + k];
        if (e < 0)
            continue;
        mx_text_add(&text, k ? ", " : "");
        mx_gentry_name(&node->in[k], &text);
        mx_text_print(&text, " %s", mx_shape_text(&v->shape[e], shape));
    }
    mx_text_add(&text, ")");
    if (mx_text_get(&text))
        mx_error_mention(mx_text_get(&text));
    mx_text_free(&text);
}

static mx_code infer_node(inference *v, int64_t i)
{
    const mx_gnode *node = v->graph->nodes[i];
    if (!node->op || v->done[i])
        return MX_OK;
    const bool pad = !(node->op->flags & MX_OP_LIST) && node->n_in < node->op->declared_inputs;
    const int n_in = pad ? node->op->declared_inputs : node->n_in;
    load(v, i, n_in);
    mx_infer infer = {node->op, node->attrs, n_in, node->n_out, v->in, v->out, v->in_type, v->out_type, NULL};
    const bool clean = !mx_has_error();
    mx_code code = mx_op_infer(&infer);
    if (code && clean)
        name_inputs(v, i);
    return code ? code : store(v, i);
}

/* ---- the sweeps ------------------------------------------------------------------------------------------------ */

static mx_code sweep(inference *v)
{
    const int64_t n = v->graph->n;
    do {
        v->changed = false;
        for (int64_t i = 0; i < n; i++)
            if (infer_node(v, i))
                return mx_error_code();
        if (!v->changed)
            break;
        v->changed = false;
        for (int64_t i = n - 1; i >= 0; i--)
            if (infer_node(v, i))
                return mx_error_code();
    } while (v->changed);
    return MX_OK;
}

/* Operators without inputs may leave sizes open (graph/open.h); those that no use has determined by now are 0.  Returns
 * whether there were any. */
static bool empty_sources(inference *v)
{
    bool any = false;
    for (int64_t i = 0; i < v->graph->n; i++) {
        const mx_gnode *node = v->graph->nodes[i];
        if (!node->op || node->n_in || v->done[i])
            continue;
        mx_shape_t *shape = &v->shape[v->graph->row[i]];
        for (int k = 0; k < shape->ndim; k++)
            if (shape->dim[k] < 0)
                shape->dim[k] = 0, any = true;
    }
    return any;
}

void mx_graph_infer_start(const mx_graph *graph, mx_shape_t *shape, int *type)
{
    for (int64_t e = 0; e < graph->row[graph->n]; e++) {
        shape[e] = MX_UNKNOWN_SHAPE;
        type[e] = MX_DTYPE_NONE;
    }
}

/* A variable's own shape and type are used where the caller gave none. */
static void use_variables(const mx_graph *graph, mx_shape_t *shape, int *type)
{
    for (int64_t i = 0; i < graph->n; i++) {
        const mx_gnode *node = graph->nodes[i];
        const int64_t e = graph->row[i];
        if (node->op)
            continue;
        if (shape[e].ndim < 0)
            shape[e] = node->out_shape[0];
        if (type[e] == MX_DTYPE_NONE)
            type[e] = node->out_type[0];
    }
}

mx_code mx_graph_infer(const mx_graph *graph, mx_shape_t *shape, int *type)
{
    size_t most_in = MX_MAX_DECLARED, most_out = 1;
    for (int64_t i = 0; i < graph->n; i++) {
        most_in = (size_t)graph->nodes[i]->n_in > most_in ? (size_t)graph->nodes[i]->n_in : most_in;
        most_out = (size_t)graph->nodes[i]->n_out > most_out ? (size_t)graph->nodes[i]->n_out : most_out;
    }
    const size_t most = most_in + most_out;
    const size_t bytes = most * (sizeof(mx_shape_t) + sizeof(int)) + (size_t)graph->n;
    mx_shape_t *memory = mx_alloc_zero(bytes);
    if (!memory)
        return MX_ERR_MEMORY;
    int *types = (int *)(memory + most);
    inference v = {graph, shape, type, (bool *)(types + most), memory, memory + most_in, types, types + most_in, false};
    use_variables(graph, shape, type);
    mx_code code = sweep(&v);
    if (!code && empty_sources(&v))
        code = sweep(&v);
    mx_free(memory, bytes);
    return code;
}
