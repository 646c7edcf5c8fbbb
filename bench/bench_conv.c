/* Convolutions: speed, share of the machine's peak and, where compiled with HAVE_DNNL, the ratio to oneDNN.
 *
 * Ours reads and writes NCHW arrays; oneDNN gets its own best layouts (format "any"), reordering is not timed.  Ours
 * and theirs run alternately, and the best time of each counts, so other load on the machine affects both.
 *
 *     bench_conv [threads] [seconds per number] [level] [only shapes whose name contains this]
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kernels/conv/conv.h"
#include "machine.h"
#ifdef HAVE_DNNL
#include <oneapi/dnnl/dnnl.h>
#endif

/* The same functions at every level; the library's own dispatch is above them. */
#define DECLARE(level)                                                                                       \
    mx_code conv_forward_##level(const mx_conv_shape *, const float *, const float *, const float *, bool, float *); \
    mx_code conv_backward_data_##level(const mx_conv_shape *, const float *, const float *, float *);        \
    mx_code conv_backward_weight_##level(const mx_conv_shape *, const float *, const float *, float *, float *); \
    const char *conv_implementation_##level(const mx_conv_shape *, int);
#define ROW(level) \
    {#level, conv_forward_##level, conv_backward_data_##level, conv_backward_weight_##level, \
     conv_implementation_##level},
DECLARE(generic)
DECLARE(avx2)
DECLARE(avx512)

typedef struct level {
    const char *name;
    mx_code (*forward)(const mx_conv_shape *, const float *, const float *, const float *, bool, float *);
    mx_code (*backward_data)(const mx_conv_shape *, const float *, const float *, float *);
    mx_code (*backward_weight)(const mx_conv_shape *, const float *, const float *, float *, float *);
    const char *(*implementation)(const mx_conv_shape *, int);
} level;

static const level levels[] = {
#ifdef MX_LEVEL_AVX512
    ROW(avx512)
#endif
#ifdef MX_LEVEL_AVX2
    ROW(avx2)
#endif
    ROW(generic)
};

static const struct { int n, c, o, g, size, k, stride, pad; const char *what; } shapes[] = {
    {8, 64, 64, 1, 56, 3, 1, 1, "3x3"},       {8, 128, 128, 1, 28, 3, 1, 1, "3x3"},
    {8, 256, 256, 1, 14, 3, 1, 1, "3x3"},     {8, 512, 512, 1, 7, 3, 1, 1, "3x3"},
    {8, 64, 128, 1, 56, 3, 2, 1, "3x3 /2"},   {8, 128, 256, 1, 28, 3, 2, 1, "3x3 /2"},
    {8, 256, 512, 1, 14, 3, 2, 1, "3x3 /2"},  {64, 1, 6, 1, 28, 5, 1, 0, "lenet"},
    {64, 6, 16, 1, 12, 5, 1, 0, "lenet"},     {64, 1, 20, 1, 28, 5, 1, 0, "lenet20"},
    {64, 20, 50, 1, 12, 5, 1, 0, "lenet20"},  {8, 3, 64, 1, 112, 7, 2, 3, "stem"},
    {8, 3, 64, 1, 32, 3, 1, 1, "cifar"},      {8, 64, 256, 1, 56, 1, 1, 0, "1x1"},
    {8, 256, 64, 1, 56, 1, 1, 0, "1x1"},      {8, 512, 512, 1, 7, 1, 1, 0, "1x1"},
    {8, 256, 512, 1, 28, 1, 2, 0, "1x1 /2"},  {8, 64, 64, 64, 56, 3, 1, 1, "depthwise"},
    {8, 128, 128, 128, 56, 3, 2, 1, "depthwise"}, {8, 192, 192, 192, 28, 3, 1, 1, "depthwise"},
    {8, 192, 192, 192, 28, 3, 2, 1, "depthwise"}, {8, 384, 384, 384, 14, 3, 1, 1, "depthwise"},
    {8, 576, 576, 576, 14, 3, 2, 1, "depthwise"}, {8, 960, 960, 960, 7, 3, 1, 1, "depthwise"},
    {8, 128, 128, 32, 28, 3, 1, 1, "grouped"},
};

typedef struct job {
    const level *level;
    mx_conv_shape shape;
    float *x, *w, *y; /* inputs or results, depending on the direction */
    int direction;    /* 0 forward, 1 data gradient, 2 weight gradient */
#ifdef HAVE_DNNL
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[3];
    dnnl_stream_t stream;
#endif
} job;

static void run_ours(void *arg)
{
    job *j = arg;
    mx_code code = MX_OK;
    if (j->direction == 0)
        code = j->level->forward(&j->shape, j->x, j->w, NULL, false, j->y);
    else if (j->direction == 1)
        code = j->level->backward_data(&j->shape, j->y, j->w, j->x);
    else
        code = j->level->backward_weight(&j->shape, j->x, j->y, j->w, NULL);
    if (code)
        fprintf(stderr, "bench_conv: a convolution failed with code %d\n", code);
}

#ifdef HAVE_DNNL
static dnnl_engine_t engine;

/* oneDNN uses OpenMP, whose thread count is set through its own function. */
static void dnnl_threads(int threads)
{
    void (*set)(int);
    *(void **)&set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (set)
        set(threads);
}

static bool dnnl_memory(const_dnnl_primitive_desc_t pd, dnnl_query_t what, int kind, dnnl_exec_arg_t *arg)
{
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, what, 0);
    arg->arg = kind;
    if (dnnl_memory_create(&arg->memory, md, engine, DNNL_MEMORY_ALLOCATE))
        return false;
    void *data;
    dnnl_memory_get_data_handle(arg->memory, &data);
    for (size_t i = 0; i < dnnl_memory_desc_get_size(md) / sizeof(float); i++)
        ((float *)data)[i] = (float)(i * 2654435761u % 1000) / 1000 - 0.5f;
    return true;
}

