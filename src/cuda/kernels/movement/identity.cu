/* Operators that copy their input.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"

static mx_code run_copy(const mx_kernel_call *call)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (mx_data(call->in[0]) == mx_data(call->out[0]))
        return MX_OK;
    return mx_cuda_fail(cudaMemcpyAsync(mx_data(call->out[0]), mx_data(call->in[0]), mx_bytes(call->out[0]),
                                        cudaMemcpyDeviceToDevice, d->stream),
                        call->op->name);
}

MX_CUDA_KERNELS(identity) = {{"_copy", run_copy, NULL},
                             {"_copyto", run_copy, NULL},
                             {"BlockGrad", run_copy, NULL},
                             {"make_loss", run_copy, NULL},
                             {"MakeLoss", run_copy, NULL},
                             {"_identity_with_attr_like_rhs", run_copy, NULL},
                             {NULL, NULL, NULL}};
