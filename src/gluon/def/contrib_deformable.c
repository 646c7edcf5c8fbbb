/* Deformable convolutions: an ordinary convolution computes the offsets (and the mask) that move the window of a second
 * one, cell by cell.
 *
 *     offsets = conv(x; offset_weight, offset_bias)                (N, 2 G K, H', W'), modulated (N, 3 G K, H', W')
 *     y       = deformable_conv(x, offsets; deformable_conv_weight, deformable_conv_bias)
 *
 * G is the number of deformable groups, K the number of cells of the window.  Offsets begin at zero, so that the layer
 * begins as an ordinary convolution.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/block/layers.h"
#include "gluon/op.gen.h"

#define OPTIONS(X) \
    X(INT, channels, REQUIRED, "1..2147483647", "number of output channels") \
    X(DIMS, kernel_size, "(1, 1)", "", "rows and columns of the window") \
    X(DIMS, strides, "(1, 1)", "", "step of the window") \
    X(DIMS, padding, "(0, 0)", "", "zeros added on both sides") \
    X(DIMS, dilation, "(1, 1)", "", "dilation of the window") \
    X(INT, groups, "1", "1..2147483647", "channels are split into this many independent groups") \
    X(INT, num_deformable_group, "1", "1..2147483647", "groups of channels with offsets of their own") \
    X(STR, layout, "NCHW", "", "order of the axes: NCHW") \
    X(BOOL, use_bias, "True", "", "learn a bias") \
    X(INT, in_channels, "0", "0..", "number of input channels; 0: inferred at the first forward") \
    X(STR, activation, "None", "", "relu, sigmoid, tanh ...; None: no activation") \
    X(PTR, weight_initializer, "None", "mx_initializer", "of the weight; None: the network's") \
    X(PTR, bias_initializer, "zeros", "mx_initializer", "initial value of the bias") \
    X(PTR, offset_weight_initializer, "zeros", "mx_initializer", "initial value of the offsets' weight") \
    X(PTR, offset_bias_initializer, "zeros", "mx_initializer", "initial value of the offsets' bias") \
    X(BOOL, offset_use_bias, "True", "", "learn a bias of the offsets")
MX_ATTRS(deformable_layer, OPTIONS)

enum { OFFSET_WEIGHT, OFFSET_BIAS, WEIGHT, BIAS, ROLES };

/* Checked options, and the number of each parameter; -1: the layer has none. */
typedef struct deformable {
    mx_dims kernel, stride, pad, dilate;
    int64_t cells; /* G K */
    int own[ROLES];
} deformable;

static const mx_layer plain_layer, modulated_layer;
static bool is_modulated(const mx_block *self) { return self->layer == &modulated_layer; }

static mx_code spread(const mx_block *self, deformable *d)
{
    if (mx_spread_dims(self, "kernel_size", &d->kernel, 2, 1) || mx_spread_dims(self, "strides", &d->stride, 2, 1) ||
        mx_spread_dims(self, "padding", &d->pad, 2, 0))
        return mx_error_code();
    return mx_spread_dims(self, "dilation", &d->dilate, 2, 1);
}

/* One of the four parameters; weights are (O, C / groups, rows, columns). */
static mx_code add(mx_block *self, deformable *d, int role)
{
    const mx_deformable_layer_attrs *o = mx_options(self);
    const bool offsets = role == OFFSET_WEIGHT || role == OFFSET_BIAS, bias = role == OFFSET_BIAS || role == BIAS;
    void *const starts[] = {mx_initializer_or(o->offset_weight_initializer, "zeros"),
                            mx_initializer_or(o->offset_bias_initializer, "zeros"), o->weight_initializer,
                            mx_initializer_or(o->bias_initializer, "zeros")};
    static const char *const names[] = {"offset_weight", "offset_bias", "deformable_conv_weight",
                                        "deformable_conv_bias"};
    const int64_t out = offsets ? (is_modulated(self) ? 3 : 2) * d->cells : o->channels;
    const int64_t in = o->in_channels > 0 ? o->in_channels / o->groups : -1;
    mx_shape_t shape = {.ndim = bias ? 1 : 4, .dim = {out, in, d->kernel.d[0], d->kernel.d[1]}};
    if (role == BIAS ? !o->use_bias : role == OFFSET_BIAS && !o->offset_use_bias)
        return MX_OK;
    d->own[role] = mx_layer_parameter(self, names[role], shape, starts[role], MX_FLOAT32, MX_GRAD_WRITE, true);
    return d->own[role] < 0 ? mx_error_code() : MX_OK;
}

