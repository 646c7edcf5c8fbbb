/* Wrong arguments: every public function of blocks, parameters and data is called with NULL, with something that is not
 * (or no longer) an object, and with an object of another kind.  Each time the error names function and argument.
 *
 * Then memory runs out at every allocation of building, initialising and running a small network.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "block_check.h"

static mx_array *pass(mx_block *self, mx_arrays in) { return (void)self, in.v[0]; }
static mx_code hook(mx_block *block, mx_arrays in, mx_arrays out, void *user)
{
    return (void)block, (void)in, (void)out, (void)user, MX_OK;
}
static mx_code visit(mx_block *block, void *user) { return (void)block, (void)user, MX_OK; }

/* b is the bad pointer; x an array; c a good context. */
#define CALLS(X) \
    X(mx_block_user(b), "mx_block_user", "block") \
    X(mx_block_child(b, "a", net), "mx_block_child", "block") \
    X(mx_block_child(net, "a", b), "mx_block_child", "child") \
    X(mx_block_parameter(b, "p"), "mx_block_parameter", "block") \
    X(mx_sequential_add(b, net), "mx_sequential_add", "sequential") \
    X(mx_naming_leave(&(mx_naming){0}); mx_naming n_ = mx_naming_enter(b); mx_naming_leave(&n_), "mx_name_scope", "block") \
    X(mx_call((mx_block *)b, x), "mx_call", "block") \
    X(mx_block_call_many(b, MX_ARRAYS(x)), "mx_call", "block") \
    X(mx_hybridize(b), "mx_hybridize", "block") \
    X(mx_block_hook(b, true, hook, NULL), "mx_block_hook", "block") \
    X(mx_block_unhook(b, 1), "mx_block_unhook", "block") \
    X(mx_block_name(b), "mx_block_name", "block") \
    X(mx_block_prefix(b), "mx_block_prefix", "block") \
    X(mx_block_class_name(b), "mx_block_class_name", "block") \
    X(mx_block_params(b), "mx_block_params", "block") \
    X(mx_block_children(b), "mx_block_children", "block") \
    X(mx_block_child_at(b, 0), "mx_block_child_at", "block") \
    X(mx_block_child_name(b, 0), "mx_block_child_name", "block") \
    X(mx_collect_params(b), "mx_collect_params", "block") \
    X(mx_collect_params_matching(b, "."), "mx_collect_params", "block") \
    X(mx_block_text(b), "mx_block_text", "block") \
    X(mx_block_summary(b, MX_ARRAYS(x)), "mx_block_summary", "block") \
    X(mx_initialize(b, NULL, mx_cpu(0)), "mx_initialize", "block") \
    X(mx_initialize_on(b, NULL, NULL, 0, false), "mx_initialize", "block") \
    X(mx_block_cast(b, MX_FLOAT32), "mx_block_cast", "block") \
    X(mx_block_apply(b, visit, NULL), "mx_block_apply", "block") \
    X(mx_save_parameters(b, "f"), "mx_save_parameters", "block") \
    X(mx_load_parameters(b, "f"), "mx_load_parameters", "block") \
    X(mx_load_parameters_with(b, "f", NULL), "mx_load_parameters", "block") \
    X(mx_constant_new("c", b), "mx_constant_new", "value") \
    X(mx_parameter_name(b), "mx_parameter_name", "parameter") \
    X(mx_parameter_shape(b), "mx_parameter_shape", "parameter") \
    X(mx_parameter_set_shape(b, MX_DIMS(1)), "mx_parameter_set_shape", "parameter") \
    X(mx_parameter_dtype(b), "mx_parameter_dtype", "parameter") \
    X(mx_parameter_grad_req(b), "mx_parameter_grad_req", "parameter") \
    X(mx_parameter_set_grad_req(b, MX_GRAD_NULL), "mx_parameter_set_grad_req", "parameter") \
    X(mx_parameter_lr_mult(b), "mx_parameter_lr_mult", "parameter") \
    X(mx_parameter_wd_mult(b), "mx_parameter_wd_mult", "parameter") \
    X(mx_parameter_set_mults(b, 1, 1), "mx_parameter_set_mults", "parameter") \
    X(mx_parameter_initialize(b, NULL, NULL, 0, false), "mx_parameter_initialize", "parameter") \
    X(mx_parameter_ready(b), "mx_parameter_ready", "parameter") \
    X(mx_parameter_contexts(b, NULL, 0), "mx_parameter_contexts", "parameter") \
    X(mx_parameter_data(b, mx_cpu(0)), "mx_parameter_data", "parameter") \
    X(mx_parameter_grad(b, mx_cpu(0)), "mx_parameter_data", "parameter") \
    X(mx_parameter_set_data(b, x), "mx_parameter_set_data", "parameter") \
    X(mx_parameter_set_data(p, b), "mx_parameter_set_data", "value") \
    X(mx_parameter_zero_grad(b), "mx_parameter_zero_grad", "parameter") \
    X(mx_parameter_cast(b, MX_FLOAT32), "mx_parameter_cast", "parameter") \
    X(mx_parameter_reset_ctx(b, NULL, 0), "mx_parameter_reset_ctx", "parameter") \
    X(mx_params_prefix(b), "mx_params_prefix", "params") \
    X(mx_params_count(b), "mx_params_count", "params") \
    X(mx_params_at(b, 0), "mx_params_at", "params") \
    X(mx_params_find(b, "a"), "mx_params_find", "params") \
    X(mx_params_get((mx_params *)b, "a"), "mx_params_get", "params") \
    X(mx_params_add(b, p), "mx_params_add", "params") \
    X(mx_params_add(all, b), "mx_params_add", "parameter") \
    X(mx_params_initialize(b, NULL, NULL, 0, false), "mx_params_initialize", "params") \
    X(mx_params_zero_grad(b), "mx_params_zero_grad", "params") \
    X(mx_params_reset_ctx(b, NULL, 0), "mx_params_reset_ctx", "params") \
    X(mx_params_save(b, "f", NULL), "mx_params_save", "params") \
    X(mx_params_load(b, "f", NULL), "mx_params_load", "params") \
    X(mx_params_text(b), "mx_params_text", "params") \
    X(mx_array_dataset(MX_ARRAYS((mx_array *)b)), "mx_array_dataset", "arrays") \
    X(mx_dataset_transform_first(b, net), "mx_dataset_transform_first", "dataset") \
    X(mx_dataset_transform_first(set, b), "mx_dataset_transform_first", "transform") \
    X(mx_dataset_take(b, 1), "mx_dataset_take", "dataset") \
    X(mx_dataset_shard(b, 1, 0), "mx_dataset_shard", "dataset") \
    X(mx_dataset_length(b), "mx_dataset_length", "dataset") \
    X(mx_dataset_at(b, 0), "mx_dataset_at", "dataset") \
    X(mx_sampler_length(b), "mx_sampler_length", "sampler") \
    X(mx_sampler_order(b, 0), "mx_sampler_order", "sampler") \
    X(mx_data_loader((mx_dataset *)b, 1), "mx_data_loader", "dataset") \
    X(mx_loader_batches(b), "mx_loader_batches", "loader") \
    X(mx_loader_examples(b), "mx_loader_examples", "loader") \
    X(mx_loader_next(b, &batch), "mx_loader_next", "loader") \
    X(mx_loader_restart(b), "mx_loader_restart", "loader")

