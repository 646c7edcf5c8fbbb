/* NumPy's functions of single elements that are more than one operator: parts of numbers, common divisors, closeness.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "op/def/np/elementwise.h"

static mx_array *unless_nan(mx_array *x, mx_array *other, mx_array *y)
{
    return mx_choose(mx_g1("np.isnan", x), other, y);
}
/* The larger or smaller element; NaN only where both are. */
static mx_code without_nan(const mx_expand *call)
{
    mx_array *p[2];
    if (mx_expand_promote(call, p))
        return mx_error_code();
    mx_array *y = mx_g_call(mx_expansion_op(call->how, 0), NULL, 2, p);
    if (!y || !mx_dtype_is_float((mx_dtype)y->dtype))
        return mx_expand_give(call, bool_again(call, y));
    return mx_expand_give(call, unless_nan(p[0], p[1], unless_nan(p[1], p[0], y)));
}
static mx_code float_power(const mx_expand *call)
{
    mx_array *p[2];
    if (mx_expand_promote(call, p))
        return mx_error_code();
    return mx_expand_give(call,
                          mx_g2("broadcast_power", mx_expand_cast(p[0], MX_FLOAT64), mx_expand_cast(p[1], MX_FLOAT64)));
}
/* 0 below 0, 1 above it, x2 at 0 */
static mx_code heaviside(const mx_expand *call)
{
    mx_array *p[2];
    if (mx_expand_promote(call, p))
        return mx_error_code();
    mx_array *above = mx_expand_cast(with_number(MX_OP("_greater_scalar"), p[0], 0), (mx_dtype)p[0]->dtype);
    mx_array *y = mx_choose(with_number(MX_OP("_equal_scalar"), p[0], 0), p[1], above);
    return mx_expand_give(call, unless_nan(p[0], p[0], y));
}
/* Whether x is below 0 or -0, whose inverse is. */
static mx_code signbit_of(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    mx_array *negative = x ? with_number(MX_OP("_lesser_scalar"), mx_g_rdiv(1, x), 0) : NULL;
    mx_array *below = with_number(MX_OP("_lesser_scalar"), x, 0); /* -inf */
    return finish(call, negative ? mx_g2("broadcast_logical_or", negative, below) : NULL);
}
/* sin(pi x) / (pi x), 1 at 0 */
static mx_code sinc(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    mx_array *zero = with_number(MX_OP("_equal_scalar"), x, 0);
    mx_array *angle_of_x = mx_g_scale(mx_g_add(x, zero), 3.14159265358979323846);
    mx_array *y = x ? mx_g_div(mx_g1("sin", angle_of_x), angle_of_x) : NULL;
    return mx_expand_give(call, mx_choose(zero, mx_number_float(1), y));
}
static mx_code exp2_of(const mx_expand *call)
{
    return mx_expand_give(call, with_number(MX_OP("_rpower_scalar"), mx_expand_by_rules(call, call->in[0]), 2));
}

/* Euclid: (a, b) becomes (b, a mod b) until b is 0; b shrinks by half in two steps. */
#define EUCLID_STEPS 92 /* of 64-bit integers */
static mx_array *divisor(mx_array *a, mx_array *b)
{
    for (int step = 0; a && b && step < EUCLID_STEPS; step++) {
        if (mx_values_known(b) && b->size && !mx_range_of(b).low && !mx_range_of(b).high)
            break;
        mx_array *rest = mx_g2("broadcast_mod", a, b), *done = with_number(MX_OP("_equal_scalar"), b, 0);
        a = mx_choose(done, a, b), b = rest; /* the remainder by 0 is 0 */
    }
    return a && b ? mx_g1("abs", a) : NULL;
}
static mx_code common(const mx_expand *call)
{
    mx_array *p[2];
    if (mx_expand_promote(call, p))
        return mx_error_code();
    mx_shape_t a = mx_array_shape(p[0]), b = mx_array_shape(p[1]), shape;
    if (a.ndim >= 0 && b.ndim >= 0 && mx_shape_broadcast(&a, &b, &shape))
        p[0] = mx_g_broadcast_to(p[0], &shape), p[1] = mx_g_broadcast_to(p[1], &shape);
    mx_array *most = p[0] && p[1] ? divisor(mx_g1("abs", p[0]), mx_g1("abs", p[1])) : NULL;
    if (!most || !strcmp(call->op->name, "np.gcd"))
        return mx_expand_give(call, most);
    mx_array *one =
        mx_expand_cast(with_number(MX_OP("_equal_scalar"), most, 0), (mx_dtype)most->dtype); /* of two zeros */
    return mx_expand_give(call, mx_g1("abs", mx_g_mul(mx_g_div(p[0], mx_g_add(most, one)), p[1])));
}

