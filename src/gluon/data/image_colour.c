/* Colours of images at given strengths (see gluon/image.h).
 *
 *     brightness  x a
 *     contrast    x a + (1 - a) mean of the image's gray
 *     saturation  x a + (1 - a) gray of the pixel
 *     hue         x M: rotates the two chroma components of YIQ
 *     lighting    x + vectors (values * alpha)
 *     gray        x G
 *
 * These are compositions of operators, so they run wherever the image is.  The operators mx_image_random_brightness ...
 * draw their own strengths, one for each image of a batch, and rotate hues on the colour wheel.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "gluon/block/core.h"
#include "gluon/image.h"
#include "gluon/op.gen.h"
#include "op/formula/image.h"

#define HALF_ROUND 3.14159265358979323846

const double mx_image_eigval[3] = {MX_COLOUR_SIZES}, mx_image_eigvec[9] = {MX_COLOUR_AXES};

static bool colours_ok(mx_array *image, const char *function)
{
    char text[MX_SHAPE_TEXT];
    if (!image || !mx_array_ok(image, function, "image"))
        return false;
    if (image->ndim >= 3 && image->shape[image->ndim - 1] == 3)
        return true;
    mx_shape_t shape = mx_array_shape(image);
    mx_fail(MX_ERR_SHAPE, "%s: image has shape %s, wanted (H, W, 3)", function, mx_shape_text(&shape, text));
    return false;
}

/* Numbers as an array on the image's context. */
static mx_array *beside(const mx_array *image, mx_dims shape, const double *numbers)
{
    float values[9];
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++)
        n *= shape.d[i];
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)numbers[i];
    mx_array *x = mx_array_from(shape, MX_FLOAT32, values);
    if (x && image->dtype == MX_FLOAT64)
        x = mx_cast(x, .dtype = MX_FLOAT64);
    return x ? mx_array_to(x, image->context) : NULL;
}

/* (H, W, 1) */
static mx_array *gray_of(mx_array *image)
{
    mx_array *weights = beside(image, MX_DIMS(3), (double[]){MX_RED, MX_GREEN, MX_BLUE});
    return mx_sum(mx_mul(image, weights), .axis = MX_DIMS(image->ndim - 1), .keepdims = true);
}

static mx_array *times(mx_array *x, double factor) { return mx_mul_scalar(x, .scalar = factor, .is_int = false); }

mx_array *mx_image_brightness(mx_array *image, double alpha)
{
    return image && mx_array_ok(image, "mx_image_brightness", "image") ? times(image, alpha) : NULL;
}

mx_array *mx_image_contrast(mx_array *image, double alpha)
{
    if (!colours_ok(image, "mx_image_contrast"))
        return NULL;
    const double pixels = (double)(image->size / 3);
    return mx_add(times(image, alpha), times(mx_sum(gray_of(image)), (1 - alpha) / pixels));
}

mx_array *mx_image_saturation(mx_array *image, double alpha)
{
    if (!colours_ok(image, "mx_image_saturation"))
        return NULL;
    return mx_add(times(image, alpha), times(gray_of(image), 1 - alpha));
}

/* c = a b, 3 x 3 */
static void multiply(const double *a, const double *b, double *c)
{
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            c[3 * i + k] = a[3 * i] * b[k] + a[3 * i + 1] * b[3 + k] + a[3 * i + 2] * b[6 + k];
}

mx_array *mx_image_hue(mx_array *image, double alpha)
{
    static const double to_yiq[9] = {0.299, 0.587, 0.114, 0.596, -0.274, -0.321, 0.211, -0.523, 0.311},
                        from_yiq[9] = {1, 0.956, 0.621, 1, -0.272, -0.647, 1, -1.107, 1.705};
    const double u = cos(alpha * HALF_ROUND), w = sin(alpha * HALF_ROUND);
    double half[9], matrix[9], transposed[9];
    if (!colours_ok(image, "mx_image_hue"))
        return NULL;
    multiply(from_yiq, (double[]){1, 0, 0, 0, u, -w, 0, w, u}, half);
    multiply(half, to_yiq, matrix);
    for (int i = 0; i < 9; i++)
        transposed[i] = matrix[i % 3 * 3 + i / 3];
    return mx_dot(image, beside(image, MX_DIMS(3, 3), transposed));
}

mx_array *mx_image_lighting(mx_array *image, const double *alpha, const double *eigval, const double *eigvec)
{
    double shift[3];
    if (!colours_ok(image, "mx_image_lighting"))
        return NULL;
    if (!alpha)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_image_lighting: alpha is NULL, wanted three strengths");
    for (int c = 0; c < 3; c++)
        shift[c] = mx_colour_shift(eigval ? eigval : mx_image_eigval, eigvec ? eigvec : mx_image_eigvec, c, alpha);
    return mx_add(image, beside(image, MX_DIMS(3), shift));
}

mx_array *mx_image_gray(mx_array *image)
{
    static const double mix[9] = {0.21, 0.21, 0.21, 0.72, 0.72, 0.72, 0.07, 0.07, 0.07};
    if (!colours_ok(image, "mx_image_gray"))
        return NULL;
    const mx_dtype type = (mx_dtype)image->dtype;
    mx_array *x = type == MX_FLOAT32 ? image : mx_cast(image, .dtype = MX_FLOAT32);
    mx_array *gray = x ? mx_dot(x, beside(x, MX_DIMS(3, 3), mix)) : NULL;
    return gray && type != MX_FLOAT32 ? mx_cast(gray, .dtype = type) : gray;
}

mx_array *mx_image_color_normalize(mx_array *image, mx_array *mean, mx_array *std)
{
    if (mean == MX_NONE && std == MX_NONE)
        return image && mx_array_ok(image, "mx_image_color_normalize", "image") ? image : NULL;
    mx_array *shifted = mean == MX_NONE ? image : mx_sub(image, mean);
    return !shifted || std == MX_NONE ? shifted : mx_div(shifted, std);
}
