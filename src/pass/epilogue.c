/* Convolution, bias, another array, relu or clip as one step, while predicting (MX_CAN_FUSE_EPILOGUE).
 *
 *     t = Convolution(x, w, b) [NHWC]; s = t + shortcut; y = relu(s)
 *         ->  y = _convolution_fused(x, w, b, shortcut) [NHWC, low = 0]
 *
 * Here convolutions with channels last become such steps; residual.c joins what follows.  Each result is rounded once instead of
 * after every step, which only predictions may do.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "gluon/op.gen.h"
#include "pass/passes.h"

enum { DATA, WEIGHT, BIAS, ADDEND, INPUTS };

static bool suits(const mx_program *program, const mx_step *step)
{
    const mx_convolution_attrs *a = step->attrs;
    return (mx_step_is(step, "Convolution") || mx_step_is(step, "_convolution_relu")) &&
           a->layout == MX_CONVOLUTION_NHWC && program->values.items[step->out[0]].external < 0;
}

static mx_code convert(mx_program *program, mx_step *step)
{
    mx_convolution_fused_attrs *attrs = mx_program_alloc(program, sizeof *attrs);
    int32_t *in = mx_program_alloc(program, INPUTS * sizeof *in);
    if (!attrs || !in)
        return MX_ERR_MEMORY;
    memcpy(attrs, step->attrs, sizeof(mx_convolution_attrs)); /* both structs begin with it */
    attrs->low = mx_step_is(step, "_convolution_relu") ? 0 : NAN, attrs->high = NAN;
    in[DATA] = step->in[DATA], in[WEIGHT] = step->in[WEIGHT], in[ADDEND] = -1;
    in[BIAS] = attrs->no_bias || step->n_in <= BIAS ? -1 : step->in[BIAS];
    step->op = MX_OP("_convolution_fused");
    step->attrs = attrs, step->in = in, step->n_in = INPUTS;
    return MX_OK;
}

mx_code mx_pass_epilogue(mx_program *program)
{
    bool any = false;
    if (!mx_program_predicts(program))
        return MX_OK;
    for (int64_t i = 0; i < program->steps.length; i++) {
        mx_step *step = &program->steps.items[i];
        if (step->dead || !suits(program, step))
            continue;
        any = true;
        if (convert(program, step))
            return MX_ERR_MEMORY;
    }
    if (!any)
        return MX_OK;
    mx_program_count(program);
    return mx_pass_residual(program);
}
