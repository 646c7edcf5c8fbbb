/* Training that computes values again instead of saving them: the same bits in less memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/limits.h"
#include "gluon/train/step_plan.h"
#include "pass/passes.h"
#include "plan_check.h"

enum { BATCH = 4, STEPS = 3, SIZE = 12 };

/* ---- networks ------------------------------------------------------------------------------------------------------- */

static mx_block *conv(int64_t channels) { return mx_conv2d(channels, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1)); }

/* Normalisation with and without relu, dropout with a mask that is broadcast, pooling, views. */
static mx_block *convolutional(void)
{
    mx_block *net = mx_hybrid_sequential(conv(8));
    for (int i = 0; i < 6; i++) {
        mx_sequential_add(net, conv(8));
        mx_sequential_add(net, mx_batch_norm());
        if (i % 2)
            mx_sequential_add(net, mx_activation("relu"));
        mx_sequential_add(net, i % 3 ? mx_dropout(0.25) : mx_dropout(0.5, .axes = MX_DIMS(2, 3)));
        if (i == 3)
            mx_sequential_add(net, mx_max_pool2d(MX_DIMS(2, 2)));
    }
    mx_sequential_add(net, mx_flatten());
    mx_sequential_add(net, mx_dense(10));
    return net;
}

/* Every layer is read by all later ones, and the first is a result, too. */
static mx_arrays dense_forward(mx_block *self, mx_arrays in)
{
    const int64_t last = mx_block_children(self) - 1;
    mx_array *x = in.v[0], *first = NULL;
    for (int64_t i = 0; i < last; i++) {
        mx_array *y = mx_call(mx_block_child_at(self, i), x);
        first = first ? first : y;
        y = mx_reshape(mx_tanh(mx_reshape(y, .shape = MX_DIMS(0, -1))), .shape = MX_DIMS(0, -1, SIZE, SIZE));
        x = mx_concat(MX_ARRAYS(x, y), .dim = 1);
    }
    return mx_results(mx_call(mx_block_child_at(self, last), x), first);
}

static mx_block *densely_connected(void)
{
    mx_block *net = mx_block_new("Dense", .forward_many = dense_forward, .hybrid = true);
    char name[16];
    for (int i = 0; i < 8; i++) {
        snprintf(name, sizeof name, "c%d", i);
        mx_block_child(net, name, conv(4));
    }
    mx_block_child(net, "out", mx_dense(10));
    return net;
}

static mx_array *as_sequence(mx_array *x) { return mx_reshape(x, .shape = MX_DIMS(0, 36, 12)); }

/* Attention, layer normalisation, gelu, dropout in and between them. */
static mx_block *transformer(void)
{
    mx_block *net = mx_hybrid_sequential(mx_hybrid_lambda(as_sequence));
    for (int i = 0; i < 5; i++)
        mx_sequential_add(net, mx_transformer_encoder_cell(.units = 12, .hidden_size = 48, .num_heads = 3,
                                                           .activation = "gelu", .dropout = i % 2 ? 0.1 : 0));
    mx_sequential_add(net, mx_dense(10));
    return net;
}

/* Recurrent layers, which draw random numbers, between dense ones. */
static mx_block *recurrent(void)
{
    mx_block *net = mx_hybrid_sequential(mx_hybrid_lambda(as_sequence));
    for (int i = 0; i < 3; i++) {
        mx_sequential_add(net, mx_lstm(12, .num_layers = 2, .layout = "NTC", .dropout = 0.3));
        mx_sequential_add(net, mx_dense(12, .activation = "tanh", .flatten = false));
    }
    mx_sequential_add(net, mx_dense(10));
    return net;
}

/* ---- training ------------------------------------------------------------------------------------------------------- */

typedef struct run {
    mx_block *net;
    mx_array *loss; /* of the last step */
    int64_t arena;  /* bytes */
    int64_t steps;  /* of the plan */
} run;

static mx_array *images(int i) { return check_array(MX_DIMS(BATCH, 3, SIZE, SIZE), i); }

static mx_array *loss_of(mx_block *criterion, mx_arrays out, int i)
{
    mx_array *loss = mx_call(criterion, out.v[0], check_integers(MX_DIMS(BATCH), i, 10));
    return out.n > 1 ? mx_add(mx_sum(mx_square(out.v[1])), mx_sum(loss)) : loss;
}

