/* allclose: true until a thread finds a difference.  SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/allclose.h"

#include "cuda/cuda.h"

static mx_code run_allclose(const mx_kernel_call *call)
{
    const mx_allclose_attrs attrs = *(const mx_allclose_attrs *)call->attrs;
    mx_cuda_device *d = mx_cuda_of(call);
    uint8_t *all = (uint8_t *)mx_data(call->out[0]);
    if (!d || mx_cuda_fail(cudaMemsetAsync(all, 1, 1, d->stream), call->op->name))
        return mx_error_code();
    const void *first = mx_data(call->in[0]), *second = mx_data(call->in[1]);
    const int type = call->in[0]->dtype;
    return mx_cuda_each(call, call->in[0]->size, [=] __device__(int64_t i) {
        const double a = mx_cuda_load<double>(first, type, i), b = mx_cuda_load<double>(second, type, i);
        if (!mx_close(a, b, attrs.rtol, attrs.atol, attrs.equal_nan))
            *all = 0;
    });
}

MX_CUDA_KERNELS(allclose) = {{"_contrib_allclose", run_allclose, NULL}, {NULL, NULL, NULL}};
