/* Convolution and pooling kernels of every level that this machine runs, against the reference loops in double.
 *
 * Shapes are drawn from a fixed sequence: 1-3 axes, groups, depthwise, strides, dilation, padding larger than the
 * kernel, both layouts, empty batches.  Implementations are chosen by shape, so all of them are tested.
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

#include "base/alloc.h"
#include "cpu/kernels/conv/conv.h"
#include "cpu/kernels/pool/pool.h"
#include "level_check.h"

#define CONV_ARGS const mx_conv_shape *, const float *, const float *
#define DECLARE(level)                                                                             \
    mx_code conv_forward_##level(CONV_ARGS, const float *, bool, float *);                         \
    mx_code conv_backward_data_##level(CONV_ARGS, float *);                                        \
    mx_code conv_backward_weight_##level(CONV_ARGS, float *, float *);                             \
    const char *conv_implementation_##level(const mx_conv_shape *, int);                           \
    mx_code pool_forward_##level(const mx_pool_shape *, const float *, float *);                   \
    mx_code pool_backward_##level(const mx_pool_shape *, const float *, const float *, float *);
#define ROW(level) \
    {conv_forward_##level, conv_backward_data_##level, conv_backward_weight_##level, conv_implementation_##level, \
     pool_forward_##level, pool_backward_##level},
DECLARE(neon)
DECLARE(avx2)
DECLARE(avx512)

typedef struct level {
    mx_code (*forward)(CONV_ARGS, const float *, bool, float *);
    mx_code (*backward_data)(CONV_ARGS, float *);
    mx_code (*backward_weight)(CONV_ARGS, float *, float *);
    const char *(*implementation)(const mx_conv_shape *, int direction);
    mx_code (*pool)(const mx_pool_shape *, const float *, float *);
    mx_code (*pool_backward)(const mx_pool_shape *, const float *, const float *, float *);
} level;

static const level levels[] = {
    ROW(generic)
#if defined(MX_LEVEL_NEON)
    ROW(neon)
#endif
#if defined(MX_LEVEL_AVX2)
    ROW(avx2)
#endif
#if defined(MX_LEVEL_AVX512)
    ROW(avx512)
#endif
};

static int level_count(void) { return levels_here((int)(sizeof levels / sizeof *levels)); }

typedef struct pair { /* the same numbers in both precisions */
    float *f;
    double *d;
    int64_t count;
} pair;

static pair pair_new(int64_t count, bool whole)
{
    pair p = {malloc((size_t)count * sizeof(float) + 1), malloc((size_t)count * sizeof(double) + 1), count};
    assert_non_null(p.f);
    assert_non_null(p.d);
    for (int64_t i = 0; i < count; i++)
        p.d[i] = p.f[i] = whole ? (float)pick(-3, 3) : (float)pick(-1000, 1000) / 1000;
    return p;
}

static void pair_free(pair *p) { free(p->f), free(p->d); }

static void poison(pair *p) { memset(p->f, 0xff, (size_t)p->count * sizeof(float)); }

static void check_equal(const pair *p, double terms)
{
    for (int64_t i = 0; i < p->count; i++)
        if (!(fabs(p->f[i] - p->d[i]) <= 1e-5 * (1 + sqrt(terms))))
            fail_msg("element %lld is %g, the plain loops give %g", (long long)i, p->f[i], p->d[i]);
}

