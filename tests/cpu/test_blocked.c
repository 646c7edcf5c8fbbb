/* Convolutions over blocked channels at every level that this machine runs, against plain loops in double.
 *
 * Sizes are drawn from a fixed sequence around those of tiles, groups, slices and strips: all numbers of pixels and of
 * output blocks, many input channels, strides, several images, addends and limits.
 *
 * ctest-levels: best (tests all levels itself)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include <cmocka.h>

#include "cpu/kernels/blocked/blocked.h"
#include "level_check.h"

typedef mx_code (*convolution)(const layout_conv *);

#define DECLARE(level)                                   \
    mx_code layout_convolve_##level(const layout_conv *);  \
    mx_code layout_pointwise_##level(const layout_conv *); \
    mx_code layout_winograd_##level(const layout_conv *);  \
    mx_code layout_depthwise_##level(const layout_conv *);
#define ROW(level, lanes) \
    {#level, lanes, layout_convolve_##level, layout_pointwise_##level, layout_winograd_##level, layout_depthwise_##level},
DECLARE(neon)
DECLARE(avx2)
DECLARE(avx512)

typedef struct level {
    const char *name;
    int64_t lanes; /* channels of a block */
    convolution convolve, pointwise, winograd, depthwise;
} level;

static const level levels[] = {
    ROW(generic, 4)
#if defined(MX_LEVEL_NEON)
    ROW(neon, 4)
#endif
#if defined(MX_LEVEL_AVX2)
    ROW(avx2, 8)
#endif
#if defined(MX_LEVEL_AVX512)
    ROW(avx512, 16)
#endif
};

static int level_count(void) { return levels_here((int)(sizeof levels / sizeof *levels)); }

/* Small whole numbers: sums are exact in any order, so results must be equal. */
static float *numbers(int64_t count)
{
    float *x = malloc((size_t)count * sizeof *x + 1);
    assert_non_null(x);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)pick(-3, 3);
    return x;
}

typedef struct data { /* of one call */
    float *x, *w, *bias, *add, *y;
} data;

static data draw_data(const layout_conv *c, int64_t lanes, int64_t inner, bool winograd)
{
    const int64_t taps = winograd ? 16 : c->kernel[0] * c->kernel[1];
    const int64_t results = c->batch * c->out_blocks * c->out_height * c->out_width * lanes;
    data d = {.x = numbers(c->batch * c->blocks * c->height * c->width * inner),
              .w = numbers(c->out_blocks * c->blocks * taps * inner * lanes),
              .bias = numbers(c->channels),
              .add = numbers(results),
              .y = numbers(results)};
    memset(d.y, 0xff, (size_t)results * sizeof *d.y);
    return d;
}

static void free_data(const data *d) { free(d->x), free(d->w), free(d->bias), free(d->add), free(d->y); }

/* A tap of the data: channel c of block b at row y, column x; zero outside. */
static double source(const layout_conv *c, int64_t inner, int64_t n, int64_t b, int64_t i, int64_t y, int64_t x)
{
    return y < 0 || x < 0 || y >= c->height || x >= c->width
               ? 0
               : c->x[(((n * c->blocks + b) * c->height + y) * c->width + x) * inner + i];
}

/* Lane o of the weights of output block k. */
static double weight(const layout_conv *c, int64_t lanes, int64_t inner, int64_t k, int64_t b, int64_t tap, int64_t i,
                     int64_t o)
{
    return c->w[(((k * c->blocks + b) * c->kernel[0] * c->kernel[1] + tap) * inner + i) * lanes + o];
}

static double expected(const layout_conv *c, int64_t lanes, int64_t inner, int64_t n, int64_t k, int64_t y, int64_t x,
                       int64_t o)
{
    double sum = c->bias && k * lanes + o < c->channels ? c->bias[k * lanes + o] : 0;
    for (int64_t b = 0; b < c->blocks; b++)
        for (int64_t tap = 0; tap < c->kernel[0] * c->kernel[1]; tap++)
            for (int64_t i = 0; i < inner; i++)
                sum += source(c, inner, n, b, i, y * c->stride[0] - c->pad[0] + tap / c->kernel[1] * c->dilate[0],
                              x * c->stride[1] - c->pad[1] + tap % c->kernel[1] * c->dilate[1]) *
                       weight(c, lanes, inner, k, b, tap, i, o);
    if (c->add)
        sum += c->add[(((n * c->out_blocks + k) * c->out_height + y) * c->out_width + x) * lanes + o];
    return c->finish.limits ? fmin(c->finish.high, fmax(c->finish.low, sum)) : sum;
}

