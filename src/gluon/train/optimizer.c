/* Optimizers as objects: rates, counts of updates, states of weights, float32 masters of 16-bit weights.
 *
 *     optimizer --- rates, schedule, num_update = the most updates of any weight
 *     state (one per weight) --- arrays of the method, master, number of updates
 *
 * Invariant: the rate of an update is that of the schedule after the update was counted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/call.h"
#include "exec/plan/gather.h"
#include "exec/sparse/sparse.h"
#include "gluon/autograd.h"
#include "gluon/block/core.h"
#include "gluon/train/learning.h"
#include "gluon/op.gen.h"
#include "base/thread.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */

static void destroy_optimizer(mx_object *object)
{
    mx_optimizer *self = (mx_optimizer *)object;
    if (self->cls)
        mx_options_forget(self->cls, self->options);
    mx_release(self->scheduler);
    if (self->hooks.release)
        self->hooks.release(self->user);
    mx_strfree(self->name);
    mx_free(self, sizeof *self);
}
const mx_kind mx_optimizer_kind = {"optimizer", destroy_optimizer};

static bool ok(const mx_optimizer *self, const char *function)
{
    return mx_is_kind(self, &mx_optimizer_kind, function, "optimizer");
}

double mx_optimizer_float(const mx_optimizer *self, const char *option)
{
    const mx_field *field = self->cls ? mx_schema_find(self->cls->schema, option) : NULL;
    const void *value = field ? (const char *)self->options + field->offset : NULL;
    if (!value)
        return MX_NONE_FLOAT;
    switch (field->type) {
    case MX_FIELD_FLOAT: return *(const double *)value;
    case MX_FIELD_INT: return (double)*(const int64_t *)value;
    case MX_FIELD_BOOL: return *(const bool *)value;
    default: return MX_NONE_FLOAT;
    }
}

/* A rate that was given wins over the schedule's; without both it is 0.01. */
static void settle_rate(mx_optimizer *self, double given)
{
    self->learning_rate = !isnan(given) ? given : self->scheduler ? self->scheduler->base_lr : 0.01;
    if (self->scheduler)
        self->scheduler->base_lr = self->learning_rate;
}

static mx_code take_options(mx_optimizer *self)
{
    const mx_field *field = mx_schema_find(self->cls->schema, "lr_scheduler");
    mx_lr_scheduler *scheduler = *(mx_lr_scheduler *const *)((const char *)self->options + field->offset);
    if (scheduler && !mx_is_kind(scheduler, &mx_lr_scheduler_kind, self->cls->name, "lr_scheduler"))
        return mx_error_code();
    self->scheduler = mx_retain(scheduler);
    settle_rate(self, mx_optimizer_float(self, "learning_rate"));
    self->wd = mx_optimizer_float(self, "wd");
    self->rescale_grad = mx_optimizer_float(self, "rescale_grad");
    self->clip_gradient = mx_optimizer_float(self, "clip_gradient");
    if (isnan(self->clip_gradient) || self->clip_gradient <= 0)
        self->clip_gradient = -1;
    self->begin_num_update = (int64_t)mx_optimizer_float(self, "begin_num_update");
    self->num_update = self->begin_num_update;
    self->multi_precision = mx_optimizer_float(self, "multi_precision") != 0;
    const mx_optimizer_methods *methods = self->cls->methods;
    return methods->start ? methods->start(self) : MX_OK;
}

mx_optimizer *mx_optimizer_make(mx_class *cls, const void *options)
{
    mx_optimizer *self = mx_alloc_zero(sizeof *self);
    if (!self)
        return NULL;
    mx_object_init(&self->object, &mx_optimizer_kind);
    self->cls = cls;
    if (mx_options_keep(cls, options, &self->options) || take_options(self)) {
        mx_release(self);
        return NULL;
    }
    return mx_scope_add(self);
}

static mx_optimizer *new_named(const char *name, double learning_rate)
{
    mx_optimizer *self = mx_alloc_zero(sizeof *self);
    if (!self)
        return NULL;
    mx_object_init(&self->object, &mx_optimizer_kind);
    self->learning_rate = learning_rate;
    self->rescale_grad = 1, self->clip_gradient = -1;
    if (!(self->name = mx_strdup(name))) {
        mx_release(self);
        return NULL;
    }
    return self;
}

