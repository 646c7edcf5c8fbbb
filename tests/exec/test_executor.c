/* Executors: bind, simple_bind, forward, backward, reshape, monitor, eval.  SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "gluon.h"

static int clean(void **state)
{
    (void)state;
    mx_error_clear();
    return 0;
}

static void assert_ok(void)
{
    if (mx_error_code())
        fail_msg("%s", mx_error_message());
}

static mx_symbol *dense(mx_array *x)
{
    const char *keys[] = {"num_hidden"}, *values[] = {"3"};
    return mx_symbol_apply("FullyConnected", &(struct mx_symbol_args){.name = "fc", .n_in = 1, .in = &x, .n_attrs = 1,
                                                                      .attr_names = keys, .attr_values = values});
}

static const char *const data[] = {"x"};

static void test_simple_bind(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_symbol *net = mx_symbol_of(MX_ARRAYS(mx_tanh(mx_symbol_at(dense(mx_variable("x")), 0))));
    mx_executor *e = mx_simple_bind(net, mx_cpu(0),
                                    &(struct mx_known){.count = 1, .names = data, .shapes = (mx_dims[]){MX_DIMS(2, 4)}},
                                    MX_GRAD_WRITE);
    assert_ok();
    mx_array *x = mx_random_uniform(.shape = MX_DIMS(2, 4)), *w = mx_random_uniform(.shape = MX_DIMS(3, 4)), *y;
    mx_executor_set(e, "x", x);
    mx_executor_set(e, "fc_weight", w);
    mx_arrays out = mx_executor_forward(e, true);
    assert_ok();
    mx_attach_grad(w, MX_GRAD_WRITE);
    mx_record()
        y = mx_tanh(mx_fully_connected(x, w, MX_NONE, .num_hidden = 3, .no_bias = true));
    mx_backward(y);
    assert_true(mx_item(mx_max(mx_abs(mx_sub(y, out.v[0])))) < 1e-6);
    assert_int_equal(mx_executor_backward(e, (mx_arrays){0}), MX_OK);
    assert_true(mx_item(mx_max(mx_abs(mx_sub(mx_gradient(w), mx_executor_gradient(e, "fc_weight"))))) < 1e-6);
    assert_int_equal(mx_executor_arguments(e).n, 3);
    assert_int_equal(mx_executor_gradients(e).n, 3);
    assert_int_equal(mx_executor_outputs(e).n, 1);
    /* Another batch size: parameters are shared. */
    mx_executor *f =
        mx_executor_reshape(e, &(struct mx_known){.count = 1, .names = data, .shapes = (mx_dims[]){MX_DIMS(5, 4)}},
                            &(struct mx_resizing){.allow_up_sizing = true});
    assert_ok();
    assert_ptr_equal(mx_executor_array(f, "fc_weight"), mx_executor_array(e, "fc_weight"));
    assert_int_equal(mx_dim(mx_executor_forward(f, false).v[0], 0), 5);
    /* Wrong arguments. */
    assert_int_equal(mx_executor_set(e, "x", mx_random_uniform(.shape = MX_DIMS(3, 4))), MX_ERR_SHAPE);
    assert_non_null(strstr(mx_error_message(), "(3, 4)"));
    mx_error_clear();
    assert_null(mx_executor_array(e, "nobody"));
    mx_error_clear();
    assert_null(mx_simple_bind(net, mx_cpu(0), NULL, MX_GRAD_WRITE));
    mx_error_clear();
}

/* Outputs exist from the start; backward needs no training forward; smaller executors share memory. */
static void test_outputs_stay(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(mx_mul(mx_variable("x"), mx_array_scalar(2))));
    mx_executor *e = mx_simple_bind(
        s, mx_cpu(0), &(struct mx_known){.count = 1, .names = data, .shapes = (mx_dims[]){MX_DIMS(4)}}, MX_GRAD_WRITE);
    mx_array *y = mx_executor_outputs(e).v[0], *x = mx_executor_array(e, "x");
    assert_ok();
    assert_int_equal(mx_dim(y, 0), 4);
    mx_array_fill(x, 1);
    assert_ptr_equal(mx_executor_forward(e, false).v[0], y);
    assert_true(mx_item(mx_sum(y)) == 8);
    assert_int_equal(mx_executor_backward(e, (mx_arrays){0}), MX_OK);
    assert_true(mx_item(mx_sum(mx_executor_gradient(e, "x"))) == 8);
    const struct mx_known half = {.count = 1, .names = data, .shapes = (mx_dims[]){MX_DIMS(2)}};
    mx_executor *f = mx_executor_reshape(e, &half, NULL);
    mx_array_fill(mx_executor_array(f, "x"), 3);
    mx_executor_forward(f, false);
    assert_ok();
    assert_true(mx_item(mx_sum(x)) == 8 && mx_item(mx_sum(y)) == 16); /* 3 3 1 1; 6 6 2 2 */
    const struct mx_known more = {.count = 1, .names = data, .shapes = (mx_dims[]){MX_DIMS(5)}};
    assert_null(mx_executor_reshape(e, &more, NULL));
    assert_non_null(strstr(mx_error_message(), "allow_up_sizing"));
    mx_error_clear();
    assert_null(mx_executor_reshape(e, NULL, NULL));
    mx_error_clear();
    assert_int_equal(mx_executor_backward(e, MX_ARRAYS(mx_array_scalar(1))), MX_ERR_SHAPE);
    mx_error_clear();
}

