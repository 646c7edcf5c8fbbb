/* Pooling of regions: ROIPooling takes the largest value of each bin, ROIAlign the mean of bilinear samples.
 *
 * data (N, C, H, W), rois (R, 5): image, left, top, right, bottom, in units of 1 / spatial_scale.  A region of an image
 * that does not exist gives zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "op/op.h"

#define POOLING_ATTRS(X) \
    X(DIMS, pooled_size, REQUIRED, "", "rows and columns of bins") \
    X(FLOAT, spatial_scale, REQUIRED, "0..1", "places of the map per unit of the regions")
MX_ATTRS(roi_pooling, POOLING_ATTRS)

#define ALIGN_ATTRS(X) POOLING_ATTRS(X) \
    X(INT, sample_ratio, "-1", "-1..1000", "samples per bin and axis; not positive: one per place of the map") \
    X(BOOL, position_sensitive, "False", "", "every bin has channels of its own") \
    X(BOOL, aligned, "False", "", "centres of places are at halves")
MX_ATTRS(roi_align, ALIGN_ATTRS)

/* The backward operators know the map's size from an attribute. */
#define SIZE_ATTRS(X) X(DIMS, shape, REQUIRED, "", "shape of the data")
MX_ATTRS(roi_pooling_backward, SIZE_ATTRS)
#define ALIGN_BACKWARD_ATTRS(X) ALIGN_ATTRS(X) SIZE_ATTRS(X)
MX_ATTRS(roi_align_backward, ALIGN_BACKWARD_ATTRS)

static mx_code check_bins(const char *op, const mx_dims *size)
{
    if (size->n == 2 && size->d[0] > 0 && size->d[1] > 0 && size->d[0] < 65536 && size->d[1] < 65536)
        return MX_OK;
    char text[MX_SHAPE_TEXT];
    return mx_fail(MX_ERR_ATTRIBUTE, "%s: pooled_size is %s, wanted two positive numbers", op,
                   mx_dims_text(size, text));
}
static mx_code check_pooling(const void *a)
{
    return check_bins("ROIPooling", &((const mx_roi_pooling_attrs *)a)->pooled_size);
}
static mx_code check_align(const void *a)
{
    return check_bins("_contrib_ROIAlign", &((const mx_roi_align_attrs *)a)->pooled_size);
}

static mx_code wrong_shape(const mx_infer *infer, int i, const char *wanted)
{
    char text[MX_SHAPE_TEXT], name[64];
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted %s", mx_op_input_name(infer->op, i, name),
                      mx_shape_text(&infer->in[i], text), wanted);
}

/* bins: rows and columns; divisor: channels of the data per channel of the result */
static mx_code infer_regions(mx_infer *infer, const mx_dims *bins, int64_t divisor)
{
    const mx_shape_t *data = &infer->in[0], *rois = &infer->in[1];
    if (data->ndim >= 0 && data->ndim != 4)
        return wrong_shape(infer, 0, "(batch, channels, height, width)");
    if (rois->ndim >= 0 && (rois->ndim != 2 || (rois->dim[1] >= 0 && rois->dim[1] != 5)))
        return wrong_shape(infer, 1, "(regions, 5)");
    if (!mx_shape_known(data) || !mx_shape_known(rois))
        return MX_OK;
    if (data->dim[1] % divisor)
        return wrong_shape(infer, 0, "a multiple of as many channels as there are bins");
    const mx_shape_t out = {.ndim = 4, .dim = {rois->dim[0], data->dim[1] / divisor, bins->d[0], bins->d[1]}};
    for (int i = 0; i < infer->n_out; i++)
        if (mx_infer_out(infer, i, &out))
            return mx_error_code();
    return MX_OK;
}

/* ---- ROIPooling --------------------------------------------------------------------------------------------------- */

static mx_code infer_pooling(mx_infer *infer)
{
    return infer_regions(infer, &((const mx_roi_pooling_attrs *)infer->attrs)->pooled_size, 1);
}

