/* Networks in files: structural keys, older files by name, missing and extra keys, wrong and truncated files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <unistd.h>

#include "base/file.h"
#include "block_check.h"

static mx_array *pass(mx_block *self, mx_arrays in) { return (void)self, in.v[0]; }
static mx_parameter *parameter(mx_block *net, int64_t i) { return mx_params_at(mx_collect_params(net), i); }

static mx_block *conv_net(void)
{
    return mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3), .activation = "relu"), mx_batch_norm(), mx_dense(3));
}

static mx_array *image(void) { return check_array(MX_DIMS(2, 2, 6, 6), 3); }

/* A network with distinct parameter values. */
static mx_block *trained(mx_block *net, mx_array *x, int seed)
{
    mx_initialize(net, NULL, mx_cpu(0));
    mx_call(net, x);
    mx_params *all = mx_collect_params(net);
    for (int64_t i = 0; i < mx_params_count(all); i++)
        mx_parameter_set_data(mx_params_at(all, i),
                              mx_abs(check_array(mx_parameter_shape(mx_params_at(all, i)), seed + (int)i)));
    check_no_error();
    return net;
}

static const char *keys(const char *path)
{
    static char text[1024];
    mx_array_dict *dict = mx_load(path);
    text[0] = 0;
    for (int64_t i = 0; i < mx_array_dict_count(dict); i++)
        strcat(strcat(text, i ? " " : ""), mx_array_dict_name(dict, i));
    return text;
}

static void test_round_trip(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *path = check_file("net.params");
    mx_array *x = image();
    mx_block *net = trained(conv_net(), x, 1), *other = conv_net(), *third = conv_net();
    assert_int_equal(mx_save_parameters(net, path), MX_OK);
    assert_string_equal(keys(path), "0.weight 0.bias 1.gamma 1.beta 1.running_mean 1.running_var 2.weight 2.bias");
    assert_int_equal(mx_load_parameters(other, path), MX_OK); /* never initialised: loading does it */
    check_same(mx_call(other, x), mx_call(net, x));
    mx_initialize(third, NULL, mx_cpu(0)); /* deferred */
    assert_int_equal(mx_load_parameters(third, path), MX_OK);
    check_same(mx_call(third, x), mx_call(net, x));
    assert_int_equal(mx_load_parameters(net, path), MX_OK); /* over existing values */
    check_same(mx_call(third, x), mx_call(net, x));
}

static void test_structure(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *path = check_file("structure.params");
    mx_block *net = mx_block_new("Net", pass);
    mx_block_child(
        net, "features",
        mx_sequential(mx_flatten(), mx_dense(2, .in_units = 2), mx_sequential(mx_batch_norm(.in_channels = 2))));
    mx_block_child(net, "output", mx_dense(1, .in_units = 2));
    mx_block_parameter(net, "scale", .shape = MX_DIMS(1));
    mx_initialize(net, NULL, mx_cpu(0));
    assert_int_equal(mx_save_parameters(net, path), MX_OK);
    assert_string_equal(
        keys(path),
        "scale features.1.weight features.1.bias features.2.0.gamma features.2.0.beta features.2.0.running_mean "
        "features.2.0.running_var output.weight output.bias");
    assert_int_equal(mx_load_parameters(net, path), MX_OK);
    /* Shared parameters are written once per path. */
    mx_block *a = mx_dense(1, .in_units = 1), *b = mx_dense(1, .in_units = 1, .params = mx_block_params(a)),
             *twins = mx_sequential(a, b);
    mx_initialize(twins, NULL, mx_cpu(0));
    assert_int_equal(mx_save_parameters(twins, path), MX_OK);
    assert_string_equal(keys(path), "0.weight 0.bias 1.weight 1.bias");
    assert_int_equal(mx_load_parameters(twins, path), MX_OK);
}

/* A single layer: its keys have no dots, but they are still paths. */
static void test_one_layer(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *path = check_file("layer.params");
    mx_block *a = mx_dense(2, .in_units = 3), *b = mx_dense(2, .params = mx_block_params(mx_dense(2, .in_units = 3)));
    mx_initialize(a, mx_normal(), mx_cpu(0));
    assert_int_equal(mx_save_parameters(a, path), MX_OK);
    assert_string_equal(keys(path), "weight bias");
    assert_int_equal(mx_load_parameters(b, path), MX_OK); /* names of b do not begin with its prefix */
    check_same(mx_parameter_data(parameter(a, 0), mx_cpu(0)), mx_parameter_data(parameter(b, 0), mx_cpu(0)));
}

