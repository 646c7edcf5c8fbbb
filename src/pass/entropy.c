/* Softmax cross-entropy as one step, and its gradient as another.
 *
 *     p = log_softmax(x); t = pick(p, label); loss = negative(t)
 *         ->  loss, lse = _softmax_ce(x, label)
 *     n = negative(g); s = _put_along(n, label); dx = _backward_log_softmax(s, p)
 *         ->  dx = _backward_softmax_ce(g, x, label, lse)                on a GPU
 *         ->  unused, dx = _softmax_ce_gradient(x, label, g)             on the CPU, where this rounds like the long form
 *
 * Either both are rewritten or neither: the gradient of the short form needs no p, which only the long form has.  In 16
 * bits the long form rounds in between, so it is not rewritten on the CPU.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "gluon/op.gen.h"
#include "ndarray/device.h"
#include "ndarray/dtype.h"
#include "pass/passes.h"

typedef struct found {
    mx_step *log_softmax, *pick, *loss;
    mx_step *negative, *put, *backward; /* all NULL: no gradient is computed */
} found;

static int32_t without_reshape(const mx_program *program, int32_t v)
{
    const mx_step *step = mx_step_maker(program, v, "_reshape_to");
    return step ? step->in[0] : v;
}

/* One class per row, out-of-range classes clipped: the labels that _softmax_ce supports. */
static bool fits(const mx_program *program, const found *f)
{
    const mx_softmax_attrs *soft = f->log_softmax->attrs;
    const mx_pick_attrs *pick = f->pick->attrs;
    const mx_value *x = &program->values.items[f->log_softmax->in[0]],
                   *p = &program->values.items[f->log_softmax->out[0]], *t = &program->values.items[f->pick->out[0]],
                   *label = &program->values.items[f->pick->in[1]];
    const int axes = x->shape.ndim;
    if (!mx_program_can(program, MX_CAN_ROUND_ANEW) && x->dtype != MX_FLOAT32 && x->dtype != MX_FLOAT64)
        return false;
    /* Labels of float64 make the fused kernel compute in float64. */
    if (!mx_program_can(program, MX_CAN_ROUND_ANEW) && x->dtype == MX_FLOAT32 && label->dtype == MX_FLOAT64)
        return false;
    return axes > 1 && x->dtype == p->dtype && isnan(soft->temperature) && pick->keepdims &&
           pick->mode == MX_PICK_CLIP && mx_axis(soft->axis, axes) == mx_axis(pick->axis, axes) &&
           mx_shape_size(&x->shape) && label->shape.ndim >= axes - 1 &&
           mx_shape_size(&label->shape) == mx_shape_size(&t->shape);
}

/* The step that computes dx, and those before it; false: p is used in some other way. */
static bool find_gradient(const mx_program *program, found *f)
{
    const int32_t p = f->log_softmax->out[0];
    if (program->values.items[p].uses == 1)
        return true;
    if (program->values.items[p].uses != 2)
        return false;
    for (int64_t i = 0; i < program->steps.length && !f->backward; i++) {
        mx_step *step = &program->steps.items[i];
        if (!step->dead && !strcmp(step->op->name, "_backward_log_softmax") && step->in[1] == p)
            f->backward = step;
    }
    f->put = f->backward ? mx_step_only_maker(program, f->backward->in[0], "_put_along") : NULL;
    f->negative = f->put ? mx_step_maker(program, f->put->in[0], "negative") : NULL;
    return f->negative && without_reshape(program, f->put->in[1]) == without_reshape(program, f->pick->in[1]) &&
           mx_shape_equal(&program->values.items[f->negative->in[0]].shape,
                          &program->values.items[f->loss->out[0]].shape);
}

static int32_t new_logarithm(mx_program *program, const found *f)
{
    const mx_value loss = program->values.items[f->loss->out[0]];
    const bool narrow = mx_dtype_is_narrow(loss.dtype);
    return mx_program_value(program, &loss.shape, narrow ? MX_FLOAT32 : loss.dtype);
}

static mx_code shorten(mx_program *program, const found *f)
{
    const int32_t x = f->log_softmax->in[0], label = f->pick->in[1], lse = new_logarithm(program, f);
    const mx_value loss = program->values.items[f->loss->out[0]];
    mx_softmax_ce_attrs *attrs = mx_program_alloc(program, sizeof *attrs);
    const bool exact = !mx_program_can(program, MX_CAN_ROUND_ANEW); /* the bits of the imperative run */
    const int32_t unused = f->backward && exact ? mx_program_value(program, &loss.shape, loss.dtype) : 0;
    int32_t *lists = mx_program_alloc(program, 9 * sizeof *lists);
    if (lse < 0 || unused < 0 || !attrs || !lists)
        return MX_ERR_MEMORY;
    *attrs =
        (mx_softmax_ce_attrs){.axis = ((const mx_softmax_attrs *)f->log_softmax->attrs)->axis, .sparse_label = true};
    memcpy(lists, (int32_t[]){x, label, f->loss->out[0], lse}, 4 * sizeof *lists);
    f->loss->op = MX_OP("_softmax_ce"), f->loss->attrs = attrs;
    f->loss->in = lists, f->loss->n_in = 2, f->loss->out = lists + 2, f->loss->n_out = 2;
    f->log_softmax->dead = f->pick->dead = true;
    if (!f->backward)
        return MX_OK;
    const int32_t g = f->negative->in[0], dx = f->backward->out[0];
    memcpy(lists + 4, exact ? (int32_t[]){x, label, g, unused, dx} : (int32_t[]){g, x, label, lse, dx},
           5 * sizeof *lists);
    f->backward->op = exact ? MX_OP("_softmax_ce_gradient") : MX_OP("_backward_softmax_ce"), f->backward->attrs = attrs;
    f->backward->in = lists + 4, f->backward->n_in = exact ? 3 : 4;
    f->backward->out = f->backward->in + f->backward->n_in, f->backward->n_out = exact ? 2 : 1;
    f->put->dead = true; /* the rest is dead code */
    return MX_OK;
}

mx_code mx_pass_entropy(mx_program *program)
{
    bool changed = false;
    for (int64_t i = 0; i < program->steps.length; i++) {
        found f = {.loss = &program->steps.items[i]};
        if (f.loss->dead || strcmp(f.loss->op->name, "negative"))
            continue;
        f.pick = mx_step_only_maker(program, f.loss->in[0], "pick");
        f.log_softmax = f.pick ? mx_step_maker(program, f.pick->in[0], "log_softmax") : NULL;
        if (!f.log_softmax || !fits(program, &f) || !find_gradient(program, &f))
            continue;
        if (shorten(program, &f))
            return MX_ERR_MEMORY;
        mx_program_count(program);
        changed = true;
    }
    if (changed)
        mx_program_sweep(program);
    return MX_OK;
}
