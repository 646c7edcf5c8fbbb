/* Grids and what is sampled at them, pooled regions, windows as columns.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* ---- grids ----------------------------------------------------------------------------------------------------- */

/* The positions of all pixels: rows x, y and 1, (3, h w). */
static const char *put_pixels(mx_onnx_out *o, int64_t high, int64_t wide)
{
    const double same[6] = {1, 0, 0, 0, 1, 0};
    const mx_dtype type = (mx_dtype)o->in_type[0];
    mx_array *grid = mx_grid_generator(mx_onnx_constant(MX_DIMS(1, 6), type, same), .target_shape = MX_DIMS(high, wide),
                                       .transform_type = MX_GRID_GENERATOR_AFFINE);
    mx_array *xy = mx_reshape(grid, .shape = MX_DIMS(2, -1)), *ones = mx_ones(.shape = MX_DIMS(1, high * wide));
    return mx_onnx_put_array(o, mx_concat(MX_ARRAYS(xy, mx_onnx_cast(ones, type)), .num_args = 2, .dim = 0));
}

/* Matrices (N, 6) times the positions: (N, 2, h w). */
static const char *put_affine(mx_onnx_out *o, const char *matrices, const mx_dims *size)
{
    const char *theta = mx_onnx_put_shaped(o, NULL, matrices, MX_ONNX_LIST(-1, 2, 3));
    return mx_onnx_put(o, NULL, "MatMul", theta, put_pixels(o, size->d[0], size->d[1]));
}

/* A flow in pixels is scaled and added to the positions: a linear function, whose numbers are read from results of the
 * operator. */
static mx_code write_warp(mx_onnx_out *o)
{
    const mx_shape_t *x = &o->in_shape[0];
    if (x->ndim != 4 || x->dim[2] < 1 || x->dim[3] < 1)
        return mx_onnx_refuse(o, "the size of the flow is not known; give the shapes of the inputs");
    mx_array *zeros = mx_zeros(.shape = MX_DIMS(1, 2, x->dim[2], x->dim[3]), .dtype = (mx_dtype)o->in_type[0]);
    mx_array *at = mx_grid_generator(zeros, .transform_type = MX_GRID_GENERATOR_WARP);
    mx_array *next = mx_grid_generator(mx_ones_like(zeros), .transform_type = MX_GRID_GENERATOR_WARP);
    const char *flow = mx_onnx_put(o, NULL, "Mul", o->in[0], mx_onnx_put_array(o, mx_sub(next, at)));
    mx_onnx_put(o, o->out[0], "Add", flow, mx_onnx_put_array(o, at));
    return mx_onnx_done(o);
}

static mx_code write_grid(mx_onnx_out *o)
{
    const mx_grid_generator_attrs *a = o->attrs;
    if (a->transform_type == MX_GRID_GENERATOR_WARP)
        return write_warp(o);
    const int64_t shape[4] = {-1, 2, a->target_shape.d[0], a->target_shape.d[1]};
    mx_onnx_put_shaped(o, o->out[0], put_affine(o, o->in[0], &a->target_shape), 4, shape);
    return mx_onnx_done(o);
}

/* grid (N, h, w, 2) */
static void put_sample(mx_onnx_out *o, const char *out, const char *x, const char *grid)
{
    mx_onnx_put(o, out, "GridSample", x, grid);
    mx_onnx_set_int(o, "align_corners", 1);
    mx_onnx_set_text(o, "mode", o->opset >= 20 ? "linear" : "bilinear");
    mx_onnx_set_text(o, "padding_mode", "zeros");
}

static mx_code write_transformer(mx_onnx_out *o)
{
    const mx_spatial_transformer_attrs *a = o->attrs;
    const char *grid = mx_onnx_put_transposed(o, put_affine(o, o->in[1], &a->target_shape), 3);
    const int64_t shape[4] = {-1, a->target_shape.d[0], a->target_shape.d[1], 2};
    put_sample(o, o->out[0], o->in[0], mx_onnx_put_shaped(o, NULL, grid, 4, shape));
    return mx_onnx_done(o);
}

