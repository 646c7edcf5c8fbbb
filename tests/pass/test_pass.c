/* Passes: what each of them does to small networks, as seen in the finished plan.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "pass/passes.h"
#include "plan_check.h"

static int steps(mx_block *block) { return (int)mx_hybrid_last(block)->program.steps.length; }

typedef mx_array *(*formula)(mx_array *x);
static mx_array *apply(mx_block *self, mx_arrays in)
{
    formula f;
    memcpy(&f, mx_block_user(self), sizeof f);
    return f(in.v[0]);
}

/* Runs the formula imperatively and planned, compares, and returns the block. */
static mx_block *planned(formula *f, mx_array *x, int recording)
{
    mx_block *block = mx_block_new("Formula", apply, .user = f, .hybrid = true);
    mx_array *plain = mx_call(block, x);
    mx_hybridize(block);
    mx_mode mode = mx_mode_enter(recording, recording);
    mx_array *out = mx_call(block, x);
    mx_mode_leave(&mode);
    check_no_error();
    check_near(out, mx_shape(plain), check_values(plain), 1e-6);
    assert_int_equal(mx_program_verify(&mx_hybrid_last(block)->program, "all"), MX_OK);
    return block;
}

static mx_array *copies(mx_array *x)
{
    return mx_exp(mx_copy(mx_mul_scalar(mx_stop_gradient(mx_op_dropout(x, .p = 0.5)), .scalar = 1)));
}
static mx_array *twice(mx_array *x) { return mx_add(mx_softmax(x), mx_softmax(x)); }
static mx_array *unused(mx_array *x) { return mx_softmax(x), mx_exp(x); }
/* Only the shape of the first step's result is needed. */
static mx_array *shape_alone(mx_array *x) { return mx_mul(x, mx_ones_like(mx_exp(x))); }
static mx_array *several(mx_array *x) { return mx_dot(mx_softmax(x), x, .transpose_b = true); }
static mx_array *constants(mx_array *x)
{
    mx_array *c = mx_sqrt(mx_mul_scalar(mx_ones(.shape = MX_DIMS(2, 3)), .scalar = 4));
    return mx_mul(x, c);
}
static mx_array *chain(mx_array *x)
{
    mx_array *y = mx_relu(mx_add(mx_mul_scalar(x, .scalar = 2), mx_tanh(x)));
    return mx_rminus_scalar(mx_mul(y, y), .scalar = 1);
}
static mx_array *pooled(mx_array *x)
{
    return mx_pooling(mx_relu(x), .kernel = MX_DIMS(2, 2), .stride = MX_DIMS(2, 2), .pool_type = MX_POOLING_MAX);
}
static mx_array *padded(mx_array *x)
{
    return mx_pooling(mx_relu(x), .kernel = MX_DIMS(2, 2), .pad = MX_DIMS(1, 1), .pool_type = MX_POOLING_MAX);
}

static void simplification(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = check_array(MX_DIMS(2, 3), 1);
    formula f = copies;
    assert_int_equal(steps(planned(&f, x, 0)), 1);
    f = twice;
    assert_int_equal(count(planned(&f, x, 0), "softmax"), 1);
    f = unused;
    assert_int_equal(steps(planned(&f, x, 0)), 1);
    f = shape_alone;
    assert_int_equal(count(planned(&f, x, 0), "exp"), 0);
    f = constants;
    mx_block *block = planned(&f, x, 0);
    assert_int_equal(steps(block), 1);
}

/* What a plan keeps of its parameters is freed with it. */
static void prepared_values_are_freed(void **state)
{
    (void)state;
    int64_t live = 0;
    for (int i = 0; i < 5; i++) {
        mx_scoped() {
            mx_block *net = mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3)), mx_batch_norm());
            mx_initialize(net, mx_xavier(), mx_cpu(0));
            mx_hybridize(net);
            for (int k = 0; k < 3; k++)
                mx_call(net, check_array(MX_DIMS(2, 3, 6, 6), k));
            check_no_error();
            assert_true(mx_hybrid_last(net)->memory.prepared > 0);
        }
        if (i == 2)
            live = mx_alloc_get_stats().live_blocks;
    }
    assert_int_equal(mx_alloc_get_stats().live_blocks, live);
}

