/* Convolution by cuDNN: the operator and its two gradients, each bilinear, in one of three directions.
 *
 * Which algorithm is best is asked of cuDNN once per shape.  One spatial axis becomes two, the first of size 1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cudnn.h>

#include <array>
#include <map>
#include <mutex>

#include "cuda/kernels/gemm.h"

enum direction { FORWARD, DATA, WEIGHT };

/* Geometry as the attribute structs of all convolution operators begin with it. */
struct geometry {
    mx_dims kernel, stride, dilate, pad;
};

/* Everything that an algorithm depends on; also the key of what was chosen. */
struct shape {
    int axes, dtype, groups, last, direction;
    int batch, in_channels, out_channels;
    int in[3], out[3], kernel[3], stride[3], dilate[3], pad[3];
    std::array<int, 26> key() const
    {
        std::array<int, 26> k = {axes, dtype, groups, last, direction, batch, in_channels, out_channels};
        for (int i = 0; i < 3; i++) {
            const int part[6] = {in[i], out[i], kernel[i], stride[i], dilate[i], pad[i]};
            for (int j = 0; j < 6; j++)
                k[8 + 6 * i + j] = part[j];
        }
        return k;
    }
};

static mx_code dnn_fail(const mx_kernel_call *call, cudnnStatus_t status)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return MX_OK;
    return mx_op_fail(call->op, MX_ERR_DEVICE, "cuDNN: %s", cudnnGetErrorString(status));
}

static std::mutex lock;

static cudnnHandle_t dnn_of(mx_cuda_device *d)
{
    if (d->dnn)
        return d->dnn;
    cudnnHandle_t handle;
    if (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS)
        return mx_fail(MX_ERR_DEVICE, "gpu(%d): cuDNN could not be started", d->id), nullptr;
    cudnnSetStream(handle, d->stream);
    return d->dnn = handle;
}

/* ---- descriptors ----------------------------------------------------------------------------------------------- */

/* What is made when a shape comes for the first time, and kept. */
struct plan {
    cudnnTensorDescriptor_t x, y, bias;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t convolution;
    int algorithm;
    size_t workspace;
};

static cudnnDataType_t data_type(int dtype)
{
    return dtype == MX_FLOAT64    ? CUDNN_DATA_DOUBLE
           : dtype == MX_FLOAT16  ? CUDNN_DATA_HALF
           : dtype == MX_BFLOAT16 ? CUDNN_DATA_BFLOAT16
                                  : CUDNN_DATA_FLOAT;
}

static cudnnStatus_t describe_tensor(cudnnTensorDescriptor_t *t, const shape &s, int batch, int channels, const int *sizes)
{
    int dim[5] = {batch, channels};
    cudnnStatus_t status = cudnnCreateTensorDescriptor(t);
    for (int i = 0; i < s.axes; i++)
        dim[2 + i] = sizes[i];
    return status ? status
                  : cudnnSetTensorNdDescriptorEx(*t, s.last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, data_type(s.dtype),
                                                 s.axes + 2, dim);
}

static cudnnStatus_t describe_filter(cudnnFilterDescriptor_t *w, const shape &s)
{
    int dim[5] = {s.out_channels, s.in_channels / s.groups};
    cudnnStatus_t status = cudnnCreateFilterDescriptor(w);
    for (int i = 0; i < s.axes; i++)
        dim[2 + i] = s.kernel[i];
    return status ? status
                  : cudnnSetFilterNdDescriptor(*w, data_type(s.dtype), s.last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                               s.axes + 2, dim);
}

static cudnnStatus_t describe_convolution(cudnnConvolutionDescriptor_t *c, const shape &s)
{
    cudnnStatus_t status = cudnnCreateConvolutionDescriptor(c);
    const cudnnDataType_t compute = s.dtype == MX_FLOAT64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    const bool exact = s.dtype == MX_FLOAT32 && !mx_flags_get()->cuda_tf32;
    if (!status)
        status = cudnnSetConvolutionNdDescriptor(*c, s.axes, s.pad, s.stride, s.dilate, CUDNN_CROSS_CORRELATION, compute);
    if (!status)
        status = cudnnSetConvolutionMathType(*c, exact ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH);
    return status ? status : cudnnSetConvolutionGroupCount(*c, s.groups);
}

static cudnnStatus_t choose(cudnnHandle_t handle, const shape &s, plan *p)
{
    int found = 0;
    cudnnStatus_t status;
    if (s.direction == FORWARD) {
        cudnnConvolutionFwdAlgoPerf_t best;
        status = cudnnGetConvolutionForwardAlgorithm_v7(handle, p->x, p->w, p->convolution, p->y, 1, &found, &best);
        p->algorithm = best.algo, p->workspace = best.memory;
    } else if (s.direction == DATA) {
        cudnnConvolutionBwdDataAlgoPerf_t best;
        status = cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, p->w, p->y, p->convolution, p->x, 1, &found, &best);
        p->algorithm = best.algo, p->workspace = best.memory;
    } else {
        cudnnConvolutionBwdFilterAlgoPerf_t best;
        status = cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, p->x, p->y, p->convolution, p->w, 1, &found, &best);
        p->algorithm = best.algo, p->workspace = best.memory;
    }
    return status ? status : found ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

