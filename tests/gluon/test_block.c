/* Blocks and parameters: collecting, deferred initialisation, gradient requests, contexts, casting, hooks, text.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "block_check.h"
#include "gluon/block/core.h"

static mx_array *pass(mx_block *self, mx_arrays in) { return (void)self, in.v[0]; }
static mx_array *data_of(mx_parameter *p) { return mx_parameter_data(p, mx_cpu(0)); }
static mx_parameter *own(mx_block *block, int64_t i) { return mx_params_at(mx_block_params(block), i); }

static mx_block *two_layers(void)
{
    return mx_hybrid_sequential(mx_dense(3, .activation = "relu", .prefix = "a_"), mx_dense(2, .prefix = "b_"));
}

/* ---- collecting ------------------------------------------------------------------------------------------------------ */

static void test_collect(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_block_new("Net", pass, .prefix = "net_");
    mx_name_scope(net)
    {
        mx_block_child(net, "body", mx_sequential(mx_dense(2, .prefix = "fc1_"), mx_batch_norm(.prefix = "bn_")));
        mx_block_child(net, "head", mx_dense(1, .prefix = "fc2_"));
    }
    mx_block_parameter(net, "scale", .shape = MX_DIMS(1));
    assert_string_equal(
        check_names(mx_collect_params(net)),
        "net_scale net_fc1_weight net_fc1_bias net_bn_gamma net_bn_beta net_bn_running_mean net_bn_running_var net_fc2_weight net_fc2_bias");
    assert_string_equal(check_names(mx_block_params(net)), "net_scale");
    assert_string_equal(check_names(mx_collect_params_matching(net, ".*weight|.*bias")),
                        "net_fc1_weight net_fc1_bias net_fc2_weight net_fc2_bias");
    assert_string_equal(check_names(mx_collect_params_matching(net, "net_fc")),
                        "net_fc1_weight net_fc1_bias net_fc2_weight net_fc2_bias");
    assert_string_equal(check_names(mx_collect_params_matching(net, "weight")), ""); /* anchored at the start */
    assert_string_equal(mx_params_prefix(mx_collect_params(net)), "net_");
    assert_null(mx_collect_params_matching(net, "(["));
    check_error(MX_ERR_ARGUMENT, "mx_collect_params", "([");
    mx_params *all = mx_collect_params(net);
    assert_null(mx_params_find(all, "nothing"));
    check_no_error();
    assert_ptr_equal(mx_params_find(all, "net_scale"), mx_params_at(all, 0));
    assert_null(mx_params_at(all, 9));
    assert_null(mx_params_at(all, -1));
    check_no_error();
}

static void test_children(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *a = mx_sequential(mx_dense(1)), *b = mx_sequential(a);
    assert_int_equal(mx_block_children(b), 1);
    assert_ptr_equal(mx_block_child_at(b, 0), a);
    assert_string_equal(mx_block_child_name(b, 0), "0");
    assert_null(mx_block_child_at(b, 1));
    check_no_error();
    assert_null(mx_block_child(a, "loop", b));
    check_error(MX_ERR_ARGUMENT, "mx_block_child", mx_block_name(a));
    assert_null(mx_block_child(a, NULL, a));
    check_error(MX_ERR_ARGUMENT, "mx_block_child");
    assert_null(mx_hybrid_sequential(mx_lambda(mx_array_copy)));
    check_error(MX_ERR_ARGUMENT, "hybrid", "Lambda");
    assert_true(mx_sequential_add(mx_dense(1), mx_dense(1)));
    check_error(MX_ERR_ARGUMENT, "mx_sequential_add", "Dense");
    /* Registering again under the same name replaces. */
    mx_block *user = mx_block_new("Net", pass), *first = mx_dense(1), *second = mx_dense(2);
    mx_block_child(user, "fc", first);
    assert_ptr_equal(mx_block_child(user, "fc", second), second);
    assert_int_equal(mx_block_children(user), 1);
    assert_ptr_equal(mx_block_child_at(user, 0), second);
}

/* ---- deferred initialisation -------------------------------------------------------------------------------------------- */

