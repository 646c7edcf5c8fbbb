/* Joining, dividing, parts of arrays.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

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

static mx_code write_split(mx_onnx_out *o)
{
    const mx_split_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0), axis = rank < 0 ? 0 : mx_axis(a->axis, rank);
    const int64_t whole = rank < 0 ? -1 : o->in_shape[0].dim[axis];
    if (whole < 0)
        return mx_onnx_refuse(o, "the size of its axis is not known; give the shapes of the inputs");
    const int64_t part = whole / a->num_outputs;
    for (int i = 0; i < o->n_out; i++) {
        const char *y =
            mx_onnx_put_part(o, a->squeeze_axis ? NULL : o->out[i], o->in[0], axis, i * part, (i + 1) * part);
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
        const char *y = mx_onnx_put_part(o, a->squeeze_axis ? NULL : o->out[i], o->in[0], axis, begin, end);
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
    mx_onnx_put_part(o, o->out[0], o->in[0], a->axis, a->begin, a->end);
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

const mx_onnx_row mx_onnx_slice_rows[] = {
    BOTH("Concat", "Concat", read_concat, write_concat),
    WRITE(NULL, "stack", write_stack),
    BOTH("Split", "SliceChannel", read_split, write_split, .constants = 2),
    WRITE(NULL, "_split_v2", write_split_v2),
    BOTH("Slice", "slice", read_slice, write_slice, .constants = 30),
    WRITE(NULL, "slice_axis", write_slice_axis),
    WRITE(NULL, "slice_like", write_slice_like),
    WRITE(NULL, "reverse", write_reverse),
    {0}};
