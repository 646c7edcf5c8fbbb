/* MultiBox: anchors over a feature map, targets for training a detector on them, detections from its predictions.
 *
 * References here, kernels in cpu/kernels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "op/formula/boxes.h"

#define PRIOR_ATTRS(X) \
    X(FLOATS, sizes, "(1.0,)", "", "sizes of the boxes as shares of the height") \
    X(FLOATS, ratios, "(1.0,)", "", "ratios of width to height") \
    X(BOOL, clip, "False", "", "cut the boxes at the border") \
    X(FLOATS, steps, "(-1.0, -1.0)", "", "distance of neighbouring centres, (y, x); negative: one place of the map") \
    X(FLOATS, offsets, "(0.5, 0.5)", "", "where in its place a centre lies, (y, x)")
MX_ATTRS(multibox_prior, PRIOR_ATTRS)

#define TARGET_ATTRS(X) \
    X(FLOAT, overlap_threshold, "0.5", "", "an anchor that overlaps a box more is positive") \
    X(FLOAT, ignore_label, "-1.0", "", "class of anchors that do not count") \
    X(FLOAT, negative_mining_ratio, "-1.0", "", "negatives per positive, the hardest first; negative: all") \
    X(FLOAT, negative_mining_thresh, "0.5", "", "only anchors that overlap less can be negative") \
    X(INT, minimum_negative_samples, "0", "0..", "at least so many negatives") \
    X(FLOATS, variances, "(0.1, 0.1, 0.2, 0.2)", "", "the offsets are divided by these")
MX_ATTRS(multibox_target, TARGET_ATTRS)

#define DETECTION_ATTRS(X) \
    X(BOOL, clip, "True", "", "cut the boxes at the border") \
    X(FLOAT, threshold, "0.01", "", "least score of a detection") \
    X(INT, background_id, "0", "0..", "the class that is nothing") \
    X(FLOAT, nms_threshold, "0.5", "", "a box that overlaps a better one so much goes") \
    X(BOOL, force_suppress, "False", "", "boxes of different classes compete, too") \
    X(FLOATS, variances, "(0.1, 0.1, 0.2, 0.2)", "", "the offsets are multiplied by these") \
    X(INT, nms_topk, "-1", "", "only so many best boxes compete; -1: all")
MX_ATTRS(multibox_detection, DETECTION_ATTRS)

static mx_code wrong_shape(const mx_infer *infer, int i, const char *wanted)
{
    char text[MX_SHAPE_TEXT], name[64];
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted %s", mx_op_input_name(infer->op, i, name),
                      mx_shape_text(&infer->in[i], text), wanted);
}

static mx_code need(const char *op, const char *what, const mx_floats *given, int n)
{
    return given->n == n ? MX_OK : mx_fail(MX_ERR_ATTRIBUTE, "%s: %s has %d numbers, wanted %d", op, what, given->n, n);
}

/* ---- MultiBoxPrior ------------------------------------------------------------------------------------------------ */

static mx_code check_prior(const void *a)
{
    const mx_multibox_prior_attrs *attrs = a;
    if (attrs->sizes.n < 1 || attrs->ratios.n < 1)
        return mx_fail(MX_ERR_ATTRIBUTE, "_contrib_MultiBoxPrior: sizes and ratios must each have a number");
    for (int i = 0; i < attrs->ratios.n; i++)
        if (!(attrs->ratios.d[i] > 0))
            return mx_fail(MX_ERR_ATTRIBUTE, "_contrib_MultiBoxPrior: ratio %g is not positive", attrs->ratios.d[i]);
    if (need("_contrib_MultiBoxPrior", "steps", &attrs->steps, 2))
        return mx_error_code();
    return need("_contrib_MultiBoxPrior", "offsets", &attrs->offsets, 2);
}

static mx_code infer_prior(mx_infer *infer)
{
    const mx_multibox_prior_attrs *attrs = infer->attrs;
    const mx_shape_t *data = &infer->in[0];
    if (data->ndim >= 0 && data->ndim != 4)
        return wrong_shape(infer, 0, "(batch, channels, height, width)");
    if (!mx_shape_known(data))
        return MX_OK;
    const int64_t each = attrs->sizes.n + attrs->ratios.n - 1;
    if (data->dim[2] > (1 << 20) || data->dim[3] > (1 << 20))
        return wrong_shape(infer, 0, "a smaller map");
    const mx_shape_t out = {.ndim = 3, .dim = {1, data->dim[2] * data->dim[3] * each, 4}};
    return mx_infer_out(infer, 0, &out);
}

