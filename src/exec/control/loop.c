/* Loops and conditions on arrays (see gluon/control.h).
 *
 * Steps are the caller's functions; states of earlier steps are released unless the tape needs them.  Rows of data come
 * from one operator that splits the array, so that its gradient is assembled once and not once per step; if
 * nothing is recorded they are views.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/vec.h"
#include "exec/control/control.h"
#include "exec/list.h"
#include "exec/tape.h"
#include "op/formula/movement.h"

#include "gluon/op.gen.h"

mx_loop mx_loop_failed(void) { return (mx_loop){mx_list_failed(), mx_list_failed(), true}; }

/* ---- rows -------------------------------------------------------------------------------------------------------- */

mx_shape_t mx_row_shape(const mx_array *x)
{
    mx_shape_t row = {.ndim = x->ndim < 0 ? -1 : x->ndim - 1};
    if (x->ndim == 1)
        return (mx_shape_t){.ndim = 1, .dim = {1}};
    for (int k = 0; k < row.ndim; k++)
        row.dim[k] = x->shape[k + 1];
    return row;
}

/* Views: no gradient is needed. */
static mx_code row_windows(mx_array *x, mx_array **rows)
{
    const mx_shape_t shape = mx_row_shape(x);
    const int64_t bytes = mx_shape_size(&shape) * (int64_t)mx_dtype_size((mx_dtype)x->dtype);
    for (int64_t t = 0; t < x->shape[0]; t++)
        if (!(rows[t] = mx_scope_add(mx_array_view(x, t * bytes, &shape, (mx_dtype)x->dtype))))
            return mx_error_code();
    return MX_OK;
}

#define MOST_PARTS 64 /* that one split returns */

mx_code mx_rows(mx_array *x, mx_array **rows)
{
    const int64_t n = x->shape[0];
    if (x->storage && !(mx_thread.modes.recording && mx_has_history(x)))
        return row_windows(x, rows);
    for (int64_t begin = 0; begin < n; begin += MOST_PARTS) {
        const int64_t count = n - begin < MOST_PARTS ? n - begin : MOST_PARTS;
        mx_array *part = n <= MOST_PARTS ? x : mx_g_slice_axis(x, 0, begin, begin + count);
        mx_split_attrs attrs = {.num_outputs = count, .axis = 0, .squeeze_axis = x->ndim > 1};
        mx_array *out[MX_MAX_OUTPUTS] = {NULL};
        if (!part || mx_invoke(MX_OP("SliceChannel"), &attrs, 1, &part, MX_MAX_OUTPUTS, out))
            return mx_error_code();
        memcpy(rows + begin, out, (size_t)count * sizeof *rows);
    }
    return MX_OK;
}

mx_array *mx_stack_rows(int64_t n, mx_array *const *rows, int64_t length)
{
    mx_array *stacked = n > INT32_MAX ? mx_fail_null(MX_ERR_SHAPE, "a loop of %lld steps is too long", (long long)n)
                                      : mx_g_join((int)n, rows, 0, true);
    if (!stacked || length == n || stacked->ndim < 1)
        return stacked;
    mx_shape_t rest = mx_array_shape(stacked);
    rest.dim[0] = length - n;
    if (!stacked->storage)
        return mx_g_join(
            2, (mx_array *const[]){stacked, mx_scope_add(mx_array_abstract(&rest, stacked->dtype, stacked->context))},
            0, false);
    mx_array *zeros = mx_scope_add(mx_array_new(&rest, (mx_dtype)stacked->dtype, stacked->context));
    if (!zeros || mx_array_fill(zeros, 0))
        return NULL;
    return mx_g_join(2, (mx_array *const[]){stacked, zeros}, 0, false);
}

mx_code mx_truth(const mx_array *x, const char *who, bool *holds)
{
    char text[MX_SHAPE_TEXT];
    if (!mx_array_ok(x, who, "condition"))
        return mx_error_code();
    const mx_shape_t shape = mx_array_shape(x);
    if (x->size != 1)
        return mx_fail(MX_ERR_SHAPE, "%s: the condition must have one element, got shape %s", who,
                       mx_shape_text(&shape, text));
    const bool clean = !mx_has_error();
    *holds = mx_item(x) != 0;
    return clean && mx_has_error() ? mx_error_code() : MX_OK;
}

/* ---- the state of a loop ----------------------------------------------------------------------------------------- */

typedef MX_VEC(mx_array *) arrays;

typedef struct progress {
    const char *who;
    arrays states;  /* retained */
    arrays room;    /* empty: for the states of the next step */
    arrays outputs; /* retained; n_outputs per step, step by step */
    int64_t n_outputs, steps;
} progress;

static void let_go(arrays *list)
{
    for (int64_t i = 0; i < list->length; i++)
        mx_release(list->items[i]);
    list->length = 0;
}

