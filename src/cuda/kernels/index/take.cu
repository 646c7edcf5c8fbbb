/* take, Embedding, pick and their adjoints, one_hot.  Indices are read where they are used.
 *
 * Adjoints add with atomics on float32 and float64, so the order of additions is not fixed where an index occurs twice.
 * In mode "raise" an index outside its axis sets a flag that is read back: that mode waits for the device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/items.h"

enum { RAISE, WRAP, CLIP }; /* modes of take */

/* Indices of any type, converted to [0, size). */
struct indices {
    const void *data;
    int type, mode;
    int64_t size;
    int *outside; /* set to 1 where mode is RAISE and an index is out of range */
    __device__ int64_t at(int64_t i) const
    {
        const int64_t k = mx_cuda_load<int64_t>(data, type, i);
        if (k >= 0 && k < size)
            return k;
        if (mode == CLIP)
            return k < 0 ? 0 : size - 1;
        if (mode == WRAP)
            return (k % size + size) % size;
        if (k < 0 && k >= -size)
            return k + size;
        *outside = 1;
        return 0;
    }
};

/* Runs body(indices) and, in mode RAISE, waits for the flag. */
template <class F>
static mx_code with_indices(const mx_kernel_call *call, const mx_array *x, int64_t size, int mode, F body)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (!size && x->size)
        return mx_op_fail(call->op, MX_ERR_INDEX, "an axis of size 0 has no elements to index");
    mx_cuda_scratch flag(d, mode == RAISE ? sizeof(int) : 0);
    if (mode == RAISE && !flag.memory)
        return mx_error_code();
    if (flag.memory)
        cudaMemsetAsync(flag.memory, 0, sizeof(int), d->stream);
    mx_code code = body(indices{mx_data(x), x->dtype, mode, size, flag.as<int>()});
    int outside = 0;
    if (!code && flag.memory) {
        cudaMemcpyAsync(&outside, flag.memory, sizeof(int), cudaMemcpyDeviceToHost, d->stream);
        code = mx_cuda_fail(cudaStreamSynchronize(d->stream), call->op->name);
    }
    return outside ? mx_op_fail(call->op, MX_ERR_INDEX, "an index is outside an axis of size %lld", (long long)size)
                   : code;
}

/* ---- one list of indices for all blocks ------------------------------------------------------------------------ */

/* out (outer, n, inner) = data (outer, size, inner) at the indices */
template <class T>
static mx_code take_rows(const mx_kernel_call *call, const mx_cuda_split &s, int64_t n, const mx_array *data,
                         indices index)
{
    const T *from = (const T *)mx_data(data);
    T *to = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, s.outer * n * s.inner, [=] __device__(int64_t i) {
        const int64_t row = i / s.inner % n;
        to[i] = from[(i / s.inner / n * s.n + index.at(row)) * s.inner + i % s.inner];
    });
}

static mx_code take_from(const mx_kernel_call *call, const mx_array *data, const mx_array *list, int64_t axis, int mode)
{
    const mx_cuda_split s(data, mx_axis(axis, data->ndim));
    const int64_t bytes = s.inner * mx_dtype_size((mx_dtype)data->dtype);
    const bool whole = bytes % 16 == 0 && ((uintptr_t)mx_data(data) | (uintptr_t)mx_data(call->out[0])) % 16 == 0;
    return with_indices(call, list, s.n, mode, [&](indices index) {
        if (whole) { /* rows are moved 16 bytes at a time */
            mx_cuda_split pieces = s;
            pieces.inner = bytes / 16;
            return take_rows<uint4>(call, pieces, list->size, data, index);
        }
        return mx_cuda_by_item(data,
                               [&](auto item) { return take_rows<decltype(item)>(call, s, list->size, data, index); });
    });
}

static mx_code run_take(const mx_kernel_call *call)
{
    const mx_take_attrs *a = (const mx_take_attrs *)call->attrs;
    return take_from(call, call->in[0], call->in[1], a->axis, a->mode);
}
static mx_code run_embedding(const mx_kernel_call *call) { return take_from(call, call->in[1], call->in[0], 0, CLIP); }

