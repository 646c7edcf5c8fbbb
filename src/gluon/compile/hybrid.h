/* Hybridized blocks: what a block's forward compiles to, and which of these a call runs.
 *
 *     block -> plans (most recently used first, a bounded number)
 *                key: shapes, types, context of the inputs; training; which inputs and parameters want gradients
 *                compiled: plan, parameters in the order of its externals
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_HYBRID_H
#define MX_GLUON_HYBRID_H

#include "exec/plan/plan.h"
#include "gluon/block/core.h"

/* Plans of one block: the one that was not used for longest goes; only the last one used keeps a large arena. */
#define MX_MAX_PLANS 16
#define MX_MAX_PLAN_INPUTS 16 /* a call with more runs imperatively */

/* What a compiled forward was made for. */
typedef struct mx_plan_key {
    int n_in;
    bool training;
    bool recording; /* somebody wants gradients */
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
    bool *unplanned; /* NULL; set if values decide about shapes, so that there can be no plan */
    bool *waits;     /* NULL; set if a parameter waits for its shape, so that there can be no plan yet */
    bool whole;      /* the results' gradients are ones, and all of it runs at once */
    mx_code (*finish)(mx_program *program, const mx_compiled *made,
                      void *user); /* NULL; adds steps before the passes */
    void *user;
};
/* New reference; NULL with an error. */
mx_compiled *mx_compile(const struct mx_compile_request *request);
/* Parameters that wait for their shapes learn them from a trace and are initialised, in the order in which the
 * imperative run does it.  Where that run would draw random numbers in between, they go on waiting.
 * mx_learn_shapes: if any waits. */
mx_code mx_compile_learn(const struct mx_compile_request *request);
/* While mx_thread.learning is set, the thread runs a forward for that alone; one that fails is no error yet: the
 * imperative run, which knows more, reports it.  So front ends forget what was raised. */
mx_code mx_learn_shapes(const struct mx_compile_request *request);
bool mx_tree_waits(const mx_block *block); /* a parameter of the block or inside it waits for its shape */
/* Parameter p takes part in gradients on this context. */
bool mx_parameter_learns(const mx_parameter *p, mx_context context);

/* The key of a call in the thread's modes; false: such a call runs imperatively. */
bool mx_plan_key_make(mx_plan_key *key, mx_arrays in);
bool mx_plan_key_equal(const mx_plan_key *a, const mx_plan_key *b);
bool mx_compiled_valid(const mx_compiled *compiled); /* its parameters still learn, or do not, as they did */
/* Binds inputs and parameters; MX_DECLINED, without an error: a parameter has another shape or type than the plan. */
mx_code mx_compiled_bind(const mx_compiled *compiled, mx_frame *frame, mx_arrays in);

/* What a tree of blocks was like when somebody looked at it last. */
typedef struct mx_tree_state {
    uint64_t seen;   /* changes of blocks in the process until then; 0: never looked */
    uint64_t stamps; /* of the tree's blocks, folded */
    bool hooks;      /* a block below the root has hooks */
} mx_tree_state;
/* Children or hooks of the tree changed since the last look, or this is the first.  Looks at one number if no block of
 * the process changed. */
bool mx_tree_changed(mx_tree_state *state, const mx_block *block);
void mx_hybrid_changed(mx_block *block); /* a hook or a child of this block was added or removed */

/* True: the block ran, or failed, as a plan, and *out is the result.  False: it is to be run imperatively; *waits: only
 * this once, to learn shapes, so that plans of the blocks inside would be made in vain (mx_thread.hybrid_paused). */
bool mx_hybrid_call(mx_block *block, mx_arrays in, mx_arrays *out, bool *waits);
void mx_hybrid_forget(mx_block *block); /* plans are made anew */
void mx_hybrid_free(struct mx_hybrid *plans);
/* Number of plans that the block holds; the plan last used (not retained; NULL: none). For tests and benchmarks. */
int mx_hybrid_count(const mx_block *block);
mx_plan *mx_hybrid_last(const mx_block *block);

#endif
