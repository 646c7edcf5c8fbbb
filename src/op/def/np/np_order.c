/* NumPy's functions of elements in order: quantiles, distinct elements, partitions.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "op/def/np/axes.h"
#include "op/def/np/values.h"

/* ---- quantiles --------------------------------------------------------------------------------------------------- */

#define QUANTILE_ATTRS(X) \
    X(DIMS, axis, "None", "", "axes to reduce; None: all of them") \
    X(BOOL, overwrite_input, "None", "", "ignored") \
    X(ENUM, interpolation, "linear", "linear|lower|higher|midpoint|nearest", "what is returned if a quantile lies between two elements") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1")
MX_ATTRS(np_quantile, QUANTILE_ATTRS)
#define MEDIAN_ATTRS(X) \
    X(DIMS, axis, "None", "", "axes to reduce; None: all of them") \
    X(BOOL, overwrite_input, "False", "", "ignored") \
    X(BOOL, keepdims, "False", "", "keep the reduced axes with size 1")
MX_ATTRS(np_median, MEDIAN_ATTRS)
enum { LINEAR, LOWER, HIGHER, MIDPOINT, NEAREST };

/* The elements of the reduced axes in ascending order. */
typedef struct sorted {
    mx_array *x;       /* (kept sizes ..., n) */
    mx_shape_t result; /* the shape of one quantile */
    int64_t n;
    mx_array *nan; /* of the shape of one quantile without keepdims: whether an element is NaN; NULL: there is none */
} sorted;

static mx_code sort_axes(const mx_expand *call, mx_array *x, const mx_dims *axis, bool keepdims, sorted *s)
{
    bool reduced[MX_MAX_NDIM] = {false};
    mx_dims order = {.n = 0};
    mx_shape_t flat = {.ndim = 0};
    *s = (sorted){.n = 1};
    for (int i = 0; i < (axis->n < 0 ? x->ndim : axis->n); i++) {
        const int at = axis->n < 0 ? i : axis_in(call, axis->d[i], x->ndim);
        if (at < 0 || reduced[at])
            return at < 0 ? mx_error_code() : mx_op_fail(call->op, MX_ERR_SHAPE, "axis %d is named twice", at);
        reduced[at] = true;
    }
    for (int pass = 0; pass < 2; pass++) /* axes that stay, then the others */
        for (int i = 0; i < x->ndim; i++)
            if (reduced[i] == pass) {
                order.d[order.n++] = i;
                if (pass)
                    s->n *= x->shape[i];
                else
                    flat.dim[flat.ndim++] = x->shape[i];
            }
    for (int i = 0; i < x->ndim; i++)
        if (!reduced[i] || keepdims)
            s->result.dim[s->result.ndim++] = reduced[i] ? 1 : x->shape[i];
    if (s->n < 1)
        return mx_op_fail(call->op, MX_ERR_INDEX, "there are no elements to choose from");
    flat.dim[flat.ndim++] = s->n;
    mx_array *moved = x->ndim > 1 ? mx_g_call(MX_OP("transpose"), &order, 1, &x) : x;
    moved = moved ? mx_g_reshape(moved, &flat) : NULL;
    s->x = moved ? mx_expand1("np.sort", moved, "axis=-1") : NULL;
    if (s->x && mx_dtype_is_float((mx_dtype)x->dtype))
        s->nan = mx_expand1("np.any", mx_g1("np.isnan", moved), "axis=-1");
    return s->x ? MX_OK : mx_error_code();
}

/* The elements at places (their shape is that of q), which are whole numbers: shape (kept ..., q ...). */
static mx_array *at_places(const sorted *s, mx_array *places)
{
    mx_array *index = mx_expand_cast(places, MX_INT64);
    return index ? mx_expand2("take", s->x, index, "axis=-1, mode=clip") : NULL;
}

static mx_array *between(const sorted *s, mx_array *place, int how)
{
    mx_array *low = mx_g1("floor", place), *high = mx_g1("ceil", place);
    if (how == LOWER || how == HIGHER || how == NEAREST)
        return at_places(s, how == LOWER ? low : how == HIGHER ? high : mx_g1("rint", place));
    const mx_dtype type = (mx_dtype)s->x->dtype;
    mx_array *share = how == MIDPOINT ? NULL : mx_expand_cast(mx_g_sub(place, low), type);
    mx_array *below = at_places(s, low), *above = at_places(s, high);
    if (how == MIDPOINT)
        return mx_g_scale(mx_g_add(below, above), 0.5);
    return mx_g_add(below, mx_g_mul(mx_g_sub(above, below), share));
}

/* NaN where an element was NaN; nan has the axes of y before those of q. */
static mx_array *with_nan(const sorted *s, mx_array *y, int axes_of_q)
{
    mx_array *nan = s->nan;
    mx_shape_t shape = nan ? mx_array_shape(nan) : (mx_shape_t){.ndim = 0};
    if (!nan || !y)
        return y;
    for (int i = 0; i < axes_of_q; i++)
        shape.dim[shape.ndim++] = 1;
    nan = mx_g_reshape(nan, &shape);
    return nan ? mx_g_call(MX_OP("np.where"), NULL, 3, (mx_array *const[]){nan, mx_number_float(MX_NONE_FLOAT), y})
               : NULL;
}

