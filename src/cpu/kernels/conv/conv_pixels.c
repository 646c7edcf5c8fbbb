/* Forward and data gradient with positions as lanes (model in conv_pixels.h).
 *
 * Tasks are (image, group, tile of rows).  A task packs its planes, then for every class of results and every few
 * result channels walks q: a register tile of channels x vectors sums over all k, is stored in a plane buffer, and
 * copied from there line by line to the result, with bias and relu.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/conv/conv_pixels.h"

#include <math.h>

#include "base/scratch.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/threads.h"

#define UNROLL _Pragma("GCC unroll 32")
#define PLANE_BYTES (512 * 1024) /* packed source of a tile */

/* Sums channels x vectors results from q on: x points at the packed source + q, w holds (k, channels). */
CONV_INLINE void sum_tile(const int channels, const int vectors, const float *x, const int64_t *offset, int64_t count,
                          const float *w, const float *start, float floor, float *to, int64_t s_to)
{
    vfloat sum[25];
    UNROLL for (int i = 0; i < channels * vectors; i++)
        sum[i] = vector_all(start[i / vectors]);
    for (int64_t k = 0; k < count; k++, w += channels) {
        const float *from = x + offset[k];
        vfloat v[10];
        UNROLL for (int i = 0; i < vectors; i++)
            v[i] = vector_load(from + i * LANES);
        UNROLL for (int c = 0; c < channels; c++) {
            const vfloat weight = vector_all(w[c]);
            UNROLL for (int i = 0; i < vectors; i++)
                sum[c * vectors + i] += v[i] * weight;
        }
    }
    UNROLL for (int c = 0; c < channels; c++)
        UNROLL for (int i = 0; i < vectors; i++)
            vector_store(to + c * s_to + i * LANES, vector_max(vector_all(floor), sum[c * vectors + i]));
}

/* All q of a span: full tiles of `most` vectors, then narrower ones for the rest. */
#define SUM_SPAN(channels, most)                                                                                    \
    static void sum_span_##channels(const float *x, const int64_t *offset, int64_t count, const float *w,              \
                                    const float *start, float floor, float *to, int64_t s_to, int64_t vectors)      \
    {                                                                                                               \
        int64_t i = 0;                                                                                              \
        for (; i + most <= vectors; i += most)                                                                      \
            sum_tile(channels, most, x + i * LANES, offset, count, w, start, floor, to + i * LANES, s_to);          \
        for (; i + 2 <= vectors; i += 2)                                                                            \
            sum_tile(channels, 2, x + i * LANES, offset, count, w, start, floor, to + i * LANES, s_to);             \
        for (; i < vectors; i++)                                                                                    \
            sum_tile(channels, 1, x + i * LANES, offset, count, w, start, floor, to + i * LANES, s_to);             \
    }
#if MX_VECTOR_REGISTERS == 32
SUM_SPAN(1, 8) SUM_SPAN(2, 8) SUM_SPAN(3, 7) SUM_SPAN(4, 6) SUM_SPAN(5, 5) SUM_SPAN(6, 4)
#else
SUM_SPAN(1, 6) SUM_SPAN(2, 4) SUM_SPAN(3, 3) SUM_SPAN(4, 3) SUM_SPAN(5, 2) SUM_SPAN(6, 2)
#endif

const float conv_pixels_zero[CONV_PIXELS_CHANNELS] = {0};
const conv_pixels_fn conv_pixels_sum[CONV_PIXELS_CHANNELS + 1] = {NULL,       sum_span_1, sum_span_2, sum_span_3,
                                                                  sum_span_4, sum_span_5, sum_span_6};

/* One class of results: its taps, and its weights as (groups, blocks, k, channels of the block). */
typedef struct result_class {
    int64_t c[3];
    int64_t k;       /* source channels * taps */
    int64_t *offset; /* (k) */
    float *w;
} result_class;

typedef struct pixels {
    conv_planes planes;
    const float *source, *w, *bias;
    float *result;
    bool relu;
    int64_t blocks;     /* of result channels */
    int64_t buffer_row; /* floats per channel of the plane buffer */
    int64_t class_count;
    result_class *classes;
    int parts;
    float *scratch; /* (parts) packed planes, plane buffer */
    int64_t part_floats;
    void *memory; /* owns classes, offsets, weights, scratch */
    size_t bytes;
} pixels;

