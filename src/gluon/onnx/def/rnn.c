/* Recurrent layers.  SPDX-License-Identifier: Apache-2.0
 *
 *     ONNX: W (D, G H, I), R (D, G H, H), B (D, 2 G H), gates i o f c / z r h; results (T, D, N, H)
 *     ours: one vector: per layer and direction W and R, then all biases; gates i f c o / r z h; results (T, N, D H)
 *
 * D directions, G gates, H units.  What our operator does not have (peepholes, a reset before the product, other
 * activations) is unrolled step by step. */
#include <math.h>
#include <string.h>

#include "gluon/onnx/def/rnn.h"
#include "ndarray/array.h"

typedef struct cell {
    int mode, gates;
    int order[4]; /* gate k of ours is gate order[k] of ONNX; ONNX's gate k is ours of inverse[k] */
} cell;

static cell cell_of(const char *op)
{
    return !strcmp(op, "LSTM")  ? (cell){MX_RNN_LSTM, 4, {0, 2, 3, 1}}
           : !strcmp(op, "GRU") ? (cell){MX_RNN_GRU, 3, {1, 0, 2}}
                                : (cell){MX_RNN_RNN_TANH, 1, {0}};
}

typedef struct layer {
    cell c;
    int64_t units, directions;
    bool back;            /* the only direction is backwards */
    bool lstm, before;    /* before: GRU resets after the product (linear_before_reset) */
    mx_array *x;          /* (T, N, I) */
    mx_array *w, *r, *b;  /* b: MX_NONE */
    mx_array *h, *memory; /* (D, N, H) initial states */
    mx_array *peep;       /* (D, 3 H); MX_NONE */
    mx_array *lengths;    /* (N); MX_NONE: all sequences have T steps */
    char activation[8];   /* one letter per function of all directions: s t r a; "": usual */
    double clip;          /* 0: none */
} layer;

/* ---- reading with our operator --------------------------------------------------------------------------------------- */

static mx_array *row_of(mx_array *x, int64_t i) /* x[i] */
{
    return mx_reshape(mx_slice_axis(x, .axis = 0, .begin = i, .end = i + 1), .shape = MX_DIMS(-3, -2));
}

/* (G H, ...) with gates in our order, as one vector */
static mx_array *ordered(const layer *l, mx_array *x)
{
    mx_array *parts[4];
    for (int k = 0; k < l->c.gates; k++)
        parts[k] =
            mx_slice_axis(x, .axis = 0, .begin = l->c.order[k] * l->units, .end = (l->c.order[k] + 1) * l->units);
    mx_array *y = l->c.gates > 1 ? mx_concat((mx_arrays){parts, l->c.gates}, .num_args = l->c.gates, .dim = 0) : x;
    return mx_reshape(y, .shape = MX_DIMS(-1));
}

static mx_array *parameters(const layer *l)
{
    mx_array *parts[8];
    int n = 0;
    const int64_t half = l->c.gates * l->units;
    for (int64_t d = 0; d < l->directions; d++) {
        parts[n++] = ordered(l, row_of(l->w, d));
        parts[n++] = ordered(l, row_of(l->r, d));
    }
    for (int64_t d = 0; d < l->directions; d++)
        for (int k = 0; k < 2; k++) {
            mx_array *all = l->b == MX_NONE ? mx_zeros(.shape = MX_DIMS(half), .dtype = (mx_dtype)l->x->dtype)
                                            : mx_reshape(mx_slice_axis(l->b, .axis = 0, .begin = d, .end = d + 1),
                                                         .shape = MX_DIMS(-1));
            parts[n++] = l->b == MX_NONE
                             ? all
                             : ordered(l, mx_slice_axis(all, .axis = 0, .begin = k * half, .end = (k + 1) * half));
        }
    return mx_concat((mx_arrays){parts, n}, .num_args = n, .dim = 0);
}

static mx_array *flipped(const layer *l, mx_array *x)
{
    if (!l->back || !x || l->lengths == MX_NONE)
        return l->back ? mx_reverse(x, .axis = MX_DIMS(0)) : x;
    return mx_sequence_reverse(x, mx_onnx_cast(l->lengths, (mx_dtype)x->dtype), .use_sequence_length = true);
}

