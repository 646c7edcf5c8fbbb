/* Elements by index along one axis: take, Embedding, pick, batch_take, one_hot.
 *
 * Indices may be of any type; fractions are truncated.  take shares one list of indices among all rows, pick and the
 * hidden `_take_along` have one index per element.  `_take_add` and `_put_along` are the adjoints:
 * they add gradients to the elements that were read, in the order of the indices, so that results do not
 * depend on threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "op/emit.h"
#include "op/formula/movement.h"
#include "op/formula/sparse.h"
#include "op/walk.h"

#define TAKE_ATTRS(X) \
    X(INT, axis, "0", "", "the axis to index") \
    X(ENUM, mode, "clip", "raise|wrap|clip", "indices out of range: raise an error, wrap around, or clip to the nearest end")
MX_ATTRS(take, TAKE_ATTRS)

#define ALONG_ATTRS(X) TAKE_ATTRS(X) X(DIMS, shape, REQUIRED, "", "shape of the result")
MX_ATTRS(take_add, ALONG_ATTRS)

#define PICK_ATTRS(X) \
    X(INT, axis, "-1", "", "the axis to index; None: the flattened array") \
    X(BOOL, keepdims, "False", "", "keep the axis with size 1") \
    X(ENUM, mode, "clip", "wrap|clip", "indices out of range: wrap around, or clip to the nearest end")
MX_ATTRS(pick, PICK_ATTRS)

#define ONE_HOT_ATTRS(X) \
    X(INT, depth, REQUIRED, "0..", "size of the new last axis") \
    X(FLOAT, on_value, "1.0", "", "value at the index") \
    X(FLOAT, off_value, "0.0", "", "value at all other positions") \
    X(DTYPE, dtype, "float32", "", "type of the result")
MX_ATTRS(one_hot, ONE_HOT_ATTRS)

#define EMBEDDING_ATTRS(X) \
    X(INT, input_dim, REQUIRED, "1..", "number of rows of the weight") \
    X(INT, output_dim, REQUIRED, "1..", "size of a row") \
    X(DTYPE, dtype, "float32", "", "type of the weight") \
    X(BOOL, sparse_grad, "False", "", "the gradient of the weight is row_sparse and holds only the rows that were used")
MX_ATTRS(embedding, EMBEDDING_ATTRS)

/* The fields of EMBEDDING_ATTRS, so that the same functions read them. */
#define SPARSE_EMBEDDING_ATTRS(X) \
    X(INT, input_dim, REQUIRED, "1..", "number of rows of the weight") \
    X(INT, output_dim, REQUIRED, "1..", "size of a row") \
    X(DTYPE, dtype, "float32", "", "type of the weight") \
    X(BOOL, sparse_grad, "True", "", "the gradient of the weight is row_sparse and holds only the rows that were used") \
    X(BOOL, deterministic, "False", "", "the order of the sums in the gradient is always the same")
MX_ATTRS(sparse_embedding, SPARSE_EMBEDDING_ATTRS)

enum { RAISE, WRAP, CLIP };

/* ---- shared ------------------------------------------------------------------------------------------------- */

static mx_code bad_axis(const mx_infer *infer, int64_t axis)
{
    char text[MX_SHAPE_TEXT];
    return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "axis %lld does not exist in shape %s", (long long)axis,
                      mx_shape_text(&infer->in[0], text));
}

/* The result has the type of input 0; the indices may be of any type. */
static mx_code infer_data_type(mx_infer *infer)
{
    return mx_infer_out_type(infer, 0, infer->in_type[0]) ? mx_error_code()
                                                          : mx_infer_in_type(infer, 0, infer->out_type[0]);
}

static int64_t reference_index(double value, int64_t size, int mode)
{
    int64_t i = (int64_t)value;
    if (mode == WRAP)
        return (i % size + size) % size;
    if (mode == RAISE)
        return i < 0 ? i + size : i;
    return i < 0 ? 0 : i >= size ? size - 1 : i;
}

/* out = zeros of `shape`, to which g is added at the indices */
static mx_array *add_back(mx_op *op, mx_array *g, mx_array *indices, int64_t axis, int mode, const mx_shape_t *shape)
{
    mx_take_add_attrs attrs = {axis, mode, mx_dims_of_shape(shape)};
    return mx_g_call(op, &attrs, 2, (mx_array *const[]){g, indices});
}

