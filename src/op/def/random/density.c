/* Densities of the distributions that samplers draw from: _random_pdf_*.
 *
 * Parameters have shape s, samples s + m (any further axes): the parameter at one place belongs to all samples there.
 * For Dirichlet both have one axis more at the end, over which the density sums.  With L the logarithm of the density,
 *
 *     dy/dx = L'(x) * (is_log ? 1 : y)
 *
 * so gradients are compositions of the slopes of L.  Samples of discrete distributions have none.  Parameters outside
 * of a distribution's range give the value of the formula, or NaN where it is undefined.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "op/op.h"
#include "op/formula/special.h"

#define PDF_ATTRS(X) X(BOOL, is_log, "False", "", "return the logarithm of the density")
MX_ATTRS(random_pdf, PDF_ATTRS)

/* Slopes of L by sample and parameters, on arrays that broadcast against each other. */
typedef struct slopes {
    mx_array *sample, *first, *second;
} slopes;

static mx_array *digamma(mx_array *x) { return mx_g1("_digamma", x); }
static mx_array *logarithm(mx_array *x) { return mx_g1("log", x); }

/* L = -log(high - low) */
static slopes slopes_uniform(mx_array *x, mx_array *low, mx_array *high)
{
    mx_array *inverse = mx_g_rdiv(1, mx_g_sub(high, low));
    return (slopes){mx_g1("zeros_like", x), inverse, mx_g_neg(inverse)};
}

/* u = (x - mu) / sigma, L = -u^2 / 2 - log(sigma sqrt(2 pi)) */
static slopes slopes_normal(mx_array *x, mx_array *mu, mx_array *sigma)
{
    mx_array *u = mx_g_div(mx_g_sub(x, mu), sigma), *by_mu = mx_g_div(u, sigma);
    return (slopes){mx_g_neg(by_mu), by_mu, mx_g_div(mx_g_shift(mx_g1("square", u), -1), sigma)};
}

/* L = alpha log(beta) + (alpha - 1) log(x) - beta x - log gamma(alpha) */
static slopes slopes_gamma(mx_array *x, mx_array *alpha, mx_array *beta)
{
    return (slopes){mx_g_sub(mx_g_div(mx_g_shift(alpha, -1), x), beta),
                    mx_g_add(logarithm(x), mx_g_sub(logarithm(beta), digamma(alpha))), mx_g_sub(mx_g_div(alpha, beta), x)};
}

/* L = log(lam) - lam x */
static slopes slopes_exponential(mx_array *x, mx_array *lam, mx_array *none)
{
    (void)none;
    return (slopes){mx_g_neg(lam), mx_g_sub(mx_g_rdiv(1, lam), x), NULL};
}

/* L = x log(lam) - lam - log x! */
static slopes slopes_poisson(mx_array *x, mx_array *lam, mx_array *none)
{
    (void)none;
    return (slopes){NULL, mx_g_shift(mx_g_div(x, lam), -1), NULL};
}

/* L = log gamma(x + k) - log x! - log gamma(k) + k log(p) + x log(1 - p) */
static slopes slopes_negative_binomial(mx_array *x, mx_array *k, mx_array *p)
{
    return (slopes){NULL, mx_g_add(mx_g_sub(digamma(mx_g_add(x, k)), digamma(k)), logarithm(p)),
                    mx_g_sub(mx_g_div(k, p), mx_g_div(x, mx_g_rsub(1, p)))};
}

/* k = 1 / alpha, p = 1 / (1 + mu alpha):  dk/dalpha = -k^2,  dp/dmu = -alpha p^2,  dp/dalpha = -mu p^2 */
static slopes slopes_generalized(mx_array *x, mx_array *mu, mx_array *alpha)
{
    mx_array *k = mx_g_rdiv(1, alpha), *p = mx_g_rdiv(1, mx_g_shift(mx_g_mul(mu, alpha), 1));
    const slopes inner = slopes_negative_binomial(x, k, p);
    mx_array *by_p = mx_g_mul(inner.second, mx_g1("square", p)), *by_k = mx_g_mul(inner.first, mx_g1("square", k));
    return (slopes){NULL, mx_g_neg(mx_g_mul(by_p, alpha)), mx_g_neg(mx_g_add(by_k, mx_g_mul(by_p, mu)))};
}

/* L = sum_i (alpha_i - 1) log(x_i) + log gamma(sum alpha) - sum_i log gamma(alpha_i) */
static slopes slopes_dirichlet(mx_array *x, mx_array *alpha, mx_array *none)
{
    (void)none;
    mx_array *all = mx_g_text(MX_OP("sum"), "axis=-1, keepdims=True", 1, &alpha);
    return (slopes){mx_g_div(mx_g_shift(alpha, -1), x), mx_g_add(logarithm(x), mx_g_sub(digamma(all), digamma(alpha))),
                    NULL};
}

