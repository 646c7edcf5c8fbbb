/* _pool_pick, the second order of max pooling: for every window, the value at the place where data is largest; 0 if
 * there is none.
 *
 * Of equal elements the first is taken, NaN never is, as in pooling.cu.  A thread per result.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"

namespace
{

/* One image, three spatial axes; missing ones are of size 1.  Strides are in elements. */
struct windows {
    int64_t in[3], out[3], kernel[3], stride[3], pad[3];
    int64_t channels, image, channel, step[3]; /* of the input: one image, channel, place further */
    bool last;
};

static windows windows_of(const mx_pooling_attrs *a, const mx_array *x, const mx_array *y)
{
    windows w = {};
    w.last = a->layout >= MX_POOLING_NWC;
    const int axes = x->ndim - 2, first = w.last ? 1 : 2;
    w.channels = x->shape[w.last ? axes + 1 : 1];
    int64_t step = w.last ? w.channels : 1;
    for (int i = 2; i >= 0; i--) {
        const int k = i - (3 - axes);
        w.in[i] = k < 0 ? 1 : x->shape[first + k], w.out[i] = k < 0 ? 1 : y->shape[first + k];
        w.kernel[i] = k < 0 ? 1 : a->global_pool ? w.in[i] : a->kernel.d[k];
        w.stride[i] = k < 0 || a->global_pool || a->stride.n <= k ? 1 : a->stride.d[k];
        w.pad[i] = k < 0 || a->global_pool || a->pad.n <= k ? 0 : a->pad.d[k];
        w.step[i] = step, step *= w.in[i];
    }
    w.image = w.last ? step : step * w.channels;
    w.channel = w.last ? 1 : step;
    return w;
}

/* The place of the largest element of result i's window; -1: none. */
template <class T> __device__ int64_t largest(const windows &w, const T *x, int64_t i)
{
    int64_t at[3], begin[3], end[3], channel = 0, found = -1;
    if (w.last)
        channel = i % w.channels, i /= w.channels;
    for (int k = 2; k >= 0; k--)
        at[k] = i % w.out[k], i /= w.out[k];
    if (!w.last)
        channel = i % w.channels, i /= w.channels;
    for (int k = 0; k < 3; k++) {
        const int64_t first = at[k] * w.stride[k] - w.pad[k];
        begin[k] = first > 0 ? first : 0;
        end[k] = first + w.kernel[k] < w.in[k] ? first + w.kernel[k] : w.in[k];
    }
    const int64_t base = i * w.image + channel * w.channel;
    T most = 0;
    for (int64_t a = begin[0]; a < end[0]; a++)
        for (int64_t b = begin[1]; b < end[1]; b++)
            for (int64_t c = begin[2]; c < end[2]; c++) {
                const int64_t p = base + a * w.step[0] + b * w.step[1] + c * w.step[2];
                if (found < 0 ? x[p] == x[p] : x[p] > most)
                    most = x[p], found = p;
            }
    return found;
}

template <class T> mx_code pick(const mx_kernel_call *call)
{
    if (call->in[0]->dtype != call->in[1]->dtype || !mx_dtype_is_float(call->in[1]->dtype))
        return MX_DECLINED;
    const windows w = windows_of((const mx_pooling_attrs *)call->attrs, call->in[1], call->out[0]);
    const T *values = (const T *)mx_data(call->in[0]), *x = (const T *)mx_data(call->in[1]);
    T *y = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        const int64_t found = largest(w, x, i);
        y[i] = found < 0 ? (T)0 : values[found];
    });
}
MX_CUDA_FLOATS(run_pick, pick)

} // namespace

MX_CUDA_KERNELS(pooling_pick) = {{"_pool_pick", run_pick, NULL}, {NULL, NULL, NULL}};
