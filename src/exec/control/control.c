/* Running the subgraphs of _foreach, _while_loop and _cond on arrays: the loops of loop.c with subgraphs as functions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/control/control.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/interpret.h"
#include "exec/list.h"
#include "exec/control/region.h"
#include "exec/tape.h"

typedef struct running {
    const mx_control *control;
    mx_array **in; /* (n_in) current values of the node's inputs; owned by the scope or the caller */
} running;

static mx_code interpret(const mx_subgraph *p, mx_array *const *values, mx_array **results)
{
    mx_interpretation what = {.graph = &p->graph, .values = values, .order = p->order};
    mx_code code = mx_interpret(&what, results);
    for (int64_t h = 0; !code && h < p->graph.n_results; h++)
        if (!(results[h] = mx_scope_add(results[h])))
            code = mx_error_code();
    return code;
}

/* Calls a part; results (graph.n_results): arrays of the scope. */
static mx_code call_part(const running *r, int part, mx_array **results)
{
    const mx_subgraph *p = &r->control->parts[part];
    const size_t bytes = (size_t)p->graph.n * sizeof(mx_array *);
    mx_array **given = mx_alloc_zero(2 * bytes), **values = given + p->graph.n;
    bool ran;
    if (!given)
        return MX_ERR_MEMORY;
    for (int j = 0; j < p->n_in; j++)
        given[j] = values[p->variable[j]] = r->in[p->from[j]];
    mx_code code = mx_part_run(p, given, results, &ran);
    if (!ran && !code)
        code = interpret(p, values, results);
    mx_free(given, 2 * bytes);
    return code;
}

static mx_array **call_for_list(const running *r, int part)
{
    mx_array **results = mx_list_new(r->control->parts[part].graph.n_results);
    return results && !call_part(r, part, results) ? results : NULL;
}

static mx_code give(const running *r, int part, mx_arrays *outputs, mx_arrays *next)
{
    const mx_control *c = r->control;
    mx_array **results = call_for_list(r, part);
    if (!results)
        return mx_error_code();
    *outputs = (mx_arrays){results, c->n_out_data};
    *next = (mx_arrays){results + c->n_out_data, c->n_states};
    return MX_OK;
}

static void take_states(const running *r, mx_arrays states)
{
    for (int s = 0; s < r->control->n_states; s++)
        r->in[r->control->state[s]] = states.v[s];
}

/* ---- the functions that loops call ------------------------------------------------------------------------------- */

static mx_code foreach_body(void *user, mx_arrays data, mx_arrays states, mx_arrays *outputs, mx_arrays *next)
{
    const running *r = user;
    for (int i = 0; i < r->control->n_data; i++)
        r->in[i] = data.v[i];
    take_states(r, states);
    return give(r, 0, outputs, next);
}

static mx_array *while_condition(void *user, mx_arrays variables)
{
    take_states(user, variables);
    mx_array **results = call_for_list(user, 0);
    return results ? results[0] : NULL;
}

