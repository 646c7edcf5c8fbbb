/* Random numbers: both sides draw their own, of the same distribution.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "gluon/onnx/onnx.h"
#include "graph/call.h"
#include "ndarray/array.h"

/* ---- writing --------------------------------------------------------------------------------------------------- */

enum { UNIFORM, NORMAL, EXPONENTIAL };

static void set_numbers(mx_onnx_out *o, bool normal, double a, double b)
{
    mx_onnx_set_float(o, normal ? "mean" : "low", a);
    mx_onnx_set_float(o, normal ? "scale" : "high", b);
}

/* ONNX draws float32 and float64. */
static int drawn_type(int type) { return type == MX_FLOAT64 ? MX_FLOAT64 : MX_FLOAT32; }

/* New numbers of a shape, uniform in [a, b) or normal (a, b), in drawn_type(type). */
static const char *put_new(mx_onnx_out *o, const char *out, bool normal, double a, double b, const mx_shape_t *shape,
                           int type)
{
    const char *y = mx_onnx_node(o, out, normal ? "RandomNormal" : "RandomUniform", 0, NULL);
    set_numbers(o, normal, a, b);
    mx_onnx_set_int(o, "dtype", mx_onnx_type_for((mx_dtype)drawn_type(type))->code);
    mx_onnx_set_ints(o, "shape", shape->ndim, shape->dim);
    return y;
}

static const char *put_like(mx_onnx_out *o, bool normal, double a, double b, const char *like, int type)
{
    const char *y = mx_onnx_put(o, NULL, normal ? "RandomNormalLike" : "RandomUniformLike", like);
    set_numbers(o, normal, a, b);
    mx_onnx_set_int(o, "dtype", mx_onnx_type_for((mx_dtype)drawn_type(type))->code);
    return y;
}

/* -log(1 - u) of u in [0, 1) */
static const char *put_exponential(mx_onnx_out *o, const char *u, int type)
{
    const char *rest = mx_onnx_put(o, NULL, "Sub", mx_onnx_put_number(o, 1, drawn_type(type)), u);
    return mx_onnx_put(o, NULL, "Neg", mx_onnx_put(o, NULL, "Log", rest));
}

static mx_code write_drawn(mx_onnx_out *o, int kind, double a, double b)
{
    const int type = o->out_type[0];
    const char *y;
    if (o->n_in)
        y = put_like(o, kind == NORMAL, kind == EXPONENTIAL ? 0 : a, kind == EXPONENTIAL ? 1 : b, o->in[0], type);
    else
        y = put_new(o, NULL, kind == NORMAL, kind == EXPONENTIAL ? 0 : a, kind == EXPONENTIAL ? 1 : b, &o->out_shape[0],
                    type);
    if (kind == EXPONENTIAL)
        y = mx_onnx_put(o, NULL, "Div", put_exponential(o, y, type), mx_onnx_put_number(o, a, drawn_type(type)));
    mx_onnx_put_cast(o, o->out[0], y, type);
    return mx_onnx_done(o);
}

/* The numbers of a distribution are the first fields, with and without `like`. */
static mx_code write_uniform(mx_onnx_out *o)
{
    const mx_random_uniform_like_attrs *a = o->attrs;
    return write_drawn(o, UNIFORM, a->low, a->high);
}
static mx_code write_normal(mx_onnx_out *o)
{
    const mx_random_normal_like_attrs *a = o->attrs;
    return write_drawn(o, NORMAL, a->loc, a->scale);
}
static mx_code write_exponential(mx_onnx_out *o)
{
    return write_drawn(o, EXPONENTIAL, ((const mx_random_exponential_like_attrs *)o->attrs)->lam, 0);
}

static mx_code write_randint(mx_onnx_out *o)
{
    const mx_randint_attrs *a = o->attrs;
    const char *y = put_new(o, NULL, false, 0, 1, &o->out_shape[0], MX_FLOAT64);
    y = mx_onnx_put(o, NULL, "Mul", y, mx_onnx_put_number(o, (double)(a->high - a->low), MX_FLOAT64));
    y = mx_onnx_put(o, NULL, "Add", y, mx_onnx_put_number(o, (double)a->low, MX_FLOAT64));
    mx_onnx_put_cast(o, o->out[0], mx_onnx_put(o, NULL, "Floor", y), o->out_type[0]);
    return mx_onnx_done(o);
}

