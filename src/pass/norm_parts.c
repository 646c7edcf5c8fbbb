/* While training, on devices with MX_CAN_NORM_PARTS: batch normalisation in parts, fused with the addition and relu (or clip) after it.
 *
 *     y = BatchNorm(x); t = y + shortcut; r = relu(t)     ->     mean, inverse = _norm_statistics(x)
 *                                                                r = _norm_apply(x, mean, inverse, shortcut)  [relu]
 *     gt = relu'(gr, r); gx = BatchNorm'(gt, x)           ->     gx, gt = _backward_norm_apply(gr, x, ..., r)
 *
 * Without an addition the sign of the result is recomputed from x, so that r need not be saved for that.  A convolution's
 * bias before the normalisation is dropped: it only shifts the running mean, and its gradient is zero.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/op.gen.h"
#include "ndarray/device.h"
#include "pass/norm_found.h"
#include "pass/passes.h"

/* A gradient that is the sum of two and is not read elsewhere. */
static void split_gradient(mx_program *program, int32_t *g, int32_t *more)
{
    const mx_value *sum = &program->values.items[*g];
    mx_step *add = sum->maker < program->forward ? NULL : &program->steps.items[sum->maker];
    if (!add || sum->uses != 1 || add->dead ||
        (!mx_step_is(add, "elemwise_add") && !mx_step_is(add, "broadcast_add")) ||
        !mx_norm_alike(program, add->in[0], *g) || !mx_norm_alike(program, add->in[1], *g))
        return;
    *g = add->in[0], *more = add->in[1];
    add->dead = true;
}

static mx_code write_gradient(mx_program *program, const mx_norm_found *f)
{
    mx_step *steps = program->steps.items, *back = &steps[f->gradient];
    const mx_step *norm = &steps[f->norm], *relu = f->relu_gradient < 0 ? NULL : &steps[f->relu_gradient];
    const mx_batch_norm_attrs *a = norm->attrs;
    const int32_t g = back->in[0];
    mx_norm_gradient_attrs attrs = {
        .axis = a->axis, .fix_gamma = a->fix_gamma, .relu = relu != NULL, .high = f->high, .bias = f->weight_gradient >= 0};
    attrs.addend = relu && f->add >= 0 && program->values.items[g].uses > 1;
    int32_t in[8] = {relu ? relu->in[0] : g, norm->in[0], norm->in[1], norm->in[2], norm->out[1], norm->out[2],
                     relu && f->add >= 0 ? steps[f->relu].out[0] : -1, -1};
    if (relu)
        split_gradient(program, &in[0], &in[7]);
    int32_t out[5] = {back->out[0], back->out[1], back->out[2]};
    if (attrs.addend)
        out[3] = g;
    if (attrs.bias) {
        mx_step *weight = &steps[f->weight_gradient];
        out[3 + attrs.addend] = weight->out[1];
        weight->op = MX_OP("_conv_weight_grad"), weight->n_out = 1;
    }
    const mx_step old = *back;
    back->dead = relu != NULL; /* the step takes the place of the relu's gradient, as later steps may read its result */
    mx_step *at = relu ? &steps[f->relu_gradient] : back;
    at->name = old.name;
    return mx_step_become(program, at, MX_OP("_backward_norm_apply"), &attrs, sizeof attrs, 8, in,
                          3 + attrs.addend + attrs.bias, out);
}

static mx_code insert_step(mx_program *program, int64_t at)
{
    if (!mx_vec_reserve(&program->steps, program->steps.length + 1))
        return MX_ERR_MEMORY;
    mx_step *steps = program->steps.items;
    memmove(&steps[at + 1], &steps[at], (size_t)(program->steps.length - at) * sizeof *steps);
    program->steps.length++;
    program->forward++;
    return MX_OK;
}

static mx_code write_forward(mx_program *program, const mx_norm_found *f)
{
    const mx_step norm = program->steps.items[f->norm];
    const mx_batch_norm_attrs *a = norm.attrs;
    mx_step *conv = f->convolution < 0 ? NULL : &program->steps.items[f->convolution];
    const int32_t bias = conv ? conv->in[2] : -1;
    if (conv) {
        conv->in[2] = -1;
        ((mx_convolution_attrs *)conv->attrs)->no_bias = true;
    }
    const mx_norm_statistics_attrs statistics = {.eps = a->eps, .momentum = a->momentum, .axis = a->axis};
    const int32_t seen[4] = {norm.in[0], norm.in[3], norm.in[4], bias};
    const int32_t last = f->relu >= 0 ? f->relu : f->add;
    if (mx_step_become(program, &program->steps.items[f->norm], MX_OP("_norm_statistics"), &statistics,
                       sizeof statistics, 4, seen, 2, norm.out + 1) ||
        (last < 0 && insert_step(program, f->norm + 1)))
        return MX_ERR_MEMORY;
    mx_step *at = &program->steps.items[last < 0 ? f->norm + 1 : last];
    const mx_step *add = f->add < 0 ? NULL : &program->steps.items[f->add];
    const int32_t addend = !add ? -1 : add->in[add->in[0] == norm.out[0]], out = last < 0 ? norm.out[0] : at->out[0];
    const mx_norm_apply_attrs apply = {
        .axis = a->axis, .fix_gamma = a->fix_gamma, .relu = f->relu >= 0, .high = f->high};
    const int32_t in[6] = {norm.in[0], norm.in[1], norm.in[2], norm.out[1], norm.out[2], addend};
    if (f->add >= 0 && f->relu >= 0)
        program->steps.items[f->add].dead = true;
    *at = (mx_step){.training = true, .name = norm.name};
    return mx_step_become(program, at, MX_OP("_norm_apply"), &apply, sizeof apply, 6, in, 1, &out);
}

static mx_code rewrite(mx_program *program, int32_t i)
{
    mx_norm_found f;
    if (!mx_norm_find(program, i, &f))
        return MX_OK;
    if ((f.relu_gradient >= 0 || f.weight_gradient >= 0) && write_gradient(program, &f))
        return MX_ERR_MEMORY;
    if (write_forward(program, &f))
        return MX_ERR_MEMORY;
    mx_program_count(program);
    return MX_OK;
}

mx_code mx_pass_norm_parts(mx_program *program)
{
    for (int32_t i = 0; i < program->steps.length; i++)
        if (rewrite(program, i))
            return MX_ERR_MEMORY;
    mx_program_sweep(program);
    return MX_OK;
}
