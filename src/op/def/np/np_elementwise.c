/* NumPy's functions of single elements: entries of a table that name the operator and the rules of types.
 *
 *     np.exp(int32)       MX_TO_FLOAT: computed and returned as the default float type
 *     np.add(int32, 1.5)  types are promoted (gluon/np.h); a number is an attribute of the scalar operator
 *     np.less(a, b)       MX_TO_BOOL
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "op/def/np/elementwise.h"

/* ---- of one argument --------------------------------------------------------------------------------------------- */

static mx_code unary(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    if (!x)
        return mx_error_code();
    const bool as_is = (call->how->rules & MX_INT_AS_IS) && !mx_dtype_is_float((mx_dtype)x->dtype);
    return finish(call, mx_g_call(as_is ? MX_OP("_copy") : mx_expansion_op(call->how, 0), NULL, 1, &x));
}

static mx_code is_nan(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    return finish(call, mx_g2("broadcast_not_equal", x, x));
}
/* |x| compared with infinity; NaN compares false. */
static mx_code against_infinity(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    return finish(call, with_number(mx_expansion_op(call->how, 0), mx_g1("abs", x), INFINITY));
}
static mx_code is_signed_infinity(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    const double sign = strstr(call->op->name, "neg") ? -1 : 1;
    return finish(call, with_number(MX_OP("_equal_scalar"), x, sign * INFINITY));
}
static mx_code is_zero(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    return finish(call, with_number(MX_OP("_equal_scalar"), x, 0));
}
/* ~x is -x - 1; of bool its negation. */
static mx_code invert(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    if (!x)
        return mx_error_code();
    if (x->dtype == MX_BOOL)
        return mx_expand_give(call, mx_g1("logical_not", x));
    return mx_expand_give(call, with_number(MX_OP("_rminus_scalar"), x, -1));
}

#define AROUND_ATTRS(X) X(INT, decimals, "0", "", "digits after the point; negative: before it")
MX_ATTRS(np_around, AROUND_ATTRS)
static mx_code around(const mx_expand *call)
{
    const int64_t decimals = ((const mx_np_around_attrs *)call->attrs)->decimals;
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    if (!x || !decimals)
        return mx_expand_give(call, x && mx_dtype_is_float((mx_dtype)x->dtype) ? mx_g1("rint", x) : mx_g1("_copy", x));
    const mx_dtype type = (mx_dtype)x->dtype;
    mx_array *wide = mx_expand_cast(x, mx_dtype_is_float(type) ? type : MX_FLOAT64);
    mx_array *scaled = decimals > 0 ? mx_g_scale(wide, pow(10, (double)decimals))
                                    : with_number(MX_OP("_div_scalar"), wide, pow(10, -(double)decimals));
    mx_array *rounded = mx_g1("rint", scaled);
    mx_array *back = decimals > 0 ? with_number(MX_OP("_div_scalar"), rounded, pow(10, (double)decimals))
                                  : mx_g_scale(rounded, pow(10, -(double)decimals));
    return mx_expand_give(call, mx_expand_cast(back, type));
}

#define NAN_ATTRS(X) \
    X(BOOL, copy, "True", "", "ignored: the result is a new array") \
    X(FLOAT, nan, "0.0", "", "in place of NaN") \
    X(FLOAT, posinf, "None", "", "in place of infinity; None: the largest number of the type") \
    X(FLOAT, neginf, "None", "", "in place of minus infinity; None: the smallest number of the type")
