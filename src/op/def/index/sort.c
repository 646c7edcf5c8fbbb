/* Order: sort, argsort, topk.
 *
 * Sorting is stable: equal elements keep their order, also when descending.  NaN counts as greater than every number.
 * The gradient of sorted values is scattered to the indices they came from (`_put_along`).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "op/emit.h"
#include "op/formula/movement.h"
#include "op/walk.h"

#define SORT_ATTRS(X) \
    X(INT, axis, "-1", "", "the axis; None: the flattened array") \
    X(BOOL, is_ascend, "True", "", "sort in ascending order")
MX_ATTRS(sort, SORT_ATTRS)

#define ARGSORT_ATTRS(X) SORT_ATTRS(X) X(DTYPE, dtype, "float32", "", "type of the indices")
MX_ATTRS(argsort, ARGSORT_ATTRS)

#define TOPK_ATTRS(X) \
    X(INT, axis, "-1", "", "the axis; None: the flattened array") \
    X(INT, k, "1", "", "number of elements; less than 1: all") \
    X(ENUM, ret_typ, "indices", "value|indices|mask|both", "what is returned; mask: 1 for the chosen elements, 0 for others") \
    X(BOOL, is_ascend, "False", "", "choose the smallest elements instead of the largest") \
    X(DTYPE, dtype, "float32", "", "type of the indices")
MX_ATTRS(topk, TOPK_ATTRS)
enum { VALUE, INDICES, MASK, BOTH };

/* The shape that the operators work on: the given one, or all elements in one row. */
static mx_shape_t row_shape(int64_t wanted, const mx_shape_t *in, int *axis)
{
    if (wanted != MX_NONE_INT && in->ndim > 0) {
        *axis = mx_axis(wanted, in->ndim);
        return *in;
    }
    *axis = 0;
    return (mx_shape_t){1, {mx_shape_size(in)}};
}

static mx_code find_rows(mx_infer *infer, int64_t wanted, mx_shape_t *shape, int *axis)
{
    *shape = row_shape(wanted, &infer->in[0], axis);
    if (*axis < 0)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "axis %lld does not exist, data has %d axes", (long long)wanted,
                          infer->in[0].ndim);
    return MX_OK;
}

/* Largest integer up to which all are exact in the type. */
static bool holds_index(int dtype, int64_t size)
{
    switch (dtype) {
    case MX_UINT8: return size <= 256;
    case MX_INT8: return size <= 128;
    case MX_FLOAT16: return size <= 2049;
    case MX_BFLOAT16: return size <= 257;
    case MX_FLOAT32: return size <= (1 << 24) + 1;
    case MX_INT32: return size <= (int64_t)INT32_MAX + 1;
    case MX_BOOL: return false;
    default: return true;
    }
}

static mx_code check_index_type(mx_infer *infer, int dtype, int64_t size)
{
    if (holds_index(dtype, size))
        return MX_OK;
    return mx_op_fail(infer->op, MX_ERR_DTYPE, "dtype %s cannot hold the indices of an axis of size %lld",
                      mx_dtype_name((mx_dtype)dtype), (long long)size);
}

/* ---- sort, argsort ------------------------------------------------------------------------------------------- */

static mx_code infer_sort(mx_infer *infer)
{
    mx_shape_t shape;
    int axis;
    if (!mx_shape_known(&infer->in[0]))
        return MX_OK;
    if (find_rows(infer, ((const mx_sort_attrs *)infer->attrs)->axis, &shape, &axis))
        return mx_error_code();
    for (int i = 0; i < infer->n_out; i++)
        if (mx_infer_out(infer, i, &shape))
            return mx_error_code();
    return MX_OK;
}

static mx_code infer_sort_type(mx_infer *infer)
{
    return mx_infer_out_type(infer, 0, infer->in_type[0]) ? mx_error_code() : mx_infer_out_type(infer, 1, MX_INT64);
}

static mx_code infer_argsort(mx_infer *infer)
{
    const mx_argsort_attrs *attrs = infer->attrs;
    int axis;
    if (mx_shape_known(&infer->in[0])) {
        mx_shape_t shape = row_shape(attrs->axis, &infer->in[0], &axis);
        if (axis >= 0 && check_index_type(infer, attrs->dtype, shape.dim[axis]))
            return mx_error_code();
    }
    return infer_sort(infer);
}