static run trained(mx_block *(*make)(void), bool recompute, bool whole)
{
    run r = {.net = make()};
    mx_random_seed(7);
    mx_initialize(r.net, mx_xavier(), mx_cpu(0));
    mx_hybridize_with(r.net, &(struct mx_hybridize_options){.active = true, .recompute = recompute});
    mx_block *criterion = mx_softmax_cross_entropy_loss();
    mx_trainer *trainer = mx_trainer_new(mx_collect_params(r.net), "sgd", "learning_rate=0.05, momentum=0.9");
    mx_train_step *step = whole ? mx_train_step_new(r.net, criterion, trainer) : NULL;
    for (int i = 0; i < STEPS; i++) {
        if (whole) {
            r.loss = mx_train_step_run(step, images(i), check_integers(MX_DIMS(BATCH), i, 10));
            continue;
        }
        mx_record()
            r.loss = loss_of(criterion, mx_block_call_many(r.net, MX_ARRAYS(images(i))), i);
        mx_backward(r.loss);
        mx_trainer_step(trainer, BATCH);
    }
    check_no_error();
    const mx_plan *plan = whole ? step->plans[0].compiled->plan : mx_hybrid_last(r.net);
    assert_int_equal(mx_program_verify(&plan->program, "segments"), MX_OK);
    r.arena = plan->memory.arena, r.steps = plan->n_calls;
    return r;
}

/* Also running statistics. */
static void check_equal(const run *a, const run *b)
{
    mx_params *p = mx_collect_params(a->net), *q = mx_collect_params(b->net);
    check_same(a->loss, b->loss);
    for (int64_t i = 0; i < mx_params_count(p); i++)
        check_same(mx_parameter_data(mx_params_at(p, i), mx_cpu(0)), mx_parameter_data(mx_params_at(q, i), mx_cpu(0)));
}

static const struct {
    const char *name;
    mx_block *(*make)(void);
    double share; /* of the memory, at most */
    bool many;    /* several results: no fused step */
} networks[] = {{"convolutional", convolutional, 0.7, false},
                {"densely connected", densely_connected, 0.8, true},
                {"transformer", transformer, 0.75, false},
                {"recurrent", recurrent, 1, false}};

static void same_bits_in_less_memory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        for (int whole = 0; whole < 2 - networks[i].many; whole++) {
            MX_SCOPE;
            const run saved = trained(networks[i].make, false, whole), again = trained(networks[i].make, true, whole);
            check_equal(&saved, &again);
            if ((double)again.arena > networks[i].share * (double)saved.arena)
                fail_msg("%s: %lld bytes with recomputing, %lld without", networks[i].name, (long long)again.arena,
                         (long long)saved.arena);
            assert_true(again.steps > saved.steps || networks[i].share == 1);
        }
}

/* ---- the planner's choice ------------------------------------------------------------------------------------------- */

static int64_t memory_in_use(void)
{
    mx_limits limits = mx_limits_get();
    limits.memory = (int64_t)1 << 30;
    assert_int_equal(mx_limits_set(limits), MX_OK);
    return limits.memory - mx_alloc_left();
}

/* Calls of the plan for a step whose arena takes 13 MB if values are saved; fails the test unless the step works. */
static int64_t steps_with(int64_t bytes_left)
{
    MX_SCOPE;
    mx_limits before = mx_limits_get(), limits = before;
    mx_block *net = convolutional();
    mx_random_seed(7);
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_hybridize(net);
    mx_array *x = check_array(MX_DIMS(64, 3, 24, 24), 1), *loss;
    mx_call(net, x); /* parameters */
    limits.memory = memory_in_use() + bytes_left;
    assert_int_equal(mx_limits_set(limits), MX_OK);
    mx_record()
        loss = mx_sum(mx_call(net, x));
    mx_backward(loss);
    check_no_error();
    mx_limits_set(before);
    return mx_hybrid_last(net)->n_calls;
}

/* Where the saved values would not fit, they are computed again without being asked for. */
static void short_memory(void **state)
{
    (void)state;
    const int64_t roomy = steps_with((int64_t)1 << 29), tight = steps_with((int64_t)12 << 20);
    assert_true(tight > roomy);
    assert_int_equal(steps_with((int64_t)1 << 29), roomy);
}

/* ---- the switch ------------------------------------------------------------------------------------------------------ */

/* A step of the prediction, or of a network whose forward has no backward, is never repeated; the switch can be taken back. */
static void switched(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = convolutional();
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_array *x = check_array(MX_DIMS(BATCH, 3, SIZE, SIZE), 1), *loss;
    int predicted[2], trained_steps[2];
    for (int recompute = 0; recompute < 2; recompute++) {
        mx_hybridize_with(net, &(struct mx_hybridize_options){.active = true, .recompute = recompute});
        mx_call(net, x);
        predicted[recompute] = mx_hybrid_last(net)->n_calls;
        mx_record()
            loss = mx_call(net, x);
        mx_backward(loss);
        trained_steps[recompute] = mx_hybrid_last(net)->n_calls;
    }
    assert_int_equal(predicted[0], predicted[1]);
    assert_true(trained_steps[1] > trained_steps[0]);
    mx_block *copy = mx_block_copy(net);
    mx_hybridize(net);
    for (int i = 0; i < 2; i++) {
        mx_record()
            loss = mx_call(i ? copy : net, x);
        assert_int_equal(mx_hybrid_last(i ? copy : net)->n_calls, trained_steps[i]);
    }
    check_no_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits_in_less_memory), cmocka_unit_test(short_memory),
                                       cmocka_unit_test(switched)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
