/* Sampling of images at given positions: GridGenerator, BilinearSampler, SpatialTransformer.
 *
 * A grid (N, 2, h, w) holds x and y of every position, -1 and 1 being the centres of the outermost pixels.  Pixels
 * outside the image are zero.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "op/op.h"

#define GRID_ATTRS(X) \
    X(ENUM, transform_type, REQUIRED, "affine|warp", "data holds affine matrices (N, 6), or a flow (N, 2, h, w) in pixels") \
    X(DIMS, target_shape, "(0, 0)", "", "height and width of the grid, for affine")
MX_ATTRS(grid_generator, GRID_ATTRS)
enum { AFFINE, WARP };

#define SAMPLER_ATTRS(X) X(BOOL, cudnn_off, "None", "", "accepted for compatibility")
MX_ATTRS(bilinear_sampler, SAMPLER_ATTRS)

#define TRANSFORMER_ATTRS(X) \
    X(DIMS, target_shape, "(0, 0)", "", "height and width of the result") \
    X(ENUM, transform_type, REQUIRED, "affine", "the transformation") \
    X(ENUM, sampler_type, REQUIRED, "bilinear", "the interpolation method") \
    X(BOOL, cudnn_off, "None", "", "accepted for compatibility")
MX_ATTRS(spatial_transformer, TRANSFORMER_ATTRS)

static mx_code wrong_shape(const mx_infer *infer, int i, const char *wanted)
{
    char text[MX_SHAPE_TEXT], name[64];
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted %s", mx_op_input_name(infer->op, i, name),
                      mx_shape_text(&infer->in[i], text), wanted);
}

static bool good_target(const mx_dims *t)
{
    return t->n == 2 && t->d[0] > 0 && t->d[1] > 0 && t->d[0] < 1000000 && t->d[1] < 1000000;
}

/* Pixel i of n on the axis from -1 to 1. */
static double place(int64_t i, int64_t n) { return n > 1 ? -1 + 2 * (double)i / (double)(n - 1) : -1; }
/* One pixel on that axis. */
static double pixel(int64_t n) { return n > 1 ? 2 / (double)(n - 1) : 0; }

/* ---- GridGenerator ------------------------------------------------------------------------------------------------ */

static mx_code check_grid(const void *a)
{
    const mx_grid_generator_attrs *p = a;
    return p->transform_type == WARP || good_target(&p->target_shape)
               ? MX_OK
               : mx_fail(MX_ERR_ATTRIBUTE, "GridGenerator: target_shape must have two positive numbers");
}

static mx_code infer_grid(mx_infer *infer)
{
    const mx_grid_generator_attrs *p = infer->attrs;
    const mx_shape_t *data = &infer->in[0];
    if (p->transform_type == WARP) {
        if (mx_infer_out(infer, 0, data) || mx_infer_in(infer, 0, &infer->out[0]))
            return mx_error_code();
        return data->ndim >= 0 && (data->ndim != 4 || (data->dim[1] >= 0 && data->dim[1] != 2))
                   ? wrong_shape(infer, 0, "(batch, 2, height, width)")
                   : MX_OK;
    }
    const mx_shape_t matrices = {.ndim = 2, .dim = {-1, 6}};
    if (data->ndim >= 0 && (data->ndim != 2 || (data->dim[1] >= 0 && data->dim[1] != 6)))
        return wrong_shape(infer, 0, "(batch, 6)");
    if (mx_infer_in(infer, 0, &matrices))
        return mx_error_code();
    const mx_shape_t out = {.ndim = 4, .dim = {data->dim[0], 2, p->target_shape.d[0], p->target_shape.d[1]}};
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_grid_backward(mx_infer *infer)
{
    const mx_grid_generator_attrs *p = infer->attrs;
    const mx_shape_t *g = &infer->in[0];
    if (check_grid(p))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "target_shape must have two positive numbers");
    if (g->ndim >= 0 && (g->ndim != 4 || (g->dim[1] >= 0 && g->dim[1] != 2)))
        return wrong_shape(infer, 0, "(batch, 2, height, width)");
    if (p->transform_type == WARP)
        return mx_infer_out(infer, 0, g);
    const mx_shape_t wanted = {.ndim = 4, .dim = {-1, 2, p->target_shape.d[0], p->target_shape.d[1]}};
    if (mx_infer_in(infer, 0, &wanted))
        return mx_error_code();
    const mx_shape_t out = {.ndim = 2, .dim = {g->dim[0], 6}};
    return mx_infer_out(infer, 0, &out);
}

