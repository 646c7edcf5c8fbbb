/* Squares of 2 x 2 pixels as channels: plans use them for convolutions with stride 2 over few channels, such as those of
 * an image (pass/channels_last.c).
 *
 *     y(i) = sum over k of w(k) x(2 i + k - pad)                 a window of 7 x 7, stride 2, 3 channels
 *          = sum over a of w'(a) x'(i + a),     k = 2 a + phase  a window of 4 x 4, stride 1, 12 channels
 *
 *     _pixel_blocks        data (N, C, H, W) -> (N, J, L, channels)      channel (2 r + s) C + c of block (j, l) is
 *                                                                        data(n, c, 2 j + r - pad, 2 l + s - pad)
 *     _from_pixel_blocks   the inverse
 *
 * Pixels outside the image, and channels past 4 C, are zeros.  Weights are treated like data, without a pad.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/movement.h"
#include "op/walk.h"

#define PIXEL_BLOCKS_ATTRS(X) \
    X(DIMS, size, REQUIRED, "", "number of block rows and block columns") \
    X(DIMS, pad, "(0, 0)", "", "zeros above the first row and before the first column") \
    X(INT, channels, REQUIRED, "4..65536", "channels of the result, at least four times those of data")
MX_ATTRS(pixel_blocks, PIXEL_BLOCKS_ATTRS)
#define FROM_PIXEL_BLOCKS_ATTRS(X) \
    X(DIMS, shape, REQUIRED, "", "shape of the result: (N, C, H, W)") \
    X(DIMS, pad, "(0, 0)", "", "zeros above the first row and before the first column")
MX_ATTRS(from_pixel_blocks, FROM_PIXEL_BLOCKS_ATTRS)

#define MOST ((int64_t)1 << 31) /* rows, columns, pads */

static bool are(const mx_dims *dims, int n, int64_t least)
{
    for (int i = 0; i < dims->n; i++)
        if (dims->d[i] < least || dims->d[i] > MOST)
            return false;
    return dims->n == n;
}

static mx_code infer_blocks(mx_infer *infer)
{
    const mx_pixel_blocks_attrs *a = infer->attrs;
    const mx_shape_t *in = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (!are(&a->size, 2, 1) || !are(&a->pad, 2, 0))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE,
                          "size must be two positive numbers and pad two non-negative numbers");
    if (!mx_shape_known(in))
        return MX_OK;
    if (in->ndim != 4 || in->dim[1] > a->channels / 4)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (N, C, H, W) with at most %lld channels",
                          mx_shape_text(in, text), (long long)a->channels / 4);
    const mx_shape_t out = {4, {in->dim[0], a->size.d[0], a->size.d[1], a->channels}};
    return mx_infer_out(infer, 0, &out);
}

static mx_code infer_back(mx_infer *infer)
{
    const mx_from_pixel_blocks_attrs *a = infer->attrs;
    const mx_shape_t *in = &infer->in[0];
    char text[MX_SHAPE_TEXT], wanted[MX_SHAPE_TEXT];
    if (!are(&a->shape, 4, 0) || !are(&a->pad, 2, 0))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "shape must be four non-negative numbers and pad two");
    if (!mx_shape_known(in))
        return MX_OK;
    const mx_shape_t out = mx_shape_of_dims(&a->shape);
    bool fits = in->ndim == 4 && in->dim[0] == out.dim[0] && in->dim[3] / 4 >= out.dim[1];
    for (int i = 0; fits && i < 2; i++)
        fits = in->dim[1 + i] >= (a->pad.d[i] + out.dim[2 + i] + 1) / 2;
    if (!fits)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, which does not hold the blocks of %s",
                          mx_shape_text(in, text), mx_shape_text(&out, wanted));
    return mx_infer_out(infer, 0, &out);
}

/* The move of one phase, 0..3: axes N, C, rows, columns; `wide` and `deep` get the strides and offsets of both sides. */
static void plan_phase(const mx_array *plain, const mx_array *blocks, const mx_dims *pad, int phase, mx_move *move,
                       int64_t *wide, int64_t *wide_offset, int64_t *deep, int64_t *deep_offset)
{
    const int64_t channels = plain->shape[1], all = blocks->shape[3];
    int64_t own[4];
    mx_strides(plain, own);
    move->ndim = 4;
    move->dim[0] = plain->shape[0], move->dim[1] = channels;
    wide[0] = own[0], wide[1] = own[1];
    deep[0] = blocks->shape[1] * blocks->shape[2] * all, deep[1] = 1;
    *wide_offset = 0, *deep_offset = phase * channels;
    for (int i = 0; i < 2; i++) {
        const int64_t odd = i ? phase % 2 : phase / 2, before = pad->d[i] - odd, size = plain->shape[2 + i];
        const int64_t first = before > 0 ? (before + 1) / 2 : 0;             /* blocks that begin inside */
        const int64_t end = size + before > 0 ? (size + before + 1) / 2 : 0; /* one past the last such block */
        const int64_t last = end < blocks->shape[1 + i] ? end : blocks->shape[1 + i];
        move->dim[2 + i] = last > first ? last - first : 0;
        wide[2 + i] = 2 * own[2 + i], deep[2 + i] = i ? all : blocks->shape[2] * all;
        *wide_offset += (2 * first - before) * own[2 + i], *deep_offset += first * deep[2 + i];
    }
}

