/* What the copies of a parameter on several contexts exchange (see mx_trainer_sync).
 *
 *     weights:    gradients --push--> store --optimizer--> weight = first copy --pull--> other copies
 *     gradients:  sum of all copies --> every copy; the trainer updates (trainer.c)
 *     nothing:    every copy is updated by itself
 *
 * The store has no copies of the weights: what it holds for key i is the first copy of parameter i.  So a value that the
 * user writes counts, and costs no second array.
 *
 * Invariant: before copies exchange anything for the first time, all of them have the values of the first, running
 * statistics too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/checking.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/text.h"
#include "comm/comm.h"
#include "exec/call.h"
#include "gluon/train/buckets.h"
#include "gluon/train/dist.h"
#include "gluon/train/sums.h"
#include "gluon/train/trainer.h"
#include "ndarray/sparse.h"

static bool ok(const mx_trainer *self, const char *function)
{
    return mx_is_kind(self, &mx_trainer_kind, function, "trainer");
}

/* ---- the store --------------------------------------------------------------------------------------------------- */

static bool several(const mx_trainer *self)
{
    for (int64_t i = 0; i < self->count; i++)
        if (self->slots[i].parameter->count > 1)
            return true;
    return false;
}

bool mx_trainer_updates_on_store(const mx_trainer *self) { return self->store && self->sync == MX_SYNC_WEIGHTS; }

void mx_trainer_drop_states(mx_trainer_slot *slot)
{
    mx_release(slot->state);
    for (int i = 0; slot->more && i < MX_MAX_CONTEXTS; i++)
        mx_release(slot->more[i]);
    mx_free(slot->more, slot->more ? MX_MAX_CONTEXTS * sizeof *slot->more : 0);
    slot->state = NULL, slot->more = NULL;
}

/* The optimizer of a store finds weights by number; their rates are those of the parameters. */
static mx_code number_parameters(mx_trainer *self)
{
    for (int64_t i = 0; i < self->count; i++)
        if (mx_optimizer_set_parameter(self->optimizer, mx_id_number(i), self->slots[i].parameter))
            return mx_error_code();
    return MX_OK;
}

mx_code mx_trainer_put_state(mx_trainer *self, int64_t i, mx_optimizer_state *state)
{
    mx_updater *updater = mx_trainer_updates_on_store(self) ? self->store->updater : NULL;
    if (updater && (state ? mx_updater_set_state(updater, mx_id_number(i), state)
                          : mx_updater_drop_state(updater, mx_id_number(i))))
        return mx_error_code();
    mx_retain(state);
    mx_release(self->slots[i].state);
    self->slots[i].state = state;
    return state ? mx_optimizer_set_count(self->optimizer, state, self->slots[i].parameter->data[0]) : MX_OK;
}

static mx_code take_states(mx_trainer *self)
{
    for (int64_t i = 0; i < self->count; i++)
        if (self->slots[i].state && mx_updater_set_state(self->store->updater, mx_id_number(i), self->slots[i].state))
            return mx_error_code();
    return MX_OK;
}

/* The trainer's own store; given ones have what they need. */
static mx_code make_store(mx_trainer *self)
{
    MX_SCOPE;
    mx_kvstore *made = mx_kvstore_new("device");
    if (!made || (self->compression.kind != MX_COMPRESS_NONE &&
                  mx_kvstore_set_gradient_compression(made, mx_compression_name(&self->compression),
                                                      self->compression.threshold)))
        return mx_error_code();
    return mx_trainer_set_store(self, made, self->sync);
}

mx_code mx_trainer_set_store(mx_trainer *self, mx_kvstore *store, mx_trainer_sync sync)
{
    if (!ok(self, "mx_trainer_set_store") || (store && !mx_kvstore_type(store)))
        return mx_error_code();
    if (sync < MX_SYNC_WEIGHTS || sync > MX_SYNC_NOTHING || (store && sync == MX_SYNC_NOTHING))
        return mx_fail(
            MX_ERR_ARGUMENT,
            "mx_trainer_set_store: sync is %d; wanted MX_SYNC_WEIGHTS or MX_SYNC_GRADIENTS, or MX_SYNC_NOTHING "
            "without a store",
            (int)sync);
    const bool updates = store && sync == MX_SYNC_WEIGHTS;
    if (updates && !store->updater && !store->function && mx_kvstore_set_optimizer(store, self->optimizer))
        return mx_error_code();
    mx_buckets_free(self->buckets);
    self->buckets = NULL;
    mx_retain(store);
    mx_release(self->store);
    self->store = store, self->sync = sync;
    for (int64_t i = 0; i < self->count; i++)
        self->slots[i].spread = false;
    return !updates                                                           ? MX_OK
           : number_parameters(self) || (store->updater && take_states(self)) ? mx_error_code()
                                                                              : MX_OK;
}

