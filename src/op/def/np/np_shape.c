/* NumPy's functions that move elements: shapes, axes, joining, repeating, diagonals and triangles.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "op/expand.h"

/* ---- axes -------------------------------------------------------------------------------------------------------- */

/* An axis counted from the front; -1 with an error. */
static int axis_in(const mx_expand *call, int64_t axis, int ndim)
{
    if (axis >= -ndim && axis < ndim)
        return (int)(axis < 0 ? axis + ndim : axis);
    mx_op_fail(call->op, MX_ERR_SHAPE, "axis %lld is out of bounds for an array with %d axes", (long long)axis, ndim);
    return -1;
}

static mx_array *shaped(const mx_expand *call, int i)
{
    mx_array *x = mx_expand_by_rules(call, call->in[i]);
    if (x && x->ndim < 0)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the number of axes must be known"), NULL;
    return x;
}

static mx_array *permuted(mx_array *x, const mx_dims *axes) { return mx_g_call(MX_OP("transpose"), axes, 1, &x); }

#define RESHAPE_ATTRS(X) \
    X(DIMS, newshape, REQUIRED, "", "the sizes; one may be -1: what is left") \
    X(STR, order, "C", "", "only 'C': the last axis changes fastest")
MX_ATTRS(np_reshape, RESHAPE_ATTRS)
/* Fills in the size that is -1; false: the elements do not fit. */
static bool complete(mx_shape_t *shape, int64_t size)
{
    int64_t known = 1;
    int open = -1;
    for (int i = 0; i < shape->ndim; i++)
        if (shape->dim[i] == -1 && open < 0)
            open = i;
        else if (shape->dim[i] < 0)
            return false;
        else
            known *= shape->dim[i];
    if (open < 0)
        return known == size;
    if (!known || size % known)
        return false;
    shape->dim[open] = size / known;
    return true;
}
static mx_code reshape(const mx_expand *call)
{
    const mx_np_reshape_attrs *attrs = call->attrs;
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    char have[MX_SHAPE_TEXT], want[MX_SHAPE_TEXT];
    if (!x)
        return mx_error_code();
    mx_shape_t shape = mx_shape_of_dims(&attrs->newshape), old = mx_array_shape(x);
    if (x->ndim < 0 || !mx_shape_known(&old)) { /* the classic operator infers later */
        struct { mx_dims shape; bool reverse; mx_dims target; bool keep; } classic = {attrs->newshape, false, {.n = 0}, false};
        return mx_expand_give(call, mx_g_call(MX_OP("Reshape"), &classic, 1, &x));
    }
    const mx_shape_t wanted = shape;
    if (!complete(&shape, x->size))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the elements of shape %s do not fit shape %s",
                          mx_shape_text(&old, have), mx_shape_text(&wanted, want));
    return mx_expand_give(call, mx_g_reshape(x, &shape));
}

/* npx.reshape: -1 is what is left, -2 copies a size, -3 skips a size of 1, -4 copies all that remain, -5 merges two
 * axes, -6 splits one into the next two sizes. */
static bool by_codes(const mx_dims *codes, const mx_shape_t *old, mx_shape_t *shape)
{
    int at = 0;
    shape->ndim = 0;
    for (int i = 0; i < codes->n; i++) {
        const int64_t code = codes->d[i];
        const int taken = code == -5 ? 2 : 1, given = code == -6 ? 2 : code == -4 ? old->ndim - at : code != -3;
        if (code < -6 || shape->ndim + given > MX_MAX_NDIM || (code < -1 && code != -4 && at + taken > old->ndim))
            return false;
        if (code == -3 && old->dim[at] != 1)
            return false;
        if (code == -6) {
            if (i + 2 >= codes->n)
                return false;
            int64_t first = codes->d[i + 1], second = codes->d[i + 2];
            if ((first < 0 && second <= 0) || (second < 0 && first <= 0))
                return false;
            shape->dim[shape->ndim++] = first < 0 ? old->dim[at] / second : first;
            shape->dim[shape->ndim++] = second < 0 ? old->dim[at] / first : second;
            i += 2;
        } else if (code == -4) {
            while (at < old->ndim)
                shape->dim[shape->ndim++] = old->dim[at++];
            continue;
        } else if (code != -3)
            shape->dim[shape->ndim++] = code == -5 ? old->dim[at] * old->dim[at + 1] : code == -2 ? old->dim[at] : code;
        at += taken;
    }
    return true;
}
#define NPX_RESHAPE_ATTRS(X) \
    X(DIMS, newshape, REQUIRED, "", "sizes and codes: -1 what is left, -2 copy, -3 skip a 1, -4 copy the rest, -5 merge two, -6 split into the next two") \
    X(BOOL, reverse, "False", "", "match axes from the right") \
    X(STR, order, "C", "", "only 'C': the last axis changes fastest")
