/* mrcnn_mask_target: what the mask head of Mask R-CNN should say.
 *
 *     rois (B, N, 4): left, top, right, bottom in pixels
 *     gt_masks (B, M, H, W); matches (B, N): which mask; cls_targets (B, N)
 *     mask_targets (B, N, C, h, w): the matched mask under the region, as ROIAlign reads it, the same for every class
 *     mask_cls (B, N, C, h, w): 1 where the class is the target, else 0
 *
 * A match outside of the masks gives zeros.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "op/op.h"

#define MASK_ATTRS(X) \
    X(INT, num_rois, REQUIRED, "0..1000000000", "regions per image") \
    X(INT, num_classes, REQUIRED, "1..1000000000", "classes") \
    X(DIMS, mask_size, REQUIRED, "", "rows and columns of the results") \
    X(INT, sample_ratio, "2", "-1..1000", "samples per bin and axis; not positive: one per pixel") \
    X(BOOL, aligned, "False", "", "centres of pixels are at halves")
MX_ATTRS(mask_target, MASK_ATTRS)

static mx_code check(const void *attrs)
{
    const mx_dims *size = &((const mx_mask_target_attrs *)attrs)->mask_size;
    if (size->n == 2 && size->d[0] > 0 && size->d[1] > 0 && size->d[0] < 65536 && size->d[1] < 65536)
        return MX_OK;
    return mx_fail(MX_ERR_ATTRIBUTE, "_contrib_mrcnn_mask_target: mask_size must have two positive numbers");
}

static mx_code infer(mx_infer *infer)
{
    const mx_mask_target_attrs *p = infer->attrs;
    const mx_shape_t *masks = &infer->in[1];
    char text[MX_SHAPE_TEXT];
    if (masks->ndim >= 0 && masks->ndim != 4)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "gt_masks has shape %s, wanted (batch, masks, height, width)",
                          mx_shape_text(masks, text));
    const int64_t batch = masks->ndim < 0 ? -1 : masks->dim[0];
    const mx_shape_t rois = {.ndim = 3, .dim = {batch, p->num_rois, 4}},
                     each = {.ndim = 2, .dim = {batch, p->num_rois}};
    if (mx_infer_in(infer, 0, &rois) || mx_infer_in(infer, 2, &each) || mx_infer_in(infer, 3, &each))
        return mx_error_code();
    const mx_shape_t out = {
        .ndim = 5, .dim = {infer->in[0].dim[0], p->num_rois, p->num_classes, p->mask_size.d[0], p->mask_size.d[1]}};
    return mx_infer_out(infer, 0, &out) ? mx_error_code() : mx_infer_out(infer, 1, &out);
}

/* Element (row, column) of one region: the mean of bilinear samples of `mask`. */
static double mean_of(const mx_mask_target_attrs *p, const double *mask, int64_t h, int64_t w, const double *roi,
                      int64_t row, int64_t column)
{
    const double shift = p->aligned ? 0.5 : 0, left = roi[0] - shift, top = roi[1] - shift;
    double width = roi[2] - shift - left, height = roi[3] - shift - top, sum = 0;
    if (!p->aligned)
        width = fmax(width, 1), height = fmax(height, 1);
    const double bin_w = width / (double)p->mask_size.d[1], bin_h = height / (double)p->mask_size.d[0];
    const double across = p->sample_ratio > 0 ? (double)p->sample_ratio : ceil(bin_w),
                 down = p->sample_ratio > 0 ? (double)p->sample_ratio : ceil(bin_h);
    for (double i = 0; i < down; i++)
        for (double j = 0; j < across; j++) {
            double y = top + ((double)row + (i + 0.5) / down) * bin_h,
                   x = left + ((double)column + (j + 0.5) / across) * bin_w;
            if (!(y >= -1 && y <= (double)h && x >= -1 && x <= (double)w))
                continue;
            y = fmin(fmax(y, 0), (double)(h - 1)), x = fmin(fmax(x, 0), (double)(w - 1));
            for (int64_t k = 0; k < h * w; k++)
                sum += mask[k] * fmax(0, 1 - fabs(y - (double)(k / w))) * fmax(0, 1 - fabs(x - (double)(k % w)));
        }
    return down * across > 0 ? sum / (down * across) : 0;
}

static void reference(const mx_reference_call *call)
{
    const mx_mask_target_attrs *p = call->attrs;
    const mx_shape_t *masks = &call->in_shape[1];
    const int64_t columns = p->mask_size.d[1], each = p->mask_size.d[0] * columns, map = masks->dim[2] * masks->dim[3];
    for (int64_t e = 0; e < mx_shape_size(&call->out_shape[0]); e++) {
        const int64_t class_id = e / each % p->num_classes, roi = e / each / p->num_classes, image = roi / p->num_rois;
        const double match = call->in[2][roi];
        const bool exists = match >= 0 && match < (double)masks->dim[1];
        call->out[0][e] = exists
                              ? mean_of(p, call->in[1] + (image * masks->dim[1] + (int64_t)match) * map, masks->dim[2],
                                        masks->dim[3], call->in[0] + 4 * roi, e % each / columns, e % columns)
                              : 0;
        call->out[1][e] = call->in[3][roi] == (double)class_id;
    }
}

mx_op mx_family_roi_mask_target[] = {
    {.name = "_contrib_mrcnn_mask_target", .c_name = "mrcnn_mask_target", .inputs = "rois gt_masks matches cls_targets", .outputs_numbered = true, .outputs = "mask_targets mask_cls",
     .n_out = 2, .doc = "the masks that the mask head of Mask R-CNN should give", .schema = &mask_target_schema, .flags = MX_OP_ZERO_GRADIENT, .check = check,
     .infer_shape = infer, .reference = reference,
     .samples = (const mx_sample[]){{"2,3,4;2,2,6,7;2,3;2,3", "num_rois=3, num_classes=2, mask_size=(2, 3)", 0, 4, "int:2 int:3 f32only"},
                                    {"1,4,4;1,3,5,5;1,4;1,4", "num_rois=4, num_classes=3, mask_size=(2, 2), sample_ratio=-1", 0, 4, "int:2 int:3 f32only"},
                                    {"1,4,4;1,3,5,5;1,4;1,4", "num_rois=4, num_classes=1, mask_size=(3, 2), aligned=True", 0, 4, "int:2 int:3 f32only"}, {0}}},
    {0},
};
