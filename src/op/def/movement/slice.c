/* Parts of arrays: slice, slice_axis, slice_like, Crop, and writing into a part: _slice_assign.
 *
 * All of them are described by one span (begin, step, n) per axis.  Reading a slice and writing it into zeros (`_unslice`)
 * are each other's adjoint, so they are each other's gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "op/emit.h"
#include "op/formula/movement.h"
#include "op/walk.h"

#define SLICE_ATTRS(X) \
    X(DIMS, begin, REQUIRED, "", "first index per axis; None: the beginning of the axis") \
    X(DIMS, end, REQUIRED, "", "end index per axis, not included; None: the end of the axis") \
    X(DIMS, step, "()", "", "step per axis; may be negative")
MX_ATTRS(slice, SLICE_ATTRS)

#define SCALAR_ATTRS(X) X(FLOAT, scalar, "0", "", "the value to write") SLICE_ATTRS(X)
MX_ATTRS(slice_assign_scalar, SCALAR_ATTRS)

#define AXIS_ATTRS(X) \
    X(INT, axis, REQUIRED, "", "axis to slice") \
    X(INT, begin, REQUIRED, "", "first index") \
    X(INT, end, "None", "", "end index, not included; None: the end of the axis")
MX_ATTRS(slice_axis, AXIS_ATTRS)

#define LIKE_ATTRS(X) X(DIMS, axes, "()", "", "axes to slice to the size of shape_like; (): all")
MX_ATTRS(slice_like, LIKE_ATTRS)

#define CROP_ATTRS(X) \
    X(INT, num_args, "None", "1..2", "number of inputs; None: as many as are given") \
    X(DIMS, offset, "(0, 0)", "", "upper left corner (y, x)") \
    X(DIMS, h_w, "(0, 0)", "", "height and width, if there is no second input") \
    X(BOOL, center_crop, "False", "", "crop the centre; offset is not used")
MX_ATTRS(crop, CROP_ATTRS)

#define UNSLICE_ATTRS(X) \
    X(DIMS, begin, REQUIRED, "", "first index per axis") \
    X(DIMS, step, REQUIRED, "", "step per axis") \
    X(DIMS, shape, REQUIRED, "", "shape of the result")
MX_ATTRS(unslice, UNSLICE_ATTRS)

/* ---- spans of each operator --------------------------------------------------------------------------------- */
/* One span per axis of input 0, from the attributes and the shapes of the inputs; errors are recorded. */
typedef mx_code (*find_spans)(const mx_op *op, const void *attrs, int n_in, const mx_shape_t *in, mx_span *span);

static mx_code spans_of(const mx_op *op, const mx_dims *begin, const mx_dims *end, const mx_dims *step,
                        const mx_shape_t *in, mx_span *span)
{
    char text[MX_SHAPE_TEXT];
    if (begin->n > in->ndim || end->n != begin->n || (step->n > 0 && step->n != begin->n))
        return mx_op_fail(op, MX_ERR_ATTRIBUTE, "begin, end and step have %d, %d and %d numbers, data has shape %s",
                          begin->n, end->n, step->n, mx_shape_text(in, text));
    for (int i = 0; i < in->ndim; i++) {
        const bool given = i < begin->n;
        const int64_t by = given && step->n > 0 ? step->d[i] : MX_NONE_INT;
        if (by == 0)
            return mx_op_fail(op, MX_ERR_ATTRIBUTE, "step of axis %d is 0", i);
        span[i] = mx_span_of(in->dim[i], given ? begin->d[i] : MX_NONE_INT, given ? end->d[i] : MX_NONE_INT, by);
    }
    return MX_OK;
}

static mx_code spans_slice(const mx_op *op, const void *attrs, int n_in, const mx_shape_t *in, mx_span *span)
{
    const mx_slice_attrs *a = attrs;
    (void)n_in;
    return spans_of(op, &a->begin, &a->end, &a->step, in, span);
}

