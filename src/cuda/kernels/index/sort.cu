/* sort, argsort, topk: rows become keys that are unsigned integers in the order of the values, sorted with their places.
 *
 * NaN gets the largest key; descending order inverts the key.  The sort is stable.  SPDX-License-Identifier: Apache-2.0 */
#include <cub/device/device_segmented_sort.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "cuda/cuda.h"

struct order {
    mx_cuda_split s;
    int64_t k; /* how many of each row are returned */
    bool ascending;
    mx_array *values, *indices, *mask; /* results; NULL: not wanted */
};

static __device__ uint64_t key_of(const void *x, int type, int64_t i, bool real, bool ascending)
{
    const uint64_t top = (uint64_t)1 << 63;
    uint64_t key;
    if (real) {
        const uint64_t bits = (uint64_t)__double_as_longlong(mx_cuda_load<double>(x, type, i));
        key = (bits & ~top) > 0x7ff0000000000000u ? UINT64_MAX : bits == top ? top : bits & top ? ~bits : bits | top;
    } else
        key = (uint64_t)mx_cuda_load<int64_t>(x, type, i) ^ top;
    return ascending ? key : ~key;
}

struct row_start { /* offsets of the rows, for CUB */
    int64_t n;
    __host__ __device__ int64_t operator()(int64_t row) const { return row * n; }
};

static mx_code sort_pairs(const mx_kernel_call *call, mx_cuda_device *d, int64_t rows, int64_t n, uint64_t *keys,
                          int64_t *places)
{
    thrust::counting_iterator<int64_t> count(0);
    auto begin = thrust::make_transform_iterator(count, row_start{n});
    size_t bytes = 0;
    const int64_t all = rows * n;
    cudaError_t status = cub::DeviceSegmentedSort::StableSortPairs(
        nullptr, bytes, keys, keys + all, places, places + all, all, rows, begin, begin + 1, d->stream);
    mx_cuda_scratch room(d, bytes ? bytes : 1);
    if (!room.memory)
        return mx_error_code();
    if (status == cudaSuccess)
        status = cub::DeviceSegmentedSort::StableSortPairs(room.memory, bytes, keys, keys + all, places, places + all,
                                                           all, rows, begin, begin + 1, d->stream);
    return mx_cuda_fail(status, call->op->name);
}

static mx_code write_values(const mx_kernel_call *call, const order &o, const int64_t *places)
{
    const mx_cuda_split s = o.s;
    const int64_t k = o.k;
    const void *x = mx_data(call->in[0]);
    void *to = mx_data(o.values);
    const int type = call->in[0]->dtype;
    const bool real = mx_dtype_is_float(type);
    return mx_cuda_each(call, s.outer * k * s.inner, [=] __device__(int64_t i) {
        const int64_t before = i / s.inner / k, rank = i / s.inner % k, after = i % s.inner,
                      row = before * s.inner + after;
        const int64_t from = (before * s.n + places[row * s.n + rank]) * s.inner + after;
        if (real)
            mx_cuda_store<double>(to, type, i, mx_cuda_load<double>(x, type, from));
        else
            mx_cuda_store<int64_t>(to, type, i, mx_cuda_load<int64_t>(x, type, from));
    });
}

static mx_code write_indices(const mx_kernel_call *call, const order &o, const int64_t *places)
{
    const mx_cuda_split s = o.s;
    const int64_t k = o.k;
    void *to = mx_data(o.indices);
    const int type = o.indices->dtype;
    return mx_cuda_each(call, s.outer * k * s.inner, [=] __device__(int64_t i) {
        const int64_t row = i / s.inner / k * s.inner + i % s.inner;
        mx_cuda_store<int64_t>(to, type, i, places[row * s.n + i / s.inner % k]);
    });
}

static mx_code write_mask(const mx_kernel_call *call, mx_cuda_device *d, const order &o, const int64_t *places)
{
    const mx_cuda_split s = o.s;
    const int64_t k = o.k;
    void *to = mx_data(o.mask);
    const int type = o.mask->dtype;
    if (mx_cuda_fail(cudaMemsetAsync(to, 0, mx_bytes(o.mask), d->stream), call->op->name))
        return mx_error_code();
    return mx_cuda_each(call, s.outer * s.inner * k, [=] __device__(int64_t i) {
        const int64_t row = i / k, at = (row / s.inner * s.n + places[row * s.n + i % k]) * s.inner + row % s.inner;
        mx_cuda_store<double>(to, type, at, 1);
    });
}

static mx_code run(const mx_kernel_call *call, order o)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const mx_array *x = call->in[0];
    const int64_t all = x->size, rows = o.s.outer * o.s.inner;
    if (!d || !all)
        return d ? MX_OK : mx_error_code();
    o.k = o.k < 1 ? o.s.n : o.k;
    mx_cuda_scratch key_room(d, (size_t)all * 2 * sizeof(uint64_t)), place_room(d, (size_t)all * 2 * sizeof(int64_t));
    uint64_t *keys = key_room.as<uint64_t>();
    int64_t *places = place_room.as<int64_t>();
    if (!keys || !places)
        return mx_error_code();
    const void *data = mx_data(x);
    const int type = x->dtype;
    const bool real = mx_dtype_is_float(type), ascending = o.ascending;
    const mx_cuda_split s = o.s;
    mx_code code = mx_cuda_each(call, all, [=] __device__(int64_t i) {
        const int64_t row = i / s.n, k = i % s.n;
        keys[i] = key_of(data, type, (row / s.inner * s.n + k) * s.inner + row % s.inner, real, ascending);
        places[i] = k;
    });
    code = code ? code : sort_pairs(call, d, rows, s.n, keys, places);
    code = code || !o.values ? code : write_values(call, o, places + all);
    code = code || !o.indices ? code : write_indices(call, o, places + all);
    return code || !o.mask ? code : write_mask(call, d, o, places + all);
}

static mx_cuda_split split_at(const mx_array *x, int64_t axis)
{
    const bool flat = axis == MX_NONE_INT || !x->ndim;
    mx_cuda_split s(x, flat ? 0 : mx_axis(axis, x->ndim));
    if (flat)
        s.outer = s.inner = 1, s.n = x->size;
    return s;
}

static mx_code run_sort(const mx_kernel_call *call)
{
    const mx_sort_attrs *a = (const mx_sort_attrs *)call->attrs;
    return run(call, {split_at(call->in[0], a->axis), 0, a->is_ascend, call->out[0], call->out[1], nullptr});
}

static mx_code run_argsort(const mx_kernel_call *call)
{
    const mx_argsort_attrs *a = (const mx_argsort_attrs *)call->attrs;
    return run(call, {split_at(call->in[0], a->axis), 0, a->is_ascend, nullptr, call->out[0], nullptr});
}

static mx_code run_topk(const mx_kernel_call *call)
{
    const mx_topk_attrs *a = (const mx_topk_attrs *)call->attrs;
    order o = {split_at(call->in[0], a->axis), a->k, a->is_ascend, nullptr, nullptr, nullptr};
    if (a->ret_typ == MX_TOPK_MASK)
        o.mask = call->out[0];
    if (a->ret_typ == MX_TOPK_VALUE || a->ret_typ == MX_TOPK_BOTH)
        o.values = call->out[0];
    if (a->ret_typ != MX_TOPK_MASK)
        o.indices = call->out[a->ret_typ == MX_TOPK_INDICES ? 0 : 1];
    return run(call, o);
}

MX_CUDA_KERNELS(sort) = {
    {"sort", run_sort, NULL}, {"argsort", run_argsort, NULL}, {"topk", run_topk, NULL}, {NULL, NULL, NULL}};
