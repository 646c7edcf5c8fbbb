/* Convolution and Deconvolution, 1 to 3 spatial axes.
 *
 * Three bilinear operators are closed under differentiation, so every order works:
 *
 *     conv(x, w) -> y              dx = data_grad(dy, w)      dw = weight_grad(x, dy)
 *     data_grad(y, w) -> x         dy = conv(dx, w)           dw = weight_grad(dx, y)
 *     weight_grad(x, y) -> w       dx = data_grad(y, dw)      dy = conv(x, dw)
 *
 * Deconvolution is data_grad with a bias.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "op/def/conv/convolution_reference.h"
#include "op/emit.h"
#include "op/expect.h"
#include "op/op.h"

#define LAYOUTS "NCW|NCHW|NCDHW|NWC|NHWC|NDHWC"
#define CONV_COMMON(X, bias, room) \
    X(INT, num_filter, REQUIRED, "1..", "number of output channels") \
    X(INT, num_group, "1", "1..", "channels are split into this many independent groups") \
    X(INT, workspace, room, "0..", "accepted for compatibility") \
    X(BOOL, no_bias, bias, "", "do not use a bias") \
    X(ENUM, cudnn_tune, "None", "off|limited_workspace|fastest", "accepted for compatibility") \
    X(BOOL, cudnn_off, "False", "", "accepted for compatibility") \
    X(ENUM, layout, "None", LAYOUTS, "order of the axes; None: channels first")
#define CONV_GEOMETRY(X) \
    X(DIMS, kernel, REQUIRED, "", "size of the window, per spatial axis") \
    X(DIMS, stride, "()", "", "step of the window; (): 1") \
    X(DIMS, dilate, "()", "", "distance between the elements of the window; (): 1") \
    X(DIMS, pad, "()", "", "zeros added on both sides; (): 0")

#define CONVOLUTION_ATTRS(X) CONV_GEOMETRY(X) CONV_COMMON(X, "False", "1024")
MX_ATTRS(convolution, CONVOLUTION_ATTRS)
#define DECONVOLUTION_ATTRS(X) \
    CONV_GEOMETRY(X) \
    X(DIMS, adj, "()", "", "added to the output size, less than the stride; (): 0") \
    X(DIMS, target_shape, "()", "", "spatial size of the output instead of pad and adj") \
    CONV_COMMON(X, "True", "512")
MX_ATTRS(deconvolution, DECONVOLUTION_ATTRS)
/* The hidden gradients need the shape of their result: with strides it is ambiguous. */
#define CONV_GRADIENT_ATTRS(X) CONVOLUTION_ATTRS(X) X(DIMS, shape, "()", "", "shape of the result")
MX_ATTRS(conv_gradient, CONV_GRADIENT_ATTRS)

#define CONVOLUTION_FUSED_ATTRS(X) \
    CONVOLUTION_ATTRS(X) \
    X(FLOAT, low, "None", "", "lower bound of the results") \
    X(FLOAT, high, "None", "", "upper bound of the results") \
    X(BOOL, steady, "False", "", "weight and bias do not change while a plan runs")
MX_ATTRS(convolution_fused, CONVOLUTION_FUSED_ATTRS)

enum { NCW, NCHW, NCDHW, NWC, NHWC, NDHWC };
static bool channels_last(int layout) { return layout >= NWC; }

/* ---- geometry ---------------------------------------------------------------------------------------------- */

static int64_t at(const mx_dims *dims, int i, int64_t fallback) { return dims->n > i ? dims->d[i] : fallback; }

static mx_code check_list(const char *op, const char *name, const mx_dims *dims, int axes, int64_t least)
{
    if (dims->n > 0 && dims->n != axes)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s has %d numbers, kernel has %d", op, name, dims->n, axes);
    for (int i = 0; i < dims->n; i++)
        if (dims->d[i] < least || dims->d[i] > INT32_MAX)
            return mx_fail(MX_ERR_ATTRIBUTE, "%s: %s[%d]=%lld, wanted %lld..%d", op, name, i, (long long)dims->d[i],
                           (long long)least, INT32_MAX);
    return MX_OK;
}

static mx_code check_geometry(const char *op, const mx_convolution_attrs *a)
{
    const int axes = a->kernel.n;
    if (axes < 1 || axes > 3)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: kernel has %d numbers, wanted 1 to 3", op, axes);
    if (check_list(op, "kernel", &a->kernel, axes, 1) || check_list(op, "stride", &a->stride, axes, 1) ||
        check_list(op, "dilate", &a->dilate, axes, 1) || check_list(op, "pad", &a->pad, axes, 0))
        return mx_error_code();
    return MX_OK;
}