mx_kvstore *mx_trainer_store(mx_trainer *self) { return ok(self, "mx_trainer_store") ? self->store : NULL; }

mx_code mx_trainer_set_compression(mx_trainer *self, const char *type, double threshold)
{
    mx_compression checked = {0};
    if (!ok(self, "mx_trainer_set_compression") || mx_compression_set(&checked, type, threshold))
        return mx_error_code();
    self->compression.kind = checked.kind, self->compression.threshold = checked.threshold;
    return self->store ? mx_kvstore_set_gradient_compression(self->store, type, threshold) : MX_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static mx_code copy_first(const mx_parameter *p)
{
    for (int k = 1; k < p->count; k++)
        if (mx_array_set(p->data[k], p->data[0]))
            return mx_error_code();
    return MX_OK;
}

mx_code mx_trainer_spread(mx_trainer *self, int64_t i)
{
    mx_trainer_slot *slot = &self->slots[i];
    const mx_parameter *p = slot->parameter;
    if (!p->count || p->deferred)
        return MX_OK;
    if ((mx_trainer_spans(self) && mx_dist_broadcast(self->store->comm, p->data[0])) || copy_first(p) ||
        (self->store && mx_kvstore_share(self->store, mx_id_number(i), p->data[0])))
        return mx_error_code();
    slot->spread = true;
    return MX_OK;
}

/* Processes must train the same network: what is spread now, with the numbers of automatic names left out. */
static mx_code check_same(mx_trainer *self)
{
    mx_text list = {0};
    char shape[MX_SHAPE_TEXT];
    for (int64_t i = 0; i < self->count; i++) {
        const mx_parameter *p = self->slots[i].parameter;
        if (self->slots[i].spread || !p->count || p->deferred)
            continue;
        mx_text_print(&list, "parameter %lld (", (long long)i);
        for (const char *c = p->name; *c; c++)
            if (*c < '0' || *c > '9')
                mx_text_print(&list, "%c", *c);
        mx_text_print(&list, ") of %s and shape %s\n", mx_dtype_name(p->dtype), mx_shape_text(&p->shape, shape));
    }
    const mx_code code =
        list.length ? mx_comm_same_text(self->store->comm, mx_text_get(&list), "trainer: parameters") : MX_OK;
    mx_text_free(&list);
    return code;
}

mx_code mx_trainer_prepare(mx_trainer *self)
{
    if (self->sync == MX_SYNC_NOTHING || (!self->store && !several(self)))
        return MX_OK;
    if (!self->store && make_store(self))
        return mx_error_code();
    mx_mode mode = mx_mode_enter(0, -1);
    mx_code code = mx_trainer_spans(self) ? check_same(self) : MX_OK;
    for (int64_t i = 0; !code && i < self->count; i++)
        code = self->slots[i].spread ? MX_OK : mx_trainer_spread(self, i);
    mx_mode_leave(&mode);
    return code;
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static mx_arrays gradients_of(const mx_parameter *p, mx_array **parts)
{
    for (int i = 0; i < p->count; i++)
        parts[i] = mx_gradient(p->data[i]);
    return (mx_arrays){parts, p->count};
}

/* Over contexts, then over processes. */
static mx_array *sum_everywhere(mx_trainer *self, mx_trainer_slot *slot, mx_arrays grads)
{
    if (grads.n > 1 && mx_sum_parts(&slot->sum, (int)grads.n, grads.v))
        return NULL;
    return mx_dist_sum(self->store, mx_id_number(slot - self->slots), grads.n > 1 ? slot->sum : grads.v[0]);
}

static mx_code spread_sum(mx_array *sum, mx_arrays grads)
{
    for (int64_t i = 0; i < grads.n; i++)
        if (!sum || mx_array_set(grads.v[i], sum))
            return mx_error_code();
    return MX_OK;
}

/* Sets the gradients of all copies to their sum; a stale one stays stale. */
static mx_code reduce_slot(mx_trainer *self, mx_trainer_slot *slot)
{
    MX_SCOPE;
    mx_array *parts[MX_MAX_CONTEXTS];
    uint8_t written[MX_MAX_CONTEXTS];
    const mx_arrays grads = gradients_of(slot->parameter, parts);
    for (int64_t i = 0; i < grads.n; i++)
        written[i] = parts[i]->written;
    const bool sums_only = !mx_trainer_spans(self) && self->store->compression.kind == MX_COMPRESS_NONE &&
                           !self->store->updater && !self->store->function;
    mx_array *sum = mx_trainer_spans(self) ? sum_everywhere(self, slot, grads) : NULL;
    const mx_code code = mx_trainer_spans(self) ? spread_sum(sum, grads)
                         : sums_only            ? mx_sum_everywhere(&slot->sum, (int)grads.n, parts)
                                     : mx_kvstore_pushpull(self->store, mx_id_number(slot - self->slots), grads, grads);
    for (int64_t i = 0; i < grads.n; i++)
        parts[i]->written = written[i];
    return code;
}

/* Gradients that fit into buckets; others go one by one: sparse ones, and those sent in few bits. */
static bool in_buckets(const mx_trainer *self, const mx_trainer_slot *slot)
{
    const int kind = self->store->compression.kind;
    return (kind == MX_COMPRESS_NONE || kind == MX_COMPRESS_FP16) && slot->parameter->grad_stype == MX_STYPE_DEFAULT;
}

/* ---- checking: where a gradient that is not finite comes from ------------------------------------------------------ */

static bool is_finite(const mx_parameter *p)
{
    MX_SCOPE;
    for (int i = 0; i < p->count; i++) {
        mx_array *gradient = mx_gradient(p->data[i]);
        double answer = 1;
        if (mx_is_sparse(gradient) || !gradient->size)
            continue;
        mx_array *all = mx_call_one(MX_OP("all_finite"), NULL, 1, &gradient, NULL);
        if (all && !mx_array_read_doubles(all, &answer, 1) && answer == 0)
            return false;
    }
    return true;
}

/* The first slot of this process whose gradient is not finite; -1: there is none, or nobody checks. */
static int64_t find_wrong(const mx_trainer *self)
{
    if (!mx_checking() && !mx_flags_get()->comm_check)
        return -1;
    for (int64_t i = 0; i < self->count; i++)
        if (mx_slot_learns(&self->slots[i]) && !is_finite(self->slots[i].parameter))
            return i;
    return -1;
}

/* After the exchange, so that all processes have finished it: the sums do not show whose fault it is. */
static mx_code report_wrong(mx_trainer *self, int64_t mine)
{
    const int processes = mx_comm_size(self->store->comm);
    if (!mx_checking() && !mx_flags_get()->comm_check)
        return MX_OK;
    int64_t *all = mx_alloc((size_t)processes * sizeof *all);
    mx_code code = all ? mx_comm_gather_memory(self->store->comm, &mine, all, 1, NULL, MX_INT64) : mx_error_code();
    for (int r = 0; !code && r < processes; r++)
        if (all[r] >= 0 && all[r] < self->count)
            code = mx_fail(MX_ERR_STATE,
                           "trainer: the gradient of parameter %s is not finite on rank %d; no process has updated",
                           self->slots[all[r]].parameter->name, r);
    mx_free(all, (size_t)processes * sizeof *all);
    return code;
}

static mx_code reduce_between_processes(mx_trainer *self)
{
    bool any = false;
    const int64_t wrong = find_wrong(self);
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < self->count; i++) {
        mx_trainer_slot *slot = &self->slots[i];
        if (!mx_slot_learns(slot))
            continue;
        any |= in_buckets(self, slot);
        if (!in_buckets(self, slot))
            code = reduce_slot(self, slot);
    }
    if (!code && any && !self->buckets && !(self->buckets = mx_buckets_new(self)))
        return mx_error_code();
    if (!code && any)
        code = mx_buckets_exchange(self->buckets);
    return code ? code : report_wrong(self, wrong);
}

mx_code mx_trainer_reduce(mx_trainer *self)
{
    mx_code code = MX_OK;
    if (mx_trainer_spans(self))
        return reduce_between_processes(self);
    for (int64_t i = 0; !code && self->store && i < self->count; i++)
        if (mx_slot_learns(&self->slots[i]) && self->slots[i].parameter->count > 1)
            code = reduce_slot(self, &self->slots[i]);
    return code;
}

/* A parameter may have got new arrays since the last step. */
static mx_code update_slot(mx_trainer *self, int64_t i)
{
    mx_array *parts[MX_MAX_CONTEXTS];
    const mx_parameter *p = self->slots[i].parameter;
    const mx_id id = mx_id_number(i);
    mx_arrays gradients = gradients_of(p, parts);
    const bool summed = mx_trainer_spans(self); /* all copies have the sum of all */
    gradients.n = summed ? 1 : gradients.n;
    if (mx_kvstore_share(self->store, id, p->data[0]) ||
        (summed ? mx_kvstore_push_sum : mx_kvstore_push)(self->store, id, gradients) ||
        mx_kvstore_pull(self->store, id, (mx_arrays){(mx_array **)p->data, p->count}))
        return mx_error_code();
    mx_optimizer_state *state = self->store->updater ? mx_updater_state(self->store->updater, id) : NULL;
    if (state != self->slots[i].state) {
        mx_retain(state);
        mx_release(self->slots[i].state);
        self->slots[i].state = state;
    }
    return MX_OK;
}

mx_code mx_trainer_update_on_store(mx_trainer *self)
{
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < self->count; i++)
        if (mx_slot_learns(&self->slots[i]))
            code = update_slot(self, i);
    return code;
}