/* Where NULL is legal or means something else: only the other two. */
#define OPTIONAL_CALLS(X) \
    X(mx_params_new("a", b), "mx_params_new", "shared") \
    X(mx_dense(1, .params = b), "Dense", "params") \
    X(mx_dense(1, .weight_initializer = b), "", "init") \
    X(mx_initialize(net, b, mx_cpu(0)), "mx_initialize", "init") \
    X(mx_parameter_initialize(p, b, NULL, 0, true), "mx_parameter_initialize", "default_init") \
    X(mx_data_loader(set, 1, .sampler = b), "mx_data_loader", "sampler")

/* Callbacks, texts and result pointers that are NULL. */
#define NULL_CALLS(X) \
    X(mx_block_new(NULL, pass), "mx_block_new", "class name") \
    X(mx_block_new("Net", NULL), "mx_block_new", "forward") \
    X(mx_block_hook(net, true, NULL, NULL), "mx_block_hook", "hook") \
    X(mx_block_apply(net, NULL, NULL), "mx_block_apply", "fn") \
    X(mx_lambda(NULL), "Lambda", "function") \
    X(mx_hybrid_lambda(NULL), "HybridLambda", "function") \
    X(mx_save_parameters(net, NULL), "mx_save_parameters", "path") \
    X(mx_load_parameters(net, NULL), "mx_load_parameters", "path") \
    X(mx_params_save(all, NULL, NULL), "mx_params_save", "path") \
    X(mx_params_load(all, NULL, NULL), "mx_params_load", "path") \
    X(mx_params_find(all, NULL), "mx_params_find", "full_name") \
    X(mx_params_get(all, NULL), "mx_params_get", "name") \
    X(mx_parameter_new(NULL), "mx_parameter_new", "name") \
    X(mx_function_dataset(3, NULL, NULL, NULL), "mx_function_dataset", "example") \
    X(mx_load_idx(NULL), "mx_load_idx", "path") \
    X(mx_class_find(MX_LAYER, NULL), "layer", "NULL") \
    X(mx_class_find((mx_class_kind)77, "Dense"), "mx_class_find", "77") \
    X(mx_class_create(NULL, NULL), "mx_class_create", "cls")

