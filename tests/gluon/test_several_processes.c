/* Several processes: exchanges, training, fused steps, a process that fails; on GPUs by NCCL and through pinned memory.
 *
 * Started alone on a machine with a GPU, it starts itself as two processes that share gpu(0): once without NCCL, once with
 * it, which NCCL from 2.30 on allows (NCCL_MULTI_RANK_GPU_ENABLE); older ones refuse, and the processes must find the way
 * through the host.  Without a GPU tests/distributed does this, and `make distributed-sanitize` starts this program:
 *
 *     mpirun -np 2 test_gluon_several_processes --inner cpu
 *
 * ctest-levels: best
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/flags.h"
#include "comm/lane.h"
#include "exec/plan/plan.h"
#include "gluon/comm.h"
#include "gluon/data.h"
#include "gluon/kvstore.h"
#include "gluon/nn.gen.h"
#include "gluon/op.gen.h"
#include "gluon/optimizer.h"
#include "gluon/step.h"

static const char *program;
static mx_context here; /* where arrays are */

static void assert_fine(void)
{
    if (mx_error_code())
        fail_msg("%s", mx_error_message());
}

static void assert_numbers(mx_array *x, int64_t n, double (*want)(int64_t i), double tolerance)
{
    double *got = malloc((size_t)n * sizeof *got);
    mx_array_read_doubles(x, got, (size_t)n);
    assert_fine();
    for (int64_t i = 0; i < n; i++)
        if (!(got[i] >= want(i) - tolerance && got[i] <= want(i) + tolerance))
            fail_msg("element %lld is %g, wanted %g", (long long)i, got[i], want(i));
    free(got);
}

/* ---- one process ----------------------------------------------------------------------------------------------------- */

static double counting(int64_t i) { return (double)(i % 100); }
static mx_array *counted(int64_t n, double factor, mx_dtype dtype)
{
    float *numbers = malloc((size_t)n * sizeof *numbers);
    for (int64_t i = 0; i < n; i++)
        numbers[i] = (float)(counting(i) * factor);
    mx_array *x = mx_array_to(mx_cast(mx_array_from(MX_DIMS(n), MX_FLOAT32, numbers), .dtype = dtype), here);
    free(numbers);
    return x;
}

static void a_group_of_one_process(void **state)
{
    (void)state;
    MX_SCOPE;
    const mx_lanes *lanes = mx_gpu_lanes();
    char group[MX_LANE_GROUP];
    assert_non_null(lanes);
    if (!lanes->takes(MX_FLOAT32)) {
        printf("NCCL is not installed: nothing was tested\n");
        skip();
    }
    assert_int_equal(lanes->name(group), MX_OK);
    mx_lane *lane = lanes->open(mx_gpu(0), 0, 1, group);
    assert_fine();
    mx_array *x = counted(1000, 1, MX_FLOAT32), *y = counted(1000, 0, MX_FLOAT32);
    assert_int_equal(lanes->begin(lane), MX_OK);
    lanes->all_reduce(lane, mx_data(x), mx_data(x), 1000, MX_FLOAT32, MX_SUM);
    lanes->broadcast(lane, mx_data(x), 1000, MX_FLOAT32, 0);
    lanes->all_gather(lane, mx_data(x), mx_data(y), 1000, MX_FLOAT32);
    int64_t ticket;
    lanes->mark(lane, &ticket);
    lanes->end(lane);
    assert_numbers(y, 1000, counting, 0);
    assert_true(lanes->reached(lane, ticket));
    lanes->abort(lane);
    assert_int_equal(lanes->all_reduce(lane, mx_data(x), mx_data(x), 1000, MX_FLOAT32, MX_SUM), MX_ERR_COMM);
    mx_error_clear();
    lanes->close(lane);
}

/* ---- exchanges of several processes ---------------------------------------------------------------------------------- */

