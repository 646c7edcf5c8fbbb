/* Compiling a block: trace, gradient, program, plan.
 *
 * The block's forward runs once on symbolic arrays of the call's shapes; each operator's gradient, also on symbolic
 * arrays, adds the backward part; both become one program and one plan, so that memory is planned together.
 * If parameters have unknown shapes, a first trace infers them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/flags.h"
#include "exec/list.h"
#include "gluon/compile/hybrid.h"
#include "gluon/rnn/cell.h"
#include "gluon/compile/trace.h"
#include "graph/call.h"
#include "graph/infer.h"
#include "graph/names.h"
#include "graph/open.h"
#include "base/thread.h"
#include "pass/attention.h"
#include "pass/gradient.h"

static void destroy_compiled(mx_object *object)
{
    mx_compiled *c = (mx_compiled *)object;
    for (int64_t i = 0; i < c->n_parameters; i++)
        mx_release(c->parameters[i]);
    mx_free(c->parameters, (size_t)c->n_parameters * sizeof *c->parameters);
    mx_free(c->wanted, (size_t)c->n_parameters);
    mx_release(c->plan);
    mx_free(c, sizeof *c);
}
static const mx_kind compiled_kind = {"compiled block", destroy_compiled};

bool mx_parameter_learns(const mx_parameter *p, mx_context context)
{
    const int i = p->req == MX_GRAD_NULL || p->deferred ? -1 : mx_parameter_at(p, context);
    return i >= 0 && mx_tape_node(p->data[i]) != NULL; /* a variable, or a recorded result in its place */
}

/* ---- the compilation in progress --------------------------------------------------------------------------------- */

typedef MX_VEC(mx_gentry) entries;
typedef MX_VEC(mx_gnode *) nodes;

typedef struct work {
    const struct mx_compile_request *request;
    mx_compiled *made;
    nodes inputs;               /* variables of the inputs, then of the gradients of the results; retained */
    nodes parameters;           /* variables with an owner */
    entries results, gradients; /* retained; gradients: of the inputs, then of the parameters */
    mx_pointers draws;          /* nodes that draw random numbers; retained */
    entries kept;               /* those that no result needs; not retained */
    uint64_t last_forward;
} work;

static void release_entries(entries *list)
{
    for (int64_t i = 0; i < list->length; i++)
        mx_release(list->items[i].node);
    mx_vec_free(list);
}

static void close_work(work *w)
{
    for (int64_t i = 0; i < w->inputs.length; i++)
        mx_release(w->inputs.items[i]);
    mx_vec_free(&w->inputs);
    for (int64_t i = 0; i < w->draws.length; i++)
        mx_release(w->draws.items[i]);
    mx_vec_free(&w->draws);
    mx_vec_free(&w->kept);
    mx_vec_free(&w->parameters);
    release_entries(&w->results);
    release_entries(&w->gradients);
}

/* A variable of the plan as a symbolic array of the scope; its node is added to w->inputs. */
static mx_array *new_input(work *w, const char *name, int64_t number, const mx_shape_t *shape, int type)
{
    char full[48];
    snprintf(full, sizeof full, "%s%lld", name, (long long)number);
    mx_gnode *node = mx_gnode_variable(full, shape, type);
    if (!node)
        return NULL;
    node->context = w->request->key->context;
    if (!mx_vec_push(&w->inputs, node)) {
        mx_release(node);
        return NULL;
    }
    return mx_scope_add(mx_array_symbolic(node, 0));
}

/* ---- tracing ----------------------------------------------------------------------------------------------------- */

static mx_arrays trace(const work *w, mx_arrays in)
{
    const struct mx_compile_request *r = w->request;
    if (!r->loss)
        return mx_block_call_itself(r->block, in);
    mx_array **loss_in = mx_list_new(in.n);
    mx_arrays out = loss_in ? mx_block_call_many(r->block, (mx_arrays){in.v, 1}) : (mx_arrays){0};
    if (!out.n)
        return mx_list_failed();
    loss_in[0] = out.v[0];
    for (int64_t i = 1; i < in.n; i++)
        loss_in[i] = in.v[i];
    return mx_block_call_many(r->loss, (mx_arrays){loss_in, in.n});
}

