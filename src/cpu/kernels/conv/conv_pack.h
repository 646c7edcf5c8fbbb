/* Packed weights: (blocks of result channels, kernel rows, from, taps along the line, channels of the block).
 *
 * A block holds CONV_BLOCK channels; the last one holds LANES when no more are left.  Absent channels are zero.
 * Kernel rows flatten the first two kernel axes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_PACK_H
#define MX_CPU_CONV_PACK_H

#include "cpu/kernels/conv/conv_job.h"
#include "cpu/kernels/conv/conv_micro.h"

#define conv_pack_weight MX_LEVEL_NAME(conv_pack_weight)
#define conv_unpack_weight MX_LEVEL_NAME(conv_unpack_weight)

typedef struct conv_weight {
    int64_t to, from;            /* channels of one group */
    int64_t rows, taps;          /* kernel rows, taps along the line */
    int64_t s_to, s_from, s_tap; /* strides of the unpacked weight; its taps are flattened as row * taps + tap */
} conv_weight;

static inline int64_t conv_blocks(int64_t to) { return (to + CONV_BLOCK - 1) / CONV_BLOCK; }
/* Channels (with padding) of block b. */
static inline int64_t conv_block_size(int64_t to, int64_t b)
{
    return to - b * CONV_BLOCK <= LANES ? LANES : CONV_BLOCK;
}
/* Floats of all blocks together. */
static inline int64_t conv_packed_size(const conv_weight *k)
{
    const int64_t last = conv_blocks(k->to) - 1;
    return (last * CONV_BLOCK + conv_block_size(k->to, last)) * k->from * k->rows * k->taps;
}
/* Where block b begins. */
static inline int64_t conv_block_at(const conv_weight *k, int64_t b)
{
    return b * CONV_BLOCK * k->from * k->rows * k->taps;
}

void conv_pack_weight(const conv_weight *k, const float *w, float *packed);
void conv_unpack_weight(const conv_weight *k, const float *packed, float *w);

#endif
