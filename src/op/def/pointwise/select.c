/* Choosing and bounding: where, clip, and the functions that are straight lines between bounds; sums of many arrays.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/error.h"
#include "op/emit.h"
#include "op/formula/pointwise.h"
#include "op/op.h"

#define CLIP_ATTRS(X) \
    X(FLOAT, a_min, REQUIRED, "", "least value") \
    X(FLOAT, a_max, REQUIRED, "", "greatest value")
MX_ATTRS(clip, CLIP_ATTRS)

#define SMOOTH_L1_ATTRS(X) X(FLOAT, scalar, "1.0", "", "sigma: the parabola ends at 1 / sigma^2")
MX_ATTRS(smooth_l1, SMOOTH_L1_ATTRS)

#define HARD_SIGMOID_ATTRS(X) \
    X(FLOAT, alpha, "0.2", "", "slope") \
    X(FLOAT, beta, "0.5", "", "value at 0")
MX_ATTRS(hard_sigmoid, HARD_SIGMOID_ATTRS)

#define ADD_N_ATTRS(X) X(INT, num_args, "None", "", "how many arrays; they are counted")
MX_ATTRS(add_n, ADD_N_ATTRS)

/* ---- where ----------------------------------------------------------------------------------------------------- */

/* The condition has the shape of x, or one axis: then it chooses whole rows. */
static mx_code infer_where(mx_infer *infer)
{
    mx_shape_t *condition = &infer->in[0];
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    if (mx_infer_in(infer, 2, &infer->in[1]) || mx_infer_in(infer, 1, &infer->in[2]) ||
        mx_infer_out(infer, 0, &infer->in[1]) || mx_infer_in(infer, 1, &infer->out[0]) ||
        mx_infer_in(infer, 2, &infer->out[0]))
        return mx_error_code();
    const mx_shape_t *x = &infer->in[1];
    if (!mx_shape_known(x) || !mx_shape_known(condition))
        return MX_OK;
    if (mx_shape_equal(x, condition) || (condition->ndim == 1 && x->ndim >= 1 && condition->dim[0] == x->dim[0]))
        return MX_OK;
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "condition has shape %s, wanted that of x, %s, or its first axis",
                      mx_shape_text(condition, a), mx_shape_text(x, b));
}

static mx_code infer_where_type(mx_infer *infer)
{
    if (mx_infer_in_type(infer, 1, infer->in_type[2]) || mx_infer_in_type(infer, 2, infer->in_type[1]))
        return mx_error_code();
    return mx_infer_out_type(infer, 0, infer->in_type[1]);
}

/* dx = g where the condition holds, dy = g where it does not */
static mx_code grad_where(mx_grad *grad)
{
    mx_array *g = grad->ograd[0], *zero = mx_g1("zeros_like", g);
    mx_code code = grad->wanted[1] ? mx_give(grad, 1, mx_g3("where", grad->in[0], g, zero)) : MX_OK;
    return code || !grad->wanted[2] ? code : mx_give(grad, 2, mx_g3("where", grad->in[0], zero, g));
}

static void ref_where(const mx_reference_call *call)
{
    const int64_t size = mx_shape_size(&call->out_shape[0]), conditions = mx_shape_size(&call->in_shape[0]);
    for (int64_t i = 0; i < size; i++)
        call->out[0][i] = call->in[0][i / (size / conditions)] != 0 ? call->in[1][i] : call->in[2][i];
}

/* ---- clip ------------------------------------------------------------------------------------------------------ */

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
               : mx_fail(MX_ERR_ATTRIBUTE, "clip: a_min is %g, a_max is %g: the order must be the other one",
                         attrs->a_min, attrs->a_max);
}

static double clip(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

static void ref_clip(const mx_reference_call *call)
{
    const mx_clip_attrs *attrs = call->attrs;
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = clip(call->in[0][i], attrs->a_min, attrs->a_max);
}

static void ref_backward_clip(const mx_reference_call *call)
{
    const mx_clip_attrs *attrs = call->attrs;
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        const double x = call->in[1][i];
        call->out[0][i] = x >= attrs->a_min && x <= attrs->a_max ? call->in[0][i] : 0;
    }
}