static mx_code spans_scalar(const mx_op *op, const void *attrs, int n_in, const mx_shape_t *in, mx_span *span)
{
    const mx_slice_assign_scalar_attrs *a = attrs;
    (void)n_in;
    return spans_of(op, &a->begin, &a->end, &a->step, in, span);
}

static mx_code spans_axis(const mx_op *op, const void *attrs, int n_in, const mx_shape_t *in, mx_span *span)
{
    const mx_slice_axis_attrs *a = attrs;
    const int axis = mx_axis(a->axis, in->ndim);
    (void)n_in;
    if (axis < 0)
        return mx_op_fail(op, MX_ERR_ATTRIBUTE, "axis %lld does not exist, data has %d axes", (long long)a->axis,
                          in->ndim);
    for (int i = 0; i < in->ndim; i++)
        span[i] = (mx_span){0, 1, in->dim[i]};
    span[axis] = mx_span_of(in->dim[axis], a->begin, a->end, MX_NONE_INT);
    return MX_OK;
}

static mx_code spans_like(const mx_op *op, const void *attrs, int n_in, const mx_shape_t *in, mx_span *span)
{
    const mx_dims *axes = &((const mx_slice_like_attrs *)attrs)->axes;
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    bool fits = axes->n > 0 || in[0].ndim == in[1].ndim;
    (void)n_in;
    for (int i = 0; i < in->ndim; i++)
        span[i] = (mx_span){0, 1, in->dim[i]};
    for (int i = 0; fits && i < (axes->n > 0 ? axes->n : in->ndim); i++) {
        const int axis = axes->n > 0 ? mx_axis(axes->d[i], in[0].ndim) : i;
        fits = axis >= 0 && axis < in[1].ndim && in[1].dim[axis] <= in[0].dim[axis];
        if (fits)
            span[axis].n = in[1].dim[axis];
    }
    if (!fits)
        return mx_op_fail(op, MX_ERR_SHAPE,
                          "data of shape %s cannot be sliced to the axes of shape_like, which has shape %s",
                          mx_shape_text(&in[0], a), mx_shape_text(&in[1], b));
    return MX_OK;
}

static mx_code spans_crop(const mx_op *op, const void *attrs, int n_in, const mx_shape_t *in, mx_span *span)
{
    const mx_crop_attrs *a = attrs;
    char text[MX_SHAPE_TEXT];
    bool fits = in[0].ndim == 4 && n_in <= 2 && (n_in == 1 || in[1].ndim == 4) && a->offset.n == 2 && a->h_w.n == 2;
    for (int i = 0; fits && i < 4; i++) {
        span[i] = (mx_span){0, 1, in->dim[i]};
        if (i < 2)
            continue;
        span[i].n = n_in == 2 ? in[1].dim[i] : a->h_w.d[i - 2];
        span[i].begin = a->center_crop ? (in->dim[i] - span[i].n) / 2 : a->offset.d[i - 2];
        fits =
            span[i].n >= 0 && span[i].n <= in->dim[i] && span[i].begin >= 0 && span[i].begin <= in->dim[i] - span[i].n;
    }
    if (!fits)
        return mx_op_fail(
            op, MX_ERR_SHAPE,
            "data has shape %s, wanted (N, C, H, W) at least as large as offset plus the size of the crop",
            mx_shape_text(in, text));
    return MX_OK;
}

/* ---- reading ------------------------------------------------------------------------------------------------ */

/* op->user: the function that finds the spans. */
typedef struct slice_rule {
    find_spans spans;
} slice_rule;

static find_spans rule_of(const mx_op *op) { return ((const slice_rule *)op->user)->spans; }

