/* What the files executor*.c share: the executor itself.
 *
 * The graph is run node by node on the tape.  Variables of the tape are the executor's own views of the arguments,
 * so that the caller's arrays keep their history.  The outputs belong to the executor for life: a run copies its
 * results into them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_EXECUTOR_H
#define MX_EXEC_EXECUTOR_H

#include "gluon/executor.h"
#include "graph/symbol.h"

struct mx_executor {
    mx_object object;
    mx_symbol *symbol; /* retained */
    mx_graph graph;
    mx_context context;
    int64_t n_args, n_aux, n_out;
    int64_t *place;        /* (graph.n) number of a variable among arguments, or -1 - number among the auxiliary ones */
    mx_array **args;       /* (n_args) retained */
    mx_array **windows;    /* (n_args) views of them, as variables of the tape; retained */
    mx_array **grads;      /* (n_args) retained; MX_NONE: none */
    mx_grad_req *reqs;     /* (n_args) */
    bool *ones;            /* (n_args) its elements count as 1, so every run stores 1 into it: gamma under fix_gamma */
    mx_array **aux;        /* (n_aux) retained */
    mx_array **outputs;    /* (n_out) without history; retained; NULL: the shape is not known before the first run */
    mx_array **results;    /* (n_out) of the last run, with its history; retained; NULL: there was none */
    bool training;         /* mode of the last run */
    mx_monitor_fn monitor; /* NULL: none */
    void *user;
    bool monitor_all;
};

bool mx_executor_ok(const mx_executor *e, const char *function);
/* Binds; outputs that fit into those of `before` (NULL: none) use their memory. */
mx_executor *mx_bind_sharing(const mx_symbol *symbol, mx_context context, const struct mx_bindings *bindings,
                             const mx_executor *before);
/* The argument or auxiliary state that variable node i of the graph stands for. */
mx_array *mx_executor_variable(const mx_executor *e, int64_t i);
/* Storage of the gradient of a variable, as simple_bind makes it. */
mx_stype mx_gradient_stype(const mx_symbol *symbol, const char *name);
/* The first elements of x in this shape, if there are enough; else NULL without error. */
mx_array *mx_leading_part(mx_array *x, const mx_shape_t *shape);
void mx_executor_release_all(mx_array **list, int64_t n);

#endif
