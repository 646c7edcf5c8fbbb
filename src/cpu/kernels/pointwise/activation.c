/* Activation, LeakyReLU and their gradients: one pass each.  SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/activation.h"

#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/pointwise/pointwise_loops.h"
#include "cpu/kernels/random/philox.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

typedef struct activation_job {
    const void *in[3];
    void *out, *sums; /* sums: (channels), the gradient of gamma */
    mx_unary_fn unary;
    mx_backward_fn backward;
    int64_t outer, channels, inner; /* of prelu: data is (outer, channels, inner); else 0 */
    int64_t item;                   /* bytes */
    double low, high;               /* of rrelu's slopes */
    mx_rng rng;
} activation_job;

#define T float
#define NAME(x) x##_f
#include "cpu/kernels/pointwise/activation_body.h"
#undef T
#undef NAME
#define T double
#define NAME(x) x##_d
#include "cpu/kernels/pointwise/activation_body.h"
#undef T
#undef NAME

/* ---- Activation: the loops of the pointwise table ------------------------------------------------------------ */

static const int rows[] = {
#define ROW(type, row) [MX_ACTIVATION_##type] = MX_ROW_##row,
    MX_ACTIVATION_ROWS(ROW)
#undef ROW
};

static void unary_range(void *arg, int64_t begin, int64_t end)
{
    const activation_job *job = arg;
    job->unary((const char *)job->in[0] + begin * job->item, (char *)job->out + begin * job->item, end - begin);
}

static void backward_range(void *arg, int64_t begin, int64_t end)
{
    const activation_job *job = arg;
    const int64_t at = begin * job->item;
    job->backward((const char *)job->in[0] + at, (const char *)job->in[1] + at, NULL, (char *)job->out + at,
                  end - begin);
}

static mx_code run_activation(const mx_kernel_call *call)
{
    const mx_activation_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const mx_pointwise_loops *table = compute == MX_FLOAT32 ? mx_pointwise_f32 : mx_pointwise_f64;
    activation_job job = {.in = {mx_data(call->in[0])}, .out = mx_data(call->out[0]), .item = mx_dtype_size(compute)};
    job.unary = table[rows[attrs->act_type]].unary;
    mx_parallel(call->in[0]->size, MX_GRAIN, unary_range, &job);
    return MX_OK;
}

static mx_code run_activation_backward(const mx_kernel_call *call)
{
    const mx_activation_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    if (attrs->act_type == MX_ACTIVATION_SOFTSIGN)
        return mx_number_over(MX_NUMBER_softsign_gradient, (double[3]){0}, call->in[1], call->in[0], call->out[0]);
    const mx_pointwise_loops *table = compute == MX_FLOAT32 ? mx_pointwise_f32 : mx_pointwise_f64;
    activation_job job = {.in = {mx_data(call->in[0]), mx_data(call->in[1])},
                          .out = mx_data(call->out[0]),
                          .backward = table[rows[attrs->act_type]].backward,
                          .item = mx_dtype_size(compute)};
    mx_parallel(call->in[0]->size, MX_GRAIN, backward_range, &job);
    return MX_OK;
}

/* ---- LeakyReLU ------------------------------------------------------------------------------------------------ */

static void split_channels(activation_job *job, const mx_array *data, const mx_array *gamma)
{
    job->channels = gamma->size;
    job->inner = mx_prelu_inner(data->shape, data->ndim, gamma->shape, gamma->ndim);
    job->outer = data->size / (job->channels * job->inner);
}

/* Slopes of rrelu: random ones while training, their mean otherwise. */
static void draw_slopes(void *arg, int64_t begin, int64_t end)
{
    const activation_job *job = arg;
    for (int64_t i = begin; i < end; i++) {
        uint32_t words[4];
        mx_philox(job->rng.seed, job->rng.counter + (uint64_t)i, words);
        const double slope = job->low + mx_uniform53(words[0], words[1]) * (job->high - job->low);
        if (job->item == 4)
            ((float *)job->sums)[i] = (float)slope;
        else
            ((double *)job->sums)[i] = slope;
    }
}

