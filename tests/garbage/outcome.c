/* Comparing outcomes (see outcome.h).  SPDX-License-Identifier: Apache-2.0 */
#include "outcome.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "ndarray/convert.h"

const char *outcome_wrong(const char *format, ...)
{
    static char text[1024];
    char next[sizeof text]; /* an argument may be the last text */
    va_list args;
    va_start(args, format);
    vsnprintf(next, sizeof next, format, args);
    va_end(args);
    return memcpy(text, next, sizeof text);
}

void outcome_error(outcome *o, mx_code code)
{
    o->code = code ? code : MX_ERR_STATE;
    snprintf(o->message, sizeof o->message, "%s", mx_error_message());
    mx_error_clear();
}

static double element(const mx_array *x, int64_t i)
{
    double value;
    mx_convert(&value, MX_FLOAT64, (const char *)mx_data(x) + i * mx_dtype_size((mx_dtype)x->dtype), (mx_dtype)x->dtype,
               1);
    return value;
}

/* Largest absolute value: sums of large numbers of both signs are compared with it. */
static double magnitude(const mx_array *x)
{
    double most = 0;
    for (int64_t i = 0; i < x->size; i++)
        if (isfinite(element(x, i)))
            most = fmax(most, fabs(element(x, i)));
    return most;
}

static bool agree(double a, double b, double allowed) { return a == b || (a != a && b != b) || fabs(a - b) <= allowed; }

/* NULL if two dense arrays have the same type, shape and elements. */
static const char *difference(const char *what, int i, mx_array *a, mx_array *b, double tolerance)
{
    a = mx_array_to(a, mx_cpu(0)), b = mx_array_to(b, mx_cpu(0));
    if (!a || !b) { /* a GPU's refusal comes when a result is read */
        mx_error_clear();
        return NULL;
    }
    mx_shape_t shape = ops_shape_of(b);
    if (a->dtype != b->dtype || !ops_shape_is(a, &shape))
        return outcome_wrong("%s %d has another type or shape: %s, %s", what, i, mx_dtype_name((mx_dtype)a->dtype),
                             mx_dtype_name((mx_dtype)b->dtype));
    if (!mx_bytes(a) || !memcmp(mx_data(a), mx_data(b), mx_bytes(a)))
        return NULL;
    const double coarse = a->dtype == MX_FLOAT16 || a->dtype == MX_BFLOAT16 ? 100 : 1;
    const double allowed = tolerance * coarse * (1 + magnitude(a));
    for (int64_t k = 0; k < a->size; k++)
        if (!agree(element(a, k), element(b, k), tolerance ? allowed : 0))
            return outcome_wrong("%s %d differs at %lld: %.17g, %.17g", what, i, (long long)k, element(a, k),
                                 element(b, k));
    return NULL;
}

const char *outcome_close(const char *way, const outcome *a, const outcome *b, double tolerance)
{
    const char *d = NULL;
    if (!a->code != !b->code)
        return outcome_wrong("%s: %s", way, a->code ? a->message : b->message);
    if (a->code)
        return NULL;
    if (a->n_out != b->n_out)
        return outcome_wrong("%s: %d outputs, not %d", way, b->n_out, a->n_out);
    for (int i = 0; i < a->n_out && !d; i++)
        d = difference("output", i, a->out[i], b->out[i], tolerance);
    for (int k = 0; a->backward && b->backward && k < a->n_in && !d; k++)
        if (a->grad[k] && b->grad[k])
            d = difference("gradient", k, a->grad[k], b->grad[k], tolerance);
    return d ? outcome_wrong("%s: %s", way, d) : NULL;
}

const char *outcome_compare(const char *way, const outcome *a, const outcome *b)
{
    /* GPUs may sum in another order; garbage makes large numbers cancel. */
    return outcome_close(way, a, b, mx_current_context().type == MX_GPU ? 0.05 : 0);
}
