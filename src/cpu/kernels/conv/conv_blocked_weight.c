/* The blocked weight gradient: output channels as lanes.
 *
 *     dw[o, c, k] = sum over n, p of  dy[n, o, p] * x[n, c, p * stride - pad + k * dilate]
 *
 * Model.  Tasks are (image or two small ones, group, tile of result lines).  A task packs the source lines of its tile
 * (conv_tile.h) and the lines of dy as (blocks, lines, positions, channels of the block).  For every block, kernel row,
 * few channels and few taps the inner loop (conv_micro.h) walks all positions of the tile with its sums in registers.
 * Every slice of the tasks has separate sums, in the packed order of conv_pack.h; they are added in the order of the
 * slices.  Threads share the slices, and if they are few, the blocks of output channels in ranges.
 *
 * Invariant: results are bitwise independent of the number of threads (conv_weight_slices).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/scratch.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/conv/conv_pack.h"
#include "cpu/kernels/conv/conv_tile.h"

#define SMALL_TILE 64                  /* positions of a tile small enough to process two at once */

typedef struct part_scratch {
    conv_tile tile;
    float *dy;              /* (blocks, lines, positions, block) */
    conv_grad_lines *lines; /* (lines of a tile) */
} part_scratch;

typedef struct weight_run {
    const conv_job *job; /* the forward correlation */
    const float *x, *dy;
    conv_weight weight;   /* of one group */
    int64_t group_floats; /* of packed sums */
    int64_t height, tiles;
    int images;          /* of a tile: two small ones share the loads and stores of the sums */
    int64_t *source_tap; /* (taps along the line) offsets into a packed line */
    size_t tap_bytes, dy_bytes, line_bytes;
    int parts;             /* of the thread pool */
    int64_t slices;        /* of the tasks, each with separate sums */
    int64_t ranges;        /* of the blocks of output channels */
    part_scratch *scratch; /* (parts) */
    float *sums;           /* (slices, groups, group_floats) */
    size_t sum_bytes;
} weight_run;

typedef struct span {
    int64_t begin, end;
} span;

/* LANES channels x LANES positions of dy, transposed.  Lines a multiple of a page apart share their cache sets: they
 * are loaded once, not by quarters. */
static void turn_square(const float *dy, int64_t s_channel, int64_t size, float *to)
{
    vfloat v[LANES];
    if (s_channel % 1024) {
        vector_load_turned(v, dy, s_channel);
    } else {
        _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) v[i] = vector_load(dy + i * s_channel);
        vector_transpose(v);
    }
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) vector_store(to + i * size, v[i]);
}

/* At most so many; absent channels are zero. */
static void turn_edge(const float *dy, int64_t s_channel, int64_t channels, int64_t positions, int64_t size, float *to)
{
    vfloat v[LANES];
    for (int64_t i = 0; i < LANES; i++)
        v[i] = i < channels ? vector_load_part(dy + i * s_channel, positions) : (vfloat){0};
    vector_transpose(v);
    for (int64_t i = 0; i < positions && i < LANES; i++)
        vector_store(to + i * size, v[i]);
}

/* Some positions of dy with contiguous channels: channels last. */
static void pack_dy_beside(const float *dy, int64_t s_position, int64_t channels, int64_t positions, int64_t size,
                           float *to)
{
    for (int64_t p = 0; p < positions; p++)
        for (int64_t c = 0; c < size; c += LANES)
            vector_store(to + p * size + c,
                         channels > c ? vector_load_part(dy + p * s_position + c, channels - c) : (vfloat){0});
}

/* One line of dy, (channels, positions) with these strides, as (positions, size). */
static void pack_dy_line(const float *dy, int64_t s_channel, int64_t s_position, int64_t channels, int64_t positions,
                         int64_t size, float *to)
{
    if (s_channel == 1) {
        pack_dy_beside(dy, s_position, channels, positions, size, to);
        return;
    }
    for (int64_t c = 0; c < size; c += LANES)
        for (int64_t p = 0; p < positions; p += LANES) {
            const float *from = dy + c * s_channel + p;
            if (channels - c >= LANES && positions - p >= LANES)
                turn_square(from, s_channel, size, to + p * size + c);
            else
                turn_edge(from, s_channel, channels - c, positions - p, size, to + p * size + c);
        }
}

/* Where the packed dy of a block begins. */
static int64_t dy_block_at(const weight_run *r, int64_t block)
{
    return block * CONV_BLOCK * r->images * r->height * r->job->axis[2].result;
}

/* Lines follow each other without gaps, so those of a tile are packed as one; a second image follows the first. */
static void pack_dy(const weight_run *r, const float *dy, int images, int64_t begin, int64_t end, span blocks,
                    float *to)
{
    const conv_job *job = r->job;
    const int64_t positions = (end - begin) * job->axis[2].result;
    for (int64_t b = blocks.begin; b < blocks.end; b++)
        for (int i = 0; i < images; i++) {
            const int64_t channel = b * CONV_BLOCK, size = conv_block_size(job->to, b);
            pack_dy_line(dy + i * job->result_image + channel * job->result_channel + begin * job->result_at[1],
                         job->result_channel, job->result_at[2], job->to - channel, positions, size,
                         to + dy_block_at(r, b) + i * positions * size);
        }
}

