/* IEEE binary16 in integer arithmetic without branches, so that loops over it vectorise on any machine.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_HALF_H
#define MX_NDARRAY_HALF_H

#include <stdint.h>
#include <string.h>

/* The exponent and mantissa, moved to their places in a float, mean 2^-112 of the value: one exact multiplication
 * rebases the exponent and normalises subnormals.  Infinity and NaN (made quiet) get the float's exponent instead. */
static inline float mx_half_value(uint16_t half)
{
    int32_t magnitude = half & 0x7fff, bits = magnitude << 13;
    float value;
    memcpy(&value, &bits, 4);
    value *= 0x1p112f;
    memcpy(&bits, &value, 4);
    int32_t special = 0x7f800000 | bits | (magnitude << 13) | (magnitude > 0x7c00 ? 0x400000 : 0);
    bits = magnitude >= 0x7c00 ? special : bits;
    bits = (int32_t)((uint32_t)bits | (uint32_t)(half & 0x8000) << 16);
    memcpy(&value, &bits, 4);
    return value;
}

/* Nearest even; 65520 and more round to infinity; NaN is made quiet and keeps the upper payload. */
static inline uint16_t mx_half_bits(float f)
{
    int32_t bits;
    memcpy(&bits, &f, 4);
    int32_t magnitude = bits & 0x7fffffff;
    /* Below 2^-14 the steps are 2^-24, those of a float near 0.5: adding 0.5 rounds. */
    float shifted;
    memcpy(&shifted, &magnitude, 4);
    shifted += 0.5f;
    int32_t small;
    memcpy(&small, &shifted, 4);
    small -= 0x3f000000;
    int32_t normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    int32_t result = magnitude < 0x38800000 ? small : normal;
    result = magnitude >= 0x477ff000 ? 0x7c00 : result;
    result = magnitude > 0x7f800000 ? (0x7e00 | ((magnitude >> 13) & 0x3ff)) : result;
    return (uint16_t)(result | ((bits >> 16) & 0x8000));
}

#endif
