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

enum { LINE = 64 / sizeof(float) }; /* floats of a cache line */

/* Prefetches `pixels` pixels. */
CONV_INLINE void fetch(const int pixels, const float *at)
{
    UNROLL for (int i = 0; i < (pixels * LANES + LINE - 1) / LINE; i++)
        __builtin_prefetch(at + i * LINE, 0, 3);
}

/* Prefetches the cache lines of the addend and of the result. */
CONV_INLINE void fetch_results(const int pixels, const int vectors, const layout_line *t, int64_t at)
{
    UNROLL for (int v = 0; v < vectors; v++)
        UNROLL for (int i = 0; i < (pixels * LANES + LINE - 1) / LINE; i++) {
            __builtin_prefetch(t->add + at + v * t->y_block + i * LINE, 0, 2);
            __builtin_prefetch(t->y + at + v * t->y_block + i * LINE, 1, 2);
        }
}

/* A line of pixels that is computed in several tiles, and their share of the weights that come next. */
typedef struct part {
    layout_line line;
    int64_t first, tiles; /* number of the first of these tiles; tiles of the slice */
    int64_t next;         /* floats from the weights to those that come next, 0: none; ... */
    int64_t lines;        /* ... cache lines of them per input block */
} part;

/* Of the weights that come next, what belongs to one input block comes into the second-level cache: each tile fetches some
 * lines of it, the first tile that needs them would wait.  Inline, as gcc drops calls of a function that only prefetches. */
CONV_INLINE void fetch_weights(const part *p, int64_t tile, const float *w)
{
    enum { LINES = LANES * LANES / LINE }; /* of an output block */
    for (int64_t i = tile; i < p->lines; i += p->tiles)
        __builtin_prefetch(w + p->next + i / LINES * p->line.w_block + i % LINES * LINE, 0, 2);
}

CONV_INLINE void run_tiles(const int pixels, const int vectors, const part *p, int64_t tiles)
{
    const layout_line *t = &p->line;
    for (int64_t n = 0, at = 0; n < tiles; n++, at += pixels * LANES) {
        vfloat sum[MOST_SUMS];
        if (t->add)
            fetch_results(pixels, vectors, t, at);
        UNROLL for (int i = 0; i < pixels * vectors; i++)
            sum[i] = vector_load(t->bias + i % vectors * LANES);
        const float *x = t->x + at, *w = t->w;
        const int64_t w_block = t->w_block, x_block = t->x_block;
        for (int64_t k = t->blocks; k > 0; k--, x += x_block) {
            fetch(pixels, x + x_block); /* too far away for the prefetcher of the CPU */
            fetch_weights(p, p->first + n, w);
            _Pragma("GCC unroll 4") for (int c = 0; c < LANES; c++, w += LANES)
                add_channel(pixels, vectors, x + c, w, w_block, sum);
        }
        finish_tile(pixels, vectors, t, at, sum);
    }
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

typedef void (*tiles_fn)(const part *p, int64_t tiles);

#define TILES(pixels, vectors) \
    static void tiles_##pixels##_##vectors(const part *p, int64_t tiles) { run_tiles(pixels, vectors, p, tiles); }
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
static void run_pixels(part *p, int64_t vectors, int64_t pixels)
{
    static const int64_t most[LINE_VECTORS] = {MOST_1, MOST_2, MOST_3};
    p->tiles = up(pixels, most[vectors - 1]);
    const int64_t size = pixels / p->tiles, larger = pixels % p->tiles;
    if (larger)
        tiles_of[vectors - 1][size + 1](p, larger);
    p->line = advanced(&p->line, larger * (size + 1));
    p->first = larger;
    tiles_of[vectors - 1][size](p, p->tiles - larger);
}

/* ---- slices ------------------------------------------------------------------------------------------------------ */

/* Tiles of few pixels read the weights so often that these must be in the first-level cache: a slice of the input blocks
 * is summed and stored before the next one begins. */
#if MX_VECTOR_REGISTERS == 32
enum { SLICE_BYTES = 1 << 30 };
#else
enum { SLICE_BYTES = 16 << 10 };
#endif
enum { CHUNK_PIXELS = 96 }; /* whose results stay in the first-level cache between slices */

/* Slice [begin, end) of the input blocks. */
static void run_slice(const layout_line *line, int64_t vectors, int64_t pixels, int64_t begin, int64_t end,
                      const float *next_w)
{
    static const float none[LINE_VECTORS * LANES];
    static const layout_finish as_it_is;
    part p = {.line = *line};
    p.line.blocks = end - begin, p.line.x += begin * line->x_block, p.line.w += begin * LANES * LANES;
    if (begin) /* the sums of earlier slices, which contain bias and addend */
        p.line.bias = none, p.line.add = line->y;
    if (end < line->blocks) {
        p.line.finish = &as_it_is;
        p.next = p.line.blocks * LANES * LANES, p.lines = vectors * LANES * LANES / LINE;
    } else if (next_w) {
        p.next = next_w - p.line.w, p.lines = 2 * LANES * LANES / LINE;
    }
    run_pixels(&p, vectors, pixels);
}

void layout_run_line(const layout_line *line, int64_t vectors, int64_t pixels, const float *next_w)
{
    const int64_t weights = 2 * LANES * LANES * (int64_t)sizeof(float), blocks = line->blocks;
    const int64_t slices = up(blocks * weights, SLICE_BYTES), chunk = slices > 1 ? CHUNK_PIXELS : pixels;
    for (int64_t at = 0; at < pixels; at += chunk) {
        const layout_line rest = advanced(line, at);
        const int64_t count = pixels - at < chunk ? pixels - at : chunk;
        for (int64_t i = 0; i < slices; i++)
            run_slice(&rest, vectors, count, i * blocks / slices, (i + 1) * blocks / slices, next_w);
    }
}
