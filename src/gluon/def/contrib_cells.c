/* Convolutional recurrent cells: Conv1DRNNCell ... Conv3DGRUCell.  The products of a cell are convolutions, so that its
 * states are images.
 *
 * Inputs: x (N, C, *space), then, if wanted, the states of the step before: h, for LSTM also c, both
 * (N, hidden_channels, *space').  Result: the output, which is h'; if states were given, the new ones follow.
 *
 *     mx_arrays out = mx_block_call_many(cell, MX_ARRAYS(x, h, c));    out, h, c
 *
 *     i2h = conv(x; pad, dilate),   h2h = conv(h), padded so that the size of the state stays
 *     RNN:   h' = act(i2h + h2h)
 *     LSTM:  i, f, g, o = i2h + h2h;   c' = s(f) c + s(i) act(g),   h' = s(o) act(c')
 *     GRU:   r, z, n: n = act(i2h + s(r) h2h),   h' = (1 - s(z)) n + s(z) h
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "exec/list.h"
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"

#define OPTIONS(X, zeros, ones, order) \
    X(DIMS, input_shape, REQUIRED, "", "shape of one input without the batch") \
    X(INT, hidden_channels, REQUIRED, "1..10000000", "channels of the state") \
    X(DIMS, i2h_kernel, REQUIRED, "", "window over the input") \
    X(DIMS, h2h_kernel, REQUIRED, "", "window over the state: odd numbers") \
    X(DIMS, i2h_pad, zeros, "", "cells added to the input on both sides") \
    X(DIMS, i2h_dilate, ones, "", "distance between the cells of the window over the input") \
    X(DIMS, h2h_dilate, ones, "", "distance between the cells of the window over the state") \
    X(PTR, i2h_weight_initializer, "None", "mx_initializer", "of the weight of inputs; None: the network's") \
    X(PTR, h2h_weight_initializer, "None", "mx_initializer", "of the weight of states; None: the network's") \
    X(PTR, i2h_bias_initializer, "zeros", "mx_initializer", "start of the bias of inputs") \
    X(PTR, h2h_bias_initializer, "zeros", "mx_initializer", "start of the bias of states") \
    X(STR, conv_layout, order, "", "order of the axes") \
    X(STR, activation, "tanh", "", "relu, sigmoid, tanh ...; None: no activation")
#define OPTIONS_1D(X) OPTIONS(X, "(0,)", "(1,)", "NCW")
#define OPTIONS_2D(X) OPTIONS(X, "(0, 0)", "(1, 1)", "NCHW")
#define OPTIONS_3D(X) OPTIONS(X, "(0, 0, 0)", "(1, 1, 1)", "NCDHW")
MX_ATTRS(conv_cell1, OPTIONS_1D)
MX_ATTRS(conv_cell2, OPTIONS_2D)
MX_ATTRS(conv_cell3, OPTIONS_3D)
typedef mx_conv_cell2_attrs options; /* all three have the same fields */

enum { I2H_WEIGHT, H2H_WEIGHT, I2H_BIAS, H2H_BIAS };

/* Checked options. */
typedef struct cell {
    int axes, layout, channel_axis;
    int64_t gates, hidden;
    mx_dims i2h_kernel, h2h_kernel, i2h_pad, h2h_pad, i2h_dilate, h2h_dilate;
} cell;

static const mx_layer rnn, lstm, gru;
static int64_t gates_of(const mx_block *self) { return self->layer == &lstm ? 4 : self->layer == &gru ? 3 : 1; }

/* ---- parameters -------------------------------------------------------------------------------------------------- */

/* (O, C, *kernel), or (O, *kernel, C) where channels are last. */
static mx_shape_t weight_shape(const cell *c, int64_t in, const mx_dims *kernel)
{
    const bool last = mx_channels_last(c->layout);
    mx_shape_t shape = {.ndim = c->axes + 2, .dim = {c->gates * c->hidden}};
    shape.dim[last ? c->axes + 1 : 1] = in;
    for (int i = 0; i < c->axes; i++)
        shape.dim[(last ? 1 : 2) + i] = kernel->d[i];
    return shape;
}

