/* Functions of single elements, arithmetic of two arrays and of an array and a number.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* ---- arithmetic ------------------------------------------------------------------------------------------------ */

static bool is_integer(const mx_array *x) { return x && !mx_dtype_is_float(x->dtype); }

/* Integers are divided with truncation. */
static mx_code read_div(mx_onnx_in *n)
{
    if (!is_integer(n->in[0])) {
        n->out[0] = mx_div(n->in[0], n->in[1]);
        return MX_OK;
    }
    mx_dtype type = (mx_dtype)n->in[0]->dtype;
    mx_array *a = mx_cast(n->in[0], .dtype = MX_FLOAT64), *b = mx_cast(n->in[1], .dtype = MX_FLOAT64);
    n->out[0] = mx_cast(mx_trunc(mx_div(a, b)), .dtype = type);
    return MX_OK;
}

static mx_code read_mod(mx_onnx_in *n)
{
    mx_array *a = n->in[0], *b = n->in[1];
    if (!mx_onnx_int(n, "fmod", 0)) {
        n->out[0] = mx_mod(a, b);
        return MX_OK;
    }
    if (!a || !b)
        return mx_error_code();
    mx_dtype type = (mx_dtype)a->dtype;
    if (is_integer(a)) {
        a = mx_cast(a, .dtype = MX_FLOAT64);
        b = mx_cast(b, .dtype = MX_FLOAT64);
    }
    n->out[0] = mx_onnx_cast(mx_sub(a, mx_mul(mx_trunc(mx_div(a, b)), b)), type);
    return MX_OK;
}

static mx_code read_pow(mx_onnx_in *n)
{
    const mx_dtype type = (mx_dtype)n->in[0]->dtype;
    if (!mx_dtype_is_float(type)) { /* integers: exact in double up to 2^53 */
        mx_array *y = mx_power(mx_cast(n->in[0], .dtype = MX_FLOAT64), mx_onnx_cast(n->in[1], MX_FLOAT64));
        n->out[0] = mx_cast(y, .dtype = type);
    } else
        n->out[0] = mx_power(n->in[0], mx_onnx_cast(n->in[1], type));
    return MX_OK;
}

/* Sum, Max, Min, Mean: any number of arrays, broadcast. */
static mx_code read_many(mx_onnx_in *n)
{
    mx_array *y = n->in[0];
    for (int i = 1; y && i < n->n_in; i++)
        y = !strcmp(n->op, "Max")   ? mx_maximum(y, n->in[i])
            : !strcmp(n->op, "Min") ? mx_minimum(y, n->in[i])
                                    : mx_add(y, n->in[i]);
    if (!strcmp(n->op, "Mean"))
        y = mx_div_scalar(y, .scalar = n->n_in);
    n->out[0] = n->n_in == 1 ? mx_copy(y) : y;
    return MX_OK;
}

/* x - floor(x / y) * y: the sign is that of y. */
static mx_code write_mod_of(mx_onnx_out *o, const char *a, const char *b)
{
    const char *q = mx_onnx_put(o, NULL, "Floor", mx_onnx_put(o, NULL, "Div", a, b));
    mx_onnx_put(o, o->out[0], "Sub", a, mx_onnx_put(o, NULL, "Mul", q, b));
    return mx_onnx_done(o);
}

static mx_code write_mod(mx_onnx_out *o) { return write_mod_of(o, o->in[0], o->in[1]); }

static double scalar_of(const mx_onnx_out *o)
{
    const mx_field *field = mx_schema_find(o->node->op->schema, "scalar");
    return field ? *(const double *)((const char *)o->attrs + field->offset) : 0;
}

static const char *number_of(mx_onnx_out *o) { return mx_onnx_put_number(o, scalar_of(o), o->in_type[0]); }

static mx_code write_scalar(mx_onnx_out *o)
{
    mx_onnx_put(o, o->out[0], o->row->onnx, o->in[0], number_of(o));
    return mx_onnx_done(o);
}

static mx_code write_reversed(mx_onnx_out *o)
{
    mx_onnx_put(o, o->out[0], o->row->onnx, number_of(o), o->in[0]);
    return mx_onnx_done(o);
}

static mx_code write_mod_scalar(mx_onnx_out *o) { return write_mod_of(o, o->in[0], number_of(o)); }
static mx_code write_mod_reversed(mx_onnx_out *o) { return write_mod_of(o, number_of(o), o->in[0]); }

