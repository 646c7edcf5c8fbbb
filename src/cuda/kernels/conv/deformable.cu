/* Deformable convolution (op/formula/deformable_points.h): columns of some images at a time, then products.
 *
 * A thread finds where one cell of the window reads at one place, and then runs over a few channels.  Gradients of data
 * and offsets are added with atomics.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/gemm/gemm.h"
#include "cuda/kernels/numbers.h"
extern "C" {
#include "op/formula/deformable.h"
}

#define MX_POINT_FUNCTION template <class T> static __device__
#define MX_POINT(name) name
#include "op/formula/deformable_points.h"

#define SLICE 8                       /* channels of one thread */
#define MOST_BYTES ((size_t)256 << 20) /* of columns at a time */

/* Four places of a plane, -1: outside, which counts as 0. */
template <class T> struct tap {
    int64_t at[4];
    T dy, dx;
    bool inside;
};

namespace /* the name is also used elsewhere */
{
template <class T> struct images { /* of one chunk */
    mx_deformable d;
    const T *data, *offset, *mask; /* (n, C, H, W), (n, points, 2, places), NULL or (n, points, places) */
    T *columns;                    /* (n, C, cells, places); backwards their gradients */
    T *ddata, *doffset, *dmask;
    int64_t each, slices; /* channels of an offset group, and slices of them */
};
} // namespace

/* One unit of work: image n, channels [first, end), point = offset group * cells + cell, place. */
template <class T> struct unit {
    int64_t n, point, cell, place, first, end;
    __device__ unit(const images<T> &m, int64_t i)
    {
        place = i % m.d.places, i /= m.d.places;
        cell = i % m.d.cells, i /= m.d.cells;
        const int64_t slice = i % m.slices, group = i / m.slices % m.d.offset_groups;
        n = i / m.slices / m.d.offset_groups;
        point = group * m.d.cells + cell;
        first = group * m.each + slice * SLICE;
        end = first + SLICE < (group + 1) * m.each ? first + SLICE : (group + 1) * m.each;
    }
    /* of what has `k` numbers for every point and place */
    __device__ int64_t number(const images<T> &m, int64_t k) const
    {
        return (n * m.d.offset_groups * m.d.cells + point) * k * m.d.places + place;
    }
    __device__ int64_t column(const images<T> &m, int64_t c) const
    {
        return ((n * m.d.channels + c) * m.d.cells + cell) * m.d.places + place;
    }
};

template <class T> __device__ tap<T> tap_of(const images<T> &m, const unit<T> &u)
{
    const int64_t height = m.d.size[0], width = m.d.size[1];
    const T *offset = m.offset + u.number(m, 2);
    tap<T> t;
    const mx_deformable_pixels p =
        pixels(&m.d, u.cell, u.place, offset[0], offset[m.d.places], m.mask != nullptr, &t.dy, &t.dx);
    t.inside = p.inside;
    for (int k = 0; k < 4; k++) {
        const int64_t row = p.row[k / 2], column = p.column[k % 2];
        t.at[k] = row >= 0 && column >= 0 && row < height && column < width ? row * width + column : -1;
    }
    return t;
}

template <class T> static int64_t units(const images<T> &m, int64_t count)
{
    return count * m.d.offset_groups * m.slices * m.d.cells * m.d.places;
}

template <class T> static mx_code fill_columns(const mx_kernel_call *call, const images<T> &m, int64_t count)
{
    return mx_cuda_each(call, units(m, count), [=] __device__(int64_t i) {
        const unit<T> u(m, i);
        const tap<T> t = tap_of(m, u);
        const T factor = !t.inside ? 0 : m.mask ? m.mask[u.number(m, 1)] : 1;
        for (int64_t c = u.first; c < u.end; c++) {
            const T *plane = m.data + (u.n * m.d.channels + c) * m.d.all;
            T sum = 0;
            for (int k = 0; k < 4; k++)
                sum += t.inside && t.at[k] >= 0 ? weight(k, t.dy, t.dx, (T)1) * plane[t.at[k]] : 0;
            m.columns[u.column(m, c)] = factor * sum;
        }
    });
}

