/* Deformable convolution: every cell of a window is moved by an offset that the network learns (see op/formula/deformable.h).
 *
 *     column[c, cell, p] = mask[p] * bilinear(data[c], where(cell, p))      y = weight column + bias
 *
 *     dweight = dy column'          dcolumn = weight' dy
 *     ddata, doffset, dmask follow from dcolumn by the slopes of the bilinear reading
 *
 * One hidden operator computes all of these, image by image, so only the columns of one image are in memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/emit.h"
#include "op/formula/deformable.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "op/op.h"

#define GEOMETRY(X) \
    X(DIMS, kernel, REQUIRED, "", "rows and columns of the window") \
    X(DIMS, stride, "()", "", "step of the window; (): 1") \
    X(DIMS, dilate, "()", "", "distance between the elements of the window; (): 1") \
    X(DIMS, pad, "()", "", "zeros added on both sides; (): 0") \
    X(INT, num_filter, REQUIRED, "1..2147483647", "number of output channels") \
    X(INT, num_group, "1", "1..2147483647", "channels are split into this many independent groups") \
    X(INT, num_deformable_group, "1", "1..2147483647", "number of channel groups with separate offsets") \
    X(INT, workspace, "1024", "0..", "accepted for compatibility") \
    X(BOOL, no_bias, "False", "", "do not use a bias")
#define LAYOUT(X) X(ENUM, layout, "None", "NCW|NCHW|NCDHW", "order of the axes: NCHW")

#define DEFORMABLE_ATTRS(X) GEOMETRY(X) LAYOUT(X)
MX_ATTRS(deformable, DEFORMABLE_ATTRS)
#define MODULATED_ATTRS(X) GEOMETRY(X) X(INT, im2col_step, "64", "0..", "accepted for compatibility") LAYOUT(X)
MX_ATTRS(modulated_deformable, MODULATED_ATTRS)
/* All three begin with the geometry. */
#define BACKWARD_ATTRS(X) GEOMETRY(X) X(BOOL, modulated, "False", "", "whether there is a mask")
MX_ATTRS(deformable_backward, BACKWARD_ATTRS)

enum { NCW, NCHW, NCDHW };

/* ---- attributes and shapes ------------------------------------------------------------------------------------ */

static bool two_numbers(const mx_dims *d, int64_t least, bool may_be_absent)
{
    if (d->n <= 0 && may_be_absent)
        return true;
    return d->n == 2 && d->d[0] >= least && d->d[1] >= least && d->d[0] <= 1000000 && d->d[1] <= 1000000;
}

static mx_code check(const char *op, const mx_deformable_attrs *p, int layout)
{
    if (layout >= 0 && layout != NCHW)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: layout must be NCHW", op);
    if (!two_numbers(&p->kernel, 1, false) || !two_numbers(&p->stride, 1, true) || !two_numbers(&p->dilate, 1, true) ||
        !two_numbers(&p->pad, 0, true))
        return mx_fail(MX_ERR_ATTRIBUTE,
                       "%s: kernel must have two positive numbers; stride, dilate and pad as many or none", op);
    if (p->num_filter % p->num_group)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: num_filter=%lld is not divisible by num_group=%lld", op,
                       (long long)p->num_filter, (long long)p->num_group);
    return MX_OK;
}
static mx_code check_deformable(const void *a)
{
    return check("_contrib_DeformableConvolution", a, ((const mx_deformable_attrs *)a)->layout);
}
static mx_code check_modulated(const void *a)
{
    return check("_contrib_ModulatedDeformableConvolution", a, ((const mx_modulated_deformable_attrs *)a)->layout);
}
static mx_code check_backward(const void *a) { return check("_backward__contrib_DeformableConvolution", a, -1); }

static mx_deformable sizes(const void *attrs, const mx_shape_t *data)
{
    const mx_deformable_attrs *p = attrs;
    return mx_deformable_of(&p->kernel, &p->stride, &p->dilate, &p->pad, p->num_filter, p->num_group,
                            p->num_deformable_group, data->dim);
}

