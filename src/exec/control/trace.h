/* Tracing a caller's function into a subgraph, and building the node that holds subgraphs (trace.c); foreach,
 * while_loop and cond on symbols are made of these (symbols.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_CONTROL_TRACE_H
#define MX_EXEC_CONTROL_TRACE_H

#include "base/text.h"
#include "base/vec.h"
#include "exec/control/control.h"
#include "graph/call.h"

typedef MX_VEC(mx_gentry) mx_entries;

/* One of the caller's functions being traced. */
typedef struct mx_traced {
    const char *who;
    char name[96];       /* of the subgraph */
    int n;               /* variables passed to it */
    mx_gnode **given;    /* (n) retained */
    mx_array **symbolic; /* (n) of the scope */
    mx_entries results;  /* retained */
    mx_cutting cutting;
    mx_pointers *draws; /* the list of nodes that draw, saved while it is disabled (graph/call.h) */
    int unroll;         /* mode to be restored: loops inside stay loops */
} mx_traced;

/* A node under construction. */
typedef struct mx_building {
    mx_entries in;    /* inputs; retained */
    mx_entries given; /* initial values of a loop's variables; retained */
    int *number;      /* (given) input that is variable i; -1: none so far */
    mx_text locs[3];
    int n_locs[3];
    mx_symbol *parts[3]; /* retained by their cuts */
    int n_parts;
} mx_building;

/* The name that the caller gave, or the default. */
const char *mx_control_name_or(const char *usual);

/* Opens the subgraph: its notes, and the mark after which nodes belong to it.  After success, leave must follow. */
mx_code mx_traced_open(mx_traced *t, int64_t n, const char *name, const char *part);
/* Variable i, which represents this value of the graph outside. */
mx_code mx_traced_variable(mx_traced *t, int i, const mx_gentry *entry, const mx_shape_t *shape, const mx_array *x);
mx_code mx_traced_results(mx_traced *t, mx_arrays *results, const char *what);
mx_code mx_traced_failed(const mx_traced *t, mx_code code); /* of the caller's function, with a message in any case */
mx_code mx_traced_cut(mx_traced *t);
void mx_traced_leave(const mx_traced *t);
void mx_traced_close(mx_traced *t);

mx_code mx_entries_add(mx_entries *to, mx_arrays list);
mx_code mx_building_input(mx_building *b, const mx_gentry *entry);
/* The input of the node that is this value.  A variable of the graph becomes one at its first use; a result of an
 * operator becomes one input per subgraph that uses it, as in classic files; a variable of the loop has its own. */
mx_code mx_building_input_for(mx_building *b, const mx_gentry *entry, int *number);
mx_code mx_building_variable(mx_building *b, int i, int *number);
/* Lists of numbers that go into the node's attributes, and the finished text of one. */
void mx_building_loc(mx_building *b, int list, int number);
const char *mx_building_locs(mx_building *b, int list);
/* callee: the field in attrs for the subgraphs. */
mx_gnode *mx_building_node(mx_building *b, mx_op *op, void *attrs, void **callee);
void mx_building_close(mx_building *b);

/* All outputs of the node; those of an unrolled loop are results of its steps instead. */
mx_array **mx_node_outputs(mx_gnode *node);
mx_loop mx_node_loop(mx_gnode *node, int64_t n_out_data, int64_t n_states); /* takes over the node */

#endif
