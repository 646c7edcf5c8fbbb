/* Fused training steps: the numbers of the imperative loop, for every optimizer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "block_check.h"

enum { STEPS = 4, BATCH = 6 };

static mx_block *make_net(void)
{
    mx_block *net = mx_hybrid_sequential(mx_conv2d(3, MX_DIMS(3, 3), .activation = "relu"), mx_batch_norm(),
                                         mx_max_pool2d(MX_DIMS(2, 2)), mx_dropout(0.25),
                                         mx_dense(8, .activation = "tanh"), mx_dense(4));
    mx_random_seed(3);
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    return net;
}

static mx_array *images(int i) { return check_array(MX_DIMS(BATCH, 1, 8, 8), i); }
static mx_array *labels(int i) { return check_integers(MX_DIMS(BATCH), i, 4); }

/* Bit for bit. */
static void equal(mx_array *a, mx_array *b, const char *what, const char *which)
{
    check_no_error();
    assert_non_null(a);
    assert_non_null(b);
    const double *x = check_values(a), *y = check_values(b);
    for (int64_t i = 0; i < mx_size(a); i++)
        if (x[i] != y[i] && !(isnan(x[i]) && isnan(y[i])))
            fail_msg("%s: %s[%lld] is %.9g after the plain loop, %.9g after whole steps", what, which, (long long)i,
                     x[i], y[i]);
}

static void compare(mx_block *a, mx_block *b, const char *what)
{
    mx_params *p = mx_collect_params(a), *q = mx_collect_params(b);
    for (int64_t i = 0; i < mx_params_count(p); i++) {
        mx_array *x = mx_parameter_data(mx_params_at(p, i), mx_cpu(0)),
                 *y = mx_parameter_data(mx_params_at(q, i), mx_cpu(0));
        equal(x, y, what, mx_parameter_name(mx_params_at(p, i)));
        if (mx_gradient(x))
            equal(mx_gradient(x), mx_gradient(y), what, "a gradient");
    }
}

/* Returns whether the last step was compiled. */
static bool check_optimizer(const char *name, const char *options, bool schedule, const char *what)
{
    MX_SCOPE;
    mx_block *net[2] = {make_net(), make_net()}, *loss = mx_softmax_cross_entropy_loss();
    mx_trainer *trainer[2];
    for (int i = 0; i < 2; i++) {
        mx_optimizer *o = mx_optimizer_new(name, options);
        if (schedule)
            mx_optimizer_set_scheduler(o, mx_factor_scheduler(2, .factor = 0.5, .base_lr = 0.05));
        trainer[i] = mx_trainer_with(mx_collect_params(net[i]), o);
        mx_parameter_set_mults(mx_params_at(mx_collect_params(net[i]), 0), 0.5, 1);
        mx_parameter_set_mults(mx_params_at(mx_collect_params(net[i]), 1), 1, 0);
    }
    check_no_error();
    mx_train_step *step = mx_train_step_new(net[1], loss, trainer[1]);
    for (int k = 0; k < STEPS; k++) {
        mx_array *l[2];
        mx_random_seed((uint64_t)k);
        mx_record()
            l[0] = mx_call(loss, mx_call(net[0], images(k)), labels(k));
        mx_backward(l[0]);
        mx_trainer_step(trainer[0], BATCH);
        check_no_error();
        mx_random_seed((uint64_t)k);
        l[1] = mx_train_step_run(step, images(k), labels(k));
        equal(l[0], l[1], what, "the loss");
        compare(net[0], net[1], what);
    }
    assert_int_equal(mx_optimizer_num_update(mx_trainer_optimizer(trainer[0])),
                     mx_optimizer_num_update(mx_trainer_optimizer(trainer[1])));
    return mx_train_step_compiled(step);
}

static void test_every_optimizer(void **state)
{
    (void)state;
    int compiled = 0;
    for (int i = 0; mx_class_at(i); i++) {
        if (mx_class_kind_of(mx_class_at(i)) != MX_OPTIMIZER)
            continue;
        const char *name = mx_class_name(mx_class_at(i));
        if (!strcmp(name, "GroupAdaGrad")) /* only takes weights with two axes */
            continue;
        const bool whole = check_optimizer(name, "wd=0.01", false, name);
        compiled += whole;
        if (!whole)
            print_message("%s runs as the plain loop\n", name);
    }
    assert_true(compiled >= 5);
}

