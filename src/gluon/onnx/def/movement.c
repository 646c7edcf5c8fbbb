/* Operators that only move, copy or cast elements.  SPDX-License-Identifier: Apache-2.0 */
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
        in *= x->shape[i] < 0 ? 1 : x->shape[i];
    }
    for (int i = 0; i < shape->n; i++) {
        if (shape->d[i] == -1)
            rest = i;
        else if (shape->d[i] > 0)
            out *= shape->d[i];
        else if (i >= x->ndim || shape->d[i] < 0)
            return;
        else
            out *= x->shape[i] < 0 ? 1 : x->shape[i];
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

/* ---- joining and dividing ------------------------------------------------------------------------------------------ */

static mx_code read_concat(mx_onnx_in *n)
{
    mx_array *y = n->in[0];
    const int64_t axis = mx_onnx_int(n, "axis", 1);
    if (n->n_in > 1)
        y = mx_concat((mx_arrays){n->in, n->n_in}, .num_args = n->n_in, .dim = axis);
    n->out[0] = n->n_in > 1 ? y : mx_copy(y);
    return MX_OK;
}

static mx_code write_concat(mx_onnx_out *o)
{
    const mx_concat_attrs *a = o->attrs;
    mx_onnx_node(o, o->out[0], "Concat", o->n_in, o->in);
    mx_onnx_set_int(o, "axis", a->dim);
    return mx_onnx_done(o);
}

static mx_code write_stack(mx_onnx_out *o)
{
    const mx_stack_attrs *a = o->attrs;
    const char **parts = o->in, *axis = mx_onnx_put_ints(o, MX_ONNX_LIST(a->axis));
    for (int i = 0; i < o->n_in; i++)
        parts[i] = mx_onnx_put(o, NULL, "Unsqueeze", parts[i], axis);
    mx_onnx_node(o, o->out[0], "Concat", o->n_in, parts);
    mx_onnx_set_int(o, "axis", a->axis);
    return mx_onnx_done(o);
}

/* Sizes are an attribute, an input, or equal parts of which the last may be smaller. */
static mx_code read_split(mx_onnx_in *n)
{
    mx_dims sizes;
    int64_t axis = mx_onnx_int(n, "axis", 0);
    const int rank = mx_onnx_rank(n, 0);
    if (rank < 0 || !mx_onnx_axis(n, &axis, rank) ||
        !(n->opset < 13 ? mx_onnx_ints(n, "split", &sizes) : mx_onnx_dims(n, 1, &sizes)))
        return mx_error_code();
    const int64_t whole = n->in[0]->shape[axis], part = whole < 0 ? -1 : (whole + n->n_out - 1) / n->n_out;
    if (sizes.n < 0 && whole < 0)
        return mx_onnx_fail(n, MX_ERR_SHAPE, "the size of axis %lld is not known", (long long)axis);
    if (sizes.n >= 0 && sizes.n != n->n_out)
        return mx_onnx_fail(n, MX_ERR_FILE, "%d sizes for %d outputs", sizes.n, n->n_out);
    int64_t at = 0;
    for (int i = 0; i < n->n_out; i++) {
        const int64_t end = at + (sizes.n >= 0 ? sizes.d[i] : part);
        n->out[i] = mx_slice_axis(n->in[0], .axis = axis, .begin = at, .end = whole >= 0 && end > whole ? whole : end);
        at = end;
    }
    return MX_OK;
}

static const char *put_range(mx_onnx_out *o, const char *out, const char *x, int64_t axis, int64_t begin, int64_t end)
{
    return mx_onnx_put(o, out, "Slice", x, mx_onnx_put_ints(o, MX_ONNX_LIST(begin)),
                       mx_onnx_put_ints(o, MX_ONNX_LIST(end == MX_NONE_INT ? INT64_MAX : end)),
                       mx_onnx_put_ints(o, MX_ONNX_LIST(axis)));
}

static mx_code write_split(mx_onnx_out *o)
{
    const mx_split_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0), axis = rank < 0 ? 0 : mx_axis(a->axis, rank);
    const int64_t whole = rank < 0 ? -1 : o->in_shape[0].dim[axis];
    if (whole < 0)
        return mx_onnx_refuse(o, "the size of its axis is not known; give the shapes of the inputs");
    const int64_t part = whole / a->num_outputs;
    for (int i = 0; i < o->n_out; i++) {
        const char *y = put_range(o, a->squeeze_axis ? NULL : o->out[i], o->in[0], axis, i * part, (i + 1) * part);
        if (a->squeeze_axis)
            mx_onnx_put(o, o->out[i], "Squeeze", y, mx_onnx_put_ints(o, MX_ONNX_LIST(axis)));
    }
    return mx_onnx_done(o);
}

