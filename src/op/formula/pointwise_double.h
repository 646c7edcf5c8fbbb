/* The m_* functions of the pointwise table for double.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_POINTWISE_DOUBLE_H
#define MX_OP_POINTWISE_DOUBLE_H

#include <math.h>

#define m_half 0.5
#define m_log10_e 0.43429448190325182765
#define m_log2_e 1.4426950408889634074
#define m_degree 57.29577951308232088
#define m_two_over_sqrt_pi 1.1283791670955125739
#define m_fabs fabs
#define m_sqrt sqrt
#define m_cbrt cbrt
#define m_exp exp
#define m_expm1 expm1
#define m_log log
#define m_log10 log10
#define m_log2 log2
#define m_log1p log1p
#define m_sin sin
#define m_cos cos
#define m_tan tan
#define m_asin asin
#define m_acos acos
#define m_atan atan
#define m_sinh sinh
#define m_cosh cosh
#define m_tanh tanh
#define m_asinh asinh
#define m_acosh acosh
#define m_atanh atanh
#define m_tgamma tgamma
#define m_lgamma mx_lgamma
#define m_erf erf
#define m_rint rint
#define m_round round
#define m_ceil ceil
#define m_floor floor
#define m_trunc trunc
#define m_hypot hypot
#define m_pow pow
#define m_div(a, b) ((a) / (b))
#define m_sign(x) ((double)(((x) > 0) - ((x) < 0)))
#define m_max(a, b) ((a) >= (b) || (a) != (a) ? (a) : (b))
#define m_min(a, b) ((a) <= (b) || (a) != (a) ? (a) : (b))
#define m_sigmoid(x) (1 / (1 + exp(-(x))))
#define m_softplus(x) ((x) > 0 ? (x) + log1p(exp(-(x))) : log1p(exp(x)))
#define m_digamma mx_digamma
#define m_trigamma mx_trigamma
#define m_tetragamma mx_tetragamma
#define m_erfinv mx_erfinv
#define m_mod mx_floor_mod
#define m_mish_slope mx_mish_slope_of

double mx_digamma(double x); /* derivative of lgamma, and its own derivatives: */
double mx_trigamma(double x);
double mx_tetragamma(double x);
double mx_erfinv(double x);
double mx_lgamma(double x); /* lgamma without its global sign variable */

/* Remainder with the sign of b; 0 when b is 0. */
static inline double mx_floor_mod(double a, double b)
{
    if (b == 0)
        return 0;
    double r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline double mx_mish_slope_of(double x)
{
    double t = tanh(m_softplus(x));
    return t + x * (1 - t * t) * m_sigmoid(x);
}

#endif
