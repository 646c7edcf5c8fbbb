/* Control objects: created from attributes and subgraphs, with all checks (see subgraph.h).
 *
 * The attributes of classic files map inputs of a subgraph to inputs of the node by number:
 *
 *     _foreach      in_data_locs, in_state_locs, remain_locs: inputs of the body, for the node's inputs in that order
 *     _while_loop   cond_input_locs, func_input_locs: inputs of the node; func_var_locs: inputs of the step
 *     _cond         cond_input_locs, then_input_locs, else_input_locs: inputs of the node
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "graph/subgraph.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vec.h"

#include "gluon/op.gen.h"

typedef MX_VEC(int) numbers;

#define DEEPEST 5 /* nested subgraphs: inference visits the innermost once per visit of all around it */

static void free_plans(mx_part_plans *plans)
{
    if (!plans)
        return;
    while (plans->n)
        mx_release(plans->plans[--plans->n]);
    pthread_mutex_destroy(&plans->lock);
    mx_free(plans, sizeof *plans);
}

static void free_part(mx_subgraph *part)
{
    free_plans(part->plans);
    mx_free(part->variable, (size_t)part->n_in * sizeof *part->variable);
    mx_free(part->order, (size_t)part->graph.n * sizeof *part->order);
    mx_free(part->from, (size_t)part->n_in * sizeof *part->from);
    mx_graph_free(&part->graph);
}

static void destroy_control(mx_object *object)
{
    mx_control *c = (mx_control *)object;
    for (int i = 0; i < c->n_parts; i++)
        free_part(&c->parts[i]);
    mx_free(c->state, (size_t)c->n_states * sizeof *c->state);
    mx_free(c, sizeof *c);
}
const mx_kind mx_control_object_kind = {"subgraphs of a node", destroy_control};

mx_control_kind mx_control_kind_of(const mx_op *op)
{
    static const char *const names[] = {"_foreach", "_while_loop", "_cond"};
    for (int i = 0; op && i < MX_CONTROL_KINDS; i++)
        if (!strcmp(op->name, names[i]))
            return (mx_control_kind)i;
    return MX_CONTROL_KINDS;
}

int mx_control_parts(mx_control_kind kind) { return kind == MX_FOREACH ? 1 : kind == MX_WHILE_LOOP ? 2 : 3; }

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static mx_code fill_part(mx_subgraph *part, const mx_symbol *symbol)
{
    if (mx_graph_of(&part->graph, symbol->n, symbol->outputs))
        return mx_error_code();
    const mx_graph *g = &part->graph;
    for (int64_t i = 0; i < g->n; i++)
        part->n_in += !g->nodes[i]->op;
    part->variable = mx_alloc((size_t)part->n_in * sizeof *part->variable);
    part->from = mx_alloc((size_t)part->n_in * sizeof *part->from);
    part->order = mx_alloc((size_t)g->n * sizeof *part->order);
    part->plans = mx_alloc_zero(sizeof *part->plans);
    if (!part->variable || !part->from || !part->order || !part->plans)
        return mx_free(part->plans, sizeof *part->plans), part->plans = NULL, MX_ERR_MEMORY;
    pthread_mutex_init(&part->plans->lock, NULL);
    for (int64_t i = 0, n = 0; i < g->n; i++)
        if (!g->nodes[i]->op)
            part->variable[n++] = i;
    for (int j = 0; j < part->n_in; j++)
        part->from[j] = -1;
    mx_graph_by_creation(g, part->order);
    return MX_OK;
}

