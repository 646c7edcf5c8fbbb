/* Repetition, broadcasting, padding, blocks of pixels.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* ---- repetition ------------------------------------------------------------------------------------------------- */

/* A constant that is computed while the file is read must not need much memory. */
static mx_code check_size(mx_onnx_in *n, const mx_dims *factors)
{
    double elements = (double)n->in[0]->size;
    for (int i = 0; i < factors->n; i++)
        elements *= factors->d[i] > 1 ? (double)factors->d[i] : 1;
    return n->live || elements <= (double)(INT64_C(1) << 28)
               ? MX_OK
               : mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "a constant of %.0f elements is too large", elements);
}

static mx_code read_tile(mx_onnx_in *n)
{
    mx_dims reps;
    if (!mx_onnx_dims(n, 1, &reps) || check_size(n, &reps))
        return mx_error_code();
    n->out[0] = mx_tile(n->in[0], .reps = reps);
    return MX_OK;
}

static mx_code write_tile(mx_onnx_out *o)
{
    const mx_tile_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0), n = a->reps.n > rank ? a->reps.n : rank;
    int64_t reps[MX_MAX_TUPLE], wide[MX_MAX_TUPLE];
    if (rank < 0)
        return mx_error_code();
    for (int i = 0; i < n; i++) {
        reps[i] = i - (n - a->reps.n) >= 0 ? a->reps.d[i - (n - a->reps.n)] : 1;
        wide[i] = i;
    }
    const char *x =
        n > rank ? mx_onnx_put(o, NULL, "Unsqueeze", o->in[0], mx_onnx_put_ints(o, n - rank, wide)) : o->in[0];
    mx_onnx_put(o, o->out[0], "Tile", x, mx_onnx_put_ints(o, n, reps));
    return mx_onnx_done(o);
}

static mx_code read_expand(mx_onnx_in *n)
{
    mx_dims shape;
    mx_array *x = n->in[0];
    if (!mx_onnx_dims(n, 1, &shape) || mx_onnx_rank(n, 0) < 0)
        return mx_error_code();
    mx_dims one = shape;
    for (int i = 0; i < one.n; i++) /* the input's own sizes count once */
        one.d[i] = i + x->ndim >= one.n && x->shape[i + x->ndim - one.n] == shape.d[i] ? 1 : shape.d[i];
    if (check_size(n, &one))
        return mx_error_code();
    if (shape.n > MX_MAX_NDIM)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "more than %d axes", MX_MAX_NDIM);
    const int rank = shape.n > x->ndim ? shape.n : x->ndim;
    mx_dims target = {.n = rank};
    bool grows = false; /* to a size that is not known */
    for (int i = 0; i < rank; i++) {
        const int64_t own = i - (rank - x->ndim) >= 0 ? x->shape[i - (rank - x->ndim)] : 1;
        const int64_t want = i - (rank - shape.n) >= 0 ? shape.d[i - (rank - shape.n)] : 1;
        grows |= mx_onnx_is_unknown(want) && own == 1;
        target.d[i] = want == 1 || own > 1 ? own : mx_onnx_is_unknown(want) ? -1 : want;
        target.d[i] = target.d[i] < 0 ? 0 : target.d[i]; /* 0: as it is */
    }
    if (grows) {
        n->out[0] = mx_add(mx_onnx_variable(n, 0), mx_onnx_zeros(n, &shape, (mx_dtype)x->dtype));
        return MX_OK;
    }
    for (int i = 0; i < rank - n->in[0]->ndim; i++)
        x = mx_expand_dims(x, .axis = 0);
    n->out[0] = mx_broadcast_to(x, .shape = target);
    return MX_OK;
}

/* 0 in our shapes: the size of the input. */
static mx_code write_broadcast_to(mx_onnx_out *o)
{
    const mx_broadcast_to_attrs *a = o->attrs;
    int64_t shape[MX_MAX_TUPLE];
    for (int i = 0; i < a->shape.n; i++)
        shape[i] = a->shape.d[i] ? a->shape.d[i] : 1;
    mx_onnx_put(o, o->out[0], "Expand", o->in[0], mx_onnx_put_ints(o, a->shape.n, shape));
    return mx_onnx_done(o);
}

