/* Optimizers that adapt to each weight's gradient: Adam and its relatives.
 *
 * The formulas are those of the fused update operators (op/formula/optimizer.h); here are options, states and the factors
 * that depend on the number of the update.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gluon/train/update.h"

#define COMMON .lr = u->lr, .wd = u->wd, .rescale_grad = self->rescale_grad, .clip_gradient = self->clip_gradient
#define BETAS .beta1 = o->beta1, .beta2 = o->beta2

/* 1 - beta^t: the bias correction of a running average that starts at zero, after t steps. */
static double collected(double beta, int64_t t) { return 1 - pow(beta, (double)t); }

/* ---- Adam -------------------------------------------------------------------------------------------------------- */
#define ADAM_OPTIONS(X) \
    MX_OPTIMIZER_RATE(X, "0.001") \
    X(FLOAT, beta1, "0.9", "", "decay of the mean") \
    X(FLOAT, beta2, "0.999", "", "decay of the mean square") \
    X(FLOAT, epsilon, "1e-08", "", "added to denominators, to avoid a division by zero") \
    X(BOOL, lazy_update, "True", "", "with a row_sparse gradient only its rows are updated") MX_OPTIMIZER_REST(X, "0")
MX_ATTRS(adam_optimizer, ADAM_OPTIONS)

static mx_code update_adam(mx_optimizer *self, mx_update *u)
{
    const mx_adam_optimizer_attrs *o = self->options;
    const double rate = u->lr * sqrt(collected(o->beta2, u->t)) / collected(o->beta1, u->t);
    const mx_adam_update_attrs attrs = {COMMON, BETAS, .lr = rate, .epsilon = o->epsilon,
                                        .lazy_update = o->lazy_update};
    return MX_RUN_UPDATE("adam_update", "_mp_adam_update", &attrs, u, 2);
}

/* ---- AdamW ------------------------------------------------------------------------------------------------------- */
#define ADAMW_OPTIONS(X) \
    MX_OPTIMIZER_RATE(X, "0.001") \
    X(FLOAT, beta1, "0.9", "", "decay of the mean") \
    X(FLOAT, beta2, "0.999", "", "decay of the mean square") \
    X(FLOAT, epsilon, "1e-06", "", "added to denominators, to avoid a division by zero") \
    X(BOOL, correct_bias, "True", "", "correct the averages for their start at zero") MX_OPTIMIZER_REST(X, "0")
MX_ATTRS(adamw_optimizer, ADAMW_OPTIONS)

/* w -= lr (correction m / (sqrt(v) + epsilon) + wd w): the decay is not part of the averages */
static mx_code update_adamw(mx_optimizer *self, mx_update *u)
{
    const mx_adamw_optimizer_attrs *o = self->options;
    const double correction = o->correct_bias ? sqrt(collected(o->beta2, u->t)) / collected(o->beta1, u->t) : 1;
    const mx_adam_decay_update_attrs attrs = {COMMON, BETAS, .lr = u->lr * correction, .wd = u->lr * u->wd,
                                              .epsilon = o->epsilon};
    return MX_RUN_UPDATE("_adam_decay_update", "_mp_adam_decay_update", &attrs, u, 2);
}

/* ---- Adamax ------------------------------------------------------------------------------------------------------ */
#define ADAMAX_OPTIONS(X) \
    MX_OPTIMIZER_RATE(X, "0.002") \
    X(FLOAT, beta1, "0.9", "", "decay of the mean") \
    X(FLOAT, beta2, "0.999", "", "decay of the largest magnitude") MX_OPTIMIZER_REST(X, "0")
MX_ATTRS(adamax_optimizer, ADAMAX_OPTIONS)

static mx_code update_adamax(mx_optimizer *self, mx_update *u)
{
    const mx_adamax_optimizer_attrs *o = self->options;
    const mx_adamax_update_attrs attrs = {COMMON, BETAS, .lr = u->lr / collected(o->beta1, u->t)};
    return MX_RUN_UPDATE("_adamax_update", "_mp_adamax_update", &attrs, u, 2);
}

