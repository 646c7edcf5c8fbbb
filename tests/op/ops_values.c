/* Values: every type against the reference, with fresh, given and aliased outputs and guarded windows.
 *
 * "The operator supports a type" means that the call succeeds; at least one type must be supported.  In low precision
 * the reference sees the rounded inputs, so that only the operator's own rounding is measured.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ops_check.h"

static const mx_dtype all_types[] = {MX_FLOAT32, MX_FLOAT64, MX_FLOAT16, MX_BFLOAT16, MX_INT32,
                                     MX_INT64,   MX_INT8,    MX_UINT8,   MX_BOOL,     MX_DTYPE_NONE};

double ops_tolerance(mx_dtype dtype)
{
    return dtype == MX_FLOAT64    ? 1e-11
           : dtype == MX_FLOAT32  ? 5e-6
           : dtype == MX_FLOAT16  ? 1.5e-3
           : dtype == MX_BFLOAT16 ? 1e-2
                                  : 0;
}

/* ---- comparing ------------------------------------------------------------------------------------------ */

static bool out_of_range(mx_dtype dtype, double x)
{
    static const double most[MX_DTYPE_END] = {
        [MX_FLOAT32] = 3e38, [MX_FLOAT64] = 1e300,      [MX_FLOAT16] = 65000, [MX_BFLOAT16] = 3e38, [MX_UINT8] = 255,
        [MX_INT8] = 127,     [MX_INT32] = 2147483647.0, [MX_INT64] = 9e18,    [MX_BOOL] = 1};
    const bool unsigned_type = dtype == MX_UINT8 || dtype == MX_BOOL;
    return x > most[dtype] || x < (unsigned_type ? 0 : -most[dtype]);
}

/* A fraction that is stored as an integer may be truncated or rounded. */
static bool close_enough(mx_dtype dtype, double got, double wanted, double allowed)
{
    if (isnan(wanted) || isnan(got))
        return isnan(got) && isnan(wanted);
    if (isinf(wanted) || isinf(got))
        return got == wanted;
    if (!mx_dtype_is_float(dtype))
        return wanted == floor(wanted) ? got == wanted : fabs(got - wanted) < 1;
    return fabs(got - wanted) <= allowed;
}

void ops_compare(const ops_case *c, const char *what, mx_dtype dtype, const double *got, const double *wanted,
                 int64_t n, double tolerance)
{
    double scale = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(wanted[i]) && fabs(wanted[i]) > scale)
            scale = fabs(wanted[i]);
    scale = scale > 1 ? fmin(scale, 1e3) : 1;
    for (int64_t i = 0; i < n; i++) {
        if (mx_dtype_is_float(dtype) ? !isinf(wanted[i]) && out_of_range(dtype, wanted[i])
                                     : isnan(wanted[i]) || out_of_range(dtype, wanted[i]))
            continue;
        if (!close_enough(dtype, got[i], wanted[i], tolerance * (fabs(wanted[i]) + scale))) {
            ops_fail(c, "%s, %s: element %lld is %.10g, wanted %.10g", what, mx_dtype_name(dtype), (long long)i, got[i],
                     wanted[i]);
            return;
        }
    }
}

static void compare_array(const ops_case *c, const char *what, const mx_array *got, const ops_values *wanted, int i,
                          mx_dtype precision)
{
    const mx_dtype dtype = (mx_dtype)got->dtype;
    char label[128], have[MX_SHAPE_TEXT], want[MX_SHAPE_TEXT];
    snprintf(label, sizeof label, "%s %d", what, i);
    if (!ops_shape_is(got, &wanted->shape[i])) {
        mx_shape_t shape = ops_shape_of(got);
        ops_fail(c, "%s has shape %s, wanted %s", label, mx_shape_text(&shape, have),
                 mx_shape_text(&wanted->shape[i], want));
        return;
    }
    double *values = malloc(((size_t)got->size + 1) * sizeof *values);
    if (mx_array_read_doubles(got, values, got->size))
        ops_check_error(c, label);
    double tolerance = ops_tolerance(dtype);
    if (mx_dtype_is_float(precision) && tolerance < ops_tolerance(precision))
        tolerance = ops_tolerance(precision);
    ops_compare(c, label, dtype, values, wanted->v[i], got->size, tolerance);
    ops_total.values += got->size;
    free(values);
}

