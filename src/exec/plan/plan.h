/* Plans: programs with memory and kernels, ready to run; frames: their instances.
 *
 *     plan (immutable, shared by threads) --- program, places of the values, list of free frames
 *       +-- frame --- arena, one array header per value, one prepared kernel call per step
 *
 * Each run of a plan takes a frame; so a plan can be used by many threads at once, and several recorded calls can wait
 * for their backward.  A released frame goes back to its plan with its arena: running again allocates nothing.
 *
 * Headers in a frame are arrays that borrow their storage: those of the arena permanently, those of externals and
 * results from the bound arrays before each run (a parameter may have new memory by then).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_PLAN_H
#define MX_EXEC_PLAN_H

#include <pthread.h>

#include "base/rng.h"
#include "base/scratch.h"
#include "exec/backward.h"
#include "pass/memory.h"
#include "pass/program.h"

typedef struct mx_frame mx_frame;
typedef struct mx_replay mx_replay;
typedef struct mx_captured mx_captured;

/* Values whose storage comes from outside. */
typedef struct mx_patch {
    int32_t value;
    int32_t from; /* slot of the external or number of the result */
} mx_patch;

/* A parameter that prepared steps read. */
typedef struct mx_origin {
    int32_t slot;   /* of the external */
    uint64_t stamp; /* of the contents that were read; 0: they may change at any time */
    int64_t offset; /* of the bound array in its storage */
} mx_origin;

typedef struct mx_plan {
    mx_object object;
    char *name;
    mx_program program;
    mx_memory memory;
    int32_t *calls; /* (n_calls) steps that have a kernel, in order */
    int32_t n_calls, n_forward;
    int32_t n_prepared;  /* the first calls: run only when a parameter changed */
    int32_t list_length; /* total number of inputs and outputs of all calls */
    MX_VEC(mx_patch)
    from_externals, from_results, to_results; /* from and to: results of the forward and of the second part */
    MX_VEC(mx_patch) finished; /* results of the second part: value: the call after which `from` is complete; sorted */
    MX_VEC(int32_t) regions;   /* values that represent recordings of regions (region.h) */
    int64_t imperative_bytes;  /* of all intermediate arrays of the imperative run */
    bool writes;               /* some step writes to an external */
    bool capturable;           /* the device can run its calls as captured launches (capture.c) */
    mx_replay *replay;         /* the forward part as a graph (replay.c); owned; NULL: none is needed */
    MX_VEC(int32_t) from_prepared; /* values in the block of prepared values */
    MX_VEC(mx_origin) origins;     /* guarded by `preparing` */
    mx_array *prepared;        /* results of prepared steps from the origins; NULL: none yet; retained, guarded alike */
    pthread_mutex_t preparing; /* held while prepared calls run */
    pthread_mutex_t lock;
    mx_frame *free; /* unused frames, guarded by the lock */
    int free_count;
    int most_free; /* limit of unused frames */
} mx_plan;

/* Places between the calls where something else runs: exchanges with other processes. */
typedef struct mx_stops {
    int32_t n;
    const int32_t *before; /* (n) the call that stop i is before; ascending */
    /* Only queues work on the device, on the same memory in every run: it may be captured. */
    mx_code (*run)(void *user, int32_t i);
    int64_t (*touches)(void *user, int32_t i, mx_touch *spans); /* memory of that work; spans NULL: only their number */
    void *user;
} mx_stops;

typedef struct mx_bound_call {
    const mx_kernel *const *kernels; /* the first one is tried; declined ones are skipped permanently */
    mx_kernel_call call;
    int32_t alike; /* number of calls from here on that run as one (op->many); 1: this one alone */
} mx_bound_call;

struct mx_frame {
    mx_object object;
    mx_plan *plan;         /* retained while the frame is in use */
    mx_frame *next;        /* in the plan's list */
    mx_array *arena;       /* all intermediate values; retained; NULL: none */
    mx_array *headers;     /* (values) */
    mx_bound_call *calls;  /* (n_calls) */
    mx_array **lists;      /* arguments of all calls */
    mx_array **externals;  /* (externals) what is bound; retained */
    mx_array **results;    /* (results) arrays of the results; retained, without history */
    mx_array *prepared;    /* that this run reads; retained while it runs */
    mx_captured *captured; /* its calls as captured launches (capture.c); owned; NULL: none */
    mx_scratch scratch;    /* of kernels */
    /* Told while the second part runs: its result i (from 0) is complete.  NULL: nobody wants to know. */
    void (*ready)(void *user, int64_t i);
    void *ready_user;
    const mx_stops *stops; /* of this run; NULL: none */
    mx_rng rng;            /* position at the start of the forward part, if the plan has a replay */
    size_t bytes;          /* of this allocation, which holds all of the above but the arena */
};

extern const mx_kind mx_plan_kind, mx_frame_kind;

