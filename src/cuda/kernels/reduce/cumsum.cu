/* Running sums: (outer, n, inner) along n, in doubles or int64.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/reduce/scan.h"

#define MANY 4096    /* columns that keep the device busy with one thread each */
#define STRETCH 4096 /* elements of a column that one block adds up; further blocks take the next ones */

template <class C> struct columns {
    mx_cuda_split s;
    const void *from;
    void *to;
    int type, out_type;
    __device__ int64_t start(int64_t column) const { return column / s.inner * s.n * s.inner + column % s.inner; }
    __device__ C get(int64_t start, int64_t k) const { return mx_cuda_load<C>(from, type, start + k * s.inner); }
    __device__ void put(int64_t start, int64_t k, C sum) const
    {
        mx_cuda_store<C>(to, out_type, start + k * s.inner, sum);
    }
};

/* sums (columns, stretches): of everything up to the end of each stretch */
template <class C>
static mx_code sum_stretches(const mx_kernel_call *call, const columns<C> &x, int64_t count, int64_t stretches, C *sums)
{
    const mx_code code = mx_cuda_rows(call, count * stretches, STRETCH, [=] __device__(int64_t unit) {
        const int64_t at = x.start(unit / stretches), first = unit % stretches * STRETCH;
        C mine = 0;
        for (int64_t k = first + threadIdx.x; k < x.s.n && k < first + STRETCH; k += blockDim.x)
            mine += x.get(at, k);
        const C sum = mx_cuda_block_sum(mine);
        if (!threadIdx.x)
            sums[unit] = sum;
    });
    return code ? code : mx_cuda_rows(call, count, stretches, [=] __device__(int64_t c) {
        C *mine = sums + c * stretches;
        mx_cuda_block_scan<C>(
            stretches, [=](int64_t i) { return mine[i]; }, [=](int64_t i, C sum) { mine[i] = sum; });
    });
}

template <class C> static mx_code running(const mx_kernel_call *call, const mx_cuda_split &s)
{
    const columns<C> x = {s, mx_data(call->in[0]), mx_data(call->out[0]), call->in[0]->dtype, call->out[0]->dtype};
    const int64_t count = s.outer * s.inner, stretches = (s.n + STRETCH - 1) / STRETCH;
    if (count >= MANY)
        return mx_cuda_each(call, count, [=] __device__(int64_t c) {
            const int64_t at = x.start(c);
            C sum = 0;
            for (int64_t k = 0; k < s.n; k++) {
                sum += x.get(at, k);
                x.put(at, k, sum);
            }
        });
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    mx_cuda_scratch room(d, stretches > 1 ? (size_t)(count * stretches) * sizeof(C) : 0);
    C *sums = room.as<C>();
    const mx_code code = stretches == 1 ? MX_OK
                         : sums         ? sum_stretches(call, x, count, stretches, sums)
                                        : mx_error_code();
    return code ? code : mx_cuda_rows(call, count * stretches, s.n, [=] __device__(int64_t unit) {
        const int64_t at = x.start(unit / stretches), first = unit % stretches * STRETCH;
        const int64_t n = s.n - first < STRETCH ? s.n - first : STRETCH;
        mx_cuda_block_scan<C>(
            n, [=](int64_t k) { return x.get(at, first + k); }, [=](int64_t k, C sum) { x.put(at, first + k, sum); },
            first ? sums[unit - 1] : (C)0);
    });
}

static mx_code run_cumsum(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    const int64_t axis = ((const mx_cumsum_attrs *)call->attrs)->axis;
    if (!x->size)
        return MX_OK;
    const bool flat = axis == MX_NONE_INT || !x->ndim;
    mx_cuda_split s(x, flat ? 0 : mx_axis(axis, x->ndim));
    if (flat)
        s.outer = s.inner = 1, s.n = x->size;
    const bool integer = !mx_dtype_is_float(x->dtype) && !mx_dtype_is_float(call->out[0]->dtype);
    return integer ? running<int64_t>(call, s) : running<double>(call, s);
}

MX_CUDA_KERNELS(cumsum) = {{"_np_cumsum", run_cumsum, NULL}, {NULL, NULL, NULL}};
