/* Loops and conditions on symbols: the caller's functions run once, on variables; what they describe is cut out of the
 * graph as subgraphs of one node (see graph/subgraph.h).
 *
 * Nodes made meanwhile note the subgraph's name (__subgraph_name__), and variables are called after the values that
 * they stand for ("data-0": output 0 of data), as classic files have it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vec.h"
#include "exec/control.h"
#include "exec/list.h"
#include "exec/region.h"
#include "exec/tape.h"
#include "gluon/symbol.h"
#include "graph/call.h"
#include "graph/names.h"

#include "gluon/op.gen.h"

typedef MX_VEC(mx_gentry) entries;

/* One of the caller's functions while it is traced. */
typedef struct traced {
    const char *who;
    char name[96];       /* of the subgraph */
    int n;               /* variables that it is given */
    mx_gnode **given;    /* (n) retained */
    mx_array **symbolic; /* (n) of the scope */
    entries heads;       /* retained */
    mx_cutting cutting;
    mx_pointers *draws; /* the list of nodes that draw, while it is not to be told (graph/call.h) */
    int unroll;         /* mode to be restored: loops inside stay loops */
} traced;

/* A node under construction. */
typedef struct build {
    entries in;    /* inputs; retained */
    entries given; /* what a loop's variables begin with; retained */
    int *number;   /* (given) input that is variable i; -1: none so far */
    mx_text locs[3];
    int n_locs[3];
    mx_symbol *parts[3]; /* retained by their cuttings */
    int n_parts;
} build;

/* ---- names ------------------------------------------------------------------------------------------------------- */

static _Thread_local const char *next_name;

const char *mx_control_name(const char *name)
{
    const char *waiting = next_name;
    next_name = name;
    return waiting;
}

static void name_subgraph(traced *t, const char *name, const char *part)
{
    static _Atomic int64_t count;
    snprintf(t->name, sizeof t->name, "%.60s%s%lld", name, part, (long long)atomic_fetch_add(&count, 1));
}

/* "data-0"; a name that is taken gets a number more. */
static mx_code name_variable(const traced *t, int i, const mx_gentry *entry, mx_text *text)
{
    mx_text_print(text, "%s-%u", entry->node->name, entry->output);
    const size_t length = text->length;
    int again = 0;
    for (int k = 0; k < i && mx_text_get(text); k++)
        if (!strcmp(t->given[k]->name, mx_text_get(text))) {
            text->length = length;
            mx_text_print(text, "-%d", ++again);
            k = -1;
        }
    return mx_text_get(text) ? MX_OK : mx_error_code();
}

/* ---- the caller's function --------------------------------------------------------------------------------------- */

static mx_code add_variable(traced *t, int i, const mx_gentry *entry, const mx_shape_t *shape, const mx_array *x)
{
    mx_text name = {0};
    mx_code code = name_variable(t, i, entry, &name);
    t->given[i] = code ? NULL : mx_gnode_variable(mx_text_get(&name), shape, x->dtype);
    mx_text_free(&name);
    if (!t->given[i])
        return mx_error_code();
    t->n = i + 1;
    t->given[i]->context = x->context;
    if (mx_notes_apply(t->given[i]))
        return mx_error_code();
    t->symbolic[i] = mx_scope_add(mx_array_symbolic(t->given[i], 0));
    return t->symbolic[i] ? MX_OK : mx_error_code();
}

static void leave_traced(const traced *t)
{
    mx_graph_draws = t->draws;
    mx_thread_modes.unroll = t->unroll;
    mx_symbol_attrs_leave();
}

