/* Running a graph node by node through mx_invoke: what recording, debugging and small graphs need.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_INTERPRET_H
#define MX_EXEC_INTERPRET_H

#include "graph/node.h"

/* Called with every output that was computed; nonzero ends the run. */
typedef mx_code (*mx_watch_fn)(void *user, const char *name, mx_array *value);

typedef struct mx_interpretation {
    const mx_graph *graph;
    mx_array *const *values; /* (graph->n) arrays for the variables that have none of their own; others NULL */
    mx_watch_fn watch;       /* NULL: nobody looks */
    void *user;
    bool watch_all;       /* inputs of nodes are shown as well */
    const int64_t *order; /* (graph->n) nodes in the order to run them, inputs before users; NULL: as they stand */
} mx_interpretation;

/* results (graph->n_results) receives new references.  What no later node needs is given back on the way.  While recording
 * every call goes to the tape; symbolic values give symbolic results. */
mx_code mx_interpret(const mx_interpretation *what, mx_array **results);

#endif
