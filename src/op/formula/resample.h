/* Resampling one axis of an image: which source cells contribute to an output cell, with which weights.
 *
 * Cells are squares with their centres at half-integers, as in OpenCV: output cell i is at (i + 0.5) * in / out - 0.5
 * of the source.  Cells outside the source are taken from its edge.  Both axes are resampled one after the other.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_RESAMPLE_H
#define MX_OP_RESAMPLE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

enum { MX_INTERP_NEAREST, MX_INTERP_LINEAR, MX_INTERP_CUBIC, MX_INTERP_AREA, MX_INTERP_LANCZOS, MX_INTERP_BOX };

typedef struct mx_resample {
    int64_t in, out; /* cells */
    double scale;    /* in / out */
    int method;      /* AREA: growing; BOX: shrinking by averages over areas */
} mx_resample;

/* interp: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos.  Areas are averaged only if no axis grows. */
MX_ANY_DEVICE static inline mx_resample mx_resample_axis(int interp, int64_t in, int64_t out, bool shrinks)
{
    return (mx_resample){in, out, 1 / ((double)out / (double)in), /* rounded this way to match OpenCV */
                         interp == MX_INTERP_AREA && shrinks ? MX_INTERP_BOX : interp == 5 ? MX_INTERP_LINEAR : interp};
}

/* The maximum number of weights of an output cell. */
MX_ANY_DEVICE static inline int64_t mx_resample_most(const mx_resample *r)
{
    static const int counts[] = {1, 2, 4, 2, 8};
    return r->method == MX_INTERP_BOX ? (int64_t)ceil(r->scale) + 1 : counts[r->method];
}

MX_ANY_DEVICE static inline double mx_lanczos(double x)
{
    if (fabs(x) < 1e-9)
        return 1;
    const double p = 3.14159265358979323846 * x;
    return fabs(x) < 4 ? 4 * sin(p) * sin(p / 4) / (p * p) : 0;
}

/* The four weights of cubic convolution with a = -0.75 at the fraction t. */
MX_ANY_DEVICE static inline void mx_cubic_weights(double t, double *weight)
{
    const double a = -0.75, u = 1 - t;
    weight[0] = ((a * (t + 1) - 5 * a) * (t + 1) + 8 * a) * (t + 1) - 4 * a;
    weight[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
    weight[2] = ((a + 2) * u - (a + 3)) * u * u + 1;
    weight[3] = 1 - weight[0] - weight[1] - weight[2];
}

MX_ANY_DEVICE static inline int64_t mx_box_weights(const mx_resample *r, int64_t i, int64_t *first, double *weight)
{
    const double begin = (double)i * r->scale, end = fmin(begin + r->scale, (double)r->in);
    int64_t count = 0;
    *first = (int64_t)floor(begin + 1e-9);
    for (int64_t s = *first; (double)s < end - 1e-9 && s < r->in && count < mx_resample_most(r); s++)
        weight[count++] = (fmin((double)s + 1, end) - fmax((double)s, begin)) / (end - begin);
    return count;
}

/* Weights of output cell i for the cells *first, *first + 1 ... (to be clamped to the source); returns their number. */
MX_ANY_DEVICE static inline int64_t mx_resample_weights(const mx_resample *r, int64_t i, int64_t *first, double *weight)
{
    if (r->method == MX_INTERP_BOX)
        return mx_box_weights(r, i, first, weight);
    if (r->method == MX_INTERP_NEAREST)
        return *first = (int64_t)floor((double)i * r->scale), weight[0] = 1, 1;
    const double x = ((double)i + 0.5) * r->scale - 0.5;
    double whole = floor(x), t = x - whole;
    if (r->method == MX_INTERP_AREA) { /* growing: each source cell stays constant as long as possible */
        whole = floor((double)i * r->scale);
        t = (float)((double)(i + 1) - (whole + 1) * ((double)r->out / (double)r->in)); /* 1 - 1e-16 is taken as 1 */
        t = t <= 0 ? 0 : t - floor(t);
    }
    *first = (int64_t)whole;
    if (r->method == MX_INTERP_LINEAR || r->method == MX_INTERP_AREA)
        return weight[0] = 1 - t, weight[1] = t, 2;
    if (r->method == MX_INTERP_CUBIC)
        return *first -= 1, mx_cubic_weights(t, weight), 4;
    double sum = 0;
    *first -= 3;
    for (int k = 0; k < 8; k++)
        sum += weight[k] = mx_lanczos(t + 3 - k);
    for (int k = 0; k < 8; k++)
        weight[k] /= sum;
    return 8;
}

MX_ANY_DEVICE static inline int64_t mx_resample_clamp(const mx_resample *r, int64_t cell)
{
    return cell < 0 ? 0 : cell >= r->in ? r->in - 1 : cell;
}

#endif
