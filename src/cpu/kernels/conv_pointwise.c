/* 1x1 convolutions without stride and padding: matrix products on the arrays as they are.
 *
 *     plain          y_n (O, P) = w (O, C) x_n (C, P)      dx_n = w^T dy_n      dw = sum over n of dy_n x_n^T
 *     channels last  y (N P, O) = x (N P, C) w^T           dx = dy w            dw = dy^T x
 *
 * P are the positions of an image; groups are products of their own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/conv_job.h"
#include "cpu/kernels/gemm.h"

typedef struct pointwise {
    int64_t positions, from, to; /* of one image; channels of x and y per group */
    int64_t x_row, y_row;        /* channels last: floats of a position */
} pointwise;

static pointwise sizes_of(const conv_job *job)
{
    const mx_conv_shape *s = &job->shape;
    return (pointwise){s->out[0] * s->out[1] * s->out[2], s->in_channels / s->groups, s->out_channels / s->groups,
                       s->in_channels, s->out_channels};
}

bool conv_is_pointwise(const conv_job *job)
{
    const mx_conv_shape *s = &job->shape;
    for (int i = 0; i < 3; i++)
        if (s->kernel[i] != 1 || s->stride[i] != 1 || s->pad[i] || s->in[i] != s->out[i])
            return false;
    return s->in_channels / s->groups >= 8 && s->out_channels / s->groups >= 8;
}

/* The plain layout has its bias per row of the product: it is laid down first and the product added to it. */
static void lay_bias(const conv_job *job, int64_t positions, const float *bias, float *y)
{
    for (int64_t i = 0; i < job->batch * job->shape.out_channels; i++)
        for (int64_t p = 0; p < positions; p++)
            y[i * positions + p] = bias[i % job->shape.out_channels];
}

static mx_gemm_f32 plain_product(const conv_job *job, const pointwise *p, const float *source, const float *w,
                                 float *result)
{
    return (mx_gemm_f32){.trans_a = job->gradient, .m = job->to, .n = p->positions, .k = job->from, .alpha = 1, .a = w,
                         .lda = p->from, .b = source, .ldb = p->positions, .c = result, .ldc = p->positions,
                         .batch = job->batch, .stride_b = job->source_image, .stride_c = job->result_image};
}

static mx_gemm_f32 last_product(const conv_job *job, const pointwise *p, const float *source, const float *w,
                                float *result)
{
    return (mx_gemm_f32){.trans_b = !job->gradient, .m = job->batch * p->positions, .n = job->to, .k = job->from,
                         .alpha = 1, .a = source, .lda = job->gradient ? p->y_row : p->x_row, .b = w, .ldb = p->from,
                         .c = result, .ldc = job->gradient ? p->x_row : p->y_row, .batch = 1};
}

mx_code conv_pointwise_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                           float *result)
{
    const pointwise p = sizes_of(job);
    const bool last = job->shape.channels_last;
    mx_code code = MX_OK;
    if (bias && !last)
        lay_bias(job, p.positions, bias, result);
    for (int64_t g = 0; g < job->groups && !code; g++) {
        const float *from = source + g * job->from * job->source_channel, *w_group = w + g * job->w_group;
        float *to = result + g * job->to * job->result_channel;
        mx_gemm_f32 product = (last ? last_product : plain_product)(job, &p, from, w_group, to);
        product.relu = relu;
        product.bias = bias && last ? bias + g * job->to : NULL;
        product.beta = bias && !last ? 1 : 0;
        code = mx_gemm_f32_run(&product);
    }
    return code;
}

mx_code conv_pointwise_weight(const conv_job *job, const float *x, const float *dy, float *dw)
{
    const pointwise p = sizes_of(job);
    const bool last = job->shape.channels_last;
    mx_code code = MX_OK;
    for (int64_t g = 0; g < job->groups && !code; g++) {
        mx_gemm_f32 product = {.trans_a = last, .trans_b = !last, .m = p.to, .n = p.from, .k = p.positions, .alpha = 1,
                               .a = dy + g * p.to * job->result_channel, .lda = last ? p.y_row : p.positions,
                               .b = x + g * p.from * job->source_channel, .ldb = last ? p.x_row : p.positions,
                               .c = dw + g * job->w_group, .ldc = p.from, .batch = 1};
        if (last) { /* all images are one long product */
            product.k *= job->batch;
            code = mx_gemm_f32_run(&product);
        }
        for (int64_t n = 0; !last && n < job->batch && !code; n++) {
            code = mx_gemm_f32_run(&product);
            product.beta = 1;
            product.a += job->result_image;
            product.b += job->source_image;
        }
    }
    return code;
}
