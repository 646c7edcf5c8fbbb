/* Depthwise convolution over blocked channels: lanes are channels, every tap is one vector product per pixel.
 *
 * Pixels whose taps are all inside the data run in tiles that stay in registers; those at the left and right edge run
 * one by one, with the taps that are inside.  Rows above and below the data are skipped.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/threads.h"
#include "cpu/kernels/blocked/blocked.h"

#define PIXELS 8 /* of a tile */

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

static void run_rows(void *arg, int64_t begin, int64_t end) /* rows of all blocks of all images */
{
    const layout_conv *c = arg;
    const int64_t d = c->dilate[0], line = c->width * LANES;
    for (int64_t i = begin; i < end; i++) {
        const int64_t y = i % c->out_height, plane = i / c->out_height, block = plane % c->blocks;
        const int64_t top = y * c->stride[0] - c->pad[0];
        int64_t first = top < 0 ? (-top + d - 1) / d : 0, last = c->kernel[0];
        while (last > first && top + (last - 1) * d >= c->height)
            last--;
        if (first > last)
            first = last;
        const row r = {.x = c->x + plane * c->height * line + (first < last ? top + first * d : 0) * line,
                       .w = c->w + (block * c->kernel[0] + first) * c->kernel[1] * LANES,
                       .rows = last - first,
                       .x_row = d * line,
                       .bias = c->bias ? vector_load_part(c->bias + block * LANES, c->channels - block * LANES)
                                       : (vfloat){0},
                       .add = c->add ? c->add + i * c->out_width * LANES : NULL,
                       .y = c->y + i * c->out_width * LANES};
        run_row(c, &r);
    }
}

mx_code layout_depthwise(const layout_conv *c)
{
    const int64_t work = c->out_width * c->kernel[0] * c->kernel[1] * LANES;
    mx_parallel(c->batch * c->blocks * c->out_height, 1 + MX_GRAIN / (work + 1), run_rows, (void *)c);
    return MX_OK;
}
