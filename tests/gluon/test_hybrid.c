/* Hybridized blocks: imperative = recorded = hybridized = exported and loaded = compiled as a C file, for every layer and
 * loss, and for whole networks.
 *
 * Each case runs one forward and backward imperatively, then hybridized, from the same parameters and the same seed, and
 * compares results, gradients of inputs and parameters, and what the forward wrote to parameters (running statistics).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "block_check.h"
#include "deploy_check.h"
#include "exec/plan/plan.h"
#include "gluon/compile/hybrid.h"

enum { MOST_INPUTS = 3, MOST_PARAMETERS = 64 };
#define TOLERANCE 1e-6

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static double largest_difference(mx_array *a, mx_array *b)
{
    check_no_error();
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(mx_size(a), mx_size(b));
    const int64_t n = mx_size(a);
    double *x = malloc(((size_t)n * 2 + 1) * sizeof *x), *y = x + n, scale, worst = 0;
    scale = 1; /* as check_near: a gradient that is zero but for rounding has no size of its own */
    mx_array_read_doubles(a, x, n);
    mx_array_read_doubles(b, y, n);
    for (int64_t i = 0; i < n; i++)
        scale = fabs(x[i]) > scale ? fabs(x[i]) : scale;
    for (int64_t i = 0; i < n; i++) {
        const double d = x[i] == y[i] || (isnan(x[i]) && isnan(y[i])) ? 0 : fabs(x[i] - y[i]) / scale;
        worst = d > worst || isnan(d) ? d : worst;
    }
    free(x);
    return worst;
}

