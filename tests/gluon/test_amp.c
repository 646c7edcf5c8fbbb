/* Mixed precision from C: types of results and gradients in all modes, settings, wrong arguments.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <gluon.h>

#include "block_check.h"

static void expect_error(mx_code code, const char *part)
{
    assert_int_equal(mx_error_code(), code);
    if (!strstr(mx_error_message(), part))
        fail_msg("\"%s\" lacks \"%s\"", mx_error_message(), part);
    mx_error_clear();
}

static mx_block *network(void)
{
    mx_block *net =
        mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3), .activation = "relu"), mx_batch_norm(), mx_dense(5));
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    return net;
}

static void types_of_results(void **state)
{
    (void)state;
    const mx_dtype targets[] = {MX_FLOAT16, MX_BFLOAT16};
    for (int i = 0; i < 2; i++) {
        MX_SCOPE;
        assert_int_equal(mx_amp_init(targets[i]), MX_OK);
        assert_int_equal(mx_amp_target(), targets[i]);
        mx_array *x = mx_ones(.shape = MX_DIMS(3, 4)), *y = mx_dot(x, mx_ones(.shape = MX_DIMS(4, 2)));
        assert_int_equal(mx_dtype_of(y), targets[i]);
        assert_int_equal(mx_dtype_of(mx_softmax(y)), MX_FLOAT32);
        assert_int_equal(mx_dtype_of(mx_add(y, mx_ones(.shape = MX_DIMS(1, 2)))), MX_FLOAT32);
        assert_int_equal(mx_dtype_of(mx_relu(y)), targets[i]);
        assert_int_equal(mx_amp_set("relu", MX_PRECISION_FLOAT32), MX_OK);
        assert_int_equal(mx_dtype_of(mx_relu(y)), MX_FLOAT32);
        assert_int_equal(mx_amp_set_where("Activation", "act_type", "tanh"), MX_OK);
        assert_int_equal(mx_dtype_of(mx_op_activation(y, .act_type = MX_ACTIVATION_TANH)), MX_FLOAT32);
        assert_int_equal(mx_amp_init(MX_FLOAT32), MX_OK);
        assert_int_equal(mx_dtype_of(mx_dot(x, mx_ones(.shape = MX_DIMS(4, 2)))), MX_FLOAT32);
        assert_int_equal(mx_error_code(), MX_OK);
    }
}

/* Shapes inferred by the first call, recorded and compiled calls, plans compiled before the switch. */
static void networks(void **state)
{
    (void)state;
    MX_SCOPE;
    for (int hybrid = 0; hybrid < 2; hybrid++) {
        mx_block *net = network(), *criterion = mx_softmax_cross_entropy_loss();
        mx_array *x = mx_random_uniform(.shape = MX_DIMS(2, 1, 6, 6)), *label = mx_ones(.shape = MX_DIMS(2)), *loss;
        if (hybrid) {
            mx_hybridize(net);
            assert_int_equal(mx_dtype_of(mx_call(net, x)), MX_FLOAT32);
        }
        mx_amp_init(MX_FLOAT16);
        mx_trainer *trainer = mx_trainer_new(mx_collect_params(net), "sgd", "learning_rate=0.1");
        mx_trainer_set_loss_scaler(trainer, mx_loss_scaler_new(.scale = 128));
        for (int step = 0; step < 3; step++) {
            mx_record() {
                mx_array *y = mx_call(net, x);
                assert_int_equal(mx_dtype_of(y), MX_FLOAT16);
                loss = mx_call(criterion, y, label);
            }
            assert_int_equal(mx_dtype_of(loss), MX_FLOAT32);
            mx_backward(loss);
            mx_trainer_step(trainer, 2);
        }
        mx_amp_init(MX_FLOAT32);
        assert_int_equal(mx_dtype_of(mx_call(net, x)), MX_FLOAT32);
        if (mx_error_code())
            fail_msg("%s", mx_error_message());
    }
}

