/* gather_nd, scatter_nd, _scatter_set_nd, index_copy, boolean_mask: reading and writing blocks of elements.
 *
 * The adjoint of gather_nd adds with atomics, so the order of additions is not fixed where a place is named twice.  Where a
 * place is named twice the last one wins, as on the CPU: every row first stores its number at its place; the largest one
 * writes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cub/device/device_select.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "cuda/kernels/items.h"
#include "cuda/kernels/index/places.h"

/* ---- gather_nd: indices (k, n) name the first k axes ----------------------------------------------------------------- */

template <class T> static mx_code gather(const mx_kernel_call *call, const mx_cuda_places &p)
{
    const T *from = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, p.n * p.after,
                        [=] __device__(int64_t i) { to[i] = from[p.at(i / p.after) + i % p.after]; });
}

static mx_code run_gather_nd(const mx_kernel_call *call)
{
    mx_cuda_places p;
    if (!mx_cuda_places_of(call, call->in[1], call->in[0], &p))
        return mx_error_code();
    return mx_cuda_by_item(call->in[0], [&](auto item) { return gather<decltype(item)>(call, p); });
}

template <class T> static mx_code gather_back(const mx_kernel_call *call)
{
    mx_cuda_places p;
    if (!mx_cuda_places_of(call, call->in[1], call->out[0], &p))
        return mx_error_code();
    const T *from = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(call->out[0]);
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || mx_cuda_fail(cudaMemsetAsync(to, 0, mx_bytes(call->out[0]), d->stream), call->op->name))
        return mx_error_code();
    return mx_cuda_each(call, p.n * p.after,
                        [=] __device__(int64_t i) { atomicAdd(&to[p.at(i / p.after) + i % p.after], from[i]); });
}
MX_CUDA_FLOATS(run_gather_back_floats, gather_back)

static mx_code run_gather_back(const mx_kernel_call *call)
{
    const int type = call->out[0]->dtype;
    if (call->in[0]->dtype == type && type == MX_INT64)
        return gather_back<unsigned long long>(call); /* the same sums: they wrap */
    return call->in[0]->dtype == type && type == MX_INT32 ? gather_back<int>(call) : run_gather_back_floats(call);
}

/* ---- writing rows ------------------------------------------------------------------------------------------------ */

/* to[place of row i] = from[i] for n rows of p.after elements, `blocks` places. */
template <class T>
static mx_code put(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_places &p, int64_t blocks,
                   const T *from, T *to)
{
    mx_cuda_scratch room(d, (size_t)blocks * sizeof(int64_t) + 8);
    long long *last = room.as<long long>();
    if (!last)
        return mx_error_code();
    mx_code code = mx_cuda_each(call, p.n, [=] __device__(int64_t i) { last[p.at(i) / p.after] = -1; });
    code = code ? code : mx_cuda_each(call, p.n, [=] __device__(int64_t i) {
        atomicMax(&last[p.at(i) / p.after], (long long)i);
    });
    return code ? code : mx_cuda_each(call, p.n * p.after, [=] __device__(int64_t i) {
        const int64_t at = p.at(i / p.after);
        if (last[at / p.after] == i / p.after)
            to[at + i % p.after] = from[i];
    });
}

/* out = start (NULL: zeros), then rows of data are written; out may be `start` itself or share memory with `data`. */
static mx_code put_into(const mx_kernel_call *call, const mx_array *start, const mx_array *data,
                        const mx_cuda_places &p)
{
    mx_array *out = call->out[0];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || !out->size)
        return d ? MX_OK : mx_error_code();
    const bool shared = data->size && mx_array_overlap(data, out);
    mx_cuda_scratch copy(d, shared ? mx_bytes(data) : 0);
    if (shared && !copy.memory)
        return mx_error_code();
    cudaError_t status = cudaSuccess;
    if (shared)
        status = cudaMemcpyAsync(copy.memory, mx_data(data), mx_bytes(data), cudaMemcpyDeviceToDevice, d->stream);
    if (status == cudaSuccess && !start)
        status = cudaMemsetAsync(mx_data(out), 0, mx_bytes(out), d->stream);
    else if (status == cudaSuccess && mx_data(out) != mx_data(start))
        status = cudaMemcpyAsync(mx_data(out), mx_data(start), mx_bytes(out), cudaMemcpyDeviceToDevice, d->stream);
    if (status != cudaSuccess)
        return mx_cuda_fail(status, call->op->name);
    return !p.after ? MX_OK : mx_cuda_by_item(out, [&](auto item) {
        typedef decltype(item) T;
        return put<T>(call, d, p, out->size / p.after, (const T *)(shared ? copy.memory : mx_data(data)),
                      (T *)mx_data(out));
    });
}

