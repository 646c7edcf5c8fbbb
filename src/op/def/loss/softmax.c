/* The softmax family and cross entropy on top of it.
 *
 * All of them treat data as (outer, n, inner) with n the size of the axis.  The fused gradients use the outputs
 * (softmax) or the logarithm of the sum of exponentials (cross entropy), which is a hidden output.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "ndarray/dtype.h"
#include "op/emit.h"
#include "op/op.h"
#include "op/walk.h"

#define SOFTMAX_ATTRS(X) \
    X(INT, axis, "-1", "", "axis along which the values sum to one") \
    X(FLOAT, temperature, "None", "", "divisor of the data") \
    X(DTYPE, dtype, "None", "", "type of the result; None: that of data") \
    X(BOOL, use_length, "False", "", "softmax: only the first `length` values of each row are used, the others give 0")
MX_ATTRS(softmax, SOFTMAX_ATTRS)

#define SOFTMAX_ACTIVATION_ATTRS(X) X(ENUM, mode, "instance", "instance|channel", "normalise over all axes but 0, or over axis 1")
MX_ATTRS(softmax_activation, SOFTMAX_ACTIVATION_ATTRS)

#define SOFTMAX_CE_ATTRS(X) \
    X(INT, axis, "-1", "", "axis of the classes") \
    X(BOOL, sparse_label, "True", "", "labels are class indices; else distributions of the shape of pred")
MX_ATTRS(softmax_ce, SOFTMAX_CE_ATTRS)

enum { SOFTMAX, LOG_SOFTMAX, SOFTMIN };

/* ---- inference -------------------------------------------------------------------------------------------- */

static mx_code find_axis(const mx_infer *infer, const mx_shape_t *shape, int64_t axis, int *found)
{
    char text[MX_SHAPE_TEXT];
    *found = mx_axis(axis, shape->ndim);
    if (*found >= 0)
        return MX_OK;
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "axis %lld does not exist in data of shape %s", (long long)axis,
                      mx_shape_text(shape, text));
}

/* The shape without the axis; classic arrays have at least one axis. */
static mx_shape_t without_axis(const mx_shape_t *shape, int axis)
{
    mx_shape_t rest = {.ndim = 0};
    for (int i = 0; i < shape->ndim; i++)
        if (i != axis)
            rest.dim[rest.ndim++] = shape->dim[i];
    if (!rest.ndim)
        rest.dim[rest.ndim++] = 1;
    return rest;
}

static mx_code infer_softmax(mx_infer *infer)
{
    const mx_softmax_attrs *attrs = infer->attrs;
    int axis;
    if (mx_infer_out(infer, 0, &infer->in[0]) || mx_infer_in(infer, 0, &infer->out[0]))
        return mx_error_code();
    if (infer->in[0].ndim < 0)
        return MX_OK;
    if (find_axis(infer, &infer->in[0], attrs->axis, &axis))
        return mx_error_code();
    if (infer->n_in < 2 || !attrs->use_length)
        return MX_OK;
    mx_shape_t rest = without_axis(&infer->in[0], axis);
    return mx_infer_in(infer, 1, &rest);
}

static mx_code infer_softmax_type(mx_infer *infer)
{
    const mx_softmax_attrs *attrs = infer->attrs;
    return mx_infer_out_type(infer, 0, attrs->dtype == MX_DTYPE_NONE ? infer->in_type[0] : (int)attrs->dtype);
}

static mx_code check_softmax(const void *a)
{
    const mx_softmax_attrs *attrs = a;
    if (attrs->temperature == 0)
        return mx_fail(MX_ERR_ATTRIBUTE, "softmax: temperature is 0, wanted a nonzero number");
    if (attrs->dtype != MX_DTYPE_NONE && !mx_dtype_is_float(attrs->dtype))
        return mx_fail(MX_ERR_ATTRIBUTE, "softmax: dtype is %s, wanted a floating type", mx_dtype_name(attrs->dtype));
    return MX_OK;
}

static mx_code check_without_length(const void *a)
{
    const mx_softmax_attrs *attrs = a;
    if (attrs->use_length)
        return mx_fail(MX_ERR_ATTRIBUTE, "log_softmax, softmin: use_length is True, only softmax takes a length");
    return check_softmax(a);
}

