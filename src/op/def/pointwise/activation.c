/* Activation and LeakyReLU: activations that are chosen by an attribute.
 *
 * Activation's gradients look at the output only, so the data need not be kept.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/error.h"
#include "op/emit.h"
#include "op/formula/pointwise.h"
#include "op/op.h"

#define ACTIVATION_ATTRS(X) X(ENUM, act_type, REQUIRED, "relu|sigmoid|tanh|softrelu|softsign", "the function")
MX_ATTRS(activation, ACTIVATION_ATTRS)
enum { RELU, SIGMOID, TANH, SOFTRELU, SOFTSIGN };

#define LEAKY_RELU_ATTRS(X) \
    X(ENUM, act_type, "leaky", "rrelu|leaky|prelu|elu|selu|gelu", "the function") \
    X(FLOAT, slope, "0.25", "", "of the negative part (leaky), or its lower limit (elu)") \
    X(FLOAT, lower_bound, "0.125", "", "least slope of rrelu") \
    X(FLOAT, upper_bound, "0.334", "", "greatest slope of rrelu")
MX_ATTRS(leaky_relu, LEAKY_RELU_ATTRS)
enum { RRELU, LEAKY, PRELU, ELU, SELU, GELU };

#define SELU_SCALE 1.0507009873554804934193349852946
#define SELU_ALPHA 1.6732632423543772848170429916717

/* ---- Activation ------------------------------------------------------------------------------------------- */

static mx_array *activation_slope(int type, mx_array *y)
{
    switch (type) {
    case RELU: return mx_g1("sign", y);
    case SIGMOID: return mx_g_mul(y, mx_g_rsub(1, y));
    case TANH: return mx_g_rsub(1, mx_g1("square", y));
    case SOFTRELU: return mx_g_rsub(1, mx_g1("exp", mx_g_neg(y)));
    default: return mx_g1("square", mx_g_rsub(1, mx_g1("abs", y)));
    }
}

static mx_code grad_activation(mx_grad *grad)
{
    const mx_activation_attrs *attrs = grad->attrs;
    mx_array *g = grad->ograd[0], *y = grad->out[0];
    return mx_give(grad, 0,
                   grad->create_graph ? mx_g_mul(g, activation_slope(attrs->act_type, y))
                                      : mx_g_call(MX_OP("_backward_Activation"), attrs, 2, (mx_array *const[]){g, y}));
}

static double activate(int type, double x)
{
    switch (type) {
    case RELU: return x > 0 ? x : 0;
    case SIGMOID: return 1 / (1 + exp(-x));
    case TANH: return tanh(x);
    case SOFTRELU: return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
    default: return x / (1 + fabs(x));
    }
}

static double slope_of(int type, double y)
{
    switch (type) {
    case RELU: return y > 0;
    case SIGMOID: return y * (1 - y);
    case TANH: return 1 - y * y;
    case SOFTRELU: return 1 - exp(-y);
    default: return (1 - fabs(y)) * (1 - fabs(y));
    }
}

static void ref_activation(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = activate(((const mx_activation_attrs *)call->attrs)->act_type, call->in[0][i]);
}

static void ref_activation_backward(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] =
            call->in[0][i] * slope_of(((const mx_activation_attrs *)call->attrs)->act_type, call->in[1][i]);
}

/* ---- LeakyReLU: inference ---------------------------------------------------------------------------------- */

/* gamma of prelu: one slope, or one per channel (axis 1). */
static mx_code infer_gamma(mx_infer *infer)
{
    const mx_shape_t *data = &infer->in[0], *gamma = &infer->in[1];
    if (mx_shape_known(gamma) && mx_shape_size(gamma) == 1)
        return MX_OK;
    mx_shape_t channels = {.ndim = 1, .dim = {data->ndim > 1 ? data->dim[1] : data->ndim == 1 ? data->dim[0] : 1}};
    return mx_infer_in(infer, 1, &channels);
}

static mx_code infer_leaky(mx_infer *infer)
{
    const mx_leaky_relu_attrs *attrs = infer->attrs;
    if (mx_infer_out(infer, 0, &infer->in[0]) || mx_infer_in(infer, 0, &infer->out[0]))
        return mx_error_code();
    if (attrs->act_type == PRELU && infer->in[0].ndim >= 0 && infer_gamma(infer))
        return mx_error_code();
    const mx_shape_t empty = {.ndim = 1, .dim = {0}}; /* only rrelu has slopes to remember */
    return mx_infer_out(infer, 1, attrs->act_type == RRELU ? &infer->in[0] : &empty);
}

