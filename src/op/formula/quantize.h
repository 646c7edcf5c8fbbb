/* Quantization to 8-bit integers, shared by the kernels of all devices.
 *
 * uint8 covers [low, high] in 255 steps, int8 covers [-most, most] in 127 steps to either side.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_QUANTIZE_H
#define MX_OP_QUANTIZE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

MX_ANY_DEVICE static inline float mx_quantize_largest(float low, float high) { return fmaxf(fabsf(low), fabsf(high)); }

typedef struct mx_quantize_scale { /* uint8: (x - low) * factor; int8: x * factor */
    float low, factor;
    float first, last; /* the resulting range */
} mx_quantize_scale;

MX_ANY_DEVICE static inline mx_quantize_scale mx_quantize_scale_of(float low, float high, bool bytes)
{
    const float all = mx_quantize_largest(low, high), span = bytes ? high - low : all;
    const mx_quantize_scale made = {low, span > 0 ? (bytes ? 255 : 127) / span : 0, bytes ? low : -all,
                                    bytes ? high : all};
    return made;
}

MX_ANY_DEVICE static inline uint8_t mx_quantize_byte(float x, float low, float factor)
{
    const float v = (x - low) * factor + 0.5f;
    return (uint8_t)(!(v > 0) ? 0 : v > 255 ? 255 : (int32_t)v);
}

MX_ANY_DEVICE static inline int8_t mx_quantize_signed(float x, float factor)
{
    const float v = fabsf(x) * factor + 0.5f;
    const int32_t q = !(v < 127) ? (v == v ? 127 : 0) : (int32_t)v;
    return (int8_t)(x < 0 ? -q : q);
}

/* The real value of one unit of an int32 sum whose range is given. */
MX_ANY_DEVICE static inline float mx_quantize_sum_step(float low, float high)
{
    return (float)((double)mx_quantize_largest(low, high) / 2147483647.0);
}

typedef struct mx_dequantize_scale { /* x * factor + low */
    float factor, low;
} mx_dequantize_scale;

MX_ANY_DEVICE static inline mx_dequantize_scale mx_dequantize_scale_of(float low, float high, bool bytes)
{
    const mx_dequantize_scale scale = {bytes ? (high - low) / 255 : mx_quantize_largest(low, high) / 127,
                                       bytes ? low : 0};
    return scale;
}

/* ---- calibrate_entropy: divergence of a histogram from its quantized form ------------------------------------- */

typedef struct mx_calibrate_bins { /* one candidate threshold: n bins [begin, end) around the middle */
    int64_t begin, end, n, quantized, each;
} mx_calibrate_bins;

MX_ANY_DEVICE static inline mx_calibrate_bins mx_calibrate_bins_of(int64_t candidate, int64_t bins, int64_t quantized)
{
    const int64_t middle = bins / 2, reach = candidate + quantized / 2, begin = middle > reach ? middle - reach : 0,
                  end = middle + reach + 1 < bins ? middle + reach + 1 : bins;
    const mx_calibrate_bins made = {begin, end, end - begin, quantized, (end - begin) / quantized};
    return made;
}

/* Quantized bin j covers bins [*from, *to) of the candidate. */
MX_ANY_DEVICE static inline void mx_calibrate_part(const mx_calibrate_bins *b, int64_t j, int64_t *from, int64_t *to)
{
    *from = j * b->each, *to = j + 1 < b->quantized ? *from + b->each : b->n;
}

/* The mean over the `used` (nonempty) bins of a quantized bin; before[i]: the sum of all bins before i.  The first bin is
 * skipped. */
MX_ANY_DEVICE static inline double mx_calibrate_mean(const mx_calibrate_bins *b, const double *before, int64_t from,
                                                     int64_t to, double used)
{
    return used > 0 ? (before[b->begin + to] - before[b->begin + (from ? from : 1)]) / used : 0;
}

/* Smoothing: empty bins get epsilon, the others give up `less` each; 1 or more is too much. */
#define MX_CALIBRATE_EPSILON 1e-4
MX_ANY_DEVICE static inline double mx_calibrate_excess(double empty, int64_t n)
{
    return MX_CALIBRATE_EPSILON * empty / ((double)n - empty);
}
MX_ANY_DEVICE static inline double mx_calibrate_smooth(double p, double less)
{
    return p + (p == 0 ? MX_CALIBRATE_EPSILON : -less);
}

/* What a bin adds to the divergence of p from q. */
MX_ANY_DEVICE static inline double mx_calibrate_term(double p, double q) { return p > 0 ? p * log(p / q) : 0; }

#endif
