/* Writing ONNX: what its files share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_ONNX_WRITE_H
#define MX_GLUON_ONNX_WRITE_H

#include "gluon/onnx.h"
#include "gluon/onnx/onnx.h"

typedef struct mx_onnx_weight {
    const char *name;
    mx_array *x; /* retained */
} mx_onnx_weight;

typedef struct mx_onnx_writer {
    const char *path;
    int opset;
    mx_graph graph;
    mx_shape_t *shape; /* (entries) */
    int *type;         /* (entries) */
    mx_array **value;  /* (nodes) of a variable: its value, owned by the scope; NULL: none */
    const char **name; /* (entries) of the values in the file; owned by the scope */
    mx_dict taken;     /* names: number 1: of this graph, 2: a value that exists in the file */
    mx_dict rows;      /* by our names */
    mx_text nodes;     /* messages of the nodes so far */
    mx_text node;      /* the last one, which may still get attributes */
    const char *op;    /* of the last one; NULL: there is none */
    MX_VEC(mx_onnx_weight) weights;
    int64_t made;       /* names */
    const char *inside; /* "loop/": nodes whose subgraph is being written; owned by the scope; NULL: none */
    bool failed;        /* the error is recorded */
} mx_onnx_writer;

void mx_onnx_finish_node(mx_onnx_writer *w);
const char *mx_onnx_new_name(mx_onnx_writer *w, const char *hint); /* one that is not taken */

/* write.c: tables for w->graph, nothing known; names of the entries that have none; all nodes. */
mx_code mx_onnx_new_tables(mx_onnx_writer *w);
void mx_onnx_free_tables(mx_onnx_writer *w);
mx_code mx_onnx_give_names(mx_onnx_writer *w);
mx_code mx_onnx_write_nodes(mx_onnx_writer *w);

/* write_graph.c: an input or output, of the file or of a subgraph.  names: unknown sizes get names. */
typedef struct mx_onnx_operand {
    const char *name;
    mx_shape_t shape;
    int type;        /* mx_dtype */
    mx_array *value; /* of a parameter or constant; NULL: not known */
} mx_onnx_operand;
void mx_onnx_put_info(mx_text *to, uint32_t field, const mx_onnx_operand *x, bool names);
/* write_file.c: the file, atomically. */
mx_code mx_onnx_write_file(mx_onnx_writer *w);

#endif
