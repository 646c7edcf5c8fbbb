/* Copies within a GPU, between GPUs, and between them and the host; filling; waiting.
 *
 * Everything is ordered by the compute stream of the device, with one exception: elements for memory that was just
 * allocated (mx_cuda_upload) are copied on a separate copy stream, concurrently with the kernels already queued:
 *
 *     compute   ... step n-1 | block freed (event) | step n ......................... | step n+1
 *     copy                                           waits for the event, batch n+1 ^ event
 *
 * The allocator hands out blocks which queued kernels may still use, so the copy waits for the event that was
 * recorded when the block was last freed.  A block that has never received an upload has no such event, and the copy
 * waits for everything queued.  The compute stream waits for the copy at once, so that no other code needs to know
 * about the second stream.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "cuda/device.h"

#define LARGE ((size_t)256 << 10) /* bytes from which another stream, or copying back in pieces, pays off */
#define PIECE ((size_t)4 << 20)

struct lane {
    std::mutex lock;       /* of the first two rings and the copy stream */
    mx_cuda_ring *ring;    /* for copies on the compute stream; NULL before the first */
    mx_cuda_ring *uploads; /* for those on the copy stream */
    cudaStream_t stream;   /* NULL before the first upload */
    std::mutex back_lock;  /* of the third ring */
    mx_cuda_ring *back;    /* for copies to the host */
    cudaEvent_t queued;    /* end of the work queued on the compute stream */
    cudaEvent_t arrived;   /* the last upload */
    std::mutex targets_lock;
    std::atomic<size_t> count; /* of targets */
    std::unordered_map<void *, cudaEvent_t>
        targets; /* blocks that received uploads; the event: when it was last freed; NULL: never */
};
static mx_cuda_kept<lane[MX_CUDA_MOST]> lanes;

/* ---- targets of uploads ---------------------------------------------------------------------------------------- */

void mx_cuda_target_freed(mx_cuda_device *d, void *memory)
{
    lane &l = lanes.of[d->id];
    if (!l.count.load(std::memory_order_relaxed))
        return;
    std::lock_guard<std::mutex> guard(l.targets_lock);
    const auto found = l.targets.find(memory);
    if (found == l.targets.end())
        return;
    mx_cuda_launch_waiting(d);
    if (!found->second)
        cudaEventCreateWithFlags(&found->second, cudaEventDisableTiming);
    if (found->second)
        cudaEventRecord(found->second, d->stream);
}

void mx_cuda_forget_targets(mx_cuda_device *d)
{
    lane &l = lanes.of[d->id];
    std::lock_guard<std::mutex> guard(l.targets_lock);
    for (auto &target : l.targets)
        if (target.second)
            cudaEventDestroy(target.second);
    l.targets.clear();
    l.count = 0;
}

/* Makes the copy stream wait until nothing queued uses the block; *idle: nothing uses it now. */
static mx_code wait_until_unused(mx_cuda_device *d, lane &l, void *to, bool *idle)
{
    std::lock_guard<std::mutex> guard(l.targets_lock);
    cudaEvent_t event = l.targets[to];
    l.count = l.targets.size();
    if (!event) {
        event = l.queued;
        if (mx_code code = mx_cuda_fail(cudaEventRecord(event, d->stream), "copy from the host"))
            return code;
    }
    const cudaError_t status = cudaEventQuery(event);
    *idle = status == cudaSuccess;
    if (status == cudaErrorNotReady)
        cudaGetLastError();
    return *idle ? MX_OK : mx_cuda_fail(cudaStreamWaitEvent(l.stream, event, 0), "copy from the host");
}

/* The device of a copy from or to the host.  Such a copy cannot be captured: the next run uses other host memory. */
static mx_cuda_device *host_copy_on(mx_context context)
{
    mx_cuda_device *d = mx_cuda_of(context);
    if (!d || !d->pool)
        return d;
    mx_fail(MX_ERR_STATE, "a copy from or to the host cannot be part of a capture");
    return nullptr;
}

/* ---- from the host --------------------------------------------------------------------------------------------- */

static mx_code start_lane(lane &l)
{
    if (l.stream)
        return MX_OK;
    l.uploads = mx_cuda_ring_new(PIECE, 8);
    mx_code code = mx_cuda_fail(cudaEventCreateWithFlags(&l.queued, cudaEventDisableTiming), "copy stream");
    if (!code)
        code = mx_cuda_fail(cudaEventCreateWithFlags(&l.arrived, cudaEventDisableTiming), "copy stream");
    return code ? code : mx_cuda_fail(cudaStreamCreateWithFlags(&l.stream, cudaStreamNonBlocking), "copy stream");
}