/* All sizes with the first ratio, then the first size with the other ratios. */
static void ref_prior(const mx_reference_call *call)
{
    const mx_multibox_prior_attrs *p = call->attrs;
    const int64_t height = call->in_shape[0].dim[2], width = call->in_shape[0].dim[3],
                  each = p->sizes.n + p->ratios.n - 1;
    const double step_y = p->steps.d[0] <= 0 ? 1 / (double)height : p->steps.d[0],
                 step_x = p->steps.d[1] <= 0 ? 1 / (double)width : p->steps.d[1];
    for (int64_t i = 0; i < height * width * each; i++) {
        const int64_t k = i % each, x = i / each % width, y = i / each / width;
        const double size = p->sizes.d[k < p->sizes.n ? k : 0],
                     ratio = sqrt(p->ratios.d[k < p->sizes.n ? 0 : k - p->sizes.n + 1]);
        const double half_w = size * (double)height / (double)width * ratio / 2, half_h = size / ratio / 2;
        const double cx = ((double)x + p->offsets.d[1]) * step_x, cy = ((double)y + p->offsets.d[0]) * step_y;
        double *to = call->out[0] + 4 * i;
        to[0] = cx - half_w, to[1] = cy - half_h, to[2] = cx + half_w, to[3] = cy + half_h;
        for (int c = 0; c < 4 && p->clip; c++)
            to[c] = fmin(fmax(to[c], 0), 1);
    }
}

/* ---- MultiBoxTarget ------------------------------------------------------------------------------------------------- */

static mx_code check_target(const void *a)
{
    return need("_contrib_MultiBoxTarget", "variances", &((const mx_multibox_target_attrs *)a)->variances, 4);
}

/* anchor (1, A, 4), label (B, L, 5 or more), cls_pred (B, classes, A) */
static mx_code infer_target(mx_infer *infer)
{
    const mx_shape_t *anchor = &infer->in[0], *label = &infer->in[1], *prediction = &infer->in[2];
    if (anchor->ndim >= 0 && (anchor->ndim != 3 || (anchor->dim[2] >= 0 && anchor->dim[2] != 4) ||
                              (anchor->dim[0] >= 0 && anchor->dim[0] != 1)))
        return wrong_shape(infer, 0, "(1, anchors, 4)");
    if (label->ndim >= 0 && (label->ndim != 3 || (label->dim[2] >= 0 && label->dim[2] < 5)))
        return wrong_shape(infer, 1, "(batch, boxes, 5 or more)");
    if (prediction->ndim >= 0 && prediction->ndim != 3)
        return wrong_shape(infer, 2, "(batch, classes, anchors)");
    if (!mx_shape_known(anchor) || label->ndim < 0 || label->dim[0] < 0)
        return MX_OK;
    const int64_t batch = label->dim[0], anchors = anchor->dim[1];
    const mx_shape_t wanted = {.ndim = 3, .dim = {batch, prediction->ndim < 0 ? -1 : prediction->dim[1], anchors}};
    const mx_shape_t location = {.ndim = 2, .dim = {batch, 4 * anchors}}, class = {.ndim = 2, .dim = {batch, anchors}};
    if (mx_infer_in(infer, 2, &wanted) || mx_infer_out(infer, 0, &location) || mx_infer_out(infer, 1, &location))
        return mx_error_code();
    return mx_infer_out(infer, 2, &class);
}

typedef struct anchor_state {
    double overlap; /* with `box`, the best one */
    double score;   /* of the background: low ones are hard */
    int64_t box;    /* -1: none */
    int kind;       /* 1 positive, 0 negative, -1 ignored */
} anchor_state;

typedef struct target_call {
    const mx_multibox_target_attrs *attrs;
    const double *anchors, *labels, *predictions; /* (A, 4), (boxes, width), (classes, A) */
    int64_t n, boxes, width, classes;
    anchor_state *state; /* (n) */
} target_call;