/* ---- graphs ---------------------------------------------------------------------------------------------------- */

static bool has_output(const mx_symbol *symbol, const char *name)
{
    MX_SCOPE;
    const mx_names names = mx_symbol_outputs(mx_symbol_internals(symbol));
    for (int64_t i = 0; i < names.n; i++)
        if (!strcmp(names.v[i], name))
            return true;
    return false;
}

static mx_symbol *two_layers(void)
{
    const char *const wide[] = {"num_hidden"}, *const four[] = {"4"}, *const kind[] = {"act_type"},
                      *const soft[] = {"softrelu"};
    mx_array *data = mx_variable("data");
    mx_symbol *fc1 = mx_symbol_apply(
        "FullyConnected", &(struct mx_symbol_args){.name = "fc1", .n_in = 1, .in = &data, .n_attrs = 1,
                                                   .attr_names = wide, .attr_values = four});
    mx_array *hidden = mx_symbol_at(fc1, 0);
    mx_symbol *act = mx_symbol_apply("Activation", &(struct mx_symbol_args){.name = "act", .n_in = 1, .in = &hidden,
                                                                            .n_attrs = 1, .attr_names = kind,
                                                                            .attr_values = soft});
    mx_array *active = mx_symbol_at(act, 0);
    return mx_symbol_apply(
        "FullyConnected",
                           &(struct mx_symbol_args){.name = "fc2", .n_in = 1, .in = &active, .n_attrs = 1,
                                                    .attr_names = wide, .attr_values = four});
}

/* Of two layers as wide as the number of a type, only the first casts: what reads a variable is decided by operators. */
static void variables_that_are_cast(void **state)
{
    (void)state;
    MX_SCOPE;
    const mx_dtype types[] = {MX_FLOAT16, MX_BFLOAT16, MX_FLOAT64, MX_INT8};
    for (int i = 0; i < 4; i++) {
        mx_array *x = mx_variable("x"), *w = mx_variable("w"), *v = mx_variable("v");
        mx_array *y = mx_fully_connected(mx_amp_cast(x, .dtype = types[i]), w, MX_NONE,
                                         .num_hidden = (int)types[i] + (types[i] == 0), .no_bias = true);
        mx_symbol *s = mx_symbol_of(MX_ARRAYS(mx_add(y, mx_amp_cast(v, .dtype = types[i]))));
        const mx_names names = mx_amp_cast_variables(s, types[i]);
        assert_int_equal(names.n, 2);
        assert_string_equal(names.v[0], "x");
        assert_string_equal(names.v[1], "v");
    }
}

/* Types that are not known yet: all inputs get the widest, by one operator that decides later. */
static void unknown_types(void **state)
{
    (void)state;
    MX_SCOPE;
    assert_int_equal(mx_amp_init(MX_FLOAT16), MX_OK);
    mx_array *a = mx_variable("a"), *b = mx_variable("b"), *c = mx_variable("c");
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(mx_concat(MX_ARRAYS(a, b, c), .dim = 0), mx_sub(a, b)));
    assert_int_equal(mx_amp_init(MX_FLOAT32), MX_OK);
    check_no_error();
    const char *const names[] = {"a", "b", "c"};
    const float one[] = {1, 2}, two[] = {10, 20}, three[] = {100, 200};
    mx_array *narrow = mx_cast(mx_array_from(MX_DIMS(2), MX_FLOAT32, two), .dtype = MX_FLOAT16);
    mx_arrays out = mx_symbol_eval(
        s, 3, names,
        MX_ARRAYS(mx_array_from(MX_DIMS(2), MX_FLOAT32, one), narrow, mx_array_from(MX_DIMS(2), MX_FLOAT32, three)));
    check_no_error();
    assert_int_equal(out.n, 2);
    assert_int_equal(mx_dtype_of(out.v[0]), MX_FLOAT32);
    check_near(out.v[0], MX_DIMS(6), (double[]){1, 2, 10, 20, 100, 200}, 0);
    check_near(out.v[1], MX_DIMS(2), (double[]){-9, -18}, 0);
}

