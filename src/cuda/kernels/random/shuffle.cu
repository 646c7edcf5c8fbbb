/* shuffle and histogram.  SPDX-License-Identifier: Apache-2.0 */
#include <cmath>

#include "cuda/kernels/movement/items.h"

/* ---- shuffle ----------------------------------------------------------------------------------------------------- */

#define CROWD 1024 /* threads */
#define EACH 4     /* places that a thread settles at a time */

/* The order of the CPU: for i = n - 1 ... 1 places i and k(i) <= i change, k drawn from counter i.
 *
 * A block settles many i at a time.  Each reserves its two places, the larger i before the smaller; who holds both
 * changes them, the others try again: so every place sees its changes in the order of the loop.
 * reserved: (n) zeros. */
static __global__ void order_kernel(mx_rng rng, int64_t n, int64_t *order, unsigned long long *reserved)
{
    for (int64_t i = threadIdx.x; i < n; i += CROWD)
        order[i] = i;
    __syncthreads();
    for (int64_t first = n - 1; first > 0; first -= CROWD * EACH) {
        int64_t i[EACH], k[EACH];
        bool waits[EACH], any;
        for (int r = 0; r < EACH; r++) {
            uint32_t word[4];
            i[r] = first - r * CROWD - threadIdx.x;
            mx_philox(rng.seed, rng.counter + (uint64_t)i[r], word);
            waits[r] = i[r] > 0;
            k[r] = waits[r] ? (int64_t)(((uint64_t)word[0] << 32 | word[1]) % (uint64_t)(i[r] + 1)) : 0;
        }
        do {
            bool wins[EACH];
            for (int r = 0; r < EACH; r++)
                if (waits[r]) {
                    atomicMax(&reserved[i[r]], (unsigned long long)i[r]);
                    atomicMax(&reserved[k[r]], (unsigned long long)i[r]);
                }
            __syncthreads();
            for (int r = 0; r < EACH; r++)
                wins[r] = waits[r] && reserved[i[r]] == (unsigned long long)i[r] &&
                          reserved[k[r]] == (unsigned long long)i[r];
            __syncthreads();
            any = false;
            for (int r = 0; r < EACH; r++) {
                if (wins[r]) {
                    const int64_t swap = order[i[r]];
                    order[i[r]] = order[k[r]], order[k[r]] = swap;
                }
                if (waits[r]) /* all is reserved anew by those who still wait */
                    reserved[i[r]] = reserved[k[r]] = 0;
                waits[r] = waits[r] && !wins[r];
                any = any || waits[r];
            }
        } while (__syncthreads_or(any));
    }
}

template <class T> static mx_code take_rows(const mx_kernel_call *call, const int64_t *order, int64_t run)
{
    const T *from = (const T *)mx_data(call->in[0]);
    T *to = (T *)mx_data(call->out[0]);
    return mx_cuda_each(call, call->in[0]->size,
                        [=] __device__(int64_t i) { to[i] = from[order[i / run] * run + i % run]; });
}

static mx_code run_shuffle(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0];
    const int64_t n = x->ndim ? x->shape[0] : 1;
    const mx_rng rng = mx_rng_reserve((uint64_t)n);
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || !x->size)
        return d ? MX_OK : mx_error_code();
    mx_cuda_scratch order(d, (size_t)n * sizeof(int64_t)), reserved(d, (size_t)n * sizeof(int64_t));
    if (!order.memory || !reserved.memory)
        return mx_error_code();
    cudaMemsetAsync(reserved.memory, 0, (size_t)n * sizeof(int64_t), d->stream);
    order_kernel<<<1, CROWD, 0, d->stream>>>(rng, n, order.as<int64_t>(), reserved.as<unsigned long long>());
    const mx_code code = mx_cuda_launched(call);
    return code ? code : mx_cuda_by_item(x, [&](auto item) {
        return take_rows<decltype(item)>(call, order.as<int64_t>(), x->size / n);
    });
}

/* ---- histogram --------------------------------------------------------------------------------------------------- */

#define PARTS 256 /* blocks that look for the range of the data */

