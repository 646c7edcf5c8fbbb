/* Convolution layers: Conv1D, Conv2D, Conv3D and their transposes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "exec/call.h"
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"

/* The options of the classes differ only in their default values. */
#define CONV_OPTIONS(X, ones, zeros, order, OUTPUT_PADDING) \
    X(INT, channels, REQUIRED, "1..", "number of output channels") \
    X(DIMS, kernel_size, REQUIRED, "", "size of the window") \
    X(DIMS, strides, ones, "", "step of the window") \
    X(DIMS, padding, zeros, "", "zeros added on both sides") \
    OUTPUT_PADDING(X, zeros) \
    X(DIMS, dilation, ones, "", "dilation of the window") \
    X(INT, groups, "1", "1..", "channels are split into this many independent groups") \
    X(STR, layout, order, "", "order of the axes") \
    X(STR, activation, "None", "", "applied to the result; None: none") \
    X(BOOL, use_bias, "True", "", "add a bias") \
    X(PTR, weight_initializer, "None", "mx_initializer", "None: the network's") \
    X(PTR, bias_initializer, "zeros", "mx_initializer", "initial value of the bias") \
    X(INT, in_channels, "0", "0..", "number of input channels; 0: inferred at the first forward")
#define NO_OUTPUT_PADDING(X, zeros)
#define OUTPUT_PADDING(X, zeros) X(DIMS, output_padding, zeros, "", "added to the output size")

#define CONV1D_OPTIONS(X) CONV_OPTIONS(X, "1", "0", "NCW", NO_OUTPUT_PADDING)
#define CONV2D_OPTIONS(X) CONV_OPTIONS(X, "(1, 1)", "(0, 0)", "NCHW", NO_OUTPUT_PADDING)
#define CONV3D_OPTIONS(X) CONV_OPTIONS(X, "(1, 1, 1)", "(0, 0, 0)", "NCDHW", NO_OUTPUT_PADDING)
#define CONV1D_TRANSPOSE_OPTIONS(X) CONV_OPTIONS(X, "1", "0", "NCW", OUTPUT_PADDING)
#define CONV2D_TRANSPOSE_OPTIONS(X) CONV_OPTIONS(X, "(1, 1)", "(0, 0)", "NCHW", OUTPUT_PADDING)
#define CONV3D_TRANSPOSE_OPTIONS(X) CONV_OPTIONS(X, "(1, 1, 1)", "(0, 0, 0)", "NCDHW", OUTPUT_PADDING)
MX_ATTRS(conv1d, CONV1D_OPTIONS)
MX_ATTRS(conv2d, CONV2D_OPTIONS)
MX_ATTRS(conv3d, CONV3D_OPTIONS)
MX_ATTRS(conv1d_transpose, CONV1D_TRANSPOSE_OPTIONS)
MX_ATTRS(conv2d_transpose, CONV2D_TRANSPOSE_OPTIONS)
MX_ATTRS(conv3d_transpose, CONV3D_TRANSPOSE_OPTIONS)

/* One struct for all classes: the transposes have output_padding as well. */
typedef mx_conv2d_transpose_attrs conv_options;

static const mx_layer convolution, transposed;
static bool is_transpose(const mx_block *self) { return self->layer == &transposed; }
static int spatial_axes(const mx_block *self) { return self->cls->name[4] - '0'; /* "Conv2D" */ }

static conv_options options_of(const mx_block *self)
{
    if (is_transpose(self))
        return *(const conv_options *)mx_options(self);
    const mx_conv2d_attrs *o = mx_options(self);
    return (conv_options){.channels = o->channels, .kernel_size = o->kernel_size, .strides = o->strides, .padding = o->padding,
                          .output_padding = {.n = 0}, .dilation = o->dilation, .groups = o->groups, .layout = o->layout,
                          .activation = o->activation, .use_bias = o->use_bias, .weight_initializer = o->weight_initializer,
                          .bias_initializer = o->bias_initializer, .in_channels = o->in_channels};
}