static mx_code check_data(mx_infer *infer, const mx_deformable_attrs *p)
{
    const mx_shape_t *x = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (x->ndim != 4)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (batch, channels, height, width)",
                          mx_shape_text(x, text));
    if (x->dim[1] % p->num_group || x->dim[1] % p->num_deformable_group)
        return mx_op_fail(infer->op, MX_ERR_SHAPE,
                          "data has %lld channels, which num_group=%lld or num_deformable_group=%lld does not divide",
                          (long long)x->dim[1], (long long)p->num_group, (long long)p->num_deformable_group);
    for (int i = 0; i < 2; i++)
        if (x->dim[2] >= INT32_MAX - 1 || x->dim[3] >= INT32_MAX - 1 || (x->dim[2] + 2) * (x->dim[3] + 2) > INT32_MAX ||
            x->dim[2 + i] + 2 * mx_dims_pick(&p->pad, i, 0) < mx_dims_pick(&p->dilate, i, 1) * (p->kernel.d[i] - 1) + 1)
            return mx_op_fail(infer->op, MX_ERR_SHAPE,
                              "data of shape %s is smaller than the window, or the output is too large",
                              mx_shape_text(x, text));
    return MX_OK;
}

/* mask and weight: their numbers among the inputs; the bias follows the weight. */
static mx_code infer_convolution(mx_infer *infer, int mask, int weight)
{
    const mx_deformable_attrs *p = infer->attrs;
    const mx_shape_t *x = &infer->in[0];
    if (x->ndim >= 0 && x->ndim != 4)
        return check_data(infer, p);
    if (x->ndim == 4 && x->dim[1] >= 0) {
        const mx_shape_t w = {.ndim = 4,
                              .dim = {p->num_filter, x->dim[1] / p->num_group, p->kernel.d[0], p->kernel.d[1]}};
        const mx_shape_t bias = {.ndim = 1, .dim = {p->num_filter}};
        if (mx_infer_in(infer, weight, &w) ||
            (!p->no_bias && infer->n_in > weight + 1 && mx_infer_in(infer, weight + 1, &bias)))
            return mx_error_code();
    }
    if (!mx_shape_known(x))
        return MX_OK;
    if (check_data(infer, p))
        return mx_error_code();
    const mx_deformable d = sizes(p, x);
    const int64_t moved = d.cells * d.offset_groups;
    const mx_shape_t offset = {.ndim = 4, .dim = {x->dim[0], 2 * moved, d.out[0], d.out[1]}};
    const mx_shape_t factors = {.ndim = 4, .dim = {x->dim[0], moved, d.out[0], d.out[1]}};
    const mx_shape_t out = {.ndim = 4, .dim = {x->dim[0], d.filters, d.out[0], d.out[1]}};
    if (mx_infer_in(infer, 1, &offset) || (mask > 0 && mx_infer_in(infer, mask, &factors)))
        return mx_error_code();
    return mx_infer_out(infer, 0, &out);
}
static mx_code infer_deformable(mx_infer *infer) { return infer_convolution(infer, 0, 2); }
static mx_code infer_modulated(mx_infer *infer) { return infer_convolution(infer, 2, 3); }

/* (ograd, data, offset, weight, mask) -> gradients of data, offset, weight, mask */
static mx_code infer_backward(mx_infer *infer)
{
    const bool modulated = ((const mx_deformable_backward_attrs *)infer->attrs)->modulated;
    const mx_code code =
        modulated ? mx_infer_through(infer, infer_modulated, (const int[]){1, 2, 4, 3, -2}, (const int[]){0, -2})
                  : mx_infer_through(infer, infer_deformable, (const int[]){1, 2, 3, -2}, (const int[]){0, -2});
    if (code)
        return code;
    for (int i = 0; i < infer->n_out; i++)
        if (mx_infer_out(infer, i, &infer->in[1 + i]))
            return mx_error_code();
    return MX_OK;
}

static int count_deformable(const void *attrs) { return ((const mx_deformable_attrs *)attrs)->no_bias ? 3 : 4; }
static int count_modulated(const void *attrs)
{
    return ((const mx_modulated_deformable_attrs *)attrs)->no_bias ? 4 : 5;
}
static int count_backward(const void *attrs)
{
    return ((const mx_deformable_backward_attrs *)attrs)->modulated ? 4 : 3;
}
static int count_backward_in(const void *attrs) { return 1 + count_backward(attrs); }

/* ---- gradient ------------------------------------------------------------------------------------------------- */

