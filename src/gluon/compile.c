/* Compiling a block: trace, gradient, program, plan.
 *
 * The block's forward runs once on symbolic arrays of the call's shapes; each operator's gradient, on symbolic arrays
 * as
 * well, adds the backward part; both become one program and one plan, so that memory is planned together.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/list.h"
#include "gluon/hybrid.h"
#include "gluon/trace.h"
#include "graph/call.h"
#include "graph/names.h"
#include "graph/open.h"
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
    for (int i = 0; i < p->count && p->req != MX_GRAD_NULL; i++)
        if (mx_context_equal(p->contexts[i], context))
            return mx_variable_node(p->data[i]) != NULL;
    return false;
}

/* ---- what is under way ------------------------------------------------------------------------------------------- */

typedef MX_VEC(mx_gentry) entries;
typedef MX_VEC(mx_gnode *) nodes;

typedef struct work {
    const struct mx_compile_request *request;
    mx_compiled *made;
    nodes inputs;             /* variables of the inputs, then of the gradients of the heads; retained */
    nodes parameters;         /* variables with an owner */
    entries heads, gradients; /* retained; gradients: of the inputs, then of the parameters */
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
    mx_vec_free(&w->parameters);
    release_entries(&w->heads);
    release_entries(&w->gradients);
}

/* A variable of the plan as a symbolic array of the scope; its node goes to w->inputs. */
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
        return mx_block_call_many(r->block, in);
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
    mx_arrays out = trace(w, (mx_arrays){in, key->n_in});
    if (!out.n)
        return mx_error_code();
    for (int64_t i = 0; i < out.n; i++) {
        mx_gentry entry;
        if (mx_entry_for(out.v[i], &entry))
            return mx_error_code();
        if (!mx_vec_push(&w->heads, entry)) {
            mx_release(entry.node);
            return MX_ERR_MEMORY;
        }
    }
    return MX_OK;
}

/* Zeros whose batch the network left open get the size that these inputs give them. */
static mx_code fill_open(work *w)
{
    mx_graph graph;
    const int64_t n = w->heads.length;
    const size_t bytes = (size_t)n * sizeof(mx_gentry);
    mx_gentry *heads = NULL;
    mx_code code = mx_graph_of(&graph, n, w->heads.items);
    if (!code && mx_graph_open(&graph))
        code = (heads = mx_alloc_zero(bytes)) ? mx_graph_fill_open(&graph, heads) : MX_ERR_MEMORY;
    mx_graph_free(&graph);
    for (int64_t i = 0; heads && !code && i < n; i++) {
        mx_release(w->heads.items[i].node);
        w->heads.items[i] = heads[i];
    }
    mx_free(heads, bytes);
    return code;
}

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static mx_code find_parameters(work *w)
{
    mx_graph graph;
    mx_code code = mx_graph_of(&graph, w->heads.length, w->heads.items);
    for (int64_t i = 0; !code && i < graph.n; i++)
        if (graph.nodes[i]->owner && !mx_vec_push(&w->parameters, graph.nodes[i]))
            code = MX_ERR_MEMORY;
    mx_graph_free(&graph); /* the heads keep the nodes alive */
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
    }
    return MX_OK;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static mx_code head_gradients(work *w, mx_array **out)
{
    for (int64_t i = 0; i < w->heads.length; i++) {
        const mx_gentry e = w->heads.items[i];
        const mx_shape_t *shape = &e.node->out_shape[e.output];
        mx_array *head = mx_scope_add(mx_array_symbolic(e.node, e.output));
        out[i] = w->request->whole ? head ? mx_g1("ones_like", head) : NULL
                                   : new_input(w, "gradient", i, shape, e.node->out_type[e.output]);
        if (!out[i])
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code add_gradients(work *w)
{
    const mx_plan_key *key = w->request->key;
    const mx_compiled *c = w->made;
    mx_array **given = mx_list_new(w->heads.length);
    nodes wanted = {0};
    mx_code code = given && !head_gradients(w, given) ? MX_OK : mx_error_code();
    for (int64_t i = 0; !code && i < key->n_in + c->n_parameters; i++) {
        const bool is_input = i < key->n_in;
        mx_gnode *node = is_input ? w->inputs.items[i] : w->parameters.items[i - key->n_in];
        const bool want = is_input ? key->wanted[i] : c->wanted[i - key->n_in];
        if (!mx_vec_push(&wanted, want ? node : NULL) || !mx_vec_push(&w->gradients, ((mx_gentry){0})))
            code = MX_ERR_MEMORY;
    }
    struct mx_gradient_request request = {w->heads.length, w->heads.items, given,
                                          wanted.length,   wanted.items,   key->training};
    if (!code)
        code = mx_gradient_graph(&request, w->gradients.items);
    mx_vec_free(&wanted);
    return code;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static mx_code make_plan(work *w)
{
    const mx_plan_key *key = w->request->key;
    struct mx_program_source source = {.n_heads = w->heads.length,
                                       .heads = w->heads.items,
                                       .n_gradients = w->gradients.length,
                                       .gradients = w->gradients.items,
                                       .n_inputs = w->inputs.length,
                                       .n_forward_inputs = key->n_in,
                                       .inputs = w->inputs.items,
                                       .n_parameters = w->parameters.length,
                                       .parameters = w->parameters.items,
                                       .training = key->training,
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
    w->made->plan->static_outputs = w->request->block->static_alloc;
    return MX_OK;
}

static mx_code compile(work *w)
{
    MX_SCOPE;
    mx_code code = trace_forward(w);
    if (!code)
        code = fill_open(w);
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

mx_compiled *mx_compile(const struct mx_compile_request *request)
{
    mx_compiled *c = mx_alloc_zero(sizeof *c);
    if (!c)
        return NULL;
    mx_object_init(&c->object, &compiled_kind);
    c->key = *request->key;
    work w = {.request = request, .made = c};
    mx_code code = mx_names_push(""); /* counters of their own: names of later blocks do not depend on plans */
    if (!code) {
        mx_mode mode = mx_mode_enter(0, request->key->training);
        code = compile(&w);
        mx_mode_leave(&mode);
        mx_names_pop();
    }
    close_work(&w);
    if (!code)
        return c;
    if (!mx_has_error())
        mx_fail(code, "%s: could not be compiled", mx_block_name(request->block));
    mx_release(c);
    return NULL;
}
