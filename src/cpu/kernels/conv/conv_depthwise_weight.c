/* Depthwise convolution (model in conv_depthwise.h): the weight gradient.
 *
 *     dw[i, j] = sum over n, h, w of  dy[n, h, w] * x[n, h * stride - pad + i, w * stride - pad + j]
 *
 * The sums of a channel stay in registers, one vector per kernel element, during the pass over its planes.  Tasks are
 * channels, so the result does not depend on the number of threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/threads.h"
#include "cpu/kernels/conv/conv_depthwise_halved.h"

#define UNROLL _Pragma("GCC unroll 32")
#if MX_VECTOR_REGISTERS == 32 /* lines of dy at once */
#define ROWS 4
#else
#define ROWS 2
#endif
#define MOST_SUMS (CONV_DEPTHWISE_MOST * CONV_DEPTHWISE_MOST)

typedef struct weight_run {
    const conv_job *job; /* the forward correlation */
    const float *x, *dy;
    float *dw;
} weight_run;

/* One column of result vectors of a plane: where it is read. */
typedef struct column {
    const float *x, *dy;
    int64_t height, width; /* of x */
    int64_t result_width;
    int64_t pad;               /* lines */
    int64_t x_ahead, dy_ahead; /* floats to the next planes, which are prefetched */
    conv_reading reading;
    int64_t i;        /* position of lane 0 of dy ... */
    vector_part part; /* ... and its valid lanes */
} column;

/* Adds `rows` lines of dy from h on: a line of x is read once for all of them; `inside`: none is padding. */
CONV_INLINE void add_rows(const int size, const int stride, const int rows, const bool inside, const bool whole,
                          const column *c, int64_t h, vfloat *sum)
{
    const int64_t top = h * stride - c->pad;
    vfloat d[ROWS];
    UNROLL for (int row = 0; row < rows; row++) {
        const float *line = c->dy + (h + row) * c->result_width;
        __builtin_prefetch(line + c->i + c->dy_ahead);
        d[row] = whole ? vector_load(line + c->i) : vector_load_between(line, c->i, c->part);
    }
    UNROLL for (int l = 0; l < (rows - 1) * stride + size; l++) {
        if (!inside && (top + l < 0 || top + l >= c->height))
            continue;
        vfloat v[CONV_DEPTHWISE_MOST];
        const float *line = c->x + (top + l) * c->width;
        if (l < rows * stride)
            UNROLL for (int part = 0; part < stride; part++)
                __builtin_prefetch(line + c->reading.at + c->x_ahead + part * LANES);
        conv_read_taps(size, stride, whole, &c->reading, line, v);
        if (stride == 2 && !whole) /* taps share lanes: those without a result may be infinite */
            UNROLL for (int k = 0; k < size; k++)
                v[k] = vector_keep(v[k], c->part);
        UNROLL for (int row = 0; row < rows; row++)
            if (l >= row * stride && l < row * stride + size)
                UNROLL for (int k = 0; k < size; k++)
                    sum[(l - row * stride) * size + k] += d[row] * v[k];
    }
}

CONV_INLINE void add_column(const int size, const int stride, const conv_job *job, const float *x, const float *dy,
                            int64_t i, vfloat *total)
{
    const int64_t width = job->axis[2].result, height = job->axis[1].result;
    const column c = {.x = x, .dy = dy, .height = job->axis[1].source, .width = job->axis[2].source,
                      .result_width = width, .pad = job->shape.pad[1], .x_ahead = job->source_image,
                      .dy_ahead = job->result_image, .i = i, .part = vector_part_of(0, width - i),
                      .reading = conv_reading_of(size, stride, i, width - i, job->shape.pad[2], job->axis[2].source)};
    vfloat sum[MOST_SUMS];
    UNROLL for (int k = 0; k < size * size; k++)
        sum[k] = total[k];
    for (int64_t h = 0; h < height;) {
        const int64_t top = h * stride - c.pad;
        if (h + ROWS <= height && top >= 0 && top + (ROWS - 1) * stride + size <= c.height) {
            if (c.reading.whole)
                add_rows(size, stride, ROWS, true, true, &c, h, sum);
            else
                add_rows(size, stride, ROWS, true, false, &c, h, sum);
            h += ROWS;
        } else {
            add_rows(size, stride, 1, false, false, &c, h, sum);
            h++;
        }
    }
    UNROLL for (int k = 0; k < size * size; k++)
        total[k] = sum[k];
}