/* A plan takes arrays of its own shapes and types. */
static void other_shapes_are_refused(void **state)
{
    (void)state;
    MX_SCOPE;
    formula f = chain;
    mx_block *block = planned(&f, check_array(MX_DIMS(2, 3), 1), 0);
    mx_plan *plan = mx_hybrid_last(block);
    mx_frame *frame = mx_plan_frame(plan);
    assert_non_null(frame);
    assert_int_equal(mx_frame_bind(frame, 0, check_array(MX_DIMS(4, 3), 1)), MX_ERR_SHAPE);
    check_error(MX_ERR_SHAPE, "expects (2, 3) of float32, got (4, 3) of float32");
    assert_int_equal(mx_frame_bind(frame, 0, mx_cast(check_array(MX_DIMS(2, 3), 1), .dtype = MX_INT32)), MX_ERR_SHAPE);
    check_error(MX_ERR_SHAPE, "expects (2, 3) of float32, got (2, 3) of int32");
    mx_release(frame);
}

static void pointwise_chains(void **state)
{
    (void)state;
    MX_SCOPE;
    formula f = chain;
    mx_block *block = planned(&f, check_array(MX_DIMS(2, 3), 1), 0);
    assert_int_equal(steps(block), 1);
    assert_int_equal(count(block, "_pointwise"), 1);
    block = planned(&f, check_array(MX_DIMS(40, 90), 1), 0); /* more than one tile */
    assert_int_equal(steps(block), 1);
    /* With its gradient. */
    mx_array *x = check_array(MX_DIMS(40, 90), 1), *y, *wanted;
    mx_attach_grad(x, MX_GRAD_WRITE);
    mx_record()
        y = chain(x);
    mx_backward(y);
    wanted = mx_array_copy(mx_gradient(x));
    mx_record()
        y = mx_call(block, x);
    mx_backward(y);
    check_near(mx_gradient(x), MX_DIMS(40, 90), check_values(wanted), 1e-6);
    assert_true(count(block, "_pointwise") >= 1);
}

static void pooling_before_relu(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = check_array(MX_DIMS(2, 3, 6, 6), 1), *y, *wanted;
    formula f = pooled, g = padded;
    mx_block *block = planned(&f, x, 0);
    assert_string_equal(mx_hybrid_last(block)->program.steps.items[0].op->name, "Pooling");
    assert_string_equal(mx_hybrid_last(planned(&g, x, 0))->program.steps.items[0].op->name, "relu");
    mx_attach_grad(x, MX_GRAD_WRITE);
    mx_record()
        y = pooled(x);
    mx_backward(y);
    wanted = mx_array_copy(mx_gradient(x));
    mx_record()
        y = mx_call(block, x);
    mx_backward(y);
    check_same(wanted, mx_gradient(x));
    assert_string_equal(mx_hybrid_last(block)->program.steps.items[0].op->name, "Pooling");
}

static void joined_layers(void **state)
{
    (void)state;
    MX_SCOPE;
    /* Too few channels for blocked layouts, at every level. */
    mx_block *net = mx_hybrid_sequential(mx_conv2d(2, MX_DIMS(3, 3), .activation = "relu"),
                                         mx_conv2d(2, MX_DIMS(3, 3), .use_bias = false), mx_batch_norm(),
                                         mx_activation("relu"), mx_dense(5, .activation = "relu"));
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_array *x = check_array(MX_DIMS(4, 2, 12, 12), 1), *plain, *y;
    mx_record()
        plain = mx_call(net, x); /* changes the running statistics */
    plain = mx_array_copy(mx_call(net, x));
    mx_hybridize(net);
    y = mx_call(net, x);
    check_near(y, mx_shape(plain), check_values(plain), 1e-6);
    assert_int_equal(count(net, "_convolution_relu"), 2);
    assert_int_equal(count(net, "_fold_norm"), 1);
    assert_int_equal(count(net, "BatchNorm"), 0);
    assert_int_equal(count(net, "_dense_relu") + count(net, "_packed_dense"), 1);
    mx_record()
        y = mx_call(net, x);
    check_no_error();
    assert_int_equal(count(net, "_norm_limited"), 1); /* the batch's own statistics */
    assert_int_equal(count(net, "BatchNorm"), 0);
    assert_int_equal(count(net, "_fold_norm"), 0);
}

static mx_array *rectified(mx_array *y) { return mx_relu(y); }
static mx_array *clipped(mx_array *y) { return mx_clip(y, .a_min = 0, .a_max = 0.5); }
static mx_array *clipped_below(mx_array *y) { return mx_clip(y, .a_min = -1, .a_max = 0.5); }
static mx_array *read_twice(mx_array *y) { return mx_add(mx_relu(y), y); }

typedef mx_array *(*limit_fn)(mx_array *y);
static limit_fn the_limit;
static mx_array *limited_forward(mx_block *self, mx_arrays in)
{
    return the_limit(mx_call(mx_block_child_at(self, 0), in.v[0]));
}

