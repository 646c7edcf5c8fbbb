/* Fourier transforms of any length, by mixed radix: transforms of the prime factors are combined.  Also the column test
 * of count_sketch.  Shared by the kernels of all devices.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_FOURIER_H
#define MX_OP_FOURIER_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/any_device.h"

typedef struct __attribute__((aligned(16))) mx_complex { /* aligned: one load reads both parts on a GPU */
    double re, im;
} mx_complex;

static inline int64_t mx_smallest_factor(int64_t n)
{
    for (int64_t p = 2; p * p <= n; p++)
        if (n % p == 0)
            return p;
    return n;
}

/* e^(-2 pi i k / d), or its conjugate for the inverse. */
MX_ANY_DEVICE static inline mx_complex mx_fourier_root(int64_t k, int64_t d, bool inverse)
{
    const double angle = 6.28318530717958647692 * (double)k / (double)d;
    return (mx_complex){cos(angle), inverse ? sin(angle) : -sin(angle)};
}

/* One pass of a transform of length d: p transforms of length m become one of length p m. */
typedef struct mx_fourier_pass {
    int64_t p, m, apart;     /* apart: d / (p m) */
    const mx_complex *roots; /* (d): mx_fourier_root */
} mx_fourier_pass;

/* Element k of the transform of length p m, from p transforms of length m that begin `step` elements apart:
 *
 *     sum over r < p of w^(r k) old[r step + k mod m],   w = e^(-2 pi i / (p m)) */
MX_ANY_DEVICE static inline mx_complex mx_fourier_join(const mx_fourier_pass *f, const mx_complex *old, int64_t step,
                                                       int64_t k)
{
    const int64_t wide = f->p * f->m;
    old += k % f->m;
    mx_complex sum = old[0];
    for (int64_t r = 1, turn = k; r < f->p; r++) { /* turn: r k modulo wide */
        const mx_complex w = f->roots[turn * f->apart], x = old[r * step];
        sum.re += w.re * x.re - w.im * x.im;
        sum.im += w.re * x.im + w.im * x.re;
        turn += k - (turn + k >= wide ? wide : 0);
    }
    return sum;
}

/* True if the sketch has that column. */
MX_ANY_DEVICE static inline bool mx_sketch_contains(double column, int64_t wide)
{
    return column >= 0 && column < (double)wide;
}

#endif