static mx_code write_hypot_of(mx_onnx_out *o, const char *b)
{
    const char *aa = mx_onnx_put(o, NULL, "Mul", o->in[0], o->in[0]), *bb = mx_onnx_put(o, NULL, "Mul", b, b);
    mx_onnx_put(o, o->out[0], "Sqrt", mx_onnx_put(o, NULL, "Add", aa, bb));
    return mx_onnx_done(o);
}
static mx_code write_hypot(mx_onnx_out *o) { return write_hypot_of(o, o->in[1]); }
static mx_code write_hypot_scalar(mx_onnx_out *o) { return write_hypot_of(o, number_of(o)); }

/* ---- functions that ONNX composes --------------------------------------------------------------------------------- */

static mx_code write_square(mx_onnx_out *o)
{
    mx_onnx_put(o, o->out[0], "Mul", o->in[0], o->in[0]);
    return mx_onnx_done(o);
}

static mx_code write_rsqrt(mx_onnx_out *o)
{
    mx_onnx_put(o, o->out[0], "Reciprocal", mx_onnx_put(o, NULL, "Sqrt", o->in[0]));
    return mx_onnx_done(o);
}

/* sign(x) |x| ^ (1/3) */
static const char *cube_root(mx_onnx_out *o, const char *out)
{
    const char *third = mx_onnx_put_number(o, 1.0 / 3, o->in_type[0]);
    const char *root = mx_onnx_put(o, NULL, "Pow", mx_onnx_put(o, NULL, "Abs", o->in[0]), third);
    return mx_onnx_put(o, out, "Mul", mx_onnx_put(o, NULL, "Sign", o->in[0]), root);
}

static mx_code write_cbrt(mx_onnx_out *o) { return cube_root(o, o->out[0]), mx_onnx_done(o); }

static mx_code write_rcbrt(mx_onnx_out *o)
{
    mx_onnx_put(o, o->out[0], "Reciprocal", cube_root(o, NULL));
    return mx_onnx_done(o);
}

/* x times a number */
static mx_code write_times(mx_onnx_out *o, const char *x, double factor)
{
    mx_onnx_put(o, o->out[0], "Mul", x, mx_onnx_put_number(o, factor, o->in_type[0]));
    return mx_onnx_done(o);
}

static mx_code write_log10(mx_onnx_out *o)
{
    return write_times(o, mx_onnx_put(o, NULL, "Log", o->in[0]), 1 / log(10.0));
}
static mx_code write_log2(mx_onnx_out *o)
{
    return write_times(o, mx_onnx_put(o, NULL, "Log", o->in[0]), 1 / log(2.0));
}
static mx_code write_degrees(mx_onnx_out *o) { return write_times(o, o->in[0], 180 / acos(-1.0)); }
static mx_code write_radians(mx_onnx_out *o) { return write_times(o, o->in[0], acos(-1.0) / 180); }

static mx_code write_log1p(mx_onnx_out *o)
{
    mx_onnx_put(o, o->out[0], "Log", mx_onnx_put(o, NULL, "Add", o->in[0], mx_onnx_put_number(o, 1, o->in_type[0])));
    return mx_onnx_done(o);
}

static mx_code write_expm1(mx_onnx_out *o)
{
    mx_onnx_put(o, o->out[0], "Sub", mx_onnx_put(o, NULL, "Exp", o->in[0]), mx_onnx_put_number(o, 1, o->in_type[0]));
    return mx_onnx_done(o);
}

/* Towards zero: sign(x) floor(|x|). */
static mx_code write_trunc(mx_onnx_out *o)
{
    const char *whole = mx_onnx_put(o, NULL, "Floor", mx_onnx_put(o, NULL, "Abs", o->in[0]));
    mx_onnx_put(o, o->out[0], "Mul", mx_onnx_put(o, NULL, "Sign", o->in[0]), whole);
    return mx_onnx_done(o);
}

/* Halves away from zero: sign(x) floor(|x| + 0.5). */
static mx_code write_round(mx_onnx_out *o)
{
    const char *half = mx_onnx_put_number(o, 0.5, o->in_type[0]);
    const char *more = mx_onnx_put(o, NULL, "Add", mx_onnx_put(o, NULL, "Abs", o->in[0]), half);
    mx_onnx_put(o, o->out[0], "Mul", mx_onnx_put(o, NULL, "Sign", o->in[0]), mx_onnx_put(o, NULL, "Floor", more));
    return mx_onnx_done(o);
}

static mx_code read_round(mx_onnx_in *n) { return n->out[0] = mx_rint(n->in[0]), MX_OK; }

/* ---- clip ------------------------------------------------------------------------------------------------------ */

