/* Shapes, the order of axes, casts.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* ---- shapes ---------------------------------------------------------------------------------------------------- */

/* What is left (-1) is a number if all unknown sizes are copied (0). */
static void settle_rest(const mx_array *x, mx_dims *shape)
{
    int64_t in = 1, out = 1, rest = -1;
    for (int i = 0; i < x->ndim; i++) {
        if (x->shape[i] < 0 && !(i < shape->n && shape->d[i] == 0))
            return;
        if (__builtin_mul_overflow(in, x->shape[i] < 0 ? 1 : x->shape[i], &in))
            return;
    }
    for (int i = 0; i < shape->n; i++) {
        int64_t size = shape->d[i];
        if (size == -1) {
            rest = i;
            continue;
        }
        if (size < 0 || (size == 0 && i >= x->ndim))
            return;
        size = size ? size : x->shape[i] < 0 ? 1 : x->shape[i];
        if (__builtin_mul_overflow(out, size, &out))
            return;
    }
    if (rest >= 0 && out > 0 && in % out == 0 && in > 0)
        shape->d[rest] = in / out;
}

/* A placeholder is the size of the same axis (0) or, if there is only one, what is left (-1). */
static mx_code read_reshape(mx_onnx_in *n)
{
    mx_dims shape;
    if (n->opset < 5 ? !mx_onnx_ints(n, "shape", &shape) : !mx_onnx_dims(n, 1, &shape))
        return mx_error_code();
    mx_array *x = n->in[0];
    const bool zeros = mx_onnx_int(n, "allowzero", 0);
    int unknown = 0, inferred = 0;
    for (int i = 0; i < shape.n; i++) {
        if (shape.d[i] < -1 && !mx_onnx_is_unknown(shape.d[i]))
            return mx_onnx_fail(n, MX_ERR_FILE, "the shape has the size %lld", (long long)shape.d[i]);
        if (mx_onnx_is_unknown(shape.d[i]) && !n->value[0] && i < x->ndim && shape.d[i] == mx_onnx_placeholder(n, x, i))
            shape.d[i] = 0;
        unknown += mx_onnx_is_unknown(shape.d[i]);
        inferred += shape.d[i] == -1;
    }
    for (int i = 0; i < shape.n;
         i++) /* of several, the first may be that of the same axis: a batch is passed through */
        if (mx_onnx_is_unknown(shape.d[i]) && unknown + inferred > 1 && i < x->ndim && x->shape[i] < 0) {
            shape.d[i] = 0;
            unknown--;
        }
    if (unknown + inferred > 1)
        return mx_onnx_fail(n, MX_ERR_SHAPE,
                            "the shape has several sizes that are not known; give the shapes of the inputs");
    bool empty = false;
    for (int i = 0; i < shape.n; i++) {
        shape.d[i] = mx_onnx_is_unknown(shape.d[i]) ? -1 : shape.d[i];
        empty |= zeros && shape.d[i] == 0;
    }
    if (empty || !shape.n) { /* codes cannot say it */
        const mx_shape_t target = mx_shape_of_dims(&shape);
        n->out[0] = mx_g_reshape(x, &target);
        return MX_OK;
    }
    settle_rest(x, &shape);
    n->out[0] = mx_reshape(x, .shape = shape);
    return MX_OK;
}

/* Codes of ours that ONNX lacks become sizes, if they are known. */
static mx_code write_shape(mx_onnx_out *o)
{
    const mx_reshape_attrs *a = o->attrs;
    const mx_shape_t *out = &o->out_shape[0], *in = &o->in_shape[0];
    int64_t shape[MX_MAX_TUPLE];
    int n = a->shape.n, unknown = 0;
    bool plain = !a->reverse && n > 0;
    for (int i = 0; i < n; i++)
        plain &= a->shape.d[i] >= -1;
    if (plain) {
        mx_onnx_put(o, o->out[0], "Reshape", o->in[0], mx_onnx_put_ints(o, n, a->shape.d));
        return mx_onnx_done(o);
    }
    if (out->ndim < 0)
        return mx_onnx_refuse(o, "its result has an unknown number of axes; give the shapes of the inputs");
    for (int i = 0; i < out->ndim; i++) {
        shape[i] = out->dim[i];
        if (shape[i] < 0 && i < in->ndim && in->dim[i] < 0 && !unknown && i == 0)
            shape[i] =
                0; /* the batch stays the first axis unless it is merged: then its size is not that of the input */
    }
    if (out->ndim && shape[0] == 0) { /* is the first axis really the same? compare what follows it */
        int64_t a_size = 1, b_size = 1;
        for (int i = 1; i < in->ndim; i++)
            a_size *= in->dim[i];
        for (int i = 1; i < out->ndim; i++)
            b_size *= out->dim[i];
        shape[0] = a_size == b_size && a_size > 0 ? 0 : -1;
    }
    for (int i = 0; i < out->ndim; i++)
        unknown += shape[i] < 0;
    if (unknown > 1)
        return mx_onnx_refuse(o, "its result has several unknown sizes; give the shapes of the inputs");
    mx_onnx_put(o, o->out[0], "Reshape", o->in[0], mx_onnx_put_ints(o, out->ndim, shape));
    return mx_onnx_done(o);
}