static dnnl_status_t describe(const mx_conv_shape *s, int direction, dnnl_convolution_desc_t *desc)
{
    const dnnl_dims_t x = {s->batch, s->in_channels, s->in[0], s->in[1]};
    const dnnl_dims_t y = {s->batch, s->out_channels, s->out[0], s->out[1]};
    const dnnl_dims_t w = {s->out_channels, s->in_channels, s->kernel[0], s->kernel[1]};
    const dnnl_dims_t wg = {s->groups, s->out_channels / s->groups, s->in_channels / s->groups, s->kernel[0],
                            s->kernel[1]};
    const dnnl_dims_t stride = {s->stride[0], s->stride[1]}, pad = {s->pad[0], s->pad[1]};
    dnnl_dims_t pad_right;
    dnnl_memory_desc_t xm, wm, ym;
    for (int i = 0; i < 2; i++)
        pad_right[i] = (s->out[i] - 1) * s->stride[i] + s->kernel[i] - s->in[i] - s->pad[i];
    dnnl_memory_desc_init_by_tag(&xm, 4, x, dnnl_f32, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&ym, 4, y, dnnl_f32, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&wm, s->groups > 1 ? 5 : 4, s->groups > 1 ? wg : w, dnnl_f32, dnnl_format_tag_any);
    if (direction == 0)
        return dnnl_convolution_forward_desc_init(desc, dnnl_forward_training, dnnl_convolution_direct, &xm, &wm, NULL,
                                                  &ym, stride, pad, pad_right);
    if (direction == 1)
        return dnnl_convolution_backward_data_desc_init(desc, dnnl_convolution_direct, &xm, &wm, &ym, stride, pad,
                                                        pad_right);
    return dnnl_convolution_backward_weights_desc_init(desc, dnnl_convolution_direct, &xm, &wm, NULL, &ym, stride, pad,
                                                       pad_right);
}

