/* Writing subgraphs: for the rows of loops and conditions.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_ONNX_WRITE_GRAPH_H
#define MX_GLUON_ONNX_WRITE_GRAPH_H

#include "gluon/onnx/write.h"
#include "graph/subgraph.h"

/* The inputs of a node: operands (n_in). */
void mx_onnx_operands(const mx_onnx_out *o, mx_onnx_operand *operands);
/* Adds the nodes of a part.  in: what the inputs of the calling node are there; results (graph.n_results). */
mx_code mx_onnx_write_part(mx_onnx_out *o, const mx_subgraph *part, const mx_onnx_operand *in,
                           mx_onnx_operand *results);

/* A graph inside a node: between begin and end, nodes are added to it. */
typedef struct mx_onnx_body {
    mx_text outer; /* the nodes around it */
    mx_text infos; /* inputs and outputs */
} mx_onnx_body;
void mx_onnx_begin_body(mx_onnx_out *o, mx_onnx_body *body);
const char *mx_onnx_body_input(mx_onnx_out *o, mx_onnx_body *body, const mx_shape_t *shape, int type);
void mx_onnx_body_output(mx_onnx_out *o, mx_onnx_body *body, const mx_onnx_operand *x);
mx_text mx_onnx_end_body(mx_onnx_out *o, mx_onnx_body *body); /* for mx_onnx_set_graph */

#endif
