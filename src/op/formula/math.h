/* The functions that formulas are made of, as lists: m_exp, m_tanh, m_softplus ...
 *
 * A formula (op/formula/pointwise.h) is a C expression over m_* functions and the element type T.  Code that compiles
 * formulas defines the functions for its type from these lists: pointwise_double.h for double, cpu/kernels/pointwise/
 * math_f32.h for float in vectors, cuda/kernels/pointwise/math_f32.h for float on a GPU, gluon/emit for C text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_MATH_H
#define MX_OP_MATH_H

// clang-format off

/* F(name): m_name is the function `name` of <math.h>, of one argument. */
#define MX_LIBM_ROWS(F) \
    F(fabs) F(sqrt) F(cbrt) F(exp) F(expm1) F(log) F(log10) F(log2) F(log1p) F(sin) F(cos) F(tan) F(asin) F(acos) F(atan) \
    F(sinh) F(cosh) F(tanh) F(asinh) F(acosh) F(atanh) F(tgamma) F(erf) F(rint) F(round) F(ceil) F(floor) F(trunc)

/* F(name): the same, of two arguments. */
#define MX_LIBM_PAIR_ROWS(F) F(hypot) F(pow)

/* S(name): series of op/formula/special.h, always computed in double. */
#define MX_SERIES_ROWS(S) S(digamma) S(trigamma) S(tetragamma)

/* U(name, expression over x), B(name, expression over a and b): selections, the same for every floating type.
 * in_int64: what an int64 cannot hold becomes the smallest one (as x86 converts it, so does MXNet), NaN included. */
#define MX_CHOICE_ROWS(U, B) \
    U(sign, (T)((x > 0) - (x < 0))) \
    U(in_int64, x >= -(T)9223372036854775808.0 && x < (T)9223372036854775808.0 ? x : -(T)9223372036854775808.0) \
    B(div, a / b) \
    B(max, a >= b || a != a ? a : b) \
    B(min, a <= b || a != a ? a : b)

/* The same: functions made of others; t is a variable of type T that an expression may set.  The CPU has its own for
 * float, which need no branches.  mod: the remainder with the sign of b, 0 when b is 0. */
#define MX_COMPOSED_ROWS(U, B) \
    U(sigmoid, 1 / (1 + m_exp(-x))) \
    U(softplus, x > 0 ? x + m_log1p(m_exp(-x)) : m_log1p(m_exp(x))) \
    B(mod, b == 0 ? 0 : (t = m_fmod(a, b), t != 0 && (t < 0) != (b < 0) ? t + b : t))

// clang-format on

/* As functions; the includer defines MX_MATH_INLINE and T. */
#define MX_MATH_UNARY(name, expression)      \
    MX_MATH_INLINE T m_##name(T x) { return (T)(expression); }
#define MX_MATH_BINARY(name, expression)     \
    MX_MATH_INLINE T m_##name(T a, T b)      \
    {                                        \
        __attribute__((unused)) T t = 0;     \
        return (T)(expression);              \
    }
#define MX_MATH_SERIES(name) \
    MX_MATH_INLINE T m_##name(T x) { return (T)MX_SERIES(name)((double)x); }
#ifdef __CUDACC__
#define MX_SERIES(name) mx_series_##name
#else
#define MX_SERIES(name) mx_##name
#endif

#endif
