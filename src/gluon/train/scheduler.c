/* Learning-rate schedules as objects; their classes are in gluon/def/schedules.c.  SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/error.h"
#include "gluon/train/learning.h"

static void destroy(mx_object *object)
{
    mx_lr_scheduler *self = (mx_lr_scheduler *)object;
    if (self->cls)
        mx_options_forget(self->cls, self->options);
    if (self->release)
        self->release(self->user);
    mx_free(self, sizeof *self);
}
const mx_kind mx_lr_scheduler_kind = {"learning-rate schedule", destroy};

static bool ok(const mx_lr_scheduler *self, const char *function)
{
    return mx_is_kind(self, &mx_lr_scheduler_kind, function, "scheduler");
}

mx_lr_scheduler *mx_lr_scheduler_make(mx_class *cls, const void *options)
{
    mx_lr_scheduler *self = mx_alloc_zero(sizeof *self);
    if (!self)
        return NULL;
    mx_object_init(&self->object, &mx_lr_scheduler_kind);
    self->cls = cls;
    if (mx_options_keep(cls, options, &self->options) || ((const mx_lr_scheduler_methods *)cls->methods)->start(self)) {
        mx_release(self);
        return NULL;
    }
    return mx_scope_add(self);
}

mx_lr_scheduler *mx_lr_scheduler_custom(mx_rate_fn rate, double base_lr, void *user, void (*release)(void *user))
{
    if (!rate)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_lr_scheduler_custom: rate is NULL, wanted a function");
    mx_lr_scheduler *self = mx_alloc_zero(sizeof *self);
    if (!self)
        return NULL;
    mx_object_init(&self->object, &mx_lr_scheduler_kind);
    self->base_lr = base_lr, self->rate = rate, self->user = user;
    self = mx_scope_add(self);
    if (self)
        self->release = release; /* on failure the user's data stays the caller's */
    return self;
}

double mx_lr_scheduler_rate(mx_lr_scheduler *self, int64_t num_update)
{
    if (!ok(self, "mx_lr_scheduler_rate"))
        return MX_NONE_FLOAT;
    if (self->rate)
        return self->rate(self->user, self->base_lr, num_update);
    return ((const mx_lr_scheduler_methods *)self->cls->methods)->rate(self, num_update);
}

double mx_lr_scheduler_base(const mx_lr_scheduler *self)
{
    return ok(self, "mx_lr_scheduler_base") ? self->base_lr : MX_NONE_FLOAT;
}

mx_code mx_lr_scheduler_set_base(mx_lr_scheduler *self, double base_lr)
{
    if (!ok(self, "mx_lr_scheduler_set_base"))
        return mx_error_code();
    self->base_lr = base_lr;
    return MX_OK;
}
