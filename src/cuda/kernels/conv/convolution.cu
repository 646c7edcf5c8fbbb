/* Convolution by cuDNN: the operator and its two gradients, each bilinear, in one of three directions.
 *
 * convolution_dnn.cu chooses the algorithm.  One spatial axis becomes two, the first of size 1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/norm/channels.h"
#include "cuda/kernels/conv/convolution_depthwise.h"
#include "cuda/kernels/conv/convolution_dnn.h"
#include "cuda/kernels/conv/convolution_finish.h"
#include "cuda/kernels/conv/convolution_fused.h"
#include "cuda/kernels/conv/convolution_small.h"
#include "cuda/kernels/conv/convolution_stem.h"

namespace
{

/* The attribute structs of all convolution operators begin with this geometry. */
struct geometry {
    mx_dims kernel, stride, dilate, pad;
};

static int at(const mx_dims *dims, int i, int fallback) { return dims->n > i ? (int)dims->d[i] : fallback; }

/* x: the wide side (data), y: the convolved side. */
static mx_cuda_convolution shape_of(const geometry *g, int64_t groups, int layout, const mx_array *x, const mx_array *y,
                                    int direction)
{
    const bool last = layout >= MX_CONVOLUTION_NWC;
    const int axes = g->kernel.n, first = last ? 1 : 2, channel = last ? axes + 1 : 1, lead = axes == 1;
    mx_cuda_convolution s = {};
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

static mx_code bias_grad(const mx_kernel_call *call, const mx_array *dy, mx_array *db, bool last);

/* The kernels that have an ending inside, or make the sums as well. */
static mx_code run_joined(const mx_kernel_call *call, const mx_cuda_convolution &s, const mx_cuda_convolved &t,
                          const mx_cuda_ending &e, mx_array *sums)
{
    mx_code code = sums ? MX_DECLINED : mx_cuda_convolve_depthwise(call, s, t, e);
    if (code == MX_DECLINED && e.simple())
        code = mx_cuda_convolve_small(call, s, t, e.bias, e.relu(), sums);
    if (code == MX_DECLINED && !sums)
        code = mx_cuda_convolve_stem(call, s, t, e);
    return code == MX_DECLINED && e.fused ? mx_cuda_convolve_fused(call, s, t, e) : code;
}

/* Without an ending. */
static mx_code run_alone(const mx_kernel_call *call, const mx_cuda_convolution &s, const mx_cuda_convolved &t)
{
    mx_code code = mx_cuda_convolve_depthwise(call, s, t, {});
    if (code == MX_DECLINED)
        code = mx_cuda_convolve_small(call, s, t, nullptr, false, nullptr);
    if (code == MX_DECLINED)
        code = mx_cuda_convolve_stem(call, s, t, {});
    return code == MX_DECLINED ? mx_cuda_convolve(call, s, t) : code;
}

/* x, w and y are call->in[0], call->in[1] and call->out[0] in an order that depends on the direction.
 * sums: if not NULL, receives the gradient of the bias. */
static mx_code run(const mx_kernel_call *call, const mx_cuda_convolution &s, const mx_cuda_ending &e = {},
                   mx_array *sums = nullptr)
{
    const mx_array *a = call->in[0], *b = call->in[1];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!mx_dtype_is_float(a->dtype) || a->dtype != b->dtype)
        return MX_DECLINED;
    if (!d)
        return mx_error_code();
    if (!a->size || !b->size || !call->out[0]->size) {
        const cudaError_t status = cudaMemsetAsync(mx_data(call->out[0]), 0, mx_bytes(call->out[0]), d->stream);
        return status ? mx_cuda_fail(status, call->op->name)
               : sums ? bias_grad(call, b, sums, s.last)
                      : mx_cuda_finish_convolution(call, call->out[0], e, s.last);
    }
    const void *first = mx_data(a), *second = mx_data(b), *out = mx_data(call->out[0]);
    const mx_cuda_convolved tensors = s.direction == MX_CUDA_FORWARD ? mx_cuda_convolved{first, second, out}
                                      : s.direction == MX_CUDA_DATA  ? mx_cuda_convolved{out, second, first}
                                                                     : mx_cuda_convolved{first, out, second};
    const mx_code joined = run_joined(call, s, tensors, e, sums);
    if (joined != MX_DECLINED)
        return joined;
    const mx_code code = run_alone(call, s, tensors);
    return code   ? code
           : sums ? bias_grad(call, b, sums, s.last)
                  : mx_cuda_finish_convolution(call, call->out[0], e, s.last);
}

static mx_code run_forward(const mx_kernel_call *call, const mx_cuda_ending &e)
{
    const mx_convolution_attrs *a = (const mx_convolution_attrs *)call->attrs;
    return run(call, shape_of((const geometry *)a, a->num_group, a->layout, call->in[0], call->out[0], MX_CUDA_FORWARD),
               e);
}

static mx_code run_with_bias(const mx_kernel_call *call, bool relu)
{
    const mx_convolution_attrs *a = (const mx_convolution_attrs *)call->attrs;
    mx_cuda_ending e;
    e.bias = a->no_bias || mx_is_none(call->in[2]) ? nullptr : call->in[2];
    e.low = relu ? 0 : -INFINITY;
    return run_forward(call, e);
}
static mx_code run_convolution(const mx_kernel_call *call) { return run_with_bias(call, false); }
static mx_code run_convolution_relu(const mx_kernel_call *call) { return run_with_bias(call, true); }