static void graphs(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_symbol *plain = two_layers(), *made = mx_amp_convert(plain, .target = MX_BFLOAT16);
    assert_non_null(made);
    assert_string_equal(mx_symbol_arguments(made).v[0], "data");
    assert_int_equal(mx_symbol_arguments(made).n, 5);
    assert_true(has_output(made, "fc1_weight_amp_cast_bfloat16_output"));
    assert_true(has_output(made, "fc1_amp_cast_float32_output")); /* the softrelu needs float32 */
    assert_true(has_output(made, "act_amp_cast_bfloat16_output"));
    assert_false(has_output(plain, "fc1_amp_cast_float32_output")); /* a copy */
    const mx_names narrow = mx_amp_cast_variables(made, MX_BFLOAT16);
    assert_int_equal(narrow.n, 5);
    assert_int_equal(mx_amp_cast_variables(made, MX_FLOAT16).n, 0);
    /* own lists replace the library's */
    made = mx_amp_convert(plain, .excluded = (const char *[]){"fc1", NULL});
    assert_false(has_output(made, "fc1_weight_amp_cast_float16_output"));
    assert_true(has_output(made, "fc2_weight_amp_cast_float16_output"));
    assert_int_equal(mx_amp_cast_variables(made, MX_FLOAT16).n, 2);
    made = mx_amp_convert(plain, .conditions = (mx_amp_row[]){{.op = NULL}});
    assert_false(has_output(made, "fc1_amp_cast_float32_output"));
    made = mx_amp_convert(plain, .target_ops = (const char *[]){"Activation", NULL});
    assert_true(has_output(made, "fc1_amp_cast_float16_output"));
    assert_false(has_output(made, "fc1_weight_amp_cast_float16_output"));
    made = mx_amp_convert(plain, .target_ops = (const char *[]){NULL});
    assert_false(has_output(made, "fc1_weight_amp_cast_float16_output"));
    assert_int_equal(mx_error_code(), MX_OK);
}

/* A converted block computes nearly the same, in 16 bits, and shares nothing with the original. */
static void blocks(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = network();
    mx_array *x = mx_random_uniform(.shape = MX_DIMS(2, 1, 6, 6)), *expected = mx_call(net, x);
    for (int cast = 0; cast < 2; cast++) {
        mx_block *half = mx_amp_convert_block(net, MX_ARRAYS(x), MX_AMP_CONVERT_ARGS(NULL), cast);
        mx_array *y = mx_call(half, x);
        assert_int_equal(mx_dtype_of(y), MX_FLOAT16);
        const double error = mx_item(mx_max(mx_abs(mx_sub(mx_cast(y, .dtype = MX_FLOAT32), expected))));
        assert_true(error > 0 && error < 0.05);
        mx_params *params = mx_collect_params(half);
        assert_int_equal(mx_params_count(params), mx_params_count(mx_collect_params(net)));
        int narrow = 0;
        for (int64_t i = 0; i < mx_params_count(params); i++) {
            mx_array *value = mx_parameter_data(mx_params_at(params, i), mx_cpu(0));
            narrow += mx_dtype_of(value) == MX_FLOAT16;
            mx_parameter_set_data(mx_params_at(params, i), mx_zeros_like(value));
        }
        assert_int_equal(narrow, cast ? 4 : 0); /* weights and biases of the convolution and the dense layer */
        check_same(mx_call(net, x), expected);
    }
    /* mixed precision adds no further casts */
    mx_amp_init(MX_BFLOAT16);
    mx_block *half = mx_amp_convert_block(net, MX_ARRAYS(x), MX_AMP_CONVERT_ARGS(NULL), false);
    mx_amp_init(MX_FLOAT32);
    assert_int_equal(mx_dtype_of(mx_call(half, x)), MX_FLOAT16);
    assert_null(mx_amp_convert_block(NULL, MX_ARRAYS(x), MX_AMP_CONVERT_ARGS(NULL), false));
    expect_error(MX_ERR_ARGUMENT, "block");
}

