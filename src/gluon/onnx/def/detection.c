/* Detection: boxes, their suppression, the heads of detectors.  SPDX-License-Identifier: Apache-2.0
 *
 * ONNX's NonMaxSuppression returns the places of the boxes that survive, as many as there are.  Ours have results of the
 * input's size: places become a mask, which sorts the boxes. */
#include <math.h>

#include "gluon/onnx/def/detection.h"
#include "ndarray/array.h"

static mx_code check_float(mx_onnx_out *o, double threshold)
{
    if (o->in_type[0] != MX_FLOAT32)
        return mx_onnx_refuse(o, "only float32 can be written");
    return threshold >= 0 && threshold <= 1 ? MX_OK
                                            : mx_onnx_refuse(o, "a threshold of %g cannot be written", threshold);
}

/* ---- overlap ---------------------------------------------------------------------------------------------------- */

/* (..., 2): lower, upper corners */
static const char *area(mx_onnx_out *o, const char *low, const char *high)
{
    const char *size = PUT("Max", PUT("Sub", high, low), NUMBER(0));
    return PUT("Mul", mx_onnx_put_columns(o, size, 0, 1), mx_onnx_put_columns(o, size, 1, 2));
}

static mx_code write_iou(mx_onnx_out *o)
{
    const mx_box_iou_attrs *a = o->attrs;
    const char *low[2], *high[2], *size[2], *shape[2];
    for (int i = 0; i < 2; i++) {
        const char *x = a->format == MX_BOX_IOU_CENTER ? mx_onnx_put_corners(o, o->in[i]) : o->in[i];
        const int rank = mx_onnx_out_rank(o, i);
        x = PUT("Reshape", x, i ? INTS(1, -1, 4) : INTS(-1, 1, 4));
        low[i] = mx_onnx_put_columns(o, x, 0, 2);
        high[i] = mx_onnx_put_columns(o, x, 2, 4);
        size[i] = area(o, low[i], high[i]);
        shape[i] = PUT("Slice", PUT("Shape", o->in[i]), INTS(0), INTS(rank - 1));
    }
    const char *common = area(o, PUT("Max", low[0], low[1]), PUT("Min", high[0], high[1]));
    const char *all = PUT("Sub", PUT("Add", size[0], size[1]), common);
    const char *some = PUT("Greater", all, NUMBER(0));
    const char *y = PUT("Where", some, PUT("Div", common, PUT("Where", some, all, NUMBER(1))), NUMBER(0));
    const bool single = o->out_shape[0].ndim == 1 && o->in_shape[0].ndim == 1 && o->in_shape[1].ndim == 1;
    mx_onnx_put(o, o->out[0], "Reshape", y, single ? INTS(1) : mx_onnx_join(o, 0, shape[0], shape[1]));
    return mx_onnx_done(o);
}

static mx_code write_decode(mx_onnx_out *o)
{
    const mx_box_decode_attrs *a = o->attrs;
    const double scale[4] = {a->std0, a->std1, a->std2, a->std3};
    if (check_float(o, 0))
        return mx_error_code();
    const char *anchors = a->format == MX_BOX_DECODE_CENTER ? mx_onnx_put_corners(o, o->in[1]) : o->in[1];
    const char *y = mx_onnx_put_decoded(o, o->in[0], anchors, scale, a->clip);
    mx_onnx_put(o, o->out[0], "Identity", y);
    return mx_onnx_done(o);
}

