/* Resizing and sampling of images, regions.  SPDX-License-Identifier: Apache-2.0
 *
 * Resizing is separable: along each axis a matrix of weights (results, elements), computed here. */
#include <math.h>
#include <string.h>

#include "exec/list.h"
#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* ---- Resize ---------------------------------------------------------------------------------------------------- */

typedef struct resizing {
    char mode[64], nearest[64], coordinates[64];
    double a, start, end; /* cubic coefficient; region of tf_crop_and_resize */
    bool exclude, antialias;
} resizing;

static double original(const resizing *r, double x, double scale, int64_t in, int64_t out)
{
    const char *c = r->coordinates;
    if (!strcmp(c, "align_corners"))
        return out == 1 ? 0 : x * (double)(in - 1) / (scale * (double)in - 1);
    if (!strcmp(c, "asymmetric"))
        return x / scale;
    if (!strcmp(c, "pytorch_half_pixel"))
        return out > 1 ? (x + 0.5) / scale - 0.5 : 0;
    if (!strcmp(c, "tf_crop_and_resize"))
        return out > 1 ? r->start * (double)(in - 1) + x * (r->end - r->start) * (double)(in - 1) / (double)(out - 1)
                       : 0.5 * (r->start + r->end) * (double)(in - 1);
    const double adjustment = (double)out / (scale * (double)in);
    const double offset = strcmp(c, "half_pixel_symmetric") ? 0 : (double)in / 2 * (1 - adjustment);
    return offset + (x + 0.5) / scale - 0.5;
}

static int64_t nearest(const resizing *r, double x)
{
    return (int64_t)(!strcmp(r->nearest, "floor")               ? floor(x)
                     : !strcmp(r->nearest, "ceil")              ? ceil(x)
                     : !strcmp(r->nearest, "round_prefer_ceil") ? floor(x + 0.5)
                                                                : ceil(x - 0.5));
}

static double kernel(const resizing *r, double d)
{
    d = fabs(d);
    if (r->mode[0] == 'l')
        return d < 1 ? 1 - d : 0;
    if (d <= 1)
        return ((r->a + 2) * d - (r->a + 3)) * d * d + 1;
    return d < 2 ? ((r->a * d - 5 * r->a) * d + 8 * r->a) * d - 4 * r->a : 0;
}

/* One row of weights. */
static void fill_row(const resizing *r, double *row, int64_t in, double x, double scale)
{
    const double wide = r->antialias && scale < 1 ? 1 / scale : 1, reach = (r->mode[0] == 'l' ? 1 : 2) * wide;
    double sum = 0;
    if (r->mode[0] == 'n') {
        const int64_t k = nearest(r, x);
        row[k < 0 ? 0 : k >= in ? in - 1 : k] = 1;
        return;
    }
    for (int64_t k = (int64_t)floor(x - reach); k <= (int64_t)ceil(x + reach); k++) {
        const double w = kernel(r, ((double)k - x) / wide);
        if (r->exclude && (k < 0 || k >= in))
            continue;
        row[k < 0 ? 0 : k >= in ? in - 1 : k] += w;
        sum += w;
    }
    for (int64_t k = 0; (r->exclude || wide != 1) && sum != 0 && k < in; k++)
        row[k] /= sum;
}

/* x along `axis` from `in` to `out` elements. */
static mx_array *resize_axis(const resizing *r, mx_array *x, int axis, int64_t in, int64_t out, double scale)
{
    const mx_shape_t shape = {.ndim = 2, .dim = {out, in}};
    mx_array *w = mx_scope_add(mx_array_new(&shape, MX_FLOAT64, mx_cpu(0)));
    double *rows = w ? mx_data(w) : NULL;
    if (!w || !x)
        return NULL;
    memset(rows, 0, (size_t)(out * in) * sizeof *rows);
    for (int64_t i = 0; i < out; i++)
        fill_row(r, rows + i * in, in, original(r, (double)i, scale, in, out), scale);
    const mx_dtype type = (mx_dtype)x->dtype, wide = mx_dtype_is_float(type) ? type : MX_FLOAT32;
    const int last = x->ndim - 1;
    mx_array *y = mx_onnx_cast(axis == last ? x : mx_swapaxes(x, .dim1 = axis, .dim2 = last), wide);
    y = mx_dot(y, mx_transpose(mx_onnx_cast(w, wide)));
    y = axis == last ? y : mx_swapaxes(y, .dim1 = axis, .dim2 = last);
    return mx_onnx_cast(y, type);
}

