/* UpSampling: images of `scale` times the size.
 *
 * nearest: pixels are repeated: data (N, C, H, W) -> (N, C, H * scale, W * scale).  Further inputs are upsampled to
 * the size of that result, then concatenated along the channels, or added.
 *
 * bilinear: a depthwise transposed convolution with a learned weight (C, 1, k, k), k = 2 scale - scale % 2:
 *     out[y] = sum over y = i * scale - pad + q of data[i] * weight[q], pad = ceil((scale - 1) / 2)
 * Its gradients are a convolution and that convolution's weight gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "op/emit.h"
#include "op/formula/movement.h"
#include "op/walk.h"

#define UPSAMPLING_ATTRS(X) \
    X(INT, scale, REQUIRED, "1..1000", "factor by which height and width of the first input grow") \
    X(INT, num_filter, "0", "0..", "bilinear: number of channels; 0: those of data") \
    X(ENUM, sample_type, REQUIRED, "nearest|bilinear", "repeat pixels, or use a transposed convolution with the second input as weight") \
    X(ENUM, multi_input_mode, "concat", "concat|sum", "how several inputs are combined") \
    X(INT, num_args, "None", "1..", "number of inputs; None: as many as are given") \
    X(INT, workspace, "512", "0..", "accepted for compatibility")
MX_ATTRS(upsampling, UPSAMPLING_ATTRS)
enum { NEAREST, BILINEAR };
enum { CONCAT, SUM };

static int64_t kernel_of(int64_t scale) { return 2 * scale - scale % 2; }
static int64_t pad_of(int64_t scale) { return scale / 2; } /* ceil((scale - 1) / 2) */

static mx_code infer_bilinear(mx_infer *infer, const mx_upsampling_attrs *p)
{
    const mx_shape_t *in = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (infer->n_in != 2)
        return mx_op_fail(infer->op, MX_ERR_ARGUMENT, "got %d inputs, wanted data and weight for sample_type=bilinear",
                          infer->n_in);
    if (in->ndim >= 0 && in->ndim != 4)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (N, C, H, W)", mx_shape_text(in, text));
    if (in->ndim < 0)
        return MX_OK;
    if (p->num_filter && in->dim[1] >= 0 && p->num_filter != in->dim[1])
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted num_filter=%lld channels",
                          mx_shape_text(in, text), (long long)p->num_filter);
    const mx_shape_t weight = {4, {in->dim[1], 1, kernel_of(p->scale), kernel_of(p->scale)}};
    const mx_shape_t out = {4,
                            {in->dim[0], in->dim[1], in->dim[2] < 0 ? -1 : in->dim[2] * p->scale,
                             in->dim[3] < 0 ? -1 : in->dim[3] * p->scale}};
    return mx_infer_in(infer, 1, &weight) ? mx_error_code() : mx_infer_out(infer, 0, &out);
}

static mx_code infer_shape(mx_infer *infer)
{
    const mx_upsampling_attrs *p = infer->attrs;
    char text[MX_SHAPE_TEXT];
    mx_shape_t out = {4, {0}};
    if (!infer->n_in)
        return mx_op_fail(infer->op, MX_ERR_ARGUMENT, "got no input");
    if (p->sample_type == BILINEAR)
        return infer_bilinear(infer, p);
    for (int i = 0; i < infer->n_in; i++) {
        const mx_shape_t *in = &infer->in[i];
        if (!mx_shape_known(in))
            return MX_OK;
        if (in->ndim == 4 && i == 0)
            out = (mx_shape_t){4, {in->dim[0], 0, in->dim[2] * p->scale, in->dim[3] * p->scale}};
        const bool fits = in->ndim == 4 && in->dim[0] == out.dim[0] && in->dim[2] > 0 && in->dim[3] > 0 &&
                          out.dim[2] % in->dim[2] == 0 && out.dim[3] % in->dim[3] == 0 &&
                          (p->multi_input_mode == CONCAT || i == 0 || in->dim[1] == out.dim[1]);
        if (!fits)
            return mx_op_fail(
                infer->op, MX_ERR_SHAPE,
                "input %d has shape %s, wanted (N, C, H, W) with sizes that divide those of the first result%s", i,
                mx_shape_text(in, text), p->multi_input_mode == SUM ? " and has as many channels" : "");
        out.dim[1] = p->multi_input_mode == SUM ? in->dim[1] : out.dim[1] + in->dim[1];
    }
    return mx_infer_out(infer, 0, &out);
}

