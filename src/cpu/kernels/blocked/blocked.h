/* Kernels over blocked channels (float32): convolution, depthwise convolution, pooling.
 *
 *     blocked data (N, blocks, H, W, LANES): channel c is lane c % LANES of block c / LANES
 *
 * Lanes past the last channel hold what the operators compute from zeros; they are never used.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_BLOCKED_H
#define MX_CPU_BLOCKED_H

#include "cpu/kernels/blocked/blocked_tile.h"
#include "gluon/base.h"

typedef struct layout_conv {
    int64_t batch, height, width; /* of the data */
    int64_t blocks;               /* of the data; unblocked data: channels */
    bool plain;                   /* data (N, C, H, W) */
    int64_t out_blocks, channels; /* of the result; channels: without padding */
    int64_t out_height, out_width;
    int64_t kernel[2], stride[2], dilate[2], pad[2];
    const float *x, *w, *bias, *add; /* bias (channels), add as the result: may be NULL */
    float *y;
    layout_finish finish;
} layout_conv;

#define layout_convolve MX_LEVEL_NAME(layout_convolve)
#define layout_depthwise MX_LEVEL_NAME(layout_depthwise)
mx_code layout_convolve(const layout_conv *c); /* w (out_blocks, blocks, KH, KW, LANES or 1, LANES) */
#define layout_pointwise MX_LEVEL_NAME(layout_pointwise)
mx_code layout_pointwise(const layout_conv *c); /* the same for 1x1 windows without padding */
#define layout_winograd MX_LEVEL_NAME(layout_winograd)
mx_code layout_winograd(const layout_conv *c);  /* 3x3, w (16, out_blocks, blocks, LANES, LANES) */
mx_code layout_depthwise(const layout_conv *c); /* w (blocks, KH, KW, LANES), out_blocks = blocks */

#endif
