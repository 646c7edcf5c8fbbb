/* Activations, softmax and its relatives.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* ---- with numbers ------------------------------------------------------------------------------------------------ */

static mx_array *choose(mx_array *condition, mx_array *x, mx_array *y) { return mx_where(condition, x, y); }

static mx_code read_elu(mx_onnx_in *n)
{
    n->out[0] = mx_op_leaky_relu(n->in[0], .act_type = MX_LEAKY_RELU_ELU, .slope = mx_onnx_float(n, "alpha", 1));
    return MX_OK;
}

static mx_code read_leaky(mx_onnx_in *n)
{
    n->out[0] = mx_op_leaky_relu(n->in[0], .act_type = MX_LEAKY_RELU_LEAKY, .slope = mx_onnx_float(n, "alpha", 0.01));
    return MX_OK;
}

/* gamma * (max(x, 0) + min(alpha (e^x - 1), 0)); celu: alpha (e^(x / alpha) - 1) */
static mx_code read_selu(mx_onnx_in *n)
{
    const bool celu = !strcmp(n->op, "Celu");
    const double alpha = mx_onnx_float(n, "alpha", celu ? 1 : 1.67326319217681884765625);
    const double gamma = celu ? 1 : mx_onnx_float(n, "gamma", 1.05070102214813232421875);
    mx_array *e = mx_expm1(mx_minimum_scalar(celu ? mx_div_scalar(n->in[0], .scalar = alpha) : n->in[0], .scalar = 0));
    mx_array *y = mx_add(mx_relu(n->in[0]), mx_mul_scalar(e, .scalar = alpha));
    n->out[0] = mx_mul_scalar(y, .scalar = gamma);
    return MX_OK;
}

static mx_code read_prelu(mx_onnx_in *n)
{
    mx_array *x = n->in[0];
    n->out[0] = mx_add(mx_relu(x), mx_mul(mx_minimum_scalar(x, .scalar = 0), n->in[1]));
    return MX_OK;
}

static mx_code read_hard_sigmoid(mx_onnx_in *n)
{
    const bool swish = !strcmp(n->op, "HardSwish");
    mx_array *y = mx_hard_sigmoid(n->in[0], .alpha = swish ? 1.0 / 6 : mx_onnx_float(n, "alpha", 0.2),
                                  .beta = swish ? 0.5 : mx_onnx_float(n, "beta", 0.5));
    n->out[0] = swish ? mx_mul(n->in[0], y) : y;
    return MX_OK;
}

static mx_code read_gelu(mx_onnx_in *n)
{
    char text[64];
    const bool close = !strcmp(mx_onnx_text(n, "approximate", text, "none"), "tanh");
    n->out[0] = close ? mx_gelu_tanh(n->in[0]) : mx_op_leaky_relu(n->in[0], .act_type = MX_LEAKY_RELU_GELU);
    return MX_OK;
}

static mx_code read_swish(mx_onnx_in *n)
{
    const double alpha = mx_onnx_float(n, "alpha", 1);
    n->out[0] = mx_mul(n->in[0], mx_sigmoid(mx_mul_scalar(n->in[0], .scalar = alpha)));
    return MX_OK;
}

static mx_code read_thresholded(mx_onnx_in *n)
{
    mx_array *x = n->in[0];
    n->out[0] = choose(mx_greater_scalar(x, .scalar = mx_onnx_float(n, "alpha", 1)), x, mx_zeros_like(x));
    return MX_OK;
}

static mx_code read_shrink(mx_onnx_in *n)
{
    const double lambd = mx_onnx_float(n, "lambd", 0.5), bias = mx_onnx_float(n, "bias", 0);
    const mx_dtype type = (mx_dtype)n->in[0]->dtype;
    mx_array *x = mx_dtype_is_float(type) ? n->in[0] : mx_cast(n->in[0], .dtype = MX_FLOAT32), *zero = mx_zeros_like(x);
    mx_array *up = choose(mx_greater_scalar(x, .scalar = lambd), mx_minus_scalar(x, .scalar = bias), zero);
    mx_array *y = choose(mx_lesser_scalar(x, .scalar = -lambd), mx_plus_scalar(x, .scalar = bias), up);
    n->out[0] = mx_onnx_cast(y, type);
    return MX_OK;
}

