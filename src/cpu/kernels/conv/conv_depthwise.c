/* Depthwise convolution (model in conv_depthwise.h): forward and data gradient.
 *
 * A data gradient of stride 1 is a forward pass with the kernel rotated by 180 degrees.  One of stride 2 sums the even
 * and the odd positions of a line separately and interleaves them.  Tasks are planes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/conv/conv_depthwise_halved.h"

#include <math.h>

#include "base/threads.h"

#define UNROLL _Pragma("GCC unroll 32")
#if MX_VECTOR_REGISTERS == 32 /* result lines at once: they share source lines */
#define ROWS 8
#else
#define ROWS 4
#endif

#define TAPS (CONV_DEPTHWISE_MOST * CONV_DEPTHWISE_MOST)
#if defined(MX_NEON) /* one lane multiplies a vector: LANES weights share a register */
#define WEIGHT(w, k) (w)[(k) / LANES][(k) % LANES]
#else
#define WEIGHT(w, k) (w)[k]
#endif

typedef struct depthwise {
    const conv_job *job;
    const float *source, *w, *bias;
    float *result;
    bool relu;
} depthwise;

/* One plane: where it is read and written, and its kernel. */
typedef struct plane {
    const float *source;
    float *result;
    int64_t height, width; /* of the source */
    int64_t result_height, result_width;
    int64_t pad[2];        /* lines, positions */
    float w[TAPS + LANES]; /* read in whole vectors */
    float bias;
    bool relu;
} plane;

/* As vectors, read once: to the compiler, a store of results might change p->w. */
CONV_INLINE void copy_weights(const int size, const plane *p, vfloat *w)
{
#if defined(MX_NEON)
    UNROLL for (int k = 0; k < size * size; k += LANES)
        w[k / LANES] = vector_load(p->w + k);
#else
    UNROLL for (int k = 0; k < size * size; k++)
        w[k] = vector_all(p->w[k]);
#endif
}

/* Which source lines of a block of result lines are padding: none, only the first, only the last, or any. */
typedef enum edge { NO_LINE, FIRST_LINE, LAST_LINE, ANY_LINE } edge;

static edge edge_of(const plane *p, int64_t top, int64_t lines)
{
    const bool first = top<0, last = top + lines> p->height;
    if (top < -1 || top + lines > p->height + 1 || (first && last))
        return ANY_LINE;
    return first ? FIRST_LINE : last ? LAST_LINE : NO_LINE;
}

/* `rows` result lines from h on, one vector at position i of each. */
CONV_INLINE void sum_rows(const int size, const int stride, const int rows, const edge padding, const bool whole,
                          const plane *p, const vfloat *w, const conv_reading *r, int64_t h, int64_t i)
{
    const int lines = (rows - 1) * stride + size;
    const int64_t top = h * stride - p->pad[0], width = p->width, next_plane = p->height * width;
    int64_t at = top * width;
    vfloat sum[ROWS];
    UNROLL for (int row = 0; row < rows; row++)
        sum[row] = (vfloat){0};
    UNROLL for (int l = 0; l < lines; l++, at += width) {
        if ((padding == FIRST_LINE && l == 0) || (padding == LAST_LINE && l == lines - 1))
            continue;
        if (padding == ANY_LINE && (top + l < 0 || top + l >= p->height))
            continue;
        vfloat v[CONV_DEPTHWISE_MOST];
        if (l < rows * stride)
            __builtin_prefetch(p->source + at + r->at + next_plane);
        conv_read_taps(size, stride, whole, r, p->source + at, v);
        UNROLL for (int row = 0; row < rows; row++)
            if (l >= row * stride && l < row * stride + size)
                UNROLL for (int k = 0; k < size; k++)
                    sum[row] += v[k] * WEIGHT(w, (l - row * stride) * size + k);
    }
    const vfloat bias = vector_all(p->bias), floor = vector_all(p->relu ? 0 : -INFINITY);
    const int64_t result_width = p->result_width, count = whole ? LANES : result_width - i;
    float *to = p->result + h * result_width + i;
    UNROLL for (int row = 0; row < rows; row++, to += result_width)
        vector_store_part(to, vector_max(floor, sum[row] + bias), count);
}

