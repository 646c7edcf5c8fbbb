/* RROIAlign: the mean of bilinear samples in each bin of rotated regions.
 *
 * data (N, C, H, W), rois (R, 6): image, centre x, centre y, width, height, angle in degrees; clockwise on the screen.
 * Linear in the data, so its gradient is its transpose.  A region of an image that does not exist gives zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "op/op.h"

#define ROTATED_ATTRS(X) \
    X(DIMS, pooled_size, REQUIRED, "", "rows and columns of bins") \
    X(FLOAT, spatial_scale, REQUIRED, "0..1", "places of the map per unit of the regions") \
    X(INT, sampling_ratio, "-1", "-1..1000", "samples per bin and axis; not positive: one per place of the map")
MX_ATTRS(rroi_align, ROTATED_ATTRS)
#define BACKWARD_ATTRS(X) ROTATED_ATTRS(X) X(DIMS, shape, REQUIRED, "", "shape of the data")
MX_ATTRS(rroi_align_backward, BACKWARD_ATTRS)

static mx_code check(const void *attrs)
{
    const mx_dims *size = &((const mx_rroi_align_attrs *)attrs)->pooled_size;
    char text[MX_SHAPE_TEXT];
    if (size->n == 2 && size->d[0] > 0 && size->d[1] > 0 && size->d[0] < 65536 && size->d[1] < 65536)
        return MX_OK;
    return mx_fail(MX_ERR_ATTRIBUTE, "_contrib_RROIAlign: pooled_size is %s, wanted two positive numbers",
                   mx_dims_text(size, text));
}

static mx_code infer(mx_infer *infer)
{
    const mx_rroi_align_attrs *p = infer->attrs;
    const mx_shape_t *data = &infer->in[0], *rois = &infer->in[1];
    char text[MX_SHAPE_TEXT];
    if (data->ndim >= 0 && data->ndim != 4)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (batch, channels, height, width)",
                          mx_shape_text(data, text));
    const mx_shape_t wanted = {.ndim = 2, .dim = {rois->ndim > 0 ? rois->dim[0] : -1, 6}};
    if (mx_infer_in(infer, 1, &wanted))
        return mx_error_code();
    const mx_shape_t out = {
        .ndim = 4, .dim = {rois->dim[0], data->ndim < 0 ? -1 : data->dim[1], p->pooled_size.d[0], p->pooled_size.d[1]}};
    return mx_infer_out(infer, 0, &out);
}

/* (ograd, rois) -> data */
static mx_code infer_backward(mx_infer *infer_it)
{
    const mx_rroi_align_backward_attrs *p = infer_it->attrs;
    const mx_shape_t shape = mx_shape_of_dims(&p->shape);
    if (shape.ndim < 0)
        return mx_error_code();
    if (shape.ndim != 4 || !mx_shape_known(&shape) || check(p))
        return mx_op_fail(infer_it->op, MX_ERR_ATTRIBUTE, "shape must have four numbers, pooled_size two");
    mx_shape_t in[2] = {shape, infer_it->in[1]}, out = infer_it->in[0];
    mx_infer forward = {.op = infer_it->op, .attrs = p, .n_in = 2, .n_out = 1, .in = in, .out = &out};
    return infer(&forward) ? mx_error_code() : mx_infer_out(infer_it, 0, &shape);
}

static mx_code gradient(mx_grad *grad)
{
    const mx_rroi_align_attrs *p = grad->attrs;
    const mx_rroi_align_backward_attrs attrs = {p->pooled_size, p->spatial_scale, p->sampling_ratio,
                                                mx_dims_of_shape(&grad->in_shape[0])};
    if (!grad->wanted[0])
        return MX_OK;
    return mx_give(
        grad, 0,
        mx_g_call(MX_OP("_backward__contrib_RROIAlign"), &attrs, 2, (mx_array *const[]){grad->ograd[0], grad->in[1]}));
}

static mx_code gradient_backward(mx_grad *grad)
{
    const mx_rroi_align_backward_attrs *p = grad->attrs;
    const mx_rroi_align_attrs attrs = {p->pooled_size, p->spatial_scale, p->sampling_ratio};
    if (!grad->wanted[0])
        return MX_OK;
    return mx_give(grad, 0,
                   mx_g_call(MX_OP("_contrib_RROIAlign"), &attrs, 2, (mx_array *const[]){grad->ograd[0], grad->in[1]}));
}