/* 1 inside the image, 0 where coordinates are outside of it, along an axis. */
static mx_array *inside_axis(const resizing *r, int rank, int axis, int64_t in, int64_t out, double scale,
                             mx_dtype type)
{
    mx_dims shape = {.n = rank};
    double *numbers = mx_alloc_zero((size_t)out * sizeof *numbers + 1);
    for (int i = 0; i < rank; i++)
        shape.d[i] = i == axis ? out : 1;
    for (int64_t i = 0; numbers && i < out; i++) {
        const double x = original(r, (double)i, scale, in, out);
        numbers[i] = x >= 0 && x <= (double)(in - 1);
    }
    mx_array *y = numbers ? mx_onnx_constant(shape, type, numbers) : NULL;
    mx_free(numbers, (size_t)out * sizeof *numbers + 1);
    return y;
}

static bool take_numbers(mx_onnx_in *n, int i, mx_floats *numbers)
{
    *numbers = (mx_floats){.n = -1};
    if (!mx_onnx_given(n, i) || (n->value[i] && !n->value[i]->size))
        return true;
    if (!n->value[i] || n->value[i]->size > MX_MAX_TUPLE)
        return !mx_onnx_fail(n, MX_ERR_UNSUPPORTED,
                             "its input %d ('%s') is computed from the network's inputs; it must be constant", i,
                             n->in_name[i]);
    numbers->n = (int32_t)n->value[i]->size;
    return !mx_array_read_doubles(n->value[i], numbers->d, numbers->n);
}

static mx_code resize(mx_onnx_in *n, resizing *r, mx_floats scales, mx_floats sizes, mx_floats roi)
{
    mx_dims axes;
    const int rank = mx_onnx_rank(n, 0);
    char policy[64];
    if (rank < 0 || !mx_onnx_ints(n, "axes", &axes))
        return mx_error_code();
    const int count = axes.n >= 0 ? axes.n : rank, given = sizes.n > 0 ? sizes.n : scales.n;
    if (given != count)
        return mx_onnx_fail(n, MX_ERR_FILE, "%d scales or sizes for %d axes", given, count);
    double same = NAN;
    mx_onnx_text(n, "keep_aspect_ratio_policy", policy, "stretch");
    for (int i = 0; i < count; i++) {
        int64_t axis = axes.n >= 0 ? axes.d[i] : i;
        if (!mx_onnx_axis(n, &axis, rank))
            return mx_error_code();
        if (sizes.n > 0 && strcmp(policy, "stretch")) {
            const double s = sizes.d[i] / (double)n->in[0]->shape[axis];
            same = isnan(same) || (strcmp(policy, "not_larger") ? s > same : s < same) ? s : same;
        }
    }
    mx_array *x = n->in[0], *inside = NULL;
    for (int i = 0; i < count; i++) {
        int64_t axis = axes.n >= 0 ? axes.d[i] : i;
        axis += axis < 0 ? rank : 0;
        const int64_t in = x ? x->shape[axis] : -1;
        if (x && in < 0 && !axis && sizes.n > 0 && mx_onnx_is_unknown((int64_t)sizes.d[i]))
            continue; /* a batch is passed through */
        if (!x || (in < 0 && ((sizes.n > 0) || scales.d[i] != 1)))
            return x ? mx_onnx_fail(n, MX_ERR_SHAPE, "the size of axis %d is not known; give the shapes of the inputs",
                                    (int)axis)
                     : mx_error_code();
        const double scale = !isnan(same) ? same : sizes.n > 0 ? sizes.d[i] / (double)in : scales.d[i];
        const int64_t out = !isnan(same)  ? (int64_t)floor(same * (double)in + 0.5)
                            : sizes.n > 0 ? (int64_t)sizes.d[i]
                                          : (int64_t)floor((double)in * scale);
        r->start = roi.n == 2 * count ? roi.d[i] : 0;
        r->end = roi.n == 2 * count ? roi.d[i + count] : 1;
        const bool crop = !strcmp(r->coordinates, "tf_crop_and_resize");
        if (in < 0 || (out == in && scale == 1 && !crop))
            continue;
        if (out > (1 << 20) || out * in > (INT64_C(1) << 28))
            return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "a result with %lld elements along an axis", (long long)out);
        if (out < 1 || in < 1)
            return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "a result without elements");
        if (crop) {
            mx_array *own = inside_axis(r, rank, (int)axis, in, out, scale, (mx_dtype)x->dtype);
            inside = inside ? mx_mul(inside, own) : own;
        }
        x = resize_axis(r, x, (int)axis, in, out, scale);
    }
    if (inside) {
        const double value = mx_onnx_float(n, "extrapolation_value", 0);
        x = mx_add(mx_mul(x, inside), mx_mul_scalar(mx_rminus_scalar(inside, .scalar = 1), .scalar = value));
    }
    n->out[0] = x == n->in[0] ? mx_copy(x) : x;
    return MX_OK;
}