/* Draws a shape; false where the kernel does not fit or the work would take long. */
static bool draw_conv(mx_conv_shape *s)
{
    const int64_t kind = pick(0, 5); /* 0: groups, 1: depthwise, otherwise one group */
    *s = (mx_conv_shape){.batch = pick(0, 5), .groups = kind == 0 ? pick(1, 5) : kind == 1 ? pick(1, 40) : 1,
                         .ndim = (int)pick(1, 3), .channels_last = pick(0, 3) == 0};
    s->in_channels = s->groups * (kind == 1 ? 1 : pick(0, 3) ? pick(1, 9) : pick(1, 70));
    s->out_channels = s->groups * (kind == 1 ? pick(1, 2) : pick(0, 3) ? pick(1, 9) : pick(1, 70));
    double work = (double)s->batch * (double)s->in_channels * (double)s->out_channels / (double)s->groups;
    for (int i = 0; i < s->ndim; i++) {
        s->in[i] = pick(1, s->ndim == 1 ? 80 : s->ndim == 2 ? 20 : 9);
        s->kernel[i] = pick(1, pick(0, 1) ? 3 : 7);
        s->stride[i] = pick(0, 1) ? 1 : pick(1, 4);
        s->dilate[i] = pick(0, 2) ? 1 : pick(1, 3);
        s->pad[i] = pick(0, 1) ? 0 : pick(0, s->kernel[i] + 1);
        const int64_t room = s->in[i] + 2 * s->pad[i] - s->dilate[i] * (s->kernel[i] - 1) - 1;
        if (room < 0)
            return false;
        s->out[i] = room / s->stride[i] + 1;
        work *= (double)(s->out[i] * s->kernel[i]);
    }
    return work < 2e6;
}

static int64_t product(const int64_t *sizes, int count)
{
    int64_t all = 1;
    for (int i = 0; i < count; i++)
        all *= sizes[i];
    return all;
}

static void check_conv(const mx_conv_shape *s)
{
    const int64_t in = product(s->in, s->ndim), out = product(s->out, s->ndim), taps = product(s->kernel, s->ndim);
    const int64_t from = s->in_channels / s->groups, to = s->out_channels / s->groups;
    pair x = pair_new(s->batch * s->in_channels * in, false), dx = pair_new(x.count, false);
    pair y = pair_new(s->batch * s->out_channels * out, false), dy = pair_new(y.count, false);
    pair w = pair_new(s->out_channels * from * taps, false), dw = pair_new(w.count, false);
    pair bias = pair_new(s->out_channels, false), dbias = pair_new(s->out_channels, false);
    const bool relu = pick(0, 1);
    assert_int_equal(conv_reference_f64_generic(s, x.d, w.d, bias.d, relu, y.d), MX_OK);
    assert_int_equal(conv_reference_backward_data_f64_generic(s, dy.d, w.d, dx.d), MX_OK);
    assert_int_equal(conv_reference_backward_weight_f64_generic(s, x.d, dy.d, dw.d, dbias.d), MX_OK);
    for (int i = 0; i < level_count(); i++) {
        poison(&y), poison(&dx), poison(&dw), poison(&dbias);
        assert_int_equal(levels[i].forward(s, x.f, w.f, bias.f, relu, y.f), MX_OK);
        assert_int_equal(levels[i].backward_data(s, dy.f, w.f, dx.f), MX_OK);
        assert_int_equal(levels[i].backward_weight(s, x.f, dy.f, dw.f, dbias.f), MX_OK);
        check_equal(&y, (double)(from * taps));
        check_equal(&dx, (double)(to * taps));
        check_equal(&dw, (double)(s->batch * out));
        check_equal(&dbias, (double)(s->batch * out));
    }
    pair_free(&x), pair_free(&dx), pair_free(&y), pair_free(&dy), pair_free(&w), pair_free(&dw);
    pair_free(&bias), pair_free(&dbias);
}

static void conv_random_shapes(void **unused)
{
    (void)unused;
    for (int done = 0; done < 200;) {
        mx_conv_shape s;
        if (draw_conv(&s)) {
            check_conv(&s);
            done++;
        }
    }
}

/* Shapes that are seldom drawn: depthwise with sizes around the vector's, small images read in place. */
static void conv_chosen_shapes(void **unused)
{
    (void)unused;
    for (int64_t kernel = 3; kernel <= 5; kernel += 2)
        for (int64_t stride = 1; stride <= 2; stride++)
            for (int64_t pad = 0; pad <= kernel; pad++)
                for (int64_t size = kernel; size < 40; size += pick(1, 6)) {
                    const int64_t height = pick(kernel, 20), groups = pick(1, 3);
                    check_conv(&(mx_conv_shape){
                        2, groups, groups, groups, 2, {height, size},
                        {(height + 2 * pad - kernel) / stride + 1, (size + 2 * pad - kernel) / stride + 1},
                        {kernel, kernel}, {stride, stride}, {1, 1}, {pad, pad}, groups == 1});
                }
    for (int64_t channels = 1; channels < 40; channels += pick(1, 9))
        for (int64_t size = 5; size < 16; size++) {
            const int64_t out = pick(1, 50);
            check_conv(&(mx_conv_shape){3, channels, out, 1, 2, {size, size}, {size - 4, size - 4}, {5, 5}, {1, 1},
                                        {1, 1}, {0, 0}, false});
        }
}