static mx_code infer_pooling_type(mx_infer *infer)
{
    for (int i = 0; i < 2; i++)
        if (mx_infer_in_type(infer, i, infer->in_type[0]))
            return mx_error_code();
    return mx_infer_out_type(infer, 0, infer->in_type[0]) ? mx_error_code() : mx_infer_out_type(infer, 1, MX_INT32);
}

static mx_code grad_pooling(mx_grad *grad)
{
    if (!grad->ograd[0] || !grad->wanted[0])
        return MX_OK;
    if (grad->create_graph)
        return mx_fail(MX_ERR_AUTOGRAD, "ROIPooling has no second-order gradient");
    const mx_roi_pooling_backward_attrs attrs = {mx_dims_of_shape(&grad->in_shape[0])};
    return mx_give(grad, 0,
                   mx_g_call(MX_OP("_backward_ROIPooling"), &attrs, 3,
                             (mx_array *const[]){grad->ograd[0], grad->in[1], grad->out[1]}));
}

/* (ograd (R, C, h, w), rois (R, 5), maxidx (R, C, h, w)) -> data */
static mx_code infer_pooling_backward(mx_infer *infer)
{
    const mx_roi_pooling_backward_attrs *attrs = infer->attrs;
    const mx_shape_t shape = mx_shape_of_dims(&attrs->shape), *g = &infer->in[0];
    if (shape.ndim < 0)
        return mx_error_code();
    if (shape.ndim != 4 || !mx_shape_known(&shape))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "shape must have four numbers");
    if (g->ndim >= 0 && (g->ndim != 4 || (g->dim[1] >= 0 && g->dim[1] != shape.dim[1])))
        return wrong_shape(infer, 0, "(regions, channels of the data, rows, columns)");
    const mx_shape_t rois = {.ndim = 2, .dim = {g->ndim < 0 ? -1 : g->dim[0], 5}};
    if (mx_infer_in(infer, 2, g) || mx_infer_in(infer, 1, &rois))
        return mx_error_code();
    return mx_infer_out(infer, 0, &shape);
}

static mx_code infer_pooling_backward_type(mx_infer *infer)
{
    if (mx_infer_in_type(infer, 1, infer->in_type[0]) || mx_infer_in_type(infer, 2, MX_INT32))
        return mx_error_code();
    return mx_infer_out_type(infer, 0, infer->in_type[0]);
}

/* Bin b of `bins` over `size` places from `from`, inside [0, limit). */
static void bin_range(int64_t b, int64_t bins, int64_t from, int64_t size, int64_t limit, int64_t *begin, int64_t *end)
{
    const double each = (double)size / (double)bins;
    *begin = (int64_t)floor((double)b * each) + from;
    *end = (int64_t)ceil((double)(b + 1) * each) + from;
    *begin = *begin < 0 ? 0 : *begin > limit ? limit : *begin;
    *end = *end < 0 ? 0 : *end > limit ? limit : *end;
}

