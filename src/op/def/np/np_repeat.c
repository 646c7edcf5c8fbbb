/* NumPy's functions that repeat, turn and surround elements, and those of diagonals and triangles.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "op/def/np/axes.h"
#include "op/def/np/values.h"

/* ---- repeating and turning --------------------------------------------------------------------------------------- */

#define TILE_ATTRS(X) X(DIMS, reps, REQUIRED, "", "number of repetitions per axis, aligned from the right")
MX_ATTRS(np_tile, TILE_ATTRS)
#define REPEAT_ATTRS(X) \
    X(INT, repeats, REQUIRED, "0..", "number of repetitions of each element") \
    X(INT, axis, "None", "", "the axis; None: the flattened array")
MX_ATTRS(np_repeat, REPEAT_ATTRS)
#define FLIP_ATTRS(X) X(DIMS, axis, "None", "", "axes to reverse; None: all of them")
MX_ATTRS(np_flip, FLIP_ATTRS)
#define ROLL_ATTRS(X) \
    X(DIMS, shift, REQUIRED, "", "how far elements move; what leaves at the end enters at the beginning") \
    X(DIMS, axis, "None", "", "the axes; None: of all elements in order")
MX_ATTRS(np_roll, ROLL_ATTRS)
/* The operator of the entry with the attributes of the same name. */
static mx_code same(const mx_expand *call)
{
    mx_array *x[MX_MAX_DECLARED];
    for (int i = 0; i < call->n_in; i++)
        if (!(x[i] = call->in[i] == MX_NONE ? MX_NONE : mx_expand_by_rules(call, call->in[i])))
            return mx_error_code();
    return mx_expand_same(call, mx_expansion_op(call->how, 0), call->n_in, x, MX_MAX_OUTPUTS, call->out);
}
static mx_code repeat(const mx_expand *call)
{
    mx_array *x = shaped(call, 0);
    if (x && !x->ndim) /* numbers have one axis */
        x = mx_flattened(x);
    return x ? mx_expand_same(call, MX_OP("repeat"), 1, &x, 1, call->out) : mx_error_code();
}
static mx_code flip(const mx_expand *call)
{
    mx_array *x = shaped(call, 0);
    mx_dims axes = ((const mx_np_flip_attrs *)call->attrs)->axis;
    for (int i = 0; x && i < axes.n; i++)
        if ((axes.d[i] = axis_in(call, axes.d[i], x->ndim)) < 0)
            return mx_error_code();
    if (x && axes.n < 0)
        for (axes.n = 0; axes.n < x->ndim; axes.n++)
            axes.d[axes.n] = axes.n;
    return mx_expand_give(call, !x ? NULL : axes.n ? mx_g_call(MX_OP("reverse"), &axes, 1, &x) : mx_g1("_copy", x));
}
static mx_array *rolled(mx_array *x, int axis, int64_t shift)
{
    const int64_t size = x ? x->shape[axis] : 0, by = size ? (shift % size + size) % size : 0;
    if (!x || !by)
        return x;
    struct { int64_t axis, begin, end; } tail = {axis, size - by, size}, rest = {axis, 0, size - by};
    mx_array *parts[2] = {mx_g_call(MX_OP("slice_axis"), &tail, 1, &x), mx_g_call(MX_OP("slice_axis"), &rest, 1, &x)};
    struct { int64_t num_args, dim; } attrs = {2, axis};
    return mx_g_call(MX_OP("Concat"), &attrs, 2, parts);
}
static mx_code roll(const mx_expand *call)
{
    const mx_np_roll_attrs *attrs = call->attrs;
    mx_array *x = shaped(call, 0);
    if (!x)
        return mx_error_code();
    const mx_shape_t shape = mx_array_shape(x);
    if (attrs->axis.n < 0) {
        mx_array *flat = rolled(mx_expand1("Reshape", x, "shape=(-1,)"), 0, attrs->shift.d[0]);
        return mx_expand_give(call, flat ? mx_g_reshape(flat, &shape) : NULL);
    }
    for (int i = 0; x && i < attrs->axis.n; i++) {
        const int axis = axis_in(call, attrs->axis.d[i], shape.ndim);
        x = axis < 0 ? NULL : rolled(x, axis, attrs->shift.d[attrs->shift.n == 1 ? 0 : i]);
    }
    return mx_expand_give(call, x == call->in[0] ? mx_g1("_copy", x) : x);
}