static void test_deferred(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_dense(4, .prefix = "fc_");
    mx_parameter *weight = own(net, 0);
    assert_null(data_of(weight));
    check_error(MX_ERR_PARAMETER, "fc_weight", "mx_initialize");
    assert_null(mx_call(net, check_array(MX_DIMS(2, 3), 1)));
    check_error(MX_ERR_PARAMETER, "fc_weight", "mx_initialize");
    assert_int_equal(mx_initialize(net, mx_one(), mx_cpu(0)), MX_OK);
    assert_false(mx_parameter_ready(weight));
    assert_true(mx_parameter_ready(own(net, 1))); /* the bias' shape is known */
    assert_null(data_of(weight));
    check_error(MX_ERR_DEFERRED, "fc_weight", "first forward");
    assert_int_equal(mx_parameter_shape(weight).d[1], 0);
    check_shape(mx_call(net, check_array(MX_DIMS(2, 3, 5), 1)), MX_DIMS(2, 4)); /* flattened */
    assert_int_equal(mx_parameter_shape(weight).d[1], 15);
    assert_true(mx_parameter_ready(weight));
    check_shape(data_of(weight), MX_DIMS(4, 15));
    assert_true(check_values(data_of(weight))[59] == 1);
    assert_null(mx_call(net, check_array(MX_DIMS(2, 16), 1)));
    check_error(MX_ERR_SHAPE, "fc", "16");
    assert_true(mx_parameter_set_shape(weight, MX_DIMS(4, 16)));
    check_error(MX_ERR_SHAPE, "fc_weight", "(4, 15)", "(4, 16)");
}

static void test_unknown_shape_without_deferral(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_parameter *p = mx_parameter_new("p", .shape = MX_DIMS(2, 0));
    assert_true(mx_parameter_initialize(p, NULL, NULL, 0, false));
    check_error(MX_ERR_PARAMETER, "p", "(2, ?)");
    assert_int_equal(mx_parameter_set_shape(p, MX_DIMS(0, 3)), MX_OK);
    assert_int_equal(mx_parameter_initialize(p, NULL, NULL, 0, false), MX_OK);
    check_shape(mx_parameter_data(p, (mx_context){0}), MX_DIMS(2, 3));
}

static void test_storage_of_parameters(void **state)
{
    (void)state;
    MX_SCOPE;
    for (int value = -1; value <= MX_CSR + 1; value++) {
        const bool known = value >= 0 && value <= MX_CSR;
        assert_true(!mx_parameter_new("p", .shape = MX_DIMS(2, 3), .stype = (mx_stype)value) == !known);
        if (!known)
            check_error(MX_ERR_ARGUMENT, "parameter p", "storage type");
        assert_true(!mx_parameter_new("p", .shape = MX_DIMS(2, 3), .grad_stype = (mx_stype)value) == !known);
        if (!known)
            check_error(MX_ERR_ARGUMENT, "parameter p", "storage type");
    }
}

/* A user's hybrid block infers the shape of its own parameter, an imperative one cannot. */
static mx_array *scaled(mx_block *self, mx_arrays in)
{
    return mx_mul(in.v[0], mx_parameter_data(mx_params_at(mx_block_params(self), 0), mx_context_of(in.v[0])));
}

static void test_user_parameter(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_block_new("Scale", scaled);
    mx_parameter *p =
        mx_block_parameter(net, "scale", .shape = MX_DIMS(0), .allow_deferred_init = true, .init = mx_one());
    mx_initialize(net, NULL, mx_cpu(0));
    assert_null(mx_call(net, check_array(MX_DIMS(2, 3), 1)));
    check_error(MX_ERR_DEFERRED, "scale");
    mx_parameter_set_shape(p, MX_DIMS(3));
    assert_int_equal(mx_initialize_on(net, NULL, NULL, 0, true), MX_OK);
    check_shape(mx_call(net, check_array(MX_DIMS(2, 3), 1)), MX_DIMS(2, 3));
}

static void test_set_data(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_dense(2, .prefix = "fc_");
    mx_parameter *weight = own(net, 0);
    mx_array *value = check_array(MX_DIMS(2, 3), 5);
    assert_true(mx_parameter_set_data(weight, value));
    check_error(MX_ERR_PARAMETER, "fc_weight");
    mx_initialize(net, mx_zero(), mx_cpu(0));
    assert_true(mx_parameter_set_data(weight, check_array(MX_DIMS(5, 3), 5)));
    check_error(MX_ERR_SHAPE, "fc_weight", "(2, ?)", "(5, 3)");
    assert_int_equal(mx_parameter_shape(weight).d[1], 0); /* still unknown, and deferred */
    assert_null(mx_parameter_data(weight, mx_cpu(0)));
    check_error(MX_ERR_DEFERRED, "fc_weight");
    assert_int_equal(mx_parameter_set_data(weight, value), MX_OK); /* while deferred: stored, and it gives the shape */
    check_same(data_of(weight), value);
    mx_call(net, check_array(MX_DIMS(1, 3), 1));
    check_same(data_of(weight), value);
    assert_int_equal(mx_parameter_set_data(weight, mx_cast(value, .dtype = MX_FLOAT64)), MX_OK);
    check_same(data_of(weight), value);
    assert_true(mx_parameter_set_data(weight, check_array(MX_DIMS(2, 4), 5)));
    check_error(MX_ERR_SHAPE, "(2, 3)", "(2, 4)");
    check_same(data_of(weight), value);
}

