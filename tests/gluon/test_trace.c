/* Blocks as symbols: names, parameters, running traced and exported graphs.  SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void assert_names(mx_names names, const char *wanted)
{
    char text[4096] = "";
    for (int64_t i = 0; i < names.n; i++) {
        strcat(text, i ? " " : "");
        strcat(text, names.v[i]);
    }
    assert_string_equal(text, wanted);
}

static void assert_close(mx_array *a, mx_array *b)
{
    MX_SCOPE;
    assert_ok();
    assert_int_equal(mx_size(a), mx_size(b));
    mx_array *difference = mx_abs(mx_sub(a, b)), *size = mx_plus_scalar(mx_abs(b), .scalar = 1e-3);
    assert_true(mx_item(mx_max(mx_div(difference, size))) < 1e-5);
}

struct lenet {
    mx_block *conv, *norm, *pool, *dense;
};

static mx_array *forward_lenet(mx_block *self, mx_arrays in)
{
    struct lenet *l = mx_block_user(self);
    mx_array *x = mx_call(l->pool, mx_call(l->norm, mx_call(l->conv, in.v[0])));
    return mx_softmax(mx_mul_scalar(mx_call(l->dense, x), .scalar = 2));
}

static mx_block *lenet(struct lenet *l)
{
    mx_block *net = mx_block_new("LeNet", forward_lenet, .hybrid = true, .prefix = "lenet0_", .user = l);
    mx_name_scope(net)
    {
        l->conv = mx_block_child(net, "conv", mx_conv2d(4, MX_DIMS(3, 3), .activation = "relu"));
        l->norm = mx_block_child(net, "norm", mx_batch_norm());
        l->pool = mx_block_child(net, "pool", mx_max_pool2d(MX_DIMS(2, 2)));
        l->dense = mx_block_child(net, "dense", mx_dense(5));
    }
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    return net;
}

static void test_names(void **state)
{
    (void)state;
    MX_SCOPE;
    struct lenet l;
    mx_block *net = lenet(&l);
    mx_array *y = mx_call(net, mx_variable("image"));
    assert_true(mx_symbolic(y));
    mx_symbol *s = mx_symbol_of(MX_ARRAYS(y));
    assert_names(mx_symbol_inputs(s),
                 "image lenet0_conv0_weight lenet0_conv0_bias lenet0_batchnorm0_gamma lenet0_batchnorm0_beta "
                 "lenet0_batchnorm0_running_mean lenet0_batchnorm0_running_var lenet0_dense0_weight "
                 "lenet0_dense0_bias");
    assert_names(mx_symbol_auxiliary(s), "lenet0_batchnorm0_running_mean lenet0_batchnorm0_running_var");
    mx_symbol *inside = mx_symbol_internals(s);
    assert_non_null(mx_symbol_find(inside, "lenet0_conv0_fwd_output"));
    assert_non_null(mx_symbol_find(inside, "lenet0_conv0_relu_fwd_output"));
    assert_non_null(mx_symbol_find(inside, "lenet0_batchnorm0_fwd_output"));
    assert_non_null(mx_symbol_find(inside, "lenet0_pool0_fwd_output"));
    assert_non_null(mx_symbol_find(inside, "lenet0_dense0_fwd_output"));
    assert_non_null(mx_symbol_find(inside, "lenet0__mulscalar0_output"));
    assert_string_equal(mx_symbol_name(s), "lenet0_softmax0");
    mx_symbol *weight = mx_symbol_find(inside, "lenet0_conv0_weight");
    assert_string_equal(mx_symbol_attr(weight, "__shape__"), "(4, 0, 3, 3)");
    assert_string_equal(mx_symbol_attr(weight, "__dtype__"), "0");
    assert_string_equal(mx_symbol_attr(weight, "__lr_mult__"), "1.0");
    assert_string_equal(mx_symbol_attr(mx_symbol_find(inside, "lenet0_conv0_bias"), "__init__"), "zeros");
    assert_ok();
}

static void test_known_shapes(void **state)
{
    (void)state;
    MX_SCOPE;
    struct lenet l;
    mx_block *net = lenet(&l);
    mx_symbol *s = mx_trace(net, mx_random_uniform(.shape = MX_DIMS(2, 3, 10, 10)));
    mx_dims shape = mx_shape(mx_symbol_at(s, 0));
    assert_int_equal(shape.n, 2);
    assert_int_equal(shape.d[1], 5);
    const mx_inferred *r = mx_symbol_infer(s, NULL); /* the deferred parameters, too */
    assert_non_null(r);
    assert_int_equal(r->arguments[1].d[1], 3);
    /* One variable per parameter, however often it is used. */
    mx_block *twice = mx_hybrid_sequential(mx_dense(3, .in_units = 3));
    mx_array *x = mx_variable("x");
    mx_symbol *t = mx_symbol_of(MX_ARRAYS(mx_call(twice, mx_call(twice, x))));
    assert_int_equal(mx_symbol_arguments(t).n, 3);
    mx_symbol *two = mx_trace(mx_l2_loss(), mx_variable("p"), mx_array_scalar(1));
    assert_names(mx_symbol_arguments(two), "data0 p");
    assert_ok();
}

