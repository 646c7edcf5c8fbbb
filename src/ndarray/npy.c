/* NPY files: one array with a text header, as saved by NumPy.
 *
 *     "\x93NUMPY" version header_length  "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n"  elements
 *
 * Versions 1 to 3 are read, in C or Fortran order and either byte order; version 1 is written.  The header is a Python
 * dictionary; only the three keys with literals of the right kind are accepted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/npy.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "ndarray/array.h"
#include "ndarray/dtype.h"
#include "ndarray/wire.h"

#define MOST_HEADER 65536 /* bytes; NumPy writes about 100 */

typedef struct header {
    mx_reader *reader;
    const char *at;      /* parse position; the text ends with a zero byte */
    const mx_wire *wire; /* element type; NULL: not seen yet */
    bool swap;           /* big-endian elements */
    bool fortran, has_order, has_shape;
    mx_shape_t shape;
} header;

/* ---- the header's text ------------------------------------------------------------------------------------- */
static bool header_fail(header *h, const char *wanted)
{
    return mx_reader_fail(h->reader, "the NPY header is not understood at \"%.24s\": wanted %s", h->at, wanted);
}

/* Skips spaces and the given text, if present. */
static bool accept(header *h, const char *text)
{
    h->at += strspn(h->at, " \t\n\r\f");
    if (strncmp(h->at, text, strlen(text)) != 0)
        return false;
    h->at += strlen(text);
    return true;
}

static bool parse_string(header *h, char *text, size_t room)
{
    accept(h, "");
    char quote = *h->at;
    const char *end = quote == '\'' || quote == '"' ? strchr(h->at + 1, quote) : NULL;
    if (!end || (size_t)(end - h->at) > room)
        return header_fail(h, "a short text in quotes");
    memcpy(text, h->at + 1, (size_t)(end - h->at - 1));
    text[end - h->at - 1] = 0;
    h->at = end + 1;
    return true;
}

/* '<f4': byte order, class, size */
static bool parse_descriptor(header *h)
{
    char text[16] = "";
    if (accept(h, "["))
        return header_fail(h, "the descriptor of a scalar type; structured arrays are not supported");
    if (!parse_string(h, text, sizeof text))
        return false;
    const char *rest = text;
    if (strchr("<>|=", *rest) && *rest)
        h->swap = *rest++ == '>';
    if (*rest && rest[1] >= '1' && rest[1] <= '8' && !rest[2])
        h->wire = mx_wire_find(*rest, rest[1] - '0');
    if (!h->wire)
        return mx_reader_fail(h->reader,
                              "elements of NPY type '%s' cannot be read; wanted floats, integers "
                              "or bools",
                              text);
    return true;
}

static bool parse_order(header *h)
{
    h->fortran = accept(h, "True");
    h->has_order = h->fortran || accept(h, "False");
    return h->has_order || header_fail(h, "True or False");
}

static bool parse_size(header *h, int64_t *size)
{
    accept(h, "");
    const char *start = h->at;
    *size = 0;
    for (; *h->at >= '0' && *h->at <= '9'; h->at++)
        if (__builtin_mul_overflow(*size, 10, size) || __builtin_add_overflow(*size, *h->at - '0', size))
            return header_fail(h, "a smaller size");
    if (h->at == start)
        return header_fail(h, "a size");
    accept(h, "L"); /* Python 2 wrote 3L */
    return true;
}

static bool parse_shape(header *h)
{
    if (!accept(h, "("))
        return header_fail(h, "a tuple of sizes");
    h->shape.ndim = 0;
    h->has_shape = true;
    while (!accept(h, ")")) {
        if (h->shape.ndim == MX_MAX_NDIM)
            return mx_reader_fail(h->reader, "the array has more than %d axes", MX_MAX_NDIM);
        if (!parse_size(h, &h->shape.dim[h->shape.ndim++]))
            return false;
        if (!accept(h, ",") && !accept(h, ")"))
            return header_fail(h, "',' or ')'");
        if (h->at[-1] == ')')
            return true;
    }
    return true;
}

static const struct { const char *key; bool (*parse)(header *h); } keys[] = {
    {"descr", parse_descriptor}, {"fortran_order", parse_order}, {"shape", parse_shape},
};

static bool parse_entry(header *h)
{
    char key[24];
    if (!parse_string(h, key, sizeof key))
        return false;
    if (!accept(h, ":"))
        return header_fail(h, "':'");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i].key) == 0)
            return keys[i].parse(h);
    return mx_reader_fail(h->reader, "the NPY header has the unknown key '%s'", key);
}

static bool parse_header(header *h)
{
    if (!accept(h, "{"))
        return header_fail(h, "'{'");
    while (!accept(h, "}")) {
        if (!parse_entry(h))
            return false;
        if (!accept(h, ",") && !(accept(h, ""), *h->at == '}'))
            return header_fail(h, "',' or '}'");
    }
    accept(h, "");
    if (*h->at)
        return header_fail(h, "the end");
    if (!h->wire || !h->has_order || !h->has_shape)
        return mx_reader_fail(h->reader, "the NPY header lacks 'descr', 'fortran_order' or 'shape'");
    return true;
}

