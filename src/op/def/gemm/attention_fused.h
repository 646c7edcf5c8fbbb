/* Parts of the description of attention (attention_fused.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_ATTENTION_FUSED_H
#define MX_OP_ATTENTION_FUSED_H

#include "op/formula/attention.h"
#include "op/op.h"

/* What the parts need to know about a call. */
typedef struct mx_attention_use {
    mx_attention_shape s;
    int roles;
    bool time_first;
} mx_attention_use;

/* The gradient as operators that can be differentiated again (attention_compose.c).  seen, kept (N, heads, queries, keys): 1
 * where a query sees a key, the factor of dropout; NULL: 1. */
mx_code mx_attention_compose(mx_grad *grad, const mx_attention_use *c, mx_array *seen, mx_array *kept);

/* References (attention_reference.c); mask or valid_length may be NULL. */
typedef struct mx_attention_values {
    const double *input[3], *mask, *valid_length;
    mx_rng rng; /* of dropout */
} mx_attention_values;
void mx_attention_reference(const mx_attention_shape *s, const mx_attention_values *v, double *out, double *lse);
void mx_attention_back_reference(const mx_attention_shape *s, const mx_attention_values *v, const double *g,
                                 const double *out, const double *lse, double *const *gradient);
void mx_attention_pattern_reference(const mx_attention_shape *s, const mx_attention_values *v, double *seen,
                                    double *kept);

#endif