static mx_code write_activation(mx_onnx_out *o)
{
    static const char *const ops[] = {"Relu", "Sigmoid", "Tanh", "Softplus", "Softsign"};
    const mx_activation_attrs *a = o->attrs;
    if (a->act_type < 0 || a->act_type > MX_ACTIVATION_SOFTSIGN)
        return mx_onnx_refuse(o, "its act_type cannot be written");
    mx_onnx_put(o, o->out[0], ops[a->act_type], o->in[0]);
    return mx_onnx_done(o);
}

/* x * 0.5 * (1 + erf(x / sqrt(2))) */
static mx_code write_gelu(mx_onnx_out *o)
{
    const int type = o->in_type[0];
    if (o->opset >= 20)
        return mx_onnx_put(o, o->out[0], "Gelu", o->in[0]), mx_onnx_done(o);
    const char *e = mx_onnx_put(o, NULL, "Div", o->in[0], mx_onnx_put_number(o, sqrt(2.0), type));
    e = mx_onnx_put(o, NULL, "Add", mx_onnx_put(o, NULL, "Erf", e), mx_onnx_put_number(o, 1, type));
    mx_onnx_put(o, o->out[0], "Mul", mx_onnx_put(o, NULL, "Mul", o->in[0], e), mx_onnx_put_number(o, 0.5, type));
    return mx_onnx_done(o);
}

/* x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))) */
static mx_code write_gelu_tanh(mx_onnx_out *o)
{
    const int type = o->in_type[0];
    const char *x = o->in[0];
    if (o->opset >= 20) {
        mx_onnx_put(o, o->out[0], "Gelu", x);
        mx_onnx_set_text(o, "approximate", "tanh");
        return mx_onnx_done(o);
    }
    const char *e = mx_onnx_put(o, NULL, "Mul", mx_onnx_put(o, NULL, "Mul", x, x), x);
    e = mx_onnx_put(o, NULL, "Mul", e, mx_onnx_put_number(o, 0.044715, type));
    e = mx_onnx_put(o, NULL, "Mul", mx_onnx_put(o, NULL, "Add", x, e),
                    mx_onnx_put_number(o, sqrt(2 / acos(-1.0)), type));
    e = mx_onnx_put(o, NULL, "Add", mx_onnx_put(o, NULL, "Tanh", e), mx_onnx_put_number(o, 1, type));
    mx_onnx_put(o, o->out[0], "Mul", mx_onnx_put(o, NULL, "Mul", x, e), mx_onnx_put_number(o, 0.5, type));
    return mx_onnx_done(o);
}

/* Slopes of channels, or of samples and channels. */
static mx_code write_prelu(mx_onnx_out *o)
{
    const int rank = mx_onnx_out_rank(o, 0), own = mx_onnx_out_rank(o, 1), lead = own == 1;
    int64_t shape[MX_MAX_NDIM];
    if (rank < 0 || own < 1 || own + lead > rank)
        return rank < 0 || own < 0 ? mx_error_code() : mx_onnx_refuse(o, "slopes of %d axes cannot be written", own);
    for (int i = 0; i < rank - lead; i++)
        shape[i] = i < own ? o->in_shape[1].dim[i] : 1;
    const char *slope = rank - lead > own
                            ? mx_onnx_put(o, NULL, "Reshape", o->in[1], mx_onnx_put_ints(o, rank - lead, shape))
                            : o->in[1];
    mx_onnx_put(o, o->out[0], "PRelu", o->in[0], slope);
    return mx_onnx_done(o);
}

static mx_code write_leaky(mx_onnx_out *o)
{
    const mx_leaky_relu_attrs *a = o->attrs;
    switch (a->act_type) {
    case MX_LEAKY_RELU_GELU: return write_gelu(o);
    case MX_LEAKY_RELU_PRELU: return write_prelu(o);
    case MX_LEAKY_RELU_SELU: mx_onnx_put(o, o->out[0], "Selu", o->in[0]); break;
    case MX_LEAKY_RELU_ELU:
        mx_onnx_put(o, o->out[0], "Elu", o->in[0]);
        mx_onnx_set_float(o, "alpha", a->slope);
        break;
    default:
        mx_onnx_put(o, o->out[0], "LeakyRelu", o->in[0]);
        mx_onnx_set_float(o, "alpha",
                          a->act_type == MX_LEAKY_RELU_RRELU ? (a->lower_bound + a->upper_bound) / 2 : a->slope);
    }
    return mx_onnx_done(o);
}

