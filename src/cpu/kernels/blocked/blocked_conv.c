/* Convolution over blocked channels: strips of rows, packed once, times groups of output blocks.
 *
 *     job = (strip, group)      strip: some output rows of one image, or several images
 *                               group: LAYOUT_VECTORS output blocks
 *
 * Threads take runs of neighbouring jobs.  A strip's source stays in the second-level cache while the groups of a run
 * use it.  If there is padding, the strip's source is first copied into a frame of zeros; rows entirely inside the
 * padding are skipped.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/blocked/blocked.h"

#define STRIP_BYTES (256 << 10) /* of the source that a strip should have */
#define SLICE_BYTES \
    (16 << 10) /* of the weights: small tiles read them so often that they must be in the first-level cache */

typedef struct job {
    const layout_conv *c;
    int64_t inner;         /* floats of a source pixel: LANES; unblocked: 1 */
    int64_t height, width; /* of the result */
    bool packs;            /* the source is copied */
    int64_t pack_width;    /* pixels of a packed row */
    int64_t pack_rows;     /* most packed rows of an image's part */
    int64_t images, rows;  /* of a strip: complete images, or rows of one image */
    int64_t strips, groups;
    int64_t slices; /* of the input blocks: the sums of one are stored before the next one begins */
    int64_t parts;
    const layout_tile_fn (*tiles)[LAYOUT_SIZES + 1]; /* [vectors - 1][size] */
    int64_t *at;                                     /* unblocked source: where the taps are */
    float *room;                                     /* (parts, pack_bytes) */
    int64_t room_floats;                             /* of a part */
} job;

static int64_t up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static int64_t rows_for(const job *j, int64_t rows) /* source rows of `rows` result rows */
{
    return (rows - 1) * j->c->stride[0] + (j->c->kernel[0] - 1) * j->c->dilate[0] + 1;
}

static int64_t strip_bytes(const job *j, int64_t rows)
{
    return rows_for(j, rows) * most(j->pack_width, 1) * j->c->blocks * j->inner * 4;
}

static int64_t weight_bytes(const job *j) /* of a group of output blocks, per input block */
{
    return LAYOUT_VECTORS * j->c->kernel[0] * j->c->kernel[1] * j->inner * LANES * 4;
}

/* Rows of a strip: about STRIP_BYTES of source, with the work balanced over the threads. */
static void choose_strips(job *j, int64_t threads)
{
    const layout_conv *c = j->c;
    const int64_t image = strip_bytes(j, j->height);
    if (image * 2 <= STRIP_BYTES && c->batch >= 2 * threads) { /* several images */
        j->images = least(STRIP_BYTES / most(image, 1), up(c->batch, threads));
        j->rows = j->height;
        j->strips = up(c->batch, j->images);
        return;
    }
    int64_t base = 1, best = 0;
    while (base < j->height && strip_bytes(j, up(j->height, base)) > STRIP_BYTES)
        base++;
    double least_cost = 0;
    for (int64_t n = base; n <= j->height && n <= base + 2 * threads; n++) {
        const int64_t rows = up(j->height, n), strips = up(j->height, rows);
        const double jobs = (double)up(c->batch * strips * j->groups, threads);
        const double cost = jobs * ((double)rows + 0.02 * (double)rows_for(j, rows) + 0.05);
        if (!best || cost < 0.995 * least_cost)
            best = rows, least_cost = cost;
    }
    j->images = 1;
    j->rows = best ? best : 1;
    j->strips = c->batch * up(j->height, j->rows);
}

