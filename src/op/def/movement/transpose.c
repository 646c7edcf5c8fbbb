/* Permuted and reversed axes: transpose, SwapAxis, reverse, depth_to_space, space_to_depth.
 *
 * Each is one strided copy (op/formula/movement.h), and its gradient is the same operator with the inverse permutation.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/movement.h"
#include "op/walk.h"

#define TRANSPOSE_ATTRS(X) X(DIMS, axes, "()", "", "axis i of the result is axis axes[i] of data; (): reverse the axes")
MX_ATTRS(transpose, TRANSPOSE_ATTRS)

#define SWAP_ATTRS(X) \
    X(INT, dim1, "0", "", "the first axis") \
    X(INT, dim2, "0", "", "the second axis")
MX_ATTRS(swapaxes, SWAP_ATTRS)

#define REVERSE_ATTRS(X) X(DIMS, axis, REQUIRED, "", "axes to reverse")
MX_ATTRS(reverse, REVERSE_ATTRS)

#define BLOCK_ATTRS(X) X(INT, block_size, REQUIRED, "1..1000000", "side length of a block")
MX_ATTRS(depth_space, BLOCK_ATTRS)

/* ---- transpose -------------------------------------------------------------------------------------------- */

/* axes[i] as non-negative numbers; false if they are not a permutation. */
static bool find_axes(const mx_dims *given, int ndim, int *axes)
{
    bool seen[MX_MAX_NDIM] = {false};
    const bool turned = given->n <= 0;
    if (!turned && given->n != ndim)
        return false;
    for (int i = 0; i < ndim; i++) {
        axes[i] = turned ? ndim - 1 - i : mx_axis(given->d[i], ndim);
        if (axes[i] < 0 || seen[axes[i]])
            return false;
        seen[axes[i]] = true;
    }
    return true;
}

static mx_code infer_transpose(mx_infer *infer)
{
    const mx_transpose_attrs *attrs = infer->attrs;
    const mx_shape_t *in = &infer->in[0], *out = &infer->out[0];
    int axes[MX_MAX_NDIM];
    char text[MX_SHAPE_TEXT], shape[MX_SHAPE_TEXT];
    const int ndim = in->ndim >= 0 ? in->ndim : out->ndim;
    if (ndim < 0)
        return MX_OK;
    if (!find_axes(&attrs->axes, ndim, axes))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE,
                          "axes %s is not a permutation of the axes of data, which has shape %s",
                          mx_dims_text(&attrs->axes, text), mx_shape_text(in->ndim >= 0 ? in : out, shape));
    mx_shape_t forth = {.ndim = ndim}, back = {.ndim = ndim};
    for (int i = 0; i < ndim; i++) {
        forth.dim[i] = in->ndim >= 0 ? in->dim[axes[i]] : -1;
        back.dim[axes[i]] = out->ndim >= 0 ? out->dim[i] : -1;
    }
    return mx_infer_out(infer, 0, &forth) ? mx_error_code() : mx_infer_in(infer, 0, &back);
}

static bool plan_permutation(const mx_kernel_call *call, const int *axes, mx_move *move)
{
    int64_t stride[MX_MAX_NDIM];
    mx_move_to(move, call->out[0]);
    mx_strides(call->in[0], stride);
    for (int i = 0; i < move->ndim; i++)
        move->from[i] = stride[axes[i]];
    return true;
}

static bool plan_transpose(const mx_kernel_call *call, int i, mx_move *move)
{
    int axes[MX_MAX_NDIM];
    return i == 0 && find_axes(&((const mx_transpose_attrs *)call->attrs)->axes, call->in[0]->ndim, axes) &&
           plan_permutation(call, axes, move);
}

mx_array *mx_g_transpose(mx_array *x, const int *axes)
{
    mx_transpose_attrs attrs = {{.n = x ? x->ndim : 0}};
    for (int i = 0; i < attrs.axes.n; i++)
        attrs.axes.d[i] = axes[i];
    return mx_g_call(MX_OP("transpose"), &attrs, 1, &x);
}

