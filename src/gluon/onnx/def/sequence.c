/* Sequences of different lengths in a batch.  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

static mx_code read_reverse_sequence(mx_onnx_in *n)
{
    const int64_t time = mx_onnx_int(n, "time_axis", 0), batch = mx_onnx_int(n, "batch_axis", 1);
    mx_array *x = time == 0 && batch == 1 ? n->in[0] : mx_swapaxes(n->in[0], .dim1 = 0, .dim2 = 1);
    if (time > 1 || batch > 1 || time == batch)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "time and batch must be the first two axes");
    mx_array *y =
        mx_sequence_reverse(x, mx_onnx_cast(n->in[1], (mx_dtype)n->in[0]->dtype), .use_sequence_length = true);
    n->out[0] = x == n->in[0] ? y : mx_swapaxes(y, .dim1 = 0, .dim2 = 1);
    return MX_OK;
}

static mx_code write_sequence_reverse(mx_onnx_out *o)
{
    const mx_sequence_attrs *a = o->attrs;
    if (!a->use_sequence_length) {
        mx_onnx_put_flipped(o, o->out[0], o->in[0], 0);
        return mx_onnx_done(o);
    }
    mx_onnx_put(o, o->out[0], "ReverseSequence", o->in[0], mx_onnx_put_cast(o, NULL, o->in[1], MX_INT64));
    return mx_onnx_done(o);
}

/* Positions along the axis are compared with the lengths. */
static mx_code write_sequence_mask(mx_onnx_out *o)
{
    const mx_sequence_mask_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    if (!a->use_sequence_length || rank < 2)
        return mx_onnx_put(o, o->out[0], "Identity", o->in[0]), mx_onnx_done(o);
    const int64_t axis = a->axis;
    int64_t time[MX_MAX_NDIM], batch[MX_MAX_NDIM];
    for (int i = 0; i < rank; i++) {
        time[i] = i == axis ? -1 : 1;
        batch[i] = i == 1 - axis ? -1 : 1;
    }
    const char *shape = mx_onnx_put(o, NULL, "Shape", o->in[0]);
    const char *size = mx_onnx_put(o, NULL, "Gather", shape, mx_onnx_put_number(o, (double)axis, MX_INT64));
    const char *range =
        mx_onnx_put(o, NULL, "Range", mx_onnx_put_number(o, 0, MX_INT64), size, mx_onnx_put_number(o, 1, MX_INT64));
    range = mx_onnx_put(o, NULL, "Reshape", range, mx_onnx_put_ints(o, rank, time));
    const char *lengths = mx_onnx_put(o, NULL, "Reshape", mx_onnx_put_cast(o, NULL, o->in[1], MX_INT64),
                                      mx_onnx_put_ints(o, rank, batch));
    const char *inside = mx_onnx_put(o, NULL, "Less", range, lengths);
    mx_onnx_put(o, o->out[0], "Where", inside, o->in[0], mx_onnx_put_number(o, a->value, o->in_type[0]));
    return mx_onnx_done(o);
}

/* The step at each length - 1, or the last one. */
static mx_code write_sequence_last(mx_onnx_out *o)
{
    const mx_sequence_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    int64_t order[MX_MAX_NDIM];
    if (rank < 0)
        return mx_error_code();
    if (!a->use_sequence_length) {
        mx_onnx_put_choice(o, o->out[0], o->in[0], mx_onnx_put_number(o, -1, MX_INT64), a->axis);
        return mx_onnx_done(o);
    }
    for (int i = 0; i < rank; i++)
        order[i] = i < 2 ? (a->axis ? i : 1 - i) : i;
    const char *x = mx_onnx_put_ordered(o, NULL, o->in[0], rank, order); /* (batch, steps, ...) */
    const char *at = mx_onnx_put_cast(o, NULL, o->in[1], MX_INT64);
    at = mx_onnx_put(o, NULL, "Sub", at, mx_onnx_put_number(o, 1, MX_INT64));
    mx_onnx_put(o, o->out[0], "GatherND", x, mx_onnx_put_shaped(o, NULL, at, MX_ONNX_LIST(-1, 1)));
    mx_onnx_set_int(o, "batch_dims", 1);
    return mx_onnx_done(o);
}

const mx_onnx_row mx_onnx_sequence[] = {
    BOTH("ReverseSequence", "SequenceReverse", read_reverse_sequence, write_sequence_reverse),
    WRITE(NULL, "SequenceMask", write_sequence_mask),
    WRITE(NULL, "SequenceLast", write_sequence_last),
    {0}};