static mx_code prepare(mx_block *self, const conv_options *o, int layout)
{
    if (is_transpose(self)) {
        mx_deconvolution_attrs *a = mx_layer_prepare(self, sizeof *a);
        if (a)
            *a = (mx_deconvolution_attrs){.kernel = o->kernel_size, .stride = o->strides, .dilate = o->dilation, .pad = o->padding,
                                          .adj = o->output_padding, .num_filter = o->channels, .num_group = o->groups, .workspace = 512,
                                          .no_bias = !o->use_bias, .cudnn_tune = -1, .layout = layout};
    } else {
        mx_convolution_attrs *a = mx_layer_prepare(self, sizeof *a);
        if (a)
            *a = (mx_convolution_attrs){.kernel = o->kernel_size, .stride = o->strides, .dilate = o->dilation, .pad = o->padding,
                                        .num_filter = o->channels, .num_group = o->groups, .workspace = 1024, .no_bias = !o->use_bias,
                                        .cudnn_tune = -1, .layout = layout};
    }
    return self->prepared ? MX_OK : mx_error_code();
}

/* (O, C / groups, *kernel), transposed (C, O / groups, *kernel); the channels last if the layout says so. */
static mx_shape_t weight_shape(const mx_block *self, const conv_options *o, int layout)
{
    const int axes = spatial_axes(self);
    const int64_t in = o->in_channels > 0 ? o->in_channels : -1, per_group = in < 0 ? -1 : in / o->groups;
    const bool last = mx_channels_last(layout);
    mx_shape_t w = {.ndim = axes + 2};
    w.dim[0] = is_transpose(self) ? in : o->channels;
    w.dim[last ? axes + 1 : 1] = is_transpose(self) ? o->channels / o->groups : per_group;
    for (int i = 0; i < axes; i++)
        w.dim[(last ? 1 : 2) + i] = o->kernel_size.d[i];
    return w;
}

static mx_code spread_all(const mx_block *self, conv_options *o, int axes)
{
    if (mx_spread_dims(self, "kernel_size", &o->kernel_size, axes, 1) ||
        mx_spread_dims(self, "strides", &o->strides, axes, 1) ||
        mx_spread_dims(self, "padding", &o->padding, axes, 0) ||
        mx_spread_dims(self, "dilation", &o->dilation, axes, 1))
        return mx_error_code();
    return is_transpose(self) ? mx_spread_dims(self, "output_padding", &o->output_padding, axes, 0) : MX_OK;
}

static mx_code build(mx_block *self)
{
    MX_SCOPE;
    conv_options o = options_of(self);
    const int axes = spatial_axes(self), layout = mx_layout_number(self, o.layout, axes);
    mx_shape_t bias = {.ndim = 1, .dim = {o.channels}};
    if (layout < 0 || spread_all(self, &o, axes) || prepare(self, &o, layout))
        return mx_error_code();
    if (o.in_channels % o.groups || o.channels % o.groups)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: in_channels=%lld or channels=%lld is not divisible by groups=%lld",
                       self->class_name, (long long)o.in_channels, (long long)o.channels, (long long)o.groups);
    if (mx_layer_parameter(self, "weight", weight_shape(self, &o, layout), o.weight_initializer, MX_FLOAT32,
                           MX_GRAD_WRITE, true) < 0)
        return mx_error_code();
    if (o.use_bias && mx_layer_parameter(self, "bias", bias, mx_initializer_or(o.bias_initializer, "zeros"), MX_FLOAT32,
                                         MX_GRAD_WRITE, true) < 0)
        return mx_error_code();
    return mx_layer_activation(self, o.activation) ? MX_OK : mx_error_code();
}

static mx_array *run(mx_block *self, mx_op *op, mx_array *x)
{
    mx_array *inputs[] = {x, mx_own(self, 0, x), mx_own(self, self->own.length > 1 ? 1 : -1, x)};
    return mx_activate(self, mx_call_one(op, self->prepared, 3, inputs, NULL));
}
static mx_array *forward(mx_block *self, mx_arrays in) { return run(self, MX_OP("Convolution"), in.v[0]); }
static mx_array *forward_transposed(mx_block *self, mx_arrays in) { return run(self, MX_OP("Deconvolution"), in.v[0]); }

