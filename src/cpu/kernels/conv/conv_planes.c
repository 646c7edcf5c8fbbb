/* Packed planes for lanes of positions (model in conv_pixels.h).  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/conv/conv_pixels.h"

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

void conv_planes_init(conv_planes *p, const conv_job *job, int64_t bytes)
{
    const conv_axis *d = &job->axis[0], *h = &job->axis[1], *w = &job->axis[2];
    const int64_t all = conv_axis_count(h, 0), reach = h->length - all;
    const int64_t phases = d->phases * h->phases * w->phases;
    const int64_t row = job->from * phases * d->length * w->length * (int64_t)sizeof(float);
    p->job = job;
    p->rows = smaller(all, larger(4, bytes / row - reach));
    p->tiles = (all + p->rows - 1) / p->rows;
    p->rows = (all + p->tiles - 1) / p->tiles;
    p->height = p->rows + reach;
    p->plane = d->length * p->height * w->length;
    p->channel = phases * p->plane;
    p->floats = (job->from * p->channel + 15) / 16 * 16 + CONV_PIXELS_SPARE; /* keeps the next array aligned */
}

/* The source index of packed (phase, m) of an axis, or -1 in the padding. */
static int64_t source_of(const conv_axis *a, int64_t phase, int64_t m)
{
    const int64_t at = m * a->step + phase - a->shift;
    return at < 0 || at >= a->source ? -1 : at;
}

/* One packed row in all phases of the width; these are a plane apart. */
static void fill_row(const conv_planes *p, const float *line, float *to)
{
    const conv_axis *w = &p->job->axis[2];
    const int64_t at = p->job->source_at[2];
    for (int64_t f = 0; f < w->phases; f++, to += p->plane) {
        const int64_t begin = line ? w->begin[f] : w->length, end = line ? w->end[f] : w->length;
        for (int64_t m = 0; m < begin; m++)
            to[m] = 0;
        for (int64_t m = end; m < w->length; m++)
            to[m] = 0;
        if (end > begin)
            conv_copy_strided(to + begin, line + (begin * w->step + f - w->shift) * at, end - begin, w->step * at);
    }
}

void conv_planes_fill(const conv_planes *p, const float *source, int64_t tile, float *packed)
{
    const conv_job *job = p->job;
    const conv_axis *d = &job->axis[0], *h = &job->axis[1], *w = &job->axis[2];
    const int64_t first = tile * p->rows;
    for (int64_t c = 0; c < job->from; c++)
        for (int64_t fd = 0; fd < d->phases; fd++)
            for (int64_t fh = 0; fh < h->phases; fh++) {
                float *plane = packed + c * p->channel + (fd * h->phases + fh) * w->phases * p->plane;
                for (int64_t md = 0; md < d->length; md++)
                    for (int64_t mh = 0; mh < p->height; mh++, plane += w->length) {
                        const int64_t z = source_of(d, fd, md), y = source_of(h, fh, first + mh);
                        const int64_t line = c * job->source_channel + z * job->source_at[0] + y * job->source_at[1];
                        fill_row(p, z < 0 || y < 0 ? NULL : source + line, plane);
                    }
            }
    memset(packed + job->from * p->channel, 0, (size_t)(p->floats - job->from * p->channel) * sizeof(float));
}

int64_t conv_planes_offsets(const conv_planes *p, const int64_t c[3], int64_t *offset, int64_t *tap)
{
    const conv_job *job = p->job;
    const conv_axis *d = &job->axis[0], *h = &job->axis[1], *w = &job->axis[2];
    int64_t taps = 0;
    for (int64_t i = d->first[c[0]]; i < d->first[c[0] + 1]; i++)
        for (int64_t j = h->first[c[1]]; j < h->first[c[1] + 1]; j++)
            for (int64_t k = w->first[c[2]]; k < w->first[c[2] + 1]; k++) {
                const int64_t phase = (d->phase[i] * h->phases + h->phase[j]) * w->phases + w->phase[k];
                offset[taps] = phase * p->plane + (d->offset[i] * p->height + h->offset[j]) * w->length + w->offset[k];
                tap[taps++] = (d->tap[i] * h->kernel + h->tap[j]) * w->kernel + w->tap[k];
            }
    for (int64_t channel = job->from - 1; channel >= 0; channel--)
        for (int64_t t = 0; t < taps; t++)
            offset[channel * taps + t] = offset[t] + channel * p->channel;
    return taps;
}

double conv_pixels_share(const conv_job *job)
{
    conv_planes p;
    const int64_t first[3] = {0, 0, 0};
    conv_planes_init(&p, job, INT64_MAX / 2);
    const int64_t span = (conv_planes_span(&p, first, p.rows) + LANES - 1) / LANES * LANES;
    const int64_t results = conv_axis_count(&job->axis[0], 0) * p.rows * conv_axis_count(&job->axis[2], 0);
    return (double)results / (double)span;
}
