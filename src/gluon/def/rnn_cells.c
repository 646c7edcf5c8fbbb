/* Recurrent cells: RNNCell, LSTMCell, GRUCell; one step of what the layers of rnn.c do for whole sequences.
 *
 * Inputs: x (N, C), then, if wanted, the states of the step before: h, for LSTM also c, both (N, H); without them the
 * states are zeros.  Result: the output, which is h', then the new states.
 *
 *     mx_arrays out = mx_block_call_many(mx_lstm_cell(650), MX_ARRAYS(x, h, c));    out, h, c
 *
 *     RNN:   h' = act(i2h x + h2h h)
 *     LSTM:  i, f, g, o = i2h x + h2h h;   c' = s(f) c + s(i) tanh(g),   h' = s(o) tanh(c')
 *     GRU:   r, z, n = i2h x, h2h h each:  n = tanh(i2h + s(r) h2h),     h' = (1 - s(z)) n + s(z) h
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "exec/list.h"
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"

#define SIZE(X) X(INT, hidden_size, REQUIRED, "1..10000000", "size of the state")
#define REST(X) \
    X(PTR, i2h_weight_initializer, "None", "mx_initializer", "of the weight of inputs; None: the network's") \
    X(PTR, h2h_weight_initializer, "None", "mx_initializer", "of the weight of states; None: the network's") \
    X(PTR, i2h_bias_initializer, "zeros", "mx_initializer", "start of the bias of inputs") \
    X(PTR, h2h_bias_initializer, "zeros", "mx_initializer", "start of the bias of states") \
    X(INT, input_size, "0", "0..", "number of features; 0: known at the first forward")
#define RNN_CELL_OPTIONS(X) SIZE(X) X(STR, activation, "tanh", "", "relu, sigmoid, tanh or softsign") REST(X)
MX_ATTRS(rnn_cell, RNN_CELL_OPTIONS)
#define GATED_OPTIONS(X) SIZE(X) REST(X)
MX_ATTRS(gated_cell, GATED_OPTIONS)

enum { I2H_WEIGHT, H2H_WEIGHT, I2H_BIAS, H2H_BIAS };

static mx_code build(mx_block *self, int64_t rows, int64_t hidden, int64_t inputs, void *const start[4])
{
    MX_SCOPE;
    const mx_shape_t shapes[] = {{.ndim = 2, .dim = {rows, mx_known_size(inputs)}}, {.ndim = 2, .dim = {rows, hidden}},
                                 {.ndim = 1, .dim = {rows}}, {.ndim = 1, .dim = {rows}}};
    static const char *const names[] = {"i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"};
    for (int i = 0; i < 4; i++)
        if (mx_layer_parameter(self, names[i], shapes[i],
                               i < I2H_BIAS ? start[i] : mx_initializer_or(start[i], "zeros"), MX_FLOAT32,
                               MX_GRAD_WRITE, true) < 0)
            return mx_error_code();
    return MX_OK;
}

#define STARTS(o) \
    (void *[]){(o)->i2h_weight_initializer, (o)->h2h_weight_initializer, (o)->i2h_bias_initializer, (o)->h2h_bias_initializer}

static mx_code build_rnn(mx_block *self)
{
    const mx_rnn_cell_attrs *o = mx_options(self);
    mx_code code = build(self, o->hidden_size, o->hidden_size, o->input_size, STARTS(o));
    return code ? code : mx_layer_activation(self, o->activation) ? MX_OK : mx_error_code();
}
static mx_code build_lstm(mx_block *self)
{
    const mx_gated_cell_attrs *o = mx_options(self);
    return build(self, 4 * o->hidden_size, o->hidden_size, o->input_size, STARTS(o));
}
static mx_code build_gru(mx_block *self)
{
    const mx_gated_cell_attrs *o = mx_options(self);
    return build(self, 3 * o->hidden_size, o->hidden_size, o->input_size, STARTS(o));
}

/* State number i (from 1); one that is absent is zeros of the shape of a product's gate, (N, H). */
static mx_array *state(mx_arrays in, int64_t i, mx_array *like)
{
    return i < in.n && in.v[i] != MX_NONE ? in.v[i] : mx_zeros_like(like);
}

static mx_array *product(mx_block *self, mx_array *x, bool of_state, int64_t rows)
{
    return mx_fully_connected(x, mx_own(self, of_state ? H2H_WEIGHT : I2H_WEIGHT, x),
                              mx_own(self, of_state ? H2H_BIAS : I2H_BIAS, x), .num_hidden = rows);
}

