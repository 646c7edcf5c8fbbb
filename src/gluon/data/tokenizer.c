/* Byte pair encoding: texts as tokens, and back.
 *
 * A word starts as the tokens of its bytes.  Of all neighbours that may become one token, those with the lowest rank do, the
 * leftmost first, until there are none.  The candidates are in a heap, so that long words take n log n steps.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/data/tokenizer.h"

#include "base/given.h"
#include "base/interrupt.h"
#include "ndarray/array.h"

static void destroy(mx_object *self)
{
    mx_tokenizer *t = (mx_tokenizer *)self;
    mx_dict_free(&t->numbers);
    mx_vec_free(&t->bytes);
    mx_vec_free(&t->begin);
    mx_free(t->merges, (size_t)t->slots * sizeof *t->merges);
    mx_free(t, sizeof *t);
}

const mx_kind mx_tokenizer_kind = {"tokenizer", destroy};

mx_tokenizer *mx_tokenizer_open(const char *path)
{
    if (!mx_given(path, "mx_tokenizer_open", "path"))
        return NULL;
    mx_tokenizer *t = mx_alloc_zero(sizeof *t);
    if (!t)
        return NULL;
    mx_object_init(&t->object, &mx_tokenizer_kind);
    if (mx_tokenizer_read(t, path)) {
        mx_release(t);
        return NULL;
    }
    return mx_scope_add(t);
}

int64_t mx_tokenizer_size(const mx_tokenizer *tokenizer)
{
    return mx_is_kind(tokenizer, &mx_tokenizer_kind, "mx_tokenizer_size", "tokenizer") ? tokenizer->begin.length - 1
                                                                                       : -1;
}

int64_t mx_tokenizer_find(const mx_tokenizer *tokenizer, const char *text)
{
    if (!mx_is_kind(tokenizer, &mx_tokenizer_kind, "mx_tokenizer_find", "tokenizer") ||
        !mx_given(text, "mx_tokenizer_find", "text"))
        return -1;
    return mx_dict_get_number(&tokenizer->numbers, text, -1);
}

/* ---- encoding ---------------------------------------------------------------------------------------------------- */

typedef struct part { /* of a word: a token and its neighbours; -1: none */
    int32_t token, before, next;
} part;
typedef struct candidate { /* parts `at` and the next of it may become one */
    const mx_token_merge *merge;
    int32_t at;
} candidate;
typedef struct encoder {
    const mx_tokenizer *tokenizer;
    MX_VEC(part) parts;     /* of the word; those that were merged into the one before have token -1 */
    MX_VEC(candidate) heap; /* the first goes before all others */
    MX_VEC(int32_t) tokens; /* of the text */
} encoder;

static bool precedes(const candidate *a, const candidate *b)
{
    return a->merge->rank < b->merge->rank || (a->merge->rank == b->merge->rank && a->at < b->at);
}

static void swap(candidate *a, candidate *b)
{
    const candidate c = *a;
    *a = *b, *b = c;
}

