/* Activation and LeakyReLU: activations that are chosen by an attribute.
 *
 * Activation's gradients use only the output, so the data need not be saved.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/activation.h"

#include "base/error.h"
#include "op/def/pointwise/numbers.h"
#include "op/emit.h"
#include "op/formula/pointwise.h"

#define ACTIVATION_ATTRS(X) X(ENUM, act_type, REQUIRED, "relu|sigmoid|tanh|softrelu|softsign", "the activation function")
MX_ATTRS(activation, ACTIVATION_ATTRS)
enum { RELU, SIGMOID, TANH, SOFTRELU, SOFTSIGN };

#define LEAKY_RELU_ATTRS(X) \
    X(ENUM, act_type, "leaky", "rrelu|leaky|prelu|elu|selu|gelu", "the activation function") \
    X(FLOAT, slope, "0.25", "", "slope of the negative part (leaky), or its lower limit (elu)") \
    X(FLOAT, lower_bound, "0.125", "", "lower bound of the slope of rrelu") \
    X(FLOAT, upper_bound, "0.334", "", "upper bound of the slope of rrelu")
MX_ATTRS(leaky_relu, LEAKY_RELU_ATTRS)
enum { RRELU, LEAKY, PRELU, ELU, SELU, GELU };

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

#define T double
#define ACTIVATE(type, row) \
    case type: return activate_##row(x);
#define SLOPE(type, row) \
    case type: return gradient_##row(g, y);
#define ROW(name, aliases, forward, looks, gradient, ...)                                                            \
    __attribute__((unused)) static double activate_##name(double x) { return (double)(forward); }                    \
    __attribute__((unused)) static double gradient_##name(double g, double y)                                        \
    {                                                                                                                \
        __attribute__((unused)) double x = NAN, t = 0; /* entries whose gradient uses x are not used */                    \
        (void)g, (void)y;                                                                                            \
        return (double)(gradient);                                                                                   \
    }
MX_UNARY_ROWS(ROW)

static double activate(int type, double x)
{
    switch (type) {
        MX_ACTIVATION_ROWS(ACTIVATE)
    default: return 0;
    }
}

static double gradient_of(int type, double g, double y)
{
    const double none[3] = {0};
    if (type == SOFTSIGN)
        return mx_number_softsign_gradient(y, g, none);
    switch (type) {
        MX_ACTIVATION_ROWS(SLOPE)
    default: return 0;
    }
}
#undef T

static void ref_activation(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = activate(((const mx_activation_attrs *)call->attrs)->act_type, call->in[0][i]);
}

static void ref_activation_backward(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] =
            gradient_of(((const mx_activation_attrs *)call->attrs)->act_type, call->in[0][i], call->in[1][i]);
}

/* ---- LeakyReLU: inference ---------------------------------------------------------------------------------- */

/* Axes of gamma are those of the data or 1; those that are not 1 are adjacent. */
static bool slopes_fit(const mx_shape_t *data, const mx_shape_t *gamma)
{
    int first = -1, last = -1;
    for (int i = 0; i < gamma->ndim; i++) {
        if (i >= data->ndim || (gamma->dim[i] != 1 && gamma->dim[i] != data->dim[i]))
            return false;
        if (gamma->dim[i] != 1)
            first = first < 0 ? i : first, last = i;
    }
    for (int i = first < 0 ? 0 : first; i < last; i++)
        if (gamma->dim[i] == 1 && data->dim[i] != 1)
            return false;
    return true;
}

