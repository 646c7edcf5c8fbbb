/* Optimizers, learning-rate schedules and the trainer that applies them.
 *
 *     mx_trainer *trainer = mx_trainer_new(mx_collect_params(net), "sgd", "learning_rate=0.1, momentum=0.9");
 *     mx_trainer *trainer = mx_trainer_with(mx_collect_params(net), mx_adam(.learning_rate = 0.001));
 *     ...
 *     mx_trainer_step(trainer, batch_size);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_OPTIMIZER_H
#define GLUON_OPTIMIZER_H

#include "gluon/id.h"
#include "gluon/parameter.h"
#include "gluon/symbol.h"

typedef struct mx_optimizer mx_optimizer;             /* created by mx_sgd(), mx_adam() ... */
typedef struct mx_optimizer_state mx_optimizer_state; /* the optimizer's state of one weight */
typedef struct mx_lr_scheduler mx_lr_scheduler;       /* created by mx_factor_scheduler() ... */
typedef struct mx_updater mx_updater;                 /* an optimizer with the states of weights by id */
typedef struct mx_trainer mx_trainer;
typedef struct mx_kvstore mx_kvstore; /* gluon/kvstore.h */

/* ---- schedules --------------------------------------------------------------------------------------------------- */
MX_API double mx_lr_scheduler_rate(mx_lr_scheduler *scheduler, int64_t num_update); /* NaN on failure */
MX_API double mx_lr_scheduler_base(const mx_lr_scheduler *scheduler);
MX_API mx_code mx_lr_scheduler_set_base(mx_lr_scheduler *scheduler, double base_lr);
/* A custom schedule; release(user), which may be NULL, is called when it is destroyed. */
typedef double (*mx_rate_fn)(void *user, double base_lr, int64_t num_update);
MX_API mx_lr_scheduler *mx_lr_scheduler_custom(mx_rate_fn rate, double base_lr, void *user,
                                               void (*release)(void *user));

/* ---- optimizers -------------------------------------------------------------------------------------------------- */
MX_API mx_optimizer *mx_optimizer_new(const char *name, const char *options); /* "sgd", "momentum=0.9" or NULL */
MX_API const char *mx_optimizer_name(const mx_optimizer *optimizer);
MX_API double mx_optimizer_learning_rate(mx_optimizer *optimizer);
MX_API mx_code mx_optimizer_set_learning_rate(mx_optimizer *optimizer,
                                              double rate); /* an error if there is a schedule */
MX_API mx_code mx_optimizer_set_scheduler(mx_optimizer *optimizer, mx_lr_scheduler *scheduler); /* NULL: none */
MX_API double mx_optimizer_rescale_grad(const mx_optimizer *optimizer);
MX_API mx_code mx_optimizer_set_rescale_grad(mx_optimizer *optimizer, double factor);
MX_API int64_t mx_optimizer_num_update(const mx_optimizer *optimizer);

/* ---- rates of single weights ------------------------------------------------------------------------------------- */
/* The rate of a weight is the optimizer's times a multiplier: that of its parameter if one was given, else the one set
 * for its id, else the one set for its name, else 1.  Weight decay likewise.  A trainer uses those of its parameters. */
MX_API mx_code mx_optimizer_set_lr_mult(mx_optimizer *optimizer, mx_id weight, double factor); /* an id or a name */
MX_API mx_code mx_optimizer_set_wd_mult(mx_optimizer *optimizer, mx_id weight, double factor);
/* Back to the symbol's values; of named weights, only ..._weight and ..._gamma decay. */
MX_API mx_code mx_optimizer_reset_lr_mult(mx_optimizer *optimizer);
MX_API mx_code mx_optimizer_reset_wd_mult(mx_optimizer *optimizer);
MX_API mx_code mx_optimizer_set_name(mx_optimizer *optimizer, mx_id weight, const char *name); /* then reset_wd_mult */
MX_API mx_code mx_optimizer_set_parameter(mx_optimizer *optimizer, mx_id weight, mx_parameter *parameter);
/* Takes the multipliers that variables were created with, mx_variable("w", .lr_mult = 2), and resets both tables. */
MX_API mx_code mx_optimizer_set_symbol(mx_optimizer *optimizer, const mx_symbol *symbol);
MX_API double mx_optimizer_rate(mx_optimizer *optimizer, mx_id weight);        /* NaN on failure */
MX_API double mx_optimizer_decay(const mx_optimizer *optimizer, mx_id weight); /* NaN on failure */
/* How often a weight was updated, counted per device: that of the last update by id; begin_num_update: never. */
MX_API int64_t mx_optimizer_count(const mx_optimizer *optimizer, mx_id weight);

/* ---- updates ------------------------------------------------------------------------------------------------------ */
/* One update by hand; the trainer does this for every parameter. */
MX_API mx_optimizer_state *mx_optimizer_state_new(mx_optimizer *optimizer, mx_array *weight);
MX_API mx_code mx_optimizer_update(mx_optimizer *optimizer, mx_optimizer_state *state, mx_array *weight, mx_array *grad,
                                   double lr_mult, double wd_mult);
MX_API int mx_optimizer_state_count(const mx_optimizer_state *state);           /* arrays, a float32 master last */
MX_API mx_array *mx_optimizer_state_at(const mx_optimizer_state *state, int i); /* NULL past the end */
MX_API int64_t mx_optimizer_state_updates(const mx_optimizer_state *state);
MX_API mx_code mx_optimizer_state_set_updates(mx_optimizer_state *state, int64_t updates);

/* A custom optimizer: it has `states` zero arrays like the weight (at most 4) per parameter.  grad is as backward left
 * it, times rescale_grad; nonzero: failed. */
