/* Differentiation: modes, variables, backward, higher orders, custom functions, very long tapes.
 *
 * Every test checks for leaks: as many blocks are allocated afterwards as before.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/autograd.h"
#include "gluon/op.gen.h"
#include "ndarray/array.h"
#include "op/op.h"

/* ---- helpers -------------------------------------------------------------------------------------------- */

static int64_t blocks_before;

static void warm_up(void);

static int setup(void **state)
{
    (void)state;
    warm_up();
    mx_error_clear();
    blocks_before = mx_alloc_get_stats().live_blocks;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    int64_t after = mx_alloc_get_stats().live_blocks;
    if (mx_is_recording() || mx_is_training())
        return print_error("a mode was left on\n"), 1;
    if (after != blocks_before)
        print_error("%lld blocks before the test, %lld after\n", (long long)blocks_before, (long long)after);
    return after != blocks_before;
}

static mx_array *vector(double a, double b, double c)
{
    double values[3] = {a, b, c};
    mx_array *x = mx_array_from(MX_DIMS(3), MX_FLOAT64, values);
    assert_non_null(x);
    return x;
}

static mx_array *variable(double a, double b, double c)
{
    mx_array *x = vector(a, b, c);
    assert_int_equal(mx_attach_grad(x, MX_GRAD_WRITE), MX_OK);
    return x;
}

/* Once, so that what is created at first use does not look like a leak. */
static void warm_up(void)
{
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *y;
    mx_record()
        y = mx_mul(mx_square(x), mx_exp(x));
    mx_arrays g = mx_grad_of(MX_ARRAYS(y), MX_ARRAYS(x), (mx_arrays){0}, true, true);
    mx_backward(g.v[0]);
    mx_gradient(x);
}

static void assert_values(mx_array *x, double a, double b, double c)
{
    double got[3], wanted[3] = {a, b, c};
    if (mx_has_error())
        fail_msg("unexpected error: %s", mx_error_message());
    assert_non_null(x);
    assert_int_equal(mx_array_read_doubles(x, got, 3), MX_OK);
    for (int i = 0; i < 3; i++)
        if (!(fabs(got[i] - wanted[i]) <= 1e-9 * (1 + fabs(wanted[i]))))
            fail_msg("element %d is %.12g, wanted %.12g", i, got[i], wanted[i]);
}

static void assert_error(mx_code code, const char *part)
{
    if (mx_error_code() != code || !strstr(mx_error_message(), part))
        fail_msg("error %d \"%s\", wanted %d with \"%s\"", (int)mx_error_code(), mx_error_message(), (int)code, part);
    mx_error_clear();
}

/* ---- modes ---------------------------------------------------------------------------------------------- */

static void leave_early(void)
{
    mx_record() {
        if (mx_is_recording())
            return;
    }
}

static void test_modes(void **state)
{
    (void)state;
    assert_false(mx_is_recording());
    assert_false(mx_is_training());
    mx_record() {
        assert_true(mx_is_recording() && mx_is_training());
        mx_pause()
            assert_true(!mx_is_recording() && !mx_is_training());
        assert_true(mx_is_recording() && mx_is_training());
        mx_predict_mode()
            assert_true(mx_is_recording() && !mx_is_training());
    }
    mx_record_predict() assert_true(mx_is_recording() && !mx_is_training());
    mx_train_mode()
        assert_true(!mx_is_recording() && mx_is_training());
    leave_early();
    assert_false(mx_is_recording());
    assert_false(mx_set_recording(true));
    assert_true(mx_set_recording(false));
    assert_false(mx_set_training(true));
    assert_true(mx_set_training(false));
}

static void test_nothing_is_recorded_outside(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *y = mx_square(x), *z;
    assert_null(y->node);
    mx_record()
        z = mx_square(vector(1, 2, 3));
    assert_null(z->node); /* no variable took part */
    assert_int_not_equal(mx_backward(y), MX_OK);
    assert_error(MX_ERR_AUTOGRAD, "was not recorded");
    assert_int_not_equal(mx_backward(NULL), MX_OK);
    mx_error_clear();
}

/* ---- variables ------------------------------------------------------------------------------------------ */

