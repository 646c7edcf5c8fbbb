/* MultiBox: anchors of a feature map, training targets of an anchor, detections.  Shared by the kernels of all devices.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_MULTIBOX_H
#define MX_OP_MULTIBOX_H

#include "op/formula/boxes.h"

/* ---- MultiBoxPrior -------------------------------------------------------------------------------------------- */

typedef struct mx_prior {
    mx_floats sizes, ratios;
    int64_t width, each;         /* of the map; boxes at each place */
    double step_y, step_x, y, x; /* distance of neighbouring centres; offset of a centre inside its place */
    double aspect;               /* height / width of the map */
    bool clip;
} mx_prior;

/* steps and offsets: (y, x); a step that is not positive means one place of the map */
static inline mx_prior mx_prior_of(mx_floats sizes, mx_floats ratios, const double *steps, const double *offsets,
                                   bool clip, int64_t height, int64_t width)
{
    mx_prior prior = {sizes, ratios, width, sizes.n + ratios.n - 1, 0, 0, offsets[0], offsets[1], 0, clip};
    prior.step_y = steps[0] <= 0 ? 1 / (double)height : steps[0];
    prior.step_x = steps[1] <= 0 ? 1 / (double)width : steps[1];
    prior.aspect = (double)height / (double)width;
    return prior;
}

/* Box number k at a place: all sizes with the first ratio, then the first size with the other ratios. */
MX_ANY_DEVICE static inline mx_box mx_prior_box(const mx_prior *p, int64_t place, int64_t k)
{
    const int64_t sizes = p->sizes.n;
    const double x = ((double)(place % p->width) + p->x) * p->step_x,
                 y = ((double)(place / p->width) + p->y) * p->step_y;
    const double size = p->sizes.d[k < sizes ? k : 0], ratio = sqrt(p->ratios.d[k < sizes ? 0 : k - sizes + 1]);
    const double half_w = size * p->aspect * ratio / 2, half_h = size / ratio / 2;
    const mx_box b = {x - half_w, y - half_h, x + half_w, y + half_h};
    return p->clip ? mx_box_clip(b) : b;
}

/* ---- MultiBoxTarget ------------------------------------------------------------------------------------------- */

enum { MX_ANCHOR_IGNORED = -1, MX_ANCHOR_NEGATIVE, MX_ANCHOR_POSITIVE };

#define MX_MATCH_LEAST 1e-6 /* a box is matched only with an anchor of larger overlap */

/* True if an anchor is positive by its best overlap; a threshold that is not positive turns this rule off. */
MX_ANY_DEVICE static inline bool mx_anchor_matches(double overlap, double threshold)
{
    return threshold > 0 && overlap > threshold;
}

/* The number of negatives among n anchors. */
MX_ANY_DEVICE static inline int64_t mx_negatives_wanted(int64_t n, int64_t positive, double ratio, int64_t least)
{
    return (int64_t)fmin(fmax((double)positive * ratio, (double)least), (double)(n - positive));
}

/* share = probability of the background, by softmax over one anchor's predictions: predictions[first + c n] for all
 * classes c.  A macro because devices index predictions differently. */
#define MX_BACKGROUND_SHARE(share, predictions, first, classes, n)                                                    \
    do {                                                                                                              \
        double most_ = -INFINITY, sum_ = 0;                                                                           \
        for (int64_t c_ = 0; c_ < (classes); c_++)                                                                    \
            most_ = fmax(most_, (predictions)[(first) + c_ * (n)]);                                                   \
        for (int64_t c_ = 0; c_ < (classes); c_++)                                                                    \
            sum_ += exp((predictions)[(first) + c_ * (n)] - most_);                                                   \
        (share) = (classes) ? exp((predictions)[first] - most_) / sum_ : 0;                                           \
    } while (0)

/* Regression target of a positive anchor: offsets of its box in units of the variances. */
MX_ANY_DEVICE static inline void mx_target_offsets(mx_box anchor, mx_box box, const double *variances, double *to)
{
    mx_box_offsets(anchor, box, to);
    for (int k = 0; k < 4; k++)
        to[k] /= variances[k];
}

/* Classification target of an anchor; 0 is the background.  label: class of its box, if it is positive */
MX_ANY_DEVICE static inline double mx_target_class(int kind, double label, double ignored)
{
    return kind == MX_ANCHOR_POSITIVE ? label + 1 : kind == MX_ANCHOR_NEGATIVE ? 0 : ignored;
}

/* ---- MultiBoxDetection ---------------------------------------------------------------------------------------- */

/* True if an anchor yields a detection.  best: its class with the highest score, -1: none */
MX_ANY_DEVICE static inline bool mx_detection_counts(int64_t best, double score, double threshold)
{
    return best >= 0 && !(score < threshold);
}

/* The index of a class when the background is not counted. */
MX_ANY_DEVICE static inline double mx_detection_class(int64_t best, int64_t background)
{
    return (double)(best > background ? best - 1 : best);
}

/* The box at predicted offsets, in units of the variances. */
MX_ANY_DEVICE static inline mx_box mx_detection_box(mx_box anchor, const double *offset, const double *variances,
                                                    bool clip)
{
    const mx_box b = mx_box_decoded(anchor, offset, variances, 0);
    return clip ? mx_box_clip(b) : b;
}

#endif
