/* Subgraphs: what _foreach, _while_loop and _cond call.
 *
 *     node _foreach --- attributes --- control object --- part 0: graph of the body
 *        | inputs: data, states, others                      variable j is input from[j] of the node
 *
 * A subgraph is closed: its variables, in the order in which a walk finds them (the order of argument lists), are its
 * inputs, and each of them comes from an input of the node.  So values of the surrounding graph that the body uses are
 * inputs of the node, too (graph/cut.c arranges that).
 *
 * A control object is immutable, but for the plans that it collects, and shared by all copies of its node.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_SUBGRAPH_H
#define MX_GRAPH_SUBGRAPH_H

#include <pthread.h>

#include "graph/node.h"
#include "graph/symbol.h"
#include "op/control.h"

/* Plans of a subgraph, by what they were compiled for (exec/control/subgraph_plan.c). */
#define MX_MOST_PART_PLANS 8
typedef struct mx_part_plans {
    pthread_mutex_t lock;
    mx_object *plans[MX_MOST_PART_PLANS]; /* retained; guarded by the lock, like the rest */
    int n, runs;
} mx_part_plans;

typedef struct mx_subgraph {
    mx_graph graph;
    int n_in;
    int64_t *variable;    /* (n_in) number of the node that is input j */
    int64_t *order;       /* (graph.n) nodes by creation: the order of the imperative run */
    int *from;            /* (n_in) input of the calling node that is passed for it */
    mx_part_plans *plans; /* owned */
} mx_subgraph;

typedef enum mx_control_kind { MX_FOREACH, MX_WHILE_LOOP, MX_COND, MX_CONTROL_KINDS } mx_control_kind;

typedef struct mx_control {
    mx_callee callee;
    mx_control_kind kind;
    const mx_op *op;
    int n_in, n_out;        /* of the calling node; visible ones */
    int n_out_data;         /* outputs that are not states */
    int n_data;             /* _foreach: inputs 0 .. are data */
    int n_states;           /* states, or variables of the loop */
    int *state;             /* (n_states) input of the node that is the initial state i */
    int64_t max_iterations; /* of _while_loop */
    int depth;              /* nesting depth of nodes with subgraphs: 1 without any inside */
    int n_parts;
    mx_subgraph parts[3]; /* _foreach: body.  _while_loop: condition, step.  _cond: condition, two branches */
} mx_control;

extern const mx_kind mx_control_object_kind;
/* Inference and running, defined by exec/control/control.c. */
extern const mx_callee_methods mx_control_methods;
mx_code mx_control_infer(const mx_callee *callee, mx_infer *infer);

/* The kind of control that an operator is; MX_CONTROL_KINDS: none. */
mx_control_kind mx_control_kind_of(const mx_op *op);
int mx_control_parts(mx_control_kind kind);
static inline const mx_control *mx_control_of(const mx_op *op, const void *attrs)
{
    const mx_callee *callee = mx_callee_of(op, attrs);
    return callee && callee->object.kind == &mx_control_object_kind ? (const mx_control *)(const void *)callee : NULL;
}

/* The control object of a node with these attributes, n_in inputs and n_parts subgraphs.  Everything is checked: errors
 * name `who`, the attribute and the problem.  New reference. */
mx_control *mx_control_new(const mx_op *op, const void *attrs, const char *who, int n_in, int n_parts,
                           mx_symbol *const *parts);

/* ---- cutting subgraphs (cut.c) ----------------------------------------------------------------------------------- */
/* Cuts what was created after `mark` out of the graph of the results.  placeholders (n) are variables that represent
 * arguments; they are replaced by variables of the same names without shapes.  Everything else that comes from outside
 * becomes a variable.  Results that are variables or occur twice are copied. */
typedef struct mx_cutting {
    uint64_t mark; /* sequence number: younger nodes belong to the subgraph */
    int n_placeholders;
    mx_gnode *const *placeholders;
    int64_t n_results;
    const mx_gentry *results;
    /* Results.  Input j of the subgraph is this placeholder, or, if that is -1, this value from outside. */
    mx_symbol *symbol; /* new reference */
    int n_in;
    int *placeholder;   /* (n_in) */
    mx_gentry *outside; /* (n_in) nodes retained */
} mx_cutting;
mx_code mx_cut(mx_cutting *cutting);
void mx_cutting_free(mx_cutting *cutting);

#endif