static mx_code infer_leaky_type(mx_infer *infer)
{
    const mx_leaky_relu_attrs *attrs = infer->attrs;
    const int type = infer->in_type[0] != MX_DTYPE_NONE ? infer->in_type[0] : infer->out_type[0];
    if (mx_infer_in_type(infer, 0, type) || (attrs->act_type == PRELU && mx_infer_in_type(infer, 1, type)))
        return mx_error_code();
    return mx_infer_out_type(infer, 0, type) || mx_infer_out_type(infer, 1, type) ? mx_error_code() : MX_OK;
}

static int count_leaky_in(const void *a) { return ((const mx_leaky_relu_attrs *)a)->act_type == PRELU ? 2 : 1; }
static int count_leaky_visible(const void *a) { return ((const mx_leaky_relu_attrs *)a)->act_type == RRELU ? 2 : 1; }

/* _backward_LeakyReLU(ograd, data, gamma?, mask?) -> ddata, dgamma */
static mx_code infer_leaky_backward(mx_infer *infer)
{
    const mx_leaky_relu_attrs *attrs = infer->attrs;
    const mx_shape_t empty = {.ndim = 1, .dim = {0}};
    if (mx_infer_through(infer, infer_leaky, (const int[]){1, 2, -2}, (const int[]){0, 3, -2}))
        return mx_error_code();
    if (mx_infer_out(infer, 0, &infer->in[1]))
        return mx_error_code();
    return mx_infer_out(infer, 1, attrs->act_type == PRELU ? &infer->in[2] : &empty);
}
static mx_code infer_leaky_backward_type(mx_infer *infer)
{
    const int type = infer->in_type[1];
    if (mx_infer_in_type(infer, 0, type) || (infer->in_type[2] != MX_DTYPE_NONE && mx_infer_in_type(infer, 2, type)) ||
        (infer->in_type[3] != MX_DTYPE_NONE && mx_infer_in_type(infer, 3, type)))
        return mx_error_code();
    return mx_infer_out_type(infer, 0, type) || mx_infer_out_type(infer, 1, type) ? mx_error_code() : MX_OK;
}

static mx_code check_leaky(const void *a)
{
    const mx_leaky_relu_attrs *attrs = a;
    if (attrs->act_type == RRELU && !(attrs->lower_bound <= attrs->upper_bound))
        return mx_fail(MX_ERR_ATTRIBUTE, "LeakyReLU: lower_bound %g is above upper_bound %g", attrs->lower_bound,
                       attrs->upper_bound);
    return MX_OK;
}

/* ---- LeakyReLU: gradient ------------------------------------------------------------------------------------ */

/* gamma (C) as (1, C, 1, ...) */
static mx_array *channels(mx_array *gamma, const mx_shape_t *data)
{
    mx_shape_t shape = {.ndim = data->ndim};
    for (int i = 0; i < data->ndim; i++)
        shape.dim[i] = 1;
    if (data->ndim && gamma->size != 1)
        shape.dim[data->ndim > 1 ? 1 : 0] = gamma->size;
    return mx_g_reshape(gamma, &shape);
}

/* 1 where x > 0, `negative` elsewhere. */
static mx_array *two_sided(mx_array *x, mx_array *negative)
{
    mx_array *positive = mx_g2("broadcast_greater", x, mx_g1("zeros_like", x));
    return mx_g_add(positive, mx_g_mul(mx_g_rsub(1, positive), negative));
}

