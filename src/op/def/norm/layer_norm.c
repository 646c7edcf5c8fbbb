/* LayerNorm, InstanceNorm, GroupNorm: normalisation inside each sample.
 *
 *     LayerNorm     over one axis;                            gamma, beta per position on that axis
 *     InstanceNorm  over all axes after the channels;         gamma, beta per channel
 *     GroupNorm     over a group of channels and all after;   gamma, beta per group
 *
 * Hidden outputs: mean and standard deviation sqrt(variance + eps); no gradient flows through them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "op/emit.h"
#include "op/expect.h"
#include "op/op.h"

#define LAYER_NORM_ATTRS(X) \
    X(INT, axis, "-1", "", "axis to normalise over") \
    X(FLOAT, eps, "1e-5", "", "added to the variance") \
    X(BOOL, output_mean_var, "False", "", "also return mean and standard deviation")
MX_ATTRS(layer_norm, LAYER_NORM_ATTRS)

#define INSTANCE_NORM_ATTRS(X) X(FLOAT, eps, "1e-3", "", "added to the variance")
MX_ATTRS(instance_norm, INSTANCE_NORM_ATTRS)

#define GROUP_NORM_ATTRS(X) \
    X(INT, num_groups, "1", "1..", "number of channel groups") \
    X(FLOAT, eps, "1e-5", "", "added to the variance") \
    X(BOOL, output_mean_var, "False", "", "also return mean and standard deviation")
MX_ATTRS(group_norm, GROUP_NORM_ATTRS)

static int visible_layer(const void *a) { return ((const mx_layer_norm_attrs *)a)->output_mean_var ? 3 : 1; }
static int visible_group(const void *a) { return ((const mx_group_norm_attrs *)a)->output_mean_var ? 3 : 1; }

/* ---- inference -------------------------------------------------------------------------------------------- */

static mx_code wrong_data(const mx_infer *infer, const char *wanted)
{
    char text[MX_SHAPE_TEXT];
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape %s, wanted %s", mx_shape_text(&infer->in[0], text),
                      wanted);
}

static mx_code set_shapes(mx_infer *infer, const mx_shape_t *parameters, const mx_shape_t *statistics)
{
    if (mx_infer_in(infer, 1, parameters) || mx_infer_in(infer, 2, parameters))
        return mx_error_code();
    return mx_infer_out(infer, 1, statistics) || mx_infer_out(infer, 2, statistics) ? mx_error_code() : MX_OK;
}

static mx_code same_data(mx_infer *infer)
{
    return mx_infer_out(infer, 0, &infer->in[0]) || mx_infer_in(infer, 0, &infer->out[0]) ? mx_error_code() : MX_OK;
}

static mx_code infer_layer(mx_infer *infer)
{
    const mx_layer_norm_attrs *attrs = infer->attrs;
    if (same_data(infer))
        return mx_error_code();
    mx_shape_t kept = infer->in[0];
    if (kept.ndim < 0)
        return MX_OK;
    const int axis = mx_axis(attrs->axis, kept.ndim);
    if (axis < 0)
        return wrong_data(infer, "one that has the axis");
    const mx_shape_t parameters = {.ndim = 1, .dim = {kept.dim[axis]}};
    if (mx_infer_expects(infer, 1, 1, 0, 1, kept.dim[axis], "features"))
        return mx_error_code();
    kept.dim[axis] = 1;
    return set_shapes(infer, &parameters, &kept);
}

static mx_code infer_instance(mx_infer *infer)
{
    if (same_data(infer))
        return mx_error_code();
    const mx_shape_t *data = &infer->in[0];
    if (data->ndim < 0)
        return MX_OK;
    if (data->ndim < 2)
        return wrong_data(infer, "(batch, channels, ...)");
    const mx_shape_t parameters = {.ndim = 1, .dim = {data->dim[1]}},
                     statistics = {.ndim = 2, .dim = {data->dim[0], data->dim[1]}};
    if (mx_infer_expects(infer, 1, 1, 0, 1, data->dim[1], "channels"))
        return mx_error_code();
    return set_shapes(infer, &parameters, &statistics);
}

