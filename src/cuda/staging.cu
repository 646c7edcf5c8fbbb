/* Pinned host memory: staging buffers for copies, and the elements of arrays in cpu_pinned().
 *
 * Copies from the host go through a ring of pinned pieces, so that a call returns as soon as the bytes have been
 * read, and the caller may change its memory while the device still copies:
 *
 *     caller's memory --memcpy--> piece | piece | piece ... --DMA, in the order of one stream--> device
 *                                 (event of the last copy out of it)
 *
 * A piece is filled from its start to its end; then an event is recorded after its copies, and the next piece is used
 * once its own event has completed.  If it has not, the ring is doubled, up to MOST bytes; then the host waits. 
 * (Pinning memory makes the host wait as well, so a ring begins with enough for most programs.)
 *
 * Copies to the host go through the same kind of pieces, two at a time: while one is filled, the other is emptied.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cuda/device.h"

#define MOST ((size_t)256 << 20) /* bytes of a ring */
#define ALIGNED(n) (((n) + 255) / 256 * 256)

struct piece {
    char *memory;
    cudaEvent_t read; /* recorded when it was full */
};

struct mx_cuda_ring {
    size_t size; /* bytes of a piece */
    int begin;   /* pieces to begin with */
    std::vector<piece> pieces;
    size_t current, used; /* the piece being filled, and its bytes */
};

/* ---- between the caller's memory and a piece: several threads, as one is slower than the DMA -------------------- */

struct transfer {
    char *to;
    const char *from;
};

static void move_part(void *arg, int64_t begin, int64_t end)
{
    const transfer *t = (const transfer *)arg;
    memcpy(t->to + begin, t->from + begin, (size_t)(end - begin));
}

static void move(void *to, const void *from, size_t bytes)
{
    transfer t = {(char *)to, (const char *)from};
    mx_parallel_all((int64_t)bytes, 256 << 10, move_part, &t);
}

/* ---- rings ----------------------------------------------------------------------------------------------------- */

mx_cuda_ring *mx_cuda_ring_new(size_t piece_bytes, int pieces)
{
    return new mx_cuda_ring{piece_bytes, pieces, {}, 0, 0};
}

/* Doubles the ring: inserts the new pieces after the current one; the first of them becomes the current one. */
static mx_code grow(mx_cuda_ring *ring)
{
    const size_t n = ring->pieces.empty() ? (size_t)ring->begin : ring->pieces.size();
    const size_t at = ring->pieces.empty() ? 0 : ring->current + 1;
    std::vector<piece> made(n);
    char *memory = nullptr;
    mx_code code =
        mx_cuda_fail(cudaHostAlloc((void **)&memory, n * ring->size, cudaHostAllocPortable), "pinned memory");
    for (size_t i = 0; i < n && !code; i++) {
        made[i].memory = memory + i * ring->size;
        code = mx_cuda_fail(cudaEventCreateWithFlags(&made[i].read, cudaEventDisableTiming), "pinned memory");
    }
    if (code)
        return cudaFreeHost(memory), code;
    ring->pieces.insert(ring->pieces.begin() + (long)at, made.begin(), made.end());
    ring->current = at, ring->used = 0;
    return MX_OK;
}

/* The current piece is full: its event is recorded, and the oldest becomes the current one. */
static mx_code turn(mx_cuda_ring *ring, cudaStream_t stream)
{
    if (ring->pieces.empty())
        return grow(ring);
    mx_code code = mx_cuda_fail(cudaEventRecord(ring->pieces[ring->current].read, stream), "copy from the host");
    const size_t next = (ring->current + 1) % ring->pieces.size();
    const bool busy = cudaEventQuery(ring->pieces[next].read) == cudaErrorNotReady;
    cudaGetLastError(); /* clears cudaErrorNotReady */
    if (code || (busy && 2 * ring->pieces.size() * ring->size <= MOST))
        return code ? code : grow(ring);
    code = mx_cuda_await(ring->pieces[next].read, "copy from the host");
    if (!code)
        ring->current = next, ring->used = 0;
    return code;
}

mx_code mx_cuda_staged(mx_cuda_ring *ring, cudaStream_t stream, void *to, const void *from, size_t bytes)
{
    mx_code code = MX_OK;
    for (size_t done = 0, part; !code && done < bytes; done += part) {
        if (ring->pieces.empty() || ring->used >= ring->size)
            code = turn(ring, stream);
        part = bytes - done < ring->size - ring->used ? bytes - done : ring->size - ring->used;
        if (code)
            break;
        char *stage = ring->pieces[ring->current].memory + ring->used;
        move(stage, (const char *)from + done, part);
        code = mx_cuda_fail(cudaMemcpyAsync((char *)to + done, stage, part, cudaMemcpyHostToDevice, stream),
                            "copy from the host");
        ring->used += ALIGNED(part);
    }
    return code;
}

