/* Pooling: plan, dispatch and the two types (loops in pool_body.h, 2x2 windows in pool_pairs.h, planes in pool_lines.c).
 *
 * Tasks are (image, block of channels): one channel in the NCHW layout, up to POOL_INNER contiguous ones with channels
 * last.  Windows of a task may overlap, tasks never do, so the backward pass needs no locks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/pool/pool.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/pool/pool_lines.h"
#include "cpu/kernels/pool/pool_pairs.h"

#define POOL_INNER 64
#define WORK_AT_ONCE (1 << 20) /* elements of windows between two questions whether to stop */

typedef struct pool_window {
    int64_t begin[3], end[3]; /* inside the input */
    int64_t at[3];            /* strides of x along the axes */
    int64_t inner;            /* contiguous channels */
    double scale;             /* of sums */
    int p;
    bool empty; /* entirely outside the input */
} pool_window;

typedef struct pool_plan {
    mx_pool_shape shape; /* with three axes */
    int64_t positions;   /* of y */
    int64_t blocks;      /* of channels */
    int64_t in_image, in_block, out_image, out_block;
    int64_t at[3], out_at; /* strides of x, and between the positions of y */
} pool_plan;

static int64_t pool_inner(const pool_plan *p, int64_t block)
{
    const int64_t left = p->shape.channels - block * POOL_INNER;
    return !p->shape.channels_last ? 1 : left < POOL_INNER ? left : POOL_INNER;
}

/* The window of output position i. */
static void pool_window_set(const pool_plan *p, int64_t i, pool_window *w)
{
    const mx_pool_shape *s = &p->shape;
    const int64_t line = i / s->out[2], at[3] = {line / s->out[1], line % s->out[1], i % s->out[2]};
    int64_t padded = 1, real = 1;
    for (int a = 0; a < 3; a++) {
        const int64_t begin = at[a] * s->stride[a] - s->pad[a], most = s->in[a] + s->pad[a];
        const int64_t end = begin + s->kernel[a] < most ? begin + s->kernel[a] : most;
        w->begin[a] = begin > 0 ? begin : 0;
        w->end[a] = end < s->in[a] ? end : s->in[a];
        padded *= end > begin ? end - begin : 0;
        real *= w->end[a] > w->begin[a] ? w->end[a] - w->begin[a] : 0;
    }
    const int64_t size = s->type != MX_POOL_AVG ? 1 : s->count_include_pad ? padded : real;
    w->empty = real == 0;
    w->scale = size > 0 ? 1 / (double)size : 0;
}

#define T float
#define NAME(x) x##_f32
#define LOWEST -FLT_MAX
#define ROOT2 sqrtf
#define ROOT3 cbrtf
#include "cpu/kernels/pool/pool_body.h"
#undef T
#undef NAME
#undef LOWEST
#undef ROOT2
#undef ROOT3

#define T double
#define NAME(x) x##_f64
#define LOWEST -DBL_MAX
#define ROOT2 sqrt
#define ROOT3 cbrt
#include "cpu/kernels/pool/pool_body.h"

/* ---- plans ---------------------------------------------------------------------------------------------- */

static mx_code check(const mx_pool_shape *s)
{
    if (s->ndim < 1 || s->ndim > 3)
        return mx_fail(MX_ERR_SHAPE, "Pooling: got %d spatial axes, wanted 1 to 3", s->ndim);
    if (s->type == MX_POOL_LP && (s->p < 1 || s->p > 3))
        return mx_fail(MX_ERR_ATTRIBUTE, "Pooling: p_value is %d, wanted 1, 2 or 3", s->p);
    for (int i = 0; i < s->ndim; i++)
        if (s->kernel[i] < 1 || s->stride[i] < 1 || s->pad[i] < 0 || s->in[i] < 0 || s->out[i] < 0)
            return mx_fail(MX_ERR_SHAPE,
                           "Pooling: axis %d has kernel %lld, stride %lld, pad %lld; wanted at least 1, 1, 0", i,
                           (long long)s->kernel[i], (long long)s->stride[i], (long long)s->pad[i]);
    return MX_OK;
}

