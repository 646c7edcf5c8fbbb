/* L2Normalization and LRN: dividing by norms that have no parameters.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "op/emit.h"
#include "op/op.h"

#define L2_NORMALIZATION_ATTRS(X) \
    X(FLOAT, eps, "1e-10", "", "added to the sum of squares") \
    X(ENUM, mode, "instance", "instance|spatial|channel", "normalise each sample, the positions of each channel, or the channels of each position")
MX_ATTRS(l2_normalization, L2_NORMALIZATION_ATTRS)
enum { INSTANCE, SPATIAL, CHANNEL };

#define LRN_ATTRS(X) \
    X(FLOAT, alpha, "1e-4", "", "weight of the mean square") \
    X(FLOAT, beta, "0.75", "", "exponent of the norm") \
    X(FLOAT, knorm, "2.0", "", "constant part of the norm") \
    X(INT, nsize, REQUIRED, "1..", "number of channels in the window")
MX_ATTRS(lrn, LRN_ATTRS)

/* ---- L2Normalization --------------------------------------------------------------------------------------- */

/* Data as (outer, n, inner): the norm is over n. */
typedef struct split {
    int64_t outer, n, inner;
} split;

static split split_by(int mode, const mx_shape_t *data)
{
    split s = {1, 1, 1};
    for (int i = 0; i < data->ndim; i++) {
        int64_t *part = mode == INSTANCE  ? (i ? &s.n : &s.outer)
                        : mode == SPATIAL ? (i > 1 ? &s.n : &s.outer)
                        : i == 0          ? &s.outer
                        : i == 1          ? &s.n
                                          : &s.inner;
        *part *= data->dim[i];
    }
    return s;
}

static mx_code infer_l2(mx_infer *infer)
{
    const mx_l2_normalization_attrs *attrs = infer->attrs;
    if (mx_infer_out(infer, 0, &infer->in[0]) || mx_infer_in(infer, 0, &infer->out[0]))
        return mx_error_code();
    const mx_shape_t *data = &infer->in[0];
    if (!mx_shape_known(data))
        return MX_OK;
    if (data->ndim < (attrs->mode == INSTANCE ? 1 : attrs->mode == CHANNEL ? 2 : 3)) {
        char text[MX_SHAPE_TEXT];
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (batch, channels, ...)",
                          mx_shape_text(data, text));
    }
    const split s = split_by(attrs->mode, data);
    const mx_shape_t norm = {.ndim = 2, .dim = {s.outer, s.inner}};
    return mx_infer_out(infer, 1, &norm);
}

/* y = x / |x|: dx = (g - y sum(g y)) / |x| */
static mx_code grad_l2(mx_grad *grad)
{
    const mx_l2_normalization_attrs *attrs = grad->attrs;
    if (!grad->ograd[0])
        return MX_OK;
    if (!grad->create_graph)
        return mx_give(grad, 0,
                       mx_g_call(MX_OP("_backward_L2Normalization"), attrs, 3,
                                 (mx_array *const[]){grad->ograd[0], grad->out[0], grad->out[1]}));
    const split s = split_by(attrs->mode, &grad->in_shape[0]);
    const mx_shape_t view = {.ndim = 3, .dim = {s.outer, s.n, s.inner}};
    mx_array *g = mx_g_reshape(grad->ograd[0], &view), *x = mx_g_reshape(grad->in[0], &view),
             *squares = mx_g1("square", x);
    mx_array *inverse =
        mx_g1("rsqrt", mx_g_shift(mx_g_text(MX_OP("sum"), "axis=1, keepdims=True", 1, &squares), attrs->eps));
    mx_array *y = mx_g_mul(x, inverse), *products = mx_g_mul(g, y);
    mx_array *projection = mx_g_mul(y, mx_g_text(MX_OP("sum"), "axis=1, keepdims=True", 1, &products));
    return mx_give(grad, 0, mx_g_reshape(mx_g_mul(mx_g_sub(g, projection), inverse), &grad->in_shape[0]));
}

