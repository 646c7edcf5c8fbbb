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
    mx_shape_t *probed; /* of the current node: what all trials agree on, inputs and outputs */
    bool probing;       /* nodes whose rule gives no result are tried with sizes in place of unknown ones */
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

/* ---- unknown sizes ---------------------------------------------------------------------------------------------- */
/* Most rules need sizes that are known.  If some are not, the rule runs several times with numbers in their place: a
 * size of a result that is the same each time does not depend on them. */

static const int64_t trials[] = {2520, 5040, 1}; /* all but the last have many divisors; 1 may be too small and fail */

static bool has_rank_alone(const mx_shape_t *shape) { return shape->ndim >= 0 && !mx_shape_known(shape); }

/* Whether the rule left the shape of an output open although the rank of an input is known. */
static bool can_probe(const inference *v, const mx_gnode *node, int n_in)
{
    bool partial = false, open = false;
    for (int k = 0; k < n_in; k++)
        partial = partial || has_rank_alone(&v->in[k]);
    for (int k = 0; k < node->n_out; k++)
        open = open || v->out[k].ndim < 0;
    return partial && open && !(node->op->flags & MX_OP_CALLS);
}

static void keep_agreed(mx_shape_t *agreed, const mx_shape_t *found)
{
    if (agreed->ndim != found->ndim)
        agreed->ndim = -1;
    for (int k = 0; k < agreed->ndim; k++)
        if (agreed->dim[k] != found->dim[k])
            agreed->dim[k] = -1;
}

bool mx_graph_put_sizes(mx_shape_t *shape, int64_t size)
{
    for (int d = 0; d < shape->ndim; d++)
        shape->dim[d] = shape->dim[d] < 0 ? size : shape->dim[d];
    if (shape->ndim < 0 || mx_shape_size(shape) >= 0)
        return true;
    mx_error_clear();
    return false;
}

/* Runs the rule once; returns whether it accepted the sizes. */
static bool try_sizes(inference *v, int64_t i, int n_in, int64_t size, bool first)
{
    const mx_gnode *node = v->graph->nodes[i];
    load(v, i, n_in);
    for (int k = 0; k < n_in; k++)
        if (!mx_graph_put_sizes(&v->in[k], size))
            return false;
    mx_infer infer = {node->op, node->attrs, n_in, node->n_out, v->in, v->out, v->in_type, v->out_type, NULL};
    if (mx_op_infer(&infer))
        return mx_error_clear(), false;
    for (int k = 0; k < n_in + node->n_out; k++) {
        const mx_shape_t *found = k < n_in ? &v->in[k] : &v->out[k - n_in];
        if (first)
            v->probed[k] = *found;
        else
            keep_agreed(&v->probed[k], found);
    }
    return true;
}

/* Leaves what is known after the trials in v->in and v->out. */
static void probe(inference *v, int64_t i, int n_in)
{
    const int n_out = v->graph->nodes[i]->n_out;
    const bool ok = try_sizes(v, i, n_in, trials[0], true) && try_sizes(v, i, n_in, trials[1], false);
    if (ok)
        try_sizes(v, i, n_in, trials[2], false);
    load(v, i, n_in);
    for (int k = 0; ok && k < n_in; k++)
        v->in[k] = v->probed[k];
    for (int k = 0; ok && k < n_out; k++)
        v->out[k] = v->probed[n_in + k];
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
    if (code || store(v, i))
        return mx_error_code();
    if (!v->probing || !clean || !can_probe(v, node, n_in))
        return MX_OK;
    probe(v, i, n_in);
    return store(v, i);
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

static bool all_known(const inference *v)
{
    for (int64_t e = 0; e < v->graph->row[v->graph->n]; e++)
        if (!mx_shape_known(&v->shape[e]))
            return false;
    return true;
}

/* Sources of open size become empty, if the rest of the graph agrees; else their sizes stay unknown. */
static mx_code settle_sources(inference *v)
{
    const size_t bytes = (size_t)v->graph->row[v->graph->n] * sizeof *v->shape;
    mx_shape_t *before = mx_alloc(bytes);
    if (!before)
        return MX_ERR_MEMORY;
    memcpy(before, v->shape, bytes);
    if (empty_sources(v) && sweep(v)) {
        mx_error_clear();
        memcpy(v->shape, before, bytes);
    }
    mx_free(before, bytes);
    return MX_OK;
}

static mx_code infer_all(inference *v)
{
    if (sweep(v))
        return mx_error_code();
    if (all_known(v))
        return MX_OK;
    v->probing = true;
    return sweep(v) ? mx_error_code() : settle_sources(v);
}

mx_code mx_graph_infer(const mx_graph *graph, mx_shape_t *shape, int *type)
{
    size_t most_in = MX_MAX_DECLARED, most_out = 1;
    for (int64_t i = 0; i < graph->n; i++) {
        most_in = (size_t)graph->nodes[i]->n_in > most_in ? (size_t)graph->nodes[i]->n_in : most_in;
        most_out = (size_t)graph->nodes[i]->n_out > most_out ? (size_t)graph->nodes[i]->n_out : most_out;
    }
    const size_t most = most_in + most_out;
    const size_t bytes = most * (2 * sizeof(mx_shape_t) + sizeof(int)) + (size_t)graph->n;
    mx_shape_t *memory = mx_alloc_zero(bytes);
    if (!memory)
        return MX_ERR_MEMORY;
    int *types = (int *)(memory + 2 * most);
    inference v = {.graph = graph, .shape = shape, .type = type, .done = (bool *)(types + most), .in = memory,
                   .out = memory + most_in, .in_type = types, .out_type = types + most_in, .probed = memory + most};
    use_variables(graph, shape, type);
    mx_code code = infer_all(&v);
    mx_free(memory, bytes);
    return code;
}
