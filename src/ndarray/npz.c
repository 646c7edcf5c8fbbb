/* NPZ files: a zip archive of NPY files, one per array.
 *
 *     { local header, NPY file } ... { directory entry } ... end of directory
 *
 * The directory at the end locates the entries; it is checked against the size of the file and against the local
 * headers before anything is allocated, and checksums are compared.  Entries may be stored or compressed (with zlib),
 * also in the 64-bit form that NumPy uses for large ones.  Written entries are stored, and smaller than 4 GiB in total.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dict.h"
#include "base/error.h"
#include "base/gzip.h"
#include "base/vec.h"
#include "ndarray/npy.h"
#include "ndarray/params.h"

#define LOCAL 0x04034b50u /* first words of the parts */
#define ENTRY 0x02014b50u
#define END 0x06054b50u
#define END_64 0x06064b50u
#define LOCATOR_64 0x07064b50u
#define MOST_COMMENT 65535 /* bytes after the end record */
#define MOST_GROWTH 1032   /* zlib never expands a byte to more */

enum { STORED = 0, PACKED = 8 };

static uint32_t get16(const unsigned char *p) { return p[0] | (uint32_t)p[1] << 8; }
static uint32_t get32(const unsigned char *p) { return get16(p) | get16(p + 2) << 16; }
static uint64_t get64(const unsigned char *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

static uint32_t check_sum(uint32_t crc, const void *bytes, size_t count)
{
    uint32_t table[256];
    const unsigned char *p = bytes;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
        table[i] = c;
    }
    crc = ~crc;
    for (size_t i = 0; i < count; i++)
        crc = table[(crc ^ p[i]) & 255] ^ crc >> 8;
    return ~crc;
}

/* ---- the directory --------------------------------------------------------------------------------------------- */

typedef struct entry {
    int method;
    uint32_t crc;
    uint64_t packed, size, at; /* bytes, bytes, offset of the local header */
    char *name;                /* owned; without .npy */
} entry;

typedef struct directory {
    uint64_t count, size, at;
} directory;

/* Finds the end record: the last one that extends exactly to the end of the file. */
static bool find_end(mx_reader *reader, unsigned char *end, int64_t *at)
{
    const int64_t room = reader->size < 22 + MOST_COMMENT ? reader->size : 22 + MOST_COMMENT;
    unsigned char *tail = mx_alloc((size_t)room + 1);
    bool found = false;
    if (tail && mx_reader_seek(reader, reader->size - room, "the end of the archive") &&
        mx_reader_get(reader, tail, room, "the end of the archive"))
        for (int64_t i = room - 22; i >= 0 && !found; i--)
            if (get32(tail + i) == END && i + 22 + (int64_t)get16(tail + i + 20) == room) {
                found = true;
                memcpy(end, tail + i, 22);
                *at = reader->size - room + i;
            }
    if (tail && !found && !reader->failed)
        mx_reader_fail(reader, "this is not an NPZ file, or it is truncated: a zip archive has a directory at its end");
    mx_free(tail, (size_t)room + 1);
    return found;
}

/* The 64-bit end record, where there is one before the end at `at`. */
static bool read_end_64(mx_reader *reader, int64_t at, directory *d)
{
    unsigned char locator[20] = {0}, end[56] = {0};
    if (at < 20)
        return true;
    if (!mx_reader_seek(reader, at - 20, "the archive's end") ||
        !mx_reader_get(reader, locator, 20, "the archive's end"))
        return false;
    if (get32(locator) != LOCATOR_64)
        return true;
    const uint64_t place = get64(locator + 8);
    if (place > (uint64_t)at || (uint64_t)at - place < 56)
        return mx_reader_fail(reader, "the 64-bit end record is outside the file");
    if (!mx_reader_seek(reader, (int64_t)place, "the 64-bit end") || !mx_reader_get(reader, end, 56, "the 64-bit end"))
        return false;
    if (get32(end) != END_64)
        return mx_reader_fail(reader, "the 64-bit end record is damaged");
    *d = (directory){get64(end + 32), get64(end + 40), get64(end + 48)};
    return true;
}