static int count_softmax_in(const void *a) { return ((const mx_softmax_attrs *)a)->use_length ? 2 : 1; }

/* _backward_*(ograd, output) */
static mx_code infer_softmax_backward(mx_infer *infer)
{
    int axis;
    if (mx_infer_same_shape(infer))
        return mx_error_code();
    return infer->in[0].ndim < 0
               ? MX_OK
               : find_axis(infer, &infer->in[0], ((const mx_softmax_attrs *)infer->attrs)->axis, &axis);
}

/* ---- gradients of softmax --------------------------------------------------------------------------------- */

static mx_array *sum_axis(mx_array *x, int64_t axis)
{
    char text[64];
    snprintf(text, sizeof text, "axis=%lld, keepdims=True", (long long)axis);
    return mx_g_text(MX_OP("sum"), text, 1, &x);
}

static mx_array *cast(mx_array *x, int type)
{
    char text[48];
    if (!x || x->dtype == type)
        return x;
    snprintf(text, sizeof text, "dtype=%s", mx_dtype_name((mx_dtype)type));
    return mx_g_text(MX_OP("Cast"), text, 1, &x);
}

/* softmax:     dx = y (g - sum(g y)) / t
 * softmin:     dx = -y (g - sum(g y)) / t
 * log_softmax: dx = (g - exp(y) sum(g)) / t */
static mx_code softmax_gradient(mx_grad *grad, mx_op *fused, int kind)
{
    mx_softmax_attrs attrs = *(const mx_softmax_attrs *)grad->attrs;
    mx_array *g = grad->ograd[0], *y = grad->out[0];
    if (!grad->create_graph) {
        attrs.dtype = (mx_dtype)grad->in_type[0];
        return mx_give(grad, 0, mx_g_call(fused, &attrs, 2, (mx_array *const[]){g, y}));
    }
    const double scale = (kind == SOFTMIN ? -1 : 1) / (isnan(attrs.temperature) ? 1 : attrs.temperature);
    mx_array *dx = kind == LOG_SOFTMAX ? mx_g_sub(g, mx_g_mul(mx_g1("exp", y), sum_axis(g, attrs.axis)))
                                       : mx_g_mul(y, mx_g_sub(g, sum_axis(mx_g_mul(g, y), attrs.axis)));
    return mx_give(grad, 0, cast(scale == 1 ? dx : mx_g_scale(dx, scale), grad->in_type[0]));
}
static mx_code grad_softmax(mx_grad *grad) { return softmax_gradient(grad, MX_OP("_backward_softmax"), SOFTMAX); }
static mx_code grad_log_softmax(mx_grad *grad)
{
    return softmax_gradient(grad, MX_OP("_backward_log_softmax"), LOG_SOFTMAX);
}
static mx_code grad_softmin(mx_grad *grad) { return softmax_gradient(grad, MX_OP("_backward_softmin"), SOFTMIN); }

/* Mode instance is a softmax over everything but axis 0, mode channel over axis 1. */
static mx_code grad_activation(mx_grad *grad)
{
    const mx_softmax_activation_attrs *attrs = grad->attrs;
    mx_softmax_attrs softmax = {.axis = 1, .temperature = NAN, .dtype = MX_DTYPE_NONE};
    mx_array *g = grad->ograd[0], *y = grad->out[0];
    const mx_shape_t *full = &grad->in_shape[0];
    if (attrs->mode == 0) {
        const int64_t rows = full->dim[0], size = mx_shape_size(full);
        mx_shape_t flat = {.ndim = 2, .dim = {rows, rows ? size / rows : 0}};
        g = mx_g_reshape(g, &flat), y = mx_g_reshape(y, &flat);
    }
    mx_array *dx = grad->create_graph ? mx_g_mul(y, mx_g_sub(g, sum_axis(mx_g_mul(g, y), 1)))
                                      : mx_g_call(MX_OP("_backward_softmax"), &softmax, 2, (mx_array *const[]){g, y});
    return mx_give(grad, 0, mx_g_reshape(dx, full));
}

