/* Optimizer updates of several tensors in one call, and helpers of optimizers (see op/formula/multi_optimizer.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/formula/multi_optimizer.h"

#include <stddef.h>
#include <string.h>

#define RATES(X) X(FLOATS, lrs, REQUIRED, "", "learning rates") X(FLOATS, wds, REQUIRED, "", "weight decays")
#define COUNT(X) X(INT, num_weights, "1", "1..16", "number of tensors")

#define MULTI_SGD_ATTRS(X) RATES(X) RESCALE(X) CLIPPING(X) COUNT(X)
MX_ATTRS(multi_sgd, MULTI_SGD_ATTRS)
#define MULTI_SGD_MOM_ATTRS(X) RATES(X) MOMENTUM(X) RESCALE(X) CLIPPING(X) COUNT(X)
MX_ATTRS(multi_sgd_mom, MULTI_SGD_MOM_ATTRS)
#define PRELOADED_SGD_ATTRS(X) RESCALE(X) CLIPPING(X) COUNT(X)
MX_ATTRS(preloaded_sgd, PRELOADED_SGD_ATTRS)
#define PRELOADED_SGD_MOM_ATTRS(X) MOMENTUM(X) RESCALE(X) CLIPPING(X) COUNT(X)
MX_ATTRS(preloaded_sgd_mom, PRELOADED_SGD_MOM_ATTRS)
#define MULTI_ADAMW_ATTRS(X) \
    X(FLOATS, lrs, REQUIRED, "", "learning rates") BETAS(X) EPSILON(X, "1e-8") \
    X(FLOATS, wds, REQUIRED, "", "weight decays") X(FLOATS, etas, REQUIRED, "", "schedule multipliers") CLIPPING(X) COUNT(X)
MX_ATTRS(multi_adamw, MULTI_ADAMW_ATTRS)
#define MULTI_LAMB_ATTRS(X) \
    X(FLOATS, learning_rates, REQUIRED, "", "learning rates") BETAS(X) EPSILON(X, "1e-6") \
    X(FLOATS, wds, REQUIRED, "", "weight decays") RESCALE(X) \
    X(FLOAT, lower_bound, "-1.0", "", "lower bound of a weight's norm; negative: none") \
    X(FLOAT, upper_bound, "-1.0", "", "upper bound of a weight's norm; negative: none") CLIPPING(X) \
    X(BOOL, bias_correction, "True", "", "divide the moments by 1 - beta^t") \
    X(DIMS, step_count, REQUIRED, "", "update count of each tensor, starting at 1") \
    X(INT, num_tensors, "1", "1..16", "number of tensors")
MX_ATTRS(multi_lamb, MULTI_LAMB_ATTRS)

#define MULTI_LARS_ATTRS(X) \
    X(FLOAT, eta, REQUIRED, "", "trust coefficient") X(FLOAT, eps, REQUIRED, "", "added to the divisor") RESCALE(X)
MX_ATTRS(multi_lars, MULTI_LARS_ATTRS)
#define GROUP_ADAGRAD_ATTRS(X) LR(X) RESCALE(X) CLIPPING(X) EPSILON(X, "1.0e-5")
MX_ATTRS(group_adagrad, GROUP_ADAGRAD_ATTRS)
#define RESET_ARRAYS_ATTRS(X) X(INT, num_arrays, REQUIRED, "1..", "number of arrays")
MX_ATTRS(reset_arrays, RESET_ARRAYS_ATTRS)

/* ---- constants ---------------------------------------------------------------------------------------------- */

