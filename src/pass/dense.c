/* While predicting, dense layers read their weights as panels (op/def/gemm/dot_packed.c), packed once by the plan (prepare.c).
 *
 *     y = FullyConnected(x, w, b)   ->   w' = _pack_dense(w);  y = _packed_dense(x, w', b)
 *
 * Not for a single row of data: it reads every weight once, in memory order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "gluon/op.gen.h"
#include "pass/passes.h"

enum { DATA, WEIGHT, BIAS };

static bool wanted(const mx_program *program, const mx_step *step)
{
    if (step->dead || (strcmp(step->op->name, "FullyConnected") && strcmp(step->op->name, "_dense_relu")))
        return false;
    const mx_dense_attrs *a = step->attrs;
    const mx_value *out = &program->values.items[step->out[0]], *weight = &program->values.items[step->in[WEIGHT]];
    return out->dtype == MX_FLOAT32 && weight->dtype == MX_FLOAT32 && weight->maker < 0 &&
           mx_value_lasts(program, step->in[WEIGHT]) && mx_shape_size(&out->shape) > a->num_hidden &&
           mx_shape_size(&weight->shape) > 0;
}

/* The step that packs a weight, created for an earlier step; -1: none. */
static int32_t packed_before(const mx_program *program, int64_t first, int32_t weight)
{
    for (int64_t i = first; i < program->steps.length; i++)
        if (program->steps.items[i].in[0] == weight)
            return program->steps.items[i].out[0];
    return -1;
}

/* Appends the step that packs a weight; -1: out of memory. */
static int32_t pack(mx_program *program, int32_t weight, int64_t columns, const char *name)
{
    const mx_shape_t s = program->values.items[weight].shape;
    const mx_shape_t panels = {.ndim = 3, .dim = {(s.dim[0] + columns - 1) / columns, s.dim[1], columns}};
    const int32_t out = mx_program_value(program, &panels, MX_FLOAT32);
    int32_t *lists = mx_program_alloc(program, 2 * sizeof *lists);
    mx_pack_dense_attrs *attrs = mx_program_alloc(program, sizeof *attrs);
    if (out < 0 || !lists || !attrs)
        return -1;
    attrs->columns = columns;
    lists[0] = weight, lists[1] = out;
    const mx_step step = {.op = mx_op_find("_pack_dense"), .attrs = attrs, .in = lists, .out = lists + 1, .n_in = 1,
                          .n_out = 1, .name = name};
    return mx_vec_push(&program->steps, step) ? out : -1;
}

static mx_code rewrite(mx_program *program, int64_t i, int64_t first, int64_t columns)
{
    mx_packed_dense_attrs *attrs = mx_program_alloc(program, sizeof *attrs);
    const mx_step old = program->steps.items[i];
    const mx_dense_attrs *a = old.attrs;
    int32_t panels = packed_before(program, first, old.in[WEIGHT]);
    if (panels < 0)
        panels = pack(program, old.in[WEIGHT], columns, old.name);
    int32_t *in = mx_program_alloc(program, 3 * sizeof *in);
    if (!attrs || panels < 0 || !in)
        return MX_ERR_MEMORY;
    attrs->num_hidden = a->num_hidden, attrs->flatten = a->flatten;
    attrs->relu = !strcmp(old.op->name, "_dense_relu");
    in[DATA] = old.in[DATA], in[WEIGHT] = panels, in[BIAS] = a->no_bias || old.n_in <= BIAS ? -1 : old.in[BIAS];
    mx_step *step = &program->steps.items[i];
    step->op = mx_op_find("_packed_dense"), step->attrs = attrs, step->in = in, step->n_in = 3;
    return MX_OK;
}

/* The last `count` steps, which depend on parameters alone, move to the beginning. */
static mx_code to_front(mx_program *program, int64_t count)
{
    const int64_t rest = program->steps.length - count;
    const size_t bytes = (size_t)count * sizeof(mx_step);
    mx_step *items = program->steps.items, *room = mx_alloc(bytes);
    if (!room)
        return MX_ERR_MEMORY;
    memcpy(room, items + rest, bytes);
    memmove(items + count, items, (size_t)rest * sizeof(mx_step));
    memcpy(items, room, bytes);
    mx_free(room, bytes);
    program->forward += count;
    return MX_OK;
}

mx_code mx_pass_dense(mx_program *program)
{
    const int64_t columns = 2 * mx_program_block(program);
    const int64_t steps = program->steps.length;
    if (columns < 2 || !mx_program_predicts(program))
        return MX_OK;
    for (int64_t i = 0; i < steps; i++)
        if (wanted(program, &program->steps.items[i]) && rewrite(program, i, steps, columns))
            return MX_ERR_MEMORY;
    const int64_t made = program->steps.length - steps;
    if (made && to_front(program, made))
        return MX_ERR_MEMORY;
    mx_program_count(program);
    return MX_OK;
}
