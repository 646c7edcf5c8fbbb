/* gelu in 16 bits.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_GELU_H
#define MX_CUDA_GELU_H

/* The probability that a normal number is below x: erf by a short formula (Abramowitz and Stegun 7.1.26, off by 1.5e-7 at most),
 * since the exact one would take longer than reading and writing. */
static __device__ inline float mx_cuda_normal_below(float x, float *density)
{
    const float z = fabsf(x) * 0.70710678118654752440f, t = __fdividef(1, 1 + 0.3275911f * z), e = __expf(-z * z);
    const float sum =
        t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    const float beyond = 0.5f * sum * e;
    *density = e * 0.39894228040143267794f;
    return x < 0 ? beyond : 1 - beyond;
}

#endif