/* All visible outputs, then the inputs that the operator writes. */
static void compare_call(const ops_case *c, const char *what, mx_array *const *in, mx_array *const *out,
                         const ops_values *wanted, mx_dtype precision)
{
    for (int i = 0; i < c->n_visible; i++)
        compare_array(c, what, out[i], wanted, i, precision);
    int extra = c->n_out;
    for (int k = 0; k < c->n_in; k++)
        if (ops_mutates(c->op, k) && !c->absent[k])
            compare_array(c, what, in[k], wanted, extra++, precision);
}

static void check_random(const ops_case *c, mx_array *const *out)
{
    for (int i = 0; i < c->n_visible; i++) {
        double *values = malloc(((size_t)out[i]->size + 1) * sizeof *values);
        mx_array_read_doubles(out[i], values, out[i]->size);
        for (int64_t k = 0; k < out[i]->size; k++)
            if (!isfinite(values[k])) {
                ops_fail(c, "random output %d: element %lld is %g", i, (long long)k, values[k]);
                break;
            }
        free(values);
    }
}

/* ---- one type ------------------------------------------------------------------------------------------- */

bool ops_wanted(const ops_case *c, const ops_values *in, const int *types, ops_values *wanted)
{
    mx_shape_t shapes[MX_MAX_OUTPUTS];
    int out_types[MX_MAX_OUTPUTS];
    wanted->n = 0;
    if (!ops_infer(c, in, types, shapes, out_types))
        return ops_check_error(c, "inference"), false;
    for (int i = 0; i < c->n_out; i++)
        ops_values_add(wanted, &shapes[i]);
    for (int k = 0; k < c->n_in; k++)
        if (ops_mutates(c->op, k) && !c->absent[k])
            ops_values_add(wanted, &in->shape[k]);
    if (!c->random && c->op->reference)
        ops_reference(c, in, wanted);
    return true;
}

static void check_untouched(const ops_case *c, const char *what, const ops_values *in, mx_array *const *arrays,
                            int except)
{
    for (int k = 0; k < c->n_in; k++) {
        if (c->absent[k] || ops_mutates(c->op, k) || k == except)
            continue;
        double *now = malloc(((size_t)in->size[k] + 1) * sizeof *now);
        mx_array_read_doubles(arrays[k], now, in->size[k]);
        if (memcmp(now, in->v[k], (size_t)in->size[k] * sizeof *now))
            ops_fail(c, "%s: input %d was changed", what, k);
        free(now);
    }
}

static void check_guards(const ops_case *c, mx_array *const *in, mx_array *const *out)
{
    for (int k = 0; k < c->n_in; k++)
        if (!c->absent[k] && !ops_guards_intact(in[k]))
            ops_fail(c, "bytes outside input %d were written", k);
    for (int i = 0; i < c->n_visible; i++)
        if (!ops_guards_intact(out[i]))
            ops_fail(c, "bytes outside output %d were written", i);
}

/* Windows in larger storages as inputs, and as outputs that hold garbage before. */
static void check_windows(const ops_case *c, const ops_values *in, const int *types, const ops_values *wanted,
                          mx_array *const *plain, mx_dtype dtype)
{
    MX_SCOPE;
    mx_array *arrays[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL};
    if (!ops_arrays(c, in, types, true, arrays))
        return;
    for (int i = 0; i < c->n_visible; i++)
        out[i] = ops_array(&wanted->shape[i], (mx_dtype)plain[i]->dtype, NULL, true);
    if (ops_run(c, arrays, out))
        return ops_fail(c, "with windows: %s", mx_error_message()), mx_error_clear();
    check_guards(c, arrays, out);
    check_untouched(c, "with windows", in, arrays, -1);
    if (c->random)
        check_random(c, out);
    else
        compare_call(c, "with windows, output", arrays, out, wanted, dtype);
}

/* out = one of the inputs. */
static void check_alias(const ops_case *c, const ops_values *in, const int *types, const ops_values *wanted,
                        int out_type, int k, mx_dtype dtype)
{
    MX_SCOPE;
    mx_array *arrays[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL};
    if (c->absent[k] || ops_mutates(c->op, k) || types[k] != out_type ||
        !mx_shape_equal(&in->shape[k], &wanted->shape[0]) || c->random || !ops_arrays(c, in, types, false, arrays))
        return;
    out[0] = arrays[k];
    if (ops_run(c, arrays, out))
        return ops_fail(c, "out is input %d: %s", k, mx_error_message()), mx_error_clear();
    if (out[0] != arrays[k])
        ops_fail(c, "out is input %d: another array came back", k);
    check_untouched(c, "aliased", in, arrays, k);
    compare_call(c, "aliased, output", arrays, out, wanted, dtype);
}

