/* Repeated elements: tile and repeat.
 *
 * A repetition is a move with a stride of 0; its gradient sums over the repetitions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/movement.h"
#include "op/walk.h"

#define TILE_ATTRS(X) X(DIMS, reps, REQUIRED, "", "number of repetitions per axis, aligned from the right")
MX_ATTRS(tile, TILE_ATTRS)

#define REPEAT_ATTRS(X) \
    X(INT, repeats, REQUIRED, "0..", "number of repetitions of each element") \
    X(INT, axis, "None", "", "the axis; None: the flattened array")
MX_ATTRS(repeat, REPEAT_ATTRS)

/* ---- tile --------------------------------------------------------------------------------------------------- */

/* Sizes and repetitions per axis of the result, both padded with ones on the left; false if there are too many. */
static bool align_tile(const mx_dims *reps, const mx_shape_t *in, mx_shape_t *size, mx_shape_t *times)
{
    const int ndim = reps->n > in->ndim ? reps->n : in->ndim;
    if (ndim > MX_MAX_NDIM)
        return false;
    size->ndim = times->ndim = ndim;
    for (int i = 0; i < ndim; i++) {
        const int k = i - (ndim - in->ndim), r = i - (ndim - reps->n);
        size->dim[i] = k < 0 ? 1 : in->dim[k];
        times->dim[i] = r < 0 ? 1 : reps->d[r];
        if (times->dim[i] < 0)
            return false;
    }
    return true;
}

static mx_code infer_tile(mx_infer *infer)
{
    const mx_dims *reps = &((const mx_tile_attrs *)infer->attrs)->reps;
    mx_shape_t size, times;
    char text[MX_SHAPE_TEXT], shape[MX_SHAPE_TEXT];
    if (!mx_shape_known(&infer->in[0]))
        return MX_OK;
    bool fits = align_tile(reps, &infer->in[0], &size, &times);
    for (int i = 0; fits && i < size.ndim; i++)
        fits = !__builtin_mul_overflow(size.dim[i], times.dim[i], &size.dim[i]);
    if (!fits)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "reps %s does not fit data of shape %s",
                          mx_dims_text(reps, text), mx_shape_text(&infer->in[0], shape));
    return mx_infer_out(infer, 0, &size);
}

static bool plan_tile(const mx_kernel_call *call, int i, mx_move *move)
{
    mx_shape_t in = {.ndim = call->in[0]->ndim}, size, times;
    for (int k = 0; k < in.ndim; k++)
        in.dim[k] = call->in[0]->shape[k];
    if (i || !align_tile(&((const mx_tile_attrs *)call->attrs)->reps, &in, &size, &times))
        return false;
    int64_t to = 1, from = 1;
    move->ndim = 2 * size.ndim;
    for (int k = size.ndim - 1; k >= 0; k--) { /* every axis becomes (times, size) */
        move->dim[2 * k] = times.dim[k], move->dim[2 * k + 1] = size.dim[k];
        move->to[2 * k] = to * size.dim[k], move->to[2 * k + 1] = to;
        move->from[2 * k] = 0, move->from[2 * k + 1] = from;
        to *= size.dim[k] * times.dim[k];
        from *= size.dim[k];
    }
    return true;
}

/* Axis by axis: g, seen as (before, times, size * after), is summed over `times`. */
static mx_code grad_tile(mx_grad *grad)
{
    mx_shape_t size, times;
    mx_array *g = grad->ograd[0];
    align_tile(&((const mx_tile_attrs *)grad->attrs)->reps, &grad->in_shape[0], &size, &times);
    mx_shape_t now = size;
    for (int i = 0; i < size.ndim; i++)
        now.dim[i] *= times.dim[i];
    for (int i = 0; i < size.ndim; i++) {
        const mx_split split = mx_split_at(&now, i);
        g = mx_g_fold(g, split.before, times.dim[i], size.dim[i] * split.after);
        now.dim[i] = size.dim[i];
    }
    return mx_give(grad, 0, mx_g_reshape(g, &grad->in_shape[0]));
}

static void ref_tile(const mx_reference_call *call)
{
    const mx_shape_t *in = &call->in_shape[0], *out = &call->out_shape[0];
    int64_t at[MX_MAX_NDIM], from[MX_MAX_NDIM];
    for (int64_t i = 0; i < mx_shape_size(out); i++) {
        mx_position(out, i, at);
        for (int k = 0; k < in->ndim; k++)
            from[k] = at[out->ndim - in->ndim + k] % in->dim[k];
        call->out[0][i] = call->in[0][mx_element(in, from)];
    }
}