static mx_code write_hard_sigmoid(mx_onnx_out *o)
{
    const mx_hard_sigmoid_attrs *a = o->attrs;
    mx_onnx_put(o, o->out[0], "HardSigmoid", o->in[0]);
    mx_onnx_set_float(o, "alpha", a->alpha);
    mx_onnx_set_float(o, "beta", a->beta);
    return mx_onnx_done(o);
}

static mx_code write_silu(mx_onnx_out *o)
{
    mx_onnx_put(o, o->out[0], "Mul", o->in[0], mx_onnx_put(o, NULL, "Sigmoid", o->in[0]));
    return mx_onnx_done(o);
}

static mx_code write_mish(mx_onnx_out *o)
{
    mx_onnx_put(o, o->out[0], "Mul", o->in[0],
                mx_onnx_put(o, NULL, "Tanh", mx_onnx_put(o, NULL, "Softplus", o->in[0])));
    return mx_onnx_done(o);
}

static mx_code write_log_sigmoid(mx_onnx_out *o)
{
    mx_onnx_put(o, o->out[0], "Log", mx_onnx_put(o, NULL, "Sigmoid", o->in[0]));
    return mx_onnx_done(o);
}

/* ---- softmax --------------------------------------------------------------------------------------------------- */

/* Before opset 13 the axes from `axis` on were one. */
static mx_code read_softmax(mx_onnx_in *n)
{
    const bool old = n->opset < 13, logs = n->op[0] == 'L', hard = n->op[0] == 'H';
    const int rank = mx_onnx_rank(n, 0);
    int64_t axis = mx_onnx_int(n, "axis", old ? 1 : -1), last = -1;
    mx_array *x = n->in[0];
    if (rank < 0 || ((rank || hard) && !mx_onnx_axis(n, &axis, rank)))
        return mx_error_code();
    if (old && axis < rank - 1) {
        mx_dims rows = {.n = (int32_t)axis + 1};
        rows.d[axis] = -1; /* the axes before are kept (0) */
        x = mx_reshape(x, .shape = rows);
        axis = last;
    }
    mx_array *y;
    if (hard) {
        const int64_t depth = x ? x->shape[axis < 0 ? x->ndim - 1 : axis] : -1;
        if (depth < 0)
            return mx_onnx_fail(n, MX_ERR_SHAPE, "the size of its axis is not known");
        y = mx_one_hot(mx_argmax(x, .axis = axis), .depth = depth, .dtype = (mx_dtype)x->dtype);
        if (y && axis >= 0 && axis < x->ndim - 1) { /* the new axis goes back to its place */
            mx_dims order = {.n = x->ndim};
            for (int k = 0; k < x->ndim; k++)
                order.d[k] = k < axis ? k : k == axis ? x->ndim - 1 : k - 1;
            y = mx_transpose(y, .axes = order);
        }
    } else
        y = logs ? mx_log_softmax(x, .axis = axis) : mx_softmax(x, .axis = axis);
    n->out[0] = x == n->in[0] ? y : mx_reshape_like(y, n->in[0]);
    return MX_OK;
}

/* Whether a position is before the length (input 1) of its row. */
static const char *put_inside(mx_onnx_out *o, int64_t along)
{
    const int rank = mx_onnx_out_rank(o, 0), axis = rank < 0 ? 0 : mx_axis(along, rank);
    int64_t shape[MX_MAX_NDIM];
    for (int i = 0; i < rank; i++)
        shape[i] = i == axis ? -1 : 1;
    const char *sizes = mx_onnx_put(o, NULL, "Shape", o->in[0]);
    const char *size = mx_onnx_put(o, NULL, "Gather", sizes, mx_onnx_put_number(o, axis, MX_INT64));
    const char *count =
        mx_onnx_put(o, NULL, "Range", mx_onnx_put_number(o, 0, MX_INT64), size, mx_onnx_put_number(o, 1, MX_INT64));
    const char *length = mx_onnx_put_cast(o, NULL, o->in[1], MX_INT64);
    length = mx_onnx_put(o, NULL, "Unsqueeze", length, mx_onnx_put_ints(o, MX_ONNX_LIST(axis)));
    return mx_onnx_put(o, NULL, "Less", mx_onnx_put_shaped(o, NULL, count, rank < 0 ? 0 : rank, shape), length);
}