static void choose_sizes(job *j)
{
    const layout_conv *c = j->c;
    const bool pads = c->pad[0] || c->pad[1];
    j->inner = c->plain ? 1 : LANES;
    j->tiles = layout_tile_table[c->plain][least(c->stride[1], LAYOUT_STRIDES) - 1];
    j->height = c->out_height, j->width = c->out_width;
    j->packs = pads;
    j->pack_width = pads ? (j->width - 1) * c->stride[1] + (c->kernel[1] - 1) * c->dilate[1] + 1 : c->width;
    j->groups = up(c->out_blocks, LAYOUT_VECTORS);
    j->slices = LAYOUT_RUN > 1 ? 1 : least(c->blocks, up(c->blocks * weight_bytes(j), SLICE_BYTES));
    choose_strips(j, mx_num_threads());
    j->pack_rows = rows_for(j, j->rows);
    j->room_floats = j->packs ? j->images * c->blocks * j->pack_rows * j->pack_width * j->inner : 0;
    j->parts = least(mx_num_threads(), j->strips * j->groups);
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* One row of the source with zeros on both sides. */
static void pack_row(const job *j, const float *from, float *to)
{
    const int64_t left = least(j->c->pad[1], j->pack_width), inner = j->inner;
    const int64_t middle = least(j->c->width, j->pack_width - left), right = j->pack_width - left - middle;
    memset(to, 0, (size_t)(left * inner) * sizeof *to);
    memcpy(to + left * inner, from, (size_t)(middle * inner) * sizeof *to);
    memset(to + (left + middle) * inner, 0, (size_t)(right * inner) * sizeof *to);
}

/* The source of result rows [row, row + rows) of one image: (blocks, pack_rows, pack_width, inner). */
static void pack_image(const job *j, int64_t n, int64_t row, int64_t rows, float *to)
{
    const layout_conv *c = j->c;
    const int64_t first = row * c->stride[0] - c->pad[0], count = rows_for(j, rows), line = j->pack_width * j->inner;
    for (int64_t b = 0; b < c->blocks; b++) {
        const float *plane = c->x + (n * c->blocks + b) * j->c->height * j->c->width * j->inner;
        for (int64_t r = 0; r < count; r++) {
            float *target = to + (b * j->pack_rows + r) * line;
            if (first + r >= 0 && first + r < j->c->height)
                pack_row(j, plane + (first + r) * j->c->width * j->inner, target);
            else
                memset(target, 0, (size_t)line * sizeof *target);
        }
    }
}

/* ---- tiles ------------------------------------------------------------------------------------------------------- */

typedef struct strip {
    int64_t n, images;               /* of the batch */
    int64_t row, rows;               /* of the result, per image */
    const float *x;                  /* source of the first result row's first kernel row, of image n */
    int64_t x_image, x_block, x_row; /* strides; x_row: one source row */
} strip;

/* Kernel rows that overlap the source at result row y: [*first, *end). */
static void kernel_rows(const layout_conv *c, int64_t y, int64_t *first, int64_t *end)
{
    const int64_t top = y * c->stride[0] - c->pad[0], d = c->dilate[0];
    *first = top >= 0 ? 0 : least(up(-top, d), c->kernel[0]);
    *end = most(*first, least(c->kernel[0], top >= c->height ? 0 : up(c->height - top, d)));
}

typedef struct place { /* of the first pixel of a run */
    int64_t n, y, x;
} place;

static int64_t source_of(const job *j, const strip *s, const place *p)
{
    return (p->n - s->n) * s->x_image + (p->y - s->row) * j->c->stride[0] * s->x_row +
           p->x * j->c->stride[1] * j->inner;
}

static int64_t result_of(const job *j, const place *p)
{
    return ((p->n * j->c->out_blocks * j->height + p->y) * j->width + p->x) * LANES;
}

/* The pixels of one tile. */
typedef struct pixels {
    int64_t size;      /* as in the table */
    place first, last; /* runs */
    int64_t from[LAYOUT_RUNS], to[LAYOUT_RUNS];
} pixels;

/* The output blocks of a job and the input blocks that are summed. */
typedef struct group {
    int64_t block, vectors;
    int64_t begin, end; /* input blocks */
    float bias[LAYOUT_VECTORS * LANES];
} group;

static int64_t tap_count(const layout_conv *c) { return c->blocks * c->kernel[0] * c->kernel[1]; }

/* What the tiles of a job share; the kernel rows are all of them. */
static layout_tile tile_of(const job *j, const strip *s, const group *g)
{
    static const layout_finish as_it_is;
    const layout_conv *c = j->c;
    const int64_t w_all = c->kernel[0] * c->kernel[1] * j->inner * LANES, plane = j->height * j->width * LANES;
    const float *add = g->begin ? c->y : c->add; /* the sums of earlier blocks, which contain the addend */
    return (layout_tile){.x = s->x + g->begin * s->x_block,
                         .blocks = g->end - g->begin,
                         .rows = c->kernel[0],
                         .taps = c->plain ? tap_count(c) : c->kernel[1],
                         .at = j->at,
                         .x_block = s->x_block,
                         .x_row = c->dilate[0] * s->x_row,
                         .x_tap = c->dilate[1] * j->inner,
                         .x_pixel = c->stride[1] * j->inner,
                         .w = c->w + (g->block * c->blocks + g->begin) * w_all,
                         .w_block = c->blocks * w_all,
                         .bias = g->bias,
                         .y = c->y + g->block * plane,
                         .add = add ? add + g->block * plane : NULL,
                         .y_block = plane,
                         .finish = g->end == c->blocks ? &c->finish : &as_it_is};
}

/* The tile without kernel rows that none of its pixels needs. */
static layout_tile with_rows(const job *j, const layout_tile *t, int64_t first, int64_t end)
{
    const int64_t w_row = j->c->kernel[1] * j->inner * LANES;
    layout_tile part = *t;
    part.x += first * t->x_row, part.w += first * w_row;
    part.rows = end - first, part.w_skip = (j->c->kernel[0] - part.rows) * w_row;
    return part;
}

static void run_tile(const job *j, const pixels *p, const group *g, layout_tile *t)
{
    const layout_conv *c = j->c;
    const layout_tile_fn run = j->tiles[g->vectors - 1][p->size];
    int64_t first = 0, end = c->kernel[0], first_b, end_b;
    t->from = p->from, t->to = p->to;
    if (j->packs && !c->plain && p->first.n == p->last.n) {
        kernel_rows(c, p->first.y, &first, &end);
        kernel_rows(c, p->last.y, &first_b, &end_b);
        first = least(first, first_b), end = most(end, end_b);
    }
    if (end - first == c->kernel[0]) {
        run(t);
        return;
    }
    const layout_tile part = with_rows(j, t, first, end);
    run(&part);
}

/* ---- pixels in two runs ------------------------------------------------------------------------------------------ */

/* Two runs of `run` pixels. */
static void run_runs(const job *j, const strip *s, const place *a, const place *b, int64_t run, const group *g,
                     layout_tile *t)
{
    run_tile(j,
             &(pixels){.size = run,
                       .first = *a,
                       .last = *b,
                       .from = {source_of(j, s, a), source_of(j, s, b)},
                       .to = {result_of(j, a), result_of(j, b)}},
             g, t);
}

/* `count` neighbouring pixels of a row, at most LAYOUT_PIXELS. */
static void run_neighbours(const job *j, const strip *s, place at, int64_t count, const group *g, layout_tile *t)
{
    const int64_t run = up(count, 2);
    place b = at;
    b.x += count - run;
    run_runs(j, s, &at, &b, run, g, t);
}

static void run_row(const job *j, const strip *s, place at, const group *g, layout_tile *t)
{
    const int64_t tiles = up(j->width, LAYOUT_PIXELS);
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t from = i * j->width / tiles, to = (i + 1) * j->width / tiles;
        at.x = from;
        run_neighbours(j, s, at, to - from, g, t);
    }
}

