/* Words of a text, as GPT-2 has them: an English ending ('s, 're), letters, digits or other characters, each with the space
 * before them, or white space.  White space before a word leaves its last character to the word.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/unicode.h"
#include "gluon/data/tokenizer.h"

static mx_character_kind kind_at(const unsigned char *text, int64_t left, int *length)
{
    return mx_character_kind_of(mx_utf8_read(text, (size_t)left, length));
}

/* 's 't 'm 'd 're 've 'll: their bytes; 0: none */
static int64_t ending(const unsigned char *text, int64_t left)
{
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const int64_t n = (int64_t)strlen(endings[i]);
        if (n <= left && !memcmp(text, endings[i], (size_t)n))
            return n;
    }
    return 0;
}

/* Bytes of the characters of one kind at the start; *last: of the last of them. */
static int64_t run(const unsigned char *text, int64_t left, mx_character_kind kind, int *last)
{
    int64_t n = 0;
    int length = 0;
    *last = 0;
    while (n < left && kind_at(text + n, left - n, &length) == kind)
        n += length, *last = length;
    return n;
}

int64_t mx_tokenizer_word(const unsigned char *text, int64_t left)
{
    int length, last;
    const int64_t n = text[0] == '\'' ? ending(text, left) : 0, space = text[0] == ' ' && left > 1;
    if (n)
        return n;
    const mx_character_kind kind = kind_at(text + space, left - space, &length);
    if (kind != MX_CHARACTER_SPACE)
        return space + run(text + space, left - space, kind, &last);
    const int64_t blank = run(text, left, MX_CHARACTER_SPACE, &last);
    return blank < left && blank > last ? blank - last : blank;
}