static mx_arrays run_operator(const layer *l)
{
    return mx_op_rnn(flipped(l, l->x), parameters(l), l->h, l->lstm ? l->memory : MX_NONE, l->lengths,
                     .use_sequence_length = l->lengths != MX_NONE, .state_size = l->units, .num_layers = 1,
                     .bidirectional = l->directions == 2, .mode = l->c.mode, .state_outputs = true);
}

/* ---- reading step by step ------------------------------------------------------------------------------------------ */

static mx_array *activate(char f, mx_array *x)
{
    return f == 's' ? mx_sigmoid(x) : f == 'r' ? mx_relu(x) : f == 'a' ? x : mx_tanh(x);
}

static mx_array *gate(const layer *l, mx_array *x, int k) /* columns of gate k of ONNX's order */
{
    return mx_slice_axis(x, .axis = 1, .begin = k * l->units, .end = (k + 1) * l->units);
}

static mx_array *peephole(const layer *l, int64_t d, int k, mx_array *memory)
{
    mx_array *p = mx_slice_axis(mx_slice_axis(l->peep, .axis = 0, .begin = d, .end = d + 1), .axis = 1,
                                .begin = k * l->units, .end = (k + 1) * l->units);
    return mx_mul(p, memory);
}

static mx_array *clipped(const layer *l, mx_array *x)
{
    return l->clip > 0 ? mx_clip(x, .a_min = -l->clip, .a_max = l->clip) : x;
}

static void step_lstm(const layer *l, int64_t d, const char *f, mx_array *z, mx_array **h, mx_array **c)
{
    mx_array *i = gate(l, z, 0), *o = gate(l, z, 1), *forget = gate(l, z, 2), *g = gate(l, z, 3);
    const bool peeps = l->peep != MX_NONE;
    i = activate(f[0], clipped(l, peeps ? mx_add(i, peephole(l, d, 0, *c)) : i));
    forget = activate(f[0], clipped(l, peeps ? mx_add(forget, peephole(l, d, 2, *c)) : forget));
    *c = mx_add(mx_mul(forget, *c), mx_mul(i, activate(f[1], clipped(l, g))));
    o = activate(f[0], clipped(l, peeps ? mx_add(o, peephole(l, d, 1, *c)) : o));
    *h = mx_mul(o, activate(f[2], *c));
}

static mx_array *step_gru(const layer *l, const char *f, mx_array *xw, mx_array *r, mx_array *rb, mx_array *h)
{
    mx_array *hr = mx_dot(h, r, .transpose_b = true);
    hr = rb ? mx_add(hr, rb) : hr;
    mx_array *z = activate(f[0], mx_add(gate(l, xw, 0), gate(l, hr, 0))),
             *reset = activate(f[0], mx_add(gate(l, xw, 1), gate(l, hr, 1)));
    mx_array *inner;
    if (l->before)
        inner = mx_mul(reset, gate(l, hr, 2));
    else {
        mx_array *last = mx_slice_axis(r, .axis = 0, .begin = 2 * l->units, .end = 3 * l->units);
        inner = mx_dot(mx_mul(reset, h), last, .transpose_b = true);
        inner = rb ? mx_add(inner, gate(l, rb, 2)) : inner;
    }
    mx_array *n = activate(f[1], mx_add(gate(l, xw, 2), inner));
    return mx_add(mx_mul(mx_rminus_scalar(z, .scalar = 1), n), mx_mul(z, h));
}

