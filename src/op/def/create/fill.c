/* Arrays of one value: zeros, ones, full, and the *_like forms.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/emit.h"
#include "op/formula/movement.h"
#include "op/op.h"

#define FILL_ATTRS(X) \
    X(DIMS, shape, "()", "", "shape of the result") \
    X(CTX, ctx, "None", "", "device of the result; None: the current one") \
    X(DTYPE, dtype, "float32", "", "element type of the result")
MX_ATTRS(fill, FILL_ATTRS)

#define FULL_ATTRS(X) FILL_ATTRS(X) X(FLOAT, value, "0.0", "", "the value")
MX_ATTRS(full, FULL_ATTRS)

/* In graphs 0 is a size that follows from where the array is used: states of recurrent cells before the batch size
 * is known.  If nothing determines it, the array is empty (graph/open.h). */
static mx_code infer_shape(mx_infer *infer)
{
    const mx_fill_attrs *attrs = infer->attrs;
    mx_shape_t shape = mx_shape_of_dims(&attrs->shape);
    for (int i = 0; i < shape.ndim && !infer->values; i++)
        shape.dim[i] = shape.dim[i] ? shape.dim[i] : -1;
    return shape.ndim < 0 ? mx_error_code() : mx_infer_out(infer, 0, &shape);
}

static mx_code infer_type(mx_infer *infer)
{
    const mx_fill_attrs *attrs = infer->attrs;
    return mx_infer_out_type(infer, 0, attrs->dtype == MX_DTYPE_NONE ? MX_FLOAT32 : attrs->dtype);
}

static const double zero = 0, one = 1; /* op->user: the value; NULL: it is an attribute */

static void reference(const mx_reference_call *call, double value)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = value;
}
static void reference_zero(const mx_reference_call *call) { reference(call, 0); }
static void reference_one(const mx_reference_call *call) { reference(call, 1); }
static void reference_full(const mx_reference_call *call)
{
    reference(call, ((const mx_full_attrs *)call->attrs)->value);
}

#define CREATE MX_OP_CREATE | MX_OP_NO_GRADIENT
#define CREATE_SAMPLES (const mx_sample[]){{"", "shape=(2, 3)", 0, 0, NULL}, {"", "shape=(4,), dtype=int32", 0, 0, NULL}, {0}}
#define LIKE_SAMPLES (const mx_sample[]){{"2,3", "", 0, 0, NULL}, {"5", "", 0, 0, NULL}, {0}}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_fill(const mx_emit_call *n)
{
    const double value = n->op->user ? *(const double *)n->op->user : ((const mx_full_attrs *)n->attrs)->value;
    mx_emit_move(
        n, &(mx_move){.input = MX_FROM_VALUE, .value = value, .ndim = 1, .dim = {mx_shape_size(n->y)}, .to = {1}});
    return MX_OK;
}

mx_op mx_family_fill[] = {
    {.name = "_zeros", MX_EMIT(emit_fill), .aliases = "_npi_zeros", .doc = "an array of zeros",
     .schema = &fill_schema, .flags = CREATE,
     .infer_shape = infer_shape, .infer_type = infer_type, .samples = CREATE_SAMPLES, .reference = reference_zero, .user = &zero},
    {.name = "_ones", MX_EMIT(emit_fill), .aliases = "_npi_ones", .doc = "an array of ones", .schema = &fill_schema,
     .flags = CREATE,
     .infer_shape = infer_shape, .infer_type = infer_type, .samples = CREATE_SAMPLES, .reference = reference_one, .user = &one},
    {.name = "_full", MX_EMIT(emit_fill), .aliases = "_npi_full", .doc = "an array filled with one value",
     .schema = &full_schema, .flags = CREATE,
     .infer_shape = infer_shape, .infer_type = infer_type, .reference = reference_full,
     .samples = (const mx_sample[]){{"", "shape=(2, 3), value=2.5", 0, 0, NULL}, {0}}},
    {.name = "zeros_like", MX_EMIT(emit_fill, .reads = -1), .methods = "zeros_like", .sparse = MX_SPARSE_ZEROS,
     .aliases = "_sparse_zeros_like",
     .doc = "zeros of the shape and type of data", .inputs = "data",
     .flags = MX_OP_ZERO_GRADIENT | MX_OP_INPLACE, .samples = LIKE_SAMPLES, .reference = reference_zero, .user = &zero},
    {.name = "ones_like", MX_EMIT(emit_fill, .reads = -1), .methods = "ones_like",
     .doc = "ones of the shape and type of data", .inputs = "data",
     .flags = MX_OP_ZERO_GRADIENT | MX_OP_INPLACE, .samples = LIKE_SAMPLES, .reference = reference_one, .user = &one},
    {0},
};
