/* Operators that call something: a subgraph (loops, conditions) or a user's code (Custom).
 *
 * What such an operator calls is a counted object, the last field of its attributes.  Attributes are copied as memory
 * everywhere; whoever keeps a copy (a node of a graph, a program) keeps a reference (mx_callee_keep).
 *
 *     mx_invoke        on arrays: the callee runs, through mx_invoke itself, so what it does is recorded call by call
 *                      on symbolic arrays: one node
 *     plans            one step; its kernel (exec/control/region.c) runs the callee.  Where a gradient is wanted it records;
 *                      the hidden last output, the "history", stands for what was recorded, _backward_call runs it
 *
 * Invariants: the last output of an operator with MX_OP_CALLS is hidden; no gradient reaches it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_CONTROL_H
#define MX_OP_CONTROL_H

#include "op/op.h"

typedef struct mx_callee mx_callee;

typedef struct mx_callee_methods {
    /* Shapes and types together, in both directions; the hidden output is not looked at. */
    mx_code (*infer)(const mx_callee *callee, mx_infer *infer);
    /* Runs on arrays with elements; out (n_out visible ones): arrays of the scope. */
    mx_code (*run)(mx_callee *callee, int n_in, mx_array *const *in, int n_out, mx_array **out);
    bool (*writes)(const mx_callee *callee, int i);             /* input i is written; NULL: none is */
    const char *(*output_name)(const mx_callee *callee, int i); /* NULL: output, or output0, output1 ... */
    int (*count)(const mx_callee *callee);                      /* visible outputs; NULL: attributes say it */
    /* Attributes of its own, for files: false past the last one; NULL: none. */
    bool (*option)(const mx_callee *callee, int i, const char **key, const char **text);
} mx_callee_methods;

struct mx_callee {
    mx_object object;
    const mx_callee_methods *methods; /* NULL: it cannot be run */
};

static inline bool mx_op_calls(const mx_op *op) { return op->flags & MX_OP_CALLS; }
/* What a call with these attributes calls; NULL: the operator is no such one, or it was given nothing. */
mx_callee *mx_callee_of(const mx_op *op, const void *attrs);
/* A reference more, or less, to what copied attributes name. */
void mx_callee_keep(const mx_op *op, const void *attrs);
void mx_callee_drop(const mx_op *op, const void *attrs);
bool mx_op_writes(const mx_op *op, const void *attrs, int i); /* input i is written by such a call */

/* ---- gradients --------------------------------------------------------------------------------------------------- */
/* What _backward_call is to do.  Its inputs: the history, the inputs of the call, the gradients that arrived; its
 * outputs: gradients of the wanted inputs from number `first` on. */
typedef struct mx_pullback {
    mx_callee callee;
    int n_in;       /* of the call */
    uint64_t given; /* bit k: a gradient of output k arrived */
    int n_wanted, first, count;
    int wanted[]; /* (n_wanted) inputs of the call, rising */
} mx_pullback;

#endif
