/* Windows over one to three spatial axes of an array, shared by im2col and col2im.
 *
 * data (N, C, ...sizes) <-> columns (N, C * cells of the kernel, places).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_WINDOWS_H
#define MX_OP_WINDOWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

typedef struct mx_windows {
    int axes;
    int64_t size[3], kernel[3], stride[3], dilate[3], pad[3]; /* per axis */
    int64_t places[3];                                        /* windows along each axis */
    int64_t all_sizes, cells, all_places;                     /* the products */
} mx_windows;

/* Offset in the data of cell `cell` of window `place`; -1: in the padding. */
MX_ANY_DEVICE static inline int64_t mx_window_at(const mx_windows *w, int64_t cell, int64_t place)
{
    int64_t at = 0, step = 1;
    for (int i = w->axes - 1; i >= 0; i--) {
        const int64_t x = place % w->places[i] * w->stride[i] - w->pad[i] + cell % w->kernel[i] * w->dilate[i];
        if (x < 0 || x >= w->size[i])
            return -1;
        at += x * step, step *= w->size[i];
        place /= w->places[i], cell /= w->kernel[i];
    }
    return at;
}

/* The windows over data (N, C, ...sizes); missing dims are 1, missing pads 0. */
static inline mx_windows mx_windows_of(const int64_t *data, const mx_dims *kernel, const mx_dims *stride,
                                       const mx_dims *dilate, const mx_dims *pad)
{
    mx_windows w = {0};
    w.axes = kernel->n, w.all_sizes = w.cells = w.all_places = 1;
    for (int i = 0; i < kernel->n; i++) {
        w.size[i] = data[2 + i], w.kernel[i] = kernel->d[i], w.stride[i] = stride->n > i ? stride->d[i] : 1;
        w.dilate[i] = dilate->n > i ? dilate->d[i] : 1, w.pad[i] = pad->n > i ? pad->d[i] : 0;
        w.places[i] = (w.size[i] + 2 * w.pad[i] - (w.dilate[i] * (w.kernel[i] - 1) + 1)) / w.stride[i] + 1;
        w.all_sizes *= w.size[i], w.cells *= w.kernel[i], w.all_places *= w.places[i];
    }
    return w;
}

#endif
