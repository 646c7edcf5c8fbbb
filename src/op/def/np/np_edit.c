/* NumPy's functions that add elements to an array and take some away.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "op/def/np/axes.h"
#include "op/def/np/values.h"

#define AXIS_ATTRS(X) X(INT, axis, "None", "", "the axis; None: of all elements in order")
MX_ATTRS(np_edit, AXIS_ATTRS)

/* Input 0, flattened if no axis is given; *axis counts from the front.  NULL with an error. */
static mx_array *along(const mx_expand *call, mx_array *x, int *axis)
{
    const int64_t given = ((const mx_np_edit_attrs *)call->attrs)->axis;
    if (x && given == MX_NONE_INT)
        x = mx_flattened(x);
    if (x && x->ndim < 0)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the number of axes must be known"), NULL;
    *axis = x ? axis_in(call, given == MX_NONE_INT ? 0 : given, x->ndim) : -1;
    if (x && *axis >= 0 && x->shape[*axis] < 0)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the size of axis %d must be known", *axis), NULL;
    return *axis < 0 ? NULL : x;
}

/* ---- append ------------------------------------------------------------------------------------------------------- */

static mx_code append(const mx_expand *call)
{
    mx_array *x[2];
    int axis;
    if (mx_expand_promote(call, x) || !(x[0] = along(call, x[0], &axis)))
        return mx_error_code();
    if (((const mx_np_edit_attrs *)call->attrs)->axis == MX_NONE_INT && !(x[1] = mx_flattened(x[1])))
        return mx_error_code();
    if (x[1]->ndim != x[0]->ndim)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "arr has %d axes, values %d: they must be equal", x[0]->ndim,
                          x[1]->ndim);
    return mx_expand_give(call, mx_joined(2, x, axis));
}

/* ---- delete ------------------------------------------------------------------------------------------------------- */

/* An index counted from the front; -1 with an error. */
static int64_t index_in(const mx_expand *call, double index, int64_t size, int64_t beyond)
{
    if (index >= -(double)size && index < (double)(size + beyond))
        return (int64_t)index + (index < 0 ? size : 0);
    mx_op_fail(call->op, MX_ERR_INDEX, "index %g is out of bounds for an axis of size %lld", index, (long long)size);
    return -1;
}
/* All indices are in range, as far as they are known. */
static mx_code check_indices(const mx_expand *call, mx_array *index, int64_t size, int64_t beyond)
{
    if (!mx_values_known(index) || !index->size)
        return MX_OK;
    return index_in(call, mx_range_of(index).low, size, beyond) < 0 ||
                   index_in(call, mx_range_of(index).high, size, beyond) < 0
               ? mx_error_code()
               : MX_OK;
}
static mx_array *without_one(mx_array *x, int axis, int64_t index)
{
    return mx_joined2(mx_part(x, axis, 0, index), mx_part(x, axis, index + 1, x->shape[axis]), axis);
}
/* Which places stay: bool (n).  Indices may be negative and repeat themselves. */
static mx_array *places_left(mx_array *index, int64_t n)
{
    mx_array *one = mx_flattened(mx_expand_cast(index, MX_INT64));
    mx_array *from_front = mx_choose(mx_g2("np.less", one, mx_number_int(0)), mx_g_shift(one, (double)n), one);
    mx_array *gone = from_front ? mx_expand1("one_hot", from_front, "depth=%lld", (long long)n) : NULL;
    mx_array *times = gone ? mx_expand1("np.sum", gone, "axis=0") : NULL;
    return times ? mx_g2("np.equal", times, mx_number_int(0)) : NULL;
}
static mx_array *masked_along(mx_array *x, int axis, mx_array *mask)
{
    mx_array *front = axis ? mx_expand1("np.moveaxis", x, "source=%d, destination=0", axis) : x;
    mx_array *left = mx_chosen(front, mask);
    return axis && left ? mx_expand1("np.moveaxis", left, "source=0, destination=%d", axis) : left;
}
static mx_code delete_places(const mx_expand *call)
{
    int axis;
    mx_array *x = along(call, mx_expand_by_rules(call, call->in[0]), &axis), *index = call->in[1];
    if (!x)
        return mx_error_code();
    const int64_t n = x->shape[axis];
    if (mx_is_number(index)) { /* the size of the result is known */
        const int64_t at = index_in(call, mx_item(index), n, 0);
        return at < 0 ? mx_error_code() : mx_expand_give(call, without_one(x, axis, at));
    }
    if (mx_want_values(call, index))
        return mx_error_code();
    if (index->dtype == MX_BOOL && (index->ndim != 1 || index->size != n))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the mask has %lld elements, axis %d has size %lld",
                          (long long)index->size, axis, (long long)n);
    if (!index->size || !n)
        return mx_expand_give(call, check_indices(call, index, n, 0) ? NULL : mx_g1("_copy", x));
    if (index->dtype != MX_BOOL && check_indices(call, index, n, 0))
        return mx_error_code();
    mx_array *left = index->dtype == MX_BOOL ? mx_g1("np.logical_not", index) : places_left(index, n);
    return mx_expand_give(call, left ? masked_along(x, axis, left) : NULL);
}

