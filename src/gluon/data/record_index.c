/* The index of a record file, and the header of image records (see gluon/recordio.h).
 *
 *     index:   key TAB position NEWLINE ...
 *     record:  u32 flag | f32 label | u64 id | u64 id2 | flag x f32 | payload      (little-endian)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "base/dict.h"
#include "base/error.h"
#include "base/file.h"
#include "base/object.h"
#include "gluon/recordio.h"
#include "ndarray/array.h"

#define LARGEST ((int64_t)1 << 32) /* bytes of an index */
#define HEADER 24                  /* bytes of a header */

typedef struct entry {
    const char *key; /* in `text` */
    int64_t position;
} entry;

struct mx_record_index {
    mx_object object;
    char *text; /* owned: the file, its keys ended by zeros */
    int64_t size;
    entry *entries; /* (count), owned */
    int64_t count, room;
    mx_dict numbers; /* key -> number of its entry, the last one for duplicates */
};

static void destroy(mx_object *object)
{
    mx_record_index *x = (mx_record_index *)object;
    mx_dict_free(&x->numbers);
    mx_free(x->entries, (size_t)x->room * sizeof *x->entries);
    mx_free(x->text, (size_t)x->size + 1);
    mx_free(x, sizeof *x);
}
static const mx_kind index_kind = {"record index", destroy};

static int64_t count_lines(const char *text)
{
    int64_t n = 0;
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        n++;
    return n;
}

static bool read_position(const char *text, size_t length, int64_t *position)
{
    *position = 0;
    for (size_t i = 0; i < length; i++) {
        const int digit = text[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(*position, 10, position) ||
            __builtin_add_overflow(*position, digit, position))
            return false;
    }
    return length > 0;
}

/* Parses one line without its newline; replaces the tab by the zero that ends the key. */
static bool read_line(mx_record_index *x, char *line, size_t length)
{
    while (length && strchr("\r \t", line[length - 1]))
        length--;
    if (!length)
        return true;
    char *tab = memchr(line, '\t', length);
    if (!tab || tab == line)
        return false;
    entry *e = &x->entries[x->count];
    if (!read_position(tab + 1, length - (size_t)(tab + 1 - line), &e->position))
        return false;
    *tab = 0;
    e->key = line;
    return mx_dict_set_number(&x->numbers, line, x->count++);
}

static bool read_lines(mx_record_index *x, const char *path)
{
    int64_t number = 1;
    for (char *line = x->text; *line; number++) {
        const size_t length = strcspn(line, "\n");
        const bool last = !line[length];
        if (!read_line(x, line, length)) {
            mx_fail(MX_ERR_FILE, "%s: line %lld is not 'key TAB position'", path, (long long)number);
            return false;
        }
        line += last ? length : length + 1;
    }
    return true;
}

mx_record_index *mx_record_index_load(const char *path)
{
    mx_record_index *x = mx_alloc_zero(sizeof *x);
    if (!x)
        return NULL;
    mx_object_init(&x->object, &index_kind);
    x->text = mx_file_read(path, LARGEST, &x->size);
    if (x->text && memchr(x->text, 0, (size_t)x->size))
        mx_fail(MX_ERR_FILE, "%s: the file is not an index: it has zero bytes", path);
    else if (x->text) {
        x->room = count_lines(x->text);
        x->entries = mx_alloc((size_t)x->room * sizeof *x->entries);
        if (x->entries && read_lines(x, path))
            return mx_scope_add(x);
    }
    mx_release(x);
    return NULL;
}

static bool ok(const mx_record_index *x, const char *function) { return mx_is_kind(x, &index_kind, function, "index"); }

int64_t mx_record_index_count(const mx_record_index *index)
{
    return ok(index, "mx_record_index_count") ? index->count : 0;
}

static bool has_entry(const mx_record_index *x, int64_t i, const char *function)
{
    if (!ok(x, function))
        return false;
    if (i < 0 || i >= x->count)
        mx_fail(MX_ERR_INDEX, "%s: entry %lld of %lld does not exist", function, (long long)i, (long long)x->count);
    return i >= 0 && i < x->count;
}