MX_ATTRS(npx_reshape, NPX_RESHAPE_ATTRS)
static void turn_round(int64_t *list, int n)
{
    for (int i = 0; i < n / 2; i++) {
        const int64_t swap = list[i];
        list[i] = list[n - 1 - i], list[n - 1 - i] = swap;
    }
}
/* The codes from the right: the two sizes after a -6 go before it. */
static mx_dims turned_codes(const mx_dims *codes)
{
    mx_dims turned = *codes;
    turn_round(turned.d, turned.n);
    for (int i = 2; i < turned.n; i++)
        if (turned.d[i] == -6) {
            const int64_t second = turned.d[i - 2], first = turned.d[i - 1];
            turned.d[i - 2] = -6, turned.d[i - 1] = second, turned.d[i] = first;
        }
    return turned;
}
static mx_code npx_reshape(const mx_expand *call)
{
    const mx_npx_reshape_attrs *attrs = call->attrs;
    static const int64_t classic_code[] = {[2] = 0, [4] = -2, [5] = -3, [6] = -4};
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    mx_dims codes = attrs->reverse ? turned_codes(&attrs->newshape) : attrs->newshape;
    if (!x)
        return mx_error_code();
    mx_shape_t old = mx_array_shape(x), shape;
    if (x->ndim < 0 || !mx_shape_known(&old)) { /* inferred later, by the classic operator with its own codes */
        struct { mx_dims shape; bool reverse; mx_dims target; bool keep; } classic = {attrs->newshape, attrs->reverse, {.n = 0}, false};
        for (int i = 0; i < classic.shape.n; i++)
            if (classic.shape.d[i] == -3 || classic.shape.d[i] < -6)
                return mx_op_fail(call->op, MX_ERR_SHAPE, "the shape must be known for code %lld",
                                  (long long)classic.shape.d[i]);
            else if (classic.shape.d[i] < -1)
                classic.shape.d[i] = classic_code[-classic.shape.d[i]];
        return mx_expand_give(call, mx_g_call(MX_OP("Reshape"), &classic, 1, &x));
    }
    if (attrs->reverse)
        turn_round(old.dim, old.ndim);
    if (!by_codes(&codes, &old, &shape) || !complete(&shape, x->size))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "newshape does not fit the elements");
    if (attrs->reverse)
        turn_round(shape.dim, shape.ndim);
    return mx_expand_give(call, mx_g_reshape(x, &shape));
}

#define RAVEL_ATTRS(X) X(STR, order, "C", "", "only 'C': the last axis changes fastest")
MX_ATTRS(np_ravel, RAVEL_ATTRS)
static mx_code ravel(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    return mx_expand_give(call, x ? mx_expand1("Reshape", x, "shape=(-1,)") : NULL);
}

#define TRANSPOSE_ATTRS(X) X(DIMS, axes, "None", "", "axis i of the result is axis axes[i]; None: the axes in reverse order")
MX_ATTRS(np_transpose, TRANSPOSE_ATTRS)
static mx_code transpose(const mx_expand *call)
{
    mx_dims axes = ((const mx_np_transpose_attrs *)call->attrs)->axes;
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    if (!x || (x->ndim >= 0 && x->ndim < 2 && axes.n <= 0))
        return mx_expand_give(call, x ? mx_g1("_copy", x) : NULL);
    if (axes.n < 0)
        axes.n = 0;
    for (int i = 0; i < axes.n; i++)
        if (x->ndim >= 0 && (axes.d[i] = axis_in(call, axes.d[i], x->ndim)) < 0)
            return mx_error_code();
    return mx_expand_give(call, permuted(x, &axes));
}

#define SWAP_ATTRS(X) \
    X(INT, axis1, REQUIRED, "", "one axis") \
    X(INT, axis2, REQUIRED, "", "the other one")