static mx_code write_split_v2(mx_onnx_out *o)
{
    const mx_split_v2_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0), axis = rank < 0 ? 0 : mx_axis(a->axis, rank);
    const int64_t whole = rank < 0 ? -1 : o->in_shape[0].dim[axis];
    if (whole < 0)
        return mx_onnx_refuse(o, "the size of its axis is not known; give the shapes of the inputs");
    for (int i = 0; i < o->n_out; i++) {
        const int shift = o->n_out > a->indices.n; /* the first index, 0, may be left out */
        const int64_t begin = a->sections > 0 ? i * (whole / a->sections) : i < shift ? 0 : a->indices.d[i - shift];
        const int next = i + 1 - shift;
        const int64_t end = a->sections > 0       ? begin + whole / a->sections
                            : next < a->indices.n ? a->indices.d[next]
                                                  : whole;
        const char *y = put_range(o, a->squeeze_axis ? NULL : o->out[i], o->in[0], axis, begin, end);
        if (a->squeeze_axis)
            mx_onnx_put(o, o->out[i], "Squeeze", y, mx_onnx_put_ints(o, MX_ONNX_LIST(axis)));
    }
    return mx_onnx_done(o);
}

/* ---- parts ----------------------------------------------------------------------------------------------------- */

static mx_code read_slice(mx_onnx_in *n)
{
    const int rank = mx_onnx_rank(n, 0);
    mx_dims starts, ends, axes = MX_NO_DIMS, steps = MX_NO_DIMS;
    const bool old = n->opset < 10;
    if (rank < 0 || !(old ? mx_onnx_ints(n, "starts", &starts) : mx_onnx_dims(n, 1, &starts)) ||
        !(old ? mx_onnx_ints(n, "ends", &ends) : mx_onnx_dims(n, 2, &ends)) ||
        !(old ? mx_onnx_ints(n, "axes", &axes) : mx_onnx_dims(n, 3, &axes)) || !(old || mx_onnx_dims(n, 4, &steps)))
        return mx_error_code();
    if (starts.n != ends.n || (axes.n >= 0 && axes.n != starts.n) || (steps.n >= 0 && steps.n != starts.n) ||
        starts.n > MX_MAX_NDIM)
        return mx_onnx_fail(n, MX_ERR_FILE, "starts, ends, axes and steps have different lengths");
    mx_dims begin = {.n = rank}, end = {.n = rank}, step = {.n = rank};
    for (int i = 0; i < rank; i++)
        begin.d[i] = end.d[i] = step.d[i] = MX_NONE_INT;
    for (int i = 0; i < starts.n; i++) {
        int64_t axis = axes.n >= 0 ? axes.d[i] : i;
        if (!mx_onnx_axis(n, &axis, rank))
            return mx_error_code();
        const int64_t size = n->in[0]->shape[axis], by = steps.n >= 0 ? steps.d[i] : 1;
        int64_t from = starts.d[i], to = ends.d[i];
        if (by == 0 || mx_onnx_is_unknown(from))
            return mx_onnx_fail(n, MX_ERR_SHAPE, "a step is 0, or a start is not known");
        if (mx_onnx_is_unknown(to))
            to = INT64_MAX; /* up to the size of the axis */
        if (size >= 0) {    /* clamps as NumPy does */
            from += from < 0 ? size : 0;
            to += to < 0 && to > -size - 1 - size ? size : 0;
            const int64_t low = by > 0 ? 0 : -1, high = by > 0 ? size : size - 1;
            from = from < low ? low : from > high ? high : from;
            to = to < low ? low : to > high ? high : to;
            if (by < 0 && from < 0)
                from = to = 0;
        }
        begin.d[axis] = from == 0 && by > 0 ? MX_NONE_INT : from;
        end.d[axis] = (by > 0 && (to == INT64_MAX || to == size)) || (by < 0 && to < 0) ? MX_NONE_INT : to;
        step.d[axis] = by == 1 ? MX_NONE_INT : by;
        if (size >= 0 && (by > 0 ? from >= to : from <= to)) { /* nothing */
            begin.d[axis] = end.d[axis] = 0;
            step.d[axis] = MX_NONE_INT;
        }
    }
    n->out[0] = mx_slice(n->in[0], .begin = begin, .end = end, .step = step);
    return MX_OK;
}

