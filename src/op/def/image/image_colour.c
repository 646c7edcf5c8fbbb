/* Colours of images (H, W, C) or (N, H, W, C): brightness, contrast, saturation, hue, lighting, at random strengths.
 *
 *     brightness  x a
 *     contrast    x a + (1 - a) mean of the image's gray
 *     saturation  x a + (1 - a) gray of the pixel
 *     hue         rotated by a turns of the circle (1: unchanged)
 *     lighting    x + axes . alpha, along the principal directions of colour variation (image.h)
 *
 * a is uniform in [min_factor, max_factor], drawn separately for each image of a batch.  Bytes are clipped to 0..255 and
 * truncated.  Saturation, hue and lighting leave images of one channel unchanged.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/formula/image.h"
#include "op/formula/movement.h"

#define FACTOR_ATTRS(X) \
    X(FLOAT, min_factor, REQUIRED, "0..", "lower bound of the strength") \
    X(FLOAT, max_factor, REQUIRED, "0..", "upper bound of the strength")
MX_ATTRS(image_random_factor, FACTOR_ATTRS)
#define JITTER_ATTRS(X) \
    X(FLOAT, brightness, REQUIRED, "0..", "factors 1 - b .. 1 + b") \
    X(FLOAT, contrast, REQUIRED, "0..", "factors 1 - c .. 1 + c") \
    X(FLOAT, saturation, REQUIRED, "0..", "factors 1 - s .. 1 + s") \
    X(FLOAT, hue, REQUIRED, "0..", "hue is rotated by -h .. h of the full circle")
MX_ATTRS(image_random_color_jitter, JITTER_ATTRS)
#define RANDOM_LIGHTING_ATTRS(X) X(FLOAT, alpha_std, "0.05", "0..", "standard deviation of the three strengths")
MX_ATTRS(image_random_lighting, RANDOM_LIGHTING_ATTRS)
#define LIGHTING_ATTRS(X) X(FLOATS, alpha, REQUIRED, "", "strengths along the three principal colour directions")
MX_ATTRS(image_adjust_lighting, LIGHTING_ATTRS)

static mx_code infer_colour(mx_infer *infer)
{
    char text[MX_SHAPE_TEXT];
    if (mx_infer_image(infer)) {
        const int64_t channels = infer->in[0].dim[infer->in[0].ndim - 1];
        if (channels != 1 && channels != 3)
            return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted 1 or 3 channels on the last axis",
                              mx_shape_text(&infer->in[0], text));
    } else if (mx_error_code())
        return mx_error_code();
    return mx_infer_same_shape(infer);
}

static mx_code infer_colour_type(mx_infer *infer)
{
    if (infer->in_type[0] == MX_BOOL)
        return mx_op_fail(infer->op, MX_ERR_DTYPE, "data is bool, wanted numbers");
    return mx_infer_same_type(infer);
}

static mx_code check_lighting(const void *attrs)
{
    const int n = ((const mx_image_adjust_lighting_attrs *)attrs)->alpha.n;
    return n == 3 ? MX_OK : mx_fail(MX_ERR_ATTRIBUTE, "_image_adjust_lighting: alpha has %d numbers, wanted 3", n);
}

/* d (x + constant) / d x = 1 */
static mx_code grad_lighting(mx_grad *grad) { return mx_give(grad, 0, grad->ograd[0]); }

/* The references can compute the result: samples draw the strength from an interval of one number. */
static void reference(const mx_reference_call *call, mx_colour_kind kind, const double *alpha)
{
    const mx_image_size s = mx_image_size_of(call->in_shape[0].ndim, call->in_shape[0].dim);
    const int64_t area = s.height * s.width, channels = s.channels;
    for (int64_t p = 0; p < s.images * area; p++) {
        const double *in = call->in[0] + p * channels, *image = call->in[0] + p / area * area * channels;
        double *out = call->out[0] + p * channels, other = 0;
        for (int64_t i = 0; kind == MX_CONTRAST && i < area; i++)
            other += mx_gray(image + i * channels, channels) / (double)area;
        if (kind == MX_SATURATION)
            other = mx_gray(in, channels);
        if (kind == MX_HUE && channels == 3)
            mx_turn_hue(alpha[0], in, out);
        for (int64_t c = 0; c < channels && !(kind == MX_HUE && channels == 3); c++)
            out[c] = kind == MX_LIGHTING ? in[c] + (channels == 3 ? mx_lighting_shift(c, alpha) : 0)
                     : kind == MX_HUE    ? in[c]
                                         : in[c] * alpha[0] + (1 - alpha[0]) * other;
    }
}
static double factor(const mx_reference_call *call)
{
    return ((const mx_image_random_factor_attrs *)call->attrs)->min_factor;
}
static void reference_brightness(const mx_reference_call *call)
{
    reference(call, MX_BRIGHTNESS, (double[]){factor(call)});
}
static void reference_contrast(const mx_reference_call *call)
{
    reference(call, MX_CONTRAST, (double[]){factor(call)});
}
static void reference_saturation(const mx_reference_call *call)
{
    reference(call, MX_SATURATION, (double[]){factor(call)});
}
static void reference_hue(const mx_reference_call *call) { reference(call, MX_HUE, (double[]){factor(call)}); }
static void reference_lighting(const mx_reference_call *call)
{
    reference(call, MX_LIGHTING, ((const mx_image_adjust_lighting_attrs *)call->attrs)->alpha.d);
}
static void reference_nothing(const mx_reference_call *call) { reference(call, MX_BRIGHTNESS, (double[]){1}); }