static mx_code check_common(const char *op, int64_t filters, int64_t groups, int layout, int axes)
{
    if (filters % groups)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: num_filter=%lld is not divisible by num_group=%lld", op,
                       (long long)filters, (long long)groups);
    if (layout >= 0 && layout % 3 + 1 != axes)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: layout does not fit a kernel with %d numbers", op, axes);
    return MX_OK;
}

static mx_code check_convolution(const void *attrs)
{
    const mx_convolution_attrs *a = attrs;
    mx_code code = check_geometry("Convolution", a);
    return code ? code : check_common("Convolution", a->num_filter, a->num_group, a->layout, a->kernel.n);
}

static mx_code check_deconvolution(const void *attrs)
{
    const mx_deconvolution_attrs *a = attrs;
    mx_convolution_attrs geometry = {.kernel = a->kernel, .stride = a->stride, .dilate = a->dilate, .pad = a->pad};
    mx_code code = check_geometry("Deconvolution", &geometry);
    if (!code)
        code = check_list("Deconvolution", "adj", &a->adj, a->kernel.n, 0);
    if (!code)
        code = check_list("Deconvolution", "target_shape", &a->target_shape, a->kernel.n, 0);
    return code ? code : check_common("Deconvolution", a->num_filter, a->num_group, a->layout, a->kernel.n);
}

/* Axis of the channels, and the first spatial axis, of data and weight alike. */
static int channel_axis(int layout, int axes) { return channels_last(layout) ? axes + 1 : 1; }
static int spatial_axis(int layout) { return channels_last(layout) ? 1 : 2; }

static mx_code check_rank(mx_infer *infer, int axes)
{
    const mx_shape_t *x = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (x->ndim == axes + 2)
        return MX_OK;
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted %d axes for a kernel with %d numbers",
                      mx_shape_text(x, text), axes + 2, axes);
}

/* ---- Convolution -------------------------------------------------------------------------------------------- */

/* Unknown sizes of data from the output: the batch (it gives recurrent cells that of their states), and along an axis
 * without strides what the window adds. */
static void infer_data(const mx_convolution_attrs *a, const mx_shape_t *out, mx_shape_t *x)
{
    const int first = spatial_axis(a->layout);
    if (x->dim[0] < 0)
        x->dim[0] = out->dim[0];
    for (int i = 0; i < a->kernel.n; i++)
        if (x->dim[first + i] < 0 && out->dim[first + i] > 0 && at(&a->stride, i, 1) == 1)
            x->dim[first + i] =
                out->dim[first + i] + at(&a->dilate, i, 1) * (a->kernel.d[i] - 1) - 2 * at(&a->pad, i, 0);
}

static mx_code infer_convolution(mx_infer *infer)
{
    const mx_convolution_attrs *a = infer->attrs;
    const mx_shape_t *x = &infer->in[0];
    const int axes = a->kernel.n, first = spatial_axis(a->layout), channel = channel_axis(a->layout, axes);
    char text[MX_SHAPE_TEXT];
    if (x->ndim < 0)
        return MX_OK;
    if (check_rank(infer, axes))
        return mx_error_code();
    if (infer->out[0].ndim == axes + 2)
        infer_data(a, &infer->out[0], &infer->in[0]);
    mx_shape_t weight = {.ndim = axes + 2}, bias = {.ndim = 1, .dim = {a->num_filter}}, out = {.ndim = axes + 2};
    if (x->dim[channel] % a->num_group && x->dim[channel] > 0)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has %lld channels, which num_group=%lld does not divide",
                          (long long)x->dim[channel], (long long)a->num_group);
    weight.dim[0] = a->num_filter;
    weight.dim[channel] = x->dim[channel] < 0 ? -1 : x->dim[channel] / a->num_group;
    out.dim[0] = x->dim[0], out.dim[channel] = a->num_filter;
    for (int i = 0; i < axes; i++) {
        const int64_t window = at(&a->dilate, i, 1) * (a->kernel.d[i] - 1) + 1, size = x->dim[first + i];
        const int64_t padded = size + 2 * at(&a->pad, i, 0);
        weight.dim[first + i] = a->kernel.d[i];
        if (size >= 0 && padded < window)
            return mx_op_fail(infer->op, MX_ERR_SHAPE,
                              "the window of %lld does not fit into the padded size %lld on axis %d of data %s",
                              (long long)window, (long long)padded, first + i, mx_shape_text(x, text));
        out.dim[first + i] = size < 0 ? -1 : (padded - window) / at(&a->stride, i, 1) + 1;
    }
    if (mx_infer_expects(infer, 1, axes + 2, channel, a->num_group, x->dim[channel], "channels") ||
        mx_infer_in(infer, 1, &weight) || (!a->no_bias && mx_infer_in(infer, 2, &bias)))
        return mx_error_code();
    return mx_infer_out(infer, 0, &out);
}