/* A number of the attributes, or number i of a tuple; `fallback` if there is no such field. */
static double number(const mx_op *op, const void *attrs, const char *name, int i, double fallback)
{
    const mx_field *field = mx_schema_find(op->schema, name);
    const void *at = field ? (const char *)attrs + field->offset : NULL;
    if (!field)
        return fallback;
    switch (field->type) {
    case MX_FIELD_FLOAT: return *(const double *)at;
    case MX_FIELD_INT: return (double)*(const int64_t *)at;
    case MX_FIELD_BOOL: return *(const bool *)at;
    case MX_FIELD_FLOATS: return i < ((const mx_floats *)at)->n ? ((const mx_floats *)at)->d[i] : fallback;
    case MX_FIELD_DIMS: return i < ((const mx_dims *)at)->n ? (double)((const mx_dims *)at)->d[i] : fallback;
    default: return fallback;
    }
}

void mx_multi_constants(const mx_op *op, const void *attrs, int i, mx_update_constants *k)
{
#define FIELD(x) offsetof(mx_update_constants, x)
    static const struct { const char *name; size_t offset; double fallback; } table[] = {
        {"lrs", FIELD(lr), 0}, {"learning_rates", FIELD(lr), 0}, {"wds", FIELD(wd), 0}, {"etas", FIELD(eta), 1},
        {"momentum", FIELD(momentum), 0}, {"beta1", FIELD(beta1), 0}, {"beta2", FIELD(beta2), 0},
        {"epsilon", FIELD(epsilon), 0}, {"rescale_grad", FIELD(rescale_grad), 1},
        {"clip_gradient", FIELD(clip_gradient), -1}, {"lower_bound", FIELD(lower_bound), -1},
        {"upper_bound", FIELD(upper_bound), -1}, {"bias_correction", FIELD(bias_correction), 0},
        {"step_count", FIELD(t), 1},
    };
#undef FIELD
    memset(k, 0, sizeof *k);
    for (size_t f = 0; f < sizeof table / sizeof *table; f++)
        if (mx_schema_find(op->schema, table[f].name))
            *(double *)((char *)k + table[f].offset) = number(op, attrs, table[f].name, i, table[f].fallback);
    if (((const mx_multi_use *)op->user)->row == MX_UPDATE_lamb_update_phase1) {
        k->x = k->bias_correction != 0 ? 1 / (1 - pow(k->beta1, k->t)) : 1;
        k->y = k->bias_correction != 0 ? 1 / (1 - pow(k->beta2, k->t)) : 1;
    }
}

/* ---- inference ---------------------------------------------------------------------------------------------- */

#define COUNTER(name) \
    static int count_##name(const void *a) { return (int)((const mx_##name##_attrs *)a)->num_weights; }
COUNTER(multi_sgd)
COUNTER(multi_sgd_mom)
COUNTER(preloaded_sgd)
COUNTER(preloaded_sgd_mom)
COUNTER(multi_adamw)
static int count_multi_lamb(const void *a) { return (int)((const mx_multi_lamb_attrs *)a)->num_tensors; }
static int count_none(const void *a) { return (void)a, 0; }

static mx_code check_lists(mx_infer *infer, int count)
{
    static const char *const names[] = {"lrs", "wds", "etas", "learning_rates"};
    for (int i = 0; i < 4; i++) {
        const mx_field *field = mx_schema_find(infer->op->schema, names[i]);
        const mx_floats *list = field ? (const void *)((const char *)infer->attrs + field->offset) : NULL;
        if (list && list->n != count)
            return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "%s has %d numbers, wanted %d", names[i], list->n, count);
    }
    const mx_field *steps = mx_schema_find(infer->op->schema, "step_count");
    const mx_dims *list = steps ? (const void *)((const char *)infer->attrs + steps->offset) : NULL;
    if (list && list->n != count)
        return mx_op_fail(infer->op, MX_ERR_ATTRIBUTE, "step_count has %d numbers, wanted %d", list->n, count);
    return MX_OK;
}

