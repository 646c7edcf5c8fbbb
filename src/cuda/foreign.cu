/* What a GPU shares with other libraries of the process: their streams and their memory (ndarray/device.h).
 *
 * One stream waits for another by an event; the host waits only if the other stream is unknown.  Memory of another
 * library is returned once an event recorded after all queued work has completed.  Pending events are in a list, which
 * is checked whenever the host waits or another event is added.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <mutex>
#include <new>

#include "cuda/capture.h"

/* ---- streams ----------------------------------------------------------------------------------------------------- */

/* The device itself, even while the thread captures: other libraries take no part in a capture. */
static mx_cuda_device *home_of(mx_context context)
{
    mx_cuda_device *d = mx_cuda_of(context);
    return d && d->pool ? d->pool->home : d;
}

static mx_code wait_for(cudaStream_t then, cudaStream_t first)
{
    cudaEvent_t event;
    if (then == first)
        return MX_OK;
    mx_code code = mx_cuda_fail(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "exchange");
    if (code)
        return code;
    code = mx_cuda_fail(cudaEventRecord(event, first), "exchange");
    if (!code)
        code = mx_cuda_fail(cudaStreamWaitEvent(then, event, 0), "exchange");
    cudaEventDestroy(event); /* CUDA releases it once it has completed */
    return code;
}

/* cudaStreamLegacy is 1 and cudaStreamPerThread 2, in DLPack's numbering as well. */
static cudaStream_t stream_of(int64_t number) { return (cudaStream_t)(intptr_t)number; }

mx_code mx_cuda_stream_number(mx_context context, int64_t *number)
{
    mx_cuda_device *d = home_of(context);
    if (!d)
        return mx_error_code();
    *number = (int64_t)(intptr_t)d->stream;
    return MX_OK;
}

mx_code mx_cuda_lead(mx_context context, int64_t stream)
{
    mx_cuda_device *d = home_of(context);
    return d ? wait_for(stream_of(stream), d->stream) : mx_error_code();
}

/* The owner may have destroyed its stream without telling us: only our own and the default streams are waited for. */
mx_code mx_cuda_follow(mx_context context, int64_t stream)
{
    mx_cuda_device *d = home_of(context);
    if (!d)
        return mx_error_code();
    if (stream_of(stream) == d->stream)
        return MX_OK;
    if (stream_of(stream) == cudaStreamLegacy || stream_of(stream) == cudaStreamPerThread)
        return wait_for(d->stream, stream_of(stream));
    return mx_cuda_fail(cudaDeviceSynchronize(), "exchange");
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

struct retired {
    cudaEvent_t queued; /* after everything that could use it */
    void (*release)(void *);
    void *owner;
    retired *next;
};
static std::mutex lock; /* of the list; not held while a library frees its memory */
static retired *list;
static std::atomic<int> count;

/* Removes one whose event has completed from the list. */
static retired *next_passed(void)
{
    std::lock_guard<std::mutex> guard(lock);
    for (retired **link = &list; *link; link = &(*link)->next) {
        retired *r = *link;
        if (cudaEventQuery(r->queued) == cudaErrorNotReady) {
            cudaGetLastError(); /* clears cudaErrorNotReady */
            continue;
        }
        *link = r->next;
        count--;
        return r;
    }
    return nullptr;
}

void mx_cuda_release_retired(void)
{
    while (count.load(std::memory_order_relaxed) && !mx_cuda_forked) {
        retired *r = next_passed();
        if (!r)
            return;
        cudaEventDestroy(r->queued);
        r->release(r->owner);
        delete r;
    }
}

static bool enlist(const mx_cuda_device *d, void (*release)(void *), void *owner)
{
    retired *r = new (std::nothrow) retired{nullptr, release, owner, nullptr};
    if (!r || cudaEventCreateWithFlags(&r->queued, cudaEventDisableTiming) != cudaSuccess) {
        delete r;
        return false;
    }
    cudaEventRecord(r->queued, d->stream);
    std::lock_guard<std::mutex> guard(lock);
    r->next = list, list = r, count++;
    return true;
}

void mx_cuda_retire(mx_context context, void (*release)(void *), void *owner)
{
    mx_cuda_device *d = mx_cuda_forked ? nullptr : home_of(context);
    if (mx_cuda_forked)
        return; /* only the parent may free its memory */
    if (d && enlist(d, release, owner)) {
        mx_cuda_release_retired();
        return;
    }
    cudaDeviceSynchronize();
    release(owner);
}

/* ---- strided elements -------------------------------------------------------------------------------------------- */

struct layout {
    int ndim;
    int64_t shape[MX_MAX_NDIM], strides[MX_MAX_NDIM]; /* in elements */
};

template <class T> __global__ void gather_kernel(T *to, const T *from, layout l, int64_t n)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x) {
        int64_t rest = i, at = 0;
        for (int axis = l.ndim - 1; axis >= 0; axis--) {
            at += rest % l.shape[axis] * l.strides[axis];
            rest /= l.shape[axis];
        }
        to[i] = from[at];
    }
}

template <class T> static void gather(const mx_cuda_device *d, void *to, const void *from, const layout &l, int64_t n)
{
    const int64_t blocks = (n + MX_CUDA_BLOCK - 1) / MX_CUDA_BLOCK;
    gather_kernel<T><<<mx_cuda_blocks(d, blocks), MX_CUDA_BLOCK, 0, d->stream>>>((T *)to, (const T *)from, l, n);
}

mx_code mx_cuda_gather(mx_context context, void *to, const void *from, const mx_dims *shape, const int64_t *strides,
                       size_t item)
{
    mx_cuda_device *d = home_of(context);
    layout l = {(int)shape->n, {}, {}};
    int64_t n = 1;
    if (!d)
        return mx_error_code();
    for (int i = 0; i < l.ndim; i++)
        l.shape[i] = shape->d[i], l.strides[i] = strides[i], n *= shape->d[i];
    switch (item) {
    case 1: gather<uint8_t>(d, to, from, l, n); break;
    case 2: gather<uint16_t>(d, to, from, l, n); break;
    case 4: gather<uint32_t>(d, to, from, l, n); break;
    default: gather<uint64_t>(d, to, from, l, n); break;
    }
    return mx_cuda_fail(cudaGetLastError(), "exchange");
}