static mx_code infer_slice_like(mx_infer *infer)
{
    mx_span span[MX_MAX_NDIM];
    for (int i = 0; i < infer->n_in; i++)
        if (!mx_shape_known(&infer->in[i]))
            return MX_OK;
    if (rule_of(infer->op)(infer->op, infer->attrs, infer->n_in, infer->in, span))
        return mx_error_code();
    mx_shape_t out = {.ndim = infer->in[0].ndim};
    for (int i = 0; i < out.ndim; i++)
        out.dim[i] = span[i].n;
    return mx_infer_out(infer, 0, &out);
}

#define FAR (INT64_MAX / 4) /* stands for a size that is not known: any range is inside */

/* The slice of an axis of unknown size has an unknown size, whatever begin and end are. */
static mx_code infer_slice(mx_infer *infer)
{
    mx_span span[MX_MAX_NDIM];
    mx_shape_t in = infer->in[0], out = {.ndim = in.ndim};
    if (in.ndim < 0 || infer->n_in > 1)
        return infer_slice_like(infer);
    for (int i = 0; i < in.ndim; i++)
        in.dim[i] = in.dim[i] < 0 ? FAR : in.dim[i];
    if (rule_of(infer->op)(infer->op, infer->attrs, 1, &in, span))
        return mx_error_code();
    for (int i = 0; i < out.ndim; i++)
        out.dim[i] = infer->in[0].dim[i] < 0 ? -1 : span[i].n;
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_first_type(mx_infer *infer)
{
    return mx_infer_out_type(infer, 0, infer->in_type[0]) ? mx_error_code()
                                                          : mx_infer_in_type(infer, 0, infer->out_type[0]);
}

static mx_shape_t shape_of(const mx_array *x)
{
    mx_shape_t shape = {.ndim = x->ndim};
    memcpy(shape.dim, x->shape, sizeof shape.dim);
    return shape;
}

static mx_code spans_of_call(const mx_kernel_call *call, mx_span *span)
{
    mx_shape_t in[2] = {shape_of(call->in[0]), call->n_in > 1 ? shape_of(call->in[1]) : (mx_shape_t){0}};
    return rule_of(call->op)(call->op, call->attrs, call->n_in, in, span);
}

/* Strides and offset of the slice inside x. */
static void span_strides(const mx_array *x, const mx_span *span, int64_t *stride, int64_t *offset)
{
    mx_strides(x, stride);
    for (int i = 0; i < x->ndim; i++) {
        *offset += span[i].begin * stride[i];
        stride[i] *= span[i].step;
    }
}

static bool plan_slice(const mx_kernel_call *call, int i, mx_move *move)
{
    mx_span span[MX_MAX_NDIM];
    if (i || spans_of_call(call, span))
        return false;
    mx_move_to(move, call->out[0]);
    span_strides(call->in[0], span, move->from, &move->from_offset);
    return true;
}

static mx_code grad_slice(mx_grad *grad)
{
    mx_span span[MX_MAX_NDIM];
    if (!grad->wanted[0])
        return MX_OK;
    if (rule_of(grad->op)(grad->op, grad->attrs, grad->n_in, grad->in_shape, span))
        return mx_error_code();
    return mx_give(grad, 0, mx_g_unslice(grad->ograd[0], span, &grad->in_shape[0]));
}

static void reference_slice(const mx_reference_call *call, find_spans spans)
{
    mx_span span[MX_MAX_NDIM];
    int64_t at[MX_MAX_NDIM];
    if (spans(mx_op_find("slice"), call->attrs, call->n_in, call->in_shape, span))
        return;
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        mx_position(&call->out_shape[0], i, at);
        for (int k = 0; k < call->out_shape[0].ndim; k++)
            at[k] = span[k].begin + at[k] * span[k].step;
        call->out[0][i] = call->in[0][mx_element(&call->in_shape[0], at)];
    }
}
static void ref_slice(const mx_reference_call *call) { reference_slice(call, spans_slice); }
static void ref_axis(const mx_reference_call *call) { reference_slice(call, spans_axis); }
static void ref_like(const mx_reference_call *call) { reference_slice(call, spans_like); }
static void ref_crop(const mx_reference_call *call) { reference_slice(call, spans_crop); }