/* More padding than there is data: results that see nothing else, taps that never meet any. */
static void conv_wide_padding(void **unused)
{
    (void)unused;
    for (int done = 0; done < 400;) {
        mx_conv_shape s = {
            .batch = pick(1, 2), .groups = pick(1, 2), .ndim = (int)pick(1, 2), .channels_last = pick(0, 4) == 0};
        s.in_channels = s.groups * pick(1, 3), s.out_channels = s.groups * pick(1, 3);
        bool fits = true;
        for (int i = 0; i < s.ndim; i++) {
            s.in[i] = pick(1, 4), s.kernel[i] = pick(1, 4), s.stride[i] = pick(1, 5), s.dilate[i] = pick(1, 4),
            s.pad[i] = pick(0, 9);
            const int64_t room = s.in[i] + 2 * s.pad[i] - s.dilate[i] * (s.kernel[i] - 1) - 1;
            fits &= room >= 0;
            s.out[i] = room / s.stride[i] + 1;
        }
        if (fits) {
            check_conv(&s);
            done++;
        }
    }
}

/* The sizes in which networks begin and end: square planes that are one vector wide, pairs of small images, many
 * positions for few channels. */
static void conv_network_shapes(void **unused)
{
    (void)unused;
    for (int64_t size = 7; size <= 14; size += 7)
        for (int64_t groups = 1; groups <= 3; groups++) {
            check_conv(&(mx_conv_shape){3, groups, groups, groups, 2, {size, size}, {size, size}, {3, 3}, {1, 1},
                                        {1, 1}, {1, 1}, false});
            check_conv(&(mx_conv_shape){3, groups, groups, groups, 2, {2 * size, 2 * size * groups},
                                        {size, size * groups}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false});
        }
    for (int64_t batch = 1; batch <= 5; batch++)
        for (int64_t stride = 1; stride <= 2; stride++)
            check_conv(&(mx_conv_shape){batch, 24, 40, 1, 2, {7 * stride, 7 * stride}, {7, 7}, {3, 3},
                                        {stride, stride}, {1, 1}, {1, 1}, false});
    check_conv(&(mx_conv_shape){
        1, 4, 6, 2, 2, {300, 240}, {300, 240}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false}); /* tiles of groups */
    check_conv(&(mx_conv_shape){2, 3, 20, 1, 2, {32, 32}, {32, 32}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false});
    check_conv(&(mx_conv_shape){2, 3, 33, 1, 2, {28, 28}, {14, 14}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, false});
}

static mx_conv_shape square(int64_t batch, int64_t from, int64_t to, int64_t height, int64_t width, int64_t pad)
{
    return (mx_conv_shape){batch, from, to, 1, 2, {height, width}, {height + 2 * pad - 2, width + 2 * pad - 2}, {3, 3}, {1, 1},
                           {1, 1}, {pad, pad}, false};
}

/* Enough channels and tiles for Winograd's method: all remainders of lines, vectors and strips, several images in a strip and
 * several strips. */
static void conv_winograd_shapes(void **unused)
{
    (void)unused;
    int used[3] = {0};
    for (int i = 0; i < 30; i++) {
        const int64_t pad = pick(0, 3), height = pick(3, 16), width = pick(3, i % 2 ? 16 : 50);
        const mx_conv_shape s = square(pick(1, 7), pick(8, 50), pick(8, 50), height, width, pad);
        check_conv(&s);
        for (int d = 0; d < 3; d++)
            for (int l = 0; l < level_count(); l++)
                used[d] += !strcmp(levels[l].implementation(&s, d), "winograd");
    }
    for (int d = 0; d < 3; d++)
        assert_true(used[d] > 10);
}