/* Where input i is written: after the channels of the inputs before it; at the beginning if inputs are added. */
static bool plan(const mx_kernel_call *call, int i, mx_move *move)
{
    if (i >= call->n_in)
        return false;
    const mx_array *in = call->in[i], *out = call->out[0];
    const int64_t height = in->shape[2], width = in->shape[3], high = out->shape[2] / height,
                  wide = out->shape[3] / width;
    const bool added = ((const mx_upsampling_attrs *)call->attrs)->multi_input_mode == SUM;
    int64_t channel = 0, plane = out->shape[2] * out->shape[3];
    for (int k = 0; k < i && !added; k++)
        channel += call->in[k]->shape[1];
    const int64_t dim[6] = {in->shape[0], in->shape[1], height, high, width, wide};
    const int64_t to[6] = {out->shape[1] * plane, plane, high * out->shape[3], out->shape[3], wide, 1};
    const int64_t from[6] = {in->shape[1] * height * width, height * width, width, 0, 1, 0};
    move->input = i, move->ndim = 6, move->to_offset = channel * plane;
    for (int k = 0; k < 6; k++)
        move->dim[k] = dim[k], move->to[k] = to[k], move->from[k] = from[k];
    return true;
}

static mx_code grad_bilinear(mx_grad *grad, const mx_upsampling_attrs *p)
{
    char attrs[512], shape[MX_SHAPE_TEXT];
    const long long k = kernel_of(p->scale), s = p->scale, pad = pad_of(p->scale), channels = grad->in_shape[0].dim[1];
    snprintf(
        attrs, sizeof attrs,
        "kernel=(%lld, %lld), stride=(%lld, %lld), pad=(%lld, %lld), num_filter=%lld, num_group=%lld, no_bias=True", k,
        k, s, s, pad, pad, channels, channels);
    if (grad->wanted[0] &&
        mx_give(grad, 0, mx_g_text(MX_OP("Convolution"), attrs, 2, (mx_array *const[]){grad->ograd[0], grad->in[1]})))
        return mx_error_code();
    const size_t used = strlen(attrs);
    snprintf(attrs + used, sizeof attrs - used, ", shape=%s", mx_shape_text(&grad->in_shape[1], shape));
    if (grad->wanted[1])
        return mx_give(
            grad, 1, mx_g_text(MX_OP("_conv_weight_grad"), attrs, 2, (mx_array *const[]){grad->ograd[0], grad->in[0]}));
    return MX_OK;
}

static mx_code gradient(mx_grad *grad)
{
    const mx_upsampling_attrs *p = grad->attrs;
    const int64_t height = grad->in_shape[0].dim[2] * p->scale, width = grad->in_shape[0].dim[3] * p->scale;
    const bool whole = grad->n_in == 1 || p->multi_input_mode == SUM;
    int64_t channel = 0;
    if (p->sample_type == BILINEAR)
        return grad_bilinear(grad, p);
    for (int i = 0; i < grad->n_in; i++) {
        const mx_shape_t *in = &grad->in_shape[i];
        if (grad->wanted[i]) {
            mx_array *g = whole ? grad->ograd[0] : mx_g_slice_axis(grad->ograd[0], 1, channel, channel + in->dim[1]);
            g = mx_g_fold(g, in->dim[0] * in->dim[1] * in->dim[2], height / in->dim[2], width);
            g = mx_g_fold(g, in->dim[0] * in->dim[1] * in->dim[2] * in->dim[3], width / in->dim[3], 1);
            if (mx_give(grad, i, mx_g_reshape(g, in)))
                return mx_error_code();
        }
        channel += in->dim[1];
    }
    return MX_OK;
}

static void ref_bilinear(const mx_reference_call *call, int64_t scale)
{
    const mx_shape_t *in = &call->in_shape[0], *out = &call->out_shape[0];
    const int64_t k = kernel_of(scale);
    int64_t at[4];
    memset(call->out[0], 0, (size_t)mx_shape_size(out) * sizeof(double));
    for (int64_t i = 0; i < mx_shape_size(in); i++)
        for (int64_t q = 0; q < k * k; q++) {
            mx_position(in, i, at);
            const double weight = call->in[1][at[1] * k * k + q];
            at[2] = at[2] * scale - pad_of(scale) + q / k, at[3] = at[3] * scale - pad_of(scale) + q % k;
            if (at[2] >= 0 && at[3] >= 0 && at[2] < out->dim[2] && at[3] < out->dim[3])
                call->out[0][mx_element(out, at)] += call->in[0][i] * weight;
        }
}

