/* Instances of the inner loops (model in blocked_tile.h).
 *
 * Each is one always-inlined function with constant tile sizes, so that its loops unroll and its sums become registers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/blocked/blocked_tile.h"

#define UNROLL _Pragma("GCC unroll 32")

/* The products of one input channel and tap; pixel: floats between the sources of neighbouring results. */
CONV_INLINE void tile_step(const int runs, const int run, const int vectors, const int64_t pixel, const float *const *x,
                           int64_t at, const float *w, int64_t w_block, vfloat *sum)
{
    const vfloat w0 = vector_load(w), w1 = vectors > 1 ? vector_load(w + w_block) : w0;
    UNROLL for (int p = 0; p < runs * run; p++) {
        const vfloat value = vector_all(x[p / run][at + p % run * pixel]);
        sum[p * vectors] += value * w0;
        if (vectors > 1)
            sum[p * vectors + 1] += value * w1;
    }
}

/* Where the i-th sum of a tile is, from the first pixel of its run on. */
CONV_INLINE int64_t place_of(const int run, const int vectors, const layout_tile *t, int i)
{
    return i / vectors % run * LANES + i % vectors * t->y_block;
}

CONV_INLINE void finish_tile(const int runs, const int run, const int vectors, const layout_tile *t, vfloat *sum)
{
    const int sums = runs * run * vectors;
    float *y[LAYOUT_RUNS];
    UNROLL for (int r = 0; r < runs; r++)
        y[r] = t->y + t->to[r];
    if (t->add) {
        const float *add[LAYOUT_RUNS];
        UNROLL for (int r = 0; r < runs; r++)
            add[r] = t->add + t->to[r];
        UNROLL for (int i = 0; i < sums; i++)
            sum[i] += vector_load(add[i / vectors / run] + place_of(run, vectors, t, i));
    }
    if (t->finish->limits) {
        const vfloat low = vector_all(t->finish->low), high = vector_all(t->finish->high);
        UNROLL for (int i = 0; i < sums; i++)
            sum[i] = layout_min(high, vector_max(low, sum[i]));
    }
    UNROLL for (int i = 0; i < sums; i++)
        vector_store(y[i / vectors / run] + place_of(run, vectors, t, i), sum[i]);
}

/* Prefetches the cache lines of the addend and of the result. */
CONV_INLINE void fetch_tile(const int run, const int vectors, const int sums, const layout_tile *t)
{
    UNROLL for (int i = 0; i < sums; i++) {
        const int64_t at = t->to[i / vectors / run];
        __builtin_prefetch(t->add + at + place_of(run, vectors, t, i), 0, 2);
        __builtin_prefetch(t->y + at + place_of(run, vectors, t, i), 1, 2);
    }
}

/* Sums that begin with the bias, and the first source of each run. */
CONV_INLINE void begin_tile(const int runs, const int run, const int vectors, const layout_tile *t, const float **x,
                            vfloat *sum)
{
    if (t->add)
        fetch_tile(run, vectors, runs * run * vectors, t);
    UNROLL for (int i = 0; i < runs * run * vectors; i++)
        sum[i] = vector_load(t->bias + i % vectors * LANES);
    UNROLL for (int i = 0; i < runs; i++)
        x[i] = t->x + t->from[i];
}

