/* Tensors of ONNX files as arrays: raw bytes, lists of numbers, external files.
 *
 * The number of elements follows from the sizes and is compared with the data before memory is allocated.  External data is
 * read from files in the folder of the model only: no absolute paths, no "..", no links that lead out of it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "gluon/onnx/read.h"
#include "ndarray/array.h"

typedef struct tensor {
    const char *who;
    mx_shape_t shape;
    const mx_onnx_type *type;
    int64_t count;          /* elements */
    mx_proto_field raw;     /* raw_data; bytes NULL: none */
    mx_onnx_part message;   /* for lists of numbers */
    const char *location;   /* of external data; NULL: inside */
    int64_t offset, length; /* in that file; length -1: not given */
} tensor;

static mx_code fail(const tensor *t, const char *why) { return mx_fail(MX_ERR_FILE, "%s: the tensor %s", t->who, why); }

static mx_code add_dim(tensor *t, uint64_t size)
{
    if (t->shape.ndim == MX_MAX_NDIM)
        return mx_fail(MX_ERR_FILE, "%s: the tensor has more than %d axes", t->who, MX_MAX_NDIM);
    if (size > INT64_MAX)
        return fail(t, "has a negative size");
    t->shape.dim[t->shape.ndim++] = (int64_t)size;
    return MX_OK;
}

static mx_code take_dims(tensor *t, const mx_proto_field *f)
{
    uint64_t size;
    mx_code code = MX_OK;
    if (f->kind == MX_PROTO_VARINT)
        return add_dim(t, f->value);
    mx_proto list = mx_proto_inside(f);
    while (!code && mx_proto_number(&list, MX_PROTO_VARINT, &size))
        code = add_dim(t, size);
    return code;
}

/* One pair of external_data: a key and its value. */
static mx_code take_external(tensor *t, const mx_proto_field *field)
{
    const char *key = "", *value = "";
    mx_proto pair = mx_proto_inside(field);
    for (mx_proto_field f; mx_proto_next(&pair, &f);)
        if (f.kind == MX_PROTO_BYTES &&
            !(f.number == 1 ? (key = mx_onnx_field_text(&f)) : (value = mx_onnx_field_text(&f))))
            return mx_error_code();
    char *end = NULL;
    const long long number = strtoll(value, &end, 10);
    if (!strcmp(key, "location"))
        t->location = value;
    else if (!strcmp(key, "offset") || !strcmp(key, "length")) {
        if (!*value || *end || number < 0)
            return fail(t, "has external data at no valid position");
        *(*key == 'o' ? &t->offset : &t->length) = number;
    }
    return MX_OK;
}

static mx_code parse(tensor *t, mx_onnx_part part)
{
    mx_proto m = mx_proto_of(part.bytes, part.size);
    bool external = false;
    mx_code code = MX_OK;
    for (mx_proto_field f; !code && mx_proto_next(&m, &f);) {
        if (f.number == 1)
            code = take_dims(t, &f);
        else if (f.number == 2 && f.kind == MX_PROTO_VARINT)
            t->type = mx_onnx_type_of((int64_t)f.value);
        else if (f.number == 9 && f.kind == MX_PROTO_BYTES)
            t->raw = f;
        else if (f.number == 13)
            code = take_external(t, &f);
        else if (f.number == 14)
            external = f.value == 1;
    }
    if (code || m.broken)
        return code ? code : fail(t, "is broken");
    if (external != (t->location != NULL))
        return fail(t, external ? "has external data without a location" : "has a location, but its data is inside");
    t->count = mx_shape_size(&t->shape);
    return t->count < 0 ? fail(t, "is too large") : MX_OK;
}

/* ---- the data -------------------------------------------------------------------------------------------------- */

static void widen(const mx_onnx_type *type, const unsigned char *from, int64_t *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++, from += type->size) {
        uint64_t bits = 0;
        for (int k = 0; k < type->size; k++)
            bits |= (uint64_t)from[k] << (8 * k);
        to[i] = type->code == 5 ? (int16_t)bits : (int64_t)bits;
    }
}

/* Integers of types that arrays do not have are int64 here. */
static bool is_widened(const mx_onnx_type *type)
{
    return type->code == 4 || type->code == 5 || type->code == 12 || type->code == 13;
}

static mx_array *from_bytes(const tensor *t, const unsigned char *bytes, int64_t size)
{
    if (size / t->type->size != t->count || size % t->type->size)
        return mx_fail_null(MX_ERR_FILE, "%s: the tensor has %lld bytes of data, its sizes and type require %lld of %d",
                            t->who, (long long)size, (long long)t->count, t->type->size);
    mx_array *x = mx_array_new(&t->shape, is_widened(t->type) ? MX_INT64 : t->type->dtype, mx_cpu(0));
    if (x && t->count && is_widened(t->type))
        widen(t->type, bytes, mx_data(x), t->count);
    else if (x && t->count)
        memcpy(mx_data(x), bytes, (size_t)size);
    for (int64_t i = 0; x && t->type->code == MX_ONNX_BOOL && i < t->count; i++)
        ((unsigned char *)mx_data(x))[i] = ((unsigned char *)mx_data(x))[i] != 0;
    return mx_scope_add(x);
}

