/* where, sums of many arrays, the largest element's place.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cuda.h"
extern "C" {
#include "op/formula/reduce.h"
}

/* A condition decides on an element, or on a whole row. */
template <class T> static mx_code where_as(const mx_kernel_call *call)
{
    const mx_array *condition = call->in[0];
    const void *decide = mx_data(condition);
    const T *x = (const T *)mx_data(call->in[1]), *y = (const T *)mx_data(call->in[2]);
    T *out = (T *)mx_data(call->out[0]);
    const int type = condition->dtype;
    const int64_t row = condition->size ? call->out[0]->size / condition->size : 1;
    return mx_cuda_each(call, call->out[0]->size,
                        [=] __device__(int64_t i) { out[i] = mx_cuda_load<double>(decide, type, i / row) != 0 ? x[i] : y[i]; });
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

/* ---- add_n: eight arrays at a time ---------------------------------------------------------------------------------- */

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
        code = type == MX_FLOAT64          ? add_as<double>(call, first, n)
               : mx_dtype_is_float(type) ? add_as<float>(call, first, n)
                                         : add_as<int64_t>(call, first, n);
    }
    return code;
}

/* ---- argmax, argmin: the first of equal ones; NaN beats numbers ------------------------------------------------------- */

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

MX_CUDA_KERNELS(select) = {{"where", run_where, NULL},      {"add_n", run_add_n, NULL},
                           {"argmax", run_argreduce, NULL}, {"argmin", run_argreduce, NULL},
                           {"argmax_channel", run_channel, NULL}, {NULL, NULL, NULL}};
