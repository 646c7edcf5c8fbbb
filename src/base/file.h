/* Files: an atomic writer, and a reader that checks sizes against what is left.
 *
 * Writing: everything goes to a temporary file in the folder of the target; mx_writer_commit() makes it durable
 * and renames it over the target.  Readers of the target see either the old file or the complete new one.  A file that
 * exists and is empty (a temporary file that somebody holds open) is written in place.  Errors are saved and reported
 * by commit, so puts need no checks.
 *
 *     mx_writer w;
 *     if (!mx_writer_open(&w, path)) return ...;
 *     mx_writer_u32(&w, magic);
 *     if (!mx_writer_commit(&w)) return ...;      // or mx_writer_abandon(&w): the target is unchanged
 *
 * Reading: a reader has a known size, so that a length field is checked with mx_reader_need() before anything is
 * allocated for it.  After a failure every call fails: one check at the end is enough when nothing is allocated.
 * A reader can also read memory (a decompressed file, a user's buffer).  Numbers are little-endian.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_FILE_H
#define MX_BASE_FILE_H

#include "gluon/base.h"

bool mx_file_exists(const char *path); /* a file or folder of that name; records no error */
bool mx_folder_make(const char *path); /* with the folders above it; existing ones are fine */
/* The whole file and a terminating zero byte; NULL if it is missing or larger than `limit` bytes.
 * Free with mx_free(bytes, *size + 1). */
void *mx_file_read(const char *path, int64_t limit, int64_t *size);
bool mx_file_write(const char *path, const void *bytes, int64_t size); /* atomic */

/* ---- writing -------------------------------------------------------------------------------------------- */
typedef struct mx_writer {
    int file;              /* descriptor; -1: closed */
    bool failed;           /* the error is recorded; puts are ignored */
    bool direct;           /* the target is a device, a pipe or an empty file: written without a temporary file */
    char *path;            /* owned: the target, symbolic links followed */
    char *temporary;       /* owned: the file being written */
    unsigned char *buffer; /* owned */
    size_t used;           /* bytes in the buffer */
    int64_t position;      /* bytes put so far */
    unsigned char *memory; /* not owned: where the bytes go, (room); NULL: to the file */
    size_t room;
} mx_writer;

bool mx_writer_open(mx_writer *writer, const char *path);
/* Writes into memory; bytes beyond `room` are counted in `position` only.  Ends with mx_writer_abandon. */
void mx_writer_open_memory(mx_writer *writer, void *memory, size_t room);
void mx_writer_put(mx_writer *writer, const void *bytes, size_t count);
void mx_writer_u32(mx_writer *writer, uint32_t value);
void mx_writer_u64(mx_writer *writer, uint64_t value);
/* Everything put so far is on the disk, under the temporary name: the commit that follows can hardly fail.  For files
 * that belong together. */
bool mx_writer_sync(mx_writer *writer);
bool mx_writer_commit(mx_writer *writer);  /* false: the target is unchanged; closed in any case */
void mx_writer_abandon(mx_writer *writer); /* harmless after commit */

/* ---- reading -------------------------------------------------------------------------------------------- */
typedef struct mx_reader {
    int file;                    /* descriptor; -1: memory or closed */
    bool failed;                 /* the error is recorded; everything fails */
    char *name;                  /* owned: its name in messages */
    int64_t size, position;      /* bytes; 0 <= position <= size */
    const unsigned char *memory; /* (size), not owned; NULL: a file */
    unsigned char *buffer;       /* owned: bytes [buffer_at, buffer_at + buffer_size) of the file */
    int64_t buffer_at, buffer_size;
} mx_reader;

bool mx_reader_open(mx_reader *reader, const char *path);
bool mx_reader_open_memory(mx_reader *reader, const void *bytes, int64_t size, const char *name);
void mx_reader_close(mx_reader *reader);

static inline int64_t mx_reader_left(const mx_reader *reader) { return reader->size - reader->position; }
/* True if `bytes` more can be read; otherwise an error that names the file, the position and `what`. */
bool mx_reader_need(mx_reader *reader, int64_t bytes, const char *what);
/* The same for `count` items of `item_bytes`, safe against overflow. */
bool mx_reader_need_items(mx_reader *reader, uint64_t count, uint64_t item_bytes, const char *what);
bool mx_reader_get(mx_reader *reader, void *bytes, int64_t count, const char *what);
bool mx_reader_skip(mx_reader *reader, int64_t count, const char *what);
bool mx_reader_seek(mx_reader *reader, int64_t position, const char *what);
bool mx_reader_u32(mx_reader *reader, uint32_t *value, const char *what); /* 0 on failure */
bool mx_reader_u64(mx_reader *reader, uint64_t *value, const char *what);
bool mx_reader_i64(mx_reader *reader, int64_t *value, const char *what);
/* Records "name: at byte p: ..." as MX_ERR_FILE; returns false. */
bool mx_reader_fail(mx_reader *reader, const char *format, ...) MX_PRINTF(2, 3);

#endif
