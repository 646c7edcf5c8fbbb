/* Running a graph node by node through mx_invoke: for recording, debugging and small graphs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_INTERPRET_H
#define MX_EXEC_INTERPRET_H

#include "graph/node.h"

/* Called with every output that was computed; nonzero ends the run. */
typedef mx_code (*mx_watch_fn)(void *user, const char *name, mx_array *value);

typedef struct mx_interpretation {
    const mx_graph *graph;
    mx_array *const *values; /* (graph->n) arrays for the variables without a value of their own; others NULL */
    mx_watch_fn watch;       /* NULL: none */
    void *user;
    bool watch_all;       /* also called with inputs of nodes */
    bool watch_variables; /* and, where such an input is a variable, with it under its own name first */
    bool watch_hidden;    /* also called with outputs that only the gradient uses */
    const int64_t *order; /* (graph->n) nodes in the order to run them, inputs before users; NULL: graph order */
} mx_interpretation;

/* results (graph->n_results) receives new references.  Values that no later node needs are released on the way.  While
 * recording every call goes to the tape; symbolic values give symbolic results. */
mx_code mx_interpret(const mx_interpretation *what, mx_array **results);

/* The same node by node: `mx_interpret_step` n times, then `mx_interpret_end`, which frees `run` in any case (results NULL:
 * the run is abandoned).  The graph and the arrays of `what` stay valid meanwhile. */
typedef struct mx_interpreter mx_interpreter;
mx_interpreter *mx_interpret_start(const mx_interpretation *what); /* NULL with an error */
mx_code mx_interpret_step(mx_interpreter *run);
mx_code mx_interpret_end(mx_interpreter *run, mx_array **results);

#endif