/* ---- take --------------------------------------------------------------------------------------------------- */

/* a (before, size, after), indices (n): out (before, n, after) */
static mx_code take_shape(const mx_infer *infer, int64_t wanted, const mx_shape_t *a, const mx_shape_t *indices,
                          mx_shape_t *out)
{
    const int axis = mx_axis(wanted, a->ndim);
    if (axis < 0)
        return bad_axis(infer, wanted);
    if (a->ndim + indices->ndim - 1 > MX_MAX_NDIM)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "the result would have %d axes, at most %d are supported",
                          a->ndim + indices->ndim - 1, MX_MAX_NDIM);
    if (a->dim[axis] == 0 && mx_shape_size(indices) > 0)
        return mx_op_fail(infer->op, MX_ERR_INDEX, "axis %d is empty: there is nothing to take", axis);
    out->ndim = 0;
    for (int i = 0; i < axis; i++)
        out->dim[out->ndim++] = a->dim[i];
    for (int i = 0; i < indices->ndim; i++)
        out->dim[out->ndim++] = indices->dim[i];
    for (int i = axis + 1; i < a->ndim; i++)
        out->dim[out->ndim++] = a->dim[i];
    return MX_OK;
}

static mx_code infer_take(mx_infer *infer)
{
    mx_shape_t out;
    if (!mx_shape_known(&infer->in[0]) || !mx_shape_known(&infer->in[1]))
        return MX_OK;
    if (take_shape(infer, ((const mx_take_attrs *)infer->attrs)->axis, &infer->in[0], &infer->in[1], &out))
        return mx_error_code();
    return mx_infer_out(infer, 0, &out);
}

static mx_code grad_take(mx_grad *grad)
{
    const mx_take_attrs *attrs = grad->attrs;
    if (!grad->wanted[0])
        return MX_OK;
    return mx_give(
        grad, 0,
        add_back(MX_OP("_take_add"), grad->ograd[0], grad->in[1], attrs->axis, attrs->mode, &grad->in_shape[0]));
}

static void reference_take(const mx_reference_call *call, const double *a, const mx_shape_t *shape,
                           const double *indices, int64_t n, int axis, int mode)
{
    const mx_split s = mx_split_at(shape, axis);
    for (int64_t b = 0; b < s.before; b++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < s.after; k++)
                call->out[0][(b * n + i) * s.after + k] =
                    a[(b * s.size + reference_index(indices[i], s.size, mode)) * s.after + k];
}

static void ref_take(const mx_reference_call *call)
{
    const mx_take_attrs *attrs = call->attrs;
    reference_take(call, call->in[0], &call->in_shape[0], call->in[1], mx_shape_size(&call->in_shape[1]),
                   mx_axis(attrs->axis, call->in_shape[0].ndim), attrs->mode);
}

static mx_code infer_take_add(mx_infer *infer)
{
    const mx_take_add_attrs *attrs = infer->attrs;
    mx_shape_t shape = mx_shape_of_dims(&attrs->shape), back;
    if (shape.ndim < 0)
        return mx_error_code();
    if (mx_shape_known(&infer->in[1]) &&
        (take_shape(infer, attrs->axis, &shape, &infer->in[1], &back) || mx_infer_in(infer, 0, &back)))
        return mx_error_code();
    return mx_infer_out(infer, 0, &shape);
}

static mx_code grad_take_add(mx_grad *grad)
{
    const mx_take_add_attrs *attrs = grad->attrs;
    mx_take_attrs take = {attrs->axis, attrs->mode};
    if (!grad->wanted[0])
        return MX_OK;
    return mx_give(grad, 0, mx_g_call(MX_OP("take"), &take, 2, (mx_array *const[]){grad->ograd[0], grad->in[1]}));
}

static void ref_take_add(const mx_reference_call *call)
{
    const mx_take_add_attrs *attrs = call->attrs;
    const mx_split s = mx_split_at(&call->out_shape[0], mx_axis(attrs->axis, call->out_shape[0].ndim));
    const int64_t n = mx_shape_size(&call->in_shape[1]);
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = 0;
    for (int64_t b = 0; b < s.before; b++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < s.after; k++)
                call->out[0][(b * s.size + reference_index(call->in[1][i], s.size, attrs->mode)) * s.after + k] +=
                    call->in[0][(b * n + i) * s.after + k];
}

/* ---- Embedding: take along axis 0 of the weight --------------------------------------------------------------- */

