/* MultiBox: the anchors of a map, what an anchor shall learn, what it detects.  What the kernels of all devices share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_MULTIBOX_H
#define MX_OP_MULTIBOX_H

#include "op/formula/boxes.h"

/* ---- MultiBoxPrior -------------------------------------------------------------------------------------------- */

typedef struct mx_prior {
    mx_floats sizes, ratios;
    int64_t width, each;         /* of the map; boxes at each place */
    double step_y, step_x, y, x; /* from one centre to the next, and where in its place a centre lies */
    double aspect;               /* height / width of the map */
    bool clip;
} mx_prior;

/* steps: (y, x), not positive: one place of the map */
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

#define MX_MATCH_LEAST 1e-6 /* a box takes only an anchor that overlaps it more */

/* A threshold that is not positive: only boxes take anchors. */
MX_ANY_DEVICE static inline bool mx_anchor_matches(double overlap, double threshold)
{
    return threshold > 0 && overlap > threshold;
}

/* How many of n anchors are to be negative. */
MX_ANY_DEVICE static inline int64_t mx_negatives_wanted(int64_t n, int64_t positive, double ratio, int64_t least)
{
    return (int64_t)fmin(fmax((double)positive * ratio, (double)least), (double)(n - positive));
}

/* share = that of the background in the softmax of one anchor's predictions, which are predictions[first + c n] for all
 * classes c.  A macro, as devices read predictions in ways of their own. */
#define MX_BACKGROUND_SHARE(share, predictions, first, classes, n)                                                    \
    do {                                                                                                              \
        double most_ = -INFINITY, sum_ = 0;                                                                           \
        for (int64_t c_ = 0; c_ < (classes); c_++)                                                                    \
            most_ = fmax(most_, (predictions)[(first) + c_ * (n)]);                                                   \
        for (int64_t c_ = 0; c_ < (classes); c_++)                                                                    \
            sum_ += exp((predictions)[(first) + c_ * (n)] - most_);                                                   \
        (share) = (classes) ? exp((predictions)[first] - most_) / sum_ : 0;                                           \
    } while (0)

/* What a positive anchor learns: offsets of its box in units of the variances. */
MX_ANY_DEVICE static inline void mx_target_offsets(mx_box anchor, mx_box box, const double *variances, double *to)
{
    mx_box_offsets(anchor, box, to);
    for (int k = 0; k < 4; k++)
        to[k] /= variances[k];
}

/* The class that an anchor learns; 0 is the background.  label: that of its box, if it is positive */
MX_ANY_DEVICE static inline double mx_target_class(int kind, double label, double ignored)
{
    return kind == MX_ANCHOR_POSITIVE ? label + 1 : kind == MX_ANCHOR_NEGATIVE ? 0 : ignored;
}

/* ---- MultiBoxDetection ---------------------------------------------------------------------------------------- */

/* best: the class with the best score, -1: none has one */
MX_ANY_DEVICE static inline bool mx_detection_counts(int64_t best, double score, double threshold)
{
    return best >= 0 && !(score < threshold);
}

/* The number of a class among those that are not background. */
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
