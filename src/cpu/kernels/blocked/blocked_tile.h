/* The inner loops of convolutions over blocked channels: lanes are output channels.
 *
 *     data   (N, C / B, H, W, B)       B channels of a pixel are neighbours, B = floats of a vector
 *     weight (O / B, C / B, KH, KW, B of C, B of O)
 *
 * A tile of some pixels x `vectors` output blocks stays in registers while the sum over input blocks, taps and the
 * channels of a block runs: one multiply-add per register and step; the source is broadcast, the weight is a vector.
 * With 32 registers the pixels are two runs of up to 7 neighbours: of two short rows, or of one row (then they may
 * overlap).  With 16 registers there are only 6 pixels; each has an address of its own, so that a tile goes on in the
 * next row or image and computes no pixel twice.
 * The sums begin with the bias; a second array is added, the result clipped and stored from the registers.
 *
 * Of unblocked data (few channels, the first layer) a tap has one channel, and a list says where all taps are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_BLOCKED_TILE_H
#define MX_CPU_BLOCKED_TILE_H

#include <stdbool.h>

#include "cpu/kernels/conv/conv_vector.h"

#if MX_VECTOR_REGISTERS == 32
#define LAYOUT_RUNS 2 /* most runs of neighbouring pixels in a tile, and ... */
#define LAYOUT_RUN 7  /* ... pixels in a run */
#define LAYOUT_STRIDES 3
#else
#define LAYOUT_RUNS 6
#define LAYOUT_RUN 1
#define LAYOUT_STRIDES 1 /* no pixel has a neighbour */
#endif
#define LAYOUT_PIXELS (LAYOUT_RUNS * LAYOUT_RUN)                 /* most of a tile */
#define LAYOUT_SIZES (LAYOUT_RUN > 1 ? LAYOUT_RUN : LAYOUT_RUNS) /* of tiles: pixels of both runs, or runs */
#define LAYOUT_VECTORS 2                                         /* output blocks of a tile */

/* How finished sums become results. */
typedef struct layout_finish {
    bool limits;     /* low and high are used */
    float low, high; /* relu: 0 and infinity */
} layout_finish;

typedef struct layout_tile {
    const float *x;                         /* source of the first tap; ... */
    const int64_t *from;                    /* ... floats from there to the first pixel of each run */
    int64_t blocks;                         /* input blocks */
    int64_t rows, taps;                     /* of the kernel: lines, and taps along a line; unblocked: all taps */
    const int64_t *at;                      /* unblocked: floats from the first tap to each, (taps) */
    int64_t x_block, x_row, x_tap, x_pixel; /* strides of the source in floats; x_pixel: between output pixels */
    const float *w;                         /* of the first output block, from the first tap on */
    int64_t w_skip;                         /* floats to skip for omitted kernel rows, per input block */
    int64_t w_block;                        /* to the next output block */
    const float *bias;                      /* (vectors * LANES) */
    float *y;                               /* result of the first output block; ... */
    const float *add;                       /* ... what is added to it, NULL: nothing; ... */
    const int64_t *to;                      /* ... floats from there to the first pixel of each run */
    int64_t y_block;                        /* to the next output block, in result and addend */
    const layout_finish *finish;
} layout_tile;

typedef void (*layout_tile_fn)(const layout_tile *t);

/* Instances: [unblocked source][stride 1, 2, any][vectors - 1][size]; there is none of size 0. */
#define layout_tile_table MX_LEVEL_NAME(layout_tile_table)
extern const layout_tile_fn layout_tile_table[2][LAYOUT_STRIDES][LAYOUT_VECTORS][LAYOUT_SIZES + 1];

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
