/* NumPy's reductions.  The classic operators give shape (1,) where all axes are reduced; here that is a 0-d array.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "op/expand.h"
#include "op/formula/reduce.h"

#define SUM_ATTRS(X) \
    X(DIMS, axis, "None", "", "axes to reduce; None: all of them") \
    X(DTYPE, dtype, "None", "", "type of the result; None: that of the elements, int64 for bool") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1") \
    X(FLOAT, initial, "None", "", "where the sum or product starts")
MX_ATTRS(np_sum, SUM_ATTRS)
#define MEAN_ATTRS(X) \
    X(DIMS, axis, "None", "", "axes to reduce; None: all of them") \
    X(DTYPE, dtype, "None", "", "type of the result; None: that of the elements, a float for integers") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1")
MX_ATTRS(np_mean, MEAN_ATTRS)
#define EXTREME_ATTRS(X) \
    X(DIMS, axis, "None", "", "axes to reduce; None: all of them") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1") \
    X(FLOAT, initial, "None", "", "one more element to choose from")
MX_ATTRS(np_extreme, EXTREME_ATTRS)
#define LOGIC_ATTRS(X) \
    X(DIMS, axis, "None", "", "axes to reduce; None: all of them") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1")
MX_ATTRS(np_logic, LOGIC_ATTRS)
#define VAR_ATTRS(X) \
    X(DIMS, axis, "None", "", "axes to reduce; None: all of them") \
    X(DTYPE, dtype, "None", "", "type of the result; None: that of the elements, a float for integers") \
    X(INT, ddof, "0", "", "the sum of squares is divided by the number of elements minus this") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1")
MX_ATTRS(np_var, VAR_ATTRS)
#define ARG_ATTRS(X) \
    X(INT, axis, "None", "", "the axis; None: of all elements in order") \
    X(BOOL, keepdims, "False", "", "keep the reduced axis with size 1")
MX_ATTRS(np_argreduce, ARG_ATTRS)

/* ---- axes -------------------------------------------------------------------------------------------------------- */

static const mx_dims *axes_of(const mx_expand *call)
{
    const mx_field *field = mx_schema_find(call->op->schema, "axis");
    return (const mx_dims *)((const char *)call->attrs + field->offset);
}
static bool keeps_axes(const mx_expand *call)
{
    const mx_field *field = mx_schema_find(call->op->schema, "keepdims");
    return *(const bool *)((const char *)call->attrs + field->offset);
}

/* The reduced axes as a mask, -1 with an error; -2: x has an unknown number of axes. */
static int mask_of(const mx_expand *call, const mx_array *x)
{
    if (x->ndim < 0)
        return -2;
    const mx_dims *axes = axes_of(call);
    if (axes->n == 0 ||
        (!x->ndim && axes->n == 1 && (axes->d[0] == 0 || axes->d[0] == -1))) /* numbers have that axis */
        return 0;
    for (int i = 0; i < axes->n; i++)
        if (axes->d[i] < -x->ndim || axes->d[i] >= x->ndim)
            return mx_op_fail(call->op, MX_ERR_SHAPE, "axis %lld is out of bounds for an array with %d axes",
                              (long long)axes->d[i], x->ndim),
                   -1;
    return x->ndim ? mx_fold_axes(call->op, axes, false, x->ndim) : 0;
}

/* How many elements each result has; -1 with an error if that is unknown. */
static double count_of(const mx_expand *call, const mx_array *x)
{
    const int mask = mask_of(call, x);
    double count = 1;
    for (int i = 0; mask >= 0 && i < x->ndim; i++) {
        if ((mask >> i & 1) && x->shape[i] < 0)
            return mx_op_fail(call->op, MX_ERR_SHAPE, "the size of axis %d must be known", i), -1;
        count *= mask >> i & 1 ? (double)x->shape[i] : 1;
    }
    if (mask == -2)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the shape must be known"), -1;
    return mask < 0 ? -1 : count;
}

/* op over the axes of the call, with the 0-d shape where nothing is left. */
static mx_array *fold(const mx_expand *call, mx_op *op, mx_array *x, bool keepdims)
{
    if (!x)
        return NULL;
    const int mask = mask_of(call, x);
    if (mask == -1)
        return NULL;
    if (mask == 0)
        return mx_g1("_copy", x);
    struct { mx_dims axis; bool keepdims, exclude; } attrs = {*axes_of(call), keepdims, false};
    mx_array *y = mx_g_call(op, &attrs, 1, &x);
    const mx_shape_t nothing = {.ndim = 0};
    const bool all = attrs.axis.n < 0 || (mask > 0 && mask == (1 << x->ndim) - 1);
    return y && all && !keepdims ? mx_g_reshape(y, &nothing) : y;
}

