/* Moving elements without changing them: transpose, slice, concat, pad, tile ... as strided copies.
 *
 * Such an operator describes, from shapes and attributes alone, a list of moves
 *
 *     for every position p in the box `dim`:   to[to_offset + p . to] = from[from_offset + p . from]
 *
 * with strides in elements; a stride of 0 repeats, a negative one reverses.  The moves run one after another, so a
 * later one may read what an earlier one wrote.  A device needs one kernel for the family, which runs the list.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_MOVEMENT_H
#define MX_OP_MOVEMENT_H

#include "op/op.h"

#define MX_MOVE_AXES (2 * MX_MAX_NDIM) /* tile and repeat split every axis in two */
#define MX_FROM_VALUE (-1)             /* the source is the number `value` */
#define MX_FROM_OUTPUT (-2)            /* the source is the output itself */

typedef struct mx_move {
    int input;    /* the source: an input's number, MX_FROM_VALUE or MX_FROM_OUTPUT */
    int output;   /* the destination */
    double value; /* for MX_FROM_VALUE */
    int ndim;
    int64_t dim[MX_MOVE_AXES];
    int64_t to[MX_MOVE_AXES], from[MX_MOVE_AXES]; /* strides in elements */
    int64_t to_offset, from_offset;               /* in elements */
} mx_move;

/* Move number i of a call; false past the last one.  `move` is zeroed by the caller.  op->movement points to the rule. */
typedef struct mx_movement {
    bool (*plan)(const mx_kernel_call *call, int i, mx_move *move);
} mx_movement;

/* As the operator name in a table of kernels: all operators that have a rule. */
#define MX_ALL_MOVEMENTS "*movements"

/* Fewest axes that describe the same move. */
static inline void mx_move_simplify(mx_move *move)
{
    int n = 0;
    for (int i = 0; i < move->ndim; i++) {
        const int64_t dim = move->dim[i], to = move->to[i], from = move->from[i];
        if (dim == 1)
            continue;
        if (n && move->to[n - 1] == to * dim && move->from[n - 1] == from * dim) {
            move->dim[n - 1] *= dim;
            move->to[n - 1] = to, move->from[n - 1] = from;
            continue;
        }
        move->dim[n] = dim, move->to[n] = to, move->from[n] = from;
        n++;
    }
    move->ndim = n;
}

/* Strides of an array in C order. */
void mx_strides(const mx_array *x, int64_t *stride);
/* The box of x's shape: dim and, as strides of the destination, x's own. */
void mx_move_to(mx_move *move, const mx_array *x);
/* The same with the strides on the source's side. */
void mx_move_from(mx_move *move, const mx_array *x);
/* Fills output 0 with a number. */
bool mx_move_fill(mx_move *move, const mx_array *out, double value);

/* ---- slices --------------------------------------------------------------------------------------------- */
/* begin, end and step of a Python slice, resolved: n elements begin, begin + step, ... */
typedef struct mx_span {
    int64_t begin, step, n;
} mx_span;
/* begin, end, step may be MX_NONE_INT; step must not be 0; out-of-range values are clamped. */
mx_span mx_span_of(int64_t size, int64_t begin, int64_t end, int64_t step);

/* ---- calls that gradients and indexing share ---------------------------------------------------------------- */
mx_array *mx_g_slice(mx_array *x, const mx_span *span);                            /* one span per axis */
mx_array *mx_g_unslice(mx_array *x, const mx_span *span, const mx_shape_t *shape); /* zeros with x in the slice */
mx_array *mx_g_slice_axis(mx_array *x, int axis, int64_t begin, int64_t end);
mx_array *mx_g_transpose(mx_array *x, const int *axes);
mx_array *mx_g_zeros(const mx_shape_t *shape, int dtype, mx_context context);
mx_array *mx_g_join(int n, mx_array *const *parts, int axis, bool stacked); /* Concat or stack */
/* Sums x, seen as (before, n, after), over n: the adjoint of repeating along an axis. */
mx_array *mx_g_fold(mx_array *x, int64_t before, int64_t n, int64_t after);

#endif