/* Puts the part and the next of it on the heap, if they may become one. */
static bool consider(encoder *e, int32_t at)
{
    const part *p = at < 0 ? NULL : &e->parts.items[at];
    const mx_token_merge *merge =
        p && p->next >= 0 ? mx_tokenizer_merge(e->tokenizer, p->token, e->parts.items[p->next].token) : NULL;
    if (!merge)
        return true;
    if (!mx_vec_push(&e->heap, ((candidate){merge, at})))
        return false;
    candidate *heap = e->heap.items;
    for (int64_t i = e->heap.length - 1; i > 0 && precedes(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&heap[i], &heap[(i - 1) / 2]);
    return true;
}

static candidate take_first(encoder *e)
{
    candidate *heap = e->heap.items;
    const candidate first = heap[0];
    const int64_t n = --e->heap.length;
    heap[0] = heap[n];
    for (int64_t i = 0, child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && precedes(&heap[child + 1], &heap[child]);
        if (!precedes(&heap[child], &heap[i]))
            break;
        swap(&heap[i], &heap[child]);
    }
    return first;
}

/* The candidate's tokens are still those that it was made for. */
static bool is_current(const encoder *e, const candidate *c)
{
    const part *p = &e->parts.items[c->at];
    return p->token >= 0 && p->next >= 0 &&
           mx_tokenizer_merge(e->tokenizer, p->token, e->parts.items[p->next].token) == c->merge;
}

static bool merge_parts(encoder *e, const candidate *c)
{
    part *p = &e->parts.items[c->at], *other = &e->parts.items[p->next];
    p->token = c->merge->merged, other->token = -1;
    p->next = other->next;
    if (p->next >= 0)
        e->parts.items[p->next].before = c->at;
    return consider(e, p->before) && consider(e, c->at);
}

static bool split_bytes(encoder *e, const unsigned char *word, int64_t n)
{
    e->parts.length = e->heap.length = 0;
    for (int64_t i = 0; i < n; i++) {
        const part p = {e->tokenizer->single[word[i]], (int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : -1};
        if (p.token < 0) {
            mx_fail(MX_ERR_ARGUMENT, "mx_tokenizer_encode: the vocabulary has no token for the byte 0x%02x", word[i]);
            return false;
        }
        if (!mx_vec_push(&e->parts, p))
            return false;
    }
    for (int64_t i = 0; i < n; i++)
        if (!consider(e, (int32_t)i))
            return false;
    return true;
}

static bool encode_word(encoder *e, const unsigned char *word, int64_t n)
{
    if (!split_bytes(e, word, n))
        return false;
    for (int64_t rounds = 1; e->heap.length; rounds++) {
        const candidate c = take_first(e);
        if ((is_current(e, &c) && !merge_parts(e, &c)) || (rounds % 4096 == 0 && mx_interrupt_check()))
            return false;
    }
    for (int32_t i = 0; i >= 0; i = e->parts.items[i].next)
        if (!mx_vec_push(&e->tokens, e->parts.items[i].token))
            return false;
    return true;
}

static bool encode_text(encoder *e, const unsigned char *text, int64_t bytes)
{
    int64_t at = 0;
    for (int64_t rounds = 1; at < bytes; rounds++) {
        const int64_t n = mx_tokenizer_word(text + at, bytes - at);
        if (!encode_word(e, text + at, n) || (rounds % 4096 == 0 && mx_interrupt_check()))
            return false;
        at += n;
    }
    return true;
}

/* With the space in front that some tokenizers want; freed with mx_free(result, *bytes). */
static unsigned char *spaced(const void *text, int64_t *bytes)
{
    unsigned char *copy = mx_alloc((size_t)++ * bytes);
    if (copy) {
        copy[0] = ' ';
        memcpy(copy + 1, text, (size_t)(*bytes - 1));
    }
    return copy;
}

mx_array *mx_tokenizer_encode(mx_tokenizer *tokenizer, const void *text, int64_t bytes)
{
    if (!mx_is_kind(tokenizer, &mx_tokenizer_kind, "mx_tokenizer_encode", "tokenizer"))
        return NULL;
    if (!text || bytes < 0 || bytes >= INT32_MAX) {
        mx_fail(MX_ERR_ARGUMENT, "mx_tokenizer_encode: the text is %s with %lld bytes, wanted fewer than 2147483647",
                text ? "given" : "NULL", (long long)bytes);
        return NULL;
    }
    const bool space = tokenizer->leading_space && bytes && *(const char *)text != ' ';
    unsigned char *copy = space ? spaced(text, &bytes) : NULL;
    encoder e = {.tokenizer = tokenizer};
    const bool done = (copy || !space) && encode_text(&e, copy ? copy : text, bytes);
    mx_array *tokens = done ? mx_array_from((mx_dims){.n = 1, .d = {e.tokens.length}}, MX_INT32, e.tokens.items) : NULL;
    mx_free(copy, (size_t)bytes);
    mx_vec_free(&e.parts);
    mx_vec_free(&e.heap);
    mx_vec_free(&e.tokens);
    return tokens;
}

/* ---- decoding ------------------------------------------------------------------------------------------------------ */

const char *mx_tokenizer_bytes(const mx_tokenizer *tokenizer, int64_t token, int64_t *count)
{
    if (!mx_is_kind(tokenizer, &mx_tokenizer_kind, "mx_tokenizer_bytes", "tokenizer") ||
        !mx_given(count, "mx_tokenizer_bytes", "count"))
        return NULL;
    const int64_t size = tokenizer->begin.length - 1;
    *count = token >= 0 && token < size ? tokenizer->begin.items[token + 1] - tokenizer->begin.items[token] : 0;
    if (*count > 0)
        return tokenizer->bytes.items + tokenizer->begin.items[token];
    mx_fail(MX_ERR_ARGUMENT, "tokenizer: there is no token %lld among %lld", (long long)token, (long long)size);
    return NULL;
}

typedef MX_VEC(char) characters;

static bool append_token(const mx_tokenizer *t, double number, characters *text)
{
    int64_t n = 0;
    const bool whole = number >= 0 && number < INT32_MAX && number == (double)(int64_t)number;
    const char *bytes = whole ? mx_tokenizer_bytes(t, (int64_t)number, &n) : NULL;
    if (!whole)
        mx_fail(MX_ERR_ARGUMENT, "mx_tokenizer_decode: %g is no token", number);
    if (!bytes || !mx_vec_reserve(text, text->length + n))
        return false;
    memcpy(text->items + text->length, bytes, (size_t)n);
    text->length += n;
    return true;
}

mx_array *mx_tokenizer_decode(mx_tokenizer *tokenizer, mx_array *tokens)
{
    if (!mx_is_kind(tokenizer, &mx_tokenizer_kind, "mx_tokenizer_decode", "tokenizer") ||
        !mx_array_ok(tokens, "mx_tokenizer_decode", "tokens"))
        return NULL;
    characters text = {0};
    const int64_t n = mx_size(tokens);
    const size_t bytes = (size_t)(n + 1) * sizeof(double);
    double *numbers = mx_alloc(bytes);
    bool done = numbers && !mx_array_read_doubles(tokens, numbers, n);
    for (int64_t i = 0; done && i < n; i++)
        done = append_token(tokenizer, numbers[i], &text);
    mx_array *result = done ? mx_array_from((mx_dims){.n = 1, .d = {text.length}}, MX_UINT8, text.items) : NULL;
    mx_free(numbers, bytes);
    mx_vec_free(&text);
    return result;
}