/* Block b of the result channels: blocks differ by at most one. */
static int64_t block_begin(const pixels *p, int64_t b) { return p->planes.job->to * b / p->blocks; }

/* Rows of `count` neighbouring results from the buffer, whose rows are `length` floats, to lines `s_line` apart. */
static void write_plain(const float *from, int64_t length, int64_t count, int64_t rows, float *to, int64_t s_line)
{
    for (int64_t y = 0; y < rows; y++, from += length, to += s_line) {
        if (count < LANES) {
            vector_store_part(to, vector_load(from), count);
            continue;
        }
        for (int64_t i = 0; i < count; i += LANES) { /* the last vector overlaps the one before */
            const int64_t at = i + LANES <= count ? i : count - LANES;
            vector_store(to + at, vector_load(from + at));
        }
    }
}

/* The same for results that are `step` floats apart. */
static void write_spread(const float *from, int64_t length, int64_t count, int64_t rows, float *to, int64_t s_line,
                         int64_t step)
{
    for (int64_t y = 0; y < rows; y++, from += length, to += s_line)
        for (int64_t i = 0; i < count; i++)
            to[i * step] = from[i];
}

static void write_rows(const pixels *p, const result_class *rc, const float *buffer, int64_t first, int64_t rows,
                       float *result)
{
    const conv_job *job = p->planes.job;
    const conv_axis *d = &job->axis[0], *h = &job->axis[1], *w = &job->axis[2];
    const int64_t count = conv_axis_count(w, rc->c[2]), step = w->classes * job->result_at[2];
    const int64_t s_line = h->classes * job->result_at[1], length = w->length;
    for (int64_t z = 0; z < conv_axis_count(d, rc->c[0]); z++) {
        const int64_t rd = rc->c[0] + z * d->classes, rh = rc->c[1] + first * h->classes;
        float *to = result + rd * job->result_at[0] + rh * job->result_at[1] + rc->c[2] * job->result_at[2];
        const float *from = buffer + z * p->planes.height * length;
        if (step == 1)
            write_plain(from, length, count, rows, to, s_line);
        else
            write_spread(from, length, count, rows, to, s_line, step);
    }
}

static void run_class(const pixels *p, const result_class *rc, int64_t group, int64_t tile, const float *packed,
                      float *buffer, float *result)
{
    const conv_job *job = p->planes.job;
    const int64_t first = tile * p->planes.rows, left = conv_axis_count(&job->axis[1], rc->c[1]) - first;
    const int64_t rows = left < p->planes.rows ? left : p->planes.rows;
    if (rows <= 0)
        return;
    const int64_t vectors = (conv_planes_span(&p->planes, rc->c, rows) + LANES - 1) / LANES;
    const float *w = rc->w + group * job->to * rc->k;
    for (int64_t b = 0; b < p->blocks; b++) {
        const int64_t at = block_begin(p, b), channels = block_begin(p, b + 1) - at;
        conv_pixels_sum[channels](packed, rc->offset, rc->k, w + at * rc->k,
                                  p->bias ? p->bias + group * job->to + at : conv_pixels_zero, p->relu ? 0 : -INFINITY,
                                  buffer, p->buffer_row, vectors);
        for (int64_t c = 0; c < channels; c++)
            write_rows(p, rc, buffer + c * p->buffer_row, first, rows, result + (at + c) * job->result_channel);
    }
}

static void run_part(void *arg, int part, int parts)
{
    const pixels *p = arg;
    const conv_job *job = p->planes.job;
    const int64_t tasks = job->batch * job->groups * p->planes.tiles;
    float *packed = p->scratch + part * p->part_floats, *buffer = packed + p->planes.floats;
    for (int64_t task = tasks * part / parts; task < tasks * (part + 1) / parts && !mx_stop_wanted(); task++) {
        const int64_t tile = task % p->planes.tiles, group = task / p->planes.tiles % job->groups;
        const int64_t image = task / p->planes.tiles / job->groups;
        conv_planes_fill(&p->planes, p->source + image * job->source_image + group * job->from * job->source_channel,
                         tile, packed);
        for (int64_t c = 0; c < p->class_count; c++)
            run_class(p, &p->classes[c], group, tile, packed, buffer,
                      p->result + image * job->result_image + group * job->to * job->result_channel);
    }
}

