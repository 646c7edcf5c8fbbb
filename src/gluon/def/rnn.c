/* Recurrent layers: RNN, LSTM, GRU.
 *
 * Inputs: x (T, N, C) or (N, T, C); then, optionally, the initial states, each (layers * directions, N, H); with
 * use_sequence_length the length of every sequence (N) is the last input.  Result: the output (T, N, directions * H) in
 * the layout of x; if states were given, the final states follow.
 *
 *     mx_arrays out = mx_block_call_many(mx_lstm(650, .num_layers = 2), MX_ARRAYS(x, h, c));    out, h, c
 *
 * Parameters are separate, {l|r}{layer}_{i2h|h2h}_{weight|bias}, and are concatenated for the RNN operator.  In files
 * they are named after the equivalent cells: _unfused.0.i2h_weight, _unfused.0.r_cell.i2h_weight.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/list.h"
#include "gluon/block/layers.h"
#include "gluon/op.gen.h"
#include "graph/names.h"
#include "graph/node.h"
#include "op/formula/rnn.h"

#define INITIALIZERS(X) \
    X(PTR, i2h_weight_initializer, "None", "mx_initializer", "of the weights of inputs; None: the network's") \
    X(PTR, h2h_weight_initializer, "None", "mx_initializer", "of the weights of states; None: the network's") \
    X(PTR, i2h_bias_initializer, "zeros", "mx_initializer", "initial value of the biases of inputs") \
    X(PTR, h2h_bias_initializer, "zeros", "mx_initializer", "initial value of the biases of states")
#define SIZES(X) \
    X(INT, hidden_size, REQUIRED, "1..10000000", "size of the state") \
    X(INT, num_layers, "1", "1..10000", "number of layers")
#define KINDS(X) \
    X(STR, layout, "TNC", "", "axes of inputs and outputs: TNC or NTC") \
    X(FLOAT, dropout, "0", "0..1", "fraction of a layer's outputs that are dropped before the next layer in training") \
    X(BOOL, bidirectional, "False", "", "every layer also reads its input backwards")
#define INPUT(X) X(INT, input_size, "0", "0..", "number of features; 0: inferred at the first forward")
#define REST(X) \
    X(DTYPE, dtype, "float32", "", "element type of the parameters") \
    X(BOOL, use_sequence_length, "False", "", "the last input is the length of every sequence")

#define RNN_OPTIONS(X) \
    SIZES(X) \
    X(STR, activation, "relu", "", "relu or tanh") \
    KINDS(X) INITIALIZERS(X) INPUT(X) REST(X)
MX_ATTRS(rnn_layer, RNN_OPTIONS)
#define GRU_OPTIONS(X) SIZES(X) KINDS(X) INPUT(X) INITIALIZERS(X) REST(X)
MX_ATTRS(gru_layer, GRU_OPTIONS)
#define LSTM_OPTIONS(X) \
    SIZES(X) \
    KINDS(X) INPUT(X) INITIALIZERS(X) \
    X(INT, projection_size, "None", "1..10000000", "size to which the state is projected; None: no projection") \
    X(PTR, h2r_weight_initializer, "None", "mx_initializer", "of the projection; None: the network's") \
    X(FLOAT, state_clip_min, "None", "", "least value of a cell; needs state_clip_max") \
    X(FLOAT, state_clip_max, "None", "", "largest value of a cell; needs state_clip_min") \
    X(BOOL, state_clip_nan, "False", "", "clipping keeps NaN") \
    REST(X)
MX_ATTRS(lstm_layer, LSTM_OPTIONS)

/* What the three have in common; stored as the block's `prepared`. */
typedef struct recurrent {
    int mode; /* mx_rnn_mode */
    bool batch_first, bidirectional, lengths, clip_nan;
    int64_t hidden, layers, input, projection; /* MX_NONE_INT: none */
    double dropout, clip_min, clip_max;
    mx_dtype dtype;
} recurrent;

static const recurrent *layer_of(const mx_block *self) { return self->prepared; }
static int64_t directions(const recurrent *r) { return r->bidirectional ? 2 : 1; }
static bool projected(const recurrent *r) { return r->projection != MX_NONE_INT; }
static int64_t handed(const recurrent *r) { return projected(r) ? r->projection : r->hidden; } /* size of h */
static int per_network(const recurrent *r) { return projected(r) ? 5 : 4; } /* parameters of a layer and direction */
static int64_t state_count(const recurrent *r) { return r->mode == MX_CELL_LSTM ? 2 : 1; }

