/* The blocked convolution: forward and data gradient with output channels as lanes.
 *
 * Model.  Weights are packed once (conv_pack.h).  The work is split into tasks (image or pair of images, group, tile of
 * result lines, range of weight blocks).  A task packs the source lines of its tile (conv_tile.h) into a scratch that
 * fits the cache, and runs the inner loop (conv_micro.h) over weight blocks, lines and positions.  Sums too long for
 * the cache are split into chunks of channels, added up in the result.
 *
 * Accepts every shape; it is the last of the lists in conv.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/scratch.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/conv/conv_finish.h"
#include "cpu/kernels/conv/conv_pack.h"
#include "cpu/kernels/conv/conv_tile.h"

#define WEIGHT_BYTES (640 * 1024) /* of the part of a weight block that is multiplied with a packed tile at once */

/* Of the part of it that one pass over the tile uses: a small register tile reads its weights so often that they
 * must stay in the first-level cache. */
#if MX_VECTOR_REGISTERS == 32
#define SLICE_BYTES WEIGHT_BYTES
#else
#define SLICE_BYTES (24 * 1024)
#endif

/* Where the taps of a class along the line fall into padding. */
typedef struct tap_edges {
    bool first, last; /* the first tap at the first position, the last tap at the last position */
} tap_edges;

typedef struct blocked {
    const conv_job *job;
    const float *source, *w, *bias;
    float *result;
    bool relu;
    conv_weight weight;   /* of one group */
    float *packed;        /* weights of all groups */
    int64_t packed_group; /* floats per group */
    size_t packed_bytes;
    int64_t *source_tap; /* (taps of the line axis) offsets into a packed line, classes one after the other ... */
    int64_t *w_tap[2];   /* ... and into a weight block of one and of two vectors */
    tap_edges *edges;    /* (classes) */
    size_t tap_bytes;
    int64_t chunk;         /* source channels summed at once */
    int64_t height, tiles; /* result lines of a tile, tiles of an image */
    int64_t ranges;        /* parts into which the weight blocks are split */
    bool pairs;            /* lines are short: run two at once ... */
    int images;            /* ... and take them from so many images, 1 or 2 */
    conv_tile *scratch;    /* one per part */
    int parts;
} blocked;

/* What is constant over the positions of one class of a line, or of a pair of lines. */
typedef struct piece {
    int64_t vectors;        /* of channels of the weight block */
    int64_t count;          /* positions of the class */
    int64_t source_at;      /* floats from a line to the first channel of the slice */
    bool first, last;       /* the first tap of the first position, the last one of the last, is padding */
    float *sums_a, *sums_b; /* of the first position, in each line */
    conv_micro micro;
} piece;

/* Runs one inner tile, `half` positions from a on and as many from b on; they may overlap. */
static void run_positions(piece *p, int64_t a, int64_t b, int64_t half)
{
    conv_micro *m = &p->micro;
    m->at_a = p->source_at + a, m->at_b = p->source_at + b;
    m->sum_a = p->sums_a + a * m->sum_step, m->sum_b = p->sums_b + b * m->sum_step;
    m->first_a = p->first && a == 0, m->first_b = p->first && b == 0;
    m->last_a = p->last && a + half == p->count, m->last_b = p->last && b + half == p->count;
    conv_micro_table[p->vectors - 1][m->taps <= CONV_MICRO_TAPS ? m->taps : 0][half](m);
}

/* Two lines side by side: the halves are at the same position of each. */
static void run_pair(piece *p)
{
    const int64_t most = p->vectors == 1 ? CONV_HALF_ONE : CONV_HALF_TWO, steps = (p->count + most - 1) / most;
    for (int64_t i = 0; i < steps; i++) {
        const int64_t at = p->count * i / steps;
        run_positions(p, at, at, p->count * (i + 1) / steps - at);
    }
}

/* One line: the halves of a tile follow each other, overlapping by one at the end of a line of odd length. */
static void run_single(piece *p)
{
    const int64_t most = p->vectors == 1 ? CONV_HALF_ONE : CONV_HALF_TWO;
    const int64_t units = (p->count + 1) / 2, steps = (units + most - 1) / most;
    for (int64_t i = 0; i < steps; i++) {
        const int64_t begin = units * i / steps, half = units * (i + 1) / steps - begin, left = p->count - 2 * begin;
        run_positions(p, 2 * begin, 2 * begin + (left < 2 * half ? left - half : half), half);
    }
}

/* One work of a tile with a slice of one weight block: every class of positions along the line.  `sums` are those of
 * the tile, of which `begin` is the first line. */