static void check_equal(mx_array *a, mx_array *b, const char *what, const char *which)
{
    const double d = largest_difference(a, b);
    if (!(d <= TOLERANCE))
        fail_msg("%s: %s differs by %g between imperative and hybridized", what, which, d);
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

typedef struct outcome {
    mx_array *out;
    mx_array *input_gradient[MOST_INPUTS];
    mx_array *gradient[MOST_PARAMETERS], *after[MOST_PARAMETERS];
} outcome;

static outcome run(mx_block *block, mx_arrays in, const bool *wants, bool training)
{
    outcome o = {0};
    mx_params *params = mx_collect_params(block);
    mx_random_seed(7);
    for (int64_t i = 0; i < in.n; i++)
        if (wants[i])
            mx_attach_grad(in.v[i], MX_GRAD_WRITE);
    mx_mode mode = mx_mode_enter(1, training);
    o.out = mx_block_call(block, in);
    mx_array *head = o.out ? mx_mul(o.out, check_array(mx_shape(o.out), 3)) : NULL;
    mx_mode_leave(&mode);
    check_no_error();
    mx_backward(head);
    check_no_error();
    o.out = mx_array_copy(o.out);
    for (int64_t i = 0; i < in.n; i++)
        o.input_gradient[i] = wants[i] ? mx_array_copy(mx_gradient(in.v[i])) : NULL;
    for (int64_t i = 0; i < mx_params_count(params); i++) {
        mx_array *data = mx_parameter_data(mx_params_at(params, i), mx_cpu(0)), *g = mx_gradient(data);
        o.gradient[i] = g ? mx_array_copy(g) : NULL;
        o.after[i] = mx_array_copy(data);
    }
    check_no_error();
    return o;
}

static void copy_parameters(mx_params *params, mx_array **values, bool back)
{
    for (int64_t i = 0; i < mx_params_count(params); i++) {
        mx_parameter *p = mx_params_at(params, i);
        if (back)
            mx_array_set(mx_parameter_data(p, mx_cpu(0)), values[i]);
        else
            values[i] = mx_array_copy(mx_parameter_data(p, mx_cpu(0)));
    }
    check_no_error();
}

static void compare(const outcome *a, const outcome *b, mx_params *params, const char *what)
{
    check_equal(a->out, b->out, what, "the result");
    for (int i = 0; i < MOST_INPUTS; i++)
        if (a->input_gradient[i])
            check_equal(a->input_gradient[i], b->input_gradient[i], what, "the gradient of an input");
    for (int64_t i = 0; i < mx_params_count(params); i++) {
        const char *name = mx_parameter_name(mx_params_at(params, i));
        assert_true(!a->gradient[i] == !b->gradient[i]);
        if (a->gradient[i])
            check_equal(a->gradient[i], b->gradient[i], what, name);
        check_equal(a->after[i], b->after[i], what, name);
    }
}

static void check_files(mx_block *block, mx_arrays in, const char *what)
{
    mx_hybridize_with(block, &(struct mx_hybridize_options){.active = false});
    mx_array *wanted = mx_array_copy(mx_block_call(block, in));
    check_no_error();
    if (!check_deployed(block, in, wanted, strchr(what, '(') ? "-O1" : "-O2", what))
        fail_msg("%s: cannot be written as C", what);
}

static void check_block(mx_block *block, mx_arrays in, const bool *wants, const char *what)
{
    check_no_error();
    assert_non_null(block);
    for (int64_t n = 0; in.n < 0; n++)
        if (in.v[n] == MX_END)
            in.n = n;
    mx_initialize(block, mx_xavier(), mx_cpu(0));
    mx_block_call(block, in); /* parameters get their shapes */
    check_no_error();
    mx_params *params = mx_collect_params(block);
    assert_true(mx_params_count(params) <= MOST_PARAMETERS);
    mx_array *start[MOST_PARAMETERS];
    copy_parameters(params, start, false);
    for (int training = 0; training < 2; training++) {
        char name[256];
        snprintf(name, sizeof name, "%s, %s", what, training ? "training" : "predicting");
        mx_hybridize_with(block, &(struct mx_hybridize_options){.active = false});
        copy_parameters(params, start, true);
        outcome plain = run(block, in, wants, training);
        mx_hybridize(block);
        for (int again = 0; again < 2; again++) { /* the second time from the free frame */
            copy_parameters(params, start, true);
            outcome planned = run(block, in, wants, training);
            compare(&plain, &planned, params, name);
        }
        if (block->hybrid && !mx_hybrid_count(block))
            fail_msg("%s: no plan was made", name);
        /* Without recording. */
        mx_random_seed(7);
        copy_parameters(params, start, true);
        mx_mode mode = mx_mode_enter(0, training);
        mx_array *out = mx_block_call(block, in);
        mx_mode_leave(&mode);
        check_equal(plain.out, out, name, "the result without recording");
    }
    copy_parameters(params, start, true);
    check_files(block, in, what);
}

/* ---- every layer ------------------------------------------------------------------------------------------------- */

typedef struct layer_case {
    const char *cls, *options;
    mx_dims in;
    int below; /* integers from 0 up to below; 0: real numbers */
} layer_case;

static const layer_case layers[] = {
    {"Dense", "units=5, activation=relu", {.n = 2, .d = {4, 6}}, 0},
    {"Dense", "units=5, flatten=False", {.n = 3, .d = {2, 3, 6}}, 0},
    {"Dense", "units=3, use_bias=False, activation=tanh", {.n = 3, .d = {2, 3, 2}}, 0},
    {"Identity", "", {.n = 2, .d = {2, 5}}, 0},
    {"Embedding", "input_dim=7, output_dim=3", {.n = 2, .d = {2, 5}}, 7},
    {"Flatten", "", {.n = 3, .d = {2, 3, 4}}, 0},
    {"Dropout", "rate=0.4", {.n = 2, .d = {40, 30}}, 0},
    {"Dropout", "rate=0.4, axes=(0,)", {.n = 2, .d = {40, 30}}, 0},
    {"Dropout", "rate=0", {.n = 2, .d = {4, 3}}, 0},
    {"BatchNorm", "", {.n = 4, .d = {4, 3, 5, 5}}, 0},
    {"BatchNorm", "scale=False, center=False, axis=-1", {.n = 2, .d = {8, 3}}, 0},
    {"BatchNorm", "use_global_stats=True", {.n = 4, .d = {4, 3, 2, 2}}, 0},
    {"BatchNormReLU", "", {.n = 4, .d = {4, 3, 5, 5}}, 0},
    {"SyncBatchNorm", "", {.n = 4, .d = {4, 3, 5, 5}}, 0},
    {"LayerNorm", "", {.n = 2, .d = {4, 6}}, 0},
    {"GroupNorm", "num_groups=2", {.n = 3, .d = {2, 4, 5}}, 0},
    {"InstanceNorm", "", {.n = 4, .d = {2, 3, 4, 4}}, 0},
    {"Activation", "activation=relu", {.n = 2, .d = {4, 6}}, 0},
    {"Activation", "activation=sigmoid", {.n = 2, .d = {4, 6}}, 0},
    {"Activation", "activation=tanh", {.n = 2, .d = {4, 6}}, 0},
    {"Activation", "activation=softrelu", {.n = 2, .d = {4, 6}}, 0},
    {"Activation", "activation=softsign", {.n = 2, .d = {4, 6}}, 0},
    {"LeakyReLU", "alpha=0.2", {.n = 2, .d = {4, 6}}, 0},
    {"PReLU", "", {.n = 2, .d = {4, 6}}, 0},
    {"ELU", "", {.n = 2, .d = {4, 6}}, 0},
    {"SELU", "", {.n = 2, .d = {4, 6}}, 0},
    {"GELU", "", {.n = 2, .d = {4, 6}}, 0},
    {"Swish", "", {.n = 2, .d = {4, 6}}, 0},
    {"SiLU", "", {.n = 2, .d = {4, 6}}, 0},
    {"Conv1D", "channels=4, kernel_size=3, activation=relu", {.n = 3, .d = {2, 3, 8}}, 0},
    {"Conv2D", "channels=4, kernel_size=(3, 3), padding=(1, 1), activation=relu", {.n = 4, .d = {2, 3, 6, 6}}, 0},
    {"Conv2D",
     "channels=4, kernel_size=(3, 3), strides=(2, 2), groups=2, use_bias=False",
     {.n = 4, .d = {2, 4, 7, 7}},
     0},
    {"Conv3D", "channels=2, kernel_size=(2, 2, 2)", {.n = 5, .d = {1, 2, 4, 4, 4}}, 0},
    {"Conv1DTranspose", "channels=2, kernel_size=3, strides=2", {.n = 3, .d = {2, 3, 5}}, 0},
    {"Conv2DTranspose",
     "channels=2, kernel_size=(3, 3), strides=(2, 2), activation=relu",
     {.n = 4, .d = {2, 3, 4, 4}},
     0},
    {"Conv3DTranspose", "channels=2, kernel_size=(2, 2, 2)", {.n = 5, .d = {1, 2, 3, 3, 3}}, 0},
    {"MaxPool1D", "", {.n = 3, .d = {2, 3, 8}}, 0},
    {"MaxPool2D", "", {.n = 4, .d = {2, 3, 6, 6}}, 0},
    {"MaxPool2D", "pool_size=(3, 3), strides=(2, 2), padding=(1, 1), ceil_mode=True", {.n = 4, .d = {2, 3, 6, 6}}, 0},
    {"MaxPool3D", "", {.n = 5, .d = {1, 2, 4, 4, 4}}, 0},
    {"AvgPool1D", "", {.n = 3, .d = {2, 3, 8}}, 0},
    {"AvgPool2D", "count_include_pad=False, padding=(1, 1)", {.n = 4, .d = {2, 3, 6, 6}}, 0},
    {"AvgPool3D", "", {.n = 5, .d = {1, 2, 4, 4, 4}}, 0},
    {"GlobalMaxPool1D", "", {.n = 3, .d = {2, 3, 8}}, 0},
    {"GlobalMaxPool2D", "", {.n = 4, .d = {2, 3, 6, 6}}, 0},
    {"GlobalMaxPool3D", "", {.n = 5, .d = {1, 2, 4, 4, 4}}, 0},
    {"GlobalAvgPool1D", "", {.n = 3, .d = {2, 3, 8}}, 0},
    {"GlobalAvgPool2D", "", {.n = 4, .d = {2, 3, 6, 6}}, 0},
    {"GlobalAvgPool3D", "", {.n = 5, .d = {1, 2, 4, 4, 4}}, 0},
    {"RNN", "hidden_size=4", {.n = 3, .d = {5, 2, 3}}, 0},
    {"LSTM", "hidden_size=4, num_layers=2", {.n = 3, .d = {5, 2, 3}}, 0},
    {"GRU", "hidden_size=4, bidirectional=True", {.n = 3, .d = {5, 2, 3}}, 0},
    {"ReflectionPad2D", "padding=1", {.n = 4, .d = {2, 3, 4, 4}}, 0},
    {"RNNCell", "hidden_size=4", {.n = 2, .d = {2, 3}}, 0},
    {"LSTMCell", "hidden_size=4", {.n = 2, .d = {2, 3}}, 0},
    {"GRUCell", "hidden_size=4", {.n = 2, .d = {2, 3}}, 0},
    {"MultiHeadAttention", "units=6, num_heads=2", {.n = 3, .d = {2, 5, 6}}, 0},
    {"PositionwiseFFN", "units=6, hidden_size=8", {.n = 3, .d = {2, 5, 6}}, 0},
    {"TransformerEncoderCell", "units=6, hidden_size=8, num_heads=2", {.n = 3, .d = {2, 5, 6}}, 0},
    {"TransformerEncoder", "num_layers=2, units=6, hidden_size=8, num_heads=2", {.n = 3, .d = {2, 5, 6}}, 0},
    {"SinusoidalPositionalEmbedding", "units=6", {.n = 3, .d = {2, 5, 6}}, 0},
    {"PixelShuffle1D", "factor=2", {.n = 3, .d = {2, 4, 3}}, 0},
    {"PixelShuffle2D", "factor=(2, 3)", {.n = 4, .d = {2, 6, 3, 2}}, 0},
    {"PixelShuffle3D", "factor=2", {.n = 5, .d = {1, 8, 2, 3, 2}}, 0},
    {"DeformableConvolution", "channels=4, kernel_size=(3, 3)", {.n = 4, .d = {2, 3, 5, 5}}, 0},
    {"ModulatedDeformableConvolution", "channels=4, kernel_size=(3, 3)", {.n = 4, .d = {2, 3, 5, 5}}, 0},
    {"Conv1DRNNCell",
     "input_shape=(3, 6), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 3, .d = {2, 3, 6}},
     0},
    {"Conv1DLSTMCell",
     "input_shape=(3, 6), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 3, .d = {2, 3, 6}},
     0},
    {"Conv1DGRUCell",
     "input_shape=(3, 6), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 3, .d = {2, 3, 6}},
     0},
    {"Conv2DRNNCell",
     "input_shape=(3, 5, 4), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 4, .d = {2, 3, 5, 4}},
     0},
    {"Conv2DLSTMCell",
     "input_shape=(3, 5, 4), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 4, .d = {2, 3, 5, 4}},
     0},
    {"Conv2DGRUCell",
     "input_shape=(3, 5, 4), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 4, .d = {2, 3, 5, 4}},
     0},
    {"Conv3DRNNCell",
     "input_shape=(2, 3, 4, 3), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 5, .d = {1, 2, 3, 4, 3}},
     0},
    {"Conv3DLSTMCell",
     "input_shape=(2, 3, 4, 3), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 5, .d = {1, 2, 3, 4, 3}},
     0},
    {"Conv3DGRUCell",
     "input_shape=(2, 3, 4, 3), hidden_channels=3, i2h_kernel=3, h2h_kernel=3, i2h_pad=1",
     {.n = 5, .d = {1, 2, 3, 4, 3}},
     0},
};

static void test_layers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        MX_SCOPE;
        char what[256];
        const layer_case *c = &layers[i];
        mx_class *cls = mx_class_find(MX_LAYER, c->cls);
        if (!cls) { /* a class that this build does not have */
            mx_error_clear();
            continue;
        }
        snprintf(what, sizeof what, "%s(%s)", c->cls, c->options);
        mx_array *x = c->below ? check_integers(c->in, 5, c->below) : check_array(c->in, 5);
        check_block(mx_class_create(cls, c->options), MX_ARRAYS(x), (const bool[]){!c->below}, what);
    }
}