/* A value that does not fit is not remembered for the first forward. */
static void test_refused_data(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_dense(2, .prefix = "fc_");
    mx_initialize(net, mx_zero(), mx_cpu(0));
    assert_true(mx_parameter_set_data(own(net, 0), check_array(MX_DIMS(5, 3), 5)));
    check_error(MX_ERR_SHAPE, "fc_weight");
    mx_array *y = mx_call(net, check_array(MX_DIMS(1, 3), 1));
    check_no_error();
    check_shape(data_of(own(net, 0)), MX_DIMS(2, 3));
    assert_true(check_values(y)[0] == 0 && check_values(y)[1] == 0);
}

static void test_saving_leaks_nothing(void **state)
{
    (void)state;
    MX_SCOPE;
    char path[64];
    snprintf(path, sizeof path, "/tmp/block-%d.params", (int)getpid());
    mx_block *net = mx_dense(2, .in_units = 3);
    mx_initialize(net, mx_zero(), mx_cpu(0));
    int64_t live = 0;
    for (int i = 0; i < 4; i++) {
        live = i == 2 ? mx_alloc_get_stats().live_blocks : live;
        assert_int_equal(mx_save_parameters(net, path), MX_OK);
    }
    assert_int_equal(mx_alloc_get_stats().live_blocks, live);
    unlink(path);
}

static void test_initialize_again(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_dense(2, .in_units = 3);
    mx_initialize(net, mx_one(), mx_cpu(0));
    mx_initialize(net, mx_zero(), mx_cpu(0)); /* not overwritten: the values may have been learned */
    assert_true(check_values(data_of(own(net, 0)))[0] == 1);
    mx_initialize_on(net, mx_zero(), NULL, 0, true);
    assert_true(check_values(data_of(own(net, 0)))[0] == 0);
    /* A parameter's own initializer has precedence over the network's. */
    mx_block *other =
        mx_dense(2, .in_units = 3, .weight_initializer = mx_constant(7), .bias_initializer = mx_constant(8));
    mx_initialize(other, mx_zero(), mx_cpu(0));
    assert_true(check_values(data_of(own(other, 0)))[0] == 7 && check_values(data_of(own(other, 1)))[0] == 8);
    check_no_error();
}

/* ---- gradients ------------------------------------------------------------------------------------------------------------ */

static void backward_once(mx_block *net, mx_array *x)
{
    mx_array *y;
    mx_record()
        y = mx_sum(mx_call(net, x));
    assert_int_equal(mx_backward(y), MX_OK);
}

static void test_grad_req(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_dense(2, .in_units = 3, .prefix = "fc_");
    mx_parameter *weight = own(net, 0), *bias = own(net, 1);
    mx_array *x = check_array(MX_DIMS(4, 3), 1);
    mx_initialize(net, mx_one(), mx_cpu(0));
    backward_once(net, x);
    backward_once(net, x);
    assert_true(check_values(mx_parameter_grad(bias, mx_cpu(0)))[0] == 4); /* overwritten */
    assert_int_equal(mx_parameter_set_grad_req(bias, MX_GRAD_ADD), MX_OK);
    backward_once(net, x);
    backward_once(net, x);
    assert_true(check_values(mx_parameter_grad(bias, mx_cpu(0)))[0] == 8); /* added */
    mx_params_zero_grad(mx_collect_params(net));
    assert_true(check_values(mx_parameter_grad(bias, mx_cpu(0)))[0] == 0);
    assert_true(check_values(mx_parameter_grad(weight, mx_cpu(0)))[0] == 0);
    assert_int_equal(mx_parameter_set_grad_req(weight, MX_GRAD_NULL), MX_OK);
    backward_once(net, x);
    assert_null(mx_parameter_grad(weight, mx_cpu(0)));
    check_error(MX_ERR_PARAMETER, "fc_weight", "grad_req");
    assert_int_equal(mx_parameter_set_grad_req(weight, MX_GRAD_WRITE), MX_OK);
    backward_once(net, x);
    assert_true(check_values(mx_parameter_grad(weight, mx_cpu(0)))[0] != 0);
    assert_true(mx_parameter_set_grad_req(weight, (mx_grad_req)2));
    check_error(MX_ERR_ARGUMENT, "fc_weight", "2");
    mx_parameter *fixed = mx_constant_new("c", x);
    assert_int_equal(mx_parameter_initialize(fixed, NULL, NULL, 0, false), MX_OK);
    check_same(data_of(fixed), x);
    assert_int_equal(mx_parameter_set_grad_req(fixed, MX_GRAD_WRITE), MX_OK); /* still has none */
    assert_int_equal(mx_parameter_grad_req(fixed), MX_GRAD_NULL);
}

