/* Optimizers that scale the step of each parameter by its norm: LAMB, LARS, LBSGD.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "gluon/train/update.h"

#define COMMON .wd = u->wd, .rescale_grad = self->rescale_grad, .clip_gradient = self->clip_gradient

static mx_array *norm(mx_array *x) { return MX_PUT1(NULL, "norm", x); }

/* ---- LAMB -------------------------------------------------------------------------------------------------------- */
#define LAMB_OPTIONS(X) \
    MX_OPTIMIZER_RATE(X, "0.001") \
    X(FLOAT, beta1, "0.9", "", "decay of the mean") \
    X(FLOAT, beta2, "0.999", "", "decay of the mean square") \
    X(FLOAT, epsilon, "1e-06", "", "added to denominators, to avoid a division by zero") \
    X(FLOAT, lower_bound, "None", "", "lower bound of the weight's norm") \
    X(FLOAT, upper_bound, "None", "", "upper bound of the weight's norm") \
    X(BOOL, bias_correction, "True", "", "correct the averages for their start at zero") MX_OPTIMIZER_REST(X, "0")
MX_ATTRS(lamb_optimizer, LAMB_OPTIONS)

static double bound(double given) { return isnan(given) ? -1 : given; }

/* Adam's direction g, then a step of length lr * norm(w) along it; the norms stay on the device. */
static mx_code update_lamb(mx_optimizer *self, mx_update *u)
{
    const mx_lamb_optimizer_attrs *o = self->options;
    const mx_lamb_update_phase1_attrs first = {COMMON, .beta1 = o->beta1, .beta2 = o->beta2, .epsilon = o->epsilon,
                                               .t = u->t,
                                               .bias_correction = o->bias_correction};
    const mx_lamb_update_phase2_attrs second = {
        .lr = u->lr, .lower_bound = bound(o->lower_bound), .upper_bound = bound(o->upper_bound)};
    mx_array *g = mx_call_one(MX_OP("lamb_update_phase1"), &first, 4,
                              (mx_array *const[]){u->weight, u->grad, u->state[0], u->state[1]}, NULL);
    return mx_put_done(mx_call_one(MX_OP("lamb_update_phase2"), &second, 4,
                                   (mx_array *const[]){u->weight, g, norm(u->weight), norm(g)}, u->weight));
}

/* ---- LARS -------------------------------------------------------------------------------------------------------- */
#define LARS_OPTIONS(X) \
    X(FLOAT, momentum, "0.0", "", "fraction of the last step that is added") \
    X(BOOL, lazy_update, "True", "", "accepted for compatibility") \
    X(FLOAT, eta, "0.001", "", "trust: length of a step over that of the weight") \
    X(FLOAT, eps, "0", "", "added to denominators, to avoid a division by zero") \
    X(BOOL, momentum_correction, "True", "", "scale the momentum when the rate changes") \
    MX_OPTIMIZER_RATE(X, "None") MX_OPTIMIZER_REST(X, "4")
MX_ATTRS(lars_optimizer, LARS_OPTIONS)

static mx_code make_lars(mx_optimizer *self, mx_array *weight, mx_array **state)
{
    return mx_optimizer_zeros(weight, ((const mx_lars_optimizer_attrs *)self->options)->momentum != 0, state);
}

static bool ends_with(const char *name, const char *end)
{
    const size_t a = strlen(name), b = strlen(end);
    return a >= b && !strcmp(name + a - b, end);
}

/* eta |w| / (|g| + wd |w| + eps); 1 if a norm is zero, and for weights named as biases or scales of normalisations
 * (mx_optimizer_set_name; a trainer sets no names) */
static mx_code lars_factor(const mx_lars_optimizer_attrs *o, mx_optimizer *self, const mx_update *u, double *factor)
{
    *factor = 1;
    if (ends_with(u->name, "gamma") || ends_with(u->name, "beta") || ends_with(u->name, "bias"))
        return MX_OK;
    const double w_norm = mx_item(norm(u->weight)), g_norm = mx_item(norm(u->grad)) * self->rescale_grad;
    if (isnan(w_norm) || isnan(g_norm))
        return mx_error_code(); /* NaN in the data is no error: the unscaled step shows it */
    if (w_norm > 0 && g_norm > 0)
        *factor = o->eta * w_norm / (g_norm + u->wd * w_norm + o->eps);
    return MX_OK;
}

/* memory[0] is the rate of the last update of any weight, as in MXNet. */
static mx_code update_lars(mx_optimizer *self, mx_update *u)
{
    const mx_lars_optimizer_attrs *o = self->options;
    double factor;
    if (lars_factor(o, self, u, &factor))
        return mx_error_code();
    const double last = self->memory[0];
    self->memory[0] = u->base_lr;
    if (!u->state[0]) {
        const mx_sgd_update_attrs attrs = {COMMON, .lr = u->lr * factor, .lazy_update = true};
        return mx_run_update(MX_OP("sgd_update"), &attrs, u, 0);
    }
    const double correction = o->momentum_correction && last != 0 ? u->base_lr / last : 1;
    const mx_sgd_mom_update_attrs attrs = {COMMON, .lr = u->lr * factor, .momentum = o->momentum * correction,
                                           .lazy_update = true};
    return mx_run_update(MX_OP("sgd_mom_update"), &attrs, u, 1);
}