static bool read_end(mx_reader *reader, directory *d)
{
    unsigned char end[22] = {0};
    int64_t at = 0;
    if (!find_end(reader, end, &at))
        return false;
    *d = (directory){get16(end + 10), get32(end + 12), get32(end + 16)};
    if (get16(end + 4) || get16(end + 6))
        return mx_reader_fail(reader, "the archive is split over several disks");
    if ((d->count == 0xffff || d->size == 0xffffffffu || d->at == 0xffffffffu) && !read_end_64(reader, at, d))
        return false;
    if (d->at > (uint64_t)at || d->size > (uint64_t)at - d->at || d->count > d->size / 46)
        return mx_reader_fail(
            reader, "the directory (%" PRIu64 " entries, %" PRIu64 " bytes at %" PRIu64 ") is outside the file",
            d->count, d->size, d->at);
    return true;
}

/* Values that need 64 bits are in an extra field, in this order. */
static bool read_extra(mx_reader *reader, const unsigned char *extra, size_t length, entry *e)
{
    uint64_t *const wide[] = {&e->size, &e->packed, &e->at};
    for (size_t i = 0; i + 4 <= length; i += 4 + get16(extra + i + 2)) {
        size_t p = i + 4;
        const size_t end = p + get16(extra + i + 2);
        if (end > length)
            return mx_reader_fail(reader, "an extra field is longer than its entry");
        for (int k = 0; get16(extra + i) == 1 && k < 3; k++)
            if (*wide[k] == 0xffffffffu && p + 8 <= end)
                *wide[k] = get64(extra + p), p += 8;
    }
    return true;
}

static bool check_entry(mx_reader *reader, const entry *e, const unsigned char *head)
{
    const uint64_t size = (uint64_t)reader->size;
    if (get16(head + 8) & 1)
        return mx_reader_fail(reader, "entry '%.64s' is encrypted", e->name);
    if (e->method != STORED && e->method != PACKED)
        return mx_reader_fail(reader, "entry '%.64s' uses compression method %d, which is not supported", e->name,
                              e->method);
    if (e->at > size || e->packed > size - e->at)
        return mx_reader_fail(reader, "entry '%.64s' is outside the file", e->name);
    if (e->method == STORED ? e->size != e->packed : e->size / MOST_GROWTH > e->packed)
        return mx_reader_fail(reader, "entry '%.64s' claims %" PRIu64 " bytes, which its %" PRIu64 " cannot hold",
                              e->name, e->size, e->packed);
    return true;
}