static mx_code write_sampler(mx_onnx_out *o)
{
    put_sample(o, o->out[0], o->in[0], mx_onnx_put_ordered(o, NULL, o->in[1], MX_ONNX_LIST(0, 2, 3, 1)));
    return mx_onnx_done(o);
}

/* Distances of pixels from the centre along an axis, (1, h, w). */
static const char *put_distances(mx_onnx_out *o, int64_t high, int64_t wide, bool across)
{
    const mx_dtype type = (mx_dtype)o->in_type[0];
    const int64_t n = across ? wide : high;
    mx_array *along =
        mx_minus_scalar(mx_arange(.start = 0, .stop = (double)n, .dtype = type), .scalar = (double)(n - 1) / 2);
    const mx_dims shape = across ? MX_DIMS(1, 1, wide) : MX_DIMS(1, high, 1);
    return mx_onnx_put_array(o, mx_broadcast_to(mx_reshape(along, .shape = shape), .shape = MX_DIMS(1, high, wide)));
}

/* The larger of |radius f(corner + turn)| and |radius f(corner - turn)|, over a size. */
static const char *put_reach(mx_onnx_out *o, const char *f, const char *turn, double corner, double radius, double size)
{
    const char *more = mx_onnx_put(o, NULL, f, mx_onnx_put_with(o, NULL, "Add", turn, corner));
    const char *less = mx_onnx_put(o, NULL, f, mx_onnx_put_with(o, NULL, "Sub", turn, corner));
    const char *most =
        mx_onnx_put(o, NULL, "Max", mx_onnx_put(o, NULL, "Abs", more), mx_onnx_put(o, NULL, "Abs", less));
    return mx_onnx_put_with(o, NULL, "Mul", most, radius / size);
}

/* The factor of sizes, (N, 1, 1); see op/formula/rotate.h */
static const char *put_zoom(mx_onnx_out *o, const char *angle, double high, double wide, bool in)
{
    const char *turn = mx_onnx_put(o, NULL, "Abs", angle);
    const double corner = atan2(high, wide), radius = sqrt(high * high + wide * wide);
    const char *across = put_reach(o, "Cos", turn, corner, radius, wide),
               *down = put_reach(o, "Sin", turn, corner, radius, high);
    const char *most = mx_onnx_put(o, NULL, "Max", across, down);
    return in ? mx_onnx_put(o, NULL, "Reciprocal", most) : most;
}

/* x cos - y sin, or x sin + y cos: positions from -1 to 1, (N, h, w, 1) */
static const char *put_turned(mx_onnx_out *o, const char *op, const char *x, const char *a, const char *y,
                              const char *b, int64_t n)
{
    const char *sum = mx_onnx_put(o, NULL, op, mx_onnx_put(o, NULL, "Mul", x, a), mx_onnx_put(o, NULL, "Mul", y, b));
    sum = mx_onnx_put_with(o, NULL, "Mul", sum, 2 / (double)(n - 1));
    return mx_onnx_put(o, NULL, "Unsqueeze", sum, mx_onnx_put_ints(o, MX_ONNX_LIST(3)));
}