/* ---- Nadam ------------------------------------------------------------------------------------------------------- */
#define NADAM_OPTIONS(X) \
    MX_OPTIMIZER_RATE(X, "0.001") \
    X(FLOAT, beta1, "0.9", "", "decay of the mean") \
    X(FLOAT, beta2, "0.999", "", "decay of the mean square") \
    X(FLOAT, epsilon, "1e-08", "", "added to denominators, to avoid a division by zero") \
    X(FLOAT, schedule_decay, "0.004", "", "how fast the momentum reaches beta1") MX_OPTIMIZER_REST(X, "0")
MX_ATTRS(nadam_optimizer, NADAM_OPTIONS)

/* memory[0] is the product of all momenta so far; it grows with every update of any weight, as in MXNet. */
static mx_code start_nadam(mx_optimizer *self)
{
    self->memory[0] = 1;
    return MX_OK;
}

static double nadam_momentum(const mx_nadam_optimizer_attrs *o, int64_t t)
{
    return o->beta1 * (1 - 0.5 * pow(0.96, (double)t * o->schedule_decay));
}

/* The step is (1 - now) g / (1 - product) + next m / (1 - product next), over sqrt(v / (1 - beta2^t)) + epsilon. */
static mx_code update_nadam(mx_optimizer *self, mx_update *u)
{
    const mx_nadam_optimizer_attrs *o = self->options;
    const double now = nadam_momentum(o, u->t), next = nadam_momentum(o, u->t + 1);
    const double product = self->memory[0] *= now;
    const mx_nadam_update_attrs attrs = {COMMON, BETAS, .epsilon = o->epsilon, .grad_factor = (1 - now) / (1 - product),
                                         .mean_factor = next / (1 - product * next),
     .var_factor = 1 / collected(o->beta2, u->t)};
    return MX_RUN_UPDATE("_nadam_update", "_mp_nadam_update", &attrs, u, 2);
}

/* ---- FTML -------------------------------------------------------------------------------------------------------- */
#define FTML_OPTIONS(X) \
    X(FLOAT, beta1, "0.6", "0..1", "decay of the mean") \
    X(FLOAT, beta2, "0.999", "0..1", "decay of the mean square") \
    X(FLOAT, epsilon, "1e-08", "", "added to denominators, to avoid a division by zero") MX_OPTIMIZER_COMMON(X)
MX_ATTRS(ftml_optimizer, FTML_OPTIONS)

static mx_code update_ftml(mx_optimizer *self, mx_update *u)
{
    const mx_ftml_optimizer_attrs *o = self->options;
    const mx_ftml_update_attrs attrs = {BETAS, .lr = u->lr, .epsilon = o->epsilon, .t = u->t, .wd = u->wd,
                                        .rescale_grad = self->rescale_grad, .clip_grad = self->clip_gradient};
    return MX_RUN_UPDATE("ftml_update", "_mp_ftml_update", &attrs, u, 3);
}

/* ---- Ftrl -------------------------------------------------------------------------------------------------------- */
#define FTRL_OPTIONS(X) \
    X(FLOAT, lamda1, "0.01", "", "strength of the L1 regularisation") \
    MX_OPTIMIZER_RATE(X, "0.1") \
    X(FLOAT, beta, "1", "", "smooths the learning rate") MX_OPTIMIZER_REST(X, "0")
MX_ATTRS(ftrl_optimizer, FTRL_OPTIONS)

static mx_code update_ftrl(mx_optimizer *self, mx_update *u)
{
    const mx_ftrl_optimizer_attrs *o = self->options;
    const mx_ftrl_update_attrs attrs = {COMMON, .lamda1 = o->lamda1, .beta = o->beta};
    return MX_RUN_UPDATE("ftrl_update", "_mp_ftrl_update", &attrs, u, 2);
}

/* ---- AdaGrad, AdaDelta ------------------------------------------------------------------------------------------- */
#define ADAGRAD_OPTIONS(X) \
    X(FLOAT, eps, "1e-07", "", "added to denominators, to avoid a division by zero") MX_OPTIMIZER_COMMON(X)
MX_ATTRS(adagrad_optimizer, ADAGRAD_OPTIONS)
#define ADADELTA_OPTIONS(X) \
    X(FLOAT, rho, "0.9", "", "decay of both averages") \
    X(FLOAT, epsilon, "1e-05", "", "added to denominators, to avoid a division by zero") MX_OPTIMIZER_COMMON(X)
