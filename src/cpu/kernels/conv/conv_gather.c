/* Columns back into an image: the last step of a data gradient through columns (conv_columns.c).
 *
 *     dx[c, r] = sum over taps of  column[c, tap][p]      where  r = p * stride - pad + tap * dilate
 *
 * Every line of dx is summed in registers and written once.  The other order, adding each row of columns to dx,
 * would read unaligned what has just been written, and wait for it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/conv/conv_job.h"
#include "cpu/kernels/conv/conv_vector.h"

#define MOST_TAPS 16  /* along the line */
#define MOST_LINES 32 /* of the kernel */

/* The taps that contribute to a vector of dx along its line, and the lines of columns that contribute to its line. */
typedef struct meeting {
    int64_t taps, lines;
    int64_t at[MOST_TAPS];       /* where the floats of a tap begin in a line of its columns */
    vector_part part[MOST_TAPS]; /* the lanes that have a partner */
    int64_t line[MOST_LINES];    /* where a line begins, from the first row of the channel */
} meeting;

/* The index of y that kernel element k links with index r of x, or -1. */
static int64_t partner_of(const mx_conv_shape *s, int axis, int64_t r, int64_t k)
{
    const int64_t at = r + s->pad[axis] - k * s->dilate[axis], stride = s->stride[axis];
    if (stride == 1)
        return at < s->out[axis] ? at : -1;
    return at < 0 || at % stride || at / stride >= s->out[axis] ? -1 : at / stride;
}

/* The taps that contribute to the vector at position i of a line. */
static void meet_taps(meeting *m, const mx_conv_shape *s, int64_t row, int64_t i)
{
    m->taps = 0;
    for (int64_t k = 0; k < s->kernel[2]; k++) {
        const int64_t at = i + s->pad[2] - k * s->dilate[2], end = s->out[2] - at;
        if (at <= -LANES || end <= 0)
            continue;
        m->at[m->taps] = k * row + at;
        m->part[m->taps++] = vector_part_of(-at, end);
    }
}

/* The lines of columns that contribute to line (depth, height) of dx. */
static void meet_lines(meeting *m, const mx_conv_shape *s, int64_t row, int64_t depth, int64_t height)
{
    m->lines = 0;
    for (int64_t kd = 0; kd < s->kernel[0]; kd++) {
        const int64_t pd = partner_of(s, 0, depth, kd);
        for (int64_t kh = 0; pd >= 0 && kh < s->kernel[1]; kh++) {
            const int64_t ph = partner_of(s, 1, height, kh);
            if (ph >= 0)
                m->line[m->lines++] = (kd * s->kernel[1] + kh) * s->kernel[2] * row + (pd * s->out[1] + ph) * s->out[2];
        }
    }
}

/* One vector of dx: two sums, so that an addition need not wait for the one before. */
static vfloat sum_meeting(const meeting *m, const float *rows)
{
    vfloat even = {0}, odd = {0};
    for (int64_t l = 0; l < m->lines; l++) {
        const float *line = rows + m->line[l];
        int64_t k = 0;
        for (; k + 2 <= m->taps; k += 2) {
            even += vector_load_between(line, m->at[k], m->part[k]);
            odd += vector_load_between(line, m->at[k + 1], m->part[k + 1]);
        }
        if (k < m->taps)
            even += vector_load_between(line, m->at[k], m->part[k]);
    }
    return even + odd;
}

#if defined(__AVX512F__)
/* Lines of y of half a vector, lines of dx no longer than one: the lines are first summed at aligned positions, then
 * moved to their lanes. */
static bool fits_halves(const mx_conv_shape *s) { return s->out[2] == LANES / 2 && s->in[2] <= LANES && !s->pad[2]; }

static vfloat sum_halves(const meeting *m, const float *rows, int64_t row)
{
    vfloat sum = {0};
    for (int64_t k = 0; k < m->taps; k++) {
        vhalf half = {0};
        for (int64_t l = 0; l < m->lines; l++)
            half += half_load(rows + m->line[l] + k * row);
        sum += (vfloat)_mm512_maskz_expand_ps(m->part[k], _mm512_castps256_ps512((__m256)half));
    }
    return sum;
}
#else
static bool fits_halves(const mx_conv_shape *s) { return s->out[2] < 0; }
static vfloat sum_halves(const meeting *m, const float *rows, int64_t row)
{
    (void)row;
    return sum_meeting(m, rows);
}
#endif

bool conv_can_gather(const conv_job *job)
{
    const mx_conv_shape *s = &job->shape;
    return job->gradient && s->stride[2] == 1 && job->result_at[2] == 1 && s->kernel[2] <= MOST_TAPS &&
           s->kernel[0] * s->kernel[1] <= MOST_LINES;
}

void conv_gather(const conv_job *job, const float *rows, int64_t row, float *result)
{
    const mx_conv_shape *s = &job->shape;
    const bool halves = fits_halves(s);
    meeting m;
    for (int64_t i = 0; i < s->in[2]; i += LANES) {
        meet_taps(&m, s, row, i);
        for (int64_t line = 0; line < s->in[0] * s->in[1]; line++) {
            meet_lines(&m, s, row, line / s->in[1], line % s->in[1]);
            float *to = result + line * s->in[2] + i;
            for (int64_t c = 0; c < job->to; c++) {
                const float *from = rows + c * job->taps * row;
                const vfloat sum = halves ? sum_halves(&m, from, row) : sum_meeting(&m, from);
                vector_store_part(to + c * job->result_channel, sum, s->in[2] - i);
            }
        }
    }
}