template <class T> static mx_code add_rows(const mx_kernel_call *call)
{
    const mx_take_add_attrs *a = (const mx_take_add_attrs *)call->attrs;
    const mx_array *list = call->in[1];
    mx_array *out = call->out[0];
    const mx_cuda_split s(out, mx_axis(a->axis, out->ndim));
    const int64_t n = list->size;
    const T *from = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(out);
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || mx_cuda_fail(cudaMemsetAsync(to, 0, mx_bytes(out), d->stream), call->op->name))
        return mx_error_code();
    return with_indices(call, list, s.n, a->mode, [&](indices index) {
        return mx_cuda_each(call, s.outer * n * s.inner, [=] __device__(int64_t i) {
            const int64_t row = i / s.inner % n;
            atomicAdd(&to[(i / s.inner / n * s.n + index.at(row)) * s.inner + i % s.inner], from[i]);
        });
    });
}

/* 16-bit rows of whole packs, as those of embeddings: sums in float, only of rows that occur.
 *
 *     first (size): the first place in the list that names a row;  sums (n, inner): at that place
 */
template <class S> struct alignas(16) eight {
    S v[8];
};

/* to[0..3] += v, by one instruction where there is one */
static __device__ void add_four(float *to, float a, float b, float c, float d)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d)
                 : "memory");
#else
    atomicAdd(to, a), atomicAdd(to + 1, b), atomicAdd(to + 2, c), atomicAdd(to + 3, d);
#endif
}

template <class S>
static mx_code add_narrow_rows(const mx_kernel_call *call, mx_cuda_device *d, int64_t inner, indices index)
{
    const int64_t n = call->in[1]->size, packs = inner / 8;
    const eight<S> *from = (const eight<S> *)mx_data(call->in[0]);
    eight<S> *to = (eight<S> *)mx_data(call->out[0]);
    mx_cuda_scratch numbers(d, (size_t)index.size * sizeof(int)), memory(d, (size_t)(n * inner) * sizeof(float));
    int *first = numbers.as<int>();
    float *sums = memory.as<float>();
    if (!first || !sums)
        return mx_error_code();
    cudaMemsetAsync(first, 0x7f, numbers.bytes, d->stream);
    cudaMemsetAsync(sums, 0, memory.bytes, d->stream);
    mx_code code = mx_cuda_each(call, n, [=] __device__(int64_t i) { atomicMin(&first[index.at(i)], (int)i); });
    code = code ? code : mx_cuda_each(call, n * packs, [=] __device__(int64_t i) {
        const eight<S> k = from[i];
        float *sum = sums + (first[index.at(i / packs)] * packs + i % packs) * 8;
        add_four(sum, (float)k.v[0], (float)k.v[1], (float)k.v[2], (float)k.v[3]);
        add_four(sum + 4, (float)k.v[4], (float)k.v[5], (float)k.v[6], (float)k.v[7]);
    });
    return code ? code : mx_cuda_each(call, n * packs, [=] __device__(int64_t i) {
        const int64_t place = i / packs, row = index.at(place);
        eight<S> k;
        for (int l = 0; l < 8; l++)
            k.v[l] = (S)sums[i * 8 + l];
        if (first[row] == place)
            to[row * packs + i % packs] = k;
    });
}

static bool is_narrow(const mx_kernel_call *call, const mx_cuda_split &s)
{
    const int type = call->out[0]->dtype;
    const uintptr_t places = (uintptr_t)mx_data(call->in[0]) | (uintptr_t)mx_data(call->out[0]);
    return (type == MX_FLOAT16 || type == MX_BFLOAT16) && call->in[0]->dtype == type && s.outer == 1 &&
           s.inner % 8 == 0 && places % 16 == 0 && call->in[1]->size < 0x7f000000 && call->in[0]->size;
}

/* ---- an index at every place ------------------------------------------------------------------------------------- */

/* whole (outer, size, inner), indices (outer, n, inner) */
template <class T> static mx_code take_at(const mx_kernel_call *call, const mx_cuda_split &s, int64_t n, indices index)
{
    const T *from = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, s.outer * n * s.inner, [=] __device__(int64_t i) {
        to[i] = from[(i / s.inner / n * s.n + index.at(i)) * s.inner + i % s.inner];
    });
}