/* ---- insert ------------------------------------------------------------------------------------------------------- */

/* A key per element, ascending in the result: element i has i (m + 1) + m, value j before place p has p (m + 1) + j. */
static mx_array *order_of(mx_array *places, int64_t n, int64_t m)
{
    mx_array *at = mx_flattened(mx_expand_cast(places, MX_INT64));
    mx_array *front = mx_choose(mx_g2("np.less", at, mx_number_int(0)), mx_g_shift(at, (double)n), at);
    mx_array *all = mx_g_shift(mx_g_scale(mx_places(n, places, MX_INT64), (double)(m + 1)), (double)m);
    mx_array *new = front ? mx_g_add(mx_g_scale(front, (double)(m + 1)), mx_places(m, places, MX_INT64)) : NULL;
    mx_array *keys = mx_joined2(all, new, 0);
    return keys ? mx_expand1("argsort", keys, "axis=0, dtype=int64") : NULL;
}
/* The values in the shape of what is inserted, m places along the axis.  One index takes as many as the values have, which
 * stand in their first axis. */
static mx_array *values_for(const mx_expand *call, mx_array *x, int axis, mx_array *values, int64_t m, bool one)
{
    mx_shape_t shape = mx_array_shape(x), have = mx_array_shape(values), together;
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    for (; one && have.ndim < x->ndim; have.ndim++) { /* new axes in front */
        for (int i = have.ndim; i > 0; i--)
            have.dim[i] = have.dim[i - 1];
        have.dim[0] = 1;
    }
    if (one && have.ndim == x->ndim && axis) {
        mx_array *full = mx_g_reshape(values, &have);
        values = full ? mx_expand1("np.moveaxis", full, "source=0, destination=%d", axis) : NULL;
        have = values ? mx_array_shape(values) : have;
    }
    shape.dim[axis] = one && have.ndim == x->ndim ? have.dim[axis] : m;
    if (values && mx_shape_broadcast(&have, &shape, &together) && mx_shape_equal(&together, &shape))
        return mx_g_broadcast_to(values, &shape);
    if (values)
        mx_op_fail(call->op, MX_ERR_SHAPE, "values of shape %s do not broadcast to %s", mx_shape_text(&have, a),
                   mx_shape_text(&shape, b));
    return NULL;
}
static mx_code insert(const mx_expand *call)
{
    int axis;
    mx_array *x = along(call, mx_expand_by_rules(call, call->in[0]), &axis), *places = call->in[1];
    mx_array *values = x ? mx_expand_array(call->in[2], (mx_dtype)x->dtype, x) : NULL;
    if (!values)
        return mx_error_code();
    const int64_t n = x->shape[axis];
    if (mx_is_number(places) || (places->ndim == 0 && mx_values_known(places))) {
        const int64_t at = index_in(call, mx_item(places), n, 1);
        mx_array *new = at < 0 ? NULL : values_for(call, x, axis, values, 1, true);
        mx_array *parts[3] = {mx_part(x, axis, 0, at), new, mx_part(x, axis, at, n)};
        return mx_expand_give(call, new ? mx_joined(3, parts, axis) : NULL);
    }
    if (places->ndim > 1)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "obj has %d axes, wanted an index or a vector of them", places->ndim);
    if (check_indices(call, places, n, 1))
        return mx_error_code();
    const int64_t m = places->shape[0];
    mx_array *new = values_for(call, x, axis, values, m, false), *order = new ? order_of(places, n, m) : NULL;
    mx_array *all = order ? mx_joined2(x, new, axis) : NULL;
    return mx_expand_give(call, all ? mx_expand2("take", all, order, "axis=%d, mode=clip", axis) : NULL);
}

/* ---- other sizes ---------------------------------------------------------------------------------------------------- */