/* Layers that look at a second input. */
static const char *const decoders[] = {"TransformerDecoderCell", "TransformerDecoder"};

static void test_decoders(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof decoders / sizeof *decoders; i++) {
        MX_SCOPE;
        mx_class *cls = mx_class_find(MX_LAYER, decoders[i]);
        mx_array *in[] = {check_array(MX_DIMS(2, 5, 6), 1), check_array(MX_DIMS(2, 3, 6), 2)};
        char what[128];
        snprintf(what, sizeof what, "%s()", decoders[i]);
        check_block(mx_class_create(cls, i ? "num_layers=2, units=6, hidden_size=8, num_heads=2"
                                           : "units=6, hidden_size=8, num_heads=2"),
                    (mx_arrays){in, 2}, (const bool[]){true, true}, what);
    }
}

static void test_all_layers_have_cases(void **state)
{
    (void)state;
    for (int k = 0; mx_class_at(k); k++) {
        MX_SCOPE;
        bool found =
            mx_class_kind_of(mx_class_at(k)) != MX_LAYER || !strncmp(mx_class_name(mx_class_at(k)), "Random", 6);
        for (size_t i = 0; i < sizeof layers / sizeof *layers && !found; i++)
            found = !strcmp(layers[i].cls, mx_class_name(mx_class_at(k)));
        for (size_t i = 0; i < sizeof decoders / sizeof *decoders && !found; i++)
            found = !strcmp(decoders[i], mx_class_name(mx_class_at(k)));
        const char *group = mx_class_at(k)->group;
        /* Networks of the zoo have tests of their own, which go through containers. */
        found |= group && (!strcmp(group, "containers") || !strcmp(group, "zoo"));
        if (!found && !((const mx_layer *)mx_class_at(k)->methods)->batched) /* transforms of images are no layers */
            fail_msg("layer %s has no case", mx_class_name(mx_class_at(k)));
    }
}

