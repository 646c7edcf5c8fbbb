/* Position-sensitive pooling of regions: every bin has channels of its own.
 *
 *     data (N, output_dim * group_size^2, H, W)
 *     rois (R, 5): image, left, top, right, bottom, in units of 1 / spatial_scale
 *     out  (R, output_dim, pooled_size, pooled_size): bin (i, j) of result c comes from channel
 *          (c * group + i * group / pooled) * group + j * group / pooled
 *
 * PSROIPooling takes the mean of a bin.  DeformablePSROIPooling takes the mean of sample_per_part^2 bilinear samples
 * of the bin moved by trans * trans_std times the region's size; trans (R, 2 * classes, part, part), x before y, and
 * every class has output_dim / classes results.  A region of an image that does not exist gives zeros.
 *
 *     ddata follows from the weights of the samples, dtrans from their slopes:
 *     dx = g / count * trans_std * width * (d value / d x)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "op/op.h"

#define PS_ATTRS(X) \
    X(FLOAT, spatial_scale, REQUIRED, "0..1", "places of the map per unit of the regions") \
    X(INT, output_dim, REQUIRED, "1..1000000", "channels of the result") \
    X(INT, pooled_size, REQUIRED, "1..10000", "rows and columns of bins") \
    X(INT, group_size, "0", "0..10000", "groups of channels along an axis; 0: as many as bins")
MX_ATTRS(ps_roi_pooling, PS_ATTRS)
#define PS_BACKWARD_ATTRS(X) PS_ATTRS(X) X(DIMS, shape, REQUIRED, "", "shape of the data")
MX_ATTRS(ps_roi_pooling_backward, PS_BACKWARD_ATTRS)

#define DEFORMABLE_ATTRS(X) \
    X(FLOAT, spatial_scale, REQUIRED, "0..1", "places of the map per unit of the regions") \
    X(INT, output_dim, REQUIRED, "1..1000000", "channels of the result") \
    X(INT, group_size, REQUIRED, "1..10000", "groups of channels along an axis") \
    X(INT, pooled_size, REQUIRED, "1..10000", "rows and columns of bins") \
    X(INT, part_size, "0", "0..10000", "parts of a region that move on their own, along an axis; 0: as many as bins") \
    X(INT, sample_per_part, "1", "1..1000", "samples per bin and axis") \
    X(FLOAT, trans_std, "0.0", "0..1", "scale of the movements") \
    X(BOOL, no_trans, "False", "", "nothing moves")
MX_ATTRS(deformable_ps_roi, DEFORMABLE_ATTRS)

static mx_code wrong_shape(const mx_infer *infer, int i, const char *wanted)
{
    char text[MX_SHAPE_TEXT], name[64];
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted %s", mx_op_input_name(infer->op, i, name),
                      mx_shape_text(&infer->in[i], text), wanted);
}

/* data is input 0, rois input 1 of the forward operators */
static mx_code infer_bins(mx_infer *infer, int64_t dim, int64_t pooled, int64_t group)
{
    const mx_shape_t *data = &infer->in[0], *rois = &infer->in[1];
    if (data->ndim >= 0 && data->ndim != 4)
        return wrong_shape(infer, 0, "(batch, channels, height, width)");
    if (data->ndim == 4 && data->dim[1] >= 0 && data->dim[1] != dim * group * group)
        return wrong_shape(infer, 0, "output_dim * group_size^2 channels");
    const mx_shape_t five = {.ndim = 2, .dim = {rois->ndim > 0 ? rois->dim[0] : -1, 5}};
    if (mx_infer_in(infer, 1, &five))
        return mx_error_code();
    const mx_shape_t out = {.ndim = 4, .dim = {rois->dim[0], dim, pooled, pooled}};
    for (int i = 0; i < infer->n_out; i++)
        if (mx_infer_out(infer, i, &out))
            return mx_error_code();
    return MX_OK;
}

static int64_t or_bins(int64_t size, int64_t pooled) { return size > 0 ? size : pooled; }

/* What both references share: the region in places of the map. */
typedef struct region {
    double left, top, width, height;
    bool exists;
} region;