static mx_code gradient(mx_grad *grad, int mask, int weight)
{
    mx_deformable_backward_attrs attrs;
    mx_array *g = grad->ograd[0], *out[MX_MAX_OUTPUTS] = {NULL},
             *in[5] = {g, grad->in[0], grad->in[1], grad->in[weight], mask > 0 ? grad->in[mask] : NULL};
    const int place[4] = {0, 1, weight, mask};
    if (grad->create_graph)
        return mx_fail(MX_ERR_AUTOGRAD, "%s has no second-order gradient", grad->op->name);
    memset(&attrs, 0, sizeof attrs);
    memcpy(&attrs, grad->attrs, offsetof(mx_deformable_backward_attrs, modulated));
    attrs.modulated = mask > 0;
    if (mx_invoke(MX_OP("_backward__contrib_DeformableConvolution"), &attrs, count_backward_in(&attrs), in,
                  MX_MAX_OUTPUTS, out))
        return mx_error_code();
    for (int i = 0; i < count_backward(&attrs); i++)
        grad->igrad[place[i]] = grad->wanted[place[i]] ? out[i] : NULL;
    if (grad->n_in > weight + 1 && grad->wanted[weight + 1] &&
        !(grad->igrad[weight + 1] = mx_g_text(MX_OP("sum"), "axis=1, exclude=True", 1, &g)))
        return mx_error_code();
    return MX_OK;
}
static mx_code grad_deformable(mx_grad *grad) { return gradient(grad, 0, 2); }
static mx_code grad_modulated(mx_grad *grad) { return gradient(grad, 2, 3); }

/* ---- reference ------------------------------------------------------------------------------------------------ */

/* The pixels around a point: offsets (-1: not read), weights and the weights' slopes down and across. */
typedef struct corners {
    int64_t at[4];
    double weight[4], down[4], across[4];
} corners;

static corners corners_of(double y, double x, int64_t h, int64_t w, bool zeros_around)
{
    corners c = {{-1, -1, -1, -1}, {0}, {0}, {0}};
    const double edge = zeros_around ? -1 : 0;
    if (!((zeros_around ? y > edge && x > edge : y >= edge && x >= edge) && y < (double)h && x < (double)w))
        return c;
    if (!zeros_around) /* beyond the last centre there is only the edge */
        y = fmin(y, (double)(h - 1)), x = fmin(x, (double)(w - 1));
    for (int k = 0; k < 4; k++) {
        const double top = floor(y), left = floor(x), cy = top + k / 2, cx = left + k % 2;
        const double wy = k / 2 ? y - top : 1 - (y - top), wx = k % 2 ? x - left : 1 - (x - left);
        const double py = zeros_around ? cy : fmin(cy, (double)(h - 1)),
                     px = zeros_around ? cx : fmin(cx, (double)(w - 1));
        if (py >= 0 && px >= 0 && py < (double)h && px < (double)w)
            c.at[k] = (int64_t)py * w + (int64_t)px;
        c.weight[k] = wy * wx, c.down[k] = k / 2 ? wx : -wx, c.across[k] = k % 2 ? wy : -wy;
    }
    return c;
}

typedef struct point { /* one cell of one window in one channel */
    corners corners;
    int64_t plane, offset; /* first element of the channel; of the row offset, `places` before that of the column */
    int64_t mask;
    double factor; /* the mask */
} point;

static point point_of(const mx_deformable *d, const double *offset, const double *mask, int64_t n, int64_t c,
                      int64_t cell, int64_t p)
{
    const int64_t group = c / (d->channels / d->offset_groups),
                  moved = (n * d->offset_groups + group) * d->cells + cell;
    point at = {
        .plane = (n * d->channels + c) * d->all, .offset = 2 * moved * d->places + p, .mask = moved * d->places + p};
    const double y =
        (double)(p / d->out[1] * d->stride[0] - d->pad[0] + cell / d->kernel[1] * d->dilate[0]) + offset[at.offset];
    const double x = (double)(p % d->out[1] * d->stride[1] - d->pad[1] + cell % d->kernel[1] * d->dilate[1]) +
                     offset[at.offset + d->places];
    at.factor = mask ? mask[at.mask] : 1;
    at.corners = corners_of(y, x, d->size[0], d->size[1], mask != NULL);
    return at;
}

/* Visits all products of filter f at position p; with `g` (dy) adds to the gradients, else to y. */
typedef struct walk {
    mx_deformable d;
    const double *data, *offset, *weight, *mask, *g;
    double *y, *ddata, *doffset, *dweight, *dmask;
} walk;

