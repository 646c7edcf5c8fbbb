/* NumPy's distributions, from three sources: uniform, normal and exponential numbers.
 *
 * Parameters are numbers or arrays that broadcast to `size`; what is computed from them is differentiable:
 * normal is loc + scale * z, so gradients reach loc and scale.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/error.h"
#include "op/expand.h"

#define SIZE_ATTRS(X) \
    X(DIMS, size, "None", "", "the shape; None: that of the parameters") \
    X(DTYPE, dtype, "None", "", "the type; None: the default float") \
    X(CTX, ctx, "None", "", "the context; None: that of the parameters, or the current one")
MX_ATTRS(np_random, SIZE_ATTRS)
#define RANDINT_ATTRS(X) \
    X(INT, low, REQUIRED, "", "the smallest number") \
    X(INT, high, REQUIRED, "", "the end, not included") \
    X(DIMS, size, "()", "", "the shape") \
    X(DTYPE, dtype, "int64", "", "the type, int32 or int64") \
    X(CTX, ctx, "None", "", "the context; None: the current one")
MX_ATTRS(np_randint, RANDINT_ATTRS)

/* One call: its shape, and the parameters as arrays or numbers. */
typedef struct drawing {
    mx_dims shape;
    mx_context ctx;
    mx_dtype dtype;
    mx_array *parameter[2]; /* not given: its default, a number */
} drawing;

static mx_code start(const mx_expand *call, drawing *d, double first, double second)
{
    const mx_np_random_attrs *attrs = call->attrs;
    const double usual[2] = {first, second};
    mx_shape_t shape = {.ndim = 0};
    d->ctx = attrs->ctx, d->dtype = attrs->dtype == MX_DTYPE_NONE ? mx_default_float() : attrs->dtype;
    for (int i = 0; i < 2; i++) {
        mx_array *x = i < call->n_in ? call->in[i] : MX_NONE;
        d->parameter[i] = x == MX_NONE ? mx_number_float(usual[i]) : x;
        if (!d->parameter[i])
            return mx_error_code();
        if (mx_is_number(d->parameter[i]))
            continue;
        const mx_shape_t own = mx_array_shape(x);
        if (!d->ctx.type)
            d->ctx = x->context;
        if (!mx_shape_broadcast(&shape, &own, &shape))
            return mx_op_fail(call->op, MX_ERR_SHAPE, "the shapes of the parameters do not broadcast");
    }
    d->shape = attrs->size.n >= 0 ? attrs->size : mx_dims_of_shape(&shape);
    return MX_OK;
}