/* part (PARTS, 2): the least and the largest element that each block has seen */
static mx_code data_range(const mx_kernel_call *call, double *part)
{
    const void *x = mx_data(call->in[0]);
    const int type = call->in[0]->dtype;
    const int64_t n = call->in[0]->size;
    return mx_cuda_rows(call, PARTS, 256, [=] __device__(int64_t row) {
        double low = INFINITY, high = -INFINITY;
        for (int64_t i = row * blockDim.x + threadIdx.x; i < n; i += PARTS * blockDim.x) {
            const double v = mx_cuda_load<double>(x, type, i);
            low = v < low ? v : low, high = v > high ? v : high;
        }
        low = -mx_cuda_block_max(-low), high = mx_cuda_block_max(high);
        if (!threadIdx.x)
            part[2 * row] = low, part[2 * row + 1] = high;
    });
}

/* edge (bins + 1): of equal bins over the range that is given, or over the parts' (NULL: it is given); a range of no
 * width gets one. */
static mx_code equal_edges(const mx_kernel_call *call, const mx_histogram_attrs *a, const double *part, double *edge)
{
    const int64_t bins = a->bin_cnt;
    const double first = part ? 0 : a->range.d[0], last = part ? 0 : a->range.d[1];
    return mx_cuda_rows(call, 1, bins + 1, [=] __device__(int64_t) {
        double low = INFINITY, high = -INFINITY;
        for (int64_t i = threadIdx.x; i < PARTS && part; i += blockDim.x)
            low = fmin(low, part[2 * i]), high = fmax(high, part[2 * i + 1]);
        low = -mx_cuda_block_max(-low), high = mx_cuda_block_max(high);
        if (!part)
            low = first, high = last;
        else if (!(low <= high)) /* no numbers */
            low = 0, high = 1;
        if (low == high)
            low -= 0.5, high += 0.5;
        for (int64_t i = threadIdx.x; i <= bins; i += blockDim.x)
            edge[i] = low + (high - low) * (double)i / (double)bins;
    });
}

/* The bin whose edges surround x; the last one includes its upper edge; -1: none. */
static __device__ int64_t find_bin(const double *edge, int64_t bins, double x)
{
    if (!(x >= edge[0] && x <= edge[bins]))
        return -1;
    int64_t low = 0, high = bins;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        *(x < edge[middle] ? &high : &low) = middle;
    }
    return low;
}

static mx_code count(const mx_kernel_call *call, const double *edge)
{
    const void *x = mx_data(call->in[0]);
    unsigned long long *bin = (unsigned long long *)mx_data(call->out[0]);
    const int type = call->in[0]->dtype;
    const int64_t bins = call->out[1]->size - 1;
    return mx_cuda_each(call, call->in[0]->size, [=] __device__(int64_t i) {
        const int64_t k = find_bin(edge, bins, mx_cuda_load<double>(x, type, i));
        if (k >= 0)
            atomicAdd(&bin[k], 1ull);
    });
}

static mx_code run_histogram(const mx_kernel_call *call)
{
    const mx_histogram_attrs *a = (const mx_histogram_attrs *)call->attrs;
    const mx_array *edges = call->out[1];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    mx_cuda_scratch room(d, (size_t)(edges->size + 2 * PARTS) * sizeof(double));
    double *part = room.as<double>(), *edge = part + 2 * PARTS;
    if (!part)
        return mx_error_code();
    const bool equal = a->bin_cnt != MX_NONE_INT, given = equal && a->range.n == 2;
    mx_code code =
        mx_cuda_fail(cudaMemsetAsync(mx_data(call->out[0]), 0, mx_bytes(call->out[0]), d->stream), call->op->name);
    if (!code && equal && !given)
        code = data_range(call, part);
    if (!code)
        code = equal ? equal_edges(call, a, given ? nullptr : part, edge) : mx_cuda_to_doubles(call, call->in[1], edge);
    code = code ? code : count(call, edge);
    void *to = mx_data(edges);
    const int type = edges->dtype;
    return code ? code : mx_cuda_each(call, edges->size, [=] __device__(int64_t i) {
        mx_cuda_store<double>(to, type, i, edge[i]);
    });
}

MX_CUDA_KERNELS(shuffle) = {{"_shuffle", run_shuffle, NULL}, {"_histogram", run_histogram, NULL}, {NULL, NULL, NULL}};
