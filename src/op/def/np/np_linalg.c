/* NumPy's linear algebra, of single matrices and of stacks of them.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "op/expand.h"
#include "op/formula/reduce.h"

/* The operator of the entry on a float array; a scalar per matrix of a single one is 0-d. */
static mx_code of_matrix(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]), *out[MX_MAX_OUTPUTS] = {NULL};
    const int n = mx_op_count_visible(call->op, call->attrs);
    if (!x)
        return mx_error_code();
    if (x->ndim >= 0 && x->ndim < 2)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "wanted a matrix or a stack of them, got %d axes", x->ndim);
    if (mx_expand_same(call, mx_expansion_op(call->how, 0), 1, &x, MX_MAX_OUTPUTS, out))
        return mx_error_code();
    const mx_shape_t nothing = {.ndim = 0};
    for (int i = 0; i < n; i++) {
        const bool number = x->ndim == 2 && out[i]->ndim == 1 && out[i]->size == 1 && call->how->name[1];
        call->out[i] = number ? mx_g_reshape(out[i], &nothing) : out[i];
        if (!call->out[i])
            return mx_error_code();
    }
    return MX_OK;
}

static mx_array *turned(mx_array *x)
{
    return x ? mx_expand1("SwapAxis", x, "dim1=%d, dim2=%d", x->ndim - 2, x->ndim - 1) : NULL;
}

#define UPLO_ATTRS(X) X(ENUM, UPLO, "L", "L|U", "which triangle of the matrix is read")
MX_ATTRS(np_eigh, UPLO_ATTRS)
/* syevd gives rows of eigenvectors; NumPy has columns. */
static mx_code eigh(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]), *out[2] = {NULL};
    if (x && ((const mx_np_eigh_attrs *)call->attrs)->UPLO == 1)
        x = turned(x);
    if (!x || mx_invoke(MX_OP("_linalg_syevd"), NULL, 1, &x, 2, out))
        return mx_error_code();
    call->out[0] = out[1];
    if (mx_op_count_visible(call->op, call->attrs) == 2)
        call->out[1] = turned(out[0]);
    return call->out[0] ? MX_OK : mx_error_code();
}

/* The inverse times b; b is a vector if it has one axis less. */
static mx_code solve(const mx_expand *call)
{
    mx_array *x[2];
    if (mx_expand_promote(call, x))
        return mx_error_code();
    mx_array *inverse = mx_g1("_linalg_inverse", x[0]);
    return mx_expand_give(call, inverse ? mx_g2("np.matmul", inverse, x[1]) : NULL);
}

#define NORM_ATTRS(X) \
    X(FLOAT, ord, "None", "", "which p-norm: 1, 2, inf, -inf, 0 or any other number; None: 2 over all axes (Frobenius)") \
    X(DIMS, axis, "None", "", "the axis of vectors or the two of matrices; None: all elements") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1")
MX_ATTRS(np_norm, NORM_ATTRS)

