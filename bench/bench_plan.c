/* Compiled plans beside the imperative run: training steps, inference of one image, cost per node, building, memory.
 *
 *     bench_plan [seconds per number]
 *
 * Variants are timed in turns and the fastest of many runs counts, so that other load affects the ratios little.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/call.h"
#include "gluon.h"
#include "gluon/compile/hybrid.h"
#include "machine.h"

/* ---- networks ---------------------------------------------------------------------------------------------------- */

static mx_block *lenet(void)
{
    return mx_hybrid_sequential(mx_conv2d(6, MX_DIMS(5, 5), .padding = MX_DIMS(2, 2), .activation = "relu"),
                                mx_max_pool2d(MX_DIMS(2, 2)), mx_conv2d(16, MX_DIMS(5, 5), .activation = "relu"),
                                mx_max_pool2d(MX_DIMS(2, 2)), mx_dense(120, .activation = "relu"),
                                mx_dense(84, .activation = "relu"), mx_dense(10));
}

static mx_block *mlp(void)
{
    return mx_hybrid_sequential(mx_dense(256, .activation = "relu"), mx_dense(128, .activation = "relu"), mx_dense(10));
}

static mx_array *residual_forward(mx_block *self, mx_arrays in)
{
    mx_array *y = mx_call(mx_block_child_at(self, 0), in.v[0]), *x = in.v[0];
    if (mx_block_children(self) > 1)
        x = mx_call(mx_block_child_at(self, 1), x);
    return mx_relu(mx_add(y, x));
}

static mx_block *conv_norm(int64_t channels, int64_t kernel, int64_t stride, bool relu)
{
    mx_block *conv = mx_conv2d(channels, MX_DIMS(kernel, kernel), .strides = MX_DIMS(stride, stride),
                               .padding = MX_DIMS(kernel / 2, kernel / 2), .use_bias = false);
    return relu ? mx_hybrid_sequential(conv, mx_batch_norm(), mx_activation("relu"))
                : mx_hybrid_sequential(conv, mx_batch_norm());
}

static mx_block *unit(int64_t channels, int64_t stride, bool bottleneck, bool project)
{
    mx_block *block = mx_block_new("Unit", residual_forward, .hybrid = true);
    mx_block_child(block, "body",
                   bottleneck
                       ? mx_hybrid_sequential(conv_norm(channels / 4, 1, stride, true),
                                              conv_norm(channels / 4, 3, 1, true), conv_norm(channels, 1, 1, false))
                       : mx_hybrid_sequential(conv_norm(channels, 3, stride, true), conv_norm(channels, 3, 1, false)));
    if (project)
        mx_block_child(block, "shortcut", conv_norm(channels, 1, stride, false));
    return block;
}

static mx_block *resnet(bool bottleneck, const int *depth)
{
    mx_block *net = mx_hybrid_sequential(
        conv_norm(64, 7, 2, true), mx_max_pool2d(MX_DIMS(3, 3), .strides = MX_DIMS(2, 2), .padding = MX_DIMS(1, 1)));
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < depth[stage]; i++)
            mx_sequential_add(net, unit((int64_t)(bottleneck ? 256 : 64) << stage, i || !stage ? 1 : 2, bottleneck,
                                        !i && (stage || bottleneck)));
    mx_sequential_add(net, mx_global_avg_pool2d());
    mx_sequential_add(net, mx_dense(1000));
    return net;
}

/* Multiplications and additions of a step with 64 examples: three products per layer, two for the first. */
#define FIRST(n) (2. * 64 * 2 * (n))
#define OTHER(n) (2. * 64 * 3 * (n))
#define LENET_FLOPS (FIRST(28. * 28 * 6 * 25) + OTHER(10. * 10 * 16 * 6 * 25 + 400. * 120 + 120. * 84 + 84. * 10))
#define MLP_FLOPS (FIRST(784. * 256) + OTHER(256. * 128 + 128. * 10))

/* ---- training steps ---------------------------------------------------------------------------------------------- */

typedef struct job {
    mx_block *net, *criterion;
    mx_trainer *trainer;
    mx_train_step *whole; /* NULL: the imperative loop */
    mx_array *data, *labels;
} job;

static job make_job(mx_block *(*make)(void), mx_dims shape, int how)
{
    job j = {.net = make(), .criterion = mx_softmax_cross_entropy_loss()};
    mx_initialize(j.net, mx_xavier(), mx_cpu(0));
    j.trainer = mx_trainer_new(mx_collect_params(j.net), "sgd", "learning_rate=0.001, momentum=0.9");
    j.data = mx_random_uniform(.shape = shape);
    j.labels = mx_floor(mx_random_uniform(.high = 10, .shape = MX_DIMS(shape.d[0])));
    if (how >= 1) {
        mx_hybridize(j.net);
        mx_hybridize(j.criterion);
    }
    if (how == 2)
        j.whole = mx_train_step_new(j.net, j.criterion, j.trainer);
    return j;
}

