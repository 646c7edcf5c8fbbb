/* Numbers in text files (see mx_load_csv).
 *
 *     line:    number , number , ... NEWLINE       spaces around numbers are fine
 *
 * The file is scanned once to count lines and columns, then parsed into the array: a value takes at least a character
 * and a separator, so the allocation is bounded by the size of the file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "gluon/data/data.h"
#include "ndarray/convert.h"

#define LARGEST ((int64_t)16 << 30)
#define TILE 256

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static const char *skip_blanks(const char *p)
{
    while (blank(*p))
        p++;
    return p;
}

/* The fast path: decimal numbers of up to 15 digits are exact in a double, and so are powers of ten up to 22.
 * NULL: use the slow path. */
static const char *quick_number(const char *p, double *value)
{
    static const double power[] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const bool minus = *p == '-';
    int digits = 0, behind = 0;
    int64_t number = 0;
    p += *p == '-' || *p == '+';
    for (; *p >= '0' && *p <= '9'; p++, digits++)
        number = digits < 15 ? 10 * number + (*p - '0') : 0;
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++, digits++, behind++)
            number = digits < 15 ? 10 * number + (*p - '0') : 0;
    if (!digits || digits > 15 || *p == 'e' || *p == 'E')
        return NULL;
    *value = (double)number / power[behind];
    *value = minus ? -*value : *value;
    return p;
}

/* Reads a number and the blanks after it; NULL if there is none.  Hexadecimal numbers and the like are not accepted. */
static const char *read_number(const char *p, double *value)
{
    p = skip_blanks(p);
    const char *end = quick_number(p, value);
    if (!end) {
        const char *first = p + (*p == '-' || *p == '+');
        char *after;
        if (first[0] == '0' && (first[1] == 'x' || first[1] == 'X'))
            return NULL;
        *value = mx_text_to_number(p, &after);
        if (after == p)
            return NULL;
        end = after;
    }
    return skip_blanks(end);
}

typedef struct csv {
    const char *path, *text, *end; /* the text ends with a zero byte at `end` */
    int64_t rows, columns;
} csv;

static bool empty_line(const char *p) { return p = skip_blanks(p), *p == '\n' || !*p; }
static const char *next_line(const char *p, const char *end)
{
    const char *line = memchr(p, '\n', (size_t)(end - p));
    return line ? line + 1 : end;
}

/* Counts the lines that are not empty, and the commas of the first of them. */
static bool measure(csv *c)
{
    for (const char *p = c->text; p < c->end; p = next_line(p, c->end)) {
        if (empty_line(p))
            continue;
        if (!c->rows++)
            for (c->columns = 1; *p && *p != '\n'; p++)
                c->columns += *p == ',' && !empty_line(p + 1);
    }
    if (!c->rows)
        mx_fail(MX_ERR_FILE, "%s: the file has no numbers", c->path);
    return c->rows;
}

static bool line_fail(const csv *c, int64_t line, int64_t column, const char *what)
{
    mx_fail(MX_ERR_FILE, "%s: line %lld, value %lld: %s (lines have %lld values, separated by commas)", c->path,
            (long long)line, (long long)column, what, (long long)c->columns);
    return false;
}

static bool read_line(const csv *c, const char *p, int64_t line, char *to, mx_dtype dtype)
{
    double tile[TILE];
    const int64_t item = mx_dtype_size(dtype);
    for (int64_t i = 0; i < c->columns; i++) {
        const bool last = i + 1 == c->columns;
        p = read_number(p, &tile[i % TILE]);
        if (!p || (*p != ',' && *p != '\n' && *p))
            return line_fail(c, line, i + 1, "is not a number");
        if (*p == ',' && last && empty_line(p + 1))
            p++; /* a comma after the last value is allowed */
        if ((*p == ',') == last)
            return line_fail(c, line, i + 1, last ? "is followed by more values" : "is the last one");
        p += !last;
        if (last || i % TILE == TILE - 1)
            mx_convert(to + i / TILE * TILE * item, dtype, tile, MX_FLOAT64, i % TILE + 1);
    }
    return true;
}

static mx_array *parse(csv *c, mx_dtype dtype)
{
    if (memchr(c->text, 0, (size_t)(c->end - c->text)))
        return mx_fail_null(MX_ERR_FILE, "%s: the file is not text: it has zero bytes", c->path);
    if (!measure(c))
        return NULL;
    if (c->columns > (c->end - c->text + 2) / c->rows) /* every value takes two characters, its comma included */
        return mx_fail_null(MX_ERR_FILE, "%s: the first line has %lld values, others have fewer", c->path,
                            (long long)c->columns);
    mx_shape_t shape = {.ndim = 2, .dim = {c->rows, c->columns}};
    mx_array *x = mx_scope_add(mx_array_new(&shape, dtype, mx_cpu(0)));
    if (!x)
        return NULL;
    char *to = mx_array_data(x);
    int64_t line = 1;
    for (const char *p = c->text; p < c->end; p = next_line(p, c->end), line++) {
        if (empty_line(p))
            continue;
        if (!read_line(c, p, line, to, dtype))
            return NULL;
        to += c->columns * mx_dtype_size(dtype);
    }
    return x;
}

mx_array *mx_load_csv(const char *path, mx_dtype dtype)
{
    int64_t size;
    if (!path || mx_dtype_size(dtype) < 1)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_load_csv: %s",
                            path ? "dtype is not an element type" : "path is NULL, wanted a text");
    char *text = mx_file_read(path, LARGEST, &size);
    if (!text)
        return NULL;
    csv c = {.path = path, .text = text, .end = text + size};
    mx_array *x = parse(&c, dtype);
    mx_free(text, (size_t)size + 1);
    return x;
}