static void test_by_name(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *path = check_file("names.params"), *stripped = check_file("stripped.params");
    mx_block *nets[2];
    for (int i = 0; i < 2; i++) {
        nets[i] = mx_block_new("Net", pass, .prefix = "net_");
        mx_name_scope(nets[i]) mx_block_child(nets[i], "fc", mx_dense(2, .in_units = 3, .prefix = "fc_"));
    }
    mx_initialize(nets[0], mx_normal(), mx_cpu(0));
    assert_int_equal(mx_params_save(mx_collect_params(nets[0]), path, NULL), MX_OK);
    assert_string_equal(keys(path), "net_fc_weight net_fc_bias");
    assert_int_equal(mx_params_save(mx_collect_params(nets[0]), stripped, "net_"), MX_OK);
    assert_string_equal(keys(stripped), "fc_weight fc_bias");
    assert_true(mx_params_save(mx_collect_params(nets[0]), stripped, "other_"));
    check_error(MX_ERR_ARGUMENT, "mx_params_save", "net_fc_weight", "other_");
    assert_string_equal(keys(stripped), "fc_weight fc_bias");       /* untouched */
    assert_int_equal(mx_load_parameters(nets[1], stripped), MX_OK); /* older files: the prefix is added */
    check_same(mx_parameter_data(parameter(nets[0], 0), mx_cpu(0)),
               mx_parameter_data(parameter(nets[1], 0), mx_cpu(0)));
    assert_int_equal(mx_load_parameters(nets[1], path), MX_OK); /* full names work as well */
    assert_int_equal(
        mx_params_load(mx_collect_params(nets[1]), stripped, &(struct mx_load_options){.restore_prefix = "net_"}),
        MX_OK);
    /* Exported models write arg: and aux: before names. */
    mx_array *w = check_array(MX_DIMS(2, 3), 8), *b = check_array(MX_DIMS(2), 9);
    const char *const tagged[] = {"arg:net_fc_weight", "aux:net_fc_bias"};
    assert_int_equal(mx_save(path, MX_ARRAYS(w, b), tagged), MX_OK);
    assert_int_equal(mx_params_load(mx_collect_params(nets[1]), path, NULL), MX_OK);
    check_same(mx_parameter_data(parameter(nets[1], 1), mx_cpu(0)), b);
}

/* The values of a network, to be compared after a load that failed. */
static void check_unchanged(mx_block *net, mx_array *const *before)
{
    mx_params *all = mx_collect_params(net);
    for (int64_t i = 0; i < mx_params_count(all); i++)
        check_same(mx_parameter_data(mx_params_at(all, i), mx_cpu(0)), before[i]);
}

static void save_as(const char *path, mx_array *w, mx_array *b, const char *weight, const char *bias)
{
    const char *const names[] = {weight, bias};
    assert_int_equal(mx_save(path, MX_ARRAYS(w, b), names), MX_OK);
}

static void test_wrong_files(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *path = check_file("wrong.params");
    mx_block *net = trained(mx_sequential(mx_dense(2, .in_units = 3)), check_array(MX_DIMS(1, 3), 1), 1);
    mx_array *before[2] = {mx_array_copy(mx_parameter_data(parameter(net, 0), mx_cpu(0))),
                           mx_array_copy(mx_parameter_data(parameter(net, 1), mx_cpu(0)))};
    mx_array *w = check_array(MX_DIMS(2, 3), 70), *b = check_array(MX_DIMS(2), 71),
             *long_b = check_array(MX_DIMS(5), 71);

    assert_true(mx_load_parameters(net, check_file("absent.params")));
    check_error(MX_ERR_FILE, "absent.params");
    save_as(path, w, long_b, "0.weight", "0.bias"); /* the second one is wrong: the first is not set either */
    assert_true(mx_load_parameters(net, path));
    check_error(MX_ERR_SHAPE, "wrong.params", "bias", "(5,)", "(2,)");
    check_unchanged(net, before);
    save_as(path, w, mx_cast(b, .dtype = MX_FLOAT64), "0.weight", "0.bias");
    assert_true(mx_load_parameters(net, path));
    check_error(MX_ERR_DTYPE, "bias", "float64", "float32", "cast_dtype");
    check_unchanged(net, before);
    save_as(path, w, b, "0.weight", "1.bias");
    assert_true(mx_load_parameters(net, path));
    check_error(MX_ERR_PARAMETER, "1.bias", "not in the network");
    assert_true(mx_load_parameters_with(net, path, &(struct mx_load_options){.ignore_extra = true}));
    check_error(MX_ERR_PARAMETER, "0.bias", "not in the file");
    check_unchanged(net, before);
    assert_int_equal(mx_save(path, MX_ARRAYS(w, b), NULL), MX_OK);
    assert_true(mx_load_parameters(net, path));
    check_error(MX_ERR_FILE, "without names");
    check_unchanged(net, before);
}

