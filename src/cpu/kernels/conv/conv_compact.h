/* Compact planes: the positions of an array of images that a 1x1 convolution reads, without gaps.
 *
 *     full      (images, channels, planes of in[0] x in[1] x in[2])
 *     compact   (images, channels, planes of out[0] x out[1] x out[2]): every stride-th position along each axis,
 *               or (channels, images, planes) when `joined`: then the images of a channel make one long row
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_COMPACT_H
#define MX_CPU_CONV_COMPACT_H

#include "cpu/kernels/conv/conv_job.h"

#define conv_compact_open MX_LEVEL_NAME(conv_compact_open)
#define conv_compact_close MX_LEVEL_NAME(conv_compact_close)
#define conv_compact_gather MX_LEVEL_NAME(conv_compact_gather)
#define conv_compact_scatter MX_LEVEL_NAME(conv_compact_scatter)

typedef struct conv_compact {
    int64_t images, channels; /* channels of all groups */
    int64_t in[3], out[3];    /* of a full and of a compact plane */
    int64_t stride[3];        /* 1 where both are the same */
    int64_t image, channel;   /* floats from one compact plane to the next */
    const float *bias;        /* NULL or (channels): added by scatter */
    bool relu;                /* scatter: negative results become 0 */
    float *data;              /* owned */
    size_t bytes;
} conv_compact;

/* For x or, `of_result`, for y of the convolution; close may be called after a failed open. */
mx_code conv_compact_open(conv_compact *c, const mx_conv_shape *s, bool of_result, bool joined);
void conv_compact_close(conv_compact *c);

void conv_compact_gather(const conv_compact *c, const float *full);
/* Positions in between become 0. */
void conv_compact_scatter(const conv_compact *c, float *full);

#endif
