/* add_n: eight arrays at a time.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"

#define AT_ONCE 8

struct terms {
    int n;
    const void *x[AT_ONCE];
};

template <class C> static mx_code add_as(const mx_kernel_call *call, int first, int n)
{
    terms t = {n, {}};
    void *sum = mx_data(call->out[0]);
    const int type = call->out[0]->dtype;
    const bool more = first > 0;
    for (int k = 0; k < n; k++)
        t.x[k] = mx_data(call->in[first + k]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        C total = more ? mx_cuda_load<C>(sum, type, i) : (C)0;
        for (int k = 0; k < t.n; k++)
            total += mx_cuda_load<C>(t.x[k], type, i);
        mx_cuda_store<C>(sum, type, i, total);
    });
}

static mx_code run_add_n(const mx_kernel_call *call)
{
    const int type = call->out[0]->dtype;
    mx_code code = MX_OK;
    for (int first = 0; !code && first < call->n_in; first += AT_ONCE) {
        const int n = call->n_in - first < AT_ONCE ? call->n_in - first : AT_ONCE;
        code = type == MX_FLOAT64        ? add_as<double>(call, first, n)
               : mx_dtype_is_float(type) ? add_as<float>(call, first, n)
                                         : add_as<int64_t>(call, first, n);
    }
    return code;
}

MX_CUDA_KERNELS(add_n) = {{"add_n", run_add_n, NULL}, {NULL, NULL, NULL}};
