/* Plans: programs with memory and kernels, ready to run; frames: their instances.
 *
 *     plan (immutable, shared by threads) --- program, places of the values, list of free frames
 *       +-- frame --- arena, one array header per value, one prepared kernel call per step
 *
 * Whoever runs a plan takes a frame; so a plan can be used by many threads at once, and several recorded calls can wait
 * for their backward.  A frame that is released goes back to its plan with its arena: running again allocates nothing.
 *
 * Headers in a frame are arrays that borrow their storage: those of the arena have it for good, those of externals and
 * heads get it from the bound arrays before each run (a parameter may have got new memory meanwhile).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_PLAN_H
#define MX_EXEC_PLAN_H

#include <pthread.h>

#include "exec/backward.h"
#include "pass/memory.h"
#include "pass/program.h"

typedef struct mx_frame mx_frame;

/* Values whose storage comes from outside. */
typedef struct mx_patch {
    int32_t value;
    int32_t from; /* slot of the external or number of the head */
} mx_patch;

typedef struct mx_plan {
    mx_object object;
    char *name;
    mx_program program;
    mx_memory memory;
    int32_t *calls; /* (n_calls) steps that have a kernel, in order */
    int32_t n_calls, n_forward;
    int32_t list_length;                                   /* inputs and outputs of all calls together */
    MX_VEC(mx_patch) from_externals, from_heads, to_heads; /* heads of the forward part, heads of the second part */
    int64_t imperative_bytes; /* of all intermediate arrays that the imperative run would make */
    bool static_outputs;      /* the same output arrays every time, whoever holds them */
    pthread_mutex_t lock;
    mx_frame *free; /* unused frames, guarded by the lock */
    int free_count;
} mx_plan;

typedef struct mx_bound_call {
    const mx_kernel *const *kernels; /* the first one is the one to try; declined ones are passed over for good */
    mx_kernel_call call;
} mx_bound_call;

struct mx_frame {
    mx_object object;
    mx_plan *plan;        /* retained while the frame is out */
    mx_frame *next;       /* in the plan's list */
    mx_array *arena;      /* all intermediate values; retained; NULL: none */
    mx_array *headers;    /* (values) */
    mx_bound_call *calls; /* (n_calls) */
    mx_array **lists;     /* arguments of all calls */
    mx_array **externals; /* (externals) what is bound; retained */
    mx_array **heads;     /* (heads) arrays of the results; retained, without history */
    size_t bytes;         /* of this allocation, which holds all of the above but the arena */
};

extern const mx_kind mx_plan_kind, mx_frame_kind;

/* Takes the program over (also on failure); runs the passes, plans memory.  New reference. */
mx_plan *mx_plan_new(mx_program *program, const char *name);
/* A frame of one's own: new reference; release it to give it back. */
mx_frame *mx_plan_frame(mx_plan *plan);

/* Gives back the memory of frames that nobody uses, unless it is little: for plans that are not run at present. */
void mx_plan_trim(mx_plan *plan);

/* Binds external `slot`; the array must have its shape, type and context. */
mx_code mx_frame_bind(mx_frame *frame, int64_t slot, mx_array *array);
/* Runs the forward part; results are in frame->heads. */
mx_code mx_frame_forward(mx_frame *frame);
/* Runs the second part: head forward_heads + i is written into destination[i] (NULL: a new array, which is stored
 * there).  keep: what it needs stays as it is, so that it can run again. */
mx_code mx_frame_backward(mx_frame *frame, mx_array **destination, bool keep);
/* Runs both parts as one, as a training step does: nothing in between is kept for anybody. */
mx_code mx_frame_run(mx_frame *frame);
void mx_frame_free(mx_frame *frame, const mx_program *program); /* for good */
void mx_frame_forget(mx_frame *frame);                          /* lets go of the bound inputs */

/* ---- recorded calls (plan_tape.c) -------------------------------------------------------------------------------- */
/* Puts a compiled call on the tape: `in` are the arrays that the gradient heads belong to, `out` new arrays of the
 * results.  The node holds the frame until its backward ran. */
mx_code mx_tape_append_frame(mx_frame *frame, int n_in, mx_array *const *in, int n_out, mx_array *const *out);
mx_code mx_frame_gradient(mx_pass *pass, mx_node *node, mx_array **ograd, mx_array **igrad);

#endif