#if defined(__AVX2__)
/* ROWS result lines from h on: code of its own for the usual paddings. */
CONV_INLINE void sum_block(const int size, const int stride, const plane *p, const vfloat *w, const conv_reading *r,
                           int64_t h, int64_t i)
{
    const edge padding = edge_of(p, h * stride - p->pad[0], (ROWS - 1) * stride + size);
    if (padding == NO_LINE && r->whole)
        sum_rows(size, stride, ROWS, NO_LINE, true, p, w, r, h, i);
    else if (padding == NO_LINE)
        sum_rows(size, stride, ROWS, NO_LINE, false, p, w, r, h, i);
    else if (padding == FIRST_LINE)
        sum_rows(size, stride, ROWS, FIRST_LINE, false, p, w, r, h, i);
    else if (padding == LAST_LINE)
        sum_rows(size, stride, ROWS, LAST_LINE, false, p, w, r, h, i);
    else
        sum_rows(size, stride, ROWS, ANY_LINE, false, p, w, r, h, i);
}

CONV_INLINE void correlate_plane(const int size, const int stride, const plane *p)
{
    const int64_t last = p->result_width - LANES;
    vfloat w[TAPS];
    copy_weights(size, p, w);
    for (int64_t next = 0; next < p->result_width; next += LANES) {
        const int64_t i = next > last && last > 0 ? last : next; /* the last vector overlaps: no part of it is masked */
        const conv_reading r = conv_reading_of(size, stride, i, p->result_width - i, p->pad[1], p->width);
        for (int64_t h = 0; h < p->result_height;) {
            const int64_t left = p->result_height - h;
            if (left >= ROWS)
                sum_block(size, stride, p, w, &r, h, i), h += ROWS;
            else if (left >= ROWS / 2)
                sum_rows(size, stride, ROWS / 2, ANY_LINE, false, p, w, &r, h, i), h += ROWS / 2;
            else if (left >= 2)
                sum_rows(size, stride, 2, ANY_LINE, false, p, w, &r, h, i), h += 2;
            else
                sum_rows(size, stride, 1, ANY_LINE, false, p, w, &r, h, i), h += 1;
        }
    }
}

#define CORRELATE(size, stride) \
    static void correlate_##size##_##stride(const plane *p) { correlate_plane(size, stride, p); }
#else
/* Without masks, edges take so much code that it is kept apart: the usual case then has all registers for itself. */
#define SUM_ROWS(name, size, stride, rows, padding, whole)                                                       \
    static __attribute__((noinline)) void name##_##size##_##stride(const plane *p, const conv_reading *r,        \
                                                                   int64_t h, int64_t i)                         \
    {                                                                                                            \
        vfloat w[TAPS];                                                                                          \
        copy_weights(size, p, w);                                                                                \
        sum_rows(size, stride, rows, padding, whole, p, w, r, h, i);                                             \
    }
typedef void (*rows_fn)(const plane *p, const conv_reading *r, int64_t h, int64_t i);

static void correlate_plane(const int size, const int stride, const plane *p, rows_fn inside, const rows_fn *edges)
{
    const int64_t last = p->result_width - LANES;
    for (int64_t next = 0; next < p->result_width; next += LANES) {
        const int64_t i = next > last && last > 0 ? last : next; /* the last vector overlaps: no part of it is masked */
        const conv_reading r = conv_reading_of(size, stride, i, p->result_width - i, p->pad[1], p->width);
        for (int64_t h = 0, rows; h < p->result_height; h += rows) {
            int which = 0; /* of ROWS, ROWS / 2 ... 1 lines */
            for (rows = ROWS; rows > p->result_height - h; rows /= 2)
                which++;
            const edge padding = edge_of(p, h * stride - p->pad[0], (ROWS - 1) * stride + size);
            (rows == ROWS && r.whole && padding == NO_LINE ? inside : edges[which])(p, &r, h, i);
        }
    }
}

