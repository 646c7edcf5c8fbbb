/* Tensors of ONNX files as arrays: raw bytes, lists of numbers, external files.
 *
 * The number of elements follows from the sizes and is compared with the data before memory is allocated.  External data is
 * read from files in the folder of the model only: no absolute paths, no "..", no links that lead out of it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <math.h>
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

static int64_t bytes_of(const tensor *t) { return (t->count * t->type->bits + 7) / 8; }

static bool is_held(const mx_onnx_type *type) { return type->dtype != type->held; }

/* Element i of numbers that arrays do not have: its bits. */
static uint64_t bits_of(const mx_onnx_type *type, const unsigned char *bytes, int64_t i)
{
    uint64_t bits = 0;
    if (type->bits < 8) { /* the first ones are in the lowest bits */
        const int each = 8 / type->bits, shift = (int)(i % each) * type->bits;
        return (uint64_t)(bytes[i / each] >> shift) & ((1u << type->bits) - 1);
    }
    for (int k = 0; k < type->bits / 8; k++)
        bits |= (uint64_t)bytes[i * (type->bits / 8) + k] << (8 * k);
    return bits;
}

static void hold_integers(const mx_onnx_type *type, const unsigned char *from, void *to, int64_t n)
{
    const uint64_t sign = type->name[0] == 'i' ? UINT64_C(1) << (type->bits - 1) : 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t value = (int64_t)((bits_of(type, from, i) ^ sign) - sign);
        if (type->held == MX_INT64)
            ((int64_t *)to)[i] = value;
        else
            ((int8_t *)to)[i] = (int8_t)value;
    }
}

/* Small floats: exponent bits, their bias, and which bits are not a number. */
static float small_float(int code, unsigned bits)
{
    const bool uz = code == 18 || code == 20;
    const int width = code == 23 ? 4 : 8, fraction = code == 17 || code == 18 ? 3 : code == 23 ? 1 : 2;
    const int bias = code == 17 ? 7 : code == 18 ? 8 : code == 19 ? 15 : code == 20 ? 16 : 1;
    const unsigned sign = bits >> (width - 1), low = bits & ((1u << (width - 1)) - 1);
    const unsigned exponent = low >> fraction, rest = low & ((1u << fraction) - 1);
    if (code == 24)
        return bits == 255 ? NAN : (float)ldexp(1, (int)bits - 127);
    if ((uz && bits == 0x80) || (code == 17 && low == 0x7f) || (code == 19 && exponent == 31 && rest))
        return NAN;
    double value = exponent ? ldexp((double)(rest + (1u << fraction)), (int)exponent - bias - fraction)
                            : ldexp((double)rest, 1 - bias - fraction);
    value = code == 19 && exponent == 31 ? INFINITY : value;
    return (float)(sign ? -value : value);
}

static mx_array *from_bytes(const tensor *t, const unsigned char *bytes, int64_t size)
{
    if (size != bytes_of(t))
        return mx_fail_null(MX_ERR_FILE, "%s: the tensor has %lld bytes of data, its sizes and type require %lld",
                            t->who, (long long)size, (long long)bytes_of(t));
    mx_array *x = mx_array_new(&t->shape, t->type->held, mx_cpu(0));
    if (x && t->count && !is_held(t->type))
        memcpy(mx_data(x), bytes, (size_t)size);
    else if (x && t->type->held != MX_FLOAT32)
        hold_integers(t->type, bytes, mx_data(x), t->count);
    else
        for (int64_t i = 0; x && i < t->count; i++)
            ((float *)mx_data(x))[i] = small_float(t->type->code, (unsigned)bits_of(t->type, bytes, i));
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

/* Writes at most `room` numbers of `size` bytes each; returns how many there are. */
static int64_t gather_numbers(const tensor *t, uint32_t number, mx_proto_kind kind, int size, int64_t room,
                              unsigned char *to)
{
    int64_t n = 0;
    uint64_t value;
    mx_proto m = mx_proto_of(t->message.bytes, t->message.size);
    for (mx_proto_field f; mx_proto_next(&m, &f);) {
        if (f.number != number)
            continue;
        mx_proto list = mx_proto_inside(&f);
        bool more = f.kind == kind && kind != MX_PROTO_BYTES; /* a single number */
        for (value = f.value; more || mx_proto_number(&list, kind, &value); n++, more = false)
            if (n < room)
                memcpy(to + n * size, &value, (size_t)size); /* little-endian */
    }
    return n;
}

/* Numbers of less than eight bits are in bytes, too. */
static mx_array *from_numbers(const tensor *t)
{
    mx_proto_kind kind;
    const uint32_t number = list_of(t->type, &kind);
    const int size = t->type->bits < 8 ? 1 : t->type->bits / 8;
    const int64_t wanted = bytes_of(t) / size, n = gather_numbers(t, number, kind, size, 0, NULL);
    if (n != wanted)
        return mx_fail_null(MX_ERR_FILE, "%s: the tensor has %lld numbers, its sizes require %lld", t->who,
                            (long long)n, (long long)wanted);
    unsigned char *bytes = mx_alloc((size_t)(n * size) + 1);
    if (bytes)
        gather_numbers(t, number, kind, size, n, bytes);
    mx_array *x = bytes ? from_bytes(t, bytes, n * size) : NULL;
    mx_free(bytes, (size_t)(n * size) + 1);
    return x;
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
    const int64_t bytes = bytes_of(t);
    if (!file)
        return NULL;
    if (t->length >= 0 && t->length != bytes)
        return mx_fail_null(MX_ERR_FILE, "%s: %lld bytes of external data, the sizes and type require %lld", t->who,
                            (long long)t->length, (long long)bytes);
    if (!mx_reader_seek(file, t->offset, "external data") ||
        !mx_reader_need_items(file, (uint64_t)bytes, 1, "external data"))
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

mx_array *mx_onnx_read_tensor(mx_onnx_reader *r, mx_onnx_part part, const char *who, int *type)
{
    tensor t = {.who = who, .message = part, .length = -1};
    if (parse(&t, part))
        return NULL;
    if (!t.type)
        return mx_fail_null(MX_ERR_FILE, "%s: the tensor has no element type", who);
    if (t.type->held == MX_DTYPE_NONE)
        return mx_fail_null(MX_ERR_UNSUPPORTED, "%s: a tensor of type %s; there are no such arrays", who, t.type->name);
    if (t.count > (INT64_C(1) << 56))
        return fail(&t, "is too large"), NULL;
    *type = is_held(t.type) ? t.type->code : 0;
    if (t.location)
        return from_file(r, &t);
    return t.raw.bytes ? from_bytes(&t, t.raw.bytes, t.raw.size) : from_numbers(&t);
}
