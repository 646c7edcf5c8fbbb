/* Running out of memory at every allocation: of a training step, and of every operator, forward and backward.
 *
 * A step of a two-layer network runs with allocation 1, 2, 3, ... failing, until it needs no more of them: each time
 * there is a clean MX_ERR_MEMORY, nothing is leaked, and the next step, which may allocate, gives the right numbers.
 * The samples of all operators are then tested in the same way.
 *
 *     test_alloc_failure            all
 *     test_alloc_failure dot        only these operators
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
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
#include "ops_check.h"

#define SAMPLES 8
#define INPUTS 5
#define HIDDEN 6
#define CLASSES 3

/* ---- the network ---------------------------------------------------------------------------------------- */

typedef struct net {
    mx_array *w1, *b1, *w2, *b2; /* (HIDDEN, INPUTS) (HIDDEN) (CLASSES, HIDDEN) (CLASSES); outlive scopes */
} net;

static double drawn(int i) { return sin(1.0 + 7.3 * i) * 0.5; }

static mx_array *drawn_array(mx_dims shape, int seed)
{
    float values[64];
    int64_t n = 1;
    for (int i = 0; i < shape.n; i++)
        n *= shape.d[i];
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)drawn(seed + (int)i);
    return mx_array_from(shape, MX_FLOAT32, values);
}

static mx_array *parameter(mx_dims shape, int seed)
{
    mx_array *x = mx_keep(drawn_array(shape, seed));
    assert_int_equal(mx_attach_grad(x, MX_GRAD_WRITE), MX_OK);
    return x;
}

static net net_new(void)
{
    MX_SCOPE;
    return (net){parameter(MX_DIMS(HIDDEN, INPUTS), 1), parameter(MX_DIMS(HIDDEN), 100),
                 parameter(MX_DIMS(CLASSES, HIDDEN), 200), parameter(MX_DIMS(CLASSES), 300)};
}

static void net_free(net *n) { mx_release(n->w1), mx_release(n->b1), mx_release(n->w2), mx_release(n->b2); }

static mx_code update(mx_array *w)
{
    return mx_sgd_update(w, mx_gradient(w), .lr = 0.1, .out = w) ? MX_OK : mx_error_code();
}

/* One step of gradient descent on the squared distance to a target; returns the loss. */
static mx_code step(const net *n, double *loss_value)
{
    MX_SCOPE;
    mx_array *loss = NULL;
    mx_array *x = drawn_array(MX_DIMS(SAMPLES, INPUTS), 400), *t = drawn_array(MX_DIMS(SAMPLES, CLASSES), 500);
    mx_record() {
        mx_array *h = mx_relu(mx_fully_connected(x, n->w1, n->b1, .num_hidden = HIDDEN));
        mx_array *y = mx_add(mx_dot(h, n->w2, .transpose_b = true), n->b2);
        loss = mx_mean(mx_square(mx_sub(y, t)));
    }
    if (!loss || mx_backward(loss))
        return mx_error_code();
    *loss_value = mx_item(loss);
    if (update(n->w1) || update(n->b1) || update(n->w2) || update(n->b2))
        return mx_error_code();
    return mx_error_code();
}

/* ---- the test ------------------------------------------------------------------------------------------- */

static int64_t live_blocks(void) { return mx_alloc_get_stats().live_blocks; }

static double losses[2]; /* of the first two steps, when nothing fails */

static void measure(void)
{
    for (int round = 0; round < 2; round++) { /* in the second one all caches exist */
        net n = net_new();
        assert_int_equal(step(&n, &losses[0]), MX_OK);
        assert_int_equal(step(&n, &losses[1]), MX_OK);
        net_free(&n);
    }
    assert_true(isfinite(losses[0]) && losses[0] > 0);
    assert_true(losses[1] < losses[0]);
}

/* A failed step may have updated some of the parameters: a fresh net shows whether the library still works. */
static void check_next_step(void)
{
    double loss;
    net n = net_new();
    assert_int_equal(step(&n, &loss), MX_OK);
    assert_true(loss == losses[0]);
    assert_int_equal(step(&n, &loss), MX_OK);
    assert_true(loss == losses[1]);
    net_free(&n);
}

/* True if the step with a failing n-th allocation failed. */
static bool fail_at(int64_t number, const net *n)
{
    double loss;
    const int64_t before = live_blocks();
    mx_alloc_fail_at(number);
    mx_code code = step(n, &loss);
    mx_alloc_fail_at(0);
    const int64_t after = live_blocks();
    if (code && mx_error_code() != MX_ERR_MEMORY)
        fail_msg("allocation %lld failed: error %d \"%s\", wanted MX_ERR_MEMORY", (long long)number, (int)code,
                 mx_error_message());
    if (mx_is_recording() || mx_is_training())
        fail_msg("allocation %lld failed: a mode was left on", (long long)number);
    if (after != before)
        fail_msg("allocation %lld failed: %lld blocks before, %lld after", (long long)number, (long long)before,
                 (long long)after);
    mx_error_clear();
    return code != MX_OK;
}

static void test_every_allocation_of_a_step(void **state)
{
    (void)state;
    measure();
    int64_t number = 0, failed = 0, passed = 0;
    while (passed < 3) { /* a failure that is survived (a cache that could not grow) is not the end yet */
        net n = net_new();
        if (fail_at(++number, &n)) {
            failed++;
            passed = 0;
        } else
            passed++;
        net_free(&n);
        check_next_step();
        assert_true(number < 100000);
    }
    printf("%lld allocations failed, each cleanly\n", (long long)failed);
    assert_true(failed > 20);
}

