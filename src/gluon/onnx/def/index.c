/* Gathering, masks.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/onnx/def/indices.h"
#include "ndarray/array.h"

/* ---- gathering ------------------------------------------------------------------------------------------------- */

/* Negative indices count from the end. */
static mx_array *wrapped(mx_array *indices, int64_t size)
{
    mx_array *negative = mx_lesser_scalar(indices, .scalar = 0);
    return mx_add(indices, mx_mul_scalar(negative, .scalar = (double)size));
}

static mx_code read_gather(mx_onnx_in *n)
{
    const int rank = mx_onnx_rank(n, 0);
    int64_t axis = mx_onnx_int(n, "axis", 0);
    if (rank < 1 || !mx_onnx_axis(n, &axis, rank))
        return mx_error_code();
    mx_array *indices = n->in[1];
    bool negative = true;
    double number = 0;
    if (n->value[1] && n->value[1]->size == 1)
        negative = !mx_array_read_doubles(n->value[1], &number, 1) && number < 0;
    const int64_t size = n->in[0]->shape[axis];
    if (negative && size < 0)
        indices = NULL;
    else if (negative)
        indices = wrapped(indices, size);
    if (!indices && !mx_has_error()) { /* take wraps by itself */
        n->out[0] = mx_take(n->in[0], n->in[1], .axis = axis, .mode = MX_TAKE_WRAP);
        return MX_OK;
    }
    n->out[0] = mx_take(n->in[0], indices, .axis = axis, .mode = MX_TAKE_CLIP);
    return MX_OK;
}

/* Indices as int64 inside the axis of input 0: clipped, or wrapped around. */
static const char *put_indices(mx_onnx_out *o, int i, int64_t axis, bool clip, bool wrap)
{
    const int rank = mx_onnx_out_rank(o, 0), k = rank < 0 ? -1 : mx_axis(axis, rank);
    const char *indices = mx_onnx_put_cast(o, NULL, o->in[i], MX_INT64);
    const int64_t size = k < 0 ? -1 : o->in_shape[0].dim[k];
    if (clip && size > 0)
        return mx_onnx_put(o, NULL, "Min", mx_onnx_put(o, NULL, "Max", indices, mx_onnx_put_number(o, 0, MX_INT64)),
                           mx_onnx_put_number(o, (double)size - 1, MX_INT64));
    return wrap && size > 0 ? mx_onnx_put(o, NULL, "Mod", indices, mx_onnx_put_number(o, (double)size, MX_INT64))
                            : indices;
}

static mx_code write_take(mx_onnx_out *o)
{
    const mx_take_attrs *a = o->attrs;
    const char *indices = put_indices(o, 1, a->axis, a->mode == MX_TAKE_CLIP, a->mode == MX_TAKE_WRAP);
    mx_onnx_put(o, o->out[0], "Gather", o->in[0], indices);
    mx_onnx_set_int(o, "axis", a->axis);
    return mx_onnx_done(o);
}

static mx_code write_embedding(mx_onnx_out *o)
{
    mx_onnx_put(o, o->out[0], "Gather", o->in[1], mx_onnx_put_cast(o, NULL, o->in[0], MX_INT64));
    return mx_onnx_done(o);
}

/* Indices of gather_nd for `indices` along one axis: those of the other axes are positions. */
mx_array *mx_onnx_full_indices(mx_onnx_in *n, mx_array *indices, int64_t axis, int64_t size)
{
    mx_array *parts[MX_MAX_NDIM];
    const int rank = indices->ndim;
    for (int i = 0; i < rank; i++) {
        mx_dims wide = {.n = rank};
        for (int k = 0; k < rank; k++)
            wide.d[k] = k == i ? -1 : 1;
        if (indices->shape[i] < 0)
            return mx_onnx_fail(n, MX_ERR_SHAPE,
                                "the shape of its indices is not known; give the shapes of the inputs"),
                   NULL;
        mx_array *own = mx_onnx_cast(wrapped(indices, size), MX_INT64);
        parts[i] =
            i == axis
                ? own
                : mx_broadcast_like(mx_reshape(mx_onnx_count(n, indices->shape[i], MX_INT64), .shape = wide), own);
    }
    return mx_stack((mx_arrays){parts, rank}, .axis = 0, .num_args = rank);
}

