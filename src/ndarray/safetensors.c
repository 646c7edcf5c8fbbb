/* Safetensors files: named arrays after a JSON header.
 *
 *     u64 length, {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}, elements
 *
 * The reader is strict: known types, sizes that fit their ranges, ranges that cover the data without gaps or overlaps,
 * no duplicate names.  Nothing is allocated for an array before the file is known to hold it.  Files are written with
 * the arrays in the caller's order, the header padded so that elements are aligned.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dict.h"
#include "base/error.h"
#include "base/json.h"
#include "base/vec.h"
#include "ndarray/params.h"
#include "ndarray/wire.h"

#define MOST_HEADER ((int64_t)16 << 20) /* bytes: room for 100,000 arrays */

static const struct {
    const char *name;
    int wire;
} types[] = {
    {"F32", MX_FLOAT32},     {"F64", MX_FLOAT64},    {"F16", MX_FLOAT16},     {"BF16", MX_BFLOAT16},
    {"U8", MX_UINT8},        {"I8", MX_INT8},        {"I32", MX_INT32},       {"I64", MX_INT64},
    {"BOOL", MX_BOOL},       {"I16", MX_WIRE_INT16}, {"U16", MX_WIRE_UINT16}, {"U32", MX_WIRE_UINT32},
    {"U64", MX_WIRE_UINT64},
};
#define TYPES ((int)(sizeof types / sizeof *types))

/* ---- reading --------------------------------------------------------------------------------------------------- */

typedef struct row {
    const char *name; /* in the JSON */
    const mx_wire *wire;
    mx_shape_t shape;
    int64_t begin, end; /* bytes after the header */
} row;
typedef MX_VEC(row) rows;

static bool parse_type(mx_reader *reader, const mx_json *value, row *r)
{
    const char *type = mx_json_text(mx_json_member(value, "dtype", MX_JSON_TEXT));
    for (int i = 0; type && i < TYPES; i++)
        if (!strcmp(type, types[i].name))
            r->wire = mx_wire_of(types[i].wire);
    if (type && !r->wire)
        return mx_reader_fail(reader, "array '%.64s' has elements of type '%.16s', which cannot be read", r->name,
                              type);
    return r->wire != NULL;
}

static bool parse_shape(mx_reader *reader, const mx_json *value, row *r)
{
    const mx_json *shape = mx_json_member(value, "shape", MX_JSON_ARRAY);
    if (!shape)
        return false;
    if (mx_json_count(shape) > MX_MAX_NDIM)
        return mx_reader_fail(reader, "array '%.64s' has more than %d axes", r->name, MX_MAX_NDIM);
    r->shape.ndim = (int32_t)mx_json_count(shape);
    for (int i = 0; i < r->shape.ndim; i++)
        if (!mx_json_int(mx_json_at(shape, i), &r->shape.dim[i]))
            return false;
    return true;
}

/* The range must hold exactly the elements, and be inside the file. */
static bool parse_range(mx_reader *reader, const mx_json *value, row *r, int64_t data)
{
    const mx_json *range = mx_json_member(value, "data_offsets", MX_JSON_ARRAY);
    if (!range || !mx_json_int(mx_json_at(range, 0), &r->begin) || !mx_json_int(mx_json_at(range, 1), &r->end))
        return range && !mx_error_code()
                   ? mx_reader_fail(reader, "array '%.64s': data_offsets must be two numbers", r->name)
                   : false;
    const int64_t count = mx_wire_elements(reader, r->shape.dim, r->shape.ndim, "an array");
    int64_t bytes;
    if (count < 0)
        return false;
    if (mx_json_count(range) != 2 || r->begin < 0 || r->end < r->begin || r->end > data ||
        __builtin_mul_overflow(count, (int64_t)r->wire->size, &bytes) || bytes != r->end - r->begin)
        return mx_reader_fail(reader,
                              "array '%.64s': the range %" PRId64 "..%" PRId64
                              " does not fit its shape, or the %" PRId64 " bytes of data",
                              r->name, r->begin, r->end, data);
    return true;
}

