/* Recurrent cells with dense products: RNNCell, LSTMCell, GRUCell, and LSTMPCell, whose state is projected.
 *
 *     mx_stepped step = mx_cell_step(mx_lstm_cell(650), x, states);
 *
 * Inputs: x (N, C), then the states of the previous step: h (N, H), for LSTM also c (N, H); without them the states are
 * zeros.  Results: the output, which is h', then the new states.  The gates, computed from the two products i2h x and
 * h2h h, are in gluon/rnn/gates.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"
#include "gluon/rnn/gates.h"

#define SIZE(X) X(INT, hidden_size, REQUIRED, "1..10000000", "size of the state")
#define WEIGHTS(X) \
    X(PTR, i2h_weight_initializer, "None", "mx_initializer", "of the weight of inputs; None: the network's") \
    X(PTR, h2h_weight_initializer, "None", "mx_initializer", "of the weight of states; None: the network's")
#define REST(X) \
    X(PTR, i2h_bias_initializer, "zeros", "mx_initializer", "initial value of the bias of inputs") \
    X(PTR, h2h_bias_initializer, "zeros", "mx_initializer", "initial value of the bias of states") \
    X(INT, input_size, "0", "0..", "number of features; 0: inferred at the first forward")
#define ACTIVATION(X) X(STR, activation, "tanh", "", "relu, sigmoid, tanh, softrelu or softsign; None: no activation")
#define RNN_CELL_OPTIONS(X) SIZE(X) ACTIVATION(X) WEIGHTS(X) REST(X)
MX_ATTRS(rnn_cell, RNN_CELL_OPTIONS)
#define LSTM_CELL_OPTIONS(X) \
    SIZE(X) WEIGHTS(X) REST(X) \
    ACTIVATION(X) \
    X(STR, recurrent_activation, "sigmoid", "", "of the gates")
MX_ATTRS(lstm_cell, LSTM_CELL_OPTIONS)
#define GRU_CELL_OPTIONS(X) SIZE(X) WEIGHTS(X) REST(X)
MX_ATTRS(gru_cell, GRU_CELL_OPTIONS)
#define LSTMP_CELL_OPTIONS(X) \
    SIZE(X) \
    X(INT, projection_size, REQUIRED, "1..10000000", "size of the state h") \
    WEIGHTS(X) \
    X(PTR, h2r_weight_initializer, "None", "mx_initializer", "of the projection; None: the network's") \
    REST(X)
MX_ATTRS(lstmp_cell, LSTMP_CELL_OPTIONS)

/* What a step of any cell needs; stored as the block's `prepared`. */
typedef struct dense_cell {
    int64_t gates, hidden, projection;                          /* projection 0: none */
    int i2h_weight, h2h_weight, h2r_weight, i2h_bias, h2h_bias; /* numbers of own parameters */
} dense_cell;

/* ---- parameters -------------------------------------------------------------------------------------------------- */

static int weight(mx_block *self, const char *name, int64_t rows, int64_t columns, void *start)
{
    const mx_shape_t shape = {.ndim = 2, .dim = {rows, columns}};
    return mx_layer_parameter(self, name, shape, start, MX_FLOAT32, MX_GRAD_WRITE, true);
}
static int bias(mx_block *self, const char *name, int64_t rows, void *start)
{
    const mx_shape_t shape = {.ndim = 1, .dim = {rows}};
    return mx_layer_parameter(self, name, shape, mx_initializer_or(start, "zeros"), MX_FLOAT32, MX_GRAD_WRITE, true);
}

/* start: initializers of i2h_weight, h2h_weight, i2h_bias, h2h_bias, h2r_weight. */
static mx_code build(mx_block *self, const dense_cell *sizes, int64_t inputs, void *const start[5])
{
    MX_SCOPE;
    dense_cell *c = mx_layer_prepare(self, sizeof *c);
    if (!c)
        return mx_error_code();
    *c = *sizes;
    const int64_t rows = c->gates * c->hidden;
    c->i2h_weight = weight(self, "i2h_weight", rows, mx_known_size(inputs), start[0]);
    c->h2h_weight = weight(self, "h2h_weight", rows, c->projection ? c->projection : c->hidden, start[1]);
    c->h2r_weight = c->projection ? weight(self, "h2r_weight", c->projection, c->hidden, start[4]) : 0;
    c->i2h_bias = bias(self, "i2h_bias", rows, start[2]);
    c->h2h_bias = bias(self, "h2h_bias", rows, start[3]);
    return c->i2h_weight < 0 || c->h2h_weight < 0 || c->h2r_weight < 0 || c->i2h_bias < 0 || c->h2h_bias < 0
               ? mx_error_code()
               : MX_OK;
}

