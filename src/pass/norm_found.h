/* Batch normalisations that train, and the steps beside them: what norm_parts.c and norm_limited.c fuse.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_PASS_NORM_FOUND_H
#define MX_PASS_NORM_FOUND_H

#include "pass/program.h"

/* One normalisation and the steps fused with it: numbers of steps, -1: none. */
typedef struct mx_norm_found {
    int32_t norm, add, relu;              /* of the forward part */
    int32_t relu_gradient, gradient;      /* of the backward part; relu_gradient only if both become one */
    int32_t convolution, weight_gradient; /* before it, with a bias */
    double high;                          /* relu is a clip from 0 to this; NaN: relu */
} mx_norm_found;

/* Whether step i is a normalisation by the statistics of the batch, which nothing but its gradient reads. */
bool mx_norm_find(const mx_program *program, int32_t i, mx_norm_found *f);

/* Two values of one type and shape. */
bool mx_norm_alike(const mx_program *program, int32_t a, int32_t b);

/* Gives a step another operator, with these attributes and lists. */
mx_code mx_step_become(mx_program *program, mx_step *step, mx_op *op, const void *attrs, size_t bytes, int n_in,
                       const int32_t *in, int n_out, const int32_t *out);

#endif
