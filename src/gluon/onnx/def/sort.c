/* The largest elements, sorting, cumulative sums and products.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

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

/* All elements in a row, if there is no axis. */
static const char *put_row(mx_onnx_out *o, int64_t *axis)
{
    if (*axis != MX_NONE_INT)
        return o->in[0];
    *axis = 0;
    return mx_onnx_put_shaped(o, NULL, o->in[0], MX_ONNX_LIST(-1));
}

static mx_code put_topk(mx_onnx_out *o, const char *x, const char *count, int64_t axis, bool ascend, const char *values,
                        const char *indices)
{
    const char *v = mx_onnx_put(o, values, "TopK", x, count);
    const char *i = mx_onnx_more(o, NULL);
    (void)v;
    mx_onnx_set_int(o, "axis", axis);
    mx_onnx_set_int(o, "largest", !ascend);
    if (indices)
        mx_onnx_put_cast(o, indices, i, o->out_type[indices == o->out[0] ? 0 : 1]);
    return mx_onnx_done(o);
}

/* Ones at the indices. */
static mx_code write_mask(mx_onnx_out *o, const char *k, int64_t axis, bool ascend)
{
    const char *shape = mx_onnx_put(o, NULL, "Shape", o->in[0]), *indices = mx_onnx_spare(o);
    const char *zeros = mx_onnx_put(o, NULL, "Expand", mx_onnx_put_number(o, 0, o->out_type[0]), shape);
    mx_onnx_put(o, NULL, "TopK", o->in[0], k);
    mx_onnx_more(o, indices);
    mx_onnx_set_int(o, "axis", axis);
    mx_onnx_set_int(o, "largest", !ascend);
    const char *size = mx_onnx_put(o, NULL, "Shape", indices);
    const char *ones = mx_onnx_put(o, NULL, "Expand", mx_onnx_put_number(o, 1, o->out_type[0]), size);
    mx_onnx_put(o, o->out[0], "ScatterElements", zeros, indices, ones);
    mx_onnx_set_int(o, "axis", axis);
    return mx_onnx_done(o);
}

static mx_code write_topk(mx_onnx_out *o)
{
    const mx_topk_attrs *a = o->attrs;
    int64_t axis = a->axis;
    if ((axis == MX_NONE_INT && a->ret_typ == MX_TOPK_MASK) || a->k < 1)
        return mx_onnx_refuse(o, "only k values or indices, or a mask along an axis, can be written");
    const char *x = put_row(o, &axis), *k = mx_onnx_put_ints(o, MX_ONNX_LIST(a->k));
    if (a->ret_typ == MX_TOPK_MASK)
        return write_mask(o, k, axis, a->is_ascend);
    const bool both = a->ret_typ == MX_TOPK_BOTH;
    return put_topk(o, x, k, axis, a->is_ascend, both || a->ret_typ == MX_TOPK_VALUE ? o->out[0] : NULL,
                    both                            ? o->out[1]
                    : a->ret_typ == MX_TOPK_INDICES ? o->out[0]
                                                    : NULL);
}

/* Sorting is the largest or smallest of all. */
static mx_code write_sort(mx_onnx_out *o)
{
    const mx_sort_attrs *a = o->attrs; /* argsort: begins with the same fields */
    int64_t axis = a->axis;
    const char *x = put_row(o, &axis), *shape = mx_onnx_put(o, NULL, "Shape", x);
    const char *size = mx_onnx_put(o, NULL, "Gather", shape, mx_onnx_put_ints(o, MX_ONNX_LIST(axis)));
    const bool indices = o->node->op->name[0] == 'a';
    return put_topk(o, x, size, axis, a->is_ascend, indices ? NULL : o->out[0], indices ? o->out[0] : NULL);
}

/* x moved by some places along an axis, ones before it. */
static mx_array *moved(mx_array *x, int64_t axis, int64_t size, int64_t by)
{
    mx_array *head = mx_ones_like(mx_slice_axis(x, .axis = axis, .begin = 0, .end = by));
    mx_array *rest = mx_slice_axis(x, .axis = axis, .begin = 0, .end = size - by);
    return mx_concat(MX_ARRAYS(head, rest), .num_args = 2, .dim = axis);
}

/* Products of 1, 2, 4 ... elements up to each one; before: without the element itself. */
static mx_array *products(mx_onnx_in *n, mx_array *x, int64_t axis, bool before)
{
    const int64_t size = x ? x->shape[axis] : -1;
    if (size < 1)
        return mx_has_error() ? NULL : (mx_onnx_fail(n, MX_ERR_SHAPE, "the size of its axis is not known"), NULL);
    for (int64_t by = 1; x && by < size; by *= 2)
        x = mx_mul(x, moved(x, axis, size, by));
    return !before ? x : size > 1 ? moved(x, axis, size, 1) : mx_ones_like(x);
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
    mx_array *y;
    if (n->op[3] == 'P')
        y = products(n, x, k, before);
    else {
        y = mx_cumsum(x, .axis = k, .dtype = (mx_dtype)n->in[0]->dtype);
        y = before ? mx_sub(y, x) : y;
    }
    n->out[0] = back ? mx_reverse(y, .axis = MX_DIMS(k)) : y;
    return MX_OK;
}

static mx_code write_cumsum(mx_onnx_out *o)
{
    const mx_cumsum_attrs *a = o->attrs;
    int64_t axis = a->axis;
    const char *x = put_row(o, &axis);
    x = o->out_type[0] == o->in_type[0] ? x : mx_onnx_put_cast(o, NULL, x, o->out_type[0]);
    mx_onnx_put(o, o->out[0], "CumSum", x, mx_onnx_put_number(o, (double)axis, MX_INT64));
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_sort[] = {
    BOTH("TopK", "topk", read_topk, write_topk, .constants = 2),
    WRITE(NULL, "sort", write_sort),
    WRITE(NULL, "argsort", write_sort),
    BOTH("CumSum", "_np_cumsum", read_cumsum, write_cumsum, .constants = 2),
    READ("CumProd", read_cumsum, .constants = 2),
    {0}};
