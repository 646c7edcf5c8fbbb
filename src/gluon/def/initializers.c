/* The initializers: initial values of parameters.
 *
 * Each depends on the parameter's shape, not on its name.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/block/initialize.h"
#include "ndarray/array.h"

static mx_code fill_zero(const void *options, const char *name, mx_array *array)
{
    (void)options, (void)name;
    return mx_array_fill(array, 0);
}

static mx_code fill_one(const void *options, const char *name, mx_array *array)
{
    (void)options, (void)name;
    return mx_array_fill(array, 1);
}

/* ---- Constant ---------------------------------------------------------------------------------------------------- */
#define CONSTANT_OPTIONS(X) X(FLOAT, value, REQUIRED, "", "value of every element")
MX_ATTRS(constant, CONSTANT_OPTIONS)

static mx_code fill_constant(const void *options, const char *name, mx_array *array)
{
    (void)name;
    return mx_array_fill(array, ((const mx_constant_attrs *)options)->value);
}

/* ---- Uniform and Normal ------------------------------------------------------------------------------------------ */
#define UNIFORM_OPTIONS(X) X(FLOAT, scale, "0.07", "", "values are in [-scale, scale]")
MX_ATTRS(uniform, UNIFORM_OPTIONS)

static mx_code fill_uniform(const void *options, const char *name, mx_array *array)
{
    const double scale = ((const mx_uniform_attrs *)options)->scale;
    (void)name;
    return mx_draw_uniform(array, -scale, scale);
}

#define NORMAL_OPTIONS(X) X(FLOAT, sigma, "0.01", "0..", "standard deviation")
MX_ATTRS(normal, NORMAL_OPTIONS)

static mx_code fill_normal(const void *options, const char *name, mx_array *array)
{
    (void)name;
    return mx_draw_normal(array, 0, ((const mx_normal_attrs *)options)->sigma);
}

/* ---- Xavier and MSRAPrelu ---------------------------------------------------------------------------------------- */
#define XAVIER_OPTIONS(X) \
    X(STR, rnd_type, "uniform", "", "uniform or gaussian") \
    X(STR, factor_type, "avg", "", "what the scale is divided by: avg, in or out (the fans)") \
    X(FLOAT, magnitude, "3", "0..", "the variance is magnitude / factor")
MX_ATTRS(xavier, XAVIER_OPTIONS)
#define MSRA_OPTIONS(X) \
    X(STR, factor_type, "avg", "", "avg, in or out") \
    X(FLOAT, slope, "0.25", "", "initial slope of the PReLU that follows")
MX_ATTRS(msra, MSRA_OPTIONS)

#define DISTRIBUTIONS "uniform|gaussian"
#define FACTORS "avg|in|out"

static mx_code check_xavier(const void *options)
{
    const mx_xavier_attrs *o = options;
    int choice;
    mx_code code = mx_option_choice("Xavier", "rnd_type", o->rnd_type, DISTRIBUTIONS, &choice);
    return code ? code : mx_option_choice("Xavier", "factor_type", o->factor_type, FACTORS, &choice);
}

static mx_code check_msra(const void *options)
{
    int choice;
    return mx_option_choice("MSRAPrelu", "factor_type", ((const mx_msra_attrs *)options)->factor_type, FACTORS,
                            &choice);
}

/* A weight (out, in, window ...): fan_in = in * window, fan_out = out * window. */
static mx_code fan_factor(const char *who, const char *name, const char *factor_type, const mx_array *array,
                          double *factor)
{
    char text[MX_SHAPE_TEXT];
    mx_shape_t shape = mx_array_shape(array);
    if (shape.ndim < 2)
        return mx_fail(MX_ERR_SHAPE,
                       "%s: parameter %s has shape %s, wanted two axes or more; give it another initializer", who, name,
                       mx_shape_text(&shape, text));
    double window = 1;
    for (int i = 2; i < shape.ndim; i++)
        window *= (double)shape.dim[i];
    const double fan_in = (double)shape.dim[1] * window, fan_out = (double)shape.dim[0] * window;
    *factor = !strcmp(factor_type, "avg") ? (fan_in + fan_out) / 2 : !strcmp(factor_type, "in") ? fan_in : fan_out;
    return MX_OK;
}

static mx_code fill_scaled(const char *who, const char *name, bool gaussian, const char *factor_type, double magnitude,
                           mx_array *array)
{
    double factor = 1;
    mx_code code = fan_factor(who, name, factor_type, array, &factor);
    if (code || !array->size)
        return code;
    const double scale = sqrt(magnitude / factor);
    return gaussian ? mx_draw_normal(array, 0, scale) : mx_draw_uniform(array, -scale, scale);
}

static mx_code fill_xavier(const void *options, const char *name, mx_array *array)
{
    const mx_xavier_attrs *o = options;
    return fill_scaled("Xavier", name, !strcmp(o->rnd_type, "gaussian"), o->factor_type, o->magnitude, array);
}

static mx_code fill_msra(const void *options, const char *name, mx_array *array)
{
    const mx_msra_attrs *o = options;
    return fill_scaled("MSRAPrelu", name, true, o->factor_type, 2 / (1 + o->slope * o->slope), array);
}

/* ---- Orthogonal -------------------------------------------------------------------------------------------------- */
#define ORTHOGONAL_OPTIONS(X) \
    X(FLOAT, scale, "1.414", "", "length of the vectors") \
    X(STR, rand_type, "uniform", "", "distribution of the random numbers: uniform or normal")
MX_ATTRS(orthogonal, ORTHOGONAL_OPTIONS)

static mx_code check_orthogonal(const void *options)
{
    int choice;
    return mx_option_choice("Orthogonal", "rand_type", ((const mx_orthogonal_attrs *)options)->rand_type,
                            "uniform|normal", &choice);
}

