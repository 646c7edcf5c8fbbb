/* A growing text (see text.h).  SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* strtod_l, uselocale */
#include "base/text.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define FIRST_BYTES 128

static locale_t c_locale; /* "C"; 0 if not available */
static pthread_once_t c_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }
__attribute__((destructor)) static void free_c_locale(void)
{
    if (c_locale)
        freelocale(c_locale);
    c_locale = (locale_t)0;
}

double mx_text_to_number(const char *text, char **end)
{
    pthread_once(&c_once, make_c_locale);
    return c_locale ? strtod_l(text, end, c_locale) : strtod(text, end);
}

/* Makes room for `more` bytes and the zero byte. */
static bool reserve(mx_text *text, size_t more)
{
    if (text->failed)
        return false;
    if (more < text->capacity - text->length && text->capacity)
        return true;
    size_t needed = text->length + more + 1, capacity = text->capacity ? text->capacity : FIRST_BYTES;
    while (capacity < needed && capacity <= SIZE_MAX / 4)
        capacity *= 2;
    char *grown = NULL;
    if (needed > more && needed <= capacity)
        grown = mx_realloc(text->data, text->capacity, capacity);
    else
        mx_fail(MX_ERR_MEMORY, "text: %zu more bytes cannot be added to %zu", more, text->length);
    if (!grown) {
        text->failed = true;
        return false;
    }
    text->data = grown;
    text->capacity = capacity;
    return true;
}

void mx_text_add_bytes(mx_text *text, const void *bytes, size_t count)
{
    if (!reserve(text, count))
        return;
    if (count)
        memcpy(text->data + text->length, bytes, count);
    text->length += count;
    text->data[text->length] = 0;
}

void mx_text_add(mx_text *text, const char *more)
{
    if (more)
        mx_text_add_bytes(text, more, strlen(more));
}

void mx_text_add_char(mx_text *text, char c) { mx_text_add_bytes(text, &c, 1); }

void mx_text_print(mx_text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int count = vsnprintf(NULL, 0, format, args);
    if (count < 0) {
        mx_fail(MX_ERR_ARGUMENT, "text: the format \"%s\" cannot be printed", format);
        text->failed = true;
    } else if (reserve(text, (size_t)count)) {
        vsnprintf(text->data + text->length, (size_t)count + 1, format, again);
        text->length += (size_t)count;
    }
    va_end(again);
    va_end(args);
}

/* Replaces the locale's decimal separator by a point: the only bytes of %g that are none of these. */
static void force_point(char *digits)
{
    char *from = digits, *to = digits;
    for (; *from; from++) {
        if (strchr("+-0123456789e", *from))
            *to++ = *from;
        else if (to == digits || to[-1] != '.')
            *to++ = '.';
    }
    *to = 0;
}

void mx_text_add_number(mx_text *text, double value)
{
    char digits[64];
    if (!isfinite(value)) {
        mx_text_add(text, isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    for (int precision = 6; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        force_point(digits);
        if (mx_text_to_number(digits, NULL) == value)
            break;
    }
    mx_text_add(text, digits);
    if (!strpbrk(digits, ".e"))
        mx_text_add(text, ".0");
}

const char *mx_text_get(const mx_text *text) { return text->failed ? NULL : text->data ? text->data : ""; }

char *mx_text_take(mx_text *text)
{
    const char *whole = mx_text_get(text);
    char *copy = whole ? mx_strdup(whole) : NULL;
    mx_text_free(text);
    return copy;
}

void mx_text_clear(mx_text *text)
{
    text->length = 0;
    text->failed = false;
    if (text->data)
        text->data[0] = 0;
}

void mx_text_free(mx_text *text)
{
    mx_free(text->data, text->capacity);
    *text = (mx_text){0};
}
