/* Every operator, on every one of its samples: values in all types, gradients to second order, aliasing, windows with
 * guard bytes, empty inputs, one thread and several, inference without data, leaks.  An operator without samples fails.
 *
 *     test_ops                 all operators
 *     test_ops softmax dot     those whose name is given (or begins with it, when it ends in '*')
 *
 * ctest-timeout: 900
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "op/expand.h"
#include "ops_check.h"

static void check_sample(mx_op *op, int number, int *threaded)
{
    ops_case c;
    if (!ops_case_open(&c, op, number))
        return;
    ops_total.samples++;
    if (!c.random && !op->reference)
        ops_fail(&c, "has no reference and is not random");
    if (ops_check_values(&c)) {
        ops_check_empty(&c);
        ops_check_abstract(&c);
        ops_check_gradients(&c);
        if (*threaded < 2)
            *threaded += ops_check_threads(&c);
        ops_check_leak(&c);
    }
    ops_case_close(&c);
    if (mx_has_error())
        ops_fail(&c, "an error is left: %s", mx_error_message());
    mx_error_clear();
}

static void test_operator(void **state)
{
    mx_op *op = *state;
    int threaded = 0, count = ops_sample_count(op);
    const int before = ops_total.failures;
    const ops_case none = {.op = op};
    ops_fail_reset();
    ops_total.ops++;
    const bool expands =
        mx_op_expands(op); /* they call operators that are tested here; see test_np.c, test_np_functions.py */
    if (!count && !(op->flags & MX_OP_CALLS) && !expands) /* those that call functions: test_control_flow.c */
        ops_fail(&none, "has no samples");
    if (!(op->flags & (MX_OP_NO_GRADIENT | MX_OP_ZERO_GRADIENT)) && !op->gradient && !expands)
        ops_fail(&none, "states neither a gradient nor that it has none");
    if (!op->doc || !*op->doc)
        ops_fail(&none, "has no documentation");
    for (int i = 0; i < count; i++)
        check_sample(op, i, &threaded);
    if (ops_total.failures > before)
        fail_msg("%s: %d failures", op->name, ops_total.failures - before);
}

static bool chosen(const char *name, int count, char **patterns)
{
    for (int i = 0; i < count; i++) {
        size_t n = strlen(patterns[i]);
        if (!strcmp(name, patterns[i]) || (n && patterns[i][n - 1] == '*' && !strncmp(name, patterns[i], n - 1)))
            return true;
    }
    return count == 0;
}

static void print_totals(void)
{
    printf(
        "\n%12d operators\n%12d samples\n%12lld sample and type pairs accepted, %lld declined\n%12lld values compared\n"
        "%12lld gradients checked\n%12lld second-order gradients checked\n%12d operators without second order\n%12d failures\n",
        ops_total.ops, ops_total.samples, (long long)ops_total.calls_accepted, (long long)ops_total.calls_declined,
        (long long)ops_total.values, (long long)ops_total.gradients, (long long)ops_total.second_orders,
        ops_total.second_order_missing, ops_total.failures);
}

int main(int argc, char **argv)
{
    int count = 0, used = 0;
    while (mx_op_at(count))
        count++;
    struct CMUnitTest *tests = calloc((size_t)count + 1, sizeof *tests);
    for (int i = 0; i < count; i++)
        if (chosen(mx_op_at(i)->name, argc - 1, argv + 1))
            tests[used++] = (struct CMUnitTest){mx_op_at(i)->name, test_operator, NULL, NULL, mx_op_at(i)};
    if (!used)
        return fprintf(stderr, "no operator has such a name\n"), 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    int failed = _cmocka_run_group_tests("operators", tests, (size_t)used, NULL, NULL);
    print_totals();
    free(tests);
    return failed != 0;
}
