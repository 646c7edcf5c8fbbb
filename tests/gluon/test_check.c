/* Checking mode, and the paths of blocks in errors.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "gluon.h"

static int on(void **state)
{
    (void)state;
    mx_error_clear();
    mx_set_check(true);
    return 0;
}

static int off(void **state)
{
    (void)state;
    mx_set_check(false);
    mx_error_clear();
    return 0;
}

static void assert_error(mx_code code, const char *message)
{
    if (mx_error_code() != code || !strstr(mx_error_message(), message))
        fail_msg("%s: '%s', wanted '%s'", mx_error_name(mx_error_code()), mx_error_message(), message);
    mx_error_clear();
}

static mx_array *numbers(int64_t n, const float *values) { return mx_array_from(MX_DIMS(n), MX_FLOAT32, values); }

static void test_switch(void **state)
{
    (void)state;
    assert_true(mx_get_check());
    mx_set_check(false);
    assert_false(mx_get_check());
    MX_SCOPE;
    mx_array *y = mx_log(mx_zeros(.shape = MX_DIMS(2)));
    assert_non_null(y);
    assert_int_equal(mx_error_code(), MX_OK);
}

static void test_not_finite(void **state)
{
    (void)state;
    MX_SCOPE;
    const float some[] = {1, 0, 4};
    mx_array *x = numbers(3, some);
    assert_null(mx_log(x));
    assert_error(MX_ERR_STATE, "log: made -inf from finite inputs, at element 1 of a result of shape (3,)");
    assert_null(mx_div(x, mx_sub(x, x)));
    assert_error(MX_ERR_STATE, "made inf from finite inputs");
    mx_array *large = mx_full(.shape = MX_DIMS(1), .value = 1e38);
    assert_null(
        mx_add_n(MX_ARRAYS(large, large, large, large, large, large))); /* the first four inputs are described */
    const char *at = mx_error_message();
    int described = 0;
    for (; (at = strstr(at, "from 1e+38 to 1e+38")); at++)
        described++;
    assert_int_equal(described, 4);
    assert_error(MX_ERR_STATE, "made inf from finite inputs");
    /* what was asked for, and what was there before, is no error */
    assert_non_null(mx_full(.shape = MX_DIMS(2), .value = -INFINITY));
    assert_non_null(mx_plus_scalar(mx_full(.shape = MX_DIMS(2), .value = NAN), .scalar = 1));
    assert_non_null(mx_exp(x));
    assert_int_equal(mx_error_code(), MX_OK);
}

static void test_indices(void **state)
{
    (void)state;
    MX_SCOPE;
    const float good[] = {0, 3, 2}, bad[] = {0, 4, 2}, negative[] = {0, -1, 2};
    mx_array *rows = mx_ones(.shape = MX_DIMS(4, 5)), *batch = mx_ones(.shape = MX_DIMS(3, 4));
    assert_non_null(mx_take(rows, numbers(3, good)));
    assert_null(mx_take(rows, numbers(3, bad)));
    assert_error(MX_ERR_INDEX, "take: indices holds 4 at position 1, wanted 0 to 3");
    assert_non_null(mx_take(rows, numbers(3, bad), .mode = MX_TAKE_WRAP));
    assert_null(mx_pick(batch, numbers(3, negative)));
    assert_error(MX_ERR_INDEX, "index holds -1 at position 1, wanted 0 to 3");
    assert_null(mx_op_embedding(numbers(3, bad), rows, .input_dim = 4, .output_dim = 5));
    assert_error(MX_ERR_INDEX, "Embedding: data holds 4 at position 1, wanted 0 to 3");
    assert_null(mx_one_hot(numbers(3, bad), .depth = 4));
    assert_error(MX_ERR_INDEX, "one_hot: indices holds 4");
    assert_null(mx_softmax_output(batch, numbers(3, bad)));
    assert_error(MX_ERR_INDEX, "SoftmaxOutput: label holds 4 at position 1, wanted 0 to 3");
    assert_non_null(mx_softmax_output(batch, numbers(3, negative), .use_ignore = true, .ignore_label = -1));
    assert_null(mx_call(mx_softmax_cross_entropy_loss(), batch, numbers(3, bad)));
    assert_error(MX_ERR_INDEX, "softmaxcrossentropyloss");
    const float lengths[] = {1, 9, 2, 3};
    assert_null(mx_sequence_mask(mx_ones(.shape = MX_DIMS(3, 4, 2)), numbers(4, lengths), .use_sequence_length = true));
    assert_error(MX_ERR_INDEX, "sequence_length holds 9 at position 1, wanted 0 to 3");
    assert_int_equal(mx_error_code(), MX_OK);
}

static void test_integer_division(void **state)
{
    (void)state;
    MX_SCOPE;
    const uint8_t pixels[] = {0, 255, 77}, even[] = {0, 2, 4};
    mx_array *image = mx_array_from(MX_DIMS(3), MX_UINT8, pixels);
    assert_null(mx_div_scalar(image, .scalar = 255));
    assert_error(MX_ERR_DTYPE, "uint8 elements are divided with a remainder: 77 / 255 gives 0");
    assert_non_null(mx_div_scalar(mx_cast(image, .dtype = MX_FLOAT32), .scalar = 255));
    mx_array *x = mx_array_from(MX_DIMS(3), MX_UINT8, even);
    assert_non_null(mx_div_scalar(x, .scalar = 2));
    assert_null(mx_div(image, mx_plus_scalar(x, .scalar = 2)));
    assert_error(MX_ERR_DTYPE, "with a remainder: 255 / 4 gives 63");
    assert_int_equal(mx_error_code(), MX_OK);
}