typedef mx_code (*mx_update_fn)(void *user, mx_array *weight, mx_array *grad, mx_array **states, double lr, double wd,
                                int64_t t);
MX_API mx_optimizer *mx_optimizer_custom(const char *name, mx_update_fn update, int states, double learning_rate,
                                         void *user);

/* An optimizer whose states are user objects and which keeps its own rates and counts. */
typedef struct mx_optimizer_hooks {
    const char *name;
    /* Creates the state of a weight (its number in a trainer; otherwise 0); *state may stay NULL.  Nonzero: failed. */
    mx_code (*make_state)(void *user, mx_id id, mx_array *weight, void **state);
    /* grad is as backward left it: multiply it by mx_optimizer_rescale_grad().  Nonzero: failed. */
    mx_code (*update)(void *user, mx_id id, mx_array *weight, mx_array *grad, void *state);
    void (*release_state)(void *state); /* when a state is destroyed; NULL: nothing to do */
    void (*release)(void *user);        /* when the optimizer is destroyed; NULL: nothing to do */
} mx_optimizer_hooks;
MX_API mx_optimizer *mx_optimizer_hooked(const mx_optimizer_hooks *hooks, void *user);

/* ---- updaters ---------------------------------------------------------------------------------------------------- */
/* Updates weights by id and keeps their states, which are created at the first update of an id. */
MX_API mx_updater *mx_updater_new(mx_optimizer *optimizer);
MX_API mx_code mx_updater_update(mx_updater *updater, mx_id weight_id, mx_array *grad, mx_array *weight);
MX_API mx_optimizer *mx_updater_optimizer(mx_updater *updater);
MX_API mx_optimizer_state *mx_updater_state(const mx_updater *updater, mx_id weight_id); /* NULL: none yet */
/* States, counts and what the optimizer holds for all weights together; the file is written atomically. */
MX_API mx_code mx_updater_save(mx_updater *updater, const char *path);
MX_API mx_code mx_updater_load(mx_updater *updater, const char *path);

/* ---- trainers ---------------------------------------------------------------------------------------------------- */
/* optimizer: a registered name; options: "learning_rate=0.1, momentum=0.9" or NULL.  "kvstore=dist_sync" among them:
 * gradients are summed over all processes (gluon/comm.h); a step then gets the size of all their batches together. */
MX_API mx_trainer *mx_trainer_new(mx_params *params, const char *optimizer, const char *options);
MX_API mx_trainer *mx_trainer_with(mx_params *params, mx_optimizer *optimizer);
/* Over a list of parameters, in its order. */
MX_API mx_trainer *mx_trainer_over(mx_parameter *const *parameters, int64_t count, mx_optimizer *optimizer);
/* Parameters of a dictionary are taken in the order of their names: parameter i of the optimizer's states. */
MX_API int64_t mx_trainer_count(const mx_trainer *trainer);
MX_API mx_parameter *mx_trainer_at(const mx_trainer *trainer, int64_t i); /* NULL past the end */
/* What the copies of a parameter on several contexts exchange.  Before the first exchange all copies, running
 * statistics too, get the values of the first. */
typedef enum mx_trainer_sync {
    MX_SYNC_WEIGHTS,   /* a step pushes gradients to the store, which updates, and pulls weights: the default */
    MX_SYNC_GRADIENTS, /* gradients are summed, then the trainer updates: allows mx_trainer_allreduce_grads */
    MX_SYNC_NOTHING    /* every copy follows its own gradients, with a state of its own */
} mx_trainer_sync;
/* store NULL: the trainer creates one of type "device" when it needs one.  A store without an optimizer gets the
 * trainer's, if weights are exchanged. */
MX_API mx_code mx_trainer_set_store(mx_trainer *trainer, mx_kvstore *store, mx_trainer_sync sync);
MX_API mx_kvstore *mx_trainer_store(mx_trainer *trainer); /* NULL: none is needed, or not yet */
/* Exchanges gradients or weights over contexts, divides gradients by batch_size and updates.  With MX_SYNC_WEIGHTS on
 * several contexts, a gradient that was fresh once is used again in later steps. */
MX_API mx_code mx_trainer_step(mx_trainer *trainer, int64_t batch_size);
MX_API mx_code mx_trainer_step_ignoring_stale(mx_trainer *trainer, int64_t batch_size);
/* The two halves of a step; an error where weights are exchanged. */
MX_API mx_code mx_trainer_allreduce_grads(mx_trainer *trainer);
MX_API mx_code mx_trainer_update(mx_trainer *trainer, int64_t batch_size, bool ignore_stale);
MX_API double mx_trainer_learning_rate(mx_trainer *trainer);
MX_API mx_code mx_trainer_set_learning_rate(mx_trainer *trainer, double rate);
MX_API mx_optimizer *mx_trainer_optimizer(mx_trainer *trainer);
/* Gradients of several contexts are summed in two bits per element: as mx_kvstore_set_gradient_compression(). */
MX_API mx_code mx_trainer_set_compression(mx_trainer *trainer, const char *type, double threshold);
/* On: each process has the optimizer states of a part of the parameters, updates these and sends their values to the
 * others; the numbers are the same.  Needs a store of several processes and MX_SYNC_GRADIENTS; also an option of
 * mx_trainer_new: "shard_states=1".  All processes then save states together, and rank 0 writes the file. */
MX_API mx_code mx_trainer_set_sharding(mx_trainer *trainer, bool on);
/* Optimizer states and update counts; the file is written atomically. */
MX_API mx_code mx_trainer_save_states(mx_trainer *trainer, const char *path);
MX_API mx_code mx_trainer_load_states(mx_trainer *trainer, const char *path);

#endif
