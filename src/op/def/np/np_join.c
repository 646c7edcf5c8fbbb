/* NumPy's functions that join arrays and split them.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "op/def/np/axes.h"

#define MOST_JOINED 4096
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

// clang-format off
#define JOIN(id, function, list, schema_, doc_) \
    {.name = "np." #id, .c_name = "np_" #id, .doc = doc_, .inputs = "*" list, .flags = MX_OP_EXPANDS | MX_OP_LIST, \
     .schema = schema_, .user = &(mx_expansion){function, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
mx_op mx_family_np_join[] = {
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
    {0},
};