/* Offsets of the matched boxes from anchors, and where there are some: samples, matches, anchors, refs, means, stds. */
static mx_code write_encode(mx_onnx_out *o)
{
    const int64_t boxes = o->in_shape[3].ndim == 3 ? o->in_shape[3].dim[1] : -1;
    if (boxes < 1)
        return mx_onnx_refuse(o, "the number of boxes is not known; give the shapes of the inputs");
    const char *match = mx_onnx_put_cast(o, NULL, o->in[1], MX_INT64);
    const char *known = PUT("And", PUT("GreaterOrEqual", o->in[1], mx_onnx_put_number(o, 0, o->in_type[1])),
                            PUT("Less", o->in[1], mx_onnx_put_number(o, (double)boxes, o->in_type[1])));
    const char *used = PUT("And", known, PUT("Greater", o->in[0], mx_onnx_put_number(o, 0.5, o->in_type[0])));
    match = PUT("Where", used, match, mx_onnx_put_number(o, 0, MX_INT64));
    const char *anchor = mx_onnx_put_centers(o, o->in[2]);
    const char *box = mx_onnx_put_centers(o, mx_onnx_put_rows(o, o->in[3], match, 4));
    const char *size = mx_onnx_put_columns(o, anchor, 2, 4);
    const char *away = PUT("Sub", mx_onnx_put_columns(o, box, 0, 2), mx_onnx_put_columns(o, anchor, 0, 2));
    const char *grown = PUT("Log", PUT("Div", mx_onnx_put_columns(o, box, 2, 4), size));
    const char *offsets = mx_onnx_join(o, -1, PUT("Div", away, size), grown);
    offsets = PUT("Div", PUT("Sub", offsets, o->in[4]), o->in[5]);
    const char *wide = PUT("Unsqueeze", used, INTS(2));
    mx_onnx_put(o, o->out[0], "Where", wide, offsets, NUMBER(0));
    const char *mask = mx_onnx_put_cast(o, NULL, wide, MX_FLOAT32);
    mx_onnx_put(o, o->out[1], "Expand", mask, PUT("Shape", o->in[2]));
    return mx_onnx_done(o);
}

/* ---- suppression ------------------------------------------------------------------------------------------------ */

static const char *column(mx_onnx_out *o, const char *rows, int64_t k) /* (B, N) */
{
    const char *y = PUT("Gather", rows, mx_onnx_put_number(o, (double)k, MX_INT64));
    mx_onnx_set_int(o, "axis", 2);
    return y;
}

/* Boxes of different classes are moved so far apart that they do not overlap. */
static const char *apart(mx_onnx_out *o, const char *boxes, const char *class_id)
{
    const char *most = mx_onnx_put_reduce(o, NULL, "ReduceMax", PUT("Abs", boxes), 0, NULL, false);
    const char *step = PUT("Add", PUT("Mul", most, NUMBER(2)), NUMBER(1));
    const char *by = PUT("Unsqueeze", PUT("Mul", class_id, step), INTS(2));
    const double first[4] = {1, 0, 1, 0};
    return PUT("Add", boxes, PUT("Mul", by, mx_onnx_put_floats(o, 4, first, MX_FLOAT32)));
}

/* Scores (B, N); MX_ONNX_WORST: the row is not a candidate. */
static const char *candidates(mx_onnx_out *o, const mx_box_nms_attrs *a, const char *rows, int64_t n)
{
    const char *score = column(o, rows, a->score_index), *valid = PUT("Greater", score, NUMBER(a->valid_thresh));
    if (a->id_index >= 0) {
        const char *background = PUT("Equal", column(o, rows, a->id_index), NUMBER((double)a->background_id));
        valid = PUT("And", valid, PUT("Not", background));
    }
    score = PUT("Where", valid, score, NUMBER(MX_ONNX_WORST));
    return a->topk > 0 && a->topk < n ? mx_onnx_put_best(o, score, a->topk) : score;
}

/* Rows with boxes in the format of the results. */
static const char *formatted(mx_onnx_out *o, const mx_box_nms_attrs *a, const char *rows, int64_t columns)
{
    if (a->in_format == (int)a->out_format)
        return rows;
    const char *boxes = mx_onnx_put_columns(o, rows, a->coord_start, a->coord_start + 4), *parts[3];
    int n = 0;
    if (a->coord_start)
        parts[n++] = mx_onnx_put_columns(o, rows, 0, a->coord_start);
    parts[n++] = a->out_format == MX_BOX_NMS_CORNER ? mx_onnx_put_corners(o, boxes) : mx_onnx_put_centers(o, boxes);
    if (a->coord_start + 4 < columns)
        parts[n++] = mx_onnx_put_columns(o, rows, a->coord_start + 4, columns);
    return mx_onnx_put_concat(o, NULL, -1, n, parts);
}

