/* Convolution with positions as lanes: for few output channels, where lanes of channels would stay empty.
 *
 * Model.  The packed source of an image is a set of planes, one per channel and phase, each (depth, height, width) with
 * the padding as zeros.  Then the positions of a result and of its source differ by a constant per tap, also across
 * lines: flattened results q = (d * height + h) * width + w read source q + offset[k].  So vectors run over q without
 * regard to lines; the few results that fall into the padding at the end of a line are discarded.
 *
 *     result[t][q] = sum over k of  source[offset[k] + q] * w[t][k]            k = (channel, tap)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_PIXELS_H
#define MX_CPU_CONV_PIXELS_H

#include "cpu/kernels/conv/conv_job.h"
#include "cpu/kernels/conv/conv_vector.h"

#define conv_planes_init MX_LEVEL_NAME(conv_planes_init)
#define conv_planes_fill MX_LEVEL_NAME(conv_planes_fill)
#define conv_planes_offsets MX_LEVEL_NAME(conv_planes_offsets)
#define conv_pixels_share MX_LEVEL_NAME(conv_pixels_share)

#define conv_pixels_sum MX_LEVEL_NAME(conv_pixels_sum)
#define conv_pixels_zero MX_LEVEL_NAME(conv_pixels_zero)

#define CONV_PIXELS_CHANNELS 6         /* most results of one register tile */
/* to[t][q] = max(floor, start[t] + sum over k < count of x[offset[k] + q] * w[k][t]), for `vectors` vectors of q;
 * indexed by how many t. */
typedef void (*conv_pixels_fn)(const float *x, const int64_t *offset, int64_t count, const float *w, const float *start,
                               float floor, float *to, int64_t s_to, int64_t vectors);
extern const float conv_pixels_zero[CONV_PIXELS_CHANNELS]; /* where sums without a bias start */
extern const conv_pixels_fn conv_pixels_sum[CONV_PIXELS_CHANNELS + 1];

#define CONV_PIXELS_SPARE (16 * LANES) /* floats that vectors may read or write past the last plane */

/* The geometry of packed planes; tiles are split along the height. */
typedef struct conv_planes {
    const conv_job *job;
    int64_t rows; /* result rows (j, of a class) of a tile */
    int64_t tiles;
    int64_t height;  /* packed rows of a tile: rows and the reach of the taps */
    int64_t plane;   /* floats of one phase plane: depth length * height * width length */
    int64_t channel; /* floats of a channel: all phases */
    int64_t floats;  /* of all channels, with the spare ones */
} conv_planes;

/* Geometry for tiles whose planes take about `bytes`. */
void conv_planes_init(conv_planes *p, const conv_job *job, int64_t bytes);

/* Packs the planes of tile `tile` from the image and group at `source`; the spare floats become zero. */
void conv_planes_fill(const conv_planes *p, const float *source, int64_t tile, float *packed);

/* For the class (c0, c1, c2): the offsets of its k, and the flattened tap of each tap; returns the number of taps. */
int64_t conv_planes_offsets(const conv_planes *p, const int64_t c[3], int64_t *offset, int64_t *tap);

/* Flattened length of `rows` result rows of a class: up to the last position, without the padding after it. */
static inline int64_t conv_planes_span(const conv_planes *p, const int64_t c[3], int64_t rows)
{
    const int64_t depth = conv_axis_count(&p->job->axis[0], c[0]), width = conv_axis_count(&p->job->axis[2], c[2]);
    return ((depth - 1) * p->height + rows - 1) * p->job->axis[2].length + width;
}

/* The share of vector lanes that hold results, of class 0 and a full tile. */
double conv_pixels_share(const conv_job *job);

#endif
