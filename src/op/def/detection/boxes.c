/* Box operators: overlap, suppression, matching, encoding and decoding.
 *
 * References here, kernels in cpu/kernels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/boxes.h"

#include <string.h>

#include "base/error.h"

#define IOU_ATTRS(X) X(ENUM, format, "corner", "corner|center", "boxes are corners, or centre and size")
MX_ATTRS(box_iou, IOU_ATTRS)

#define NMS_ATTRS(X) \
    X(FLOAT, overlap_thresh, "0.5", "", "a box that overlaps a better one by more than this is removed") \
    X(FLOAT, valid_thresh, "0", "", "only boxes with a higher score are considered") \
    X(INT, topk, "-1", "", "number of best boxes to consider; -1: all") \
    X(INT, coord_start, "2", "0..1000000", "column of the first of four coordinates") \
    X(INT, score_index, "1", "0..1000000", "column of the score") \
    X(INT, id_index, "-1", "-1..1000000", "column of the class; -1: none") \
    X(INT, background_id, "-1", "", "class that is ignored") \
    X(BOOL, force_suppress, "False", "", "boxes also suppress boxes of other classes") \
    X(ENUM, in_format, "corner", "corner|center", "format of the boxes") \
    X(ENUM, out_format, "corner", "corner|center", "format of the results")
MX_ATTRS(box_nms, NMS_ATTRS)
enum { CORNER, CENTER };

#define MATCHING_ATTRS(X) \
    X(BOOL, is_ascend, "False", "", "smaller scores are better") \
    X(FLOAT, threshold, REQUIRED, "", "matches with a worse score are ignored") \
    X(INT, topk, "-1", "", "stop once there are more matches; -1: never")
MX_ATTRS(bipartite_matching, MATCHING_ATTRS)

#define DECODE_ATTRS(X) \
    X(FLOAT, std0, "1.0", "", "scale of x") \
    X(FLOAT, std1, "1.0", "", "scale of y") \
    X(FLOAT, std2, "1.0", "", "scale of the width's logarithm") \
    X(FLOAT, std3, "1.0", "", "scale of the height's logarithm") \
    X(FLOAT, clip, "-1.0", "", "upper bound of the logarithm of a size; negative: none") \
    X(ENUM, format, "center", "corner|center", "format of the anchors")
MX_ATTRS(box_decode, DECODE_ATTRS)

static mx_code wrong_shape(const mx_infer *infer, int i, const char *wanted)
{
    char text[MX_SHAPE_TEXT], name[64];
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted %s", mx_op_input_name(infer->op, i, name),
                      mx_shape_text(&infer->in[i], text), wanted);
}

/* ---- box_iou ---------------------------------------------------------------------------------------------------- */

static mx_code infer_iou(mx_infer *infer)
{
    mx_shape_t out = {0};
    for (int i = 0; i < 2; i++) {
        const mx_shape_t *s = &infer->in[i];
        if (s->ndim == 0 || (s->ndim > 0 && s->dim[s->ndim - 1] >= 0 && s->dim[s->ndim - 1] != 4))
            return wrong_shape(infer, i, "(..., 4)");
    }
    if (!mx_shape_known(&infer->in[0]) || !mx_shape_known(&infer->in[1]))
        return MX_OK;
    if (infer->in[0].ndim + infer->in[1].ndim - 2 > MX_MAX_NDIM)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "the result would have more than %d axes", MX_MAX_NDIM);
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < infer->in[i].ndim - 1; k++)
            out.dim[out.ndim++] = infer->in[i].dim[k];
    if (!out.ndim)
        out = (mx_shape_t){.ndim = 1, .dim = {1}};
    return mx_infer_out(infer, 0, &out);
}

static void ref_iou(const mx_reference_call *call)
{
    const bool center = ((const mx_box_iou_attrs *)call->attrs)->format == CENTER;
    const int64_t lhs = mx_shape_size(&call->in_shape[0]) / 4, rhs = mx_shape_size(&call->in_shape[1]) / 4;
    for (int64_t i = 0; i < lhs; i++)
        for (int64_t j = 0; j < rhs; j++)
            call->out[0][i * rhs + j] =
                mx_box_overlap(mx_box_of(call->in[0] + 4 * i, center), mx_box_of(call->in[1] + 4 * j, center));
}

