/* foreach, while_loop and cond on symbols: each becomes one node whose attributes map its inputs to the inputs of its
 * subgraphs (see graph/subgraph.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/error.h"
#include "exec/control/trace.h"
#include "exec/list.h"
#include "gluon/op.gen.h"

/* ---- foreach ----------------------------------------------------------------------------------------------------- */

static mx_code trace_body(mx_traced *t, const mx_building *b, mx_foreach_fn body, void *user, mx_arrays data,
                          mx_arrays states, int64_t *n_out_data)
{
    mx_arrays outputs = {0}, next = {0};
    for (int64_t i = 0; i < data.n + states.n; i++) {
        const mx_array *x = i < data.n ? data.v[i] : states.v[i - data.n];
        const mx_shape_t shape = i < data.n ? mx_row_shape(x) : mx_array_shape(x);
        if (i < data.n && !x->ndim)
            return mx_fail(MX_ERR_SHAPE, "foreach: data %lld has no axis to run over", (long long)i);
        if (mx_traced_variable(t, (int)i, &b->in.items[i], &shape, x))
            return mx_error_code();
    }
    mx_code code =
        body(user, (mx_arrays){t->symbolic, data.n}, (mx_arrays){t->symbolic + data.n, states.n}, &outputs, &next);
    code = code ? code : mx_traced_results(t, &outputs, "output of the body");
    *n_out_data = t->results.length;
    code = code ? code : mx_traced_results(t, &next, "state of the body");
    if (!code && next.n != states.n)
        return mx_fail(MX_ERR_ARGUMENT, "foreach: the body returned %lld states, wanted %lld", (long long)next.n,
                       (long long)states.n);
    if (!code && !t->results.length)
        return mx_fail(MX_ERR_ARGUMENT, "foreach: the body returns neither outputs nor states");
    return code ? mx_traced_failed(t, code) : mx_traced_cut(t);
}

/* Which input of the subgraph every input of the node is. */
static mx_code place_body(mx_building *b, const mx_traced *t, int n_data)
{
    for (int i = 0; i < t->n; i++) {
        int j = 0;
        while (j < t->cutting.n_in && t->cutting.placeholder[j] != i)
            j++;
        if (j == t->cutting.n_in)
            return mx_fail(MX_ERR_ARGUMENT, "foreach: the %s arrays have to be used in the loop body: %s is not",
                           i < n_data ? "data" : "state", t->given[i]->name);
        mx_building_loc(b, i < n_data ? 1 : 0, j);
    }
    for (int j = 0; j < t->cutting.n_in; j++) {
        if (t->cutting.placeholder[j] >= 0)
            continue;
        mx_building_loc(b, 2, j);
        if (mx_building_input(b, &t->cutting.outside[j]))
            return MX_ERR_MEMORY;
    }
    return MX_OK;
}

static mx_gnode *foreach_node(mx_building *b, const mx_traced *t, int64_t n_data, int64_t n_out_data)
{
    if (place_body(b, t, (int)n_data))
        return NULL;
    b->parts[b->n_parts++] = t->cutting.symbol;
    mx_foreach_attrs attrs = {
        .num_args = b->in.length + 1, .num_outputs = t->results.length, .num_out_data = n_out_data};
    attrs.in_state_locs = mx_building_locs(b, 0), attrs.in_data_locs = mx_building_locs(b, 1),
    attrs.remain_locs = mx_building_locs(b, 2);
    if (!attrs.in_state_locs || !attrs.in_data_locs || !attrs.remain_locs)
        return NULL;
    return mx_building_node(b, mx_op_find("_foreach"), &attrs, &attrs.callee);
}

mx_loop mx_foreach_trace(mx_foreach_fn body, void *user, mx_arrays data, mx_arrays states)
{
    mx_building b = {0};
    mx_traced t = {.who = "foreach"};
    int64_t n_out_data = 0;
    mx_code code =
        !data.n ? mx_fail(MX_ERR_ARGUMENT, "foreach: there is no data to run over") : mx_entries_add(&b.in, data);
    code = code ? code : mx_entries_add(&b.in, states);
    if (!code && !(code = mx_traced_open(&t, data.n + states.n, mx_control_name_or("foreach"), ""))) {
        code = trace_body(&t, &b, body, user, data, states, &n_out_data);
        mx_traced_leave(&t);
    }
    mx_gnode *node = code ? NULL : foreach_node(&b, &t, data.n, n_out_data);
    mx_loop loop = mx_node_loop(node, n_out_data, states.n);
    mx_traced_close(&t);
    mx_building_close(&b);
    return loop;
}

