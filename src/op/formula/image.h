/* Shared by operators on images: (H, W, C) or (N, H, W, C).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_IMAGE_H
#define MX_OP_IMAGE_H

#include <math.h>

#include "base/rng.h"
#include "op/op.h"

/* Checks the number of axes; true if the shape is known, false with or without an error. */
static inline bool mx_infer_image(mx_infer *infer)
{
    const mx_shape_t *x = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (!mx_shape_known(x))
        return false;
    if (x->ndim == 3 || x->ndim == 4)
        return true;
    mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted (H, W, C) or (N, H, W, C)", infer->op->inputs,
               mx_shape_text(x, text));
    return false;
}

/* The sizes of an image or of a batch of them. */
typedef struct mx_image_size {
    int64_t images, height, width, channels;
} mx_image_size;
MX_ANY_DEVICE static inline mx_image_size mx_image_size_of(int ndim, const int64_t *dim)
{
    return (mx_image_size){ndim == 4 ? dim[0] : 1, dim[ndim - 3], dim[ndim - 2], dim[ndim - 1]};
}

/* What a change of colours does to one image. */
typedef enum mx_colour_kind {
    MX_BRIGHTNESS,
    MX_CONTRAST,
    MX_SATURATION,
    MX_HUE,
    MX_LIGHTING,
    MX_COLOUR_KINDS
} mx_colour_kind;

typedef struct mx_colour_step {
    mx_colour_kind kind;
    double alpha[3]; /* the strength; of lighting: one for every direction */
} mx_colour_step;

/* The strengths of image n: a function of the generator's state, so all devices draw the same.  One block of numbers per
 * image; jitter takes two, for the strengths and for the order of its steps. */
MX_ANY_DEVICE static inline double mx_colour_factor(mx_rng rng, int64_t n, double low, double high)
{
    uint32_t words[4];
    mx_philox(rng.seed, rng.counter + (uint64_t)n, words);
    return low + mx_uniform53(words[0], words[1]) * (high - low);
}

/* width: ranges of brightness, contrast, saturation and hue */
MX_ANY_DEVICE static inline void mx_colour_jitter(mx_rng rng, int64_t n, const double *width, mx_colour_step *steps)
{
    uint32_t words[4], order[4];
    mx_philox(rng.seed, rng.counter + (uint64_t)n * 2, words);
    mx_philox(rng.seed, rng.counter + (uint64_t)n * 2 + 1, order);
    for (int i = 0; i < 4; i++) {
        const double alpha = (i == 3 ? 0 : 1) + width[i] * (2 * (double)mx_uniform24(words[i]) - 1);
        const mx_colour_step step = {(mx_colour_kind)i, {alpha < 0 && i < 3 ? 0 : alpha, 0, 0}};
        steps[i] = step;
    }
    for (int i = 3; i > 0; i--) {
        const int k = (int)(order[i] % (uint32_t)(i + 1));
        const mx_colour_step kept = steps[i];
        steps[i] = steps[k], steps[k] = kept;
    }
}

/* Box and Muller: two uniform numbers give two normal ones. */
MX_ANY_DEVICE static inline mx_colour_step mx_colour_lighting(mx_rng rng, int64_t n, double deviation)
{
    uint32_t w[4];
    double alpha[4];
    mx_philox(rng.seed, rng.counter + (uint64_t)n, w);
    for (int i = 0; i < 4; i += 2) {
        const double radius = deviation * sqrt(-2 * log(1 - (double)mx_uniform24(w[i]))),
                     angle = 6.28318530717958647692 * (double)mx_uniform24(w[i + 1]);
        alpha[i] = radius * cos(angle), alpha[i + 1] = radius * sin(angle);
    }
    const mx_colour_step step = {MX_LIGHTING, {alpha[0], alpha[1], alpha[2]}};
    return step;
}

/* Gray: 0.299 R + 0.587 G + 0.114 B. */
#define MX_RED 0.299
#define MX_GREEN 0.587
#define MX_BLUE 0.114

