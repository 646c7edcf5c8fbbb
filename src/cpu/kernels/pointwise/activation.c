/* Activation, LeakyReLU and their gradients: one pass each.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/threads.h"
#include "cpu/kernels/pointwise/math_f32.h"
#include "cpu/kernels/random/philox.h"
#include "cpu/kernels/pointwise/pointwise_loops.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

#define SELU_SCALE 1.0507009873554804934193349852946
#define SELU_ALPHA 1.6732632423543772848170429916717

typedef struct activation_job {
    const void *in[3];
    void *out, *sums; /* sums: (channels), the gradient of gamma */
    int type;
    double slope;
    int64_t outer, channels, inner; /* of prelu: data is (outer, channels, inner) */
    mx_unary_fn unary;
    int64_t item;
    double low, high; /* of rrelu's slopes */
    mx_rng rng;
} activation_job;

#define T float
#define NAME(x) x##_f
#define EXP m_exp
#define EXPM1 m_expm1
#define ERF m_erf
#define FABS m_fabs
#include "cpu/kernels/pointwise/activation_body.h"
#undef T
#undef NAME
#undef EXP
#undef EXPM1
#undef ERF
#undef FABS
#define T double
#define NAME(x) x##_d
#define EXP exp
#define EXPM1 expm1
#define ERF erf
#define FABS fabs
#include "cpu/kernels/pointwise/activation_body.h"
#undef T
#undef NAME
#undef EXP
#undef EXPM1
#undef ERF
#undef FABS

/* ---- Activation: the loops of the pointwise rows ------------------------------------------------------------- */

static const int rows[] = {[MX_ACTIVATION_RELU] = MX_ROW_relu,           [MX_ACTIVATION_SIGMOID] = MX_ROW_sigmoid,
                           [MX_ACTIVATION_TANH] = MX_ROW_tanh,           [MX_ACTIVATION_SOFTRELU] = MX_ROW__softplus,
                           [MX_ACTIVATION_SOFTSIGN] = MX_ROW_softsign};

static void unary_range(void *arg, int64_t begin, int64_t end)
{
    const activation_job *job = arg;
    job->unary((const char *)job->in[0] + begin * job->item, (char *)job->out + begin * job->item, end - begin);
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
    activation_job job = {
        .in = {mx_data(call->in[0]), mx_data(call->in[1])}, .out = mx_data(call->out[0]), .type = attrs->act_type};
    mx_parallel(call->in[0]->size, MX_GRAIN, compute == MX_FLOAT32 ? activation_backward_f : activation_backward_d,
                &job);
    return MX_OK;
}

/* ---- LeakyReLU ------------------------------------------------------------------------------------------------ */

static void split_channels(activation_job *job, const mx_array *data, const mx_array *gamma)
{
    job->channels = gamma->size, job->inner = 1;
    for (int axis = data->ndim > 1 ? 2 : 1; axis < data->ndim; axis++)
        job->inner *= data->shape[axis];
    if (gamma->size == 1)
        job->inner = data->size ? data->size : 1;
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
    job->in[1] = job->sums;
}

static mx_code run_leaky(const mx_kernel_call *call)
{
    const mx_leaky_relu_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    const mx_array *data = call->in[0], *gamma = call->in[1];
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    activation_job job = {
        .in = {mx_data(data)}, .out = mx_data(call->out[0]), .type = attrs->act_type, .slope = attrs->slope};
    job.item = mx_dtype_size(compute);
    if (attrs->act_type == MX_LEAKY_RELU_PRELU) {
        if (mx_is_none(gamma))
            return mx_op_fail(call->op, MX_ERR_ARGUMENT, "act_type is prelu, but the input gamma is absent");
        split_channels(&job, data, gamma);
        job.in[1] = mx_data(gamma);
    }
    if (attrs->act_type == MX_LEAKY_RELU_RRELU)
        make_slopes(&job, call, attrs);
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
    activation_job job = {.in = {mx_data(call->in[0]), mx_data(data)},
                          .out = mx_data(call->out[0]),
                          .type = attrs->act_type,
                          .slope = attrs->slope};
    const bool prelu = attrs->act_type == MX_LEAKY_RELU_PRELU, rrelu = attrs->act_type == MX_LEAKY_RELU_RRELU;
    if ((prelu && mx_is_none(gamma)) || (rrelu && mx_is_none(call->in[3])))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "the input %s is absent", prelu ? "gamma" : "mask");
    if (rrelu)
        job.in[2] = mx_data(call->in[3]);
    if (prelu) {
        split_channels(&job, data, gamma);
        job.in[2] = mx_data(gamma), job.sums = mx_data(call->out[1]);
    }
    mx_parallel(data->size, MX_GRAIN / 2, compute == MX_FLOAT32 ? leaky_backward_f : leaky_backward_d, &job);
    if (prelu)
        mx_parallel(job.channels, 1 + MX_GRAIN / (job.outer * job.inner + 1),
                    compute == MX_FLOAT32 ? prelu_sums_f : prelu_sums_d, &job);
    return MX_OK;
}

MX_CPU_KERNELS(activation) = {{"Activation", run_activation, NULL, MX_KERNEL_WIDEN},
                              {"_backward_Activation", run_activation_backward, NULL, MX_KERNEL_WIDEN},
                              {"LeakyReLU", run_leaky, NULL, MX_KERNEL_WIDEN},
                              {"_backward_LeakyReLU", run_leaky_backward, NULL, MX_KERNEL_WIDEN},
                              {NULL, NULL, NULL}};