/* ---- every loss -------------------------------------------------------------------------------------------------- */

typedef struct loss_case {
    const char *cls, *options;
    mx_dims in[MOST_INPUTS];
    int below;  /* labels are integers below this; 0: real numbers */
    bool signs; /* labels are -1 or 1 */
} loss_case;

#define D1(a) \
    { \
        .n = 1, .d = { a } \
    }
#define D2(a, b) \
    { \
        .n = 2, .d = { a, b } \
    }
static const loss_case losses[] = {
    {"L2Loss", "", {D2(4, 5), D2(4, 5)}, 0, false},
    {"L1Loss", "weight=0.5", {D2(4, 5), D2(4, 5)}, 0, false},
    {"SigmoidBinaryCrossEntropyLoss", "", {D2(4, 5), D2(4, 5)}, 2, false},
    {"SoftmaxCrossEntropyLoss", "", {D2(4, 5), D1(4)}, 5, false},
    {"SoftmaxCrossEntropyLoss", "sparse_label=False", {D2(4, 5), D2(4, 5)}, 2, false},
    {"KLDivLoss", "from_logits=False", {D2(4, 5), D2(4, 5)}, 3, false},
    {"HuberLoss", "rho=0.5", {D2(4, 5), D2(4, 5)}, 0, false},
    {"HingeLoss", "", {D2(4, 5), D2(4, 5)}, 0, true},
    {"SquaredHingeLoss", "", {D2(4, 5), D2(4, 5)}, 0, true},
    {"LogisticLoss", "", {D2(4, 5), D2(4, 5)}, 0, true},
    {"LogisticLoss", "label_format=binary", {D2(4, 5), D2(4, 5)}, 2, false},
    {"PoissonNLLLoss", "", {D2(4, 5), D2(4, 5)}, 4, false},
    {"PoissonNLLLoss", "compute_full=True", {D2(4, 5), D2(4, 5)}, 4, false},
    {"CosineEmbeddingLoss", "", {D2(4, 5), D2(4, 5), D1(4)}, 0, true},
    {"TripletLoss", "", {D2(4, 5), D2(4, 5), D2(4, 5)}, 0, false},
    {"SDMLLoss", "", {D2(4, 5), D2(4, 5)}, 0, false},
    {"CTCLoss", "", {{.n = 3, .d = {2, 8, 5}}, D2(2, 3)}, 4, false},
};