static mx_code keep_all(arrays *list, mx_arrays more)
{
    for (int64_t i = 0; i < more.n; i++) {
        if (!mx_vec_push(list, more.v[i]))
            return MX_ERR_MEMORY;
        mx_retain(more.v[i]);
    }
    return MX_OK;
}

static mx_code check_results(const progress *p, mx_arrays *outputs, mx_arrays *next)
{
    if (mx_list_check(outputs, p->who, "output of the step") || mx_list_check(next, p->who, "state of the step"))
        return mx_error_code();
    if (p->steps && outputs->n != p->n_outputs)
        return mx_fail(MX_ERR_ARGUMENT, "%s: a step returned %lld outputs, the first one %lld", p->who,
                       (long long)outputs->n, (long long)p->n_outputs);
    return MX_OK;
}

/* A step ran: saves its outputs; its states replace the old ones. */
static mx_code advance(progress *p, mx_arrays outputs, mx_arrays next)
{
    mx_code code = check_results(p, &outputs, &next);
    p->n_outputs = outputs.n;
    code = code ? code : keep_all(&p->outputs, outputs);
    code = code ? code : keep_all(&p->room, next);
    let_go(&p->states);
    const arrays old = p->states;
    p->states = p->room, p->room = old;
    p->steps += !code;
    return code;
}

static mx_arrays states_of(const progress *p) { return (mx_arrays){p->states.items, p->states.length}; }

/* `length` rows per output. */
static mx_code finish(const progress *p, int64_t length, mx_loop *loop)
{
    const int64_t n = p->steps ? p->n_outputs : 0;
    mx_array **outputs = mx_list_new(n), **states = mx_list_new(p->states.length), **column = mx_list_new(p->steps);
    if (!outputs || !states || !column)
        return MX_ERR_MEMORY;
    for (int64_t k = 0; k < n; k++) {
        for (int64_t t = 0; t < p->steps; t++)
            column[t] = p->outputs.items[t * n + k];
        if (!(outputs[k] = mx_stack_rows(p->steps, column, length)))
            return mx_error_code();
    }
    for (int64_t i = 0; i < p->states.length; i++)
        if (!(states[i] = mx_scope_add(mx_retain(p->states.items[i]))))
            return mx_error_code();
    *loop = (mx_loop){{outputs, n}, {states, p->states.length}, false};
    return MX_OK;
}

static mx_loop close(progress *p, mx_code code, int64_t length)
{
    mx_loop loop = mx_loop_failed();
    if (!code)
        code = finish(p, length, &loop);
    let_go(&p->states);
    let_go(&p->outputs);
    mx_vec_free(&p->states);
    mx_vec_free(&p->room);
    mx_vec_free(&p->outputs);
    if (code && !mx_has_error())
        mx_fail(code == MX_ERR_MEMORY ? code : MX_ERR_CALLBACK, "%s: a step failed", p->who);
    return code ? mx_loop_failed() : loop;
}

/* ---- foreach ----------------------------------------------------------------------------------------------------- */

static mx_code check_data(mx_arrays data, int64_t *length)
{
    if (!data.n)
        return mx_fail(MX_ERR_ARGUMENT, "foreach: there is no data to run over");
    for (int64_t i = 0; i < data.n; i++) {
        if (data.v[i]->ndim < 1 || data.v[i]->shape[0] < 0)
            return mx_fail(MX_ERR_SHAPE, "foreach: data %lld has %s", (long long)i,
                           data.v[i]->ndim ? "a first axis of unknown size" : "no axis to run over");
        if (data.v[i]->shape[0] != data.v[0]->shape[0])
            return mx_fail(MX_ERR_SHAPE, "foreach: the first axes of data differ: %lld and %lld",
                           (long long)data.v[0]->shape[0], (long long)data.v[i]->shape[0]);
    }
    *length = data.v[0]->shape[0];
    return MX_OK;
}

static mx_code one_of_each(progress *p, mx_foreach_fn body, void *user, mx_arrays data, mx_array *const *rows,
                           int64_t length, int64_t t)
{
    MX_SCOPE;
    mx_arrays outputs = {0}, next = {0};
    mx_array **slices = mx_list_new(data.n);
    if (!slices)
        return mx_error_code();
    for (int64_t i = 0; i < data.n; i++)
        slices[i] = rows[i * length + t];
    mx_code code = body(user, (mx_arrays){slices, data.n}, states_of(p), &outputs, &next);
    return code ? code : advance(p, outputs, next);
}

mx_loop mx_foreach_run(mx_foreach_fn body, void *user, mx_arrays data, mx_arrays states)
{
    mx_scope scope = mx_scope_open();
    int64_t length = 0;
    progress p = {.who = "foreach"};
    mx_code code = check_data(data, &length);
    mx_array **rows = code ? NULL : mx_list_new(data.n * length);
    for (int64_t i = 0; rows && !code && i < data.n; i++)
        code = length ? mx_rows(data.v[i], rows + i * length) : MX_OK;
    code = code ? code : rows ? keep_all(&p.states, states) : MX_ERR_MEMORY;
    for (int64_t t = 0; !code && t < length; t++)
        code = one_of_each(&p, body, user, data, rows, length, t);
    /* The rows are released before the results move to the caller's scope. */
    mx_scope_close(&scope);
    return close(&p, code, length);
}

