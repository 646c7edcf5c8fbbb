/* The pointwise table: every elementwise function is one entry.
 *
 * op/def/pointwise/pointwise.c generates operators with their gradients from it, each device its kernels.
 * A new function is a new entry and nothing else.
 *
 * Forward and gradient are C expressions over the element type T and the m_* functions of op/formula/math.h (m_exp is
 * exp for double, a vectorisable polynomial for float ...).  The last formula of an entry is the same gradient as a
 * composition of operators, used if it will itself be differentiated; g is the incoming gradient.  Both may
 * use a temporary t: t = (what is needed twice), (the rest).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_POINTWISE_H
#define MX_OP_POINTWISE_H

// clang-format off

/* U(name, aliases, forward(x), what the gradient uses: X or Y, gradient(g, x, y), composition, low, high, doc, facts)
 * low..high: where samples are drawn from; facts: fields of the description (op/op.h) that this entry sets, in parentheses. */
#define MX_UNARY_ROWS(U) \
    U(abs, "_sparse_abs", m_fabs(x), X, g * m_sign(x), mx_g_mul(g, mx_g1("sign", x)), -2, 2, "absolute value", (.sparse = MX_SPARSE_ZEROS, .methods = "abs", .finite_at_zero = true)) \
    U(square, "_sparse_square", x * x, X, g * (2 * x), mx_g_mul(g, mx_g_scale(x, 2)), -2, 2, "x * x", (.precision = MX_PRECISION_FLOAT32, .sparse = MX_SPARSE_ZEROS, .methods = "square", .finite_at_zero = true)) \
    U(sqrt, "_sparse_sqrt", m_sqrt(x), Y, g * ((T)0.5 / y), mx_g_div(mx_g_scale(g, 0.5), y), 0.1, 4, "square root", (.sparse = MX_SPARSE_ZEROS, .methods = "sqrt")) \
    U(rsqrt, "_sparse_rsqrt", 1 / m_sqrt(x), X, g * (-(T)0.5 / (x * m_sqrt(x))), mx_g_scale(mx_g_mul(g, mx_g_power(x, -1.5)), -0.5), 0.2, 4, "1 / sqrt(x)", (.precision = MX_PRECISION_FLOAT32, .methods = "rsqrt")) \
    U(cbrt, "_sparse_cbrt", m_cbrt(x), Y, g * (1 / (3 * y * y)), mx_g_div(g, mx_g_scale(mx_g1("square", y), 3)), 0.2, 4, "cube root", (.sparse = MX_SPARSE_ZEROS, .methods = "cbrt")) \
    U(rcbrt, "_sparse_rcbrt", 1 / m_cbrt(x), X, g * (-1 / (3 * x * m_cbrt(x))), mx_g_scale(mx_g_div(g, mx_g_mul(x, mx_g1("cbrt", x))), -1. / 3), 0.2, 4, "1 / cbrt(x)", (.precision = MX_PRECISION_FLOAT32, .methods = "rcbrt")) \
    U(reciprocal, "", 1 / x, X, g * (-1 / (x * x)), mx_g_neg(mx_g_mul(g, mx_g_power(x, -2))), 0.3, 3, "1 / x", (.precision = MX_PRECISION_FLOAT32, .methods = "reciprocal")) \
    U(exp, "_sparse_exp", m_exp(x), Y, g * y, mx_g_mul(g, y), -2, 2, "exponential", (.precision = MX_PRECISION_FLOAT32, .methods = "exp")) \
    U(expm1, "_sparse_expm1", m_expm1(x), Y, g * (y + 1), mx_g_mul(g, mx_g_shift(y, 1)), -2, 2, "exp(x) - 1, accurate near 0", (.precision = MX_PRECISION_FLOAT32, .sparse = MX_SPARSE_ZEROS, .methods = "expm1")) \
    U(log, "_sparse_log", m_log(x), X, g * (1 / x), mx_g_div(g, x), 0.1, 4, "natural logarithm", (.precision = MX_PRECISION_FLOAT32, .methods = "log")) \
    U(log10, "_sparse_log10", m_log10(x), X, g * ((T)0.43429448190325182765 / x), mx_g_div(mx_g_scale(g, 0.43429448190325182765), x), 0.1, 4, "base-10 logarithm", (.precision = MX_PRECISION_FLOAT32, .methods = "log10")) \
    U(log2, "_sparse_log2", m_log2(x), X, g * ((T)1.4426950408889634074 / x), mx_g_div(mx_g_scale(g, 1.4426950408889634074), x), 0.1, 4, "base-2 logarithm", (.precision = MX_PRECISION_FLOAT32, .methods = "log2")) \
    U(log1p, "_sparse_log1p", m_log1p(x), X, g * (1 / (1 + x)), mx_g_div(g, mx_g_shift(x, 1)), -0.8, 3, "log(1 + x), accurate near 0", (.precision = MX_PRECISION_FLOAT32, .sparse = MX_SPARSE_ZEROS, .methods = "log1p")) \
    U(sin, "_sparse_sin", m_sin(x), X, g * m_cos(x), mx_g_mul(g, mx_g1("cos", x)), -3, 3, "sine", (.sparse = MX_SPARSE_ZEROS, .methods = "sin")) \
    U(cos, "_sparse_cos", m_cos(x), X, g * (-m_sin(x)), mx_g_neg(mx_g_mul(g, mx_g1("sin", x))), -3, 3, "cosine", (.methods = "cos")) \
    U(tan, "_sparse_tan", m_tan(x), Y, g * (1 + y * y), mx_g_mul(g, mx_g_shift(mx_g1("square", y), 1)), -1, 1, "tangent", (.precision = MX_PRECISION_FLOAT32, .sparse = MX_SPARSE_ZEROS, .methods = "tan")) \
    U(arcsin, "_sparse_arcsin", m_asin(x), X, g * (1 / m_sqrt(1 - x * x)), mx_g_mul(g, mx_g1("rsqrt", mx_g_rsub(1, mx_g1("square", x)))), -0.8, 0.8, "inverse of sin", (.precision = MX_PRECISION_FLOAT32, .sparse = MX_SPARSE_ZEROS, .methods = "arcsin")) \
    U(arccos, "_sparse_arccos", m_acos(x), X, g * (-1 / m_sqrt(1 - x * x)), mx_g_neg(mx_g_mul(g, mx_g1("rsqrt", mx_g_rsub(1, mx_g1("square", x))))), -0.8, 0.8, "inverse of cos", (.precision = MX_PRECISION_FLOAT32, .methods = "arccos")) \
    U(arctan, "_sparse_arctan", m_atan(x), X, g * (1 / (1 + x * x)), mx_g_div(g, mx_g_shift(mx_g1("square", x), 1)), -2, 2, "inverse of tan", (.sparse = MX_SPARSE_ZEROS, .methods = "arctan")) \
    U(sinh, "_sparse_sinh", m_sinh(x), X, g * m_cosh(x), mx_g_mul(g, mx_g1("cosh", x)), -2, 2, "hyperbolic sine", (.precision = MX_PRECISION_FLOAT32, .sparse = MX_SPARSE_ZEROS, .methods = "sinh")) \
    U(cosh, "_sparse_cosh", m_cosh(x), X, g * m_sinh(x), mx_g_mul(g, mx_g1("sinh", x)), -2, 2, "hyperbolic cosine", (.precision = MX_PRECISION_FLOAT32, .methods = "cosh")) \
    U(tanh, "_sparse_tanh", m_tanh(x), Y, g * (1 - y * y), mx_g_mul(g, mx_g_rsub(1, mx_g1("square", y))), -2, 2, "hyperbolic tangent", (.sparse = MX_SPARSE_ZEROS, .methods = "tanh", .finite_at_zero = true, .look = MX_LOOK_ACTIVATION)) \
    U(arcsinh, "_sparse_arcsinh", m_asinh(x), X, g * (1 / m_sqrt(x * x + 1)), mx_g_mul(g, mx_g1("rsqrt", mx_g_shift(mx_g1("square", x), 1))), -2, 2, "inverse of sinh", (.precision = MX_PRECISION_FLOAT32, .sparse = MX_SPARSE_ZEROS, .methods = "arcsinh")) \
    U(arccosh, "_sparse_arccosh", m_acosh(x), X, g * (1 / m_sqrt(x * x - 1)), mx_g_mul(g, mx_g1("rsqrt", mx_g_shift(mx_g1("square", x), -1))), 1.3, 4, "inverse of cosh", (.precision = MX_PRECISION_FLOAT32, .methods = "arccosh")) \
    U(arctanh, "_sparse_arctanh", m_atanh(x), X, g * (1 / (1 - x * x)), mx_g_div(g, mx_g_rsub(1, mx_g1("square", x))), -0.8, 0.8, "inverse of tanh", (.precision = MX_PRECISION_FLOAT32, .sparse = MX_SPARSE_ZEROS, .methods = "arctanh")) \
    U(gamma, "_sparse_gamma _npx_gamma", m_tgamma(x), XY, g * (y * m_digamma(x)), mx_g_mul(g, mx_g_mul(y, mx_g1("_digamma", x))), 0.5, 4, "the gamma function", (.precision = MX_PRECISION_FLOAT32, .methods = "gamma")) \
    U(gammaln, "_sparse_gammaln _npx_gammaln", m_lgamma(x), X, g * m_digamma(x), mx_g_mul(g, mx_g1("_digamma", x)), 0.5, 4, "logarithm of the absolute value of the gamma function", (.precision = MX_PRECISION_FLOAT32, .methods = "gammaln")) \
    U(_digamma, "", m_digamma(x), X, g * m_trigamma(x), mx_g_mul(g, mx_g1("_trigamma", x)), 0.5, 4, "derivative of gammaln", ()) \
    U(_trigamma, "", m_trigamma(x), X, g * m_tetragamma(x), no_higher_order("gammaln"), 0.5, 4, "second derivative of gammaln", ()) \
    U(erf, "_npx_erf", m_erf(x), X, g * ((T)1.1283791670955125739 * m_exp(-x * x)), mx_g_mul(g, mx_g_scale(mx_g1("exp", mx_g_neg(mx_g1("square", x))), 1.1283791670955125739)), -2, 2, "the error function", (.methods = "erf")) \
    U(erfinv, "_npx_erfinv", m_erfinv(x), Y, g * (m_exp(y * y) / (T)1.1283791670955125739), mx_g_mul(g, mx_g_scale(mx_g1("exp", mx_g1("square", y)), 0.88622692545275801365)), -0.8, 0.8, "inverse of the error function", (.precision = MX_PRECISION_FLOAT32, .methods = "erfinv")) \
    U(relu, "_sparse_relu _npx_relu", x < 0 ? 0 : x, Y, y > 0 ? g : 0, mx_g_mul(g, mx_g1("sign", y)), -2, 2, "max(x, 0)", (.sparse = MX_SPARSE_ZEROS, .methods = "relu", .finite_at_zero = true, .look = MX_LOOK_ACTIVATION)) \
    U(sigmoid, "_sparse_sigmoid _npx_sigmoid", m_sigmoid(x), Y, g * (y * (1 - y)), mx_g_mul(g, mx_g_mul(y, mx_g_rsub(1, y))), -3, 3, "1 / (1 + exp(-x))", (.methods = "sigmoid", .finite_at_zero = true, .look = MX_LOOK_ACTIVATION)) \
    U(log_sigmoid, "", -m_softplus(-x), Y, g * (1 - m_exp(y)), mx_g_mul(g, mx_g_rsub(1, mx_g1("exp", y))), -3, 3, "log(sigmoid(x)) without overflow", ()) \
    U(softsign, "", x / (1 + m_fabs(x)), X, g * (1 / ((1 + m_fabs(x)) * (1 + m_fabs(x)))), mx_g_mul(g, mx_g_power(mx_g_shift(mx_g1("abs", x), 1), -2)), -2, 2, "x / (1 + |x|)", (.methods = "softsign", .look = MX_LOOK_ACTIVATION)) \
    U(_softplus, "", m_softplus(x), Y, g * (1 - m_exp(-y)), mx_g_mul(g, mx_g_rsub(1, mx_g1("exp", mx_g_neg(y)))), -3, 3, "log(1 + exp(x)) without overflow: Activation's softrelu", ()) \
    U(_gelu_tanh, "", x * m_sigmoid(x * ((T)1.5957691216057307118 + (T)0.071354816272600248 * x * x)), X, (t = m_sigmoid(x * ((T)1.5957691216057307118 + (T)0.071354816272600248 * x * x)), g * (t + x * t * (1 - t) * ((T)1.5957691216057307118 + (T)0.214064448817800744 * x * x))), (t = mx_g1("sigmoid", mx_g_mul(x, mx_g_shift(mx_g_scale(mx_g1("square", x), 0.071354816272600248), 1.5957691216057307118))), mx_g_mul(g, mx_g_add(t, mx_g_mul(mx_g_mul(x, mx_g_mul(t, mx_g_rsub(1, t))), mx_g_shift(mx_g_scale(mx_g1("square", x), 0.214064448817800744), 1.5957691216057307118))))), -3, 3, "0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), close to x times the probability that a standard normal number is below x", (.finite_at_zero = true, .look = MX_LOOK_ACTIVATION)) \
    U(mish, "", x * m_tanh(m_softplus(x)), X, (t = m_tanh(m_softplus(x)), g * (t + x * (1 - t * t) * m_sigmoid(x))), (t = mx_g1("tanh", mx_g1("_softplus", x)), mx_g_mul(g, mx_g_add(t, mx_g_mul(mx_g_mul(x, mx_g_rsub(1, mx_g1("square", t))), mx_g1("sigmoid", x))))), -3, 3, "x * tanh(log(1 + exp(x)))", (.finite_at_zero = true)) \
    U(_silu, "", x * m_sigmoid(x), X, (t = m_sigmoid(x), g * (t * (1 + x * (1 - t)))), (t = mx_g1("sigmoid", x), mx_g_mul(g, mx_g_add(t, mx_g_mul(x, mx_g_mul(t, mx_g_rsub(1, t)))))), -3, 3, "x * sigmoid(x)", (.finite_at_zero = true))