static mx_code write_broadcast_axis(mx_onnx_out *o)
{
    const mx_broadcast_axis_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    int64_t shape[MX_MAX_NDIM];
    for (int i = 0; i < rank; i++)
        shape[i] = 1;
    for (int i = 0; i < a->axis.n && rank >= 0; i++)
        if (mx_axis(a->axis.d[i], rank) >= 0)
            shape[mx_axis(a->axis.d[i], rank)] = a->size.d[i];
    mx_onnx_put(o, o->out[0], "Expand", o->in[0], mx_onnx_put_ints(o, rank, shape));
    return mx_onnx_done(o);
}

static mx_code write_broadcast_like(mx_onnx_out *o)
{
    const mx_broadcast_like_attrs *a = o->attrs;
    if (a->lhs_axes.n > 0 || a->rhs_axes.n > 0)
        return mx_onnx_refuse(o, "lhs_axes and rhs_axes cannot be written");
    mx_onnx_put(o, o->out[0], "Expand", o->in[0], mx_onnx_put(o, NULL, "Shape", o->in[1]));
    return mx_onnx_done(o);
}

/* Each element, several times: a new axis that is expanded and merged. */
static mx_code write_repeat(mx_onnx_out *o)
{
    const mx_repeat_attrs *a = o->attrs;
    const mx_shape_t *in = &o->in_shape[0], *out = &o->out_shape[0];
    const char *x = o->in[0];
    int64_t wide[MX_MAX_TUPLE], shape[MX_MAX_NDIM];
    if (mx_onnx_out_rank(o, 0) < 0 || out->ndim < 0)
        return mx_onnx_refuse(o, "shapes are not known");
    const bool flat = a->axis == MX_NONE_INT;
    const int rank = flat ? 1 : in->ndim, axis = flat ? 0 : mx_axis(a->axis, rank);
    if (flat)
        x = mx_onnx_put(o, NULL, "Reshape", x, mx_onnx_put_ints(o, MX_ONNX_LIST(-1)));
    for (int i = 0; i <= rank; i++)
        wide[i] = i == axis + 1 ? a->repeats : 1;
    x = mx_onnx_put(o, NULL, "Unsqueeze", x, mx_onnx_put_ints(o, MX_ONNX_LIST(axis + 1)));
    x = mx_onnx_put(o, NULL, "Expand", x, mx_onnx_put_ints(o, rank + 1, wide));
    for (int i = 0; i < rank; i++)
        shape[i] = flat ? -1 : i == axis ? -1 : in->dim[i];
    mx_onnx_put(o, o->out[0], "Reshape", x, mx_onnx_put_ints(o, rank, shape));
    return mx_onnx_done(o);
}

/* ---- padding, blocks, order ---------------------------------------------------------------------------------------- */

