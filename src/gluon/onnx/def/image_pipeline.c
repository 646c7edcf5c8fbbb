/* Operators of image pipelines, on (H, W, C) or (N, H, W, C).  SPDX-License-Identifier: Apache-2.0
 *
 * Sizes and strengths are numbers of the network, so what an operator does to one axis or to the channels is a constant
 * matrix; random strengths are drawn by ONNX. */
#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"
#include "op/formula/image.h"
#include "op/formula/resample.h"

/* ---- parts ----------------------------------------------------------------------------------------------------- */

static mx_code write_crop(mx_onnx_out *o)
{
    const mx_image_crop_attrs *a = o->attrs;
    const char *rows = mx_onnx_put_part(o, NULL, o->in[0], -3, a->y, a->y + a->height);
    mx_onnx_put_part(o, o->out[0], rows, -2, a->x, a->x + a->width);
    return mx_onnx_done(o);
}

static mx_code write_flip_columns(mx_onnx_out *o)
{
    return mx_onnx_put_flipped(o, o->out[0], o->in[0], -2), mx_onnx_done(o);
}
static mx_code write_flip_rows(mx_onnx_out *o)
{
    return mx_onnx_put_flipped(o, o->out[0], o->in[0], -3), mx_onnx_done(o);
}

/* Crop on (N, C, H, W): the result's size is known, the corner follows from it. */
static mx_code write_crop_images(mx_onnx_out *o)
{
    const mx_crop_attrs *a = o->attrs;
    const mx_shape_t *x = &o->in_shape[0], *y = &o->out_shape[0];
    const char *part = o->in[0];
    for (int i = 0; i < 2; i++) {
        if (x->ndim != 4 || y->ndim != 4 || y->dim[i + 2] < 0 || (a->center_crop && x->dim[i + 2] < 0))
            return mx_onnx_refuse(o, "the size of its result is not known; give the shapes of the inputs");
        const int64_t begin = a->center_crop    ? (x->dim[i + 2] - y->dim[i + 2]) / 2
                              : a->offset.n > i ? a->offset.d[i]
                                                : 0;
        part = mx_onnx_put_part(o, i ? o->out[0] : NULL, part, i + 2, begin, begin + y->dim[i + 2]);
    }
    return mx_onnx_done(o);
}

/* ---- borders --------------------------------------------------------------------------------------------------- */

/* Rows or columns by number; those of a constant border are 0, and replaced later. */
static const char *put_border(mx_onnx_out *o, const char *x, int64_t axis, int64_t before, int64_t after, int64_t type)
{
    const int64_t size = o->in_shape[0].dim[o->in_shape[0].ndim + axis];
    mx_array *from = mx_onnx_cast(mx_zeros(.shape = MX_DIMS(before + size + after)), MX_INT64);
    int64_t *to = from ? mx_data(from) : NULL;
    for (int64_t i = 0; to && i < before + size + after; i++) {
        const int64_t at = mx_border_fold(i - before, size, type);
        to[i] = at < 0 ? 0 : at;
    }
    return mx_onnx_put_choice(o, NULL, x, mx_onnx_put_array(o, from), axis);
}

/* Ones inside of a border, (h, w, 1). */
static mx_array *inside(const mx_cvcopyMakeBorder_attrs *a, int64_t high, int64_t wide)
{
    mx_array *x = mx_ones(.shape = MX_DIMS(high, wide, 1));
    return mx_cast(mx_copy_make_border(x, .top = a->top, .bot = a->bot, .left = a->left, .right = a->right),
                   .dtype = MX_BOOL);
}

static mx_code write_border(mx_onnx_out *o)
{
    const mx_cvcopyMakeBorder_attrs *a = o->attrs;
    const mx_shape_t *x = &o->in_shape[0];
    if (x->ndim < 3 || x->dim[x->ndim - 3] < 1 || x->dim[x->ndim - 2] < 1)
        return mx_onnx_refuse(o, "the size of its image is not known; give the shapes of the inputs");
    const char *y = put_border(o, o->in[0], -3, a->top, a->bot, a->type);
    y = put_border(o, y, -2, a->left, a->right, a->type);
    if (a->type)
        return mx_onnx_put(o, o->out[0], "Identity", y), mx_onnx_done(o);
    const char *mask = mx_onnx_put_array(o, inside(a, x->dim[x->ndim - 3], x->dim[x->ndim - 2]));
    const char *number = a->values.n > 0 ? mx_onnx_put_floats(o, a->values.n, a->values.d, o->in_type[0])
                                         : mx_onnx_put_number(o, a->value, o->in_type[0]);
    mx_onnx_put(o, o->out[0], "Where", mask, y, number);
    return mx_onnx_done(o);
}