MX_ATTRS(np_swapaxes, SWAP_ATTRS)
static mx_code swapaxes(const mx_expand *call)
{
    const mx_np_swapaxes_attrs *attrs = call->attrs;
    mx_array *x = shaped(call, 0);
    mx_dims axes = {.n = x ? x->ndim : 0};
    const int one = x ? axis_in(call, attrs->axis1, x->ndim) : -1,
              other = one < 0 ? -1 : axis_in(call, attrs->axis2, x->ndim);
    if (other < 0)
        return mx_error_code();
    for (int i = 0; i < axes.n; i++)
        axes.d[i] = i == one ? other : i == other ? one : i;
    return mx_expand_give(call, one == other ? mx_g1("_copy", x) : permuted(x, &axes));
}

#define MOVE_ATTRS(X) \
    X(DIMS, source, REQUIRED, "", "axes to move") \
    X(DIMS, destination, REQUIRED, "", "their places in the result")
MX_ATTRS(np_moveaxis, MOVE_ATTRS)
static mx_code moveaxis(const mx_expand *call)
{
    const mx_np_moveaxis_attrs *attrs = call->attrs;
    mx_array *x = shaped(call, 0);
    if (!x)
        return mx_error_code();
    if (attrs->source.n != attrs->destination.n)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "%d sources but %d destinations", attrs->source.n,
                          attrs->destination.n);
    mx_dims axes = {.n = x->ndim};
    bool moved[MX_MAX_NDIM] = {false}, taken[MX_MAX_NDIM] = {false};
    for (int i = 0; i < attrs->source.n; i++) {
        const int from = axis_in(call, attrs->source.d[i], x->ndim),
                  to = from < 0 ? -1 : axis_in(call, attrs->destination.d[i], x->ndim);
        if (to < 0)
            return mx_error_code();
        if (moved[from] || taken[to])
            return mx_op_fail(call->op, MX_ERR_SHAPE, "axis %d is named twice", moved[from] ? from : to);
        axes.d[to] = from, moved[from] = taken[to] = true;
    }
    for (int from = 0, to = 0; from < x->ndim; from++) {
        if (moved[from])
            continue;
        while (taken[to])
            to++;
        axes.d[to++] = from;
    }
    return mx_expand_give(call, permuted(x, &axes));
}

#define EXPAND_ATTRS(X) X(DIMS, axis, REQUIRED, "", "places of the new axes in the result")
MX_ATTRS(np_expand_dims, EXPAND_ATTRS)
static mx_code expand_dims(const mx_expand *call)
{
    const mx_dims *axis = &((const mx_np_expand_dims_attrs *)call->attrs)->axis;
    if (call->in[0]->ndim < 0 && axis->n == 1)
        return mx_expand_give(call, mx_expand1("expand_dims", call->in[0], "axis=%lld", (long long)axis->d[0]));
    mx_array *x = shaped(call, 0);
    if (!x)
        return mx_error_code();
    mx_shape_t shape = {.ndim = x->ndim + axis->n};
    bool fresh[MX_MAX_NDIM] = {false};
    if (shape.ndim > MX_MAX_NDIM)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the result would have %d axes, at most %d are possible", shape.ndim,
                          MX_MAX_NDIM);
    for (int i = 0; i < axis->n; i++) {
        const int to = axis_in(call, axis->d[i], shape.ndim);
        if (to < 0 || fresh[to])
            return to < 0 ? mx_error_code() : mx_op_fail(call->op, MX_ERR_SHAPE, "axis %d is named twice", to);
        fresh[to] = true;
    }
    for (int i = 0, k = 0; i < shape.ndim; i++)
        shape.dim[i] = fresh[i] ? 1 : x->shape[k++];
    for (int i = 0; i < shape.ndim; i++)
        if (shape.dim[i] < 0) /* a size that is not known yet */
            return mx_expand_give(call, mx_expand1("expand_dims", x, "axis=%lld", (long long)axis->d[0]));
    return mx_expand_give(call, mx_g_reshape(x, &shape));
}

