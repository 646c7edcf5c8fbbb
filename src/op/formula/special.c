/* Special functions that libm lacks.  SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/pointwise_double.h"

/* psi(x): reflection for x <= 0, recurrence up to 10, then the asymptotic series. */
double mx_digamma(double x)
{
    const double pi = 3.14159265358979323846;
    if (x <= 0)
        return x == floor(x) ? NAN : mx_digamma(1 - x) - pi / tan(pi * x);
    double sum = 0;
    for (; x < 10; x++)
        sum -= 1 / x;
    double r = 1 / (x * x);
    return sum + log(x) - 0.5 / x -
           r * (1. / 12 - r * (1. / 120 - r * (1. / 252 - r * (1. / 240 - r * (1. / 132 - r * 691. / 32760)))));
}

/* psi'(x) in the same way: recurrence psi'(x) = psi'(x + 1) + 1 / x^2, reflection with pi^2 / sin^2. */
double mx_trigamma(double x)
{
    const double pi = 3.14159265358979323846, s = sin(pi * x);
    if (x <= 0)
        return x == floor(x) ? NAN : pi * pi / (s * s) - mx_trigamma(1 - x);
    double sum = 0;
    for (; x < 10; x++)
        sum += 1 / (x * x);
    double r = 1 / (x * x);
    return sum + 1 / x + r / 2 + r / x * (1. / 6 - r * (1. / 30 - r * (1. / 42 - r * (1. / 30 - r * 5. / 66))));
}

/* psi''(x): the derivative of each term above. */
double mx_tetragamma(double x)
{
    const double pi = 3.14159265358979323846, s = sin(pi * x);
    if (x <= 0)
        return x == floor(x) ? NAN : mx_tetragamma(1 - x) - 2 * pi * pi * pi * cos(pi * x) / (s * s * s);
    double sum = 0;
    for (; x < 10; x++)
        sum -= 2 / (x * x * x);
    double r = 1 / (x * x);
    return sum - r - r / x - r * r * (1. / 2 - r * (1. / 6 - r * (1. / 6 - r * (3. / 10 - r * 5. / 6))));
}

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
        double slope = m_two_over_sqrt_pi * exp(-y * y);
        y -= error / (slope + y * error);
    }
    return y;
}

double mx_lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}