/* The same bits with any number of threads, also where a thread would get less than a channel. */
static void conv_winograd_threads(void **unused)
{
    (void)unused;
    const mx_conv_shape shapes[] = {square(9, 40, 33, 13, 14, 1), square(2, 16, 64, 40, 40, 1)};
    const int threads = mx_num_threads();
    for (int i = 0; i < 2 * level_count(); i++) {
        const mx_conv_shape *s = &shapes[i % 2];
        const level *l = &levels[i / 2];
        const int64_t in = s->batch * s->in_channels * s->in[0] * s->in[1],
                      out = s->batch * s->out_channels * s->out[0] * s->out[1];
        pair x = pair_new(in, false), y = pair_new(out, false),
             w = pair_new(9 * s->in_channels * s->out_channels, false);
        const size_t bytes = (size_t)(x.count + y.count + w.count) * sizeof(float);
        float *first = NULL;
        for (int n = 1; n <= 5; n += 2) {
            mx_set_num_threads(n);
            float *now = malloc(bytes);
            assert_non_null(now);
            assert_int_equal(l->forward(s, x.f, w.f, NULL, true, now), MX_OK);
            assert_int_equal(l->backward_data(s, y.f, w.f, now + y.count), MX_OK);
            assert_int_equal(l->backward_weight(s, x.f, y.f, now + y.count + x.count, NULL), MX_OK);
            if (first)
                assert_memory_equal(now, first, bytes);
            free(first);
            first = now;
        }
        free(first);
        pair_free(&x), pair_free(&y), pair_free(&w);
    }
    mx_set_num_threads(threads);
}

/* An infinity in one place of x, gradients that are all 1: a weight's gradient is infinite if its tap reads the place
 * and finite if it does not, never NaN. */
static void check_infinity(const mx_conv_shape *s, int64_t place)
{
    const int64_t size = s->in[0], out = s->out[0], kernel = s->kernel[0];
    pair x = pair_new(2 * size * size, false), dy = pair_new(2 * out * out, false),
         dw = pair_new(2 * kernel * kernel, false);
    for (int64_t i = 0; i < 2 * size * size; i++)
        x.f[i] = i == place ? INFINITY : 1;
    for (int64_t i = 0; i < 2 * out * out; i++)
        dy.f[i] = 1;
    for (int l = 0; l < level_count(); l++) {
        assert_int_equal(levels[l].backward_weight(s, x.f, dy.f, dw.f, NULL), MX_OK);
        for (int64_t k = 0; k < 2 * kernel * kernel; k++) {
            bool met = k < kernel * kernel;
            for (int axis = 0; axis < 2; axis++) {
                const int64_t at =
                    (axis ? place % size : place / size) + s->pad[0] - (axis ? k % kernel : k / kernel % kernel);
                met &= at >= 0 && at % s->stride[0] == 0 && at / s->stride[0] < out;
            }
            assert_false(isnan(dw.f[k]));
            assert_true(!isinf(dw.f[k]) == !met);
        }
    }
    pair_free(&x), pair_free(&dy), pair_free(&dw);
}

static void conv_infinities(void **unused)
{
    (void)unused;
    static const int64_t sizes[] = {7, 13, 14, 19, 28, 42};
    for (int64_t kernel = 3; kernel <= 5; kernel += 2)
        for (int64_t stride = 1; stride <= 2; stride++)
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                const int64_t n = sizes[i], out = (n + kernel / 2 * 2 - kernel) / stride + 1, pad = kernel / 2;
                const mx_conv_shape s = {1, 2, 2, 2, 2, {n, n}, {out, out}, {kernel, kernel}, {stride, stride}, {1, 1},
                                         {pad, pad}, false};
                for (int64_t place = 0; place < n * n; place += 3)
                    check_infinity(&s, place);
            }
}

