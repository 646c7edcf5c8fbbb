/* argmax, argmin: the first of equal ones; NaN beats numbers.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"
extern "C" {
#include "op/formula/reduce.h"
}

template <class C> struct found {
    C value;
    int64_t at; /* -1: nothing yet */
};

template <class C> __device__ bool better(const found<C> &a, const found<C> &b, bool least) /* a than b */
{
    if (a.at < 0 || b.at < 0)
        return b.at < 0 && a.at >= 0;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan || b_nan)
        return a_nan && (!b_nan || a.at < b.at);
    if (a.value == b.value)
        return a.at < b.at;
    return least ? a.value < b.value : a.value > b.value;
}

template <class C> static mx_code search(const mx_kernel_call *call, const mx_cuda_split &s)
{
    const void *x = mx_data(call->in[0]);
    void *out = mx_data(call->out[0]);
    const int type = call->in[0]->dtype, out_type = call->out[0]->dtype;
    const bool least = *(const int *)call->op->user == MX_FOLD_MIN;
    return mx_cuda_rows(call, s.outer * s.inner, s.n, [=] __device__(int64_t row) {
        __shared__ found<C> all[512];
        const int64_t start = row / s.inner * s.n * s.inner + row % s.inner;
        found<C> best = {0, -1};
        for (int64_t i = threadIdx.x; i < s.n; i += blockDim.x) {
            const found<C> mine = {mx_cuda_load<C>(x, type, start + i * s.inner), i};
            best = better(mine, best, least) ? mine : best;
        }
        __syncthreads();
        all[threadIdx.x] = best;
        __syncthreads();
        for (int half = blockDim.x / 2; half; half /= 2) {
            if (threadIdx.x < half && better(all[threadIdx.x + half], all[threadIdx.x], least))
                all[threadIdx.x] = all[threadIdx.x + half];
            __syncthreads();
        }
        if (!threadIdx.x)
            mx_cuda_store<int64_t>(out, out_type, row, all[0].at);
    });
}

static mx_code search_along(const mx_kernel_call *call, int64_t axis)
{
    const mx_array *in = call->in[0];
    mx_cuda_split s(in, axis == MX_NONE_INT ? 0 : mx_axis(axis, in->ndim));
    if (axis == MX_NONE_INT)
        s.outer = s.inner = 1, s.n = in->size;
    if (!call->out[0]->size)
        return MX_OK;
    if (!s.n)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "an axis of size 0 has no largest or smallest element");
    return mx_dtype_is_float(in->dtype) ? search<double>(call, s) : search<int64_t>(call, s);
}
static mx_code run_argreduce(const mx_kernel_call *call)
{
    return search_along(call, ((const mx_argreduce_attrs *)call->attrs)->axis);
}
static mx_code run_channel(const mx_kernel_call *call) { return search_along(call, 1); }

MX_CUDA_KERNELS(argreduce) = {{"argmax", run_argreduce, NULL},
                              {"argmin", run_argreduce, NULL},
                              {"argmax_channel", run_channel, NULL},
                              {NULL, NULL, NULL}};
