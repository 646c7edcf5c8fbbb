/* Pooling line by line (model in pool_lines.h).
 *
 * A task is a plane.  `slots` holds the lines that the windows of one line of results read, line i in slot i modulo the
 * kernel's height: forward what is left of a line after its reduction, backward its phases and, in `sums`, those of its
 * gradient, which leave when no later window reads the line.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/pool/pool_lines.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/scratch.h"
#include "base/threads.h"
#include "cpu/kernels/conv/conv_vector.h"

#define MOST_KERNEL 16
#define LEAST_WIDTH 4 /* results of a line; fewer leave most of a vector empty */

typedef struct lines {
    const mx_pool_shape *s;
    const float *x, *dy;
    float *result;
    int64_t phases;          /* stride along a line */
    int64_t room;            /* floats of a phase: all vectors of results, and what their windows reach */
    int64_t line;            /* floats of a padded line */
    int64_t at[MOST_KERNEL]; /* where the phases have the elements of the first window */
    float *memory;           /* (parts) padded line, factors, slots, sums */
    int64_t part_floats;
} lines;

/* What a part works with. */
typedef struct workspace {
    float *line, *factor, *slots, *sums, *shares;
} workspace;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t slot_floats(const lines *l) { return l->phases * l->room; }
static float *slot(const lines *l, float *slots, int64_t line)
{
    return slots + line % l->s->kernel[1] * slot_floats(l);
}

/* The lines that the windows of result line `y` read. */
static int64_t first_line(const mx_pool_shape *s, int64_t y) { return most(y * s->stride[1] - s->pad[1], 0); }
static int64_t end_line(const mx_pool_shape *s, int64_t y)
{
    return least(y * s->stride[1] - s->pad[1] + s->kernel[1], s->in[1]);
}

/* ---- lines of x ---------------------------------------------------------------------------------------------------- */

/* The phases of a line. */
static void split(const lines *l, float *line, const float *x, float *to)
{
    memcpy(line + l->s->pad[2], x, (size_t)l->s->in[2] * sizeof(float));
    for (int64_t i = 0; i < l->room; i += LANES) {
        if (l->phases == 1) {
            vector_store(to + i, vector_load(line + i));
            continue;
        }
        const vfloat a = vector_load(line + 2 * i), b = vector_load(line + 2 * i + LANES);
        vector_store(to + i, VECTOR_EVEN(a, b));
        vector_store(to + l->room + i, VECTOR_ODD(a, b));
    }
}

/* The largest, or the sum, of every window's part of a line, in place of its phases. */
static void reduce(const lines *l, float *line, bool largest)
{
    for (int64_t i = 0; i < l->s->out[2]; i += LANES) {
        vfloat v = vector_all(largest ? -INFINITY : 0);
        for (int64_t kx = 0; kx < l->s->kernel[2]; kx++) {
            const vfloat x = vector_load(line + l->at[kx] + i);
            v = largest ? vector_max(x, v) : v + x;
        }
        vector_store(line + i, v); /* later windows begin after these elements */
    }
}

/* ---- averages ------------------------------------------------------------------------------------------------------ */

static int64_t size_along(const mx_pool_shape *s, int axis, int64_t at)
{
    const int64_t begin = at * s->stride[axis] - s->pad[axis], pad = s->count_include_pad ? s->pad[axis] : 0;
    return least(begin + s->kernel[axis], s->in[axis] + pad) - (s->count_include_pad ? begin : most(begin, 0));
}

/* What the sums of result line `y` are multiplied with. */
static void set_factors(const mx_pool_shape *s, int64_t y, float *factor)
{
    const bool average = s->type == MX_POOL_AVG;
    if (y && (!average || size_along(s, 1, y) == size_along(s, 1, y - 1)))
        return;
    const int64_t height = size_along(s, 1, y);
    for (int64_t x = 0; x < s->out[2]; x++)
        factor[x] = average ? (float)(1 / (double)(height * size_along(s, 2, x))) : 1;
}

/* ---- forward ------------------------------------------------------------------------------------------------------- */

static void forward_line(const lines *l, const workspace *w, int64_t y, float *to)
{
    const mx_pool_shape *s = l->s;
    const bool largest = s->type == MX_POOL_MAX;
    for (int64_t i = 0; i < s->out[2]; i += LANES) {
        vfloat v = vector_all(largest ? -INFINITY : 0);
        for (int64_t line = first_line(s, y); line < end_line(s, y); line++) {
            const vfloat x = vector_load(slot(l, w->slots, line) + i);
            v = largest ? vector_max(x, v) : v + x;
        }
        vector_store_part(to + i, largest ? v : v * vector_load(w->factor + i), s->out[2] - i);
    }
}

