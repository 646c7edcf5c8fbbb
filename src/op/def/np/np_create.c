/* NumPy's functions that make arrays.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "op/expand.h"

#define SHAPE_ATTRS(X) \
    X(DIMS, shape, REQUIRED, "", "the sizes of the axes") \
    X(DTYPE, dtype, "None", "", "the type; None: the default float") \
    X(STR, order, "C", "", "only 'C': the last axis changes fastest") \
    X(CTX, ctx, "None", "", "the context; None: the current one")
MX_ATTRS(np_shape, SHAPE_ATTRS)
#define FULL_ATTRS(X) \
    X(DIMS, shape, REQUIRED, "", "the sizes of the axes") \
    X(FLOAT, fill_value, REQUIRED, "", "the value") \
    X(DTYPE, dtype, "None", "", "the type; None: the default float") \
    X(STR, order, "C", "", "only 'C': the last axis changes fastest") \
    X(CTX, ctx, "None", "", "the context; None: the current one")
MX_ATTRS(np_full, FULL_ATTRS)
#define ARANGE_ATTRS(X) \
    X(FLOAT, start, REQUIRED, "", "the first number; without stop the numbers go from 0 up to this") \
    X(FLOAT, stop, "None", "", "the end, not included") \
    X(FLOAT, step, "1", "", "the distance of neighbours") \
    X(DTYPE, dtype, "None", "", "the type; None: the default float") \
    X(CTX, ctx, "None", "", "the context; None: the current one")
MX_ATTRS(np_arange, ARANGE_ATTRS)
#define LINSPACE_ATTRS(X) \
    X(FLOAT, start, REQUIRED, "", "the first number") \
    X(FLOAT, stop, REQUIRED, "", "the last number") \
    X(INT, num, "50", "0..", "how many numbers") \
    X(BOOL, endpoint, "True", "", "whether stop is one of them") \
    X(DTYPE, dtype, "None", "", "the type; None: the default float") \
    X(CTX, ctx, "None", "", "the context; None: the current one")
MX_ATTRS(np_linspace, LINSPACE_ATTRS)
#define EYE_ATTRS(X) \
    X(INT, N, REQUIRED, "0..", "the number of rows") \
    X(INT, M, "None", "", "the number of columns; None: N") \
    X(INT, k, "0", "", "which diagonal: 0 is the main one, positive ones are above it") \
    X(DTYPE, dtype, "None", "", "the type; None: the default float") \
    X(CTX, ctx, "None", "", "the context; None: the current one")
MX_ATTRS(np_eye, EYE_ATTRS)

static mx_dtype type_or_default(mx_dtype dtype) { return dtype == MX_DTYPE_NONE ? mx_default_float() : dtype; }

/* zeros and ones: the operator of the entry. */
static mx_code constant(const mx_expand *call)
{
    const mx_np_shape_attrs *given = call->attrs;
    struct { mx_dims shape; mx_context ctx; mx_dtype dtype; } attrs = {given->shape, given->ctx, type_or_default(given->dtype)};
    return mx_expand_give(call, mx_g_call(mx_expansion_op(call->how, 0), &attrs, 0, NULL));
}
static mx_code full(const mx_expand *call)
{
    const mx_np_full_attrs *given = call->attrs;
    struct { mx_dims shape; mx_context ctx; mx_dtype dtype; double value; } attrs = {
        given->shape, given->ctx, type_or_default(given->dtype), given->fill_value};
    return mx_expand_give(call, mx_g_call(MX_OP("_full"), &attrs, 0, NULL));
}
static mx_code arange(const mx_expand *call)
{
    const mx_np_arange_attrs *given = call->attrs;
    const bool from_0 = isnan(given->stop);
    const double start = from_0 ? 0 : given->start, stop = from_0 ? given->start : given->stop;
    const mx_dtype type = type_or_default(given->dtype);
    if (!given->step)
        return mx_op_fail(call->op, MX_ERR_ATTRIBUTE, "step must not be 0");
    if (!((stop - start) / given->step > 0)) { /* the classic operator refuses an empty range */
        struct { mx_dims shape; mx_context ctx; mx_dtype dtype; } none = {{.n = 1, .d = {0}}, given->ctx, type};
        return mx_expand_give(call, mx_g_call(MX_OP("_zeros"), &none, 0, NULL));
    }
    struct { double start, stop, step; int64_t repeat; bool infer; mx_context ctx; mx_dtype dtype; } attrs = {
        start, stop, given->step, 1, false, given->ctx, type};
    return mx_expand_give(call, mx_g_call(MX_OP("_arange"), &attrs, 0, NULL));
}
static mx_code linspace(const mx_expand *call)
{
    const mx_np_linspace_attrs *given = call->attrs;
    const mx_dtype type = type_or_default(given->dtype), wide = mx_dtype_is_float(type) ? type : MX_FLOAT64;
    struct { double start, stop; int64_t num; bool endpoint; mx_context ctx; mx_dtype dtype; } attrs = {
        given->start, given->stop, given->num, given->endpoint, given->ctx, wide};
    mx_array *y = mx_g_call(MX_OP("_linspace"), &attrs, 0, NULL);
    return mx_expand_give(call, wide == type ? y : mx_expand_cast(y ? mx_g1("floor", y) : NULL, type));
}
static mx_code eye(const mx_expand *call)
{
    const mx_np_eye_attrs *given = call->attrs;
    struct { int64_t N, M, k; mx_context ctx; mx_dtype dtype; } attrs = {
        given->N, given->M == MX_NONE_INT ? given->N : given->M, given->k, given->ctx, type_or_default(given->dtype)};
    if (!attrs.N || !attrs.M) {
        struct { mx_dims shape; mx_context ctx; mx_dtype dtype; } none = {{.n = 2, .d = {attrs.N, attrs.M}}, given->ctx, attrs.dtype};
        return mx_expand_give(call, mx_g_call(MX_OP("_zeros"), &none, 0, NULL));
    }
    return mx_expand_give(call, mx_g_call(MX_OP("_eye"), &attrs, 0, NULL));
}

