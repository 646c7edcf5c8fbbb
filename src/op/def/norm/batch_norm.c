/* BatchNorm: values of a channel are shifted and scaled to mean 0 and variance 1 over the batch, then by beta and gamma.
 *
 * In training mode the batch statistics are used and the running ones (inputs 3 and 4) are updated;
 * otherwise the running ones are used.  The outputs `mean` and `var` are the mean that was subtracted and the factor
 * 1 / sqrt(variance + eps); no gradient flows through them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "ndarray/dtype.h"
#include "op/emit.h"
#include "op/expect.h"
#include "op/formula/pointwise_numbers.h"
#include "op/op.h"
#include "op/walk.h"

#define STATISTICS(X) \
    X(FLOAT, momentum, "0.9", "", "weight of the old values in the running statistics") \
    X(BOOL, fix_gamma, "True", "", "treat gamma as 1, without a gradient") \
    X(BOOL, use_global_stats, "False", "", "use the running statistics in training mode, too") \
    X(BOOL, output_mean_var, "False", "", "also return the mean and the inverse standard deviation")
#define CALIBRATION(X) \
    X(BOOL, cudnn_off, "False", "", "accepted for compatibility") \
    X(FLOAT, min_calib_range, "None", "", "accepted for compatibility") \
    X(FLOAT, max_calib_range, "None", "", "accepted for compatibility")
#define BATCH_NORM_ATTRS(X) \
    X(FLOAT, eps, "1e-3", "", "added to the variance") STATISTICS(X) X(INT, axis, "1", "", "axis of the channels") CALIBRATION(X)
MX_ATTRS(batch_norm, BATCH_NORM_ATTRS)

#define SYNC_BATCH_NORM_ATTRS(X) \
    X(FLOAT, eps, "1e-3", "", "added to the variance") STATISTICS(X) \
    X(INT, ndev, "1", "1..", "number of devices; statistics are not synchronised between them") \
    X(STR, key, REQUIRED, "", "name of the layer that the devices share")
MX_ATTRS(sync_batch_norm, SYNC_BATCH_NORM_ATTRS)

#define BATCH_NORM_BACKWARD_ATTRS(X) \
    X(INT, axis, "1", "", "axis of the channels") \
    X(BOOL, fix_gamma, "False", "", "treat gamma as 1") \
    X(BOOL, batch_statistics, "True", "", "mean and variance depend on the data")
MX_ATTRS(batch_norm_backward, BATCH_NORM_BACKWARD_ATTRS)

/* What the operators have in common. */
typedef struct settings {
    double eps;
    bool fix_gamma, use_global_stats;
    int64_t axis;
} settings;

static settings settings_of(const mx_op *op, const void *attrs)
{
    if (op->schema == &batch_norm_schema) {
        const mx_batch_norm_attrs *a = attrs;
        return (settings){a->eps, a->fix_gamma, a->use_global_stats, a->axis};
    }
    const mx_sync_batch_norm_attrs *a = attrs;
    return (settings){a->eps, a->fix_gamma, a->use_global_stats, 1};
}

static int visible(const void *a) { return ((const mx_batch_norm_attrs *)a)->output_mean_var ? 3 : 1; }
static int visible_sync(const void *a) { return ((const mx_sync_batch_norm_attrs *)a)->output_mean_var ? 3 : 1; }

/* ---- inference -------------------------------------------------------------------------------------------- */

static mx_code infer_shape(mx_infer *infer)
{
    const settings s = settings_of(infer->op, infer->attrs);
    if (mx_infer_out(infer, 0, &infer->in[0]) || mx_infer_in(infer, 0, &infer->out[0]))
        return mx_error_code();
    const mx_shape_t *data = &infer->in[0];
    if (data->ndim < 0)
        return MX_OK;
    const int axis = mx_axis(s.axis, data->ndim);
    char text[MX_SHAPE_TEXT];
    if (axis < 0)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "axis %lld does not exist in data of shape %s", (long long)s.axis,
                          mx_shape_text(data, text));
    const mx_shape_t channels = {.ndim = 1, .dim = {data->dim[axis]}};
    for (int i = 1; i < 5; i++)
        if (mx_infer_expects(infer, i, 1, 0, 1, data->dim[axis], "channels") || mx_infer_in(infer, i, &channels))
            return mx_error_code();
    return mx_infer_out(infer, 1, &channels) || mx_infer_out(infer, 2, &channels) ? mx_error_code() : MX_OK;
}

