/* Exchanges of buckets inside the plan of a fused step (see buckets.h): devices make them by themselves.
 *
 *     before the plan:  all processes agree that their buckets are clean
 *     in the plan:      pack, launch, bucket after bucket, each as soon as backward has finished its gradients; then copies back
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/flags.h"
#include "gluon/train/buckets_parts.h"

int32_t mx_buckets_in_plan(mx_buckets *self)
{
    if (!self || !self->n_members || mx_flags_get()->comm_check || !mx_buckets_fit(self))
        return 0;
    for (int i = 0; i < self->n_buckets; i++)
        if (!mx_wire_grouped(&self->buckets[i].wire) || self->buckets[i].started)
            return 0;
    for (int64_t i = 0; i < self->trainer->count; i++) {
        const mx_trainer_slot *slot = &self->trainer->slots[i];
        if (mx_slot_learns(slot) && (!mx_bucket_takes(slot) || slot->parameter->count > 1))
            return 0;
    }
    return self->n_buckets;
}

mx_code mx_buckets_agree(mx_buckets *self, bool *clean)
{
    memset(self->agreed, 1, (size_t)self->n_members);
    memset(self->agreed + self->n_members, 0, (size_t)self->n_buckets);
    mx_code code = mx_buckets_start_agreement(self);
    code = code ? code : mx_engine_wait(&self->agreement);
    self->has_agreed = *clean = !code;
    for (int i = 0; !code && i < self->n_buckets; i++)
        *clean &= !self->agreed[self->n_members + i];
    for (int i = 0; !code && *clean && i < self->n_buckets; i++)
        code = mx_wire_announce(&self->buckets[i].wire, self->comm);
    return code;
}

const int32_t *mx_buckets_place(mx_buckets *self, const int32_t *finished, int32_t updates)
{
    int32_t last = 0, *before = self->before;
    for (int i = 0; i < self->n_buckets; before[i++] = last)
        for (int k = self->buckets[i].first; k < self->buckets[i].first + self->buckets[i].members; k++)
            last = finished[self->members[k].slot] + 1 > last ? finished[self->members[k].slot] + 1 : last;
    before[self->n_buckets] = updates;
    return before;
}

static mx_code copy_back(mx_buckets *self)
{
    const mx_route *route = self->buckets[0].wire.route;
    mx_code code = route->lanes->end(route->lane);
    for (int64_t i = 0; !code && i < self->n_members; i++)
        code = mx_wire_unpack(&self->buckets[self->members[i].bucket].wire, self->members[i].offset,
                              mx_bucket_gradient(self, &self->members[i]));
    return code;
}

mx_code mx_buckets_stop(void *user, int32_t i)
{
    mx_buckets *self = user;
    mx_bucket *b = i < self->n_buckets ? &self->buckets[i] : NULL;
    mx_mode mode = mx_mode_enter(0, -1);
    mx_code code = b ? MX_OK : copy_back(self);
    for (int k = b ? b->first : 0; b && !code && k < b->first + b->members; k++)
        code = mx_wire_pack(&b->wire, self->members[k].offset, mx_bucket_gradient(self, &self->members[k]));
    if (b && !code)
        code = mx_wire_launch(&b->wire);
    mx_mode_leave(&mode);
    return code;
}

static mx_touch touch(const mx_array *x, bool written) { return (mx_touch){mx_data(x), mx_bytes(x), written}; }

/* The lane counts as memory: what is in it stays in order. */
int64_t mx_buckets_touches(void *user, int32_t i, mx_touch *spans)
{
    const mx_buckets *self = user;
    const bool back = i == self->n_buckets;
    const int first = back ? 0 : self->buckets[i].first;
    const int members = back ? (int)self->n_members : self->buckets[i].members;
    int64_t n = 0;
    if (!spans)
        return 1 + members + self->n_buckets;
    spans[n++] = (mx_touch){self->buckets[0].wire.route->lane, 1, true};
    for (int k = first; k < first + members; k++)
        spans[n++] = touch(mx_bucket_gradient(self, &self->members[k]), back);
    for (int b = back ? 0 : i; b < (back ? self->n_buckets : i + 1); b++)
        spans[n++] = touch(self->buckets[b].wire.array, !back);
    return n;
}