#define SQUEEZE_ATTRS(X) X(DIMS, axis, "None", "", "axes of size 1 to remove; None: all of them")
MX_ATTRS(np_squeeze, SQUEEZE_ATTRS)
static mx_code squeeze(const mx_expand *call)
{
    const mx_dims *axis = &((const mx_np_squeeze_attrs *)call->attrs)->axis;
    mx_array *x = shaped(call, 0);
    if (!x)
        return mx_error_code();
    bool gone[MX_MAX_NDIM] = {false};
    for (int i = 0; i < x->ndim && axis->n < 0; i++)
        gone[i] = x->shape[i] == 1;
    for (int i = 0; i < axis->n; i++) {
        const int at = axis_in(call, axis->d[i], x->ndim);
        if (at < 0 || x->shape[at] > 1)
            return at < 0
                       ? mx_error_code()
                       : mx_op_fail(call->op, MX_ERR_SHAPE, "axis %d has size %lld, only axes of size 1 can be removed",
                                    at, (long long)x->shape[at]);
        gone[at] = true;
    }
    mx_shape_t shape = {.ndim = 0};
    for (int i = 0; i < x->ndim; i++)
        if (!gone[i])
            shape.dim[shape.ndim++] = x->shape[i];
    return mx_expand_give(call, mx_g_reshape(x, &shape));
}

#define TO_ATTRS(X) X(DIMS, shape, REQUIRED, "", "the shape of the result")
MX_ATTRS(np_broadcast_to, TO_ATTRS)
static mx_code broadcast_to(const mx_expand *call)
{
    const mx_shape_t shape = mx_shape_of_dims(&((const mx_np_broadcast_to_attrs *)call->attrs)->shape);
    mx_array *x = shaped(call, 0);
    mx_shape_t together, have = x ? mx_array_shape(x) : (mx_shape_t){.ndim = 0};
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    if (x && (!mx_shape_broadcast(&have, &shape, &together) || !mx_shape_equal(&together, &shape)))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "shape %s does not broadcast to %s", mx_shape_text(&have, a),
                          mx_shape_text(&shape, b));
    return mx_expand_give(call, x ? mx_g_broadcast_to(x, &shape) : NULL);
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

#define MOST_JOINED 256
#define JOIN_ATTRS(X) X(INT, axis, "0", "", "the axis along which they are joined; None: flattened")
MX_ATTRS(np_concatenate, JOIN_ATTRS)
#define STACK_ATTRS(X) X(INT, axis, "0", "", "place of the new axis")
MX_ATTRS(np_stack, STACK_ATTRS)

/* The arrays in their common type, with at least `axes` axes: new ones in front, or as columns behind. */
static mx_code prepared(const mx_expand *call, int axes, bool columns, mx_array **x)
{
    if (call->n_in < 1 || call->n_in > MOST_JOINED)
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "wanted 1 to %d arrays, got %d", MOST_JOINED, call->n_in);
    if (mx_expand_promote(call, x))
        return mx_error_code();
    for (int i = 0; i < call->n_in; i++) {
        mx_shape_t shape = mx_array_shape(x[i]), more = {.ndim = axes};
        if (x[i]->ndim < 0 || x[i]->ndim >= axes)
            continue;
        for (int k = 0; k < axes; k++) {
            const int from =
                columns || axes == 3 ? k - (x[i]->ndim == 1 && axes == 3 ? 1 : 0) : k - (axes - shape.ndim);
            more.dim[k] = from >= 0 && from < shape.ndim ? shape.dim[from] : 1;
        }
        if (!(x[i] = mx_g_reshape(x[i], &more)))
            return mx_error_code();
    }
    return MX_OK;
}
static mx_array *joined(const mx_expand *call, mx_array *const *x, int64_t axis)
{
    const int ndim = x[0]->ndim;
    struct { int64_t num_args, dim; } attrs = {call->n_in, axis};
    if (ndim >= 0 && (attrs.dim = axis_in(call, axis, ndim)) < 0)
        return NULL;
    return mx_g_call(MX_OP("Concat"), &attrs, call->n_in, x);
}
static mx_code concatenate(const mx_expand *call)
{
    mx_array *x[MOST_JOINED];
    int64_t axis = ((const mx_np_concatenate_attrs *)call->attrs)->axis;
    if (prepared(call, 0, false, x))
        return mx_error_code();
    for (int i = 0; axis == MX_NONE_INT && i < call->n_in; i++)
        if (!(x[i] = mx_expand1("Reshape", x[i], "shape=(-1,)")))
            return mx_error_code();
    if (x[0]->ndim == 0)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "arrays without axes cannot be joined along one; see np.stack");
    return mx_expand_give(call, joined(call, x, axis == MX_NONE_INT ? 0 : axis));
}
static mx_code stack(const mx_expand *call)
{
    mx_array *x[MOST_JOINED];
    if (prepared(call, 0, false, x))
        return mx_error_code();
    struct { int64_t axis, num_args; } attrs = {((const mx_np_stack_attrs *)call->attrs)->axis, call->n_in};
    if (x[0]->ndim >= 0 && (attrs.axis = axis_in(call, attrs.axis, x[0]->ndim + 1)) < 0)
        return mx_error_code();
    return mx_expand_give(call, mx_g_call(MX_OP("stack"), &attrs, call->n_in, x));
}
static mx_code vstack(const mx_expand *call)
{
    mx_array *x[MOST_JOINED];
    return prepared(call, 2, false, x) ? mx_error_code() : mx_expand_give(call, joined(call, x, 0));
}
static mx_code hstack(const mx_expand *call)
{
    mx_array *x[MOST_JOINED];
    return prepared(call, 1, false, x) ? mx_error_code()
                                       : mx_expand_give(call, joined(call, x, x[0]->ndim == 1 ? 0 : 1));
}
static mx_code dstack(const mx_expand *call)
{
    mx_array *x[MOST_JOINED];
    return prepared(call, 3, false, x) ? mx_error_code() : mx_expand_give(call, joined(call, x, 2));
}
static mx_code column_stack(const mx_expand *call)
{
    mx_array *x[MOST_JOINED];
    return prepared(call, 2, true, x) ? mx_error_code() : mx_expand_give(call, joined(call, x, 1));
}

