/* One arithmetic: a training program gives the same bits imperatively, hybridized and as fused steps, with one thread and with
 * several, and when it is resumed from files; for every layer, loss and optimizer.
 *
 * A program trains a network for some steps and logs the losses and parameters of every step.  The imperative run with one
 * thread is the reference; every other way to run the program must log the same.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "layer_cases.h"

enum { STEPS = 3, RESUME_AT = 2, THREADS = 3 };

typedef enum way { IMPERATIVE, HYBRIDIZED, WHOLE_STEPS, RESUMED, WAYS } way;
static const char *const way_names[WAYS] = {"imperatively", "hybridized", "as whole steps", "resumed"};

typedef struct program {
    char what[256];
    mx_block *(*network)(const struct program *p);
    const layer_case *layer;
    const loss_case *loss; /* NULL: L2Loss against numbers of the shape of the result */
    const char *optimizer, *options;
    mx_dims data;
    int below;    /* data are integers below this; 0: numbers */
    int compiled; /* the last run of fused steps was one plan */
} program;

/* ---- the log of a run -------------------------------------------------------------------------------------------- */

typedef struct trail {
    double *v;
    int64_t n, room;
} trail;

static void write_down(trail *t, mx_array *x)
{
    check_no_error();
    assert_non_null(x);
    if (t->n + mx_size(x) > t->room) {
        t->room = 2 * (t->n + mx_size(x));
        t->v = realloc(t->v, (size_t)t->room * sizeof *t->v);
    }
    mx_array_read_doubles(x, t->v + t->n, mx_size(x));
    t->n += mx_size(x);
}