static void test_write_and_add(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *a = vector(1, 2, 3), *y;
    assert_int_equal(mx_attach_grad(a, MX_GRAD_ADD), MX_OK);
    assert_values(mx_gradient(x), 0, 0, 0);
    for (int i = 1; i <= 3; i++) {
        MX_SCOPE;
        mx_record()
            y = mx_mul(mx_square(x), a);
        assert_int_equal(mx_backward(y), MX_OK);
        assert_values(mx_gradient(x), 2, 8, 18);            /* 2 x a, written */
        assert_values(mx_gradient(a), i * 1, i * 4, i * 9); /* x^2, accumulated */
    }
}

static void test_null_request(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *y;
    assert_int_equal(mx_attach_grad(x, MX_GRAD_NULL), MX_OK);
    assert_null(mx_gradient(x));
    mx_record()
        y = mx_square(x);
    assert_int_not_equal(mx_backward(y), MX_OK);
    assert_error(MX_ERR_AUTOGRAD, "recorded");
    assert_int_not_equal(mx_attach_grad(x, (mx_grad_req)7), MX_OK);
    assert_error(MX_ERR_ARGUMENT, "request 7");
    assert_int_not_equal(mx_attach_grad(NULL, MX_GRAD_WRITE), MX_OK);
    assert_error(MX_ERR_ARGUMENT, "NULL");
    assert_null(mx_gradient(NULL));
    mx_error_clear();
}

static void test_attach_drops_history(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *y, *z;
    mx_record()
        y = mx_square(x);
    assert_int_equal(mx_attach_grad(y, MX_GRAD_WRITE), MX_OK);
    mx_record()
        z = mx_square(y);
    assert_int_equal(mx_backward(z), MX_OK);
    assert_values(mx_gradient(y), 2, 8, 18);
    assert_values(mx_gradient(x), 0, 0, 0);
}

static void test_detach_stops_the_gradient(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *y;
    mx_record()
        y = mx_mul(mx_detach(mx_square(x)), x);
    assert_int_equal(mx_backward(y), MX_OK);
    assert_values(mx_gradient(x), 1, 4, 9);
}

static void test_mark_variables(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = vector(1, 2, 3), *w = vector(4, 5, 6), *gx = vector(7, 7, 7), *gw = vector(7, 7, 7), *y;
    const mx_grad_req reqs[] = {MX_GRAD_WRITE, MX_GRAD_ADD};
    assert_int_equal(mx_mark_variables(MX_ARRAYS(x, w), MX_ARRAYS(gx, gw), reqs), MX_OK);
    mx_record()
        y = mx_mul(x, w);
    assert_int_equal(mx_backward(y), MX_OK);
    assert_values(gx, 4, 5, 6);
    assert_values(gw, 8, 9, 10);
    assert_ptr_equal(mx_gradient(x), gx);
    assert_int_not_equal(mx_mark_variables(MX_ARRAYS(x, w), MX_ARRAYS(gx), NULL), MX_OK);
    assert_error(MX_ERR_ARGUMENT, "2 variables but 1 gradients");
    assert_int_not_equal(mx_mark_variables(MX_ARRAYS(x), MX_ARRAYS(mx_array_scalar(1)), NULL), MX_OK);
    assert_error(MX_ERR_SHAPE, "in shape or type");
    assert_int_not_equal(mx_mark_variables(MX_ARRAYS(x, NULL), MX_ARRAYS(gx, gw), NULL), MX_OK);
    mx_error_clear();
}

/* The gradient array is the caller's: a view that was taken before the backward must see the new values. */
static void test_gradient_keeps_its_place(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = vector(1, 2, 3), *g = vector(0, 0, 0), *seen = mx_detach(g), *y;
    assert_int_equal(mx_mark_variables(MX_ARRAYS(x), MX_ARRAYS(g), NULL), MX_OK);
    mx_record()
        y = mx_square(x);
    assert_int_equal(mx_backward(y), MX_OK);
    assert_values(seen, 2, 4, 6);
}

/* ---- backward ------------------------------------------------------------------------------------------- */

