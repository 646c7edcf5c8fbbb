/* Kinds of characters.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_UNICODE_H
#define MX_BASE_UNICODE_H

#include <stddef.h>
#include <stdint.h>

typedef enum mx_character_kind {
    MX_CHARACTER_OTHER,
    MX_CHARACTER_LETTER,
    MX_CHARACTER_NUMBER,
    MX_CHARACTER_SPACE
} mx_character_kind;

/* The character at `bytes`, of which `left` > 0 are there, and in *length its bytes.  A byte that is not UTF-8 counts as a
 * character of its own, above all others. */
uint32_t mx_utf8_read(const unsigned char *bytes, size_t left, int *length);
mx_character_kind mx_character_kind_of(uint32_t code);

#endif
