/* The gradient of the weight by Winograd's method (model in conv_winograd.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/scratch.h"
#include "base/threads.h"
#include "cpu/kernels/conv/conv_winograd.h"
#include "cpu/kernels/gemm/gemm.h"

typedef struct gradient {
    conv_winograd winograd; /* m holds A dy A', u the sums dU */
    const float *dy;
    float *dw;
} gradient;

/* ---- A dy A' ------------------------------------------------------------------------------------------------------- */

/* A times two values that are `step` apart, in their place and 2 * step and 3 * step after them. */
CONV_INLINE void spread(vfloat *d, const int step)
{
    const vfloat first = d[0], second = d[step];
    d[step] = first + second, d[2 * step] = first - second, d[3 * step] = -second;
}

/* LANES tiles, whose second line may not exist; `left` pixels belong to the line. */
CONV_INLINE void spread_tiles(const float *dy, int64_t line, int64_t lines, int64_t left, float *to, int64_t step)
{
    vfloat d[WINOGRAD_NUMBERS];
    for (int i = 0; i < 2; i++) {
        const vfloat a = vector_load_part(dy + i * line, i < lines ? left : 0);
        const vfloat b =
            i < lines && left > LANES ? vector_load_part(dy + line * i + LANES, left - LANES) : (vfloat){0};
        d[4 * i] = VECTOR_EVEN(a, b), d[4 * i + 1] = VECTOR_ODD(a, b);
        spread(d + 4 * i, 1);
    }
    WINOGRAD_UNROLL for (int j = 0; j < 4; j++)
        spread(d + j, 4);
    for (int k = 0; k < WINOGRAD_NUMBERS; k++)
        vector_store(to + k * step, d[k]);
}

static void spread_channels(void *arg, int64_t begin, int64_t end)
{
    const gradient *g = arg;
    const conv_winograd *p = &g->winograd;
    const conv_job *job = p->job;
    for (int64_t c = begin; c < end; c++)
        for (int64_t i = p->begin; i < p->end; i++) {
            const int64_t y = winograd_line(p, i), lines = winograd_least(job->axis[1].result - y, 2);
            const float *dy =
                g->dy + winograd_image(p, i) * job->result_image + c * job->result_channel + y * job->result_at[1];
            float *to = p->m + c * p->pitch + (i - p->begin) * p->across;
            for (int64_t t = 0; t < p->across; t += LANES)
                spread_tiles(dy + 2 * t, job->result_at[1], lines, job->axis[2].result - 2 * t, to + t, p->m_step);
        }
}

/* ---- dw = G' dU G -------------------------------------------------------------------------------------------------- */

/* G' times four values that are `step` apart; the three results are `to_step` apart. */
CONV_INLINE void reduce(const vfloat *u, const int step, vfloat *to, const int to_step)
{
    const vfloat sum = (u[step] + u[2 * step]) * 0.5f;
    to[0] = u[0] + sum, to[to_step] = (u[step] - u[2 * step]) * 0.5f, to[2 * to_step] = sum + u[3 * step];
}

/* LANES source channels of one result channel. */
static void reduce_sums(const gradient *g, int64_t to, int64_t from)
{
    const conv_job *job = g->winograd.job;
    const int64_t count = winograd_least(job->from - from, LANES);
    float taps[9][LANES], *dw = g->dw + to * job->w_to + from * job->w_from;
    vfloat u[WINOGRAD_NUMBERS], half[12], w[9];
    for (int k = 0; k < WINOGRAD_NUMBERS; k++)
        u[k] = vector_load_part(g->winograd.u + (k * job->to + to) * job->from + from, count);
    WINOGRAD_UNROLL for (int j = 0; j < 4; j++)
        reduce(u + j, 4, half + j, 4);
    WINOGRAD_UNROLL for (int i = 0; i < 3; i++)
        reduce(half + 4 * i, 1, w + 3 * i, 1);
    for (int k = 0; k < 9; k++)
        vector_store(taps[k], w[k]);
    for (int64_t c = 0; c < count; c++)
        for (int k = 0; k < 9; k++)
            dw[c * job->w_from + k * job->w_tap] = taps[k][c];
}

static void reduce_channels(void *arg, int64_t begin, int64_t end)
{
    const gradient *g = arg;
    for (int64_t to = begin; to < end; to++)
        for (int64_t from = 0; from < g->winograd.job->from; from += LANES)
            reduce_sums(g, to, from);
}

/* ---- the products -------------------------------------------------------------------------------------------------- */

static mx_code run_strip(gradient *g)
{
    conv_winograd *p = &g->winograd;
    const conv_job *job = p->job;
    const mx_gemm_f32 products = {.trans_b = true, .m = job->to, .n = job->from, .k = (p->end - p->begin) * p->across,
                                  .alpha = 1, .beta = p->begin ? 1 : 0, .a = p->m, .lda = p->pitch, .b = p->v,
                                  .ldb = p->pitch, .c = p->u, .ldc = job->from, .batch = WINOGRAD_NUMBERS,
                                  .stride_a = p->m_step, .stride_b = p->v_step, .stride_c = job->to * job->from};
    conv_winograd_sources(p);
    mx_parallel(job->to, p->grain, spread_channels, g);
    return mx_gemm_f32_run(&products);
}

mx_code conv_winograd_weight(const conv_job *job, const float *x, const float *dy, float *dw)
{
    gradient g = {.dy = dy, .dw = dw};
    mx_code code = conv_winograd_open(&g.winograd, job, x);
    while (!code && conv_winograd_next(&g.winograd))
        code = run_strip(&g);
    if (!code)
        mx_parallel(job->to, MX_GRAIN / (WINOGRAD_NUMBERS * job->from) + 1, reduce_channels, &g);
    mx_scratch_give(g.winograd.u, g.winograd.bytes);
    return code;
}
