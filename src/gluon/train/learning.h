/* Internals of optimizers, learning-rate schedules and metrics.
 *
 * Their class entries are in gluon/def/{optimizers,schedules,metrics}.c; `methods` of an entry points to the tables here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_LEARNING_H
#define MX_GLUON_LEARNING_H

#include "base/object.h"
#include "gluon/class/class.h"
#include "gluon/block/initialize.h"
#include "gluon/metric.h"
#include "gluon/optimizer.h"
#include "gluon/train/id_table.h"

/* ---- learning-rate schedules ------------------------------------------------------------------------------------- */
struct mx_lr_scheduler {
    mx_object object;
    const mx_class *cls; /* NULL: a user's function */
    void *options;
    double base_lr;  /* the current base rate; the optimizer sets it to its own learning rate */
    mx_rate_fn rate; /* of users; NULL: the class's */
    void *user;
    void (*release)(void *user);
    double state[4]; /* what a schedule remembers between calls */
};
typedef struct mx_lr_scheduler_methods {
    mx_code (*start)(mx_lr_scheduler *self); /* checks the options and sets base_lr and state */
    double (*rate)(mx_lr_scheduler *self, int64_t num_update);
} mx_lr_scheduler_methods;

/* ---- optimizers -------------------------------------------------------------------------------------------------- */
#define MX_MAX_STATES 4

/* The state of one weight between its updates. */
struct mx_optimizer_state {
    mx_object object;
    mx_array *array[MX_MAX_STATES]; /* retained; NULL after the last */
    mx_array *master;               /* retained: the float32 master of a 16-bit weight; NULL: none */
    mx_array *grad32; /* retained: the gradient as float32, if there is a master and the optimizer not fused */
    int64_t updates;  /* number of updates; the optimizer's table counts those of updaters and trainers */
    mx_id id;         /* of the weight; its name is interned */
    int64_t count_at; /* where the optimizer's table of counts has this id: a hint */
    mx_array *given[MX_MAX_STATES + 1]; /* retained: arrays set from outside, NULL for None, until the next update
                                           sorts it into array and master: mx_optimizer_state_settle() */
    int n_given;                        /* 0 and !loose: nothing was set */
    bool loose;                         /* `given` is pending, and own may be on another device */
    void *own;                          /* state of a user's optimizer, from its hooks; NULL: none */
    void (*release_own)(void *own);     /* NULL: nothing to do */
};

/* One update of one weight: the arguments of an optimizer. */
typedef struct mx_update {
    mx_array *weight, *grad;
    mx_array **state;  /* from make_states; the optimizer writes into them */
    double lr, wd;     /* with the parameter's multipliers and the schedule */
    int64_t t;         /* number of this weight's updates, including this one: 1, 2, ... */
    double base_lr;    /* without the parameter's multiplier */
    const char *name;  /* the optimizer's name of the weight: mx_optimizer_set_name(); "": none */
    mx_array *master;  /* the float32 master of a 16-bit weight, for optimizers that are `fused`; NULL: none */
    const char *label; /* of the weight in messages */
    mx_id id;          /* of the weight, for mx_optimizer_apply() */
} mx_update;

typedef struct mx_optimizer_methods {
    int states; /* arrays like the weight, zero at first */
    mx_code (*make_states)(mx_optimizer *self, mx_array *weight,
                           mx_array **state); /* new references; NULL: `states` zeros */
    mx_code (*update)(mx_optimizer *self, mx_update *update);
    mx_code (*start)(mx_optimizer *self); /* checks options beyond the schema's rules; NULL: nothing to do */
    bool lazy;           /* takes row_sparse gradients and updates their rows only; others get dense ones */
    const char *memory;  /* MXNet's name of the number in memory[0] of an optimizer; NULL: there is none */
    bool master_last;    /* front ends show a state with its master as (state, master), not (master, state) */
    bool one_in_tuple;   /* and a single array of state as (array,) */
    bool lazy_if_sparse; /* lazy only for row_sparse weights and parameters; dense ones get dense gradients */
    bool own_schedule;   /* a schedule keeps its own base rate, even if learning_rate is given */
    bool early_rate;     /* the rate is the schedule's before the update is counted */
    bool fused;          /* an update is one MX_RUN_UPDATE(), which supports masters; others update the master itself */
} mx_optimizer_methods;

/* The options that all optimizers share.  A schema begins with the positional options of front ends, in order; these
 * follow and are keyword-only (`by_name` of the class entry).  An optimizer with its own default rate has
 * MX_OPTIMIZER_RATE among the first. */
