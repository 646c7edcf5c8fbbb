/* Subgraphs as plans: the body of a loop is compiled once per shapes, types and mode.
 *
 * The first few runs are interpreted, so that what runs only once or twice is not compiled.  A recorded run is one
 * node on the tape that holds its frame, like the call of a hybridized block; only regions of plans are recorded that
 * way, because their gradients are not differentiated again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/checking.h"
#include "base/error.h"
#include "exec/control/control.h"
#include "exec/interpret.h"
#include "exec/list.h"
#include "exec/plan/plan.h"
#include "exec/tape.h"
#include "graph/call.h"
#include "graph/names.h"
#include "graph/open.h"
#include "pass/gradient.h"

#define MOST_INPUTS 128     /* of a subgraph that is compiled */
#define RUNS_BEFORE_PLANS 8 /* interpreted ones */
#define FRAMES_CACHED 64      /* steps of a recorded loop that reuse their memory */

/* ---- what a plan is compiled for --------------------------------------------------------------------------------- */

typedef struct part_key {
    int n_in;
    mx_shape_t shape[MOST_INPUTS];
    int type[MOST_INPUTS];
    bool wanted[MOST_INPUTS]; /* a gradient of this input */
    bool training, recorded;
    mx_context context;
} part_key;

typedef struct part_plan {
    mx_object object;
    part_key key;
    mx_plan *plan; /* retained; NULL: it cannot be compiled */
} part_plan;

static void destroy_part_plan(mx_object *object)
{
    part_plan *p = (part_plan *)object;
    mx_release(p->plan);
    mx_free(p, sizeof *p);
}
static const mx_kind part_plan_kind = {"plan of a subgraph", destroy_part_plan};

/* False: such a call is interpreted. */
static bool make_key(part_key *key, int n_in, mx_array *const *in)
{
    if (mx_checking() || n_in > MOST_INPUTS || mx_thread.modes.tracing ||
        (mx_thread.modes.recording && !mx_thread.modes.plans))
        return false;
    key->n_in = n_in;
    key->training = mx_thread.modes.training;
    key->recorded = false;
    key->context = (mx_context){0};
    for (int i = 0; i < n_in; i++) {
        const mx_array *x = in[i];
        if (!x->storage || (i && !mx_context_equal(x->context, key->context)))
            return false;
        key->context = x->context;
        key->shape[i] = mx_array_shape(x);
        key->type[i] = x->dtype;
        key->wanted[i] = mx_thread.modes.recording && mx_has_history(x);
        key->recorded |= key->wanted[i];
    }
    return n_in > 0;
}

