/* On a GPU: cross-entropy and its gradient as one step.
 *
 * A launch waits for another one longer than short rows take.  So a loss whose own gradient is a constant, as in whole
 * steps, is one step with its gradient:
 *
 *     loss, lse = _softmax_ce(x, label); dx = _backward_softmax_ce(g, x, label, lse)
 *         ->  loss, dx = _softmax_ce_gradient(x, label, g)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/op.gen.h"
#include "pass/passes.h"

static bool is_constant(const mx_program *program, int32_t v)
{
    const int32_t external = program->values.items[v].external;
    return external >= 0 && program->externals.items[external].kind == MX_EXTERNAL_CONSTANT;
}

/* The loss that this gradient belongs to, if both can be one step; else NULL. */
static mx_step *loss_of(const mx_program *program, const mx_step *gradient)
{
    mx_step *loss = mx_step_only_maker(program, gradient->in[3], "_softmax_ce");
    const mx_value *x = &program->values.items[gradient->in[1]], *g = &program->values.items[gradient->in[0]];
    if (!loss || loss->in[0] != gradient->in[1] || loss->in[1] != gradient->in[2] || g->dtype != x->dtype ||
        !is_constant(program, gradient->in[0]))
        return NULL;
    return memcmp(loss->attrs, gradient->attrs, sizeof(mx_softmax_ce_attrs)) ? NULL : loss;
}

mx_code mx_pass_loss(mx_program *program)
{
    if (program->context.type != MX_GPU)
        return MX_OK;
    for (int64_t i = 0; i < program->steps.length; i++) {
        mx_step *gradient = &program->steps.items[i],
                *loss = mx_step_is(gradient, "_backward_softmax_ce") ? loss_of(program, gradient) : NULL;
        int32_t *lists = loss ? mx_program_alloc(program, 5 * sizeof *lists) : NULL;
        if (loss && !lists)
            return MX_ERR_MEMORY;
        if (!loss)
            continue;
        memcpy(lists, (int32_t[]){loss->in[0], loss->in[1], gradient->in[0], loss->out[0], gradient->out[0]},
               5 * sizeof *lists);
        loss->op = MX_OP("_softmax_ce_gradient");
        loss->in = lists, loss->n_in = 3, loss->out = lists + 3, loss->n_out = 2;
        gradient->dead = true;
    }
    mx_program_sweep(program);
    return MX_OK;
}
