/* Assertions: in checked builds a broken invariant ends the process; in others its condition is not evaluated.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "ndarray/array.h"
#include "op/op.h"

static int looked;

/* Called in checked builds only. */
__attribute__((unused)) static bool look(bool answer)
{
    looked++;
    return answer;
}

static void test_conditions(void **state)
{
    (void)state;
    MX_ASSERT(look(true), "never said");
    assert_int_equal(looked, MX_CHECKED);
}

#if MX_CHECKED
/* The signal that ends a process running this; 0: none. */
static int ends(void (*act)(void))
{
    const pid_t child = fork();
    int status = 0;
    if (!child) {
        signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        if (freopen("/dev/null", "w", stderr))
            act();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void do_nothing(void) {}

static void write_behind_the_end(void)
{
    char *block = mx_alloc(100);
    memset(block, 1, 104);
    mx_free(block, 100);
}

static void free_with_another_size(void) { mx_free(mx_alloc(100), 90); }

static mx_array *small(void) { return mx_array_new(&(mx_shape_t){1, {4}}, MX_FLOAT32, mx_cpu(0)); }

static void size_that_is_not_the_product(void)
{
    mx_array *x = small();
    x->size = 5;
    mx_array_check(x, "test");
}

static void window_that_ends_outside(void)
{
    mx_array *x = small();
    x->offset = 4;
    mx_array_check(x, "test");
}

/* relu of (4) into (4), except for what the test changes. */
static void check_call(mx_array *in, mx_array *out)
{
    mx_op *op = mx_op_find("relu");
    const mx_kernel_call call = {.op = op, .attrs = op->defaults, .n_in = 1, .n_out = 1, .in = &in, .out = &out};
    mx_kernel_check(&call);
}

static void good_call(void) { check_call(small(), small()); }
static void output_without_memory(void)
{
    check_call(small(), mx_array_abstract(&(mx_shape_t){1, {4}}, MX_FLOAT32, mx_cpu(0)));
}
static void output_of_another_shape(void)
{
    check_call(small(), mx_array_new(&(mx_shape_t){1, {3}}, MX_FLOAT32, mx_cpu(0)));
}
static void output_of_another_type(void)
{
    check_call(small(), mx_array_new(&(mx_shape_t){1, {4}}, MX_FLOAT64, mx_cpu(0)));
}
static void output_over_half_an_input(void)
{
    mx_array *x = mx_array_new(&(mx_shape_t){1, {6}}, MX_FLOAT32, mx_cpu(0));
    const mx_shape_t shape = {1, {4}};
    check_call(mx_array_view(x, 0, &shape, MX_FLOAT32), mx_array_view(x, 8, &shape, MX_FLOAT32));
}

static void test_broken_invariants(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        void (*act)(void);
        bool fine;
    } acts[] = {{"nothing", do_nothing, true},
                {"writing behind the end", write_behind_the_end, false},
                {"freeing with another size", free_with_another_size, false},
                {"a size that is not the product", size_that_is_not_the_product, false},
                {"a window that ends outside", window_that_ends_outside, false},
                {"a good call", good_call, true},
                {"an output without memory", output_without_memory, false},
                {"an output of another shape", output_of_another_shape, false},
                {"an output of another type", output_of_another_type, false},
                {"an output over half an input", output_over_half_an_input, false}};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
        if ((ends(acts[i].act) == 0) != acts[i].fine)
            fail_msg("%s %s the process", acts[i].what, acts[i].fine ? "ended" : "did not end");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conditions),
#if MX_CHECKED
        cmocka_unit_test(test_broken_invariants),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
