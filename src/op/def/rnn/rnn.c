/* RNN: recurrent networks of several layers and both directions over a sequence, in one operator.
 *
 *     relu, tanh   h' = act(i2h x + h2h h)
 *     lstm         i, f, g, o: c' = s(f) c + s(i) tanh(g),  h' = s(o) tanh(c')
 *     gru          r, z, n:    n = tanh(i2h x + s(r) (h2h h)),  h' = (1 - s(z)) n + s(z) h
 *
 * data (T, N, C), state (layers * directions, N, P), output (T, N, directions * P).  The layout of the parameters is in
 * op/formula/rnn.h.  With lengths, steps past the end of a sequence give zeros and do not touch its state; the backward
 * direction begins at its end.  The last output is hidden: what the backward pass needs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/emit.h"
#include "op/formula/rnn.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ndarray/dtype.h"
#include "op/op.h"
#include "op/def/rnn/rnn_compose.h"

#define RNN_ATTRS(X) \
    X(INT, state_size, REQUIRED, "1..10000000", "size of the hidden state") \
    X(INT, num_layers, REQUIRED, "1..10000", "number of layers") \
    X(BOOL, bidirectional, "False", "", "a second network reads the input of each layer in reverse") \
    X(ENUM, mode, REQUIRED, "rnn_relu|rnn_tanh|lstm|gru", "the type of cell") \
    X(FLOAT, p, "0.0", "0..1", "dropout probability between layers in training mode") \
    X(BOOL, state_outputs, "False", "", "also return the last states") \
    X(INT, projection_size, "None", "1..10000000", "LSTM: size to which the hidden state is projected") \
    X(FLOAT, lstm_state_clip_min, "None", "", "LSTM: lower bound of the cell state; needs lstm_state_clip_max, too") \
    X(FLOAT, lstm_state_clip_max, "None", "", "LSTM: upper bound of the cell state") \
    X(BOOL, lstm_state_clip_nan, "False", "", "keep NaN in the cell state when clipping; else it becomes the lower bound") \
    X(BOOL, use_sequence_length, "False", "", "sequence_length holds the length of every sequence")
MX_ATTRS(rnn, RNN_ATTRS)

static mx_code check(const void *a)
{
    const mx_rnn_attrs *attrs = a;
    if (attrs->projection_size != MX_NONE_INT && attrs->mode != MX_CELL_LSTM)
        return mx_fail(MX_ERR_ATTRIBUTE, "RNN: projection_size is given, but only lstm has a projection");
    if (isnan(attrs->lstm_state_clip_min) != isnan(attrs->lstm_state_clip_max))
        return mx_fail(MX_ERR_ATTRIBUTE, "RNN: lstm_state_clip_min and lstm_state_clip_max must be given together");
    if (attrs->lstm_state_clip_min > attrs->lstm_state_clip_max)
        return mx_fail(MX_ERR_ATTRIBUTE, "RNN: lstm_state_clip_min is above lstm_state_clip_max");
    return MX_OK;
}

static bool is_lstm(const mx_rnn_attrs *attrs) { return attrs->mode == MX_CELL_LSTM; }

static int count_in(const void *a)
{
    const mx_rnn_attrs *attrs = a;
    return 3 + is_lstm(attrs) + attrs->use_sequence_length;
}
static int count_visible(const void *a)
{
    const mx_rnn_attrs *attrs = a;
    return attrs->state_outputs ? 2 + is_lstm(attrs) : 1;
}
static int count_out(const void *a) { return count_visible(a) + 1; }

static mx_rnn_shape geometry(const mx_rnn_attrs *attrs, const mx_shape_t *data)
{
    const bool projection = attrs->projection_size != MX_NONE_INT;
    return (mx_rnn_shape){.mode = attrs->mode, .steps = data->dim[0], .batch = data->dim[1], .input = data->dim[2],
                          .hidden = attrs->state_size, .handed = projection ? attrs->projection_size : attrs->state_size,
                          .layers = attrs->num_layers, .directions = attrs->bidirectional ? 2 : 1,
                          .gates = mx_rnn_gates(attrs->mode), .projection = projection, .dropout = attrs->p > 0};
}

/* ---- inference --------------------------------------------------------------------------------------------------- */

/* For modes without a cell state, the lengths may be in its place. */
static int length_index(const mx_infer *infer, const mx_rnn_attrs *attrs)
{
    if (!attrs->use_sequence_length)
        return -1;
    const int i = is_lstm(attrs) || (infer->in[3].ndim < 0 && infer->n_in > 4) ? 4 : 3;
    return i < infer->n_in ? i : -1;
}

