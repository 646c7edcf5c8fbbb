/* The trainer: applies an optimizer to the parameters of a network.
 *
 *     slot i = parameter i, sorted by name --- optimizer state, sum of the gradients of all contexts
 *
 * A parameter on several contexts is updated once, on the context of its first copy, with the sum of the gradients of
 * all copies; the new value is copied to the others.  So the copies stay equal whatever the optimizer does.
 *
 * Invariant: a gradient is fresh while its `written` count differs from the parameter's `used` count.  Only a backward
 * makes it fresh, and every update makes it stale again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/trainer.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "exec/plan/gather.h"
#include "gluon/train/sums.h"

static void destroy(mx_object *object)
{
    mx_trainer *self = (mx_trainer *)object;
    for (int64_t i = 0; i < self->count; i++) {
        mx_release(self->slots[i].parameter);
        mx_release(self->slots[i].state);
        mx_release(self->slots[i].sum);
    }
    mx_free(self->slots, (size_t)self->capacity * sizeof *self->slots);
    mx_release(self->optimizer);
    mx_release(self->scaler);
    mx_compression_free(&self->compression);
    mx_free(self, sizeof *self);
}
const mx_kind mx_trainer_kind = {"trainer", destroy};

static bool ok(const mx_trainer *self, const char *function)
{
    return mx_is_kind(self, &mx_trainer_kind, function, "trainer");
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const mx_trainer_slot *)a)->parameter->name, ((const mx_trainer_slot *)b)->parameter->name);
}

/* A trainer with room for parameters, which the caller fills in. */
static mx_trainer *new_trainer(mx_optimizer *optimizer, int64_t capacity)
{
    mx_trainer *self = mx_alloc_zero(sizeof *self);
    if (!self)
        return NULL;
    mx_object_init(&self->object, &mx_trainer_kind);
    self->optimizer = mx_retain(optimizer);
    self->scale = optimizer->rescale_grad;
    self->slots = mx_alloc_zero((size_t)capacity * sizeof *self->slots);
    if (!self->slots) {
        mx_release(self);
        return NULL;
    }
    self->capacity = capacity;
    return self;
}

mx_trainer *mx_trainer_with(mx_params *params, mx_optimizer *optimizer)
{
    if (!mx_is_kind(params, &mx_params_kind, "mx_trainer_with", "params") ||
        !mx_is_kind(optimizer, &mx_optimizer_kind, "mx_trainer_with", "optimizer"))
        return NULL;
    mx_trainer *self = new_trainer(optimizer, params->entries.length);
    if (!self)
        return NULL;
    for (; self->count < self->capacity; self->count++)
        self->slots[self->count].parameter = mx_retain(params->entries.entries[self->count].pointer);
    qsort(self->slots, (size_t)self->count, sizeof *self->slots, by_name);
    return mx_scope_add(self);
}

mx_trainer *mx_trainer_over(mx_parameter *const *parameters, int64_t count, mx_optimizer *optimizer)
{
    if (!mx_is_kind(optimizer, &mx_optimizer_kind, "mx_trainer_over", "optimizer"))
        return NULL;
    if (count < 0 || (count && !parameters))
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_trainer_over: got %lld parameters, wanted a list", (long long)count);
    for (int64_t i = 0; i < count; i++)
        if (!mx_is_kind(parameters[i], &mx_parameter_kind, "mx_trainer_over", "parameters"))
            return NULL;
    mx_trainer *self = new_trainer(optimizer, count);
    for (; self && self->count < count; self->count++)
        self->slots[self->count].parameter = mx_retain(parameters[self->count]);
    return mx_scope_add(self);
}