static mx_code divmod_of(const mx_expand *call)
{
    call->out[0] = mx_g2("np.floor_divide", call->in[0], call->in[1]);
    call->out[1] = call->out[0] ? mx_g2("np.mod", call->in[0], call->in[1]) : NULL;
    return call->out[1] ? MX_OK : mx_error_code();
}
/* The part behind the point, and the part before it. */
static mx_code modf_of(const mx_expand *call)
{
    mx_array *x = mx_expand_by_rules(call, call->in[0]);
    if (!x || !(call->out[1] = mx_g1("trunc", x)))
        return mx_error_code();
    mx_array *rest = mx_g_sub(x, call->out[1]);
    call->out[0] = mx_choose(mx_g1("np.isinf", x), mx_number_float(0), rest);
    return call->out[0] ? MX_OK : mx_error_code();
}

#define CLOSE_ATTRS(X) \
    X(FLOAT, rtol, "1e-05", "", "how far apart, times |b|") \
    X(FLOAT, atol, "1e-08", "", "how far apart in addition") \
    X(BOOL, equal_nan, "False", "", "whether NaN equals NaN")
MX_ATTRS(np_isclose, CLOSE_ATTRS)
/* |a - b| <= atol + rtol |b|, or equal, as infinities are */
static mx_code isclose(const mx_expand *call)
{
    const mx_np_isclose_attrs *attrs = call->attrs;
    mx_array *p[2];
    if (mx_expand_promote(call, p))
        return mx_error_code();
    mx_array *distance = mx_g1("abs", mx_g_sub(p[0], p[1])),
             *limit = mx_g_shift(mx_g_scale(mx_g1("abs", p[1]), attrs->rtol), attrs->atol);
    mx_array *finite = mx_g2("np.logical_and", mx_g1("np.isfinite", p[0]), mx_g1("np.isfinite", p[1]));
    mx_array *near =
        distance && finite ? mx_g2("np.logical_and", mx_g2("np.less_equal", distance, limit), finite) : NULL;
    mx_array *y = near ? mx_g2("np.logical_or", near, mx_g2("np.equal", p[0], p[1])) : NULL;
    if (y && attrs->equal_nan)
        y = mx_g2("np.logical_or", y, mx_g2("np.logical_and", mx_g1("np.isnan", p[0]), mx_g1("np.isnan", p[1])));
    return mx_expand_give(call, y);
}

// clang-format off
mx_op mx_family_np_numbers[] = {
    OP1(exp2, exp2_of, NULL, MX_TO_FLOAT, "2 to the power x")
    OP1(signbit, signbit_of, NULL, MX_TO_FLOAT | MX_TO_BOOL, "whether the sign is negative, also of -0")
    OP1(sinc, sinc, NULL, MX_TO_FLOAT, "sin(pi x) / (pi x)")
    OP2(fmax, without_nan, "broadcast_maximum", NULL, NULL, MX_FROM_BOOL, "the larger of two elements that are not NaN")
    OP2(fmin, without_nan, "broadcast_minimum", NULL, NULL, MX_FROM_BOOL, "the smaller of two elements that are not NaN")
    OP2(float_power, float_power, NULL, NULL, NULL, MX_TO_FLOAT, "x1 to the power x2 in float64")
    OP2(heaviside, heaviside, NULL, NULL, NULL, MX_TO_FLOAT, "0 below 0, 1 above it and x2 at 0")
    OP2(gcd, common, NULL, NULL, NULL, MX_NOT_FLOAT | MX_NOT_BOOL, "the greatest common divisor")
    OP2(lcm, common, NULL, NULL, NULL, MX_NOT_FLOAT | MX_NOT_BOOL, "the least common multiple")
    {.name = "np.modf", .c_name = "np_modf", .doc = "the parts behind and before the point", .inputs = "x", .n_out = 2, .flags = MX_OP_EXPANDS,
     .user = &(mx_expansion){modf_of, {NULL, NULL, NULL}, MX_TO_FLOAT, {NULL, NULL, NULL}}},
    {.name = "np.divmod", .c_name = "np_divmod", .doc = "the quotient, rounded down, and the remainder", .inputs = "x1 x2", .n_out = 2, .flags = MX_OP_EXPANDS,
     .user = &(mx_expansion){divmod_of, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
    {.name = "np.isclose", .c_name = "np_isclose", .doc = "whether elements are equal up to a tolerance", .inputs = "a b", .flags = MX_OP_EXPANDS,
     .schema = &np_isclose_schema, .user = &(mx_expansion){isclose, {NULL, NULL, NULL}, MX_TO_FLOAT, {NULL, NULL, NULL}}},
    {0},
};
