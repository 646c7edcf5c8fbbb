/* An addition fused into the step that computes one of its operands (MX_CAN_ROUND_ANEW), in networks of residual blocks:
 *
 *     gx, ... = _backward_LayerNorm(g, x, ...); s = gx + other     ->  s, ... = _backward_layer_norm_add(g, x, ..., other)
 *     y = FullyConnected(x, w, b); s = y + other                   ->  s = _dense_add(x, w, b, other)
 *
 * Only if the other operand is computed before that step.  When training only: predictions have packed weights.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/op.gen.h"
#include "pass/passes.h"

/* Which operators take an addend as their last input, here and in the fused form. */
static const struct {
    const char *alone, *fused;
    int inputs; /* of the fused operator, the addend last */
} rows[] = {{"_backward_LayerNorm", "_backward_layer_norm_add", 6}, {"FullyConnected", "_dense_add", 4}};

static bool alike(const mx_program *program, int32_t a, int32_t b)
{
    const mx_value *x = &program->values.items[a], *y = &program->values.items[b];
    return x->dtype == y->dtype && mx_shape_equal(&x->shape, &y->shape);
}

/* The sum's operand k is computed by a step that can add the other one; else NULL. */
static mx_step *adder(const mx_program *program, const mx_step *sum, int k, int row)
{
    mx_step *step = mx_step_only_maker(program, sum->in[k], rows[row].alone);
    const int32_t other = sum->in[1 - k];
    if (!step || step->n_in != rows[row].inputs - 1 || step->in[step->n_in - 1] < 0 || step->out[0] != sum->in[k] ||
        other < 0 || other == sum->in[k] || !alike(program, sum->in[k], other) ||
        !alike(program, sum->in[k], sum->out[0]) || program->values.items[other].maker >= step - program->steps.items ||
        !mx_dtype_is_float(program->values.items[other].dtype) || program->values.items[sum->out[0]].external >= 0)
        return NULL;
    const int64_t at = step - program->steps.items, there = sum - program->steps.items;
    return (at < program->forward) == (there < program->forward) ? step : NULL;
}

static mx_code join(mx_program *program, mx_step *step, mx_step *sum, int32_t other, int row)
{
    const int n = rows[row].inputs;
    int32_t *in = mx_program_alloc(program, (size_t)n * sizeof *in);
    if (!in)
        return MX_ERR_MEMORY;
    memcpy(in, step->in, (size_t)(n - 1) * sizeof *in);
    in[n - 1] = other;
    step->op = mx_op_find(rows[row].fused), step->in = in, step->n_in = n;
    step->out[0] = sum->out[0];
    sum->dead = true;
    return MX_OK;
}

static mx_code fuse(mx_program *program, mx_step *sum)
{
    for (int row = 0; row < (int)(sizeof rows / sizeof *rows); row++)
        for (int k = 1; k >= 0; k--) {
            mx_step *step = adder(program, sum, k, row);
            if (step)
                return join(program, step, sum, sum->in[1 - k], row);
        }
    return MX_OK;
}

mx_code mx_pass_addition(mx_program *program)
{
    if (mx_program_predicts(program))
        return MX_OK;
    for (int64_t i = 0; i < program->steps.length; i++) {
        mx_step *step = &program->steps.items[i];
        if (!step->dead && mx_step_is(step, "elemwise_add") && fuse(program, step))
            return MX_ERR_MEMORY;
    }
    mx_program_sweep(program);
    return MX_OK;
}