static bool is_pinned(const void *memory)
{
    cudaPointerAttributes about;
    if (cudaPointerGetAttributes(&about, memory) == cudaSuccess)
        return about.type == cudaMemoryTypeHost;
    return cudaGetLastError(), false;
}

mx_code mx_cuda_from_host(mx_context context, void *to, const void *from, size_t bytes)
{
    mx_cuda_device *d = host_copy_on(context);
    if (!d)
        return mx_error_code();
    lane &l = lanes.of[d->id];
    std::lock_guard<std::mutex> guard(l.lock);
    if (!l.ring)
        l.ring = mx_cuda_ring_new(PIECE / 4, 2);
    return mx_cuda_staged(l.ring, d->stream, to, from, bytes);
}

/* Pinned memory is read by the device itself.  Its owner may write to it after the call, so the host waits for that
 * copy, but never for kernels: while the target is in use, the bytes are staged like others. */
static mx_code send(mx_cuda_device *d, lane &l, void *to, const void *from, size_t bytes, bool direct)
{
    std::lock_guard<std::mutex> guard(l.lock);
    bool idle = false;
    mx_code code = start_lane(l);
    if (!code)
        code = wait_until_unused(d, l, to, &idle);
    if (code)
        return code;
    if (idle && direct)
        code = mx_cuda_fail(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, l.stream), "copy from the host");
    else
        code = mx_cuda_staged(l.uploads, l.stream, to, from, bytes);
    if (!code)
        code = mx_cuda_fail(cudaEventRecord(l.arrived, l.stream), "copy from the host");
    if (!code)
        code = mx_cuda_fail(cudaStreamWaitEvent(d->stream, l.arrived, 0), "copy from the host");
    return code || !(idle && direct) ? code : mx_cuda_fail(cudaEventSynchronize(l.arrived), "copy from the host");
}

mx_code mx_cuda_upload(mx_context context, void *to, const void *from, size_t bytes)
{
    if (bytes < LARGE)
        return mx_cuda_from_host(context, to, from, bytes);
    mx_cuda_device *d = host_copy_on(context);
    return d ? send(d, lanes.of[d->id], to, from, bytes, is_pinned(from)) : mx_error_code();
}

/* ---- other copies ---------------------------------------------------------------------------------------------- */

mx_code mx_cuda_copy_within(mx_context context, void *to, const void *from, size_t bytes)
{
    mx_cuda_device *d = mx_cuda_of(context);
    if (!d)
        return mx_error_code();
    return mx_cuda_fail(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, d->stream), "copy");
}

/* Asks until `query` finds that the work is done. */
template <class Query> static mx_code poll(Query query, const char *what)
{
    cudaError_t state = cudaSuccess;
    mx_code code = MX_OK;
    while (!code && (state = query()) == cudaErrorNotReady) {
        cudaGetLastError(); /* clears cudaErrorNotReady */
        code = mx_interrupt_check();
    }
    return code ? code : mx_cuda_fail(state, what);
}

mx_code mx_cuda_settle(cudaStream_t stream, const char *what)
{
    if (!mx_stop_possible())
        return mx_cuda_fail(cudaStreamSynchronize(stream), what);
    return poll([stream] { return cudaStreamQuery(stream); }, what);
}

mx_code mx_cuda_await(cudaEvent_t event, const char *what)
{
    if (!mx_stop_possible())
        return mx_cuda_fail(cudaEventSynchronize(event), what);
    return poll([event] { return cudaEventQuery(event); }, what);
}

/* After synchronizing: raises the device error flag, once. */
static mx_code raise_flag(mx_cuda_device *d)
{
    static std::mutex lock;
    mx_cuda_error *error = d->error;
    if (!error || !*(const mx_op *volatile *)&error->op)
        return MX_OK;
    std::lock_guard<std::mutex> guard(lock);
    const mx_cuda_error what = *error;
    error->op = nullptr;
    return what.op ? mx_op_fail(what.op, what.code, what.text, what.first, what.second) : MX_OK;
}

