/* Images (H, W, C) or (N, H, W, C) whose pixels move but do not change: crop, flips, borders.
 *
 * Crops and flips are movements (movement.h).  A random flip decides for each image of a batch separately.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/formula/image.h"
#include "op/formula/movement.h"
#include "op/walk.h"

#define WIDEST ((int64_t)1 << 24) /* a border */

#define CROP_ATTRS(X) \
    X(INT, x, REQUIRED, "0..", "first column") \
    X(INT, y, REQUIRED, "0..", "first row") \
    X(INT, width, REQUIRED, "1..", "number of columns") \
    X(INT, height, REQUIRED, "1..", "number of rows")
MX_ATTRS(image_crop, CROP_ATTRS)

#define BORDER_ATTRS(X) \
    X(INT, top, REQUIRED, "0..16777216", "rows added above") \
    X(INT, bot, REQUIRED, "0..16777216", "rows added below") \
    X(INT, left, REQUIRED, "0..16777216", "columns added on the left") \
    X(INT, right, REQUIRED, "0..16777216", "columns added on the right") \
    X(INT, type, "0", "0..4", "0 constant, 1 edge pixels, 2 mirrored with the edge, 3 wrapped around, 4 mirrored without the edge") \
    X(FLOAT, value, "0.0", "", "the constant for type 0") \
    X(FLOATS, values, "()", "", "the constants for type 0, one per channel")
MX_ATTRS(cvcopyMakeBorder, BORDER_ATTRS)

/* ---- crop ------------------------------------------------------------------------------------------------------ */

static mx_code infer_crop(mx_infer *infer)
{
    const mx_image_crop_attrs *a = infer->attrs;
    char text[MX_SHAPE_TEXT];
    if (!mx_infer_image(infer))
        return mx_error_code();
    mx_shape_t out = infer->in[0];
    int64_t *height = &out.dim[out.ndim - 3], *width = &out.dim[out.ndim - 2];
    if (a->width > *width || a->x > *width - a->width || a->height > *height || a->y > *height - a->height)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE,
                          "columns %lld..+%lld, rows %lld..+%lld are not inside data of shape %s", (long long)a->x,
                          (long long)a->width, (long long)a->y, (long long)a->height,
                          mx_shape_text(&infer->in[0], text));
    *height = a->height, *width = a->width;
    return mx_infer_out(infer, 0, &out);
}

static bool plan_crop(const mx_kernel_call *call, int i, mx_move *move)
{
    const mx_image_crop_attrs *a = call->attrs;
    const mx_array *x = call->in[0];
    if (i)
        return false;
    mx_move_to(move, call->out[0]);
    mx_strides(x, move->from);
    move->from_offset = a->y * move->from[x->ndim - 3] + a->x * move->from[x->ndim - 2];
    return true;
}

static mx_code grad_crop(mx_grad *grad)
{
    const mx_image_crop_attrs *a = grad->attrs;
    const mx_shape_t *x = &grad->in_shape[0];
    mx_span span[MX_MAX_NDIM];
    for (int i = 0; i < x->ndim; i++)
        span[i] = (mx_span){0, 1, x->dim[i]};
    span[x->ndim - 3] = (mx_span){a->y, 1, a->height};
    span[x->ndim - 2] = (mx_span){a->x, 1, a->width};
    return mx_give(grad, 0, mx_g_unslice(grad->ograd[0], span, x));
}

static void reference_crop(const mx_reference_call *call)
{
    const mx_image_crop_attrs *a = call->attrs;
    const mx_shape_t *y = &call->out_shape[0];
    for (int64_t i = 0, at[MX_MAX_NDIM]; i < mx_shape_size(y); i++) {
        mx_position(y, i, at);
        at[y->ndim - 3] += a->y, at[y->ndim - 2] += a->x;
        call->out[0][i] = call->in[0][mx_element(&call->in_shape[0], at)];
    }
}

