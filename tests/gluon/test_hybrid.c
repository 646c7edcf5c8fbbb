/* Hybridized blocks: imperative = recorded = hybridized = exported and loaded = compiled as a C file, for every layer and
 * loss, and for networks.
 *
 * Each case runs one forward and backward imperatively, then hybridized, from the same parameters and the same seed, and
 * compares results, gradients of inputs and parameters, and what the forward wrote to parameters (running statistics): bit
 * for bit, except for predictions without recording.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "base/flags.h"
#include "block_check.h"
#include "deploy_check.h"
#include "exec/plan/plan.h"
#include "gluon/compile/hybrid.h"
#include "layer_cases.h"

enum { MOST_PARAMETERS = 64 };
#define TOLERANCE 1e-6 /* of predictions, whose weights may be folded or packed */

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static double largest_difference(mx_array *a, mx_array *b)
{
    check_no_error();
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(mx_size(a), mx_size(b));
    const int64_t n = mx_size(a);
    double *x = malloc(((size_t)n * 2 + 1) * sizeof *x), *y = x + n, scale, worst = 0;
    scale = 1; /* as check_near: a gradient that is zero up to rounding has no scale of its own */
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
    if (d)
        fail_msg("%s: %s differs by %g between imperative and hybridized", what, which, d);
}

static void check_near_enough(mx_array *a, mx_array *b, const char *what, const char *which)
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
    if (*mx_flags_get()->cpu_level) /* what is written does not depend on the level: once is enough */
        return;
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
    mx_block_call(block, in); /* infers the shapes of parameters */
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
        for (int again = 0; again < 2; again++) { /* the second time with a reused frame */
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
        (training ? check_equal : check_near_enough)(plain.out, out, name, "the result without recording");
    }
    copy_parameters(params, start, true);
    check_files(block, in, what);
}

/* ---- every layer ------------------------------------------------------------------------------------------------- */

static void test_layers(void **state)
{
    (void)state;
    for (const layer_case *c = layer_cases; c->cls; c++) {
        MX_SCOPE;
        char what[256];
        mx_array *x;
        mx_block *layer = layer_case_make(c, &x);
        snprintf(what, sizeof what, "%s(%s)", c->cls, c->options);
        if (layer)
            check_block(layer, MX_ARRAYS(x), (const bool[]){!c->below}, what);
    }
}

/* Layers that read a second input. */
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
        for (const layer_case *c = layer_cases; c->cls && !found; c++)
            found = !strcmp(c->cls, mx_class_name(mx_class_at(k)));
        for (size_t i = 0; i < sizeof decoders / sizeof *decoders && !found; i++)
            found = !strcmp(decoders[i], mx_class_name(mx_class_at(k)));
        const char *group = mx_class_at(k)->group;
        /* Networks of the zoo have tests of their own (test_zoo.c, test_gpt2.c), and so do cells (test_cells.c). */
        found |= group && (!strcmp(group, "containers") || !strcmp(group, "zoo") || !strcmp(group, "text") ||
                           !strcmp(group, "cells"));
        if (!found && !((const mx_layer *)mx_class_at(k)->methods)->batched) /* image transforms are not layers */
            fail_msg("layer %s has no case", mx_class_name(mx_class_at(k)));
    }
}

/* ---- every loss -------------------------------------------------------------------------------------------------- */

static void test_losses(void **state)
{
    (void)state;
    for (const loss_case *c = loss_cases; c->cls; c++) {
        MX_SCOPE;
        char what[256];
        mx_array *in[MOST_INPUTS];
        int64_t n;
        mx_block *loss = loss_case_make(c, in, &n);
        snprintf(what, sizeof what, "%s(%s)", c->cls, c->options);
        if (loss)
            check_block(loss, (mx_arrays){in, n}, (const bool[]){true, false, false}, what);
    }
}

static void test_all_losses_have_cases(void **state)
{
    (void)state;
    for (int k = 0; mx_class_at(k); k++) {
        bool found = mx_class_kind_of(mx_class_at(k)) != MX_LOSS;
        for (const loss_case *c = loss_cases; c->cls && !found; c++)
            found = !strcmp(c->cls, mx_class_name(mx_class_at(k)));
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
        check_near_enough(mx_slice_axis(whole, .axis = 0, .begin = 0, .end = n), part, "MLP", "a part of the batch");
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