static void meet(const walk *k, int64_t n, int64_t f, int64_t p, int64_t c, int64_t cell)
{
    const mx_deformable *d = &k->d;
    const int64_t each = d->channels / d->groups, w = (f * each + c % each) * d->cells + cell,
                  y = (n * d->filters + f) * d->places + p;
    const point at = point_of(d, k->offset, k->mask, n, c, cell, p);
    double value = 0, down = 0, across = 0;
    for (int q = 0; q < 4; q++)
        if (at.corners.at[q] >= 0) {
            const double v = k->data[at.plane + at.corners.at[q]];
            value += at.corners.weight[q] * v, down += at.corners.down[q] * v, across += at.corners.across[q] * v;
            if (k->g)
                k->ddata[at.plane + at.corners.at[q]] += at.corners.weight[q] * at.factor * k->weight[w] * k->g[y];
        }
    if (!k->g) {
        k->y[y] += value * at.factor * k->weight[w];
        return;
    }
    k->dweight[w] += value * at.factor * k->g[y];
    k->doffset[at.offset] += down * at.factor * k->weight[w] * k->g[y];
    k->doffset[at.offset + d->places] += across * at.factor * k->weight[w] * k->g[y];
    if (k->dmask)
        k->dmask[at.mask] += value * k->weight[w] * k->g[y];
}

static void run_walk(const walk *k, int64_t batch)
{
    const mx_deformable *d = &k->d;
    const int64_t each = d->channels / d->groups;
    for (int64_t e = 0; e < batch * d->filters * d->places; e++) {
        const int64_t f = e / d->places % d->filters, first = f / (d->filters / d->groups) * each;
        for (int64_t c = first; c < first + each; c++)
            for (int64_t cell = 0; cell < d->cells; cell++)
                meet(k, e / d->places / d->filters, f, e % d->places, c, cell);
    }
}

static void reference(const mx_reference_call *call, int mask, int weight)
{
    const walk k = {.d = sizes(call->attrs, &call->in_shape[0]), .data = call->in[0], .offset = call->in[1], .weight = call->in[weight],
                    .mask = mask > 0 ? call->in[mask] : NULL, .y = call->out[0]};
    const double *bias = call->n_in > weight + 1 ? call->in[weight + 1] : NULL;
    for (int64_t e = 0; e < mx_shape_size(&call->out_shape[0]); e++)
        call->out[0][e] = bias ? bias[e / k.d.places % k.d.filters] : 0;
    run_walk(&k, call->in_shape[0].dim[0]);
}
static void ref_deformable(const mx_reference_call *call) { reference(call, 0, 2); }
static void ref_modulated(const mx_reference_call *call) { reference(call, 2, 3); }