static mx_code write_rotate(mx_onnx_out *o)
{
    const mx_image_rotate_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    const int64_t high = rank < 3 ? -1 : o->in_shape[0].dim[rank - 2],
                  wide = rank < 3 ? -1 : o->in_shape[0].dim[rank - 1];
    if (high < 2 || wide < 2)
        return mx_onnx_refuse(o, "only images of at least 2 x 2 pixels, of a known size, can be written");
    const char *image =
        rank == 4 ? o->in[0] : mx_onnx_put(o, NULL, "Unsqueeze", o->in[0], mx_onnx_put_ints(o, MX_ONNX_LIST(0)));
    const char *angle = mx_onnx_put_with(o, NULL, "Mul", mx_onnx_put_shaped(o, NULL, o->in[1], MX_ONNX_LIST(-1, 1, 1)),
                                         acos(-1.0) / 180);
    const char *cosine = mx_onnx_put(o, NULL, "Cos", angle), *sine = mx_onnx_put(o, NULL, "Sin", angle);
    if (a->zoom_in || a->zoom_out) {
        const char *zoom = put_zoom(o, angle, (double)high, (double)wide, a->zoom_in);
        cosine = mx_onnx_put(o, NULL, "Mul", cosine, zoom);
        sine = mx_onnx_put(o, NULL, "Mul", sine, zoom);
    }
    const char *x = put_distances(o, high, wide, true), *y = put_distances(o, high, wide, false);
    const char *both[2] = {put_turned(o, "Sub", x, cosine, y, sine, wide),
                           put_turned(o, "Add", x, sine, y, cosine, high)};
    const char *grid = mx_onnx_node(o, NULL, "Concat", 2, both);
    mx_onnx_set_int(o, "axis", 3);
    const char *count = mx_onnx_put_part(o, NULL, mx_onnx_put(o, NULL, "Shape", image), 0, 0, 1);
    const char *parts[2] = {count, mx_onnx_put_ints(o, MX_ONNX_LIST(1, 1, 1))},
               *sizes = mx_onnx_node(o, NULL, "Concat", 2, parts);
    mx_onnx_set_int(o, "axis", 0);
    const char *out = rank == 4 ? o->out[0] : mx_onnx_spare(o);
    put_sample(o, out, image, mx_onnx_put(o, NULL, "Expand", grid, sizes));
    if (rank == 3)
        mx_onnx_put(o, o->out[0], "Squeeze", out, mx_onnx_put_ints(o, MX_ONNX_LIST(0)));
    return mx_onnx_done(o);
}

/* theta (N, 2, 3), size (4) -> (N, h, w, 2) */
static mx_code read_affine_grid(mx_onnx_in *n)
{
    mx_dims size;
    const bool align = mx_onnx_int(n, "align_corners", 0);
    if (!mx_onnx_dims(n, 1, &size))
        return mx_error_code();
    if (size.n != 4 && size.n != 5)
        return mx_onnx_fail(n, MX_ERR_FILE, "the size has %d numbers, wanted 4 or 5", size.n);
    const int rank = size.n - 2;
    const mx_dtype type = (mx_dtype)n->in[0]->dtype;
    mx_array *rows[4] = {NULL}, *like = NULL;
    mx_dims shape = {.n = rank};
    double cells = 1;
    for (int i = 0; i < rank; i++)
        cells *= (double)(shape.d[i] = size.d[i + 2]);
    if (!(cells >= 1 && cells <= 1 << 26))
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "a grid of %.0f positions", cells);
    like = mx_zeros(.shape = shape, .dtype = type);
    for (int i = 0; i < rank; i++) { /* x first: the last axis */
        const int axis = rank - 1 - i;
        const double count = (double)shape.d[axis], step = align ? (count > 1 ? 2 / (count - 1) : 0) : 2 / count;
        const double first = align && count > 1 ? -1 : align ? 0 : step / 2 - 1;
        mx_dims wide = {.n = rank};
        for (int k = 0; k < rank; k++)
            wide.d[k] = k == axis ? -1 : 1;
        mx_array *along =
            mx_plus_scalar(mx_mul_scalar(mx_onnx_count(n, shape.d[axis], type), .scalar = step), .scalar = first);
        rows[i] = mx_reshape(mx_add(mx_reshape(along, .shape = wide), like), .shape = MX_DIMS(1, -1));
    }
    rows[rank] = mx_reshape(mx_plus_scalar(like), .shape = MX_DIMS(1, -1));
    mx_array *points = mx_concat((mx_arrays){rows, rank + 1}, .num_args = rank + 1, .dim = 0);
    mx_array *grid = mx_dot(n->in[0], points); /* (N, rank, cells) */
    mx_dims out = {.n = size.n, .d = {-1}};
    for (int i = 0; i < rank; i++)
        out.d[i + 1] = shape.d[i];
    out.d[rank + 1] = rank;
    n->out[0] = mx_reshape(mx_transpose(grid, .axes = MX_DIMS(0, 2, 1)), .shape = out);
    return MX_OK;
}

/* ---- regions --------------------------------------------------------------------------------------------------- */