static mx_code infer_argsort_type(mx_infer *infer)
{
    const mx_argsort_attrs *attrs = infer->attrs;
    return mx_infer_out_type(infer, 0, attrs->dtype == MX_DTYPE_NONE ? MX_FLOAT32 : (int)attrs->dtype);
}

/* Scatters g (rows of k) to the positions that the indices name. */
static mx_code send_back(mx_grad *grad, int64_t wanted_axis, mx_array *indices)
{
    int axis;
    const mx_shape_t rows = row_shape(wanted_axis, &grad->in_shape[0], &axis);
    struct { int64_t axis; int mode; mx_dims shape; } attrs = {axis, 2, mx_dims_of_shape(&rows)};
    if (!grad->ograd[0])
        return MX_OK;
    mx_array *g = mx_g_call(MX_OP("_put_along"), &attrs, 2, (mx_array *const[]){grad->ograd[0], indices});
    return mx_give(grad, 0, mx_g_reshape(g, &grad->in_shape[0]));
}

static mx_code grad_sort(mx_grad *grad)
{
    return send_back(grad, ((const mx_sort_attrs *)grad->attrs)->axis, grad->out[1]);
}

static bool before(double a, double b, bool ascending)
{
    const double low = ascending ? a : b, high = ascending ? b : a;
    return isnan(high) ? !isnan(low) : low < high;
}

/* Rank of element i among the row: how many come before it. */
static int64_t rank_of(const double *row, int64_t n, int64_t stride, int64_t i, bool ascending)
{
    int64_t rank = 0;
    for (int64_t k = 0; k < n; k++) {
        const double a = row[k * stride], b = row[i * stride];
        rank += before(a, b, ascending) || (k < i && !before(b, a, ascending));
    }
    return rank;
}

/* The first k of every sorted row: their values, indices, or a mask over the row; each may be NULL. */
static void reference_order(const mx_reference_call *call, int64_t wanted, int64_t k, bool ascending, double *values,
                            double *indices, double *mask)
{
    int axis;
    const mx_shape_t shape = row_shape(wanted, &call->in_shape[0], &axis);
    const mx_split s = mx_split_at(&shape, axis);
    for (int64_t b = 0; b < s.before; b++)
        for (int64_t a = 0; a < s.after; a++)
            for (int64_t i = 0; i < s.size; i++) {
                const double *row = call->in[0] + b * s.size * s.after + a;
                const int64_t rank = rank_of(row, s.size, s.after, i, ascending), to = (b * k + rank) * s.after + a;
                if (mask)
                    mask[(b * s.size + i) * s.after + a] = rank < k;
                if (rank < k && values)
                    values[to] = row[i * s.after];
                if (rank < k && indices)
                    indices[to] = (double)i;
            }
}

static void ref_sort(const mx_reference_call *call)
{
    const mx_sort_attrs *attrs = call->attrs;
    int axis;
    const mx_shape_t shape = row_shape(attrs->axis, &call->in_shape[0], &axis);
    reference_order(call, attrs->axis, shape.dim[axis], attrs->is_ascend, call->out[0],
                    call->n_out > 1 ? call->out[1] : NULL, NULL);
}

static void ref_argsort(const mx_reference_call *call)
{
    const mx_argsort_attrs *attrs = call->attrs;
    int axis;
    const mx_shape_t shape = row_shape(attrs->axis, &call->in_shape[0], &axis);
    reference_order(call, attrs->axis, shape.dim[axis], attrs->is_ascend, NULL, call->out[0], NULL);
}

/* ---- topk --------------------------------------------------------------------------------------------------- */
/* Outputs: indices or mask alone; value and (hidden, for the gradient) its indices; both. */

static int count_topk(const void *attrs)
{
    const int what = ((const mx_topk_attrs *)attrs)->ret_typ;
    return what == INDICES || what == MASK ? 1 : 2;
}
static int visible_topk(const void *attrs) { return ((const mx_topk_attrs *)attrs)->ret_typ == BOTH ? 2 : 1; }