/* With 16-bit data everything else is float32. */
static mx_code infer_type(mx_infer *infer)
{
    const int data = infer->in_type[0] != MX_DTYPE_NONE ? infer->in_type[0] : infer->out_type[0];
    if (data == MX_DTYPE_NONE)
        return MX_OK;
    if (mx_infer_in_type(infer, 0, data) || mx_infer_out_type(infer, 0, data))
        return mx_error_code();
    const bool narrow = mx_dtype_is_narrow(data);
    for (int i = 1; i < 5; i++) {
        if (infer->in_type[i] == MX_DTYPE_NONE)
            infer->in_type[i] = narrow ? MX_FLOAT32 : data;
        if (infer->in_type[i] != data && !(narrow && infer->in_type[i] == MX_FLOAT32))
            return mx_infer_in_type(infer, i, narrow ? MX_FLOAT32 : data);
    }
    return mx_infer_out_type(infer, 1, infer->in_type[1]) || mx_infer_out_type(infer, 2, infer->in_type[1])
               ? mx_error_code()
               : MX_OK;
}

/* The fourth output, a workspace in other libraries, is empty. */
static mx_code infer_with_relu(mx_infer *infer)
{
    const mx_shape_t empty = {.ndim = 1, .dim = {0}};
    return mx_infer_out(infer, 3, &empty) ? mx_error_code() : infer_shape(infer);
}
static mx_code infer_with_relu_type(mx_infer *infer)
{
    return mx_infer_out_type(infer, 3, MX_UINT8) ? mx_error_code() : infer_type(infer);
}

/* _backward_BatchNorm(ograd, data, gamma, mean, inverse deviation) -> ddata, dgamma, dbeta */
static mx_code infer_backward(mx_infer *infer)
{
    const mx_shape_t *data = &infer->in[1];
    const int axis =
        data->ndim < 0 ? 0 : mx_axis(((const mx_batch_norm_backward_attrs *)infer->attrs)->axis, data->ndim);
    if (axis < 0)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has %d axes, so there is no channel axis", data->ndim);
    if (mx_infer_in(infer, 0, data))
        return mx_error_code();
    const mx_shape_t channels = {.ndim = 1, .dim = {data->ndim < 0 ? -1 : data->dim[axis]}};
    for (int i = 2; i < 5; i++)
        if (mx_infer_in(infer, i, &channels))
            return mx_error_code();
    if (mx_infer_out(infer, 0, &infer->in[1]) || mx_infer_out(infer, 1, &infer->in[2]) ||
        mx_infer_out(infer, 2, &infer->in[2]))
        return mx_error_code();
    return MX_OK;
}
static mx_code infer_backward_type(mx_infer *infer)
{
    if (mx_infer_in_type(infer, 0, infer->in_type[1]) || mx_infer_in_type(infer, 3, infer->in_type[2]) ||
        mx_infer_in_type(infer, 4, infer->in_type[2]))
        return mx_error_code();
    if (mx_infer_out_type(infer, 0, infer->in_type[1]) || mx_infer_out_type(infer, 1, infer->in_type[2]) ||
        mx_infer_out_type(infer, 2, infer->in_type[2]))
        return mx_error_code();
    return MX_OK;
}

/* ---- gradient --------------------------------------------------------------------------------------------- */