/* One entry of the directory; advances the reader.  The caller frees e->name. */
static bool read_entry(mx_reader *reader, entry *e)
{
    unsigned char head[46] = {0};
    if (!mx_reader_get(reader, head, 46, "a directory entry"))
        return false;
    if (get32(head) != ENTRY)
        return mx_reader_fail(reader, "the directory is damaged");
    *e = (entry){.method = (int)get16(head + 10),
                 .crc = get32(head + 16),
                 .packed = get32(head + 20),
                 .size = get32(head + 24),
                 .at = get32(head + 42)};
    const size_t name = get16(head + 28), extra = get16(head + 30), comment = get16(head + 32), room = name + extra + 1;
    unsigned char *bytes = mx_alloc_zero(room);
    bool fine = bytes && mx_reader_get(reader, bytes, (int64_t)(name + extra), "a name") &&
                mx_reader_skip(reader, (int64_t)comment, "a comment") && read_extra(reader, bytes + name, extra, e);
    if (fine) {
        bytes[name] = 0;
        const size_t length = strlen((char *)bytes);
        if (length != name)
            fine = mx_reader_fail(reader, "a name has a zero byte in it");
        else if (length > 4 && !strcmp((char *)bytes + length - 4, ".npy"))
            bytes[length - 4] = 0;
        fine = fine && (e->name = mx_strdup((char *)bytes));
    }
    mx_free(bytes, room);
    return fine && check_entry(reader, e, head);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* Seeks to the first byte of the contents, after the local header, which has its own lengths. */
static bool seek_contents(mx_reader *reader, const entry *e)
{
    unsigned char head[30] = {0};
    if (!mx_reader_seek(reader, (int64_t)e->at, "an entry") || !mx_reader_get(reader, head, 30, "an entry"))
        return false;
    if (get32(head) != LOCAL || get16(head + 8) != (uint32_t)e->method)
        return mx_reader_fail(reader, "entry '%.64s' is not where the directory says", e->name);
    return mx_reader_skip(reader, (int64_t)get16(head + 26) + get16(head + 28), "an entry") &&
           mx_reader_need_items(reader, e->packed, 1, "an entry's contents");
}

static void *read_contents(mx_reader *reader, const entry *e)
{
    if (!seek_contents(reader, e))
        return NULL;
    const size_t packed_room = (size_t)e->packed + 1, room = (size_t)e->size + 1;
    void *packed = mx_alloc(packed_room), *bytes = NULL;
    bool fine = packed && mx_reader_get(reader, packed, (int64_t)e->packed, "an entry's contents");
    if (e->method == STORED) {
        bytes = packed;
        packed = NULL;
    } else if (fine && (bytes = mx_alloc(room)))
        fine = mx_inflate(reader->name, packed, (int64_t)e->packed, bytes, (int64_t)e->size);
    if (fine && bytes && check_sum(0, bytes, (size_t)e->size) != e->crc)
        fine = mx_reader_fail(reader, "entry '%.64s' is damaged: its checksum is wrong", e->name);
    mx_free(packed, packed_room);
    if (fine && bytes)
        return bytes;
    mx_free(bytes, room);
    return NULL;
}

static bool read_array(mx_array_dict *dict, mx_reader *reader, const entry *e)
{
    void *bytes = read_contents(reader, e);
    mx_reader inner;
    if (!bytes)
        return false;
    bool fine = mx_reader_open_memory(&inner, bytes, (int64_t)e->size, e->name);
    if (fine) {
        const char *context = mx_error_context(reader->name);
        mx_array *x = mx_npy_read(&inner);
        fine = mx_array_dict_add(dict, e->name, x);
        mx_error_context(context);
        mx_reader_close(&inner);
    }
    mx_free(bytes, (size_t)e->size + 1);
    return fine;
}

bool mx_npz_read(mx_array_dict *dict, mx_reader *reader)
{
    directory d;
    mx_dict seen = {0};
    bool fine = read_end(reader, &d);
    int64_t place = fine ? (int64_t)d.at : 0;
    for (uint64_t i = 0; fine && i < d.count; i++) {
        entry e = {0};
        fine = mx_reader_seek(reader, place, "the directory") && read_entry(reader, &e);
        place = reader->position;
        if (fine && mx_dict_find(&seen, e.name))
            fine = mx_reader_fail(reader, "the name '%.64s' occurs twice", e.name);
        fine = fine && mx_dict_set_number(&seen, e.name, 1) && read_array(dict, reader, &e);
        mx_strfree(e.name);
    }
    mx_dict_free(&seen);
    return fine;
}

mx_array_dict *mx_load_npz(const char *path) { return mx_load_with(path, "mx_load_npz", mx_npz_read); }

/* ---- writing --------------------------------------------------------------------------------------------------- */

static void put16(mx_text *text, uint32_t v)
{
    mx_text_add_char(text, (char)v);
    mx_text_add_char(text, (char)(v >> 8));
}
static void put32(mx_text *text, uint32_t v)
{
    put16(text, v & 0xffff);
    put16(text, v >> 16);
}

/* What local header and directory entry have in common: version to "length of the extra field". */
static void put_facts(mx_text *text, const char *name, uint32_t crc, uint32_t size)
{
    put16(text, 20);     /* version that can read it */
    put16(text, 0x0800); /* the name is UTF-8 */
    put16(text, STORED);
    put16(text, 0);
    put16(text, 0x21); /* 1 January 1980: the same arrays give the same file */
    put32(text, crc);
    put32(text, size);
    put32(text, size);
    put16(text, (uint32_t)strlen(name) + 4);
    put16(text, 0);
}

/* Writes one array and adds its entry to the directory. */
static mx_code put_array(mx_writer *writer, mx_text *rows, mx_array *x, const char *name)
{
    mx_text head = {0}, npy = {0};
    const size_t bytes = mx_bytes(x);
    const int64_t at = writer->position;
    void *stage = mx_alloc(bytes + 1);
    mx_text_add_bytes(&npy, "\x93NUMPY\x01\x00", 8);
    mx_text header = {0};
    mx_npy_header(&header, x);
    put16(&npy, (uint32_t)header.length);
    mx_text_add_bytes(&npy, header.data, header.length);
    mx_code code = stage && !header.failed && !npy.failed ? mx_array_read(x, stage, bytes) : MX_ERR_MEMORY;
    if (!code && (uint64_t)at + npy.length + bytes + 65536 > UINT32_MAX)
        code = mx_fail(MX_ERR_UNSUPPORTED, "mx_save_npz: the file would be larger than 4 GiB; save it as .safetensors");
    if (!code) {
        const uint32_t crc = check_sum(check_sum(0, npy.data, npy.length), stage, bytes);
        put32(&head, LOCAL);
        put_facts(&head, name, crc, (uint32_t)(npy.length + bytes));
        mx_text_print(&head, "%s.npy", name);
        put32(rows, ENTRY);
        put16(rows, 20);
        put_facts(rows, name, crc, (uint32_t)(npy.length + bytes));
        for (int i = 0; i < 5; i++) /* comment, disk, attributes */
            put16(rows, 0);
        put32(rows, (uint32_t)at);
        mx_text_print(rows, "%s.npy", name);
        mx_writer_put(writer, head.data, head.length);
        mx_writer_put(writer, npy.data, npy.length);
        mx_writer_put(writer, stage, bytes);
        code = head.failed || rows->failed ? MX_ERR_MEMORY : MX_OK;
    }
    mx_text_free(&head);
    mx_text_free(&npy);
    mx_text_free(&header);
    mx_free(stage, bytes + 1);
    return code;
}

static mx_code check_names(int64_t count, const char *const *names)
{
    mx_dict seen = {0};
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < count; i++) {
        if (mx_dict_find(&seen, names[i]) || strlen(names[i]) > 4096)
            code = mx_fail(MX_ERR_ARGUMENT, "mx_save_npz: the name '%.64s' occurs twice or is too long", names[i]);
        else if (!mx_dict_set_number(&seen, names[i], 1))
            code = MX_ERR_MEMORY;
    }
    mx_dict_free(&seen);
    return code || count <= 65534 ? code : mx_fail(MX_ERR_UNSUPPORTED, "mx_save_npz: more than 65534 arrays");
}

