/* Captures of launches: CUDA graphs that can be corrected part by part (ndarray/device.h).
 *
 * While a thread captures, mx_cuda_of() returns a copy of the device with its own stream and handles, so that other
 * threads can continue to launch.  Kernels allocate from the capture's pool, because the graph uses those addresses
 * whenever it runs.  The graph itself runs in the device's one stream, in order with everything else.
 *
 *     nodes   n0 n1 | n2 | n3 n4 n5 | ...      parts, one for each call; capture_flow.cu says which wait for which
 *     correct part 1: the call is captured alone, and the arguments of its launches are written into n2
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cuda.h>
#include <memory>
#include <mutex>

#include "cuda/entry.h"
#include "cuda/capture.h"

struct capture_device {
    std::mutex capturing; /* held by the thread that captures */
    mx_cuda_device device;
};
static capture_device capture_devices[MX_CUDA_MOST];
thread_local mx_cuda_device *mx_cuda_capturing_device;

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* The smallest block that is large enough.  A recently used one is reused only when the pool is large already, because
 * parts that share memory cannot run concurrently. */
static size_t choose(const mx_cuda_pool *pool, size_t bytes)
{
    const bool sparing = pool->bytes >= MX_CUDA_POOL_MUCH;
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < pool->blocks.size(); i++) {
        const mx_cuda_pool::block &b = pool->blocks[i];
        const bool rested = sparing || pool->part - b.last >= MX_CUDA_POOL_REST || pool->part == b.last;
        const bool allowed = pool->only ? b.last == pool->part : rested;
        if (!b.used && b.bytes >= bytes && allowed && (best == SIZE_MAX || b.bytes < pool->blocks[best].bytes))
            best = i;
    }
    return best;
}

void *mx_cuda_pool_take(mx_cuda_pool *pool, size_t bytes)
{
    const size_t found = choose(pool, bytes);
    if (found != SIZE_MAX) {
        mx_cuda_pool::block &b = pool->blocks[found];
        b.used = true, b.last = pool->part;
        if (!pool->only)
            pool->touched.push_back({b.memory, b.bytes, true});
        return b.memory;
    }
    if (pool->only)
        return mx_fail(MX_ERR_MEMORY, "capture: the call now needs more memory than when it was captured"), nullptr;
    pool->blocks.push_back({nullptr, bytes, pool->part, true});
    void *memory = pool->blocks.back().memory = mx_cuda_alloc(pool->home, bytes);
    if (!memory)
        return pool->blocks.pop_back(), nullptr;
    pool->bytes += bytes;
    pool->touched.push_back({memory, bytes, true});
    return memory;
}

void mx_cuda_pool_give(mx_cuda_pool *pool, void *memory, size_t bytes)
{
    for (mx_cuda_pool::block &block : pool->blocks)
        if (block.memory == memory) {
            block.used = false;
            return;
        }
    mx_cuda_free(pool->home, memory, bytes); /* not from this pool */
}

/* ---- capturing ---------------------------------------------------------------------------------------------------- */

/* Handles must exist before a capture begins, even if nothing has used cuBLAS yet. */
static mx_code prepare_device(mx_cuda_device *home, mx_cuda_device *d)
{
    if (!d->stream) {
        d->id = home->id, d->multiprocessors = home->multiprocessors, d->code = home->code, d->error = home->error;
        if (mx_cuda_fail(cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), "capture"))
            return mx_error_code();
    }
    if (!mx_cuda_blas(home) || !mx_cuda_blas(d) || (home->dnn && !mx_cuda_dnn(d)))
        return mx_error_code();
    return MX_OK;
}

static mx_code begin_capture(mx_capture *r)
{
    capture_device &t = capture_devices[r->home->id];
    t.capturing.lock();
    mx_code code = prepare_device(r->home, &t.device);
    if (!code) {
        t.device.pool = &r->pool;
        mx_cuda_capturing_device = &t.device;
        code = mx_cuda_fail(cudaStreamBeginCapture(t.device.stream, cudaStreamCaptureModeRelaxed), "capture");
    }
    if (code) {
        t.device.pool = nullptr;
        mx_cuda_capturing_device = nullptr;
        t.capturing.unlock();
    }
    return code;
}

