/* Convolution operators on top of the convolution kernels of conv.h.
 *
 * float32 runs the fast kernels, float64 the reference loops; 16-bit floats are widened to float32 and back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/scratch.h"
#include "base/error.h"
#include "cpu/kernel.h"
#include "cpu/kernels/conv/conv.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

#define conv_forward MX_LEVEL_NAME(conv_forward)
#define conv_backward_data MX_LEVEL_NAME(conv_backward_data)
#define conv_backward_weight MX_LEVEL_NAME(conv_backward_weight)
#define conv_reference_f64 MX_LEVEL_NAME(conv_reference_f64)
#define conv_reference_backward_data_f64 MX_LEVEL_NAME(conv_reference_backward_data_f64)
#define conv_reference_backward_weight_f64 MX_LEVEL_NAME(conv_reference_backward_weight_f64)

/* What the operators have in common: they map two arrays to a third, in one of three directions. */
typedef enum direction { FORWARD, FORWARD_RELU, DATA, WEIGHT } direction;

/* The geometry, with which the attribute structs of all convolution operators begin. */
typedef struct geometry {
    mx_dims kernel, stride, dilate, pad;
} geometry;

static int64_t at(const mx_dims *dims, int i, int64_t fallback) { return dims->n > i ? dims->d[i] : fallback; }

/* x: the wide side (data), y: the convolved side. */
static mx_conv_shape shape_of(const geometry *g, int64_t groups, int layout, const mx_array *x, const mx_array *y)
{
    const bool last = layout >= MX_CONVOLUTION_NWC;
    const int axes = g->kernel.n, first = last ? 1 : 2, channel = last ? axes + 1 : 1;
    mx_conv_shape s = {.batch = x->shape[0], .in_channels = x->shape[channel], .out_channels = y->shape[channel], .groups = groups,
                       .ndim = axes, .channels_last = last};
    for (int i = 0; i < axes; i++) {
        s.in[i] = x->shape[first + i], s.out[i] = y->shape[first + i], s.kernel[i] = g->kernel.d[i];
        s.stride[i] = at(&g->stride, i, 1), s.dilate[i] = at(&g->dilate, i, 1), s.pad[i] = at(&g->pad, i, 0);
    }
    return s;
}

static mx_code run_f32(direction d, const mx_conv_shape *s, const float *a, const float *b, const float *bias,
                       float *out)
{
    switch (d) {
    case FORWARD:
    case FORWARD_RELU: return conv_forward(s, a, b, bias, d == FORWARD_RELU, out);
    case DATA: return conv_backward_data(s, a, b, out);
    default: return conv_backward_weight(s, a, b, out, NULL);
    }
}

static mx_code run_f64(direction d, const mx_conv_shape *s, const double *a, const double *b, const double *bias,
                       double *out)
{
    switch (d) {
    case FORWARD:
    case FORWARD_RELU: return conv_reference_f64(s, a, b, bias, d == FORWARD_RELU, out);
    case DATA: return conv_reference_backward_data_f64(s, a, b, out);
    default: return conv_reference_backward_weight_f64(s, a, b, out, NULL);
    }
}

static mx_code run_half(direction d, const mx_conv_shape *s, const mx_array *a, const mx_array *b, const mx_array *bias,
                        mx_array *out)
{
    const size_t count = (size_t)(a->size + b->size + out->size + (bias ? bias->size : 0));
    float *wide = mx_scratch_take(count * sizeof *wide);
    if (!wide)
        return mx_error_code();
    float *wide_b = wide + a->size, *wide_out = wide_b + b->size, *wide_bias = bias ? wide_out + out->size : NULL;
    mx_convert(wide, MX_FLOAT32, mx_data(a), (mx_dtype)a->dtype, a->size);
    mx_convert(wide_b, MX_FLOAT32, mx_data(b), (mx_dtype)b->dtype, b->size);
    if (bias)
        mx_convert(wide_bias, MX_FLOAT32, mx_data(bias), (mx_dtype)bias->dtype, bias->size);
    mx_code code = run_f32(d, s, wide, wide_b, wide_bias, wide_out);
    if (!code)
        mx_convert(mx_data(out), (mx_dtype)out->dtype, wide_out, MX_FLOAT32, out->size);
    mx_scratch_give(wide, count * sizeof *wide);
    return code;
}