static mx_code infer_activation(mx_infer *infer)
{
    if (infer->in[0].ndim >= 0 && infer->in[0].ndim < 2) {
        char text[MX_SHAPE_TEXT];
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted two axes or more",
                          mx_shape_text(&infer->in[0], text));
    }
    return mx_infer_same_shape(infer);
}

/* ---- cross entropy ---------------------------------------------------------------------------------------- */

/* pred (.., n, ..), label without the axis (or with 1 there) -> loss, lse with 1 at the axis. */
static mx_code infer_ce(mx_infer *infer)
{
    const mx_softmax_ce_attrs *attrs = infer->attrs;
    const mx_shape_t *pred = &infer->in[0];
    int axis;
    if (pred->ndim < 0)
        return MX_OK;
    if (find_axis(infer, pred, attrs->axis, &axis))
        return mx_error_code();
    mx_shape_t kept = *pred, rest = without_axis(pred, axis);
    kept.dim[axis] = 1;
    const bool kept_label = infer->in[1].ndim == kept.ndim && kept.ndim > 1;
    if (mx_infer_in(infer, 1, !attrs->sparse_label ? pred : kept_label ? &kept : &rest))
        return mx_error_code();
    return mx_infer_out(infer, 0, &kept) || mx_infer_out(infer, 1, &kept) ? mx_error_code() : MX_OK;
}

/* The logarithm has at least 32 bits: the gradient exponentiates differences with it. */
static mx_code infer_ce_type(mx_infer *infer)
{
    const int type = infer->in_type[0];
    const int wide = mx_dtype_is_narrow(type) ? MX_FLOAT32 : type;
    if (mx_infer_out_type(infer, 0, type) || mx_infer_out_type(infer, 1, wide))
        return mx_error_code();
    if (infer->in_type[1] == MX_DTYPE_NONE)
        infer->in_type[1] = infer->in_type[0];
    return MX_OK;
}

/* Sparse: (N, C), (N) -> (1), lse (N, 1). */
static mx_code audit_total_ce(const mx_kernel_call *call) /* labels are classes */
{
    return mx_audit_indices(call, 1, 0, call->in[0]->shape[1], NAN);
}

static mx_code infer_total_ce(mx_infer *infer)
{
    const mx_shape_t *data = &infer->in[0];
    mx_shape_t one = {.ndim = 1, .dim = {1}};
    if (mx_infer_out(infer, 0, &one))
        return mx_error_code();
    if (data->ndim < 0)
        return MX_OK;
    if (data->ndim != 2) {
        char text[MX_SHAPE_TEXT];
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted (batch, classes)",
                          mx_shape_text(data, text));
    }
    mx_shape_t rows = {.ndim = 1, .dim = {data->dim[0]}}, kept = {.ndim = 2, .dim = {data->dim[0], 1}};
    return mx_infer_in(infer, 1, &rows) || mx_infer_out(infer, 1, &kept) ? mx_error_code() : MX_OK;
}

/* _backward_softmax_ce(ograd, pred, label, lse) */
static mx_code infer_ce_backward(mx_infer *infer)
{
    if (mx_infer_through(infer, infer_ce, (const int[]){1, 2, -2}, (const int[]){0, 3, -2}))
        return mx_error_code();
    return mx_infer_out(infer, 0, &infer->in[1]);
}
static mx_code infer_ce_backward_type(mx_infer *infer) { return mx_infer_out_type(infer, 0, infer->in_type[1]); }

/* _softmax_ce_gradient(pred, label, ograd) -> loss, gradient of pred */
static mx_code infer_ce_gradient(mx_infer *infer)
{
    if (mx_infer_through(infer, infer_ce, (const int[]){0, 1, -2}, (const int[]){2, 2, -2}))
        return mx_error_code();
    if (mx_shape_known(&infer->in[2]) && mx_infer_out(infer, 0, &infer->in[2]))
        return mx_error_code();
    return mx_infer_out(infer, 1, &infer->in[0]);
}
static mx_code infer_ce_gradient_type(mx_infer *infer)
{
    if (infer->in_type[1] == MX_DTYPE_NONE)
        infer->in_type[1] = infer->in_type[0];
    return mx_infer_in_type(infer, 2, infer->in_type[0]) || mx_infer_out_type(infer, 0, infer->in_type[0]) ||
                   mx_infer_out_type(infer, 1, infer->in_type[0])
               ? mx_error_code()
               : MX_OK;
}