/* elu: slope exp(x) below 0.  gelu: cdf(x) + x pdf(x) of the normal distribution. */
static mx_array *leaky_slope(const mx_leaky_relu_attrs *attrs, mx_array *x, mx_array *gamma, mx_array *mask)
{
    mx_array *negative = mx_g_neg(mx_g1("relu", mx_g_neg(x)));
    switch (attrs->act_type) {
    case LEAKY: return two_sided(x, mx_g_scale(mx_g1("ones_like", x), attrs->slope));
    case PRELU: return two_sided(x, gamma);
    case RRELU: return two_sided(x, mask);
    case ELU: return two_sided(x, mx_g_scale(mx_g1("exp", negative), attrs->slope));
    case SELU: return mx_g_scale(two_sided(x, mx_g_scale(mx_g1("exp", negative), SELU_ALPHA)), SELU_SCALE);
    default: break;
    }
    mx_array *cdf = mx_g_scale(mx_g_shift(mx_g1("erf", mx_g_scale(x, 0.70710678118654752440)), 1), 0.5);
    mx_array *pdf = mx_g_scale(mx_g1("exp", mx_g_scale(mx_g1("square", x), -0.5)), 0.39894228040143267794);
    return mx_g_add(cdf, mx_g_mul(x, pdf));
}

/* dgamma = sum of g x where x <= 0 */
static mx_code compose_leaky(mx_grad *grad, const mx_leaky_relu_attrs *attrs)
{
    const mx_shape_t *shape = &grad->in_shape[0];
    const bool prelu = attrs->act_type == PRELU;
    mx_array *g = grad->ograd[0], *x = grad->in[0], *gamma = prelu ? channels(grad->in[1], shape) : NULL;
    if (grad->wanted[0])
        grad->igrad[0] =
            mx_g_mul(g, leaky_slope(attrs, x, gamma, attrs->act_type == RRELU ? mx_detach(grad->out[1]) : NULL));
    if (prelu && grad->wanted[1]) {
        mx_shape_t kept = {.ndim = gamma ? gamma->ndim : 0};
        for (int i = 0; i < kept.ndim; i++)
            kept.dim[i] = gamma->shape[i];
        mx_array *negative = mx_g_neg(mx_g1("relu", mx_g_neg(x)));
        grad->igrad[1] = mx_g_reshape(mx_g_sum_to(mx_g_mul(g, negative), &kept), &grad->in_shape[1]);
    }
    return (grad->wanted[0] && !grad->igrad[0]) || (prelu && grad->wanted[1] && !grad->igrad[1]) ? mx_error_code()
                                                                                                 : MX_OK;
}

static mx_code grad_leaky(mx_grad *grad)
{
    const mx_leaky_relu_attrs *attrs = grad->attrs;
    if (grad->create_graph || attrs->act_type == RRELU || !grad->ograd[0])
        return !grad->ograd[0] ? MX_OK : compose_leaky(grad, attrs);
    const bool prelu = attrs->act_type == PRELU;
    mx_array *out[2] = {NULL, NULL};
    mx_array *const in[3] = {grad->ograd[0], grad->in[0], prelu ? grad->in[1] : MX_NONE};
    if (mx_invoke(MX_OP("_backward_LeakyReLU"), attrs, 3, in, 2, out))
        return mx_error_code();
    grad->igrad[0] = out[0];
    if (prelu)
        grad->igrad[1] = out[1];
    return MX_OK;
}

/* ---- LeakyReLU: references ----------------------------------------------------------------------------------- */

static double gamma_at(const mx_shape_t *data, const double *gamma, int64_t count, int64_t i)
{
    if (count == 1)
        return gamma[0];
    int64_t inner = 1;
    for (int axis = data->ndim > 1 ? 2 : 1; axis < data->ndim; axis++)
        inner *= data->dim[axis];
    return gamma[i / inner % count];
}

static double leaky(const mx_leaky_relu_attrs *attrs, double x, double gamma)
{
    switch (attrs->act_type) {
    case LEAKY: return x > 0 ? x : attrs->slope * x;
    case PRELU: return x > 0 ? x : gamma * x;
    case RRELU: return x > 0 ? x : (attrs->lower_bound + attrs->upper_bound) / 2 * x;
    case ELU: return x > 0 ? x : attrs->slope * expm1(x);
    case SELU: return SELU_SCALE * (x > 0 ? x : SELU_ALPHA * expm1(x));
    default: return x * 0.5 * (1 + erf(x / sqrt(2)));
    }
}

static void ref_leaky(const mx_reference_call *call)
{
    const mx_leaky_relu_attrs *attrs = call->attrs;
    const bool prelu = attrs->act_type == PRELU;
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        const double gamma =
            prelu ? gamma_at(&call->in_shape[0], call->in[1], mx_shape_size(&call->in_shape[1]), i) : 0;
        call->out[0][i] = leaky(attrs, call->in[0][i], gamma);
        if (attrs->act_type == RRELU)
            call->out[1][i] = (attrs->lower_bound + attrs->upper_bound) / 2;
    }
}