MX_ANY_DEVICE static inline double mx_gray(const double *pixel, int64_t channels)
{
    return channels == 1 ? pixel[0] : MX_RED * pixel[0] + MX_GREEN * pixel[1] + MX_BLUE * pixel[2];
}

/* Colour variation of ImageNet photographs: eigenvalues and, in columns, eigenvectors. */
#define MX_COLOUR_SIZES 55.46, 4.794, 1.148
#define MX_COLOUR_AXES -0.5675, 0.7192, 0.4009, -0.5808, -0.0045, -0.8140, -0.5836, -0.6948, 0.4203

/* What lighting adds to channel c: eigenvectors times eigenvalues and strengths. */
MX_ANY_DEVICE static inline double mx_colour_shift(const double *sizes, const double *axes, int64_t c,
                                                   const double *alpha)
{
    axes += 3 * c;
    return sizes[0] * axes[0] * alpha[0] + sizes[1] * axes[1] * alpha[1] + sizes[2] * axes[2] * alpha[2];
}

/* The same for photographs. */
MX_ANY_DEVICE static inline double mx_lighting_shift(int64_t c, const double *alpha)
{
    const double sizes[3] = {MX_COLOUR_SIZES}, axes[9] = {MX_COLOUR_AXES};
    return mx_colour_shift(sizes, axes, c, alpha);
}

/* Rotates the hue of one pixel by `turn` turns: the largest and the smallest channel keep their values, so lightness
 * and saturation stay. */
MX_ANY_DEVICE static inline void mx_turn_hue(double turn, const double *in, double *out)
{
    const double most = in[0] > in[1] ? (in[0] > in[2] ? in[0] : in[2]) : (in[1] > in[2] ? in[1] : in[2]),
                 least = in[0] < in[1] ? (in[0] < in[2] ? in[0] : in[2]) : (in[1] < in[2] ? in[1] : in[2]),
                 span = most - least;
    double hue = 0; /* 0 red, 1/3 green, 2/3 blue */
    if (span > 0)
        hue = most == in[0]   ? (in[1] - in[2]) / span
              : most == in[1] ? 2 + (in[2] - in[0]) / span
                              : 4 + (in[0] - in[1]) / span;
    hue = hue / 6 + turn;
    hue -= floor(hue);
    for (int c = 0; c < 3; c++) {
        double away = fabs(hue - c / 3.0); /* from the channel's own hue, around the circle */
        away = away > 0.5 ? 1 - away : away;
        const double share = 2 - 6 * away;
        out[c] = least + span * (share < 0 ? 0 : share > 1 ? 1 : share);
    }
}

/* Limits of the integer types of images. */
static inline double mx_colour_min(int type) { return type == MX_UINT8 ? 0 : type == MX_INT8 ? -128 : -0x1p31; }
static inline double mx_colour_max(int type) { return type == MX_UINT8 ? 255 : type == MX_INT8 ? 127 : 0x1p31 - 1; }

/* Linear blend of two values; share 1 gives v. */
MX_ANY_DEVICE static inline double mx_colour_blend(double v, double share, double other)
{
    return v * share + (1 - share) * other;
}

/* What a changed element becomes that is a whole number in [low, high]: its fraction will be cut. */
MX_ANY_DEVICE static inline double mx_colour_whole(double v, double low, double high)
{
    v += copysign(1e-6, v); /* so that rounding errors below an integer are not truncated away */
    return v < low ? low : v > high ? high : v;
}

/* Where row or column i outside 0..n of a border comes from (types: see _cvcopyMakeBorder); -1: it holds a number. */
MX_ANY_DEVICE static inline int64_t mx_border_fold(int64_t i, int64_t n, int64_t type)
{
    if (i >= 0 && i < n)
        return i;
    if (type == 0)
        return -1;
    if (type == 1 || n == 1)
        return i < 0 ? 0 : n - 1;
    const int64_t period = type == 3 ? n : type == 2 ? 2 * n : 2 * n - 2;
    int64_t at = i % period;
    at = at < 0 ? at + period : at;
    return at < n ? at : type == 2 ? period - 1 - at : period - at;
}

#endif