/* ---- functions of the same variables ----------------------------------------------------------------------------- */

/* The input of the node that is input j of the subgraph; inputs are in the order of their first use. */
static mx_code place_part(mx_building *b, const mx_traced *t, int list)
{
    for (int j = 0; j < t->cutting.n_in; j++) {
        const int placeholder = t->cutting.placeholder[j];
        int number;
        if (placeholder < 0 ? mx_building_input_for(b, &t->cutting.outside[j], &number)
                            : mx_building_variable(b, placeholder, &number))
            return mx_error_code();
        mx_building_loc(b, list, number);
    }
    b->parts[b->n_parts++] = t->cutting.symbol;
    return MX_OK;
}

static mx_code give_variables(mx_traced *t, const mx_building *b, mx_arrays variables)
{
    for (int64_t i = 0; i < variables.n; i++) {
        const mx_shape_t shape = mx_array_shape(variables.v[i]);
        if (mx_traced_variable(t, (int)i, &b->given.items[i], &shape, variables.v[i]))
            return mx_error_code();
    }
    return MX_OK;
}

/* ---- while ------------------------------------------------------------------------------------------------------- */

static mx_code trace_condition(mx_traced *t, const mx_building *b, mx_condition_fn condition, void *user,
                               mx_arrays variables, const char *name)
{
    mx_code code = mx_traced_open(t, variables.n, name, "_cond");
    if (code)
        return code;
    code = give_variables(t, b, variables);
    mx_array *answer = code ? NULL : condition(user, (mx_arrays){t->symbolic, variables.n});
    mx_arrays one = {&answer, 1};
    if (!code)
        code = !answer ? mx_traced_failed(t, MX_ERR_CALLBACK) : mx_traced_results(t, &one, "condition");
    code = code ? code : mx_traced_cut(t);
    mx_traced_leave(t);
    return code;
}

static mx_code trace_step(mx_traced *t, const mx_building *b, mx_step_fn step, void *user, mx_arrays variables,
                          const char *name, int64_t *n_out_data)
{
    mx_arrays outputs = {0}, next = {0};
    mx_code code = mx_traced_open(t, variables.n, name, "_func");
    if (code)
        return code;
    code = give_variables(t, b, variables);
    code = code ? code : mx_traced_failed(t, step(user, (mx_arrays){t->symbolic, variables.n}, &outputs, &next));
    code = code ? code : mx_traced_results(t, &outputs, "output of the step");
    *n_out_data = t->results.length;
    code = code ? code : mx_traced_results(t, &next, "variable of the step");
    if (!code && next.n != variables.n)
        code = mx_fail(MX_ERR_ARGUMENT, "while_loop: the step returned %lld variables, wanted %lld", (long long)next.n,
                       (long long)variables.n);
    code = code ? code : mx_traced_cut(t);
    mx_traced_leave(t);
    return code;
}

/* func_var_locs: input of the step that variable i is. */
static mx_code place_variables(mx_building *b, const mx_traced *step)
{
    for (int i = 0; i < step->n; i++) {
        int j = 0;
        while (j < step->cutting.n_in && step->cutting.placeholder[j] != i)
            j++;
        if (j == step->cutting.n_in)
            return mx_fail(MX_ERR_ARGUMENT, "while_loop: variable %d is not used in the computation of a step", i);
        mx_building_loc(b, 2, j);
    }
    return MX_OK;
}

static mx_gnode *while_node(mx_building *b, const mx_traced *condition, const mx_traced *step, int64_t n_out_data,
                            int64_t max_iterations)
{
    if (place_part(b, condition, 0) || place_part(b, step, 1) || place_variables(b, step))
        return NULL;
    mx_while_loop_attrs attrs = {.num_args = b->in.length + 2,
                                 .num_outputs = step->results.length,
                                 .num_out_data = n_out_data,
                                 .max_iterations = max_iterations};
    attrs.cond_input_locs = mx_building_locs(b, 0), attrs.func_input_locs = mx_building_locs(b, 1);
    attrs.func_var_locs = mx_building_locs(b, 2);
    if (!attrs.cond_input_locs || !attrs.func_input_locs || !attrs.func_var_locs)
        return NULL;
    return mx_building_node(b, mx_op_find("_while_loop"), &attrs, &attrs.callee);
}

