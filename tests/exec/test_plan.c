/* Plans: memory, frames, repeated and interleaved runs, threads, failing allocations, what cannot be compiled.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "block_check.h"
#include "exec/plan/plan.h"
#include "gluon/compile/hybrid.h"

static mx_block *small_net(void)
{
    mx_block *net = mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3), .activation = "relu"),
                                         mx_max_pool2d(MX_DIMS(2, 2)), mx_dense(8, .activation = "tanh"), mx_dense(3));
    mx_random_seed(5);
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_call(net, check_array(MX_DIMS(2, 1, 10, 10), 1));
    check_no_error();
    return net;
}

static mx_array *image(int seed) { return check_array(MX_DIMS(2, 1, 10, 10), seed); }
static mx_array *data_of(mx_block *net, int i)
{
    return mx_parameter_data(mx_params_at(mx_collect_params(net), i), mx_cpu(0));
}

static void near(mx_array *a, mx_array *b)
{
    const double *wanted = check_values(a);
    check_near(b, mx_shape(a), wanted, 1e-6);
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

static void two_forwards_one_backward(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = small_net();
    mx_array *a, *b, *wanted;
    mx_record()
        a = mx_add(mx_call(net, image(1)), mx_mul_scalar(mx_call(net, image(2)), .scalar = 2));
    mx_backward(a);
    wanted = mx_array_copy(mx_gradient(data_of(net, 0)));
    mx_hybridize(net);
    for (int i = 0; i < 3; i++) {
        mx_record() {
            a = mx_call(net, image(1));
            b = mx_call(net, image(2));
            a = mx_add(a, mx_mul_scalar(b, .scalar = 2));
        }
        mx_backward(a);
        near(wanted, mx_gradient(data_of(net, 0)));
    }
    /* One after the other, in the wrong order. */
    mx_array *first, *second;
    mx_record()
        a = mx_call(net, image(1));
    mx_record()
        b = mx_call(net, image(2));
    mx_backward(b);
    second = mx_array_copy(mx_gradient(data_of(net, 0)));
    mx_backward(a);
    first = mx_array_copy(mx_gradient(data_of(net, 0)));
    near(wanted, mx_add(first, mx_mul_scalar(second, .scalar = 2)));
}