static mx_code make_plan(pool_plan *p, const mx_pool_shape *s)
{
    const mx_code code = check(s);
    if (code)
        return code;
    const int lead = 3 - s->ndim;
    const int64_t channels = s->channels;
    memset(p, 0, sizeof *p);
    p->shape = *s;
    for (int i = 0; i < 3; i++) {
        const bool real = i >= lead;
        p->shape.in[i] = real ? s->in[i - lead] : 1;
        p->shape.out[i] = real ? s->out[i - lead] : 1;
        p->shape.kernel[i] = real ? s->kernel[i - lead] : 1;
        p->shape.stride[i] = real ? s->stride[i - lead] : 1;
        p->shape.pad[i] = real ? s->pad[i - lead] : 0;
    }
    const mx_pool_shape *f = &p->shape;
    const int64_t in = f->in[0] * f->in[1] * f->in[2];
    p->positions = f->out[0] * f->out[1] * f->out[2];
    p->blocks = s->channels_last ? (channels + POOL_INNER - 1) / POOL_INNER : channels;
    p->in_image = in * channels;
    p->out_image = p->positions * channels;
    p->in_block = s->channels_last ? POOL_INNER : in;
    p->out_block = s->channels_last ? POOL_INNER : p->positions;
    p->out_at = p->at[2] = s->channels_last ? channels : 1;
    p->at[1] = p->at[2] * f->in[2];
    p->at[0] = p->at[1] * f->in[1];
    return MX_OK;
}

/* Tasks that are worth a separate thread. */
static int64_t task_grain(const pool_plan *p)
{
    const int64_t work = p->positions * p->shape.kernel[0] * p->shape.kernel[1] * p->shape.kernel[2] * pool_inner(p, 0);
    return MX_GRAIN / (work < MX_GRAIN ? work + 1 : MX_GRAIN) + 1;
}

static int64_t in_count(const pool_plan *p) { return p->shape.batch * p->in_image; }

/* ---- adjacent windows of two by two: the common case, in vectors ----------------------------------------- */

static bool is_pairs(const pool_plan *p)
{
    const mx_pool_shape *s = &p->shape;
    return !s->channels_last && s->type != MX_POOL_LP && s->in[0] == 1 && s->out[0] == 1 && s->kernel[0] == 1 &&
           !s->pad[0] && s->kernel[1] == 2 && s->kernel[2] == 2 && s->stride[1] == 2 && s->stride[2] == 2 &&
           !s->pad[1] && !s->pad[2] && 2 * s->out[1] <= s->in[1] && 2 * s->out[2] <= s->in[2];
}

static void pairs_range(void *arg, int64_t begin, int64_t end)
{
    const run_f32 *r = arg;
    const mx_pool_shape *s = &r->plan.shape;
    const int64_t width = s->in[2], plane = s->in[1] * width;
    const float scale = s->type == MX_POOL_AVG ? 0.25f : 1;
    for (int64_t task = begin; task < end; task++) {
        if (!r->dy && s->type == MX_POOL_MAX) {
            pairs_max_plane(r->x + task * plane, width, r->result + task * s->out[1] * s->out[2], s->out[1], s->out[2]);
            continue;
        }
        for (int64_t i = 0; i < s->out[1]; i++) {
            const int64_t in = task * plane + 2 * i * width, out = (task * s->out[1] + i) * s->out[2];
            if (!r->dy)
                pairs_sum_forward(r->x + in, width, scale, r->result + out, s->out[2]);
            else if (s->type == MX_POOL_MAX)
                pairs_max_backward(r->x + in, r->dy + out, width, r->result + in, s->out[2]);
            else
                pairs_sum_backward(r->dy + out, width, scale, r->result + in, s->out[2]);
        }
    }
}

/* ---- one window for each plane: sums in vectors ------------------------------------------------------------------ */

static bool is_whole(const pool_plan *p)
{
    const mx_pool_shape *s = &p->shape;
    bool whole = !s->channels_last && (s->type == MX_POOL_AVG || s->type == MX_POOL_SUM);
    for (int i = 0; i < 3; i++)
        whole = whole && s->out[i] == 1 && !s->pad[i] && s->kernel[i] >= s->in[i];
    return whole && p->in_block > 0;
}