static mx_code infer_shape(mx_infer *infer)
{
    const mx_rnn_attrs *attrs = infer->attrs;
    const mx_shape_t *data = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (data->ndim >= 0 && data->ndim != 3)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (steps, batch, features)",
                          mx_shape_text(data, text));
    if (!mx_shape_known(data))
        return MX_OK;
    const mx_rnn_shape s = geometry(attrs, data);
    const int64_t networks = s.layers * s.directions;
    const mx_shape_t parameters = {.ndim = 1, .dim = {mx_rnn_parameters(&s)}}, lengths = {.ndim = 1, .dim = {s.batch}};
    const mx_shape_t state = {.ndim = 3, .dim = {networks, s.batch, s.handed}};
    const mx_shape_t cell = {.ndim = 3, .dim = {networks, s.batch, s.hidden}};
    const mx_shape_t output = {.ndim = 3, .dim = {s.steps, s.batch, s.directions * s.handed}};
    const mx_shape_t reserve = {.ndim = 3, .dim = {s.steps, s.batch, mx_rnn_reserve(&s)}};
    const int length = length_index(infer, attrs);
    if (s.input > INT64_MAX / 64 / s.hidden)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, which needs too many weights",
                          mx_shape_text(data, text));
    if (mx_infer_in(infer, 1, &parameters) || mx_infer_in(infer, 2, &state) ||
        (is_lstm(attrs) && infer->n_in > 3 && mx_infer_in(infer, 3, &cell)) ||
        (length >= 0 && mx_infer_in(infer, length, &lengths)) || mx_infer_out(infer, 0, &output))
        return mx_error_code();
    if (attrs->state_outputs && (mx_infer_out(infer, 1, &state) || (is_lstm(attrs) && mx_infer_out(infer, 2, &cell))))
        return mx_error_code();
    return mx_infer_out(infer, infer->n_out - 1, &reserve);
}

static int reserve_type(int type) { return mx_dtype_is_narrow(type) ? MX_FLOAT32 : type; }

static mx_code infer_type(mx_infer *infer)
{
    const mx_rnn_attrs *attrs = infer->attrs;
    int type = infer->in_type[0];
    for (int i = 0; i < 3 + is_lstm(attrs) && type == MX_DTYPE_NONE; i++)
        type = infer->in_type[i];
    for (int i = 0; i < 3 + is_lstm(attrs) && i < infer->n_in; i++)
        if (mx_infer_in_type(infer, i, type))
            return mx_error_code();
    for (int i = 0; i < infer->n_out - 1; i++)
        if (mx_infer_out_type(infer, i, type))
            return mx_error_code();
    return mx_infer_out_type(infer, infer->n_out - 1, reserve_type(type));
}

/* ---- gradient: a fused operator ------------------------------------------------------------------------------------ */

/* _backward_RNN(data, parameters, state, state_cell, sequence_length, output, reserve, gradients of the outputs) */
enum { IN_OUTPUT = 5, IN_RESERVE, IN_GRADS, BACKWARD_INPUTS = IN_GRADS + 3 };

/* With dropout between layers the masks are in the reserve, which is not differentiable. */
static mx_code gradient_again(mx_grad *grad)
{
    const mx_rnn_attrs *attrs = grad->attrs;
    const mx_rnn_shape s = geometry(attrs, &grad->in_shape[0]);
    const int length = is_lstm(attrs) || (grad->n_in > 4 && grad->in[4]) ? 4 : 3;
    if (grad->training && attrs->p > 0 && s.layers > 1)
        return mx_fail(MX_ERR_AUTOGRAD,
                       "RNN with dropout has no second-order gradient; the cells of gluon.rnn have one");
    if (!s.steps || !s.batch)
        return MX_OK;
    return mx_rnn_compose(grad, &s, &(mx_rnn_limits){attrs->lstm_state_clip_min, attrs->lstm_state_clip_max},
                          attrs->use_sequence_length && length < grad->n_in ? grad->in[length] : NULL);
}

