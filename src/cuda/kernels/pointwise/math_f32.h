/* The m_* functions of the pointwise table for float on the device; T is float.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_MATH_F32_H
#define MX_CUDA_MATH_F32_H

#include "cuda/kernels/pointwise/special.h"

#define m_half 0.5f
#define m_log10_e 0.43429448190325182765f
#define m_log2_e 1.4426950408889634074f
#define m_degree 57.29577951308232088f
#define m_two_over_sqrt_pi 1.1283791670955125739f
#define m_fabs fabsf
#define m_sqrt sqrtf
#define m_cbrt cbrtf
#define m_exp expf
#define m_expm1 expm1f
#define m_log logf
#define m_log10 log10f
#define m_log2 log2f
#define m_log1p log1pf
#define m_sin sinf
#define m_cos cosf
#define m_tan tanf
#define m_asin asinf
#define m_acos acosf
#define m_atan atanf
#define m_sinh sinhf
#define m_cosh coshf
#define m_tanh tanhf
#define m_asinh asinhf
#define m_acosh acoshf
#define m_atanh atanhf
#define m_tgamma tgammaf
#define m_lgamma lgammaf
#define m_erf erff
#define m_erfinv erfinvf
#define m_rint rintf
#define m_round roundf
#define m_ceil ceilf
#define m_floor floorf
#define m_trunc truncf
#define m_hypot hypotf
#define m_pow powf
#define m_div(a, b) ((a) / (b))
#define m_sign(x) ((T)(((x) > 0) - ((x) < 0)))
#define m_max(a, b) ((a) >= (b) || (a) != (a) ? (a) : (b))
#define m_min(a, b) ((a) <= (b) || (a) != (a) ? (a) : (b))
#define m_sigmoid(x) (1 / (1 + expf(-(x))))
#define m_softplus(x) ((x) > 0 ? (x) + log1pf(expf(-(x))) : log1pf(expf(x)))
#define m_digamma (T)mx_cuda_digamma
#define m_trigamma (T)mx_cuda_trigamma
#define m_tetragamma (T)mx_cuda_tetragamma
#define m_mod mx_cuda_floor_mod<T>
#define m_mish_slope mx_cuda_mish_slope<T>

#endif
