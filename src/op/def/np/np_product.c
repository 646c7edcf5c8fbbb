/* NumPy's products of matrices.  Integers are multiplied as float64, which is exact up to 2^53.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "op/expand.h"

/* Both operands in their common type, floats; *type: that of the result. */
static mx_code operands(const mx_expand *call, mx_array **x, mx_dtype *type)
{
    if (mx_expand_promote(call, x))
        return mx_error_code();
    *type = (mx_dtype)x[0]->dtype;
    for (int i = 0; i < 2; i++) {
        if (*type != MX_DTYPE_NONE && !mx_dtype_is_float(*type) && !(x[i] = mx_expand_cast(x[i], MX_FLOAT64)))
            return mx_error_code();
    }
    return MX_OK;
}

static mx_code give(const mx_expand *call, mx_array *y, mx_dtype type)
{
    return mx_expand_give(call, mx_expand_cast(y, type));
}

static mx_array *without_axes(mx_array *y)
{
    const mx_shape_t nothing = {.ndim = 0};
    return y ? mx_g_reshape(y, &nothing) : NULL;
}

static mx_array *last_moved_first(mx_array *x, int from)
{
    mx_dims axes = {.n = x->ndim, .d = {from}};
    for (int i = 0, k = 1; i < x->ndim; i++)
        if (i != from)
            axes.d[k++] = i;
    return mx_g_call(MX_OP("transpose"), &axes, 1, &x);
}

static mx_code check_inner(const mx_expand *call, const mx_array *a, int axis_a, const mx_array *b, int axis_b)
{
    const int64_t left = a->shape[axis_a], right = b->shape[axis_b];
    if (left < 0 || right < 0 || left == right)
        return MX_OK;
    return mx_op_fail(call->op, MX_ERR_SHAPE,
                      "axis %d of the first has size %lld, axis %d of the second %lld: they must be equal", axis_a,
                      (long long)left, axis_b, (long long)right);
}

/* Over the last axis of a and the last but one (the only one) of b. */
static mx_array *dot_of(const mx_expand *call, mx_array *a, mx_array *b)
{
    if (!a->ndim || !b->ndim)
        return mx_g_mul(a, b);
    if (a->ndim < 0 || b->ndim < 0) /* not known yet: as for matrices */
        return mx_g2("dot", a, b);
    const int inner = b->ndim > 1 ? b->ndim - 2 : 0;
    if (check_inner(call, a, a->ndim - 1, b, inner))
        return NULL;
    if (inner && !(b = last_moved_first(b, inner)))
        return NULL;
    mx_array *y = mx_g2("dot", a, b);
    return a->ndim == 1 && b->ndim == 1 ? without_axes(y) : y;
}
static mx_code dot(const mx_expand *call)
{
    mx_array *x[2];
    mx_dtype type = MX_DTYPE_NONE;
    return operands(call, x, &type) ? mx_error_code() : give(call, dot_of(call, x[0], x[1]), type);
}

/* Over the last axes of both. */
static mx_code inner(const mx_expand *call)
{
    mx_array *x[2];
    mx_dtype type = MX_DTYPE_NONE;
    if (operands(call, x, &type))
        return mx_error_code();
    if (x[0]->ndim && x[1]->ndim > 1) {
        if (check_inner(call, x[0], x[0]->ndim - 1, x[1], x[1]->ndim - 1))
            return mx_error_code();
        x[1] = last_moved_first(x[1], x[1]->ndim - 1);
        return give(call, x[1] ? mx_g2("dot", x[0], x[1]) : NULL, type);
    }
    return give(call, dot_of(call, x[0], x[1]), type);
}

static mx_array *flat(mx_array *x) { return x ? mx_expand1("Reshape", x, "shape=(-1,)") : NULL; }

