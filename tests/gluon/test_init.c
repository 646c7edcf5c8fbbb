/* Initializers: every class against its rule, seeds, users' functions, patterns, files, bad options.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "gluon/nn.gen.h"

#define MOST 60000

typedef struct statistics {
    double mean, deviation, low, high;
} statistics;

static double values[MOST];

/* The initial values of an array of this shape, in values[]. */
static int64_t filled(mx_initializer *init, mx_dims shape, mx_dtype dtype)
{
    mx_array *x = mx_empty(shape, dtype, mx_cpu(0));
    mx_initializer_fill(init, "dense0_weight", x);
    const int64_t n = mx_size(x);
    assert_true(n <= MOST);
    mx_array_read_doubles(x, values, n);
    if (mx_error_code())
        fail_msg("%s", mx_error_message());
    return n;
}

static statistics measure(int64_t n)
{
    statistics s = {0, 0, INFINITY, -INFINITY};
    for (int64_t i = 0; i < n; i++) {
        s.mean += values[i] / (double)n;
        s.low = fmin(s.low, values[i]), s.high = fmax(s.high, values[i]);
    }
    for (int64_t i = 0; i < n; i++)
        s.deviation += (values[i] - s.mean) * (values[i] - s.mean) / (double)n;
    s.deviation = sqrt(s.deviation);
    return s;
}

static void assert_error(mx_code code, const char *part)
{
    assert_int_equal(mx_error_code(), code);
    if (!strstr(mx_error_message(), part))
        fail_msg("'%s' does not say '%s'", mx_error_message(), part);
    mx_error_clear();
}

/* ---- what each initializer must do ------------------------------------------------------------------------------- */

static void all_equal(mx_initializer *init, double value)
{
    const int64_t n = filled(init, MX_DIMS(3, 5), MX_FLOAT32);
    for (int64_t i = 0; i < n; i++)
        assert_float_equal(values[i], value, 1e-6);
}

/* Uniform in [-s, s]: deviation s / sqrt(3). */
static void is_uniform(mx_initializer *init, mx_dims shape, double scale)
{
    const statistics s = measure(filled(init, shape, MX_FLOAT32));
    assert_float_equal(s.mean, 0, (0.03 * scale));
    assert_float_equal(s.deviation, scale / sqrt(3), 0.02 * scale);
    assert_true(s.low >= -scale && s.low < -0.98 * scale && s.high <= scale && s.high > 0.98 * scale);
}

static void is_normal(mx_initializer *init, mx_dims shape, double deviation)
{
    const statistics s = measure(filled(init, shape, MX_FLOAT32));
    assert_float_equal(s.mean, 0, 0.03 * deviation);
    assert_float_equal(s.deviation, deviation, 0.03 * deviation);
    assert_true(s.high > 2.5 * deviation && s.low < -2.5 * deviation);
}

static void is_orthogonal(mx_initializer *init, mx_dims shape, double scale)
{
    const int64_t n = filled(init, shape, MX_FLOAT64), rows = shape.d[0], columns = n / rows;
    const bool by_rows = rows <= columns;
    const int64_t count = by_rows ? rows : columns, length = by_rows ? columns : rows;
    for (int64_t a = 0; a < count; a++)
        for (int64_t b = 0; b < count; b++) {
            double dot = 0;
            for (int64_t k = 0; k < length; k++)
                dot += by_rows ? values[a * columns + k] * values[b * columns + k]
                               : values[k * columns + a] * values[k * columns + b];
            assert_true(fabs(dot - (a == b ? scale * scale : 0)) <= 1e-12 * scale * scale);
        }
}

static void zero(void) { all_equal(mx_zero(), 0); }
static void one(void) { all_equal(mx_one(), 1); }
static void constant(void) { all_equal(mx_constant(-2.5), -2.5); }

static void uniform(void)
{
    is_uniform(mx_uniform(), MX_DIMS(100, 200), 0.07);
    is_uniform(mx_uniform(3), MX_DIMS(20000), 3);
}

static void normal(void)
{
    is_normal(mx_normal(), MX_DIMS(100, 200), 0.01);
    is_normal(mx_normal(2), MX_DIMS(20000), 2);
}

static void orthogonal(void)
{
    is_orthogonal(mx_orthogonal(), MX_DIMS(20, 30), 1.414);
    is_orthogonal(mx_orthogonal(.scale = 1, .rand_type = "normal"), MX_DIMS(40, 5, 3), 1);
    is_orthogonal(mx_orthogonal(), MX_DIMS(1, 1), 1.414);
    is_orthogonal(mx_orthogonal(), MX_DIMS(64, 64), 1.414);
}