static mx_code check_depth(mx_control *c, const char *who)
{
    c->depth = 1;
    for (int i = 0; i < c->n_parts; i++)
        for (int64_t k = 0; k < c->parts[i].graph.n; k++) {
            const mx_gnode *node = c->parts[i].graph.nodes[k];
            const mx_control *inner = node->op ? mx_control_of(node->op, node->attrs) : NULL;
            if (inner && inner->depth >= c->depth)
                c->depth = inner->depth + 1;
        }
    return c->depth <= DEEPEST ? MX_OK
                               : mx_fail(MX_ERR_UNSUPPORTED,
                                         "%s: loops and conditions are nested %d deep, "
                                         "at most %d levels are possible",
                                         who, c->depth, DEEPEST);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* "[0, 2]" or "(0, 2)", every number in [0, limit). */
static mx_code read_numbers(const char *who, const char *attribute, const char *text, int limit, numbers *list)
{
    const char *p = text ? text : "";
    while (isspace((unsigned char)*p))
        p++;
    const char close = *p == '[' ? ']' : *p == '(' ? ')' : 0;
    bool ok = close != 0;
    for (p += ok; ok;) {
        while (isspace((unsigned char)*p))
            p++;
        if (*p == close)
            break;
        char *end;
        const long long value = strtoll(p, &end, 10);
        ok = end != p;
        if (ok && (value < 0 || value >= limit))
            return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s names input %lld, but there are %d", who, attribute, value, limit);
        if (ok && !mx_vec_push(list, (int)value))
            return MX_ERR_MEMORY;
        for (p = end; isspace((unsigned char)*p) || *p == 'L';)
            p++;
        ok = ok && (*p == ',' || *p == close);
        p += ok && *p == ',';
    }
    return ok ? MX_OK
              : mx_fail(MX_ERR_ATTRIBUTE, "%s: %s is '%.80s', wanted a list of numbers", who, attribute,
                        text ? text : "None");
}

static mx_code wrong_count(const char *who, const char *what, int64_t have, int64_t want)
{
    return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s is %lld, wanted %lld", who, what, (long long)have, (long long)want);
}

/* Input list[k] of the part is input first + k of the node. */
static mx_code place(mx_subgraph *part, const char *who, const char *attribute, const numbers *list, int first)
{
    for (int64_t k = 0; k < list->length; k++) {
        const int j = list->items[k];
        if (j >= part->n_in)
            return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s names input %d of the subgraph, but it has %d", who, attribute, j,
                           part->n_in);
        if (part->from[j] >= 0)
            return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s names input %d of the subgraph again", who, attribute, j);
        part->from[j] = first + (int)k;
    }
    return MX_OK;
}

/* Input j of the part is input list[j] of the node. */
static mx_code place_all(mx_subgraph *part, const char *who, const char *attribute, const char *text, int n_in)
{
    numbers list = {0};
    mx_code code = read_numbers(who, attribute, text, n_in, &list);
    if (!code && list.length != part->n_in)
        code = mx_fail(MX_ERR_ATTRIBUTE, "%s: %s has %lld numbers, the subgraph has %d inputs", who, attribute,
                       (long long)list.length, part->n_in);
    for (int j = 0; !code && j < part->n_in; j++)
        part->from[j] = list.items[j];
    mx_vec_free(&list);
    return code;
}

static mx_code check_results(const mx_control *c, const char *who, int part, int64_t want)
{
    const int64_t have = c->parts[part].graph.n_results;
    return have == want ? MX_OK
                        : mx_fail(MX_ERR_ATTRIBUTE, "%s: subgraph %d has %lld outputs, wanted %lld", who, part,
                                  (long long)have, (long long)want);
}

static mx_code new_states(mx_control *c, int64_t n)
{
    c->n_states = (int)n;
    c->state = mx_alloc((size_t)n * sizeof *c->state);
    return c->state ? MX_OK : MX_ERR_MEMORY;
}

/* ---- the three kinds --------------------------------------------------------------------------------------------- */

static mx_code fill_foreach(mx_control *c, const mx_foreach_attrs *a, const char *who)
{
    numbers data = {0}, states = {0}, others = {0};
    mx_code code = read_numbers(who, "in_data_locs", a->in_data_locs, c->n_in, &data);
    code = code ? code : read_numbers(who, "in_state_locs", a->in_state_locs, c->n_in, &states);
    code = code ? code : read_numbers(who, "remain_locs", a->remain_locs, c->n_in, &others);
    c->n_data = (int)data.length, c->n_out = (int)a->num_outputs, c->n_out_data = (int)a->num_out_data;
    if (!code && data.length + states.length + others.length != c->n_in)
        code = wrong_count(who, "the number of inputs in in_data_locs, in_state_locs and remain_locs",
                           data.length + states.length + others.length, c->n_in);
    if (!code && !data.length)
        code = wrong_count(who, "the number of data arrays", 0, 1);
    if (!code && c->parts[0].n_in != c->n_in)
        code = wrong_count(who, "the number of inputs of the subgraph", c->parts[0].n_in, c->n_in);
    if (!code && a->num_outputs - a->num_out_data != states.length)
        code = wrong_count(who, "num_outputs - num_out_data", a->num_outputs - a->num_out_data, states.length);
    code = code ? code : check_results(c, who, 0, a->num_outputs);
    code = code ? code : place(&c->parts[0], who, "in_data_locs", &data, 0);
    code = code ? code : place(&c->parts[0], who, "in_state_locs", &states, c->n_data);
    code = code ? code : place(&c->parts[0], who, "remain_locs", &others, c->n_data + (int)states.length);
    code = code ? code : new_states(c, states.length);
    for (int i = 0; !code && i < c->n_states; i++)
        c->state[i] = c->n_data + i;
    mx_vec_free(&data);
    mx_vec_free(&states);
    mx_vec_free(&others);
    return code;
}