/* Opens the subgraph: its notes, and the mark after which nodes belong to it. */
static mx_code open_traced(traced *t, int64_t n, const char *name, const char *part)
{
    const char *keys[1] = {"__subgraph_name__"}, *values[1];
    name_subgraph(t, name, part);
    values[0] = t->name;
    if (mx_symbol_attrs_enter(1, keys, values))
        return mx_error_code();
    t->draws = mx_graph_draws;
    mx_graph_draws = NULL;
    t->unroll = mx_thread_modes.unroll;
    mx_thread_modes.unroll = 0;
    mx_gnode *mark = mx_gnode_variable("mark", NULL, MX_DTYPE_NONE);
    t->cutting.mark = mark ? mark->sequence : 0;
    mx_release(mark);
    t->given = (mx_gnode **)(void *)mx_list_new(n);
    t->symbolic = mx_list_new(n);
    if (mark && t->given && t->symbolic)
        return MX_OK;
    leave_traced(t);
    return MX_ERR_MEMORY;
}

static mx_code add_heads(traced *t, mx_arrays *results, const char *what)
{
    if (mx_list_check(results, t->who, what))
        return mx_error_code();
    for (int64_t i = 0; i < results->n; i++) {
        mx_gentry entry;
        if (mx_entry_for(results->v[i], &entry))
            return mx_error_code();
        if (!mx_vec_push(&t->heads, entry))
            return mx_release(entry.node), MX_ERR_MEMORY;
    }
    return MX_OK;
}

static mx_code cut_out(traced *t)
{
    t->cutting.n_placeholders = t->n, t->cutting.placeholders = t->given;
    t->cutting.n_heads = t->heads.length, t->cutting.heads = t->heads.items;
    return mx_cut(&t->cutting);
}

static void close_traced(traced *t)
{
    mx_cutting_free(&t->cutting);
    for (int i = 0; i < t->n; i++)
        mx_release(t->given[i]);
    for (int64_t i = 0; i < t->heads.length; i++)
        mx_release(t->heads.items[i].node);
    mx_vec_free(&t->heads);
}

static mx_code failed(const traced *t, mx_code code)
{
    return code && !mx_has_error() ? mx_fail(code == MX_ERR_MEMORY ? code : MX_ERR_CALLBACK, "%s: it failed", t->who)
                                   : code;
}

/* ---- the node ---------------------------------------------------------------------------------------------------- */

static mx_code add_input(build *b, const mx_gentry *entry)
{
    if (!mx_vec_push(&b->in, *entry))
        return MX_ERR_MEMORY;
    mx_retain(entry->node);
    return MX_OK;
}

static mx_code add_arrays(entries *to, mx_arrays list)
{
    for (int64_t i = 0; i < list.n; i++) {
        mx_gentry entry;
        if (mx_entry_for(list.v[i], &entry))
            return mx_error_code();
        if (!mx_vec_push(to, entry))
            return mx_release(entry.node), MX_ERR_MEMORY;
    }
    return MX_OK;
}

static bool is_variable(const build *b, int64_t input)
{
    for (int64_t i = 0; i < b->given.length; i++)
        if (b->number[i] == input)
            return true;
    return false;
}

/* The input of the node that is this value.  A variable of the graph becomes one at its first use; a result of an
 * operator is one of each subgraph that uses it, as in classic files; a variable of the loop is its own. */
static mx_code input_for(build *b, const mx_gentry *entry, int *number)
{
    for (int64_t i = 0; i < b->in.length && !entry->node->op; i++)
        if (b->in.items[i].node == entry->node && !is_variable(b, i)) {
            *number = (int)i;
            return MX_OK;
        }
    *number = (int)b->in.length;
    return add_input(b, entry);
}

static mx_code input_for_variable(build *b, int i, int *number)
{
    if (b->number[i] < 0) {
        b->number[i] = (int)b->in.length;
        if (add_input(b, &b->given.items[i]))
            return MX_ERR_MEMORY;
    }
    *number = b->number[i];
    return MX_OK;
}

static void add_loc(build *b, int list, int number)
{
    mx_text_print(&b->locs[list], "%s%d", b->n_locs[list]++ ? ", " : "", number);
}

