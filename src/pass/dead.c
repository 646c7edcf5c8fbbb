/* Dead code: steps whose results are unused are dropped, from the last to the first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "pass/passes.h"

static bool used(const mx_program *program, const mx_step *step)
{
    for (int k = 0; k < step->n_out; k++)
        if (program->values.items[step->out[k]].uses > 0)
            return true;
    return mx_step_has_effects(program, step);
}

mx_code mx_pass_dead(mx_program *program)
{
    mx_program_count(program);
    for (int64_t i = program->steps.length - 1; i >= 0; i--) {
        mx_step *step = &program->steps.items[i];
        if (step->dead || used(program, step))
            continue;
        step->dead = true;
        for (int k = 0; k < step->n_in; k++)
            if (step->in[k] >= 0)
                program->values.items[step->in[k]].uses--;
    }
    mx_program_sweep(program);
    return MX_OK;
}
