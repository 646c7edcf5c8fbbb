/* NumPy's reductions that leave out NaN: it is replaced by what changes nothing.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "op/def/np/axes.h"
#include "op/def/np/values.h"

#define AXES_ATTRS(X) \
    X(DIMS, axis, "None", "", "axes to reduce; None: all of them") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1") \
    X(FLOAT, initial, "None", "", "one more element to choose from")
MX_ATTRS(np_nan, AXES_ATTRS)
#define NANMEAN_ATTRS(X) \
    X(DIMS, axis, "None", "", "axes to reduce; None: all of them") \
    X(DTYPE, dtype, "None", "", "type of the result; None: that of the elements, a float for integers") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1")
MX_ATTRS(np_nanmean, NANMEAN_ATTRS)
#define NANVAR_ATTRS(X) \
    X(DIMS, axis, "None", "", "axes to reduce; None: all of them") \
    X(DTYPE, dtype, "None", "", "type of the result; None: that of the elements, a float for integers") \
    X(INT, ddof, "0", "", "the sum of squares is divided by the number of elements minus this") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1")
MX_ATTRS(np_nanvar, NANVAR_ATTRS)
#define NANARG_ATTRS(X) \
    X(INT, axis, "None", "", "the axis; None: of all elements in order") \
    X(BOOL, keepdims, "False", "", "keep the reduced axis with size 1")
MX_ATTRS(np_nanarg, NANARG_ATTRS)
#define RUNNING_ATTRS(X) \
    X(INT, axis, "None", "", "the axis; None: of all elements in order") \
    X(DTYPE, dtype, "None", "", "type of the result")
MX_ATTRS(np_running, RUNNING_ATTRS)

static mx_array *is_nan(mx_array *x) { return mx_g1("np.isnan", x); }
static mx_array *replaced(mx_array *x, double number)
{
    if (!x || !mx_dtype_is_float((mx_dtype)x->dtype))
        return x;
    return mx_choose(is_nan(x), mx_number_float(number), x);
}
static mx_array *reduced(const char *op, mx_array *x, const mx_dims *axis, bool keepdims)
{
    char text[MX_SHAPE_TEXT];
    return x ? mx_expand_text(mx_op_find(op), 1, &x, "axis=%s, keepdims=%s", mx_dims_text(axis, text),
                              keepdims ? "True" : "False")
             : NULL;
}

/* NaN only where all elements are NaN. */
static mx_code extreme(const mx_expand *call)
{
    const mx_np_nan_attrs *attrs = call->attrs;
    const bool max = !strcmp(call->how->name[0], "np.max");
    mx_array *x = shaped(call, 0), *number = replaced(x, max ? -INFINITY : INFINITY);
    if (!number)
        return mx_error_code();
    if (!mx_dtype_is_float((mx_dtype)x->dtype) || !isnan(attrs->initial) || call->in[1] != MX_NONE)
        return mx_expand_same(call, mx_expansion_op(call->how, 0), 2, (mx_array *const[]){number, call->in[1]}, 1,
                              call->out);
    mx_array *y = reduced(call->how->name[0], number, &attrs->axis, attrs->keepdims);
    mx_array *none = y ? reduced("np.all", is_nan(x), &attrs->axis, attrs->keepdims) : NULL;
    return mx_expand_give(call, mx_choose(none, mx_number_float(MX_NONE_FLOAT), y));
}

/* How many elements are numbers, in the type of x. */
static mx_array *count_of(mx_array *x, const mx_dims *axis, bool keepdims)
{
    mx_array *number = mx_expand_cast(mx_g1("np.logical_not", is_nan(x)), (mx_dtype)x->dtype);
    return reduced("np.sum", number, axis, keepdims);
}
static mx_array *mean_of(mx_array *x, const mx_dims *axis, bool keepdims)
{
    return x ? mx_g_div(reduced("np.sum", replaced(x, 0), axis, keepdims), count_of(x, axis, keepdims)) : NULL;
}
static mx_array *typed(const mx_expand *call, mx_dtype dtype)
{
    mx_array *x = shaped(call, 0);
    return x ? mx_expand_cast(x, dtype == MX_DTYPE_NONE ? mx_float_of((mx_dtype)x->dtype) : dtype) : NULL;
}
static mx_code mean(const mx_expand *call)
{
    const mx_np_nanmean_attrs *attrs = call->attrs;
    return mx_expand_give(call, mean_of(typed(call, attrs->dtype), &attrs->axis, attrs->keepdims));
}
static mx_code variance(const mx_expand *call)
{
    const mx_np_nanvar_attrs *attrs = call->attrs;
    mx_array *x = typed(call, attrs->dtype), *distance = x ? mx_g_sub(x, mean_of(x, &attrs->axis, true)) : NULL;
    mx_array *sum = reduced("np.sum", replaced(mx_g1("square", distance), 0), &attrs->axis, attrs->keepdims);
    mx_array *n = sum ? mx_g_shift(count_of(x, &attrs->axis, attrs->keepdims), -(double)attrs->ddof) : NULL;
    mx_array *y = n ? mx_g_div(sum, mx_expand1("_maximum_scalar", n, "scalar=0")) : NULL; /* too few: 0 / 0 */
    return mx_expand_give(call, strcmp(call->how->name[0], "sqrt") ? y : mx_g1("sqrt", y));
}

