/* Strips of Winograd's method, and the transformation of their sources (model in conv_winograd.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/interrupt.h"
#include "base/scratch.h"
#include "base/threads.h"
#include "cpu/kernels/conv/conv_winograd.h"

#define STRIP_BYTES (2 << 20) /* of V and M that a strip should have ... */
#define STRIP_TILES 128       /* ... unless that were fewer tiles: each strip reads the weight again */
#define LINES 4               /* of pixels in a tile */

static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* A line of pixels is kept as its even and its odd ones.  Tiles are read in vectors, each with the pixels after its last tile. */
static int64_t half_line(const conv_winograd *p) { return up(p->across, LANES) * LANES + LANES; }

static void split_line(const conv_winograd *p, const float *plane, int64_t line, float *to)
{
    const conv_axis *h = &p->job->axis[1], *w = &p->job->axis[2];
    const bool there = line >= h->shift && line < h->shift + h->source;
    const float *from = there ? plane + (line - h->shift) * p->job->source_at[1] : plane;
    const int64_t width = there ? w->source : 0, half = half_line(p);
    for (int64_t i = 0; i <= p->across; i += LANES) {
        const vfloat a = vector_load_inside(from, 2 * i - w->shift, width);
        const vfloat b = vector_load_inside(from, 2 * i - w->shift + LANES, width);
        vector_store(to + i, VECTOR_EVEN(a, b));
        vector_store(to + half + i, VECTOR_ODD(a, b));
    }
}

/* LANES tiles whose four lines are given, into V. */
CONV_INLINE void transform_tiles(const float *const line[LINES], int64_t at, int64_t half, float *to, int64_t step)
{
    vfloat d[WINOGRAD_NUMBERS];
    WINOGRAD_UNROLL for (int i = 0; i < LINES; i++) {
        const float *even = line[i] + at, *odd = even + half;
        const vfloat d0 = vector_load(even), d1 = vector_load(odd), d2 = vector_load(even + 1),
                     d3 = vector_load(odd + 1);
        d[4 * i] = d0 - d2, d[4 * i + 1] = d1 + d2, d[4 * i + 2] = d2 - d1, d[4 * i + 3] = d1 - d3;
    }
    WINOGRAD_UNROLL for (int j = 0; j < 4; j++) {
        vector_store(to + j * step, d[j] - d[8 + j]);
        vector_store(to + (4 + j) * step, d[4 + j] + d[8 + j]);
        vector_store(to + (8 + j) * step, d[8 + j] - d[4 + j]);
        vector_store(to + (12 + j) * step, d[4 + j] - d[12 + j]);
    }
}

/* One line of tiles of a channel; what it shares with the line before has been split. */
static void transform_line(const conv_winograd *p, int64_t c, int64_t r, float *pixels)
{
    const int64_t y = winograd_line(p, r), half = half_line(p);
    const float *plane = p->source + winograd_image(p, r) * p->job->source_image + c * p->job->source_channel;
    const float *line[LINES];
    for (int64_t i = 0; i < LINES; i++) {
        float *split = pixels + (y + i) % LINES * 2 * half;
        if (i >= 2 || y == 0 || r == p->begin)
            split_line(p, plane, y + i, split);
        line[i] = split;
    }
    float *to = p->v + c * p->pitch + (r - p->begin) * p->across;
    for (int64_t t = 0; t < p->across; t += LANES)
        transform_tiles(line, t, half, to + t, p->v_step);
}

static void transform_part(void *arg, int part, int parts)
{
    const conv_winograd *p = arg;
    const int64_t from = p->job->from;
    for (int64_t c = from * part / parts; c < from * (part + 1) / parts && !mx_stop_wanted(); c++)
        for (int64_t r = p->begin; r < p->end; r++)
            transform_line(p, c, r, p->pixels + part * LINES * 2 * half_line(p));
}

void conv_winograd_sources(conv_winograd *p)
{
    mx_parallel_parts((int)winograd_least(p->parts, up(p->job->from, p->grain)), transform_part, p);
}

bool conv_winograd_next(conv_winograd *p)
{
    p->begin = p->end;
    p->end = winograd_least(p->begin + p->rows, p->job->batch * p->down);
    return p->begin < p->end && !mx_stop_wanted();
}

/* Strips are alike.  Channels are an odd number of cache lines apart: those a multiple of a page apart would push each
 * other out of the first-level cache. */
static void choose_strips(conv_winograd *p)
{
    const conv_job *job = p->job;
    const int64_t all = job->batch * p->down;
    const int64_t line = WINOGRAD_NUMBERS * (job->from + job->to) * p->across * (int64_t)sizeof(float);
    const int64_t fit = STRIP_BYTES / line + 1, least = up(STRIP_TILES, p->across);
    p->rows = up(all, up(all, fit > least ? fit : least));
    p->pitch = (up(p->rows * p->across + LANES, 16) | 1) * 16;
    p->v_step = job->from * p->pitch + 16, p->m_step = job->to * p->pitch + 16;
    p->grain = MX_GRAIN / (WINOGRAD_NUMBERS * p->rows * p->across) + 1;
}

mx_code conv_winograd_open(conv_winograd *p, const conv_job *job, const float *source)
{
    *p = (conv_winograd){.job = job, .source = source, .down = up(job->axis[1].result, 2),
                         .across = up(job->axis[2].result, 2), .parts = mx_num_threads()};
    choose_strips(p);
    const int64_t u = WINOGRAD_NUMBERS * job->to * job->from, pixels = p->parts * LINES * 2 * half_line(p);
    p->bytes = (size_t)(u + WINOGRAD_NUMBERS * (p->v_step + p->m_step) + pixels) * sizeof(float);
    p->u = mx_scratch_take(p->bytes);
    if (!p->u)
        return conv_scratch_failed("the tiles", p->bytes);
    p->v = p->u + u, p->m = p->v + WINOGRAD_NUMBERS * p->v_step, p->pixels = p->m + WINOGRAD_NUMBERS * p->m_step;
    memset(p->pixels, 0,
           (size_t)pixels * sizeof(float)); /* the last vector of a line must not hold denormals, which are slow */
    return MX_OK;
}
