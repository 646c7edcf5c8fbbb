/* What a tokenizer holds, for its reader and its user.
 *
 * Files write the bytes of a token as letters: visible characters of Latin-1 stand for themselves, the other bytes for the
 * characters from 256 on.  Inside, tokens are numbers, and two that may become one are found in a table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_TOKENIZER_H
#define MX_GLUON_TOKENIZER_H

#include "base/dict.h"
#include "base/object.h"
#include "base/vec.h"
#include "gluon/tokenizer.h"

typedef struct mx_token_merge {
    uint64_t pair;        /* (left << 32 | right) + 1; 0: a free slot */
    int32_t rank, merged; /* lower ranks come first; the token of both */
} mx_token_merge;

struct mx_tokenizer {
    mx_object object;
    mx_dict numbers;         /* token as letters -> its number */
    MX_VEC(char) bytes;      /* of all tokens, one after another */
    MX_VEC(int64_t) begin;   /* (size + 1) of every token in `bytes`; gaps in the numbers are empty */
    mx_token_merge *merges;  /* (slots) hash table */
    int64_t slots, n_merges; /* slots: a power of two, 0: no merges */
    int32_t single[256];     /* the token of one byte; -1: none */
    bool leading_space;      /* texts get a space in front */
};

extern const mx_kind mx_tokenizer_kind;

/* Fills an empty tokenizer from files. */
mx_code mx_tokenizer_read(mx_tokenizer *tokenizer, const char *path);
const mx_token_merge *mx_tokenizer_merge(const mx_tokenizer *tokenizer, int32_t left, int32_t right); /* NULL: none */
/* Bytes of the first word of a text of which `left` > 0 bytes are there: texts are split into words, merged apart. */
int64_t mx_tokenizer_word(const unsigned char *text, int64_t left);

#endif