static void test_bind(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *a = mx_variable("a"), *b = mx_variable("b");
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(mx_mul(a, b), mx_relu(a)));
    mx_array *x = mx_array_scalar(3), *y = mx_array_scalar(4), *gx = mx_array_scalar(0), *gy = mx_array_scalar(10);
    mx_executor *e = mx_bind(s, mx_cpu(0), &(struct mx_bindings){.arguments = MX_ARRAYS(x, y),
                             .gradients = MX_ARRAYS(gx, gy),
                             .reqs = (mx_grad_req[]){MX_GRAD_WRITE, MX_GRAD_ADD}});
    assert_ok();
    mx_arrays out = mx_executor_forward(e, true);
    assert_true(mx_item(out.v[0]) == 12 && mx_item(out.v[1]) == 3);
    assert_int_equal(mx_executor_backward(e, MX_ARRAYS(mx_array_scalar(1), mx_array_scalar(2))), MX_OK);
    assert_true(mx_item(gx) == 6 && mx_item(gy) == 13);
    assert_int_equal(mx_executor_backward(e, MX_ARRAYS(mx_array_scalar(1))), MX_ERR_ARGUMENT);
    mx_error_clear();
    assert_null(mx_bind(s, mx_cpu(0), &(struct mx_bindings){.arguments = MX_ARRAYS(x)}));
    mx_error_clear();
    mx_array *wide = mx_random_uniform(.shape = MX_DIMS(2, 2)), *odd = mx_random_uniform(.shape = MX_DIMS(3, 3));
    assert_null(mx_bind(s, mx_cpu(0), &(struct mx_bindings){.arguments = MX_ARRAYS(wide, odd)}));
    assert_non_null(strstr(mx_error_message(), "(3, 3)"));
    mx_error_clear();
}

static mx_code count_calls(void *user, const char *name, mx_array *value)
{
    int *n = user;
    assert_non_null(name);
    assert_true(mx_size(value) > 0);
    return ++*n > 100;
}

static void test_monitor_and_eval(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(mx_exp(mx_negative(mx_variable("x")))));
    mx_arrays out = mx_symbol_eval(s, 1, data, MX_ARRAYS(mx_array_scalar(0)));
    assert_int_equal(out.n, 1);
    assert_true(mx_item(out.v[0]) == 1);
    assert_int_equal(mx_symbol_eval(s, 0, NULL, (mx_arrays){0}).n, 0);
    assert_non_null(strstr(mx_error_message(), "x has no value"));
    mx_error_clear();
    mx_executor *e = mx_bind(s, mx_cpu(0), &(struct mx_bindings){.arguments = MX_ARRAYS(mx_array_scalar(1))});
    int calls = 0;
    mx_executor_monitor(e, count_calls, &calls, false);
    mx_executor_forward(e, false);
    assert_int_equal(calls, 2);
    calls = 100;
    assert_int_equal(mx_executor_forward(e, false).n, 0);
    assert_int_equal(mx_error_code(), MX_ERR_CALLBACK);
    mx_error_clear();
}

