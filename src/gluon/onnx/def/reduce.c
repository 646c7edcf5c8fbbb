/* Reductions, sorting, cumulative sums.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

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

static mx_code read_topk(mx_onnx_in *n)
{
    mx_dims k;
    const int rank = mx_onnx_rank(n, 0);
    int64_t axis = mx_onnx_int(n, "axis", -1);
    if (rank < 0 || !mx_onnx_axis(n, &axis, rank) || (n->opset >= 10 && !mx_onnx_dims(n, 1, &k)))
        return mx_error_code();
    if (n->opset < 10)
        k = MX_DIMS(mx_onnx_int(n, "k", 1));
    if (k.n != 1 || k.d[0] < 1)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "k is not a positive number");
    mx_arrays y = mx_topk(n->in[0], .axis = axis, .k = k.d[0], .ret_typ = MX_TOPK_BOTH,
                          .is_ascend = !mx_onnx_int(n, "largest", 1), .dtype = MX_INT64);
    n->out[0] = y.v[0];
    if (n->n_out > 1)
        n->out[1] = mx_onnx_cast(y.v[1], MX_INT64);
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

static mx_code put_topk(mx_onnx_out *o, const char *count, int64_t axis, bool ascend, const char *values,
                        const char *indices)
{
    const char *v = mx_onnx_put(o, values, "TopK", o->in[0], count);
    const char *i = mx_onnx_more(o, NULL);
    (void)v;
    mx_onnx_set_int(o, "axis", axis);
    mx_onnx_set_int(o, "largest", !ascend);
    if (indices)
        mx_onnx_put_cast(o, indices, i, o->out_type[indices == o->out[0] ? 0 : 1]);
    return mx_onnx_done(o);
}

static mx_code write_topk(mx_onnx_out *o)
{
    const mx_topk_attrs *a = o->attrs;
    if (a->axis == MX_NONE_INT || a->ret_typ == MX_TOPK_MASK || a->k < 1)
        return mx_onnx_refuse(o, "only k values or indices along an axis can be written");
    const char *k = mx_onnx_put_ints(o, MX_ONNX_LIST(a->k));
    const bool both = a->ret_typ == MX_TOPK_BOTH;
    return put_topk(o, k, a->axis, a->is_ascend, both || a->ret_typ == MX_TOPK_VALUE ? o->out[0] : NULL,
                    both                            ? o->out[1]
                    : a->ret_typ == MX_TOPK_INDICES ? o->out[0]
                                                    : NULL);
}

/* Sorting is the largest or smallest of all. */
static mx_code write_sort(mx_onnx_out *o)
{
    const mx_sort_attrs *a = o->attrs; /* argsort: begins with the same fields */
    if (a->axis == MX_NONE_INT)
        return mx_onnx_refuse(o, "only sorting along an axis can be written");
    const char *shape = mx_onnx_put(o, NULL, "Shape", o->in[0]);
    const char *size = mx_onnx_put(o, NULL, "Gather", shape, mx_onnx_put_ints(o, MX_ONNX_LIST(a->axis)));
    const bool indices = o->node->op->name[0] == 'a';
    return put_topk(o, size, a->axis, a->is_ascend, indices ? NULL : o->out[0], indices ? o->out[0] : NULL);
}

static mx_code read_cumsum(mx_onnx_in *n)
{
    double axis;
    if (!mx_onnx_number(n, 1, 0, &axis))
        return mx_error_code();
    int64_t k = (int64_t)axis;
    const int rank = mx_onnx_rank(n, 0);
    if (rank < 0 || !mx_onnx_axis(n, &k, rank))
        return mx_error_code();
    const bool back = mx_onnx_int(n, "reverse", 0), before = mx_onnx_int(n, "exclusive", 0);
    mx_array *x = back ? mx_reverse(n->in[0], .axis = MX_DIMS(k)) : n->in[0];
    mx_array *y = mx_cumsum(x, .axis = k, .dtype = (mx_dtype)n->in[0]->dtype);
    y = before ? mx_sub(y, x) : y;
    n->out[0] = back ? mx_reverse(y, .axis = MX_DIMS(k)) : y;
    return MX_OK;
}

static mx_code write_cumsum(mx_onnx_out *o)
{
    const mx_cumsum_attrs *a = o->attrs;
    if (a->axis == MX_NONE_INT)
        return mx_onnx_refuse(o, "axis=None cannot be written");
    const char *x = o->out_type[0] == o->in_type[0] ? o->in[0] : mx_onnx_put_cast(o, NULL, o->in[0], o->out_type[0]);
    mx_onnx_put(o, o->out[0], "CumSum", x, mx_onnx_put_number(o, (double)a->axis, MX_INT64));
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
    BOTH("TopK", "topk", read_topk, write_topk, .constants = 2),
    WRITE(NULL, "sort", write_sort),
    WRITE(NULL, "argsort", write_sort),
    BOTH("CumSum", "_np_cumsum", read_cumsum, write_cumsum, .constants = 2),
    {0}};
