/* NumPy's products and sums of several steps: covariances, cross and Kronecker products, integrals.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "op/def/np/axes.h"
#include "op/def/np/values.h"

/* ---- covariances --------------------------------------------------------------------------------------------------- */

#define COV_ATTRS(X) \
    X(BOOL, rowvar, "True", "", "rows are variables; else columns") \
    X(BOOL, bias, "False", "", "divide by the number of observations; else by one less") \
    X(INT, ddof, "None", "", "divide by the number of observations minus this")
MX_ATTRS(np_cov, COV_ATTRS)

/* The variables of an input as rows. */
static mx_array *variables(const mx_expand *call, mx_array *x, bool rowvar)
{
    if (x && x->ndim > 2)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "got %d axes, wanted at most two", x->ndim), NULL;
    if (x && x->ndim < 2)
        return mx_g_reshape(x, &(mx_shape_t){.ndim = 2, .dim = {1, x->ndim ? x->shape[0] : 1}});
    return rowvar || !x || x->shape[0] == 1 ? x : mx_g1("np.transpose", x);
}
static mx_array *covariance(const mx_expand *call, bool rowvar, int64_t ddof)
{
    mx_array *p[2];
    if (mx_expand_promote(call, p))
        return NULL;
    mx_array *x = variables(call, p[0], rowvar), *y = p[1] == MX_NONE ? NULL : variables(call, p[1], rowvar);
    if (!x || (p[1] != MX_NONE && !y))
        return NULL;
    x = y ? mx_joined2(x, y, 0) : x;
    mx_array *centred = x ? mx_g_sub(x, mx_expand1("np.mean", x, "axis=1, keepdims=True")) : NULL;
    mx_array *sums = centred ? mx_g2("np.matmul", centred, mx_g1("np.transpose", centred)) : NULL;
    return sums ? mx_g_scale(sums, x->shape[1] > ddof ? 1 / (double)(x->shape[1] - ddof) : INFINITY) : NULL;
}
static mx_code cov(const mx_expand *call)
{
    const mx_np_cov_attrs *attrs = call->attrs;
    mx_array *y = covariance(call, attrs->rowvar, attrs->ddof != MX_NONE_INT ? attrs->ddof : !attrs->bias);
    const mx_shape_t nothing = {.ndim = 0};
    return mx_expand_give(call, y && y->size == 1 ? mx_g_reshape(y, &nothing) : y);
}

#define CORRCOEF_ATTRS(X) X(BOOL, rowvar, "True", "", "rows are variables; else columns")
MX_ATTRS(np_corrcoef, CORRCOEF_ATTRS)
/* Divided by the standard deviations, and limited to what rounding may exceed. */
static mx_code corrcoef(const mx_expand *call)
{
    mx_array *c = covariance(call, ((const mx_np_corrcoef_attrs *)call->attrs)->rowvar, 1);
    mx_array *deviation = c ? mx_g1("sqrt", mx_g1("np.diag", c)) : NULL;
    mx_array *column = deviation ? mx_expand1("np.expand_dims", deviation, "axis=1") : NULL;
    mx_array *y = column ? mx_expand1("clip", mx_g_div(mx_g_div(c, deviation), column), "a_min=-1, a_max=1") : NULL;
    const mx_shape_t nothing = {.ndim = 0};
    return mx_expand_give(call, y && y->size == 1 ? mx_g_reshape(y, &nothing) : y);
}

/* ---- cross and Kronecker products ------------------------------------------------------------------------------------ */

#define CROSS_ATTRS(X) \
    X(INT, axisa, "-1", "", "the axis of the vectors of a") \
    X(INT, axisb, "-1", "", "the axis of the vectors of b") \
    X(INT, axisc, "-1", "", "the axis of the vectors of the result") \
    X(INT, axis, "None", "", "all three at once")