/* gamma and beta have one element per group; the message begins with the data, which the user knows. */
static mx_code check_groups(const mx_infer *infer, int64_t groups)
{
    char data[MX_SHAPE_TEXT], own[MX_SHAPE_TEXT];
    for (int i = 1; i < 3; i++) {
        const mx_shape_t *shape = &infer->in[i];
        if (shape->ndim < 0 || (shape->ndim == 1 && (shape->dim[0] < 0 || shape->dim[0] == groups)))
            continue;
        return mx_op_fail(infer->op, MX_ERR_SHAPE,
                          "data has shape %s and num_groups is %lld, but %s has shape %s, wanted (%lld,)",
                          mx_shape_text(&infer->in[0], data), (long long)groups, i == 1 ? "gamma" : "beta",
                          mx_shape_text(shape, own), (long long)groups);
    }
    return MX_OK;
}

static mx_code infer_group(mx_infer *infer)
{
    const mx_group_norm_attrs *attrs = infer->attrs;
    if (same_data(infer))
        return mx_error_code();
    const mx_shape_t *data = &infer->in[0];
    if (data->ndim < 0)
        return MX_OK;
    if (data->ndim < 2 || (data->dim[1] >= 0 && data->dim[1] % attrs->num_groups))
        return wrong_data(infer, "(batch, channels, ...) with channels divisible by num_groups");
    const mx_shape_t parameters = {.ndim = 1, .dim = {attrs->num_groups}},
                     statistics = {.ndim = 2, .dim = {data->dim[0], attrs->num_groups}};
    if (check_groups(infer, attrs->num_groups))
        return mx_error_code();
    return set_shapes(infer, &parameters, &statistics);
}

/* _backward_*(ograd, data, gamma, mean, std) -> ddata, dgamma, dbeta */
static mx_code infer_backward(mx_infer *infer, mx_code (*forward)(mx_infer *))
{
    if (mx_infer_through(infer, forward, (const int[]){1, 2, 2, -2}, (const int[]){0, 3, 4, -2}))
        return mx_error_code();
    if (mx_infer_out(infer, 0, &infer->in[1]) || mx_infer_out(infer, 1, &infer->in[2]) ||
        mx_infer_out(infer, 2, &infer->in[2]))
        return mx_error_code();
    return MX_OK;
}

static mx_code infer_layer_backward(mx_infer *infer) { return infer_backward(infer, infer_layer); }
static mx_code infer_layer_backward_add(mx_infer *infer)
{
    if (infer_layer_backward(infer) || mx_infer_in(infer, 5, &infer->out[0]) || mx_infer_out(infer, 0, &infer->in[5]))
        return mx_error_code();
    return MX_OK;
}
static mx_code infer_group_backward(mx_infer *infer) { return infer_backward(infer, infer_group); }

/* ---- gradients -------------------------------------------------------------------------------------------- */

static mx_array *mean_axis(mx_array *x, int axis)
{
    char text[48];
    snprintf(text, sizeof text, "axis=%d, keepdims=True", axis);
    return mx_g_text(MX_OP("mean"), text, 1, &x);
}

/* With h = g gamma and xhat = (x - mean) / std, means over the normalised axis:
 *     dx = (h - mean(h) - xhat mean(h xhat)) / std,  dgamma = sum g xhat,  dbeta = sum g
 * x and g have the shape `view`, in which gamma has the shape `parameters`. */
static mx_code compose(mx_grad *grad, const mx_shape_t *view, const mx_shape_t *parameters, int axis, double eps)
{
    mx_array *g = mx_g_reshape(grad->ograd[0], view), *x = mx_g_reshape(grad->in[0], view);
    mx_array *h = mx_g_mul(g, mx_g_reshape(grad->in[1], parameters));
    mx_array *centered = mx_g_sub(x, mean_axis(x, axis));
    mx_array *inverse = mx_g1("rsqrt", mx_g_shift(mean_axis(mx_g1("square", centered), axis), eps));
    mx_array *normal = mx_g_mul(centered, inverse);
    mx_array *inside =
        mx_g_sub(mx_g_sub(h, mean_axis(h, axis)), mx_g_mul(normal, mean_axis(mx_g_mul(h, normal), axis)));
    grad->igrad[0] = mx_g_reshape(mx_g_mul(inside, inverse), &grad->in_shape[0]);
    grad->igrad[1] = mx_g_reshape(mx_g_sum_to(mx_g_mul(g, normal), parameters), &grad->in_shape[1]);
    grad->igrad[2] = mx_g_reshape(mx_g_sum_to(g, parameters), &grad->in_shape[2]);
    return grad->igrad[0] && grad->igrad[1] && grad->igrad[2] ? MX_OK : mx_error_code();
}

