/* Proposals of regions in ONNX files.  SPDX-License-Identifier: Apache-2.0
 *
 * Boxes of the operator hold their last pixel; here they end one further, so that ONNX's overlap is the operator's. */
#include <math.h>

#include "gluon/onnx/def/detection.h"
#include "ndarray/array.h"
#include "op/formula/proposal.h"

typedef struct proposing {
    const mx_proposal_attrs *a;
    int64_t anchors, height, width, n; /* per place; of the map; in all */
    const char *boxes, *score;         /* (B, N, 4), (B, N) */
} proposing;

/* Anchors (1, N, 4) and their places (1, N, 2) on the map. */
static mx_code put_anchors(mx_onnx_out *o, const proposing *p, const char **anchors, const char **places)
{
    const mx_shape_t shape = {.ndim = 3, .dim = {1, p->n, 4}}, two = {.ndim = 3, .dim = {1, p->n, 2}};
    mx_array *x = mx_scope_add(mx_array_new(&shape, MX_FLOAT32, mx_cpu(0))),
             *y = mx_scope_add(mx_array_new(&two, MX_FLOAT32, mx_cpu(0)));
    if (!x || !y)
        return mx_error_code();
    float *box = mx_data(x), *place = mx_data(y);
    for (int64_t i = 0; i < p->n; i++, box += 4, place += 2) {
        const mx_proposal_box b =
            mx_proposal_anchor(&p->a->scales, &p->a->ratios, p->a->feature_stride, i % p->anchors);
        place[0] = (float)(i / p->anchors % p->width), place[1] = (float)(i / p->anchors / p->width);
        const double left = place[0] * (double)p->a->feature_stride, top = place[1] * (double)p->a->feature_stride;
        box[0] = (float)(b.left + left), box[1] = (float)(b.top + top);
        box[2] = (float)(b.right + left + 1), box[3] = (float)(b.bottom + top + 1);
    }
    *anchors = mx_onnx_put_array(o, x);
    *places = mx_onnx_put_array(o, y);
    return MX_OK;
}

/* Channels (B, A, k, H, W) of a map as (B, N, k). */
static const char *by_place(mx_onnx_out *o, const proposing *p, const char *x, int64_t k)
{
    const char *y = PUT("Reshape", x, INTS(-1, p->anchors, k, p->height, p->width));
    y = PUT("Transpose", y);
    mx_onnx_set_ints(o, "perm", MX_ONNX_LIST(0, 3, 4, 1, 2));
    return PUT("Reshape", y, INTS(-1, p->n, k));
}

/* Columns of im_info (B, 3): (B, 1, n). */
static const char *info(mx_onnx_out *o, int n, const int64_t *columns)
{
    const char *y = PUT("Gather", o->in[2], mx_onnx_put_ints(o, n, columns));
    mx_onnx_set_int(o, "axis", 1);
    return PUT("Unsqueeze", y, INTS(1));
}

/* Clipped to the image; boxes that are too small grow and get the score -1, like those outside of it. */
static void cut(mx_onnx_out *o, proposing *p, const char *places)
{
    const double one[4] = {0, 0, 1, 1}, sign[4] = {-0.5, -0.5, 0.5, 0.5};
    const char *limit = PUT("Sub", info(o, 4, (int64_t[]){1, 0, 1, 0}), NUMBER(1)),
               *last = PUT("Sub", p->boxes, mx_onnx_put_floats(o, 4, one, MX_FLOAT32));
    const char *boxes = PUT("Max", PUT("Min", last, limit), NUMBER(0));
    boxes = PUT("Add", boxes, mx_onnx_put_floats(o, 4, one, MX_FLOAT32));
    const char *size = PUT("Sub", mx_onnx_put_columns(o, boxes, 2, 4), mx_onnx_put_columns(o, boxes, 0, 2));
    const char *least = PUT("Mul", info(o, 1, (int64_t[]){2}), NUMBER((double)p->a->rpn_min_size));
    const char *small =
        PUT("Less", mx_onnx_put_reduce(o, NULL, "ReduceMin", size, 1, (int64_t[]){2}, true), least); /* (B, N, 1) */
    const char *more = PUT("Mul", least, mx_onnx_put_floats(o, 4, sign, MX_FLOAT32));
    p->boxes = PUT("Where", small, PUT("Add", boxes, more), boxes);
    const char *edge = PUT("Floor", PUT("Div", info(o, 2, (int64_t[]){1, 0}), NUMBER((double)p->a->feature_stride)));
    const char *beyond = mx_onnx_put_cast(o, NULL, PUT("Not", PUT("Less", places, edge)), MX_FLOAT32); /* (B, N, 2) */
    beyond = mx_onnx_put_reduce(o, NULL, "ReduceMax", beyond, 1, (int64_t[]){2}, true);
    const char *bad = PUT("Or", small, mx_onnx_put_cast(o, NULL, beyond, MX_BOOL));
    p->score = PUT("Where", PUT("Squeeze", bad, INTS(2)), NUMBER(-1), p->score);
}

