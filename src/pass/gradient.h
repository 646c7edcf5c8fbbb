/* The gradient of a graph, as more nodes.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_PASS_GRADIENT_H
#define MX_PASS_GRADIENT_H

#include "graph/node.h"

struct mx_gradient_request {
    int64_t n_results;
    const mx_gentry *results;
    mx_array *const *head_gradients; /* (n_results) symbolic, of the results' shapes; NULL entries: zero */
    int64_t n_wanted;
    mx_gnode *const *wanted; /* variables */
    bool training;           /* mode in which the forward runs */
};
/* gradients (n_wanted): new references to nodes; node NULL where the gradient is zero.  Nodes are processed newest
 * first and gradients are summed in the order of the tape, so that both give the same numbers. */
mx_code mx_gradient_graph(const struct mx_gradient_request *request, mx_gentry *gradients);

#endif
