/* Executors: a symbol bound to arrays, ready to run forwards and backwards.
 *
 *     mx_executor *run = mx_simple_bind(net, mx_cpu(0), &(struct mx_known){...}, MX_GRAD_WRITE);
 *     mx_executor_set(run, "data", batch);
 *     mx_arrays y = mx_executor_forward(run, true);
 *     mx_executor_backward(run, (mx_arrays){0});
 *     mx_array *g = mx_executor_gradient(run, "fc1_weight");
 *
 * Arguments, gradients and auxiliary states are ordinary arrays: to feed an executor, write into them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_EXECUTOR_H
#define GLUON_EXECUTOR_H

#include "gluon/autograd.h"
#include "gluon/symbol.h"

typedef struct mx_executor mx_executor;

/* Arrays are in the order of mx_symbol_arguments() and mx_symbol_auxiliary(); the executor shares them. */
struct mx_bindings {
    mx_arrays arguments;
    mx_arrays gradients;     /* one per argument, MX_NONE: none; n == 0: none at all */
    const mx_grad_req *reqs; /* one per argument; NULL: write */
    mx_arrays auxiliary;     /* n == 0 if there are none */
};
MX_API mx_executor *mx_bind(const mx_symbol *symbol, mx_context context, const struct mx_bindings *bindings);
/* Infers the shapes from what is known and makes all arrays, filled with zeros.  Unknown types are float32. */
MX_API mx_executor *mx_simple_bind(const mx_symbol *symbol, mx_context context, const struct mx_known *known,
                                   mx_grad_req req);
/* The same symbol for other input shapes.  Memory is shared: an array of the same shape is the same array, a smaller one
 * is the leading part of the old one, outputs too; only arrays that grow are new. */
struct mx_resizing {
    bool partial_shaping; /* arrays whose shapes were not given may change as well */
    bool allow_up_sizing; /* arrays may grow */
};
MX_API mx_executor *mx_executor_reshape(const mx_executor *executor, const struct mx_known *known,
                                        const struct mx_resizing *how); /* NULL: neither */

MX_API mx_arrays mx_executor_forward(mx_executor *executor, bool training);
/* Gradients of the last forward, in the mode in which it ran; without one it runs in prediction mode first.  head_grads:
 * one per output, of its shape (a surplus is ignored); n == 0: ones. */
MX_API mx_code mx_executor_backward(mx_executor *executor, mx_arrays head_grads);

MX_API const mx_symbol *mx_executor_symbol(const mx_executor *executor);
MX_API mx_arrays mx_executor_arguments(const mx_executor *executor);
MX_API mx_arrays mx_executor_gradients(const mx_executor *executor); /* MX_NONE where there is none */
MX_API mx_arrays mx_executor_auxiliary(const mx_executor *executor);
/* They exist from the start and stay the same: every forward writes into them.  (n == 0 before the first forward if a shape
 * depends on values.) */
MX_API mx_arrays mx_executor_outputs(const mx_executor *executor);
/* An argument or auxiliary state by name; NULL with an error if there is none. */
MX_API mx_array *mx_executor_array(const mx_executor *executor, const char *name);
MX_API mx_array *mx_executor_gradient(const mx_executor *executor, const char *name);     /* NULL without error: none */
MX_API mx_code mx_executor_set(mx_executor *executor, const char *name, mx_array *value); /* copies the elements */
/* Called with every output that a forward computes (all: with the inputs, too); fn NULL removes the callback. */
typedef mx_code (*mx_monitor_fn)(void *user, const char *name, mx_array *value);
MX_API void mx_executor_monitor(mx_executor *executor, mx_monitor_fn fn, void *user, bool all);

/* The symbol with equal subexpressions merged. */
MX_API mx_symbol *mx_executor_optimized(const mx_executor *executor);
/* The graph as text (mx_symbol_debug), the nodes of its gradient, and the memory that a pass needs; belongs to the scope. */
MX_API const char *mx_executor_debug(const mx_executor *executor);

/* Evaluates a symbol once: every argument and auxiliary state by name. */
MX_API mx_arrays mx_symbol_eval(const mx_symbol *symbol, int count, const char *const *names, mx_arrays values);

#endif
