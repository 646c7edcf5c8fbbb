/* Drawings of graphs: DOT text for graphviz, and SVG.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_DOT_H
#define MX_GRAPH_DOT_H

#include "graph/node.h"

typedef struct mx_dot {
    const char *title;       /* of the digraph; NULL: none */
    const char *boxes;       /* more attributes of the boxes as DOT text, `shape="oval"`; NULL: none */
    const mx_shape_t *shape; /* (entries) shapes on the arrows, where known */
    const bool *hidden;      /* (nodes) left out; NULL: none */
    bool
        upward; /* outputs at the bottom, arrows against the flow, the batch left out of shapes; else inputs at the top */
} mx_dot;

void mx_graph_dot(mx_text *text, const mx_graph *graph, const mx_dot *how);
mx_code mx_graph_svg(mx_text *text, const mx_graph *graph, const mx_dot *how); /* how: shape and hidden */

/* What a box says: "Convolution 3x3, 64\nconv0", or briefly without the name; its colour. */
void mx_graph_label(mx_text *text, const mx_gnode *node, bool brief);
const char *mx_graph_colour(const mx_gnode *node);

#endif
