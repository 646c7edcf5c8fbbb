/* Convolution of 3x3 windows by Winograd's minimal filtering: 16 products for 4 results instead of 36.
 *
 *     V = B' d B   16 numbers per tile of 4x4 pixels and channel        B' = ( 1  0 -1  0 |  0  1  1  0 |
 *     M = sum over channels of U V, number by number: 16 products              0 -1  1  0 |  0  1  0 -1 )
 *         of (tiles, C) and (C, O), by the tiles of blocked_line.h
 *     y = A' M A   the 2x2 results of the tile                          A' = ( 1  1  1  0 |  0  1 -1 -1 )
 *
 * The weight U = G w G' is computed beforehand (_block_weight).  Rounding errors are close to those of direct sums: all
 * factors of the transformations are 0, 1 and -1 (and 1/2 for the weight).
 *
 *     job = (strip of tile rows, group of output blocks); a strip's V stays in the second-level cache
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/blocked/blocked.h"
#include "cpu/kernels/blocked/blocked_line.h"

#define STRIP_BYTES (512 << 10) /* of V that a strip should have */
#define UNROLL4 _Pragma("GCC unroll 4")

typedef struct job {
    const layout_conv *c;
    int64_t down, across; /* tiles of an image */
    int64_t rows;         /* tile rows of a strip */
    int64_t strips, groups, parts;
    int64_t v, m; /* floats of a strip's V and of a group's M */
    float *room;  /* (parts, v + m) */
} job;

/* Floats from one of the 16 numbers of a tile to the next, in V and in M: a cache line more than the numbers of all tiles, as
 * multiples of 4096 bytes would compete for the same places of the first-level cache. */
static int64_t v_step(const layout_conv *c, int64_t tiles) { return c->blocks * tiles * LANES + 16; }
static int64_t m_step(int64_t tiles) { return LINE_VECTORS * tiles * LANES + 16; }

static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- transformations --------------------------------------------------------------------------------------------- */

CONV_INLINE void before(vfloat *d, const int step) /* B' times four values that are `step` apart */
{
    const vfloat d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step];
    d[0] = d0 - d2, d[step] = d1 + d2, d[2 * step] = d2 - d1, d[3 * step] = d1 - d3;
}

/* The tile whose first pixel is (y, x) of one block of an image, into V: (16, blocks, tiles, LANES). */
static void transform_tile(const layout_conv *c, const float *plane, int64_t y, int64_t x, float *to, int64_t step)
{
    vfloat d[16];
    const bool inside = y >= 0 && x >= 0 && y + 4 <= c->height && x + 4 <= c->width;
    for (int i = 0; i < 4; i++)
        UNROLL4 for (int j = 0; j < 4; j++)
        {
            const bool there = inside || (y + i >= 0 && y + i < c->height && x + j >= 0 && x + j < c->width);
            d[4 * i + j] = there ? vector_load(plane + ((y + i) * c->width + x + j) * LANES) : (vfloat){0};
        }
    UNROLL4 for (int j = 0; j < 4; j++) before(d + j, 4);
    UNROLL4 for (int i = 0; i < 4; i++) before(d + 4 * i, 1);
    for (int i = 0; i < 16; i++)
        vector_store(to + i * step, d[i]);
}

/* Tile rows [begin, end) of all images. */
static void transform_strip(const job *j, int64_t begin, int64_t end, float *v)
{
    const layout_conv *c = j->c;
    const int64_t tiles = (end - begin) * j->across, step = v_step(c, tiles);
    for (int64_t b = 0; b < c->blocks; b++)
        for (int64_t r = begin; r < end; r++) {
            const float *plane = c->x + (r / j->down * c->blocks + b) * c->height * c->width * LANES;
            for (int64_t t = 0; t < j->across; t++)
                transform_tile(c, plane, r % j->down * 2 - c->pad[0], 2 * t - c->pad[1],
                               v + (b * tiles + (r - begin) * j->across + t) * LANES, step);
        }
}

/* M (16, LANES) of one tile, `step` floats apart, to the results at (y, x) of a block. */
static void finish_tile(const layout_conv *c, const float *m, int64_t step, vfloat bias, int64_t plane, int64_t y,
                        int64_t x)
{
    vfloat s[8];
    UNROLL4 for (int j = 0; j < 4; j++)
    {
        const vfloat m0 = vector_load(m + j * step), m1 = vector_load(m + (4 + j) * step),
                     m2 = vector_load(m + (8 + j) * step), m3 = vector_load(m + (12 + j) * step);
        s[j] = m0 + m1 + m2, s[4 + j] = m1 - m2 - m3;
    }
    for (int64_t i = 0; i < 2 && y + i < c->out_height; i++) {
        const vfloat *r = s + 4 * i;
        const vfloat pair[2] = {r[0] + r[1] + r[2] + bias, r[1] - r[2] - r[3] + bias};
        for (int64_t k = 0; k < 2 && x + k < c->out_width; k++) {
            const int64_t at = ((plane * c->out_height + y + i) * c->out_width + x + k) * LANES;
            const vfloat value = c->add ? pair[k] + vector_load(c->add + at) : pair[k];
            vector_store(c->y + at, layout_limit(&c->finish, value));
        }
    }
}

