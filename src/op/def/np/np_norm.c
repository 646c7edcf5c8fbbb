/* NumPy's norms of vectors and matrices, and condition numbers.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "op/def/np/svd.h"

#define NORM_ATTRS(X) \
    X(STR, ord, "None", "", "which norm: a number, inf, -inf, of matrices also 'fro' and 'nuc'; None: the root of the sum of squares") \
    X(DIMS, axis, "None", "", "the axis of vectors or the two of matrices; None: all elements") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1")
MX_ATTRS(np_norm, NORM_ATTRS)

/* One call: which norm, over which axes. */
typedef struct measure {
    const mx_expand *call;
    double ord; /* NaN: a name */
    bool nuclear, squares;
    mx_dims axes; /* counted from the front */
    bool keepdims;
} measure;

static mx_code read_order(measure *m, const char *text)
{
    char *end;
    m->ord = NAN, m->squares = !text || !strcmp(text, "None") || !strcmp(text, "fro");
    m->nuclear = text && !strcmp(text, "nuc");
    if (m->squares || m->nuclear)
        return MX_OK;
    m->ord = strtod(text, &end);
    return end != text && !*end
               ? MX_OK
               : mx_op_fail(m->call->op, MX_ERR_ATTRIBUTE, "ord is '%s', wanted a number, inf, fro or nuc", text);
}

static mx_code read_axes(measure *m, const mx_dims *axis, const mx_array *x)
{
    m->axes = *axis;
    if (axis->n < 0) {
        m->axes.n = x->ndim;
        for (int i = 0; i < x->ndim; i++)
            m->axes.d[i] = i;
    }
    for (int i = 0; i < m->axes.n; i++) {
        if (m->axes.d[i] < -x->ndim || m->axes.d[i] >= x->ndim)
            return mx_op_fail(m->call->op, MX_ERR_SHAPE, "axis %lld is out of bounds for an array with %d axes",
                              (long long)m->axes.d[i], x->ndim);
        m->axes.d[i] += m->axes.d[i] < 0 ? x->ndim : 0;
    }
    if (m->axes.n == 2 && m->axes.d[0] == m->axes.d[1])
        return mx_op_fail(m->call->op, MX_ERR_SHAPE, "axis %lld is named twice", (long long)m->axes.d[0]);
    return MX_OK;
}

static mx_array *reduced(const char *op, mx_array *x, const mx_dims *axes, bool keepdims)
{
    char text[MX_SHAPE_TEXT];
    return x ? mx_expand_text(mx_op_find(op), 1, &x, "axis=%s, keepdims=%s", mx_dims_text(axes, text),
                              keepdims ? "True" : "False")
             : NULL;
}

/* The square root of a sum of squares has no gradient at 0; the classic norm takes 0 there. */
static mx_array *of_squares(const measure *m, mx_array *x)
{
    const mx_shape_t nothing = {.ndim = 0};
    struct { int64_t ord; mx_dims axis; mx_dtype dtype; bool keepdims; } classic = {2, m->axes, MX_DTYPE_NONE, m->keepdims};
    if (!x->ndim)
        return mx_g1("abs", x);
    mx_array *y = mx_g_call(MX_OP("norm"), &classic, 1, &x);
    return y && !m->keepdims && m->axes.n == x->ndim ? mx_g_reshape(y, &nothing) : y;
}

static mx_array *vector_norm(const measure *m, mx_array *x)
{
    mx_array *size = mx_g1("abs", x);
    if (isinf(m->ord) && m->ord > 0 && !x->size) /* there is nothing larger than 0 */
        return reduced("np.sum", size, &m->axes, m->keepdims);
    if (isinf(m->ord))
        return reduced(m->ord > 0 ? "np.max" : "np.min", size, &m->axes, m->keepdims);
    if (m->ord == 0) {
        mx_array *counted = size ? mx_expand1("_not_equal_scalar", size, "scalar=0") : NULL;
        return reduced("np.sum", mx_expand_cast(counted, (mx_dtype)x->dtype), &m->axes, m->keepdims);
    }
    if (m->ord == 1)
        return reduced("np.sum", size, &m->axes, m->keepdims);
    mx_array *sum = reduced("np.sum", size ? mx_g_power(size, m->ord) : NULL, &m->axes, m->keepdims);
    return sum ? mx_g_power(sum, 1 / m->ord) : NULL;
}