static mx_code arg(const mx_expand *call)
{
    const int64_t axis = ((const mx_np_nanarg_attrs *)call->attrs)->axis;
    const bool max = !strcmp(call->how->name[0], "np.argmax");
    mx_array *x = shaped(call, 0), *number = replaced(x, max ? -INFINITY : INFINITY);
    if (!number)
        return mx_error_code();
    mx_array *none = axis == MX_NONE_INT ? mx_g1("np.all", is_nan(x))
                                         : mx_expand1("np.all", is_nan(x), "axis=%lld", (long long)axis);
    if (!none || (mx_values_known(none) && mx_range_of(none).high > 0))
        return none ? mx_op_fail(call->op, MX_ERR_ARGUMENT, "all elements are NaN: there is none to choose")
                    : mx_error_code();
    return mx_expand_same(call, mx_expansion_op(call->how, 0), 1, &number, 1, call->out);
}

/* ---- sums and products of all elements before ---------------------------------------------------------------------- */

/* Each step multiplies by what is twice as far away: after step k an element is the product of the last 2^k. */
static mx_array *running_product(mx_array *x, int axis)
{
    for (int64_t step = 1; x && step < x->shape[axis]; step *= 2) {
        mx_array *ones = mx_g1("ones_like", mx_part(x, axis, 0, step));
        x = mx_g_mul(x, mx_joined2(ones, mx_part(x, axis, 0, x->shape[axis] - step), axis));
    }
    return x;
}
static mx_code running(const mx_expand *call)
{
    const mx_np_running_attrs *attrs = call->attrs;
    const bool product = strstr(call->op->name, "prod"), skips = strstr(call->op->name, "nan");
    mx_array *x = shaped(call, 0);
    x = x && attrs->dtype != MX_DTYPE_NONE ? mx_expand_cast(x, attrs->dtype) : x;
    x = x && skips ? replaced(x, product ? 1 : 0) : x;
    if (x && (attrs->axis == MX_NONE_INT || !x->ndim))
        x = mx_flattened(x);
    const int axis = x ? axis_in(call, attrs->axis == MX_NONE_INT ? 0 : attrs->axis, x->ndim) : -1;
    if (axis < 0)
        return mx_error_code();
    if (!product)
        return mx_expand_give(call, mx_expand1("np.cumsum", x, "axis=%d", axis));
    if (x->shape[axis] < 0)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "the size of axis %d must be known", axis);
    mx_array *y = running_product(x, axis);
    return mx_expand_give(call, y == call->in[0] ? mx_g1("_copy", y) : y);
}

// clang-format off
#define NAN_OF(id, ...) NAN_WITH(id, "a", __VA_ARGS__)
#define NAN_WITH(id, inputs_, function, operator_, schema_, rules_, doc_) \
    {.name = "np." #id, .c_name = "np_" #id, .doc = doc_, .inputs = inputs_, .flags = MX_OP_EXPANDS, .schema = &schema_, \
     .user = &(mx_expansion){function, {operator_, NULL, NULL}, rules_, {NULL, NULL, NULL}}},
mx_op mx_family_np_nan[] = {
    NAN_WITH(nanmax, "a where?", extreme, "np.max", np_nan_schema, 0, "the largest element over axes, without NaN")
    NAN_WITH(nanmin, "a where?", extreme, "np.min", np_nan_schema, 0, "the smallest element over axes, without NaN")
    NAN_OF(nanmean, mean, NULL, np_nanmean_schema, 0, "the mean of elements over axes, without NaN")
    NAN_OF(nanvar, variance, "square", np_nanvar_schema, 0, "the variance of elements over axes, without NaN")
    NAN_OF(nanstd, variance, "sqrt", np_nanvar_schema, 0, "the standard deviation of elements over axes, without NaN")
    NAN_OF(nanargmax, arg, "np.argmax", np_nanarg_schema, 0, "the position of the largest element, without NaN")
    NAN_OF(nanargmin, arg, "np.argmin", np_nanarg_schema, 0, "the position of the smallest element, without NaN")
    NAN_OF(nancumsum, running, NULL, np_running_schema, MX_FROM_BOOL, "the sums of the elements up to each one, NaN counts as 0")
    NAN_OF(nancumprod, running, NULL, np_running_schema, MX_FROM_BOOL, "the products of the elements up to each one, NaN counts as 1")
    NAN_OF(cumprod, running, NULL, np_running_schema, MX_FROM_BOOL, "the products of the elements up to each one")
    {0},
};
