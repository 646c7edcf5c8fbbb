/* Convolution of 1x1 windows over blocked channels: strips of pixels times groups of output blocks.
 *
 *     job = (strip, group)      strip: some neighbouring pixels of one image, or several images
 *
 * Threads take runs of neighbouring jobs.  A strip's source stays in the second-level cache while the groups of a run
 * use it; with strides it is first copied, so that pixels are neighbours in any case (blocked_line.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/blocked/blocked.h"
#include "cpu/kernels/blocked/blocked_line.h"

#define STRIP_BYTES (256 << 10) /* of the source that a strip should have */

typedef struct job {
    const layout_conv *c;
    int64_t plane;          /* pixels of a result image */
    bool packs;             /* the source is copied */
    int64_t images, pixels; /* of a strip: complete images, or pixels of one image */
    int64_t strips, groups, parts;
    float *room; /* (parts, room_floats) */
    int64_t room_floats;
} job;

typedef struct strip {
    int64_t n, images;        /* of the batch */
    int64_t first, pixels;    /* of each of its images */
    const float *x;           /* the first pixel */
    int64_t x_image, x_block; /* floats to the next image, to the next block */
} strip;

static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* The time of the busiest thread, in pixels of a job: each job reads weights, each strip its source.  A strip that does not
 * stay in the cache is slower; strips that belong to one thread leave results where the next layer reads them. */
static double cost_of(const job *j, int64_t pixels, int64_t threads)
{
    const int64_t strips = j->c->batch * up(j->plane, pixels), jobs = up(strips * j->groups, threads);
    const double cost = (double)jobs * ((double)pixels + 8) + (double)(up(jobs, j->groups) * pixels) / 2;
    const bool large = pixels * j->c->blocks * LANES * (int64_t)sizeof(float) > STRIP_BYTES;
    return cost * (large ? 1.02 : 1) * (strips % threads ? 1 : 0.97);
}

/* About STRIP_BYTES of source, at most twice as much, with the work balanced over the threads. */
static void choose_strips(job *j, int64_t threads)
{
    const layout_conv *c = j->c;
    const int64_t image = j->plane * c->blocks * LANES * (int64_t)sizeof(float);
    if (image * 2 <= STRIP_BYTES && c->batch >= 2 * threads) { /* several images */
        j->images = least(STRIP_BYTES / (image + 1), up(c->batch, threads));
        j->pixels = j->plane;
        j->strips = up(c->batch, j->images);
        return;
    }
    const int64_t fewest = up(image, 2 * STRIP_BYTES), most = least(up(image, STRIP_BYTES) + 2 * threads, j->plane);
    j->images = 1, j->pixels = up(j->plane, fewest);
    for (int64_t n = fewest + 1; n <= most; n++)
        if (cost_of(j, up(j->plane, n), threads) < cost_of(j, j->pixels, threads))
            j->pixels = up(j->plane, n);
    j->strips = c->batch * up(j->plane, j->pixels);
}

static void choose_sizes(job *j)
{
    const layout_conv *c = j->c;
    j->plane = c->out_height * c->out_width;
    j->packs = c->stride[0] > 1 || c->stride[1] > 1;
    j->groups = line_groups(c->out_blocks);
    choose_strips(j, mx_num_threads());
    j->room_floats = j->packs ? j->images * c->blocks * j->pixels * LANES : 0;
    j->parts = least(mx_num_threads(), j->strips * j->groups);
}

/* ---- strips ------------------------------------------------------------------------------------------------------ */

/* The pixels of one image that results are computed from: (blocks, pixels, LANES). */
static void pack_image(const job *j, const strip *s, int64_t n, float *to)
{
    const layout_conv *c = j->c;
    for (int64_t b = 0; b < c->blocks; b++) {
        const float *plane = c->x + (n * c->blocks + b) * c->height * c->width * LANES;
        int64_t y = s->first / c->out_width, x = s->first % c->out_width;
        for (int64_t i = 0; i < s->pixels; i++, to += LANES) {
            vector_store(to, vector_load(plane + (y * c->stride[0] * c->width + x * c->stride[1]) * LANES));
            if (++x == c->out_width)
                x = 0, y++;
        }
    }
}

static strip open_strip(const job *j, int64_t number, float *room)
{
    const layout_conv *c = j->c;
    const int64_t per_image = up(j->plane, j->pixels), size = j->packs ? 0 : c->height * c->width;
    strip s = {.n = number / per_image, .images = 1, .first = number % per_image * j->pixels};
    if (j->images > 1)
        s.n = number * j->images, s.first = 0, s.images = least(j->images, c->batch - s.n);
    s.pixels = least(j->pixels, j->plane - s.first);
    s.x_block = (j->packs ? s.pixels : size) * LANES;
    s.x_image = c->blocks * s.x_block;
    s.x = j->packs ? room : c->x + s.n * s.x_image + s.first * LANES;
    for (int64_t i = 0; j->packs && i < s.images; i++)
        pack_image(j, &s, s.n + i, room + i * s.x_image);
    return s;
}

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

static void run_job(const job *j, const strip *s, int64_t group)
{
    const layout_conv *c = j->c;
    const int64_t block = 2 * group, vectors = line_vectors(c->out_blocks, group), plane = j->plane * LANES;
    const int64_t w_block = c->blocks * LANES * LANES;
    float bias[LINE_VECTORS * LANES] = {0};
    if (c->bias)
        memcpy(bias, c->bias + block * LANES,
               (size_t)least(vectors * LANES, c->channels - block * LANES) * sizeof *bias);
    const float *w = c->w + block * w_block, *next_w = group + 1 < j->groups ? w + vectors * w_block : NULL;
    for (int64_t i = 0; i < s->images; i++) {
        const int64_t to = ((s->n + i) * c->out_blocks + block) * plane + s->first * LANES;
        const layout_line line = {.x = s->x + i * s->x_image,
                                  .blocks = c->blocks,
                                  .x_block = s->x_block,
                                  .w = w,
                                  .w_block = w_block,
                                  .bias = bias,
                                  .y = c->y + to,
                                  .add = c->add ? c->add + to : NULL,
                                  .y_block = plane,
                                  .finish = &c->finish};
        layout_run_line(&line, vectors, s->pixels, next_w);
    }
}

static void run_part(void *arg, int part, int parts)
{
    const job *j = arg;
    const int64_t total = j->strips * j->groups, begin = total * part / parts, end = total * (part + 1) / parts;
    int64_t open = -1;
    strip s = {0};
    for (int64_t i = begin; i < end && !mx_stop_wanted(); i++) {
        if (i / j->groups != open) {
            open = i / j->groups;
            s = open_strip(j, open, j->room + part * j->room_floats);
        }
        run_job(j, &s, i % j->groups);
    }
}

mx_code layout_pointwise(const layout_conv *c)
{
    job j = {.c = c};
    choose_sizes(&j);
    const size_t bytes = (size_t)(j.parts * j.room_floats) * sizeof(float);
    if (bytes && !(j.room = mx_alloc(bytes)))
        return MX_ERR_MEMORY;
    mx_parallel_parts((int)j.parts, run_part, &j);
    mx_free(j.room, bytes);
    return MX_OK;
}