/* op->user */
typedef struct distribution {
    slopes (*slopes)(mx_array *x, mx_array *first, mx_array *second);
    double (*density)(double x, double first, double second); /* the reference formula */
    bool vectors;                                             /* the last axis of samples is one draw */
} distribution;

/* ---- shapes --------------------------------------------------------------------------------------------------- */

static mx_code infer_shape(mx_infer *infer)
{
    const distribution *d = infer->op->user;
    const mx_shape_t *sample = &infer->in[0], *p = &infer->in[1];
    const int vectors = d->vectors;
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    for (int i = 2; i < infer->n_in; i++)
        if (mx_infer_in(infer, i, p) || mx_infer_in(infer, 1, &infer->in[i]))
            return mx_error_code();
    if (!mx_shape_known(sample) || !mx_shape_known(p))
        return MX_OK;
    bool fits = sample->ndim >= p->ndim && p->ndim >= vectors;
    for (int i = 0; fits && i < p->ndim - vectors; i++)
        fits = sample->dim[i] == p->dim[i];
    if (!fits || (vectors && sample->dim[sample->ndim - 1] != p->dim[p->ndim - 1]))
        return mx_op_fail(infer->op, MX_ERR_SHAPE,
                          "sample has shape %s, which does not begin%s like the parameters' shape %s",
                          mx_shape_text(sample, a), vectors ? " and end" : "", mx_shape_text(p, b));
    mx_shape_t out = *sample;
    out.ndim -= vectors;
    if (vectors && !out.ndim) /* like a sum over all axes */
        out = (mx_shape_t){.ndim = 1, .dim = {1}};
    return mx_infer_out(infer, 0, &out);
}

/* ---- gradient ------------------------------------------------------------------------------------------------- */

/* The shape of the parameters with ones where only samples have an axis. */
static mx_shape_t open_shape(const mx_shape_t *p, const mx_shape_t *sample, int vectors)
{
    mx_shape_t shape = {.ndim = sample->ndim};
    for (int i = 0; i < sample->ndim; i++)
        shape.dim[i] = i < p->ndim - vectors ? p->dim[i] : 1;
    if (vectors)
        shape.dim[sample->ndim - 1] = p->dim[p->ndim - 1];
    return shape;
}

static mx_code gradient(mx_grad *grad)
{
    const distribution *d = grad->op->user;
    const mx_shape_t open = open_shape(&grad->in_shape[1], &grad->in_shape[0], d->vectors);
    mx_array *g = grad->ograd[0], *open_in[2] = {NULL};
    for (int i = 1; i < grad->n_in; i++)
        open_in[i - 1] = mx_g_reshape(grad->in[i], &open);
    if (!((const mx_random_pdf_attrs *)grad->attrs)->is_log)
        g = mx_g_mul(g, grad->out[0]);
    if (d->vectors && grad->in_shape[0].ndim > 1)
        g = mx_g_text(MX_OP("expand_dims"), "axis=-1", 1, &g);
    const slopes s = d->slopes(grad->in[0], open_in[0], open_in[1]);
    mx_array *const slope[3] = {s.sample, s.first, s.second};
    for (int i = 0; i < grad->n_in; i++) {
        if (!grad->wanted[i])
            continue;
        mx_array *product = mx_g_sum_to(mx_g_mul(g, slope[i]), i ? &open : &grad->in_shape[0]);
        grad->igrad[i] = mx_g_reshape(product, &grad->in_shape[i]);
        if (!grad->igrad[i])
            return mx_error_code();
    }
    return MX_OK;
}

/* ---- reference ------------------------------------------------------------------------------------------------ */

static double uniform(double x, double low, double high) { return (void)x, 1 / (high - low); }
static double normal(double x, double mu, double sigma)
{
    return exp(-(x - mu) * (x - mu) / (2 * sigma * sigma)) / (sigma * sqrt(2 * 3.14159265358979323846));
}
static double gamma_density(double x, double alpha, double beta)
{
    return pow(beta, alpha) * pow(x, alpha - 1) * exp(-beta * x) / tgamma(alpha);
}
static double exponential(double x, double lam, double none) { return (void)none, lam * exp(-lam * x); }
static double poisson(double x, double lam, double none) { return (void)none, pow(lam, x) * exp(-lam) / tgamma(x + 1); }
static double negative_binomial(double x, double k, double p)
{
    return tgamma(x + k) / (tgamma(x + 1) * tgamma(k)) * pow(p, k) * pow(1 - p, x);
}
static double generalized(double x, double mu, double alpha)
{
    return negative_binomial(x, 1 / alpha, 1 / (1 + mu * alpha));
}