/* v (C) as (1, C, 1, ...) */
static mx_array *as_channels(mx_array *v, const mx_shape_t *data, int axis)
{
    mx_shape_t shape = {.ndim = data->ndim};
    for (int i = 0; i < data->ndim; i++)
        shape.dim[i] = i == axis ? data->dim[i] : 1;
    return mx_g_reshape(v, &shape);
}

/* Sum over everything but the channels, which stay as (1, C, 1, ...). */
static mx_array *channel_sum(mx_array *x, int axis)
{
    char text[64];
    snprintf(text, sizeof text, "axis=%d, exclude=True, keepdims=True", axis);
    return mx_g_text(MX_OP("sum"), text, 1, &x);
}

/* The incoming gradient; for BatchNormWithReLU masked to where the output is positive. */
static mx_array *relu_gradient(mx_grad *grad)
{
    mx_array *g = grad->ograd[0], *y = grad->out[0];
    if (!(grad->op->grad_out & 1))
        return g;
    return grad->create_graph ? mx_g_mul(g, mx_g1("sign", y)) : mx_g2("_backward_relu", g, y);
}

/* With xhat = (x - mean) inv, M elements per channel and means over them:
 *     dbeta = sum g, dgamma = sum g xhat, dx = gamma inv (g - mean(g) - xhat mean(g xhat))
 * or dx = gamma inv g with running statistics. */
static mx_code compose(mx_grad *grad, const settings *s, bool batch)
{
    const mx_shape_t *shape = &grad->in_shape[0], channels = {.ndim = 1, .dim = {grad->in_shape[1].dim[0]}};
    const int axis = mx_axis(s->axis, shape->ndim);
    const int64_t size = mx_shape_size(shape);
    const double share = size ? (double)channels.dim[0] / (double)size : 0;
    mx_array *g = relu_gradient(grad), *x = grad->in[0];
    mx_array *mean =
        batch ? mx_g_scale(channel_sum(x, axis), share) : as_channels(mx_detach(grad->out[1]), shape, axis);
    mx_array *centered = mx_g_sub(x, mean);
    mx_array *inverse = as_channels(mx_detach(grad->out[2]), shape, axis);
    if (batch)
        inverse = mx_g1("rsqrt", mx_g_shift(mx_g_scale(channel_sum(mx_g1("square", centered), axis), share), s->eps));
    mx_array *normal = mx_g_mul(centered, inverse);
    mx_array *sum = channel_sum(g, axis), *products = channel_sum(mx_g_mul(g, normal), axis), *dx = g;
    if (batch)
        dx = mx_g_sub(mx_g_sub(g, mx_g_scale(sum, share)), mx_g_mul(normal, mx_g_scale(products, share)));
    dx = mx_g_mul(dx, inverse);
    if (!s->fix_gamma)
        dx = mx_g_mul(dx, as_channels(grad->in[1], shape, axis));
    grad->igrad[0] = dx;
    grad->igrad[1] = s->fix_gamma ? NULL : mx_g_reshape(products, &channels);
    grad->igrad[2] = mx_g_reshape(sum, &channels);
    return dx && grad->igrad[2] && (s->fix_gamma || grad->igrad[1]) ? MX_OK : mx_error_code();
}

static mx_code gradient(mx_grad *grad)
{
    const settings s = settings_of(grad->op, grad->attrs);
    const bool batch = grad->training && !s.use_global_stats;
    if (!grad->ograd[0])
        return MX_OK;
    if (grad->create_graph)
        return compose(grad, &s, batch);
    mx_batch_norm_backward_attrs attrs = {.axis = s.axis, .fix_gamma = s.fix_gamma, .batch_statistics = batch};
    mx_array *out[3] = {NULL, NULL, NULL};
    mx_array *const in[5] = {relu_gradient(grad), grad->in[0], grad->in[1], grad->out[1], grad->out[2]};
    if (mx_invoke(MX_OP("_backward_BatchNorm"), &attrs, 5, in, 3, out))
        return mx_error_code();
    grad->igrad[0] = out[0];
    grad->igrad[1] = s.fix_gamma ? NULL : out[1];
    grad->igrad[2] = out[2];
    return MX_OK;
}

