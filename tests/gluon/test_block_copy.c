/* mx_block_copy: every layer, networks with shared parts, cells, blocks of symbols, users' blocks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "layer_cases.h"

#include "gluon/block/core.h"

static mx_array *call(mx_block *block, mx_array *x) { return mx_block_call(block, (mx_arrays){&x, 1}); }
static mx_parameter *own(mx_block *block, int64_t i) { return mx_params_at(mx_block_params(block), i); }
static mx_array *data_of(mx_parameter *p) { return mx_parameter_data(p, mx_cpu(0)); }

/* The copy has the same text and names, computes the same and shares nothing. */
static void check_copy(mx_block *block, mx_array *x)
{
    char names[8192];
    mx_block *other = mx_block_copy(block);
    check_no_error();
    assert_non_null(other);
    assert_string_equal(mx_block_text(other), mx_block_text(block));
    snprintf(names, sizeof names, "%s", check_names(mx_collect_params(block)));
    assert_string_equal(check_names(mx_collect_params(other)), names);
    mx_random_seed(1);
    mx_array *wanted = call(block, x);
    mx_random_seed(1);
    check_same(call(other, x), wanted);
    mx_params *mine = mx_collect_params(block), *theirs = mx_collect_params(other);
    for (int64_t i = 0; i < mx_params_count(mine); i++) {
        assert_ptr_not_equal(mx_params_at(mine, i), mx_params_at(theirs, i));
        assert_ptr_not_equal(data_of(mx_params_at(mine, i)), data_of(mx_params_at(theirs, i)));
    }
}

static void test_layers(void **state)
{
    (void)state;
    int tried = 0;
    for (const layer_case *c = layer_cases; c->cls; c++) {
        MX_SCOPE;
        mx_array *x;
        mx_block *block = layer_case_make(c, &x);
        if (!block)
            continue;
        tried++;
        assert_int_equal(mx_initialize(block, NULL, mx_cpu(0)), MX_OK);
        mx_block *waiting = mx_block_copy(block); /* also while shapes are unknown */
        assert_non_null(waiting);
        assert_non_null(call(block, x));
        assert_non_null(call(waiting, x));
        check_no_error();
        check_copy(block, x);
    }
    assert_true(tried > 20);
}

static void test_sharing(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *first = mx_dense(3, .in_units = 3),
             *second = mx_dense(3, .in_units = 3, .params = mx_block_params(first));
    mx_block *net = mx_hybrid_sequential(first, second, mx_dropout(0.5), first);
    mx_initialize(net, NULL, mx_cpu(0));
    mx_hybridize(net);
    mx_array *x = check_array(MX_DIMS(2, 3), 1);
    check_same(call(net, x), call(net, x));
    mx_block *other = mx_block_copy(net);
    assert_int_equal(mx_block_children(other), 4);
    assert_ptr_equal(mx_block_child_at(other, 0), mx_block_child_at(other, 3));
    assert_ptr_equal(own(mx_block_child_at(other, 0), 0), own(mx_block_child_at(other, 1), 0));
    assert_ptr_not_equal(mx_block_child_at(other, 0), first);
    check_same(call(other, x), call(net, x));
    mx_parameter_set_data(own(mx_block_child_at(other, 0), 0), mx_zeros(.shape = MX_DIMS(3, 3)));
    assert_true(check_values(data_of(own(first, 0)))[0] != 0);
    check_no_error();
}

/* Contexts, gradient requests, multipliers; a trained copy leaves the original alone. */
static void test_parameters(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_dense(2, .in_units = 2);
    mx_initialize_on(net, NULL, (const mx_context[]){mx_cpu(0), mx_cpu(1)}, 2, false);
    mx_parameter_set_mults(own(net, 0), 2, 3);
    mx_parameter_set_grad_req(own(net, 1), MX_GRAD_NULL);
    mx_block *other = mx_block_copy(net);
    assert_non_null(mx_parameter_data(own(other, 0), mx_cpu(1)));
    assert_true(mx_parameter_lr_mult(own(other, 0)) == 2 && mx_parameter_wd_mult(own(other, 0)) == 3);
    assert_int_equal(mx_parameter_grad_req(own(other, 1)), MX_GRAD_NULL);
    const double before = check_values(data_of(own(net, 0)))[0];
    mx_array *x = check_array(MX_DIMS(1, 2), 3), *loss = NULL;
    mx_record()
        loss = mx_sum(call(other, x));
    mx_backward(loss);
    assert_true(check_values(mx_parameter_grad(own(other, 0), mx_cpu(0)))[0] != 0);
    assert_true(check_values(mx_parameter_grad(own(net, 0), mx_cpu(0)))[0] == 0);
    assert_true(check_values(data_of(own(net, 0)))[0] == before);
    check_no_error();
}