static const char *locs_text(build *b, int list)
{
    mx_text text = {0};
    mx_text_print(&text, "[%s]", b->n_locs[list] ? mx_text_get(&b->locs[list]) : "");
    const char *lasting = mx_text_get(&text) ? mx_intern(mx_text_get(&text)) : NULL;
    mx_text_free(&text);
    return lasting;
}

static bool draws(const mx_control *control)
{
    for (int i = 0; i < control->n_parts; i++)
        for (int64_t k = 0; k < control->parts[i].graph.n; k++) {
            const mx_op *op = control->parts[i].graph.nodes[k]->op;
            if (op && op->flags & MX_OP_RANDOM)
                return true;
        }
    return false;
}

/* Notes of the scopes; a node that draws random numbers is told to whoever wants to know. */
static mx_code announce(mx_gnode *node)
{
    if (mx_notes_apply(node))
        return mx_error_code();
    if (!mx_graph_draws || !draws(mx_control_of(node->op, node->attrs)))
        return MX_OK;
    if (!mx_vec_push(mx_graph_draws, (void *)node))
        return MX_ERR_MEMORY;
    mx_retain(node);
    return MX_OK;
}

/* callee: the field in attrs that the subgraphs go to. */
static mx_gnode *make_node(build *b, mx_op *op, void *attrs, void **callee)
{
    mx_control *control = mx_control_new(op, attrs, op->name, (int)b->in.length, b->n_parts, b->parts);
    if (!control)
        return NULL;
    *callee = control;
    char *name = mx_names_make(NULL, op->name);
    struct mx_gnode_args args = {op, attrs, NULL, name, (int)b->in.length, b->in.items};
    mx_gnode *node = name ? mx_gnode_make(&args) : NULL;
    mx_strfree(name);
    mx_release(control);
    return node;
}

/* Symbolic arrays of the node's inputs, for the scope. */
static mx_array **inputs_of(const mx_gnode *node)
{
    mx_array **in = mx_list_new(node->n_in);
    for (int i = 0; in && i < node->n_in; i++)
        if (!(in[i] = mx_scope_add(mx_array_symbolic(node->in[i].node, node->in[i].output))))
            return NULL;
    return in;
}

/* All outputs of the node; those of a loop that is to be written out are results of its steps instead. */
static mx_array **outputs_of(mx_gnode *node)
{
    mx_array **out = mx_list_new(node->n_visible), **in = inputs_of(node);
    if (!out || !in)
        return NULL;
    if (mx_control_unrolls(node->op, node->attrs, in))
        return mx_region_call(node->op, node->attrs, node->n_in, in, node->n_visible, out) ? NULL : out;
    if (announce(node))
        return NULL;
    for (int i = 0; i < node->n_visible; i++)
        if (!(out[i] = mx_scope_add(mx_array_symbolic(node, (uint32_t)i))))
            return NULL;
    return out;
}

static mx_loop loop_of(mx_gnode *node, int64_t n_out_data, int64_t n_states)
{
    mx_array **out = node ? outputs_of(node) : NULL;
    mx_release(node);
    return out ? (mx_loop){{out, n_out_data}, {out + n_out_data, n_states}, false} : mx_loop_failed();
}

static void close_build(build *b)
{
    for (int64_t i = 0; i < b->in.length; i++)
        mx_release(b->in.items[i].node);
    for (int64_t i = 0; i < b->given.length; i++)
        mx_release(b->given.items[i].node);
    mx_vec_free(&b->in);
    mx_vec_free(&b->given);
    for (int i = 0; i < 3; i++)
        mx_text_free(&b->locs[i]);
}

static const char *name_or(const char *usual)
{
    const char *name = mx_control_name(NULL);
    return name ? name : usual;
}

/* ---- foreach ----------------------------------------------------------------------------------------------------- */

