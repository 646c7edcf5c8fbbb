/* Reductions, shared by the operators and the kernels of every device.
 *
 * A reduction folds the axes of a bit mask.  The operator's `user` says which fold it is (an int, mx_fold).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_REDUCE_H
#define MX_OP_REDUCE_H

#include "op/op.h"

typedef enum mx_fold {
    MX_FOLD_SUM,
    MX_FOLD_MEAN,
    MX_FOLD_PROD,
    MX_FOLD_NANSUM,  /* NaN counts as 0 */
    MX_FOLD_NANPROD, /* NaN counts as 1 */
    MX_FOLD_MAX,     /* NaN wins */
    MX_FOLD_MIN,
    MX_FOLD_NORM1,   /* sum of absolute values */
    MX_FOLD_NORM2,   /* square root of the sum of squares */
    MX_FOLD_SQUARES, /* sum of squares */
    MX_FOLDS
} mx_fold;

#define MX_FOLD_HAS_NO_EMPTY(fold) ((fold) == MX_FOLD_MAX || (fold) == MX_FOLD_MIN)

/* The axes to fold as a mask; None or () means all.  -1 with an error if one is out of range or given twice. */
static inline int mx_fold_axes(const mx_op *op, const mx_dims *axis, bool exclude, int ndim)
{
    const int all = (1 << ndim) - 1;
    int mask = 0;
    if (axis->n <= 0)
        return all;
    for (int i = 0; i < axis->n; i++) {
        const int a = mx_axis(axis->d[i], ndim);
        if (a < 0)
            return mx_op_fail(op, MX_ERR_ATTRIBUTE, "axis %lld is not an axis of an input with %d axes",
                              (long long)axis->d[i], ndim),
                   -1;
        if (mask >> a & 1)
            return mx_op_fail(op, MX_ERR_ATTRIBUTE, "axis %d is given twice", a), -1;
        mask |= 1 << a;
    }
    return exclude ? all & ~mask : mask;
}

/* The shape with folded axes as ones, and without them; a result has at least one axis. */
static inline mx_shape_t mx_fold_shape(const mx_shape_t *in, int mask, bool keepdims)
{
    mx_shape_t out = {.ndim = 0};
    for (int axis = 0; axis < in->ndim; axis++)
        if (!(mask >> axis & 1))
            out.dim[out.ndim++] = in->dim[axis];
        else if (keepdims)
            out.dim[out.ndim++] = 1;
    if (!out.ndim && !keepdims)
        out.dim[out.ndim++] = 1;
    return out;
}

/* The axes that broadcasting `small` to `big` repeats. */
static inline int mx_broadcast_axes(const mx_shape_t *big, const mx_shape_t *small)
{
    int mask = 0;
    for (int axis = 0; axis < big->ndim; axis++) {
        const int k = axis - (big->ndim - small->ndim);
        if (k < 0 || (small->dim[k] == 1 && big->dim[axis] != 1))
            mask |= 1 << axis;
    }
    return mask;
}

#endif
