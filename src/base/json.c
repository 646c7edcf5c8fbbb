/* The JSON reader.
 *
 * Every value but the first follows a '[', '{', ',' or ':', so counting those bounds the number of values before
 * anything is parsed, and texts are never longer unescaped than escaped.  One allocation holds everything:
 *
 *     document | root | finished values --> ... <-- open values | characters
 *
 * Values of open arrays and objects are on a stack that grows down from the end.  When one closes, its values move,
 * in order, to the finished ones, so items are contiguous and mx_json_at() is an addition.
 * Invariant: finished + open values <= capacity; characters used <= bytes of text read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json_value.h"
#include "gluon/limits.h"

typedef struct document {
    size_t bytes; /* of the whole allocation */
    size_t unused;
    mx_json root;
} document;

typedef struct parser {
    const char *at, *end;   /* the text still to be read */
    const char *line_start; /* of the current line */
    uint32_t line;          /* from 1 */
    int depth, most;        /* levels that are open; their limit */
    mx_json *finished;      /* next free place for finished values */
    mx_json *top;           /* newest open value; the stack grows down */
    char *characters;       /* next free place for texts */
} parser;

static bool parse_value(parser *p, mx_json *value);

static void fail_at(parser *p, const char *at, const char *format, ...) MX_PRINTF(3, 4);
static void fail_at(parser *p, const char *at, const char *format, ...)
{
    char message[256];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    long long column = at - p->line_start + 1;
    if (at == p->end)
        mx_fail(MX_ERR_FILE, "JSON: line %u, column %lld: %s, but the text ends", p->line, column, message);
    else if (*at >= ' ' && *at < 127)
        mx_fail(MX_ERR_FILE, "JSON: line %u, column %lld: %s, found '%c'", p->line, column, message, *at);
    else
        mx_fail(MX_ERR_FILE, "JSON: line %u, column %lld: %s, found byte 0x%02x", p->line, column, message,
                (unsigned char)*at);
}

static void skip_space(parser *p)
{
    for (; p->at < p->end; p->at++) {
        if (*p->at == '\n') {
            p->line++;
            p->line_start = p->at + 1;
        } else if (*p->at != ' ' && *p->at != '\t' && *p->at != '\r') {
            return;
        }
    }
}

static bool take(parser *p, char c)
{
    if (p->at == p->end || *p->at != c)
        return false;
    p->at++;
    return true;
}

static bool is_digit(const parser *p) { return p->at < p->end && *p->at >= '0' && *p->at <= '9'; }

/* ---- texts ---------------------------------------------------------------------------------------------- */

static bool parse_hex(parser *p, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++, p->at++) {
        static const char digits[] = "0123456789abcdefABCDEF";
        const char *digit = p->at < p->end && *p->at ? strchr(digits, *p->at) : NULL;
        if (!digit) {
            fail_at(p, p->at, "wanted four hexadecimal digits after \\u");
            return false;
        }
        int64_t value = digit - digits;
        *unit = *unit * 16 + (uint32_t)(value < 16 ? value : value - 6);
    }
    return true;
}

static void put_utf8(parser *p, uint32_t code)
{
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    *p->characters++ = (char)(lead[more] | code >> 6 * more);
    while (more--)
        *p->characters++ = (char)(0x80 | (code >> 6 * more & 0x3f));
}

