/* Sampling positions of grids, shared by the kernels of all devices.
 *
 * A grid (N, 2, h, w) holds x and y in [-1, 1], from the centre of the first pixel to that of the last one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_SAMPLER_H
#define MX_OP_SAMPLER_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

typedef struct mx_sampler_corners { /* the pixels around a position; those outside have offset 0 and weight 0 */
    int64_t at[4];
    double weight[4], dx[4], dy[4]; /* and the weight's change as x and y grow */
} mx_sampler_corners;

/* grid_x, grid_y: coordinates of a grid */
#define MX_SAMPLER_CORNERS(name, T)                                                                            \
    MX_ANY_DEVICE static inline mx_sampler_corners name(T grid_x, T grid_y, int64_t height, int64_t width)     \
    {                                                                                                          \
        mx_sampler_corners c;                                                                                  \
        const T x = (grid_x + 1) * (T)(width - 1) / 2, y = (grid_y + 1) * (T)(height - 1) / 2;                 \
        const T left = (T)floor((double)x), top = (T)floor((double)y), fx = x - left, fy = y - top;            \
        for (int k = 0; k < 4; k++) {                                                                          \
            const T cx = left + (T)(k % 2), cy = top + (T)(k / 2);                                             \
            const bool inside = cx >= 0 && cx <= (T)(width - 1) && cy >= 0 && cy <= (T)(height - 1);           \
            const T wx = k % 2 ? fx : 1 - fx, wy = k / 2 ? fy : 1 - fy;                                        \
            c.at[k] = inside ? (int64_t)cy * width + (int64_t)cx : 0;                                          \
            c.weight[k] = inside ? (double)(wx * wy) : 0;                                                      \
            c.dx[k] = inside ? (double)(k % 2 ? wy : -wy) : 0;                                                 \
            c.dy[k] = inside ? (double)(k / 2 ? wx : -wx) : 0;                                                 \
        }                                                                                                      \
        return c;                                                                                              \
    }
MX_SAMPLER_CORNERS(mx_sampler_corners_f, float)
MX_SAMPLER_CORNERS(mx_sampler_corners_d, double)

/* The grid coordinate of pixel i of n. */
MX_ANY_DEVICE static inline double mx_grid_place(int64_t i, int64_t n)
{
    return n > 1 ? -1 + 2 * (double)i / (double)(n - 1) : -1;
}

/* What a flow of one pixel is in a grid of n pixels. */
MX_ANY_DEVICE static inline double mx_grid_pixel(int64_t n) { return n > 1 ? 2 / (double)(n - 1) : 0; }

/* A coordinate by affine transform: (x, y, one) is a row of the matrix. */
MX_ANY_DEVICE static inline double mx_grid_affine(double x, double y, double one, double across, double down)
{
    return x * across + y * down + one;
}

/* The derivative by a grid coordinate, from that by pixels; n: pixels along the axis. */
MX_ANY_DEVICE static inline double mx_grid_slope(double slope, int64_t n) { return slope * (double)(n - 1) / 2; }

#endif
