/* Small functions of one array: straight-through estimators, scaled gradients, a parabola; and two that need a friend:
 * allclose and the Khatri-Rao product.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/emit.h"
#include "op/op.h"

#define GRADIENTMULTIPLIER_ATTRS(X) \
    X(FLOAT, scalar, "1.0", "", "factor of the gradient") \
    X(BOOL, is_int, "True", "", "accepted for compatibility")
MX_ATTRS(gradientmultiplier, GRADIENTMULTIPLIER_ATTRS)

#define QUADRATIC_ATTRS(X) \
    X(FLOAT, a, "0.0", "", "factor of x^2") \
    X(FLOAT, b, "0.0", "", "factor of x") \
    X(FLOAT, c, "0.0", "", "constant")
MX_ATTRS(quadratic, QUADRATIC_ATTRS)

#define ALLCLOSE_ATTRS(X) \
    X(FLOAT, rtol, "1e-05", "", "allowed difference, relative to b") \
    X(FLOAT, atol, "1e-08", "", "allowed difference") \
    X(BOOL, equal_nan, "True", "", "two NaN are close")
MX_ATTRS(allclose, ALLCLOSE_ATTRS)

#define KHATRI_RAO_ATTRS(X) X(INT, num_args, "None", "", "how many matrices; they are counted")
MX_ATTRS(khatri_rao, KHATRI_RAO_ATTRS)

/* ---- gradients ------------------------------------------------------------------------------------------------- */

static mx_code pass_on(mx_grad *grad) { return mx_give(grad, 0, grad->ograd[0]); }

static mx_code grad_multiplier(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_scale(grad->ograd[0], ((const mx_gradientmultiplier_attrs *)grad->attrs)->scalar));
}

static double inverse_root(const mx_shape_t *in) { return in->ndim ? 1 / sqrt((double)in->dim[in->ndim - 1]) : 1; }

static mx_code grad_div_sqrt(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_scale(grad->ograd[0], inverse_root(&grad->in_shape[0])));
}

/* dx = g (2 a x + b) */
static mx_code grad_quadratic(mx_grad *grad)
{
    const mx_quadratic_attrs *attrs = grad->attrs;
    return mx_give(grad, 0, mx_g_mul(grad->ograd[0], mx_g_shift(mx_g_scale(grad->in[0], 2 * attrs->a), attrs->b)));
}

/* ---- inference ------------------------------------------------------------------------------------------------- */

static mx_code infer_allclose(mx_infer *infer)
{
    const mx_shape_t one = {.ndim = 1, .dim = {1}};
    if (mx_infer_in(infer, 0, &infer->in[1]) || mx_infer_in(infer, 1, &infer->in[0]))
        return mx_error_code();
    return mx_infer_out(infer, 0, &one);
}

static mx_code infer_allclose_type(mx_infer *infer)
{
    if (mx_infer_in_type(infer, 0, infer->in_type[1]) || mx_infer_in_type(infer, 1, infer->in_type[0]))
        return mx_error_code();
    return mx_infer_out_type(infer, 0, MX_UINT8);
}

/* (n0, k), (n1, k), ... -> (n0 n1 ..., k) */
static mx_code infer_khatri_rao(mx_infer *infer)
{
    mx_shape_t out = {.ndim = 2, .dim = {1, -1}};
    char text[MX_SHAPE_TEXT], name[64];
    for (int i = 0; i < infer->n_in; i++) {
        const mx_shape_t *in = &infer->in[i];
        if (!mx_shape_known(in))
            return MX_OK;
        if (in->ndim != 2 || (out.dim[1] >= 0 && in->dim[1] != out.dim[1]))
            return mx_op_fail(infer->op, MX_ERR_SHAPE,
                              "input %s has shape %s, wanted a matrix with as many columns as the first",
                              mx_op_input_name(infer->op, i, name), mx_shape_text(in, text));
        out.dim[1] = in->dim[1];
        if (__builtin_mul_overflow(out.dim[0], in->dim[0], &out.dim[0]))
            return mx_op_fail(infer->op, MX_ERR_SHAPE, "the product has too many rows");
    }
    return infer->n_in ? mx_infer_out(infer, 0, &out)
                       : mx_op_fail(infer->op, MX_ERR_ARGUMENT, "wants at least one matrix");
}

static int count_args(const void *attrs)
{
    const int64_t n = ((const mx_khatri_rao_attrs *)attrs)->num_args;
    return n == MX_NONE_INT ? 1 : (int)n;
}

/* ---- references ------------------------------------------------------------------------------------------------ */

#define EACH for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
static void ref_copy(const mx_reference_call *call) { EACH call->out[0][i] = call->in[0][i]; }
static void ref_round(const mx_reference_call *call) { EACH call->out[0][i] = round(call->in[0][i]); }
static void ref_sign(const mx_reference_call *call)
{
    EACH call->out[0][i] = (call->in[0][i] > 0) - (call->in[0][i] < 0);
}
static void ref_div_sqrt(const mx_reference_call *call)
{
    EACH call->out[0][i] = call->in[0][i] * inverse_root(&call->in_shape[0]);
}