static void check_type(const ops_case *c, const ops_values *in, const int *types, mx_array *const *arrays,
                       mx_array *const *out, mx_dtype dtype)
{
    ops_values wanted;
    if (!ops_wanted(c, in, types, &wanted))
        return;
    check_untouched(c, "call", in, arrays, -1);
    if (c->random)
        check_random(c, out);
    else
        compare_call(c, "output", arrays, out, &wanted, dtype);
    check_windows(c, in, types, &wanted, out, dtype);
    for (int k = 0; k < c->n_in && c->n_visible; k++)
        check_alias(c, in, types, &wanted, out[0]->dtype, k, dtype);
    ops_values_free(&wanted);
}

/* 1: accepted, 0: the type is not supported (the error is still set), -1: the next choice of input types may work. */
static int try_type(const ops_case *c, const ops_values *in, mx_dtype dtype, int variant, bool check)
{
    MX_SCOPE;
    int types[OPS_MAX_IN];
    mx_array *arrays[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL};
    if (!ops_types(c, dtype, variant, types))
        return 0;
    mx_error_clear();
    if (!ops_arrays(c, in, types, false, arrays) || ops_run(c, arrays, out))
        return -1;
    ops_values seen; /* mixed types may round the inputs once more */
    ops_values_copy(&seen, in);
    for (int k = 0; k < c->n_in; k++)
        if (!c->absent[k] && !ops_mutates(c->op, k) && seen.size[k])
            mx_array_read_doubles(arrays[k], seen.v[k], seen.size[k]);
    if (check)
        check_type(c, &seen, types, arrays, out, dtype);
    ops_values_free(&seen);
    return 1;
}

static bool accepts(const ops_case *c, const ops_values *in, mx_dtype dtype, bool check)
{
    int result = -1;
    for (int variant = 0; result < 0; variant++)
        result = try_type(c, in, dtype, variant, check);
    return result > 0;
}

bool ops_check_values(const ops_case *c)
{
    bool any = false;
    char first_error[512] = "";
    for (const mx_dtype *t = all_types; *t != MX_DTYPE_NONE; t++) {
        ops_values in;
        if ((c->float_only && !mx_dtype_is_float(*t)) || (c->f32_only && *t != MX_FLOAT32 && *t != MX_FLOAT64) ||
            (!c->n_in && any) || !ops_draw(c, *t, &in))
            continue;
        if (accepts(c, &in, *t, true)) {
            any = true;
            ops_total.calls_accepted++;
        } else {
            if (!*first_error)
                snprintf(first_error, sizeof first_error, "%s", mx_error_message());
            ops_total.calls_declined++;
            ops_check_error(c, mx_dtype_name(*t));
        }
        ops_values_free(&in);
    }
    if (!any)
        ops_fail(c, "no type is accepted; the first error: %s", first_error);
    return any;
}

bool ops_first_type(const ops_case *c, const mx_dtype *list, mx_dtype *dtype, int *types)
{
    for (; *list != MX_DTYPE_NONE; list++) {
        ops_values in;
        if (!ops_draw(c, *list, &in))
            continue;
        for (int variant = 0, result = -1; result < 0; variant++) {
            result = try_type(c, &in, *list, variant, false);
            if (result > 0) {
                ops_values_free(&in);
                *dtype = *list;
                return ops_types(c, *list, variant, types);
            }
        }
        mx_error_clear();
        ops_values_free(&in);
    }
    return false;
}

void ops_check_leak(const ops_case *c)
{
    int types[OPS_MAX_IN];
    mx_dtype dtype;
    if (!ops_first_type(c, all_types, &dtype, types))
        return;
    const int64_t before = mx_alloc_get_stats().live_blocks;
    ops_first_type(c, all_types, &dtype, types);
    const int64_t after = mx_alloc_get_stats().live_blocks;
    if (after != before)
        ops_fail(c, "%lld blocks are left after the call, %lld before", (long long)after, (long long)before);
}