/* Bias and addend may be missing. */
static mx_code infer_fused(mx_infer *infer)
{
    mx_convolution_attrs attrs = *(const mx_convolution_attrs *)infer->attrs; /* both structs begin with it */
    mx_infer plain = *infer;
    attrs.no_bias = infer->n_in < 3 || infer->in[2].ndim < 0;
    plain.attrs = &attrs;
    if (infer_convolution(&plain))
        return mx_error_code();
    return infer->n_in > 3 && infer->in[3].ndim >= 0 ? mx_infer_in(infer, 3, &infer->out[0]) : MX_OK;
}

static int count_convolution(const void *attrs) { return ((const mx_convolution_attrs *)attrs)->no_bias ? 2 : 3; }

static mx_array *conv(const mx_convolution_attrs *a, mx_array *x, mx_array *w)
{
    mx_convolution_attrs attrs = *a;
    attrs.no_bias = true;
    return mx_g_call(MX_OP("Convolution"), &attrs, 2, (mx_array *const[]){x, w});
}

static mx_array *gradient_op(mx_op *op, const mx_convolution_attrs *a, mx_array *first, mx_array *second,
                             const mx_shape_t *shape)
{
    mx_conv_gradient_attrs attrs;
    memset(&attrs, 0, sizeof attrs);
    memcpy(&attrs, a, sizeof *a); /* both structs begin with the geometry */
    attrs.shape = mx_dims_of_shape(shape);
    return mx_g_call(op, &attrs, 2, (mx_array *const[]){first, second});
}
static mx_array *data_grad(const mx_convolution_attrs *a, mx_array *y, mx_array *w, const mx_shape_t *x)
{
    return gradient_op(MX_OP("_conv_data_grad"), a, y, w, x);
}
static mx_array *weight_grad(const mx_convolution_attrs *a, mx_array *x, mx_array *y, const mx_shape_t *w)
{
    return gradient_op(MX_OP("_conv_weight_grad"), a, x, y, w);
}

static mx_array *bias_grad(mx_array *g, int channel)
{
    return mx_g_text(MX_OP("sum"), channel == 1 ? "axis=1, exclude=True" : "axis=-1, exclude=True", 1, &g);
}

static mx_code done(mx_grad *grad)
{
    for (int i = 0; i < grad->n_in; i++)
        if (grad->wanted[i] && !grad->igrad[i])
            return mx_error_code();
    return MX_OK;
}

static mx_code grad_convolution(mx_grad *grad)
{
    const mx_convolution_attrs *a = grad->attrs;
    mx_array *g = grad->ograd[0];
    if (grad->wanted[0])
        grad->igrad[0] = data_grad(a, g, grad->in[1], &grad->in_shape[0]);
    if (grad->wanted[1])
        grad->igrad[1] = weight_grad(a, grad->in[0], g, &grad->in_shape[1]);
    if (grad->wanted[2])
        grad->igrad[2] = bias_grad(g, channel_axis(a->layout, a->kernel.n));
    return done(grad);
}

/* ---- the hidden gradients -------------------------------------------------------------------------------------- */

