/* Hybridized blocks while things around them change: gradients of gradients, children and hooks of this and of other
 * blocks, casts, shapes inferred by the first call, unused random numbers, threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "block_check.h"
#include "gluon/compile/hybrid.h"
#include "gluon/step.h"

static void near(mx_array *a, mx_array *b, double tolerance)
{
    check_no_error();
    const double *wanted = check_values(a);
    check_near(b, mx_shape(a), wanted, tolerance);
}

static mx_array *data_of(mx_block *net, int64_t i)
{
    return mx_parameter_data(mx_params_at(mx_collect_params(net), i), mx_cpu(0));
}

/* ---- gradients of gradients ---------------------------------------------------------------------------------------- */

static mx_block *critic(bool dropout)
{
    mx_random_seed(11);
    mx_block *net = mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3), .in_channels = 2), mx_batch_norm(.in_channels = 4),
                                         mx_dense(5, .in_units = 64, .activation = "tanh"),
                                         mx_dropout(dropout ? 0.3 : 0.0), mx_dense(1, .in_units = 5));
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    return net;
}

/* The gradient penalty of a Wasserstein GAN: (|d net(x) / dx| - 1)^2, differentiated again. */
static mx_array *penalty(mx_block *net, mx_array *x)
{
    mx_array *loss = NULL;
    mx_record() {
        mx_array *y = mx_call(net, mx_mul_scalar(x, .scalar = 1.5));
        mx_array *g = mx_grad_of(MX_ARRAYS(y), MX_ARRAYS(x), (mx_arrays){0}, true, true).v[0];
        mx_array *length = g ? mx_norm(g, .axis = MX_DIMS(1, 2, 3)) : NULL;
        loss = length ? mx_add(mx_mean(mx_square(mx_minus_scalar(length, .scalar = 1))), mx_mean(y)) : NULL;
    }
    return loss;
}

static void check_penalty(bool dropout)
{
    MX_SCOPE;
    mx_block *net[2] = {critic(dropout), critic(dropout)};
    mx_array *x[2], *after[2];
    mx_hybridize(net[1]);
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < 2; i++) {
            x[i] = check_array(MX_DIMS(3, 2, 6, 6), step);
            mx_attach_grad(x[i], MX_GRAD_WRITE);
            mx_random_seed((uint64_t)step);
            mx_array *loss = penalty(net[i], x[i]);
            assert_non_null(loss);
            mx_backward(loss);
            after[i] = mx_random_uniform(.shape = MX_DIMS(3));
            check_no_error();
        }
        near(mx_gradient(x[0]), mx_gradient(x[1]), 1e-5);
        near(after[0], after[1], 0); /* the random generator's state is the same */
        for (int64_t i = 0; i < mx_params_count(mx_collect_params(net[0])); i++) {
            near(data_of(net[0], i), data_of(net[1], i), 1e-6); /* running statistics moved once */
            if (mx_gradient(data_of(net[0], i)) && i != 1)      /* the bias before a normalisation has no effect */
                near(mx_gradient(data_of(net[0], i)), mx_gradient(data_of(net[1], i)), 1e-5);
        }
    }
    assert_int_equal(mx_hybrid_count(net[1]), 1);
}

static void gradients_of_gradients(void **state)
{
    (void)state;
    check_penalty(false);
    check_penalty(true);
}

/* y = tanh(x)^3 through a plan, three times differentiated. */
static mx_array *cubic_forward(mx_block *self, mx_arrays in)
{
    (void)self;
    mx_array *t = mx_tanh(in.v[0]);
    return mx_mul(mx_mul(t, t), t);
}