static mx_array *clipped(mx_array *x, double low, double high)
{
    return mx_g_call(MX_OP("clip"), &(mx_clip_attrs){low, high}, 1, &x);
}

/* ---- smooth_l1, hard_sigmoid ----------------------------------------------------------------------------------- */

/* s = sigma^2:  dx = g clip(s x, -1, 1) */
static mx_code grad_smooth_l1(mx_grad *grad)
{
    const double sigma = ((const mx_smooth_l1_attrs *)grad->attrs)->scalar;
    return mx_give(grad, 0, mx_g_mul(grad->ograd[0], clipped(mx_g_scale(grad->in[0], sigma * sigma), -1, 1)));
}

static void ref_smooth_l1(const mx_reference_call *call)
{
    const double sigma = ((const mx_smooth_l1_attrs *)call->attrs)->scalar, s = sigma * sigma;
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        const double x = fabs(call->in[0][i]);
        call->out[0][i] = x > 1 / s ? x - 0.5 / s : 0.5 * s * x * x;
    }
}

/* y = clip(alpha x + beta, 0, 1):  dx = alpha g where the line is inside */
static mx_code grad_hard_sigmoid(mx_grad *grad)
{
    const mx_hard_sigmoid_attrs *attrs = grad->attrs;
    mx_array *line = mx_g_shift(mx_g_scale(grad->in[0], attrs->alpha), attrs->beta),
             *g = mx_g_scale(grad->ograd[0], attrs->alpha);
    return mx_give(grad, 0,
                   mx_g_call(MX_OP("_backward_clip"), &(mx_clip_attrs){0, 1}, 2, (mx_array *const[]){g, line}));
}

static void ref_hard_sigmoid(const mx_reference_call *call)
{
    const mx_hard_sigmoid_attrs *attrs = call->attrs;
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = clip(attrs->alpha * call->in[0][i] + attrs->beta, 0, 1);
}

/* ---- add_n ----------------------------------------------------------------------------------------------------- */

static mx_code grad_add_n(mx_grad *grad)
{
    for (int i = 0; i < grad->n_in; i++)
        grad->igrad[i] = grad->wanted[i] ? grad->ograd[0] : NULL;
    return MX_OK;
}

static void ref_add_n(const mx_reference_call *call)
{
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        call->out[0][i] = 0;
        for (int k = 0; k < call->n_in; k++)
            call->out[0][i] += call->in[k][i];
    }
}

