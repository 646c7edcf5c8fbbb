/* Names and notes of new nodes: scopes of the thread.
 *
 *     names:  managers, innermost last; each has counters per hint and a prefix       (the last one is used)
 *     notes:  dictionaries, innermost last; inner ones win                            (all are used)
 *
 * The outermost manager has no prefix and exists as long as the thread; its counters also number blocks.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_NAMES_H
#define MX_GRAPH_NAMES_H

#include "base/thread.h"
#include "graph/node.h"

/* The full name of a new node: prefix + name, or prefix + hint + number if name is NULL.  Free it with mx_strfree. */
char *mx_names_make(const char *name, const char *hint);
mx_code mx_names_push(const char *prefix);
void mx_names_pop(void);
/* The next node that is named automatically gets `name` instead (with the prefix); NULL cancels that. `name` must
 * be valid until then. Returns the pending name. */
const char *mx_names_next(const char *name);
/* The next node that is numbered gets this hint instead of its operator's usual one; NULL cancels that. */
void mx_names_next_hint(const char *hint);
/* Until it is called again, nodes outside of further scopes are named by this function (freed with mx_strfree); NULL:
 * by the library.  For language bindings with their own name managers. */
mx_name_fn mx_names_ask(mx_name_fn make); /* returns the one before */
/* How many nodes and blocks the outermost manager of this thread has numbered, by hint. */
mx_dict *mx_names_counters(void);
/* The hint for an operator that was called by this name: lower case. Into buffer (64 bytes). */
const char *mx_names_hint(const char *called, char *buffer);
/* The hint if only the operator is known, not the name it was called by: "_plus" for elemwise_add, as for a + b. */
const char *mx_names_usual_hint(const mx_op *op, char *buffer);

/* Writes the notes of the open attribute scopes to a node; existing ones are not replaced. */
mx_code mx_notes_apply(mx_gnode *node);
/* "__lr_mult__" for "lr_mult" and the other four names that graphs use; `key` itself otherwise. */
const char *mx_notes_key(const char *key);

#endif
