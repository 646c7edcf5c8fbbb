/* Sequences of different lengths in one array: SequenceMask, SequenceLast, SequenceReverse.
 *
 * data is (T, N, ...) or, with axis 1 where it is allowed, (N, T, ...): T steps of N sequences.  sequence_length (N)
 * says how many steps of each are valid; without it all T are.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/emit.h"
#include "op/formula/movement.h"
#include "op/walk.h"

#define SEQUENCE_ATTRS(X) \
    X(BOOL, use_sequence_length, "False", "", "whether sequence_length is given") \
    X(INT, axis, "0", "0..1", "the axis of the steps, 0 or 1; the other of the two is the batch")
MX_ATTRS(sequence, SEQUENCE_ATTRS)

#define MASK_ATTRS(X) \
    X(BOOL, use_sequence_length, "False", "", "whether sequence_length is given") \
    X(FLOAT, value, "0.", "", "value of the steps past the end of a sequence") \
    X(INT, axis, "0", "0..1", "the axis of the steps, 0 or 1; the other of the two is the batch")
MX_ATTRS(sequence_mask, MASK_ATTRS)

#define BACK_ATTRS(X) SEQUENCE_ATTRS(X) X(DIMS, shape, REQUIRED, "", "shape of the result")
MX_ATTRS(sequence_last_back, BACK_ATTRS)

typedef struct options {
    bool lengths;
    int axis;
} options;

static options of_sequence(const void *attrs)
{
    const mx_sequence_attrs *a = attrs;
    return (options){a->use_sequence_length, (int)a->axis};
}
static options of_mask(const void *attrs)
{
    const mx_sequence_mask_attrs *a = attrs;
    return (options){a->use_sequence_length, (int)a->axis};
}

static int count_sequence(const void *attrs) { return of_sequence(attrs).lengths ? 2 : 1; }
static int count_mask(const void *attrs) { return of_mask(attrs).lengths ? 2 : 1; }

/* ---- inference ---------------------------------------------------------------------------------------------- */

static mx_code check_data(mx_infer *infer, const mx_shape_t *data, options o)
{
    char text[MX_SHAPE_TEXT];
    if (data->ndim < 0)
        return MX_OK;
    if (data->ndim < (o.lengths ? 2 : o.axis + 1))
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted %s", mx_shape_text(data, text),
                          o.axis ? "(sequences, steps, ...)" : "(steps, sequences, ...)");
    mx_shape_t lengths = {1, {o.lengths ? data->dim[1 - o.axis] : -1}};
    return o.lengths ? mx_infer_in(infer, 1, &lengths) : MX_OK;
}

static mx_code infer_same(mx_infer *infer, options o)
{
    if (mx_infer_out(infer, 0, &infer->in[0]) || mx_infer_in(infer, 0, &infer->out[0]))
        return mx_error_code();
    return check_data(infer, &infer->in[0], o);
}
static mx_code infer_mask(mx_infer *infer) { return infer_same(infer, of_mask(infer->attrs)); }
static mx_code infer_reverse(mx_infer *infer)
{
    if (of_sequence(infer->attrs).axis)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "axis is 1, only 0 is supported");
    return infer_same(infer, of_sequence(infer->attrs));
}

/* The shape without the axis of the steps. */
static mx_shape_t last_shape(const mx_shape_t *data, int axis)
{
    mx_shape_t out = {.ndim = 0};
    for (int i = 0; i < data->ndim; i++)
        if (i != axis)
            out.dim[out.ndim++] = data->dim[i];
    return out;
}

static mx_code infer_last(mx_infer *infer)
{
    const options o = of_sequence(infer->attrs);
    if (infer->in[0].ndim < 0)
        return MX_OK;
    if (check_data(infer, &infer->in[0], o))
        return mx_error_code();
    if (infer->in[0].dim[o.axis] == 0)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has no steps, so there is no last one");
    mx_shape_t out = last_shape(&infer->in[0], o.axis);
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_last_back(mx_infer *infer)
{
    const mx_sequence_last_back_attrs *attrs = infer->attrs;
    const options o = of_sequence(attrs);
    mx_shape_t shape = mx_shape_of_dims(&attrs->shape);
    if (shape.ndim < 1 || check_data(infer, &shape, o))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "shape must have an axis of steps and one of sequences");
    mx_shape_t in = last_shape(&shape, o.axis);
    return mx_infer_in(infer, 0, &in) ? mx_error_code() : mx_infer_out(infer, 0, &shape);
}

static mx_code infer_type(mx_infer *infer)
{
    return mx_infer_out_type(infer, 0, infer->in_type[0]) ? mx_error_code()
                                                          : mx_infer_in_type(infer, 0, infer->out_type[0]);
}