static double summed(int64_t i) { return 3 * counting(i); } /* of rank 0's numbers and twice as large ones of rank 1 */
static double doubled(int64_t i) { return 2 * counting(i); }
static double halved(int64_t i) { return 1.5 * counting(i); }
static double half_of_sums(int64_t i) { return summed(i + (mx_rank() ? 500 : 0)); }
static double gathered(int64_t i) { return counting(i % 1000) * (i < 1000 ? 1 : 2); }

static void sums_of_all_types(void **state)
{
    (void)state;
    const mx_dtype types[] = {MX_FLOAT32, MX_FLOAT64, MX_FLOAT16, MX_BFLOAT16, MX_INT32, MX_INT64};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int64_t n = 1; n < 3000000; n = n * 1700 + 1) {
            MX_SCOPE;
            mx_array *x = counted(n, mx_rank() ? 2 : 1, types[t]), *most = mx_array_copy(x);
            mx_comm_all_reduce(mx_comm_world(), x, MX_SUM);
            mx_comm_work *work = mx_comm_all_reduce_start(mx_comm_world(), most, MX_MAX);
            mx_comm_wait(work);
            assert_numbers(x, n, summed, types[t] == MX_BFLOAT16 ? 2 : 0);
            assert_numbers(most, n, doubled, types[t] == MX_BFLOAT16 ? 1 : 0);
        }
}

static void other_exchanges(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_comm *world = mx_comm_world();
    mx_array *mean = counted(1000, mx_rank() ? 2 : 1, MX_FLOAT32), *x = mx_array_copy(mean),
             *first = mx_array_copy(mean);
    mx_comm_all_reduce(world, mean, MX_MEAN);
    assert_numbers(mean, 1000, halved, 0);
    mx_comm_broadcast(world, first, 1);
    assert_numbers(first, 1000, doubled, 0);
    assert_numbers(mx_comm_all_gather(world, x), 2000, gathered, 0);
    assert_numbers(mx_comm_reduce_scatter(world, x, MX_SUM), 500, half_of_sums, 0);
    mx_comm_all_to_all(world, x);
    mx_array *rows = mx_slice_axis(x, .axis = 0, .begin = 0, .end = mx_rank() ? 3 : 5);
    mx_array *all = mx_comm_all_gather(world, rows);
    assert_fine();
    assert_int_equal(mx_size(all), 8);
    assert_true(mx_context_equal(mx_context_of(all), here));
}

/* ---- training -------------------------------------------------------------------------------------------------------- */

#define STEPS 8
#define EXAMPLES 32

static mx_block *make_net(mx_context context)
{
    mx_random_seed(3);
    mx_block *net =
        mx_hybrid_sequential(mx_dense(300, .in_units = 20, .activation = "relu"),
                             mx_dense(200, .in_units = 300, .activation = "relu"), mx_dense(5, .in_units = 200));
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_hybridize(net);
    if (!mx_context_is_host(context))
        mx_params_reset_ctx(mx_collect_params(net), &context, 1);
    return net;
}

/* Examples [begin, end) of batch `step`. */
static void make_batch(int step, int begin, int end, mx_context context, mx_array **x, mx_array **y)
{
    mx_random_seed(100 + step);
    mx_array *data = mx_random_normal(.shape = MX_DIMS(EXAMPLES, 20)),
             *label = mx_cast(mx_random_randint(.low = 0, .high = 5, .shape = MX_DIMS(EXAMPLES)), .dtype = MX_FLOAT32);
    *x = mx_array_to(mx_slice_axis(data, .axis = 0, .begin = begin, .end = end), context);
    *y = mx_array_to(mx_slice_axis(label, .axis = 0, .begin = begin, .end = end), context);
}

static void train(mx_block *net, mx_trainer *trainer, bool fused, int begin, int end, mx_context context)
{
    mx_block *loss = mx_softmax_cross_entropy_loss();
    mx_hybridize(loss);
    mx_train_step *step = fused ? mx_train_step_new(net, loss, trainer) : NULL;
    for (int s = 0; s < STEPS; s++) {
        MX_SCOPE;
        mx_array *x, *y, *l = NULL;
        make_batch(s, begin, end, context, &x, &y);
        if (fused) {
            mx_train_step_run(step, x, y);
            assert_fine();
            assert_true(mx_train_step_compiled(step));
            continue;
        }
        mx_record()
            l = mx_call(loss, mx_call(net, x), y);
        mx_backward(l);
        mx_trainer_step(trainer, EXAMPLES);
        assert_fine();
    }
}