static double target_overlap(const target_call *t, int64_t anchor, int64_t box)
{
    return mx_box_overlap(mx_box_of(t->anchors + 4 * anchor, false), mx_box_of(t->labels + box * t->width + 1, false));
}

/* Every box takes the anchor that overlaps it most, the best pair first. */
static int64_t match_boxes(const target_call *t)
{
    int64_t matched = 0;
    for (; matched < t->boxes; matched++) {
        double best = 1e-6;
        int64_t anchor = -1, box = -1;
        for (int64_t k = 0; k < t->boxes; k++) {
            bool taken = false;
            for (int64_t i = 0; i < t->n && !taken; i++)
                taken = t->state[i].kind == 1 && t->state[i].box == k;
            for (int64_t i = 0; i < t->n && !taken; i++) {
                const double overlap = t->state[i].kind == 1 ? 0 : target_overlap(t, i, k);
                if (overlap > best)
                    best = overlap, anchor = i, box = k;
            }
        }
        if (anchor < 0)
            break;
        t->state[anchor] = (anchor_state){best, 0, box, 1};
    }
    return matched;
}

/* The other anchors take the box that they overlap most, if it is enough. */
static int64_t match_anchors(const target_call *t)
{
    int64_t positive = 0;
    for (int64_t i = 0; i < t->n; i++) {
        anchor_state *a = &t->state[i];
        if (a->kind == 1)
            continue;
        a->overlap = -1;
        for (int64_t k = 0; k < t->boxes; k++) {
            const double overlap = target_overlap(t, i, k);
            if (overlap > a->overlap)
                a->overlap = overlap, a->box = k;
        }
        if (t->attrs->overlap_threshold > 0 && a->overlap > t->attrs->overlap_threshold)
            a->kind = 1, positive++;
    }
    return positive;
}

/* The share of the background in the softmax of one anchor's predictions. */
static double background_share(const target_call *t, int64_t anchor)
{
    double most = -INFINITY, sum = 0;
    for (int64_t c = 0; c < t->classes; c++)
        most = fmax(most, t->predictions[c * t->n + anchor]);
    for (int64_t c = 0; c < t->classes; c++)
        sum += exp(t->predictions[c * t->n + anchor] - most);
    return t->classes ? exp(t->predictions[anchor] - most) / sum : 0;
}

/* order, score: scratch of n each */
static void mine_negatives(const target_call *t, int64_t positive, int64_t *order, double *score)
{
    const mx_multibox_target_attrs *p = t->attrs;
    double wanted = fmax((double)positive * p->negative_mining_ratio, (double)p->minimum_negative_samples);
    int64_t count = 0;
    wanted = fmin(wanted, (double)(t->n - positive));
    for (int64_t i = 0; i < t->n; i++)
        if (t->state[i].kind != 1 && t->state[i].overlap < p->negative_mining_thresh) {
            score[i] = -background_share(t, i);
            order[count++] = i;
        }
    mx_sort_by_score(score, order, count);
    for (int64_t i = 0; i < count && i < (int64_t)wanted; i++)
        t->state[order[i]].kind = 0;
}

static void put_targets(const target_call *t, double *location, double *mask, double *class)
{
    for (int64_t i = 0; i < t->n; i++) {
        const anchor_state *a = &t->state[i];
        const bool positive = a->kind == 1;
        const double *label = positive ? t->labels + a->box * t->width : NULL;
        if (positive)
            mx_box_offsets(mx_box_of(t->anchors + 4 * i, false), mx_box_of(label + 1, false), location + 4 * i);
        for (int k = 0; k < 4; k++) {
            location[4 * i + k] = positive ? location[4 * i + k] / t->attrs->variances.d[k] : 0;
            mask[4 * i + k] = positive;
        }
        class[i] = positive ? label[0] + 1 : a->kind == 0 ? 0 : t->attrs->ignore_label;
    }
}

