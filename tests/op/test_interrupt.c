/* Stopping every operator, forward and backward, on its samples grown until they take some time.
 *
 * A call that is stopped at any of its questions ends with an error that says so, frees what it had allocated, touches no memory
 * of others (under the sanitizers), and the next call gives the right numbers.  With -t or -l, what depends on the machine:
 *
 *     test_interrupt                       all
 *     test_interrupt [options] dot ...     only these operators, with the numbers measured
 *         -t            calls of 10 ms: between two questions whether to stop passes at most half of a call
 *         -l            calls of 1 s, only measured: at most 0.1 s passes
 *         -r            the sizes of a sample that come last grow first: few long rows instead of many short ones
 *
 * Large calls of kernels that work in one piece ask often enough, and a normalisation that is stopped leaves running statistics alone.
 *
 * ctest-timeout: 900
 * ctest-levels: best (the questions are asked around the arithmetic)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "gluon/autograd.h"
#include "gluon/limits.h"
#include "gluon/op.gen.h"
#include "op/expand.h"
#include "ops_check.h"

#define COUNTS 0.004    /* seconds from which on the share of the longest gap is looked at */
#define LONGEST_GAP 0.1 /* seconds in a long call */
#define SAMPLES 6       /* of an operator */
#define SIZES 16

static struct {
    bool prints, judges_shares, judges_seconds;
    bool last_first;       /* the order in which sizes grow */
    double long_enough;    /* seconds of a call at which growing ends */
    int64_t most_elements; /* of one array */
} options = {.long_enough = 0.001, .most_elements = (int64_t)1 << 19};

/* ---- the questions -------------------------------------------------------------------------------------------------- */

static struct {
    int asked;        /* since the call began */
    int stop_at;      /* the question that is answered with yes; 0: none */
    double last, gap; /* when the last one was asked, the longest time between two: seconds of this thread */
} questions;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void note_gap(void)
{
    const double at = now();
    questions.gap = at - questions.last > questions.gap ? at - questions.last : questions.gap;
    questions.last = at;
}

static bool answer(void)
{
    note_gap();
    return ++questions.asked == questions.stop_at;
}

/* ---- calls ---------------------------------------------------------------------------------------------------------- */

typedef struct call {
    const ops_case *c;
    mx_array *in[OPS_MAX_IN], *out[MX_MAX_OUTPUTS];
    bool backward; /* the sample has a gradient */
} call;

static mx_code forward(call *x)
{
    mx_mode mode = mx_mode_enter(x->backward, -1);
    const mx_code code = ops_run(x->c, x->in, x->out);
    mx_mode_leave(&mode);
    return code;
}

static mx_code backward(call *x)
{
    mx_array *heads[MX_MAX_OUTPUTS];
    int n = 0;
    for (int i = 0; i < x->c->n_visible; i++)
        if (x->out[i]->node && mx_dtype_is_float(x->out[i]->dtype))
            heads[n++] = x->out[i];
    return n ? mx_backward_all((mx_arrays){heads, n}, NULL) : MX_OK;
}

typedef struct measured {
    double seconds, gap;
    int asked;
} measured;

static mx_code timed(call *x, mx_code (*run)(call *x), int stop_at, measured *m)
{
    const double start = now();
    questions.asked = 0, questions.stop_at = stop_at, questions.last = start, questions.gap = 0;
    mx_set_interrupt(answer);
    const mx_code code = run(x);
    note_gap();
    mx_set_interrupt(NULL);
    *m = (measured){now() - start, questions.gap, questions.asked};
    return code;
}

static bool prepare(call *x, const ops_case *c, const ops_values *in, const int *types, bool with_gradient)
{
    *x = (call){.c = c, .backward = with_gradient};
    if (!ops_arrays(c, in, types, false, x->in))
        return false;
    for (int k = 0; k < c->n_in && with_gradient; k++)
        if (!c->absent[k] && mx_dtype_is_float(types[k]) && !ops_mutates(c->op, k) &&
            mx_attach_grad(x->in[k], MX_GRAD_WRITE))
            return false;
    return true;
}

