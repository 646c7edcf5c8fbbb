/* Reductions.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "exec/list.h"
#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

const char *mx_onnx_put_reduce(mx_onnx_out *o, const char *out, const char *op, const char *x, int n,
                               const int64_t *axes, bool keep)
{
    const bool input = o->opset >= 18 || !strcmp(op, "ReduceSum");
    const char *y = mx_onnx_put(o, out, op, x, input && n ? mx_onnx_put_ints(o, n, axes) : NULL);
    if (!input && n)
        mx_onnx_set_ints(o, "axes", n, axes);
    mx_onnx_set_int(o, "keepdims", keep);
    return y;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static bool take_axes(mx_onnx_in *n, mx_dims *axes)
{
    return mx_onnx_has(n, "axes") ? mx_onnx_ints(n, "axes", axes) : mx_onnx_dims(n, 1, axes);
}

mx_array *mx_onnx_as_scalar(mx_array *x)
{
    const mx_shape_t scalar = {.ndim = 0};
    return x && x->ndim == 1 ? mx_g_reshape(x, &scalar) : x;
}

/* One of ours over all `axes`; every axis stays, with the size 1. */
static mx_array *fold(const char *op, mx_array *x, const mx_dims *axes)
{
    const struct { const char *name; int kind; } kinds[] = {{"ReduceSum", 0}, {"ReduceMean", 1}, {"ReduceProd", 2},
        {"ReduceMax", 3}, {"ReduceMin", 4}, {"ReduceL1", 5}, {"ReduceL2", 6}, {"ReduceLogSum", 7}, {"ReduceSumSquare", 8},
        {"ReduceLogSumExp", 9}};
    int kind = -1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        kind = strcmp(kinds[i].name, op) ? kind : kinds[i].kind;
    switch (kind) {
    case 0: return mx_sum(x, .axis = *axes, .keepdims = true);
    case 1: return mx_mean(x, .axis = *axes, .keepdims = true);
    case 2: return mx_prod(x, .axis = *axes, .keepdims = true);
    case 3: return mx_max(x, .axis = *axes, .keepdims = true);
    case 4: return mx_min(x, .axis = *axes, .keepdims = true);
    case 5: return mx_sum(mx_abs(x), .axis = *axes, .keepdims = true);
    case 6: return mx_sqrt(mx_sum(mx_square(x), .axis = *axes, .keepdims = true));
    case 7: return mx_log(mx_sum(x, .axis = *axes, .keepdims = true));
    case 8: return mx_sum(mx_square(x), .axis = *axes, .keepdims = true);
    default: break;
    }
    mx_array *top = mx_max(x, .axis = *axes, .keepdims = true); /* log sum exp, shifted by the largest finite value */
    mx_array *shift = mx_where(mx_lesser_scalar(mx_abs(top), .scalar = INFINITY), top, mx_zeros_like(top));
    return mx_add(mx_log(mx_sum(mx_exp(mx_sub(x, shift)), .axis = *axes, .keepdims = true)), shift);
}

static mx_array *drop_axes(mx_array *y, const bool *gone)
{
    mx_shape_t shape = {.ndim = 0};
    bool known = true;
    mx_dims axes = {.n = 0};
    for (int i = 0; y && i < y->ndim; i++) {
        if (gone[i])
            axes.d[axes.n++] = i;
        else {
            known &= y->shape[i] >= 0;
            shape.dim[shape.ndim++] = y->shape[i];
        }
    }
    return !y || !axes.n ? y : known ? mx_g_reshape(y, &shape) : mx_squeeze(y, .axis = axes);
}

