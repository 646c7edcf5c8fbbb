/* Filling tiles (model in conv_tile.h).  SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/conv/conv_tile.h"

#include "base/scratch.h"

#define TILE_BYTES (240 * 1024) /* packed source lines of a tile; leaves room for a weight block in a 1 MB cache */

#define AHEAD 3                 /* channels between prefetching a line and copying it */

static size_t padded(int64_t bytes) { return ((size_t)bytes + MX_ALIGN - 1) / MX_ALIGN * MX_ALIGN; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t conv_tile_height(const conv_job *job, int64_t channels)
{
    const conv_axis *h = &job->axis[1], *w = &job->axis[2];
    const int64_t line = channels * w->phases * w->length * (int64_t)sizeof(float);
    const int64_t fit = TILE_BYTES / larger(line, 1) - h->kernel + 1; /* source lines less the halo ... */
    const int64_t lines = larger(4, fit * h->classes / h->phases);    /* ... as result lines */
    const int64_t all = job->axis[0].result * h->result;
    const int64_t tiles = (all + lines - 1) / lines;
    return (all + tiles - 1) / tiles; /* tiles of equal height */
}

/* Whether every tap of every result is inside the source, lines need no rearranging and an image fits the cache. */
static bool fits_in_place(const conv_job *job, int64_t channels)
{
    const conv_axis *w = &job->axis[2];
    const int64_t *pad = job->shape.pad;
    const int64_t image = channels * job->source_channel * (int64_t)sizeof(float);
    return !job->gradient && !pad[0] && !pad[1] && !pad[2] && w->step == 1 && w->length <= w->source &&
           job->source_at[2] == 1 && image <= TILE_BYTES;
}

mx_code conv_tile_open(conv_tile *t, const conv_job *job, int images, int64_t capacity, int64_t channels, bool pairs,
                       int64_t extra)
{
    const conv_axis *d = &job->axis[0], *h = &job->axis[1], *w = &job->axis[2];
    memset(t, 0, sizeof *t);
    t->job = job;
    t->capacity = capacity;
    t->channels = channels;
    t->pairs = pairs;
    t->begin = t->end = -1;
    t->in_place = fits_in_place(job, channels);
    t->channel = t->in_place ? job->source_channel : w->phases * w->length;
    t->line = channels * w->phases * w->length + LANES;
    const int64_t touched = capacity * d->kernel * h->kernel, sources = d->source * h->source;
    t->twin = t->in_place ? job->source_image : smaller(touched, sources) * t->line;
    const size_t packed = padded((images * smaller(touched, sources) + 1) * t->line * (int64_t)sizeof(float));
    const size_t slots = padded((sources + 1) * (int64_t)sizeof(int64_t));
    const size_t lines = padded(touched * (int64_t)sizeof(conv_lines));
    const size_t works = padded(capacity * (int64_t)sizeof(conv_work));
    t->bytes = packed + 2 * slots + lines + works + padded(extra * (int64_t)sizeof(float));
    char *memory = t->memory = mx_scratch_take(t->bytes);
    if (!memory)
        return conv_scratch_failed("a tile of packed lines", t->bytes);
    t->packed = (float *)memory;
    t->slot = (int64_t *)(memory += packed);
    t->order = (int64_t *)(memory += slots);
    t->lines = (conv_lines *)(memory += slots);
    t->works = (conv_work *)(memory += lines);
    t->extra = (float *)(memory + works);
    memset(t->packed, 0, (size_t)t->line * sizeof(float));
    return MX_OK;
}

void conv_tile_close(conv_tile *t)
{
    mx_scratch_give(t->memory, t->bytes);
    t->memory = NULL;
}

/* The source position of tap i for the result at index r of an axis; -1 in the padding. */
static int64_t source_of(const conv_axis *a, int64_t r, int64_t i)
{
    const int64_t position = (a->offset[i] + r / a->classes) * a->step + a->phase[i] - a->shift;
    return position < 0 || position >= a->source ? -1 : position;
}

/* Where a source line is or will be packed: its slot is assigned on first use. */
static const float *source_line(conv_tile *t, int64_t depth, int64_t row)
{
    if (t->in_place)
        return t->source + depth * t->job->source_at[0] + row * t->job->source_at[1];
    const int64_t number = depth * t->job->axis[1].source + row;
    int64_t *slot = &t->slot[number];
    if (*slot < 0) {
        *slot = t->used++;
        t->order[*slot] = depth * t->job->source_at[0] + row * t->job->source_at[1];
    }
    return t->packed + *slot * t->line;
}

/* NCHW layout: channel by channel, because the lines of a channel are contiguous.  Channels last: line by line, because
 * the channels are. */
static void pack_lines(const conv_tile *t, const float *source, int64_t channels, float *packed)
{
    const conv_job *job = t->job;
    const conv_axis *w = &job->axis[2];
    const bool plain = job->source_channel != 1;
    const int64_t step = plain ? 1 : channels, width = w->source * job->source_at[2];
    for (int64_t c = 0; c < channels; c += step)
        for (int64_t i = 1; i < t->used; i++) {
            const float *line = source + c * job->source_channel + t->order[i];
            if (plain && c + AHEAD < channels)
                for (int64_t p = 0; p < width; p += 16)
                    __builtin_prefetch(line + AHEAD * job->source_channel + p);
            conv_pack_line(w, line, job->source_at[2], job->source_channel, step,
                           packed + i * t->line + c * w->phases * w->length);
        }
}

/* Appends to `lines` what result line `a` needs, and b (of the same class, or -1) beside it; returns how many. */
static int64_t add_lines(conv_tile *t, int64_t a, int64_t b, conv_lines *lines)
{
    const conv_axis *d = &t->job->axis[0], *h = &t->job->axis[1];
    const int64_t rd = a / h->result, ra = a % h->result, rb = b < 0 ? -1 : b % h->result;
    const int64_t cd = rd % d->classes, ch = ra % h->classes;
    int64_t count = 0;
    for (int64_t i = d->first[cd]; i < d->first[cd + 1]; i++) {
        const int64_t depth = source_of(d, rd, i);
        for (int64_t j = h->first[ch]; depth >= 0 && j < h->first[ch + 1]; j++) {
            const int64_t row_a = source_of(h, ra, j), row_b = rb < 0 ? -1 : source_of(h, rb, j);
            if (row_a < 0 && row_b < 0)
                continue;
            const float *line_a = row_a < 0 ? t->packed : source_line(t, depth, row_a);
            const float *line_b = rb < 0 ? line_a : row_b < 0 ? t->packed : source_line(t, depth, row_b);
            lines[count++] = (conv_lines){line_a, line_b, d->tap[i] * h->kernel + h->tap[j]};
        }
    }
    return count;
}

/* The partner of a line: the next one of its class, in the same depth and tile.  Returns -1 if there is none and -2
 * if the line is itself the second of a pair. */
static int64_t partner(const conv_tile *t, int64_t begin, int64_t end, int64_t number)
{
    const conv_axis *h = &t->job->axis[1];
    const int64_t depth_begin = number / h->result * h->result;
    const int64_t from = larger(begin, depth_begin), to = smaller(end, depth_begin + h->result);
    if (!t->pairs)
        return -1;
    if ((number - from) / h->classes % 2)
        return -2;
    return number + h->classes < to ? number + h->classes : -1;
}

/* What result line a needs, and the same line of the second image. */
static int64_t add_twins(conv_tile *t, int64_t a, conv_lines *lines)
{
    const int64_t count = add_lines(t, a, -1, lines);
    for (int64_t i = 0; i < count; i++)
        lines[i].b = lines[i].a + t->twin;
    return count;
}

/* Plans the work for result lines [begin, end). */
static void plan(conv_tile *t, int images, int64_t begin, int64_t end)
{
    const int64_t sources = t->job->axis[0].source * t->job->axis[1].source;
    for (int64_t i = 0; i < sources; i++)
        t->slot[i] = -1;
    int64_t first = 0;
    t->work_count = 0;
    t->used = 1;
    for (int64_t a = begin; a < end; a++) {
        const int64_t b = images > 1 ? a + end - begin : partner(t, begin, end, a);
        if (b == -2)
            continue;
        const int64_t count = images > 1 ? add_twins(t, a, t->lines + first) : add_lines(t, a, b, t->lines + first);
        t->works[t->work_count++] = (conv_work){a, b, first, count};
        first += count;
    }
    t->images = images;
    t->begin = begin;
    t->end = end;
}

/* The same plan for another image: lines move with their source. */
static void move_lines(conv_tile *t, const float *source)
{
    const conv_work *last = &t->works[t->work_count - 1];
    for (int64_t i = 0; i < last->first + last->count; i++) {
        t->lines[i].a = source + (t->lines[i].a - t->source);
        t->lines[i].b = source + (t->lines[i].b - t->source);
    }
    t->source = source;
}

void conv_tile_fill(conv_tile *t, const float *source, int images, int64_t channels, int64_t begin, int64_t end)
{
    const bool planned = t->begin == begin && t->end == end && t->images == images;
    if (planned && t->in_place)
        move_lines(t, source);
    t->source = source;
    if (!planned)
        plan(t, images, begin, end);
    for (int i = 0; !t->in_place && i < images; i++)
        pack_lines(t, source + i * t->job->source_image, channels, t->packed + i * t->twin);
}