MX_ATTRS(np_cross, CROSS_ATTRS)
static mx_array *component(mx_array *x, int64_t i)
{
    mx_array *one = x ? mx_part(x, x->ndim - 1, i, i + 1) : NULL;
    return one ? mx_expand1("np.squeeze", one, "axis=-1") : NULL;
}
/* a[i] b[k] - a[k] b[i] */
static mx_array *minor(mx_array *const *x, int64_t i, int64_t k)
{
    return mx_g_sub(mx_g_mul(component(x[0], i), component(x[1], k)), mx_g_mul(component(x[0], k), component(x[1], i)));
}
static mx_array *vectors_last(const mx_expand *call, mx_array *x, int64_t axis)
{
    const int at = x->ndim < 0 ? -1 : axis_in(call, axis, x->ndim);
    if (at < 0)
        return NULL;
    if (x->shape[at] != 2 && x->shape[at] != 3)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "vectors have %lld components, wanted 2 or 3",
                          (long long)x->shape[at]),
               NULL;
    return at == x->ndim - 1 ? x : mx_expand1("np.moveaxis", x, "source=%d, destination=-1", at);
}
/* A third component of 0. */
static mx_array *in_space(mx_array *x)
{
    return x && x->shape[x->ndim - 1] == 2
               ? mx_joined2(x, mx_g1("zeros_like", mx_part(x, x->ndim - 1, 0, 1)), x->ndim - 1)
               : x;
}
static mx_code cross(const mx_expand *call)
{
    const mx_np_cross_attrs *attrs = call->attrs;
    const bool same = attrs->axis != MX_NONE_INT;
    mx_array *x[2];
    if (mx_expand_promote(call, x) || !(x[0] = vectors_last(call, x[0], same ? attrs->axis : attrs->axisa)) ||
        !(x[1] = vectors_last(call, x[1], same ? attrs->axis : attrs->axisb)))
        return mx_error_code();
    if (x[0]->shape[x[0]->ndim - 1] == 2 && x[1]->shape[x[1]->ndim - 1] == 2)
        return mx_expand_give(call, minor(x, 0, 1));
    x[0] = in_space(x[0]), x[1] = in_space(x[1]);
    mx_array *part[3] = {minor(x, 1, 2), minor(x, 2, 0), minor(x, 0, 1)};
    struct { int64_t axis, num_args; } last = {part[0] ? part[0]->ndim : 0, 3};
    mx_array *y = mx_g_call(MX_OP("stack"), &last, 3, part);
    const long long to = same ? attrs->axis : attrs->axisc;
    return mx_expand_give(call, y && to != -1 ? mx_expand1("np.moveaxis", y, "source=-1, destination=%lld", to) : y);
}

/* Every element of a times all of b: (a0, 1, a1, 1 ...) * (1, b0, 1, b1 ...) with pairs of axes merged. */
static mx_code kron(const mx_expand *call)
{
    mx_array *x[2];
    if (mx_expand_promote(call, x))
        return mx_error_code();
    const int axes = x[0]->ndim > x[1]->ndim ? x[0]->ndim : x[1]->ndim;
    if (x[0]->ndim < 0 || x[1]->ndim < 0 || 2 * axes > MX_MAX_NDIM)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "wanted arrays of at most %d axes", MX_MAX_NDIM / 2);
    mx_shape_t result = {.ndim = axes};
    for (int i = 0; i < axes; i++)
        result.dim[i] = 1;
    for (int k = 0; k < 2; k++) {
        mx_shape_t pairs = {.ndim = 2 * axes};
        for (int i = 0; i < axes; i++) {
            const int own = i - (axes - x[k]->ndim);
            const int64_t size = own < 0 ? 1 : x[k]->shape[own];
            pairs.dim[2 * i + k] = size, pairs.dim[2 * i + !k] = 1, result.dim[i] *= size;
        }
        if (!(x[k] = mx_g_reshape(x[k], &pairs)))
            return mx_error_code();
    }
    mx_array *y = mx_g_mul(x[0], x[1]);
    const bool logical = mx_result_type((mx_arrays){call->in, 2}) == MX_BOOL;
    return mx_expand_give(call, y ? mx_expand_cast(mx_g_reshape(y, &result), logical ? MX_BOOL : MX_DTYPE_NONE) : NULL);
}

/* ---- integrals and powers -------------------------------------------------------------------------------------------- */

#define TRAPZ_ATTRS(X) \
    X(FLOAT, dx, "1.0", "", "the distance of neighbours, if x is not given") \
    X(INT, axis, "-1", "", "the axis")