/* With g the gradient of a column: ddata += mask weight g,  dmask += g value,  doffset += mask g slopes */
template <class T> static mx_code add_gradients(const mx_kernel_call *call, const images<T> &m, int64_t count)
{
    return mx_cuda_each(call, units(m, count), [=] __device__(int64_t i) {
        const unit<T> u(m, i);
        const tap<T> t = tap_of(m, u);
        if (!t.inside)
            return;
        const T factor = m.mask ? m.mask[u.number(m, 1)] : 1;
        T down = 0, across = 0, whole = 0;
        for (int64_t c = u.first; c < u.end; c++) {
            const int64_t plane = (u.n * m.d.channels + c) * m.d.all;
            const T g = m.columns[u.column(m, c)];
            T v[4];
            for (int k = 0; k < 4; k++) {
                v[k] = t.at[k] >= 0 ? m.data[plane + t.at[k]] : 0;
                if (t.at[k] >= 0)
                    atomicAdd(&m.ddata[plane + t.at[k]], weight(k, t.dy, t.dx, factor) * g);
            }
            whole += g * value(v[0], v[1], v[2], v[3], t.dy, t.dx);
            down += g * slope_down(v[0], v[1], v[2], v[3], t.dx);
            across += g * slope_across(v[0], v[1], v[2], v[3], t.dy);
        }
        atomicAdd(&m.doffset[u.number(m, 2)], factor * down);
        atomicAdd(&m.doffset[u.number(m, 2) + m.d.places], factor * across);
        if (m.mask)
            atomicAdd(&m.dmask[u.number(m, 1)], whole);
    });
}

/* ---- products: weight (F, depth) per group, columns (n, C, cells, places), y (n, F, places) ---------------------- */

struct sizes {
    int64_t rows, depth; /* of a group's weight */
    sizes(const mx_deformable &d) : rows(d.filters / d.groups), depth(d.channels / d.groups * d.cells) {}
};

template <class T> static int type_of() { return sizeof(T) == 8 ? MX_FLOAT64 : MX_FLOAT32; }

/* y = weight columns, group by group over all images */
template <class T>
static mx_code product(const mx_kernel_call *call, const mx_deformable &d, const T *weight, const T *columns, T *y,
                       int64_t count)
{
    const sizes s(d);
    mx_code code = MX_OK;
    for (int64_t g = 0; g < d.groups && !code; g++)
        code = mx_cuda_gemm_run(call, type_of<T>(),
                                {false, false, s.rows, d.places, s.depth, weight + g * s.rows * s.depth, s.depth,
                                 columns + g * s.depth * d.places, d.places, y + g * s.rows * d.places, d.places, 1, 0,
                                 count, 0, d.channels * d.cells * d.places, d.filters * d.places});
    return code;
}

/* dweight += dy columns', image by image */
template <class T>
static mx_code weight_gradient(const mx_kernel_call *call, const mx_deformable &d, const T *dy, const T *columns,
                               T *dweight, int64_t count)
{
    const sizes s(d);
    mx_code code = MX_OK;
    for (int64_t n = 0; n < count && !code; n++)
        code = mx_cuda_gemm_run(call, type_of<T>(),
                                {false, true, s.rows, s.depth, d.places, dy + n * d.filters * d.places, d.places,
                                 columns + n * d.channels * d.cells * d.places, d.places, dweight, s.depth, 1, 1,
                                 d.groups, s.rows * d.places, s.depth * d.places, s.rows * s.depth});
    return code;
}

/* columns = weight' dy */
template <class T>
static mx_code column_gradient(const mx_kernel_call *call, const mx_deformable &d, const T *weight, const T *dy,
                               T *columns, int64_t count)
{
    const sizes s(d);
    mx_code code = MX_OK;
    for (int64_t g = 0; g < d.groups && !code; g++)
        code = mx_cuda_gemm_run(call, type_of<T>(),
                                {true, false, s.depth, d.places, s.rows, weight + g * s.rows * s.depth, s.depth,
                                 dy + g * s.rows * d.places, d.places, columns + g * s.depth * d.places, d.places, 1, 0,
                                 count, 0, d.filters * d.places, d.channels * d.cells * d.places});
    return code;
}

/* ---- the operators -------------------------------------------------------------------------------------------- */

static mx_deformable geometry(const mx_kernel_call *call, const mx_array *data)
{
    /* it is the first attribute of all three */
    const mx_deformable_backward_attrs *p = (const mx_deformable_backward_attrs *)call->attrs;
    return mx_deformable_of(&p->kernel, &p->stride, &p->dilate, &p->pad, p->num_filter, p->num_group,
                            p->num_deformable_group, data->shape);
}

/* The arrays of the call; mask NULL: none */
template <class T>
static images<T> images_of(const mx_deformable &d, const mx_array *data, const mx_array *offset, const mx_array *mask)
{
    images<T> m = {d, (const T *)mx_data(data), (const T *)mx_data(offset), mask ? (const T *)mx_data(mask) : nullptr};
    m.each = d.channels / d.offset_groups, m.slices = (m.each + SLICE - 1) / SLICE;
    return m;
}

