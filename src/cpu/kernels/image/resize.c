/* Resampling of images on the CPU.  SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/resize.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

typedef struct resample_job {
    const void *in;
    void *out, *rows;              /* rows: one row of `from` per thread */
    mx_resize_taps *down, *across; /* (to_height), (to_width) */
    int64_t planes, from_height, from_width, to_height, to_width;
    bool transposed;
} resample_job;

#define T float
#define NAME(x) x##_f
#include "cpu/kernels/image/resize_body.h"
#undef T
#undef NAME
#define T double
#define NAME(x) x##_d
#include "cpu/kernels/image/resize_body.h"
#undef T
#undef NAME

static mx_code resample(const mx_kernel_call *call, mx_dtype compute, int kind, bool transposed)
{
    const mx_array *from = transposed ? call->out[0] : call->in[0], *to = transposed ? call->in[0] : call->out[0];
    resample_job job = {.in = mx_data(call->in[0]), .out = mx_data(call->out[0]), .planes = from->shape[0] * from->shape[1],
                        .from_height = from->shape[2], .from_width = from->shape[3], .to_height = to->shape[2], .to_width = to->shape[3],
                        .transposed = transposed};
    const int64_t work = job.planes * (job.from_height * job.from_width + job.to_height * job.to_width);
    const int64_t wanted = 1 + work / MX_GRAIN, threads = wanted < mx_num_threads() ? wanted : mx_num_threads();
    const int parts = (int)(threads < job.planes ? threads : job.planes > 0 ? job.planes : 1);
    const size_t taps = (size_t)(job.to_height + job.to_width) * sizeof(mx_resize_taps),
                 rows = (size_t)(parts * job.from_width) * sizeof(double);
    job.down = mx_alloc(taps + rows);
    if (!job.down)
        return mx_error_code();
    job.across = job.down + job.to_height, job.rows = job.across + job.to_width;
    for (int64_t i = 0; i < job.to_height; i++)
        job.down[i] = mx_resize_at(kind, job.from_height, job.to_height, i);
    for (int64_t i = 0; i < job.to_width; i++)
        job.across[i] = mx_resize_at(kind, job.from_width, job.to_width, i);
    mx_parallel_parts(parts, compute == MX_FLOAT32 ? planes_f : planes_d, &job);
    mx_free(job.down, taps + rows);
    return MX_OK;
}

static mx_code run_resample(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    const mx_op *op = call->op;
    int kind = MX_RESIZE_MEAN;
    if (!mx_inputs_are(call, compute, 2))
        return MX_DECLINED;
    if (!strcmp(op->name, "_contrib_BilinearResize2D"))
        kind = ((const mx_bilinear_resize_attrs *)call->attrs)->align_corners ? MX_RESIZE_CORNERS : MX_RESIZE_CENTERS;
    else if (strcmp(op->name, "_contrib_AdaptiveAvgPooling2D"))
        kind = ((const mx_resample_attrs *)call->attrs)->kind;
    return resample(call, compute, kind, !strcmp(op->name, "_resample_transposed"));
}

MX_CPU_KERNELS(resize) = {{"_contrib_BilinearResize2D", run_resample, NULL, MX_KERNEL_WIDEN},
                            {"_contrib_AdaptiveAvgPooling2D", run_resample, NULL, MX_KERNEL_WIDEN},
                            {"_resample", run_resample, NULL, MX_KERNEL_WIDEN},
                            {"_resample_transposed", run_resample, NULL, MX_KERNEL_WIDEN},
                            {NULL, NULL, NULL}};