static mx_code read_gather_elements(mx_onnx_in *n)
{
    int64_t axis = mx_onnx_int(n, "axis", 0);
    const int rank = mx_onnx_rank(n, 0);
    if (rank < 1 || !mx_onnx_axis(n, &axis, rank) || n->in[1]->ndim != rank)
        return mx_onnx_fail(n, MX_ERR_FILE, "data and indices have different numbers of axes");
    mx_array *indices = mx_onnx_full_indices(n, n->in[1], axis, n->in[0]->shape[axis]);
    n->out[0] = indices ? mx_gather_nd(n->in[0], indices) : NULL;
    return MX_OK;
}

/* ONNX has the index tuples on the last axis, ours on the first. */
mx_array *mx_onnx_tuples_first(mx_array *indices)
{
    mx_dims order = {.n = indices->ndim};
    for (int i = 0; i < indices->ndim; i++)
        order.d[i] = i ? i - 1 : indices->ndim - 1;
    return indices->ndim > 1 ? mx_transpose(indices, .axes = order) : indices;
}

/* Negative indices of each tuple position. */
mx_array *mx_onnx_wrapped_tuples(mx_onnx_in *n, mx_array *indices, const mx_array *data, int skip)
{
    const int64_t k = indices->ndim ? indices->shape[indices->ndim - 1] : -1;
    mx_dims sizes = {.n = (int32_t)k};
    if (k < 1 || k > data->ndim - skip)
        return mx_onnx_fail(n, MX_ERR_FILE, "its indices have %lld numbers each", (long long)k), NULL;
    for (int i = 0; i < k; i++)
        if ((sizes.d[i] = data->shape[i + skip]) < 0)
            return mx_onnx_fail(n, MX_ERR_SHAPE, "sizes are not known; give the shapes of the inputs"), NULL;
    mx_array *x = mx_onnx_cast(indices, MX_INT64);
    mx_array *negative = mx_lesser_scalar(x, .scalar = 0);
    return mx_add(x, mx_mul(negative, mx_onnx_int64s(&sizes)));
}

static mx_code read_gather_nd(mx_onnx_in *n)
{
    const int64_t batch = mx_onnx_int(n, "batch_dims", 0);
    if (mx_onnx_rank(n, 0) < 1 || mx_onnx_rank(n, 1) < 1)
        return mx_error_code();
    mx_array *indices = mx_onnx_wrapped_tuples(n, n->in[1], n->in[0], (int)batch);
    if (!indices)
        return mx_error_code();
    if (batch < 0 || batch >= indices->ndim || batch >= n->in[0]->ndim)
        return mx_onnx_fail(n, MX_ERR_FILE, "batch_dims is %lld, but its inputs have %d and %d axes", (long long)batch,
                            n->in[0]->ndim, indices->ndim);
    if (batch) { /* positions of the batch are put before */
        mx_array *parts[MX_MAX_NDIM + 1];
        int k = 0;
        for (; k < batch; k++) {
            mx_dims wide = {.n = indices->ndim};
            for (int i = 0; i < indices->ndim; i++)
                wide.d[i] = i == k ? -1 : 1;
            mx_array *first = mx_slice_axis(indices, .axis = -1, .begin = 0, .end = 1);
            parts[k] =
                mx_broadcast_like(mx_reshape(mx_onnx_count(n, indices->shape[k], MX_INT64), .shape = wide), first);
        }
        parts[k++] = indices;
        indices = mx_concat((mx_arrays){parts, k}, .num_args = k, .dim = -1);
    }
    n->out[0] = indices ? mx_gather_nd(n->in[0], mx_onnx_tuples_first(indices)) : NULL;
    return MX_OK;
}