static void ref_backward(const mx_reference_call *call)
{
    const walk k = {.d = sizes(call->attrs, &call->in_shape[1]), .g = call->in[0], .data = call->in[1], .offset = call->in[2],
                    .weight = call->in[3], .mask = call->n_out > 3 ? call->in[4] : NULL, .ddata = call->out[0], .doffset = call->out[1],
                    .dweight = call->out[2], .dmask = call->n_out > 3 ? call->out[3] : NULL};
    for (int i = 0; i < call->n_out; i++)
        memset(call->out[i], 0, (size_t)mx_shape_size(&call->out_shape[i]) * sizeof(double));
    run_walk(&k, call->in_shape[1].dim[0]);
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

/* mask and weight: their numbers among the inputs; the bias follows the weight. */
static mx_code emit_with(const mx_emit_call *n, int mask, int weight)
{
    const mx_deformable_attrs *attrs = n->attrs; /* both operators begin with the same attributes */
    mx_emit_use(n, "deformable");
    mx_emit_print(n, "    deformable(%s, %s, %s, %s, %s, %s, %lld, %lld, %lld, %lld, %lld", n->in[0].place,
                  n->in[1].place, mask ? n->in[mask].place : "NULL", n->in[weight].place,
                  attrs->no_bias ? "NULL" : mx_emit_or_null(n, weight + 1), n->out[0].place, (long long)n->x->dim[0],
                  (long long)n->x->dim[1], (long long)attrs->num_filter, (long long)attrs->num_group,
                  (long long)attrs->num_deformable_group);
    for (int i = 0; i < 2; i++)
        mx_emit_print(n, ", (window){%lld, %lld, %lld, %lld, %lld, %lld}", (long long)n->x->dim[2 + i],
                      (long long)n->y->dim[2 + i], (long long)attrs->kernel.d[i],
                      (long long)mx_emit_dim(&attrs->stride, i, 1), (long long)mx_emit_dim(&attrs->pad, i, 0),
                      (long long)mx_emit_dim(&attrs->dilate, i, 1));
    return mx_emit_close(n);
}
static mx_code emit_deformable(const mx_emit_call *n) { return emit_with(n, 0, 2); }
static mx_code emit_modulated(const mx_emit_call *n) { return emit_with(n, 2, 3); }

mx_op mx_family_deformable[] = {
    {.name = "_contrib_DeformableConvolution", MX_EMIT(emit_deformable), .look = MX_LOOK_WEIGHTS,
     .inputs = "data offset weight bias?",
     .schema = &deformable_schema, .c_name = "deformable_convolution",
     .doc = "convolution with a learned offset per window element; points outside the data read 0",
     .check = check_deformable, .count_in = count_deformable, .infer_shape = infer_deformable, .gradient = grad_deformable, .grad_in = 7,
     .reference = ref_deformable,
     .samples = SAMPLES({"2,2,4,5;2,8,3,4;3,2,2,2;3", "kernel=(2, 2), num_filter=3", 0, 0, "f32only"},
                        {"1,4,5,4;1,36,3,2;4,2,3,3", "kernel=(3, 3), num_filter=4, num_group=2, num_deformable_group=2, stride=(2, 2), pad=(1, 1), no_bias=True", 0, 0, "f32only"},
                        {"2,2,6,5;2,18,2,3;2,2,3,3;2", "kernel=(3, 3), num_filter=2, dilate=(2, 1)", 0, 0, "f32only"},
                        {"1,2,2,3;1,2,2,3;1,2,1,1;1", "kernel=(1, 1), num_filter=1", -4, 4, "f32only"},
                        {"0,2,3,3;0,2,3,3;1,2,1,1;1", "kernel=(1, 1), num_filter=1", 0, 0, "f32only"})},
    {.name = "_contrib_ModulatedDeformableConvolution", MX_EMIT(emit_modulated), .look = MX_LOOK_WEIGHTS,
     .inputs = "data offset mask weight bias?", .schema = &modulated_deformable_schema,
     .c_name = "modulated_deformable_convolution",
     .doc = "convolution with a learned offset and a learned weight (mask) per window element",
     .check = check_modulated, .count_in = count_modulated, .infer_shape = infer_modulated, .gradient = grad_modulated, .grad_in = 15,
     .reference = ref_modulated,
     .samples = SAMPLES({"2,2,4,5;2,8,3,4;2,4,3,4;3,2,2,2;3", "kernel=(2, 2), num_filter=3", 0, 0, "f32only"},
                        {"1,4,5,4;1,36,3,2;1,18,3,2;4,2,3,3", "kernel=(3, 3), num_filter=4, num_group=2, num_deformable_group=2, stride=(2, 2), pad=(1, 1), no_bias=True", 0, 0, "f32only"},
                        {"1,2,2,3;1,2,2,3;1,1,2,3;1,2,1,1;1", "kernel=(1, 1), num_filter=1", -4, 4, "f32only"})},
    {.name = "_backward__contrib_DeformableConvolution", .inputs = "ograd data offset weight mask?", .outputs = "data offset weight mask",
     .doc = "gradients of both deformable convolutions", .schema = &deformable_backward_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT,
     .check = check_backward, .n_out = 4, .count_in = count_backward_in, .count_out = count_backward, .count_visible = count_backward,
     .infer_shape = infer_backward, .reference = ref_backward,
     .samples = SAMPLES({"2,3,3,4;2,2,4,5;2,8,3,4;3,2,2,2", "kernel=(2, 2), num_filter=3", 0, 0, "f32only"},
                        {"1,4,3,2;1,4,5,4;1,36,3,2;4,2,3,3", "kernel=(3, 3), num_filter=4, num_group=2, num_deformable_group=2, stride=(2, 2), pad=(1, 1)", 0, 0, "f32only"},
                        {"2,3,3,4;2,2,4,5;2,8,3,4;3,2,2,2;2,4,3,4", "kernel=(2, 2), num_filter=3, modulated=True", 0, 0, "f32only"})},
    {0},
};