#define LIKE_ATTRS(X) \
    X(FLOAT, fill_value, "0", "", "the value") \
    X(DTYPE, dtype, "None", "", "the type; None: that of a")
MX_ATTRS(np_full_like, LIKE_ATTRS)
static mx_code full_like(const mx_expand *call)
{
    const mx_np_full_like_attrs *attrs = call->attrs;
    mx_array *x = mx_expand_cast(mx_expand_by_rules(call, call->in[0]), attrs->dtype),
             *zero = x ? mx_g1("zeros_like", x) : NULL;
    return mx_expand_give(call, attrs->fill_value && zero ? mx_g_shift(zero, attrs->fill_value) : zero);
}

// clang-format off
#define MAKE(id, function, operator_, schema_, doc_) \
    {.name = "np." #id, .c_name = "np_" #id, .doc = doc_, .flags = MX_OP_EXPANDS | MX_OP_CREATE, .schema = &schema_, \
     .user = &(mx_expansion){function, {operator_, NULL, NULL}, 0, {NULL, NULL, NULL}}},
mx_op mx_family_np_create[] = {
    MAKE(zeros, constant, "_zeros", np_shape_schema, "an array of zeros")
    MAKE(ones, constant, "_ones", np_shape_schema, "an array of ones")
    MAKE(full, full, NULL, np_full_schema, "an array of one value")
    MAKE(arange, arange, NULL, np_arange_schema, "numbers at equal distances up to an end")
    {.name = "np.full_like", .c_name = "np_full_like", .doc = "one value in the shape and type of another array", .inputs = "a",
     .flags = MX_OP_EXPANDS, .schema = &np_full_like_schema, .user = &(mx_expansion){full_like, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
    MAKE(linspace, linspace, NULL, np_linspace_schema, "a given number of numbers at equal distances")
    MAKE(eye, eye, NULL, np_eye_schema, "a matrix with ones on a diagonal")
    {0},
};
