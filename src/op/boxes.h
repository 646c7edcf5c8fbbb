/* Boxes: what the detection operators share.  A box is (left, top, right, bottom) in doubles.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_BOXES_H
#define MX_OP_BOXES_H

#include <math.h>

#include "base/alloc.h"
#include "op/op.h"

typedef struct mx_box {
    double left, top, right, bottom;
} mx_box;

/* From four numbers: corners, or centre and size. */
static inline mx_box mx_box_of(const double *x, bool center)
{
    if (!center)
        return (mx_box){x[0], x[1], x[2], x[3]};
    return (mx_box){x[0] - x[2] / 2, x[1] - x[3] / 2, x[0] + x[2] / 2, x[1] + x[3] / 2};
}

static inline double mx_box_area(mx_box b)
{
    const double width = b.right - b.left, height = b.bottom - b.top;
    return width < 0 || height < 0 ? 0 : width * height;
}

/* Intersection over union; 0 where the union is empty. */
static inline double mx_box_overlap(mx_box a, mx_box b)
{
    const mx_box both = {fmax(a.left, b.left), fmax(a.top, b.top), fmin(a.right, b.right), fmin(a.bottom, b.bottom)};
    const double common = mx_box_area(both), all = mx_box_area(a) + mx_box_area(b) - common;
    return all > 0 ? common / all : 0;
}

/* Offsets of a box from an anchor: centres in units of the anchor, logarithms of the ratios of sizes. */
static inline void mx_box_offsets(mx_box anchor, mx_box box, double *to)
{
    const double width = anchor.right - anchor.left, height = anchor.bottom - anchor.top;
    to[0] = ((box.left + box.right) - (anchor.left + anchor.right)) / 2 / width;
    to[1] = ((box.top + box.bottom) - (anchor.top + anchor.bottom)) / 2 / height;
    to[2] = log((box.right - box.left) / width);
    to[3] = log((box.bottom - box.top) / height);
}

/* Sorts n numbers of rows so that their scores fall; equal ones keep their order, NaN comes last.  A heap: it needs
 * no memory. */
static inline bool mx_score_before(const double *score, int64_t a, int64_t b)
{
    if (score[a] > score[b] || (score[b] != score[b] && score[a] == score[a]))
        return true;
    if (score[a] < score[b] || (score[a] != score[a] && score[b] == score[b]))
        return false;
    return a < b;
}
static inline void mx_sort_by_score(const double *score, int64_t *order, int64_t n)
{
    for (int64_t top = n / 2, end = n; end > 1;) {
        int64_t at, moved;
        if (top > 0)
            moved = order[at = --top];
        else {
            moved = order[--end];
            order[end] = order[at = 0];
        }
        for (int64_t child; (child = 2 * at + 1) < end; at = child) { /* the heap's top is what comes last */
            if (child + 1 < end && mx_score_before(score, order[child], order[child + 1]))
                child++;
            if (!mx_score_before(score, moved, order[child]))
                break;
            order[at] = order[child];
        }
        order[at] = moved;
    }
}

#endif
