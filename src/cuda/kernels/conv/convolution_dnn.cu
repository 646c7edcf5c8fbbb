/* Convolutions by cuDNN's graphs of one operation.
 *
 *     geometry -> operation -> cuDNN's list of engines, the likeliest first -> the fastest of the first few, measured
 *
 * Choices are cached for the life of the process, keyed by the geometry.  Nothing can be measured while launches are
 * captured: then the first engine that works is used, and the choice is made later.  Engines of lower precision than
 * requested are skipped, and so are nondeterministic ones if there are others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/conv/convolution_dnn.h"

#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#define MOST_WORKSPACE ((size_t)64 << 20)
#define MOST_CANDIDATES 10 /* engines that are measured */
#define MOST_ENGINES 64    /* engines that are looked at */

mx_code mx_cuda_dnn_fail(const mx_kernel_call *call, cudnnStatus_t status)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return MX_OK;
    return mx_op_fail(call->op, MX_ERR_DEVICE, "cuDNN: %s", cudnnGetErrorString(status));
}

namespace
{

/* ---- descriptors ----------------------------------------------------------------------------------------------- */

/* One descriptor of cuDNN's; the first failure stays in `status` and makes the rest do nothing. */
class part
{
  public:
    cudnnBackendDescriptor_t raw = nullptr;
    cudnnStatus_t status = CUDNN_STATUS_NOT_INITIALIZED;

    part() {}
    explicit part(cudnnBackendDescriptorType_t type) { status = cudnnBackendCreateDescriptor(type, &raw); }
    part(part &&other) : raw(other.raw), status(other.status) { other.raw = nullptr; }
    part &operator=(part &&other)
    {
        std::swap(raw, other.raw), std::swap(status, other.status);
        return *this;
    }
    ~part()
    {
        if (raw)
            cudnnBackendDestroyDescriptor(raw);
    }
    part &set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void *value)
    {
        if (!status)
            status = cudnnBackendSetAttribute(raw, name, type, count, value);
        return *this;
    }
    part &numbers(cudnnBackendAttributeName_t name, int64_t count, const int64_t *value)
    {
        return set(name, CUDNN_TYPE_INT64, count, value);
    }
    part &number(cudnnBackendAttributeName_t name, int64_t value) { return numbers(name, 1, &value); }
    part &link(cudnnBackendAttributeName_t name, const part &other)
    {
        if (!status)
            status = other.status;
        return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.raw);
    }
    part &finish()
    {
        if (!status)
            status = cudnnBackendFinalize(raw);
        return *this;
    }
    int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t room, void *value) const
    {
        int64_t count = 0;
        return status || cudnnBackendGetAttribute(raw, name, type, room, &count, value) ? 0 : count;
    }
};

/* ---- the operation --------------------------------------------------------------------------------------------- */

enum { ID_X = 1, ID_W, ID_Y };

static cudnnDataType_t data_type(int dtype)
{
    return dtype == MX_FLOAT64    ? CUDNN_DATA_DOUBLE
           : dtype == MX_FLOAT16  ? CUDNN_DATA_HALF
           : dtype == MX_BFLOAT16 ? CUDNN_DATA_BFLOAT16
                                  : CUDNN_DATA_FLOAT;
}

/* (first, channels, sizes...), which in memory may have the channels last. */
static part tensor(const mx_cuda_convolution &s, int64_t id, int64_t first, int64_t channels, const int *sizes)
{
    int64_t dim[5] = {first, channels}, step[5], next = s.last ? channels : 1;
    const cudnnDataType_t type = data_type(s.dtype);
    for (int i = s.axes - 1; i >= 0; i--) {
        dim[2 + i] = sizes[i], step[2 + i] = next;
        next *= sizes[i];
    }
    step[1] = s.last ? 1 : next;
    step[0] = s.last ? next : next * channels;
    part t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    t.numbers(CUDNN_ATTR_TENSOR_DIMENSIONS, s.axes + 2, dim).numbers(CUDNN_ATTR_TENSOR_STRIDES, s.axes + 2, step);
    t.number(CUDNN_ATTR_TENSOR_UNIQUE_ID, id).number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, s.aligned);
    t.finish();
    return t;
}

