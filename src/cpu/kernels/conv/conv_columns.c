/* Convolution through columns: for small images, where lines are shorter than vectors.
 *
 * Forward: the sources of every kernel element are copied side by side, one row of all result positions per
 * k = (channel, tap), and the result is a matrix product with lanes full of positions:
 *
 *     column[k][p] = x[c, p * stride - pad + tap * dilate]           y[t][p] = sum over k of  w[t][k] * column[k][p]
 *
 * Data gradient: transposed, which needs no products with padding:
 *
 *     column[k][p] = sum over t of  w[t][k] * dy[t][p]         dx[c, p * stride - pad + tap * dilate] += column[k][p]
 *
 * The columns of an image are stored until all are computed (conv_gather.c), or, if they are large or strided, added
 * to dx block by block.
 *
 * Tasks are (image, group).  Both use the inner loop of conv_pixels.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "base/scratch.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/conv/conv_pixels.h"

#define GATHER_BYTES (512 * 1024) /* most memory for the columns of an image that are stored before gathering */

/* Where a kernel element overlaps the source along an axis: positions [begin, end) of y are inside. */
typedef struct reach {
    int64_t first, begin, end; /* first: source index for position 0 */
} reach;

typedef struct tap_reach {
    reach axis[3];
    int64_t plane;  /* where the first line begins in a source plane, depth 0 of y ... */
    int64_t column; /* ... and in a row of columns */
    bool full;      /* every position is inside */
} tap_reach;

typedef struct columns {
    const conv_job *job;
    const float *source, *w, *bias;
    float *result;
    bool relu;
    bool gradient;
    bool gather;         /* all sums are stored, then gathered line by line */
    bool direct;         /* sums are written directly into the result */
    int64_t positions;   /* of y */
    int64_t vectors;     /* that hold them */
    int64_t row;         /* floats from a column row to the next */
    int64_t sums, terms; /* rows of the product, and over how many terms each sum runs */
    tap_reach *taps;     /* (taps of the kernel) */
    int64_t *offset;     /* (terms) where the rows that are summed begin */
    float *packed;       /* weights (groups, blocks of sums, terms, sums of the block) */
    float *scratch;      /* (parts) summed rows (terms, row), then one block of sums */
    int64_t part_floats;
    int parts;
    void *memory;
    size_t bytes;
} columns;

static int64_t block_count(const columns *r) { return (r->sums + CONV_PIXELS_CHANNELS - 1) / CONV_PIXELS_CHANNELS; }
static int64_t block_begin(const columns *r, int64_t b) { return r->sums * b / block_count(r); }

/* Lines of `count` floats, copied or added; `stride` is that of the source plane's positions. */
typedef struct line_block {
    float *plane, *column; /* first lines */
    int64_t s_plane, s_column, lines, count, stride;
} line_block;

static void copy_lines(const line_block *b)
{
    float *to = b->column, *from = b->plane;
    if (b->stride == 1 && b->count == LANES / 2)
        for (int64_t i = 0; i < b->lines; i++, to += b->s_column, from += b->s_plane)
            half_store(to, half_load(from));
    else
        for (int64_t i = 0; i < b->lines; i++, to += b->s_column, from += b->s_plane)
            conv_copy_strided(to, from, b->count, b->stride);
}

static void add_strided(float *to, const float *from, int64_t count, int64_t stride)
{
    int64_t i = 0;
    if (stride == 1) {
        for (; i + LANES <= count; i += LANES)
            vector_store(to + i, vector_load(to + i) + vector_load(from + i));
        if (i + LANES / 2 <= count) {
            half_store(to + i, half_load(to + i) + half_load(from + i));
            i += LANES / 2;
        }
    }
    for (; i < count; i++)
        to[i * stride] += from[i];
}

static void add_lines(const line_block *b)
{
    float *to = b->plane, *from = b->column;
    if (b->stride == 1 && b->count == LANES / 2)
        for (int64_t i = 0; i < b->lines; i++, to += b->s_plane, from += b->s_column)
            half_store(to, half_load(to) + half_load(from));
    else
        for (int64_t i = 0; i < b->lines; i++, to += b->s_plane, from += b->s_column)
            add_strided(to, from, b->count, b->stride);
}

/* One row of columns for a kernel element: copied from the plane, or added to it. */
static void move_row(const columns *r, const tap_reach *t, float *plane, const int64_t at[3], float *row, bool add)
{
    const mx_conv_shape *s = &r->job->shape;
    const int64_t width = s->out[2];
    if (!add && !t->full)
        memset(row, 0, (size_t)r->positions * sizeof(float));
    for (int64_t i = t->axis[0].begin; i < t->axis[0].end; i++) {
        const line_block b = {.plane = plane + t->plane + i * s->stride[0] * at[0],
                              .column = row + i * s->out[1] * width + t->column,
                              .s_plane = s->stride[1] * at[1], .s_column = width,
                              .lines = t->axis[1].end - t->axis[1].begin, .count = t->axis[2].end - t->axis[2].begin,
                              .stride = s->stride[2] * at[2]};
        (add ? add_lines : copy_lines)(&b);
    }
}

