/* Position-sensitive pooling of regions on the CPU (loops in roi_parts_body.h, bins in op/formula/roi_parts_bins.h).
 *
 * A channel of the data belongs to one channel of the result, and a movement to one class of them: threads get whole
 * channels, or whole classes where gradients of movements are summed, so nobody writes where another does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/interrupt.h"
#include "base/threads.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "op/formula/roi_parts.h"

#define T float
#define NAME(x) x##_f
#include "cpu/kernels/detection/roi_parts_body.h"
#undef T
#undef NAME
#define T double
#define NAME(x) x##_d
#include "cpu/kernels/detection/roi_parts_body.h"
#undef T
#undef NAME

static int64_t grain(const mx_roi_parts_job *job, int64_t items)
{
    return 1 + MX_GRAIN / (8 * job->s.regions * job->s.dim * job->s.size * job->s.size / (items ? items : 1) + 1);
}

static void data_sizes(mx_roi_parts_job *job, const int64_t *data)
{
    job->s.batch = data[0], job->s.maps = data[1], job->s.height = data[2], job->s.width = data[3];
}

static mx_code run_ps(const mx_kernel_call *call)
{
    const mx_ps_roi_pooling_attrs *p = call->attrs; /* of both directions */
    const bool back = !strcmp(call->op->name, "_backward__contrib_PSROIPooling");
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    mx_roi_parts_job job = {.map = mx_data(call->in[0]), .rois = mx_data(call->in[1]), .out = mx_data(call->out[0]),
                            .s.regions = call->in[1]->shape[0], .s.dim = p->output_dim, .s.size = p->pooled_size,
                            .s.group = p->group_size > 0 ? p->group_size : p->pooled_size, .s.scale = p->spatial_scale};
    data_sizes(&job, (back ? call->out[0] : call->in[0])->shape);
    if (back) {
        job.g = job.map, job.dmap = job.out;
        if (mx_bytes(call->out[0]))
            memset(job.dmap, 0, mx_bytes(call->out[0]));
    }
    mx_parallel(job.s.dim, grain(&job, job.s.dim), compute == MX_FLOAT32 ? means_f : means_d, &job);
    return MX_OK;
}

static mx_code run_deformable(const mx_kernel_call *call, bool back)
{
    const mx_deformable_ps_roi_attrs *p = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const mx_array *trans = p->no_trans ? NULL : call->in[back ? 4 : 2];
    if (trans && mx_is_none(trans))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "trans is missing; without it, no_trans must be set");
    mx_roi_parts_job job = {.map = mx_data(call->in[back]), .rois = mx_data(call->in[back + 1]), .trans = trans ? mx_data(trans) : NULL,
                            .s.regions = call->in[back + 1]->shape[0], .s.dim = p->output_dim, .s.size = p->pooled_size,
                            .s.group = p->group_size, .s.part = p->part_size > 0 ? p->part_size : p->pooled_size,
                            .s.classes = trans ? trans->shape[1] / 2 : 1, .s.samples = p->sample_per_part,
                            .s.scale = p->spatial_scale, .s.deviation = p->trans_std};
    data_sizes(&job, call->in[back]->shape);
    if (back) {
        job.g = mx_data(call->in[0]), job.counted = mx_data(call->in[3]), job.dmap = mx_data(call->out[0]);
        job.dtrans = trans ? mx_data(call->out[1]) : NULL;
        for (int i = 0; i < call->n_out; i++)
            if (mx_bytes(call->out[i]))
                memset(mx_data(call->out[i]), 0, mx_bytes(call->out[i]));
    } else
        job.out = mx_data(call->out[0]), job.count = mx_data(call->out[1]);
    const int64_t items = job.dtrans ? job.s.classes : job.s.dim;
    mx_parallel(items, grain(&job, items), compute == MX_FLOAT32 ? samples_f : samples_d, &job);
    return MX_OK;
}
static mx_code run_forward(const mx_kernel_call *call) { return run_deformable(call, false); }
static mx_code run_backward(const mx_kernel_call *call) { return run_deformable(call, true); }

MX_CPU_KERNELS(roi_parts) = {{"_contrib_PSROIPooling", run_ps, NULL, MX_KERNEL_WIDEN},
                             {"_backward__contrib_PSROIPooling", run_ps, NULL, MX_KERNEL_WIDEN},
                             {"_contrib_DeformablePSROIPooling", run_forward, NULL, MX_KERNEL_WIDEN},
                             {"_backward__contrib_DeformablePSROIPooling", run_backward, NULL, MX_KERNEL_WIDEN},
                             {NULL, NULL, NULL}};
