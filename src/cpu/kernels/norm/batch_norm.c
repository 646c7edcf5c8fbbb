/* BatchNorm: one pass for the statistics, one for the values; the same for the gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/interrupt.h"
#include "base/scratch.h"
#include "base/threads.h"
#include "cpu/kernels/pointwise/pointwise_loops.h"
#include "cpu/kernels/loss/rows.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "op/formula/sync_norm.h"

#define PIECE 4096 /* elements that are summed in the element type before the sum is added in double */
#define PLANE 1024 /* elements of a channel in one sample that are worth a separate pass */
#define CHUNK 4096 /* elements in a part of the samples, at least */
#define CHUNKS 256 /* parts, at most */

typedef struct norm_job {
    const void *data, *ograd, *gamma, *beta; /* data (outer, channels, inner) */
    void *out;                               /* the result, or the gradient of data */
    void *mean, *inverse;                    /* (channels) */
    void *moving_mean, *moving_var;          /* (channels) */
    void *gamma_grad, *beta_grad;            /* (channels) */
    void *partial, *scale;                   /* linear: (chunks, 2, channels); (3, channels) */
    int64_t outer, channels, inner;
    int64_t chunk, chunks; /* linear: samples per part, parts */
    double eps, momentum;
    bool fix_gamma;
    bool batch; /* statistics of the batch, else the running ones */
    bool limit; /* results are limited: below by 0, and above by bounds[1], if it is a number */
    double bounds[3];
} norm_job;

#define T float
#define NAME(x) x##_f
#define LOOPS mx_pointwise_f32
#define NUMBERS mx_number_f32
#include "cpu/kernels/norm/batch_norm_body.h"
#undef T
#undef NAME
#undef LOOPS
#undef NUMBERS
#define T double
#define NAME(x) x##_d
#define LOOPS mx_pointwise_f64
#define NUMBERS mx_number_f64
#include "cpu/kernels/norm/batch_norm_body.h"
#undef T
#undef NAME
#undef LOOPS
#undef NUMBERS

static void split(norm_job *job, const mx_array *data, int64_t axis)
{
    const int at = mx_axis(axis, data->ndim);
    job->outer = job->inner = 1, job->channels = data->shape[at];
    for (int i = 0; i < at; i++)
        job->outer *= data->shape[i];
    for (int i = at + 1; i < data->ndim; i++)
        job->inner *= data->shape[i];
    job->chunk = 1 + CHUNK / (job->channels * job->inner + 1);
    if (job->outer / job->chunk >= CHUNKS)
        job->chunk = job->outer / CHUNKS + 1;
    job->chunks = (job->outer + job->chunk - 1) / job->chunk;
}

/* Planes need no memory; the linear form needs sums per part and factors per channel. */
static mx_code over(norm_job *job, mx_dtype dtype, bool backward)
{
    if (job->inner >= PLANE) {
        const mx_range_fn body = backward              ? dtype == MX_FLOAT32 ? planes_backward_f : planes_backward_d
                                 : dtype == MX_FLOAT32 ? planes_f
                                                       : planes_d;
        mx_parallel(job->channels, 1 + MX_GRAIN / (job->outer * job->inner + 1), body, job);
        return MX_OK;
    }
    const size_t bytes = (size_t)((2 * job->chunks + 3) * job->channels * mx_dtype_size(dtype));
    if (!(job->partial = mx_scratch_take(bytes)))
        return MX_ERR_MEMORY;
    job->scale = (char *)job->partial + 2 * job->chunks * job->channels * mx_dtype_size(dtype);
    if (backward)
        (dtype == MX_FLOAT32 ? linear_backward_f : linear_backward_d)(job);
    else
        (dtype == MX_FLOAT32 ? linear_f : linear_d)(job);
    mx_scratch_give(job->partial, bytes);
    return MX_OK;
}

/* Without data there are no batch statistics: the running ones stay unchanged. */
static mx_code normalise(const mx_kernel_call *call, norm_job *job, int64_t axis)
{
    split(job, call->in[0], axis);
    job->data = mx_data(call->in[0]), job->gamma = mx_data(call->in[1]), job->beta = mx_data(call->in[2]);
    job->moving_mean = mx_data(call->in[3]), job->moving_var = mx_data(call->in[4]);
    job->out = mx_data(call->out[0]), job->mean = mx_data(call->out[1]), job->inverse = mx_data(call->out[2]);
    job->batch &= call->in[0]->size > 0;
    return job->channels ? over(job, (mx_dtype)call->in[0]->dtype, false) : MX_OK;
}

static bool open_batch_norm(const mx_kernel_call *call, norm_job *job)
{
    const mx_batch_norm_attrs *attrs = call->attrs;
    *job = (norm_job){.eps = attrs->eps, .momentum = attrs->momentum, .fix_gamma = attrs->fix_gamma};
    job->batch = call->training && !attrs->use_global_stats;
    return mx_inputs_are(call, mx_compute_type(call), 0);
}

static mx_code run_batch_norm(const mx_kernel_call *call)
{
    norm_job job;
    return open_batch_norm(call, &job) ? normalise(call, &job, ((const mx_batch_norm_attrs *)call->attrs)->axis)
                                       : MX_DECLINED;
}

