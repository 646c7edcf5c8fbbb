/* Forward and data gradient by Winograd's method: the weight, the products and the results (model in conv_winograd.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/conv/conv_winograd.h"

#include <math.h>

#include "base/interrupt.h"
#include "base/scratch.h"
#include "base/threads.h"
#include "cpu/kernels/gemm/gemm.h"

typedef struct correlation {
    conv_winograd winograd;
    const float *w, *bias;
    bool relu;
    float *result;
} correlation;

/* ---- the weight ---------------------------------------------------------------------------------------------------- */

/* G times three values that are `step` apart; the four results are `to_step` apart. */
CONV_INLINE void expand(const vfloat *g, const int step, vfloat *to, const int to_step)
{
    const vfloat outer = (g[0] + g[2 * step]) * 0.5f, inner = g[step] * 0.5f;
    to[0] = g[0], to[to_step] = outer + inner, to[2 * to_step] = outer - inner, to[3 * to_step] = g[2 * step];
}

/* LANES source channels of one result channel; `tap` has the taps in the order in which they meet the source. */
static void transform_weight(const correlation *r, const int64_t tap[9], int64_t to, int64_t from)
{
    const conv_job *job = r->winograd.job;
    const float *w = r->w + to * job->w_to + from * job->w_from;
    const int64_t count = winograd_least(job->from - from, LANES);
    float taps[9][LANES] = {{0}};
    vfloat g[9], half[12], all[WINOGRAD_NUMBERS];
    for (int64_t c = 0; c < count; c++)
        for (int k = 0; k < 9; k++)
            taps[k][c] = w[c * job->w_from + tap[k]];
    for (int k = 0; k < 9; k++)
        g[k] = vector_load(taps[k]);
    WINOGRAD_UNROLL for (int j = 0; j < 3; j++)
        expand(g + j, 3, half + j, 3);
    WINOGRAD_UNROLL for (int i = 0; i < 4; i++)
        expand(half + 3 * i, 1, all + 4 * i, 1);
    for (int k = 0; k < WINOGRAD_NUMBERS; k++)
        vector_store_part(r->winograd.u + (k * job->to + to) * job->from + from, all[k], count);
}

static void transform_weights(void *arg, int64_t begin, int64_t end)
{
    const correlation *r = arg;
    const conv_job *job = r->winograd.job;
    const conv_axis *h = &job->axis[1], *w = &job->axis[2];
    int64_t tap[9];
    for (int i = 0; i < 9; i++)
        tap[h->offset[i / 3] * 3 + w->offset[i % 3]] = (h->tap[i / 3] * 3 + w->tap[i % 3]) * job->w_tap;
    for (int64_t to = begin; to < end; to++)
        for (int64_t from = 0; from < job->from; from += LANES)
            transform_weight(r, tap, to, from);
}

/* ---- the results --------------------------------------------------------------------------------------------------- */

/* Pairs of neighbouring results; `left` results belong to the line. */
CONV_INLINE void store_pairs(float *to, vfloat first, vfloat second, int64_t left)
{
    vector_store_part(to, VECTOR_WEAVE_LOW(first, second), left);
    if (left > LANES)
        vector_store_part(to + LANES, VECTOR_WEAVE_HIGH(first, second), left - LANES);
}

/* LANES tiles of one channel, `lines` lines of results. */
CONV_INLINE void finish_tiles(const float *m, int64_t step, vfloat bias, vfloat floor, float *to, int64_t line,
                              int64_t lines, int64_t left)
{
    vfloat s[8];
    WINOGRAD_UNROLL for (int j = 0; j < 4; j++) {
        const vfloat m0 = vector_load(m + j * step), m1 = vector_load(m + (4 + j) * step);
        const vfloat m2 = vector_load(m + (8 + j) * step), m3 = vector_load(m + (12 + j) * step);
        s[j] = m0 + m1 + m2, s[4 + j] = m1 - m2 - m3;
    }
    for (int64_t i = 0; i < lines; i++) {
        const vfloat *r = s + 4 * i;
        store_pairs(to + i * line, vector_max(floor, r[0] + r[1] + r[2] + bias),
                    vector_max(floor, r[1] - r[2] - r[3] + bias), left);
    }
}

static void finish_channels(void *arg, int64_t begin, int64_t end)
{
    const correlation *r = arg;
    const conv_winograd *p = &r->winograd;
    const conv_job *job = p->job;
    const vfloat floor = vector_all(r->relu ? 0 : -INFINITY);
    for (int64_t c = begin; c < end; c++)
        for (int64_t i = p->begin; i < p->end; i++) {
            const int64_t y = winograd_line(p, i), lines = winograd_least(job->axis[1].result - y, 2);
            const float *m = p->m + c * p->pitch + (i - p->begin) * p->across;
            float *to =
                r->result + winograd_image(p, i) * job->result_image + c * job->result_channel + y * job->result_at[1];
            for (int64_t t = 0; t < p->across; t += LANES)
                finish_tiles(m + t, p->m_step, vector_all(r->bias ? r->bias[c] : 0), floor, to + 2 * t,
                             job->result_at[1], lines, job->axis[2].result - 2 * t);
        }
}

/* ---- the products -------------------------------------------------------------------------------------------------- */

static mx_code run_strip(correlation *r)
{
    conv_winograd *p = &r->winograd;
    const conv_job *job = p->job;
    const mx_gemm_f32 products = {.m = job->to, .n = (p->end - p->begin) * p->across, .k = job->from, .alpha = 1, .a = p->u,
                                  .lda = job->from, .b = p->v, .ldb = p->pitch, .c = p->m, .ldc = p->pitch,
                                  .batch = WINOGRAD_NUMBERS, .stride_a = job->to * job->from, .stride_b = p->v_step,
                                  .stride_c = p->m_step};
    conv_winograd_sources(p);
    const mx_code code = mx_gemm_f32_run(&products);
    if (!code)
        mx_parallel(job->to, p->grain, finish_channels, r);
    return code;
}

mx_code conv_winograd_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                          float *result)
{
    correlation r = {.w = w, .bias = bias, .relu = relu, .result = result};
    mx_code code = conv_winograd_open(&r.winograd, job, source);
    if (!code)
        mx_parallel(job->to, MX_GRAIN / (WINOGRAD_NUMBERS * job->from) + 1, transform_weights, &r);
    while (!code && conv_winograd_next(&r.winograd))
        code = run_strip(&r);
    mx_scratch_give(r.winograd.u, r.winograd.bytes);
    return code;
}
