/* Pad: a border around an array, of one number, of the edge's values or of reflected values; and diag.
 *
 * The inside is copied first.  Then, axis by axis from the last to the first, the two borders of the axis are written
 * across everything written so far, reading from the output itself: this fills the corners correctly.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/movement.h"
#include "op/walk.h"

#define PAD_ATTRS(X) \
    X(ENUM, mode, REQUIRED, "constant|edge|reflect", "how the border is filled") \
    X(DIMS, pad_width, REQUIRED, "", "widths before and after each axis: (b0, a0, b1, a1, ...)") \
    X(FLOAT, constant_value, "0.0", "", "value for mode constant")
MX_ATTRS(pad, PAD_ATTRS)
enum { CONSTANT, EDGE, REFLECT };

#define DIAG_ATTRS(X) \
    X(INT, k, "0", "", "which diagonal: 0 is the main one, positive ones are above it") \
    X(INT, axis1, "0", "", "axis of the rows") \
    X(INT, axis2, "1", "", "axis of the columns")
MX_ATTRS(diag, DIAG_ATTRS)

#define UNDIAG_ATTRS(X) DIAG_ATTRS(X) X(DIMS, shape, REQUIRED, "", "shape of the result")
MX_ATTRS(undiag, UNDIAG_ATTRS)

/* ---- Pad ---------------------------------------------------------------------------------------------------- */

static mx_code infer_pad(mx_infer *infer)
{
    const mx_pad_attrs *attrs = infer->attrs;
    const mx_shape_t *in = &infer->in[0];
    const int64_t *width = attrs->pad_width.d;
    char text[MX_SHAPE_TEXT], shape[MX_SHAPE_TEXT];
    if (!mx_shape_known(in))
        return MX_OK;
    mx_shape_t out = *in;
    bool fits = attrs->pad_width.n == 2 * in->ndim;
    for (int i = 0; fits && i < in->ndim; i++) {
        const int64_t before = width[2 * i], after = width[2 * i + 1], most = before > after ? before : after;
        fits = before >= 0 && after >= 0 && !__builtin_add_overflow(out.dim[i], before, &out.dim[i]) &&
               !__builtin_add_overflow(out.dim[i], after, &out.dim[i]) &&
               (!most || attrs->mode == CONSTANT || (attrs->mode == EDGE ? in->dim[i] > 0 : most < in->dim[i]));
    }
    if (!fits)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE,
                          "pad_width %s does not fit data of shape %s: two widths per axis, not negative%s",
                          mx_dims_text(&attrs->pad_width, text), mx_shape_text(in, shape),
                          attrs->mode == REFLECT ? ", smaller than the axis" : "");
    return mx_infer_out(infer, 0, &out);
}

static bool plan_inside(const mx_kernel_call *call, mx_move *move)
{
    mx_move_from(move, call->in[0]);
    mx_strides(call->out[0], move->to);
    for (int k = 0; k < move->ndim; k++)
        move->to_offset += ((const mx_pad_attrs *)call->attrs)->pad_width.d[2 * k] * move->to[k];
    return true;
}

/* The border before or after the inside of `axis`: axes left of it have their inside, axes right of it are complete. */
static bool plan_border(const mx_kernel_call *call, int axis, bool after, mx_move *move)
{
    const mx_pad_attrs *attrs = call->attrs;
    const mx_array *in = call->in[0];
    const int64_t *width = attrs->pad_width.d;
    mx_move_to(move, call->out[0]);
    for (int k = 0; k < axis; k++) {
        move->dim[k] = in->shape[k];
        move->to_offset += width[2 * k] * move->to[k];
    }
    const int64_t stride = move->to[axis], first = move->to_offset + width[2 * axis] * stride, size = in->shape[axis];
    move->dim[axis] = width[2 * axis + after];
    move->to_offset += after ? (width[2 * axis] + size) * stride : 0;
    for (int k = 0; k < move->ndim; k++)
        move->from[k] = move->to[k];
    move->input = attrs->mode == CONSTANT ? MX_FROM_VALUE : MX_FROM_OUTPUT;
    move->value = attrs->constant_value;
    move->from[axis] = attrs->mode == EDGE ? 0 : -stride;
    /* edge: the first or last element; reflect: walking away from the edge, which itself is not repeated */
    if (attrs->mode == EDGE)
        move->from_offset = after ? first + (size - 1) * stride : first;
    else
        move->from_offset = after ? first + (size - 2) * stride : first + width[2 * axis] * stride;
    return true;
}