MX_ATTRS(np_trapz, TRAPZ_ATTRS)
static mx_array *between_neighbours(mx_array *x, int axis, bool sum)
{
    const int64_t n = x->shape[axis];
    mx_array *later = mx_part(x, axis, n ? 1 : 0, n), *sooner = mx_part(x, axis, 0, n ? n - 1 : 0);
    return sum ? mx_g_add(later, sooner) : mx_g_sub(later, sooner);
}
static mx_code trapz(const mx_expand *call)
{
    const mx_np_trapz_attrs *attrs = call->attrs;
    mx_array *p[2];
    if (mx_expand_promote(call, p))
        return mx_error_code();
    const int axis = p[0]->ndim < 0 ? -1 : axis_in(call, attrs->axis, p[0]->ndim);
    if (axis < 0)
        return mx_error_code();
    mx_array *heights = between_neighbours(p[0], axis, true);
    if (p[1] == MX_NONE)
        return mx_expand_give(call, heights ? mx_g_scale(mx_expand1("np.sum", heights, "axis=%d", axis), attrs->dx / 2)
                                            : NULL);
    mx_shape_t shape = {.ndim = p[0]->ndim};
    for (int i = 0; i < shape.ndim; i++)
        shape.dim[i] = i == axis ? p[1]->shape[0] : 1;
    mx_array *x = p[1]->ndim == 1 ? mx_g_reshape(p[1], &shape) : p[1];
    mx_array *areas = x && heights ? mx_g_mul(heights, between_neighbours(x, axis, false)) : NULL;
    return mx_expand_give(call, areas ? mx_g_scale(mx_expand1("np.sum", areas, "axis=%d", axis), 0.5) : NULL);
}

#define VANDER_ATTRS(X) \
    X(INT, N, "None", "", "how many columns; None: as many as x has elements") \
    X(BOOL, increasing, "False", "", "powers from left to right; else from right to left")
MX_ATTRS(np_vander, VANDER_ATTRS)
static mx_code vander(const mx_expand *call)
{
    const mx_np_vander_attrs *attrs = call->attrs;
    mx_array *x = shaped(call, 0);
    if (!x || x->ndim != 1)
        return x ? mx_op_fail(call->op, MX_ERR_SHAPE, "x has %d axes, wanted a vector", x->ndim) : mx_error_code();
    const int64_t n = attrs->N == MX_NONE_INT ? x->shape[0] : attrs->N;
    if (n < 0)
        return mx_op_fail(call->op, MX_ERR_ATTRIBUTE, "N must not be negative");
    mx_array *powers = mx_places(n, x, (mx_dtype)x->dtype);
    powers = powers && !attrs->increasing ? mx_expand1("np.flip", powers, "axis=0") : powers;
    return mx_expand_give(call, powers ? mx_g2("np.power", mx_expand1("np.expand_dims", x, "axis=1"), powers) : NULL);
}

static mx_code diagflat(const mx_expand *call)
{
    mx_array *x = mx_flattened(shaped(call, 0));
    return x ? mx_expand_same(call, MX_OP("np.diag"), 1, &x, 1, call->out) : mx_error_code();
}
#define DIAGFLAT_ATTRS(X) X(INT, k, "0", "", "which diagonal: 0 is the main one, positive ones are above it")
MX_ATTRS(np_diagflat, DIAGFLAT_ATTRS)

// clang-format off
#define STEPS(id, function, inputs_, schema_, rules_, doc_) \
    {.name = "np." #id, .c_name = "np_" #id, .doc = doc_, .inputs = inputs_, .flags = MX_OP_EXPANDS, .schema = schema_, \
     .user = &(mx_expansion){function, {NULL, NULL, NULL}, rules_, {NULL, NULL, NULL}}},
mx_op mx_family_np_statistics[] = {
    STEPS(cov, cov, "m y?", &np_cov_schema, MX_TO_FLOAT, "the covariances of variables, whose observations are columns")
    STEPS(corrcoef, corrcoef, "x y?", &np_corrcoef_schema, MX_TO_FLOAT, "the correlations of variables, whose observations are columns")
    STEPS(cross, cross, "a b", &np_cross_schema, MX_FROM_BOOL, "the cross product of vectors of two or three components")
    STEPS(kron, kron, "a b", NULL, MX_FROM_BOOL, "the Kronecker product: each element of a times b")
    STEPS(trapz, trapz, "y x?", &np_trapz_schema, MX_TO_FLOAT, "the area below a line through the elements")
    STEPS(vander, vander, "x", &np_vander_schema, MX_FROM_BOOL, "the powers of the elements, one row each")
    STEPS(diagflat, diagflat, "array", &np_diagflat_schema, 0, "a matrix with the elements on a diagonal")
    {0},
};