mx_optimizer *mx_optimizer_custom(const char *name, mx_update_fn update, int states, double learning_rate, void *user)
{
    if (!name || !update)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_optimizer_custom: %s is NULL", name ? "update" : "name");
    if (states < 0 || states > MX_MAX_STATES)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_optimizer_custom: %s wants %d states, 0 to %d are possible", name,
                            states, MX_MAX_STATES);
    mx_optimizer *self = new_named(name, learning_rate);
    if (!self)
        return NULL;
    self->user_update = update, self->user_states = states, self->user = user;
    return mx_scope_add(self);
}

mx_optimizer *mx_optimizer_hooked(const mx_optimizer_hooks *hooks, void *user)
{
    if (!hooks || !hooks->name || !hooks->update)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_optimizer_hooked: %s is NULL",
                            !hooks        ? "hooks"
                            : hooks->name ? "update"
                                          : "name");
    mx_optimizer *self = mx_scope_add(new_named(hooks->name, 0.01));
    if (self) /* on failure the user's data stays the caller's */
        self->hooks = *hooks, self->hooks.name = self->name, self->user = user;
    return self;
}

mx_optimizer *mx_optimizer_new(const char *name, const char *options)
{
    mx_class *cls = mx_class_find(MX_OPTIMIZER, name);
    return cls ? mx_class_create(cls, options) : NULL;
}

/* ---- rates and counts -------------------------------------------------------------------------------------------- */

const char *mx_optimizer_name(const mx_optimizer *self)
{
    return ok(self, "mx_optimizer_name") ? self->cls ? self->cls->name : self->name : NULL;
}

double mx_optimizer_learning_rate(mx_optimizer *self)
{
    if (!ok(self, "mx_optimizer_learning_rate"))
        return MX_NONE_FLOAT;
    return self->scheduler ? mx_lr_scheduler_rate(self->scheduler, self->num_update) : self->learning_rate;
}

mx_code mx_optimizer_set_learning_rate(mx_optimizer *self, double rate)
{
    if (!ok(self, "mx_optimizer_set_learning_rate"))
        return mx_error_code();
    if (self->scheduler)
        return mx_fail(
            MX_ERR_STATE,
            "%s: the learning rate comes from a schedule; set the schedule's base rate, or take the schedule away",
            mx_optimizer_name(self));
    self->learning_rate = rate;
    return MX_OK;
}

mx_code mx_optimizer_set_scheduler(mx_optimizer *self, mx_lr_scheduler *scheduler)
{
    if (!ok(self, "mx_optimizer_set_scheduler") ||
        (scheduler && !mx_is_kind(scheduler, &mx_lr_scheduler_kind, "mx_optimizer_set_scheduler", "scheduler")))
        return mx_error_code();
    mx_retain(scheduler);
    mx_release(self->scheduler);
    self->scheduler = scheduler;
    return MX_OK;
}

double mx_optimizer_rescale_grad(const mx_optimizer *self)
{
    return ok(self, "mx_optimizer_rescale_grad") ? self->rescale_grad : MX_NONE_FLOAT;
}

mx_code mx_optimizer_set_rescale_grad(mx_optimizer *self, double factor)
{
    if (!ok(self, "mx_optimizer_set_rescale_grad"))
        return mx_error_code();
    self->rescale_grad = factor;
    return MX_OK;
}

