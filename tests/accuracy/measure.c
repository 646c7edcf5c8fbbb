/* One case in every type beside the reference (see accuracy.h).  SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "accuracy.h"
#include "base/error.h"
#include "op/formula/pointwise.h"

const mx_dtype accuracy_types[ACCURACY_TYPES] = {MX_FLOAT64, MX_FLOAT32, MX_FLOAT16, MX_BFLOAT16};
static const int digits[ACCURACY_TYPES] = {53, 24, 11, 8};         /* bits of the fraction, the hidden one included */
static const int least[ACCURACY_TYPES] = {-1022, -126, -14, -126}; /* exponents of the smallest normal number */
static const double most[ACCURACY_TYPES] = {DBL_MAX, 3.4028234e38, 65504, 3.3895e38};

static double place_of(double x, int type)
{
    int exponent = least[type];
    if (x != 0 && ilogb(x) > exponent)
        exponent = ilogb(x);
    return ldexp(1, exponent - digits[type] + 1);
}

/* The largest difference between n results and what was wanted; numbers beyond the type's range are left out. */
static double difference(const double *got, const double *wanted, int64_t n, int type, bool elementwise)
{
    double scale = 0, worst = 0;
    for (int64_t i = 0; i < n && !elementwise; i++)
        if (isfinite(wanted[i]))
            scale = fmax(scale, fabs(wanted[i]));
    for (int64_t i = 0; i < n; i++)
        if (isfinite(wanted[i]) && isfinite(got[i]) && fabs(wanted[i]) <= most[type])
            worst = fmax(worst, fabs(got[i] - wanted[i]) / place_of(fmax(fabs(wanted[i]), scale), type));
    return worst;
}

/* Results that are not of the type (indices, counts) have no part in the table; all are compared. */
static void compare(const ops_case *c, mx_array *const *out, const ops_values *wanted, int type, accuracy_entry *entry)
{
    const bool elementwise = (c->op->flags & MX_OP_ELEMENTWISE) || mx_pointwise_of(c->op);
    for (int i = 0; i < c->n_visible; i++) {
        double *got = malloc(((size_t)out[i]->size + 1) * sizeof *got);
        if (mx_array_read_doubles(out[i], got, out[i]->size))
            ops_check_error(c, "reading the result");
        ops_compare(c, "other sizes", (mx_dtype)out[i]->dtype, got, wanted->v[i], out[i]->size,
                    2 * fmax(ops_tolerance(accuracy_types[type]), ops_tolerance((mx_dtype)out[i]->dtype)));
        if (out[i]->dtype == (int)accuracy_types[type])
            entry->ulp[type] = fmax(entry->ulp[type], difference(got, wanted->v[i], out[i]->size, type, elementwise));
        for (int64_t at = 0; at < out[i]->size; at++)
            entry->finite &= isfinite(wanted->v[i][at]) != 0;
        free(got);
    }
}

/* The reference's results for inputs as the operator saw them: rounded to its types. */
static bool refer(const ops_case *c, ops_values *in, mx_array *const *arrays, const int *types, ops_values *wanted)
{
    for (int k = 0; k < c->n_in; k++)
        if (!c->absent[k] && !ops_mutates(c->op, k) && in->size[k])
            mx_array_read_doubles(arrays[k], in->v[k], in->size[k]);
    return ops_wanted(c, in, types, wanted);
}

/* False: the next choice of input types may work. */
static bool run(const ops_case *c, ops_values *in, int type, int variant, accuracy_entry *entry)
{
    MX_SCOPE;
    int types[OPS_MAX_IN];
    mx_array *arrays[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL};
    ops_values wanted;
    if (!ops_types(c, accuracy_types[type], variant, types))
        return true;
    if (!ops_arrays(c, in, types, true, arrays) || ops_run(c, arrays, out))
        return mx_error_clear(), false;
    entry->calls[type]++;
    for (int k = 0; k < c->n_in; k++)
        if (!c->absent[k] && !ops_guards_intact(arrays[k]))
            ops_fail(c, "bytes outside input %d were written", k);
    if (refer(c, in, arrays, types, &wanted))
        compare(c, out, &wanted, type, entry);
    ops_values_free(&wanted);
    return true;
}

bool accuracy_measure(const ops_case *c, accuracy_entry *entry)
{
    entry->finite = true;
    for (int type = 0; type < ACCURACY_TYPES; type++) {
        ops_values in;
        if ((c->f32_only && type > 1) || !ops_draw(c, accuracy_types[type], &in))
            continue;
        for (int variant = 0; !run(c, &in, type, variant, entry); variant++)
            ;
        ops_values_free(&in);
    }
    return entry->finite;
}