/* ---- in networks ------------------------------------------------------------------------------------------------- */

static mx_array *logarithm(mx_array *x) { return mx_log(x); }

static mx_block *network(bool hybrid)
{
    mx_block *net = mx_hybrid_sequential(
        mx_hybrid_sequential(mx_dense(3, .in_units = 2, .prefix = "first_"), mx_hybrid_lambda(logarithm)),
        mx_dense(2, .in_units = 3, .prefix = "second_"));
    mx_initialize(net, mx_zero(), mx_cpu(0));
    if (hybrid)
        mx_hybridize(net);
    return net;
}

static void test_path_of_nan(void **state)
{
    (void)state;
    for (int hybrid = 0; hybrid < 2; hybrid++) {
        MX_SCOPE;
        mx_block *net = network(hybrid);
        mx_array *x = mx_ones(.shape = MX_DIMS(1, 2));
        assert_null(mx_call(net, x));
        assert_error(MX_ERR_STATE, ".0.1 (");
        assert_null(mx_call(net, x));
        assert_error(MX_ERR_STATE, "log: made -inf from finite inputs");
        mx_set_check(false);
        assert_non_null(mx_call(net, x)); /* and as before without the mode */
        mx_set_check(true);
        assert_int_equal(mx_error_code(), MX_OK);
    }
}

static mx_code logarithms(void *user, mx_arrays data, mx_arrays states, mx_arrays *outputs, mx_arrays *next)
{
    (void)user;
    *outputs = mx_results(mx_log(data.v[0]));
    *next = mx_results(mx_add(states.v[0], data.v[0]));
    return mx_error_code();
}

/* Inside of loops, too: the operator of the body is named. */
static void test_loops(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *names[] = {"x", "h"};
    mx_loop loop = mx_foreach(logarithms, NULL, MX_ARRAYS(mx_variable("x")), MX_ARRAYS(mx_variable("h")));
    mx_symbol *symbol = mx_symbol_of(MX_ARRAYS(loop.outputs.v[0]));
    const float some[] = {1, 0, 4};
    for (int check = 0; check < 2; check++) {
        mx_set_check(check);
        mx_arrays out = mx_symbol_eval(symbol, 2, names, MX_ARRAYS(numbers(3, some), mx_array_scalar(0)));
        assert_int_equal(out.n, !check);
        if (check)
            assert_error(MX_ERR_STATE, "log: made -inf from finite inputs");
    }
}

static void test_backward(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_dense(1, .in_units = 2, .prefix = "fc_");
    mx_initialize(net, mx_zero(), mx_cpu(0));
    mx_array *y = NULL;
    mx_record() {
        y = mx_sqrt(mx_call(net, mx_ones(.shape = MX_DIMS(1, 2))));
    }
    mx_backward(y);
    assert_error(MX_ERR_STATE, "backward of sqrt");
}

static void test_stale(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_dense(1, .in_units = 2);
    mx_initialize(net, NULL, mx_cpu(0));
    mx_trainer *trainer = mx_trainer_new(mx_collect_params(net), "sgd", "learning_rate=0.1");
    mx_array *y = NULL;
    mx_record() {
        y = mx_call(net, mx_ones(.shape = MX_DIMS(1, 2)));
    }
    mx_backward(y);
    assert_int_equal(mx_trainer_step_ignoring_stale(trainer, 1), MX_OK);
    mx_trainer_step_ignoring_stale(trainer, 1);
    assert_error(MX_ERR_STATE, "all gradients are stale");
    mx_set_check(false);
    assert_int_equal(mx_trainer_step_ignoring_stale(trainer, 1), MX_OK);
    mx_trainer_step(trainer, 1);
    assert_error(MX_ERR_STATE, "mx_trainer_step_ignoring_stale()");
}

static void test_paths(void **state)
{
    (void)state;
    mx_set_check(false);
    MX_SCOPE;
    mx_block *net = network(false);
    assert_null(mx_call(mx_dense(2, .in_units = 3, .prefix = "fc_"), mx_ones(.shape = MX_DIMS(1, 5))));
    mx_error_clear();
    mx_block *fc = mx_dense(2, .in_units = 3, .prefix = "fc_");
    mx_initialize(fc, NULL, mx_cpu(0));
    assert_null(mx_call(fc, mx_ones(.shape = MX_DIMS(1, 5))));
    assert_string_equal(mx_error_message(), "fc: data has 5 features, weight expects 3");
    mx_error_clear();
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%s.0.0 (first): data has 7 features, weight expects 2", mx_block_name(net));
    assert_null(mx_call(net, mx_ones(.shape = MX_DIMS(1, 7))));
    assert_string_equal(mx_error_message(), wanted);
    mx_error_clear();
    mx_hybridize(net);
    assert_null(mx_call(net, mx_ones(.shape = MX_DIMS(1, 7))));
    assert_string_equal(mx_error_message(), wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_switch, on, off),
        cmocka_unit_test_setup_teardown(test_not_finite, on, off),
        cmocka_unit_test_setup_teardown(test_indices, on, off),
        cmocka_unit_test_setup_teardown(test_integer_division, on, off),
        cmocka_unit_test_setup_teardown(test_path_of_nan, on, off),
        cmocka_unit_test_setup_teardown(test_loops, on, off),
        cmocka_unit_test_setup_teardown(test_backward, on, off),
        cmocka_unit_test_setup_teardown(test_stale, on, off),
        cmocka_unit_test_setup_teardown(test_paths, on, off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