static mx_code infer_shape(mx_infer *infer)
{
    const mx_multi_use *use = infer->op->user;
    const int group = mx_multi_group(use), count = infer->n_out;
    if (infer->n_in != group * count + use->tail)
        return mx_op_fail(infer->op, MX_ERR_ARGUMENT, "got %d inputs, wanted %d for %d tensors", infer->n_in,
                          group * count + use->tail, count);
    if (check_lists(infer, count))
        return mx_error_code();
    for (int i = 0; i < count; i++)
        for (int pass = 0; pass < 2; pass++)
            for (int k = i * group; k < (i + 1) * group; k++)
                if (mx_infer_in(infer, k, &infer->out[i]) || mx_infer_out(infer, i, &infer->in[k]))
                    return mx_error_code();
    const mx_shape_t shared = {.ndim = 1, .dim = {use->tail == 2 ? count : 1}};
    for (int k = group * count; k < infer->n_in; k++)
        if (mx_infer_in(infer, k, &shared))
            return mx_error_code();
    return MX_OK;
}

static mx_code infer_type(mx_infer *infer)
{
    const mx_multi_use *use = infer->op->user;
    const int group = mx_multi_group(use), count = infer->n_out;
    for (int k = 0; k < group * count; k++) {
        const int weight = infer->in_type[k / group * group];
        if (mx_infer_in_type(infer, k, use->precision && k % group >= 2 ? MX_FLOAT32 : weight))
            return mx_error_code();
        if (mx_infer_out_type(infer, k / group, weight))
            return mx_error_code();
    }
    for (int k = group * count; k < infer->n_in; k++)
        if (infer->in_type[k] == MX_DTYPE_NONE)
            infer->in_type[k] = MX_FLOAT32;
    return MX_OK;
}

static mx_code infer_group_adagrad(mx_infer *infer)
{
    if (mx_infer_in(infer, 1, &infer->in[0]) || mx_infer_in(infer, 0, &infer->in[1]) ||
        mx_infer_out(infer, 0, &infer->in[0]))
        return mx_error_code();
    const mx_shape_t *weight = &infer->in[0];
    if (weight->ndim < 0)
        return MX_OK;
    if (weight->ndim < 1)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "weight is 0-d, wanted rows");
    mx_shape_t history = {.ndim = weight->ndim};
    for (int i = 0; i < weight->ndim; i++)
        history.dim[i] = i ? 1 : weight->dim[0];
    return mx_infer_in(infer, 2, &history);
}

static mx_code infer_nothing(mx_infer *infer) { return (void)infer, MX_OK; }

/* ---- references --------------------------------------------------------------------------------------------- */

static double clipped(const mx_update_constants *k, double g)
{
    g *= k->rescale_grad;
    return k->clip_gradient < 0 ? g : fmin(fmax(g, -k->clip_gradient), k->clip_gradient);
}