static mx_code read_pad(mx_onnx_in *n)
{
    const bool old = n->opset < 11;
    const int rank = mx_onnx_rank(n, 0);
    mx_dims pads, axes = MX_NO_DIMS;
    char mode[64];
    double value = 0;
    mx_onnx_text(n, "mode", mode, "constant");
    if (rank < 0 || !(old ? mx_onnx_ints(n, "pads", &pads) : mx_onnx_dims(n, 1, &pads)) ||
        !(old || !mx_onnx_given(n, 2) || !n->value[2] || mx_onnx_number(n, 2, 0, &value)) ||
        !(old || mx_onnx_dims(n, 3, &axes)))
        return mx_error_code();
    value = old ? mx_onnx_float(n, "value", 0) : value;
    const int count = axes.n >= 0 ? axes.n : rank;
    if (pads.n != 2 * count || rank > MX_MAX_NDIM)
        return mx_onnx_fail(n, MX_ERR_FILE, "%d pads for %d axes", pads.n, count);
    mx_array *x = n->in[0];
    int64_t begin[MX_MAX_NDIM] = {0}, end[MX_MAX_NDIM] = {0};
    for (int i = 0; i < count; i++) {
        int64_t axis = axes.n >= 0 ? axes.d[i] : i;
        if (!mx_onnx_axis(n, &axis, rank))
            return mx_error_code();
        begin[axis] = pads.d[i];
        end[axis] = pads.d[i + count];
    }
    for (int i = 0; i < rank && x; i++) { /* axis by axis: any number of axes, negative pads, all modes */
        const int64_t size = x->shape[i];
        if (begin[i] < 0 || end[i] < 0)
            x = mx_slice_axis(x, .axis = i, .begin = begin[i] < 0 ? -begin[i] : 0,
                              .end = end[i] < 0 ? end[i] : MX_NONE_INT);
        const int64_t a = begin[i] > 0 ? begin[i] : 0, b = end[i] > 0 ? end[i] : 0;
        if (!a && !b)
            continue;
        mx_array *parts[3];
        int k = 0;
        if (!strcmp(mode, "constant")) {
            mx_array *edge = mx_slice_axis(x, .axis = i, .begin = 0, .end = 1);
            edge = mx_plus_scalar(mx_zeros_like(edge), .scalar = value);
            if (!old && mx_onnx_given(n, 2) && !n->value[2])
                edge = mx_add(edge, n->in[2]); /* computed, or an input */
            if (size == 0)
                return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "padding of an empty axis");
            if (a)
                parts[k++] = mx_repeat(edge, .repeats = a, .axis = i);
            parts[k++] = x;
            if (b)
                parts[k++] = mx_repeat(edge, .repeats = b, .axis = i);
        } else if (!strcmp(mode, "edge")) {
            if (a)
                parts[k++] = mx_repeat(mx_slice_axis(x, .axis = i, .begin = 0, .end = 1), .repeats = a, .axis = i);
            parts[k++] = x;
            if (b)
                parts[k++] =
                    mx_repeat(mx_slice_axis(x, .axis = i, .begin = -1, .end = MX_NONE_INT), .repeats = b, .axis = i);
        } else { /* reflect, wrap */
            const bool wrap = *mode == 'w';
            if (size < 0 || a >= size + wrap || b >= size + wrap)
                return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "more padding than the axis has elements");
            if (a)
                parts[k++] =
                    wrap ? mx_slice_axis(x, .axis = i, .begin = size - a, .end = size)
                         : mx_reverse(mx_slice_axis(x, .axis = i, .begin = 1, .end = a + 1), .axis = MX_DIMS(i));
            parts[k++] = x;
            if (b)
                parts[k++] = wrap ? mx_slice_axis(x, .axis = i, .begin = 0, .end = b)
                                  : mx_reverse(mx_slice_axis(x, .axis = i, .begin = size - 1 - b, .end = size - 1),
                                               .axis = MX_DIMS(i));
        }
        x = mx_concat((mx_arrays){parts, k}, .num_args = k, .dim = i);
    }
    n->out[0] = x == n->in[0] ? mx_copy(x) : x;
    return MX_OK;
}

static mx_code write_pad(mx_onnx_out *o)
{
    static const char *const modes[] = {"constant", "edge", "reflect"};
    const mx_pad_attrs *a = o->attrs;
    int64_t pads[MX_MAX_TUPLE];
    const int n = a->pad_width.n / 2;
    for (int i = 0; i < n; i++) {
        pads[i] = a->pad_width.d[2 * i];
        pads[i + n] = a->pad_width.d[2 * i + 1];
    }
    const char *value = a->mode == MX_PAD_CONSTANT ? mx_onnx_put_number(o, a->constant_value, o->in_type[0]) : NULL;
    mx_onnx_put(o, o->out[0], "Pad", o->in[0], mx_onnx_put_ints(o, 2 * n, pads), value);
    mx_onnx_set_text(o, "mode", modes[a->mode]);
    return mx_onnx_done(o);
}

/* The shape of images; the batch may be open. */
static bool channels_of(mx_onnx_in *n, mx_dims *shape)
{
    const int rank = mx_onnx_rank(n, 0);
    *shape = (mx_dims){.n = rank};
    for (int i = 0; i < rank; i++)
        shape->d[i] = n->in[0]->shape[i];
    return rank == 4 && shape->d[1] >= 0 && shape->d[2] >= 0 && shape->d[3] >= 0;
}

