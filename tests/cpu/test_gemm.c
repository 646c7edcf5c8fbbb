/* Matrix products of every level that this machine runs, against a naive double loop.
 *
 * Sizes straddle the tiles; flags, alpha, beta, bias, relu, batch and padded rows vary with the case.
 *
 * ctest-levels: best (tests all levels itself)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cpu/kernels/gemm/gemm.h"

typedef mx_code (*gemm_fn)(const mx_gemm_f32 *);
typedef mx_code (*gemm64_fn)(const mx_gemm_f64 *);
typedef void (*pack_fn)(const mx_gemm_f32 *, float *);
typedef void (*pack64_fn)(const mx_gemm_f64 *, double *);
#define DECLARE(level) \
    mx_code mx_gemm_f32_run_##level(const mx_gemm_f32 *); \
    mx_code mx_gemm_f64_run_##level(const mx_gemm_f64 *); \
    void mx_gemm_f32_pack_##level(const mx_gemm_f32 *, float *); \
    void mx_gemm_f64_pack_##level(const mx_gemm_f64 *, double *);
DECLARE(generic)
DECLARE(neon)
DECLARE(avx2)
DECLARE(avx512)

typedef struct level {
    const char *name;
    gemm_fn f32;
    gemm64_fn f64;
    pack_fn pack32;
    pack64_fn pack64;
    int64_t columns; /* of a panel: two vectors of floats */
} level_row;
static level_row levels[3];
#define ROW(level, columns) \
    (level_row){#level,  mx_gemm_f32_run_##level, mx_gemm_f64_run_##level, mx_gemm_f32_pack_##level, mx_gemm_f64_pack_##level, columns}

static int level_count(void)
{
    int n = 0;
    levels[n++] = ROW(generic, 8);
#if defined(MX_LEVEL_NEON)
    levels[n++] = ROW(neon, 8);
#endif
#if defined(MX_LEVEL_AVX2)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        levels[n++] = ROW(avx2, 16);
#endif
#if defined(MX_LEVEL_AVX512)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        levels[n++] = ROW(avx512, 32);
#endif
    return n;
}

static uint32_t state = 1;
static double next(void)
{
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (1 << 24) * 2 - 1;
}

static double *numbers(int64_t n)
{
    double *x = test_malloc((size_t)(n ? n : 1) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)next(); /* exact in both types */
    return x;
}

static float *narrowed(const double *x, int64_t n)
{
    float *y = test_malloc((size_t)(n ? n : 1) * sizeof *y);
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)x[i];
    return y;
}

/* The naive loop, from the double description. */
static void naive(const mx_gemm_f64 *g, double *c)
{
    for (int64_t t = 0; t < g->batch; t++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++) {
                double sum = 0, *to = &c[t * g->stride_c + i * g->ldc + j];
                for (int64_t p = 0; p < g->k; p++)
                    sum += g->a[t * g->stride_a + (g->trans_a ? p * g->lda + i : i * g->lda + p)] *
                           g->b[t * g->stride_b + (g->trans_b ? j * g->ldb + p : p * g->ldb + j)];
                sum = g->alpha * sum + (g->beta != 0 ? g->beta * *to : 0) + (g->bias ? g->bias[j] : 0);
                *to = g->relu && sum < 0 ? 0 : sum;
            }
}

static void compare(const char *what, const mx_gemm_f64 *g, double got, double wanted, double unit)
{
    if (fabs(got - wanted) <= unit * (4 + (double)g->k) || (isnan(got) && isnan(wanted)))
        return;
    fail_msg("%s m=%lld n=%lld k=%lld ta=%d tb=%d: got %.9g, wanted %.9g", what, (long long)g->m, (long long)g->n,
             (long long)g->k, g->trans_a, g->trans_b, got, wanted);
}

/* Element (p, j) of B is in row p of panel j / columns; what is past the last column is zero. */
static void check_layout(const mx_gemm_f64 *g, int64_t columns, const float *panels)
{
    for (int64_t j = 0; j < (g->n + columns - 1) / columns * columns; j++)
        for (int64_t p = 0; p < g->k; p++) {
            const double wanted = j >= g->n ? 0 : g->b[g->trans_b ? j * g->ldb + p : p * g->ldb + j];
            if (panels[(j / columns * g->k + p) * columns + j % columns] != (float)wanted)
                fail_msg("panels of %lld columns: (%lld, %lld) is wrong", (long long)columns, (long long)p,
                         (long long)j);
        }
}

