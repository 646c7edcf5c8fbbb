/* What an exported block computes (see deploy_check.h).  SPDX-License-Identifier: Apache-2.0 */
#include "deploy_check.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gluon/deploy.h"

enum { MOST_NUMBERS = 1 << 16 };

static void agree(mx_array *wanted, const double *said, double tolerance, const char *what, const char *how)
{
    const double *v = check_values(wanted);
    double scale = 1;
    for (int64_t i = 0; i < mx_size(wanted); i++)
        scale = fabs(v[i]) > scale ? fabs(v[i]) : scale;
    for (int64_t i = 0; i < mx_size(wanted); i++)
        if (!(fabs(v[i] - said[i]) <= tolerance * scale) && v[i] != said[i] && !(isnan(v[i]) && isnan(said[i])))
            fail_msg("%s: %s gives %.9g for element %lld, the block %.9g", what, how, said[i], (long long)i, v[i]);
}

static void check_loaded(mx_arrays in, mx_array *wanted, const char *graph, const char *values, const char *what)
{
    mx_block *loaded = mx_import(graph, in.n == 1 ? "data" : in.n == 2 ? "data0 data1" : "data0 data1 data2", values);
    static double copy[MOST_NUMBERS];
    for (int hybrid = 0; hybrid < 2; hybrid++) {
        mx_array *out = mx_block_call(loaded, in);
        if (!out)
            fail_msg("%s: the exported block fails: %s", what, mx_error_message());
        assert_int_equal(mx_size(out), mx_size(wanted));
        assert_int_equal(mx_array_read_doubles(out, copy, mx_size(out)), MX_OK);
        agree(wanted, copy, 1e-6, what, hybrid ? "the exported block, hybridized," : "the exported block");
        mx_hybridize(loaded);
    }
}

/* ---- one C file ---------------------------------------------------------------------------------------------------- */

typedef int (*run_fn)(const float *in, float *out);

static run_fn build(const char *source, const char *optimize, const char *what, void **library)
{
    static int serial;
    char command[1200], path[530];
    const char *compiler = getenv("CC");
    run_fn run = NULL;
    snprintf(path, sizeof path, "%s.%d.so", source, serial++); /* the loader caches libraries by name */
    snprintf(command, sizeof command,
             "%s -std=c99 -pedantic -Wall -Wextra -Werror %s -DNET_NO_MAIN -fPIC -shared %s -o %s -lm",
             compiler ? compiler : "cc", optimize, source, path);
    if (system(command) || !(*library = dlopen(path, RTLD_NOW)))
        fail_msg("%s: the C file does not compile or load", what);
    *(void **)&run = dlsym(*library, "net_run");
    unlink(path);
    return run;
}

/* The inputs in the file's order, which its comment describes. */
static void gather(const char *source, mx_arrays in, float *to)
{
    FILE *file = fopen(source, "r");
    char line[512];
    assert_non_null(file);
    while (fgets(line, sizeof line, file) && strncmp(line, " */", 3)) {
        long long at;
        int number = 0;
        if (sscanf(line, " * in + %lld: data%d", &at, &number) >= 1) {
            const double *v = check_values(in.v[number]);
            for (int64_t k = 0; k < mx_size(in.v[number]); k++)
                to[at + k] = (float)v[k];
        }
    }
    fclose(file);
}

static bool check_compiled(mx_arrays in, mx_array *wanted, const char *graph, const char *values, const char *optimize,
                           const char *what)
{
    static float numbers[MOST_NUMBERS], said[MOST_NUMBERS];
    static double wide[MOST_NUMBERS];
    char source[512];
    mx_dims shapes[3];
    static const char *const one[] = {"data"}, *const many[] = {"data0", "data1", "data2"};
    for (int64_t i = 0; i < in.n; i++)
        shapes[i] = mx_shape(in.v[i]);
    snprintf(source, sizeof source, "%s", check_file("net.c"));
    const struct mx_known known = {(int)in.n, in.n == 1 ? one : many, shapes, NULL, false};
    if (mx_compile_to_c(mx_symbol_load(graph), values ? mx_load(values) : NULL, &known, source, "net")) {
        if (mx_error_code() != MX_ERR_UNSUPPORTED)
            fail_msg("%s: wanted a C file or MX_ERR_UNSUPPORTED: %s", what, mx_error_message());
        printf("%s: %s\n", what, mx_error_message());
        mx_error_clear();
        return false;
    }
    void *library = NULL;
    run_fn run = build(source, optimize, what, &library);
    gather(source, in, numbers);
    assert_int_equal(run(numbers, said), 0);
    for (int64_t i = 0; i < mx_size(wanted); i++)
        wide[i] = said[i];
    agree(wanted, wide, 2e-6, what, "the C file");
    dlclose(library);
    return true;
}

bool check_deployed(mx_block *block, mx_arrays in, mx_array *wanted, const char *optimize, const char *what)
{
    MX_SCOPE;
    char path[400], graph[420], values[420];
    snprintf(path, sizeof path, "%s", check_file("net"));
    snprintf(graph, sizeof graph, "%s-symbol.json", path);
    snprintf(values, sizeof values, "%s-0000.params", path);
    assert_true(mx_size(wanted) <= MOST_NUMBERS);
    if (mx_export_like(block, path, 0, in))
        fail_msg("%s: cannot be exported: %s", what, mx_error_message());
    const bool learned = mx_params_count(mx_collect_params(block)) > 0;
    check_loaded(in, wanted, graph, learned ? values : NULL, what);
    return check_compiled(in, wanted, graph, learned ? values : NULL, optimize, what);
}
