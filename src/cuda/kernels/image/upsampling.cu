/* UpSampling: repeated pixels, or a transposed depthwise convolution.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/items.h"
#include "cuda/kernels/numbers.h"
#include "cuda/kernels/planes.h"

/* out[n, channel + c, y, x] = or += in[n, c, y / high, x / wide] */
template <class T> static mx_code repeat(const mx_kernel_call *call, const mx_array *in, int64_t channel, bool add)
{
    const int64_t *s = in->shape, *o = call->out[0]->shape, height = o[2], width = o[3], all = o[1], channels = s[1],
                  rows = s[2], columns = s[3];
    const T *from = (const T *)mx_data(in);
    T *to = (T *)mx_data(call->out[0]);
    const int high = rows ? (int)(height / rows) : 1, wide = columns ? (int)(width / columns) : 1;
    return mx_cuda_planes(call, s[0] * channels, height, width, [=] __device__(int64_t p, int y, int x) {
        const int64_t c = p % channels, n = p / channels;
        const T value = from[(p * rows + y / high) * columns + x / wide];
        T *target = &to[((n * all + channel + c) * height + y) * width + x];
        *target = add ? *target + value : value;
    });
}

static mx_code side_by_side(const mx_kernel_call *call)
{
    mx_code code = MX_OK;
    int64_t channel = 0;
    for (int k = 0; k < call->n_in && !code; channel += call->in[k]->shape[1], k++)
        code = mx_cuda_by_item(call->out[0],
                               [&](auto item) { return repeat<decltype(item)>(call, call->in[k], channel, false); });
    return code;
}

/* The transposed convolution of every channel: out[i * scale - pad + q] += in[i] weight[q], gathered. */
template <class T> static mx_code bilinear(const mx_kernel_call *call, int64_t scale)
{
    const int64_t *s = call->in[0]->shape, kernel = 2 * scale - scale % 2, pad = scale / 2, rows = s[2], columns = s[3],
                  channels = s[1], height = rows * scale, width = columns * scale;
    const T *in = (const T *)mx_data(call->in[0]), *weights = (const T *)mx_data(call->in[1]);
    T *out = (T *)mx_data(call->out[0]);
    return mx_cuda_planes(call, s[0] * channels, height, width, [=] __device__(int64_t plane, int row, int column) {
        const int side = (int)kernel, step = (int)scale, y = row + (int)pad, x = column + (int)pad;
        const T *weight = weights + plane % channels * kernel * kernel, *from = in + plane * rows * columns;
        T sum = 0;
        for (int r = y < side ? 0 : (y - side) / step + 1; r < rows && r * step <= y; r++)
            for (int c = x < side ? 0 : (x - side) / step + 1; c < columns && c * step <= x; c++)
                sum += from[r * columns + c] * weight[(y - r * step) * side + x - c * step];
        out[(plane * height + row) * width + column] = sum;
    });
}

template <class T> static mx_code upsample(const mx_kernel_call *call)
{
    const mx_upsampling_attrs *p = (const mx_upsampling_attrs *)call->attrs;
    if (!mx_cuda_inputs_are<T>(call, 0))
        return MX_DECLINED;
    if (p->sample_type == MX_UPSAMPLING_BILINEAR)
        return bilinear<T>(call, p->scale);
    mx_code code = MX_OK;
    for (int k = 0; k < call->n_in && !code; k++)
        code = repeat<T>(call, call->in[k], 0, k > 0);
    return code;
}
MX_CUDA_FLOATS(run_upsample, upsample)

static mx_code run_upsampling(const mx_kernel_call *call)
{
    const mx_upsampling_attrs *p = (const mx_upsampling_attrs *)call->attrs;
    const bool copies = p->multi_input_mode == MX_UPSAMPLING_CONCAT || call->n_in == 1;
    return p->sample_type != MX_UPSAMPLING_BILINEAR && copies ? side_by_side(call) : run_upsample(call);
}

MX_CUDA_KERNELS(upsampling) = {{"UpSampling", run_upsampling, NULL}, {NULL, NULL, NULL}};