static mx_code trace_body(traced *t, const build *b, mx_foreach_fn body, void *user, mx_arrays data, mx_arrays states,
                          int64_t *n_out_data)
{
    mx_arrays outputs = {0}, next = {0};
    for (int64_t i = 0; i < data.n + states.n; i++) {
        const mx_array *x = i < data.n ? data.v[i] : states.v[i - data.n];
        const mx_shape_t shape = i < data.n ? mx_row_shape(x) : mx_array_shape(x);
        if (i < data.n && !x->ndim)
            return mx_fail(MX_ERR_SHAPE, "foreach: data %lld has no axis to run over", (long long)i);
        if (add_variable(t, (int)i, &b->in.items[i], &shape, x))
            return mx_error_code();
    }
    mx_code code =
        body(user, (mx_arrays){t->symbolic, data.n}, (mx_arrays){t->symbolic + data.n, states.n}, &outputs, &next);
    code = code ? code : add_heads(t, &outputs, "output of the body");
    *n_out_data = t->heads.length;
    code = code ? code : add_heads(t, &next, "state of the body");
    if (!code && next.n != states.n)
        return mx_fail(MX_ERR_ARGUMENT, "foreach: the body gave %lld states, wanted %lld", (long long)next.n,
                       (long long)states.n);
    if (!code && !t->heads.length)
        return mx_fail(MX_ERR_ARGUMENT, "foreach: the body gives neither outputs nor states");
    return code ? failed(t, code) : cut_out(t);
}

/* Which input of the subgraph every input of the node is. */
static mx_code place_body(build *b, const traced *t, int n_data)
{
    for (int i = 0; i < t->n; i++) {
        int j = 0;
        while (j < t->cutting.n_in && t->cutting.placeholder[j] != i)
            j++;
        if (j == t->cutting.n_in)
            return mx_fail(MX_ERR_ARGUMENT, "foreach: the %s arrays have to be used in the loop body: %s is not",
                           i < n_data ? "data" : "state", t->given[i]->name);
        add_loc(b, i < n_data ? 1 : 0, j);
    }
    for (int j = 0; j < t->cutting.n_in; j++) {
        if (t->cutting.placeholder[j] >= 0)
            continue;
        add_loc(b, 2, j);
        if (add_input(b, &t->cutting.outside[j]))
            return MX_ERR_MEMORY;
    }
    return MX_OK;
}

static mx_gnode *foreach_node(build *b, const traced *t, int64_t n_data, int64_t n_out_data)
{
    if (place_body(b, t, (int)n_data))
        return NULL;
    b->parts[b->n_parts++] = t->cutting.symbol;
    mx_foreach_attrs attrs = {.num_args = b->in.length + 1, .num_outputs = t->heads.length, .num_out_data = n_out_data};
    attrs.in_state_locs = locs_text(b, 0), attrs.in_data_locs = locs_text(b, 1), attrs.remain_locs = locs_text(b, 2);
    if (!attrs.in_state_locs || !attrs.in_data_locs || !attrs.remain_locs)
        return NULL;
    return make_node(b, mx_op_find("_foreach"), &attrs, &attrs.callee);
}

mx_loop mx_foreach_trace(mx_foreach_fn body, void *user, mx_arrays data, mx_arrays states)
{
    build b = {0};
    traced t = {.who = "foreach"};
    int64_t n_out_data = 0;
    mx_code code =
        !data.n ? mx_fail(MX_ERR_ARGUMENT, "foreach: there is no data to run over") : add_arrays(&b.in, data);
    code = code ? code : add_arrays(&b.in, states);
    if (!code && !(code = open_traced(&t, data.n + states.n, name_or("foreach"), ""))) {
        code = trace_body(&t, &b, body, user, data, states, &n_out_data);
        leave_traced(&t);
    }
    mx_gnode *node = code ? NULL : foreach_node(&b, &t, data.n, n_out_data);
    mx_loop loop = loop_of(node, n_out_data, states.n);
    close_traced(&t);
    close_build(&b);
    return loop;
}

