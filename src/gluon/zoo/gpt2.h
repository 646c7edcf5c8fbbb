/* GPT-2 (see gluon/def/text.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_GPT2_H
#define MX_GLUON_GPT2_H

#include "gluon/block/core.h"

typedef struct mx_gpt2_sizes {
    int64_t vocabulary, length; /* different tokens; most tokens of a text */
    int64_t layers, units, hidden, heads;
    double dropout, epsilon;
} mx_gpt2_sizes;

mx_gpt2_sizes mx_gpt2_sizes_of(const mx_block *net); /* of a block of the class GPT2 */
mx_code mx_build_gpt2(mx_block *self, const mx_gpt2_sizes *sizes);
/* in: tokens (N, T), or tokens, start (N) and for every cell its keys and values (see gpt2.c) */
mx_arrays mx_gpt2_forward(mx_block *self, mx_arrays in, const mx_gpt2_sizes *sizes);
mx_code mx_build_gpt2_cell(mx_block *self, const mx_gpt2_sizes *sizes);
/* in: x, or x, rows, seen, keys, values */
mx_arrays mx_gpt2_cell_forward(mx_block *self, mx_arrays in, const mx_gpt2_sizes *sizes);

#endif