static mx_code write_softmax(mx_onnx_out *o)
{
    const mx_softmax_attrs *a = o->attrs; /* those of log_softmax and softmin begin with the same fields */
    const char *x = o->out_type[0] == o->in_type[0] || o->out_type[0] < 0
                        ? o->in[0]
                        : mx_onnx_put_cast(o, NULL, o->in[0], o->out_type[0]);
    const char *inside = a->use_length ? put_inside(o, a->axis) : NULL;
    if (!isnan(a->temperature) && a->temperature != 1)
        x = mx_onnx_put(o, NULL, "Div", x, mx_onnx_put_number(o, a->temperature, o->out_type[0]));
    if (!strcmp(o->node->op->name, "softmin"))
        x = mx_onnx_put(o, NULL, "Neg", x);
    if (inside)
        x = mx_onnx_put(o, NULL, "Where", inside, x, mx_onnx_put_number(o, -1e4 * 6, o->out_type[0]));
    const char *y = mx_onnx_put(o, inside ? NULL : o->out[0], o->row->onnx, x);
    mx_onnx_set_int(o, "axis", a->axis);
    if (inside) /* nothing comes after the lengths */
        mx_onnx_put(o, o->out[0], "Where", inside, y, mx_onnx_put_number(o, 0, o->out_type[0]));
    return mx_onnx_done(o);
}

/* Over all axes but the first. */
static mx_code write_flat_softmax(mx_onnx_out *o)
{
    const char *y = mx_onnx_put(o, NULL, "Softmax", mx_onnx_put_shaped(o, NULL, o->in[0], MX_ONNX_LIST(0, -1)));
    mx_onnx_set_int(o, "axis", 1);
    mx_onnx_put(o, o->out[0], "Reshape", y, mx_onnx_put(o, NULL, "Shape", o->in[0]));
    return mx_onnx_done(o);
}

/* SoftmaxOutput over the last axis of matrices, over axis 1 with multi_output. */
static mx_code write_softmax_output(mx_onnx_out *o)
{
    const mx_softmax_output_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    if (rank > 2 && !a->multi_output && !a->preserve_shape)
        return write_flat_softmax(o);
    mx_onnx_put(o, o->out[0], "Softmax", o->in[0]);
    mx_onnx_set_int(o, "axis", a->multi_output ? 1 : -1);
    return mx_onnx_done(o);
}

static mx_code write_softmax_activation(mx_onnx_out *o)
{
    const mx_softmax_activation_attrs *a = o->attrs;
    const bool channel = a->mode == MX_SOFTMAX_ACTIVATION_CHANNEL;
    if (!channel && mx_onnx_out_rank(o, 0) != 2)
        return write_flat_softmax(o);
    mx_onnx_put(o, o->out[0], "Softmax", o->in[0]);
    mx_onnx_set_int(o, "axis", 1);
    return mx_onnx_done(o);
}

/* Losses and markers of gradients: in a prediction they are their input, or an activation of it. */
static mx_code write_first(mx_onnx_out *o)
{
    mx_onnx_put(o, o->out[0], o->row->onnx, o->in[0]);
    return mx_onnx_done(o);
}

static mx_code read_dropout(mx_onnx_in *n)
{
    n->out[0] = mx_copy(n->in[0]);
    if (n->n_out > 1)
        n->out[1] = mx_cast(mx_ones_like(n->in[0]), .dtype = MX_BOOL);
    double training;
    if (n->opset >= 12 && mx_onnx_given(n, 2) && (!mx_onnx_number(n, 2, 0, &training) || training != 0))
        return mx_has_error() ? mx_error_code() : mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "training_mode is set");
    return MX_OK;
}

static mx_code write_dropout(mx_onnx_out *o)
{
    const mx_dropout_attrs *a = o->attrs;
    if (a->mode == MX_DROPOUT_ALWAYS)
        return mx_onnx_refuse(o, "mode=always cannot be written");
    mx_onnx_put(o, o->out[0], "Identity", o->in[0]);
    return mx_onnx_done(o);
}

/* a sigmoid(alpha a) b */
static mx_code read_swiglu(mx_onnx_in *n)
{
    mx_array *gate = mx_sigmoid(mx_mul_scalar(n->in[0], .scalar = mx_onnx_float(n, "alpha", 1)));
    n->out[0] = mx_mul(mx_mul(n->in[0], gate), n->in[1]);
    return MX_OK;
}

