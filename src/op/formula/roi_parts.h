/* Position-sensitive pooling of regions: what the kernels of all devices share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_ROI_PARTS_H
#define MX_OP_ROI_PARTS_H

#include "op/formula/roi.h"

typedef struct mx_roi_parts {
    int64_t batch, maps, height, width; /* of the data (batch, maps, height, width) */
    int64_t regions, dim, size, group, part, classes,
        samples; /* result (regions, dim, size, size); see the operators */
    double scale, deviation;
} mx_roi_parts;

typedef struct mx_roi_part_region { /* in places of the map */
    int64_t image;                  /* -1: there is none */
    double left, top, width, height;
} mx_roi_part_region;

MX_ANY_DEVICE static inline double mx_roi_more(double x, double least) { return x > least ? x : least; }
MX_ANY_DEVICE static inline int64_t mx_roi_within(double x, int64_t limit)
{
    return !(x > 0) ? 0 : x > (double)limit ? limit : (int64_t)x;
}

/* roi: the row of the region; shift: 0.5 where centres of places are at whole numbers */
MX_ANY_DEVICE static inline mx_roi_part_region mx_roi_part_region_of(const mx_roi_parts *p, const double *roi,
                                                                     double shift)
{
    const double left = mx_roi_near(round(roi[1]) * p->scale) - shift,
                 top = mx_roi_near(round(roi[2]) * p->scale) - shift;
    const bool exists = roi[0] >= 0 && roi[0] < (double)p->batch && p->height > 0 && p->width > 0;
    return (mx_roi_part_region){exists ? (int64_t)roi[0] : -1, left, top,
                                mx_roi_more(mx_roi_near((round(roi[3]) + 1) * p->scale) - shift - left, 0.1),
                                mx_roi_more(mx_roi_near((round(roi[4]) + 1) * p->scale) - shift - top, 0.1)};
}

/* First element of the plane that bin (i, j) of result c looks at. */
MX_ANY_DEVICE static inline int64_t mx_roi_part_plane(const mx_roi_parts *p, int64_t image, int64_t c, int64_t i,
                                                      int64_t j)
{
    const int64_t channel = (c * p->group + i * p->group / p->size) * p->group + j * p->group / p->size;
    return (image * p->maps + channel) * p->height * p->width;
}

/* Bin k of a region along an axis: places [*begin, *end). */
MX_ANY_DEVICE static inline void mx_roi_part_bin(const mx_roi_parts *p, int64_t k, double from, double size,
                                                 int64_t limit, int64_t *begin, int64_t *end)
{
    const double each = size / (double)p->size;
    *begin = mx_roi_within(floor((double)k * each + from), limit);
    *end = mx_roi_within(ceil((double)(k + 1) * each + from), limit);
}

/* Where the movement across of bin (i, j) of result c stands in trans; the one down stands part * part later. */
MX_ANY_DEVICE static inline int64_t mx_roi_part_move(const mx_roi_parts *p, int64_t r, int64_t c, int64_t i, int64_t j)
{
    const int64_t class_id = c / (p->dim / p->classes);
    return ((r * p->classes + class_id) * 2 * p->part + i * p->part / p->size) * p->part + j * p->part / p->size;
}

/* Sample s of a bin that begins at (y0, x0); false: it lies outside. */
MX_ANY_DEVICE static inline bool mx_roi_part_sample(const mx_roi_parts *p, const mx_roi_part_region *region, double y0,
                                                    double x0, int64_t s, double *y, double *x)
{
    const double each = (double)(p->size * p->samples), most_x = (double)(p->width - 1),
                 most_y = (double)(p->height - 1);
    *x = x0 + (double)(s % p->samples) * region->width / each;
    *y = y0 + (double)(s / p->samples) * region->height / each;
    if (!(*x >= -0.5 && *x <= (double)p->width - 0.5 && *y >= -0.5 && *y <= (double)p->height - 0.5))
        return false;
    *x = *x < 0 ? 0 : *x > most_x ? most_x : *x;
    *y = *y < 0 ? 0 : *y > most_y ? most_y : *y;
    return true;
}

#endif
