/* Optimizers that follow the gradient: SGD and its relatives.
 *
 * The formulas are those of the fused update operators (op/formula/optimizer.h); here are options and states.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "gluon/train/update.h"

/* The arguments that nearly all updates pass to their operator. */
#define COMMON .lr = u->lr, .wd = u->wd, .rescale_grad = self->rescale_grad, .clip_gradient = self->clip_gradient

/* ---- SGD, NAG ---------------------------------------------------------------------------------------------------- */
#define SGD_OPTIONS(X) \
    X(FLOAT, momentum, "0.0", "", "fraction of the last step that is added") \
    X(BOOL, lazy_update, "True", "", "with a row_sparse gradient only its rows are updated") \
    MX_OPTIMIZER_RATE(X, "None") MX_OPTIMIZER_REST(X, "4")
MX_ATTRS(sgd_optimizer, SGD_OPTIONS)
#define NAG_OPTIONS(X) X(FLOAT, momentum, "0.0", "", "fraction of the last step that is added") MX_OPTIMIZER_COMMON(X)
MX_ATTRS(nag_optimizer, NAG_OPTIONS)

/* Only a momentum needs memory. */
static mx_code make_sgd(mx_optimizer *self, mx_array *weight, mx_array **state)
{
    return mx_optimizer_zeros(weight, ((const mx_sgd_optimizer_attrs *)self->options)->momentum != 0, state);
}
static mx_code make_nag(mx_optimizer *self, mx_array *weight, mx_array **state)
{
    return mx_optimizer_zeros(weight, ((const mx_nag_optimizer_attrs *)self->options)->momentum != 0, state);
}

static mx_code update_plain(mx_optimizer *self, mx_update *u, bool lazy)
{
    const mx_sgd_update_attrs attrs = {COMMON, .lazy_update = lazy};
    return MX_RUN_UPDATE("sgd_update", "mp_sgd_update", &attrs, u, 0);
}

static mx_code update_momentum(mx_optimizer *self, mx_update *u, double momentum, bool lazy)
{
    const mx_sgd_mom_update_attrs attrs = {COMMON, .momentum = momentum, .lazy_update = lazy};
    return MX_RUN_UPDATE("sgd_mom_update", "mp_sgd_mom_update", &attrs, u, 1);
}

static mx_code update_sgd(mx_optimizer *self, mx_update *u)
{
    const mx_sgd_optimizer_attrs *o = self->options;
    return u->state[0] ? update_momentum(self, u, o->momentum, o->lazy_update) : update_plain(self, u, o->lazy_update);
}

static mx_code update_nag(mx_optimizer *self, mx_update *u)
{
    if (!u->state[0])
        return update_plain(self, u, true);
    const mx_nag_mom_update_attrs attrs = {COMMON,
                                           .momentum = ((const mx_nag_optimizer_attrs *)self->options)->momentum};
    return MX_RUN_UPDATE("nag_mom_update", "mp_nag_mom_update", &attrs, u, 1);
}

/* ---- Signum ------------------------------------------------------------------------------------------------------ */
#define SIGNUM_OPTIONS(X) \
    MX_OPTIMIZER_RATE(X, "0.01") \
    X(FLOAT, momentum, "0.9", "", "fraction of the last direction that is added") \
    X(FLOAT, wd_lh, "0.0", "", "weight decay outside the momentum") MX_OPTIMIZER_REST(X, "0")
MX_ATTRS(signum_optimizer, SIGNUM_OPTIONS)

static mx_code make_signum(mx_optimizer *self, mx_array *weight, mx_array **state)
{
    return mx_optimizer_zeros(weight, ((const mx_signum_optimizer_attrs *)self->options)->momentum != 0, state);
}

static mx_code update_signum(mx_optimizer *self, mx_update *u)
{
    const mx_signum_optimizer_attrs *o = self->options;
    if (!u->state[0]) {
        const mx_signsgd_update_attrs plain = {COMMON};
        return MX_RUN_UPDATE("signsgd_update", "_mp_signsgd_update", &plain, u, 0);
    }
    const mx_signum_update_attrs attrs = {COMMON, .momentum = o->momentum, .wd_lh = o->wd_lh};
    return MX_RUN_UPDATE("signum_update", "_mp_signum_update", &attrs, u, 1);
}