static void third_order(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *block = mx_block_new("Cubic", cubic_forward, .hybrid = true);
    mx_array *third[2];
    for (int i = 0; i < 2; i++) {
        mx_array *x = check_array(MX_DIMS(5), 1), *y, *g;
        mx_attach_grad(x, MX_GRAD_WRITE);
        mx_record() {
            y = mx_call(block, x);
            g = mx_grad_of(MX_ARRAYS(y), MX_ARRAYS(x), (mx_arrays){0}, true, true).v[0];
            g = mx_grad_of(MX_ARRAYS(g), MX_ARRAYS(x), (mx_arrays){0}, true, true).v[0];
        }
        mx_backward(g);
        third[i] = mx_array_copy(mx_gradient(x));
        if (!i)
            mx_hybridize(block);
    }
    near(third[0], third[1], 1e-5);
    assert_int_equal(mx_hybrid_count(block), 1);
}

/* Some allocations fail during a replay: an error, nothing leaks. */
static void replay_without_memory(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = critic(true);
    mx_hybridize(net);
    mx_array *x = check_array(MX_DIMS(3, 2, 6, 6), 1);
    mx_attach_grad(x, MX_GRAD_WRITE);
    assert_non_null(penalty(net, x));
    int failures = 0, successes = 0; /* scratch memory that is kept for the next run is optional */
    for (int64_t n = 1; n < 20000 && successes < 10; n += 1 + n / 30) {
        MX_SCOPE;
        mx_alloc_fail_at(n);
        mx_array *loss = penalty(net, x);
        const mx_code code = loss ? mx_backward(loss) : mx_error_code();
        mx_alloc_fail_at(0);
        successes = code ? 0 : successes + 1;
        failures += code != MX_OK;
        if (code)
            check_error(MX_ERR_MEMORY, "");
    }
    assert_true(failures > 20);
}

/* ---- changes of trees ------------------------------------------------------------------------------------------------ */

static mx_code do_nothing(mx_block *block, mx_arrays in, mx_arrays out, void *user)
{
    (void)block, (void)in, (void)out, (void)user;
    return MX_OK;
}

static void other_blocks_keep_their_plans(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *inner = mx_hybrid_sequential(mx_dense(3), mx_dense(2));
    mx_block *net = mx_hybrid_sequential(mx_dense(4), inner), *other = mx_hybrid_sequential(mx_dense(2));
    mx_array *x = check_array(MX_DIMS(2, 4), 1);
    mx_initialize(net, mx_xavier(), mx_cpu(0)), mx_initialize(other, mx_xavier(), mx_cpu(0));
    mx_hybridize(net), mx_hybridize(other);
    mx_call(net, x), mx_call(other, x);
    check_no_error();
    const mx_plan *mine = mx_hybrid_last(net), *others = mx_hybrid_last(other);
    assert_non_null(mine), assert_non_null(others);
    /* Elsewhere: nothing is recompiled. */
    const uint64_t hook = mx_block_hook(mx_block_child_at(other, 0), true, do_nothing, NULL);
    mx_call(net, x);
    assert_ptr_equal(mx_hybrid_last(net), mine);
    mx_call(other, x);
    assert_int_equal(mx_hybrid_count(other), 0);
    mx_block_unhook(mx_block_child_at(other, 0), hook);
    mx_call(other, x);
    assert_int_equal(mx_hybrid_count(other), 1);
    mx_call(net, x);
    assert_ptr_equal(mx_hybrid_last(net), mine);
    /* Deep inside: the plan is recompiled. */
    mx_sequential_add(inner, mx_dense(7));
    mx_initialize(mx_block_child_at(inner, 2), NULL, mx_cpu(0));
    check_shape(mx_call(net, x), MX_DIMS(2, 7));
    check_no_error();
    mx_call(other, x);
    assert_int_equal(mx_hybrid_count(other), 1);
}