/* NULL with an error if something happened that cannot be captured. */
static cudaGraph_t end_capture(mx_capture *r)
{
    capture_device &t = capture_devices[r->home->id];
    cudaGraph_t graph = nullptr;
    const cudaError_t status = cudaStreamEndCapture(t.device.stream, &graph);
    t.device.pool = nullptr;
    mx_cuda_capturing_device = nullptr;
    t.capturing.unlock();
    if (status != cudaSuccess) {
        cudaGetLastError();
        mx_cuda_fail(status, "capture");
        return nullptr;
    }
    return graph;
}

static std::vector<cudaGraphNode_t> nodes_of(cudaGraph_t graph)
{
    size_t n = 0;
    cudaGraphGetNodes(graph, nullptr, &n);
    std::vector<cudaGraphNode_t> nodes(n);
    if (n)
        cudaGraphGetNodes(graph, nodes.data(), &n);
    return nodes;
}

static void free_capture(mx_capture *r)
{
    if (r->ready)
        cudaGraphExecDestroy(r->ready);
    if (r->graph)
        cudaGraphDestroy(r->graph);
    for (const mx_cuda_pool::block &block : r->pool.blocks)
        mx_cuda_free(r->home, block.memory, block.bytes);
    delete r;
}

static mx_capture *begin(mx_context context)
{
    mx_cuda_device *d = mx_cuda_of(context);
    if (!d)
        return nullptr;
    mx_capture *r = new mx_capture{};
    r->home = r->pool.home = d;
    if (!begin_capture(r))
        return r;
    free_capture(r);
    return nullptr;
}

/* The launches since the last mark are one part.  Products of cuBLAS share a workspace. */
static mx_code mark(mx_capture *r, int64_t n, const mx_touch *spans)
{
    mx_cuda_device *d = &capture_devices[r->home->id].device;
    cudaStreamCaptureStatus status;
    cudaGraph_t graph = nullptr;
    if (mx_cuda_fail(cudaStreamGetCaptureInfo(d->stream, &status, nullptr, &graph), "capture"))
        return mx_error_code();
    if (status != cudaStreamCaptureStatusActive)
        return mx_fail(MX_ERR_DEVICE, "capture: a call synchronized with gpu(%d)", r->home->id);
    for (cudaGraphNode_t node : nodes_of(graph))
        if (r->seen.insert(node).second)
            r->nodes.push_back(node);
    r->ends.push_back(r->nodes.size());
    r->spans.emplace_back(spans, spans + n);
    std::vector<mx_touch> &all = r->spans.back();
    all.insert(all.end(), r->pool.touched.begin(), r->pool.touched.end());
    if (d->blas_used)
        all.push_back({d->blas, 1, true});
    d->blas_used = false;
    r->pool.touched.clear();
    r->pool.blocks_of.push_back({});
    for (const mx_cuda_pool::block &block : r->pool.blocks)
        if (block.last == r->pool.part)
            r->pool.blocks_of.back().push_back(block.memory);
    r->pool.part++;
    return MX_OK;
}

static mx_code end(mx_capture *r)
{
    r->graph = end_capture(r);
    if (!r->graph)
        return mx_error_code();
    if ((size_t)r->pool.part != r->ends.size())
        return mx_fail(MX_ERR_MEMORY, "capture: out of memory on the host");
    if (mx_cuda_flow(r, true))
        return mx_error_code();
    if (cudaGraphInstantiate(&r->ready, r->graph, 0) == cudaSuccess)
        return MX_OK;
    cudaGetLastError();
    r->ready = nullptr;
    return mx_cuda_flow(r, false) ? mx_error_code()
                                  : mx_cuda_fail(cudaGraphInstantiate(&r->ready, r->graph, 0), "capture");
}

/* ---- correcting --------------------------------------------------------------------------------------------------- */

