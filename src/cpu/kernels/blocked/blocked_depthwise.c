/* Depthwise convolution over blocked channels: lanes are channels, every tap is one vector product per pixel.
 *
 * Usual windows, 3x3 and 5x5, divide a row of the result evenly into tiles that stay in registers, edges included: taps
 * outside of the data are left out.  For other windows, and on ARM, pixels whose taps are all inside the data run in tiles;
 * those at the left and right edge run one by one.  Rows above and below the data are skipped.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/blocked/blocked.h"

#define PIXELS 8 /* of a tile */
#define BAND 6   /* rows that a thread should have of every plane */

typedef struct row { /* one row of the result */
    const float *x;  /* source of kernel row `first`, first pixel of the source row */
    const float *w;  /* weights of kernel row `first` */
    int64_t rows;    /* kernel rows that overlap the data */
    int64_t x_row;   /* floats between their source rows */
    vfloat bias;
    const float *add; /* or NULL */
    float *y;
} row;

static inline void finish(const layout_conv *c, const row *r, int64_t pixel, vfloat v)
{
    if (r->add)
        v += vector_load(r->add + pixel * LANES);
    vector_store(r->y + pixel * LANES, layout_limit(&c->finish, v));
}

/* `count` pixels from `pixel` on; taps and step are compile-time constants in some calls. */
CONV_INLINE void run_tile(const layout_conv *c, const row *r, int64_t pixel, const int count, const int64_t taps,
                          const int64_t step)
{
    vfloat sum[PIXELS];
    _Pragma("GCC unroll 8") for (int p = 0; p < count; p++) sum[p] = r->bias;
    const float *x = r->x + (pixel * c->stride[1] - c->pad[1]) * LANES, *w = r->w;
    for (int64_t k = 0; k < r->rows; k++, x += r->x_row)
        _Pragma("GCC unroll 3") for (int64_t t = 0; t < taps; t++, w += LANES)
        {
            const vfloat weight = vector_load(w);
            const float *at = x + t * c->dilate[1] * LANES;
            _Pragma("GCC unroll 8") for (int p = 0; p < count; p++) sum[p] += vector_load(at + p * step) * weight;
        }
    _Pragma("GCC unroll 8") for (int p = 0; p < count; p++) finish(c, r, pixel + p, sum[p]);
}

/* Three taps without dilation: pixels share their sources, with stride 1 these are PIXELS + 2 loads instead of 3 * PIXELS.  Worth it
 * where operands of products must be in registers, as on ARM: 1.5 instructions per product instead of 2.3.  The order of
 * sums is run_tile's. */
#if defined(MX_NEON)
#define SHARED true
#else
#define SHARED false
#endif

CONV_INLINE int64_t inside_shared(const layout_conv *c, const row *r, int64_t pixel, int64_t end, const int stride)
{
    enum { SOURCES = 2 * (PIXELS - 1) + 3 }; /* of the larger stride */
    for (; SHARED && pixel + PIXELS <= end; pixel += PIXELS) {
        vfloat sum[PIXELS], v[SOURCES];
        _Pragma("GCC unroll 8") for (int p = 0; p < PIXELS; p++) sum[p] = r->bias;
        const float *x = r->x + (pixel * stride - c->pad[1]) * LANES, *w = r->w;
        for (int64_t k = 0; k < r->rows; k++, x += r->x_row, w += 3 * LANES) {
            _Pragma("GCC unroll 17") for (int i = 0; i < stride * (PIXELS - 1) + 3; i++) v[i] =
                vector_load(x + i * LANES);
            _Pragma("GCC unroll 3") for (int t = 0; t < 3; t++)
            {
                const vfloat weight = vector_load(w + t * LANES);
                _Pragma("GCC unroll 8") for (int p = 0; p < PIXELS; p++) sum[p] += v[p * stride + t] * weight;
            }
        }
        _Pragma("GCC unroll 8") for (int p = 0; p < PIXELS; p++) finish(c, r, pixel + p, sum[p]);
    }
    return pixel;
}

static void run_edge(const layout_conv *c, const row *r, int64_t pixel)
{
    vfloat sum = r->bias;
    const int64_t left = pixel * c->stride[1] - c->pad[1];
    for (int64_t k = 0; k < r->rows; k++)
        for (int64_t t = 0; t < c->kernel[1]; t++) {
            const int64_t at = left + t * c->dilate[1];
            if (at >= 0 && at < c->width)
                sum +=
                    vector_load(r->x + k * r->x_row + at * LANES) * vector_load(r->w + (k * c->kernel[1] + t) * LANES);
        }
    finish(c, r, pixel, sum);
}

