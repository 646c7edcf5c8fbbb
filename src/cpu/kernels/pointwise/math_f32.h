/* The m_* functions of the pointwise table for float.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_MATH_F32_H
#define MX_CPU_MATH_F32_H

#include <math.h>

#include "cpu/kernels/pointwise/vmath_f32.h"
#include "op/formula/pointwise_double.h"

#undef m_half
#undef m_log10_e
#undef m_log2_e
#undef m_degree
#undef m_two_over_sqrt_pi
#define m_half 0.5f
#define m_log10_e 0.43429448190325182765f
#define m_log2_e 1.4426950408889634074f
#define m_degree 57.29577951308232088f
#define m_two_over_sqrt_pi 1.1283791670955125739f
#undef m_fabs
#undef m_sqrt
#undef m_cbrt
#undef m_exp
#undef m_expm1
#undef m_log
#undef m_log10
#undef m_log2
#undef m_log1p
#undef m_sin
#undef m_cos
#undef m_tan
#undef m_asin
#undef m_acos
#undef m_atan
#undef m_sinh
#undef m_cosh
#undef m_tanh
#undef m_asinh
#undef m_acosh
#undef m_atanh
#undef m_tgamma
#undef m_lgamma
#undef m_erf
#undef m_rint
#undef m_round
#undef m_ceil
#undef m_floor
#undef m_trunc
#undef m_hypot
#undef m_pow
#undef m_sign
#undef m_sigmoid
#undef m_softplus
#undef m_digamma
#undef m_trigamma
#undef m_tetragamma
#undef m_erfinv
#undef m_mod
#undef m_mish_slope
#define m_fabs mx_abs_f32
#define m_sqrt sqrtf
#define m_cbrt mx_cbrt_f32
#define m_exp mx_exp_f32
#define m_expm1 mx_expm1_f32
#define m_log mx_log_f32
#define m_log10 mx_log10_f32
#define m_log2 mx_log2_f32
#define m_log1p mx_log1p_f32
#define m_sin mx_sin_f32
#define m_cos mx_cos_f32
#define m_tan mx_tan_f32
#define m_asin mx_asin_f32
#define m_acos mx_acos_f32
#define m_atan mx_atan_f32
#define m_sinh mx_sinh_f32
#define m_cosh mx_cosh_f32
#define m_tanh mx_tanh_f32
#define m_asinh mx_asinh_f32
#define m_acosh mx_acosh_f32
#define m_atanh mx_atanh_f32
#define m_tgamma tgammaf
#define m_lgamma (float)mx_lgamma
#define m_erf mx_erf_f32
#define m_rint rintf
#define m_round mx_round_f32
#define m_ceil ceilf
#define m_floor floorf
#define m_trunc truncf
#define m_hypot mx_hypot_f32
#define m_pow mx_pow_f32
#define m_sign(x) ((float)(((x) > 0) - ((x) < 0)))
#define m_sigmoid mx_sigmoid_f32
#define m_softplus mx_softplus_f32
#define m_digamma (float)mx_digamma
#define m_trigamma (float)mx_trigamma
#define m_tetragamma (float)mx_tetragamma
#define m_erfinv (float)mx_erfinv
#define m_mod (float)mx_floor_mod
#define m_mish_slope mx_mish_slope_f32

#endif
