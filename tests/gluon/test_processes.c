/* What programs of several processes call, in a process that is alone: exchanges, parts of data, options of trainers.
 * tests/distributed starts several.
 *
 * ctest-levels: best
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "exec/ready.h"
#include "gluon/comm.h"
#include "gluon/data.h"
#include "gluon/kvstore.h"
#include "gluon/metric.h"
#include "gluon/nn.gen.h"
#include "gluon/op.gen.h"
#include "gluon/optimizer.h"

static void assert_error(mx_code code, const char *part)
{
    assert_int_equal(mx_error_code(), code);
    if (!strstr(mx_error_message(), part))
        fail_msg("'%s' does not say '%s'", mx_error_message(), part);
    mx_error_clear();
}

static void assert_fine(void)
{
    if (mx_error_code())
        fail_msg("%s", mx_error_message());
}

static void exchanges_of_one_process_are_copies(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_comm *world = mx_comm_world();
    const float numbers[] = {1, 2, 3, 4};
    mx_array *x = mx_array_from(MX_DIMS(4), MX_FLOAT32, numbers);
    assert_int_equal(mx_rank(), 0);
    assert_int_equal(mx_world_size(), 1);
    assert_string_equal(mx_comm_name(world), "alone");
    for (int how = MX_SUM; how <= MX_PRODUCT; how++)
        mx_comm_all_reduce(world, x, (mx_reduction)how);
    mx_comm_broadcast(world, x, 0);
    mx_comm_barrier(world);
    mx_array *all[] = {x, mx_comm_all_gather(world, x), mx_comm_reduce_scatter(world, x, MX_SUM),
                       mx_comm_all_to_all(world, x)};
    mx_comm_work *work = mx_comm_all_reduce_start(world, x, MX_SUM);
    assert_true(mx_comm_done(work));
    mx_comm_wait(work);
    assert_fine();
    for (int i = 0; i < 4; i++) {
        double got[4];
        mx_array_read_doubles(all[i], got, 4);
        for (int k = 0; k < 4; k++)
            assert_true(got[k] == numbers[k]);
    }
}

static void wrong_exchanges_are_errors(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_zeros(.shape = MX_DIMS(3));
    mx_comm_broadcast(mx_comm_world(), x, 1);
    assert_error(MX_ERR_ARGUMENT, "root is 1");
    mx_comm_all_reduce(mx_comm_world(), x, (mx_reduction)9);
    assert_error(MX_ERR_ARGUMENT, "reduction 9");
    mx_comm_all_reduce(NULL, x, MX_SUM);
    mx_error_clear();
    mx_comm_all_reduce(mx_comm_world(), NULL, MX_SUM);
    mx_error_clear();
}

static void parts_of_an_order_cover_it(void **state)
{
    (void)state;
    for (int rest = MX_SPLIT_PAD; rest <= MX_SPLIT_KEEP; rest++) {
        MX_SCOPE;
        int seen[10] = {0}, total = 0;
        for (int part = 0; part < 3; part++) {
            mx_sampler *s = mx_split_sampler(mx_random_sampler(10, 7), 3, part, (mx_split_rest)rest);
            const int64_t *order = mx_sampler_order(s, 2), n = mx_sampler_length(s);
            assert_fine();
            for (int64_t i = 0; i < n; i++, total++)
                seen[order[i]]++;
        }
        assert_int_equal(total, rest == MX_SPLIT_PAD ? 12 : rest == MX_SPLIT_DISCARD ? 9 : 10);
        for (int i = 0; i < 10; i++)
            assert_true(rest == MX_SPLIT_PAD ? seen[i] >= 1 : rest == MX_SPLIT_KEEP ? seen[i] == 1 : seen[i] <= 1);
    }
    MX_SCOPE;
    assert_null(mx_split_sampler(mx_sequential_sampler(4), 2, 2, MX_SPLIT_PAD));
    assert_error(MX_ERR_ARGUMENT, "part 2 of 2");
}

static void trainers_take_a_store_as_an_option(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_dense(2, .in_units = 3);
    mx_initialize(net, NULL, mx_cpu(0));
    mx_trainer *trainer =
        mx_trainer_new(mx_collect_params(net), "sgd", "learning_rate=0.5, kvstore=local, momentum=0.9");
    assert_fine();
    assert_string_equal(mx_kvstore_type(mx_trainer_store(trainer)), "local");
    assert_true(mx_trainer_learning_rate(trainer) == 0.5);
    assert_null(mx_trainer_store(mx_trainer_new(mx_collect_params(net), "sgd", "learning_rate=0.5")));
    assert_null(mx_trainer_new(mx_collect_params(net), "sgd", "kvstore=nowhere"));
    assert_error(MX_ERR_ARGUMENT, "nowhere");
    assert_null(mx_trainer_new(mx_collect_params(net), "sgd", "kvstores=local"));
    assert_error(MX_ERR_ATTRIBUTE, "kvstores");
}

/* ---- gradients that are complete --------------------------------------------------------------------------------- */

static mx_array *told[16];
static double values[16];
static int n_told;
static void remember(void *user, mx_array *gradient)
{
    (void)user;
    if (n_told < 16) {
        values[n_told] = mx_item(mx_sum(gradient));
        told[n_told++] = gradient;
    }
}

/* Both kinds of backward report every gradient once, the last layer's first, with its final contents. */
static void check_order(bool hybrid)
{
    MX_SCOPE;
    mx_block *net = mx_hybrid_sequential(mx_dense(4, .in_units = 3), mx_dense(2, .in_units = 4));
    mx_initialize(net, NULL, mx_cpu(0));
    if (hybrid)
        mx_hybridize(net);
    mx_array *x = mx_ones(.shape = MX_DIMS(5, 3)), *y;
    mx_params *params = mx_collect_params(net);
    for (int round = 0; round < 2; round++) {
        n_told = 0;
        mx_record()
            y = mx_call(net, x);
        mx_backward(y);
        assert_fine();
        assert_int_equal(n_told, 4);
        for (int64_t p = 0; p < 4; p++) {
            mx_array *g = mx_gradient(mx_parameter_data(mx_params_at(params, p), mx_cpu(0)));
            int found = -1;
            for (int i = 0; i < 4; i++)
                found = told[i] == g ? i : found;
            assert_true(found >= 0);
            assert_true(p < 2 ? found >= 2 : found < 2);
            assert_true(values[found] == mx_item(mx_sum(g)));
        }
    }
}

static void complete_gradients_are_reported(void **state)
{
    (void)state;
    mx_ready_listen(remember, told);
    check_order(false);
    check_order(true);
    mx_ready_leave(told);
    assert_false(mx_ready_wanted());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exchanges_of_one_process_are_copies), cmocka_unit_test(wrong_exchanges_are_errors),
        cmocka_unit_test(parts_of_an_order_cover_it), cmocka_unit_test(trainers_take_a_store_as_an_option),
        cmocka_unit_test(complete_gradients_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