static mx_code read_reduce(mx_onnx_in *n)
{
    const int rank = mx_onnx_rank(n, 0);
    mx_dims axes;
    bool gone[MX_MAX_NDIM] = {false};
    if (rank < 0 || !take_axes(n, &axes))
        return mx_error_code();
    if (axes.n <= 0 && mx_onnx_int(n, "noop_with_empty_axes", 0)) {
        axes.n = 0;
        n->out[0] = strcmp(n->op, "ReduceSum") && strcmp(n->op, "ReduceMean") && strcmp(n->op, "ReduceMax") &&
                            strcmp(n->op, "ReduceMin") && strcmp(n->op, "ReduceProd")
                        ? fold(n->op, mx_expand_dims(n->in[0], .axis = 0), &MX_DIMS(0))
                        : mx_copy(n->in[0]);
        if (n->out[0] && n->out[0]->ndim == rank + 1)
            n->out[0] = drop_axes(n->out[0], (const bool[MX_MAX_NDIM]){true});
        return MX_OK;
    }
    if (axes.n <= 0)
        for (axes.n = 0; axes.n < rank; axes.n++)
            axes.d[axes.n] = axes.n;
    for (int i = 0; i < axes.n; i++) {
        if (!mx_onnx_axis(n, &axes.d[i], rank))
            return mx_error_code();
        gone[axes.d[i]] = true;
    }
    const mx_dtype type = (mx_dtype)n->in[0]->dtype;
    const bool wide = !mx_dtype_is_float(type); /* exact up to 2^53 */
    mx_array *x = wide ? mx_cast(n->in[0], .dtype = MX_FLOAT64) : n->in[0];
    mx_array *y =
        rank ? fold(n->op, x, &axes) : mx_onnx_as_scalar(fold(n->op, mx_expand_dims(x, .axis = 0), &MX_DIMS(0)));
    y = wide ? mx_cast(y, .dtype = type) : y;
    n->out[0] = mx_onnx_int(n, "keepdims", 1) || !rank ? y : drop_axes(y, gone);
    return MX_OK;
}

static mx_code read_arg(mx_onnx_in *n)
{
    const int rank = mx_onnx_rank(n, 0);
    int64_t axis = mx_onnx_int(n, "axis", 0);
    const bool keep = mx_onnx_int(n, "keepdims", 1), last = mx_onnx_int(n, "select_last_index", 0),
               max = n->op[3] == 'M' && n->op[4] == 'a';
    if (rank < 0 || !mx_onnx_axis(n, &axis, rank))
        return mx_error_code();
    const int64_t size = n->in[0]->shape[axis];
    if (last && size < 0)
        return mx_onnx_fail(n, MX_ERR_SHAPE, "the size of its axis is not known");
    mx_array *x = last ? mx_reverse(n->in[0], .axis = MX_DIMS(axis)) : n->in[0];
    mx_array *y = max ? mx_argmax(x, .axis = axis, .keepdims = true) : mx_argmin(x, .axis = axis, .keepdims = true);
    y = mx_cast(last ? mx_rminus_scalar(y, .scalar = (double)size - 1) : y, .dtype = MX_INT64);
    bool gone[MX_MAX_NDIM] = {false};
    gone[axis] = true;
    n->out[0] = keep ? y : drop_axes(y, gone);
    return MX_OK;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

/* All axes become one element of shape (1,), as ours do. */
static mx_code write_over(mx_onnx_out *o, const char *op, const char *x, const mx_dims *axis, bool keepdims,
                          bool exclude)
{
    const int rank = mx_onnx_out_rank(o, 0);
    int64_t axes[MX_MAX_NDIM];
    bool chosen[MX_MAX_NDIM] = {false};
    int n = 0;
    if (rank < 0)
        return mx_error_code();
    for (int i = 0; i < axis->n; i++)
        if (mx_axis(axis->d[i], rank) >= 0)
            chosen[mx_axis(axis->d[i], rank)] = true;
    for (int i = 0; i < rank; i++)
        if (axis->n <= 0 ? !exclude : chosen[i] != exclude)
            axes[n++] = i;
    const bool all = n == rank && !keepdims;
    if (o->out_type[0] != o->in_type[0] && o->out_type[0] >= 0)
        x = mx_onnx_put_cast(o, NULL, x, o->out_type[0]);
    if (!n && rank)
        return mx_onnx_put(o, o->out[0], "Identity", x), mx_onnx_done(o);
    const char *y = mx_onnx_put_reduce(o, all ? NULL : o->out[0], op, x, n, axes, keepdims);
    if (all)
        mx_onnx_put(o, o->out[0], "Reshape", y, mx_onnx_put_ints(o, o->out_shape[0].ndim, (int64_t[]){1}));
    return mx_onnx_done(o);
}

static mx_code write_reduce(mx_onnx_out *o)
{
    const mx_reduce_attrs *a = o->attrs; /* all reductions have these */
    return write_over(o, o->row->onnx, o->in[0], &a->axis, a->keepdims, a->exclude);
}

static mx_code write_norm(mx_onnx_out *o)
{
    const mx_norm_attrs *a = o->attrs;
    return write_over(o, a->ord == 1 ? "ReduceL1" : "ReduceL2", o->in[0], &a->axis, a->keepdims, false);
}

/* Ours are float32. */
static mx_code write_arg(mx_onnx_out *o)
{
    const mx_argreduce_attrs *a = o->attrs;
    const char *x = o->in[0];
    const bool flat = a->axis == MX_NONE_INT;
    if (flat)
        x = mx_onnx_put(o, NULL, "Reshape", x, mx_onnx_put_ints(o, MX_ONNX_LIST(-1)));
    const char *y = mx_onnx_put(o, NULL, o->row->onnx, x);
    mx_onnx_set_int(o, "axis", flat ? 0 : a->axis);
    mx_onnx_set_int(o, "keepdims", flat || a->keepdims);
    mx_onnx_put_cast(o, o->out[0], y, o->out_type[0]);
    return mx_onnx_done(o);
}

static mx_code write_argmax_channel(mx_onnx_out *o)
{
    const char *y = mx_onnx_put(o, NULL, "ArgMax", o->in[0]);
    mx_onnx_set_int(o, "axis", 1);
    mx_onnx_set_int(o, "keepdims", 0);
    mx_onnx_put_cast(o, o->out[0], y, o->out_type[0]);
    return mx_onnx_done(o);
}

/* Numbers that are not NaN. */
static mx_code write_nan_reduce(mx_onnx_out *o)
{
    const mx_reduce_attrs *a = o->attrs;
    const char *x = o->in[0];
    if (mx_dtype_is_float((mx_dtype)o->in_type[0]))
        x = mx_onnx_put(o, NULL, "Where", mx_onnx_put(o, NULL, "IsNaN", x),
                        mx_onnx_put_number(o, o->row->onnx[6] == 'P', o->in_type[0]), x);
    return write_over(o, o->row->onnx, x, &a->axis, a->keepdims, a->exclude);
}

/* Mean, and mean of the squared distances from it. */
static mx_code write_moments(mx_onnx_out *o)
{
    const mx_moments_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0), n = a->axes.n < 0 ? 0 : a->axes.n;
    if (rank < 0)
        return mx_error_code();
    const bool all = !a->keepdims && (n == 0 || n == rank);
    const char *mean = mx_onnx_put_mean(o, NULL, o->in[0], n, a->axes.d);
    const char *away = mx_onnx_put(o, NULL, "Sub", o->in[0], mean);
    const char *from[2] = {o->in[0], mx_onnx_put(o, NULL, "Mul", away, away)};
    for (int i = 0; i < 2; i++) {
        const char *y = mx_onnx_put_reduce(o, all ? NULL : o->out[i], "ReduceMean", from[i], n, a->axes.d, a->keepdims);
        if (all)
            mx_onnx_put_shaped(o, o->out[i], y, o->out_shape[i].ndim, (int64_t[]){1});
    }
    return mx_onnx_done(o);
}

