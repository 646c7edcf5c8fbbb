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

#endif