/* ---- diagonals and triangles ------------------------------------------------------------------------------------- */

#define K_ATTRS(X) X(INT, k, "0", "", "which diagonal: 0 is the main one, positive ones are above it")
MX_ATTRS(np_diag, K_ATTRS)
MX_ATTRS(np_tri, K_ATTRS)
#define DIAGONAL_ATTRS(X) \
    X(INT, offset, "0", "", "which diagonal: 0 is the main one, positive ones are above it") \
    X(INT, axis1, "0", "", "axis of the rows") \
    X(INT, axis2, "1", "", "axis of the columns")
MX_ATTRS(np_diagonal, DIAGONAL_ATTRS)
/* A diagonal behind the last row or column has no elements. */
static mx_array *no_diagonal(mx_array *x, int axis1, int axis2)
{
    mx_shape_t shape = {.ndim = 0};
    char text[MX_SHAPE_TEXT], ctx[32];
    for (int i = 0; i < x->ndim; i++)
        if (i != axis1 && i != axis2)
            shape.dim[shape.ndim++] = x->shape[i];
    shape.dim[shape.ndim++] = 0;
    return mx_expand_text(MX_OP("_zeros"), 0, NULL, "shape=%s, dtype=%s, ctx=%s", mx_shape_text(&shape, text),
                          mx_dtype_name((mx_dtype)x->dtype), mx_context_text(x->context, ctx));
}
static mx_array *diagonal_of(const mx_expand *call)
{
    const mx_np_diagonal_attrs *attrs = call->attrs;
    mx_array *x = shaped(call, 0);
    if (x && x->ndim < 2)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "got %d axes, wanted at least two", x->ndim), NULL;
    const int axis1 = x ? axis_in(call, attrs->axis1, x->ndim) : -1,
              axis2 = axis1 < 0 ? -1 : axis_in(call, attrs->axis2, x->ndim);
    if (axis2 < 0)
        return NULL;
    if (axis1 == axis2)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "axis %d is named twice", axis1), NULL;
    const int64_t rows = x->shape[axis1], columns = x->shape[axis2];
    if (rows >= 0 && columns >= 0 && (attrs->offset >= columns || attrs->offset <= -rows))
        return no_diagonal(x, axis1, axis2);
    return mx_expand1("diag", x, "k=%lld, axis1=%d, axis2=%d", (long long)attrs->offset, axis1, axis2);
}
/* np.diag: of a matrix its diagonal, of a vector the matrix. */
static mx_code diag(const mx_expand *call)
{
    const int64_t k = ((const mx_np_diag_attrs *)call->attrs)->k;
    mx_array *x = shaped(call, 0);
    if (x && (x->ndim < 1 || x->ndim > 2))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "got %d axes, wanted a vector or a matrix", x->ndim);
    return x && x->ndim == 2 ? mx_expand_give(call, mx_expand1("np.diagonal", x, "offset=%lld", (long long)k))
                             : same(call);
}
static mx_code diagonal(const mx_expand *call) { return mx_expand_give(call, diagonal_of(call)); }
static mx_code trace(const mx_expand *call)
{
    mx_array *y = diagonal_of(call);
    const mx_shape_t nothing = {.ndim = 0};
    const bool last = y && y->ndim == 1;
    y = y ? mx_expand1("sum", mx_expand_cast(y, y->dtype == MX_BOOL ? MX_INT64 : MX_DTYPE_NONE), "axis=-1") : NULL;
    return mx_expand_give(call, last && y ? mx_g_reshape(y, &nothing) : y);
}
/* x where column - row is at most k (lower) or at least k (upper), else 0. */
static mx_code triangle(const mx_expand *call)
{
    const int64_t k = ((const mx_np_tri_attrs *)call->attrs)->k;
    mx_array *x = shaped(call, 0);
    if (!x)
        return mx_error_code();
    if (x->ndim < 1)
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "wanted at least one axis");
    const int64_t columns = x->shape[x->ndim - 1], rows = x->ndim > 1 ? x->shape[x->ndim - 2] : columns;
    char ctx[32];
    mx_context_text(x->context, ctx);
    mx_array *row =
        mx_expand_text(MX_OP("_arange"), 0, NULL, "start=0, stop=%lld, dtype=float64, ctx=%s", (long long)rows, ctx);
    mx_array *column =
        mx_expand_text(MX_OP("_arange"), 0, NULL, "start=0, stop=%lld, dtype=float64, ctx=%s", (long long)columns, ctx);
    mx_array *distance = mx_g_sub(column, row ? mx_expand1("Reshape", row, "shape=(-1, 1)") : NULL);
    mx_array *inside =
        distance ? mx_expand_text(mx_expansion_op(call->how, 0), 1, &distance, "scalar=%lld", (long long)k) : NULL;
    mx_array *none = mx_dtype_is_float((mx_dtype)x->dtype) ? mx_number_float(0) : mx_number_bool(false);
    return mx_expand_give(call, mx_choose(inside, x, none));
}