#define RESIZE_ATTRS(X) X(DIMS, new_shape, REQUIRED, "", "the shape of the result")
MX_ATTRS(np_resize, RESIZE_ATTRS)
/* The elements in order, repeated as often as needed. */
static mx_code resize(const mx_expand *call)
{
    const mx_shape_t shape = mx_shape_of_dims(&((const mx_np_resize_attrs *)call->attrs)->new_shape);
    mx_array *x = mx_flattened(shaped(call, 0));
    if (!x)
        return mx_error_code();
    for (int i = 0; i < shape.ndim; i++)
        if (shape.dim[i] < 0)
            return mx_op_fail(call->op, MX_ERR_ATTRIBUTE, "sizes must not be negative");
    const int64_t n = x->shape[0], wanted = mx_shape_size(&shape);
    if (n < 0)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the number of elements must be known");
    if (!n || !wanted) {
        char text[MX_SHAPE_TEXT], ctx[32];
        return mx_expand_give(call, mx_expand_text(MX_OP("_zeros"), 0, NULL, "shape=%s, dtype=%s, ctx=%s",
                                                   mx_shape_text(&shape, text), mx_dtype_name((mx_dtype)x->dtype),
                                                   mx_context_text(x->context, ctx)));
    }
    const long long times = (long long)((wanted + n - 1) / n);
    mx_array *more = times > 1 ? mx_expand1("tile", x, "reps=(%lld,)", times) : x;
    return mx_expand_give(call, more ? mx_g_reshape(mx_part(more, 0, 0, wanted), &shape) : NULL);
}

/* Differences of neighbours, with elements before and after them. */
static mx_code ediff1d(const mx_expand *call)
{
    mx_array *p[3] = {mx_expand_by_rules(call, call->in[0])}, *parts[3];
    for (int i = 1; i < 3; i++) /* the elements around them get the type of ary */
        p[i] = call->in[i] == MX_NONE || !p[0] ? MX_NONE : mx_expand_array(call->in[i], (mx_dtype)p[0]->dtype, p[0]);
    mx_array *x = mx_flattened(p[0]);
    if (!x || x->shape[0] < 0)
        return x ? mx_op_fail(call->op, MX_ERR_SHAPE, "the number of elements must be known") : mx_error_code();
    const int64_t n = x->shape[0];
    mx_array *differences = n > 1 ? mx_g_sub(mx_part(x, 0, 1, n), mx_part(x, 0, 0, n - 1)) : mx_part(x, 0, 0, 0);
    int count = 0;
    if (p[2] != MX_NONE)
        parts[count++] = mx_flattened(p[2]);
    parts[count++] = differences;
    if (p[1] != MX_NONE)
        parts[count++] = mx_flattened(p[1]);
    return mx_expand_give(call, count == 1 ? differences : mx_joined(count, parts, 0));
}

/* ---- elements where a condition holds ----------------------------------------------------------------------------- */

/* The numbers of the places that are not 0, in order. */
static mx_array *places_of(const mx_expand *call, mx_array *x)
{
    mx_array *flat = mx_flattened(x);
    if (mx_want_values(call, flat))
        return NULL;
    return flat->size ? mx_chosen(mx_places(flat->size, flat, MX_INT64), mx_g2("np.not_equal", flat, mx_number_int(0)))
                      : mx_places(0, flat, MX_INT64);
}
static mx_code flatnonzero(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    return mx_expand_give(call, x ? places_of(call, x) : NULL);
}
static mx_array *unraveled(mx_array *index, const mx_shape_t *shape)
{
    char text[MX_SHAPE_TEXT];
    return index ? mx_expand1("_unravel_index", index, "shape=%s", mx_shape_text(shape, text)) : NULL;
}
static mx_code argwhere(const mx_expand *call)
{
    mx_array *x = shaped(call, 0), *places = x ? places_of(call, x) : NULL;
    if (!places)
        return mx_error_code();
    const mx_shape_t shape = mx_array_shape(x), none = {.ndim = 2, .dim = {places->size, x->ndim}};
    char text[MX_SHAPE_TEXT], ctx[32];
    if (!places->size || !x->ndim)
        return mx_expand_give(call, mx_expand_text(MX_OP("_zeros"), 0, NULL, "shape=%s, dtype=int64, ctx=%s",
                                                   mx_shape_text(&none, text), mx_context_text(x->context, ctx)));
    mx_array *rows = unraveled(places, &shape);
    return mx_expand_give(call, rows ? mx_g1("np.transpose", rows) : NULL);
}
/* The parts of x along an axis where the mask is true; parts behind its end are left out. */
static mx_array *parts_of(const mx_expand *call, mx_array *x, int axis, mx_array *mask)
{
    mx_array *places = places_of(call, mask);
    if (places && places->size && mx_range_of(places).high >= (double)x->shape[axis])
        return mx_op_fail(call->op, MX_ERR_INDEX, "the condition is true behind the end of an axis of size %lld",
                          (long long)x->shape[axis]),
               NULL;
    return places ? places->size ? mx_expand2("take", x, places, "axis=%d, mode=clip", axis) : mx_part(x, axis, 0, 0)
                  : NULL;
}
static mx_code extract(const mx_expand *call)
{
    mx_array *x = mx_flattened(mx_expand_by_rules(call, call->in[1])),
             *mask = mx_expand_array(call->in[0], MX_DTYPE_NONE, x);
    return mx_expand_give(call, x && mask ? parts_of(call, x, 0, mask) : NULL);
}
static mx_code compress(const mx_expand *call)
{
    int axis;
    mx_array *mask = call->in[0], *x = mx_expand_by_rules(call, call->in[1]);
    x = x ? along(call, x->ndim ? x : mx_flattened(x), &axis) : NULL;
    if (x && mask->ndim != 1)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the condition has %d axes, wanted a vector", mask->ndim);
    return mx_expand_give(call, x ? parts_of(call, x, axis, mask) : NULL);
}

