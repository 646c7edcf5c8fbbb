/* Compositions: how gradients are written as calls of other operators.
 *
 * All calls use mx_invoke, so one gradient serves the tape, tracing and higher orders.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "op/op.h"
#include "base/thread.h"

mx_array *mx_g_call(mx_op *op, const void *attrs, int n_in, mx_array *const *in)
{
    mx_array *out[MX_MAX_OUTPUTS] = {NULL};
    if (!op)
        return NULL;
    for (int i = 0; i < n_in; i++)
        if (!in[i])
            return NULL;
    return mx_invoke(op, attrs, n_in, in, MX_MAX_OUTPUTS, out) ? NULL : out[0];
}

mx_array *mx_g_text(mx_op *op, const char *attrs, int n_in, mx_array *const *in)
{
    char typed[4096]; /* attribute structs are smaller: checked below */
    if (!op)
        return NULL;
    if (!op->schema)
        return mx_g_call(op, NULL, n_in, in);
    if (op->schema->size > sizeof typed)
        return mx_fail_null(MX_ERR_ATTRIBUTE, "%s: attributes are too large", op->name);
    memcpy(typed, op->defaults, op->schema->size);
    if (mx_schema_parse(op->schema, typed, op->name, attrs))
        return NULL;
    return mx_g_call(op, typed, n_in, in);
}

mx_array *mx_g_add(mx_array *a, mx_array *b) { return mx_g2("broadcast_add", a, b); }
mx_array *mx_g_sub(mx_array *a, mx_array *b) { return mx_g2("broadcast_sub", a, b); }
mx_array *mx_g_mul(mx_array *a, mx_array *b) { return mx_g2("broadcast_mul", a, b); }
mx_array *mx_g_div(mx_array *a, mx_array *b) { return mx_g2("broadcast_div", a, b); }
mx_array *mx_g_neg(mx_array *a) { return mx_g1("negative", a); }

/* All scalar operators have one attribute struct: see def/pointwise/pointwise.c. */
static mx_array *with_scalar(mx_op *op, mx_array *a, double scalar)
{
    struct { double scalar; bool is_int; } attrs = {scalar, false};
    return mx_g_call(op, &attrs, 1, &a);
}
mx_array *mx_g_scale(mx_array *a, double factor) { return with_scalar(MX_OP("_mul_scalar"), a, factor); }
mx_array *mx_g_shift(mx_array *a, double addend) { return with_scalar(MX_OP("_plus_scalar"), a, addend); }
mx_array *mx_g_rsub(double c, mx_array *a) { return with_scalar(MX_OP("_rminus_scalar"), a, c); }
mx_array *mx_g_rdiv(double c, mx_array *a) { return with_scalar(MX_OP("_rdiv_scalar"), a, c); }
mx_array *mx_g_power(mx_array *a, double exponent) { return with_scalar(MX_OP("_power_scalar"), a, exponent); }

static mx_array *with_shape(mx_op *op, mx_array *a, const mx_shape_t *shape)
{
    mx_dims attrs = mx_dims_of_shape(shape);
    return mx_g_call(op, &attrs, 1, &a);
}

static bool has_shape(const mx_array *a, const mx_shape_t *shape)
{
    return a && a->ndim >= 0 && a->ndim == shape->ndim &&
           !memcmp(a->shape, shape->dim, (size_t)a->ndim * sizeof a->shape[0]);
}

mx_array *mx_g_reshape(mx_array *a, const mx_shape_t *shape)
{
    return has_shape(a, shape) ? a : with_shape(MX_OP("_reshape_to"), a, shape);
}
mx_array *mx_g_sum_to(mx_array *a, const mx_shape_t *shape)
{
    return has_shape(a, shape) ? a : with_shape(MX_OP("_sum_to"), a, shape);
}
mx_array *mx_g_broadcast_to(mx_array *a, const mx_shape_t *shape)
{
    return has_shape(a, shape) ? a : with_shape(MX_OP("_broadcast_to"), a, shape);
}
