/* Convolutional recurrent cells: Conv1DRNNCell ... Conv3DGRUCell.  The products of a cell are convolutions, so that its
 * states are images.
 *
 * Inputs: x (N, C, *space), then the states of the previous step: h, for LSTM also c, both (N, hidden_channels, *space');
 * without them the states are zeros.  Results: the output, which is h', then the new states.
 *
 *     i2h = conv(x; pad, dilate),   h2h = conv(h), padded so that the state keeps its size
 *
 * The gates, computed from the two products, are in gluon/rnn/gates.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/block/layers.h"
#include "gluon/op.gen.h"
#include "gluon/rnn/gates.h"

#define OPTIONS(X, zeros, ones, order) \
    X(DIMS, input_shape, REQUIRED, "", "shape of one input without the batch") \
    X(INT, hidden_channels, REQUIRED, "1..10000000", "channels of the state") \
    X(DIMS, i2h_kernel, REQUIRED, "", "window over the input") \
    X(DIMS, h2h_kernel, REQUIRED, "", "window over the state: odd numbers") \
    X(DIMS, i2h_pad, zeros, "", "cells added to the input on both sides") \
    X(DIMS, i2h_dilate, ones, "", "dilation of the window over the input") \
    X(DIMS, h2h_dilate, ones, "", "dilation of the window over the state") \
    X(PTR, i2h_weight_initializer, "None", "mx_initializer", "of the weight of inputs; None: the network's") \
    X(PTR, h2h_weight_initializer, "None", "mx_initializer", "of the weight of states; None: the network's") \
    X(PTR, i2h_bias_initializer, "zeros", "mx_initializer", "initial value of the bias of inputs") \
    X(PTR, h2h_bias_initializer, "zeros", "mx_initializer", "initial value of the bias of states") \
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
    return mx_cell_set_activation(self, MX_CELL_ACT, o->activation);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* (N, hidden, *space'), or (N, *space', hidden): the size that the convolution of the input gives. */
static mx_dims state_shape(const mx_block *self, int64_t batch_size)
{
    const options *o = mx_options(self);
    const cell *c = self->prepared;
    const bool last = mx_channels_last(c->layout);
    mx_dims shape = {.n = c->axes + 2, .d = {batch_size}};
    shape.d[c->channel_axis] = c->hidden;
    for (int i = 0; i < c->axes; i++) {
        const int64_t window = c->i2h_dilate.d[i] * (c->i2h_kernel.d[i] - 1);
        shape.d[(last ? 1 : 2) + i] = o->input_shape.d[(last ? 0 : 1) + i] + 2 * c->i2h_pad.d[i] - window;
    }
    return shape;
}

static mx_code one_state(mx_block *self, int64_t batch_size, mx_state_infos *infos)
{
    return mx_cell_add_state(infos, state_shape(self, batch_size), ((const options *)mx_options(self))->conv_layout);
}
static mx_code two_states(mx_block *self, int64_t batch_size, mx_state_infos *infos)
{
    const mx_code code = one_state(self, batch_size, infos);
    return code ? code : one_state(self, batch_size, infos);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static mx_array *i2h(mx_block *self, mx_array *x)
{
    const cell *c = self->prepared;
    mx_cell_named(self, x, "i2h");
    return mx_convolution(x, mx_own(self, I2H_WEIGHT, x), .bias = mx_own(self, I2H_BIAS, x), .kernel = c->i2h_kernel,
                          .dilate = c->i2h_dilate, .pad = c->i2h_pad, .num_filter = c->gates * c->hidden,
                          .layout = c->layout);
}
static mx_array *h2h(mx_block *self, mx_array *h)
{
    const cell *c = self->prepared;
    mx_cell_named(self, h, "h2h");
    return mx_convolution(h, mx_own(self, H2H_WEIGHT, h), .bias = mx_own(self, H2H_BIAS, h), .kernel = c->h2h_kernel,
                          .dilate = c->h2h_dilate, .pad = c->h2h_pad, .num_filter = c->gates * c->hidden,
                          .layout = c->layout);
}

static mx_gates gates_at(const mx_block *self)
{
    return (mx_gates){.axis = ((const cell *)self->prepared)->channel_axis};
}

static mx_arrays step_rnn(mx_block *self, mx_arrays in)
{
    const mx_gates g = gates_at(self);
    mx_array *x = i2h(self, in.v[0]), *h = h2h(self, in.v[1]);
    return mx_gates_results(mx_gates_rnn(self, &g, x, h), NULL, false);
}
static mx_arrays step_lstm(mx_block *self, mx_arrays in)
{
    const mx_gates g = gates_at(self);
    mx_array *x = i2h(self, in.v[0]), *h = h2h(self, in.v[1]), *c = in.v[2];
    mx_array *output = mx_gates_lstm(self, &g, x, h, &c);
    return mx_gates_results(output, c, true);
}
static mx_arrays step_gru(mx_block *self, mx_arrays in)
{
    const mx_gates g = gates_at(self);
    mx_array *x = i2h(self, in.v[0]), *h = h2h(self, in.v[1]);
    return mx_gates_results(mx_gates_gru(self, &g, x, h, in.v[1]), NULL, false);
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

static const mx_cell_methods rnn_steps = {.step = step_rnn, .state_info = one_state, .states = 1},
                             lstm_steps = {.step = step_lstm, .state_info = two_states, .states = 2},
                             gru_steps = {.step = step_gru, .state_info = one_state, .states = 1};
#define METHODS(steps, most) \
    {.build = build, .forward_many = mx_cell_forward, .cell = &steps, .print = print, .min_inputs = 1, .max_inputs = most}
static const mx_layer rnn = METHODS(rnn_steps, 2), lstm = METHODS(lstm_steps, 3), gru = METHODS(gru_steps, 2);

#define ROW(axes, type, kind_, shown) \
    {.kind = MX_LAYER, .name = "Conv" #axes "D" type "Cell", .doc = shown " whose products are convolutions over " #axes " axes", \
     .schema = &conv_cell##axes##_schema, .positional = 4, .hint = "conv_" #kind_, .methods = &kind_, \
     .c_name = "conv" #axes "d_" #kind_ "_cell", .group = "cells"}
#define ROWS(axes) ROW(axes, "RNN", rnn, "a recurrent cell"), ROW(axes, "LSTM", lstm, "an LSTM cell"), ROW(axes, "GRU", gru, "a GRU cell")
mx_class mx_classes_contrib_cells[] = {ROWS(1), ROWS(2), ROWS(3), {0}};