static mx_code fused(mx_grad *grad, mx_op *op, const void *attrs)
{
    mx_array *const in[5] = {grad->ograd[0], grad->in[0], grad->in[1], grad->out[1], grad->out[2]};
    mx_array *out[3] = {NULL, NULL, NULL};
    if (mx_invoke(op, attrs, 5, in, 3, out))
        return mx_error_code();
    for (int i = 0; i < 3; i++)
        grad->igrad[i] = out[i];
    return MX_OK;
}

static mx_code grad_layer(mx_grad *grad)
{
    const mx_layer_norm_attrs *attrs = grad->attrs;
    if (!grad->ograd[0])
        return MX_OK;
    if (!grad->create_graph)
        return fused(grad, MX_OP("_backward_LayerNorm"), attrs);
    const mx_shape_t *data = &grad->in_shape[0];
    const int axis = mx_axis(attrs->axis, data->ndim);
    mx_shape_t parameters = {.ndim = data->ndim};
    for (int i = 0; i < data->ndim; i++)
        parameters.dim[i] = i == axis ? data->dim[i] : 1;
    return compose(grad, data, &parameters, axis, attrs->eps);
}

/* Groups: data as (batch, groups, rest). */
static mx_code grad_groups(mx_grad *grad, int64_t groups, double eps)
{
    if (!grad->ograd[0])
        return MX_OK;
    const mx_group_norm_attrs attrs = {.num_groups = groups, .eps = eps};
    if (!grad->create_graph)
        return fused(grad, MX_OP("_backward_GroupNorm"), &attrs);
    const int64_t size = mx_shape_size(&grad->in_shape[0]), outer = grad->in_shape[0].dim[0] * groups;
    const mx_shape_t view = {.ndim = 3, .dim = {grad->in_shape[0].dim[0], groups, outer ? size / outer : 0}};
    const mx_shape_t parameters = {.ndim = 3, .dim = {1, groups, 1}};
    return compose(grad, &view, &parameters, 2, eps);
}
static mx_code grad_instance(mx_grad *grad)
{
    return grad_groups(grad, grad->in_shape[1].dim[0], ((const mx_instance_norm_attrs *)grad->attrs)->eps);
}
static mx_code grad_group(mx_grad *grad)
{
    const mx_group_norm_attrs *attrs = grad->attrs;
    return grad_groups(grad, attrs->num_groups, attrs->eps);
}

/* ---- references ------------------------------------------------------------------------------------------- */

/* Rows of n values, `step` apart; value k of row r belongs to parameter k (per_value) or r % groups. */
typedef struct layout {
    int64_t rows, n, step, groups;
    bool per_value;
} layout;

static layout layer_layout(const mx_shape_t *data, int64_t axis)
{
    const int at = mx_axis(axis, data->ndim);
    layout l = {.rows = 1, .n = data->dim[at], .step = 1, .per_value = true};
    for (int i = 0; i < data->ndim; i++)
        l.rows *= i == at ? 1 : data->dim[i];
    for (int i = at + 1; i < data->ndim; i++)
        l.step *= data->dim[i];
    return l;
}
static layout group_layout(const mx_shape_t *data, int64_t groups)
{
    const int64_t rows = data->dim[0] * groups;
    return (layout){.rows = rows, .n = rows ? mx_shape_size(data) / rows : 0, .step = 1, .groups = groups};
}

static int64_t place(const layout *l, int64_t row, int64_t k)
{
    return row / l->step * l->n * l->step + row % l->step + k * l->step;
}
static int64_t parameter(const layout *l, int64_t row, int64_t k) { return l->per_value ? k : row % l->groups; }

static void reference(const mx_reference_call *call, layout l, double eps)
{
    for (int64_t row = 0; row < l.rows; row++) {
        double mean = 0, var = 0;
        for (int64_t k = 0; k < l.n; k++)
            mean += call->in[0][place(&l, row, k)] / (double)l.n;
        for (int64_t k = 0; k < l.n; k++)
            var += pow(call->in[0][place(&l, row, k)] - mean, 2) / (double)l.n;
        const double std = sqrt(var + eps);
        for (int64_t k = 0; k < l.n; k++) {
            const int64_t at = place(&l, row, k), p = parameter(&l, row, k);
            call->out[0][at] = (call->in[0][at] - mean) / std * call->in[1][p] + call->in[2][p];
        }
        call->out[1][row] = mean, call->out[2][row] = std;
    }
}
static void ref_layer(const mx_reference_call *call)
{
    const mx_layer_norm_attrs *attrs = call->attrs;
    reference(call, layer_layout(&call->in_shape[0], attrs->axis), attrs->eps);
}
static void ref_instance(const mx_reference_call *call)
{
    reference(call, group_layout(&call->in_shape[0], call->in_shape[0].dim[1]),
              ((const mx_instance_norm_attrs *)call->attrs)->eps);
}
static void ref_group(const mx_reference_call *call)
{
    const mx_group_norm_attrs *attrs = call->attrs;
    reference(call, group_layout(&call->in_shape[0], attrs->num_groups), attrs->eps);
}