static mx_code run(direction d, const mx_conv_shape *s, const mx_kernel_call *call, const mx_array *bias)
{
    const mx_array *a = call->in[0], *b = call->in[1];
    mx_array *out = call->out[0];
    const void *bias_data = bias ? mx_data(bias) : NULL;
    switch (out->dtype) {
    case MX_FLOAT32: return run_f32(d, s, mx_data(a), mx_data(b), bias_data, mx_data(out));
    case MX_FLOAT64: return run_f64(d, s, mx_data(a), mx_data(b), bias_data, mx_data(out));
    case MX_FLOAT16:
    case MX_BFLOAT16: return run_half(d, s, a, b, bias, out);
    default: return MX_DECLINED;
    }
}

static mx_code run_forward(const mx_kernel_call *call, direction d)
{
    const mx_convolution_attrs *a = call->attrs;
    mx_conv_shape s = shape_of((const geometry *)a, a->num_group, a->layout, call->in[0], call->out[0]);
    return run(d, &s, call, a->no_bias || mx_is_none(call->in[2]) ? NULL : call->in[2]);
}
static mx_code run_convolution(const mx_kernel_call *call) { return run_forward(call, FORWARD); }
static mx_code run_convolution_relu(const mx_kernel_call *call) { return run_forward(call, FORWARD_RELU); }

/* Adds the addend (NULL: none), then applies the limits; NaN: none. */
#define FINISH(T, name) \
    static void name(T *y, const T *addend, int64_t n, const mx_convolution_fused_attrs *a) \
    { \
        const T low = (T)a->low, high = (T)a->high; \
        for (int64_t i = 0; i < n; i++) { \
            T v = addend ? y[i] + addend[i] : y[i]; \
            v = v < low ? low : v; \
            y[i] = v > high ? high : v; \
        } \
    }
FINISH(float, finish_f32)
FINISH(double, finish_f64)

/* Types other than float32 and float64 are widened. */
static mx_code run_convolution_fused(const mx_kernel_call *call)
{
    const mx_convolution_fused_attrs *a = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    mx_array *y = call->out[0];
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    mx_conv_shape s = shape_of((const geometry *)a, a->num_group, a->layout, call->in[0], y);
    const mx_code code = run(FORWARD, &s, call, mx_is_none(call->in[2]) ? NULL : call->in[2]);
    const void *addend = mx_is_none(call->in[3]) ? NULL : mx_data(call->in[3]);
    if (code)
        return code;
    return compute == MX_FLOAT32 ? finish_f32(mx_data(y), addend, y->size, a)
                                 : finish_f64(mx_data(y), addend, y->size, a),
           MX_OK;
}

static mx_code run_data_grad(const mx_kernel_call *call)
{
    const mx_conv_gradient_attrs *a = call->attrs;
    mx_conv_shape s = shape_of((const geometry *)a, a->num_group, a->layout, call->out[0], call->in[0]);
    return run(DATA, &s, call, NULL);
}

static mx_code run_weight_grad(const mx_kernel_call *call)
{
    const mx_conv_gradient_attrs *a = call->attrs;
    mx_conv_shape s = shape_of((const geometry *)a, a->num_group, a->layout, call->in[0], call->in[1]);
    return run(WEIGHT, &s, call, NULL);
}

/* Weight and bias at once; types other than float32 and float64 are widened. */
static mx_code run_weight_bias_grad(const mx_kernel_call *call)
{
    const mx_conv_gradient_attrs *a = call->attrs;
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    mx_conv_shape s = shape_of((const geometry *)a, a->num_group, a->layout, call->in[0], call->in[1]);
    const void *x = mx_data(call->in[0]), *dy = mx_data(call->in[1]);
    void *dw = mx_data(call->out[0]), *db = mx_data(call->out[1]);
    return compute == MX_FLOAT32 ? conv_backward_weight(&s, x, dy, dw, db)
                                 : conv_reference_backward_weight_f64(&s, x, dy, dw, db);
}