/* Parameters with further axes of the draws. */
static const char *put_wide(mx_onnx_out *o, int i, const mx_dims *more)
{
    const int rank = o->in_shape[i].ndim;
    int64_t axes[MX_MAX_NDIM], shape[MX_MAX_NDIM];
    const char *x = mx_onnx_put_cast(o, NULL, o->in[i], drawn_type(o->out_type[0]));
    if (more->n < 1)
        return x;
    for (int k = 0; k < rank + more->n; k++)
        shape[k] = k < rank ? 1 : more->d[k - rank];
    for (int k = 0; k < more->n; k++)
        axes[k] = rank + k;
    x = mx_onnx_put(o, NULL, "Unsqueeze", x, mx_onnx_put_ints(o, more->n, axes));
    return mx_onnx_put(o, NULL, "Expand", x, mx_onnx_put_ints(o, rank + more->n, shape));
}

static mx_code write_sample(mx_onnx_out *o, int kind)
{
    const mx_sample_attrs *a = o->attrs;
    const int type = drawn_type(o->out_type[0]);
    if (mx_onnx_out_rank(o, 0) < 0)
        return mx_error_code();
    const char *first = put_wide(o, 0, &a->shape), *second = o->n_in > 1 ? put_wide(o, 1, &a->shape) : NULL;
    const char *y = put_like(o, kind == NORMAL, 0, 1, first, type);
    if (kind == EXPONENTIAL)
        y = mx_onnx_put(o, NULL, "Div", put_exponential(o, y, type), first);
    else {
        const char *width = kind == NORMAL ? second : mx_onnx_put(o, NULL, "Sub", second, first);
        y = mx_onnx_put(o, NULL, "Add", mx_onnx_put(o, NULL, "Mul", y, width), first);
    }
    mx_onnx_put_cast(o, o->out[0], y, o->out_type[0]);
    return mx_onnx_done(o);
}
static mx_code write_sample_uniform(mx_onnx_out *o) { return write_sample(o, UNIFORM); }
static mx_code write_sample_normal(mx_onnx_out *o) { return write_sample(o, NORMAL); }
static mx_code write_sample_exponential(mx_onnx_out *o) { return write_sample(o, EXPONENTIAL); }

/* Rows of probabilities (rows, classes); their logarithms at the draws. */
static mx_code write_multinomial(mx_onnx_out *o)
{
    const mx_multinomial_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    const int64_t classes = rank < 1 ? -1 : o->in_shape[0].dim[rank - 1];
    int64_t draws = 1, shape[MX_MAX_NDIM], unknown = 0;
    for (int i = 0; i < a->shape.n; i++)
        draws *= a->shape.d[i];
    for (int i = 0; i < o->out_shape[0].ndim; i++)
        unknown += (shape[i] = o->out_shape[0].dim[i]) < 0;
    if (classes < 1 || unknown > 1)
        return mx_onnx_refuse(o, "its shapes are not known; give the shapes of the inputs");
    const char *p = mx_onnx_put_cast(o, NULL, o->in[0], MX_FLOAT32);
    const char *rows = mx_onnx_put(o, NULL, "Log", mx_onnx_put_shaped(o, NULL, p, MX_ONNX_LIST(-1, classes)));
    const char *y = mx_onnx_put(o, NULL, "Multinomial", rows);
    mx_onnx_set_int(o, "sample_size", draws);
    mx_onnx_set_int(o, "dtype", MX_ONNX_INT64);
    if (a->get_prob) {
        const char *logs = mx_onnx_put(o, NULL, "GatherElements", rows, y);
        mx_onnx_set_int(o, "axis", 1);
        mx_onnx_put_cast(o, o->out[1], mx_onnx_put_shaped(o, NULL, logs, o->out_shape[0].ndim, shape), o->out_type[1]);
    }
    mx_onnx_put_cast(o, o->out[0], mx_onnx_put_shaped(o, NULL, y, o->out_shape[0].ndim, shape), o->out_type[0]);
    return mx_onnx_done(o);
}

