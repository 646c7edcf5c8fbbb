/* Broadcasting: axes of size 1 are repeated.
 *
 * All forms become one: the output's shape is known, the input is aligned to it from the right.
 * Gradient: dx = sum of g over the repeated axes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/emit.h"
#include "op/formula/movement.h"
#include "op/op.h"

#define BROADCAST_TO_ATTRS(X) X(DIMS, shape, "()", "", "shape of the result; 0 keeps the size of the axis")
MX_ATTRS(broadcast_to, BROADCAST_TO_ATTRS)

#define BROADCAST_AXIS_ATTRS(X) \
    X(DIMS, axis, "()", "", "axes of size 1 to broadcast") \
    X(DIMS, size, "()", "", "their sizes in the result")
MX_ATTRS(broadcast_axis, BROADCAST_AXIS_ATTRS)

#define BROADCAST_LIKE_ATTRS(X) \
    X(DIMS, lhs_axes, "None", "", "axes of lhs to broadcast; None: all that differ") \
    X(DIMS, rhs_axes, "None", "", "axes of rhs that give their sizes")
MX_ATTRS(broadcast_like, BROADCAST_LIKE_ATTRS)

/* ---- inference ------------------------------------------------------------------------------------------------- */

static mx_code repeat_to(mx_infer *infer, const mx_shape_t *target)
{
    mx_shape_t together;
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    if (mx_shape_broadcast(&infer->in[0], target, &together) && mx_shape_equal(&together, target))
        return mx_infer_out(infer, 0, target);
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "input of shape %s does not broadcast to %s: axes must be equal or 1",
                      mx_shape_text(&infer->in[0], a), mx_shape_text(target, b));
}

/* A negative size would be taken for "unknown" further on. */
static mx_code no_negative(const mx_op *op, const mx_dims *dims)
{
    char text[MX_SHAPE_TEXT];
    for (int i = 0; i < dims->n; i++)
        if (dims->d[i] < 0)
            return mx_op_fail(op, MX_ERR_ATTRIBUTE, "%s holds a negative size", mx_dims_text(dims, text));
    return MX_OK;
}

static mx_code infer_to(mx_infer *infer)
{
    const mx_broadcast_to_attrs *attrs = infer->attrs;
    mx_shape_t target = mx_shape_of_dims(&attrs->shape);
    if (target.ndim < 0 || no_negative(infer->op, &attrs->shape))
        return mx_error_code();
    if (!mx_shape_known(&infer->in[0]))
        return MX_OK;
    for (int i = 0; i < target.ndim; i++) {
        const int k = i - (target.ndim - infer->in[0].ndim);
        if (target.dim[i] == 0 && k >= 0)
            target.dim[i] = infer->in[0].dim[k];
    }
    return repeat_to(infer, &target);
}

static mx_code infer_exact(mx_infer *infer)
{
    const mx_broadcast_to_attrs *attrs = infer->attrs;
    const mx_shape_t target = mx_shape_of_dims(&attrs->shape);
    if (target.ndim < 0 || no_negative(infer->op, &attrs->shape))
        return mx_error_code();
    return mx_shape_known(&infer->in[0]) ? repeat_to(infer, &target) : MX_OK;
}

static mx_code set_axis(mx_infer *infer, mx_shape_t *target, int64_t axis, int64_t size)
{
    const int a = mx_axis(axis, target->ndim);
    if (a < 0)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "axis %lld is not an axis of an input with %d axes",
                          (long long)axis, target->ndim);
    if (infer->in[0].dim[a] != 1)
        return mx_op_fail(infer->op, MX_ERR_SHAPE,
                          "axis %d of the input has size %lld; only axes of size 1 can be broadcast", a,
                          (long long)infer->in[0].dim[a]);
    target->dim[a] = size;
    return MX_OK;
}

static mx_code infer_axis(mx_infer *infer)
{
    const mx_broadcast_axis_attrs *attrs = infer->attrs;
    if (attrs->axis.n != attrs->size.n)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "axis has %d entries, size has %d", attrs->axis.n,
                          attrs->size.n);
    if (!mx_shape_known(&infer->in[0]))
        return MX_OK;
    mx_shape_t target = infer->in[0];
    if (no_negative(infer->op, &attrs->size))
        return mx_error_code();
    for (int i = 0; i < attrs->axis.n; i++)
        if (set_axis(infer, &target, attrs->axis.d[i], attrs->size.d[i]))
            return mx_error_code();
    return mx_infer_out(infer, 0, &target);
}

static mx_code infer_like(mx_infer *infer)
{
    const mx_broadcast_like_attrs *attrs = infer->attrs;
    const mx_shape_t *rhs = &infer->in[1];
    if (!mx_shape_known(&infer->in[0]) || !mx_shape_known(rhs))
        return MX_OK;
    if (attrs->lhs_axes.n == 0 || attrs->rhs_axes.n == 0)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "%s is empty, wanted axes or None",
                          attrs->lhs_axes.n == 0 ? "lhs_axes" : "rhs_axes");
    if (attrs->lhs_axes.n < 0 || attrs->rhs_axes.n < 0) /* one of the two alone counts as none */
        return repeat_to(infer, rhs);
    if (attrs->lhs_axes.n != attrs->rhs_axes.n)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE,
                          "lhs_axes and rhs_axes must be given together, with equally many axes");
    mx_shape_t target = infer->in[0];
    for (int i = 0; i < attrs->lhs_axes.n; i++) {
        const int r = mx_axis(attrs->rhs_axes.d[i], rhs->ndim);
        if (r < 0)
            return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "rhs_axes holds %lld, rhs has %d axes",
                              (long long)attrs->rhs_axes.d[i], rhs->ndim);
        if (set_axis(infer, &target, attrs->lhs_axes.d[i], rhs->dim[r]))
            return mx_error_code();
    }
    return mx_infer_out(infer, 0, &target);
}