/* The weight is treated as a matrix (shape[0], the rest); its rows (or columns) become orthogonal. */
static mx_code fill_orthogonal(const void *options, const char *name, mx_array *array)
{
    const mx_orthogonal_attrs *o = options;
    (void)name;
    const int64_t rows = array->ndim ? array->shape[0] : 1, columns = rows ? array->size / rows : 0;
    const bool normal = !strcmp(o->rand_type, "normal");
    if (!array->size || (normal ? mx_draw_normal(array, 0, 1) : mx_draw_uniform(array, -1, 1)))
        return array->size ? mx_error_code() : MX_OK;
    const size_t bytes = (size_t)array->size * sizeof(double);
    double *matrix = mx_alloc(bytes);
    if (!matrix)
        return mx_error_code();
    mx_code code = mx_array_read_doubles(array, matrix, array->size);
    if (!code)
        code = mx_orthonormalize(matrix, rows, columns);
    for (int64_t i = 0; i < array->size; i++)
        matrix[i] *= o->scale;
    if (!code)
        code = mx_array_write_doubles(array, matrix, array->size);
    mx_free(matrix, bytes);
    return code;
}

/* ---- Bilinear ---------------------------------------------------------------------------------------------------- */

/* Weights (..., h, w) of a transposed convolution that interpolates: a tent over the width, the same in both axes. */
static mx_code fill_bilinear(const void *options, const char *name, mx_array *array)
{
    char text[MX_SHAPE_TEXT];
    mx_shape_t shape = mx_array_shape(array);
    (void)options;
    if (shape.ndim < 4)
        return mx_fail(MX_ERR_SHAPE, "Bilinear: parameter %s has shape %s, wanted a weight (out, in, height, width)",
                       name, mx_shape_text(&shape, text));
    const int64_t height = shape.dim[2], width = shape.dim[3];
    const size_t bytes = (size_t)array->size * sizeof(double);
    double *values = mx_alloc(bytes);
    if (!values)
        return mx_error_code();
    const double half = ceil((double)width / 2), center = (2 * half - 1 - fmod(half, 2)) / (2 * half);
    for (int64_t i = 0; i < array->size; i++) {
        const double x = (double)(i % width), y = (double)(i / width % height);
        values[i] = (1 - fabs(x / half - center)) * (1 - fabs(y / half - center));
    }
    mx_code code = mx_array_write_doubles(array, values, array->size);
    mx_free(values, bytes);
    return code;
}

/* ---- LSTMBias ---------------------------------------------------------------------------------------------------- */
#define LSTM_BIAS_OPTIONS(X) X(FLOAT, forget_bias, "1.0", "", "bias of the forget gate; the others are zero")
MX_ATTRS(lstm_bias, LSTM_BIAS_OPTIONS)

/* Gates in, forget, cell, out: the second quarter is the forget gate's. */
static mx_code fill_lstm_bias(const void *options, const char *name, mx_array *array)
{
    const int64_t hidden = array->size / 4;
    const size_t bytes = (size_t)array->size * sizeof(double);
    (void)name;
    double *values = mx_alloc_zero(bytes);
    if (!values)
        return mx_error_code();
    for (int64_t i = hidden; i < 2 * hidden; i++)
        values[i] = ((const mx_lstm_bias_attrs *)options)->forget_bias;
    mx_code code = mx_array_write_doubles(array, values, array->size);
    mx_free(values, bytes);
    return code;
}

#define METHODS(...) &(const mx_initializer_methods){__VA_ARGS__}

mx_class mx_classes_initializers[] = {
    {.kind = MX_INITIALIZER, .name = "Zero", .aliases = "zeros", .doc = "all elements 0",
     .methods = METHODS(.fill = fill_zero)},
    {.kind = MX_INITIALIZER, .name = "One", .aliases = "ones", .doc = "all elements 1",
     .methods = METHODS(.fill = fill_one)},
    {.kind = MX_INITIALIZER, .name = "Constant", .doc = "all elements one value", .schema = &constant_schema,
     .positional = 1,
     .methods = METHODS(.fill = fill_constant)},
    {.kind = MX_INITIALIZER, .name = "Uniform", .doc = "uniform numbers in [-scale, scale]", .schema = &uniform_schema,
     .positional = 1, .methods = METHODS(.fill = fill_uniform)},
    {.kind = MX_INITIALIZER, .name = "Normal", .doc = "normal numbers around 0", .schema = &normal_schema,
     .positional = 1, .methods = METHODS(.fill = fill_normal)},
    {.kind = MX_INITIALIZER, .name = "Orthogonal", .doc = "orthogonal rows or columns of length scale",
     .schema = &orthogonal_schema, .methods = METHODS(.fill = fill_orthogonal, .check = check_orthogonal)},
    {.kind = MX_INITIALIZER, .name = "Xavier",
     .doc = "random numbers with variance magnitude / fan: keeps signals at one scale",
     .schema = &xavier_schema, .methods = METHODS(.fill = fill_xavier, .check = check_xavier)},
    {.kind = MX_INITIALIZER, .name = "MSRAPrelu", .doc = "Xavier for layers followed by PReLU (or ReLU, slope 0)",
     .schema = &msra_schema, .methods = METHODS(.fill = fill_msra, .check = check_msra)},
    {.kind = MX_INITIALIZER, .name = "Bilinear",
     .doc = "interpolation weights for upsampling by transposed convolution",
     .methods = METHODS(.fill = fill_bilinear)},
    {.kind = MX_INITIALIZER, .name = "LSTMBias", .doc = "zeros, but forget_bias for the forget gate",
     .schema = &lstm_bias_schema,
     .methods = METHODS(.fill = fill_lstm_bias)},
    {0},
};