/* The lines of the tile that kernel row `row` reads, each with its line of dy. */
static int64_t lines_of_row(const weight_run *r, const part_scratch *s, int64_t row, int64_t block, int64_t begin)
{
    const int64_t floats = r->job->axis[2].result * conv_block_size(r->job->to, block);
    int64_t count = 0;
    for (int64_t i = 0; i < s->tile.work_count; i++) {
        const conv_work *work = &s->tile.works[i];
        const float *dy = s->dy + dy_block_at(r, block) - begin * floats;
        for (int64_t j = work->first; j < work->first + work->count; j++) {
            const conv_lines *lines = &s->tile.lines[j];
            if (lines->kernel_row != row)
                continue;
            s->lines[count++] = (conv_grad_lines){lines->a, dy + work->line_a * floats};
            if (s->tile.images > 1)
                s->lines[count++] = (conv_grad_lines){lines->b, dy + work->line_b * floats};
        }
    }
    return count;
}

/* The sums of one block and kernel row: tiles of channels x taps. */
static void run_row(const weight_run *r, const part_scratch *s, int64_t lines, int64_t size, float *sums)
{
    const conv_job *job = r->job;
    const int64_t taps = r->weight.taps, width = s->tile.channel;
    for (int64_t t = 0; t < taps; t += CONV_GRAD_TAPS) {
        const int64_t tile_taps = taps - t < CONV_GRAD_TAPS ? taps - t : CONV_GRAD_TAPS;
        int64_t most = CONV_TILE_TAPS / tile_taps;
        most = most < 8 ? most : 8;
        const int64_t steps = (job->from + most - 1) / most;
        for (int64_t i = 0; i < steps; i++) {
            const int64_t c = job->from * i / steps, channels = job->from * (i + 1) / steps - c;
            conv_grad g = {.lines = s->lines, .line_count = lines, .positions = job->axis[2].result,
                           .source_at = c * width, .source_channel = width, .tap = r->source_tap + t,
                           .sum = sums + (c * taps + t) * size, .sum_channel = taps * size};
            conv_grad_table[size / LANES - 1][tile_taps - 1][channels - 1](&g);
        }
    }
}

static void run_task(const weight_run *r, part_scratch *s, int64_t task, span blocks, float *sums)
{
    const conv_job *job = r->job;
    const int64_t t = task % r->tiles, group = task / r->tiles % job->groups;
    const int64_t image = task / r->tiles / job->groups * r->images;
    const int images = image + r->images <= job->batch ? r->images : 1;
    const int64_t lines = job->axis[0].result * job->axis[1].result;
    const int64_t begin = t * r->height, end = begin + r->height < lines ? begin + r->height : lines;
    conv_tile_fill(&s->tile, r->x + image * job->source_image + group * job->from * job->source_channel, images,
                   job->from, begin, end);
    pack_dy(r, r->dy + image * job->result_image + group * job->to * job->result_channel, images, begin, end, blocks,
            s->dy);
    for (int64_t b = blocks.begin; b < blocks.end; b++)
        for (int64_t row = 0; row < r->weight.rows; row++) {
            const int64_t size = conv_block_size(job->to, b), count = lines_of_row(r, s, row, b, begin);
            run_row(r, s, count, size,
                    sums + group * r->group_floats + conv_block_at(&r->weight, b) +
                        row * job->from * r->weight.taps * size);
        }
}

static int64_t task_count(const weight_run *r)
{
    return (r->job->batch + r->images - 1) / r->images * r->job->groups * r->tiles;
}
static int64_t slice_floats(const weight_run *r) { return r->group_floats * r->job->groups; }

static void run_unit(const weight_run *r, part_scratch *s, int64_t slice, int64_t range)
{
    const int64_t tasks = task_count(r), blocks = conv_blocks(r->job->to);
    const span part = {blocks * range / r->ranges, blocks * (range + 1) / r->ranges};
    const int64_t at = conv_block_at(&r->weight, part.begin),
                  end = part.end == blocks ? r->group_floats : conv_block_at(&r->weight, part.end);
    float *sums = r->sums + slice * slice_floats(r);
    for (int64_t g = 0; g < r->job->groups; g++)
        memset(sums + g * r->group_floats + at, 0, (size_t)(end - at) * sizeof(float));
    for (int64_t task = tasks * slice / r->slices; task < tasks * (slice + 1) / r->slices; task++)
        run_task(r, s, task, part, sums);
}

