/* Unrolling: a sequence through a cell.
 *
 *     inputs -> a list of steps -> output, states = cell(step, states) for each -> outputs in the requested form
 *
 * Some cells (stacks, both directions, dropout ...) have their own unroll in their class entry.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/list.h"
#include "gluon/rnn/cell.h"

/* Results of all steps, by step. */
typedef struct results {
    mx_array **output; /* (length) */
    mx_arrays *states; /* (length) */
    int64_t length;
} results;

static mx_code run_steps(mx_block *self, const mx_sequence *inputs, mx_arrays states, results *r)
{
    for (int64_t i = 0; i < r->length; i++) {
        const mx_arrays out = mx_cell_call(self, inputs->steps.v[i], states);
        if (!out.n)
            return mx_error_code();
        r->output[i] = out.v[0];
        states = r->states[i] = (mx_arrays){out.v + 1, out.n - 1};
    }
    return MX_OK;
}

/* Every state at the last valid step of each sequence. */
static mx_arrays last_states(const results *r, mx_array *valid_length)
{
    const int64_t n = r->states[0].n;
    mx_array **last = mx_list_new(n + 1), **steps = mx_list_new(r->length);
    for (int64_t k = 0; last && steps && k < n; k++) {
        for (int64_t i = 0; i < r->length; i++)
            steps[i] = k < r->states[i].n ? r->states[i].v[k] : NULL;
        if (!(last[k] = mx_sequence_end((mx_arrays){steps, r->length}, valid_length)))
            return mx_list_failed();
    }
    return last && steps ? (mx_arrays){last, n} : mx_list_failed();
}

static mx_code finish(const mx_unroll *u, const mx_sequence_layout *axes, const results *r, mx_unrolled *out)
{
    mx_sequence outputs = {.steps = {r->output, r->length}};
    out->states = r->states[r->length - 1];
    if (u->valid_length) {
        out->states = last_states(r, u->valid_length);
        if (mx_has_error() || mx_sequence_zero_past(&outputs, r->length, u->valid_length, axes, true))
            return mx_error_code();
    }
    if (mx_sequence_form(&outputs, r->length, axes, u->merge))
        return mx_error_code();
    out->output = outputs.one, out->steps = outputs.steps;
    return MX_OK;
}

static mx_code unroll_steps(mx_block *self, const mx_unroll *u, mx_unrolled *out)
{
    mx_sequence_layout axes;
    mx_sequence inputs = u->inputs;
    mx_state_list begin = {0};
    if (mx_cell_reset(self) || mx_sequence_layout_from(u->layout, &axes) ||
        mx_sequence_form(&inputs, u->length, &axes, MX_STEPS))
        return mx_error_code();
    if (mx_cell_begin_like(self, u, &inputs, &begin))
        return mx_vec_free(&begin), mx_error_code();
    const int64_t length = inputs.steps.n;
    results r = {mx_list_new(length), mx_alloc_zero((size_t)length * sizeof *r.states), length};
    const mx_arrays states = mx_state_list_give(&begin);
    mx_code code = r.output && r.states ? run_steps(self, &inputs, states, &r) : mx_error_code();
    code = code ? code : finish(u, &axes, &r, out);
    mx_free(r.states, (size_t)length * sizeof *r.states);
    return code;
}

mx_code mx_cell_unroll_itself(mx_block *self, const mx_unroll *u, mx_unrolled *out)
{
    *out = (mx_unrolled){0};
    const mx_cell_methods *methods = self->cell->methods;
    return methods && methods->unroll ? methods->unroll(self, u, out) : unroll_steps(self, u, out);
}

mx_code mx_cell_unroll_steps(mx_block *self, const mx_unroll *u, mx_unrolled *out)
{
    return *out = (mx_unrolled){0}, unroll_steps(self, u, out);
}

mx_code mx_cell_run_unroll(mx_block *cell, const mx_unroll *u, mx_unrolled *out)
{
    const bool clean = !mx_has_error();
    *out = (mx_unrolled){0};
    const mx_code code =
        cell->cell->over.unroll ? cell->cell->over.unroll(cell, u, out) : mx_cell_unroll_itself(cell, u, out);
    return !code && clean ? mx_error_code() : code; /* out of memory for a list of states */
}

mx_unrolled mx_cell_unroll_with(const struct mx_unroll_options *o)
{
    mx_unrolled out = {0};
    mx_arrays steps = o ? o->steps : (mx_arrays){0}, begin = o ? o->begin_state : (mx_arrays){0};
    if (!o || mx_cell_check(o->cell, "mx_cell_unroll") || (!o->x && !steps.v && mx_has_error()))
        return out;
    if (!o->x == !steps.v)
        return mx_fail(MX_ERR_ARGUMENT, "%s (%s): wanted the array of all steps, or .steps", o->cell->name,
                       o->cell->class_name),
               out;
    if ((steps.v && mx_list_check(&steps, o->cell->name, "steps")) ||
        (begin.v && mx_list_check(&begin, o->cell->name, "begin_state")))
        return out;
    const mx_unroll u = {.length = o->length ? o->length : -1, .inputs = {o->x, steps}, .begun = begin.v != NULL,
                         .begin = begin, .layout = o->layout ? o->layout : "NTC", .merge = o->merge_outputs,
                         .valid_length = o->valid_length};
    return mx_cell_run_unroll(o->cell, &u, &out) ? (mx_unrolled){0} : out;
}
