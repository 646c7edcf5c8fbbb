/* Pointwise operators, reductions and casts: bytes per second, and the share of the speed of a memory copy.
 *
 * Each operator runs through mx_invoke as a program would call it, with an existing result array: on small
 * arrays inside the cache, and on large ones alternating with a copy of memory.  Bytes are those that must move: inputs
 * read and outputs written.  Reductions only read, so they can exceed a copy.
 *
 *     bench_pointwise [threads] [seconds per number] [operator]
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "beside.h"
#include "gluon/array.h"
#include "gluon/op.h"
#include "machine.h"
#include "ndarray/array.h"
#include "op/op.h"

typedef struct row {
    const char *op, *attrs;
    int n_in;
    mx_dtype in, out;
    int64_t columns; /* 0: one axis; else the last axis of two */
} row;

static const row rows[] = {
    {"_copy", "", 1, MX_FLOAT32, MX_FLOAT32, 0},          {"elemwise_add", "", 2, MX_FLOAT32, MX_FLOAT32, 0},
    {"elemwise_mul", "", 2, MX_FLOAT32, MX_FLOAT32, 0},   {"_mul_scalar", "scalar=2", 1, MX_FLOAT32, MX_FLOAT32, 0},
    {"relu", "", 1, MX_FLOAT32, MX_FLOAT32, 0},           {"_backward_relu", "", 2, MX_FLOAT32, MX_FLOAT32, 0},
    {"exp", "", 1, MX_FLOAT32, MX_FLOAT32, 0},            {"log", "", 1, MX_FLOAT32, MX_FLOAT32, 0},
    {"tanh", "", 1, MX_FLOAT32, MX_FLOAT32, 0},           {"sigmoid", "", 1, MX_FLOAT32, MX_FLOAT32, 0},
    {"erf", "", 1, MX_FLOAT32, MX_FLOAT32, 0},            {"sin", "", 1, MX_FLOAT32, MX_FLOAT32, 0},
    {"clip", "a_min=-1, a_max=1", 1, MX_FLOAT32, MX_FLOAT32, 0}, {"where", "", 3, MX_FLOAT32, MX_FLOAT32, 0},
    {"elemwise_add", "", 2, MX_FLOAT16, MX_FLOAT16, 0},   {"elemwise_add", "", 2, MX_INT32, MX_INT32, 0},
    {"elemwise_add", "", 2, MX_UINT8, MX_UINT8, 0},       {"_greater_scalar", "scalar=1", 1, MX_INT32, MX_INT32, 0},
    {"sum", "", 1, MX_FLOAT32, MX_FLOAT32, 0},            {"sum", "axis=1", 1, MX_FLOAT32, MX_FLOAT32, 1024},
    {"sum", "axis=0", 1, MX_FLOAT32, MX_FLOAT32, 1024},   {"sum", "axis=0", 1, MX_FLOAT32, MX_FLOAT32, 10},
    {"sum", "axis=1", 1, MX_FLOAT32, MX_FLOAT32, 10},     {"max", "axis=1", 1, MX_FLOAT32, MX_FLOAT32, 1024},
    {"norm", "", 1, MX_FLOAT32, MX_FLOAT32, 0},           {"argmax", "axis=1", 1, MX_FLOAT32, MX_FLOAT32, 1024},
    {"Cast", "dtype=float16", 1, MX_FLOAT32, MX_FLOAT16, 0},  {"Cast", "dtype=float32", 1, MX_FLOAT16, MX_FLOAT32, 0},
    {"Cast", "dtype=bfloat16", 1, MX_FLOAT32, MX_BFLOAT16, 0}, {"Cast", "dtype=float32", 1, MX_BFLOAT16, MX_FLOAT32, 0},
    {"Cast", "dtype=float32", 1, MX_UINT8, MX_FLOAT32, 0},    {"Cast", "dtype=int32", 1, MX_FLOAT32, MX_INT32, 0},
};

typedef struct job {
    mx_op *op;
    void *attrs;
    int n_in;
    mx_array *in[3], *out;
} job;

static void body(void *arg)
{
    job *j = arg;
    mx_array *out[MX_MAX_OUTPUTS] = {j->out};
    if (mx_invoke(j->op, j->attrs, j->n_in, j->in, MX_MAX_OUTPUTS, out))
        exit(fprintf(stderr, "%s\n", mx_error_message()));
    j->out = out[0];
}

/* The result of the first call, or NULL with a message. */
static mx_array *prepare(job *j, const row *r, int64_t n)
{
    const int64_t columns = r->columns ? r->columns : n, count = n / columns;
    const mx_dims shape = r->columns ? MX_DIMS(count, columns) : MX_DIMS(n);
    *j = (job){.op = mx_op_find(r->op), .n_in = r->n_in};
    if (!j->op)
        return NULL;
    j->attrs = j->op->schema ? calloc(1, j->op->schema->size) : NULL;
    if (j->attrs) {
        memcpy(j->attrs, j->op->defaults, j->op->schema->size);
        if (mx_schema_parse(j->op->schema, j->attrs, r->op, r->attrs))
            return NULL;
    }
    for (int k = 0; k < r->n_in; k++) {
        j->in[k] = mx_empty(shape, r->in, mx_cpu(0));
        if (!j->in[k] || mx_array_fill(j->in[k], 0.5 + k))
            return NULL;
    }
    mx_array *out[MX_MAX_OUTPUTS] = {NULL};
    return mx_invoke(j->op, j->attrs, j->n_in, j->in, MX_MAX_OUTPUTS, out) ? NULL : out[0];
}

static void measure(const row *r, int64_t n, bool large, double seconds)
{
    MX_SCOPE;
    job j;
    j.out = prepare(&j, r, n);
    if (!j.out) {
        printf("  %-16s %-20s %s\n", r->op, r->attrs, mx_error_message());
        mx_error_clear();
        return;
    }
    double bytes = (double)mx_bytes(j.out);
    for (int k = 0; k < r->n_in; k++)
        bytes += (double)mx_bytes(j.in[k]);
    beside b = {0, 0};
    if (!large)
        b.seconds = machine_time(body, &j, seconds);
    else if (!beside_copy(body, &j, seconds, &b))
        exit(fprintf(stderr, "%s\n", mx_error_message()));
    char shape[32];
    snprintf(shape, sizeof shape, r->columns ? "%lldx%lld" : "%lld", (long long)(r->columns ? n / r->columns : n),
             (long long)r->columns);
    const double rate = bytes / b.seconds * 1e-9;
    printf("  %-16s %-18s %-9s %-14s %8.1f us %7.3f ns each %7.1f GB/s", r->op, r->attrs, mx_dtype_name(r->in), shape,
           b.seconds * 1e6, b.seconds * 1e9 / (double)n, rate);
    if (large)
        printf(" %5.0f %% of a copy (%.1f)", 100 * rate / b.copy_gbs, b.copy_gbs);
    printf("\n");
    fflush(stdout);
    free(j.attrs);
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    const double seconds = argc > 2 ? atof(argv[2]) : 0.1;
    static const int64_t sizes[] = {1 << 12, 1 << 25};
    mx_set_num_threads(threads);
    printf("level %s, %d threads\n", machine_level(), threads);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        printf("%lld elements\n", (long long)sizes[s]);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            if (argc < 4 || !strcmp(argv[3], rows[i].op))
                measure(&rows[i], sizes[s] - sizes[s] % (rows[i].columns ? rows[i].columns : 1), s > 0, seconds);
    }
    return 0;
}