MX_ATTRS(adadelta_optimizer, ADADELTA_OPTIONS)

static mx_code update_adagrad(mx_optimizer *self, mx_update *u)
{
    const mx_adagrad_optimizer_attrs *o = self->options;
    const mx_adagrad_update_attrs attrs = {COMMON, .epsilon = o->eps};
    return MX_RUN_UPDATE("_adagrad_update", "_mp_adagrad_update", &attrs, u, 1);
}

static mx_code update_adadelta(mx_optimizer *self, mx_update *u)
{
    const mx_adadelta_optimizer_attrs *o = self->options;
    const mx_adadelta_update_attrs attrs = {.rho = o->rho, .epsilon = o->epsilon, .wd = u->wd,
                                            .rescale_grad = self->rescale_grad,
                                            .clip_gradient = self->clip_gradient};
    return MX_RUN_UPDATE("_adadelta_update", "_mp_adadelta_update", &attrs, u, 2);
}

/* ---- GroupAdaGrad ------------------------------------------------------------------------------------------------ */
#define GROUP_OPTIONS(X) \
    X(FLOAT, eps, "1e-05", "", "added to denominators, to avoid a division by zero") MX_OPTIMIZER_COMMON(X)
MX_ATTRS(group_adagrad_optimizer, GROUP_OPTIONS)

static mx_code start_group(mx_optimizer *self)
{
    if (self->wd != 0)
        return mx_fail(MX_ERR_ATTRIBUTE, "GroupAdaGrad: wd=%g, but it has no weight decay", self->wd);
    return MX_OK;
}

/* One number per row: (rows, 1). */
static mx_code make_group(mx_optimizer *self, mx_array *weight, mx_array **state)
{
    char text[MX_SHAPE_TEXT];
    mx_shape_t shape = mx_array_shape(weight), rows = {.ndim = 2, .dim = {shape.dim[0], 1}};
    (void)self;
    if (shape.ndim != 2)
        return mx_fail(MX_ERR_SHAPE, "GroupAdaGrad: the weight has shape %s, wanted two axes",
                       mx_shape_text(&shape, text));
    state[0] = mx_array_new(&rows, (mx_dtype)weight->dtype, weight->context);
    return state[0] ? mx_array_fill(state[0], 0) : mx_error_code();
}

/* h += mean of g^2 over the row; w -= lr g / sqrt(h + eps) */
static mx_code update_group(mx_optimizer *self, mx_update *u)
{
    const mx_group_adagrad_optimizer_attrs *o = self->options;
    const mx_group_adagrad_attrs attrs = {.lr = u->lr,
                                          .rescale_grad = self->rescale_grad,
                                          .clip_gradient = self->clip_gradient,
                                          .epsilon = o->eps};
    return mx_run_update(MX_OP("_contrib_group_adagrad_update"), &attrs, u, 1);
}

/* ---- RMSProp ----------------------------------------------------------------------------------------------------- */
#define RMSPROP_OPTIONS(X) \
    MX_OPTIMIZER_RATE(X, "0.001") \
    X(FLOAT, gamma1, "0.9", "", "decay of the mean square") \
    X(FLOAT, gamma2, "0.9", "", "decay of the step, if centered") \
    X(FLOAT, epsilon, "1e-08", "", "added to denominators, to avoid a division by zero") \
    X(BOOL, centered, "False", "", "divide by the deviation instead of the root mean square") \
    X(FLOAT, clip_weights, "None", "", "weights are clipped to [-c, c]; None: not at all") MX_OPTIMIZER_REST(X, "0")
MX_ATTRS(rmsprop_optimizer, RMSPROP_OPTIONS)

static mx_code make_rmsprop(mx_optimizer *self, mx_array *weight, mx_array **state)
{
    return mx_optimizer_zeros(weight, ((const mx_rmsprop_optimizer_attrs *)self->options)->centered ? 3 : 1, state);
}

