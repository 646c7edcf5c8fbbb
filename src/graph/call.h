/* Calls on symbols: the third mood of mx_invoke.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_CALL_H
#define MX_GRAPH_CALL_H

#include "base/vec.h"
#include "graph/node.h"

/* Makes a node for a call whose arguments were checked; inputs with elements become constants.  out (visible outputs)
 * receives symbolic arrays that belong to the scope. */
mx_code mx_graph_call(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out);
/* The entry of any array: of a symbolic one its own, of one with elements that of a new constant.  New reference. */
mx_code mx_entry_for(mx_array *x, mx_gentry *entry);

/* While a catcher is set, calls of the thread on symbolic arrays go to it instead of making nodes: how the calls of an
 * optimizer's update, which write into arrays, are learned. */
typedef mx_code (*mx_catch_fn)(void *user, mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out,
                               mx_array **out);
typedef struct mx_catch {
    mx_catch_fn run; /* NULL: none */
    void *user;
} mx_catch;
extern _Thread_local mx_catch mx_catcher;

/* While a list is set, nodes that draw random numbers are appended to it, retained, in the order of their making: numbers
 * are drawn in an imperative run even where nobody uses them.  NULL: nobody wants to know. */
extern _Thread_local mx_pointers *mx_graph_draws;
mx_code mx_graph_note_draw(mx_gnode *node); /* a node was made by a call */

#endif