static mx_code run_convolution_fused(const mx_kernel_call *call)
{
    const mx_convolution_fused_attrs *a = (const mx_convolution_fused_attrs *)call->attrs;
    mx_cuda_ending e;
    e.bias = mx_is_none(call->in[2]) ? nullptr : call->in[2],
    e.addend = mx_is_none(call->in[3]) ? nullptr : call->in[3];
    e.low = isnan(a->low) ? -INFINITY : (float)a->low, e.high = isnan(a->high) ? INFINITY : (float)a->high;
    e.fused = true, e.steady = a->steady;
    for (int i = 2; i < 4; i++)
        if (!mx_is_none(call->in[i]) && call->in[i]->dtype != call->out[0]->dtype)
            return MX_DECLINED;
    return run_forward(call, e);
}

static mx_code run_data_grad(const mx_kernel_call *call)
{
    const mx_conv_gradient_attrs *a = (const mx_conv_gradient_attrs *)call->attrs;
    return run(call, shape_of((const geometry *)a, a->num_group, a->layout, call->out[0], call->in[0], MX_CUDA_DATA));
}

static mx_code run_weights(const mx_kernel_call *call, mx_array *sums)
{
    const mx_conv_gradient_attrs *a = (const mx_conv_gradient_attrs *)call->attrs;
    const mx_cuda_convolution s =
        shape_of((const geometry *)a, a->num_group, a->layout, call->in[0], call->in[1], MX_CUDA_WEIGHT);
    return run(call, s, {}, sums);
}
static mx_code run_weight_grad(const mx_kernel_call *call) { return run_weights(call, nullptr); }
static mx_code run_weight_bias_grad(const mx_kernel_call *call) { return run_weights(call, call->out[1]); }

/* Sums of dy over everything but channels. */
template <class S, int V> struct column_sum {
    typedef mx_cuda_wide<S> number;
    typedef mx_cuda_values<S, V, 1> values;
    struct channel {
    };
    const S *dy[1];
    __device__ channel start(int64_t, int) const { return {}; }
    __device__ values load(int64_t at) const { return values::load(dy, at); }
    __device__ void visit(const channel &, const values &from, int64_t, number *a, number *) const
    {
        const mx_cuda_pack<S, V> p = from.open(0);
        for (int l = 0; l < V; l++)
            a[l] += (number)p.v[l];
    }
};

template <class S, int V>
static mx_code sum_channels(const mx_kernel_call *call, mx_cuda_device *d, const mx_cuda_channels &s,
                            const mx_array *dy, mx_array *db)
{
    S *sum = (S *)mx_data(db);
    return mx_cuda_channel_sums<V>(
        call, d, s, column_sum<S, V>{{(const S *)mx_data(dy)}},
        [=] __device__(int64_t c, double total, double) { sum[c] = (S)(mx_cuda_wide<S>)total; });
}

static mx_code bias_grad(const mx_kernel_call *call, const mx_array *dy, mx_array *db, bool last)
{
    mx_cuda_device *d = mx_cuda_of(call);
    const mx_cuda_channels s(dy, last ? dy->ndim - 1 : 1);
    if (!d || !db->size)
        return d ? MX_OK : mx_error_code();
    return mx_cuda_by_storage(dy->dtype, s.packs(dy->dtype) && mx_cuda_all_aligned({dy}), [&](auto *type, auto lanes) {
        return sum_channels<MX_CUDA_STORAGE(type), decltype(lanes)::value>(call, d, s, dy, db);
    });
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
            const int64_t full =
                at(&a->stride, i, 1) * (x->shape[first + i] - 1) + at(&a->dilate, i, 1) * (a->kernel.d[i] - 1) + 1;
            g.pad.d[i] = (full - out->shape[first + i] + 1) / 2;
        }
    }
    return g;
}

static mx_code run_deconvolution(const mx_kernel_call *call)
{
    const mx_deconvolution_attrs *a = (const mx_deconvolution_attrs *)call->attrs;
    const geometry g = deconvolution_geometry(a, call->in[0], call->out[0]);
    const mx_cuda_convolution s = shape_of(&g, a->num_group, a->layout, call->out[0], call->in[0], MX_CUDA_DATA);
    mx_cuda_ending e;
    e.bias = a->no_bias || mx_is_none(call->in[2]) ? nullptr : call->in[2];
    return run(call, s, e);
}

} // namespace

MX_CUDA_KERNELS(convolution) = {{"Convolution", run_convolution, NULL},
                                {"_convolution_relu", run_convolution_relu, NULL},
                                {"_convolution_fused", run_convolution_fused, NULL},
                                {"_conv_data_grad", run_data_grad, NULL},
                                {"_conv_weight_grad", run_weight_grad, NULL},
                                {"_conv_weight_bias_grad", run_weight_bias_grad, NULL},
                                {"Deconvolution", run_deconvolution, NULL},
                                {NULL, NULL, NULL}};