/* Runs the case to its end; false: it does not run at all. */
static bool measure(const ops_case *c, const ops_values *in, const int *types, bool with_gradient, measured *there,
                    measured *back)
{
    MX_SCOPE;
    call x;
    *there = *back = (measured){0};
    bool ok = prepare(&x, c, in, types, with_gradient) && !timed(&x, forward, 0, there);
    ok = ok && (!with_gradient || !timed(&x, backward, 0, back));
    mx_error_clear();
    return ok;
}

/* ---- growing -------------------------------------------------------------------------------------------------------- */

static bool fits(const ops_case *c)
{
    ops_values shapes = {.n = c->n_in};
    mx_shape_t out[MX_MAX_OUTPUTS];
    int types[OPS_MAX_IN], out_types[MX_MAX_OUTPUTS];
    memcpy(shapes.shape, c->shape, sizeof c->shape);
    for (int k = 0; k < OPS_MAX_IN; k++)
        types[k] = MX_FLOAT32;
    bool ok = true;
    for (int k = 0; ok && k < c->n_in; k++)
        ok = c->absent[k] || mx_shape_size(&c->shape[k]) <= options.most_elements;
    ok = ok && ops_infer(c, &shapes, types, out, out_types);
    for (int i = 0; ok && i < c->n_out; i++)
        ok = !mx_shape_known(&out[i]) || mx_shape_size(&out[i]) <= options.most_elements;
    mx_error_clear();
    return ok;
}

/* The case with every dimension of this size multiplied. */
static ops_case multiplied(const ops_case *from, int64_t size, int64_t by)
{
    ops_case c = *from;
    for (int k = 0; k < c.n_in; k++)
        for (int i = 0; !c.absent[k] && i < c.shape[k].ndim; i++)
            if (c.shape[k].dim[i] == size)
                c.shape[k].dim[i] *= by;
    return c;
}

static int sizes_of(const ops_case *c, int64_t *sizes)
{
    int n = 0;
    for (int k = 0; k < c->n_in; k++)
        for (int i = 0; !c->absent[k] && i < c->shape[k].ndim; i++) {
            int at = 0;
            while (at < n && sizes[at] != c->shape[k].dim[i])
                at++;
            if (at == n && n < SIZES && c->shape[k].dim[i] > 1)
                sizes[n++] = c->shape[k].dim[i];
        }
    return n;
}

typedef struct grown {
    ops_case c;
    ops_values in;
    int types[OPS_MAX_IN];
    bool with_gradient;
    measured there, back;
} grown;

static bool try_case(grown *g, const ops_case *c, mx_dtype dtype)
{
    ops_values in;
    measured there, back;
    if (!ops_draw(c, dtype, &in))
        return false;
    const bool runs = measure(c, &in, g->types, g->with_gradient, &there, &back);
    if (!runs) {
        ops_values_free(&in);
        return false;
    }
    ops_values_free(&g->in);
    g->c = *c, g->in = in, g->there = there, g->back = back;
    return true;
}

/* Grows one size after the other while the call is short. */
static void grow(grown *g, mx_dtype dtype)
{
    bool changed = true;
    while (changed) {
        int64_t sizes[SIZES];
        const int n = sizes_of(&g->c, sizes);
        changed = false;
        for (int i = 0; i < n && g->there.seconds + g->back.seconds < options.long_enough; i++) {
            const ops_case larger = multiplied(&g->c, sizes[options.last_first ? n - 1 - i : i], 4);
            if (fits(&larger) && try_case(g, &larger, dtype)) {
                changed = true;
                break; /* the sizes have changed */
            }
        }
    }
}

/* ---- checks --------------------------------------------------------------------------------------------------------- */

#define TRIES 5 /* other programs make gaps, too, but not in every try */

static bool has_gap(measured m)
{
    return (options.judges_shares && m.seconds > COUNTS && m.gap > m.seconds / 2) ||
           (options.judges_seconds && m.gap > LONGEST_GAP);
}

/* Again: caches are filled. */
static void measure_again(grown *g)
{
    for (int i = 0; i < TRIES && (i == 0 || has_gap(g->there) || has_gap(g->back)); i++)
        measure(&g->c, &g->in, g->types, g->with_gradient, &g->there, &g->back);
}

