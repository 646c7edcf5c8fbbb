/* Position-sensitive pooling of regions (op/formula/roi_parts_bins.h): a thread per bin.  Gradients are added with
 * atomics.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstring>

#include "cuda/kernels/numbers.h"
extern "C" {
#include "op/formula/roi_parts.h"
}

#define MX_ROI_FUNCTION template <class T> static __device__
#define MX_ROI(name) name
#define MX_ROI_ADD(to, x) atomicAdd(&(to), x)
#include "op/formula/roi_parts_bins.h"

static int64_t bins(const mx_roi_parts &s) { return s.regions * s.dim * s.size * s.size; }

static void data_sizes(mx_roi_parts *s, const mx_array *data)
{
    s->batch = data->shape[0], s->maps = data->shape[1], s->height = data->shape[2], s->width = data->shape[3];
}

/* ---- PSROIPooling: the mean of a bin, or its transpose -------------------------------------------------------- */

template <class T> static mx_code means(const mx_kernel_call *call)
{
    const mx_ps_roi_pooling_attrs *p = (const mx_ps_roi_pooling_attrs *)call->attrs; /* of both directions */
    const bool back = !strcmp(call->op->name, "_backward__contrib_PSROIPooling");
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    mx_roi_parts_job m = {};
    m.s.regions = call->in[1]->shape[0], m.s.dim = p->output_dim, m.s.size = p->pooled_size,
    m.s.scale = p->spatial_scale;
    m.s.group = p->group_size > 0 ? p->group_size : p->pooled_size;
    data_sizes(&m.s, back ? call->out[0] : call->in[0]);
    const void *first = mx_data(call->in[0]);
    void *to = mx_data(call->out[0]);
    m.rois = mx_data(call->in[1]), m.map = first, m.g = back ? first : nullptr, m.out = m.dmap = to;
    const mx_code code = back ? mx_cuda_zero(call, call->out[0]) : MX_OK;
    if (code)
        return code;
    return mx_cuda_each(call, bins(m.s), [=] __device__(int64_t at) {
        const mx_roi_part_region r = region(&m.s, (const T *)m.rois, mx_roi_part_place_of(&m.s, at).r, 0);
        mean(&m, (const T *)m.map, &r, at);
    });
}

/* ---- DeformablePSROIPooling: the mean of samples of a bin that moves ------------------------------------------ */

/* backwards the inputs are: ograd, data, rois, count, trans */
template <class T> static mx_code deformable(const mx_kernel_call *call, bool back)
{
    const mx_deformable_ps_roi_attrs *p = (const mx_deformable_ps_roi_attrs *)call->attrs;
    const mx_array *trans = p->no_trans ? nullptr : call->in[back ? 4 : 2];
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    if (trans && mx_is_none(trans))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "trans is missing; without it, no_trans must be set");
    mx_roi_parts_job m = {};
    m.s.regions = call->in[back + 1]->shape[0], m.s.dim = p->output_dim, m.s.size = p->pooled_size,
    m.s.group = p->group_size;
    m.s.part = p->part_size > 0 ? p->part_size : p->pooled_size, m.s.classes = trans ? trans->shape[1] / 2 : 1;
    m.s.samples = p->sample_per_part, m.s.scale = p->spatial_scale, m.s.deviation = p->trans_std;
    data_sizes(&m.s, call->in[back]);
    m.map = mx_data(call->in[back]), m.rois = mx_data(call->in[back + 1]);
    m.trans = trans ? mx_data(trans) : nullptr;
    mx_code code = MX_OK;
    if (back) {
        m.g = mx_data(call->in[0]), m.counted = mx_data(call->in[3]);
        m.dmap = mx_data(call->out[0]), m.dtrans = trans ? mx_data(call->out[1]) : nullptr;
        for (int i = 0; i < call->n_out && !code; i++)
            code = mx_cuda_zero(call, call->out[i]);
    } else
        m.out = mx_data(call->out[0]), m.count = mx_data(call->out[1]);
    if (code)
        return code;
    return mx_cuda_each(call, bins(m.s), [=] __device__(int64_t at) {
        const mx_roi_part_region r = region(&m.s, (const T *)m.rois, mx_roi_part_place_of(&m.s, at).r, 0.5);
        moving(&m, (const T *)m.map, &r, at);
    });
}
template <class T> static mx_code moving_forward(const mx_kernel_call *call) { return deformable<T>(call, false); }
template <class T> static mx_code moving_backward(const mx_kernel_call *call) { return deformable<T>(call, true); }

MX_CUDA_FLOATS(run_means, means)
MX_CUDA_FLOATS(run_moving, moving_forward)
MX_CUDA_FLOATS(run_moving_backward, moving_backward)

MX_CUDA_KERNELS(roi_parts) = {{"_contrib_PSROIPooling", run_means, NULL},
                              {"_backward__contrib_PSROIPooling", run_means, NULL},
                              {"_contrib_DeformablePSROIPooling", run_moving, NULL},
                              {"_backward__contrib_DeformablePSROIPooling", run_moving_backward, NULL},
                              {NULL, NULL, NULL}};
