/* The weight gradient with positions as lanes (model in conv_pixels.h): for few channels and for depthwise.
 *
 *     dw[t][k] = sum over images, q of  dy[t][q] * source[offset[k] + q]
 *
 * dy is spread to the row length of the planes, zero between its lines.  A register tile of channels x k keeps one
 * vector of partial sums per element; they are in memory between images and are added up at the end, over lanes and over the
 * slices of the tasks in their order.
 *
 * Invariant: results are bitwise independent of the number of threads (conv_weight_slices).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/scratch.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/conv/conv_pixels.h"

#define UNROLL _Pragma("GCC unroll 32")
#define PLANE_BYTES (256 * 1024) /* packed source of a tile */
#define MOST_CHANNELS 6          /* of a register tile */
#define MOST_TAPS 9

#if MX_VECTOR_REGISTERS == 32
#define BLOCK_CHANNELS 6
static const int most_taps[MOST_CHANNELS + 1] = {0, 9, 9, 7, 6, 5, 4};
#else
#define BLOCK_CHANNELS 3 /* 3 x 3 sums, 3 of dy and one of x fill 16 registers best */
static const int most_taps[MOST_CHANNELS + 1] = {0, 9, 5, 3, 2, 2, 1};
#endif

/* Adds `vectors` vectors of positions to the sums (channels, all k) of channels x taps. */
CONV_INLINE void grad_tile(const int channels, const int taps, const float *dy, int64_t s_dy, const float *x,
                           const int64_t *offset, int64_t vectors, float *sums, int64_t s_sums)
{
    vfloat sum[28];
    const float *from[MOST_TAPS];
    UNROLL for (int t = 0; t < taps; t++)
        from[t] = x + offset[t];
    UNROLL for (int c = 0; c < channels; c++)
        UNROLL for (int t = 0; t < taps; t++)
            sum[c * taps + t] = vector_load(sums + c * s_sums + t * LANES);
    for (int64_t i = 0; i < vectors * LANES; i += LANES) {
        vfloat d[MOST_CHANNELS];
        UNROLL for (int c = 0; c < channels; c++)
            d[c] = vector_load(dy + c * s_dy + i);
        UNROLL for (int t = 0; t < taps; t++) {
            const vfloat v = vector_load(from[t] + i);
            UNROLL for (int c = 0; c < channels; c++)
                sum[c * taps + t] += d[c] * v;
        }
    }
    UNROLL for (int c = 0; c < channels; c++)
        UNROLL for (int t = 0; t < taps; t++)
            vector_store(sums + c * s_sums + t * LANES, sum[c * taps + t]);
}

typedef void (*grad_fn)(const float *dy, int64_t s_dy, const float *x, const int64_t *offset, int64_t vectors,
                        float *sums, int64_t s_sums);
#define GRAD(c, t)                                                                                                  \
    static void grad_##c##_##t(const float *dy, int64_t s_dy, const float *x, const int64_t *offset, int64_t vectors, \
                               float *sums, int64_t s_sums)                                                         \
    {                                                                                                               \
        grad_tile(c, t, dy, s_dy, x, offset, vectors, sums, s_sums);                                                \
    }
