/* The reference convolution in double (loops in conv_reference.h).
 *
 * Model: a place is one element of y; helpers find its offset and those of its factors in x and w, for both layouts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cpu/kernels/conv/conv_job.h"

typedef struct conv_place {
    int64_t n, o, at[3]; /* image, output channel, position */
} conv_place;

static void conv_place_begin(conv_place *p) { memset(p, 0, sizeof *p); }

static bool conv_place_valid(const mx_conv_shape *s, const conv_place *p)
{
    return p->n < s->batch && s->out_channels > 0 && s->out[0] > 0 && s->out[1] > 0 && s->out[2] > 0;
}

static void conv_place_next(const mx_conv_shape *s, conv_place *p)
{
    for (int i = 2; i >= 0; i--) {
        if (++p->at[i] < s->out[i])
            return;
        p->at[i] = 0;
    }
    if (++p->o == s->out_channels) {
        p->o = 0;
        p->n++;
    }
}

static int64_t element(bool channels_last, int64_t n, int64_t c, int64_t channels, const int64_t at[3],
                       const int64_t size[3])
{
    const int64_t position = (at[0] * size[1] + at[1]) * size[2] + at[2], positions = size[0] * size[1] * size[2];
    return channels_last ? (n * positions + position) * channels + c : (n * channels + c) * positions + position;
}

static int64_t conv_place_output(const mx_conv_shape *s, const conv_place *p)
{
    return element(s->channels_last, p->n, p->o, s->out_channels, p->at, s->out);
}

static int64_t conv_place_weight(const mx_conv_shape *s, int64_t o, int64_t c, const int64_t k[3])
{
    return element(s->channels_last, o, c, s->in_channels / s->groups, k, s->kernel);
}

/* The element of x that kernel element k reads; -1 in the padding. */
static int64_t conv_place_input(const mx_conv_shape *s, const conv_place *p, const int64_t k[3], int64_t c)
{
    int64_t at[3];
    for (int i = 0; i < 3; i++) {
        at[i] = p->at[i] * s->stride[i] - s->pad[i] + k[i] * s->dilate[i];
        if (at[i] < 0 || at[i] >= s->in[i])
            return -1;
    }
    return element(s->channels_last, p->n, c, s->in_channels, at, s->in);
}

#define T double
#define NAME(x) x##_f64
#include "cpu/kernels/conv/conv_reference.h"
#undef T
#undef NAME

mx_code MX_LEVEL_NAME(conv_reference_f64)(const mx_conv_shape *s, const double *x, const double *w, const double *bias,
                                          bool relu, double *y)
{
    mx_conv_shape full;
    const mx_code code = conv_normalise(&full, s);
    if (!code)
        forward_f64(&full, x, w, bias, relu, y);
    return code;
}

mx_code MX_LEVEL_NAME(conv_reference_backward_data_f64)(const mx_conv_shape *s, const double *dy, const double *w,
                                                        double *dx)
{
    mx_conv_shape full;
    const mx_code code = conv_normalise(&full, s);
    if (code)
        return code;
    const int64_t count = full.batch * full.in_channels * full.in[0] * full.in[1] * full.in[2];
    memset(dx, 0, (size_t)count * sizeof(double));
    backward_f64(&full, NULL, w, dy, dx, NULL);
    return MX_OK;
}

mx_code MX_LEVEL_NAME(conv_reference_backward_weight_f64)(const mx_conv_shape *s, const double *x, const double *dy,
                                                          double *dw, double *dbias)
{
    mx_conv_shape full;
    const mx_code code = conv_normalise(&full, s);
    if (code)
        return code;
    const int64_t taps = full.kernel[0] * full.kernel[1] * full.kernel[2];
    memset(dw, 0, (size_t)(full.out_channels * (full.in_channels / full.groups) * taps) * sizeof(double));
    backward_f64(&full, x, NULL, dy, NULL, dw);
    if (dbias)
        bias_sums_f64(&full, dy, dbias);
    return MX_OK;
}
