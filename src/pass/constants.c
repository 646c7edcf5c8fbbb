/* Constant folding: steps whose inputs are all constants are run now, once; the result is a constant of the plan.
 *
 * Large results are not folded: a plan should not hold what it can recompute in no time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "graph/open.h"
#include "pass/passes.h"

#define MOST_BYTES (1 << 20)

/* Its result does not depend on the elements of its input. */
static bool looks_at_shapes(const mx_step *step)
{
    return !strcmp(step->op->name, "ones_like") || !strcmp(step->op->name, "zeros_like");
}

static bool foldable(const mx_program *program, const mx_step *step)
{
    if (mx_step_has_effects(program, step) || step->op->flags & MX_OP_TRAINING)
        return false;
    for (int k = 0; k < step->n_in && !looks_at_shapes(step); k++) {
        const int32_t slot = step->in[k] < 0 ? -1 : program->values.items[step->in[k]].external;
        if (step->in[k] >= 0 && (slot < 0 || program->externals.items[slot].kind != MX_EXTERNAL_CONSTANT))
            return false;
    }
    for (int k = 0; k < step->n_out; k++)
        if (mx_value_bytes(&program->values.items[step->out[k]]) > MOST_BYTES || k >= MX_MAX_OUTPUTS)
            return false;
    if (mx_open_shape(step->op, step->attrs)) /* its attributes do not determine its size */
        return false;
    return step->n_in <= 32 && mx_op_count_visible(step->op, step->attrs) == step->n_out;
}

static mx_array *input(const mx_program *program, const mx_step *step, int k)
{
    const mx_value *value = step->in[k] < 0 ? NULL : &program->values.items[step->in[k]];
    if (value && looks_at_shapes(step))
        return mx_scope_add(mx_array_new(&value->shape, (mx_dtype)value->dtype, program->context));
    return value ? program->externals.items[value->external].array : MX_NONE;
}

static mx_code fold(mx_program *program, mx_step *step)
{
    MX_SCOPE;
    mx_array *in[32], *out[MX_MAX_OUTPUTS] = {NULL};
    for (int k = 0; k < step->n_in; k++)
        if (!(in[k] = input(program, step, k)))
            return mx_error_code();
    if (mx_invoke(step->op, step->attrs, step->n_in, in, step->n_out, out))
        return mx_error_code();
    for (int k = 0; k < step->n_out; k++) {
        const int32_t constant = mx_program_constant(program, out[k]);
        if (constant < 0)
            return MX_ERR_MEMORY;
        mx_program_replace(program, step->out[k], constant);
    }
    step->dead = true;
    return MX_OK;
}

mx_code mx_pass_constants(mx_program *program)
{
    /* The thread may be tracing: then operators without inputs would create nodes. The caller has switched that off. */
    for (int64_t i = 0; i < program->steps.length; i++) {
        mx_step *step = &program->steps.items[i];
        if (!step->dead && foldable(program, step) && fold(program, step))
            return mx_error_code();
    }
    mx_program_sweep(program);
    return MX_OK;
}