/* relu and clips from 0 on become part of the normalisation before them, with its gradient; nothing else does. */
static void limits_of_normalisations(void **state)
{
    (void)state;
    static const struct { limit_fn limit; mx_dtype type; int joined; } rows[] = {
        {rectified, MX_FLOAT32, 1}, {clipped, MX_FLOAT32, 1}, {rectified, MX_FLOAT64, 1}, {clipped_below, MX_FLOAT32, 0},
        {read_twice, MX_FLOAT32, 0}, {rectified, MX_FLOAT16, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        MX_SCOPE;
        the_limit = rows[i].limit;
        mx_block *net = mx_block_new("Limited", limited_forward, .hybrid = true);
        mx_block_child(net, "norm", mx_batch_norm());
        mx_initialize(net, mx_xavier(), mx_cpu(0));
        mx_block_cast(net, rows[i].type);
        mx_array *x = mx_cast(check_array(MX_DIMS(4, 3, 5), 1), .dtype = rows[i].type), *g[2], *y[2] = {NULL, NULL};
        mx_attach_grad(x, MX_GRAD_WRITE);
        for (int k = 0; k < 2; k++) {
            mx_array *head;
            mx_record()
                y[k] = mx_call(net, x), head = mx_square(y[k]);
            mx_backward(head);
            g[k] = mx_array_copy(mx_gradient(x));
            if (k == 0)
                mx_hybridize(net);
        }
        check_no_error();
        check_same(y[0], y[1]);
        check_same(g[0], g[1]);
        assert_int_equal(count(net, "_norm_limited"), rows[i].joined);
        assert_int_equal(count(net, "_backward_norm_apply"), rows[i].joined);
        assert_int_equal(count(net, "BatchNorm"), !rows[i].joined);
    }
}

static void dumps_are_readable(void **state)
{
    (void)state;
    MX_SCOPE;
    formula f = chain;
    mx_block *block = planned(&f, check_array(MX_DIMS(2, 3), 1), 0);
    mx_text text = {0}, dot = {0};
    mx_program_text(&mx_hybrid_last(block)->program, &text);
    mx_program_dot(&mx_hybrid_last(block)->program, &dot);
    assert_non_null(strstr(mx_text_get(&text), "_pointwise(v0:float32(2, 3))"));
    assert_non_null(strstr(mx_text_get(&text), "input 0"));
    assert_non_null(strstr(mx_text_get(&dot), "digraph plan {"));
    assert_null(strstr(mx_text_get(&text), "prepared")); /* it has no parameters */
    mx_text_free(&text);
    mx_text_free(&dot);
    f = several;
    block = planned(&f, check_array(MX_DIMS(2, 3), 1), 0);
    assert_true(steps(block) > 1);
    mx_program_text(&mx_hybrid_last(block)->program, &text);
    assert_null(strstr(mx_text_get(&text), "prepared"));
    mx_text_free(&text);
}

static void check_broken(const mx_program *program, const char *words)
{
    assert_int_not_equal(mx_program_verify(program, "nonsense"), MX_OK);
    check_error(MX_ERR_STATE, "nonsense", words);
}

static void the_verifier_notices(void **state)
{
    (void)state;
    MX_SCOPE;
    formula f = twice;
    mx_block *block = planned(&f, check_array(MX_DIMS(2, 3), 1), 0);
    mx_program *program = &mx_hybrid_last(block)->program;
    mx_step *first = &program->steps.items[0], *last = &program->steps.items[program->steps.length - 1];
    mx_shape_t *shape = &program->values.items[first->out[0]].shape;
    const int32_t input = first->in[0], output = first->out[0];
    const mx_shape_t known = *shape;

    first->in[0] = last->out[0];
    check_broken(program, "reads a value before it is computed");
    first->in[0] = (int32_t)program->values.length;
    check_broken(program, "reads a value that does not exist");
    first->in[0] = input, first->out[0] = -1;
    check_broken(program, "writes a value that does not exist");
    first->out[0] = output, *shape = MX_UNKNOWN_SHAPE;
    check_broken(program, "of unknown shape");
    *shape = known, last->dead = true;
    check_broken(program, "result 0 is not computed");
    last->dead = false;
    assert_int_equal(mx_program_verify(program, "nothing"), MX_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simplification), cmocka_unit_test(prepared_values_are_freed), cmocka_unit_test(other_shapes_are_refused),
        cmocka_unit_test(pointwise_chains),   cmocka_unit_test(pooling_before_relu),
        cmocka_unit_test(joined_layers), cmocka_unit_test(limits_of_normalisations),  cmocka_unit_test(dumps_are_readable), cmocka_unit_test(the_verifier_notices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