/* The same for the images from n on. */
template <class T> static images<T> images_from(images<T> m, int64_t n)
{
    const int64_t points = m.d.offset_groups * m.d.cells * m.d.places, image = m.d.channels * m.d.all;
    m.data += n * image, m.offset += n * 2 * points, m.mask += m.mask ? n * points : 0;
    m.ddata += m.ddata ? n * image : 0, m.doffset += m.doffset ? n * 2 * points : 0,
        m.dmask += m.dmask ? n * points : 0;
    return m;
}

/* Images whose columns are held at a time. */
static int64_t chunk_of(size_t image_bytes, int64_t batch)
{
    const int64_t fit = image_bytes ? (int64_t)(MOST_BYTES / image_bytes) : batch;
    return fit < 1 ? 1 : fit < batch ? fit : batch;
}

template <class T> static mx_code forward(const mx_kernel_call *call, const mx_array *mask, int weight)
{
    const mx_deformable d = geometry(call, call->in[0]);
    mx_cuda_device *device = mx_cuda_of(call);
    const int64_t batch = call->in[0]->shape[0], columns = d.channels * d.cells * d.places,
                  chunk = chunk_of((size_t)columns * sizeof(T), batch);
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    if (!device || !call->out[0]->size)
        return device ? MX_OK : mx_error_code();
    mx_cuda_scratch room(device, (size_t)(chunk * columns) * sizeof(T));
    if (!room.memory)
        return mx_error_code();
    images<T> all = images_of<T>(d, call->in[0], call->in[1], mask);
    all.columns = room.as<T>();
    mx_code code = MX_OK;
    for (int64_t n = 0; n < batch && !code; n += chunk) {
        const int64_t count = n + chunk < batch ? chunk : batch - n;
        code = fill_columns(call, images_from(all, n), count);
        code = code ? code
                    : product(call, d, (const T *)mx_data(call->in[weight]), all.columns,
                              (T *)mx_data(call->out[0]) + n * d.filters * d.places, count);
    }
    const mx_array *bias = mx_is_none(call->in[weight + 1]) ? nullptr : call->in[weight + 1];
    return code ? code : mx_cuda_bias_relu(call, call->out[0], bias, d.filters, d.places, false);
}
template <class T> static mx_code unmasked(const mx_kernel_call *call) { return forward<T>(call, nullptr, 2); }
template <class T> static mx_code modulated(const mx_kernel_call *call) { return forward<T>(call, call->in[2], 3); }

/* inputs: ograd, data, offset, weight, and mask if the gradients of data, offset and weight are followed by its own */
template <class T> static mx_code backward(const mx_kernel_call *call)
{
    const mx_deformable d = geometry(call, call->in[1]);
    const mx_array *mask = call->n_out > 3 ? call->in[4] : nullptr;
    mx_cuda_device *device = mx_cuda_of(call);
    const int64_t batch = call->in[1]->shape[0], columns = d.channels * d.cells * d.places,
                  chunk = chunk_of((size_t)columns * sizeof(T), batch);
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    mx_code code = device ? MX_OK : mx_error_code();
    for (int i = 0; i < call->n_out && !code; i++)
        code = mx_cuda_zero(call, call->out[i]);
    if (code || !call->in[0]->size)
        return code;
    mx_cuda_scratch room(device, (size_t)(chunk * columns) * sizeof(T));
    if (!room.memory)
        return mx_error_code();
    images<T> all = images_of<T>(d, call->in[1], call->in[2], mask);
    all.columns = room.as<T>(), all.ddata = (T *)mx_data(call->out[0]), all.doffset = (T *)mx_data(call->out[1]);
    all.dmask = mask ? (T *)mx_data(call->out[3]) : nullptr;
    for (int64_t n = 0; n < batch && !code; n += chunk) {
        const int64_t count = n + chunk < batch ? chunk : batch - n;
        const images<T> m = images_from(all, n);
        const T *dy = (const T *)mx_data(call->in[0]) + n * d.filters * d.places;
        code = fill_columns(call, m, count);
        code = code ? code : weight_gradient(call, d, dy, m.columns, (T *)mx_data(call->out[2]), count);
        code = code ? code : column_gradient(call, d, (const T *)mx_data(call->in[3]), dy, m.columns, count);
        code = code ? code : add_gradients(call, m, count);
    }
    return code;
}

MX_CUDA_FLOATS(run_unmasked, unmasked)
MX_CUDA_FLOATS(run_modulated, modulated)
MX_CUDA_FLOATS(run_backward, backward)

MX_CUDA_KERNELS(deformable) = {{"_contrib_DeformableConvolution", run_unmasked, NULL},
                               {"_contrib_ModulatedDeformableConvolution", run_modulated, NULL},
                               {"_backward__contrib_DeformableConvolution", run_backward, NULL},
                               {NULL, NULL, NULL}};
