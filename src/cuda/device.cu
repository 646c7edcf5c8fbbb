/* GPUs as devices of the library: streams, memory, copies.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <mutex>
#include <pthread.h>
#include <unordered_map>
#include <vector>

#include "cuda/cuda.h"

#define MOST 16 /* GPUs of one process */

static mx_cuda_device devices[MOST];
static std::once_flag started[MOST];
static int device_count;
static bool forked; /* this process is a child of one that uses CUDA, which CUDA does not survive */

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
}

mx_cuda_device *mx_cuda_of(mx_context context)
{
    static thread_local int current = -1;
    const int id = context.id;
    if (forked) {
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

static int count(void) { return device_count; }

/* ---- memory ---------------------------------------------------------------------------------------------------- */
/* Freed blocks wait in lists by size, so that most allocations need no call of the driver.  As all work goes to one
 * stream, a block may be handed out again while the work that used it is still queued. */

struct cache {
    std::mutex lock;
    std::unordered_map<size_t, std::vector<void *>> blocks; /* by rounded size */
};
static cache caches[MOST];

/* Eight sizes per power of two. */
static size_t rounded(size_t bytes)
{
    size_t step = 512;
    while (step * 16 <= bytes)
        step *= 2;
    return (bytes + step - 1) / step * step;
}

static void *take_cached(mx_cuda_device *d, size_t size)
{
    cache &c = caches[d->id];
    std::lock_guard<std::mutex> guard(c.lock);
    const auto found = c.blocks.find(size);
    if (found == c.blocks.end() || found->second.empty())
        return nullptr;
    void *memory = found->second.back();
    found->second.pop_back();
    return memory;
}

static void give_back(mx_cuda_device *d)
{
    cache &c = caches[d->id];
    cudaMemPool_t pool;
    {
        std::lock_guard<std::mutex> guard(c.lock);
        for (auto &list : c.blocks)
            for (void *memory : list.second)
                cudaFreeAsync(memory, d->stream);
        c.blocks.clear();
    }
    cudaStreamSynchronize(d->stream);
    if (cudaDeviceGetDefaultMemPool(&pool, d->id) == cudaSuccess)
        cudaMemPoolTrimTo(pool, 0);
}

/* A device whose context a kernel has broken gives no memory either; then that is what has to be said. */
static void explain(const mx_cuda_device *d, size_t bytes, cudaError_t status)
{
    size_t unused = 0, all = 0;
    if (status != cudaErrorMemoryAllocation || cudaMemGetInfo(&unused, &all) != cudaSuccess)
        mx_cuda_fail(status, "gpu");
    else
        mx_fail(MX_ERR_MEMORY, "gpu(%d): %zu bytes were asked for, %zu of %zu are free", d->id, bytes, unused, all);
}

void *mx_cuda_alloc(mx_cuda_device *d, size_t bytes)
{
    const size_t size = rounded(bytes);
    void *memory = take_cached(d, size);
    if (memory || cudaMallocAsync(&memory, size, d->stream) == cudaSuccess)
        return memory;
    cudaGetLastError();
    give_back(d);
    const cudaError_t status = cudaMallocAsync(&memory, size, d->stream);
    if (status == cudaSuccess)
        return memory;
    cudaGetLastError(); /* the failure is told; the device works on */
    explain(d, bytes, status);
    return nullptr;
}

void mx_cuda_free(mx_cuda_device *d, void *memory, size_t bytes)
{
    if (!memory)
        return;
    cache &c = caches[d->id];
    std::lock_guard<std::mutex> guard(c.lock);
    c.blocks[rounded(bytes)].push_back(memory);
}

static void *allocate(mx_context context, size_t bytes)
{
    mx_cuda_device *d = mx_cuda_of(context);
    return d && bytes ? mx_cuda_alloc(d, bytes) : nullptr;
}

static void release(mx_context context, void *memory, size_t bytes)
{
    mx_cuda_device *d = memory && !forked ? mx_cuda_of(context) : nullptr; /* the parent's memory is the parent's to free */
    if (d)
        mx_cuda_free(d, memory, bytes);
}

static void empty_cache(mx_context context)
{
    if (mx_cuda_device *d = mx_cuda_of(context))
        give_back(d);
}

static mx_code memory_info(mx_context context, size_t *unused, size_t *all)
{
    return mx_cuda_of(context) ? mx_cuda_fail(cudaMemGetInfo(unused, all), "gpu_memory_info") : mx_error_code();
}

/* ---- copies ---------------------------------------------------------------------------------------------------- */

static mx_code copy(mx_context context, void *to, const void *from, size_t bytes)
{
    mx_cuda_device *d = mx_cuda_of(context);
    if (!d)
        return mx_error_code();
    return mx_cuda_fail(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, d->stream), "copy");
}

static mx_code to_host(mx_context context, void *to, const void *from, size_t bytes)
{
    mx_cuda_device *d = mx_cuda_of(context);
    if (!d)
        return mx_error_code();
    const mx_code code = mx_cuda_fail(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, d->stream), "copy to the host");
    return code ? code : mx_cuda_fail(cudaStreamSynchronize(d->stream), "copy to the host");
}

/* Pageable memory has been read when the call returns, so the caller may change it at once. */
static mx_code from_host(mx_context context, void *to, const void *from, size_t bytes)
{
    mx_cuda_device *d = mx_cuda_of(context);
    if (!d)
        return mx_error_code();
    return mx_cuda_fail(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, d->stream), "copy from the host");
}

static void wait_for(mx_context context)
{
    if (mx_cuda_device *d = mx_cuda_of(context))
        mx_cuda_fail(cudaStreamSynchronize(d->stream), "wait");
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

extern "C" const mx_kernel *const mx_cuda_families[]; /* made from the file names in cuda/kernels */

static void attach_kernels(void)
{
    static std::once_flag once;
    std::call_once(once, [] {
        for (const mx_kernel *const *family = mx_cuda_families; *family; family++)
            for (const mx_kernel *k = *family; k->op; k++)
                mx_op_attach(MX_GPU, k);
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
    pthread_atfork(nullptr, nullptr, [] { forked = true; });
    device_count = device_count < MOST ? device_count : MOST;
    table.name = "gpu", table.type = MX_GPU, table.count = count;
    table.alloc = allocate, table.free = release, table.copy = copy;
    table.to_host = to_host, table.from_host = from_host, table.wait = wait_for;
    table.attach_kernels = attach_kernels;
    table.empty_cache = empty_cache, table.memory_info = memory_info;
    return &table;
}