/* One direction: results (T, N, H) and last states. */
static mx_array *run_direction(const layer *l, int64_t d, int64_t steps, mx_array **h, mx_array **c)
{
    const char *usual = l->lstm ? "stt" : l->c.mode == MX_RNN_GRU ? "st" : "t", *f = usual;
    const size_t per = strlen(usual);
    if (*l->activation && strlen(l->activation) >= per * (size_t)(d + 1))
        f = l->activation + per * (size_t)d;
    const int64_t half = l->c.gates * l->units;
    mx_array *w = row_of(l->w, d), *r = row_of(l->r, d),
             *b = l->b == MX_NONE ? NULL : mx_slice_axis(l->b, .axis = 0, .begin = d, .end = d + 1);
    mx_array *wb = b ? mx_slice_axis(b, .axis = 1, .begin = 0, .end = half) : NULL,
             *rb = b ? mx_slice_axis(b, .axis = 1, .begin = half, .end = 2 * half) : NULL;
    mx_array **parts = mx_alloc((size_t)steps * sizeof *parts + 1);
    const bool back = l->back || d == 1;
    *h = row_of(l->h, d);
    *c = l->lstm ? row_of(l->memory, d) : NULL;
    for (int64_t k = 0; parts && k < steps; k++) {
        const int64_t t = back ? steps - 1 - k : k;
        mx_array *xw = mx_dot(row_of(l->x, t), w, .transpose_b = true);
        xw = wb ? mx_add(xw, wb) : xw;
        if (l->c.mode == MX_RNN_GRU)
            *h = step_gru(l, f, xw, r, rb, *h);
        else {
            mx_array *z = mx_add(xw, mx_dot(*h, r, .transpose_b = true));
            z = rb ? mx_add(z, rb) : z;
            if (l->lstm)
                step_lstm(l, d, f, z, h, c);
            else
                *h = activate(f[0], clipped(l, z));
        }
        parts[t] = *h;
    }
    mx_array *y = parts ? mx_stack((mx_arrays){parts, steps}, .axis = 0, .num_args = steps) : NULL;
    mx_free(parts, (size_t)steps * sizeof *parts + 1);
    return y;
}

/* Results as our operator has them: (T, N, D H), (D, N, H), (D, N, H). */
static void run_steps(const layer *l, int64_t steps, mx_array **out)
{
    mx_array *y[2], *h[2], *c[2];
    for (int64_t d = 0; d < l->directions; d++) {
        y[d] = run_direction(l, d, steps, &h[d], &c[d]);
        h[d] = mx_expand_dims(h[d], .axis = 0);
        c[d] = l->lstm ? mx_expand_dims(c[d], .axis = 0) : NULL;
    }
    const bool two = l->directions == 2;
    out[0] = two ? mx_concat(MX_ARRAYS(y[0], y[1]), .num_args = 2, .dim = 2) : y[0];
    out[1] = two ? mx_concat(MX_ARRAYS(h[0], h[1]), .num_args = 2, .dim = 0) : h[0];
    out[2] = !l->lstm ? NULL : two ? mx_concat(MX_ARRAYS(c[0], c[1]), .num_args = 2, .dim = 0) : c[0];
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static bool take_activations(mx_onnx_in *n, layer *l)
{
    if (!mx_onnx_has(n, "activations"))
        return true;
    mx_onnx_strings(n, "activations", l->activation, sizeof l->activation);
    for (char *p = l->activation; *p; p++) {
        *p = (char)(*p | 32);
        if (!strchr("stra", *p))
            return !mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "its activations are not supported");
    }
    const char *usual = l->lstm ? "sttstt" : l->c.mode == MX_RNN_GRU ? "stst" : "tt";
    if (!strncmp(l->activation, usual, strlen(l->activation)))
        l->activation[0] = 0;
    return true;
}

/* (N, 1) of zeros as wide as the states: works for batches of any size */
static mx_array *zero_state(const layer *l)
{
    mx_array *one = mx_sum(mx_slice_axis(mx_zeros_like(l->x), .axis = 0, .begin = 0, .end = 1), .axis = MX_DIMS(2),
                           .keepdims = true);
    return mx_broadcast_axis(one, .axis = MX_DIMS(0, 2), .size = MX_DIMS(l->directions, l->units));
}

static mx_array *state_of(mx_onnx_in *n, const layer *l, int i, bool batch_first)
{
    if (!mx_onnx_given(n, i))
        return zero_state(l);
    return batch_first ? mx_transpose(n->in[i], .axes = MX_DIMS(1, 0, 2)) : n->in[i];
}