MX_ATTRS(np_nan_to_num, NAN_ATTRS)
static double largest(mx_dtype type)
{
    return type == MX_FLOAT64 ? 1.7976931348623157e308 : type == MX_FLOAT16 ? 65504 : 3.4028234663852886e38;
}
static mx_array *filled_like(mx_array *x, double value)
{
    return with_number(MX_OP("_plus_scalar"), mx_g1("zeros_like", x), value);
}
static mx_array *replace(mx_array *condition, double value, mx_array *x)
{
    return mx_g3("where", condition, filled_like(x, value), x);
}
static mx_code nan_to_num(const mx_expand *call)
{
    const mx_np_nan_to_num_attrs *attrs = call->attrs;
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    if (!x)
        return mx_error_code();
    if (!mx_dtype_is_float((mx_dtype)x->dtype))
        return mx_expand_give(call, mx_g1("_copy", x));
    const double high = isnan(attrs->posinf) ? largest((mx_dtype)x->dtype) : attrs->posinf;
    const double low = isnan(attrs->neginf) ? -largest((mx_dtype)x->dtype) : attrs->neginf;
    mx_array *y = replace(mx_g2("broadcast_not_equal", x, x), attrs->nan, x);
    y = replace(with_number(MX_OP("_equal_scalar"), x, INFINITY), high, y);
    return mx_expand_give(call, replace(with_number(MX_OP("_equal_scalar"), x, -INFINITY), low, y));
}

/* ---- of two arguments -------------------------------------------------------------------------------------------- */

/* Numbers that the scalar operators represent exactly. */
static bool fits_scalar(const mx_array *number)
{
    if (number->dtype != MX_INT64)
        return true;
    const int64_t value = *(const int64_t *)mx_data(number);
    return value >= -(1LL << 53) && value <= 1LL << 53;
}

static mx_array *of_number_and_array(const mx_expand *call, int which_array, mx_array *const *promoted)
{
    const mx_array *number = call->in[!which_array];
    mx_op *op = mx_expansion_op(call->how, which_array ? 2 : 1);
    const scalar_attrs attrs = {mx_item(number), number->dtype != MX_FLOAT64};
    return op ? mx_g_call(op, &attrs, 1, &promoted[which_array]) : NULL;
}

static mx_array *binary_value(const mx_expand *call)
{
    mx_array *promoted[2], *const *in = call->in;
    const bool first = mx_is_number(in[0]), second = mx_is_number(in[1]);
    const bool equal_types = !first && !second && in[0]->dtype == in[1]->dtype &&
                             (!(call->how->rules & ~MX_TO_BOOL) || mx_dtype_is_float((mx_dtype)in[0]->dtype));
    if (equal_types && !(call->how->rules & MX_NOT_FLOAT))
        return mx_g_call(mx_expansion_op(call->how, 0), NULL, 2, in);
    if (mx_expand_promote(call, promoted))
        return NULL;
    if (first != second && call->how->name[1] && fits_scalar(in[!first]))
        return of_number_and_array(call, first, promoted);
    return mx_g_call(mx_expansion_op(call->how, 0), NULL, 2, promoted);
}
static mx_code binary(const mx_expand *call) { return finish(call, binary_value(call)); }
static mx_code binary_of_bool(const mx_expand *call)
{
    return mx_expand_give(call, bool_again(call, binary_value(call)));
}
/* Integers have no negative powers. */
static mx_code power(const mx_expand *call)
{
    const mx_dtype type = mx_result_type((mx_arrays){call->in, call->n_in});
    mx_array *exponent = call->in[1];
    if (!mx_dtype_is_float(type) && type != MX_DTYPE_NONE && mx_values_known(exponent) && exponent->size &&
        call->in[0]->size && mx_range_of(exponent).low < 0)
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "integers have no negative powers; convert them to floats first");
    return binary(call);
}

