/* Resizing images (H, W, C) or (N, H, W, C): _image_resize and _cvimresize (see resample.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/formula/image.h"
#include "op/formula/resample.h"

#define LARGEST ((int64_t)1 << 24) /* rows or columns */

#define RESIZE_ATTRS(X) \
    X(DIMS, size, "()", "", "(width, height), or one number for both") \
    X(BOOL, keep_ratio, "False", "", "one number is the shorter side; the longer one keeps the ratio") \
    X(INT, interp, "1", "0..5", "0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos")
MX_ATTRS(image_resize, RESIZE_ATTRS)

#define CV_RESIZE_ATTRS(X) \
    X(INT, w, REQUIRED, "1..16777216", "columns of the result") \
    X(INT, h, REQUIRED, "1..16777216", "rows of the result") \
    X(INT, interp, "1", "0..5", "0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos")
MX_ATTRS(cvimresize, CV_RESIZE_ATTRS)

static mx_code infer_size(mx_infer *infer, int64_t width, int64_t height)
{
    char text[MX_SHAPE_TEXT];
    mx_shape_t out = infer->in[0];
    if (out.dim[out.ndim - 3] < 1 || out.dim[out.ndim - 2] < 1)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "an image of shape %s has no pixels to resize",
                          mx_shape_text(&infer->in[0], text));
    out.dim[out.ndim - 3] = height, out.dim[out.ndim - 2] = width;
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_resize(mx_infer *infer)
{
    const mx_image_resize_attrs *a = infer->attrs;
    if (!mx_infer_image(infer))
        return mx_error_code();
    const mx_image_size x = mx_image_size_of(infer->in[0].ndim, infer->in[0].dim);
    int64_t width = a->size.d[0], height = a->size.d[a->size.n == 2];
    if (a->size.n == 1 && a->keep_ratio && x.height > 0 && x.width > 0 && x.height < LARGEST && x.width < LARGEST) {
        height = x.height > x.width ? x.height * width / x.width : width;
        width = x.height > x.width ? width : x.width * width / x.height;
        if (height < 1 || height > LARGEST || width < 1 || width > LARGEST)
            return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "size gives an image of %lld x %lld pixels",
                              (long long)width, (long long)height);
    }
    return infer_size(infer, width, height);
}

static mx_code check_resize(const void *attrs)
{
    const mx_image_resize_attrs *a = attrs;
    bool fits = a->size.n == 1 || a->size.n == 2;
    for (int i = 0; fits && i < a->size.n; i++)
        fits = a->size.d[i] >= 1 && a->size.d[i] <= LARGEST;
    return fits ? MX_OK
                : mx_fail(MX_ERR_ATTRIBUTE, "_image_resize: size is one or two positive numbers: (width, height)");
}

static mx_code infer_cv_resize(mx_infer *infer)
{
    const mx_cvimresize_attrs *a = infer->attrs;
    return mx_infer_image(infer) ? infer_size(infer, a->w, a->h) : mx_error_code();
}

static double value_at(const mx_reference_call *call, int interp, int64_t i)
{
    const mx_shape_t *to = &call->out_shape[0];
    const mx_image_size x = mx_image_size_of(call->in_shape[0].ndim, call->in_shape[0].dim),
                        y = mx_image_size_of(to->ndim, to->dim);
    const bool shrinks = y.height <= x.height && y.width <= x.width;
    const mx_resample rows = mx_resample_axis(interp, x.height, y.height, shrinks),
                      columns = mx_resample_axis(interp, x.width, y.width, shrinks);
    double down[64], along[64], sum = 0;
    int64_t first_row, first_column;
    const int64_t c = i % y.channels,
                  n_down = mx_resample_weights(&rows, i / y.channels / y.width % y.height, &first_row, down),
                  n_along = mx_resample_weights(&columns, i / y.channels % y.width, &first_column, along),
                  image = i / (y.channels * y.width * y.height);
    for (int64_t r = 0; r < n_down; r++)
        for (int64_t k = 0; k < n_along; k++) {
            const int64_t row = mx_resample_clamp(&rows, first_row + r),
                          column = mx_resample_clamp(&columns, first_column + k);
            sum += down[r] * along[k] * call->in[0][((image * x.height + row) * x.width + column) * x.channels + c];
        }
    return sum;
}

static void reference_resize(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = value_at(call, (int)((const mx_image_resize_attrs *)call->attrs)->interp, i);
}
static void reference_cv_resize(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = value_at(call, (int)((const mx_cvimresize_attrs *)call->attrs)->interp, i);
}

/* The sums of eight weights are finally rounded to 8 bits: values near x.5 may round either way, so the samples
 * use wide ranges and floating types. */
mx_op mx_family_image_resize[] = {
    {.name = "_image_resize", .aliases = "_npx__image_resize", .doc = "resizes images (h, w, c) or (n, h, w, c); with one number the shorter side or both get it", .inputs = "data",
     .schema = &image_resize_schema, .flags = MX_OP_NO_GRADIENT, .check = check_resize, .infer_shape = infer_resize,
     .reference = reference_resize,
     .samples = (const mx_sample[]){{"7,9,3", "size=(5, 4)", 0, 200, NULL}, {"2,7,9,3", "size=(5, 4), interp=3", 0, 200, NULL},
                                    {"5,4,3", "size=9, interp=2", 0, 200, NULL}, {"5,4,1", "size=(9, 3), interp=3", 0, 200, NULL},
                                    {"7,9,4", "size=4, keep_ratio=True, interp=4", 0, 200, NULL}, {"9,7,2", "size=4, keep_ratio=True, interp=0", 0, 200, NULL},
                                    {"1,1,3", "size=3", 0, 200, NULL}, {"6,5,3", "size=(5, 6)", 0, 200, NULL}, {"2,6,8,1", "size=(2, 3), interp=3", 0, 200, NULL},
                                    {"0,6,8,1", "size=(2, 3)", 0, 200, NULL}, {0}}},
    {.name = "_cvimresize", .aliases = "_npi_cvimresize", .c_name = "imresize", .doc = "resizes an image (h, w, c) to h and w with an interpolation by number", .inputs = "src",
     .schema = &cvimresize_schema, .flags = MX_OP_NO_GRADIENT, .infer_shape = infer_cv_resize, .reference = reference_cv_resize,
     .samples = (const mx_sample[]){{"7,9,3", "w=5, h=4", 0, 200, NULL}, {"7,9,1", "w=20, h=15, interp=2", 0, 200, NULL},
                                    {"4,5,3", "w=7, h=9, interp=4", 0, 200, NULL}, {"4,5,3", "w=7, h=3, interp=0", 0, 200, NULL}, {0}}},
    {0},
};
