/* Instances of the inner loop (model in blocked_line.h), with constant tile sizes, so that sums are registers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/blocked/blocked_line.h"

#define UNROLL _Pragma("GCC unroll 32")

/* Most pixels of a tile of 1, 2 and 3 vectors. */
#if MX_VECTOR_REGISTERS == 32
enum { MOST_1 = 14, MOST_2 = 14, MOST_3 = 9, MOST_SUMS = 28 };
#else
enum { MOST_1 = 12, MOST_2 = 6, MOST_3 = 4, MOST_SUMS = 12 };
#endif

/* The products of one input channel. */
CONV_INLINE void add_channel(const int pixels, const int vectors, const float *x, const float *w, int64_t w_block,
                             vfloat *sum)
{
    vfloat weight[LINE_VECTORS];
    UNROLL for (int v = 0; v < vectors; v++)
        weight[v] = vector_load(w + v * w_block);
    UNROLL for (int p = 0; p < pixels; p++) {
        const vfloat value = vector_all(x[p * LANES]);
        UNROLL for (int v = 0; v < vectors; v++)
            sum[p * vectors + v] += value * weight[v];
    }
}

CONV_INLINE void finish_tile(const int pixels, const int vectors, const layout_line *t, int64_t at, vfloat *sum)
{
    const int sums = pixels * vectors;
    if (t->add)
        UNROLL for (int i = 0; i < sums; i++)
            sum[i] += vector_load(t->add + at + i % vectors * t->y_block + i / vectors * LANES);
    if (t->finish->limits) {
        const vfloat low = vector_all(t->finish->low), high = vector_all(t->finish->high);
        UNROLL for (int i = 0; i < sums; i++)
            sum[i] = layout_min(high, vector_max(low, sum[i]));
    }
    UNROLL for (int i = 0; i < sums; i++)
        vector_store(t->y + at + i % vectors * t->y_block + i / vectors * LANES, sum[i]);
}

/* Prefetches `pixels` pixels. */
CONV_INLINE void fetch(const int pixels, const float *at)
{
    enum { LINE = 64 / sizeof(float) };
    UNROLL for (int i = 0; i < (pixels * LANES + LINE - 1) / LINE; i++)
        __builtin_prefetch(at + i * LINE, 0, 3);
}