static mx_code infer_topk(mx_infer *infer)
{
    const mx_topk_attrs *attrs = infer->attrs;
    mx_shape_t out;
    int axis;
    if (!mx_shape_known(&infer->in[0]))
        return MX_OK;
    if (find_rows(infer, attrs->axis, &out, &axis))
        return mx_error_code();
    const int64_t size = out.dim[axis];
    if (attrs->k > size)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "k is %lld, the axis has only %lld elements",
                          (long long)attrs->k, (long long)size);
    if (attrs->ret_typ == MASK)
        return mx_infer_out(infer, 0, &infer->in[0]);
    if (attrs->ret_typ != VALUE && check_index_type(infer, attrs->dtype, size))
        return mx_error_code();
    out.dim[axis] = attrs->k < 1 ? size : attrs->k;
    for (int i = 0; i < infer->n_out; i++)
        if (mx_infer_out(infer, i, &out))
            return mx_error_code();
    return MX_OK;
}

static mx_code infer_topk_type(mx_infer *infer)
{
    const mx_topk_attrs *attrs = infer->attrs;
    const int index_type = attrs->dtype == MX_DTYPE_NONE ? MX_FLOAT32 : (int)attrs->dtype;
    if (attrs->ret_typ == INDICES)
        return mx_infer_out_type(infer, 0, index_type);
    if (mx_infer_out_type(infer, 0, infer->in_type[0]))
        return mx_error_code();
    return infer->n_out > 1 ? mx_infer_out_type(infer, 1, attrs->ret_typ == BOTH ? index_type : MX_INT64) : MX_OK;
}

static mx_code grad_topk(mx_grad *grad)
{
    const mx_topk_attrs *attrs = grad->attrs;
    if (attrs->ret_typ == VALUE || attrs->ret_typ == BOTH)
        return send_back(grad, attrs->axis, grad->out[1]);
    return MX_OK; /* indices and masks are piecewise constant */
}

/* Values alone; indices and masks do not change. */
static bool topk_reads_head(const void *attrs, int output)
{
    const int what = ((const mx_topk_attrs *)attrs)->ret_typ;
    return (what == VALUE || what == BOTH) && output == 0;
}