/* ---- gradients ---------------------------------------------------------------------------------------------- */

static mx_array *call_with_lengths(mx_op *op, const void *attrs, mx_grad *grad)
{
    const bool lengths = grad->n_in > 1 && grad->in[1] && !mx_is_none(grad->in[1]);
    return mx_g_call(op, attrs, lengths ? 2 : 1, (mx_array *const[]){grad->ograd[0], lengths ? grad->in[1] : NULL});
}

static mx_code grad_mask(mx_grad *grad)
{
    mx_sequence_mask_attrs attrs = *(const mx_sequence_mask_attrs *)grad->attrs;
    attrs.value = 0;
    return grad->wanted[0] ? mx_give(grad, 0, call_with_lengths(MX_OP("SequenceMask"), &attrs, grad)) : MX_OK;
}

static mx_code grad_reverse(mx_grad *grad) /* it is its own inverse */
{
    return grad->wanted[0] ? mx_give(grad, 0, call_with_lengths(MX_OP("SequenceReverse"), grad->attrs, grad)) : MX_OK;
}

static mx_code grad_last(mx_grad *grad)
{
    const options o = of_sequence(grad->attrs);
    mx_sequence_last_back_attrs attrs = {o.lengths, o.axis, mx_dims_of_shape(&grad->in_shape[0])};
    return grad->wanted[0] ? mx_give(grad, 0, call_with_lengths(MX_OP("_sequence_last_back"), &attrs, grad)) : MX_OK;
}

static mx_code grad_last_back(mx_grad *grad)
{
    const options o = of_sequence(grad->attrs);
    mx_sequence_attrs attrs = {o.lengths, o.axis};
    return grad->wanted[0] ? mx_give(grad, 0, call_with_lengths(MX_OP("SequenceLast"), &attrs, grad)) : MX_OK;
}

/* ---- references --------------------------------------------------------------------------------------------- */

/* A position as step t of sequence n, and the length of that sequence. */
static int64_t length_of(const mx_reference_call *call, options o, const mx_shape_t *data, const int64_t *at)
{
    const int64_t steps = data->dim[o.axis];
    if (!o.lengths)
        return steps;
    const int64_t length = (int64_t)call->in[1][at[1 - o.axis]];
    return length < 0 ? 0 : length > steps ? steps : length;
}

static void ref_mask(const mx_reference_call *call)
{
    const options o = of_mask(call->attrs);
    int64_t at[MX_MAX_NDIM];
    for (int64_t i = 0; i < mx_shape_size(&call->in_shape[0]); i++) {
        mx_position(&call->in_shape[0], i, at);
        const bool inside = at[o.axis] < length_of(call, o, &call->in_shape[0], at);
        call->out[0][i] = inside ? call->in[0][i] : ((const mx_sequence_mask_attrs *)call->attrs)->value;
    }
}

static void ref_reverse(const mx_reference_call *call)
{
    const options o = of_sequence(call->attrs);
    int64_t at[MX_MAX_NDIM];
    for (int64_t i = 0; i < mx_shape_size(&call->in_shape[0]); i++) {
        mx_position(&call->in_shape[0], i, at);
        const int64_t length = length_of(call, o, &call->in_shape[0], at);
        at[0] = at[0] < length ? length - 1 - at[0] : at[0];
        call->out[0][i] = call->in[0][mx_element(&call->in_shape[0], at)];
    }
}

static void reference_last(const mx_reference_call *call, const mx_shape_t *whole, bool back)
{
    const options o = of_sequence(call->attrs);
    int64_t at[MX_MAX_NDIM], n = 0;
    const mx_shape_t last = last_shape(whole, o.axis);
    for (int64_t i = 0; i < mx_shape_size(whole); i++) {
        mx_position(whole, i, at);
        const int64_t length = length_of(call, o, whole, at);
        const bool chosen = at[o.axis] == (length > 0 ? length - 1 : 0);
        int64_t rest[MX_MAX_NDIM];
        n = 0;
        for (int k = 0; k < whole->ndim; k++)
            if (k != o.axis)
                rest[n++] = at[k];
        const int64_t k = mx_element(&last, rest);
        if (back)
            call->out[0][i] = chosen ? call->in[0][k] : 0;
        else if (chosen)
            call->out[0][k] = call->in[0][i];
    }
}
static void ref_last(const mx_reference_call *call) { reference_last(call, &call->in_shape[0], false); }
static void ref_last_back(const mx_reference_call *call) { reference_last(call, &call->out_shape[0], true); }

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

