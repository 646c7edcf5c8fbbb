/* Arrays as text, in NumPy's default format.
 *
 * Two passes over the elements that are shown: the first finds the common width (and whether floats need
 * exponents), the second writes.  Beyond 1000 elements only three at each end of an axis are shown.
 *
 *     floats:  [pad_left] . [pad_right]        aligned at the point, padded with spaces
 *              [pad_left] . [precision] e+XX   if a number is very large or small, or they differ too much
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "ndarray/array.h"
#include "ndarray/convert.h"
#include "ndarray/digits.h"
#include "ndarray/dtype.h"
#include "ndarray/sparse.h"

#define PRECISION 8
#define THRESHOLD 1000
#define EDGE 3
#define LINE_WIDTH 75

typedef struct printer {
    mx_text text;
    const char *elements; /* in host memory */
    const int64_t *shape;
    int64_t stride[MX_MAX_NDIM]; /* elements */
    int ndim;
    mx_dtype dtype;
    bool summary;      /* omit the middle of long axes */
    size_t line_start; /* where in the text the current line begins */
    int width;         /* of every element */
    /* Floats only: */
    int pad_left, pad_right, precision, exponent_digits;
    bool exponents;                        /* d.ddde+XX for all */
    bool finite, other, negative_infinite; /* there are finite values; infinities or NaN; -inf */
    double least, most;                    /* of the absolute values of finite elements that are not 0 */
} printer;

typedef void (*element_fn)(printer *p, int64_t index);

static double value_at(const printer *p, int64_t index)
{
    double value;
    mx_convert(&value, MX_FLOAT64, p->elements + index * mx_dtype_size(p->dtype), p->dtype, 1);
    return value;
}

static int64_t integer_at(const printer *p, int64_t index)
{
    int64_t value;
    mx_convert(&value, MX_INT64, p->elements + index * mx_dtype_size(p->dtype), p->dtype, 1);
    return value;
}

static void widen(int *width, int other) { *width = *width > other ? *width : other; }

static void add_spaces(mx_text *text, int count)
{
    for (int i = 0; i < count; i++)
        mx_text_add_char(text, ' ');
}

/* ---- one float ---------------------------------------------------------------------------------------------- */
static char digit_of(const mx_digits *d, int power) /* the digit of 10^power */
{
    int i = d->exponent - power;
    return i >= 0 && i < d->count ? d->digit[i] : '0';
}

/* Characters left and right of the point in positional notation. */
static int left_width(const mx_digits *d, double value)
{
    return (d->exponent > 0 ? d->exponent : 0) + 1 + !!signbit(value);
}
static int right_width(const mx_digits *d) { return d->count - 1 > d->exponent ? d->count - 1 - d->exponent : 0; }

static void add_plain(mx_text *text, const mx_digits *d, double value)
{
    if (signbit(value))
        mx_text_add_char(text, '-');
    for (int power = d->exponent > 0 ? d->exponent : 0; power >= 0; power--)
        mx_text_add_char(text, digit_of(d, power));
    mx_text_add_char(text, '.');
    for (int i = 1; i <= right_width(d); i++)
        mx_text_add_char(text, digit_of(d, -i));
}

static void add_exponent(mx_text *text, int exponent, int digits)
{
    mx_text_print(text, "e%c%0*d", exponent < 0 ? '-' : '+', digits, exponent < 0 ? -exponent : exponent);
}