static void ref_topk(const mx_reference_call *call)
{
    const mx_topk_attrs *attrs = call->attrs;
    int axis;
    const mx_shape_t shape = row_shape(attrs->axis, &call->in_shape[0], &axis);
    const int64_t k = attrs->k < 1 ? shape.dim[axis] : attrs->k;
    const int what = attrs->ret_typ;
    reference_order(call, attrs->axis, k, attrs->is_ascend, what == VALUE || what == BOTH ? call->out[0] : NULL,
                    what == INDICES   ? call->out[0]
                    : call->n_out > 1 ? call->out[1]
                                      : NULL,
                    what == MASK ? call->out[0] : NULL);
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

enum { EMIT_VALUES, EMIT_PLACES, EMIT_MASK }; /* what the kernel returns */

static mx_code emit_rank(const mx_emit_call *n, int64_t axis, int64_t k, bool up, int what, int output)
{
    const mx_split s =
        axis == MX_NONE_INT ? (mx_split){1, mx_shape_size(n->x), 1} : mx_split_at(n->x, mx_axis(axis, n->x->ndim));
    if (!n->out[output].there)
        return MX_OK;
    mx_emit_use(n, "rank");
    mx_emit_print(n, "    rank(%s, %s, ", n->in[0].place, n->out[output].place);
    mx_emit_split(n, s);
    mx_emit_print(n, ", %lld, %d, %d", (long long)(k < 1 || k > s.size ? s.size : k), up, what);
    return mx_emit_close(n);
}

static mx_code emit_sort(const mx_emit_call *n)
{
    const mx_sort_attrs *attrs = n->attrs;
    return emit_rank(n, attrs->axis, 0, attrs->is_ascend, EMIT_VALUES, 0);
}

static mx_code emit_argsort(const mx_emit_call *n)
{
    const mx_argsort_attrs *attrs = n->attrs;
    return emit_rank(n, attrs->axis, 0, attrs->is_ascend, EMIT_PLACES, 0);
}

static mx_code emit_topk(const mx_emit_call *n)
{
    static const int first[] = {
        [VALUE] = EMIT_VALUES, [INDICES] = EMIT_PLACES, [MASK] = EMIT_MASK, [BOTH] = EMIT_VALUES};
    const mx_topk_attrs *attrs = n->attrs;
    mx_code code = emit_rank(n, attrs->axis, attrs->k, attrs->is_ascend, first[attrs->ret_typ], 0);
    if (code || attrs->ret_typ != BOTH)
        return code;
    return emit_rank(n, attrs->axis, attrs->k, attrs->is_ascend, EMIT_PLACES, 1);
}

// clang-format off
mx_op mx_family_sort[] = {
    {.name = "sort", MX_EMIT(emit_sort), .methods = "sort", .precision = MX_PRECISION_FLOAT32, .aliases = "_npi_sort",
     .doc = "sorts an array along an axis; gradients follow the elements to where they came from",
     .inputs = "data",
     .outputs_numbered = true, .outputs = "output indices", .schema = &sort_schema, .n_out = 2, .n_visible = 1,
     .infer_shape = infer_sort, .infer_type = infer_sort_type, .gradient = grad_sort, .grad_out = 2,
     .reference = ref_sort,
     .samples = (const mx_sample[]){{"3,5", "", 0, 0, "distinct"}, {"3,5", "axis=0, is_ascend=False", 0, 0, "distinct"},
         {"2,3,2", "axis=None", 0, 0, "distinct"}, {"2,300", "", 0, 0, "distinct"},
         {"40,3", "axis=0", 0, 0, "distinct"}, {"6,4", "is_ascend=False", 0, 3, "int:0 nograd"},
         {"2,0", "", 0, 0, NULL}, {0}}},
    {.name = "argsort", MX_EMIT(emit_argsort), .methods = "argsort", .precision = MX_PRECISION_FLOAT32,
     .aliases = "_npi_argsort",
     .doc = "the indices that would sort data along an axis", .inputs = "data",
     .schema = &argsort_schema, .flags = MX_OP_ZERO_GRADIENT,
     .infer_shape = infer_argsort, .infer_type = infer_argsort_type, .reference = ref_argsort,
     .samples = (const mx_sample[]){{"3,5", "", 0, 0, "distinct"},
         {"3,5", "axis=0, is_ascend=False, dtype=int32", 0, 0, "distinct"},
         {"2,6", "axis=None, dtype=int64", 0, 3, "int:0"}, {0}}},
    {.name = "topk", MX_EMIT(emit_topk, .all = true), .methods = "topk", .precision = MX_PRECISION_FLOAT32,
     .aliases = "_npx_topk",
     .doc = "the k largest or smallest elements along an axis: values, indices, a mask, or both", .inputs = "data",
     .outputs_numbered = true, .outputs = "output indices",
     .schema = &topk_schema, .count_out = count_topk, .count_visible = visible_topk,
     .infer_shape = infer_topk, .infer_type = infer_topk_type, .gradient = grad_topk, .reads_head = topk_reads_head, .grad_out = 2,
     .reference = ref_topk,
     .samples = (const mx_sample[]){{"3,5", "k=2", 0, 0, "distinct nograd"},
         {"3,5", "k=3, ret_typ=value", 0, 0, "distinct"}, {"4,3", "axis=0, k=2, ret_typ=both, is_ascend=True", 0, 0,
     "distinct"},
         {"3,5", "k=2, ret_typ=mask", 0, 0, "distinct nograd"},
         {"2,6", "axis=None, k=4, ret_typ=value", 0, 0, "distinct"},
         {"2,100", "k=3, ret_typ=both, dtype=int32", 0, 0, "distinct"},
         {"3,4", "k=0, ret_typ=value", 0, 0, "distinct"}, {"2,9", "k=4, ret_typ=indices, dtype=int64", 0, 3,
     "int:0 nograd"}, {0}}},
    {0},
};
// clang-format on