/* The result must be what the convolution had: x, w and y are checked against each other. */
static mx_code infer_gradient(mx_infer *infer, int x, int w, int y)
{
    mx_shape_t made = mx_shape_of_dims(&((const mx_conv_gradient_attrs *)infer->attrs)->shape);
    mx_convolution_attrs attrs = *(const mx_convolution_attrs *)infer->attrs; /* both structs begin with the geometry */
    attrs.no_bias = true;
    if (made.ndim < 0)
        return mx_error_code();
    const mx_shape_t *all[] = {&infer->in[0], &infer->in[1], &made};
    mx_shape_t in[3] = {*all[x], *all[w], MX_UNKNOWN_SHAPE}, out = *all[y];
    mx_infer forward = {.op = infer->op, .attrs = &attrs, .n_in = 3, .n_out = 1, .in = in, .out = &out};
    if (mx_shape_known(all[0]) && mx_shape_known(all[1]) && infer_convolution(&forward))
        return mx_error_code();
    return mx_infer_out(infer, 0, &made);
}
static mx_code infer_data_grad(mx_infer *infer) { return infer_gradient(infer, 2, 1, 0); }
static mx_code infer_weight_grad(mx_infer *infer) { return infer_gradient(infer, 0, 2, 1); }
static mx_code infer_weight_bias_grad(mx_infer *infer)
{
    mx_shape_t bias = {.ndim = 1, .dim = {((const mx_conv_gradient_attrs *)infer->attrs)->num_filter}};
    mx_code code = infer_weight_grad(infer);
    return code ? code : mx_infer_out(infer, 1, &bias);
}

static mx_code grad_data_grad(mx_grad *grad) /* x = data_grad(y, w) */
{
    const mx_convolution_attrs *a = grad->attrs;
    mx_array *g = grad->ograd[0];
    if (grad->wanted[0])
        grad->igrad[0] = conv(a, g, grad->in[1]);
    if (grad->wanted[1])
        grad->igrad[1] = weight_grad(a, g, grad->in[0], &grad->in_shape[1]);
    return done(grad);
}

static mx_code grad_weight_grad(mx_grad *grad) /* w = weight_grad(x, y) */
{
    const mx_convolution_attrs *a = grad->attrs;
    mx_array *g = grad->ograd[0];
    if (grad->wanted[0])
        grad->igrad[0] = data_grad(a, grad->in[1], g, &grad->in_shape[0]);
    if (grad->wanted[1])
        grad->igrad[1] = conv(a, grad->in[0], g);
    return done(grad);
}

/* ---- Deconvolution ---------------------------------------------------------------------------------------------- */

/* Pad and extra size per axis; target_shape decides them when it is given. */
static mx_code padding(const mx_deconvolution_attrs *a, int i, int64_t size, int64_t *pad, int64_t *extra)
{
    const int64_t stride = at(&a->stride, i, 1), window = at(&a->dilate, i, 1) * (a->kernel.d[i] - 1) + 1;
    *pad = at(&a->pad, i, 0), *extra = at(&a->adj, i, 0);
    if (a->target_shape.n > i && a->target_shape.d[i] > 0) {
        int64_t total = stride * (size - 1) + window - a->target_shape.d[i];
        if (total < 0)
            return mx_fail(MX_ERR_ATTRIBUTE, "Deconvolution: target_shape[%d]=%lld is larger than the output can be", i,
                           (long long)a->target_shape.d[i]);
        *extra = total % 2;
        *pad = (total + 1) / 2;
    } else if (*extra >= stride)
        return mx_fail(MX_ERR_ATTRIBUTE, "Deconvolution: adj[%d]=%lld must be less than the stride %lld", i,
                       (long long)*extra, (long long)stride);
    return MX_OK;
}

static mx_code infer_deconvolution(mx_infer *infer)
{
    const mx_deconvolution_attrs *a = infer->attrs;
    const mx_shape_t *x = &infer->in[0];
    const int axes = a->kernel.n, first = spatial_axis(a->layout), channel = channel_axis(a->layout, axes);
    if (x->ndim < 0)
        return MX_OK;
    if (check_rank(infer, axes))
        return mx_error_code();
    mx_shape_t weight = {.ndim = axes + 2}, bias = {.ndim = 1, .dim = {a->num_filter}}, out = {.ndim = axes + 2};
    weight.dim[0] = x->dim[channel];
    weight.dim[channel] = a->num_filter / a->num_group;
    out.dim[0] = x->dim[0], out.dim[channel] = a->num_filter;
    for (int i = 0; i < axes; i++) {
        int64_t pad, extra, size = x->dim[first + i];
        weight.dim[first + i] = a->kernel.d[i];
        out.dim[first + i] = -1;
        if (size < 0)
            continue;
        if (size == 0)
            return mx_op_fail(infer->op, MX_ERR_SHAPE, "axis %d of data is empty", first + i);
        if (padding(a, i, size, &pad, &extra))
            return mx_error_code();
        const int64_t window = at(&a->dilate, i, 1) * (a->kernel.d[i] - 1) + 1;
        out.dim[first + i] = at(&a->stride, i, 1) * (size - 1) + window - 2 * pad + extra;
        if (out.dim[first + i] <= 0)
            return mx_op_fail(infer->op, MX_ERR_SHAPE, "the output would have size %lld on axis %d",
                              (long long)out.dim[first + i], first + i);
    }
    if (mx_infer_expects(infer, 1, axes + 2, 0, 1, x->dim[channel], "channels") || mx_infer_in(infer, 1, &weight) ||
        (!a->no_bias && mx_infer_in(infer, 2, &bias)))
        return mx_error_code();
    return mx_infer_out(infer, 0, &out);
}