static mx_code infer_embedding(mx_infer *infer)
{
    const mx_embedding_attrs *attrs = infer->attrs;
    const mx_shape_t *data = &infer->in[0];
    mx_shape_t weight = {2, {attrs->input_dim, attrs->output_dim}};
    if (mx_infer_in(infer, 1, &weight))
        return mx_error_code();
    if (data->ndim < 0)
        return MX_OK;
    if (data->ndim == MX_MAX_NDIM)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has %d axes, at most %d are supported", data->ndim,
                          MX_MAX_NDIM - 1);
    mx_shape_t out = *data;
    out.dim[out.ndim++] = attrs->output_dim;
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_embedding_type(mx_infer *infer)
{
    const mx_embedding_attrs *attrs = infer->attrs;
    if (infer->in_type[1] == MX_DTYPE_NONE)
        infer->in_type[1] = attrs->dtype == MX_DTYPE_NONE ? MX_FLOAT32 : (int)attrs->dtype;
    return mx_infer_out_type(infer, 0, infer->in_type[1]);
}

static mx_code grad_embedding(mx_grad *grad)
{
    const mx_embedding_attrs *attrs = grad->attrs;
    if (!grad->wanted[1])
        return MX_OK;
    /* In graphs, and where it will be differentiated again, it is dense. */
    if (attrs->sparse_grad && !grad->create_graph && grad->ograd[0]->storage && grad->in[0]->storage)
        return mx_give(grad, 1, mx_g_row_sparse(grad->in[0], grad->ograd[0], &grad->in_shape[1]));
    return mx_give(grad, 1, add_back(MX_OP("_take_add"), grad->ograd[0], grad->in[0], 0, CLIP, &grad->in_shape[1]));
}

static void ref_embedding(const mx_reference_call *call)
{
    reference_take(call, call->in[1], &call->in_shape[1], call->in[0], mx_shape_size(&call->in_shape[0]), 0, CLIP);
}

/* ---- one index per entry: _take_along, _put_along ------------------------------------------------------------- */
/* data (before, size, after), indices (before, n, after): out (before, n, after) */

static mx_code along_shape(mx_infer *infer, int64_t wanted, const mx_shape_t *data, const mx_shape_t *indices,
                           mx_shape_t *out)
{
    const int axis = mx_axis(wanted, data->ndim);
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    if (axis < 0)
        return bad_axis(infer, wanted);
    bool fits = indices->ndim == data->ndim;
    for (int i = 0; fits && i < data->ndim; i++)
        fits = i == axis || indices->dim[i] == data->dim[i];
    if (!fits || (data->dim[axis] == 0 && mx_shape_size(indices) > 0))
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "indices of shape %s do not fit data of shape %s along axis %d",
                          mx_shape_text(indices, a), mx_shape_text(data, b), axis);
    *out = *indices;
    return MX_OK;
}

static mx_code infer_take_along(mx_infer *infer)
{
    mx_shape_t out;
    if (!mx_shape_known(&infer->in[0]) || !mx_shape_known(&infer->in[1]))
        return MX_OK;
    if (along_shape(infer, ((const mx_take_attrs *)infer->attrs)->axis, &infer->in[0], &infer->in[1], &out))
        return mx_error_code();
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_put_along(mx_infer *infer)
{
    const mx_take_add_attrs *attrs = infer->attrs;
    mx_shape_t shape = mx_shape_of_dims(&attrs->shape), back;
    if (shape.ndim < 0)
        return mx_error_code();
    if (mx_shape_known(&infer->in[1]) &&
        (along_shape(infer, attrs->axis, &shape, &infer->in[1], &back) || mx_infer_in(infer, 0, &back)))
        return mx_error_code();
    return mx_infer_out(infer, 0, &shape);
}

static mx_code grad_take_along(mx_grad *grad)
{
    const mx_take_attrs *attrs = grad->attrs;
    if (!grad->wanted[0])
        return MX_OK;
    return mx_give(
        grad, 0,
        add_back(MX_OP("_put_along"), grad->ograd[0], grad->in[1], attrs->axis, attrs->mode, &grad->in_shape[0]));
}

static mx_code grad_put_along(mx_grad *grad)
{
    const mx_take_add_attrs *attrs = grad->attrs;
    mx_take_attrs take = {attrs->axis, attrs->mode};
    if (!grad->wanted[0])
        return MX_OK;
    return mx_give(grad, 0,
                   mx_g_call(MX_OP("_take_along"), &take, 2, (mx_array *const[]){grad->ograd[0], grad->in[1]}));
}

static void ref_take_along(const mx_reference_call *call)
{
    const mx_take_attrs *attrs = call->attrs;
    const mx_shape_t *data = &call->in_shape[0];
    int64_t at[MX_MAX_NDIM];
    const int axis = mx_axis(attrs->axis, data->ndim);
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        mx_position(&call->out_shape[0], i, at);
        at[axis] = reference_index(call->in[1][i], data->dim[axis], attrs->mode);
        call->out[0][i] = call->in[0][mx_element(data, at)];
    }
}