static mx_code fill_while_loop(mx_control *c, const mx_while_loop_attrs *a, const char *who)
{
    mx_subgraph *step = &c->parts[1];
    numbers vars = {0};
    c->n_out = (int)a->num_outputs, c->n_out_data = (int)a->num_out_data, c->max_iterations = a->max_iterations;
    mx_code code = place_all(&c->parts[0], who, "cond_input_locs", a->cond_input_locs, c->n_in);
    code = code ? code : place_all(step, who, "func_input_locs", a->func_input_locs, c->n_in);
    code = code ? code : read_numbers(who, "func_var_locs", a->func_var_locs, step->n_in, &vars);
    if (!code && (a->num_outputs - a->num_out_data != vars.length || !vars.length))
        code = wrong_count(who, "num_outputs - num_out_data", a->num_outputs - a->num_out_data, vars.length);
    code = code ? code : check_results(c, who, 0, 1);
    code = code ? code : check_results(c, who, 1, a->num_outputs);
    code = code ? code : new_states(c, vars.length);
    for (int i = 0; !code && i < c->n_states; i++) {
        c->state[i] = step->from[vars.items[i]];
        for (int k = 0; k < i && !code; k++)
            if (c->state[k] == c->state[i])
                code =
                    mx_fail(MX_ERR_ATTRIBUTE, "%s: func_var_locs: variables %d and %d are the same input", who, k, i);
    }
    mx_vec_free(&vars);
    return code;
}

static mx_code fill_cond(mx_control *c, const mx_cond_attrs *a, const char *who)
{
    c->n_out = c->n_out_data = (int)a->num_outputs;
    mx_code code = place_all(&c->parts[0], who, "cond_input_locs", a->cond_input_locs, c->n_in);
    code = code ? code : place_all(&c->parts[1], who, "then_input_locs", a->then_input_locs, c->n_in);
    code = code ? code : place_all(&c->parts[2], who, "else_input_locs", a->else_input_locs, c->n_in);
    code = code ? code : check_results(c, who, 0, 1);
    code = code ? code : check_results(c, who, 1, a->num_outputs);
    return code ? code : check_results(c, who, 2, a->num_outputs);
}

/* ---- the control object ------------------------------------------------------------------------------------------- */

static mx_code fill(mx_control *c, const void *attrs, const char *who, mx_symbol *const *parts)
{
    const int64_t num_args = ((const mx_foreach_attrs *)attrs)->num_args; /* the first field of all three */
    if (num_args != c->n_in + c->n_parts)
        return wrong_count(who, "num_args", num_args, c->n_in + c->n_parts);
    for (int i = 0; i < c->n_parts; i++)
        if (fill_part(&c->parts[i], parts[i]))
            return mx_error_code();
    if (check_depth(c, who))
        return mx_error_code();
    switch (c->kind) {
    case MX_FOREACH: return fill_foreach(c, attrs, who);
    case MX_WHILE_LOOP: return fill_while_loop(c, attrs, who);
    default: return fill_cond(c, attrs, who);
    }
}

mx_control *mx_control_new(const mx_op *op, const void *attrs, const char *who, int n_in, int n_parts,
                           mx_symbol *const *parts)
{
    const mx_control_kind kind = mx_control_kind_of(op);
    if (kind == MX_CONTROL_KINDS || n_parts != mx_control_parts(kind))
        return mx_fail_null(MX_ERR_ATTRIBUTE, "%s: has %d subgraphs, %s needs %d", who, n_parts, op->name,
                            kind == MX_CONTROL_KINDS ? 0 : mx_control_parts(kind));
    if (mx_schema_check(op->schema, attrs, who))
        return NULL;
    mx_control *c = mx_alloc_zero(sizeof *c);
    if (!c)
        return NULL;
    mx_object_init(&c->callee.object, &mx_control_object_kind);
    c->callee.methods = &mx_control_methods;
    c->kind = kind, c->op = op, c->n_in = n_in, c->n_parts = n_parts;
    mx_code code = mx_op_count_out(op, attrs) <= MX_MAX_OUTPUTS
                       ? fill(c, attrs, who, parts)
                       : wrong_count(who, "num_outputs", mx_op_count_visible(op, attrs), MX_MAX_OUTPUTS - 1);
    if (!code)
        return c;
    if (!mx_has_error())
        mx_fail(MX_ERR_MEMORY, "%s: out of memory for its subgraphs", who);
    mx_release(c);
    return NULL;
}
