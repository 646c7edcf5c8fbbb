/* What operators on images share: (H, W, C) or (N, H, W, C).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_IMAGE_H
#define MX_OP_IMAGE_H

#include <math.h>

#include "op/op.h"

/* Checks the number of axes; true if the shape is known and can be looked at, false with or without an error. */
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
static inline mx_image_size mx_image_size_of(int ndim, const int64_t *dim)
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

/* Gray: 0.299 R + 0.587 G + 0.114 B. */
#define MX_RED 0.299
#define MX_GREEN 0.587
#define MX_BLUE 0.114

/* The directions in which the colours of photographs vary, as measured on ImageNet, times their strength. */
static const double mx_lighting_axes[3][3] = {
    {55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009},
    {55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140},
    {55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203},
};

/* Turns the hue of one pixel by `turn` rounds: the largest and the smallest channel keep their values, so lightness and
 * saturation stay. */
static inline void mx_turn_hue(double turn, const double *in, double *out)
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

#endif
