/* GridGenerator, BilinearSampler and SpatialTransformer (op/formula/sampler.h).  The four pixels around a place serve all
 * channels; gradients of the data are added with atomics.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/numbers.h"
#include "cuda/kernels/planes.h"
extern "C" {
#include "op/formula/sampler.h"
}

#define SLICE 8 /* channels of one thread */

/* ---- grids ---------------------------------------------------------------------------------------------------- */

/* grid (N, 2, h, w) from a matrix (N, 6) or a flow (N, 2, h, w) */
template <class T> static mx_code make_grid(const mx_kernel_call *call, const mx_array *in, mx_array *out, bool warp)
{
    const int64_t height = out->shape[2], width = out->shape[3];
    const T *from = (const T *)mx_data(in);
    T *to = (T *)mx_data(out);
    return mx_cuda_each(call, out->size, [=] __device__(int64_t i) {
        const int64_t axis = i / width / height % 2, n = i / width / height / 2;
        const double across = mx_grid_place(i % width, width), down = mx_grid_place(i / width % height, height);
        const T *row = from + n * 6 + 3 * axis;
        to[i] = warp ? (T)((axis ? down : across) + mx_grid_pixel(axis ? height : width) * (double)from[i])
                     : (T)mx_grid_affine((double)row[0], (double)row[1], (double)row[2], across, down);
    });
}

template <class T> static mx_code grid(const mx_kernel_call *call)
{
    const mx_grid_generator_attrs *p = (const mx_grid_generator_attrs *)call->attrs;
    return mx_cuda_inputs_are<T>(call, 0)
               ? make_grid<T>(call, call->in[0], call->out[0], p->transform_type == MX_GRID_GENERATOR_WARP)
               : MX_DECLINED;
}

/* The transpose: a matrix gets the sums of the gradient times the places, a flow the gradient times a pixel. */
template <class T> static mx_code grid_backward(const mx_kernel_call *call)
{
    const mx_grid_generator_attrs *p = (const mx_grid_generator_attrs *)call->attrs;
    const mx_array *in = call->in[0];
    const int64_t height = in->shape[2], width = in->shape[3], map = height * width;
    const T *g = (const T *)mx_data(in);
    T *to = (T *)mx_data(call->out[0]);
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    if (p->transform_type == MX_GRID_GENERATOR_WARP)
        return mx_cuda_each(call, in->size, [=] __device__(int64_t i) {
            to[i] = (T)((double)g[i] * mx_grid_pixel(i / map % 2 ? height : width));
        });
    return mx_cuda_rows(call, in->shape[0] * 2, map, [=] __device__(int64_t row) {
        double across = 0, down = 0, all = 0;
        for (int64_t e = threadIdx.x; e < map; e += blockDim.x) {
            const double v = (double)g[row * map + e];
            across += v * mx_grid_place(e % width, width), down += v * mx_grid_place(e / width, height), all += v;
        }
        across = mx_cuda_block_sum(across), down = mx_cuda_block_sum(down), all = mx_cuda_block_sum(all);
        if (!threadIdx.x)
            to[row * 3] = (T)across, to[row * 3 + 1] = (T)down, to[row * 3 + 2] = (T)all;
    });
}

/* ---- samples -------------------------------------------------------------------------------------------------- */

template <class T> struct sampler {
    const T *data, *grid; /* (N, C, H, W), (N, 2, places) */
    int64_t batch, channels, height, width, places, map;
    sampler(const mx_array *x, const mx_array *where)
        : data((const T *)mx_data(x)), grid((const T *)mx_data(where)), batch(x->shape[0]), channels(x->shape[1]),
          height(x->shape[2]), width(x->shape[3]), places(where->shape[2] * where->shape[3]), map(height * width)
    {
    }
    __device__ mx_sampler_corners corners(int64_t n, int64_t p) const
    {
        const T *at = grid + n * 2 * places + p;
        return sizeof(T) == 4 ? mx_sampler_corners_f((float)at[0], (float)at[places], height, width)
                              : mx_sampler_corners_d((double)at[0], (double)at[places], height, width);
    }
};

