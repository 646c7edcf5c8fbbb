/* L2Normalization and LRN.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/threads.h"
#include "cpu/kernels/pointwise/math_f32.h"
#include "cpu/kernels/loss/rows.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

#define PIECE 4096

typedef struct norm_job {
    const void *in[2];
    void *out, *norm;
    int64_t outer, n, inner; /* LRN: n is the number of channels */
    int64_t window;
    double eps, scale, beta; /* LRN: eps is the constant part of the norm */
} norm_job;

#define T float
#define NAME(x) x##_f
#define POW m_pow
#include "cpu/kernels/norm/normalize_body.h"
#undef T
#undef NAME
#undef POW
#define T double
#define NAME(x) x##_d
#define POW pow
#include "cpu/kernels/norm/normalize_body.h"
#undef T
#undef NAME
#undef POW

static void split(norm_job *job, const mx_array *data, int mode)
{
    job->outer = job->n = job->inner = 1;
    for (int i = 0; i < data->ndim; i++) {
        int64_t *part = mode == MX_L2_NORMALIZATION_INSTANCE  ? (i ? &job->n : &job->outer)
                        : mode == MX_L2_NORMALIZATION_SPATIAL ? (i > 1 ? &job->n : &job->outer)
                        : i == 0                              ? &job->outer
                        : i == 1                              ? &job->n
                                                              : &job->inner;
        *part *= data->shape[i];
    }
}

static mx_code run_l2(const mx_kernel_call *call)
{
    const mx_l2_normalization_attrs *attrs = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    norm_job job = {
        .in = {mx_data(call->in[0])}, .out = mx_data(call->out[0]), .norm = mx_data(call->out[1]), .eps = attrs->eps};
    split(&job, call->in[0], attrs->mode);
    mx_parallel(job.outer * job.inner, 1 + MX_GRAIN / (job.n + 1), compute == MX_FLOAT32 ? l2_rows_f : l2_rows_d, &job);
    return MX_OK;
}

static mx_code run_l2_backward(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    norm_job job = {
        .in = {mx_data(call->in[0]), mx_data(call->in[1])}, .out = mx_data(call->out[0]), .norm = mx_data(call->in[2])};
    split(&job, call->in[0], ((const mx_l2_normalization_attrs *)call->attrs)->mode);
    mx_parallel(job.outer * job.inner, 1 + MX_GRAIN / (job.n + 1),
                compute == MX_FLOAT32 ? l2_rows_backward_f : l2_rows_backward_d, &job);
    return MX_OK;
}

static norm_job lrn_job(const mx_lrn_attrs *attrs, const mx_array *data)
{
    norm_job job = {.out = NULL};
    split(&job, data, MX_L2_NORMALIZATION_CHANNEL);
    job.window = attrs->nsize, job.eps = attrs->knorm, job.scale = attrs->alpha / (double)attrs->nsize,
    job.beta = attrs->beta;
    return job;
}

static mx_code run_lrn(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    norm_job job = lrn_job(call->attrs, call->in[0]);
    job.in[0] = mx_data(call->in[0]), job.out = mx_data(call->out[0]), job.norm = mx_data(call->out[1]);
    mx_parallel(job.outer * job.n, 1 + MX_GRAIN / 8 / (job.inner + 1),
                compute == MX_FLOAT32 ? lrn_planes_f : lrn_planes_d, &job);
    return MX_OK;
}

static mx_code run_window(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    norm_job job = lrn_job(call->attrs, call->in[0]);
    job.in[0] = mx_data(call->in[0]), job.out = mx_data(call->out[0]);
    mx_parallel(job.outer * job.n, 1 + MX_GRAIN / 8 / (job.inner + 1),
                compute == MX_FLOAT32 ? window_planes_f : window_planes_d, &job);
    return MX_OK;
}

/* inputs: ograd, data, norm */
static mx_code run_lrn_backward(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    norm_job job = lrn_job(call->attrs, call->in[1]);
    job.in[0] = mx_data(call->in[0]), job.in[1] = mx_data(call->in[1]), job.norm = mx_data(call->in[2]),
    job.out = mx_data(call->out[0]);
    mx_parallel(job.outer * job.n, 1 + MX_GRAIN / 8 / (job.inner + 1),
                compute == MX_FLOAT32 ? lrn_planes_backward_f : lrn_planes_backward_d, &job);
    return MX_OK;
}

MX_CPU_KERNELS(normalize) = {{"L2Normalization", run_l2, NULL, MX_KERNEL_WIDEN},
                             {"_backward_L2Normalization", run_l2_backward, NULL, MX_KERNEL_WIDEN},
                             {"LRN", run_lrn, NULL, MX_KERNEL_WIDEN},
                             {"_channel_window_sum", run_window, NULL, MX_KERNEL_WIDEN},
                             {"_backward_LRN", run_lrn_backward, NULL, MX_KERNEL_WIDEN},
                             {NULL, NULL, NULL}};
