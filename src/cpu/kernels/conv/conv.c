/* Convolution: the lists of implementations, and what is common to all (checks, normalised shapes, empty arrays).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/conv/conv.h"

#include <string.h>

#include "base/error.h"
#include "base/threads.h"
#include "cpu/kernels/conv/conv_cost.h"
#include "cpu/kernels/conv/conv_job.h"
#include "cpu/kernels/conv/conv_vector.h"

/* ---- the lists ------------------------------------------------------------------------------------------ */

typedef struct correlate_impl {
    const char *name;
    bool (*accepts)(const conv_job *job);
    mx_code (*run)(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                   float *result);
} correlate_impl;

typedef struct weight_impl {
    const char *name;
    bool (*accepts)(const conv_job *job);
    mx_code (*run)(const conv_job *job, const float *x, const float *dy, float *dw);
} weight_impl;

/* Forward and data gradient: a data gradient is a correlation of dy (see conv_job.h). */
static const correlate_impl correlate_list[] = {
    {"pointwise", conv_is_pointwise, conv_pointwise_run}, /* 1x1: a matrix product */
    {"depthwise", conv_is_depthwise, conv_depthwise_run}, /* lanes are positions, lines read in place */
    {"winograd", accepts_winograd, conv_winograd_run}, /* 3x3, many channels: fewer products */
    {"columns", accepts_columns, conv_columns_run}, /* lanes are positions, lines joined: small images */
    {"pixels", accepts_pixels, conv_pixels_run},    /* lanes are positions: few channels */
    {"blocked", accepts_all, conv_blocked_run},     /* lanes are channels */
};
static const weight_impl weight_list[] = {
    {"pointwise", conv_is_pointwise, conv_pointwise_weight},
    {"depthwise", conv_is_depthwise, conv_depthwise_weight},
    {"winograd", accepts_winograd_weight, conv_winograd_weight},
    {"pixels", accepts_pixels_weight, conv_pixels_weight},
    {"blocked", accepts_all, conv_blocked_weight},
};

static const correlate_impl *pick_correlate(const conv_job *job)
{
    const correlate_impl *i = correlate_list;
    while (!i->accepts(job))
        i++;
    return i;
}

static const weight_impl *pick_weight(const conv_job *job)
{
    const weight_impl *i = weight_list;
    while (!i->accepts(job))
        i++;
    return i;
}

/* ---- shapes --------------------------------------------------------------------------------------------- */

static mx_code check(const mx_conv_shape *s)
{
    if (s->ndim < 1 || s->ndim > 3)
        return mx_fail(MX_ERR_SHAPE, "Convolution: got %d spatial axes, wanted 1 to 3", s->ndim);
    if (s->groups < 1 || s->in_channels % s->groups || s->out_channels % s->groups)
        return mx_fail(MX_ERR_SHAPE, "Convolution: %lld groups must divide %lld input and %lld output channels",
                       (long long)s->groups, (long long)s->in_channels, (long long)s->out_channels);
    for (int i = 0; i < s->ndim; i++) {
        if (s->kernel[i] < 1 || s->stride[i] < 1 || s->dilate[i] < 1 || s->pad[i] < 0)
            return mx_fail(MX_ERR_SHAPE,
                           "Convolution: axis %d has kernel %lld, stride %lld, dilate %lld, pad %lld; "
                           "wanted at least 1, 1, 1, 0",
                           i, (long long)s->kernel[i], (long long)s->stride[i], (long long)s->dilate[i],
                           (long long)s->pad[i]);
        if (s->in[i] < 0 || s->out[i] < 0 || s->batch < 0)
            return mx_fail(MX_ERR_SHAPE, "Convolution: axis %d has a negative size", i);
    }
    return MX_OK;
}

mx_code conv_normalise(mx_conv_shape *full, const mx_conv_shape *s)
{
    const mx_code code = check(s);
    if (code)
        return code;
    const int lead = 3 - s->ndim;
    *full = *s;
    full->ndim = 3;
    for (int i = 0; i < 3; i++) {
        const bool real = i >= lead;
        full->in[i] = real ? s->in[i - lead] : 1;
        full->out[i] = real ? s->out[i - lead] : 1;
        full->kernel[i] = real ? s->kernel[i - lead] : 1;
        full->stride[i] = real ? s->stride[i - lead] : 1;
        full->dilate[i] = real ? s->dilate[i - lead] : 1;
        full->pad[i] = real ? s->pad[i - lead] : 0;
    }
    return MX_OK;
}

static int64_t in_size(const mx_conv_shape *s) { return s->in[0] * s->in[1] * s->in[2]; }
static int64_t out_size(const mx_conv_shape *s) { return s->out[0] * s->out[1] * s->out[2]; }
static int64_t weight_count(const mx_conv_shape *s)
{
    return s->out_channels * (s->in_channels / s->groups) * s->kernel[0] * s->kernel[1] * s->kernel[2];
}

/* Without any product every sum is empty. */
static bool no_products(const mx_conv_shape *s)
{
    return !s->batch || !in_size(s) || !out_size(s) || !s->in_channels || !s->out_channels;
}

