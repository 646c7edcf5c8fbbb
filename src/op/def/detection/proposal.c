/* Proposal and MultiProposal: boxes from the scores and box offsets of a region proposal network.
 *
 *     cls_prob (N, 2 A, H, W): scores, those of objects in the second half
 *     bbox_pred (N, 4 A, H, W), im_info (N, 3): height, width, scale of the image
 *     output (N * rpn_post_nms_top_n, 5): image and box, best first; score (N * rpn_post_nms_top_n, 1)
 *
 * Anchors are moved and clipped to the image; those that are too small, or outside of it, get the score -1.
 * Of the best rpn_pre_nms_top_n, a box that overlaps a better one by more than the threshold is removed.  If fewer
 * than rpn_post_nms_top_n are left, they are repeated.  Proposal takes one image.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/proposal.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "op/op.h"

#define PROPOSAL_ATTRS(X) \
    X(INT, rpn_pre_nms_top_n, "6000", "", "number of best boxes before suppression; not positive: all") \
    X(INT, rpn_post_nms_top_n, "300", "1..10000000", "number of boxes per image in the output") \
    X(FLOAT, threshold, "0.7", "", "a box that overlaps a better one by more than this is removed") \
    X(INT, rpn_min_size, "16", "0..1000000000", "smallest side of a box, in pixels of the unscaled image") \
    X(FLOATS, scales, "(4.0, 8.0, 16.0, 32.0)", "", "sizes of the anchors, in units of feature_stride") \
    X(FLOATS, ratios, "(0.5, 1.0, 2.0)", "", "ratios of height to width of the anchors") \
    X(INT, feature_stride, "16", "1..1000000", "pixels per position of the feature map") \
    X(BOOL, output_score, "False", "", "also return the scores") \
    X(BOOL, iou_loss, "False", "", "bbox_pred holds offsets of the corners")
MX_ATTRS(proposal, PROPOSAL_ATTRS)

static mx_code check(const void *attrs)
{
    const mx_proposal_attrs *p = attrs;
    const mx_floats *lists[2] = {&p->scales, &p->ratios};
    for (int k = 0; k < 2; k++) {
        bool good = lists[k]->n > 0;
        for (int i = 0; good && i < lists[k]->n; i++)
            good = lists[k]->d[i] > 0 && lists[k]->d[i] < 1e9;
        if (!good)
            return mx_fail(MX_ERR_ATTRIBUTE, "_contrib_Proposal: %s must be positive numbers, at least one",
                           k ? "ratios" : "scales");
    }
    return MX_OK;
}

static int visible(const void *attrs) { return ((const mx_proposal_attrs *)attrs)->output_score ? 2 : 1; }

static mx_code infer_shape(mx_infer *infer)
{
    const mx_proposal_attrs *p = infer->attrs;
    const mx_shape_t *scores = &infer->in[0], *moves = &infer->in[1];
    const bool single = infer->op->user != NULL;
    const int64_t anchors = (int64_t)p->scales.n * p->ratios.n;
    char text[MX_SHAPE_TEXT];
    for (int i = 0; i < 2; i++)
        if (infer->in[i].ndim >= 0 && infer->in[i].ndim != 4)
            return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted (batch, channels, height, width)",
                              i ? "bbox_pred" : "cls_prob", mx_shape_text(&infer->in[i], text));
    const mx_shape_t *known = scores->ndim == 4 ? scores : moves;
    if (known->ndim < 0)
        return MX_OK;
    const mx_shape_t want[3] = {{.ndim = 4, .dim = {known->dim[0], 2 * anchors, known->dim[2], known->dim[3]}},
                                {.ndim = 4, .dim = {known->dim[0], 4 * anchors, known->dim[2], known->dim[3]}},
                                {.ndim = 2, .dim = {known->dim[0], 3}}};
    for (int i = 0; i < 3; i++)
        if (mx_infer_in(infer, i, &want[i]))
            return mx_error_code();
    const int64_t batch = infer->in[0].dim[0];
    if (single && batch >= 0 && batch != 1)
        return mx_op_fail(infer->op, MX_ERR_SHAPE,
                          "cls_prob has shape %s, wanted one image; _contrib_MultiProposal takes more",
                          mx_shape_text(scores, text));
    const mx_shape_t out = {.ndim = 2, .dim = {batch < 0 ? -1 : batch * p->rpn_post_nms_top_n, 5}},
                     score = {.ndim = 2, .dim = {out.dim[0], 1}};
    return mx_infer_out(infer, 0, &out) ? mx_error_code() : mx_infer_out(infer, 1, &score);
}

/* ---- reference: repeatedly takes the best box that is left ---------------------------------------------------- */

static mx_proposal_box box_of(const mx_reference_call *call, int64_t n, int64_t i)
{
    const mx_proposal_attrs *p = call->attrs;
    const mx_shape_t *s = &call->in_shape[0];
    const int64_t anchors = (int64_t)p->scales.n * p->ratios.n, a = i % anchors, x = i / anchors % s->dim[3],
                  y = i / anchors / s->dim[3];
    const double *info = call->in[2] + 3 * n, stride = (double)p->feature_stride;
    mx_proposal_box b = mx_proposal_anchor(&p->scales, &p->ratios, p->feature_stride, a);
    b.left += (double)x * stride, b.right += (double)x * stride, b.top += (double)y * stride,
        b.bottom += (double)y * stride;
    double by[4];
    for (int k = 0; k < 4; k++)
        by[k] = call->in[1][((n * anchors * 4 + 4 * a + k) * s->dim[2] + y) * s->dim[3] + x];
    const bool inside = (double)y < floor(info[0] / stride) && (double)x < floor(info[1] / stride);
    b.score = inside ? call->in[0][((n * anchors * 2 + anchors + a) * s->dim[2] + y) * s->dim[3] + x] : -1;
    return mx_proposal_cut(mx_proposal_move(b, by, p->iou_loss), info, (double)p->rpn_min_size * info[2]);
}