#define INSIDE(name, taps, step) \
    static int64_t name(const layout_conv *c, const row *r, int64_t pixel, int64_t end) \
    { \
        for (; pixel + PIXELS <= end; pixel += PIXELS) \
            run_tile(c, r, pixel, PIXELS, taps, step); \
        for (; pixel + 2 <= end; pixel += 2) \
            run_tile(c, r, pixel, 2, taps, step); \
        for (; pixel < end; pixel++) \
            run_tile(c, r, pixel, 1, taps, step); \
        return pixel; \
    }
INSIDE(inside_3_1, 3, LANES)
INSIDE(inside_3_2, 3, 2 * LANES)
INSIDE(inside_any, c->kernel[1], c->stride[1] * LANES)

static void run_row(const layout_conv *c, const row *r)
{
    /* Pixels [first, end) have all their taps inside the row. */
    const int64_t window = (c->kernel[1] - 1) * c->dilate[1] + 1, reach = c->width + c->pad[1] - window;
    int64_t first = (c->pad[1] + c->stride[1] - 1) / c->stride[1], end = reach < 0 ? 0 : reach / c->stride[1] + 1,
            p = 0;
    first = first < c->out_width ? first : c->out_width;
    end = end < c->out_width ? end : c->out_width;
    for (; p < first; p++)
        run_edge(c, r, p);
    if (c->kernel[1] == 3 && c->stride[1] == 1)
        p = inside_3_1(c, r, c->dilate[1] == 1 ? inside_shared(c, r, p, end, 1) : p, end);
    else if (c->kernel[1] == 3 && c->stride[1] == 2)
        p = inside_3_2(c, r, c->dilate[1] == 1 ? inside_shared(c, r, p, end, 2) : p, end);
    else
        p = inside_any(c, r, p, end);
    for (; p < c->out_width; p++)
        run_edge(c, r, p);
}

/* ---- rows of usual windows -------------------------------------------------------------------------------------------- */

/* Most pixels of a tile, which leave registers for a weight and what a product needs.  Images are often 7 x 2^n wide. */
#if MX_VECTOR_REGISTERS == 32
#define MOST 14
#else
#define MOST 10
#endif

/* Taps before the line at the row's first pixel, and after it at its last. */
typedef struct outside {
    int64_t left, right;
} outside;

/* `count` neighbouring pixels; o: of the first and the last of them, 0 inside of the row, at most taps / 2. */
CONV_INLINE void line_tile(const layout_conv *c, const row *r, int64_t pixel, outside o, const int count,
                           const int taps, const int stride)
{
    vfloat sum[MOST];
    _Pragma("GCC unroll 14") for (int p = 0; p < count; p++) sum[p] = r->bias;
    const float *x = r->x + (pixel * stride - c->pad[1]) * LANES, *w = r->w;
    for (int64_t k = 0; k < r->rows; k++, x += r->x_row)
        _Pragma("GCC unroll 5") for (int t = 0; t < taps; t++, w += LANES)
        {
            const vfloat weight = vector_load(w);
            _Pragma("GCC unroll 14") for (int p = 0; p < count; p++)
            {
                const int before = p * stride + t, after = (count - 1 - p) * stride + taps - 1 - t;
                if ((before >= taps / 2 || before >= o.left) && (after >= taps / 2 || after >= o.right))
                    sum[p] += vector_load(x + (p * stride + t) * LANES) * weight;
            }
        }
    if (r->add)
        _Pragma("GCC unroll 14") for (int p = 0; p < count; p++) sum[p] += vector_load(r->add + (pixel + p) * LANES);
    if (c->finish.limits) {
        const vfloat low = vector_all(c->finish.low), high = vector_all(c->finish.high);
        _Pragma("GCC unroll 14") for (int p = 0; p < count; p++) sum[p] = layout_min(high, vector_max(low, sum[p]));
    }
    float *y = r->y + pixel * LANES;
    _Pragma("GCC unroll 14") for (int p = 0; p < count; p++) vector_store(y + p * LANES, sum[p]);
}

typedef void (*line_fn)(const layout_conv *c, const row *r, int64_t pixel, outside o);
#define LINE(count, taps, stride) \
    static void line_##count##_##taps##_##stride(const layout_conv *c, const row *r, int64_t pixel, outside o) \
    { \
        line_tile(c, r, pixel, o, count, taps, stride); \
    }
#define LINES(count) LINE(count, 3, 1) LINE(count, 3, 2) LINE(count, 5, 1) LINE(count, 5, 2)
LINES(1) LINES(2) LINES(3) LINES(4) LINES(5) LINES(6) LINES(7) LINES(8) LINES(9) LINES(10)
#define UP_TO_10(x) line_1_##x, line_2_##x, line_3_##x, line_4_##x, line_5_##x, line_6_##x, line_7_##x, line_8_##x, line_9_##x, line_10_##x
#if MOST == 14
LINES(11) LINES(12) LINES(13) LINES(14)
#define ALL(x) {UP_TO_10(x), line_11_##x, line_12_##x, line_13_##x, line_14_##x}
#else
#define ALL(x) {UP_TO_10(x)}
#endif
static const line_fn lines[2][2][MOST] = {{ALL(3_1), ALL(3_2)}, {ALL(5_1), ALL(5_2)}}; /* by taps, stride, pixels */

