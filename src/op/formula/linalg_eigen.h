/* Reflections and rotations of gelqf and syevd.  Shared by the kernels of all devices.
 *
 * syevd reduces a matrix to tridiagonal form: d is its diagonal, e[i] the element between d[i] and d[i + 1].  A sweep
 * over a block [first, last] shifts by the nearest eigenvalue of its first two rows, then chases the bulge from the
 * bottom up with rotations of neighbouring rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_LINALG_EIGEN_H
#define MX_OP_LINALG_EIGEN_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/any_device.h"

/* ---- reflections ---------------------------------------------------------------------------------------------- */

typedef struct mx_reflection { /* I - v v' / c maps x to (beta, 0, ...) */
    double beta, head, c;      /* v is x with its first element replaced by `head`; c 0: the identity */
} mx_reflection;

/* first: the first element of x; tail: the sum of squares of the others */
MX_ANY_DEVICE static inline mx_reflection mx_reflection_of(double first, double tail)
{
    if (tail == 0)
        return (mx_reflection){first, first, 0};
    const double norm = copysign(sqrt(first * first + tail), first), head = first + norm;
    return (mx_reflection){-norm, head, norm * head};
}

/* The multiple of v that is added to a row, given the dot product of both. */
MX_ANY_DEVICE static inline double mx_reflection_factor(double product, double c) { return -product / c; }

/* Element (i, k) of A - v w' - w v'. */
MX_ANY_DEVICE static inline double mx_rank2_update(double a, double v_i, double w_k, double w_i, double v_k)
{
    return a - v_i * w_k - w_i * v_k;
}

/* ---- rotations ------------------------------------------------------------------------------------------------ */

MX_ANY_DEVICE static inline void mx_rotate(double cosine, double sine, double *upper, double *lower)
{
    const double x = *upper, y = *lower;
    *upper = cosine * x - sine * y;
    *lower = sine * x + cosine * y;
}

#define MX_EIGEN_SWEEPS 80 /* for one eigenvalue; two or three are usual */

/* The last row of the block that begins at `first`: the element below its diagonal is negligible. */
MX_ANY_DEVICE static inline int64_t mx_eigen_block(const double *d, const double *e, int64_t n, int64_t first)
{
    int64_t last = first;
    while (last < n - 1 && !(fabs(e[last]) <= DBL_EPSILON * (fabs(d[last]) + fabs(d[last + 1]))))
        last++;
    return last;
}

typedef struct mx_sweep {
    double *d, *e;
    int64_t first, last;
    double value, moved;
    double cosine, sine; /* of the last rotation */
} mx_sweep;

MX_ANY_DEVICE static inline mx_sweep mx_sweep_begin(double *d, double *e, int64_t first, int64_t last)
{
    const double half = (d[first + 1] - d[first]) / (2 * e[first]);
    const double shift = d[first] - e[first] / (half + copysign(hypot(half, 1.0), half));
    return (mx_sweep){d, e, first, last, d[last] - shift, 0, 1, 1};
}

/* Cosine and sine of the direction (x, y); returns its length.  On a GPU a single thread runs the sweep, and a
 * reciprocal square root has a much lower latency than hypot and two divisions. */
MX_ANY_DEVICE static inline double mx_direction(double x, double y, double *cosine, double *sine)
{
#ifdef __CUDA_ARCH__
    const double square = y * y + x * x;
    if (square > 1e-280 && square < 1e280) {
        const double inverse = rsqrt(square);
        *sine = y * inverse, *cosine = x * inverse;
        return square * inverse;
    }
#endif
    const double length = hypot(y, x);
    if (length != 0)
        *sine = y / length, *cosine = x / length;
    return length;
}

/* Finds the rotation of rows i and i + 1; false: the block splits here and the sweep is done. */
MX_ANY_DEVICE static inline bool mx_sweep_row(mx_sweep *s, int64_t i)
{
    double *d = s->d, *e = s->e;
    const double bulge = s->sine * e[i], beside = s->cosine * e[i];
    e[i + 1] = mx_direction(s->value, bulge, &s->cosine, &s->sine);
    if (e[i + 1] == 0) {
        d[i + 1] -= s->moved;
        e[s->last] = 0;
        return false;
    }
    const double below = d[i + 1] - s->moved, mixed = (d[i] - below) * s->sine + 2 * s->cosine * beside;
    s->moved = s->sine * mixed;
    d[i + 1] = below + s->moved;
    s->value = s->cosine * mixed - beside;
    return true;
}

MX_ANY_DEVICE static inline void mx_sweep_end(const mx_sweep *s)
{
    s->d[s->first] -= s->moved;
    s->e[s->first] = s->value;
    s->e[s->last] = 0;
}

/* ---- order and signs ------------------------------------------------------------------------------------------ */

/* The rank of eigenvalue i in ascending order. */
MX_ANY_DEVICE static inline int64_t mx_eigen_rank(const double *d, int64_t n, int64_t i)
{
    int64_t rank = 0;
    for (int64_t k = 0; k < n; k++)
        rank += d[k] < d[i] || (!(d[k] > d[i]) && k < i);
    return rank < n ? rank : n - 1; /* NaN has no rank */
}

/* The sign that makes the largest component of a vector positive. */
MX_ANY_DEVICE static inline double mx_eigen_sign(const double *u, int64_t n)
{
    int64_t largest = 0;
    for (int64_t k = 0; k < n; k++)
        largest = fabs(u[k]) > fabs(u[largest]) ? k : largest;
    return u[largest] < 0 ? -1 : 1;
}

#endif
