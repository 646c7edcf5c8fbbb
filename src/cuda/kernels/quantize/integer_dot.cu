/* Products of matrices of bytes with zero points: a thread per result.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/numbers.h"

/* Bytes of either kind as integers; other types are taken as int8. */
struct bytes {
    const void *data;
    int type;
    bytes(const mx_array *x) : data(mx_data(x)), type(x->dtype) {}
    __device__ int operator[](int64_t i) const
    {
        return type == MX_UINT8  ? ((const uint8_t *)data)[i]
               : type == MX_INT8 ? ((const int8_t *)data)[i]
                                 : (int8_t)(int)mx_cuda_load<double>(data, type, i);
    }
};

static mx_code run_integer_dot(const mx_kernel_call *call)
{
    const bytes a(call->in[0]), b(call->in[1]), a_zero(call->in[2]), b_zero(call->in[3]);
    const bool one_a = call->in[2]->size == 1, one_b = call->in[3]->size == 1;
    const int64_t k = call->in[1]->shape[0], n = call->in[1]->shape[1];
    int32_t *out = (int32_t *)mx_data(call->out[0]);
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        const int64_t row = i / n, column = i % n;
        const int s = a_zero[one_a ? 0 : row], t = b_zero[one_b ? 0 : column];
        uint32_t sum = 0; /* wraps around */
        for (int64_t p = 0; p < k; p++)
            sum += (uint32_t)((a[row * k + p] - s) * (b[p * n + column] - t));
        out[i] = (int32_t)sum;
    });
}

MX_CUDA_KERNELS(integer_dot) = {{"_integer_dot", run_integer_dot}, {nullptr}};
