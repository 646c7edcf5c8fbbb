/* Matrix products: speed, share of the machine's peak and, where compiled with HAVE_DNNL, the ratio to oneDNN.
 *
 * Shapes are those of small networks (dense layers and their gradients), of recurrent cells, of convolutions
 * lowered to products, and large squares.  NN, NT and TN are the products of the two gradients and of the forward
 * pass.  Ours and theirs run alternately, and the best time of each counts, so other load on the machine affects both.
 *
 *     bench_gemm [threads] [seconds per number]
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu/kernels/gemm/gemm.h"
#include "machine.h"
#ifdef HAVE_DNNL
#include <oneapi/dnnl/dnnl.h>
#endif

/* The same functions at every level; the library's own dispatch is above them. */
#undef mx_gemm_f32_run
#undef mx_gemm_f64_run
mx_code mx_gemm_f32_run_generic(const mx_gemm_f32 *g);
mx_code mx_gemm_f64_run_generic(const mx_gemm_f64 *g);
mx_code mx_gemm_f32_run_avx2(const mx_gemm_f32 *g);
mx_code mx_gemm_f32_run_avx512(const mx_gemm_f32 *g);
mx_code mx_gemm_f64_run_avx2(const mx_gemm_f64 *g);
mx_code mx_gemm_f64_run_avx512(const mx_gemm_f64 *g);

typedef struct level {
    const char *name;
    mx_code (*f32)(const mx_gemm_f32 *g);
    mx_code (*f64)(const mx_gemm_f64 *g);
} level;

static const level levels[] = {
#ifdef MX_LEVEL_AVX512
    {"avx512", mx_gemm_f32_run_avx512, mx_gemm_f64_run_avx512},
#endif
#ifdef MX_LEVEL_AVX2
    {"avx2", mx_gemm_f32_run_avx2, mx_gemm_f64_run_avx2},
#endif
    {"generic", mx_gemm_f32_run_generic, mx_gemm_f64_run_generic},
};

static const struct { int m, n, k; const char *what; } shapes[] = {
    {64, 256, 784, "dense 784-256"}, {64, 256, 256, "dense 256-256"}, {64, 120, 256, "dense 256-120"},
    {64, 84, 120, "dense 120-84"},   {64, 10, 256, "dense 256-10"},   {64, 10, 84, "dense 84-10"},
    {256, 784, 64, "its gradient"},  {10, 256, 64, "its gradient"},   {120, 256, 64, "its gradient"},
    {1, 1000, 1024, "one sample"},   {20, 2600, 650, "lstm cell"},    {2600, 650, 20, "its gradient"},
    {256, 3136, 64, "1x1 conv"},     {64, 3136, 576, "3x3 conv"},     {128, 784, 1152, "3x3 conv"},
    {512, 512, 512, "square"},       {1024, 1024, 1024, "square"},    {1000, 1000, 1000, "square"},
};

typedef struct job {
    const level *level;
    mx_gemm_f32 f32;
    mx_gemm_f64 f64;
} job;

static void run_f32(void *arg) { ((job *)arg)->level->f32(&((job *)arg)->f32); }
static void run_f64(void *arg) { ((job *)arg)->level->f64(&((job *)arg)->f64); }

#ifdef HAVE_DNNL
static void run_dnnl(void *arg)
{
    const mx_gemm_f32 *g = &((job *)arg)->f32;
    dnnl_sgemm(g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', g->m, g->n, g->k, g->alpha, g->a, g->lda, g->b, g->ldb,
               g->beta, g->c, g->ldc);
}
#endif

/* Alternates between two bodies so that noise affects both; returns the best time of each. */
static void time_pair(void (*first)(void *), void (*second)(void *), job *j, double seconds, double best[2])
{
    best[0] = best[1] = 1e30;
    for (int round = 0; round < 6; round++) {
        const double ours = machine_time(first, j, seconds / 6);
        const double theirs = second ? machine_time(second, j, seconds / 6) : 0;
        if (second) /* its idle threads spin for a while and would take a core from ours */
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        best[0] = ours < best[0] ? ours : best[0];
        best[1] = theirs < best[1] ? theirs : best[1];
    }
}

static void *numbers(size_t count, size_t size)
{
    char *memory = aligned_alloc(64, (count * size + 63) / 64 * 64);
    for (size_t i = 0; memory && i < count; i++) {
        const double x = (double)(i * 2654435761u % 1000) / 1000 - 0.5;
        if (size == sizeof(float))
            ((float *)memory)[i] = (float)x;
        else
            ((double *)memory)[i] = x;
    }
    return memory;
}

/* One row of the table, for one element size; returns false when out of memory. */
static bool bench_shape(const level *used, int s, size_t size, double peak, double seconds)
{
    const int64_t m = shapes[s].m, n = shapes[s].n, k = shapes[s].k;
    void *a = numbers((size_t)(m * k), size), *b = numbers((size_t)(k * n), size), *c = numbers((size_t)(m * n), size);
    const bool ok = a && b && c;
    if (ok)
        printf("%4d %5d %5d  %-14s", (int)m, (int)n, (int)k, shapes[s].what);
    for (int way = 0; ok && way < 3; way++) {
        const bool ta = way == 2, tb = way == 1;
        job j = {.level = used,
                 .f32 = {ta, tb, m, n, k, 1, 0, a, ta ? m : k, b, tb ? k : n, c, n, NULL, false, 1, 0, 0, 0, false},
                 .f64 = {ta, tb, m, n, k, 1, 0, a, ta ? m : k, b, tb ? k : n, c, n, NULL, false, 1, 0, 0, 0, false}};
        void (*theirs)(void *) = NULL;
#ifdef HAVE_DNNL
        theirs = size == sizeof(float) ? run_dnnl : NULL;
#endif
        double best[2];
        time_pair(size == sizeof(float) ? run_f32 : run_f64, theirs, &j, seconds, best);
        const double rate = 2e-9 * (double)m * (double)n * (double)k / best[0];
        printf("   %s %6.1f %3.0f%%", (const char *[]){"NN", "NT", "TN"}[way], rate, 100 * rate / peak);
        if (theirs)
            printf(" x%4.2f", best[1] / best[0]);
    }
    puts("");
    fflush(stdout);
    free(a), free(b), free(c);
    return ok;
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    const double seconds = argc > 2 ? atof(argv[2]) : 0.1;
    const level *used = levels;
    while (strcmp(used->name, machine_level()))
        used++;
    mx_set_num_threads(threads);
    const double peak = machine_fma_gflops(threads), copy = machine_copy_gbs(threads);
    printf("level %s, %d threads, peak %.1f GF/s, copy %.1f GB/s\n", used->name, threads, peak, copy);
    puts("GF/s, share of the peak, oneDNN's time over ours (where oneDNN was compiled in)");
    for (int s = 0; s < (int)(sizeof shapes / sizeof *shapes); s++)
        if (!bench_shape(used, s, sizeof(float), peak, seconds))
            return 1;
    puts("double precision (peak: half)");
    for (int s = 0; s < (int)(sizeof shapes / sizeof *shapes); s++)
        if (!bench_shape(used, s, sizeof(double), peak / 2, seconds / 2))
            return 1;
    return 0;
}
