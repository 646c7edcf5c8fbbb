/* Optimizers, learning-rate schedules and metrics from the inside.
 *
 * Their rows stand in gluon/def/{optimizers,schedules,metrics}.c; `methods` of a row points to the tables here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_LEARNING_H
#define MX_GLUON_LEARNING_H

#include "base/object.h"
#include "gluon/class/class.h"
#include "gluon/block/initialize.h"
#include "gluon/metric.h"
#include "gluon/optimizer.h"

/* ---- learning-rate schedules ------------------------------------------------------------------------------------- */
struct mx_lr_scheduler {
    mx_object object;
    const mx_class *cls; /* NULL: a user's function */
    void *options;
    double base_lr;  /* where the schedule stands now; the optimizer sets it to its own learning rate */
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

/* What is kept for one weight between its updates. */
struct mx_optimizer_state {
    mx_object object;
    mx_array *array[MX_MAX_STATES]; /* retained; NULL behind the last */
    mx_array *master;               /* retained: the float32 weight behind a 16-bit one; NULL: none */
    mx_array *grad32; /* retained: the gradient as float32, if there is a master and the optimizer not fused */
    int64_t updates;  /* how many there were */
    int64_t index;    /* number of the weight in its trainer */
    void *own;        /* what the hooks of a user's optimizer made; NULL: nothing */
    void (*release_own)(void *own); /* NULL: nothing to do */
};

/* One update of one weight, as an optimizer sees it. */
typedef struct mx_update {
    mx_array *weight, *grad;
    mx_array **state; /* made by make_states; the optimizer writes into them */
    double lr, wd;    /* with the parameter's multipliers and the schedule */
    int64_t t;        /* how often this weight was updated, this time included: 1, 2, ... */
    double base_lr;   /* without the parameter's multiplier */
    const char *name; /* of the parameter; "": unknown */
    mx_array *master; /* the float32 weight behind a 16-bit one, for optimizers that are `fused`; NULL: none */
} mx_update;

typedef struct mx_optimizer_methods {
    int states; /* arrays like the weight, zero at first */
    mx_code (*make_states)(mx_optimizer *self, mx_array *weight,
                           mx_array **state); /* new references; NULL: `states` zeros */
    mx_code (*update)(mx_optimizer *self, mx_update *update);
    mx_code (*start)(mx_optimizer *self); /* checks options beyond the schema's rules; NULL: nothing to do */
    bool lazy;  /* takes row_sparse gradients and updates their rows only; others get them made dense */
    bool fused; /* an update is one MX_RUN_UPDATE(), which knows masters; others work on the master itself */
} mx_optimizer_methods;

/* The options that all optimizers share; each row's schema begins with its own and ends with these. */
#define MX_OPTIMIZER_COMMON(X, rate) \
    X(FLOAT, learning_rate, rate, "", "step size; None: the schedule's, or 0.01") \
    X(FLOAT, wd, "0.0", "", "weight decay") \
    X(FLOAT, rescale_grad, "1.0", "", "gradients are multiplied by it before anything else") \
    X(FLOAT, clip_gradient, "None", "", "gradients are cut to [-c, c]; None: not at all") \
    X(PTR, lr_scheduler, "None", "mx_lr_scheduler", "schedule of the learning rate") \
    X(INT, begin_num_update, "0", "0..", "number of updates done before") \
    X(BOOL, multi_precision, "False", "", "keep float32 masters of 16-bit weights") \
    X(INT, aggregate_num, "0", "0..", "accepted for compatibility")

struct mx_optimizer {
    mx_object object;
    const mx_class *cls;                                   /* NULL: a user's */
    void *options;                                         /* typed options of the class */
    double learning_rate, wd, rescale_grad, clip_gradient; /* clip < 0: none */
    mx_lr_scheduler *scheduler;                            /* retained; NULL: constant */
    bool multi_precision;
    int64_t begin_num_update;
    int64_t num_update;       /* the most updates that any weight has had */
    double memory[2];         /* numbers that an optimizer keeps for all weights together */
    char *name;               /* owned; of a user's optimizer */
    mx_update_fn user_update; /* of users' optimizers */
    int user_states;
    mx_optimizer_hooks hooks; /* of users' optimizers with states of their own; update is NULL: none */
    void *user;
};

/* A number, flag or None (NaN) of the row's typed struct by name. */
double mx_optimizer_float(const mx_optimizer *self, const char *option);
mx_code mx_optimizer_zeros(mx_array *weight, int count, mx_array **state); /* `count` new zero arrays like the weight */
mx_optimizer_state *mx_optimizer_state_of(mx_optimizer *self, int64_t index, mx_array *weight); /* scope-owned */
/* One step of a row's optimizer with rates, states and count given by the caller. */
mx_code mx_optimizer_apply(mx_optimizer *self, mx_update *u);
/* mx_optimizer_update with the parameter's name for those that look at it, and clear messages. */
mx_code mx_optimizer_update_named(mx_optimizer *self, mx_optimizer_state *state, mx_array *weight, mx_array *grad,
                                  double lr_mult, double wd_mult, const char *name);

/* ---- metrics ----------------------------------------------------------------------------------------------------- */
#define MX_METRIC_STATE 6

/* What was counted.  An update fills a fresh one, which is then added to the metric's two: one since mx_metric_reset,
 * one since mx_metric_reset_local. */
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
mx_code mx_tally_grow(mx_tally *tally, int64_t side); /* the table has at least `side` rows and columns */

extern const mx_kind mx_optimizer_kind, mx_optimizer_state_kind, mx_lr_scheduler_kind, mx_metric_kind;
mx_optimizer *mx_optimizer_make(mx_class *cls, const void *options); /* all owned by the scope */
mx_lr_scheduler *mx_lr_scheduler_make(mx_class *cls, const void *options);
mx_metric *mx_metric_make(mx_class *cls, const void *options);

#endif
