/* The m_* functions of formulas (op/formula/math.h) for float: from vmath_f32.h where available.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_MATH_F32_H
#define MX_CPU_MATH_F32_H

#include <math.h>

#include "cpu/kernels/pointwise/vmath_f32.h"
#include "op/formula/math.h"
#include "op/formula/special.h"

#define mx_fabs_f32 mx_abs_f32
#define mx_sqrt_f32 sqrtf
#define mx_tgamma_f32 tgammaf
#define mx_rint_f32 rintf
#define mx_ceil_f32 ceilf
#define mx_floor_f32 floorf
#define mx_trunc_f32 truncf

#define T float
#define MX_MATH_INLINE MX_MATH

#define UNARY(name) \
    MX_MATH T m_##name(T x) { return mx_##name##_f32(x); }
#define BINARY(name) \
    MX_MATH T m_##name(T a, T b) { return mx_##name##_f32(a, b); }
MX_LIBM_ROWS(UNARY)
MX_LIBM_PAIR_ROWS(BINARY)
UNARY(sigmoid)
UNARY(softplus)
BINARY(mod)
MX_MATH_SERIES(lgamma)
MX_MATH_SERIES(erfinv)
MX_SERIES_ROWS(MX_MATH_SERIES)
MX_CHOICE_ROWS(MX_MATH_UNARY, MX_MATH_BINARY)

#undef UNARY
#undef BINARY
#undef T
#undef MX_MATH_INLINE

#endif
