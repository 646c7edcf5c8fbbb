/* Numbers of elements, histograms, parts that are written, checks of many elements.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* ---- numbers of elements ------------------------------------------------------------------------------------------ */

/* Elements that one step along each axis skips. */
static void strides_of(const mx_dims *shape, int64_t *strides)
{
    int64_t all = 1;
    for (int i = shape->n - 1; i >= 0; all *= shape->d[i], i--)
        strides[i] = all;
}

/* A list along the first of `rank` axes. */
static const char *put_first(mx_onnx_out *o, int n, const int64_t *numbers, int rank)
{
    int64_t shape[MX_MAX_NDIM + 1];
    for (int i = 0; i < rank; i++)
        shape[i] = i ? 1 : -1;
    return mx_onnx_put_shaped(o, NULL, mx_onnx_put_ints(o, n, numbers), rank, shape);
}

static mx_code write_ravel(mx_onnx_out *o)
{
    const mx_unravel_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    int64_t strides[MX_MAX_TUPLE];
    if (rank < 0)
        return mx_error_code();
    strides_of(&a->shape, strides);
    const char *x = mx_onnx_put_cast(o, NULL, o->in[0], MX_INT64);
    const char *parts = mx_onnx_put(o, NULL, "Mul", x, put_first(o, a->shape.n, strides, rank));
    const char *sum = mx_onnx_put_reduce(o, NULL, "ReduceSum", parts, MX_ONNX_LIST(0), false);
    mx_onnx_put_cast(o, o->out[0], sum, o->out_type[0]);
    return mx_onnx_done(o);
}

static mx_code write_unravel(mx_onnx_out *o)
{
    const mx_unravel_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    int64_t strides[MX_MAX_TUPLE], sizes[MX_MAX_TUPLE];
    if (rank < 0)
        return mx_error_code();
    strides_of(&a->shape, strides);
    for (int i = 0; i < a->shape.n; i++)
        sizes[i] = i ? a->shape.d[i] : INT64_MAX; /* what is left */
    const char *x = mx_onnx_put_cast(o, NULL, o->in[0], MX_INT64);
    x = mx_onnx_put(o, NULL, "Unsqueeze", x, mx_onnx_put_ints(o, MX_ONNX_LIST(0)));
    x = mx_onnx_put(o, NULL, "Div", x, put_first(o, a->shape.n, strides, rank + 1));
    x = mx_onnx_put(o, NULL, "Mod", x, put_first(o, a->shape.n, sizes, rank + 1));
    mx_onnx_put_cast(o, o->out[0], x, o->out_type[0]);
    return mx_onnx_done(o);
}

/* A constant that the operator itself computes. */
static mx_code write_index_array(mx_onnx_out *o)
{
    mx_dims shape = {.n = mx_onnx_out_rank(o, 0)};
    for (int i = 0; i < shape.n; i++)
        if ((shape.d[i] = o->in_shape[0].dim[i]) < 0)
            return mx_onnx_refuse(o, "the size of axis %d is not known; give the shapes of the inputs", i);
    mx_array *x = shape.n < 0 ? NULL : mx_zeros(.shape = shape), *y[1] = {NULL};
    if (!x || mx_invoke(o->node->op, o->attrs, 1, &x, 1, y))
        return mx_error_code();
    mx_onnx_put(o, o->out[0], "Identity", mx_onnx_put_array(o, y[0]));
    return mx_onnx_done(o);
}

/* ---- histograms ------------------------------------------------------------------------------------------------ */

static const char *put_edge(mx_onnx_out *o, const char *op, const char *x)
{
    return mx_onnx_put_shaped(o, NULL, mx_onnx_put_reduce(o, NULL, op, x, 0, NULL, false), MX_ONNX_LIST(1));
}

/* Edges of bins of equal width between the smallest and the largest number; one number is in the middle. */
static const char *put_edges(mx_onnx_out *o, const mx_histogram_attrs *a)
{
    const double count = (double)a->bin_cnt;
    const mx_dtype type = (mx_dtype)o->in_type[0];
    mx_array *share = mx_div_scalar(mx_arange(.start = 0, .stop = count + 1, .dtype = type), .scalar = count);
    if (a->range.n == 2) {
        const double low = a->range.d[0], high = a->range.d[1], more = low == high ? 0.5 : 0;
        mx_array *wide = mx_mul_scalar(share, .scalar = high - low + 2 * more);
        return mx_onnx_put_array(o, mx_plus_scalar(wide, .scalar = low - more));
    }
    const char *low = put_edge(o, "ReduceMin", o->in[0]), *high = put_edge(o, "ReduceMax", o->in[0]);
    const char *same = mx_onnx_put_cast(o, NULL, mx_onnx_put(o, NULL, "Equal", low, high), type);
    const char *half = mx_onnx_put_with(o, NULL, "Mul", same, 0.5);
    low = mx_onnx_put(o, NULL, "Sub", low, half);
    const char *width = mx_onnx_put(o, NULL, "Sub", mx_onnx_put(o, NULL, "Add", high, half), low);
    return mx_onnx_put(o, NULL, "Add", mx_onnx_put(o, NULL, "Mul", mx_onnx_put_array(o, share), width), low);
}