static mx_code vdot(const mx_expand *call)
{
    mx_array *x[2];
    mx_dtype type = MX_DTYPE_NONE;
    if (operands(call, x, &type) || !(x[0] = flat(x[0])) || !(x[1] = flat(x[1])))
        return mx_error_code();
    return give(call, dot_of(call, x[0], x[1]), type);
}
static mx_code outer(const mx_expand *call)
{
    mx_array *x[2];
    if (mx_expand_promote(call, x))
        return mx_error_code();
    return mx_expand_give(
        call, mx_g_mul(mx_expand1("Reshape", x[0], "shape=(-1, 1)"), mx_expand1("Reshape", x[1], "shape=(1, -1)")));
}

/* Stacks of matrices: the axes before the last two are broadcast together and merged. */
static mx_array *stacked_product(const mx_expand *call, mx_array *a, mx_array *b)
{
    mx_shape_t left = mx_array_shape(a), right = mx_array_shape(b), stack;
    char s[MX_SHAPE_TEXT], t[MX_SHAPE_TEXT];
    const int64_t rows = left.dim[left.ndim - 2], inner_size = left.dim[left.ndim - 1],
                  columns = right.dim[right.ndim - 1];
    left.ndim -= 2, right.ndim -= 2;
    if (!mx_shape_broadcast(&left, &right, &stack))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "stacks of shapes %s and %s do not broadcast",
                          mx_shape_text(&left, s), mx_shape_text(&right, t)),
               NULL;
    mx_shape_t wide_a = stack, wide_b = stack, result = stack;
    wide_a.dim[wide_a.ndim++] = rows, wide_a.dim[wide_a.ndim++] = inner_size;
    wide_b.dim[wide_b.ndim++] = inner_size, wide_b.dim[wide_b.ndim++] = columns;
    result.dim[result.ndim++] = rows, result.dim[result.ndim++] = columns;
    const int64_t n = mx_shape_size(&stack);
    a = mx_g_broadcast_to(a, &wide_a), b = mx_g_broadcast_to(b, &wide_b);
    a = a ? mx_g_reshape(a, &(mx_shape_t){.ndim = 3, .dim = {n, rows, inner_size}}) : NULL;
    b = b ? mx_g_reshape(b, &(mx_shape_t){.ndim = 3, .dim = {n, inner_size, columns}}) : NULL;
    mx_array *y = mx_g2("batch_dot", a, b);
    return y ? mx_g_reshape(y, &result) : NULL;
}
static mx_array *product(const mx_expand *call, mx_array *a, mx_array *b)
{
    if (a->ndim < 0 || b->ndim < 0) /* not known yet: as for matrices */
        return mx_g2("dot", a, b);
    if (check_inner(call, a, a->ndim - 1, b, b->ndim > 1 ? b->ndim - 2 : 0))
        return NULL;
    if (b->ndim <= 2) /* the last axis of a with the first of b */
        return a->ndim == 1 && b->ndim == 1 ? without_axes(mx_g2("dot", a, b)) : mx_g2("dot", a, b);
    if (a->ndim > 1)
        return stacked_product(call, a, b);
    mx_array *row = mx_g_reshape(a, &(mx_shape_t){.ndim = 2, .dim = {1, a->shape[0]}});
    mx_array *y = row ? stacked_product(call, row, b) : NULL;
    if (!y)
        return NULL;
    mx_shape_t shape = mx_array_shape(y);
    shape.dim[shape.ndim - 2] = shape.dim[shape.ndim - 1], shape.ndim--;
    return mx_g_reshape(y, &shape);
}
static mx_code matmul(const mx_expand *call)
{
    mx_array *x[2];
    mx_dtype type = MX_DTYPE_NONE;
    if (operands(call, x, &type))
        return mx_error_code();
    if (!x[0]->ndim || !x[1]->ndim)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "operand %d has no axes; use np.multiply", x[0]->ndim ? 1 : 0);
    return give(call, product(call, x[0], x[1]), type);
}

/* ---- tensordot ---------------------------------------------------------------------------------------------------- */

#define TENSORDOT_ATTRS(X) \
    X(DIMS, a_axes, "()", "", "axes of a to sum over") \
    X(DIMS, b_axes, "()", "", "axes of b to sum over, in the same order")
