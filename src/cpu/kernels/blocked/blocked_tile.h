/* The inner loops of convolutions over blocked channels: lanes are output channels.
 *
 *     data   (N, C / B, H, W, B)       B channels of a pixel are neighbours, B = floats of a vector
 *     weight (O / B, C / B, KH, KW, B of C, B of O)
 *
 * A tile of 2 * half pixels x `vectors` output blocks stays in registers while the sum over input blocks, taps and the
 * channels of a block runs: one multiply-add per register and step; the source is broadcast, the weight is a
 * vector.  The halves are two runs of neighbouring pixels: of two short rows, or of one row (then they may overlap).
 * The sums begin with the bias; a second array is added, the result clipped and stored from the registers.
 *
 * Unblocked data (few channels, the first layer) is read in the same way: blocks of one channel.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_BLOCKED_TILE_H
#define MX_CPU_BLOCKED_TILE_H

#include <stdbool.h>

#include "cpu/kernels/conv/conv_vector.h"

#if MX_VECTOR_REGISTERS == 32
#define LAYOUT_HALF 7 /* most pixels per half, with two output blocks */
#else
#define LAYOUT_HALF 3
#endif
#define LAYOUT_VECTORS 2 /* output blocks of a tile */

/* How finished sums become results. */
typedef struct layout_finish {
    bool limits;     /* low and high are used */
    float low, high; /* relu: 0 and infinity */
} layout_finish;

typedef struct layout_tile {
    const float *a, *b;                     /* source of the first tap of the first pixel of each half */
    int64_t blocks;                         /* input blocks */
    int64_t rows, taps;                     /* of the kernel: lines, and taps along a line */
    int64_t x_block, x_row, x_tap, x_pixel; /* strides of the source in floats; x_pixel: between output pixels */
    const float *w;                         /* of the first output block, from the first tap on */
    int64_t w_skip;                         /* floats to skip for omitted kernel rows, per input block */
    int64_t w_block;                        /* to the next output block */
    const float *bias;                      /* (vectors * LANES) */
    float *out_a, *out_b;                   /* of the first output block */
    const float *add_a, *add_b;             /* added to the sums; NULL: nothing */
    int64_t y_block;                        /* to the next output block, in result and addend */
    const layout_finish *finish;
} layout_tile;

typedef void (*layout_tile_fn)(const layout_tile *t);

/* Sources with a separate instance: floats between the pixels of neighbouring results. */
enum {
    LAYOUT_BLOCKED_1,
    LAYOUT_BLOCKED_2,
    LAYOUT_BLOCKED_ANY,
    LAYOUT_PLAIN_1,
    LAYOUT_PLAIN_2,
    LAYOUT_PLAIN_ANY,
    LAYOUT_SOURCES
};

#define layout_tile_table MX_LEVEL_NAME(layout_tile_table)
extern const layout_tile_fn layout_tile_table[LAYOUT_SOURCES][LAYOUT_VECTORS][LAYOUT_HALF + 1]; /* [half 0]: NULL */

/* a < b ? a : b in every lane; b where one of them is NaN. */
CONV_INLINE vfloat layout_min(vfloat a, vfloat b)
{
#if defined(__AVX512F__)
    return (vfloat)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vfloat)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return vector_choose(a < b, a, b);
#endif
}

CONV_INLINE vfloat layout_limit(const layout_finish *f, vfloat v)
{
    return f->limits ? layout_min(vector_all(f->high), vector_max(vector_all(f->low), v)) : v;
}

#endif