static void ref_put_along(const mx_reference_call *call)
{
    const mx_take_add_attrs *attrs = call->attrs;
    const mx_shape_t *out = &call->out_shape[0];
    int64_t at[MX_MAX_NDIM];
    const int axis = mx_axis(attrs->axis, out->ndim);
    for (int64_t i = 0; i < mx_shape_size(out); i++)
        call->out[0][i] = 0;
    for (int64_t i = 0; i < mx_shape_size(&call->in_shape[0]); i++) {
        mx_position(&call->in_shape[0], i, at);
        at[axis] = reference_index(call->in[1][i], out->dim[axis], attrs->mode);
        call->out[0][mx_element(out, at)] += call->in[0][i];
    }
}

/* ---- pick, batch_take: _take_along with one index per row ------------------------------------------------------- */

/* Data's shape as pick sees it and the axis in it. */
static mx_shape_t picked_shape(const mx_pick_attrs *attrs, const mx_shape_t *data, int *axis)
{
    if (attrs->axis != MX_NONE_INT) {
        *axis = mx_axis(attrs->axis, data->ndim);
        return *data;
    }
    *axis = 0;
    return (mx_shape_t){1, {mx_shape_size(data)}};
}

static mx_code pick_inference(mx_infer *infer, const mx_pick_attrs *attrs)
{
    const mx_shape_t *index = &infer->in[1];
    mx_shape_t kept, dropped = {.ndim = 0};
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    int axis;
    if (!mx_shape_known(&infer->in[0]))
        return MX_OK;
    kept = picked_shape(attrs, &infer->in[0], &axis);
    if (axis < 0)
        return bad_axis(infer, attrs->axis);
    if (kept.dim[axis] == 0)
        return mx_op_fail(infer->op, MX_ERR_INDEX, "axis %d is empty: there is nothing to pick", axis);
    kept.dim[axis] = 1;
    for (int i = 0; i < kept.ndim; i++)
        if (i != axis)
            dropped.dim[dropped.ndim++] = kept.dim[i];
    if (dropped.ndim == 0)
        dropped = (mx_shape_t){1, {1}}; /* classic arrays keep one axis */
    if (index->ndim < 0 && !attrs->keepdims && mx_infer_in(infer, 1, &dropped))
        return mx_error_code();
    if (mx_shape_known(index) && !mx_shape_equal(index, &kept) && !mx_shape_equal(index, &dropped) &&
        mx_shape_size(index) != 1)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "index has shape %s, wanted %s", mx_shape_text(index, a),
                          mx_shape_text(&dropped, b));
    if (mx_shape_known(index) && mx_shape_size(index) != mx_shape_size(&dropped))
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "index has shape %s, wanted %s", mx_shape_text(index, a),
                          mx_shape_text(&dropped, b));
    return mx_infer_out(infer, 0, attrs->keepdims ? &kept : &dropped);
}

static mx_code infer_pick(mx_infer *infer) { return pick_inference(infer, infer->attrs); }

static const mx_pick_attrs batch_attrs = {1, false, 1}; /* batch_take is pick along axis 1 */

static mx_code infer_batch(mx_infer *infer)
{
    char text[MX_SHAPE_TEXT];
    if (infer->in[0].ndim >= 0 && infer->in[0].ndim != 2)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "a has shape %s, wanted (N, C)", mx_shape_text(&infer->in[0], text));
    return pick_inference(infer, &batch_attrs);
}

