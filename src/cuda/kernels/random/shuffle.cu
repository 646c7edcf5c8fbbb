/* Rows in random order.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/items.h"

#define CROWD 1024 /* threads */
#define EACH 4     /* places that a thread settles at a time */

/* The order of the CPU: for i = n - 1 ... 1 places i and k(i) <= i are swapped, k drawn from counter i.
 *
 * A block settles many i at a time.  Each reserves its two places, larger i first; those that hold both swap them, the
 * others retry: so the swaps of every place happen in the order of the loop.  reserved: (n) zeros. */
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
                if (waits[r]) /* those that still wait reserve again */
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

MX_CUDA_KERNELS(shuffle) = {{"_shuffle", run_shuffle, NULL}, {NULL, NULL, NULL}};
