/* Drawing one number from a stream of random words, in double precision: the same functions on every device.
 *
 * A parameter for which the distribution does not exist gives NaN.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_DRAW_H
#define MX_OP_DRAW_H

#include <math.h>
#include <stdbool.h>

#include "base/rng.h"
#include "op/formula/random.h"

#ifdef __CUDACC__
#define MX_DRAW_LGAMMA lgamma /* CUDA's has no global sign */
#else
#include "op/formula/special.h"
#define MX_DRAW_LGAMMA mx_lgamma
#endif

/* An endless stream of words that belongs to one counter: for samplers that reject.  The upper half of Philox's
 * 128-bit counter numbers the blocks of the stream, so streams of different counters never meet. */
typedef struct mx_rng_stream {
    uint64_t seed, counter;
    uint32_t block; /* the next one */
    int left;       /* words that are still unused */
    uint32_t words[4];
} mx_rng_stream;

MX_ANY_DEVICE static inline uint32_t mx_rng_stream_next(mx_rng_stream *s)
{
    if (!s->left) {
        uint32_t c0 = (uint32_t)s->counter, c1 = (uint32_t)(s->counter >> 32), c2 = s->block++, c3 = 0x5bd1e995u;
        uint32_t k0 = (uint32_t)s->seed, k1 = (uint32_t)(s->seed >> 32);
        for (int round = 0; round < 10; round++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
            const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
            c1 = (uint32_t)p1, c3 = (uint32_t)p0, c0 = n0, c2 = n2;
            k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
        }
        s->words[0] = c0, s->words[1] = c1, s->words[2] = c2, s->words[3] = c3;
        s->left = 4;
    }
    return s->words[--s->left];
}

/* Uniform in [0, 1) with 53 bits. */
MX_ANY_DEVICE static inline double mx_rng_stream_uniform(mx_rng_stream *s)
{
    const uint32_t high = mx_rng_stream_next(s);
    return mx_uniform53(high, mx_rng_stream_next(s));
}

MX_ANY_DEVICE static inline double mx_draw_normal(mx_rng_stream *s)
{
    const double u = 1 - mx_rng_stream_uniform(s), v = mx_rng_stream_uniform(s);
    return sqrt(-2 * log(u)) * cos(6.28318530717958647692 * v);
}

/* Marsaglia and Tsang 2000: d (1 + c x)^3 with normal x, rarely rejected; a shape below 1 is increased by one. */
MX_ANY_DEVICE static inline double mx_draw_gamma(mx_rng_stream *s, double shape)
{
    if (!(shape > 0) || isinf(shape))
        return shape == 0 ? 0 : NAN;
    const double lift = shape < 1 ? pow(1 - mx_rng_stream_uniform(s), 1 / shape) : 1;
    const double d = (shape < 1 ? shape + 1 : shape) - 1. / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = mx_draw_normal(s), t = 1 + c * x, v = t * t * t;
        if (v > 0 && log(1 - mx_rng_stream_uniform(s)) < 0.5 * x * x + d - d * v + d * log(v))
            return lift * d * v;
    }
}

/* Small means: count until the product of uniform numbers falls below exp(-mean).
 * Large ones: Hoermann's transformed rejection (PTRS, 1993). */
MX_ANY_DEVICE static inline double mx_draw_poisson(mx_rng_stream *s, double mean)
{
    if (!(mean >= 0) || mean > 1e15)
        return NAN;
    if (mean < 10) {
        const double limit = exp(-mean);
        double count = 0;
        for (double product = mx_rng_stream_uniform(s); product > limit; product *= mx_rng_stream_uniform(s))
            count++;
        return count;
    }
    const double b = 0.931 + 2.53 * sqrt(mean), a = -0.059 + 0.02483 * b;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), accept = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        const double u = mx_rng_stream_uniform(s) - 0.5, v = 1 - mx_rng_stream_uniform(s), us = 0.5 - fabs(u);
        const double k = floor((2 * a / us + b) * u + mean + 0.43);
        if (us >= 0.07 && v <= accept)
            return k;
        if (k < 0 || (us < 0.013 && v > us))
            continue;
        if (log(v * inverse_alpha / (a / (us * us) + b)) <= k * log(mean) - mean - MX_DRAW_LGAMMA(k + 1))
            return k;
    }
}

MX_ANY_DEVICE static inline double mx_draw(mx_distribution distribution, mx_rng_stream *s, double a, double b)
{
    switch (distribution) {
    case MX_DRAW_uniform: return a + mx_rng_stream_uniform(s) * (b - a);
    case MX_DRAW_normal: return b >= 0 ? a + b * mx_draw_normal(s) : NAN;
    case MX_DRAW_gamma: return mx_draw_gamma(s, a) * b;
    case MX_DRAW_exponential: return a > 0 ? -log(1 - mx_rng_stream_uniform(s)) / a : NAN;
    case MX_DRAW_poisson: return mx_draw_poisson(s, a);
    case MX_DRAW_negative_binomial: return mx_draw_poisson(s, mx_draw_gamma(s, a) * ((1 - b) / b));
    default: return b == 0 ? mx_draw_poisson(s, a) : mx_draw_poisson(s, mx_draw_gamma(s, 1 / b) * a * b);
    }
}

/* The first class whose running sum exceeds u times the total, by bisection. */
MX_ANY_DEVICE static inline int64_t mx_draw_class(const double *sums, int64_t classes, double u)
{
    const double wanted = u * sums[classes - 1];
    int64_t low = 0, high = classes - 1;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (sums[middle] > wanted)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Log probability of a class, from the running sums. */
MX_ANY_DEVICE static inline double mx_draw_log(const double *sums, int64_t c)
{
    return log(c ? sums[c] - sums[c - 1] : sums[0]);
}

/* A class by the log-uniform distribution: p(c) = log((c + 2) / (c + 1)) / log_range, log_range = log(classes + 1) */
MX_ANY_DEVICE static inline int64_t mx_draw_zipfian(double u, double log_range, int64_t classes)
{
    const int64_t value = (int64_t)exp(u * log_range) - 1;
    return value < 0 ? 0 : value >= classes ? classes - 1 : value;
}

/* Size of a hash set for n values; empty slots hold -1. */
static inline uint64_t mx_draw_slots(int64_t n)
{
    uint64_t slots = 16;
    while (slots < 2 * (uint64_t)n)
        slots *= 2;
    return slots;
}
/* Adds a value by open addressing; true if it was not in the set. */
MX_ANY_DEVICE static inline bool mx_draw_insert(int64_t *table, uint64_t slots, int64_t value)
{
    for (uint64_t at = ((uint64_t)value * 0x9E3779B97F4A7C15u) & (slots - 1);; at = (at + 1) & (slots - 1)) {
        if (table[at] == value)
            return false;
        if (table[at] < 0) {
            table[at] = value;
            return true;
        }
    }
}

#endif