MX_ATTRS(np_tensordot, TENSORDOT_ATTRS)
/* The summed axes last or first, as a matrix; the sizes of the others are appended to `result`. */
static mx_array *as_matrix(const mx_expand *call, mx_array *x, const mx_dims *summed, bool last, mx_shape_t *result)
{
    bool is_summed[MX_MAX_NDIM] = {false};
    mx_dims order = {.n = x->ndim};
    int64_t size = 1;
    int k = last ? x->ndim - summed->n : 0, rest = last ? 0 : summed->n;
    for (int i = 0; i < summed->n; i++) {
        const int64_t axis = summed->d[i] < 0 ? summed->d[i] + x->ndim : summed->d[i];
        if (axis < 0 || axis >= x->ndim || is_summed[axis])
            return mx_op_fail(call->op, MX_ERR_SHAPE, "axis %lld is out of bounds or named twice",
                              (long long)summed->d[i]),
                   NULL;
        is_summed[axis] = true, size *= x->shape[axis], order.d[k++] = axis;
    }
    for (int i = 0; i < x->ndim; i++)
        if (!is_summed[i])
            order.d[rest++] = i, result->dim[result->ndim++] = x->shape[i];
    int64_t other = 1;
    for (int i = 0; i < x->ndim; i++)
        other *= is_summed[i] ? 1 : x->shape[i];
    mx_array *y = x->ndim > 1 ? mx_g_call(MX_OP("transpose"), &order, 1, &x) : x;
    return y ? mx_g_reshape(y, &(mx_shape_t){.ndim = 2, .dim = {last ? other : size, last ? size : other}}) : NULL;
}
static mx_code tensordot(const mx_expand *call)
{
    const mx_np_tensordot_attrs *attrs = call->attrs;
    mx_array *x[2];
    mx_dtype type = MX_DTYPE_NONE;
    mx_shape_t result = {.ndim = 0};
    if (operands(call, x, &type))
        return mx_error_code();
    if (x[0]->ndim < 0 || x[1]->ndim < 0)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the number of axes must be known");
    if (attrs->a_axes.n != attrs->b_axes.n)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "%d axes of a but %d of b", attrs->a_axes.n, attrs->b_axes.n);
    if (x[0]->ndim + x[1]->ndim - 2 * attrs->a_axes.n > MX_MAX_NDIM)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the result has more than %d axes", MX_MAX_NDIM);
    for (int i = 0; i < attrs->a_axes.n; i++) {
        const int64_t one = attrs->a_axes.d[i], two = attrs->b_axes.d[i];
        const int left = (int)(one < 0 ? one + x[0]->ndim : one), right = (int)(two < 0 ? two + x[1]->ndim : two);
        if (left >= 0 && left < x[0]->ndim && right >= 0 && right < x[1]->ndim &&
            check_inner(call, x[0], left, x[1], right))
            return mx_error_code();
    }
    mx_array *a = as_matrix(call, x[0], &attrs->a_axes, true, &result);
    mx_array *b = a ? as_matrix(call, x[1], &attrs->b_axes, false, &result) : NULL;
    if (!b || check_inner(call, a, 1, b, 0))
        return mx_error_code();
    mx_array *y = mx_g2("dot", a, b);
    return give(call, y ? mx_g_reshape(y, &result) : NULL, type);
}

// clang-format off
#define PRODUCT(id, function, schema_, doc_) \
    {.name = "np." #id, .c_name = "np_" #id, .doc = doc_, .inputs = "a b", .flags = MX_OP_EXPANDS, .schema = schema_, \
     .user = &(mx_expansion){function, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
mx_op mx_family_np_product[] = {
    PRODUCT(dot, dot, NULL, "the product over the last axis of a and the last but one of b")
    PRODUCT(inner, inner, NULL, "the product over the last axes of both")
    PRODUCT(vdot, vdot, NULL, "the sum of the products of all elements")
    PRODUCT(outer, outer, NULL, "the products of all pairs of elements")
    PRODUCT(matmul, matmul, NULL, "the product of matrices, or of stacks of them")
    PRODUCT(tensordot, tensordot, &np_tensordot_schema, "the sum of products over some axes of both")
    {0},
};
