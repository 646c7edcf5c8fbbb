/* RNN on the GPU: recurrent layers by matrix products, laid out as on the CPU (op/formula/rnn.h).
 *
 * This file is the call over all layers: addresses of arrays, what a layer passes on (rnn_layer.h lists the other
 * files).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cmath>

#include "cuda/kernels/rnn/rnn_layer.h"

namespace
{

/* One call of RNN or _backward_RNN. */
struct job {
    const mx_kernel_call *call;
    mx_rnn_shape s;
    const void *lengths; /* (N); NULL: all steps */
    int length_type;
    double clip_min, clip_max, clip_nan; /* of LSTM cells; infinite: none; what NaN becomes */
    double dropout;                      /* 0: none in this call */
    const void *in[5], *output;          /* forward inputs; NULL: absent */
    void *reserve;
    const void *ograd[3]; /* backward: of output, state, cell; NULL: zero */
    void *out[4];         /* forward: output, state, cell (NULL: not wanted); backward: the gradients */
};

template <class T> T *reserve_block(const job &j, int64_t column)
{
    return (T *)j.reserve + j.s.steps * j.s.batch * column;
}

template <class T> mx_rnn_layer<T> layer_of(const job &j, int64_t layer, int64_t direction, void *output)
{
    const mx_rnn_shape &s = j.s;
    const int64_t gates = s.gates * s.hidden, inputs = mx_rnn_inputs(&s, layer),
                  kept = mx_rnn_kept_column(&s, layer, direction);
    const T *weight = (const T *)j.in[1] + mx_rnn_weight_at(&s, layer, direction);
    const T *bias = (const T *)j.in[1] + mx_rnn_bias_at(&s, layer, direction);
    const int64_t which = layer * s.directions + direction;
    const bool extra = s.mode == MX_CELL_LSTM || s.mode == MX_CELL_GRU;
    mx_rnn_layer<T> w = {};
    w.s = s, w.lengths = j.lengths, w.length_type = j.length_type;
    w.clip_min = (T)j.clip_min, w.clip_max = (T)j.clip_max, w.clip_nan = (T)j.clip_nan;
    w.inputs = inputs, w.width = s.directions * s.handed, w.reverse = direction == 1;
    w.x = layer ? reserve_block<T>(j, mx_rnn_input_column(&s, layer)) : (const T *)j.in[0];
    w.wx = weight, w.wh = weight + gates * inputs, w.wr = weight + gates * (inputs + s.handed), w.bx = bias,
    w.bh = bias + gates;
    w.out = (layer == s.layers - 1 ? (T *)output : reserve_block<T>(j, mx_rnn_input_column(&s, layer + 1))) +
            direction * s.handed;
    w.gates = reserve_block<T>(j, kept), w.extra = reserve_block<T>(j, kept + gates);
    w.raw = reserve_block<T>(j, kept + gates + (extra ? s.hidden : 0));
    w.h0 = (const T *)j.in[2] + which * s.batch * s.handed;
    w.c0 = s.mode == MX_CELL_LSTM ? (const T *)j.in[3] + which * s.batch * s.hidden : nullptr;
    return w;
}

__device__ uint32_t random_word(mx_rng rng, int64_t i) /* word i of the groups of 64 (see random.cu) */
{
    uint32_t words[4];
    mx_philox(rng.seed, rng.counter + (uint64_t)(i / 64 * 16 + i % 16), words);
    return words[i % 64 / 16];
}

/* Fills the mask, 0 or 1 / (1 - p), and applies it; without dropout in this call the mask is 1. */
template <class T> mx_code drop(const job &j, T *x, T *mask, int64_t n)
{
    const double p = j.dropout;
    const uint32_t threshold = (uint32_t)(p * 65536);
    const T scale = p < 1 ? (T)(1 / (1 - p)) : 0;
    const mx_rng rng = p > 0 ? mx_rng_reserve((uint64_t)(n / 64 + 1) * 16) : mx_rng{0, 0};
    return mx_cuda_each(j.call, n, [=] __device__(int64_t i) {
        mask[i] = p > 0 ? ((random_word(rng, i) & 0xffff) >= threshold ? scale : 0) : 1;
        x[i] *= mask[i];
    });
}

/* ---- all layers and directions ----------------------------------------------------------------------------------- */

/* Elements of scratch that a direction needs. */
int64_t forward_scratch(const mx_rnn_shape &s) { return s.batch * (2 * s.handed + s.hidden + s.gates * s.hidden); }
int64_t backward_scratch(const mx_rnn_shape &s)
{
    const int64_t rows = s.steps * s.batch, gates = s.gates * s.hidden;
    return rows * gates * (s.mode == MX_CELL_GRU ? 2 : 1) + rows * s.handed * (s.projection ? 2 : 1) +
           s.batch * (s.handed + s.hidden);
}

