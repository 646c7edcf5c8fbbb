/* Blocked convolutions, and those that epilogue.c made, absorb what follows them: the addition of another value, then relu or clip.
 *
 *     t = _blocked_convolution(x, w, b); s = t + shortcut; y = relu(s)
 *         ->  y = _blocked_convolution(x, w, b, shortcut)  [low = 0]
 *
 * The addition is done where the sum was: the convolution moves there, after the step that computes the other operand.
 * A relu after max pooling is fused into the convolution before the pooling, where it costs nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "gluon/op.gen.h"
#include "pass/passes.h"

enum { DATA, WEIGHT, BIAS, ADDEND };

/* The step that computes v, if it is such a convolution and nothing else reads v; else NULL. */
static mx_step *convolution_of(const mx_program *program, int32_t v)
{
    mx_step *blocked = mx_step_only_maker(program, v, "_blocked_convolution");
    return blocked ? blocked : mx_step_only_maker(program, v, "_convolution_fused");
}

typedef struct limits {
    double *low, *high; /* attributes of a convolution; NaN: none */
} limits;

static limits limits_in(const mx_step *conv)
{
    mx_blocked_convolution_attrs *blocked = conv->attrs;
    mx_convolution_fused_attrs *fused = conv->attrs;
    return mx_step_is(conv, "_blocked_convolution") ? (limits){&blocked->low, &blocked->high}
                                                    : (limits){&fused->low, &fused->high};
}

static bool unlimited(const mx_step *conv)
{
    const limits l = limits_in(conv);
    return isnan(*l.low) && isnan(*l.high);
}

/* ---- addition ---------------------------------------------------------------------------------------------------- */

/* The step becomes the convolution that computed operand k, with the other operand as its addend. */
static bool take_addition(mx_program *program, mx_step *sum, int k)
{
    mx_step *conv = convolution_of(program, sum->in[k]);
    const int32_t other = sum->in[1 - k];
    if (!conv || !unlimited(conv) || conv->in[ADDEND] >= 0 || other == sum->in[k] || other < 0 ||
        program->values.items[other].dtype != program->values.items[conv->out[0]].dtype ||
        !mx_shape_equal(&program->values.items[other].shape, &program->values.items[conv->out[0]].shape))
        return false;
    const int32_t out = sum->out[0];
    *sum = *conv;
    sum->in[ADDEND] = other;
    sum->out[0] = out;
    conv->dead = true;
    return true;
}

static bool add(mx_program *program, mx_step *step)
{
    if (!mx_step_is(step, "elemwise_add") && !mx_step_is(step, "broadcast_add"))
        return false;
    /* The operand that was computed last: in most networks the other one is available before it. */
    const int last = program->values.items[step->in[0]].maker < program->values.items[step->in[1]].maker;
    return take_addition(program, step, last) || take_addition(program, step, 1 - last);
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static bool limits_of(const mx_step *step, double *low, double *high)
{
    *low = 0, *high = NAN;
    if (mx_step_is(step, "relu"))
        return true;
    if (mx_step_is(step, "Activation"))
        return ((const mx_activation_attrs *)step->attrs)->act_type == MX_ACTIVATION_RELU;
    const mx_clip_attrs *clip = step->attrs;
    if (!mx_step_is(step, "clip"))
        return false;
    *low = clip->a_min, *high = clip->a_max;
    return !isnan(*low) && !isnan(*high);
}

/* The pooling that computes v, if limits may be applied before it, too; windows of padding alone have none. */
static mx_step *pooling_of(const mx_program *program, int32_t v)
{
    mx_step *blocked = mx_step_only_maker(program, v, "_blocked_pooling"),
            *pool = mx_step_only_maker(program, v, "Pooling");
    const mx_pooling_attrs *a = pool ? pool->attrs : NULL;
    if (blocked)
        return ((const mx_blocked_pooling_attrs *)blocked->attrs)->pool_type == MX_BLOCKED_POOLING_MAX ? blocked : NULL;
    return a && a->pool_type == MX_POOLING_MAX && a->pooling_convention == MX_POOLING_VALID ? pool : NULL;
}

static bool limit(mx_program *program, mx_step *step)
{
    double low, high;
    if (!limits_of(step, &low, &high))
        return false;
    mx_step *pool = pooling_of(program, step->in[0]);
    mx_step *conv = convolution_of(program, pool ? pool->in[0] : step->in[0]);
    if (!conv || !unlimited(conv))
        return false;
    const limits l = limits_in(conv);
    *l.low = low, *l.high = high;
    (pool ? pool : conv)->out[0] = step->out[0];
    step->dead = true;
    return true;
}

mx_code mx_pass_residual(mx_program *program)
{
    bool changed = false;
    for (int64_t i = 0; i < program->steps.length; i++) {
        mx_step *step = &program->steps.items[i];
        if (step->dead || !step->n_in || !(add(program, step) || limit(program, step)))
            continue;
        mx_program_count(program);
        changed = true;
    }
    if (changed)
        mx_program_sweep(program);
    return MX_OK;
}