/* Every allocation fails once: the call returns the error code and leaks nothing. */
static void conv_without_memory(void **unused)
{
    (void)unused;
    static const mx_conv_shape shapes[] = {
        {2, 20, 20, 1, 2, {9, 9}, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false},
        {2, 20, 20, 1, 2, {9, 9}, {5, 5}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, false},
        {6, 128, 128, 1, 2, {3, 3}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, false},
        {1, 32, 32, 1, 2, {16, 16}, {16, 16}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false}};
    enum { SHAPES = sizeof shapes / sizeof *shapes };
    pair x = pair_new(32 * 256, false), y = pair_new(32 * 256, false), w = pair_new(128 * 128, false);
    const int64_t live = mx_alloc_get_stats().live_bytes;
    for (int call = 0; call < 3 * SHAPES; call++) {
        const mx_conv_shape s = shapes[call % SHAPES];
        const int direction = call / SHAPES;
        for (int n = 1, code = MX_ERR_MEMORY; code; n++) {
            mx_alloc_fail_at(n);
            code = direction == 0   ? conv_forward_generic(&s, x.f, w.f, NULL, false, y.f)
                   : direction == 1 ? conv_backward_data_generic(&s, y.f, w.f, x.f)
                                    : conv_backward_weight_generic(&s, x.f, y.f, w.f, NULL);
            mx_alloc_fail_at(0);
            assert_true(code == MX_OK || code == MX_ERR_MEMORY);
            assert_int_equal(mx_alloc_get_stats().live_bytes, live);
            mx_error_clear();
        }
    }
    pair_free(&x), pair_free(&y), pair_free(&w);
}

static void pool_random_shapes(void **unused)
{
    (void)unused;
    for (int done = 0; done < 500; done++) {
        mx_pool_shape s = {.batch = pick(0, 3), .channels = pick(0, 3) ? pick(1, 4) : pick(1, 140),
                           .ndim = (int)pick(1, 3), .type = (mx_pool_type)pick(0, 3),
                           .count_include_pad = pick(0, 1), .p = (int)pick(1, 3), .channels_last = pick(0, 2) == 0};
        const bool pairs = pick(0, 2) == 0;
        for (int i = 0; i < s.ndim; i++) {
            s.in[i] = pick(2, s.ndim == 3 ? 8 : s.ndim == 2 ? 40 : 90);
            s.kernel[i] = pairs ? 2 : pick(1, 4);
            s.stride[i] = pairs ? 2 : pick(1, 3);
            s.pad[i] = pairs ? 0 : pick(0, s.kernel[i] / 2);
            const int64_t room = s.in[i] + 2 * s.pad[i] - s.kernel[i];
            s.out[i] = (room > 0 ? room / s.stride[i] : 0) + 1;
        }
        const int64_t planes = s.batch * s.channels;
        pair x = pair_new(planes * product(s.in, s.ndim), s.type == MX_POOL_MAX), dx = pair_new(x.count, false);
        pair y = pair_new(planes * product(s.out, s.ndim), false), dy = pair_new(y.count, false);
        for (int64_t i = 0; s.type == MX_POOL_LP && i < x.count; i++) /* roots of sums near zero amplify rounding */
            x.d[i] = x.f[i] = fabsf(x.f[i]) + 0.1f;
        assert_int_equal(pool_forward_f64_generic(&s, x.d, y.d), MX_OK);
        assert_int_equal(pool_backward_f64_generic(&s, x.d, dy.d, dx.d), MX_OK);
        for (int i = 0; i < level_count(); i++) {
            poison(&y), poison(&dx);
            assert_int_equal(levels[i].pool(&s, x.f, y.f), MX_OK);
            assert_int_equal(levels[i].pool_backward(&s, x.f, dy.f, dx.f), MX_OK);
            check_equal(&y, 1);
            check_equal(&dx, 1);
        }
        pair_free(&x), pair_free(&y), pair_free(&dx), pair_free(&dy);
    }
}

/* Largest of numbers that are not: NaN is never the largest, of several -infinity the first takes the gradient, and padding takes
 * none. */
