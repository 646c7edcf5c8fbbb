/* Optimizer updates of several tensors in one call: which update of op/formula/optimizer.h, and how inputs are grouped.
 *
 *     (weight, grad, states..., weight32?) per tensor, then the shared inputs (learning rates, scale)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_MULTI_OPTIMIZER_H
#define MX_OP_MULTI_OPTIMIZER_H

#include "op/op.h"
#include "op/formula/optimizer.h"

/* op->user */
typedef struct mx_multi_use {
    mx_update_row row;
    int states;
    bool precision; /* each group ends with a 32-bit weight */
    int tail;       /* inputs after the groups: 2 learning rates and decays, 1 scale of the gradient */
} mx_multi_use;

static inline int mx_multi_group(const mx_multi_use *use) { return 2 + use->states + use->precision; }

/* The constants of tensor i, from the attributes; fields that the operator lacks stay 0. */
void mx_multi_constants(const mx_op *op, const void *attrs, int i, mx_update_constants *k);

#endif