static mx_code check(const mx_block *self, const options *o, cell *c)
{
    if (o->input_shape.n != c->axes + 1)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: input_shape has %d numbers, wanted %d: channels and space, no batch",
                       self->class_name, o->input_shape.n, c->axes + 1);
    if (mx_spread_dims(self, "i2h_kernel", &c->i2h_kernel, c->axes, 1) ||
        mx_spread_dims(self, "h2h_kernel", &c->h2h_kernel, c->axes, 1) ||
        mx_spread_dims(self, "i2h_pad", &c->i2h_pad, c->axes, 0) ||
        mx_spread_dims(self, "i2h_dilate", &c->i2h_dilate, c->axes, 1) ||
        mx_spread_dims(self, "h2h_dilate", &c->h2h_dilate, c->axes, 1))
        return mx_error_code();
    c->h2h_pad.n = c->axes;
    for (int i = 0; i < c->axes; i++) {
        if (c->h2h_kernel.d[i] % 2 == 0)
            return mx_fail(MX_ERR_ATTRIBUTE, "%s: h2h_kernel holds %lld, wanted odd numbers: the state keeps its size",
                           self->class_name, (long long)c->h2h_kernel.d[i]);
        c->h2h_pad.d[i] = c->h2h_dilate.d[i] * (c->h2h_kernel.d[i] - 1) / 2;
    }
    return MX_OK;
}

