/* Identity operators: copies, gradient stoppers and losses.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/op.h"

#define MAKE_LOSS_ATTRS(X) \
    X(FLOAT, grad_scale, "1.0", "", "the gradient of every element") \
    X(FLOAT, valid_thresh, "0.0", "", "elements above this are valid") \
    X(ENUM, normalization, "null", "null|batch|valid", "divisor of the gradient: 1, the batch size, or the number of valid elements")
MX_ATTRS(make_loss, MAKE_LOSS_ATTRS)
enum { NORMALIZE_NOT, NORMALIZE_BATCH, NORMALIZE_VALID };

/* The output has the shape and type of the first input; the second must only agree. */
static mx_code infer_first_type(mx_infer *infer)
{
    if (mx_infer_in_type(infer, 0, infer->out_type[0]))
        return mx_error_code();
    return mx_infer_out_type(infer, 0, infer->in_type[0]);
}

/* ---- gradients ------------------------------------------------------------------------------------------------- */

static mx_code pass_on(mx_grad *grad)
{
    grad->igrad[0] = grad->wanted[0] ? grad->ograd[0] : NULL;
    return MX_OK;
}

/* Losses start the gradient themselves: the incoming one is not used. */
static mx_code grad_ones(mx_grad *grad) { return mx_give(grad, 0, mx_g1("ones_like", grad->ograd[0])); }

static mx_code grad_make_loss(mx_grad *grad)
{
    const mx_make_loss_attrs *attrs = grad->attrs;
    double scale = attrs->grad_scale;
    if (attrs->normalization == NORMALIZE_BATCH && grad->in_shape[0].ndim && grad->in_shape[0].dim[0])
        scale /= (double)grad->in_shape[0].dim[0];
    mx_array *value = mx_g_scale(mx_g1("ones_like", grad->ograd[0]), scale);
    if (attrs->normalization == NORMALIZE_VALID) {
        char text[64];
        snprintf(text, sizeof text, "scalar=%.17g", attrs->valid_thresh);
        mx_array *valid = mx_g_text(MX_OP("_greater_scalar"), text, 1, &grad->out[0]);
        mx_array *count = mx_g1("sum", valid); /* at least one, so that an empty batch gives no infinity */
        value = mx_g_div(value, mx_g_text(MX_OP("_maximum_scalar"), "scalar=1", 1, &count));
    }
    grad->igrad[0] = value;
    return value ? MX_OK : mx_error_code();
}

static void reference(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = call->in[0][i];
}

#define SAMPLES \
    (const mx_sample[]){{"2,3", "", 0, 0, NULL}, {"5", "", 0, 0, NULL}, {"0,3", "", 0, 0, NULL}, {"()", "", 0, 0, NULL}, \
                        {0}}
#define UNCHECKED (const mx_sample[]){{"2,3", "", 0, 0, "nograd"}, {"5", "", 0, 0, "nograd"}, {0}}

mx_op mx_family_identity[] = {
    {.name = "_copy", .sparse = MX_SPARSE_ZEROS, .sparse_gradient = true, .aliases = "identity _np_copy",
     .c_name = "copy", .doc = "a copy of data", .inputs = "data",
     .flags = MX_OP_IDENTITY | MX_OP_INPLACE, .gradient = pass_on, .samples = SAMPLES, .reference = reference},
    {.name = "_copyto", .aliases = "_npi_copyto", .doc = "a copy of data, written into out",
     .inputs = "data", .flags = MX_OP_INPLACE, .gradient = pass_on, .samples = SAMPLES, .reference = reference},
    {.name = "BlockGrad", .methods = "stop_gradient", .sparse = MX_SPARSE_ZEROS, .sparse_gradient = true,
     .aliases = "_sparse_stop_gradient stop_gradient", .c_name = "stop_gradient",
     .doc = "a copy of data through which no gradient flows", .inputs = "data",
     .flags = MX_OP_IDENTITY | MX_OP_INPLACE | MX_OP_ZERO_GRADIENT, .samples = UNCHECKED, .reference = reference},
    {.name = "make_loss", .precision = MX_PRECISION_FLOAT32, .aliases = "_sparse_make_loss",
     .doc = "marks data as a loss: its gradient is one",
     .inputs = "data", .outputs = "loss",
     .flags = MX_OP_IDENTITY | MX_OP_LOSS | MX_OP_INPLACE, .gradient = grad_ones, .reads_head = mx_reads_no_head, .samples = UNCHECKED, .reference = reference},
    {.name = "MakeLoss", .input_named = true, .look = MX_LOOK_SOFTMAX, .precision = MX_PRECISION_FLOAT32, .c_name = "make_scaled_loss",
     .doc = "marks data as a loss with a scaled gradient",
     .inputs = "data", .schema = &make_loss_schema, .flags = MX_OP_IDENTITY | MX_OP_LOSS | MX_OP_INPLACE, .gradient = grad_make_loss, .reads_head = mx_reads_no_head, .grad_out = 1,
     .samples = (const mx_sample[]){{"2,3", "", 0, 0, "nograd"},
                                    {"4", "grad_scale=2, normalization=batch", 0, 0, "nograd"},
                                    {"4", "normalization=valid, valid_thresh=0.5", 0, 0, "nograd"}, {0}},
     .reference = reference},
    {.name = "_identity_with_attr_like_rhs", .doc = "a copy of lhs with the shape of rhs", .inputs = "lhs rhs",
     .flags = MX_OP_IDENTITY | MX_OP_INPLACE,
     .infer_type = infer_first_type, .no_grad_inputs = 2, .gradient = pass_on, .reference = reference,
     .samples = (const mx_sample[]){{"2,3;2,3", "", 0, 0, NULL}, {0}}},
    {0},
};