CONV_INLINE void run_channels(const int size, const int stride, const weight_run *r, int64_t begin, int64_t end)
{
    const conv_job *job = r->job;
    for (int64_t c = begin; c < end; c++) {
        vfloat total[MOST_SUMS] = {{0}};
        for (int64_t n = 0; n < job->batch; n++)
            for (int64_t i = 0; i < job->axis[2].result; i += LANES)
                add_column(size, stride, job, r->x + n * job->source_image + c * job->source_channel,
                           r->dy + n * job->result_image + c * job->result_channel, i, total);
        for (int k = 0; k < size * size; k++)
            r->dw[c * size * size + k] = vector_sum(total[k]);
    }
}

static void channels_3_1(void *arg, int64_t begin, int64_t end) { run_channels(3, 1, arg, begin, end); }
static void channels_3_2(void *arg, int64_t begin, int64_t end) { run_channels(3, 2, arg, begin, end); }
static void channels_5_1(void *arg, int64_t begin, int64_t end) { run_channels(5, 1, arg, begin, end); }
static void channels_5_2(void *arg, int64_t begin, int64_t end) { run_channels(5, 2, arg, begin, end); }

#if defined(__AVX2__)
SMALL_SEVEN(SMALL_WEIGHT, weight_seven, eight_sum)
#if defined(__AVX512F__)
SMALL_FOURTEEN(SMALL_WEIGHT, weight_fourteen, vector_sum)
#else
static void weight_fourteen(const conv_job *job, const float *x, const float *dy, float *dw)
{
    veight sum[9];
    UNROLL for (int k = 0; k < 9; k++)
        sum[k] = (veight){0};
    for (int64_t n = 0; n < job->batch; n++, x += job->source_image, dy += job->result_image) {
        quarter_weight(0, 0, x, dy, sum);
        quarter_weight(0, 6, x, dy, sum);
        quarter_weight(7, 0, x, dy, sum);
        quarter_weight(7, 6, x, dy, sum);
    }
    for (int k = 0; k < 9; k++)
        dw[k] = eight_sum(sum[k]);
}
#endif

/* The plane of one image, added to the sums. */
static void add_halved(const conv_job *job, const float *x, const float *dy, vfloat total[9])
{
    const int64_t width = job->axis[2].result;
    vfloat sum[9];
    UNROLL for (int k = 0; k < 9; k++)
        sum[k] = total[k];
    for (int64_t i = 0, lanes; i < width; i += lanes) {
        const halved c = halved_at(i, width);
        lanes = c.lanes;
        for (int64_t h = 0; h < job->axis[1].result; h += HALVED_ROWS) {
            vfloat d[HALVED_ROWS];
            UNROLL for (int row = 0; row < HALVED_ROWS; row++) {
                const float *line = dy + (h + row) * width + c.i, *below = x + 2 * (h + row) * 2 * width + 2 * c.i;
                d[row] = vector_load_between(line, 0, c.results);
                __builtin_prefetch(line + job->result_image); /* the next image */
                __builtin_prefetch(below + job->source_image);
                __builtin_prefetch(below + job->source_image + 2 * width);
            }
            HALVED_LINES(halved_own_taps, &c, x, job->axis[2].source, h, sum[3 * line + k] += v[k] * d[row])
        }
    }
    UNROLL for (int k = 0; k < 9; k++)
        total[k] = sum[k];
}

static void channels_halved(void *arg, int64_t begin, int64_t end)
{
    const weight_run *r = arg;
    const conv_job *job = r->job;
    for (int64_t c = begin; c < end; c++) {
        vfloat sum[9] = {{0}};
        for (int64_t n = 0; n < job->batch; n++)
            add_halved(job, r->x + n * job->source_image + c * job->source_channel,
                       r->dy + n * job->result_image + c * job->result_channel, sum);
        for (int k = 0; k < 9; k++)
            r->dw[c * 9 + k] = vector_sum(sum[k]);
    }
}

static void channels_small(void *arg, int64_t begin, int64_t end)
{
    const weight_run *r = arg;
    const conv_job *job = r->job;
    for (int64_t c = begin; c < end; c++)
        (job->shape.in[1] == 7 ? weight_seven : weight_fourteen)(job, r->x + c * job->source_channel,
                                                                 r->dy + c * job->result_channel, r->dw + c * 9);
}
#else
#define channels_small channels_3_1
#define channels_halved channels_3_2
#endif

mx_code conv_depthwise_weight(const conv_job *job, const float *x, const float *dy, float *dw)
{
    static const mx_range_fn table[2][2] = {{channels_3_1, channels_3_2}, {channels_5_1, channels_5_2}};
    const int64_t work = job->batch * (job->source_channel + job->result_channel);
    const mx_range_fn run = table[job->shape.kernel[2] == 5][job->shape.stride[2] == 2];
    const mx_range_fn best = conv_is_small_plane(job) ? channels_small : conv_is_halved(job) ? channels_halved : run;
    mx_parallel(job->groups, MX_GRAIN / (work + 1) + 1, best, &(weight_run){job, x, dy, dw});
    return MX_OK;
}
