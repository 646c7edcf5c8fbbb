/* Boxes, shared by the detection operators.  A box is (left, top, right, bottom) in doubles.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_BOXES_H
#define MX_OP_BOXES_H

#include <math.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/rng.h"
#include "op/op.h"

typedef struct mx_box {
    double left, top, right, bottom;
} mx_box;

/* From four numbers: corners, or centre and size. */
MX_ANY_DEVICE static inline mx_box mx_box_of(const double *x, bool center)
{
    if (!center)
        return (mx_box){x[0], x[1], x[2], x[3]};
    return (mx_box){x[0] - x[2] / 2, x[1] - x[3] / 2, x[0] + x[2] / 2, x[1] + x[3] / 2};
}

/* The inverse: the four numbers of a box in the given format. */
MX_ANY_DEVICE static inline void mx_box_numbers(mx_box b, bool center, double *x)
{
    x[0] = center ? (b.left + b.right) / 2 : b.left, x[1] = center ? (b.top + b.bottom) / 2 : b.top;
    x[2] = center ? b.right - b.left : b.right, x[3] = center ? b.bottom - b.top : b.bottom;
}

MX_ANY_DEVICE static inline double mx_box_area(mx_box b)
{
    const double width = b.right - b.left, height = b.bottom - b.top;
    return width < 0 || height < 0 ? 0 : width * height;
}

/* Intersection over union; 0 where the union is empty. */
MX_ANY_DEVICE static inline double mx_box_overlap(mx_box a, mx_box b)
{
    const mx_box both = {fmax(a.left, b.left), fmax(a.top, b.top), fmin(a.right, b.right), fmin(a.bottom, b.bottom)};
    const double common = mx_box_area(both), all = mx_box_area(a) + mx_box_area(b) - common;
    return all > 0 ? common / all : 0;
}

/* The same for boxes with known areas, without branches: for one box against many. */
MX_ANY_DEVICE static inline double mx_box_overlap_of(mx_box a, double area_a, mx_box b, double area_b)
{
    const double left = a.left > b.left ? a.left : b.left, top = a.top > b.top ? a.top : b.top,
                 right = a.right < b.right ? a.right : b.right, bottom = a.bottom < b.bottom ? a.bottom : b.bottom;
    const double width = right > left ? right - left : 0, height = bottom > top ? bottom - top : 0,
                 common = width * height, all = area_a + area_b - common;
    return all > 0 ? common / all : 0;
}

/* True if a better box with this overlap suppresses a box; equal: an overlap equal to the threshold suffices. */
MX_ANY_DEVICE static inline bool mx_box_suppressed(double overlap, double threshold, bool equal)
{
    return equal ? overlap >= threshold : overlap > threshold;
}

/* Offsets of a box from an anchor: centres in units of the anchor, logarithms of the ratios of sizes. */
MX_ANY_DEVICE static inline void mx_box_offsets(mx_box anchor, mx_box box, double *to)
{
    const double width = anchor.right - anchor.left, height = anchor.bottom - anchor.top;
    to[0] = ((box.left + box.right) - (anchor.left + anchor.right)) / 2 / width;
    to[1] = ((box.top + box.bottom) - (anchor.top + anchor.bottom)) / 2 / height;
    to[2] = log((box.right - box.left) / width);
    to[3] = log((box.bottom - box.top) / height);
}

/* The box at given offsets from an anchor. */
MX_ANY_DEVICE static inline mx_box mx_box_moved(mx_box anchor, double x, double y, double log_width, double log_height)
{
    const double width = anchor.right - anchor.left, height = anchor.bottom - anchor.top;
    const double centre_x = x * width + (anchor.left + anchor.right) / 2,
                 centre_y = y * height + (anchor.top + anchor.bottom) / 2;
    const double half_w = exp(log_width) * width / 2, half_h = exp(log_height) * height / 2;
    return (mx_box){centre_x - half_w, centre_y - half_h, centre_x + half_w, centre_y + half_h};
}

/* box_encode: a normalized offset.  box_decode: the box at normalized offsets; clip: upper limit of the logarithms, not
 * positive: no limit. */
MX_ANY_DEVICE static inline double mx_box_encoded(double offset, double mean, double deviation)
{
    return (offset - mean) / deviation;
}
MX_ANY_DEVICE static inline mx_box mx_box_decoded(mx_box anchor, const double *x, const double *deviations, double clip)
{
    const double w = x[2] * deviations[2], h = x[3] * deviations[3];
    return mx_box_moved(anchor, x[0] * deviations[0], x[1] * deviations[1], clip > 0 ? fmin(w, clip) : w,
                        clip > 0 ? fmin(h, clip) : h);
}

MX_ANY_DEVICE static inline mx_box mx_box_clip(mx_box b) /* to [0, 1] */
{
    return (mx_box){fmin(fmax(b.left, 0.0), 1.0), fmin(fmax(b.top, 0.0), 1.0), fmin(fmax(b.right, 0.0), 1.0),
                    fmin(fmax(b.bottom, 0.0), 1.0)};
}

/* Sorts n row numbers by descending score; equal ones keep their order, NaN comes last.  Heap sort: it needs
 * no memory.  A sort that is to be stopped (base/interrupt.h) leaves another order of the same numbers. */
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
    for (int64_t top = n / 2, end = n, round = 1; end > 1 && !mx_stop_wanted_at(round); round++) {
        int64_t at, moved;
        if (top > 0)
            moved = order[at = --top];
        else {
            moved = order[--end];
            order[end] = order[at = 0];
        }
        for (int64_t child; (child = 2 * at + 1) < end; at = child) { /* the root is the element that comes last */
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