static bool dnnl_open(job *j)
{
    dnnl_convolution_desc_t desc, hint_desc;
    dnnl_primitive_desc_t pd, hint = NULL;
    const int d = j->direction;
    if (describe(&j->shape, 0, &hint_desc) || dnnl_primitive_desc_create(&hint, &hint_desc, NULL, engine, NULL) ||
        describe(&j->shape, d, &desc) || dnnl_primitive_desc_create(&pd, &desc, NULL, engine, d ? hint : NULL))
        return false;
    const dnnl_query_t what[3][3] = {{dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
                                     {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
                                     {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}};
    const int kind[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                            {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                            {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
    bool ok = !dnnl_primitive_create(&j->primitive, pd) && !dnnl_stream_create(&j->stream, engine, 0);
    for (int i = 0; i < 3; i++)
        ok = ok && dnnl_memory(pd, what[d][i], kind[d][i], &j->args[i]);
    dnnl_primitive_desc_destroy(pd);
    dnnl_primitive_desc_destroy(hint);
    return ok;
}

static void dnnl_close(job *j)
{
    for (int i = 0; i < 3; i++)
        dnnl_memory_destroy(j->args[i].memory);
    dnnl_primitive_destroy(j->primitive);
    dnnl_stream_destroy(j->stream);
}

static void run_dnnl(void *arg)
{
    job *j = arg;
    dnnl_primitive_execute(j->primitive, j->stream, 3, j->args);
    dnnl_stream_wait(j->stream);
}
#endif

/* Alternates between ours and theirs so that noise affects both; theirs is 0 without oneDNN. */
static void time_both(job *j, double seconds, double *ours, double *theirs)
{
    *ours = 1e30;
    *theirs = 0;
#ifdef HAVE_DNNL
    const bool compare = dnnl_open(j);
    *theirs = compare ? 1e30 : 0;
#endif
    for (int round = 0; round < 8; round++) {
        const double t = machine_time(run_ours, j, seconds / 8);
        *ours = t < *ours ? t : *ours;
#ifdef HAVE_DNNL
        const double other = compare ? machine_time(run_dnnl, j, seconds / 8) : 0;
        *theirs = other < *theirs ? other : *theirs;
#endif
    }
#ifdef HAVE_DNNL
    dnnl_close(j);
#endif
}

static float *numbers(int64_t count)
{
    float *memory = aligned_alloc(64, ((size_t)count * sizeof(float) + 63) / 64 * 64);
    for (int64_t i = 0; memory && i < count; i++)
        memory[i] = (float)((uint32_t)i * 2654435761u % 1000) / 1000 - 0.5f;
    return memory;
}

static bool bench_shape(const level *used, int i, double peak, double seconds)
{
    const int64_t n = shapes[i].n, c = shapes[i].c, o = shapes[i].o, in = shapes[i].size, k = shapes[i].k;
    const int64_t g = shapes[i].g, stride = shapes[i].stride, pad = shapes[i].pad;
    const int64_t out = (in + 2 * pad - k) / stride + 1;
    job j = {.level = used,
             .shape = {n, c, o, g, 2, {in, in}, {out, out}, {k, k}, {stride, stride}, {1, 1}, {pad, pad}, false},
             .x = numbers(n * c * in * in), .w = numbers(o * (c / g) * k * k), .y = numbers(n * o * out * out)};
    const double flops = 2e-9 * (double)(n * o * out * out) * (double)(c / g * k * k);
    const bool ok = j.x && j.w && j.y;
    double all[2] = {0, 0};
    printf("%-9s %2dx %3d->%3d %3d k%d ", shapes[i].what, (int)n, (int)c, (int)o, (int)in, (int)k);
    for (int d = 0; ok && d < 3; d++) {
        double ours, theirs;
        j.direction = d;
        time_both(&j, seconds, &ours, &theirs);
        printf(" %s %6.1f %3.0f%%", (const char *[]){"forward", "data", "weight"}[d], flops / ours,
               100 * flops / ours / peak);
        if (theirs > 0)
            printf(" x%5.2f", theirs / ours);
        printf(" %-8s", used->implementation(&j.shape, d));
        all[0] += ours;
        all[1] += theirs;
    }
    if (all[1] > 0)
        printf(" all x%5.2f", all[1] / all[0]);
    puts("");
    fflush(stdout);
    free(j.x), free(j.w), free(j.y);
    return ok;
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    const double seconds = argc > 2 ? atof(argv[2]) : 0.2;
    const char *name = argc > 3 ? argv[3] : machine_level();
    size_t at = 0;
    while (at < sizeof levels / sizeof *levels - 1 && strcmp(levels[at].name, name))
        at++;
    mx_set_num_threads(threads);
#ifdef HAVE_DNNL
    if (!strcmp(name, "avx2"))
        dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx2); /* the same instruction level */
    dnnl_threads(threads);
    if (dnnl_engine_create(&engine, dnnl_cpu, 0))
        return 1;
#endif
    const double peak = machine_fma_gflops(threads);
    printf("level %s, %d threads, peak %.1f GF/s\n", levels[at].name, threads, peak);
    puts("GF/s, share of the peak, oneDNN's time over ours (where oneDNN was compiled in), implementation");
    for (int i = 0; i < (int)(sizeof shapes / sizeof *shapes); i++)
        if ((argc <= 4 || strstr(shapes[i].what, argv[4])) && !bench_shape(&levels[at], i, peak, seconds))
            return 1;
    return 0;
}