static mx_code read_resize(mx_onnx_in *n)
{
    resizing r = {.a = mx_onnx_float(n, "cubic_coeff_a", -0.75), .exclude = mx_onnx_int(n, "exclude_outside", 0),
                  .antialias = mx_onnx_int(n, "antialias", 0)};
    const bool old = n->opset < 11 || n->op[0] == 'U';
    mx_floats scales, sizes = {.n = -1}, roi = {.n = -1};
    mx_onnx_text(n, "mode", r.mode, "nearest");
    mx_onnx_text(n, "nearest_mode", r.nearest, old ? "floor" : "round_prefer_floor");
    mx_onnx_text(n, "coordinate_transformation_mode", r.coordinates, old ? "asymmetric" : "half_pixel");
    if (mx_onnx_has(n, "scales") ? !mx_onnx_floats(n, "scales", &scales) : !take_numbers(n, old ? 1 : 2, &scales))
        return mx_error_code();
    if (!old && (!take_numbers(n, 1, &roi) || !take_numbers(n, 3, &sizes)))
        return mx_error_code();
    return resize(n, &r, scales, sizes, roi);
}

/* Output sizes are numbers: nearest, or bilinear with aligned corners or pixel centres. */
static const char *put_nearest(mx_onnx_out *o, const char *out, const char *x, double high, double wide)
{
    const double scales[4] = {1, 1, high, wide};
    const char *y = mx_onnx_put(o, out, "Resize", x, NULL, mx_onnx_put_floats(o, 4, scales, MX_FLOAT32));
    mx_onnx_set_text(o, "mode", "nearest");
    mx_onnx_set_text(o, "coordinate_transformation_mode", "asymmetric");
    mx_onnx_set_text(o, "nearest_mode", "floor");
    return y;
}

/* A transposed convolution of each channel with a given filter. */
static mx_code write_filtered(mx_onnx_out *o, int64_t scale)
{
    const int64_t size = 2 * scale - scale % 2, pad = scale / 2,
                  channels = o->in_shape[0].ndim == 4 ? o->in_shape[0].dim[1] : -1;
    if (channels < 1)
        return mx_onnx_refuse(o, "the number of channels is not known; give the shapes of the inputs");
    mx_onnx_put(o, o->out[0], "ConvTranspose", o->in[0], o->in[1]);
    mx_onnx_set_ints(o, "kernel_shape", MX_ONNX_LIST(size, size));
    mx_onnx_set_ints(o, "strides", MX_ONNX_LIST(scale, scale));
    mx_onnx_set_ints(o, "pads", MX_ONNX_LIST(pad, pad, pad, pad));
    mx_onnx_set_int(o, "group", channels);
    return mx_onnx_done(o);
}