/* ---- contexts --------------------------------------------------------------------------------------------------------------- */

static void test_contexts(void **state)
{
    (void)state;
    MX_SCOPE;
    const mx_context both[] = {mx_cpu(0), mx_cpu(1)};
    mx_context have[4];
    mx_block *net = mx_dense(2, .prefix = "fc_");
    mx_parameter *weight = own(net, 0);
    assert_int_equal(mx_initialize_on(net, mx_xavier(), both, 2, false), MX_OK);
    mx_array *x = check_array(MX_DIMS(4, 3), 1), *there = mx_array_to(x, mx_cpu(1));
    mx_array *y = mx_call(net, x), *z = mx_call(net, there);
    check_no_error();
    have[2] = mx_cpu(77);
    assert_int_equal(mx_parameter_contexts(weight, have, 4), 2);
    assert_int_equal(have[1].id, 1);
    assert_int_equal(have[2].id, 77); /* what is behind stays */
    assert_int_equal(mx_parameter_contexts(weight, NULL, 0), 2);
    assert_int_equal(mx_context_of(z).id, 1);
    check_same(y, mx_array_to(z, mx_cpu(0)));
    assert_ptr_not_equal(mx_parameter_data(weight, mx_cpu(0)), mx_parameter_data(weight, mx_cpu(1)));
    assert_ptr_equal(mx_parameter_data(weight, (mx_context){0}), mx_parameter_data(weight, mx_cpu(0)));
    assert_null(mx_parameter_data(weight, mx_cpu(2)));
    check_error(MX_ERR_PARAMETER, "fc_weight", "cpu(2)");
    mx_parameter_set_data(weight, check_array(MX_DIMS(2, 3), 9));
    check_same(mx_parameter_data(weight, mx_cpu(0)), mx_array_to(mx_parameter_data(weight, mx_cpu(1)), mx_cpu(0)));
    assert_int_equal(mx_params_reset_ctx(mx_collect_params(net), &both[1], 1), MX_OK);
    assert_int_equal(mx_parameter_contexts(weight, have, 4), 1);
    check_same(mx_array_to(mx_parameter_data(weight, (mx_context){0}), mx_cpu(0)), check_array(MX_DIMS(2, 3), 9));
    if (!mx_num_gpus()) { /* a context that does not exist leaves everything as it was */
        const mx_context gpu = mx_gpu(0);
        assert_true(mx_params_reset_ctx(mx_collect_params(net), &gpu, 1));
        check_error(MX_ERR_DEVICE, "gpu");
        assert_true(mx_initialize_on(net, NULL, &gpu, 1, true));
        check_error(MX_ERR_DEVICE, "gpu");
        check_shape(mx_parameter_data(weight, mx_cpu(1)), MX_DIMS(2, 3));
    }
    assert_true(mx_initialize_on(net, NULL, both, 99, true));
    check_error(MX_ERR_ARGUMENT, "99");
}

/* ---- casting ----------------------------------------------------------------------------------------------------------------- */

static void test_cast(void **state)
{
    (void)state;
    const mx_dtype types[] = {MX_FLOAT16, MX_FLOAT64, MX_FLOAT32};
    MX_SCOPE;
    mx_block *net = two_layers();
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_array *x = check_array(MX_DIMS(4, 3), 1), *y = mx_call(net, x);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mx_block_cast(net, types[i]), MX_OK);
        mx_array *z = mx_call(net, mx_cast(x, .dtype = types[i]));
        check_no_error();
        assert_int_equal(mx_dtype_of(z), types[i]);
        assert_int_equal(mx_dtype_of(data_of(mx_params_at(mx_collect_params(net), 0))), types[i]);
        assert_int_equal(mx_dtype_of(mx_parameter_grad(mx_params_at(mx_collect_params(net), 0), mx_cpu(0))), types[i]);
        check_near(z, MX_DIMS(4, 2), check_values(y), 2e-2);
        backward_once(net, mx_cast(x, .dtype = types[i]));
    }
    mx_block *later = mx_dense(2); /* cast while deferred */
    mx_initialize(later, NULL, mx_cpu(0));
    mx_block_cast(later, MX_FLOAT64);
    assert_int_equal(mx_dtype_of(mx_call(later, mx_cast(x, .dtype = MX_FLOAT64))), MX_FLOAT64);
    assert_true(mx_block_cast(later, (mx_dtype)99));
    check_error(MX_ERR_DTYPE, "99");
}