static void test_options(void **state)
{
    (void)state;
    assert_true(check_optimizer("sgd", "learning_rate=0.1, momentum=0.9, wd=0.001", false, "momentum"));
    assert_true(check_optimizer("sgd", "learning_rate=0.1, clip_gradient=0.01", false, "clip"));
    assert_true(check_optimizer("sgd", "momentum=0.5", true, "schedule"));
    assert_true(check_optimizer("adam", "learning_rate=0.01", true, "adam with a schedule"));
}

static void test_batches_of_other_sizes(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net[2] = {make_net(), make_net()}, *loss = mx_softmax_cross_entropy_loss();
    mx_trainer *a = mx_trainer_new(mx_collect_params(net[0]), "sgd", "learning_rate=0.1"),
               *b = mx_trainer_new(mx_collect_params(net[1]), "sgd", "learning_rate=0.1");
    mx_train_step *step = mx_train_step_new(net[1], loss, b);
    for (int n = 1; n < 12; n++) {
        mx_array *x = check_array(MX_DIMS(n, 1, 8, 8), n), *y = check_integers(MX_DIMS(n), n, 4), *l;
        mx_random_seed(1);
        mx_record()
            l = mx_call(loss, mx_call(net[0], x), y);
        mx_backward(l);
        mx_trainer_step(a, n);
        mx_random_seed(1);
        mx_train_step_run(step, x, y);
    }
    compare(net[0], net[1], "batches of other sizes");
}

static void test_frozen_and_wrong(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = make_net(), *loss = mx_softmax_cross_entropy_loss();
    mx_trainer *trainer = mx_trainer_new(mx_collect_params(net), "sgd", "learning_rate=0.1");
    mx_train_step *step = mx_train_step_new(net, loss, trainer);
    mx_train_step_run(step, images(0), labels(0));
    mx_train_step_run(step, images(0), labels(0));
    check_no_error();
    assert_true(mx_train_step_compiled(step));
    mx_parameter *first = mx_params_at(mx_collect_params(net), 0);
    mx_array *before = mx_array_copy(mx_parameter_data(first, mx_cpu(0)));
    mx_parameter_set_grad_req(first, MX_GRAD_NULL);
    mx_train_step_run(step, images(0), labels(0));
    check_same(before, mx_parameter_data(first, mx_cpu(0)));
    assert_null(mx_train_step_run(step, NULL, labels(0)));
    check_error(MX_ERR_ARGUMENT, "mx_train_step_run", "data");
    assert_null(mx_train_step_run(step, check_array(MX_DIMS(2, 1, 2, 2), 1), labels(0)));
    assert_true(mx_error_code() != MX_OK);
    mx_error_clear();
    assert_null(mx_train_step_new(NULL, loss, trainer));
    check_error(MX_ERR_ARGUMENT, "mx_train_step_new", "net");
}

/* Whichever allocation fails: an error, no crash, and the next step works. */
static void test_memory_runs_out(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = make_net(), *loss = mx_softmax_cross_entropy_loss();
    mx_trainer *trainer = mx_trainer_new(mx_collect_params(net), "adam", "learning_rate=0.01");
    mx_call(net, images(0));
    int failures = 0;
    for (int64_t n = 1; n < 20000; n += 1 + n / 60) {
        MX_SCOPE;
        mx_array *x = images(0), *y = labels(0);
        mx_train_step *step = mx_train_step_new(net, loss, trainer);
        mx_alloc_fail_at(n);
        mx_array *l = mx_train_step_run(step, x, y);
        mx_alloc_fail_at(0);
        if (l) {
            check_no_error();
            break;
        }
        failures++;
        check_error(MX_ERR_MEMORY, "");
    }
    assert_true(failures > 20);
    assert_non_null(mx_train_step_run(mx_train_step_new(net, loss, trainer), images(0), labels(0)));
    check_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_optimizer), cmocka_unit_test(test_options),
                                       cmocka_unit_test(test_batches_of_other_sizes),
                                       cmocka_unit_test(test_frozen_and_wrong), cmocka_unit_test(test_memory_runs_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