/* gamma of prelu: one slope, one per channel (axis 1), or several axes: see mx_prelu_inner. */
static mx_code infer_gamma(mx_infer *infer)
{
    const mx_shape_t *data = &infer->in[0], *gamma = &infer->in[1];
    if (mx_shape_known(gamma) && (mx_shape_size(gamma) == 1 || (gamma->ndim > 1 && slopes_fit(data, gamma))))
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
    const mx_shape_t empty = {.ndim = 1, .dim = {0}}; /* only rrelu saves slopes */
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
static bool leaky_draws(const void *a) { return ((const mx_leaky_relu_attrs *)a)->act_type == RRELU; }
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

/* gamma (C) as (1, C, 1, ...), gamma (N, C) as (N, C, 1, ...) */
static mx_array *channels(mx_array *gamma, const mx_shape_t *data)
{
    mx_shape_t shape = {.ndim = data->ndim};
    for (int i = 0; i < data->ndim; i++)
        shape.dim[i] = gamma->ndim > 1 && i < gamma->ndim ? gamma->shape[i] : 1;
    if (data->ndim && gamma->size != 1 && gamma->ndim == 1)
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
    case SELU: return mx_g_scale(two_sided(x, mx_g_scale(mx_g1("exp", negative), MX_SELU_ALPHA)), MX_SELU_SCALE);
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

/* The number of the slope of element i. */
static int64_t slope_index(const mx_shape_t *data, const mx_shape_t *gamma, int64_t i)
{
    return i / mx_prelu_inner(data->dim, data->ndim, gamma->dim, gamma->ndim) % mx_shape_size(gamma);
}

/* p of the formulas. */
static double slope_of(const mx_leaky_relu_attrs *attrs, double gamma)
{
    return attrs->act_type == PRELU   ? gamma
           : attrs->act_type == RRELU ? (attrs->lower_bound + attrs->upper_bound) / 2
                                      : attrs->slope;
}

static double leaky(const mx_leaky_relu_attrs *attrs, double x, double gamma)
{
    const double number[3] = {slope_of(attrs, gamma)};
    switch (attrs->act_type) {
#define LEAKY_VALUE(type, row) \
    case type: return mx_number_##row(x, 0, number);
        MX_LEAKY_RELU_ROWS(LEAKY_VALUE)
    default: return 0;
    }
}

static void ref_leaky(const mx_reference_call *call)
{
    const mx_leaky_relu_attrs *attrs = call->attrs;
    const bool prelu = attrs->act_type == PRELU;
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        const double gamma = prelu ? call->in[1][slope_index(&call->in_shape[0], &call->in_shape[1], i)] : 0;
        call->out[0][i] = leaky(attrs, call->in[0][i], gamma);
        if (attrs->act_type == RRELU)
            call->out[1][i] = (attrs->lower_bound + attrs->upper_bound) / 2;
    }
}

static double leaky_gradient(const mx_leaky_relu_attrs *attrs, double g, double x, double gamma)
{
    const double number[3] = {slope_of(attrs, gamma)};
    switch (attrs->act_type) {
#define LEAKY_GRADIENT(type, row) \
    case type: return mx_number_##row##_gradient(x, g, number);
        MX_LEAKY_RELU_ROWS(LEAKY_GRADIENT)
    default: return 0;
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
        const int64_t place = count ? slope_index(&call->in_shape[1], &call->in_shape[2], i) : 0;
        const double gamma = count ? call->in[2][place] : 0;
        call->out[0][i] = leaky_gradient(attrs, g, x, gamma);
        if (count && !(x > 0))
            call->out[1][place] += g * x;
    }
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_activation(const mx_emit_call *n)
{
    static const int rows[] = {
#define EMITTED(type, row) [type] = MX_ROW_##row,
        MX_ACTIVATION_ROWS(EMITTED)
#undef EMITTED
    };
    return mx_emit_unary(n, rows[((const mx_activation_attrs *)n->attrs)->act_type]);
}

static mx_code emit_prelu(const mx_emit_call *n)
{
    const int64_t channels = mx_shape_size(n->in[1].shape), all = mx_shape_size(n->x);
    const mx_shape_t *gamma = n->in[1].shape;
    const int64_t inner = channels == 1 ? 1 : mx_prelu_inner(n->x->dim, n->x->ndim, gamma->dim, gamma->ndim);
    return mx_emit_slopes(n, MX_NUMBER_leaky, mx_emit_over(all, channels * inner), channels, inner);
}

/* The slope of rrelu is the middle of its range. */
static mx_code emit_leaky_relu(const mx_emit_call *n)
{
    const mx_leaky_relu_attrs *attrs = n->attrs;
    static const int rows[] = {
#define EMITTED(type, row) [type] = MX_NUMBER_##row,
        MX_LEAKY_RELU_ROWS(EMITTED)
#undef EMITTED
    };
    if (attrs->act_type == PRELU)
        return emit_prelu(n);
    const double middle = (attrs->lower_bound + attrs->upper_bound) / 2;
    const double number[3] = {attrs->act_type == RRELU ? middle : attrs->slope};
    return mx_emit_numbers(n, rows[attrs->act_type], &n->in[0], number);
}

/* ---- the table -------------------------------------------------------------------------------------------- */

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
     .doc = "applies an activation function chosen by name", .flags = MX_OP_INPLACE | MX_OP_ELEMENTWISE, .gradient = grad_activation, .grad_out = 1,
     .samples = KINDS("2,37"), .reference = ref_activation},
    {.name = "_backward_Activation", .inputs = "ograd output", .schema = &activation_schema, .doc = "gradient of Activation",
     .flags = MX_OP_INPLACE | MX_OP_ELEMENTWISE | MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .samples = BACKWARD_KINDS, .reference = ref_activation_backward},
    {.name = "LeakyReLU", MX_EMIT(emit_leaky_relu), .shows = "act_type", .look = MX_LOOK_ACTIVATION,
     .float32_where = (const char *const[]){"act_type", "elu", "selu", NULL}, .precision = MX_PRECISION_WIDEST,
     .starts = {NULL, "[\"Constant\", {\"value\": 0.25}]"}, .aliases = "_npx_leaky_relu", .c_name = "op_leaky_relu", .inputs = "data gamma?", .outputs = "output mask",
     .doc = "leaky relu and related activation functions", .schema = &leaky_relu_schema, .n_out = 2, .n_visible = 1,
     .flags = MX_OP_RANDOM | MX_OP_TRAINING, .draws = leaky_draws, .count_in = count_leaky_in, .count_visible = count_leaky_visible,
     .infer_shape = infer_leaky, .infer_type = infer_leaky_type, .check = check_leaky, .gradient = grad_leaky, .grad_in = 3,
     .grad_out = 2, .reference = ref_leaky,
     .samples = (const mx_sample[]){{"2,37", "", 0, 0, "floatonly"}, {"2,3", "slope=-0.5", 0, 0, "floatonly"},
                                    {"2,3,4;3", "act_type=prelu", 0, 0, "floatonly"}, {"2,3;1", "act_type=prelu", 0, 0, "floatonly nograd"},
                                    {"2,3;2,3", "act_type=prelu", 0, 0, "floatonly"}, {"2,3,2,2;2,3", "act_type=prelu", 0, 0, "floatonly"},
                                    {"2,3,4;2,1", "act_type=prelu", 0, 0, "floatonly"}, {"2,3,4;1,3,1", "act_type=prelu", 0, 0, "floatonly"},
                                    {"2,3", "act_type=elu, slope=0.7", 0, 0, "floatonly"}, {"2,3", "act_type=selu", 0, 0, "floatonly"},
                                    {"2,3", "act_type=gelu", 0, 0, "floatonly"}, {"2,3", "act_type=rrelu", 0, 0, "floatonly nograd"},
                                    {"2,3", "act_type=rrelu", 0, 0, "floatonly train random"}, {0}}},
    {.name = "_backward_LeakyReLU", .inputs = "ograd data gamma? mask?", .outputs = "data_grad gamma_grad", .schema = &leaky_relu_schema,
     .doc = "gradient of LeakyReLU", .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .n_out = 2, .infer_shape = infer_leaky_backward,
     .infer_type = infer_leaky_backward_type, .reference = ref_leaky_backward,
     .samples = (const mx_sample[]){{"2,37;2,37", "", 0, 0, "floatonly"}, {"2,3,4;2,3,4;3", "act_type=prelu", 0, 0, "floatonly"}, {"2,3,4;2,3,4;2,3", "act_type=prelu", 0, 0, "floatonly"},
                                    {"2,3;2,3;1", "act_type=prelu", 0, 0, "floatonly"}, {"2,3;2,3", "act_type=elu", 0, 0, "floatonly"},
                                    {"2,3;2,3", "act_type=selu", 0, 0, "floatonly"}, {"2,3;2,3", "act_type=gelu", 0, 0, "floatonly"}, {0}}},
    {0},
};