/* Takes the program over (also on failure); runs the passes, plans memory.  New reference. */
mx_plan *mx_plan_new(mx_program *program, const char *name);
/* A frame for one run: new reference; release returns it to the plan. */
mx_frame *mx_plan_frame(mx_plan *plan);

/* Frees the memory of unused frames, unless it is little: for plans that are currently not run. */
void mx_plan_trim(mx_plan *plan);

/* Binds external `slot`; the array must have its shape, type and context. */
mx_code mx_frame_bind(mx_frame *frame, int64_t slot, mx_array *array);
bool mx_frame_fits(const mx_frame *frame, int64_t slot, const mx_array *array); /* it has that shape and type */
/* Runs the forward part; results are in frame->results. */
mx_code mx_frame_forward(mx_frame *frame);
/* Runs the second part: result forward_results + i is written into destination[i] (NULL: a new array, which is stored
 * there).  keep: its inputs are preserved, so that it can run again. */
mx_code mx_frame_backward(mx_frame *frame, mx_array **destination, bool keep);
/* Runs both parts as one, for a training step: nothing in between is saved. */
mx_code mx_frame_run(mx_frame *frame);
/* The same with between() before call `until`; frame->ready gets the results that are complete by then, unless the calls
 * are captured. */
mx_code mx_frame_run_around(mx_frame *frame, int32_t until, mx_code (*between)(void *user), void *user);
/* Runs both parts as one with stops, which are captured like the calls. */
mx_code mx_frame_run_stops(mx_frame *frame, const mx_stops *stops);
void mx_frame_free(mx_frame *frame, const mx_program *program); /* frees it permanently */
void mx_frame_forget(mx_frame *frame);                          /* releases the bound inputs */

/* Runs the bound calls [begin, end). */
mx_code mx_frame_run_calls(mx_frame *frame, int32_t begin, int32_t end);
mx_code mx_frame_run_each(mx_frame *frame, int32_t begin, int32_t end);             /* not as captured launches */
mx_code mx_frame_run_alike(mx_frame *frame, int32_t c, int32_t end, int32_t *next); /* one call, or several as one */

/* ---- captured launches (capture.c) --------------------------------------------------------------------------------- */
bool mx_frame_captures(const mx_frame *frame, int32_t begin, int32_t end); /* worthwhile and possible */
mx_code mx_frame_run_captured(mx_frame *frame, int32_t begin, int32_t end);
void mx_captured_free(mx_captured *first);
extern _Atomic int64_t mx_stops_captured; /* runs of captured launches that had stops; for the tests */

/* ---- what depends on parameters alone (prepare.c) --------------------------------------------------------------- */
mx_code mx_plan_find_prepared(mx_plan *plan); /* while the plan is created */
mx_code mx_frame_prepare(mx_frame *frame);    /* after binding parameters: updates frame->prepared */
/* Frees the memory if the plan ends, or if plans hold much. */
void mx_plan_forget_prepared(mx_plan *plan, bool ends);

/* ---- recorded calls (tape_call.c) -------------------------------------------------------------------------------- */
/* Puts a compiled call on the tape: `in` are the arrays that results of the second part belong to, `out` new arrays of the
 * results.  The node holds the frame until its backward has run. */
mx_code mx_tape_append_frame(mx_frame *frame, int n_in, mx_array *const *in, int n_out, mx_array *const *out);
mx_code mx_frame_gradient(mx_pass *pass, mx_node *node, mx_array **ograd, mx_array **igrad);

/* ---- gradients of gradients (replay.c) --------------------------------------------------------------------------- */
/* The computation of a compiled call, to be recorded operator by operator: the graph of its forward part, and the
 * variables of its inputs and parameters, in the order of the edges of the call's node on the tape. */
struct mx_replay_source {
    int64_t n_results;
    const mx_gentry *results;
    int64_t n_kept; /* nodes that draw unused random numbers */
    const mx_gentry *kept;
    int64_t n_inputs;
    mx_gnode *const *inputs; /* NULL: missing */
    int64_t n_parameters;
    mx_gnode *const *parameters;
};
mx_replay *mx_replay_new(const struct mx_replay_source *source); /* owned by the caller; NULL with an error */
void mx_replay_free(mx_replay *replay);
/* Runs the call's forward again, recorded, with the same random numbers, and the backward pass through that recording. */
mx_code mx_replay_gradient(mx_pass *pass, mx_node *node, mx_array *const *ograd);
/* The results of a compiled call as values of a graph: edges (node->n_in) replace its inputs and parameters; where a node
 * is NULL the call's own variable stays.  results (node->n_out) receives new references; MX_ERR_UNSUPPORTED: the call does
 * not keep its graph. */
mx_code mx_replay_results(const struct mx_node *node, const struct mx_gentry *edges, struct mx_gentry *results);

#endif
