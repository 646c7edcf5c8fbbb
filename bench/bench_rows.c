/* Rows: softmax, norms and optimizer updates on arrays that do not fit into the caches, in GB/s of the bytes that
 * must be read and written once.
 *
 *     bench_rows [threads] [seconds per line] [megabytes per array] [first letters of a line]
 *
 * What a line is compared with: a copy that alternates with it, by the rate of the bytes read and written; updates in
 * place also with a simple loop that updates in place, because a cache line that was just read is written back faster
 * than a copy writes.  A copy is half writes, so functions that read more than they write (norms in training,
 * gradients) can exceed 100 %.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "beside.h"
#include "gluon/array.h"
#include "gluon/autograd.h"
#include "gluon/op.h"
#include "machine.h"
#include "op/op.h"

#define MAX_ARRAYS 6

/* One call; results are written to given arrays, so that nothing is allocated. */
typedef struct line {
    const char *what, *op, *attrs;
    int inputs; /* arrays of the full size first, then `channels` ones */
    int channel_inputs;
    int outputs;           /* full-size outputs */
    int passes;            /* full-size arrays that are read or written, once each */
    int64_t rows, columns; /* shape: (rows, columns), or (rows, 64, columns / 64) for planes */
    bool planes, in_place, training;
} line;

static const line lines[] = {
    {"softmax 32 wide", "softmax", "", 1, 0, 1, 2, 0, 32, false, false, false},
    {"softmax 1000 wide", "softmax", "", 1, 0, 1, 2, 0, 1000, false, false, false},
    {"softmax 30000 wide", "softmax", "", 1, 0, 1, 2, 0, 30000, false, false, false},
    {"log_softmax 1000", "log_softmax", "", 1, 0, 1, 2, 0, 1000, false, false, false},
    {"softmax backward", "_backward_softmax", "", 2, 0, 1, 3, 0, 1000, false, false, false},
    {"LayerNorm 768", "LayerNorm", "", 1, 2, 1, 2, 0, 768, false, false, false},
    {"BatchNorm infer", "BatchNorm", "fix_gamma=False", 1, 4, 1, 2, 0, 64 * 256, true, false, false},
    {"BatchNorm train", "BatchNorm", "fix_gamma=False", 1, 4, 1, 3, 0, 64 * 256, true, false, true},
    {"BatchNorm last", "BatchNorm", "fix_gamma=False, axis=-1", 1, 4, 1, 3, 0, 64, false, false, true},
    {"relu", "Activation", "act_type=relu", 1, 0, 1, 2, 0, 1000, false, false, false},
    {"relu backward", "_backward_Activation", "act_type=relu", 2, 0, 1, 3, 0, 1000, false, false, false},
    {"Dropout", "Dropout", "mode=always", 1, 0, 1, 2, 0, 1000, false, false, false},
    {"uniform like", "_random_uniform_like", "", 1, 0, 1, 1, 0, 1000, false, false, false},
    {"normal like", "_random_normal_like", "", 1, 0, 1, 1, 0, 1000, false, false, false},
    {"sgd", "sgd_update", "lr=0.1, wd=0.01", 2, 0, 1, 3, 0, 1000, false, true, false},
    {"sgd momentum", "sgd_mom_update", "lr=0.1, momentum=0.9", 3, 0, 1, 5, 0, 1000, false, true, false},
    {"adam", "adam_update", "lr=0.1", 4, 0, 1, 7, 0, 1000, false, true, false},
};

typedef struct job {
    mx_op *op;
    char attrs[4096];
    int n_in;
    bool training;
    mx_array *in[MAX_ARRAYS], *out;
} job;

static void call(void *arg)
{
    job *j = arg;
    MX_SCOPE;
    mx_array *out[4] = {j->out, NULL, NULL, NULL};
    mx_invoke(j->op, j->op->schema ? j->attrs : NULL, j->n_in, j->in, 4, out);
}

