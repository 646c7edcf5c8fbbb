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

#define MOST_WORKSPACE ((size_t)64 << 20)
#define MOST_CANDIDATES 10 /* engines that are measured */

namespace
{
using dnn::part;

/* ---- the operation --------------------------------------------------------------------------------------------- */

enum { ID_X = 1, ID_W, ID_Y };

/* (first, channels, sizes...), which in memory may have the channels last. */
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
    t.type(CUDNN_ATTR_TENSOR_DATA_TYPE, dnn::data_type(s.dtype));
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
struct made {
    part x, w, y, geometry, operation, graph;
    dnn::choice choice;
};

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
    c->operation = part(n.operation);
    c->operation.link(n.x, c->x).link(n.w, c->w).link(n.y, c->y).link(n.window, c->geometry);
    c->operation.set(n.alpha, scalar, 1, wide ? (const void *)&one : &one_f);
    c->operation.set(n.beta, scalar, 1, wide ? (const void *)&zero : &zero_f).finish();
    c->graph = dnn::graph_of(handle, {c->operation.raw});
}

/* ---- choosing -------------------------------------------------------------------------------------------------- */

static cudnnStatus_t choose(made *c, mx_cuda_device *d, const mx_cuda_convolution &s, const dnn::tensors &t)
{
    float time;
    const unsigned coarse = 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
                   cores = s.exact ? 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE : 0;
    const dnn::wishes w = {coarse | cores, 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, MOST_WORKSPACE,
                           MOST_CANDIDATES};
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

static const dnn::choice *choice_for(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_convolution &s,
                                     const dnn::tensors &t)
{
    /* Never destroyed: cuDNN is already unloaded when the destructors of the process run. */
    static std::map<mx_cuda_convolution, made, by_bytes> &choices = *new std::map<mx_cuda_convolution, made, by_bytes>;
    const auto known = choices.find(s);
    if (known != choices.end() && (known->second.choice.measured || dnn::capturing(d)))
        return &known->second.choice;
    made next;
    if (mx_cuda_dnn_fail(call, choose(&next, d, s, t)))
        return nullptr;
    made &cached = choices[s];
    cached = std::move(next);
    return &cached.choice;
}

static int alignment(const mx_cuda_convolved &t)
{
    const uintptr_t all = (uintptr_t)t.x | (uintptr_t)t.w | (uintptr_t)t.y | 16;
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
    const dnn::tensors t = {{ID_X, ID_W, ID_Y}, {tensors.x, tensors.w, tensors.y}};
    const dnn::choice *c = choice_for(call, d, s, t);
    if (!c)
        return mx_error_code();
    mx_cuda_scratch workspace(d, c->workspace);
    if (c->workspace && !workspace.memory)
        return mx_error_code();
    return mx_cuda_dnn_fail(call, dnn::execute(d->dnn, *c, t, workspace.memory));
}