static mx_code while_step(void *user, mx_arrays variables, mx_arrays *outputs, mx_arrays *next)
{
    take_states(user, variables);
    return give(user, 1, outputs, next);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* No step ran: the outputs are zeros of the inferred shapes. */
static mx_code empty_outputs(const running *r, mx_array *const *in, mx_array **out)
{
    const mx_control *c = r->control;
    const size_t total = (size_t)c->n_in + (size_t)c->n_out + 1, bytes = total * (sizeof(mx_shape_t) + sizeof(int));
    mx_shape_t *shape = mx_alloc(bytes);
    if (!shape)
        return MX_ERR_MEMORY;
    int *type = (int *)(shape + total);
    for (size_t i = 0; i < total; i++) {
        shape[i] = i < (size_t)c->n_in ? mx_array_shape(in[i]) : MX_UNKNOWN_SHAPE;
        type[i] = i < (size_t)c->n_in ? in[i]->dtype : MX_DTYPE_NONE;
    }
    mx_infer infer = {c->op, NULL, c->n_in, c->n_out + 1, shape, shape + c->n_in, type, type + c->n_in, NULL};
    mx_code code = mx_control_infer(&c->callee, &infer);
    for (int k = 0; !code && k < c->n_out_data; k++) {
        if (!mx_shape_known(&infer.out[k]) || !mx_dtype_valid(infer.out_type[k]))
            code = mx_op_fail(c->op, MX_ERR_SHAPE, "no step ran, and the shape of output %d cannot be inferred", k);
        else if (!(out[k] = mx_scope_add(mx_array_new(&infer.out[k], (mx_dtype)infer.out_type[k], in[0]->context))))
            code = mx_error_code();
        else
            code = mx_array_fill(out[k], 0);
    }
    mx_free(shape, bytes);
    return code;
}

static mx_code finish_loop(const running *r, const mx_loop *loop, mx_array *const *in, mx_array **out)
{
    const mx_control *c = r->control;
    if (loop->failed)
        return mx_error_code();
    for (int s = 0; s < c->n_states; s++)
        out[c->n_out_data + s] = loop->states.v[s];
    if (loop->outputs.n != c->n_out_data)
        return empty_outputs(r, in, out);
    if (c->n_out_data)
        memcpy(out, loop->outputs.v, (size_t)c->n_out_data * sizeof *out);
    return MX_OK;
}

static mx_code run_cond(const running *r, mx_array **out)
{
    bool holds = false;
    mx_mode mode = mx_mode_enter(0, -1);
    mx_array **answer = call_for_list(r, 0);
    mx_mode_leave(&mode);
    if (!answer || mx_truth(answer[0], "_cond", &holds))
        return mx_error_code();
    return call_part(r, holds ? 1 : 2, out);
}

/* ---- unrolling --------------------------------------------------------------------------------------------------- */

#define MOST_NODES 4096                  /* of an unrolled loop */
#define MOST_SHARED ((int64_t)4 << 20)   /* bytes of the gradients, one per step, of inputs that all steps share */

bool mx_control_unrolls(const mx_op *op, const void *attrs, mx_array *const *in)
{
    const mx_control *c = mx_thread.modes.unroll ? mx_control_of(op, attrs) : NULL;
    if (!c || c->kind != MX_FOREACH || in[0]->ndim < 1)
        return false;
    const int64_t steps = in[0]->shape[0];
    int64_t shared = 0;
    for (int i = c->n_data + c->n_states; i < c->n_in; i++)
        if (mx_dtype_valid(in[i]->dtype))
            shared += in[i]->size * mx_dtype_size((mx_dtype)in[i]->dtype);
    return steps > 0 && steps <= mx_thread.modes.unroll && steps * c->parts[0].graph.n <= MOST_NODES &&
           shared <= MOST_SHARED / steps;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

static mx_code run_kind(running *r, mx_array *const *in, mx_array **out)
{
    const mx_control *c = r->control;
    mx_loop loop;
    if (c->kind == MX_COND)
        return run_cond(r, out);
    mx_array **states = mx_list_new(c->n_states);
    if (!states)
        return mx_error_code();
    for (int s = 0; s < c->n_states; s++)
        states[s] = in[c->state[s]];
    const mx_arrays list = {states, c->n_states};
    if (c->kind == MX_FOREACH) {
        /* Unrolled steps reduce the limit for the loops inside. */
        const int unroll = mx_thread.modes.unroll;
        if (unroll && in[0]->ndim > 0 && in[0]->shape[0] > 0)
            mx_thread.modes.unroll /= in[0]->shape[0] < unroll ? (int)in[0]->shape[0] : unroll;
        loop = mx_foreach_run(foreach_body, r, (mx_arrays){in, c->n_data}, list);
        mx_thread.modes.unroll = unroll;
    } else
        loop = mx_while_loop_run(while_condition, while_step, r, list, c->max_iterations);
    return finish_loop(r, &loop, in, out);
}

static mx_code run_control(mx_callee *callee, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    const mx_control *c = (const mx_control *)(const void *)callee;
    if (n_in != c->n_in || n_out != c->n_out)
        return mx_op_fail(c->op, MX_ERR_ARGUMENT, "got %d inputs for %d outputs, its subgraphs need %d and %d", n_in,
                          n_out, c->n_in, c->n_out);
    const size_t bytes = (size_t)n_in * sizeof(mx_array *);
    running r = {c, mx_alloc(bytes)};
    if (!r.in)
        return MX_ERR_MEMORY;
    if (n_in)
        memcpy(r.in, in, bytes);
    mx_code code = run_kind(&r, in, out);
    mx_free(r.in, bytes);
    return code;
}

const mx_callee_methods mx_control_methods = {.infer = mx_control_infer, .run = run_control};
