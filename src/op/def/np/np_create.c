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

/* ---- windows, grids and powers ------------------------------------------------------------------------------------- */

#define WINDOW_ATTRS(X) \
    X(INT, M, REQUIRED, "", "how many numbers") \
    X(DTYPE, dtype, "None", "", "the type; None: the default float") \
    X(CTX, ctx, "None", "", "the context; None: the current one")
MX_ATTRS(np_window, WINDOW_ATTRS)
static mx_array *numbers(double start, double stop, int64_t num, mx_context ctx)
{
    struct { double start, stop; int64_t num; bool endpoint; mx_context ctx; mx_dtype dtype; } attrs = {start, stop, num, true, ctx, MX_FLOAT64};
    return mx_g_call(MX_OP("_linspace"), &attrs, 0, NULL);
}
/* a - b cos(t) + c cos(2 t), t from 0 to 2 pi: the weights follow from the name */
static mx_code window(const mx_expand *call)
{
    const mx_np_window_attrs *given = call->attrs;
    const mx_dtype type = type_or_default(given->dtype);
    const char kind = call->how->name[0][2]; /* hanning, hamming, blackman */
    const double a = kind == 'n' ? 0.5 : kind == 'm' ? 0.54 : 0.42, c = kind == 'a' ? 0.08 : 0;
    if (given->M < 2) {
        struct { mx_dims shape; mx_context ctx; mx_dtype dtype; } ones = {{.n = 1, .d = {given->M == 1}}, given->ctx, type};
        return mx_expand_give(call, mx_g_call(MX_OP("_ones"), &ones, 0, NULL));
    }
    mx_array *t = numbers(0, 2 * 3.14159265358979323846, given->M, given->ctx);
    mx_array *y = t ? mx_g_shift(mx_g_scale(mx_g1("cos", t), kind == 'm' ? -0.46 : -0.5), a) : NULL;
    if (y && c != 0)
        y = mx_g_add(y, mx_g_scale(mx_g1("cos", mx_g_scale(t, 2)), c));
    return mx_expand_give(call, mx_expand_cast(y, type));
}

#define LOGSPACE_ATTRS(X) \
    X(FLOAT, start, REQUIRED, "", "the exponent of the first number") \
    X(FLOAT, stop, REQUIRED, "", "the exponent of the last number") \
    X(INT, num, "50", "0..", "how many numbers") \
    X(BOOL, endpoint, "True", "", "whether stop is one of the exponents") \
    X(FLOAT, base, "10.0", "", "what is raised to the exponents") \
    X(DTYPE, dtype, "None", "", "the type; None: the default float") \
    X(INT, axis, "0", "", "ignored: the result is a vector") \
    X(CTX, ctx, "None", "", "the context; None: the current one")
MX_ATTRS(np_logspace, LOGSPACE_ATTRS)
static mx_code logspace(const mx_expand *call)
{
    const mx_np_logspace_attrs *given = call->attrs;
    char ctx[32];
    mx_array *exponents = mx_expand_text(
        MX_OP("np.linspace"), 0, NULL, "start=%.17g, stop=%.17g, num=%lld, endpoint=%s, dtype=float64, ctx=%s",
        given->start, given->stop, (long long)given->num, given->endpoint ? "True" : "False",
        mx_context_text(mx_context_resolve(given->ctx), ctx));
    struct { double scalar; bool is_int; } base = {given->base, false};
    mx_array *y = mx_g_call(MX_OP("_rpower_scalar"), &base, 1, &exponents);
    return mx_expand_give(call, mx_expand_cast(y, type_or_default(given->dtype)));
}

#define INDICES_ATTRS(X) \
    X(DIMS, dimensions, REQUIRED, "", "the shape of the grid") \
    X(DTYPE, dtype, "int32", "", "the type") \
    X(CTX, ctx, "None", "", "the context; None: the current one")
MX_ATTRS(np_indices, INDICES_ATTRS)
static mx_code indices(const mx_expand *call)
{
    const mx_np_indices_attrs *given = call->attrs;
    const mx_shape_t shape = mx_shape_of_dims(&given->dimensions);
    mx_array *rows[MX_MAX_NDIM];
    char ctx[32], text[MX_SHAPE_TEXT];
    mx_context_text(mx_context_resolve(given->ctx), ctx);
    if (shape.ndim < 0)
        return mx_error_code();
    if (shape.ndim >= MX_MAX_NDIM)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the result would have %d axes, at most %d are possible",
                          shape.ndim + 1, MX_MAX_NDIM);
    if (!mx_shape_size(&shape) || !shape.ndim) {
        mx_shape_t none = {.ndim = shape.ndim + 1, .dim = {shape.ndim}};
        for (int i = 0; i < shape.ndim; i++)
            none.dim[i + 1] = shape.dim[i];
        return mx_expand_give(call, mx_expand_text(MX_OP("_zeros"), 0, NULL, "shape=%s, dtype=%s, ctx=%s",
                                                   mx_shape_text(&none, text), mx_dtype_name(given->dtype), ctx));
    }
    for (int i = 0; i < shape.ndim; i++) {
        mx_shape_t one = {.ndim = shape.ndim};
        for (int k = 0; k < shape.ndim; k++)
            one.dim[k] = k == i ? shape.dim[k] : 1;
        mx_array *places = mx_expand_text(MX_OP("_arange"), 0, NULL, "start=0, stop=%lld, dtype=%s, ctx=%s",
                                          (long long)shape.dim[i], mx_dtype_name(given->dtype), ctx);
        places = places ? mx_g_reshape(places, &one) : NULL;
        if (!(rows[i] = places ? mx_g_broadcast_to(places, &shape) : NULL))
            return mx_error_code();
    }
    struct { int64_t axis, num_args; } stack = {0, shape.ndim};
    return mx_expand_give(call, mx_g_call(MX_OP("stack"), &stack, shape.ndim, rows));
}

#define TRI_ATTRS(X) \
    X(INT, N, REQUIRED, "0..", "the number of rows") \
    X(INT, M, "None", "", "the number of columns; None: N") \
    X(INT, k, "0", "", "the last diagonal with ones") \
    X(DTYPE, dtype, "None", "", "the type; None: the default float") \
    X(CTX, ctx, "None", "", "the context; None: the current one")
MX_ATTRS(np_tri, TRI_ATTRS)
static mx_code tri(const mx_expand *call)
{
    const mx_np_tri_attrs *given = call->attrs;
    struct { mx_dims shape; mx_context ctx; mx_dtype dtype; } attrs = {{.n = 2, .d = {given->N, given->M == MX_NONE_INT ? given->N : given->M}}, given->ctx,
                                                                       type_or_default(given->dtype)};
    mx_array *ones = mx_g_call(MX_OP("_ones"), &attrs, 0, NULL);
    return mx_expand_give(call, ones && ones->size ? mx_expand1("np.tril", ones, "k=%lld", (long long)given->k) : ones);
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
    MAKE(tri, tri, NULL, np_tri_schema, "a matrix with ones up to a diagonal")
    MAKE(hanning, window, "hanning", np_window_schema, "the Hann window, a cosine from 0 over 1 to 0")
    MAKE(hamming, window, "hamming", np_window_schema, "the Hamming window, a cosine from 0.08 over 1 to 0.08")
    MAKE(blackman, window, "blackman", np_window_schema, "the Blackman window, a sum of two cosines")
    MAKE(logspace, logspace, NULL, np_logspace_schema, "numbers whose logarithms have equal distances")
    MAKE(indices, indices, NULL, np_indices_schema, "the numbers of the places of a grid along each axis")
    {0},
};