#define RANDOM_ROW(op, what, rule) \
    .name = "_image_random_" #op, .aliases = "_npx__image_random_" #op, .doc = what, .inputs = "data", \
    .schema = &image_random_factor_schema, .flags = MX_OP_RANDOM | MX_OP_NO_GRADIENT | MX_OP_INPLACE, .infer_shape = infer_colour, .infer_type = infer_colour_type, .reference = rule, \
    .samples = (const mx_sample[]){{"4,5,3", "min_factor=0.5, max_factor=0.5", 0, 200, NULL}, {"4,5,1", "min_factor=0.25, max_factor=0.25", 0, 200, NULL}, \
                                   {"2,3,4,3", "min_factor=0.75, max_factor=0.75", 0, 160, NULL}, {"3,4,5,3", "min_factor=0.5, max_factor=1.5", 0, 100, "random"}, {0}}

mx_op mx_family_image_colour[] = {
    {RANDOM_ROW(brightness, "changes the brightness by a random factor", reference_brightness)},
    {RANDOM_ROW(contrast, "changes the contrast by a random factor", reference_contrast)},
    {RANDOM_ROW(saturation, "changes the saturation by a random factor", reference_saturation)},
    {RANDOM_ROW(hue, "rotates the hue by a random angle", reference_hue)},
    {.name = "_image_random_color_jitter", .aliases = "_npx__image_random_color_jitter", .inputs = "data",
     .doc = "changes brightness, contrast, saturation and hue by random amounts, in random order", .schema = &image_random_color_jitter_schema,
     .flags = MX_OP_RANDOM | MX_OP_NO_GRADIENT | MX_OP_INPLACE, .infer_shape = infer_colour, .infer_type = infer_colour_type, .reference = reference_nothing,
     .samples = (const mx_sample[]){{"4,5,3", "brightness=0, contrast=0, saturation=0, hue=0", 0, 200, NULL},
                                    {"4,5,3", "brightness=0.3, contrast=0.2, saturation=0.1, hue=0.4", 0, 100, "random"},
                                    {"2,4,5,1", "brightness=0.3, contrast=0.2, saturation=0.1, hue=0.4", 0, 100, "random"}, {0}}},
    {.name = "_image_adjust_lighting", .aliases = "_npx__image_adjust_lighting", .doc = "shifts colours along the principal directions of colour variation in photographs",
     .inputs = "data", .schema = &image_adjust_lighting_schema, .flags = MX_OP_INPLACE, .check = check_lighting, .infer_shape = infer_colour, .infer_type = infer_colour_type,
     .gradient = grad_lighting, .reference = reference_lighting,
     .samples = (const mx_sample[]){{"4,5,3", "alpha=(0.1, 0.2, 0.3)", 20, 200, NULL}, {"2,4,5,1", "alpha=(0.1, 0.2, 0.3)", 20, 200, NULL}, {0}}},
    {.name = "_image_random_lighting", .aliases = "_npx__image_random_lighting", .doc = "_image_adjust_lighting with normally distributed strengths",
     .inputs = "data", .schema = &image_random_lighting_schema, .flags = MX_OP_RANDOM | MX_OP_NO_GRADIENT | MX_OP_INPLACE, .infer_shape = infer_colour, .infer_type = infer_colour_type,
     .reference = reference_nothing,
     .samples = (const mx_sample[]){{"4,5,3", "alpha_std=0", 0, 200, NULL}, {"2,4,5,3", "", 50, 200, "random"}, {0}}},
    {0},
};
