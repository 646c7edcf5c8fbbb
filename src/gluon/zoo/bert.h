/* BERT (see gluon/def/text.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_BERT_H
#define MX_GLUON_BERT_H

#include "gluon/block/core.h"

typedef struct mx_bert_sizes {
    int64_t vocabulary, length, segments; /* different tokens; most tokens of a text; kinds of segments */
    int64_t layers, units, hidden, heads;
    double dropout, epsilon;
} mx_bert_sizes;

mx_code mx_build_bert(mx_block *self, const mx_bert_sizes *sizes);
/* in: tokens (N, T), segments (N, T), valid_length (N); the last two may be absent */
mx_arrays mx_bert_forward(mx_block *self, mx_arrays in);

#endif