static mx_code write_gather_nd(mx_onnx_out *o)
{
    const int rank = mx_onnx_out_rank(o, 1);
    int64_t order[MX_MAX_NDIM];
    for (int i = 0; i < rank; i++)
        order[i] = i + 1 < rank ? i + 1 : 0;
    const char *indices = mx_onnx_put(o, NULL, "Transpose", mx_onnx_put_cast(o, NULL, o->in[1], MX_INT64));
    mx_onnx_set_ints(o, "perm", rank, order);
    mx_onnx_put(o, o->out[0], "GatherND", o->in[0], indices);
    return mx_onnx_done(o);
}

/* ---- one-hot, masks --------------------------------------------------------------------------------------- */

static mx_code read_one_hot(mx_onnx_in *n)
{
    double depth, values[2];
    const int rank = mx_onnx_rank(n, 0);
    int64_t axis = mx_onnx_int(n, "axis", -1);
    if (!mx_onnx_number(n, 1, 0, &depth) || rank < 0 || !mx_onnx_axis(n, &axis, rank + 1))
        return mx_error_code();
    if (!n->value[2] || n->value[2]->size != 2 || mx_array_read_doubles(n->value[2], values, 2))
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED,
                            "its input 2 ('%s') is computed from the network's inputs; it must be constant",
                            n->in_name[2]);
    const mx_dtype type = (mx_dtype)n->value[2]->dtype;
    mx_array *y = mx_one_hot(wrapped(mx_onnx_cast(n->in[0], MX_INT64), (int64_t)depth), .depth = (int64_t)depth,
                             .on_value = values[1], .off_value = values[0], .dtype = type);
    if (y && axis < rank) {
        mx_dims order = {.n = rank + 1};
        for (int i = 0; i <= rank; i++)
            order.d[i] = i < axis ? i : i == axis ? rank : i - 1;
        y = mx_transpose(y, .axes = order);
    }
    n->out[0] = y;
    return MX_OK;
}

static mx_code write_one_hot(mx_onnx_out *o)
{
    const mx_one_hot_attrs *a = o->attrs;
    const double values[2] = {a->off_value, a->on_value};
    const char *index = mx_onnx_put_cast(o, NULL, o->in[0], MX_INT64),
               *depth = mx_onnx_put_number(o, (double)a->depth, MX_INT64);
    const char *negative =
        mx_onnx_put(o, NULL, "Less", index, mx_onnx_put_number(o, 0, MX_INT64)); /* ours do not count from the end */
    const char *y = mx_onnx_put(o, o->out_type[0] == MX_FLOAT32 ? o->out[0] : NULL, "OneHot",
                                mx_onnx_put(o, NULL, "Where", negative, depth, index), depth,
                                mx_onnx_put_floats(o, 2, values, MX_FLOAT32));
    if (o->out_type[0] != MX_FLOAT32) /* runtimes implement few types */
        mx_onnx_put_cast(o, o->out[0], y, o->out_type[0]);
    return mx_onnx_done(o);
}

/* The value at one index per row. */
static mx_code write_pick(mx_onnx_out *o)
{
    const mx_pick_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    if (a->axis == MX_NONE_INT)
        return mx_onnx_refuse(o, "axis=None cannot be written");
    const int64_t axis = a->axis < 0 ? a->axis + rank : a->axis;
    const bool keep = a->keepdims || rank == 1; /* ours keep one axis */
    const char *index = put_indices(o, 1, axis, a->mode == MX_PICK_CLIP, a->mode == MX_PICK_WRAP);
    if (o->in_shape[1].ndim == rank - 1)
        index = mx_onnx_put(o, NULL, "Unsqueeze", index, mx_onnx_put_ints(o, MX_ONNX_LIST(axis)));
    const char *y = mx_onnx_put(o, keep ? o->out[0] : NULL, "GatherElements", o->in[0], index);
    mx_onnx_set_int(o, "axis", axis);
    if (!keep)
        mx_onnx_put(o, o->out[0], "Squeeze", y, mx_onnx_put_ints(o, MX_ONNX_LIST(axis)));
    return mx_onnx_done(o);
}

