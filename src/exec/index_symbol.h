/* Indexing of symbolic arrays.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_EXEC_INDEX_SYMBOL_H
#define MX_EXEC_INDEX_SYMBOL_H

#include "op/op.h"

/* x[keys] as nodes of x's graph; the result belongs to the scope. */
mx_array *mx_index_symbolic(mx_array *x, const mx_key *keys, int count);

#endif
