/* The inner loops of the blocked convolution: lanes are output channels.
 *
 * Correlation: a tile of 2 * half positions x `vectors` vectors of channels stays in registers while the sum over
 * lines, channels and taps runs.  The two halves come from two source lines (or two places of one line), so short
 * lines are paired.  One multiply-add per register and step; the source is broadcast, the weight is a vector.
 * If the first tap of a line reads padding at the first position, or the last tap at the last, its products are
 * skipped: they are a tenth of a line of seven.
 *
 * Weight gradient: a tile of channels x taps x `vectors` vectors stays in registers while the sum over positions runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_MICRO_H
#define MX_CPU_CONV_MICRO_H

#include <stdbool.h>

#include "cpu/kernels/conv/conv_vector.h"

/* Exported names carry the level. */
#define conv_micro_table MX_LEVEL_NAME(conv_micro_table)
#define conv_grad_table MX_LEVEL_NAME(conv_grad_table)

#if MX_VECTOR_REGISTERS == 32
#define CONV_HALF_TWO 7  /* most positions per half, two vectors of channels */
#define CONV_HALF_ONE 12 /* ... one vector */
#define CONV_TILE_TAPS 12 /* weight gradient: channels x taps of a tile */
#else
#define CONV_HALF_TWO 3
#define CONV_HALF_ONE 6
#define CONV_TILE_TAPS 6
#endif
#define CONV_BLOCK (2 * LANES) /* channels of a full weight block */

typedef struct conv_lines {
    const float *a, *b; /* packed source lines of the two halves, (from, phases, length) */
    int64_t kernel_row; /* the line of the kernel that reads them */
} conv_lines;

typedef struct conv_micro {
    const conv_lines *lines;
    int64_t line_count;
    int64_t from;                      /* channels to sum over */
    int64_t source_channel;            /* floats between the channels of a line */
    const float *w;                    /* packed block (kernel rows, from, taps along the line, block) */
    int64_t w_row, w_from;             /* strides of it */
    const int64_t *source_tap, *w_tap; /* (taps) offsets in floats, into a line and into the weight */
    int64_t taps;
    int64_t at_a, at_b;    /* floats from a line to the first position of each half */
    float *sum_a, *sum_b;  /* (half, vectors * LANES) the sums of each half ... */
    int64_t sum_step;      /* ... and the floats from one position to the next */
    bool add;              /* add to the sums instead of overwriting them */
    bool first_a, first_b; /* the first tap of the first position of a half is padding: needs no product */
    bool last_a, last_b;   /* the last tap of the last position is */
} conv_micro;

typedef void (*conv_micro_fn)(const conv_micro *m);

/* Indexed by [vectors - 1][taps, or 0 for any number of taps][half]; NULL where there is no such tile. */
#define CONV_MICRO_TAPS 3
extern const conv_micro_fn conv_micro_table[2][CONV_MICRO_TAPS + 1][CONV_HALF_ONE + 1];

typedef struct conv_grad_lines {
    const float *source; /* packed source line (channels, phases, length) */
    const float *dy;     /* (positions, vectors * LANES) */
} conv_grad_lines;

typedef struct conv_grad {
    const conv_grad_lines *lines;
    int64_t line_count;
    int64_t positions;
    int64_t source_at;      /* where the tile's first channel begins in a line */
    int64_t source_channel; /* floats between the channels of a line */
    const int64_t *tap;     /* offsets of the tile's taps into a source line */
    float *sum;             /* (channels, all taps of the line, block), the tile's first element; added to */
    int64_t sum_channel;
} conv_grad;

typedef void (*conv_grad_fn)(const conv_grad *g);
/* Indexed by [vectors - 1][taps - 1][channels - 1]; NULL where the tile would not fit the registers. */
#define CONV_GRAD_TAPS 3
extern const conv_grad_fn conv_grad_table[2][CONV_GRAD_TAPS][8];

#endif