static double dirichlet(const double *x, const double *alpha, int64_t n)
{
    double product = 1, all = 0;
    for (int64_t i = 0; i < n; i++)
        product *= pow(x[i], alpha[i] - 1) / tgamma(alpha[i]), all += alpha[i];
    return product * tgamma(all);
}

static void reference(const mx_reference_call *call, const distribution *d)
{
    const mx_shape_t *p = &call->in_shape[1];
    const int64_t n = mx_shape_size(&call->out_shape[0]), last = d->vectors ? p->dim[p->ndim - 1] : 1,
                  rows = mx_shape_size(p) / (last > 0 ? last : 1);
    for (int64_t e = 0; e < n; e++) {
        const int64_t row = e / (n / rows);
        const double y = d->vectors
                             ? dirichlet(call->in[0] + e * last, call->in[1] + row * last, last)
                             : d->density(call->in[0][e], call->in[1][row], call->n_in > 2 ? call->in[2][row] : 0);
        call->out[0][e] = ((const mx_random_pdf_attrs *)call->attrs)->is_log ? log(y) : y;
    }
}

#define DISTRIBUTION(name, slopes, density, vectors)                          \
    static const distribution of_##name = {slopes, density, vectors};         \
    static void ref_##name(const mx_reference_call *call) { reference(call, &of_##name); }
DISTRIBUTION(uniform, slopes_uniform, uniform, false)
DISTRIBUTION(normal, slopes_normal, normal, false)
DISTRIBUTION(gamma, slopes_gamma, gamma_density, false)
DISTRIBUTION(exponential, slopes_exponential, exponential, false)
DISTRIBUTION(poisson, slopes_poisson, poisson, false)
DISTRIBUTION(negative_binomial, slopes_negative_binomial, negative_binomial, false)
DISTRIBUTION(generalized_negative_binomial, slopes_generalized, generalized, false)
DISTRIBUTION(dirichlet, slopes_dirichlet, NULL, true)

#define PDF(which, ins, words, ignored, ...) \
    {.name = "_random_pdf_" #which, .aliases = "random_pdf_" #which, .c_name = "random_pdf_" #which, .inputs = "sample " ins, .doc = words, \
     .schema = &random_pdf_schema, .infer_shape = infer_shape, .gradient = gradient, .grad_in = 7, .grad_out = 1, .no_grad_inputs = ignored, \
     .reference = ref_##which, .user = &of_##which, .samples = (const mx_sample[]){__VA_ARGS__, {0}}}
mx_op mx_family_density[] = {
    PDF(uniform, "low high", "density of uniform distributions on [low, high]", 0, {"2,3;2;2", "", 0, 0, "f32only"},
        {"3;3;3", "", 0, 0, "f32only"}),
    PDF(normal, "mu sigma", "density of normal distributions", 0, {"2,3;2;2", "", 0.4, 2, "f32only"}, {"2,2,3;2,2;2,2", "is_log=True", 0.4, 2, "f32only"},
        {"3;3;3", "", 0.4, 2, "f32only"}, {"4;();()", "", 0.4, 2, "f32only"}, {"2,0;2;2", "", 0.4, 2, "f32only"}),
    PDF(gamma, "alpha beta", "density of gamma distributions with shape alpha and rate beta", 0, {"2,3;2;2", "", 0.4, 3, "f32only"},
        {"2,3,2;2;2", "is_log=True", 0.4, 3, "f32only"}),
    PDF(exponential, "lam", "density of exponential distributions with rate lam", 0, {"2,3;2", "", 0.4, 2, "f32only"}, {"2,3;2,3", "is_log=True", 0.4, 2, "f32only"}),
    PDF(poisson, "lam", "probability mass of Poisson distributions with mean lam", 1, {"2,3;2", "", 0.4, 4, "f32only"}, {"2,3;2", "is_log=True", 0.4, 4, "f32only"},
        {"2,5;2", "", 1, 6, "int:0 f32only"}),
    PDF(negative_binomial, "k p", "probability of x failures before k successes, each with probability p", 1, {"2,3;2;2", "", 0.2, 0.9, "f32only"},
        {"2,3;2;2", "is_log=True", 0.2, 0.9, "f32only"}),
    PDF(generalized_negative_binomial, "mu alpha", "probability mass of negative binomial distributions with mean mu and dispersion alpha", 1, {"2,3;2;2", "", 0.4, 3, "f32only"},
        {"2,3;2;2", "is_log=True", 0.4, 3, "f32only"}),
    PDF(dirichlet, "alpha", "density of Dirichlet distributions", 0, {"2,3,4;2,4", "", 0.4, 2, "f32only"}, {"2,3,2;2,2", "is_log=True", 0.4, 2, "f32only"},
        {"3;3", "", 0.4, 2, "f32only"}),
    {0},
};