static void test_wrong_objects(void **state)
{
    (void)state;
    MX_SCOPE;
    static char dead[512]; /* looks like a freed object: no guard word */
    mx_array *x = check_array(MX_DIMS(2, 2), 1);
    mx_block *net = mx_dense(2, .in_units = 2);
    mx_params *all = mx_block_params(net);
    mx_parameter *p = mx_params_at(all, 0);
    mx_dataset *set = mx_array_dataset(MX_ARRAYS(x));
    mx_metric *metric = mx_accuracy(); /* a kind that none of them accepts */
    mx_batch batch;
    mx_initialize(net, NULL, mx_cpu(0));
    check_no_error();
    void *bad[] = {NULL, dead, metric};
#define TRY(call, function, argument) do { call; check_error(MX_ERR_ARGUMENT, function, argument); } while (0);
    for (int i = 0; i < 3; i++) {
        void *b = bad[i];
        CALLS(TRY)
        if (b) {
            OPTIONAL_CALLS(TRY)
        }
    }
    NULL_CALLS(TRY)
    check_shape(mx_call(net, x), MX_DIMS(2, 2)); /* nothing was harmed */
}

/* ---- running out of memory ------------------------------------------------------------------------------------------------ */

static mx_code build_and_run(void)
{
    MX_SCOPE;
    mx_array *x = check_array(MX_DIMS(2, 1, 8, 8), 1), *loss = NULL;
    mx_block *net = mx_hybrid_sequential(mx_conv2d(3, MX_DIMS(3, 3), .activation = "relu"), mx_batch_norm(),
                                         mx_max_pool2d(MX_DIMS(2, 2)), mx_dense(4, .activation = "tanh"),
                                         mx_dropout(0.5), mx_dense(2));
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_record()
        loss = mx_call(mx_softmax_cross_entropy_loss(), mx_call(net, x),
                       mx_array_from(MX_DIMS(2), MX_FLOAT32, (float[]){0, 1}));
    mx_backward(loss);
    mx_trainer_step(mx_trainer_new(mx_collect_params(net), "sgd", "learning_rate=0.1, momentum=0.9"), 2);
    return mx_error_code();
}

static mx_code load_batches(void)
{
    MX_SCOPE;
    mx_dataset *set = mx_dataset_transform_first(
        mx_array_dataset(MX_ARRAYS(check_array(MX_DIMS(7, 2), 1), check_array(MX_DIMS(7), 2))),
        mx_cast_layer(MX_FLOAT64));
    mx_loader *loader = mx_data_loader(set, 2, .shuffle = true, .last_batch = MX_ROLLOVER);
    for (int epoch = 0; epoch < 2; epoch++)
        mx_for_each_batch(batch, loader)
            mx_sum(batch.data);
    return mx_error_code();
}

static void fail_every_allocation(mx_code (*run)(void), int least)
{
    mx_error_clear();
    for (int warm = 0; warm < 3; warm++) /* tables that are created once; interned texts */
        assert_int_equal(run(), MX_OK);
    int64_t failed = 0, passed = 0;
    for (int64_t number = 1; passed < 3; number++) {
        const int64_t before = check_live();
        mx_alloc_fail_at(number);
        mx_code code = run();
        mx_alloc_fail_at(0);
        const int64_t after = check_live();
        if (code && mx_error_code() != MX_ERR_MEMORY)
            fail_msg("allocation %lld failed: error %d \"%s\", wanted MX_ERR_MEMORY", (long long)number, (int)code,
                     mx_error_message());
        if (after != before)
            fail_msg("allocation %lld failed: %lld blocks before, %lld after (%s)", (long long)number,
                     (long long)before, (long long)after, mx_error_message());
        assert_false(mx_is_recording() || mx_is_training());
        mx_error_clear();
        passed = code ? 0 : passed + 1;
        failed += code != MX_OK;
    }
    assert_int_equal(run(), MX_OK);
    print_message("%lld allocations failed, each cleanly\n", (long long)failed);
    assert_true(failed > least);
}

static void test_memory_of_a_network(void **state) { (void)state, fail_every_allocation(build_and_run, 100); }
static void test_memory_of_a_loader(void **state) { (void)state, fail_every_allocation(load_batches, 20); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_objects), cmocka_unit_test(test_memory_of_a_network), cmocka_unit_test(test_memory_of_a_loader),
    };
    return cmocka_run_group_tests_name("arguments", tests, NULL, NULL);
}