static region region_of(const double *roi, double scale, double shift, int64_t batch)
{
    region r = {round(roi[1]) * scale - shift, round(roi[2]) * scale - shift, 0, 0,
                roi[0] >= 0 && roi[0] < (double)batch};
    r.width = fmax((round(roi[3]) + 1) * scale - shift - r.left, 0.1);
    r.height = fmax((round(roi[4]) + 1) * scale - shift - r.top, 0.1);
    return r;
}

/* ---- PSROIPooling --------------------------------------------------------------------------------------------- */

static mx_code infer_ps(mx_infer *infer)
{
    const mx_ps_roi_pooling_attrs *p = infer->attrs;
    return infer_bins(infer, p->output_dim, p->pooled_size, or_bins(p->group_size, p->pooled_size));
}

/* (ograd, rois) -> data */
static mx_code infer_ps_backward(mx_infer *infer)
{
    const mx_ps_roi_pooling_backward_attrs *p = infer->attrs;
    const mx_shape_t shape = mx_shape_of_dims(&p->shape);
    if (shape.ndim < 0)
        return mx_error_code();
    if (shape.ndim != 4 || !mx_shape_known(&shape))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "shape must have four numbers");
    mx_shape_t in[2] = {shape, infer->in[1]}, out = infer->in[0];
    mx_infer forward = {.op = infer->op, .attrs = p, .n_in = 2, .n_out = 1, .in = in, .out = &out};
    return infer_ps(&forward) ? mx_error_code() : mx_infer_out(infer, 0, &shape);
}

static mx_code grad_ps(mx_grad *grad)
{
    mx_ps_roi_pooling_backward_attrs attrs;
    if (!grad->wanted[0])
        return MX_OK;
    memset(&attrs, 0, sizeof attrs);
    memcpy(&attrs, grad->attrs, sizeof(mx_ps_roi_pooling_attrs)); /* they stand at its front */
    attrs.shape = mx_dims_of_shape(&grad->in_shape[0]);
    return mx_give(grad, 0,
                   mx_g_call(MX_OP("_backward__contrib_PSROIPooling"), &attrs, 2,
                             (mx_array *const[]){grad->ograd[0], grad->in[1]}));
}

static mx_code grad_ps_backward(mx_grad *grad) /* linear: its transpose is the forward operator */
{
    if (!grad->wanted[0])
        return MX_OK;
    return mx_give(
        grad, 0,
        mx_g_call(MX_OP("_contrib_PSROIPooling"), grad->attrs, 2, (mx_array *const[]){grad->ograd[0], grad->in[1]}));
}

static int64_t clip(double x, int64_t limit) { return !(x > 0) ? 0 : x > (double)limit ? limit : (int64_t)x; }

/* Every element of the bins against the places of its bin; forwards a mean, backwards its transpose. */
static void pool_parts(const mx_reference_call *call, const mx_shape_t *data, const mx_shape_t *bins, bool back)
{
    const mx_ps_roi_pooling_attrs *p = call->attrs;
    const int64_t size = p->pooled_size, group = or_bins(p->group_size, size), map = data->dim[2] * data->dim[3];
    memset(call->out[0], 0, (size_t)mx_shape_size(&call->out_shape[0]) * sizeof(double));
    for (int64_t e = 0; e < mx_shape_size(bins); e++) {
        const int64_t j = e % size, i = e / size % size, c = e / size / size % p->output_dim;
        const double *roi = call->in[1] + e / size / size / p->output_dim * 5;
        const region r = region_of(roi, p->spatial_scale, 0, data->dim[0]);
        const double down = r.height / (double)size, across = r.width / (double)size;
        const int64_t top = clip(floor((double)i * down + r.top), data->dim[2]),
                      bottom = clip(ceil((double)(i + 1) * down + r.top), data->dim[2]);
        const int64_t left = clip(floor((double)j * across + r.left), data->dim[3]),
                      right = clip(ceil((double)(j + 1) * across + r.left), data->dim[3]);
        const int64_t channel = (c * group + i * group / size) * group + j * group / size;
        for (int64_t y = top; r.exists && y < bottom; y++)
            for (int64_t x = left; x < right; x++) {
                const int64_t at = ((int64_t)roi[0] * data->dim[1] + channel) * map + y * data->dim[3] + x;
                call->out[0][back ? at : e] += call->in[0][back ? e : at] / (double)((bottom - top) * (right - left));
            }
    }
}
static void ref_ps(const mx_reference_call *call) { pool_parts(call, &call->in_shape[0], &call->out_shape[0], false); }
static void ref_ps_backward(const mx_reference_call *call)
{
    pool_parts(call, &call->out_shape[0], &call->in_shape[0], true);
}