/* Numbers of a source with its usual parameters. */
static mx_array *draw(const drawing *d, const char *op)
{
    mx_shape_t shape = mx_shape_of_dims(&d->shape);
    mx_dims sizes = d->shape;
    const bool one = !shape.ndim;
    char text[256], ctx[32];
    int used = 0;
    if (one)
        sizes = (mx_dims){.n = 1, .d = {1}};
    for (int i = 0; i < sizes.n; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%lld,", (long long)sizes.d[i]);
    const mx_context where = mx_context_resolve(d->ctx);
    mx_array *x = mx_expand_text(mx_op_find(op), 0, NULL, "shape=(%s), dtype=%s, ctx=%s", text, mx_dtype_name(d->dtype),
                                 mx_context_text(where, ctx));
    return one && x ? mx_g_reshape(x, &shape) : x;
}

/* Arithmetic by NumPy's rules with a parameter, which may be a number. */
static mx_array *with(const char *op, mx_array *a, mx_array *b)
{
    return a && b ? mx_g_call(mx_op_find(op), NULL, 2, (mx_array *const[]){a, b}) : NULL;
}
static mx_array *moved(const drawing *d, mx_array *z) /* first + second * z */
{
    mx_array *y = with("np.add", with("np.multiply", z, d->parameter[1]), d->parameter[0]);
    return mx_expand_cast(y, d->dtype);
}
static mx_code give(const mx_expand *call, const drawing *d, mx_array *y)
{
    return mx_expand_give(call, mx_expand_cast(y, d->dtype));
}

static mx_code normal(const mx_expand *call)
{
    drawing d;
    return start(call, &d, 0, 1) ? mx_error_code() : mx_expand_give(call, moved(&d, draw(&d, "_random_normal")));
}
static mx_code lognormal(const mx_expand *call)
{
    drawing d;
    return start(call, &d, 0, 1) ? mx_error_code()
                                 : mx_expand_give(call, mx_g1("exp", moved(&d, draw(&d, "_random_normal"))));
}
static mx_code uniform(const mx_expand *call)
{
    drawing d;
    if (start(call, &d, 0, 1))
        return mx_error_code();
    mx_array *width = with("np.subtract", d.parameter[1], d.parameter[0]);
    mx_array *y = with("np.multiply", draw(&d, "_random_uniform"), width);
    return give(call, &d, with("np.add", y, d.parameter[0]));
}
static mx_code exponential(const mx_expand *call)
{
    drawing d;
    return start(call, &d, 1, 1) ? mx_error_code()
                                 : give(call, &d, with("np.multiply", draw(&d, "_random_exponential"), d.parameter[0]));
}
/* loc - scale log(E) */
static mx_code gumbel(const mx_expand *call)
{
    drawing d;
    if (start(call, &d, 0, 1))
        return mx_error_code();
    mx_array *e = draw(&d, "_random_exponential");
    return mx_expand_give(call, e ? moved(&d, mx_g_neg(mx_g1("log", e))) : NULL);
}
/* The difference of two Gumbel numbers. */
static mx_code logistic(const mx_expand *call)
{
    drawing d;
    if (start(call, &d, 0, 1))
        return mx_error_code();
    mx_array *a = draw(&d, "_random_exponential"), *b = a ? draw(&d, "_random_exponential") : NULL;
    return mx_expand_give(call, b ? moved(&d, mx_g_sub(mx_g1("log", a), mx_g1("log", b))) : NULL);
}
/* scale sqrt(2 E) */
static mx_code rayleigh(const mx_expand *call)
{
    drawing d;
    if (start(call, &d, 1, 1))
        return mx_error_code();
    mx_array *e = draw(&d, "_random_exponential");
    return give(call, &d, e ? with("np.multiply", mx_g1("sqrt", mx_g_scale(e, 2)), d.parameter[0]) : NULL);
}
/* E to the power 1 / a */
static mx_code weibull(const mx_expand *call)
{
    drawing d;
    if (start(call, &d, 1, 1))
        return mx_error_code();
    mx_array *power = with("np.divide", mx_number_float(1), d.parameter[0]);
    return give(call, &d, with("np.power", draw(&d, "_random_exponential"), power));
}
/* exp(E / a) - 1 */
static mx_code pareto(const mx_expand *call)
{
    drawing d;
    if (start(call, &d, 1, 1))
        return mx_error_code();
    mx_array *x = with("np.divide", draw(&d, "_random_exponential"), d.parameter[0]);
    return give(call, &d, x ? mx_g1("expm1", x) : NULL);
}
/* (1 - exp(-E)) to the power 1 / a */
static mx_code power(const mx_expand *call)
{
    drawing d;
    if (start(call, &d, 1, 1))
        return mx_error_code();
    mx_array *e = draw(&d, "_random_exponential"), *inverse = with("np.divide", mx_number_float(1), d.parameter[0]);
    return give(call, &d, e ? with("np.power", mx_g_neg(mx_g1("expm1", mx_g_neg(e))), inverse) : NULL);
}
/* Gamma numbers of a shape parameter: an array of them is drawn from _sample_gamma. */
static mx_array *gamma_of(const drawing *d, mx_array *shape_parameter)
{
    const mx_shape_t shape = mx_shape_of_dims(&d->shape);
    mx_array *alpha = mx_is_number(shape_parameter) ? NULL : shape_parameter, *like = draw(d, "_random_uniform");
    if (!like)
        return NULL;
    alpha = alpha ? mx_expand_cast(alpha, d->dtype) : mx_expand_array(shape_parameter, d->dtype, like);
    alpha = alpha ? mx_g_broadcast_to(alpha, &shape) : NULL;
    mx_array *one = alpha ? mx_g1("ones_like", alpha) : NULL;
    mx_array *flat = one && !shape.ndim ? mx_expand1("Reshape", alpha, "shape=(1,)") : alpha;
    one = flat != alpha ? mx_expand1("Reshape", one, "shape=(1,)") : one;
    mx_array *y = one ? mx_g2("_sample_gamma", flat, one) : NULL;
    return y ? mx_g_reshape(y, &shape) : NULL;
}
static mx_code gamma_numbers(const mx_expand *call)
{
    drawing d;
    return start(call, &d, 1, 1) ? mx_error_code()
                                 : give(call, &d, with("np.multiply", gamma_of(&d, d.parameter[0]), d.parameter[1]));
}
static mx_code beta(const mx_expand *call)
{
    drawing d;
    if (start(call, &d, 1, 1))
        return mx_error_code();
    mx_array *a = gamma_of(&d, d.parameter[0]), *b = a ? gamma_of(&d, d.parameter[1]) : NULL;
    return give(call, &d, b ? mx_g_div(a, mx_g_add(a, b)) : NULL);
}
static mx_code chisquare(const mx_expand *call)
{
    drawing d;
    if (start(call, &d, 1, 1))
        return mx_error_code();
    mx_array *half = with("np.divide", d.parameter[0], mx_number_float(2));
    mx_array *x = half ? gamma_of(&d, half) : NULL;
    return give(call, &d, x ? mx_g_scale(x, 2) : NULL);
}

static mx_code randint(const mx_expand *call)
{
    const mx_np_randint_attrs *attrs = call->attrs;
    const bool one = attrs->size.n == 0;
    struct { int64_t low, high; mx_dims shape; mx_context ctx; mx_dtype dtype; } chosen = {
        attrs->low, attrs->high, one ? (mx_dims){.n = 1, .d = {1}} : attrs->size, attrs->ctx, attrs->dtype};
    if (attrs->low >= attrs->high)
        return mx_op_fail(call->op, MX_ERR_ATTRIBUTE, "low is %lld, high %lld: there is no number between them",
                          (long long)attrs->low, (long long)attrs->high);
    const bool narrow = attrs->dtype != MX_INT32 && attrs->dtype != MX_INT64;
    chosen.dtype = narrow ? MX_INT64 : attrs->dtype;
    mx_array *x = mx_g_call(MX_OP("_random_randint"), &chosen, 0, NULL);
    const mx_shape_t nothing = {.ndim = 0};
    return mx_expand_give(call, mx_expand_cast(one && x ? mx_g_reshape(x, &nothing) : x, attrs->dtype));
}

// clang-format off
#define DRAW(id, function, inputs_, doc_) \
    {.name = "np.random." #id, .c_name = "np_random_" #id, .doc = doc_, .inputs = inputs_, .schema = &np_random_schema, \
     .flags = MX_OP_EXPANDS | MX_OP_RANDOM, .user = &(mx_expansion){function, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
mx_op mx_family_np_random[] = {
    DRAW(uniform, uniform, "low? high?", "uniform numbers from low up to high")
    DRAW(normal, normal, "loc? scale?", "normal numbers with mean loc and standard deviation scale")
    DRAW(lognormal, lognormal, "mean? sigma?", "the exponential of normal numbers")
    DRAW(exponential, exponential, "scale?", "exponential numbers with mean scale")
    DRAW(gumbel, gumbel, "loc? scale?", "numbers of the Gumbel distribution")
    DRAW(logistic, logistic, "loc? scale?", "numbers of the logistic distribution")
    DRAW(rayleigh, rayleigh, "scale?", "numbers of the Rayleigh distribution")
    DRAW(weibull, weibull, "a", "numbers of the Weibull distribution")
    DRAW(pareto, pareto, "a", "numbers of the Pareto distribution")
    DRAW(power, power, "a", "numbers in [0, 1] of the power distribution")
    DRAW(gamma, gamma_numbers, "shape scale?", "numbers of the gamma distribution")
    DRAW(beta, beta, "a b", "numbers of the beta distribution")
    DRAW(chisquare, chisquare, "df", "numbers of the chi-square distribution")
    {.name = "np.random.randint", .c_name = "np_random_randint", .doc = "integers from low up to, not including, high",
     .flags = MX_OP_EXPANDS | MX_OP_RANDOM | MX_OP_CREATE, .schema = &np_randint_schema,
     .user = &(mx_expansion){randint, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
    {0},
};
