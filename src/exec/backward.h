/* One backward pass over the tape.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_BACKWARD_H
#define MX_EXEC_BACKWARD_H

#include "base/vec.h"
#include "exec/tape.h"

typedef struct mx_slot {
    mx_array *sum; /* gradient of one output of one node so far; retained; NULL: zero */
    bool ours;     /* nothing else refers to the sum: it may be added to in place */
    bool direct;   /* the sum is the variable's gradient array itself */
} mx_slot;

typedef struct mx_pass {
    uint64_t number;
    mx_pointers nodes; /* mx_node, newest first; retained through the heads */
    mx_slot *slots;    /* one per node output, from node->slot on */
    int64_t slot_count;
    bool retain;       /* the graph can be run again */
    bool create_graph; /* gradients are recorded themselves */
    bool predict;
    int32_t *uses; /* (slot_count) of variables: nodes that will still add to the sum; -1: it is stored already; NULL:
                          nobody listens (ready.h), variables are stored at the end */
    bool keep_results; /* sums stay in their slots and variables are not written: for mx_grad_of */
} mx_pass;

/* heads and head_grads are checked arrays; heads.n and head_grads.n are counts (0: ones). */
mx_code mx_pass_run(mx_pass *pass, mx_arrays heads, mx_arrays head_grads);
/* Continues through nodes that were created while the pass ran, newest first, down to those older than `oldest`, which
 * the pass already has: ograd[i] (NULL: none) is the gradient of heads.v[i].  The new nodes are retained through the
 * heads. */
mx_code mx_pass_detour(mx_pass *pass, uint64_t oldest, mx_arrays heads, mx_array *const *ograd);
void mx_pass_free(mx_pass *pass);
/* A node that runs has written the gradient of its edge i in place and for good.  True: the variable's gradient is
 * complete with it, and is stored. */
bool mx_pass_store_early(mx_pass *pass, const mx_node *node, int i);

#endif