static mx_code write_slice(mx_onnx_out *o)
{
    const mx_slice_attrs *a = o->attrs;
    int64_t begin[MX_MAX_TUPLE], end[MX_MAX_TUPLE], axes[MX_MAX_TUPLE], step[MX_MAX_TUPLE];
    const int n = a->begin.n;
    for (int i = 0; i < n; i++) {
        step[i] = i < a->step.n && a->step.d[i] != MX_NONE_INT && a->step.d[i] ? a->step.d[i] : 1;
        begin[i] = a->begin.d[i] != MX_NONE_INT ? a->begin.d[i] : step[i] > 0 ? 0 : INT64_MAX;
        end[i] = i < a->end.n && a->end.d[i] != MX_NONE_INT ? a->end.d[i] : step[i] > 0 ? INT64_MAX : -INT64_MAX;
        axes[i] = i;
    }
    mx_onnx_put(o, o->out[0], "Slice", o->in[0], mx_onnx_put_ints(o, n, begin), mx_onnx_put_ints(o, n, end),
                mx_onnx_put_ints(o, n, axes), mx_onnx_put_ints(o, n, step));
    return mx_onnx_done(o);
}

static mx_code write_slice_axis(mx_onnx_out *o)
{
    const mx_slice_axis_attrs *a = o->attrs;
    put_range(o, o->out[0], o->in[0], a->axis, a->begin, a->end);
    return mx_onnx_done(o);
}

static mx_code write_slice_like(mx_onnx_out *o)
{
    const mx_slice_like_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 1);
    int64_t axes[MX_MAX_NDIM] = {0}, zeros[MX_MAX_NDIM] = {0};
    int n = a->axes.n > 0 ? a->axes.n : rank;
    if (rank < 0)
        return mx_error_code();
    for (int i = 0; i < n; i++)
        axes[i] = a->axes.n > 0 ? (a->axes.d[i] < 0 ? a->axes.d[i] + rank : a->axes.d[i]) : i;
    const char *list = mx_onnx_put_ints(o, n, axes);
    const char *ends = mx_onnx_put(o, NULL, "Gather", mx_onnx_put(o, NULL, "Shape", o->in[1]), list);
    mx_onnx_put(o, o->out[0], "Slice", o->in[0], mx_onnx_put_ints(o, n, zeros), ends, list);
    return mx_onnx_done(o);
}

/* ---- repetition ------------------------------------------------------------------------------------------------- */

static mx_code read_tile(mx_onnx_in *n)
{
    mx_dims reps;
    if (!mx_onnx_dims(n, 1, &reps))
        return mx_error_code();
    n->out[0] = mx_tile(n->in[0], .reps = reps);
    return MX_OK;
}