/* ---- parameters -------------------------------------------------------------------------------------------------- */

enum { I2H_WEIGHT, H2H_WEIGHT, I2H_BIAS, H2H_BIAS, H2R_WEIGHT };
static const char *const names[] = {"i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias", "h2r_weight"};

/* Shapes (G H, inputs), (G H, P), (G H), (G H), (P, H). */
static mx_shape_t shape_of(const recurrent *r, int64_t layer, int k)
{
    const int64_t gates = mx_rnn_gates(r->mode) * r->hidden;
    const int64_t inputs = layer ? directions(r) * handed(r) : mx_known_size(r->input);
    const mx_shape_t shapes[] = {{.ndim = 2, .dim = {gates, inputs}},
                                 {.ndim = 2, .dim = {gates, handed(r)}},
                                 {.ndim = 1, .dim = {gates}},
                                 {.ndim = 1, .dim = {gates}},
                                 {.ndim = 2, .dim = {handed(r), r->hidden}}};
    return shapes[k];
}

static mx_code make_parameters(mx_block *self, const recurrent *r, void *const init[])
{
    char name[64];
    for (int64_t layer = 0; layer < r->layers; layer++)
        for (int64_t d = 0; d < directions(r); d++)
            for (int k = 0; k < per_network(r); k++) {
                snprintf(name, sizeof name, "%c%lld_%s", d ? 'r' : 'l', (long long)layer, names[k]);
                const bool bias = k == I2H_BIAS || k == H2H_BIAS;
                if (mx_layer_parameter(self, name, shape_of(r, layer, k),
                                       bias ? mx_initializer_or(init[k], "zeros") : init[k], r->dtype, MX_GRAD_WRITE,
                                       true) < 0)
                    return mx_error_code();
            }
    return MX_OK;
}

static mx_code build(mx_block *self, const recurrent *r, const char *layout, void *const init[])
{
    MX_SCOPE;
    recurrent *kept = mx_layer_prepare(self, sizeof *kept);
    if (!kept)
        return mx_error_code();
    *kept = *r;
    kept->batch_first = layout && !strcmp(layout, "NTC");
    if (!kept->batch_first && (!layout || strcmp(layout, "TNC")))
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: layout='%s', wanted TNC or NTC", self->class_name,
                       layout ? layout : "None");
    if (isnan(r->clip_min) != isnan(r->clip_max) || r->clip_min > r->clip_max)
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: state_clip_min=%g and state_clip_max=%g, wanted both, in this order",
                       self->class_name, r->clip_min, r->clip_max);
    return make_parameters(self, kept, init);
}

#define COMMON(o) \
    .bidirectional = (o)->bidirectional, .lengths = (o)->use_sequence_length, .hidden = (o)->hidden_size, \
    .layers = (o)->num_layers, .input = (o)->input_size, .dropout = (o)->dropout, .dtype = (o)->dtype
#define PLAIN .projection = MX_NONE_INT, .clip_min = NAN, .clip_max = NAN
#define STARTS(o) \
    (o)->i2h_weight_initializer, (o)->h2h_weight_initializer, (o)->i2h_bias_initializer, (o)->h2h_bias_initializer

static mx_code build_rnn(mx_block *self)
{
    const mx_rnn_layer_attrs *o = mx_options(self);
    const bool relu = o->activation && !strcmp(o->activation, "relu");
    if (!relu && (!o->activation || strcmp(o->activation, "tanh")))
        return mx_fail(MX_ERR_ATTRIBUTE, "%s: activation='%s', wanted relu or tanh", self->class_name,
                       o->activation ? o->activation : "None");
    return build(self, &(recurrent){.mode = relu ? MX_CELL_RELU : MX_CELL_TANH, COMMON(o), PLAIN}, o->layout,
                 (void *[]){STARTS(o)});
}
static mx_code build_gru(mx_block *self)
{
    const mx_gru_layer_attrs *o = mx_options(self);
    return build(self, &(recurrent){.mode = MX_CELL_GRU, COMMON(o), PLAIN}, o->layout, (void *[]){STARTS(o)});
}
static mx_code build_lstm(mx_block *self)
{
    const mx_lstm_layer_attrs *o = mx_options(self);
    const recurrent r = {.mode = MX_CELL_LSTM, COMMON(o), .projection = o->projection_size,
                         .clip_min = o->state_clip_min, .clip_max = o->state_clip_max, .clip_nan = o->state_clip_nan};
    return build(self, &r, o->layout, (void *[]){STARTS(o), o->h2r_weight_initializer});
}