static void reference(const mx_reference_call *call)
{
    const mx_upsampling_attrs *p = call->attrs;
    const mx_shape_t *out = &call->out_shape[0];
    int64_t at[4], channel = 0;
    if (p->sample_type == BILINEAR) {
        ref_bilinear(call, p->scale);
        return;
    }
    memset(call->out[0], 0, (size_t)mx_shape_size(out) * sizeof(double));
    for (int n = 0; n < call->n_in; n++) {
        const mx_shape_t *in = &call->in_shape[n];
        for (int64_t i = 0; i < mx_shape_size(out); i++) {
            mx_position(out, i, at);
            at[1] -= channel;
            at[2] = at[2] * in->dim[2] / out->dim[2], at[3] = at[3] * in->dim[3] / out->dim[3];
            if (at[1] >= 0 && at[1] < in->dim[1])
                call->out[0][i] += call->in[n][mx_element(in, at)];
        }
        channel += p->multi_input_mode == SUM ? 0 : in->dim[1];
    }
}

static int count_in(const void *attrs)
{
    const mx_upsampling_attrs *p = attrs;
    if (p->sample_type == BILINEAR)
        return 2;
    return p->num_args == MX_NONE_INT || p->num_args > INT32_MAX ? 1 : (int)p->num_args;
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

/* Bilinear: a depthwise transposed convolution; nearest: pixels are copied. */
static mx_code emit_upsampling(const mx_emit_call *n)
{
    const mx_upsampling_attrs *attrs = n->attrs;
    if (attrs->sample_type == NEAREST && n->n_in > 1 && attrs->multi_input_mode == SUM)
        return mx_emit_fail(n, "multi_input_mode=sum cannot be written as C, only concat");
    if (attrs->sample_type == NEAREST)
        return mx_emit_moves(n, n->op->user);
    const int64_t scale = attrs->scale, kernel = 2 * scale - scale % 2, channels = n->x->dim[1];
    mx_emit_open(n, "deconvolution", 2);
    mx_emit_print(n, "NULL, %lld, %lld, %lld, %lld", (long long)n->x->dim[0], (long long)channels, (long long)channels,
                  (long long)channels);
    return mx_emit_close_windows(n, &(mx_emit_image){2, false, 2, channels},
                                 &(mx_emit_windows){.kernel = MX_DIMS(kernel, kernel), .stride = MX_DIMS(scale, scale),
                                                    .pad = MX_DIMS(scale / 2, scale / 2), .dilate = MX_NO_DIMS});
}

mx_op mx_family_upsampling[] = {
    {.name = "UpSampling", MX_EMIT(emit_upsampling, .all = true), .look = MX_LOOK_POOLING, .c_name = "upsampling",
     .doc = "upsamples images by repeating pixels, or by learned interpolation", .inputs = "*data",
     .schema = &upsampling_schema, .flags = MX_OP_LIST, .count_in = count_in, .starts = {NULL, "[\"bilinear\", {}]"}, .infer_shape = infer_shape, .gradient = gradient, .grad_in = 3,
     .reference = reference, .user = &(const mx_movement){plan},
     .samples = (const mx_sample[]){{"1,2,3,2", "scale=2, sample_type=nearest, num_args=1", 0, 0, NULL},
                                    {"2,1,2,2;2,2,4,4", "scale=4, sample_type=nearest, num_args=2", 0, 0, NULL},
                                    {"2,3,2,2;2,3,4,4;2,3,1,2", "scale=4, sample_type=nearest, multi_input_mode=sum, num_args=3", 0, 0, "floatonly"},
                                    {"2,3,4,5;3,1,4,4", "scale=2, sample_type=bilinear, num_filter=3, num_args=2", 0, 0, "floatonly"},
                                    {"1,2,3,2;2,1,5,5", "scale=3, sample_type=bilinear, num_filter=2, num_args=2", 0, 0, "floatonly"},
                                    {"1,2,3,2;2,1,1,1", "scale=1, sample_type=bilinear, num_filter=2, num_args=2", 0, 0, "floatonly"}, {0}}},
    {0},
};
