/* Instances of the inner loops (model in blocked_tile.h).
 *
 * Each is one always-inlined function with constant tile sizes, so that its loops unroll and its sums become registers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/blocked/blocked_tile.h"

#define UNROLL _Pragma("GCC unroll 32")

/* The products of one input channel and tap. */
CONV_INLINE void tile_step(const int half, const int vectors, const int64_t pixel, const float *a, const float *b,
                           const float *w, int64_t w_block, vfloat *sum)
{
    const vfloat w0 = vector_load(w), w1 = vectors > 1 ? vector_load(w + w_block) : w0;
    UNROLL for (int p = 0; p < 2 * half; p++) {
        const vfloat x = vector_all(p < half ? a[p * pixel] : b[(p - half) * pixel]);
        sum[p * vectors] += x * w0;
        if (vectors > 1)
            sum[p * vectors + 1] += x * w1;
    }
}

CONV_INLINE void finish_tile(const int half, const int vectors, const layout_tile *t, vfloat *sum)
{
    float *out[2] = {t->out_a, t->out_b};
    const float *add[2] = {t->add_a, t->add_b};
    if (t->add_a)
        UNROLL for (int i = 0; i < 2 * half * vectors; i++)
            sum[i] += vector_load(add[i / vectors / half] + i / vectors % half * LANES + i % vectors * t->y_block);
    if (t->finish->limits) {
        const vfloat low = vector_all(t->finish->low), high = vector_all(t->finish->high);
        UNROLL for (int i = 0; i < 2 * half * vectors; i++)
            sum[i] = layout_min(high, vector_max(low, sum[i]));
    }
    UNROLL for (int i = 0; i < 2 * half * vectors; i++)
        vector_store(out[i / vectors / half] + i / vectors % half * LANES + i % vectors * t->y_block, sum[i]);
}

/* Prefetches the cache lines of the addend and of the result. */
CONV_INLINE void fetch_tile(const int half, const int vectors, const layout_tile *t)
{
    UNROLL for (int i = 0; i < 2 * half * vectors; i++) {
        const int64_t at = i / vectors % half * LANES + i % vectors * t->y_block;
        __builtin_prefetch((i / vectors < half ? t->add_a : t->add_b) + at, 0, 2);
        __builtin_prefetch((i / vectors < half ? t->out_a : t->out_b) + at, 1, 2);
    }
}

/* pixel: floats between the sources of neighbouring results; inner: channels of an input block. */
CONV_INLINE void run_tile(const int half, const int vectors, const int inner, const int64_t pixel, const layout_tile *t)
{
    vfloat sum[2 * LAYOUT_HALF * LAYOUT_VECTORS];
    if (t->add_a)
        fetch_tile(half, vectors, t);
    UNROLL for (int i = 0; i < 2 * half * vectors; i++)
        sum[i] = vector_load(t->bias + i % vectors * LANES);
    const float *w = t->w, *a_block = t->a, *b_block = t->b;
    const int64_t w_block = t->w_block, taps = t->taps, x_tap = t->x_tap;
    for (int64_t k = 0; k < t->blocks; k++, a_block += t->x_block, b_block += t->x_block, w += t->w_skip) {
        const float *a_row = a_block, *b_row = b_block;
        for (int64_t r = 0; r < t->rows; r++, a_row += t->x_row, b_row += t->x_row) {
            const float *a = a_row, *b = b_row;
            for (int64_t tap = 0; tap < taps; tap++, a += x_tap, b += x_tap) {
                _Pragma("GCC unroll 4") for (int c = 0; c < inner; c++)
                    tile_step(half, vectors, pixel, a + c, b + c, w + c * LANES, w_block, sum);
                w += inner * LANES;
            }
        }
    }
    finish_tile(half, vectors, t, sum);
}

#define TILE(name, inner, pixel, half, vectors) \
    static void name##_##half##_##vectors(const layout_tile *t) { run_tile(half, vectors, inner, pixel, t); }
#define TILES_2(name, inner, pixel, half) TILE(name, inner, pixel, half, 1) TILE(name, inner, pixel, half, 2)
#if LAYOUT_HALF == 7
#define TILES(name, inner, pixel) \
    TILES_2(name, inner, pixel, 1) \
    TILES_2(name, inner, pixel, 2) TILES_2(name, inner, pixel, 3) TILES_2(name, inner, pixel, 4) \
        TILES_2(name, inner, pixel, 5) TILES_2(name, inner, pixel, 6) TILES_2(name, inner, pixel, 7)
#define HALVES(name, v) \
    { \
        NULL, name##_1_##v, name##_2_##v, name##_3_##v, name##_4_##v, name##_5_##v, name##_6_##v, name##_7_##v \
    }
#else
#define TILES(name, inner, pixel) \
    TILES_2(name, inner, pixel, 1) TILES_2(name, inner, pixel, 2) TILES_2(name, inner, pixel, 3)
#define HALVES(name, v) \
    { \
        NULL, name##_1_##v, name##_2_##v, name##_3_##v \
    }
#endif

TILES(blocked_1, LANES, LANES)
TILES(blocked_2, LANES, 2 * LANES)
TILES(blocked_any, LANES, t->x_pixel)
TILES(plain_1, 1, 1)
TILES(plain_2, 1, 2)
TILES(plain_any, 1, t->x_pixel)

#define ROW(name) \
    { \
        HALVES(name, 1), HALVES(name, 2) \
    }
const layout_tile_fn layout_tile_table[LAYOUT_SOURCES][LAYOUT_VECTORS][LAYOUT_HALF + 1] = {
    ROW(blocked_1), ROW(blocked_2), ROW(blocked_any), ROW(plain_1), ROW(plain_2), ROW(plain_any),
};