static int by_begin(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Ranges follow one another from 0 to the end. */
static bool check_cover(mx_reader *reader, const rows *list, int64_t data)
{
    const size_t bytes = (size_t)list->length * sizeof(row);
    row *sorted = mx_alloc(bytes + 1);
    int64_t at = 0;
    bool fine = sorted != NULL;
    if (fine && bytes)
        memcpy(sorted, list->items, bytes);
    if (fine)
        qsort(sorted, (size_t)list->length, sizeof *sorted, by_begin);
    for (int64_t i = 0; fine && i < list->length; at = sorted[i].end, i++)
        if (sorted[i].begin != at)
            fine = mx_reader_fail(
                reader, "array '%.64s' starts at byte %" PRId64 " of the data, wanted %" PRId64 ": a gap or an overlap",
                sorted[i].name, sorted[i].begin, at);
    if (fine && at != data)
        fine = mx_reader_fail(reader, "%" PRId64 " bytes of data belong to no array", data - at);
    mx_free(sorted, bytes + 1);
    return fine;
}

static bool parse_rows(mx_reader *reader, const mx_json *root, rows *list, int64_t data)
{
    mx_dict seen = {0};
    bool fine = mx_json_kind_of(root) == MX_JSON_OBJECT || mx_reader_fail(reader, "the header is not a JSON object");
    for (int64_t i = 0; fine && i < mx_json_count(root); i++) {
        const mx_json *value = mx_json_at(root, i);
        row r = {.name = mx_json_key(value)};
        if (!strcmp(r.name, "__metadata__"))
            continue;
        if (mx_dict_find(&seen, r.name))
            fine = mx_reader_fail(reader, "the name '%.64s' occurs twice", r.name);
        fine = fine && parse_type(reader, value, &r) && parse_shape(reader, value, &r) &&
               parse_range(reader, value, &r, data) && mx_vec_push(list, r) && mx_dict_set_number(&seen, r.name, 1);
    }
    mx_dict_free(&seen);
    return fine && check_cover(reader, list, data);
}

static bool read_row(mx_array_dict *dict, mx_reader *reader, const row *r, int64_t start)
{
    if (!mx_reader_seek(reader, start + r->begin, "an array"))
        return false;
    mx_array *x = mx_array_new(&r->shape, (mx_dtype)r->wire->dtype, mx_cpu(0));
    if (x && x->size && !mx_wire_read(reader, r->wire, false, mx_data(x), x->size, "the elements")) {
        mx_release(x);
        return false;
    }
    return mx_array_dict_add(dict, r->name, x);
}

bool mx_safetensors_read(mx_array_dict *dict, mx_reader *reader)
{
    uint64_t length = 0;
    if (!mx_reader_u64(reader, &length, "the header's length") ||
        !mx_reader_need_items(reader, length, 1, "the safetensors header"))
        return false;
    if (length > (uint64_t)MOST_HEADER)
        return mx_reader_fail(reader, "the header has %" PRIu64 " bytes, wanted at most %" PRId64, length, MOST_HEADER);
    char *text = mx_alloc((size_t)length + 1);
    const char *context = mx_error_context(reader->name);
    mx_json *root =
        text && mx_reader_get(reader, text, (int64_t)length, "the header") ? mx_json_parse(text, (size_t)length) : NULL;
    rows list = {0};
    const int64_t start = 8 + (int64_t)length;
    bool fine = root && parse_rows(reader, root, &list, reader->size - start);
    for (int64_t i = 0; fine && i < list.length; i++)
        fine = read_row(dict, reader, &list.items[i], start);
    mx_error_context(context);
    mx_vec_free(&list);
    mx_json_free(root);
    mx_free(text, (size_t)length + 1);
    return fine;
}

mx_array_dict *mx_load_safetensors(const char *path)
{
    return mx_load_with(path, "mx_load_safetensors", mx_safetensors_read);
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

static const char *type_name(int dtype)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].wire == dtype)
            return types[i].name;
    return NULL;
}

static mx_code write_header(mx_text *text, int64_t count, mx_array *const *arrays, const char *const *names)
{
    mx_dict seen = {0};
    int64_t at = 0;
    mx_code code = MX_OK;
    mx_text_add_char(text, '{');
    for (int64_t i = 0; !code && i < count; i++) {
        const mx_array *x = arrays[i];
        if (mx_dict_find(&seen, names[i]) || !strcmp(names[i], "__metadata__"))
            code =
                mx_fail(MX_ERR_ARGUMENT, "mx_save_safetensors: the name '%.64s' occurs twice or is reserved", names[i]);
        else if (!mx_dict_set_number(&seen, names[i], 1))
            code = MX_ERR_MEMORY;
        mx_text_add(text, i ? "," : "");
        mx_json_write_text(text, names[i]);
        mx_text_print(text, ":{\"dtype\":\"%s\",\"shape\":[", type_name(x->dtype));
        for (int k = 0; k < x->ndim; k++)
            mx_text_print(text, "%s%" PRId64, k ? "," : "", x->shape[k]);
        mx_text_print(text, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", at, at + (int64_t)mx_bytes(x));
        at += (int64_t)mx_bytes(x);
    }
    mx_text_add_char(text, '}');
    while (text->length % 8 && !text->failed)
        mx_text_add_char(text, ' ');
    mx_dict_free(&seen);
    return code ? code : text->failed ? MX_ERR_MEMORY : MX_OK;
}

mx_code mx_save_safetensors(const char *path, mx_arrays arrays, const char *const *names)
{
    mx_writer writer;
    mx_text text = {0};
    if (!path || !names)
        return mx_fail(MX_ERR_ARGUMENT, "mx_save_safetensors: %s is NULL", path ? "names" : "path");
    const int64_t count = mx_save_check("mx_save_safetensors", arrays, names);
    if (count < 0)
        return mx_error_code();
    if (write_header(&text, count, arrays.v, names) || !mx_writer_open(&writer, path)) {
        mx_text_free(&text);
        return mx_error_code();
    }
    mx_writer_u64(&writer, text.length);
    mx_writer_put(&writer, text.data, text.length);
    for (int64_t i = 0; i < count; i++)
        mx_save_elements(&writer, arrays.v[i]);
    mx_text_free(&text);
    return mx_writer_commit(&writer) ? MX_OK : mx_error_code();
}
