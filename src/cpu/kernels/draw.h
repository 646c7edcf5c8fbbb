/* Drawing one number from a stream of random words, in double precision.
 *
 * A parameter for which the distribution does not exist gives NaN.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_DRAW_H
#define MX_CPU_DRAW_H

#include <math.h>
#include <stdbool.h>

#include "cpu/kernels/philox.h"
#include "op/pointwise_double.h"
#include "op/random.h"

static inline double draw_normal(philox_stream *s)
{
    const double u = 1 - philox_uniform(s), v = philox_uniform(s);
    return sqrt(-2 * log(u)) * cos(6.28318530717958647692 * v);
}

/* Marsaglia and Tsang 2000: d (1 + c x)^3 with normal x, rejected rarely; a shape below 1 is lifted by one. */
static inline double draw_gamma(philox_stream *s, double shape)
{
    if (!(shape > 0) || isinf(shape))
        return shape == 0 ? 0 : NAN;
    const double lift = shape < 1 ? pow(1 - philox_uniform(s), 1 / shape) : 1;
    const double d = (shape < 1 ? shape + 1 : shape) - 1. / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = draw_normal(s), t = 1 + c * x, v = t * t * t;
        if (v > 0 && log(1 - philox_uniform(s)) < 0.5 * x * x + d - d * v + d * log(v))
            return lift * d * v;
    }
}

/* Small means: count until the product of uniform numbers falls below exp(-mean).
 * Large ones: Hoermann's transformed rejection (PTRS, 1993). */
static inline double draw_poisson(philox_stream *s, double mean)
{
    if (!(mean >= 0) || mean > 1e15)
        return NAN;
    if (mean < 10) {
        const double limit = exp(-mean);
        double count = 0;
        for (double product = philox_uniform(s); product > limit; product *= philox_uniform(s))
            count++;
        return count;
    }
    const double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), accept = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        const double u = philox_uniform(s) - 0.5, v = 1 - philox_uniform(s), us = 0.5 - fabs(u);
        const double k = floor((2 * a / us + b) * u + mean + 0.43);
        if (us >= 0.07 && v <= accept)
            return k;
        if (k < 0 || (us < 0.013 && v > us))
            continue;
        if (log(v * inverse_alpha / (a / (us * us) + b)) <= k * log(mean) - mean - mx_lgamma(k + 1))
            return k;
    }
}

static inline double draw(mx_distribution distribution, philox_stream *s, double a, double b)
{
    switch (distribution) {
    case MX_DRAW_uniform: return a + philox_uniform(s) * (b - a);
    case MX_DRAW_normal: return b >= 0 ? a + b * draw_normal(s) : NAN;
    case MX_DRAW_gamma: return draw_gamma(s, a) * b;
    case MX_DRAW_exponential: return a > 0 ? -log(1 - philox_uniform(s)) / a : NAN;
    case MX_DRAW_poisson: return draw_poisson(s, a);
    case MX_DRAW_negative_binomial: return draw_poisson(s, draw_gamma(s, a) * ((1 - b) / b));
    default: return b == 0 ? draw_poisson(s, a) : draw_poisson(s, draw_gamma(s, 1 / b) * a * b);
    }
}

#endif