/* ---- functions of the same variables ----------------------------------------------------------------------------- */

/* Input j of the subgraph is which input of the node; inputs stand in the order of their first use. */
static mx_code place_part(build *b, const traced *t, int list)
{
    for (int j = 0; j < t->cutting.n_in; j++) {
        const int placeholder = t->cutting.placeholder[j];
        int number;
        if (placeholder < 0 ? input_for(b, &t->cutting.outside[j], &number)
                            : input_for_variable(b, placeholder, &number))
            return mx_error_code();
        add_loc(b, list, number);
    }
    b->parts[b->n_parts++] = t->cutting.symbol;
    return MX_OK;
}

static mx_code give_variables(traced *t, const build *b, mx_arrays variables)
{
    for (int64_t i = 0; i < variables.n; i++) {
        const mx_shape_t shape = mx_array_shape(variables.v[i]);
        if (add_variable(t, (int)i, &b->given.items[i], &shape, variables.v[i]))
            return mx_error_code();
    }
    return MX_OK;
}

/* ---- while ------------------------------------------------------------------------------------------------------- */

static mx_code trace_condition(traced *t, const build *b, mx_condition_fn condition, void *user, mx_arrays variables,
                               const char *name)
{
    mx_code code = open_traced(t, variables.n, name, "_cond");
    if (code)
        return code;
    code = give_variables(t, b, variables);
    mx_array *answer = code ? NULL : condition(user, (mx_arrays){t->symbolic, variables.n});
    mx_arrays one = {&answer, 1};
    if (!code)
        code = !answer ? failed(t, MX_ERR_CALLBACK) : add_heads(t, &one, "condition");
    code = code ? code : cut_out(t);
    leave_traced(t);
    return code;
}

static mx_code trace_step(traced *t, const build *b, mx_step_fn step, void *user, mx_arrays variables, const char *name,
                          int64_t *n_out_data)
{
    mx_arrays outputs = {0}, next = {0};
    mx_code code = open_traced(t, variables.n, name, "_func");
    if (code)
        return code;
    code = give_variables(t, b, variables);
    code = code ? code : failed(t, step(user, (mx_arrays){t->symbolic, variables.n}, &outputs, &next));
    code = code ? code : add_heads(t, &outputs, "output of the step");
    *n_out_data = t->heads.length;
    code = code ? code : add_heads(t, &next, "variable of the step");
    if (!code && next.n != variables.n)
        code = mx_fail(MX_ERR_ARGUMENT, "while_loop: the step gave %lld variables, wanted %lld", (long long)next.n,
                       (long long)variables.n);
    code = code ? code : cut_out(t);
    leave_traced(t);
    return code;
}

/* func_var_locs: input of the step that variable i is. */
static mx_code place_variables(build *b, const traced *step)
{
    for (int i = 0; i < step->n; i++) {
        int j = 0;
        while (j < step->cutting.n_in && step->cutting.placeholder[j] != i)
            j++;
        if (j == step->cutting.n_in)
            return mx_fail(MX_ERR_ARGUMENT, "while_loop: variable %d takes no part in the computation of a step", i);
        add_loc(b, 2, j);
    }
    return MX_OK;
}

static mx_gnode *while_node(build *b, const traced *condition, const traced *step, int64_t n_out_data,
                            int64_t max_iterations)
{
    if (place_part(b, condition, 0) || place_part(b, step, 1) || place_variables(b, step))
        return NULL;
    mx_while_loop_attrs attrs = {.num_args = b->in.length + 2,
                                 .num_outputs = step->heads.length,
                                 .num_out_data = n_out_data,
                                 .max_iterations = max_iterations};
    attrs.cond_input_locs = locs_text(b, 0), attrs.func_input_locs = locs_text(b, 1);
    attrs.func_var_locs = locs_text(b, 2);
    if (!attrs.cond_input_locs || !attrs.func_input_locs || !attrs.func_var_locs)
        return NULL;
    return make_node(b, mx_op_find("_while_loop"), &attrs, &attrs.callee);
}

