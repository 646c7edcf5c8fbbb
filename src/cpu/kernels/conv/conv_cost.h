/* Estimated cost of the implementations of a convolution, in vector operations per image and group.
 *
 * The constants were fitted to measurements on AVX-512 and AVX2 machines; they only have to rank the implementations.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_CONV_COST_H
#define MX_CPU_CONV_COST_H

#include "cpu/kernels/conv/conv_pixels.h"

#define COLUMN_BYTES (1 << 20)     /* most memory for the columns of an image */
#define PIXEL_SUM_BYTES (4 << 20)  /* most memory for the vectors of sums of a weight gradient */

static inline double cost_vectors(double count) { return (double)(int64_t)((count + LANES - 1) / LANES); }

static inline double cost_size(const int64_t size[3]) { return (double)size[0] * (double)size[1] * (double)size[2]; }
static inline double cost_results(const conv_job *job)
{
    return (double)job->axis[0].result * (double)job->axis[1].result * (double)job->axis[2].result;
}

/* Terms per result, averaged over the classes of a data gradient. */
static inline double cost_terms(const conv_job *job)
{
    const double classes = (double)(job->axis[0].classes * job->axis[1].classes * job->axis[2].classes);
    return (double)(job->from * job->taps) / classes;
}

static inline double cost_blocked(const conv_job *job)
{
    return cost_vectors((double)job->to) * cost_results(job) * (1.05 * cost_terms(job) + 25);
}

static inline double cost_pixels(const conv_job *job)
{
    const double busy = job->to == 1   ? 0.5
                        : job->to == 2 ? 0.7
                                       : 0.9; /* utilisation of the multipliers, limited by loads */
    const double vectors = cost_results(job) / conv_pixels_share(job) / LANES;
    const double rows = (double)(job->axis[0].source * job->axis[1].source * job->from);
    return vectors * (double)job->to * (cost_terms(job) / busy + 15) + rows * 20;
}

static inline double cost_columns(const conv_job *job)
{
    const double k = (double)(job->from * job->to * job->taps), positions = cost_vectors(cost_size(job->shape.out));
    const double lines = (double)(job->shape.out[0] * job->shape.out[1]);
    const double rows = (double)((job->gradient ? job->to : job->from) * job->taps) * lines;
    const double move = job->gradient && !conv_can_gather(job) ? 6 : 3; /* adding to memory, or copying and gathering */
    const double line = move + move * cost_vectors((double)job->shape.out[2]);
    return positions * (k / 0.9 + 8 * (double)(job->gradient ? job->from : job->to)) + rows * line;
}

static inline double cost_blocked_weight(const conv_job *job)
{
    return cost_vectors((double)job->to) * cost_results(job) * (1.1 * (double)(job->from * job->taps) + 8);
}

/* Tiles and their products go through the second-level cache; `transform`: what a tile costs beside that of forward. */
static inline double cost_winograd(const conv_job *job, double transform)
{
    const double down = (double)((job->axis[1].result + 1) / 2), across = (double)((job->axis[2].result + 1) / 2);
    const double batch = (double)job->batch, channels = (double)(job->from * job->to);
    const double products = 16 * cost_vectors(batch * down * across) * channels / batch;
    const double tiles = down * cost_vectors(across) * (double)(job->from + job->to) * (40 + 8 * LANES);
    return 1.35 * products + transform * tiles + 60 * channels / batch;
}

/* ---- acceptance ----------------------------------------------------------------------------------------- */

static bool accepts_columns(const conv_job *job)
{
    const double terms = (double)(job->gradient ? job->from : job->from * job->taps);
    const double bytes = terms * cost_vectors(cost_size(job->shape.out)) * MX_VECTOR_BYTES;
    const double cost = cost_columns(job);
    return bytes < COLUMN_BYTES && cost < cost_blocked(job) && cost < cost_pixels(job);
}

static bool accepts_pixels(const conv_job *job) { return cost_pixels(job) < cost_blocked(job); }

static bool accepts_pixels_weight(const conv_job *job)
{
    const double k = (double)(job->from * job->taps), positions = cost_size(job->shape.out);
    const double pixels = positions / conv_pixels_share(job) / LANES * (double)job->to * k / 0.75;
    return pixels < cost_blocked_weight(job) && (double)(job->groups * job->to) * k * MX_VECTOR_BYTES < PIXEL_SUM_BYTES;
}

static bool fits_winograd(const conv_job *job)
{
    const mx_conv_shape *s = &job->shape;
    for (int i = 1; i < 3; i++)
        if (s->kernel[i] != 3 || s->stride[i] != 1 || s->dilate[i] != 1)
            return false;
    return s->kernel[0] == 1 && s->in[0] == 1 && s->out[0] == 1 && job->groups == 1 && !s->channels_last;
}

static bool accepts_winograd(const conv_job *job)
{
    if (!fits_winograd(job))
        return false;
    const double cost = cost_winograd(job, 1), blocked = cost_blocked(job), pixels = cost_pixels(job);
    return cost < blocked && cost < pixels && cost < cost_columns(job);
}

static bool accepts_winograd_weight(const conv_job *job)
{
    return fits_winograd(job) && cost_winograd(job, 1.3) < cost_blocked_weight(job);
}

static bool accepts_all(const conv_job *job)
{
    (void)job;
    return true;
}

#endif