static void test_several_uses(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *y;
    mx_record()
        y = mx_add(mx_mul(x, x), mx_add(x, mx_mul(x, mx_square(x)))); /* x^2 + x + x^3 */
    assert_int_equal(mx_backward(y), MX_OK);
    assert_values(mx_gradient(x), 2 + 1 + 3, 4 + 1 + 12, 6 + 1 + 27);
    mx_record()
        y = mx_add(x, x); /* both edges lead to the variable itself */
    assert_int_equal(mx_backward(y), MX_OK);
    assert_values(mx_gradient(x), 2, 2, 2);
    assert_int_equal(mx_backward(x), MX_OK); /* backward from the variable itself */
    assert_values(mx_gradient(x), 1, 1, 1);
}

static void test_head_gradients(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *y, *z;
    mx_record() {
        y = mx_square(x);
        z = mx_exp(mx_negative(x));
    }
    assert_int_equal(mx_backward(y, .head_grad = vector(10, 100, 1000), .retain_graph = true), MX_OK);
    assert_values(mx_gradient(x), 20, 400, 6000);
    mx_backward_options options = {.head_grads = MX_ARRAYS(vector(1, 1, 1), MX_NONE), .retain_graph = true};
    assert_int_equal(mx_backward_all(MX_ARRAYS(y, z), &options), MX_OK);
    assert_values(mx_gradient(x), 2 - exp(-1), 4 - exp(-2), 6 - exp(-3));
    assert_int_equal(mx_backward_all(MX_ARRAYS(y, y), &(mx_backward_options){.retain_graph = true}), MX_OK);
    assert_values(mx_gradient(x), 4, 8, 12);
    assert_int_not_equal(mx_backward(y, .head_grad = mx_array_scalar(1)), MX_OK);
    assert_error(MX_ERR_SHAPE, "head gradient 0");
    options.head_grads = MX_ARRAYS(vector(1, 1, 1));
    assert_int_not_equal(mx_backward_all(MX_ARRAYS(y, z), &options), MX_OK);
    assert_error(MX_ERR_ARGUMENT, "2 heads but 1 head gradients");
}

static void test_retain_graph(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *y;
    mx_record()
        y = mx_square(mx_square(x));
    assert_int_equal(mx_backward(y, .retain_graph = true), MX_OK);
    assert_int_equal(mx_backward(y), MX_OK);
    assert_values(mx_gradient(x), 4, 32, 108);
    assert_int_not_equal(mx_backward(y), MX_OK);
    assert_error(MX_ERR_AUTOGRAD, "retain_graph");
    assert_values(mx_gradient(x), 4, 32, 108);
}

/* State that is carried from batch to batch: after backward it is a constant, a detach is not needed. */
static void test_results_become_constants(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *w = variable(1, 2, 3), *h = vector(1, 1, 1), *y, *z;
    for (int i = 0; i < 3; i++) {
        mx_record() {
            h = mx_mul(h, w);
            y = mx_square(h);
        }
        assert_int_equal(mx_backward(y), MX_OK);
        assert_values(mx_gradient(w), 2, 2 * pow(2, 2 * i + 1), 2 * pow(3, 2 * i + 1));
    }
    mx_record()
        z = mx_add(h, h);
    assert_int_not_equal(mx_backward(z), MX_OK); /* nothing but constants */
    assert_error(MX_ERR_AUTOGRAD, "was not recorded");
    mx_record() {
        y = mx_mul(w, w);
        z = mx_square(y);
    }
    assert_int_equal(mx_backward(y), MX_OK);
    assert_int_not_equal(mx_backward(z), MX_OK); /* recorded before that backward, and goes through its nodes */
    assert_error(MX_ERR_AUTOGRAD, "retain_graph");
}

static void test_fresh_gradients(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *other = variable(1, 2, 3), *y;
    assert_false(mx_gradient_fresh(x));
    mx_record()
        y = mx_square(x);
    assert_int_equal(mx_backward(y), MX_OK);
    assert_true(mx_gradient_fresh(x));
    assert_false(mx_gradient_fresh(other));
    assert_int_equal(mx_gradient_set_fresh(x, false), MX_OK);
    assert_false(mx_gradient_fresh(x));
    assert_int_equal(mx_assign(mx_gradient(x), vector(1, 1, 1), MX_ALL), MX_OK); /* only backward makes it fresh */
    assert_false(mx_gradient_fresh(x));
    assert_int_not_equal(mx_gradient_set_fresh(vector(1, 2, 3), true), MX_OK);
    assert_error(MX_ERR_AUTOGRAD, "no gradient");
}