/* A thread that can be stopped waits first: once the copy is queued, `to` must stay. */
static mx_code bring(mx_cuda_device *d, void *to, const void *from, size_t bytes)
{
    mx_code code = mx_stop_possible() ? mx_cuda_settle(d->stream, "copy to the host") : MX_OK;
    if (!code)
        code = mx_cuda_fail(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, d->stream), "copy to the host");
    return code ? code : mx_cuda_fail(cudaStreamSynchronize(d->stream), "copy to the host");
}

static mx_code bring_in_pieces(mx_cuda_device *d, void *to, const void *from, size_t bytes)
{
    lane &l = lanes.of[d->id];
    std::lock_guard<std::mutex> guard(l.back_lock);
    if (!l.back)
        l.back = mx_cuda_ring_new(PIECE, 3);
    return mx_cuda_staged_back(l.back, d->stream, to, from, bytes);
}

mx_code mx_cuda_to_host(mx_context context, void *to, const void *from, size_t bytes)
{
    mx_cuda_device *d = host_copy_on(context);
    if (!d)
        return mx_error_code();
    /* A copy in pieces may be abandoned: the device writes to memory of ours. */
    const bool in_pieces = bytes < LARGE ? mx_stop_possible() : !is_pinned(to);
    const mx_code code = in_pieces ? bring_in_pieces(d, to, from, bytes) : bring(d, to, from, bytes);
    if (code)
        return code;
    mx_cuda_release_retired();
    return raise_flag(d);
}

/* `then` waits for an event after everything queued on `first`. */
static mx_code follow(mx_cuda_device *first, mx_cuda_device *then)
{
    cudaEvent_t event;
    mx_code code = mx_cuda_fail(cudaSetDevice(first->id), "copy between GPUs"); /* events belong to a device */
    if (code || (code = mx_cuda_fail(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "copy between GPUs")))
        return code;
    code = mx_cuda_fail(cudaEventRecord(event, first->stream), "copy between GPUs");
    if (!code)
        code = mx_cuda_fail(cudaStreamWaitEvent(then->stream, event, 0), "copy between GPUs");
    cudaEventDestroy(event); /* CUDA releases it once it has completed */
    return code;
}

mx_code mx_cuda_copy_between(mx_context target, void *to, mx_context source, const void *from, size_t bytes)
{
    mx_cuda_device *there = mx_cuda_of(source), *here = there ? mx_cuda_of(target) : nullptr;
    if (!here)
        return mx_error_code();
    mx_code code = follow(there, here); /* until the elements are computed */
    if (!code)
        code =
            mx_cuda_fail(cudaMemcpyPeerAsync(to, here->id, from, there->id, bytes, here->stream), "copy between GPUs");
    if (!code)
        code = follow(here, there); /* until they are read, before the memory is reused */
    cudaSetDevice(here->id);        /* as mx_cuda_of() left it */
    return code;
}

/* ---- filling and waiting ----------------------------------------------------------------------------------------- */

template <class T> __global__ void fill_kernel(T *to, T value, int64_t n)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        to[i] = value;
}

template <class T> static void fill(mx_cuda_device *d, void *to, const void *element, int64_t n)
{
    T value;
    memcpy(&value, element, sizeof value);
    fill_kernel<T><<<mx_cuda_blocks(d, (n + MX_CUDA_BLOCK - 1) / MX_CUDA_BLOCK), MX_CUDA_BLOCK, 0, d->stream>>>(
        (T *)to, value, n);
}

mx_code mx_cuda_fill(mx_context context, void *to, const void *element, size_t size, int64_t n)
{
    static const char zeros[8] = {0};
    mx_cuda_device *d = mx_cuda_of(context);
    if (!d)
        return mx_error_code();
    if (!memcmp(element, zeros, size))
        return mx_cuda_fail(cudaMemsetAsync(to, 0, size * (size_t)n, d->stream), "fill");
    switch (size) {
    case 1: fill<uint8_t>(d, to, element, n); break;
    case 2: fill<uint16_t>(d, to, element, n); break;
    case 4: fill<uint32_t>(d, to, element, n); break;
    default: fill<uint64_t>(d, to, element, n); break;
    }
    return mx_cuda_fail(cudaGetLastError(), "fill");
}

void mx_cuda_wait_for(mx_context context)
{
    mx_cuda_device *d = mx_cuda_of(context);
    if (!d || mx_cuda_settle(d->stream, "wait"))
        return;
    mx_cuda_release_retired();
    raise_flag(d);
}