/* floor(a / b); of integers exactly: (a - a mod b) / b. */
static mx_code floor_divide(const mx_expand *call)
{
    mx_array *p[2];
    if (mx_expand_promote(call, p))
        return mx_error_code();
    if (mx_dtype_is_float((mx_dtype)p[0]->dtype) || p[0]->dtype == MX_DTYPE_NONE)
        return mx_expand_give(call, mx_g1("floor", mx_g_div(p[0], p[1])));
    return mx_expand_give(call, mx_g_div(mx_g_sub(p[0], mx_g2("broadcast_mod", p[0], p[1])), p[1]));
}
/* Floats divided by 0 have no remainder: adding 0 / b gives NaN there and nothing elsewhere. */
static mx_array *nan_at_zero(mx_array *y, mx_array *b)
{
    return y && b && mx_dtype_is_float(b->dtype) ? mx_g_add(y, mx_g_rdiv(0, b)) : y;
}
static mx_code mod_of(const mx_expand *call)
{
    mx_array *p[2];
    if (mx_is_number(call->in[1]) && !mx_is_number(call->in[0]) && mx_item(call->in[1]) != 0)
        return binary(call);
    if (mx_expand_promote(call, p))
        return mx_error_code();
    return mx_expand_give(call, nan_at_zero(mx_g2("broadcast_mod", p[0], p[1]), p[1]));
}
/* The remainder with the sign of the dividend. */
static mx_code fmod_of(const mx_expand *call)
{
    mx_array *p[2];
    if (mx_expand_promote(call, p))
        return mx_error_code();
    mx_array *size = mx_g2("broadcast_mod", mx_g1("abs", p[0]), mx_g1("abs", p[1]));
    return mx_expand_give(call, nan_at_zero(mx_g_mul(mx_g1("sign", p[0]), size), p[1]));
}
static mx_code copysign_of(const mx_expand *call)
{
    mx_array *p[2];
    if (mx_expand_promote(call, p))
        return mx_error_code();
    /* 1 / -0 is negative, too */
    mx_array *below = with_number(MX_OP("_lesser_scalar"), mx_g_add(p[1], mx_g_rdiv(1, p[1])), 0);
    mx_array *sign = mx_g_rsub(1, mx_g_scale(below, 2));
    return mx_expand_give(call, mx_g_mul(mx_g1("abs", p[0]), sign));
}
/* x1 * 2 ** x2 */
static mx_code ldexp_of(const mx_expand *call)
{
    mx_array *p[2];
    if (mx_expand_promote(call, p))
        return mx_error_code();
    return mx_expand_give(call, mx_g_mul(p[0], with_number(MX_OP("_rpower_scalar"), p[1], 2)));
}
/* The larger plus log(1 + exp(-|difference|)). */
static mx_code logaddexp(const mx_expand *call)
{
    mx_array *p[2];
    if (mx_expand_promote(call, p))
        return mx_error_code();
    mx_array *rest = mx_g1("log1p", mx_g1("exp", mx_g_neg(mx_g1("abs", mx_g_sub(p[0], p[1])))));
    return mx_expand_give(call, mx_g_add(mx_g2("broadcast_maximum", p[0], p[1]), rest));
}
/* Of bool: logic. */
static mx_code bitwise(const mx_expand *call)
{
    mx_array *p[2];
    if (mx_expand_promote(call, p))
        return mx_error_code();
    return mx_expand_give(call, mx_g_call(mx_expansion_op(call->how, p[0]->dtype == MX_BOOL ? 0 : 1), NULL, 2, p));
}

/* The quotient whose size is at most 1 keeps the gradient finite: the angle to the nearer axis. */
static mx_array *angle(mx_array *y, mx_array *x)
{
    const double pi = 3.14159265358979323846;
    mx_array *flat = mx_g2("broadcast_greater_equal", mx_g1("abs", x), mx_g1("abs", y)); /* nearer to the x axis */
    mx_array *below = mx_g3("where", flat, x, y);
    mx_array *a = mx_g1(
        "arctan", mx_g_div(mx_g3("where", flat, y, x), mx_g_add(below, with_number(MX_OP("_equal_scalar"), below, 0))));
    mx_array *side = mx_g_shift(mx_g_scale(with_number(MX_OP("_lesser_scalar"), y, 0), -2), 1); /* -1 below, else 1 */
    mx_array *left = with_number(MX_OP("_lesser_scalar"), x, 0);
    mx_array *near_x = mx_g_add(a, mx_g_scale(mx_g_mul(side, left), pi)),
             *near_y = mx_g_sub(mx_g_scale(side, pi / 2), a);
    return mx_g3("where", flat, near_x, near_y);
}
static mx_code arctan2(const mx_expand *call)
{
    mx_array *p[2];
    if (mx_expand_promote(call, p))
        return mx_error_code();
    mx_shape_t a = mx_array_shape(p[0]), b = mx_array_shape(p[1]), shape;
    if (a.ndim >= 0 && b.ndim >= 0 && mx_shape_broadcast(&a, &b, &shape)) /* where does not broadcast */
        p[0] = mx_g_broadcast_to(p[0], &shape), p[1] = mx_g_broadcast_to(p[1], &shape);
    return mx_expand_give(call, angle(p[0], p[1]));
}