/* ---- DeformablePSROIPooling ----------------------------------------------------------------------------------- */

static int count_deformable(const void *attrs) { return ((const mx_deformable_ps_roi_attrs *)attrs)->no_trans ? 2 : 3; }

static mx_code infer_deformable(mx_infer *infer)
{
    const mx_deformable_ps_roi_attrs *p = infer->attrs;
    const int64_t part = or_bins(p->part_size, p->pooled_size);
    if (infer_bins(infer, p->output_dim, p->pooled_size, p->group_size))
        return mx_error_code();
    if (p->no_trans || infer->n_in < 3)
        return MX_OK;
    const mx_shape_t *trans = &infer->in[2], wanted = {.ndim = 4, .dim = {infer->in[1].dim[0], -1, part, part}};
    if (mx_infer_in(infer, 2, &wanted))
        return mx_error_code();
    if (trans->dim[1] >= 0 && (trans->dim[1] < 2 || trans->dim[1] % 2 || p->output_dim % (trans->dim[1] / 2)))
        return wrong_shape(infer, 2, "(regions, 2 * classes, part_size, part_size) with classes dividing output_dim");
    return MX_OK;
}

/* (ograd, data, rois, top_count, trans) -> gradients of data and trans */
static mx_code infer_deformable_backward(mx_infer *infer)
{
    const bool still = ((const mx_deformable_ps_roi_attrs *)infer->attrs)->no_trans;
    const mx_code code = mx_infer_through(
        infer, infer_deformable, still ? (const int[]){1, 2, -2} : (const int[]){1, 2, 4, -2}, (const int[]){0, 3, -2});
    if (code || mx_infer_out(infer, 0, &infer->in[1]))
        return mx_error_code();
    return still ? MX_OK : mx_infer_out(infer, 1, &infer->in[4]);
}
static int count_backward(const void *attrs) { return count_deformable(attrs) - 1; }
static int count_backward_in(const void *attrs) { return count_deformable(attrs) + 2; }

static mx_code grad_deformable(mx_grad *grad)
{
    const mx_deformable_ps_roi_attrs *p = grad->attrs;
    mx_array *out[MX_MAX_OUTPUTS] = {NULL},
             *in[5] = {grad->ograd[0], grad->in[0], grad->in[1], grad->out[1], p->no_trans ? NULL : grad->in[2]};
    if (grad->create_graph)
        return mx_fail(MX_ERR_AUTOGRAD, "_contrib_DeformablePSROIPooling has no second-order gradient");
    if (!grad->ograd[0])
        return MX_OK;
    if (mx_invoke(MX_OP("_backward__contrib_DeformablePSROIPooling"), p, count_backward_in(p), in, MX_MAX_OUTPUTS, out))
        return mx_error_code();
    grad->igrad[0] = grad->wanted[0] ? out[0] : NULL;
    if (!p->no_trans && grad->wanted[2])
        grad->igrad[2] = out[1];
    return MX_OK;
}

typedef struct walk {
    const mx_deformable_ps_roi_attrs *p;
    const mx_shape_t *data, *trans_shape; /* trans_shape: NULL if nothing moves */
    const double *map, *rois, *trans, *g, *count_in;
    double *out, *count, *dmap, *dtrans;
} walk;

