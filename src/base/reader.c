/* The reader that checks sizes against what is left (see file.h).
 *
 * Small reads come from a buffer, large ones go directly to the caller's memory.
 * Invariant: 0 <= position <= size; the buffer holds bytes [buffer_at, buffer_at + buffer_size) of the file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* O_CLOEXEC, pread */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

#define BUFFER_BYTES ((int64_t)1 << 16)
#define READ_BYTES ((int64_t)1 << 30) /* at most, in one system call */

bool mx_reader_fail(mx_reader *reader, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (!reader->failed)
        mx_fail(MX_ERR_FILE, "%s: at byte %lld: %s", reader->name ? reader->name : "file", (long long)reader->position,
                message);
    reader->failed = true;
    return false;
}

static bool open_file(mx_reader *reader, const char *path)
{
    struct stat info;
    reader->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* do not block on a pipe: it is refused below */
    if (reader->file < 0 || fstat(reader->file, &info) != 0) {
        mx_fail(MX_ERR_FILE, "%s: cannot be read: %s", path, strerror(errno));
        return false;
    }
    if (!S_ISREG(info.st_mode)) {
        mx_fail(MX_ERR_FILE, "%s: is %s, wanted a file", path,
                S_ISDIR(info.st_mode) ? "a folder" : "not a regular file");
        return false;
    }
    reader->size = info.st_size;
    reader->buffer = mx_alloc((size_t)BUFFER_BYTES);
    return reader->buffer != NULL;
}

bool mx_reader_open(mx_reader *reader, const char *path)
{
    *reader = (mx_reader){.file = -1};
    if (!path || !*path)
        mx_fail(MX_ERR_ARGUMENT, "file: the path to read is %s", path ? "empty" : "NULL");
    else if ((reader->name = mx_strdup(path)) && open_file(reader, path))
        return true;
    mx_reader_close(reader);
    return false;
}

bool mx_reader_open_memory(mx_reader *reader, const void *bytes, int64_t size, const char *name)
{
    *reader = (mx_reader){.file = -1, .size = size, .memory = bytes};
    if ((!bytes && size) || size < 0)
        mx_fail(MX_ERR_ARGUMENT, "%s: memory to read is NULL or its size %lld negative", name, (long long)size);
    else if ((reader->name = mx_strdup(name))) {
        if (!bytes)
            reader->memory = (const unsigned char *)""; /* empty, but not a file */
        return true;
    }
    mx_reader_close(reader);
    return false;
}

void mx_reader_close(mx_reader *reader)
{
    if (reader->file >= 0)
        close(reader->file);
    mx_strfree(reader->name);
    mx_free(reader->buffer, (size_t)BUFFER_BYTES);
    *reader = (mx_reader){.file = -1, .failed = true};
}

bool mx_reader_need(mx_reader *reader, int64_t bytes, const char *what)
{
    if (reader->failed)
        return false;
    if (bytes < 0)
        return mx_reader_fail(reader, "the size of %s is negative (%lld)", what, (long long)bytes);
    if (bytes > mx_reader_left(reader))
        return mx_reader_fail(reader, "%s needs %lld bytes, %lld are left: truncated or damaged", what,
                              (long long)bytes, (long long)mx_reader_left(reader));
    return true;
}

bool mx_reader_need_items(mx_reader *reader, uint64_t count, uint64_t item_bytes, const char *what)
{
    if (reader->failed)
        return false;
    if (item_bytes && count > (uint64_t)mx_reader_left(reader) / item_bytes)
        return mx_reader_fail(reader, "%s needs %llu items of %llu bytes, %lld bytes are left: truncated or damaged",
                              what, (unsigned long long)count, (unsigned long long)item_bytes,
                              (long long)mx_reader_left(reader));
    return true;
}

/* Reads exactly `count` bytes of the file at `at`. */
static bool read_at(mx_reader *reader, unsigned char *bytes, int64_t count, int64_t at)
{
    while (count) {
        ssize_t done = pread(reader->file, bytes, (size_t)(count < READ_BYTES ? count : READ_BYTES), at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return mx_reader_fail(reader, "reading failed: %s", strerror(errno));
        if (done == 0)
            return mx_reader_fail(reader, "the file became shorter while it was read");
        bytes += done;
        count -= done;
        at += done;
    }
    return true;
}

static int64_t copy_buffered(const mx_reader *reader, unsigned char *bytes, int64_t count)
{
    int64_t offset = reader->position - reader->buffer_at, there = reader->buffer_size - offset;
    if (offset < 0 || there <= 0)
        return 0;
    there = there < count ? there : count;
    memcpy(bytes, reader->buffer + offset, (size_t)there);
    return there;
}

static bool fill_buffer(mx_reader *reader)
{
    int64_t left = mx_reader_left(reader), count = left < BUFFER_BYTES ? left : BUFFER_BYTES;
    reader->buffer_size = 0;
    if (!read_at(reader, reader->buffer, count, reader->position))
        return false;
    reader->buffer_at = reader->position;
    reader->buffer_size = count;
    return true;
}

bool mx_reader_get(mx_reader *reader, void *bytes, int64_t count, const char *what)
{
    if (!mx_reader_need(reader, count, what))
        return false;
    if (!count)
        return true;
    if (reader->memory) {
        memcpy(bytes, reader->memory + reader->position, (size_t)count);
        reader->position += count;
        return true;
    }
    int64_t done = copy_buffered(reader, bytes, count);
    reader->position += done;
    if (done == count)
        return true;
    unsigned char *rest = (unsigned char *)bytes + done;
    if (count - done >= BUFFER_BYTES) {
        if (!read_at(reader, rest, count - done, reader->position))
            return false;
    } else if (!fill_buffer(reader)) {
        return false;
    } else {
        copy_buffered(reader, rest, count - done);
    }
    reader->position += count - done;
    return true;
}

bool mx_reader_skip(mx_reader *reader, int64_t count, const char *what)
{
    if (!mx_reader_need(reader, count, what))
        return false;
    reader->position += count;
    return true;
}

bool mx_reader_seek(mx_reader *reader, int64_t position, const char *what)
{
    if (reader->failed)
        return false;
    if (position < 0 || position > reader->size)
        return mx_reader_fail(reader, "%s is at byte %lld, outside the %lld bytes of the file", what,
                              (long long)position, (long long)reader->size);
    reader->position = position;
    return true;
}

bool mx_reader_u64(mx_reader *reader, uint64_t *value, const char *what)
{
    unsigned char bytes[8];
    *value = 0;
    if (!mx_reader_get(reader, bytes, 8, what))
        return false;
    for (int i = 0; i < 8; i++)
        *value |= (uint64_t)bytes[i] << 8 * i;
    return true;
}

bool mx_reader_i64(mx_reader *reader, int64_t *value, const char *what)
{
    uint64_t bits;
    bool got = mx_reader_u64(reader, &bits, what);
    memcpy(value, &bits, sizeof bits);
    return got;
}

bool mx_reader_u32(mx_reader *reader, uint32_t *value, const char *what)
{
    unsigned char bytes[4];
    *value = 0;
    if (!mx_reader_get(reader, bytes, 4, what))
        return false;
    for (int i = 0; i < 4; i++)
        *value |= (uint32_t)bytes[i] << 8 * i;
    return true;
}
