/* Rebuilding a graph with some values replaced.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_REWRITE_H
#define MX_GRAPH_REWRITE_H

#include "graph/node.h"

/* Called for the nodes in order: true replaces output 0 of node i by `other` (not retained). */
typedef bool (*mx_replace_fn)(const mx_graph *graph, int64_t i, void *user, mx_gentry *other);

/* results (graph->n_results) receives the new results, nodes retained; unchanged nodes are shared. */
mx_code mx_graph_rebuild(const mx_graph *graph, mx_replace_fn replace, void *user, mx_gentry *results);

#endif
