/* A training step of LeNet, 64 images: samples per second, share of the machine's peak, time outside of kernels.
 *
 * The step is what examples/c/lenet.c does with a batch: forward, loss, backward, SGD with momentum.  Multiplications
 * and additions are counted from the shapes; the rest (pooling, activations, update) is not.
 *
 *     bench_lenet [seconds per number]
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "exec/call.h"
#include "gluon.h"
#include "machine.h"

enum { BATCH = 64 };

/* Multiply-adds per image of the forward pass; backward needs them twice, except for the gradient of the images. */
static const struct { const char *what; double count; } products[] = {
    {"conv1", 28. * 28 * 6 * 25}, {"conv2", 10. * 10 * 16 * 6 * 25}, {"fc1", 400. * 120}, {"fc2", 120. * 84}, {"fc3", 84. * 10},
};

static double step_flops(void)
{
    double sum = 0;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        sum += products[i].count;
    return 2 * BATCH * (3 * sum - products[0].count);
}

typedef struct job {
    mx_block *net, *criterion;
    mx_trainer *trainer;
    mx_array *images, *labels; /* (BATCH, 1, 28, 28) (BATCH) */
} job;

static void step(void *arg)
{
    MX_SCOPE;
    job *j = arg;
    mx_array *loss;
    mx_record()
        loss = mx_call(j->criterion, mx_call(j->net, j->images), j->labels);
    mx_backward(loss);
    mx_trainer_step(j->trainer, BATCH);
}

static void forward(void *arg)
{
    MX_SCOPE;
    mx_call(((job *)arg)->net, ((job *)arg)->images);
}

static job make(void)
{
    job j;
    j.net = mx_hybrid_sequential(mx_conv2d(6, MX_DIMS(5, 5), .padding = MX_DIMS(2, 2), .activation = "relu"),
                                 mx_max_pool2d(MX_DIMS(2, 2)), mx_conv2d(16, MX_DIMS(5, 5), .activation = "relu"),
                                 mx_max_pool2d(MX_DIMS(2, 2)), mx_dense(120, .activation = "relu"),
                                 mx_dense(84, .activation = "relu"), mx_dense(10));
    mx_initialize(j.net, mx_xavier(), mx_cpu(0));
    j.criterion = mx_softmax_cross_entropy_loss();
    j.trainer = mx_trainer_new(mx_collect_params(j.net), "sgd", "learning_rate=0.001, momentum=0.9");
    j.images = mx_random_uniform(.shape = MX_DIMS(BATCH, 1, 28, 28));
    j.labels = mx_floor(mx_random_uniform(.high = 10, .shape = MX_DIMS(BATCH)));
    return j;
}

static void report(const char *what, double seconds, double flops, double peak)
{
    printf("%-22s %8.0f us %9.0f samples/s %7.1f GFLOP/s %5.1f %% of peak\n", what, 1e6 * seconds, BATCH / seconds,
           1e-9 * flops / seconds, peak > 0 ? 100 * 1e-9 * flops / seconds / peak : 0);
}

/* The fastest of many steps, and how much of it was spent in kernels. */
static void measure_outside(job *j, double seconds)
{
    double best = 1e9, kernels = 0, clock = 0;
    mx_kernel_seconds = &clock;
    for (const double end = machine_seconds() + seconds; machine_seconds() < end;) {
        clock = 0;
        const double start = machine_seconds();
        step(j);
        const double whole = machine_seconds() - start;
        if (whole < best)
            best = whole, kernels = clock;
    }
    mx_kernel_seconds = NULL;
    printf("%-22s %8.0f us in kernels, %.0f us (%.1f %%) outside of them\n", "one step", 1e6 * kernels,
           1e6 * (best - kernels), 100 * (best - kernels) / best);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 3;
    const int most = mx_num_threads();
    job j = make();
    step(&j);
    printf("LeNet, %d images, %.2f GFLOP per step, level %s\n", BATCH, 1e-9 * step_flops(), machine_level());
    for (int threads = 1; threads <= most; threads += most > 1 ? most - 1 : 1) {
        char what[64];
        mx_set_num_threads(threads);
        const double peak = machine_fma_gflops(threads);
        snprintf(what, sizeof what, "forward, %d thread%s", threads, threads > 1 ? "s" : "");
        double sum = 0;
        for (size_t i = 0; i < sizeof products / sizeof *products; i++)
            sum += 2 * BATCH * products[i].count;
        report(what, machine_time(forward, &j, seconds), sum, peak);
        snprintf(what, sizeof what, "step, %d thread%s", threads, threads > 1 ? "s" : "");
        report(what, machine_time(step, &j, seconds), step_flops(), peak);
        measure_outside(&j, seconds);
    }
    return mx_check("bench_lenet");
}