static bool all_are(const mx_dims *dims, int64_t value)
{
    for (int i = 0; i < dims->n; i++)
        if (dims->d[i] != value)
            return false;
    return true;
}

static void take_prepared(const mx_block *self, conv_options *o)
{
    const mx_convolution_attrs *c = self->prepared;
    const mx_deconvolution_attrs *d = self->prepared;
#define TAKE(a) \
    o->kernel_size = (a)->kernel, o->strides = (a)->stride, o->padding = (a)->pad, o->dilation = (a)->dilate, \
    o->groups = (a)->num_group, o->use_bias = !(a)->no_bias
    if (is_transpose(self))
        TAKE(d);
    else
        TAKE(c);
#undef TAKE
}

static void print(mx_block *self, mx_text *text)
{
    char buffer[MX_SHAPE_TEXT];
    conv_options o = options_of(self);
    const int axes = spatial_axes(self);
    const mx_dims shape = mx_parameter_shape(self->own.items[0]);
    take_prepared(self, &o); /* which a user may have changed */
    const bool last = mx_channels_last(mx_layout_number(self, o.layout, axes));
    const int64_t in = is_transpose(self) ? shape.d[0] : shape.d[last ? axes + 1 : 1] * o.groups;
    mx_text_print(text, "%s(", self->class_name);
    mx_print_size(text, in);
    mx_text_print(text, " -> %lld, kernel_size=%s", (long long)o.channels, mx_dims_text(&o.kernel_size, buffer));
    mx_text_print(text, ", stride=%s", mx_dims_text(&o.strides, buffer));
    if (!all_are(&o.padding, 0))
        mx_text_print(text, ", padding=%s", mx_dims_text(&o.padding, buffer));
    if (!all_are(&o.dilation, 1))
        mx_text_print(text, ", dilation=%s", mx_dims_text(&o.dilation, buffer));
    if (o.groups != 1)
        mx_text_print(text, ", groups=%lld", (long long)o.groups);
    if (!o.use_bias)
        mx_text_add(text, ", bias=False");
    if (o.activation)
        mx_text_print(text, ", Activation(%s)", o.activation);
    mx_text_add(text, ")");
}

#define KEYWORDS "kernel stride dilate pad num_filter num_group no_bias layout"
static const mx_layer convolution = {.single = true, .build = build,
                                     .forward = forward,
                                     .print = print,
                                     .op = "Convolution",
                                     .kwargs = KEYWORDS},
                      transposed = {.single = true, .build = build, .forward = forward_transposed, .print = print, .op = "Deconvolution",
                                    .kwargs = KEYWORDS " adj"};

#define ROW(name_, doc_, schema_, methods_, c) \
    {.kind = MX_LAYER, .name = name_, .doc = doc_, .schema = &schema_, .positional = 2, .hint = "conv", .node = "fwd", .methods = &methods_, .c_name = c}
mx_class mx_classes_conv[] = {
    ROW("Conv1D", "convolution over one axis, such as time", conv1d_schema, convolution, "conv1d"),
    ROW("Conv2D", "convolution over two axes, such as an image", conv2d_schema, convolution, "conv2d"),
    ROW("Conv3D", "convolution over three axes, such as a volume", conv3d_schema, convolution, "conv3d"),
    ROW("Conv1DTranspose", "transposed convolution over one axis", conv1d_transpose_schema, transposed, "conv1d_transpose"),
    ROW("Conv2DTranspose", "transposed convolution over two axes", conv2d_transpose_schema, transposed, "conv2d_transpose"),
    ROW("Conv3DTranspose", "transposed convolution over three axes", conv3d_transpose_schema, transposed, "conv3d_transpose"),
    {0},
};