#define MX_OPTIMIZER_RATE(X, rate) X(FLOAT, learning_rate, rate, "", "step size; None: the schedule's, or 0.01")
#define MX_OPTIMIZER_REST(X, aggregate) \
    X(FLOAT, wd, "0.0", "", "weight decay") \
    X(FLOAT, rescale_grad, "1.0", "", "gradients are multiplied by it before anything else") \
    X(FLOAT, clip_gradient, "None", "", "gradients are clipped to [-c, c]; None: not at all") \
    X(PTR, lr_scheduler, "None", "mx_lr_scheduler", "schedule of the learning rate") \
    X(INT, begin_num_update, "0", "0..", "number of updates done before") \
    X(BOOL, multi_precision, "False", "", "keep float32 masters of 16-bit weights") \
    X(INT, aggregate_num, aggregate, "0..", "how many weights a program may update in one call; accepted for compatibility")
#define MX_OPTIMIZER_COMMON(X) MX_OPTIMIZER_RATE(X, "None") MX_OPTIMIZER_REST(X, "0")
#define MX_OPTIMIZER_RATED 7  /* by_name of classes whose options end with MX_OPTIMIZER_REST */
#define MX_OPTIMIZER_PLAIN 8  /* ... with MX_OPTIMIZER_COMMON */

/* Per-weight data: multipliers, names, counts (rates.c). */
typedef struct mx_rates {
    mx_id_table lr_mult, wd_mult;   /* double: by id of a weight, or by its name */
    mx_id_table noted_lr, noted_wd; /* double: from the variables of a symbol, by name */
    mx_id_table names;              /* const char *, interned: of a weight, by id */
    mx_id_table parameters;         /* mx_parameter, retained: by id */
    mx_id_table counts;             /* mx_id_table, owned, by number of the device: how often each id was updated */
    int64_t device;                 /* the device whose counts are used */
    mx_id_table *current;           /* in `counts`: those of device `current_of`; NULL: look it up */
    int64_t current_of;
} mx_rates;

struct mx_optimizer {
    mx_object object;
    const mx_class *cls;                                   /* NULL: a user's */
    void *options;                                         /* typed options of the class */
    double learning_rate, wd, rescale_grad, clip_gradient; /* clip < 0: none */
    mx_lr_scheduler *scheduler;                            /* retained; NULL: constant */
    bool multi_precision;
    int64_t aggregate_num;
    int64_t begin_num_update;
    int64_t num_update; /* the largest update count of any weight */
    mx_rates rates;
    double memory[2];         /* numbers that an optimizer keeps for all weights together */
    char *name;               /* owned; of a user's optimizer; NULL: the class's */
    mx_update_fn user_update; /* of users' optimizers */
    int user_states;
    mx_optimizer_hooks hooks; /* of users' optimizers with states of their own; update is NULL: none */
    void *user;
};

/* A number, flag or None (NaN) of the class's typed struct by name. */
double mx_optimizer_float(const mx_optimizer *self, const char *option);
const mx_optimizer_methods *mx_optimizer_methods_of(const mx_optimizer *self); /* of its class; NULL: a user's */
mx_optimizer *mx_optimizer_named(const char *name);                            /* without a class; the caller's */
/* A given rate (not NaN) takes precedence over the schedule's; without both it is 0.01.  The schedule starts from it,
 * unless the class says otherwise. */
void mx_optimizer_settle_rate(mx_optimizer *self, double given);
/* hooks NULL: the class's own update again.  On failure, out of memory, `user` stays the caller's. */
mx_code mx_optimizer_set_hooks(mx_optimizer *self, const mx_optimizer_hooks *hooks, void *user);

/* ---- rates.c */
void mx_rates_free(mx_rates *rates);
mx_id_table *mx_rates_counts(mx_rates *rates, int64_t device, bool make); /* NULL: none, or out of memory */
bool mx_optimizer_sparse_weight(const mx_optimizer *self, mx_id id);      /* its parameter is row_sparse */
double mx_optimizer_lr_mult(const mx_optimizer *self, mx_id id);
double mx_optimizer_wd_mult(const mx_optimizer *self, mx_id id);
const char *mx_optimizer_name_of(const mx_optimizer *self, mx_id id);  /* "": none */
const char *mx_optimizer_label_of(const mx_optimizer *self, mx_id id); /* for messages: that, or its parameter's name */
int64_t mx_optimizer_count_up(mx_optimizer *self, mx_id id);           /* the new count; -1: out of memory */
/* The same for a state's weight, which is on this array's device; without a search. */
int64_t mx_optimizer_count_state(mx_optimizer *self, mx_optimizer_state *state, const mx_array *weight);
/* Sets the count of a state's weight to the state's number of updates. */
mx_code mx_optimizer_set_count(mx_optimizer *self, mx_optimizer_state *state, const mx_array *weight);
void mx_id_table_drop_objects(mx_id_table *table); /* releases the values, empty afterwards */

