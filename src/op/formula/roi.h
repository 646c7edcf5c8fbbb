/* Regions of a map: which places a bin or a sample reads.  What the kernels of all devices share.
 *
 * Regions are rows (image, left, top, right, bottom) or, rotated, (image, centre x, centre y, width, height, degrees),
 * in units that `scale` turns into places of the map.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_ROI_H
#define MX_OP_ROI_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

typedef struct mx_roi {
    int64_t batch, channels, height, width; /* of the data; position-sensitive: channels of the result */
    int64_t regions, rows, columns;         /* of the result (R, channels, rows, columns) */
    double scale;
    int64_t samples;         /* ROIAlign: per bin and axis; not positive: as needed */
    bool sensitive, aligned; /* ROIAlign: every bin has channels of its own; centres of places are at halves */
    bool rotated;
} mx_roi;

MX_ANY_DEVICE static inline int mx_roi_numbers(const mx_roi *s) { return s->rotated ? 6 : 5; } /* of a region */
/* The region's image is in the batch. */
MX_ANY_DEVICE static inline bool mx_roi_exists(const mx_roi *s, double image)
{
    return image >= 0 && image < (double)s->batch;
}

#define MX_ROI_FAR 1e9 /* beyond any map: keeps numbers that are not sizes inside an integer */
MX_ANY_DEVICE static inline double mx_roi_near(double x)
{
    return x > MX_ROI_FAR ? MX_ROI_FAR : x > -MX_ROI_FAR ? x : -MX_ROI_FAR;
}

/* ---- ROIPooling: bins of whole places ------------------------------------------------------------------------- */

typedef struct mx_roi_window { /* in places of the map */
    int64_t top, left, height, width;
} mx_roi_window;

/* roi: the whole row of the region */
MX_ANY_DEVICE static inline mx_roi_window mx_roi_window_of(const mx_roi *s, const double *roi)
{
    const int64_t l = (int64_t)round(mx_roi_near(roi[1] * s->scale)),
                  t = (int64_t)round(mx_roi_near(roi[2] * s->scale)),
                  r = (int64_t)round(mx_roi_near(roi[3] * s->scale)),
                  b = (int64_t)round(mx_roi_near(roi[4] * s->scale));
    return (mx_roi_window){t, l, b - t + 1 > 1 ? b - t + 1 : 1, r - l + 1 > 1 ? r - l + 1 : 1};
}

MX_ANY_DEVICE static inline int64_t mx_roi_inside(int64_t x, int64_t limit)
{
    return x < 0 ? 0 : x > limit ? limit : x;
}

/* Bin b of `bins` along an axis on which the window begins at `from`: places [*begin, *end). */
MX_ANY_DEVICE static inline void mx_roi_bin(int64_t b, int64_t bins, int64_t from, int64_t size, int64_t limit,
                                            int64_t *begin, int64_t *end)
{
    const double each = (double)size / (double)bins;
    *begin = mx_roi_inside((int64_t)floor((double)b * each) + from, limit);
    *end = mx_roi_inside((int64_t)ceil((double)(b + 1) * each) + from, limit);
}

/* ---- ROIAlign: bilinear samples ------------------------------------------------------------------------------- */

typedef struct mx_roi_tap { /* a bilinear sample: four places of a map */
    int64_t place[4];
    double weight[4];
} mx_roi_tap;

/* The tap at (y, x), times a factor; false: it lies outside. */
MX_ANY_DEVICE static inline bool mx_roi_tap_at(const mx_roi *s, double y, double x, double factor, mx_roi_tap *tap)
{
    const int64_t height = s->height, width = s->width;
    if (!(y >= -1 && y <= (double)height && x >= -1 && x <= (double)width) || !height || !width)
        return false;
    y = y < 0 ? 0 : y > (double)(height - 1) ? (double)(height - 1) : y;
    x = x < 0 ? 0 : x > (double)(width - 1) ? (double)(width - 1) : x;
    const int64_t top = (int64_t)y, left = (int64_t)x, bottom = top + 1 < height ? top + 1 : top,
                  right = left + 1 < width ? left + 1 : left;
    const double dy = y - (double)top, dx = x - (double)left;
    *tap = (mx_roi_tap){
        {top * width + left, top * width + right, bottom * width + left, bottom * width + right},
        {factor * (1 - dy) * (1 - dx), factor * (1 - dy) * dx, factor * dy * (1 - dx), factor * dy * dx}};
    return true;
}

typedef struct mx_roi_grid { /* of one region */
    double top, left, bin_height, bin_width;
    int64_t down, across;           /* samples per bin */
    double centre[2], cosine, sine; /* of a rotated region: places are relative to the centre */
} mx_roi_grid;

MX_ANY_DEVICE static inline int64_t mx_roi_samples(const mx_roi *s, double places)
{
    const double wanted = ceil(places); /* more samples than places say nothing new */
    return s->samples > 0 ? s->samples : wanted < 0 ? 0 : wanted > 4096 ? 4096 : (int64_t)wanted;
}

MX_ANY_DEVICE static inline mx_roi_grid mx_roi_grid_of(const mx_roi *s, const double *roi)
{
    mx_roi_grid grid = {0, 0, 0, 0, 0, 0, {0, 0}, 1, 0};
    double width, height;
    if (s->rotated) {
        const double angle = roi[5] * 3.14159265358979323846 / 180;
        width = mx_roi_near(roi[3] * s->scale), height = mx_roi_near(roi[4] * s->scale);
        width = width > 1 ? width : 1, height = height > 1 ? height : 1;
        grid.top = -height / 2, grid.left = -width / 2;
        grid.centre[0] = mx_roi_near(roi[2] * s->scale), grid.centre[1] = mx_roi_near(roi[1] * s->scale);
        grid.cosine = cos(angle), grid.sine = sin(angle);
    } else {
        const double shift = s->aligned ? 0.5 : 0;
        grid.left = mx_roi_near(roi[1] * s->scale - shift), grid.top = mx_roi_near(roi[2] * s->scale - shift);
        width = mx_roi_near(roi[3] * s->scale - shift) - grid.left;
        height = mx_roi_near(roi[4] * s->scale - shift) - grid.top;
        if (!s->aligned)
            width = width > 1 ? width : 1, height = height > 1 ? height : 1;
    }
    grid.bin_height = height / (double)s->rows, grid.bin_width = width / (double)s->columns;
    grid.down = mx_roi_samples(s, grid.bin_height), grid.across = mx_roi_samples(s, grid.bin_width);
    return grid;
}

/* Sample (i, j) of bin b; false: it lies outside. */
MX_ANY_DEVICE static inline bool mx_roi_sample(const mx_roi *s, const mx_roi_grid *grid, int64_t b, int64_t i,
                                               int64_t j, mx_roi_tap *tap)
{
    const double y = grid->top + ((double)(b / s->columns) + ((double)i + 0.5) / (double)grid->down) * grid->bin_height,
                 x = grid->left +
                     ((double)(b % s->columns) + ((double)j + 0.5) / (double)grid->across) * grid->bin_width;
    return mx_roi_tap_at(s, grid->centre[0] + y * grid->cosine - x * grid->sine,
                         grid->centre[1] + x * grid->cosine + y * grid->sine, 1 / (double)(grid->down * grid->across),
                         tap);
}

#endif
