/* What NumPy's functions of shapes share: axes by number, and their entries in the tables.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_NP_AXES_H
#define MX_OP_NP_AXES_H

#include "base/error.h"
#include "op/expand.h"

/* An axis counted from the front; -1 with an error. */
static inline int axis_in(const mx_expand *call, int64_t axis, int ndim)
{
    if (axis >= -ndim && axis < ndim)
        return (int)(axis < 0 ? axis + ndim : axis);
    mx_op_fail(call->op, MX_ERR_SHAPE, "axis %lld is out of bounds for an array with %d axes", (long long)axis, ndim);
    return -1;
}

static inline mx_array *shaped(const mx_expand *call, int i)
{
    mx_array *x = mx_expand_by_rules(call, call->in[i]);
    if (x && x->ndim < 0)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the number of axes must be known"), NULL;
    return x;
}

// clang-format off
/* An entry of one input, which is called "a" or as NumPy calls it. */
#define MOVE(id, function, operator_, schema_, doc_) MOVE_OF(id, "a", function, operator_, schema_, doc_)
#define MOVE_OF(id, input, function, operator_, schema_, doc_) \
    {.name = "np." #id, .c_name = "np_" #id, .doc = doc_, .inputs = input, .flags = MX_OP_EXPANDS, .schema = schema_, \
     .user = &(mx_expansion){function, {operator_, NULL, NULL}, 0, {NULL, NULL, NULL}}},
// clang-format on

#endif