/* ---- reading ----------------------------------------------------------------------------------------------- */
static bool read_header_length(mx_reader *reader, uint32_t *length)
{
    unsigned char start[8] = {0}, narrow[2] = {0};
    if (!mx_reader_get(reader, start, 8, "the start of an NPY file"))
        return false;
    if (memcmp(start, "\x93NUMPY", 6) != 0)
        return mx_reader_fail(reader, "this is not an NPY file: it does not start with \\x93NUMPY");
    if (start[6] < 1 || start[6] > 3)
        return mx_reader_fail(reader, "NPY version %d.%d, wanted 1, 2 or 3", start[6], start[7]);
    if (start[6] > 1)
        return mx_reader_u32(reader, length, "the header's length");
    bool fine = mx_reader_get(reader, narrow, 2, "the header's length");
    *length = narrow[0] | (uint32_t)narrow[1] << 8;
    return fine;
}

static bool read_header(header *h)
{
    uint32_t length = 0;
    if (!read_header_length(h->reader, &length) || !mx_reader_need(h->reader, length, "the NPY header"))
        return false;
    if (length > MOST_HEADER)
        return mx_reader_fail(h->reader, "the NPY header has %u bytes, wanted at most %d", (unsigned)length,
                              MOST_HEADER);
    char *text = mx_alloc_zero((size_t)length + 1);
    bool fine = text && mx_reader_get(h->reader, text, length, "the NPY header");
    if (fine && strlen(text) != length)
        fine = mx_reader_fail(h->reader, "the NPY header has a zero byte in it");
    h->at = text;
    fine = fine && parse_header(h);
    h->at = "";
    mx_free(text, (size_t)length + 1);
    return fine;
}

/* to (C order) from elements in Fortran order. */
static void from_fortran(char *to, const char *from, const mx_shape_t *shape, int64_t count, size_t item)
{
    int64_t step[MX_MAX_NDIM], place[MX_MAX_NDIM] = {0}, source = 0, stride = 1;
    for (int i = 0; i < shape->ndim; i++, stride *= shape->dim[i - 1])
        step[i] = stride;
    for (int64_t n = 0; n < count; n++) {
        memcpy(to + (size_t)n * item, from + (size_t)source * item, item);
        for (int i = shape->ndim - 1; i >= 0; i--) {
            source += step[i];
            if (++place[i] < shape->dim[i])
                break;
            source -= step[i] * shape->dim[i];
            place[i] = 0;
        }
    }
}

static bool read_elements(const header *h, mx_array *x)
{
    size_t bytes = mx_bytes(x);
    if (!h->fortran || h->shape.ndim < 2)
        return mx_wire_read(h->reader, h->wire, h->swap, mx_data(x), x->size, "the elements");
    char *stage = mx_alloc(bytes);
    bool fine = stage && mx_wire_read(h->reader, h->wire, h->swap, stage, x->size, "the elements");
    if (fine)
        from_fortran(mx_data(x), stage, &h->shape, x->size, (size_t)mx_dtype_size((mx_dtype)x->dtype));
    mx_free(stage, bytes);
    return fine;
}

mx_array *mx_npy_read(mx_reader *reader)
{
    header h = {.reader = reader, .at = ""};
    if (!read_header(&h))
        return NULL;
    int64_t size = mx_wire_elements(reader, h.shape.dim, h.shape.ndim, "the array");
    if (size < 0 || !mx_reader_need_items(reader, (uint64_t)size, (uint64_t)h.wire->size, "the array's elements"))
        return NULL;
    mx_array *x = mx_array_new(&h.shape, (mx_dtype)h.wire->dtype, mx_cpu(0));
    if (x && x->size && !read_elements(&h, x)) {
        mx_release(x);
        return NULL;
    }
    return x;
}

mx_array *mx_load_npy(const char *path)
{
    mx_reader reader;
    if (!path)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_load_npy: path is NULL");
    if (!mx_reader_open(&reader, path))
        return NULL;
    mx_array *x = mx_npy_read(&reader);
    mx_reader_close(&reader);
    return mx_scope_add(x);
}

/* ---- writing ----------------------------------------------------------------------------------------------- */
void mx_npy_header(mx_text *text, const mx_array *x)
{
    mx_text_print(text, "{'descr': '%s', 'fortran_order': False, 'shape': (", mx_dtype_table[x->dtype].npy);
    for (int i = 0; i < x->ndim; i++)
        mx_text_print(text, "%" PRId64 "%s", x->shape[i], i + 1 < x->ndim ? ", " : x->ndim == 1 ? "," : "");
    mx_text_add(text, "), }");
    while ((text->length + 11) % 64 && !text->failed)
        mx_text_add_char(text, ' ');
    mx_text_add_char(text, '\n');
}

mx_code mx_save_npy(const char *path, mx_array *x)
{
    mx_writer writer;
    if (!mx_array_ok(x, "mx_save_npy", "x"))
        return mx_error_code();
    if (!path)
        return mx_fail(MX_ERR_ARGUMENT, "mx_save_npy: path is NULL");
    if (!x->storage)
        return mx_fail(MX_ERR_STATE, "mx_save_npy: x has no elements: it was made while tracing");
    size_t bytes = mx_bytes(x);
    mx_text text = {0};
    mx_npy_header(&text, x);
    char *stage = mx_alloc(bytes);
    if (text.failed || !stage || mx_array_read(x, stage, bytes) || !mx_writer_open(&writer, path)) {
        mx_text_free(&text);
        mx_free(stage, bytes);
        return mx_error_code();
    }
    const unsigned char length[2] = {(unsigned char)text.length, (unsigned char)(text.length >> 8)};
    mx_writer_put(&writer, "\x93NUMPY\x01\x00", 8);
    mx_writer_put(&writer, length, 2);
    mx_writer_put(&writer, text.data, text.length);
    mx_writer_put(&writer, stage, bytes);
    mx_text_free(&text);
    mx_free(stage, bytes);
    return mx_writer_commit(&writer) ? MX_OK : mx_error_code();
}
