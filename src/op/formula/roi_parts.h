/* Position-sensitive pooling of regions: shared by the kernels of all devices.  A whole bin is in roi_parts_bins.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_ROI_PARTS_H
#define MX_OP_ROI_PARTS_H

#include "op/formula/roi.h"

typedef struct mx_roi_parts {
    int64_t batch, maps, height, width; /* of the data (batch, maps, height, width) */
    int64_t regions, dim, size, group, part, classes,
        samples; /* result (regions, dim, size, size); see the operators */
    double scale, deviation;
} mx_roi_parts;

typedef struct mx_roi_parts_job { /* arrays of one element type */
    mx_roi_parts s;
    const void *map, *rois, *trans; /* (batch, maps, height, width), (R, 5), NULL or (R, 2 * classes, part, part) */
    const void *g,
        *counted;        /* (R, dim, size, size) backwards: the gradient, and how many samples there were; or NULL */
    void *out, *count;   /* (R, dim, size, size) */
    void *dmap, *dtrans; /* dtrans NULL: not wanted */
} mx_roi_parts_job;

typedef struct mx_roi_part_place { /* in the result: bin (i, j) of channel c of region r */
    int64_t r, c, i, j;
} mx_roi_part_place;

MX_ANY_DEVICE static inline mx_roi_part_place mx_roi_part_place_of(const mx_roi_parts *p, int64_t at)
{
    const int64_t size = p->size, channel = at / size / size;
    return (mx_roi_part_place){channel / p->dim, channel % p->dim, at / size % size, at % size};
}

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

/* First element of the plane that a bin reads. */
MX_ANY_DEVICE static inline int64_t mx_roi_part_plane(const mx_roi_parts *p, int64_t image, const mx_roi_part_place *at)
{
    const int64_t row = at->i * p->group / p->size, column = at->j * p->group / p->size,
                  channel = (at->c * p->group + row) * p->group + column;
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

/* Index in trans of the horizontal displacement of a bin; the vertical one is part * part further. */
MX_ANY_DEVICE static inline int64_t mx_roi_part_move(const mx_roi_parts *p, const mx_roi_part_place *at)
{
    const int64_t class_id = at->c / (p->dim / p->classes), row = at->i * p->part / p->size,
                  column = at->j * p->part / p->size;
    return ((at->r * p->classes + class_id) * 2 * p->part + row) * p->part + column;
}

/* Start of bin k of a region along an axis, displaced by `by`. */
MX_ANY_DEVICE static inline double mx_roi_part_begin(const mx_roi_parts *p, int64_t k, double from, double size,
                                                     double by)
{
    return (double)k * size / (double)p->size + from + by;
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