static void put_end(mx_writer *writer, mx_text *rows, int64_t count)
{
    const uint32_t at = (uint32_t)writer->position, size = (uint32_t)rows->length;
    put32(rows, END);
    put32(rows, 0); /* disks */
    put16(rows, (uint32_t)count);
    put16(rows, (uint32_t)count);
    put32(rows, size);
    put32(rows, at);
    put16(rows, 0); /* comment */
    mx_writer_put(writer, rows->data, rows->length);
}

mx_code mx_save_npz(const char *path, mx_arrays arrays, const char *const *names)
{
    mx_writer writer;
    mx_text rows = {0};
    if (!path || !names)
        return mx_fail(MX_ERR_ARGUMENT, "mx_save_npz: %s is NULL", path ? "names" : "path");
    const int64_t count = mx_save_check("mx_save_npz", arrays, names);
    if (count < 0 || check_names(count, names) || !mx_writer_open(&writer, path))
        return mx_error_code();
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < count; i++)
        code = put_array(&writer, &rows, arrays.v[i], names[i]);
    if (!code)
        put_end(&writer, &rows, count);
    if (code || rows.failed)
        mx_writer_abandon(&writer);
    else
        code = mx_writer_commit(&writer) ? MX_OK : mx_error_code();
    code = rows.failed ? MX_ERR_MEMORY : code;
    mx_text_free(&rows);
    return code;
}