static int count_crop(const void *attrs)
{
    const int64_t n = ((const mx_crop_attrs *)attrs)->num_args;
    return n == MX_NONE_INT ? 1 : (int)n;
}

/* ---- writing into zeros -------------------------------------------------------------------------------------- */

static mx_code spans_unslice(const mx_op *op, const mx_unslice_attrs *a, const mx_shape_t *in, mx_span *span)
{
    char text[MX_SHAPE_TEXT], shape[MX_SHAPE_TEXT];
    bool fits = a->begin.n == in->ndim && a->step.n == in->ndim && a->shape.n == in->ndim;
    for (int i = 0; fits && i < in->ndim; i++) {
        const int64_t size = a->shape.d[i], begin = a->begin.d[i], step = a->step.d[i];
        int64_t last, way;
        span[i] = (mx_span){begin, step, in->dim[i]};
        if (__builtin_mul_overflow(in->dim[i] - 1, step, &way) || __builtin_add_overflow(begin, way, &last))
            fits = false;
        else if (in->dim[i] > 0)
            fits = step && begin >= 0 && begin < size && last >= 0 && last < size;
    }
    if (!fits)
        return mx_op_fail(op, MX_ERR_ATTRIBUTE, "data of shape %s, written from begin on, does not fit into shape %s",
                          mx_shape_text(in, text), mx_dims_text(&a->shape, shape));
    return MX_OK;
}

static mx_code infer_unslice(mx_infer *infer)
{
    const mx_unslice_attrs *attrs = infer->attrs;
    mx_span span[MX_MAX_NDIM];
    mx_shape_t out = mx_shape_of_dims(&attrs->shape);
    if (out.ndim < 0)
        return mx_error_code();
    if (mx_shape_known(&infer->in[0]) && spans_unslice(infer->op, attrs, &infer->in[0], span))
        return mx_error_code();
    return mx_infer_out(infer, 0, &out);
}

static bool plan_unslice(const mx_kernel_call *call, int i, mx_move *move)
{
    mx_span span[MX_MAX_NDIM];
    mx_shape_t in = shape_of(call->in[0]);
    if (i > 1 || spans_unslice(call->op, call->attrs, &in, span))
        return false;
    if (i == 0)
        return mx_move_fill(move, call->out[0], 0);
    mx_move_from(move, call->in[0]);
    span_strides(call->out[0], span, move->to, &move->to_offset);
    return true;
}

static mx_code grad_unslice(mx_grad *grad)
{
    mx_span span[MX_MAX_NDIM];
    if (spans_unslice(grad->op, grad->attrs, &grad->in_shape[0], span))
        return mx_error_code();
    return mx_give(grad, 0, mx_g_slice(grad->ograd[0], span));
}

static void ref_unslice(const mx_reference_call *call)
{
    const mx_unslice_attrs *attrs = call->attrs;
    int64_t at[MX_MAX_NDIM];
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = 0;
    for (int64_t i = 0; i < mx_shape_size(&call->in_shape[0]); i++) {
        mx_position(&call->in_shape[0], i, at);
        for (int k = 0; k < call->in_shape[0].ndim; k++)
            at[k] = attrs->begin.d[k] + at[k] * attrs->step.d[k];
        call->out[0][mx_element(&call->out_shape[0], at)] = call->in[0][i];
    }
}

mx_array *mx_g_unslice(mx_array *x, const mx_span *span, const mx_shape_t *shape)
{
    mx_unslice_attrs attrs = {{.n = shape->ndim}, {.n = shape->ndim}, mx_dims_of_shape(shape)};
    for (int i = 0; i < shape->ndim; i++) {
        attrs.begin.d[i] = span[i].begin;
        attrs.step.d[i] = span[i].step;
    }
    return mx_g_call(MX_OP("_unslice"), &attrs, 1, &x);
}