/* Values of a block, of its trace run as a block, and of its export read back. */
static void same_everywhere(mx_block *net, mx_array *x)
{
    MX_SCOPE;
    char path[] = "/tmp/gluon_trace_XXXXXX", file[64], params[64];
    close(mkstemp(path));
    mx_array *y = mx_call(net, x);
    assert_ok();
    mx_export(net, path, 7);
    snprintf(file, sizeof file, "%s-symbol.json", path);
    snprintf(params, sizeof params, "%s-0007.params", path);
    mx_block *again = mx_import(file, "data", params);
    assert_ok();
    assert_close(mx_call(again, x), y);
    /* A symbol block can be traced, and exported again. */
    assert_string_equal(mx_symbol_json(mx_trace(again, mx_variable("data"))), mx_symbol_json(mx_symbol_load(file)));
    unlink(path), unlink(file), unlink(params);
    assert_ok();
}

static void test_export(void **state)
{
    (void)state;
    MX_SCOPE;
    struct lenet l;
    mx_array *image = mx_random_uniform(.shape = MX_DIMS(2, 3, 10, 10)),
             *rows = mx_random_uniform(.shape = MX_DIMS(4, 6));
    same_everywhere(lenet(&l), image);
    mx_block *nets[] = {
        mx_hybrid_sequential(mx_dense(8, .activation = "tanh"), mx_layer_norm(), mx_dropout(0.5),
                             mx_dense(3, .use_bias = false)),
        mx_hybrid_sequential(mx_dense(8), mx_leaky_relu(0.1), mx_prelu(), mx_gelu(), mx_swish(), mx_elu(), mx_selu()),
        mx_hybrid_sequential(mx_dense(8), mx_batch_norm(.scale = false), mx_activation("softsign")),
    };
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
        mx_initialize(nets[i], mx_xavier(), mx_cpu(0));
        same_everywhere(nets[i], rows);
    }
    mx_block *conv =
        mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3), .strides = MX_DIMS(2, 2), .padding = MX_DIMS(1, 1)),
                             mx_conv2d_transpose(3, MX_DIMS(2, 2)), mx_instance_norm(), mx_group_norm(),
                             mx_avg_pool2d(MX_DIMS(2, 2)), mx_global_avg_pool2d(), mx_flatten());
    mx_initialize(conv, mx_xavier(), mx_cpu(0));
    same_everywhere(conv, image);
}