static void step(job *j)
{
    MX_SCOPE;
    if (j->whole) {
        mx_train_step_run(j->whole, j->data, j->labels);
        return;
    }
    mx_array *loss;
    mx_record()
        loss = mx_call(j->criterion, mx_call(j->net, j->data), j->labels);
    mx_backward(loss);
    mx_trainer_step(j->trainer, j->data->shape[0]);
}

static void forward(job *j)
{
    MX_SCOPE;
    mx_call(j->net, j->data);
}

/* The fastest of many runs of each variant, in turns. */
static void time_in_turns(void (*run)(job *), job *jobs, int count, double seconds, double *best)
{
    for (int i = 0; i < count; i++) {
        best[i] = 1e9;
        run(&jobs[i]), run(&jobs[i]);
    }
    for (const double end = machine_seconds() + seconds * count; machine_seconds() < end;)
        for (int i = 0; i < count; i++) {
            const double start = machine_seconds();
            run(&jobs[i]);
            const double took = machine_seconds() - start;
            best[i] = took < best[i] ? took : best[i];
        }
}

/* flops: of the products of one step; 0: not counted. */
static void bench_steps(const char *what, mx_block *(*make)(void), mx_dims shape, double flops, double seconds)
{
    MX_SCOPE;
    double best[3];
    job jobs[3] = {make_job(make, shape, 0), make_job(make, shape, 1), make_job(make, shape, 2)};
    time_in_turns(step, jobs, 3, seconds, best);
    printf("%-18s imperative %7.1f us   hybridized %7.1f us (%.2fx)   whole step %7.1f us (%.2fx)\n", what,
           1e6 * best[0], 1e6 * best[1], best[1] / best[0], 1e6 * best[2], best[2] / best[0]);
    const double peak = machine_fma_gflops(mx_num_threads());
    printf("%-18s %.1f GFLOP/s, %.0f %% of the FMA peak\n", "", 1e-9 * flops / best[2], 1e-7 * flops / best[2] / peak);
}

static void bench_forward(const char *what, mx_block *(*make)(void), mx_dims shape, double seconds)
{
    MX_SCOPE;
    double best[2];
    job jobs[2] = {make_job(make, shape, 0), make_job(make, shape, 1)};
    time_in_turns(forward, jobs, 2, seconds, best);
    printf("%-18s imperative %7.1f us   hybridized %7.1f us (%.2fx)\n", what, 1e6 * best[0], 1e6 * best[1],
           best[1] / best[0]);
}

/* ---- convolutional networks -------------------------------------------------------------------------------------- */

/* Multiplications and additions of the products of a plan's convolutions and dense layers. */
static double products(mx_block *net)
{
    const mx_program *program = &mx_hybrid_last(net)->program;
    double sum = 0;
    for (int64_t i = 0; i < program->steps.length; i++) {
        const mx_step *step = &program->steps.items[i];
        if (strcmp(step->op->name, "Convolution") && strcmp(step->op->name, "FullyConnected"))
            continue;
        const mx_shape_t *y = &program->values.items[step->out[0]].shape,
                         *w = &program->values.items[step->in[1]].shape;
        sum += 2. * (double)mx_shape_size(w) * (double)mx_shape_size(y) / (double)y->dim[1];
    }
    return sum;
}

static mx_block *resnet18(void) { return resnet(false, (const int[]){2, 2, 2, 2}); }
static mx_block *resnet50(void) { return resnet(true, (const int[]){3, 4, 6, 3}); }

/* The share of the peak counts the multiplications of direct convolution: Winograd's method needs fewer. */
static void bench_convnet(const char *what, mx_block *(*make)(void), int64_t batch, double seconds)
{
    MX_SCOPE;
    double best[2];
    job jobs[2] = {make_job(make, MX_DIMS(batch, 3, 224, 224), 0), make_job(make, MX_DIMS(batch, 3, 224, 224), 1)};
    time_in_turns(forward, jobs, 2, seconds, best);
    mx_array *loss;
    mx_record()
        loss = mx_mean(mx_call(jobs[1].net, jobs[1].data)); /* the training plan has the original steps */
    (void)loss;
    const double flops = products(jobs[1].net), peak = machine_fma_gflops(mx_num_threads());
    printf("%-18s imperative %7.2f ms   hybridized %7.2f ms (%.2fx)   %.1f GFLOP/s, %.0f %% of the FMA peak\n", what,
           1e3 * best[0], 1e3 * best[1], best[1] / best[0], 1e-9 * flops / best[1], 1e-7 * flops / best[1] / peak);
}