static void set_limit(norm_job *job, double high) { job->limit = true, job->bounds[1] = high; }

static mx_code run_with_relu(const mx_kernel_call *call)
{
    norm_job job;
    if (!open_batch_norm(call, &job))
        return MX_DECLINED;
    set_limit(&job, NAN);
    return normalise(call, &job, ((const mx_batch_norm_attrs *)call->attrs)->axis);
}

/* The statistics are those of the batch. */
static mx_code run_limited(const mx_kernel_call *call)
{
    const mx_norm_limited_attrs *attrs = call->attrs;
    if (!mx_inputs_are(call, mx_compute_type(call), 0))
        return MX_DECLINED;
    norm_job job = {.eps = attrs->eps, .momentum = attrs->momentum, .fix_gamma = attrs->fix_gamma, .batch = true};
    set_limit(&job, attrs->high);
    return normalise(call, &job, attrs->axis);
}

/* inputs: data, gamma, beta, mean, inverse deviation; with an addend another kernel runs */
static mx_code run_apply(const mx_kernel_call *call)
{
    const mx_norm_apply_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if ((call->n_in > 5 && !mx_is_none(call->in[5])) || !mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    norm_job job = {.data = mx_data(call->in[0]), .gamma = mx_data(call->in[1]), .beta = mx_data(call->in[2]),
                    .mean = mx_data(call->in[3]), .inverse = mx_data(call->in[4]), .out = mx_data(call->out[0]),
                    .fix_gamma = attrs->fix_gamma};
    if (attrs->relu)
        set_limit(&job, attrs->high);
    split(&job, call->in[0], attrs->axis);
    const size_t bytes = (size_t)(job.channels * mx_dtype_size(compute));
    if (!job.channels)
        return MX_OK;
    if (!(job.scale = mx_scratch_take(bytes)))
        return MX_ERR_MEMORY;
    (compute == MX_FLOAT32 ? apply_f : apply_d)(&job);
    mx_scratch_give(job.scale, bytes);
    return MX_OK;
}

static mx_code run_sync_batch_norm(const mx_kernel_call *call)
{
    const mx_sync_batch_norm_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    norm_job job = {.eps = attrs->eps, .momentum = attrs->momentum, .fix_gamma = attrs->fix_gamma};
    job.batch = call->training && !attrs->use_global_stats;
    if (job.batch && attrs->ndev > 1)
        return mx_sync_norm_alone(attrs->ndev);
    return normalise(call, &job, 1);
}

/* inputs: ograd, data, gamma, mean, inverse deviation */
static mx_code run_backward(const mx_kernel_call *call)
{
    const mx_batch_norm_backward_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    norm_job job = {.ograd = mx_data(call->in[0]), .data = mx_data(call->in[1]), .gamma = mx_data(call->in[2]),
                    .mean = mx_data(call->in[3]), .inverse = mx_data(call->in[4]), .out = mx_data(call->out[0]),
                    .gamma_grad = mx_data(call->out[1]), .beta_grad = mx_data(call->out[2]),
                    .fix_gamma = attrs->fix_gamma, .batch = attrs->batch_statistics};
    split(&job, call->in[1], attrs->axis);
    return job.channels ? over(&job, compute, true) : MX_OK;
}

/* inputs: ograd, data, gamma, beta, mean, inverse deviation; with an addend, or without a limit, other kernels run */
static mx_code run_limited_backward(const mx_kernel_call *call)
{
    const mx_norm_gradient_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!attrs->relu || attrs->addend || attrs->bias || !mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    for (int i = 6; i < call->n_in; i++) /* the result, and a second part of the gradient */
        if (!mx_is_none(call->in[i]))
            return MX_DECLINED;
    norm_job job = {.ograd = mx_data(call->in[0]), .data = mx_data(call->in[1]), .gamma = mx_data(call->in[2]),
                    .beta = mx_data(call->in[3]), .mean = mx_data(call->in[4]), .inverse = mx_data(call->in[5]),
                    .out = mx_data(call->out[0]), .gamma_grad = mx_data(call->out[1]), .beta_grad = mx_data(call->out[2]),
                    .fix_gamma = attrs->fix_gamma, .batch = true};
    set_limit(&job, attrs->high);
    split(&job, call->in[1], attrs->axis);
    return job.channels ? over(&job, compute, true) : MX_OK;
}

MX_CPU_KERNELS(batch_norm) = {{"BatchNorm", run_batch_norm, NULL, MX_KERNEL_WIDEN},
                              {"_contrib_BatchNormWithReLU", run_with_relu, NULL, MX_KERNEL_WIDEN},
                              {"_contrib_SyncBatchNorm", run_sync_batch_norm, NULL, MX_KERNEL_WIDEN},
                              {"_backward_BatchNorm", run_backward, NULL, MX_KERNEL_WIDEN},
                              {"_norm_limited", run_limited, NULL, MX_KERNEL_WIDEN},
                              {"_norm_apply", run_apply, NULL, MX_KERNEL_WIDEN},
                              {"_backward_norm_apply", run_limited_backward, NULL},
                              {NULL, NULL, NULL}};
