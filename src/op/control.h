/* Operators that call a subgraph (loops, conditions) or a user's code (Custom).
 *
 * What such an operator calls is a counted object, the last field of its attributes.  Attributes are copied as raw
 * memory; the owner of a copy (a graph node, a program) holds a reference (mx_callee_keep).
 *
 *     mx_invoke        on arrays: the callee runs, through mx_invoke itself, so what it does is recorded call by call
 *                      on symbolic arrays: one node
 *     plans            one step; its kernel (exec/control/region.c) runs the callee.  Where a gradient is wanted it records;
 *                      the hidden last output, the "history", represents the recording, which _backward_call runs
 *
 * Invariants: the last output of an operator with MX_OP_CALLS is hidden; no gradient reaches it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_CONTROL_H
#define MX_OP_CONTROL_H

#include "op/op.h"

typedef struct mx_callee mx_callee;

typedef struct mx_callee_methods {
    /* Infers shapes and types together, in both directions; the hidden output is ignored. */
    mx_code (*infer)(const mx_callee *callee, mx_infer *infer);
    /* Runs on arrays with elements; out (n_out visible ones): arrays of the scope. */
    mx_code (*run)(mx_callee *callee, int n_in, mx_array *const *in, int n_out, mx_array **out);
    bool (*writes)(const mx_callee *callee, int i);             /* input i is written; NULL: none is */
    const char *(*output_name)(const mx_callee *callee, int i); /* NULL: output, or output0, output1 ... */
    int (*count)(const mx_callee *callee);                      /* visible outputs; NULL: from the attributes */
    /* Its own attributes, for files: false past the last one; NULL: none. */
    bool (*option)(const mx_callee *callee, int i, const char **key, const char **text);
    bool (*takes_sparse)(const mx_callee *callee); /* NULL: it runs on dense copies of sparse arrays */
} mx_callee_methods;

struct mx_callee {
    mx_object object;
    const mx_callee_methods *methods; /* NULL: it cannot be run */
};

static inline bool mx_op_calls(const mx_op *op) { return op->flags & MX_OP_CALLS; }
/* The callee of a call with these attributes; NULL: the operator has none, or none was given. */
mx_callee *mx_callee_of(const mx_op *op, const void *attrs);
/* Adds or drops a reference to the callee of copied attributes. */
void mx_callee_keep(const mx_op *op, const void *attrs);
void mx_callee_drop(const mx_op *op, const void *attrs);
bool mx_op_writes(const mx_op *op, const void *attrs, int i); /* input i is written by such a call */

/* ---- gradients --------------------------------------------------------------------------------------------------- */
/* What _backward_call has to do.  Its inputs: the history, the inputs of the call, the gradients that arrived; its
 * outputs: gradients of the wanted inputs, beginning with number `first`. */
typedef struct mx_pullback {
    mx_callee callee;
    int n_in;       /* of the call */
    uint64_t given; /* bit k: a gradient of output k arrived */
    int n_wanted, first, count;
    int wanted[]; /* (n_wanted) inputs of the call, ascending */
} mx_pullback;

#endif