static mx_code pick_gradient(mx_grad *grad, const mx_pick_attrs *attrs)
{
    int axis;
    if (!grad->wanted[0])
        return MX_OK;
    mx_shape_t shape = picked_shape(attrs, &grad->in_shape[0], &axis), kept = shape;
    kept.dim[axis] = 1;
    mx_array *g = mx_g_reshape(grad->ograd[0], &kept), *index = mx_g_reshape(grad->in[1], &kept);
    g = add_back(MX_OP("_put_along"), g, index, axis, attrs->mode ? CLIP : WRAP, &shape);
    return mx_give(grad, 0, mx_g_reshape(g, &grad->in_shape[0]));
}

static mx_code grad_pick(mx_grad *grad) { return pick_gradient(grad, grad->attrs); }
static mx_code grad_batch(mx_grad *grad) { return pick_gradient(grad, &batch_attrs); }

static void reference_pick(const mx_reference_call *call, const mx_pick_attrs *attrs)
{
    int axis;
    const mx_shape_t shape = picked_shape(attrs, &call->in_shape[0], &axis);
    const mx_split s = mx_split_at(&shape, axis);
    for (int64_t b = 0; b < s.before; b++)
        for (int64_t k = 0; k < s.after; k++) {
            const int64_t i = reference_index(call->in[1][b * s.after + k], s.size, attrs->mode ? CLIP : WRAP);
            call->out[0][b * s.after + k] = call->in[0][(b * s.size + i) * s.after + k];
        }
}
static void ref_pick(const mx_reference_call *call) { reference_pick(call, call->attrs); }
static void ref_batch(const mx_reference_call *call) { reference_pick(call, &batch_attrs); }

/* ---- one_hot ------------------------------------------------------------------------------------------------ */

static mx_code infer_one_hot(mx_infer *infer)
{
    const mx_one_hot_attrs *attrs = infer->attrs;
    mx_shape_t out = infer->in[0];
    if (out.ndim < 0)
        return MX_OK;
    if (out.ndim == MX_MAX_NDIM)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "indices has %d axes, at most %d are supported", out.ndim,
                          MX_MAX_NDIM - 1);
    out.dim[out.ndim++] = attrs->depth;
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_one_hot_type(mx_infer *infer)
{
    const mx_one_hot_attrs *attrs = infer->attrs;
    return mx_infer_out_type(infer, 0, attrs->dtype == MX_DTYPE_NONE ? MX_FLOAT32 : (int)attrs->dtype);
}

static void ref_one_hot(const mx_reference_call *call)
{
    const mx_one_hot_attrs *attrs = call->attrs;
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] =
            (int64_t)call->in[0][i / attrs->depth] == i % attrs->depth ? attrs->on_value : attrs->off_value;
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_rows(const mx_emit_call *n, int index, int table)
{
    const mx_shape_t *rows = n->in[table].shape;
    const int64_t count = rows->dim[0];
    mx_emit_use(n, "rows");
    mx_emit_print(n, "    rows(%s, %s, %s, %lld, %lld, %lld", n->in[index].place, n->in[table].place, n->out[0].place,
                  (long long)mx_shape_size(n->in[index].shape), (long long)count,
                  (long long)mx_emit_over(mx_shape_size(rows), count));
    return mx_emit_close(n);
}

static mx_code emit_embedding(const mx_emit_call *n) { return emit_rows(n, 0, 1); }

static mx_code emit_take(const mx_emit_call *n)
{
    const mx_take_attrs *attrs = n->attrs;
    const mx_split s = mx_split_at(n->x, mx_axis(attrs->axis, n->x->ndim));
    if (s.before == 1 && attrs->mode == CLIP)
        return emit_rows(n, 1, 0);
    if (attrs->mode == RAISE)
        return mx_emit_fail(n, "mode=raise cannot be written as C, only clip and wrap");
    mx_emit_open(n, "gather", 2);
    mx_emit_split(n, s);
    mx_emit_print(n, ", %lld, %d", (long long)mx_shape_size(n->in[1].shape), attrs->mode == WRAP);
    return mx_emit_close(n);
}

static mx_code emit_pick(const mx_emit_call *n)
{
    const mx_pick_attrs *attrs = n->attrs;
    const mx_split s = attrs->axis == MX_NONE_INT ? (mx_split){1, mx_shape_size(n->x), 1}
                                                  : mx_split_at(n->x, mx_axis(attrs->axis, n->x->ndim));
    mx_emit_open(n, "pick", 2);
    mx_emit_split(n, s);
    mx_emit_print(n, ", %d", attrs->mode == 0 /* wrap */);
    return mx_emit_close(n);
}