static void ref_pooling(const mx_reference_call *call)
{
    const mx_roi_pooling_attrs *p = call->attrs;
    const mx_shape_t *data = &call->in_shape[0], *out = &call->out_shape[0];
    for (int64_t e = 0; e < mx_shape_size(out); e++) {
        const int64_t column = e % out->dim[3], row = e / out->dim[3] % out->dim[2],
                      channel = e / out->dim[3] / out->dim[2] % out->dim[1];
        const double *roi = call->in[1] + e / out->dim[3] / out->dim[2] / out->dim[1] * 5;
        int64_t corner[4], top, bottom, left, right;
        for (int k = 0; k < 4; k++)
            corner[k] = (int64_t)round(roi[k + 1] * p->spatial_scale);
        const int64_t width = corner[2] - corner[0] + 1 > 1 ? corner[2] - corner[0] + 1 : 1;
        const int64_t height = corner[3] - corner[1] + 1 > 1 ? corner[3] - corner[1] + 1 : 1;
        bin_range(row, out->dim[2], corner[1], height, data->dim[2], &top, &bottom);
        bin_range(column, out->dim[3], corner[0], width, data->dim[3], &left, &right);
        double best = -INFINITY, where = -1;
        const bool exists = roi[0] >= 0 && roi[0] < (double)data->dim[0];
        for (int64_t y = top; y < bottom && exists; y++)
            for (int64_t x = left; x < right; x++) {
                const double v =
                    call->in[0][(((int64_t)roi[0] * data->dim[1] + channel) * data->dim[2] + y) * data->dim[3] + x];
                if (v > best)
                    best = v, where = (double)(y * data->dim[3] + x);
            }
        call->out[0][e] = where < 0 ? 0 : best;
        call->out[1][e] = where;
    }
}

/* ---- ROIAlign ------------------------------------------------------------------------------------------------------- */

static mx_code infer_align(mx_infer *infer)
{
    const mx_roi_align_attrs *p = infer->attrs;
    return infer_regions(infer, &p->pooled_size, p->position_sensitive ? p->pooled_size.d[0] * p->pooled_size.d[1] : 1);
}

static mx_code grad_align(mx_grad *grad)
{
    const mx_roi_align_attrs *p = grad->attrs;
    const mx_roi_align_backward_attrs attrs = {p->pooled_size, p->spatial_scale, p->sample_ratio, p->position_sensitive, p->aligned,
                                               mx_dims_of_shape(&grad->in_shape[0])};
    if (grad->wanted[0])
        grad->igrad[0] = mx_g_call(MX_OP("_backward__contrib_ROIAlign"), &attrs, 2,
                                   (mx_array *const[]){grad->ograd[0], grad->in[1]});
    return grad->wanted[0] && !grad->igrad[0] ? mx_error_code() : MX_OK;
}

static mx_code grad_align_backward(mx_grad *grad) /* linear: its transpose is the forward operator */
{
    const mx_roi_align_backward_attrs *p = grad->attrs;
    const mx_roi_align_attrs attrs = {p->pooled_size, p->spatial_scale, p->sample_ratio, p->position_sensitive,
                                      p->aligned};
    if (grad->wanted[0])
        grad->igrad[0] =
            mx_g_call(MX_OP("_contrib_ROIAlign"), &attrs, 2, (mx_array *const[]){grad->ograd[0], grad->in[1]});
    return grad->wanted[0] && !grad->igrad[0] ? mx_error_code() : MX_OK;
}

/* (ograd, rois) -> data */
static mx_code infer_align_backward(mx_infer *infer)
{
    const mx_roi_align_backward_attrs *p = infer->attrs;
    const mx_shape_t shape = mx_shape_of_dims(&p->shape), *rois = &infer->in[1];
    if (shape.ndim < 0)
        return mx_error_code();
    if (shape.ndim != 4 || !mx_shape_known(&shape) || check_bins(infer->op->name, &p->pooled_size))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "shape must have four numbers, pooled_size two");
    if (rois->ndim >= 0 && (rois->ndim != 2 || (rois->dim[1] >= 0 && rois->dim[1] != 5)))
        return wrong_shape(infer, 1, "(regions, 5)");
    const int64_t bins = p->pooled_size.d[0] * p->pooled_size.d[1];
    if (p->position_sensitive && shape.dim[1] % bins)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "the channels of shape are no multiple of the bins");
    const mx_shape_t g = {.ndim = 4, .dim = {rois->ndim < 0 ? -1 : rois->dim[0], shape.dim[1] / (p->position_sensitive ? bins : 1),
                                             p->pooled_size.d[0], p->pooled_size.d[1]}};
    return mx_infer_in(infer, 0, &g) ? mx_error_code() : mx_infer_out(infer, 0, &shape);
}

