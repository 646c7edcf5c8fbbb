/* clip and other piecewise functions: smooth_l1, hard_sigmoid.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/def/pointwise/numbers.h"
#include "op/emit.h"

#define CLIP_ATTRS(X) \
    X(FLOAT, a_min, REQUIRED, "", "lower bound") \
    X(FLOAT, a_max, REQUIRED, "", "upper bound")
MX_ATTRS(clip, CLIP_ATTRS)

#define SMOOTH_L1_ATTRS(X) X(FLOAT, scalar, "1.0", "", "sigma: the function is quadratic up to |x| = 1 / sigma^2")
MX_ATTRS(smooth_l1, SMOOTH_L1_ATTRS)

#define HARD_SIGMOID_ATTRS(X) \
    X(FLOAT, alpha, "0.2", "", "slope") \
    X(FLOAT, beta, "0.5", "", "offset: the value at x = 0")
MX_ATTRS(hard_sigmoid, HARD_SIGMOID_ATTRS)

/* ---- clip ------------------------------------------------------------------------------------------------------ */

static void clip_numbers(const void *attrs_, const mx_shape_t *in, double *number)
{
    const mx_clip_attrs *attrs = attrs_;
    (void)in;
    number[0] = attrs->a_min, number[1] = attrs->a_max;
}
MX_NUMBER_REFERENCE_OF(ref_clip, clip, clip_numbers)
MX_NUMBER_REFERENCE_OF(ref_backward_clip, clip_gradient, clip_numbers)

/* dx = g where a_min <= x <= a_max; linear in g and piecewise constant in x, so it is its own gradient. */
static mx_code grad_clip(mx_grad *grad)
{
    return mx_give(
        grad, 0, mx_g_call(MX_OP("_backward_clip"), grad->attrs, 2, (mx_array *const[]){grad->ograd[0], grad->in[0]}));
}

static mx_code grad_backward_clip(mx_grad *grad)
{
    if (!grad->wanted[0])
        return MX_OK;
    return mx_give(
        grad, 0, mx_g_call(MX_OP("_backward_clip"), grad->attrs, 2, (mx_array *const[]){grad->ograd[0], grad->in[1]}));
}

static mx_code check_clip(const void *attrs_)
{
    const mx_clip_attrs *attrs = attrs_;
    return attrs->a_min <= attrs->a_max
               ? MX_OK
               : mx_fail(MX_ERR_ATTRIBUTE, "clip: a_min is %g and a_max is %g, wanted a_min <= a_max", attrs->a_min,
                         attrs->a_max);
}

static mx_array *clipped(mx_array *x, double low, double high)
{
    return mx_g_call(MX_OP("clip"), &(mx_clip_attrs){low, high}, 1, &x);
}

/* ---- smooth_l1 --------------------------------------------------------------------------------------------------- */

static void smooth_l1_numbers(const void *attrs, const mx_shape_t *in, double *number)
{
    const double sigma = ((const mx_smooth_l1_attrs *)attrs)->scalar;
    (void)in;
    number[0] = sigma * sigma, number[1] = 1 / (sigma * sigma);
}
MX_NUMBER_REFERENCE_OF(ref_smooth_l1, smooth_l1, smooth_l1_numbers)

/* s = sigma^2:  dx = g clip(s x, -1, 1) */
static mx_code grad_smooth_l1(mx_grad *grad)
{
    const double sigma = ((const mx_smooth_l1_attrs *)grad->attrs)->scalar;
    return mx_give(grad, 0, mx_g_mul(grad->ograd[0], clipped(mx_g_scale(grad->in[0], sigma * sigma), -1, 1)));
}

/* ---- hard_sigmoid ------------------------------------------------------------------------------------------------ */

static void hard_sigmoid_numbers(const void *attrs_, const mx_shape_t *in, double *number)
{
    const mx_hard_sigmoid_attrs *attrs = attrs_;
    (void)in;
    number[0] = attrs->alpha, number[1] = attrs->beta;
}
MX_NUMBER_REFERENCE_OF(ref_hard_sigmoid, hard_sigmoid, hard_sigmoid_numbers)