/* "r1_i2h_weight" -> "_unfused.1.r_cell.i2h_weight" */
static void file_key(const mx_block *self, const char *attribute, mx_text *key)
{
    const char *rest = strchr(attribute, '_');
    if (!rest) {
        mx_text_add(key, attribute);
        return;
    }
    mx_text_print(key, "_unfused.%.*s.", (int)(rest - attribute - 1), attribute + 1);
    if (layer_of(self)->bidirectional)
        mx_text_print(key, "%c_cell.", *attribute);
    mx_text_add(key, rest + 1);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* While shapes are inferred: the first layer's weights get the number of features from x. */
static mx_code learn_features(mx_block *self, mx_array *weight, const mx_array *x)
{
    if (mx_is_symbolic(weight) || mx_is_symbolic(x) || x->ndim != 3 || weight->ndim != 2)
        return MX_OK;
    if (weight->shape[1] >= 0 && weight->shape[1] != x->shape[2])
        return mx_fail(MX_ERR_SHAPE, "%s (%s): x has %lld features, the parameters have %lld", self->name,
                       self->class_name, (long long)x->shape[2], (long long)weight->shape[1]);
    if (weight->shape[1] < 0) {
        weight->shape[1] = x->shape[2];
        weight->size = weight->shape[0] * weight->shape[1];
    }
    return MX_OK;
}

/* All parameters as the operator's vector: weights of all layers and directions, then biases. */
static mx_array *join_parameters(mx_block *self, const recurrent *r, const mx_array *x)
{
    const int64_t networks = r->layers * directions(r), n = networks * per_network(r);
    const int weights[] = {I2H_WEIGHT, H2H_WEIGHT, H2R_WEIGHT}, biases[] = {I2H_BIAS, H2H_BIAS};
    mx_array **list = mx_list_new(n);
    int64_t at = 0;
    for (int bias = 0; list && bias < 2; bias++)
        for (int64_t network = 0; network < networks; network++)
            for (int k = 0; k < (bias ? 2 : per_network(r) - 2); k++) {
                const int which = bias ? biases[k] : weights[k];
                mx_array *p = mx_own(self, (int)network * per_network(r) + which, x);
                if (!p || (which == I2H_WEIGHT && network < directions(r) && learn_features(self, p, x)) ||
                    !(list[at++] = mx_array_reshape(p, MX_DIMS(-1))))
                    return NULL;
            }
    return list ? mx_rnn_param_concat((mx_arrays){list, n}, .num_args = n, .dim = 0) : NULL;
}

/* A state of zeros; in graphs the size of the batch follows from the data. */
static mx_array *zero_state(const recurrent *r, const mx_array *x, int which)
{
    static const char *const node_names[] = {"h0_0", "h0_1"};
    const bool symbolic = mx_is_symbolic(x);
    const int64_t batch = symbolic || x->ndim != 3 ? 0 : x->shape[1];
    const char *waiting = symbolic ? mx_names_next(node_names[which]) : NULL;
    const mx_dtype type = mx_dtype_valid(x->dtype) ? (mx_dtype)x->dtype : r->dtype;
    mx_array *zeros = mx_zeros(.shape = {3, {r->layers * directions(r), batch, which ? r->hidden : handed(r)}},
                               .ctx = symbolic ? (mx_context){0} : x->context, .dtype = type);
    if (symbolic)
        mx_names_next(waiting);
    return zeros;
}

typedef struct given {
    mx_array *state[2], *lengths;
    bool states; /* were given */
} given;

static mx_code read_inputs(const mx_block *self, const recurrent *r, mx_arrays in, given *g)
{
    int64_t n = in.n - 1;
    *g = (given){{MX_NONE, MX_NONE}, MX_NONE, false};
    if (r->lengths && n > 0)
        g->lengths = in.v[n--];
    for (int64_t i = 0; i < n; i++)
        g->states |= in.v[1 + i] != MX_NONE;
    if (g->states && n != state_count(r))
        return mx_fail(MX_ERR_ARGUMENT, "%s (%s): got %lld states, wanted %lld", self->name, self->class_name,
                       (long long)n, (long long)state_count(r));
    if (r->lengths && g->lengths == MX_NONE)
        return mx_fail(MX_ERR_ARGUMENT, "%s (%s): use_sequence_length is set, but sequence_length is missing",
                       self->name, self->class_name);
    for (int64_t i = 0; g->states && i < n; i++)
        g->state[i] = in.v[1 + i];
    return MX_OK;
}

static mx_arrays forward(mx_block *self, mx_arrays in)
{
    const recurrent *r = layer_of(self);
    given g;
    if (read_inputs(self, r, in, &g))
        return mx_list_failed();
    mx_array *x = r->batch_first ? mx_swapaxes(in.v[0], .dim1 = 0, .dim2 = 1) : in.v[0]; /* (T, N, C) */
    mx_array *parameters = x ? join_parameters(self, r, x) : NULL;
    for (int i = 0; parameters && i < state_count(r); i++)
        if (g.state[i] == MX_NONE && !(g.state[i] = zero_state(r, x, i)))
            return mx_list_failed();
    if (!parameters)
        return mx_list_failed();
    mx_arrays out = mx_op_rnn(
        x, parameters, g.state[0], .state_cell = g.state[1], .sequence_length = g.lengths, .state_size = r->hidden,
        .num_layers = r->layers, .bidirectional = r->bidirectional, .mode = r->mode, .p = r->dropout,
        .state_outputs = g.states, .projection_size = r->projection, .lstm_state_clip_min = r->clip_min,
        .lstm_state_clip_max = r->clip_max, .lstm_state_clip_nan = r->clip_nan, .use_sequence_length = r->lengths);
    if (!out.n || !r->batch_first)
        return out;
    mx_array **list = mx_list_new(out.n);
    for (int64_t i = 0; list && i < out.n; i++)
        list[i] = out.v[i];
    if (!list || !(list[0] = mx_swapaxes(out.v[0], .dim1 = 0, .dim2 = 1)))
        return mx_list_failed();
    return (mx_arrays){list, out.n};
}

/* LSTM(5 -> 4, TNC, num_layers=2, dropout=0.3, bidirectional) */
static void print(mx_block *self, mx_text *text)
{
    const recurrent *r = layer_of(self);
    mx_text_print(text, "%s(", self->cls->name);
    mx_print_size(text, mx_parameter_shape(self->own.items[0]).d[1]);
    mx_text_print(text, " -> %lld, %s", (long long)r->hidden, r->batch_first ? "NTC" : "TNC");
    if (r->layers != 1)
        mx_text_print(text, ", num_layers=%lld", (long long)r->layers);
    if (r->dropout != 0) {
        mx_text_add(text, ", dropout=");
        mx_text_add_number(text, r->dropout);
    }
    mx_text_add(text, r->bidirectional ? ", bidirectional)" : ")");
}

#define METHODS(how, most) \
    {.build = how, .forward_many = forward, .print = print, .file_key = file_key, .min_inputs = 1, .max_inputs = most, .inputs = "inputs states sequence_length"}
static const mx_layer rnn = METHODS(build_rnn, 3), gru = METHODS(build_gru, 3), lstm = METHODS(build_lstm, 4);

mx_class mx_classes_rnn[] = {
    {.kind = MX_LAYER, .name = "RNN", .doc = "simple recurrent layers: h' = act(i2h x + h2h h)", .schema = &rnn_layer_schema, .positional = 1,
     .methods = &rnn, .group = "rnn", .c_name = "rnn"},
    {.kind = MX_LAYER, .name = "LSTM", .doc = "layers of long short-term memory", .schema = &lstm_layer_schema, .positional = 1,
     .methods = &lstm, .group = "rnn", .c_name = "lstm"},
    {.kind = MX_LAYER, .name = "GRU", .doc = "layers of gated recurrent units", .schema = &gru_layer_schema, .positional = 1,
     .methods = &gru, .group = "rnn", .c_name = "gru"},
    {0},
};
