/* Cross-entropy and its gradient as one step.
 *
 * On a GPU the latency of a launch exceeds the time of short rows; on the CPU the exponentials are computed once.  So a
 * loss whose own gradient is a constant, as in fused steps, is one step with its gradient:
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

/* What the gradient of a cross-entropy reads and writes. */
typedef struct ce_gradient {
    int32_t x, label, g, dx;
} ce_gradient;

static bool read_gradient(const mx_step *step, ce_gradient *r)
{
    if (mx_step_is(step, "_backward_softmax_ce"))
        *r = (ce_gradient){.g = step->in[0], .x = step->in[1], .label = step->in[2], .dx = step->out[0]};
    else if (mx_step_is(step, "_softmax_ce_gradient"))
        *r = (ce_gradient){.x = step->in[0], .label = step->in[1], .g = step->in[2], .dx = step->out[1]};
    else
        return false;
    return !step->dead;
}

/* The loss that a gradient belongs to, if both can be one step; else NULL. */
static mx_step *loss_of(const mx_program *program, const mx_step *gradient, const ce_gradient *r)
{
    const mx_value *x = &program->values.items[r->x], *g = &program->values.items[r->g];
    if (g->dtype != x->dtype || !is_constant(program, r->g))
        return NULL;
    for (mx_step *loss = program->steps.items; loss < gradient; loss++) {
        if (loss->dead || !mx_step_is(loss, "_softmax_ce") || loss->in[0] != r->x || loss->in[1] != r->label ||
            !mx_schema_equal(loss->op->schema, loss->attrs, gradient->attrs))
            continue;
        const bool reads = mx_step_is(gradient, "_backward_softmax_ce") && gradient->in[3] == loss->out[1];
        return program->values.items[loss->out[1]].uses == reads ? loss : NULL;
    }
    return NULL;
}

mx_code mx_pass_loss(mx_program *program)
{
    for (int64_t i = 0; i < program->steps.length; i++) {
        mx_step *gradient = &program->steps.items[i];
        ce_gradient r;
        mx_step *loss = read_gradient(gradient, &r) ? loss_of(program, gradient, &r) : NULL;
        int32_t *lists = loss ? mx_program_alloc(program, 5 * sizeof *lists) : NULL;
        if (loss && !lists)
            return MX_ERR_MEMORY;
        if (!loss)
            continue;
        memcpy(lists, (int32_t[]){r.x, r.label, r.g, loss->out[0], r.dx}, 5 * sizeof *lists);
        loss->op = MX_OP("_softmax_ce_gradient");
        loss->in = lists, loss->n_in = 3, loss->out = lists + 3, loss->n_out = 2;
        gradient->dead = true;
    }
    mx_program_sweep(program);
    return MX_OK;
}