/* q as shares in float64. */
static mx_array *shares(const mx_expand *call, mx_array *q, double whole, const mx_array *like)
{
    if (mx_values_known(q) && q->size && (mx_range_of(q).low < 0 || mx_range_of(q).high > whole))
        return mx_op_fail(call->op, MX_ERR_ARGUMENT, "q must be between 0 and %g", whole), NULL;
    mx_array *wide = mx_expand_array(q, MX_FLOAT64, like);
    return wide ? mx_g_scale(wide, 1 / whole) : NULL;
}

static mx_array *quantile_of(const mx_expand *call, mx_array *x, mx_array *q, const mx_np_quantile_attrs *attrs)
{
    sorted s;
    if (sort_axes(call, x, &attrs->axis, attrs->keepdims, &s))
        return NULL;
    const int axes_of_q = q->ndim, kept = s.x->ndim - 1;
    mx_array *y = with_nan(&s, between(&s, mx_g_scale(q, (double)(s.n - 1)), attrs->interpolation), axes_of_q);
    mx_dims order = {.n = kept + axes_of_q};
    for (int i = 0; i < order.n; i++)
        order.d[i] = i < axes_of_q ? kept + i : i - axes_of_q;
    if (y && axes_of_q && kept)
        y = mx_g_call(MX_OP("transpose"), &order, 1, &y);
    mx_shape_t shape = {.ndim = 0};
    for (int i = 0; i < axes_of_q + s.result.ndim && i < MX_MAX_NDIM; i++)
        shape.dim[shape.ndim++] = i < axes_of_q ? q->shape[i] : s.result.dim[i - axes_of_q];
    return y ? mx_g_reshape(y, &shape) : NULL;
}

/* Interpolation makes floats; chosen elements keep their type. */
static mx_array *elements(const mx_expand *call, bool to_float)
{
    mx_array *x = shaped(call, 0);
    for (int i = 0; x && i < x->ndim; i++)
        if (x->shape[i] < 0)
            return mx_op_fail(call->op, MX_ERR_SHAPE, "the shape must be known"), NULL;
    return x && to_float ? mx_expand_cast(x, mx_float_of((mx_dtype)x->dtype)) : x;
}
static mx_code quantile(const mx_expand *call)
{
    const mx_np_quantile_attrs *attrs = call->attrs;
    mx_array *x = elements(call, attrs->interpolation == LINEAR || attrs->interpolation == MIDPOINT);
    mx_array *q = x ? shares(call, call->in[1], !strcmp(call->op->name, "np.percentile") ? 100 : 1, x) : NULL;
    return mx_expand_give(call, q ? quantile_of(call, x, q, attrs) : NULL);
}
static mx_code median(const mx_expand *call)
{
    const mx_np_median_attrs *attrs = call->attrs;
    const mx_np_quantile_attrs middle = {.axis = attrs->axis, .interpolation = LINEAR, .keepdims = attrs->keepdims};
    mx_array *x = elements(call, true);
    char text[MX_SHAPE_TEXT];
    if (x && !x->size) /* NaN */
        return mx_expand_give(call, mx_expand1("np.mean", x, "axis=%s, keepdims=%s", mx_dims_text(&attrs->axis, text),
                                               attrs->keepdims ? "True" : "False"));
    mx_array *half = x ? mx_expand_array(mx_number_float(0.5), MX_FLOAT64, x) : NULL;
    return mx_expand_give(call, half ? quantile_of(call, x, half, &middle) : NULL);
}

/* ---- distinct elements ------------------------------------------------------------------------------------------- */

#define UNIQUE_ATTRS(X) \
    X(BOOL, return_index, "False", "", "also where each element occurs first") \
    X(BOOL, return_inverse, "False", "", "also which of the results each element is") \
    X(BOOL, return_counts, "False", "", "also how often each element occurs")
MX_ATTRS(np_unique, UNIQUE_ATTRS)
static int count_unique(const void *attrs)
{
    const mx_np_unique_attrs *a = attrs;
    return 1 + a->return_index + a->return_inverse + a->return_counts;
}

/* The elements in ascending order: one is new if it differs from the one before it. */
typedef struct runs {
    int64_t n;
    mx_array *x, *order; /* in ascending order, and where each was */
    mx_array *mask;      /* whether it is the first of its kind */
} runs;