static mx_code build(mx_block *self)
{
    MX_SCOPE;
    const options *o = mx_options(self);
    cell *c = mx_layer_prepare(self, sizeof *c);
    if (!c)
        return mx_error_code();
    *c = (cell){.axes = self->cls->name[4] - '0', .gates = gates_of(self), .hidden = o->hidden_channels,
                .i2h_kernel = o->i2h_kernel, .h2h_kernel = o->h2h_kernel, .i2h_pad = o->i2h_pad,
                .i2h_dilate = o->i2h_dilate, .h2h_dilate = o->h2h_dilate};
    if ((c->layout = mx_layout_number(self, o->conv_layout, c->axes)) < 0 || check(self, o, c))
        return mx_error_code();
    const bool last = mx_channels_last(c->layout);
    c->channel_axis = last ? c->axes + 1 : 1;
    const int64_t in = o->input_shape.d[last ? c->axes : 0];
    const mx_shape_t bias = {.ndim = 1, .dim = {c->gates * c->hidden}};
    const struct {
        const char *name;
        mx_shape_t shape;
        mx_initializer *start;
    } rows[] = {{"i2h_weight", weight_shape(c, mx_known_size(in), &c->i2h_kernel), o->i2h_weight_initializer},
                {"h2h_weight", weight_shape(c, c->hidden, &c->h2h_kernel), o->h2h_weight_initializer},
                {"i2h_bias", bias, mx_initializer_or(o->i2h_bias_initializer, "zeros")},
                {"h2h_bias", bias, mx_initializer_or(o->h2h_bias_initializer, "zeros")}};
    for (int i = 0; i < 4; i++)
        if (mx_layer_parameter(self, rows[i].name, rows[i].shape, rows[i].start, MX_FLOAT32, MX_GRAD_WRITE, true) < 0)
            return mx_error_code();
    return mx_layer_activation(self, o->activation) ? MX_OK : mx_error_code();
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static mx_array *product(mx_block *self, mx_array *x, bool of_state)
{
    const cell *c = self->prepared;
    return mx_convolution(
        x, mx_own(self, of_state ? H2H_WEIGHT : I2H_WEIGHT, x), .bias = mx_own(self, of_state ? H2H_BIAS : I2H_BIAS, x),
        .kernel = of_state ? c->h2h_kernel : c->i2h_kernel, .dilate = of_state ? c->h2h_dilate : c->i2h_dilate,
        .pad = of_state ? c->h2h_pad : c->i2h_pad, .num_filter = c->gates * c->hidden, .layout = c->layout);
}

/* The gates (N, hidden, *space) of a product (N, gates hidden, *space). */
static mx_arrays split(const mx_block *self, mx_array *x)
{
    const cell *c = self->prepared;
    return mx_split(x, .num_outputs = c->gates, .axis = c->channel_axis);
}

static mx_array *step_rnn(mx_block *self, mx_array *i2h, mx_array *h2h)
{
    return mx_activate(self, mx_elemwise_add(i2h, h2h));
}

static mx_array *step_gru(mx_block *self, mx_array *i2h, mx_array *h2h, mx_array *h)
{
    mx_arrays x = split(self, i2h), s = split(self, h2h);
    if (!x.n || !s.n)
        return NULL;
    mx_array *r = mx_sigmoid(mx_elemwise_add(x.v[0], s.v[0])), *z = mx_sigmoid(mx_elemwise_add(x.v[1], s.v[1]));
    mx_array *n = mx_activate(self, mx_elemwise_add(x.v[2], mx_elemwise_mul(r, s.v[2])));
    return mx_elemwise_add(mx_elemwise_mul(mx_rminus_scalar(z, .scalar = 1), n), mx_elemwise_mul(z, h));
}

/* Also gives the new cell through *c. */
static mx_array *step_lstm(mx_block *self, mx_array *i2h, mx_array *h2h, mx_array **c)
{
    mx_arrays g = split(self, mx_elemwise_add(i2h, h2h));
    if (!g.n)
        return NULL;
    mx_array *i = mx_sigmoid(g.v[0]), *f = mx_sigmoid(g.v[1]), *o = mx_sigmoid(g.v[3]);
    *c = mx_elemwise_add(mx_elemwise_mul(f, *c), mx_elemwise_mul(i, mx_activate(self, g.v[2])));
    return mx_elemwise_mul(o, mx_activate(self, *c));
}

/* A state of zeros: as large as one gate of the product of the input. */
static mx_array *zeros_like_gate(const mx_block *self, mx_array *i2h)
{
    const cell *c = self->prepared;
    return mx_zeros_like(mx_slice_axis(i2h, .axis = c->channel_axis, .begin = 0, .end = c->hidden));
}

static mx_arrays forward(mx_block *self, mx_arrays in)
{
    const int64_t wanted = self->layer == &lstm ? 2 : 1;
    const bool given = in.n > 1;
    if (given && in.n != 1 + wanted)
        return mx_fail(MX_ERR_ARGUMENT, "%s (%s): got %lld states, wanted %lld", self->name, self->class_name,
                       (long long)in.n - 1, (long long)wanted),
               mx_list_failed();
    mx_array *i2h = product(self, in.v[0], false);
    mx_array *h = given ? in.v[1] : zeros_like_gate(self, i2h);
    mx_array *c = wanted < 2 ? NULL : given ? in.v[2] : zeros_like_gate(self, i2h);
    mx_array *h2h = product(self, h, true), *out;
    if (self->layer == &lstm)
        out = step_lstm(self, i2h, h2h, &c);
    else
        out = self->layer == &gru ? step_gru(self, i2h, h2h, h) : step_rnn(self, i2h, h2h);
    mx_array **list = out ? mx_list_new(given ? 1 + wanted : 1) : NULL;
    if (!list)
        return mx_list_failed();
    list[0] = out;
    for (int64_t k = 1; given && k <= wanted; k++)
        list[k] = k == 1 ? out : c;
    return (mx_arrays){list, given ? 1 + wanted : 1};
}

/* Conv2DLSTMCell(3 -> 16, tanh, NCHW) */
static void print(mx_block *self, mx_text *text)
{
    const options *o = mx_options(self);
    const cell *c = self->prepared;
    mx_text_print(text, "%s(", self->class_name);
    mx_print_size(text, mx_parameter_shape(self->own.items[I2H_WEIGHT]).d[c->channel_axis]);
    mx_text_print(text, " -> %lld, %s, %s)", (long long)(c->gates * c->hidden), o->activation ? o->activation : "None",
                  o->conv_layout);
}

#define METHODS(most) {.build = build, .forward_many = forward, .print = print, .min_inputs = 1, .max_inputs = most}
static const mx_layer rnn = METHODS(2), lstm = METHODS(3), gru = METHODS(2);

#define ROW(axes, type, kind_, shown) \
    {.kind = MX_LAYER, .name = "Conv" #axes "D" type "Cell", .node = "fwd", .doc = shown " whose products are convolutions over " #axes " axes", \
     .schema = &conv_cell##axes##_schema, .positional = 4, .hint = "conv_" #kind_, .methods = &kind_, \
     .c_name = "conv" #axes "d_" #kind_ "_cell", .group = "contrib"}
#define ROWS(axes) ROW(axes, "RNN", rnn, "a recurrent cell"), ROW(axes, "LSTM", lstm, "an LSTM cell"), ROW(axes, "GRU", gru, "a GRU cell")
mx_class mx_classes_contrib_cells[] = {ROWS(1), ROWS(2), ROWS(3), {0}};