/* Each channel of x (N, C, L) with its own filter (C, 1, k), on the last k - 1 elements before and x itself. */
static mx_code read_causal_conv(mx_onnx_in *n)
{
    char after[64];
    mx_dims shape;
    if (!mx_onnx_shape(n, 1, &shape) || shape.n != 3)
        return mx_has_error() ? mx_error_code()
                              : mx_onnx_fail(n, MX_ERR_FILE, "its filters have %d axes, wanted 3", shape.n);
    const int64_t before = shape.d[2] - 1;
    mx_array *x = n->in[0], *zero = mx_zeros_like(mx_slice_axis(x, .axis = 2, .begin = 0, .end = 1));
    if (before > 0)
        x = mx_concat(MX_ARRAYS(mx_onnx_given(n, 3) ? n->in[3] : mx_repeat(zero, .repeats = before, .axis = 2), x),
                      .num_args = 2, .dim = 2);
    mx_array *y = mx_convolution(x, n->in[1], mx_onnx_input(n, 2), .kernel = MX_DIMS(shape.d[2]),
                                 .num_filter = shape.d[0], .num_group = shape.d[0], .no_bias = !mx_onnx_given(n, 2));
    mx_onnx_text(n, "activation", after, "none");
    n->out[0] = strcmp(after, "none") ? mx_mul(y, mx_sigmoid(y)) : y;
    if (n->n_out > 1)
        n->out[1] = before > 0 ? mx_slice_axis(x, .axis = 2, .begin = -before, .end = MX_NONE_INT)
                               : mx_slice_axis(x, .axis = 2, .begin = 0, .end = 0);
    return MX_OK;
}

const mx_onnx_row mx_onnx_activation[] = {
    SAME("Relu", "relu"),
    SAME("Sigmoid", "sigmoid"),
    SAME("Tanh", "tanh"),
    SAME("Softsign", "softsign"),
    SAME("Softplus", "_softplus"),
    WRITE("Mish", "mish", write_mish),
    WRITE(NULL, "Activation", write_activation),
    BOTH("LeakyRelu", "LeakyReLU", read_leaky, write_leaky),
    READ("Elu", read_elu),
    READ("Selu", read_selu),
    READ("Celu", read_selu),
    READ("PRelu", read_prelu),
    BOTH("HardSigmoid", "hard_sigmoid", read_hard_sigmoid, write_hard_sigmoid),
    READ("HardSwish", read_hard_sigmoid),
    READ("Gelu", read_gelu),
    READ("Swish", read_swish),
    WRITE(NULL, "_silu", write_silu),
    WRITE(NULL, "_gelu_tanh", write_gelu_tanh),
    WRITE(NULL, "log_sigmoid", write_log_sigmoid),
    READ("ThresholdedRelu", read_thresholded),
    READ("Shrink", read_shrink),
    BOTH("Softmax", "softmax", read_softmax, write_softmax),
    BOTH("LogSoftmax", "log_softmax", read_softmax, write_softmax),
    BOTH("Softmax", "softmin", read_softmax, write_softmax),
    READ("Hardmax", read_softmax),
    WRITE(NULL, "SoftmaxOutput", write_softmax_output),
    WRITE(NULL, "SoftmaxActivation", write_softmax_activation),
    SAME("Identity", "_copy"),
    SAME("Identity", "BlockGrad"),
    SAME("Identity", "make_loss"),
    SAME("Identity", "MakeLoss"),
    SAME("Identity", "_copyto"),
    SAME("Identity", "cast_storage"),
    WRITE("Identity", "_identity_with_attr_like_rhs", write_first),
    WRITE("Identity", "_contrib_gradientmultiplier", write_first),
    WRITE("Identity", "LinearRegressionOutput", write_first),
    WRITE("Identity", "MAERegressionOutput", write_first),
    WRITE("Sigmoid", "LogisticRegressionOutput", write_first),
    WRITE("Identity", "SVMOutput", write_first),
    WRITE("Identity", "IdentityAttachKLSparseReg", write_first),
    BOTH("Dropout", "Dropout", read_dropout, write_dropout, .constants = 6),
    READ("SwiGLU", read_swiglu),
    READ("CausalConvWithState", read_causal_conv),
    {0}};
