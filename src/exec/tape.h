/* The tape: what was computed while recording, as a graph of nodes that hang on the arrays.
 *
 *     x (variable)          w (variable)
 *        \                  /
 *         node: dot, saved inputs {x, w}    array y ---> node (output 0)
 *                                                          |
 *     An array points to the node that computed it; a node points to the nodes of its inputs.  There is no list
 *     of all nodes: what no array reaches is freed.
 *
 * A node saves only those inputs and outputs that its operator's gradient reads.  Saved outputs are views
 * without history, or the node would keep itself alive.
 * Variables have a node without an operator, which holds the gradient array.
 * Invariant: the sequence number of a node is greater than those of its inputs' nodes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_TAPE_H
#define MX_EXEC_TAPE_H

#include "base/thread.h"
#include "gluon/autograd.h"
#include "ndarray/sparse.h"
#include "op/op.h"

typedef struct mx_node mx_node;

typedef struct mx_edge {
    mx_node *node;   /* retained; NULL: a constant */
    uint32_t output; /* of that node */
} mx_edge;

struct mx_node {
    mx_object object;
    const mx_op *op;   /* NULL: a variable, a custom function or a compiled call */
    uint64_t sequence; /* order of creation */
    int n_in, n_out;
    bool training;
    bool freed;     /* nothing is connected to it any more: backward ran without retain_graph and released the saved
                             arrays, or it is a variable with the request MX_GRAD_NULL */
    mx_edge *edges; /* (n_in) */
    mx_array **in;  /* (n_in) retained; NULL if the gradient does not read it */
    mx_array **out; /* (n_out) views without history; NULL if the gradient does not read it */
    mx_shape_t *in_shape; /* (n_in) */
    int *in_type;         /* (n_in) */
    void *attrs;          /* copy of the operator's attributes; NULL: none */
    size_t bytes;         /* of this allocation, which holds all the arrays above */
    mx_context context;
    const char *place; /* name of the block that was running, in checking mode; not owned; NULL: none */

    /* Variables. */
    mx_array *grad; /* retained; NULL: none */
    mx_grad_req req;

    /* Custom functions. */
    const mx_function *function; /* a copy inside this allocation */
    void *user;

    /* Compiled calls (exec/plan/plan.h). */
    bool compiled;
    struct mx_frame *frame; /* retained; where the forward part ran; NULL: freed */

    /* While a backward pass runs. */
    uint64_t visit; /* number of the pass that saw it last */
    int64_t slot;   /* its first slot in that pass */
};

extern const mx_kind mx_node_kind;

/* Appends a call to the tape if an input has a history; outputs then point to the new node. */
mx_code mx_tape_append(const mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out);
mx_node *mx_node_new(int n_in, int n_out, size_t attr_bytes); /* zeroed, with its arrays in place */
/* The node on the tape that a new call of x is connected to; NULL: none.  What a backward without retain_graph went
 * through is a constant from then on: state that is carried from batch to batch needs no detach. */
static inline mx_node *mx_live_node(const mx_array *x)
{
    mx_node *node = x->storage || mx_is_sparse(x) ? x->node : NULL;
    return node && !node->freed ? node : NULL;
}
static inline bool mx_has_history(const mx_array *x) { return mx_live_node(x) != NULL; }
/* The node on the tape that computed x; NULL: none, or x is symbolic. */
static inline mx_node *mx_tape_node(const mx_array *x) { return x->storage ? x->node : NULL; }
static inline bool mx_node_is_variable(const mx_node *node) { return !node->op && !node->function && !node->compiled; }
mx_node *mx_variable_node(mx_array *x);                     /* x's variable node; NULL if it is not a variable */
void mx_node_keep_input(mx_node *node, int i, mx_array *x); /* after its edge is set */
void mx_node_free_kept(mx_node *node);
/* Whether writing into x now would corrupt gradients: it is a variable, a result, or a constant that a live node reads. */
static inline bool mx_is_on_tape(const mx_array *x)
{
    return mx_has_history(x) || atomic_load_explicit(&x->kept, memory_order_relaxed) > 0;
}

#define MX_MOST_UNROLLED 64 /* steps of a loop, or of nested loops, that are unrolled in a plan */

#endif
