/* The distributions that can be drawn from: three operators per entry.
 *
 *     _random_<name>(parameters; shape)         numbers as parameters, a new array
 *     _random_<name>_like(data; parameters)     the shape of data
 *     _sample_<name>(arrays; shape)             one draw of `shape` per element of the parameter arrays
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_RANDOM_H
#define MX_OP_RANDOM_H

/* D(id, attributes of the numbers, inputs of _sample_, samples of those, doc) */
#define MX_DISTRIBUTIONS(D) \
    D(uniform, UNIFORM_NUMBERS, "low high", 2, "uniformly distributed numbers in [low, high)") \
    D(normal, NORMAL_NUMBERS, "mu sigma", 2, "normally distributed numbers with a given mean and standard deviation") \
    D(gamma, GAMMA_NUMBERS, "alpha beta", 2, "gamma-distributed numbers with shape alpha and scale beta") \
    D(exponential, EXPONENTIAL_NUMBERS, "lam", 1, "exponentially distributed numbers with rate lam") \
    D(poisson, POISSON_NUMBERS, "lam", 1, "Poisson-distributed numbers with mean lam, as floats") \
    D(negative_binomial, NEGATIVE_BINOMIAL_NUMBERS, "k p", 2, "negative binomial numbers, as floats: failures before k successes, each with probability p") \
    D(generalized_negative_binomial, GENERALIZED_NUMBERS, "mu alpha", 2, \
      "generalized negative binomial numbers with mean mu and dispersion alpha, as floats")

typedef enum mx_distribution {
#define MX_DISTRIBUTION_ID(id, ...) MX_DRAW_##id,
    MX_DISTRIBUTIONS(MX_DISTRIBUTION_ID)
    MX_DRAW_COUNT
} mx_distribution;

enum mx_random_form { MX_RANDOM_NEW, MX_RANDOM_LIKE, MX_RANDOM_SAMPLE };

/* op->user of all of these operators. */
typedef struct mx_random_use {
    mx_distribution distribution;
    int parameters; /* 1 or 2 */
    enum mx_random_form form;
} mx_random_use;

#endif