/* The tiles of this window; NULL: there are none. */
static const line_fn *tiles_of(const layout_conv *c, outside *o)
{
    const int64_t taps = c->kernel[1], stride = c->stride[1];
    *o = (outside){c->pad[1], (c->out_width - 1) * stride - c->pad[1] + taps - c->width};
    o->right = o->right > 0 ? o->right : 0;
    if (SHARED || c->dilate[1] != 1 || (taps != 3 && taps != 5) || stride > 2 || o->left > taps / 2 ||
        o->right > taps / 2)
        return NULL;
    return lines[taps == 5][stride - 1];
}

static void run_line(const layout_conv *c, const row *r, const line_fn *tiles, outside o)
{
    const int64_t n = (c->out_width + MOST - 1) / MOST, width = c->out_width / n, longer = c->out_width % n;
    for (int64_t i = 0, p = 0, count; i < n; i++, p += count) {
        count = width + (i < longer);
        tiles[count - 1](c, r, p, (outside){i ? 0 : o.left, i < n - 1 ? 0 : o.right});
    }
}

/* ---- rows ----------------------------------------------------------------------------------------------------------- */

/* Kernel rows of result row y that overlap the data: the first, and how many. */
static int64_t rows_inside(const layout_conv *c, int64_t y, int64_t *first)
{
    const int64_t d = c->dilate[0], top = y * c->stride[0] - c->pad[0];
    int64_t last = c->kernel[0];
    *first = top < 0 ? (-top + d - 1) / d : 0;
    while (last > *first && top + (last - 1) * d >= c->height)
        last--;
    return last > *first ? last - *first : 0;
}

/* Rows [begin, end) of a plane, one block of an image. */
static void run_plane(const layout_conv *c, const line_fn *tiles, outside o, int64_t plane, int64_t begin, int64_t end)
{
    const int64_t line = c->width * LANES, block = plane % c->blocks;
    row r = {.x_row = c->dilate[0] * line};
    if (c->bias)
        r.bias = vector_load_part(c->bias + block * LANES, c->channels - block * LANES);
    for (int64_t y = begin; y < end; y++) {
        int64_t first;
        r.rows = rows_inside(c, y, &first);
        r.x = c->x + (plane * c->height + (r.rows ? y * c->stride[0] - c->pad[0] + first * c->dilate[0] : 0)) * line;
        r.w = c->w + (block * c->kernel[0] + (r.rows ? first : 0)) * c->kernel[1] * LANES;
        const int64_t to = (plane * c->out_height + y) * c->out_width * LANES;
        r.add = c->add ? c->add + to : NULL, r.y = c->y + to;
        if (tiles)
            run_line(c, &r, tiles, o);
        else
            run_row(c, &r);
    }
}

/* ---- threads -------------------------------------------------------------------------------------------------------- */

/* Rows of all planes, one plane after the other. */
static void run_rows(void *arg, int64_t begin, int64_t end)
{
    const layout_conv *c = arg;
    outside o;
    const line_fn *tiles = tiles_of(c, &o);
    for (int64_t i = begin, count; i < end; i += count) {
        const int64_t plane = i / c->out_height, y = i % c->out_height;
        count = end - i < c->out_height - y ? end - i : c->out_height - y;
        run_plane(c, tiles, o, plane, y, y + count);
    }
}

/* The same rows of every plane. */
static void run_bands(void *arg, int part, int parts)
{
    const layout_conv *c = arg;
    outside o;
    const line_fn *tiles = tiles_of(c, &o);
    const int64_t begin = c->out_height * part / parts, end = c->out_height * (part + 1) / parts;
    for (int64_t plane = 0; plane < c->batch * c->blocks && !mx_stop_wanted(); plane++)
        run_plane(c, tiles, o, plane, begin, end);
}

/* Few images are cut into bands of rows, as the 1x1 convolutions around them are (blocked_pointwise.c): then the values are
 * already in the thread's own cache. */
mx_code layout_depthwise(const layout_conv *c)
{
    const int64_t rows = c->batch * c->blocks * c->out_height,
                  work = c->out_width * c->kernel[0] * c->kernel[1] * LANES;
    const int threads = mx_num_threads();
    if (c->batch < threads && c->out_height >= BAND * threads && rows * work >= 2 * MX_GRAIN)
        mx_parallel_parts(threads, run_bands, (void *)c);
    else
        mx_parallel(rows, 1 + MX_GRAIN / (work + 1), run_rows, (void *)c);
    return MX_OK;
}