static mx_code update_rmsprop(mx_optimizer *self, mx_update *u)
{
    const mx_rmsprop_optimizer_attrs *o = self->options;
    const double clip_weights = isnan(o->clip_weights) || o->clip_weights <= 0 ? -1 : o->clip_weights;
    if (o->centered) {
        const mx_rmspropalex_update_attrs attrs = {COMMON, .gamma1 = o->gamma1, .gamma2 = o->gamma2,
                                                   .epsilon = o->epsilon,
                                                   .clip_weights = clip_weights};
        return MX_RUN_UPDATE("rmspropalex_update", "_mp_rmspropalex_update", &attrs, u, 3);
    }
    const mx_rmsprop_update_attrs attrs = {COMMON, .gamma1 = o->gamma1, .epsilon = o->epsilon,
                                           .clip_weights = clip_weights};
    return MX_RUN_UPDATE("rmsprop_update", "_mp_rmsprop_update", &attrs, u, 1);
}

#define METHODS(...) &(const mx_optimizer_methods){__VA_ARGS__}

mx_class mx_classes_optimizers_adaptive[] = {
    {.kind = MX_OPTIMIZER, .name = "Adam", .doc = "steps of the running mean over the root of the running mean square",
     .schema = &adam_optimizer_schema, .by_name = MX_OPTIMIZER_RATED, .methods = METHODS(.states = 2, .update = update_adam, .fused = true, .lazy = true)},
    {.kind = MX_OPTIMIZER, .name = "AdamW", .c_name = "adamw",
     .doc = "Adam with weight decay apart from the gradients: w -= lr (step + wd w)",
     .schema = &adamw_optimizer_schema, .by_name = MX_OPTIMIZER_RATED, .methods = METHODS(.states = 2, .update = update_adamw, .fused = true)},
    {.kind = MX_OPTIMIZER, .name = "Adamax", .doc = "Adam with the largest gradient in place of the mean square",
     .schema = &adamax_optimizer_schema, .by_name = MX_OPTIMIZER_RATED, .methods = METHODS(.states = 2, .update = update_adamax, .fused = true)},
    {.kind = MX_OPTIMIZER, .name = "Nadam", .doc = "Adam with Nesterov's momentum", .schema = &nadam_optimizer_schema, .by_name = MX_OPTIMIZER_RATED,
     .methods = METHODS(.states = 2, .update = update_nadam, .fused = true, .memory = "m_schedule", .start = start_nadam)},
    {.kind = MX_OPTIMIZER, .name = "FTML", .doc = "follow the moving leader", .schema = &ftml_optimizer_schema, .by_name = MX_OPTIMIZER_PLAIN,
     .methods = METHODS(.states = 3, .update = update_ftml, .fused = true)},
    {.kind = MX_OPTIMIZER, .name = "Ftrl", .doc = "follow the regularised leader: sparse weights",
     .schema = &ftrl_optimizer_schema, .by_name = MX_OPTIMIZER_RATED,
     .methods = METHODS(.states = 2, .update = update_ftrl, .fused = true, .lazy = true, .lazy_if_sparse = true, .own_schedule = true)},
    {.kind = MX_OPTIMIZER, .name = "AdaGrad", .c_name = "adagrad",
     .doc = "gradients over the root of the sum of their squares",
     .schema = &adagrad_optimizer_schema, .by_name = MX_OPTIMIZER_PLAIN, .methods = METHODS(.states = 1, .update = update_adagrad, .fused = true, .lazy = true)},
    {.kind = MX_OPTIMIZER, .name = "GroupAdaGrad", .c_name = "group_adagrad",
     .doc = "AdaGrad with one sum per row, for embeddings",
     .schema = &group_adagrad_optimizer_schema, .by_name = MX_OPTIMIZER_PLAIN, .methods = METHODS(.make_states = make_group, .update = update_group,
     .start = start_group, .lazy = true)},
    {.kind = MX_OPTIMIZER, .name = "AdaDelta", .c_name = "adadelta",
     .doc = "steps of the size of earlier steps; no learning rate",
     .schema = &adadelta_optimizer_schema, .by_name = MX_OPTIMIZER_PLAIN, .methods = METHODS(.states = 2, .update = update_adadelta, .fused = true)},
    {.kind = MX_OPTIMIZER, .name = "RMSProp", .c_name = "rmsprop",
     .doc = "gradients over the root of their running mean square",
     .schema = &rmsprop_optimizer_schema, .by_name = MX_OPTIMIZER_RATED, .methods = METHODS(.make_states = make_rmsprop, .update = update_rmsprop, .fused = true, .one_in_tuple = true)},
    {0},
};
