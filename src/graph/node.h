/* Graph nodes: the results of symbolic calls, and graphs, which are nodes in order.
 *
 *     variable "data"   variable "fc_weight"
 *            \           /
 *           node FullyConnected "fc", typed attributes        symbolic array ---> (node, output)
 *
 * A *symbolic array* is an array without storage whose `node` is a graph node (mx_array.node, as on the tape; an array
 * with storage never has a graph node, one without never has a tape node).  mx_invoke on a symbolic array creates a
 * node.  Nodes point to the nodes of their inputs; there is no list of all nodes: unreachable ones are freed, by the
 * work list of base/object, without recursion.
 *
 * Invariants: a node is immutable but for its notes; its sequence number is greater than those of its inputs' nodes, so
 * there are no cycles; in[i].output < in[i].node->n_out.  Shapes and types of the outputs are inferred from the inputs
 * when the node is created and never change: graph/infer.h infers a whole graph into separate arrays.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_NODE_H
#define MX_GRAPH_NODE_H

#include <string.h>

#include "base/dict.h"
#include "base/text.h"
#include "op/control.h"

typedef struct mx_gnode mx_gnode;

/* One output of a node: a value of the graph. */
typedef struct mx_gentry {
    mx_gnode *node;  /* NULL: a missing optional input */
    uint32_t output; /* hidden outputs count */
} mx_gentry;

struct mx_gnode {
    mx_object object;
    mx_op *op;                  /* NULL: a variable */
    uint64_t sequence;          /* order of creation in the process */
    char *name;                 /* owned; never NULL */
    int n_in, n_out, n_visible; /* a variable: 0, 1, 1.  Missing inputs at the end are omitted */
    mx_gentry *in;              /* (n_in) nodes retained */
    void *attrs;                /* copy of the operator's attribute struct; NULL: none.  What it calls is retained */
    uint64_t given;             /* bit i: field i of the schema was named by the caller, so files name it, too */
    mx_dict notes;              /* text attributes that are not the operator's: __shape__, __lr_mult__, ctx_group ...;
                                     entry.pointer: owned text (mx_note_set, mx_note_get) */
    mx_shape_t *out_shape;      /* (n_out) inferred at creation; may be partly or wholly unknown */
    int *out_type;              /* (n_out) mx_dtype, MX_DTYPE_NONE if unknown */
    mx_context context;         /* of the inputs; type 0: not given */
    mx_array *value;            /* of a variable that is a constant found while tracing; retained; NULL: none */
    void *owner;                /* of a variable: the parameter it represents (not retained); NULL: none */
    size_t bytes;               /* of this allocation, which holds in, attrs, out_shape and out_type */
};

extern const mx_kind mx_gnode_kind;

/* ---- new nodes: new references (count 1, not in a scope); NULL with an error -------------------------------- */
struct mx_gnode_args {
    mx_op *op;             /* not NULL */
    const void *attrs;     /* typed; NULL: defaults */
    const uint64_t *given; /* NULL: the fields that differ from their defaults or have none */
    const char *name;      /* full name */
    int n_in;
    const mx_gentry *in; /* missing ones: node NULL */
};
/* Infers what follows from the inputs; the scopes' attributes are not added here. Errors name the node. */
mx_gnode *mx_gnode_make(const struct mx_gnode_args *args);
mx_gnode *mx_gnode_variable(const char *name, const mx_shape_t *shape, int dtype); /* shape NULL: unknown */
mx_gnode *mx_gnode_constant(const char *name, mx_array *value);                    /* a variable with a value */
/* The same node on other inputs (n_in of them): name, attributes and notes are copied. */
mx_gnode *mx_gnode_with_inputs(const mx_gnode *node, const mx_gentry *in);

/* ---- accessors ------------------------------------------------------------------------------------------------- */
static inline bool mx_gnode_is_variable(const mx_gnode *node) { return !node->op; }
static inline bool mx_gnode_is(const mx_gnode *node, const char *op) /* a node, not NULL, of this operator */
{
    return node && node->op && !strcmp(node->op->name, op);
}
static inline bool mx_gnode_mutates(const mx_gnode *node, int i) /* input i is written: an auxiliary state */
{
    return node->op && mx_op_writes(node->op, node->attrs, i);
}
const char *mx_note_get(const mx_gnode *node, const char *key);         /* NULL: none */
mx_code mx_note_set(mx_gnode *node, const char *key, const char *text); /* text NULL: removes it */
/* "conv0_output", "split0_output1", "data" (a variable's own name) into a text. */
void mx_gentry_name(const mx_gentry *entry, mx_text *text);

/* ---- symbolic arrays ------------------------------------------------------------------------------------------- */
static inline bool mx_is_symbolic(const mx_array *x) /* x: a live array or MX_NONE */
{
    return !x->storage && x->node && x->object.kind == &mx_array_kind; /* not a sparse array with history */
}
static inline mx_gentry mx_entry_of(const mx_array *x) /* not retained */
{
    return (mx_gentry){(mx_gnode *)(void *)x->node, x->node_output};
}
/* The symbolic array of an output: new reference. */
mx_array *mx_array_symbolic(mx_gnode *node, uint32_t output);

/* ---- graphs: the nodes that some outputs need, in order -------------------------------------------------------- */
/* A snapshot.  Nodes are in post-order of a depth-first walk from the results, inputs from left to right: the order of
 * files and of argument lists.  Entries (values) are numbered consecutively: output k of node i is entry row[i] + k. */
typedef struct mx_graph {
    int64_t n;         /* nodes */
    mx_gnode **nodes;  /* (n) retained; inputs precede their users */
    int64_t *row;      /* (n + 1) first entry of each node; row[n]: number of entries */
    int64_t *in_row;   /* (n + 1) first place of each node in in_entry */
    int64_t *in_entry; /* (in_row[n]) entry number of every input; -1: missing */
    int64_t n_results;
    int64_t *results; /* (n_results) entry numbers */
    size_t bytes;     /* of the one allocation that holds the arrays above */
} mx_graph;

/* Fills `graph` (to be freed with mx_graph_free, also when zeroed).  Walks without recursion. */
mx_code mx_graph_of(mx_graph *graph, int64_t n_results, const mx_gentry *results);
void mx_graph_free(mx_graph *graph);
/* The node that produces an entry, by binary search in row. */
int64_t mx_graph_node_of(const mx_graph *graph, int64_t entry);
/* order (n): the numbers of the nodes in order of creation. */
void mx_graph_by_creation(const mx_graph *graph, int64_t *order);
/* Variables that some node writes: is_aux (n) gets true for them. */
void mx_graph_auxiliary(const mx_graph *graph, bool *is_aux);

#endif