static mx_arrays results(mx_array *output, mx_array *cell)
{
    mx_array **list = output && (cell || mx_error_code() == MX_OK) ? mx_list_new(cell ? 3 : 2) : NULL;
    if (!list)
        return mx_list_failed();
    list[0] = list[1] = output;
    if (cell)
        list[2] = cell;
    return (mx_arrays){list, cell ? 3 : 2};
}

static mx_arrays step_rnn(mx_block *self, mx_arrays in)
{
    const int64_t hidden = ((const mx_rnn_cell_attrs *)mx_options(self))->hidden_size;
    mx_array *i2h = product(self, in.v[0], false, hidden), *h2h = product(self, state(in, 1, i2h), true, hidden);
    return results(mx_activate(self, mx_elemwise_add(i2h, h2h)), NULL);
}

static mx_arrays step_lstm(mx_block *self, mx_arrays in)
{
    const int64_t hidden = ((const mx_gated_cell_attrs *)mx_options(self))->hidden_size;
    mx_array *i2h = product(self, in.v[0], false, 4 * hidden);
    mx_array *like = in.n > 2 ? i2h : mx_slice_axis(i2h, .axis = 1, .begin = 0, .end = hidden);
    mx_arrays g = mx_split(mx_elemwise_add(i2h, product(self, state(in, 1, like), true, 4 * hidden)), .num_outputs = 4);
    if (g.n != 4)
        return mx_list_failed();
    mx_array *c = mx_elemwise_add(mx_elemwise_mul(mx_sigmoid(g.v[1]), state(in, 2, like)),
                                  mx_elemwise_mul(mx_sigmoid(g.v[0]), mx_tanh(g.v[2])));
    mx_array *h = mx_elemwise_mul(mx_sigmoid(g.v[3]), mx_tanh(c));
    return c ? results(h, c) : mx_list_failed();
}

static mx_arrays step_gru(mx_block *self, mx_arrays in)
{
    const int64_t hidden = ((const mx_gated_cell_attrs *)mx_options(self))->hidden_size;
    mx_array *i2h = product(self, in.v[0], false, 3 * hidden);
    mx_array *h = state(in, 1, mx_slice_axis(i2h, .axis = 1, .begin = 0, .end = hidden));
    mx_arrays x = mx_split(i2h, .num_outputs = 3), s = mx_split(product(self, h, true, 3 * hidden), .num_outputs = 3);
    if (x.n != 3 || s.n != 3)
        return mx_list_failed();
    mx_array *r = mx_sigmoid(mx_elemwise_add(x.v[0], s.v[0])), *z = mx_sigmoid(mx_elemwise_add(x.v[1], s.v[1]));
    mx_array *n = mx_tanh(mx_elemwise_add(x.v[2], mx_elemwise_mul(r, s.v[2])));
    return results(mx_elemwise_add(n, mx_elemwise_mul(z, mx_elemwise_sub(h, n))), NULL);
}

/* LSTMCell(5 -> 40) */
static void print(mx_block *self, mx_text *text)
{
    const mx_dims shape = mx_parameter_shape(self->own.items[I2H_WEIGHT]);
    mx_text_print(text, "%s(", self->cls->name);
    mx_print_size(text, shape.d[1]);
    mx_text_print(text, " -> %lld)", (long long)shape.d[0]);
}

#define METHODS(how, step, most) {.build = how, .forward_many = step, .print = print, .min_inputs = 1, .max_inputs = most}
static const mx_layer rnn = METHODS(build_rnn, step_rnn, 2), lstm = METHODS(build_lstm, step_lstm, 3),
                      gru = METHODS(build_gru, step_gru, 2);

mx_class mx_classes_rnn_cells[] = {
    {.kind = MX_LAYER, .name = "RNNCell", .doc = "a step of a plain recurrent network: h' = act(i2h x + h2h h)", .schema = &rnn_cell_schema,
     .positional = 1, .methods = &rnn, .group = "cells", .c_name = "rnn_cell", .hint = "rnn"},
    {.kind = MX_LAYER, .name = "LSTMCell", .doc = "a step of long short-term memory", .schema = &gated_cell_schema, .positional = 1,
     .methods = &lstm, .group = "cells", .c_name = "lstm_cell", .hint = "lstm"},
    {.kind = MX_LAYER, .name = "GRUCell", .doc = "a step of gated recurrent units", .schema = &gated_cell_schema, .positional = 1, .methods = &gru,
     .group = "cells", .c_name = "gru_cell", .hint = "gru"},
    {0},
};