static void casts_make_new_plans(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_hybrid_sequential(mx_embedding(5, 3), mx_dense(2, .flatten = false));
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_hybridize(net);
    mx_array *x = check_integers(MX_DIMS(4), 1, 5), *y = mx_call(net, x);
    assert_int_equal(mx_dtype_of(y), MX_FLOAT32);
    for (int64_t i = 0; i < mx_params_count(mx_collect_params(net)); i++) /* the inputs stay the same */
        mx_parameter_cast(mx_params_at(mx_collect_params(net), i), MX_FLOAT64);
    mx_array *z = mx_call(net, x);
    check_no_error();
    assert_int_equal(mx_dtype_of(z), MX_FLOAT64);
    near(mx_cast(y, .dtype = MX_FLOAT64), z, 1e-6);
    mx_record()
        z = mx_call(net, x);
    assert_int_equal(mx_backward(z), MX_OK);
    for (int64_t i = 0; i < mx_params_count(mx_collect_params(net)); i++)
        mx_parameter_cast(mx_params_at(mx_collect_params(net), i), MX_FLOAT32);
    mx_record()
        z = mx_call(net, x);
    assert_int_equal(mx_backward(z), MX_OK);
    near(y, z, 0);
}

/* ---- the first call --------------------------------------------------------------------------------------------------- */

static mx_block *waiting_net(bool dropout)
{
    mx_block *net = mx_hybrid_sequential(mx_conv2d(3, MX_DIMS(3, 3)), mx_batch_norm(), mx_dropout(dropout ? 0.5 : 0.0),
                                         mx_hybrid_sequential(mx_dense(4, .activation = "relu"), mx_dense(2)));
    mx_random_seed(7);
    mx_initialize(net, mx_normal(.sigma = 0.3), mx_cpu(0));
    return net;
}

static void first_call_is_compiled(void **state)
{
    (void)state;
    for (int mode = 0; mode < 4; mode++) {
        MX_SCOPE;
        const bool dropout = mode & 1, recording = mode & 2;
        mx_block *net[2] = {waiting_net(dropout), waiting_net(dropout)};
        mx_array *y[2], *after[2];
        mx_hybridize(net[1]);
        for (int i = 0; i < 2; i++) {
            mx_random_seed(3);
            mx_mode now = mx_mode_enter(recording, recording);
            y[i] = mx_call(net[i], check_array(MX_DIMS(2, 1, 6, 6), 1));
            mx_mode_leave(&now);
            after[i] = mx_random_uniform(.shape = MX_DIMS(3));
        }
        near(y[0], y[1], 1e-6);
        near(after[0], after[1], 0);
        for (int64_t i = 0; i < mx_params_count(mx_collect_params(net[0])); i++)
            near(data_of(net[0], i), data_of(net[1], i), 1e-6);
        /* Masks that are drawn between initialisations need the imperative order, once. */
        assert_int_equal(mx_hybrid_count(net[1]), dropout && recording ? 0 : 1);
        mx_call(net[1], check_array(MX_DIMS(2, 1, 6, 6), 1));
        assert_true(mx_hybrid_count(net[1]) >= 1);
    }
}

/* A child that is never called stays deferred; its parent is still compiled. */
static mx_array *first_child_only(mx_block *self, mx_arrays in) { return mx_call(mx_block_child_at(self, 0), in.v[0]); }

static void unused_children_may_wait(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_block_new("Half", first_child_only, .hybrid = true);
    mx_block_child(net, "used", mx_dense(3));
    mx_block_child(net, "unused", mx_dense(3));
    mx_initialize(net, NULL, mx_cpu(0));
    mx_hybridize(net);
    check_shape(mx_call(net, check_array(MX_DIMS(2, 5), 1)), MX_DIMS(2, 3));
    assert_int_equal(mx_hybrid_count(net), 1);
    check_no_error();
    mx_block *bare = mx_dense(3);
    mx_hybridize(bare);
    assert_null(mx_call(bare, check_array(MX_DIMS(2, 5), 1)));
    check_error(MX_ERR_PARAMETER, "initialised");
}

/* ---- random numbers --------------------------------------------------------------------------------------------------- */

static mx_array *wasteful_forward(mx_block *self, mx_arrays in)
{
    (void)self;
    mx_random_uniform(.shape = MX_DIMS(7)); /* unused */
    mx_op_dropout(in.v[0], .p = 0.5);
    mx_array *noise = mx_random_normal(.shape = MX_DIMS(2, 3));
    return mx_add(mx_op_dropout(in.v[0], .p = 0.5), noise);
}

