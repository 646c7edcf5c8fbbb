/* where: a condition per element, or per row.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"

template <class T> static mx_code where_as(const mx_kernel_call *call)
{
    const mx_array *condition = call->in[0];
    const void *decide = mx_data(condition);
    const T *x = (const T *)mx_data(call->in[1]), *y = (const T *)mx_data(call->in[2]);
    T *out = (T *)mx_data(call->out[0]);
    const int type = condition->dtype;
    const int64_t row = condition->size ? call->out[0]->size / condition->size : 1;
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        out[i] = mx_cuda_load<double>(decide, type, i / row) != 0 ? x[i] : y[i];
    });
}

static mx_code run_where(const mx_kernel_call *call)
{
    switch (mx_dtype_size((mx_dtype)call->out[0]->dtype)) {
    case 1: return where_as<uint8_t>(call);
    case 2: return where_as<uint16_t>(call);
    case 4: return where_as<uint32_t>(call);
    default: return where_as<uint64_t>(call);
    }
}

MX_CUDA_KERNELS(where) = {{"where", run_where, NULL}, {NULL, NULL, NULL}};