/* Rows [begin, end) of the columns, k = (channel, tap). */
static void move_rows(const columns *r, int64_t begin, int64_t end, float *image, int64_t s_channel,
                      const int64_t at[3], float *rows, bool add)
{
    int64_t channel = begin / r->job->taps, tap = begin % r->job->taps;
    for (int64_t i = begin; i < end; i++, rows += r->row) {
        move_row(r, &r->taps[tap], image + channel * s_channel, at, rows, add);
        if (++tap == r->job->taps) {
            tap = 0;
            channel++;
        }
    }
}

/* One block of results of the forward product. */
static void write_results(const columns *r, int64_t first, int64_t count, const float *sums, float *result)
{
    const conv_job *job = r->job;
    for (int64_t c = 0; c < count; c++) {
        float *to = result + (first + c) * job->result_channel;
        const float *from = sums + c * r->row;
        if (job->result_at[2] == 1)
            for (int64_t p = 0; p < r->positions; p += LANES)
                vector_store_part(to + p, vector_load(from + p), r->positions - p);
        else
            for (int64_t p = 0; p < r->positions; p++)
                to[p * job->result_at[2]] = from[p];
    }
}

/* The products of sums [first, end). */
static void run_sums(const columns *r, int64_t group, int64_t first, int64_t end, const float *rows, float *to,
                     int64_t s_to)
{
    conv_pixels_sum[end - first](rows, r->offset, r->terms, r->packed + (group * r->sums + first) * r->terms,
                                 r->bias ? r->bias + group * r->sums + first : conv_pixels_zero,
                                 r->relu ? 0 : -INFINITY, to, s_to, r->vectors);
}

static void run_task(const columns *r, int64_t task, float *rows)
{
    const conv_job *job = r->job;
    const int64_t group = task % job->groups, image = task / job->groups;
    const float *source = r->source + image * job->source_image + group * job->from * job->source_channel;
    float *result = r->result + image * job->result_image + group * job->to * job->result_channel;
    float *sums = rows + r->terms * r->row;
    if (r->gradient) {
        for (int64_t f = 0; f < job->from; f++)
            conv_copy_strided(rows + f * r->row, source + f * job->source_channel, r->positions, job->source_at[2]);
        for (int64_t c = 0; !r->gather && c < job->to; c++)
            for (int64_t i = 0; i < job->shape.in[0] * job->shape.in[1] * job->shape.in[2]; i++)
                result[c * job->result_channel + i * job->result_at[2]] = 0;
    } else {
        move_rows(r, 0, r->terms, (float *)source, job->source_channel, job->source_at, rows, false);
    }
    for (int64_t b = 0; b < block_count(r); b++) {
        const int64_t first = block_begin(r, b), end = block_begin(r, b + 1);
        if (r->direct) {
            run_sums(r, group, first, end, rows, result + first * job->result_channel, job->result_channel);
            continue;
        }
        run_sums(r, group, first, end, rows, sums + (r->gather ? first * r->row : 0), r->row);
        if (r->gather)
            continue;
        if (r->gradient)
            move_rows(r, first, end, result, job->result_channel, job->result_at, sums, true);
        else
            write_results(r, first, end - first, sums, result);
    }
    if (r->gather)
        conv_gather(job, sums, r->row, result);
}

static void run_part(void *arg, int part, int parts)
{
    const columns *r = arg;
    const int64_t tasks = r->job->batch * r->job->groups;
    for (int64_t task = tasks * part / parts; task < tasks * (part + 1) / parts && !mx_stop_wanted(); task++)
        run_task(r, task, r->scratch + part * r->part_floats);
}

static reach reach_of(const mx_conv_shape *s, int i, int64_t tap)
{
    reach r = {tap * s->dilate[i] - s->pad[i], 0, 0};
    r.begin = r.first >= 0 ? 0 : (-r.first + s->stride[i] - 1) / s->stride[i];
    r.begin = r.begin < s->out[i] ? r.begin : s->out[i];
    r.end = s->in[i] - 1 < r.first ? 0 : (s->in[i] - 1 - r.first) / s->stride[i] + 1;
    r.end = r.end < s->out[i] ? r.end : s->out[i];
    r.end = r.end > r.begin ? r.end : r.begin;
    return r;
}