static void ref_target(const mx_reference_call *call)
{
    const int64_t n = call->in_shape[0].dim[1], batch = call->in_shape[1].dim[0], rows = call->in_shape[1].dim[1],
                  width = call->in_shape[1].dim[2], classes = call->in_shape[2].dim[1];
    const size_t bytes = (size_t)n * (sizeof(anchor_state) + sizeof(int64_t) + sizeof(double));
    anchor_state *state = mx_alloc(bytes);
    int64_t *order = state ? (int64_t *)(state + n) : NULL;
    for (int64_t b = 0; b < batch && state; b++) {
        target_call t = {
            call->attrs, call->in[0], call->in[1] + b * rows * width, call->in[2] + b * classes * n, n, 0, width,
            classes,     state};
        while (t.boxes < rows && t.labels[t.boxes * width] != -1)
            t.boxes++;
        for (int64_t i = 0; i < n; i++)
            state[i] = (anchor_state){-1, 0, -1, -1};
        if (t.boxes) {
            int64_t positive = match_boxes(&t);
            positive += match_anchors(&t);
            if (t.attrs->negative_mining_ratio > 0)
                mine_negatives(&t, positive, order, (double *)(order + n));
            else
                for (int64_t i = 0; i < n; i++)
                    state[i].kind = state[i].kind == 1;
        }
        put_targets(&t, call->out[0] + b * 4 * n, call->out[1] + b * 4 * n, call->out[2] + b * n);
    }
    mx_free(state, bytes);
}

/* ---- MultiBoxDetection -------------------------------------------------------------------------------------------------- */

static mx_code check_detection(const void *a)
{
    return need("_contrib_MultiBoxDetection", "variances", &((const mx_multibox_detection_attrs *)a)->variances, 4);
}

/* cls_prob (B, classes, A), loc_pred (B, 4 A), anchor (1, A, 4) -> (B, A, 6): class, score, box */
static mx_code infer_detection(mx_infer *infer)
{
    const mx_shape_t *prob = &infer->in[0];
    if (prob->ndim >= 0 && prob->ndim != 3)
        return wrong_shape(infer, 0, "(batch, classes, anchors)");
    if (!mx_shape_known(prob))
        return MX_OK;
    const mx_shape_t location = {.ndim = 2, .dim = {prob->dim[0], 4 * prob->dim[2]}},
                     anchor = {.ndim = 3, .dim = {1, prob->dim[2], 4}};
    const mx_shape_t out = {.ndim = 3, .dim = {prob->dim[0], prob->dim[2], 6}};
    if (mx_infer_in(infer, 1, &location) || mx_infer_in(infer, 2, &anchor))
        return mx_error_code();
    return mx_infer_out(infer, 0, &out);
}

static void detect_row(const mx_multibox_detection_attrs *p, const double *anchor, const double *offset, double *row)
{
    const mx_box a = mx_box_of(anchor, false);
    const double *v = p->variances.d, width = a.right - a.left, height = a.bottom - a.top;
    const double cx = offset[0] * v[0] * width + (a.left + a.right) / 2,
                 cy = offset[1] * v[1] * height + (a.top + a.bottom) / 2;
    const double half_w = exp(offset[2] * v[2]) * width / 2, half_h = exp(offset[3] * v[3]) * height / 2;
    row[2] = cx - half_w, row[3] = cy - half_h, row[4] = cx + half_w, row[5] = cy + half_h;
    for (int k = 2; k < 6 && p->clip; k++)
        row[k] = fmin(fmax(row[k], 0), 1);
}

/* Rows of the anchors whose best class is not too weak, in order of the anchors. */
static int64_t collect(const mx_reference_call *call, int64_t b, double *rows)
{
    const mx_multibox_detection_attrs *p = call->attrs;
    const int64_t classes = call->in_shape[0].dim[1], n = call->in_shape[0].dim[2];
    const double *prob = call->in[0] + b * classes * n;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        double best = -1;
        int64_t class = -1;
        for (int64_t c = 0; c < classes; c++)
            if (c != p->background_id && prob[c * n + i] > best)
                best = prob[c * n + i], class = c;
        if (class < 0 || best < p->threshold)
            continue;
        rows[6 * count] = (double)(class > p->background_id ? class - 1 : class);
        rows[6 * count + 1] = best;
        detect_row(p, call->in[2] + 4 * i, call->in[1] + (b * n + i) * 4, rows + 6 * count++);
    }
    return count;
}

