/* Checks of values in checking mode, for the `audit` of operators: indices and labels in range, integer division without a
 * remainder.  They read the elements on the host.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/alloc.h"
#include "op/op.h"

/* The elements as doubles, to be freed with mx_free; NULL with an error. */
static double *values_of(const mx_array *x)
{
    double *values = mx_alloc((size_t)x->size * sizeof *values);
    if (!values || !mx_array_read_doubles(x, values, x->size))
        return values;
    mx_free(values, (size_t)x->size * sizeof *values);
    return NULL;
}

mx_code mx_audit_indices(const mx_kernel_call *call, int i, int64_t low, int64_t end, double also)
{
    const mx_array *x = call->in[i];
    if (mx_is_none(x) || !x->size)
        return MX_OK;
    double *values = values_of(x);
    if (!values)
        return mx_error_code();
    mx_code code = MX_OK;
    for (int64_t k = 0; !code && k < x->size; k++) {
        char name[64];
        const double v = values[k];
        if ((v > (double)low - 1 && v < (double)end) || v == also)
            continue;
        code = mx_op_fail(call->op, MX_ERR_INDEX, "%s holds %g at position %lld, wanted %lld to %lld",
                          mx_op_input_name(call->op, i, name), v, (long long)k, (long long)low, (long long)end - 1);
    }
    mx_free(values, (size_t)x->size * sizeof *values);
    return code;
}

/* ---- division -------------------------------------------------------------------------------------------------- */

typedef struct operand {
    double *values; /* owned; NULL: a number */
    int64_t size;   /* 1: the same for all */
    double number;
} operand;

static double value_at(const operand *o, int64_t i) { return o->values ? o->values[o->size == 1 ? 0 : i] : o->number; }

static mx_code has_remainder(const mx_kernel_call *call, const operand *a, const operand *b)
{
    const int64_t n = a->size > b->size ? a->size : b->size;
    for (int64_t i = 0; i < n; i++) {
        const double x = value_at(a, i), y = value_at(b, i);
        if (y != 0 && fmod(x, y) != 0)
            return mx_op_fail(
                call->op, MX_ERR_DTYPE,
                "%s elements are divided with a remainder: %g / %g gives %g; cast the data to float32 first",
                mx_dtype_name((mx_dtype)call->out[0]->dtype), x, y, trunc(x / y));
    }
    return MX_OK;
}

mx_code mx_audit_division(const mx_kernel_call *call)
{
    const mx_array *x = call->in[0], *y = call->n_in > 1 ? call->in[1] : NULL;
    if (mx_dtype_is_float(call->out[0]->dtype) || !x->size || (y && x->size != y->size && x->size > 1 && y->size > 1))
        return MX_OK; /* of two arrays that are broadcast against each other nothing is known */
    const mx_field *scalar = y ? NULL : mx_schema_find(call->op->schema, "scalar");
    if (!y && !scalar)
        return MX_OK;
    operand a = {values_of(x), x->size, 0}, b = {y ? values_of(y) : NULL, y ? y->size : 1, 0};
    if (scalar)
        b.number = *(const double *)((const char *)call->attrs + scalar->offset);
    mx_code code = a.values && (!y || b.values) ? has_remainder(call, &a, &b) : mx_error_code();
    mx_free(a.values, (size_t)a.size * sizeof(double));
    mx_free(b.values, b.values ? (size_t)b.size * sizeof(double) : 0);
    return code;
}