#define SPLIT_ATTRS(X) \
    X(DIMS, indices, "()", "", "where the parts begin, without the first") \
    X(INT, axis, "0", "", "the axis that is split") \
    X(INT, sections, "0", "0..64", "number of equal parts; 0: use indices")
MX_ATTRS(np_split, SPLIT_ATTRS)
static int count_parts(const void *attrs)
{
    const mx_np_split_attrs *a = attrs;
    return a->sections ? (int)a->sections : a->indices.n + 1;
}
static mx_code split(const mx_expand *call)
{
    const mx_np_split_attrs *attrs = call->attrs;
    mx_array *x = shaped(call, 0);
    const int axis = x ? axis_in(call, attrs->axis, x->ndim) : -1;
    if (axis < 0)
        return mx_error_code();
    const int64_t size = x->shape[axis];
    if (attrs->sections && size >= 0 && size % attrs->sections)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "axis %d of size %lld cannot be split into %lld equal parts", axis,
                          (long long)size, (long long)attrs->sections);
    for (int i = 0, n = count_parts(attrs); i < n; i++) {
        const int64_t part = attrs->sections ? size / attrs->sections : 0;
        int64_t begin = attrs->sections ? i * part : i ? attrs->indices.d[i - 1] : 0;
        int64_t end = attrs->sections ? begin + part : i < n - 1 ? attrs->indices.d[i] : size;
        begin = begin < 0 ? (begin + size < 0 ? 0 : begin + size) : begin > size ? size : begin;
        end = end < 0 ? (end + size < 0 ? 0 : end + size) : end > size ? size : end;
        struct { int64_t axis, begin, end; } range = {axis, begin, end < begin ? begin : end};
        if (!(call->out[i] = mx_g_call(MX_OP("slice_axis"), &range, 1, &x)))
            return mx_error_code();
    }
    return MX_OK;
}

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
static mx_array *diagonal_of(const mx_expand *call)
{
    const mx_np_diagonal_attrs *attrs = call->attrs;
    mx_array *x = shaped(call, 0);
    return x ? mx_expand1("diag", x, "k=%lld, axis1=%lld, axis2=%lld", (long long)attrs->offset,
                          (long long)attrs->axis1, (long long)attrs->axis2)
             : NULL;
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
        return mx_op_fail(call->op, MX_ERR_SHAPE, "wanted at least one axis");
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
    return mx_expand_give(call, inside ? mx_g_mul(x, mx_expand_cast(inside, (mx_dtype)x->dtype)) : NULL);
}

#define PAD_ATTRS(X) \
    X(DIMS, pad_width, REQUIRED, "", "widths before and after each axis: (before0, after0, before1, ...)") \
    X(ENUM, mode, "constant", "constant|edge|reflect|symmetric", "how the border is filled") \
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
    struct { int64_t num_args, dim; } attrs = {n, axis};
    return mx_g_call(MX_OP("Concat"), &attrs, n, parts);
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
            x = attrs->mode == 3 ? mirrored(x, i, before, after) : padded(x, i, before, after, attrs);
    }
    return mx_expand_give(call, mx_expand_cast(x == call->in[0] ? mx_g1("_copy", x) : x, type));
}