static double leaky_derivative(const mx_leaky_relu_attrs *attrs, double x, double gamma)
{
    switch (attrs->act_type) {
    case LEAKY: return x > 0 ? 1 : attrs->slope;
    case PRELU: return x > 0 ? 1 : gamma;
    case ELU: return x > 0 ? 1 : attrs->slope * exp(x);
    case SELU: return SELU_SCALE * (x > 0 ? 1 : SELU_ALPHA * exp(x));
    default: return 0.5 * (1 + erf(x / sqrt(2))) + x * exp(-x * x / 2) / sqrt(2 * 3.14159265358979323846);
    }
}

static void ref_leaky_backward(const mx_reference_call *call)
{
    const mx_leaky_relu_attrs *attrs = call->attrs;
    const int64_t count = attrs->act_type == PRELU ? mx_shape_size(&call->in_shape[2]) : 0;
    for (int64_t k = 0; k < count; k++)
        call->out[1][k] = 0;
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        const double g = call->in[0][i], x = call->in[1][i];
        const double gamma = count ? gamma_at(&call->in_shape[1], call->in[2], count, i) : 0;
        call->out[0][i] = g * leaky_derivative(attrs, x, gamma);
        if (!count || x > 0)
            continue;
        int64_t inner = 1;
        for (int axis = call->in_shape[1].ndim > 1 ? 2 : 1; axis < call->in_shape[1].ndim; axis++)
            inner *= call->in_shape[1].dim[axis];
        call->out[1][count == 1 ? 0 : i / inner % count] += g * x;
    }
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_activation(const mx_emit_call *n)
{
    static const int rows[] = {MX_ROW_relu, MX_ROW_sigmoid, MX_ROW_tanh, MX_ROW__softplus, MX_ROW_softsign};
    return mx_emit_unary(n, rows[((const mx_activation_attrs *)n->attrs)->act_type]);
}

static mx_code emit_prelu(const mx_emit_call *n)
{
    const int64_t channels = mx_shape_size(n->in[1].shape), all = mx_shape_size(n->x);
    const int64_t inner = channels == 1 ? 1 : mx_split_at(n->x, n->x->ndim > 1 ? 1 : 0).after;
    mx_emit_open(n, "leaky", 2);
    mx_emit_print(n, "%lld, %lld, %lld", (long long)mx_emit_over(all, channels * inner), (long long)channels,
                  (long long)inner);
    return mx_emit_close(n);
}

/* The slope of rrelu is the middle of its range. */
static mx_code emit_leaky(const mx_emit_call *n)
{
    const mx_leaky_relu_attrs *attrs = n->attrs;
    mx_emit_use(n, "leaky");
    mx_emit_print(n, "    leaky(%s, (const float[]){", n->in[0].place);
    mx_emit_float(&n->file->body,
                  attrs->act_type == RRELU ? (attrs->lower_bound + attrs->upper_bound) / 2 : attrs->slope);
    mx_emit_print(n, "}, %s, %lld, 1, 1", n->out[0].place, (long long)mx_shape_size(n->y));
    return mx_emit_close(n);
}

static mx_code emit_leaky_relu(const mx_emit_call *n)
{
    const mx_leaky_relu_attrs *attrs = n->attrs;
    switch (attrs->act_type) {
    case PRELU: return emit_prelu(n);
    case ELU: return mx_emit_with_two(n, "elu", 1, attrs->slope);
    case SELU: return mx_emit_with_two(n, "elu", 1.0507009873554805, 1.6732632423543773);
    case GELU:
        mx_emit_open(n, "gelu", 1);
        mx_emit_print(n, "%lld", (long long)mx_shape_size(n->y));
        return mx_emit_close(n);
    default: return emit_leaky(n);
    }
}

/* ---- the rows --------------------------------------------------------------------------------------------- */

#define KINDS(shapes)                                                                                                \
    (const mx_sample[]){{shapes, "act_type=relu", 0, 0, "floatonly"}, {shapes, "act_type=sigmoid", 0, 0, "floatonly"}, \
                        {shapes, "act_type=tanh", 0, 0, "floatonly"}, {shapes, "act_type=softrelu", 0, 0, "floatonly"}, \
                        {shapes, "act_type=softsign", 0, 0, "floatonly"}, {0}}