/* The result has the type of the first input. */
static mx_code infer_like_type(mx_infer *infer) { return mx_infer_out_type(infer, 0, infer->in_type[0]); }

/* ---- gradient and reference ------------------------------------------------------------------------------------ */

static mx_code gradient(mx_grad *grad)
{
    if (grad->wanted[0])
        grad->igrad[0] = mx_g_sum_to(grad->ograd[0], &grad->in_shape[0]);
    return grad->wanted[0] && !grad->igrad[0] ? mx_error_code() : MX_OK;
}

static void reference(const mx_reference_call *call)
{
    const mx_shape_t *in = &call->in_shape[0], *out = &call->out_shape[0];
    for (int64_t i = 0; i < mx_shape_size(out); i++) {
        int64_t offset = 0, step = 1, rest = i;
        for (int axis = out->ndim - 1, k = in->ndim - 1; k >= 0; rest /= out->dim[axis], axis--, k--) {
            offset += in->dim[k] == 1 ? 0 : rest % out->dim[axis] * step;
            step *= in->dim[k];
        }
        call->out[0][i] = call->in[0][offset];
    }
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_broadcast(const mx_emit_call *n)
{
    mx_move move = {.ndim = n->y->ndim};
    const int lead = n->y->ndim - n->x->ndim;
    int64_t from = 1, to = 1;
    for (int i = n->y->ndim - 1; i >= 0; i--) {
        const int64_t in = i < lead ? 1 : n->x->dim[i - lead];
        move.dim[i] = n->y->dim[i];
        move.from[i] = in == 1 ? 0 : from;
        move.to[i] = to;
        from *= in;
        to *= n->y->dim[i];
    }
    mx_emit_move(n, &move);
    return MX_OK;
}

mx_op mx_family_broadcast[] = {
    {.name = "broadcast_to", MX_EMIT(emit_broadcast, .reads = 1), .aliases = "_npi_broadcast_to",
     .doc = "broadcasts data to the given shape", .inputs = "data",
     .schema = &broadcast_to_schema, .infer_shape = infer_to, .gradient = gradient, .reference = reference,
     .samples = (const mx_sample[]){{"1,3", "shape=(2, 3)", 0, 0, NULL}, {"2,1", "shape=(0, 4)", 0, 0, NULL},
                                    {"3", "shape=(2, 3)", 0, 0, NULL},
                                    {"2,1,3,1", "shape=(2, 4, 3, 5)", 0, 0, NULL}, {"2,3", "shape=(2, 3)", 0, 0, NULL},
                                    {"1", "shape=(3, 0)", 0, 0, NULL}, {"0,1", "shape=(0, 3)", 0, 0, NULL}, {0}}},
    {.name = "broadcast_axis", MX_EMIT(emit_broadcast, .reads = 1), .methods = "broadcast_axes broadcast_axis",
     .aliases = "broadcast_axes",
     .doc = "broadcasts the given axes of size 1", .inputs = "data",
     .schema = &broadcast_axis_schema, .infer_shape = infer_axis, .gradient = gradient, .reference = reference,
     .samples = (const mx_sample[]){{"1,2,1", "axis=(0, 2), size=(2, 3)", 0, 0, NULL},
                                    {"2,1", "axis=-1, size=5", 0, 0, NULL},
                                    {"1,3", "axis=0, size=300", 0, 0, NULL}, {0}}},
    {.name = "broadcast_like", MX_EMIT(emit_broadcast, .reads = 1),
     .doc = "broadcasts lhs to the shape of rhs", .inputs = "lhs rhs",
     .schema = &broadcast_like_schema,
     .infer_shape = infer_like, .infer_type = infer_like_type, .no_grad_inputs = 2, .gradient = gradient,
     .reference = reference, .samples = (const mx_sample[]){{"1,3;2,3", "", 0, 0, NULL},
                                    {"2,1;4,5", "lhs_axes=(1,), rhs_axes=(-1,)", 0, 0, NULL}, {0}}},
    {.name = "_broadcast_to", .doc = "broadcasts data to exactly the given shape", .inputs = "data",
     .flags = MX_OP_HIDDEN,
     .schema = &broadcast_to_schema, .infer_shape = infer_exact, .gradient = gradient, .reference = reference,
     .samples = (const mx_sample[]){{"1,3", "shape=(2, 3)", 0, 0, NULL}, {"()", "shape=(2, 3)", 0, 0, NULL},
                                    {"2,1", "shape=(3, 2, 4)", 0, 0, NULL},
                                    {"1,3", "shape=(0, 3)", 0, 0, NULL}, {0}}},
    {0},
};