static mx_code write_batch_take(mx_onnx_out *o)
{
    const char *index = put_indices(o, 1, 1, true, false);
    index = mx_onnx_put(o, NULL, "Unsqueeze", index, mx_onnx_put_ints(o, MX_ONNX_LIST(1)));
    const char *y = mx_onnx_put(o, NULL, "GatherElements", o->in[0], index);
    mx_onnx_set_int(o, "axis", 1);
    mx_onnx_put(o, o->out[0], "Squeeze", y, mx_onnx_put_ints(o, MX_ONNX_LIST(1)));
    return mx_onnx_done(o);
}

static mx_code write_boolean_mask(mx_onnx_out *o)
{
    mx_onnx_put(o, o->out[0], "Compress", o->in[0], mx_onnx_put_cast(o, NULL, o->in[1], MX_BOOL));
    mx_onnx_set_int(o, "axis", ((const mx_boolean_mask_attrs *)o->attrs)->axis);
    return mx_onnx_done(o);
}

static mx_code read_compress(mx_onnx_in *n)
{
    if (n->live)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "the shape of its result depends on values, which are not known");
    const bool flat = !mx_onnx_has(n, "axis");
    int64_t axis = flat ? 0 : mx_onnx_int(n, "axis", 0);
    mx_array *x = flat ? mx_reshape(n->in[0], .shape = MX_DIMS(-1)) : n->in[0],
             *mask = mx_onnx_cast(n->in[1], MX_INT32);
    if (!x || !mask || !mx_onnx_axis(n, &axis, x->ndim))
        return mx_error_code();
    if (mask->size < x->shape[axis])
        x = mx_slice_axis(x, .axis = axis, .begin = 0, .end = mask->size);
    x = axis ? mx_swapaxes(x, .dim1 = 0, .dim2 = axis) : x;
    mx_array *y = mx_boolean_mask(x, mask);
    n->out[0] = axis ? mx_swapaxes(y, .dim1 = 0, .dim2 = axis) : y;
    return MX_OK;
}

static mx_code read_nonzero(mx_onnx_in *n)
{
    if (n->live)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "the shape of its result depends on values, which are not known");
    mx_array *x = n->in[0];
    const int64_t size = x->size;
    const int rank = x->ndim;
    double *values = mx_alloc((size_t)size * sizeof *values + 1);
    if (!values || mx_array_read_doubles(x, values, size))
        return mx_free(values, (size_t)size * sizeof *values + 1), mx_error_code();
    int64_t count = 0;
    for (int64_t i = 0; i < size; i++)
        count += values[i] != 0;
    const mx_shape_t shape = {.ndim = 2, .dim = {rank, count}};
    mx_array *y = mx_scope_add(mx_array_new(&shape, MX_INT64, mx_cpu(0)));
    int64_t *to = y && count && rank ? mx_data(y) : NULL, at = 0;
    for (int64_t i = 0; to && i < size; i++) {
        int64_t rest = i;
        if (values[i] == 0)
            continue;
        for (int k = rank - 1; k >= 0; rest /= x->shape[k], k--)
            to[k * count + at] = rest % x->shape[k];
        at++;
    }
    mx_free(values, (size_t)size * sizeof *values + 1);
    n->out[0] = y;
    return MX_OK;
}

const mx_onnx_row mx_onnx_index_rows[] = {
    BOTH("Gather", "take", read_gather, write_take),
    WRITE("Gather", "Embedding", write_embedding),
    READ("GatherElements", read_gather_elements),
    BOTH("GatherND", "gather_nd", read_gather_nd, write_gather_nd),
    BOTH("OneHot", "one_hot", read_one_hot, write_one_hot, .constants = 6),
    WRITE("GatherElements", "pick", write_pick),
    BOTH("Compress", "_contrib_boolean_mask", read_compress, write_boolean_mask),
    READ("NonZero", read_nonzero),
    WRITE(NULL, "batch_take", write_batch_take),
    WRITE(NULL, "_contrib_SparseEmbedding", write_embedding),
    {0}};