template <class T> mx_code forward_layer(const job &j, int64_t layer, T *scratch)
{
    const mx_rnn_shape &s = j.s;
    const int64_t N = s.batch, P = s.handed, H = s.hidden;
    mx_rnn_ways<T> ways = {{}, (int)s.directions};
    for (int d = 0; d < ways.count; d++) {
        mx_rnn_layer<T> &w = ways.way[d] = layer_of<T>(j, layer, d, j.out[0]);
        const int64_t which = layer * s.directions + d;
        T *own = scratch + d * forward_scratch(s), *cell = own + N * P;
        w.h = j.out[1] ? (T *)j.out[1] + which * N * P : own, w.c = j.out[2] ? (T *)j.out[2] + which * N * H : cell;
        w.gh = cell + N * H, w.projected = w.gh + N * s.gates * H;
    }
    return mx_rnn_forward<T>(j.call, ways);
}

template <class T> mx_code forward_layers(const job &j, T *scratch)
{
    const mx_rnn_shape &s = j.s;
    const int64_t width = s.directions * s.handed;
    mx_code code = MX_OK;
    for (int64_t layer = 0; layer < s.layers && !code; layer++) {
        code = forward_layer<T>(j, layer, scratch);
        const int64_t column = mx_rnn_input_column(&s, layer + 1);
        if (!code && s.dropout && layer + 1 < s.layers)
            code =
                drop<T>(j, reserve_block<T>(j, column), reserve_block<T>(j, column + width), s.steps * s.batch * width);
    }
    return code;
}

/* The gradients of a direction, and its scratch. */
template <class T> mx_rnn_layer<T> layer_back(const job &j, int64_t layer, int64_t d, const T *dout, T *dx, T *scratch)
{
    const mx_rnn_shape &s = j.s;
    const int64_t N = s.batch, rows = s.steps * N, gates = s.gates * s.hidden, P = s.handed, H = s.hidden;
    const int64_t which = layer * s.directions + d, inputs = mx_rnn_inputs(&s, layer);
    mx_rnn_layer<T> w = layer_of<T>(j, layer, d, (void *)j.output);
    T *weight = (T *)j.out[1] + mx_rnn_weight_at(&s, layer, d), *bias = (T *)j.out[1] + mx_rnn_bias_at(&s, layer, d);
    w.dgates = scratch, w.before = w.dgates + rows * gates, w.dh_next = w.before + rows * P;
    w.dfull = w.dh_next + N * P, w.draw = w.dfull + N * H;
    w.dh = (T *)j.out[2] + which * N * P, w.dc = j.out[3] ? (T *)j.out[3] + which * N * H : nullptr;
    w.dgh = s.mode == MX_CELL_GRU ? w.draw + (s.projection ? rows * P : 0) : w.dgates;
    w.dout = dout ? dout + d * P : nullptr, w.dx = dx, w.add_dx = d > 0;
    w.dh1 = j.ograd[1] ? (const T *)j.ograd[1] + which * N * P : nullptr;
    w.dc1 = j.ograd[2] ? (const T *)j.ograd[2] + which * N * H : nullptr;
    w.dwx = weight, w.dwh = weight + gates * inputs, w.dwr = weight + gates * (inputs + P), w.dbx = bias,
    w.dbh = bias + gates;
    return w;
}

template <class T> mx_code backward_layer(const job &j, int64_t layer, const T *dout, T *dx, T *scratch)
{
    mx_rnn_ways<T> ways = {{}, (int)j.s.directions};
    for (int d = 0; d < ways.count; d++)
        ways.way[d] = layer_back<T>(j, layer, d, dout, dx, scratch + d * backward_scratch(j.s));
    return mx_rnn_backward<T>(j.call, ways);
}