/* BatchNorm keeps its statistics in 32 bits when a network is cast to 16. */
static void test_cast_batch_norm(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_hybrid_sequential(mx_conv2d(2, MX_DIMS(1, 1)), mx_batch_norm());
    mx_initialize(net, NULL, mx_cpu(0));
    mx_block_cast(net, MX_FLOAT16);
    mx_array *y = mx_call(net, mx_cast(check_array(MX_DIMS(2, 3, 4, 4), 1), .dtype = MX_FLOAT16));
    check_no_error();
    assert_int_equal(mx_dtype_of(y), MX_FLOAT16);
    mx_params *all = mx_collect_params(net);
    assert_int_equal(mx_parameter_dtype(mx_params_at(all, 0)), MX_FLOAT16);
    for (int i = 2; i < 6; i++)
        assert_int_equal(mx_parameter_dtype(mx_params_at(all, i)), MX_FLOAT32);
    mx_block_cast(net, MX_FLOAT64);
    assert_int_equal(mx_parameter_dtype(mx_params_at(all, 4)), MX_FLOAT64);
}

/* ---- hooks, apply --------------------------------------------------------------------------------------------------------------- */

static int before_calls, after_calls;
static mx_code note(mx_block *block, mx_arrays in, mx_arrays out, void *user)
{
    (void)block;
    assert_int_equal(in.n, 1);
    assert_non_null(mx_array_data(in.v[0]));
    assert_int_equal(out.n, user == &after_calls);
    ++*(int *)user;
    return MX_OK;
}
static mx_code refuse(mx_block *block, mx_arrays in, mx_arrays out, void *user)
{
    return (void)block, (void)in, (void)out, (void)user, MX_ERR_STATE;
}

static void test_hooks(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = two_layers(), *layer = mx_block_child_at(net, 0);
    before_calls = after_calls = 0;
    mx_initialize(net, NULL, mx_cpu(0));
    uint64_t a = mx_block_hook(layer, true, note, &before_calls), b = mx_block_hook(layer, false, note, &after_calls);
    assert_true(a && b && a != b);
    mx_array *x = check_array(MX_DIMS(2, 3), 1);
    mx_call(net, x); /* the run that only infers shapes calls no hooks */
    mx_call(net, x);
    assert_int_equal(before_calls, 2);
    assert_int_equal(after_calls, 2);
    mx_block_unhook(layer, a);
    mx_block_unhook(layer, 12345);
    mx_call(net, x);
    assert_int_equal(before_calls, 2);
    assert_int_equal(after_calls, 3);
    mx_block_hook(layer, true, refuse, NULL);
    check_no_error();
    assert_null(mx_call(net, x));
    check_error(MX_ERR_CALLBACK, mx_block_name(layer), "hook");
}

/* Many hooks, taken away from the end, from the middle and from the front: the others stay. */
static void test_many_hooks(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *layer = mx_dense(2, .in_units = 3);
    mx_initialize(layer, NULL, mx_cpu(0));
    static const int order[] = {7, 3, 0, 6, 1, 5, 2, 4};
    int calls[8] = {0};
    bool there[8];
    uint64_t handles[8];
    for (int i = 0; i < 8; i++)
        handles[i] = mx_block_hook(layer, true, note, &calls[i]), there[i] = true;
    for (int k = 0; k <= 8; k++) {
        memset(calls, 0, sizeof calls);
        mx_call(layer, check_array(MX_DIMS(1, 3), 1));
        for (int i = 0; i < 8; i++)
            assert_int_equal(calls[i], there[i]);
        if (k < 8)
            mx_block_unhook(layer, handles[order[k]]), there[order[k]] = false;
    }
    check_no_error();
}

static mx_code name_it(mx_block *block, void *user)
{
    strcat(strcat(user, mx_block_class_name(block)), " ");
    return MX_OK;
}
static mx_code refuse_dense(mx_block *block, void *user)
{
    return (void)user, strcmp(mx_block_class_name(block), "Dense") ? MX_OK : MX_ERR_STATE;
}

static void test_apply(void **state)
{
    (void)state;
    MX_SCOPE;
    char text[256] = "";
    assert_int_equal(mx_block_apply(two_layers(), name_it, text), MX_OK);
    assert_string_equal(text, "Activation Dense Dense HybridSequential ");
    assert_true(mx_block_apply(two_layers(), refuse_dense, NULL));
    check_error(MX_ERR_CALLBACK, "mx_block_apply", "a");
}

/* ---- users' blocks ----------------------------------------------------------------------------------------------------------------- */