/* Limits may be arrays, and either may be missing. */
static mx_code read_clip(mx_onnx_in *n)
{
    mx_array *y = n->in[0], *low = MX_NONE, *high = MX_NONE;
    const double least = mx_onnx_float(n, "min", NAN), most = mx_onnx_float(n, "max", NAN);
    if (!y)
        return mx_error_code();
    low = mx_onnx_given(n, 1) ? n->in[1] : isnan(least) ? MX_NONE : mx_onnx_scalar(least, (mx_dtype)y->dtype);
    high = mx_onnx_given(n, 2) ? n->in[2] : isnan(most) ? MX_NONE : mx_onnx_scalar(most, (mx_dtype)y->dtype);
    double a = NAN, b = NAN;
    const bool constant = (!mx_onnx_given(n, 1) || n->value[1]) && (!mx_onnx_given(n, 2) || n->value[2]);
    if (constant && mx_dtype_is_float(y->dtype) && mx_onnx_number(n, 1, least, &a) && mx_onnx_number(n, 2, most, &b) &&
        !isnan(a) && !isnan(b) && a <= b) {
        n->out[0] = mx_clip(y, .a_min = a, .a_max = b);
        return MX_OK;
    }
    if (mx_has_error())
        return mx_error_code();
    y = low != MX_NONE ? mx_maximum(y, low) : y;
    y = high != MX_NONE ? mx_minimum(y, high) : y;
    n->out[0] = y == n->in[0] ? mx_copy(y) : y;
    return MX_OK;
}

static mx_code write_clip(mx_onnx_out *o)
{
    const mx_clip_attrs *a = o->attrs;
    const char *low = mx_onnx_put_number(o, a->a_min, o->in_type[0]),
               *high = mx_onnx_put_number(o, a->a_max, o->in_type[0]);
    mx_onnx_put(o, o->out[0], "Clip", o->in[0], low, high);
    return mx_onnx_done(o);
}

static mx_code write_quadratic(mx_onnx_out *o)
{
    const mx_quadratic_attrs *a = o->attrs;
    const int type = o->in_type[0];
    const char *x = o->in[0], *ax = mx_onnx_put(o, NULL, "Mul", x, mx_onnx_put_number(o, a->a, type));
    const char *axb = mx_onnx_put(o, NULL, "Add", ax, mx_onnx_put_number(o, a->b, type));
    mx_onnx_put(o, o->out[0], "Add", mx_onnx_put(o, NULL, "Mul", axb, x), mx_onnx_put_number(o, a->c, type));
    return mx_onnx_done(o);
}

/* x / sqrt(size of the last axis) */
static mx_code write_div_sqrt_dim(mx_onnx_out *o)
{
    const int rank = mx_onnx_out_rank(o, 0);
    const int64_t size = rank > 0 ? o->in_shape[0].dim[rank - 1] : -1;
    return size < 0 ? mx_onnx_refuse(o, "the size of the last axis is not known")
                    : write_times(o, o->in[0], 1 / sqrt((double)size));
}

/* Quadratic up to 1 / sigma^2, then |x| - 1 / (2 sigma^2). */
static mx_code write_smooth_l1(mx_onnx_out *o)
{
    const double square = scalar_of(o) * scalar_of(o);
    const char *size = mx_onnx_put(o, NULL, "Abs", o->in[0]);
    const char *inner = mx_onnx_put_with(o, NULL, "Mul", mx_onnx_put(o, NULL, "Mul", size, size), square / 2);
    const char *near = mx_onnx_put_with(o, NULL, "Less", size, 1 / square);
    mx_onnx_put(o, o->out[0], "Where", near, inner, mx_onnx_put_with(o, NULL, "Sub", size, 0.5 / square));
    return mx_onnx_done(o);
}

static mx_code write_casts(mx_onnx_out *o)
{
    for (int i = 0; i < o->n_out; i++)
        mx_onnx_put_cast(o, o->out[i], o->in[i], o->out_type[i]);
    return mx_onnx_done(o);
}

static mx_code write_many(mx_onnx_out *o)
{
    mx_onnx_node(o, o->out[0], "Sum", o->n_in, o->in);
    return mx_onnx_done(o);
}

static mx_code read_is(mx_onnx_in *n)
{
    mx_array *x = n->in[0];
    if (!strcmp(n->op, "IsNaN"))
        n->out[0] = mx_cast(mx_not_equal(x, x), .dtype = MX_BOOL);
    else {
        const bool up = mx_onnx_int(n, "detect_positive", 1), down = mx_onnx_int(n, "detect_negative", 1);
        mx_array *over = up && down ? mx_equal_scalar(mx_abs(x), .scalar = INFINITY)
                         : up       ? mx_equal_scalar(x, .scalar = INFINITY)
                         : down     ? mx_equal_scalar(x, .scalar = -INFINITY)
                                    : mx_zeros_like(x);
        n->out[0] = mx_cast(over, .dtype = MX_BOOL);
    }
    return MX_OK;
}