/* ---- sizes ----------------------------------------------------------------------------------------------------- */

/* (out, in): the share of each row of the source in each row of the result. */
static mx_array *shares(const mx_resample *r)
{
    mx_array *matrix = mx_zeros(.shape = MX_DIMS(r->out, r->in));
    const size_t bytes = (size_t)mx_resample_most(r) * sizeof(double);
    double *weight = matrix ? mx_alloc(bytes) : NULL;
    float *to = weight ? mx_data(matrix) : NULL;
    for (int64_t i = 0; to && i < r->out; i++) {
        int64_t first;
        const int64_t n = mx_resample_weights(r, i, &first, weight);
        for (int64_t k = 0; k < n; k++) {
            const int64_t at = first + k < 0 ? 0 : first + k >= r->in ? r->in - 1 : first + k;
            to[i * r->in + at] += (float)weight[k];
        }
    }
    mx_free(weight, weight ? bytes : 0);
    return to ? matrix : NULL;
}

/* Back to the type of the input: integers are rounded, and stay in their range. */
static void put_rounded(mx_onnx_out *o, const char *x)
{
    const mx_dtype type = (mx_dtype)o->in_type[0];
    if (!mx_dtype_is_float(type)) {
        const char *low = mx_onnx_put_number(o, mx_colour_min(type), MX_FLOAT32),
                   *high = mx_onnx_put_number(o, mx_colour_max(type), MX_FLOAT32);
        x = mx_onnx_put(o, NULL, "Clip", mx_onnx_put(o, NULL, "Round", x), low, high);
    }
    mx_onnx_put_cast(o, o->out[0], x, type);
}

/* Rows, then columns, are products with matrices: (N, C, H, W) with channels first for that time. */
static mx_code write_resize(mx_onnx_out *o, int64_t interp)
{
    const mx_shape_t *x = &o->in_shape[0], *y = &o->out_shape[0];
    const int n = x->ndim;
    if (n < 3 || y->ndim != n || x->dim[n - 3] < 1 || x->dim[n - 2] < 1 || y->dim[n - 3] < 1 || y->dim[n - 2] < 1)
        return mx_onnx_refuse(o, "the size of its image is not known; give the shapes of the inputs");
    const bool shrinks = y->dim[n - 3] <= x->dim[n - 3] && y->dim[n - 2] <= x->dim[n - 2];
    const mx_resample rows = mx_resample_axis((int)interp, x->dim[n - 3], y->dim[n - 3], shrinks),
                      columns = mx_resample_axis((int)interp, x->dim[n - 2], y->dim[n - 2], shrinks);
    const int64_t first[4] = {n == 3 ? 2 : 0, n == 3 ? 0 : 3, 1, 2}, last[4] = {n == 3 ? 1 : 0, 2, n == 3 ? 0 : 3, 1};
    const char *image = mx_onnx_put_ordered(o, NULL, mx_onnx_put_cast(o, NULL, o->in[0], MX_FLOAT32), n, first);
    const char *a = mx_onnx_put_array(o, shares(&rows)), *b = mx_onnx_put_array(o, mx_transpose(shares(&columns)));
    image = mx_onnx_put(o, NULL, "MatMul", mx_onnx_put(o, NULL, "MatMul", a, image), b);
    put_rounded(o, mx_onnx_put_ordered(o, NULL, image, n, last));
    return mx_onnx_done(o);
}

static mx_code write_image_resize(mx_onnx_out *o)
{
    return write_resize(o, ((const mx_image_resize_attrs *)o->attrs)->interp);
}
static mx_code write_cv_resize(mx_onnx_out *o)
{
    return write_resize(o, ((const mx_cvimresize_attrs *)o->attrs)->interp);
}

/* ---- tensors --------------------------------------------------------------------------------------------------- */

static mx_code write_to_tensor(mx_onnx_out *o)
{
    const int rank = mx_onnx_out_rank(o, 0);
    const int64_t one[3] = {2, 0, 1}, many[4] = {0, 3, 1, 2};
    if (rank < 0)
        return mx_error_code();
    const char *x = mx_onnx_put_cast(o, NULL, o->in[0], MX_FLOAT32);
    x = mx_onnx_put(o, NULL, "Div", x, mx_onnx_put_number(o, 255, MX_FLOAT32));
    mx_onnx_put_ordered(o, o->out[0], x, rank, rank == 3 ? one : many);
    return mx_onnx_done(o);
}