static bool plan_pad(const mx_kernel_call *call, int i, mx_move *move)
{
    const int ndim = call->in[0]->ndim, border = i - 1;
    if (i == 0)
        return plan_inside(call, move);
    return border < 2 * ndim && plan_border(call, ndim - 1 - border / 2, border % 2, move);
}

static mx_array *pad_axis(mx_array *x, const mx_shape_t *shape, int axis, int64_t before, int64_t after)
{
    mx_pad_attrs attrs = {CONSTANT, {.n = 2 * shape->ndim}, 0};
    attrs.pad_width.d[2 * axis] = before;
    attrs.pad_width.d[2 * axis + 1] = after;
    return mx_g_call(MX_OP("Pad"), &attrs, 1, &x);
}

static mx_array *turn_axis(mx_array *x, int axis)
{
    mx_dims attrs = MX_DIMS(axis);
    return mx_g_call(MX_OP("reverse"), &attrs, 1, &x);
}

/* What a border of n elements gives back to the inside of size d: reflect: reversed, onto elements 1..n (or
 * d-1-n..d-2); edge: its sum onto the first (or last) element. `now` is the shape of g with axis of size d. */
static mx_array *border_gradient(mx_array *part, int mode, const mx_shape_t *now, int axis, int64_t n, bool after)
{
    const int64_t d = now->dim[axis];
    mx_shape_t one = *now;
    one.dim[axis] = 1;
    if (mode == EDGE) {
        part = mx_g_sum_to(part, &one);
        return pad_axis(part, now, axis, after ? d - 1 : 0, after ? 0 : d - 1);
    }
    part = turn_axis(part, axis);
    return pad_axis(part, now, axis, after ? d - 1 - n : 1, after ? 1 : d - 1 - n);
}

static mx_code grad_pad(mx_grad *grad)
{
    const mx_pad_attrs *attrs = grad->attrs;
    mx_array *g = grad->ograd[0];
    mx_shape_t now = grad->in_shape[0];
    mx_span span[MX_MAX_NDIM];
    for (int i = 0; i < now.ndim; i++) {
        span[i] = (mx_span){attrs->pad_width.d[2 * i], 1, now.dim[i]};
        now.dim[i] += attrs->pad_width.d[2 * i] + attrs->pad_width.d[2 * i + 1];
    }
    if (attrs->mode == CONSTANT)
        return mx_give(grad, 0, mx_g_slice(g, span));
    for (int i = 0; g && i < now.ndim; i++) {
        const int64_t before = attrs->pad_width.d[2 * i], after = attrs->pad_width.d[2 * i + 1],
                      d = grad->in_shape[0].dim[i];
        now.dim[i] = d;
        if (!before && !after)
            continue;
        mx_array *inside = mx_g_slice_axis(g, i, before, before + d);
        if (before)
            inside = mx_g_add(inside,
                              border_gradient(mx_g_slice_axis(g, i, 0, before), attrs->mode, &now, i, before, false));
        if (after)
            inside = mx_g_add(inside, border_gradient(mx_g_slice_axis(g, i, before + d, before + d + after),
                                                      attrs->mode, &now, i, after, true));
        g = inside;
    }
    return mx_give(grad, 0, g);
}