static mx_arrays swap(mx_block *self, mx_arrays in)
{
    return (void)self, mx_results(in.v[1], in.v[0], mx_add(in.v[0], in.v[1]));
}
static mx_array *nothing(mx_block *self, mx_arrays in) { return (void)self, (void)in, NULL; }
static int released;
static void release(void *user) { (void)user, released++; }

static void test_user_blocks(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = check_array(MX_DIMS(2), 1), *y = check_array(MX_DIMS(2), 2);
    mx_arrays out = mx_block_call_many(mx_block_new("Swap", .forward_many = swap), MX_ARRAYS(x, y));
    assert_int_equal(out.n, 3);
    check_same(out.v[0], y);
    check_same(out.v[1], x);
    check_same(out.v[2], mx_add(x, y));
    assert_null(mx_call(mx_block_new("Nothing", nothing), x));
    check_error(MX_ERR_CALLBACK, "Nothing", "forward");
    assert_null(mx_block_new("Net", NULL));
    check_error(MX_ERR_ARGUMENT, "mx_block_new", "forward");
    char name[301] = "";
    memset(name, 'N', sizeof name - 1); /* the prefix has the first 127 letters */
    const char *prefix = mx_block_prefix(mx_block_new(name, pass));
    assert_int_equal(strspn(prefix, "n"), 127);
    assert_string_equal(prefix + 127, "0_");
    int user = 3;
    released = 0;
    mx_scoped() {
        mx_block *net = mx_block_new("Net", pass, .user = &user, .release = release);
        assert_ptr_equal(mx_block_user(net), &user);
        assert_int_equal(released, 0);
    }
    assert_int_equal(released, 1);
    check_same(mx_call(mx_lambda(mx_array_copy), x), x);
    assert_null(mx_lambda(NULL));
    check_error(MX_ERR_ARGUMENT, "Lambda", "NULL");
}

/* ---- text ---------------------------------------------------------------------------------------------------------------------------- */

static void check_text(mx_block *block, const char *wanted) { assert_string_equal(mx_block_text(block), wanted); }

static void test_text(void **state)
{
    (void)state;
    MX_SCOPE;
    check_text(mx_dense(10, .in_units = 784), "Dense(784 -> 10, linear)");
    check_text(mx_dense(10, .activation = "relu"), "Dense(None -> 10, Activation(relu))");
    check_text(mx_conv2d(64, MX_DIMS(3, 3), .in_channels = 3), "Conv2D(3 -> 64, kernel_size=(3, 3), stride=(1, 1))");
    check_text(
        mx_conv2d(64, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1), .dilation = MX_DIMS(2, 2), .groups = 2,
                  .use_bias = false, .activation = "relu"),
        "Conv2D(None -> 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), dilation=(2, 2), groups=2, bias=False, Activation(relu))");
    check_text(mx_conv1d(4, MX_DIMS(3), .strides = MX_DIMS(2)), "Conv1D(None -> 4, kernel_size=(3,), stride=(2,))");
    check_text(mx_conv2d(8, MX_DIMS(3), .in_channels = 4, .groups = 2, .layout = "NHWC"),
               "Conv2D(4 -> 8, kernel_size=(3, 3), stride=(1, 1), groups=2)");
    check_text(
        mx_max_pool2d(MX_DIMS(2, 2)),
        "MaxPool2D(size=(2, 2), stride=(2, 2), padding=(0, 0), ceil_mode=False, global_pool=False, pool_type=max, layout=NCHW)");
    check_text(
        mx_global_avg_pool2d(),
        "GlobalAvgPool2D(size=(1, 1), stride=(1, 1), padding=(0, 0), ceil_mode=True, global_pool=True, pool_type=avg, layout=NCHW)");
    check_text(mx_batch_norm(),
               "BatchNorm(axis=1, eps=1e-05, momentum=0.9, fix_gamma=False, use_global_stats=False, in_channels=None)");
    check_text(mx_dropout(0.5), "Dropout(p = 0.5, axes=())");
    check_text(mx_embedding(10, 4), "Embedding(10 -> 4, float32)");
    check_text(mx_flatten(), "Flatten");
    check_text(mx_l2_loss(), "L2Loss(batch_axis=0, w=1.0)");
    check_text(mx_l1_loss(), "L1Loss(batch_axis=0, w=None)");
    check_text(mx_layer_norm(), "LayerNorm(eps=1e-05, axis=-1, center=True, scale=True, in_channels=0)");
    check_text(mx_group_norm(.num_groups = 2), "GroupNorm(eps=1e-05, num_groups=2, center=True, scale=True)");
    check_text(mx_elu(), "ELU(\n\n)");
    check_text(mx_leaky_relu(0.1), "LeakyReLU(0.1)");
    check_text(mx_activation("relu"), "Activation(relu)");
    mx_block *net = mx_block_new("Net", pass);
    mx_block_child(net, "body", mx_sequential(mx_flatten(), mx_dense(2)));
    mx_block_child(net, "head", mx_dense(1));
    check_text(
        net,
        "Net(\n  (body): Sequential(\n    (0): Flatten\n    (1): Dense(None -> 2, linear)\n  )\n  (head): Dense(None -> 1, linear)\n)");
    assert_string_equal(
        mx_params_text(mx_block_params(mx_dense(10, .in_units = 784, .prefix = "fc_"))),
        "fc_ (\n  Parameter fc_weight (shape=(10, 784), dtype=float32)\n  Parameter fc_bias (shape=(10,), dtype=float32)\n)");
    mx_params *none = mx_params_new("", NULL);
    mx_params_add(none, mx_constant_new("c", check_array(MX_DIMS(2), 1)));
    assert_string_equal(mx_params_text(mx_params_new("p_", NULL)), "p_ (\n\n)");
    assert_string_equal(mx_params_text(none), "(\n  Constant c (shape=(2,), dtype=float32)\n)");
}

