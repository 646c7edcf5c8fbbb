/* Rotating tensors (C, H, W) or (N, C, H, W) around their centre, with linear interpolation.
 *
 * Output pixel (x, y), counted from the centre, is read at
 *
 *     zoom * (x cos a - y sin a,  x sin a + y cos a)
 *
 * Outside the image there are zeros.  zoom is 1; with zoom_in the largest factor below 1 that leaves no zeros, with
 * zoom_out the smallest one above 1 that loses no corner, as the classic function computes them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/rotate.h"

#include "base/error.h"

#define ROTATE_ATTRS(X) \
    X(BOOL, zoom_in, "False", "", "zoom in until no border is visible") \
    X(BOOL, zoom_out, "False", "", "zoom out until the complete image is visible")
MX_ATTRS(image_rotate, ROTATE_ATTRS)

static mx_code infer_rotate(mx_infer *infer)
{
    const mx_shape_t *x = &infer->in[0], *degrees = &infer->in[1];
    char text[MX_SHAPE_TEXT];
    if (!mx_shape_known(x) || !mx_shape_known(degrees))
        return MX_OK;
    if (x->ndim != 3 && x->ndim != 4)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (C, H, W) or (N, C, H, W)",
                          mx_shape_text(x, text));
    const int64_t n = mx_shape_size(degrees);
    if (n != 1 && (x->ndim != 4 || degrees->ndim != 1 || n != x->dim[0]))
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "degrees has shape %s, wanted one number, or one per image",
                          mx_shape_text(degrees, text));
    return mx_infer_out(infer, 0, x);
}

static mx_code infer_type(mx_infer *infer) { return mx_infer_same_type(infer); }

static mx_code check_rotate(const void *attrs)
{
    const mx_image_rotate_attrs *a = attrs;
    return a->zoom_in && a->zoom_out
               ? mx_fail(MX_ERR_ATTRIBUTE, "_image_rotate: zoom_in and zoom_out cannot both be True")
               : MX_OK;
}

static double at(const double *plane, int64_t height, int64_t width, int64_t y, int64_t x)
{
    return x < 0 || y < 0 || x >= width || y >= height ? 0 : plane[y * width + x];
}

static void reference(const mx_reference_call *call)
{
    const mx_image_rotate_attrs *a = call->attrs;
    const mx_shape_t *s = &call->in_shape[0];
    const int64_t height = s->dim[s->ndim - 2], width = s->dim[s->ndim - 1], area = height * width,
                  images = s->ndim == 4 ? s->dim[0] : 1;
    for (int64_t i = 0; i < mx_shape_size(s); i++) {
        const int64_t image = i / (mx_shape_size(s) / images), p = i % area;
        const mx_rotation r = mx_rotation_of(call->in[1][mx_shape_size(&call->in_shape[1]) == 1 ? 0 : image], height,
                                             width, a->zoom_in, a->zoom_out);
        const double *plane = call->in[0] + i / area * area;
        double x, y;
        mx_rotate_back(&r, p / width, p % width, &y, &x);
        const int64_t left = (int64_t)floor(x), top = (int64_t)floor(y);
        const double u = x - (double)left, v = y - (double)top;
        call->out[0][i] =
            (1 - v) * ((1 - u) * at(plane, height, width, top, left) + u * at(plane, height, width, top, left + 1)) +
            v * ((1 - u) * at(plane, height, width, top + 1, left) + u * at(plane, height, width, top + 1, left + 1));
    }
}

mx_op mx_family_image_rotate[] = {
    {.name = "_image_rotate", .doc = "rotates images (C, H, W) by an angle around their centre", .inputs = "data degrees",
     .schema = &image_rotate_schema, .flags = MX_OP_NO_GRADIENT, .no_grad_inputs = 2, .check = check_rotate, .infer_shape = infer_rotate, .infer_type = infer_type,
     .reference = reference,
     .samples = (const mx_sample[]){{"3,7,9;1", "", 0, 60, "f32only"}, {"2,3,6,5;2", "zoom_in=True", 0, 60, "f32only"},
                                    {"2,1,6,5;1", "zoom_out=True", 0, 60, "f32only"}, {"1,1,1;1", "", 0, 60, "f32only"}, {0}}},
    {0},
};