static mx_code grad_transpose(mx_grad *grad)
{
    int axes[MX_MAX_NDIM], inverse[MX_MAX_NDIM];
    find_axes(&((const mx_transpose_attrs *)grad->attrs)->axes, grad->in_shape[0].ndim, axes);
    for (int i = 0; i < grad->in_shape[0].ndim; i++)
        inverse[axes[i]] = i;
    return mx_give(grad, 0, mx_g_transpose(grad->ograd[0], inverse));
}

static void permute_reference(const mx_reference_call *call, const int *axes)
{
    int64_t at[MX_MAX_NDIM], from[MX_MAX_NDIM];
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        mx_position(&call->out_shape[0], i, at);
        for (int k = 0; k < call->out_shape[0].ndim; k++)
            from[axes[k]] = at[k];
        call->out[0][i] = call->in[0][mx_element(&call->in_shape[0], from)];
    }
}

static void ref_transpose(const mx_reference_call *call)
{
    int axes[MX_MAX_NDIM];
    find_axes(&((const mx_transpose_attrs *)call->attrs)->axes, call->in_shape[0].ndim, axes);
    permute_reference(call, axes);
}

/* ---- SwapAxis --------------------------------------------------------------------------------------------- */

static bool find_swap(const mx_swapaxes_attrs *attrs, int ndim, int *axes)
{
    const int a = mx_axis(attrs->dim1, ndim), b = mx_axis(attrs->dim2, ndim);
    for (int i = 0; i < ndim; i++)
        axes[i] = i == a ? b : i == b ? a : i;
    return a >= 0 && b >= 0;
}

static mx_code infer_swap(mx_infer *infer)
{
    const mx_swapaxes_attrs *attrs = infer->attrs;
    const mx_shape_t *in = &infer->in[0];
    int axes[MX_MAX_NDIM];
    char text[MX_SHAPE_TEXT];
    if (in->ndim < 0)
        return MX_OK;
    if (!find_swap(attrs, in->ndim, axes))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE,
                          "dim1 %lld and dim2 %lld are not both axes of data, which has shape %s",
                          (long long)attrs->dim1, (long long)attrs->dim2, mx_shape_text(in, text));
    mx_shape_t out = {.ndim = in->ndim};
    for (int i = 0; i < in->ndim; i++)
        out.dim[i] = in->dim[axes[i]];
    return mx_infer_out(infer, 0, &out);
}

static bool plan_swap(const mx_kernel_call *call, int i, mx_move *move)
{
    int axes[MX_MAX_NDIM];
    return i == 0 && find_swap(call->attrs, call->in[0]->ndim, axes) && plan_permutation(call, axes, move);
}

static mx_code grad_same(mx_grad *grad) /* the operator is its own inverse */
{
    return mx_give(grad, 0, mx_g_call((mx_op *)grad->op, grad->attrs, 1, grad->ograd));
}

static void ref_swap(const mx_reference_call *call)
{
    int axes[MX_MAX_NDIM];
    find_swap(call->attrs, call->in_shape[0].ndim, axes);
    permute_reference(call, axes);
}

/* ---- reverse ---------------------------------------------------------------------------------------------- */

static bool find_turned(const mx_reverse_attrs *attrs, int ndim, bool *turned)
{
    for (int i = 0; i < ndim; i++)
        turned[i] = false;
    for (int i = 0; i < attrs->axis.n; i++) {
        const int axis = mx_axis(attrs->axis.d[i], ndim);
        if (axis < 0 || turned[axis])
            return false;
        turned[axis] = true;
    }
    return true;
}

static mx_code infer_reverse(mx_infer *infer)
{
    const mx_reverse_attrs *attrs = infer->attrs;
    const mx_shape_t *in = &infer->in[0];
    bool turned[MX_MAX_NDIM];
    char text[MX_SHAPE_TEXT], shape[MX_SHAPE_TEXT];
    if (in->ndim >= 0 && !find_turned(attrs, in->ndim, turned))
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE,
                          "axis %s does not name distinct axes of data, which has shape %s",
                          mx_dims_text(&attrs->axis, text), mx_shape_text(in, shape));
    return mx_infer_same_shape(infer);
}

static bool plan_reverse(const mx_kernel_call *call, int i, mx_move *move)
{
    bool turned[MX_MAX_NDIM];
    mx_move_to(move, call->out[0]);
    mx_strides(call->in[0], move->from);
    if (i || !find_turned(call->attrs, move->ndim, turned))
        return false;
    for (int k = 0; k < move->ndim; k++)
        if (turned[k]) {
            move->from_offset += (move->dim[k] - 1) * move->from[k];
            move->from[k] = -move->from[k];
        }
    return true;
}

