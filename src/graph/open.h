/* Open sizes: in a graph, an array without inputs and with 0 in its shape, zeros(shape=(2, 0)), gets the size that its
 * uses need.  This lets states of recurrent cells be written before the batch size is known.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_OPEN_H
#define MX_GRAPH_OPEN_H

#include "graph/node.h"

/* The field of the operator's shape, if it leaves sizes open; else NULL. */
const mx_field *mx_open_shape(const mx_op *op, const void *attrs);
bool mx_graph_open(const mx_graph *graph); /* some node does */
/* A copy of the node's attributes with this shape; NULL with an error.  Free it with mx_free(., schema->size). */
void *mx_sized_attrs(const mx_gnode *node, const mx_field *field, const mx_shape_t *shape);
/* The results of the graph with all sizes filled in that follow from its variables; results (n_results): nodes retained. */
mx_code mx_graph_fill_open(const mx_graph *graph, mx_gentry *results);

#endif
