/* FusedRNN: initial values of the one vector that holds all weights of a recurrent layer.
 *
 *     layer 0: [ i2h (gates * H, input) | h2h (gates * H, H) ] per direction, layer 1: ..., then all biases:
 *     layer 0: [ i2h (gates * H) | h2h (gates * H) ] per direction, layer 1: ...
 *
 * Every gate's matrix (H, columns) is initialised on its own; biases are zero, but forget_bias for the forget gates
 * of an LSTM.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "gluon/block/initialize.h"
#include "ndarray/array.h"

#define FUSED_RNN_OPTIONS(X) \
    X(PTR, init, "None", "mx_initializer", "of the matrices; None: Uniform(0.07)") \
    X(INT, num_hidden, REQUIRED, "1..65536", "size of the hidden state") \
    X(INT, num_layers, REQUIRED, "1..65536", "number of layers") \
    X(STR, mode, REQUIRED, "", "lstm, gru, rnn_relu or rnn_tanh") \
    X(BOOL, bidirectional, "False", "", "one network per direction") \
    X(FLOAT, forget_bias, "1.0", "", "bias of LSTM's forget gates")
MX_ATTRS(fused_rnn, FUSED_RNN_OPTIONS)

enum { LSTM };
static const int gates_of[] = {4, 3, 1, 1};

static mx_code mode_of(const mx_fused_rnn_attrs *o, int *mode)
{
    return mx_option_choice("FusedRNN", "mode", o->mode, "lstm|gru|rnn_relu|rnn_tanh", mode);
}

static mx_code check_fused(const void *options)
{
    const mx_fused_rnn_attrs *o = options;
    int mode;
    if (o->init && !mx_is_kind(o->init, &mx_initializer_kind, "FusedRNN", "init"))
        return mx_error_code();
    return mode_of(o, &mode);
}

typedef struct sizes {
    int64_t hidden, input, layers, gates, directions;
} sizes;

/* The input size, computed from the length of the vector; 0: no size matches. */
static sizes sizes_of(const mx_fused_rnn_attrs *o, int mode, int64_t length)
{
    sizes s = {o->num_hidden, 0, o->num_layers, gates_of[mode], o->bidirectional ? 2 : 1};
    const int64_t rows = s.directions * s.gates * s.hidden; /* of one layer */
    const int64_t deeper = (s.layers - 1) * (s.directions * s.hidden + s.hidden + 2), first = s.hidden + 2;
    const int64_t columns = length / rows;
    if (length % rows == 0 && columns > deeper + first)
        s.input = columns - deeper - first;
    return s;
}

static mx_code fill_matrix(mx_initializer *init, const char *name, mx_array *array, int64_t at, int64_t rows,
                           int64_t columns)
{
    MX_SCOPE;
    const mx_shape_t shape = {.ndim = 2, .dim = {rows, columns}};
    mx_array *matrix =
        mx_scope_add(mx_array_view(array, at * mx_dtype_size((mx_dtype)array->dtype), &shape, (mx_dtype)array->dtype));
    return matrix ? mx_initializer_fill(init, name, matrix) : mx_error_code();
}

static mx_code fill_biases(const mx_fused_rnn_attrs *o, const sizes *s, bool lstm, mx_array *array, int64_t at)
{
    for (int64_t block = 0; lstm && block < 2 * s->directions * s->layers; block++) {
        MX_SCOPE;
        const mx_shape_t shape = {.ndim = 1, .dim = {s->hidden}};
        const int64_t forget = at + block * s->gates * s->hidden + s->hidden;
        mx_array *bias = mx_scope_add(
            mx_array_view(array, forget * mx_dtype_size((mx_dtype)array->dtype), &shape, (mx_dtype)array->dtype));
        if (!bias || mx_array_fill(bias, o->forget_bias))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code fill_fused(const void *options, const char *name, mx_array *array)
{
    const mx_fused_rnn_attrs *o = options;
    MX_SCOPE;
    int mode;
    mx_initializer *init = o->init ? o->init : mx_class_create(mx_class_find(MX_INITIALIZER, "uniform"), NULL);
    if (!init || mode_of(o, &mode) || mx_array_fill(array, 0))
        return mx_error_code();
    const sizes s = sizes_of(o, mode, array->size);
    if (!s.input)
        return mx_fail(MX_ERR_SHAPE,
                       "FusedRNN: parameter %s has %lld elements, which no input size gives for %lld layers of %lld",
                       name, (long long)array->size, (long long)s.layers, (long long)s.hidden);
    int64_t at = 0;
    for (int64_t layer = 0; layer < s.layers; layer++)
        for (int64_t part = 0; part < 2 * s.directions * s.gates; part++) {
            const bool from_input = part / s.gates % 2 == 0;
            const int64_t columns = !from_input ? s.hidden : layer ? s.directions * s.hidden : s.input;
            if (fill_matrix(init, name, array, at, s.hidden, columns))
                return mx_error_code();
            at += s.hidden * columns;
        }
    return fill_biases(o, &s, mode == LSTM, array, at);
}

mx_class mx_classes_initializers_rnn[] = {
    {.kind = MX_INITIALIZER, .name = "FusedRNN", .doc = "all weights of a recurrent layer in one vector",
     .schema = &fused_rnn_schema,
     .positional = 4, .methods = &(const mx_initializer_methods){.fill = fill_fused, .check = check_fused}},
    {0},
};
