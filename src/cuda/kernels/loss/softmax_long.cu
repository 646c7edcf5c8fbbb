/* Cross entropy of many classes: a block per row, which is read from memory once and stays in shared memory.
 *
 *     loss = log sum exp x - x[label];  dx = g (softmax x - label)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/loss/softmax_long.h"

#define THREADS 1024

namespace
{
/* 16 bytes of elements */
template <class S> struct alignas(16) pack {
    enum { size = 16 / sizeof(S) };
    S v[size];
};

template <class S> __global__ void __launch_bounds__(THREADS) long_losses(const __grid_constant__ mx_cuda_long_rows t)
{
    typedef pack<S> values;
    extern __shared__ __align__(16) char memory[];
    values *kept = (values *)memory;
    const int64_t row = blockIdx.x;
    const int packs = (int)(t.n / values::size);
    const values *x = (const values *)t.x.data + row * packs;
    float most = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < packs; i += THREADS) {
        const values p = kept[i] = x[i];
#pragma unroll
        for (int k = 0; k < values::size; k++)
            most = fmaxf(most, (float)p.v[k]);
    }
    most = mx_cuda_block_max(most);
    const float shift = most > -INFINITY ? most : 0;
    for (int i = threadIdx.x; i < packs; i += THREADS) {
        const values p = kept[i];
#pragma unroll
        for (int k = 0; k < values::size; k++)
            sum += __expf((float)p.v[k] - shift);
    }
    const float total = logf(mx_cuda_block_sum(sum)) + shift;
    const int64_t given = t.label.get<int64_t>(row), hit = given < 0 ? 0 : given >= t.n ? t.n - 1 : given;
    if (!threadIdx.x && t.loss.data)
        t.loss.set<float>(row, total - (float)kept[hit / values::size].v[hit % values::size]);
    if (!threadIdx.x && t.lse.data)
        t.lse.set<float>(row, total);
    if (!t.dx.data)
        return;
    const float factor = t.g.get<float>(row);
    values *dx = (values *)t.dx.data + row * packs;
    for (int i = threadIdx.x; i < packs; i += THREADS) {
        values p = kept[i];
#pragma unroll
        for (int k = 0; k < values::size; k++)
            p.v[k] = (S)(factor * (__expf((float)p.v[k] - total) - (float)(i * values::size + k == hit)));
        dx[i] = p;
    }
}

template <class S> static mx_code launch(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_long_rows &t)
{
    const size_t bytes = (size_t)t.n * sizeof(S);
    int room = 0;
    if (t.n % pack<S>::size || (uintptr_t)t.x.data % 16 || (uintptr_t)t.dx.data % 16 || t.count > INT32_MAX ||
        cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, d->id) ||
        bytes + 1024 > (size_t)room) /* the sums of a block need some, too */
        return MX_DECLINED;
    const cudaError_t status =
        cudaFuncSetAttribute(long_losses<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (status)
        return mx_cuda_fail(status, call->op->name);
    long_losses<S><<<(unsigned)t.count, THREADS, bytes, d->stream>>>(t);
    return mx_cuda_launched(call);
}
} // namespace

mx_code mx_cuda_long_losses(const mx_kernel_call *call, const mx_cuda_long_rows &t)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (t.dx.data && t.dx.type != t.x.type)
        return MX_DECLINED;
    return t.x.type == MX_BFLOAT16  ? launch<__nv_bfloat16>(call, d, t)
           : t.x.type == MX_FLOAT16 ? launch<__half>(call, d, t)
           : t.x.type == MX_FLOAT32 ? launch<float>(call, d, t)
                                    : MX_DECLINED;
}