static mx_code write_tile(mx_onnx_out *o)
{
    const mx_tile_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0), n = a->reps.n > rank ? a->reps.n : rank;
    int64_t reps[MX_MAX_TUPLE], wide[MX_MAX_TUPLE];
    if (rank < 0)
        return mx_error_code();
    for (int i = 0; i < n; i++) {
        reps[i] = i - (n - a->reps.n) >= 0 ? a->reps.d[i - (n - a->reps.n)] : 1;
        wide[i] = i;
    }
    const char *x =
        n > rank ? mx_onnx_put(o, NULL, "Unsqueeze", o->in[0], mx_onnx_put_ints(o, n - rank, wide)) : o->in[0];
    mx_onnx_put(o, o->out[0], "Tile", x, mx_onnx_put_ints(o, n, reps));
    return mx_onnx_done(o);
}

static mx_code read_expand(mx_onnx_in *n)
{
    mx_dims shape;
    mx_array *x = n->in[0];
    if (!mx_onnx_dims(n, 1, &shape) || mx_onnx_rank(n, 0) < 0)
        return mx_error_code();
    if (shape.n > MX_MAX_NDIM)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "more than %d axes", MX_MAX_NDIM);
    const int rank = shape.n > x->ndim ? shape.n : x->ndim;
    mx_dims wide = {.n = rank}, target = {.n = rank};
    for (int i = 0; i < rank; i++) {
        const int64_t own = i - (rank - x->ndim) >= 0 ? x->shape[i - (rank - x->ndim)] : 1;
        const int64_t want = i - (rank - shape.n) >= 0 ? shape.d[i - (rank - shape.n)] : 1;
        if (mx_onnx_is_unknown(want) && own != -1)
            return mx_onnx_fail(n, MX_ERR_SHAPE,
                                "it expands to a size that is not known; give the shapes of the inputs");
        wide.d[i] = own;
        target.d[i] = want == 1 || own > 1 ? own : want;
    }
    int unknown = 0;
    for (int i = 0; i < rank; i++)
        unknown += wide.d[i] < 0 || target.d[i] < 0;
    for (int i = 0; i < rank - x->ndim; i++)
        x = mx_expand_dims(x, .axis = 0);
    for (int i = 0; i < rank && unknown; i++)
        target.d[i] = target.d[i] < 0 ? 0 : target.d[i]; /* 0: as it is */
    n->out[0] = mx_broadcast_to(x, .shape = target);
    return MX_OK;
}

/* 0 in our shapes: the size of the input. */
static mx_code write_broadcast_to(mx_onnx_out *o)
{
    const mx_broadcast_to_attrs *a = o->attrs;
    int64_t shape[MX_MAX_TUPLE];
    for (int i = 0; i < a->shape.n; i++)
        shape[i] = a->shape.d[i] ? a->shape.d[i] : 1;
    mx_onnx_put(o, o->out[0], "Expand", o->in[0], mx_onnx_put_ints(o, a->shape.n, shape));
    return mx_onnx_done(o);
}

static mx_code write_broadcast_axis(mx_onnx_out *o)
{
    const mx_broadcast_axis_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    int64_t shape[MX_MAX_NDIM];
    for (int i = 0; i < rank; i++)
        shape[i] = 1;
    for (int i = 0; i < a->axis.n && rank >= 0; i++)
        if (mx_axis(a->axis.d[i], rank) >= 0)
            shape[mx_axis(a->axis.d[i], rank)] = a->size.d[i];
    mx_onnx_put(o, o->out[0], "Expand", o->in[0], mx_onnx_put_ints(o, rank, shape));
    return mx_onnx_done(o);
}

static mx_code write_broadcast_like(mx_onnx_out *o)
{
    const mx_broadcast_like_attrs *a = o->attrs;
    if (a->lhs_axes.n > 0 || a->rhs_axes.n > 0)
        return mx_onnx_refuse(o, "lhs_axes and rhs_axes cannot be written");
    mx_onnx_put(o, o->out[0], "Expand", o->in[0], mx_onnx_put(o, NULL, "Shape", o->in[1]));
    return mx_onnx_done(o);
}