static void test_losses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        MX_SCOPE;
        char what[256];
        const loss_case *c = &losses[i];
        mx_class *cls = mx_class_find(MX_LOSS, c->cls);
        if (!cls) {
            mx_error_clear();
            continue;
        }
        snprintf(what, sizeof what, "%s(%s)", c->cls, c->options);
        mx_array *in[MOST_INPUTS];
        int64_t n = 0;
        for (; n < MOST_INPUTS && c->in[n].n; n++) {
            const bool label = n == 1 || (n == 2 && c->signs);
            in[n] = label && c->below ? check_integers(c->in[n], 11, c->below) : check_array(c->in[n], 11 + (int)n);
            if (label && c->signs && (n == 2 || !c->in[2].n))
                in[n] = mx_minus_scalar(mx_mul_scalar(mx_greater_scalar(in[n], .scalar = 0), .scalar = 2), .scalar = 1);
        }
        check_block(mx_class_create(cls, c->options), (mx_arrays){in, n}, (const bool[]){true, false, false}, what);
    }
}

static void test_all_losses_have_cases(void **state)
{
    (void)state;
    for (int k = 0; mx_class_at(k); k++) {
        bool found = mx_class_kind_of(mx_class_at(k)) != MX_LOSS;
        for (size_t i = 0; i < sizeof losses / sizeof *losses && !found; i++)
            found = !strcmp(losses[i].cls, mx_class_name(mx_class_at(k)));
        if (!found)
            fail_msg("loss %s has no case", mx_class_name(mx_class_at(k)));
    }
}