static void fill_taps(const columns *r)
{
    const mx_conv_shape *s = &r->job->shape;
    const int64_t *at = r->gradient ? r->job->result_at : r->job->source_at;
    for (int64_t i = 0; i < r->job->taps; i++) {
        const int64_t line = i / s->kernel[2], k[3] = {line / s->kernel[1], line % s->kernel[1], i % s->kernel[2]};
        tap_reach *t = &r->taps[i];
        t->full = true;
        for (int a = 0; a < 3; a++) {
            t->axis[a] = reach_of(s, a, k[a]);
            t->full = t->full && t->axis[a].end - t->axis[a].begin == s->out[a];
        }
        const reach *y = &t->axis[1], *x = &t->axis[2];
        t->plane = t->axis[0].first * at[0] + (y->first + y->begin * s->stride[1]) * at[1] +
                   (x->first + x->begin * s->stride[2]) * at[2];
        t->column = y->begin * s->out[2] + x->begin;
    }
}

/* Weights as (groups, blocks of sums, terms, sums of the block); k = (channel, tap) is the term or the sum. */
static void pack(const columns *r)
{
    const conv_job *job = r->job;
    float *to = r->packed;
    const int64_t s_channel = r->gradient ? job->w_to : job->w_from, s_other = r->gradient ? job->w_from : job->w_to;
    for (int64_t g = 0; g < job->groups; g++)
        for (int64_t b = 0; b < block_count(r); b++)
            for (int64_t term = 0; term < r->terms; term++)
                for (int64_t sum = block_begin(r, b); sum < block_begin(r, b + 1); sum++) {
                    const int64_t k = r->gradient ? sum : term, other = r->gradient ? term : sum;
                    *to++ = r->w[g * job->w_group + other * s_other + k / job->taps * s_channel +
                                 k % job->taps * job->w_tap];
                }
}

/* The rest of the last vector of a row is summed, too: it must not hold denormals, which are slow. */
static void clear_tails(const columns *r, float *rows)
{
    const int64_t tail = r->vectors * LANES - r->positions;
    for (int64_t term = 0; tail && term < r->terms; term++)
        memset(rows + term * r->row + r->positions, 0, (size_t)tail * sizeof(float));
}

static size_t padded(int64_t bytes) { return ((size_t)bytes + MX_ALIGN - 1) / MX_ALIGN * MX_ALIGN; }

static mx_code open_all(columns *r)
{
    const conv_job *job = r->job;
    const int64_t tasks = job->batch * job->groups;
    r->parts = tasks < mx_num_threads() ? (int)tasks : mx_num_threads();
    r->part_floats = (r->terms + (r->gather ? r->sums : CONV_PIXELS_CHANNELS)) * r->row + 16;
    const size_t offsets = padded(r->terms * (int64_t)sizeof(int64_t));
    const size_t weights = padded(job->groups * r->sums * r->terms * (int64_t)sizeof(float));
    const size_t taps = padded(job->taps * (int64_t)sizeof(tap_reach));
    r->bytes = taps + offsets + weights + padded(r->part_floats * r->parts * (int64_t)sizeof(float));
    char *memory = r->memory = mx_scratch_take(r->bytes);
    if (!memory)
        return conv_scratch_failed("the columns", r->bytes);
    r->taps = (tap_reach *)memory;
    r->offset = (int64_t *)(memory += taps);
    r->packed = (float *)(memory += offsets);
    r->scratch = (float *)(memory + weights);
    for (int64_t i = 0; i < r->terms; i++)
        r->offset[i] = i * r->row;
    for (int part = 0; part < r->parts; part++)
        clear_tails(r, r->scratch + part * r->part_floats);
    fill_taps(r);
    pack(r);
    return MX_OK;
}

/* An odd number of cache lines: rows a multiple of a page apart would push each other out of the first-level cache. */
static int64_t row_floats(int64_t floats)
{
    const int64_t lines = (floats + 15) / 16;
    return (lines | 1) * 16;
}

mx_code conv_columns_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                         float *result)
{
    columns r = {.job = job, .source = source, .w = w, .bias = bias, .relu = relu, .result = result,
                 .gradient = job->gradient, .positions = job->shape.out[0] * job->shape.out[1] * job->shape.out[2]};
    r.vectors = (r.positions + LANES - 1) / LANES;
    r.row = row_floats(r.vectors * LANES);
    r.direct = !job->gradient && job->result_at[2] == 1 && r.positions % LANES == 0;
    r.sums = job->gradient ? job->to * job->taps : job->to;
    r.terms = job->gradient ? job->from : job->from * job->taps;
    r.gather = conv_can_gather(job) && r.sums * r.row * (int64_t)sizeof(float) <= GATHER_BYTES;
    const mx_code code = open_all(&r);
    if (!code)
        mx_parallel_parts(r.parts, run_part, &r);
    mx_scratch_give(r.memory, r.bytes);
    return code;
}