static void ref_quadratic(const mx_reference_call *call)
{
    const mx_quadratic_attrs *attrs = call->attrs;
    EACH call->out[0][i] = (attrs->a * call->in[0][i] + attrs->b) * call->in[0][i] + attrs->c;
}

static void ref_allclose(const mx_reference_call *call)
{
    const mx_allclose_attrs *attrs = call->attrs;
    call->out[0][0] = 1;
    for (int64_t i = 0; i < mx_shape_size(&call->in_shape[0]); i++) {
        const double a = call->in[0][i], b = call->in[1][i];
        if (a != b && !(fabs(a - b) <= attrs->atol + attrs->rtol * fabs(b)) &&
            !(attrs->equal_nan && isnan(a) && isnan(b)))
            call->out[0][0] = 0;
    }
}

static void ref_khatri_rao(const mx_reference_call *call)
{
    const int64_t columns = call->out_shape[0].dim[1];
    EACH
    {
        int64_t row = i / columns;
        call->out[0][i] = 1;
        for (int k = call->n_in - 1; k >= 0; row /= call->in_shape[k].dim[0], k--)
            call->out[0][i] *= call->in[k][row % call->in_shape[k].dim[0] * columns + i % columns];
    }
}

#define SAMPLES(attrs, note) (const mx_sample[]){{"2,3", attrs, 0, 0, note}, {"3,70", attrs, 0, 0, note}, {0}}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_div_sqrt(const mx_emit_call *n)
{
    mx_emit_open(n, "scale", 1);
    mx_emit_print(n, "%lld", (long long)mx_shape_size(n->y));
    mx_emit_add(n, inverse_root(n->x));
    return mx_emit_close(n);
}

mx_op mx_family_straight[] = {
    {.name = "_contrib_round_ste", .aliases = "_sparse__contrib_round_ste", .c_name = "round_ste",
     .doc = "round, with the gradient of the identity",
     .inputs = "data", .flags = MX_OP_INPLACE, .gradient = pass_on, .samples = SAMPLES("", "nograd"),
     .reference = ref_round},
    {.name = "_contrib_sign_ste", .aliases = "_sparse__contrib_sign_ste", .c_name = "sign_ste",
     .doc = "sign, with the gradient of the identity",
     .inputs = "data", .flags = MX_OP_INPLACE, .gradient = pass_on, .samples = SAMPLES("", "nograd"),
     .reference = ref_sign},
    {.name = "_contrib_gradientmultiplier", .c_name = "gradient_multiplier",
     .doc = "a copy of data whose gradient is scaled", .inputs = "data",
     .schema = &gradientmultiplier_schema, .flags = MX_OP_IDENTITY | MX_OP_INPLACE, .gradient = grad_multiplier,
     .samples = SAMPLES("scalar=-0.5", "nograd"), .reference = ref_copy},
    {.name = "_contrib_div_sqrt_dim", MX_EMIT(emit_div_sqrt), .c_name = "div_sqrt_dim",
     .doc = "data divided by the square root of the size of its last axis",
     .inputs = "data", .flags = MX_OP_INPLACE, .gradient = grad_div_sqrt, .samples = SAMPLES("", "floatonly"),
     .reference = ref_div_sqrt},
    {.name = "_contrib_quadratic", .c_name = "quadratic", .doc = "a x^2 + b x + c", .inputs = "data",
     .schema = &quadratic_schema, .flags = MX_OP_INPLACE,
     .gradient = grad_quadratic, .grad_in = 1, .samples = SAMPLES("a=1, b=2, c=-3", NULL), .reference = ref_quadratic},
    {.name = "_contrib_allclose", .c_name = "allclose",
     .doc = "1 if all elements of a are close to those of b, else 0", .inputs = "a b",
     .schema = &allclose_schema, .flags = MX_OP_NO_GRADIENT, .infer_shape = infer_allclose,
     .infer_type = infer_allclose_type, .reference = ref_allclose,
     .samples = (const mx_sample[]){{"2,3;2,3", "", 0, 0, NULL}, {"4;4", "atol=100", 0, 0, NULL}, {0}}},
    {.name = "khatri_rao", .precision = MX_PRECISION_WIDEST, .doc = "columnwise Kronecker product of matrices",
     .inputs = "*args",
     .schema = &khatri_rao_schema,
     .flags = MX_OP_LIST | MX_OP_NO_GRADIENT, .count_in = count_args, .infer_shape = infer_khatri_rao,
     .reference = ref_khatri_rao,
     .samples = (const mx_sample[]){{"2,3;4,3", "num_args=2", 0, 0, NULL}, {"2,2;1,2;3,2", "num_args=3", 0, 0, NULL},
                                    {"3,2", "num_args=1", 0, 0, NULL}, {0}}},
    {0},
};