/* Every allocation fails once: an error, nothing leaked. */
static void conversions_without_memory(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_symbol *plain = two_layers();
    bool good = false;
    for (int64_t number = 1; !good; number++) {
        const int64_t before = check_live();
        mx_scoped() {
            mx_alloc_fail_at(number);
            mx_symbol *made = mx_amp_convert(plain, .excluded = (const char *[]){"fc2_output", NULL});
            good = made && mx_amp_cast_variables(made, MX_FLOAT16).n == 3;
            mx_alloc_fail_at(0);
        }
        if (!good)
            expect_error(MX_ERR_MEMORY, "");
        if (check_live() > before)
            fail_msg("allocation %lld: %lld blocks before, %lld after", (long long)number, (long long)before,
                     (long long)check_live());
    }
}

static void wrong_conversions(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_symbol *plain = two_layers();
    assert_null(mx_amp_convert(plain, .target = MX_INT8));
    expect_error(MX_ERR_DTYPE, "int8");
    assert_null(mx_amp_convert(plain, .excluded = (const char *[]){"nothing", NULL}));
    expect_error(MX_ERR_ARGUMENT, "nothing");
    assert_null(mx_amp_convert(plain, .target_ops = (const char *[]){"no_operator", NULL}));
    expect_error(MX_ERR_ARGUMENT, "no_operator");
    assert_null(mx_amp_convert(plain, .conditions = (mx_amp_row[]){
                                          {.op = "Activation", .attribute = "colour", .value = "1"}, {.op = NULL}}));
    expect_error(MX_ERR_ARGUMENT, "colour");
    assert_null(mx_amp_convert(NULL));
    mx_error_clear();
}

static void wrong_arguments(void **state)
{
    (void)state;
    assert_int_not_equal(mx_amp_init(MX_INT8), MX_OK);
    expect_error(MX_ERR_DTYPE, "int8");
    assert_int_not_equal(mx_amp_set("dot", MX_PRECISION_ANY), MX_OK);
    expect_error(MX_ERR_STATE, "mx_amp_init");
    mx_amp_init(MX_BFLOAT16);
    assert_int_not_equal(mx_amp_set("nothing", MX_PRECISION_ANY), MX_OK);
    expect_error(MX_ERR_ARGUMENT, "nothing");
    assert_int_not_equal(mx_amp_set("dot", (mx_precision)77), MX_OK);
    expect_error(MX_ERR_ARGUMENT, "77");
    assert_int_not_equal(mx_amp_set(NULL, MX_PRECISION_ANY), MX_OK);
    expect_error(MX_ERR_ARGUMENT, "NULL");
    assert_int_not_equal(mx_amp_set_where("dot", "nothing", "1"), MX_OK);
    expect_error(MX_ERR_ARGUMENT, "dot has no attribute nothing");
    assert_int_not_equal(mx_amp_set_where("dot", NULL, "1"), MX_OK);
    expect_error(MX_ERR_ARGUMENT, "attribute");
    mx_amp_init(MX_FLOAT32);
    mx_amp_row row;
    int rows = 0;
    while (mx_amp_row_at(rows, &row))
        assert_non_null(mx_op_find(row.op)), rows++;
    assert_true(rows > 50);
    assert_false(mx_amp_row_at(-1, &row));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(types_of_results), cmocka_unit_test(networks),
                                       cmocka_unit_test(graphs), cmocka_unit_test(blocks),
                                       cmocka_unit_test(conversions_without_memory), cmocka_unit_test(wrong_conversions),
                                       cmocka_unit_test(wrong_arguments), cmocka_unit_test(variables_that_are_cast),
                                       cmocka_unit_test(unknown_types)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
