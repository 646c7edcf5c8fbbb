/* Hybridized blocks: the plans that a block's forward compiles to, and the choice of one for a call.
 *
 *     block -> plans (most recently used first, a bounded number)
 *                key: shapes, types, context of the inputs; training; which inputs and parameters need gradients
 *                compiled: plan, parameters in the order of its externals
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_HYBRID_H
#define MX_GLUON_HYBRID_H

#include "exec/plan/plan.h"
#include "gluon/block/core.h"

/* Plans of one block: the least recently used is evicted; only the most recently used one keeps a large arena. */
#define MX_MAX_PLANS 16
#define MX_MAX_PLAN_INPUTS 16 /* a call with more runs imperatively */

/* What a forward was compiled for. */
typedef struct mx_plan_key {
    int n_in;
    bool training;
    bool recording; /* gradients are needed */
    mx_context context;
    mx_shape_t shape[MX_MAX_PLAN_INPUTS]; /* ndim -1: the input is absent */
    int type[MX_MAX_PLAN_INPUTS];
    bool wanted[MX_MAX_PLAN_INPUTS]; /* input i has a history */
} mx_plan_key;

typedef struct mx_compiled {
    mx_object object;
    mx_plan_key key;
    mx_plan *plan; /* retained */
    int64_t n_parameters;
    mx_parameter **parameters; /* retained */
    bool *wanted;              /* (n_parameters) it had a gradient when this was compiled */
} mx_compiled;

struct mx_compile_request {
    mx_block *block;
    mx_block *loss; /* NULL; else the result is loss(block(input 0), input 1 ...), as a training step needs it */
    const mx_plan_key *key;
    bool *unplanned; /* NULL; set if shapes depend on values, so that there can be no plan */
    bool *waits;     /* NULL; set if the shape of a parameter is unknown, so that there can be no plan yet */
    bool whole;      /* fused step: the results' gradients are ones, forward and backward run together */
    mx_code (*finish)(mx_program *program, const mx_compiled *made,
                      void *user); /* NULL; adds steps before the passes */
    void *user;
};
/* New reference; NULL with an error. */
mx_compiled *mx_compile(const struct mx_compile_request *request);
/* Infers unknown shapes of parameters from a trace and initialises these, in the order of the imperative run.  If that
 * run would draw random numbers in between, they stay deferred.
 * mx_learn_shapes: only if there are any. */
mx_code mx_compile_learn(const struct mx_compile_request *request);
/* While mx_thread.learning is set, the thread runs a forward only for this purpose.  If it fails, that is no error yet:
 * the imperative run, which has the data, reports it.  So front ends discard what was raised. */
mx_code mx_learn_shapes(const struct mx_compile_request *request);
bool mx_tree_waits(const mx_block *block); /* a parameter of the block or inside it has an unknown shape */
/* Parameter p takes part in gradients on this context. */
bool mx_parameter_learns(const mx_parameter *p, mx_context context);

/* The key of a call in the thread's modes; false: such a call runs imperatively. */
bool mx_plan_key_make(mx_plan_key *key, mx_arrays in);
bool mx_plan_key_equal(const mx_plan_key *a, const mx_plan_key *b);
bool mx_compiled_valid(const mx_compiled *compiled); /* the same parameters need gradients as when it was compiled */
/* Binds inputs and parameters; MX_DECLINED, without an error: the shape or type of a parameter differs from the plan. */
mx_code mx_compiled_bind(const mx_compiled *compiled, mx_frame *frame, mx_arrays in);

/* The state of a tree of blocks at the last check. */
typedef struct mx_tree_state {
    uint64_t seen;   /* the global counter of changes then; 0: never checked */
    uint64_t stamps; /* of the tree's blocks, combined */
    bool hooks;      /* a block below the root has hooks */
} mx_tree_state;
/* Children or hooks of the tree changed since the last check, or this is the first one.  Compares one number if no block
 * of the process changed. */
bool mx_tree_changed(mx_tree_state *state, const mx_block *block);
void mx_hybrid_changed(mx_block *block); /* a hook or a child of this block was added or removed */

/* True: a plan ran, or failed, and *out is the result.  False: run the block imperatively; *waits: only this once, to
 * infer shapes, so that plans of the blocks inside would be wasted (mx_thread.hybrid_paused). */
bool mx_hybrid_call(mx_block *block, mx_arrays in, mx_arrays *out, bool *waits);
void mx_hybrid_forget(mx_block *block); /* plans are compiled again */
void mx_hybrid_free(struct mx_hybrid *plans);
/* Number of plans that the block holds; the plan last used (not retained; NULL: none). For tests and benchmarks. */
int mx_hybrid_count(const mx_block *block);
mx_plan *mx_hybrid_last(const mx_block *block);

#endif
