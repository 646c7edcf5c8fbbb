/* 1x1 convolutions without padding: matrix products.
 *
 *     NCHW           y_n (O, P) = w (O, C) x_n (C, P)      dx_n = w^T dy_n      dw = sum over n of dy_n x_n^T
 *     channels last  y (N P, O) = x (N P, C) w^T           dx = dy w            dw = dy^T x
 *
 * P are the positions of a result; groups are separate products.  The arrays are used as they are, but in the
 * NCHW layout x is made compact (conv_compact.h) if there is a stride, and small images are joined to one product,
 * which wastes no part of a vector and packs w once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/kernels/conv/conv_compact.h"
#include "cpu/kernels/gemm/gemm.h"

#define SMALL_IMAGE 128     /* positions: smaller ones are joined ... */
#define JOINED_CHANNELS 64  /* ... if there are so many channels that copying costs little */

/* An operand with channels as rows and positions as columns, of one group. */
typedef struct operand {
    const float *source; /* one of these two */
    float *result;
    int64_t row, image; /* floats from one channel, from one image to the next */
} operand;

static int64_t positions_of(const conv_job *job) { return job->shape.out[0] * job->shape.out[1] * job->shape.out[2]; }

static bool is_strided(const conv_job *job)
{
    return job->shape.stride[0] > 1 || job->shape.stride[1] > 1 || job->shape.stride[2] > 1;
}

static bool is_joined(const conv_job *job)
{
    return job->batch > 1 && positions_of(job) < SMALL_IMAGE && job->from >= JOINED_CHANNELS &&
           job->to >= JOINED_CHANNELS;
}

bool conv_is_pointwise(const conv_job *job)
{
    const mx_conv_shape *s = &job->shape;
    for (int i = 0; i < 3; i++)
        if (s->kernel[i] != 1 || s->pad[i] || (s->out[i] - 1) * s->stride[i] >= s->in[i] ||
            (s->stride[i] == 1 && s->in[i] != s->out[i]))
            return false;
    return job->from >= 8 && job->to >= 8 && !(s->channels_last && is_strided(job));
}

/* ---- the NCHW layout ------------------------------------------------------------------------------------ */

/* The bias is per row of the product: it is stored first and the product added to it. */
static void lay_bias(const conv_job *job, const float *bias, float *y)
{
    const int64_t positions = positions_of(job);
    for (int64_t i = 0; i < job->batch * job->shape.out_channels; i++)
        for (int64_t p = 0; p < positions; p++)
            y[i * positions + p] = bias[i % job->shape.out_channels];
}

/* `joined`: the images are contiguous and form one product. */
static mx_code plain_products(const conv_job *job, bool joined, operand from, const float *w, operand to, float beta,
                              bool relu)
{
    const int64_t images = joined ? job->batch : 1, positions = positions_of(job);
    mx_code code = MX_OK;
    for (int64_t g = 0; g < job->groups && !code; g++) {
        const mx_gemm_f32 product = {
            .trans_a = job->gradient, .m = job->to, .n = images * positions, .k = job->from, .alpha = 1, .beta = beta,
            .a = w + g * job->w_group, .lda = job->gradient ? job->to : job->from,
            .b = from.source + g * job->from * from.row, .ldb = from.row, .c = to.result + g * job->to * to.row,
            .ldc = to.row, .relu = relu, .batch = job->batch / images, .stride_b = from.image, .stride_c = to.image};
        code = mx_gemm_f32_run(&product);
    }
    return code;
}

static mx_code plain_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                         float *result)
{
    const bool joined = is_joined(job), strided = is_strided(job);
    const bool gather = joined || (strided && !job->gradient), scatter = joined || (strided && job->gradient);
    operand from = {.source = source, .row = job->source_channel, .image = job->source_image};
    operand to = {.result = result, .row = job->result_channel, .image = job->result_image};
    conv_compact compact_from = {0}, compact_to = {0};
    mx_code code = gather ? conv_compact_open(&compact_from, &job->shape, job->gradient, joined) : MX_OK;
    if (!code && scatter)
        code = conv_compact_open(&compact_to, &job->shape, !job->gradient, joined);
    if (!code && gather) {
        conv_compact_gather(&compact_from, source);
        from = (operand){.source = compact_from.data, .row = compact_from.channel, .image = compact_from.image};
    }
    if (scatter)
        to = (operand){.result = compact_to.data, .row = compact_to.channel, .image = compact_to.image};
    else if (bias)
        lay_bias(job, bias, result);
    if (!code)
        code = plain_products(job, joined, from, w, to, bias && !scatter ? 1 : 0, relu && !scatter);
    if (!code && scatter) {
        compact_to.bias = bias, compact_to.relu = relu;
        conv_compact_scatter(&compact_to, result);
    }
    conv_compact_close(&compact_from);
    conv_compact_close(&compact_to);
    return code;
}