/* ---- of three ---------------------------------------------------------------------------------------------------- */

static mx_code clip(const mx_expand *call)
{
    mx_array *y = call->in[0], *low = call->in[1], *high = call->in[2];
    mx_array *p[3];
    if (mx_expand_promote(call, p))
        return mx_error_code();
    y = p[0];
    if (low != MX_NONE)
        y = mx_is_number(low) ? with_number(MX_OP("_maximum_scalar"), y, mx_item(low))
                              : mx_g2("broadcast_maximum", y, p[1]);
    if (high != MX_NONE)
        y = mx_is_number(high) ? with_number(MX_OP("_minimum_scalar"), y, mx_item(high))
                               : mx_g2("broadcast_minimum", y, p[2]);
    return mx_expand_give(call, y == call->in[0] ? mx_g1("_copy", y) : y);
}

/* ---- the tables -------------------------------------------------------------------------------------------------- */

// clang-format off
#define OP1_WITH(id, function, schema_, doc_) \
    {.name = "np." #id, .c_name = "np_" #id, .doc = doc_, .inputs = "x", .flags = MX_OP_EXPANDS, .schema = &schema_, \
     .user = &(mx_expansion){function, {NULL, NULL, NULL}, MX_FROM_BOOL, {NULL, NULL, NULL}}},
#define ARITHMETIC(id, array, scalar, reversed, doc) OP2(id, binary_of_bool, "broadcast_" array, scalar, reversed, MX_FROM_BOOL, doc)
#define COMPARISON(id, array, reversed, doc) \
    OP2(id, binary, "broadcast_" array, "_" array "_scalar", "_" reversed "_scalar", MX_TO_BOOL, doc)

