/* The geometry of the RNN operator: where weights, biases and saved values are stored.
 *
 * parameters: for every layer, for every direction: i2h (G H, inputs), h2h (G H, P), and with a projection h2r (P, H);
 * then, in the same order, the biases i2h (G H), h2h (G H).  P is the size of the state: that of the projection,
 * or H.
 *
 * reserve (T, N, width): what the backward pass needs, block after block, each block (T, N, its width):
 *     for every layer but the first: its input (D P), and with dropout the mask that made it (D P)
 *     for every layer and direction: gates (G H); LSTM: cells (H), GRU: the new gate's h2h part (H); with a projection
 *     the state before it (H)
 * A layer writes its output into the next layer's input block; dropout is applied there in place.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_RNN_H
#define MX_OP_RNN_H

#include <stdbool.h>
#include <stdint.h>

enum mx_rnn_mode { MX_CELL_RELU, MX_CELL_TANH, MX_CELL_LSTM, MX_CELL_GRU };

typedef struct mx_rnn_shape {
    int mode; /* mx_rnn_mode */
    int64_t steps, batch, input;
    int64_t hidden; /* H */
    int64_t handed; /* P: size of the state and of one direction's output */
    int64_t layers, directions;
    int64_t gates; /* G: 1, 4, 3 */
    bool projection, dropout;
} mx_rnn_shape;

static inline int64_t mx_rnn_gates(int mode) { return mode == MX_CELL_LSTM ? 4 : mode == MX_CELL_GRU ? 3 : 1; }
/* Inputs of a layer. */
static inline int64_t mx_rnn_inputs(const mx_rnn_shape *s, int64_t layer)
{
    return layer ? s->directions * s->handed : s->input;
}
/* Weights of one layer and direction. */
static inline int64_t mx_rnn_weights(const mx_rnn_shape *s, int64_t layer)
{
    return s->gates * s->hidden * (mx_rnn_inputs(s, layer) + s->handed) + (s->projection ? s->handed * s->hidden : 0);
}
/* Offset of the i2h weights; h2h follow, then h2r.  With layer == layers: offset of the biases. */
static inline int64_t mx_rnn_weight_at(const mx_rnn_shape *s, int64_t layer, int64_t direction)
{
    const int64_t first = layer ? s->directions * mx_rnn_weights(s, 0) : 0;
    const int64_t others = layer > 1 ? (layer - 1) * s->directions * mx_rnn_weights(s, 1) : 0;
    return first + others + (direction ? direction * mx_rnn_weights(s, layer) : 0);
}
static inline int64_t mx_rnn_bias_at(const mx_rnn_shape *s, int64_t layer, int64_t direction)
{
    return mx_rnn_weight_at(s, s->layers, 0) + (layer * s->directions + direction) * 2 * s->gates * s->hidden;
}
static inline int64_t mx_rnn_parameters(const mx_rnn_shape *s) { return mx_rnn_bias_at(s, s->layers, 0); }

/* Columns of the reserve. */
static inline int64_t mx_rnn_between(const mx_rnn_shape *s) { return s->directions * s->handed * (s->dropout ? 2 : 1); }
static inline int64_t mx_rnn_kept(const mx_rnn_shape *s)
{
    const bool extra = s->mode == MX_CELL_LSTM || s->mode == MX_CELL_GRU;
    return s->gates * s->hidden + (extra ? s->hidden : 0) + (s->projection ? s->hidden : 0);
}
static inline int64_t mx_rnn_input_column(const mx_rnn_shape *s, int64_t layer)
{
    return (layer - 1) * mx_rnn_between(s);
}
static inline int64_t mx_rnn_kept_column(const mx_rnn_shape *s, int64_t layer, int64_t direction)
{
    return (s->layers - 1) * mx_rnn_between(s) + (layer * s->directions + direction) * mx_rnn_kept(s);
}
static inline int64_t mx_rnn_reserve(const mx_rnn_shape *s) { return mx_rnn_kept_column(s, s->layers, 0); }

#endif