static void test_summary(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net =
        mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3)), mx_batch_norm(), mx_dense(10, .activation = "relu"));
    mx_initialize(net, NULL, mx_cpu(0));
    const char *text = mx_block_summary(net, MX_ARRAYS(check_array(MX_DIMS(2, 1, 6, 6), 1)));
    check_no_error();
    const char *const lines[] = {
        "--------------------------------------------------------------------------------\n",
        "        Layer (type)                                Output Shape         Param #\n",
        "               Input                                (2, 1, 6, 6)               0\n",
        "            Conv2D-1                                (2, 4, 4, 4)              40\n",
        "         BatchNorm-2                                (2, 4, 4, 4)              16\n",
        "        Activation-3                                     (2, 10)               0\n",
        "             Dense-4                                     (2, 10)             650\n",
        "             706\n", "             698\n",
        "               8\n--------------------------------------------------------------------------------\n",
        "         Param #\n================================================================================\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i]))
            fail_msg("the summary\n%s\ndoes not contain\n%s", text, lines[i]);
    assert_null(mx_block_summary(net, MX_ARRAYS(check_array(MX_DIMS(2, 7, 6, 6), 1))));
    check_error(MX_ERR_SHAPE, "conv");
    mx_hybridize(net);
    assert_string_equal(mx_block_summary(net, MX_ARRAYS(check_array(MX_DIMS(2, 1, 6, 6), 1))), text);
}

/* A required input that is absent is an error that names it; optional ones may be. */
static void test_missing_inputs(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *loss = mx_l2_loss();
    mx_array *x = check_array(MX_DIMS(2, 3), 1);
    assert_non_null(mx_call(loss, x, x, MX_NONE));
    assert_null(mx_call(loss, x, MX_NONE));
    check_error(MX_ERR_ARGUMENT, "L2Loss", "'label' is missing");
    assert_null(mx_call(loss, MX_NONE, x));
    check_error(MX_ERR_ARGUMENT, "'pred' is missing");
    assert_null(mx_call(mx_flatten(), MX_NONE));
    check_error(MX_ERR_ARGUMENT, "'x' is missing");
}

/* ---- copies given from outside ------------------------------------------------------------------------------------------ */

#define GIVEN(...)                                                    \
    ((mx_arrays){.v = (mx_array *[]){__VA_ARGS__},                    \
                 .n = (int64_t)(sizeof((mx_array *[]){__VA_ARGS__}) / sizeof(mx_array *))})