const mx_onnx_row mx_onnx_pointwise[] = {
    SAME("Abs", "abs"),
    SAME("Neg", "negative"),
    SAME("Exp", "exp"),
    SAME("Log", "log"),
    SAME("Sqrt", "sqrt"),
    SAME("Reciprocal", "reciprocal"),
    SAME("Sin", "sin"),
    SAME("Cos", "cos"),
    SAME("Tan", "tan"),
    SAME("Asin", "arcsin"),
    SAME("Acos", "arccos"),
    SAME("Atan", "arctan"),
    SAME("Sinh", "sinh"),
    SAME("Cosh", "cosh"),
    SAME("Asinh", "arcsinh"),
    SAME("Acosh", "arccosh"),
    SAME("Atanh", "arctanh"),
    SAME("Erf", "erf"),
    SAME("Sign", "sign"),
    SAME("Ceil", "ceil"),
    SAME("Floor", "floor"),
    READ_SAME("Round", "rint", read_round),
    SAME("Add", "broadcast_add"),
    SAME("Add", "elemwise_add"),
    WRITE("Add", "_plus_scalar", write_scalar),
    SAME("Sub", "broadcast_sub"),
    SAME("Sub", "elemwise_sub"),
    WRITE("Sub", "_minus_scalar", write_scalar),
    WRITE("Sub", "_rminus_scalar", write_reversed),
    SAME("Mul", "broadcast_mul"),
    SAME("Mul", "elemwise_mul"),
    WRITE("Mul", "_mul_scalar", write_scalar),
    READ_SAME("Div", "broadcast_div", read_div),
    READ_SAME("Div", "elemwise_div", read_div),
    WRITE("Div", "_div_scalar", write_scalar),
    WRITE("Div", "_rdiv_scalar", write_reversed),
    BOTH("Mod", "broadcast_mod", read_mod, write_mod),
    WRITE(NULL, "_mod", write_mod),
    WRITE(NULL, "_mod_scalar", write_mod_scalar),
    WRITE(NULL, "_rmod_scalar", write_mod_reversed),
    READ_SAME("Pow", "broadcast_power", read_pow),
    READ_SAME("Pow", "_power", read_pow),
    WRITE("Pow", "_power_scalar", write_scalar),
    WRITE("Pow", "_rpower_scalar", write_reversed),
    READ_SAME("Max", "broadcast_maximum", read_many),
    READ_SAME("Max", "_maximum", read_many),
    WRITE("Max", "_maximum_scalar", write_scalar),
    READ_SAME("Min", "broadcast_minimum", read_many),
    READ_SAME("Min", "_minimum", read_many),
    WRITE("Min", "_minimum_scalar", write_scalar),
    BOTH("Sum", "add_n", read_many, write_many),
    READ("Mean", read_many),
    WRITE(NULL, "broadcast_hypot", write_hypot),
    WRITE(NULL, "_hypot", write_hypot),
    WRITE(NULL, "_hypot_scalar", write_hypot_scalar),
    WRITE(NULL, "smooth_l1", write_smooth_l1),
    WRITE(NULL, "amp_multicast", write_casts),
    WRITE(NULL, "_contrib_round_ste", write_round),
    SAME("Sign", "_contrib_sign_ste"),
    WRITE(NULL, "square", write_square),
    WRITE(NULL, "rsqrt", write_rsqrt),
    WRITE(NULL, "cbrt", write_cbrt),
    WRITE(NULL, "rcbrt", write_rcbrt),
    WRITE(NULL, "log10", write_log10),
    WRITE(NULL, "log2", write_log2),
    WRITE(NULL, "log1p", write_log1p),
    WRITE(NULL, "expm1", write_expm1),
    WRITE(NULL, "degrees", write_degrees),
    WRITE(NULL, "radians", write_radians),
    WRITE(NULL, "trunc", write_trunc),
    WRITE(NULL, "fix", write_trunc),
    WRITE(NULL, "round", write_round),
    BOTH("Clip", "clip", read_clip, write_clip),
    WRITE(NULL, "_contrib_quadratic", write_quadratic),
    WRITE(NULL, "_contrib_div_sqrt_dim", write_div_sqrt_dim),
    READ("IsNaN", read_is),
    READ("IsInf", read_is),
    {0}};
