/* Whether arrays hold infinities or NaN.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"

/* The output is 1 (or what it was); every array that holds an infinite number or NaN makes it 0. */
static mx_code all_finite(const mx_kernel_call *call, bool fresh)
{
    float *all = (float *)mx_data(call->out[0]);
    mx_code code = mx_cuda_each(call, 1, [=] __device__(int64_t) { *all = fresh || *all != 0; });
    for (int k = 0; !code && k < call->n_in; k++) {
        const void *x = mx_data(call->in[k]);
        const int type = call->in[k]->dtype;
        code = mx_cuda_each(call, call->in[k]->size, [=] __device__(int64_t i) {
            if (!isfinite(mx_cuda_load<double>(x, type, i)))
                *all = 0;
        });
    }
    return code;
}

static mx_code run_all_finite(const mx_kernel_call *call)
{
    return all_finite(call, ((const mx_all_finite_attrs *)call->attrs)->init_output);
}
static mx_code run_multi_all_finite(const mx_kernel_call *call)
{
    return all_finite(call, ((const mx_multi_all_finite_attrs *)call->attrs)->init_output);
}

MX_CUDA_KERNELS(all_finite) = {
    {"all_finite", run_all_finite, NULL}, {"multi_all_finite", run_multi_all_finite, NULL}, {NULL, NULL, NULL}};
