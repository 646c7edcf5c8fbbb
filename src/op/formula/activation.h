/* Which function each act_type of Activation and LeakyReLU is, for the operators and for every device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_ACTIVATION_H
#define MX_OP_ACTIVATION_H

#include "op/formula/pointwise.h"
#include "op/formula/pointwise_numbers.h"

/* A(act_type, entry of op/formula/pointwise.h) */
#define MX_ACTIVATION_ROWS(A) \
    A(RELU, relu) A(SIGMOID, sigmoid) A(TANH, tanh) A(SOFTRELU, _softplus) A(SOFTSIGN, softsign)
/* Their gradients use the result, so that the data need not be saved.  softsign's gradient uses x: Activation has
 * softsign_gradient of op/formula/pointwise_numbers.h instead. */

/* A(act_type, entry of op/formula/pointwise_numbers.h, whose gradient is <entry>_gradient): p is the slope, which is
 * per channel for prelu and per element for rrelu. */
#define MX_LEAKY_RELU_ROWS(A) \
    A(RRELU, leaky) A(LEAKY, leaky) A(PRELU, leaky) A(ELU, elu) A(SELU, selu) A(GELU, gelu)

#endif