/* ---- while ------------------------------------------------------------------------------------------------------- */

/* Whether another step runs.  An abstract array has no value: one step determines all shapes. */
static mx_code ask(const progress *p, mx_condition_fn condition, void *user, bool *holds)
{
    MX_SCOPE;
    mx_mode mode = mx_mode_enter(0, -1);
    mx_array *answer = condition(user, states_of(p));
    mx_mode_leave(&mode);
    if (!answer)
        return mx_has_error() ? mx_error_code() : mx_fail(MX_ERR_CALLBACK, "%s: the condition failed", p->who);
    if (answer != MX_NONE && mx_array_ok(answer, p->who, "condition") && !answer->storage) {
        *holds = !p->steps;
        return MX_OK;
    }
    return mx_truth(answer, p->who, holds);
}

static mx_code another(progress *p, mx_step_fn step, void *user)
{
    MX_SCOPE;
    mx_arrays outputs = {0}, next = {0};
    const int64_t n = p->states.length;
    mx_code code = step(user, states_of(p), &outputs, &next);
    if (code)
        return code;
    if (next.n >= 0 && next.n != n)
        return mx_fail(MX_ERR_ARGUMENT, "%s: the step returned %lld variables, wanted %lld", p->who, (long long)next.n,
                       (long long)n);
    return advance(p, outputs, next);
}

mx_loop mx_while_loop_run(mx_condition_fn condition, mx_step_fn step, void *user, mx_arrays variables,
                          int64_t max_iterations)
{
    progress p = {.who = "while_loop"};
    mx_code code = keep_all(&p.states, variables);
    bool holds = true;
    while (!code && p.steps < max_iterations) {
        code = ask(&p, condition, user, &holds);
        if (code || !holds)
            break;
        code = another(&p, step, user);
    }
    return close(&p, code, max_iterations > p.steps ? max_iterations : p.steps);
}

/* ---- the public functions ---------------------------------------------------------------------------------------- */

static bool any_symbolic(mx_arrays list)
{
    for (int64_t i = 0; i < list.n; i++)
        if (mx_is_symbolic(list.v[i]))
            return true;
    return false;
}

mx_loop mx_foreach(mx_foreach_fn body, void *user, mx_arrays data, mx_arrays states)
{
    if (!body)
        return mx_fail(MX_ERR_ARGUMENT, "mx_foreach: body is NULL"), mx_loop_failed();
    if (mx_list_check(&data, "mx_foreach", "data") || mx_list_check(&states, "mx_foreach", "states"))
        return mx_loop_failed();
    return any_symbolic(data) || any_symbolic(states) ? mx_foreach_trace(body, user, data, states)
                                                      : mx_foreach_run(body, user, data, states);
}

mx_loop mx_while_loop(mx_condition_fn condition, mx_step_fn step, void *user, mx_arrays variables,
                      int64_t max_iterations)
{
    if (!condition || !step)
        return mx_fail(MX_ERR_ARGUMENT, "mx_while_loop: %s is NULL", condition ? "step" : "condition"),
               mx_loop_failed();
    if (mx_list_check(&variables, "mx_while_loop", "variables"))
        return mx_loop_failed();
    if (!variables.n)
        return mx_fail(MX_ERR_ARGUMENT, "mx_while_loop: there are no variables"), mx_loop_failed();
    return any_symbolic(variables) ? mx_while_loop_trace(condition, step, user, variables, max_iterations)
                                   : mx_while_loop_run(condition, step, user, variables, max_iterations);
}

mx_arrays mx_cond(mx_array *predicate, mx_branch_fn then_branch, mx_branch_fn else_branch, void *user)
{
    mx_arrays outputs = {0}, others = {0};
    bool holds = true;
    if (!then_branch || !else_branch)
        return mx_fail(MX_ERR_ARGUMENT, "mx_cond: %s is NULL", then_branch ? "else_branch" : "then_branch"),
               mx_list_failed();
    if (!mx_array_ok(predicate, "mx_cond", "predicate"))
        return mx_list_failed();
    if (mx_is_symbolic(predicate))
        return mx_cond_trace(predicate, then_branch, else_branch, user);
    /* An abstract predicate has no value: both branches run for their shapes. */
    mx_code code = predicate->storage ? mx_truth(predicate, "cond", &holds) : else_branch(user, &others);
    code = code ? code : (holds ? then_branch : else_branch)(user, &outputs);
    if (!code && mx_list_check(&outputs, "cond", "output of a branch"))
        code = mx_error_code();
    if (code && !mx_has_error())
        mx_fail(MX_ERR_CALLBACK, "cond: a branch failed");
    return code ? mx_list_failed() : outputs;
}