/* Channels of blocks: position in the block first (DCR), or the channel (CRD). */
static mx_code read_blocks(mx_onnx_in *n)
{
    char mode[64];
    mx_dims s;
    const int64_t b = mx_onnx_int(n, "blocksize", 1);
    const bool to_depth = n->op[0] == 'S', channel_first = !strcmp(mx_onnx_text(n, "mode", mode, "DCR"), "CRD");
    if (!channel_first) {
        n->out[0] =
            to_depth ? mx_space_to_depth(n->in[0], .block_size = b) : mx_depth_to_space(n->in[0], .block_size = b);
        return MX_OK;
    }
    if (!channels_of(n, &s) || b < 1 || b > 1 << 20)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "its shape or blocksize is not valid");
    if (to_depth) {
        mx_array *x = mx_reshape(n->in[0], .shape = MX_DIMS(0, s.d[1], s.d[2] / b, b, s.d[3] / b, b));
        x = mx_transpose(x, .axes = MX_DIMS(0, 1, 3, 5, 2, 4));
        n->out[0] = mx_reshape(x, .shape = MX_DIMS(0, s.d[1] * b * b, s.d[2] / b, s.d[3] / b));
        return MX_OK;
    }
    mx_array *x = mx_reshape(n->in[0], .shape = MX_DIMS(0, s.d[1] / (b * b), b, b, s.d[2], s.d[3]));
    x = mx_transpose(x, .axes = MX_DIMS(0, 1, 4, 2, 5, 3));
    n->out[0] = mx_reshape(x, .shape = MX_DIMS(0, s.d[1] / (b * b), s.d[2] * b, s.d[3] * b));
    return MX_OK;
}

static mx_code write_blocks(mx_onnx_out *o)
{
    const mx_depth_space_attrs *a = o->attrs;
    mx_onnx_put(o, o->out[0], o->row->onnx, o->in[0]);
    mx_onnx_set_int(o, "blocksize", a->block_size);
    return mx_onnx_done(o);
}

/* Zeros before and after, as many as are missing. */
static mx_array *centred(mx_array *x, int64_t axis, int64_t size, int64_t wanted)
{
    if (wanted <= size) {
        const int64_t begin = (size - wanted) / 2;
        return wanted == size ? x : mx_slice_axis(x, .axis = axis, .begin = begin, .end = begin + wanted);
    }
    const int64_t before = (wanted - size) / 2, after = wanted - size - before;
    mx_array *zero = mx_zeros_like(mx_slice_axis(x, .axis = axis, .begin = 0, .end = 1)), *parts[3];
    int n = 0;
    if (before)
        parts[n++] = mx_repeat(zero, .repeats = before, .axis = axis);
    parts[n++] = x;
    if (after)
        parts[n++] = mx_repeat(zero, .repeats = after, .axis = axis);
    return mx_concat((mx_arrays){parts, n}, .num_args = n, .dim = axis);
}

static mx_code read_center(mx_onnx_in *n)
{
    mx_dims wanted, axes;
    const int rank = mx_onnx_rank(n, 0);
    if (rank < 0 || !mx_onnx_dims(n, 1, &wanted) || !mx_onnx_ints(n, "axes", &axes))
        return mx_error_code();
    if (wanted.n != (axes.n < 0 ? rank : axes.n))
        return mx_onnx_fail(n, MX_ERR_FILE, "the shape has %d numbers, wanted one per axis", wanted.n);
    mx_array *x = n->in[0];
    for (int i = 0; x && i < wanted.n; i++) {
        int64_t axis = axes.n < 0 ? i : axes.d[i];
        if (!mx_onnx_axis(n, &axis, rank))
            return mx_error_code();
        const int64_t size = x->shape[axis];
        if (size < 1 || wanted.d[i] < 1 || wanted.d[i] > (1 << 26))
            return mx_onnx_fail(n, MX_ERR_SHAPE, "axis %d has the size %lld, wanted %lld", (int)axis, (long long)size,
                                (long long)wanted.d[i]);
        x = centred(x, axis, size, wanted.d[i]);
    }
    n->out[0] = x == n->in[0] ? mx_copy(x) : x;
    return MX_OK;
}

const mx_onnx_row mx_onnx_repeat_rows[] = {
    BOTH("Tile", "tile", read_tile, write_tile, .constants = 2),
    BOTH("Expand", "broadcast_to", read_expand, write_broadcast_to, .constants = 2),
    WRITE(NULL, "broadcast_axis", write_broadcast_axis),
    WRITE(NULL, "broadcast_like", write_broadcast_like),
    WRITE(NULL, "repeat", write_repeat),
    BOTH("Pad", "Pad", read_pad, write_pad, .constants = 14),
    BOTH("DepthToSpace", "depth_to_space", read_blocks, write_blocks),
    BOTH("SpaceToDepth", "space_to_depth", read_blocks, write_blocks),
    READ("CenterCropPad", read_center, .constants = 2),
    {0}};
