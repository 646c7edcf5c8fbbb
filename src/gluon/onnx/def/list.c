/* Sequences of arrays: lists while a file is read, so positions and numbers of parts must be constant.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "exec/list.h"
#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* The node makes a sequence of n arrays, to be filled; it belongs to the scope. */
static mx_array **make(mx_onnx_in *n, int64_t count)
{
    mx_array **list = mx_list_new(count + 1);
    n->made[0] = (mx_arrays){list, count};
    return list;
}

static bool is_list(mx_onnx_in *n)
{
    return n->lists[0].v || !mx_onnx_fail(n, MX_ERR_FILE, "its input 0 is not a sequence");
}

/* A position in a sequence of n elements; missing: fallback.  -1 with an error. */
static int64_t position(mx_onnx_in *n, int input, int64_t count, int64_t fallback)
{
    double number;
    if (!mx_onnx_number(n, input, (double)fallback, &number))
        return -1;
    const int64_t at = (int64_t)(number < 0 ? number + (double)count : number);
    return at >= 0 && at < count + (fallback == count)
               ? at
               : (mx_onnx_fail(n, MX_ERR_FILE, "position %.0f of a sequence of %lld arrays", number, (long long)count),
                  -1);
}

static mx_code read_construct(mx_onnx_in *n)
{
    mx_array **list = make(n, n->n_in);
    for (int i = 0; list && i < n->n_in; i++)
        list[i] = n->in[i];
    return list ? MX_OK : mx_error_code();
}

static mx_code read_at(mx_onnx_in *n)
{
    const int64_t at = is_list(n) ? position(n, 1, n->lists[0].n, -1) : -1;
    n->out[0] = at < 0 ? NULL : n->lists[0].v[at];
    return at < 0 ? mx_error_code() : MX_OK;
}

static mx_code read_length(mx_onnx_in *n)
{
    const int64_t count = n->lists[0].n;
    n->out[0] = is_list(n) ? mx_array_from(MX_SCALAR_DIMS, MX_INT64, &count) : NULL;
    return MX_OK;
}

static mx_code read_insert(mx_onnx_in *n)
{
    const mx_arrays old = n->lists[0];
    const int64_t at = is_list(n) ? position(n, 2, old.n, old.n) : -1;
    if (at < 0 || !mx_onnx_given(n, 1))
        return mx_has_error() ? mx_error_code() : mx_onnx_fail(n, MX_ERR_FILE, "its input 1 is missing");
    mx_array **list = make(n, old.n + 1);
    for (int64_t i = 0; list && i <= old.n; i++)
        list[i] = i < at ? old.v[i] : i == at ? n->in[1] : old.v[i - 1];
    return list ? MX_OK : mx_error_code();
}

static mx_code read_erase(mx_onnx_in *n)
{
    const mx_arrays old = n->lists[0];
    const int64_t at = is_list(n) ? position(n, 1, old.n, old.n - 1) : -1;
    if (at < 0)
        return mx_error_code();
    mx_array **list = make(n, old.n - 1);
    for (int64_t i = 0; list && i < old.n - 1; i++)
        list[i] = old.v[i + (i >= at)];
    return list ? MX_OK : mx_error_code();
}

static mx_code read_join(mx_onnx_in *n)
{
    const mx_arrays list = n->lists[0];
    const int64_t axis = mx_onnx_int(n, "axis", 0);
    if (!is_list(n) || list.n < 1)
        return mx_has_error() ? mx_error_code() : mx_onnx_fail(n, MX_ERR_FILE, "its sequence has no arrays");
    n->out[0] = mx_onnx_int(n, "new_axis", 0) ? mx_stack(list, .axis = axis, .num_args = list.n)
                                              : mx_concat(list, .num_args = list.n, .dim = axis);
    return MX_OK;
}

/* Sizes of the parts along an axis: one number for all, a list, or 1. */
static mx_code read_split(mx_onnx_in *n)
{
    mx_dims sizes;
    int64_t axis = mx_onnx_int(n, "axis", 0), at = 0;
    const int rank = mx_onnx_rank(n, 0);
    if (rank < 1 || !mx_onnx_axis(n, &axis, rank) || !mx_onnx_dims(n, 1, &sizes))
        return mx_error_code();
    const int64_t whole = n->in[0]->shape[axis];
    const bool equal = sizes.n < 0 || n->in[1]->ndim == 0, keep = mx_onnx_int(n, "keepdims", 1) || sizes.n >= 0;
    const int64_t size = sizes.n < 0 ? 1 : sizes.n ? sizes.d[0] : 0;
    if (whole < 0 || (equal && (size < 1 || whole / size > 65536)))
        return mx_onnx_fail(n, MX_ERR_SHAPE, "parts of %lld of an axis of the size %lld", (long long)size,
                            (long long)whole);
    const int64_t count = equal ? (whole + size - 1) / size : sizes.n;
    mx_array **list = make(n, count);
    for (int64_t i = 0; list && i < count; i++) {
        const int64_t end = at + (equal ? size : sizes.d[i]);
        if (end < at || (!equal && end > whole))
            return mx_onnx_fail(n, MX_ERR_FILE, "its parts are longer than the axis");
        list[i] = mx_slice_axis(n->in[0], .axis = axis, .begin = at, .end = end < whole ? end : whole);
        list[i] = keep ? list[i] : mx_squeeze(list[i], .axis = MX_DIMS(axis));
        at = end;
        if (!list[i])
            return mx_error_code();
    }
    return list ? MX_OK : mx_error_code();
}

const mx_onnx_row mx_onnx_list_rows[] = {
    READ("SequenceConstruct", read_construct, .sequences = true),
    READ("SequenceEmpty", read_construct, .sequences = true),
    READ("SequenceAt", read_at, .constants = 2, .sequences = true),
    READ("SequenceLength", read_length, .sequences = true),
    READ("SequenceInsert", read_insert, .constants = 4, .sequences = true),
    READ("SequenceErase", read_erase, .constants = 2, .sequences = true),
    READ("ConcatFromSequence", read_join, .sequences = true),
    READ("SplitToSequence", read_split, .constants = 2, .sequences = true),
    {0}};