/* "kernel(x, y, lengths, steps, batch, rest, step, next"; (steps, batch, rest), or (batch, steps, rest) with axis=1 */
static void emit_steps(const mx_emit_call *n, const char *kernel, bool lengths, int64_t axis)
{
    const int64_t steps = n->x->dim[axis], batch = n->x->dim[1 - axis];
    int64_t rest = 1;
    for (int i = 2; i < n->x->ndim; i++)
        rest *= n->x->dim[i];
    mx_emit_open(n, kernel, 1);
    mx_emit_print(n, "%s, %lld, %lld, %lld, %lld, %lld", lengths ? mx_emit_or_null(n, 1) : "NULL", (long long)steps,
                  (long long)batch, (long long)rest, (long long)(axis ? rest : batch * rest),
                  (long long)(axis ? steps * rest : rest));
}

static mx_code emit_mask(const mx_emit_call *n)
{
    const mx_sequence_mask_attrs *attrs = n->attrs;
    emit_steps(n, "mask_steps", attrs->use_sequence_length, attrs->axis);
    mx_emit_add(n, attrs->value);
    return mx_emit_close(n);
}

static mx_code emit_last(const mx_emit_call *n)
{
    const mx_sequence_attrs *attrs = n->attrs;
    emit_steps(n, "last_steps", attrs->use_sequence_length, attrs->axis);
    return mx_emit_close(n);
}

static mx_code emit_reverse(const mx_emit_call *n)
{
    const mx_sequence_attrs *attrs = n->attrs;
    emit_steps(n, "turn_steps", attrs->use_sequence_length, attrs->axis);
    return mx_emit_close(n);
}

/* Lengths of sequences: no longer than the data. */
static mx_code audit(const mx_kernel_call *call)
{
    const int64_t axis = ((const mx_sequence_attrs *)call->attrs)->axis;
    const mx_array *data = call->in[0];
    return mx_audit_indices(call, 1, 0, data->shape[axis == 1 && data->ndim > 1] + 1, NAN);
}
static mx_code audit_mask(const mx_kernel_call *call)
{
    const int64_t axis = ((const mx_sequence_mask_attrs *)call->attrs)->axis;
    const mx_array *data = call->in[0];
    return mx_audit_indices(call, 1, 0, data->shape[axis == 1 && data->ndim > 1] + 1, NAN);
}

// clang-format off
#define SEQUENCE .inputs = "data sequence_length?", .infer_type = infer_type, .no_grad_inputs = 2, .grad_in = 2
#define LENGTHS "use_sequence_length=True"

mx_op mx_family_sequence[] = {
    {.name = "SequenceMask", MX_EMIT(emit_mask), .aliases = "_npx_sequence_mask",
     .doc = "sets the steps past the end of each sequence to a value",
     SEQUENCE, .schema = &sequence_mask_schema,
     .count_in = count_mask, .audit = audit_mask, .infer_shape = infer_mask, .gradient = grad_mask, .reference = ref_mask,
     .samples = (const mx_sample[]){{"4,2,3;2", LENGTHS ", value=-1", 0, 5, "int:1"},
         {"2,4;2", LENGTHS ", axis=1", 0, 5, "int:1"}, {"3,2", "", 0, 0, NULL}, {0}}},
    {.name = "SequenceLast", MX_EMIT(emit_last), .doc = "the last step of every sequence; with use_sequence_length the one at its length - 1", SEQUENCE,
     .schema = &sequence_schema,
     .count_in = count_sequence, .audit = audit, .infer_shape = infer_last, .gradient = grad_last, .reference = ref_last,
     .samples = (const mx_sample[]){{"4,2,3;2", LENGTHS, 1, 5, "int:1"}, {"2,4,3;2", LENGTHS ", axis=1", 1, 5, "int:1"},
         {"3,2", "", 0, 0, NULL}, {0}}},
    {.name = "_sequence_last_back",
     .doc = "zeros with data at the last step of every sequence: the adjoint of SequenceLast", SEQUENCE,
     .flags = MX_OP_HIDDEN,
     .schema = &sequence_last_back_schema, .count_in = count_sequence, .infer_shape = infer_last_back,
     .gradient = grad_last_back, .reference = ref_last_back,
     .samples = (const mx_sample[]){{"2,3;2", LENGTHS ", shape=(4, 2, 3)", 1, 5, "int:1"},
         {"2", "shape=(3, 2)", 0, 0, NULL}, {0}}},
    {.name = "SequenceReverse", MX_EMIT(emit_reverse),
     .doc = "reverses every sequence; steps past its end stay in place", SEQUENCE,
     .schema = &sequence_schema,
     .count_in = count_sequence, .audit = audit, .infer_shape = infer_reverse, .gradient = grad_reverse, .reference = ref_reverse,
     .samples = (const mx_sample[]){{"4,2,3;2", LENGTHS, 0, 5, "int:1"}, {"3,2", "", 0, 0, NULL}, {0}}},
    {0},
};
// clang-format on