static bool same_key(const part_key *a, const part_key *b)
{
    bool same = a->n_in == b->n_in && a->training == b->training && a->recorded == b->recorded &&
                mx_context_equal(a->context, b->context);
    for (int i = 0; same && i < a->n_in; i++)
        same = a->type[i] == b->type[i] && a->wanted[i] == b->wanted[i] && mx_shape_equal(&a->shape[i], &b->shape[i]);
    return same;
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

typedef struct making {
    const mx_subgraph *part;
    const part_key *key;
    mx_gnode **variables; /* (n_in + n_results) of the inputs, then of the gradients of the results; retained */
    int n_variables;
    mx_gentry *results;   /* (n_results) retained */
    mx_gentry *gradients; /* (n_in) retained; node NULL: zero */
} making;

static mx_array *new_variable(making *m, const char *name, const mx_shape_t *shape, int type)
{
    mx_gnode *node = mx_gnode_variable(name, shape, type);
    if (!node)
        return NULL;
    node->context = m->key->context;
    m->variables[m->n_variables++] = node;
    return mx_scope_add(mx_array_symbolic(node, 0));
}

/* The subgraph on symbolic arrays of the call's shapes. */
static mx_code trace(making *m)
{
    const mx_subgraph *p = m->part;
    mx_array **values = mx_list_new(p->graph.n), **results = mx_list_new(p->graph.n_results);
    if (!values || !results)
        return MX_ERR_MEMORY;
    for (int j = 0; j < p->n_in; j++)
        if (!(values[p->variable[j]] = new_variable(m, "input", &m->key->shape[j], m->key->type[j])))
            return mx_error_code();
    mx_interpretation what = {.graph = &p->graph, .values = values, .order = p->order};
    mx_code code = mx_interpret(&what, results);
    for (int64_t h = 0; !code && h < p->graph.n_results; h++) {
        code = mx_entry_for(results[h], &m->results[h]);
        mx_release(results[h]);
    }
    return code;
}

static mx_code differentiate(making *m)
{
    const int64_t n = m->part->graph.n_results;
    mx_array **given = mx_list_new(n);
    mx_gnode **wanted = (mx_gnode **)(void *)mx_list_new(m->key->n_in);
    if (!given || !wanted)
        return MX_ERR_MEMORY;
    for (int64_t h = 0; h < n; h++) {
        const mx_gentry e = m->results[h];
        if (!(given[h] = new_variable(m, "gradient", &e.node->out_shape[e.output], e.node->out_type[e.output])))
            return mx_error_code();
    }
    for (int i = 0; i < m->key->n_in; i++)
        wanted[i] = m->key->wanted[i] ? m->variables[i] : NULL;
    struct mx_gradient_request request = {n, m->results, given, m->key->n_in, wanted, m->key->training};
    mx_mode mode = mx_mode_enter(0, 1);
    mx_code code = mx_gradient_graph(&request, m->gradients);
    mx_mode_leave(&mode);
    return code;
}

static mx_plan *build(making *m)
{
    mx_gnode *mark = mx_gnode_variable("mark", NULL, MX_DTYPE_NONE); /* everything older is forward */
    const uint64_t last_forward = mark ? mark->sequence : 0;
    mx_release(mark);
    if (!mark || (m->key->recorded && differentiate(m)))
        return NULL;
    struct mx_program_source source = {.n_results = m->part->graph.n_results,
                                       .results = m->results,
                                       .n_gradients = m->key->recorded ? m->key->n_in : 0,
                                       .gradients = m->gradients,
                                       .n_inputs = m->n_variables,
                                       .n_forward_inputs = m->key->n_in,
                                       .inputs = m->variables,
                                       .training = m->key->training,
                                       .last_forward = last_forward,
                                       .context = m->key->context};
    mx_program program;
    if (mx_program_build(&program, &source))
        return NULL;
    mx_plan *plan = mx_plan_new(&program, "step");
    if (plan)
        plan->most_free = FRAMES_CACHED;
    return plan;
}

static mx_plan *make_plan(making *m)
{
    MX_SCOPE;
    const mx_modes modes = mx_thread.modes;
    mx_pointers *draws = mx_thread.draws;
    mx_plan *plan = NULL;
    if (mx_names_push(""))
        return NULL;
    mx_thread.draws = NULL;
    mx_thread.modes = (mx_modes){.training = modes.training, .tracing = true, .unroll = MX_MOST_UNROLLED};
    if (!trace(m))
        plan = build(m);
    mx_thread.modes = modes;
    mx_thread.draws = draws;
    mx_names_pop();
    return plan;
}

static part_plan *compile(const mx_subgraph *part, const part_key *key)
{
    const size_t n = (size_t)key->n_in, h = (size_t)part->graph.n_results;
    const size_t bytes = (n + h) * sizeof(mx_gnode *) + (n + h) * sizeof(mx_gentry);
    part_plan *made = mx_alloc_zero(sizeof *made);
    making m = {.part = part, .key = key, .variables = made ? mx_alloc_zero(bytes) : NULL};
    if (!m.variables) {
        mx_free(made, sizeof *made);
        return NULL;
    }
    m.results = (mx_gentry *)(void *)(m.variables + n + h);
    m.gradients = m.results + h;
    mx_object_init(&made->object, &part_plan_kind);
    made->key = *key;
    const bool clean = !mx_has_error();
    made->plan = mx_graph_open(&part->graph) ? NULL : make_plan(&m);
    if (clean && !made->plan)
        mx_error_clear(); /* the interpreter reports the error, if there is one */
    for (int i = 0; i < m.n_variables; i++)
        mx_release(m.variables[i]);
    for (size_t i = 0; i < n + h; i++)
        mx_release(m.results[i].node);
    mx_free(m.variables, bytes);
    return made;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

static part_plan *look_up(const mx_part_plans *plans, const part_key *key)
{
    for (int i = 0; i < plans->n; i++)
        if (same_key(&((part_plan *)(void *)plans->plans[i])->key, key))
            return mx_retain(plans->plans[i]);
    return NULL;
}

/* The plan for this call, retained; NULL: none, or not yet. */
static part_plan *find(const mx_subgraph *part, const part_key *key)
{
    mx_part_plans *plans = part->plans;
    pthread_mutex_lock(&plans->lock);
    part_plan *found = look_up(plans, key);
    const bool wait = !found && plans->runs++ < RUNS_BEFORE_PLANS;
    pthread_mutex_unlock(&plans->lock);
    if (found || wait || !(found = compile(part, key)))
        return found;
    pthread_mutex_lock(&plans->lock);
    if (plans->n == MX_MOST_PART_PLANS)
        mx_release(plans->plans[--plans->n]);
    memmove(plans->plans + 1, plans->plans, (size_t)plans->n * sizeof *plans->plans);
    plans->plans[0] = mx_retain(found);
    plans->n++;
    pthread_mutex_unlock(&plans->lock);
    return found;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static mx_code bind(mx_frame *frame, int n_in, mx_array *const *in)
{
    const mx_program *program = &frame->plan->program;
    for (int64_t e = 0; e < program->externals.length; e++) {
        const mx_external *x = &program->externals.items[e];
        if (x->kind == MX_EXTERNAL_INPUT && x->index < n_in && mx_frame_bind(frame, e, in[x->index]))
            return mx_error_code();
    }
    return MX_OK;
}

/* A recorded result is a new view: the frame holds the array, the array's history holds the frame. */
static mx_array *result(mx_frame *frame, int64_t h, bool recorded)
{
    mx_array *x = frame->results[h];
    const mx_shape_t shape = mx_array_shape(x);
    return mx_scope_add(recorded ? mx_array_view(x, 0, &shape, (mx_dtype)x->dtype) : mx_retain(x));
}

static mx_code run_frame(mx_frame *frame, const part_key *key, mx_array *const *in, mx_array **results)
{
    const int64_t n = frame->plan->program.forward_results;
    mx_code code = bind(frame, key->n_in, in);
    code = code ? code : mx_frame_forward(frame);
    for (int64_t h = 0; !code && h < n; h++)
        if (!(results[h] = result(frame, h, key->recorded)))
            code = mx_error_code();
    if (!code && key->recorded)
        code = mx_tape_append_frame(frame, key->n_in, in, (int)n, results);
    return code;
}

mx_code mx_part_run(const mx_subgraph *part, mx_array *const *in, mx_array **results, bool *ran)
{
    part_key key;
    *ran = false;
    if (!part->plans || !make_key(&key, part->n_in, in))
        return MX_OK;
    part_plan *found = find(part, &key);
    if (!found || !found->plan) {
        mx_release(found);
        return MX_OK;
    }
    *ran = true;
    mx_frame *frame = mx_plan_frame(found->plan);
    mx_code code = frame ? run_frame(frame, &key, in, results) : mx_error_code();
    mx_release(frame);
    mx_release(found);
    return code;
}