static mx_code emit_one_hot(const mx_emit_call *n)
{
    const mx_one_hot_attrs *attrs = n->attrs;
    mx_emit_open(n, "one_hot", 1);
    mx_emit_print(n, "%lld, %lld", (long long)mx_shape_size(n->x), (long long)attrs->depth);
    mx_emit_add(n, attrs->on_value);
    mx_emit_add(n, attrs->off_value);
    return mx_emit_close(n);
}

/* ---- checking mode -------------------------------------------------------------------------------------------- */

/* Input `i` indexes an axis of input `of`; `wraps`: any index is one of the axis. */
static mx_code audit_axis(const mx_kernel_call *call, int i, int of, int64_t axis, int mode)
{
    const mx_shape_t shape = mx_array_shape(call->in[of]);
    const int at = axis == MX_NONE_INT ? -1 : mx_axis(axis, shape.ndim);
    const int64_t size = at < 0 ? mx_shape_size(&shape) : shape.dim[at];
    return mode == WRAP ? MX_OK : mx_audit_indices(call, i, mode == RAISE ? -size : 0, size, NAN);
}
static mx_code audit_take(const mx_kernel_call *call)
{
    const mx_take_attrs *attrs = call->attrs;
    return audit_axis(call, 1, 0, attrs->axis, attrs->mode);
}
static mx_code audit_pick(const mx_kernel_call *call)
{
    const mx_pick_attrs *attrs = call->attrs; /* its modes are those of take without the first */
    return audit_axis(call, 1, 0, attrs->axis, attrs->mode + WRAP);
}
static mx_code audit_batch(const mx_kernel_call *call) { return audit_axis(call, 1, 0, -1, CLIP); }
static mx_code audit_embedding(const mx_kernel_call *call) { return audit_axis(call, 0, 1, 0, CLIP); }
static mx_code audit_one_hot(const mx_kernel_call *call)
{
    return mx_audit_indices(call, 0, 0, ((const mx_one_hot_attrs *)call->attrs)->depth, NAN);
}

// clang-format off
#define INDEXED .infer_type = infer_data_type, .no_grad_inputs = 2, .grad_in = 2
#define ADJOINT INDEXED, .flags = MX_OP_HIDDEN, .schema = &take_add_schema

