/* Steps that the detection operators share in ONNX files.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/onnx/def/detection.h"

const char *mx_onnx_put_columns(mx_onnx_out *o, const char *x, int64_t begin, int64_t end)
{
    return PUT("Slice", x, INTS(begin), INTS(end), INTS(-1));
}

const char *mx_onnx_put_concat(mx_onnx_out *o, const char *out, int64_t axis, int n, const char *const *parts)
{
    const char *y = mx_onnx_node(o, out, "Concat", n, parts);
    mx_onnx_set_int(o, "axis", axis);
    return y;
}

const char *mx_onnx_put_corners(mx_onnx_out *o, const char *x)
{
    const char *center = mx_onnx_put_columns(o, x, 0, 2),
               *half = PUT("Mul", mx_onnx_put_columns(o, x, 2, 4), NUMBER(0.5));
    return mx_onnx_join(o, -1, PUT("Sub", center, half), PUT("Add", center, half));
}

const char *mx_onnx_put_centers(mx_onnx_out *o, const char *x)
{
    const char *low = mx_onnx_put_columns(o, x, 0, 2), *high = mx_onnx_put_columns(o, x, 2, 4);
    return mx_onnx_join(o, -1, PUT("Mul", PUT("Add", low, high), NUMBER(0.5)), PUT("Sub", high, low));
}

const char *mx_onnx_put_decoded(mx_onnx_out *o, const char *offsets, const char *anchors, const double *scale,
                                double clip)
{
    const char *anchor = mx_onnx_put_centers(o, anchors), *center = mx_onnx_put_columns(o, anchor, 0, 2),
               *size = mx_onnx_put_columns(o, anchor, 2, 4);
    const char *moved = PUT("Mul", mx_onnx_put_columns(o, offsets, 0, 2), mx_onnx_put_floats(o, 2, scale, MX_FLOAT32));
    center = PUT("Add", PUT("Mul", moved, size), center);
    const char *grown =
        PUT("Mul", mx_onnx_put_columns(o, offsets, 2, 4), mx_onnx_put_floats(o, 2, scale + 2, MX_FLOAT32));
    grown = clip > 0 ? PUT("Min", grown, NUMBER(clip)) : grown;
    size = PUT("Mul", PUT("Exp", grown), size);
    return mx_onnx_put_corners(o, mx_onnx_join(o, -1, center, size));
}

const char *mx_onnx_put_order(mx_onnx_out *o, const char *scores, int64_t n)
{
    PUT("TopK", scores, INTS(n));
    const char *order = mx_onnx_more(o, NULL);
    mx_onnx_set_int(o, "axis", 1);
    return order;
}

const char *mx_onnx_put_best(mx_onnx_out *o, const char *scores, int64_t n)
{
    const char *order = mx_onnx_put_order(o, scores, n);
    const char *zeros = PUT("ConstantOfShape", PUT("Shape", scores));
    const char *ones = PUT("Expand", NUMBER(1), PUT("Shape", order));
    const char *chosen = PUT("ScatterElements", zeros, order, ones);
    mx_onnx_set_int(o, "axis", 1);
    return PUT("Where", mx_onnx_put_cast(o, NULL, chosen, MX_BOOL), scores, NUMBER(MX_ONNX_WORST));
}

/* Sides that are less than 0 have no area here; ONNX would exchange them. */
static const char *upright(mx_onnx_out *o, const char *boxes)
{
    const char *low = mx_onnx_put_columns(o, boxes, 0, 2);
    return mx_onnx_join(o, -1, low, PUT("Max", low, mx_onnx_put_columns(o, boxes, 2, 4)));
}

const char *mx_onnx_put_survivors(mx_onnx_out *o, const char *boxes, const char *scores, double threshold, int64_t n)
{
    const char *found = PUT("NonMaxSuppression", upright(o, boxes), scores, INTS(n), NUMBER(threshold), NUMBER(-1e38));
    const char *places = PUT("Gather", found, INTS(0, 2)); /* image and box */
    mx_onnx_set_int(o, "axis", 1);
    const char *shape = PUT("Shape", mx_onnx_put_reduce(o, NULL, "ReduceMax", scores, 1, (int64_t[]){1}, false));
    const char *count = PUT("Slice", PUT("Shape", places), INTS(0), INTS(1));
    return PUT("ScatterND", PUT("ConstantOfShape", shape), places, PUT("Expand", NUMBER(1), count));
}

const char *mx_onnx_put_rows(mx_onnx_out *o, const char *rows, const char *order, int64_t columns)
{
    const char *index = PUT("Unsqueeze", order, INTS(2));
    index = PUT("Tile", index, INTS(1, 1, columns));
    const char *y = PUT("GatherElements", rows, index);
    mx_onnx_set_int(o, "axis", 1);
    return y;
}
