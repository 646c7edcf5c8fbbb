/* GPUs as devices of the library: starting them, their streams, their function table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstring>
#include <mutex>
#include <pthread.h>
#include <unistd.h>

#include "cuda/device.h"
#include "cuda/entry.h"

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

/* Memory freed to the driver's pool stays with the process until mx_empty_cache() or until memory runs short. */
static void keep_freed_memory(int id)
{
    cudaMemPool_t pool;
    uint64_t all = UINT64_MAX;
    if (cudaDeviceGetDefaultMemPool(&pool, id) == cudaSuccess)
        cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
}

static __global__ void any_kernel() {}

static void start(int id)
{
    mx_cuda_device *d = &devices[id];
    cudaStream_t stream = nullptr;
    if (cudaSetDevice(id) != cudaSuccess || cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
        return;
    keep_freed_memory(id);
    cudaDeviceGetAttribute(&d->multiprocessors, cudaDevAttrMultiProcessorCount, id);
    cudaFuncAttributes attributes;
    d->code = cudaFuncGetAttributes(&attributes, any_kernel) == cudaSuccess ? attributes.ptxVersion : 0;
    d->id = id;
    d->stream = stream;
    void *error = nullptr;
    if (cudaHostAlloc(&error, sizeof *d->error, cudaHostAllocPortable | cudaHostAllocMapped) == cudaSuccess)
        d->error = (mx_cuda_error *)memset(error, 0, sizeof *d->error);
}

/* Other libraries in the thread may have selected another device. */
static bool is_current(int id)
{
    int now = -1;
    return device_count == 1 || (cudaGetDevice(&now) == cudaSuccess && now == id);
}

mx_cuda_device *mx_cuda_peek(mx_context context)
{
    static thread_local int current = -1; /* device that we selected in this thread */
    const int id = context.id;
    if (mx_cuda_capturing_device && mx_cuda_capturing_device->id == id)
        return mx_cuda_capturing_device;
    if (id == current && !mx_cuda_forked && is_current(id))
        return &devices[id];
    if (mx_cuda_forked) {
        mx_fail(MX_ERR_DEVICE,
                "gpu(%d): a forked process cannot use the GPUs of its parent; use threads, or start it with spawn", id);
        return nullptr;
    }
    if (id < 0 || id >= device_count) {
        mx_fail(MX_ERR_DEVICE, "gpu(%d) does not exist: this machine has %d GPUs, counted from gpu(0)", id,
                device_count);
        return nullptr;
    }
    std::call_once(started[id], start, id);
    if (!devices[id].stream) {
        mx_fail(MX_ERR_DEVICE, "gpu(%d) could not be started: %s", id, cudaGetErrorString(cudaGetLastError()));
        return nullptr;
    }
    if (mx_cuda_fail(cudaSetDevice(id), "gpu"))
        return nullptr;
    current = id;
    return &devices[id];
}

mx_cuda_device *mx_cuda_of(mx_context context)
{
    mx_cuda_device *d = mx_cuda_peek(context);
    const bool waits = d && !d->pool && mx_cuda_waiting[d->id].load(std::memory_order_acquire);
    return waits && mx_cuda_launch_waiting(d) ? nullptr : d;
}

static int count(void) { return device_count; }

/* ---- the table ------------------------------------------------------------------------------------------------- */

extern "C" const mx_kernel *const mx_cuda_families[]; /* generated from the file names in cuda/kernels */

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
        /* Without a driver CUDA says that the driver is too old. */
        const bool none = status == cudaSuccess || status == cudaErrorNoDevice ||
                          (status == cudaErrorInsufficientDriver && access("/proc/driver/nvidia/version", F_OK));
        mx_fail(MX_ERR_DEVICE, "%s", none ? "the machine has no GPU, or no NVIDIA driver" : cudaGetErrorString(status));
        return nullptr;
    }
    pthread_atfork(nullptr, nullptr, [] { mx_cuda_forked = true; });
    device_count = device_count < MX_CUDA_MOST ? device_count : MX_CUDA_MOST;
    table.can = MX_CAN_CHANNELS_LAST | MX_CAN_NORM_PARTS | MX_CAN_RECOMPUTE | MX_CAN_JOIN_RELU_GRADIENT |
                MX_CAN_JOIN_BIAS | MX_CAN_CHAIN_NARROW | MX_CAN_OVERLAP | MX_CAN_ROUND_ANEW | MX_CAN_ALIGN_ROWS |
                MX_CAN_FUSE_ATTENTION | MX_CAN_FUSE_EPILOGUE;
    table.name = "gpu", table.type = MX_GPU, table.count = count, table.capturer = &mx_cuda_capturer;
#define ENTRY(name, function) table.name = MX_CUDA_ENTRY(function)
    ENTRY(alloc, mx_cuda_allocate), ENTRY(free, mx_cuda_release), ENTRY(copy, mx_cuda_copy_within);
    ENTRY(to_host, mx_cuda_to_host), ENTRY(from_host, mx_cuda_from_host), ENTRY(wait, mx_cuda_wait_for);
    ENTRY(upload, mx_cuda_upload), ENTRY(between, mx_cuda_copy_between), ENTRY(fill, mx_cuda_fill);
    ENTRY(pinned_alloc, mx_cuda_pinned_alloc), ENTRY(pinned_free, mx_cuda_pinned_free);
    ENTRY(empty_cache, mx_cuda_empty_cache), ENTRY(memory_info, mx_cuda_memory_info);
    ENTRY(all_reduce, mx_cuda_all_reduce), ENTRY(attach_kernels, attach_kernels);
    ENTRY(stream, mx_cuda_stream_number), ENTRY(lead, mx_cuda_lead), ENTRY(follow, mx_cuda_follow);
    ENTRY(retire, mx_cuda_retire), ENTRY(gather, mx_cuda_gather);
    ENTRY(memory_used, mx_cuda_memory_used);
    return &table;
}