static void run_work(const blocked *b, piece *p, const conv_work *work, int64_t begin, float *sums)
{
    const conv_axis *axis = &b->job->axis[2];
    const bool pair = work->line_b >= 0;
    const int64_t size = p->vectors * LANES, line_floats = axis->result * size;
    p->micro.sum_step = axis->classes * size;
    for (int64_t c = 0; c < axis->classes; c++) {
        const tap_edges *edges = &b->edges[c];
        p->micro.source_tap = b->source_tap + axis->first[c];
        p->micro.w_tap = b->w_tap[p->vectors - 1] + axis->first[c];
        p->micro.taps = axis->first[c + 1] - axis->first[c];
        p->count = conv_axis_count(axis, c);
        p->first = edges->first, p->last = edges->last;
        p->sums_a = sums + (work->line_a - begin) * line_floats + c * size;
        p->sums_b = pair ? sums + (work->line_b - begin) * line_floats + c * size : p->sums_a;
        (pair ? run_pair : run_single)(p);
    }
}

/* One weight block for a filled tile; `at` is the first source channel of the chunk, `count` its size, `image` the
 * result. */
static void run_block(const blocked *b, const conv_tile *tile, int64_t group, int64_t block, int64_t at, int64_t count,
                      float *image)
{
    const conv_job *job = b->job;
    const int64_t channel = block * CONV_BLOCK, left = job->to - channel, width = job->axis[2].result;
    const int64_t size = conv_block_size(job->to, block), taps = b->weight.taps;
    const int64_t bytes = count * b->weight.rows * taps * size * (int64_t)sizeof(float) / job->axis[2].classes;
    const int64_t slices = (bytes - 1) / SLICE_BYTES + 1;
    const float *w = b->packed + group * b->packed_group + conv_block_at(&b->weight, block);
    const conv_write write = {
        .bias = b->bias && !at ? b->bias + group * job->to + channel : NULL, .add = at > 0,
        .relu = b->relu && at + count == job->from, .size = size, .channels = left < size ? left : size,
        .s_channel = job->result_channel, .s_position = job->result_at[2]};
    piece p = {.vectors = size / LANES, .micro = {.source_channel = tile->channel, .w_row = job->from * taps * size,
                                                  .w_from = taps * size}};
    float *result = image + channel * job->result_channel;
    for (int64_t s = 0; s < slices; s++) {
        const int64_t first = count * s / slices;
        p.micro.from = count * (s + 1) / slices - first;
        p.micro.w = w + (at + first) * taps * size;
        p.micro.add = s > 0;
        p.source_at = first * tile->channel;
        for (int64_t i = 0; i < tile->work_count; i++) {
            const conv_work *work = &tile->works[i];
            p.micro.lines = tile->lines + work->first;
            p.micro.line_count = work->count;
            if (s == slices - 1)
                conv_prefetch_result(&write, width, result + work->line_a * job->result_at[1]);
            run_work(b, &p, work, tile->begin, tile->extra);
        }
    }
    const int64_t positions = (tile->end - tile->begin) * width;
    for (int i = 0; i < tile->images; i++)
        conv_finish(&write, tile->extra + i * positions * size, positions,
                    result + i * job->result_image + tile->begin * job->result_at[1]);
}

static void run_task(const blocked *b, conv_tile *tile, int64_t task)
{
    const conv_job *job = b->job;
    const int64_t range = task % b->ranges, t = task / b->ranges % b->tiles, blocks = conv_blocks(job->to);
    const int64_t group = task / b->ranges / b->tiles % job->groups;
    const int64_t image = task / b->ranges / b->tiles / job->groups * b->images;
    const int images = image + b->images <= job->batch ? b->images : 1;
    const int64_t lines = job->axis[0].result * job->axis[1].result;
    const int64_t begin = t * b->height, end = begin + b->height < lines ? begin + b->height : lines;
    const float *source = b->source + image * job->source_image + group * job->from * job->source_channel;
    float *result = b->result + image * job->result_image + group * job->to * job->result_channel;
    for (int64_t at = 0; at < job->from; at += b->chunk) {
        const int64_t count = job->from - at < b->chunk ? job->from - at : b->chunk;
        conv_tile_fill(tile, source + at * job->source_channel, images, count, begin, end);
        for (int64_t i = blocks * range / b->ranges; i < blocks * (range + 1) / b->ranges; i++)
            run_block(b, tile, group, i, at, count, result);
    }
}

static int64_t task_count(const blocked *b)
{
    return (b->job->batch + b->images - 1) / b->images * b->job->groups * b->tiles * b->ranges;
}

static void run_part(void *arg, int part, int parts)
{
    const blocked *b = arg;
    const int64_t tasks = task_count(b);
    for (int64_t task = tasks * part / parts; task < tasks * (part + 1) / parts && !mx_stop_wanted(); task++)
        run_task(b, &b->scratch[part], task);
}

/* ---- preparation ---------------------------------------------------------------------------------------- */