static void test_load_options(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *path = check_file("options.params");
    mx_block *net = trained(mx_sequential(mx_dense(2, .in_units = 3)), check_array(MX_DIMS(1, 3), 1), 1);
    mx_array *w = check_array(MX_DIMS(2, 3), 70), *b = check_array(MX_DIMS(2), 71),
             *bias = mx_parameter_data(parameter(net, 1), mx_cpu(0));
    mx_array *old = mx_array_copy(bias);
    save_as(path, w, b, "0.weight", "9.bias");
    assert_int_equal(
        mx_load_parameters_with(net, path, &(struct mx_load_options){.ignore_extra = true, .allow_missing = true}),
        MX_OK);
    check_same(mx_parameter_data(parameter(net, 0), mx_cpu(0)), w);
    check_same(bias, old);
    save_as(path, mx_cast(w, .dtype = MX_FLOAT64), mx_cast(b, .dtype = MX_FLOAT64), "0.weight", "0.bias");
    assert_int_equal(mx_load_parameters_with(net, path, &(struct mx_load_options){.cast_dtype = true}), MX_OK);
    check_same(mx_parameter_data(parameter(net, 0), mx_cpu(0)), w); /* stays float32 */
    check_same(mx_parameter_data(parameter(net, 1), mx_cpu(0)), b);
}

static void test_truncated(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *path = check_file("whole.params"), *cut = check_file("cut.params");
    mx_array *x = image();
    mx_block *net = trained(conv_net(), x, 1), *other = trained(conv_net(), x, 40);
    mx_array *before = mx_call(other, x);
    mx_save_parameters(net, path);
    int64_t size;
    char *bytes = mx_file_read(path, 1 << 20, &size);
    assert_non_null(bytes);
    for (int64_t n = 0; n < size; n += 1 + n / 7) {
        assert_true(mx_file_write(cut, bytes, n));
        assert_true(mx_load_parameters(other, cut));
        check_error(MX_ERR_FILE, "cut.params");
    }
    mx_free(bytes, (size_t)size + 1);
    check_same(mx_call(other, x), before);
}

static void test_not_ready(void **state)
{
    (void)state;
    MX_SCOPE;
    const char *path = check_file("never.params");
    mx_block *net = mx_sequential(mx_dense(2, .prefix = "fc_"));
    assert_true(mx_save_parameters(net, path));
    check_error(MX_ERR_PARAMETER, "fc_weight");
    mx_initialize(net, NULL, mx_cpu(0));
    assert_true(mx_save_parameters(net, path));
    check_error(MX_ERR_DEFERRED, "fc_weight");
    assert_int_equal(access(path, F_OK), -1); /* nothing was written */
    mx_call(net, check_array(MX_DIMS(1, 2), 1));
    assert_true(mx_save_parameters(net, "/nowhere/net.params"));
    check_error(MX_ERR_FILE, "/nowhere");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_structure), cmocka_unit_test(test_one_layer), cmocka_unit_test(test_by_name),
        cmocka_unit_test(test_wrong_files), cmocka_unit_test(test_load_options), cmocka_unit_test(test_truncated), cmocka_unit_test(test_not_ready),
    };
    return cmocka_run_group_tests_name("files of networks", tests, NULL, NULL);
}