/* ---- preparation ---------------------------------------------------------------------------------------- */

/* The weights of a class as (groups, blocks, k, channels of the block). */
static void pack_class(const pixels *p, result_class *rc, const int64_t *tap, int64_t taps)
{
    const conv_job *job = p->planes.job;
    float *to = rc->w;
    for (int64_t g = 0; g < job->groups; g++)
        for (int64_t b = 0; b < p->blocks; b++)
            for (int64_t k = 0; k < rc->k; k++) {
                const float *w = p->w + g * job->w_group + k / taps * job->w_from + tap[k % taps] * job->w_tap;
                for (int64_t t = block_begin(p, b); t < block_begin(p, b + 1); t++)
                    *to++ = w[t * job->w_to];
            }
}

static void open_classes(pixels *p, int64_t *offsets, float *weights, int64_t *tap)
{
    const conv_job *job = p->planes.job;
    for (int64_t i = 0; i < p->class_count; i++) {
        result_class *rc = &p->classes[i];
        const int64_t n1 = job->axis[1].classes, n2 = job->axis[2].classes;
        rc->c[0] = i / n2 / n1;
        rc->c[1] = i / n2 % n1;
        rc->c[2] = i % n2;
        rc->offset = offsets;
        rc->w = weights;
        const int64_t taps = conv_planes_offsets(&p->planes, rc->c, rc->offset, tap);
        rc->k = taps * job->from;
        if (taps)
            pack_class(p, rc, tap, taps);
        offsets += rc->k;
        weights += rc->k * job->to * job->groups;
    }
}

static size_t padded(int64_t bytes) { return ((size_t)bytes + MX_ALIGN - 1) / MX_ALIGN * MX_ALIGN; }

static mx_code open_all(pixels *p)
{
    const conv_job *job = p->planes.job;
    const int64_t k = job->from * job->taps, tasks = job->batch * job->groups * p->planes.tiles;
    p->class_count = job->axis[0].classes * job->axis[1].classes * job->axis[2].classes;
    p->blocks = (job->to + CONV_PIXELS_CHANNELS - 1) / CONV_PIXELS_CHANNELS;
    p->parts = tasks < mx_num_threads() ? (int)tasks : mx_num_threads();
    p->buffer_row = p->planes.plane + CONV_PIXELS_SPARE;
    p->part_floats = (p->planes.floats + CONV_PIXELS_CHANNELS * p->buffer_row + 15) / 16 * 16;
    const size_t classes = padded(p->class_count * (int64_t)sizeof(result_class));
    const size_t offsets = padded(k * (int64_t)sizeof(int64_t)), taps = padded(job->taps * (int64_t)sizeof(int64_t));
    const size_t weights = padded(k * job->to * job->groups * (int64_t)sizeof(float));
    p->bytes = classes + offsets + taps + weights + padded(p->part_floats * p->parts * (int64_t)sizeof(float));
    char *memory = p->memory = mx_scratch_take(p->bytes);
    if (!memory)
        return conv_scratch_failed("the packed planes", p->bytes);
    p->classes = (result_class *)memory;
    p->scratch = (float *)(memory + classes + offsets + taps + weights);
    open_classes(p, (int64_t *)(memory + classes), (float *)(memory + classes + offsets + taps),
                 (int64_t *)(memory + classes + offsets));
    return MX_OK;
}

mx_code conv_pixels_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                        float *result)
{
    pixels p = {.source = source, .w = w, .bias = bias, .relu = relu, .result = result};
    conv_planes_init(&p.planes, job, PLANE_BYTES);
    const mx_code code = open_all(&p);
    if (!code)
        mx_parallel_parts(p.parts, run_part, &p);
    mx_scratch_give(p.memory, p.bytes);
    return code;
}
