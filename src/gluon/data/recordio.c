/* RecordIO files (see gluon/recordio.h).
 *
 *     u32 0xCED7230A | u32 kind << 29 | length | bytes | zeros up to a multiple of 4
 *
 * A record that contains the magic number at a multiple of 4 is cut there: the four bytes are left out and the parts
 * are marked as first (1), middle (2) and last (3); readers put the number back.  So the magic number at a multiple of 4
 * always begins a part.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/recordio.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/object.h"
#include "ndarray/array.h"

#define MAGIC 0xCED7230Au
#define LARGEST_PART (((int64_t)1 << 29) - 1) /* limit of the length field */
#define LONGEST_KEY 256

enum { WHOLE, FIRST, MIDDLE, LAST };

static int64_t padded(int64_t size) { return (size + 3) & ~(int64_t)3; }

/* ---- reading ---------------------------------------------------------------------------------------------------- */

struct mx_record_reader {
    mx_object object;
    mx_reader file;
};

static void destroy_reader(mx_object *object)
{
    mx_record_reader *r = (mx_record_reader *)object;
    mx_reader_close(&r->file);
    mx_free(r, sizeof *r);
}
static const mx_kind reader_kind = {"record reader", destroy_reader};

mx_record_reader *mx_record_reader_open(const char *path)
{
    mx_record_reader *r = mx_alloc_zero(sizeof *r);
    if (!r)
        return NULL;
    mx_object_init(&r->object, &reader_kind);
    r->file = (mx_reader){.file = -1, .failed = true};
    if (!mx_reader_open(&r->file, path)) {
        mx_release(r);
        return NULL;
    }
    return mx_scope_add(r);
}

static bool open_reader(const mx_record_reader *r, const char *function)
{
    if (!mx_is_kind(r, &reader_kind, function, "reader"))
        return false;
    if (!r->file.name)
        mx_fail(MX_ERR_STATE, "%s: the reader is closed", function);
    return r->file.name;
}

typedef struct part {
    int kind;
    int64_t length;
} part;

static bool read_part_head(mx_reader *f, part *p)
{
    uint32_t magic, word;
    if (!mx_reader_u32(f, &magic, "the magic number of a record") || !mx_reader_u32(f, &word, "the length of a record"))
        return false;
    if (magic != MAGIC)
        return mx_reader_fail(f, "Invalid RecordIO File: no record begins here");
    *p = (part){(int)(word >> 29), word & 0x1fffffff};
    return mx_reader_need(f, padded(p->length), "a record");
}

/* Skips the record at the current position; returns its length, -1 if it is damaged. */
static int64_t skip_parts(mx_reader *f)
{
    int64_t total = 0;
    for (bool more = true, started = false; more; started = true) {
        part p;
        if (!read_part_head(f, &p))
            return -1;
        if (started ? p.kind != MIDDLE && p.kind != LAST : p.kind != WHOLE && p.kind != FIRST) {
            mx_reader_fail(f, "Invalid RecordIO File: the parts of a record are out of order");
            return -1;
        }
        more = p.kind == FIRST || p.kind == MIDDLE;
        if (!mx_reader_skip(f, padded(p.length), "a record"))
            return -1;
        total += p.length + (more ? 4 : 0);
    }
    return total;
}

/* Length of the record at the current position, which does not move: records are checked before allocation. */
static int64_t measure(mx_reader *f)
{
    const int64_t begin = f->position, total = skip_parts(f);
    return total >= 0 && mx_reader_seek(f, begin, "a record") ? total : -1;
}

static bool read_parts(mx_reader *f, unsigned char *to)
{
    const uint32_t magic = MAGIC;
    for (;;) {
        part p;
        if (!read_part_head(f, &p) || !mx_reader_get(f, to, p.length, "a record") ||
            !mx_reader_skip(f, padded(p.length) - p.length, "the padding of a record"))
            return false;
        to += p.length;
        if (p.kind == WHOLE || p.kind == LAST)
            return true;
        for (int i = 0; i < 4; i++)
            *to++ = (unsigned char)(magic >> 8 * i);
    }
}

/* A damaged record fails the call, not the reader: the caller may seek elsewhere. */
static mx_array *read_record(mx_reader *f)
{
    const int64_t begin = f->position, length = measure(f);
    mx_shape_t shape = {.ndim = 1, .dim = {length}};
    mx_array *record = length < 0 ? NULL : mx_scope_add(mx_array_new(&shape, MX_UINT8, mx_cpu(0)));
    if (record && !read_parts(f, length ? mx_data(record) : (void *)&shape))
        record = NULL;
    if (!record)
        f->failed = false, f->position = begin;
    return record;
}

mx_array *mx_record_read(mx_record_reader *reader)
{
    if (!open_reader(reader, "mx_record_read") || !mx_reader_left(&reader->file))
        return NULL;
    return read_record(&reader->file);
}

bool mx_record_skip(mx_record_reader *reader)
{
    if (!open_reader(reader, "mx_record_skip") || !mx_reader_left(&reader->file))
        return false;
    mx_reader *f = &reader->file;
    const int64_t begin = f->position;
    const bool good = skip_parts(f) >= 0;
    if (!good)
        f->failed = false, f->position = begin;
    return good;
}

mx_array *mx_record_read_at(mx_record_reader *reader, int64_t position)
{
    if (mx_record_reader_seek(reader, position))
        return NULL;
    if (!mx_reader_left(&reader->file))
        return mx_fail_null(MX_ERR_FILE, "%s: there is no record at byte %lld, where the file ends", reader->file.name,
                            (long long)position);
    return read_record(&reader->file);
}

