/* a x^2 + b x + c, and its special case b x: div_sqrt_dim, gradientmultiplier.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/def/pointwise/numbers.h"
#include "op/emit.h"

#define QUADRATIC_ATTRS(X) \
    X(FLOAT, a, "0.0", "", "coefficient of x^2") \
    X(FLOAT, b, "0.0", "", "coefficient of x") \
    X(FLOAT, c, "0.0", "", "constant")
MX_ATTRS(quadratic, QUADRATIC_ATTRS)

#define GRADIENTMULTIPLIER_ATTRS(X) \
    X(FLOAT, scalar, "1.0", "", "factor of the gradient") \
    X(BOOL, is_int, "True", "", "accepted for compatibility")
MX_ATTRS(gradientmultiplier, GRADIENTMULTIPLIER_ATTRS)

static void quadratic_numbers(const void *attrs_, const mx_shape_t *in, double *number)
{
    const mx_quadratic_attrs *attrs = attrs_;
    (void)in;
    number[0] = attrs->a, number[1] = attrs->b, number[2] = attrs->c;
}

static double inverse_root(const mx_shape_t *in) { return in->ndim ? 1 / sqrt((double)in->dim[in->ndim - 1]) : 1; }
static void div_sqrt_numbers(const void *attrs, const mx_shape_t *in, double *number)
{
    (void)attrs;
    number[1] = inverse_root(in);
}

static void same_numbers(const void *attrs, const mx_shape_t *in, double *number)
{
    (void)attrs, (void)in;
    number[1] = 1;
}

MX_NUMBER_REFERENCE_OF(ref_quadratic, quadratic, quadratic_numbers)
MX_NUMBER_REFERENCE_OF(ref_div_sqrt, quadratic, div_sqrt_numbers)
MX_NUMBER_REFERENCE_OF(ref_same, quadratic, same_numbers)

/* dx = g (2 a x + b) */
static mx_code grad_quadratic(mx_grad *grad)
{
    const mx_quadratic_attrs *attrs = grad->attrs;
    return mx_give(grad, 0, mx_g_mul(grad->ograd[0], mx_g_shift(mx_g_scale(grad->in[0], 2 * attrs->a), attrs->b)));
}

static mx_code grad_div_sqrt(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_scale(grad->ograd[0], inverse_root(&grad->in_shape[0])));
}

static mx_code grad_multiplier(mx_grad *grad)
{
    return mx_give(grad, 0, mx_g_scale(grad->ograd[0], ((const mx_gradientmultiplier_attrs *)grad->attrs)->scalar));
}

#define SAMPLES(attrs, note) (const mx_sample[]){{"2,3", attrs, 0, 0, note}, {"3,70", attrs, 0, 0, note}, {0}}
#define USE(numbers) .user = &(const mx_number_use){MX_NUMBER_quadratic, numbers}

mx_op mx_family_quadratic[] = {
    {.name = "_contrib_gradientmultiplier", .c_name = "gradient_multiplier",
     .doc = "a copy of data whose gradient is scaled", .inputs = "data",
     .schema = &gradientmultiplier_schema, .flags = MX_OP_IDENTITY | MX_OP_INPLACE, .gradient = grad_multiplier, USE(same_numbers),
     .samples = SAMPLES("scalar=-0.5", "nograd"), .reference = ref_same},
    {.name = "_contrib_div_sqrt_dim", MX_EMIT(mx_emit_number_op), .c_name = "div_sqrt_dim",
     .doc = "divides data by the square root of the size of its last axis",
     .inputs = "data", .flags = MX_OP_INPLACE, .gradient = grad_div_sqrt, USE(div_sqrt_numbers),
     .samples = SAMPLES("", "floatonly"), .reference = ref_div_sqrt},
    {.name = "_contrib_quadratic", .input_named = true, MX_EMIT(mx_emit_number_op), .c_name = "quadratic", .doc = "a x^2 + b x + c", .inputs = "data",
     .schema = &quadratic_schema, .flags = MX_OP_INPLACE, .gradient = grad_quadratic, .grad_in = 1,
     USE(quadratic_numbers), .samples = SAMPLES("a=1, b=2, c=-3", NULL), .reference = ref_quadratic},
    {0},
};