static mx_code gradient(mx_grad *grad)
{
    const mx_rnn_attrs *attrs = grad->attrs;
    mx_array *in[BACKWARD_INPUTS], *out[MX_MAX_OUTPUTS] = {NULL};
    bool any = false;
    for (int i = 0; i < grad->n_out - 1; i++)
        any |= grad->ograd[i] != NULL;
    if (any && grad->create_graph)
        return gradient_again(grad);
    for (int i = 0; i < 5; i++)
        in[i] = i < grad->n_in && grad->in[i] ? grad->in[i] : MX_NONE;
    in[IN_OUTPUT] = grad->out[0], in[IN_RESERVE] = grad->out[grad->n_out - 1];
    for (int i = 0; i < 3; i++) {
        const bool there = i < grad->n_out - 1 && grad->ograd[i];
        in[IN_GRADS + i] = there ? grad->ograd[i] : MX_NONE;
    }
    if (!any)
        return MX_OK;
    if (mx_invoke(MX_OP("_backward_RNN"), attrs, BACKWARD_INPUTS, in, MX_MAX_OUTPUTS, out))
        return mx_error_code();
    for (int i = 0; i < 3 + is_lstm(attrs) && i < grad->n_in; i++)
        grad->igrad[i] = grad->wanted[i] ? out[i] : NULL;
    return MX_OK;
}

static int count_gradients(const void *a) { return 3 + is_lstm(a); }

static mx_code infer_backward(mx_infer *infer)
{
    const mx_rnn_attrs *attrs = infer->attrs;
    const int through[] = {0, 1, 2, 3, 4, -2}, last = IN_RESERVE;
    const int with_states[] = {IN_OUTPUT, IN_GRADS + 1, is_lstm(attrs) ? IN_GRADS + 2 : last,
                               is_lstm(attrs) ? last : -2, -2};
    const int alone[] = {IN_OUTPUT, last, -2};
    if (mx_infer_through(infer, infer_shape, through, attrs->state_outputs ? with_states : alone) ||
        (infer->in[IN_GRADS].ndim >= 0 && mx_infer_in(infer, IN_GRADS, &infer->in[IN_OUTPUT])))
        return mx_error_code();
    for (int i = 0; i < infer->n_out; i++)
        if (mx_infer_out(infer, i, &infer->in[i]))
            return mx_error_code();
    return MX_OK;
}

static mx_code infer_backward_type(mx_infer *infer)
{
    const mx_rnn_attrs *attrs = infer->attrs;
    const int type = infer->in_type[0];
    for (int i = 0; i < infer->n_in; i++)
        if (i != IN_RESERVE && i != 4 && (i != 3 || is_lstm(attrs)) && mx_infer_in_type(infer, i, type))
            return mx_error_code();
    for (int i = 0; i < infer->n_out; i++)
        if (mx_infer_out_type(infer, i, type))
            return mx_error_code();
    return mx_infer_in_type(infer, IN_RESERVE, reserve_type(type));
}

/* ---- reference: one sequence, one step, one number at a time ----------------------------------------------------- */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

#define T double
#define MX_CELL_FUNCTION __attribute__((unused)) static inline
#define MX_CELL(name) cell_##name
#include "op/formula/rnn_cells.h"
#undef T

typedef struct cell_call {
    const mx_rnn_attrs *attrs;
    const mx_rnn_shape *s;
    const double *i2h, *h2h, *h2r, *i2h_bias, *h2h_bias;
    int64_t inputs;
    double *from_x, *from_h, *raw; /* (G H), (G H), (H) */
} cell_call;

/* x (inputs), h (P) and c (H) -> new h and c in place */
static void step(const cell_call *k, const double *x, double *h, double *c)
{
    const mx_rnn_shape *s = k->s;
    const int64_t H = s->hidden;
    for (int64_t g = 0; g < s->gates * H; g++) {
        k->from_x[g] = k->i2h_bias[g], k->from_h[g] = k->h2h_bias[g];
        for (int64_t i = 0; i < k->inputs; i++)
            k->from_x[g] += k->i2h[g * k->inputs + i] * x[i];
        for (int64_t i = 0; i < s->handed; i++)
            k->from_h[g] += k->h2h[g * s->handed + i] * h[i];
    }
    for (int64_t j = 0; j < H; j++) {
        const double *a = k->from_x + j, *b = k->from_h + j;
        if (s->mode == MX_CELL_LSTM) {
            const bool bounded = !isnan(k->attrs->lstm_state_clip_min);
            c[j] = cell_lstm_cell(sigmoid(a[0] + b[0]), sigmoid(a[H] + b[H]), tanh(a[2 * H] + b[2 * H]), c[j],
                                  bounded ? k->attrs->lstm_state_clip_min : -INFINITY,
                                  bounded ? k->attrs->lstm_state_clip_max : INFINITY, NAN);
            k->raw[j] = sigmoid(a[3 * H] + b[3 * H]) * tanh(c[j]);
        } else if (s->mode == MX_CELL_GRU) {
            const double n = tanh(cell_gru_new(a[2 * H], sigmoid(a[0] + b[0]), b[2 * H]));
            k->raw[j] = cell_gru_state(n, sigmoid(a[H] + b[H]), h[j]);
        } else
            k->raw[j] = s->mode == MX_CELL_TANH ? tanh(a[0] + b[0]) : cell_plain_relu(a[0] + b[0]);
    }
    for (int64_t j = 0; j < s->handed; j++) {
        h[j] = s->projection ? 0 : k->raw[j];
        for (int64_t i = 0; s->projection && i < H; i++)
            h[j] += k->h2r[j * H + i] * k->raw[i];
    }
}