static mx_slice_attrs attrs_of(const mx_span *span, int ndim)
{
    mx_slice_attrs attrs = {{.n = ndim}, {.n = ndim}, {.n = ndim}};
    for (int i = 0; i < ndim; i++) {
        const int64_t end = span[i].begin + span[i].n * span[i].step;
        attrs.begin.d[i] = span[i].begin;
        attrs.step.d[i] = span[i].step;
        attrs.end.d[i] = end < 0 ? MX_NONE_INT : end;
    }
    return attrs;
}

mx_array *mx_g_slice(mx_array *x, const mx_span *span)
{
    mx_slice_attrs attrs = attrs_of(span, x ? x->ndim : 0);
    return mx_g_call(MX_OP("slice"), &attrs, 1, &x);
}

mx_array *mx_g_slice_axis(mx_array *x, int axis, int64_t begin, int64_t end)
{
    mx_slice_axis_attrs attrs = {axis, begin, end};
    return mx_g_call(MX_OP("slice_axis"), &attrs, 1, &x);
}

/* ---- writing into a copy ------------------------------------------------------------------------------------- */
/* out = lhs, out[slice] = rhs.  With out being lhs itself only the slice is touched.  rhs may broadcast to the
 * slice. */

static mx_code region_of(const mx_infer *infer, mx_shape_t *region)
{
    mx_span span[MX_MAX_NDIM];
    mx_code code = rule_of(infer->op)(infer->op, infer->attrs, 1, infer->in, span);
    region->ndim = infer->in[0].ndim;
    for (int i = 0; !code && i < region->ndim; i++)
        region->dim[i] = span[i].n;
    return code;
}

static mx_code infer_assign(mx_infer *infer)
{
    mx_shape_t region, joint;
    char have[MX_SHAPE_TEXT], want[MX_SHAPE_TEXT];
    if (!mx_shape_known(&infer->in[0]))
        return MX_OK;
    if (region_of(infer, &region))
        return mx_error_code();
    if (infer->n_in > 1 && mx_shape_known(&infer->in[1]) &&
        (!mx_shape_broadcast(&region, &infer->in[1], &joint) || !mx_shape_equal(&region, &joint)))
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "rhs has shape %s, which does not broadcast to the slice of lhs, %s",
                          mx_shape_text(&infer->in[1], have), mx_shape_text(&region, want));
    return mx_infer_out(infer, 0, &infer->in[0]);
}

static bool plan_assign(const mx_kernel_call *call, int i, mx_move *move)
{
    mx_span span[MX_MAX_NDIM];
    if (i > 1 || spans_of_call(call, span))
        return false;
    mx_move_to(move, call->out[0]);
    if (i == 0) {
        mx_strides(call->in[0], move->from);
        return true;
    }
    for (int k = 0; k < move->ndim; k++)
        move->dim[k] = span[k].n;
    span_strides(call->out[0], span, move->to, &move->to_offset);
    if (call->n_in == 1) {
        move->input = MX_FROM_VALUE;
        move->value = ((const mx_slice_assign_scalar_attrs *)call->attrs)->scalar;
        return true;
    }
    const mx_array *rhs = call->in[1];
    int64_t stride[MX_MAX_NDIM];
    mx_strides(rhs, stride);
    move->input = 1;
    for (int k = 0; k < rhs->ndim; k++) /* axes of rhs count from the right */
        move->from[move->ndim - rhs->ndim + k] = rhs->shape[k] == 1 ? 0 : stride[k];
    return true;
}

static mx_array *clear_slice(mx_array *x, const mx_span *span)
{
    mx_slice_attrs plain = attrs_of(span, x ? x->ndim : 0);
    mx_slice_assign_scalar_attrs attrs = {0, plain.begin, plain.end, plain.step};
    return mx_g_call(MX_OP("_slice_assign_scalar"), &attrs, 1, &x);
}