/* The largest or smallest singular value, or their sum. */
static mx_array *of_values(const measure *m, mx_array *x)
{
    mx_np_factors f;
    const mx_dims last = {.n = 1, .d = {-1}};
    mx_array *moved = mx_expand1("np.moveaxis", x, "source=(%lld, %lld), destination=(-2, -1)", (long long)m->axes.d[0],
                                 (long long)m->axes.d[1]);
    if (!moved || mx_np_svd_of(m->call, moved, &f))
        return NULL;
    mx_array *y = reduced(m->nuclear ? "np.sum" : m->ord > 0 ? "np.max" : "np.min", f.values, &last, false);
    if (!y || !m->keepdims)
        return y;
    mx_shape_t shape = mx_array_shape(x);
    shape.dim[m->axes.d[0]] = shape.dim[m->axes.d[1]] = 1;
    return mx_g_reshape(y, &shape);
}

/* 1 and inf of matrices: the largest sum over the rows or columns. */
static mx_array *matrix_norm(const measure *m, mx_array *x)
{
    if (m->nuclear || fabs(m->ord) == 2)
        return of_values(m, x);
    if (fabs(m->ord) != 1 && !isinf(m->ord))
        return mx_op_fail(m->call->op, MX_ERR_ATTRIBUTE,
                          "ord=%g is not defined for matrices; wanted 1, 2, inf, their negatives, fro or nuc", m->ord),
               NULL;
    const mx_dims sum = {.n = 1, .d = {m->axes.d[isinf(m->ord) ? 1 : 0]}};
    mx_array *sums = reduced("np.sum", mx_g1("abs", x), &sum, true);
    return reduced(m->ord > 0 ? "np.max" : "np.min", sums, &m->axes, m->keepdims);
}

static mx_array *norm_of(const measure *m, mx_array *x, bool named)
{
    if (m->axes.n == 2 && !m->squares)
        return matrix_norm(m, x);
    if (m->squares && (!named || m->axes.n == 2))
        return of_squares(m, x);
    if (m->axes.n > 2 || !m->axes.n || m->squares || m->nuclear)
        return mx_op_fail(m->call->op, MX_ERR_ATTRIBUTE, "this ord is not defined over %d axes", m->axes.n), NULL;
    return m->ord == 2 && m->axes.n == 1 ? of_squares(m, x) : vector_norm(m, x);
}

static mx_code norm(const mx_expand *call)
{
    const mx_np_norm_attrs *attrs = call->attrs;
    measure m = {.call = call, .keepdims = attrs->keepdims};
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    if (x && x->ndim < 0)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the number of axes must be known");
    if (!x || read_order(&m, attrs->ord) || read_axes(&m, &attrs->axis, x))
        return mx_error_code();
    return mx_expand_give(call, norm_of(&m, x, attrs->ord && strcmp(attrs->ord, "None")));
}

#define COND_ATTRS(X) X(STR, p, "None", "", "which norm; None: 2, the largest singular value divided by the smallest")
MX_ATTRS(np_cond, COND_ATTRS)
static mx_code cond(const mx_expand *call)
{
    const char *p = ((const mx_np_cond_attrs *)call->attrs)->p;
    measure m = {.call = call};
    mx_np_factors f;
    mx_array *x = matrices(call, 0);
    if (!x || read_order(&m, p))
        return mx_error_code();
    m.axes = (mx_dims){.n = 2, .d = {x->ndim - 2, x->ndim - 1}};
    const bool default_norm = !p || !strcmp(p, "None");
    if (!default_norm && fabs(m.ord) != 2) {
        mx_array *inverse = mx_g1("_linalg_inverse", x);
        return mx_expand_give(call, inverse ? mx_g_mul(norm_of(&m, x, true), norm_of(&m, inverse, true)) : NULL);
    }
    if (mx_np_svd_of(call, x, &f))
        return mx_error_code();
    const mx_dims last = {.n = 1, .d = {-1}};
    mx_array *most = reduced("np.max", f.values, &last, false), *least = reduced("np.min", f.values, &last, false);
    return mx_expand_give(call, m.ord < 0 ? mx_g_div(least, most) : mx_g_div(most, least));
}

// clang-format off
mx_op mx_family_np_norm[] = {
    {.name = "np.linalg.norm", .c_name = "np_linalg_norm", .doc = "a norm of vectors or matrices", .inputs = "x",
     .flags = MX_OP_EXPANDS, .schema = &np_norm_schema,
     .user = &(mx_expansion){norm, {NULL, NULL, NULL}, MX_TO_FLOAT, {NULL, NULL, NULL}}},
    {.name = "np.linalg.cond", .c_name = "np_linalg_cond", .doc = "the condition number: the norm of a matrix times that of its inverse", .inputs = "x",
     .flags = MX_OP_EXPANDS, .schema = &np_cond_schema,
     .user = &(mx_expansion){cond, {NULL, NULL, NULL}, MX_TO_FLOAT, {NULL, NULL, NULL}}},
    {0},
};
