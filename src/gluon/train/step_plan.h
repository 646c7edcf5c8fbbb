/* What the files of a fused training step share (gluon/step.h): the step, its plans, the intercepted optimizer calls.
 *
 *     step_catch.c     runs the optimizer on placeholders for a parameter's arrays and intercepts the operator it calls
 *     step_compile.c   compiles network, loss and updates into plans, and finds the plan for a batch
 *     step.c           creating, freeing, running
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_STEP_PLAN_H
#define MX_GLUON_STEP_PLAN_H

#include "gluon/compile/hybrid.h"
#include "gluon/step.h"
#include "gluon/train/trainer.h"

#define MX_MOST_STEP_PLANS 8
#define MX_STEP_STATES (MX_MAX_STATES + 1) /* arrays of an optimizer's state for a parameter, the master included */

/* The placeholders for one parameter while calls are intercepted. */
typedef struct mx_stand_in {
    mx_array *weight, *grad, *state[MX_STEP_STATES]; /* symbolic; retained; the last one for the master */
} mx_stand_in;

typedef struct mx_step_plan {
    mx_compiled *compiled; /* retained */
    int32_t *update;       /* (slots) step of the plan's program that updates slot i; -1: none */
    int32_t *finished;     /* (slots) the call that completes the gradient of slot i; -1: none; memory of `update` */
    int32_t
        updates; /* the first call of the plan that updates: all gradients are complete; -1: there is no such place */
} mx_step_plan;

struct mx_train_step {
    mx_object object;
    mx_block *net, *loss;
    mx_trainer *trainer;
    pthread_mutex_t lock;                   /* one step at a time; error-checking */
    int64_t slots;                          /* of the trainer when the step was created */
    mx_stand_in *stands;                    /* (slots) */
    mx_step_plan plans[MX_MOST_STEP_PLANS]; /* most recently used first */
    int count;
    mx_tree_state net_state, loss_state; /* when the plans were made */
    bool compiled;                       /* whether the last run was; read without the lock */
    bool refused;                        /* the optimizer cannot be intercepted: not tried again */
};

static inline mx_array *mx_step_state(const mx_optimizer_state *state, int64_t k)
{
    return k == MX_MAX_STATES ? state->master : state->array[k];
}

/* The one call that an update makes. */
typedef struct mx_caught {
    mx_op *op; /* NULL: any; else the expected one */
    const mx_stand_in *stand;
    void *attrs; /* room for `bytes`; receives the attributes */
    size_t bytes;
    int n_in;
    int8_t in[2 + MX_STEP_STATES]; /* 0: weight, 1: gradient, 2...: states */
    int calls;
} mx_caught;

mx_code mx_stand_in_make(mx_stand_in *s, const mx_trainer_slot *slot);
void mx_stand_in_drop(mx_stand_in *s);
/* Runs the optimizer on the placeholders; t is the number of this update, lr the rate before the parameter's factor. */
mx_code mx_catch_update(mx_optimizer *o, const mx_trainer_slot *slot, mx_stand_in *s, int64_t t, double lr,
                        mx_caught *c);

/* The plan for a batch, compiled if there is none; NULL without an error: run the imperative loop. */
mx_step_plan *mx_step_plan_for(mx_train_step *self, const mx_plan_key *key);
void mx_step_plans_drop(mx_train_step *self);

#endif
