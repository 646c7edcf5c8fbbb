/* Pointwise operators, generated from the table in op/formula/pointwise.h.
 *
 * Per function of one argument: the operator and its hidden fused backward operator `_backward_<name>`.
 * Per function of two arguments: the elementwise, broadcasting, scalar and reversed scalar operators.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/pointwise.h"

#include "op/op.h"
#include "op/formula/pointwise_double.h"

/* ---- shared attributes, inference ----------------------------------------------------------------------- */

#define SCALAR_ATTRS(X) \
    X(FLOAT, scalar, "1.0", "", "the scalar operand") \
    X(BOOL, is_int, "True", "", "accepted for compatibility")
MX_ATTRS(scalar, SCALAR_ATTRS)

static mx_code infer_broadcast(mx_infer *infer)
{
    mx_shape_t out;
    const mx_shape_t *a = &infer->in[0], *b = &infer->in[1];
    if (mx_infer_equal_shapes(infer))
        return MX_OK;
    if (a->ndim < 0 || b->ndim < 0)
        return MX_OK;
    if (mx_shape_broadcast(a, b, &out))
        return mx_infer_out(infer, 0, &out);
    char left[MX_SHAPE_TEXT], right[MX_SHAPE_TEXT];
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "shapes %s and %s do not broadcast: axes must be equal or 1",
                      mx_shape_text(a, left), mx_shape_text(b, right));
}

/* ---- gradients of one argument --------------------------------------------------------------------------- */

static mx_array *no_higher_order(const char *op)
{
    mx_error_set(MX_ERR_AUTOGRAD, "%s has no gradient of this order", op);
    return NULL;
}

#define KEEP_IN_X 1
#define KEEP_IN_Y 0
#define KEEP_IN_XY 1
#define KEEP_OUT_X 0
#define KEEP_OUT_Y 1
#define KEEP_OUT_XY 1
#define FUSED_X(name) mx_g2(name, g, x)
#define FUSED_Y(name) mx_g2(name, g, y)
#define FUSED_XY(name) mx_g3(name, g, x, y)
#define INPUTS_X "ograd data"
#define INPUTS_Y "ograd output"
#define INPUTS_XY "ograd data output"