GRAD(1, 1) GRAD(1, 2) GRAD(1, 3) GRAD(1, 4) GRAD(1, 5) GRAD(1, 6) GRAD(1, 7) GRAD(1, 8) GRAD(1, 9)
GRAD(2, 1) GRAD(2, 2) GRAD(2, 3) GRAD(2, 4) GRAD(2, 5)
GRAD(3, 1) GRAD(3, 2) GRAD(3, 3) GRAD(4, 1) GRAD(4, 2) GRAD(5, 1) GRAD(5, 2) GRAD(6, 1)
#if MX_VECTOR_REGISTERS == 32
GRAD(2, 6) GRAD(2, 7) GRAD(2, 8) GRAD(2, 9) GRAD(3, 4) GRAD(3, 5) GRAD(3, 6) GRAD(3, 7)
GRAD(4, 3) GRAD(4, 4) GRAD(4, 5) GRAD(4, 6) GRAD(5, 3) GRAD(5, 4) GRAD(5, 5)
GRAD(6, 2) GRAD(6, 3) GRAD(6, 4)
#endif
static const grad_fn grad_table[MOST_CHANNELS + 1][MOST_TAPS + 1] = {
    {NULL},
    {NULL, grad_1_1, grad_1_2, grad_1_3, grad_1_4, grad_1_5, grad_1_6, grad_1_7, grad_1_8, grad_1_9},
#if MX_VECTOR_REGISTERS == 32
    {NULL, grad_2_1, grad_2_2, grad_2_3, grad_2_4, grad_2_5, grad_2_6, grad_2_7, grad_2_8, grad_2_9},
    {NULL, grad_3_1, grad_3_2, grad_3_3, grad_3_4, grad_3_5, grad_3_6, grad_3_7},
    {NULL, grad_4_1, grad_4_2, grad_4_3, grad_4_4, grad_4_5, grad_4_6},
    {NULL, grad_5_1, grad_5_2, grad_5_3, grad_5_4, grad_5_5},
    {NULL, grad_6_1, grad_6_2, grad_6_3, grad_6_4},
#else
    {NULL, grad_2_1, grad_2_2, grad_2_3, grad_2_4, grad_2_5},
    {NULL, grad_3_1, grad_3_2, grad_3_3},
    {NULL, grad_4_1, grad_4_2},
    {NULL, grad_5_1, grad_5_2},
    {NULL, grad_6_1},
#endif
};

typedef struct grad_run {
    conv_planes planes;
    const float *x, *dy;
    float *dw;
    int64_t k;       /* source channels * taps */
    int64_t *offset; /* (k) */
    int64_t *tap;    /* (taps) flattened */
    int64_t taps;
    int64_t dy_row; /* floats per channel of the spread dy */
    int64_t blocks; /* of result channels */
    int parts;      /* of the thread pool */
    int64_t slices; /* of the tasks: their sums are added up at the end */
    float *sums;    /* (slices, groups, to, k, LANES) */
    int64_t slice_sums;
    float *scratch; /* (parts) packed planes, spread dy */
    int64_t part_scratch;
    void *memory;
    size_t bytes;
} grad_run;

/* Spreads the rows of one tile of dy, channel by channel, to the row length of the planes. */
static void spread_dy(const grad_run *r, const float *dy, int64_t first, int64_t rows, float *to)
{
    const conv_job *job = r->planes.job;
    const int64_t width = job->axis[2].result, length = job->axis[2].length;
    memset(to, 0, (size_t)(job->to * r->dy_row) * sizeof(float));
    for (int64_t t = 0; t < job->to; t++)
        for (int64_t z = 0; z < job->axis[0].result; z++)
            for (int64_t y = 0; y < rows; y++)
                conv_copy_strided(to + t * r->dy_row + (z * r->planes.height + y) * length,
                                  dy + t * job->result_channel + z * job->result_at[0] +
                                      (first + y) * job->result_at[1],
                                  width, job->result_at[2]);
}

static void run_tiles(const grad_run *r, const float *packed, const float *dy, int64_t vectors, float *sums)
{
    const int64_t to = r->planes.job->to, s_sums = r->k * LANES;
    for (int64_t b = 0; b < r->blocks; b++) {
        const int64_t at = to * b / r->blocks, channels = to * (b + 1) / r->blocks - at;
        const int64_t steps = (r->k + most_taps[channels] - 1) / most_taps[channels];
        for (int64_t i = 0; i < steps; i++) {
            const int64_t k = r->k * i / steps, taps = r->k * (i + 1) / steps - k;
            grad_table[channels][taps](dy + at * r->dy_row, r->dy_row, packed, r->offset + k, vectors,
                                       sums + at * s_sums + k * LANES, s_sums);
        }
    }
}