/* y = clip(alpha x + beta, 0, 1):  dx = alpha g where alpha x + beta is inside */
static mx_code grad_hard_sigmoid(mx_grad *grad)
{
    const mx_hard_sigmoid_attrs *attrs = grad->attrs;
    mx_array *line = mx_g_shift(mx_g_scale(grad->in[0], attrs->alpha), attrs->beta),
             *g = mx_g_scale(grad->ograd[0], attrs->alpha);
    return mx_give(grad, 0,
                   mx_g_call(MX_OP("_backward_clip"), &(mx_clip_attrs){0, 1}, 2, (mx_array *const[]){g, line}));
}

/* ---- the table ------------------------------------------------------------------------------------------------- */

#define USE(row, numbers) .user = &(const mx_number_use){MX_NUMBER_##row, numbers}

mx_op mx_family_clip[] = {
    {.name = "clip", MX_EMIT(mx_emit_number_op), .finite_at_zero = true, .methods = "clip", .sparse = MX_SPARSE_ZEROS,
     .aliases = "_sparse_clip _npi_clip",
     .doc = "limits values to [a_min, a_max]: min(max(x, a_min), a_max)", .inputs = "data",
     .schema = &clip_schema, .flags = MX_OP_INPLACE | MX_OP_ELEMENTWISE, .check = check_clip, .gradient = grad_clip, .grad_in = 1,
     .reference = ref_clip, USE(clip, clip_numbers),
     .samples = (const mx_sample[]){{"2,3", "a_min=-1, a_max=1", 0, 0, "distinct"},
                                    {"37", "a_min=0, a_max=6", -3, 9, "distinct"}, {0}}},
    {.name = "_backward_clip", .doc = "ograd where data is inside the bounds, 0 elsewhere", .inputs = "ograd data",
     .schema = &clip_schema,
     .flags = MX_OP_INPLACE | MX_OP_ELEMENTWISE | MX_OP_HIDDEN, .check = check_clip, .gradient = grad_backward_clip, .grad_in = 2,
     .no_grad_inputs = 2, .reference = ref_backward_clip, USE(clip_gradient, clip_numbers),
     .samples = (const mx_sample[]){{"2,3;2,3", "a_min=-1, a_max=1", 0, 0, NULL}, {0}}},
    {.name = "smooth_l1", MX_EMIT(mx_emit_number_op), .methods = "smooth_l1", .precision = MX_PRECISION_FLOAT32, .aliases = "_npx_smooth_l1",
     .doc = "(sigma x)^2 / 2 if |x| < 1 / sigma^2, else |x| - 1 / (2 sigma^2)", .inputs = "data",
     .schema = &smooth_l1_schema, .flags = MX_OP_LOSS | MX_OP_INPLACE, .gradient = grad_smooth_l1, .grad_in = 1,
     .reference = ref_smooth_l1, USE(smooth_l1, smooth_l1_numbers),
     .samples = (const mx_sample[]){{"2,3", "", -3, 3, NULL}, {"5,4", "scalar=2", -1, 1, NULL}, {0}}},
    {.name = "hard_sigmoid", MX_EMIT(mx_emit_number_op), .methods = "hard_sigmoid", .doc = "alpha x + beta, clipped to [0, 1]", .inputs = "data",
     .schema = &hard_sigmoid_schema, .flags = MX_OP_INPLACE,
     .gradient = grad_hard_sigmoid, .grad_in = 1, .reference = ref_hard_sigmoid,
     USE(hard_sigmoid, hard_sigmoid_numbers),
     .samples = (const mx_sample[]){{"2,3", "", -2, 2, "floatonly"},
                                    {"4,5", "alpha=0.7, beta=0.3", -2, 2, "floatonly"}, {0}}},
    {0},
};
