/* Sizes of a deformable convolution, shared by inference, reference and kernels.
 *
 *     data (N, C, H, W)   offset (N, groups * cells * 2, h, w)   mask (N, groups * cells, h, w)
 *     weight (F, C / num_group, kernel)
 *
 * Cell (i, j) of the window at place (y, x) reads the data at
 *     row y * stride - pad + i * dilate + offset[2 * cell],  column ... + offset[2 * cell + 1]
 * bilinearly.  Without a mask a point outside [0, H) x [0, W) reads 0 and one beyond the last centre reads the edge;
 * with a mask the data is surrounded by zeros, and what was read is multiplied by the mask.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_DEFORMABLE_H
#define MX_OP_DEFORMABLE_H

#include "ndarray/shape.h"

typedef struct mx_deformable {
    int64_t kernel[2], stride[2], dilate[2], pad[2];
    int64_t filters, groups, offset_groups;
    int64_t channels, size[2];  /* of the data */
    int64_t out[2];             /* h, w */
    int64_t cells, places, all; /* kernel[0] * kernel[1], h * w, H * W */
} mx_deformable;

typedef struct mx_deformable_pixels { /* around a sampling point; with a mask some may lie outside the data */
    int64_t row[2], column[2];        /* top and bottom, left and right */
    bool inside;                      /* false: the sample is 0 */
} mx_deformable_pixels;

static inline int64_t mx_dims_pick(const mx_dims *d, int i, int64_t otherwise)
{
    return d->n > i ? d->d[i] : otherwise;
}

/* `data`: the sizes of the data, not smaller than a window. */
static inline mx_deformable mx_deformable_of(const mx_dims *kernel, const mx_dims *stride, const mx_dims *dilate,
                                             const mx_dims *pad, int64_t filters, int64_t groups, int64_t offset_groups,
                                             const int64_t *data)
{
    mx_deformable d = {.filters = filters, .groups = groups, .offset_groups = offset_groups, .channels = data[1]};
    for (int i = 0; i < 2; i++) {
        d.kernel[i] = kernel->d[i], d.stride[i] = mx_dims_pick(stride, i, 1);
        d.dilate[i] = mx_dims_pick(dilate, i, 1), d.pad[i] = mx_dims_pick(pad, i, 0);
        d.size[i] = data[2 + i];
        d.out[i] = (d.size[i] + 2 * d.pad[i] - (d.dilate[i] * (d.kernel[i] - 1) + 1)) / d.stride[i] + 1;
    }
    d.cells = d.kernel[0] * d.kernel[1], d.places = d.out[0] * d.out[1], d.all = d.size[0] * d.size[1];
    return d;
}

#endif