/* Whether input 4 says that all sequences have all steps. */
static bool are_full(mx_onnx_in *n, const layer *l)
{
    double lengths[64];
    mx_array *list = n->value[4];
    if (!list || list->size > 64 || mx_array_read_doubles(list, lengths, list->size) || !l->x || l->x->shape[0] < 0)
        return false;
    for (int64_t i = 0; i < list->size; i++)
        if ((int64_t)lengths[i] != l->x->shape[0])
            return false;
    return true;
}

static bool take_layer(mx_onnx_in *n, layer *l)
{
    char direction[64];
    const bool batch_first = mx_onnx_int(n, "layout", 0);
    mx_onnx_text(n, "direction", direction, "forward");
    *l = (layer){.c = cell_of(n->op), .lstm = n->op[0] == 'L', .back = !strcmp(direction, "reverse"),
                 .directions = strcmp(direction, "bidirectional") ? 1 : 2, .before = mx_onnx_int(n, "linear_before_reset", 0),
                 .clip = mx_onnx_float(n, "clip", 0), .w = n->in[1], .r = n->in[2], .b = mx_onnx_input(n, 3), .peep = mx_onnx_input(n, 7)};
    if (mx_onnx_rank(n, 0) != 3 || mx_onnx_rank(n, 1) != 3 || mx_onnx_rank(n, 2) != 3)
        return !mx_onnx_fail(n, MX_ERR_FILE, "its inputs do not have three axes");
    l->units = n->in[2]->shape[2];
    l->x = batch_first ? mx_transpose(n->in[0], .axes = MX_DIMS(1, 0, 2)) : n->in[0];
    if (n->in[1]->shape[0] != l->directions || n->in[2]->shape[1] != l->c.gates * l->units ||
        mx_onnx_int(n, "input_forget", 0))
        return !mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "its weights do not have the wanted shape, or input_forget is set");
    l->lengths = mx_onnx_given(n, 4) && !are_full(n, l) ? n->in[4] : MX_NONE;
    l->h = state_of(n, l, 5, batch_first);
    l->memory = l->lstm ? state_of(n, l, 6, batch_first) : MX_NONE;
    return take_activations(n, l) && l->x && l->h;
}

static mx_code read_rnn(mx_onnx_in *n)
{
    layer l;
    mx_array *out[3] = {NULL, NULL, NULL};
    if (!take_layer(n, &l))
        return mx_error_code();
    const bool usual = !*l.activation && l.peep == MX_NONE && l.clip <= 0 && (l.c.mode != MX_RNN_GRU || l.before);
    if (usual) {
        mx_arrays y = run_operator(&l);
        out[0] = y.v[0] ? flipped(&l, y.v[0]) : NULL;
        out[1] = y.v[0] ? y.v[1] : NULL;
        out[2] = y.v[0] && l.lstm ? y.v[2] : NULL;
    } else if (l.lengths != MX_NONE)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "lengths of sequences with such activations, peepholes or limits");
    else if (l.x->shape[0] > 0 && l.x->shape[0] <= 4096)
        run_steps(&l, l.x->shape[0], out);
    else
        return mx_onnx_fail(n, MX_ERR_SHAPE, "the length of the sequence is not known; give the shapes of the inputs");
    const bool batch_first = mx_onnx_int(n, "layout", 0);
    mx_array *y = mx_reshape(out[0], .shape = MX_DIMS(0, 0, -4, l.directions, -1)); /* (T, N, D, H) */
    n->out[0] = mx_transpose(y, .axes = batch_first ? MX_DIMS(1, 0, 2, 3) : MX_DIMS(0, 2, 1, 3));
    for (int i = 1; i < 3 && i < n->n_out; i++)
        n->out[i] = out[i] && batch_first ? mx_transpose(out[i], .axes = MX_DIMS(1, 0, 2)) : out[i];
    return MX_OK;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

typedef struct slicing {
    const cell *c;
    int64_t at, units; /* position in the vector of parameters */
} slicing;