/* dpred = g (softmax(pred) - onehot(label)).  The fused operator computes the bracket; for higher orders its value is
 * rebuilt around a differentiable softmax: softmax(pred) + (value - softmax(pred) as constants). */
static mx_array *ce_pred_gradient(mx_grad *grad, const mx_softmax_ce_attrs *attrs, mx_array *g, mx_array *lse)
{
    mx_op *fused = MX_OP("_backward_softmax_ce"), *softmax = MX_OP("softmax");
    mx_array *pred = grad->in[0], *label = grad->in[1];
    if (!grad->create_graph)
        return mx_g_call(fused, attrs, 4, (mx_array *const[]){g, pred, label, lse});
    mx_softmax_attrs over = {.axis = attrs->axis, .temperature = NAN, .dtype = MX_DTYPE_NONE};
    mx_array *p = mx_g_call(softmax, &over, 1, &pred);
    if (!attrs->sparse_label)
        return mx_g_mul(g, mx_g_sub(mx_g_mul(p, sum_axis(label, attrs->axis)), label));
    mx_array *fixed = mx_detach(pred), *ones = mx_g1("ones_like", mx_detach(lse));
    mx_array *value = mx_g_call(fused, attrs, 4, (mx_array *const[]){ones, fixed, mx_detach(label), mx_detach(lse)});
    mx_array *constant = mx_g_sub(value, mx_g_call(softmax, &over, 1, &fixed));
    return mx_g_mul(g, mx_g_add(p, constant));
}

static mx_code grad_ce(mx_grad *grad)
{
    const mx_softmax_ce_attrs *attrs = grad->attrs;
    if (grad->ograd[1])
        return mx_op_fail(grad->op, MX_ERR_AUTOGRAD, "the hidden output has no gradient");
    if (grad->wanted[0] && mx_give(grad, 0, ce_pred_gradient(grad, attrs, grad->ograd[0], grad->out[1])))
        return mx_error_code();
    if (!grad->wanted[1] || attrs->sparse_label)
        return MX_OK;
    mx_softmax_attrs over = {.axis = attrs->axis, .temperature = NAN, .dtype = MX_DTYPE_NONE}; /* dlabel = -g log p */
    mx_array *log_p = mx_g_call(MX_OP("log_softmax"), &over, 1, &grad->in[0]);
    return mx_give(grad, 1, cast(mx_g_neg(mx_g_mul(grad->ograd[0], log_p)), grad->in_type[1]));
}

static mx_code grad_total_ce(mx_grad *grad)
{
    const mx_softmax_ce_attrs attrs = {.axis = 1, .sparse_label = true};
    const mx_shape_t rows = {.ndim = 2, .dim = {grad->in_shape[0].dim[0], 1}}, one = {.ndim = 2, .dim = {1, 1}};
    mx_array *g = mx_g_broadcast_to(mx_g_reshape(grad->ograd[0], &one), &rows);
    return mx_give(grad, 0, ce_pred_gradient(grad, &attrs, g, grad->out[1]));
}

/* ---- references ------------------------------------------------------------------------------------------- */

/* One row: n values, `step` apart, of which the first `valid` are used. */
static void row_reference(const double *x, double *y, int64_t n, int64_t step, int64_t valid, double scale,
                          bool logarithm)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < valid; i++)
        max = fmax(max, x[i * step] * scale);
    for (int64_t i = 0; i < valid; i++)
        sum += exp(x[i * step] * scale - max);
    for (int64_t i = 0; i < n; i++) {
        const double shifted = x[i * step] * scale - max;
        y[i * step] = i >= valid ? 0 : logarithm ? shifted - log(sum) : exp(shifted) / sum;
    }
}