int64_t mx_optimizer_num_update(const mx_optimizer *self)
{
    return ok(self, "mx_optimizer_num_update") ? self->num_update : 0;
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

static void destroy_state(mx_object *object)
{
    mx_optimizer_state *state = (mx_optimizer_state *)object;
    for (int i = 0; i < MX_MAX_STATES; i++)
        mx_release(state->array[i]);
    mx_release(state->master);
    mx_release(state->grad32);
    if (state->own && state->release_own)
        state->release_own(state->own);
    mx_free(state, sizeof *state);
}
const mx_kind mx_optimizer_state_kind = {"optimizer state", destroy_state};

static mx_array *new_like(const mx_array *weight, mx_dtype dtype)
{
    mx_shape_t shape = mx_array_shape(weight);
    return mx_array_new(&shape, dtype, weight->context);
}

mx_code mx_optimizer_zeros(mx_array *weight, int count, mx_array **state)
{
    for (int i = 0; i < count; i++) {
        state[i] = new_like(weight, (mx_dtype)weight->dtype);
        if (!state[i] || mx_array_fill(state[i], 0))
            return mx_error_code();
    }
    return MX_OK;
}

static bool is_16_bit(const mx_array *weight) { return weight->dtype == MX_FLOAT16 || weight->dtype == MX_BFLOAT16; }

static bool is_fused(const mx_optimizer *self)
{
    return self->cls && !self->user_update && !self->hooks.update &&
           ((const mx_optimizer_methods *)self->cls->methods)->fused;
}

static mx_code make_master(const mx_optimizer *self, mx_optimizer_state *state, mx_array *weight)
{
    state->master = new_like(weight, MX_FLOAT32);
    if (!is_fused(self) && !(state->grad32 = state->master ? new_like(weight, MX_FLOAT32) : NULL))
        return mx_error_code();
    return state->master ? mx_array_set(state->master, weight) : mx_error_code();
}

static mx_code make_own(mx_optimizer *self, mx_optimizer_state *state, mx_array *weight)
{
    state->release_own = self->hooks.release_state;
    if (self->hooks.make_state && self->hooks.make_state(self->user, state->index, weight, &state->own))
        return mx_fail(MX_ERR_CALLBACK, "optimizer %s: making the state of weight %lld failed", self->name,
                       (long long)state->index);
    return MX_OK;
}

static mx_code make_arrays(mx_optimizer *self, mx_optimizer_state *state, mx_array *weight)
{
    if (self->hooks.update)
        return make_own(self, state, weight);
    if (self->multi_precision && is_16_bit(weight) && make_master(self, state, weight))
        return mx_error_code();
    mx_array *updated = state->master ? state->master : weight;
    const mx_optimizer_methods *methods = self->cls ? self->cls->methods : NULL;
    if (methods && methods->make_states)
        return methods->make_states(self, updated, state->array);
    return mx_optimizer_zeros(updated, methods ? methods->states : self->user_states, state->array);
}

mx_optimizer_state *mx_optimizer_state_new(mx_optimizer *self, mx_array *weight)
{
    return mx_optimizer_state_of(self, 0, weight);
}

mx_optimizer_state *mx_optimizer_state_of(mx_optimizer *self, int64_t index, mx_array *weight)
{
    if (!ok(self, "mx_optimizer_state_new") || !mx_array_any_ok(weight, "mx_optimizer_state_new", "weight"))
        return NULL;
    if (!mx_dtype_is_float(weight->dtype))
        return mx_fail_null(MX_ERR_DTYPE, "%s: the weight is %s, wanted a floating type", mx_optimizer_name(self),
                            mx_dtype_name((mx_dtype)weight->dtype));
    mx_optimizer_state *state = mx_alloc_zero(sizeof *state);
    if (!state)
        return NULL;
    mx_object_init(&state->object, &mx_optimizer_state_kind);
    state->updates = self->begin_num_update;
    state->index = index;
    mx_mode mode = mx_mode_enter(0, -1);
    mx_code code = make_arrays(self, state, weight);
    mx_mode_leave(&mode);
    if (code) {
        mx_release(state);
        return NULL;
    }
    return mx_scope_add(state);
}

static bool state_ok(const mx_optimizer_state *state, const char *function)
{
    return mx_is_kind(state, &mx_optimizer_state_kind, function, "state");
}

int mx_optimizer_state_count(const mx_optimizer_state *state)
{
    int n = 0;
    if (!state_ok(state, "mx_optimizer_state_count"))
        return 0;
    while (n < MX_MAX_STATES && state->array[n])
        n++;
    return n + (state->master != NULL);
}

mx_array *mx_optimizer_state_at(const mx_optimizer_state *state, int i)
{
    const int n = mx_optimizer_state_count(state);
    if (i < 0 || i >= n)
        return NULL;
    return state->master && i == n - 1 ? state->master : state->array[i];
}

int64_t mx_optimizer_state_updates(const mx_optimizer_state *state)
{
    return state_ok(state, "mx_optimizer_state_updates") ? state->updates : 0;
}

mx_code mx_optimizer_state_set_updates(mx_optimizer_state *state, int64_t updates)
{
    if (!state_ok(state, "mx_optimizer_state_set_updates"))
        return mx_error_code();
    if (updates < 0)
        return mx_fail(MX_ERR_ARGUMENT, "mx_optimizer_state_set_updates: %lld updates, wanted 0 or more",
                       (long long)updates);
    state->updates = updates;
    return MX_OK;
}

/* ---- updating ---------------------------------------------------------------------------------------------------- */

static mx_code check_arrays(const mx_optimizer *self, const mx_array *weight, const mx_array *grad, const char *name)
{
    char a[MX_SHAPE_TEXT], b[MX_SHAPE_TEXT];
    mx_shape_t shape = mx_array_shape(weight), given = mx_array_shape(grad);
    if (!mx_shape_equal(&shape, &given))
        return mx_fail(MX_ERR_SHAPE, "%s: weight %s has shape %s, its gradient %s", mx_optimizer_name(self), name,
                       mx_shape_text(&shape, a), mx_shape_text(&given, b));
    if (weight->dtype != grad->dtype)
        return mx_fail(MX_ERR_DTYPE, "%s: weight %s is %s, its gradient %s", mx_optimizer_name(self), name,
                       mx_dtype_name((mx_dtype)weight->dtype), mx_dtype_name((mx_dtype)grad->dtype));
    return MX_OK;
}

static mx_code update_by_user(mx_optimizer *self, mx_update *u)
{
    mx_array *grad = self->rescale_grad == 1 ? u->grad : mx_g_scale(u->grad, self->rescale_grad);
    if (!grad)
        return mx_error_code();
    if (self->user_update(self->user, u->weight, grad, u->state, u->lr, u->wd, u->t))
        return mx_fail(MX_ERR_CALLBACK, "optimizer %s: the update of weight %s failed", self->name, u->name);
    return MX_OK;
}

/* A sparse gradient is made dense for those who do not know it. */
static mx_code fit_gradient(const mx_optimizer *self, mx_update *u, bool master)
{
    const bool lazy = !master && !self->user_update && ((const mx_optimizer_methods *)self->cls->methods)->lazy;
    if (!lazy && !u->grad->storage)
        u->grad = mx_sparse_dense(u->grad);
    return u->grad ? MX_OK : mx_error_code();
}

mx_code mx_optimizer_apply(mx_optimizer *self, mx_update *u)
{
    mx_code code = check_arrays(self, u->weight, u->grad, u->name);
    if (code)
        return code;
    MX_SCOPE;
    mx_mode mode = mx_mode_enter(0, -1);
    code = fit_gradient(self, u, false);
    if (!code)
        code = ((const mx_optimizer_methods *)self->cls->methods)->update(self, u);
    mx_mode_leave(&mode);
    return code;
}

static mx_code run_hooks(mx_optimizer *self, mx_optimizer_state *state, mx_update *u)
{
    if (self->hooks.update(self->user, state->index, u->weight, u->grad, state->own))
        return mx_fail(MX_ERR_CALLBACK, "optimizer %s: the update of weight %s failed", self->name, u->name);
    return MX_OK;
}

static mx_code run(mx_optimizer *self, mx_optimizer_state *state, mx_update *u)
{
    MX_SCOPE;
    mx_array *weight = u->weight;
    if (self->hooks.update)
        return run_hooks(self, state, u);
    if (fit_gradient(self, u, state->master != NULL))
        return mx_error_code();
    if (state->grad32) {
        if (mx_array_set(state->grad32, u->grad))
            return mx_error_code();
        u->weight = state->master, u->grad = state->grad32;
    } else {
        u->master = state->master;
    }
    mx_code code = self->user_update ? update_by_user(self, u)
                                     : ((const mx_optimizer_methods *)self->cls->methods)->update(self, u);
    if (!code && state->grad32 && !(code = mx_gather_flush()))
        code = mx_array_set(weight, state->master);
    return code;
}

mx_code mx_optimizer_update_named(mx_optimizer *self, mx_optimizer_state *state, mx_array *weight, mx_array *grad,
                                  double lr_mult, double wd_mult, const char *name)
{
    mx_code code = check_arrays(self, weight, grad, name);
    if (code)
        return code;
    state->updates++;
    if (state->updates > self->num_update)
        self->num_update = state->updates;
    const double lr = self->scheduler ? mx_lr_scheduler_rate(self->scheduler, self->num_update) : self->learning_rate;
    if (isnan(lr) && mx_has_error()) /* a user's schedule failed */
        return mx_error_code();
    mx_update update = {weight, grad, state->array, lr * lr_mult, self->wd * wd_mult, state->updates, lr, name, NULL};
    mx_mode mode = mx_mode_enter(0, -1);
    mx_thread.precision_settled++;
    code = run(self, state, &update);
    mx_thread.precision_settled--;
    mx_mode_leave(&mode);
    return code;
}

mx_code mx_optimizer_update(mx_optimizer *self, mx_optimizer_state *state, mx_array *weight, mx_array *grad,
                            double lr_mult, double wd_mult)
{
    if (!ok(self, "mx_optimizer_update") || !state_ok(state, "mx_optimizer_update") ||
        !mx_array_any_ok(weight, "mx_optimizer_update", "weight") ||
        !mx_array_any_ok(grad, "mx_optimizer_update", "grad"))
        return mx_error_code();
    return mx_optimizer_update_named(self, state, weight, grad, lr_mult, wd_mult, "");
}
