/* Pointwise functions fused into one step.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_FUSED_H
#define MX_OP_FUSED_H

#include "gluon/base.h"
#include "op/formula/pointwise.h"

#define MX_FUSED_INPUTS 8
#define MX_FUSED_ROWS 12

/* One function of the pointwise table; operands: k < MX_FUSED_INPUTS is input k, others results of earlier ones. */
typedef struct mx_fused_row {
    int16_t row;   /* of op/formula/pointwise.h */
    int8_t form;   /* MX_FORM_... */
    int8_t in[3];  /* as many as the form has */
    double scalar; /* of the scalar forms */
} mx_fused_row;

/* The attributes of _pointwise: a small program whose last result is the output.  Plans create them; the operator's
 * default (none) returns the first input. */
typedef struct mx_fused {
    int32_t n_in, n_rows;
    mx_fused_row rows[MX_FUSED_ROWS];
} mx_fused;

#endif
