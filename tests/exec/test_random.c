/* Random operators: moments, ranges, repetition by seed, independence of the number of threads; Dropout and its gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gluon/autograd.h"
#include "gluon/op.gen.h"

#define COUNT 200000

static double *values_of(mx_array *x)
{
    assert_non_null(x);
    double *values = malloc((size_t)mx_size(x) * sizeof *values);
    assert_int_equal(mx_array_read_doubles(x, values, mx_size(x)), MX_OK);
    return values;
}

typedef struct moments {
    double mean, var, min, max;
} moments;

static moments moments_of(mx_array *x)
{
    double *v = values_of(x);
    const int64_t n = mx_size(x);
    moments m = {0, 0, INFINITY, -INFINITY};
    for (int64_t i = 0; i < n; i++) {
        m.mean += v[i] / (double)n;
        m.min = fmin(m.min, v[i]), m.max = fmax(m.max, v[i]);
    }
    for (int64_t i = 0; i < n; i++)
        m.var += (v[i] - m.mean) * (v[i] - m.mean) / (double)n;
    free(v);
    return m;
}

/* The sample mean is within five deviations; the variance within 5 %. */
static void assert_moments(const char *what, mx_array *x, double mean, double var)
{
    const moments m = moments_of(x);
    const double error = 5 * sqrt(var / (double)mx_size(x));
    if (fabs(m.mean - mean) > error + 1e-12 || fabs(m.var - var) > 0.05 * var)
        fail_msg("%s: mean %g and variance %g, wanted %g and %g", what, m.mean, m.var, mean, var);
}

static void test_moments(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_random_seed(7);
    const mx_dims n = MX_DIMS(COUNT);
    const mx_dtype types[] = {MX_FLOAT32, MX_FLOAT64, MX_FLOAT16};
    for (int t = 0; t < 3; t++) {
        assert_moments("uniform", mx_random_uniform(.low = -1, .high = 3, .shape = n, .dtype = types[t]), 1, 16. / 12);
        assert_moments("normal", mx_random_normal(.loc = 2, .scale = 3, .shape = n, .dtype = types[t]), 2, 9);
    }
    assert_moments("gamma", mx_random_gamma(.alpha = 2.5, .beta = 2, .shape = n), 5, 10);
    assert_moments("gamma below 1", mx_random_gamma(.alpha = 0.5, .beta = 2, .shape = n), 1, 2);
    assert_moments("exponential", mx_random_exponential(.lam = 4, .shape = n), 0.25, 1. / 16);
    assert_moments("poisson", mx_random_poisson(.lam = 3, .shape = n), 3, 3);
    assert_moments("large poisson", mx_random_poisson(.lam = 50, .shape = n), 50, 50);
    assert_moments("negative binomial", mx_random_negative_binomial(.k = 3, .p = 0.4, .shape = n), 4.5, 11.25);
    assert_moments("generalized", mx_random_generalized_negative_binomial(.mu = 2, .alpha = 0.5, .shape = n), 2, 4);
    assert_moments("randint", mx_random_randint(.low = 10, .high = 20, .shape = n), 14.5, 99. / 12);
    assert_int_equal(mx_check("test_moments"), 0);
}

/* Box-Muller pairs and neighbours must not be correlated; the tails must exist. */
static void test_normal_shape(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_random_seed(3);
    double *v = values_of(mx_random_normal(.shape = MX_DIMS(COUNT)));
    const int steps[] = {1, 16, 32, 64};
    for (int s = 0; s < 4; s++) {
        double product = 0;
        for (int64_t i = 0; i + steps[s] < COUNT; i++)
            product += v[i] * v[i + steps[s]] / COUNT;
        assert_true(fabs(product) < 5 / sqrt(COUNT));
    }
    int inside[4] = {0};
    for (int64_t i = 0; i < COUNT; i++)
        for (int k = 1; k < 4; k++)
            inside[k] += fabs(v[i]) < k;
    assert_true(fabs(inside[1] / (double)COUNT - 0.6827) < 0.006);
    assert_true(fabs(inside[2] / (double)COUNT - 0.9545) < 0.003);
    assert_true(fabs(inside[3] / (double)COUNT - 0.9973) < 0.001);
    free(v);
}

