/* Resampling of images (op/formula/resize.h): weighted sums of neighbours.  SPDX-License-Identifier: Apache-2.0 */
#include <cstring>

#include "cuda/kernels/numbers.h"
#include "cuda/kernels/planes.h"
extern "C" {
#include "op/formula/resize.h"
}

#define LARGE 256 /* elements of a window that is worth a block */

namespace /* the name is also used elsewhere */
{
struct images { /* (planes, from) -> (planes, to); transposed the other way round */
    int64_t planes, from_height, from_width, to_height, to_width;
    mx_resize_taps *down, *across; /* (to_height), (to_width) */
};
} // namespace

static mx_code find_taps(const mx_kernel_call *call, const images &s, int kind)
{
    return mx_cuda_each(call, s.to_height + s.to_width, [=] __device__(int64_t i) {
        if (i < s.to_height)
            s.down[i] = mx_resize_at(kind, s.from_height, s.to_height, i);
        else
            s.across[i - s.to_height] = mx_resize_at(kind, s.from_width, s.to_width, i - s.to_height);
    });
}

template <class T> static mx_code resample_forward(const mx_kernel_call *call, const images &s)
{
    const T *from = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(call->out[0]);
    return mx_cuda_planes(call, s.planes, s.to_height, s.to_width, [=] __device__(int64_t p, int y, int x) {
        const mx_resize_taps d = s.down[y], a = s.across[x];
        const T *plane = from + p * s.from_height * s.from_width + a.first, first = (T)a.weight, next = (T)a.next;
        T sum = 0;
        for (int64_t r = 0; r < d.count; r++) {
            const T *row = plane + (d.first + r) * s.from_width;
            T part = first * row[0];
            for (int64_t k = 1; k < a.count; k++)
                part += next * row[k];
            sum += (T)(r ? d.next : d.weight) * part;
        }
        to[(p * s.to_height + y) * s.to_width + x] = sum;
    });
}

/* Means over large windows: a block for each. */
template <class T> static mx_code mean_forward(const mx_kernel_call *call, const images &s)
{
    const T *from = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(call->out[0]);
    const int64_t window = s.from_height / s.to_height * (s.from_width / s.to_width);
    return mx_cuda_rows(call, call->out[0]->size, window, [=] __device__(int64_t i) {
        const mx_resize_taps d = s.down[i / s.to_width % s.to_height], a = s.across[i % s.to_width];
        const T *plane = from + i / s.to_width / s.to_height * s.from_height * s.from_width;
        const int count = (int)(d.count * a.count), wide = (int)a.count;
        T sum = 0;
        for (int k = threadIdx.x; k < count; k += blockDim.x)
            sum += plane[(d.first + k / wide) * s.from_width + a.first + k % wide];
        sum = mx_cuda_block_sum(sum);
        if (!threadIdx.x)
            to[i] = (T)(d.weight * a.weight) * sum;
    });
}

template <class T> static mx_code resample_transposed(const mx_kernel_call *call, const images &s)
{
    const T *from = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(call->out[0]);
    const mx_code code = mx_cuda_zero(call, call->out[0]);
    if (code)
        return code;
    return mx_cuda_planes(call, s.planes, s.to_height, s.to_width, [=] __device__(int64_t p, int y, int x) {
        const mx_resize_taps d = s.down[y], a = s.across[x];
        const T g = from[(p * s.to_height + y) * s.to_width + x];
        for (int64_t r = 0; r < d.count; r++) {
            T *row = to + (p * s.from_height + d.first + r) * s.from_width + a.first;
            const T part = (T)(r ? d.next : d.weight) * g;
            for (int64_t k = 0; k < a.count; k++)
                atomicAdd(&row[k], (T)(k ? a.next : a.weight) * part);
        }
    });
}

template <class T> static mx_code resample(const mx_kernel_call *call)
{
    const char *name = call->op->name;
    const bool transposed = !strcmp(name, "_resample_transposed");
    int kind = MX_RESIZE_MEAN;
    if (!mx_cuda_inputs_are<T>(call, 2)) /* input 1: only its shape is used */
        return MX_DECLINED;
    if (!strcmp(name, "_contrib_BilinearResize2D"))
        kind = ((const mx_bilinear_resize_attrs *)call->attrs)->align_corners ? MX_RESIZE_CORNERS : MX_RESIZE_CENTERS;
    else if (strcmp(name, "_contrib_AdaptiveAvgPooling2D"))
        kind = ((const mx_resample_attrs *)call->attrs)->kind;
    const mx_array *from = transposed ? call->out[0] : call->in[0], *to = transposed ? call->in[0] : call->out[0];
    images s = {from->shape[0] * from->shape[1], from->shape[2], from->shape[3], to->shape[2], to->shape[3]};
    mx_cuda_device *device = mx_cuda_of(call);
    if (!device || !from->size || !to->size)
        return device ? mx_cuda_zero(call, call->out[0]) : mx_error_code();
    mx_cuda_scratch taps(device, (size_t)(s.to_height + s.to_width) * sizeof(mx_resize_taps));
    if (!taps.memory)
        return mx_error_code();
    s.down = taps.as<mx_resize_taps>(), s.across = s.down + s.to_height;
    const mx_code code = find_taps(call, s, kind);
    if (code || transposed)
        return code ? code : resample_transposed<T>(call, s);
    const bool large = kind == MX_RESIZE_MEAN && s.from_height / s.to_height * (s.from_width / s.to_width) >= LARGE;
    return large ? mean_forward<T>(call, s) : resample_forward<T>(call, s);
}
MX_CUDA_FLOATS(run_resample, resample)

MX_CUDA_KERNELS(resize) = {{"_contrib_BilinearResize2D", run_resample, NULL},
                           {"_contrib_AdaptiveAvgPooling2D", run_resample, NULL},
                           {"_resample", run_resample, NULL},
                           {"_resample_transposed", run_resample, NULL},
                           {NULL, NULL, NULL}};