/* The weight of pixel (py, px) when the map is read at (y, x): edges continue for less than a pixel. */
static double hat(double y, double x, int64_t py, int64_t px, int64_t height, int64_t width)
{
    if (!(y >= -1 && y <= (double)height && x >= -1 && x <= (double)width))
        return 0;
    y = fmin(fmax(y, 0), (double)(height - 1)), x = fmin(fmax(x, 0), (double)(width - 1));
    return fmax(0, 1 - fabs(y - (double)py)) * fmax(0, 1 - fabs(x - (double)px));
}

/* How much bin `bin` of a region takes of pixel (py, px). */
static double share(const mx_rroi_align_attrs *p, const double *roi, int64_t bin, const mx_shape_t *data, int64_t py,
                    int64_t px)
{
    const int64_t rows = p->pooled_size.d[0], columns = p->pooled_size.d[1];
    const double width = fmax(roi[3] * p->spatial_scale, 1), height = fmax(roi[4] * p->spatial_scale, 1),
                 angle = roi[5] * 3.14159265358979323846 / 180;
    const double down = p->sampling_ratio > 0 ? (double)p->sampling_ratio : ceil(height / (double)rows),
                 across = p->sampling_ratio > 0 ? (double)p->sampling_ratio : ceil(width / (double)columns);
    double sum = 0;
    for (double i = 0; i < down; i++)
        for (double j = 0; j < across; j++) {
            const double y = ((double)(bin / columns) + (i + 0.5) / down) * height / (double)rows - height / 2,
                         x = ((double)(bin % columns) + (j + 0.5) / across) * width / (double)columns - width / 2;
            sum += hat(y * cos(angle) - x * sin(angle) + roi[2] * p->spatial_scale,
                       x * cos(angle) + y * sin(angle) + roi[1] * p->spatial_scale, py, px, data->dim[2], data->dim[3]);
        }
    return sum / (down * across);
}

/* Every pixel against every bin: bins from pixels, or back. */
static void both_ways(const mx_reference_call *call, const mx_shape_t *data, const mx_shape_t *bins, bool back)
{
    const int64_t map = data->dim[2] * data->dim[3], each = bins->dim[2] * bins->dim[3];
    memset(call->out[0], 0, (size_t)mx_shape_size(&call->out_shape[0]) * sizeof(double));
    for (int64_t e = 0; e < mx_shape_size(bins); e++) {
        const double *roi = call->in[1] + e / each / bins->dim[1] * 6;
        for (int64_t k = 0; k < map && roi[0] >= 0 && roi[0] < (double)data->dim[0]; k++) {
            const double weight = share(call->attrs, roi, e % each, data, k / data->dim[3], k % data->dim[3]);
            const int64_t at = ((int64_t)roi[0] * data->dim[1] + e / each % bins->dim[1]) * map + k;
            call->out[0][back ? at : e] += weight * call->in[0][back ? e : at];
        }
    }
}
static void reference(const mx_reference_call *call)
{
    both_ways(call, &call->in_shape[0], &call->out_shape[0], false);
}
static void ref_backward(const mx_reference_call *call)
{
    both_ways(call, &call->out_shape[0], &call->in_shape[0], true);
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
mx_op mx_family_roi_rotated[] = {
    {.name = "_contrib_RROIAlign", .c_name = "rroi_align", .inputs = "data rois", .doc = "the mean of bilinear samples in each bin of rotated regions",
     .schema = &rroi_align_schema, .check = check, .infer_shape = infer, .gradient = gradient, .grad_in = 2, .no_grad_inputs = 2, .reference = reference,
     .samples = SAMPLES({"2,3,6,7;4,6", "pooled_size=(2, 3), spatial_scale=1.0, sampling_ratio=2", 0, 5, "f32only"},
                        {"3,2,5,4;5,6", "pooled_size=(3, 2), spatial_scale=0.5", 0, 8, "f32only"},
                        {"1,1,9,9;3,6", "pooled_size=(2, 2), spatial_scale=0.1", 0, 80, "f32only"}, {"1,2,3,3;0,6", "pooled_size=(1, 1), spatial_scale=1.0", 0, 2, "f32only"})},
    {.name = "_backward__contrib_RROIAlign", .inputs = "ograd rois", .doc = "gradient of RROIAlign", .schema = &rroi_align_backward_schema,
     .flags = MX_OP_HIDDEN, .infer_shape = infer_backward, .gradient = gradient_backward, .grad_in = 2, .no_grad_inputs = 2, .reference = ref_backward,
     .samples = SAMPLES({"4,3,2,2;4,6", "pooled_size=(2, 2), spatial_scale=1.0, sampling_ratio=2, shape=(2, 3, 4, 5)", 0, 3, "f32only"})},
    {0},
};
