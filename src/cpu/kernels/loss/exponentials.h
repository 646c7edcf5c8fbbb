/* Exponentials of numbers below a maximum, for softmax and attention.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_EXPONENTIALS_H
#define MX_CPU_EXPONENTIALS_H

#include "cpu/kernels/loss/rows.h"
#include "cpu/kernels/pointwise/math_f32.h"

/* exp(x) for x <= 80 (results below 1e-38 are 0) of numbers or vectors; `bits` is the integer type of the same size.
 * Errors are below 2 units in the last place. */
#define EXP_OF_NEGATIVE(type, bits) \
    const type t = x * 1.44269504f + MX_ROUND_F32, k = t - MX_ROUND_F32; \
    const type r = (x - k * 0.693359375f) - k * -2.12194440e-4f; \
    type p = 8.28988850e-3f * r + 4.18990478e-2f; /* e^r */ \
    p = p * r + 1.66676491e-1f; \
    p = p * r + 4.99991417e-1f; \
    p = p * r + 9.99999702e-1f; \
    p = p * r + 1.0f; \
    union { \
        type value; \
        bits word; \
    } scale = {t}, result = {p}; \
    result.word += scale.word << 23;

static inline float exp_of_negative(float x)
{
    EXP_OF_NEGATIVE(float, uint32_t)
    return x < -87.0f ? 0 : result.value;
}
/* Unsigned: x below -87 may wrap around. */
typedef uint32_t words_f __attribute__((vector_size(MX_VECTOR_BYTES)));
static inline vector_f exp_vector_f(vector_f x)
{
    EXP_OF_NEGATIVE(vector_f, words_f)
    result.word &= (words_f) ~(x < -87.0f);
    return result.value;
}
static inline vector_d exp_vector_d(vector_d x)
{
    for (int i = 0; i < (int)(MX_VECTOR_BYTES / sizeof(double)); i++)
        x[i] = exp(x[i]);
    return x;
}

#endif