/* ---- LBSGD ------------------------------------------------------------------------------------------------------- */
#define LBSGD_OPTIONS(X) \
    X(FLOAT, momentum, "0.0", "", "fraction of the last step that is added") \
    X(STR, warmup_strategy, "linear", "", "how the rate grows: linear, power2, sqrt, or lars") \
    X(INT, warmup_epochs, "5", "0..", "epochs of the warmup") \
    X(INT, batch_scale, "1", "1..", "batches whose gradients make one step") \
    X(INT, updates_per_epoch, "32", "1..", "batches of an epoch") \
    X(INT, begin_epoch, "0", "0..", "epochs done before") \
    X(INT, num_epochs, "60", "0..", "accepted for compatibility") MX_OPTIMIZER_COMMON(X)
MX_ATTRS(lbsgd_optimizer, LBSGD_OPTIONS)

static mx_code start_lbsgd(mx_optimizer *self)
{
    int choice;
    return mx_option_choice("LBSGD", "warmup_strategy",
                            ((const mx_lbsgd_optimizer_attrs *)self->options)->warmup_strategy,
                            "linear|power2|sqrt|lars", &choice);
}

/* The accumulated gradient, and a momentum if there is one. */
static mx_code make_lbsgd(mx_optimizer *self, mx_array *weight, mx_array **state)
{
    return mx_optimizer_zeros(weight, 1 + (((const mx_lbsgd_optimizer_attrs *)self->options)->momentum != 0), state);
}

/* From 1 to batch_scale over the batches of the warmup. */
static double warmup_factor(const mx_lbsgd_optimizer_attrs *o, int64_t batch)
{
    const double length = (double)o->warmup_epochs * (double)o->updates_per_epoch, most = (double)o->batch_scale,
                 x = (double)batch / length;
    if ((double)batch >= length)
        return most;
    if (length <= 1)
        return 1;
    switch (o->warmup_strategy[0]) {
    case 'l': return 1 + (most - 1) * x;
    case 'p': return 1 + (most - 1) * x * x;
    default: return 1 + (most - 1) * sqrt(x);
    }
}

/* sqrt(|w|^2 / (|g|^2 + wd |w|^2)), within 0.01 and 100 */
static double trust_factor(const mx_update *u, mx_array *gradient)
{
    const double w = mx_item(norm(u->weight)), g = mx_item(norm(gradient));
    const double factor = sqrt(w * w / (g * g + u->wd * w * w + 1e-18));
    return factor < 0.01 ? 0.01 : factor > 100 ? 100 : factor;
}

/* Gradients are accumulated; every batch_scale-th update makes a step with their mean. */
static mx_code update_lbsgd(mx_optimizer *self, mx_update *u)
{
    const mx_lbsgd_optimizer_attrs *o = self->options;
    mx_array *gathered = u->state[0], *momentum = u->state[1];
    const int64_t batch = o->begin_epoch * o->updates_per_epoch + u->t;
    const bool starts = (batch - 1) % o->batch_scale == 0 || u->t == 1;
    if (starts ? mx_array_set(gathered, u->grad) : !mx_put_sum(gathered, gathered, u->grad))
        return mx_error_code();
    if (batch % o->batch_scale)
        return MX_OK;
    mx_array *mean = mx_put_scaled(NULL, gathered, 1 / (double)o->batch_scale);
    const double factor = !strcmp(o->warmup_strategy, "lars") ? trust_factor(u, mean) : warmup_factor(o, batch);
    if (isnan(factor) && mx_has_error())
        return mx_error_code();
    mx_array *const in[3] = {u->weight, mean, momentum};
    if (!momentum) {
        const mx_sgd_update_attrs attrs = {COMMON, .lr = u->lr * factor, .lazy_update = true};
        return mx_put_done(mx_call_one(MX_OP("sgd_update"), &attrs, 2, in, u->weight));
    }
    const mx_sgd_mom_update_attrs attrs = {COMMON, .lr = u->lr * factor, .momentum = o->momentum, .lazy_update = true};
    return mx_put_done(mx_call_one(MX_OP("sgd_mom_update"), &attrs, 3, in, u->weight));
}

#define METHODS(...) &(const mx_optimizer_methods){__VA_ARGS__}

mx_class mx_classes_optimizers_layerwise[] = {
    {.kind = MX_OPTIMIZER, .name = "LAMB",
     .doc = "Adam with steps in proportion to the weight's norm: for large batches",
     .schema = &lamb_optimizer_schema, .by_name = MX_OPTIMIZER_RATED, .methods = METHODS(.states = 2, .update = update_lamb)},
    {.kind = MX_OPTIMIZER, .name = "LARS",
     .doc = "SGD with steps in proportion to the weight's norm: for large batches",
     .schema = &lars_optimizer_schema, .by_name = MX_OPTIMIZER_PLAIN, .methods = METHODS(.make_states = make_lars, .update = update_lars, .master_last = true, .memory = "last_lr")},
    {.kind = MX_OPTIMIZER, .name = "LBSGD", .doc = "SGD that accumulates the gradients of several batches, with a warmup",
     .schema = &lbsgd_optimizer_schema, .by_name = MX_OPTIMIZER_PLAIN, .methods = METHODS(.make_states = make_lbsgd, .update = update_lbsgd,
     .start = start_lbsgd, .early_rate = true)},
    {0},
};