static mx_code write_nms(mx_onnx_out *o)
{
    const mx_box_nms_attrs *a = o->attrs;
    const mx_shape_t *s = &o->in_shape[0];
    const int64_t n = s->ndim > 1 ? s->dim[s->ndim - 2] : -1, columns = s->ndim > 1 ? s->dim[s->ndim - 1] : -1;
    if (n < 1 || columns < 1)
        return mx_onnx_refuse(o, "the number of boxes is not known; give the shapes of the inputs");
    if (check_float(o, a->overlap_thresh))
        return mx_error_code();
    const char *rows = PUT("Reshape", o->in[0], INTS(-1, n, columns));
    const char *score = candidates(o, a, rows, n);
    const char *boxes = mx_onnx_put_columns(o, rows, a->coord_start, a->coord_start + 4);
    boxes = a->in_format == MX_BOX_NMS_CENTER ? mx_onnx_put_corners(o, boxes) : boxes;
    if (a->id_index >= 0 && !a->force_suppress)
        boxes = apart(o, boxes, column(o, rows, a->id_index));
    const char *kept = mx_onnx_put_survivors(o, boxes, PUT("Unsqueeze", score, INTS(1)), a->overlap_thresh, n);
    kept = mx_onnx_put_cast(o, NULL, kept, MX_BOOL);
    const char *order = mx_onnx_put_order(o, PUT("Where", kept, score, NUMBER(MX_ONNX_WORST)), n);
    const char *there = PUT("GatherElements", mx_onnx_put_cast(o, NULL, kept, MX_FLOAT32), order);
    mx_onnx_set_int(o, "axis", 1);
    there = PUT("Unsqueeze", mx_onnx_put_cast(o, NULL, there, MX_BOOL), INTS(2));
    const char *sorted = formatted(o, a, mx_onnx_put_rows(o, rows, order, columns), columns);
    const char *y = PUT("Where", there, sorted, NUMBER(-1));
    mx_onnx_put(o, o->out[0], "Reshape", y, PUT("Shape", o->in[0]));
    return mx_onnx_done(o);
}

/* Rows (B, C, N, 8) of score, box and place through our operator; those that survive are kept. */
static mx_array *suppressed(mx_onnx_in *n, mx_array *boxes, int64_t classes, double overlap, double least)
{
    mx_array *scores = mx_expand_dims(n->in[1], .axis = 3), *place[3];
    mx_array *all = mx_broadcast_axis(mx_expand_dims(boxes, .axis = 1), .axis = MX_DIMS(1), .size = MX_DIMS(classes));
    for (int k = 0; k < 3; k++) /* batches of any size */
        place[k] = mx_minus_scalar(mx_cumsum(mx_ones_like(scores), .axis = k), .scalar = 1);
    mx_array *rows = mx_concat(MX_ARRAYS(scores, all, place[0], place[1], place[2]), .num_args = 5, .dim = 3);
    return mx_box_nms(rows, .overlap_thresh = overlap, .valid_thresh = least, .coord_start = 1, .score_index = 0);
}

static mx_code read_nms(mx_onnx_in *n)
{
    double most, overlap, least;
    if (!mx_onnx_number(n, 2, 0, &most) || !mx_onnx_number(n, 3, 0, &overlap) ||
        !mx_onnx_number(n, 4, -INFINITY, &least) || mx_onnx_rank(n, 0) < 0 || mx_onnx_rank(n, 1) < 0)
        return mx_error_code();
    if (n->in[0]->ndim != 3 || n->in[1]->ndim != 3)
        return mx_onnx_fail(n, MX_ERR_FILE, "its boxes and scores do not have three axes");
    const int64_t classes = n->in[1]->shape[1], boxes_each = n->in[1]->shape[2];
    if (classes < 0 || boxes_each < 0)
        return mx_onnx_fail(n, MX_ERR_SHAPE, "the number of boxes is not known; give the shapes of the inputs");
    mx_array *x = n->in[0], *low = mx_slice_axis(x, .axis = 2, .begin = 0, .end = 2),
             *high = mx_slice_axis(x, .axis = 2, .begin = 2, .end = 4);
    if (mx_onnx_int(n, "center_point_box", 0)) {
        mx_array *half = mx_mul_scalar(high, .scalar = 0.5);
        high = mx_add(low, half);
        low = mx_sub(low, half);
    }
    mx_array *boxes = mx_concat(MX_ARRAYS(mx_minimum(low, high), mx_maximum(low, high)), .num_args = 2, .dim = 2);
    mx_array *y = suppressed(n, boxes, classes, overlap, least);
    y = mx_slice_axis(y, .axis = 2, .begin = 0, .end = most < (double)boxes_each ? (int64_t)most : boxes_each);
    y = mx_reshape(y, .shape = MX_DIMS(-1, 8));
    mx_array *there = mx_greater_equal_scalar(
        mx_reshape(mx_slice_axis(y, .axis = 1, .begin = 7, .end = 8), .shape = MX_DIMS(-1)), .scalar = 0);
    y = mx_slice_axis(y, .axis = 1, .begin = 5, .end = 8);
    n->out[0] = mx_onnx_cast(mx_boolean_mask(y, there), MX_INT64);
    return MX_OK;
}