static mx_array *reduced(const char *op, mx_array *x, const mx_np_norm_attrs *attrs)
{
    char axes[128] = "None";
    int used = 0;
    if (attrs->axis.n > 0) {
        used = snprintf(axes, sizeof axes, "(");
        for (int i = 0; i < attrs->axis.n; i++)
            used += snprintf(axes + used, sizeof axes - (size_t)used, "%lld,", (long long)attrs->axis.d[i]);
        snprintf(axes + used, sizeof axes - (size_t)used, ")");
    }
    return x ? mx_expand_text(mx_op_find(op), 1, &x, "axis=%s, keepdims=%s", axes, attrs->keepdims ? "True" : "False")
             : NULL;
}
/* The square root of a sum of squares has no gradient at 0; the classic norm takes 0 there. */
static mx_array *of_squares(const mx_expand *call, mx_array *x)
{
    const mx_np_norm_attrs *attrs = call->attrs;
    mx_array *y = NULL;
    const mx_shape_t nothing = {.ndim = 0};
    struct { int64_t ord; mx_dims axis; mx_dtype dtype; bool keepdims; } classic = {2, attrs->axis, MX_DTYPE_NONE, attrs->keepdims};
    if (x)
        y = mx_g_call(MX_OP("norm"), &classic, 1, &x);
    const bool all = y && !attrs->keepdims && (attrs->axis.n < 0 || attrs->axis.n == x->ndim);
    return all ? mx_g_reshape(y, &nothing) : y;
}
static mx_array *vector_norm(const mx_expand *call, mx_array *x, double ord)
{
    const mx_np_norm_attrs *attrs = call->attrs;
    mx_array *size = x ? mx_g1("abs", x) : NULL;
    if (isinf(ord))
        return reduced(ord > 0 ? "np.max" : "np.min", size, attrs);
    if (ord == 0)
        return reduced(
            "np.sum",
            mx_expand_cast(size ? mx_expand1("_not_equal_scalar", size, "scalar=0") : NULL, (mx_dtype)x->dtype), attrs);
    if (ord == 1)
        return reduced("np.sum", size, attrs);
    mx_array *sum = reduced("np.sum", size ? mx_g_power(size, ord) : NULL, attrs);
    return sum ? mx_g_power(sum, 1 / ord) : NULL;
}
/* 1 and inf of matrices: the largest sum over the rows or columns. */
static mx_array *matrix_norm(const mx_expand *call, mx_array *x, double ord)
{
    const mx_np_norm_attrs *attrs = call->attrs;
    const int64_t first = attrs->axis.n == 2 ? attrs->axis.d[0] : 0, second = attrs->axis.n == 2 ? attrs->axis.d[1] : 1;
    if (fabs(ord) != 1 && !isinf(ord))
        return mx_op_fail(call->op, MX_ERR_UNSUPPORTED,
                          "ord=%g of matrices is not supported; wanted None, 1, -1, inf or -inf", ord),
               NULL;
    mx_np_norm_attrs sum = *attrs, most = *attrs;
    sum.axis = (mx_dims){.n = 1, .d = {isinf(ord) ? second : first}}, sum.keepdims = true;
    most.axis = (mx_dims){.n = 2, .d = {first, second}};
    mx_array *sums = reduced("np.sum", x ? mx_g1("abs", x) : NULL, &sum);
    return reduced(ord > 0 ? "np.max" : "np.min", sums, &most);
}
static mx_code norm(const mx_expand *call)
{
    const mx_np_norm_attrs *attrs = call->attrs;
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    if (!x)
        return mx_error_code();
    const int axes = attrs->axis.n < 0 ? x->ndim : attrs->axis.n;
    if (isnan(attrs->ord) || (attrs->ord == 2 && axes == 1))
        return mx_expand_give(call, x->ndim ? of_squares(call, x) : mx_g1("abs", x));
    return mx_expand_give(call, axes == 2 ? matrix_norm(call, x, attrs->ord) : vector_norm(call, x, attrs->ord));
}

// clang-format off
#define MATRIX(id, function, operator_, number, n, schema_, doc_) \
    {.name = "np.linalg." #id, .c_name = "np_linalg_" #id, .doc = doc_, .inputs = "a", .flags = MX_OP_EXPANDS, .n_out = n, \
     .schema = schema_, .user = &(mx_expansion){function, {operator_, number, NULL}, MX_TO_FLOAT, {NULL, NULL, NULL}}},
mx_op mx_family_np_linalg[] = {
    MATRIX(cholesky, of_matrix, "_linalg_potrf", NULL, 1, NULL, "the lower triangular factor of a positive definite matrix")
    MATRIX(inv, of_matrix, "_linalg_inverse", NULL, 1, NULL, "the inverse")
    MATRIX(det, of_matrix, "_linalg_det", "number", 1, NULL, "the determinant")
    MATRIX(slogdet, of_matrix, "_linalg_slogdet", "number", 2, NULL, "the sign of the determinant and the logarithm of its size")
    MATRIX(eigh, eigh, NULL, NULL, 2, &np_eigh_schema, "eigenvalues, and eigenvectors as columns, of a symmetric matrix")
    MATRIX(eigvalsh, eigh, NULL, NULL, 1, &np_eigh_schema, "eigenvalues of a symmetric matrix")
    {.name = "np.linalg.solve", .c_name = "np_linalg_solve", .doc = "x such that a @ x is b", .inputs = "a b",
     .flags = MX_OP_EXPANDS, .user = &(mx_expansion){solve, {NULL, NULL, NULL}, MX_TO_FLOAT, {NULL, NULL, NULL}}},
    {.name = "np.linalg.norm", .c_name = "np_linalg_norm", .doc = "a norm of vectors or matrices", .inputs = "x",
     .flags = MX_OP_EXPANDS, .schema = &np_norm_schema,
     .user = &(mx_expansion){norm, {NULL, NULL, NULL}, MX_TO_FLOAT, {NULL, NULL, NULL}}},
    {0},
};