static void run_slice(const grad_run *r, int64_t slice, float *packed)
{
    const conv_job *job = r->planes.job;
    const int64_t tiles = r->planes.tiles, tasks = job->batch * job->groups * tiles, zero[3] = {0, 0, 0};
    float *dy = packed + r->planes.floats, *sums = r->sums + slice * r->slice_sums;
    memset(sums, 0, (size_t)r->slice_sums * sizeof(float));
    for (int64_t task = tasks * slice / r->slices; task < tasks * (slice + 1) / r->slices; task++) {
        const int64_t tile = task % tiles, group = task / tiles % job->groups, image = task / tiles / job->groups;
        const int64_t first = tile * r->planes.rows, left = job->axis[1].result - first;
        const int64_t rows = left < r->planes.rows ? left : r->planes.rows;
        conv_planes_fill(&r->planes, r->x + image * job->source_image + group * job->from * job->source_channel, tile,
                         packed);
        spread_dy(r, r->dy + image * job->result_image + group * job->to * job->result_channel, first, rows, dy);
        run_tiles(r, packed, dy, (conv_planes_span(&r->planes, zero, rows) + LANES - 1) / LANES,
                  sums + group * job->to * r->k * LANES);
    }
}

static void run_part(void *arg, int part, int parts)
{
    const grad_run *r = arg;
    for (int64_t slice = r->slices * part / parts; slice < r->slices * (part + 1) / parts && !mx_stop_wanted(); slice++)
        run_slice(r, slice, r->scratch + part * r->part_scratch);
}

/* Adds up slices and lanes of the elements [begin, end) of (groups, to, k). */
static void add_up(void *arg, int64_t begin, int64_t end)
{
    const grad_run *r = arg;
    const conv_job *job = r->planes.job;
    for (int64_t i = begin; i < end; i++) {
        vfloat sum = {0};
        for (int64_t slice = 0; slice < r->slices; slice++)
            sum += vector_load(r->sums + slice * r->slice_sums + i * LANES);
        const int64_t k = i % r->k, t = i / r->k % job->to, g = i / r->k / job->to;
        r->dw[g * job->w_group + t * job->w_to + k / r->taps * job->w_from + r->tap[k % r->taps] * job->w_tap] =
            vector_sum(sum);
    }
}

static size_t padded(int64_t bytes) { return ((size_t)bytes + MX_ALIGN - 1) / MX_ALIGN * MX_ALIGN; }

static mx_code open_all(grad_run *r)
{
    const conv_job *job = r->planes.job;
    const int64_t tasks = job->batch * job->groups * r->planes.tiles, zero[3] = {0, 0, 0};
    r->k = job->from * job->taps;
    r->slice_sums = job->groups * job->to * r->k * LANES;
    r->slices = conv_weight_slices(job, tasks, r->slice_sums);
    r->parts = r->slices < mx_num_threads() ? (int)r->slices : mx_num_threads();
    r->blocks = (job->to + BLOCK_CHANNELS - 1) / BLOCK_CHANNELS;
    r->dy_row = (r->planes.plane + LANES - 1) / LANES * LANES + LANES;
    r->part_scratch = (r->planes.floats + job->to * r->dy_row + 15) / 16 * 16;
    const size_t offsets = padded(r->k * (int64_t)sizeof(int64_t)), taps = padded(job->taps * (int64_t)sizeof(int64_t));
    const size_t sums = padded(r->slice_sums * r->slices * (int64_t)sizeof(float));
    r->bytes = offsets + taps + sums + padded(r->part_scratch * r->parts * (int64_t)sizeof(float));
    char *memory = r->memory = mx_scratch_take(r->bytes);
    if (!memory)
        return conv_scratch_failed("the weight gradient", r->bytes);
    r->offset = (int64_t *)memory;
    r->tap = (int64_t *)(memory + offsets);
    r->sums = (float *)(memory + offsets + taps);
    r->scratch = (float *)(memory + offsets + taps + sums);
    r->taps = conv_planes_offsets(&r->planes, zero, r->offset, r->tap);
    return MX_OK;
}

mx_code conv_pixels_weight(const conv_job *job, const float *x, const float *dy, float *dw)
{
    grad_run r = {.x = x, .dy = dy, .dw = dw};
    conv_planes_init(&r.planes, job, PLANE_BYTES);
    const mx_code code = open_all(&r);
    if (!code) {
        mx_parallel_parts(r.parts, run_part, &r);
        mx_parallel(job->groups * job->to * r.k, MX_GRAIN / LANES, add_up, &r);
    }
    mx_scratch_give(r.memory, r.bytes);
    return code;
}
