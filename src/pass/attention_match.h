/* Finding attention that a program writes as several operators.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_PASS_ATTENTION_MATCH_H
#define MX_PASS_ATTENTION_MATCH_H

#include "gluon/op.gen.h"
#include "graph/node.h"

/* What was found from the last product backwards. */
typedef struct mx_attention_found {
    const mx_gnode *last, *dropout; /* dropout NULL: none */
    mx_gentry in[3];                /* query, key, value of the operator; node NULL: absent */
    mx_gentry mask, lengths;        /* of the scores and of their rows, as the program has them; node NULL: none */
    mx_attention_attrs attrs;
} mx_attention_found;

/* `node` is the last product of attention that the operator can replace. */
bool mx_attention_match(const mx_graph *graph, const mx_gnode *node, mx_attention_found *found);
int64_t mx_attention_batch(const mx_attention_found *found);

#endif