static void ref_pad(const mx_reference_call *call)
{
    const mx_pad_attrs *attrs = call->attrs;
    const mx_shape_t *in = &call->in_shape[0];
    int64_t at[MX_MAX_NDIM];
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        bool outside = false;
        mx_position(&call->out_shape[0], i, at);
        for (int k = 0; k < in->ndim; k++) {
            const int64_t p = at[k] - attrs->pad_width.d[2 * k], n = in->dim[k];
            outside |= p < 0 || p >= n;
            if (attrs->mode == REFLECT)
                at[k] = p < 0 ? -p : p >= n ? 2 * n - 2 - p : p;
            else
                at[k] = p < 0 ? 0 : p >= n ? n - 1 : p;
        }
        call->out[0][i] = outside && attrs->mode == CONSTANT ? attrs->constant_value : call->in[0][mx_element(in, at)];
    }
}

/* ---- diag --------------------------------------------------------------------------------------------------- */

/* The diagonal k of an (rows, columns) matrix: where it begins and how long it is. */
static int64_t diagonal(int64_t rows, int64_t columns, int64_t k, int64_t *row, int64_t *column)
{
    *row = k < 0 ? (k < -rows ? rows : -k) : 0;
    *column = k > 0 ? (k > columns ? columns : k) : 0;
    const int64_t down = rows - *row, across = columns - *column;
    return down < across ? down : across;
}

/* Shape of the diagonals of `in`: the other axes, then the diagonal. False if the axes are wrong. */
static bool diagonal_shape(const mx_diag_attrs *attrs, const mx_shape_t *in, mx_shape_t *out, int *axis1, int *axis2)
{
    int64_t row, column;
    *axis1 = mx_axis(attrs->axis1, in->ndim), *axis2 = mx_axis(attrs->axis2, in->ndim);
    if (*axis1 < 0 || *axis2 < 0 || *axis1 == *axis2)
        return false;
    out->ndim = 0;
    for (int i = 0; i < in->ndim; i++)
        if (i != *axis1 && i != *axis2)
            out->dim[out->ndim++] = in->dim[i];
    out->dim[out->ndim++] = diagonal(in->dim[*axis1], in->dim[*axis2], attrs->k, &row, &column);
    return true;
}

/* The first diagonal outside of the matrix is empty; those beyond do not exist. */
static bool diagonal_exists(const mx_diag_attrs *attrs, const mx_shape_t *in, int axis1, int axis2)
{
    return attrs->k <= in->dim[axis2] && attrs->k >= -in->dim[axis1];
}

static mx_code infer_diag(mx_infer *infer)
{
    const mx_diag_attrs *attrs = infer->attrs;
    const mx_shape_t *in = &infer->in[0];
    mx_shape_t out;
    char text[MX_SHAPE_TEXT];
    int a, b;
    if (!mx_shape_known(in))
        return MX_OK;
    if (in->ndim == 1) { /* a vector becomes the diagonal of a matrix */
        const int64_t most = (int64_t)1 << 31, k = attrs->k < -most ? most + 1 : attrs->k < 0 ? -attrs->k : attrs->k;
        if (k > most)
            return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "k %lld is too large", (long long)attrs->k);
        out = (mx_shape_t){2, {in->dim[0] + k, in->dim[0] + k}};
    } else if (!diagonal_shape(attrs, in, &out, &a, &b)) {
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE,
                          "axis1 %lld and axis2 %lld are not two different axes of data, which has shape %s",
                          (long long)attrs->axis1, (long long)attrs->axis2, mx_shape_text(in, text));
    } else if (!diagonal_exists(attrs, in, a, b)) {
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "data of shape %s has no diagonal %lld", mx_shape_text(in, text),
                          (long long)attrs->k);
    }
    return mx_infer_out(infer, 0, &out);
}