static mx_code find_runs(mx_array *x, runs *r)
{
    r->n = x->size;
    r->order = mx_expand1("argsort", x, "axis=0, dtype=int64");
    r->x = r->order ? mx_expand2("take", x, r->order, "axis=0, mode=clip") : NULL;
    mx_array *first = r->x ? mx_expand_cast(mx_g1("ones_like", mx_part(r->order, 0, 0, 1)), MX_BOOL) : NULL;
    if (r->n < 2)
        r->mask = first;
    else
        r->mask = mx_joined2(first, mx_g2("np.not_equal", mx_part(r->x, 0, 1, r->n), mx_part(r->x, 0, 0, r->n - 1)), 0);
    return r->mask ? MX_OK : mx_error_code();
}
/* Which of the results each element is, back in the order of x. */
static mx_array *inverse_of(const runs *r)
{
    mx_array *number = mx_g_shift(mx_expand1("np.cumsum", r->mask, "axis=0"), -1);
    mx_array *back = mx_expand1("argsort", r->order, "axis=0, dtype=int64");
    return number && back ? mx_expand2("take", number, back, "axis=0, mode=clip") : NULL;
}
static mx_array *counts_of(const runs *r)
{
    mx_array *begin = mx_chosen(mx_places(r->n, r->x, MX_INT64), r->mask);
    mx_array *end = begin ? mx_expand_array(mx_number_int(r->n), MX_INT64, r->x) : NULL;
    end = end ? mx_flattened(end) : NULL;
    return end ? mx_g_sub(mx_joined2(mx_part(begin, 0, 1, begin->size), end, 0), begin) : NULL;
}

static mx_code unique(const mx_expand *call)
{
    const mx_np_unique_attrs *attrs = call->attrs;
    mx_array *x = mx_flattened(shaped(call, 0)), *none = NULL;
    runs r = {0};
    int at = 0;
    if (mx_want_values(call, x))
        return mx_error_code();
    const mx_dtype type = (mx_dtype)x->dtype;
    if (!x->size)
        none = mx_places(0, x, MX_INT64);
    else if (find_runs(mx_expand_cast(x, type == MX_BOOL ? MX_UINT8 : type), &r))
        return mx_error_code();
    call->out[at++] = none ? x : mx_expand_cast(mx_chosen(r.x, r.mask), type);
    if (attrs->return_index)
        call->out[at++] = none ? none : mx_chosen(r.order, r.mask);
    if (attrs->return_inverse)
        call->out[at++] = none ? none : inverse_of(&r);
    if (attrs->return_counts)
        call->out[at++] = none ? none : counts_of(&r);
    for (int i = 0; i < at; i++)
        if (!call->out[i])
            return mx_error_code();
    return MX_OK;
}

/* ---- partitions -------------------------------------------------------------------------------------------------- */

#define PARTITION_ATTRS(X)     X(DIMS, kth, REQUIRED, "", "the places whose elements are those of the sorted array")     X(INT, axis, "-1", "", "the axis; None: of all elements in order") \
    X(STR, kind, "introselect", "", "ignored") \
    X(STR, order, "None", "", "ignored")
MX_ATTRS(np_partition, PARTITION_ATTRS)
/* The whole axis in order is a partition at every place. */
static mx_code partition(const mx_expand *call)
{
    const mx_np_partition_attrs *attrs = call->attrs;
    mx_array *x = shaped(call, 0);
    if (x && attrs->axis == MX_NONE_INT)
        x = mx_flattened(x);
    const int axis = x ? axis_in(call, attrs->axis == MX_NONE_INT ? 0 : attrs->axis, x->ndim) : -1;
    if (axis < 0)
        return mx_error_code();
    for (int i = 0; i < attrs->kth.n; i++)
        if (x->shape[axis] >= 0 && (attrs->kth.d[i] >= x->shape[axis] || attrs->kth.d[i] < -x->shape[axis]))
            return mx_op_fail(call->op, MX_ERR_ARGUMENT, "kth is %lld, axis %d has size %lld",
                              (long long)attrs->kth.d[i], axis, (long long)x->shape[axis]);
    return mx_expand_give(call, mx_expand_text(mx_expansion_op(call->how, 0), 1, &x, "axis=%d", axis));
}
static mx_code msort(const mx_expand *call)
{
    mx_array *x = shaped(call, 0);
    return mx_expand_give(call, x ? mx_expand1("np.sort", x, "axis=0") : NULL);
}

// clang-format off
#define QUANTILE(id, doc_) \
    {.name = "np." #id, .c_name = "np_" #id, .doc = doc_, .inputs = "a q", .flags = MX_OP_EXPANDS, .schema = &np_quantile_schema, \
     .user = &(mx_expansion){quantile, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
mx_op mx_family_np_order[] = {
    QUANTILE(percentile, "the element below which q percent of all are; q may be an array, whose axes come first")
    QUANTILE(quantile, "the element below which the share q of all are; q may be an array, whose axes come first")
    MOVE(median, median, NULL, &np_median_schema, "the middle of the elements in order")
    MOVE(partition, partition, "np.sort", &np_partition_schema, "the elements, those at kth in their places of the sorted array")
    MOVE(argpartition, partition, "np.argsort", &np_partition_schema, "the positions of the elements of partition")
    MOVE(msort, msort, NULL, NULL, "the elements in ascending order along the first axis")
    {.name = "np.unique", .c_name = "np_unique", .doc = "the distinct elements in ascending order", .inputs = "ar", .flags = MX_OP_EXPANDS,
     .schema = &np_unique_schema, .count_out = count_unique, .user = &(mx_expansion){unique, {NULL, NULL, NULL}, 0, {NULL, NULL, NULL}}},
    {0},
};