static mx_code read_roi_pool(mx_onnx_in *n)
{
    mx_dims size;
    if (!mx_onnx_ints(n, "pooled_shape", &size))
        return mx_error_code();
    n->out[0] =
        mx_roi_pooling(n->in[0], n->in[1], .pooled_size = size, .spatial_scale = mx_onnx_float(n, "spatial_scale", 1));
    return MX_OK;
}

static mx_code write_roi_pool(mx_onnx_out *o)
{
    const mx_roi_pooling_attrs *a = o->attrs;
    const int64_t size[2] = {a->pooled_size.d[0], a->pooled_size.d[a->pooled_size.n > 1]};
    mx_onnx_put(o, o->out[0], "MaxRoiPool", o->in[0], o->in[1]);
    mx_onnx_set_ints(o, "pooled_shape", 2, size);
    mx_onnx_set_float(o, "spatial_scale", a->spatial_scale);
    return mx_onnx_done(o);
}

/* ---- windows as columns ------------------------------------------------------------------------------------------ */

static void set_windows(mx_onnx_out *o, int n, const mx_dims *stride, const mx_dims *dilate, const mx_dims *pad)
{
    int64_t strides[MX_MAX_NDIM], dilations[MX_MAX_NDIM], pads[2 * MX_MAX_NDIM];
    for (int i = 0; i < n; i++) {
        strides[i] = i < stride->n ? stride->d[i] : 1;
        dilations[i] = i < dilate->n ? dilate->d[i] : 1;
        pads[i] = pads[i + n] = i < pad->n ? pad->d[i] : 0;
    }
    mx_onnx_set_ints(o, "strides", n, strides);
    mx_onnx_set_ints(o, "dilations", n, dilations);
    mx_onnx_set_ints(o, "pads", 2 * n, pads);
}

static mx_code write_col2im(mx_onnx_out *o)
{
    const mx_col2im_attrs *a = o->attrs;
    mx_onnx_put(o, o->out[0], "Col2Im", o->in[0], mx_onnx_put_ints(o, a->output_size.n, a->output_size.d),
                mx_onnx_put_ints(o, a->kernel.n, a->kernel.d));
    set_windows(o, a->kernel.n, &a->stride, &a->dilate, &a->pad);
    return mx_onnx_done(o);
}

/* A convolution whose filters each pick one element of the window. */
static mx_code write_im2col(mx_onnx_out *o)
{
    const mx_im2col_attrs *a = o->attrs;
    const int64_t channels = mx_onnx_out_rank(o, 0) > 1 ? o->in_shape[0].dim[1] : -1;
    int64_t area = 1;
    mx_dims shape = {.n = a->kernel.n + 2};
    if (channels < 1)
        return mx_onnx_refuse(o, "the number of channels is not known; give the shapes of the inputs");
    for (int i = 0; i < a->kernel.n; i++)
        area *= shape.d[i + 2] = a->kernel.d[i];
    shape.d[0] = channels * area;
    shape.d[1] = 1;
    mx_array *pick = mx_tile(mx_eye(.N = area, .dtype = (mx_dtype)o->in_type[0]), .reps = MX_DIMS(channels, 1));
    const char *y = mx_onnx_put(o, NULL, "Conv", o->in[0], mx_onnx_put_array(o, mx_reshape(pick, .shape = shape)));
    mx_onnx_set_int(o, "group", channels);
    mx_onnx_set_ints(o, "kernel_shape", a->kernel.n, a->kernel.d);
    set_windows(o, a->kernel.n, &a->stride, &a->dilate, &a->pad);
    mx_onnx_put_shaped(o, o->out[0], y, MX_ONNX_LIST(0, channels * area, -1));
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_sampling[] = {
    WRITE(NULL, "GridGenerator", write_grid),
    WRITE("GridSample", "SpatialTransformer", write_transformer, .since = 16),
    WRITE("GridSample", "BilinearSampler", write_sampler, .since = 16),
    WRITE("GridSample", "_image_rotate", write_rotate, .since = 16),
    READ("AffineGrid", read_affine_grid, .constants = 2),
    BOTH("MaxRoiPool", "ROIPooling", read_roi_pool, write_roi_pool),
    WRITE("Col2Im", "col2im", write_col2im, .since = 18),
    WRITE("Conv", "im2col", write_im2col),
    {0}};