mx_trainer *mx_trainer_new(mx_params *params, const char *optimizer, const char *options)
{
    mx_optimizer *made = mx_optimizer_new(optimizer, options);
    return made ? mx_trainer_with(params, made) : NULL;
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

int64_t mx_trainer_count(const mx_trainer *self) { return ok(self, "mx_trainer_count") ? self->count : 0; }

mx_parameter *mx_trainer_at(const mx_trainer *self, int64_t i)
{
    return ok(self, "mx_trainer_at") && i >= 0 && i < self->count ? self->slots[i].parameter : NULL;
}

mx_optimizer *mx_trainer_optimizer(mx_trainer *self)
{
    return ok(self, "mx_trainer_optimizer") ? self->optimizer : NULL;
}

double mx_trainer_learning_rate(mx_trainer *self)
{
    return ok(self, "mx_trainer_learning_rate") ? mx_optimizer_learning_rate(self->optimizer) : MX_NONE_FLOAT;
}

mx_code mx_trainer_set_learning_rate(mx_trainer *self, double rate)
{
    return ok(self, "mx_trainer_set_learning_rate") ? mx_optimizer_set_learning_rate(self->optimizer, rate)
                                                    : mx_error_code();
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static bool fresh(const mx_parameter *p, int copy) { return mx_gradient(p->data[copy])->written != p->used[copy]; }

static bool any_fresh(const mx_parameter *p)
{
    for (int i = 0; i < p->count; i++)
        if (fresh(p, i))
            return true;
    return false;
}

static void mark_used(mx_parameter *p)
{
    for (int i = 0; i < p->count; i++)
        mx_gradient(p->data[i])->written = p->used[i] = 0;
}

static bool learns(const mx_parameter *p) { return p->req != MX_GRAD_NULL; }

/* All checks that could fail half-way are done before the first weight changes. */
static mx_code check_slot(const mx_parameter *p, bool ignore_stale)
{
    char text[32];
    if (!p->count)
        return mx_fail(MX_ERR_PARAMETER, "trainer: parameter %s has not been initialised; initialize the network first",
                       p->name);
    if (p->deferred)
        return mx_fail(MX_ERR_DEFERRED,
                       "trainer: parameter %s has no data yet: its shape follows from the first forward", p->name);
    for (int i = 0; !ignore_stale && i < p->count; i++)
        if (!fresh(p, i))
            return mx_fail(
                MX_ERR_STATE,
                "trainer: the gradient of parameter %s on %s was not computed by a backward since the last step; "
                "if this is intended, let the step ignore stale gradients or set its grad_req to null",
                p->name, mx_context_text(p->contexts[i], text));
    return MX_OK;
}

static mx_code check(mx_trainer *self, int64_t batch_size, bool ignore_stale)
{
    if (batch_size <= 0)
        return mx_fail(MX_ERR_ARGUMENT, "trainer: batch_size is %lld, wanted 1 or more", (long long)batch_size);
    for (int pass = 0; pass < 2 - ignore_stale; pass++) /* missing data is reported before stale gradients */
        for (int64_t i = 0; i < self->count; i++)
            if (learns(self->slots[i].parameter) && check_slot(self->slots[i].parameter, !pass))
                return mx_error_code();
    return MX_OK;
}

static int gradients_of(const mx_parameter *p, mx_array **parts)
{
    for (int i = 0; i < p->count; i++)
        parts[i] = mx_gradient(p->data[i]);
    return p->count;
}

/* What the copies of a parameter send: their gradients, perhaps compressed to two bits; scope-owned. */
static mx_code parts_to_send(mx_trainer *self, mx_trainer_slot *slot, mx_array **parts)
{
    mx_array *gradients[MX_MAX_CONTEXTS];
    const int n = gradients_of(slot->parameter, parts);
    if (self->compression.threshold == 0)
        return MX_OK;
    memcpy(gradients, parts, (size_t)n * sizeof *parts);
    return mx_compress(&self->compression, mx_id_number(slot - self->slots), n, gradients, parts);
}

/* The sum of the gradients of all copies, on the context of the first; cached in the slot. */
static mx_array *sum_gradients(mx_trainer *self, mx_trainer_slot *slot)
{
    MX_SCOPE;
    mx_array *parts[MX_MAX_CONTEXTS];
    if (parts_to_send(self, slot, parts) || mx_sum_parts(&slot->sum, slot->parameter->count, parts))
        return NULL;
    return slot->sum;
}

/* Sets the gradients of all copies to their sum; a stale one stays stale. */
static mx_code spread_gradient(mx_trainer *self, mx_trainer_slot *slot)
{
    MX_SCOPE;
    mx_array *grads[MX_MAX_CONTEXTS], *parts[MX_MAX_CONTEXTS];
    uint8_t written[MX_MAX_CONTEXTS];
    const int n = gradients_of(slot->parameter, grads);
    for (int i = 0; i < n; i++)
        written[i] = grads[i]->written;
    mx_code code = parts_to_send(self, slot, parts);
    for (int i = 0; !code && i < n; i++)
        code = parts[i] == grads[i] ? MX_OK : mx_array_set(grads[i], parts[i]);
    code = code ? code : mx_sum_everywhere(&slot->sum, n, grads);
    for (int i = 0; i < n; i++)
        grads[i]->written = written[i];
    return code;
}

mx_code mx_trainer_set_compression(mx_trainer *self, const char *type, double threshold)
{
    return ok(self, "mx_trainer_set_compression") ? mx_compression_set(&self->compression, type, threshold)
                                                  : mx_error_code();
}

mx_code mx_trainer_allreduce_grads(mx_trainer *self)
{
    if (!ok(self, "mx_trainer_allreduce_grads"))
        return mx_error_code();
    mx_mode mode = mx_mode_enter(0, -1);
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < self->count; i++) {
        const mx_parameter *p = self->slots[i].parameter;
        if (!learns(p))
            continue;
        code = check_slot(p, true);
        if (!code && p->count > 1)
            code = spread_gradient(self, &self->slots[i]);
    }
    mx_mode_leave(&mode);
    return code;
}

/* ---- updating ---------------------------------------------------------------------------------------------------- */

static mx_code make_state(mx_trainer *self, mx_trainer_slot *slot)
{
    slot->state =
        mx_retain(mx_optimizer_state_of(self->optimizer, mx_id_number(slot - self->slots), slot->parameter->data[0]));
    return slot->state ? MX_OK : mx_error_code();
}

static mx_code update_slot(mx_trainer *self, mx_trainer_slot *slot, bool reduce)
{
    MX_SCOPE;
    mx_parameter *p = slot->parameter;
    mx_array *weight = p->data[0];
    if (!slot->state && make_state(self, slot))
        return mx_error_code();
    mx_array *grad = reduce && p->count > 1 ? sum_gradients(self, slot) : mx_gradient(weight);
    if (!grad || mx_optimizer_update_named(self->optimizer, slot->state, weight, grad, p->lr_mult, p->wd_mult, p->name))
        return mx_error_code();
    if (p->count > 1 && mx_gather_flush())
        return mx_error_code();
    for (int i = 1; i < p->count; i++)
        if (mx_array_set(p->data[i], weight))
            return mx_error_code();
    mark_used(p);
    return MX_OK;
}

static mx_code update_slots(mx_trainer *self, bool ignore_stale, bool reduce)
{
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < self->count; i++) {
        const mx_parameter *p = self->slots[i].parameter;
        if (learns(p) && (!ignore_stale || any_fresh(p)))
            code = update_slot(self, &self->slots[i], reduce);
    }
    return code;
}

