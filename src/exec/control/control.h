/* Internals of control flow: rows of arrays, loops on arrays and on symbols.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_CONTROL_H
#define MX_EXEC_CONTROL_H

#include "gluon/control.h"
#include "graph/subgraph.h"

/* The shape of one row along the first axis; rows of a vector have shape (1,). */
mx_shape_t mx_row_shape(const mx_array *x);
/* All rows of x (x->shape[0] of them): arrays of the scope, recorded if x is. */
mx_code mx_rows(mx_array *x, mx_array **rows);
/* n rows as one array of `length` rows, the last ones 0; belongs to the scope. */
mx_array *mx_stack_rows(int64_t n, mx_array *const *rows, int64_t length);
/* Whether a condition holds: one element that is not 0. */
mx_code mx_truth(const mx_array *x, const char *who, bool *holds);

/* Loops on arrays; on symbolic arrays they are unrolled. */
mx_loop mx_foreach_run(mx_foreach_fn body, void *user, mx_arrays data, mx_arrays states);
mx_loop mx_while_loop_run(mx_condition_fn condition, mx_step_fn step, void *user, mx_arrays variables,
                          int64_t max_iterations);
/* On symbols: one node. */
mx_loop mx_foreach_trace(mx_foreach_fn body, void *user, mx_arrays data, mx_arrays states);
mx_loop mx_while_loop_trace(mx_condition_fn condition, mx_step_fn step, void *user, mx_arrays variables,
                            int64_t max_iterations);
mx_arrays mx_cond_trace(mx_array *predicate, mx_branch_fn then_branch, mx_branch_fn else_branch, void *user);
mx_loop mx_loop_failed(void);

/* Runs a part as a plan if that is worthwhile and possible (*ran).  in (part->n_in); results: arrays of the scope. */
mx_code mx_part_run(const mx_subgraph *part, mx_array *const *in, mx_array **results, bool *ran);

#endif