static float plane_sum(const float *x, int64_t n)
{
    vfloat sum[4] = {{0}};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int k = 0; k < 4; k++)
            sum[k] += vector_load(x + i + k * LANES);
    for (; i < n; i += LANES)
        sum[0] += vector_load_part(x + i, n - i);
    return vector_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

static void whole_range(void *arg, int64_t begin, int64_t end)
{
    const run_f32 *r = arg;
    const int64_t plane = r->plan.in_block;
    const float scale = r->plan.shape.type == MX_POOL_AVG ? (float)(1 / (double)plane) : 1;
    for (int64_t task = begin; task < end; task++) {
        if (!r->dy) {
            r->result[task] = plane_sum(r->x + task * plane, plane) * scale;
            continue;
        }
        for (int64_t i = 0; i < plane; i++)
            r->result[task * plane + i] = r->dy[task] * scale;
    }
}

/* ---- entries -------------------------------------------------------------------------------------------- */

static mx_code run_all_f32(const mx_pool_shape *s, const float *x, const float *dy, float *result)
{
    run_f32 r = {.x = x, .dy = dy, .result = result};
    const mx_code code = make_plan(&r.plan, s);
    if (code)
        return code;
    const pool_plan *p = &r.plan;
    const bool pairs = is_pairs(p);
    if (is_whole(p)) {
        mx_parallel(p->shape.batch * p->blocks, task_grain(p), whole_range, &r);
        return MX_OK;
    }
    if (!pairs && pool_lines_fit(&p->shape))
        return pool_lines_run(&p->shape, x, dy, result);
    const bool covers = pairs && p->shape.in[1] == 2 * p->shape.out[1] && p->shape.in[2] == 2 * p->shape.out[2];
    if (dy && !covers)
        memset(result, 0, (size_t)in_count(p) * sizeof(float));
    mx_parallel(p->shape.batch * p->blocks, task_grain(p), pairs ? pairs_range : run_range_f32, &r);
    return MX_OK;
}

static mx_code run_all_f64(const mx_pool_shape *s, const double *x, const double *dy, double *result)
{
    run_f64 r = {.x = x, .dy = dy, .result = result};
    const mx_code code = make_plan(&r.plan, s);
    if (code)
        return code;
    if (dy)
        memset(result, 0, (size_t)in_count(&r.plan) * sizeof(double));
    mx_parallel(r.plan.shape.batch * r.plan.blocks, task_grain(&r.plan), run_range_f64, &r);
    return MX_OK;
}

mx_code MX_LEVEL_NAME(pool_forward)(const mx_pool_shape *s, const float *x, float *y)
{
    return run_all_f32(s, x, NULL, y);
}

mx_code MX_LEVEL_NAME(pool_backward)(const mx_pool_shape *s, const float *x, const float *dy, float *dx)
{
    return run_all_f32(s, x, dy, dx);
}

mx_code MX_LEVEL_NAME(pool_forward_f64)(const mx_pool_shape *s, const double *x, double *y)
{
    return run_all_f64(s, x, NULL, y);
}

mx_code MX_LEVEL_NAME(pool_backward_f64)(const mx_pool_shape *s, const double *x, const double *dy, double *dx)
{
    return run_all_f64(s, x, dy, dx);
}

#define PICK(name, type, run, range)                                                                       \
    mx_code MX_LEVEL_NAME(name)(const mx_pool_shape *s, const type *x, const type *values, type *y)        \
    {                                                                                                      \
        run r = {.x = x, .values = values, .result = y};                                                   \
        const mx_code code = make_plan(&r.plan, s);                                                        \
        if (!code)                                                                                         \
            mx_parallel(r.plan.shape.batch * r.plan.blocks, task_grain(&r.plan), range, &r);               \
        return code;                                                                                       \
    }
PICK(pool_pick, float, run_f32, run_range_f32)
PICK(pool_pick_f64, double, run_f64, run_range_f64)