/* One layer and direction: from (T, N, inputs) to (T, N, D P); h (N, P) and c (N, H) are updated. */
static void run_direction(const mx_reference_call *call, const mx_rnn_shape *s, int64_t layer, int64_t direction,
                          const double *from, double *to, double *h, double *c)
{
    const mx_rnn_attrs *attrs = call->attrs;
    const int64_t inputs = mx_rnn_inputs(s, layer), gates = s->gates * s->hidden, width = s->directions * s->handed;
    const double *weight = call->in[1] + mx_rnn_weight_at(s, layer, direction),
                 *bias = call->in[1] + mx_rnn_bias_at(s, layer, direction);
    const int length =
        attrs->use_sequence_length ? (attrs->mode == MX_CELL_LSTM || (call->n_in > 4 && call->in[4]) ? 4 : 3) : -1;
    double *scratch = mx_alloc((size_t)(2 * gates + s->hidden) * sizeof *scratch);
    if (!scratch)
        return;
    const cell_call k = {attrs, s, weight, weight + gates * inputs, weight + gates * (inputs + s->handed), bias, bias + gates, inputs,
                         scratch, scratch + gates, scratch + 2 * gates};
    for (int64_t n = 0; n < s->batch; n++) {
        int64_t steps = length >= 0 && call->in[length] ? (int64_t)call->in[length][n] : s->steps;
        steps = steps < 0 ? 0 : steps > s->steps ? s->steps : steps;
        for (int64_t i = 0; i < steps; i++) {
            const int64_t t = direction ? steps - 1 - i : i;
            step(&k, from + (t * s->batch + n) * inputs, h + n * s->handed, c + n * s->hidden);
            memcpy(to + (t * s->batch + n) * width + direction * s->handed, h + n * s->handed,
                   (size_t)s->handed * sizeof *h);
        }
        for (int64_t t = steps; t < s->steps; t++)
            for (int64_t j = 0; j < s->handed; j++)
                to[(t * s->batch + n) * width + direction * s->handed + j] = 0;
    }
    mx_free(scratch, (size_t)(2 * gates + s->hidden) * sizeof *scratch);
}

