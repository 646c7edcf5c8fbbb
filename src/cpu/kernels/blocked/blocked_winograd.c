/* Convolution of 3x3 windows by Winograd's minimal filtering: 16 products for 4 results instead of 36.
 *
 *     V = B' d B   16 numbers per tile of 4x4 pixels and channel        B' = ( 1  0 -1  0 |  0  1  1  0 |
 *     M = sum over channels of U V, number by number: 16 products              0 -1  1  0 |  0  1  0 -1 )
 *         of (tiles, C) and (C, O), by the tiles of blocked_tile.h
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
    const int64_t tiles = (end - begin) * j->across, step = c->blocks * tiles * LANES;
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
    const int64_t tiles = (end - begin) * j->across, step = LAYOUT_VECTORS * tiles * LANES;
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
static void multiply(const layout_conv *c, int64_t tiles, int64_t vectors, const float *v, const float *u, float *m)
{
    static const float none[LAYOUT_VECTORS * LANES];
    static const layout_finish as_it_is;
    const int64_t parts = up(tiles, LAYOUT_PIXELS);
    for (int64_t i = 0; i < parts; i++) {
        const int64_t begin = i * tiles / parts, count = (i + 1) * tiles / parts - begin, run = up(count, LAYOUT_RUNS);
        int64_t at[LAYOUT_RUNS];
        for (int64_t r = 0; r < LAYOUT_RUNS; r++)
            at[r] = least(begin + r * run, begin + count - run) * LANES;
        const layout_tile t = {.x = v,
                               .from = at,
                               .blocks = c->blocks,
                               .rows = 1,
                               .taps = 1,
                               .x_block = tiles * LANES,
                               .w = u,
                               .w_block = c->blocks * LANES * LANES,
                               .bias = none,
                               .y = m,
                               .to = at,
                               .y_block = tiles * LANES,
                               .finish = &as_it_is};
        layout_tile_table[0][0][vectors - 1][LAYOUT_RUN > 1 ? run : count](&t);
    }
}

static void run_part(void *arg, int part, int parts)
{
    const job *j = arg;
    const layout_conv *c = j->c;
    const int64_t total = j->strips * j->groups, first = total * part / parts, last = total * (part + 1) / parts;
    float *v = j->room + part * (j->v + j->m), *m = v + j->v;
    int64_t open = -1, begin = 0, end = 0;
    for (int64_t i = first; i < last && !mx_stop_wanted(); i++) {
        const int64_t block = i % j->groups * LAYOUT_VECTORS, vectors = least(LAYOUT_VECTORS, c->out_blocks - block);
        if (i / j->groups != open) {
            open = i / j->groups;
            begin = open * j->rows, end = least(begin + j->rows, c->batch * j->down);
            transform_strip(j, begin, end, v);
        }
        const int64_t tiles = (end - begin) * j->across;
        for (int64_t k = 0; k < 16; k++)
            multiply(c, tiles, vectors, v + k * c->blocks * tiles * LANES,
                     c->w + (k * c->out_blocks + block) * c->blocks * LANES * LANES,
                     m + k * LAYOUT_VECTORS * tiles * LANES);
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
             .groups = up(c->out_blocks, LAYOUT_VECTORS)};
    choose_strips(&j, threads);
    j.v = 16 * c->blocks * j.rows * j.across * LANES, j.m = 16 * LAYOUT_VECTORS * j.rows * j.across * LANES;
    j.parts = least(threads, j.strips * j.groups);
    const size_t bytes = (size_t)(j.parts * (j.v + j.m)) * sizeof(float);
    if (!(j.room = mx_alloc(bytes)))
        return MX_ERR_MEMORY;
    mx_parallel_parts((int)j.parts, run_part, &j);
    mx_free(j.room, bytes);
    return MX_OK;
}
