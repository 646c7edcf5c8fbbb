/* The state of a thread: one struct per thread, which decides how calls are handled.
 *
 *     mx_thread.modes.recording      calls are appended to the tape
 *     mx_thread.catching.run         calls on symbolic arrays go to a callback
 *     ...
 *
 * Every field belongs to the file that its comment names: that file sets the field and restores the old value when its
 * scope ends.  A zeroed struct (with the context cpu(0)) is the default state.  Fields of higher layers are numbers,
 * flags or pointers to types that those layers define.
 *
 * Not here, because they are resources of a thread and not its mode: the error record (error.c), the lists of
 * small blocks (alloc.c), the objects that the current scope owns (object.c), the thread's number in traces
 * (exec/profile.c).  The CUDA part, a separate library, stores the current device and what is being captured
 * (cuda/device.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_THREAD_H
#define MX_BASE_THREAD_H

#include "base/dict.h"
#include "base/vec.h"
#include "gluon/array.h"
#include "gluon/op.h"

/* How calls are handled.  Code that runs a graph inside of a call saves, replaces and restores all of it. */
typedef struct mx_modes {
    bool recording; /* exec/mode.c: calls are appended to the tape */
    bool training;  /* exec/mode.c: operators run in training mode */
    bool tracing;   /* operators without inputs (zeros, random numbers) create graph nodes, too */
    bool retain;    /* backward of a plan may run again: regions retain their tape */
    bool plans;     /* recorded subgraphs may run as plans: their gradients are not differentiated again */
    int unroll;     /* loops of at most so many steps are unrolled into the graph of a plan; 0: none */
} mx_modes;

/* Names a node: name as it was given, or NULL; the result is freed with mx_strfree. */
typedef char *(*mx_name_fn)(const char *name, const char *hint);
/* One scope that names nodes. */
typedef struct mx_namer {
    char *prefix;     /* owned; NULL: none */
    mx_dict counters; /* per hint */
} mx_namer;

typedef struct mx_scope_note {
    char *key, *text; /* owned; key NULL: the mark where a scope begins */
} mx_scope_note;

/* A callback that gets the calls on symbolic arrays instead of creating nodes: it collects the calls of an optimizer's
 * update, which write into arrays. */
typedef mx_code (*mx_catch_fn)(void *user, mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out,
                               mx_array **out);
typedef struct mx_catch {
    mx_catch_fn run; /* NULL: none */
    void *user;
} mx_catch;

typedef struct mx_thread_state {
    /* ---- read by every call -------------------------------------------------------------------------------- */
    mx_modes modes;
    int precision_settled;       /* > 0: mixed precision casts no inputs (exec/amp.h); counted up and down */
    bool np_shape;               /* ndarray/np_shape.c: a size of 0 is an empty axis, () a scalar; unknown is -1 */
    bool np_array;               /* ndarray/promote.c: a language binding hands out arrays with NumPy's rules */
    bool np_float64;             /* ndarray/promote.c: new arrays of floats are float64 */
    bool sharing;                /* exec/call.c: reshaped results share the memory of their input */
    struct mx_gather *gathering; /* exec/plan/gather.c: calls are collected to run as one; NULL: they run at once */
    mx_context context;          /* ndarray/context.c: of new arrays */
    struct mx_rng *rng;          /* base/rng.c: source of random numbers; NULL: that of the process */
    struct mx_scratch *scratch;  /* base/scratch.c: scratch memory of kernels; NULL: from the allocator */
    bool unchecked;              /* exec/check.c: checking mode leaves these calls alone */
    bool scaled;                 /* exec/backward.c: a backward runs in checking mode; a loss may be scaled */
    bool in_part;                /* base/threads.c: runs a part of a parallel loop: no nested parallelism */

    /* ---- building graphs ------------------------------------------------------------------------------------- */
    mx_catch catching;  /* graph/call.c */
    mx_pointers *draws; /* graph/call.h: nodes that draw random numbers are appended here, retained; NULL: nowhere */
    struct {
        mx_namer outermost;       /* graph/names.c: outside of any scope */
        MX_VEC(mx_namer) opened;  /* graph/names.c: the innermost scope last */
        const char *next;         /* graph/names.c: name of the next node; NULL: an automatic one */
        const char *next_hint;    /* graph/names.c: of the next numbered name; NULL: that of the operator */
        mx_name_fn asked;         /* graph/names.c: callback of a language binding that names nodes; NULL: none */
        int64_t asked_depth;      /* graph/names.c: number of open scopes in which it is called */
        const char *next_control; /* exec/control/trace.c: name of the next loop or condition; NULL: likewise */
    } names;
    MX_VEC(mx_scope_note) notes; /* graph/notes.c: attributes that every new node gets; a scope begins with a mark */

    /* ---- calling blocks -------------------------------------------------------------------------------------- */
    struct mx_block *name_scope; /* gluon/block/naming.c: innermost open scope; retained by the code that opened it */
    struct {
        const struct mx_block *block;
        mx_arrays arrays;
    } substitutes;        /* gluon/block/block.c: replace the parameters of one block while its forward runs */
    mx_pointers *waiting; /* gluon/compile/trace.c: blocks that wait for shapes are appended here; NULL: nowhere */
    bool inferring;       /* gluon/block/parameter.c: parameters without elements give abstract arrays */
    bool learning;      /* gluon/compile/compile.c: a forward runs for shapes alone; its failure is not an error yet */
    bool hybrid_paused; /* gluon/block/call.c: blocks run imperatively although they are hybridized */
    struct {
        struct mx_block *(*make)(void *user, int64_t channels, int64_t stride, bool downsample, int64_t in_channels);
        void *user;
    } residual_maker; /* gluon/zoo/resnet.c: the caller's own residual blocks; make NULL: none */
} mx_thread_state;

extern _Thread_local mx_thread_state mx_thread; /* of the running thread */

#endif
