/* The gradient of RNN as a composition of operators (rnn_compose.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_RNN_COMPOSE_H
#define MX_OP_RNN_COMPOSE_H

#include "op/op.h"
#include "op/formula/rnn.h"

typedef struct mx_rnn_limits {
    double least, most; /* of an LSTM's cells; NaN: none */
} mx_rnn_limits;

/* Fills the gradients by operators that can be differentiated again; lengths (N) or NULL. */
mx_code mx_rnn_compose(mx_grad *grad, const mx_rnn_shape *s, const mx_rnn_limits *limits, mx_array *lengths);

#endif