/* ---- flips ------------------------------------------------------------------------------------------------------- */

static mx_code infer_flip(mx_infer *infer)
{
    if (!mx_infer_image(infer) && mx_error_code())
        return mx_error_code();
    return mx_infer_same_shape(infer);
}

static bool plan_flip(const mx_kernel_call *call, int i, mx_move *move, int from_end)
{
    const int axis = call->in[0]->ndim - from_end;
    if (i)
        return false;
    mx_move_to(move, call->out[0]);
    mx_strides(call->in[0], move->from);
    move->from_offset = (move->dim[axis] - 1) * move->from[axis];
    move->from[axis] = -move->from[axis];
    return true;
}
static bool plan_left_right(const mx_kernel_call *call, int i, mx_move *move) { return plan_flip(call, i, move, 2); }
static bool plan_top_bottom(const mx_kernel_call *call, int i, mx_move *move) { return plan_flip(call, i, move, 3); }

/* A flip is its own inverse. */
static mx_code grad_flip(mx_grad *grad) { return mx_give(grad, 0, mx_g_call((mx_op *)grad->op, NULL, 1, grad->ograd)); }

static void reference_flip(const mx_reference_call *call, int from_end)
{
    const mx_shape_t *y = &call->out_shape[0];
    for (int64_t i = 0, at[MX_MAX_NDIM]; i < mx_shape_size(y); i++) {
        mx_position(y, i, at);
        at[y->ndim - from_end] = y->dim[y->ndim - from_end] - 1 - at[y->ndim - from_end];
        call->out[0][i] = call->in[0][mx_element(y, at)];
    }
}
static void reference_left_right(const mx_reference_call *call) { reference_flip(call, 2); }
static void reference_top_bottom(const mx_reference_call *call) { reference_flip(call, 3); }

/* ---- borders --------------------------------------------------------------------------------------------------------- */

static mx_code infer_border(mx_infer *infer)
{
    const mx_cvcopyMakeBorder_attrs *a = infer->attrs;
    char text[MX_SHAPE_TEXT];
    if (!mx_infer_image(infer))
        return mx_error_code();
    mx_shape_t out = infer->in[0];
    int64_t *height = &out.dim[out.ndim - 3], *width = &out.dim[out.ndim - 2];
    if (a->values.n > 0 && a->values.n < out.dim[out.ndim - 1])
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "values has %d numbers, src of shape %s has %lld channels",
                          a->values.n, mx_shape_text(&out, text), (long long)out.dim[out.ndim - 1]);
    if (a->type && (*height < 1 || *width < 1))
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "src of shape %s has no pixels to repeat",
                          mx_shape_text(&out, text));
    if (__builtin_add_overflow(*height, a->top + a->bot, height) ||
        __builtin_add_overflow(*width, a->left + a->right, width))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "the border is too wide");
    return mx_infer_out(infer, 0, &out);
}

static int64_t reference_fold(int64_t i, int64_t n, int64_t type)
{
    while (i < 0 || i >= n) {
        if (type == 1)
            return i < 0 ? 0 : n - 1;
        if (type == 3)
            i += i < 0 ? n : -n;
        else if (type == 4 && n == 1)
            return 0;
        else
            i = i < 0 ? -i - (type == 2) : 2 * n - i - (type == 2 ? 1 : 2);
    }
    return i;
}

static void reference_border(const mx_reference_call *call)
{
    const mx_cvcopyMakeBorder_attrs *a = call->attrs;
    const mx_shape_t *x = &call->in_shape[0], *y = &call->out_shape[0];
    const int row = y->ndim - 3, column = y->ndim - 2;
    for (int64_t i = 0, at[MX_MAX_NDIM]; i < mx_shape_size(y); i++) {
        mx_position(y, i, at);
        at[row] -= a->top, at[column] -= a->left;
        const bool inside = at[row] >= 0 && at[row] < x->dim[row] && at[column] >= 0 && at[column] < x->dim[column];
        if (!inside && !a->type) {
            call->out[0][i] = a->values.n > 0 ? a->values.d[at[column + 1]] : a->value;
            continue;
        }
        at[row] = reference_fold(at[row], x->dim[row], a->type),
        at[column] = reference_fold(at[column], x->dim[column], a->type);
        call->out[0][i] = call->in[0][mx_element(x, at)];
    }
}

