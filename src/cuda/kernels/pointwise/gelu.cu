/* _gelu_gradients: the gradient of gelu, gelu again and the sums of the gradient's columns, in one pass over 16-bit arrays.
 * Other arrays: the kernels of the three parts, one after another.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/pointwise/gelu.h"

#include "cuda/kernels/column_sums.h"
#include "cuda/kernels/norm/channels.h"
#include "cuda/kernels/pointwise/numbers.h"

#define PER_UNIT 4 /* blocks per multiprocessor */

namespace
{
template <class S> struct gradients {
    const S *g, *x;
    S *dx, *y;
    __device__ void operator()(int64_t at, float *v) const
    {
        const S *const from[2] = {g, x};
        const mx_cuda_values<S, 8, 2> both = mx_cuda_values<S, 8, 2>::load(from, at);
        const mx_cuda_pack<S, 8> slopes = both.open(0), data = both.open(1);
        mx_cuda_pack<S, 8> to, again;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float density;
            const float value = (float)data.v[i], below = mx_cuda_normal_below(value, &density);
            to.v[i] = (S)((float)slopes.v[i] * (below + value * density));
            again.v[i] = (S)(value * below);
            v[i] = (float)to.v[i];
        }
        to.store(dx, at), again.store(y, at);
    }
};

template <class S> static mx_code run_narrow(const mx_kernel_call *call, int64_t rows, int64_t columns)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    const mx_cuda_sum_division by(d, rows, columns, PER_UNIT);
    const mx_cuda_scratch parts(d, by.bytes(columns));
    if (!parts.memory)
        return mx_error_code();
    const gradients<S> f = {(const S *)mx_data(call->in[0]), (const S *)mx_data(call->in[1]),
                            (S *)mx_data(call->out[0]), (S *)mx_data(call->out[1])};
    return mx_cuda_fail(mx_cuda_sum_rows(d, by, f, rows, columns, (S *)mx_data(call->out[2]), parts.as<float>()),
                        call->op->name);
}

/* float and double, others widened: the parts one after another */
template <class T> static mx_code in_parts(const mx_kernel_call *call)
{
    const double none[3] = {0, 0, 0};
    const int64_t columns = call->out[2]->size, rows = columns ? call->out[0]->size / columns : 0;
    const T *from = (const T *)mx_data(call->out[0]);
    T *to = (T *)mx_data(call->out[2]);
    mx_code code = mx_cuda_number_over(call, MX_NUMBER_gelu_gradient, none, call->in[1], call->in[0], call->out[0]);
    code = code ? code : mx_cuda_number_over(call, MX_NUMBER_gelu, none, call->in[1], NULL, call->out[1]);
    return code ? code : mx_cuda_rows(call, columns, rows, [=] __device__(int64_t column) {
        double sum = 0;
        for (int64_t row = threadIdx.x; row < rows; row += blockDim.x)
            sum += from[row * columns + column];
        const double total = mx_cuda_block_sum(sum);
        if (!threadIdx.x)
            to[column] = (T)total;
    });
}
MX_CUDA_FLOATS(run_in_parts, in_parts)

static mx_code run_gelu_gradients(const mx_kernel_call *call)
{
    const int64_t columns = call->out[2]->size, rows = columns ? call->in[1]->size / columns : 0;
    const int type = call->in[1]->dtype;
    const bool aligned = mx_cuda_all_aligned({call->in[0], call->in[1], call->out[0], call->out[1]});
    const bool narrow = (type == MX_FLOAT16 || type == MX_BFLOAT16) && call->in[0]->dtype == type;
    if (!narrow || !aligned || columns % 8 || !rows)
        return run_in_parts(call);
    return type == MX_FLOAT16 ? run_narrow<__half>(call, rows, columns)
                              : run_narrow<__nv_bfloat16>(call, rows, columns);
}
} // namespace

MX_CUDA_KERNELS(gelu) = {{"_gelu_gradients", run_gelu_gradients, NULL}, {NULL, NULL, NULL}};