/* Rows of at most LAYOUT_RUN pixels are taken in pairs, over the rows of all images of the strip. */
static void run_short_rows(const job *j, const strip *s, const group *g, layout_tile *t)
{
    const int64_t total = s->images * s->rows;
    for (int64_t r = 0; r < total; r += 2) {
        const int64_t next = r + 1;
        const place a = {s->n + r / s->rows, s->row + r % s->rows, 0};
        const place b = {s->n + next / s->rows, s->row + next % s->rows, 0};
        if (next < total)
            run_runs(j, s, &a, &b, j->width, g, t);
        else
            run_neighbours(j, s, a, j->width, g, t);
    }
}

static void run_rows(const job *j, const strip *s, const group *g)
{
    layout_tile t = tile_of(j, s, g);
    if (j->width <= LAYOUT_RUN) {
        run_short_rows(j, s, g, &t);
        return;
    }
    for (int64_t i = 0; i < s->images; i++)
        for (int64_t r = 0; r < s->rows; r++)
            run_row(j, s, (place){s->n + i, s->row + r, 0}, g, &t);
}

/* ---- pixels one by one ------------------------------------------------------------------------------------------- */

/* The next `count` pixels of the strip, from `at` on; `at` moves behind them. */
static void take_pixels(const job *j, const strip *s, place *at, int64_t count, pixels *p)
{
    const int64_t step = j->c->stride[1] * j->inner;
    int64_t from = source_of(j, s, at), to = result_of(j, at);
    p->size = count, p->first = *at;
    for (int64_t i = 0; i < count; i++, from += step, to += LANES) {
        p->from[i] = from, p->to[i] = to, p->last = *at;
        if (++at->x < j->width)
            continue;
        at->x = 0;
        if (++at->y == s->row + s->rows)
            at->y = s->row, at->n++;
        from = source_of(j, s, at) - step, to = result_of(j, at) - LANES;
    }
}

/* The weights that the next slice or group needs. */
typedef struct ahead {
    const float *w;
    int64_t blocks, w_block; /* output blocks */
    int64_t lines, share;    /* cache lines of each; those that one tile fetches */
} ahead;

static ahead weights_ahead(const job *j, const group *g, int64_t tiles)
{
    const layout_conv *c = j->c;
    const bool same = g->end < c->blocks; /* output blocks */
    const int64_t block = same ? g->block : g->block + LAYOUT_VECTORS, begin = same ? g->end : 0;
    const int64_t step = c->kernel[0] * c->kernel[1] * j->inner * LANES, line = 64 / sizeof *c->w;
    const int64_t lines = least(up(c->blocks, j->slices), c->blocks - begin) * step / line;
    return (ahead){c->w + (block * c->blocks + begin) * step, least(LAYOUT_VECTORS, c->out_blocks - block), c->blocks * step,
                   lines, up(lines, tiles)};
}