static mx_array *numbers(mx_dims shape)
{
    mx_array *x = mx_empty(shape, MX_FLOAT32, mx_cpu(0));
    float *values = x ? mx_array_data(x) : NULL;
    for (int64_t i = 0; x && i < mx_size(x); i++)
        values[i] = (float)(i * 2654435761u % 1000) / 1000 + 0.01f;
    return x;
}

static bool prepare(const line *l, int64_t bytes, job *j)
{
    const int64_t rows = bytes / 4 / l->columns;
    const mx_dims shape = l->planes ? MX_DIMS(rows, 64, l->columns / 64) : MX_DIMS(rows, l->columns);
    const int64_t channels = l->planes ? 64 : l->columns;
    j->op = mx_op_find(l->op);
    if (!j->op || (j->op->schema && j->op->schema->size > sizeof j->attrs))
        return false;
    if (j->op->schema) {
        mx_schema_defaults(j->op->schema, j->attrs);
        if (mx_schema_parse(j->op->schema, j->attrs, l->op, l->attrs))
            return false;
    }
    j->n_in = l->inputs + l->channel_inputs;
    for (int i = 0; i < j->n_in; i++)
        j->in[i] = numbers(i < l->inputs ? shape : MX_DIMS(channels));
    j->out = l->in_place ? j->in[0] : numbers(shape);
    return j->out != NULL;
}

/* ---- the baseline of updates in place ----------------------------------------------------------------------- */

typedef struct plain {
    float *weight, *grad;
    int64_t size;
} plain;

static void plain_range(void *arg, int64_t begin, int64_t end)
{
    float *restrict weight = ((plain *)arg)->weight;
    const float *restrict grad = ((plain *)arg)->grad;
    for (int64_t i = begin; i < end; i++)
        weight[i] = 0.999f * weight[i] - 0.1f * grad[i];
}
static void plain_update(void *arg) { mx_parallel(((plain *)arg)->size, MX_GRAIN, plain_range, arg); }

/* GB/s of two arrays read and one of them written. */
static double in_place_gbs(int64_t bytes, double seconds)
{
    MX_SCOPE;
    mx_array *weight = numbers(MX_DIMS(bytes / 4)), *grad = numbers(MX_DIMS(bytes / 4));
    if (!weight || !grad)
        return 0;
    plain p = {mx_array_data(weight), mx_array_data(grad), bytes / 4};
    return 3 * (double)bytes / machine_time(plain_update, &p, seconds) * 1e-9;
}

static void measure(const line *l, int64_t bytes, double seconds, double in_place)
{
    MX_SCOPE;
    job j = {0};
    if (!prepare(l, bytes, &j))
        return;
    mx_set_training(l->training);
    beside b;
    if (!beside_copy(call, &j, seconds, &b))
        return;
    const double rate = (double)l->passes * (double)(mx_size(j.out) * 4) / b.seconds * 1e-9;
    mx_set_training(false);
    printf("%-20s %7.2f ms %7.1f GB/s %4.0f %% of a copy (%.1f)", l->what, b.seconds * 1e3, rate,
           100 * rate / b.copy_gbs, b.copy_gbs);
    if (l->in_place)
        printf(", %.0f %% of a loop in place (%.1f)", 100 * rate / in_place, in_place);
    puts("");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    const double seconds = argc > 2 ? atof(argv[2]) : 0.3;
    const int64_t bytes = (argc > 3 ? atoll(argv[3]) : 64) << 20;
    mx_set_num_threads(threads);
    printf("level %s, %d threads, arrays of %lld MB\n", machine_level(), threads, (long long)(bytes >> 20));
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (argc < 5 || !strncmp(lines[i].what, argv[4], strlen(argv[4])))
            measure(&lines[i], bytes, seconds, lines[i].in_place ? in_place_gbs(bytes, seconds) : 0);
    return mx_check("bench_rows");
}
