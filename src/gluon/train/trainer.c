/* The trainer: applies an optimizer to the parameters of a network.
 *
 *     slot i = parameter i, sorted by name --- optimizer state, sum of the gradients of all contexts
 *
 * The copies of a parameter on several contexts exchange gradients or weights through a store (trainer_sync.c).  Unless
 * they exchange nothing, an update runs once, on the first copy, and the others get the new value.  So the copies stay
 * equal whatever the optimizer does.
 *
 * Invariant: a gradient is fresh while its `written` count differs from the parameter's `used` count.  Only a backward
 * makes it fresh, and every update makes it stale again; one on the store does so in checking mode only, else
 * it uses all gradients in each step.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checking.h"
#include "base/error.h"
#include "base/text.h"
#include "exec/plan/gather.h"
#include "gluon/train/buckets.h"

static void destroy(mx_object *object)
{
    mx_trainer *self = (mx_trainer *)object;
    mx_buckets_free(self->buckets);
    for (int64_t i = 0; i < self->count; i++) {
        mx_release(self->slots[i].parameter);
        mx_release(self->slots[i].sum);
        mx_trainer_drop_states(&self->slots[i]);
    }
    mx_free(self->slots, (size_t)self->capacity * sizeof *self->slots);
    mx_release(self->optimizer);
    mx_release(self->scaler);
    mx_release(self->store);
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

/* Takes "name=value" out of the options: `value` ("" if it is not there); the others go to `rest`. */
static mx_code take_option(const char *options, const char *name, char *value, size_t room, mx_text *rest)
{
    const size_t length = strlen(name);
    *value = 0;
    while (options && *options) {
        options += strspn(options, " ,");
        int depth = 0;
        size_t n = 0;
        for (; options[n] && (depth || options[n] != ','); n++)
            depth += (options[n] == '(' || options[n] == '[') - (options[n] == ')' || options[n] == ']');
        if (n <= length || strncmp(options, name, length) || options[length] != '=')
            mx_text_print(rest, "%s%.*s", rest->length && n ? ", " : "", (int)n, options);
        else if (n - length - 1 >= room)
            return mx_fail(MX_ERR_ATTRIBUTE, "mx_trainer_new: the value of %s is too long", name);
        else
            snprintf(value, room, "%.*s", (int)(n - length - 1), options + length + 1);
        options += n;
    }
    return MX_OK;
}

/* Of the options kvstore and shard_states. */
static mx_code take_store(mx_trainer *self, const char *kind, const char *shard)
{
    const bool on = !strcmp(shard, "1") || !strcmp(shard, "True") || !strcmp(shard, "true");
    mx_kvstore *store = *kind ? mx_kvstore_new(kind) : NULL;
    if (*kind && (!store || mx_trainer_set_store(self, store, MX_SYNC_GRADIENTS)))
        return mx_error_code();
    return on ? mx_trainer_set_sharding(self, true) : MX_OK;
}

mx_trainer *mx_trainer_new(mx_params *params, const char *optimizer, const char *options)
{
    char kind[64], shard[16];
    mx_text left = {0}, rest = {0};
    mx_optimizer *made = NULL;
    if (!take_option(options, "kvstore", kind, sizeof kind, &left) &&
        !take_option(mx_text_get(&left), "shard_states", shard, sizeof shard, &rest))
        made = mx_optimizer_new(optimizer, mx_text_get(&rest));
    mx_text_free(&left);
    mx_text_free(&rest);
    mx_trainer *self = made ? mx_trainer_with(params, made) : NULL;
    return self && !take_store(self, kind, shard) ? self : NULL;
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

/* A backward has written it since the last update. */
static bool fresh(const mx_parameter *p, int copy) { return mx_gradient(p->data[copy])->written; }

bool mx_trainer_any_fresh(const mx_parameter *p)
{
    for (int i = 0; i < p->count; i++)
        if (fresh(p, i))
            return true;
    return false;
}

static void mark_used(mx_parameter *p)
{
    for (int i = 0; i < p->count; i++)
        mx_gradient(p->data[i])->written = 0;
}

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
                "if this is intended, use mx_trainer_step_ignoring_stale(), or mx_parameter_set_grad_req() for a parameter "
                "that never learns",
                p->name, mx_context_text(p->contexts[i], text));
    return MX_OK;
}

