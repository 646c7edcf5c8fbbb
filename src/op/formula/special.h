/* Special functions that the mathematical libraries lack, in double.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_SPECIAL_H
#define MX_OP_SPECIAL_H

#include "base/any_device.h"
#ifndef __CUDACC_RTC__
#include <math.h>
#endif

#ifndef __CUDACC__
double mx_digamma(double x); /* the functions below, compiled once */
double mx_trigamma(double x);
double mx_tetragamma(double x);
double mx_erfinv(double x); /* inverse of erf; CUDA's library has it */
double mx_lgamma(double x); /* lgamma without its global sign variable, which CUDA's does not have */
#endif

/* psi(x), the derivative of lgamma: reflection for x <= 0, recurrence up to 10, then the asymptotic series. */
MX_ANY_DEVICE static inline double mx_series_digamma(double x)
{
    const double pi = 3.14159265358979323846;
    if (x <= 0)
        return x == floor(x) ? (double)NAN : mx_series_digamma(1 - x) - pi / tan(pi * x);
    double sum = 0;
    for (; x < 10; x++)
        sum -= 1 / x;
    double r = 1 / (x * x);
    return sum + log(x) - 0.5 / x -
           r * (1. / 12 - r * (1. / 120 - r * (1. / 252 - r * (1. / 240 - r * (1. / 132 - r * 691. / 32760)))));
}

/* psi'(x) in the same way: recurrence psi'(x) = psi'(x + 1) + 1 / x^2, reflection with pi^2 / sin^2. */
MX_ANY_DEVICE static inline double mx_series_trigamma(double x)
{
    const double pi = 3.14159265358979323846, s = sin(pi * x);
    if (x <= 0)
        return x == floor(x) ? (double)NAN : pi * pi / (s * s) - mx_series_trigamma(1 - x);
    double sum = 0;
    for (; x < 10; x++)
        sum += 1 / (x * x);
    double r = 1 / (x * x);
    return sum + 1 / x + r / 2 + r / x * (1. / 6 - r * (1. / 30 - r * (1. / 42 - r * (1. / 30 - r * 5. / 66))));
}

/* psi''(x): the derivative of each term above. */
MX_ANY_DEVICE static inline double mx_series_tetragamma(double x)
{
    const double pi = 3.14159265358979323846, s = sin(pi * x);
    if (x <= 0)
        return x == floor(x) ? (double)NAN : mx_series_tetragamma(1 - x) - 2 * pi * pi * pi * cos(pi * x) / (s * s * s);
    double sum = 0;
    for (; x < 10; x++)
        sum -= 2 / (x * x * x);
    double r = 1 / (x * x);
    return sum - r - r / x - r * r * (1. / 2 - r * (1. / 6 - r * (1. / 6 - r * (3. / 10 - r * 5. / 6))));
}

#endif
