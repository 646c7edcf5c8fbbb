/* The m_* functions of formulas (op/formula/math.h) for float on the device.
 *
 * Programs that are compiled at run time include this, so it includes only what the build embeds (cmake/cuda.cmake).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_MATH_F32_H
#define MX_CUDA_MATH_F32_H

#include "op/formula/math.h"
#include "op/formula/special.h"

#define T float
#define MX_MATH_INLINE static __device__ inline

#define UNARY(name) \
    MX_MATH_INLINE T m_##name(T x) { return name##f(x); }
#define BINARY(name) \
    MX_MATH_INLINE T m_##name(T a, T b) { return name##f(a, b); }
MX_LIBM_ROWS(UNARY)
MX_LIBM_PAIR_ROWS(BINARY)
BINARY(fmod)
UNARY(lgamma)
UNARY(erfinv)
MX_SERIES_ROWS(MX_MATH_SERIES)
MX_CHOICE_ROWS(MX_MATH_UNARY, MX_MATH_BINARY)
MX_COMPOSED_ROWS(MX_MATH_UNARY, MX_MATH_BINARY)

#undef UNARY
#undef BINARY
#undef T
#undef MX_MATH_INLINE

#endif