#define UNRAVEL_ATTRS(X) \
    X(DIMS, shape, REQUIRED, "", "the shape of the array that is indexed") \
    X(STR, order, "C", "", "only 'C': the last axis changes fastest")
MX_ATTRS(np_unravel_index, UNRAVEL_ATTRS)
static int count_axes(const void *attrs) { return ((const mx_np_unravel_index_attrs *)attrs)->shape.n; }
static mx_code unravel_index(const mx_expand *call)
{
    const mx_shape_t shape = mx_shape_of_dims(&((const mx_np_unravel_index_attrs *)call->attrs)->shape);
    mx_array *index = mx_expand_array(call->in[0], MX_DTYPE_NONE, NULL);
    if (!index || shape.ndim < 0)
        return mx_error_code();
    if (mx_dtype_is_float((mx_dtype)index->dtype) && !mx_is_number(call->in[0]))
        return mx_op_fail(call->op, MX_ERR_DTYPE, "indices are %s, wanted integers",
                          mx_dtype_name((mx_dtype)index->dtype));
    if (mx_values_known(index) && index->size &&
        (mx_range_of(index).low < 0 || mx_range_of(index).high >= (double)mx_shape_size(&shape)))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "an index is out of bounds for an array of %lld elements",
                          (long long)mx_shape_size(&shape));
    const mx_shape_t own = mx_array_shape(index);
    mx_array *rows = unraveled(mx_flattened(mx_expand_cast(index, MX_INT64)), &shape);
    for (int i = 0; i < shape.ndim; i++) {
        mx_array *row = rows ? mx_part(rows, 0, i, i + 1) : NULL;
        if (!row || !(call->out[i] = mx_g_reshape(row, &own)))
            return mx_error_code();
    }
    return MX_OK;
}

// clang-format off
#define EDIT(id, function, inputs_, schema_, ...) \
    {.name = "np." #id, .c_name = "np_" #id, .inputs = inputs_, .flags = MX_OP_EXPANDS, .schema = schema_, \
     .user = &(mx_expansion){function, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}, __VA_ARGS__},
mx_op mx_family_np_edit[] = {
    EDIT(append, append, "arr values", &np_edit_schema, .doc = "an array with values behind it")
    EDIT(delete, delete_places, "arr obj", &np_edit_schema, .doc = "an array without the places obj")
    EDIT(insert, insert, "arr obj values", &np_edit_schema, .doc = "an array with values before the places obj")
    EDIT(resize, resize, "a", &np_resize_schema, .doc = "the elements in another shape, repeated if there are too few")
    {.name = "np.ediff1d", .c_name = "np_ediff1d", .inputs = "ary to_end? to_begin?", .flags = MX_OP_EXPANDS,
     .doc = "differences of neighbours, between to_begin and to_end",
     .user = &(mx_expansion){ediff1d, {NULL, NULL, NULL}, MX_NOT_BOOL, {NULL, NULL, NULL}}},
    EDIT(flatnonzero, flatnonzero, "a", NULL, .doc = "the numbers of the elements that are not 0")
    EDIT(argwhere, argwhere, "a", NULL, .doc = "the places of the elements that are not 0, one row each")
    EDIT(extract, extract, "condition arr", NULL, .doc = "the elements where the condition is true")
    EDIT(compress, compress, "condition a", &np_edit_schema, .doc = "the parts along an axis where the condition is true")
    EDIT(unravel_index, unravel_index, "indices", &np_unravel_index_schema, .count_out = count_axes, .doc = "the places of numbered elements, one array per axis")
    {0},
};
