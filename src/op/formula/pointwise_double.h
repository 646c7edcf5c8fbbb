/* The m_* functions of formulas (op/formula/math.h) for double, on any device.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_POINTWISE_DOUBLE_H
#define MX_OP_POINTWISE_DOUBLE_H

#include <math.h>

#include "op/formula/math.h"
#include "op/formula/special.h"

#define T double
#define MX_MATH_INLINE MX_ANY_DEVICE static inline

#define UNARY(name) \
    MX_MATH_INLINE T m_##name(T x) { return name(x); }
#define BINARY(name) \
    MX_MATH_INLINE T m_##name(T a, T b) { return name(a, b); }
MX_LIBM_ROWS(UNARY)
MX_LIBM_PAIR_ROWS(BINARY)
BINARY(fmod)
#ifdef __CUDACC__
UNARY(lgamma)
UNARY(erfinv)
#else
MX_MATH_SERIES(lgamma)
MX_MATH_SERIES(erfinv)
#endif
MX_SERIES_ROWS(MX_MATH_SERIES)
MX_CHOICE_ROWS(MX_MATH_UNARY, MX_MATH_BINARY)
MX_COMPOSED_ROWS(MX_MATH_UNARY, MX_MATH_BINARY)

#undef UNARY
#undef BINARY
#undef T
#undef MX_MATH_INLINE

#endif
