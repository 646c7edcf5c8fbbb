/* Identity removal: steps that return their first input.
 *
 * Copies, gradient blocks, dropout while predicting, transposes and reshapes that change nothing, multiplication by one
 * and addition of zero.  Copies of externals that a step writes to stay: they preserve the state at that point.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/op.gen.h"
#include "op/formula/pointwise.h"
#include "pass/passes.h"

static bool drops_nothing(const mx_step *step)
{
    const mx_dropout_attrs *a = step->attrs;
    return (a->mode == MX_DROPOUT_TRAINING && !step->training) || a->p == 0;
}

/* x * 1, x / 1, x ** 1, x + 0, x - 0 */
static bool is_neutral(const mx_step *step)
{
    const mx_pointwise *use = mx_pointwise_of(step->op);
    if (!use || use->form != MX_FORM_SCALAR)
        return false;
    const double scalar = ((const mx_scalar_attrs *)step->attrs)->scalar;
    switch (use->row) {
    case MX_ROW_mul:
    case MX_ROW_div:
    case MX_ROW_power: return scalar == 1;
    case MX_ROW_add:
    case MX_ROW_sub: return scalar == 0;
    default: return false;
    }
}

/* According to the description; for some operators only while nothing is drawn or written. */
static bool by_description(const mx_step *step)
{
    if (!(step->op->flags & MX_OP_IDENTITY) || step->op->mutates)
        return false;
    return !(step->op->flags & MX_OP_RANDOM) || (mx_step_is(step, "Dropout") && drops_nothing(step));
}

static bool is_identity(const mx_program *program, const mx_step *step)
{
    const mx_value *in = step->n_in && step->in[0] >= 0 ? &program->values.items[step->in[0]] : NULL,
                   *out = &program->values.items[step->out[0]];
    if (!in || in->dtype != out->dtype || !mx_shape_equal(&in->shape, &out->shape) ||
        mx_step_reads_written(program, step) || out->external >= 0)
        return false;
    for (int k = 1; k < step->n_out; k++)
        if (program->values.items[step->out[k]].uses)
            return false;
    if (step->op->flags & MX_OP_VIEW) /* the same shape again */
        return true;
    return by_description(step) || is_neutral(step);
}

/* A sum or mean over axes of size one is a reshape. */
static mx_code unfold(mx_program *program, mx_step *step)
{
    const mx_value *in = step->n_in == 1 && step->in[0] >= 0 ? &program->values.items[step->in[0]] : NULL,
                   *out = &program->values.items[step->out[0]];
    if (!in || step->n_out != 1 || (strcmp(step->op->name, "sum") && strcmp(step->op->name, "mean")) ||
        in->dtype != out->dtype || mx_shape_size(&in->shape) != mx_shape_size(&out->shape))
        return MX_OK;
    mx_reshape_to_attrs *attrs = mx_program_alloc(program, sizeof *attrs);
    if (!attrs)
        return MX_ERR_MEMORY;
    attrs->shape = mx_dims_of_shape(&out->shape);
    step->op = MX_OP("_reshape_to"), step->attrs = attrs;
    return MX_OK;
}

mx_code mx_pass_identity(mx_program *program)
{
    mx_program_count(program);
    for (int64_t i = 0; i < program->steps.length; i++) {
        mx_step *step = &program->steps.items[i];
        if (unfold(program, step))
            return MX_ERR_MEMORY;
        if (step->dead || !is_identity(program, step))
            continue;
        mx_program_replace(program, step->out[0], step->in[0]);
        step->dead = true;
    }
    mx_program_sweep(program);
    return MX_OK;
}
