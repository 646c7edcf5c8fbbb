/* Densities of distributions: a scale, which depends only on the parameters, and an exponent, which also depends on the sample.
 *
 *     density = scale * exp(exponent(x)),  log density = log(scale) + exponent(x)
 *
 * Everything is computed in double, with the same functions on every device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_DENSITY_H
#define MX_OP_DENSITY_H

#include <math.h>

#include "base/rng.h"

#ifdef __CUDACC__
#define MX_DENSITY_LGAMMA lgamma /* CUDA's has no global sign */
#else
#include "op/formula/special.h"
#define MX_DENSITY_LGAMMA mx_lgamma
#endif

/* D(name): the operators _random_pdf_<name> of one or two numbers per row; Dirichlet's parameters are vectors. */
#define MX_DENSITIES(D) \
    D(uniform) D(normal) D(gamma) D(exponential) D(poisson) D(negative_binomial) D(generalized_negative_binomial)

typedef enum mx_density {
#define MX_DENSITY_ID(name) MX_DENSITY_##name,
    MX_DENSITIES(MX_DENSITY_ID)
    MX_DENSITY_dirichlet
} mx_density;

typedef struct mx_density_row {
    double scale;
    double a, b, c; /* further constants; their meaning depends on the distribution */
} mx_density_row;

/* 0 log 0 = 0 */
MX_ANY_DEVICE static inline double mx_times_log(double a, double x) { return a == 0 ? 0 : a * log(x); }

MX_ANY_DEVICE static inline mx_density_row mx_density_binomial(double k, double p)
{
    const mx_density_row r = {1, k, p, mx_times_log(k, p) - MX_DENSITY_LGAMMA(k)};
    return r;
}

/* The constants of a distribution's parameters; `second` is unused if there is only one. */
MX_ANY_DEVICE static inline mx_density_row mx_density_prepare(mx_density of, double first, double second)
{
    mx_density_row r = {1, first, second, 0};
    switch (of) {
    case MX_DENSITY_uniform: r.scale = 1 / (second - first); break;
    case MX_DENSITY_normal: r.scale = 1 / (second * sqrt(2 * 3.14159265358979323846)), r.b = 1 / second; break;
    case MX_DENSITY_gamma: r.a = first - 1, r.c = first * log(second) - MX_DENSITY_LGAMMA(first); break;
    case MX_DENSITY_exponential: r.scale = first; break;
    case MX_DENSITY_negative_binomial: return mx_density_binomial(first, second);
    case MX_DENSITY_generalized_negative_binomial: return mx_density_binomial(1 / second, 1 / (1 + first * second));
    default: break;
    }
    return r;
}

MX_ANY_DEVICE static inline double mx_density_exponent(mx_density of, const mx_density_row *r, double x)
{
    const double u = (x - r->a) * r->b; /* of normal */
    switch (of) {
    case MX_DENSITY_uniform: return 0;
    case MX_DENSITY_normal: return -u * u / 2;
    case MX_DENSITY_gamma: return r->c + mx_times_log(r->a, x) - r->b * x;
    case MX_DENSITY_exponential: return -r->a * x;
    case MX_DENSITY_poisson: return mx_times_log(x, r->a) - r->a - MX_DENSITY_LGAMMA(x + 1);
    default: return r->c + MX_DENSITY_LGAMMA(x + r->a) - MX_DENSITY_LGAMMA(x + 1) + mx_times_log(x, 1 - r->b);
    }
}

#endif
