/* Programs: graphs as flat lists that passes can change.
 *
 *     values    v0 (64, 1, 28, 28)   v1 (6, 1, 5, 5) ...          shapes and types are known: a program is typed
 *     steps     s0: v3 = Convolution(v0, v1, v2)   s1: v4 = Activation(v3) ...
 *               [0, forward) the forward part, [forward, n) the backward part and the update;
 *               [0, prepared) depend on parameters alone: run when one of them changed
 *     externals v0 input 0, v1 parameter conv0_weight ...          arrays passed to every run
 *     results   values that it returns: those of the forward part, then gradients
 *
 * Steps are in the order of their creation, which is that of the imperative run: random numbers, running statistics
 * and updates happen in the same order in both.  Passes replace, join or kill steps but never move one across another
 * that writes to an external or draws random numbers.
 *
 * Invariants (verify.c): an input of a step is an external or computed by an earlier live step; one step computes a value,
 * except externals, which steps may write to (`out` names the external value itself).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_PASS_PROGRAM_H
#define MX_PASS_PROGRAM_H

#include "base/vec.h"
#include "graph/node.h"
#include "ndarray/device.h"

typedef struct mx_value {
    mx_shape_t shape; /* known */
    int dtype;        /* known */
    int32_t maker;    /* step that computes it; -1: an external, or none any more */
    int32_t external; /* slot; -1: none */
    int32_t uses;     /* by live steps and results; updated by mx_program_count */
} mx_value;

typedef struct mx_step {
    mx_op *op;
    void *attrs;         /* typed, in the program's memory; NULL: the operator has none */
    int32_t *in, *out;   /* (n_in), (n_out) values in the program's memory; in: -1 missing */
    int32_t n_in, n_out; /* all declared inputs, as kernels expect */
    bool training;       /* mode of its kernel */
    bool dead;           /* to be removed by mx_program_sweep */
    const char *name;    /* of its node, in the program's memory */
} mx_step;

typedef enum mx_external_kind {
    MX_EXTERNAL_INPUT,
    MX_EXTERNAL_PARAMETER,
    MX_EXTERNAL_CONSTANT, /* never changes */
    MX_EXTERNAL_STATE,    /* of an optimizer */
} mx_external_kind;
typedef struct mx_external {
    mx_external_kind kind;
    int32_t value;   /* that represents it */
    int64_t index;   /* of an input: its position; of a parameter: its number in the source's list */
    mx_array *array; /* of a constant or state: retained */
    bool written;    /* some step writes to it */
} mx_external;

typedef struct mx_chunk {
    struct mx_chunk *next;
    size_t bytes, used; /* of the memory after this struct */
} mx_chunk;

typedef struct mx_program {
    MX_VEC(mx_value) values;
    MX_VEC(mx_step) steps;
    MX_VEC(mx_external) externals;
    MX_VEC(int32_t) results; /* values; -1: a gradient that is zero */
    int64_t forward;         /* steps of the forward part */
    int64_t prepared;        /* the first of them, which depend on parameters alone (prepare.c) */
    int64_t forward_results; /* results of the forward part */
    int64_t n_inputs;        /* inputs of the forward part; those after them are gradients of its results */
    bool training;           /* the forward part runs in training mode, whether or not a second part follows */
    bool recompute;          /* memory matters more than time (segments.c) */
    mx_context context;
    const mx_device *device; /* of the context: passes query its capabilities */
    mx_chunk *memory;        /* lists, attributes and names: freed with the program */
    mx_pointers kept;        /* what steps call (op/control.h); retained */
} mx_program;

/* One graph with two groups of results: those of the forward part, and those of the second part (entries with node
 * NULL are zero).  `inputs` are variables in the order of the caller's arrays; other variables are parameters (they
 * have an owner) or constants (they have a value).  Shapes must be known. */
struct mx_program_source {
    int64_t n_results, n_gradients;
    const mx_gentry *results, *gradients;
    int64_t n_kept; /* nodes of the forward part that run although no result needs them: they draw random numbers */
    const mx_gentry *kept;
    int64_t n_inputs, n_forward_inputs; /* those after the first n_forward_inputs are gradients of the results */
    mx_gnode *const *inputs;
    int64_t n_parameters;
    mx_gnode *const *parameters; /* variables with an owner: external parameter i is number i of these */
    bool training;               /* of the forward part; steps of the second part always train */
    bool recompute;              /* values are computed again rather than saved (segments.c) */
    uint64_t last_forward;       /* nodes with a greater sequence number belong to the second part */
    mx_context context;
    bool *unplanned; /* set if a shape depends on values, not only on the shapes of the inputs */
};
mx_code mx_program_build(mx_program *program, const struct mx_program_source *source);
void mx_program_free(mx_program *program);

/* Functions for passes. */
static inline bool mx_program_can(const mx_program *program, uint32_t capability) /* of enum mx_capabilities */
{
    return (program->device->can & capability) == capability;
}
static inline int mx_program_block(const mx_program *program) /* channels of a block; 0: not blocked */
{
    return program->device->channel_block ? program->device->channel_block() : 0;
}
void *mx_program_alloc(mx_program *program, size_t bytes);                         /* zeroed; freed with the program */
int32_t mx_program_value(mx_program *program, const mx_shape_t *shape, int dtype); /* a new value; -1: out of memory */
int32_t mx_program_constant(mx_program *program, mx_array *array);                 /* a value that represents it */
/* The value of an optimizer's state; index: chosen by the caller to find it again. */
int32_t mx_program_state(mx_program *program, mx_array *array, int64_t index);
/* Appends a step whose first output is written over external value `target`; attrs are copied. */
mx_code mx_program_update(mx_program *program, const mx_step *step, int32_t target);
/* Every use of `from` becomes one of `to`. */
void mx_program_replace(mx_program *program, int32_t from, int32_t to);
void mx_program_count(mx_program *program); /* recomputes uses and makers */
void mx_program_sweep(mx_program *program); /* removes dead steps */
static inline bool mx_step_mutates(const mx_step *step) { return step->op->mutates != 0; }
/* The step's effect is more than its results: it must not be removed, duplicated or merged with an equal one. */
bool mx_step_has_effects(const mx_program *program, const mx_step *step);
/* The step reads an external that some step writes to: when it runs matters. */
bool mx_step_reads_written(const mx_program *program, const mx_step *step);
static inline int64_t mx_value_bytes(const mx_value *value)
{
    return mx_shape_size(&value->shape) * mx_dtype_size((mx_dtype)value->dtype);
}

#endif