static mx_code run_scatter(const mx_kernel_call *call)
{
    mx_cuda_places p;
    if (!mx_cuda_places_of(call, call->in[1], call->out[0], &p))
        return mx_error_code();
    return put_into(call, nullptr, call->in[0], p);
}

static mx_code run_set(const mx_kernel_call *call)
{
    mx_cuda_places p;
    if (!mx_cuda_places_of(call, call->in[2], call->out[0], &p))
        return mx_error_code();
    return put_into(call, call->in[0], call->in[1], p);
}

static mx_code run_index_copy(const mx_kernel_call *call)
{
    const mx_array *old = call->in[0], *list = call->in[1];
    mx_cuda_places p = {mx_data(list),
                        list->dtype,
                        1,
                        list->size,
                        old->shape[0] ? old->size / old->shape[0] : 0,
                        {old->shape[0]},
                        mx_cuda_index_flag(call)};
    if (!old->shape[0] && list->size)
        return mx_op_fail(call->op, MX_ERR_INDEX, "an axis of size 0 has no elements to index");
    return put_into(call, old, call->in[2], p);
}

/* ---- boolean_mask ------------------------------------------------------------------------------------------------ */

struct is_set {
    const void *mask;
    int type;
    __device__ bool operator()(int64_t i) const { return mx_cuda_load<double>(mask, type, i) != 0; }
};

/* list[0 ... *count): numbers of the rows whose mask is not zero */
static mx_code chosen(const mx_kernel_call *call, mx_cuda_device *d, const mx_array *mask, int64_t *list,
                      int64_t *count)
{
    thrust::counting_iterator<int64_t> numbers(0);
    auto flags = thrust::make_transform_iterator(numbers, is_set{mx_data(mask), mask->dtype});
    size_t bytes = 0;
    cudaError_t status = cub::DeviceSelect::Flagged(nullptr, bytes, numbers, flags, list, count, mask->size, d->stream);
    mx_cuda_scratch room(d, bytes ? bytes : 1);
    if (!room.memory)
        return mx_error_code();
    if (status == cudaSuccess)
        status = cub::DeviceSelect::Flagged(room.memory, bytes, numbers, flags, list, count, mask->size, d->stream);
    return mx_cuda_fail(status, call->op->name);
}

/* The result was sized by the mask's values or by the caller: excess rows are zero. */
template <class T>
static mx_code move_rows(const mx_kernel_call *call, const mx_array *whole, const mx_array *part, bool back,
                         const int64_t *list, const int64_t *count)
{
    const int64_t run = whole->size / whole->shape[0];
    T *all = (T *)mx_data(whole), *some = (T *)mx_data(part);
    return mx_cuda_each(call, part->size, [=] __device__(int64_t i) {
        const bool there = i / run < *count;
        T *at = there ? all + list[i / run] * run + i % run : nullptr;
        if (back && there)
            *at = some[i];
        else if (!back)
            some[i] = there ? *at : 0;
    });
}

static mx_code run_mask(const mx_kernel_call *call, const mx_array *whole, const mx_array *part, bool back)
{
    const mx_array *mask = call->in[1];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (back && mx_cuda_fail(cudaMemsetAsync(mx_data(whole), 0, mx_bytes(whole), d->stream), call->op->name))
        return mx_error_code();
    if (!mask->size || !whole->size || !part->size)
        return MX_OK;
    mx_cuda_scratch room(d, ((size_t)mask->size + 1) * sizeof(int64_t));
    int64_t *count = room.as<int64_t>(), *list = count + 1;
    const mx_code code = count ? chosen(call, d, mask, list, count) : mx_error_code();
    return code ? code : mx_cuda_by_item(whole, [&](auto item) {
        return move_rows<decltype(item)>(call, whole, part, back, list, count);
    });
}
static mx_code run_boolean_mask(const mx_kernel_call *call) { return run_mask(call, call->in[0], call->out[0], false); }
static mx_code run_boolean_unmask(const mx_kernel_call *call)
{
    return run_mask(call, call->out[0], call->in[0], true);
}

MX_CUDA_KERNELS(gather) = {{"gather_nd", run_gather_nd, NULL},
                           {"_backward_gather_nd", run_gather_back, NULL},
                           {"scatter_nd", run_scatter, NULL},
                           {"_scatter_set_nd", run_set, NULL},
                           {"_contrib_index_copy", run_index_copy, NULL},
                           {"_contrib_boolean_mask", run_boolean_mask, NULL},
                           {"_backward_boolean_mask", run_boolean_unmask, NULL},
                           {NULL, NULL, NULL}};