static mx_code make_plan(const mx_kernel_call *call, cudnnHandle_t handle, const shape &s, plan *p)
{
    const int ones[3] = {1, 1, 1};
    cudnnStatus_t status = describe_tensor(&p->x, s, s.batch, s.in_channels, s.in);
    status = status ? status : describe_tensor(&p->y, s, s.batch, s.out_channels, s.out);
    status = status ? status : describe_tensor(&p->bias, s, 1, s.out_channels, ones);
    status = status ? status : describe_filter(&p->w, s);
    status = status ? status : describe_convolution(&p->convolution, s);
    return dnn_fail(call, status ? status : choose(handle, s, p));
}

/* Plans are few (shapes of layers) and live as long as the process. */
static const plan *plan_for(const mx_kernel_call *call, mx_cuda_device *d, const shape &s)
{
    static std::map<std::pair<int, std::array<int, 26>>, plan> plans;
    const auto key = std::make_pair(d->id, s.key());
    const auto known = plans.find(key);
    if (known != plans.end())
        return &known->second;
    plan made = {};
    if (make_plan(call, d->dnn, s, &made))
        return nullptr;
    return &(plans[key] = made);
}

/* ---- running --------------------------------------------------------------------------------------------------- */

static int at(const mx_dims *dims, int i, int fallback) { return dims->n > i ? (int)dims->d[i] : fallback; }

/* x: the wide side (data), y: the convolved side. */
static shape shape_of(const geometry *g, int64_t groups, int layout, const mx_array *x, const mx_array *y, direction direction)
{
    const bool last = layout >= MX_CONVOLUTION_NWC;
    const int axes = g->kernel.n, first = last ? 1 : 2, channel = last ? axes + 1 : 1, lead = axes == 1;
    shape s = {};
    s.axes = axes + lead, s.dtype = y->dtype, s.groups = (int)groups, s.last = last, s.direction = direction;
    s.batch = (int)x->shape[0], s.in_channels = (int)x->shape[channel], s.out_channels = (int)y->shape[channel];
    if (lead)
        s.in[0] = s.out[0] = s.kernel[0] = s.stride[0] = s.dilate[0] = 1;
    for (int i = 0; i < axes; i++) {
        s.in[lead + i] = (int)x->shape[first + i], s.out[lead + i] = (int)y->shape[first + i];
        s.kernel[lead + i] = (int)g->kernel.d[i], s.stride[lead + i] = at(&g->stride, i, 1);
        s.dilate[lead + i] = at(&g->dilate, i, 1), s.pad[lead + i] = at(&g->pad, i, 0);
    }
    return s;
}

static cudnnStatus_t run_direction(cudnnHandle_t handle, const shape &s, const plan *p, const void *a, const void *b,
                                   void *out, void *workspace)
{
    const double one = 1, zero = 0;
    const float one_f = 1, zero_f = 0;
    const bool wide = s.dtype == MX_FLOAT64;
    const void *alpha = wide ? (const void *)&one : &one_f, *beta = wide ? (const void *)&zero : &zero_f;
    switch (s.direction) {
    case FORWARD:
        return cudnnConvolutionForward(handle, alpha, p->x, a, p->w, b, p->convolution,
                                       (cudnnConvolutionFwdAlgo_t)p->algorithm, workspace, p->workspace, beta, p->y, out);
    case DATA:
        return cudnnConvolutionBackwardData(handle, alpha, p->w, b, p->y, a, p->convolution,
                                            (cudnnConvolutionBwdDataAlgo_t)p->algorithm, workspace, p->workspace, beta,
                                            p->x, out);
    default:
        return cudnnConvolutionBackwardFilter(handle, alpha, p->x, a, p->y, b, p->convolution,
                                              (cudnnConvolutionBwdFilterAlgo_t)p->algorithm, workspace, p->workspace,
                                              beta, p->w, out);
    }
}

static mx_code run(const mx_kernel_call *call, const shape &s)
{
    const mx_array *a = call->in[0], *b = call->in[1];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!mx_dtype_is_float(a->dtype) || a->dtype != b->dtype)
        return MX_DECLINED;
    if (!d)
        return mx_error_code();
    if (!a->size || !b->size || !call->out[0]->size)
        return mx_cuda_fail(cudaMemsetAsync(mx_data(call->out[0]), 0, mx_bytes(call->out[0]), d->stream), call->op->name);
    std::lock_guard<std::mutex> guard(lock); /* a handle serves one thread at a time */
    const plan *p = dnn_of(d) ? plan_for(call, d, s) : nullptr;
    if (!p)
        return mx_error_code();
    mx_cuda_scratch workspace(d, p->workspace);
    if (p->workspace && !workspace.memory)
        return mx_error_code();
    return dnn_fail(call, run_direction(d->dnn, s, p, mx_data(a), mx_data(b), mx_data(call->out[0]), workspace.memory));
}