/* Each element, several times: a new axis that is expanded and merged. */
static mx_code write_repeat(mx_onnx_out *o)
{
    const mx_repeat_attrs *a = o->attrs;
    const mx_shape_t *in = &o->in_shape[0], *out = &o->out_shape[0];
    const char *x = o->in[0];
    int64_t wide[MX_MAX_TUPLE], shape[MX_MAX_NDIM];
    if (mx_onnx_out_rank(o, 0) < 0 || out->ndim < 0)
        return mx_onnx_refuse(o, "shapes are not known");
    const bool flat = a->axis == MX_NONE_INT;
    const int rank = flat ? 1 : in->ndim, axis = flat ? 0 : mx_axis(a->axis, rank);
    if (flat)
        x = mx_onnx_put(o, NULL, "Reshape", x, mx_onnx_put_ints(o, MX_ONNX_LIST(-1)));
    for (int i = 0; i <= rank; i++)
        wide[i] = i == axis + 1 ? a->repeats : 1;
    x = mx_onnx_put(o, NULL, "Unsqueeze", x, mx_onnx_put_ints(o, MX_ONNX_LIST(axis + 1)));
    x = mx_onnx_put(o, NULL, "Expand", x, mx_onnx_put_ints(o, rank + 1, wide));
    for (int i = 0; i < rank; i++)
        shape[i] = flat ? -1 : i == axis ? -1 : in->dim[i];
    mx_onnx_put(o, o->out[0], "Reshape", x, mx_onnx_put_ints(o, rank, shape));
    return mx_onnx_done(o);
}

/* ---- padding, blocks, order ---------------------------------------------------------------------------------------- */