static mx_code trace_forward(work *w)
{
    const mx_plan_key *key = w->request->key;
    mx_array **in = mx_list_new(key->n_in);
    if (!in)
        return mx_error_code();
    for (int i = 0; i < key->n_in; i++) {
        if (key->shape[i].ndim < 0) {
            in[i] = MX_NONE;
            if (!mx_vec_push(&w->inputs, NULL))
                return MX_ERR_MEMORY;
        } else if (!(in[i] = new_input(w, "data", i, &key->shape[i], key->type[i])))
            return mx_error_code();
    }
    mx_pointers *outer = mx_thread.draws;
    mx_thread.draws = &w->draws;
    mx_cells_before cells = {0};
    const mx_code entered = mx_cells_trace_enter(w->request->block, &cells);
    mx_arrays out = entered ? mx_list_failed() : trace(w, (mx_arrays){in, key->n_in});
    mx_cells_trace_leave(&cells);
    mx_thread.draws = outer;
    if (!out.n)
        return mx_error_code();
    if (out.n > MX_MAX_OUTPUTS && key->recording) { /* the limit of a tape node */
        if (w->request->unplanned)
            *w->request->unplanned = true;
        return mx_fail(MX_ERR_UNSUPPORTED, "%s: %lld results are too many for one recorded call",
                       mx_block_name(w->request->block), (long long)out.n);
    }
    for (int64_t i = 0; i < out.n; i++) {
        mx_gentry entry;
        if (mx_entry_for(out.v[i], &entry))
            return mx_error_code();
        if (!mx_vec_push(&w->results, entry)) {
            mx_release(entry.node);
            return MX_ERR_MEMORY;
        }
    }
    return MX_OK;
}

/* Zeros with an open batch size get the size that follows from these inputs. */
static mx_code fill_open(work *w)
{
    mx_graph graph;
    const int64_t n = w->results.length;
    const size_t bytes = (size_t)n * sizeof(mx_gentry);
    mx_gentry *results = NULL;
    mx_code code = mx_graph_of(&graph, n, w->results.items);
    if (!code && mx_graph_open(&graph))
        code = (results = mx_alloc_zero(bytes)) ? mx_graph_fill_open(&graph, results) : MX_ERR_MEMORY;
    mx_graph_free(&graph);
    for (int64_t i = 0; results && !code && i < n; i++) {
        mx_release(w->results.items[i].node);
        w->results.items[i] = results[i];
    }
    mx_free(results, bytes);
    return code;
}

/* The operator rounds differently from what it replaces. */
static mx_code fuse_attention(work *w)
{
    const mx_plan_key *key = w->request->key;
    const mx_device *device = mx_device_of(key->context, "plan");
    if (!device)
        return mx_error_code();
    const bool predicts = !key->training && !key->recording;
    return predicts || device->can & MX_CAN_FUSE_ATTENTION
               ? mx_attention_fuse(w->results.length, w->results.items, &w->draws)
               : MX_OK;
}

/* ---- unused random numbers --------------------------------------------------------------------------------------- */

/* The node draws random numbers in this mode. */
static bool draws(const work *w, const mx_gnode *node)
{
    return w->request->key->training || !(node->op->flags & MX_OP_TRAINING);
}

/* The graph contains the node, or its replacement after open sizes were filled. */
static bool contains(const mx_graph *graph, const mx_gnode *node)
{
    for (int64_t i = 0; i < graph->n; i++)
        if (graph->nodes[i] == node || (graph->nodes[i]->op == node->op && !strcmp(graph->nodes[i]->name, node->name)))
            return true;
    return false;
}