/* ---- DCASGD ------------------------------------------------------------------------------------------------------ */
#define DCASGD_OPTIONS(X) \
    X(FLOAT, momentum, "0.0", "", "fraction of the last step that is added") \
    X(FLOAT, lamda, "0.04", "", "strength of the delay compensation") MX_OPTIMIZER_COMMON(X)
MX_ATTRS(dcasgd_optimizer, DCASGD_OPTIONS)

/* A step, and the weight before the last update. */
static mx_code make_dcasgd(mx_optimizer *self, mx_array *weight, mx_array **state)
{
    (void)self;
    mx_code code = mx_optimizer_zeros(weight, 2, state);
    return code ? code : mx_array_set(state[1], weight);
}

static mx_code update_dcasgd(mx_optimizer *self, mx_update *u)
{
    const mx_dcasgd_optimizer_attrs *o = self->options;
    const mx_dcasgd_update_attrs attrs = {COMMON, .momentum = o->momentum, .lamda = o->lamda};
    return MX_RUN_UPDATE("_dcasgd_update", "_mp_dcasgd_update", &attrs, u, 2);
}

/* ---- SGLD -------------------------------------------------------------------------------------------------------- */
#define PLAIN_OPTIONS(X) MX_OPTIMIZER_COMMON(X)
MX_ATTRS(plain_optimizer, PLAIN_OPTIONS)

/* w -= lr / 2 * (g + wd w); w += sqrt(lr) * normal noise */
static mx_code update_sgld(mx_optimizer *self, mx_update *u)
{
    const mx_sgd_update_attrs attrs = {COMMON, .lr = u->lr / 2, .lazy_update = true};
    mx_code code = mx_run_update(MX_OP("sgd_update"), &attrs, u, 0);
    if (code)
        return code;
    const mx_random_normal_like_attrs noise = {.loc = 0, .scale = sqrt(u->lr)};
    mx_array *drawn = mx_call_one(MX_OP("_random_normal_like"), &noise, 1, &u->weight, NULL);
    return mx_put_done(mx_put_sum(u->weight, u->weight, drawn));
}

/* ---- Test -------------------------------------------------------------------------------------------------------- */

/* w += rescale * g; the state is a copy of w */
static mx_code update_test(mx_optimizer *self, mx_update *u)
{
    if (!mx_put_added(u->weight, self->rescale_grad, u->grad))
        return mx_error_code();
    return mx_array_set(u->state[0], u->weight);
}

#define METHODS(...) &(const mx_optimizer_methods){__VA_ARGS__}

mx_class mx_classes_optimizers[] = {
    {.kind = MX_OPTIMIZER, .name = "SGD", .aliases = "ccsgd",
     .doc = "stochastic gradient descent with optional momentum",
     .schema = &sgd_optimizer_schema, .by_name = MX_OPTIMIZER_PLAIN, .methods = METHODS(.make_states = make_sgd, .update = update_sgd, .fused = true, .master_last = true, .lazy = true)},
    {.kind = MX_OPTIMIZER, .name = "NAG", .doc = "Nesterov's accelerated gradient", .schema = &nag_optimizer_schema, .by_name = MX_OPTIMIZER_PLAIN,
     .methods = METHODS(.make_states = make_nag, .update = update_nag, .fused = true, .master_last = true)},
    {.kind = MX_OPTIMIZER, .name = "Signum", .doc = "descent along the sign of the momentum",
     .schema = &signum_optimizer_schema, .by_name = MX_OPTIMIZER_RATED,
     .methods = METHODS(.make_states = make_signum, .update = update_signum, .fused = true)},
    {.kind = MX_OPTIMIZER, .name = "DCASGD", .doc = "descent that compensates for gradients of older weights",
     .schema = &dcasgd_optimizer_schema, .by_name = MX_OPTIMIZER_PLAIN,
     .methods = METHODS(.make_states = make_dcasgd, .update = update_dcasgd, .fused = true)},
    {.kind = MX_OPTIMIZER, .name = "SGLD", .doc = "stochastic gradient Langevin dynamics: descent with noise",
     .schema = &plain_optimizer_schema, .by_name = MX_OPTIMIZER_PLAIN,
     .methods = METHODS(.update = update_sgld)},
    {.kind = MX_OPTIMIZER, .name = "Test", .doc = "adds the gradient to the weight: for tests",
     .schema = &plain_optimizer_schema, .by_name = MX_OPTIMIZER_PLAIN,
     .c_name = "test_optimizer", .methods = METHODS(.states = 1, .update = update_test)},
    {0},
};
