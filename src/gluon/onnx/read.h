/* Reading ONNX: what its files share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_ONNX_READ_H
#define MX_GLUON_ONNX_READ_H

#include "gluon/onnx.h"
#include "gluon/onnx/onnx.h"

/* A message inside the file. */
typedef struct mx_onnx_part {
    const unsigned char *bytes;
    int64_t size;
} mx_onnx_part;

/* A value of the graph: an input, an initializer or the result of a node. */
typedef struct mx_onnx_value {
    mx_array *x;         /* retained: symbolic, or with elements; NULL: an initializer that was not used yet */
    mx_array *variable;  /* retained: what represents a constant in the graph; NULL: none yet */
    mx_onnx_part tensor; /* of an initializer */
    mx_arrays items;     /* of a sequence: owned list of retained arrays; v NULL: it is an array */
    int type;            /* code of ONNX if x holds values of a type that arrays do not have; 0: it does not */
} mx_onnx_value;

/* How often names of the outermost graph are still used (read_uses.c). */
typedef struct mx_onnx_uses {
    uint32_t *left; /* (size) by hash; NULL: not counted, everything is kept */
    int64_t size;   /* a power of two */
} mx_onnx_uses;

/* The values of a graph; those of a subgraph see the ones around it. */
typedef struct mx_onnx_frame {
    mx_dict values; /* name -> owned mx_onnx_value */
    struct mx_onnx_frame *outer;
    const mx_onnx_in *call; /* of a function: the node that calls it, whose attributes its nodes may refer to */
} mx_onnx_frame;

typedef struct mx_onnx_input_info {
    char *name; /* owned */
    mx_shape_t shape;
    int type; /* code of ONNX; 0: not a tensor */
} mx_onnx_input_info;

/* An unknown size: that of an axis of an array. */
typedef struct mx_onnx_size {
    mx_array *x; /* retained, symbolic */
    int axis;
} mx_onnx_size;

typedef struct mx_onnx_reader {
    const char *path;
    char *folder; /* owned: where external data is */
    unsigned char *bytes;
    int64_t size;
    mx_onnx_part graph;
    MX_VEC(mx_onnx_part) functions;
    int opset;                                  /* of the usual domain */
    mx_dict rows;                               /* by name in ONNX */
    mx_dict variables;                          /* names of variables so far: constants of loops repeat them */
    mx_dict sizes;                              /* unknown sizes: node, output and axis -> number of the placeholder */
    MX_VEC(mx_onnx_size) size_of;               /* by number - 1 */
    mx_dict files;                              /* external data: path -> open reader, owned */
    mx_onnx_frame *frame;                       /* the innermost */
    mx_onnx_uses uses;                          /* of names of the outermost graph */
    MX_VEC(mx_onnx_input_info) inputs, outputs; /* of the outermost graph, in order, without initializers */
    MX_VEC(mx_array *) results;                 /* retained */
    int64_t nodes;                              /* that ran so far; at most mx_limits.nodes */
    int depth;                                  /* of graphs inside graphs */
} mx_onnx_reader;

/* read_tensor.c: a new array in the scope. `who` is for messages; type: as in mx_onnx_value. */
mx_array *mx_onnx_read_tensor(mx_onnx_reader *r, mx_onnx_part part, const char *who, int *type);
void mx_onnx_close_files(mx_onnx_reader *r);
void mx_onnx_free_frame(mx_onnx_frame *frame);

/* read_uses.c */
mx_code mx_onnx_count_uses(mx_onnx_uses *u, mx_onnx_part graph);
void mx_onnx_free_uses(mx_onnx_uses *u);
bool mx_onnx_is_used(const mx_onnx_uses *u, const char *name);
bool mx_onnx_use_ends(mx_onnx_uses *u, const char *name); /* one use less; true: it was the last */

/* read.c */
mx_onnx_value *mx_onnx_find(mx_onnx_reader *r, const char *name); /* NULL without an error: none */
mx_code mx_onnx_define(mx_onnx_reader *r, const char *name, mx_array *x, int type);
void mx_onnx_drop(mx_onnx_reader *r, const char *name); /* nothing uses this value of the innermost frame any more */
mx_code mx_onnx_define_sequence(mx_onnx_reader *r, const char *name, mx_arrays items);
/* Runs a graph inside `frame`: in (n) are its inputs; results belong to the scope. */
mx_code mx_onnx_run_graph(mx_onnx_reader *r, mx_onnx_part graph, mx_arrays in, int n_out, mx_array **out);
mx_code mx_onnx_run_nodes(mx_onnx_reader *r, mx_onnx_part graph, uint32_t field);
mx_code mx_onnx_open(mx_onnx_reader *r, const char *path); /* the parts of the file; freed with close in any case */
void mx_onnx_close(mx_onnx_reader *r);

/* read_node.c */
mx_code mx_onnx_run_node(mx_onnx_reader *r, mx_onnx_part part);
/* The text of a field as a copy that belongs to the scope. */
const char *mx_onnx_field_text(const mx_proto_field *f);

#endif
