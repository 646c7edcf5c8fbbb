/* A growing text.
 *
 * Start from a zeroed struct, append, and check once at the end: when memory runs out the text enters the failed
 * state, the error is recorded, and later calls are ignored.
 *
 *     mx_text t = {0};
 *     mx_text_print(&t, "%d nodes", n);
 *     const char *s = mx_text_get(&t);   // NULL: failed
 *     mx_text_free(&t);
 *
 * Numbers are written and read with a point whatever the locale.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_TEXT_H
#define MX_BASE_TEXT_H

#include "gluon/base.h"

typedef struct mx_text {
    char *data;      /* owned; ends with a zero byte; NULL before the first append */
    size_t length;   /* without the zero byte */
    size_t capacity; /* allocated bytes */
    bool failed;     /* out of memory: the text is incomplete */
} mx_text;

void mx_text_add(mx_text *text, const char *more); /* NULL adds nothing */
void mx_text_add_bytes(mx_text *text, const void *bytes, size_t count);
void mx_text_add_char(mx_text *text, char c);
/* Shortest decimal that reads back as the same number: 0.1, 1e-05, 3.0, inf, nan. */
void mx_text_add_number(mx_text *text, double value);
void mx_text_print(mx_text *text, const char *format, ...) MX_PRINTF(2, 3);

const char *mx_text_get(const mx_text *text); /* "" if nothing was added, NULL if failed; valid until the next change */
char *mx_text_take(mx_text *text);            /* a copy for mx_strfree, NULL if failed; the text is empty afterwards */
void mx_text_clear(mx_text *text);            /* empty again, not failed; keeps the memory */
void mx_text_free(mx_text *text);
/* Hands the text to the current scope, which frees it; NULL if failed. The buffer is empty afterwards. */
const char *mx_text_to_scope(mx_text *text);

/* strtod with a decimal point in every locale. */
double mx_text_to_number(const char *text, char **end);

#endif