static void check(const level *l, const layout_conv *c, int64_t inner)
{
    for (int64_t i = 0; i < c->batch * c->out_blocks * c->out_height * c->out_width * l->lanes; i++) {
        const int64_t o = i % l->lanes, x = i / l->lanes % c->out_width,
                      y = i / l->lanes / c->out_width % c->out_height;
        const int64_t block = i / l->lanes / c->out_width / c->out_height;
        const double wanted = expected(c, l->lanes, inner, block / c->out_blocks, block % c->out_blocks, y, x, o);
        if (!(c->y[i] == wanted))
            fail_msg(
                "%s: %lld blocks of %lldx%lld to %lld blocks of %lldx%lld: element %lld is %g, the plain loops give %g",
                l->name, (long long)c->blocks, (long long)c->height, (long long)c->width, (long long)c->out_blocks,
                (long long)c->out_height, (long long)c->out_width, (long long)i, c->y[i], wanted);
    }
}

/* The rest of a description whose sizes were drawn. */
static void complete(layout_conv *c, int64_t lanes)
{
    int64_t *out[2] = {&c->out_height, &c->out_width}, in[2] = {c->height, c->width};
    for (int i = 0; i < 2; i++)
        *out[i] = (in[i] + 2 * c->pad[i] - (c->kernel[i] - 1) * c->dilate[i] - 1) / c->stride[i] + 1;
    c->channels = c->out_blocks * lanes - pick(0, lanes - 1);
    c->finish = (layout_finish){.limits = pick(0, 1), .low = 0, .high = pick(0, 1) ? 6 : INFINITY};
}

static void run(const level *l, layout_conv *c, convolution call, bool winograd)
{
    const int64_t inner = c->plain ? 1 : l->lanes;
    complete(c, l->lanes);
    const data d = draw_data(c, l->lanes, inner, winograd);
    c->x = d.x, c->w = d.w, c->y = d.y;
    c->bias = pick(0, 3) ? d.bias : NULL, c->add = pick(0, 1) ? d.add : NULL;
    assert_int_equal(call(c), MX_OK);
    check(l, c, inner);
    free_data(&d);
}

static void test_pointwise(void **unused)
{
    (void)unused;
    for (int i = 0; i < level_count(); i++)
        for (int64_t round = 0; round < 160; round++) {
            const bool deep = round % 8 == 0,
                       wide = round % 8 == 1; /* slices of input channels; chunks and strips of pixels */
            layout_conv c = {.batch = deep || wide ? pick(1, 2) : pick(1, 6),
                             .height = pick(1, deep ? 4 : wide ? 30 : 8),
                             .width = pick(1, deep ? 5 : wide ? 30 : 8),
                             .blocks = deep ? pick(30, 200) : pick(1, 6),
                             .out_blocks = pick(1, 7),
                             .kernel = {1, 1},
                             .dilate = {1, 1},
                             .stride = {pick(0, 2) ? 1 : pick(1, 3), pick(0, 2) ? 1 : pick(1, 3)}};
            run(&levels[i], &c, levels[i].pointwise, false);
        }
}

static void test_windows(void **unused)
{
    (void)unused;
    for (int i = 0; i < level_count(); i++)
        for (int64_t round = 0; round < 120; round++) {
            const bool plain = round % 3 == 0;
            layout_conv c = {.batch = pick(1, 5),
                             .plain = plain,
                             .height = pick(5, 14),
                             .width = pick(5, 14),
                             .blocks = plain ? pick(1, 3) : pick(1, 5),
                             .out_blocks = pick(1, 5),
                             .kernel = {pick(1, 5), pick(1, 5)},
                             .dilate = {1, 1},
                             .stride = {pick(1, 3), pick(1, 3)},
                             .pad = {pick(0, 2), pick(0, 2)}};
            c.dilate[pick(0, 1)] = c.kernel[0] < 3 && c.kernel[1] < 3 ? pick(1, 3) : 1;
            run(&levels[i], &c, levels[i].convolve, false);
        }
}

/* U = G w G' of one window; times 4, so that all numbers are whole. */
static void transform(const float *w, float *u, int64_t step)
{
    static const double g[4][3] = {{2, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 2}};
    for (int k = 0; k < 16; k++) {
        double sum = 0;
        for (int t = 0; t < 9; t++)
            sum += g[k / 4][t / 3] * w[t] * g[k % 4][t % 3];
        u[k * step] = (float)sum;
    }
}

/* As `run`, with weights that are transformed: (16, O, C, lanes, lanes) from windows of four times the weight. */
static void run_winograd(const level *l, layout_conv *c)
{
    complete(c, l->lanes);
    const data d = draw_data(c, l->lanes, l->lanes, true);
    const int64_t square = l->lanes * l->lanes, step = c->out_blocks * c->blocks * square;
    float *windows = numbers(9 * step), window[9];
    for (int64_t i = 0; i < step; i++) {
        for (int64_t t = 0; t < 9; t++)
            window[t] = windows[(i / square * 9 + t) * square + i % square];
        transform(window, d.w + i, step);
    }
    c->x = d.x, c->w = d.w, c->y = d.y, c->bias = NULL, c->add = pick(0, 1) ? d.add : NULL;
    assert_int_equal(l->winograd(c), MX_OK);
    for (int64_t i = 0; i < 9 * step; i++)
        windows[i] *= 4;
    c->w = windows;
    check(l, c, l->lanes);
    free(windows);
    free_data(&d);
}

