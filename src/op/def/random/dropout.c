/* Dropout: values are kept with probability 1 - p and then scaled by 1 / (1 - p).
 *
 * The mask is a hidden output of bytes; the mask is broadcast along `axes`.  In prediction mode dropout is the identity.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/error.h"
#include "op/op.h"

#define DROPOUT_ATTRS(X) \
    X(FLOAT, p, "0.5", "0..1", "probability of dropping a value") \
    X(ENUM, mode, "training", "training|always", "when to drop: while training, or always") \
    X(DIMS, axes, "()", "", "axes along which values share one mask element") \
    X(BOOL, cudnn_off, "False", "", "accepted for compatibility")
MX_ATTRS(dropout, DROPOUT_ATTRS)
enum { TRAINING, ALWAYS };

static mx_code infer_shape(mx_infer *infer)
{
    const mx_dropout_attrs *attrs = infer->attrs;
    if (mx_infer_out(infer, 0, &infer->in[0]) || mx_infer_in(infer, 0, &infer->out[0]))
        return mx_error_code();
    mx_shape_t mask = infer->in[0];
    if (mask.ndim < 0)
        return MX_OK;
    for (int i = 0; i < attrs->axes.n; i++) {
        const int axis = mx_axis(attrs->axes.d[i], mask.ndim);
        if (axis < 0)
            return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "axes names axis %lld, data has %d axes",
                              (long long)attrs->axes.d[i], mask.ndim);
        mask.dim[axis] = 1;
    }
    return mx_infer_out(infer, 1, &mask);
}

static mx_code infer_type(mx_infer *infer)
{
    if (mx_infer_out_type(infer, 0, infer->in_type[0]) || mx_infer_out_type(infer, 1, MX_UINT8))
        return mx_error_code();
    return mx_infer_in_type(infer, 0, infer->out_type[0]);
}

/* _backward_dropout(ograd, mask) */
static mx_code infer_backward(mx_infer *infer)
{
    if (mx_infer_through(infer, infer_shape, (const int[]){0, -2}, (const int[]){0, 1, -2}))
        return mx_error_code();
    return mx_infer_out(infer, 0, &infer->in[0]);
}
static mx_code infer_backward_type(mx_infer *infer)
{
    return mx_infer_in_type(infer, 1, MX_UINT8) ? mx_error_code() : mx_infer_out_type(infer, 0, infer->in_type[0]);
}

/* dx = g mask / (1 - p), or g if nothing was dropped */
static mx_code gradient(mx_grad *grad)
{
    const mx_dropout_attrs *attrs = grad->attrs;
    mx_array *g = grad->ograd[0], *mask = grad->out[1];
    if ((attrs->mode == TRAINING && !grad->training) || attrs->p == 0)
        grad->igrad[0] = g;
    else if (!grad->create_graph)
        grad->igrad[0] = mx_g_call(MX_OP("_backward_dropout"), attrs, 2, (mx_array *const[]){g, mask});
    else {
        char text[48];
        mx_array *fixed = mx_detach(mask);
        snprintf(text, sizeof text, "dtype=%s", mx_dtype_name((mx_dtype)g->dtype));
        mx_array *kept = mx_g_text(MX_OP("Cast"), text, 1, &fixed);
        grad->igrad[0] = mx_g_scale(mx_g_mul(g, kept), attrs->p < 1 ? 1 / (1 - attrs->p) : 0);
    }
    return grad->igrad[0] ? MX_OK : mx_error_code();
}

/* y = x mask / (1 - p), as the gradient is computed from g */
static void again(const void *attrs, mx_again *again)
{
    (void)attrs;
    *again = (mx_again){.op = "_backward_dropout", .n_in = 2, .from = {0, -2}};
}

static void reference(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = call->in[0][i];
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[1]); i++)
        call->out[1][i] = 1;
}

/* The mask broadcasts along the axes where it has size 1. */
static void backward_reference(const mx_reference_call *call)
{
    const mx_dropout_attrs *attrs = call->attrs;
    const mx_shape_t *shape = &call->in_shape[0], *mask = &call->in_shape[1];
    for (int64_t i = 0; i < mx_shape_size(shape); i++) {
        int64_t at = 0, step = 1, rest = i;
        for (int axis = shape->ndim - 1; axis >= 0; axis--) {
            at += mask->dim[axis] == 1 ? 0 : rest % shape->dim[axis] * step;
            rest /= shape->dim[axis];
            step *= mask->dim[axis];
        }
        call->out[0][i] = call->in[1][at] != 0 ? call->in[0][i] / (1 - attrs->p) : 0;
    }
}

mx_op mx_family_dropout[] = {
    {.name = "Dropout", .input_named = true, .shows = "p", .aliases = "_npx_dropout", .c_name = "op_dropout", .inputs = "data",
     .outputs = "output mask",
     .doc = "sets values to zero at random and scales up the others so that the mean is unchanged", .schema = &dropout_schema,
     .flags = MX_OP_IDENTITY | MX_OP_INPLACE | MX_OP_RANDOM | MX_OP_TRAINING, .n_out = 2, .n_visible = 1, .infer_shape = infer_shape,
     .infer_type = infer_type, .gradient = gradient, .grad_out = 2, .again = again, .reference = reference,
     .samples = (const mx_sample[]){{"2,3", "p=0.3", 0, 0, "floatonly"}, {"2,3", "p=0.3", 0, 0, "train random floatonly"},
                                    {"2,3", "p=0", 0, 0, "train floatonly"},
                                    {"2,300", "p=0.7, mode=always", 0, 0, "random floatonly"},
                                    {"2,3,4", "p=0.5, axes=(0, 2)", 0, 0, "train random floatonly"}, {"0,3", "", 0, 0, "train floatonly"},
                                    {"2,0,3", "p=0.5, axes=(1,)", 0, 0, "train random floatonly"},
                                    {"3,0", "p=0.5, axes=(1,)", 0, 0, "train random floatonly"}, {0}}},
    {.name = "_backward_dropout", .inputs = "ograd mask", .doc = "gradient of Dropout", .schema = &dropout_schema,
     .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT | MX_OP_INPLACE, .infer_shape = infer_backward, .infer_type = infer_backward_type,
     .reference = backward_reference,
     .samples = (const mx_sample[]){{"2,30;2,30", "p=0.5", 0, 2, "int:1 floatonly"}, {"2,3,4;2,1,4", "p=0.25, axes=(1,)", 0, 2, "int:1 floatonly"},
                                    {"2,3,4;1,3,1", "p=0.25, axes=(0, 2)", 0, 2, "int:1 floatonly"},
                                    {"3,0;3,1", "p=0.25, axes=(1,)", 0, 2, "int:1 floatonly"}, {0}}},
    {0},
};