mx_loop mx_while_loop_trace(mx_condition_fn condition, mx_step_fn step, void *user, mx_arrays variables,
                            int64_t max_iterations)
{
    build b = {0};
    traced holds = {.who = "while_loop"}, body = {.who = "while_loop"};
    int64_t n_out_data = 0;
    const char *name = name_or("while_loop");
    b.number = mx_alloc((size_t)variables.n * sizeof *b.number);
    for (int64_t i = 0; b.number && i < variables.n; i++)
        b.number[i] = -1;
    mx_code code = b.number ? add_arrays(&b.given, variables) : MX_ERR_MEMORY;
    code = code ? code : trace_condition(&holds, &b, condition, user, variables, name);
    code = code ? code : trace_step(&body, &b, step, user, variables, name, &n_out_data);
    mx_gnode *node = code ? NULL : while_node(&b, &holds, &body, n_out_data, max_iterations);
    mx_loop loop = loop_of(node, n_out_data, variables.n);
    close_traced(&holds);
    close_traced(&body);
    mx_free(b.number, (size_t)variables.n * sizeof *b.number);
    close_build(&b);
    return loop;
}

/* ---- cond -------------------------------------------------------------------------------------------------------- */

typedef struct branch {
    mx_branch_fn run; /* NULL: the predicate itself */
    mx_array *predicate;
    void *user;
    const char *name, *part;
} branch;

static mx_code trace_branch(traced *t, const branch *what)
{
    mx_arrays outputs = {&what->predicate, 1};
    mx_code code = open_traced(t, 0, what->name, what->part);
    if (code)
        return code;
    code = what->run ? failed(t, what->run(what->user, &outputs)) : MX_OK;
    code = code ? code : add_heads(t, &outputs, "output of a branch");
    code = code ? code : cut_out(t);
    leave_traced(t);
    return code;
}

static mx_gnode *cond_node(build *b, const traced *parts)
{
    for (int i = 0; i < 3; i++)
        if (place_part(b, &parts[i], i))
            return NULL;
    mx_cond_attrs attrs = {.num_args = b->in.length + 3, .num_outputs = parts[1].heads.length};
    attrs.cond_input_locs = locs_text(b, 0), attrs.then_input_locs = locs_text(b, 1);
    attrs.else_input_locs = locs_text(b, 2);
    if (!attrs.cond_input_locs || !attrs.then_input_locs || !attrs.else_input_locs)
        return NULL;
    return make_node(b, mx_op_find("_cond"), &attrs, &attrs.callee);
}

mx_arrays mx_cond_trace(mx_array *predicate, mx_branch_fn then_branch, mx_branch_fn else_branch, void *user)
{
    build b = {0};
    traced parts[3] = {{.who = "cond"}, {.who = "cond"}, {.who = "cond"}};
    const char *name = name_or("cond");
    const branch what[3] = {{NULL, predicate, user, name, "_pred"},
                            {then_branch, NULL, user, name, "_then"},
                            {else_branch, NULL, user, name, "_else"}};
    mx_code code = MX_OK;
    for (int i = 0; !code && i < 3; i++)
        code = trace_branch(&parts[i], &what[i]);
    if (!code && parts[1].heads.length != parts[2].heads.length)
        code = mx_fail(MX_ERR_ARGUMENT, "cond: the branches give %lld and %lld outputs, wanted as many of both",
                       (long long)parts[1].heads.length, (long long)parts[2].heads.length);
    mx_gnode *node = code ? NULL : cond_node(&b, parts);
    mx_array **out = node ? outputs_of(node) : NULL;
    const int64_t n = parts[1].heads.length;
    mx_release(node);
    for (int i = 0; i < 3; i++)
        close_traced(&parts[i]);
    close_build(&b);
    return out ? (mx_arrays){out, n} : mx_list_failed();
}