template <class T> mx_code backward_layers(const job &j, T *scratch)
{
    const mx_rnn_shape &s = j.s;
    const int64_t width = s.directions * s.handed, between = s.steps * s.batch * width;
    const T *dout = (const T *)j.ograd[0];
    mx_code code = MX_OK;
    for (int64_t layer = s.layers - 1; layer >= 0 && !code; layer--) {
        T *dx = layer ? scratch + layer % 2 * between : (T *)j.out[0];
        code = backward_layer<T>(j, layer, dout, dx, scratch + 2 * between);
        const T *mask = layer ? reserve_block<T>(j, mx_rnn_input_column(&s, layer) + width) : nullptr;
        if (!code && layer && s.dropout)
            code = mx_cuda_each(j.call, between, [=] __device__(int64_t i) { dx[i] *= mask[i]; });
        dout = dx;
    }
    return code;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

mx_rnn_shape geometry(const mx_rnn_attrs *a, const mx_array *data)
{
    mx_rnn_shape s = {};
    s.mode = a->mode, s.steps = data->shape[0], s.batch = data->shape[1], s.input = data->shape[2],
    s.hidden = a->state_size;
    s.projection = a->projection_size != MX_NONE_INT, s.handed = s.projection ? a->projection_size : a->state_size;
    s.layers = a->num_layers, s.directions = a->bidirectional ? 2 : 1, s.gates = mx_rnn_gates(a->mode),
    s.dropout = a->p > 0;
    return s;
}

/* Without a cell state, the lengths may be given in its place. */
const mx_array *lengths_of(const mx_kernel_call *call, const mx_rnn_attrs *a)
{
    if (!a->use_sequence_length)
        return nullptr;
    const bool last = call->n_in > 4 && !mx_is_none(call->in[4]);
    if (!last && (a->mode == MX_CELL_LSTM || call->n_in < 4 || mx_is_none(call->in[3])))
        return nullptr;
    return call->in[last ? 4 : 3];
}

mx_code job_of(const mx_kernel_call *call, job *j)
{
    const mx_rnn_attrs *a = (const mx_rnn_attrs *)call->attrs;
    const bool clip = !std::isnan(a->lstm_state_clip_min);
    const mx_array *lengths = lengths_of(call, a);
    *j = {};
    j->call = call, j->s = geometry(a, call->in[0]);
    j->lengths = lengths ? mx_data(lengths) : nullptr, j->length_type = lengths ? lengths->dtype : 0;
    j->clip_min = clip ? a->lstm_state_clip_min : -INFINITY, j->clip_max = clip ? a->lstm_state_clip_max : INFINITY;
    j->clip_nan = clip && !a->lstm_state_clip_nan ? a->lstm_state_clip_min : NAN;
    for (int i = 0; i < 5 && i < call->n_in; i++)
        j->in[i] = mx_is_none(call->in[i]) ? nullptr : mx_data(call->in[i]);
    if (a->mode == MX_CELL_LSTM && !j->in[3])
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "state_cell is absent, but lstm needs it");
    return MX_OK;
}

template <class T> mx_code rnn(const mx_kernel_call *call)
{
    const mx_rnn_attrs *a = (const mx_rnn_attrs *)call->attrs;
    job j;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || job_of(call, &j))
        return mx_error_code();
    j.out[0] = mx_data(call->out[0]), j.reserve = mx_data(call->out[call->n_out - 1]);
    if (a->state_outputs)
        j.out[1] = mx_data(call->out[1]), j.out[2] = a->mode == MX_CELL_LSTM ? mx_data(call->out[2]) : nullptr;
    j.dropout = call->training ? a->p : 0;
    mx_cuda_scratch scratch(d, (size_t)(j.s.directions * forward_scratch(j.s)) * sizeof(T));
    return scratch.memory ? forward_layers<T>(j, scratch.as<T>()) : mx_error_code();
}

enum { IN_OUTPUT = 5, IN_RESERVE, IN_GRADS };

template <class T> mx_code rnn_backward(const mx_kernel_call *call)
{
    job j;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || job_of(call, &j))
        return mx_error_code();
    j.output = mx_data(call->in[IN_OUTPUT]), j.reserve = mx_data(call->in[IN_RESERVE]);
    for (int i = 0; i < 3; i++)
        j.ograd[i] = mx_is_none(call->in[IN_GRADS + i]) ? nullptr : mx_data(call->in[IN_GRADS + i]);
    for (int i = 0; i < call->n_out; i++)
        j.out[i] = mx_data(call->out[i]);
    const mx_rnn_shape &s = j.s;
    const int64_t between = s.steps * s.batch * s.directions * s.handed;
    mx_cuda_scratch scratch(d, (size_t)(2 * between + s.directions * backward_scratch(s)) * sizeof(T));
    return scratch.memory ? backward_layers<T>(j, scratch.as<T>()) : mx_error_code();
}

MX_CUDA_FLOATS(run_rnn, rnn)
MX_CUDA_FLOATS(run_rnn_backward, rnn_backward)

} // namespace

MX_CUDA_KERNELS(rnn) = {{"RNN", run_rnn, NULL}, {"_backward_RNN", run_rnn_backward, NULL}, {NULL, NULL, NULL}};