static mx_code write_reshape_like(mx_onnx_out *o)
{
    const mx_reshape_like_attrs *a = o->attrs;
    if (a->lhs_begin == MX_NONE_INT && a->lhs_end == MX_NONE_INT && a->rhs_begin == MX_NONE_INT &&
        a->rhs_end == MX_NONE_INT) {
        mx_onnx_put(o, o->out[0], "Reshape", o->in[0], mx_onnx_put(o, NULL, "Shape", o->in[1]));
        return mx_onnx_done(o);
    }
    int unknown = 0;
    for (int i = 0; i < o->out_shape[0].ndim; i++)
        unknown += o->out_shape[0].dim[i] < 0;
    if (o->out_shape[0].ndim < 0 || unknown > 1)
        return mx_onnx_refuse(o, "its result has several unknown sizes; give the shapes of the inputs");
    mx_onnx_put(o, o->out[0], "Reshape", o->in[0], mx_onnx_put_ints(o, o->out_shape[0].ndim, o->out_shape[0].dim));
    return mx_onnx_done(o);
}

static mx_code read_flatten(mx_onnx_in *n)
{
    const int rank = mx_onnx_rank(n, 0);
    int64_t axis = mx_onnx_int(n, "axis", 1), before = 1;
    if (rank < 0 || axis < -rank || axis > rank)
        return mx_onnx_fail(n, MX_ERR_FILE, "axis %lld, but its input has %d axes", (long long)axis, rank);
    axis += axis < 0 ? rank : 0;
    if (axis == 1) {
        n->out[0] = mx_reshape(n->in[0], .shape = MX_DIMS(0, -1));
        return MX_OK;
    }
    for (int i = 0; i < axis; i++)
        before *= n->in[0]->shape[i];
    if (axis && before < 0)
        return mx_onnx_fail(n, MX_ERR_SHAPE, "sizes are not known; give the shapes of the inputs");
    n->out[0] = mx_reshape(n->in[0], .shape = MX_DIMS(before, -1));
    return MX_OK;
}

/* Axes are an attribute before opset 13, an input since. */
static bool take_axes(mx_onnx_in *n, mx_dims *axes)
{
    return n->opset < 13 || mx_onnx_has(n, "axes") ? mx_onnx_ints(n, "axes", axes) : mx_onnx_dims(n, 1, axes);
}

static mx_code read_squeeze(mx_onnx_in *n)
{
    mx_dims axes;
    const int rank = mx_onnx_rank(n, 0);
    if (!take_axes(n, &axes) || rank < 0)
        return mx_error_code();
    mx_shape_t shape = {.ndim = 0};
    bool drop[MX_MAX_NDIM] = {false}, known = true;
    for (int i = 0; i < axes.n; i++) {
        if (!mx_onnx_axis(n, &axes.d[i], rank))
            return mx_error_code();
        drop[axes.d[i]] = true;
    }
    for (int i = 0; i < rank; i++) {
        if (drop[i] && n->in[0]->shape[i] > 1)
            return mx_onnx_fail(n, MX_ERR_SHAPE, "axis %d has the size %lld, wanted 1", i,
                                (long long)n->in[0]->shape[i]);
        if (!(axes.n < 0 ? n->in[0]->shape[i] == 1 : drop[i]))
            shape.dim[shape.ndim++] = n->in[0]->shape[i];
    }
    for (int i = 0; i < shape.ndim; i++)
        known &= shape.dim[i] >= 0;
    n->out[0] = known ? mx_g_reshape(n->in[0], &shape) : mx_squeeze(n->in[0], .axis = axes);
    return MX_OK;
}

static mx_code read_unsqueeze(mx_onnx_in *n)
{
    mx_dims axes;
    const int rank = mx_onnx_rank(n, 0);
    if (!take_axes(n, &axes) || rank < 0)
        return mx_error_code();
    bool added[2 * MX_MAX_TUPLE] = {false};
    const int all = rank + axes.n;
    for (int i = 0; i < axes.n; i++) {
        if (!mx_onnx_axis(n, &axes.d[i], all))
            return mx_error_code();
        added[axes.d[i]] = true;
    }
    mx_array *y = n->in[0];
    for (int i = 0; i < all; i++)
        y = added[i] ? mx_expand_dims(y, .axis = i) : y;
    n->out[0] = y;
    return MX_OK;
}