static void check_gap(const grown *g, const char *what, measured m)
{
    if (options.prints)
        printf("%s sample %d %s: %.1f ms, longest gap %.1f ms, %d questions\n", g->c.op->name, g->c.number, what,
               m.seconds * 1e3, m.gap * 1e3, m.asked);
    if (has_gap(m))
        ops_fail(&g->c, "%s: %.1f of %.1f ms pass without a question whether to stop", what, m.gap * 1e3,
                 m.seconds * 1e3);
}

/* One call that is stopped at a question. */
static void stop(const grown *g, bool back, int at)
{
    const int64_t before = mx_alloc_get_stats().live_blocks;
    {
        MX_SCOPE;
        call x;
        measured m;
        mx_code code = prepare(&x, &g->c, &g->in, g->types, g->with_gradient) ? MX_OK : mx_error_code();
        if (!code && back)
            code = forward(&x);
        assert_int_equal(code, MX_OK);
        code = timed(&x, back ? backward : forward, at, &m);
        if (m.asked < at)
            ops_fail(&g->c, "stops at question %d of %d: not asked again", at, m.asked);
        else if (code != MX_ERR_STATE || !strstr(mx_error_message(), "interrupted"))
            ops_fail(&g->c, "stopped at question %d: error %d \"%s\"", at, (int)code, mx_error_message());
        mx_error_clear();
    }
    if (mx_alloc_get_stats().live_blocks != before)
        ops_fail(&g->c, "stopped at question %d: %lld blocks are left", at,
                 (long long)(mx_alloc_get_stats().live_blocks - before));
}

static void check_stops(const grown *g, bool back, int asked)
{
    for (int at = 1; at <= asked; at = at < 2 ? at + 1 : at * 8)
        stop(g, back, at);
}

static void check_all_stops(const grown *g)
{
    measured there, back;
    check_stops(g, false, g->there.asked);
    check_stops(g, true, g->back.asked);
    if (!measure(&g->c, &g->in, g->types, g->with_gradient, &there, &back))
        ops_fail(&g->c, "does not run any more");
}

static void check_sample(mx_op *op, int number)
{
    static const mx_dtype list[] = {MX_FLOAT32, MX_INT32, MX_UINT8, MX_FLOAT16, MX_DTYPE_NONE};
    ops_case c;
    mx_dtype dtype;
    if (!ops_case_open(&c, op, number))
        return;
    grown g = {.c = c, .with_gradient = !c.nograd};
    if (ops_first_type(&c, list, &dtype, g.types) &&
        (try_case(&g, &c, dtype) || (g.with_gradient = false, try_case(&g, &c, dtype)))) {
        grow(&g, dtype);
        measure_again(&g);
        check_gap(&g, "forward", g.there);
        check_gap(&g, "backward", g.back);
        if (!options.judges_seconds)
            check_all_stops(&g);
    }
    ops_values_free(&g.in);
    ops_case_close(&c);
    mx_error_clear();
}

static void test_operator(void **state)
{
    mx_op *op = *state;
    const int before = ops_total.failures;
    ops_fail_reset();
    const int count = ops_sample_count(op);
    for (int number = 0; number < count && number < SAMPLES; number++)
        check_sample(op, number);
    if (ops_total.failures > before)
        fail_msg("%s: %d failures", op->name, ops_total.failures - before);
}

/* ---- large calls ---------------------------------------------------------------------------------------------------- */

/* Kernels without mx_parallel's pieces, or with long ones: samples in which one size is `by` times as large. */
static const struct {
    const char *op;
    int sample;
    int64_t size, by;
    int forward, backward; /* questions, at least */
} large[] = {{"multi_lars", 0, 3, 1 << 16, 8, 0},
             {"moments", 0, 3, 1 << 20, 4, 4},
             {"_sparse_retain", 0, 2, 1 << 18, 8, 4},
             {"_contrib_hawkesll", 0, 4, 1 << 15, 8, 8},
             {"Correlation", 2, 5, 1 << 9, 4, 4},
             {"_contrib_bipartite_matching", 0, 3, 1 << 12, 8, 0},
             {"_contrib_attention", 2, 5, 1 << 11, 4, 8},
             {"LeakyReLU", 2, 4, 1 << 15, 4, 8},
             {"Pooling", 8, 4, 1 << 7, 8, 8}};