static double norm(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void adam_moments(const mx_update_constants *k, double g, double m, double v, double *new_m, double *new_v)
{
    *new_m = k->beta1 * m + (1 - k->beta1) * clipped(k, g);
    *new_v = k->beta2 * v + (1 - k->beta2) * clipped(k, g) * clipped(k, g);
}

/* One tensor: in[] and the results of its states start at its group. */
static void step_sgd(const mx_update_constants *k, double w, const double *const *in, double *const *states, int64_t i,
                     double *out)
{
    (void)states;
    *out = w - k->lr * (clipped(k, in[1][i]) + k->wd * w);
}
static void step_mom(const mx_update_constants *k, double w, const double *const *in, double *const *states, int64_t i,
                     double *out)
{
    states[0][i] = k->momentum * in[2][i] - k->lr * (clipped(k, in[1][i]) + k->wd * w);
    *out = w + states[0][i];
}
static void step_adamw(const mx_update_constants *k, double w, const double *const *in, double *const *states,
                       int64_t i, double *out)
{
    adam_moments(k, in[1][i], in[2][i], in[3][i], &states[0][i], &states[1][i]);
    *out = w - k->eta * (k->lr * states[0][i] / (sqrt(states[1][i]) + k->epsilon) + k->wd * w);
}
static void step_lamb(const mx_update_constants *k, double w, const double *const *in, double *const *states, int64_t i,
                      double *out)
{
    adam_moments(k, in[1][i], in[2][i], in[3][i], &states[0][i], &states[1][i]);
    *out = states[0][i] * k->x / (sqrt(states[1][i] * k->y) + k->epsilon) + k->wd * w;
}

typedef void (*step_fn)(const mx_update_constants *k, double w, const double *const *in, double *const *states,
                        int64_t i, double *out);

static void lamb_finish(const mx_update_constants *k, const double *w, int64_t size, double *out)
{
    double r1 = norm(w, size), r2 = norm(out, size);
    r1 = k->lower_bound >= 0 ? fmax(r1, k->lower_bound) : r1;
    r1 = k->upper_bound >= 0 ? fmin(r1, k->upper_bound) : r1;
    const double rate = r1 == 0 || r2 == 0 ? k->lr : k->lr * r1 / r2;
    for (int64_t i = 0; i < size; i++)
        out[i] = w[i] - rate * out[i];
}

static void reference(const mx_reference_call *call, const char *name, step_fn step)
{
    const mx_op *op = mx_op_find(name);
    const mx_multi_use *use = op->user;
    const int group = mx_multi_group(use), count = (call->n_in - use->tail) / group;
    double *const *states = call->out + count;
    for (int t = 0; t < count; t++, states += use->states + use->precision) {
        const double *const *in = call->in + t * group, *w = use->precision ? in[group - 1] : in[0];
        const int64_t size = mx_shape_size(&call->in_shape[t * group]);
        mx_update_constants k;
        mx_multi_constants(op, call->attrs, t, &k);
        if (use->tail == 2)
            k.lr = call->in[group * count][t], k.wd = call->in[group * count + 1][t];
        if (use->tail == 1)
            k.rescale_grad = call->in[group * count][0];
        for (int64_t i = 0; i < size; i++)
            step(&k, w[i], in, states, i, &call->out[t][i]);
        if (step == step_lamb)
            lamb_finish(&k, w, size, call->out[t]);
        for (int64_t i = 0; i < size && use->precision; i++)
            states[use->states][i] = call->out[t][i];
    }
}
#define REFERENCE(id, name, step) \
    static void ref_##id(const mx_reference_call *call) { reference(call, name, step); }
REFERENCE(sgd, "multi_sgd_update", step_sgd)
REFERENCE(mom, "multi_sgd_mom_update", step_mom)
REFERENCE(mp_sgd, "multi_mp_sgd_update", step_sgd)
REFERENCE(mp_mom, "multi_mp_sgd_mom_update", step_mom)
REFERENCE(preloaded_sgd, "preloaded_multi_sgd_update", step_sgd)
REFERENCE(preloaded_mom, "preloaded_multi_sgd_mom_update", step_mom)
REFERENCE(preloaded_mp_sgd, "preloaded_multi_mp_sgd_update", step_sgd)
REFERENCE(preloaded_mp_mom, "preloaded_multi_mp_sgd_mom_update", step_mom)
REFERENCE(adamw, "_multi_adamw_update", step_adamw)
REFERENCE(mp_adamw, "_multi_mp_adamw_update", step_adamw)
REFERENCE(lamb, "_multi_lamb_update", step_lamb)
REFERENCE(mp_lamb, "_multi_mp_lamb_update", step_lamb)

/* lr eta |w| / (rescale |g| + wd |w| + eps) where both norms are positive */
static void ref_lars(const mx_reference_call *call)
{
    const mx_multi_lars_attrs *attrs = call->attrs;
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++) {
        const double w = sqrt(call->in[1][i]), g = sqrt(call->in[2][i]) * attrs->rescale_grad;
        call->out[0][i] =
            call->in[0][i] * (w > 0 && g > 0 ? attrs->eta * w / (g + call->in[3][i] * w + attrs->eps) : 1);
    }
}

