/* Arrays made from numbers or from the shape of another array: arange, linspace, eye, shape_array, size_array.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/emit.h"
#include "op/formula/movement.h"
#include "op/op.h"

#define ARANGE_ATTRS(X) \
    X(FLOAT, start, REQUIRED, "", "first value; the end of the range if there is no stop") \
    X(FLOAT, stop, "None", "", "end of the range, not included") \
    X(FLOAT, step, "1.0", "", "difference between neighbouring values") \
    X(INT, repeat, "1", "1..", "how often each value is repeated") \
    X(BOOL, infer_range, "False", "", "take the length from the shape of the output") \
    X(CTX, ctx, "None", "", "device of the result; None: the current one") \
    X(DTYPE, dtype, "float32", "", "element type of the result")
MX_ATTRS(arange, ARANGE_ATTRS)

#define ARANGE_LIKE_ATTRS(X) \
    X(FLOAT, start, "0.0", "", "first value") \
    X(FLOAT, step, "1.0", "", "difference between neighbouring values") \
    X(INT, repeat, "1", "1..", "how often each value is repeated") \
    X(CTX, ctx, "None", "", "accepted for compatibility") \
    X(INT, axis, "None", "", "axis of data that gives the length; None: the result has the shape of data")
MX_ATTRS(arange_like, ARANGE_LIKE_ATTRS)

#define LINSPACE_ATTRS(X) \
    X(FLOAT, start, REQUIRED, "", "first value") \
    X(FLOAT, stop, REQUIRED, "", "last value; not included if endpoint is False") \
    X(INT, num, REQUIRED, "0..140737488355328", "number of values") \
    X(BOOL, endpoint, "True", "", "include stop as the last value") \
    X(CTX, ctx, "None", "", "device of the result; None: the current one") \
    X(DTYPE, dtype, "float32", "", "element type of the result")
MX_ATTRS(linspace, LINSPACE_ATTRS)

#define EYE_ATTRS(X) \
    X(INT, N, REQUIRED, "0..140737488355328", "number of rows") \
    X(INT, M, "0", "0..140737488355328", "number of columns; 0: as many as rows") \
    X(INT, k, "0", "-140737488355328..140737488355328", "which diagonal: 0 is the main one, positive ones are above it") \
    X(CTX, ctx, "None", "", "device of the result; None: the current one") \
    X(DTYPE, dtype, "float32", "", "element type of the result")
MX_ATTRS(eye, EYE_ATTRS)

#define MOST_ELEMENTS 140737488355328. /* 2^47, the most that an array can hold */

/* ---- inference ------------------------------------------------------------------------------------------------- */

static mx_code infer_arange(mx_infer *infer)
{
    const mx_arange_attrs *attrs = infer->attrs;
    const bool open = isnan(attrs->stop);
    if (attrs->infer_range && open)
        return MX_OK;
    const double span = open ? attrs->start : attrs->stop - attrs->start;
    if (attrs->step == 0 || !isfinite(attrs->step) || !isfinite(span))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "start, stop and step must be finite and step not 0");
    double count = ceil(span / attrs->step);
    count = count > 0 ? count * (double)attrs->repeat : 0;
    if (!(count <= MOST_ELEMENTS))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "the range has %g elements, which is too many", count);
    return mx_infer_out(infer, 0, &(mx_shape_t){.ndim = 1, .dim = {(int64_t)count}});
}

static mx_code infer_arange_like(mx_infer *infer)
{
    const mx_arange_like_attrs *attrs = infer->attrs;
    const mx_shape_t *in = &infer->in[0];
    if (attrs->axis == MX_NONE_INT)
        return mx_infer_same_shape(infer);
    if (in->ndim < 0)
        return MX_OK;
    const int axis = mx_axis(attrs->axis, in->ndim);
    if (axis < 0)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "axis %lld is not an axis of data with %d axes",
                          (long long)attrs->axis, in->ndim);
    return mx_infer_out(infer, 0, &(mx_shape_t){.ndim = 1, .dim = {in->dim[axis]}});
}

static mx_code infer_linspace(mx_infer *infer)
{
    return mx_infer_out(infer, 0, &(mx_shape_t){.ndim = 1, .dim = {((const mx_linspace_attrs *)infer->attrs)->num}});
}

static mx_code infer_eye(mx_infer *infer)
{
    const mx_eye_attrs *attrs = infer->attrs;
    return mx_infer_out(infer, 0, &(mx_shape_t){.ndim = 2, .dim = {attrs->N, attrs->M ? attrs->M : attrs->N}});
}