template <class T>
static mx_code sample(const mx_kernel_call *call, const mx_array *data, const mx_array *grid, mx_array *out)
{
    if (!data->size)
        return mx_cuda_zero(call, out);
    const sampler<T> m(data, grid);
    const int64_t slices = (m.channels + SLICE - 1) / SLICE;
    T *y = (T *)mx_data(out);
    return mx_cuda_planes(call, m.batch, slices, m.places, [=] __device__(int64_t n, int slice, int p) {
        const int64_t first = (int64_t)slice * SLICE;
        const mx_sampler_corners c = m.corners(n, p);
        for (int64_t k = first; k < first + SLICE && k < m.channels; k++) {
            const T *plane = m.data + (n * m.channels + k) * m.map;
            T sum = 0;
            for (int q = 0; q < 4; q++)
                sum += (T)c.weight[q] * plane[c.at[q]];
            y[(n * m.channels + k) * m.places + p] = sum;
        }
    });
}

template <class T> static mx_code bilinear(const mx_kernel_call *call)
{
    return mx_cuda_inputs_are<T>(call, 0) ? sample<T>(call, call->in[0], call->in[1], call->out[0]) : MX_DECLINED;
}

/* inputs: ograd (N, C, places), data, grid */
template <class T> static mx_code bilinear_backward(const mx_kernel_call *call)
{
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    mx_code code = mx_cuda_zero(call, call->out[0]);
    if (code || !call->in[1]->size)
        return code ? code : mx_cuda_zero(call, call->out[1]);
    const sampler<T> m(call->in[1], call->in[2]);
    const T *ograd = (const T *)mx_data(call->in[0]);
    T *ddata = (T *)mx_data(call->out[0]), *dgrid = (T *)mx_data(call->out[1]);
    return mx_cuda_planes(call, m.batch, 1, m.places, [=] __device__(int64_t n, int, int p) {
        const mx_sampler_corners c = m.corners(n, p);
        double dx = 0, dy = 0;
        for (int64_t k = 0; k < m.channels; k++) {
            const T g = ograd[(n * m.channels + k) * m.places + p];
            for (int q = 0; q < 4; q++) {
                const int64_t at = (n * m.channels + k) * m.map + c.at[q];
                const double value = (double)m.data[at] * (double)g;
                dx += c.dx[q] * value, dy += c.dy[q] * value;
                if (c.weight[q] != 0)
                    atomicAdd(&ddata[at], (T)c.weight[q] * g);
            }
        }
        dgrid[n * 2 * m.places + p] = (T)mx_grid_slope(dx, m.width);
        dgrid[(n * 2 + 1) * m.places + p] = (T)mx_grid_slope(dy, m.height);
    });
}

/* Output 1 is the grid. */
template <class T> static mx_code transformer(const mx_kernel_call *call)
{
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    const mx_code code = make_grid<T>(call, call->in[1], call->out[1], false);
    return code ? code : sample<T>(call, call->in[0], call->out[1], call->out[0]);
}

MX_CUDA_FLOATS(run_grid, grid)
MX_CUDA_FLOATS(run_grid_backward, grid_backward)
MX_CUDA_FLOATS(run_bilinear, bilinear)
MX_CUDA_FLOATS(run_bilinear_backward, bilinear_backward)
MX_CUDA_FLOATS(run_transformer, transformer)

MX_CUDA_KERNELS(sampler) = {{"GridGenerator", run_grid, NULL},
                            {"_backward_GridGenerator", run_grid_backward, NULL},
                            {"BilinearSampler", run_bilinear, NULL},
                            {"_backward_BilinearSampler", run_bilinear_backward, NULL},
                            {"SpatialTransformer", run_transformer, NULL},
                            {NULL, NULL, NULL}};