/* ---- box_nms ------------------------------------------------------------------------------------------------------- */

static mx_code infer_nms(mx_infer *infer)
{
    const mx_box_nms_attrs *attrs = infer->attrs;
    const mx_shape_t *data = &infer->in[0];
    if (mx_infer_out(infer, 0, data) || mx_infer_in(infer, 0, &infer->out[0]))
        return mx_error_code();
    if (data->ndim >= 0 && data->ndim < 2)
        return wrong_shape(infer, 0, "(..., boxes, columns)");
    if (!mx_shape_known(data))
        return MX_OK;
    const int64_t columns = data->dim[data->ndim - 1];
    if (attrs->coord_start + 4 > columns || attrs->score_index >= columns || attrs->id_index >= columns)
        return wrong_shape(infer, 0, "as many columns as coord_start + 4, score_index and id_index need");
    mx_shape_t index = *data;
    index.dim[index.ndim - 1] = 1;
    return mx_infer_out(infer, 1, &index);
}

static mx_code infer_nms_type(mx_infer *infer)
{
    if (mx_infer_out_type(infer, 0, infer->in_type[0]) || mx_infer_in_type(infer, 0, infer->out_type[0]))
        return mx_error_code();
    return mx_infer_out_type(infer, 1, MX_INT32);
}

/* The candidate rows, best first; returns how many. */
static int64_t nms_candidates(const mx_box_nms_attrs *attrs, const double *rows, int64_t n, int64_t columns,
                              int64_t *order, double *score)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const double *row = rows + i * columns;
        score[i] = row[attrs->score_index];
        const bool background = attrs->id_index >= 0 && row[attrs->id_index] == (double)attrs->background_id;
        if (score[i] > attrs->valid_thresh && !background)
            order[count++] = i;
    }
    mx_sort_by_score(score, order, count);
    return attrs->topk > 0 && attrs->topk < count ? attrs->topk : count;
}

static bool suppresses(const mx_box_nms_attrs *attrs, const double *better, const double *row)
{
    if (attrs->id_index >= 0 && !attrs->force_suppress && better[attrs->id_index] != row[attrs->id_index])
        return false;
    const bool center = attrs->in_format == CENTER;
    return mx_box_overlap(mx_box_of(better + attrs->coord_start, center), mx_box_of(row + attrs->coord_start, center)) >
           attrs->overlap_thresh;
}

static void put_row(const mx_box_nms_attrs *attrs, const double *from, double *to, int64_t columns)
{
    memcpy(to, from, (size_t)columns * sizeof *to);
    if (attrs->in_format == attrs->out_format)
        return;
    const mx_box b = mx_box_of(from + attrs->coord_start, attrs->in_format == CENTER);
    double *x = to + attrs->coord_start;
    if (attrs->out_format == CORNER)
        x[0] = b.left, x[1] = b.top, x[2] = b.right, x[3] = b.bottom;
    else
        x[0] = (b.left + b.right) / 2, x[1] = (b.top + b.bottom) / 2, x[2] = b.right - b.left, x[3] = b.bottom - b.top;
}

static void ref_nms(const mx_reference_call *call)
{
    const mx_box_nms_attrs *attrs = call->attrs;
    const mx_shape_t *data = &call->in_shape[0];
    const int64_t n = data->dim[data->ndim - 2], columns = data->dim[data->ndim - 1], size = mx_shape_size(data);
    const size_t bytes = (size_t)n * (sizeof(int64_t) + sizeof(double));
    int64_t *order = mx_alloc(bytes);
    if (!order)
        return;
    for (int64_t i = 0; i < size; i++)
        call->out[0][i] = -1;
    for (int64_t i = 0; i < (columns ? size / columns : 0); i++)
        call->out[1][i] = -1;
    for (int64_t batch = 0; batch < (size ? size / (n * columns) : 0); batch++) {
        const double *rows = call->in[0] + batch * n * columns;
        double *out = call->out[0] + batch * n * columns, *index = call->out[1] + batch * n;
        const int64_t count = nms_candidates(attrs, rows, n, columns, order, (double *)(order + n));
        int64_t kept = 0;
        for (int64_t i = 0; i < count; i++) {
            const double *row = rows + order[i] * columns;
            bool survives = true;
            for (int64_t k = 0; k < kept && survives; k++)
                survives = !suppresses(attrs, rows + (int64_t)index[k] * columns, row);
            if (survives) {
                put_row(attrs, row, out + kept * columns, columns);
                index[kept++] = (double)order[i];
            }
        }
    }
    mx_free(order, bytes);
}