static void compare(const trail *a, const trail *b, const program *p, way w, int threads)
{
    if (a->n != b->n)
        fail_msg("%s: %lld numbers imperatively, %lld %s", p->what, (long long)a->n, (long long)b->n, way_names[w]);
    for (int64_t i = 0; i < a->n; i++)
        if (memcmp(&a->v[i], &b->v[i], sizeof *a->v) && !(isnan(a->v[i]) && isnan(b->v[i])))
            fail_msg("%s: number %lld of %lld is %.17g imperatively with one thread, %.17g %s with %d", p->what,
                     (long long)i, (long long)a->n, a->v[i], b->v[i], way_names[w], threads);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

typedef struct run {
    mx_block *net, *loss;
    mx_trainer *trainer;
    mx_array *data, *in[MOST_INPUTS]; /* of the loss; the first one is the prediction */
    int64_t n_in;
} run;

static mx_array *only_child(mx_block *self, mx_arrays in) { return mx_call(mx_block_child_at(self, 0), in.v[0]); }

/* Names that do not depend on earlier blocks: trainers order parameters by name. */
static mx_block *named_network(const program *p)
{
    mx_block *net = mx_block_new("Program", only_child, .hybrid = true, .prefix = "program_");
    mx_name_scope(net) mx_block_child(net, "network", p->network(p));
    return net;
}

static run open_run(const program *p, way w)
{
    run r = {.n_in = 2};
    r.data = p->below ? check_integers(p->data, 5, p->below) : check_array(p->data, 5);
    mx_random_seed(3);
    r.net = named_network(p);
    r.loss = p->loss ? loss_case_make(p->loss, r.in, &r.n_in) : mx_l2_loss();
    mx_initialize(r.net, mx_uniform(.scale = 0.4), mx_cpu(0));
    mx_array *result = mx_call(r.net, r.data);
    check_no_error();
    if (!p->loss)
        r.in[1] = check_array(mx_shape(result), 9);
    if (w != IMPERATIVE) {
        mx_hybridize(r.net);
        mx_hybridize(r.loss);
    }
    r.trainer = mx_trainer_new(mx_collect_params(r.net), p->optimizer, p->options);
    check_no_error();
    return r;
}

static mx_array *one_step(run *r, mx_train_step *whole)
{
    if (whole)
        return mx_train_step_run(whole, r->data, r->in[1]);
    mx_array *loss = NULL;
    mx_record() {
        r->in[0] = mx_call(r->net, r->data);
        loss = mx_block_call(r->loss, (mx_arrays){r->in, r->n_in});
    }
    check_no_error();
    mx_backward(loss);
    mx_trainer_step(r->trainer, mx_shape(r->data).d[0]);
    return loss;
}

/* Parameters and states are saved and loaded into a new program. */
static void resume(const program *p, run *r)
{
    char parameters[4096], states[4096];
    snprintf(parameters, sizeof parameters, "%s", check_file("resume.params"));
    snprintf(states, sizeof states, "%s", check_file("resume.states"));
    mx_save_parameters(r->net, parameters);
    mx_trainer_save_states(r->trainer, states);
    check_no_error();
    *r = open_run(p, IMPERATIVE);
    mx_load_parameters(r->net, parameters);
    mx_trainer_load_states(r->trainer, states);
    check_no_error();
}

static trail train(program *p, way w, int threads)
{
    MX_SCOPE;
    const int before = mx_num_threads();
    mx_set_num_threads(threads);
    run r = open_run(p, w);
    trail t = {0};
    mx_train_step *whole = w == WHOLE_STEPS ? mx_train_step_new(r.net, r.loss, r.trainer) : NULL;
    for (int k = 0; k < STEPS; k++) {
        if (w == RESUMED && k == RESUME_AT)
            resume(p, &r);
        mx_random_seed((uint64_t)k);
        write_down(&t, one_step(&r, whole));
        mx_params *params = mx_collect_params(r.net);
        for (int64_t i = 0; i < mx_params_count(params); i++)
            write_down(&t, mx_parameter_data(mx_params_at(params, i), mx_cpu(0)));
    }
    p->compiled = whole && mx_train_step_compiled(whole);
    mx_set_num_threads(before);
    return t;
}

static void check_program(program *p)
{
    const trail measure = train(p, IMPERATIVE, 1);
    for (way w = IMPERATIVE; w < WAYS; w++)
        for (int threads = 1; threads <= THREADS; threads += THREADS - 1) {
            if ((w == IMPERATIVE && threads == 1) || (w == WHOLE_STEPS && p->loss && p->loss->in[2].n) ||
                (w == RESUMED && threads > 1))
                continue; /* fused steps need a loss of prediction and label */
            trail other = train(p, w, threads);
            compare(&measure, &other, p, w, threads);
            free(other.v);
        }
    free(measure.v);
}

/* ---- layers, losses, optimizers ---------------------------------------------------------------------------------- */

#define SGD .optimizer = "sgd", .options = "learning_rate=0.1, momentum=0.9, wd=0.01"

/* The layer's first result, then two layers that learn. */
static mx_array *first_result(mx_block *self, mx_arrays in)
{
    return mx_call(mx_block_child_at(self, 1), mx_call(mx_block_child_at(self, 0), in.v[0]));
}

static mx_block *layer_network(const program *p)
{
    mx_array *unused;
    mx_block *net = mx_block_new("FirstResult", first_result, .hybrid = true);
    mx_block_child(net, "layer", layer_case_make(p->layer, &unused));
    mx_block_child(net, "head", mx_hybrid_sequential(mx_dense(4, .activation = "relu"), mx_dense(3)));
    return net;
}

static void test_layers(void **state)
{
    (void)state;
    for (const layer_case *c = layer_cases; c->cls; c++) {
        MX_SCOPE;
        program p = {.network = layer_network, .layer = c, SGD, .data = c->in, .below = c->below};
        mx_array *unused;
        snprintf(p.what, sizeof p.what, "%s(%s)", c->cls, c->options);
        if (layer_case_make(c, &unused))
            check_program(&p);
    }
}

static mx_block *loss_network(const program *p)
{
    const mx_dims *out = &p->loss->in[0];
    return mx_hybrid_sequential(mx_dense(6, .activation = "tanh", .flatten = false),
                                mx_dense(out->d[out->n - 1], .flatten = false));
}

static void test_losses(void **state)
{
    (void)state;
    for (const loss_case *c = loss_cases; c->cls; c++) {
        MX_SCOPE;
        program p = {.network = loss_network, .loss = c, SGD, .data = c->in[0]};
        snprintf(p.what, sizeof p.what, "%s(%s)", c->cls, c->options);
        if (mx_class_find(MX_LOSS, c->cls))
            check_program(&p);
        mx_error_clear();
    }
}

/* Weights of two axes only, as GroupAdaGrad requires, and enough of them for several threads. */
static mx_block *matrices(const program *p)
{
    (void)p;
    return mx_hybrid_sequential(mx_dense(160, .use_bias = false, .activation = "relu"), mx_dense(5, .use_bias = false));
}

static void test_optimizers(void **state)
{
    (void)state;
    const char *const options[] = {"", "wd=0.01", "clip_gradient=0.001, wd=0.01", "momentum=0.9", "centered=True"};
    int compiled = 0;
    for (int i = 0; mx_class_at(i); i++) {
        if (mx_class_kind_of(mx_class_at(i)) != MX_OPTIMIZER)
            continue;
        int taken = 0;
        for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
            MX_SCOPE;
            program p = {.network = matrices, .optimizer = mx_class_name(mx_class_at(i)), .options = options[k],
                         .data = {.n = 2, .d = {8, 256}}};
            snprintf(p.what, sizeof p.what, "%s(%s)", p.optimizer, options[k]);
            const bool known = mx_optimizer_new(p.optimizer, options[k]) != NULL;
            mx_error_clear();
            taken += known;
            if (known) {
                check_program(&p);
                trail t = train(&p, WHOLE_STEPS, 1);
                compiled += t.n && p.compiled;
                free(t.v);
            }
        }
        assert_true(taken > 0);
    }
    assert_true(compiled > 10);
}

/* ---- networks whose work is shared by threads -------------------------------------------------------------------- */