/* ---- where ------------------------------------------------------------------------------------------------------- */

static mx_array *mask_given(const mx_expand *call)
{
    return call->n_in > 1 && call->in[1] != MX_NONE ? call->in[1] : NULL;
}
/* x where the mask of the call is true, elsewhere a number that changes nothing. */
static mx_array *masked(const mx_expand *call, mx_array *x, double neutral)
{
    mx_array *mask = mask_given(call);
    if (!x || !mask)
        return x;
    mx_array *number =
        mx_dtype_is_float((mx_dtype)x->dtype) ? mx_number_float(neutral) : mx_number_int((int64_t)neutral);
    return mx_g_call(MX_OP("np.where"), NULL, 3, (mx_array *const[]){mask, x, number});
}
/* How many elements the mask chooses for each result, in the type of x. */
static mx_array *chosen(const mx_expand *call, mx_array *x, bool keepdims)
{
    mx_array *ones = masked(call, mx_g1("ones_like", x), 0);
    return fold(call, MX_OP("sum"), ones, keepdims);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static mx_array *typed(const mx_expand *call, mx_dtype dtype)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    return dtype == MX_DTYPE_NONE ? x : mx_expand_cast(x, dtype);
}
static mx_array *mean_of(const mx_expand *call, mx_array *x, bool keepdims)
{
    if (!mask_given(call))
        return fold(call, MX_OP("mean"), x, keepdims);
    return mx_g_div(fold(call, MX_OP("sum"), masked(call, x, 0), keepdims), chosen(call, x, keepdims));
}

static mx_code sum(const mx_expand *call)
{
    const mx_np_sum_attrs *attrs = call->attrs;
    mx_array *x = masked(call, typed(call, attrs->dtype), strstr(call->how->name[0], "sum") ? 0 : 1);
    mx_array *y = fold(call, mx_expansion_op(call->how, 0), x, attrs->keepdims);
    if (y && !isnan(attrs->initial))
        y = strstr(call->how->name[0], "prod") ? mx_g_scale(y, attrs->initial) : mx_g_shift(y, attrs->initial);
    return mx_expand_give(call, y);
}

static mx_code mean(const mx_expand *call)
{
    const mx_np_mean_attrs *attrs = call->attrs;
    return mx_expand_give(call, mean_of(call, typed(call, attrs->dtype), attrs->keepdims));
}

/* Whether an axis that is reduced has no elements. */
static bool has_empty_axis(const mx_array *x, int mask)
{
    for (int i = 0; mask > 0 && i < x->ndim; i++)
        if ((mask >> i & 1) && x->shape[i] == 0)
            return true;
    return false;
}
/* The number that loses against all others: what masked elements are. */
static double weakest(mx_dtype type, bool max)
{
    if (mx_dtype_is_float(type))
        return max ? -INFINITY : INFINITY;
    switch (type) { /* of the integer types */
    case MX_UINT8: return max ? 0 : 255;
    case MX_BOOL: return max ? 0 : 1;
    case MX_INT8: return max ? -128 : 127;
    case MX_INT32: return max ? INT32_MIN : INT32_MAX;
    default: return max ? -9007199254740992.0 : 9007199254740992.0; /* what a double counts exactly */
    }
}
static mx_code extreme(const mx_expand *call)
{
    const mx_np_extreme_attrs *attrs = call->attrs;
    const bool max = !strcmp(call->how->name[0], "max"), starts = !isnan(attrs->initial);
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    const int mask = x ? mask_of(call, x) : -1;
    if (mask == -1)
        return mx_error_code();
    if (mask_given(call) && !starts)
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "where needs initial: the mask may choose nothing");
    if (has_empty_axis(x, mask) && !starts)
        return mx_op_fail(call->op, MX_ERR_SHAPE,
                          "there are no elements to choose from: the shape has an axis of size 0");
    mx_array *y = NULL;
    if (has_empty_axis(x, mask)) /* the sum has the shape */
        y = mx_g_shift(fold(call, MX_OP("sum"), x, attrs->keepdims), attrs->initial);
    else
        y = fold(call, mx_expansion_op(call->how, 0), masked(call, x, weakest((mx_dtype)x->dtype, max)),
                 attrs->keepdims);
    const bool logical = x->dtype == MX_BOOL;
    struct { double scalar; bool is_int; } number = {logical ? attrs->initial != 0 : attrs->initial, logical};
    if (y && starts)
        y = mx_g_call(max ? MX_OP("_maximum_scalar") : MX_OP("_minimum_scalar"), &number, 1, &y);
    return mx_expand_give(call, logical ? mx_expand_cast(y, MX_BOOL) : y);
}