/* ---- again -------------------------------------------------------------------------------------------------- */

/* The outputs hold the statistics that were used. */
static void again_from(mx_again *again, const settings *s, bool relu)
{
    *again = (mx_again){.op = "_norm_apply", .attrs = again->room, .n_in = 5, .from = {0, 1, 2, -2, -3}};
    snprintf(again->room, sizeof again->room, "axis=%lld, fix_gamma=%d, relu=%d", (long long)s->axis, s->fix_gamma,
             relu);
}

static void again_batch_norm(const void *attrs, mx_again *again)
{
    const mx_batch_norm_attrs *a = attrs;
    again_from(again, &(settings){.axis = a->axis, .fix_gamma = a->fix_gamma}, false);
}
static void again_with_relu(const void *attrs, mx_again *again)
{
    const mx_batch_norm_attrs *a = attrs;
    again_from(again, &(settings){.axis = a->axis, .fix_gamma = a->fix_gamma}, true);
}
static void again_sync(const void *attrs, mx_again *again)
{
    again_from(again, &(settings){.axis = 1, .fix_gamma = ((const mx_sync_batch_norm_attrs *)attrs)->fix_gamma}, false);
}

/* ---- references ------------------------------------------------------------------------------------------- */

static double channel_mean(const double *x, mx_split s, int64_t c, double shift, int power)
{
    double sum = 0;
    for (int64_t o = 0; o < s.before; o++)
        for (int64_t i = 0; i < s.after; i++)
            sum += pow(x[(o * s.size + c) * s.after + i] - shift, power);
    return sum / (double)(s.before * s.after);
}

static void reference(const mx_reference_call *call, settings set, double momentum, int moving)
{
    const mx_split s = mx_split_at(&call->in_shape[0], mx_axis(set.axis, call->in_shape[0].ndim));
    const bool batch = call->training && !set.use_global_stats;
    for (int64_t c = 0; c < s.size; c++) {
        double mean = call->in[3][c], var = call->in[4][c];
        if (batch) {
            mean = channel_mean(call->in[0], s, c, 0, 1);
            var = channel_mean(call->in[0], s, c, mean, 2);
        }
        const double inverse = 1 / sqrt(var + set.eps), gamma = set.fix_gamma ? 1 : call->in[1][c];
        for (int64_t k = 0; k < s.before * s.after; k++) {
            const int64_t at = (k / s.after * s.size + c) * s.after + k % s.after;
            call->out[0][at] = (call->in[0][at] - mean) * inverse * gamma + call->in[2][c];
        }
        call->out[1][c] = mean, call->out[2][c] = inverse;
        if (call->n_out < moving + 2)
            continue;
        call->out[moving][c] = batch ? call->in[3][c] * momentum + mean * (1 - momentum) : call->in[3][c];
        call->out[moving + 1][c] = batch ? call->in[4][c] * momentum + var * (1 - momentum) : call->in[4][c];
    }
}

static void ref_batch_norm(const mx_reference_call *call)
{
    const mx_batch_norm_attrs *a = call->attrs;
    reference(call, (settings){a->eps, a->fix_gamma, a->use_global_stats, a->axis}, a->momentum, 3);
}
static void ref_sync(const mx_reference_call *call)
{
    const mx_sync_batch_norm_attrs *a = call->attrs;
    reference(call, (settings){a->eps, a->fix_gamma, a->use_global_stats, 1}, a->momentum, 3);
}

static void ref_with_relu(const mx_reference_call *call)
{
    const mx_batch_norm_attrs *a = call->attrs;
    reference(call, (settings){a->eps, a->fix_gamma, a->use_global_stats, a->axis}, a->momentum, 4);
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = fmax(call->out[0][i], 0);
}