int64_t mx_record_reader_position(const mx_record_reader *reader)
{
    return open_reader(reader, "mx_record_reader_position") ? reader->file.position : -1;
}

mx_code mx_record_reader_seek(mx_record_reader *reader, int64_t position)
{
    if (!open_reader(reader, "mx_record_reader_seek"))
        return mx_error_code();
    if (position < 0 || position > reader->file.size)
        return mx_fail(MX_ERR_INDEX, "%s: byte %lld is outside the %lld bytes of the file", reader->file.name,
                       (long long)position, (long long)reader->file.size);
    reader->file.position = position;
    return MX_OK;
}

void mx_record_reader_close(mx_record_reader *reader)
{
    if (reader && mx_is_kind(reader, &reader_kind, "mx_record_reader_close", "reader"))
        mx_reader_close(&reader->file);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

struct mx_record_writer {
    mx_object object;
    mx_writer file, index;
    bool indexed, closed;
};

static void destroy_writer(mx_object *object)
{
    mx_record_writer *w = (mx_record_writer *)object;
    mx_writer_abandon(&w->file);
    mx_writer_abandon(&w->index);
    mx_free(w, sizeof *w);
}
static const mx_kind writer_kind = {"record writer", destroy_writer};

mx_record_writer *mx_record_writer_open(const char *path, const char *index_path)
{
    mx_record_writer *w = mx_alloc_zero(sizeof *w);
    if (!w)
        return NULL;
    mx_object_init(&w->object, &writer_kind);
    w->file = w->index = (mx_writer){.file = -1, .failed = true};
    w->indexed = index_path;
    if (!mx_writer_open(&w->file, path) || (index_path && !mx_writer_open(&w->index, index_path))) {
        mx_release(w);
        return NULL;
    }
    return mx_scope_add(w);
}

static bool open_writer(const mx_record_writer *w, const char *function)
{
    if (!mx_is_kind(w, &writer_kind, function, "writer"))
        return false;
    if (w->closed)
        mx_fail(MX_ERR_STATE, "%s: the writer is closed", function);
    return !w->closed;
}

static void put_part(mx_writer *f, int kind, const unsigned char *bytes, int64_t length)
{
    mx_writer_u32(f, MAGIC);
    mx_writer_u32(f, (uint32_t)kind << 29 | (uint32_t)length);
    mx_writer_put(f, bytes, (size_t)length);
    mx_writer_put(f, "\0\0\0", (size_t)(padded(length) - length));
}

static bool is_magic(const unsigned char *p)
{
    return p[0] == (MAGIC & 255) && p[1] == (MAGIC >> 8 & 255) && p[2] == (MAGIC >> 16 & 255) && p[3] == MAGIC >> 24;
}

static void put_record(mx_writer *f, const unsigned char *bytes, int64_t size)
{
    int64_t begin = 0;
    for (int64_t i = 0; i + 4 <= size; i += 4)
        if (is_magic(bytes + i)) {
            put_part(f, begin ? MIDDLE : FIRST, bytes + begin, i - begin);
            begin = i + 4;
        }
    put_part(f, begin ? LAST : WHOLE, bytes + begin, size - begin);
}

static mx_code put_key(mx_record_writer *w, const char *key)
{
    if (!w->indexed)
        return key ? mx_fail(MX_ERR_ARGUMENT, "mx_record_write: got the key '%s', but the writer has no index", key)
                   : MX_OK;
    if (!key)
        return MX_OK;
    if (!*key || strlen(key) >= LONGEST_KEY || strpbrk(key, " \t\r\n"))
        return mx_fail(MX_ERR_ARGUMENT, "mx_record_write: the key '%s' is empty, too long or has white space in it",
                       key);
    char line[LONGEST_KEY + 32];
    const int length = snprintf(line, sizeof line, "%s\t%lld\n", key, (long long)w->file.position);
    mx_writer_put(&w->index, line, (size_t)length);
    return MX_OK;
}

mx_code mx_record_write(mx_record_writer *writer, const char *key, const void *bytes, int64_t size)
{
    if (!open_writer(writer, "mx_record_write"))
        return mx_error_code();
    if (size < 0 || size > LARGEST_PART || (!bytes && size))
        return mx_fail(MX_ERR_ARGUMENT, "mx_record_write: a record has 0 to %lld bytes, got %lld%s",
                       (long long)LARGEST_PART, (long long)size, bytes ? "" : " at NULL");
    if (put_key(writer, key))
        return mx_error_code();
    put_record(&writer->file, size ? bytes : (const void *)"", size);
    return writer->file.failed || (writer->indexed && writer->index.failed) ? mx_error_code() : MX_OK;
}

int64_t mx_record_writer_position(const mx_record_writer *writer)
{
    return open_writer(writer, "mx_record_writer_position") ? writer->file.position : -1;
}

/* Both files are on the disk under temporary names before the old ones are replaced.  The old index goes first: a process
 * that is killed here leaves records without an index, never records with the index of others. */
static bool commit_both(mx_record_writer *w)
{
    if (w->indexed && (!mx_writer_sync(&w->file) || !mx_writer_sync(&w->index)))
        return false;
    if (w->indexed && !w->index.direct)
        unlink(w->index.path);
    return mx_writer_commit(&w->file) && (!w->indexed || mx_writer_commit(&w->index));
}

mx_code mx_record_writer_close(mx_record_writer *writer)
{
    if (!mx_is_kind(writer, &writer_kind, "mx_record_writer_close", "writer"))
        return mx_error_code();
    if (writer->closed)
        return MX_OK;
    writer->closed = true;
    return commit_both(writer) ? MX_OK : mx_error_code();
}