static const char *special_text(double value) { return isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

/* An element of a 0-d array: as many digits as it takes, like Python's float. */
static void add_float_scalar(mx_text *text, double value, mx_dtype dtype)
{
    if (!isfinite(value)) {
        mx_text_add(text, special_text(value));
        return;
    }
    mx_digits d = mx_digits_of(value, dtype, (mx_digits_rule){.most = -1});
    if (value == 0 || (fabs(value) >= 1e-4 && fabs(value) < 1e16)) {
        add_plain(text, &d, value);
        if (!right_width(&d))
            mx_text_add_char(text, '0');
        return;
    }
    mx_text_print(text, "%s%c%s", signbit(value) ? "-" : "", d.digit[0], d.count > 1 ? "." : "");
    mx_text_add_bytes(text, d.digit + 1, (size_t)d.count - 1);
    add_exponent(text, d.exponent, 2);
}

/* ---- the common format of floats ---------------------------------------------------------------------------- */
static void look_at_float(printer *p, int64_t index)
{
    double value = value_at(p, index), size = fabs(value);
    if (!isfinite(value)) {
        p->other = true;
        p->negative_infinite |= value == -INFINITY;
        return;
    }
    p->finite = true;
    if (size == 0)
        return;
    p->least = size < p->least ? size : p->least;
    p->most = size > p->most ? size : p->most;
}

/* The quotient in the precision of the type, as NumPy computes it. */
static double ratio(const printer *p)
{
    double quotient = p->most / p->least;
    if (p->dtype == MX_FLOAT64)
        return quotient;
    float rounded = (float)quotient;
    return p->dtype == MX_FLOAT16 ? mx_half_to_float(mx_half_from_float(rounded)) : rounded;
}

static void measure_plain(printer *p, int64_t index)
{
    double value = value_at(p, index);
    if (!isfinite(value))
        return;
    mx_digits d = mx_digits_of(value, p->dtype, (mx_digits_rule){.fractional = true, .most = PRECISION});
    widen(&p->pad_left, left_width(&d, value));
    widen(&p->pad_right, right_width(&d));
}

static void measure_exponents(printer *p, int64_t index)
{
    double value = value_at(p, index);
    if (!isfinite(value))
        return;
    mx_digits d = mx_digits_of(value, p->dtype, (mx_digits_rule){.most = PRECISION});
    widen(&p->pad_left, 1 + !!signbit(value));
    widen(&p->precision, d.count - 1);
    widen(&p->exponent_digits, d.exponent <= -100 || d.exponent >= 100 ? 3 : 2);
}

static void add_float(printer *p, int64_t index)
{
    double value = value_at(p, index);
    if (!isfinite(value)) {
        const char *text = special_text(value);
        add_spaces(&p->text, p->width - (int)strlen(text));
        mx_text_add(&p->text, text);
    } else if (p->exponents) {
        mx_digits d = mx_digits_of(value, p->dtype, (mx_digits_rule){.most = p->precision, .least = p->precision});
        add_spaces(&p->text, p->pad_left - 1 - !!signbit(value));
        mx_text_print(&p->text, "%s%c.", signbit(value) ? "-" : "", d.digit[0]);
        for (int i = 1; i <= p->precision; i++)
            mx_text_add_char(&p->text, digit_of(&d, d.exponent - i));
        add_exponent(&p->text, d.exponent, p->exponent_digits);
    } else {
        mx_digits d = mx_digits_of(value, p->dtype, (mx_digits_rule){.fractional = true, .most = PRECISION});
        add_spaces(&p->text, p->pad_left - left_width(&d, value));
        add_plain(&p->text, &d, value);
        add_spaces(&p->text, p->pad_right - right_width(&d));
    }
}

/* ---- integers and bools ------------------------------------------------------------------------------------- */
static void measure_integer(printer *p, int64_t index)
{
    char text[32];
    widen(&p->width, snprintf(text, sizeof text, "%" PRId64, integer_at(p, index)));
}

static void add_integer(printer *p, int64_t index)
{
    mx_text_print(&p->text, "%*" PRId64, p->width, integer_at(p, index));
}

static void add_bool(printer *p, int64_t index) { mx_text_add(&p->text, integer_at(p, index) ? " True" : "False"); }

/* ---- walking ------------------------------------------------------------------------------------------------ */
/* The index after i along an axis of n: skips the middle in a summary. */
static int64_t next_place(const printer *p, int64_t i, int64_t n)
{
    return p->summary && n > 2 * EDGE && i == EDGE - 1 ? n - EDGE : i + 1;
}

static void visit(printer *p, int axis, int64_t index, element_fn look)
{
    if (axis == p->ndim) {
        look(p, index);
        return;
    }
    for (int64_t i = 0; i < p->shape[axis]; i = next_place(p, i, p->shape[axis]))
        visit(p, axis + 1, index + i * p->stride[axis], look);
}

static void new_line(printer *p, int indent, int count)
{
    for (int i = 0; i < count; i++)
        mx_text_add_char(&p->text, '\n');
    p->line_start = p->text.length;
    add_spaces(&p->text, indent);
}

/* Before a word of a row: breaks the line if the word does not fit.  Trailing spaces are removed. */
static void wrap(printer *p, int width)
{
    mx_text *text = &p->text;
    int column = (int)(text->length - p->line_start), limit = LINE_WIDTH - p->ndim;
    if (text->failed || column + width <= limit || column <= p->ndim)
        return;
    while (text->length && text->data[text->length - 1] == ' ')
        text->data[--text->length] = 0;
    new_line(p, p->ndim, 1);
}

static void write_row(printer *p, int64_t index, element_fn add)
{
    int64_t n = p->shape[p->ndim - 1];
    for (int64_t i = 0, next; i < n; i = next) {
        next = next_place(p, i, n);
        wrap(p, p->width);
        add(p, index + i);
        if (next < n)
            mx_text_add_char(&p->text, ' ');
        if (next > i + 1) {
            wrap(p, 3);
            mx_text_add(&p->text, "... ");
        }
    }
}

static void write_axes(printer *p, int axis, int64_t index, element_fn add)
{
    int64_t n = p->shape[axis];
    mx_text_add_char(&p->text, '[');
    if (axis == p->ndim - 1)
        write_row(p, index, add);
    for (int64_t i = 0, next; axis < p->ndim - 1 && i < n; i = next) {
        next = next_place(p, i, n);
        write_axes(p, axis + 1, index + i * p->stride[axis], add);
        if (next > i + 1) {
            new_line(p, axis + 1, p->ndim - 1 - axis);
            mx_text_add(&p->text, "...");
        }
        if (next < n)
            new_line(p, axis + 1, p->ndim - 1 - axis);
    }
    mx_text_add_char(&p->text, ']');
}

/* ---- putting it together ------------------------------------------------------------------------------------ */
static element_fn choose_float_format(printer *p)
{
    p->least = INFINITY;
    visit(p, 0, 0, look_at_float);
    p->exponents = p->most > 0 && (p->most >= 1e8 || p->least < 0.0001 || ratio(p) > 1000.0);
    visit(p, 0, 0, p->exponents ? measure_exponents : measure_plain);
    if (p->finite && p->exponents)
        p->pad_right = p->exponent_digits + 2 + p->precision;
    if (p->other)
        widen(&p->pad_left, 3 + p->negative_infinite - (p->pad_right + 1));
    p->width = p->pad_left + 1 + p->pad_right;
    return add_float;
}

static element_fn choose_format(printer *p)
{
    char class = mx_dtype_table[p->dtype].kind;
    if (class == 'f')
        return choose_float_format(p);
    if (class == 'b') {
        p->width = 5;
        return add_bool;
    }
    visit(p, 0, 0, measure_integer);
    return add_integer;
}

static void write_scalar(printer *p)
{
    char class = mx_dtype_table[p->dtype].kind;
    if (class == 'f')
        add_float_scalar(&p->text, value_at(p, 0), p->dtype);
    else if (class == 'b')
        mx_text_add(&p->text, integer_at(p, 0) ? "True" : "False");
    else
        mx_text_print(&p->text, "%" PRId64, integer_at(p, 0));
}

static void write_elements(printer *p, const mx_array *x)
{
    int64_t stride = 1;
    for (int i = p->ndim - 1; i >= 0; i--, stride *= p->shape[i + 1])
        p->stride[i] = stride;
    if (x->size == 0)
        mx_text_add(&p->text, "[]");
    else if (p->ndim == 0)
        write_scalar(p);
    else
        write_axes(p, 0, 0, choose_format(p));
}

/* "<NDArray 2x3 @cpu(0)>" */
static void write_footer(mx_text *text, const mx_array *x)
{
    static const char *const names[] = {"\n<NDArray ", "<RowSparseNDArray ", "<CSRNDArray "};
    char context[32];
    mx_text_add(text, names[mx_stype_of(x)]);
    for (int i = 0; i < x->ndim; i++)
        mx_text_print(text, "%s%" PRId64, i ? "x" : "", x->shape[i]);
    mx_text_print(text, " @%s>", mx_context_text(x->context, context));
}

const char *mx_array_text(const mx_array *x)
{
    if (!mx_array_any_ok(x, "mx_array_text", "x"))
        return NULL;
    printer p = {.shape = x->shape, .ndim = x->ndim, .dtype = (mx_dtype)x->dtype, .summary = x->size > THRESHOLD};
    void *stage = NULL;
    if (!x->storage) {
        mx_text_add(&p.text, mx_is_sparse(x) ? "" : "[abstract]");
    } else if (mx_context_is_host(x->storage->context)) {
        mx_array_wait(x);
        p.elements = mx_data(x);
        write_elements(&p, x);
    } else {
        p.elements = stage = mx_alloc(mx_bytes(x));
        if (!stage || mx_array_read(x, stage, mx_bytes(x)))
            p.text.failed = true;
        else
            write_elements(&p, x);
    }
    mx_free(stage, mx_bytes(x));
    write_footer(&p.text, x);
    const char *result = mx_text_to_scope(&p.text);
    mx_text_free(&p.text);
    return result;
}

void mx_array_print(const mx_array *x, FILE *stream)
{
    mx_scoped() {
        const char *text = mx_array_text(x);
        if (text && (!stream || fprintf(stream, "%s\n", text) < 0))
            mx_fail(MX_ERR_FILE, "mx_array_print: the stream %s", stream ? "cannot be written to" : "is NULL");
    }
}
