/* The parts of transformers (see gluon/def/transformer.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_TRANSFORMER_H
#define MX_GLUON_TRANSFORMER_H

#include "gluon/block/core.h"

typedef struct mx_transformer_cell_sizes {
    int64_t units, hidden, heads;
    double dropout, epsilon;
    const char *activation;
    bool pre_norm;
} mx_transformer_cell_sizes;

mx_code mx_build_attention(mx_block *self, int64_t units, int64_t heads, double dropout, bool bias);
/* in: query, key, value, valid_length, mask; absent ones are MX_NONE.  One result. */
mx_arrays mx_attention_forward(mx_block *self, mx_arrays in, int64_t heads, bool causal);
/* (N, T, heads * d) -> (N * heads, T, d), and back */
mx_array *mx_split_heads(mx_array *x, int64_t heads);
mx_array *mx_join_heads(mx_array *x, int64_t heads);
mx_code mx_build_ffn(mx_block *self, int64_t units, int64_t hidden, double dropout, const char *activation,
                     double epsilon);
mx_array *mx_ffn_forward(mx_block *self, mx_array *x, bool residual, bool pre_norm);
mx_code mx_build_transformer_cell(mx_block *self, const mx_transformer_cell_sizes *sizes, bool decoder);
mx_array *mx_encoder_cell_forward(mx_block *self, mx_arrays in, bool pre_norm);
mx_array *mx_decoder_cell_forward(mx_block *self, mx_arrays in, bool pre_norm);
mx_code mx_build_transformer(mx_block *self, int64_t layers, const mx_transformer_cell_sizes *sizes, bool decoder);
mx_array *mx_transformer_forward(mx_block *self, mx_arrays in);
mx_array *mx_positions_forward(mx_array *x, int64_t units, double base);

#endif