static void ref_group_adagrad(const mx_reference_call *call)
{
    const mx_group_adagrad_attrs *attrs = call->attrs;
    const mx_update_constants k = {.rescale_grad = attrs->rescale_grad, .clip_gradient = attrs->clip_gradient};
    const int64_t rows = call->in_shape[0].dim[0], n = rows ? mx_shape_size(&call->in_shape[0]) / rows : 0;
    for (int64_t row = 0; row < rows; row++) {
        double history = call->in[2][row];
        for (int64_t i = row * n; i < (row + 1) * n; i++)
            history += clipped(&k, call->in[1][i]) * clipped(&k, call->in[1][i]) / (double)n;
        for (int64_t i = row * n; i < (row + 1) * n; i++)
            call->out[0][i] = call->in[0][i] - attrs->lr * clipped(&k, call->in[1][i]) / sqrt(history + attrs->epsilon);
        call->out[1][row] = history;
    }
}

static void ref_reset(const mx_reference_call *call)
{
    for (int k = 0; k < call->n_out; k++)
        for (int64_t i = 0; i < mx_shape_size(&call->out_shape[k]); i++)
            call->out[k][i] = 0;
}

/* ---- the table ------------------------------------------------------------------------------------------------ */

/* Bits of inputs that are written when groups have n members: states and the 32-bit weight. */
#define EVERY3 0x24924924u  /* 2, 5, 8, ... */
#define EVERY4 0xccccccccu  /* 2, 3, 6, 7, ... */
#define EVERY5 0x39ce739cu  /* 2, 3, 4, 7, 8, 9, ... */

#define PAIR "2,3;2,3"
#define A2 PAIR ";5;5"
#define A3 PAIR ";2,3;5;5;5"
#define A4 PAIR ";" PAIR ";5;5;5;5"
#define A5 PAIR ";" PAIR ";2,3;5;5;5;5;5"
#define TWO_RATES "lrs=(0.1, 0.2), wds=(0.01, 0.02), num_weights=2, rescale_grad=2, clip_gradient=0.7"
#define ADAMW_RATES "lrs=(0.1, 0.2), wds=(0.01, 0.02), etas=(0.5, 1), num_weights=2, clip_gradient=0.7"
#define LAMB_RATES "learning_rates=(0.1, 0.2), wds=(0.01, 0.02), step_count=(2, 3), num_tensors=2, rescale_grad=2, clip_gradient=0.7"
#define SAMPLE(shapes_, attrs_) (const mx_sample[]){{shapes_, attrs_, 0.1, 2, NULL}, {0}}