/* Splits the work: into tiles by cache size, and by weight blocks, too, if there are few tiles for the threads. */
static void choose_sizes(blocked *b)
{
    const conv_job *job = b->job;
    const int64_t block = job->taps * CONV_BLOCK * (int64_t)sizeof(float);
    const int64_t chunks = (job->from * block - 1) / WEIGHT_BYTES + 1;
    const int64_t blocks = conv_blocks(job->to), lines = job->axis[0].result * job->axis[1].result;
    b->chunk = (job->from + chunks - 1) / chunks;
    b->height = conv_tile_height(job, b->chunk);
    b->tiles = (lines + b->height - 1) / b->height;
    b->ranges = 1;
    const int64_t positions = conv_axis_count(&job->axis[2], 0);
    const int64_t most = job->to <= LANES ? CONV_HALF_ONE : CONV_HALF_TWO;
    b->pairs = positions <= most || (positions % 2 && positions < 2 * most + 2); /* an odd line wastes half a pair */
    b->parts = mx_num_threads();
    b->images = b->pairs && job->batch * job->groups * b->tiles >= 2 * b->parts && job->batch > 1 ? 2 : 1;
    const int64_t tasks = task_count(b);
    if (tasks % b->parts && tasks < 4 * b->parts)
        b->ranges = blocks < b->parts ? blocks : b->parts;
    b->parts = task_count(b) < b->parts ? (int)task_count(b) : b->parts;
}

/* The taps of every class in the order of the source positions that they read. */
static mx_code fill_taps(blocked *b)
{
    const conv_axis *axis = &b->job->axis[2];
    const size_t tables = (size_t)axis->kernel * 3 * sizeof(int64_t);
    b->tap_bytes = tables + (size_t)axis->classes * sizeof(tap_edges);
    b->source_tap = mx_scratch_take(b->tap_bytes);
    if (!b->source_tap)
        return conv_scratch_failed("the tap table", b->tap_bytes);
    b->w_tap[0] = b->source_tap + axis->kernel;
    b->w_tap[1] = b->w_tap[0] + axis->kernel;
    b->edges = (tap_edges *)(b->w_tap[1] + axis->kernel);
    for (int64_t c = 0; c < axis->classes; c++) {
        const int64_t first = axis->first[c], end = axis->first[c + 1], count = conv_axis_count(axis, c);
        b->edges[c] = (tap_edges){false, false};
        for (int64_t i = first; i < end; i++) {
            const int64_t from = b->job->gradient ? first + end - 1 - i : i, phase = axis->phase[from];
            b->source_tap[i] = phase * axis->length + axis->offset[from];
            b->w_tap[0][i] = axis->tap[from] * LANES;
            b->w_tap[1][i] = axis->tap[from] * CONV_BLOCK;
            if (i == first)
                b->edges[c].first = axis->offset[from] < axis->begin[phase];
            if (i == end - 1)
                b->edges[c].last = axis->offset[from] + count > axis->end[phase];
        }
    }
    return MX_OK;
}

static mx_code pack_weights(blocked *b)
{
    const conv_job *job = b->job;
    b->weight = (conv_weight){job->to, job->from, job->axis[0].kernel * job->axis[1].kernel, job->axis[2].kernel,
                              job->w_to, job->w_from, job->w_tap};
    b->packed_group = conv_packed_size(&b->weight);
    b->packed_bytes = (size_t)(b->packed_group * job->groups) * sizeof(float);
    b->packed = mx_scratch_take(b->packed_bytes);
    if (!b->packed)
        return conv_scratch_failed("the packed weight", b->packed_bytes);
    for (int64_t g = 0; g < job->groups; g++)
        conv_pack_weight(&b->weight, b->w + g * job->w_group, b->packed + g * b->packed_group);
    return MX_OK;
}

static mx_code open_scratch(blocked *b)
{
    const size_t bytes = (size_t)b->parts * sizeof(conv_tile);
    b->scratch = mx_scratch_take_zero(bytes);
    if (!b->scratch)
        return conv_scratch_failed("the tile list", bytes);
    const int64_t sums = (b->images * b->height * b->job->axis[2].result + LANES) * CONV_BLOCK;
    for (int i = 0; i < b->parts; i++) {
        const mx_code code = conv_tile_open(&b->scratch[i], b->job, b->images, b->height, b->chunk, b->pairs, sums);
        if (code)
            return code;
    }
    return MX_OK;
}

static void close_all(blocked *b)
{
    for (int i = 0; b->scratch && i < b->parts; i++)
        conv_tile_close(&b->scratch[i]);
    mx_scratch_give(b->scratch, (size_t)b->parts * sizeof(conv_tile));
    mx_scratch_give(b->source_tap, b->tap_bytes);
    mx_scratch_give(b->packed, b->packed_bytes);
}

mx_code conv_blocked_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                         float *result)
{
    blocked b = {.job = job, .source = source, .w = w, .bias = bias, .relu = relu, .result = result};
    choose_sizes(&b);
    mx_code code = fill_taps(&b);
    if (!code)
        code = pack_weights(&b);
    if (!code)
        code = open_scratch(&b);
    if (!code)
        mx_parallel_parts(b.parts, run_part, &b);
    close_all(&b);
    return code;
}
