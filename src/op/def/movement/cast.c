/* Changing the element type.  Gradient: g in the type of the input.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/emit.h"
#include "op/formula/pointwise.h"
#include "op/op.h"

#define CAST_ATTRS(X) X(DTYPE, dtype, REQUIRED, "", "element type of the result")
MX_ATTRS(cast, CAST_ATTRS)

#define AMP_MULTICAST_ATTRS(X) \
    X(INT, num_outputs, REQUIRED, "1..64", "number of arrays") \
    X(BOOL, cast_narrow, "False", "", "cast to the narrowest floating type among them instead of the widest")
MX_ATTRS(amp_multicast, AMP_MULTICAST_ATTRS)

static mx_code infer_type(mx_infer *infer)
{
    const mx_cast_attrs *attrs = infer->attrs;
    return mx_infer_out_type(infer, 0, attrs->dtype);
}

/* Mixed precision leaves everything but floating types alone. */
static mx_code infer_amp_type(mx_infer *infer)
{
    const mx_cast_attrs *attrs = infer->attrs;
    if (infer->in_type[0] == MX_DTYPE_NONE)
        return MX_OK;
    const bool both = mx_dtype_is_float(infer->in_type[0]) && mx_dtype_is_float(attrs->dtype);
    return mx_infer_out_type(infer, 0, both ? (int)attrs->dtype : infer->in_type[0]);
}

/* ---- many at once ---------------------------------------------------------------------------------------------- */

static int count_arrays(const void *attrs) { return (int)((const mx_amp_multicast_attrs *)attrs)->num_outputs; }

static mx_code check_count(mx_infer *infer)
{
    if (infer->n_in == infer->n_out)
        return MX_OK;
    return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "num_outputs is %d, but got %d arrays", infer->n_out, infer->n_in);
}

static mx_code infer_each_shape(mx_infer *infer)
{
    if (check_count(infer))
        return mx_error_code();
    for (int i = 0; i < infer->n_in; i++)
        if (mx_infer_out(infer, i, &infer->in[i]) || mx_infer_in(infer, i, &infer->out[i]))
            return mx_error_code();
    return MX_OK;
}

static mx_code infer_common_type(mx_infer *infer)
{
    const mx_amp_multicast_attrs *attrs = infer->attrs;
    int common = MX_DTYPE_NONE;
    if (check_count(infer))
        return mx_error_code();
    for (int i = 0; i < infer->n_in; i++) {
        const int type = infer->in_type[i];
        if (type == MX_DTYPE_NONE)
            return MX_OK;
        if (!mx_dtype_is_float(type))
            continue;
        const int64_t size = mx_dtype_size((mx_dtype)type), best = common < 0 ? 0 : mx_dtype_size((mx_dtype)common);
        if (common < 0 || (attrs->cast_narrow ? size < best : size > best))
            common = type;
    }
    for (int i = 0; i < infer->n_out; i++)
        if (mx_infer_out_type(infer, i, mx_dtype_is_float(infer->in_type[i]) ? common : infer->in_type[i]))
            return mx_error_code();
    return MX_OK;
}

/* ---- gradients and references ---------------------------------------------------------------------------------- */

static mx_code gradient(mx_grad *grad)
{
    for (int i = 0; i < grad->n_in; i++) {
        mx_array *g = grad->ograd[i];
        if (!grad->wanted[i] || !g)
            continue;
        const mx_cast_attrs back = {(mx_dtype)grad->in_type[i]};
        grad->igrad[i] = g->dtype == grad->in_type[i] ? g : mx_g_call(MX_OP("Cast"), &back, 1, &g);
        if (!grad->igrad[i])
            return mx_error_code();
    }
    return MX_OK;
}

static void copy_each(const mx_reference_call *call)
{
    for (int k = 0; k < call->n_out; k++)
        for (int64_t i = 0; i < mx_shape_size(&call->out_shape[k]); i++)
            call->out[k][i] = call->in[k][i];
}

static bool is_integer(mx_dtype dtype) { return !mx_dtype_is_float(dtype); }

/* Values become what the type can hold: integers lose their fraction, bool is 0 or 1. */
static void reference(const mx_reference_call *call)
{
    const mx_cast_attrs *attrs = call->attrs;
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        const double v = call->in[0][i];
        call->out[0][i] = attrs->dtype == MX_BOOL ? v != 0 : is_integer(attrs->dtype) ? trunc(v) : v;
    }
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

/* Conversion to integers truncates; all floating types are float here. */
static mx_code emit_cast(const mx_emit_call *n)
{
    const mx_cast_attrs *attrs = n->attrs;
    if (attrs->dtype == MX_BOOL)
        return mx_emit_fail(n, "bool cannot be written as C");
    return is_integer(attrs->dtype) ? mx_emit_unary(n, MX_ROW_trunc) : mx_emit_copy(n);
}

mx_op mx_family_cast[] = {
    {.name = "Cast", MX_EMIT(emit_cast), .sparse = MX_SPARSE_ZEROS, .aliases = "cast _npi_cast _npx_cast",
     .doc = "converts data to another element type; fractions are cut off by integer types, gradients are converted back", .inputs = "data", .flags = MX_OP_ELEMENTWISE,
     .schema = &cast_schema, .infer_type = infer_type, .gradient = gradient, .reference = reference,
     .samples = (const mx_sample[]){{"2,3", "dtype=float64", 0, 0, NULL}, {"37", "dtype=float32", 0, 0, "nograd"},
                                    {"2,3", "dtype=int32", 0.1, 9, "nograd"},
                                    {"2,3", "dtype=uint8", 0.1, 9, "nograd"}, {"2,3", "dtype=bool", 0.1, 9, "nograd"},
                                    {"2,3", "dtype=int64", 0.1, 9, "nograd"}, {"2,3", "dtype=int8", 0.1, 9, "nograd"},
                                    {"4", "dtype=float16", 0, 8, "int:0 nograd"},
                                    {"4", "dtype=bfloat16", 0, 8, "int:0 nograd"}, {0}}},
    {.name = "amp_cast", .flags = MX_OP_IDENTITY | MX_OP_ELEMENTWISE,
     .doc = "converts data to another floating type; other types are unchanged", .inputs = "data",
     .schema = &cast_schema, .infer_type = infer_amp_type, .gradient = gradient, .reference = copy_each,
     .samples = (const mx_sample[]){{"2,3", "dtype=float64", 0, 0, NULL}, {"4", "dtype=float16", 0, 8, "int:0 nograd"},
                                    {0}}},
    {.name = "amp_multicast", .doc = "converts floating arrays to the widest (or narrowest) of their types", .inputs = "*data",
     .schema = &amp_multicast_schema,
     .flags = MX_OP_LIST, .count_in = count_arrays, .count_out = count_arrays, .infer_shape = infer_each_shape,
     .infer_type = infer_common_type, .gradient = gradient, .reference = copy_each,
     .samples = (const mx_sample[]){{"2,3;4", "num_outputs=2", 0, 0, NULL},
                                    {"2;3;1", "num_outputs=3, cast_narrow=True", 0, 0, NULL}, {0}}},
    {0},
};