static void softmax_reference(const mx_reference_call *call, int kind)
{
    const mx_softmax_attrs *attrs = call->attrs;
    const mx_split s = mx_split_at(&call->in_shape[0], mx_axis(attrs->axis, call->in_shape[0].ndim));
    const double scale = (kind == SOFTMIN ? -1 : 1) / (isnan(attrs->temperature) ? 1 : attrs->temperature);
    for (int64_t o = 0; o < s.before; o++)
        for (int64_t i = 0; i < s.after; i++) {
            const int64_t at = o * s.size * s.after + i;
            double valid = attrs->use_length ? call->in[1][o * s.after + i] : (double)s.size;
            valid = fmax(0, fmin(valid, (double)s.size));
            row_reference(call->in[0] + at, call->out[0] + at, s.size, s.after, (int64_t)valid, scale,
                          kind == LOG_SOFTMAX);
        }
}
static void ref_softmax(const mx_reference_call *call) { softmax_reference(call, SOFTMAX); }
static void ref_log_softmax(const mx_reference_call *call) { softmax_reference(call, LOG_SOFTMAX); }
static void ref_softmin(const mx_reference_call *call) { softmax_reference(call, SOFTMIN); }

static void ref_activation(const mx_reference_call *call)
{
    const mx_softmax_activation_attrs *attrs = call->attrs;
    const mx_shape_t *shape = &call->in_shape[0];
    mx_split s = mx_split_at(shape, 1);
    if (attrs->mode == 0)
        s = (mx_split){shape->dim[0], s.size * s.after, 1};
    for (int64_t o = 0; o < s.before; o++)
        for (int64_t i = 0; i < s.after; i++) {
            const int64_t at = o * s.size * s.after + i;
            row_reference(call->in[0] + at, call->out[0] + at, s.size, s.after, s.size, 1, false);
        }
}

static void backward_reference(const mx_reference_call *call, int kind)
{
    const mx_softmax_attrs *attrs = call->attrs;
    const mx_split s = mx_split_at(&call->in_shape[0], mx_axis(attrs->axis, call->in_shape[0].ndim));
    const double scale = (kind == SOFTMIN ? -1 : 1) / (isnan(attrs->temperature) ? 1 : attrs->temperature);
    for (int64_t o = 0; o < s.before; o++)
        for (int64_t i = 0; i < s.after; i++) {
            const int64_t at = o * s.size * s.after + i;
            const double *g = call->in[0] + at, *y = call->in[1] + at;
            double sum = 0;
            for (int64_t k = 0; k < s.size; k++)
                sum += g[k * s.after] * (kind == LOG_SOFTMAX ? 1 : y[k * s.after]);
            for (int64_t k = 0; k < s.size; k++) {
                const double gk = g[k * s.after], yk = y[k * s.after];
                call->out[0][at + k * s.after] = scale * (kind == LOG_SOFTMAX ? gk - exp(yk) * sum : yk * (gk - sum));
            }
        }
}
static void ref_backward_softmax(const mx_reference_call *call) { backward_reference(call, SOFTMAX); }
static void ref_backward_log_softmax(const mx_reference_call *call) { backward_reference(call, LOG_SOFTMAX); }
static void ref_backward_softmin(const mx_reference_call *call) { backward_reference(call, SOFTMIN); }

static int64_t class_of(double label, int64_t n) { return label < 0 ? 0 : label >= (double)n ? n - 1 : (int64_t)label; }

static double lse_reference(const double *x, int64_t n, int64_t step)
{
    double max = -INFINITY, sum = 0;
    for (int64_t k = 0; k < n; k++)
        max = fmax(max, x[k * step]);
    for (int64_t k = 0; k < n; k++)
        sum += exp(x[k * step] - max);
    return max + log(sum);
}

static void ref_ce(const mx_reference_call *call)
{
    const mx_softmax_ce_attrs *attrs = call->attrs;
    const mx_split s = mx_split_at(&call->in_shape[0], mx_axis(attrs->axis, call->in_shape[0].ndim));
    for (int64_t row = 0; row < s.before * s.after; row++) {
        const int64_t at = row / s.after * s.size * s.after + row % s.after;
        const double *x = call->in[0] + at, *label = call->in[1], lse = lse_reference(x, s.size, s.after);
        double loss = 0;
        if (attrs->sparse_label)
            loss = lse - x[class_of(label[row], s.size) * s.after];
        for (int64_t k = 0; k < s.size && !attrs->sparse_label; k++)
            loss += label[at + k * s.after] * (lse - x[k * s.after]);
        call->out[0][row] = loss;
        if (call->n_out > 1)
            call->out[1][row] = lse;
    }
}