static mx_code read_pad(mx_onnx_in *n)
{
    const bool old = n->opset < 11;
    const int rank = mx_onnx_rank(n, 0);
    mx_dims pads, axes = MX_NO_DIMS;
    char mode[64];
    double value = 0;
    mx_onnx_text(n, "mode", mode, "constant");
    if (rank < 0 || !(old ? mx_onnx_ints(n, "pads", &pads) : mx_onnx_dims(n, 1, &pads)) ||
        !(old || !mx_onnx_given(n, 2) || !n->value[2] || mx_onnx_number(n, 2, 0, &value)) ||
        !(old || mx_onnx_dims(n, 3, &axes)))
        return mx_error_code();
    value = old ? mx_onnx_float(n, "value", 0) : value;
    const int count = axes.n >= 0 ? axes.n : rank;
    if (pads.n != 2 * count || rank > MX_MAX_NDIM)
        return mx_onnx_fail(n, MX_ERR_FILE, "%d pads for %d axes", pads.n, count);
    mx_array *x = n->in[0];
    int64_t begin[MX_MAX_NDIM] = {0}, end[MX_MAX_NDIM] = {0};
    for (int i = 0; i < count; i++) {
        int64_t axis = axes.n >= 0 ? axes.d[i] : i;
        if (!mx_onnx_axis(n, &axis, rank))
            return mx_error_code();
        begin[axis] = pads.d[i];
        end[axis] = pads.d[i + count];
    }
    for (int i = 0; i < rank && x; i++) { /* axis by axis: any number of axes, negative pads, all modes */
        const int64_t size = x->shape[i];
        if (begin[i] < 0 || end[i] < 0)
            x = mx_slice_axis(x, .axis = i, .begin = begin[i] < 0 ? -begin[i] : 0,
                              .end = end[i] < 0 ? end[i] : MX_NONE_INT);
        const int64_t a = begin[i] > 0 ? begin[i] : 0, b = end[i] > 0 ? end[i] : 0;
        if (!a && !b)
            continue;
        mx_array *parts[3];
        int k = 0;
        if (!strcmp(mode, "constant")) {
            mx_array *edge = mx_slice_axis(x, .axis = i, .begin = 0, .end = 1);
            edge = mx_plus_scalar(mx_zeros_like(edge), .scalar = value);
            if (!old && mx_onnx_given(n, 2) && !n->value[2])
                edge = mx_add(edge, n->in[2]); /* computed, or an input */
            if (size == 0)
                return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "padding of an empty axis");
            if (a)
                parts[k++] = mx_repeat(edge, .repeats = a, .axis = i);
            parts[k++] = x;
            if (b)
                parts[k++] = mx_repeat(edge, .repeats = b, .axis = i);
        } else if (!strcmp(mode, "edge")) {
            if (a)
                parts[k++] = mx_repeat(mx_slice_axis(x, .axis = i, .begin = 0, .end = 1), .repeats = a, .axis = i);
            parts[k++] = x;
            if (b)
                parts[k++] =
                    mx_repeat(mx_slice_axis(x, .axis = i, .begin = -1, .end = MX_NONE_INT), .repeats = b, .axis = i);
        } else { /* reflect, wrap */
            const bool wrap = *mode == 'w';
            if (size < 0 || a >= size + wrap || b >= size + wrap)
                return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "more padding than the axis has elements");
            if (a)
                parts[k++] =
                    wrap ? mx_slice_axis(x, .axis = i, .begin = size - a, .end = size)
                         : mx_reverse(mx_slice_axis(x, .axis = i, .begin = 1, .end = a + 1), .axis = MX_DIMS(i));
            parts[k++] = x;
            if (b)
                parts[k++] = wrap ? mx_slice_axis(x, .axis = i, .begin = 0, .end = b)
                                  : mx_reverse(mx_slice_axis(x, .axis = i, .begin = size - 1 - b, .end = size - 1),
                                               .axis = MX_DIMS(i));
        }
        x = mx_concat((mx_arrays){parts, k}, .num_args = k, .dim = i);
    }
    n->out[0] = x == n->in[0] ? mx_copy(x) : x;
    return MX_OK;
}

static mx_code write_pad(mx_onnx_out *o)
{
    static const char *const modes[] = {"constant", "edge", "reflect"};
    const mx_pad_attrs *a = o->attrs;
    int64_t pads[MX_MAX_TUPLE];
    const int n = a->pad_width.n / 2;
    for (int i = 0; i < n; i++) {
        pads[i] = a->pad_width.d[2 * i];
        pads[i + n] = a->pad_width.d[2 * i + 1];
    }
    const char *value = a->mode == MX_PAD_CONSTANT ? mx_onnx_put_number(o, a->constant_value, o->in_type[0]) : NULL;
    mx_onnx_put(o, o->out[0], "Pad", o->in[0], mx_onnx_put_ints(o, 2 * n, pads), value);
    mx_onnx_set_text(o, "mode", modes[a->mode]);
    return mx_onnx_done(o);
}

/* Channels of blocks: position in the block first (DCR), or the channel (CRD). */
static mx_code read_blocks(mx_onnx_in *n)
{
    char mode[64];
    mx_dims s;
    const int64_t b = mx_onnx_int(n, "blocksize", 1);
    const bool to_depth = n->op[0] == 'S', channel_first = !strcmp(mx_onnx_text(n, "mode", mode, "DCR"), "CRD");
    if (!channel_first) {
        n->out[0] =
            to_depth ? mx_space_to_depth(n->in[0], .block_size = b) : mx_depth_to_space(n->in[0], .block_size = b);
        return MX_OK;
    }
    if (!mx_onnx_shape(n, 0, &s) || s.n != 4 || b < 1)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "its shape or blocksize is not valid");
    if (to_depth) {
        mx_array *x = mx_reshape(n->in[0], .shape = MX_DIMS(s.d[0], s.d[1], s.d[2] / b, b, s.d[3] / b, b));
        x = mx_transpose(x, .axes = MX_DIMS(0, 1, 3, 5, 2, 4));
        n->out[0] = mx_reshape(x, .shape = MX_DIMS(s.d[0], s.d[1] * b * b, s.d[2] / b, s.d[3] / b));
        return MX_OK;
    }
    mx_array *x = mx_reshape(n->in[0], .shape = MX_DIMS(s.d[0], s.d[1] / (b * b), b, b, s.d[2], s.d[3]));
    x = mx_transpose(x, .axes = MX_DIMS(0, 1, 4, 2, 5, 3));
    n->out[0] = mx_reshape(x, .shape = MX_DIMS(s.d[0], s.d[1] / (b * b), s.d[2] * b, s.d[3] * b));
    return MX_OK;
}

