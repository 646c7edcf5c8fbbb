/* gluon bench: how fast a model runs.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <time.h>

#include "cli.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Random inputs, those of integers zeros; the first axis is the batch. */
static bool make_inputs(cli_model *model, int64_t batch, mx_array **in)
{
    for (int i = 0; i < model->n_inputs; i++) {
        mx_dims *shape = &model->shapes[i];
        if (batch > 0 && shape->n > 0)
            shape->d[0] = batch;
        bool known = shape->n >= 1;
        for (int k = 0; k < shape->n; k++)
            known &= shape->d[k] > 0;
        if (!known) {
            mx_error_set(MX_ERR_SHAPE, "the shape of input '%s' is not known; set it with --shape %s=1,3,224,224",
                         model->inputs[i], model->inputs[i]);
            return false;
        }
        in[i] = mx_random_uniform(.shape = *shape);
        if (model->types[i] != MX_FLOAT32)
            in[i] = mx_cast(in[i], .dtype = model->types[i]);
        if (!in[i])
            return false;
    }
    return true;
}

static bool once(mx_block *net, mx_arrays in, double *seconds)
{
    MX_SCOPE;
    const double start = now();
    mx_arrays y = mx_block_call_many(net, in);
    for (int64_t i = 0; i < y.n; i++)
        mx_array_wait(y.v[i]);
    *seconds = now() - start;
    return !mx_error_code();
}

static int measure(mx_block *net, mx_arrays in, double limit, int64_t batch)
{
    enum { MOST = 100000 };
    static double times[MOST];
    int count = 0;
    double ignored;
    for (int i = 0; i < 3; i++) /* plans, caches */
        if (!once(net, in, &ignored))
            return CLI_FAILED;
    const double end = now() + limit;
    while (count < MOST && (count < 3 || now() < end))
        if (!once(net, in, &times[count++]))
            return CLI_FAILED;
    qsort(times, (size_t)count, sizeof *times, by_value);
    const double middle = times[count / 2];
    printf("batch %lld, %d threads: %d runs, median %.4g ms, least %.4g ms, 95 %% below %.4g ms, %.1f samples/s\n",
           (long long)batch, mx_num_threads(), count, 1e3 * middle, 1e3 * times[0], 1e3 * times[count * 95 / 100],
           (double)batch / middle);
    return CLI_OK;
}

/* A network of the zoo gets random parameters: its speed does not depend on them. */
static mx_block *make_block(const cli_model *model)
{
    if (!model->network || model->params_path[0])
        return cli_model_block(model);
    mx_block *net = mx_model(model->symbol_path);
    return net && !mx_initialize(net, mx_xavier(), mx_cpu(0)) ? net : NULL;
}

static int run(const cli_args *args)
{
    cli_model model;
    mx_array *in[CLI_MOST] = {NULL};
    int64_t batch, threads, seconds;
    if (!cli_number(args, "--batch", 0, 1, &batch) || !cli_number(args, "--threads", 0, 1, &threads) ||
        !cli_number(args, "--seconds", 2, 1, &seconds))
        return CLI_USAGE;
    if (threads)
        mx_set_num_threads((int)threads);
    if (!cli_model_load(&model, args, args->values[0]) || !make_inputs(&model, batch, in))
        return CLI_FAILED;
    mx_block *net = make_block(&model);
    if (!net || (!cli_option_of(args, "--imperative") && mx_hybridize(net)))
        return CLI_FAILED;
    return measure(net, cli_model_inputs(&model, in), (double)seconds, model.shapes[0].d[0]);
}

static const cli_option options[] = {
    {"--batch", "N", "size of the first axis of all inputs; default: from the shapes"},
    {"--threads", "N", "threads to compute with; default: all"},
    {"--seconds", "N", "how long to measure; default 2"},
    {"--imperative", NULL, "run node by node, without a compiled plan"},
    CLI_MODEL_OPTIONS,
    {NULL, NULL, NULL},
};

const cli_command cli_bench = {"bench",
                               "MODEL [--batch N] [--threads N] [--shape 1,3,224,224]",
                               "Measures how fast a model, or a network of the zoo by its name (resnet18_v1), runs on random inputs.",
                               1,
                               1,
                               options,
                               run};