/* One number per channel of (C, H, W). */
static const char *put_channels(mx_onnx_out *o, const mx_floats *numbers)
{
    const char *list = mx_onnx_put_floats(o, numbers->n, numbers->d, o->in_type[0]);
    return mx_onnx_put_shaped(o, NULL, list, MX_ONNX_LIST(-1, 1, 1));
}

static mx_code write_normalize(mx_onnx_out *o)
{
    const mx_image_normalize_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    mx_floats mean = a->mean, std = a->std;
    const int64_t channels = rank < 3 ? -1 : o->in_shape[0].dim[rank - 3];
    if (channels < 1 && (mean.n > 1 || std.n > 1))
        return mx_onnx_refuse(o, "the number of channels is not known; give the shapes of the inputs");
    mean.n = mean.n > channels && channels > 0 ? (int32_t)channels : mean.n;
    std.n = std.n > channels && channels > 0 ? (int32_t)channels : std.n;
    const char *centred = mx_onnx_put(o, NULL, "Sub", o->in[0], put_channels(o, &mean));
    mx_onnx_put(o, o->out[0], "Div", centred, put_channels(o, &std));
    return mx_onnx_done(o);
}

/* ---- colours --------------------------------------------------------------------------------------------------- */

static const char *with(mx_onnx_out *o, const char *op, const char *x, double number)
{
    return mx_onnx_put(o, NULL, op, x, mx_onnx_put_number(o, number, MX_FLOAT32));
}

/* Back to the type of the input: fractions of integers are cut. */
static void put_whole(mx_onnx_out *o, const char *x)
{
    const mx_dtype type = (mx_dtype)o->in_type[0];
    if (!mx_dtype_is_float(type)) {
        const char *little = with(o, "Mul", mx_onnx_put(o, NULL, "Sign", x), 1e-6);
        const char *low = mx_onnx_put_number(o, mx_colour_min(type), MX_FLOAT32),
                   *high = mx_onnx_put_number(o, mx_colour_max(type), MX_FLOAT32);
        x = mx_onnx_put(o, NULL, "Clip", mx_onnx_put(o, NULL, "Add", x, little), low, high);
    }
    mx_onnx_put_cast(o, o->out[0], x, type);
}

/* n strengths per image, (1, 1, n) or (N, 1, 1, n): normal (mean, deviation) or uniform (low, high) */
static const char *put_strength(mx_onnx_out *o, bool normal, double a, double b, int64_t n)
{
    const int rank = o->in_shape[0].ndim;
    const char *x = mx_onnx_put_cast(o, NULL, o->in[0], MX_FLOAT32);
    for (int i = 1; i <= 3; i++) /* one element of each image */
        x = mx_onnx_put_part(o, NULL, x, rank - i, 0, 1);
    if (n > 1)
        x = mx_onnx_put(o, NULL, "Expand", x, mx_onnx_put_ints(o, MX_ONNX_LIST(1, 1, n)));
    const char *y = mx_onnx_put(o, NULL, normal ? "RandomNormalLike" : "RandomUniformLike", x);
    mx_onnx_set_float(o, normal ? "mean" : "low", a);
    mx_onnx_set_float(o, normal ? "scale" : "high", b);
    return y;
}

/* Grey values of pixels, (..., 1). */
static const char *put_grey(mx_onnx_out *o, const char *x, int64_t channels)
{
    const double share[3] = {MX_RED, MX_GREEN, MX_BLUE};
    return channels == 1
               ? x
               : mx_onnx_put_reduce(o, NULL, "ReduceSum",
                                    mx_onnx_put(o, NULL, "Mul", x, mx_onnx_put_floats(o, 3, share, MX_FLOAT32)),
                                    MX_ONNX_LIST(-1), true);
}