#define CORRELATE(size, stride)                                                                                  \
    SUM_ROWS(inside, size, stride, ROWS, NO_LINE, true)                                                          \
    SUM_ROWS(all, size, stride, ROWS, ANY_LINE, false)                                                           \
    SUM_ROWS(half, size, stride, ROWS / 2, ANY_LINE, false)                                                      \
    SUM_ROWS(quarter, size, stride, ROWS / 4, ANY_LINE, false)                                                   \
    SUM_ROWS(one, size, stride, 1, ANY_LINE, false)                                                              \
    static void correlate_##size##_##stride(const plane *p)                                                      \
    {                                                                                                            \
        static const rows_fn edges[] = {all_##size##_##stride, half_##size##_##stride, quarter_##size##_##stride, \
                                        one_##size##_##stride};                                                  \
        correlate_plane(size, stride, p, inside_##size##_##stride, edges);                                       \
    }
#endif

/* Stride 2, data gradient: LANES positions of dy spread into 2 * LANES of a line of dx, from 2 * j on.
 *
 *     dx[2 j + c] = sum over k of  dy[j + (c + pad - k) / 2] * w[k]      where this divides
 *
 * Neighbouring k read the same vector of dy, one of them for the even and one for the odd positions.  odd_h says
 * whether h + pad is odd, odd_w whether the padding of a line is; `inside` that no line of padding is touched. */
CONV_INLINE void spread_line(const int size, const int odd_h, const int odd_w, const bool inside, const plane *p,
                             const vfloat *w, const conv_reading *r, int64_t h, int64_t j)
{
    vfloat even = {0}, odd = {0};
    UNROLL for (int i = odd_h; i < size; i += 2) {
        const int64_t line = (h + p->pad[0] - odd_h) / 2 - i / 2;
        if (!inside && (line < 0 || line >= p->height))
            continue;
        UNROLL for (int k = -odd_w; k < size; k += 2) {
            const conv_reading *read = &r[(k + odd_w) / 2];
            const vfloat v = vector_load_between(p->source + line * p->width, read->at, read->part[0]);
            if (k >= 0)
                even += v * WEIGHT(w, i * size + k);
            if (k + 1 < size)
                odd += v * WEIGHT(w, i * size + k + 1);
        }
    }
    float *to = p->result + h * p->result_width + 2 * j;
    const int64_t left = p->result_width - 2 * j;
    vector_store_part(to, VECTOR_WEAVE_LOW(even, odd), left);
    if (left > LANES)
        vector_store_part(to + LANES, VECTOR_WEAVE_HIGH(even, odd), left - LANES);
}

CONV_INLINE void spread_plane(const int size, const int odd_w, const plane *p)
{
    vfloat w[TAPS];
    copy_weights(size, p, w);
    for (int64_t j = 0; 2 * j < p->result_width; j += LANES) {
        conv_reading r[CONV_DEPTHWISE_MOST];
        for (int t = 0; 2 * t < size + odd_w; t++)
            r[t] = conv_reading_of(1, 1, j, LANES, t - (p->pad[1] + odd_w) / 2, p->width);
        for (int64_t h = 0; h < p->result_height; h++) {
            const int64_t line = (h + p->pad[0]) / 2;
            const bool inside = line >= size / 2 && line < p->height;
            if ((h + p->pad[0]) % 2)
                inside ? spread_line(size, 1, odd_w, true, p, w, r, h, j)
                       : spread_line(size, 1, odd_w, false, p, w, r, h, j);
            else
                inside ? spread_line(size, 0, odd_w, true, p, w, r, h, j)
                       : spread_line(size, 0, odd_w, false, p, w, r, h, j);
        }
    }
}

#if defined(__AVX2__)
static void correlate_halved(const plane *p)
{
    vfloat w[9];
    const vfloat floor = vector_all(p->relu ? 0 : -INFINITY);
    UNROLL for (int i = 0; i < 9; i++)
        w[i] = vector_all(p->w[i]);
    for (int64_t i = 0, lanes; i < p->result_width; i += lanes) {
        const halved c = halved_at(i, p->result_width);
        lanes = c.lanes;
        for (int64_t h = 0; h < p->result_height; h += HALVED_ROWS) {
            vfloat sum[HALVED_ROWS];
            UNROLL for (int row = 0; row < HALVED_ROWS; row++)
                sum[row] = vector_all(p->bias);
            HALVED_LINES(halved_taps, &c, p->source, p->width, h, sum[row] += v[k] * w[3 * line + k])
            UNROLL for (int row = 0; row < HALVED_ROWS; row++)
                halved_store(&c, p->result + (h + row) * p->result_width + c.i, vector_max(floor, sum[row]));
        }
    }
}
#else
#define correlate_halved correlate_3_2
#endif

typedef void (*plane_fn)(const plane *p);
CORRELATE(3, 1)
CORRELATE(3, 2)
CORRELATE(5, 1)
CORRELATE(5, 2)
static void spread_3(const plane *p) { p->pad[1] % 2 ? spread_plane(3, 1, p) : spread_plane(3, 0, p); }
static void spread_5(const plane *p) { p->pad[1] % 2 ? spread_plane(5, 1, p) : spread_plane(5, 0, p); }

/* [data gradient][size 5][stride 2] */
static const plane_fn plane_table[2][2][2] = {
    {{correlate_3_1, correlate_3_2}, {correlate_5_1, correlate_5_2}},
    {{correlate_3_1, spread_3}, {correlate_5_1, spread_5}},
};

#if defined(__AVX2__)
SMALL_SEVEN(SMALL_PLANE, plane_seven, eight_store, eight_store_seven, eight_all, eight_max)
#if defined(__AVX512F__)
SMALL_FOURTEEN(SMALL_PLANE, plane_fourteen, vector_store, sixteen_store_fourteen, vector_all, vector_max)
#else
static void plane_fourteen(const float *x, const float *w, float bias, float floor, float *y)
{
    quarter_plane(0, 0, x, w, bias, floor, y);
    quarter_plane(0, 6, x, w, bias, floor, y);
    quarter_plane(7, 0, x, w, bias, floor, y);
    quarter_plane(7, 6, x, w, bias, floor, y);
}
#endif

static void run_small_planes(const depthwise *d, int64_t begin, int64_t end)
{
    const conv_job *job = d->job;
    for (int64_t i = begin; i < end; i++) {
        const int64_t channel = i % job->groups;
        float rotated[9];
        for (int k = 0; job->gradient && k < 9; k++)
            rotated[k] = d->w[channel * 9 + 8 - k];
        (job->shape.in[1] == 7 ? plane_seven : plane_fourteen)(
            d->source + i * job->source_channel, job->gradient ? rotated : d->w + channel * 9,
            d->bias ? d->bias[channel] : 0, d->relu ? 0 : -INFINITY, d->result + i * job->result_channel);
    }
}
#else
static void run_small_planes(const depthwise *d, int64_t begin, int64_t end) { (void)d, (void)begin, (void)end; }
#endif

static void run_planes(void *arg, int64_t begin, int64_t end)
{
    const depthwise *d = arg;
    const conv_job *job = d->job;
    if (conv_is_small_plane(job)) {
        run_small_planes(d, begin, end);
        return;
    }
    const mx_conv_shape *s = &job->shape;
    const int size = (int)s->kernel[2], taps = size * size;
    const bool rotated = job->gradient && s->stride[2] == 1;
    const plane_fn run =
        conv_is_halved(job) ? correlate_halved : plane_table[job->gradient][size == 5][s->stride[2] == 2];
    plane p = {.height = job->axis[1].source, .width = job->axis[2].source, .result_height = job->axis[1].result,
               .result_width = job->axis[2].result, .relu = d->relu,
               .pad = {rotated ? size - 1 - s->pad[1] : s->pad[1], rotated ? size - 1 - s->pad[2] : s->pad[2]}};
    for (int64_t i = begin; i < end; i++) {
        const int64_t channel = i % job->groups;
        for (int k = 0; k < taps; k++)
            p.w[k] = d->w[channel * taps + (rotated ? taps - 1 - k : k)];
        p.bias = d->bias ? d->bias[channel] : 0;
        p.source = d->source + i * job->source_channel;
        p.result = d->result + i * job->result_channel;
        run(&p);
    }
}

/* Planes of one channel each, a square kernel of 3 or 5, stride 1 or 2. */
bool conv_is_depthwise(const conv_job *job)
{
    const mx_conv_shape *s = &job->shape;
    return job->from == 1 && job->to == 1 && !s->channels_last && s->in[0] == 1 && s->kernel[0] == 1 &&
           s->pad[0] == 0 && s->kernel[1] == s->kernel[2] && (s->kernel[2] == 3 || s->kernel[2] == 5) &&
           s->stride[1] == s->stride[2] && s->stride[2] <= 2 && s->dilate[1] == 1 && s->dilate[2] == 1;
}

mx_code conv_depthwise_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                           float *result)
{
    depthwise d = {job, source, w, bias, result, relu};
    mx_parallel(job->batch * job->groups, MX_GRAIN / (job->result_channel + job->source_channel + 1) + 1, run_planes,
                &d);
    return MX_OK;
}
