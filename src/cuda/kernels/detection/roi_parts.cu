/* Position-sensitive pooling of regions (op/formula/roi_parts.h): a thread per bin.  Gradients are added with atomics.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstring>

#include "cuda/kernels/numbers.h"
extern "C" {
#include "op/formula/roi_parts.h"
}

template <class T> struct parts {
    mx_roi_parts s;
    const T *map, *rois, *trans; /* (N, maps, H, W), (R, 5), NULL or (R, 2 * classes, part, part) */
    const T *g, *counted; /* (R, dim, size, size) backwards: the gradient, and how many samples there were; else NULL */
    T *out, *count;       /* (R, dim, size, size) */
    T *dmap, *dtrans;     /* dtrans NULL: not wanted */

    __device__ mx_roi_part_region region(int64_t r, double shift) const
    {
        double roi[5];
        for (int k = 0; k < 5; k++)
            roi[k] = (double)rois[5 * r + k];
        return mx_roi_part_region_of(&s, roi, shift);
    }
    int64_t bins() const { return s.regions * s.dim * s.size * s.size; }
};

static void data_sizes(mx_roi_parts *s, const mx_array *data)
{
    s->batch = data->shape[0], s->maps = data->shape[1], s->height = data->shape[2], s->width = data->shape[3];
}

/* ---- PSROIPooling: the mean of a bin, or its transpose -------------------------------------------------------- */

template <class T> __device__ void mean_of(const parts<T> &m, int64_t at)
{
    const int64_t size = m.s.size, j = at % size, i = at / size % size, c = at / size / size % m.s.dim,
                  r = at / size / size / m.s.dim;
    const mx_roi_part_region region = m.region(r, 0);
    int64_t top, bottom, left, right;
    mx_roi_part_bin(&m.s, i, region.top, region.height, m.s.height, &top, &bottom);
    mx_roi_part_bin(&m.s, j, region.left, region.width, m.s.width, &left, &right);
    const int64_t area = (bottom - top) * (right - left);
    const bool empty = region.image < 0 || bottom <= top || right <= left;
    const int64_t plane = empty ? 0 : mx_roi_part_plane(&m.s, region.image, c, i, j);
    double sum = 0;
    for (int64_t y = top; !empty && y < bottom; y++)
        for (int64_t x = left; x < right; x++)
            if (m.g)
                atomicAdd(&m.dmap[plane + y * m.s.width + x], m.g[at] / (T)area);
            else
                sum += (double)m.map[plane + y * m.s.width + x];
    if (!m.g)
        m.out[at] = (T)(empty ? 0 : sum / (double)area);
}

template <class T> static mx_code means(const mx_kernel_call *call)
{
    const mx_ps_roi_pooling_attrs *p = (const mx_ps_roi_pooling_attrs *)call->attrs; /* of both directions */
    const bool back = !strcmp(call->op->name, "_backward__contrib_PSROIPooling");
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    parts<T> m = {};
    m.s.regions = call->in[1]->shape[0], m.s.dim = p->output_dim, m.s.size = p->pooled_size,
    m.s.scale = p->spatial_scale;
    m.s.group = p->group_size > 0 ? p->group_size : p->pooled_size;
    data_sizes(&m.s, back ? call->out[0] : call->in[0]);
    const T *first = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(call->out[0]);
    m.rois = (const T *)mx_data(call->in[1]), m.map = first, m.g = back ? first : nullptr, m.out = m.dmap = to;
    const mx_code code = back ? mx_cuda_zero(call, call->out[0]) : MX_OK;
    if (code)
        return code;
    return mx_cuda_each(call, m.bins(), [=] __device__(int64_t at) { mean_of(m, at); });
}

/* ---- DeformablePSROIPooling: the mean of samples of a bin that moves ------------------------------------------ */

/* One bilinear sample: its value, or with `into` its gradients: into the map, and by place in *dy and *dx. */
template <class T>
__device__ double sample(const T *map, T *into, int64_t width, double y, double x, double g, double *dy, double *dx)
{
    const int64_t top = (int64_t)y, left = (int64_t)x, bottom = top + ((double)top < y),
                  right = left + ((double)left < x);
    const double fy = y - (double)top, fx = x - (double)left;
    const int64_t a = top * width + left, b = top * width + right, c = bottom * width + left,
                  d = bottom * width + right;
    const double va = (double)map[a], vb = (double)map[b], vc = (double)map[c], vd = (double)map[d];
    if (into) {
        atomicAdd(&into[a], (T)(g * (1 - fy) * (1 - fx))), atomicAdd(&into[b], (T)(g * (1 - fy) * fx));
        atomicAdd(&into[c], (T)(g * fy * (1 - fx))), atomicAdd(&into[d], (T)(g * fy * fx));
    }
    *dy += g * ((1 - fx) * (vc - va) + fx * (vd - vb));
    *dx += g * ((1 - fy) * (vb - va) + fy * (vd - vc));
    return (1 - fy) * ((1 - fx) * va + fx * vb) + fy * ((1 - fx) * vc + fx * vd);
}