/* ---- Deconvolution: the data gradient, then the bias ----------------------------------------------------------- */

/* The pad implied by the inferred output size, which includes target_shape and adj. */
static geometry deconvolution_geometry(const mx_deconvolution_attrs *a, const mx_array *x, const mx_array *out)
{
    geometry g = {a->kernel, a->stride, a->dilate, a->pad};
    const int first = a->layout >= MX_CONVOLUTION_NWC ? 1 : 2;
    g.pad.n = a->kernel.n;
    for (int i = 0; i < a->kernel.n; i++) {
        g.pad.d[i] = at(&a->pad, i, 0);
        if (a->target_shape.n > i && a->target_shape.d[i] > 0) {
            int64_t full =
                at(&a->stride, i, 1) * (x->shape[first + i] - 1) + at(&a->dilate, i, 1) * (a->kernel.d[i] - 1) + 1;
            g.pad.d[i] = (full - out->shape[first + i] + 1) / 2;
        }
    }
    return g;
}

static void add_f32(float *out, const float *bias, int64_t outer, int64_t channels, int64_t inner)
{
    for (int64_t i = 0; i < outer * channels; i++)
        for (int64_t k = 0; k < inner; k++)
            out[i * inner + k] += bias[i % channels];
}
static void add_f64(double *out, const double *bias, int64_t outer, int64_t channels, int64_t inner)
{
    for (int64_t i = 0; i < outer * channels; i++)
        for (int64_t k = 0; k < inner; k++)
            out[i * inner + k] += bias[i % channels];
}

static mx_code add_bias(const mx_array *bias, mx_array *out, bool channels_last)
{
    const int64_t channels = bias->size, inner = channels_last ? 1 : out->size / (out->shape[0] * channels);
    const int64_t outer = out->size / (channels * inner);
    if (out->dtype == MX_FLOAT32)
        return add_f32(mx_data(out), mx_data(bias), outer, channels, inner), MX_OK;
    if (out->dtype == MX_FLOAT64)
        return add_f64(mx_data(out), mx_data(bias), outer, channels, inner), MX_OK;
    const size_t count = (size_t)(out->size + channels);
    float *wide = mx_scratch_take(count * sizeof *wide);
    if (!wide)
        return mx_error_code();
    mx_convert(wide, MX_FLOAT32, mx_data(out), (mx_dtype)out->dtype, out->size);
    mx_convert(wide + out->size, MX_FLOAT32, mx_data(bias), (mx_dtype)bias->dtype, channels);
    add_f32(wide, wide + out->size, outer, channels, inner);
    mx_convert(mx_data(out), (mx_dtype)out->dtype, wide, MX_FLOAT32, out->size);
    mx_scratch_give(wide, count * sizeof *wide);
    return MX_OK;
}

static mx_code run_deconvolution(const mx_kernel_call *call)
{
    const mx_deconvolution_attrs *a = call->attrs;
    geometry g = deconvolution_geometry(a, call->in[0], call->out[0]);
    mx_conv_shape s = shape_of(&g, a->num_group, a->layout, call->out[0], call->in[0]);
    mx_code code = run(DATA, &s, call, NULL);
    if (code || a->no_bias || mx_is_none(call->in[2]))
        return code;
    return add_bias(call->in[2], call->out[0], s.channels_last);
}

MX_CPU_KERNELS(convolution) = {{"Convolution", run_convolution, NULL},
                               {"_convolution_relu", run_convolution_relu, NULL},
                               {"_convolution_fused", run_convolution_fused, NULL, MX_KERNEL_WIDEN},
                               {"_conv_data_grad", run_data_grad, NULL},
                               {"_conv_weight_grad", run_weight_grad, NULL},
                               {"_conv_weight_bias_grad", run_weight_bias_grad, NULL, MX_KERNEL_WIDEN},
                               {"Deconvolution", run_deconvolution, NULL},
                               {NULL, NULL, NULL}};