static bool overlaps(const mx_proposal_box *a, const mx_proposal_box *b, double threshold)
{
    const double width = fmax(0, fmin(a->right, b->right) - fmax(a->left, b->left) + 1),
                 height = fmax(0, fmin(a->bottom, b->bottom) - fmax(a->top, b->top) + 1), common = width * height;
    const double one = (a->right - a->left + 1) * (a->bottom - a->top + 1),
                 other = (b->right - b->left + 1) * (b->bottom - b->top + 1);
    return common / (one + other - common) > threshold;
}

/* Fills the rows of image n; `boxes` has room for all of its boxes, `used` for a mark each. */
static void propose(const mx_reference_call *call, int64_t n, int64_t count, mx_proposal_box *boxes, char *used)
{
    const mx_proposal_attrs *p = call->attrs;
    const int64_t rows = p->rpn_post_nms_top_n;
    double *out = call->out[0] + 5 * n * rows, *score = call->out[1] + n * rows;
    int64_t left = p->rpn_pre_nms_top_n > 0 && p->rpn_pre_nms_top_n < count ? p->rpn_pre_nms_top_n : count, kept = 0;
    for (int64_t i = 0; i < count; i++)
        used[i] = 0;
    for (; left > 0 && kept < rows; left--) {
        int64_t best = -1;
        for (int64_t i = 0; i < count; i++)
            if (!used[i] && (best < 0 || boxes[i].score > boxes[best].score))
                best = i;
        const mx_proposal_box *b = &boxes[best];
        bool survives = true;
        used[best] = 1;
        for (int64_t k = 0; k < kept && survives; k++)
            survives = !overlaps(&(mx_proposal_box){out[5 * k + 1], out[5 * k + 2], out[5 * k + 3], out[5 * k + 4], 0},
                                 b, p->threshold);
        if (survives) {
            memcpy(out + 5 * kept, (double[]){(double)n, b->left, b->top, b->right, b->bottom}, 5 * sizeof *out);
            score[kept++] = b->score;
        }
    }
    for (int64_t k = kept; k < rows && kept > 0; k++)
        memcpy(out + 5 * k, out + 5 * (k % kept), 5 * sizeof *out), score[k] = score[k % kept];
}

static void reference(const mx_reference_call *call)
{
    const mx_shape_t *s = &call->in_shape[0];
    const int64_t count = s->dim[1] / 2 * s->dim[2] * s->dim[3];
    const size_t bytes = (size_t)count * (sizeof(mx_proposal_box) + 1);
    mx_proposal_box *boxes = mx_alloc(bytes);
    for (int i = 0; i < 2; i++)
        memset(call->out[i], 0, (size_t)mx_shape_size(&call->out_shape[i]) * sizeof(double));
    for (int64_t n = 0; boxes && n < s->dim[0]; n++) {
        for (int64_t i = 0; i < count; i++)
            boxes[i] = box_of(call, n, i);
        propose(call, n, count, boxes, (char *)(boxes + count));
    }
    mx_free(boxes, bytes);
}

#define PROPOSAL \
    .inputs = "cls_prob bbox_pred im_info", .outputs = "output score", .n_out = 2, .n_visible = 1, .count_visible = visible, \
    .schema = &proposal_schema, .flags = MX_OP_ZERO_GRADIENT, .check = check, .infer_shape = infer_shape, .reference = reference
#define SMALL "scales=(0.5, 1.0), ratios=(1.0,), feature_stride=4, rpn_min_size=1, rpn_post_nms_top_n=6"
mx_op mx_family_proposal[] = {
    {.name = "_contrib_MultiProposal", .c_name = "multi_proposal", .doc = "boxes from the scores and box offsets of a region proposal network", PROPOSAL,
     .samples = (const mx_sample[]){{"2,4,3,4;2,8,3,4;2,3", SMALL, 0.1, 9, "f32only distinct nograd"},
                                    {"2,4,3,4;2,8,3,4;2,3", SMALL ", iou_loss=True, output_score=True, threshold=0.2", 0.1, 9, "f32only distinct nograd"},
                                    {"1,4,2,2;1,8,2,2;1,3", SMALL ", rpn_pre_nms_top_n=3, output_score=True", 0.1, 9, "f32only distinct nograd"},
                                    {"1,4,2,2;1,8,2,2;1,3", SMALL ", threshold=0", 0.1, 9, "f32only distinct nograd"},
                                    {"1,4,0,2;1,8,0,2;1,3", SMALL, 0.1, 9, "f32only nograd"}, {0}}},
    {.name = "_contrib_Proposal", .c_name = "proposal", .doc = "boxes from the scores and box offsets of a region proposal network, for one image", PROPOSAL,
     .user = &proposal_schema,
     .samples = (const mx_sample[]){{"1,4,3,4;1,8,3,4;1,3", SMALL, 0.1, 9, "f32only distinct nograd"}, {0}}},
    {0},
};
