/* GPUs as devices of the library: starting them, their streams, the table of what they offer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstring>
#include <mutex>
#include <pthread.h>

#include "cuda/device.h"

static mx_cuda_device devices[MX_CUDA_MOST];
static std::once_flag started[MX_CUDA_MOST];
static int device_count;
bool mx_cuda_forked;

mx_code mx_cuda_fail(cudaError_t status, const char *who)
{
    if (status == cudaSuccess)
        return MX_OK;
    return mx_fail(status == cudaErrorMemoryAllocation ? MX_ERR_MEMORY : MX_ERR_DEVICE, "%s: %s (%s)", who,
                   cudaGetErrorString(status), cudaGetErrorName(status));
}

/* ---- devices --------------------------------------------------------------------------------------------------- */

/* What is given back to the driver's pool stays with the process until mx_empty_cache() or a shortage. */
static void keep_freed_memory(int id)
{
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;
    if (cudaDeviceGetDefaultMemPool(&pool, id) == cudaSuccess)
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
}

static void start(int id)
{
    mx_cuda_device *d = &devices[id];
    cudaStream_t stream = nullptr;
    if (cudaSetDevice(id) != cudaSuccess || cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
        return;
    keep_freed_memory(id);
    cudaDeviceGetAttribute(&d->multiprocessors, cudaDevAttrMultiProcessorCount, id);
    d->id = id;
    d->stream = stream;
    void *alarm = nullptr;
    if (cudaHostAlloc(&alarm, sizeof *d->alarm, cudaHostAllocPortable | cudaHostAllocMapped) == cudaSuccess)
        d->alarm = (mx_cuda_alarm *)memset(alarm, 0, sizeof *d->alarm);
}

mx_cuda_device *mx_cuda_peek(mx_context context)
{
    static thread_local int current = -1;
    const int id = context.id;
    if (mx_cuda_recording_device && mx_cuda_recording_device->id == id)
        return mx_cuda_recording_device;
    if (id == current && !mx_cuda_forked)
        return &devices[id];
    if (mx_cuda_forked) {
        mx_fail(MX_ERR_DEVICE, "gpu(%d): a process made by fork() cannot use the GPUs of its parent; use threads, or spawn", id);
        return nullptr;
    }
    if (id < 0 || id >= device_count) {
        mx_fail(MX_ERR_DEVICE, "gpu(%d) does not exist: this machine has %d (gpu(0)...)", id, device_count);
        return nullptr;
    }
    std::call_once(started[id], start, id);
    if (!devices[id].stream) {
        mx_fail(MX_ERR_DEVICE, "gpu(%d) could not be started: %s", id, cudaGetErrorString(cudaGetLastError()));
        return nullptr;
    }
    if (current != id && !mx_cuda_fail(cudaSetDevice(id), "gpu"))
        current = id;
    return current == id ? &devices[id] : nullptr;
}

mx_cuda_device *mx_cuda_of(mx_context context)
{
    mx_cuda_device *d = mx_cuda_peek(context);
    const bool waits = d && !d->pool && mx_cuda_waiting[d->id].load(std::memory_order_acquire);
    return waits && mx_cuda_launch_waiting(d) ? nullptr : d;
}

static int count(void) { return device_count; }

/* ---- the table ------------------------------------------------------------------------------------------------- */

extern "C" const mx_kernel *const mx_cuda_families[]; /* made from the file names in cuda/kernels */

static void attach_kernels(void)
{
    static std::once_flag once;
    std::call_once(once, [] {
        for (const mx_kernel *const *family = mx_cuda_families; *family; family++)
            for (const mx_kernel *k = *family; k->op; k++)
                mx_op_attach(MX_GPU, k);
        mx_cuda_attach_updates();
    });
}

extern "C" __attribute__((visibility("default"))) mx_device *mx_cuda_open(const mx_cuda_library *library)
{
    static mx_device table;
    if (!mx_cuda_meet(library))
        return nullptr;
    const cudaError_t status = cudaGetDeviceCount(&device_count);
    if (status != cudaSuccess || !device_count) {
        mx_fail(MX_ERR_DEVICE, "%s", status == cudaSuccess ? "the machine has no GPU" : cudaGetErrorString(status));
        return nullptr;
    }
    pthread_atfork(nullptr, nullptr, [] { mx_cuda_forked = true; });
    device_count = device_count < MX_CUDA_MOST ? device_count : MX_CUDA_MOST;
    table.name = "gpu", table.type = MX_GPU, table.count = count;
    table.alloc = mx_cuda_allocate, table.free = mx_cuda_release, table.copy = mx_cuda_copy_within;
    table.to_host = mx_cuda_to_host, table.from_host = mx_cuda_from_host, table.wait = mx_cuda_wait_for;
    table.upload = mx_cuda_upload, table.between = mx_cuda_copy_between, table.fill = mx_cuda_fill;
    table.all_reduce = mx_cuda_all_reduce;
    table.pinned_alloc = mx_cuda_pinned_alloc, table.pinned_free = mx_cuda_pinned_free;
    table.attach_kernels = attach_kernels, table.recorder = &mx_cuda_recorder;
    table.empty_cache = mx_cuda_empty_cache, table.memory_info = mx_cuda_memory_info;
    return &table;
}
