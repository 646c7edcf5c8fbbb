/* Products of neighbouring pixels with a matrix of weights, over blocked channels: lanes are output channels.
 *
 *     x (blocks, ..., LANES)   w (vectors, blocks, LANES of C, LANES of O)   y (vectors, ..., LANES)
 *
 * A line is cut into tiles.  The sums of a tile, some pixels x `vectors` output blocks, stay in registers: one
 * multiply-add per register and input channel.  A call computes many tiles, since those of few input channels take hardly
 * longer than a call.  The sums begin with the bias; a second array is added, the result clipped and stored from the
 * registers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_BLOCKED_LINE_H
#define MX_CPU_BLOCKED_LINE_H

#include "cpu/kernels/blocked/blocked_tile.h"

#define LINE_VECTORS 3 /* most output blocks of a tile: 3 where their number is odd, else 2 */

typedef struct layout_line {
    const float *x;    /* first pixel; the others follow */
    int64_t blocks;    /* input blocks */
    int64_t x_block;   /* floats to the next one */
    const float *w;    /* of the first output block; ... */
    int64_t w_block;   /* ... floats to the next one */
    const float *bias; /* (vectors * LANES) */
    float *y;          /* result of the first pixel and output block; ... */
    const float *add;  /* ... what is added to it, or NULL; ... */
    int64_t y_block;   /* ... floats to the next output block, in both */
    const layout_finish *finish;
} layout_line;

#define layout_run_line MX_LEVEL_NAME(layout_run_line)
/* next_w: the weights that the caller needs next, two output blocks of the same size, or NULL. */
void layout_run_line(const layout_line *line, int64_t vectors, int64_t pixels, const float *next_w);

/* Groups of output blocks: pairs; the last one of an odd number has three blocks. */
static inline int64_t line_groups(int64_t blocks) { return blocks < 2 ? 1 : blocks / 2; }

static inline int64_t line_vectors(int64_t blocks, int64_t group)
{
    return group + 1 < line_groups(blocks) ? 2 : blocks - 2 * group;
}

#endif