/* ---- optimizer_state.c */
mx_code mx_optimizer_zeros(mx_array *weight, int count, mx_array **state); /* `count` new zero arrays like the weight */
mx_optimizer_state *mx_optimizer_state_of(mx_optimizer *self, mx_id id, mx_array *weight); /* scope-owned */
bool mx_optimizer_keeps_master(const mx_optimizer *self, const mx_array *weight);
/* The class's state arrays for a weight, ignoring hooks: new references, NULL after the last. */
mx_code mx_optimizer_make_arrays(mx_optimizer *self, mx_array *weight, mx_array *array[MX_MAX_STATES]);
/* A state of given arrays in the order of the class, including the master; scope-owned. */
mx_optimizer_state *mx_optimizer_state_given(mx_id id, mx_arrays arrays);
mx_code mx_optimizer_state_settle(const mx_optimizer *self, mx_optimizer_state *state, mx_array *weight);

/* ---- optimizer_update.c */
/* One step of a class's optimizer with rates, states and count given by the caller. */
mx_code mx_optimizer_apply(mx_optimizer *self, mx_update *u);
/* mx_optimizer_update with the count from the optimizer's table, and the parameter's name, for clear messages. */
mx_code mx_optimizer_update_slot(mx_optimizer *self, mx_optimizer_state *state, mx_array *weight, mx_array *grad,
                                 double lr_mult, double wd_mult, const char *name);
/* An update with count and rates from the optimizer's own tables. */
mx_code mx_optimizer_update_id(mx_optimizer *self, mx_optimizer_state *state, mx_id id, mx_array *weight,
                               mx_array *grad);
/* A step on the float32 master of a 16-bit weight: update(user, master, gradient as float32), then weight = master. */
mx_code mx_update_master(mx_array *weight, mx_array *master, mx_array *grad32, mx_array *grad,
                         mx_code (*update)(void *user, mx_array *weight, mx_array *grad), void *user);

/* ---- metrics ----------------------------------------------------------------------------------------------------- */
#define MX_METRIC_STATE 6

/* The counts of a metric.  An update fills a new tally, which is then added to the metric's two: one since
 * mx_metric_reset, one since mx_metric_reset_local. */
typedef struct mx_tally {
    double sum, count;
    double state[MX_METRIC_STATE]; /* what a metric counts besides sum and count */
    double *table;                 /* owned; (side, side) counts of (prediction, label); NULL: none */
    int64_t side;
} mx_tally;

struct mx_metric {
    mx_object object;
    const mx_class *cls; /* NULL: a user's */
    void *options;
    char *name; /* owned; as shown */
    mx_tally local, global;
    mx_metric **children; /* (n_children) of CompositeEvalMetric; retained */
    int n_children;
    mx_metric_fn user_update; /* of users' metrics */
    void *user;
    void (*release)(void *user);
};
typedef struct mx_metric_methods {
    mx_code (*update)(const mx_metric *self, mx_tally *tally, mx_array *label, mx_array *pred); /* one pair */
    void (*finish)(const mx_metric *self, mx_tally *tally); /* after all pairs of an update; NULL: nothing to do */
    double (*value)(const mx_metric *self, const mx_tally *tally);              /* NULL: sum / count */
    void (*merge)(const mx_metric *self, mx_tally *into, const mx_tally *more); /* of state; NULL: added */
    mx_code (*start)(mx_metric *self); /* checks options, changes the name; NULL: nothing to do */
    bool ignores_labels;
} mx_metric_methods;

/* All elements of an array as doubles. */
typedef struct mx_numbers {
    double *v; /* owned; NULL after a failure */
    int64_t n;
} mx_numbers;
mx_numbers mx_numbers_of(const mx_array *x);
mx_numbers mx_numbers_of_argmax(mx_array *x, int64_t axis); /* indices of the largest elements along an axis */
void mx_numbers_free(mx_numbers *numbers);
mx_code mx_metric_fail_sizes(const mx_metric *self, const mx_array *label, const mx_array *pred);
void mx_tally_clear(mx_tally *tally);
void mx_tally_merge(const mx_metric *self, mx_tally *into, const mx_tally *more); /* tables have the same size */
mx_code mx_tally_grow(mx_tally *tally, int64_t side); /* the table has at least `side` rows and columns */

extern const mx_kind mx_optimizer_kind, mx_optimizer_state_kind, mx_updater_kind, mx_lr_scheduler_kind, mx_metric_kind;
mx_optimizer *mx_optimizer_make(mx_class *cls, const void *options); /* all owned by the scope */
mx_lr_scheduler *mx_lr_scheduler_make(mx_class *cls, const void *options);
mx_metric *mx_metric_make(mx_class *cls, const void *options);

#endif