/* Several arrays get the size of the first one's result, and are joined or added. */
static mx_code write_upsampling(mx_onnx_out *o)
{
    const mx_upsampling_attrs *a = o->attrs;
    if (a->sample_type != MX_UPSAMPLING_NEAREST)
        return write_filtered(o, a->scale);
    if (o->n_in == 1)
        return put_nearest(o, o->out[0], o->in[0], (double)a->scale, (double)a->scale), mx_onnx_done(o);
    const char **parts = (const char **)(void *)mx_list_new(o->n_in);
    for (int i = 0; parts && i < o->n_in; i++) {
        const mx_shape_t *x = &o->in_shape[i], *first = &o->in_shape[0];
        if (x->ndim != 4 || x->dim[2] < 1 || x->dim[3] < 1 || first->dim[2] < 1 || first->dim[3] < 1)
            return mx_onnx_refuse(o, "the sizes of its images are not known; give the shapes of the inputs");
        parts[i] = put_nearest(o, NULL, o->in[i], (double)(first->dim[2] * a->scale / x->dim[2]),
                               (double)(first->dim[3] * a->scale / x->dim[3]));
    }
    if (!parts)
        return mx_error_code();
    const bool sum = a->multi_input_mode == MX_UPSAMPLING_SUM;
    mx_onnx_node(o, o->out[0], sum ? "Sum" : "Concat", o->n_in, parts);
    if (!sum)
        mx_onnx_set_int(o, "axis", 1);
    return mx_onnx_done(o);
}

static mx_code write_bilinear_resize(mx_onnx_out *o)
{
    const mx_bilinear_resize_attrs *a = o->attrs;
    const mx_shape_t *y = &o->out_shape[0];
    if (y->ndim != 4 || y->dim[2] < 0 || y->dim[3] < 0 || o->in_shape[0].dim[1] < 0)
        return mx_onnx_refuse(o, "the size of its result is not known; give the shapes of the inputs");
    const char *shape = mx_onnx_put(o, NULL, "Shape", o->in[0]);
    const char *lead = mx_onnx_put(o, NULL, "Slice", shape, mx_onnx_put_ints(o, MX_ONNX_LIST(0)),
                                   mx_onnx_put_ints(o, MX_ONNX_LIST(2)));
    const char *sizes = mx_onnx_put(o, NULL, "Concat", lead, mx_onnx_put_ints(o, MX_ONNX_LIST(y->dim[2], y->dim[3])));
    mx_onnx_set_int(o, "axis", 0);
    mx_onnx_put(o, o->out[0], "Resize", o->in[0], NULL, NULL, sizes);
    mx_onnx_set_text(o, "mode", "linear");
    mx_onnx_set_text(o, "coordinate_transformation_mode", a->align_corners ? "align_corners" : "half_pixel");
    return mx_onnx_done(o);
}

/* (out, in): the share of each row in each window; borders of windows are rounded outwards. */
static mx_array *windows(int64_t in, int64_t out)
{
    mx_array *matrix = mx_zeros(.shape = MX_DIMS(out, in));
    float *to = matrix ? mx_data(matrix) : NULL;
    for (int64_t i = 0; to && i < out; i++) {
        const int64_t begin = i * in / out, end = ((i + 1) * in + out - 1) / out;
        for (int64_t k = begin; k < end; k++)
            to[i * in + k] = 1 / (float)(end - begin);
    }
    return matrix;
}

/* An average pooling where windows are equal, else products with matrices. */
static mx_code write_adaptive(mx_onnx_out *o)
{
    const mx_shape_t *x = &o->in_shape[0], *y = &o->out_shape[0];
    if (x->ndim != 4 || y->ndim != 4)
        return mx_onnx_refuse(o, "shapes are not known");
    if (y->dim[2] == 1 && y->dim[3] == 1) {
        mx_onnx_put(o, o->out[0], "GlobalAveragePool", o->in[0]);
        return mx_onnx_done(o);
    }
    for (int i = 2; i < 4; i++)
        if (x->dim[i] < 1 || y->dim[i] < 1)
            return mx_onnx_refuse(o, "the size of its image is not known; give the shapes of the inputs");
    if (x->dim[2] % y->dim[2] == 0 && x->dim[3] % y->dim[3] == 0) {
        const int64_t size[2] = {x->dim[2] / y->dim[2], x->dim[3] / y->dim[3]};
        mx_onnx_put(o, o->out[0], "AveragePool", o->in[0]);
        mx_onnx_set_ints(o, "kernel_shape", 2, size);
        mx_onnx_set_ints(o, "strides", 2, size);
        return mx_onnx_done(o);
    }
    const mx_dtype type = (mx_dtype)o->in_type[0];
    const char *rows = mx_onnx_put_array(o, mx_onnx_cast(windows(x->dim[2], y->dim[2]), type));
    mx_array *columns = mx_onnx_cast(mx_transpose(windows(x->dim[3], y->dim[3])), type);
    mx_onnx_put(o, o->out[0], "MatMul", mx_onnx_put(o, NULL, "MatMul", rows, o->in[0]), mx_onnx_put_array(o, columns));
    return mx_onnx_done(o);
}