static void forward_plane(const lines *l, const workspace *w, int64_t plane)
{
    const mx_pool_shape *s = l->s;
    const float *x = l->x + plane * s->in[1] * s->in[2];
    float *to = l->result + plane * s->out[1] * s->out[2];
    for (int64_t y = 0, done = 0; y < s->out[1] && !mx_stop_wanted_at(y); y++) {
        for (done = most(done, first_line(s, y)); done < end_line(s, y); done++) {
            split(l, w->line, x + done * s->in[2], slot(l, w->slots, done));
            reduce(l, slot(l, w->slots, done), s->type == MX_POOL_MAX);
        }
        set_factors(s, y, w->factor);
        forward_line(l, w, y, to + y * s->out[2]);
    }
}

/* ---- backward ------------------------------------------------------------------------------------------------------ */

/* dx of the first largest element of each window += d; `x` and `sums`: the lines of the windows. */
CONV_INLINE void spread_largest(const lines *l, const int kernel, float *const *x, float *const *sums, int64_t count,
                                vfloat d, int64_t i)
{
    const int64_t width = kernel ? kernel : l->s->kernel[2];
    vfloat v = vector_all(-INFINITY);
    for (int64_t ky = 0; ky < count; ky++)
        for (int64_t kx = 0; kx < width; kx++)
            v = vector_max(vector_load(x[ky] + l->at[kx] + i), v);
    vfloat_bits left = ~(vfloat_bits){0}; /* windows whose largest element has not come */
    for (int64_t ky = 0; ky < count; ky++)
        for (int64_t kx = 0; kx < width; kx++) {
            float *sum = sums[ky] + l->at[kx] + i;
            const vfloat_bits here = (vector_load(x[ky] + l->at[kx] + i) == v) & left;
            left &= ~here;
            vector_store(sum, vector_load(sum) + (vfloat)((vfloat_bits)d & here));
        }
}

/* All elements of a window get d (`shares`, after MOST_KERNEL zeros): adds what each element gets from all its windows. */
static void spread_shares(const lines *l, const float *shares, float *const *sums, int64_t count)
{
    for (int64_t f = 0; f < l->phases; f++)
        for (int64_t i = 0; i < l->room; i += LANES) {
            vfloat v = {0};
            for (int64_t kx = f; kx < l->s->kernel[2]; kx += l->phases)
                v += vector_load(shares + i - kx / l->phases);
            for (int64_t ky = 0; ky < count; ky++) {
                float *sum = sums[ky] + f * l->room + i;
                vector_store(sum, vector_load(sum) + v);
            }
        }
}

static void backward_line(const lines *l, const workspace *w, int64_t y, const float *dy)
{
    const mx_pool_shape *s = l->s;
    const int64_t first = first_line(s, y), count = end_line(s, y) - first;
    float *x[MOST_KERNEL], *sums[MOST_KERNEL];
    for (int64_t i = 0; i < count; i++)
        x[i] = slot(l, w->slots, first + i), sums[i] = slot(l, w->sums, first + i);
    for (int64_t i = 0; i < s->out[2]; i += LANES) {
        const vfloat d = vector_load_part(dy + i, s->out[2] - i);
        if (s->type != MX_POOL_MAX)
            vector_store(w->shares + i, d * vector_load(w->factor + i));
        else if (s->kernel[2] == 3)
            spread_largest(l, 3, x, sums, count, d, i);
        else
            spread_largest(l, 0, x, sums, count, d, i);
    }
    if (s->type != MX_POOL_MAX)
        spread_shares(l, w->shares, sums, count);
}

/* The gradient of a line of x from its phases. */
static void join(const lines *l, const float *sums, float *line, float *dx)
{
    for (int64_t i = 0; i < l->room; i += LANES) {
        if (l->phases == 1) {
            vector_store(line + i, vector_load(sums + i));
            continue;
        }
        const vfloat a = vector_load(sums + i), b = vector_load(sums + l->room + i);
        vector_store(line + 2 * i, VECTOR_WEAVE_LOW(a, b));
        vector_store(line + 2 * i + LANES, VECTOR_WEAVE_HIGH(a, b));
    }
    const int64_t reached = least(l->s->in[2], slot_floats(l) - l->s->pad[2]);
    memcpy(dx, line + l->s->pad[2], (size_t)reached * sizeof(float));
    memset(dx + reached, 0, (size_t)(l->s->in[2] - reached) * sizeof(float));
}