/* A gradient that backward never writes. */
static void test_marked_null(void **state)
{
    (void)state;
    MX_SCOPE;
    const mx_grad_req null = MX_GRAD_NULL;
    mx_array *x = vector(1, 2, 3), *g = vector(7, 7, 7), *w = variable(1, 1, 1), *y;
    assert_int_equal(mx_mark_variables(MX_ARRAYS(x), MX_ARRAYS(g), &null), MX_OK);
    assert_ptr_equal(mx_gradient(x), g);
    mx_record()
        y = mx_mul(x, w);
    assert_int_equal(mx_backward(y), MX_OK);
    assert_values(g, 7, 7, 7);
    assert_values(mx_gradient(w), 1, 2, 3);
    mx_record()
        y = mx_square(x);
    assert_int_not_equal(mx_backward(y), MX_OK);
    assert_error(MX_ERR_AUTOGRAD, "was not recorded");
    assert_int_not_equal(mx_backward(x), MX_OK);
    assert_error(MX_ERR_AUTOGRAD, "was not recorded");
}

/* Reshaping operators copy; mx_array_reshape is a view.  Both are differentiable. */
static void test_reshaping_copies(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *copies[4], *view = mx_array_reshape(x, MX_DIMS(3, 1)), *y;
    copies[0] = mx_reshape(x, .shape = MX_DIMS(3, 1)), copies[1] = mx_op_flatten(view);
    copies[2] = mx_expand_dims(x, .axis = 0), copies[3] = mx_squeeze(view);
    assert_int_equal(mx_array_fill(x, 9), MX_OK);
    assert_values(view, 9, 9, 9);
    for (int i = 0; i < 4; i++)
        assert_values(copies[i], 1, 2, 3);
    mx_record()
        y = mx_square(mx_array_reshape(mx_reshape(x, .shape = MX_DIMS(1, 3)), MX_DIMS(3)));
    assert_int_equal(mx_backward(y), MX_OK);
    assert_values(mx_gradient(x), 18, 18, 18);
    assert_null(mx_array_reshape(x, MX_DIMS(2, 2)));
    mx_error_clear();
}

static void test_writing_into_recorded_arrays(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *y, *one = vector(1, 1, 1);
    mx_record() {
        y = mx_exp(x);
        assert_null(mx_add(one, one, .out = y));
        assert_error(MX_ERR_AUTOGRAD, "corrupt");
        assert_null(mx_add(x, one, .out = x));
        assert_error(MX_ERR_AUTOGRAD, "corrupt");
        assert_null(mx_square(y, .out = y));
        assert_error(MX_ERR_AUTOGRAD, "corrupt");
    }
    assert_int_equal(mx_backward(y), MX_OK);
    assert_values(mx_gradient(x), exp(1), exp(2), exp(3));
    assert_ptr_equal(mx_add(x, one, .out = x), x); /* not recording: an optimizer does this */
    assert_values(x, 2, 3, 4);
    assert_non_null(mx_gradient(x));
}

/* ---- higher orders -------------------------------------------------------------------------------------- */

static void test_grad_of(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *other = variable(1, 1, 1), *y;
    mx_record()
        y = mx_square(x);
    mx_arrays g = mx_grad_of(MX_ARRAYS(y), MX_ARRAYS(x, other), (mx_arrays){0}, true, false);
    assert_int_equal(g.n, 2);
    assert_values(g.v[0], 2, 4, 6);
    assert_values(g.v[1], 0, 0, 0);
    assert_null(g.v[0]->node);
    assert_values(mx_gradient(x), 0, 0, 0); /* stays as it was */
    assert_int_equal(mx_grad_of(MX_ARRAYS(y), MX_ARRAYS(vector(1, 2, 3)), (mx_arrays){0}, true, false).n, 0);
    assert_error(MX_ERR_AUTOGRAD, "variable");
}

/* A gradient that does not depend on the variable can still be differentiated: its gradient is zero. */
static void test_constant_gradient(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *y, *g;
    mx_record() {
        y = mx_radians(x);
        g = mx_grad_of(MX_ARRAYS(y), MX_ARRAYS(x), (mx_arrays){0}, true, true).v[0];
    }
    assert_int_equal(mx_array_fill(mx_gradient(x), 5), MX_OK);
    assert_int_equal(mx_backward(g), MX_OK);
    assert_values(mx_gradient(x), 0, 0, 0);
}