/* Updates of our own optimizers are independent of each other: a device may run them all at once. */
static mx_code update_together(mx_trainer *self, bool ignore_stale, bool reduce)
{
    mx_gather held;
    if (self->optimizer->user_update || self->optimizer->hooks.update)
        return update_slots(self, ignore_stale, reduce);
    mx_gather_begin(&held);
    return mx_gather_end(&held, update_slots(self, ignore_stale, reduce));
}

static void skip_slots(mx_trainer *self)
{
    for (int64_t i = 0; i < self->count; i++)
        if (learns(self->slots[i].parameter))
            mark_used(self->slots[i].parameter);
}

static mx_code update(mx_trainer *self, int64_t batch_size, bool ignore_stale, bool reduce)
{
    mx_code code = check(self, batch_size, ignore_stale);
    if (code)
        return code;
    double scale = self->scale / (double)batch_size;
    mx_mode mode = mx_mode_enter(0, -1);
    const bool skips = self->scaler && mx_loss_scaler_skips(self, &scale);
    if (skips)
        code = mx_has_error() ? mx_error_code() : MX_OK;
    self->optimizer->rescale_grad = scale;
    if (skips && !code)
        skip_slots(self);
    else if (!code)
        code = update_together(self, ignore_stale, reduce);
    mx_mode_leave(&mode);
    return code;
}

mx_code mx_trainer_step(mx_trainer *self, int64_t batch_size)
{
    return ok(self, "mx_trainer_step") ? update(self, batch_size, false, true) : mx_error_code();
}

mx_code mx_trainer_step_ignoring_stale(mx_trainer *self, int64_t batch_size)
{
    return ok(self, "mx_trainer_step_ignoring_stale") ? update(self, batch_size, true, true) : mx_error_code();
}

mx_code mx_trainer_update(mx_trainer *self, int64_t batch_size, bool ignore_stale)
{
    return ok(self, "mx_trainer_update") ? update(self, batch_size, ignore_stale, false) : mx_error_code();
}