/* Fans of (out, in, window ...): in * window and out * window. */
static void xavier(void)
{
    is_uniform(mx_xavier(), MX_DIMS(100, 200), sqrt(3 / 150.0));
    is_uniform(mx_xavier(.factor_type = "in", .magnitude = 2), MX_DIMS(50, 20, 5, 4), sqrt(2 / 400.0));
    is_normal(mx_xavier(.rnd_type = "gaussian", .factor_type = "out"), MX_DIMS(50, 20, 5, 4), sqrt(3 / 1000.0));
}

static void msra(void)
{
    is_normal(mx_msra_prelu(), MX_DIMS(100, 200), sqrt(2 / (1 + 0.0625) / 150));
    is_normal(mx_msra_prelu(.factor_type = "in", .slope = 0), MX_DIMS(100, 200), sqrt(2 / 200.0));
}

static void bilinear(void)
{
    static const double even[4] = {0.25, 0.75, 0.75, 0.25}, odd[5] = {1 / 3., 2 / 3., 1, 2 / 3., 1 / 3.};
    filled(mx_bilinear(), MX_DIMS(2, 1, 4, 4), MX_FLOAT32);
    for (int i = 0; i < 32; i++)
        assert_float_equal(values[i], even[i / 4 % 4] * even[i % 4], 1e-6);
    filled(mx_bilinear(), MX_DIMS(1, 1, 5, 5), MX_FLOAT32);
    for (int i = 0; i < 25; i++)
        assert_float_equal(values[i], odd[i / 5] * odd[i % 5], 1e-6);
}

static void lstm_bias(void)
{
    filled(mx_lstm_bias(.forget_bias = 2), MX_DIMS(12), MX_FLOAT32);
    for (int i = 0; i < 12; i++)
        assert_float_equal(values[i], (i / 3 == 1 ? 2 : 0), 0);
}

/* 2 layers of 3 units, both directions, inputs of 4: 384 weights, then biases whose second gate is the forget gate. */
static void fused_rnn(void)
{
    const int64_t n = filled(mx_fused_rnn(mx_constant(0.5), 3, 2, "lstm", .bidirectional = true, .forget_bias = 2),
                             MX_DIMS(480), MX_FLOAT32);
    for (int64_t i = 0; i < n; i++)
        assert_float_equal(values[i], (i < 384 ? 0.5 : (i - 384) / 3 % 4 == 1 ? 2 : 0), 0);
    filled(mx_fused_rnn(mx_orthogonal(), 3, 2, "gru"), MX_DIMS(153), MX_FLOAT32);
    assert_float_equal(values[0] * values[0] + values[1] * values[1] + values[2] * values[2] + values[3] * values[3], 2,
                       2e-3);
    assert_null(mx_fused_rnn(mx_zero(), 3, 2, "quux"));
    assert_error(MX_ERR_ATTRIBUTE, "quux");
    mx_initializer_fill(mx_fused_rnn(mx_zero(), 3, 2, "lstm"), "p", mx_empty(MX_DIMS(7), MX_FLOAT32, mx_cpu(0)));
    assert_error(MX_ERR_SHAPE, "7 elements");
}

static const struct {
    const char *name;
    void (*check)(void);
} expectations[] = {
    {"Zero", zero},          {"One", one},
    {"Constant", constant},  {"Uniform", uniform},
    {"Normal", normal},      {"Orthogonal", orthogonal},
    {"Xavier", xavier},      {"MSRAPrelu", msra},
    {"Bilinear", bilinear},  {"LSTMBias", lstm_bias},
    {"FusedRNN", fused_rnn},
};