static void test_three_orders(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *y;
    mx_record()
        y = mx_square(mx_square(x)); /* x^4: 4 x^3, 12 x^2, 24 x */
    mx_arrays first = mx_grad_of(MX_ARRAYS(y), MX_ARRAYS(x), (mx_arrays){0}, true, true);
    assert_values(first.v[0], 4, 32, 108);
    mx_arrays second = mx_grad_of(first, MX_ARRAYS(x), (mx_arrays){0}, true, true);
    assert_values(second.v[0], 12, 48, 108);
    assert_int_equal(mx_backward(second.v[0]), MX_OK);
    assert_values(mx_gradient(x), 24, 48, 72);
}

static void test_three_orders_through_outputs(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(0.1, 0.2, 0.3), *y;
    mx_record()
        y = mx_exp(mx_mul_scalar(x, .scalar = 2));
    mx_arrays g = {(mx_array *const[]){y}, 1};
    for (int order = 1; order <= 3; order++) {
        g = mx_grad_of(g, MX_ARRAYS(x), (mx_arrays){0}, true, true);
        double k = pow(2, order);
        assert_values(g.v[0], k * exp(0.2), k * exp(0.4), k * exp(0.6));
    }
}

/* A gradient penalty: d/dw of |d loss/dx|^2, mixed with the loss itself. */
static void test_gradient_penalty(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *w = variable(2, 3, 4), *total;
    mx_record() {
        mx_array *y = mx_mul(w, mx_square(x));
        mx_arrays g = mx_grad_of(MX_ARRAYS(y), MX_ARRAYS(x), (mx_arrays){0}, true, true); /* 2 w x */
        total = mx_add(y, mx_square(g.v[0]));
    }
    assert_int_equal(mx_backward(total), MX_OK);
    assert_values(mx_gradient(w), 1 + 8 * 2, 4 + 8 * 3 * 4, 9 + 8 * 4 * 9);    /* x^2 + 8 w x^2 */
    assert_values(mx_gradient(x), 4 + 8 * 4, 12 + 8 * 9 * 2, 24 + 8 * 16 * 3); /* 2 w x + 8 w^2 x */
}

/* ---- custom functions ------------------------------------------------------------------------------------ */

typedef struct counters {
    int forwards, backwards, releases;
    bool fail_forward, fail_backward, give_nothing, give_garbage;
} counters;

/* y = x^2 (its gradient is wrong on purpose by a factor of ten, to recognise it) */
static mx_code forward(void *user, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    counters *c = user;
    c->forwards++;
    assert_int_equal(n_in, 1);
    assert_int_equal(n_out, 1);
    assert_false(mx_is_recording());
    if (c->fail_forward)
        return MX_ERR_CALLBACK;
    out[0] = c->give_nothing ? NULL : mx_square(in[0]);
    return MX_OK;
}

static mx_code backward(void *user, int n_out, mx_array *const *out_grads, int n_in, mx_array **in_grads)
{
    counters *c = user;
    c->backwards++;
    assert_int_equal(n_in, 1);
    assert_int_equal(n_out, 1);
    if (c->fail_backward)
        return MX_ERR_STATE;
    in_grads[0] = c->give_garbage ? MX_END : mx_mul(out_grads[0], vector(10, 20, 30));
    return MX_OK;
}

static void count_release(void *user) { ((counters *)user)->releases++; }
static const mx_function square_function = {
    .name = "my_square", .forward = forward, .backward = backward, .release = count_release, .n_out = 1};

static void test_function(void **state)
{
    (void)state;
    counters c = {0};
    {
        MX_SCOPE;
        mx_array *x = variable(1, 2, 3), *y;
        mx_record()
            y = mx_mul(mx_function_call(&square_function, &c, MX_ARRAYS(x)).v[0], x);
        assert_values(y, 1, 8, 27);
        assert_int_equal(mx_backward(y), MX_OK);
        assert_values(mx_gradient(x), 10 + 1, 40 + 4, 90 + 9);
        assert_int_equal(c.forwards, 1);
        assert_int_equal(c.backwards, 1);
    }
    assert_int_equal(c.releases, 1);
    {
        MX_SCOPE;
        mx_arrays y = mx_function_call(&square_function, &c, MX_ARRAYS(vector(1, 2, 3)));
        assert_values(y.v[0], 1, 4, 9);
        assert_int_equal(c.releases, 2); /* nothing was recorded: released at once */
    }
}

