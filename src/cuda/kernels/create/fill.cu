/* Arrays of one number.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"

static mx_code fill(const mx_kernel_call *call, mx_array *out, double value)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (value == 0)
        return mx_cuda_fail(cudaMemsetAsync(mx_data(out), 0, mx_bytes(out), d->stream), call->op->name);
    void *target = mx_data(out);
    const int type = out->dtype;
    return mx_cuda_each(call, out->size, [=] __device__(int64_t i) { mx_cuda_store<double>(target, type, i, value); });
}

static mx_code run_fill(const mx_kernel_call *call)
{
    return fill(call, call->out[0],
                call->op->user ? *(const double *)call->op->user : ((const mx_full_attrs *)call->attrs)->value);
}

MX_CUDA_KERNELS(fill) = {{"_zeros", run_fill, NULL},     {"_ones", run_fill, NULL},      {"_full", run_fill, NULL},
                         {"zeros_like", run_fill, NULL}, {"ones_like", run_fill, NULL}, {NULL, NULL, NULL}};