static void unused_numbers_are_drawn(void **state)
{
    (void)state;
    for (int training = 0; training < 2; training++) {
        MX_SCOPE;
        mx_block *block = mx_block_new("Wasteful", wasteful_forward, .hybrid = true);
        mx_array *x = check_array(MX_DIMS(2, 3), 1), *y[2][3];
        mx_attach_grad(x, MX_GRAD_WRITE);
        for (int i = 0; i < 2; i++) {
            mx_random_seed(9);
            for (int k = 0; k < 3; k++) {
                mx_mode mode = mx_mode_enter(training, training);
                y[i][k] = mx_call(block, x);
                mx_mode_leave(&mode);
            }
            if (!i)
                mx_hybridize(block);
        }
        for (int k = 0; k < 3; k++)
            near(y[0][k], y[1][k], 1e-6);
        assert_int_equal(mx_hybrid_count(block), 1);
    }
}

/* ---- threads ---------------------------------------------------------------------------------------------------------- */

typedef struct worker {
    mx_train_step *step;
    mx_block *other; /* is not trained: reading weights that another thread trains is the user's race */
    int number, wrong;
} worker;

static void *train(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < 20; i++) {
        MX_SCOPE;
        const int batch = 2 + (i + w->number) % 3; /* plans are compiled while others run */
        mx_array *loss =
            mx_train_step_run(w->step, check_array(MX_DIMS(batch, 4), i), check_integers(MX_DIMS(batch), i, 3));
        mx_array *y = loss ? mx_call(w->other, check_array(MX_DIMS(batch, 4), i)) : NULL;
        w->wrong += !y || !mx_train_step_compiled(w->step);
        mx_error_clear();
    }
    return NULL;
}

static void steps_from_many_threads(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_hybrid_sequential(mx_dense(8, .activation = "relu"), mx_dense(3));
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_hybridize(net);
    mx_block *other = mx_block_copy(net);
    mx_hybridize(other);
    mx_trainer *trainer = mx_trainer_with(mx_collect_params(net), mx_optimizer_new("adam", "learning_rate=0.01"));
    mx_train_step *step = mx_train_step_new(net, mx_softmax_cross_entropy_loss(), trainer);
    check_no_error();
    pthread_t threads[4];
    worker workers[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker){step, other, i, 0};
        pthread_create(&threads[i], NULL, train, &workers[i]);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].wrong, 0);
    }
    assert_int_equal(mx_optimizer_num_update(mx_trainer_optimizer(trainer)), 80);
}

/* A forward function that calls its own train step. */
static mx_train_step *own_step;
static mx_array *greedy_forward(mx_block *self, mx_arrays in)
{
    (void)self;
    mx_array *loss = mx_train_step_run(own_step, check_array(MX_DIMS(2, 4), 1), check_integers(MX_DIMS(2), 1, 3));
    return loss ? mx_relu(in.v[0]) : NULL;
}

static void steps_do_not_wait_for_themselves(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *greedy = mx_block_new("Greedy", greedy_forward, .hybrid = true);
    mx_block *net = mx_hybrid_sequential(greedy, mx_dense(3, .in_units = 4));
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_trainer *trainer = mx_trainer_with(mx_collect_params(net), mx_optimizer_new("sgd", "learning_rate=0.01"));
    own_step = mx_train_step_new(net, mx_softmax_cross_entropy_loss(), trainer);
    assert_null(mx_train_step_run(own_step, check_array(MX_DIMS(2, 4), 1), check_integers(MX_DIMS(2), 1, 3)));
    check_error(MX_ERR_STATE, "already running");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_gradients),
        cmocka_unit_test(third_order),
        cmocka_unit_test(replay_without_memory),
        cmocka_unit_test(other_blocks_keep_their_plans),
        cmocka_unit_test(casts_make_new_plans),
        cmocka_unit_test(first_call_is_compiled),
        cmocka_unit_test(unused_children_may_wait),
        cmocka_unit_test(unused_numbers_are_drawn),
        cmocka_unit_test(steps_from_many_threads),
        cmocka_unit_test(steps_do_not_wait_for_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