CONV_INLINE void run_tiles(const int pixels, const int vectors, const layout_line *t, int64_t tiles)
{
    for (int64_t n = 0, at = 0; n < tiles; n++, at += pixels * LANES) {
        vfloat sum[MOST_SUMS];
        UNROLL for (int i = 0; i < pixels * vectors; i++)
            sum[i] = vector_load(t->bias + i % vectors * LANES);
        const float *x = t->x + at, *w = t->w;
        const int64_t w_block = t->w_block, x_block = t->x_block;
        for (int64_t k = t->blocks; k > 0; k--, x += x_block) {
            fetch(pixels, x + x_block); /* too far away for the prefetcher of the CPU */
            _Pragma("GCC unroll 4") for (int c = 0; c < LANES; c++, w += LANES)
                add_channel(pixels, vectors, x + c, w, w_block, sum);
        }
        finish_tile(pixels, vectors, t, at, sum);
    }
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

typedef void (*tiles_fn)(const layout_line *t, int64_t tiles);

#define TILES(pixels, vectors) \
    static void tiles_##pixels##_##vectors(const layout_line *t, int64_t tiles) { run_tiles(pixels, vectors, t, tiles); }
#define TILES_4(v) TILES(1, v) TILES(2, v) TILES(3, v) TILES(4, v)
#define TILES_6(v) TILES_4(v) TILES(5, v) TILES(6, v)
#define TILES_9(v) TILES_6(v) TILES(7, v) TILES(8, v) TILES(9, v)
#define TILES_12(v) TILES_9(v) TILES(10, v) TILES(11, v) TILES(12, v)
#define TILES_14(v) TILES_12(v) TILES(13, v) TILES(14, v)
#define NAMES_4(v) NULL, tiles_1_##v, tiles_2_##v, tiles_3_##v, tiles_4_##v
#define NAMES_6(v) NAMES_4(v), tiles_5_##v, tiles_6_##v
#define NAMES_9(v) NAMES_6(v), tiles_7_##v, tiles_8_##v, tiles_9_##v
#define NAMES_12(v) NAMES_9(v), tiles_10_##v, tiles_11_##v, tiles_12_##v
#define NAMES_14(v) NAMES_12(v), tiles_13_##v, tiles_14_##v

#if MX_VECTOR_REGISTERS == 32
TILES_14(1)
TILES_14(2)
TILES_9(3)
static const tiles_fn tiles_of[LINE_VECTORS][MOST_1 + 1] = {{NAMES_14(1)}, {NAMES_14(2)}, {NAMES_9(3)}};
#else
TILES_12(1)
TILES_6(2)
TILES_4(3)
static const tiles_fn tiles_of[LINE_VECTORS][MOST_1 + 1] = {{NAMES_12(1)}, {NAMES_6(2)}, {NAMES_4(3)}};
#endif

static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* The line from another pixel on. */
static layout_line advanced(const layout_line *line, int64_t pixels)
{
    layout_line rest = *line;
    rest.x += pixels * LANES, rest.y += pixels * LANES;
    if (rest.add)
        rest.add += pixels * LANES;
    return rest;
}

/* Tiles of two sizes, one pixel apart: a tile with few pixels would wait for its sums. */
static void run_pixels(const layout_line *line, int64_t vectors, int64_t pixels)
{
    static const int64_t most[LINE_VECTORS] = {MOST_1, MOST_2, MOST_3};
    const int64_t tiles = up(pixels, most[vectors - 1]), size = tiles ? pixels / tiles : 0;
    const int64_t larger = pixels - size * tiles;
    if (larger)
        tiles_of[vectors - 1][size + 1](line, larger);
    if (tiles > larger) {
        const layout_line rest = advanced(line, larger * (size + 1));
        tiles_of[vectors - 1][size](&rest, tiles - larger);
    }
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

/* Tiles of few pixels read the weights so often that these must be in the first-level cache: a slice of the input blocks
 * is summed and stored before the next one begins.  Meanwhile the weights of the next slice come into the second-level
 * cache, share by share: its first tile would wait for them. */
#if MX_VECTOR_REGISTERS == 32
enum { SLICE_BYTES = 1 << 30 };
#else
enum { SLICE_BYTES = 16 << 10 };
#endif
enum {
    CHUNK_PIXELS = 96,    /* whose results stay in the first-level cache between slices */
    SHARE_PIXELS = 12,    /* a multiple of the pixels of tiles of 2 and 3 vectors */
    SHARE_PRODUCTS = 3072 /* pixels times input channels of a share */
};

/* The weights that come next: `vectors` output blocks of some input blocks. */
typedef struct next_weights {
    const float *w;
    int64_t vectors, w_block, lines; /* lines: of the cache, of an output block */
} next_weights;

/* Inline, as gcc drops calls of a function that only prefetches. */
CONV_INLINE void fetch_share(const next_weights *next, int64_t share, int64_t shares)
{
    enum { LINE = 64 / sizeof(float) };
    for (int64_t v = 0; v < next->vectors; v++)
        for (int64_t i = share * next->lines / shares; i < (share + 1) * next->lines / shares; i++)
            __builtin_prefetch(next->w + v * next->w_block + i * LINE, 0, 2);
}

static void run_shares(const layout_line *line, int64_t vectors, int64_t pixels, const next_weights *next)
{
    const int64_t size = up(SHARE_PRODUCTS, line->blocks * LANES * SHARE_PIXELS + 1) * SHARE_PIXELS;
    const int64_t shares = pixels < size ? 1 : pixels / size;
    for (int64_t i = 0; i < shares; i++) {
        const layout_line part = advanced(line, i * size);
        if (MX_VECTOR_REGISTERS < 32)
            fetch_share(next, i, shares);
        run_pixels(&part, vectors, i + 1 < shares ? size : pixels - i * size);
    }
}

/* Slice [begin, end) of the input blocks. */
static void run_slice(const layout_line *line, int64_t vectors, int64_t pixels, int64_t begin, int64_t end,
                      const float *next_w)
{
    static const float none[LINE_VECTORS * LANES];
    static const layout_finish as_it_is;
    layout_line slice = *line;
    slice.blocks = end - begin, slice.x += begin * line->x_block, slice.w += begin * LANES * LANES;
    if (begin) /* the sums of earlier slices, which contain bias and addend */
        slice.bias = none, slice.add = line->y;
    const bool last = end == line->blocks;
    if (!last)
        slice.finish = &as_it_is;
    const next_weights next = {.w = last ? next_w : line->w + end * LANES * LANES,
                               .vectors = last && !next_w ? 0 : last ? 2 : vectors,
                               .w_block = line->w_block,
                               .lines = slice.blocks * LANES * LANES * (int64_t)sizeof(float) / 64};
    run_shares(&slice, vectors, pixels, &next);
}

void layout_run_line(const layout_line *line, int64_t vectors, int64_t pixels, const float *next_w)
{
    const int64_t weights = 2 * LANES * LANES * (int64_t)sizeof(float), blocks = line->blocks;
    const int64_t slices = blocks ? up(blocks * weights, SLICE_BYTES) : 1, chunk = slices > 1 ? CHUNK_PIXELS : pixels;
    for (int64_t at = 0; at < pixels; at += chunk) {
        const layout_line part = advanced(line, at);
        const int64_t count = pixels - at < chunk ? pixels - at : chunk;
        for (int64_t i = 0; i < slices; i++)
            run_slice(&part, vectors, count, i * blocks / slices, (i + 1) * blocks / slices, next_w);
    }
}