static void test_gradients_through_a_symbol(void **state)
{
    (void)state;
    MX_SCOPE;
    struct lenet l;
    mx_block *net = lenet(&l);
    mx_array *x = mx_random_uniform(.shape = MX_DIMS(2, 3, 10, 10)), *y, *z;
    mx_call(net, x);
    mx_block *again = mx_symbol_block(mx_trace(net, x), "data");
    mx_params *from = mx_collect_params(net), *to = mx_collect_params(again);
    assert_ok();
    for (int64_t i = 0; i < mx_params_count(to); i++) {
        mx_parameter *p = mx_params_at(to, i), *q = mx_params_find(from, mx_parameter_name(p));
        mx_parameter_initialize(p, NULL, NULL, 0, false);
        mx_parameter_set_data(p, mx_array_copy(mx_parameter_data(q, mx_cpu(0))));
    }
    assert_ok();
    mx_record()
        y = mx_call(net, x);
    mx_backward(mx_sum(y));
    mx_error_clear();
    mx_record()
        y = mx_sum(mx_square(mx_call(net, x)));
    mx_backward(y);
    mx_record()
        z = mx_sum(mx_square(mx_call(again, x)));
    mx_backward(z);
    for (int64_t i = 0; i < mx_params_count(to); i++) {
        mx_parameter *p = mx_params_at(to, i), *q = mx_params_find(from, mx_parameter_name(p));
        if (mx_parameter_grad_req(q) != MX_GRAD_NULL)
            assert_close(mx_parameter_grad(p, mx_cpu(0)), mx_parameter_grad(q, mx_cpu(0)));
    }
}

static mx_array *adds_noise(mx_array *x) { return mx_add(x, mx_random_normal(.shape = MX_DIMS(1))); }

static void test_operators_without_inputs(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_hybrid_lambda(adds_noise);
    mx_symbol *s = mx_trace(net, mx_array_scalar(1));
    assert_names(mx_symbol_arguments(s), "data"); /* the noise is drawn at every run: not a constant */
    assert_false(mx_symbolic(mx_random_normal(.shape = MX_DIMS(1))));
    assert_ok();
}

static void test_wrong(void **state)
{
    (void)state;
    MX_SCOPE;
    struct lenet l;
    mx_block *net = lenet(&l);
    assert_null(mx_trace_arrays(NULL, (mx_arrays){0}));
    mx_error_clear();
    assert_null(mx_trace(net, mx_variable("x", .shape = MX_DIMS(2, 3), .dtype = MX_FLOAT32))); /* needs an image */
    assert_non_null(strstr(mx_error_message(), "lenet0"));
    mx_error_clear();
    assert_int_not_equal(mx_export(net, "/nonexistent/folder/net", 0), MX_OK); /* not initialised, no folder */
    mx_error_clear();
    assert_null(mx_symbol_block(mx_trace(net, mx_variable("x")), "nobody"));
    assert_non_null(strstr(mx_error_message(), "nobody"));
    mx_error_clear();
    mx_block *block = mx_symbol_block(mx_symbol_of(MX_ARRAYS(mx_add(mx_variable("a"), mx_variable("b")))), "a b");
    assert_non_null(block);
    assert_null(mx_call(block, mx_array_scalar(1)));
    assert_non_null(strstr(mx_error_message(), "wanted 2"));
    mx_error_clear();
    assert_true(mx_item(mx_call(block, mx_array_scalar(1), mx_array_scalar(2))) == 3);
}

static void test_failing_allocations(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_hybrid_sequential(mx_dense(8, .activation = "tanh"), mx_batch_norm());
    mx_initialize(net, NULL, mx_cpu(0));
    mx_array *x = mx_random_uniform(.shape = MX_DIMS(4, 6)), *y = mx_call(net, x);
    for (int64_t n = 1; n < 5000; n++) {
        MX_SCOPE;
        mx_alloc_fail_at(n);
        mx_symbol *s = mx_trace(net, x);
        mx_block *again = s ? mx_symbol_block(s, "data") : NULL;
        mx_symbol *t = again ? mx_trace(again, mx_variable("z")) : NULL;
        mx_alloc_fail_at(0);
        const mx_code code = mx_error_code();
        mx_error_clear();
        assert_true(mx_size(mx_call(net, x)) == mx_size(y));
        if (t && !code)
            return;
    }
    fail();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_names, clean),
        cmocka_unit_test_teardown(test_known_shapes, clean),
        cmocka_unit_test_teardown(test_export, clean),
        cmocka_unit_test_teardown(test_gradients_through_a_symbol, clean),
        cmocka_unit_test_teardown(test_operators_without_inputs, clean),
        cmocka_unit_test_teardown(test_wrong, clean),
        cmocka_unit_test_teardown(test_failing_allocations, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