static mx_code ptp(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    mx_array *high = fold(call, MX_OP("max"), x, keeps_axes(call)),
             *low = fold(call, MX_OP("min"), x, keeps_axes(call));
    return mx_expand_give(call, mx_g_sub(high, low));
}

static mx_array *compared(const char *op, mx_array *x, double number)
{
    struct { double scalar; bool is_int; } attrs = {number, true};
    return mx_g_call(mx_op_find(op), &attrs, 1, &x);
}
/* any: some are not 0; all: none is 0.  Counting makes both right for no elements. */
static mx_code any_or_all(const mx_expand *call)
{
    const bool any = !strcmp(call->how->name[0], "any");
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    mx_array *counted = mx_expand_cast(compared(any ? "_not_equal_scalar" : "_equal_scalar", x, 0), MX_INT64);
    mx_array *number = fold(call, MX_OP("sum"), masked(call, counted, 0), keeps_axes(call));
    return mx_expand_give(call,
                          mx_expand_cast(compared(any ? "_not_equal_scalar" : "_equal_scalar", number, 0), MX_BOOL));
}
static mx_code count_nonzero(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    mx_array *counted = mx_expand_cast(compared("_not_equal_scalar", x, 0), MX_INT64);
    return mx_expand_give(call, fold(call, MX_OP("sum"), counted, keeps_axes(call)));
}

/* The mean of squared distances from the mean, times n / (n - ddof). */
static mx_array *variance(const mx_expand *call)
{
    const mx_np_var_attrs *attrs = call->attrs;
    mx_array *x = typed(call, attrs->dtype);
    mx_array *distance = x ? mx_g_sub(x, mean_of(call, x, true)) : NULL;
    mx_array *square = mx_g1("square", distance);
    if (mask_given(call)) {
        mx_array *n = mx_g_shift(chosen(call, x, attrs->keepdims), -(double)attrs->ddof);
        n = n ? mx_expand1("_maximum_scalar", n, "scalar=0") : NULL; /* too few: 0 / 0 */
        return mx_g_div(fold(call, MX_OP("sum"), masked(call, square, 0), attrs->keepdims), n);
    }
    mx_array *y = fold(call, MX_OP("mean"), square, attrs->keepdims);
    if (!y || !attrs->ddof)
        return y;
    const double n = count_of(call, x);
    const double left = n - (double)attrs->ddof;
    return n < 0 ? NULL : mx_g_scale(y, left > 0 ? n / left : INFINITY);
}
static mx_code var(const mx_expand *call) { return mx_expand_give(call, variance(call)); }
static mx_code std(const mx_expand *call) { return mx_expand_give(call, mx_g1("sqrt", variance(call))); }

static mx_code argreduce(const mx_expand *call)
{
    const mx_np_argreduce_attrs *attrs = call->attrs;
    const bool flat = attrs->axis == MX_NONE_INT;
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    if (!x)
        return mx_error_code();
    const bool in_range = !flat && attrs->axis >= -x->ndim && attrs->axis < x->ndim;
    if ((flat && x->storage && !x->size) ||
        (in_range && !x->shape[attrs->axis < 0 ? attrs->axis + x->ndim : attrs->axis]))
        return mx_op_fail(call->op, MX_ERR_SHAPE, "there are no elements to choose from");
    if (x->ndim == 0 || flat)
        x = mx_expand1("Reshape", x, "shape=(-1,)");
    /* positions are returned in the type of the elements: it must hold them */
    x = x && (x->dtype == MX_FLOAT16 || x->dtype == MX_BOOL || x->dtype == MX_UINT8 || x->dtype == MX_INT8)
            ? mx_expand_cast(x, x->dtype == MX_FLOAT16 ? MX_FLOAT32 : MX_INT32)
            : x;
    x = x && x->dtype == MX_FLOAT32 && x->size > 1 << 24 ? mx_expand_cast(x, MX_FLOAT64) : x;
    const bool keepdims = attrs->keepdims && !flat && call->in[0]->ndim != 0;
    struct { int64_t axis; bool keepdims; } along = {flat ? 0 : attrs->axis, keepdims};
    mx_array *y = mx_g_call(mx_expansion_op(call->how, 0), &along, 1, &x);
    mx_shape_t shape = {.ndim = 0};
    if (flat && attrs->keepdims && call->in[0]->ndim > 0)
        for (shape.ndim = 0; shape.ndim < call->in[0]->ndim;)
            shape.dim[shape.ndim++] = 1;
    const bool to_shape = y && (flat || (x->ndim == 1 && !keepdims));
    return mx_expand_give(call, mx_expand_cast(to_shape ? mx_g_reshape(y, &shape) : y, MX_INT64));
}