static void compare(mx_block *net, mx_block *want)
{
    mx_params *a = mx_collect_params(net), *b = mx_collect_params(want);
    for (int64_t i = 0; i < mx_params_count(a); i++) {
        MX_SCOPE;
        mx_array *x = mx_array_to(mx_parameter_data(mx_params_at(a, i), here), mx_cpu(0));
        mx_array *y = mx_parameter_data(mx_params_at(b, i), mx_cpu(0));
        const double most = mx_item(mx_max(mx_abs(mx_sub(x, y))));
        assert_fine();
        if (!(most < 2e-5))
            fail_msg("parameter %lld differs by %g", (long long)i, most);
        mx_array *least = mx_array_copy(x), *largest = mx_array_copy(x); /* the same bits on all processes */
        mx_comm_all_reduce(mx_comm_world(), least, MX_MIN);
        mx_comm_all_reduce(mx_comm_world(), largest, MX_MAX);
        assert_true(mx_item(mx_max(mx_abs(mx_sub(least, largest)))) == 0);
    }
}

static void check_training(bool fused, const char *more)
{
    MX_SCOPE;
    char options[200];
    snprintf(options, sizeof options, "learning_rate=0.1, momentum=0.9%s", more);
    mx_block *net = make_net(here), *alone = make_net(mx_cpu(0));
    mx_trainer *trainer = mx_trainer_new(mx_collect_params(net), "sgd", options);
    mx_kvstore *store = mx_kvstore_new("dist_sync");
    mx_trainer_set_store(trainer, store, MX_SYNC_GRADIENTS);
    const int part = EXAMPLES / mx_world_size();
    train(net, trainer, fused, part * mx_rank(), part * (mx_rank() + 1), here);
    const mx_route *route = mx_comm_route(mx_comm_world(), here);
    if (fused && route && route->grouped && mx_flags_get()->cuda_graphs && mx_stops_captured == 0)
        fail_msg("the exchange was not part of the plan's graph");
    train(alone, mx_trainer_new(mx_collect_params(alone), "sgd", options), false, 0, EXAMPLES, mx_cpu(0));
    compare(net, alone);
}

static void training_equals_one_process(void **state)
{
    (void)state;
    check_training(false, "");
}

static void so_do_fused_steps(void **state)
{
    (void)state;
    check_training(true, "");
}