/* Lines [begin, end) of dx, of which those before `done` have been in windows. */
static void leave(const lines *l, const workspace *w, int64_t begin, int64_t end, int64_t done, float *dx)
{
    for (int64_t i = begin; i < end; i++) {
        if (i < done)
            join(l, slot(l, w->sums, i), w->line + l->line, dx + i * l->s->in[2]);
        else
            memset(dx + i * l->s->in[2], 0, (size_t)l->s->in[2] * sizeof(float));
    }
}

static void backward_plane(const lines *l, const workspace *w, int64_t plane)
{
    const mx_pool_shape *s = l->s;
    const float *x = l->x + plane * s->in[1] * s->in[2], *dy = l->dy + plane * s->out[1] * s->out[2];
    float *dx = l->result + plane * s->in[1] * s->in[2];
    int64_t left = 0, done = 0; /* lines that are written; that have been in windows */
    for (int64_t y = 0; y < s->out[1] && !mx_stop_wanted_at(y); y++) {
        const int64_t first = first_line(s, y);
        leave(l, w, left, first, done, dx);
        left = first;
        for (done = most(done, first); done < end_line(s, y); done++) {
            if (s->type == MX_POOL_MAX)
                split(l, w->line, x + done * s->in[2], slot(l, w->slots, done));
            memset(slot(l, w->sums, done), 0, (size_t)slot_floats(l) * sizeof(float));
        }
        set_factors(s, y, w->factor);
        backward_line(l, w, y, dy + y * s->out[2]);
    }
    leave(l, w, left, s->in[1], done, dx);
}

/* ---- parts --------------------------------------------------------------------------------------------------------- */

static void run_part(void *arg, int part, int parts)
{
    const lines *l = arg;
    const mx_pool_shape *s = l->s;
    const int64_t planes = s->batch * s->channels, slots = s->kernel[1] * slot_floats(l);
    float *memory = l->memory + part * l->part_floats, *factor = memory + 2 * l->line, *kept = factor + l->room;
    const workspace w = {memory, factor, kept, kept + slots, kept + 2 * slots + MOST_KERNEL};
    for (int64_t i = 0; i < l->part_floats; i++) /* the padding, and what is not read but computed with */
        memory[i] = s->type == MX_POOL_MAX && i < l->line ? NAN : 0;
    for (int64_t i = planes * part / parts; i < planes * (part + 1) / parts && !mx_stop_wanted(); i++)
        (l->dy ? backward_plane : forward_plane)(l, &w, i);
}

bool pool_lines_fit(const mx_pool_shape *s)
{
    if (s->channels_last || s->type == MX_POOL_LP || s->in[0] != 1 || s->out[0] != 1 || s->kernel[0] != 1 ||
        s->pad[0] || s->stride[2] > 2 || s->out[2] < LEAST_WIDTH)
        return false;
    for (int a = 1; a < 3; a++) /* no window is entirely outside */
        if (s->kernel[a] > MOST_KERNEL || s->pad[a] >= s->kernel[a] || !s->out[a] ||
            (s->out[a] - 1) * s->stride[a] - s->pad[a] >= s->in[a])
            return false;
    return true;
}

mx_code pool_lines_run(const mx_pool_shape *s, const float *x, const float *dy, float *result)
{
    lines l = {.s = s, .x = x, .dy = dy, .result = result, .phases = s->stride[2]};
    l.room = (s->out[2] + s->kernel[2] + 2 * LANES - 1) / LANES * LANES;
    for (int64_t kx = 0; kx < s->kernel[2]; kx++)
        l.at[kx] = kx % l.phases * l.room + kx / l.phases;
    l.line = most(slot_floats(&l), s->pad[2] + s->in[2]) + 2 * LANES;
    l.part_floats = (2 * l.line + 2 * l.room + MOST_KERNEL + 2 * s->kernel[1] * slot_floats(&l) + 15) / 16 * 16;
    const int64_t planes = s->batch * s->channels, work = s->in[1] * s->in[2] * s->kernel[1];
    const int parts = (int)least(mx_num_threads(), planes * work / MX_GRAIN + 1);
    const size_t bytes = (size_t)(parts * l.part_floats) * sizeof(float);
    l.memory = mx_scratch_take(bytes);
    if (!l.memory)
        return mx_fail(MX_ERR_MEMORY, "Pooling: out of memory: lines need %zu bytes of scratch memory", bytes);
    mx_parallel_parts(parts, run_part, &l);
    mx_scratch_give(l.memory, bytes);
    return MX_OK;
}