static mx_code infer_shape_array(mx_infer *infer)
{
    if (infer->in[0].ndim < 0)
        return MX_OK;
    return mx_infer_out(infer, 0, &(mx_shape_t){.ndim = 1, .dim = {infer->in[0].ndim}});
}

static mx_code infer_size_array(mx_infer *infer) { return mx_infer_out(infer, 0, &(mx_shape_t){.ndim = 1,
.dim = {1}}); }

#define DTYPE_OF(type) \
    (((const type *)infer->attrs)->dtype == MX_DTYPE_NONE ? MX_FLOAT32 : ((const type *)infer->attrs)->dtype)
static mx_code infer_arange_type(mx_infer *infer) { return mx_infer_out_type(infer, 0, DTYPE_OF(mx_arange_attrs)); }
static mx_code infer_linspace_type(mx_infer *infer) { return mx_infer_out_type(infer, 0, DTYPE_OF(mx_linspace_attrs)); }
static mx_code infer_eye_type(mx_infer *infer) { return mx_infer_out_type(infer, 0, DTYPE_OF(mx_eye_attrs)); }
static mx_code infer_int64(mx_infer *infer) { return mx_infer_out_type(infer, 0, MX_INT64); }

/* ---- references ------------------------------------------------------------------------------------------------ */

static void line(const mx_reference_call *call, double start, double step, int64_t repeat)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = start + step * (double)(i / repeat);
}

static void ref_arange(const mx_reference_call *call)
{
    const mx_arange_attrs *attrs = call->attrs;
    const double start = isnan(attrs->stop) ? 0 : attrs->start;
    const bool whole = attrs->dtype != MX_DTYPE_NONE && !mx_dtype_is_float(attrs->dtype);
    line(call, whole ? trunc(start) : start, whole ? trunc(attrs->step) : attrs->step, attrs->repeat);
}

static void ref_arange_like(const mx_reference_call *call)
{
    const mx_arange_like_attrs *attrs = call->attrs;
    line(call, attrs->start, attrs->step, attrs->repeat);
}

static void ref_linspace(const mx_reference_call *call)
{
    const mx_linspace_attrs *attrs = call->attrs;
    const double gaps = (double)(attrs->endpoint ? attrs->num - 1 : attrs->num);
    line(call, attrs->start, gaps > 0 ? (attrs->stop - attrs->start) / gaps : 0, 1);
}

static void ref_eye(const mx_reference_call *call)
{
    const mx_eye_attrs *attrs = call->attrs;
    const int64_t columns = call->out_shape[0].dim[1];
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = i % columns - i / columns == attrs->k;
}

static void ref_shape_array(const mx_reference_call *call)
{
    for (int i = 0; i < call->in_shape[0].ndim; i++)
        call->out[0][i] = (double)call->in_shape[0].dim[i];
}

static void ref_size_array(const mx_reference_call *call)
{
    call->out[0][0] = (double)mx_shape_size(&call->in_shape[0]);
}

#define CREATE MX_OP_CREATE | MX_OP_NO_GRADIENT

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

/* Ones on diagonal k: above the main one if k is positive. */
static mx_code emit_eye(const mx_emit_call *n)
{
    const int64_t rows = n->y->dim[0], columns = n->y->dim[1], k = ((const mx_eye_attrs *)n->attrs)->k;
    const int64_t down = rows - (k < 0 ? -k : 0), right = columns - (k > 0 ? k : 0);
    mx_move zeros = {.input = MX_FROM_VALUE, .ndim = 1, .dim = {mx_shape_size(n->y)}, .to = {1}},
            ones = {.input = MX_FROM_VALUE, .value = 1, .ndim = 1, .to = {columns + 1}};
    ones.dim[0] = down < right ? down : right;
    ones.to_offset = k > 0 ? k : -k * columns;
    mx_emit_move(n, &zeros);
    if (ones.dim[0] > 0)
        mx_emit_move(n, &ones);
    return MX_OK;
}

static mx_code emit_ramp(const mx_emit_call *n, double start, double step, int64_t repeat)
{
    mx_emit_open(n, "ramp", 0);
    mx_emit_print(n, "%lld, %lld", (long long)mx_shape_size(n->y), (long long)repeat);
    mx_emit_add(n, start);
    mx_emit_add(n, step);
    return mx_emit_close(n);
}

