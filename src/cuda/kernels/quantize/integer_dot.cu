/* Products of matrices of bytes with zero points: a thread per result.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/numbers.h"

/* Bytes of either kind as integers. */
struct bytes {
    const void *data;
    bool is_signed;
    bytes(const mx_array *x) : data(mx_data(x)), is_signed(x->dtype == MX_INT8) {}
    __device__ int operator[](int64_t i) const
    {
        return is_signed ? ((const int8_t *)data)[i] : ((const uint8_t *)data)[i];
    }
};

static bool are_bytes(const mx_array *x, const mx_array *zero)
{
    return (x->dtype == MX_UINT8 || x->dtype == MX_INT8) && zero->dtype == x->dtype;
}

static mx_code run_integer_dot(const mx_kernel_call *call)
{
    if (!are_bytes(call->in[0], call->in[2]) || !are_bytes(call->in[1], call->in[3]))
        return MX_DECLINED;
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