/* The sample at (y, x) of a plane; with g its gradients: into the plane, and by place in *dy, *dx. */
static double sample(const double *plane, double *into, int64_t width, double y, double x, double g, double *dy,
                     double *dx)
{
    const int64_t top = (int64_t)floor(y), bottom = (int64_t)ceil(y), left = (int64_t)floor(x),
                  right = (int64_t)ceil(x);
    const double fy = y - (double)top, fx = x - (double)left;
    const int64_t at[4] = {top * width + left, top * width + right, bottom * width + left, bottom * width + right};
    const double weight[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
    double sum = 0;
    for (int k = 0; k < 4; k++) {
        sum += weight[k] * plane[at[k]];
        if (into)
            into[at[k]] += weight[k] * g;
    }
    *dy = (1 - fx) * (plane[at[2]] - plane[at[0]]) + fx * (plane[at[3]] - plane[at[1]]);
    *dx = (1 - fy) * (plane[at[1]] - plane[at[0]]) + fy * (plane[at[3]] - plane[at[2]]);
    return sum;
}

static void walk_element(const walk *k, int64_t e)
{
    const mx_deformable_ps_roi_attrs *p = k->p;
    const int64_t size = p->pooled_size, part = or_bins(p->part_size, size), group = p->group_size,
                  height = k->data->dim[2], width = k->data->dim[3];
    const int64_t j = e % size, i = e / size % size, c = e / size / size % p->output_dim,
                  n = e / size / size / p->output_dim;
    const double *roi = k->rois + 5 * n;
    const region r = region_of(roi, p->spatial_scale, 0.5, k->data->dim[0]);
    if (!r.exists || !height || !width)
        return;
    const int64_t classes = k->trans_shape ? k->trans_shape->dim[1] / 2 : 1, class_id = c / (p->output_dim / classes);
    const int64_t across = ((n * classes + class_id) * 2 * part + i * part / size) * part + j * part / size,
                  down = across + part * part;
    const double x0 =
        (double)j * r.width / (double)size + r.left + (k->trans ? k->trans[across] * p->trans_std * r.width : 0);
    const double y0 =
        (double)i * r.height / (double)size + r.top + (k->trans ? k->trans[down] * p->trans_std * r.height : 0);
    const int64_t plane =
        ((int64_t)roi[0] * k->data->dim[1] + (c * group + i * group / size) * group + j * group / size) * height *
        width;
    double sum = 0, count = 0;
    for (int64_t s = 0; s < p->sample_per_part * p->sample_per_part; s++) {
        double x = x0 + (double)(s % p->sample_per_part) * r.width / (double)(size * p->sample_per_part), dx,
               y = y0 + (double)(s / p->sample_per_part) * r.height / (double)(size * p->sample_per_part), dy;
        if (!(x >= -0.5 && x <= (double)width - 0.5 && y >= -0.5 && y <= (double)height - 0.5))
            continue;
        const double g = k->g ? k->g[e] / k->count_in[e] : 0;
        x = fmin(fmax(x, 0), (double)(width - 1)), y = fmin(fmax(y, 0), (double)(height - 1));
        sum += sample(k->map + plane, k->g && k->count_in[e] > 0 ? k->dmap + plane : NULL, width, y, x, g, &dy, &dx),
            count++;
        if (k->dtrans && k->count_in[e] > 0) {
            k->dtrans[across] += g * dx * p->trans_std * r.width;
            k->dtrans[down] += g * dy * p->trans_std * r.height;
        }
    }
    if (!k->g)
        k->out[e] = count > 0 ? sum / count : 0, k->count[e] = count;
}

static void ref_deformable(const mx_reference_call *call)
{
    const mx_deformable_ps_roi_attrs *p = call->attrs;
    const walk k = {.p = p, .data = &call->in_shape[0], .trans_shape = p->no_trans ? NULL : &call->in_shape[2], .map = call->in[0], .rois = call->in[1],
                    .trans = p->no_trans ? NULL : call->in[2], .out = call->out[0], .count = call->out[1]};
    for (int i = 0; i < 2; i++)
        memset(call->out[i], 0, (size_t)mx_shape_size(&call->out_shape[i]) * sizeof(double));
    for (int64_t e = 0; e < mx_shape_size(&call->out_shape[0]); e++)
        walk_element(&k, e);
}

static void ref_deformable_backward(const mx_reference_call *call)
{
    const mx_deformable_ps_roi_attrs *p = call->attrs;
    const walk k = {.p = p, .data = &call->in_shape[1], .trans_shape = p->no_trans ? NULL : &call->in_shape[4], .g = call->in[0], .map = call->in[1],
                    .rois = call->in[2], .count_in = call->in[3], .trans = p->no_trans ? NULL : call->in[4], .dmap = call->out[0],
                    .dtrans = p->no_trans ? NULL : call->out[1]};
    for (int i = 0; i < call->n_out; i++)
        memset(call->out[i], 0, (size_t)mx_shape_size(&call->out_shape[i]) * sizeof(double));
    for (int64_t e = 0; e < mx_shape_size(&call->in_shape[0]); e++)
        walk_element(&k, e);
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
mx_op mx_family_roi_parts[] = {
    {.name = "_contrib_PSROIPooling", .look = MX_LOOK_POOLING, .c_name = "ps_roi_pooling", .inputs = "data rois",
     .doc = "the mean of each bin of regions; bins have channels of their own",
     .schema = &ps_roi_pooling_schema, .infer_shape = infer_ps, .gradient = grad_ps, .grad_in = 2, .no_grad_inputs = 2, .reference = ref_ps,
     .samples = SAMPLES({"2,8,6,7;4,5", "spatial_scale=1.0, output_dim=2, pooled_size=2", 0, 5, "f32only"},
                        {"2,8,6,7;4,5", "spatial_scale=0.5, output_dim=2, pooled_size=3, group_size=2", 0, 9, "f32only"},
                        {"1,1,3,3;0,5", "spatial_scale=1.0, output_dim=1, pooled_size=1", 0, 2, "f32only"})},
    {.name = "_backward__contrib_PSROIPooling", .inputs = "ograd rois", .doc = "gradient of PSROIPooling", .schema = &ps_roi_pooling_backward_schema,
     .flags = MX_OP_HIDDEN, .infer_shape = infer_ps_backward, .gradient = grad_ps_backward, .grad_in = 2, .no_grad_inputs = 2, .reference = ref_ps_backward,
     .samples = SAMPLES({"4,2,3,3;4,5", "spatial_scale=0.5, output_dim=2, pooled_size=3, group_size=2, shape=(2, 8, 5, 6)", 0, 9, "f32only"})},
    {.name = "_contrib_DeformablePSROIPooling", .look = MX_LOOK_POOLING, .c_name = "deformable_ps_roi_pooling",
     .inputs = "data rois trans?", .outputs = "output top_count", .n_out = 2,
     .n_visible = 1, .doc = "samples of each bin of regions, moved by learned offsets; bins have channels of their own", .schema = &deformable_ps_roi_schema,
     .count_in = count_deformable, .infer_shape = infer_deformable, .gradient = grad_deformable, .grad_in = 7, .grad_out = 2, .no_grad_inputs = 2,
     .reference = ref_deformable,
     .samples = SAMPLES({"2,8,6,7;4,5", "spatial_scale=1.0, output_dim=2, group_size=2, pooled_size=3, no_trans=True, sample_per_part=2", 0, 5, "f32only"},
                        {"2,8,6,7;4,5;4,2,3,3", "spatial_scale=1.0, output_dim=2, group_size=2, pooled_size=3, trans_std=0.1, sample_per_part=2", 0, 5, "f32only"},
                        {"2,4,9,8;3,5;3,4,2,2", "spatial_scale=0.7, output_dim=4, group_size=1, pooled_size=3, part_size=2, trans_std=0.3", 0, 7, "f32only"})},
    {.name = "_backward__contrib_DeformablePSROIPooling", .inputs = "ograd data rois top_count trans?", .outputs = "data trans", .n_out = 2,
     .doc = "gradients of DeformablePSROIPooling", .schema = &deformable_ps_roi_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .count_in = count_backward_in,
     .count_out = count_backward, .count_visible = count_backward, .infer_shape = infer_deformable_backward, .reference = ref_deformable_backward,
     .samples = SAMPLES({"4,2,3,3;2,8,6,7;4,5;4,2,3,3", "spatial_scale=1.0, output_dim=2, group_size=2, pooled_size=3, no_trans=True, sample_per_part=2", 0, 5, "f32only"},
                        {"3,4,3,3;2,4,9,8;3,5;3,4,3,3;3,4,2,2", "spatial_scale=0.7, output_dim=4, group_size=1, pooled_size=3, part_size=2, trans_std=0.3", 0, 7, "f32only"})},
    {0},
};