static void backward_reference(const mx_reference_call *call, layout l)
{
    for (int64_t p = 0; p < mx_shape_size(&call->out_shape[1]); p++)
        call->out[1][p] = call->out[2][p] = 0;
    for (int64_t row = 0; row < l.rows; row++) {
        const double mean = call->in[3][row], std = call->in[4][row];
        double first = 0, second = 0;
        for (int64_t k = 0; k < l.n; k++) {
            const int64_t at = place(&l, row, k), p = parameter(&l, row, k);
            const double normal = (call->in[1][at] - mean) / std, h = call->in[0][at] * call->in[2][p];
            first += h / (double)l.n, second += h * normal / (double)l.n;
            call->out[1][p] += call->in[0][at] * normal;
            call->out[2][p] += call->in[0][at];
        }
        for (int64_t k = 0; k < l.n; k++) {
            const int64_t at = place(&l, row, k), p = parameter(&l, row, k);
            const double normal = (call->in[1][at] - mean) / std;
            call->out[0][at] = (call->in[0][at] * call->in[2][p] - first - normal * second) / std;
        }
    }
}
static void ref_layer_backward(const mx_reference_call *call)
{
    backward_reference(call, layer_layout(&call->in_shape[1], ((const mx_layer_norm_attrs *)call->attrs)->axis));
}
static void ref_layer_backward_add(const mx_reference_call *call)
{
    ref_layer_backward(call);
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] += call->in[5][i];
}
static void ref_group_backward(const mx_reference_call *call)
{
    backward_reference(call, group_layout(&call->in_shape[1], ((const mx_group_norm_attrs *)call->attrs)->num_groups));
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_normalized(const mx_emit_call *n, mx_split s, int64_t repeat, int64_t period, double eps)
{
    mx_emit_open(n, "normalize", 1);
    mx_emit_print(n, "%s, %s, ", n->in[1].place, n->in[2].place);
    mx_emit_split(n, s);
    mx_emit_print(n, ", %lld, %lld", (long long)repeat, (long long)period);
    mx_emit_add(n, eps);
    return mx_emit_close(n);
}

static mx_code emit_layer_norm(const mx_emit_call *n)
{
    const mx_layer_norm_attrs *attrs = n->attrs;
    const mx_split s = mx_split_at(n->x, mx_axis(attrs->axis, n->x->ndim));
    return emit_normalized(n, s, s.after, s.size, attrs->eps);
}

static mx_code emit_groups(const mx_emit_call *n, int64_t groups, double eps)
{
    const int64_t outer = n->x->dim[0] * groups, each = mx_emit_over(mx_shape_size(n->x), outer);
    return emit_normalized(n, (mx_split){outer, each, 1}, each, groups, eps);
}

static mx_code emit_group_norm(const mx_emit_call *n)
{
    const mx_group_norm_attrs *attrs = n->attrs;
    return emit_groups(n, attrs->num_groups, attrs->eps);
}

static mx_code emit_instance_norm(const mx_emit_call *n)
{
    return emit_groups(n, n->x->dim[1], ((const mx_instance_norm_attrs *)n->attrs)->eps);
}

/* ---- the table -------------------------------------------------------------------------------------------- */

#define THREE .n_out = 3, .n_visible = 1, .grad_in = 3, .grad_out = 6, .inputs = "data gamma beta"
#define BACKWARD(rule)                                                                                              \
    .inputs = "ograd data gamma mean std", .outputs = "data_grad gamma_grad beta_grad", .n_out = 3,                 \
    .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .infer_shape = rule

mx_op mx_family_layer_norm[] = {
    {.name = "LayerNorm", MX_EMIT(emit_layer_norm), .look = MX_LOOK_NORM, .precision = MX_PRECISION_FLOAT32,
     .aliases = "_npx_layer_norm",
     .c_name = "op_layer_norm",
     .outputs = "output mean std", THREE,
     .doc = "normalises each sample over one axis: y = gamma (x - mean) / sqrt(variance + eps) + beta", .schema = &layer_norm_schema, .count_visible = visible_layer,
     .infer_shape = infer_layer, .gradient = grad_layer, .reference = ref_layer,
     .samples = (const mx_sample[]){{"3,37;37;37", "", 0, 0, "floatonly"}, {"2,3,4;3;3", "axis=1, eps=0.1", 0, 0, "floatonly"},
                                    {"2,3;3;3", "output_mean_var=True", 0, 0, "floatonly nograd"}, {"4;4;4", "", 0, 0, "floatonly"},
                                    {"2,5000;5000;5000", "", 0, 0, "floatonly nograd"}, {0}}},
    {.name = "InstanceNorm", MX_EMIT(emit_instance_norm), .look = MX_LOOK_NORM, .precision = MX_PRECISION_FLOAT32,
     .c_name = "op_instance_norm",
     .outputs = "output mean var", THREE,
     .doc = "normalises each channel of each sample: y = gamma (x - mean) / sqrt(variance + eps) + beta", .schema = &instance_norm_schema, .infer_shape = infer_instance,
     .gradient = grad_instance, .reference = ref_instance,
     .samples = (const mx_sample[]){{"2,3,4;3;3", "", 0, 0, "floatonly"}, {"2,3,2,19;3;3", "eps=0.1", 0, 0, "floatonly"}, {0}}},
    {.name = "GroupNorm", MX_EMIT(emit_group_norm), .look = MX_LOOK_NORM, .precision = MX_PRECISION_FLOAT32,
     .c_name = "op_group_norm",
     .outputs = "output mean std", THREE,
     .doc = "normalises groups of channels of each sample: y = gamma (x - mean) / sqrt(variance + eps) + beta", .schema = &group_norm_schema, .count_visible = visible_group,
     .infer_shape = infer_group, .gradient = grad_group, .reference = ref_group,
     .samples = (const mx_sample[]){{"2,4,3;2;2", "num_groups=2", 0, 0, "floatonly"}, {"2,3,5;1;1", "eps=0.1", 0, 0, "floatonly"},
                                    {"2,4,3;4;4", "num_groups=4, output_mean_var=True", 0, 0, "floatonly nograd"}, {0}}},
    {.name = "_backward_LayerNorm", BACKWARD(infer_layer_backward), .doc = "gradient of LayerNorm", .schema = &layer_norm_schema, .reference = ref_layer_backward,
     .samples = (const mx_sample[]){{"3,37;3,37;37;3,1;3,1", "", 0.3, 2, "floatonly"},
                                    {"2,3,4;2,3,4;3;2,1,4;2,1,4", "axis=1", 0.3, 2, "floatonly"},
                                    {"300,40;300,40;40;300,1;300,1", "", 0.3, 2, "floatonly"}, {0}}},
    {.name = "_backward_layer_norm_add", .doc = "gradient of LayerNorm plus another one, fused by plans", .inputs = "ograd data gamma mean std addend",
     .outputs = "data_grad gamma_grad beta_grad", .n_out = 3, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .infer_shape = infer_layer_backward_add,
     .schema = &layer_norm_schema, .reference = ref_layer_backward_add,
     .samples = (const mx_sample[]){{"3,37;3,37;37;3,1;3,1;3,37", "", 0.3, 2, "floatonly"},
                                    {"2,3,4;2,3,4;3;2,1,4;2,1,4;2,3,4", "axis=1", 0.3, 2, "floatonly"},
                                    {"300,40;300,40;40;300,1;300,1;300,40", "", 0.3, 2, "floatonly"}, {0}}},
    {.name = "_backward_GroupNorm", BACKWARD(infer_group_backward), .doc = "gradient of GroupNorm and InstanceNorm", .schema = &group_norm_schema,
     .reference = ref_group_backward,
     .samples = (const mx_sample[]){{"2,4,3;2,4,3;2;2,2;2,2", "num_groups=2", 0.3, 2, "floatonly"},
                                    {"40,4,100;40,4,100;2;40,2;40,2", "num_groups=2", 0.3, 2, "floatonly"}, {0}}},
    {0},
};