/* A blend with black, the mean grey value of the image, or that of the pixel. */
static mx_code write_blend(mx_onnx_out *o, bool contrast, bool saturation)
{
    const mx_image_random_factor_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    if (rank < 3)
        return mx_onnx_refuse(o, "only images can be written");
    const char *x = mx_onnx_put_cast(o, NULL, o->in[0], MX_FLOAT32);
    const char *alpha = put_strength(o, false, a->min_factor, a->max_factor, 1);
    const char *y = mx_onnx_put(o, NULL, "Mul", x, alpha);
    if (contrast || saturation) {
        const char *grey = put_grey(o, x, o->in_shape[0].dim[rank - 1]);
        grey = contrast ? mx_onnx_put_reduce(o, NULL, "ReduceMean", grey, MX_ONNX_LIST(-3, -2, -1), true) : grey;
        const char *rest = mx_onnx_put(o, NULL, "Sub", mx_onnx_put_number(o, 1, MX_FLOAT32), alpha);
        y = mx_onnx_put(o, NULL, "Add", y, mx_onnx_put(o, NULL, "Mul", rest, grey));
    }
    put_whole(o, y);
    return mx_onnx_done(o);
}
static mx_code write_brightness(mx_onnx_out *o) { return write_blend(o, false, false); }
static mx_code write_contrast(mx_onnx_out *o) { return write_blend(o, true, false); }
static mx_code write_saturation(mx_onnx_out *o) { return write_blend(o, false, true); }

/* Strengths along three directions of colour, times a matrix: what is added to the channels. */
static mx_code write_shifted(mx_onnx_out *o, const char *alpha)
{
    double matrix[9]; /* (strength, channel) */
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < 3; c++)
            matrix[3 * i + c] = mx_lighting_shift(c, (double[3]){i == 0, i == 1, i == 2});
    const char *x = mx_onnx_put_cast(o, NULL, o->in[0], MX_FLOAT32);
    if (o->in_shape[0].dim[o->in_shape[0].ndim - 1] == 3) {
        mx_array *directions = mx_onnx_constant(MX_DIMS(3, 3), MX_FLOAT32, matrix);
        x = mx_onnx_put(o, NULL, "Add", x, mx_onnx_put(o, NULL, "MatMul", alpha, mx_onnx_put_array(o, directions)));
    }
    put_whole(o, x);
    return mx_onnx_done(o);
}

static mx_code write_lighting(mx_onnx_out *o)
{
    const mx_image_adjust_lighting_attrs *a = o->attrs;
    return mx_onnx_out_rank(o, 0) < 3 ? mx_onnx_refuse(o, "only images can be written")
                                      : write_shifted(o, mx_onnx_put_floats(o, 3, a->alpha.d, MX_FLOAT32));
}

static mx_code write_random_lighting(mx_onnx_out *o)
{
    const mx_image_random_lighting_attrs *a = o->attrs;
    return mx_onnx_out_rank(o, 0) < 3 ? mx_onnx_refuse(o, "only images can be written")
                                      : write_shifted(o, with(o, "Mul", put_strength(o, true, 0, 1, 3), a->alpha_std));
}

/* Half of the images. */
static mx_code write_random_flip(mx_onnx_out *o, int64_t axis)
{
    if (mx_onnx_out_rank(o, 0) < 3)
        return mx_onnx_refuse(o, "only images can be written");
    const char *draw = put_strength(o, false, 0, 1, 1);
    const char *heads = with(o, "Less", draw, 0.5);
    const char *flipped = mx_onnx_put_flipped(o, NULL, o->in[0], axis);
    mx_onnx_put(o, o->out[0], "Where", heads, flipped, o->in[0]);
    return mx_onnx_done(o);
}
static mx_code write_random_columns(mx_onnx_out *o) { return write_random_flip(o, -2); }
static mx_code write_random_rows(mx_onnx_out *o) { return write_random_flip(o, -3); }

const mx_onnx_row mx_onnx_image_pipeline[] = {
    WRITE(NULL, "_image_crop", write_crop),
    WRITE(NULL, "_image_flip_left_right", write_flip_columns),
    WRITE(NULL, "_image_flip_top_bottom", write_flip_rows),
    WRITE(NULL, "Crop", write_crop_images),
    WRITE(NULL, "_cvcopyMakeBorder", write_border),
    WRITE(NULL, "_image_resize", write_image_resize),
    WRITE(NULL, "_cvimresize", write_cv_resize),
    WRITE(NULL, "_image_to_tensor", write_to_tensor),
    WRITE(NULL, "_image_normalize", write_normalize),
    WRITE(NULL, "_image_adjust_lighting", write_lighting),
    WRITE(NULL, "_image_random_lighting", write_random_lighting),
    WRITE(NULL, "_image_random_brightness", write_brightness),
    WRITE(NULL, "_image_random_contrast", write_contrast),
    WRITE(NULL, "_image_random_saturation", write_saturation),
    WRITE(NULL, "_image_random_flip_left_right", write_random_columns),
    WRITE(NULL, "_image_random_flip_top_bottom", write_random_rows),
    {0}};