/* Every number is compared with all edges; the last bin has its upper edge. */
static mx_code write_histogram(mx_onnx_out *o)
{
    const mx_histogram_attrs *a = o->attrs;
    const int64_t bins = o->out_shape[0].ndim == 1 ? o->out_shape[0].dim[0] : -1;
    if (bins < 1)
        return mx_onnx_refuse(o, "the number of bins is not known");
    const char *edges = a->bin_cnt == MX_NONE_INT ? o->in[1] : put_edges(o, a);
    const char *x = mx_onnx_put_shaped(o, NULL, o->in[0], MX_ONNX_LIST(-1, 1));
    const char *low = mx_onnx_put_part(o, NULL, edges, 0, 0, bins),
               *high = mx_onnx_put_part(o, NULL, edges, 0, 1, MX_NONE_INT);
    mx_array *last = mx_greater_scalar(mx_arange(.start = 0, .stop = (double)bins), .scalar = (double)bins - 1.5);
    const char *end = mx_onnx_put(o, NULL, "And", mx_onnx_put(o, NULL, "Equal", x, high),
                                  mx_onnx_put_array(o, mx_cast(last, .dtype = MX_BOOL)));
    const char *below = mx_onnx_put(o, NULL, "Or", mx_onnx_put(o, NULL, "Less", x, high), end);
    const char *in = mx_onnx_put(o, NULL, "And", mx_onnx_put(o, NULL, "GreaterOrEqual", x, low), below);
    mx_onnx_put_reduce(o, o->out[0], "ReduceSum", mx_onnx_put_cast(o, NULL, in, MX_INT64), MX_ONNX_LIST(0), false);
    mx_onnx_put(o, o->out[1], "Identity", edges);
    return mx_onnx_done(o);
}

/* Elements that are not 0. */
static mx_code write_getnnz(mx_onnx_out *o)
{
    const mx_getnnz_attrs *a = o->attrs;
    const char *zero = mx_onnx_put(o, NULL, "Equal", o->in[0], mx_onnx_put_number(o, 0, o->in_type[0]));
    const char *x = mx_onnx_put_cast(o, NULL, mx_onnx_put(o, NULL, "Not", zero), o->out_type[0]);
    const bool all = a->axis == MX_NONE_INT;
    const char *sum = mx_onnx_put_reduce(o, NULL, "ReduceSum", x, !all, &a->axis, false);
    mx_onnx_put_shaped(o, o->out[0], sum, o->out_shape[0].ndim, (int64_t[]){-1});
    return mx_onnx_done(o);
}

static mx_code write_adjacency(mx_onnx_out *o)
{
    const char *zero = mx_onnx_put(o, NULL, "Equal", o->in[0], mx_onnx_put_number(o, 0, o->in_type[0]));
    mx_onnx_put_cast(o, o->out[0], mx_onnx_put(o, NULL, "Not", zero), MX_FLOAT32);
    return mx_onnx_done(o);
}

/* data[u, v]; -1 where it is 0 */
static mx_code write_edge_id(mx_onnx_out *o)
{
    const char *at[2];
    for (int i = 0; i < 2; i++)
        at[i] = mx_onnx_put_shaped(o, NULL, mx_onnx_put_cast(o, NULL, o->in[i + 1], MX_INT64), MX_ONNX_LIST(-1, 1));
    const char *both = mx_onnx_node(o, NULL, "Concat", 2, at);
    mx_onnx_set_int(o, "axis", 1);
    const char *edge = mx_onnx_put(o, NULL, "GatherND", o->in[0], both);
    const char *none = mx_onnx_put_with(o, NULL, "Equal", edge, 0);
    mx_onnx_put(o, o->out[0], "Where", none, mx_onnx_put_number(o, -1, o->in_type[0]), edge);
    return mx_onnx_done(o);
}