static void test_taken_copies(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_dense(2, .in_units = 3, .use_bias = false);
    mx_parameter *p = own(net, 0);
    mx_initialize(net, NULL, mx_cpu(0));
    mx_array *mine = check_array(MX_DIMS(2, 3), 1), *x = check_array(MX_DIMS(4, 3), 2);
    assert_int_equal(mx_parameter_take(p, GIVEN(mine)), MX_OK);
    assert_ptr_equal(data_of(p), mine);
    assert_non_null(mx_gradient(mine)); /* it learns as the array before did */
    check_same(mx_call(net, x), mx_fully_connected(x, mine, MX_NONE, .num_hidden = 2, .no_bias = true));
    /* Backward goes on through a recorded result. */
    mx_array *base = check_array(MX_DIMS(2, 3), 3);
    mx_attach_grad(base, MX_GRAD_WRITE);
    mx_record() {
        assert_int_equal(mx_parameter_take(p, GIVEN(mx_mul_scalar(base, .scalar = 2))), MX_OK);
        mx_backward(mx_sum(mx_call(net, x)));
    }
    check_near(mx_sum(mx_gradient(base)), MX_DIMS(1), (double[]){4 * mx_item(mx_sum(x))}, 1e-5);
    /* Copies that do not belong together change nothing. */
    mx_array *now = data_of(p);
    assert_true(mx_parameter_take(p, GIVEN(mine, base)));
    check_error(MX_ERR_ARGUMENT, mx_parameter_name(p), "one context");
    assert_true(mx_parameter_take(p, GIVEN(mine, mx_array_to(x, mx_cpu(1)))));
    check_error(MX_ERR_ARGUMENT, mx_parameter_name(p), "shape");
    assert_ptr_equal(data_of(p), now);
    /* Another shape: the variable of traces follows. */
    check_shape(mx_call(net, mx_variable("data", .shape = MX_DIMS(4, 3))), MX_DIMS(4, 2));
    assert_int_equal(mx_parameter_take(p, GIVEN(check_array(MX_DIMS(2, 5), 1))), MX_OK);
    check_shape(mx_call(net, check_array(MX_DIMS(4, 5), 2)), MX_DIMS(4, 2));
    check_shape(mx_call(net, mx_variable("data", .shape = MX_DIMS(4, 5))), MX_DIMS(4, 2));
    check_no_error();
    assert_null(mx_parameter_rows(p, mx_variable("rows")));
    check_error(MX_ERR_STATE, mx_parameter_name(p), "graph");
    assert_int_equal(mx_parameter_take(p, (mx_arrays){NULL, 0}), MX_OK);
    assert_false(mx_parameter_ready(p));
    assert_int_equal(mx_parameter_replace_shape(p, MX_DIMS(5, 0)), MX_OK);
    assert_int_equal(mx_parameter_shape(p).d[0], 5);
}

/* A dictionary that gets other parameters lets go of those that it had. */
static void test_replaced_parameters(void **state)
{
    (void)state;
    int64_t live = 0;
    for (int i = 0; i < 4; i++) {
        mx_scoped() {
            mx_params *params = mx_collect_params(mx_dense(2, .in_units = 3)),
                      *others = mx_collect_params(mx_dense(2, .in_units = 3));
            mx_parameter *const all[] = {mx_params_at(others, 0), mx_params_at(others, 1)};
            assert_int_equal(mx_params_set(params, 2, (const char *const[]){"a", "b"}, all), MX_OK);
            assert_int_equal(mx_params_set(params, 1, (const char *const[]){"c"}, all), MX_OK);
            assert_int_equal(mx_params_count(params), 1);
            assert_ptr_equal(mx_params_at(params, 0), all[0]);
        }
        if (i == 1)
            live = mx_alloc_get_stats().live_blocks;
    }
    assert_int_equal(mx_alloc_get_stats().live_blocks, live);
}

static void test_shared_type(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *first = mx_conv2d(2, MX_DIMS(3, 3), .in_channels = 1);
    mx_block_cast(first, MX_FLOAT64);
    mx_block *second = mx_conv2d(2, MX_DIMS(3, 3), .in_channels = 1, .params = mx_block_params(first));
    assert_ptr_equal(own(second, 0), own(first, 0)); /* a convolution has no type of its own */
    mx_block *dense = mx_dense(2, .dtype = MX_FLOAT64);
    assert_null(mx_dense(2, .params = mx_block_params(dense)));
    check_error(MX_ERR_PARAMETER, "float64", "float32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collect), cmocka_unit_test(test_children), cmocka_unit_test(test_deferred),
        cmocka_unit_test(test_unknown_shape_without_deferral), cmocka_unit_test(test_user_parameter), cmocka_unit_test(test_storage_of_parameters), cmocka_unit_test(test_set_data), cmocka_unit_test(test_refused_data), cmocka_unit_test(test_saving_leaks_nothing),
        cmocka_unit_test(test_initialize_again), cmocka_unit_test(test_grad_req), cmocka_unit_test(test_contexts), cmocka_unit_test(test_cast),
        cmocka_unit_test(test_cast_batch_norm), cmocka_unit_test(test_hooks), cmocka_unit_test(test_many_hooks), cmocka_unit_test(test_apply), cmocka_unit_test(test_user_blocks),
        cmocka_unit_test(test_text), cmocka_unit_test(test_summary), cmocka_unit_test(test_missing_inputs),
        cmocka_unit_test(test_taken_copies), cmocka_unit_test(test_replaced_parameters), cmocka_unit_test(test_shared_type),
    };
    return cmocka_run_group_tests_name("blocks", tests, NULL, NULL);
}
