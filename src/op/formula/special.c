/* Special functions that libm lacks.  SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/special.h"

double mx_digamma(double x) { return mx_series_digamma(x); }
double mx_trigamma(double x) { return mx_series_trigamma(x); }
double mx_tetragamma(double x) { return mx_series_tetragamma(x); }

/* Inverse of erf: Winitzki's closed approximation, then Newton steps on erf(y) = x. */
double mx_erfinv(double x)
{
    if (x <= -1 || x >= 1)
        return x == 1 ? INFINITY : x == -1 ? -INFINITY : NAN;
    const double a = 0.147, pi = 3.14159265358979323846;
    double l = log1p(-x * x), t = 2 / (pi * a) + l / 2;
    double y = copysign(sqrt(sqrt(t * t - l / a) - t), x);
    for (int i = 0; i < 3; i++) {
        double error = fabs(x) < 0.7 ? erf(y) - x : copysign((1 - fabs(x)) - erfc(fabs(y)), x);
        double slope = 1.1283791670955125739 * exp(-y * y); /* of erf: 2 / sqrt(pi) ... */
        y -= error / (slope + y * error);
    }
    return y;
}

double mx_lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}