static void ref_total_ce(const mx_reference_call *call)
{
    const int64_t rows = call->in_shape[0].dim[0], n = call->in_shape[0].dim[1];
    call->out[0][0] = 0;
    for (int64_t row = 0; row < rows; row++) {
        const double *x = call->in[0] + row * n, lse = lse_reference(x, n, 1);
        call->out[0][0] += lse - x[class_of(call->in[1][row], n)];
        if (call->n_out > 1)
            call->out[1][row] = lse;
    }
}

/* lse NULL: not known yet */
static void backward_ce_reference(const mx_reference_call *call, const mx_shape_t *shape, const double *g,
                                  const double *pred, const double *label, const double *lse, double *dx)
{
    const mx_softmax_ce_attrs *attrs = call->attrs;
    const mx_split s = mx_split_at(shape, mx_axis(attrs->axis, shape->ndim));
    for (int64_t row = 0; row < s.before * s.after; row++) {
        const int64_t at = row / s.after * s.size * s.after + row % s.after;
        const double total = lse ? lse[row] : lse_reference(pred + at, s.size, s.after);
        double mass = 0;
        for (int64_t k = 0; k < s.size; k++)
            mass += attrs->sparse_label ? (double)(k == 0) : label[at + k * s.after];
        for (int64_t k = 0; k < s.size; k++) {
            const int64_t i = at + k * s.after;
            const double target = attrs->sparse_label ? k == class_of(label[row], s.size) : label[i];
            dx[i] = g[row] * (mass * exp(pred[i] - total) - target);
        }
    }
}

static void ref_backward_ce(const mx_reference_call *call)
{
    const double *const *in = call->in;
    backward_ce_reference(call, &call->in_shape[1], in[0], in[1], in[2], in[3], call->out[0]);
}