static void ref_backward(const mx_reference_call *call)
{
    const mx_batch_norm_backward_attrs *attrs = call->attrs;
    const mx_split s = mx_split_at(&call->in_shape[1], mx_axis(attrs->axis, call->in_shape[1].ndim));
    const double count = (double)(s.before * s.after);
    for (int64_t c = 0; c < s.size; c++) {
        const double mean = call->in[3][c], inverse = call->in[4][c], gamma = attrs->fix_gamma ? 1 : call->in[2][c];
        double sum = 0, products = 0;
        for (int64_t k = 0; k < s.before * s.after; k++) {
            const int64_t at = (k / s.after * s.size + c) * s.after + k % s.after;
            sum += call->in[0][at], products += call->in[0][at] * (call->in[1][at] - mean) * inverse;
        }
        for (int64_t k = 0; k < s.before * s.after; k++) {
            const int64_t at = (k / s.after * s.size + c) * s.after + k % s.after;
            const double normal = (call->in[1][at] - mean) * inverse;
            const double inside =
                call->in[0][at] - (attrs->batch_statistics ? sum / count + normal * products / count : 0);
            call->out[0][at] = gamma * inverse * inside;
        }
        call->out[1][c] = attrs->fix_gamma ? 0 : products;
        call->out[2][c] = sum;
    }
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_normalized(const mx_emit_call *n, int64_t axis, bool fix_gamma, double eps)
{
    mx_emit_open(n, "batch_norm", 1);
    mx_emit_print(n, "%s, %s, %s, %s, ", fix_gamma ? "NULL" : n->in[1].place, n->in[2].place, n->in[3].place,
                  n->in[4].place);
    mx_emit_split(n, mx_split_at(n->x, mx_axis(axis, n->x->ndim)));
    mx_emit_add(n, eps);
    return mx_emit_close(n);
}

static mx_code emit_batch_norm(const mx_emit_call *n)
{
    const mx_batch_norm_attrs *attrs = n->attrs;
    return emit_normalized(n, attrs->axis, attrs->fix_gamma, attrs->eps);
}

static mx_code emit_sync_batch_norm(const mx_emit_call *n)
{
    const mx_sync_batch_norm_attrs *attrs = n->attrs;
    return emit_normalized(n, 1, attrs->fix_gamma, attrs->eps);
}

static mx_code emit_batch_norm_relu(const mx_emit_call *n)
{
    if (emit_batch_norm(n))
        return mx_error_code();
    return mx_emit_numbers(n, MX_NUMBER_clip, &n->out[0], (const double[3]){0, INFINITY});
}

/* ---- the table -------------------------------------------------------------------------------------------- */

/* The running statistics in symbols. */
#define STARTS .starts = {NULL, NULL, NULL, "[\"zero\", {}]", "[\"one\", {}]"}

#define FIVE "2,3,4;3;3;3;3"
mx_op mx_family_batch_norm[] = {
    {.name = "BatchNorm", MX_EMIT(emit_batch_norm, .reads = 5), STARTS, .look = MX_LOOK_NORM, .precision = MX_PRECISION_DATA,
     .aliases = "BatchNorm_v1 _npx_batch_norm",
     .c_name = "op_batch_norm", .inputs = "data gamma beta moving_mean moving_var",
     .outputs = "output mean var", .doc = "normalises each channel over the batch: y = gamma (x - mean) / sqrt(variance + eps) + beta", .schema = &batch_norm_schema, .flags = MX_OP_TRAINING,
     .n_out = 3, .n_visible = 1, .count_visible = visible, .infer_shape = infer_shape, .infer_type = infer_type, .gradient = gradient,
     .grad_in = 3, .grad_out = 6, .mutates = 3 << 3, .no_grad_inputs = 3 << 3, .again = again_batch_norm, .reference = ref_batch_norm,
     .samples = (const mx_sample[]){{FIVE, "fix_gamma=False", 0.2, 2, "train floatonly"}, {FIVE, "", 0.2, 2, "train floatonly"},
                                    {FIVE, "fix_gamma=False", 0.2, 2, "floatonly"},
                                    {"4,37;37;37;37;37", "fix_gamma=False, momentum=0.5", 0.2, 2, "train floatonly"},
                                    {"2,5,3;3;3;3;3", "fix_gamma=False, axis=-1, eps=0.1", 0.2, 2, "train floatonly"},
                                    {"3,2,2,5;3;3;3;3", "axis=0, fix_gamma=False", 0.2, 2, "train floatonly"},
                                    {FIVE, "use_global_stats=True, fix_gamma=False", 0.2, 2, "train floatonly"},
                                    {FIVE, "output_mean_var=True", 0.2, 2, "train nograd floatonly"},
                                    {"2,2,1100;2;2;2;2", "fix_gamma=False", 0.2, 2, "train nograd floatonly"},
                                    {"300,40;40;40;40;40", "", 0.2, 2, "train nograd floatonly"}, {0}}},
    {.name = "_contrib_SyncBatchNorm", MX_EMIT(emit_sync_batch_norm, .reads = 5), STARTS, .look = MX_LOOK_NORM,
     .precision = MX_PRECISION_DATA,
     .c_name = "op_sync_batch_norm",
     .inputs = "data gamma beta moving_mean moving_var",
     .outputs = "output mean var", .doc = "BatchNorm of a layer that devices share", .schema = &sync_batch_norm_schema,
     .flags = MX_OP_TRAINING, .n_out = 3, .n_visible = 1, .count_visible = visible_sync, .infer_shape = infer_shape,
     .infer_type = infer_type, .gradient = gradient, .grad_in = 3, .grad_out = 6, .mutates = 3 << 3, .no_grad_inputs = 3 << 3,
     .again = again_sync, .reference = ref_sync,
     .samples = (const mx_sample[]){{FIVE, "fix_gamma=False, key=a", 0.2, 2, "train floatonly"}, {FIVE, "key=a", 0.2, 2, "floatonly"}, {0}}},
    {.name = "_contrib_BatchNormWithReLU", MX_EMIT(emit_batch_norm_relu, .reads = 5), STARTS, .look = MX_LOOK_NORM,
     .precision = MX_PRECISION_DATA,
     .c_name = "batch_norm_with_relu",
     .inputs = "data gamma beta moving_mean moving_var",
     .outputs = "output mean var workspace", .doc = "BatchNorm, then max(x, 0)", .schema = &batch_norm_schema, .flags = MX_OP_TRAINING,
     .n_out = 4, .n_visible = 1, .count_visible = visible, .infer_shape = infer_with_relu, .infer_type = infer_with_relu_type,
     .gradient = gradient, .grad_in = 3, .grad_out = 7, .mutates = 3 << 3, .no_grad_inputs = 3 << 3, .again = again_with_relu, .reference = ref_with_relu,
     .samples = (const mx_sample[]){{FIVE, "fix_gamma=False", -1.5, 2, "train floatonly nograd"}, {FIVE, "fix_gamma=False", 0.2, 2, "floatonly"}, {0}}},
    {.name = "_backward_BatchNorm", .inputs = "ograd data gamma mean inverse", .outputs = "data_grad gamma_grad beta_grad",
     .doc = "gradient of BatchNorm", .schema = &batch_norm_backward_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .n_out = 3,
     .infer_shape = infer_backward, .infer_type = infer_backward_type, .reference = ref_backward,
     .samples = (const mx_sample[]){{"2,3,4;2,3,4;3;3;3", "", 0.2, 2, "floatonly"}, {"2,5,37;2,5,37;37;37;37", "axis=2", 0.2, 2, "floatonly"},
                                    {"2,3,4;2,3,4;3;3;3", "batch_statistics=False, fix_gamma=True", 0.2, 2, "floatonly"},
                                    {"2,2,1100;2,2,1100;2;2;2", "", 0.2, 2, "floatonly"}, {"300,40;300,40;40;40;40", "", 0.2, 2, "floatonly"}, {0}}},
    {0},
};
