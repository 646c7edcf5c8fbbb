/* Positions in arrays: what the plain references of operators walk with.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_WALK_H
#define MX_OP_WALK_H

#include "ndarray/shape.h"

/* Position of element i: at[axis]. */
static inline void mx_position(const mx_shape_t *shape, int64_t i, int64_t *at)
{
    for (int axis = shape->ndim - 1; axis >= 0; axis--) {
        at[axis] = i % shape->dim[axis];
        i /= shape->dim[axis];
    }
}

/* Element number of a position. */
static inline int64_t mx_element(const mx_shape_t *shape, const int64_t *at)
{
    int64_t i = 0;
    for (int axis = 0; axis < shape->ndim; axis++)
        i = i * shape->dim[axis] + at[axis];
    return i;
}

/* The shape as (before, size of axis, after). */
typedef struct mx_split {
    int64_t before, size, after;
} mx_split;
static inline mx_split mx_split_at(const mx_shape_t *shape, int axis)
{
    mx_split split = {1, shape->dim[axis], 1};
    for (int i = 0; i < axis; i++)
        split.before *= shape->dim[i];
    for (int i = axis + 1; i < shape->ndim; i++)
        split.after *= shape->dim[i];
    return split;
}

#endif
