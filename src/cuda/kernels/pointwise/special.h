/* Functions of the pointwise table that CUDA's library lacks.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_SPECIAL_H
#define MX_CUDA_SPECIAL_H

/* Derivatives of the logarithm of the gamma function.  x is moved above 10 by the recurrence
 *     psi_m(x) = psi_m(x + 1) - (-1)^m m! / x^(m + 1)
 * where the asymptotic series of Bernoulli numbers is exact to double; below 0 the reflection formulas hold. */
__device__ inline double mx_cuda_digamma(double x)
{
    double shift = 0;
    if (x <= 0) {
        if (x == floor(x))
            return nan("");
        return mx_cuda_digamma(1 - x) - 3.14159265358979323846 / tan(3.14159265358979323846 * x);
    }
    for (; x < 10; x += 1)
        shift -= 1 / x;
    const double r = 1 / (x * x);
    const double series =
        r * (1. / 12 - r * (1. / 120 - r * (1. / 252 - r * (1. / 240 - r * (1. / 132 - r * 691. / 32760)))));
    return shift + log(x) - 0.5 / x - series;
}

__device__ inline double mx_cuda_trigamma(double x)
{
    double shift = 0;
    if (x <= 0) {
        if (x == floor(x))
            return INFINITY;
        const double s = sin(3.14159265358979323846 * x);
        return 9.86960440108935861883 / (s * s) - mx_cuda_trigamma(1 - x);
    }
    for (; x < 10; x += 1)
        shift += 1 / (x * x);
    const double r = 1 / (x * x);
    const double series =
        r * (1. / 6 - r * (1. / 30 - r * (1. / 42 - r * (1. / 30 - r * (5. / 66 - r * 691. / 2730)))));
    return shift + (1 + 0.5 / x + series) / x;
}

__device__ inline double mx_cuda_tetragamma(double x)
{
    double shift = 0;
    if (x <= 0) {
        if (x == floor(x))
            return nan("");
        const double t = 3.14159265358979323846 * x, s = sin(t);
        return mx_cuda_tetragamma(1 - x) - 2 * 31.00627668029982017548 * cos(t) / (s * s * s);
    }
    for (; x < 10; x += 1)
        shift -= 2 / (x * x * x);
    const double r = 1 / (x * x);
    const double series = r * (0.5 - r * (1. / 6 - r * (1. / 6 - r * (0.3 - r * (5. / 6 - r * 691. / 210)))));
    return shift - r * (1 + 1 / x + series);
}

/* Remainder with the sign of b; 0 when b is 0. */
template <class F> __device__ inline F mx_cuda_floor_mod(F a, F b)
{
    if (b == 0)
        return 0;
    const F r = fmod(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* Derivative of x tanh(log(1 + exp(x))). */
template <class F> __device__ inline F mx_cuda_mish_slope(F x)
{
    const F t = tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)));
    return t + x * (1 - t * t) / (1 + exp(-x));
}

#endif