/* ---- heads ------------------------------------------------------------------------------------------------------ */

/* What depends on the shape of the input alone is computed now. */
static mx_code write_computed(mx_onnx_out *o)
{
    mx_array *out[MX_MAX_OUTPUTS] = {NULL}, *x;
    if (!mx_shape_known(&o->in_shape[0]) && o->in_shape[0].ndim == 4 && o->in_shape[0].dim[2] < 0)
        return mx_onnx_refuse(o, "the size of the map is not known; give the shapes of the inputs");
    mx_shape_t shape = o->in_shape[0];
    for (int i = 0; i < shape.ndim; i++)
        shape.dim[i] = i < 2 ? 1 : shape.dim[i]; /* neither batch nor channels matter */
    x = mx_scope_add(mx_array_new(&shape, MX_FLOAT32, mx_cpu(0)));
    if (!x || mx_array_fill(x, 0) || mx_invoke(o->node->op, o->attrs, 1, &x, MX_MAX_OUTPUTS, out))
        return mx_error_code();
    mx_onnx_put(o, o->out[0], "Identity", mx_onnx_put_array(o, out[0]));
    return mx_onnx_done(o);
}

/* The best class that is not the background, and its score: (B, A) each. */
static const char *best_class(mx_onnx_out *o, int64_t classes, int64_t background, const char **class_id)
{
    int64_t others[1024];
    int n = 0;
    for (int64_t c = 0; c < classes && n < 1024; c++)
        if (c != background)
            others[n++] = c;
    const char *scores = PUT("Gather", o->in[0], mx_onnx_put_ints(o, n, others));
    mx_onnx_set_int(o, "axis", 1);
    *class_id = PUT("ArgMax", scores);
    mx_onnx_set_int(o, "axis", 1);
    mx_onnx_set_int(o, "keepdims", 0);
    *class_id = mx_onnx_put_cast(o, NULL, *class_id, MX_FLOAT32);
    return mx_onnx_put_reduce(o, NULL, "ReduceMax", scores, 1, (int64_t[]){1}, false);
}

/* (B, N) at indices (B, N) */
static const char *ordered(mx_onnx_out *o, const char *x, const char *order)
{
    const char *y = PUT("GatherElements", x, order);
    mx_onnx_set_int(o, "axis", 1);
    return y;
}

/* Of sorted boxes: which ones survive, as a bool (B, N). */
static const char *surviving(mx_onnx_out *o, const mx_multibox_detection_attrs *a, const char *boxes, const char *score,
                             const char *class_id, int64_t classes, int64_t n)
{
    const double threshold = nextafterf((float)a->nms_threshold, -1); /* an overlap that is equal suffices */
    const char *scores = PUT("Unsqueeze", score, INTS(1));
    if (!a->force_suppress && classes > 2) {
        double ids[1024];
        for (int64_t c = 0; c + 1 < classes; c++)
            ids[c] = (double)c;
        const char *list = PUT("Reshape", mx_onnx_put_floats(o, (int)classes - 1, ids, MX_FLOAT32), INTS(1, -1, 1));
        const char *own = PUT("Equal", PUT("Unsqueeze", class_id, INTS(1)), list);
        scores = PUT("Where", own, scores, NUMBER(MX_ONNX_WORST));
    }
    return mx_onnx_put_cast(o, NULL, mx_onnx_put_survivors(o, boxes, scores, threshold, n), MX_BOOL);
}