// clang-format off
#define MOVE(id, function, operator_, schema_, doc_) MOVE_OF(id, "a", function, operator_, schema_, doc_)
#define MOVE_OF(id, input, function, operator_, schema_, doc_) \
    {.name = "np." #id, .c_name = "np_" #id, .doc = doc_, .inputs = input, .flags = MX_OP_EXPANDS, .schema = schema_, \
     .user = &(mx_expansion){function, {operator_, NULL, NULL}, 0, {NULL, NULL, NULL}}},
#define JOIN(id, function, list, schema_, doc_) \
    {.name = "np." #id, .c_name = "np_" #id, .doc = doc_, .inputs = "*" list, .flags = MX_OP_EXPANDS | MX_OP_LIST, \
     .schema = schema_, .user = &(mx_expansion){function, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},

mx_op mx_family_np_shape[] = {
    MOVE(reshape, reshape, NULL, &np_reshape_schema, "the elements in another shape")
    {.name = "npx.reshape", .c_name = "npx_reshape", .doc = "the elements in another shape, given by sizes and codes", .inputs = "a",
     .flags = MX_OP_EXPANDS, .schema = &npx_reshape_schema, .user = &(mx_expansion){npx_reshape, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
    MOVE_OF(ravel, "x", ravel, NULL, &np_ravel_schema, "the elements in one axis")
    MOVE(transpose, transpose, NULL, &np_transpose_schema, "the axes in another order")
    MOVE(swapaxes, swapaxes, NULL, &np_swapaxes_schema, "two axes exchanged")
    MOVE(moveaxis, moveaxis, NULL, &np_moveaxis_schema, "axes moved to other places; the rest stays in order")
    MOVE(expand_dims, expand_dims, NULL, &np_expand_dims_schema, "new axes of size 1")
    MOVE(squeeze, squeeze, NULL, &np_squeeze_schema, "without axes of size 1")
    MOVE_OF(broadcast_to, "array", broadcast_to, NULL, &np_broadcast_to_schema, "repeated to a shape by broadcasting")
    JOIN(concatenate, concatenate, "seq", &np_concatenate_schema, "arrays joined along an axis")
    JOIN(stack, stack, "arrays", &np_stack_schema, "arrays joined along a new axis")
    JOIN(vstack, vstack, "arrays", NULL, "arrays joined along the first axis, vectors as rows")
    JOIN(row_stack, vstack, "arrays", NULL, "arrays joined along the first axis, vectors as rows")
    JOIN(hstack, hstack, "arrays", NULL, "arrays joined along the second axis, vectors along their only one")
    JOIN(dstack, dstack, "arrays", NULL, "arrays joined along the third axis")
    JOIN(column_stack, column_stack, "tup", NULL, "arrays joined along the second axis, vectors as columns")
    {.name = "np.split", .c_name = "np_split", .doc = "parts along an axis", .inputs = "ary", .flags = MX_OP_EXPANDS,
     .schema = &np_split_schema, .count_out = count_parts,
     .user = &(mx_expansion){split, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
    MOVE(tile, same, "tile", &np_tile_schema, "repeated as a whole")
    MOVE(repeat, same, "repeat", &np_repeat_schema, "each element repeated")
    MOVE_OF(flip, "m", flip, NULL, &np_flip_schema, "axes in reverse order")
    MOVE(roll, roll, NULL, &np_roll_schema, "elements moved along axes, those that leave enter at the other end")
    MOVE_OF(diag, "array", same, "diag", &np_diag_schema, "a diagonal of a matrix, or a matrix with that diagonal")
    MOVE(diagonal, diagonal, NULL, &np_diagonal_schema, "a diagonal of two axes")
    MOVE(trace, trace, NULL, &np_diagonal_schema, "the sum of a diagonal")
    MOVE_OF(tril, "m", triangle, "_lesser_equal_scalar", &np_tri_schema, "the lower triangle: 0 above diagonal k")
    MOVE_OF(triu, "m", triangle, "_greater_equal_scalar", &np_tri_schema, "the upper triangle: 0 below diagonal k")
    MOVE(pad, pad, NULL, &np_pad_schema, "a border around the elements")
    {0},
};
