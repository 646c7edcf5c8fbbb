/* Reading gzip files with zlib, where the build has it.
 *
 * The output grows by doubling up to the caller's limit: the length that a file claims is not trusted.  Files of
 * several members, such as `cat a.gz b.gz`, are read as one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/gzip.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"

#ifdef HAVE_ZLIB

#include <zlib.h>

#define INPUT_BYTES ((int64_t)1 << 16)
#define FIRST_BYTES ((int64_t)1 << 16)
#define STEP_BYTES ((int64_t)1 << 30) /* zlib counts in 32 bits */

typedef struct unpacking {
    mx_reader reader; /* the compressed file */
    z_stream stream;
    unsigned char *input; /* (INPUT_BYTES) owned */
    unsigned char *bytes; /* (capacity) owned: the decompressed bytes */
    int64_t size, capacity, limit;
} unpacking;

bool mx_gzip_available(void) { return true; }

static bool make_room(unpacking *u)
{
    if (u->size < u->capacity)
        return true;
    if (u->size > u->limit) /* one byte more than allowed */
        return mx_reader_fail(&u->reader, "unpacks to more than %lld bytes", (long long)u->limit);
    int64_t capacity = u->capacity ? 2 * u->capacity : FIRST_BYTES;
    if (capacity > u->limit + 1)
        capacity = u->limit + 1;
    unsigned char *grown = mx_realloc(u->bytes, (size_t)u->capacity, (size_t)capacity);
    if (!grown)
        return false;
    u->bytes = grown;
    u->capacity = capacity;
    return true;
}

static bool refill(unpacking *u)
{
    int64_t left = mx_reader_left(&u->reader), count = left < INPUT_BYTES ? left : INPUT_BYTES;
    if (!count)
        return mx_reader_fail(&u->reader, "the gzip data ends too early: truncated");
    u->stream.next_in = u->input;
    u->stream.avail_in = (uInt)count;
    return mx_reader_get(&u->reader, u->input, count, "gzip data");
}

/* One call of zlib; *ended is set at the end of the last member. */
static bool unpack_step(unpacking *u, bool *ended)
{
    if (!u->stream.avail_in && !refill(u))
        return false;
    if (!make_room(u))
        return false;
    int64_t room = u->capacity - u->size;
    room = room < STEP_BYTES ? room : STEP_BYTES;
    u->stream.next_out = u->bytes + u->size;
    u->stream.avail_out = (uInt)room;
    int result = inflate(&u->stream, Z_NO_FLUSH);
    u->size += room - u->stream.avail_out;
    if (result == Z_STREAM_END) {
        *ended = !u->stream.avail_in && !mx_reader_left(&u->reader);
        return *ended || inflateReset(&u->stream) == Z_OK;
    }
    if (result != Z_OK && result != Z_BUF_ERROR)
        return mx_reader_fail(&u->reader, "not gzip, or damaged: %s", u->stream.msg ? u->stream.msg : "unknown data");
    return true;
}

static bool unpack(unpacking *u)
{
    u->input = mx_alloc((size_t)INPUT_BYTES);
    if (!u->input)
        return false;
    if (inflateInit2(&u->stream, 15 + 16) != Z_OK) { /* the largest window; a gzip header */
        mx_fail(MX_ERR_MEMORY, "%s: zlib cannot start", u->reader.name);
        return false;
    }
    bool ended = false, fine = true;
    while (fine && !ended)
        fine = unpack_step(u, &ended);
    inflateEnd(&u->stream);
    if (fine && u->size > u->limit)
        fine = mx_reader_fail(&u->reader, "unpacks to more than %lld bytes", (long long)u->limit);
    return fine;
}

void *mx_gzip_read(const char *path, int64_t limit, int64_t *size)
{
    *size = 0;
    unpacking u = {.limit = limit < 0 ? 0 : limit < INT64_MAX / 4 ? limit : INT64_MAX / 4};
    if (!mx_reader_open(&u.reader, path))
        return NULL;
    void *exact = NULL;
    if (unpack(&u) && (exact = mx_realloc(u.bytes, (size_t)u.capacity, (size_t)u.size + 1))) {
        ((unsigned char *)exact)[u.size] = 0;
        *size = u.size;
        u.bytes = NULL;
    }
    mx_free(u.bytes, (size_t)u.capacity);
    mx_free(u.input, (size_t)INPUT_BYTES);
    mx_reader_close(&u.reader);
    return exact;
}

bool mx_inflate(const char *who, const void *packed, int64_t packed_size, void *bytes, int64_t size)
{
    z_stream stream = {0};
    const unsigned char *from = packed;
    unsigned char *to = bytes, spare;
    int result = Z_OK;
    if (inflateInit2(&stream, -15) != Z_OK) { /* the largest window; no header */
        mx_fail(MX_ERR_MEMORY, "%s: zlib cannot start", who);
        return false;
    }
    stream.next_in = (unsigned char *)(uintptr_t)from;
    stream.next_out = size ? to : &spare;
    while (result == Z_OK) {
        const int64_t in_left = packed_size - (stream.next_in - from), left = size ? size - (stream.next_out - to) : 0;
        stream.avail_in = (uInt)(in_left < STEP_BYTES ? in_left : STEP_BYTES);
        stream.avail_out = (uInt)(left < STEP_BYTES ? left : STEP_BYTES);
        result = inflate(&stream, Z_NO_FLUSH);
    }
    const bool whole = result == Z_STREAM_END && (!size || stream.next_out == to + size);
    inflateEnd(&stream);
    if (!whole)
        mx_fail(MX_ERR_FILE, "%s: packed data is damaged, or unpacks to another size than it claims", who);
    return whole;
}

#else

bool mx_gzip_available(void) { return false; }

void *mx_gzip_read(const char *path, int64_t limit, int64_t *size)
{
    (void)limit;
    *size = 0;
    return mx_fail_null(MX_ERR_UNSUPPORTED,
                        "%s: this build has no zlib and cannot unpack it; "
                        "unpack it with gunzip, or build with zlib",
                        path ? path : "gzip file");
}

bool mx_inflate(const char *who, const void *packed, int64_t packed_size, void *bytes, int64_t size)
{
    (void)packed, (void)packed_size, (void)bytes, (void)size;
    mx_fail(MX_ERR_UNSUPPORTED, "%s: this build has no zlib and cannot unpack it", who);
    return false;
}

#endif
