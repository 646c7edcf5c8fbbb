/* Correlation (op/formula/correlation.h): every result gathers its terms.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/numbers.h"
extern "C" {
#include "op/formula/correlation.h"
}

template <class T> struct maps {
    mx_correlation_sizes c;
    const T *a, *b; /* data1, data2 (N, C, H, W) */
    bool multiply;
    int64_t area;
    __device__ T at(const T *plane, int64_t y, int64_t x) const /* places with the padding; zeros around */
    {
        y -= c.pad, x -= c.pad;
        return y >= 0 && x >= 0 && y < c.height && x < c.width ? plane[y * c.width + x] : 0;
    }
    T scale() const { return (T)1 / (T)(c.kernel * c.kernel * c.channels); }
};

template <class T> static maps<T> maps_of(const mx_kernel_call *call, int first)
{
    const mx_correlation_attrs *p = (const mx_correlation_attrs *)call->attrs;
    const mx_correlation_sizes c = mx_correlation_of(p->kernel_size, p->max_displacement, p->stride1, p->stride2,
                                                     p->pad_size, call->in[first]->shape);
    return {c, (const T *)mx_data(call->in[first]), (const T *)mx_data(call->in[first + 1]), p->is_multiply,
            c.height * c.width};
}

/* out (N, grid * grid, rows, columns) */
template <class T> static mx_code forward(const mx_kernel_call *call)
{
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    const maps<T> m = maps_of<T>(call, 0);
    const T scale = m.scale();
    T *out = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        const mx_correlation_sizes &c = m.c;
        const int64_t x = i % c.columns * c.stride + c.reach, y = i / c.columns % c.rows * c.stride + c.reach,
                      move = i / c.columns / c.rows % (c.grid * c.grid), n = i / c.columns / c.rows / (c.grid * c.grid);
        const int64_t down = (move / c.grid - c.radius) * c.step, across = (move % c.grid - c.radius) * c.step;
        T sum = 0;
        for (int64_t channel = 0; channel < c.channels; channel++) {
            const T *a = m.a + (n * c.channels + channel) * m.area, *b = m.b + (n * c.channels + channel) * m.area;
            for (int64_t k = 0; k < c.kernel * c.kernel; k++) {
                const int64_t row = y + k / c.kernel, column = x + k % c.kernel;
                const T v = m.at(a, row, column), w = m.at(b, row + down, column + across);
                sum += m.multiply ? v * w : (T)fabs(v - w);
            }
        }
        out[i] = sum * scale;
    });
}

/* The gradient that reaches data1 at (y, x), padding included, through one displacement: da += g b, or g by the sign of
 * a - b.  For data2 it is the same at the place it was displaced from, with a for b and the opposite sign. */
template <class T>
__device__ T through(const maps<T> &m, const T *g, int64_t y, int64_t x, T value, bool second, T a, T b)
{
    const int kernel = (int)m.c.kernel, stride = (int)m.c.stride, rows = (int)m.c.rows, columns = (int)m.c.columns;
    T sum = 0;
    for (int k = 0; k < kernel * kernel; k++) {
        const int row = (int)(y - m.c.reach) - k / kernel, column = (int)(x - m.c.reach) - k % kernel;
        if (row >= 0 && column >= 0 && row % stride == 0 && column % stride == 0 && row / stride < rows &&
            column / stride < columns)
            sum += g[row / stride * columns + column / stride];
    }
    return m.multiply ? sum * value : (a >= b) != second ? sum : -sum;
}

/* inputs: ograd, data1, data2 */
template <class T> static mx_code backward(const mx_kernel_call *call)
{
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    const maps<T> m = maps_of<T>(call, 1);
    const T scale = m.scale(), *ograd = (const T *)mx_data(call->in[0]);
    const int64_t size = call->out[0]->size;
    T *da = (T *)mx_data(call->out[0]), *db = (T *)mx_data(call->out[1]);
    return mx_cuda_each(call, 2 * size, [=] __device__(int64_t e) {
        const mx_correlation_sizes &c = m.c;
        const bool second = e >= size;
        const int64_t i = second ? e - size : e, x = i % c.width + c.pad, y = i / c.width % c.height + c.pad,
                      plane = i / m.area * m.area, moves = c.grid * c.grid;
        const T *g = ograd + i / m.area / c.channels * moves * c.rows * c.columns;
        const T own = second ? m.b[i] : m.a[i];
        T sum = 0;
        for (int64_t move = 0; move < moves; move++, g += c.rows * c.columns) {
            const int64_t down = (move / c.grid - c.radius) * c.step, across = (move % c.grid - c.radius) * c.step;
            const T other = second ? m.at(m.a + plane, y - down, x - across) : m.at(m.b + plane, y + down, x + across);
            sum += second ? through(m, g, y - down, x - across, other, true, other, own)
                          : through(m, g, y, x, other, false, own, other);
        }
        (second ? db : da)[i] = sum * scale;
    });
}
MX_CUDA_FLOATS(run_forward, forward)
MX_CUDA_FLOATS(run_backward, backward)

MX_CUDA_KERNELS(correlation) = {
    {"Correlation", run_forward, NULL}, {"_backward_Correlation", run_backward, NULL}, {NULL, NULL, NULL}};