mx_op mx_family_take[] = {
    {.name = "take", MX_EMIT(emit_take), .methods = "take", .sparse = MX_SPARSE_TAKE, .aliases = "_npi_take",
     .doc = "takes elements along an axis by index; row i of the result is row indices[i] of a",
     .inputs = "a indices",
     .schema = &take_schema, INDEXED,
     .infer_shape = infer_take, .audit = audit_take, .gradient = grad_take, .reference = ref_take,
     .samples = (const mx_sample[]){{"4,3;2", "", -2, 6, "int:1"}, {"4,3;2,2", "axis=1, mode=wrap", -5, 7, "int:1"},
         {"2,5,3;4", "axis=-2, mode=clip", -1, 6, "int:1"},
         {"5;3,1", "mode=raise", 0, 5, "int:1"}, {"6,40;70", "", 0, 6, "int:1"}, {"3,2;0", "", 0, 3, "int:1"}, {0}}},
    {.name = "_take_add", .doc = "zeros to which data is added at the indices: the adjoint of take",
     .inputs = "data indices", ADJOINT,
     .infer_shape = infer_take_add, .gradient = grad_take_add, .reference = ref_take_add,
     .samples = (const mx_sample[]){{"5,3;5", "axis=0, shape=(4, 3)", -1, 6, "int:1"},
         {"2,2,3,2;2,3", "axis=1, mode=wrap, shape=(2, 4, 2)", -5, 7, "int:1"},
         {"9,33;9", "axis=0, shape=(3, 33)", 0, 3, "int:1"}, {0}}},
    {.name = "Embedding", MX_EMIT(emit_embedding), .look = MX_LOOK_WEIGHTS, .sparse = MX_SPARSE_EMBEDDING,
     .sparse_gradient = true,
     .aliases = "_sparse_Embedding _npx_embedding", .c_name = "op_embedding",
     .doc = "looks up rows of the weight by index: y[i, j] = weight[data[i], j]", .inputs = "data weight",
     .schema = &embedding_schema, .infer_shape = infer_embedding, .infer_type = infer_embedding_type,
     .no_grad_inputs = 1, .grad_in = 1,
     .audit = audit_embedding, .gradient = grad_embedding, .reference = ref_embedding,
     .samples = (const mx_sample[]){{"2,3;5,4", "input_dim=5, output_dim=4", 0, 5, "int:0"},
         {"7;3,40", "input_dim=3, output_dim=40", -1, 5, "int:0"}, {0}}},
    {.name = "_contrib_SparseEmbedding", MX_EMIT(emit_embedding), .look = MX_LOOK_WEIGHTS, .sparse = MX_SPARSE_EMBEDDING,
     .sparse_gradient = true, .c_name = "sparse_embedding",
     .doc = "Embedding whose weight has a row_sparse gradient: Embedding(sparse_grad=True)", .inputs = "data weight",
     .schema = &sparse_embedding_schema, .infer_shape = infer_embedding, .infer_type = infer_embedding_type,
     .no_grad_inputs = 1, .grad_in = 1,
     .audit = audit_embedding, .gradient = grad_embedding, .reference = ref_embedding,
     .samples = (const mx_sample[]){{"2,3;5,4", "input_dim=5, output_dim=4", 0, 5, "int:0"}, {0}}},
    {.name = "_take_along", .doc = "takes elements along an axis, with one index per element of the result", .inputs = "data indices",
     .schema = &take_schema, INDEXED, .flags = MX_OP_HIDDEN,
     .infer_shape = infer_take_along, .gradient = grad_take_along, .reference = ref_take_along,
     .samples = (const mx_sample[]){{"3,4;3,2", "axis=1", 0, 4, "int:1"},
         {"4,3;2,3", "axis=0, mode=wrap", -5, 7, "int:1"}, {0}}},
    {.name = "_put_along", .doc = "adds data to zeros along an axis, with one index per element of data",
     .inputs = "data indices", ADJOINT,
     .infer_shape = infer_put_along, .gradient = grad_put_along, .reference = ref_put_along,
     .samples = (const mx_sample[]){{"3,2;3,2", "axis=1, shape=(3, 4)", 0, 4, "int:1"},
         {"2,3;2,3", "axis=0, mode=wrap, shape=(4, 3)", -5, 7, "int:1"}, {0}}},
    {.name = "pick", MX_EMIT(emit_pick), .methods = "pick", .aliases = "choose_element_0index _npx_pick",
     .doc = "picks one element per row by index: y[i] = data[i, index[i]]",
     .inputs = "data index", .schema = &pick_schema, INDEXED,
     .infer_shape = infer_pick, .audit = audit_pick, .gradient = grad_pick, .reference = ref_pick,
     .samples = (const mx_sample[]){{"3,4;3", "", -1, 6, "int:1"}, {"3,4;3,1", "keepdims=True", 0, 4, "int:1"},
         {"3,4;4", "axis=0, mode=wrap", -4, 7, "int:1"},
         {"2,3,4;2,4", "axis=1", 0, 3, "int:1"}, {"3,4;3", "keepdims=True", 0, 4, "int:1"},
         {"2,3;1", "axis=None", 0, 6, "int:1"}, {"5;1", "", 0, 5, "int:1"}, {0}}},
    {.name = "batch_take", .methods = "batch_take", .doc = "picks one element per row of a matrix by index",
     .inputs = "a indices", INDEXED,
     .infer_shape = infer_batch, .audit = audit_batch, .gradient = grad_batch, .reference = ref_batch,
     .samples = (const mx_sample[]){{"3,4;3", "", 0, 4, "int:1"}, {0}}},
    {.name = "one_hot", MX_EMIT(emit_one_hot), .methods = "one_hot", .aliases = "_npx_one_hot",
     .doc = "a new last axis that holds on_value at the index and off_value elsewhere", .inputs = "indices",
     .schema = &one_hot_schema, .flags = MX_OP_ZERO_GRADIENT, .infer_shape = infer_one_hot,
     .infer_type = infer_one_hot_type, .audit = audit_one_hot, .reference = ref_one_hot,
     .samples = (const mx_sample[]){{"4", "depth=3", -1, 4, "int:0"},
         {"2,3", "depth=4, on_value=2, off_value=-1", 0, 4, "int:0"}, {"3", "depth=5, dtype=int32", 0, 5, "int:0"},
     {0}}},
    {0},
};
// clang-format on