/* Strides of the diagonals inside x, in the order of the result's axes. */
static void diagonal_strides(const mx_diag_attrs *attrs, const mx_array *x, int64_t *stride, int64_t *offset)
{
    int64_t own[MX_MAX_NDIM], row, column;
    const int axis1 = mx_axis(attrs->axis1, x->ndim), axis2 = mx_axis(attrs->axis2, x->ndim);
    int n = 0;
    mx_strides(x, own);
    diagonal(x->shape[axis1], x->shape[axis2], attrs->k, &row, &column);
    for (int i = 0; i < x->ndim; i++)
        if (i != axis1 && i != axis2)
            stride[n++] = own[i];
    stride[n] = own[axis1] + own[axis2];
    *offset = row * own[axis1] + column * own[axis2];
}

static bool plan_undiag(const mx_kernel_call *call, int i, mx_move *move)
{
    if (i == 0)
        return mx_move_fill(move, call->out[0], 0);
    mx_move_from(move, call->in[0]);
    diagonal_strides(call->attrs, call->out[0], move->to, &move->to_offset);
    return i == 1;
}

static bool plan_diag(const mx_kernel_call *call, int i, mx_move *move)
{
    if (call->in[0]->ndim == 1) {
        const mx_diag_attrs plain = {((const mx_diag_attrs *)call->attrs)->k, 0, 1};
        mx_kernel_call other = *call;
        other.attrs = &plain;
        return plan_undiag(&other, i, move);
    }
    mx_move_to(move, call->out[0]);
    diagonal_strides(call->attrs, call->in[0], move->from, &move->from_offset);
    return i == 0;
}

static mx_code infer_undiag(mx_infer *infer)
{
    const mx_undiag_attrs *attrs = infer->attrs;
    mx_shape_t out = mx_shape_of_dims(&attrs->shape), in;
    int a, b;
    if (out.ndim < 0 || !mx_shape_known(&out))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "shape must be known");
    if (!diagonal_shape((const mx_diag_attrs *)attrs, &out, &in, &a, &b))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "axis1 and axis2 are not two different axes of shape");
    return mx_infer_in(infer, 0, &in) ? mx_error_code() : mx_infer_out(infer, 0, &out);
}

static mx_code grad_diag(mx_grad *grad)
{
    mx_undiag_attrs attrs = {.shape = mx_dims_of_shape(&grad->in_shape[0])};
    const mx_diag_attrs *own = grad->attrs;
    attrs.k = own->k, attrs.axis1 = own->axis1, attrs.axis2 = own->axis2;
    if (grad->in_shape[0].ndim != 1)
        return mx_give(grad, 0, mx_g_call(MX_OP("_undiag"), &attrs, 1, grad->ograd));
    mx_diag_attrs plain = {own->k, 0, 1};
    return mx_give(grad, 0, mx_g_call(MX_OP("diag"), &plain, 1, grad->ograd));
}

static mx_code grad_undiag(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_call(MX_OP("diag"), grad->attrs, 1, grad->ograd));
}

static void ref_undiag(const mx_reference_call *call)
{
    const mx_diag_attrs *attrs = call->attrs;
    const mx_shape_t *in = &call->in_shape[0], *out = &call->out_shape[0];
    const int axis1 = in->ndim == 1 ? 0 : mx_axis(attrs->axis1, out->ndim),
              axis2 = in->ndim == 1 ? 1 : mx_axis(attrs->axis2, out->ndim);
    int64_t at[MX_MAX_NDIM], from[MX_MAX_NDIM];
    for (int64_t i = 0; i < mx_shape_size(out); i++) {
        int n = 0;
        mx_position(out, i, at);
        for (int k = 0; k < out->ndim; k++)
            if (k != axis1 && k != axis2)
                from[n++] = at[k];
        from[n] = attrs->k > 0 ? at[axis1] : at[axis2];
        call->out[0][i] = at[axis2] - at[axis1] == attrs->k ? call->in[0][mx_element(in, from)] : 0;
    }
}