/* Milliseconds of a fused step, for the log. */
static void report_time(void **state)
{
    (void)state;
    MX_SCOPE;
    if (mx_context_is_host(here))
        skip();
    mx_block *net = mx_hybrid_sequential(mx_dense(4096, .in_units = 1024, .activation = "relu"),
                                         mx_dense(4096, .in_units = 4096, .activation = "relu"),
                                         mx_dense(10, .in_units = 4096)),
             *loss = mx_softmax_cross_entropy_loss();
    mx_initialize(net, mx_xavier(), here);
    mx_hybridize(net), mx_hybridize(loss);
    mx_trainer *trainer = mx_trainer_new(mx_collect_params(net), "sgd", "learning_rate=0.01");
    mx_trainer_set_store(trainer, mx_kvstore_new("dist_sync"), MX_SYNC_GRADIENTS);
    mx_train_step *step = mx_train_step_new(net, loss, trainer);
    mx_array *x = mx_ones(.shape = MX_DIMS(256, 1024), .ctx = here), *y = mx_zeros(.shape = MX_DIMS(256), .ctx = here);
    struct timespec begin, end;
    for (int i = 0; i < 30; i++) {
        MX_SCOPE;
        mx_array *l = mx_train_step_run(step, x, y);
        if (i == 9 || i == 29) {
            mx_array_wait(l);
            clock_gettime(CLOCK_MONOTONIC, i == 9 ? &begin : &end);
        }
        assert_fine();
    }
    const mx_route *route = mx_comm_route(mx_comm_world(), here);
    if (!mx_rank())
        printf("%s: %.3f ms a step with %.0f MB of gradients\n", route && route->grouped ? "NCCL" : "through the host",
               ((double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6) / 20,
               4e-6 * (1024.0 * 4096 + 4096.0 * 4096));
}

/* ---- a process that fails -------------------------------------------------------------------------------------------- */

/* Rank 1 leaves; rank 0 must get an error that says so instead of waiting forever. */
static int fail_together(void)
{
    MX_SCOPE;
    mx_array *x = counted(1000, 1, MX_FLOAT32);
    mx_comm_all_reduce(mx_comm_world(), x, MX_SUM);
    mx_array_wait(x);
    if (mx_rank() == 1) {
        mx_comm_fail("rank 1 has had enough");
        exit(3);
    }
    for (int i = 0; i < 100 && !mx_error_code(); i++) {
        mx_comm_all_reduce(mx_comm_world(), x, MX_SUM);
        mx_array_wait(x);
    }
    printf("rank 0: %s\n", mx_error_message());
    fflush(NULL);
    return strstr(mx_error_message(), "rank 1 has had enough") ? 0 : 4;
}

/* ---- starting -------------------------------------------------------------------------------------------------------- */

static int start(const char *environment, const char *what)
{
    char command[4400];
    snprintf(
        command, sizeof command,
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 GLUON_CUDA_TF32=0 %s timeout 120 mpirun --oversubscribe --bind-to none "
        "-np 2 '%s' %s gpu",
        environment, program, what);
    fflush(NULL);
    return system(command);
}

static void need_mpirun(void)
{
    if (system("command -v mpirun >/dev/null")) {
        printf("there is no mpirun: nothing was tested\n");
        skip();
    }
}

static void two_processes_through_the_host(void **state)
{
    (void)state;
    need_mpirun();
    assert_int_equal(start("GLUON_NCCL_LIBRARY=-", "--inner"), 0);
}

static void two_processes_that_try_nccl(void **state)
{
    (void)state;
    need_mpirun();
    assert_int_equal(start("NCCL_MULTI_RANK_GPU_ENABLE=1", "--inner"), 0);
    assert_int_equal(start("NCCL_MULTI_RANK_GPU_ENABLE=1 GLUON_CUDA_GRAPHS=0", "--inner"), 0);
    assert_int_equal(start("", "--inner"), 0);
}

static void a_process_that_fails(void **state)
{
    (void)state;
    need_mpirun();
    assert_int_not_equal(start("NCCL_MULTI_RANK_GPU_ENABLE=1", "--fail"), 0);
    assert_int_not_equal(start("GLUON_NCCL_LIBRARY=-", "--fail"), 0);
}

int main(int count, char **words)
{
    const struct CMUnitTest inner[] = {
        cmocka_unit_test(sums_of_all_types),    cmocka_unit_test(other_exchanges),
        cmocka_unit_test(training_equals_one_process), cmocka_unit_test(so_do_fused_steps),
        cmocka_unit_test(report_time),
    };
    const struct CMUnitTest outer[] = {
        cmocka_unit_test(a_group_of_one_process),
        cmocka_unit_test(two_processes_through_the_host),
        cmocka_unit_test(two_processes_that_try_nccl),
        cmocka_unit_test(a_process_that_fails),
    };
    program = words[0];
    here = count > 2 && !strcmp(words[2], "cpu") ? mx_cpu(0) : mx_gpu(0);
    if (!mx_context_is_host(here) && !mx_num_gpus()) {
        printf("there is no GPU: nothing was tested\n");
        return 0;
    }
    if (count > 1)
        return strcmp(words[1], "--fail") ? cmocka_run_group_tests(inner, NULL, NULL) : fail_together();
    return cmocka_run_group_tests(outer, NULL, NULL);
}
