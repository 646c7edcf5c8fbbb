/* Attention in a graph, before its gradient is made (attention.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_PASS_ATTENTION_H
#define MX_PASS_ATTENTION_H

#include "base/vec.h"
#include "graph/node.h"

/* Replaces attention that is written as product, softmax, dropout and product by the operator.  results (n) are exchanged for
 * new ones, nodes retained; nodes of dropout that went into the operator are removed from `draws` and released. */
mx_code mx_attention_fuse(int64_t n, mx_gentry *results, mx_pointers *draws);

#endif
