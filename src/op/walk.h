/* Positions in arrays, for the references of operators and the kernels of all devices.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_WALK_H
#define MX_OP_WALK_H

#include "ndarray/array.h"
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

/* ---- two operands broadcast to one result ------------------------------------------------------------------------ */

/* Axes with equal behaviour are joined, so most walks have one; there is at least one. */
typedef struct mx_pair_walk {
    int ndim;
    int64_t dim[MX_MAX_NDIM];
    int64_t step[2][MX_MAX_NDIM]; /* of each operand, in elements; 0 where it is broadcast */
} mx_pair_walk;

static inline void mx_broadcast_steps(const mx_array *x, const mx_array *out, int64_t step[MX_MAX_NDIM])
{
    int64_t running = 1;
    for (int axis = out->ndim - 1, k = x->ndim - 1; axis >= 0; axis--, k--) {
        const int64_t dim = k >= 0 ? x->shape[k] : 1;
        step[axis] = dim == 1 ? 0 : running;
        running *= dim;
    }
}

static inline void mx_pair_walk_set(mx_pair_walk *w, const mx_array *a, const mx_array *b, const mx_array *out)
{
    int64_t step[2][MX_MAX_NDIM];
    mx_broadcast_steps(a, out, step[0]);
    mx_broadcast_steps(b, out, step[1]);
    w->ndim = 0;
    for (int axis = 0; axis < out->ndim; axis++) {
        const int64_t dim = out->shape[axis];
        const int last = w->ndim - 1;
        if (dim == 1)
            continue;
        const bool joins =
            w->ndim && w->step[0][last] == dim * step[0][axis] && w->step[1][last] == dim * step[1][axis];
        const int at = joins ? last : w->ndim++;
        w->dim[at] = joins ? w->dim[at] * dim : dim;
        w->step[0][at] = step[0][axis], w->step[1][at] = step[1][axis];
    }
    if (!w->ndim) {
        w->ndim = 1;
        w->dim[0] = w->step[0][0] = w->step[1][0] = 1;
    }
}

#endif