/* The same for the set-up before training. */
static void test_every_allocation_of_making_arrays(void **state)
{
    (void)state;
    for (int64_t number = 1;; number++) {
        const int64_t before = live_blocks();
        mx_array *x;
        mx_code code;
        {
            MX_SCOPE;
            mx_alloc_fail_at(number);
            x = mx_array_from(MX_DIMS(2), MX_FLOAT32, (float[]){1, 2});
            code = x ? mx_attach_grad(x, MX_GRAD_WRITE) : mx_error_code();
            mx_alloc_fail_at(0);
        }
        assert_int_equal(live_blocks(), before);
        assert_true(code == MX_OK || mx_error_code() == MX_ERR_MEMORY);
        mx_error_clear();
        if (!code)
            return;
    }
}

/* ---- every operator ------------------------------------------------------------------------------------- */

/* One call as it would be in training, with allocation `number` failing (0: none).  *used: allocations it needed. */
static mx_code run_sample(const ops_case *c, const ops_values *in, const int *types, bool backward, int64_t number,
                          int64_t *used)
{
    MX_SCOPE;
    mx_array *arrays[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL}, *heads[MX_MAX_OUTPUTS];
    int n_heads = 0;
    assert_true(ops_arrays(c, in, types, false, arrays));
    for (int k = 0; k < c->n_in && backward; k++)
        if (!c->absent[k] && mx_dtype_is_float(types[k]) && !ops_mutates(c->op, k))
            assert_int_equal(mx_attach_grad(arrays[k], MX_GRAD_WRITE), MX_OK);
    const int64_t before = mx_alloc_get_stats().calls;
    mx_alloc_fail_at(number);
    mx_mode mode = mx_mode_enter(1, -1);
    mx_code code = ops_run(c, arrays, out);
    mx_mode_leave(&mode);
    for (int i = 0; !code && i < c->n_visible; i++)
        if (out[i]->node && mx_dtype_is_float(out[i]->dtype))
            heads[n_heads++] = out[i];
    if (!code && n_heads)
        code = mx_backward_all((mx_arrays){heads, n_heads}, NULL);
    mx_alloc_fail_at(0);
    *used = mx_alloc_get_stats().calls - before;
    return code;
}

static int64_t injected; /* failures over all operators */

static void fail_sample(const ops_case *c, const ops_values *in, const int *types, bool backward)
{
    int64_t used, number = 0;
    mx_code code;
    do {
        const int64_t before = live_blocks();
        code = run_sample(c, in, types, backward, ++number, &used);
        const int64_t after = live_blocks();
        injected += code != MX_OK;
        if (code && mx_error_code() != MX_ERR_MEMORY)
            ops_fail(c, "allocation %lld failed: error %d \"%s\", wanted MX_ERR_MEMORY", (long long)number,
                     (int)mx_error_code(), mx_error_message());
        if (!code && mx_error_code())
            ops_fail(c, "allocation %lld failed: the call succeeded, but an error is set: %s", (long long)number,
                     mx_error_message());
        if (after != before)
            ops_fail(c, "allocation %lld failed: %lld blocks before, %lld after", (long long)number, (long long)before,
                     (long long)after);
        mx_error_clear();
    } while ((code || used >= number) && number < 2000); /* a failure that is survived is not the end yet */
    if (run_sample(c, in, types, backward, 0, &used))
        ops_fail(c, "does not run any more: %s", mx_error_message());
    mx_error_clear();
}

static void test_operator(void **state)
{
    static const mx_dtype list[] = {MX_FLOAT32, MX_FLOAT16, MX_INT32, MX_UINT8, MX_DTYPE_NONE};
    mx_op *op = *state;
    const int before = ops_total.failures;
    ops_fail_reset();
    for (int number = 0; number < ops_sample_count(op); number++)
        for (const mx_dtype *t = list; *t != MX_DTYPE_NONE; t++) {
            ops_case c;
            ops_values in;
            mx_dtype dtype;
            int types[OPS_MAX_IN];
            int64_t used;
            if (!ops_case_open(&c, op, number))
                continue;
            if (ops_first_type(&c, (mx_dtype[]){*t, MX_DTYPE_NONE}, &dtype, types) && ops_draw(&c, dtype, &in)) {
                bool backward = run_sample(&c, &in, types, true, 0, &used) == MX_OK;
                mx_error_clear();
                run_sample(&c, &in, types, backward, 0, &used);
                fail_sample(&c, &in, types, backward);
                ops_values_free(&in);
            }
            ops_case_close(&c);
        }
    mx_error_clear();
    if (ops_total.failures > before)
        fail_msg("%s: %d failures", op->name, ops_total.failures - before);
}

int main(int argc, char **argv)
{
    int count = 0, used = 0;
    while (mx_op_at(count))
        count++;
    struct CMUnitTest *tests = calloc((size_t)count + 2, sizeof *tests);
    if (argc < 2) {
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(test_every_allocation_of_a_step);
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(test_every_allocation_of_making_arrays);
    }
    for (int i = 0; i < count; i++) {
        bool chosen = argc < 2;
        for (int k = 1; k < argc; k++)
            chosen |= !strcmp(argv[k], mx_op_at(i)->name);
        if (chosen)
            tests[used++] = (struct CMUnitTest){mx_op_at(i)->name, test_operator, NULL, NULL, mx_op_at(i)};
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    int failed = _cmocka_run_group_tests("allocation failure", tests, (size_t)used, NULL, NULL);
    printf("%lld calls of operators ran out of memory\n", (long long)injected);
    free(tests);
    return failed != 0;
}