/* The order of random numbers. */
static mx_code write_shuffle(mx_onnx_out *o)
{
    const char *shape = mx_onnx_put(o, NULL, "Shape", o->in[0]);
    const char *size = mx_onnx_put_part(o, NULL, shape, 0, 0, 1);
    const char *zeros = mx_onnx_put(o, NULL, "Expand", mx_onnx_put_number(o, 0, MX_FLOAT32), size);
    const char *keys = put_like(o, false, 0, 1, zeros, MX_FLOAT32);
    mx_onnx_put(o, NULL, "TopK", keys, size);
    mx_onnx_put_choice(o, o->out[0], o->in[0], mx_onnx_more(o, NULL), 0);
    return mx_onnx_done(o);
}

/* ---- densities ------------------------------------------------------------------------------------------------- */

/* Parameters with axes of size 1 where only samples have one. */
static const char *put_open(mx_onnx_out *o, int i)
{
    int64_t axes[MX_MAX_NDIM];
    const int n = o->in_shape[0].ndim - o->in_shape[i].ndim;
    for (int k = 0; k < n; k++)
        axes[k] = o->in_shape[i].ndim + k;
    return n > 0 ? mx_onnx_put(o, NULL, "Unsqueeze", o->in[i], mx_onnx_put_ints(o, n, axes)) : o->in[i];
}

static mx_code write_density(mx_onnx_out *o, const char *log_density)
{
    const bool log = ((const mx_random_pdf_attrs *)o->attrs)->is_log;
    mx_onnx_put(o, o->out[0], log ? "Identity" : "Exp", log_density);
    return mx_onnx_done(o);
}

/* -log(high - low) */
static mx_code write_pdf_uniform(mx_onnx_out *o)
{
    const char *width = mx_onnx_put(o, NULL, "Sub", put_open(o, 2), put_open(o, 1));
    const char *level = mx_onnx_put(o, NULL, "Reciprocal", width);
    level = mx_onnx_put(o, NULL, "Expand", level, mx_onnx_put(o, NULL, "Shape", o->in[0]));
    const bool log = ((const mx_random_pdf_attrs *)o->attrs)->is_log;
    mx_onnx_put(o, o->out[0], log ? "Log" : "Identity", level);
    return mx_onnx_done(o);
}

/* -u^2 / 2 - log(sigma sqrt(2 pi)), u = (x - mu) / sigma */
static mx_code write_pdf_normal(mx_onnx_out *o)
{
    const char *sigma = put_open(o, 2), *away = mx_onnx_put(o, NULL, "Sub", o->in[0], put_open(o, 1));
    const char *u = mx_onnx_put(o, NULL, "Div", away, sigma);
    const char *half = mx_onnx_put_with(o, NULL, "Mul", mx_onnx_put(o, NULL, "Mul", u, u), -0.5);
    const char *wide = mx_onnx_put_with(o, NULL, "Mul", sigma, sqrt(2 * acos(-1.0)));
    return write_density(o, mx_onnx_put(o, NULL, "Sub", half, mx_onnx_put(o, NULL, "Log", wide)));
}