/* In checking mode a step may ignore some stale gradients, but not use no others. */
static mx_code check_any_fresh(const mx_trainer *self)
{
    int64_t learning = 0;
    for (int64_t i = 0; i < self->count; i++) {
        const bool learns = mx_slot_learns(&self->slots[i]);
        if (learns && mx_trainer_any_fresh(self->slots[i].parameter))
            return MX_OK;
        learning += learns;
    }
    return !learning
               ? MX_OK
               : mx_fail(MX_ERR_STATE, "trainer: all gradients are stale: no backward has run since the last step");
}

mx_code mx_trainer_check(mx_trainer *self, bool ignore_stale)
{
    for (int pass = 0; pass < 2 - ignore_stale; pass++) /* missing data is reported before stale gradients */
        for (int64_t i = 0; i < self->count; i++)
            if (mx_slot_learns(&self->slots[i]) && check_slot(self->slots[i].parameter, !pass))
                return mx_error_code();
    return mx_checking() && ignore_stale ? check_any_fresh(self) : MX_OK;
}

/* ---- updating ---------------------------------------------------------------------------------------------------- */

mx_optimizer_state *mx_trainer_state(mx_trainer *self, int64_t i, int copy)
{
    mx_trainer_slot *slot = &self->slots[i];
    if (copy && !slot->more && !(slot->more = mx_alloc_zero(MX_MAX_CONTEXTS * sizeof *slot->more)))
        return NULL;
    mx_optimizer_state **place = copy ? &slot->more[copy] : &slot->state;
    if (!*place)
        *place = mx_retain(mx_optimizer_state_of(self->optimizer, mx_id_number(i), slot->parameter->data[copy]));
    return *place;
}

static mx_code update_copy(mx_trainer *self, mx_trainer_slot *slot, int copy)
{
    MX_SCOPE;
    const mx_parameter *p = slot->parameter;
    mx_optimizer_state *state = mx_trainer_state(self, slot - self->slots, copy);
    return state ? mx_optimizer_update_slot(self->optimizer, state, p->data[copy], mx_gradient(p->data[copy]),
                                            p->lr_mult, p->wd_mult, p->name)
                 : mx_error_code();
}

/* Copies that exchange nothing follow their own gradients. */
static mx_code update_apart(mx_trainer *self, mx_trainer_slot *slot, bool ignore_stale)
{
    mx_parameter *p = slot->parameter;
    for (int i = 0; i < p->count; i++) {
        if (ignore_stale && !fresh(p, i))
            continue;
        if (update_copy(self, slot, i))
            return mx_error_code();
        mx_gradient(p->data[i])->written = 0;
    }
    return MX_OK;
}

static mx_code update_slot(mx_trainer *self, mx_trainer_slot *slot)
{
    mx_parameter *p = slot->parameter;
    if (update_copy(self, slot, 0) || (p->count > 1 && mx_gather_flush()))
        return mx_error_code();
    for (int i = 1; i < p->count; i++)
        if (mx_array_set(p->data[i], p->data[0]))
            return mx_error_code();
    mark_used(p);
    return MX_OK;
}

static mx_code update_slots(mx_trainer *self, bool ignore_stale)
{
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < self->count; i++) {
        mx_trainer_slot *slot = &self->slots[i];
        if (!mx_slot_learns(slot) || (ignore_stale && !mx_trainer_any_fresh(slot->parameter)))
            continue;
        if (mx_trainer_updates_elsewhere(self, slot)) {
            mark_used(slot->parameter);
            continue;
        }
        code = self->sync == MX_SYNC_NOTHING ? update_apart(self, slot, ignore_stale) : update_slot(self, slot);
    }
    return code;
}

/* Updates of our own optimizers are independent of each other: a device may run them all at once. */
static mx_code update_together(mx_trainer *self, bool ignore_stale)
{
    mx_gather held;
    if (self->optimizer->user_update || self->optimizer->hooks.update)
        return update_slots(self, ignore_stale);
    mx_gather_begin(&held);
    return mx_gather_end(&held, update_slots(self, ignore_stale));
}

static mx_code update_all(mx_trainer *self, bool ignore_stale)
{
    return mx_trainer_update_shards(self, ignore_stale, update_together);
}

