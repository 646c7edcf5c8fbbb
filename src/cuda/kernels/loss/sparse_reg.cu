/* IdentityAttachKLSparseReg: the identity; in training it updates running means of the channels.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"

template <class T> static mx_code means(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || !x->size)
        return d ? MX_OK : mx_error_code();
    const T *from = (const T *)mx_data(x);
    T *mean = (T *)mx_data(call->in[1]);
    if (mx_data(call->out[0]) != mx_data(x) &&
        mx_cuda_fail(cudaMemcpyAsync(mx_data(call->out[0]), from, mx_bytes(x), cudaMemcpyDeviceToDevice, d->stream),
                     call->op->name))
        return mx_error_code();
    if (!call->training)
        return MX_OK;
    const mx_cuda_split s(x, 1);
    const double momentum = ((const mx_sparse_reg_attrs *)call->attrs)->momentum;
    return mx_cuda_rows(call, s.n, s.outer * s.inner, [=] __device__(int64_t c) {
        double mine = 0;
        for (int64_t i = threadIdx.x; i < s.outer * s.inner; i += blockDim.x)
            mine += (double)from[(i / s.inner * s.n + c) * s.inner + i % s.inner];
        const double sum = mx_cuda_block_sum(mine);
        if (!threadIdx.x)
            mean[c] = (T)(momentum * (double)mean[c] + (1 - momentum) * sum / (double)(s.outer * s.inner));
    });
}

MX_CUDA_FLOATS(run_means, means)

MX_CUDA_KERNELS(sparse_reg) = {{"IdentityAttachKLSparseReg", run_means, NULL}, {NULL, NULL, NULL}};