/* (ograd, output, norm) */
static mx_code infer_l2_backward(mx_infer *infer)
{
    if (mx_infer_through(infer, infer_l2, (const int[]){0, -2}, (const int[]){1, 2, -2}))
        return mx_error_code();
    return mx_infer_out(infer, 0, &infer->in[0]);
}

static void ref_l2(const mx_reference_call *call)
{
    const mx_l2_normalization_attrs *attrs = call->attrs;
    const split s = split_by(attrs->mode, &call->in_shape[0]);
    for (int64_t row = 0; row < s.outer * s.inner; row++) {
        const int64_t at = row / s.inner * s.n * s.inner + row % s.inner;
        double sum = attrs->eps;
        for (int64_t k = 0; k < s.n; k++)
            sum += call->in[0][at + k * s.inner] * call->in[0][at + k * s.inner];
        for (int64_t k = 0; k < s.n; k++)
            call->out[0][at + k * s.inner] = call->in[0][at + k * s.inner] / sqrt(sum);
        call->out[1][row] = sqrt(sum);
    }
}

static void ref_l2_backward(const mx_reference_call *call)
{
    const split s = split_by(((const mx_l2_normalization_attrs *)call->attrs)->mode, &call->in_shape[0]);
    for (int64_t row = 0; row < s.outer * s.inner; row++) {
        const int64_t at = row / s.inner * s.n * s.inner + row % s.inner;
        double sum = 0;
        for (int64_t k = 0; k < s.n; k++)
            sum += call->in[0][at + k * s.inner] * call->in[1][at + k * s.inner];
        for (int64_t k = 0; k < s.n; k++)
            call->out[0][at + k * s.inner] =
                (call->in[0][at + k * s.inner] - call->in[1][at + k * s.inner] * sum) / call->in[2][row];
    }
}

/* ---- LRN ---------------------------------------------------------------------------------------------------- */

static mx_code infer_lrn(mx_infer *infer)
{
    if (infer->in[0].ndim >= 0 && infer->in[0].ndim < 2) {
        char text[MX_SHAPE_TEXT];
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (batch, channels, ...)",
                          mx_shape_text(&infer->in[0], text));
    }
    return mx_infer_same_shape(infer);
}

static mx_code check_lrn(const void *a)
{
    const mx_lrn_attrs *attrs = a;
    return attrs->nsize % 2
               ? MX_OK
               : mx_fail(MX_ERR_ATTRIBUTE, "LRN: nsize is %lld, wanted an odd number", (long long)attrs->nsize);
}

/* dx[c] = g norm^-beta - 2 alpha beta / nsize * x[c] * sum over the window of g x norm^(-beta - 1).  The sum over the
 * window is an operator that is its own gradient, because windows are symmetric. */
static mx_code grad_lrn(mx_grad *grad)
{
    const mx_lrn_attrs *attrs = grad->attrs;
    mx_array *g = grad->ograd[0], *x = grad->in[0];
    mx_op *window = MX_OP("_channel_window_sum");
    if (!g)
        return MX_OK;
    if (!grad->create_graph)
        return mx_give(grad, 0, mx_g_call(MX_OP("_backward_LRN"), attrs, 3, (mx_array *const[]){g, x, grad->out[1]}));
    const double scale = attrs->alpha / (double)attrs->nsize;
    mx_array *squares = mx_g1("square", x);
    mx_array *norm = mx_g_shift(mx_g_scale(mx_g_call(window, attrs, 1, &squares), scale), attrs->knorm);
    mx_array *inside = mx_g_mul(mx_g_mul(g, x), mx_g_power(norm, -attrs->beta - 1));
    mx_array *sum = mx_g_mul(x, mx_g_call(window, attrs, 1, &inside));
    return mx_give(grad, 0,
                   mx_g_sub(mx_g_mul(g, mx_g_power(norm, -attrs->beta)), mx_g_scale(sum, 2 * attrs->beta * scale)));
}

