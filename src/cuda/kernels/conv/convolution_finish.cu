/* Bias, addend and limits in one pass over the results of a convolution.
 *
 * With channels last, threads take 16 bytes at a time; other orders, types and addresses are done element by element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/conv/convolution_finish.h"

#include "cuda/kernels/early.h"

namespace
{

#define THREADS 256

template <class T> struct alignas(16) pack {
    T v[16 / sizeof(T)];
};

/* y (count) packs, whose rows have `across` of them */
template <class T>
__global__ void __launch_bounds__(THREADS) finish_packs(pack<T> *y, const pack<T> *bias, const pack<T> *addend,
                                                        unsigned across, unsigned count, float low, float high)
{
    mx_cuda_wait_for_earlier();
    for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < count; i += gridDim.x * THREADS) {
        pack<T> p = y[i], shift, other;
        if (bias)
            shift = bias[i % across];
        if (addend)
            other = addend[i];
#pragma unroll
        for (int k = 0; k < (int)(16 / sizeof(T)); k++) {
            float x = (float)p.v[k] + (bias ? (float)shift.v[k] : 0) + (addend ? (float)other.v[k] : 0);
            x = x < low ? low : x; /* keeps NaN */
            p.v[k] = (T)(x > high ? high : x);
        }
        y[i] = p;
    }
}

template <class T>
static mx_code by_packs(const mx_kernel_call *call, mx_cuda_device *d, mx_array *out, const mx_cuda_ending &e)
{
    constexpr int V = 16 / sizeof(T);
    const unsigned count = (unsigned)(out->size / V), across = (unsigned)(out->shape[out->ndim - 1] / V);
    const cudaError_t status =
        mx_cuda_launch_early(d, finish_packs<T>, dim3(mx_cuda_blocks(d, (count + THREADS - 1) / THREADS)), THREADS,
                             (pack<T> *)mx_data(out), (const pack<T> *)(e.bias ? mx_data(e.bias) : nullptr),
                             (const pack<T> *)(e.addend ? mx_data(e.addend) : nullptr), across, count, e.low, e.high);
    return mx_cuda_fail(status, call->op->name);
}

static bool packs(const mx_array *out, const mx_cuda_ending &e, bool last)
{
    const uintptr_t bias = e.bias ? (uintptr_t)mx_data(e.bias) : 0,
                    addend = e.addend ? (uintptr_t)mx_data(e.addend) : 0;
    const int64_t whole = 16 / mx_dtype_size((mx_dtype)out->dtype);
    return last && out->dtype != MX_FLOAT64 && out->shape[out->ndim - 1] % whole == 0 && out->size < UINT32_MAX / 2 &&
           ((uintptr_t)mx_data(out) | bias | addend) % 16 == 0;
}

template <class C>
static mx_code by_elements(const mx_kernel_call *call, mx_array *out, const mx_cuda_ending &e, int64_t channels,
                           int64_t inner)
{
    void *y = mx_data(out);
    const void *bias = e.bias ? mx_data(e.bias) : nullptr, *addend = e.addend ? mx_data(e.addend) : nullptr;
    const C low = e.low, high = e.high;
    const int type = out->dtype;
    return mx_cuda_each(call, out->size, [=] __device__(int64_t i) {
        C x = mx_cuda_load<C>(y, type, i);
        x += bias ? mx_cuda_load<C>(bias, type, i / inner % channels) : 0;
        x += addend ? mx_cuda_load<C>(addend, type, i) : 0;
        x = x < low ? low : x; /* keeps NaN */
        mx_cuda_store<C>(y, type, i, x > high ? high : x);
    });
}

} // namespace

mx_code mx_cuda_finish_convolution(const mx_kernel_call *call, mx_array *out, const mx_cuda_ending &e, bool last)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (e.empty() || !out->size)
        return MX_OK;
    if (packs(out, e, last))
        return out->dtype == MX_BFLOAT16  ? by_packs<__nv_bfloat16>(call, d, out, e)
               : out->dtype == MX_FLOAT16 ? by_packs<__half>(call, d, out, e)
                                          : by_packs<float>(call, d, out, e);
    const int64_t channels = out->shape[last ? out->ndim - 1 : 1];
    const int64_t inner = last ? 1 : out->size / (out->shape[0] * channels);
    return out->dtype == MX_FLOAT64 ? by_elements<double>(call, out, e, channels, inner)
                                    : by_elements<float>(call, out, e, channels, inner);
}