/* For a 1x1 convolution without stride and padding, short lines are joined to one long line. */
static void join_lines(mx_conv_shape *s)
{
    for (int i = 0; i < 3; i++)
        if (s->kernel[i] > 1 || s->stride[i] > 1 || s->pad[i] || s->in[i] != s->out[i])
            return;
    for (int i = 1; i >= 0 && s->in[2] < 64 && s->in[2] * s->in[i] <= 1024; i--) {
        s->in[2] = s->out[2] = s->in[2] * s->in[i];
        s->in[i] = s->out[i] = 1;
    }
}

/* ---- the three directions ------------------------------------------------------------------------------- */

static void fill_bias(const mx_conv_shape *s, const float *bias, bool relu, float *y)
{
    const int64_t count = s->batch * s->out_channels * out_size(s), inner = s->channels_last ? 1 : out_size(s);
    for (int64_t i = 0; i < count; i++) {
        const float b = bias ? bias[i / inner % s->out_channels] : 0;
        y[i] = relu && b < 0 ? 0 : b;
    }
}

mx_code MX_LEVEL_NAME(conv_forward)(const mx_conv_shape *s, const float *x, const float *w, const float *bias,
                                    bool relu, float *y)
{
    mx_conv_shape full;
    mx_code code = conv_normalise(&full, s);
    if (code)
        return code;
    if (no_products(&full)) {
        fill_bias(&full, bias, relu, y);
        return MX_OK;
    }
    join_lines(&full);
    conv_job job;
    code = conv_job_open(&job, &full, false);
    if (!code)
        code = pick_correlate(&job)->run(&job, x, w, bias, relu, y);
    conv_job_close(&job);
    return code;
}

mx_code MX_LEVEL_NAME(conv_backward_data)(const mx_conv_shape *s, const float *dy, const float *w, float *dx)
{
    mx_conv_shape full;
    mx_code code = conv_normalise(&full, s);
    if (code)
        return code;
    if (no_products(&full)) {
        memset(dx, 0, (size_t)(full.batch * full.in_channels * in_size(&full)) * sizeof(float));
        return MX_OK;
    }
    join_lines(&full);
    conv_job job;
    code = conv_job_open(&job, &full, true);
    if (!code)
        code = pick_correlate(&job)->run(&job, dy, w, NULL, false, dx);
    conv_job_close(&job);
    return code;
}

typedef struct bias_run {
    const mx_conv_shape *s;
    const float *dy;
    float *dbias;
} bias_run;

/* dbias[o] = sum over n, p of dy[n, o, p] */
static void bias_plain(void *arg, int64_t begin, int64_t end)
{
    const bias_run *r = arg;
    const int64_t size = out_size(r->s);
    for (int64_t o = begin; o < end; o++) {
        double total = 0; /* images are summed in double, so that a large batch loses no precision */
        for (int64_t n = 0; n < r->s->batch; n++) {
            vfloat sum = {0};
            for (int64_t i = 0; i < size; i += LANES)
                sum += vector_load_part(r->dy + (n * r->s->out_channels + o) * size + i, size - i);
            total += (double)vector_sum(sum);
        }
        r->dbias[o] = (float)total;
    }
}

static void bias_channels_last(void *arg, int64_t begin, int64_t end)
{
    const bias_run *r = arg;
    const int64_t rows = r->s->batch * out_size(r->s);
    for (int64_t o = begin; o < end; o++)
        r->dbias[o] = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t o = begin; o < end; o++)
            r->dbias[o] += r->dy[i * r->s->out_channels + o];
}

mx_code MX_LEVEL_NAME(conv_backward_weight)(const mx_conv_shape *s, const float *x, const float *dy, float *dw,
                                            float *dbias)
{
    mx_conv_shape full;
    mx_code code = conv_normalise(&full, s);
    if (code)
        return code;
    const int64_t grain = MX_GRAIN / (full.batch * out_size(&full) + 1) + 1;
    if (dbias)
        mx_parallel(full.out_channels, grain, full.channels_last ? bias_channels_last : bias_plain,
                    &(bias_run){&full, dy, dbias});
    if (no_products(&full)) {
        memset(dw, 0, (size_t)weight_count(&full) * sizeof(float));
        return MX_OK;
    }
    join_lines(&full);
    conv_job job;
    code = conv_job_open(&job, &full, false);
    if (!code)
        code = pick_weight(&job)->run(&job, x, dy, dw);
    conv_job_close(&job);
    return code;
}

const char *MX_LEVEL_NAME(conv_implementation)(const mx_conv_shape *s, int direction)
{
    mx_conv_shape full;
    conv_job job;
    if (conv_normalise(&full, s))
        return "none";
    if (no_products(&full))
        return "empty";
    join_lines(&full);
    if (conv_job_open(&job, &full, direction == 1))
        return "none";
    const char *name = direction == 2 ? pick_weight(&job)->name : pick_correlate(&job)->name;
    conv_job_close(&job);
    return name;
}
