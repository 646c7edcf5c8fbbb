/* Sparse examples in text files (see mx_load_libsvm).
 *
 *     line:   label [, label ...]  column : value  column : value ...      columns count from 0 and ascend
 *
 * The text is read once; the data of a line takes at most eight times its length in memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "base/vec.h"
#include "gluon/data/data.h"
#include "gluon/sparse.h"

#define LARGEST ((int64_t)16 << 30)

typedef struct reading {
    const char *path;
    int64_t line, columns;
    int64_t labels;                /* per line; 0: not known yet */
    MX_VEC(double) value;          /* of all elements */
    MX_VEC(double) label;          /* (lines, labels) */
    MX_VEC(int64_t) column, start; /* of all elements; (lines) where each begins */
} reading;

static const char *skip_blanks(const char *p)
{
    while (*p == ' ' || *p == '\t' || *p == '\r')
        p++;
    return p;
}

static bool line_fail(const reading *r, const char *what)
{
    mx_fail(MX_ERR_FILE, "%s: line %lld: %s (wanted: label column:value column:value ...)", r->path, (long long)r->line,
            what);
    return false;
}

static bool number(const reading *r, const char **p, double *value)
{
    char *after;
    const char *at = skip_blanks(*p);
    const char *digits = at + (*at == '-' || *at == '+');
    const bool hexadecimal = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    *value = mx_text_to_number(at, &after);
    *p = after;
    return (after != at && !hexadecimal) || line_fail(r, "a number is missing");
}

static bool read_labels(reading *r, const char **p)
{
    int64_t count = 0;
    for (double value;; ++*p) {
        if (!number(r, p, &value))
            return false;
        if (!mx_vec_push(&r->label, value))
            return false;
        count++;
        if (**p != ',')
            break;
    }
    if (!r->labels)
        r->labels = count;
    return r->labels == count || line_fail(r, "its number of labels differs from the first line");
}

static bool read_element(reading *r, const char **p, int64_t *last)
{
    double column, value;
    if (!number(r, p, &column))
        return false;
    if (**p != ':')
        return line_fail(r, "a ':' is missing between a column and its value");
    ++*p;
    if (!(column >= 0) || column >= (double)r->columns || column != floor(column))
        return line_fail(r, "a column is outside data_shape");
    if ((int64_t)column <= *last)
        return line_fail(r, "the columns are not ascending");
    *last = (int64_t)column;
    return number(r, p, &value) && mx_vec_push(&r->column, *last) && mx_vec_push(&r->value, value);
}

static bool read_line(reading *r, const char *p)
{
    int64_t last = -1;
    if (!mx_vec_push(&r->start, r->column.length) || !read_labels(r, &p))
        return false;
    for (p = skip_blanks(p); *p && *p != '\n'; p = skip_blanks(p))
        if (!read_element(r, &p, &last))
            return false;
    return true;
}

static bool read_text(reading *r, const char *text, const char *end)
{
    if (memchr(text, 0, (size_t)(end - text)))
        return mx_fail(MX_ERR_FILE, "%s: the file is not text: it has zero bytes", r->path), false;
    for (const char *p = text; p < end;) {
        const char *line = memchr(p, '\n', (size_t)(end - p)), *first = skip_blanks(p);
        r->line++;
        if (*first && *first != '\n' && *first != '#' && !read_line(r, p))
            return false;
        p = line ? line + 1 : end;
    }
    if (!r->start.length)
        return mx_fail(MX_ERR_FILE, "%s: the file has no examples", r->path), false;
    return mx_vec_push(&r->start, r->column.length);
}

/* Doubles as an array of another type. */
static mx_array *array_of(const double *values, mx_dims shape, mx_dtype dtype)
{
    static const double nothing[1];
    mx_array *wide = mx_array_from(shape, MX_FLOAT64, values ? values : nothing);
    mx_array *x = wide ? mx_empty(shape, dtype, mx_context_of(wide)) : NULL;
    return x && !mx_array_set(x, wide) ? x : NULL;
}

static mx_code make_arrays(const reading *r, mx_dtype dtype, mx_array **data, mx_array **label)
{
    static const int64_t nothing[1];
    const int64_t n = r->column.length, rows = r->start.length - 1;
    mx_array *values = array_of(r->value.items, MX_DIMS(n), dtype);
    mx_array *columns = mx_array_from(MX_DIMS(n), MX_INT64, n ? r->column.items : nothing);
    mx_array *start = mx_array_from(MX_DIMS(rows + 1), MX_INT64, r->start.items);
    *data = values && columns && start ? mx_csr(MX_DIMS(rows, r->columns), values, columns, start) : NULL;
    *label = array_of(r->label.items, r->labels == 1 ? MX_DIMS(rows) : MX_DIMS(rows, r->labels), dtype);
    return *data && *label ? MX_OK : mx_error_code();
}

mx_code mx_load_libsvm(const char *path, int64_t columns, mx_dtype dtype, mx_array **data, mx_array **label)
{
    if (!path || !data || !label || columns < 1 || !mx_dtype_size(dtype))
        return mx_fail(MX_ERR_ARGUMENT, "mx_load_libsvm: %s",
                       !path             ? "path is NULL"
                       : !data || !label ? "data or label is NULL"
                       : columns < 1     ? "columns must be 1 or more"
                                         : "unknown element type");
    int64_t bytes;
    char *text = mx_file_read(path, LARGEST, &bytes);
    reading r = {.path = path, .columns = columns};
    mx_code code = text && read_text(&r, text, text + bytes) ? make_arrays(&r, dtype, data, label) : mx_error_code();
    if (text)
        mx_free(text, (size_t)bytes + 1);
    mx_vec_free(&r.value);
    mx_vec_free(&r.label);
    mx_vec_free(&r.column);
    mx_vec_free(&r.start);
    return code;
}