static void pool_without_numbers(void **unused)
{
    (void)unused;
    static const float values[] = {NAN, -INFINITY, INFINITY, 0, 1};
    for (int done = 0; done < 60; done++) {
        const int64_t kernel = pick(2, 5), stride = pick(1, 3), pad = pick(0, kernel / 2), height = pick(9, 14),
                      width = pick(14, 45);
        const mx_pool_shape s = {1, 2, 2, {height, width}, {(height + 2 * pad - kernel) / stride + 1, (width + 2 * pad - kernel) / stride + 1},
                                 {kernel, kernel}, {stride, stride}, {pad, pad}, MX_POOL_MAX, true, 2, false};
        pair x = pair_new(2 * height * width, true), dx = pair_new(x.count, true);
        pair y = pair_new(2 * product(s.out, 2), true), dy = pair_new(y.count, true);
        const int64_t kinds = done % 3 ? done % 3 : 5; /* only NaN; NaN and -infinity; all */
        for (int64_t i = 0; i < x.count; i++)
            x.d[i] = x.f[i] = values[pick(0, kinds - 1)];
        assert_int_equal(pool_forward_f64_generic(&s, x.d, y.d), MX_OK);
        assert_int_equal(pool_backward_f64_generic(&s, x.d, dy.d, dx.d), MX_OK);
        for (int l = 0; l < level_count(); l++) {
            poison(&y), poison(&dx);
            assert_int_equal(levels[l].pool(&s, x.f, y.f), MX_OK);
            assert_int_equal(levels[l].pool_backward(&s, x.f, dy.f, dx.f), MX_OK);
            for (int64_t i = 0; i < y.count; i++)
                assert_true(y.f[i] == (float)y.d[i]);
            for (int64_t i = 0; i < dx.count; i++)
                assert_true(dx.f[i] == (float)dx.d[i]);
        }
        pair_free(&x), pair_free(&y), pair_free(&dx), pair_free(&dy);
    }
}

/* Values computed by hand: lp of signed powers, windows cut at the padding, the first of equal elements. */
static void pool_known_values(void **unused)
{
    (void)unused;
    const float x[5] = {0, 0, 1, 1, 5}, ones[3] = {1, 1, 1};
    float y[3], dx[5];
    mx_pool_shape s = {1, 1, 1, {5}, {3}, {3}, {2}, {1}, MX_POOL_MAX, true, 2, false};
    assert_int_equal(pool_forward_generic(&s, x, y) | pool_backward_generic(&s, x, ones, dx), MX_OK);
    assert_memory_equal(y, ((float[]){0, 1, 5}), sizeof y);
    assert_memory_equal(dx, ((float[]){1, 0, 1, 0, 1}), sizeof dx);
    s.type = MX_POOL_AVG;
    assert_int_equal(pool_forward_generic(&s, x, y), MX_OK);
    assert_true(fabsf(y[1] - 2 / 3.0f) < 1e-6f && fabsf(y[2] - 2) < 1e-6f);
    s.count_include_pad = false;
    assert_int_equal(pool_forward_generic(&s, x, y), MX_OK);
    assert_true(fabsf(y[1] - 2 / 3.0f) < 1e-6f && fabsf(y[2] - 3) < 1e-6f);
    const float v[4] = {-1, 2, -3, -0.5f};
    s = (mx_pool_shape){1, 1, 1, {4}, {2}, {2}, {2}, {0}, MX_POOL_LP, true, 3, false};
    assert_int_equal(pool_forward_generic(&s, v, y), MX_OK);
    assert_true(fabsf(y[0] - 1.9129312f) < 1e-5f && fabsf(y[1] + 3.0046225f) < 1e-5f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_random_shapes), cmocka_unit_test(conv_chosen_shapes),
        cmocka_unit_test(conv_network_shapes), cmocka_unit_test(conv_wide_padding),
        cmocka_unit_test(conv_winograd_shapes), cmocka_unit_test(conv_winograd_threads),
        cmocka_unit_test(conv_infinities), cmocka_unit_test(conv_without_memory),
        cmocka_unit_test(pool_random_shapes), cmocka_unit_test(pool_without_numbers),
        cmocka_unit_test(pool_known_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