/* ---- repeat ------------------------------------------------------------------------------------------------- */

static mx_code infer_repeat(mx_infer *infer)
{
    const mx_repeat_attrs *attrs = infer->attrs;
    const mx_shape_t *in = &infer->in[0];
    if (!mx_shape_known(in))
        return MX_OK;
    mx_shape_t out = *in;
    int axis = 0;
    if (attrs->axis == MX_NONE_INT)
        out = (mx_shape_t){1, {mx_shape_size(in)}};
    else if ((axis = mx_axis(attrs->axis, in->ndim)) < 0)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "axis %lld does not exist, data has %d axes",
                          (long long)attrs->axis, in->ndim);
    if (__builtin_mul_overflow(out.dim[axis], attrs->repeats, &out.dim[axis]))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "repeats %lld is too large", (long long)attrs->repeats);
    return mx_infer_out(infer, 0, &out);
}

/* Data as (before, after): each of the `before` blocks of `after` elements is repeated. */
static void repeat_blocks(const mx_repeat_attrs *attrs, const mx_shape_t *in, int64_t *before, int64_t *after)
{
    *before = mx_shape_size(in), *after = 1;
    if (attrs->axis == MX_NONE_INT)
        return;
    const mx_split split = mx_split_at(in, mx_axis(attrs->axis, in->ndim));
    *before = split.before * split.size, *after = split.after;
}

static bool plan_repeat(const mx_kernel_call *call, int i, mx_move *move)
{
    const mx_repeat_attrs *attrs = call->attrs;
    mx_shape_t in = {.ndim = call->in[0]->ndim};
    for (int k = 0; k < in.ndim; k++)
        in.dim[k] = call->in[0]->shape[k];
    int64_t before, after;
    repeat_blocks(attrs, &in, &before, &after);
    move->ndim = 3;
    move->dim[0] = before, move->dim[1] = attrs->repeats, move->dim[2] = after;
    move->to[0] = attrs->repeats * after, move->to[1] = after, move->to[2] = 1;
    move->from[0] = after, move->from[1] = 0, move->from[2] = 1;
    return i == 0;
}

static mx_code grad_repeat(mx_grad *grad)
{
    const mx_repeat_attrs *attrs = grad->attrs;
    int64_t before, after;
    repeat_blocks(attrs, &grad->in_shape[0], &before, &after);
    return mx_give(grad, 0, mx_g_reshape(mx_g_fold(grad->ograd[0], before, attrs->repeats, after), &grad->in_shape[0]));
}

static void ref_repeat(const mx_reference_call *call)
{
    const mx_repeat_attrs *attrs = call->attrs;
    int64_t before, after;
    repeat_blocks(attrs, &call->in_shape[0], &before, &after);
    double *to = call->out[0];
    for (int64_t b = 0; b < before; b++)
        for (int64_t r = 0; r < attrs->repeats; r++)
            for (int64_t a = 0; a < after; a++)
                *to++ = call->in[0][b * after + a];
}

// clang-format off
mx_op mx_family_repeat[] = {
    {.name = "tile", .input_named = true, .methods = "tile", .aliases = "_npi_tile", .doc = "repeats an array along its axes; [a, b] twice is [a, b, a, b]",
     .inputs = "data",
     .schema = &tile_schema, .infer_shape = infer_tile,
     .gradient = grad_tile, .reference = ref_tile, .movement = &(const mx_movement){plan_tile},
     .samples = (const mx_sample[]){{"2,3", "reps=(2, 3)", 0, 0, NULL}, {"3", "reps=(2, 2)", 0, 0, NULL},
         {"2,3", "reps=(2,)", 0, 0, NULL}, {"2,1,3", "reps=(1, 4, 1)", 0, 0, NULL},
         {"2,3", "reps=()", 0, 0, NULL}, {0}}},
    {.name = "repeat", .input_named = true, .methods = "repeat", .aliases = "_np_repeat", .doc = "repeats every element; [a, b] twice is [a, a, b, b]", .inputs = "data",
     .schema = &repeat_schema, .infer_shape = infer_repeat,
     .gradient = grad_repeat, .reference = ref_repeat, .movement = &(const mx_movement){plan_repeat},
     .samples = (const mx_sample[]){{"2,3", "repeats=2", 0, 0, NULL}, {"2,3", "repeats=3, axis=1", 0, 0, NULL},
         {"2,3,4", "repeats=2, axis=0", 0, 0, NULL},
         {"2,3,2", "repeats=2, axis=-2", 0, 0, NULL}, {0}}},
    {0},
};
// clang-format on