mx_loop mx_while_loop_trace(mx_condition_fn condition, mx_step_fn step, void *user, mx_arrays variables,
                            int64_t max_iterations)
{
    mx_building b = {0};
    mx_traced holds = {.who = "while_loop"}, body = {.who = "while_loop"};
    int64_t n_out_data = 0;
    const char *name = mx_control_name_or("while_loop");
    b.number = mx_alloc((size_t)variables.n * sizeof *b.number);
    for (int64_t i = 0; b.number && i < variables.n; i++)
        b.number[i] = -1;
    mx_code code = b.number ? mx_entries_add(&b.given, variables) : MX_ERR_MEMORY;
    code = code ? code : trace_condition(&holds, &b, condition, user, variables, name);
    code = code ? code : trace_step(&body, &b, step, user, variables, name, &n_out_data);
    mx_gnode *node = code ? NULL : while_node(&b, &holds, &body, n_out_data, max_iterations);
    mx_loop loop = mx_node_loop(node, n_out_data, variables.n);
    mx_traced_close(&holds);
    mx_traced_close(&body);
    mx_free(b.number, (size_t)variables.n * sizeof *b.number);
    mx_building_close(&b);
    return loop;
}

/* ---- cond -------------------------------------------------------------------------------------------------------- */

typedef struct branch {
    mx_branch_fn run; /* NULL: the predicate itself */
    mx_array *predicate;
    void *user;
    const char *name, *part;
} branch;

static mx_code trace_branch(mx_traced *t, const branch *what)
{
    mx_arrays outputs = {&what->predicate, 1};
    mx_code code = mx_traced_open(t, 0, what->name, what->part);
    if (code)
        return code;
    code = what->run ? mx_traced_failed(t, what->run(what->user, &outputs)) : MX_OK;
    code = code ? code : mx_traced_results(t, &outputs, "output of a branch");
    code = code ? code : mx_traced_cut(t);
    mx_traced_leave(t);
    return code;
}

static mx_gnode *cond_node(mx_building *b, const mx_traced *parts)
{
    for (int i = 0; i < 3; i++)
        if (place_part(b, &parts[i], i))
            return NULL;
    mx_cond_attrs attrs = {.num_args = b->in.length + 3, .num_outputs = parts[1].results.length};
    attrs.cond_input_locs = mx_building_locs(b, 0), attrs.then_input_locs = mx_building_locs(b, 1);
    attrs.else_input_locs = mx_building_locs(b, 2);
    if (!attrs.cond_input_locs || !attrs.then_input_locs || !attrs.else_input_locs)
        return NULL;
    return mx_building_node(b, mx_op_find("_cond"), &attrs, &attrs.callee);
}

mx_arrays mx_cond_trace(mx_array *predicate, mx_branch_fn then_branch, mx_branch_fn else_branch, void *user)
{
    mx_building b = {0};
    mx_traced parts[3] = {{.who = "cond"}, {.who = "cond"}, {.who = "cond"}};
    const char *name = mx_control_name_or("cond");
    const branch what[3] = {{NULL, predicate, user, name, "_pred"},
                            {then_branch, NULL, user, name, "_then"},
                            {else_branch, NULL, user, name, "_else"}};
    mx_code code = MX_OK;
    for (int i = 0; !code && i < 3; i++)
        code = trace_branch(&parts[i], &what[i]);
    if (!code && parts[1].results.length != parts[2].results.length)
        code = mx_fail(MX_ERR_ARGUMENT, "cond: the branches return %lld and %lld outputs, wanted the same number",
                       (long long)parts[1].results.length, (long long)parts[2].results.length);
    mx_gnode *node = code ? NULL : cond_node(&b, parts);
    mx_array **out = node ? mx_node_outputs(node) : NULL;
    const int64_t n = parts[1].results.length;
    mx_release(node);
    for (int i = 0; i < 3; i++)
        mx_traced_close(&parts[i]);
    mx_building_close(&b);
    return out ? (mx_arrays){out, n} : mx_list_failed();
}
