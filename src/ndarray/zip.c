/* Zip archives (see zip.h).
 *
 *     { local header, contents } ... { directory entry } ... end of directory
 *
 * The directory at the end locates the entries; it is checked against the size of the file and against the local
 * headers before anything is allocated, and checksums are compared.  Entries may be stored or compressed (with zlib),
 * also in the 64-bit form that NumPy uses for large ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/zip.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/gzip.h"

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

uint32_t mx_zip_checksum(uint32_t crc, const void *bytes, size_t count)
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
static bool read_extra(mx_reader *reader, const unsigned char *extra, size_t length, mx_zip_entry *e)
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

static bool check_entry(mx_reader *reader, const mx_zip_entry *e, const unsigned char *head)
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
static bool read_entry(mx_reader *reader, mx_zip_entry *e)
{
    unsigned char head[46] = {0};
    if (!mx_reader_get(reader, head, 46, "a directory entry"))
        return false;
    if (get32(head) != ENTRY)
        return mx_reader_fail(reader, "the directory is damaged");
    *e = (mx_zip_entry){.method = (int)get16(head + 10),
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
        fine = fine && (e->name = mx_strdup((char *)bytes));
    }
    mx_free(bytes, room);
    return fine && check_entry(reader, e, head);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* Seeks to the first byte of the contents, after the local header, which has its own lengths. */
static bool seek_contents(mx_reader *reader, const mx_zip_entry *e)
{
    unsigned char head[30] = {0};
    if (!mx_reader_seek(reader, (int64_t)e->at, "an entry") || !mx_reader_get(reader, head, 30, "an entry"))
        return false;
    if (get32(head) != LOCAL || get16(head + 8) != (uint32_t)e->method)
        return mx_reader_fail(reader, "entry '%.64s' is not where the directory says", e->name);
    return mx_reader_skip(reader, (int64_t)get16(head + 26) + get16(head + 28), "an entry") &&
           mx_reader_need_items(reader, e->packed, 1, "an entry's contents");
}

void *mx_zip_contents(mx_reader *reader, const mx_zip_entry *e)
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
    if (fine && bytes && mx_zip_checksum(0, bytes, (size_t)e->size) != e->crc)
        fine = mx_reader_fail(reader, "entry '%.64s' is damaged: its checksum is wrong", e->name);
    mx_free(packed, packed_room);
    if (fine && bytes)
        return bytes;
    mx_free(bytes, room);
    return NULL;
}

bool mx_zip_open(mx_zip *zip, mx_reader *reader)
{
    directory d;
    if (!read_end(reader, &d))
        return false;
    *zip = (mx_zip){.reader = reader, .left = d.count, .place = (int64_t)d.at};
    return true;
}

bool mx_zip_next(mx_zip *zip, mx_zip_entry *e)
{
    *e = (mx_zip_entry){0};
    zip->left--;
    const bool fine = mx_reader_seek(zip->reader, zip->place, "the directory") && read_entry(zip->reader, e);
    zip->place = zip->reader->position;
    return fine;
}

void mx_zip_entry_free(mx_zip_entry *e)
{
    mx_strfree(e->name);
    e->name = NULL;
}
