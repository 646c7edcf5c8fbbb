/* The attributes of a node as text.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GRAPH_ATTRS_H
#define MX_GRAPH_ATTRS_H

#include <stdlib.h>

#include "base/vec.h"
#include "graph/node.h"

typedef struct mx_attr_text {
    const char *key; /* valid as long as the node */
    char *text;      /* owned */
} mx_attr_text;
typedef MX_VEC(mx_attr_text) mx_attr_list;

/* Appends the given attributes and the notes, sorted by key; false: out of memory. */
bool mx_node_attrs(const mx_gnode *node, mx_attr_list *list);
void mx_node_attrs_free(mx_attr_list *list);

#endif