/* Waits for a piece and empties it. */
static mx_code deliver(const piece &p, void *to, size_t bytes)
{
    const mx_code code = mx_cuda_await(p.read, "copy to the host");
    if (!code)
        move(to, p.memory, bytes);
    return code;
}

mx_code mx_cuda_staged_back(mx_cuda_ring *ring, cudaStream_t stream, void *to, const void *from, size_t bytes)
{
    mx_code code = ring->pieces.empty() ? grow(ring) : MX_OK;
    const size_t size = ring->size, parts = (bytes + size - 1) / size, pieces = ring->pieces.size();
    for (size_t i = 0; i < parts + pieces && !code; i++) {
        const piece &p = ring->pieces[i % pieces];
        const size_t old = (i - pieces) * size; /* where the part that fills this piece begins */
        if (i >= pieces && i - pieces < parts)
            code = deliver(p, (char *)to + old, bytes - old < size ? bytes - old : size);
        if (code || i >= parts)
            continue;
        const size_t begin = i * size, part = bytes - begin < size ? bytes - begin : size;
        code = mx_cuda_fail(cudaMemcpyAsync(p.memory, (const char *)from + begin, part, cudaMemcpyDeviceToHost, stream),
                            "copy to the host");
        if (!code)
            code = mx_cuda_fail(cudaEventRecord(p.read, stream), "copy to the host");
    }
    return code;
}

/* ---- arrays in pinned memory ------------------------------------------------------------------------------------ */
/* Pinning memory is slow, so freed blocks are cached in lists by size.  No copy is in progress from a block that is
 * freed (mx_cuda_upload waits for it), so it may be handed out at once. */

struct pinned {
    std::mutex lock;
    std::unordered_map<size_t, std::vector<void *>> unused; /* by size */
    std::unordered_map<void *, size_t> sizes;               /* of all blocks */
};
static mx_cuda_kept<pinned> kept;
static pinned &arrays = kept.of;

static size_t pinned_size(size_t bytes)
{
    size_t size = 4096;
    while (size < bytes)
        size += size / 4096 > 3 ? (size / 4 + 4095) / 4096 * 4096 : 4096;
    return size;
}

static void *take_unused(size_t size)
{
    std::lock_guard<std::mutex> guard(arrays.lock);
    const auto found = arrays.unused.find(size);
    if (found == arrays.unused.end() || found->second.empty())
        return nullptr;
    void *memory = found->second.back();
    found->second.pop_back();
    return memory;
}

/* False: out of memory for the list. */
static bool note(void *memory, size_t size)
{
    std::lock_guard<std::mutex> guard(arrays.lock);
    try {
        arrays.sizes[memory] = size;
        return true;
    } catch (...) {
        return false;
    }
}

void *mx_cuda_pinned_alloc(size_t bytes)
{
    const size_t size = pinned_size(bytes);
    if (mx_cuda_forked)
        return nullptr;
    void *memory = take_unused(size);
    if (memory || (cudaHostAlloc(&memory, size, cudaHostAllocPortable) == cudaSuccess && note(memory, size)))
        return memory;
    cudaFreeHost(memory);
    cudaGetLastError(); /* the caller falls back to pageable memory */
    return nullptr;
}

bool mx_cuda_pinned_free(void *memory)
{
    if (mx_cuda_forked) /* another thread of the parent may have held the lock; what is inherited stays */
        return arrays.sizes.count(memory) > 0;
    std::lock_guard<std::mutex> guard(arrays.lock);
    const auto found = arrays.sizes.find(memory);
    if (found == arrays.sizes.end())
        return false;
    try {
        arrays.unused[found->second].push_back(memory);
    } catch (...) { /* the list cannot grow */
        cudaFreeHost(memory);
        arrays.sizes.erase(found);
    }
    return true;
}

void mx_cuda_pinned_trim(void)
{
    std::lock_guard<std::mutex> guard(arrays.lock);
    for (auto &list : arrays.unused)
        for (void *memory : list.second)
            if (cudaFreeHost(memory) == cudaSuccess)
                arrays.sizes.erase(memory);
    arrays.unused.clear();
}