static void test_cells(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *cell = mx_zoneout_cell(mx_lstm_cell(3, .input_size = 2), .zoneout_outputs = 0.5);
    mx_initialize(cell, NULL, mx_cpu(0));
    mx_block *other = mx_block_copy(cell);
    check_no_error();
    assert_non_null(other);
    assert_string_equal(mx_block_text(other), mx_block_text(cell));
    assert_ptr_not_equal(mx_block_child_at(other, 0), mx_block_child_at(cell, 0));
    mx_array *in[] = {check_array(MX_DIMS(1, 2), 1), mx_zeros(.shape = MX_DIMS(1, 3)),
                      mx_zeros(.shape = MX_DIMS(1, 3))};
    check_same(mx_block_call(other, (mx_arrays){in, 3}), mx_block_call(cell, (mx_arrays){in, 3}));
    check_no_error();
}

static void test_symbols(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *y = mx_fully_connected(mx_variable("x"), mx_variable("w"), .num_hidden = 2, .no_bias = true);
    mx_symbol *graph = mx_symbol_of(MX_ARRAYS(y));
    mx_block *net = mx_symbol_block(graph, "x");
    mx_initialize(net, NULL, mx_cpu(0));
    mx_array *x = check_array(MX_DIMS(1, 2), 1);
    assert_non_null(call(net, x));
    check_copy(net, x);
}

/* What a graph without inputs computes depends on its parameters alone. */
static void test_a_symbol_without_inputs(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *y = mx_exp(mx_variable("w", .shape = MX_DIMS(3)));
    mx_block *net = mx_symbol_block(mx_symbol_of(MX_ARRAYS(y)), "");
    mx_initialize(net, mx_normal(), mx_cpu(0));
    mx_block *other = mx_block_copy(net);
    check_no_error();
    assert_non_null(other);
    check_same(mx_block_call(other, (mx_arrays){0}), mx_block_call(net, (mx_arrays){0}));
    check_no_error();
}

static mx_array *twice(mx_array *x) { return mx_add(x, x); }
static mx_array *pass(mx_block *self, mx_arrays in) { return (void)self, in.v[0]; }
static void nothing(void *user) { (void)user; }

static void test_users_blocks(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = check_array(MX_DIMS(2), 1);
    check_copy(mx_hybrid_lambda(twice), x);
    mx_block *own_block = mx_block_new("Net", pass, .prefix = "net_");
    mx_block_child(own_block, "inside", mx_dense(2, .in_units = 2, .prefix = "d_"));
    mx_block *other = mx_block_copy(own_block);
    assert_string_equal(mx_block_child_name(other, 0), "inside");
    check_same(call(other, x), x);
    int held = 0;
    assert_null(mx_block_copy(mx_block_new("Held", pass, .prefix = "held_", .user = &held, .release = nothing)));
    check_error(MX_ERR_UNSUPPORTED, "held (Held)", "state of its own");
    assert_null(mx_block_copy(NULL));
    check_error(MX_ERR_ARGUMENT, "mx_block_copy");
}

static void test_networks_and_memory(void **state)
{
    (void)state;
    const int64_t before = check_live();
    for (int i = 0; i < 2; i++) {
        MX_SCOPE;
        mx_block *net = mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3), .activation = "relu"), mx_batch_norm(),
                                             mx_max_pool2d(), mx_flatten(), mx_dense(3));
        mx_initialize(net, NULL, mx_cpu(0));
        mx_array *x = check_array(MX_DIMS(1, 1, 8, 8), 2);
        assert_non_null(call(net, x));
        check_copy(net, x);
    }
    assert_int_equal(check_live(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers), cmocka_unit_test(test_sharing), cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_cells), cmocka_unit_test(test_symbols), cmocka_unit_test(test_users_blocks),
        cmocka_unit_test(test_a_symbol_without_inputs),
        cmocka_unit_test(test_networks_and_memory),
    };
    return cmocka_run_group_tests_name("copies of blocks", tests, NULL, NULL);
}