/* ---- cost per node ----------------------------------------------------------------------------------------------- */

enum { CHAIN = 1000 };

static mx_array *chain_forward(mx_block *self, mx_arrays in)
{
    (void)self;
    mx_array *x = in.v[0];
    for (int i = 0; i < CHAIN; i++)
        x = mx_transpose(x); /* small work that no pass fuses */
    return x;
}

static mx_block *chain(void) { return mx_block_new("Chain", chain_forward, .hybrid = true); }

/* The time of the kernels alone is measured alternately and subtracted. */
static void bench_node(double seconds)
{
    MX_SCOPE;
    double best[2], clock = 0, kernels = 1e9;
    job jobs[2] = {{.net = chain()}, {.net = chain()}};
    jobs[0].data = jobs[1].data = mx_random_uniform(.shape = MX_DIMS(2, 3));
    mx_hybridize(jobs[1].net);
    time_in_turns(forward, jobs, 2, seconds, best);
    mx_kernel_seconds = &clock;
    for (int i = 0; i < 50; i++) {
        clock = 0;
        forward(&jobs[1]);
        kernels = clock < kernels ? clock : kernels;
    }
    mx_kernel_seconds = NULL;
    printf("%-18s imperative %7.3f us   planned %7.3f us a node, kernels (with the clock) %.3f us\n", "small node",
           1e6 * best[0] / CHAIN, 1e6 * best[1] / CHAIN, 1e6 * kernels / CHAIN);
}

/* ---- building and memory ----------------------------------------------------------------------------------------- */

static void compile(const char *what, mx_block *net, mx_dims shape, bool training)
{
    mx_plan_key key = {.n_in = 1, .training = training, .recording = training, .context = mx_cpu(0)};
    key.shape[0] = mx_shape_of_dims(&shape);
    key.type[0] = MX_FLOAT32;
    double best = 1e9;
    mx_compiled *c = NULL;
    for (int i = 0; i < 5; i++) {
        const double start = machine_seconds();
        mx_release(c);
        c = mx_compile(&(struct mx_compile_request){.block = net, .key = &key});
        const double took = machine_seconds() - start;
        best = took < best ? took : best;
    }
    if (!c)
        return;
    const double arena = (double)c->plan->memory.arena, sum = (double)c->plan->imperative_bytes;
    printf("%-28s %4d calls, built in %6.2f ms, arena %7.1f MB, intermediates %7.1f MB (%.2fx), prepared %7.1f MB\n",
           what, c->plan->n_calls, 1e3 * best, 1e-6 * arena, 1e-6 * sum, arena / sum,
           1e-6 * (double)c->plan->memory.prepared);
    mx_release(c);
}

static void bench_build(void)
{
    MX_SCOPE;
    mx_block *small = resnet(false, (const int[]){2, 2, 2, 2}), *large = resnet(true, (const int[]){3, 4, 6, 3});
    mx_initialize(small, mx_xavier(), mx_cpu(0));
    mx_initialize(large, mx_xavier(), mx_cpu(0));
    mx_call(small, mx_random_uniform(.shape = MX_DIMS(1, 3, 32, 32)));
    mx_call(large, mx_random_uniform(.shape = MX_DIMS(1, 3, 32, 32)));
    compile("ResNet-18 b32, predicting", small, MX_DIMS(32, 3, 224, 224), false);
    compile("ResNet-18 b32, training", small, MX_DIMS(32, 3, 224, 224), true);
    compile("ResNet-50 b32, predicting", large, MX_DIMS(32, 3, 224, 224), false);
    compile("ResNet-50 b32, training", large, MX_DIMS(32, 3, 224, 224), true);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 2;
    const int most = mx_num_threads();
    bench_build();
    for (int threads = 1; threads <= most; threads += most > 1 ? most - 1 : 1) {
        mx_set_num_threads(threads);
        printf("---- %d thread%s, level %s\n", threads, threads > 1 ? "s" : "", machine_level());
        bench_steps("LeNet b64 step", lenet, MX_DIMS(64, 1, 28, 28), LENET_FLOPS, seconds);
        bench_steps("MLP b64 step", mlp, MX_DIMS(64, 784), MLP_FLOPS, seconds);
        bench_forward("LeNet b64 forward", lenet, MX_DIMS(64, 1, 28, 28), seconds);
        bench_forward("LeNet b1 forward", lenet, MX_DIMS(1, 1, 28, 28), seconds);
        bench_forward("MLP b1 forward", mlp, MX_DIMS(1, 784), seconds);
        bench_convnet("ResNet-18 b1", resnet18, 1, seconds);
        bench_convnet("ResNet-50 b1", resnet50, 1, seconds);
    }
    bench_node(seconds);
    return mx_check("bench_plan");
}