static void test_ranges(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_random_seed(5);
    moments m = moments_of(mx_random_uniform(.low = 1, .high = 1.0000001, .shape = MX_DIMS(COUNT)));
    assert_true(m.min >= 1 && m.max < 1.0000001);
    m = moments_of(mx_random_uniform(.shape = MX_DIMS(COUNT)));
    assert_true(m.min >= 0 && m.max < 1 && m.min < 0.001 && m.max > 0.999);
    m = moments_of(mx_random_randint(.low = -2, .high = 3, .shape = MX_DIMS(COUNT), .dtype = MX_INT64));
    assert_true(m.min == -2 && m.max == 2);
    assert_null(mx_random_randint(.low = 3, .high = 3, .shape = MX_DIMS(2)));
    assert_int_equal(mx_error_code(), MX_ERR_ATTRIBUTE);
    mx_error_clear();
    assert_null(mx_random_normal(.scale = -1, .shape = MX_DIMS(2)));
    mx_error_clear();
    assert_int_equal(mx_dim(mx_random_uniform(), 0), 1);
}

/* ---- repetition ------------------------------------------------------------------------------------------------- */

typedef mx_array *(*maker)(void);
static mx_array *make_uniform(void) { return mx_random_uniform(.shape = MX_DIMS(100003)); }
static mx_array *make_uniform_double(void) { return mx_random_uniform(.shape = MX_DIMS(100003), .dtype = MX_FLOAT64); }
static mx_array *make_normal(void) { return mx_random_normal(.shape = MX_DIMS(100003)); }
static mx_array *make_gamma(void) { return mx_random_gamma(.alpha = 0.7, .shape = MX_DIMS(20011)); }
static mx_array *make_poisson(void) { return mx_random_poisson(.lam = 20, .shape = MX_DIMS(20011)); }
static mx_array *make_randint(void) { return mx_random_randint(.low = 0, .high = 1000, .shape = MX_DIMS(20011)); }
static mx_array *make_multinomial(void)
{
    return mx_sample_multinomial(mx_random_uniform(.low = 0.1, .shape = MX_DIMS(7, 5)), .shape = MX_DIMS(3000));
}
static mx_array *make_dropout(void)
{
    return mx_op_dropout(mx_random_uniform(.shape = MX_DIMS(100003)), .mode = MX_DROPOUT_ALWAYS);
}
static const maker makers[] = {make_uniform, make_uniform_double, make_normal,      make_gamma,
                               make_poisson, make_randint,        make_multinomial, make_dropout};

static void test_seed_and_threads(void **state)
{
    (void)state;
    const int before = mx_num_threads();
    for (size_t k = 0; k < sizeof makers / sizeof *makers; k++) {
        MX_SCOPE;
        double *run[4];
        int64_t n = 0;
        for (int r = 0; r < 4; r++) {
            mx_set_num_threads(r == 1 ? 4 : r == 2 ? 3 : 1);
            mx_random_seed(r == 3 ? 12 : 11);
            mx_array *x = makers[k]();
            n = mx_size(x);
            run[r] = values_of(x);
        }
        assert_memory_equal(run[0], run[1], (size_t)n * sizeof(double));
        assert_memory_equal(run[0], run[2], (size_t)n * sizeof(double));
        assert_memory_not_equal(run[0], run[3], (size_t)n * sizeof(double));
        for (int r = 0; r < 4; r++)
            free(run[r]);
    }
    mx_set_num_threads(before);
}

/* ---- parameters as arrays ---------------------------------------------------------------------------------------- */

static void test_sample(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_random_seed(2);
    mx_array *mu = mx_array_from(MX_DIMS(2), MX_FLOAT32, (float[]){-5, 5}),
             *sigma = mx_array_from(MX_DIMS(2), MX_FLOAT32, (float[]){1, 2});
    mx_array *x = mx_sample_normal(mu, sigma, .shape = MX_DIMS(50000));
    assert_int_equal(mx_ndim(x), 2);
    assert_moments("first row", mx_index(x, MX_AT(0)), -5, 1);
    assert_moments("second row", mx_index(x, MX_AT(1)), 5, 4);
}

