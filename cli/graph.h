/* A model's graph with its shapes: used by summary and plot.  SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_CLI_GRAPH_H
#define GLUON_CLI_GRAPH_H

#include "cli.h"
#include "graph/node.h"

typedef struct cli_graph {
    mx_graph graph;
    mx_shape_t *shape; /* (entries) as far as known */
    int *type;         /* (entries) */
    bool *data;        /* (nodes) an operator, or a variable that is an input: not a weight */
} cli_graph;

bool cli_graph_make(cli_graph *g, const cli_model *model);
void cli_graph_free(cli_graph *g);

#endif