static void ref_diag(const mx_reference_call *call)
{
    const mx_diag_attrs *attrs = call->attrs;
    const mx_shape_t *in = &call->in_shape[0], *out = &call->out_shape[0];
    if (in->ndim == 1) {
        ref_undiag(call);
        return;
    }
    const int axis1 = mx_axis(attrs->axis1, in->ndim), axis2 = mx_axis(attrs->axis2, in->ndim);
    int64_t at[MX_MAX_NDIM], from[MX_MAX_NDIM];
    for (int64_t i = 0; i < mx_shape_size(out); i++) {
        int n = 0;
        mx_position(out, i, at);
        for (int k = 0; k < in->ndim; k++)
            if (k != axis1 && k != axis2)
                from[k] = at[n++];
        from[axis1] = at[n] + (attrs->k < 0 ? -attrs->k : 0);
        from[axis2] = at[n] + (attrs->k > 0 ? attrs->k : 0);
        call->out[0][i] = call->in[0][mx_element(in, from)];
    }
}

// clang-format off
mx_op mx_family_pad[] = {
    {.name = "Pad", .input_named = true, .look = MX_LOOK_SHAPE, .methods = "pad", .aliases = "pad", .doc = "adds elements before and after along each axis: a constant, the edge, or a reflection",
     .inputs = "data",
     .schema = &pad_schema,
     .infer_shape = infer_pad,
     .gradient = grad_pad, .reference = ref_pad, .movement = &(const mx_movement){plan_pad},
     .samples = (const mx_sample[]){{"1,2,3,4", "mode=constant, pad_width=(0, 0, 0, 0, 1, 2, 3, 1), constant_value=1.5",
     0, 0, NULL},
         {"2,1,3,4", "mode=edge, pad_width=(0, 0, 0, 0, 1, 2, 3, 1)", 0, 0, NULL},
         {"1,2,3,4", "mode=reflect, pad_width=(0, 0, 0, 0, 2, 1, 1, 3)", 0, 0, NULL},
         {"1,1,2,3,2", "mode=edge, pad_width=(0, 0, 0, 0, 1, 1, 0, 2, 2, 0)", 0, 0, NULL},
         {"3", "mode=constant, pad_width=(2, 0)", 0, 0, NULL},
         {"1,1,3,2,3", "mode=reflect, pad_width=(0, 0, 0, 0, 1, 2, 1, 1, 0, 1)", 0, 0, NULL},
         {"0,2", "mode=constant, pad_width=(1, 1, 0, 0)", 0, 0, NULL}, {0}}},
    {.name = "diag", .input_named = true, .methods = "diag", .doc = "extracts a diagonal, or builds a diagonal matrix from a vector",
     .inputs = "data",
     .schema = &diag_schema, .infer_shape = infer_diag,
     .gradient = grad_diag, .reference = ref_diag, .movement = &(const mx_movement){plan_diag},
     .samples = (const mx_sample[]){{"3,4", "", 0, 0, NULL}, {"3,4", "k=1", 0, 0, NULL}, {"4,3", "k=-2", 0, 0, NULL},
         {"3", "k=1", 0, 0, NULL}, {"2", "k=-1", 0, 0, NULL},
         {"2,3,4", "axis1=-1, axis2=0", 0, 0, NULL}, {"3,3", "k=3", 0, 0, NULL}, {0}}},
    {.name = "_undiag", .doc = "zeros with data on a diagonal: the adjoint of diag", .inputs = "data",
     .schema = &undiag_schema, .flags = MX_OP_HIDDEN,
     .infer_shape = infer_undiag, .gradient = grad_undiag, .reference = ref_undiag,
     .movement = &(const mx_movement){plan_undiag},
     .samples = (const mx_sample[]){{"3", "shape=(3, 4), k=1", 0, 0, NULL},
         {"3,2", "shape=(2, 3, 4), axis1=0, axis2=2", 0, 0, NULL}, {0}}},
    {0},
};
// clang-format on