CONV_INLINE void run_blocked(const int runs, const int run, const int vectors, const int64_t pixel,
                             const layout_tile *t)
{
    vfloat sum[LAYOUT_PIXELS * LAYOUT_VECTORS];
    const float *x[LAYOUT_RUNS];
    begin_tile(runs, run, vectors, t, x, sum);
    const float *w = t->w;
    const int64_t w_block = t->w_block, taps = t->taps, x_tap = t->x_tap;
    for (int64_t k = 0; k < t->blocks; k++, w += t->w_skip) {
        int64_t row = k * t->x_block;
        if (LAYOUT_RUN == 1) /* the next input block is too far away for the prefetcher of the CPU */
            UNROLL for (int i = 0; i < runs; i++)
                __builtin_prefetch(x[i] + row + t->x_block, 0, 3);
        for (int64_t r = 0; r < t->rows; r++, row += t->x_row) {
            const float *here[LAYOUT_RUNS];
            UNROLL for (int i = 0; i < runs; i++)
                here[i] = x[i] + row;
            for (int64_t tap = 0; tap < taps; tap++) {
                _Pragma("GCC unroll 4") for (int c = 0; c < LANES; c++)
                    tile_step(runs, run, vectors, pixel, here, c, w + c * LANES, w_block, sum);
                UNROLL for (int i = 0; i < runs; i++)
                    here[i] += x_tap;
                w += LANES * LANES;
            }
        }
    }
    finish_tile(runs, run, vectors, t, sum);
}

/* Few products per tap: one loop over all of them. */
CONV_INLINE void run_plain(const int runs, const int run, const int vectors, const int64_t pixel, const layout_tile *t)
{
    vfloat sum[LAYOUT_PIXELS * LAYOUT_VECTORS];
    const float *x[LAYOUT_RUNS];
    begin_tile(runs, run, vectors, t, x, sum);
    const float *w = t->w;
    const int64_t w_block = t->w_block, *at = t->at;
    for (const int64_t *end = at + t->taps; at < end; at++, w += LANES)
        tile_step(runs, run, vectors, pixel, x, *at, w, w_block, sum);
    finish_tile(runs, run, vectors, t, sum);
}

#define TILE(name, run, pixel, size, vectors) \
    static void name##_##size##_##vectors(const layout_tile *t) \
    { \
        run(LAYOUT_RUN > 1 ? LAYOUT_RUNS : size, LAYOUT_RUN > 1 ? size : 1, vectors, pixel, t); \
    }
#define TILES_2(name, run, pixel, size) TILE(name, run, pixel, size, 1) TILE(name, run, pixel, size, 2)
#define TILES_6(name, run, pixel) \
    TILES_2(name, run, pixel, 1) \
    TILES_2(name, run, pixel, 2) \
    TILES_2(name, run, pixel, 3) TILES_2(name, run, pixel, 4) TILES_2(name, run, pixel, 5) \
        TILES_2(name, run, pixel, 6)
#define SIZES_6(name, v) NULL, name##_1_##v, name##_2_##v, name##_3_##v, name##_4_##v, name##_5_##v, name##_6_##v

#if LAYOUT_RUN > 1
#define TILES(name, run, pixel) TILES_6(name, run, pixel) TILES_2(name, run, pixel, 7)
#define SIZES(name, v) SIZES_6(name, v), name##_7_##v
#else
#define TILES TILES_6
#define SIZES SIZES_6
#endif

#define STRIDE(name) \
    { \
        {SIZES(name, 1)}, {SIZES(name, 2)}, \
    }

TILES(blocked_1, run_blocked, LANES)
TILES(plain_1, run_plain, 1)
#if LAYOUT_STRIDES > 1
TILES(blocked_2, run_blocked, 2 * LANES)
TILES(blocked_any, run_blocked, t->x_pixel)
TILES(plain_2, run_plain, 2)
TILES(plain_any, run_plain, t->x_pixel)
const layout_tile_fn layout_tile_table[2][LAYOUT_STRIDES][LAYOUT_VECTORS][LAYOUT_SIZES + 1] = {
    {STRIDE(blocked_1), STRIDE(blocked_2), STRIDE(blocked_any)}, {STRIDE(plain_1), STRIDE(plain_2), STRIDE(plain_any)}};
#else
const layout_tile_fn layout_tile_table[2][LAYOUT_STRIDES][LAYOUT_VECTORS][LAYOUT_SIZES + 1] = {{STRIDE(blocked_1)},
                                                                                               {STRIDE(plain_1)}};
#endif