/* Variables that note a storage type get such arrays; outputs and gradients follow. */
static void test_sparse_arguments(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_variable("x");
    mx_symbol *variable = mx_symbol_of(MX_ARRAYS(x));
    mx_symbol_set_attr(variable, "__storage_type__", "1");
    assert_int_equal(mx_symbol_stype(variable, "x"), MX_ROW_SPARSE);
    assert_int_equal(mx_symbol_stype(variable, "y"), MX_STYPE_DEFAULT);
    mx_symbol *net = mx_symbol_of(MX_ARRAYS(mx_square(mx_symbol_at(variable, 0))));
    mx_executor *e = mx_simple_bind(net, mx_cpu(0),
                                    &(struct mx_known){.count = 1, .names = data, .shapes = (mx_dims[]){MX_DIMS(3, 2)}},
                                    MX_GRAD_WRITE);
    assert_ok();
    assert_int_equal(mx_stype_of(mx_executor_array(e, "x")), MX_ROW_SPARSE);
    assert_int_equal(mx_stype_of(mx_executor_gradient(e, "x")), MX_ROW_SPARSE);
    for (int value = 2; value < 4; value++) { /* the second value replaces the parts of the argument */
        mx_array *rows = mx_array_from(MX_DIMS(1, 2), MX_FLOAT32, (float[]){(float)value, 1});
        mx_executor_set(e, "x",
                        mx_row_sparse(MX_DIMS(3, 2), rows, mx_array_from(MX_DIMS(1), MX_INT64, (int64_t[]){1})));
        mx_arrays out = mx_executor_forward(e, true);
        assert_ok();
        assert_int_equal(mx_stype_of(out.v[0]), MX_ROW_SPARSE);
        assert_true(mx_item(mx_sum(out.v[0])) == value * value + 1);
        assert_int_equal(mx_executor_backward(e, (mx_arrays){0}), MX_OK);
        assert_true(mx_item(mx_sum(mx_executor_gradient(e, "x"))) == 2 * value + 2);
    }
}

/* Equal nodes are merged; asking again and again leaks nothing. */
static void test_optimized(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_variable("x");
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(mx_add(mx_exp(x), mx_exp(x)), mx_exp(x)));
    mx_executor *e = mx_bind(s, mx_cpu(0), &(struct mx_bindings){.arguments = MX_ARRAYS(mx_array_scalar(1))});
    assert_ok();
    int64_t live = 0;
    for (int i = 0; i < 6; i++) {
        mx_scoped() {
            const mx_symbol *merged = mx_executor_optimized(e);
            assert_non_null(merged);
            assert_int_equal(mx_symbol_outputs(merged).n, 2);
            assert_true(mx_symbol_outputs(mx_symbol_internals(merged)).n <
                        mx_symbol_outputs(mx_symbol_internals(s)).n + 1);
        }
        if (i == 2)
            live = mx_alloc_get_stats().live_blocks;
    }
    assert_int_equal(mx_alloc_get_stats().live_blocks, live);
}

static void test_backward_leaks_nothing(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(mx_exp(mx_variable("x"))));
    mx_executor *e = mx_bind(
        s, mx_cpu(0),
        &(struct mx_bindings){.arguments = MX_ARRAYS(mx_array_scalar(0)), .gradients = MX_ARRAYS(mx_array_scalar(0))});
    assert_ok();
    int64_t live = 0;
    for (int i = 0; i < 6; i++)
        mx_scoped() {
            live = i == 3 ? mx_alloc_get_stats().live_blocks : live;
            mx_executor_forward(e, true);
            assert_int_equal(mx_executor_backward(e, MX_NO_ARRAYS), MX_OK);
        }
    assert_int_equal(mx_alloc_get_stats().live_blocks, live);
}

/* Only operators between an argument with a gradient and a result appear as backward nodes. */
static void test_text_of_gradients(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *sine = mx_sin(mx_variable("x")), *known = mx_exp(mx_variable("c"));
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(mx_mul(sine, known)));
    mx_executor *e = mx_bind(s, mx_cpu(0), &(struct mx_bindings){
        .arguments = MX_ARRAYS(mx_array_scalar(1), mx_array_scalar(2)),
        .gradients = MX_ARRAYS(mx_array_scalar(0), MX_NONE),
        .reqs = (mx_grad_req[]){MX_GRAD_WRITE, MX_GRAD_NULL}});
    assert_ok();
    const char *text = mx_executor_debug(e);
    assert_ok();
    assert_non_null(strstr(text, "_backward_sin"));
    assert_null(strstr(text, "_backward_exp"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_simple_bind, clean),
        cmocka_unit_test_teardown(test_outputs_stay, clean),
        cmocka_unit_test_teardown(test_bind, clean),
        cmocka_unit_test_teardown(test_sparse_arguments, clean),
        cmocka_unit_test_teardown(test_monitor_and_eval, clean),
        cmocka_unit_test_teardown(test_optimized, clean),
        cmocka_unit_test_teardown(test_text_of_gradients, clean),
        cmocka_unit_test_teardown(test_backward_leaks_nothing, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