static void finish_strip(const job *j, int64_t begin, int64_t end, int64_t block, int64_t vectors, const float *m)
{
    const layout_conv *c = j->c;
    const int64_t tiles = (end - begin) * j->across, step = m_step(tiles);
    for (int64_t k = 0; k < vectors; k++) {
        const int64_t channel = (block + k) * LANES;
        const vfloat bias = c->bias ? vector_load_part(c->bias + channel, c->channels - channel) : (vfloat){0};
        for (int64_t i = 0; i < tiles; i++) {
            const int64_t r = begin + i / j->across;
            finish_tile(c, m + (k * tiles + i) * LANES, step, bias, r / j->down * c->out_blocks + block + k,
                        r % j->down * 2, i % j->across * 2);
        }
    }
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* One of the 16 products: v (blocks, tiles, LANES) times u (vectors, blocks, LANES, LANES). */
static void multiply(const layout_conv *c, int64_t tiles, int64_t vectors, const float *v, const float *u,
                     const float *next_u, float *m)
{
    static const float none[LINE_VECTORS * LANES];
    static const layout_finish as_it_is;
    const layout_line line = {.x = v,
                              .blocks = c->blocks,
                              .x_block = tiles * LANES,
                              .w = u,
                              .w_block = c->blocks * LANES * LANES,
                              .bias = none,
                              .y = m,
                              .y_block = tiles * LANES,
                              .finish = &as_it_is};
    layout_run_line(&line, vectors, tiles, next_u);
}

static void run_part(void *arg, int part, int parts)
{
    const job *j = arg;
    const layout_conv *c = j->c;
    const int64_t total = j->strips * j->groups, first = total * part / parts, last = total * (part + 1) / parts;
    float *v = j->room + part * (j->v + j->m), *m = v + j->v;
    int64_t open = -1, begin = 0, end = 0;
    for (int64_t i = first; i < last && !mx_stop_wanted(); i++) {
        const int64_t group = i % j->groups, block = 2 * group, vectors = line_vectors(c->out_blocks, group);
        if (i / j->groups != open) {
            open = i / j->groups;
            begin = open * j->rows, end = least(begin + j->rows, c->batch * j->down);
            transform_strip(j, begin, end, v);
        }
        const int64_t tiles = (end - begin) * j->across;
        const int64_t w_block = c->blocks * LANES * LANES;
        for (int64_t k = 0; k < 16; k++) {
            const float *u = c->w + (k * c->out_blocks + block) * w_block;
            const float *next = k < 15                  ? u + c->out_blocks * w_block
                                : group + 1 < j->groups ? c->w + (block + vectors) * w_block
                                                        : NULL;
            multiply(c, tiles, vectors, v + k * v_step(c, tiles), u, next, m + k * m_step(tiles));
        }
        finish_strip(j, begin, end, block, vectors, m);
    }
}

/* ---- strips ------------------------------------------------------------------------------------------------------ */

/* Tile rows of a strip: about STRIP_BYTES, with the work balanced over the threads. */
static void choose_strips(job *j, int64_t threads)
{
    const int64_t rows = j->c->batch * j->down, row = 16 * j->c->blocks * j->across * LANES * (int64_t)sizeof(float);
    int64_t most = STRIP_BYTES / row, best = 0;
    if (rows * row <= 2 * STRIP_BYTES && j->groups % threads == 0)
        most = rows; /* threads share the strip */
    most = most < 1 ? 1 : least(most, rows);
    double least_cost = 0;
    for (int64_t n = most; n >= 1 && n * 4 >= most; n--) {
        const double jobs = (double)up(up(rows, n) * j->groups, threads);
        const double cost = jobs * ((double)n + 0.1); /* every strip reads the weights again */
        if (!best || cost < 0.99 * least_cost)
            best = n, least_cost = cost;
    }
    j->rows = best;
    j->strips = up(rows, best);
}

mx_code layout_winograd(const layout_conv *c)
{
    const int64_t threads = mx_num_threads();
    job j = {.c = c,
             .down = up(c->out_height, 2),
             .across = up(c->out_width, 2),
             .groups = line_groups(c->out_blocks)};
    choose_strips(&j, threads);
    j.v = 16 * v_step(c, j.rows * j.across), j.m = 16 * m_step(j.rows * j.across);
    j.parts = least(threads, j.strips * j.groups);
    const size_t bytes = (size_t)(j.parts * (j.v + j.m)) * sizeof(float);
    if (!(j.room = mx_alloc(bytes)))
        return MX_ERR_MEMORY;
    mx_parallel_parts((int)j.parts, run_part, &j);
    mx_free(j.room, bytes);
    return MX_OK;
}