/* d lhs = g with zeros in the slice, d rhs = g[slice] */
static mx_code grad_assign(mx_grad *grad)
{
    mx_span span[MX_MAX_NDIM];
    mx_array *g = grad->ograd[0];
    if (rule_of(grad->op)(grad->op, grad->attrs, 1, grad->in_shape, span))
        return mx_error_code();
    if (grad->wanted[0] && mx_give(grad, 0, clear_slice(g, span)))
        return mx_error_code();
    if (grad->n_in > 1 && grad->wanted[1])
        return mx_give(grad, 1, mx_g_sum_to(mx_g_slice(g, span), &grad->in_shape[1]));
    return MX_OK;
}

static void reference_assign(const mx_reference_call *call, find_spans spans, double scalar)
{
    mx_span span[MX_MAX_NDIM];
    int64_t at[MX_MAX_NDIM];
    const mx_shape_t *shape = &call->out_shape[0];
    if (spans(mx_op_find("slice"), call->attrs, 1, call->in_shape, span))
        return;
    mx_shape_t region = {.ndim = shape->ndim};
    for (int k = 0; k < shape->ndim; k++)
        region.dim[k] = span[k].n;
    for (int64_t i = 0; i < mx_shape_size(shape); i++)
        call->out[0][i] = call->in[0][i];
    for (int64_t i = 0; i < mx_shape_size(&region); i++) {
        mx_position(&region, i, at);
        double value = scalar;
        if (call->n_in > 1) {
            const mx_shape_t *rhs = &call->in_shape[1];
            int64_t from[MX_MAX_NDIM];
            for (int k = 0; k < rhs->ndim; k++)
                from[k] = rhs->dim[k] == 1 ? 0 : at[shape->ndim - rhs->ndim + k];
            value = call->in[1][mx_element(rhs, from)];
        }
        for (int k = 0; k < shape->ndim; k++)
            at[k] = span[k].begin + at[k] * span[k].step;
        call->out[0][mx_element(shape, at)] = value;
    }
}
static void ref_assign(const mx_reference_call *call) { reference_assign(call, spans_slice, 0); }
static void ref_assign_scalar(const mx_reference_call *call)
{
    reference_assign(call, spans_scalar, ((const mx_slice_assign_scalar_attrs *)call->attrs)->scalar);
}

// clang-format off
#define READS(find, ref) \
    .infer_shape = infer_slice, .infer_type = infer_first_type, .gradient = grad_slice, .reference = ref, \
    .movement = &(const mx_movement){plan_slice}, .user = &(const slice_rule){find}
#define WRITES(find, ref) \
    .flags = MX_OP_INPLACE, .infer_shape = infer_assign, .gradient = grad_assign, .reference = ref, \
    .movement = &(const mx_movement){plan_assign}, .user = &(const slice_rule){find}