/* Scatters the rows of the gradient to where they came from. */
static mx_code grad_nms(mx_grad *grad)
{
    if (grad->create_graph)
        return mx_fail(MX_ERR_AUTOGRAD, "_contrib_box_nms has no second-order gradient");
    return mx_give(grad, 0, mx_g2("_backward__contrib_box_nms", grad->ograd[0], grad->out[1]));
}

static mx_code infer_nms_backward(mx_infer *infer)
{
    mx_shape_t index = infer->in[0];
    if (!mx_shape_known(&index))
        return MX_OK;
    if (index.ndim < 2)
        return wrong_shape(infer, 0, "(..., boxes, columns)");
    index.dim[index.ndim - 1] = 1;
    return mx_infer_in(infer, 1, &index) ? mx_error_code() : mx_infer_out(infer, 0, &infer->in[0]);
}

static mx_code infer_nms_backward_type(mx_infer *infer)
{
    return mx_infer_in_type(infer, 1, MX_INT32) ? mx_error_code() : mx_infer_out_type(infer, 0, infer->in_type[0]);
}

static void ref_nms_backward(const mx_reference_call *call)
{
    const mx_shape_t *s = &call->in_shape[0];
    const int64_t n = s->dim[s->ndim - 2], columns = s->dim[s->ndim - 1],
                  rows = columns ? mx_shape_size(s) / columns : 0;
    for (int64_t i = 0; i < rows * columns; i++)
        call->out[0][i] = 0;
    for (int64_t i = 0; i < rows; i++) {
        const double to = call->in[1][i];
        if (to >= 0 && to < (double)n)
            memcpy(call->out[0] + (i / n * n + (int64_t)to) * columns, call->in[0] + i * columns,
                   (size_t)columns * sizeof(double));
    }
}

/* ---- bipartite_matching: the best pair first, then the best of what is left --------------------------------------- */

static mx_code infer_matching(mx_infer *infer)
{
    mx_shape_t rows = infer->in[0], columns = rows;
    if (rows.ndim >= 0 && rows.ndim < 2)
        return wrong_shape(infer, 0, "(..., rows, columns)");
    if (rows.ndim < 0)
        return MX_OK;
    rows.ndim = --columns.ndim;
    columns.dim[columns.ndim - 1] = infer->in[0].dim[columns.ndim];
    return mx_infer_out(infer, 0, &rows) ? mx_error_code() : mx_infer_out(infer, 1, &columns);
}

static void match(const mx_bipartite_matching_attrs *attrs, const double *scores, const int64_t *order, int64_t rows,
                  int64_t columns, double *row_match, double *column_match)
{
    for (int64_t i = 0, made = 0; i < rows * columns; i++) {
        const double score = attrs->is_ascend ? -scores[order[i]] : scores[order[i]];
        if (!(attrs->is_ascend ? score < attrs->threshold : score > attrs->threshold))
            return;
        const int64_t row = order[i] / columns, column = order[i] % columns;
        if (row_match[row] != -1 || column_match[column] != -1)
            continue;
        row_match[row] = (double)column;
        column_match[column] = (double)row;
        if (++made > attrs->topk && attrs->topk > 0)
            return;
    }
}

static void ref_matching(const mx_reference_call *call)
{
    const mx_bipartite_matching_attrs *attrs = call->attrs;
    const mx_shape_t *s = &call->in_shape[0];
    const int64_t rows = s->dim[s->ndim - 2], columns = s->dim[s->ndim - 1], each = rows * columns,
                  size = mx_shape_size(s);
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < mx_shape_size(&call->out_shape[k]); i++)
            call->out[k][i] = -1;
    const size_t bytes = (size_t)each * (sizeof(int64_t) + sizeof(double));
    int64_t *order = mx_alloc(bytes);
    double *score = order ? (double *)(order + each) : NULL;
    for (int64_t b = 0; order && each && b < size / each; b++) {
        for (int64_t i = 0; i < each; i++) {
            order[i] = i;
            score[i] = attrs->is_ascend ? -call->in[0][b * each + i] : call->in[0][b * each + i];
        }
        mx_sort_by_score(score, order, each);
        match(attrs, score, order, rows, columns, call->out[0] + b * rows, call->out[1] + b * columns);
    }
    mx_free(order, bytes);
}