/* L(name, aliases, forward(x), composition, low, high, doc, facts): linear, the gradient needs neither input nor output. */
#define MX_LINEAR_ROWS(L) \
    L(negative, "_sparse_negative _np_negative", -x, mx_g_neg(g), -2, 2, "-x", (.sparse = MX_SPARSE_ZEROS, .sparse_gradient = true, .methods = "negative")) \
    L(degrees, "_sparse_degrees", x * (T)57.29577951308232088, mx_g_scale(g, 57.29577951308232088), -2, 2, "radians to degrees", (.sparse = MX_SPARSE_ZEROS, .methods = "degrees")) \
    L(radians, "_sparse_radians", x / (T)57.29577951308232088, mx_g_scale(g, 0.01745329251994329577), -90, 90, "degrees to radians", (.sparse = MX_SPARSE_ZEROS, .methods = "radians"))

/* Z(name, aliases, forward(x), low, high, doc, facts): piecewise constant, gradient zero. */
#define MX_STEP_ROWS(Z) \
    Z(sign, "_sparse_sign", m_sign(x), -2, 2, "-1, 0 or 1", (.sparse = MX_SPARSE_ZEROS, .methods = "sign")) \
    Z(rint, "_sparse_rint", m_rint(x), -3, 3, "rounds to the nearest integer, halves to even", (.sparse = MX_SPARSE_ZEROS, .methods = "rint")) \
    Z(round, "_sparse_round", m_round(x), -3, 3, "rounds to the nearest integer, halves away from zero", (.sparse = MX_SPARSE_ZEROS, .methods = "round")) \
    Z(ceil, "_sparse_ceil", m_ceil(x), -3, 3, "smallest integer not less than x", (.sparse = MX_SPARSE_ZEROS, .methods = "ceil")) \
    Z(floor, "_sparse_floor", m_floor(x), -3, 3, "largest integer not greater than x", (.sparse = MX_SPARSE_ZEROS, .methods = "floor")) \
    Z(trunc, "_sparse_trunc", m_trunc(x), -3, 3, "truncates x to an integer", (.sparse = MX_SPARSE_ZEROS, .methods = "trunc")) \
    Z(fix, "_sparse_fix", m_trunc(x), -3, 3, "rounds x to an integer towards zero", (.sparse = MX_SPARSE_ZEROS, .methods = "fix")) \
    Z(logical_not, "_np_logical_not", (T)(x == 0), -1, 1, "1 where x is 0, else 0", (.methods = "logical_not"))