static void test_failing_functions(void **state)
{
    (void)state;
    MX_SCOPE;
    counters c = {.fail_forward = true};
    mx_array *x = variable(1, 2, 3);
    mx_arrays y;
    mx_record()
        y = mx_function_call(&square_function, &c, MX_ARRAYS(x));
    assert_null(y.v[0]);
    assert_error(MX_ERR_CALLBACK, "my_square");

    c = (counters){.give_nothing = true};
    mx_record()
        y = mx_function_call(&square_function, &c, MX_ARRAYS(x));
    assert_null(y.v[0]);
    assert_error(MX_ERR_ARGUMENT, "my_square");

    c = (counters){.fail_backward = true};
    mx_record()
        y = mx_function_call(&square_function, &c, MX_ARRAYS(x));
    assert_int_not_equal(mx_backward(y.v[0]), MX_OK);
    assert_error(MX_ERR_CALLBACK, "my_square");

    c = (counters){.give_garbage = true};
    mx_record()
        y = mx_function_call(&square_function, &c, MX_ARRAYS(x));
    assert_int_not_equal(mx_backward(y.v[0]), MX_OK);
    assert_error(MX_ERR_ARGUMENT, "my_square");

    assert_null(mx_function_call(NULL, &c, MX_ARRAYS(x)).v[0]);
    assert_error(MX_ERR_ARGUMENT, "function");
    assert_null(mx_function_call(&square_function, &c, MX_ARRAYS(NULL)).v[0]);
    assert_error(MX_ERR_ARGUMENT, "my_square");
    assert_null(mx_function_call(&square_function, &c, MX_ARRAYS(mx_variable("x"))).v[0]);
    assert_error(MX_ERR_UNSUPPORTED, "input 0 is symbolic");
    assert_false(mx_is_recording());
}

/* A gradient of another shape than the input must not be added. */
static mx_code wrong_shape(void *user, int n_out, mx_array *const *out_grads, int n_in, mx_array **in_grads)
{
    (void)user, (void)n_out, (void)out_grads, (void)n_in;
    in_grads[0] = mx_array_scalar(1);
    return MX_OK;
}

static void test_function_with_gradient_of_wrong_shape(void **state)
{
    (void)state;
    MX_SCOPE;
    counters c = {0};
    mx_function f = square_function;
    f.backward = wrong_shape;
    mx_array *x = variable(1, 2, 3);
    mx_arrays y;
    mx_record()
        y = mx_function_call(&f, &c, MX_ARRAYS(x));
    assert_int_not_equal(mx_backward(y.v[0]), MX_OK);
    assert_error(MX_ERR_SHAPE, "my_square");
    assert_values(mx_gradient(x), 0, 0, 0);
}

/* ---- memory --------------------------------------------------------------------------------------------- */

enum { LAYERS = 12, ELEMENTS = 5000 };

/* The identity; the last backward function that runs notes how many bytes are in use then. */
static mx_code copy_forward(void *user, int n_in, mx_array *const *in, int n_out, mx_array **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = mx_array_copy(in[0]);
    return out[0] ? MX_OK : mx_error_code();
}

static mx_code note_bytes(void *user, int n_out, mx_array *const *out_grads, int n_in, mx_array **in_grads)
{
    (void)n_out, (void)n_in;
    *(int64_t *)user = mx_alloc_get_stats().live_bytes;
    in_grads[0] = out_grads[0];
    return MX_OK;
}