static void ref_reverse(const mx_reference_call *call)
{
    int64_t at[MX_MAX_NDIM];
    bool turned[MX_MAX_NDIM];
    const mx_shape_t *shape = &call->in_shape[0];
    find_turned(call->attrs, shape->ndim, turned);
    for (int64_t i = 0; i < mx_shape_size(shape); i++) {
        mx_position(shape, i, at);
        for (int k = 0; k < shape->ndim; k++)
            at[k] = turned[k] ? shape->dim[k] - 1 - at[k] : at[k];
        call->out[0][i] = call->in[0][mx_element(shape, at)];
    }
}

/* ---- depth and space -------------------------------------------------------------------------------------- */
/* depth_to_space: data (N, b, b, C, H, W) seen as 6 axes becomes (N, C, H, b, W, b); space_to_depth is the inverse. */

static mx_code infer_depth_space(mx_infer *infer, bool to_space)
{
    const int64_t b = ((const mx_depth_space_attrs *)infer->attrs)->block_size;
    const mx_shape_t *in = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (!mx_shape_known(in))
        return MX_OK;
    const bool fits = in->ndim == 4 && b <= 1 << 20 &&
                      (to_space ? in->dim[1] % (b * b) == 0 : in->dim[2] % b == 0 && in->dim[3] % b == 0);
    if (!fits)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (N, C, H, W) with %s divisible by %lld",
                          mx_shape_text(in, text), to_space ? "C" : "H and W", (long long)(to_space ? b * b : b));
    mx_shape_t out = {4, {in->dim[0], in->dim[1] * b * b, in->dim[2] / b, in->dim[3] / b}};
    if (to_space)
        out = (mx_shape_t){4, {in->dim[0], in->dim[1] / (b * b), in->dim[2] * b, in->dim[3] * b}};
    return mx_infer_out(infer, 0, &out);
}
static mx_code infer_to_space(mx_infer *infer) { return infer_depth_space(infer, true); }
static mx_code infer_to_depth(mx_infer *infer) { return infer_depth_space(infer, false); }

/* Strides of the six axes N, C, H, b1, W, b2 in the array that is deep and in the one that is wide. */
static void plan_depth_space(const mx_array *wide, int64_t b, mx_move *move, int64_t *deep_stride, int64_t *wide_stride)
{
    const int64_t n = wide->shape[0], c = wide->shape[1], h = wide->shape[2] / b, w = wide->shape[3] / b;
    const int64_t dim[6] = {n, c, h, b, w, b};
    const int64_t deep[6] = {b * b * c * h * w, h * w, w, b * c * h * w, 1, c * h * w};
    const int64_t flat[6] = {c * h * b * w * b, h * b * w * b, b * w * b, w * b, b, 1};
    move->ndim = 6;
    for (int i = 0; i < 6; i++) {
        move->dim[i] = dim[i];
        deep_stride[i] = deep[i];
        wide_stride[i] = flat[i];
    }
}

static bool plan_to_space(const mx_kernel_call *call, int i, mx_move *move)
{
    plan_depth_space(call->out[0], ((const mx_depth_space_attrs *)call->attrs)->block_size, move, move->from, move->to);
    return i == 0;
}

static bool plan_to_depth(const mx_kernel_call *call, int i, mx_move *move)
{
    plan_depth_space(call->in[0], ((const mx_depth_space_attrs *)call->attrs)->block_size, move, move->to, move->from);
    return i == 0;
}

static mx_code grad_to_space(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_call(MX_OP("space_to_depth"), grad->attrs, 1, grad->ograd));
}
static mx_code grad_to_depth(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_call(MX_OP("depth_to_space"), grad->attrs, 1, grad->ograd));
}

