/* Pooling: a thread per result.  The gradient of an element is gathered from the windows that hold it, so no two threads
 * write to one place and the order of additions is fixed.
 *
 *     max   the largest element; of equal ones the first takes the gradient; NaN is never the largest
 *     avg   sum / window size, the window cut at the padded input (count_include_pad) or at the input itself
 *     lp    (sum of x^p)^(1/p)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cfloat>

#include "cuda/cuda.h"

struct pool {
    int type, p;
    bool include_pad, last;
    int64_t channels, in[3], out[3], kernel[3], stride[3], pad[3]; /* three spatial axes; missing ones of size 1 */
    int64_t in_all, out_all;                                       /* products of in, of out */

    /* An element of x or y by its number: image, channel and position. */
    __device__ void locate(int64_t i, const int64_t *size, int64_t all, int64_t *image, int64_t *channel, int64_t *at) const
    {
        const int64_t spatial = last ? i / channels % all : i % all;
        *channel = last ? i % channels : i / all % channels;
        *image = i / (channels * all);
        at[0] = spatial / (size[1] * size[2]), at[1] = spatial / size[2] % size[1], at[2] = spatial % size[2];
    }
    __device__ int64_t place(const int64_t *size, int64_t all, int64_t image, int64_t channel, int64_t z, int64_t y, int64_t x) const
    {
        const int64_t spatial = (z * size[1] + y) * size[2] + x;
        return last ? (image * all + spatial) * channels + channel : (image * channels + channel) * all + spatial;
    }
};

struct window {
    int64_t begin[3], end[3];
    double scale; /* of sums */
    bool empty;
    __device__ window(const pool &s, const int64_t *at)
    {
        int64_t padded = 1, real = 1;
        for (int a = 0; a < 3; a++) {
            const int64_t first = at[a] * s.stride[a] - s.pad[a], most = s.in[a] + s.pad[a];
            const int64_t behind = first + s.kernel[a] < most ? first + s.kernel[a] : most;
            begin[a] = first > 0 ? first : 0;
            end[a] = behind < s.in[a] ? behind : s.in[a];
            padded *= behind > first ? behind - first : 0;
            real *= end[a] > begin[a] ? end[a] - begin[a] : 0;
        }
        const int64_t size = s.type != MX_POOLING_AVG ? 1 : s.include_pad ? padded : real;
        empty = real == 0;
        scale = size > 0 ? 1 / (double)size : 0;
    }
};

/* f(index of x) for every element of a window. */
template <class F> __device__ void each_element(const pool &s, const window &w, int64_t image, int64_t channel, F f)
{
    for (int64_t z = w.begin[0]; z < w.end[0]; z++)
        for (int64_t y = w.begin[1]; y < w.end[1]; y++)
            for (int64_t x = w.begin[2]; x < w.end[2]; x++)
                f(s.place(s.in, s.in_all, image, channel, z, y, x));
}

template <class T> __device__ T power(T v, int p) { return p == 1 ? v : p == 2 ? v * v : v * v * v; }
template <class T> __device__ T root(T v, int p) { return p == 1 ? v : p == 2 ? sqrt(v) : cbrt(v); }

template <class T> __device__ T pooled(const pool &s, const window &w, int64_t image, int64_t channel, const T *x)
{
    T result = s.type != MX_POOLING_MAX ? (T)0 : w.empty ? (sizeof(T) == 4 ? (T)-FLT_MAX : (T)-DBL_MAX) : (T)-INFINITY;
    each_element(s, w, image, channel, [&](int64_t k) {
        if (s.type == MX_POOLING_MAX)
            result = x[k] > result ? x[k] : result;
        else
            result += s.type == MX_POOLING_LP ? power(x[k], s.p) : x[k];
    });
    return s.type == MX_POOLING_MAX ? result : s.type == MX_POOLING_LP ? root(result, s.p) : result * (T)w.scale;
}