static mx_code write_expand_dims(mx_onnx_out *o)
{
    const mx_expand_dims_attrs *a = o->attrs;
    mx_onnx_put(o, o->out[0], "Unsqueeze", o->in[0], mx_onnx_put_ints(o, MX_ONNX_LIST(a->axis)));
    return mx_onnx_done(o);
}

static mx_code write_squeeze(mx_onnx_out *o)
{
    const mx_squeeze_attrs *a = o->attrs;
    const bool all = a->axis.n <= 0, one = o->out_shape[0].ndim == 1; /* ours keep one axis */
    if (one)
        mx_onnx_put(o, o->out[0], "Reshape", o->in[0], mx_onnx_put_ints(o, MX_ONNX_LIST(-1)));
    else
        mx_onnx_put(o, o->out[0], "Squeeze", o->in[0], all ? NULL : mx_onnx_put_ints(o, a->axis.n, a->axis.d));
    return mx_onnx_done(o);
}

/* ---- order of axes ------------------------------------------------------------------------------------------------ */

static mx_code read_transpose(mx_onnx_in *n)
{
    mx_dims perm;
    if (!mx_onnx_ints(n, "perm", &perm))
        return mx_error_code();
    n->out[0] = perm.n > 0 ? mx_transpose(n->in[0], .axes = perm) : mx_transpose(n->in[0]);
    return MX_OK;
}

static mx_code write_transpose(mx_onnx_out *o)
{
    const mx_transpose_attrs *a = o->attrs;
    int64_t order[MX_MAX_TUPLE];
    for (int i = 0; i < a->axes.n; i++)
        order[i] = a->axes.d[i] < 0 ? a->axes.d[i] + a->axes.n : a->axes.d[i];
    mx_onnx_put(o, o->out[0], "Transpose", o->in[0]);
    if (a->axes.n > 0)
        mx_onnx_set_ints(o, "perm", a->axes.n, order);
    return mx_onnx_done(o);
}

static mx_code write_swap(mx_onnx_out *o)
{
    const mx_swapaxes_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0), p = mx_axis(a->dim1, rank), q = mx_axis(a->dim2, rank);
    int64_t order[MX_MAX_NDIM];
    if (rank < 0 || p < 0 || q < 0)
        return mx_onnx_refuse(o, "its axes are not valid");
    for (int i = 0; i < rank; i++)
        order[i] = i == p ? q : i == q ? p : i;
    mx_onnx_put(o, o->out[0], "Transpose", o->in[0]);
    mx_onnx_set_ints(o, "perm", rank, order);
    return mx_onnx_done(o);
}

/* ---- casts ----------------------------------------------------------------------------------------------------- */

/* Numbers become those of the type; types that arrays do not have are in arrays that hold all their values. */
static mx_code read_cast(mx_onnx_in *n)
{
    const mx_onnx_type *type =
        n->op[4] == 'L' ? mx_onnx_in_type(n, 1) : mx_onnx_type_of(mx_onnx_int(n, "to", 0)); /* CastLike */
    const bool held = type && type->dtype != type->held, small = held && type->held == MX_FLOAT32;
    if (!type || type->held == MX_DTYPE_NONE)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "a cast to %s; there are no such arrays",
                            type ? type->name : "an unknown type");
    n->out[0] = small  ? mx_onnx_small_floats(n->in[0], type, mx_onnx_int(n, "saturate", 1))
                : held ? mx_onnx_wrapped(n->in[0], type)
                       : mx_cast(n->in[0], .dtype = type->dtype);
    n->out_type[0] = held ? type->code : 0;
    return MX_OK;
}

static mx_code write_cast(mx_onnx_out *o)
{
    mx_onnx_put_cast(o, o->out[0], o->in[0], o->out_type[0]);
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_movement[] = {
    BOTH("Reshape", "Reshape", read_reshape, write_shape, .constants = 2),
    WRITE(NULL, "reshape_like", write_reshape_like),
    READ_SAME("Flatten", "Flatten", read_flatten),
    BOTH("Squeeze", "squeeze", read_squeeze, write_squeeze, .constants = 2),
    BOTH("Unsqueeze", "expand_dims", read_unsqueeze, write_expand_dims, .constants = 2),
    BOTH("Transpose", "transpose", read_transpose, write_transpose),
    WRITE(NULL, "SwapAxis", write_swap),
    BOTH("Cast", "Cast", read_cast, write_cast),
    READ("CastLike", read_cast),
    WRITE(NULL, "amp_cast", write_cast),
    {0}};
