/* Calls that are gathered and run as one: a device that can run many updates at once, simulated on the CPU.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "block_check.h"

#include "exec/plan/gather.h"

static int groups, calls; /* given to the device */
static bool declines;

static mx_code many_updates(int n, const mx_kernel_call *first, size_t stride)
{
    groups++, calls += n;
    if (declines)
        return MX_DECLINED;
    for (int i = 0; i < n; i++) {
        const mx_kernel_call *call = mx_call_at(first, stride, i);
        mx_code code = mx_kernel_run(call->op->kernels[MX_CPU][0], call);
        if (code)
            return code;
    }
    return MX_OK;
}

static mx_block *make_net(void)
{
    mx_block *net = mx_hybrid_sequential(mx_dense(5, .activation = "tanh"), mx_dense(7), mx_dense(3));
    mx_random_seed(3);
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    return net;
}

/* The parameters after some steps of the imperative loop, one after the other. */
static double *train(const char *optimizer, const char *options, int64_t *count)
{
    static double values[4][200];
    static int turn;
    double *to = values[turn++ % 4];
    mx_block *net = make_net(), *loss = mx_softmax_cross_entropy_loss();
    mx_trainer *trainer = NULL;
    for (int k = 0; k < 3; k++) {
        mx_array *l;
        mx_record()
            l = mx_call(loss, mx_call(net, check_array(MX_DIMS(4, 6), k)), check_integers(MX_DIMS(4), k, 3));
        mx_backward(l);
        trainer = trainer ? trainer : mx_trainer_new(mx_collect_params(net), optimizer, options);
        mx_trainer_step(trainer, 4);
        check_no_error();
    }
    *count = 0;
    for (int64_t i = 0; i < mx_params_count(mx_collect_params(net)); i++) {
        mx_array *x = mx_parameter_data(mx_params_at(mx_collect_params(net), i), mx_cpu(0));
        memcpy(to + *count, check_values(x), (size_t)mx_size(x) * sizeof *to);
        *count += mx_size(x);
    }
    return to;
}

static void check_together(const char *optimizer, const char *options, const char *op, int wanted_groups,
                           int wanted_calls)
{
    MX_SCOPE;
    int64_t n, m;
    const double *plain = train(optimizer, options, &n);
    groups = calls = 0;
    mx_op_attach_many(MX_CPU, op, many_updates);
    const double *together = train(optimizer, options, &m);
    mx_op_attach_many(MX_CPU, op, NULL);
    assert_int_equal(n, m);
    for (int64_t i = 0; i < n; i++)
        assert_true(plain[i] == together[i]);
    assert_int_equal(groups, wanted_groups);
    assert_int_equal(calls, wanted_calls);
}

static void test_updates_run_together(void **state)
{
    (void)state;
    check_together("sgd", "learning_rate=0.1", "sgd_update", 3, 18);
    check_together("sgd", "learning_rate=0.1, momentum=0.9", "sgd_mom_update", 3, 18);
    check_together("adam", "learning_rate=0.1", "adam_update", 3, 18);
}

/* One after the other when the device declines, and when another call reads the result. */
static void test_what_does_not_wait(void **state)
{
    (void)state;
    declines = true;
    check_together("sgd", "learning_rate=0.1", "sgd_update", 3, 18);
    declines = false;
    check_together("sgld", "learning_rate=0.001", "sgd_update", 18, 18);
}

static void test_errors_let_go(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *weight = check_array(MX_DIMS(4), 1), *copy = mx_array_copy(weight), *grad = check_array(MX_DIMS(4), 2);
    const mx_sgd_update_attrs attrs = {.lr = 1, .rescale_grad = 1, .clip_gradient = -1};
    mx_gather held;
    mx_op_attach_many(MX_CPU, "sgd_update", many_updates);
    mx_gather_begin(&held);
    mx_array *out[1] = {weight};
    assert_int_equal(mx_invoke(mx_op_find("sgd_update"), &attrs, 2, (mx_array *const[]){weight, grad}, 1, out), MX_OK);
    assert_int_equal(held.calls.length, 1);
    assert_int_equal(mx_gather_end(&held, MX_ERR_ARGUMENT), MX_ERR_ARGUMENT);
    mx_op_attach_many(MX_CPU, "sgd_update", NULL);
    for (int i = 0; i < 4; i++)
        assert_true(check_values(weight)[i] == check_values(copy)[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_updates_run_together), cmocka_unit_test(test_what_does_not_wait),
                                       cmocka_unit_test(test_errors_let_go)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