#define STARTS(o) \
    (o)->i2h_weight_initializer, (o)->h2h_weight_initializer, (o)->i2h_bias_initializer, (o)->h2h_bias_initializer

static mx_code build_rnn(mx_block *self)
{
    const mx_rnn_cell_attrs *o = mx_options(self);
    const dense_cell sizes = {.gates = 1, .hidden = o->hidden_size};
    const mx_code code = build(self, &sizes, o->input_size, (void *[]){STARTS(o), NULL});
    return code ? code : mx_cell_set_activation(self, MX_CELL_ACT, o->activation);
}
static mx_code build_lstm(mx_block *self)
{
    const mx_lstm_cell_attrs *o = mx_options(self);
    const dense_cell sizes = {.gates = 4, .hidden = o->hidden_size};
    if (build(self, &sizes, o->input_size, (void *[]){STARTS(o), NULL}) ||
        mx_cell_set_activation(self, MX_CELL_ACT, o->activation))
        return mx_error_code();
    return mx_cell_set_activation(self, MX_CELL_RECURRENT_ACT, o->recurrent_activation);
}
static mx_code build_gru(mx_block *self)
{
    const mx_gru_cell_attrs *o = mx_options(self);
    const dense_cell sizes = {.gates = 3, .hidden = o->hidden_size};
    return build(self, &sizes, o->input_size, (void *[]){STARTS(o), NULL});
}
static mx_code build_lstmp(mx_block *self)
{
    const mx_lstmp_cell_attrs *o = mx_options(self);
    const dense_cell sizes = {.gates = 4, .hidden = o->hidden_size, .projection = o->projection_size};
    return build(self, &sizes, o->input_size, (void *[]){STARTS(o), o->h2r_weight_initializer});
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static mx_code one_state(mx_block *self, int64_t batch_size, mx_state_infos *infos)
{
    const dense_cell *c = self->prepared;
    return mx_cell_add_state(infos, MX_DIMS(batch_size, c->projection ? c->projection : c->hidden), "NC");
}
static mx_code two_states(mx_block *self, int64_t batch_size, mx_state_infos *infos)
{
    const dense_cell *c = self->prepared;
    const mx_code code = one_state(self, batch_size, infos);
    return code ? code : mx_cell_add_state(infos, MX_DIMS(batch_size, c->hidden), "NC");
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* i2h x + bias and h2h h + bias, both (N, gates hidden). */
static mx_array *i2h(mx_block *self, mx_array *x)
{
    const dense_cell *c = self->prepared;
    mx_cell_named(self, x, "i2h");
    return mx_fully_connected(x, mx_own(self, c->i2h_weight, x), mx_own(self, c->i2h_bias, x),
                              .num_hidden = c->gates * c->hidden);
}
static mx_array *h2h(mx_block *self, mx_array *h)
{
    const dense_cell *c = self->prepared;
    mx_cell_named(self, h, "h2h");
    return mx_fully_connected(h, mx_own(self, c->h2h_weight, h), mx_own(self, c->h2h_bias, h),
                              .num_hidden = c->gates * c->hidden);
}

static mx_arrays step_rnn(mx_block *self, mx_arrays in)
{
    static const mx_gates gates = {.axis = 1, .named = true};
    mx_array *x = i2h(self, in.v[0]), *h = h2h(self, in.v[1]);
    return mx_gates_results(mx_gates_rnn(self, &gates, x, h), NULL, false);
}

static mx_arrays step_lstm(mx_block *self, mx_arrays in)
{
    static const mx_gates gates = {.axis = 1, .named = true, .chosen = true};
    mx_array *x = i2h(self, in.v[0]), *h = h2h(self, in.v[1]), *c = in.v[2];
    mx_array *output = mx_gates_lstm(self, &gates, x, h, &c);
    return mx_gates_results(output, c, true);
}

static mx_arrays step_gru(mx_block *self, mx_arrays in)
{
    static const mx_gates gates = {.axis = 1, .named = true, .fixed = true};
    mx_array *x = i2h(self, in.v[0]), *h = h2h(self, in.v[1]);
    return mx_gates_results(mx_gates_gru(self, &gates, x, h, in.v[1]), NULL, false);
}

static mx_arrays step_lstmp(mx_block *self, mx_arrays in)
{
    static const mx_gates gates = {.axis = 1, .fixed = true, .out = "hidden"};
    const dense_cell *p = self->prepared;
    mx_array *x = i2h(self, in.v[0]), *h = h2h(self, in.v[1]), *c = in.v[2];
    mx_array *hidden = mx_gates_lstm(self, &gates, x, h, &c);
    mx_cell_named(self, hidden, "out");
    mx_array *output =
        mx_fully_connected(hidden, mx_own(self, p->h2r_weight, hidden), .num_hidden = p->projection, .no_bias = true);
    return mx_gates_results(output, c, true);
}

/* RNNCell(5 -> 10, tanh), LSTMCell(5 -> 40), LSTMPCell(5 -> 40 -> 4) */
static void print(mx_block *self, mx_text *text)
{
    const dense_cell *c = self->prepared;
    mx_text_print(text, "%s(", self->cls->name);
    mx_print_size(text, mx_parameter_shape(self->own.items[c->i2h_weight]).d[1]);
    mx_text_print(text, " -> %lld", (long long)(c->gates * c->hidden));
    if (c->gates == 1) {
        const mx_rnn_cell_attrs *o = mx_options(self);
        mx_text_print(text, ", %s", o->activation ? o->activation : "None");
    }
    if (c->projection)
        mx_text_print(text, " -> %lld", (long long)c->projection);
    mx_text_add(text, ")");
}

static const mx_cell_methods rnn_steps = {.step = step_rnn, .state_info = one_state, .states = 1},
                             lstm_steps = {.step = step_lstm, .state_info = two_states, .states = 2},
                             gru_steps = {.step = step_gru, .state_info = one_state, .states = 1},
                             lstmp_steps = {.step = step_lstmp, .state_info = two_states, .states = 2};
#define METHODS(how, steps, most) \
    {.build = how, .forward_many = mx_cell_forward, .cell = &steps, .print = print, .min_inputs = 1, .max_inputs = most}
static const mx_layer rnn = METHODS(build_rnn, rnn_steps, 2), lstm = METHODS(build_lstm, lstm_steps, 3),
                      gru = METHODS(build_gru, gru_steps, 2), lstmp = METHODS(build_lstmp, lstmp_steps, 3);

mx_class mx_classes_rnn_cells[] = {
    {.kind = MX_LAYER, .name = "RNNCell", .doc = "a step of a simple recurrent network: h' = act(i2h x + h2h h)", .schema = &rnn_cell_schema,
     .positional = 1, .methods = &rnn, .group = "cells", .c_name = "rnn_cell", .hint = "rnn"},
    {.kind = MX_LAYER, .name = "LSTMCell", .doc = "a step of long short-term memory", .schema = &lstm_cell_schema, .positional = 1,
     .methods = &lstm, .group = "cells", .c_name = "lstm_cell", .hint = "lstm"},
    {.kind = MX_LAYER, .name = "GRUCell", .doc = "a step of gated recurrent units", .schema = &gru_cell_schema, .positional = 1, .methods = &gru,
     .group = "cells", .c_name = "gru_cell", .hint = "gru"},
    {.kind = MX_LAYER, .name = "LSTMPCell", .doc = "a step of long short-term memory whose state h is projected", .schema = &lstmp_cell_schema,
     .positional = 2, .methods = &lstmp, .group = "cells", .c_name = "lstmp_cell", .hint = "lstmp"},
    {0},
};