#define BACKWARD_KINDS                                                                                               \
    (const mx_sample[]){{"2,37;2,37", "act_type=relu", 0.1, 0.9, "floatonly"}, {"5;5", "act_type=sigmoid", 0.1, 0.9, "floatonly"}, \
                        {"5;5", "act_type=tanh", 0.1, 0.9, "floatonly"}, {"5;5", "act_type=softrelu", 0.1, 0.9, "floatonly"}, \
                        {"5;5", "act_type=softsign", 0.1, 0.9, "floatonly"}, {0}}

mx_op mx_family_activation[] = {
    {.name = "Activation", MX_EMIT(emit_activation), .shows = "act_type", .look = MX_LOOK_ACTIVATION,
     .finite_at_zero = true,
     .float32_where = (const char *const[]){"act_type", "softrelu", NULL}, .aliases = "_npx_activation",
     .c_name = "op_activation", .inputs = "data", .schema = &activation_schema,
     .doc = "an activation function chosen by name", .flags = MX_OP_INPLACE, .gradient = grad_activation, .grad_out = 1,
     .samples = KINDS("2,37"), .reference = ref_activation},
    {.name = "_backward_Activation", .inputs = "ograd output", .schema = &activation_schema, .doc = "gradient of Activation",
     .flags = MX_OP_INPLACE | MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .samples = BACKWARD_KINDS, .reference = ref_activation_backward},
    {.name = "LeakyReLU", MX_EMIT(emit_leaky_relu), .shows = "act_type", .look = MX_LOOK_ACTIVATION,
     .float32_where = (const char *const[]){"act_type", "elu", "selu", NULL}, .precision = MX_PRECISION_WIDEST,
     .aliases = "_npx_leaky_relu", .c_name = "op_leaky_relu", .inputs = "data gamma?", .outputs = "output mask",
     .doc = "rectifiers with a slope below zero, and their relatives", .schema = &leaky_relu_schema, .n_out = 2, .n_visible = 1,
     .flags = MX_OP_RANDOM | MX_OP_TRAINING, .count_in = count_leaky_in, .count_visible = count_leaky_visible,
     .infer_shape = infer_leaky, .infer_type = infer_leaky_type, .check = check_leaky, .gradient = grad_leaky, .grad_in = 3,
     .grad_out = 2, .reference = ref_leaky,
     .samples = (const mx_sample[]){{"2,37", "", 0, 0, "floatonly"}, {"2,3", "slope=-0.5", 0, 0, "floatonly"},
                                    {"2,3,4;3", "act_type=prelu", 0, 0, "floatonly"}, {"2,3;1", "act_type=prelu", 0, 0, "floatonly nograd"},
                                    {"2,3", "act_type=elu, slope=0.7", 0, 0, "floatonly"}, {"2,3", "act_type=selu", 0, 0, "floatonly"},
                                    {"2,3", "act_type=gelu", 0, 0, "floatonly"}, {"2,3", "act_type=rrelu", 0, 0, "floatonly nograd"},
                                    {"2,3", "act_type=rrelu", 0, 0, "floatonly train random"}, {0}}},
    {.name = "_backward_LeakyReLU", .inputs = "ograd data gamma? mask?", .outputs = "data_grad gamma_grad", .schema = &leaky_relu_schema,
     .doc = "gradient of LeakyReLU", .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .n_out = 2, .infer_shape = infer_leaky_backward,
     .infer_type = infer_leaky_backward_type, .reference = ref_leaky_backward,
     .samples = (const mx_sample[]){{"2,37;2,37", "", 0, 0, "floatonly"}, {"2,3,4;2,3,4;3", "act_type=prelu", 0, 0, "floatonly"},
                                    {"2,3;2,3;1", "act_type=prelu", 0, 0, "floatonly"}, {"2,3;2,3", "act_type=elu", 0, 0, "floatonly"},
                                    {"2,3;2,3", "act_type=selu", 0, 0, "floatonly"}, {"2,3;2,3", "act_type=gelu", 0, 0, "floatonly"}, {0}}},
    {0},
};