static void run_part(void *arg, int part, int parts)
{
    const weight_run *r = arg;
    const int64_t units = r->slices * r->ranges;
    for (int64_t unit = units * part / parts; unit < units * (part + 1) / parts && !mx_stop_wanted(); unit++)
        run_unit(r, &r->scratch[part], unit / r->ranges, unit % r->ranges);
}

/* Adds the sums of the other slices to those of the first. */
static void add_slices(void *arg, int64_t begin, int64_t end)
{
    const weight_run *r = arg;
    for (int64_t slice = 1; slice < r->slices; slice++) {
        const float *from = r->sums + slice * slice_floats(r);
        for (int64_t i = begin; i < end; i++)
            r->sums[i] += from[i];
    }
}

/* ---- preparation ---------------------------------------------------------------------------------------- */

static mx_code open_part(weight_run *r, part_scratch *s)
{
    const mx_code code = conv_tile_open(&s->tile, r->job, r->images, r->height, r->job->from, false, 0);
    if (code)
        return code;
    s->dy = mx_scratch_take(r->dy_bytes);
    s->lines = s->dy ? mx_scratch_take(r->line_bytes) : NULL;
    return s->lines ? MX_OK : conv_scratch_failed("a tile of the output's gradient", r->dy_bytes + r->line_bytes);
}

static mx_code open_all(weight_run *r)
{
    const conv_axis *axis = &r->job->axis[2];
    r->tap_bytes = (size_t)axis->kernel * sizeof(int64_t);
    r->dy_bytes = (size_t)dy_block_at(r, conv_blocks(r->job->to)) * sizeof(float);
    r->line_bytes = (size_t)(r->images * r->height) * sizeof(conv_grad_lines);
    r->sum_bytes = (size_t)(slice_floats(r) * r->slices) * sizeof(float);
    r->source_tap = mx_scratch_take(r->tap_bytes);
    r->sums = mx_scratch_take(r->sum_bytes);
    r->scratch = mx_scratch_take_zero((size_t)r->parts * sizeof(part_scratch));
    if (!r->source_tap || !r->sums || !r->scratch)
        return conv_scratch_failed("the weight gradient", r->sum_bytes);
    for (int64_t i = 0; i < axis->kernel; i++)
        r->source_tap[i] = axis->phase[i] * axis->length + axis->offset[i];
    mx_code code = MX_OK;
    for (int i = 0; i < r->parts && !code; i++)
        code = open_part(r, &r->scratch[i]);
    return code;
}

static void close_all(weight_run *r)
{
    for (int i = 0; r->scratch && i < r->parts; i++) {
        conv_tile_close(&r->scratch[i].tile);
        mx_scratch_give(r->scratch[i].dy, r->dy_bytes);
        mx_scratch_give(r->scratch[i].lines, r->line_bytes);
    }
    mx_scratch_give(r->scratch, (size_t)r->parts * sizeof(part_scratch));
    mx_scratch_give(r->sums, r->sum_bytes);
    mx_scratch_give(r->source_tap, r->tap_bytes);
}

/* Slices by the shape; ranges and parts by the threads, so that they get equal shares if possible. */
static void choose_sizes(weight_run *r)
{
    const conv_job *job = r->job;
    const int64_t lines = job->axis[0].result * job->axis[1].result, blocks = conv_blocks(job->to);
    const int threads = mx_num_threads();
    r->height = conv_tile_height(job, job->from);
    r->tiles = (lines + r->height - 1) / r->height;
    const int64_t tasks = job->batch * job->groups * r->tiles;
    r->slices = conv_weight_slices(job, tasks, slice_floats(r));
    const bool small = r->height * job->axis[2].result <= SMALL_TILE;
    r->images = small && job->batch > 1 && tasks >= 2 * r->slices ? 2 : 1;
    r->slices = task_count(r) < r->slices ? task_count(r) : r->slices;
    r->ranges = 1;
    while (r->slices * r->ranges % threads && r->slices * r->ranges < 4 * threads && r->ranges < blocks)
        r->ranges++;
    r->parts = r->slices * r->ranges < threads ? (int)(r->slices * r->ranges) : threads;
}

mx_code conv_blocked_weight(const conv_job *job, const float *x, const float *dy, float *dw)
{
    weight_run r = {.job = job, .x = x, .dy = dy,
                    .weight = {job->to, job->from, job->axis[0].kernel * job->axis[1].kernel, job->axis[2].kernel,
                               job->w_to, job->w_from, job->w_tap}};
    r.group_floats = conv_packed_size(&r.weight);
    choose_sizes(&r);
    const mx_code code = open_all(&r);
    if (!code) {
        mx_parallel_parts(r.parts, run_part, &r);
        mx_parallel(slice_floats(&r), MX_GRAIN, add_slices, &r);
        for (int64_t g = 0; g < job->groups; g++)
            conv_unpack_weight(&r.weight, r.sums + g * r.group_floats, dw + g * job->w_group);
    }
    close_all(&r);
    return code;
}
