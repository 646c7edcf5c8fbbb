/* Calls on symbols: the third mode of mx_invoke.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_CALL_H
#define MX_GRAPH_CALL_H

#include "base/thread.h"
#include "base/vec.h"
#include "graph/node.h"

/* Creates a node for a call whose arguments were checked; inputs with elements become constants.  out (visible outputs)
 * receives symbolic arrays that belong to the scope. */
mx_code mx_graph_call(mx_op *op, const void *attrs, int n_in, mx_array *const *in, int n_out, mx_array **out);
/* The entry of any array: that of a symbolic array, or a new constant for one with elements.  New reference. */
mx_code mx_entry_for(mx_array *x, mx_gentry *entry);

/* Called after a call has created a node.  Inputs that are variables without an initializer get the operator's
 * (`starts`); the parameters of a network that is traced have their own. */
mx_code mx_graph_note_starts(const mx_op *op, int n_in, const mx_gentry *entries);

/* Called after a call has created a node.  While mx_thread.draws is set, nodes that draw random numbers are appended to
 * it, retained, in creation order: an imperative run draws numbers even if they are not used. */
mx_code mx_graph_note_draw(mx_gnode *node);

#endif
