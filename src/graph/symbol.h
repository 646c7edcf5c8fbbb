/* The representation of a symbol: a list of outputs.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_SYMBOL_H
#define MX_GRAPH_SYMBOL_H

#include "gluon/symbol.h"
#include "graph/node.h"

struct mx_symbol {
    mx_object object;
    int64_t n;           /* outputs */
    mx_gentry outputs[]; /* (n) nodes retained, none NULL */
};

extern const mx_kind mx_symbol_kind;

/* New reference, not in a scope; retains the nodes. */
mx_symbol *mx_symbol_new(int64_t n, const mx_gentry *outputs);
/* All visible outputs of a node: new reference. */
mx_symbol *mx_symbol_of_node(mx_gnode *node);
bool mx_symbol_ok(const mx_symbol *symbol, const char *function);
/* A list of n texts for the scope; the strings are copied. */
mx_names mx_names_of(int64_t n, const char *const *texts);
mx_names mx_names_failed(void);

#endif