/* B(id, elementwise name, its aliases, broadcasting name, its aliases, scalar name, its aliases,
 *   saved inputs and outputs (masks) of the array forms, of the scalar form, forward(a, b), composition for a,
 *   composition for b, low, high, doc, facts of the elementwise form, of the broadcasting form, of the scalar form)
 * Compositions see g, a, b, y; a or b is NULL in the scalar forms, which use the number s instead. */
#define MX_BINARY_ROWS(B) \
    B(add, "elemwise_add", "_sparse_elemwise_add _grad_add _add _plus _Plus", "broadcast_add", "_sparse_broadcast_add _sparse_broadcast_plus broadcast_plus", \
      "_plus_scalar", "_PlusScalar _scatter_plus_scalar", 0, 0, 0, 0, a + b, g, g, -2, 2, "a + b", (.precision = MX_PRECISION_WIDEST, .sparse = MX_SPARSE_TWO, .sparse_gradient = true, .hint = "_plus", .finite_at_zero = true, .look = MX_LOOK_SUM), (.precision = MX_PRECISION_WIDEST, .sparse = MX_SPARSE_TWO, .sparse_gradient = true, .methods = "broadcast_add", .finite_at_zero = true, .look = MX_LOOK_SUM), (.hint = "_plusscalar", .finite_at_zero = true, .look = MX_LOOK_SUM, .shows = "scalar")) \
    B(sub, "elemwise_sub", "_sparse_elemwise_sub _sub _minus _Minus", "broadcast_sub", "_sparse_broadcast_sub _sparse_broadcast_minus broadcast_minus", \
      "_minus_scalar", "_MinusScalar _scatter_minus_scalar", 0, 0, 0, 0, a - b, g, mx_g_neg(g), -2, 2, "a - b", (.precision = MX_PRECISION_WIDEST, .sparse = MX_SPARSE_TWO, .sparse_gradient = true, .hint = "_minus", .finite_at_zero = true, .look = MX_LOOK_SUM), (.precision = MX_PRECISION_WIDEST, .sparse = MX_SPARSE_TWO, .sparse_gradient = true, .methods = "broadcast_sub", .finite_at_zero = true, .look = MX_LOOK_SUM), (.hint = "_minusscalar", .shows = "scalar")) \
    B(mul, "elemwise_mul", "_sparse_elemwise_mul _mul _Mul", "broadcast_mul", "_sparse_broadcast_mul", \
      "_mul_scalar", "_MulScalar _sparse_mul_scalar", 3, 0, 0, 0, a * b, times(g, b, s), mx_g_mul(g, a), -2, 2, "a * b", (.precision = MX_PRECISION_WIDEST, .sparse = MX_SPARSE_TWO, .hint = "_mul", .finite_at_zero = true), (.precision = MX_PRECISION_WIDEST, .sparse = MX_SPARSE_TWO, .methods = "broadcast_mul", .finite_at_zero = true), (.sparse = MX_SPARSE_ZEROS, .sparse_gradient = true, .hint = "_mulscalar", .finite_at_zero = true, .shows = "scalar")) \
    B(div, "elemwise_div", "_sparse_elemwise_div _scatter_elemwise_div _div _Div", "broadcast_div", "_sparse_broadcast_div", \
      "_div_scalar", "_DivScalar _sparse_div_scalar", 2, 1, 0, 0, m_div(a, b), over(g, b, s), mx_g_neg(mx_g_div(mx_g_mul(g, y), b)), 0.5, 3, \
      "a / b; integer types use integer division, and division by zero gives 0", (.precision = MX_PRECISION_WIDEST, .sparse = MX_SPARSE_TWO, .hint = "_div", .audit = mx_audit_division), (.precision = MX_PRECISION_WIDEST, .sparse = MX_SPARSE_TWO, .methods = "broadcast_div", .audit = mx_audit_division), (.sparse = MX_SPARSE_ZEROS, .sparse_gradient = true, .hint = "_divscalar", .shows = "scalar", .audit = mx_audit_division)) \
    B(mod, "_mod", "_Mod", "broadcast_mod", "", "_mod_scalar", "_ModScalar", \
      3, 0, 0, 0, m_mod(a, b), of_remainder(g), of_remainder(mx_g_neg(mx_g_mul(g, mx_g1("floor", quotient(a, b, s))))), 0.5, 3, "remainder of a / b with the sign of b; 0 if b is 0", (.precision = MX_PRECISION_WIDEST), (.precision = MX_PRECISION_WIDEST), (.shows = "scalar")) \
    B(power, "_power", "_Power", "broadcast_power", "", "_power_scalar", "_PowerScalar", \
      3, 1, 1, 0, m_pow(a, b), power_base(g, a, b, s), power_exponent(g, a, y, s), 0.5, 2, "a to the power b", (.precision = MX_PRECISION_FLOAT32), (.precision = MX_PRECISION_FLOAT32, .methods = "broadcast_power"), (.precision = MX_PRECISION_FLOAT32, .hint = "_powerscalar", .shows = "scalar")) \
    B(maximum, "_maximum", "_Maximum", "broadcast_maximum", "_npi_maximum", "_maximum_scalar", "_MaximumScalar _npi_maximum_scalar", \
      3, 0, 1, 0, m_max(a, b), mx_g_mul(g, at_least(a, b, s)), mx_g_mul(g, mx_g2("broadcast_lesser", a, b)), -2, 2, "the larger of a and b", (.precision = MX_PRECISION_WIDEST), (.precision = MX_PRECISION_WIDEST, .methods = "broadcast_maximum"), (.hint = "_maximumscalar", .shows = "scalar")) \
    B(minimum, "_minimum", "_Minimum", "broadcast_minimum", "_npi_minimum", "_minimum_scalar", "_MinimumScalar _npi_minimum_scalar", \
      3, 0, 1, 0, m_min(a, b), mx_g_mul(g, at_most(a, b, s)), mx_g_mul(g, mx_g2("broadcast_greater", a, b)), -2, 2, "the smaller of a and b", (.precision = MX_PRECISION_WIDEST), (.precision = MX_PRECISION_WIDEST, .methods = "broadcast_minimum"), (.hint = "_minimumscalar", .shows = "scalar")) \
    B(hypot, "_hypot", "_Hypot", "broadcast_hypot", "", "_hypot_scalar", "_HypotScalar _npi_hypot_scalar", \
      3, 1, 1, 1, m_hypot(a, b), mx_g_mul(g, mx_g_div(a, y)), mx_g_mul(g, mx_g_div(b, y)), 0.5, 3, "sqrt(a * a + b * b)", (.precision = MX_PRECISION_WIDEST), (.precision = MX_PRECISION_WIDEST), (.shows = "scalar"))

