/* Shared by calls by name and readers of files.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_APPLY_H
#define MX_GRAPH_APPLY_H

#include <stdatomic.h>

#include "graph/node.h"

/* Whether the text of a typed attribute differs from the library's own: nodes keep it as a note under the name of the
 * field, so that lists and files show what the caller wrote. */
bool mx_apply_spelled(const mx_op *op, const void *attrs, const char *name, const char *text);
/* Sets one typed attribute from text and marks it as given; errors name `who` and the operator. */
mx_code mx_apply_attribute(mx_op *op, void *attrs, uint64_t *given, const char *who, const char *name,
                           const char *text);
/* Inputs that a call must have, without missing optional ones. */
int mx_op_needed_inputs(const mx_op *op, const void *attrs);
/* Optional input i is switched off by attributes: op->lacks says so, or use_<input> is false or no_<input> true. */
bool mx_input_switched_off(const mx_op *op, const void *attrs, int i);

/* Casts of mixed precision, which exec/amp.c inserts before the inputs of new nodes; NULL: none.  Replaces entries,
 * which own their nodes. */
typedef mx_code (*mx_entries_fn)(mx_op *op, const void *attrs, int n_in, mx_gentry *entries);
extern _Atomic(mx_entries_fn) mx_apply_precision;

#endif
