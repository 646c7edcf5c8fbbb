/* While predicting, batch normalisation after a convolution is folded into the convolution's weight and bias.
 *
 *     y = Convolution(x, w, b); z = BatchNorm(y, gamma, beta, mean, var)
 *         ->  w', b' = _fold_norm(w, gamma, beta, mean, var, b); z = Convolution(x, w', b')
 *
 * In a program that only predicts, folding is done once (prepare.c).  With a backward part the weights are folded
 * in every run; so it is done only if they are fewer than the results that the normalisation would process, and on
 * GPUs only: on the CPU training rounds like the imperative run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "gluon/op.gen.h"
#include "ndarray/dtype.h"
#include "pass/passes.h"

enum { DATA, GAMMA, BETA, MEAN, VARIANCE };

static bool uses_running_statistics(const mx_step *norm)
{
    return !strcmp(norm->op->name, "BatchNorm") &&
           (!norm->training || ((const mx_batch_norm_attrs *)norm->attrs)->use_global_stats);
}

/* The folding stands where the convolution stood: what it reads must be there. */
static bool known_before(const mx_program *program, int32_t value, const mx_step *conv)
{
    return program->values.items[value].maker < conv - program->steps.items;
}

/* 16-bit networks keep their statistics in float32. */
static bool folds_type(const mx_program *program, int dtype)
{
    return dtype == MX_FLOAT32 || (mx_dtype_is_narrow(dtype) && mx_program_can(program, MX_CAN_ROUND_ANEW));
}

static bool fits(const mx_program *program, const mx_step *conv, const mx_step *norm, bool same_part)
{
    const mx_convolution_attrs *c = conv->attrs;
    const mx_batch_norm_attrs *n = norm->attrs;
    const mx_value *y = &program->values.items[norm->in[DATA]], *w = &program->values.items[conv->in[1]];
    if (!same_part || strcmp(conv->op->name, "Convolution") || y->uses != 1 || !folds_type(program, y->dtype))
        return false;
    for (int k = 1; k < norm->n_out; k++)
        if (program->values.items[norm->out[k]].uses)
            return false;
    for (int k = GAMMA; k <= VARIANCE; k++)
        if (norm->in[k] < 0 || !folds_type(program, program->values.items[norm->in[k]].dtype) ||
            !known_before(program, norm->in[k], conv))
            return false;
    const int channel = c->layout >= MX_CONVOLUTION_NWC ? y->shape.ndim - 1 : 1;
    return mx_axis(n->axis, y->shape.ndim) == channel &&
           (program->forward == program->steps.length || 2 * mx_shape_size(&w->shape) <= mx_shape_size(&y->shape));
}

/* The folding replaces the convolution, and the convolution replaces the normalisation. */
static mx_code fold(mx_program *program, mx_step *conv, mx_step *norm)
{
    const mx_batch_norm_attrs *n = norm->attrs;
    const mx_value w = program->values.items[conv->in[1]], gamma = program->values.items[norm->in[GAMMA]];
    const int32_t weight = mx_program_value(program, &w.shape, w.dtype),
                  bias = mx_program_value(program, &gamma.shape, w.dtype);
    int32_t *lists = mx_program_alloc(program, 12 * sizeof *lists);
    mx_fold_norm_attrs *attrs = mx_program_alloc(program, sizeof *attrs);
    if (weight < 0 || bias < 0 || !lists || !attrs)
        return MX_ERR_MEMORY;
    *attrs = (mx_fold_norm_attrs){.eps = n->eps, .fix_gamma = n->fix_gamma};
    const bool has_bias = !((mx_convolution_attrs *)conv->attrs)->no_bias;
    const int32_t in[6] = {conv->in[1],    norm->in[GAMMA],    norm->in[BETA],
                           norm->in[MEAN], norm->in[VARIANCE], has_bias ? conv->in[2] : -1};
    memcpy(lists, in, sizeof in);
    lists[6] = weight, lists[7] = bias;
    lists[8] = conv->in[0], lists[9] = weight, lists[10] = bias, lists[11] = norm->out[0];
    mx_step folded = {.op = MX_OP("_fold_norm"),
                      .attrs = attrs,
                      .in = lists,
                      .out = lists + 6,
                      .n_in = 6,
                      .n_out = 2,
                      .training = conv->training,
                      .name = norm->name};
    mx_step after = *conv;
    ((mx_convolution_attrs *)after.attrs)->no_bias = false;
    after.in = lists + 8, after.n_in = 3, after.out = lists + 11;
    *conv = folded;
    *norm = after;
    return MX_OK;
}

mx_code mx_pass_norm(mx_program *program)
{
    if (!mx_program_can(program, MX_CAN_ROUND_ANEW) && !mx_program_predicts(program))
        return MX_OK;
    for (int64_t i = 0; i < program->steps.length; i++) {
        mx_step *norm = &program->steps.items[i];
        if (norm->dead || !uses_running_statistics(norm))
            continue;
        const int32_t maker = program->values.items[norm->in[DATA]].maker;
        if (maker < 0 ||
            !fits(program, &program->steps.items[maker], norm, (maker < program->forward) == (i < program->forward)))
            continue;
        if (fold(program, &program->steps.items[maker], norm))
            return MX_ERR_MEMORY;
        mx_program_count(program);
    }
    return MX_OK;
}
