/* Random samplers, generated from the table in op/formula/random.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/random.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "op/op.h"

/* ---- attributes ------------------------------------------------------------------------------------------- */

#define UNIFORM_NUMBERS(X) X(FLOAT, low, "0.0", "", "lower bound") X(FLOAT, high, "1.0", "", "upper bound, not included")
#define NORMAL_NUMBERS(X) X(FLOAT, loc, "0.0", "", "mean") X(FLOAT, scale, "1.0", "0..", "standard deviation")
#define GAMMA_NUMBERS(X) X(FLOAT, alpha, "1.0", "0..", "shape") X(FLOAT, beta, "1.0", "0..", "scale")
#define EXPONENTIAL_NUMBERS(X) X(FLOAT, lam, "1.0", "0..", "rate")
#define POISSON_NUMBERS(X) X(FLOAT, lam, "1.0", "0..", "mean")
#define NEGATIVE_BINOMIAL_NUMBERS(X) \
    X(INT, k, "1", "0..", "number of successes") \
    X(FLOAT, p, "1.0", "0..1", "probability of success")
#define GENERALIZED_NUMBERS(X) X(FLOAT, mu, "1.0", "0..", "mean") X(FLOAT, alpha, "1.0", "0..", "dispersion")

#define PLACE(X) \
    X(DIMS, shape, "None", "", "shape of the result; None: (1,)") \
    X(CTX, ctx, "None", "", "device of the result; None: the current one") \
    X(DTYPE, dtype, "None", "", "element type of the result; None: float32")

#define NEW_uniform(X) UNIFORM_NUMBERS(X) PLACE(X)
#define NEW_normal(X) NORMAL_NUMBERS(X) PLACE(X)
#define NEW_gamma(X) GAMMA_NUMBERS(X) PLACE(X)
#define NEW_exponential(X) EXPONENTIAL_NUMBERS(X) PLACE(X)
#define NEW_poisson(X) POISSON_NUMBERS(X) PLACE(X)
#define NEW_negative_binomial(X) NEGATIVE_BINOMIAL_NUMBERS(X) PLACE(X)
#define NEW_generalized_negative_binomial(X) GENERALIZED_NUMBERS(X) PLACE(X)
#define SCHEMAS(id, NUMBERS, ...) MX_ATTRS(random_##id, NEW_##id) MX_ATTRS(random_##id##_like, NUMBERS)
MX_DISTRIBUTIONS(SCHEMAS)

#define RANDINT_ATTRS(X) \
    X(INT, low, REQUIRED, "", "lower bound") \
    X(INT, high, REQUIRED, "", "upper bound, not included") \
    X(DIMS, shape, "None", "", "shape of the result; None: (1,)") \
    X(CTX, ctx, "None", "", "device of the result; None: the current one") \
    X(DTYPE, dtype, "None", "", "integer type of the result; None: int32")
MX_ATTRS(randint, RANDINT_ATTRS)

#define SAMPLE_ATTRS(X) \
    X(DIMS, shape, "()", "", "shape of the draws per parameter, appended to the shape of the parameters") \
    X(DTYPE, dtype, "None", "", "element type of the result; None: that of the parameters")
MX_ATTRS(sample, SAMPLE_ATTRS)

/* ---- inference -------------------------------------------------------------------------------------------- */

/* The offsets of shape, ctx and dtype differ between the structs: they are found by name. */
static const void *field(const mx_infer *infer, const char *name)
{
    return (const char *)infer->attrs + mx_schema_find(infer->op->schema, name)->offset;
}

static mx_code infer_new(mx_infer *infer)
{
    const mx_dims *given = field(infer, "shape"), one = MX_DIMS(1);
    mx_shape_t shape = mx_shape_of_dims(given->n < 0 ? &one : given);
    return shape.ndim < 0 ? mx_error_code() : mx_infer_out(infer, 0, &shape);
}

static mx_code infer_new_type(mx_infer *infer)
{
    const mx_dtype given = *(const mx_dtype *)field(infer, "dtype");
    if (given != MX_DTYPE_NONE && !mx_dtype_is_float(given))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "dtype is %s, wanted a floating type", mx_dtype_name(given));
    return mx_infer_out_type(infer, 0, given == MX_DTYPE_NONE ? MX_FLOAT32 : (int)given);
}

static mx_code infer_randint_type(mx_infer *infer)
{
    const mx_randint_attrs *attrs = infer->attrs;
    if (attrs->dtype != MX_DTYPE_NONE && (mx_dtype_is_float(attrs->dtype) || attrs->dtype == MX_BOOL))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "dtype is %s, wanted an integer type",
                          mx_dtype_name(attrs->dtype));
    return mx_infer_out_type(infer, 0, attrs->dtype == MX_DTYPE_NONE ? MX_INT32 : (int)attrs->dtype);
}

