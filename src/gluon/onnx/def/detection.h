/* Boxes in ONNX: steps that the detection operators share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_ONNX_DETECTION_H
#define MX_GLUON_ONNX_DETECTION_H

#include "gluon/onnx/onnx.h"

/* A node on these inputs with a new name. */
#define PUT(op, ...) mx_onnx_put(o, NULL, op, __VA_ARGS__)
#define INTS(...) mx_onnx_put_ints(o, MX_ONNX_LIST(__VA_ARGS__))
#define NUMBER(x) mx_onnx_put_number(o, x, MX_FLOAT32)
#define MX_ONNX_WORST (-3e38) /* the score of a box that does not compete */

/* Columns [begin, end) of the last axis; a negative axis of other nodes is the last one, too. */
const char *mx_onnx_put_columns(mx_onnx_out *o, const char *x, int64_t begin, int64_t end);
const char *mx_onnx_put_concat(mx_onnx_out *o, const char *out, int64_t axis, int n, const char *const *parts);
#define mx_onnx_join(o, axis, ...)                                                                                       \
    mx_onnx_put_concat(o, NULL, axis, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *[]){__VA_ARGS__})
/* Corners (..., 4) of boxes given as centre and size, or back. */
const char *mx_onnx_put_corners(mx_onnx_out *o, const char *x);
const char *mx_onnx_put_centers(mx_onnx_out *o, const char *x);
/* Boxes at offsets (..., 4) from anchors (corners): centres in units of the anchor, logarithms of sizes, times scale (4);
 * clip > 0: upper bound of the logarithms. */
const char *mx_onnx_put_decoded(mx_onnx_out *o, const char *offsets, const char *anchors, const double *scale,
                                double clip);
/* Indices (B, N) by falling score (B, N), n of them. */
const char *mx_onnx_put_order(mx_onnx_out *o, const char *scores, int64_t n);
/* Scores (B, N) where only the `n` best still compete. */
const char *mx_onnx_put_best(mx_onnx_out *o, const char *scores, int64_t n);
/* 1 where a box (B, N, 4), corners, survives, 0 elsewhere: (B, N).  scores (B, C, N): classes do not compete with each
 * other; boxes with MX_ONNX_WORST do not take part. */
const char *mx_onnx_put_survivors(mx_onnx_out *o, const char *boxes, const char *scores, double threshold, int64_t n);
/* Rows (B, N, K) in the order of indices (B, M). */
const char *mx_onnx_put_rows(mx_onnx_out *o, const char *rows, const char *order, int64_t columns);

#endif