#define CUMSUM_ATTRS(X) \
    X(INT, axis, "None", "", "the axis; None: of all elements in order") \
    X(DTYPE, dtype, "None", "", "type of the result")
MX_ATTRS(np_running_sum, CUMSUM_ATTRS)
static mx_code running_sum(const mx_expand *call)
{
    const mx_np_running_sum_attrs *attrs = call->attrs;
    mx_array *x = typed(call, attrs->dtype);
    if (x && !x->ndim)
        x = mx_expand1("Reshape", x, "shape=(1,)");
    return mx_expand_same(call, MX_OP("_np_cumsum"), 1, &x, 1, call->out);
}

// clang-format off
#define REDUCTION(id, ...) REDUCTION_OF(id, "a where?", __VA_ARGS__)
#define OF_ALL(id, ...) REDUCTION_OF(id, "a", __VA_ARGS__)
#define REDUCTION_OF(id, inputs_, function, operator_, schema_, rules_, doc_) \
    {.name = "np." #id, .c_name = "np_" #id, .doc = doc_, .inputs = inputs_, .flags = MX_OP_EXPANDS, .schema = &schema_, \
     .user = &(mx_expansion){function, {operator_, NULL, NULL}, rules_, {NULL, NULL, NULL}}},

mx_op mx_family_np_reduce[] = {
    REDUCTION(sum, sum, "sum", np_sum_schema, MX_FROM_BOOL, "the sum of elements over axes")
    REDUCTION(prod, sum, "prod", np_sum_schema, MX_FROM_BOOL, "the product of elements over axes")
    REDUCTION(product, sum, "prod", np_sum_schema, MX_FROM_BOOL, "the product of elements over axes")
    REDUCTION(nansum, sum, "nansum", np_sum_schema, MX_FROM_BOOL, "the sum of elements over axes, NaN counts as 0")
    REDUCTION(nanprod, sum, "nanprod", np_sum_schema, MX_FROM_BOOL, "the product of elements over axes, NaN counts as 1")
    REDUCTION(mean, mean, NULL, np_mean_schema, MX_TO_FLOAT, "the mean of elements over axes")
    REDUCTION(max, extreme, "max", np_extreme_schema, 0, "the largest element over axes")
    REDUCTION(amax, extreme, "max", np_extreme_schema, 0, "the largest element over axes")
    REDUCTION(min, extreme, "min", np_extreme_schema, 0, "the smallest element over axes")
    REDUCTION(amin, extreme, "min", np_extreme_schema, 0, "the smallest element over axes")
    OF_ALL(ptp, ptp, NULL, np_logic_schema, MX_NOT_BOOL, "the largest minus the smallest element over axes")
    REDUCTION(any, any_or_all, "any", np_logic_schema, 0, "whether some element is not 0")
    REDUCTION(sometrue, any_or_all, "any", np_logic_schema, 0, "whether some element is not 0")
    REDUCTION(all, any_or_all, "all", np_logic_schema, 0, "whether no element is 0")
    REDUCTION(alltrue, any_or_all, "all", np_logic_schema, 0, "whether no element is 0")
    OF_ALL(count_nonzero, count_nonzero, NULL, np_logic_schema, 0, "how many elements are not 0")
    REDUCTION(var, var, NULL, np_var_schema, MX_TO_FLOAT, "the variance of elements over axes")
    REDUCTION(std, std, NULL, np_var_schema, MX_TO_FLOAT, "the standard deviation of elements over axes")
    OF_ALL(argmax, argreduce, "argmax", np_argreduce_schema, 0, "the position of the largest element")
    OF_ALL(argmin, argreduce, "argmin", np_argreduce_schema, 0, "the position of the smallest element")
    OF_ALL(cumsum, running_sum, NULL, np_running_sum_schema, MX_FROM_BOOL, "the sums of the elements up to each one")
    {0},
};
