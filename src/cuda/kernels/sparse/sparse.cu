/* Rows of sparse arrays: sums of selected rows, retained rows; cast_storage of dense memory is a copy.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/items.h"

/* ---- _rows_sum: out[i] = sum over k in [start[i], start[i + 1]) of factor[k] data[row[k]] ------------------------ */

struct numbers {
    const void *data;
    int type;
    numbers(const mx_array *x) : data(x->size ? mx_data(x) : nullptr), type(x->dtype) {}
    __device__ int64_t at(int64_t i) const { return mx_cuda_load<int64_t>(data, type, i); }
};

/* A thread per result element; missing rows are skipped. */
template <class T> static mx_code rows_sum(const mx_kernel_call *call)
{
    const mx_array *data = call->in[0], *out = call->out[0];
    const int64_t rows = data->shape[0], n = call->in[1]->size, run = out->shape[0] ? out->size / out->shape[0] : 0;
    const numbers row(call->in[1]), start(call->in[2]);
    const T *from = data->size ? (const T *)mx_data(data) : nullptr;
    const T *factor = mx_is_none(call->in[3]) || !n ? nullptr : (const T *)mx_data(call->in[3]);
    T *to = (T *)mx_data(out);
    return mx_cuda_each(call, out->size, [=] __device__(int64_t e) {
        const int64_t i = e / run, c = e % run, first = start.at(i), end = start.at(i + 1);
        T sum = 0;
        for (int64_t k = first < 0 ? 0 : first; k < end && k < n; k++) {
            const int64_t r = row.at(k);
            if (r >= 0 && r < rows)
                sum += (factor ? factor[k] : (T)1) * from[r * run + c];
        }
        to[e] = sum;
    });
}

static mx_code run_rows_sum(const mx_kernel_call *call)
{
    const mx_array *data = call->in[0], *factor = call->in[3];
    if (data->dtype == MX_FLOAT16 || data->dtype == MX_BFLOAT16)
        return mx_cuda_widened(call, MX_FLOAT32, run_rows_sum);
    if (!mx_is_none(factor) && factor->dtype != data->dtype)
        return MX_DECLINED;
    switch (data->dtype) {
    case MX_FLOAT32: return rows_sum<float>(call);
    case MX_FLOAT64: return rows_sum<double>(call);
    case MX_INT64: return rows_sum<int64_t>(call);
    case MX_INT32: return rows_sum<int32_t>(call);
    case MX_INT8: return rows_sum<int8_t>(call);
    case MX_UINT8: return rows_sum<uint8_t>(call);
    default: return MX_DECLINED;
    }
}

/* ---- cast_storage, _sparse_retain -------------------------------------------------------------------------------- */

static mx_code run_cast(const mx_kernel_call *call)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || !call->out[0]->size)
        return d ? MX_OK : mx_error_code();
    return mx_cuda_fail(cudaMemcpyAsync(mx_data(call->out[0]), mx_data(call->in[0]), mx_bytes(call->out[0]),
                                        cudaMemcpyDeviceToDevice, d->stream),
                        call->op->name);
}

template <class T> static mx_code retain(const mx_kernel_call *call)
{
    const mx_array *data = call->in[0], *indices = call->in[1];
    const int64_t rows = data->shape[0], run = data->size / rows;
    const numbers index(indices);
    const T *from = (const T *)mx_data(data);
    T *to = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, indices->size * run, [=] __device__(int64_t i) {
        const int64_t row = index.at(i / run);
        if (row >= 0 && row < rows)
            to[row * run + i % run] = from[row * run + i % run];
    });
}

static mx_code run_retain(const mx_kernel_call *call)
{
    mx_cuda_device *d = mx_cuda_of(call);
    mx_array *out = call->out[0];
    if (!d || !out->size)
        return d ? MX_OK : mx_error_code();
    if (mx_cuda_fail(cudaMemsetAsync(mx_data(out), 0, mx_bytes(out), d->stream), call->op->name))
        return mx_error_code();
    return mx_cuda_by_item(out, [&](auto item) { return retain<decltype(item)>(call); });
}

MX_CUDA_KERNELS(sparse) = {{"_rows_sum", run_rows_sum, NULL},
                           {"cast_storage", run_cast, NULL},
                           {"_sparse_retain", run_retain, NULL},
                           {NULL, NULL, NULL}};