static part window(const mx_cuda_convolution &s)
{
    int64_t pad[3], stride[3], dilate[3];
    const cudnnDataType_t compute = s.dtype == MX_FLOAT64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    for (int i = 0; i < s.axes; i++)
        pad[i] = s.pad[i], stride[i] = s.stride[i], dilate[i] = s.dilate[i];
    part c(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    c.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    c.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    c.number(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, s.axes);
    c.numbers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, s.axes, pad)
        .numbers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, s.axes, pad);
    c.numbers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, s.axes, stride)
        .numbers(CUDNN_ATTR_CONVOLUTION_DILATIONS, s.axes, dilate);
    c.finish();
    return c;
}

/* The names of one operation's attributes, by direction. */
static const struct {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t x, w, y, window, alpha, beta;
} names[] = {{CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
             {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
             {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

/* Descriptors that refer to each other, and the plan made from them; they live as long as the choice. */
struct choice {
    part x, w, y, geometry, operation, graph, config, plan;
    size_t workspace = 0;
    bool measured = false;
};

static void describe(choice *c, cudnnHandle_t handle, const mx_cuda_convolution &s)
{
    const auto &n = names[s.direction];
    const double one = 1, zero = 0;
    const float one_f = 1, zero_f = 0;
    const bool wide = s.dtype == MX_FLOAT64;
    const cudnnBackendAttributeType_t scalar = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
    c->x = tensor(s, ID_X, s.batch, s.in_channels, s.in);
    c->w = tensor(s, ID_W, s.out_channels, s.in_channels / s.groups, s.kernel);
    c->y = tensor(s, ID_Y, s.batch, s.out_channels, s.out);
    c->geometry = window(s);
    c->operation = part(n.operation);
    c->operation.link(n.x, c->x).link(n.w, c->w).link(n.y, c->y).link(n.window, c->geometry);
    c->operation.set(n.alpha, scalar, 1, wide ? (const void *)&one : &one_f);
    c->operation.set(n.beta, scalar, 1, wide ? (const void *)&zero : &zero_f).finish();
    c->graph = part(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    c->graph.link(CUDNN_ATTR_OPERATIONGRAPH_OPS, c->operation);
    c->graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle).finish();
}

/* ---- engines --------------------------------------------------------------------------------------------------- */

static std::vector<part> engines(const choice &c, cudnnBackendHeurMode_t mode)
{
    std::vector<part> found;
    cudnnBackendDescriptor_t raw[MOST_ENGINES];
    part list(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    list.link(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, c.graph);
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

static bool suits(const mx_cuda_convolution &s, const part &config, bool strict)
{
    unsigned wrong = 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    if (strict)
        wrong |= 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    if (s.exact)
        wrong |= 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    return !(notes_of(config) & wrong);
}

static part plan_of(cudnnHandle_t handle, const part &config)
{
    part plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    plan.link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config).finish();
    return plan;
}

static size_t workspace_of(const part &plan)
{
    int64_t bytes = 0;
    plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
    return (size_t)bytes;
}

static cudnnStatus_t execute(cudnnHandle_t handle, const part &plan, const mx_cuda_convolved &t, void *workspace)
{
    const int64_t ids[3] = {ID_X, ID_W, ID_Y};
    const void *data[3] = {t.x, t.w, t.y};
    part pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 3, ids);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, data);
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace).finish();
    return pack.status ? pack.status : cudnnBackendExecute(handle, plan.raw, pack.raw);
}

/* ---- choosing -------------------------------------------------------------------------------------------------- */

/* Milliseconds of three runs; negative: it does not run. */
static float timed(mx_cuda_device *d, const part &plan, const mx_cuda_convolved &t, void *workspace)
{
    cudaEvent_t start, end;
    float milliseconds = -1;
    if (execute(d->dnn, plan, t, workspace))
        return -1;
    cudaEventCreate(&start), cudaEventCreate(&end);
    cudaEventRecord(start, d->stream);
    for (int i = 0; i < 3; i++)
        execute(d->dnn, plan, t, workspace);
    cudaEventRecord(end, d->stream);
    if (cudaEventSynchronize(end) != cudaSuccess || cudaEventElapsedTime(&milliseconds, start, end) != cudaSuccess)
        milliseconds = -1;
    cudaEventDestroy(start), cudaEventDestroy(end);
    return milliseconds;
}

static bool capturing(mx_cuda_device *d)
{
    cudaStreamCaptureStatus status;
    return cudaStreamIsCapturing(d->stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

/* Few sizes, so that few blocks are cached for the next call. */
static size_t workspace_class(size_t bytes)
{
    size_t size = (size_t)1 << 20;
    while (size < bytes)
        size *= 4;
    return bytes ? size : 0;
}

/* The fastest of the first engines of a list, or the first one that works; its plan is in c->plan, if there is one. */
static void try_engines(choice *c, mx_cuda_device *d, const mx_cuda_convolution &s, const mx_cuda_convolved &t,
                        cudnnBackendHeurMode_t mode, bool strict, bool measure)
{
    float best = -1;
    int tried = 0;
    for (part &config : engines(*c, mode)) {
        if (tried == MOST_CANDIDATES || (tried && !measure))
            break;
        part plan = suits(s, config, strict) ? plan_of(d->dnn, config) : part();
        const size_t workspace = plan.status ? 0 : workspace_class(workspace_of(plan));
        if (plan.status || workspace > MOST_WORKSPACE)
            continue;
        mx_cuda_scratch room(d, workspace);
        const float time = !measure ? 0 : workspace && !room.memory ? -1 : timed(d, plan, t, room.memory);
        if (time < 0)
            continue;
        tried++;
        if (best < 0 || time < best)
            best = time, c->plan = std::move(plan), c->config = std::move(config), c->workspace = workspace;
    }
}

static cudnnStatus_t choose(choice *c, mx_cuda_device *d, const mx_cuda_convolution &s, const mx_cuda_convolved &t,
                            bool measure)
{
    describe(c, d->dnn, s);
    if (c->graph.status)
        return c->graph.status;
    for (int round = 0; round < 4 && c->plan.status; round++)
        try_engines(c, d, s, t, round % 2 ? CUDNN_HEUR_MODE_FALLBACK : CUDNN_HEUR_MODE_A, round < 2, measure);
    c->measured = measure;
    return c->plan.status ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

struct by_bytes {
    bool operator()(const mx_cuda_convolution &a, const mx_cuda_convolution &b) const
    {
        return memcmp(&a, &b, sizeof a) < 0;
    }
};

static const choice *choice_for(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_convolution &s,
                                const mx_cuda_convolved &t)
{
    /* Never destroyed: cuDNN is already unloaded when the destructors of the process run. */
    static std::map<mx_cuda_convolution, choice, by_bytes> &choices =
        *new std::map<mx_cuda_convolution, choice, by_bytes>;
    const bool measure = !capturing(d);
    const auto known = choices.find(s);
    if (known != choices.end() && (known->second.measured || !measure))
        return &known->second;
    choice made;
    if (mx_cuda_dnn_fail(call, choose(&made, d, s, t, measure)))
        return nullptr;
    choice &cached = choices[s];
    cached = std::move(made);
    return &cached;
}

static int alignment(const mx_cuda_convolved &t)
{
    const uintptr_t all = (uintptr_t)t.x | (uintptr_t)t.w | (uintptr_t)t.y | 16;
    return (int)(all & (~all + 1));
}

} // namespace

mx_code mx_cuda_convolve(const mx_kernel_call *call, mx_cuda_convolution s, const mx_cuda_convolved &tensors)
{
    static std::mutex lock; /* a handle serves one thread at a time */
    std::lock_guard<std::mutex> guard(lock);
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || !mx_cuda_dnn(d))
        return mx_error_code();
    s.device = d->id, s.aligned = alignment(tensors);
    s.exact = s.dtype == MX_FLOAT32 && !mx_flags_get()->cuda_tf32;
    const choice *c = choice_for(call, d, s, tensors);
    if (!c)
        return mx_error_code();
    mx_cuda_scratch workspace(d, c->workspace);
    if (c->workspace && !workspace.memory)
        return mx_error_code();
    return mx_cuda_dnn_fail(call, execute(d->dnn, c->plan, tensors, workspace.memory));
}
