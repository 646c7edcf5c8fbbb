/* The blocked convolution: forward and data gradient with output channels as lanes.
 *
 * Model.  Weights are packed once (conv_pack.h).  The work is cut into tasks (image, group, tile of result lines, range
 * of weight blocks).  A task packs the source lines of its tile (conv_tile.h) into a scratch that fits the cache, and
 * runs the inner loop (conv_micro.h) over weight blocks, lines and positions.  Sums too long for the cache are cut
 * into chunks of channels, added up in the result.
 *
 * Accepts every shape; it is the last of the lists in conv.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/threads.h"
#include "cpu/kernels/conv_finish.h"
#include "cpu/kernels/conv_pack.h"
#include "cpu/kernels/conv_tile.h"

#define WEIGHT_BYTES (640 * 1024) /* of the part of a weight block that one sum walks through */

#define SUMS (64 * CONV_BLOCK)            /* floats kept for the sums of an inner tile, with spare rows behind them */

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
    size_t tap_bytes;
    int64_t chunk;         /* source channels summed at once */
    int64_t height, tiles; /* result lines of a tile, tiles of an image */
    int64_t ranges;        /* parts into which the weight blocks are cut */
    bool pairs;            /* lines are short: run two at once */
    bool straight;         /* ... and a pair is one vector of positions: sums go straight into the result */
    conv_tile *scratch;    /* one per part */
    int parts;
} blocked;

/* What is fixed while the positions of a line are walked. */
typedef struct piece {
    int64_t size;               /* channels of the weight block */
    float *sums;                /* (positions of an inner tile, size) */
    float *straight;            /* result of a pair of lines that makes up whole vectors, or NULL: no buffer then */
    float *buffer_a, *buffer_b; /* line buffers (conv_finish.h) of the two lines, at the class being walked */
    conv_micro micro;
    conv_write write;
} piece;

/* Runs one inner tile into the line buffers; halves may overlap each other and what came before. */
static void run_positions(piece *p, int64_t half)
{
    const int64_t a = p->micro.at_a, b = p->micro.at_b;
    (p->size == LANES ? conv_micro_one : conv_micro_two)[half](&p->micro, p->sums);
    if (p->straight) {
        conv_finish_square(&p->write, p->sums, p->straight);
    } else if (p->buffer_a == p->buffer_b && b == a + half) {
        conv_collect(&p->write, p->sums, 2 * half, a, p->buffer_a);
    } else {
        conv_collect(&p->write, p->sums, half, a, p->buffer_a);
        conv_collect(&p->write, p->sums + half * p->size, half, b, p->buffer_b);
    }
}

/* Two lines side by side: the halves stand at the same position of each. */
static void run_pair(piece *p, int64_t count)
{
    const int64_t most = p->size == LANES ? CONV_HALF_ONE : CONV_HALF_TWO, steps = (count + most - 1) / most;
    for (int64_t i = 0; i < steps; i++) {
        p->micro.at_a = p->micro.at_b = count * i / steps;
        run_positions(p, count * (i + 1) / steps - p->micro.at_a);
    }
}

/* One line: the halves of a tile follow each other, overlapping by one at the end of a line of odd length. */
static void run_single(piece *p, int64_t count)
{
    const int64_t most = p->size == LANES ? CONV_HALF_ONE : CONV_HALF_TWO;
    const int64_t units = (count + 1) / 2, steps = (units + most - 1) / most;
    for (int64_t i = 0; i < steps; i++) {
        const int64_t begin = units * i / steps, half = units * (i + 1) / steps - begin, left = count - 2 * begin;
        p->micro.at_a = 2 * begin;
        p->micro.at_b = 2 * begin + (left < 2 * half ? left - half : half);
        run_positions(p, half);
    }
}

static float *result_line(const conv_job *job, float *image, int64_t number)
{
    const int64_t height = job->axis[1].result;
    return image + number / height * job->result_at[0] + number % height * job->result_at[1];
}

/* One work of a tile with one weight block: every class of positions along the line, then the line is written. */
static void run_work(const blocked *b, piece *p, const conv_work *work, float *buffer, float *image)
{
    const conv_axis *axis = &b->job->axis[2];
    const bool pair = work->line_b >= 0;
    float *line_a = result_line(b->job, image, work->line_a);
    p->straight = pair && b->straight && p->size == LANES ? line_a : NULL;
    if (p->straight == NULL)
        conv_prefetch_line(&p->write, axis->result, line_a);
    for (int64_t c = 0; c < axis->classes; c++) {
        p->micro.source_tap = b->source_tap + axis->first[c];
        p->micro.w_tap = b->w_tap[p->size > LANES] + axis->first[c];
        p->micro.taps = axis->first[c + 1] - axis->first[c];
        p->buffer_a = buffer + c * p->write.buffer;
        p->buffer_b = p->buffer_a + (pair ? axis->classes * p->write.buffer : 0);
        (pair ? run_pair : run_single)(p, conv_axis_count(axis, c));
    }
    if (p->straight)
        return;
    conv_finish_line(&p->write, buffer, axis->result, line_a);
    if (pair)
        conv_finish_line(&p->write, buffer + axis->classes * p->write.buffer, axis->result,
                         result_line(b->job, image, work->line_b));
}

