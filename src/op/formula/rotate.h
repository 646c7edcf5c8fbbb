/* The geometry of rotating an image (see op/def/image/image_rotate.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_ROTATE_H
#define MX_OP_ROTATE_H

#include <math.h>

#include "base/rng.h"
#include "op/op.h"

typedef struct mx_rotation {
    double cosine, sine;       /* times the zoom */
    double centre_x, centre_y; /* in pixels */
} mx_rotation;

MX_ANY_DEVICE static inline mx_rotation mx_rotation_of(double degrees, int64_t height, int64_t width, bool zoom_in,
                                                       bool zoom_out)
{
    const double angle = degrees * 3.14159265358979323846 / 180, h = (double)height, w = (double)width;
    double zoom = 1;
    if (zoom_in || zoom_out) {
        const double corner = atan2(h, w), radius = sqrt(h * h + w * w), turn = fabs(angle),
                     across = fmax(fabs(radius * cos(corner + turn)), fabs(radius * cos(corner - turn))),
                     down = fmax(fabs(radius * sin(corner + turn)), fabs(radius * sin(corner - turn)));
        zoom = zoom_out ? fmax(across / w, down / h) : fmin(w / across, h / down);
    }
    return (mx_rotation){zoom * cos(angle), zoom * sin(angle), (w - 1) / 2, (h - 1) / 2};
}

/* Where output pixel (row, column) is read. */
MX_ANY_DEVICE static inline void mx_rotate_back(const mx_rotation *r, int64_t row, int64_t column, double *y, double *x)
{
    const double across = (double)column - r->centre_x, down = (double)row - r->centre_y;
    *x = r->centre_x + across * r->cosine - down * r->sine;
    *y = r->centre_y + across * r->sine + down * r->cosine;
}

#endif
