/* What NumPy's functions of single elements share: calls with a number, and their entries in the tables.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_NP_ELEMENTWISE_H
#define MX_OP_NP_ELEMENTWISE_H

#include <math.h>

#include "op/def/np/values.h"

/* The attributes of all scalar operators: see def/pointwise/pointwise.c. */
typedef struct scalar_attrs {
    double scalar;
    bool is_int;
} scalar_attrs;

static inline mx_array *with_number(mx_op *op, mx_array *x, double number)
{
    const scalar_attrs attrs = {number, number == floor(number)};
    return mx_g_call(op, &attrs, 1, &x);
}

/* Sums, products and extremes of bool are computed as integers and are bool again. */
static inline mx_array *bool_again(const mx_expand *call, mx_array *result)
{
    return mx_result_type((mx_arrays){call->in, call->n_in}) == MX_BOOL ? mx_expand_cast(result, MX_BOOL) : result;
}
static inline mx_code finish(const mx_expand *call, mx_array *result)
{
    const uint32_t rules = call->how->rules;
    return mx_expand_give(call, rules & MX_TO_BOOL ? mx_expand_cast(result, MX_BOOL) : result);
}

// clang-format off
#define OP1(id, function, operator_, rules_, doc_) \
    {.name = "np." #id, .c_name = "np_" #id, .doc = doc_, .inputs = "x", .flags = MX_OP_EXPANDS, \
     .user = &(mx_expansion){function, {operator_, NULL, NULL}, rules_, {NULL, NULL, NULL}}},
#define OP2(id, function, array, scalar, reversed, rules_, doc_) \
    {.name = "np." #id, .c_name = "np_" #id, .doc = doc_, .inputs = "x1 x2", .flags = MX_OP_EXPANDS, \
     .user = &(mx_expansion){function, {array, scalar, reversed}, rules_, {NULL, NULL, NULL}}},
// clang-format on

#endif