static mx_code emit_arange(const mx_emit_call *n)
{
    const mx_arange_attrs *attrs = n->attrs;
    const bool whole = attrs->dtype != MX_DTYPE_NONE && !mx_dtype_is_float(attrs->dtype);
    const double start = attrs->stop == attrs->stop || attrs->infer_range ? attrs->start : 0;
    return emit_ramp(n, whole ? trunc(start) : start, whole ? trunc(attrs->step) : attrs->step, attrs->repeat);
}

static mx_code emit_arange_like(const mx_emit_call *n)
{
    const mx_arange_like_attrs *attrs = n->attrs;
    return emit_ramp(n, attrs->start, attrs->step, attrs->repeat);
}

mx_op mx_family_range[] = {
    {.name = "_arange", MX_EMIT(emit_arange), .c_name = "arange", .doc = "start, start + step, ... before stop",
     .schema = &arange_schema,
     .flags = CREATE, .infer_shape = infer_arange, .infer_type = infer_arange_type, .reference = ref_arange,
     .samples = (const mx_sample[]){{"", "start=5", 0, 0, NULL}, {"", "start=1, stop=7, step=2, repeat=3", 0, 0, NULL},
                                    {"", "start=3, stop=0, step=-0.5", 0, 0, NULL},
                                    {"", "start=2, stop=9, dtype=int32", 0, 0, NULL},
                                    {"", "start=1.3, stop=10.6, step=1.3, dtype=int32", 0, 0, NULL},
                                    {"", "start=3, stop=3", 0, 0, NULL}, {0}}},
    {.name = "_contrib_arange_like", MX_EMIT(emit_arange_like, .reads = -1), .aliases = "_npx_arange_like",
     .c_name = "arange_like",
     .doc = "a range as long as data or one of its axes", .inputs = "data",
     .schema = &arange_like_schema, .flags = MX_OP_ZERO_GRADIENT, .infer_shape = infer_arange_like,
     .reference = ref_arange_like,
     .samples = (const mx_sample[]){{"2,3", "", 0, 0, NULL}, {"2,3", "axis=-1, start=1, step=2", 0, 0, NULL},
                                    {"4", "repeat=2", 0, 0, NULL}, {0}}},
    {.name = "_linspace", .aliases = "_npi_linspace", .c_name = "linspace",
     .doc = "evenly spaced numbers from start to stop", .schema = &linspace_schema,
     .flags = CREATE, .infer_shape = infer_linspace, .infer_type = infer_linspace_type, .reference = ref_linspace,
     .samples = (const mx_sample[]){{"", "start=0, stop=1, num=5", 0, 0, NULL},
                                    {"", "start=1, stop=3, num=4, endpoint=False", 0, 0, NULL},
                                    {"", "start=2, stop=3, num=1", 0, 0, NULL},
                                    {"", "start=2, stop=3, num=0", 0, 0, NULL}, {0}}},
    {.name = "_eye", MX_EMIT(emit_eye), .aliases = "_npi_eye", .c_name = "eye",
     .doc = "ones on a diagonal, zeros elsewhere",
     .schema = &eye_schema, .flags = CREATE, .infer_shape = infer_eye,
     .infer_type = infer_eye_type, .reference = ref_eye,
     .samples = (const mx_sample[]){{"", "N=3", 0, 0, NULL}, {"", "N=2, M=4, k=1", 0, 0, NULL},
                                    {"", "N=4, M=2, k=-2, dtype=int32", 0, 0, NULL},
                                    {"", "N=2, k=9", 0, 0, NULL}, {0}}},
    {.name = "shape_array", .methods = "shape_array", .aliases = "_npx_shape_array",
     .doc = "the shape of data as an array of int64",
     .inputs = "data", .flags = MX_OP_ZERO_GRADIENT,
     .infer_shape = infer_shape_array, .infer_type = infer_int64, .reference = ref_shape_array,
     .samples = (const mx_sample[]){{"2,3", "", 0, 0, NULL}, {"4,0,1", "", 0, 0, NULL}, {0}}},
    {.name = "size_array", .methods = "size_array", .doc = "the number of elements of data as an array of int64",
     .inputs = "data",
     .flags = MX_OP_ZERO_GRADIENT,
     .infer_shape = infer_size_array, .infer_type = infer_int64, .reference = ref_size_array,
     .samples = (const mx_sample[]){{"2,3", "", 0, 0, NULL}, {"4,0", "", 0, 0, NULL}, {0}}},
    {0},
};