/* A gradient between two operators is released once it has been used, even if the graph stays. */
static void test_gradients_are_released(void **state)
{
    (void)state;
    MX_SCOPE;
    int64_t bytes = 0;
    const mx_function f = {.name = "notes", .forward = copy_forward, .backward = note_bytes, .n_out = 1};
    mx_array *x = mx_ones(.shape = MX_DIMS(ELEMENTS)), *y;
    mx_attach_grad(x, MX_GRAD_WRITE);
    mx_record() {
        y = mx_function_call(&f, &bytes, MX_ARRAYS(x)).v[0];
        for (int i = 0; i < LAYERS; i++)
            y = mx_sin(y);
    }
    const int64_t before = mx_alloc_get_stats().live_bytes;
    assert_int_equal(mx_backward(y, .retain_graph = true), MX_OK);
    assert_in_range(bytes - before, 0, LAYERS / 2 * ELEMENTS * (int64_t)sizeof(float));
}

/* ---- long tapes ----------------------------------------------------------------------------------------- */

#define NODES 100000
#define STACK_BYTES (256 * 1024)

static double element(mx_array *x, int i)
{
    double values[3] = {NAN, NAN, NAN};
    mx_array_read_doubles(x, values, 3);
    return values[i];
}

static const char *chain(void)
{
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *y = x;
    mx_record()
        for (int i = 0; i < NODES; i++) {
            mx_scope step = mx_scope_open();
            mx_array *next = mx_add(y, x);
            mx_keep(next);
            if (y != x)
                mx_release(y);
            mx_scope_close(&step);
            y = next;
        }
    if (mx_backward(y))
        return mx_release(y), mx_error_message();
    mx_release(y);
    return element(mx_gradient(x), 0) == NODES + 1 ? NULL : "the gradient of the chain is wrong";
}

static const char *wide(void)
{
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3);
    mx_array **leaves = malloc(NODES * sizeof *leaves);
    mx_record()
        for (int i = 0; i < NODES; i++)
            leaves[i] = mx_square(x);
    mx_code code = mx_backward_all((mx_arrays){leaves, NODES}, NULL);
    free(leaves);
    return code                                        ? mx_error_message()
           : element(mx_gradient(x), 1) == 4.0 * NODES ? NULL
                                                       : "the gradient of the wide tape is wrong";
}

/* Freed without a backward: the chain must not be walked by recursion. */
static const char *dropped(void)
{
    MX_SCOPE;
    mx_array *x = variable(1, 2, 3), *y = x;
    mx_record()
        for (int i = 0; i < NODES && y; i++)
            y = mx_exp(y);
    return y ? NULL : mx_error_message();
}

static void *on_small_stack(void *part)
{
    const char *(*f)(void) = *(const char *(**)(void))part;
    return (void *)(uintptr_t)f();
}

static void run_on_small_stack(const char *(*f)(void))
{
    pthread_attr_t attributes;
    pthread_t thread;
    void *problem = NULL;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attributes, on_small_stack, &f), 0);
    pthread_join(thread, &problem);
    pthread_attr_destroy(&attributes);
    if (problem)
        fail_msg("%s", (const char *)problem);
}

static void test_long_chain(void **state) { (void)state, run_on_small_stack(chain); }
static void test_wide_tape(void **state) { (void)state, run_on_small_stack(wide); }
static void test_dropped_tape(void **state) { (void)state, run_on_small_stack(dropped); }

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_modes),
        TEST(test_nothing_is_recorded_outside),
        TEST(test_write_and_add),
        TEST(test_null_request),
        TEST(test_attach_drops_history),
        TEST(test_detach_stops_the_gradient),
        TEST(test_mark_variables),
        TEST(test_gradient_keeps_its_place),
        TEST(test_several_uses),
        TEST(test_head_gradients),
        TEST(test_retain_graph),
        TEST(test_results_become_constants),
        TEST(test_fresh_gradients),
        TEST(test_marked_null),
        TEST(test_reshaping_copies),
        TEST(test_writing_into_recorded_arrays),
        TEST(test_grad_of),
        TEST(test_constant_gradient),
        TEST(test_three_orders),
        TEST(test_three_orders_through_outputs),
        TEST(test_gradient_penalty),
        TEST(test_function),
        TEST(test_failing_functions),
        TEST(test_function_with_gradient_of_wrong_shape),
        TEST(test_gradients_are_released),
        TEST(test_long_chain),
        TEST(test_wide_tape),
        TEST(test_dropped_tape),
    };
    return cmocka_run_group_tests_name("autograd", tests, NULL, NULL);
}