/* ---- parts that are written -------------------------------------------------------------------------------------- */

/* What the operator makes of zeros and of 1, 2, 3 ... says where elements of the second array go; 0: nowhere. */
static mx_array *targets(mx_onnx_out *o, const void *attrs)
{
    mx_dims shape[2];
    mx_array *x[2] = {NULL}, *y[1] = {NULL};
    int64_t size = 1;
    for (int k = 0; k < o->n_in; k++) {
        shape[k] = (mx_dims){.n = mx_onnx_out_rank(o, k)};
        size = 1;
        for (int i = 0; i < shape[k].n; i++) {
            shape[k].d[i] = o->in_shape[k].dim[i];
            if (shape[k].d[i] < 0)
                return mx_onnx_refuse(o, "the size of axis %d is not known; give the shapes of the inputs", i), NULL;
            size *= shape[k].d[i];
        }
        x[k] = k ? mx_reshape(mx_arange(.start = 1, .stop = (double)size + 1, .dtype = MX_FLOAT64), .shape = shape[k])
                 : mx_zeros(.shape = shape[k], .dtype = MX_FLOAT64);
        if (!x[k])
            return NULL;
    }
    return mx_invoke(o->node->op, attrs, o->n_in, x, 1, y) ? NULL : mx_cast(y[0], .dtype = MX_INT64);
}

static mx_code write_assign(mx_onnx_out *o)
{
    mx_array *from = targets(o, o->attrs);
    if (!from)
        return mx_error_code();
    mx_array *index = mx_maximum_scalar(mx_minus_scalar(from), .scalar = 0);
    const char *flat = mx_onnx_put_shaped(o, NULL, o->in[1], MX_ONNX_LIST(-1));
    const char *moved = mx_onnx_put_choice(o, NULL, flat, mx_onnx_put_array(o, index), 0);
    mx_onnx_put(o, o->out[0], "Where", mx_onnx_put_array(o, mx_cast(from, .dtype = MX_BOOL)), moved, o->in[0]);
    return mx_onnx_done(o);
}

static mx_code write_assign_scalar(mx_onnx_out *o)
{
    mx_slice_assign_scalar_attrs ones = *(const mx_slice_assign_scalar_attrs *)o->attrs;
    const double value = ones.scalar;
    ones.scalar = 1;
    mx_array *where = targets(o, &ones);
    if (!where)
        return mx_error_code();
    mx_onnx_put(o, o->out[0], "Where", mx_onnx_put_array(o, mx_cast(where, .dtype = MX_BOOL)),
                mx_onnx_put_number(o, value, o->in_type[0]), o->in[0]);
    return mx_onnx_done(o);
}

/* Index tuples are on the first axis here, on the last in ONNX. */
static const char *put_tuples(mx_onnx_out *o, int i)
{
    const int rank = o->in_shape[i].ndim;
    int64_t order[MX_MAX_NDIM];
    for (int k = 0; k < rank; k++)
        order[k] = k + 1 < rank ? k + 1 : 0;
    return mx_onnx_put_ordered(o, NULL, mx_onnx_put_cast(o, NULL, o->in[i], MX_INT64), rank, order);
}

static mx_code write_scatter(mx_onnx_out *o)
{
    const mx_scatter_nd_attrs *a = o->attrs;
    if (mx_onnx_out_rank(o, 1) < 0)
        return mx_error_code();
    mx_array *zeros = mx_zeros(.shape = a->shape, .dtype = (mx_dtype)o->in_type[0]);
    mx_onnx_put(o, o->out[0], "ScatterND", mx_onnx_put_array(o, zeros), put_tuples(o, 1), o->in[0]);
    return mx_onnx_done(o);
}

static mx_code write_scatter_set(mx_onnx_out *o)
{
    if (mx_onnx_out_rank(o, 2) < 0)
        return mx_error_code();
    mx_onnx_put(o, o->out[0], "ScatterND", o->in[0], put_tuples(o, 2), o->in[1]);
    return mx_onnx_done(o);
}

static mx_code write_index_copy(mx_onnx_out *o)
{
    const char *index = mx_onnx_put_shaped(o, NULL, mx_onnx_put_cast(o, NULL, o->in[1], MX_INT64), MX_ONNX_LIST(-1, 1));
    mx_onnx_put(o, o->out[0], "ScatterND", o->in[0], index, o->in[2]);
    return mx_onnx_done(o);
}