static mx_block *lenet(const program *p)
{
    (void)p;
    return mx_hybrid_sequential(mx_conv2d(6, MX_DIMS(5, 5), .padding = MX_DIMS(2, 2), .activation = "relu"),
                                mx_max_pool2d(MX_DIMS(2, 2)), mx_conv2d(16, MX_DIMS(5, 5), .activation = "relu"),
                                mx_max_pool2d(MX_DIMS(2, 2)), mx_dense(120, .activation = "relu"), mx_dropout(0.3),
                                mx_dense(84, .activation = "tanh"), mx_dense(10));
}

static mx_array *residual_forward(mx_block *self, mx_arrays in)
{
    mx_array *y = mx_call(mx_block_child_at(self, 0), in.v[0]);
    return mx_relu(mx_add(mx_mul(y, mx_sigmoid(y)), mx_mul_scalar(in.v[0], .scalar = 0.5)));
}

static mx_block *residual(const program *p)
{
    (void)p;
    mx_block *unit = mx_block_new("Residual", residual_forward, .hybrid = true);
    mx_block_child(unit, "body",
                   mx_hybrid_sequential(mx_conv2d(24, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1), .use_bias = false),
                                        mx_batch_norm(), mx_activation("relu"), mx_conv2d(24, MX_DIMS(1, 1)),
                                        mx_batch_norm(.use_global_stats = true)));
    return mx_hybrid_sequential(mx_conv2d(24, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1), .strides = MX_DIMS(2, 2)), unit,
                                mx_global_avg_pool2d(), mx_dense(10));
}

static mx_array *low_forward(mx_block *self, mx_arrays in)
{
    (void)self;
    return mx_clip(in.v[0], .a_min = 0, .a_max = 0.5);
}

/* Normalisations and limits: planes that are summed alone, small ones, single elements. */
static mx_block *limited(const program *p)
{
    (void)p;
    return mx_hybrid_sequential(
        mx_conv2d(5, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1)), mx_batch_norm(),
        mx_block_new("Low", low_forward, .hybrid = true), mx_conv2d(6, MX_DIMS(1, 1)), mx_batch_norm(.scale = false),
        mx_activation("relu"), mx_conv2d(7, MX_DIMS(5, 5), .strides = MX_DIMS(3, 3)), mx_batch_norm(),
        mx_block_new("Low", low_forward, .hybrid = true), mx_conv2d(8, MX_DIMS(1, 1)), mx_batch_norm(),
        mx_activation("relu"), mx_dense(4200), mx_batch_norm(), mx_activation("relu"), mx_dense(30), mx_batch_norm(),
        mx_block_new("Low", low_forward, .hybrid = true), mx_dense(10));
}

static mx_block *depthwise(const program *p)
{
    (void)p;
    return mx_hybrid_sequential(mx_conv2d(16, MX_DIMS(1, 1)), mx_conv2d(16, MX_DIMS(3, 3), .groups = 16),
                                mx_batch_norm(), mx_avg_pool2d(MX_DIMS(2, 2)), mx_layer_norm(), mx_dense(10));
}

static mx_block *recurrent(const program *p)
{
    (void)p;
    return mx_hybrid_sequential(mx_lstm(40, .num_layers = 2, .layout = "NTC"), mx_layer_norm(), mx_dense(10));
}

static mx_block *attention(const program *p)
{
    (void)p;
    return mx_hybrid_sequential(mx_transformer_encoder(.num_layers = 2, .units = 32, .hidden_size = 64, .num_heads = 4),
                                mx_dense(10));
}

static void test_networks(void **state)
{
    (void)state;
    const loss_case classes = {
        "SoftmaxCrossEntropyLoss", "", {{.n = 2, .d = {16, 10}}, {.n = 1, .d = {16}}}, 10, false};
    const program programs[] = {
        {"LeNet", lenet, .loss = &classes, SGD, .data = {.n = 4, .d = {16, 1, 28, 28}}},
        {"LeNet, adam", lenet, .loss = &classes, .optimizer = "adam", .options = "", .data = {.n = 4, .d = {16, 1, 28, 28}}},
        {"residual", residual, .loss = &classes, SGD, .data = {.n = 4, .d = {16, 3, 24, 24}}},
        {"limited", limited, .loss = &classes, SGD, .data = {.n = 4, .d = {16, 3, 70, 70}}},
        {"depthwise", depthwise, .loss = &classes, SGD, .data = {.n = 4, .d = {16, 16, 20, 20}}},
        {"LSTM", recurrent, .loss = &classes, SGD, .data = {.n = 3, .d = {16, 12, 30}}},
        {"transformer", attention, .loss = &classes, SGD, .data = {.n = 3, .d = {16, 20, 32}}},
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        MX_SCOPE;
        program p = programs[i];
        check_program(&p);
        const trail whole = train(&p, WHOLE_STEPS, 1);
        free(whole.v);
        if (!p.compiled)
            fail_msg("%s: whole steps ran as the plain loop", p.what);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers), cmocka_unit_test(test_losses),
                                       cmocka_unit_test(test_optimizers), cmocka_unit_test(test_networks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
