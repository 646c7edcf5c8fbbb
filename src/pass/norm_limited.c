/* While training, on devices with MX_CAN_LIMIT_NORM: relu, or a clip from 0 on, becomes part of the normalisation before it.
 *
 *     y = BatchNorm(x); r = relu(y)                ->     r = _norm_limited(x)
 *     gy = relu'(gr, r); gx = BatchNorm'(gy, x)    ->     gx = _backward_norm_apply(gr, x)
 *
 * Neither y nor its gradient goes through memory; the gradient's step computes y again.  The bits are those of the steps that are
 * replaced.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/op.gen.h"
#include "ndarray/device.h"
#include "pass/norm_found.h"
#include "pass/passes.h"

static mx_code write_gradient(mx_program *program, const mx_norm_found *f)
{
    mx_step *back = &program->steps.items[f->gradient], *relu = &program->steps.items[f->relu_gradient];
    const mx_step *norm = &program->steps.items[f->norm];
    const mx_batch_norm_attrs *a = norm->attrs;
    const mx_norm_gradient_attrs attrs = {.axis = a->axis, .fix_gamma = a->fix_gamma, .relu = true, .high = f->high};
    const int32_t in[6] = {relu->in[0], norm->in[0], norm->in[1], norm->in[2], norm->out[1], norm->out[2]};
    const int32_t out[3] = {back->out[0], back->out[1], back->out[2]};
    relu->dead = true;
    return mx_step_become(program, back, MX_OP("_backward_norm_apply"), &attrs, sizeof attrs, 6, in, 3, out);
}

static mx_code write_forward(mx_program *program, const mx_norm_found *f)
{
    mx_step *norm = &program->steps.items[f->norm], *relu = &program->steps.items[f->relu];
    const mx_batch_norm_attrs *a = norm->attrs;
    const mx_norm_limited_attrs attrs = {
        .eps = a->eps, .momentum = a->momentum, .axis = a->axis, .fix_gamma = a->fix_gamma, .high = f->high};
    const int32_t out[3] = {relu->out[0], norm->out[1], norm->out[2]};
    relu->dead = true;
    return mx_step_become(program, norm, MX_OP("_norm_limited"), &attrs, sizeof attrs, 5, norm->in, 3, out);
}

static mx_code rewrite(mx_program *program, int32_t i)
{
    mx_norm_found f;
    if (!mx_norm_find(program, i, &f) || f.add >= 0 || f.relu < 0 || (f.gradient >= 0 && f.relu_gradient < 0))
        return MX_OK;
    const int dtype = program->values.items[program->steps.items[i].in[0]].dtype;
    if (dtype != MX_FLOAT32 && dtype != MX_FLOAT64)
        return MX_OK;
    if ((f.gradient >= 0 && write_gradient(program, &f)) || write_forward(program, &f))
        return MX_ERR_MEMORY;
    mx_program_count(program);
    return MX_OK;
}

mx_code mx_pass_norm_limited(mx_program *program)
{
    for (int32_t i = 0; i < program->steps.length; i++)
        if (rewrite(program, i))
            return MX_ERR_MEMORY;
    mx_program_sweep(program);
    return MX_OK;
}