#define FLIP_SAMPLES (const mx_sample[]){{"4,5,3", "", 0, 0, NULL}, {"2,3,1,2", "", 0, 0, NULL}, {"1,4,1", "", 0, 0, NULL}, {0}}
#define RANDOM_SAMPLES (const mx_sample[]){{"4,5,3", "", 0, 0, "random"}, {"20,3,1,2", "", 0, 0, "random"}, {0}}

mx_op mx_family_image_move[] = {
    {.name = "_image_crop", .aliases = "_npx__image_crop", .doc = "crops a rectangle out of an image", .inputs = "data", .schema = &image_crop_schema,
     .infer_shape = infer_crop, .gradient = grad_crop, .reference = reference_crop, .movement = &(const mx_movement){plan_crop},
     .samples = (const mx_sample[]){{"7,9,3", "x=2, y=1, width=4, height=3", 0, 0, NULL}, {"2,5,4,1", "x=0, y=4, width=4, height=1", 0, 0, NULL}, {0}}},
    {.name = "_image_flip_left_right", .aliases = "_npx__image_flip_left_right", .doc = "flips an image horizontally",
     .inputs = "data", .infer_shape = infer_flip, .gradient = grad_flip, .reference = reference_left_right,
     .movement = &(const mx_movement){plan_left_right}, .samples = FLIP_SAMPLES},
    {.name = "_image_flip_top_bottom", .aliases = "_npx__image_flip_top_bottom", .doc = "flips an image vertically",
     .inputs = "data", .infer_shape = infer_flip, .gradient = grad_flip, .reference = reference_top_bottom,
     .movement = &(const mx_movement){plan_top_bottom}, .samples = FLIP_SAMPLES},
    {.name = "_image_random_flip_left_right", .aliases = "_npx__image_random_flip_left_right",
     .doc = "flips each image of a batch horizontally with probability 1/2", .inputs = "data",
     .flags = MX_OP_RANDOM | MX_OP_NO_GRADIENT, .infer_shape = infer_flip, .samples = RANDOM_SAMPLES},
    {.name = "_image_random_flip_top_bottom", .aliases = "_npx__image_random_flip_top_bottom",
     .doc = "flips each image of a batch vertically with probability 1/2", .inputs = "data",
     .flags = MX_OP_RANDOM | MX_OP_NO_GRADIENT, .infer_shape = infer_flip, .samples = RANDOM_SAMPLES},
    {.name = "_cvcopyMakeBorder", .c_name = "copy_make_border", .doc = "adds a border around an image", .inputs = "src",
     .schema = &cvcopyMakeBorder_schema, .flags = MX_OP_NO_GRADIENT, .infer_shape = infer_border, .reference = reference_border,
     .samples = (const mx_sample[]){{"3,4,3", "top=1, bot=2, left=3, right=0, value=7", 0, 0, NULL}, {"3,4,3", "top=1, bot=2, left=3, right=4, values=(1, 2, 3)", 0, 0, NULL},
                                    {"3,4,2", "top=1, bot=2, left=3, right=9, type=1", 0, 0, NULL}, {"2,3,4,1", "top=4, bot=2, left=3, right=9, type=2", 0, 0, NULL},
                                    {"3,4,3", "top=4, bot=7, left=3, right=5, type=3", 0, 0, NULL}, {"3,4,3", "top=4, bot=7, left=3, right=8, type=4", 0, 0, NULL},
                                    {"1,2,3", "top=4, bot=7, left=3, right=8, type=4", 0, 0, NULL}, {0}}},
    {0},
};