static void check_large(int i)
{
    int number = 0;
    ops_case c;
    while (strcmp(mx_op_at(number)->name, large[i].op))
        number++;
    assert_true(ops_case_open(&c, mx_op_at(number), large[i].sample));
    const ops_case larger = multiplied(&c, large[i].size, large[i].by);
    const mx_dtype list[] = {MX_FLOAT32, MX_DTYPE_NONE};
    grown g = {.with_gradient = !c.nograd};
    mx_dtype dtype;
    assert_true(ops_first_type(&c, list, &dtype, g.types));
    if (!try_case(&g, &larger, dtype) && (g.with_gradient = false, !try_case(&g, &larger, dtype)))
        fail_msg("%s: the larger sample does not run", large[i].op);
    if (g.there.asked < large[i].forward || g.back.asked < large[i].backward)
        fail_msg("%s: %d and %d questions, wanted %d and %d", large[i].op, g.there.asked, g.back.asked,
                 large[i].forward, large[i].backward);
    ops_values_free(&g.in);
    ops_case_close(&c);
}

static void test_large(void **state)
{
    (void)state;
    for (int i = 0; i < (int)(sizeof large / sizeof *large); i++)
        check_large(i);
}

static bool at_once(void) { return true; }

/* Each channel has its old statistics or the right new ones, never sums that were not written. */
static void test_running_statistics(void **state)
{
    enum { ROWS = 2048, CHANNELS = 512 };
    (void)state;
    MX_SCOPE;
    mx_array *x = mx_full(.shape = MX_DIMS(ROWS, CHANNELS), .value = 3), *one = mx_ones(.shape = MX_DIMS(CHANNELS)),
             *mean = mx_ones(.shape = MX_DIMS(CHANNELS)), *var = mx_ones(.shape = MX_DIMS(CHANNELS));
    mx_set_interrupt(at_once);
    mx_mode mode = mx_mode_enter(1, 1);
    assert_null(mx_op_batch_norm(x, one, one, mean, var, .momentum = 0.5));
    mx_mode_leave(&mode);
    mx_set_interrupt(NULL);
    assert_non_null(strstr(mx_error_message(), "interrupted"));
    mx_error_clear();
    const float *m = mx_array_data(mean), *v = mx_array_data(var);
    for (int c = 0; c < CHANNELS; c++)
        assert_true((m[c] == 1 && v[c] == 1) || (m[c] == 2 && v[c] == 0.5f));
}

static void set_option(char letter)
{
    options.last_first |= letter == 'r';
    if (letter == 't')
        options.judges_shares = true, options.long_enough = 0.01;
    if (letter == 'l')
        options.judges_seconds = true, options.long_enough = 1, options.most_elements = (int64_t)1 << 25;
}

int main(int argc, char **argv)
{
    int count = 0, used = 0;
    for (; argc > 1 && argv[1][0] == '-'; argc--, argv++)
        set_option(argv[1][1]);
    options.prints = argc > 1 || options.judges_seconds;
    const bool judges = options.judges_shares || options.judges_seconds;
    mx_set_num_threads(judges ? 1 : 3); /* the gaps of one thread are those of all */
    mx_interrupt_set_pause(0);
    while (mx_op_at(count))
        count++;
    struct CMUnitTest *tests = calloc((size_t)count + 2, sizeof *tests);
    if (argc < 2) {
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(test_large);
        tests[used++] = (struct CMUnitTest)cmocka_unit_test(test_running_statistics);
    }
    for (int i = 0; i < count; i++) {
        bool chosen = argc < 2;
        for (int k = 1; k < argc; k++)
            chosen |= !strcmp(argv[k], mx_op_at(i)->name);
        if (chosen && !mx_op_expands(mx_op_at(i)))
            tests[used++] = (struct CMUnitTest){mx_op_at(i)->name, test_operator, NULL, NULL, mx_op_at(i)};
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    const int failed = _cmocka_run_group_tests("stopped calls", tests, (size_t)used, NULL, NULL);
    free(tests);
    return failed != 0;
}