/* The rows at the indices, zeros elsewhere. */
static mx_code write_retain(mx_onnx_out *o)
{
    const char *index = mx_onnx_put_cast(o, NULL, o->in[1], MX_INT64), *shape = mx_onnx_put(o, NULL, "Shape", o->in[0]);
    const char *zeros = mx_onnx_put(o, NULL, "Expand", mx_onnx_put_number(o, 0, o->in_type[0]), shape);
    const char *rows = mx_onnx_put_choice(o, NULL, o->in[0], index, 0);
    mx_onnx_put(o, o->out[0], "ScatterND", zeros, mx_onnx_put_shaped(o, NULL, index, MX_ONNX_LIST(-1, 1)), rows);
    return mx_onnx_done(o);
}

/* ---- checks ---------------------------------------------------------------------------------------------------- */

/* 1 or 0: whether all elements are true */
static const char *put_all(mx_onnx_out *o, const char *x)
{
    return mx_onnx_put_reduce(o, NULL, "ReduceMin", mx_onnx_put_cast(o, NULL, x, MX_FLOAT32), 0, NULL, false);
}

static mx_code write_all_finite(mx_onnx_out *o)
{
    const char *y = NULL;
    for (int i = 0; i < o->n_in; i++) { /* infinite numbers and NaN are not below infinity */
        const char *size = mx_onnx_put(o, NULL, "Abs", mx_onnx_put_cast(o, NULL, o->in[i], MX_FLOAT32));
        const char *own =
            put_all(o, mx_onnx_put(o, NULL, "Less", size, mx_onnx_put_number(o, (double)INFINITY, MX_FLOAT32)));
        y = y ? mx_onnx_put(o, NULL, "Min", y, own) : own;
    }
    mx_onnx_put_shaped(o, o->out[0], mx_onnx_put_cast(o, NULL, y, o->out_type[0]), MX_ONNX_LIST(1));
    return mx_onnx_done(o);
}

/* |a - b| <= atol + rtol |b|, or equal, or both NaN */
static mx_code write_allclose(mx_onnx_out *o)
{
    const mx_allclose_attrs *p = o->attrs;
    const char *a = mx_onnx_put_cast(o, NULL, o->in[0], MX_FLOAT32),
               *b = mx_onnx_put_cast(o, NULL, o->in[1], MX_FLOAT32);
    const char *far = mx_onnx_put(o, NULL, "Abs", mx_onnx_put(o, NULL, "Sub", a, b));
    const char *size =
        mx_onnx_put(o, NULL, "Mul", mx_onnx_put(o, NULL, "Abs", b), mx_onnx_put_number(o, p->rtol, MX_FLOAT32));
    const char *room = mx_onnx_put(o, NULL, "Add", size, mx_onnx_put_number(o, p->atol, MX_FLOAT32));
    const char *near = mx_onnx_put(o, NULL, "LessOrEqual", far, room);
    near = mx_onnx_put(o, NULL, "Or", near, mx_onnx_put(o, NULL, "Equal", a, b));
    if (p->equal_nan) {
        const char *both =
            mx_onnx_put(o, NULL, "And", mx_onnx_put(o, NULL, "IsNaN", a), mx_onnx_put(o, NULL, "IsNaN", b));
        near = mx_onnx_put(o, NULL, "Or", near, both);
    }
    mx_onnx_put_cast(o, o->out[0], put_all(o, near), o->out_type[0]);
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_numbering[] = {
    WRITE(NULL, "_ravel_multi_index", write_ravel),
    WRITE(NULL, "_unravel_index", write_unravel),
    WRITE(NULL, "_contrib_index_array", write_index_array),
    WRITE(NULL, "_histogram", write_histogram),
    WRITE(NULL, "_contrib_getnnz", write_getnnz),
    WRITE(NULL, "_contrib_dgl_adjacency", write_adjacency),
    WRITE(NULL, "_contrib_edge_id", write_edge_id),
    WRITE(NULL, "_slice_assign", write_assign),
    WRITE(NULL, "_slice_assign_scalar", write_assign_scalar),
    WRITE("ScatterND", "scatter_nd", write_scatter),
    WRITE("ScatterND", "_scatter_set_nd", write_scatter_set),
    WRITE("ScatterND", "_contrib_index_copy", write_index_copy),
    WRITE("ScatterND", "_sparse_retain", write_retain),
    WRITE(NULL, "all_finite", write_all_finite),
    WRITE(NULL, "multi_all_finite", write_all_finite),
    WRITE(NULL, "_contrib_allclose", write_allclose),
    {0}};
