/* Optimizers as objects.
 *
 *     optimizer --- numbers and schedule (here), rates and counts of single weights (rates.c)
 *     state, one per weight --- arrays of the method, float32 master of a 16-bit weight (optimizer_state.c)
 *     update of a weight with its state (optimizer_update.c); updaters and trainers hold the states
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/train/learning.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */

static void destroy_optimizer(mx_object *object)
{
    mx_optimizer *self = (mx_optimizer *)object;
    if (self->cls)
        mx_options_forget(self->cls, self->options);
    mx_release(self->scheduler);
    mx_rates_free(&self->rates);
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

const mx_optimizer_methods *mx_optimizer_methods_of(const mx_optimizer *self)
{
    return self->cls ? self->cls->methods : NULL;
}

void mx_optimizer_settle_rate(mx_optimizer *self, double given)
{
    self->learning_rate = !isnan(given) ? given : self->scheduler ? self->scheduler->base_lr : 0.01;
    const mx_optimizer_methods *methods = mx_optimizer_methods_of(self);
    if (self->scheduler && !(methods && methods->own_schedule))
        self->scheduler->base_lr = self->learning_rate;
}

static mx_code take_options(mx_optimizer *self)
{
    const mx_field *field = mx_schema_find(self->cls->schema, "lr_scheduler");
    mx_lr_scheduler *scheduler = *(mx_lr_scheduler *const *)((const char *)self->options + field->offset);
    if (scheduler && !mx_is_kind(scheduler, &mx_lr_scheduler_kind, self->cls->name, "lr_scheduler"))
        return mx_error_code();
    self->scheduler = mx_retain(scheduler);
    mx_optimizer_settle_rate(self, mx_optimizer_float(self, "learning_rate"));
    self->wd = mx_optimizer_float(self, "wd");
    self->rescale_grad = mx_optimizer_float(self, "rescale_grad");
    self->clip_gradient = mx_optimizer_float(self, "clip_gradient");
    if (isnan(self->clip_gradient) || self->clip_gradient <= 0)
        self->clip_gradient = -1;
    self->begin_num_update = (int64_t)mx_optimizer_float(self, "begin_num_update");
    self->num_update = self->begin_num_update;
    self->multi_precision = mx_optimizer_float(self, "multi_precision") != 0;
    self->aggregate_num = (int64_t)mx_optimizer_float(self, "aggregate_num");
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

mx_optimizer *mx_optimizer_named(const char *name)
{
    mx_optimizer *self = mx_alloc_zero(sizeof *self);
    if (!self)
        return NULL;
    mx_object_init(&self->object, &mx_optimizer_kind);
    self->learning_rate = 0.01, self->rescale_grad = 1, self->clip_gradient = -1;
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
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_optimizer_custom: %s has %d states, 0 to %d are possible", name,
                            states, MX_MAX_STATES);
    mx_optimizer *self = mx_optimizer_named(name);
    if (!self)
        return NULL;
    self->learning_rate = learning_rate;
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
    mx_optimizer *self = mx_scope_add(mx_optimizer_named(hooks->name));
    if (self) /* on failure the user's data stays the caller's */
        self->hooks = *hooks, self->hooks.name = self->name, self->user = user;
    return self;
}

mx_code mx_optimizer_set_hooks(mx_optimizer *self, const mx_optimizer_hooks *hooks, void *user)
{
    char *name = hooks ? mx_strdup(hooks->name) : NULL;
    if (hooks && !name)
        return mx_error_code();
    if (self->hooks.release)
        self->hooks.release(self->user);
    self->hooks = hooks ? *hooks : (mx_optimizer_hooks){0};
    self->user = user;
    if (hooks) {
        mx_strfree(self->name);
        self->hooks.name = self->name = name;
    }
    return MX_OK;
}

mx_optimizer *mx_optimizer_new(const char *name, const char *options)
{
    mx_class *cls = mx_class_find(MX_OPTIMIZER, name);
    return cls ? mx_class_create(cls, options) : NULL;
}

/* ---- rates and counts -------------------------------------------------------------------------------------------- */

const char *mx_optimizer_name(const mx_optimizer *self)
{
    return ok(self, "mx_optimizer_name") ? self->name ? self->name : self->cls->name : NULL;
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
            "%s: the learning rate comes from a schedule; set the schedule's base rate, or remove the schedule",
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
