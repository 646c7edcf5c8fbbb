/* Mean and variance over axes.  SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/formula/reduce.h"

#define MOMENTS_ATTRS(X) \
    X(DIMS, axes, "None", "", "axes to reduce; None: all of them") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1")
MX_ATTRS(moments, MOMENTS_ATTRS)

static mx_code infer_moments(mx_infer *infer)
{
    const mx_moments_attrs *attrs = infer->attrs;
    if (infer->in[0].ndim < 0)
        return MX_OK;
    const int mask = mx_fold_axes(infer->op, &attrs->axes, false, infer->in[0].ndim);
    if (mask < 0)
        return mx_error_code();
    const mx_shape_t out = mx_fold_shape(&infer->in[0], mask, attrs->keepdims);
    return mx_infer_out(infer, 0, &out) ? mx_error_code() : mx_infer_out(infer, 1, &out);
}

/* dx = (gm + 2 gv (x - mean)) / n */
static mx_code grad_moments(mx_grad *grad)
{
    const mx_moments_attrs *attrs = grad->attrs;
    const mx_shape_t *in = &grad->in_shape[0];
    const int mask = mx_fold_axes(grad->op, &attrs->axes, false, in->ndim);
    if (mask < 0)
        return mx_error_code();
    const mx_shape_t ones = mx_fold_shape(in, mask, true);
    double count = 1;
    for (int i = 0; i < in->ndim; i++)
        count *= mask >> i & 1 ? (double)in->dim[i] : 1;
    mx_array *mean_part = NULL, *var_part = NULL;
    if (grad->ograd[0])
        mean_part = mx_g_broadcast_to(mx_g_reshape(mx_g_scale(grad->ograd[0], 1 / count), &ones), in);
    if (grad->ograd[1]) {
        mx_array *centered = mx_g_sub(grad->in[0], mx_g_reshape(grad->out[0], &ones));
        var_part = mx_g_mul(centered, mx_g_reshape(mx_g_scale(grad->ograd[1], 2 / count), &ones));
    }
    if ((grad->ograd[0] && !mean_part) || (grad->ograd[1] && !var_part))
        return mx_error_code();
    return mx_give(grad, 0, mean_part && var_part ? mx_g_add(mean_part, var_part) : mean_part ? mean_part : var_part);
}

static int64_t result_of(const mx_shape_t *in, int mask, int64_t index)
{
    int64_t result = 0, step = 1;
    for (int axis = in->ndim - 1; axis >= 0; index /= in->dim[axis], axis--) {
        if (mask >> axis & 1)
            continue;
        result += index % in->dim[axis] * step;
        step *= in->dim[axis];
    }
    return result;
}

static void ref_moments(const mx_reference_call *call)
{
    const mx_shape_t *in = &call->in_shape[0];
    const int mask = mx_fold_axes(NULL, &((const mx_moments_attrs *)call->attrs)->axes, false, in->ndim);
    const int64_t size = mx_shape_size(in), results = mx_shape_size(&call->out_shape[0]);
    double *mean = call->out[0], *var = call->out[1];
    for (int64_t i = 0; i < results; i++)
        mean[i] = var[i] = 0;
    for (int64_t i = 0; i < size; i++)
        mean[result_of(in, mask, i)] += call->in[0][i] / (double)(size / results);
    for (int64_t i = 0; i < size; i++) {
        const double d = call->in[0][i] - mean[result_of(in, mask, i)];
        var[result_of(in, mask, i)] += d * d / (double)(size / results);
    }
}

mx_op mx_family_moments[] = {
    {.name = "moments", .input_named = true, .precision = MX_PRECISION_FLOAT32, .doc = "mean and variance over axes; the variance divides by the number of elements", .inputs = "data", .outputs_numbered = true, .outputs = "mean var",
     .schema = &moments_schema, .n_out = 2,
     .infer_shape = infer_moments, .gradient = grad_moments, .grad_in = 1, .grad_out = 1, .reference = ref_moments,
     .samples = (const mx_sample[]){{"2,3", "", 0, 0, "floatonly"}, {"2,3,4", "axes=(0, 2)", 0, 0, "floatonly"},
                                    {"3,50", "axes=-1, keepdims=True", 0, 0, "floatonly"}, {0}}},
    {0},
};