/* The part of a window's gradient that element `me` gets, per unit. */
template <class T> __device__ T share(const pool &s, const window &w, int64_t image, int64_t channel, const T *x, int64_t me)
{
    if (s.type == MX_POOLING_AVG || s.type == MX_POOLING_SUM)
        return (T)w.scale;
    if (s.type == MX_POOLING_LP) {
        const T y = pooled(s, w, image, channel, x), ratio = y != 0 ? x[me] / y : 0;
        return s.p == 1 ? 1 : s.p == 2 ? ratio : ratio * ratio;
    }
    int64_t best = -1;
    T most = (T)-INFINITY;
    each_element(s, w, image, channel, [&](int64_t k) {
        if (x[k] > most || (best < 0 && x[k] == most))
            most = x[k], best = k;
    });
    return best == me;
}

static pool shape_of(const mx_pooling_attrs *a, const mx_array *x, const mx_array *y)
{
    pool s = {};
    s.last = a->layout >= MX_POOLING_NWC;
    const int axes = x->ndim - 2, first = s.last ? 1 : 2, lead = 3 - axes;
    s.type = a->pool_type, s.p = a->p_value == MX_NONE_INT ? 2 : (int)a->p_value, s.include_pad = a->count_include_pad;
    s.channels = x->shape[s.last ? axes + 1 : 1], s.in_all = s.out_all = 1;
    for (int i = 0; i < 3; i++) {
        const int k = i - lead;
        s.in[i] = k < 0 ? 1 : x->shape[first + k], s.out[i] = k < 0 ? 1 : y->shape[first + k];
        s.kernel[i] = k < 0 ? 1 : a->global_pool ? s.in[i] : a->kernel.d[k];
        s.stride[i] = k < 0 || a->global_pool || a->stride.n <= k ? 1 : a->stride.d[k];
        s.pad[i] = k < 0 || a->global_pool || a->pad.n <= k ? 0 : a->pad.d[k];
        s.in_all *= s.in[i], s.out_all *= s.out[i];
    }
    return s;
}

template <class T> static mx_code forward(const mx_kernel_call *call)
{
    const pool s = shape_of((const mx_pooling_attrs *)call->attrs, call->in[0], call->out[0]);
    const T *x = (const T *)mx_data(call->in[0]);
    T *y = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        int64_t image, channel, at[3];
        s.locate(i, s.out, s.out_all, &image, &channel, at);
        y[i] = pooled(s, window(s, at), image, channel, x);
    });
}

template <class T> static mx_code backward(const mx_kernel_call *call)
{
    const pool s = shape_of((const mx_pooling_attrs *)call->attrs, call->in[1], call->in[0]);
    const T *dy = (const T *)mx_data(call->in[0]), *x = (const T *)mx_data(call->in[1]);
    T *dx = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        int64_t image, channel, me[3], first[3], end[3], at[3];
        s.locate(i, s.in, s.in_all, &image, &channel, me);
        for (int a = 0; a < 3; a++) { /* the windows that hold the element */
            const int64_t low = me[a] + s.pad[a] - s.kernel[a] + 1, high = (me[a] + s.pad[a]) / s.stride[a] + 1;
            first[a] = low > 0 ? (low + s.stride[a] - 1) / s.stride[a] : 0;
            end[a] = high < s.out[a] ? high : s.out[a];
        }
        T sum = 0;
        for (at[0] = first[0]; at[0] < end[0]; at[0]++)
            for (at[1] = first[1]; at[1] < end[1]; at[1]++)
                for (at[2] = first[2]; at[2] < end[2]; at[2]++)
                    sum += share(s, window(s, at), image, channel, x, i) *
                           dy[s.place(s.out, s.out_all, image, channel, at[0], at[1], at[2])];
        dx[i] = sum;
    });
}

MX_CUDA_FLOATS(run_pooling, forward)
MX_CUDA_FLOATS(run_backward, backward)

MX_CUDA_KERNELS(pooling) = {{"Pooling", run_pooling, NULL}, {"_backward_Pooling", run_backward, NULL}, {NULL, NULL, NULL}};
