/* Ranking of candidates: a radix sort of all scores, then a stable one by batches.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/detection/nms.h"

#include <cub/device/device_radix_sort.cuh>

/* The memory: keys twice, order twice, count; the numbers of batches reuse the keys. */
mx_cuda_ranking::mx_cuda_ranking(mx_cuda_device *d, int64_t some, int64_t each)
    : batches(some), n(each), room(d, (size_t)(4 * some * each + some) * sizeof(int64_t))
{
    keys = room.as<uint64_t>();
    order = (int64_t *)keys + 2 * batches * n;
    count = order + 2 * batches * n;
}

template <class K>
static mx_code sort_pairs(const mx_kernel_call *call, mx_cuda_device *d, int64_t all, int bits, const K *from, K *to,
                          const int64_t *values, int64_t *sorted)
{
    size_t bytes = 0;
    cudaError_t status =
        cub::DeviceRadixSort::SortPairs(nullptr, bytes, from, to, values, sorted, all, 0, bits, d->stream);
    mx_cuda_scratch temporary(d, bytes ? bytes : 1);
    if (!temporary.memory)
        return mx_error_code();
    if (status == cudaSuccess)
        status =
            cub::DeviceRadixSort::SortPairs(temporary.memory, bytes, from, to, values, sorted, all, 0, bits, d->stream);
    return mx_cuda_fail(status, call->op->name);
}

static int bits_of(int64_t most) /* of the numbers 0 ... most */
{
    int bits = 1;
    while (most >> bits)
        bits++;
    return bits;
}

mx_code mx_cuda_ranking::sort(const mx_kernel_call *call)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const int64_t all = batches * n, each = n;
    uint64_t *const from = keys, *const to = keys + all;
    int64_t *const first = order, *const second = order + all, *const counts = count;
    if (!d || !all)
        return d ? MX_OK : mx_error_code();
    mx_code code = mx_cuda_rows(call, batches, each, [=] __device__(int64_t b) {
        int64_t there = 0;
        for (int64_t i = threadIdx.x; i < each; i += blockDim.x) {
            there += from[b * each + i] != MX_CUDA_NO_CANDIDATE;
            first[b * each + i] = b * each + i;
        }
        there = mx_cuda_block_sum(there);
        if (!threadIdx.x)
            counts[b] = there;
    });
    code = code ? code : sort_pairs(call, d, all, 64, from, to, first, second);
    if (!code && batches > 1) { /* by the number of the batch */
        code = mx_cuda_each(call, all, [=] __device__(int64_t i) { from[i] = (uint64_t)(second[i] / each); });
        code = code ? code : sort_pairs(call, d, all, bits_of(batches - 1), from, to, second, first);
    }
    const int64_t *sorted = batches > 1 ? first : second;
    if (code)
        return code;
    return mx_cuda_each(call, all, [=] __device__(int64_t i) { first[i] = sorted[i] % each; });
}
