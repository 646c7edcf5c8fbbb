/* The atomic writer and whole-file helpers (see file.h; the reader is in reader.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* O_CLOEXEC, O_DIRECTORY */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

#define BUFFER_BYTES ((size_t)1 << 16)
#define WRITE_BYTES ((size_t)1 << 30) /* at most, in one system call */

bool mx_file_exists(const char *path)
{
    struct stat info;
    return path && stat(path, &info) == 0;
}

bool mx_folder_make(const char *path)
{
    if (!path || !*path || strlen(path) >= PATH_MAX) {
        mx_fail(MX_ERR_ARGUMENT, "mx_folder_make: path is %s", !path ? "NULL" : *path ? "too long" : "empty");
        return false;
    }
    char part[PATH_MAX];
    for (size_t i = 1; i <= strlen(path); i++) {
        if (path[i] && path[i] != '/')
            continue;
        memcpy(part, path, i);
        part[i] = 0;
        struct stat info;
        if (mkdir(part, 0777) != 0 && !(stat(part, &info) == 0 && S_ISDIR(info.st_mode))) {
            mx_fail(MX_ERR_FILE, "%s: cannot create the folder: %s", part, strerror(errno));
            return false;
        }
    }
    return true;
}

void *mx_file_read(const char *path, int64_t limit, int64_t *size)
{
    mx_reader reader;
    if (!mx_reader_open(&reader, path))
        return NULL;
    int64_t count = reader.size;
    unsigned char *bytes = NULL;
    if (count > limit)
        mx_reader_fail(&reader, "the file has %lld bytes, at most %lld are read", (long long)count, (long long)limit);
    else if ((bytes = mx_alloc((size_t)count + 1))) {
        bytes[count] = 0;
        if (!mx_reader_get(&reader, bytes, count, "contents")) {
            mx_free(bytes, (size_t)count + 1);
            bytes = NULL;
        }
    }
    mx_reader_close(&reader);
    *size = bytes ? count : 0;
    return bytes;
}

bool mx_file_write(const char *path, const void *bytes, int64_t size)
{
    mx_writer writer;
    if (!mx_writer_open(&writer, path))
        return false;
    mx_writer_put(&writer, bytes, (size_t)size);
    return mx_writer_commit(&writer);
}

/* ---- opening -------------------------------------------------------------------------------------------- */

static bool writer_fail(mx_writer *writer, const char *doing)
{
    if (!writer->failed)
        mx_fail(MX_ERR_FILE, "%s: %s: %s", writer->path ? writer->path : "file", doing, strerror(errno));
    writer->failed = true;
    return false;
}

static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* A new file beside the target.  Its short name does not depend on the target's, which may be as long as allowed. */
static bool open_temporary(mx_writer *writer, mode_t mode)
{
    static _Atomic unsigned counter;
    size_t folder = folder_length(writer->path), bytes = folder + 64;
    char *name = mx_alloc(bytes);
    if (!name)
        return false;
    memcpy(name, writer->path, folder);
    for (int attempt = 0; attempt < 1000; attempt++) {
        unsigned number = atomic_fetch_add(&counter, 1);
        snprintf(name + folder, 64, ".gluon-%ld-%u.tmp", (long)getpid(), number);
        writer->file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (writer->file >= 0 || (errno != EEXIST && errno != EINTR))
            break;
    }
    if (writer->file >= 0)
        writer->temporary = mx_strdup(name);
    else
        writer_fail(writer, "cannot be written");
    if (writer->file >= 0 && !writer->temporary)
        unlink(name);
    mx_free(name, bytes);
    return writer->file >= 0 && writer->temporary;
}

static bool open_target(mx_writer *writer, const char *path)
{
    struct stat info;
    char resolved[PATH_MAX];
    bool exists = stat(path, &info) == 0;
    /* An existing target may be reached through symbolic links: replace what they point to, not the link. */
    writer->path = mx_strdup(exists && realpath(path, resolved) ? resolved : path);
    if (!writer->path)
        return false;
    if (exists && S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        return writer_fail(writer, "cannot be written");
    }
    if (exists && (!S_ISREG(info.st_mode) || info.st_size == 0)) {
        writer->direct = true;
        writer->file = open(path, O_WRONLY | O_CLOEXEC);
        return writer->file >= 0 || writer_fail(writer, "cannot be written");
    }
    if (exists && access(path, W_OK) != 0)
        return writer_fail(writer, "cannot be written");
    if (!open_temporary(writer, 0666))
        return false;
    if (exists && fchmod(writer->file, info.st_mode & 07777) != 0 && errno != EPERM)
        return writer_fail(writer, "cannot preserve its permissions");
    return true;
}

bool mx_writer_open(mx_writer *writer, const char *path)
{
    *writer = (mx_writer){.file = -1};
    if (!path || !*path) {
        mx_fail(MX_ERR_ARGUMENT, "file: the path to write is %s", path ? "empty" : "NULL");
        writer->failed = true;
        return false;
    }
    writer->buffer = mx_alloc(BUFFER_BYTES);
    if (writer->buffer && open_target(writer, path))
        return true;
    writer->failed = true;
    mx_writer_abandon(writer);
    return false;
}

