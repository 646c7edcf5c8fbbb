/* Images as tensors: to_tensor and normalize.  SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/op.h"

/* ---- to_tensor: (H, W, C) or (N, H, W, C) in 0..255  ->  (C, H, W) or (N, C, H, W) in 0..1 ------------------------------ */

static mx_code infer_to_tensor(mx_infer *infer)
{
    const mx_shape_t *x = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (!mx_shape_known(x))
        return MX_OK;
    if (x->ndim != 3 && x->ndim != 4)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (H, W, C) or (N, H, W, C)",
                          mx_shape_text(x, text));
    const int first = x->ndim - 3;
    mx_shape_t out = *x;
    out.dim[first] = x->dim[first + 2], out.dim[first + 1] = x->dim[first], out.dim[first + 2] = x->dim[first + 1];
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_float(mx_infer *infer) { return mx_infer_out_type(infer, 0, MX_FLOAT32); }

static void reference_to_tensor(const mx_reference_call *call)
{
    const mx_shape_t *y = &call->out_shape[0];
    const int first = y->ndim - 3;
    const int64_t channels = y->dim[first], area = y->dim[first + 1] * y->dim[first + 2];
    for (int64_t i = 0; i < mx_shape_size(y); i++) {
        int64_t image = i / (channels * area), channel = i / area % channels, pixel = i % area;
        call->out[0][i] = call->in[0][(image * area + pixel) * channels + channel] / 255;
    }
}

/* ---- normalize: (x - mean) / std per channel ---------------------------------------------------------------------------- */

#define NORMALIZE_ATTRS(X) \
    X(FLOATS, mean, "(0.0, 0.0, 0.0, 0.0)", "", "one number per channel, or one for all") \
    X(FLOATS, std, "(1.0, 1.0, 1.0, 1.0)", "", "one number per channel, or one for all")
MX_ATTRS(image_normalize, NORMALIZE_ATTRS)

static mx_code infer_normalize(mx_infer *infer)
{
    const mx_image_normalize_attrs *a = infer->attrs;
    const mx_shape_t *x = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (!mx_shape_known(x))
        return mx_infer_same_shape(infer);
    if (x->ndim != 3 && x->ndim != 4)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (C, H, W) or (N, C, H, W)",
                          mx_shape_text(x, text));
    const int64_t channels = x->dim[x->ndim - 3];
    if ((a->mean.n != 1 && a->mean.n < channels) || (a->std.n != 1 && a->std.n < channels))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "mean has %d and std %d numbers, data %s has %lld channels",
                          a->mean.n, a->std.n, mx_shape_text(x, text), (long long)channels);
    return mx_infer_same_shape(infer);
}

static mx_code check_normalize(const void *attrs)
{
    const mx_image_normalize_attrs *a = attrs;
    for (int i = 0; i < a->std.n; i++)
        if (a->std.d[i] == 0)
            return mx_fail(MX_ERR_ATTRIBUTE, "_image_normalize: std[%d] is 0", i);
    return a->mean.n < 1 || a->std.n < 1 ? mx_fail(MX_ERR_ATTRIBUTE, "_image_normalize: mean or std is empty") : MX_OK;
}

static double per_channel(const mx_floats *f, int64_t channel) { return f->d[f->n == 1 ? 0 : channel]; }

static void reference_normalize(const mx_reference_call *call)
{
    const mx_image_normalize_attrs *a = call->attrs;
    const mx_shape_t *x = &call->in_shape[0];
    const int64_t channels = x->dim[x->ndim - 3], area = x->dim[x->ndim - 2] * x->dim[x->ndim - 1];
    for (int64_t i = 0; i < mx_shape_size(x); i++)
        call->out[0][i] =
            (call->in[0][i] - per_channel(&a->mean, i / area % channels)) / per_channel(&a->std, i / area % channels);
}

/* d out / d x = 1 / std: the gradient is normalised with mean 0 */
static mx_code grad_normalize(mx_grad *grad)
{
    mx_image_normalize_attrs a = *(const mx_image_normalize_attrs *)grad->attrs;
    a.mean = (mx_floats){.n = 1, .d = {0}};
    return mx_give(grad, 0, mx_g_call(MX_OP("_image_normalize"), &a, 1, grad->ograd));
}

mx_op mx_family_image[] = {
    {.name = "_image_to_tensor", .input_named = true, .aliases = "_npx__image_to_tensor", .doc = "converts an image (H, W, C) in 0..255 to a float32 tensor (C, H, W) in 0..1",
     .inputs = "data", .flags = MX_OP_NO_GRADIENT, .infer_shape = infer_to_tensor, .infer_type = infer_float, .reference = reference_to_tensor,
     .samples = (const mx_sample[]){{"4,5,3", "", 0, 100, NULL}, {"2,4,5,1", "", 0, 100, NULL}, {0}}},
    {.name = "_image_normalize", .input_named = true, .aliases = "_npx__image_normalize", .doc = "(x - mean) / std per channel", .inputs = "data",
     .schema = &image_normalize_schema, .flags = MX_OP_INPLACE, .check = check_normalize, .infer_shape = infer_normalize,
     .gradient = grad_normalize, .reference = reference_normalize,
     .samples = (const mx_sample[]){{"3,4,5", "mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7)", 0, 1, "floatonly"},
                                    {"2,1,3,3", "mean=0.25, std=0.5", 0, 1, "floatonly"}, {0}}},
    {0},
};
