/* Shared by the tests of blocks, losses and data (see block_check.h).  SPDX-License-Identifier: Apache-2.0 */
#include "block_check.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t size_of(const mx_dims *shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape->n; i++)
        n *= shape->d[i];
    return n;
}

static double drawn(int seed, int64_t i) { return sin(12.9898 * (double)(i + 1) + 78.233 * seed) * 1.5; }

static mx_array *filled(mx_dims shape, int seed, int below)
{
    const int64_t n = size_of(&shape);
    float *values = malloc((size_t)n * sizeof *values + 1);
    for (int64_t i = 0; i < n; i++) {
        const double x = drawn(seed, i);
        values[i] = below ? (float)((int)fabs(x * 1000) % below) : (float)x;
    }
    mx_array *x = mx_array_from(shape, MX_FLOAT32, values);
    free(values);
    return x;
}

mx_array *check_array(mx_dims shape, int seed) { return filled(shape, seed, 0); }
mx_array *check_integers(mx_dims shape, int seed, int below) { return filled(shape, seed, below); }

const double *check_values(mx_array *x)
{
    static double buffers[16][4096];
    static int next;
    double *values = buffers[next++ % 16];
    check_no_error();
    assert_non_null(x);
    assert_true(mx_size(x) <= 4096);
    assert_int_equal(mx_array_read_doubles(x, values, mx_size(x)), MX_OK);
    return values;
}

void check_shape(mx_array *x, mx_dims shape)
{
    check_no_error();
    assert_non_null(x);
    mx_dims have = mx_shape(x);
    bool same = have.n == shape.n;
    for (int i = 0; same && i < shape.n; i++)
        same = have.d[i] == shape.d[i];
    if (!same)
        fail_msg("shape has %d axes, first %lld, second %lld; wanted %d, %lld, %lld", have.n, (long long)have.d[0],
                 (long long)have.d[1], shape.n, (long long)shape.d[0], (long long)shape.d[1]);
}

void check_near(mx_array *x, mx_dims shape, const double *wanted, double tolerance)
{
    check_shape(x, shape);
    const double *have = check_values(x);
    double largest = 1;
    for (int64_t i = 0; i < mx_size(x); i++)
        largest = fabs(wanted[i]) > largest ? fabs(wanted[i]) : largest;
    for (int64_t i = 0; i < mx_size(x); i++)
        if (!(fabs(have[i] - wanted[i]) <= tolerance * largest))
            fail_msg("element %lld is %.9g, wanted %.9g", (long long)i, have[i], wanted[i]);
}

void check_same(mx_array *a, mx_array *b)
{
    check_no_error();
    assert_non_null(a);
    assert_non_null(b);
    check_shape(a, mx_shape(b));
    assert_int_equal(mx_dtype_of(a), mx_dtype_of(b));
    const size_t bytes = (size_t)(mx_size(a) * mx_dtype_size(mx_dtype_of(a)));
    if (bytes)
        assert_memory_equal(mx_array_data(a), mx_array_data(b), bytes);
}

void check_error_parts(mx_code code, const char *const *parts, const char *file, int line)
{
    if (mx_error_code() != code)
        fail_msg("%s:%d: error %s \"%s\", wanted %s", file, line, mx_error_name(mx_error_code()), mx_error_message(),
                 mx_error_name(code));
    for (; *parts; parts++)
        if (!strstr(mx_error_message(), *parts))
            fail_msg("%s:%d: the message \"%s\" does not contain \"%s\"", file, line, mx_error_message(), *parts);
    mx_error_clear();
}

void check_no_error(void)
{
    if (mx_error_code())
        fail_msg("unexpected error %s: %s", mx_error_name(mx_error_code()), mx_error_message());
}

const char *check_names(mx_params *params)
{
    static char text[4096];
    text[0] = 0;
    for (int64_t i = 0; i < mx_params_count(params); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
                 mx_parameter_name(mx_params_at(params, i)));
    return text;
}

int64_t check_live(void) { return mx_alloc_get_stats().live_blocks; }

static char folder[256]; /* of this process's files; "" before the first */

static void remove_all(const char *path)
{
    DIR *files = opendir(path);
    for (struct dirent *file; files && (file = readdir(files));) {
        char inner[1024];
        snprintf(inner, sizeof inner, "%s/%s", path, file->d_name);
        if (strcmp(file->d_name, ".") && strcmp(file->d_name, "..") && unlink(inner))
            remove_all(inner);
    }
    if (files)
        closedir(files);
    rmdir(path);
}
static void remove_folder(void) { remove_all(folder); }

const char *check_file(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    if (!*folder) {
        snprintf(folder, sizeof folder, "%s/gluon-test-%d", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
                 (int)getpid());
        mkdir(folder, 0700);
        atexit(remove_folder);
    }
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}