static void every_row_does_what_it_says(void **state)
{
    (void)state;
    const int n = sizeof expectations / sizeof *expectations;
    for (int i = 0; mx_class_at(i); i++) {
        if (mx_class_kind_of(mx_class_at(i)) != MX_INITIALIZER)
            continue;
        int k = 0;
        while (k < n && strcmp(expectations[k].name, mx_class_name(mx_class_at(i))))
            k++;
        if (k == n)
            fail_msg("initializer %s has no test", mx_class_name(mx_class_at(i)));
        int64_t live = 0;
        for (int round = 0; round < 3; round++) { /* what one leaves behind, the next must not */
            mx_scoped()
                expectations[k].check();
            assert_int_equal(mx_check(expectations[k].name), 0);
            if (round == 2)
                assert_int_equal(mx_alloc_get_stats().live_blocks, live);
            live = mx_alloc_get_stats().live_blocks;
        }
    }
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static void a_seed_reproduces(void **state)
{
    (void)state;
    static const char *const names[] = {"uniform", "normal", "xavier", "orthogonal"};
    for (int k = 0; k < 4; k++) {
        MX_SCOPE;
        double first[12];
        mx_initializer *init = mx_class_create(mx_class_find(MX_INITIALIZER, names[k]), NULL);
        mx_random_seed(7);
        filled(init, MX_DIMS(3, 4), MX_FLOAT32);
        memcpy(first, values, sizeof first);
        filled(init, MX_DIMS(3, 4), MX_FLOAT32);
        assert_memory_not_equal(first, values, sizeof first);
        mx_random_seed(7);
        filled(init, MX_DIMS(3, 4), MX_FLOAT32);
        assert_memory_equal(first, values, sizeof first);
    }
}

static void every_type_can_be_filled(void **state)
{
    (void)state;
    static const mx_dtype types[] = {MX_FLOAT64, MX_FLOAT16, MX_BFLOAT16};
    for (int k = 0; k < 3; k++) {
        MX_SCOPE;
        const statistics s = measure(filled(mx_xavier(), MX_DIMS(100, 100), types[k]));
        assert_float_equal(s.deviation, 0.1, 0.01);
        filled(mx_orthogonal(), MX_DIMS(4, 4), types[k]);
        filled(mx_constant(3), MX_DIMS(2, 2), types[k]);
        assert_float_equal(values[3], 3, 0);
    }
    MX_SCOPE;
    filled(mx_one(), MX_DIMS(2, 2), MX_INT32);
    assert_float_equal(values[3], 1, 0);
    filled(mx_xavier(), MX_DIMS(0, 3), MX_FLOAT32);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    MX_SCOPE;
    assert_null(mx_xavier(.rnd_type = "triangular"));
    assert_error(MX_ERR_ATTRIBUTE, "triangular");
    assert_null(mx_xavier(.factor_type = "both"));
    assert_error(MX_ERR_ATTRIBUTE, "both");
    assert_null(mx_orthogonal(.rand_type = "x"));
    assert_error(MX_ERR_ATTRIBUTE, "rand_type");
    assert_null(mx_normal(-1));
    assert_error(MX_ERR_ATTRIBUTE, "sigma");
    assert_null(mx_class_create(mx_class_find(MX_INITIALIZER, "constant"), NULL));
    assert_error(MX_ERR_ATTRIBUTE, "value");
    assert_null(mx_class_create(mx_class_find(MX_INITIALIZER, "xavier"), "magnitud=2"));
    assert_error(MX_ERR_ATTRIBUTE, "magnitud");
    mx_initializer_fill(mx_xavier(), "bias", mx_empty(MX_DIMS(3), MX_FLOAT32, mx_cpu(0)));
    assert_error(MX_ERR_SHAPE, "bias");
    mx_initializer_fill(mx_bilinear(), "bias", mx_empty(MX_DIMS(3, 3), MX_FLOAT32, mx_cpu(0)));
    assert_error(MX_ERR_SHAPE, "Bilinear");
    mx_initializer_fill(NULL, "bias", NULL);
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    mx_error_clear();
}

static int released;
static void release(void *user) { released += *(int *)user; }
static mx_code fill_with(void *user, const char *name, mx_array *array)
{
    return strcmp(name, "bad") ? mx_array_fill(array, *(int *)user) : mx_error_set(MX_ERR_STATE, "no");
}

static void users_have_their_own(void **state)
{
    (void)state;
    int value = 5;
    released = 0;
    mx_scoped() {
        mx_initializer *init = mx_initializer_custom(fill_with, &value, release);
        all_equal(init, 5);
        mx_initializer_fill(init, "bad", mx_empty(MX_DIMS(3), MX_FLOAT32, mx_cpu(0)));
        assert_error(MX_ERR_STATE, "no");
        mx_params *params = mx_params_new("net_", NULL);
        mx_parameter *p = mx_params_get(params, "w", .shape = MX_DIMS(2));
        mx_params_initialize(params, init, NULL, 0, false);
        mx_array_read_doubles(mx_parameter_data(p, mx_cpu(0)), values, 2);
        assert_float_equal(values[1], 5, 0);
    }
    assert_int_equal(released, 5);
    MX_SCOPE;
    assert_null(mx_initializer_custom(NULL, NULL, NULL));
    assert_error(MX_ERR_ARGUMENT, "NULL");
}

static void the_first_pattern_wins(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *const patterns[] = {"bias$", "^conv[0-9]+_", ".*"};
    mx_initializer *const inits[] = {mx_zero(), mx_constant(7), mx_one()};
    mx_initializer *mixed = mx_initializer_mixed(patterns, inits, 3);
    static const struct {
        const char *name;
        double value;
    } cases[] = {{"conv0_bias", 0}, {"conv12_weight", 7}, {"dense0_weight", 1}};
    for (int i = 0; i < 3; i++) {
        mx_array *x = mx_empty(MX_DIMS(1), MX_FLOAT32, mx_cpu(0));
        mx_initializer_fill(mixed, cases[i].name, x);
        assert_float_equal(mx_item(x), cases[i].value, 0);
    }
    mx_initializer_fill(mx_initializer_mixed(patterns, inits, 1), "w", mx_empty(MX_DIMS(1), MX_FLOAT32, mx_cpu(0)));
    assert_error(MX_ERR_PARAMETER, "no pattern");
    assert_null(mx_initializer_mixed((const char *const[]){"("}, inits, 1));
    assert_error(MX_ERR_ARGUMENT, "regular expression");
}

static void arrays_of_a_file_are_start_values(void **state)
{
    (void)state;
    MX_SCOPE;
    char path[] = "/tmp/gluon_init_XXXXXX";
    close(mkstemp(path));
    mx_array *a = mx_array_from(MX_DIMS(2), MX_FLOAT32, (float[]){1, 2}),
             *b = mx_array_from(MX_DIMS(1), MX_FLOAT32, (float[]){3});
    const char *const names[] = {"arg:w", "aux:m"};
    mx_save(path, MX_ARRAYS(a, b), names);
    mx_initializer *load = mx_initializer_load(mx_load(path), mx_constant(9)),
                   *strict = mx_initializer_load(mx_load(path), NULL);
    unlink(path);
    mx_array *x = mx_empty(MX_DIMS(2), MX_FLOAT32, mx_cpu(0));
    mx_initializer_fill(load, "w", x);
    mx_array_read_doubles(x, values, 2);
    assert_float_equal(values[1], 2, 0);
    mx_initializer_fill(load, "other", x);
    mx_array_read_doubles(x, values, 2);
    assert_float_equal(values[1], 9, 0);
    mx_initializer_fill(strict, "other", x);
    assert_error(MX_ERR_PARAMETER, "other");
    mx_initializer_fill(strict, "m", x);
    assert_error(MX_ERR_SHAPE, "m");
}

static void every_class_describes_itself(void **state)
{
    (void)state;
    MX_SCOPE;
    for (int i = 0; mx_class_at(i); i++) {
        const char *text = mx_class_describe(mx_class_at(i));
        assert_non_null(strstr(text, mx_class_name(mx_class_at(i))));
    }
    assert_null(mx_class_describe(NULL));
    mx_error_clear();
}

static void nothing_leaks_when_memory_runs_out(void **state)
{
    (void)state;
    for (int n = 1; n < 60; n++) {
        const int64_t before = mx_alloc_get_stats().live_blocks;
        mx_scoped() {
            const char *const patterns[] = {"a", ".*"};
            mx_alloc_fail_at(n);
            mx_initializer *const inits[] = {mx_orthogonal(), mx_xavier()};
            mx_initializer *mixed = inits[0] && inits[1] ? mx_initializer_mixed(patterns, inits, 2) : NULL;
            mx_array *x = mixed ? mx_empty(MX_DIMS(3, 4), MX_FLOAT16, mx_cpu(0)) : NULL;
            if (x)
                mx_initializer_fill(mixed, "a", x);
            mx_alloc_fail_at(0);
            mx_error_clear();
        }
        assert_true(mx_alloc_get_stats().live_blocks <= before + 2); /* the registry and caches may grow once */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_does_what_it_says),
        cmocka_unit_test(a_seed_reproduces),
        cmocka_unit_test(every_type_can_be_filled),
        cmocka_unit_test(bad_options_are_refused),
        cmocka_unit_test(users_have_their_own),
        cmocka_unit_test(the_first_pattern_wins),
        cmocka_unit_test(arrays_of_a_file_are_start_values),
        cmocka_unit_test(every_class_describes_itself),
        cmocka_unit_test(nothing_leaks_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
