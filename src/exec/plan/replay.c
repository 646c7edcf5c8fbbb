/* Gradients of gradients through compiled calls.
 *
 * The second part of a plan computes numbers without history, which cannot be differentiated.  If a gradient is
 * needed with its history, the call's forward runs again, operator by operator and recorded, on the same
 * inputs; the backward pass goes through that recording, down to the edges of the call's node:
 *
 *     x, w (edges) ---- node of the compiled call ---- y          what the caller recorded
 *            \------- Convolution -- relu -- ... ---- y'          the replay; gradients of y enter here
 *
 * The replay draws the random numbers of the first run, and auxiliary states are copies: running statistics are not
 * updated twice.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#include "base/alloc.h"
#include "base/error.h"
#include "exec/interpret.h"
#include "exec/plan/plan.h"
#include "graph/rewrite.h"

struct mx_replay {
    mx_graph graph;
    int64_t *order;  /* (graph.n) nodes by creation, which is the order of the plan's steps */
    int32_t *edge;   /* (graph.n) edge of the call's node that a variable represents; -1: none */
    bool *auxiliary; /* (graph.n) some node writes to this variable */
    int64_t n_inputs;
};

void mx_replay_free(mx_replay *replay)
{
    if (!replay)
        return;
    const size_t n = (size_t)replay->graph.n;
    mx_free(replay->order, n * sizeof *replay->order);
    mx_free(replay->edge, n * sizeof *replay->edge);
    mx_free(replay->auxiliary, n);
    mx_graph_free(&replay->graph);
    mx_free(replay, sizeof *replay);
}

static int32_t position(int64_t n, mx_gnode *const *list, const mx_gnode *node)
{
    for (int64_t i = 0; i < n; i++)
        if (list[i] == node)
            return (int32_t)i;
    return -1;
}

/* Results of the call, then nodes that run although their results are unused. */
static mx_code make_graph(mx_graph *graph, const struct mx_replay_source *s)
{
    const size_t bytes = (size_t)(s->n_results + s->n_kept) * sizeof(mx_gentry);
    mx_gentry *all = mx_alloc(bytes);
    if (!all)
        return MX_ERR_MEMORY;
    for (int64_t i = 0; i < s->n_results + s->n_kept; i++)
        all[i] = i < s->n_results ? s->results[i] : s->kept[i - s->n_results];
    mx_code code = mx_graph_of(graph, s->n_results + s->n_kept, all);
    mx_free(all, bytes);
    return code;
}

