/* Texts as tokens of several bytes, as GPT-2 and its successors have them: byte pair encoding.
 *
 *     mx_tokenizer *words = mx_tokenizer_open("gpt2");              // a folder with vocab.json and merges.txt
 *     mx_array *tokens = mx_tokenizer_encode(words, "The harbour", 11);          // (n) int32
 *     mx_array *text = mx_tokenizer_decode(words, tokens);                       // (bytes) uint8
 *     printf("%.*s\n", (int)mx_size(text), (const char *)mx_array_data(text));
 *
 * Any text has tokens, and decoding gives it back byte by byte; it need not be valid UTF-8.  A tokenizer may be used by
 * several threads at once.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_TOKENIZER_H
#define GLUON_TOKENIZER_H

#include "gluon/array.h"

typedef struct mx_tokenizer mx_tokenizer;

/* path: a folder with vocab.json and merges.txt, or a tokenizer.json file with a byte-level BPE model. */
MX_API mx_tokenizer *mx_tokenizer_open(const char *path);
MX_API int64_t mx_tokenizer_size(const mx_tokenizer *tokenizer); /* all tokens are below it */
/* Text in the middle of which a special token is written ("<|endoftext|>") is ordinary text: see mx_tokenizer_find. */
MX_API mx_array *mx_tokenizer_encode(mx_tokenizer *tokenizer, const void *text, int64_t bytes);
MX_API mx_array *mx_tokenizer_decode(mx_tokenizer *tokenizer, mx_array *tokens); /* tokens: any shape */
/* The bytes of one token, *count of them; not ended by a zero.  NULL with an error: there is no such token. */
MX_API const char *mx_tokenizer_bytes(const mx_tokenizer *tokenizer, int64_t token, int64_t *count);
/* The token with this text, as "<|endoftext|>"; -1 without an error: there is none. */
MX_API int64_t mx_tokenizer_find(const mx_tokenizer *tokenizer, const char *text);

#endif