static mx_code write_blocks(mx_onnx_out *o)
{
    const mx_depth_space_attrs *a = o->attrs;
    mx_onnx_put(o, o->out[0], o->row->onnx, o->in[0]);
    mx_onnx_set_int(o, "blocksize", a->block_size);
    return mx_onnx_done(o);
}

static mx_code write_reverse(mx_onnx_out *o)
{
    const mx_reverse_attrs *a = o->attrs;
    int64_t begin[MX_MAX_TUPLE], end[MX_MAX_TUPLE], step[MX_MAX_TUPLE];
    for (int i = 0; i < a->axis.n; i++) {
        begin[i] = INT64_MAX;
        end[i] = -INT64_MAX;
        step[i] = -1;
    }
    mx_onnx_put(o, o->out[0], "Slice", o->in[0], mx_onnx_put_ints(o, a->axis.n, begin),
                mx_onnx_put_ints(o, a->axis.n, end), mx_onnx_put_ints(o, a->axis.n, a->axis.d),
                mx_onnx_put_ints(o, a->axis.n, step));
    return mx_onnx_done(o);
}

/* ---- casts ----------------------------------------------------------------------------------------------------- */

static mx_code read_cast(mx_onnx_in *n)
{
    const mx_onnx_type *type = mx_onnx_type_of(mx_onnx_int(n, "to", 0));
    if (n->op[4] == 'L') { /* CastLike */
        n->out[0] = mx_cast(n->in[0], .dtype = (mx_dtype)n->in[1]->dtype);
        return MX_OK;
    }
    if (!type || type->dtype == MX_DTYPE_NONE)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "a cast to %s; there are no such arrays",
                            type ? type->name : "an unknown type");
    n->out[0] = mx_cast(n->in[0], .dtype = type->dtype);
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
    BOTH("Concat", "Concat", read_concat, write_concat),
    WRITE(NULL, "stack", write_stack),
    BOTH("Split", "SliceChannel", read_split, write_split, .constants = 2),
    WRITE(NULL, "_split_v2", write_split_v2),
    BOTH("Slice", "slice", read_slice, write_slice, .constants = 30),
    WRITE(NULL, "slice_axis", write_slice_axis),
    WRITE(NULL, "slice_like", write_slice_like),
    BOTH("Tile", "tile", read_tile, write_tile, .constants = 2),
    BOTH("Expand", "broadcast_to", read_expand, write_broadcast_to, .constants = 2),
    WRITE(NULL, "broadcast_axis", write_broadcast_axis),
    WRITE(NULL, "broadcast_like", write_broadcast_like),
    WRITE(NULL, "repeat", write_repeat),
    BOTH("Pad", "Pad", read_pad, write_pad, .constants = 14),
    BOTH("DepthToSpace", "depth_to_space", read_blocks, write_blocks),
    BOTH("SpaceToDepth", "space_to_depth", read_blocks, write_blocks),
    WRITE(NULL, "reverse", write_reverse),
    BOTH("Cast", "Cast", read_cast, write_cast),
    READ("CastLike", read_cast),
    WRITE(NULL, "amp_cast", write_cast),
    {0}};