/* ---- sampling -------------------------------------------------------------------------------------------------- */

/* Pixel coordinates of one component of the grid, inside the image as the padding wants it, back in [-1, 1]. */
static mx_array *coordinates(mx_array *grid, int component, int64_t size, bool align, const char *padding, bool round)
{
    mx_array *g = mx_slice_axis(grid, .axis = -1, .begin = component, .end = component + 1);
    mx_array *u =
        align ? mx_mul_scalar(mx_plus_scalar(g, .scalar = 1), .scalar = (double)(size - 1) / 2)
              : mx_mul_scalar(
                    mx_minus_scalar(mx_mul_scalar(mx_plus_scalar(g, .scalar = 1), .scalar = (double)size), .scalar = 1),
                    .scalar = 0.5);
    if (round && !strcmp(padding, "zeros"))
        u = mx_rint(u);
    if (!strcmp(padding, "reflection")) { /* a triangle wave between the borders */
        const double low = align ? 0 : -0.5, span = align ? (double)(size - 1) : (double)size;
        mx_array *t = mx_abs(mx_minus_scalar(u, .scalar = low));
        t = span > 0 ? mx_mod_scalar(t, .scalar = 2 * span) : mx_zeros_like(t);
        u = mx_plus_scalar(mx_rminus_scalar(mx_abs(mx_minus_scalar(t, .scalar = span)), .scalar = span), .scalar = low);
    }
    if (strcmp(padding, "zeros"))
        u = mx_clip(u, .a_min = 0, .a_max = (double)(size - 1));
    u = round ? mx_rint(u) : u;
    const double half = size > 1 ? (double)(size - 1) / 2 : 0.5;
    return mx_minus_scalar(mx_div_scalar(u, .scalar = half), .scalar = 1);
}

static mx_code read_grid_sample(mx_onnx_in *n)
{
    char mode[64], padding[64];
    mx_dims shape;
    const bool align = mx_onnx_int(n, "align_corners", 0);
    mx_onnx_text(n, "mode", mode, "linear");
    mx_onnx_text(n, "padding_mode", padding, "zeros");
    if (!mx_onnx_shape(n, 0, &shape) || shape.n != 4 || !strcmp(mode, "cubic") || !strcmp(mode, "bicubic") ||
        shape.d[2] < 2 || shape.d[3] < 2)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "only linear and nearest sampling of images is supported");
    const bool round = !strcmp(mode, "nearest");
    mx_array *x = coordinates(n->in[1], 0, shape.d[3], align, padding, round),
             *y = coordinates(n->in[1], 1, shape.d[2], align, padding, round);
    mx_array *grid = mx_transpose(mx_concat(MX_ARRAYS(x, y), .num_args = 2, .dim = 3), .axes = MX_DIMS(0, 3, 1, 2));
    n->out[0] = mx_bilinear_sampler(n->in[0], grid);
    return MX_OK;
}