static void skip_slots(mx_trainer *self)
{
    for (int64_t i = 0; i < self->count; i++)
        if (mx_slot_learns(&self->slots[i]))
            mark_used(self->slots[i].parameter);
}

/* Runs an update unless the loss scaler skips it, because a gradient is not finite. */
static mx_code scaled(mx_trainer *self, bool ignore_stale, mx_code (*run)(mx_trainer *self, bool ignore_stale))
{
    double *scale = &self->optimizer->rescale_grad;
    if (!self->scaler || !mx_loss_scaler_skips(self, scale))
        return run(self, ignore_stale);
    if (mx_has_error())
        return mx_error_code();
    skip_slots(self);
    return MX_OK;
}

static mx_code run_on_store(mx_trainer *self, bool ignore_stale)
{
    (void)ignore_stale; /* all gradients are pushed, old ones too, except in checking mode: the next check finds them */
    mx_code code = mx_trainer_update_on_store(self);
    if (!code && mx_checking())
        skip_slots(self);
    return code;
}

mx_code mx_trainer_exchange(mx_trainer *self)
{
    mx_mode mode = mx_mode_enter(0, -1);
    mx_code code = mx_trainer_prepare(self);
    /* Between processes gradients are summed first, so that all agree on what to skip. */
    if (!code && (!mx_trainer_updates_on_store(self) || mx_trainer_spans(self)))
        code = mx_trainer_reduce(self);
    if (!code && mx_trainer_updates_on_store(self))
        code = scaled(self, true, run_on_store);
    mx_mode_leave(&mode);
    return code;
}

mx_code mx_trainer_apply(mx_trainer *self, bool ignore_stale)
{
    mx_mode mode = mx_mode_enter(0, -1);
    const mx_code code = mx_trainer_updates_on_store(self) ? MX_OK : scaled(self, ignore_stale, update_all);
    mx_mode_leave(&mode);
    return code;
}

static mx_code check_batch(const mx_trainer *self, int64_t batch_size)
{
    if (batch_size <= 0)
        return mx_fail(MX_ERR_ARGUMENT, "trainer: batch_size is %lld, wanted 1 or more", (long long)batch_size);
    self->optimizer->rescale_grad = self->scale / (double)batch_size;
    return MX_OK;
}

static mx_code step(mx_trainer *self, int64_t batch_size, bool ignore_stale)
{
    return check_batch(self, batch_size) || mx_trainer_check(self, ignore_stale) || mx_trainer_exchange(self) ||
                   mx_trainer_apply(self, ignore_stale)
               ? mx_error_code()
               : MX_OK;
}

mx_code mx_trainer_step(mx_trainer *self, int64_t batch_size)
{
    return ok(self, "mx_trainer_step") ? step(self, batch_size, false) : mx_error_code();
}

mx_code mx_trainer_step_ignoring_stale(mx_trainer *self, int64_t batch_size)
{
    return ok(self, "mx_trainer_step_ignoring_stale") ? step(self, batch_size, true) : mx_error_code();
}

/* The halves of a step make sense one by one only if the store does not do the second one as well. */
static mx_code refuse_on_store(mx_trainer *self, const char *what)
{
    if (mx_trainer_prepare(self))
        return mx_error_code();
    return mx_trainer_updates_on_store(self)
               ? mx_fail(MX_ERR_STATE,
                         "trainer: %s is not possible while the parameters are updated on the store; "
                         "let the trainer exchange gradients instead (update_on_kvstore=False, MX_SYNC_GRADIENTS)",
                         what)
               : MX_OK;
}

mx_code mx_trainer_allreduce_grads(mx_trainer *self)
{
    return !ok(self, "mx_trainer_allreduce_grads") || mx_trainer_check(self, true) ||
                   refuse_on_store(self, "allreduce_grads") || mx_trainer_exchange(self)
               ? mx_error_code()
               : MX_OK;
}

mx_code mx_trainer_update(mx_trainer *self, int64_t batch_size, bool ignore_stale)
{
    return !ok(self, "mx_trainer_update") || check_batch(self, batch_size) || mx_trainer_check(self, ignore_stale) ||
                   refuse_on_store(self, "update") || mx_trainer_apply(self, ignore_stale)
               ? mx_error_code()
               : MX_OK;
}