static void ref_ce_gradient(const mx_reference_call *call)
{
    const double *const *in = call->in;
    mx_reference_call loss = *call;
    loss.n_out = 1;
    ref_ce(&loss);
    backward_ce_reference(call, &call->in_shape[0], in[2], in[0], in[1], NULL, call->out[1]);
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_form(const mx_emit_call *n, double sign, bool logs)
{
    const mx_softmax_attrs *attrs = n->attrs;
    const double scale = attrs->temperature == attrs->temperature ? 1 / attrs->temperature : 1;
    return mx_emit_softmax(n, mx_split_at(n->x, mx_axis(attrs->axis, n->x->ndim)), sign * scale, logs,
                           attrs->use_length ? mx_emit_or_null(n, 1) : "NULL");
}
static mx_code emit_softmax(const mx_emit_call *n) { return emit_form(n, 1, false); }
static mx_code emit_log_softmax(const mx_emit_call *n) { return emit_form(n, 1, true); }
static mx_code emit_softmin(const mx_emit_call *n) { return emit_form(n, -1, false); }

static mx_code emit_activation(const mx_emit_call *n)
{
    const mx_softmax_activation_attrs *attrs = n->attrs;
    return mx_emit_softmax(n, attrs->mode == 1 /* channel */ ? mx_split_at(n->x, 1) : mx_emit_rows(n), 1, false,
                           "NULL");
}

/* loss (..., 1) = -log softmax(data)[label], or -sum label * log softmax(data) */
static mx_code emit_ce(const mx_emit_call *n)
{
    const mx_softmax_ce_attrs *attrs = n->attrs;
    mx_emit_open(n, "cross_entropy", 2);
    mx_emit_split(n, mx_split_at(n->x, mx_axis(attrs->axis, n->x->ndim)));
    mx_emit_print(n, ", %d", attrs->sparse_label);
    return mx_emit_close(n);
}

/* ---- the table -------------------------------------------------------------------------------------------- */

#define BACKWARD MX_OP_HIDDEN | MX_OP_NO_GRADIENT
#define AXIS_SAMPLES                                                                                                 \
    {"2,3", "", 0, 0, NULL}, {"2,3,4", "axis=1", 0, 0, NULL}, {"3,1,70", "axis=0", 0, 0, NULL},                      \
    {"5", "temperature=2", 0, 0, NULL}, {"2,37", "axis=-1, temperature=0.5", 0, 0, NULL},                            \
    {"2,3", "axis=0, temperature=-1.5", 0, 0, NULL}, {"3,5", "dtype=float64", 0, 0, "f32only"},                      \
    {"0,4", "", 0, 0, NULL}, {"3,1", "", 0, 0, NULL}, {"2,2500", "", 0, 0, "nograd"}, {"90,19", "temperature=2", 0, 0, "nograd"}
#define BACKWARD_SAMPLES                                                                                             \
    (const mx_sample[]){{"2,37;2,37", "", 0, 0, NULL}, {"2,3,4;2,3,4", "axis=1, temperature=2", 0, 0, NULL}, {0}}

mx_op mx_family_softmax[] = {
    {.name = "softmax", MX_EMIT(emit_softmax), .look = MX_LOOK_SOFTMAX, .methods = "softmax",
     .precision = MX_PRECISION_FLOAT32,
     .aliases = "_npx_softmax",
     .inputs = "data length?",
     .schema = &softmax_schema,
     .doc = "exp(x) divided by its sum along an axis: y[i] = exp(x[i] / temperature) / sum over j of exp(x[j] / temperature)", .flags = MX_OP_INPLACE, .count_in = count_softmax_in,
     .infer_shape = infer_softmax, .infer_type = infer_softmax_type, .check = check_softmax, .gradient = grad_softmax,
     .grad_out = 1, .no_grad_inputs = 2, .reference = ref_softmax,
     .samples = (const mx_sample[]){AXIS_SAMPLES, {"3,4;3", "use_length=True", 0, 5, "int:1"},
                                    {"2,3,4;2,4", "axis=1, use_length=True", 0, 4, "int:1"}, {0}}},
    {.name = "log_softmax", .input_named = true, MX_EMIT(emit_log_softmax, .reads = 1), .look = MX_LOOK_SOFTMAX,
     .methods = "log_softmax", .precision = MX_PRECISION_FLOAT32,
     .aliases = "_npx_log_softmax",
     .inputs = "data",
     .schema = &softmax_schema,
     .doc = "logarithm of softmax, numerically stable: y[i] = x[i] - log(sum over j of exp(x[j]))", .flags = MX_OP_INPLACE, .infer_shape = infer_softmax,
     .infer_type = infer_softmax_type, .check = check_without_length, .gradient = grad_log_softmax, .grad_out = 1,
     .samples = (const mx_sample[]){AXIS_SAMPLES, {0}}, .reference = ref_log_softmax},
    {.name = "softmin", MX_EMIT(emit_softmin, .reads = 1), .methods = "softmin", .precision = MX_PRECISION_FLOAT32,
     .inputs = "data",
     .schema = &softmax_schema,
     .doc = "softmax of -x; exp(-x) over its sum along the axis", .flags = MX_OP_INPLACE,
     .infer_shape = infer_softmax, .infer_type = infer_softmax_type, .check = check_without_length,
     .gradient = grad_softmin, .grad_out = 1, .samples = (const mx_sample[]){AXIS_SAMPLES, {0}}, .reference = ref_softmin},
    {.name = "_backward_softmax", .inputs = "ograd output", .schema = &softmax_schema, .doc = "gradient of softmax",
     .flags = BACKWARD | MX_OP_INPLACE, .infer_shape = infer_softmax_backward, .infer_type = infer_softmax_type, .check = check_softmax,
     .samples = BACKWARD_SAMPLES, .reference = ref_backward_softmax},
    {.name = "_backward_log_softmax", .inputs = "ograd output", .schema = &softmax_schema, .doc = "gradient of log_softmax",
     .flags = BACKWARD | MX_OP_INPLACE, .infer_shape = infer_softmax_backward, .infer_type = infer_softmax_type, .check = check_softmax,
     .samples = BACKWARD_SAMPLES, .reference = ref_backward_log_softmax},
    {.name = "_backward_softmin", .inputs = "ograd output", .schema = &softmax_schema, .doc = "gradient of softmin",
     .flags = BACKWARD | MX_OP_INPLACE, .infer_shape = infer_softmax_backward, .infer_type = infer_softmax_type, .check = check_softmax,
     .samples = BACKWARD_SAMPLES, .reference = ref_backward_softmin},
    {.name = "SoftmaxActivation", MX_EMIT(emit_activation), .look = MX_LOOK_ACTIVATION,
     .precision = MX_PRECISION_FLOAT32, .inputs = "data",
     .schema = &softmax_activation_schema, .flags = MX_OP_INPLACE,
     .doc = "softmax over each sample, or over the channels of each position", .infer_shape = infer_activation,
     .gradient = grad_activation, .grad_out = 1, .reference = ref_activation,
     .samples = (const mx_sample[]){{"2,3", "", 0, 0, NULL}, {"2,3,4", "", 0, 0, NULL}, {"2,3,4", "mode=channel", 0, 0, NULL}, {0}}},
    {.name = "_softmax_ce", MX_EMIT(emit_ce), .inputs = "pred label", .outputs = "loss lse",
     .schema = &softmax_ce_schema,
     .doc = "cross entropy of softmax(pred) and labels, per sample; the axis stays with size 1; class indices out of "
            "range are clipped to the nearest class",
     .n_out = 2, .n_visible = 1, .infer_shape = infer_ce, .infer_type = infer_ce_type, .gradient = grad_ce, .grad_in = 3,
     .grad_out = 2, .reference = ref_ce, .flags = MX_OP_HIDDEN,
     .samples = (const mx_sample[]){{"4,3;4", "", 0, 3, "int:1"}, {"2,70;2", "", 0, 70, "int:1"}, {"2,2500;2", "", 0, 50, "int:1 nograd"},
                                    {"2,3,4;2,4", "axis=1", 0, 3, "int:1"}, {"3,5;3,5", "sparse_label=False", 0.1, 1, NULL},
                                    {"2,3,4;2,3,4", "axis=1, sparse_label=False", 0.1, 1, NULL}, {0}}},
    {.name = "_backward_softmax_ce", .inputs = "ograd pred label lse", .schema = &softmax_ce_schema, .flags = BACKWARD,
     .doc = "gradient of cross entropy with respect to pred", .infer_shape = infer_ce_backward, .infer_type = infer_ce_backward_type,
     .reference = ref_backward_ce,
     .samples = (const mx_sample[]){{"4,1;4,3;4;4,1", "", 0, 3, "int:2"}, {"2,1,4;2,3,4;2,4;2,1,4", "axis=1", 0, 3, "int:2"},
                                    {"3,1;3,5;3,5;3,1", "sparse_label=False", 0.1, 1, NULL}, {0}}},
    {.name = "_softmax_ce_gradient", .inputs = "pred label ograd", .outputs = "loss gradient", .schema = &softmax_ce_schema,
     .doc = "cross entropy and its gradient with respect to pred, fused by plans", .n_out = 2, .flags = BACKWARD | MX_OP_SECOND_INPLACE,
     .infer_shape = infer_ce_gradient, .infer_type = infer_ce_gradient_type, .reference = ref_ce_gradient,
     .samples = (const mx_sample[]){{"4,3;4;4,1", "", 0, 3, "int:1"}, {"2,3,4;2,4;2,1,4", "axis=1", 0, 3, "int:1"},
                                    {"5,200;5;5,1", "", 0, 200, "int:1"}, {"2,2500;2;2,1", "", 0, 50, "int:1"},
                                    {"3,5;3,5;3,1", "sparse_label=False", 0.1, 1, NULL}, {0}}},
    {.name = "softmax_cross_entropy", .look = MX_LOOK_SOFTMAX, .flags = MX_OP_LOSS, .precision = MX_PRECISION_FLOAT32,
     .inputs = "data label",
     .outputs = "output lse",
     .doc = "sum over the batch of the cross entropy of softmax(data) and class indices: y = -sum over n of log softmax(data[n])[label[n]]", .n_out = 2, .n_visible = 1,
     .infer_shape = infer_total_ce, .infer_type = infer_ce_type, .audit = audit_total_ce, .gradient = grad_total_ce, .grad_in = 3, .grad_out = 2,
     .no_grad_inputs = 2, .reference = ref_total_ce,
     .samples = (const mx_sample[]){{"4,3;4", "", 0, 3, "int:1"}, {"1,40;1", "", 0, 40, "int:1"}, {0}}},
    {0},
};