/* ---- networks ---------------------------------------------------------------------------------------------------- */

static mx_block *lenet(void)
{
    return mx_hybrid_sequential(mx_conv2d(6, MX_DIMS(5, 5), .padding = MX_DIMS(2, 2), .activation = "relu"),
                                mx_max_pool2d(MX_DIMS(2, 2)), mx_conv2d(16, MX_DIMS(5, 5), .activation = "relu"),
                                mx_max_pool2d(MX_DIMS(2, 2)), mx_dense(120, .activation = "relu"), mx_dropout(0.3),
                                mx_dense(84, .activation = "tanh"), mx_dense(10));
}

static mx_block *mlp(void)
{
    return mx_hybrid_sequential(mx_dense(32, .activation = "relu"), mx_dropout(0.5), mx_dense(16, .activation = "relu"),
                                mx_dense(4));
}

static mx_array *residual_forward(mx_block *self, mx_arrays in)
{
    mx_array *y = mx_call(mx_block_child_at(self, 0), in.v[0]);
    return mx_relu(mx_add(y, mx_mul_scalar(in.v[0], .scalar = 0.5)));
}

static mx_block *residual(void)
{
    mx_block *unit = mx_block_new("Residual", residual_forward, .hybrid = true);
    mx_block_child(unit, "body",
                   mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1), .use_bias = false),
                                        mx_batch_norm(), mx_activation("relu"),
                                        mx_conv2d(4, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1)), mx_batch_norm()));
    return mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1)), unit, mx_global_avg_pool2d(),
                                mx_dense(3));
}

static void test_networks(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *images = check_array(MX_DIMS(4, 1, 28, 28), 2), *small = check_array(MX_DIMS(4, 3, 8, 8), 4);
    check_block(lenet(), MX_ARRAYS(images), (const bool[]){true}, "LeNet");
    check_block(mlp(), MX_ARRAYS(check_array(MX_DIMS(8, 12), 3)), (const bool[]){false}, "MLP");
    check_block(residual(), MX_ARRAYS(small), (const bool[]){true}, "residual");
}

static void test_batch_sizes(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mlp();
    mx_initialize(net, NULL, mx_cpu(0));
    mx_array *all = check_array(MX_DIMS(64, 12), 3);
    mx_array *whole = mx_array_copy(mx_call(net, all));
    mx_hybridize(net);
    for (int64_t n = 1; n <= 40; n++) {
        MX_SCOPE;
        mx_array *part = mx_call(net, mx_slice_axis(all, .axis = 0, .begin = 0, .end = n));
        check_equal(mx_slice_axis(whole, .axis = 0, .begin = 0, .end = n), part, "MLP", "a part of the batch");
    }
    assert_true(mx_hybrid_count(net) <= MX_MAX_PLANS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers),   cmocka_unit_test(test_all_layers_have_cases),
        cmocka_unit_test(test_decoders),
        cmocka_unit_test(test_losses),   cmocka_unit_test(test_all_losses_have_cases),
        cmocka_unit_test(test_networks), cmocka_unit_test(test_batch_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