/* Only the driver knows the kernels of NVIDIA's libraries, so the driver API is used. */
static mx_code copy_kernel(mx_capture *r, cudaGraphNode_t to, cudaGraphNode_t from)
{
    typedef CUresult (*get_fn)(CUgraphNode, CUDA_KERNEL_NODE_PARAMS *);
    typedef CUresult (*set_fn)(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *);
    static get_fn get = nullptr;
    static set_fn set = nullptr;
    static std::once_flag once;
    std::call_once(once, [] {
        cudaDriverEntryPointQueryResult found;
        cudaGetDriverEntryPointByVersion("cuGraphKernelNodeGetParams", (void **)&get, 12000, cudaEnableDefault, &found);
        cudaGetDriverEntryPointByVersion("cuGraphExecKernelNodeSetParams", (void **)&set, 12000, cudaEnableDefault,
                                         &found);
    });
    CUDA_KERNEL_NODE_PARAMS params;
    if (!get || !set || get(from, &params) || set(r->ready, to, &params))
        return mx_fail(MX_ERR_DEVICE, "capture: the driver cannot update this launch");
    return MX_OK;
}

static cudaError_t copy_transfer(mx_capture *r, cudaGraphNode_t to, cudaGraphNode_t from, cudaGraphNodeType type)
{
    cudaMemcpy3DParms copying = {};
    cudaMemsetParams setting = {};
    if (type == cudaGraphNodeTypeMemset) {
        const cudaError_t status = cudaGraphMemsetNodeGetParams(from, &setting);
        return status ? status : cudaGraphExecMemsetNodeSetParams(r->ready, to, &setting);
    }
    const cudaError_t status = cudaGraphMemcpyNodeGetParams(from, &copying);
    return status ? status : cudaGraphExecMemcpyNodeSetParams(r->ready, to, &copying);
}

static mx_code copy_node(mx_capture *r, cudaGraphNode_t to, cudaGraphNode_t from)
{
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty, type_to = cudaGraphNodeTypeEmpty;
    cudaGraphNodeGetType(from, &type);
    cudaGraphNodeGetType(to, &type_to);
    if (type != type_to)
        return mx_fail(MX_ERR_DEVICE, "capture: the call now launches another kernel");
    if (type == cudaGraphNodeTypeKernel)
        return copy_kernel(r, to, from);
    if (type == cudaGraphNodeTypeMemset || type == cudaGraphNodeTypeMemcpy)
        return mx_cuda_fail(copy_transfer(r, to, from, type), "capture");
    return MX_OK;
}

/* Only the memory that the part had: other parts may use the rest at the same time. */
static mx_code begin_part(mx_capture *r, int part)
{
    r->part = part;
    r->pool.only = true, r->pool.part = part;
    for (mx_cuda_pool::block &block : r->pool.blocks)
        block.last = -1;
    for (void *memory : r->pool.blocks_of[(size_t)part])
        for (mx_cuda_pool::block &block : r->pool.blocks)
            if (block.memory == memory)
                block.last = part;
    return begin_capture(r);
}

/* Updates the graph with the part's current nodes. */
static mx_code copy_part(mx_capture *r, cudaGraph_t graph)
{
    const std::vector<cudaGraphNode_t> nodes = nodes_of(graph);
    const size_t first = r->part ? r->ends[(size_t)r->part - 1] : 0, last = r->ends[(size_t)r->part];
    mx_code code = nodes.size() == last - first
                       ? MX_OK
                       : mx_fail(MX_ERR_DEVICE, "capture: the call now makes another number of launches");
    for (size_t i = 0; !code && i < nodes.size(); i++)
        code = copy_node(r, r->nodes[first + i], nodes[i]);
    return code;
}

static mx_code end_part(mx_capture *r)
{
    cudaGraph_t graph = end_capture(r);
    if (!graph)
        return mx_error_code();
    const std::unique_ptr<CUgraph_st, cudaError_t (*)(cudaGraph_t)> owner(graph, cudaGraphDestroy);
    return copy_part(r, graph);
}

static mx_code run(mx_capture *r)
{
    if (mx_cuda_waiting[r->home->id].load(std::memory_order_acquire) && mx_cuda_launch_waiting(r->home))
        return mx_error_code();
    return mx_cuda_fail(cudaGraphLaunch(r->ready, r->home->stream), "a captured plan");
}

const mx_capturer mx_cuda_capturer = {MX_CUDA_ENTRY(begin),         MX_CUDA_ENTRY(mark),     MX_CUDA_ENTRY(end),
                                      MX_CUDA_ENTRY(begin_part),    MX_CUDA_ENTRY(end_part), MX_CUDA_ENTRY(run),
                                      MX_CUDA_ENTRY(free_capture)};