static mx_code plain_weight_products(const conv_job *job, bool joined, operand x, operand dy, float *dw)
{
    const int64_t images = joined ? job->batch : 1;
    mx_code code = MX_OK;
    for (int64_t g = 0; g < job->groups; g++)
        for (int64_t n = 0; n < job->batch / images && !code; n++) {
            const mx_gemm_f32 product = {
                .trans_b = true, .m = job->to, .n = job->from, .k = images * positions_of(job), .alpha = 1,
                .beta = n ? 1 : 0, .a = dy.source + n * dy.image + g * job->to * dy.row, .lda = dy.row,
                .b = x.source + n * x.image + g * job->from * x.row, .ldb = x.row, .c = dw + g * job->w_group,
                .ldc = job->from, .batch = 1};
            code = mx_gemm_f32_run(&product);
        }
    return code;
}

static mx_code plain_weight(const conv_job *job, const float *x, const float *dy, float *dw)
{
    const bool joined = is_joined(job), strided = is_strided(job);
    operand from_x = {.source = x, .row = job->source_channel, .image = job->source_image};
    operand from_dy = {.source = dy, .row = job->result_channel, .image = job->result_image};
    conv_compact compact_x = {0}, compact_dy = {0};
    mx_code code = joined || strided ? conv_compact_open(&compact_x, &job->shape, false, joined) : MX_OK;
    if (!code && joined)
        code = conv_compact_open(&compact_dy, &job->shape, true, true);
    if (!code && compact_x.data) {
        conv_compact_gather(&compact_x, x);
        from_x = (operand){.source = compact_x.data, .row = compact_x.channel, .image = compact_x.image};
    }
    if (!code && compact_dy.data) {
        conv_compact_gather(&compact_dy, dy);
        from_dy = (operand){.source = compact_dy.data, .row = compact_dy.channel, .image = compact_dy.image};
    }
    if (!code)
        code = plain_weight_products(job, joined, from_x, from_dy, dw);
    conv_compact_close(&compact_x);
    conv_compact_close(&compact_dy);
    return code;
}

/* ---- channels last: all images are one long product ------------------------------------------------------ */

static mx_code last_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                        float *result)
{
    mx_code code = MX_OK;
    for (int64_t g = 0; g < job->groups && !code; g++) {
        const mx_gemm_f32 product = {
            .trans_b = !job->gradient, .m = job->batch * positions_of(job), .n = job->to, .k = job->from, .alpha = 1,
            .a = source + g * job->from, .lda = job->from * job->groups, .b = w + g * job->w_group,
            .ldb = job->gradient ? job->to : job->from, .c = result + g * job->to, .ldc = job->to * job->groups,
            .bias = bias ? bias + g * job->to : NULL, .relu = relu, .batch = 1};
        code = mx_gemm_f32_run(&product);
    }
    return code;
}

static mx_code last_weight(const conv_job *job, const float *x, const float *dy, float *dw)
{
    mx_code code = MX_OK;
    for (int64_t g = 0; g < job->groups && !code; g++) {
        const mx_gemm_f32 product = {
            .trans_a = true, .m = job->to, .n = job->from, .k = job->batch * positions_of(job), .alpha = 1,
            .a = dy + g * job->to, .lda = job->to * job->groups, .b = x + g * job->from, .ldb = job->from * job->groups,
            .c = dw + g * job->w_group, .ldc = job->from, .batch = 1};
        code = mx_gemm_f32_run(&product);
    }
    return code;
}

mx_code conv_pointwise_run(const conv_job *job, const float *source, const float *w, const float *bias, bool relu,
                           float *result)
{
    return (job->shape.channels_last ? last_run : plain_run)(job, source, w, bias, relu, result);
}

mx_code conv_pointwise_weight(const conv_job *job, const float *x, const float *dy, float *dw)
{
    return (job->shape.channels_last ? last_weight : plain_weight)(job, x, dy, dw);
}