mx_op mx_family_np_elementwise[] = {
    OP1(abs, unary, "abs", 0, "absolute value")
    OP1(absolute, unary, "abs", 0, "absolute value")
    OP1(fabs, unary, "abs", MX_TO_FLOAT, "absolute value as a float")
    OP1(exp, unary, "exp", MX_TO_FLOAT, "e to the power x")
    OP1(expm1, unary, "expm1", MX_TO_FLOAT, "exp(x) - 1, accurate near 0")
    OP1(log, unary, "log", MX_TO_FLOAT, "natural logarithm")
    OP1(log2, unary, "log2", MX_TO_FLOAT, "logarithm to base 2")
    OP1(log10, unary, "log10", MX_TO_FLOAT, "logarithm to base 10")
    OP1(log1p, unary, "log1p", MX_TO_FLOAT, "log(1 + x), accurate near 0")
    OP1(sqrt, unary, "sqrt", MX_TO_FLOAT, "square root")
    OP1(cbrt, unary, "cbrt", MX_TO_FLOAT, "cube root")
    OP1(reciprocal, unary, "reciprocal", MX_FROM_BOOL, "1 / x")
    OP1(square, unary, "square", MX_FROM_BOOL, "x * x")
    OP1(sin, unary, "sin", MX_TO_FLOAT, "sine")
    OP1(cos, unary, "cos", MX_TO_FLOAT, "cosine")
    OP1(tan, unary, "tan", MX_TO_FLOAT, "tangent")
    OP1(arcsin, unary, "arcsin", MX_TO_FLOAT, "inverse of sin")
    OP1(arccos, unary, "arccos", MX_TO_FLOAT, "inverse of cos")
    OP1(arctan, unary, "arctan", MX_TO_FLOAT, "inverse of tan")
    OP1(sinh, unary, "sinh", MX_TO_FLOAT, "hyperbolic sine")
    OP1(cosh, unary, "cosh", MX_TO_FLOAT, "hyperbolic cosine")
    OP1(tanh, unary, "tanh", MX_TO_FLOAT, "hyperbolic tangent")
    OP1(arcsinh, unary, "arcsinh", MX_TO_FLOAT, "inverse of sinh")
    OP1(arccosh, unary, "arccosh", MX_TO_FLOAT, "inverse of cosh")
    OP1(arctanh, unary, "arctanh", MX_TO_FLOAT, "inverse of tanh")
    OP1(degrees, unary, "degrees", MX_TO_FLOAT, "radians to degrees")
    OP1(rad2deg, unary, "degrees", MX_TO_FLOAT, "radians to degrees")
    OP1(radians, unary, "radians", MX_TO_FLOAT, "degrees to radians")
    OP1(deg2rad, unary, "radians", MX_TO_FLOAT, "degrees to radians")
    OP1(negative, unary, "negative", MX_NOT_BOOL, "-x")
    OP1(positive, unary, "_copy", MX_NOT_BOOL, "a copy of x")
    OP1(sign, unary, "sign", MX_NOT_BOOL, "-1, 0 or 1")
    OP1(floor, unary, "floor", MX_INT_AS_IS, "the largest integer that is not greater")
    OP1(ceil, unary, "ceil", MX_INT_AS_IS, "the smallest integer that is not smaller")
    OP1(trunc, unary, "trunc", MX_INT_AS_IS, "the integer part")
    OP1(fix, unary, "fix", MX_INT_AS_IS, "rounded towards 0")
    OP1(rint, unary, "rint", MX_TO_FLOAT, "rounded to the nearest integer, ties to even")
    OP1(isnan, is_nan, NULL, MX_TO_FLOAT | MX_TO_BOOL, "whether an element is NaN")
    OP1(isinf, against_infinity, "_equal_scalar", MX_TO_FLOAT | MX_TO_BOOL, "whether an element is infinite")
    OP1(isfinite, against_infinity, "_lesser_scalar", MX_TO_FLOAT | MX_TO_BOOL, "whether an element is neither infinite nor NaN")
    OP1(isposinf, is_signed_infinity, NULL, MX_TO_FLOAT | MX_TO_BOOL, "whether an element is infinity")
    OP1(isneginf, is_signed_infinity, NULL, MX_TO_FLOAT | MX_TO_BOOL, "whether an element is minus infinity")
    OP1(logical_not, is_zero, NULL, MX_TO_BOOL, "whether an element is 0")
    OP1(invert, invert, NULL, MX_NOT_FLOAT, "all bits inverted; of bool the negation")
    OP1(bitwise_not, invert, NULL, MX_NOT_FLOAT, "all bits inverted; of bool the negation")
    OP1_WITH(around, around, np_around_schema, "rounded to a number of decimals, ties to even")
    OP1_WITH(round, around, np_around_schema, "rounded to a number of decimals, ties to even")
    OP1_WITH(round_, around, np_around_schema, "rounded to a number of decimals, ties to even")
    {.name = "np.nan_to_num", .c_name = "np_nan_to_num", .doc = "numbers in place of NaN and infinities", .inputs = "x", .flags = MX_OP_EXPANDS,
     .schema = &np_nan_to_num_schema, .user = &(mx_expansion){nan_to_num, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},

    ARITHMETIC(add, "add", "_plus_scalar", "_plus_scalar", "x1 + x2")
    OP2(subtract, binary, "broadcast_sub", "_minus_scalar", "_rminus_scalar", MX_NOT_BOOL, "x1 - x2")
    ARITHMETIC(multiply, "mul", "_mul_scalar", "_mul_scalar", "x1 * x2")
    OP2(mod, mod_of, "broadcast_mod", "_mod_scalar", NULL, MX_FROM_BOOL, "the remainder, with the sign of x2")
    OP2(remainder, mod_of, "broadcast_mod", "_mod_scalar", NULL, MX_FROM_BOOL, "the remainder, with the sign of x2")
    OP2(power, power, "broadcast_power", "_power_scalar", "_rpower_scalar", MX_FROM_BOOL, "x1 to the power x2")
    ARITHMETIC(maximum, "maximum", "_maximum_scalar", "_maximum_scalar", "the larger of two elements")
    ARITHMETIC(minimum, "minimum", "_minimum_scalar", "_minimum_scalar", "the smaller of two elements")
    OP2(divide, binary, "broadcast_div", "_div_scalar", "_rdiv_scalar", MX_TO_FLOAT, "x1 / x2, always a float")
    OP2(true_divide, binary, "broadcast_div", "_div_scalar", "_rdiv_scalar", MX_TO_FLOAT, "x1 / x2, always a float")
    OP2(hypot, binary, "broadcast_hypot", "_hypot_scalar", "_hypot_scalar", MX_TO_FLOAT, "the square root of x1**2 + x2**2")
    OP2(arctan2, arctan2, NULL, NULL, NULL, MX_TO_FLOAT, "the angle of the point (x2, x1), between -pi and pi")
    OP2(floor_divide, floor_divide, NULL, NULL, NULL, MX_FROM_BOOL, "x1 / x2, rounded down")
    OP2(fmod, fmod_of, NULL, NULL, NULL, MX_FROM_BOOL, "the remainder, with the sign of x1")
    OP2(copysign, copysign_of, NULL, NULL, NULL, MX_TO_FLOAT, "|x1| with the sign of x2")
    OP2(ldexp, ldexp_of, NULL, NULL, NULL, MX_TO_FLOAT, "x1 * 2**x2")
    OP2(logaddexp, logaddexp, NULL, NULL, NULL, MX_TO_FLOAT, "log(exp(x1) + exp(x2))")
    OP2(bitwise_and, bitwise, "broadcast_logical_and", "broadcast_bitwise_and", NULL, MX_NOT_FLOAT, "the bits that both have; of bool: x1 and x2")
    OP2(bitwise_or, bitwise, "broadcast_logical_or", "broadcast_bitwise_or", NULL, MX_NOT_FLOAT, "the bits that one has; of bool: x1 or x2")
    OP2(bitwise_xor, bitwise, "broadcast_logical_xor", "broadcast_bitwise_xor", NULL, MX_NOT_FLOAT, "the bits that differ; of bool: x1 != x2")
    COMPARISON(equal, "equal", "equal", "x1 == x2")
    COMPARISON(not_equal, "not_equal", "not_equal", "x1 != x2")
    COMPARISON(less, "lesser", "greater", "x1 < x2")
    COMPARISON(less_equal, "lesser_equal", "greater_equal", "x1 <= x2")
    COMPARISON(greater, "greater", "lesser", "x1 > x2")
    COMPARISON(greater_equal, "greater_equal", "lesser_equal", "x1 >= x2")
    COMPARISON(logical_and, "logical_and", "logical_and", "whether both elements are not 0")
    COMPARISON(logical_or, "logical_or", "logical_or", "whether one of the elements is not 0")
    COMPARISON(logical_xor, "logical_xor", "logical_xor", "whether exactly one of the elements is not 0")
    {.name = "np.clip", .c_name = "np_clip", .doc = "elements limited to the range from a_min to a_max", .inputs = "a a_min? a_max?",
     .flags = MX_OP_EXPANDS, .user = &(mx_expansion){clip, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
    {0},
};