/* \u and four hexadecimal digits, or two of these for a character outside the basic plane. */
static bool parse_unicode(parser *p)
{
    const char *start = p->at;
    uint32_t code, low;
    if (!parse_hex(p, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00) {
        if (!(take(p, '\\') && take(p, 'u'))) {
            fail_at(p, p->at, "wanted the second half of a surrogate pair");
            return false;
        }
        if (!parse_hex(p, &low))
            return false;
        code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : 0xd800;
    }
    if (code == 0 || (code >= 0xd800 && code < 0xe000)) {
        fail_at(p, start, code ? "wanted a surrogate pair" : "a zero character cannot be part of a text");
        return false;
    }
    put_utf8(p, code);
    return true;
}

static bool parse_escape(parser *p)
{
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (take(p, 'u'))
        return parse_unicode(p);
    const char *name = p->at < p->end && *p->at ? strchr(names, *p->at) : NULL;
    if (!name) {
        fail_at(p, p->at, "wanted one of \"\\/bfnrtu after a backslash");
        return false;
    }
    p->at++;
    *p->characters++ = meanings[name - names];
    return true;
}

static bool parse_character(parser *p)
{
    int length = mx_utf8_length((const unsigned char *)p->at, (size_t)(p->end - p->at));
    if (length == 0 || (unsigned char)*p->at < ' ') {
        fail_at(p, p->at, length ? "control characters in a text must be escaped" : "wanted UTF-8");
        return false;
    }
    memcpy(p->characters, p->at, (size_t)length);
    p->characters += length;
    p->at += length;
    return true;
}

/* The text after an opening quote. */
static bool parse_text(parser *p, const char **text, int64_t *length)
{
    char *start = p->characters;
    while (!take(p, '"')) {
        if (p->at == p->end) {
            fail_at(p, p->at, "wanted a closing quote");
            return false;
        }
        if (!(take(p, '\\') ? parse_escape(p) : parse_character(p)))
            return false;
    }
    *length = p->characters - start;
    *p->characters++ = 0; /* the quotes were two bytes of text */
    *text = start;
    return true;
}

/* ---- numbers -------------------------------------------------------------------------------------------- */

static bool skip_digits(parser *p)
{
    if (!is_digit(p)) {
        fail_at(p, p->at, "wanted a digit");
        return false;
    }
    while (is_digit(p))
        p->at++;
    return true;
}

static bool parse_number(parser *p, mx_json *value)
{
    const char *start = p->at;
    bool fraction = false;
    take(p, '-');
    if (!take(p, '0') && !skip_digits(p))
        return false;
    if (take(p, '.')) {
        fraction = true;
        if (!skip_digits(p))
            return false;
    }
    if (take(p, 'e') || take(p, 'E')) {
        fraction = true;
        if (!take(p, '+'))
            take(p, '-');
        if (!skip_digits(p))
            return false;
    }
    /* A copy with a zero byte for strtod, in character space that this token no longer needs. */
    size_t length = (size_t)(p->at - start);
    memcpy(p->characters, start, length);
    p->characters[length] = 0;
    value->kind = MX_JSON_NUMBER;
    value->number = mx_text_to_number(p->characters, NULL);
    if (!isfinite(value->number)) {
        fail_at(p, start, "the number is too large");
        return false;
    }
    errno = 0;
    value->integer = fraction ? 0 : strtoll(p->characters, NULL, 10);
    value->whole = !fraction && errno == 0;
    return true;
}

/* ---- arrays and objects --------------------------------------------------------------------------------- */

static void close_container(parser *p, mx_json *value, int64_t count)
{
    value->first = p->finished;
    value->count = count;
    memmove(p->finished, p->top, (size_t)count * sizeof *value);
    p->top += count;
    for (mx_json *low = p->finished, *high = p->finished + count - 1; low < high; low++, high--) {
        mx_json swapped = *low;
        *low = *high;
        *high = swapped;
    }
    p->finished += count;
}

static bool parse_key(parser *p, const char **key)
{
    int64_t length;
    if (!take(p, '"')) {
        fail_at(p, p->at, "wanted a name in quotes");
        return false;
    }
    if (!parse_text(p, key, &length))
        return false;
    skip_space(p);
    if (!take(p, ':')) {
        fail_at(p, p->at, "wanted ':' after the name");
        return false;
    }
    return true;
}

/* One item or member, pushed onto the stack. */
static bool parse_item(parser *p, bool named)
{
    mx_json item = {0};
    skip_space(p);
    if (named && !parse_key(p, &item.key))
        return false;
    if (!parse_value(p, &item))
        return false;
    *--p->top = item;
    skip_space(p);
    return true;
}

static bool parse_container(parser *p, mx_json *value, char close)
{
    bool named = close == '}';
    int64_t count = 0;
    value->kind = named ? MX_JSON_OBJECT : MX_JSON_ARRAY;
    if (++p->depth > p->most) {
        fail_at(p, p->at - 1, "more than %d levels of arrays and objects (GLUON_LIMIT_DEPTH)", p->most);
        return false;
    }
    skip_space(p);
    if (!take(p, close)) {
        do {
            if (!parse_item(p, named))
                return false;
            count++;
        } while (take(p, ','));
        if (!take(p, close)) {
            fail_at(p, p->at, "wanted ',' or '%c'", close);
            return false;
        }
    }
    p->depth--;
    close_container(p, value, count);
    return true;
}

static bool parse_word(parser *p, mx_json *value)
{
    static const struct { const char *word; uint8_t length, kind; bool truth; } words[] = {
        {"null", 4, MX_JSON_NULL, false}, {"true", 4, MX_JSON_BOOL, true}, {"false", 5, MX_JSON_BOOL, false},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if ((size_t)(p->end - p->at) < words[i].length || memcmp(p->at, words[i].word, words[i].length) != 0)
            continue;
        p->at += words[i].length;
        value->kind = words[i].kind;
        value->truth = words[i].truth;
        return true;
    }
    fail_at(p, p->at, "wanted a value");
    return false;
}

static bool parse_value(parser *p, mx_json *value)
{
    skip_space(p);
    value->line = p->line;
    value->column = (uint32_t)(p->at - p->line_start + 1);
    if (take(p, '{'))
        return parse_container(p, value, '}');
    if (take(p, '['))
        return parse_container(p, value, ']');
    if (take(p, '"')) {
        value->kind = MX_JSON_TEXT;
        return parse_text(p, &value->text, &value->count);
    }
    if (is_digit(p) || (p->at < p->end && *p->at == '-'))
        return parse_number(p, value);
    return parse_word(p, value);
}

/* ---- the document --------------------------------------------------------------------------------------- */

static size_t most_values(const char *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += text[i] == ',' || text[i] == '[' || text[i] == '{';
    return count;
}

mx_json *mx_json_parse(const char *text, size_t length)
{
    if (!text)
        return (mx_json *)mx_fail_null(MX_ERR_ARGUMENT, "JSON: the text is NULL");
    if (length > SIZE_MAX / 2 / MX_JSON_FACTOR)
        return (mx_json *)mx_fail_null(MX_ERR_FILE, "JSON: a text of %zu bytes is too long", length);
    size_t values = most_values(text, length);
    size_t bytes = sizeof(document) + values * sizeof(mx_json) + length + 1;
    document *d = mx_alloc(bytes);
    if (!d)
        return NULL;
    *d = (document){.bytes = bytes};
    mx_json *first = (mx_json *)(d + 1);
    parser p = {.at = text, .end = text + length, .line_start = text, .line = 1, .most = (int)mx_limits_get().depth,
                .finished = first, .top = first + values, .characters = (char *)(first + values)};
    bool fine = parse_value(&p, &d->root);
    if (fine) {
        skip_space(&p);
        fine = p.at == p.end;
        if (!fine)
            fail_at(&p, p.at, "wanted nothing after the value");
    }
    if (fine)
        return &d->root;
    mx_free(d, bytes);
    return NULL;
}

void mx_json_free(mx_json *root)
{
    if (!root)
        return;
    document *d = (document *)((char *)root - offsetof(document, root));
    mx_free(d, d->bytes);
}