static mx_code build(mx_block *self)
{
    MX_SCOPE;
    static const int plain_order[] = {OFFSET_WEIGHT, OFFSET_BIAS, WEIGHT, BIAS},
                     modulated_order[] = {WEIGHT, BIAS, OFFSET_WEIGHT, OFFSET_BIAS};
    const mx_deformable_layer_attrs *o = mx_options(self);
    deformable *d = mx_layer_prepare(self, sizeof *d);
    if (!d)
        return mx_error_code();
    *d = (deformable){o->kernel_size, o->strides, o->padding, o->dilation, 0, {-1, -1, -1, -1}};
    if (spread(self, d))
        return mx_error_code();
    if (!o->layout || strcmp(o->layout, "NCHW"))
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: layout='%s', wanted NCHW", self->class_name,
                       o->layout ? o->layout : "None");
    if (o->in_channels % o->groups || o->channels % o->groups)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: in_channels=%lld or channels=%lld is not divisible by groups=%lld",
                       self->class_name, (long long)o->in_channels, (long long)o->channels, (long long)o->groups);
    d->cells = o->num_deformable_group * d->kernel.d[0] * d->kernel.d[1];
    for (int i = 0; i < ROLES; i++)
        if (add(self, d, is_modulated(self) ? modulated_order[i] : plain_order[i]))
            return mx_error_code();
    return mx_layer_activation(self, o->activation) ? MX_OK : mx_error_code();
}

static mx_array *offsets_of(mx_block *self, const deformable *d, mx_array *x)
{
    const mx_deformable_layer_attrs *o = mx_options(self);
    return mx_convolution(x, mx_own(self, d->own[OFFSET_WEIGHT], x), .bias = mx_own(self, d->own[OFFSET_BIAS], x),
                          .kernel = d->kernel, .num_filter = (is_modulated(self) ? 3 : 2) * d->cells,
                          .stride = d->stride, .pad = d->pad, .dilate = d->dilate, .num_group = o->groups,
                          .no_bias = d->own[OFFSET_BIAS] < 0);
}

#define GEOMETRY(d, o) \
    .kernel = (d)->kernel, .num_filter = (o)->channels, .stride = (d)->stride, .pad = (d)->pad, .dilate = (d)->dilate, \
    .num_group = (o)->groups, .num_deformable_group = (o)->num_deformable_group, .no_bias = (d)->own[BIAS] < 0

static mx_array *forward_plain(mx_block *self, mx_arrays in)
{
    const mx_deformable_layer_attrs *o = mx_options(self);
    const deformable *d = self->prepared;
    mx_array *x = in.v[0];
    return mx_activate(self, mx_deformable_convolution(x, offsets_of(self, d, x), mx_own(self, d->own[WEIGHT], x),
                                                       .bias = mx_own(self, d->own[BIAS], x), GEOMETRY(d, o)));
}

/* The last third of the offsets are the mask: 2 sigmoid(z), one where z is 0. */
static mx_array *forward_modulated(mx_block *self, mx_arrays in)
{
    const mx_deformable_layer_attrs *o = mx_options(self);
    const deformable *d = self->prepared;
    mx_array *x = in.v[0], *both = offsets_of(self, d, x);
    mx_array *offsets = mx_slice_axis(both, .axis = 1, .begin = 0, .end = 2 * d->cells);
    mx_array *mask = mx_slice_axis(both, .axis = 1, .begin = 2 * d->cells, .end = 3 * d->cells);
    mask = mx_mul_scalar(mx_sigmoid(mask), .scalar = 2);
    return mx_activate(self,
                       mx_modulated_deformable_convolution(x, offsets, mask, mx_own(self, d->own[WEIGHT], x),
                                                           .bias = mx_own(self, d->own[BIAS], x), GEOMETRY(d, o)));
}

/* DeformableConvolution(2 -> 4, kernel_size=(3, 3), stride=(1, 1)) */
static void print(mx_block *self, mx_text *text)
{
    char buffer[MX_SHAPE_TEXT];
    const mx_deformable_layer_attrs *o = mx_options(self);
    const deformable *d = self->prepared;
    const int64_t in = mx_parameter_shape(self->own.items[d->own[WEIGHT]]).d[1];
    mx_text_print(text, "%s(", self->class_name);
    mx_print_size(text, in > 0 ? in * o->groups : in);
    mx_text_print(text, " -> %lld, kernel_size=%s", (long long)o->channels, mx_dims_text(&d->kernel, buffer));
    mx_text_print(text, ", stride=%s)", mx_dims_text(&d->stride, buffer));
}

static const mx_layer plain_layer = {.single = true, .build = build, .forward = forward_plain, .print = print},
                      modulated_layer = {.single = true, .build = build, .forward = forward_modulated, .print = print};

mx_class mx_classes_contrib_deformable[] = {
    {.kind = MX_LAYER, .name = "DeformableConvolution", .doc = "convolution whose window is moved cell by cell by offsets that are learned",
     .schema = &deformable_layer_schema, .positional = 1, .hint = "deformable_conv", .methods = &plain_layer, .c_name = "deformable_conv",
     .group = "contrib"},
    {.kind = MX_LAYER, .name = "ModulatedDeformableConvolution", .doc = "deformable convolution whose cells are also weighted by a learned mask",
     .schema = &deformable_layer_schema, .positional = 1, .hint = "modulated_deformable_conv", .methods = &modulated_layer,
     .c_name = "modulated_deformable_conv", .group = "contrib"},
    {0},
};