/* Which list holds numbers of a type, and how they are stored there. */
static uint32_t list_of(const mx_onnx_type *type, mx_proto_kind *kind)
{
    *kind = MX_PROTO_VARINT;
    switch (type->code) {
    case 1: *kind = MX_PROTO_FIXED32; return 4;
    case 11: *kind = MX_PROTO_FIXED64; return 10;
    case 7: return 7;
    case 12:
    case 13: return 11;
    default: return 5;
    }
}

static int64_t gather_numbers(const tensor *t, uint32_t number, mx_proto_kind kind, unsigned char *to)
{
    const int size = is_widened(t->type) ? 8 : t->type->size;
    int64_t n = 0;
    uint64_t value;
    mx_proto m = mx_proto_of(t->message.bytes, t->message.size);
    for (mx_proto_field f; mx_proto_next(&m, &f);) {
        if (f.number != number)
            continue;
        mx_proto list = mx_proto_inside(&f);
        bool more = f.kind == kind && kind != MX_PROTO_BYTES; /* a single number */
        for (value = f.value; more || mx_proto_number(&list, kind, &value); n++, more = false)
            if (to && n < t->count)
                memcpy(to + n * size, &value, (size_t)size); /* little-endian */
    }
    return n;
}

static mx_array *from_numbers(const tensor *t)
{
    mx_proto_kind kind;
    const uint32_t number = list_of(t->type, &kind);
    const int64_t n = gather_numbers(t, number, kind, NULL);
    if (n != t->count)
        return mx_fail_null(MX_ERR_FILE, "%s: the tensor has %lld numbers, its sizes require %lld", t->who,
                            (long long)n, (long long)t->count);
    mx_array *x = mx_array_new(&t->shape, is_widened(t->type) ? MX_INT64 : t->type->dtype, mx_cpu(0));
    if (x && n)
        gather_numbers(t, number, kind, mx_data(x));
    return mx_scope_add(x);
}

/* ---- external data --------------------------------------------------------------------------------------------- */

/* The path of a file inside the model's folder into `path`; false: it is not inside. */
static bool inside_folder(const char *folder, const char *location, char path[PATH_MAX])
{
    char *root = realpath(folder, NULL), joined[PATH_MAX];
    const int length = snprintf(joined, sizeof joined, "%s/%s", folder, location);
    bool inside = root && *location && *location != '/' && length < (int)sizeof joined && realpath(joined, path);
    const size_t n = root ? strlen(root) : 0;
    inside = inside && !strncmp(path, root, n) && (path[n] == '/' || n == 1);
    free(root);
    return inside;
}

static mx_reader *open_external(mx_onnx_reader *r, const tensor *t)
{
    char path[PATH_MAX];
    if (!inside_folder(r->folder, t->location, path))
        return mx_fail_null(MX_ERR_FILE, "%s: external data in '%s', which is not a file in the folder of the model",
                            t->who, t->location);
    mx_reader *file = mx_dict_get(&r->files, path);
    if (file)
        return file;
    if (!(file = mx_alloc_zero(sizeof *file)))
        return NULL;
    if (!mx_reader_open(file, path) || !mx_dict_set(&r->files, path, file)) {
        mx_reader_close(file);
        mx_free(file, sizeof *file);
        return NULL;
    }
    return file;
}

static mx_array *from_file(mx_onnx_reader *r, const tensor *t)
{
    mx_reader *file = open_external(r, t);
    const int64_t bytes = t->count * t->type->size;
    if (!file)
        return NULL;
    if (t->length >= 0 && t->length != bytes)
        return mx_fail_null(MX_ERR_FILE, "%s: %lld bytes of external data, the sizes and type require %lld", t->who,
                            (long long)t->length, (long long)bytes);
    if (!mx_reader_seek(file, t->offset, "external data") ||
        !mx_reader_need_items(file, (uint64_t)t->count, (uint64_t)t->type->size, "external data"))
        return NULL;
    unsigned char *buffer = mx_alloc((size_t)bytes + 1);
    mx_array *x = buffer && mx_reader_get(file, buffer, bytes, "external data") ? from_bytes(t, buffer, bytes) : NULL;
    mx_free(buffer, (size_t)bytes + 1);
    return x;
}

void mx_onnx_close_files(mx_onnx_reader *r)
{
    for (int64_t i = 0; i < r->files.length; i++) {
        mx_reader_close(r->files.entries[i].pointer);
        mx_free(r->files.entries[i].pointer, sizeof(mx_reader));
    }
    mx_dict_free(&r->files);
}

mx_array *mx_onnx_read_tensor(mx_onnx_reader *r, mx_onnx_part part, const char *who)
{
    tensor t = {.who = who, .message = part, .length = -1};
    if (parse(&t, part))
        return NULL;
    if (!t.type)
        return mx_fail_null(MX_ERR_FILE, "%s: the tensor has no element type", who);
    if (t.type->dtype == MX_DTYPE_NONE && !is_widened(t.type))
        return mx_fail_null(MX_ERR_UNSUPPORTED, "%s: a tensor of type %s; there are no such arrays", who, t.type->name);
    if (t.count > (INT64_C(1) << 58))
        return fail(&t, "is too large"), NULL;
    if (t.location)
        return from_file(r, &t);
    return t.raw.bytes ? from_bytes(&t, t.raw.bytes, t.raw.size) : from_numbers(&t);
}