static void suppress(const mx_multibox_detection_attrs *p, double *rows, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = i + 1; k < count && rows[6 * i] >= 0; k++) {
            double *row = rows + 6 * k;
            if (row[0] < 0 || (!p->force_suppress && row[0] != rows[6 * i]))
                continue;
            if (mx_box_overlap(mx_box_of(rows + 6 * i + 2, false), mx_box_of(row + 2, false)) >= p->nms_threshold)
                row[0] = -1;
        }
}

static void ref_detection(const mx_reference_call *call)
{
    const mx_multibox_detection_attrs *p = call->attrs;
    const int64_t n = call->in_shape[0].dim[2];
    const size_t bytes = (size_t)n * (7 * sizeof(double) + sizeof(int64_t));
    double *rows = mx_alloc(bytes), *score = rows ? rows + 6 * n : NULL;
    int64_t *order = rows ? (int64_t *)(score + n) : NULL;
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = -1;
    for (int64_t b = 0; b < call->in_shape[0].dim[0] && rows; b++) {
        double *out = call->out[0] + b * n * 6;
        const int64_t count = collect(call, b, rows);
        for (int64_t i = 0; i < count; i++)
            order[i] = i, score[i] = rows[6 * i + 1];
        mx_sort_by_score(score, order, count);
        const int64_t kept = p->nms_topk > 0 && p->nms_topk < count ? p->nms_topk : count;
        memcpy(out, rows, (size_t)(6 * count) * sizeof *out);
        for (int64_t i = 0; i < count; i++)
            if (i < kept)
                memcpy(out + 6 * i, rows + 6 * order[i], 6 * sizeof *out);
            else
                out[6 * i] = -1;
        if (p->nms_threshold > 0 && p->nms_threshold <= 1)
            suppress(p, out, kept);
    }
    mx_free(rows, bytes);
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
mx_op mx_family_multibox[] = {
    {.name = "_contrib_MultiBoxPrior", .input_named = true, .precision = MX_PRECISION_FLOAT32, .aliases = "_npx_multibox_prior",
     .c_name = "multibox_prior", .inputs = "data",
     .doc = "anchor boxes at every place of a feature map", .schema = &multibox_prior_schema, .flags = MX_OP_ZERO_GRADIENT, .check = check_prior,
     .infer_shape = infer_prior, .reference = ref_prior,
     .samples = SAMPLES({"1,3,2,3", "sizes=(0.5, 0.25), ratios=(1, 2, 0.5)", 0, 0, "floatonly"},
                        {"2,1,3,2", "sizes=(0.4,), ratios=(2, 3), clip=True, steps=(0.3, 0.2), offsets=(0.4, 0.6)", 0, 0, "floatonly"})},
    {.name = "_contrib_MultiBoxTarget", .precision = MX_PRECISION_FLOAT32, .aliases = "_npx_multibox_target",
     .c_name = "multibox_target", .inputs = "anchor label cls_pred",
     .outputs = "loc_target loc_mask cls_target", .n_out = 3, .doc = "training targets of anchors: offsets, mask and class", .schema = &multibox_target_schema,
     .flags = MX_OP_ZERO_GRADIENT, .check = check_target, .infer_shape = infer_target, .reference = ref_target,
     .samples = SAMPLES({"1,7,4;2,3,5;2,3,7", "", 0, 1, "f32only"}, {"1,9,4;2,2,6;2,4,9", "overlap_threshold=0.1, negative_mining_ratio=2", 0, 1, "f32only"})},
    {.name = "_contrib_MultiBoxDetection", .precision = MX_PRECISION_FLOAT32, .aliases = "_npx_multibox_detection",
     .c_name = "multibox_detection", .inputs = "cls_prob loc_pred anchor",
     .doc = "detections (class, score, box) by falling score; class -1: suppressed", .schema = &multibox_detection_schema,
     .flags = MX_OP_ZERO_GRADIENT, .check = check_detection, .infer_shape = infer_detection, .reference = ref_detection,
     .samples = SAMPLES({"2,3,7;2,28;1,7,4", "", 0, 1, "f32only distinct"},
                        {"1,4,9;1,36;1,9,4", "clip=False, threshold=0.5, nms_threshold=0.1, force_suppress=True, nms_topk=4", 0, 1, "f32only distinct"})},
    {0},
};