static void depth_space_reference(const mx_reference_call *call, bool to_space)
{
    const int64_t b = ((const mx_depth_space_attrs *)call->attrs)->block_size;
    const mx_shape_t *wide = to_space ? &call->out_shape[0] : &call->in_shape[0],
                     *deep = to_space ? &call->in_shape[0] : &call->out_shape[0];
    int64_t at[4];
    for (int64_t i = 0; i < mx_shape_size(wide); i++) {
        mx_position(wide, i, at);
        const int64_t channel = (at[2] % b * b + at[3] % b) * wide->dim[1] + at[1];
        const int64_t k = mx_element(deep, (int64_t[]){at[0], channel, at[2] / b, at[3] / b});
        if (to_space)
            call->out[0][i] = call->in[0][k];
        else
            call->out[0][k] = call->in[0][i];
    }
}
static void ref_to_space(const mx_reference_call *call) { depth_space_reference(call, true); }
static void ref_to_depth(const mx_reference_call *call) { depth_space_reference(call, false); }

#define MOVES(rule) .movement = &(const mx_movement){rule}

mx_op mx_family_transpose[] = {
    {.name = "transpose", .look = MX_LOOK_SHAPE, .methods = "transpose", .doc = "permutes the axes; axis i of the result is axis axes[i] of data, without axes they are reversed", .inputs = "data",
     .schema = &transpose_schema,
     .infer_shape = infer_transpose,
     .gradient = grad_transpose, .reference = ref_transpose, MOVES(plan_transpose),
     .samples = (const mx_sample[]){{"3,4", "", 0, 0, NULL}, {"2,3,4", "axes=(1, 0, 2)", 0, 0, NULL},
         {"2,3,4,5", "axes=(0, 3, 1, 2)", 0, 0, NULL},
         {"17,35", "", 0, 0, NULL}, {"2,9,33", "axes=(0, 2, 1)", 0, 0, NULL}, {"3,1,2", "axes=(-1, 0, 1)", 0, 0, NULL},
         {"5", "", 0, 0, NULL}, {"0,3", "", 0, 0, NULL}, {0}}},
    {.name = "SwapAxis", .input_named = true, .look = MX_LOOK_SHAPE, .methods = "swapaxes", .aliases = "swapaxes _npi_swapaxes",
     .c_name = "swapaxes",
     .doc = "swaps two axes; the others stay where they are",
     .inputs = "data",
     .schema = &swapaxes_schema, .infer_shape = infer_swap, .gradient = grad_same,
     .reference = ref_swap, MOVES(plan_swap),
     .samples = (const mx_sample[]){{"2,3,4", "dim1=0, dim2=2", 0, 0, NULL}, {"2,3,4", "dim1=-1, dim2=1", 0, 0, NULL},
         {"2,3", "", 0, 0, NULL}, {0}}},
    {.name = "reverse", .input_named = true, .methods = "flip reverse", .aliases = "flip",
     .doc = "reverses the order of elements along axes", .inputs = "data",
     .schema = &reverse_schema,
     .infer_shape = infer_reverse, .gradient = grad_same, .reference = ref_reverse, MOVES(plan_reverse),
     .samples = (const mx_sample[]){{"2,5", "axis=1", 0, 0, NULL}, {"4,3,2", "axis=(0, -1)", 0, 0, NULL},
         {"3,4", "axis=0", 0, 0, NULL}, {"0,3", "axis=0", 0, 0, NULL}, {0}}},
    {.name = "depth_to_space", .input_named = true, .methods = "depth_to_space",
     .doc = "moves channels into spatial blocks of block_size x block_size pixels", .inputs = "data",
     .schema = &depth_space_schema,
     .infer_shape = infer_to_space, .gradient = grad_to_space, .reference = ref_to_space, MOVES(plan_to_space),
     .samples = (const mx_sample[]){{"2,8,2,3", "block_size=2", 0, 0, NULL}, {"1,9,1,2", "block_size=3", 0, 0, NULL},
     {0}}},
    {.name = "space_to_depth", .input_named = true, .methods = "space_to_depth",
     .doc = "moves spatial blocks of block_size x block_size pixels into channels", .inputs = "data",
     .schema = &depth_space_schema,
     .infer_shape = infer_to_depth, .gradient = grad_to_depth, .reference = ref_to_depth, MOVES(plan_to_depth),
     .samples = (const mx_sample[]){{"2,2,4,6", "block_size=2", 0, 0, NULL}, {"1,1,3,6", "block_size=3", 0, 0, NULL},
     {0}}},
    {0},
};
