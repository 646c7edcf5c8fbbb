/* Moves steps that depend on parameters alone to the beginning: a plan runs them once and caches their results.
 *
 *     w1, b1 = _fold_norm(w, gamma, ...); w2 = _block_weight(w1, ...)   | prepared, until a parameter changes
 *     y = _blocked_convolution(x, w2, b1) ...                          | every run
 *
 * Only for programs that predict: while training every step changes the parameters.  A prepared step reads
 * nothing that a step writes, draws no random numbers, calls no subgraph, and none of its results is returned
 * to the caller.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "gluon/op.gen.h"
#include "op/control.h"
#include "pass/passes.h"

/* Batch normalisation writes its running statistics only while training. */
static bool only_reads(const mx_step *step)
{
    return !strcmp(step->op->name, "_fold_norm") || (!strcmp(step->op->name, "BatchNorm") && !step->training);
}

static bool is_written(const mx_program *program, const mx_external *x)
{
    for (int64_t i = 0; x->written && i < program->steps.length; i++) {
        const mx_step *step = &program->steps.items[i];
        for (int k = 0; k < step->n_in; k++)
            if (step->in[k] == x->value && !step->dead && !only_reads(step))
                return true;
        for (int k = 0; k < step->n_out; k++)
            if (step->out[k] == x->value)
                return true;
    }
    return false;
}

bool mx_value_lasts(const mx_program *program, int32_t v)
{
    const int32_t slot = program->values.items[v].external;
    if (slot < 0)
        return false;
    const mx_external *x = &program->externals.items[slot];
    return (x->kind == MX_EXTERNAL_PARAMETER || x->kind == MX_EXTERNAL_CONSTANT) && !is_written(program, x);
}

static bool lasting(const mx_program *program, int32_t v, const bool *prepared)
{
    return v < 0 || prepared[v] || mx_value_lasts(program, v);
}

static bool is_head(const mx_program *program, int32_t v)
{
    for (int64_t h = 0; h < program->results.length; h++)
        if (program->results.items[h] == v)
            return true;
    return false;
}

/* The caller gets v or, since views share their memory, a view of it. */
static bool is_returned(const mx_program *program, int32_t v)
{
    if (is_head(program, v))
        return true;
    for (int64_t i = 0; i < program->steps.length; i++) {
        const mx_step *step = &program->steps.items[i];
        if (!step->dead && step->op->flags & MX_OP_VIEW && step->in[0] == v && is_returned(program, step->out[0]))
            return true;
    }
    return false;
}

static bool can_prepare(const mx_program *program, const mx_step *step, const bool *prepared)
{
    if (!step->n_in || mx_op_calls(step->op) || mx_step_has_effects(program, step))
        return false;
    for (int k = 0; k < step->n_in; k++)
        if (!lasting(program, step->in[k], prepared))
            return false;
    for (int k = 0; k < step->n_out; k++)
        if (program->values.items[step->out[k]].external >= 0 || is_returned(program, step->out[k]))
            return false;
    return true;
}

/* Prepared steps first, both parts in their old order. */
static void order(mx_program *program, const bool *chosen, mx_step *room)
{
    int64_t n = 0;
    for (int part = 1; part >= 0; part--)
        for (int64_t i = 0; i < program->steps.length; i++)
            if (chosen[i] == part)
                room[n++] = program->steps.items[i];
    memcpy(program->steps.items, room, (size_t)n * sizeof *room);
}

/* Kernels may read weights of which they know that no kernel before them writes them. */
static void note_steady(const mx_program *program, const mx_step *step, const bool *prepared)
{
    if (mx_step_is(step, "_convolution_fused"))
        ((mx_convolution_fused_attrs *)step->attrs)->steady =
            lasting(program, step->in[1], prepared) && lasting(program, step->in[2], prepared);
}

mx_code mx_pass_prepare(mx_program *program)
{
    const size_t steps = (size_t)program->steps.length, values = (size_t)program->values.length;
    const size_t bytes = steps * (sizeof(mx_step) + sizeof(bool)) + values * sizeof(bool);
    if (program->forward < program->steps.length || !steps)
        return MX_OK;
    mx_step *room = mx_alloc_zero(bytes);
    if (!room)
        return MX_ERR_MEMORY;
    bool *chosen = (bool *)(room + steps), *prepared = chosen + steps;
    for (int64_t i = 0; i < program->steps.length; i++) {
        const mx_step *step = &program->steps.items[i];
        chosen[i] = can_prepare(program, step, prepared);
        note_steady(program, step, prepared);
        for (int k = 0; chosen[i] && k < step->n_out; k++)
            prepared[step->out[k]] = true;
        program->prepared += chosen[i];
    }
    if (program->prepared)
        order(program, chosen, room);
    for (int64_t e = 0; e < program->externals.length; e++) /* folded statistics are no longer written */
        program->externals.items[e].written = is_written(program, &program->externals.items[e]);
    mx_free(room, bytes);
    mx_program_count(program);
    return MX_OK;
}