/* One weight block for a filled tile; `at` is the first source channel of the chunk, `count` its size. */
static void run_block(const blocked *b, const conv_tile *tile, int64_t group, int64_t block, int64_t at, int64_t count,
                      float *image)
{
    const conv_job *job = b->job;
    const conv_axis *axis = &job->axis[2];
    const int64_t channel = block * CONV_BLOCK, left = job->to - channel, positions = conv_axis_count(axis, 0);
    const int64_t size = conv_block_size(job->to, block), taps = b->weight.taps;
    const float *w = b->packed + group * b->packed_group + conv_block_at(&b->weight, block);
    piece p = {
        .size = size, .sums = tile->extra,
        .micro = {.from = count, .source_channel = tile->channel,
                  .w = w + at * taps * size, .w_row = job->from * taps * size, .w_from = taps * size},
        .write = {.bias = b->bias && !at ? b->bias + group * job->to + channel : NULL, .add = at > 0,
                  .relu = b->relu && at + count == job->from, .size = size, .channels = left < size ? left : size,
                  .classes = axis->classes, .row = conv_buffer_row(positions),
                  .buffer = conv_buffer_size(positions, size), .s_channel = job->result_channel,
                  .s_position = job->result_at[2]},
    };
    for (int64_t i = 0; i < tile->work_count; i++) {
        p.micro.lines = tile->lines + tile->works[i].first;
        p.micro.line_count = tile->works[i].count;
        run_work(b, &p, &tile->works[i], tile->extra + SUMS, image + channel * job->result_channel);
    }
}

static void run_task(const blocked *b, conv_tile *tile, int64_t task)
{
    const conv_job *job = b->job;
    const int64_t range = task % b->ranges, t = task / b->ranges % b->tiles, blocks = conv_blocks(job->to);
    const int64_t group = task / b->ranges / b->tiles % job->groups, image = task / b->ranges / b->tiles / job->groups;
    const int64_t lines = job->axis[0].result * job->axis[1].result;
    const int64_t begin = t * b->height, end = begin + b->height < lines ? begin + b->height : lines;
    const float *source = b->source + image * job->source_image + group * job->from * job->source_channel;
    float *result = b->result + image * job->result_image + group * job->to * job->result_channel;
    for (int64_t at = 0; at < job->from; at += b->chunk) {
        const int64_t count = job->from - at < b->chunk ? job->from - at : b->chunk;
        conv_tile_fill(tile, source + at * job->source_channel, count, begin, end);
        for (int64_t i = blocks * range / b->ranges; i < blocks * (range + 1) / b->ranges; i++)
            run_block(b, tile, group, i, at, count, result);
    }
}

static int64_t task_count(const blocked *b) { return b->job->batch * b->job->groups * b->tiles * b->ranges; }

static void run_part(void *arg, int part, int parts)
{
    const blocked *b = arg;
    const int64_t tasks = task_count(b);
    for (int64_t task = tasks * part / parts; task < tasks * (part + 1) / parts; task++)
        run_task(b, &b->scratch[part], task);
}

/* ---- preparation ---------------------------------------------------------------------------------------- */

/* Cuts the work: tiles by cache size, and the weight blocks too when there are few tiles for the threads. */
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
    b->parts = mx_num_threads();
    const int64_t tasks = task_count(b);
    if (tasks % b->parts && tasks < 4 * b->parts)
        b->ranges = blocks < b->parts ? blocks : b->parts;
    b->parts = task_count(b) < b->parts ? (int)task_count(b) : b->parts;
    b->pairs = conv_axis_count(&job->axis[2], 0) <= (job->to <= LANES ? CONV_HALF_ONE : CONV_HALF_TWO);
    b->straight = job->axis[1].classes == 1 && job->axis[2].classes == 1 && job->result_at[2] == 1 &&
                  2 * job->axis[2].result == LANES && LANES / 2 <= CONV_HALF_ONE;
}

static mx_code fill_taps(blocked *b)
{
    const conv_axis *axis = &b->job->axis[2];
    b->tap_bytes = (size_t)axis->kernel * 3 * sizeof(int64_t);
    b->source_tap = mx_alloc(b->tap_bytes);
    if (!b->source_tap)
        return conv_scratch_failed("the tap table", b->tap_bytes);
    b->w_tap[0] = b->source_tap + axis->kernel;
    b->w_tap[1] = b->w_tap[0] + axis->kernel;
    for (int64_t i = 0; i < axis->first[axis->classes]; i++) {
        b->source_tap[i] = axis->phase[i] * axis->length + axis->offset[i];
        b->w_tap[0][i] = axis->tap[i] * LANES;
        b->w_tap[1][i] = axis->tap[i] * CONV_BLOCK;
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
    b->packed = mx_alloc(b->packed_bytes);
    if (!b->packed)
        return conv_scratch_failed("the packed weight", b->packed_bytes);
    for (int64_t g = 0; g < job->groups; g++)
        conv_pack_weight(&b->weight, b->w + g * job->w_group, b->packed + g * b->packed_group);
    return MX_OK;
}

static mx_code open_scratch(blocked *b)
{
    const size_t bytes = (size_t)b->parts * sizeof(conv_tile);
    b->scratch = mx_alloc_zero(bytes);
    if (!b->scratch)
        return conv_scratch_failed("the tile list", bytes);
    const conv_axis *axis = &b->job->axis[2];
    const int64_t buffer = conv_buffer_size(conv_axis_count(axis, 0), CONV_BLOCK) * axis->classes * 2;
    for (int i = 0; i < b->parts; i++) {
        const mx_code code = conv_tile_open(&b->scratch[i], b->job, b->height, b->chunk, b->pairs, SUMS + buffer);
        if (code)
            return code;
    }
    return MX_OK;
}

static void close_all(blocked *b)
{
    for (int i = 0; b->scratch && i < b->parts; i++)
        conv_tile_close(&b->scratch[i]);
    mx_free(b->scratch, (size_t)b->parts * sizeof(conv_tile));
    mx_free(b->source_tap, b->tap_bytes);
    mx_free(b->packed, b->packed_bytes);
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