static void retained_and_added(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = small_net();
    mx_hybridize(net);
    mx_array *y;
    mx_record()
        y = mx_call(net, image(1));
    mx_backward(y, .retain_graph = true);
    mx_array *once = mx_array_copy(mx_gradient(data_of(net, 0)));
    mx_backward(y, .retain_graph = true);
    check_same(once, mx_gradient(data_of(net, 0)));
    mx_backward(y);
    check_same(once, mx_gradient(data_of(net, 0)));
    mx_backward(y);
    check_error(MX_ERR_AUTOGRAD, "freed", "retain_graph");
    mx_parameter_set_grad_req(mx_params_at(mx_collect_params(net), 0), MX_GRAD_ADD);
    for (int i = 0; i < 3; i++) {
        mx_record()
            y = mx_call(net, image(1));
        mx_backward(y);
    }
    near(mx_mul_scalar(once, .scalar = 3), mx_gradient(data_of(net, 0)));
    /* A frozen parameter gets no gradient. */
    mx_parameter_set_grad_req(mx_params_at(mx_collect_params(net), 0), MX_GRAD_NULL);
    mx_record()
        y = mx_call(net, image(1));
    mx_backward(y);
    check_no_error();
    assert_null(mx_gradient(data_of(net, 0)));
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static void results_are_independent(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = small_net();
    mx_hybridize(net);
    mx_array *a = mx_call(net, image(1)), *before = mx_array_copy(a), *b = mx_call(net, image(2));
    check_same(before, a);
    assert_true(mx_array_data(a) != mx_array_data(b));
    mx_hybridize_with(net, &(struct mx_hybridize_options){.active = true, .static_alloc = true, .static_shape = true});
    a = mx_call(net, image(1)), before = mx_array_copy(a);
    b = mx_call(net, image(2));
    check_same(before, a);
    assert_true(mx_array_data(a) != mx_array_data(b));
}

/* A result that only a view or the tape holds is not written either; one that nobody holds is reused. */
static void held_results_stay(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = small_net();
    mx_hybridize_with(net, &(struct mx_hybridize_options){.active = true, .static_alloc = true});
    mx_array *y, *held[3], *before[3];
    for (int i = 0; i < 3; i++) {
        mx_record()
            y = mx_call(net, image(i + 1));
        held[i] = mx_detach(y);
        before[i] = mx_array_copy(y);
        if (i != 1)
            mx_backward(y);
    }
    check_no_error();
    for (int i = 0; i < 3; i++)
        check_same(before[i], held[i]);
    const void *first = NULL;
    for (int i = 0; i < 2; i++) {
        MX_SCOPE;
        const void *at = mx_array_data(mx_call(net, image(1)));
        assert_true(!i || at == first);
        first = at;
    }
}

static mx_arrays odd_forward(mx_block *self, mx_arrays in)
{
    (void)self;
    mx_array *x = in.v[0], *y = mx_square(x);
    return mx_results(x, y, y, mx_reshape(y, .shape = MX_DIMS(6)), mx_reshape(x, .shape = MX_DIMS(3, 2)), MX_END);
}

static void heads_that_share_memory(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *block = mx_block_new("Odd", NULL, .forward_many = odd_forward, .hybrid = true);
    mx_array *x = check_array(MX_DIMS(2, 3), 1);
    mx_attach_grad(x, MX_GRAD_WRITE);
    mx_arrays plain = mx_block_call_many(block, MX_ARRAYS(x));
    mx_hybridize(block);
    for (int recording = 0; recording < 2; recording++) {
        mx_mode mode = mx_mode_enter(recording, 1);
        mx_arrays planned = mx_block_call_many(block, MX_ARRAYS(x));
        mx_mode_leave(&mode);
        check_no_error();
        assert_int_equal(planned.n, plain.n);
        for (int64_t i = 0; i < plain.n; i++)
            check_same(plain.v[i], planned.v[i]);
        if (!recording)
            continue;
        mx_backward_all(planned, NULL);
        check_no_error();
        const double *v = check_values(x);
        double wanted[6];
        for (int i = 0; i < 6; i++)
            wanted[i] = 2 + 3 * 2 * v[i];
        check_near(mx_gradient(x), MX_DIMS(2, 3), wanted, 1e-6);
    }
    assert_int_equal(mx_hybrid_count(block), 2);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static mx_array *pointwise_forward(mx_block *self, mx_arrays in)
{
    (void)self;
    mx_array *x = in.v[0];
    for (int i = 0; i < 20; i++)
        x = mx_softmax(mx_relu(mx_plus_scalar(mx_transpose(x), .scalar = 0.1)));
    return x;
}

static void running_allocates_nothing(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *block = mx_block_new("Pointwise", pointwise_forward, .hybrid = true);
    mx_hybridize(block);
    mx_array *x = check_array(MX_DIMS(8, 8), 1);
    mx_call(block, x);
    check_no_error();
    mx_frame *frame = mx_plan_frame(mx_hybrid_last(block));
    assert_non_null(frame);
    assert_int_equal(mx_frame_bind(frame, 0, x), MX_OK);
    assert_int_equal(mx_frame_forward(frame), MX_OK);
    const int64_t before = mx_alloc_get_stats().calls;
    for (int i = 0; i < 10; i++)
        assert_int_equal(mx_frame_forward(frame), MX_OK);
    assert_int_equal(mx_alloc_get_stats().calls, before);
    mx_release(frame);
}

/* Gradients of the results are ones; results of the second part get persistent arrays. */
static void bind_second(mx_frame *frame, mx_array **results)
{
    const mx_program *program = &frame->plan->program;
    for (int64_t e = 0; e < program->externals.length; e++) {
        const mx_external *x = &program->externals.items[e];
        const mx_shape_t *shape = &program->values.items[x->value].shape;
        if (x->kind == MX_EXTERNAL_INPUT && x->index >= program->n_inputs)
            assert_int_equal(mx_frame_bind(frame, e, mx_ones(.shape = mx_dims_of_shape(shape))), MX_OK);
    }
    for (int64_t h = program->forward_results; h < program->results.length; h++) {
        const int32_t v = program->results.items[h];
        results[h - program->forward_results] =
            v < 0 ? NULL : mx_zeros(.shape = mx_dims_of_shape(&program->values.items[v].shape));
    }
}

/* Forward and backward of a network on one frame: from the third run on nothing is allocated, whatever scratch memory
 * the kernels use. */
static void check_steady(mx_block *net, mx_array *x, const char *what)
{
    mx_array *results[64] = {NULL};
    mx_plan_key key;
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_call(net, x);
    mx_mode mode = mx_mode_enter(1, 1);
    assert_true(mx_plan_key_make(&key, (mx_arrays){&x, 1}));
    mx_mode_leave(&mode);
    mx_compiled *compiled = mx_compile(&(struct mx_compile_request){.block = net, .key = &key});
    check_no_error();
    mx_frame *frame = mx_plan_frame(compiled->plan);
    assert_int_equal(mx_compiled_bind(compiled, frame, (mx_arrays){&x, 1}), MX_OK);
    bind_second(frame, results);
    int64_t before = 0;
    for (int i = 0; i < 6; i++) {
        if (i == 3)
            before = mx_alloc_get_stats().calls;
        assert_int_equal(mx_frame_forward(frame), MX_OK);
        assert_int_equal(mx_frame_backward(frame, results, false), MX_OK);
    }
    if (mx_alloc_get_stats().calls != before)
        fail_msg("%s: %lld allocations in three runs", what, (long long)(mx_alloc_get_stats().calls - before));
    mx_release(frame);
    mx_release(compiled);
}

static void training_allocates_nothing(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *images = check_array(MX_DIMS(4, 3, 16, 16), 1), *words = check_integers(MX_DIMS(6, 3), 1, 9);
    check_steady(small_net(), image(1), "a small convnet");
    check_steady(mx_hybrid_sequential(mx_conv2d(8, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1)), mx_batch_norm(),
                                      mx_leaky_relu(0.1), mx_conv2d(8, MX_DIMS(1, 1), .strides = MX_DIMS(2, 2)),
                                      mx_avg_pool2d(MX_DIMS(2, 2)), mx_dense(3)),
                 images, "batch normalisation, a convolution of one pixel");
    check_steady(mx_hybrid_sequential(mx_conv2d(6, MX_DIMS(3, 3), .groups = 3), mx_instance_norm(),
                                      mx_conv2d_transpose(4, MX_DIMS(3, 3), .strides = MX_DIMS(2, 2)),
                                      mx_global_max_pool2d(), mx_flatten(), mx_layer_norm()),
                 images, "groups, a transposed convolution, instance and layer normalisation");
    check_steady(mx_hybrid_sequential(mx_embedding(9, 5), mx_lstm(4), mx_dense(3, .flatten = false)), words,
                 "an embedding and an LSTM");
    check_steady(mx_hybrid_sequential(mx_dense(128, .activation = "relu"), mx_dropout(0.5), mx_dense(10)), images,
                 "dense layers and dropout");
}

static void calls_do_not_pile_up(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = small_net();
    mx_hybridize(net);
    int64_t live = 0;
    mx_array *x = image(1), *y;
    for (int i = 0; i < 20; i++) {
        MX_SCOPE;
        mx_record()
            y = mx_call(net, x);
        mx_backward(y);
        mx_call(net, x);
        if (i == 5)
            live = check_live();
        if (i > 5)
            assert_int_equal(check_live(), live);
    }
}

static void memory_is_shared(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = small_net();
    mx_hybridize(net);
    mx_array *x = check_array(MX_DIMS(16, 1, 10, 10), 1), *y;
    mx_call(net, x);
    check_no_error();
    const mx_plan *plan = mx_hybrid_last(net);
    assert_true((double)plan->memory.arena <= 0.6 * (double)plan->imperative_bytes);
    mx_record()
        y = mx_call(net, x);
    mx_backward(y);
    plan = mx_hybrid_last(net);
    assert_true((double)plan->memory.arena <= 0.7 * (double)plan->imperative_bytes);
    check_no_error();
}

/* ---- changes after compiling ------------------------------------------------------------------------------------- */

static mx_code count_calls(mx_block *block, mx_arrays in, mx_arrays out, void *user)
{
    (void)block, (void)in, (void)out;
    ++*(int *)user;
    return MX_OK;
}

static void hooks_inside_run(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = small_net();
    int calls = 0;
    mx_hybridize(net);
    mx_array *plain = mx_array_copy(mx_call(net, image(1)));
    uint64_t handle = mx_block_hook(mx_block_child_at(net, 1), false, count_calls, &calls);
    near(plain, mx_call(net, image(1)));
    assert_int_equal(calls, 1);
    mx_block_unhook(mx_block_child_at(net, 1), handle);
    near(plain, mx_call(net, image(1)));
    assert_int_equal(calls, 1);
    mx_block_hook(net, true, count_calls, &calls); /* of the block itself: called around the plan */
    mx_call(net, image(1));
    assert_int_equal(calls, 2);
    assert_true(mx_hybrid_count(net) > 0);
}

static void parameters_may_change(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = small_net(), *other = small_net();
    mx_hybridize(net);
    mx_call(net, image(1));
    for (int i = 0; i < 6; i++) /* new values */
        mx_array_set(data_of(net, i), mx_mul_scalar(data_of(net, i), .scalar = 0.5)),
            mx_array_set(data_of(other, i), mx_mul_scalar(data_of(other, i), .scalar = 0.5));
    near(mx_call(other, image(1)), mx_call(net, image(1)));
    mx_initialize_on(net, mx_one(), &(mx_context){MX_CPU, 0}, 1, true); /* new arrays */
    mx_initialize_on(other, mx_one(), &(mx_context){MX_CPU, 0}, 1, true);
    near(mx_call(other, image(1)), mx_call(net, image(1)));
    mx_block_cast(net, MX_FLOAT64); /* another type */
    mx_array *y = mx_call(net, mx_cast(image(1), .dtype = MX_FLOAT64));
    check_no_error();
    assert_int_equal(mx_dtype_of(y), MX_FLOAT64);
    mx_call(net, check_array(MX_DIMS(2, 1, 2, 2), 1));
    assert_true(mx_error_code() != MX_OK);
    mx_error_clear();
    mx_sequential_add(net, mx_dense(5, .dtype = MX_FLOAT64)); /* another child */
    mx_initialize(mx_block_child_at(net, 4), NULL, mx_cpu(0));
    check_shape(mx_call(net, mx_cast(image(1), .dtype = MX_FLOAT64)), MX_DIMS(2, 5));
}

/* ---- what cannot be compiled ------------------------------------------------------------------------------------- */

static mx_array *curious_forward(mx_block *self, mx_arrays in)
{
    (void)self;
    double value;
    if (mx_array_read_doubles(mx_sum(in.v[0]), &value, 1))
        return NULL;
    return value > 0 ? mx_relu(in.v[0]) : mx_negative(in.v[0]);
}

static void values_decide(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *block = mx_block_new("Curious", curious_forward, .hybrid = true);
    mx_hybridize(block);
    assert_null(mx_call(block, check_array(MX_DIMS(2, 3), 1)));
    assert_true(mx_error_code() != MX_OK);
    assert_non_null(strstr(mx_error_message(), "tracing"));
    mx_error_clear();
    mx_hybridize_with(block, &(struct mx_hybridize_options){.active = false});
    assert_non_null(mx_call(block, check_array(MX_DIMS(2, 3), 1)));
    check_no_error();
}

static mx_array *masked_forward(mx_block *self, mx_arrays in)
{
    (void)self;
    return mx_mul_scalar(mx_boolean_mask(in.v[0], mx_sum(mx_relu(in.v[0]), .axis = MX_DIMS(1))), .scalar = 2);
}

static void shapes_that_values_decide(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *block = mx_block_new("Masked", masked_forward, .hybrid = true);
    const float rows[] = {1, -1, -1, -1, 2, 3};
    mx_array *x = mx_array_from(MX_DIMS(3, 2), MX_FLOAT32, rows), *plain = mx_call(block, x);
    mx_hybridize(block);
    check_same(plain, mx_call(block, x));
    check_same(plain, mx_call(block, x));
    assert_int_equal(mx_hybrid_count(block), 0);
}

static void symbols_are_compiled_too(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = small_net();
    mx_array *x = image(3), *plain = mx_array_copy(mx_call(net, x));
    assert_int_equal(mx_export(net, check_file("plan"), 0), MX_OK);
    mx_block *loaded = mx_import(check_file("plan-symbol.json"), "data", check_file("plan-0000.params"));
    near(plain, mx_call(loaded, x));
    mx_hybridize(loaded);
    near(plain, mx_call(loaded, x));
    near(plain, mx_call(loaded, x));
    assert_int_equal(mx_hybrid_count(loaded), 1);
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

typedef struct visit {
    mx_block *net;
    mx_array *x, *wanted;
    int wrong;
} visit;

static void *use_net(void *arg)
{
    visit *v = arg;
    for (int i = 0; i < 50; i++) {
        MX_SCOPE;
        double a[6], b[6];
        mx_array *y = mx_call(v->net, v->x);
        if (!y || mx_array_read_doubles(y, a, 6) || mx_array_read_doubles(v->wanted, b, 6) || memcmp(a, b, sizeof a))
            v->wrong++;
    }
    return NULL;
}

static void many_threads(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = small_net();
    mx_hybridize(net);
    pthread_t threads[4];
    visit visits[4];
    for (int i = 0; i < 4; i++) {
        visits[i] = (visit){net, image(i), NULL, 0};
        visits[i].wanted = mx_array_copy(mx_call(net, visits[i].x));
    }
    mx_hybrid_forget(net); /* compiled again while all run */
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, use_net, &visits[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(visits[i].wrong, 0);
    }
}

/* ---- failing allocations ----------------------------------------------------------------------------------------- */

static void memory_runs_out(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = small_net();
    mx_array *x = image(1), *y = NULL, *wanted;
    mx_record()
        y = mx_call(net, x);
    mx_backward(y);
    wanted = mx_array_copy(mx_gradient(data_of(net, 0)));
    mx_hybridize(net);
    int failures = 0;
    for (int64_t n = 1; n < 20000; n += 1 + n / 60) {
        MX_SCOPE;
        mx_hybrid_forget(net);
        mx_alloc_fail_at(n);
        mx_record()
            y = mx_call(net, x);
        mx_code code = y ? mx_backward(y) : mx_error_code();
        mx_alloc_fail_at(0);
        if (!code) {
            check_no_error();
            near(wanted, mx_gradient(data_of(net, 0)));
            break;
        }
        failures++;
        check_error(MX_ERR_MEMORY, "");
    }
    assert_true(failures > 20);
}

/* What a plan keeps of its parameters is computed anew when they change; memory may run out in the middle of that. */
static void prepared_values_fail(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3)), mx_batch_norm(), mx_dense(3));
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_array *x = image(1), *wanted = mx_array_copy(mx_call(net, x)), *weight = data_of(net, 0);
    mx_hybridize(net);
    near(wanted, mx_call(net, x));
    assert_true(mx_hybrid_last(net)->memory.prepared > 0);
    int failures = 0;
    for (int64_t n = 1; n < 200; n++) {
        MX_SCOPE;
        mx_array *again = mx_array_copy(weight), *y = NULL;
        mx_array_set(weight, mx_zeros_like(weight));
        mx_call(net, x); /* prepares other values */
        mx_array_set(weight, again);
        check_no_error();
        mx_alloc_fail_at(n);
        y = mx_call(net, x);
        mx_alloc_fail_at(0);
        failures += !y;
        if (!y)
            check_error(MX_ERR_MEMORY, "");
        near(wanted, mx_call(net, x));
        if (y)
            break;
    }
    assert_true(failures > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_forwards_one_backward),
        cmocka_unit_test(retained_and_added),
        cmocka_unit_test(results_are_independent),
        cmocka_unit_test(held_results_stay),
        cmocka_unit_test(heads_that_share_memory),
        cmocka_unit_test(running_allocates_nothing),
        cmocka_unit_test(training_allocates_nothing),
        cmocka_unit_test(calls_do_not_pile_up),
        cmocka_unit_test(memory_is_shared),
        cmocka_unit_test(hooks_inside_run),
        cmocka_unit_test(parameters_may_change),
        cmocka_unit_test(values_decide),             cmocka_unit_test(shapes_that_values_decide),
        cmocka_unit_test(symbols_are_compiled_too),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(prepared_values_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