/* ---- box_encode, box_decode -------------------------------------------------------------------------------------------- */

static mx_code infer_encode(mx_infer *infer)
{
    const mx_shape_t *samples = &infer->in[0], *refs = &infer->in[3], four = {.ndim = 1, .dim = {4}};
    if (mx_infer_in(infer, 1, samples) || mx_infer_in(infer, 4, &four) || mx_infer_in(infer, 5, &four))
        return mx_error_code();
    if (samples->ndim >= 0 && samples->ndim != 2)
        return wrong_shape(infer, 0, "(batch, anchors)");
    if (refs->ndim >= 0 && (refs->ndim != 3 || (refs->dim[2] >= 0 && refs->dim[2] != 4)))
        return wrong_shape(infer, 3, "(batch, boxes, 4)");
    if (samples->ndim < 0)
        return MX_OK;
    const mx_shape_t out = {.ndim = 3, .dim = {samples->dim[0], samples->dim[1], 4}};
    const mx_shape_t boxes = {.ndim = 3, .dim = {samples->dim[0], refs->ndim < 0 ? -1 : refs->dim[1], 4}};
    if (mx_infer_in(infer, 2, &out) || mx_infer_in(infer, 3, &boxes) || mx_infer_out(infer, 0, &out))
        return mx_error_code();
    return mx_infer_out(infer, 1, &out);
}

static void ref_encode(const mx_reference_call *call)
{
    const int64_t batch = call->in_shape[0].dim[0], n = call->in_shape[0].dim[1], boxes = call->in_shape[3].dim[1];
    for (int64_t i = 0; i < batch * n; i++) {
        double *to = call->out[0] + 4 * i, *mask = call->out[1] + 4 * i;
        const double which = call->in[1][i];
        const bool used = call->in[0][i] > 0.5 && which >= 0 && which < (double)boxes;
        if (used)
            mx_box_offsets(mx_box_of(call->in[2] + 4 * i, false),
                           mx_box_of(call->in[3] + 4 * (i / n * boxes + (int64_t)which), false), to);
        for (int k = 0; k < 4; k++) {
            to[k] = used ? (to[k] - call->in[4][k]) / call->in[5][k] : 0;
            mask[k] = used;
        }
    }
}

static mx_code infer_decode(mx_infer *infer)
{
    const mx_shape_t *data = &infer->in[0], *anchors = &infer->in[1];
    for (int i = 0; i < 2; i++)
        if (infer->in[i].ndim >= 0 &&
            (infer->in[i].ndim != 3 || (infer->in[i].dim[2] >= 0 && infer->in[i].dim[2] != 4)))
            return wrong_shape(infer, i, "(batch, boxes, 4)");
    if (mx_infer_out(infer, 0, data) || mx_infer_in(infer, 0, &infer->out[0]))
        return mx_error_code();
    if (data->ndim < 0 || anchors->ndim < 0)
        return MX_OK;
    const mx_shape_t wanted = {.ndim = 3, .dim = {anchors->dim[0] == 1 ? 1 : data->dim[0], data->dim[1], 4}};
    return mx_infer_in(infer, 1, &wanted);
}

