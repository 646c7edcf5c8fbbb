/* cuDNN's graphs: choosing among the engines that can run one, and running it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/dnn.h"

#define MOST_ENGINES 64 /* engines that are looked at */
#define RUNS 3          /* that are timed together */
#define MUCH ((size_t)16 << 20)

mx_code mx_cuda_dnn_fail(const mx_kernel_call *call, cudnnStatus_t status)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return MX_OK;
    return mx_op_fail(call->op, MX_ERR_DEVICE, "cuDNN: %s", cudnnGetErrorString(status));
}

namespace dnn
{
std::mutex &lock()
{
    static std::mutex one;
    return one;
}

cudnnDataType_t data_type(int dtype)
{
    return dtype == MX_FLOAT64    ? CUDNN_DATA_DOUBLE
           : dtype == MX_FLOAT16  ? CUDNN_DATA_HALF
           : dtype == MX_BFLOAT16 ? CUDNN_DATA_BFLOAT16
                                  : CUDNN_DATA_FLOAT;
}

part graph_of(cudnnHandle_t handle, const std::vector<cudnnBackendDescriptor_t> &operations)
{
    part graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, (int64_t)operations.size(),
              operations.data());
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle).finish();
    return graph;
}

/* ---- engines --------------------------------------------------------------------------------------------------- */

static std::vector<part> engines(const part &graph, cudnnBackendHeurMode_t mode)
{
    std::vector<part> found;
    cudnnBackendDescriptor_t raw[MOST_ENGINES];
    part list(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    list.link(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    list.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode).finish();
    for (int i = 0; i < MOST_ENGINES; i++) {
        found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        raw[i] = found.back().raw;
    }
    found.resize((size_t)list.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_ENGINES, raw));
    return found;
}

/* The engine's numerical notes, as bits. */
static unsigned notes_of(const part &config)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    part engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    unsigned bits = 0;
    if (!config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &engine.raw))
        return 0;
    const int64_t count =
        engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, notes);
    for (int64_t i = 0; i < count; i++)
        bits |= 1u << notes[i];
    return bits;
}

static part plan_of(cudnnHandle_t handle, const part &config)
{
    part plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    plan.link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config).finish();
    return plan;
}

/* Few sizes, so that few blocks are cached for the next call. */
static size_t workspace_of(const part &plan)
{
    int64_t bytes = 0;
    plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
    size_t size = (size_t)1 << 20;
    while (size < (size_t)bytes && size < MUCH)
        size *= 4;
    return bytes <= 0 ? 0 : size < MUCH ? size : ((size_t)bytes + MUCH - 1) / MUCH * MUCH;
}

cudnnStatus_t execute(cudnnHandle_t handle, const choice &c, const tensors &t, void *workspace)
{
    part pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, (int64_t)t.ids.size(), t.ids.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, (int64_t)t.data.size(), t.data.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace).finish();
    return pack.status ? pack.status : cudnnBackendExecute(handle, c.plan.raw, pack.raw);
}

/* ---- choosing -------------------------------------------------------------------------------------------------- */

float timed(mx_cuda_device *d, const std::function<bool()> &run)
{
    cudaEvent_t start, end;
    float milliseconds = -1;
    if (run())
        return -1;
    cudaEventCreate(&start), cudaEventCreate(&end);
    cudaEventRecord(start, d->stream);
    for (int i = 0; i < RUNS; i++)
        run();
    cudaEventRecord(end, d->stream);
    if (cudaEventSynchronize(end) != cudaSuccess || cudaEventElapsedTime(&milliseconds, start, end) != cudaSuccess)
        milliseconds = -1;
    cudaEventDestroy(start), cudaEventDestroy(end);
    return milliseconds < 0 ? -1 : milliseconds / RUNS;
}

bool capturing(mx_cuda_device *d)
{
    cudaStreamCaptureStatus status;
    return cudaStreamIsCapturing(d->stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

/* The fastest of the first engines of a list, or the first one that works; its plan is in c->plan, if there is one. */
static void try_engines(choice *c, mx_cuda_device *d, const part &graph, cudnnBackendHeurMode_t mode, unsigned wrong,
                        const wishes &w, const tensors &t, float *best)
{
    const bool measure = !capturing(d);
    int tried = 0;
    for (part &config : engines(graph, mode)) {
        if (tried == w.candidates || (tried && !measure))
            break;
        choice next;
        if (!(notes_of(config) & wrong))
            next.plan = plan_of(d->dnn, config);
        next.config = std::move(config);
        next.workspace = next.plan.status ? 0 : workspace_of(next.plan);
        if (next.plan.status || next.workspace > w.most_workspace)
            continue;
        mx_cuda_scratch room(d, next.workspace);
        const float time = !measure ? 0
                           : next.workspace && !room.memory
                               ? -1
                               : timed(d, [&] { return execute(d->dnn, next, t, room.memory) != 0; });
        if (time < 0)
            continue;
        tried++;
        if (*best < 0 || time < *best)
            *best = time, *c = std::move(next);
    }
}

bool choose(choice *c, mx_cuda_device *d, const part &graph, const wishes &w, const tensors &t, float *milliseconds)
{
    float best = -1;
    for (int round = 0; !graph.status && round < 4 && c->plan.status; round++)
        try_engines(c, d, graph, round % 2 ? CUDNN_HEUR_MODE_FALLBACK : CUDNN_HEUR_MODE_A,
                    w.never | (round < 2 ? w.rather_not : 0), w, t, &best);
    c->measured = !capturing(d);
    *milliseconds = best;
    return !c->plan.status;
}
} // namespace dnn