static mx_code write_sums_of_squares(mx_onnx_out *o)
{
    const char **sums = (const char **)(void *)mx_list_new(o->n_in);
    for (int i = 0; sums && i < o->n_in; i++) {
        const char *x = mx_onnx_put_cast(o, NULL, o->in[i], o->out_type[0]);
        const char *sum = mx_onnx_put_reduce(o, NULL, "ReduceSumSquare", x, 0, NULL, false);
        sums[i] = mx_onnx_put_shaped(o, NULL, sum, MX_ONNX_LIST(1));
    }
    if (!sums)
        return mx_error_code();
    mx_onnx_node(o, o->out[0], "Concat", o->n_in, sums);
    mx_onnx_set_int(o, "axis", 0);
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_reduce[] = {
    BOTH("ReduceSum", "sum", read_reduce, write_reduce, .constants = 2),
    BOTH("ReduceMean", "mean", read_reduce, write_reduce, .constants = 2),
    BOTH("ReduceProd", "prod", read_reduce, write_reduce, .constants = 2),
    BOTH("ReduceMax", "max", read_reduce, write_reduce, .constants = 2),
    BOTH("ReduceMin", "min", read_reduce, write_reduce, .constants = 2),
    BOTH("ReduceSumSquare", "_square_sum", read_reduce, write_reduce, .constants = 2),
    BOTH("ReduceL1", "norm", read_reduce, write_norm, .constants = 2),
    READ("ReduceL2", read_reduce, .constants = 2),
    READ("ReduceLogSum", read_reduce, .constants = 2),
    READ("ReduceLogSumExp", read_reduce, .constants = 2),
    BOTH("ArgMax", "argmax", read_arg, write_arg),
    BOTH("ArgMin", "argmin", read_arg, write_arg),
    WRITE(NULL, "argmax_channel", write_argmax_channel),
    WRITE("ReduceSum", "nansum", write_nan_reduce),
    WRITE("ReduceProd", "nanprod", write_nan_reduce),
    WRITE(NULL, "moments", write_moments),
    WRITE(NULL, "multi_sum_sq", write_sums_of_squares),
    {0}};
