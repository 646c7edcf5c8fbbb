/* Images to tensors, normalisation per channel.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/numbers.h"
#include "cuda/kernels/planes.h"

/* (H, W, C) in 0..255 to (C, H, W) in 0..1 */
static mx_code run_to_tensor(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    const int64_t channels = x->shape[x->ndim - 1], area = x->shape[x->ndim - 3] * x->shape[x->ndim - 2];
    const void *from = mx_data(x);
    const int type = x->dtype;
    float *to = (float *)mx_data(call->out[0]);
    return mx_cuda_planes(call, area ? x->size / (area * channels) : 0, channels, area,
                          [=] __device__(int64_t n, int c, int pixel) {
                              to[(n * channels + c) * area + pixel] =
                                  mx_cuda_load<float>(from, type, (n * area + pixel) * channels + c) / 255.0f;
                          });
}

static mx_code run_normalize(const mx_kernel_call *call)
{
    const mx_image_normalize_attrs a = *(const mx_image_normalize_attrs *)call->attrs;
    const mx_array *x = call->in[0];
    if (!mx_dtype_is_float(x->dtype))
        return MX_DECLINED;
    const int64_t channels = x->shape[x->ndim - 3], area = x->shape[x->ndim - 2] * x->shape[x->ndim - 1];
    const mx_cuda_numbers from(x);
    const mx_cuda_results to(call->out[0]);
    return mx_cuda_planes(call, area ? x->size / (area * channels) : 0, channels, area,
                          [=] __device__(int64_t n, int c, int pixel) {
                              const int64_t i = (n * channels + c) * area + pixel;
                              to.put(i, (from[i] - a.mean.d[a.mean.n == 1 ? 0 : c]) / a.std.d[a.std.n == 1 ? 0 : c]);
                          });
}

MX_CUDA_KERNELS(image) = {
    {"_image_to_tensor", run_to_tensor, NULL}, {"_image_normalize", run_normalize, NULL}, {NULL, NULL, NULL}};