static void make_slopes(activation_job *job, const mx_kernel_call *call, const mx_leaky_relu_attrs *attrs)
{
    job->low = attrs->lower_bound, job->high = attrs->upper_bound;
    if (!call->training)
        job->low = job->high = (attrs->lower_bound + attrs->upper_bound) / 2;
    else
        job->rng = mx_rng_reserve((uint64_t)call->in[0]->size);
    job->sums = mx_data(call->out[1]);
    mx_parallel(call->in[0]->size, MX_GRAIN / 16, draw_slopes, job);
}

static const struct {
    int forward, gradient;
} leaky_rows[] = {
#define ROW(type, row) [MX_LEAKY_RELU_##type] = {MX_NUMBER_##row, MX_NUMBER_##row##_gradient},
    MX_LEAKY_RELU_ROWS(ROW)
#undef ROW
};

static mx_code run_leaky(const mx_kernel_call *call)
{
    const mx_leaky_relu_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    const mx_array *data = call->in[0], *gamma = call->in[1];
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const bool prelu = attrs->act_type == MX_LEAKY_RELU_PRELU, rrelu = attrs->act_type == MX_LEAKY_RELU_RRELU;
    const int row = leaky_rows[attrs->act_type].forward;
    if (!prelu && !rrelu)
        return mx_number_over(row, (double[3]){attrs->slope}, data, NULL, call->out[0]);
    if (prelu && mx_is_none(gamma))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "act_type is prelu, but the input gamma is absent");
    activation_job job = {.in = {mx_data(data), mx_data(data)}, .out = mx_data(call->out[0])};
    job.item = mx_dtype_size(compute);
    if (prelu)
        split_channels(&job, data, gamma);
    else
        make_slopes(&job, call, attrs);
    job.in[2] = prelu ? mx_data(gamma) : job.sums;
    mx_parallel(data->size, MX_GRAIN / 2, compute == MX_FLOAT32 ? leaky_f : leaky_d, &job);
    return MX_OK;
}

static mx_code run_leaky_backward(const mx_kernel_call *call)
{
    const mx_leaky_relu_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    const mx_array *data = call->in[1], *gamma = call->in[2];
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const bool prelu = attrs->act_type == MX_LEAKY_RELU_PRELU, rrelu = attrs->act_type == MX_LEAKY_RELU_RRELU;
    const int row = leaky_rows[attrs->act_type].gradient;
    if ((prelu && mx_is_none(gamma)) || (rrelu && mx_is_none(call->in[3])))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "the input %s is absent", prelu ? "gamma" : "mask");
    if (!prelu && !rrelu)
        return mx_number_over(row, (double[3]){attrs->slope}, data, call->in[0], call->out[0]);
    activation_job job = {.in = {mx_data(data), mx_data(call->in[0]), mx_data(prelu ? gamma : call->in[3])},
                          .out = mx_data(call->out[0])};
    if (prelu)
        split_channels(&job, data, gamma);
    mx_parallel(data->size, MX_GRAIN / 2, compute == MX_FLOAT32 ? leaky_gradient_f : leaky_gradient_d, &job);
    if (!prelu)
        return MX_OK;
    job.sums = mx_data(call->out[1]);
    mx_parallel(job.channels, 1 + MX_GRAIN / (job.outer * job.inner + 1),
                compute == MX_FLOAT32 ? prelu_sums_f : prelu_sums_d, &job);
    return MX_OK;
}

MX_CPU_KERNELS(activation) = {{"Activation", run_activation, NULL, MX_KERNEL_WIDEN},
                              {"_backward_Activation", run_activation_backward, NULL, MX_KERNEL_WIDEN},
                              {"LeakyReLU", run_leaky, NULL, MX_KERNEL_WIDEN},
                              {"_backward_LeakyReLU", run_leaky_backward, NULL, MX_KERNEL_WIDEN},
                              {NULL, NULL, NULL}};