static mx_code read_roi_align(mx_onnx_in *n)
{
    char mode[64], how[64];
    mx_onnx_text(n, "mode", mode, "avg");
    mx_onnx_text(n, "coordinate_transformation_mode", how, n->opset < 16 ? "output_half_pixel" : "half_pixel");
    if (strcmp(mode, "avg"))
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "mode=%s is not supported", mode);
    const int64_t ratio = mx_onnx_int(n, "sampling_ratio", 0);
    mx_array *batch = mx_expand_dims(mx_cast(n->in[2], .dtype = (mx_dtype)n->in[1]->dtype), .axis = 1);
    mx_array *rois = mx_concat(MX_ARRAYS(batch, n->in[1]), .num_args = 2, .dim = 1);
    n->out[0] = mx_roi_align(
        n->in[0], rois, .pooled_size = MX_DIMS(mx_onnx_int(n, "output_height", 1), mx_onnx_int(n, "output_width", 1)),
        .spatial_scale = mx_onnx_float(n, "spatial_scale", 1), .sample_ratio = ratio ? ratio : -1,
        .aligned = !strcmp(how, "half_pixel"));
    return MX_OK;
}

static mx_code write_roi_align(mx_onnx_out *o)
{
    const mx_roi_align_attrs *a = o->attrs;
    if (a->position_sensitive || (a->aligned && o->opset < 16))
        return mx_onnx_refuse(
            o, "%s", a->position_sensitive ? "position_sensitive cannot be written" : "aligned needs opset 16");
    const char *boxes = mx_onnx_put(o, NULL, "Slice", o->in[1], mx_onnx_put_ints(o, MX_ONNX_LIST(1)),
                                    mx_onnx_put_ints(o, MX_ONNX_LIST(5)), mx_onnx_put_ints(o, MX_ONNX_LIST(1)));
    const char *batch = mx_onnx_put(o, NULL, "Gather", o->in[1], mx_onnx_put_number(o, 0, MX_INT64));
    mx_onnx_set_int(o, "axis", 1);
    mx_onnx_put(o, o->out[0], "RoiAlign", o->in[0], boxes, mx_onnx_put_cast(o, NULL, batch, MX_INT64));
    mx_onnx_set_int(o, "output_height", a->pooled_size.d[0]);
    mx_onnx_set_int(o, "output_width", a->pooled_size.d[a->pooled_size.n > 1 ? 1 : 0]);
    mx_onnx_set_float(o, "spatial_scale", a->spatial_scale);
    mx_onnx_set_int(o, "sampling_ratio", a->sample_ratio > 0 ? a->sample_ratio : 0);
    if (o->opset >= 16)
        mx_onnx_set_text(o, "coordinate_transformation_mode", a->aligned ? "half_pixel" : "output_half_pixel");
    return mx_onnx_done(o);
}

static mx_code read_col2im(mx_onnx_in *n)
{
    mx_dims image, block, dilations, pads, strides;
    if (!mx_onnx_dims(n, 1, &image) || !mx_onnx_dims(n, 2, &block) || !mx_onnx_ints(n, "dilations", &dilations) ||
        !mx_onnx_ints(n, "pads", &pads) || !mx_onnx_ints(n, "strides", &strides))
        return mx_error_code();
    if (image.n != 2 || block.n != 2)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "only images of two axes are supported");
    if (pads.n == 4 && (pads.d[0] != pads.d[2] || pads.d[1] != pads.d[3]))
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "padding differs at the two ends");
    mx_dims pad = pads.n == 4 ? MX_DIMS(pads.d[0], pads.d[1]) : MX_DIMS(0, 0);
    n->out[0] = mx_col2im(n->in[0], .output_size = image, .kernel = block, .pad = pad,
                          .stride = strides.n == 2 ? strides : MX_DIMS(1, 1),
                          .dilate = dilations.n == 2 ? dilations : MX_DIMS(1, 1));
    return MX_OK;
}

const mx_onnx_row mx_onnx_image[] = {
    READ("Resize", read_resize, .constants = 14),
    READ("Upsample", read_resize, .constants = 2),
    WRITE("Resize", "UpSampling", write_upsampling),
    WRITE("Resize", "_contrib_BilinearResize2D", write_bilinear_resize),
    WRITE(NULL, "_contrib_AdaptiveAvgPooling2D", write_adaptive),
    READ("GridSample", read_grid_sample),
    BOTH("RoiAlign", "_contrib_ROIAlign", read_roi_align, write_roi_align),
    READ("Col2Im", read_col2im, .constants = 6),
    {0}};