#define UNARY_GRADIENT(name, aliases, forward, looks, gradient_, composition, ...)                              \
    static mx_code grad_##name(mx_grad *grad)                                                                   \
    {                                                                                                           \
        mx_array *g = grad->ograd[0], *x = grad->in[0], *y = grad->out[0], *t = NULL;                           \
        (void)x, (void)y, (void)t;                                                                              \
        return mx_give(grad, 0, grad->create_graph ? (composition) : FUSED_##looks("_backward_" #name));           \
    }
MX_UNARY_ROWS(UNARY_GRADIENT)

#define LINEAR_GRADIENT(name, aliases, forward, composition, ...)            \
    static mx_code grad_##name(mx_grad *grad)                                \
    {                                                                        \
        mx_array *g = grad->ograd[0];                                        \
        return mx_give(grad, 0, composition);                                   \
    }
MX_LINEAR_ROWS(LINEAR_GRADIENT)

/* ---- gradients of two arguments: g is reduced to the shape that was broadcast ------------------------------ */

/* In the scalar forms the other argument is the number s, and the array b (or a) is NULL. */
static mx_array *times(mx_array *g, mx_array *b, double s) { return b ? mx_g_mul(g, b) : mx_g_scale(g, s); }
static mx_array *over(mx_array *g, mx_array *b, double s) { return b ? mx_g_div(g, b) : mx_g_scale(g, 1 / s); }
/* A gradient of the remainder: of real numbers, and zero of integers, where nothing is continuous. */
static mx_array *of_remainder(mx_array *g) { return !g || mx_dtype_is_float(g->dtype) ? g : mx_g1("zeros_like", g); }
static mx_array *quotient(mx_array *a, mx_array *b, double s) { return a ? mx_g_div(a, b) : mx_g_rdiv(s, b); }

/* d a^b / da = b a^(b-1) */
static mx_array *power_base(mx_array *g, mx_array *a, mx_array *b, double s)
{
    if (!b)
        return mx_g_mul(g, mx_g_scale(mx_g_power(a, s - 1), s));
    return mx_g_mul(g, mx_g_mul(b, mx_g2("broadcast_power", a, mx_g_shift(b, -1))));
}

/* d a^b / db = a^b log(a) */
static mx_array *power_exponent(mx_array *g, mx_array *a, mx_array *y, double s)
{
    mx_array *gy = mx_g_mul(g, y);
    return a ? mx_g_mul(gy, mx_g1("log", a)) : mx_g_scale(gy, m_log(s));
}

static mx_array *compare(mx_op *with_array, mx_op *with_number, mx_array *a, mx_array *b, double s)
{
    mx_scalar_attrs attrs = {s, false};
    return b ? mx_g_call(with_array, NULL, 2, (mx_array *const[]){a, b}) : mx_g_call(with_number, &attrs, 1, &a);
}
static mx_array *at_least(mx_array *a, mx_array *b, double s)
{
    return compare(MX_OP("broadcast_greater_equal"), MX_OP("_greater_equal_scalar"), a, b, s);
}
static mx_array *at_most(mx_array *a, mx_array *b, double s)
{
    return compare(MX_OP("broadcast_lesser_equal"), MX_OP("_lesser_equal_scalar"), a, b, s);
}

static bool give_reduced(mx_grad *grad, int i, mx_array *value)
{
    grad->igrad[i] = mx_g_sum_to(value, &grad->in_shape[i]);
    return grad->igrad[i] != NULL;
}

#define BINARY_GRADIENT(id, en, ea, bn, ba, sn, sa, ki, ko, si, so, forward, for_a, for_b, ...)                           \
    static mx_code grad_##id(mx_grad *grad)                                                                       \
    {                                                                                                             \
        mx_array *g = grad->ograd[0], *a = grad->in[0], *b = grad->in[1], *y = grad->out[0];                      \
        double s = 0;                                                                                             \
        (void)a, (void)b, (void)y, (void)s;                                                                       \
        bool ok = (!grad->wanted[0] || give_reduced(grad, 0, for_a)) && (!grad->wanted[1] || give_reduced(grad, 1, for_b)); \
        return ok ? MX_OK : mx_error_code();                                                                      \
    }                                                                                                             \
    static mx_code grad_scalar_##id(mx_grad *grad)                                                                \
    {                                                                                                             \
        mx_array *g = grad->ograd[0], *a = grad->in[0], *b = NULL, *y = grad->out[0];                             \
        double s = ((const mx_scalar_attrs *)grad->attrs)->scalar;                                                \
        (void)a, (void)b, (void)y, (void)s;                                                                       \
        return mx_give(grad, 0, for_a);                                                                              \
    }                                                                                                             \
    __attribute__((unused)) static mx_code grad_reversed_##id(mx_grad *grad)                                      \
    {                                                                                                             \
        mx_array *g = grad->ograd[0], *a = NULL, *b = grad->in[0], *y = grad->out[0];                             \
        double s = ((const mx_scalar_attrs *)grad->attrs)->scalar;                                                \
        (void)a, (void)b, (void)y, (void)s;                                                                       \
        return mx_give(grad, 0, for_b);                                                                              \
    }
MX_BINARY_ROWS(BINARY_GRADIENT)

/* ---- samples and references ------------------------------------------------------------------------------ */

#define T double
#define UNARY_REFERENCE(name, aliases, forward, ...)                            \
    static void ref_##name(const mx_reference_call *call)                       \
    {                                                                           \
        for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {      \
            double x = call->in[0][i];                                          \
            call->out[0][i] = (forward);                                        \
        }                                                                       \
    }
MX_UNARY_ROWS(UNARY_REFERENCE)
MX_LINEAR_ROWS(UNARY_REFERENCE)
MX_STEP_ROWS(UNARY_REFERENCE)

#define BACKWARD_X double x = call->in[1][i];
#define BACKWARD_Y double y = call->in[1][i];
#define BACKWARD_XY double x = call->in[1][i], y = call->in[2][i];
#define BACKWARD_REFERENCE(name, aliases, forward, looks, gradient_, ...)      \
    static void ref_backward_##name(const mx_reference_call *call)              \
    {                                                                           \
        for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {      \
            BACKWARD_##looks;                                                   \
            __attribute__((unused)) double g = call->in[0][i], t = 0;                              \
            call->out[0][i] = (gradient_);                                      \
        }                                                                       \
    }
MX_UNARY_ROWS(BACKWARD_REFERENCE)

/* Element of an input that is broadcast to the output's shape. */
static double broadcast_at(const mx_reference_call *call, int input, int64_t index)
{
    const mx_shape_t *out = &call->out_shape[0], *in = &call->in_shape[input];
    int64_t offset = 0, step = 1;
    for (int axis = out->ndim - 1, k = in->ndim - 1; axis >= 0; axis--, k--) {
        int64_t position = index % out->dim[axis];
        index /= out->dim[axis];
        if (k < 0)
            continue;
        offset += in->dim[k] == 1 ? 0 : position * step;
        step *= in->dim[k];
    }
    return call->in[input][offset];
}

#define BINARY_REFERENCE_(id, forward)                                                            \
    static void ref_##id(const mx_reference_call *call)                                           \
    {                                                                                             \
        for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {                        \
            double a = broadcast_at(call, 0, i), b = broadcast_at(call, 1, i);                    \
            call->out[0][i] = (forward);                                                          \
        }                                                                                         \
    }                                                                                             \
    static void ref_scalar_##id(const mx_reference_call *call)                                    \
    {                                                                                             \
        for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {                        \
            double a = call->in[0][i], b = ((const mx_scalar_attrs *)call->attrs)->scalar;        \
            call->out[0][i] = (forward);                                                          \
        }                                                                                         \
    }                                                                                             \
    __attribute__((unused)) static void ref_reversed_##id(const mx_reference_call *call)          \
    {                                                                                             \
        for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {                        \
            double b = call->in[0][i], a = ((const mx_scalar_attrs *)call->attrs)->scalar;        \
            call->out[0][i] = (forward);                                                          \
        }                                                                                         \
    }
#define BINARY_REFERENCE(id, en, ea, bn, ba, sn, sa, ki, ko, si, so, forward, ...) BINARY_REFERENCE_(id, forward)
#define COMPARE_REFERENCE(id, en, ea, bn, ba, sn, sa, forward, ...) BINARY_REFERENCE_(id, forward)
MX_BINARY_ROWS(BINARY_REFERENCE)
MX_COMPARE_ROWS(COMPARE_REFERENCE)
#undef T

#define UNARY_SAMPLES(lo, hi) (const mx_sample[]){{"2,3", "", lo, hi, NULL}, {"3,1,5", "", lo, hi, NULL}, {0}}
#define SAME_SAMPLES(lo, hi) (const mx_sample[]){{"2,3;2,3", "", lo, hi, NULL}, {"7;7", "", lo, hi, NULL}, {0}}
#define BACKWARD_SAMPLES_X(lo, hi) SAME_SAMPLES(lo, hi)
#define BACKWARD_SAMPLES_Y(lo, hi) SAME_SAMPLES(lo, hi)
#define BACKWARD_SAMPLES_XY(lo, hi) (const mx_sample[]){{"2,3;2,3;2,3", "", lo, hi, NULL}, {0}}
#define BROADCAST_SAMPLES(lo, hi)                                                                              \
    (const mx_sample[]){{"2,3;2,3", "", lo, hi, NULL}, {"2,3;3", "", lo, hi, NULL}, {"2,1,4;3,1", "", lo, hi, NULL}, \
                        {"2,3;1", "", lo, hi, NULL}, {"();2,3", "", lo, hi, NULL}, {"4,1;4,3", "", lo, hi, NULL}, {0}}
#define SCALAR_SAMPLES(lo, hi) (const mx_sample[]){{"2,3", "scalar=2", lo, hi, NULL}, {"5", "scalar=1.5", lo, hi, "floatonly"}, {0}}

/* ---- the table ------------------------------------------------------------------------------------------- */

// clang-format off
#define USE(row, form) .user = &(const mx_pointwise){MX_ROW_##row, MX_FORM_##form}
#define FACTS(...) __VA_ARGS__ /* FACTS (.a = 1, .b = 2): a table column without its parentheses */

#define UNARY_OP(name_, aliases_, forward, looks, gradient_, composition, low, high, doc_, facts) \
    {.name = #name_, .aliases = aliases_, .doc = doc_, .inputs = "data", .flags = MX_OP_INPLACE, .gradient = grad_##name_, \
     .grad_in = KEEP_IN_##looks, .grad_out = KEEP_OUT_##looks, .samples = UNARY_SAMPLES(low, high), .reference = ref_##name_, USE(name_, UNARY), FACTS facts},
#define LINEAR_OP(name_, aliases_, forward, composition, low, high, doc_, facts) \
    {.name = #name_, .aliases = aliases_, .doc = doc_, .inputs = "data", .flags = MX_OP_INPLACE, .gradient = grad_##name_, \
     .samples = UNARY_SAMPLES(low, high), .reference = ref_##name_, USE(name_, UNARY), FACTS facts},
#define BACKWARD_OP(name_, aliases_, forward, looks, gradient_, composition, low, high, ...) \
    {.name = "_backward_" #name_, .doc = "gradient of " #name_, .inputs = INPUTS_##looks, .flags = MX_OP_INPLACE | MX_OP_HIDDEN | MX_OP_NO_GRADIENT, \
     .samples = BACKWARD_SAMPLES_##looks(low, high), .reference = ref_backward_##name_, USE(name_, BACKWARD)},
#define STEP_OP(name_, aliases_, forward, low, high, doc_, facts) \
    {.name = #name_, .aliases = aliases_, .doc = doc_, .inputs = "data", .flags = MX_OP_INPLACE | MX_OP_ZERO_GRADIENT, \
     .samples = UNARY_SAMPLES(low, high), .reference = ref_##name_, USE(name_, UNARY), FACTS facts},

#define BINARY_OP(id, en, ea, bn, ba, sn, sa, ki, ko, si, so, forward, for_a, for_b, low, high, doc_, equal_facts, broadcast_facts, scalar_facts) \
    {.name = en, .c_name = "elemwise_" #id, .aliases = ea, .doc = doc_ ", elementwise", .inputs = "lhs rhs", .flags = MX_OP_INPLACE, .gradient = grad_##id, \
     .grad_in = ki, .grad_out = ko, .samples = SAME_SAMPLES(low, high), .reference = ref_##id, USE(id, BINARY), FACTS equal_facts}, \
    {.name = bn, .c_name = #id, .aliases = ba, .doc = doc_ ", with broadcasting", .inputs = "lhs rhs", .flags = MX_OP_INPLACE, .infer_shape = infer_broadcast, \
     .gradient = grad_##id, .grad_in = ki, .grad_out = ko, .samples = BROADCAST_SAMPLES(low, high), .reference = ref_##id, USE(id, BINARY), FACTS broadcast_facts}, \
    {.name = sn, .aliases = sa, .doc = doc_ ", where b is a number", .inputs = "data", .schema = &scalar_schema, .flags = MX_OP_INPLACE, \
     .gradient = grad_scalar_##id, .grad_in = si, .grad_out = so, .samples = SCALAR_SAMPLES(low, high), .reference = ref_scalar_##id, USE(id, SCALAR), FACTS scalar_facts},
#define REVERSED_OP(id, rn, ra, low, high, doc_, facts) \
    {.name = rn, .aliases = ra, .doc = doc_ ", where a is a number", .inputs = "data", .schema = &scalar_schema, .flags = MX_OP_INPLACE, \
     .gradient = grad_reversed_##id, .grad_in = 1, .grad_out = 1, .samples = SCALAR_SAMPLES(low, high), .reference = ref_reversed_##id, USE(id, REVERSED), FACTS facts},
#define COMPARE_OP(id, en, ea, bn, ba, sn, sa, forward, doc_, equal_facts, broadcast_facts, scalar_facts) \
    {.name = en, .c_name = "elemwise_" #id, .aliases = ea, .doc = doc_ ", elementwise", .inputs = "lhs rhs", .flags = MX_OP_INPLACE | MX_OP_ZERO_GRADIENT, \
     .samples = SAME_SAMPLES(-1, 1), .reference = ref_##id, USE(id, BINARY), FACTS equal_facts}, \
    {.name = bn, .c_name = #id, .aliases = ba, .doc = doc_ ", with broadcasting", .inputs = "lhs rhs", .flags = MX_OP_INPLACE | MX_OP_ZERO_GRADIENT, \
     .infer_shape = infer_broadcast, .samples = BROADCAST_SAMPLES(-1, 1), .reference = ref_##id, USE(id, BINARY), FACTS broadcast_facts}, \
    {.name = sn, .aliases = sa, .doc = doc_ ", where b is a number", .inputs = "data", .schema = &scalar_schema, \
     .flags = MX_OP_INPLACE | MX_OP_ZERO_GRADIENT, .sparse = MX_SPARSE_ZEROS, .samples = SCALAR_SAMPLES(-1, 3), .reference = ref_scalar_##id, USE(id, SCALAR), FACTS scalar_facts},

mx_op mx_family_pointwise[] = {
    MX_UNARY_ROWS(UNARY_OP)
    MX_UNARY_ROWS(BACKWARD_OP)
    MX_LINEAR_ROWS(LINEAR_OP)
    MX_STEP_ROWS(STEP_OP)
    MX_BINARY_ROWS(BINARY_OP)
    MX_REVERSED_ROWS(REVERSED_OP)
    MX_COMPARE_ROWS(COMPARE_OP)
    {0}
};
// clang-format on

const mx_pointwise *mx_pointwise_of(const mx_op *op)
{
    const mx_op *end = mx_family_pointwise + sizeof mx_family_pointwise / sizeof *mx_family_pointwise;
    return op >= mx_family_pointwise && op < end ? op->user : NULL;
}
