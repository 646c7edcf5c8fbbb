/* Operators written as C (mx_compile_to_c): every sample of every operator that supports it, compiled and compared.
 *
 * An operator that cannot be written must fail with MX_ERR_UNSUPPORTED; those that networks consist of must not.
 * ctest-labels: release-only
 * ctest-timeout: 900
 *
 * ctest-levels: best (what is written does not depend on it)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/deploy.h"
#include "ops_case.h"

static char folder[64];
static int written, refused, serial;

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* ---- a call as a graph ----------------------------------------------------------------------------------------- */

/* The symbol of the call on variables x0, x1 ...; NULL: failed. */
static mx_symbol *graph_of(const ops_case *c, const ops_values *in)
{
    mx_array *variables[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL};
    for (int i = 0; i < c->n_in; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i);
        variables[i] =
            c->absent[i] ? MX_NONE : mx_variable(name, .shape = mx_dims_of_shape(&in->shape[i]), .dtype = MX_FLOAT32);
    }
    if (mx_invoke(c->op, c->attrs, c->n_in, variables, c->n_visible, out))
        return NULL;
    return mx_symbol_of((mx_arrays){out, c->n_visible});
}

/* The inputs in the file's order, which its comment describes. */
static void gather(const ops_values *in, float *to)
{
    FILE *file = fopen(path_of("net.c"), "r");
    char line[512];
    assert_non_null(file);
    while (fgets(line, sizeof line, file) && strncmp(line, " */", 3)) {
        long long at;
        int number;
        if (sscanf(line, " * in + %lld: x%d", &at, &number) == 2)
            for (int64_t k = 0; k < in->size[number]; k++)
                to[at + k] = (float)in->v[number][k];
    }
    fclose(file);
}

typedef int (*run_fn)(const float *in, float *out);

static run_fn build(const ops_case *c, void **library)
{
    char command[512], path[160];
    const char *compiler = getenv("CC");
    run_fn run = NULL;
    snprintf(path, sizeof path, "%s/net%d.so", folder, serial++); /* the loader caches libraries by name */
    snprintf(command, sizeof command,
             "%s -std=c99 -pedantic -Wall -Wextra -Werror -O0 -DNET_NO_MAIN -fPIC -shared %s -o %s -lm",
             compiler ? compiler : "cc", path_of("net.c"), path);
    if (system(command))
        ops_fail(c, "the file does not compile");
    else if (!(*library = dlopen(path, RTLD_NOW)))
        ops_fail(c, "%s", dlerror());
    else
        *(void **)&run = dlsym(*library, "net_run");
    unlink(path);
    return run;
}

static void compare(const ops_case *c, const ops_values *in, mx_array *const *real, const float *said)
{
    (void)in;
    for (int k = 0; k < c->n_visible; k++) {
        static double wanted[8192];
        const int64_t size = mx_size(real[k]);
        if (size > 8192 || mx_array_read_doubles(real[k], wanted, size)) {
            ops_fail(c, "output %d has %lld elements", k, (long long)size);
            return;
        }
        for (int64_t i = 0; i < size; i++, said++)
            if (!(fabs(*said - wanted[i]) <= 2e-6 * (1 + fabs(wanted[i]))) && *said != wanted[i] &&
                !(isnan(*said) && isnan(wanted[i])))
                ops_fail(c, "output %d, element %lld: the file gives %.9g, the library %.9g", k, (long long)i,
                         (double)*said, wanted[i]);
    }
}

static void run_both(const ops_case *c, const ops_values *in)
{
    mx_array *arrays[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL};
    int types[OPS_MAX_IN];
    float numbers[16384] = {0}, said[16384] = {0};
    void *library = NULL;
    for (int i = 0; i < c->n_in; i++)
        types[i] = MX_FLOAT32;
    run_fn run = build(c, &library);
    if (!run)
        return;
    gather(in, numbers);
    if (!ops_arrays(c, in, types, false, arrays) || mx_invoke(c->op, c->attrs, c->n_in, arrays, c->n_visible, out))
        ops_fail(c, "the library refuses the call: %s", mx_error_message());
    else if (run(numbers, said))
        ops_fail(c, "net_run failed");
    else
        compare(c, in, out, said);
    dlclose(library);
}

static bool small(const ops_values *in)
{
    int64_t total = 0;
    for (int i = 0; i < in->n; i++) {
        total += in->size[i];
        if (in->v[i] && !in->size[i])
            return false; /* a size of 0 means "unknown" where shapes are given */
    }
    return total < 8192;
}

