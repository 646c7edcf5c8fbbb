/* Repeating steps in the backward part (see repeat.h).  SPDX-License-Identifier: Apache-2.0 */
#include "pass/repeat.h"

#include <string.h>

#include "base/alloc.h"
#include "ndarray/dtype.h"
#include "pass/rebuild.h"

mx_read *mx_reads_new(const mx_program *program)
{
    mx_read *reads = mx_alloc((size_t)program->values.length * sizeof *reads);
    for (int64_t v = 0; reads && v < program->values.length; v++)
        reads[v] = (mx_read){-1, -1, -1, false};
    for (int64_t i = program->forward; reads && i < program->steps.length; i++)
        for (int k = 0; k < program->steps.items[i].n_in; k++) {
            const int32_t v = program->steps.items[i].in[k];
            if (v < 0)
                continue;
            reads[v].first = reads[v].first < 0 ? (int32_t)i : reads[v].first;
            reads[v].last = (int32_t)i;
        }
    return reads;
}

bool mx_is_result(const mx_program *program, int32_t value)
{
    for (int64_t h = 0; h < program->results.length; h++)
        if (program->results.items[h] == value)
            return true;
    return false;
}

static bool writes(const mx_program *program, const mx_step *step)
{
    for (int k = 0; k < step->n_out; k++)
        if (program->values.items[step->out[k]].external >= 0)
            return true;
    return mx_step_mutates(step);
}

bool mx_step_repeats(const mx_program *program, const mx_step *step, mx_again *again)
{
    again->op = NULL;
    if (step->op->flags & MX_OP_CALLS)
        return false;
    if (!mx_op_draws(step->op, step->attrs) && !writes(program, step))
        return true;
    if (step->op->again)
        step->op->again(step->attrs, again);
    /* A statistic that was rounded to 16 bits when it was saved would give other results. */
    for (int k = 0; again->op && k < again->n_in; k++)
        if (again->from[k] < 0 && mx_dtype_is_narrow(program->values.items[step->out[-1 - again->from[k]]].dtype))
            again->op = NULL;
    return again->op != NULL;
}

/* ---- when --------------------------------------------------------------------------------------------------------- */

/* A step is due before the first step that needs a result of it, be that a repeated one. */
static int32_t due_of(const mx_step *step, const mx_read *reads)
{
    int32_t due = -1;
    for (int k = 0; k < step->n_out; k++) {
        const mx_read *r = &reads[step->out[k]];
        if (r->repeated && r->first >= 0 && (due < 0 || r->first < due))
            due = r->first;
    }
    return due;
}

/* due (forward steps): the step before which each is repeated; -1: it is not. */
static void find_due(const mx_program *program, mx_read *reads, int32_t *due)
{
    for (int64_t i = program->forward - 1; i >= 0; i--) {
        const mx_step *step = &program->steps.items[i];
        due[i] = due_of(step, reads);
        for (int k = 0; due[i] >= 0 && k < step->n_in; k++) {
            mx_read *r = step->in[k] < 0 ? NULL : &reads[step->in[k]];
            if (r && r->repeated && (r->first < 0 || r->first > due[i]))
                r->first = due[i];
        }
    }
}

/* ---- what --------------------------------------------------------------------------------------------------------- */

static int32_t current(const mx_read *reads, int32_t v) { return v >= 0 && reads[v].repeated ? reads[v].again : v; }

static mx_code repeat_pure(mx_rebuild *r, mx_read *reads, const mx_step *step)
{
    mx_step copy;
    if (mx_rebuild_copy(r, step, &copy, step->n_in))
        return MX_ERR_MEMORY;
    for (int k = 0; k < copy.n_in; k++)
        copy.in[k] = current(reads, step->in[k]);
    for (int k = 0; k < copy.n_out; k++) {
        const mx_value value = r->program->values.items[step->out[k]];
        copy.out[k] = mx_program_value(r->program, &value.shape, value.dtype);
        if (copy.out[k] < 0)
            return MX_ERR_MEMORY;
        reads[step->out[k]].again = copy.out[k];
    }
    return mx_rebuild_push(r, copy);
}

static mx_code repeat_again(mx_rebuild *r, mx_read *reads, const mx_step *step, const mx_again *again)
{
    mx_op *op = mx_op_find(again->op);
    int32_t in[sizeof again->from];
    const mx_value value = r->program->values.items[step->out[0]];
    void *attrs = op ? mx_program_alloc(r->program, op->schema->size) : NULL;
    if (!attrs)
        return MX_ERR_MEMORY;
    memcpy(attrs, again->attrs ? op->defaults : step->attrs, op->schema->size);
    if (again->attrs && mx_schema_parse(op->schema, attrs, op->name, again->attrs))
        return mx_error_code();
    for (int k = 0; k < again->n_in; k++)
        in[k] = current(reads, again->from[k] < 0 ? step->out[-1 - again->from[k]] : step->in[again->from[k]]);
    r->name = step->name;
    const int32_t to = mx_rebuild_new(r, op, attrs, op->schema->size, again->n_in, in, value.shape, value.dtype);
    reads[step->out[0]].again = to;
    return to < 0 ? MX_ERR_MEMORY : MX_OK;
}

static mx_code repeat(mx_rebuild *r, mx_read *reads, const mx_step *step)
{
    mx_again again;
    mx_step_repeats(r->program, step, &again);
    return again.op ? repeat_again(r, reads, step, &again) : repeat_pure(r, reads, step);
}

/* Steps that are due before step i form a list in their order: head[i], then next[...]. */
static mx_code rebuild(mx_program *program, mx_read *reads, int32_t *due, int32_t *next, int32_t *head)
{
    mx_rebuild r = {.program = program};
    find_due(program, reads, due);
    for (int64_t i = 0; i < program->steps.length; i++)
        head[i] = -1;
    for (int32_t i = (int32_t)program->forward - 1; i >= 0; i--)
        if (due[i] >= 0)
            next[i] = head[due[i]], head[due[i]] = i;
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < program->steps.length; i++) {
        mx_step *step = &program->steps.items[i];
        mx_rebuild_at(&r, i);
        for (int32_t k = head[i]; !code && k >= 0; k = next[k])
            code = repeat(&r, reads, &program->steps.items[k]);
        for (int k = 0; i >= program->forward && k < step->n_in; k++)
            step->in[k] = current(reads, step->in[k]);
        code = code ? code : mx_rebuild_push(&r, *step);
    }
    (code ? mx_rebuild_drop : mx_rebuild_finish)(&r);
    return code;
}

mx_code mx_reads_repeat(mx_program *program, mx_read *reads)
{
    const size_t bytes = (size_t)(2 * program->forward + program->steps.length) * sizeof(int32_t);
    int32_t *room = mx_alloc(bytes);
    if (!room)
        return MX_ERR_MEMORY;
    const mx_code code = rebuild(program, reads, room, room + program->forward, room + 2 * program->forward);
    mx_free(room, bytes);
    return code;
}