static void test_multinomial(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_random_seed(4);
    mx_array *p = mx_array_from(MX_DIMS(3), MX_FLOAT32, (float[]){0.2f, 0, 0.8f});
    double *v = values_of(mx_sample_multinomial(p, .shape = MX_DIMS(50000)));
    int counts[3] = {0};
    for (int i = 0; i < 50000; i++)
        counts[(int)v[i]]++;
    free(v);
    assert_int_equal(counts[1], 0);
    assert_in_range(counts[0], 9500, 10500);
    mx_arrays both = mx_sample_multinomial_all(p, .shape = MX_DIMS(10), .get_prob = true);
    assert_int_equal(both.n, 2);
    double *drawn = values_of(both.v[0]), *logs = values_of(both.v[1]);
    for (int i = 0; i < 10; i++)
        assert_true(fabs(logs[i] - log(drawn[i] == 0 ? 0.2 : 0.8)) < 1e-5);
    free(drawn), free(logs);
}

static void test_zipfian_is_unique(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_arrays both = mx_sample_unique_zipfian(.range_max = 50, .shape = MX_DIMS(3, 20));
    double *v = values_of(both.v[0]), *tries = values_of(both.v[1]);
    for (int row = 0; row < 3; row++) {
        bool seen[50] = {false};
        for (int i = 0; i < 20; i++) {
            const int c = (int)v[row * 20 + i];
            assert_true(c >= 0 && c < 50 && !seen[c]);
            seen[c] = true;
        }
        assert_true(tries[row] >= 20);
    }
    free(v), free(tries);
}

/* ---- Dropout ------------------------------------------------------------------------------------------------------ */

static void test_dropout(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_random_seed(9);
    mx_array *x = mx_ones(.shape = MX_DIMS(500, 400)), *y = NULL;
    assert_int_equal(mx_attach_grad(x, MX_GRAD_WRITE), MX_OK);
    mx_record()
        y = mx_op_dropout(x, .p = 0.25);
    assert_int_equal(mx_backward(y), MX_OK);
    double *out = values_of(y), *grad = values_of(mx_gradient(x));
    int dropped = 0;
    for (int i = 0; i < 200000; i++) {
        assert_true(out[i] == 0 || fabs(out[i] - 4. / 3) < 1e-6);
        assert_true(out[i] == grad[i]);
        dropped += out[i] == 0;
    }
    assert_in_range(dropped, 49000, 51000);
    free(out), free(grad);
    out = values_of(mx_op_dropout(x, .p = 0.25)); /* prediction: identity */
    for (int i = 0; i < 200000; i++)
        assert_true(out[i] == 1);
    free(out);
}

static void test_dropout_axes(void **state)
{
    (void)state;
    MX_SCOPE;
    double *out =
        values_of(mx_op_dropout(mx_ones(.shape = MX_DIMS(50, 30)), .mode = MX_DROPOUT_ALWAYS, .axes = MX_DIMS(1)));
    int dropped = 0;
    for (int row = 0; row < 50; row++) {
        for (int i = 1; i < 30; i++)
            assert_true(out[row * 30 + i] == out[row * 30]);
        dropped += out[row * 30] == 0;
    }
    assert_in_range(dropped, 8, 42);
    free(out);
}

/* rrelu: slopes between the bounds while training, one per element. */
static void test_rrelu(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_full(.shape = MX_DIMS(COUNT), .value = -1), *y = NULL;
    mx_train_mode()
        y = mx_op_leaky_relu(x, .act_type = MX_LEAKY_RELU_RRELU, .lower_bound = 0.1, .upper_bound = 0.3);
    const moments m = moments_of(y);
    assert_true(m.min >= -0.3 && m.max <= -0.1 && m.max - m.min > 0.19);
    assert_moments("rrelu", y, -0.2, 0.04 / 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments),     cmocka_unit_test(test_normal_shape),      cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_seed_and_threads), cmocka_unit_test(test_sample),       cmocka_unit_test(test_multinomial),
        cmocka_unit_test(test_zipfian_is_unique), cmocka_unit_test(test_dropout),     cmocka_unit_test(test_dropout_axes),
        cmocka_unit_test(test_rrelu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