static mx_code write_multibox(mx_onnx_out *o)
{
    const mx_multibox_detection_attrs *a = o->attrs;
    const mx_shape_t *s = &o->in_shape[0];
    const int64_t classes = s->ndim == 3 ? s->dim[1] : -1, n = s->ndim == 3 ? s->dim[2] : -1;
    const bool nms = a->nms_threshold > 0 && a->nms_threshold <= 1, cut = a->nms_topk > 0 && a->nms_topk < n;
    const char *class_id;
    if (n < 1 || classes < 2 || classes > 1024)
        return mx_onnx_refuse(o, "the numbers of classes and anchors are not known, or there are no classes");
    if (check_float(o, 0))
        return mx_error_code();
    const char *score = best_class(o, classes, a->background_id, &class_id);
    const char *valid = PUT("Not", PUT("Less", score, NUMBER(a->threshold)));
    const char *boxes = mx_onnx_put_decoded(o, PUT("Reshape", o->in[1], INTS(-1, n, 4)), o->in[2], a->variances.d, 0);
    boxes = a->clip ? PUT("Clip", boxes, NUMBER(0), NUMBER(1)) : boxes;
    const char *key = PUT("Where", valid, score, NUMBER(MX_ONNX_WORST)), *order = mx_onnx_put_order(o, key, n);
    const char *best = cut ? mx_onnx_put_best(o, key, a->nms_topk) : key;
    const char *kept = nms ? surviving(o, a, boxes, best, class_id, classes, n) : valid;
    if (cut) { /* rows that do not compete come in the order of the anchors, those that are valid first */
        double places[1] = {-1.0};
        const char *count =
            PUT("CumSum", PUT("Expand", mx_onnx_put_floats(o, 1, places, MX_FLOAT32), PUT("Shape", key)),
                mx_onnx_put_number(o, 1, MX_INT64));
        const char *plain = mx_onnx_put_order(o, PUT("Where", valid, count, NUMBER(MX_ONNX_WORST)), n);
        const char *first = PUT("Slice", order, INTS(0), INTS(a->nms_topk), INTS(1)),
                   *rest = PUT("Slice", plain, INTS(a->nms_topk), INTS(n), INTS(1));
        order = mx_onnx_join(o, 1, first, rest);
        const char *competes = PUT("Greater", best, NUMBER(MX_ONNX_WORST / 2));
        kept = PUT("And", kept, competes);
    }
    class_id = PUT("Where", PUT("And", kept, valid), class_id, NUMBER(-1));
    const char *rows = mx_onnx_join(o, 2, PUT("Unsqueeze", class_id, INTS(2)), PUT("Unsqueeze", score, INTS(2)), boxes);
    const char *there = ordered(o, mx_onnx_put_cast(o, NULL, valid, MX_FLOAT32), order);
    if (cut) { /* a row at the end may be one of the best as well: there it is not a detection */
        const char *again = mx_onnx_put_rows(o, rows, order, 6);
        const char *head = PUT("Slice", again, INTS(0), INTS(a->nms_topk), INTS(1)),
                   *tail = PUT("Slice", again, INTS(a->nms_topk), INTS(n), INTS(1));
        const char *none = PUT("Sub", PUT("Mul", mx_onnx_put_columns(o, tail, 0, 1), NUMBER(0)), NUMBER(1));
        rows = mx_onnx_join(o, 1, head, mx_onnx_join(o, 2, none, mx_onnx_put_columns(o, tail, 1, 6)));
    } else
        rows = mx_onnx_put_rows(o, rows, order, 6);
    there = PUT("Unsqueeze", mx_onnx_put_cast(o, NULL, there, MX_BOOL), INTS(2));
    mx_onnx_put(o, o->out[0], "Where", there, rows, NUMBER(-1));
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_detection[] = {
    BOTH("NonMaxSuppression", "_contrib_box_nms", read_nms, write_nms, .constants = 28),
    WRITE(NULL, "_contrib_box_iou", write_iou),
    WRITE(NULL, "_contrib_box_decode", write_decode),
    WRITE(NULL, "_contrib_box_encode", write_encode),
    WRITE(NULL, "_contrib_MultiBoxPrior", write_computed),
    WRITE(NULL, "_contrib_MultiBoxDetection", write_multibox),
    {0}};
