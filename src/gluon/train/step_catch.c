/* Intercepting an optimizer's update: its own code runs on symbolic arrays, and the one operator it calls is captured.
 *
 * An update that calls several operators, or reads other arrays, cannot be intercepted; the imperative loop runs it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "gluon/train/step_plan.h"
#include "graph/call.h"

static mx_array *symbol_like(const mx_array *x, const char *name)
{
    mx_shape_t shape = mx_array_shape(x);
    mx_gnode *node = mx_gnode_variable(name, &shape, x->dtype);
    mx_array *symbol = node ? mx_array_symbolic(node, 0) : NULL;
    mx_release(node);
    return symbol;
}

mx_code mx_stand_in_make(mx_stand_in *s, const mx_trainer_slot *slot)
{
    const mx_array *weight = slot->parameter->data[0];
    if (!s->weight && (!(s->weight = symbol_like(weight, "weight")) || !(s->grad = symbol_like(weight, "grad"))))
        return mx_error_code();
    for (int k = 0; k < MX_STEP_STATES; k++) {
        const mx_array *array = mx_step_state(slot->state, k);
        if (!s->state[k] && array && !(s->state[k] = symbol_like(array, "state")))
            return mx_error_code();
    }
    return MX_OK;
}

void mx_stand_in_drop(mx_stand_in *s)
{
    mx_release(s->weight);
    mx_release(s->grad);
    for (int k = 0; k < MX_STEP_STATES; k++)
        mx_release(s->state[k]);
}

static int which(const mx_stand_in *s, const mx_array *x)
{
    if (x == s->weight || x == s->grad)
        return x == s->grad;
    for (int k = 0; k < MX_STEP_STATES; k++)
        if (x == s->state[k] && x)
            return 2 + k;
    return -1;
}

static mx_code catch_call(void *user, mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out,
                          mx_array **out)
{
    mx_caught *c = user;
    const size_t bytes = op->schema ? op->schema->size : 0;
    if (c->calls++ || n_out < 1 || out[0] != c->stand->weight || n_in > 2 + MX_STEP_STATES ||
        mx_op_count_out(op, attrs) != 1 || (c->op && op != c->op) || bytes > c->bytes)
        return mx_fail(MX_ERR_UNSUPPORTED, "%s: the update calls more than one operator", op->name);
    c->op = op, c->n_in = n_in;
    memcpy(c->attrs, attrs, bytes);
    for (int i = 0; i < n_in; i++) {
        const int w = which(c->stand, in[i]);
        if (w < 0)
            return mx_fail(MX_ERR_UNSUPPORTED, "%s: the update reads an array other than weight, gradient and states",
                           op->name);
        c->in[i] = (int8_t)w;
    }
    return MX_OK;
}

mx_code mx_catch_update(mx_optimizer *o, const mx_trainer_slot *slot, mx_stand_in *s, int64_t t, double lr,
                        mx_caught *c)
{
    MX_SCOPE;
    const mx_parameter *p = slot->parameter;
    mx_update update = {.weight = s->weight, .grad = s->grad, .state = s->state, .lr = lr * p->lr_mult,
                        .wd = o->wd * p->wd_mult, .t = t, .base_lr = lr, .master = s->state[MX_MAX_STATES],
                        .name = mx_optimizer_name_of(o, slot->state->id), .label = p->name};
    c->stand = s, c->calls = 0;
    const mx_catch outer = mx_thread.catching;
    mx_thread.catching = (mx_catch){catch_call, c};
    mx_code code = mx_optimizer_apply(o, &update);
    mx_thread.catching = outer;
    if (!code && c->calls != 1)
        return mx_fail(MX_ERR_UNSUPPORTED, "the update is not a single operator");
    return code;
}
