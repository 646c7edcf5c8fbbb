/* On a GPU: the gradients of a layer's weight and bias as one step, since both read the same array.
 *
 *     dw = _conv_weight_grad(x, dy); db = sum(dy) over all axes but the channels
 *         ->  dw, db = _conv_weight_bias_grad(x, dy)
 *     dw = dot(dy', x); db = _sum_to(dy)
 *         ->  dw, db = _dense_gradients(dy, x)          one product computes both
 *
 * For devices with MX_CAN_JOIN_BIAS.  On the CPU it would save nothing, and the sums would be rounded differently.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "gluon/op.gen.h"
#include "pass/passes.h"

static bool sums_channels(const mx_program *program, const mx_step *sum, const mx_step *weight)
{
    const mx_conv_gradient_attrs *c = weight->attrs;
    const mx_value *dy = &program->values.items[weight->in[1]], *out = &program->values.items[sum->out[0]];
    const int channel = c->layout >= MX_CONVOLUTION_NWC ? dy->shape.ndim - 1 : 1;
    if (strcmp(sum->op->name, "sum") || sum->in[0] != weight->in[1])
        return false;
    const mx_reduce_attrs *a = sum->attrs;
    return a->exclude && a->axis.n == 1 && mx_axis(a->axis.d[0], dy->shape.ndim) == channel && out->shape.ndim == 1 &&
           out->dtype == program->values.items[weight->out[0]].dtype;
}

static bool is_dense_gradient(const mx_program *program, const mx_step *step)
{
    if (strcmp(step->op->name, "dot"))
        return false;
    const mx_dot_attrs *a = step->attrs;
    const mx_value *dy = &program->values.items[step->in[0]], *x = &program->values.items[step->in[1]];
    return a->transpose_a && !a->transpose_b && dy->shape.ndim == 2 && x->shape.ndim == 2 && dy->dtype == x->dtype &&
           dy->dtype != MX_FLOAT64 && mx_dtype_is_float(dy->dtype);
}

static bool sums_columns(const mx_program *program, const mx_step *sum, const mx_step *weight)
{
    const mx_value *dy = &program->values.items[weight->in[0]], *out = &program->values.items[sum->out[0]];
    return !strcmp(sum->op->name, "_sum_to") && sum->in[0] == weight->in[0] && out->dtype == dy->dtype &&
           out->shape.ndim == 1 && out->shape.dim[0] == dy->shape.dim[1];
}

static mx_code join(mx_program *program, mx_step *weight, mx_step *sum, mx_op *both)
{
    int32_t *out = mx_program_alloc(program, 2 * sizeof *out);
    if (!out)
        return MX_ERR_MEMORY;
    out[0] = weight->out[0], out[1] = sum->out[0];
    weight->op = both;
    weight->attrs = both->schema ? weight->attrs : NULL;
    weight->out = out, weight->n_out = 2;
    sum->dead = true;
    return MX_OK;
}

mx_code mx_pass_bias(mx_program *program)
{
    mx_step *steps = program->steps.items;
    for (int64_t i = 0; i < program->steps.length; i++) {
        const bool dense = !steps[i].dead && is_dense_gradient(program, &steps[i]);
        if (steps[i].dead || (!dense && strcmp(steps[i].op->name, "_conv_weight_grad")))
            continue;
        for (int64_t k = i + 1; k < program->steps.length; k++) {
            if (steps[k].dead || !(dense ? sums_columns : sums_channels)(program, &steps[k], &steps[i]))
                continue;
            if (join(program, &steps[i], &steps[k],
                     dense ? MX_OP("_dense_gradients") : MX_OP("_conv_weight_bias_grad")))
                return MX_ERR_MEMORY;
            break;
        }
    }
    mx_program_sweep(program);
    return MX_OK;
}