static void ref_decode(const mx_reference_call *call)
{
    const mx_box_decode_attrs *p = call->attrs;
    const int64_t boxes = mx_shape_size(&call->in_shape[0]) / 4, anchors = mx_shape_size(&call->in_shape[1]) / 4;
    for (int64_t i = 0; i < boxes && anchors; i++) {
        const double *x = call->in[0] + 4 * i;
        const mx_box a = mx_box_of(call->in[1] + 4 * (i % anchors), p->format == CENTER);
        const double width = a.right - a.left, height = a.bottom - a.top;
        double w = x[2] * p->std2, h = x[3] * p->std3;
        if (p->clip > 0)
            w = fmin(w, p->clip), h = fmin(h, p->clip);
        const double cx = x[0] * p->std0 * width + (a.left + a.right) / 2,
                     cy = x[1] * p->std1 * height + (a.top + a.bottom) / 2;
        const double half_w = exp(w) * width / 2, half_h = exp(h) * height / 2;
        double *to = call->out[0] + 4 * i;
        to[0] = cx - half_w, to[1] = cy - half_h, to[2] = cx + half_w, to[3] = cy + half_h;
    }
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
mx_op mx_family_boxes[] = {
    {.name = "_contrib_box_iou", .precision = MX_PRECISION_FLOAT32, .c_name = "box_iou", .inputs = "lhs rhs",
     .doc = "intersection over union of all pairs of boxes", .schema = &box_iou_schema,
     .flags = MX_OP_ZERO_GRADIENT, .infer_shape = infer_iou, .reference = ref_iou,
     .samples = SAMPLES({"3,4;2,4", "", 0, 1, "f32only"}, {"2,3,4;4", "format=center", 0, 1, "f32only"})},
    {.name = "_contrib_box_nms", .precision = MX_PRECISION_FLOAT32, .aliases = "_contrib_box_non_maximum_suppression",
     .c_name = "box_nms", .inputs = "data", .outputs_numbered = true, .outputs = "output index",
     .doc = "non-maximum suppression: boxes by descending score; suppressed ones become -1", .schema = &box_nms_schema, .n_out = 2,
     .n_visible = 1, .infer_shape = infer_nms, .infer_type = infer_nms_type, .gradient = grad_nms, .grad_out = 2, .reference = ref_nms,
     .samples = SAMPLES({"8,6", "", 0, 1, "f32only distinct"}, {"2,9,6", "id_index=0, topk=5, overlap_thresh=0.1", 0, 1, "f32only distinct"},
                        {"9,5", "coord_start=0, score_index=4, in_format=center, out_format=center, overlap_thresh=0.3", 0, 1, "f32only distinct"},
                        {"9,6", "in_format=center, out_format=corner, valid_thresh=0.3", 0, 1, "f32only distinct nograd"},
                        {"9,6", "in_format=corner, out_format=center, valid_thresh=0.3", 0, 1, "f32only distinct nograd"})},
    {.name = "_backward__contrib_box_nms", .inputs = "ograd index", .doc = "gradient of box_nms", .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT,
     .infer_shape = infer_nms_backward, .infer_type = infer_nms_backward_type, .reference = ref_nms_backward,
     .samples = SAMPLES({"2,5,6;2,5,1", "", -1, 5, "f32only int:1 distinct"})},
    {.name = "_contrib_bipartite_matching", .c_name = "bipartite_matching", .inputs = "data", .outputs_numbered = true, .outputs = "row_match column_match", .n_out = 2,
     .doc = "pairs rows with columns, best scores first; -1 where there is no partner", .schema = &bipartite_matching_schema,
     .flags = MX_OP_ZERO_GRADIENT, .infer_shape = infer_matching, .reference = ref_matching,
     .samples = SAMPLES({"3,4", "threshold=0.1", 0, 1, "f32only distinct"}, {"2,4,3", "threshold=0.7, is_ascend=True, topk=1", 0, 1, "f32only distinct"})},
    {.name = "_contrib_box_encode", .c_name = "box_encode", .inputs = "samples matches anchors refs means stds", .outputs_numbered = true, .outputs = "targets masks", .n_out = 2,
     .doc = "offsets of the matched boxes from their anchors where a sample is positive", .flags = MX_OP_ZERO_GRADIENT,
     .infer_shape = infer_encode, .reference = ref_encode,
     .samples = SAMPLES({"2,5;2,5;2,5,4;2,3,4;4;4", "", 0, 2, "f32only int:0 int:1"})},
    {.name = "_contrib_box_decode", .c_name = "box_decode", .inputs = "data anchors", .doc = "boxes from their offsets to anchors", .schema = &box_decode_schema,
     .flags = MX_OP_ZERO_GRADIENT, .infer_shape = infer_decode, .reference = ref_decode,
     .samples = SAMPLES({"2,3,4;1,3,4", "std0=0.1, std1=0.1, std2=0.2, std3=0.2", 0, 1, "floatonly"}, {"2,3,4;2,3,4", "clip=0.5, format=corner", 0, 1, "floatonly"})},
    {0},
};