static mx_code take_along(const mx_kernel_call *call, const mx_cuda_split &s, int mode)
{
    const int64_t places = s.outer * s.inner, n = places ? call->in[1]->size / places : 0;
    return with_indices(call, call->in[1], s.n, mode, [&](indices index) {
        return mx_cuda_by_item(call->in[0], [&](auto item) { return take_at<decltype(item)>(call, s, n, index); });
    });
}

static mx_code run_take_along(const mx_kernel_call *call)
{
    const mx_take_attrs *a = (const mx_take_attrs *)call->attrs;
    return take_along(call, mx_cuda_split(call->in[0], mx_axis(a->axis, call->in[0]->ndim)), a->mode);
}

static mx_code run_pick(const mx_kernel_call *call)
{
    const mx_pick_attrs *a = (const mx_pick_attrs *)call->attrs;
    const bool flat = a->axis == MX_NONE_INT;
    mx_cuda_split s(call->in[0], flat ? 0 : mx_axis(a->axis, call->in[0]->ndim));
    if (flat)
        s.outer = s.inner = 1, s.n = call->in[0]->size;
    return take_along(call, s, a->mode == MX_PICK_CLIP ? CLIP : WRAP);
}

static mx_code run_batch_take(const mx_kernel_call *call)
{
    return take_along(call, mx_cuda_split(call->in[0], 1), CLIP);
}

template <class T> static mx_code put_along(const mx_kernel_call *call)
{
    const mx_take_add_attrs *a = (const mx_take_add_attrs *)call->attrs;
    mx_array *out = call->out[0];
    const mx_cuda_split s(out, mx_axis(a->axis, out->ndim));
    const int64_t places = s.outer * s.inner, n = places ? call->in[1]->size / places : 0;
    const T *from = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(out);
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || mx_cuda_fail(cudaMemsetAsync(to, 0, mx_bytes(out), d->stream), call->op->name))
        return mx_error_code();
    return with_indices(call, call->in[1], s.n, a->mode, [&](indices index) {
        return mx_cuda_each(call, s.outer * n * s.inner, [=] __device__(int64_t i) {
            atomicAdd(&to[(i / s.inner / n * s.n + index.at(i)) * s.inner + i % s.inner], from[i]);
        });
    });
}
MX_CUDA_FLOATS(run_take_add_wide, add_rows)

static mx_code run_take_add(const mx_kernel_call *call)
{
    const mx_take_add_attrs *a = (const mx_take_add_attrs *)call->attrs;
    mx_array *out = call->out[0];
    const mx_cuda_split s(out, mx_axis(a->axis, out->ndim));
    mx_cuda_device *d = mx_cuda_of(call);
    if (!is_narrow(call, s))
        return run_take_add_wide(call);
    if (!d || mx_cuda_fail(cudaMemsetAsync(mx_data(out), 0, mx_bytes(out), d->stream), call->op->name))
        return mx_error_code();
    return with_indices(call, call->in[1], s.n, a->mode, [&](indices index) {
        return out->dtype == MX_FLOAT16 ? add_narrow_rows<__half>(call, d, s.inner, index)
                                        : add_narrow_rows<__nv_bfloat16>(call, d, s.inner, index);
    });
}
MX_CUDA_FLOATS(run_put_along, put_along)

static mx_code run_one_hot(const mx_kernel_call *call)
{
    const mx_one_hot_attrs *a = (const mx_one_hot_attrs *)call->attrs;
    const void *list = mx_data(call->in[0]);
    void *out = mx_data(call->out[0]);
    const int list_type = call->in[0]->dtype, type = call->out[0]->dtype;
    const int64_t depth = a->depth;
    const double on = a->on_value, off = a->off_value;
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        mx_cuda_store<double>(out, type, i, mx_cuda_load<int64_t>(list, list_type, i / depth) == i % depth ? on : off);
    });
}

MX_CUDA_KERNELS(take) = {{"take", run_take, NULL},
                         {"_take_add", run_take_add, NULL},
                         {"Embedding", run_embedding, NULL},
                         {"_contrib_SparseEmbedding", run_embedding, NULL},
                         {"_take_along", run_take_along, NULL},
                         {"_put_along", run_put_along, NULL},
                         {"pick", run_pick, NULL},
                         {"batch_take", run_batch_take, NULL},
                         {"one_hot", run_one_hot, NULL},
                         {NULL, NULL, NULL}};
