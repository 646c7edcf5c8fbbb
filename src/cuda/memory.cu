/* Memory of the GPUs.
 *
 * Freed blocks are cached in lists by size, so that most allocations do not call the driver.  As all work is queued on
 * one stream, a block may be handed out again while the work that used it is still queued.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <mutex>
#include <vector>

#include "cuda/device.h"

#define STEP 512     /* bytes; the smallest block */
#define CLASSES 2881 /* sizes: eight per power of two, 64 for large ones, up to the whole address space */
#define LARGE 28     /* binary digits */

struct cache {
    std::mutex lock;
    std::vector<void *> blocks[CLASSES]; /* by class */
    size_t used = 0, most = 0;           /* bytes in use: now, and at most so far */
};
static mx_cuda_kept<cache[MX_CUDA_MOST]> caches;

/* A size is k steps of STEP << shift, 8 <= k <= 16 (fewer without a shift); its class is 8 shift + k.
 * A large one has 64 <= k <= 128, so that little of it is wasted; its classes follow. */
struct size_class {
    size_t bytes;
    int number;
};

static size_class class_of(size_t bytes)
{
    const int digits = 64 - __builtin_clzll(bytes | 1), large = digits >= LARGE;
    const int shift = large ? digits - 16 : digits > 13 ? digits - 13 : 0;
    const size_t step = (size_t)STEP << shift, k = (bytes + step - 1) / step;
    return {k * step, large ? 448 + 64 * (shift - (LARGE - 16)) + (int)k : 8 * shift + (int)k};
}

static void *take_cached(mx_cuda_device *d, const size_class &wanted)
{
    cache &c = caches.of[d->id];
    std::lock_guard<std::mutex> guard(c.lock);
    std::vector<void *> &blocks = c.blocks[wanted.number];
    if (blocks.empty())
        return nullptr;
    void *memory = blocks.back();
    blocks.pop_back();
    return memory;
}

static void give_back(mx_cuda_device *d)
{
    cache &c = caches.of[d->id];
    cudaMemPool_t pool;
    mx_cuda_launch_waiting(d);
    mx_cuda_forget_targets(d);
    mx_cuda_pinned_trim();
    mx_cuda_release_retired();
    {
        std::lock_guard<std::mutex> guard(c.lock);
        for (std::vector<void *> &blocks : c.blocks) {
            for (void *memory : blocks)
                cudaFreeAsync(memory, d->stream);
            blocks.clear();
        }
    }
    cudaStreamSynchronize(d->stream);
    if (cudaDeviceGetDefaultMemPool(&pool, d->id) == cudaSuccess)
        cudaMemPoolTrimTo(pool, 0);
}

/* A device whose context a kernel has broken cannot allocate either; then that is the error to report. */
static void explain(const mx_cuda_device *d, size_t bytes, cudaError_t status)
{
    size_t unused = 0, all = 0;
    if (status != cudaErrorMemoryAllocation || cudaMemGetInfo(&unused, &all) != cudaSuccess)
        mx_cuda_fail(status, "gpu");
    else
        mx_fail(MX_ERR_MEMORY, "gpu(%d) is out of memory: %zu bytes were requested, %zu of %zu are free", d->id, bytes,
                unused, all);
}

static void *counted(mx_cuda_device *d, void *memory, size_t bytes)
{
    cache &c = caches.of[d->id];
    std::lock_guard<std::mutex> guard(c.lock);
    c.used += bytes;
    c.most = c.used > c.most ? c.used : c.most;
    return memory;
}

/* For tests, which count it among the host's allocations (base/alloc.h). */
static bool must_fail(const mx_cuda_device *d, size_t bytes)
{
    const bool must = mx_alloc_fails();
    if (must)
        mx_fail(MX_ERR_MEMORY, "gpu(%d) is out of memory: %zu bytes were requested", d->id, bytes);
    return must;
}

void *mx_cuda_alloc(mx_cuda_device *d, size_t bytes)
{
    if (d->pool)
        return mx_cuda_pool_take(d->pool, bytes);
    if (must_fail(d, bytes))
        return nullptr;
    const size_class wanted = class_of(bytes);
    void *memory = take_cached(d, wanted);
    if (memory || cudaMallocAsync(&memory, wanted.bytes, d->stream) == cudaSuccess)
        return counted(d, memory, wanted.bytes);
    cudaGetLastError();
    give_back(d);
    const cudaError_t status = cudaMallocAsync(&memory, wanted.bytes, d->stream);
    if (status == cudaSuccess)
        return counted(d, memory, wanted.bytes);
    cudaGetLastError(); /* the failure is reported; the device still works */
    explain(d, bytes, status);
    return nullptr;
}

static void keep(mx_cuda_device *d, void *memory, size_t bytes)
{
    cache &c = caches.of[d->id];
    std::lock_guard<std::mutex> guard(c.lock);
    const size_class given = class_of(bytes);
    c.used -= given.bytes;
    c.blocks[given.number].push_back(memory);
}

void mx_cuda_free(mx_cuda_device *d, void *memory, size_t bytes) noexcept
{
    if (!memory)
        return;
    if (d->pool)
        return mx_cuda_pool_give(d->pool, memory, bytes);
    mx_cuda_target_freed(d, memory);
    try {
        keep(d, memory, bytes);
    } catch (...) { /* the list cannot grow */
        mx_cuda_launch_waiting(d);
        cudaFreeAsync(memory, d->stream);
    }
}

void *mx_cuda_allocate(mx_context context, size_t bytes)
{
    mx_cuda_device *d = mx_cuda_peek(context);
    return d && bytes ? mx_cuda_alloc(d, bytes) : nullptr;
}

void mx_cuda_release(mx_context context, void *memory, size_t bytes)
{
    mx_cuda_device *d =
        memory && !mx_cuda_forked ? mx_cuda_peek(context) : nullptr; /* only the parent may free its memory */
    if (d)
        mx_cuda_free(d, memory, bytes);
}

void mx_cuda_empty_cache(mx_context context)
{
    if (mx_cuda_device *d = mx_cuda_of(context))
        give_back(d);
}

mx_code mx_cuda_memory_info(mx_context context, size_t *unused, size_t *all)
{
    return mx_cuda_of(context) ? mx_cuda_fail(cudaMemGetInfo(unused, all), "gpu_memory_info") : mx_error_code();
}

mx_code mx_cuda_memory_used(mx_context context, size_t *now, size_t *most)
{
    const mx_cuda_device *d = mx_cuda_peek(context);
    if (!d)
        return mx_error_code();
    cache &c = caches.of[d->id];
    std::lock_guard<std::mutex> guard(c.lock);
    *now = c.used, *most = c.most;
    return MX_OK;
}