/* Linear in the data (but for the warp's constant): the backward operator is the transpose. */
static mx_code grad_grid(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_call(MX_OP("_backward_GridGenerator"), grad->attrs, 1, &grad->ograd[0]));
}
static mx_code grad_grid_backward(mx_grad *grad)
{
    const bool warp = ((const mx_grid_generator_attrs *)grad->attrs)->transform_type == WARP;
    return mx_give(
        grad, 0,
        mx_g_call(warp ? MX_OP("_backward_GridGenerator") : MX_OP("GridGenerator"), grad->attrs, 1, &grad->ograd[0]));
}

static void ref_grid(const mx_reference_call *call)
{
    const bool warp = ((const mx_grid_generator_attrs *)call->attrs)->transform_type == WARP;
    const int64_t h = call->out_shape[0].dim[2], w = call->out_shape[0].dim[3];
    for (int64_t e = 0; e < mx_shape_size(&call->out_shape[0]); e++) {
        const int64_t x = e % w, y = e / w % h, axis = e / w / h % 2;
        if (warp)
            call->out[0][e] = axis ? place(y, h) + pixel(h) * call->in[0][e] : place(x, w) + pixel(w) * call->in[0][e];
        else {
            const double *m = call->in[0] + e / w / h / 2 * 6 + 3 * axis;
            call->out[0][e] = m[0] * place(x, w) + m[1] * place(y, h) + m[2];
        }
    }
}

static void ref_grid_backward(const mx_reference_call *call)
{
    const bool warp = ((const mx_grid_generator_attrs *)call->attrs)->transform_type == WARP;
    const int64_t h = call->in_shape[0].dim[2], w = call->in_shape[0].dim[3];
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = 0;
    for (int64_t e = 0; e < mx_shape_size(&call->in_shape[0]); e++) {
        const int64_t x = e % w, y = e / w % h, axis = e / w / h % 2;
        double *m = call->out[0] + e / w / h / 2 * 6 + 3 * axis;
        const double g = call->in[0][e];
        if (warp)
            call->out[0][e] = g * (axis ? pixel(h) : pixel(w));
        else
            m[0] += g * place(x, w), m[1] += g * place(y, h), m[2] += g;
    }
}

/* ---- BilinearSampler -------------------------------------------------------------------------------------------------- */

static mx_code infer_sampler(mx_infer *infer)
{
    const mx_shape_t *data = &infer->in[0], *grid = &infer->in[1];
    if (data->ndim >= 0 && data->ndim != 4)
        return wrong_shape(infer, 0, "(batch, channels, height, width)");
    if (grid->ndim >= 0 && (grid->ndim != 4 || (grid->dim[1] >= 0 && grid->dim[1] != 2)))
        return wrong_shape(infer, 1, "(batch, 2, height, width)");
    if (data->ndim < 0 || grid->ndim < 0)
        return MX_OK;
    const mx_shape_t batch = {.ndim = 4, .dim = {data->dim[0], 2, -1, -1}};
    const mx_shape_t out = {.ndim = 4, .dim = {data->dim[0], data->dim[1], grid->dim[2], grid->dim[3]}};
    return mx_infer_in(infer, 1, &batch) ? mx_error_code() : mx_infer_out(infer, 0, &out);
}

/* (ograd, data, grid) -> gradients of data and grid */
static mx_code infer_sampler_backward(mx_infer *infer)
{
    if (mx_infer_through(infer, infer_sampler, (const int[]){1, 2, -2}, (const int[]){0, -2}))
        return mx_error_code();
    return mx_infer_out(infer, 0, &infer->in[1]) ? mx_error_code() : mx_infer_out(infer, 1, &infer->in[2]);
}

static mx_code sampler_gradients(mx_array *g, mx_array *data, mx_array *grid, mx_array **dgrads)
{
    mx_array *out[MX_MAX_OUTPUTS] = {NULL}, *in[3] = {g, data, grid};
    if (!g || !data || !grid || mx_invoke(MX_OP("_backward_BilinearSampler"), NULL, 3, in, MX_MAX_OUTPUTS, out))
        return mx_error_code();
    dgrads[0] = out[0], dgrads[1] = out[1];
    return MX_OK;
}