/* The next (G H, columns) of the vector as (1, G H, columns), or (1, G H) for a bias, with gates in ONNX's order. */
static const char *next_block(mx_onnx_out *o, slicing *s, int64_t columns, bool bias)
{
    const int64_t size = s->c->gates * s->units * columns;
    const char *x = mx_onnx_put(o, NULL, "Slice", o->in[1], mx_onnx_put_ints(o, MX_ONNX_LIST(s->at)),
                                mx_onnx_put_ints(o, MX_ONNX_LIST(s->at + size)), mx_onnx_put_ints(o, MX_ONNX_LIST(0)));
    int64_t inverse[4] = {0};
    for (int k = 0; k < s->c->gates; k++)
        inverse[s->c->order[k]] = k;
    s->at += size;
    x = mx_onnx_put(o, NULL, "Reshape", x, mx_onnx_put_ints(o, MX_ONNX_LIST(s->c->gates, s->units, columns)));
    x = mx_onnx_put(o, NULL, "Gather", x, mx_onnx_put_ints(o, s->c->gates, inverse));
    mx_onnx_set_int(o, "axis", 0);
    return bias ? mx_onnx_put(o, NULL, "Reshape", x, mx_onnx_put_ints(o, MX_ONNX_LIST(1, s->c->gates * s->units)))
                : mx_onnx_put(o, NULL, "Reshape", x,
                              mx_onnx_put_ints(o, MX_ONNX_LIST(1, s->c->gates * s->units, columns)));
}

static const char *joined(mx_onnx_out *o, const char *out, const char *const *parts, int n, int axis)
{
    if (n == 1 && !out)
        return parts[0];
    const char *y = mx_onnx_node(o, out, "Concat", n, parts);
    mx_onnx_set_int(o, "axis", axis);
    return y;
}

enum { MOST_LAYERS = 32 };

bool mx_onnx_zero_state(const mx_onnx_out *o, int i)
{
    const mx_gnode *node = i < o->node->n_in ? o->node->in[i].node : NULL;
    return node && node->op && !strcmp(node->op->name, "_zeros");
}

/* Initial states of one layer. */
static const char *states_of(mx_onnx_out *o, int i, int64_t layer_number, int64_t directions)
{
    const char *all = o->in[i];
    if (mx_onnx_zero_state(o, i)) /* ONNX's default */
        return NULL;
    return mx_onnx_put(o, NULL, "Slice", all, mx_onnx_put_ints(o, MX_ONNX_LIST(layer_number * directions)),
                       mx_onnx_put_ints(o, MX_ONNX_LIST((layer_number + 1) * directions)),
                       mx_onnx_put_ints(o, MX_ONNX_LIST(0)));
}

/* The weights of one layer. */
typedef struct weights {
    const char *w[2], *r[2], *b[4]; /* per direction; b: two each */
} weights;

static void take_weights(mx_onnx_out *o, slicing *s, weights *all, int64_t width)
{
    const mx_rnn_attrs *a = o->attrs;
    const int64_t directions = a->bidirectional ? 2 : 1, units = a->state_size;
    for (int64_t k = 0; k < a->num_layers; k++)
        for (int64_t d = 0; d < directions; d++) {
            all[k].w[d] = next_block(o, s, k ? directions * units : width, false);
            all[k].r[d] = next_block(o, s, units, false);
        }
    for (int64_t k = 0; k < a->num_layers; k++)
        for (int64_t d = 0; d < 2 * directions; d++)
            all[k].b[d] = next_block(o, s, 1, true);
}

/* The last input, where a layer has some; without a cell state its place may be left out. */
static const char *lengths_of(mx_onnx_out *o)
{
    const mx_rnn_attrs *a = o->attrs;
    const int i = a->mode == MX_RNN_LSTM || (o->n_in > 4 && *o->in[4]) ? 4 : 3;
    return a->use_sequence_length && i < o->n_in ? mx_onnx_put_cast(o, NULL, o->in[i], MX_INT32) : NULL;
}