/* The node depends only on inputs and parameters of the plan (not on a loop's body, say). */
static mx_code has_all(const work *w, mx_gnode *node, bool *all)
{
    mx_graph graph;
    mx_code code = mx_graph_of(&graph, 1, &(mx_gentry){node, 0});
    *all = true;
    for (int64_t i = 0; !code && i < graph.n; i++) {
        const mx_gnode *variable = graph.nodes[i];
        bool known = variable->op || variable->value || variable->owner;
        for (int64_t k = 0; !known && k < w->inputs.length; k++)
            known = w->inputs.items[k] == variable;
        *all &= known;
    }
    mx_graph_free(&graph);
    return code;
}

static mx_code keep_draws(work *w)
{
    mx_graph graph;
    mx_code code = w->draws.length ? mx_graph_of(&graph, w->results.length, w->results.items) : MX_OK;
    if (code || !w->draws.length)
        return code;
    for (int64_t i = 0; !code && i < w->draws.length; i++) {
        mx_gnode *node = w->draws.items[i];
        bool all = false;
        if (!draws(w, node) || contains(&graph, node))
            continue;
        code = has_all(w, node, &all);
        if (!code && all && !mx_vec_push(&w->kept, ((mx_gentry){node, 0})))
            code = MX_ERR_MEMORY;
    }
    mx_graph_free(&graph);
    return code;
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static mx_code check_ready(const work *w, const mx_parameter *p)
{
    if (p->count && !p->deferred && p->grad_stype == MX_STYPE_DEFAULT)
        return MX_OK;
    if (p->count && !p->deferred) { /* gradients in graphs are dense */
        if (!w->request->key->recording || !mx_parameter_learns(p, w->request->key->context))
            return MX_OK;
        if (w->request->unplanned)
            *w->request->unplanned = true;
        return mx_fail(MX_ERR_UNSUPPORTED, "%s: the gradient of parameter %s is sparse, which plans do not support",
                       mx_block_name(w->request->block), p->name);
    }
    if (w->request->waits)
        *w->request->waits = true;
    return mx_fail(MX_ERR_DEFERRED, "%s: parameter %s has no value yet", mx_block_name(w->request->block), p->name);
}

static mx_code find_parameters(work *w)
{
    mx_graph graph;
    mx_code code = mx_graph_of(&graph, w->results.length, w->results.items);
    for (int64_t i = 0; !code && i < graph.n; i++)
        if (graph.nodes[i]->owner && !mx_vec_push(&w->parameters, graph.nodes[i]))
            code = MX_ERR_MEMORY;
    mx_graph_free(&graph); /* the results keep the nodes alive */
    mx_compiled *c = w->made;
    const size_t n = (size_t)w->parameters.length;
    if (!code && (!(c->parameters = mx_alloc_zero(n * sizeof *c->parameters)) || !(c->wanted = mx_alloc_zero(n))))
        code = MX_ERR_MEMORY;
    if (code) {
        mx_free(c->parameters, n * sizeof *c->parameters);
        c->parameters = NULL;
        return code;
    }
    c->n_parameters = w->parameters.length;
    for (int64_t i = 0; i < c->n_parameters; i++) {
        c->parameters[i] = mx_retain(w->parameters.items[i]->owner);
        c->wanted[i] = mx_parameter_learns(c->parameters[i], w->request->key->context);
        if (!code)
            code = check_ready(w, c->parameters[i]);
    }
    return code;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static mx_code head_gradients(work *w, mx_array **out)
{
    for (int64_t i = 0; i < w->results.length; i++) {
        const mx_gentry e = w->results.items[i];
        const mx_shape_t *shape = &e.node->out_shape[e.output];
        mx_array *result = w->request->whole ? mx_scope_add(mx_array_symbolic(e.node, e.output)) : NULL;
        out[i] = !w->request->whole ? new_input(w, "gradient", i, shape, e.node->out_type[e.output])
                 : result           ? mx_g1("ones_like", result)
                                    : NULL;
        if (!out[i])
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code add_gradients(work *w)
{
    const mx_plan_key *key = w->request->key;
    const mx_compiled *c = w->made;
    mx_array **given = mx_list_new(w->results.length);
    nodes wanted = {0};
    mx_code code = given && !head_gradients(w, given) ? MX_OK : mx_error_code();
    for (int64_t i = 0; !code && i < key->n_in + c->n_parameters; i++) {
        const bool is_input = i < key->n_in;
        mx_gnode *node = is_input ? w->inputs.items[i] : w->parameters.items[i - key->n_in];
        const bool want = is_input ? key->wanted[i] : c->wanted[i - key->n_in];
        if (!mx_vec_push(&wanted, want ? node : NULL) || !mx_vec_push(&w->gradients, ((mx_gentry){0})))
            code = MX_ERR_MEMORY;
    }
    struct mx_gradient_request request = {w->results.length, w->results.items, given,
                                          wanted.length,   wanted.items,   key->training};
    if (!code)
        code = mx_gradient_graph(&request, w->gradients.items);
    mx_vec_free(&wanted);
    return code;
}

/* ---- putting it together ----------------------------------------------------------------------------------------- */

static mx_code make_plan(work *w)
{
    const mx_plan_key *key = w->request->key;
    struct mx_program_source source = {.n_results = w->results.length,
                                       .results = w->results.items,
                                       .n_gradients = w->gradients.length,
                                       .gradients = w->gradients.items,
                                       .n_kept = w->kept.length,
                                       .kept = w->kept.items,
                                       .n_inputs = w->inputs.length,
                                       .n_forward_inputs = key->n_in,
                                       .inputs = w->inputs.items,
                                       .n_parameters = w->parameters.length,
                                       .parameters = w->parameters.items,
                                       .training = key->training,
                                       .recompute = w->request->block->recompute || mx_flags_get()->recompute,
                                       .last_forward = w->last_forward,
                                       .context = key->context,
                                       .unplanned = w->request->unplanned};
    mx_program program;
    if (mx_program_build(&program, &source))
        return mx_error_code();
    mx_code code = w->request->finish ? w->request->finish(&program, w->made, w->request->user) : MX_OK;
    if (code) {
        mx_program_free(&program);
        return code;
    }
    w->made->plan = mx_plan_new(&program, mx_block_name(w->request->block));
    if (!w->made->plan)
        return mx_error_code();
    if (!key->recording || w->request->whole)
        return MX_OK;
    const struct mx_replay_source replay = {w->results.length, w->results.items,      w->kept.length,      w->kept.items,
                                            key->n_in,       w->inputs.items,     w->parameters.length,
                                            w->parameters.items};
    w->made->plan->replay = mx_replay_new(&replay);
    return w->made->plan->replay ? MX_OK : mx_error_code();
}

static mx_code compile_traced(work *w)
{
    mx_code code = fill_open(w);
    if (!code)
        code = fuse_attention(w);
    if (!code)
        code = keep_draws(w);
    if (!code)
        code = find_parameters(w);
    mx_gnode *mark = code ? NULL : mx_gnode_variable("mark", NULL, MX_DTYPE_NONE); /* everything older is forward */
    if (!code && !mark)
        code = mx_error_code();
    w->last_forward = mark ? mark->sequence : 0;
    mx_release(mark);
    if (!code && w->request->key->recording) {
        mx_mode mode = mx_mode_enter(0, 1);
        code = add_gradients(w);
        mx_mode_leave(&mode);
    }
    return code ? code : make_plan(w);
}

static mx_code compile(work *w)
{
    MX_SCOPE;
    mx_code code = trace_forward(w);
    mx_thread.precision_settled++; /* the trace has inserted the casts */
    if (!code)
        code = compile_traced(w);
    mx_thread.precision_settled--;
    return code;
}

/* Runs `action` in the mode of the traced call and with separate name counters, so that names of later blocks do not
 * depend on plans. */
static mx_code run_apart(work *w, mx_code (*action)(work *w))
{
    mx_code code = mx_names_push("");
    if (code)
        return code;
    mx_mode mode = mx_mode_enter(0, w->request->key->training);
    mx_thread.modes.unroll = MX_MOST_UNROLLED;
    code = action(w);
    mx_thread.modes.unroll = 0;
    mx_mode_leave(&mode);
    mx_names_pop();
    return code;
}

mx_compiled *mx_compile(const struct mx_compile_request *request)
{
    mx_compiled *c = mx_alloc_zero(sizeof *c);
    if (!c)
        return NULL;
    mx_object_init(&c->object, &compiled_kind);
    c->key = *request->key;
    work w = {.request = request, .made = c};
    mx_code code = run_apart(&w, compile);
    close_work(&w);
    if (!code)
        return c;
    if (!mx_has_error())
        mx_fail(code, "%s could not be compiled", mx_block_name(request->block));
    mx_release(c);
    return NULL;
}

/* ---- shapes inferred from the first call ------------------------------------------------------------------------- */

/* Infers the unknown shapes of parameters from the graph; *all: every one is known now. */
static mx_code take_shapes(const work *w, bool *all)
{
    mx_graph graph;
    mx_code code = mx_graph_of(&graph, w->results.length, w->results.items);
    const size_t places = code ? 0 : (size_t)graph.row[graph.n];
    mx_shape_t *shape = mx_alloc(places * sizeof *shape);
    int *type = mx_alloc(places * sizeof *type);
    if (!code && (!shape || !type))
        code = MX_ERR_MEMORY;
    if (!code) {
        mx_graph_infer_start(&graph, shape, type);
        code = mx_graph_infer(&graph, shape, type);
    }
    for (int64_t i = 0; !code && i < graph.n; i++) {
        mx_parameter *p = graph.nodes[i]->owner;
        const mx_shape_t *found = &shape[graph.row[i]];
        if (!p || !p->deferred)
            continue;
        *all &= mx_shape_known(found);
        if (mx_shape_known(found))
            mx_shape_merge(&p->shape, found, NULL); /* inference started from p->shape: they agree */
    }
    mx_free(shape, places * sizeof *shape);
    mx_free(type, places * sizeof *type);
    mx_graph_free(&graph);
    return code;
}

static bool any_draws(const work *w)
{
    for (int64_t i = 0; i < w->draws.length; i++)
        if (draws(w, w->draws.items[i]))
            return true;
    return false;
}

static mx_code initialise(const mx_block *block)
{
    for (int64_t i = 0; i < block->own.length; i++) {
        mx_parameter *p = block->own.items[i];
        if (p->deferred && mx_shape_known(&p->shape) && mx_parameter_finish(p))
            return mx_error_code();
    }
    return MX_OK;
}

/* A forward that reads shapes which are still unknown fails here: *traced stays false. */
static mx_code trace_waiting(work *w, mx_pointers *entered, bool *traced)
{
    mx_pointers *outer = mx_thread.waiting;
    const bool clean = !mx_has_error(), before = mx_thread.learning;
    mx_thread.waiting = entered;
    mx_thread.learning = true;
    mx_code code = trace_forward(w);
    mx_thread.learning = before;
    mx_thread.waiting = outer;
    *traced = !code;
    if (!code || !clean || mx_error_code() == MX_ERR_MEMORY)
        return code;
    mx_error_clear();
    return MX_OK;
}

static mx_code learn(work *w)
{
    MX_SCOPE;
    mx_pointers entered = {0};
    bool all = true, traced = false;
    mx_code code = trace_waiting(w, &entered, &traced);
    if (!code && !traced && w->request->waits)
        *w->request->waits = true;
    if (!code && traced && !any_draws(w)) {
        code = take_shapes(w, &all);
        for (int64_t i = 0; !code && all && i < entered.length; i++)
            code = initialise(entered.items[i]);
    }
    mx_vec_free(&entered);
    return code;
}

mx_code mx_compile_learn(const struct mx_compile_request *request)
{
    work w = {.request = request};
    mx_code code = run_apart(&w, learn);
    close_work(&w);
    return code;
}