static mx_code grad_window(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_call(MX_OP("_channel_window_sum"), grad->attrs, 1, &grad->ograd[0]));
}

static void ref_window(const mx_reference_call *call)
{
    const mx_shape_t *data = &call->in_shape[0];
    const int64_t channels = data->dim[1], size = mx_shape_size(data), plane = data->dim[0] * channels;
    const int64_t inner = plane ? size / plane : 0, half = ((const mx_lrn_attrs *)call->attrs)->nsize / 2;
    for (int64_t i = 0; i < size; i++) {
        const int64_t c = i / inner % channels;
        call->out[0][i] = 0;
        for (int64_t w = c - half; w <= c + half; w++)
            call->out[0][i] += w < 0 || w >= channels ? 0 : call->in[0][i + (w - c) * inner];
    }
}

/* norm[c] = knorm + alpha / nsize * sum of x^2 over the window around c; y = x norm^-beta */
static void ref_lrn(const mx_reference_call *call)
{
    const mx_lrn_attrs *attrs = call->attrs;
    const mx_shape_t *data = &call->in_shape[0];
    const int64_t channels = data->dim[1], size = mx_shape_size(data), plane = data->dim[0] * channels,
                  half = attrs->nsize / 2;
    const int64_t inner = plane ? size / plane : 0;
    for (int64_t i = 0; i < size; i++) {
        const int64_t c = i / inner % channels;
        double sum = 0;
        for (int64_t w = c - half; w <= c + half; w++)
            sum += w < 0 || w >= channels ? 0 : pow(call->in[0][i + (w - c) * inner], 2);
        const double norm = attrs->knorm + attrs->alpha / (double)attrs->nsize * sum;
        call->out[0][i] = call->in[0][i] * pow(norm, -attrs->beta);
        call->out[1][i] = norm;
    }
}

/* (ograd, data, norm) */
static mx_code infer_lrn_backward(mx_infer *infer)
{
    if (mx_infer_through(infer, infer_lrn, (const int[]){1, -2}, (const int[]){0, 2, -2}))
        return mx_error_code();
    return mx_infer_out(infer, 0, &infer->in[0]);
}