void mx_writer_open_memory(mx_writer *writer, void *memory, size_t room)
{
    static unsigned char nowhere;
    *writer = (mx_writer){.file = -1, .memory = memory ? memory : &nowhere, .room = memory ? room : 0};
}

/* ---- writing -------------------------------------------------------------------------------------------- */

static void put_memory(mx_writer *writer, const void *bytes, size_t count)
{
    const size_t at = (size_t)writer->position, fits = at < writer->room ? writer->room - at : 0;
    if (fits)
        memcpy(writer->memory + at, bytes, count < fits ? count : fits);
    writer->position += (int64_t)count;
}

static void write_all(mx_writer *writer, const unsigned char *bytes, size_t count)
{
    while (count && !writer->failed) {
        ssize_t done = write(writer->file, bytes, count < WRITE_BYTES ? count : WRITE_BYTES);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            errno = done == 0 ? ENOSPC : errno;
            writer_fail(writer, "writing failed");
            return;
        }
        bytes += done;
        count -= (size_t)done;
    }
}

static void flush(mx_writer *writer)
{
    write_all(writer, writer->buffer, writer->used);
    writer->used = 0;
}

void mx_writer_put(mx_writer *writer, const void *bytes, size_t count)
{
    if (writer->failed || !count)
        return;
    if (writer->memory) {
        put_memory(writer, bytes, count);
        return;
    }
    writer->position += (int64_t)count;
    if (count > BUFFER_BYTES - writer->used)
        flush(writer);
    if (count >= BUFFER_BYTES) {
        write_all(writer, bytes, count);
        return;
    }
    memcpy(writer->buffer + writer->used, bytes, count);
    writer->used += count;
}

void mx_writer_u64(mx_writer *writer, uint64_t value)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
    mx_writer_put(writer, bytes, 8);
}

void mx_writer_u32(mx_writer *writer, uint32_t value)
{
    unsigned char bytes[4];
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(value >> 8 * i);
    mx_writer_put(writer, bytes, 4);
}

/* ---- closing -------------------------------------------------------------------------------------------- */

/* File systems without fsync return EINVAL: then there is nothing to wait for. */
static bool sync_file(int file)
{
    int code;
    do
        code = fsync(file);
    while (code != 0 && errno == EINTR);
    return code == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP;
}

/* Makes the new name durable.  A folder that may be written but not read cannot be opened: no error. */
static bool sync_folder(const char *path)
{
    char folder[PATH_MAX];
    size_t length = folder_length(path);
    if (length >= sizeof folder)
        return true;
    memcpy(folder, length ? path : ".", length ? length : 1);
    folder[length ? length : 1] = 0;
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0)
        return true;
    bool synced = sync_file(file);
    int reason = errno;
    close(file);
    errno = reason;
    return synced;
}

static void close_file(mx_writer *writer)
{
    int file = writer->file;
    writer->file = -1;
    if (file >= 0 && close(file) != 0 && errno != EINTR)
        writer_fail(writer, "closing failed");
}

static void finish_direct(mx_writer *writer)
{
    if (sync_file(writer->file))
        close_file(writer);
    else
        writer_fail(writer, "writing to the disk failed");
}

static void put_in_place(mx_writer *writer)
{
    if (!sync_file(writer->file))
        writer_fail(writer, "writing to the disk failed");
    close_file(writer);
    if (writer->failed)
        return;
    if (rename(writer->temporary, writer->path) != 0) {
        writer_fail(writer, "cannot be replaced by the new file");
        return;
    }
    mx_strfree(writer->temporary);
    writer->temporary = NULL; /* nothing left to remove */
    if (!sync_folder(writer->path))
        writer_fail(writer, "writing the folder to the disk failed");
}

bool mx_writer_sync(mx_writer *writer)
{
    if (!writer->failed)
        flush(writer);
    if (!writer->failed && !sync_file(writer->file))
        writer_fail(writer, "writing to the disk failed");
    return !writer->failed;
}

bool mx_writer_commit(mx_writer *writer)
{
    if (!writer->failed)
        flush(writer);
    if (!writer->failed && writer->direct)
        finish_direct(writer);
    else if (!writer->failed)
        put_in_place(writer);
    bool committed = !writer->failed;
    mx_writer_abandon(writer);
    return committed;
}

void mx_writer_abandon(mx_writer *writer)
{
    if (writer->file >= 0 && writer->direct && ftruncate(writer->file, 0) != 0)
        writer->failed = true; /* a device or a pipe: what was written stays */
    if (writer->file >= 0)
        close(writer->file);
    if (writer->temporary)
        unlink(writer->temporary);
    mx_strfree(writer->temporary);
    mx_strfree(writer->path);
    if (writer->buffer)
        mx_free(writer->buffer, BUFFER_BYTES);
    *writer = (mx_writer){.file = -1, .failed = true};
}
