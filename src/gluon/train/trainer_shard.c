/* Optimizer states divided among processes.
 *
 *     gradients --sum over processes--> every process updates the parameters that it owns --weights--> all processes
 *
 * A parameter belongs to one process as a whole, so that optimizers which look at entire weights compute the same numbers
 * as without division.  Owners follow from the sizes alone: the largest load goes to the process with the least.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "comm/comm.h"
#include "gluon/train/dist.h"
#include "gluon/train/trainer.h"

mx_code mx_trainer_set_sharding(mx_trainer *self, bool on)
{
    if (!mx_is_kind(self, &mx_trainer_kind, "mx_trainer_set_sharding", "trainer"))
        return mx_error_code();
    if (on && mx_trainer_updates_on_store(self))
        return mx_fail(MX_ERR_STATE, "trainer: states can be divided among processes only if the trainer makes the "
                                     "updates (update_on_kvstore=False, MX_SYNC_GRADIENTS)");
    self->shards = on;
    return MX_OK;
}

static bool divided(const mx_trainer *self)
{
    return self->shards && mx_trainer_spans(self) && !mx_trainer_updates_on_store(self);
}

static size_t bytes_of(const mx_trainer_slot *slot)
{
    return mx_slot_learns(slot) && slot->parameter->count && !slot->parameter->deferred
               ? mx_bytes(slot->parameter->data[0])
               : 0;
}

static mx_code choose_owners(mx_trainer *self)
{
    const int size = mx_comm_size(self->store->comm);
    size_t *load = mx_alloc_zero((size_t)size * sizeof *load);
    for (int64_t i = 0; load && i < self->count; i++) {
        int least = 0;
        for (int r = 1; r < size; r++)
            least = load[r] < load[least] ? r : least;
        self->slots[i].owner = least;
        load[least] += bytes_of(&self->slots[i]);
    }
    mx_free(load, (size_t)size * sizeof *load);
    return load ? MX_OK : mx_error_code();
}

bool mx_trainer_updates_elsewhere(const mx_trainer *self, const mx_trainer_slot *slot)
{
    return divided(self) && slot->owner != mx_comm_rank(self->store->comm);
}

/* ---- weights ------------------------------------------------------------------------------------------------------- */

/* counts: (size) bytes of the weights of every process; returns those of all. */
static int64_t count_bytes(const mx_trainer *self, int64_t *counts)
{
    int64_t total = 0;
    for (int64_t i = 0; i < self->count; i++) {
        counts[self->slots[i].owner] += (int64_t)bytes_of(&self->slots[i]);
        total += (int64_t)bytes_of(&self->slots[i]);
    }
    return total;
}

static mx_code write_weights(const mx_trainer *self, const char *all, const int64_t *counts, int rank)
{
    int64_t at = 0;
    for (int r = 0; r < mx_comm_size(self->store->comm); at += counts[r++]) {
        const char *from = all + at;
        for (int64_t i = 0; r != rank && i < self->count; i++) {
            const mx_trainer_slot *slot = &self->slots[i];
            const size_t bytes = bytes_of(slot);
            for (int k = 0; slot->owner == r && bytes && k < slot->parameter->count; k++)
                if (mx_array_write(slot->parameter->data[k], from, bytes))
                    return mx_error_code();
            from += slot->owner == r ? bytes : 0;
        }
    }
    return MX_OK;
}

static mx_code exchange_weights(mx_trainer *self, int64_t *counts, char **memory, int64_t *total)
{
    const int rank = mx_comm_rank(self->store->comm);
    *total = count_bytes(self, counts);
    char *mine = *memory = mx_alloc((size_t)(*total + counts[rank]) + 1);
    if (!mine)
        return mx_error_code();
    mine += *total;
    char *at = mine;
    for (int64_t i = 0; i < self->count; i++) {
        const size_t bytes = self->slots[i].owner == rank ? bytes_of(&self->slots[i]) : 0;
        if (bytes && mx_array_read(self->slots[i].parameter->data[0], at, bytes))
            return mx_error_code();
        at += bytes;
    }
    if (mx_comm_gather_memory(self->store->comm, mine, *memory, counts[rank], counts, MX_UINT8))
        return mx_error_code();
    return write_weights(self, *memory, counts, rank);
}

static mx_code share_weights(mx_trainer *self)
{
    const size_t bytes = (size_t)mx_comm_size(self->store->comm) * sizeof(int64_t);
    int64_t *counts = mx_alloc_zero(bytes), total = 0;
    char *memory = NULL;
    const mx_code code = counts ? exchange_weights(self, counts, &memory, &total) : mx_error_code();
    mx_free(memory, memory ? (size_t)(total + counts[mx_comm_rank(self->store->comm)]) + 1 : 0);
    mx_free(counts, bytes);
    return code;
}

mx_code mx_trainer_update_shards(mx_trainer *self, bool ignore_stale, mx_code (*update)(mx_trainer *self, bool ignore))
{
    double before[2];
    if (!divided(self))
        return update(self, ignore_stale);
    if (choose_owners(self))
        return mx_error_code();
    memcpy(before, self->optimizer->memory, sizeof before);
    if (update(self, ignore_stale))
        return mx_error_code();
    if (memcmp(before, self->optimizer->memory, sizeof before))
        return mx_fail(MX_ERR_UNSUPPORTED,
                       "trainer: optimizer %s has numbers that all weights share; its states cannot "
                       "be divided among processes (shard_states)",
                       mx_optimizer_name(self->optimizer));
    int64_t updates = self->optimizer->num_update;
    if (share_weights(self) || mx_comm_reduce_memory(self->store->comm, &updates, 1, MX_INT64, MX_MAX))
        return mx_error_code();
    self->optimizer->num_update = updates; /* a process may own nothing */
    return MX_OK;
}

/* ---- files --------------------------------------------------------------------------------------------------------- */

static mx_code share_state(mx_trainer *self, int64_t i)
{
    mx_comm *comm = self->store->comm;
    mx_trainer_slot *slot = &self->slots[i];
    int64_t updates = slot->state ? slot->state->updates : -1;
    if (mx_comm_broadcast_memory(comm, &updates, 1, MX_INT64, slot->owner) || updates < 0)
        return mx_error_code();
    mx_optimizer_state *state = mx_trainer_state(self, i, 0);
    const int n = state ? mx_optimizer_state_count(state) : 0;
    for (int k = 0; k < n; k++)
        if (mx_comm_broadcast(comm, mx_optimizer_state_at(state, k), slot->owner))
            return mx_error_code();
    if (state)
        state->updates = updates;
    return state ? MX_OK : mx_error_code();
}

mx_code mx_trainer_collect_states(mx_trainer *self)
{
    mx_code code = MX_OK;
    for (int64_t i = 0; divided(self) && !code && i < self->count; i++)
        code = bytes_of(&self->slots[i]) ? share_state(self, i) : MX_OK;
    return code;
}

void mx_trainer_drop_others(mx_trainer *self)
{
    if (divided(self) && choose_owners(self))
        return;
    for (int64_t i = 0; i < self->count; i++)
        if (mx_trainer_updates_elsewhere(self, &self->slots[i]))
            mx_trainer_drop_states(&self->slots[i]);
}

bool mx_trainer_writes_files(const mx_trainer *self) { return !divided(self) || mx_comm_rank(self->store->comm) == 0; }