static void check_sample(mx_op *op, int number)
{
    MX_SCOPE;
    ops_case c;
    ops_values in = {0};
    if (!ops_case_open(&c, op, number))
        return;
    if (!c.train && !c.random && ops_draw(&c, MX_FLOAT32, &in) && small(&in)) {
        mx_symbol *symbol = graph_of(&c, &in);
        mx_error_clear(); /* samples that need other types than float32, for example */
        if (symbol && !mx_compile_to_c(symbol, NULL, NULL, path_of("net.c"), "net")) {
            written++;
            run_both(&c, &in);
        } else if (symbol && mx_error_code() != MX_ERR_UNSUPPORTED)
            ops_fail(&c, "wanted a file or MX_ERR_UNSUPPORTED: %s", mx_error_message());
        else
            refused++;
    }
    mx_error_clear();
    ops_values_free(&in);
    ops_case_close(&c);
}

static const char *only; /* test_gluon_compile_c NAME: the samples of that operator alone */

static void test_every_operator(void **state)
{
    (void)state;
    mx_op *op;
    strcpy(folder, "/tmp/gluon_compile_XXXXXX");
    assert_non_null(mkdtemp(folder));
    for (int i = 0; (op = mx_op_at(i)); i++) {
        if (only && strcmp(only, op->name))
            continue;
        ops_fail_reset();
        for (int k = 0; k < ops_sample_count(op); k++)
            check_sample(op, k);
    }
    printf("%d samples written as C, %d refused\n", written, refused);
    unlink(path_of("net.c"));
    assert_int_equal(rmdir(folder), 0);
    assert_true(written > (only ? -1 : 300));
    assert_int_equal(ops_total.failures, 0);
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_symbol *symbol = mx_symbol_of(MX_ARRAYS(mx_variable("x")));
    assert_int_equal(mx_compile_to_c(NULL, NULL, NULL, "x.c", "net"), MX_ERR_ARGUMENT);
    mx_error_clear();
    assert_int_equal(mx_compile_to_c(symbol, NULL, NULL, NULL, "net"), MX_ERR_ARGUMENT);
    mx_error_clear();
    assert_int_equal(mx_compile_to_c(symbol, NULL, NULL, "x.c", "a b"), MX_ERR_ARGUMENT);
    mx_error_clear();
    assert_int_equal(mx_compile_to_c(symbol, NULL, NULL, "x.c", NULL), MX_ERR_ARGUMENT);
    mx_error_clear();
    assert_int_equal(mx_compile_to_c(symbol, NULL, NULL, "x.c", "net"), MX_ERR_SHAPE);
    assert_non_null(strstr(mx_error_message(), "'x'"));
    mx_error_clear();
    const mx_dims shape = MX_DIMS(2);
    const char *name = "other";
    assert_int_equal(mx_compile_to_c(symbol, NULL, &(struct mx_known){1, &name, &shape, NULL, false}, "x.c", "net"),
                     MX_ERR_ARGUMENT);
    assert_non_null(strstr(mx_error_message(), "other"));
    mx_error_clear();
}

/* Any allocation may fail: an error, nothing leaked, no file. */
static void test_failing_allocations(void **state)
{
    (void)state;
    MX_SCOPE;
    char path[] = "/tmp/gluon_compile_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    mx_array *x = mx_variable("x", .shape = MX_DIMS(1, 2, 5, 5)), *y = NULL;
    assert_int_equal(mx_invoke(mx_op_find("sigmoid"), NULL, 1, &x, 1, &y), MX_OK);
    mx_array *both[] = {x, y}, *joined = NULL;
    assert_int_equal(mx_invoke(mx_op_find("Concat"), NULL, 2, both, 1, &joined), MX_OK);
    mx_symbol *symbol = mx_symbol_of(MX_ARRAYS(joined));
    bool failed = true;
    mx_scoped()
        assert_int_equal(mx_compile_to_c(symbol, NULL, NULL, path, "net"), MX_OK);
    const int64_t live = mx_alloc_get_stats().live_blocks;
    for (int n = 1; failed && n < 1000; n++) {
        mx_alloc_fail_at(n);
        mx_scoped()
            mx_compile_to_c(symbol, NULL, NULL, path, "net");
        mx_alloc_fail_at(0);
        failed = mx_error_code() != MX_OK;
        if (failed)
            assert_int_equal(mx_error_code(), MX_ERR_MEMORY);
        mx_error_clear();
        assert_int_equal(mx_alloc_get_stats().live_blocks, live);
    }
    assert_false(failed);
    unlink(path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest named[] = {cmocka_unit_test(test_every_operator)};
    only = argc > 1 ? argv[1] : NULL;
    if (only)
        return cmocka_run_group_tests_name("compile_c", named, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_failing_allocations),
        cmocka_unit_test(test_every_operator),
    };
    return cmocka_run_group_tests_name("compile_c", tests, NULL, NULL);
}