const char *mx_record_index_key(const mx_record_index *index, int64_t i)
{
    return has_entry(index, i, "mx_record_index_key") ? index->entries[i].key : NULL;
}

int64_t mx_record_index_position(const mx_record_index *index, int64_t i)
{
    return has_entry(index, i, "mx_record_index_position") ? index->entries[i].position : -1;
}

int64_t mx_record_index_find(const mx_record_index *index, const char *key)
{
    if (!ok(index, "mx_record_index_find") || !key)
        return -1;
    return mx_dict_get_number(&index->numbers, key, -1);
}

/* ---- image records ------------------------------------------------------------------------------------------------ */

static void put_number(unsigned char *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}
static uint64_t get_number(const unsigned char *from, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}
static void put_float(unsigned char *to, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_number(to, bits, 4);
}
static float get_float(const unsigned char *from)
{
    const uint32_t bits = (uint32_t)get_number(from, 4);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

mx_array *mx_record_pack(mx_record_header header, const float *labels, int64_t n, const void *bytes, int64_t size)
{
    if (n < 0 || n > INT32_MAX || (n && !labels) || size < 0 || (size && !bytes))
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_record_pack: %s",
                            n < 0 || n > INT32_MAX ? "the number of labels is out of range"
                                                   : "labels or bytes is NULL, or the size is negative");
    mx_shape_t shape = {.ndim = 1, .dim = {HEADER + 4 * n + size}};
    mx_array *record = mx_scope_add(mx_array_new(&shape, MX_UINT8, mx_cpu(0)));
    if (!record)
        return NULL;
    unsigned char *to = mx_data(record);
    put_number(to, n ? (uint64_t)n : 0, 4);
    put_float(to + 4, n ? 0 : header.label);
    put_number(to + 8, header.id, 8);
    put_number(to + 16, header.id2, 8);
    for (int64_t i = 0; i < n; i++)
        put_float(to + HEADER + 4 * i, labels[i]);
    if (size)
        memcpy(to + HEADER + 4 * n, bytes, (size_t)size);
    return record;
}

static mx_array *labels_of(const unsigned char *bytes, const mx_record_header *header)
{
    mx_shape_t shape = {.ndim = 1, .dim = {header->flag ? header->flag : 1}};
    mx_array *labels = mx_scope_add(mx_array_new(&shape, MX_FLOAT32, mx_cpu(0)));
    for (int64_t i = 0; labels && i < shape.dim[0]; i++)
        ((float *)mx_data(labels))[i] = header->flag ? get_float(bytes + HEADER + 4 * i) : header->label;
    return labels;
}

mx_code mx_record_unpack(mx_array *record, mx_record_header *header, mx_array **labels, mx_array **payload)
{
    if (!mx_array_ok(record, "mx_record_unpack", "record") || !(record = mx_array_to(record, mx_cpu(0))))
        return mx_error_code();
    const unsigned char *bytes = record->dtype == MX_UINT8 && record->ndim == 1 ? mx_array_data(record) : NULL;
    if (!bytes || record->size < HEADER)
        return mx_fail(MX_ERR_FILE, "mx_record_unpack: %lld bytes are not an image record: its header has %d",
                       (long long)record->size, HEADER);
    const mx_record_header h = {(uint32_t)get_number(bytes, 4), get_float(bytes + 4), get_number(bytes + 8, 8),
                                get_number(bytes + 16, 8)};
    const int64_t rest = record->size - HEADER, used = (int64_t)h.flag * 4;
    if (used > rest)
        return mx_fail(MX_ERR_FILE, "mx_record_unpack: the header announces %u labels, but only %lld bytes follow it",
                       h.flag, (long long)rest);
    if (header)
        *header = h;
    mx_shape_t shape = {.ndim = 1, .dim = {rest - used}};
    if (labels && !(*labels = labels_of(bytes, &h)))
        return mx_error_code();
    if (payload && !(*payload = mx_scope_add(mx_array_view(record, HEADER + used, &shape, MX_UINT8))))
        return mx_error_code();
    return MX_OK;
}