static mx_code check_randint(const void *a)
{
    const mx_randint_attrs *attrs = a;
    if (attrs->low >= attrs->high)
        return mx_fail(MX_ERR_ATTRIBUTE, "_random_randint: low is %lld and high is %lld, wanted low < high",
                       (long long)attrs->low, (long long)attrs->high);
    return MX_OK;
}

static mx_code infer_sample(mx_infer *infer)
{
    const mx_sample_attrs *attrs = infer->attrs;
    for (int i = 1; i < infer->n_in; i++)
        if (mx_infer_in(infer, i, &infer->in[0]) || mx_infer_in(infer, 0, &infer->in[i]))
            return mx_error_code();
    mx_shape_t out = infer->in[0];
    if (out.ndim < 0)
        return MX_OK;
    for (int i = 0; i < attrs->shape.n; i++) {
        if (out.ndim == MX_MAX_NDIM || attrs->shape.d[i] < 0)
            return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE,
                              "shape has a negative size, or the result would have more than %d axes", MX_MAX_NDIM);
        out.dim[out.ndim++] = attrs->shape.d[i];
    }
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_sample_type(mx_infer *infer)
{
    const mx_sample_attrs *attrs = infer->attrs;
    for (int i = 1; i < infer->n_in; i++)
        if (mx_infer_in_type(infer, i, infer->in_type[0]))
            return mx_error_code();
    if (attrs->dtype != MX_DTYPE_NONE)
        return mx_infer_out_type(infer, 0, attrs->dtype);
    if (infer->in_type[0] == MX_DTYPE_NONE)
        return MX_OK;
    return mx_infer_out_type(infer, 0, mx_dtype_is_float(infer->in_type[0]) ? infer->in_type[0] : MX_FLOAT32);
}

/* ---- the table -------------------------------------------------------------------------------------------- */

#define USE(id, n, form) .user = &(const mx_random_use){MX_DRAW_##id, n, form}
#define NEW_SAMPLES                                                                                                   \
    (const mx_sample[]){{"", "shape=(2, 3)", 0, 0, "random"}, {"", "shape=(70,), dtype=float64", 0, 0, "random"},     \
                        {"", "shape=(5,), dtype=float16", 0, 0, "random"}, {"", "", 0, 0, "random"}, {0}}
#define LIKE_SAMPLES (const mx_sample[]){{"2,3", "", 0, 0, "random floatonly"}, {"130", "", 0, 0, "random floatonly"}, {0}}
#define SAMPLES_1 {"2,3", "", 0.2, 0.9, "random floatonly"}, {"4", "shape=(3,)", 0.2, 0.9, "random floatonly"}
#define SAMPLES_2 {"2,3;2,3", "", 0.2, 0.9, "random floatonly"}, {"4;4", "shape=(3, 2)", 0.2, 0.9, "random floatonly"}

// clang-format off
#define OPS(id, NUMBERS, inputs_, n, doc_) \
    {.name = "_random_" #id, .aliases = "random_" #id SHORT_##id, .doc = doc_, .schema = &random_##id##_schema, \
     .flags = MX_OP_CREATE | MX_OP_RANDOM | MX_OP_NO_GRADIENT, .infer_shape = infer_new, .infer_type = infer_new_type, \
     .samples = NEW_SAMPLES, USE(id, n, MX_RANDOM_NEW)}, \
    {.name = "_random_" #id "_like", .doc = doc_ ", with the shape of data", .inputs = "data", .schema = &random_##id##_like_schema, \
     .flags = MX_OP_RANDOM | MX_OP_ZERO_GRADIENT, .samples = LIKE_SAMPLES, USE(id, n, MX_RANDOM_LIKE)}, \
    {.name = "_sample_" #id, .aliases = "sample_" #id, .doc = doc_ ", for each element of the parameters", .inputs = inputs_, \
     .schema = &sample_schema, .flags = MX_OP_RANDOM | MX_OP_ZERO_GRADIENT, .infer_shape = infer_sample, .infer_type = infer_sample_type, \
     .samples = (const mx_sample[]){SAMPLES_##n, {0}}, USE(id, n, MX_RANDOM_SAMPLE)},
#define SHORT_uniform " uniform"
#define SHORT_normal " normal"
#define SHORT_gamma ""
#define SHORT_exponential ""
#define SHORT_poisson ""
#define SHORT_negative_binomial ""
#define SHORT_generalized_negative_binomial ""

mx_op mx_family_random[] = {
    MX_DISTRIBUTIONS(OPS)
    {.name = "_random_randint", .aliases = "random_randint _npi_random_randint", .doc = "uniformly distributed integers in [low, high)",
     .schema = &randint_schema, .flags = MX_OP_CREATE | MX_OP_RANDOM | MX_OP_NO_GRADIENT, .infer_shape = infer_new,
     .infer_type = infer_randint_type, .check = check_randint,
     .samples = (const mx_sample[]){{"", "low=-3, high=7, shape=(2, 3)", 0, 0, "random"},
                                    {"", "low=0, high=1000000, shape=(9,), dtype=int64", 0, 0, "random"}, {0}}},
    {0},
};
// clang-format on
