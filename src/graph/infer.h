/* Inference over a whole graph.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_INFER_H
#define MX_GRAPH_INFER_H

#include "graph/node.h"

/* shape, type: (row[n]) per entry; what is known on entry (shapes of the variables, say) and, on return, all that
 * follows from it in both directions.  Variables' own shapes and types (out_shape, out_type) are used where the caller
 * gave none.  Unknown results are not an error; a contradiction is: it names node, operator, input and both shapes. */
mx_code mx_graph_infer(const mx_graph *graph, mx_shape_t *shape, int *type);
/* Sets all entries to unknown, the initial state. */
void mx_graph_infer_start(const mx_graph *graph, mx_shape_t *shape, int *type);

/* `size` in place of the unknown sizes; false, without an error: no array can be that large. */
bool mx_graph_put_sizes(mx_shape_t *shape, int64_t size);

#endif
