/* Internals of trainers (see trainer.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_TRAINER_H
#define MX_GLUON_TRAINER_H

#include "gluon/block/core.h"
#include "gluon/train/kvstore.h"
#include "gluon/train/learning.h"
#include "gluon/loss_scaler.h"

typedef struct mx_trainer_slot {
    mx_parameter *parameter;   /* retained */
    mx_optimizer_state *state; /* retained; NULL before the first update */
    mx_optimizer_state **more; /* (MX_MAX_CONTEXTS), retained: of copies 1, 2, ... with MX_SYNC_NOTHING; else NULL */
    mx_array *sum;             /* retained; of sparse gradients of several contexts; NULL before it is needed */
    int owner;                 /* process that updates it, if states are divided (trainer_shard.c) */
    bool spread;               /* all copies were set to the values of the first */
} mx_trainer_slot;

struct mx_trainer {
    mx_object object;
    mx_optimizer *optimizer; /* retained */
    double scale;            /* the optimizer's rescale_grad at the start; divided by the batch size in each step */
    mx_trainer_slot *slots;  /* (count), sorted by parameter name */
    int64_t count, capacity;
    bool shards;                /* states are divided among processes */
    mx_loss_scaler *scaler;     /* retained; NULL: losses are not scaled */
    mx_kvstore *store;          /* retained; NULL: none is needed, or not yet */
    mx_trainer_sync sync;       /* what the copies of a parameter exchange */
    mx_compression compression; /* of a store that the trainer creates */
    struct mx_buckets *buckets; /* gradients between processes; owned; NULL: none yet */
};

extern const mx_kind mx_trainer_kind;

bool mx_trainer_any_fresh(const mx_parameter *parameter); /* a backward has computed the gradient of some copy */
/* Gradients are summed over processes: the store spans several. */
static inline bool mx_trainer_spans(const mx_trainer *self) { return self->store && mx_kvstore_spans(self->store); }

static inline bool mx_slot_learns(const mx_trainer_slot *slot) { return slot->parameter->req != MX_GRAD_NULL; }

/* ---- trainer_sync.c: what copies of a parameter exchange */
/* Before a step: the store, if one is needed, and values of copies that were not spread yet. */
mx_code mx_trainer_prepare(mx_trainer *self);
bool mx_trainer_updates_on_store(const mx_trainer *self);
mx_code mx_trainer_spread(mx_trainer *self, int64_t i); /* the copies of parameter i get the values of the first */
mx_code mx_trainer_reduce(mx_trainer *self);            /* sums the gradients of all copies, if they exchange those */
mx_code mx_trainer_update_on_store(mx_trainer *self);   /* pushes gradients, pulls weights */
void mx_trainer_drop_states(mx_trainer_slot *slot);
/* Replaces a state, in the store's updater as well. */
mx_code mx_trainer_put_state(mx_trainer *self, int64_t i, mx_optimizer_state *state);

/* ---- trainer_shard.c: states divided among processes; without division all of these do nothing special */
bool mx_trainer_updates_elsewhere(const mx_trainer *self, const mx_trainer_slot *slot); /* by another process */
/* update(self, ignore_stale), then the weights that other processes have updated. */
mx_code mx_trainer_update_shards(mx_trainer *self, bool ignore_stale, mx_code (*update)(mx_trainer *self, bool ignore));
mx_code mx_trainer_collect_states(mx_trainer *self); /* before saving: this process has the states of all */
void mx_trainer_drop_others(mx_trainer *self);       /* after it: only those that it owns */
bool mx_trainer_writes_files(const mx_trainer *self);

/* ---- trainer.c */
/* The state of a copy of parameter i: always 0 unless copies exchange nothing.  Created if there is none. */
mx_optimizer_state *mx_trainer_state(mx_trainer *self, int64_t i, int copy);
/* The two halves of a step of a step, for callers that put something in between; rescale_grad is set already: */
mx_code mx_trainer_check(mx_trainer *self, bool ignore_stale); /* parameters without data, then stale gradients */
mx_code mx_trainer_exchange(mx_trainer *self);                 /* everything that passes through the store */
mx_code mx_trainer_apply(mx_trainer *self, bool ignore_stale); /* the updates that do not */

/* Before an update: whether to skip it, because a gradient is not finite.  *scale is divided by the scale of the loss.
 * It is also skipped after an error: check mx_has_error(). */
bool mx_loss_scaler_skips(mx_trainer *trainer, double *scale);

#endif