static bool plan_blocks(const mx_kernel_call *call, int i, mx_move *move)
{
    if (i == 0)
        return mx_move_fill(move, call->out[0], 0);
    plan_phase(call->in[0], call->out[0], &((const mx_pixel_blocks_attrs *)call->attrs)->pad, i - 1, move, move->from,
               &move->from_offset, move->to, &move->to_offset);
    return i < 5;
}

static bool plan_back(const mx_kernel_call *call, int i, mx_move *move)
{
    plan_phase(call->out[0], call->in[0], &((const mx_from_pixel_blocks_attrs *)call->attrs)->pad, i, move, move->to,
               &move->to_offset, move->from, &move->from_offset);
    return i < 4;
}

/* f(element of the NCHW array, element of the blocks) for every pixel that has a block */
static void reference(const mx_reference_call *call, const mx_dims *pad, bool back)
{
    const mx_shape_t *plain = back ? &call->out_shape[0] : &call->in_shape[0],
                     *blocks = back ? &call->in_shape[0] : &call->out_shape[0];
    int64_t at[4];
    for (int64_t i = 0; !back && i < mx_shape_size(blocks); i++)
        call->out[0][i] = 0;
    for (int64_t i = 0; i < mx_shape_size(plain); i++) {
        mx_position(plain, i, at);
        const int64_t y = at[2] + pad->d[0], x = at[3] + pad->d[1],
                      channel = (y % 2 * 2 + x % 2) * plain->dim[1] + at[1];
        if (y / 2 >= blocks->dim[1] || x / 2 >= blocks->dim[2])
            continue;
        const int64_t k = mx_element(blocks, (int64_t[]){at[0], y / 2, x / 2, channel});
        if (back)
            call->out[0][i] = call->in[0][k];
        else
            call->out[0][k] = call->in[0][i];
    }
}
static void ref_blocks(const mx_reference_call *call)
{
    reference(call, &((const mx_pixel_blocks_attrs *)call->attrs)->pad, false);
}
static void ref_back(const mx_reference_call *call)
{
    reference(call, &((const mx_from_pixel_blocks_attrs *)call->attrs)->pad, true);
}

// clang-format off
mx_op mx_family_pixel_blocks[] = {
    {.name = "_pixel_blocks", .doc = "converts squares of 2 x 2 pixels to channels, which are the last axis", .inputs = "data",
     .schema = &pixel_blocks_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .infer_shape = infer_blocks,
     .reference = ref_blocks, .movement = &(const mx_movement){plan_blocks},
     .samples = (const mx_sample[]){{"2,3,6,8", "size=(3, 4), channels=12", 0, 0, NULL},
         {"2,3,7,9", "size=(6, 7), pad=(3, 3), channels=16", 0, 0, NULL},
         {"1,1,5,4", "size=(2, 4), pad=(2, 1), channels=4", 0, 0, NULL},
         {"3,2,1,2", "size=(1, 2), pad=(0, 2), channels=9", 0, 0, NULL},
         {"2,3,11,13", "size=(4, 9), pad=(1, 5), channels=16", 0, 0, NULL},
         {"0,3,4,4", "size=(2, 2), channels=12", 0, 0, NULL}, {0}}},
    {.name = "_from_pixel_blocks", .doc = "converts channels back to squares of 2 x 2 pixels", .inputs = "data",
     .schema = &from_pixel_blocks_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .infer_shape = infer_back,
     .reference = ref_back, .movement = &(const mx_movement){plan_back},
     .samples = (const mx_sample[]){{"2,3,4,12", "shape=(2, 3, 6, 8)", 0, 0, NULL},
         {"5,4,4,16", "shape=(5, 3, 7, 7)", 0, 0, NULL},
         {"2,4,3,8", "shape=(2, 2, 4, 3), pad=(3, 2)", 0, 0, NULL},
         {"1,2,2,13", "shape=(1, 3, 1, 3), pad=(1, 0)", 0, 0, NULL}, {0}}},
    {0},
};
// clang-format on