static void reference(const mx_reference_call *call)
{
    const mx_rnn_attrs *attrs = call->attrs;
    const mx_rnn_shape s = geometry(attrs, &call->in_shape[0]);
    const int64_t width = s.directions * s.handed, states = s.layers * s.directions * s.batch;
    const size_t bytes = (size_t)(2 * s.steps * s.batch * width + states * (s.handed + s.hidden)) * sizeof(double);
    double *room = mx_alloc_zero(bytes);
    if (!room)
        return;
    double *layer_out[2] = {room, room + s.steps * s.batch * width}, *h = layer_out[1] + s.steps * s.batch * width,
           *c = h + states * s.handed;
    memcpy(h, call->in[2], (size_t)(states * s.handed) * sizeof *h);
    if (is_lstm(attrs))
        memcpy(c, call->in[3], (size_t)(states * s.hidden) * sizeof *c);
    const double *from = call->in[0];
    for (int64_t layer = 0; layer < s.layers; layer++) {
        double *to = layer == s.layers - 1 ? call->out[0] : layer_out[layer % 2];
        for (int64_t d = 0; d < s.directions; d++)
            run_direction(call, &s, layer, d, from, to, h + (layer * s.directions + d) * s.batch * s.handed,
                          c + (layer * s.directions + d) * s.batch * s.hidden);
        from = to;
    }
    if (attrs->state_outputs)
        memcpy(call->out[1], h, (size_t)(states * s.handed) * sizeof *h);
    if (attrs->state_outputs && is_lstm(attrs))
        memcpy(call->out[2], c, (size_t)(states * s.hidden) * sizeof *c);
    mx_free(room, bytes);
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static bool is_projected(const mx_rnn_attrs *attrs) { return attrs->projection_size != MX_NONE_INT; }
static int64_t handed_on(const mx_rnn_attrs *attrs)
{
    return is_projected(attrs) ? attrs->projection_size : attrs->state_size;
}

/* Numbers that the kernel needs: two results of layers, h and c of one network, two sides of the gates, h as it was. */
static int64_t emit_scratch(const mx_emit_call *n)
{
    const mx_rnn_attrs *attrs = n->attrs;
    const int64_t steps = n->x->dim[0], batch = n->x->dim[1], hidden = attrs->state_size, m = handed_on(attrs);
    return 2 * steps * batch * m * (attrs->bidirectional ? 2 : 1) + batch * (m + hidden) + 9 * hidden;
}

static const char *state_place(const mx_emit_call *n, int i) { return i < n->n_visible ? n->out[i].place : "NULL"; }

/* "length, clip": lengths of the sequences and {least, largest, NaN stays} of a cell, or NULL. */
static void emit_limits(const mx_emit_call *n, const mx_rnn_attrs *attrs)
{
    const int length = attrs->mode == MX_CELL_LSTM || (n->n_in > 4 && n->in[4].there) ? 4 : 3;
    mx_emit_print(n, "%s, ", attrs->use_sequence_length ? mx_emit_or_null(n, length) : "NULL");
    if (attrs->lstm_state_clip_min != attrs->lstm_state_clip_min) {
        mx_emit_print(n, "NULL");
        return;
    }
    mx_emit_print(n, "(const float[]){");
    mx_emit_float(&n->file->body, attrs->lstm_state_clip_min);
    mx_emit_add(n, attrs->lstm_state_clip_max);
    mx_emit_print(n, ", %d}", attrs->lstm_state_clip_nan);
}

static mx_code emit_rnn(const mx_emit_call *n)
{
    const mx_rnn_attrs *attrs = n->attrs;
    if (!n->out[0].there)
        return mx_emit_fail(n, "its output is not used, only its states");
    mx_emit_open(n, "rnn", 2);
    mx_emit_print(n, "%s, %s, %s, %s, arena + %lld, ", mx_emit_or_null(n, 2),
                  attrs->mode == MX_CELL_LSTM ? mx_emit_or_null(n, 3) : "NULL", state_place(n, 1), state_place(n, 2),
                  (long long)n->scratch);
    emit_limits(n, attrs);
    mx_emit_print(n, ", %d, %d, %lld, %d, %lld, %lld, %lld, %lld, %lld", attrs->mode, is_projected(attrs),
                  (long long)attrs->num_layers, attrs->bidirectional ? 2 : 1, (long long)n->x->dim[0],
                  (long long)n->x->dim[1], (long long)n->x->dim[2], (long long)attrs->state_size,
                  (long long)handed_on(attrs));
    return mx_emit_close(n);
}

static bool draws(const void *attrs) { return ((const mx_rnn_attrs *)attrs)->p > 0; }

mx_op mx_family_rnn[] = {
    {.name = "RNN", MX_EMIT(emit_rnn, .all = true, .scratch = emit_scratch), .shows = "mode",
     .look = MX_LOOK_WEIGHTS, .precision = MX_PRECISION_TARGET, .aliases = "_npx_rnn",
     .c_name = "op_rnn",
     .inputs = "data parameters state state_cell? sequence_length?",
     .outputs = "output state_output statecell_output reserve", .doc = "recurrent layers over a sequence; data (time, batch, features), all weights in one vector, mode chooses tanh, relu, LSTM or GRU", .schema = &rnn_schema,
     .flags = MX_OP_TRAINING | MX_OP_RANDOM, .draws = draws, .n_out = 2, .n_visible = 1, .count_in = count_in, .count_out = count_out,
     .count_visible = count_visible, .infer_shape = infer_shape, .infer_type = infer_type, .check = check, .gradient = gradient,
     .grad_in = MX_ALL_ARGS, .grad_out = MX_ALL_ARGS, .no_grad_inputs = 1 << 4, .reference = reference,
     .samples = SAMPLES({"3,2,3;14;1,2,2", "mode=rnn_tanh, state_size=2, num_layers=1", -1, 1, "floatonly"},
                         {"3,2,3;36;1,2,4", "mode=rnn_relu, state_size=4, num_layers=1, state_outputs=True", -1, 1, "floatonly"},
                         {"3,2,3;56;1,2,2;1,2,2", "mode=lstm, state_size=2, num_layers=1, state_outputs=True", -1, 1, "floatonly"},
                         {"3,2,3;42;1,2,2", "mode=gru, state_size=2, num_layers=1, state_outputs=True", -1, 1, "floatonly"},
                         {"4,3,2;432;4,3,3;4,3,3", "mode=lstm, state_size=3, num_layers=2, bidirectional=True, state_outputs=True", -1, 1, "floatonly"},
                         {"4,1,2;324;4,1,3", "mode=gru, state_size=3, num_layers=2, bidirectional=True, state_outputs=True", -1, 1, "floatonly"},
                         {"2,2,2;174;6,2,3", "mode=rnn_tanh, state_size=3, num_layers=3, bidirectional=True", -1, 1, "floatonly"},
                         {"3,2,3;224;2,2,2;2,2,4", "mode=lstm, state_size=4, num_layers=2, projection_size=2, state_outputs=True", -1, 1, "floatonly"},
                         {"3,2,2;156;2,2,2;2,2,3", "mode=lstm, state_size=3, num_layers=1, bidirectional=True, projection_size=2", -1, 1, "floatonly"},
                         {"4,2,2;84;1,2,3;1,2,3", "mode=lstm, state_size=3, num_layers=1, lstm_state_clip_min=-0.15, lstm_state_clip_max=0.2, state_outputs=True", -1, 1, "floatonly"},
                         {"5,3,2;168;2,3,3;2,3,3;3", "mode=lstm, state_size=3, num_layers=1, bidirectional=True, state_outputs=True, use_sequence_length=True", 0, 6, "floatonly int:4"},
                         {"5,3,2;324;4,3,3;;3", "mode=gru, state_size=3, num_layers=2, bidirectional=True, state_outputs=True, use_sequence_length=True", 0, 6, "floatonly absent:3 int:4"},
                         {"4,2,2;21;1,2,3;;2", "mode=rnn_tanh, state_size=3, num_layers=1, state_outputs=True, use_sequence_length=True", -1, 5, "floatonly absent:3 int:4"},
                         {"4,2,2;21;1,2,3;2", "mode=rnn_tanh, state_size=3, num_layers=1, state_outputs=True, use_sequence_length=True", -1, 5, "floatonly int:3"},
                         {"1,1,1;12;1,1,1", "mode=gru, state_size=1, num_layers=1", -1, 1, "floatonly"},
                         {"7,5,9;5808;1,5,33;1,5,33", "mode=lstm, state_size=33, num_layers=1", -0.3, 0.3, "floatonly nograd"},
                         {"3,2,3;104;2,2,2;2,2,2", "mode=lstm, state_size=2, num_layers=2, p=0.5", -1, 1, "floatonly random train"},
                         {"3,2,3;104;2,2,2;2,2,2", "mode=lstm, state_size=2, num_layers=2, p=0.5", -1, 1, "floatonly"})},
    {.name = "_backward_RNN", .inputs = "data parameters state state_cell? sequence_length? output reserve ograd? ograd_state? ograd_cell?",
     .outputs = "data parameters state state_cell", .doc = "gradient of RNN", .schema = &rnn_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT,
     .n_out = 4, .count_out = count_gradients, .infer_shape = infer_backward, .infer_type = infer_backward_type, .check = check,
     .samples = SAMPLES({"3,2,3;56;1,2,2;1,2,2;;3,2,2;3,2,10;3,2,2", "mode=lstm, state_size=2, num_layers=1", -0.5, 0.5, "floatonly random absent:4 absent:8 absent:9"},
                         {"3,2,3;78;2,2,2;;;3,2,2;3,2,18;3,2,2", "mode=gru, state_size=2, num_layers=2", -0.5, 0.5, "floatonly random absent:3 absent:4 absent:8 absent:9"},
                         {"2,2,3;36;1,2,4;;;2,2,4;2,2,4;2,2,4", "mode=rnn_tanh, state_size=4, num_layers=1", -0.5, 0.5, "floatonly random absent:3 absent:4 absent:8 absent:9"})},
    {0},
};
