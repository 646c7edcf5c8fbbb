/* What pooling kernels share: sizes, windows, the value of a window.  Included by pooling.cu and pooling_squares.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_POOLING_H
#define MX_CUDA_POOLING_H

#include <cfloat>

#include "cuda/kernels/early.h"
#include "cuda/kernels/norm/channels.h"

namespace
{

struct pool {
    int type, p;
    bool include_pad, last;
    int channels, in[3], out[3], kernel[3], stride[3], pad[3]; /* three spatial axes; missing ones of size 1 */
    int in_all, out_all;                                       /* products of in, of out */
    int64_t images;
};

static pool shape_of(const mx_pooling_attrs *a, const mx_array *x, const mx_array *y)
{
    pool s = {};
    s.last = a->layout >= MX_POOLING_NWC;
    const int axes = x->ndim - 2, first = s.last ? 1 : 2, lead = 3 - axes;
    s.type = a->pool_type, s.p = a->p_value == MX_NONE_INT ? 2 : (int)a->p_value, s.include_pad = a->count_include_pad;
    s.channels = (int)x->shape[s.last ? axes + 1 : 1], s.in_all = s.out_all = 1, s.images = x->shape[0];
    for (int i = 0; i < 3; i++) {
        const int k = i - lead;
        s.in[i] = k < 0 ? 1 : (int)x->shape[first + k], s.out[i] = k < 0 ? 1 : (int)y->shape[first + k];
        s.kernel[i] = k < 0 ? 1 : a->global_pool ? s.in[i] : (int)a->kernel.d[k];
        s.stride[i] = k < 0 || a->global_pool || a->stride.n <= k ? 1 : (int)a->stride.d[k];
        s.pad[i] = k < 0 || a->global_pool || a->pad.n <= k ? 0 : (int)a->pad.d[k];
        s.in_all *= s.in[i], s.out_all *= s.out[i];
    }
    return s;
}

/* The elements of one image and channel: element q is base + q * step. */
struct plane {
    int64_t base;
    int step;
    __device__ plane(const pool &s, int all, int64_t image, int channel)
        : base(s.last ? image * all * s.channels + channel : (image * s.channels + channel) * all),
          step(s.last ? s.channels : 1)
    {
    }
    __device__ int64_t at(int q) const { return base + (int64_t)q * step; }
};

/* f(image, channel, place) for every place of x or y, V channels at a time. */
template <int V, class F> __global__ void each_place_kernel(pool s, int all, F f)
{
    const unsigned groups = (unsigned)s.channels / V, n = groups * (unsigned)all;
    mx_cuda_wait_for_earlier();
    for (int64_t image = blockIdx.y; image < s.images; image += gridDim.y)
        for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
            const unsigned place = s.last ? i / groups : i % all, channel = s.last ? i % groups * V : i / all;
            f(image, (int)channel, (int)place);
        }
}

template <int V, class F> static mx_code each_place(const mx_kernel_call *call, const pool &s, int all, F f)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const int64_t n = (int64_t)all * s.channels / V;
    if (!d)
        return mx_error_code();
    if (!n || !s.images)
        return MX_OK;
    if (n * V > INT32_MAX)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "an image of %lld elements is too large for gpu(%d)",
                          (long long)(n * V), d->id);
    const dim3 grid(mx_cuda_blocks(d, (n + MX_CUDA_BLOCK - 1) / MX_CUDA_BLOCK),
                    (unsigned)mx_cuda_least(s.images, 65535));
    return mx_cuda_fail(mx_cuda_launch_early(d, each_place_kernel<V, F>, grid, MX_CUDA_BLOCK, s, all, f),
                        call->op->name);
}

/* ---- windows --------------------------------------------------------------------------------------------------- */

struct window {
    int begin[3], end[3];
    double scale; /* of sums */
    bool empty;
    __device__ window(const pool &s, int z, int y, int x)
    {
        const int at[3] = {z, y, x};
        int64_t padded = 1, real = 1;
        for (int a = 0; a < 3; a++) {
            const int first = at[a] * s.stride[a] - s.pad[a], most = s.in[a] + s.pad[a];
            const int behind = first + s.kernel[a] < most ? first + s.kernel[a] : most;
            begin[a] = first > 0 ? first : 0;
            end[a] = behind < s.in[a] ? behind : s.in[a];
            padded *= behind > first ? behind - first : 0;
            real *= end[a] > begin[a] ? end[a] - begin[a] : 0;
        }
        const int64_t size = s.include_pad ? padded : real;
        empty = real == 0;
        scale = s.type == MX_POOLING_AVG ? size > 0 ? 1 / (double)size : 0 : 1; /* divisions in double are slow */
    }
    __device__ window(const pool &s, int place)
        : window(s, place / (s.out[1] * s.out[2]), place / s.out[2] % s.out[1], place % s.out[2])
    {
    }
    /* The number of an element in the window's box, as stored in `winners`. */
    __device__ int number(const pool &s, int z, int y, int x) const
    {
        return ((z - begin[0]) * s.kernel[1] + y - begin[1]) * s.kernel[2] + x - begin[2];
    }
};

/* f(place in x, number in the window) */
template <class F> __device__ void each_element(const pool &s, const window &w, F f)
{
    for (int z = w.begin[0]; z < w.end[0]; z++)
        for (int y = w.begin[1]; y < w.end[1]; y++)
            for (int x = w.begin[2]; x < w.end[2]; x++)
                f((z * s.in[1] + y) * s.in[2] + x, w.number(s, z, y, x));
}

template <class T> __device__ T power(T v, int p) { return p == 1 ? v : p == 2 ? v * v : v * v * v; }
template <class T> __device__ T root(T v, int p) { return p == 1 ? v : p == 2 ? sqrt(v) : cbrt(v); }

/* result[l] for V channels */
template <class S, int V, class T>
__device__ void pooled(const pool &s, const window &w, const plane &p, const S *x, T *result)
{
    for (int l = 0; l < V; l++)
        result[l] = s.type != MX_POOLING_MAX ? (T)0
                    : w.empty                ? (sizeof(T) == 4 ? (T)-FLT_MAX : (T)-DBL_MAX)
                                             : (T)-INFINITY;
    each_element(s, w, [&](int q, int) {
        const mx_cuda_pack<S, V> k = mx_cuda_pack<S, V>::load(x, p.at(q));
        for (int l = 0; l < V; l++) {
            const T v = (T)k.v[l];
            if (s.type == MX_POOLING_MAX)
                result[l] = v > result[l] ? v : result[l];
            else
                result[l] += s.type == MX_POOLING_LP ? power(v, s.p) : v;
        }
    });
    for (int l = 0; l < V && s.type != MX_POOLING_MAX; l++)
        result[l] = s.type == MX_POOLING_LP ? root(result[l], s.p) : result[l] * (T)w.scale;
}

} // namespace

#endif
