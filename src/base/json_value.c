/* Accessors of JSON values, and writing them.  SPDX-License-Identifier: Apache-2.0 */
#include "base/json_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

static const char *const kind_names[] = {"null", "a boolean", "a number", "a text", "an array", "an object"};

void mx_json_fail(const mx_json *value, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (value)
        mx_fail(MX_ERR_FILE, "JSON: line %u, column %u: %s", value->line, value->column, message);
    else
        mx_fail(MX_ERR_FILE, "JSON: %s", message);
}

/* NULL comes from an earlier failure: no further error. */
static bool is(const mx_json *value, mx_json_kind kind)
{
    if (!value || value->kind == kind)
        return value != NULL;
    mx_json_fail(value, "wanted %s, found %s", kind_names[kind], kind_names[value->kind]);
    return false;
}

mx_json_kind mx_json_kind_of(const mx_json *value) { return value ? (mx_json_kind)value->kind : MX_JSON_NULL; }

int64_t mx_json_count(const mx_json *value)
{
    return value && (value->kind == MX_JSON_ARRAY || value->kind == MX_JSON_OBJECT) ? value->count : 0;
}

const mx_json *mx_json_at(const mx_json *value, int64_t i)
{
    return i >= 0 && i < mx_json_count(value) ? &value->first[i] : NULL;
}

const char *mx_json_key(const mx_json *member) { return member ? member->key : NULL; }

const mx_json *mx_json_get(const mx_json *object, const char *key)
{
    if (mx_json_kind_of(object) != MX_JSON_OBJECT)
        return NULL;
    for (int64_t i = object->count - 1; i >= 0; i--)
        if (strcmp(object->first[i].key, key) == 0)
            return &object->first[i];
    return NULL;
}

const mx_json *mx_json_member(const mx_json *object, const char *key, mx_json_kind kind)
{
    if (!is(object, MX_JSON_OBJECT))
        return NULL;
    const mx_json *value = mx_json_get(object, key);
    if (value && value->kind == kind)
        return value;
    if (value)
        mx_json_fail(value, "\"%s\" is %s, wanted %s", key, kind_names[value->kind], kind_names[kind]);
    else
        mx_json_fail(object, "the object has no \"%s\"", key);
    return NULL;
}

const char *mx_json_text(const mx_json *value) { return is(value, MX_JSON_TEXT) ? value->text : NULL; }

bool mx_json_number(const mx_json *value, double *number)
{
    if (!is(value, MX_JSON_NUMBER))
        return false;
    *number = value->number;
    return true;
}

bool mx_json_int(const mx_json *value, int64_t *number)
{
    if (!is(value, MX_JSON_NUMBER))
        return false;
    bool exact = fabs(value->number) < 0x1p53 && value->number == floor(value->number); /* 2.0 or 1e3 */
    if (!value->whole && !exact) {
        mx_json_fail(value, "wanted a whole number of 64 bits, found %g", value->number);
        return false;
    }
    *number = value->whole ? value->integer : (int64_t)value->number;
    return true;
}

bool mx_json_bool(const mx_json *value, bool *truth)
{
    if (!is(value, MX_JSON_BOOL))
        return false;
    *truth = value->truth;
    return true;
}

/* ---- UTF-8 ---------------------------------------------------------------------------------------------- */

/* Entries: ranges of the first byte and of the second byte after it (RFC 3629); later bytes are 80..BF. */
int mx_utf8_length(const unsigned char *bytes, size_t left)
{
    static const struct { unsigned char first, last, low, high; int length; } forms[] = {
        {0x00, 0x7f, 0x00, 0xff, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    if (!left)
        return 0;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (bytes[0] < forms[i].first || bytes[0] > forms[i].last)
            continue;
        int length = forms[i].length;
        if ((size_t)length > left || (length > 1 && (bytes[1] < forms[i].low || bytes[1] > forms[i].high)))
            return 0;
        for (int k = 2; k < length; k++)
            if ((bytes[k] & 0xc0) != 0x80)
                return 0;
        return length;
    }
    return 0;
}

/* ---- writing -------------------------------------------------------------------------------------------- */

static void write_control(mx_text *out, unsigned char c)
{
    static const char names[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *name = strchr(names, c);
    if (name)
        mx_text_print(out, "\\%c", letters[name - names]);
    else
        mx_text_print(out, "\\u%04x", c);
}

void mx_json_write_text(mx_text *out, const char *text)
{
    const unsigned char *at = (const unsigned char *)(text ? text : "");
    size_t left = strlen((const char *)at);
    mx_text_add_char(out, '"');
    while (left) {
        int length = mx_utf8_length(at, left);
        if (*at < ' ' || *at == '"' || *at == '\\')
            write_control(out, *at);
        else if (length)
            mx_text_add_bytes(out, at, (size_t)length);
        else
            mx_text_add(out, "\\ufffd");
        at += length ? length : 1;
        left -= (size_t)(length ? length : 1);
    }
    mx_text_add_char(out, '"');
}

void mx_json_write_number(mx_text *out, double value)
{
    if (isfinite(value))
        mx_text_add_number(out, value);
    else
        mx_text_add(out, "null");
}

static void write_items(mx_text *out, const mx_json *value)
{
    bool named = value->kind == MX_JSON_OBJECT;
    mx_text_add_char(out, named ? '{' : '[');
    for (int64_t i = 0; i < value->count; i++) {
        if (i)
            mx_text_add(out, ", ");
        if (named) {
            mx_json_write_text(out, value->first[i].key);
            mx_text_add(out, ": ");
        }
        mx_json_write(out, &value->first[i]);
    }
    mx_text_add_char(out, named ? '}' : ']');
}

void mx_json_write(mx_text *out, const mx_json *value)
{
    switch (mx_json_kind_of(value)) {
    case MX_JSON_NULL: mx_text_add(out, "null"); break;
    case MX_JSON_BOOL: mx_text_add(out, value->truth ? "true" : "false"); break;
    case MX_JSON_TEXT: mx_json_write_text(out, value->text); break;
    case MX_JSON_NUMBER:
        if (value->whole)
            mx_text_print(out, "%" PRId64, value->integer);
        else
            mx_json_write_number(out, value->number);
        break;
    case MX_JSON_ARRAY:
    case MX_JSON_OBJECT: write_items(out, value); break;
    }
}