/* One layer; *h and *m get its last states.  Returns the results (T, N, D H). */
static const char *put_layer(mx_onnx_out *o, const char *out, int64_t k, const weights *l, const char *x,
                             const char **h, const char **m)
{
    static const char *const ops[] = {"RNN", "RNN", "LSTM", "GRU"};
    const mx_rnn_attrs *a = o->attrs;
    const int directions = a->bidirectional ? 2 : 1;
    const bool lstm = a->mode == MX_RNN_LSTM;
    const char *bias[2];
    for (int d = 0; d < directions; d++)
        bias[d] = joined(o, NULL, &l->b[2 * d], 2, 1);
    const char *wide = joined(o, NULL, l->w, directions, 0), *inner = joined(o, NULL, l->r, directions, 0),
               *biases = joined(o, NULL, bias, directions, 0);
    const char *first = states_of(o, 2, k, directions), *memory = lstm ? states_of(o, 3, k, directions) : NULL;
    const char *y = mx_onnx_put(o, NULL, ops[a->mode], x, wide, inner, biases, lengths_of(o), first, memory);
    *h = mx_onnx_more(o, NULL);
    *m = lstm ? mx_onnx_more(o, NULL) : NULL;
    mx_onnx_set_int(o, "hidden_size", a->state_size);
    mx_onnx_set_text(o, "direction", directions == 2 ? "bidirectional" : "forward");
    if (a->mode == MX_RNN_GRU)
        mx_onnx_set_int(o, "linear_before_reset", 1);
    if (a->mode == MX_RNN_RNN_RELU)
        mx_onnx_set_texts(o, "activations", directions, "Relu");
    y = mx_onnx_put(o, NULL, "Transpose", y);
    mx_onnx_set_ints(o, "perm", MX_ONNX_LIST(0, 2, 1, 3));
    return mx_onnx_put(o, out, "Reshape", y, mx_onnx_put_ints(o, MX_ONNX_LIST(0, 0, -1)));
}

static mx_code write_rnn(mx_onnx_out *o)
{
    static const char *const ops[] = {"RNN", "RNN", "LSTM", "GRU"};
    const mx_rnn_attrs *a = o->attrs;
    const int64_t layers = a->num_layers, width = o->in_shape[0].ndim == 3 ? o->in_shape[0].dim[2] : -1;
    const cell c = cell_of(ops[a->mode]);
    const bool steps =
        a->projection_size != MX_NONE_INT || !isnan(a->lstm_state_clip_min) || !isnan(a->lstm_state_clip_max);
    if ((steps && a->use_sequence_length) || width < 1 || layers > MOST_LAYERS)
        return mx_onnx_refuse(o, "%s",
                              width < 1              ? "the size of its features is not known"
                              : layers > MOST_LAYERS ? "it has too many layers"
                                                     : "lengths of sequences with projections cannot be written");
    if (steps)
        return mx_onnx_write_lstm_steps(o);
    weights all[MOST_LAYERS];
    const char *h[MOST_LAYERS], *m[MOST_LAYERS], *x = o->in[0];
    slicing s = {&c, 0, a->state_size};
    take_weights(o, &s, all, width);
    for (int64_t k = 0; k < layers; k++)
        x = put_layer(o, k + 1 == layers ? o->out[0] : NULL, k, &all[k], x, &h[k], &m[k]);
    if (a->state_outputs) {
        joined(o, o->out[1], h, (int)layers, 0);
        if (a->mode == MX_RNN_LSTM)
            joined(o, o->out[2], m, (int)layers, 0);
    }
    return mx_onnx_done(o);
}

static mx_code write_parameters(mx_onnx_out *o)
{
    mx_onnx_node(o, o->out[0], "Concat", o->n_in, o->in);
    mx_onnx_set_int(o, "axis", 0);
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_rnn[] = {BOTH("LSTM", "RNN", read_rnn, write_rnn, .constants = 16),
                                   READ("GRU", read_rnn, .constants = 16),
                                   READ("RNN", read_rnn, .constants = 16),
                                   WRITE(NULL, "_rnn_param_concat", write_parameters),
                                   {0}};
