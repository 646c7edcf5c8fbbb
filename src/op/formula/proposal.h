/* Boxes of a region proposal network: anchors, and the boxes that its outputs make of them.
 *
 * Boxes hold their last pixel: a box of one pixel has left == right.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_PROPOSAL_H
#define MX_OP_PROPOSAL_H

#include <math.h>

#include "base/rng.h"

typedef struct mx_proposal_box {
    double left, top, right, bottom, score;
} mx_proposal_box;

/* Anchor number a at the first position of the map: all scales of the first ratio, then of the next. */
MX_ANY_DEVICE static inline mx_proposal_box mx_proposal_anchor(const mx_floats *scales, const mx_floats *ratios,
                                                               int64_t stride, int64_t a)
{
    const double ratio = ratios->d[a / scales->n], scale = scales->d[a % scales->n],
                 middle = 0.5 * (double)(stride - 1);
    const double width = floor(sqrt(floor((double)stride * (double)stride / ratio)) + 0.5) * scale,
                 height = floor(width / scale * ratio + 0.5) * scale;
    return (mx_proposal_box){middle - 0.5 * (width - 1), middle - 0.5 * (height - 1), middle + 0.5 * (width - 1),
                             middle + 0.5 * (height - 1), 0};
}

/* The anchor moved by the network's four outputs: corners, or centre and logarithms of sizes. */
MX_ANY_DEVICE static inline mx_proposal_box mx_proposal_move(mx_proposal_box b, const double *by, bool corners)
{
    if (corners)
        return (mx_proposal_box){b.left + by[0], b.top + by[1], b.right + by[2], b.bottom + by[3], b.score};
    const double width = b.right - b.left + 1, height = b.bottom - b.top + 1;
    const double x = by[0] * width + b.left + 0.5 * (width - 1), y = by[1] * height + b.top + 0.5 * (height - 1);
    const double half_w = 0.5 * (exp(by[2]) * width - 1), half_h = 0.5 * (exp(by[3]) * height - 1);
    return (mx_proposal_box){x - half_w, y - half_h, x + half_w, y + half_h, b.score};
}

/* Clipped to an image of height info[0] and width info[1]; boxes smaller than `least` grow by it and get the score -1. */
MX_ANY_DEVICE static inline mx_proposal_box mx_proposal_cut(mx_proposal_box b, const double *info, double least)
{
    b.left = fmax(fmin(b.left, info[1] - 1), 0.0), b.right = fmax(fmin(b.right, info[1] - 1), 0.0);
    b.top = fmax(fmin(b.top, info[0] - 1), 0.0), b.bottom = fmax(fmin(b.bottom, info[0] - 1), 0.0);
    if (b.right - b.left + 1 < least || b.bottom - b.top + 1 < least) {
        b.left -= least / 2, b.right += least / 2, b.top -= least / 2, b.bottom += least / 2;
        b.score = -1;
    }
    return b;
}

typedef struct mx_proposal_rules {
    double stride, least; /* pixels per place of the map; minimum size, in units of info[2] */
    bool corners;         /* the network predicts corners */
} mx_proposal_rules;

/* The proposal of an anchor at place (y, x) of the map; info: height, width and scale of the image.  Places outside the
 * image get the score -1. */
MX_ANY_DEVICE static inline mx_proposal_box mx_proposal_of(const mx_proposal_rules *rules, mx_proposal_box anchor,
                                                           int64_t y, int64_t x, const double *by, double score,
                                                           const double *info)
{
    const double stride = rules->stride;
    const bool inside = (double)y < floor(info[0] / stride) && (double)x < floor(info[1] / stride);
    const mx_proposal_box b = {anchor.left + (double)x * stride, anchor.top + (double)y * stride,
                               anchor.right + (double)x * stride, anchor.bottom + (double)y * stride,
                               inside ? score : -1};
    return mx_proposal_cut(mx_proposal_move(b, by, rules->corners), info, rules->least * info[2]);
}

MX_ANY_DEVICE static inline double mx_proposal_area(mx_proposal_box b)
{
    return (b.right - b.left + 1) * (b.bottom - b.top + 1);
}

/* Intersection over union, from the given areas. */
MX_ANY_DEVICE static inline double mx_proposal_overlap(mx_proposal_box a, double area_a, mx_proposal_box b,
                                                       double area_b)
{
    const double width = fmin(a.right, b.right) - fmax(a.left, b.left) + 1,
                 height = fmin(a.bottom, b.bottom) - fmax(a.top, b.top) + 1,
                 common = width > 0 && height > 0 ? width * height : 0;
    return common / (area_a + area_b - common);
}

#endif
