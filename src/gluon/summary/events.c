/* Event files of TensorBoard: writers and records.
 *
 *     record: length (8 bytes), checksum of the length, data, checksum of the data
 *     data:   an Event message: time, step, a Summary with one value, or a graph
 *
 * Checksums are CRC-32C, rotated and shifted so that checksums of checksums differ from them.  A record is written with one
 * system call, repeated if it was interrupted or wrote a part.  Invariant: the file ends after a complete record; what a
 * failed write left is cut off.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* O_CLOEXEC */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "gluon/summary/events.h"

struct mx_summary_writer {
    mx_object object;
    int file;      /* descriptor; -1: none */
    int64_t bytes; /* complete records in the file */
    bool broken;   /* part of a record is at the end and could not be removed */
    char *path;    /* owned */
};

static void destroy(mx_object *self)
{
    mx_summary_writer *w = (mx_summary_writer *)self;
    if (w->file >= 0)
        close(w->file);
    mx_strfree(w->path);
    mx_free(w, sizeof *w);
}

const mx_kind mx_summary_writer_kind = {"summary writer", destroy};

/* ---- records --------------------------------------------------------------------------------------------------- */

static uint32_t crc32c(const unsigned char *bytes, size_t n)
{
    uint32_t crc = ~UINT32_C(0);
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0x82f63b78) : 0);
    }
    return ~crc;
}

static uint32_t masked(const void *bytes, size_t n)
{
    const uint32_t crc = crc32c(bytes, n);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static void little(unsigned char *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> (8 * i));
}

/* The whole record, or nothing of it and an error. */
static mx_code write_record(mx_summary_writer *w, const char *bytes, size_t count)
{
    size_t done = 0;
    int error = w->broken ? EIO : 0;
    while (done < count && !error) {
        const ssize_t n = write(w->file, bytes + done, count - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            error = n == 0 ? ENOSPC : errno;
    }
    if (!error) {
        w->bytes += (int64_t)count;
        return MX_OK;
    }
    if (done)
        w->broken |= ftruncate(w->file, w->bytes) || lseek(w->file, w->bytes, SEEK_SET) < 0;
    return mx_fail(MX_ERR_FILE, "%s: cannot be written: %s", w->path, strerror(error));
}

mx_code mx_event_put(mx_summary_writer *w, const mx_text *data)
{
    mx_text record = {0};
    unsigned char head[12], tail[4];
    if (data->failed)
        return mx_error_code();
    little(head, data->length, 8);
    little(head + 8, masked(head, 8), 4);
    little(tail, masked(data->data, data->length), 4);
    mx_text_add_bytes(&record, head, sizeof head);
    mx_text_add_bytes(&record, data->data, data->length);
    mx_text_add_bytes(&record, tail, sizeof tail);
    const mx_code code = record.failed ? mx_error_code() : write_record(w, record.data, record.length);
    mx_text_free(&record);
    return code;
}

double mx_event_now(void)
{
    struct timeval time;
    gettimeofday(&time, NULL);
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

mx_code mx_event_put_value(mx_summary_writer *w, const char *tag, mx_text *value, int64_t step)
{
    mx_text one = {0}, summary = {0}, event = {0};
    mx_proto_put_text(&one, 1, tag);
    mx_text_add_bytes(&one, value->data ? value->data : "", value->length);
    one.failed |= value->failed;
    mx_proto_put_message(&summary, 1, &one);
    mx_proto_put_double(&event, 1, mx_event_now());
    mx_proto_put_int(&event, 2, step);
    mx_proto_put_message(&event, 5, &summary);
    const mx_code code = mx_event_put(w, &event);
    mx_text_free(&one);
    mx_text_free(&summary);
    mx_text_free(&event);
    mx_text_free(value);
    return code;
}

bool mx_summary_ok(const mx_summary_writer *writer, const char *tag, const char *function)
{
    if (!mx_is_kind(writer, &mx_summary_writer_kind, function, "writer"))
        return false;
    if (!tag || !*tag)
        mx_fail(MX_ERR_ARGUMENT, "%s: the tag is empty", function);
    return tag && *tag;
}

/* ---- writers --------------------------------------------------------------------------------------------------- */

static mx_code put_version(mx_summary_writer *w)
{
    mx_text event = {0};
    mx_proto_put_double(&event, 1, mx_event_now());
    mx_proto_put_text(&event, 3, "brain.Event:2");
    const mx_code code = mx_event_put(w, &event);
    mx_text_free(&event);
    return code;
}

static bool create(mx_summary_writer *w)
{
    do
        w->file = open(w->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    while (w->file < 0 && errno == EINTR);
    if (w->file < 0)
        mx_fail(MX_ERR_FILE, "%s: cannot be created: %s", w->path, strerror(errno));
    return w->file >= 0;
}

mx_summary_writer *mx_summary_writer_new(const char *folder)
{
    static _Atomic(int) count;
    char host[128] = "host";
    if (!folder || !*folder)
        return mx_fail_null(MX_ERR_ARGUMENT, "mx_summary_writer: the folder has no name");
    mx_summary_writer *w = mx_folder_make(folder) ? mx_alloc_zero(sizeof *w) : NULL;
    if (!w)
        return NULL;
    mx_object_init(&w->object, &mx_summary_writer_kind);
    w->file = -1;
    gethostname(host, sizeof host - 1);
    mx_text path = {0};
    mx_text_print(&path, "%s/events.out.tfevents.%010lld.%s.%d.%d", folder, (long long)mx_event_now(), host,
                  (int)getpid(), count++);
    w->path = mx_text_take(&path);
    if (!w->path || !create(w) || put_version(w))
        return mx_release(w), NULL;
    return mx_scope_add(w);
}

const char *mx_summary_path(const mx_summary_writer *writer)
{
    return mx_is_kind(writer, &mx_summary_writer_kind, "mx_summary_path", "writer") ? writer->path : NULL;
}
