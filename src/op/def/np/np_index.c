/* NumPy's functions that choose elements: where, take, sort and their like.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "op/expand.h"

static mx_code where(const mx_expand *call)
{
    const mx_expand rest = {call->op, call->how, call->attrs, 2, call->in + 1, call->out};
    mx_array *x[2], *condition = call->in[0];
    if (mx_is_number(condition))
        condition = mx_expand_array(condition, MX_BOOL, NULL);
    if (condition && !condition->storage && condition->dtype == MX_BOOL) /* MXNet's where reads no bool from files */
        condition = mx_expand_cast(condition, MX_FLOAT32);
    if (!condition || mx_expand_promote(&rest, x))
        return mx_error_code();
    const mx_shape_t parts[3] = {mx_array_shape(condition), mx_array_shape(x[0]), mx_array_shape(x[1])};
    mx_shape_t shape = parts[0];
    if (shape.ndim < 0 || parts[1].ndim < 0 || parts[2].ndim < 0)
        return mx_expand_give(call, mx_g3("where", condition, x[0], x[1]));
    if (!mx_shape_broadcast(&shape, &parts[1], &shape) || !mx_shape_broadcast(&shape, &parts[2], &shape))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the condition and the two choices do not broadcast");
    return mx_expand_give(call, mx_g3("where", mx_g_broadcast_to(condition, &shape), mx_g_broadcast_to(x[0], &shape),
                                      mx_g_broadcast_to(x[1], &shape)));
}

#define TAKE_ATTRS(X) \
    X(INT, axis, "None", "", "the axis; None: of all elements in order") \
    X(ENUM, mode, "raise", "raise|wrap|clip", "indices out of range: an error, counted round, or the nearest end")
MX_ATTRS(np_take, TAKE_ATTRS)
static mx_code take(const mx_expand *call)
{
    const mx_np_take_attrs *attrs = call->attrs;
    mx_array *a = mx_expand_by_rules(call, call->in[0]), *indices = call->in[1];
    if (a && mx_is_number(indices))
        indices = mx_expand_array(indices, MX_INT64, a);
    if (a && (attrs->axis == MX_NONE_INT || !a->ndim))
        a = mx_expand1("Reshape", a, "shape=(-1,)");
    struct { int64_t axis; int mode; } classic = {attrs->axis == MX_NONE_INT ? 0 : attrs->axis, attrs->mode};
    return mx_expand_give(call,
                          a && indices ? mx_g_call(MX_OP("take"), &classic, 2, (mx_array *const[]){a, indices}) : NULL);
}

#define ALONG_ATTRS(X) X(INT, axis, "-1", "", "the axis; None: of all elements in order")
MX_ATTRS(np_take_along, ALONG_ATTRS)
/* element [i, j] is a[i, indices[i, j]]: the index along the other axes is their number */
static mx_code take_along(const mx_expand *call)
{
    int64_t axis = ((const mx_np_take_along_attrs *)call->attrs)->axis;
    mx_array *a = call->in[0], *indices = call->in[1];
    if (axis == MX_NONE_INT)
        a = mx_expand1("Reshape", a, "shape=(-1,)"), axis = 0;
    if (!a || a->ndim != indices->ndim || axis < -a->ndim || axis >= a->ndim)
        return a ? mx_op_fail(call->op, MX_ERR_SHAPE, "a has %d axes, indices %d, axis is %lld", a->ndim, indices->ndim,
                              (long long)axis)
                 : mx_error_code();
    mx_shape_t shape = mx_array_shape(indices);
    char ctx[32];
    mx_array *all[MX_MAX_NDIM];
    mx_context_text(a->context, ctx);
    for (int i = 0; i < a->ndim; i++) {
        mx_shape_t one = {.ndim = a->ndim};
        for (int k = 0; k < a->ndim; k++)
            one.dim[k] = k == i ? shape.dim[k] : 1;
        mx_array *number = i == (axis < 0 ? axis + a->ndim : axis)
                               ? mx_expand_cast(indices, MX_INT64)
                               : mx_expand_text(MX_OP("_arange"), 0, NULL, "start=0, stop=%lld, dtype=int64, ctx=%s",
                                                (long long)shape.dim[i], ctx);
        if (number && number->ndim == 1 && a->ndim > 1)
            number = mx_g_reshape(number, &one);
        if (!(all[i] = number ? mx_g_broadcast_to(number, &shape) : NULL))
            return mx_error_code();
    }
    struct { int64_t axis, num_args; } stack = {0, a->ndim};
    mx_array *places = mx_g_call(MX_OP("stack"), &stack, a->ndim, all);
    return mx_expand_give(call, places ? mx_g2("gather_nd", a, places) : NULL);
}

#define SORT_ATTRS(X) \
    X(INT, axis, "-1", "", "the axis; None: of all elements in order") \
    X(STR, kind, "None", "", "ignored") \
    X(STR, order, "None", "", "ignored")
MX_ATTRS(np_sort, SORT_ATTRS)
static mx_code sort(const mx_expand *call)
{
    const int64_t axis = ((const mx_np_sort_attrs *)call->attrs)->axis;
    mx_array *a = mx_expand_by_rules(call, call->in[0]);
    if (a && axis == MX_NONE_INT)
        a = mx_expand1("Reshape", a, "shape=(-1,)");
    if (a && !a->ndim && strcmp(call->how->name[0], "argsort"))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "axis %lld is out of bounds for an array with 0 axes",
                          (long long)axis);
    const bool positions = !strcmp(call->how->name[0], "argsort");
    const mx_dtype type = a ? (mx_dtype)a->dtype : MX_DTYPE_NONE;
    if (type == MX_BOOL)
        a = mx_expand_cast(a, MX_UINT8);
    const long long chosen = axis == MX_NONE_INT ? 0 : axis;
    if (!a || positions)
        return mx_expand_give(call, a ? mx_expand1("argsort", a, "axis=%lld, dtype=int64", chosen) : NULL);
    return mx_expand_give(call, mx_expand_cast(mx_expand1("sort", a, "axis=%lld", chosen), type));
}

// clang-format off
#define CHOICE(id, function, operator_, inputs_, schema_, doc_) \
    {.name = "np." #id, .c_name = "np_" #id, .doc = doc_, .inputs = inputs_, .flags = MX_OP_EXPANDS, .schema = schema_, \
     .user = &(mx_expansion){function, {operator_, NULL, NULL}, 0, {NULL, NULL, NULL}}},
mx_op mx_family_np_index[] = {
    CHOICE(where, where, NULL, "condition x y", NULL, "x where the condition is true, else y")
    CHOICE(take, take, NULL, "a indices", &np_take_schema, "the elements at indices along an axis")
    CHOICE(take_along_axis, take_along, NULL, "arr indices", &np_take_along_schema, "the elements at indices of the same shape along an axis")
    CHOICE(sort, sort, "sort", "a", &np_sort_schema, "the elements in ascending order along an axis")
    CHOICE(argsort, sort, "argsort", "a", &np_sort_schema, "the positions of the elements in ascending order")
    {0},
};