/* log(lam) - lam x */
static mx_code write_pdf_exponential(mx_onnx_out *o)
{
    const char *lam = put_open(o, 1), *down = mx_onnx_put(o, NULL, "Mul", lam, o->in[0]);
    return write_density(o, mx_onnx_put(o, NULL, "Sub", mx_onnx_put(o, NULL, "Log", lam), down));
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static mx_dtype wanted_type(mx_onnx_in *n, mx_dtype fallback)
{
    const mx_onnx_type *type = mx_onnx_type_of(mx_onnx_int(n, "dtype", 0));
    return type && type->dtype != MX_DTYPE_NONE ? type->dtype : fallback;
}

/* Draws stay in the graph: every run gets new numbers. */
static mx_code read_new(mx_onnx_in *n)
{
    mx_dims shape;
    if (!mx_onnx_ints(n, "shape", &shape))
        return mx_error_code();
    const mx_dtype type = wanted_type(n, MX_FLOAT32);
    if (!mx_dtype_is_float(type) || shape.n < 0)
        return mx_onnx_fail(n, MX_ERR_FILE, "its type is not a floating one, or it has no shape");
    if (!strcmp(n->op, "RandomNormal")) {
        const mx_random_normal_attrs a = {.loc = mx_onnx_float(n, "mean", 0), .scale = mx_onnx_float(n, "scale", 1),
                                          .shape = shape, .dtype = type};
        return mx_graph_call(mx_op_find("_random_normal"), &a, 0, NULL, 1, n->out);
    }
    const mx_random_uniform_attrs a = {.low = mx_onnx_float(n, "low", 0), .high = mx_onnx_float(n, "high", 1),
                                       .shape = shape, .dtype = type};
    return mx_graph_call(mx_op_find("_random_uniform"), &a, 0, NULL, 1, n->out);
}

static mx_array *drawn_like(mx_onnx_in *n, bool normal, double a, double b, mx_dtype type)
{
    mx_array *x = mx_onnx_cast(mx_onnx_variable(n, 0), type);
    return normal ? mx_random_normal_like(x, .loc = a, .scale = b) : mx_random_uniform_like(x, .low = a, .high = b);
}

static mx_code read_like(mx_onnx_in *n)
{
    const bool normal = !strcmp(n->op, "RandomNormalLike");
    const mx_dtype type = wanted_type(n, (mx_dtype)n->in[0]->dtype);
    if (!mx_dtype_is_float(type))
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "its result is not of a floating type");
    n->out[0] = drawn_like(n, normal, mx_onnx_float(n, normal ? "mean" : "low", 0),
                           mx_onnx_float(n, normal ? "scale" : "high", 1), type);
    return MX_OK;
}

/* 1 with the probability that the input says */
static mx_code read_bernoulli(mx_onnx_in *n)
{
    const mx_dtype own = (mx_dtype)n->in[0]->dtype;
    mx_array *u = drawn_like(n, false, 0, 1, own);
    n->out[0] = mx_onnx_cast(mx_lesser(u, mx_onnx_variable(n, 0)), wanted_type(n, own));
    return MX_OK;
}

/* Logarithms of probabilities, perhaps not normalized (rows, classes). */
static mx_code read_multinomial(mx_onnx_in *n)
{
    mx_array *p = mx_softmax(mx_onnx_variable(n, 0), .axis = -1);
    n->out[0] =
        mx_sample_multinomial(p, .shape = MX_DIMS(mx_onnx_int(n, "sample_size", 1)), .dtype = wanted_type(n, MX_INT32));
    return MX_OK;
}

const mx_onnx_row mx_onnx_random[] = {
    BOTH("RandomUniform", "_random_uniform", read_new, write_uniform),
    BOTH("RandomNormal", "_random_normal", read_new, write_normal),
    BOTH("RandomUniformLike", "_random_uniform_like", read_like, write_uniform),
    BOTH("RandomNormalLike", "_random_normal_like", read_like, write_normal),
    WRITE(NULL, "_random_exponential", write_exponential),
    WRITE(NULL, "_random_exponential_like", write_exponential),
    WRITE(NULL, "_random_randint", write_randint),
    WRITE(NULL, "_sample_uniform", write_sample_uniform),
    WRITE(NULL, "_sample_normal", write_sample_normal),
    WRITE(NULL, "_sample_exponential", write_sample_exponential),
    BOTH("Multinomial", "_sample_multinomial", read_multinomial, write_multinomial),
    READ("Bernoulli", read_bernoulli),
    WRITE(NULL, "_shuffle", write_shuffle),
    WRITE(NULL, "_random_pdf_uniform", write_pdf_uniform),
    WRITE(NULL, "_random_pdf_normal", write_pdf_normal),
    WRITE(NULL, "_random_pdf_exponential", write_pdf_exponential),
    {0}};