/* Indices (B, rows) of the boxes that survive, best first, repeated as often as needed. */
static const char *chosen(mx_onnx_out *o, const proposing *p)
{
    const mx_proposal_attrs *a = p->a;
    const int64_t rows = a->rpn_post_nms_top_n, before = a->rpn_pre_nms_top_n;
    const char *key = before > 0 && before < p->n ? mx_onnx_put_best(o, p->score, before) : p->score;
    const char *kept = mx_onnx_put_survivors(o, p->boxes, PUT("Unsqueeze", key, INTS(1)), a->threshold, rows);
    const char *score = PUT("Where", mx_onnx_put_cast(o, NULL, kept, MX_BOOL), key, NUMBER(MX_ONNX_WORST));
    const char *order = mx_onnx_put_order(o, score, p->n);
    const char *count = mx_onnx_put_reduce(o, NULL, "ReduceSum", kept, 1, (int64_t[]){1}, true);
    count = mx_onnx_put_cast(o, NULL, PUT("Max", count, NUMBER(1)), MX_INT64);
    const char *all = PUT("Range", mx_onnx_put_number(o, 0, MX_INT64), mx_onnx_put_number(o, (double)rows, MX_INT64),
                          mx_onnx_put_number(o, 1, MX_INT64));
    const char *y = PUT("GatherElements", order, PUT("Mod", PUT("Unsqueeze", all, INTS(0)), count));
    mx_onnx_set_int(o, "axis", 1);
    return y;
}

static void give(mx_onnx_out *o, const proposing *p)
{
    const double one[4] = {0, 0, 1, 1};
    const char *index = chosen(o, p);
    const char *boxes = PUT("Sub", mx_onnx_put_rows(o, p->boxes, index, 4), mx_onnx_put_floats(o, 4, one, MX_FLOAT32));
    const char *score = PUT("GatherElements", p->score, index);
    mx_onnx_set_int(o, "axis", 1);
    const char *ones = PUT("Expand", NUMBER(1), PUT("Shape", score));
    const char *image = PUT("Sub", PUT("CumSum", ones, mx_onnx_put_number(o, 0, MX_INT64)), NUMBER(1));
    const char *rows = mx_onnx_join(o, 2, PUT("Unsqueeze", image, INTS(2)), boxes);
    mx_onnx_put(o, o->out[0], "Reshape", rows, INTS(-1, 5));
    if (p->a->output_score)
        mx_onnx_put(o, o->out[1], "Reshape", score, INTS(-1, 1));
}

static mx_code write_proposal(mx_onnx_out *o)
{
    const mx_shape_t *s = &o->in_shape[0];
    proposing p = {.a = o->attrs, .height = s->ndim == 4 ? s->dim[2] : -1, .width = s->ndim == 4 ? s->dim[3] : -1};
    const double scale[4] = {1, 1, 1, 1};
    const char *anchors = "", *places = "";
    p.anchors = (int64_t)p.a->scales.n * p.a->ratios.n;
    p.n = p.anchors * p.height * p.width;
    if (p.height < 1 || p.width < 1 || p.n > 1 << 24)
        return mx_onnx_refuse(o, "the size of the map is not known, or too large; give the shapes of the inputs");
    if (o->in_type[0] != MX_FLOAT32 || p.a->threshold < 0 || p.a->threshold > 1)
        return mx_onnx_refuse(o, "only float32 with a threshold from 0 to 1 can be written");
    if (put_anchors(o, &p, &anchors, &places))
        return mx_error_code();
    const char *objects = PUT("Slice", o->in[0], INTS(p.anchors), INTS(2 * p.anchors), INTS(1));
    const char *moves = by_place(o, &p, o->in[1], 4);
    p.score = PUT("Squeeze", by_place(o, &p, objects, 1), INTS(2));
    p.boxes = p.a->iou_loss ? PUT("Add", anchors, moves) : mx_onnx_put_decoded(o, moves, anchors, scale, 0);
    cut(o, &p, places);
    give(o, &p);
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_proposal[] = {
    WRITE(NULL, "_contrib_MultiProposal", write_proposal), WRITE(NULL, "_contrib_Proposal", write_proposal), {0}};
