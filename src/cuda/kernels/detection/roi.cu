/* Pooling of regions (op/formula/roi_bins.h).  A thread has one bin of one region and a few channels; gradients are
 * added with atomics.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstring>

#include "cuda/kernels/numbers.h"
extern "C" {
#include "op/formula/roi.h"
}

#define MX_ROI_FUNCTION template <class T> static __device__
#define MX_ROI(name) name
#define MX_ROI_ADD(to, x) atomicAdd(&(to), x)
#include "op/formula/roi_bins.h"

#define SLICE 8 /* channels of one thread: where its samples lie is found once for them */

template <class T> struct regions {
    mx_roi s;
    const T *data; /* (N, channels, H, W) or, backwards, the gradient (R, channels, rows, columns) */
    const T *rois; /* (R, numbers) */
    T *out;
    int64_t bins, map, slices;
    regions(const mx_roi &sizes, const mx_kernel_call *call)
        : s(sizes), data((const T *)mx_data(call->in[0])), rois((const T *)mx_data(call->in[1])),
          out((T *)mx_data(call->out[0])), bins(s.rows * s.columns), map(s.height * s.width),
          slices((s.channels + SLICE - 1) / SLICE)
    {
    }
    int64_t units() const { return s.regions * slices * bins; }
    __device__ bool read(int64_t r, double *roi) const /* false: its image does not exist */
    {
        const int n = mx_roi_numbers(&s);
        for (int k = 0; k < n; k++)
            roi[k] = (double)rois[n * r + k];
        return mx_roi_exists(&s, roi[0]);
    }
};

/* Sizes of the data and of the bins (R, channels, rows, columns). */
static mx_roi sizes_of(const mx_array *data, const mx_array *bins, double scale)
{
    mx_roi s = {};
    s.batch = data->shape[0], s.channels = bins->shape[1], s.height = data->shape[2], s.width = data->shape[3];
    s.regions = bins->shape[0], s.rows = bins->shape[2], s.columns = bins->shape[3], s.scale = scale;
    return s;
}

/* ---- ROIPooling ----------------------------------------------------------------------------------------------- */

/* index: place of the largest value in its map, -1: none */
template <class T> static mx_code pool(const mx_kernel_call *call)
{
    const mx_roi_pooling_attrs *p = (const mx_roi_pooling_attrs *)call->attrs;
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    const regions<T> m(sizes_of(call->in[0], call->out[0], p->spatial_scale), call);
    int32_t *index = (int32_t *)mx_data(call->out[1]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        const int64_t b = i % m.bins, c = i / m.bins % m.s.channels, r = i / m.bins / m.s.channels;
        double roi[6];
        const bool exists = m.read(r, roi);
        const mx_roi_window w = mx_roi_window_of(&m.s, roi);
        const T *plane = exists ? m.data + ((int64_t)roi[0] * m.s.channels + c) * m.map : nullptr;
        int64_t where;
        m.out[i] = largest(&m.s, &w, b, plane, &where);
        index[i] = (int32_t)where;
    });
}

/* inputs: ograd, rois, index */
template <class T> static mx_code pool_backward(const mx_kernel_call *call)
{
    if (!mx_cuda_inputs_are<T>(call, 4))
        return MX_DECLINED;
    const regions<T> m(sizes_of(call->out[0], call->in[0], 1), call);
    const int32_t *index = (const int32_t *)mx_data(call->in[2]);
    const mx_code code = mx_cuda_zero(call, call->out[0]);
    if (code)
        return code;
    return mx_cuda_each(call, call->in[0]->size, [=] __device__(int64_t i) {
        const int64_t c = i / m.bins % m.s.channels, r = i / m.bins / m.s.channels, where = index[i];
        const double image = (double)m.rois[5 * r];
        if (mx_roi_exists(&m.s, image) && where >= 0 && where < m.map)
            atomicAdd(&m.out[((int64_t)image * m.s.channels + c) * m.map + where], m.data[i]);
    });
}

/* ---- ROIAlign ------------------------------------------------------------------------------------------------- */

/* Bin b of region r, channels [first, first + SLICE): the mean of its samples. */
template <class T> __device__ void align_bin(const regions<T> &m, int64_t r, int64_t b, int64_t first)
{
    const int64_t count = m.s.channels - first < SLICE ? m.s.channels - first : SLICE;
    double roi[6], sum[SLICE] = {};
    if (m.read(r, roi)) {
        const mx_roi_grid grid = mx_roi_grid_of(&m.s, roi);
        const int64_t step = m.s.sensitive ? m.bins * m.map : m.map;
        const T *maps = m.data + (int64_t)roi[0] * m.s.channels * step + first * step + (m.s.sensitive ? b * m.map : 0);
        mx_roi_tap tap;
        for (int64_t k = 0; k < grid.down * grid.across; k++)
            if (mx_roi_sample(&m.s, &grid, b, k / grid.across, k % grid.across, &tap))
                for (int c = 0; c < SLICE; c++)
                    sum[c] = c < count ? with_sample(sum[c], &tap, maps + c * step) : 0;
    }
    for (int c = 0; c < SLICE; c++)
        if (c < count)
            m.out[(r * m.s.channels + first + c) * m.bins + b] = (T)sum[c];
}