/* While a tile is computed, its share of them comes into the second-level cache: the first tile of a slice would wait for
 * them.  Inline, as gcc drops calls of a function that only prefetches. */
CONV_INLINE void fetch_weights(const ahead *a, int64_t tile)
{
    for (int64_t b = 0; b < a->blocks; b++)
        for (int64_t i = tile * a->share; i < least((tile + 1) * a->share, a->lines); i++)
            __builtin_prefetch(a->w + b * a->w_block + i * (int64_t)(64 / sizeof *a->w), 0, 2);
}

/* All pixels of the strip are one list of tiles of two sizes, a pixel apart: a tile with few pixels would wait for its sums. */
static void run_list(const job *j, const strip *s, const group *g)
{
    const int64_t total = s->images * s->rows * j->width, tiles = up(total, LAYOUT_PIXELS);
    const int64_t size = total / tiles, larger = total % tiles;
    layout_tile t = tile_of(j, s, g);
    const ahead next = weights_ahead(j, g, tiles);
    place at = {s->n, s->row, 0};
    for (int64_t i = 0; i < tiles; i++) {
        pixels p;
        fetch_weights(&next, i);
        take_pixels(j, s, &at, size + (i < larger), &p);
        run_tile(j, &p, g, &t);
    }
}

static void run_job(const job *j, const strip *s, int64_t number)
{
    const layout_conv *c = j->c;
    const int64_t block = number * LAYOUT_VECTORS;
    group g = {.block = block, .vectors = least(LAYOUT_VECTORS, c->out_blocks - block)};
    if (c->bias)
        memcpy(g.bias, c->bias + block * LANES,
               (size_t)least(g.vectors * LANES, c->channels - block * LANES) * sizeof *g.bias);
    for (int64_t i = 0; i < j->slices; i++) {
        g.begin = i * c->blocks / j->slices, g.end = (i + 1) * c->blocks / j->slices;
        if (i)
            memset(g.bias, 0, sizeof g.bias);
        if (LAYOUT_RUN > 1)
            run_rows(j, s, &g);
        else
            run_list(j, s, &g);
    }
}

/* ---- strips ------------------------------------------------------------------------------------------------------ */

static strip find_strip(const job *j, int64_t number)
{
    const int64_t per_image = up(j->height, j->rows);
    strip s = {.n = number / per_image, .images = 1, .row = number % per_image * j->rows};
    if (j->images > 1)
        s.n = number * j->images, s.row = 0, s.images = least(j->images, j->c->batch - s.n);
    s.rows = least(j->rows, j->height - s.row);
    return s;
}

/* Floats to the next source row, and to the next input block. */
static int64_t row_floats(const job *j) { return (j->packs ? j->pack_width : j->c->width) * j->inner; }
static int64_t block_floats(const job *j) { return (j->packs ? j->pack_rows : j->c->height) * row_floats(j); }

static void open_strip(const job *j, strip *s, float *room)
{
    const layout_conv *c = j->c;
    s->x_row = row_floats(j);
    s->x_block = block_floats(j);
    s->x_image = c->blocks * s->x_block;
    s->x = j->packs ? room : c->x + s->n * s->x_image + s->row * c->stride[0] * s->x_row;
    for (int64_t i = 0; j->packs && i < s->images; i++)
        pack_image(j, s->n + i, s->row, s->rows, room + i * s->x_image);
}

static void place_taps(const job *j)
{
    const layout_conv *c = j->c;
    int64_t *at = j->at;
    for (int64_t b = 0; b < c->blocks; b++)
        for (int64_t r = 0; r < c->kernel[0]; r++)
            for (int64_t t = 0; t < c->kernel[1]; t++)
                *at++ = b * block_floats(j) + r * c->dilate[0] * row_floats(j) + t * c->dilate[1];
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
            s = find_strip(j, open);
            open_strip(j, &s, j->room + part * j->room_floats);
        }
        run_job(j, &s, i % j->groups);
    }
}

mx_code layout_convolve(const layout_conv *c)
{
    job j = {.c = c};
    choose_sizes(&j);
    const size_t taps = c->plain ? (size_t)tap_count(c) * sizeof *j.at : 0;
    const size_t bytes = (size_t)(j.parts * j.room_floats) * sizeof(float);
    mx_code code = MX_OK;
    if ((taps && !(j.at = mx_alloc(taps))) || (bytes && !(j.room = mx_alloc(bytes))))
        code = MX_ERR_MEMORY;
    if (taps && !code)
        place_taps(&j);
    if (!code)
        mx_parallel_parts((int)j.parts, run_part, &j);
    mx_free(j.room, bytes);
    mx_free(j.at, taps);
    return code;
}