static void ref_lrn_backward(const mx_reference_call *call)
{
    const mx_lrn_attrs *attrs = call->attrs;
    const mx_shape_t *data = &call->in_shape[1];
    const int64_t channels = data->dim[1], size = mx_shape_size(data), plane = data->dim[0] * channels,
                  half = attrs->nsize / 2;
    const int64_t inner = plane ? size / plane : 0;
    for (int64_t i = 0; i < size; i++) {
        const int64_t c = i / inner % channels;
        double sum = 0;
        for (int64_t w = c - half; w <= c + half; w++) {
            const int64_t at = i + (w - c) * inner;
            sum +=
                w < 0 || w >= channels ? 0 : call->in[0][at] * call->in[1][at] * pow(call->in[2][at], -attrs->beta - 1);
        }
        call->out[0][i] = call->in[0][i] * pow(call->in[2][i], -attrs->beta) -
                          2 * attrs->alpha * attrs->beta / (double)attrs->nsize * call->in[1][i] * sum;
    }
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_l2(const mx_emit_call *n)
{
    const mx_l2_normalization_attrs *attrs = n->attrs;
    const int64_t batch = n->x->dim[0], all = mx_shape_size(n->x), c = n->x->ndim > 1 ? n->x->dim[1] : 1;
    mx_split s = {batch, mx_emit_over(all, batch), 1};
    if (attrs->mode == CHANNEL)
        s = mx_split_at(n->x, 1);
    else if (attrs->mode == SPATIAL)
        s = (mx_split){batch * c, mx_emit_over(all, batch * c), 1};
    mx_emit_open(n, "unit_length", 1);
    mx_emit_split(n, s);
    mx_emit_add(n, attrs->eps);
    return mx_emit_close(n);
}

static mx_code emit_lrn(const mx_emit_call *n)
{
    const mx_lrn_attrs *attrs = n->attrs;
    if (n->x->ndim < 2)
        return mx_emit_fail(n, "data has %d axes, wanted a batch and channels", n->x->ndim);
    mx_emit_open(n, "local_norm", 1);
    mx_emit_split(n, mx_split_at(n->x, 1));
    mx_emit_print(n, ", %lld", (long long)(attrs->nsize / 2));
    mx_emit_add(n, attrs->alpha / (double)attrs->nsize);
    mx_emit_add(n, attrs->beta);
    mx_emit_add(n, attrs->knorm);
    return mx_emit_close(n);
}

/* ---- the table ------------------------------------------------------------------------------------------------ */

#define BACKWARD(rule) .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .infer_shape = rule
mx_op mx_family_normalize[] = {
    {.name = "L2Normalization", .input_named = true, MX_EMIT(emit_l2), .look = MX_LOOK_NORM, .precision = MX_PRECISION_FLOAT32,
     .inputs = "data",
     .outputs = "output norm",
     .schema = &l2_normalization_schema,
     .doc = "divides by the L2 norm: y = x / sqrt(sum of squares + eps)", .n_out = 2, .n_visible = 1, .infer_shape = infer_l2,
     .gradient = grad_l2, .grad_in = 1, .grad_out = 3, .reference = ref_l2,
     .samples = (const mx_sample[]){{"2,3,4", "", 0, 0, "floatonly"}, {"2,3,4", "mode=channel, eps=0.1", 0, 0, "floatonly"},
                                    {"2,3,4,5", "mode=spatial", 0, 0, "floatonly"}, {"3,37", "", 0, 0, "floatonly"}, {0}}},
    {.name = "_backward_L2Normalization", .inputs = "ograd output norm", .schema = &l2_normalization_schema, BACKWARD(infer_l2_backward),
     .doc = "gradient of L2Normalization", .reference = ref_l2_backward,
     .samples = (const mx_sample[]){{"3,37;3,37;3,1", "", 0.2, 2, "floatonly"}, {"2,3,4;2,3,4;2,4", "mode=channel", 0.2, 2, "floatonly"}, {0}}},
    {.name = "LRN", .input_named = true, MX_EMIT(emit_lrn), .look = MX_LOOK_NORM, .precision = MX_PRECISION_FLOAT32, .c_name = "lrn",
     .inputs = "data",
     .outputs = "output tmp_norm",
     .schema = &lrn_schema, .n_out = 2, .n_visible = 1,
     .doc = "local response normalisation over neighbouring channels: y = x / (knorm + alpha / nsize * sum of their squares) ** beta", .infer_shape = infer_lrn, .check = check_lrn, .gradient = grad_lrn,
     .grad_in = 1, .grad_out = 2, .reference = ref_lrn,
     .samples = (const mx_sample[]){{"2,5,3", "nsize=3, alpha=0.3", 0, 0, "floatonly"}, {"1,4,2,2", "nsize=5, alpha=0.5, beta=0.5, knorm=1", 0, 0, "floatonly"}, {0}}},
    {.name = "_channel_window_sum", .inputs = "data", .schema = &lrn_schema, .doc = "sum over neighbouring channels", .flags = MX_OP_HIDDEN,
     .infer_shape = infer_lrn, .check = check_lrn, .gradient = grad_window, .reference = ref_window,
     .samples = (const mx_sample[]){{"2,5,3", "nsize=3", 0, 0, "floatonly"}, {0}}},
    {.name = "_backward_LRN", .inputs = "ograd data norm", .schema = &lrn_schema, BACKWARD(infer_lrn_backward), .doc = "gradient of LRN",
     .reference = ref_lrn_backward,
     .samples = (const mx_sample[]){{"2,5,3;2,5,3;2,5,3", "nsize=3, alpha=0.3", 0.5, 2, "floatonly"}, {0}}},
    {0},
};