#define MULTI(name_, doc_, schema_, row_, states_, precision_, tail_, mutates_, samples_, reference_)                       \
    {.name = name_, .doc = doc_, .inputs = "*data", .schema = &schema_##_schema, .flags = MX_OP_LIST | MX_OP_NO_GRADIENT | MX_OP_INPLACE, \
     .count_out = count_##schema_, .count_visible = count_##schema_, .infer_shape = infer_shape, .infer_type = infer_type,  \
     .mutates = mutates_, .samples = samples_, .reference = reference_,                                                    \
     .user = &(const mx_multi_use){MX_UPDATE_##row_, states_, precision_, tail_}}

// clang-format off
mx_op mx_family_multi_optimizer[] = {
    MULTI("multi_sgd_update", "sgd_update of several tensors", multi_sgd, sgd_update, 0, false, 0, 0, SAMPLE(A2, TWO_RATES), ref_sgd),
    MULTI("multi_sgd_mom_update", "sgd_mom_update of several tensors", multi_sgd_mom, sgd_mom_update, 1, false, 0, EVERY3,
          SAMPLE(A3, TWO_RATES ", momentum=0.9"), ref_mom),
    MULTI("multi_mp_sgd_update", "mp_sgd_update of several tensors", multi_sgd, sgd_update, 0, true, 0, EVERY3, SAMPLE(A3, TWO_RATES), ref_mp_sgd),
    MULTI("multi_mp_sgd_mom_update", "mp_sgd_mom_update of several tensors", multi_sgd_mom, sgd_mom_update, 1, true, 0, EVERY4,
          SAMPLE(A4, TWO_RATES ", momentum=0.9"), ref_mp_mom),
    MULTI("preloaded_multi_sgd_update", "multi_sgd_update with learning rates and weight decays as arrays", preloaded_sgd, sgd_update, 0, false, 2, 0,
          SAMPLE(A2 ";2;2", "num_weights=2"), ref_preloaded_sgd),
    MULTI("preloaded_multi_sgd_mom_update", "multi_sgd_mom_update with learning rates and weight decays as arrays", preloaded_sgd_mom, sgd_mom_update, 1, false, 2, EVERY3,
          SAMPLE(A3 ";2;2", "num_weights=2, momentum=0.9"), ref_preloaded_mom),
    MULTI("preloaded_multi_mp_sgd_update", "multi_mp_sgd_update with learning rates and weight decays as arrays", preloaded_sgd, sgd_update, 0, true, 2, EVERY3,
          SAMPLE(A3 ";2;2", "num_weights=2"), ref_preloaded_mp_sgd),
    MULTI("preloaded_multi_mp_sgd_mom_update", "multi_mp_sgd_mom_update with learning rates and weight decays as arrays", preloaded_sgd_mom, sgd_mom_update, 1, true, 2, EVERY4,
          SAMPLE(A4 ";2;2", "num_weights=2, momentum=0.9"), ref_preloaded_mp_mom),
    MULTI("_multi_adamw_update", "_adamw_update of several tensors", multi_adamw, adamw_update, 2, false, 1, EVERY4,
          SAMPLE(A4 ";1", ADAMW_RATES), ref_adamw),
    MULTI("_multi_mp_adamw_update", "_mp_adamw_update of several tensors", multi_adamw, adamw_update, 2, true, 1, EVERY5,
          SAMPLE(A5 ";1", ADAMW_RATES), ref_mp_adamw),
    MULTI("_multi_lamb_update", "both phases of LAMB for several tensors", multi_lamb, lamb_update_phase1, 2, false, 0, EVERY4,
          SAMPLE(A4, LAMB_RATES ", lower_bound=0.5, upper_bound=0.6"), ref_lamb),
    MULTI("_multi_mp_lamb_update", "both phases of LAMB for several 16-bit tensors", multi_lamb, lamb_update_phase1, 2, true, 0, EVERY5,
          SAMPLE(A5, LAMB_RATES ", bias_correction=False"), ref_mp_lamb),
    {.name = "multi_lars", .doc = "learning rates scaled per layer by the ratio of weight norm to gradient norm",
     .inputs = "lrs weights_sum_sq grads_sum_sq wds", .schema = &multi_lars_schema, .flags = MX_OP_NO_GRADIENT | MX_OP_INPLACE,
     .samples = SAMPLE("3;3;3;3", "eta=0.5, eps=0.1, rescale_grad=2"), .reference = ref_lars},
    {.name = "_contrib_group_adagrad_update", .sparse = MX_SPARSE_UPDATE, .c_name = "group_adagrad_update",
     .doc = "AdaGrad with one history per row",
     .inputs = "weight grad history", .schema = &group_adagrad_schema, .flags = MX_OP_NO_GRADIENT | MX_OP_INPLACE,
     .infer_shape = infer_group_adagrad, .mutates = 4, .reference = ref_group_adagrad,
     .samples = SAMPLE("3,4;3,4;3,1", "lr=0.1, rescale_grad=2, clip_gradient=0.7")},
    {.name = "reset_arrays", .doc = "sets arrays to zero", .inputs = "*data", .schema = &reset_arrays_schema,
     .flags = MX_OP_LIST | MX_OP_NO_GRADIENT, .count_out = count_none, .count_visible = count_none, .mutates = 0xffffffffu,
     .infer_shape = infer_nothing, .infer_type = infer_nothing, .samples = SAMPLE("2,3;5", "num_arrays=2"), .reference = ref_reset},
    {0},
};
// clang-format on
