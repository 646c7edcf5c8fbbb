/* What is known of the arrays by which a program hides keys from attention.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_PASS_ATTENTION_HIDDEN_H
#define MX_PASS_ATTENTION_HIDDEN_H

#include "graph/node.h"

/* The elements of `lengths`, in `parts` equal parts, are the same within each part whatever the inputs of the graph are. */
bool mx_attention_constant_parts(mx_gentry lengths, int64_t parts);
/* All elements are 0 or 1, whatever the inputs of the graph are. */
bool mx_attention_zero_or_one(mx_gentry mask);

#endif