#define PAD_ATTRS(X) \
    X(DIMS, pad_width, REQUIRED, "", "widths before and after each axis: (before0, after0, before1, ...)") \
    X(ENUM, mode, "constant", "constant|edge|reflect|symmetric|wrap|maximum|minimum|mean", "how the border is filled") \
    X(FLOAT, constant_values, "0.0", "", "for mode constant")
MX_ATTRS(np_pad, PAD_ATTRS)
/* One axis at a time, each as the last of three: the classic operator pads those that follow the first two of four. */
static mx_array *padded(mx_array *x, int axis, int64_t before, int64_t after, const mx_np_pad_attrs *attrs)
{
    static const char *const modes[] = {"constant", "edge", "reflect", "symmetric"};
    int64_t rows = 1, columns = 1;
    for (int i = 0; i < axis; i++)
        rows *= x->shape[i];
    for (int i = axis + 1; i < x->ndim; i++)
        columns *= x->shape[i];
    mx_shape_t result = mx_array_shape(x);
    result.dim[axis] += before + after;
    mx_array *flat = mx_g_reshape(x, &(mx_shape_t){.ndim = 4, .dim = {1, rows, x->shape[axis], columns}});
    mx_array *y =
        flat ? mx_expand1("Pad", flat, "mode=%s, pad_width=(0, 0, 0, 0, %lld, %lld, 0, 0), constant_value=%.17g",
                          modes[attrs->mode], (long long)before, (long long)after, attrs->constant_values)
             : NULL;
    return y ? mx_g_reshape(y, &result) : NULL;
}
/* The border of mode symmetric repeats the edge: reflected parts are joined. */
static mx_array *mirrored(mx_array *x, int axis, int64_t before, int64_t after)
{
    mx_array *parts[3];
    int n = 0;
    const int64_t size = x->shape[axis];
    struct { int64_t axis, begin, end; } head = {axis, 0, before}, tail = {axis, size - after, size};
    const mx_dims turned = {.n = 1, .d = {axis}};
    if (before) {
        mx_array *part = mx_g_call(MX_OP("slice_axis"), &head, 1, &x);
        parts[n++] = mx_g_call(MX_OP("reverse"), &turned, 1, &part);
    }
    parts[n++] = x;
    if (after) {
        mx_array *part = mx_g_call(MX_OP("slice_axis"), &tail, 1, &x);
        parts[n++] = mx_g_call(MX_OP("reverse"), &turned, 1, &part);
    }
    return mx_joined(n, parts, axis);
}
/* The border of mode wrap is what is at the other end. */
static mx_array *wrapped(mx_array *x, int axis, int64_t before, int64_t after)
{
    const int64_t size = x->shape[axis];
    mx_array *parts[3] = {mx_part(x, axis, size - before, size), x, mx_part(x, axis, 0, after)};
    return mx_joined(3, parts, axis);
}
/* The border is one number per line: its largest or smallest element, or its mean. */
static mx_array *surrounded(mx_array *x, int axis, int64_t before, int64_t after, const char *number)
{
    mx_array *one = mx_expand_text(mx_op_find(number), 1, &x, "axis=%d, keepdims=True", axis);
    mx_shape_t first = mx_array_shape(x), last = first;
    first.dim[axis] = before, last.dim[axis] = after;
    if (!one)
        return NULL;
    mx_array *parts[3] = {mx_g_broadcast_to(one, &first), x, mx_g_broadcast_to(one, &last)};
    return mx_joined(3, parts, axis);
}
static mx_array *bordered(mx_array *x, int axis, int64_t before, int64_t after, const mx_np_pad_attrs *attrs)
{
    static const char *const numbers[] = {"np.max", "np.min", "np.mean"};
    if (attrs->mode < 3)
        return padded(x, axis, before, after, attrs);
    if (attrs->mode > 4)
        return surrounded(x, axis, before, after, numbers[attrs->mode - 5]);
    return attrs->mode == 3 ? mirrored(x, axis, before, after) : wrapped(x, axis, before, after);
}
static mx_code pad(const mx_expand *call)
{
    const mx_np_pad_attrs *attrs = call->attrs;
    mx_array *x = shaped(call, 0);
    if (!x)
        return mx_error_code();
    if (attrs->pad_width.n != 2 * x->ndim)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "pad_width has %d numbers, wanted two for each of the %d axes",
                          attrs->pad_width.n, x->ndim);
    const mx_dtype type = (mx_dtype)x->dtype;
    if (!mx_dtype_is_float(type))
        x = mx_expand_cast(x, MX_FLOAT64);
    for (int i = 0; x && i < call->in[0]->ndim; i++) {
        const int64_t before = attrs->pad_width.d[2 * i], after = attrs->pad_width.d[2 * i + 1];
        if (before < 0 || after < 0)
            return mx_op_fail(call->op, MX_ERR_ATTRIBUTE, "pad_width of axis %d is negative", i);
        if (before || after)
            x = bordered(x, i, before, after, attrs);
    }
    return mx_expand_give(call, mx_expand_cast(x == call->in[0] ? mx_g1("_copy", x) : x, type));
}

// clang-format off
mx_op mx_family_np_repeat[] = {
    MOVE(tile, same, "tile", &np_tile_schema, "repeated as a whole")
    MOVE(repeat, repeat, "repeat", &np_repeat_schema, "each element repeated")
    MOVE_OF(flip, "m", flip, NULL, &np_flip_schema, "axes in reverse order")
    MOVE(roll, roll, NULL, &np_roll_schema, "elements moved along axes, those that leave enter at the other end")
    MOVE_OF(diag, "array", diag, "diag", &np_diag_schema, "a diagonal of a matrix, or a matrix with that diagonal")
    MOVE(diagonal, diagonal, NULL, &np_diagonal_schema, "a diagonal of two axes")
    MOVE(trace, trace, NULL, &np_diagonal_schema, "the sum of a diagonal")
    MOVE_OF(tril, "m", triangle, "_lesser_equal_scalar", &np_tri_schema, "the lower triangle: 0 above diagonal k")
    MOVE_OF(triu, "m", triangle, "_greater_equal_scalar", &np_tri_schema, "the upper triangle: 0 below diagonal k")
    MOVE(pad, pad, NULL, &np_pad_schema, "a border around the elements")
    {0},
};