static int count_deconvolution(const void *attrs) { return ((const mx_deconvolution_attrs *)attrs)->no_bias ? 2 : 3; }

/* The convolution whose data gradient this deconvolution is: it maps the output back to the input. */
static mx_code as_convolution(const mx_deconvolution_attrs *a, const mx_shape_t *x, mx_convolution_attrs *c)
{
    const int first = spatial_axis(a->layout);
    memset(c, 0, sizeof *c);
    c->kernel = a->kernel, c->stride = a->stride, c->dilate = a->dilate, c->layout = a->layout;
    c->num_filter = x->dim[channel_axis(a->layout, a->kernel.n)];
    c->num_group = a->num_group, c->no_bias = true, c->cudnn_tune = -1;
    c->pad.n = a->kernel.n;
    for (int i = 0; i < a->kernel.n; i++) {
        int64_t extra;
        if (padding(a, i, x->dim[first + i], &c->pad.d[i], &extra))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code grad_deconvolution(mx_grad *grad)
{
    const mx_deconvolution_attrs *a = grad->attrs;
    mx_convolution_attrs c;
    mx_array *g = grad->ograd[0];
    if (as_convolution(a, &grad->in_shape[0], &c))
        return mx_error_code();
    if (grad->wanted[0])
        grad->igrad[0] = conv(&c, g, grad->in[1]);
    if (grad->wanted[1])
        grad->igrad[1] = weight_grad(&c, g, grad->in[0], &grad->in_shape[1]);
    if (grad->wanted[2])
        grad->igrad[2] = bias_grad(g, channel_axis(a->layout, a->kernel.n));
    return done(grad);
}

/* ---- references ----------------------------------------------------------------------------------------------- */

static mx_conv_sizes sizes_of(const mx_convolution_attrs *a, const mx_shape_t *x, const mx_shape_t *y)
{
    const int axes = a->kernel.n, first = spatial_axis(a->layout), channel = channel_axis(a->layout, axes),
              lead = 3 - axes;
    mx_conv_sizes z = {.n = x->dim[0], .c = x->dim[channel], .o = y->dim[channel], .g = a->num_group, .in = {1, 1, 1}, .out = {1, 1, 1},
               .k = {1, 1, 1}, .s = {1, 1, 1}, .d = {1, 1, 1}, .last = channels_last(a->layout)};
    for (int i = 0; i < axes; i++) {
        z.in[lead + i] = x->dim[first + i], z.out[lead + i] = y->dim[first + i], z.k[lead + i] = a->kernel.d[i];
        z.s[lead + i] = at(&a->stride, i, 1), z.d[lead + i] = at(&a->dilate, i, 1), z.p[lead + i] = at(&a->pad, i, 0);
    }
    return z;
}

static void reference_convolution(const mx_reference_call *call)
{
    const mx_convolution_attrs *a = call->attrs;
    mx_conv_sizes z = sizes_of(a, &call->in_shape[0], &call->out_shape[0]);
    mx_conv_start(call, !a->no_bias && call->n_in > 2 && call->in[2], channels_last(a->layout));
    mx_conv_products(call, &z, MX_CONV_FORWARD);
}
static void reference_convolution_relu(const mx_reference_call *call)
{
    reference_convolution(call);
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = call->out[0][i] < 0 ? 0 : call->out[0][i];
}
static void reference_convolution_fused(const mx_reference_call *call)
{
    const mx_convolution_fused_attrs *a = call->attrs;
    const double *addend = call->n_in > 3 ? call->in[3] : NULL;
    reference_convolution(call);
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        double v = call->out[0][i] + (addend ? addend[i] : 0);
        v = v < a->low ? a->low : v; /* None is NaN */
        call->out[0][i] = v > a->high ? a->high : v;
    }
}
static void reference_data_grad(const mx_reference_call *call)
{
    mx_conv_sizes z = sizes_of(call->attrs, &call->out_shape[0], &call->in_shape[0]);
    mx_conv_start(call, false, false);
    mx_conv_products(call, &z, MX_CONV_DATA);
}
static void reference_weight_grad(const mx_reference_call *call)
{
    mx_conv_sizes z = sizes_of(call->attrs, &call->in_shape[0], &call->in_shape[1]);
    mx_conv_start(call, false, false);
    mx_conv_products(call, &z, MX_CONV_WEIGHT);
}
static void reference_weight_bias_grad(const mx_reference_call *call)
{
    const mx_conv_gradient_attrs *a = call->attrs;
    const mx_shape_t *y = &call->in_shape[1];
    int64_t inner = 1;
    reference_weight_grad(call);
    for (int i = channel_axis(a->layout, a->kernel.n) + 1; i < y->ndim; i++)
        inner *= y->dim[i];
    for (int64_t o = 0; o < a->num_filter; o++)
        call->out[1][o] = 0;
    for (int64_t i = 0; i < mx_shape_size(y); i++)
        call->out[1][i / inner % a->num_filter] += call->in[1][i];
}
static void reference_deconvolution(const mx_reference_call *call)
{
    const mx_deconvolution_attrs *a = call->attrs;
    mx_convolution_attrs c;
    if (as_convolution(a, &call->in_shape[0], &c))
        return;
    mx_conv_sizes z = sizes_of(&c, &call->out_shape[0], &call->in_shape[0]);
    mx_conv_start(call, !a->no_bias && call->n_in > 2 && call->in[2], channels_last(a->layout));
    mx_conv_products(call, &z, MX_CONV_DATA);
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_convolution(const mx_emit_call *n)
{
    const mx_convolution_attrs *attrs = n->attrs;
    mx_emit_image image;
    if (mx_emit_take_image(n, attrs->layout, &image))
        return mx_error_code();
    mx_emit_open(n, image.last ? "convolution_last" : "convolution", 2);
    mx_emit_print(n, "%s, %lld, %lld, %lld, %lld", attrs->no_bias ? "NULL" : mx_emit_or_null(n, 2),
                  (long long)n->x->dim[0], (long long)image.channels, (long long)attrs->num_filter,
                  (long long)attrs->num_group);
    return mx_emit_close_windows(n, &image,
                                 &(mx_emit_windows){attrs->kernel, attrs->stride, attrs->pad, attrs->dilate});
}

/* The pad that target_shape implies. */
static mx_dims emitted_pad(const mx_deconvolution_attrs *attrs, const mx_emit_call *n, const mx_emit_image *image)
{
    mx_dims pad = {.n = image->axes};
    for (int i = 0; i < image->axes; i++) {
        const int64_t span = mx_emit_dim(&attrs->dilate, i, 1) * (attrs->kernel.d[i] - 1) + 1,
                      wanted = mx_emit_dim(&attrs->target_shape, i, 0);
        const int64_t total = mx_emit_dim(&attrs->stride, i, 1) * (n->x->dim[image->first + i] - 1) + span - wanted;
        pad.d[i] = wanted > 0 ? (total + 1) / 2 : mx_emit_dim(&attrs->pad, i, 0);
    }
    return pad;
}

static mx_code emit_deconvolution(const mx_emit_call *n)
{
    const mx_deconvolution_attrs *attrs = n->attrs;
    mx_emit_image image;
    if (mx_emit_take_image(n, attrs->layout, &image))
        return mx_error_code();
    mx_emit_open(n, image.last ? "deconvolution_last" : "deconvolution", 2);
    mx_emit_print(n, "%s, %lld, %lld, %lld, %lld", attrs->no_bias ? "NULL" : mx_emit_or_null(n, 2),
                  (long long)n->x->dim[0], (long long)image.channels, (long long)attrs->num_filter,
                  (long long)attrs->num_group);
    return mx_emit_close_windows(
        n, &image, &(mx_emit_windows){attrs->kernel, attrs->stride, emitted_pad(attrs, n, &image), attrs->dilate});
}

mx_op mx_family_convolution[] = {
    {.name = "Convolution", MX_EMIT(emit_convolution), .shows = "kernel/stride, num_filter", .look = MX_LOOK_WEIGHTS,
     .precision = MX_PRECISION_TARGET, .aliases = "_npx_convolution Convolution_v1",
     .doc = "convolution over 1, 2 or 3 spatial axes: y[n, f, i] = b[f] + sum over c, k of w[f, c, k] x[n, c, i * stride + k * dilate - pad]", .inputs = "data weight bias?",
     .schema = &convolution_schema, .count_in = count_convolution, .infer_shape = infer_convolution, .check = check_convolution,
     .gradient = grad_convolution, .grad_in = 3, .reference = reference_convolution,
     .samples = SAMPLES({"2,3,7,6;4,3,3,3;4", "kernel=(3, 3), num_filter=4", 0, 0, NULL},
                        {"1,2,5,5;3,2,3,3", "kernel=(3, 3), num_filter=3, no_bias=True, pad=(1, 1), stride=(2, 2)", 0, 0, "absent:2"},
                        {"2,4,6,5;4,2,3,2;4", "kernel=(3, 2), num_filter=4, num_group=2, pad=(1, 0)", 0, 0, NULL},
                        {"1,2,9,8;2,2,3,3;2", "kernel=(3, 3), num_filter=2, dilate=(2, 2), pad=(1, 2)", 0, 0, NULL},
                        {"2,3,8;4,3,3;4", "kernel=(3,), num_filter=4, stride=(2,)", 0, 0, NULL},
                        {"1,2,4,5,4;3,2,2,3,2;3", "kernel=(2, 3, 2), num_filter=3, pad=(1, 1, 0)", 0, 0, NULL},
                        {"2,5,5,3;4,3,3,3;4", "kernel=(3, 3), num_filter=4, layout=NHWC, pad=(1, 1)", 0, 0, NULL},
                        {"2,3,5,5;4,3,1,1;4", "kernel=(1, 1), num_filter=4", 0, 0, NULL},
                        {"2,3,6,6;3,1,3,3;3", "kernel=(3, 3), num_filter=3, num_group=3, pad=(1, 1)", 0, 0, NULL})},
    {.name = "_convolution_relu", .doc = "relu(Convolution(...)), fused by plans", .inputs = "data weight bias?",
     .schema = &convolution_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .count_in = count_convolution,
     .infer_shape = infer_convolution, .check = check_convolution, .reference = reference_convolution_relu,
     .samples = SAMPLES({"2,3,7,6;4,3,3,3;4", "kernel=(3, 3), num_filter=4", 0, 0, NULL},
                        {"1,2,5,5;3,2,3,3", "kernel=(3, 3), num_filter=3, no_bias=True, pad=(1, 1), stride=(2, 2)", 0, 0, "absent:2"},
                        {"2,3,6,6;3,1,3,3;3", "kernel=(3, 3), num_filter=3, num_group=3, pad=(1, 1)", 0, 0, NULL},
                        {"2,3,5,5;4,3,1,1;4", "kernel=(1, 1), num_filter=4", 0, 0, NULL})},
    {.name = "_convolution_fused", .doc = "Convolution(...) plus another array, clipped to [low, high], fused by plans",
     .inputs = "data weight bias? addend?", .schema = &convolution_fused_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT,
     .infer_shape = infer_fused, .check = check_convolution, .reference = reference_convolution_fused,
     .samples = SAMPLES({"2,3,7,6;4,3,3,3;4;2,4,5,4", "kernel=(3, 3), num_filter=4, low=0", 0, 0, NULL},
                        {"2,5,6,8;16,3,3,8;16;2,5,6,16", "kernel=(3, 3), num_filter=16, pad=(1, 1), layout=NHWC, low=0, high=1.5", 0, 0, NULL},
                        {"2,7,7,8;16,3,3,8;16", "kernel=(3, 3), num_filter=16, pad=(1, 1), stride=(2, 2), layout=NHWC, low=0", 0, 0, "absent:3"},
                        {"3,5,5,40;24,1,1,40", "kernel=(1, 1), num_filter=24, no_bias=True, layout=NHWC", 0, 0, "absent:2 absent:3"},
                        {"2,9,8,16;16,3,3,1;16;2,9,8,16", "kernel=(3, 3), num_filter=16, num_group=16, pad=(1, 1), layout=NHWC, low=-1, high=1", 0, 0, NULL},
                        {"2,9,8,16;16,5,5,1;16", "kernel=(5, 5), num_filter=16, num_group=16, pad=(2, 2), layout=NHWC, low=0, high=6", 0, 0, "absent:3"})},
    {.name = "_conv_data_grad", .doc = "gradient of Convolution with respect to its data", .inputs = "output weight",
     .schema = &conv_gradient_schema, .flags = MX_OP_HIDDEN, .check = check_convolution, .infer_shape = infer_data_grad, .gradient = grad_data_grad, .grad_in = 3,
     .reference = reference_data_grad,
     .samples = SAMPLES({"2,4,5,4;4,3,3,3", "kernel=(3, 3), num_filter=4, no_bias=True, shape=(2, 3, 7, 6)", 0, 0, NULL},
                        {"1,4,3,3;4,1,3,3", "kernel=(3, 3), num_filter=4, num_group=2, stride=(2, 2), pad=(1, 1), no_bias=True, shape=(1, 2, 6, 5)", 0, 0, NULL})},
    {.name = "_conv_weight_grad", .doc = "gradient of Convolution with respect to its weight", .inputs = "data output",
     .schema = &conv_gradient_schema, .flags = MX_OP_HIDDEN, .check = check_convolution, .infer_shape = infer_weight_grad, .gradient = grad_weight_grad, .grad_in = 3,
     .reference = reference_weight_grad,
     .samples = SAMPLES({"2,3,7,6;2,4,5,4", "kernel=(3, 3), num_filter=4, no_bias=True, shape=(4, 3, 3, 3)", 0, 0, NULL},
                        {"2,2,8;2,4,3", "kernel=(3,), num_filter=4, stride=(2,), num_group=2, no_bias=True, shape=(4, 1, 3)", 0, 0, NULL})},
    {.name = "_conv_weight_bias_grad", .doc = "gradients of Convolution with respect to weight and bias, fused by plans",
     .inputs = "data output", .outputs = "weight bias", .n_out = 2, .schema = &conv_gradient_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT,
     .check = check_convolution, .infer_shape = infer_weight_bias_grad, .reference = reference_weight_bias_grad,
     .samples = SAMPLES({"2,3,7,6;2,4,5,4", "kernel=(3, 3), num_filter=4, no_bias=True, shape=(4, 3, 3, 3)", 0, 0, NULL},
                        {"2,5,5,3;2,3,3,4", "kernel=(3, 3), num_filter=4, layout=NHWC, no_bias=True, shape=(4, 3, 3, 3)", 0, 0, NULL},
                        {"2,2,8;2,4,3", "kernel=(3,), num_filter=4, stride=(2,), num_group=2, no_bias=True, shape=(4, 1, 3)", 0, 0, NULL})},
    {.name = "Deconvolution", MX_EMIT(emit_deconvolution), .shows = "kernel/stride, num_filter",
     .look = MX_LOOK_WEIGHTS,
     .precision = MX_PRECISION_TARGET, .aliases = "_npx_deconvolution",
     .doc = "transposed convolution, the data gradient of a convolution, plus bias: y[n, f, i * stride + k * dilate - pad] sums w[c, f, k] x[n, c, i]",
     .inputs = "data weight bias?", .schema = &deconvolution_schema, .count_in = count_deconvolution, .infer_shape = infer_deconvolution,
     .check = check_deconvolution, .gradient = grad_deconvolution, .grad_in = 3, .reference = reference_deconvolution,
     .samples = SAMPLES({"2,3,4,3;3,4,3,3", "kernel=(3, 3), num_filter=4", 0, 0, "absent:2"},
                        {"1,4,4,4;4,2,4,4;4", "kernel=(4, 4), num_filter=4, num_group=2, stride=(2, 2), pad=(1, 1), no_bias=False", 0, 0, NULL},
                        {"2,3,5;3,2,3;2", "kernel=(3,), num_filter=2, stride=(2,), adj=(1,), no_bias=False", 0, 0, NULL},
                        {"1,2,3,4;2,3,3,3", "kernel=(3, 3), num_filter=3, stride=(2, 2), target_shape=(6, 8)", 0, 0, "absent:2"},
                        {"1,2,3,2,2;2,3,2,2,3;3", "kernel=(2, 2, 3), num_filter=3, no_bias=False, dilate=(1, 2, 1)", 0, 0, NULL},
                        {"2,4,3,3;3,3,3,4", "kernel=(3, 3), num_filter=4, layout=NHWC", 0, 0, "absent:2"})},
    {0},
};