static mx_code grad_sampler(mx_grad *grad)
{
    mx_array *both[2];
    if (grad->create_graph)
        return mx_fail(MX_ERR_AUTOGRAD, "BilinearSampler has no second-order gradient");
    if (sampler_gradients(grad->ograd[0], grad->in[0], grad->in[1], both))
        return mx_error_code();
    for (int i = 0; i < 2; i++)
        grad->igrad[i] = grad->wanted[i] ? both[i] : NULL;
    return MX_OK;
}

/* The four pixels around a position; those outside the image have weight 0. */
typedef struct corners {
    int64_t at[4];                  /* -1: outside */
    double weight[4], dx[4], dy[4]; /* and its slopes by x and y in pixels */
} corners;

static corners corners_at(double x, double y, int64_t h, int64_t w)
{
    corners c = {{0}, {0}, {0}, {0}};
    const double left = floor(x), top = floor(y);
    for (int k = 0; k < 4; k++) {
        const double cx = left + k % 2, cy = top + k / 2, wx = 1 - fabs(x - cx), wy = 1 - fabs(y - cy);
        const bool inside = cx >= 0 && cx <= (double)(w - 1) && cy >= 0 && cy <= (double)(h - 1);
        c.at[k] = inside ? (int64_t)cy * w + (int64_t)cx : -1;
        c.weight[k] = wx * wy, c.dx[k] = k % 2 ? wy : -wy, c.dy[k] = k / 2 ? wx : -wx;
    }
    return c;
}

/* out (N, C, h, w) from data, or, with g, dout: ddata and dgrid */
static void sample(const double *data, const double *grid, const mx_shape_t *shape, int64_t h, int64_t w, double *out,
                   const double *g, double *ddata, double *dgrid)
{
    const int64_t C = shape->dim[1], H = shape->dim[2], W = shape->dim[3];
    for (int64_t e = 0; e < shape->dim[0] * h * w; e++) {
        const int64_t n = e / h / w, p = e % (h * w);
        const double *gx = grid + n * 2 * h * w + p;
        const corners c = corners_at((gx[0] + 1) * (double)(W - 1) / 2, (gx[h * w] + 1) * (double)(H - 1) / 2, H, W);
        for (int64_t i = 0; i < C; i++) {
            const int64_t plane = (n * C + i) * H * W, to = (n * C + i) * h * w + p;
            double sum = 0, dx = 0, dy = 0;
            for (int k = 0; k < 4; k++) {
                const double v = c.at[k] < 0 ? 0 : data[plane + c.at[k]];
                sum += c.weight[k] * v, dx += c.dx[k] * v, dy += c.dy[k] * v;
                if (g && c.at[k] >= 0)
                    ddata[plane + c.at[k]] += c.weight[k] * g[to];
            }
            if (g) {
                dgrid[n * 2 * h * w + p] += dx * g[to] * (double)(W - 1) / 2;
                dgrid[(n * 2 + 1) * h * w + p] += dy * g[to] * (double)(H - 1) / 2;
            } else
                out[to] = sum;
        }
    }
}

static void ref_sampler(const mx_reference_call *call)
{
    sample(call->in[0], call->in[1], &call->in_shape[0], call->out_shape[0].dim[2], call->out_shape[0].dim[3],
           call->out[0], NULL, NULL, NULL);
}

static void ref_sampler_backward(const mx_reference_call *call)
{
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < mx_shape_size(&call->out_shape[k]); i++)
            call->out[k][i] = 0;
    sample(call->in[1], call->in[2], &call->in_shape[1], call->in_shape[0].dim[2], call->in_shape[0].dim[3], NULL,
           call->in[0], call->out[0], call->out[1]);
}

/* ---- SpatialTransformer: the grid, then the sampler ---------------------------------------------------------------------- */

static mx_code check_transformer(const void *a)
{
    return good_target(&((const mx_spatial_transformer_attrs *)a)->target_shape)
               ? MX_OK
               : mx_fail(MX_ERR_ATTRIBUTE, "SpatialTransformer: target_shape must have two positive numbers");
}

/* The grid is a hidden output. */
static mx_code infer_transformer(mx_infer *infer)
{
    const mx_spatial_transformer_attrs *p = infer->attrs;
    const mx_shape_t *data = &infer->in[0];
    if (data->ndim >= 0 && data->ndim != 4)
        return wrong_shape(infer, 0, "(batch, channels, height, width)");
    if (data->ndim < 0)
        return MX_OK;
    const mx_shape_t loc = {.ndim = 2, .dim = {data->dim[0], 6}},
                     grid = {.ndim = 4, .dim = {data->dim[0], 2, p->target_shape.d[0], p->target_shape.d[1]}};
    mx_shape_t out = grid;
    out.dim[1] = data->dim[1];
    if (mx_infer_in(infer, 1, &loc) || mx_infer_out(infer, 0, &out))
        return mx_error_code();
    return mx_infer_out(infer, 1, &grid);
}