static mx_code finish(const mx_kernel_call *call, const mx_array *bias, mx_array *out, bool last, bool relu)
{
    const int64_t channels = bias ? bias->size : 1;
    const int64_t inner = last || !bias || !out->size ? 1 : out->size / (out->shape[0] * channels);
    return mx_cuda_bias_relu(call, out, bias, channels, inner, relu);
}

static mx_code run_forward(const mx_kernel_call *call, bool relu)
{
    const mx_convolution_attrs *a = (const mx_convolution_attrs *)call->attrs;
    const shape s = shape_of((const geometry *)a, a->num_group, a->layout, call->in[0], call->out[0], FORWARD);
    const mx_code code = run(call, s);
    return code ? code : finish(call, a->no_bias || mx_is_none(call->in[2]) ? nullptr : call->in[2], call->out[0], s.last, relu);
}
static mx_code run_convolution(const mx_kernel_call *call) { return run_forward(call, false); }
static mx_code run_convolution_relu(const mx_kernel_call *call) { return run_forward(call, true); }

static mx_code run_data_grad(const mx_kernel_call *call)
{
    const mx_conv_gradient_attrs *a = (const mx_conv_gradient_attrs *)call->attrs;
    return run(call, shape_of((const geometry *)a, a->num_group, a->layout, call->out[0], call->in[0], DATA));
}

static mx_code run_weight_grad(const mx_kernel_call *call)
{
    const mx_conv_gradient_attrs *a = (const mx_conv_gradient_attrs *)call->attrs;
    return run(call, shape_of((const geometry *)a, a->num_group, a->layout, call->in[0], call->in[1], WEIGHT));
}

/* The gradient of the bias: dy summed over everything but channels, by a block per channel. */
static mx_code bias_grad(const mx_kernel_call *call, const mx_array *dy, mx_array *db, bool last)
{
    const int64_t channels = db->size, inner = last ? 1 : dy->size / ((dy->shape[0] ? dy->shape[0] : 1) * (channels ? channels : 1));
    const int64_t each = channels ? dy->size / channels : 0;
    const void *g = mx_data(dy);
    void *sum = mx_data(db);
    const int type = dy->dtype;
    return mx_cuda_rows(call, channels, each, [=] __device__(int64_t c) {
        double mine = 0;
        for (int64_t i = threadIdx.x; i < each; i += blockDim.x)
            mine += mx_cuda_load<double>(g, type, (i / inner * channels + c) * inner + i % inner);
        const double total = mx_cuda_block_sum(mine);
        if (!threadIdx.x)
            mx_cuda_store<double>(sum, type, c, total);
    });
}

static mx_code run_weight_bias_grad(const mx_kernel_call *call)
{
    const mx_conv_gradient_attrs *a = (const mx_conv_gradient_attrs *)call->attrs;
    const mx_code code = run_weight_grad(call);
    return code ? code : bias_grad(call, call->in[1], call->out[1], a->layout >= MX_CONVOLUTION_NWC);
}

/* The pad that the inferred output size implies (target_shape and adj went into it). */
static geometry deconvolution_geometry(const mx_deconvolution_attrs *a, const mx_array *x, const mx_array *out)
{
    geometry g = {a->kernel, a->stride, a->dilate, a->pad};
    const int first = a->layout >= MX_CONVOLUTION_NWC ? 1 : 2;
    g.pad.n = a->kernel.n;
    for (int i = 0; i < a->kernel.n; i++) {
        g.pad.d[i] = at(&a->pad, i, 0);
        if (a->target_shape.n > i && a->target_shape.d[i] > 0) {
            const int64_t full = at(&a->stride, i, 1) * (x->shape[first + i] - 1) + at(&a->dilate, i, 1) * (a->kernel.d[i] - 1) + 1;
            g.pad.d[i] = (full - out->shape[first + i] + 1) / 2;
        }
    }
    return g;
}

static mx_code run_deconvolution(const mx_kernel_call *call)
{
    const mx_deconvolution_attrs *a = (const mx_deconvolution_attrs *)call->attrs;
    const geometry g = deconvolution_geometry(a, call->in[0], call->out[0]);
    const shape s = shape_of(&g, a->num_group, a->layout, call->out[0], call->in[0], DATA);
    const mx_code code = run(call, s);
    return code ? code : finish(call, a->no_bias || mx_is_none(call->in[2]) ? nullptr : call->in[2], call->out[0], s.last, false);
}

MX_CUDA_KERNELS(convolution) = {{"Convolution", run_convolution, NULL},
                                {"_convolution_relu", run_convolution_relu, NULL},
                                {"_conv_data_grad", run_data_grad, NULL},
                                {"_conv_weight_grad", run_weight_grad, NULL},
                                {"_conv_weight_bias_grad", run_weight_bias_grad, NULL},
                                {"Deconvolution", run_deconvolution, NULL},
                                {NULL, NULL, NULL}};