static int count_args(const void *attrs)
{
    const int64_t n = ((const mx_add_n_attrs *)attrs)->num_args;
    return n == MX_NONE_INT ? 1 : (int)n;
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_clip(const mx_emit_call *n)
{
    const mx_clip_attrs *attrs = n->attrs;
    return mx_emit_with_two(n, "clip", attrs->a_min, attrs->a_max);
}

static mx_code emit_hard_sigmoid(const mx_emit_call *n)
{
    const mx_hard_sigmoid_attrs *attrs = n->attrs;
    return mx_emit_with_two(n, "hard_sigmoid", attrs->alpha, attrs->beta);
}

static mx_code emit_smooth_l1(const mx_emit_call *n)
{
    const double sigma = ((const mx_smooth_l1_attrs *)n->attrs)->scalar;
    return mx_emit_with_two(n, "smooth_l1", sigma * sigma, 1 / (sigma * sigma));
}

static mx_code emit_add_n(const mx_emit_call *n)
{
    if (n->n_in == 1)
        return mx_emit_copy(n);
    mx_code code = mx_emit_zip(n, MX_ROW_add, &n->in[0], &n->in[1], &n->out[0]);
    for (int i = 2; !code && i < n->n_in; i++)
        code = mx_emit_zip(n, MX_ROW_add, &n->out[0], &n->in[i], &n->out[0]);
    return code;
}

static mx_code emit_where(const mx_emit_call *n)
{
    const int64_t rows = mx_shape_size(n->x), all = mx_shape_size(n->y);
    mx_emit_open(n, "choose", 3);
    mx_emit_print(n, "%lld, %lld", (long long)all, (long long)mx_emit_over(all, rows));
    return mx_emit_close(n);
}

/* ---- the rows -------------------------------------------------------------------------------------------------- */

mx_op mx_family_select[] = {
    {.name = "where", MX_EMIT(emit_where), .methods = "where", .precision = MX_PRECISION_WIDEST,
     .aliases = "_sparse_where _npi_where",
     .doc = "elements of x where the condition is not 0, of y elsewhere",
     .inputs = "condition x y", .infer_shape = infer_where, .infer_type = infer_where_type, .gradient = grad_where,
     .grad_in = 1, .no_grad_inputs = 1, .reference = ref_where,
     .samples = (const mx_sample[]){{"2,3;2,3;2,3", "", 0, 2, "int:0"}, {"3;3,2;3,2", "", 0, 2, "int:0"},
                                    {"40;40;40", "", -1, 2, "int:0"}, {0}}},
    {.name = "clip", MX_EMIT(emit_clip), .finite_at_zero = true, .methods = "clip", .sparse = MX_SPARSE_ZEROS,
     .aliases = "_sparse_clip _npi_clip",
     .doc = "values outside [a_min, a_max] become the nearer bound", .inputs = "data",
     .schema = &clip_schema, .flags = MX_OP_INPLACE, .check = check_clip, .gradient = grad_clip, .grad_in = 1,
     .reference = ref_clip, .samples = (const mx_sample[]){{"2,3", "a_min=-1, a_max=1", 0, 0, "distinct"},
                                    {"37", "a_min=0, a_max=6", -3, 9, "distinct"}, {0}}},
    {.name = "_backward_clip", .doc = "ograd where data is inside the bounds, 0 elsewhere", .inputs = "ograd data",
     .schema = &clip_schema,
     .flags = MX_OP_INPLACE | MX_OP_HIDDEN, .check = check_clip, .gradient = grad_backward_clip, .grad_in = 2,
     .no_grad_inputs = 2,
     .reference = ref_backward_clip, .samples = (const mx_sample[]){{"2,3;2,3", "a_min=-1, a_max=1", 0, 0, NULL}, {0}}},
    {.name = "smooth_l1", MX_EMIT(emit_smooth_l1), .methods = "smooth_l1", .precision = MX_PRECISION_FLOAT32,
     .aliases = "_npx_smooth_l1",
     .doc = "a parabola near 0, |x| - 1 / (2 sigma^2) beyond 1 / sigma^2", .inputs = "data",
     .schema = &smooth_l1_schema, .flags = MX_OP_LOSS | MX_OP_INPLACE, .gradient = grad_smooth_l1, .grad_in = 1,
     .reference = ref_smooth_l1,
     .samples = (const mx_sample[]){{"2,3", "", -3, 3, NULL}, {"5,4", "scalar=2", -1, 1, NULL}, {0}}},
    {.name = "hard_sigmoid", MX_EMIT(emit_hard_sigmoid), .methods = "hard_sigmoid",
     .doc = "alpha x + beta, bounded to [0, 1]", .inputs = "data",
     .schema = &hard_sigmoid_schema, .flags = MX_OP_INPLACE,
     .gradient = grad_hard_sigmoid, .grad_in = 1, .reference = ref_hard_sigmoid,
     .samples = (const mx_sample[]){{"2,3", "", -2, 2, "floatonly"},
                                    {"4,5", "alpha=0.7, beta=0.3", -2, 2, "floatonly"}, {0}}},
    {.name = "add_n", MX_EMIT(emit_add_n), .look = MX_LOOK_SUM, .sparse = MX_SPARSE_SUM, .sparse_gradient = true,
     .precision = MX_PRECISION_WIDEST,
     .aliases = "_sparse_add_n _sparse_ElementWiseSum ElementWiseSum",
     .doc = "sum of arrays of one shape", .inputs = "*args",
     .schema = &add_n_schema, .flags = MX_OP_LIST | MX_OP_INPLACE, .count_in = count_args, .gradient = grad_add_n,
     .reference = ref_add_n,
     .samples = (const mx_sample[]){{"2,3;2,3", "num_args=2", 0, 0, NULL}, {"4", "num_args=1", 0, 0, NULL},
                                    {"5;5;5;5;5;5", "num_args=6", 0, 0, NULL}, {0}}},
    {0},
};
