/* Calls on symbols: the third mood of mx_invoke.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_CALL_H
#define MX_GRAPH_CALL_H

#include "base/thread.h"
#include "base/vec.h"
#include "graph/node.h"

/* Makes a node for a call whose arguments were checked; inputs with elements become constants.  out (visible outputs)
 * receives symbolic arrays that belong to the scope. */
mx_code mx_graph_call(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out);
/* The entry of any array: of a symbolic one its own, of one with elements that of a new constant.  New reference. */
mx_code mx_entry_for(mx_array *x, mx_gentry *entry);

/* A call has made a node.  While mx_thread.draws is set, nodes that draw random numbers are appended to it, retained, in
 * the order of their making: numbers are drawn in an imperative run even where nobody uses them. */
mx_code mx_graph_note_draw(mx_gnode *node);

#endif
