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

/* prelu's data as (outer, slopes, inner): inner, the number of neighbours that share a slope.  gamma has one slope, one
 * per channel (axis 1), or several axes, which are those of the data from the first on, or 1. */
static inline int64_t mx_prelu_inner(const int64_t *data, int ndim, const int64_t *gamma, int gamma_ndim)
{
    int last = gamma_ndim == 1 ? (ndim > 1 ? 1 : 0) : gamma_ndim - 1;
    int64_t inner = 1, size = 1;
    for (int i = 0; i < gamma_ndim; i++)
        size *= gamma[i];
    while (gamma_ndim > 1 && last > 0 && gamma[last] == 1)
        last--;
    for (int axis = size == 1 ? 0 : last + 1; axis < ndim; axis++)
        inner *= data[axis];
    return inner ? inner : 1;
}

/* A(act_type, entry of op/formula/pointwise_numbers.h, whose gradient is <entry>_gradient): p is the slope, which is
 * per channel for prelu and per element for rrelu. */
#define MX_LEAKY_RELU_ROWS(A) \
    A(RRELU, leaky) A(LEAKY, leaky) A(PRELU, leaky) A(ELU, elu) A(SELU, selu) A(GELU, gelu)

#endif