static void test_winograd(void **unused)
{
    (void)unused;
    for (int i = 0; i < level_count(); i++)
        for (int64_t round = 0; round < 40; round++) {
            layout_conv c = {.batch = pick(1, 3),
                             .height = pick(3, 14),
                             .width = pick(3, 14),
                             .blocks = round % 8 ? pick(1, 4) : pick(30, 40),
                             .out_blocks = round % 8 ? pick(1, 5) : pick(1, 3),
                             .kernel = {3, 3},
                             .dilate = {1, 1},
                             .stride = {1, 1},
                             .pad = {pick(0, 2), pick(0, 2)}};
            run_winograd(&levels[i], &c);
        }
}

/* ---- depthwise ------------------------------------------------------------------------------------------------------ */

static double expected_depthwise(const layout_conv *c, int64_t lanes, int64_t plane, int64_t y, int64_t x, int64_t o)
{
    const int64_t block = plane % c->blocks, taps = c->kernel[0] * c->kernel[1];
    double sum = c->bias && block * lanes + o < c->channels ? c->bias[block * lanes + o] : 0;
    for (int64_t tap = 0; tap < taps; tap++)
        sum += source(c, lanes, plane / c->blocks, block, o,
                      y * c->stride[0] - c->pad[0] + tap / c->kernel[1] * c->dilate[0],
                      x * c->stride[1] - c->pad[1] + tap % c->kernel[1] * c->dilate[1]) *
               c->w[(block * taps + tap) * lanes + o];
    if (c->add)
        sum += c->add[((plane * c->out_height + y) * c->out_width + x) * lanes + o];
    return c->finish.limits ? fmin(c->finish.high, fmax(c->finish.low, sum)) : sum;
}

static void run_depthwise(const level *l, layout_conv *c)
{
    complete(c, l->lanes);
    const data d = draw_data(c, l->lanes, l->lanes, false);
    c->x = d.x, c->w = d.w, c->y = d.y;
    c->bias = pick(0, 3) ? d.bias : NULL, c->add = pick(0, 1) ? d.add : NULL;
    assert_int_equal(l->depthwise(c), MX_OK);
    for (int64_t i = 0; i < c->batch * c->blocks * c->out_height * c->out_width * l->lanes; i++) {
        const int64_t pixel = i / l->lanes, plane = pixel / c->out_width / c->out_height;
        const double wanted = expected_depthwise(c, l->lanes, plane, pixel / c->out_width % c->out_height,
                                                 pixel % c->out_width, i % l->lanes);
        if (!(c->y[i] == wanted))
            fail_msg(
                "%s: depthwise %lldx%lld, stride %lld, %lldx%lld to %lldx%lld: element %lld is %g, the plain loops give %g",
                l->name, (long long)c->kernel[0], (long long)c->kernel[1], (long long)c->stride[1],
                (long long)c->height, (long long)c->width, (long long)c->out_height, (long long)c->out_width,
                (long long)i, c->y[i], wanted);
    }
    free_data(&d);
}

/* Rows of any number of tiles, with edges of any width; on two threads bands of rows, or planes. */
static void test_depthwise(void **unused)
{
    (void)unused;
    const int threads = mx_num_threads();
    mx_set_num_threads(2);
    for (int i = 0; i < level_count(); i++)
        for (int64_t round = 0; round < 400; round++) {
            const bool usual = round % 4;
            const int64_t taps = usual ? 3 + round % 2 * 2 : pick(1, 6), blocks = pick(1, 5);
            layout_conv c = {.batch = pick(1, 3),
                             .height = pick(5, 26),
                             .width = pick(5, 45),
                             .blocks = blocks,
                             .out_blocks = blocks,
                             .kernel = {usual ? taps : pick(1, 5), taps},
                             .dilate = {1, 1},
                             .stride = {pick(1, 2), pick(1, usual ? 2 : 3)},
                             .pad = {pick(0, 3), pick(0, usual ? taps / 2 : 4)}};
            c.dilate[pick(0, 1)] = usual || c.kernel[0] > 2 || c.kernel[1] > 2 ? 1 : pick(1, 3);
            if (c.width + 2 * c.pad[1] >= c.kernel[1] && c.height + 2 * c.pad[0] >= c.kernel[0])
                run_depthwise(&levels[i], &c);
        }
    mx_set_num_threads(threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pointwise), cmocka_unit_test(test_windows),
                                       cmocka_unit_test(test_winograd), cmocka_unit_test(test_depthwise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