/* The same product with B in panels of the level's width. */
static void check_panels(const mx_gemm_f64 *g, const mx_gemm_f32 *plain, int level, const double *before,
                         const double *wanted)
{
    const int64_t columns = levels[level].columns, room = (g->n + columns) * g->k + 1, size = g->m * g->ldc;
    float *b = test_calloc((size_t)room, sizeof *b), *c = narrowed(before, size);
    double *wide = test_calloc((size_t)room, sizeof *wide), *c64 = test_malloc((size_t)(size + 1) * sizeof *c64);
    memcpy(c64, before, (size_t)size * sizeof *c64);
    levels[level].pack32(plain, b);
    check_layout(g, columns, b);
    levels[level].pack64(g, wide);
    mx_gemm_f32 packed = *plain;
    packed.b = b, packed.c = c, packed.trans_b = false, packed.ldb = columns, packed.panels_b = true;
    assert_int_equal(levels[level].f32(&packed), MX_OK);
    mx_gemm_f64 packed64 = *g;
    packed64.b = wide, packed64.c = c64, packed64.trans_b = false, packed64.panels_b = true;
    assert_int_equal(levels[level].f64(&packed64), MX_OK);
    for (int64_t i = 0; i < size; i++) {
        compare(levels[level].name, g, c[i], wanted[i], 1e-6);
        compare(levels[level].name, g, c64[i], wanted[i], 1e-14);
    }
    test_free(b), test_free(c), test_free(wide), test_free(c64);
}

static void check_case(int64_t m, int64_t n, int64_t k, int flags)
{
    const bool ta = flags & 1, tb = flags & 2;
    const int64_t pad = flags & 4 ? 3 : 0, batch = flags & 8 ? 2 : 1;
    const int64_t lda = (ta ? m : k) + pad, ldb = (tb ? k : n) + pad, ldc = n + pad;
    const int64_t sa = (ta ? k : m) * lda, sb = (tb ? n : k) * ldb, sc = m * ldc;
    double *a = numbers(batch * sa), *b = numbers(batch * sb), *c = numbers(batch * sc), *bias = numbers(n);
    mx_gemm_f64 g = {ta, tb, m, n, k, flags & 16 ? 0.5 : 1, flags & 32 ? 2 : 0, a, lda, b, ldb, NULL, ldc, flags & 64 ? bias : NULL, (flags & 128) != 0,
                     batch, sa, sb, sc, false};
    double *wanted = test_malloc((size_t)(batch * sc + 1) * sizeof *wanted);
    memcpy(wanted, c, (size_t)(batch * sc) * sizeof *wanted);
    naive(&g, wanted);
    for (int level = 0; level < level_count(); level++) {
        float *a32 = narrowed(a, batch * sa), *b32 = narrowed(b, batch * sb), *c32 = narrowed(c, batch * sc),
              *bias32 = narrowed(bias, n);
        mx_gemm_f32 g32 = {ta,  tb,  m,   n,   k,   (float)g.alpha,         (float)g.beta, a32,
                           lda, b32, ldb, c32, ldc, g.bias ? bias32 : NULL, g.relu,        batch,
                           sa,  sb,  sc,  false};
        assert_int_equal(levels[level].f32(&g32), MX_OK);
        double *c64 = test_malloc((size_t)(batch * sc + 1) * sizeof *c64);
        memcpy(c64, c, (size_t)(batch * sc) * sizeof *c64);
        g.c = c64;
        assert_int_equal(levels[level].f64(&g), MX_OK);
        for (int64_t i = 0; i < batch * sc; i++) {
            compare(levels[level].name, &g, c32[i], wanted[i], 1e-6); /* padding columns must be as they were */
            compare(levels[level].name, &g, c64[i], wanted[i], 1e-14);
        }
        if (batch == 1)
            check_panels(&g, &g32, level, c, wanted);
        test_free(a32), test_free(b32), test_free(c32), test_free(bias32), test_free(c64);
    }
    test_free(a), test_free(b), test_free(c), test_free(bias), test_free(wanted);
}

static void odd_sizes(void **unused)
{
    (void)unused;
    static const int64_t sizes[] = {0, 1, 2, 5, 13, 16, 17, 33, 65};
    int flags = 0;
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 9; j++)
            for (int l = 0; l < 9; l++, flags = (flags + 37) % 256) {
                check_case(sizes[i], sizes[j], sizes[l], flags);
                check_case(sizes[i], sizes[j], sizes[l], flags ^ 3);
            }
}

static void large_sizes(void **unused) /* blocking along every axis, and threads */
{
    (void)unused;
    static const int64_t shapes[][3] = {{64, 256, 784}, {129, 301, 515}, {20, 700, 650},
                                        {300, 10, 257}, {1, 1000, 333},  {515, 3, 64}};
    for (int i = 0; i < 6; i++)
        for (int flags = 0; flags < 4; flags++)
            check_case(shapes[i][0], shapes[i][1], shapes[i][2], flags + 64);
}

static void no_memory(void **unused)
{
    (void)unused;
    double *a = numbers(400 * 400), *b = numbers(400 * 400), *c = numbers(400 * 400);
    mx_gemm_f64 g = {true, true, 400, 400, 400, 1, 0, a, 400, b, 400, c, 400, NULL, false, 1, 0, 0, 0, false};
    for (int level = 0; level < level_count(); level++) {
        mx_alloc_fail_at(1);
        mx_code code = levels[level].f64(&g);
        mx_alloc_fail_at(0);
        assert_true(code == MX_OK || code == MX_ERR_MEMORY);
        mx_error_clear();
        assert_int_equal(levels[level].f64(&g), MX_OK);
    }
    test_free(a), test_free(b), test_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(odd_sizes), cmocka_unit_test(large_sizes),
                                       cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
