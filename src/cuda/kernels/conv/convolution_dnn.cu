/* Convolutions by cuDNN's graphs: one operation, and perhaps an ending (addend, bias, relu).
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

#define MOST_WORKSPACE ((size_t)64 << 20)
#define MOST_CANDIDATES 10 /* engines that are measured */
#define MOST_COMPILED 8    /* the same with an ending: many of them are compiled when they are tried */

namespace
{
using dnn::part;

/* ---- the operation --------------------------------------------------------------------------------------------- */

enum { ID_X = 1, ID_W, ID_Y, ID_BIAS, ID_ADDEND, ID_INNER /* and the following: between operations */ };

/* (first, channels, sizes...), which in memory may have the channels last.  Those between operations are float32 and have no
 * memory. */
static part tensor(const mx_cuda_convolution &s, int64_t id, int64_t first, int64_t channels, const int *sizes)
{
    int64_t dim[5] = {first, channels}, step[5], next = s.last ? channels : 1;
    for (int i = s.axes - 1; i >= 0; i--) {
        dim[2 + i] = sizes[i], step[2 + i] = next;
        next *= sizes[i];
    }
    step[1] = s.last ? 1 : next;
    step[0] = s.last ? next : next * channels;
    part t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    t.type(CUDNN_ATTR_TENSOR_DATA_TYPE, id >= ID_INNER ? CUDNN_DATA_FLOAT : dnn::data_type(s.dtype));
    t.numbers(CUDNN_ATTR_TENSOR_DIMENSIONS, s.axes + 2, dim).numbers(CUDNN_ATTR_TENSOR_STRIDES, s.axes + 2, step);
    t.number(CUDNN_ATTR_TENSOR_UNIQUE_ID, id).number(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, s.aligned);
    if (id >= ID_INNER)
        t.yes(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
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
struct made {
    part x, w, y, geometry, operation, graph;
    std::vector<part> ending; /* tensors, functions and operations after the convolution */
    std::vector<cudnnBackendDescriptor_t> operations;
    dnn::choice choice;
    bool none = false; /* cuDNN has no engine */
};

static int endings(const mx_cuda_convolution &s) { return s.bias + s.addend + (s.relu || s.high); }

/* An operation that computes `to` from `from`, and from `other` if there is one; returns its status. */
static cudnnStatus_t then(made *c, part function, const part &from, const part *other, const part &to)
{
    part operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    function.finish();
    operation.link(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function);
    operation.link(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
    if (other)
        operation.link(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *other);
    operation.link(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to).finish();
    const cudnnStatus_t status = operation.status;
    c->operations.push_back(operation.raw);
    c->ending.push_back(std::move(function));
    c->ending.push_back(std::move(operation));
    return status;
}

static part function(cudnnPointwiseMode_t mode)
{
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    part f(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    f.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    f.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    return f;
}

/* relu, up to a limit */
static part limits(const mx_cuda_convolution &s)
{
    const double low = 0;
    const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
    float high_f;
    memcpy(&high_f, &s.high, sizeof high_f);
    const double high = high_f;
    part f = function(CUDNN_POINTWISE_RELU_FWD);
    f.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
    if (s.high) {
        f.set(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, CUDNN_TYPE_DOUBLE, 1, &low);
        f.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1, &high);
    }
    return f;
}

/* The order in which cuDNN's compiled kernels have them: the addend, the bias, relu. */
static cudnnStatus_t describe_ending(made *c, const mx_cuda_convolution &s)
{
    const int count = endings(s), one[3] = {1, 1, 1};
    std::vector<part> &all = c->ending;
    all.reserve(32); /* parts refer to each other */
    for (int i = 0; i < count; i++)
        all.push_back(tensor(s, ID_INNER + i, s.batch, s.out_channels, s.out));
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    for (int i = 0; i < count && !status; i++) {
        const bool addend = s.addend && i == 0, bias = s.bias && i == s.addend;
        const part &to = i + 1 < count ? all[i + 1] : c->y;
        if (addend)
            all.push_back(tensor(s, ID_ADDEND, s.batch, s.out_channels, s.out));
        else if (bias)
            all.push_back(tensor(s, ID_BIAS, 1, s.out_channels, one));
        const part *other = addend || bias ? &all.back() : nullptr;
        status = then(c, other ? function(CUDNN_POINTWISE_ADD) : limits(s), all[i], other, to);
    }
    return status;
}

static void describe(made *c, cudnnHandle_t handle, const mx_cuda_convolution &s)
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
    c->operations.push_back(nullptr); /* the convolution, once it is complete */
    const cudnnStatus_t ending = endings(s) ? describe_ending(c, s) : CUDNN_STATUS_SUCCESS;
    c->operation = part(n.operation);
    c->operation.link(n.x, c->x).link(n.w, c->w).link(n.y, endings(s) ? c->ending[0] : c->y);
    c->operation.link(n.window, c->geometry).set(n.alpha, scalar, 1, wide ? (const void *)&one : &one_f);
    c->operation.set(n.beta, scalar, 1, wide ? (const void *)&zero : &zero_f).finish();
    if (!c->operation.status)
        c->operation.status = ending;
    c->operations[0] = c->operation.raw;
    c->graph = dnn::graph_of(handle, c->operations);
}

/* ---- choosing -------------------------------------------------------------------------------------------------- */

static cudnnStatus_t choose(made *c, mx_cuda_device *d, const mx_cuda_convolution &s, const dnn::tensors &t)
{
    float time;
    const unsigned coarse = 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
                   cores = s.exact ? 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE : 0;
    const dnn::wishes w = {coarse | cores, 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, MOST_WORKSPACE,
                           endings(s) ? MOST_COMPILED : MOST_CANDIDATES};
    describe(c, d->dnn, s);
    if (c->operation.status || c->graph.status)
        return c->operation.status ? c->operation.status : c->graph.status;
    return dnn::choose(&c->choice, d, c->graph, w, t, &time) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

struct by_bytes {
    bool operator()(const mx_cuda_convolution &a, const mx_cuda_convolution &b) const
    {
        return memcmp(&a, &b, sizeof a) < 0;
    }
};

static const made *choice_for(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_convolution &s,
                              const dnn::tensors &t)
{
    /* Never destroyed: cuDNN is already unloaded when the destructors of the process run. */
    static std::map<mx_cuda_convolution, made, by_bytes> &choices = *new std::map<mx_cuda_convolution, made, by_bytes>;
    const auto known = choices.find(s);
    if (known != choices.end() && (known->second.choice.measured || dnn::capturing(d)))
        return &known->second;
    made next;
    const cudnnStatus_t status = choose(&next, d, s, t);
    next.none = status && endings(s);
    next.choice.measured |= next.none;
    if (!next.none && mx_cuda_dnn_fail(call, status))
        return nullptr;
    made &cached = choices[s];
    cached = std::move(next);
    return &cached;
}

static int alignment(const mx_cuda_convolved &t)
{
    const uintptr_t ending = (uintptr_t)t.bias | (uintptr_t)t.addend;
    const uintptr_t all = (uintptr_t)t.x | (uintptr_t)t.w | (uintptr_t)t.y | ending | 16;
    return (int)(all & (~all + 1));
}

} // namespace

mx_code mx_cuda_convolve(const mx_kernel_call *call, mx_cuda_convolution s, const mx_cuda_convolved &tensors)
{
    std::lock_guard<std::mutex> guard(dnn::lock());
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || !mx_cuda_dnn(d))
        return mx_error_code();
    s.device = d->id, s.aligned = alignment(tensors);
    s.exact = s.dtype == MX_FLOAT32 && !mx_flags_get()->cuda_tf32;
    dnn::tensors t = {{ID_X, ID_W, ID_Y}, {tensors.x, tensors.w, tensors.y}};
    if (tensors.bias)
        t.add(ID_BIAS, tensors.bias);
    if (tensors.addend)
        t.add(ID_ADDEND, tensors.addend);
    const made *found = choice_for(call, d, s, t);
    if (!found)
        return mx_error_code();
    if (found->none)
        return MX_DECLINED;
    const dnn::choice &c = found->choice;
    mx_cuda_scratch workspace(d, c.workspace);
    if (c.workspace && !workspace.memory)
        return mx_error_code();
    return mx_cuda_dnn_fail(call, dnn::execute(d->dnn, c, t, workspace.memory));
}