/* One bilinear sample at (y, x): adds factor * value of `map` to *sum, or factor * *sum to `into`. */
static void sample(const double *map, double *into, int64_t height, int64_t width, double y, double x, double factor,
                   double *sum)
{
    if (!(y >= -1 && y <= (double)height && x >= -1 && x <= (double)width))
        return;
    y = fmax(y, 0), x = fmax(x, 0);
    int64_t top = (int64_t)y, left = (int64_t)x;
    if (top >= height - 1)
        top = height - 1, y = (double)top;
    if (left >= width - 1)
        left = width - 1, x = (double)left;
    const int64_t bottom = top + 1 < height ? top + 1 : top, right = left + 1 < width ? left + 1 : left;
    const double dy = y - (double)top, dx = x - (double)left,
                 weight[4] = {(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx};
    const int64_t place[4] = {top * width + left, top * width + right, bottom * width + left, bottom * width + right};
    for (int k = 0; k < 4; k++)
        if (into)
            into[place[k]] += factor * weight[k] * *sum;
        else
            *sum += factor * weight[k] * map[place[k]];
}

/* Both directions: element e of the pooled array against the map. */
static void align_element(const mx_roi_align_attrs *p, const mx_shape_t *data, const mx_shape_t *out,
                          const double *rois, int64_t e, const double *map, double *into, double *value)
{
    const int64_t column = e % out->dim[3], row = e / out->dim[3] % out->dim[2], bins = out->dim[2] * out->dim[3];
    const int64_t channel = e / bins % out->dim[1], region = e / bins / out->dim[1];
    const double *roi = rois + region * 5, shift = p->aligned ? 0.5 : 0;
    if (!(roi[0] >= 0 && roi[0] < (double)data->dim[0]))
        return;
    const double left = roi[1] * p->spatial_scale - shift, top = roi[2] * p->spatial_scale - shift;
    double width = roi[3] * p->spatial_scale - shift - left, height = roi[4] * p->spatial_scale - shift - top;
    if (!p->aligned)
        width = fmax(width, 1), height = fmax(height, 1);
    const double bin_w = width / (double)out->dim[3], bin_h = height / (double)out->dim[2];
    const int64_t across = p->sample_ratio > 0 ? p->sample_ratio : (int64_t)ceil(bin_w),
                  down = p->sample_ratio > 0 ? p->sample_ratio : (int64_t)ceil(bin_h);
    const int64_t from = p->position_sensitive ? channel * bins + row * out->dim[3] + column : channel;
    const int64_t plane = ((int64_t)roi[0] * data->dim[1] + from) * data->dim[2] * data->dim[3];
    for (int64_t i = 0; i < down; i++)
        for (int64_t j = 0; j < across; j++)
            sample(map ? map + plane : NULL, into ? into + plane : NULL, data->dim[2], data->dim[3],
                   top + ((double)row + ((double)i + 0.5) / (double)down) * bin_h,
                   left + ((double)column + ((double)j + 0.5) / (double)across) * bin_w, 1 / (double)(across * down),
                   value);
}

static void ref_align(const mx_reference_call *call)
{
    for (int64_t e = 0; e < mx_shape_size(&call->out_shape[0]); e++) {
        call->out[0][e] = 0;
        align_element(call->attrs, &call->in_shape[0], &call->out_shape[0], call->in[1], e, call->in[0], NULL,
                      &call->out[0][e]);
    }
}

static void ref_align_backward(const mx_reference_call *call)
{
    const mx_roi_align_backward_attrs *p = call->attrs;
    const mx_roi_align_attrs attrs = {p->pooled_size, p->spatial_scale, p->sample_ratio, p->position_sensitive,
                                      p->aligned};
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = 0;
    for (int64_t e = 0; e < mx_shape_size(&call->in_shape[0]); e++) {
        double value = call->in[0][e];
        align_element(&attrs, &call->out_shape[0], &call->in_shape[0], call->in[1], e, NULL, call->out[0], &value);
    }
}

static void ref_pooling_backward(const mx_reference_call *call)
{
    const mx_shape_t *data = &call->out_shape[0], *g = &call->in_shape[0];
    const int64_t map = data->dim[2] * data->dim[3], bins = g->dim[2] * g->dim[3];
    for (int64_t i = 0; i < mx_shape_size(data); i++)
        call->out[0][i] = 0;
    for (int64_t e = 0; e < mx_shape_size(g); e++) {
        const double image = call->in[1][e / bins / g->dim[1] * 5], where = call->in[2][e];
        if (image >= 0 && image < (double)data->dim[0] && where >= 0 && where < (double)map)
            call->out[0][((int64_t)image * data->dim[1] + e / bins % g->dim[1]) * map + (int64_t)where] +=
                call->in[0][e];
    }
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
mx_op mx_family_roi[] = {
    {.name = "ROIPooling", .look = MX_LOOK_POOLING, .precision = MX_PRECISION_FLOAT32, .aliases = "_npx_roi_pooling",
     .c_name = "roi_pooling",
     .inputs = "data rois", .outputs = "output maxidx", .n_out = 2, .n_visible = 1,
     .doc = "the largest value of each bin of regions; each region is divided into pooled_size bins, whatever its size", .schema = &roi_pooling_schema, .check = check_pooling, .infer_shape = infer_pooling,
     .infer_type = infer_pooling_type, .gradient = grad_pooling, .grad_in = 2, .grad_out = 2, .no_grad_inputs = 2, .reference = ref_pooling,
     .samples = SAMPLES({"2,3,6,7;4,5", "pooled_size=(2, 3), spatial_scale=1.0", 0, 5, "f32only distinct"},
                        {"3,2,5,4;5,5", "pooled_size=(3, 2), spatial_scale=0.5", 0, 6, "f32only distinct"})},
    {.name = "_backward_ROIPooling", .inputs = "ograd rois maxidx", .doc = "gradient of ROIPooling", .schema = &roi_pooling_backward_schema,
     .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .infer_shape = infer_pooling_backward, .infer_type = infer_pooling_backward_type,
     .reference = ref_pooling_backward,
     .samples = SAMPLES({"4,3,2,2;4,5;4,3,2,2", "shape=(2, 3, 3, 3)", 0, 3, "f32only int:1 int:2"})},
    {.name = "_contrib_ROIAlign", .precision = MX_PRECISION_FLOAT32, .c_name = "roi_align", .inputs = "data rois",
     .doc = "the mean of bilinear samples in each bin of regions", .schema = &roi_align_schema,
     .check = check_align, .infer_shape = infer_align, .gradient = grad_align, .grad_in = 2, .no_grad_inputs = 2, .reference = ref_align,
     .samples = SAMPLES({"2,3,6,7;4,5", "pooled_size=(2, 3), spatial_scale=1.0, sample_ratio=2", 0, 5, "f32only"},
                        {"3,2,5,4;5,5", "pooled_size=(3, 2), spatial_scale=0.5", 0, 6, "f32only"},
                        {"2,8,5,4;5,5", "pooled_size=(2, 2), spatial_scale=0.7, position_sensitive=True, aligned=True", 0, 3, "f32only"})},
    {.name = "_backward__contrib_ROIAlign", .inputs = "ograd rois", .doc = "gradient of ROIAlign", .schema = &roi_align_backward_schema,
     .flags = MX_OP_HIDDEN, .infer_shape = infer_align_backward, .gradient = grad_align_backward, .grad_in = 2, .no_grad_inputs = 2,
     .reference = ref_align_backward,
     .samples = SAMPLES({"4,3,2,2;4,5", "pooled_size=(2, 2), spatial_scale=1.0, sample_ratio=2, shape=(2, 3, 4, 5)", 0, 3, "f32only"})},
    {0},
};