mx_replay *mx_replay_new(const struct mx_replay_source *s)
{
    mx_replay *r = mx_alloc_zero(sizeof *r);
    if (!r || make_graph(&r->graph, s))
        return mx_replay_free(r), NULL;
    const size_t n = (size_t)r->graph.n;
    r->order = mx_alloc(n * sizeof *r->order);
    r->edge = mx_alloc(n * sizeof *r->edge);
    r->auxiliary = mx_alloc(n);
    r->n_inputs = s->n_inputs;
    if (!r->order || !r->edge || !r->auxiliary)
        return mx_replay_free(r), NULL;
    for (int64_t i = 0; i < r->graph.n; i++) {
        const mx_gnode *node = r->graph.nodes[i];
        const int32_t parameter = node->op ? -1 : position(s->n_parameters, s->parameters, node);
        r->edge[i] = node->op         ? -1
                     : parameter >= 0 ? parameter + (int32_t)s->n_inputs
                                      : position(s->n_inputs, s->inputs, node);
    }
    mx_graph_auxiliary(&r->graph, r->auxiliary);
    mx_graph_by_creation(&r->graph, r->order);
    return r;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static mx_array *bound(const mx_frame *frame, const mx_replay *r, int32_t edge)
{
    const mx_program *program = &frame->plan->program;
    const bool is_input = edge < r->n_inputs;
    const int64_t index = is_input ? edge : edge - r->n_inputs;
    for (int64_t e = 0; e < program->externals.length; e++) {
        const mx_external *x = &program->externals.items[e];
        if (x->kind == (is_input ? MX_EXTERNAL_INPUT : MX_EXTERNAL_PARAMETER) && x->index == index)
            return frame->externals[e];
    }
    return NULL;
}

/* The array that the call read on an edge, with its history at that time; in the scope. */
static mx_array *value_of(const mx_node *node, const mx_replay *r, int64_t i)
{
    mx_array *x = bound(node->frame, r, r->edge[i]);
    if (!x)
        return mx_fail_null(MX_ERR_STATE, "backward: %s: input %s of the recorded call was freed",
                            node->frame->plan->name, r->graph.nodes[i]->name);
    if (r->auxiliary[i])
        return mx_array_copy(x);
    const mx_edge *edge = &node->edges[r->edge[i]];
    mx_shape_t shape = mx_array_shape(x);
    mx_array *view = mx_scope_add(mx_array_view(x, 0, &shape, (mx_dtype)x->dtype));
    if (view)
        mx_array_set_node(view, edge->node, edge->output);
    return view;
}

static mx_code run(const mx_node *node, const mx_replay *r, mx_array **results)
{
    const size_t bytes = (size_t)r->graph.n * sizeof(mx_array *);
    mx_array **values = mx_alloc_zero(bytes);
    mx_code code = values ? MX_OK : MX_ERR_MEMORY;
    for (int64_t i = 0; !code && i < r->graph.n; i++)
        if (r->edge[i] >= 0 && !(values[i] = value_of(node, r, i)))
            code = mx_error_code();
    mx_rng rng = node->frame->rng;
    mx_rng *previous = mx_rng_follow(&rng);
    mx_mode mode = mx_mode_enter(1, node->training);
    mx_interpretation what = {.graph = &r->graph, .values = values, .order = r->order};
    code = code ? code : mx_interpret(&what, results);
    mx_mode_leave(&mode);
    mx_rng_follow(previous);
    mx_free(values, bytes);
    return code;
}

mx_code mx_replay_gradient(mx_pass *pass, mx_node *node, mx_array *const *ograd)
{
    const mx_replay *r = node->frame->plan->replay;
    if (!r)
        return mx_fail(MX_ERR_AUTOGRAD, "backward: the gradient of %s cannot be differentiated again",
                       node->frame->plan->name);
    const size_t bytes = (size_t)r->graph.n_results * sizeof(mx_array *);
    mx_array **results = mx_alloc_zero(bytes);
    mx_code code = results ? run(node, r, results) : MX_ERR_MEMORY;
    for (int64_t i = 0; results && i < r->graph.n_results; i++)
        if (results[i] && !mx_scope_add(results[i]))
            code = mx_error_code();
    if (!code)
        code = mx_pass_detour(pass, node->sequence + 1, (mx_arrays){results, node->n_out}, ograd);
    mx_free(results, bytes);
    return code;
}

/* ---- as part of a graph ------------------------------------------------------------------------------------------ */

typedef struct insertion {
    const mx_replay *replay;
    const mx_gentry *edges;
} insertion;

static bool replace_edge(const mx_graph *graph, int64_t i, void *user, mx_gentry *other)
{
    const insertion *s = user;
    (void)graph;
    if (s->replay->edge[i] < 0 || !s->edges[s->replay->edge[i]].node)
        return false;
    *other = s->edges[s->replay->edge[i]];
    return true;
}

mx_code mx_replay_results(const mx_node *node, const mx_gentry *edges, mx_gentry *results)
{
    const mx_replay *r = node->frame ? node->frame->plan->replay : NULL;
    if (!r)
        return mx_fail(MX_ERR_UNSUPPORTED,
                       "get_symbol: the call of a hybridized block was freed, or its graph is not kept");
    const size_t bytes = (size_t)r->graph.n_results * sizeof(mx_gentry);
    mx_gentry *all = mx_alloc_zero(bytes); /* the results, then nodes that run although theirs are unused */
    mx_code code = all ? mx_graph_rebuild(&r->graph, replace_edge, &(insertion){r, edges}, all) : MX_ERR_MEMORY;
    for (int64_t i = 0; all && i < r->graph.n_results; i++) {
        if (!code && i < node->n_out)
            results[i] = all[i];
        else
            mx_release(all[i].node);
    }
    mx_free(all, bytes);
    return code;
}
