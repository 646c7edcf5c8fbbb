/* Control flow: loops and conditions on arrays and on symbols, and operators written by users.
 *
 *     static mx_code step(void *user, mx_arrays data, mx_arrays states, mx_arrays *outputs, mx_arrays *next)
 *     {
 *         mx_array *h = mx_tanh(mx_add(data.v[0], states.v[0]));
 *         *outputs = *next = mx_results(h);
 *         return mx_error_code();
 *     }
 *     mx_loop loop = mx_foreach(step, NULL, MX_ARRAYS(x), MX_ARRAYS(h0));     // loop.outputs.v[0]: (T, ...)
 *
 * On arrays the functions are called immediately, step by step, and recorded like any other code.  If one of the arrays
 * is symbolic, each function is called once, on variables, and the result is one node of the graph (_foreach,
 * _while_loop, _cond) that owns the traced function as a subgraph; whatever the function uses besides its arguments
 * becomes an input of that node.
 *
 * Functions return MX_OK and fill their results with arrays of the scope (mx_results); any other code ends the loop.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_CONTROL_H
#define GLUON_CONTROL_H

#include "gluon/array.h"

#define MX_NO_ARRAYS ((mx_arrays){.v = NULL, .n = 0})

/* ---- loops ------------------------------------------------------------------------------------------------------- */
typedef struct mx_loop {
    mx_arrays outputs; /* outputs of the steps, stacked along a new first axis */
    mx_arrays states;  /* after the last step */
    bool failed;
} mx_loop;

/* One step: data are rows of the arrays (a row of a vector has shape (1,)). */
typedef mx_code (*mx_foreach_fn)(void *user, mx_arrays data, mx_arrays states, mx_arrays *outputs, mx_arrays *next);
/* Runs over the first axis of all data. */
MX_API mx_loop mx_foreach(mx_foreach_fn body, void *user, mx_arrays data, mx_arrays states);

typedef mx_array *(*mx_condition_fn)(void *user, mx_arrays variables); /* an array of one element; NULL: failed */
typedef mx_code (*mx_step_fn)(void *user, mx_arrays variables, mx_arrays *outputs, mx_arrays *next);
/* While condition(variables) is not 0: outputs, variables = step(variables), at most max_iterations times.  The stacked
 * outputs have max_iterations rows; those of steps that did not run are 0.  On arrays there are no outputs at all if
 * no step ran. */
MX_API mx_loop mx_while_loop(mx_condition_fn condition, mx_step_fn step, void *user, mx_arrays variables,
                             int64_t max_iterations);

typedef mx_code (*mx_branch_fn)(void *user, mx_arrays *outputs);
/* The results of the branch that predicate (one element) selects; n 0 with an error on failure. */
MX_API mx_arrays mx_cond(mx_array *predicate, mx_branch_fn then_branch, mx_branch_fn else_branch, void *user);

/* The same with a name for the subgraphs in files; NULL: foreach, while_loop, cond. */
MX_API const char *mx_control_name(const char *name); /* for the thread's next call; returns the previous name */

#endif