mx_op mx_family_slice[] = {
    {.name = "slice", .look = MX_LOOK_SHAPE, .methods = "slice", .sparse = MX_SPARSE_SLICE,
     .aliases = "_sparse_slice crop _npx_slice _npi_slice",
     .doc = "slices an array by begin, end and step per axis", .inputs = "data",
     .schema = &slice_schema, READS(spans_slice, ref_slice),
     .samples = (const mx_sample[]){{"3,4", "begin=(0, 1), end=(2, 4)", 0, 0, NULL},
         {"5,6", "begin=(None, -1), end=(None, None), step=(2, -2)", 0, 0, NULL},
         {"3,4,2", "begin=(1,), end=(100,)", 0, 0, NULL}, {"7", "begin=(-2,), end=(0,), step=(-3,)", 0, 0, NULL},
         {"3,4", "begin=(2, 0), end=(1, 4)", 0, 0, NULL},
         {"2,9,3", "begin=(None, 8, 0), end=(None, None, 2), step=(None, -1, None)", 0, 0, NULL}, {0}}},
    {.name = "slice_axis", .look = MX_LOOK_SHAPE, .methods = "slice_axis", .doc = "slices an array along one axis; elements begin to end - 1, negative numbers count from the end",
     .inputs = "data",
     .schema = &slice_axis_schema, READS(spans_axis, ref_axis),
     .samples = (const mx_sample[]){{"3,4", "axis=1, begin=0, end=2", 0, 0, NULL},
         {"3,4", "axis=0, begin=-2, end=None", 0, 0, NULL},
         {"2,5,3", "axis=-2, begin=1, end=-1", 0, 0, NULL}, {"4", "axis=0, begin=2, end=2", 0, 0, NULL}, {0}}},
    {.name = "slice_like", MX_EMIT(mx_emit_movement, .reads = 1, .all = true), .methods = "slice_like",
     .doc = "slices data to the size of another array",
     .inputs = "data shape_like",
     .schema = &slice_like_schema, .no_grad_inputs = 2,
     READS(spans_like, ref_like),
     .samples = (const mx_sample[]){{"3,4;2,3", "", 0, 0, NULL}, {"3,4;2,3", "axes=(0,)", 0, 0, NULL},
         {"3,4,5;2,9,2", "axes=(0, -1)", 0, 0, NULL}, {0}}},
    {.name = "Crop", MX_EMIT(mx_emit_movement, .reads = 1, .all = true), .c_name = "crop_images",
     .doc = "crops images (N, C, H, W) to a given size or to the size of a second input",
     .inputs = "*data",
     .flags = MX_OP_LIST, .schema = &crop_schema, .count_in = count_crop,
     .no_grad_inputs = 2, READS(spans_crop, ref_crop),
     .samples = (const mx_sample[]){{"1,2,5,6", "num_args=1, offset=(1, 2), h_w=(3, 2)", 0, 0, NULL},
         {"1,2,5,6;1,1,3,4", "num_args=2, center_crop=True", 0, 0, NULL}, {0}}},
    {.name = "_unslice", .doc = "zeros with data in a slice: the adjoint of slice", .inputs = "data",
     .schema = &unslice_schema, .flags = MX_OP_HIDDEN,
     .infer_shape = infer_unslice, .gradient = grad_unslice, .reference = ref_unslice,
     .movement = &(const mx_movement){plan_unslice},
     .samples = (const mx_sample[]){{"2,3", "begin=(1, 0), step=(1, 2), shape=(4, 6)", 0, 0, NULL},
         {"3", "begin=(4,), step=(-2,), shape=(5,)", 0, 0, NULL},
         {"2,0", "begin=(0, 0), step=(1, 1), shape=(2, 3)", 0, 0, NULL}, {0}}},
    {.name = "_slice_assign", .aliases = "_crop_assign _npi_slice_assign", .doc = "lhs with rhs written into a slice",
     .inputs = "lhs rhs", .schema = &slice_schema,
     WRITES(spans_slice, ref_assign),
     .samples = (const mx_sample[]){{"3,4;2,3", "begin=(0, 1), end=(2, 4)", 0, 0, NULL},
         {"5,6;3,1", "begin=(None, -1), end=(None, None), step=(2, -2)", 0, 0, NULL},
         {"3,4;4", "begin=(1,), end=(3,)", 0, 0, NULL}, {0}}},
    {.name = "_slice_assign_scalar", .shows = "scalar", .aliases = "_crop_assign_scalar _npi_slice_assign_scalar",
     .doc = "data with a value written into a slice", .inputs = "data",
     .schema = &slice_assign_scalar_schema, WRITES(spans_scalar, ref_assign_scalar),
     .samples = (const mx_sample[]){{"3,4", "scalar=3, begin=(0, 1), end=(2, 4)", 0, 0, NULL},
         {"5,6", "begin=(None, -1), end=(None, None), step=(2, -2)", 0, 0, NULL}, {0}}},
    {0},
};
// clang-format on
