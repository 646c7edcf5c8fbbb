/* The arithmetic of gated cells, from the products of input and state to output and new states; the same for dense and
 * convolutional products.
 *
 *     RNN:   h' = act(i2h + h2h)
 *     LSTM:  i, f, g, o = i2h + h2h;            c' = s(f) c + s(i) act(g),   h' = s(o) act(c')
 *     GRU:   r, z, n = i2h and h2h each:        n = act(i2h + s(r) h2h),     h' = (1 - s(z)) n + s(z) h
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_RNN_GATES_H
#define MX_GLUON_RNN_GATES_H

#include "gluon/rnn/cell.h"

/* How a cell's nodes look in graphs; values are the same. */
typedef struct mx_gates {
    int axis;        /* of the gates in a product */
    bool named;      /* sums and products of a step have names (t0_plus0); otherwise they are numbered */
    bool chosen;     /* LSTM: the gates' own activation can be chosen */
    bool fixed;      /* the activation of cells is tanh, as an Activation node */
    const char *out; /* name of the output; NULL: "out" */
} mx_gates;

mx_array *mx_gates_rnn(mx_block *self, const mx_gates *g, mx_array *i2h, mx_array *h2h);
/* *c: the cell before, then the new one (NULL on failure). */
mx_array *mx_gates_lstm(mx_block *self, const mx_gates *g, mx_array *i2h, mx_array *h2h, mx_array **c);
mx_array *mx_gates_gru(mx_block *self, const mx_gates *g, mx_array *i2h, mx_array *h2h, mx_array *h);
/* Results of a step: the output, which is the first state, and the second state if there is one. */
mx_arrays mx_gates_results(mx_array *output, mx_array *cell, bool has_cell);

#endif