template <class T> __device__ void align_bin_back(const regions<T> &m, int64_t r, int64_t b, int64_t first)
{
    const int64_t count = m.s.channels - first < SLICE ? m.s.channels - first : SLICE;
    double roi[6];
    if (!m.read(r, roi))
        return;
    const mx_roi_grid grid = mx_roi_grid_of(&m.s, roi);
    const int64_t step = m.s.sensitive ? m.bins * m.map : m.map;
    T *maps = m.out + (int64_t)roi[0] * m.s.channels * step + first * step + (m.s.sensitive ? b * m.map : 0);
    const T *g = m.data + (r * m.s.channels + first) * m.bins + b;
    mx_roi_tap tap;
    for (int64_t k = 0; k < grid.down * grid.across; k++)
        if (mx_roi_sample(&m.s, &grid, b, k / grid.across, k % grid.across, &tap))
            for (int64_t c = 0; c < count; c++)
                add_sample(maps + c * step, &tap, g[c * m.bins]);
}

template <class T> static mx_code align(const mx_kernel_call *call, const mx_roi &s, bool back)
{
    const regions<T> m(s, call);
    const mx_code code = back ? mx_cuda_zero(call, call->out[0]) : MX_OK;
    if (code)
        return code;
    return mx_cuda_each(call, m.units(), [=] __device__(int64_t i) {
        const int64_t b = i % m.bins, first = i / m.bins % m.slices * SLICE, r = i / m.bins / m.slices;
        if (back)
            align_bin_back(m, r, b, first);
        else
            align_bin(m, r, b, first);
    });
}

/* Both directions: the backward operators have the shape of the data behind the forward's attributes. */
template <class T> static mx_code align_upright(const mx_kernel_call *call, bool back)
{
    const mx_roi_align_backward_attrs *p = (const mx_roi_align_backward_attrs *)call->attrs;
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    mx_roi s = sizes_of(back ? call->out[0] : call->in[0], back ? call->in[0] : call->out[0], p->spatial_scale);
    s.samples = p->sample_ratio, s.sensitive = p->position_sensitive, s.aligned = p->aligned;
    return align<T>(call, s, back);
}
template <class T> static mx_code align_forward(const mx_kernel_call *call) { return align_upright<T>(call, false); }
template <class T> static mx_code align_backward(const mx_kernel_call *call) { return align_upright<T>(call, true); }

template <class T> static mx_code align_rotated(const mx_kernel_call *call)
{
    const mx_rroi_align_backward_attrs *p = (const mx_rroi_align_backward_attrs *)call->attrs;
    const bool back = !strcmp(call->op->name, "_backward__contrib_RROIAlign");
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    mx_roi s = sizes_of(back ? call->out[0] : call->in[0], back ? call->in[0] : call->out[0], p->spatial_scale);
    s.samples = p->sampling_ratio, s.rotated = true;
    return align<T>(call, s, back);
}

/* ---- mrcnn_mask_target: ROIAlign of one plane per region, the same for all classes ---------------------------- */

/* rois (B * regions, 4), masks (B, planes, height, width), match and label (B * regions) */
static mx_code run_mask_target(const mx_kernel_call *call)
{
    const mx_mask_target_attrs *p = (const mx_mask_target_attrs *)call->attrs;
    const int64_t *masks = call->in[1]->shape, *out = call->out[0]->shape, planes = masks[1], classes = p->num_classes,
                  bins = out[3] * out[4], each = p->num_rois;
    if (!mx_dtype_is_float(call->in[0]->dtype))
        return MX_DECLINED;
    mx_roi s = {};
    s.height = masks[2], s.width = masks[3], s.rows = out[3], s.columns = out[4], s.scale = 1;
    s.samples = p->sample_ratio, s.aligned = p->aligned;
    const mx_cuda_numbers rois(call->in[0]), data(call->in[1]), matches(call->in[2]), labels(call->in[3]);
    const mx_cuda_results target(call->out[0]), one_hot(call->out[1]);
    return mx_cuda_each(call, call->in[2]->size * bins, [=] __device__(int64_t i) {
        const int64_t b = i % bins, r = i / bins;
        const double match = matches[r], label = labels[r];
        double roi[6] = {}, sum = 0;
        mx_roi_tap tap;
        if (match >= 0 && match < (double)planes) {
            rois.read(4 * r, 4, roi + 1);
            const mx_roi_grid grid = mx_roi_grid_of(&s, roi);
            const int64_t plane = (r / each * planes + (int64_t)match) * s.height * s.width;
            for (int64_t k = 0; k < grid.down * grid.across; k++)
                if (mx_roi_sample(&s, &grid, b, k / grid.across, k % grid.across, &tap))
                    for (int q = 0; q < 4; q++)
                        sum += tap.weight[q] * data[plane + tap.place[q]];
        }
        for (int64_t c = 0; c < classes; c++) {
            target.put((r * classes + c) * bins + b, sum);
            one_hot.put((r * classes + c) * bins + b, label == (double)c);
        }
    });
}

MX_CUDA_FLOATS(run_pool, pool)
MX_CUDA_FLOATS(run_pool_backward, pool_backward)
MX_CUDA_FLOATS(run_align, align_forward)
MX_CUDA_FLOATS(run_align_backward, align_backward)
MX_CUDA_FLOATS(run_rotated, align_rotated)

MX_CUDA_KERNELS(roi) = {{"ROIPooling", run_pool, NULL},
                        {"_backward_ROIPooling", run_pool_backward, NULL},
                        {"_contrib_ROIAlign", run_align, NULL},
                        {"_backward__contrib_ROIAlign", run_align_backward, NULL},
                        {"_contrib_RROIAlign", run_rotated, NULL},
                        {"_backward__contrib_RROIAlign", run_rotated, NULL},
                        {"_contrib_mrcnn_mask_target", run_mask_target, NULL},
                        {NULL, NULL, NULL}};