/* R(id, name, aliases, low, high, doc, facts): the forms whose first argument is the number; for entries of B that do not commute. */
#define MX_REVERSED_ROWS(R) \
    R(sub, "_rminus_scalar", "_RMinusScalar", -2, 2, "a - b", (.hint = "_rminusscalar", .shows = "scalar")) \
    R(div, "_rdiv_scalar", "_RDivScalar", 0.5, 3, "a / b", (.precision = MX_PRECISION_FLOAT32, .hint = "_rdivscalar", .shows = "scalar")) \
    R(mod, "_rmod_scalar", "_RModScalar", 0.5, 3, "remainder of a by b", (.shows = "scalar")) \
    R(power, "_rpower_scalar", "_RPowerScalar", 0.5, 2, "a to the power b", (.precision = MX_PRECISION_FLOAT32, .hint = "_rpowerscalar", .shows = "scalar"))

/* C(id, the same names as in B, forward(a, b), doc, facts as in B): comparisons and logic: 1 or 0, and logic of bits; gradient zero. */
#define MX_COMPARE_ROWS(C) \
    C(equal, "_equal", "_Equal", "broadcast_equal", "", "_equal_scalar", "_EqualScalar", a == b, "1 where a == b", (.precision = MX_PRECISION_WIDEST), (.precision = MX_PRECISION_WIDEST), (.shows = "scalar")) \
    C(not_equal, "_not_equal", "_Not_Equal", "broadcast_not_equal", "", "_not_equal_scalar", "_NotEqualScalar", a != b, "1 where a != b", (.precision = MX_PRECISION_WIDEST), (.precision = MX_PRECISION_WIDEST), (.shows = "scalar")) \
    C(greater, "_greater", "_Greater", "broadcast_greater", "", "_greater_scalar", "_GreaterScalar", a > b, "1 where a > b", (.precision = MX_PRECISION_WIDEST), (.precision = MX_PRECISION_WIDEST), (.shows = "scalar")) \
    C(greater_equal, "_greater_equal", "_Greater_Equal", "broadcast_greater_equal", "", "_greater_equal_scalar", "_GreaterEqualScalar", a >= b, "1 where a >= b", (.precision = MX_PRECISION_WIDEST), (.precision = MX_PRECISION_WIDEST), (.shows = "scalar")) \
    C(lesser, "_lesser", "_Lesser", "broadcast_lesser", "", "_lesser_scalar", "_LesserScalar", a < b, "1 where a < b", (.precision = MX_PRECISION_WIDEST), (.precision = MX_PRECISION_WIDEST), (.shows = "scalar")) \
    C(lesser_equal, "_lesser_equal", "_Lesser_Equal", "broadcast_lesser_equal", "", "_lesser_equal_scalar", "_LesserEqualScalar", a <= b, "1 where a <= b", (.precision = MX_PRECISION_WIDEST), (.precision = MX_PRECISION_WIDEST), (.shows = "scalar")) \
    C(logical_and, "_logical_and", "_Logical_And", "broadcast_logical_and", "", "_logical_and_scalar", "_LogicalAndScalar", (a != 0) & (b != 0), "1 where a and b are nonzero", (), (), (.shows = "scalar")) \
    C(logical_or, "_logical_or", "_Logical_Or", "broadcast_logical_or", "", "_logical_or_scalar", "_LogicalOrScalar", (a != 0) | (b != 0), "1 where a or b is nonzero", (), (), (.shows = "scalar")) \
    C(logical_xor, "_logical_xor", "_Logical_Xor", "broadcast_logical_xor", "", "_logical_xor_scalar", "_LogicalXorScalar", (a != 0) ^ (b != 0), "1 where exactly one of a and b is nonzero", (), (), (.shows = "scalar")) \
    C(bitwise_and, "_bitwise_and", "", "broadcast_bitwise_and", "", "_bitwise_and_scalar", "", (T)((long long)m_in_int64(a) & (long long)m_in_int64(b)), "the bits of a & b as integers", (), (), (.shows = "scalar")) \
    C(bitwise_or, "_bitwise_or", "", "broadcast_bitwise_or", "", "_bitwise_or_scalar", "", (T)((long long)m_in_int64(a) | (long long)m_in_int64(b)), "the bits of a | b as integers", (), (), (.shows = "scalar")) \
    C(bitwise_xor, "_bitwise_xor", "", "broadcast_bitwise_xor", "", "_bitwise_xor_scalar", "", (T)((long long)m_in_int64(a) ^ (long long)m_in_int64(b)), "the bits of a ^ b as integers", (), (), (.shows = "scalar"))

// clang-format on

/* Numbers of the entries; an operator's `user` points to a struct mx_pointwise. */
enum mx_pointwise_row {
#define MX_ROW_U(name, ...) MX_ROW_##name,
#define MX_ROW_B(id, ...) MX_ROW_##id,
    MX_UNARY_ROWS(MX_ROW_U) MX_LINEAR_ROWS(MX_ROW_U) MX_STEP_ROWS(MX_ROW_U) MX_BINARY_ROWS(MX_ROW_B) MX_COMPARE_ROWS(MX_ROW_B)
    MX_ROW_COUNT
};

/* How an operator uses an entry. */
enum mx_pointwise_form { MX_FORM_UNARY, MX_FORM_BACKWARD, MX_FORM_BINARY, MX_FORM_SCALAR, MX_FORM_REVERSED };
typedef struct mx_pointwise {
    int row;
    enum mx_pointwise_form form;
} mx_pointwise;

#ifndef __cplusplus
struct mx_op;
const mx_pointwise *mx_pointwise_of(const struct mx_op *op); /* NULL: it is not from these tables */
#endif

#endif