static mx_code grad_transformer(mx_grad *grad)
{
    const mx_spatial_transformer_attrs *p = grad->attrs;
    const mx_grid_generator_attrs grid = {AFFINE, p->target_shape};
    mx_array *both[2];
    if (grad->create_graph)
        return mx_fail(MX_ERR_AUTOGRAD, "SpatialTransformer has no second-order gradient");
    if (!grad->ograd[0])
        return MX_OK;
    if (sampler_gradients(grad->ograd[0], grad->in[0], grad->out[1], both))
        return mx_error_code();
    grad->igrad[0] = both[0];
    return mx_give(grad, 1, mx_g_call(MX_OP("_backward_GridGenerator"), &grid, 1, &both[1]));
}

static void ref_transformer(const mx_reference_call *call)
{
    const mx_spatial_transformer_attrs *p = call->attrs;
    const mx_grid_generator_attrs grid = {AFFINE, p->target_shape};
    const mx_reference_call make = {.attrs = &grid, .n_in = 1, .n_out = 1, .in_shape = &call->in_shape[1], .out_shape = &call->out_shape[1],
                                    .in = call->in + 1, .out = call->out + 1};
    ref_grid(&make);
    sample(call->in[0], call->out[1], &call->in_shape[0], p->target_shape.d[0], p->target_shape.d[1], call->out[0],
           NULL, NULL, NULL);
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
mx_op mx_family_sampler[] = {
    {.name = "GridGenerator", .input_named = true, .precision = MX_PRECISION_FLOAT32, .inputs = "data",
     .doc = "sampling positions from an affine matrix or a flow", .schema = &grid_generator_schema,
     .check = check_grid, .infer_shape = infer_grid, .gradient = grad_grid, .reference = ref_grid,
     .samples = SAMPLES({"2,6", "transform_type=affine, target_shape=(3, 4)", 0, 0, "floatonly"}, {"2,2,3,4", "transform_type=warp", 0, 0, "floatonly"},
                        {"1,6", "transform_type=affine, target_shape=(1, 2)", 0, 0, "floatonly"})},
    {.name = "_backward_GridGenerator", .inputs = "ograd", .doc = "gradient of GridGenerator", .schema = &grid_generator_schema, .flags = MX_OP_HIDDEN,
     .infer_shape = infer_grid_backward, .gradient = grad_grid_backward, .reference = ref_grid_backward,
     .samples = SAMPLES({"2,2,3,4", "transform_type=affine, target_shape=(3, 4)", 0, 0, "floatonly"}, {"2,2,3,4", "transform_type=warp", 0, 0, "floatonly"})},
    {.name = "BilinearSampler", .precision = MX_PRECISION_FLOAT32, .inputs = "data grid",
     .doc = "samples an image at the positions of a grid, with bilinear interpolation", .schema = &bilinear_sampler_schema,
     .infer_shape = infer_sampler, .gradient = grad_sampler, .grad_in = 3, .reference = ref_sampler,
     .samples = SAMPLES({"2,3,4,5;2,2,3,2", "", -1.2, 1.2, "f32only"}, {"1,1,3,3;1,2,2,2", "", -1, 1, "f32only"})},
    {.name = "_backward_BilinearSampler", .inputs = "ograd data grid", .outputs = "data grid", .doc = "gradient of BilinearSampler", .n_out = 2,
     .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .infer_shape = infer_sampler_backward, .reference = ref_sampler_backward,
     .samples = SAMPLES({"2,3,3,2;2,3,4,5;2,2,3,2", "", -1.2, 1.2, "f32only"})},
    {.name = "SpatialTransformer", .precision = MX_PRECISION_FLOAT32, .inputs = "data loc", .outputs = "output grid",
     .n_out = 2, .n_visible = 1, .doc = "applies an affine transformation to images",
     .schema = &spatial_transformer_schema, .check = check_transformer, .infer_shape = infer_transformer, .gradient = grad_transformer, .grad_in = 1,
     .grad_out = 2, .reference = ref_transformer,
     .samples = SAMPLES({"2,3,4,5;2,6", "transform_type=affine, sampler_type=bilinear, target_shape=(3, 2)", -0.7, 0.7, "f32only"})},
    {0},
};