template <class T> __device__ void moving_bin(const parts<T> &m, int64_t at)
{
    const int64_t size = m.s.size, j = at % size, i = at / size % size, c = at / size / size % m.s.dim,
                  r = at / size / size / m.s.dim;
    const mx_roi_part_region region = m.region(r, 0.5);
    double sum = 0, count = 0, dy = 0, dx = 0;
    if (region.image >= 0) {
        const int64_t move = mx_roi_part_move(&m.s, r, c, i, j), other = move + m.s.part * m.s.part;
        const double by_x = m.trans ? (double)m.trans[move] * m.s.deviation * region.width : 0,
                     by_y = m.trans ? (double)m.trans[other] * m.s.deviation * region.height : 0;
        const double x0 = (double)j * region.width / (double)size + region.left + by_x,
                     y0 = (double)i * region.height / (double)size + region.top + by_y;
        const double counted = m.g ? (double)m.counted[at] : 0, g = counted > 0 ? (double)m.g[at] / counted : 0;
        const int64_t plane = mx_roi_part_plane(&m.s, region.image, c, i, j);
        for (int64_t s = 0; s < m.s.samples * m.s.samples; s++) {
            double x, y;
            if (!mx_roi_part_sample(&m.s, &region, y0, x0, s, &y, &x))
                continue;
            sum += sample(m.map + plane, counted > 0 ? m.dmap + plane : nullptr, m.s.width, y, x, g, &dy, &dx);
            count++;
        }
        if (m.dtrans) {
            atomicAdd(&m.dtrans[move], (T)(dx * m.s.deviation * region.width));
            atomicAdd(&m.dtrans[other], (T)(dy * m.s.deviation * region.height));
        }
    }
    if (!m.g)
        m.out[at] = (T)(count > 0 ? sum / count : 0), m.count[at] = (T)count;
}

/* backwards the inputs are: ograd, data, rois, count, trans */
template <class T> static mx_code moving(const mx_kernel_call *call, bool back)
{
    const mx_deformable_ps_roi_attrs *p = (const mx_deformable_ps_roi_attrs *)call->attrs;
    const mx_array *trans = p->no_trans ? nullptr : call->in[back ? 4 : 2];
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    if (trans && mx_is_none(trans))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "trans is missing; without it, no_trans must be set");
    parts<T> m = {};
    m.s.regions = call->in[back + 1]->shape[0], m.s.dim = p->output_dim, m.s.size = p->pooled_size,
    m.s.group = p->group_size;
    m.s.part = p->part_size > 0 ? p->part_size : p->pooled_size, m.s.classes = trans ? trans->shape[1] / 2 : 1;
    m.s.samples = p->sample_per_part, m.s.scale = p->spatial_scale, m.s.deviation = p->trans_std;
    data_sizes(&m.s, call->in[back]);
    m.map = (const T *)mx_data(call->in[back]), m.rois = (const T *)mx_data(call->in[back + 1]);
    m.trans = trans ? (const T *)mx_data(trans) : nullptr;
    mx_code code = MX_OK;
    if (back) {
        m.g = (const T *)mx_data(call->in[0]), m.counted = (const T *)mx_data(call->in[3]);
        m.dmap = (T *)mx_data(call->out[0]), m.dtrans = trans ? (T *)mx_data(call->out[1]) : nullptr;
        for (int i = 0; i < call->n_out && !code; i++)
            code = mx_cuda_zero(call, call->out[i]);
    } else
        m.out = (T *)mx_data(call->out[0]), m.count = (T *)mx_data(call->out[1]);
    if (code)
        return code;
    return mx_cuda_each(call, m.bins(), [=] __device__(int64_t at) { moving_bin(m, at); });
}
template <class T> static mx_code moving_forward(const mx_kernel_call *call) { return moving<T>(call, false); }
template <class T> static mx_code moving_backward(const mx_kernel_call *call) { return moving<T>(call, true); }

MX_CUDA_FLOATS(run_means, means)
MX_CUDA_FLOATS(run_moving, moving_forward)
MX_CUDA_FLOATS(run_moving_backward, moving_backward)

MX_CUDA_KERNELS(roi_parts) = {{"_contrib_PSROIPooling", run_means, NULL},
                              {"_backward__contrib_PSROIPooling", run_means, NULL},
                              {"_contrib_DeformablePSROIPooling", run_moving, NULL},
                              {"_backward__contrib_DeformablePSROIPooling", run_moving_backward, NULL},
                              {NULL, NULL, NULL}};
