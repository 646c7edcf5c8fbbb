/* Event files of TensorBoard.
 *
 *     record: length (8 bytes), checksum of the length, data, checksum of the data
 *     data:   an Event message: time, step, a Summary with one value
 *
 * Checksums are CRC-32C, rotated and shifted so that checksums of checksums differ from them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "base/image.h"
#include "base/object.h"
#include "base/protobuf.h"
#include "gluon/summary.h"
#include "ndarray/array.h"

struct mx_summary_writer {
    mx_object object;
    FILE *file;
    char *path; /* owned */
};

static void destroy(mx_object *self)
{
    mx_summary_writer *w = (mx_summary_writer *)self;
    if (w->file)
        fclose(w->file);
    mx_strfree(w->path);
    mx_free(w, sizeof *w);
}

static const mx_kind writer_kind = {"summary writer", destroy};

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

static mx_code put_record(mx_summary_writer *w, const mx_text *data)
{
    unsigned char head[12], tail[4];
    if (data->failed)
        return mx_error_code();
    little(head, data->length, 8);
    little(head + 8, masked(head, 8), 4);
    little(tail, masked(data->data, data->length), 4);
    const bool ok = fwrite(head, 12, 1, w->file) && fwrite(data->data, data->length, 1, w->file) &&
                    fwrite(tail, 4, 1, w->file) && !fflush(w->file);
    return ok ? MX_OK : mx_fail(MX_ERR_FILE, "%s: cannot be written: %s", w->path, strerror(errno));
}

static double now(void)
{
    struct timeval time;
    gettimeofday(&time, NULL);
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

/* An event with one value, whose fields but the tag are in `value`; it is emptied. */
static mx_code put_value(mx_summary_writer *w, const char *tag, mx_text *value, int64_t step)
{
    mx_text one = {0}, summary = {0}, event = {0};
    mx_proto_put_text(&one, 1, tag);
    mx_text_add_bytes(&one, value->data ? value->data : "", value->length);
    one.failed |= value->failed;
    mx_proto_put_message(&summary, 1, &one);
    mx_proto_put_double(&event, 1, now());
    mx_proto_put_int(&event, 2, step);
    mx_proto_put_message(&event, 5, &summary);
    const mx_code code = put_record(w, &event);
    mx_text_free(&one);
    mx_text_free(&summary);
    mx_text_free(&event);
    mx_text_free(value);
    return code;
}

static mx_code check(const mx_summary_writer *w, const char *tag, const char *function)
{
    if (!mx_is_kind(w, &writer_kind, function, "writer"))
        return mx_error_code();
    return tag && *tag ? MX_OK : mx_fail(MX_ERR_ARGUMENT, "%s: the tag is empty", function);
}

/* ---- writers --------------------------------------------------------------------------------------------------- */

static mx_code put_version(mx_summary_writer *w)
{
    mx_text event = {0};
    mx_proto_put_double(&event, 1, now());
    mx_proto_put_text(&event, 3, "brain.Event:2");
    const mx_code code = put_record(w, &event);
    mx_text_free(&event);
    return code;
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
    mx_object_init(&w->object, &writer_kind);
    gethostname(host, sizeof host - 1);
    mx_text path = {0};
    mx_text_print(&path, "%s/events.out.tfevents.%010lld.%s.%d.%d", folder, (long long)now(), host, (int)getpid(),
                  count++);
    w->path = mx_text_take(&path);
    if (w->path && !(w->file = fopen(w->path, "wbx")))
        mx_fail(MX_ERR_FILE, "%s: cannot be created: %s", w->path, strerror(errno));
    if (!w->file || put_version(w))
        return mx_release(w), NULL;
    return mx_scope_add(w);
}

const char *mx_summary_path(const mx_summary_writer *writer)
{
    return mx_is_kind(writer, &writer_kind, "mx_summary_path", "writer") ? writer->path : NULL;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

mx_code mx_summary_scalar(mx_summary_writer *writer, const char *tag, double value, int64_t step)
{
    mx_text text = {0};
    if (check(writer, tag, "mx_summary_scalar"))
        return mx_error_code();
    mx_proto_put_float(&text, 2, (float)value);
    return put_value(writer, tag, &text, step);
}

/* A tensor of one text, which the plugin "text" shows. */
mx_code mx_summary_text(mx_summary_writer *writer, const char *tag, const char *text, int64_t step)
{
    mx_text value = {0}, tensor = {0}, plugin = {0}, metadata = {0};
    if (check(writer, tag, "mx_summary_text") || !text)
        return text ? mx_error_code() : mx_fail(MX_ERR_ARGUMENT, "mx_summary_text: the text is NULL");
    mx_proto_put_int(&tensor, 1, 7); /* DT_STRING */
    mx_proto_put_text(&tensor, 8, text);
    mx_proto_put_message(&value, 8, &tensor);
    mx_proto_put_text(&plugin, 1, "text");
    mx_proto_put_message(&metadata, 1, &plugin);
    mx_proto_put_message(&value, 9, &metadata);
    mx_text_free(&tensor);
    mx_text_free(&plugin);
    mx_text_free(&metadata);
    return put_value(writer, tag, &value, step);
}

typedef struct histogram {
    double low, high, sum, squares, count;
    int bins;
    double *counts; /* (bins) */
} histogram;

static void measure(histogram *h, const double *values, int64_t n)
{
    h->low = INFINITY;
    h->high = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(values[i])) {
            h->low = fmin(h->low, values[i]);
            h->high = fmax(h->high, values[i]);
            h->sum += values[i];
            h->squares += values[i] * values[i];
            h->count++;
        }
    if (h->count == 0)
        h->low = h->high = 0;
    const double width = h->high > h->low ? (h->high - h->low) / h->bins : 1;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(values[i])) {
            const int bin = (int)((values[i] - h->low) / width);
            h->counts[bin < h->bins ? bin : h->bins - 1]++;
        }
}

static void put_doubles(mx_text *text, uint32_t field, const double *values, int n)
{
    mx_proto_put_key(text, field, MX_PROTO_BYTES);
    mx_proto_put_varint(text, (uint64_t)n * 8);
    mx_text_add_bytes(text, values, (size_t)n * sizeof *values); /* little-endian */
}

static void put_histogram(mx_text *value, histogram *h, double *limits)
{
    const double numbers[] = {h->low, h->high, h->count, h->sum, h->squares};
    const double width = h->high > h->low ? (h->high - h->low) / h->bins : 1;
    mx_text text = {0};
    for (uint32_t i = 0; i < 5; i++)
        mx_proto_put_double(&text, i + 1, numbers[i]);
    for (int i = 0; i < h->bins; i++)
        limits[i] = i + 1 == h->bins && h->high > h->low ? h->high : h->low + width * (i + 1);
    put_doubles(&text, 6, limits, h->bins);
    put_doubles(&text, 7, h->counts, h->bins);
    mx_proto_put_message(value, 5, &text);
    mx_text_free(&text);
}

mx_code mx_summary_histogram(mx_summary_writer *writer, const char *tag, mx_array *values, int bins, int64_t step)
{
    mx_text value = {0};
    if (check(writer, tag, "mx_summary_histogram") || !mx_array_ok(values, "mx_summary_histogram", "values"))
        return mx_error_code();
    if (bins < 1 || bins > 65536)
        return mx_fail(MX_ERR_ARGUMENT, "mx_summary_histogram: %d bins, wanted 1 to 65536", bins);
    const size_t bytes = ((size_t)values->size + 2 * (size_t)bins) * sizeof(double);
    double *numbers = mx_alloc_zero(bytes);
    histogram h = {.bins = bins, .counts = numbers ? numbers + values->size : NULL};
    mx_code code = !numbers       ? MX_ERR_MEMORY
                   : values->size ? mx_array_read_doubles(values, numbers, values->size)
                                  : MX_OK;
    if (!code) {
        measure(&h, numbers, values->size);
        put_histogram(&value, &h, h.counts + bins);
        code = put_value(writer, tag, &value, step);
    }
    mx_free(numbers, bytes);
    return code;
}

/* ---- images ---------------------------------------------------------------------------------------------------- */

/* Bytes (H, W, C) of an array; floats are scaled and clipped. */
static mx_code take_pixels(mx_array *x, bool first, int64_t h, int64_t w, int64_t c, unsigned char *pixels)
{
    double *numbers = mx_alloc((size_t)x->size * sizeof *numbers + 1);
    const double scale = x->dtype == MX_UINT8 ? 1 : 255;
    mx_code code = numbers ? mx_array_read_doubles(x, numbers, x->size) : MX_ERR_MEMORY;
    for (int64_t i = 0; !code && i < h * w; i++)
        for (int64_t k = 0; k < c; k++) {
            const double v = numbers[first ? k * h * w + i : i * c + k] * scale;
            pixels[i * c + k] = (unsigned char)(v > 255 ? 255 : v > 0 ? v + 0.5 : 0);
        }
    mx_free(numbers, (size_t)x->size * sizeof *numbers + 1);
    return code;
}

mx_code mx_summary_image(mx_summary_writer *writer, const char *tag, mx_array *image, int64_t step)
{
    mx_text value = {0}, picture = {0}, png = {0};
    if (check(writer, tag, "mx_summary_image") || !mx_array_ok(image, "mx_summary_image", "image"))
        return mx_error_code();
    const bool last = image->ndim == 3 && (image->shape[2] == 1 || image->shape[2] == 3);
    const bool first = !last && image->ndim == 3 && (image->shape[0] == 1 || image->shape[0] == 3);
    if ((!first && !last) || !image->size)
        return mx_fail(MX_ERR_SHAPE, "mx_summary_image: wanted (H, W, C) or (C, H, W) with one or three channels");
    const int64_t h = image->shape[first ? 1 : 0], w = image->shape[first ? 2 : 1], c = image->shape[first ? 0 : 2];
    unsigned char *pixels = mx_alloc((size_t)(h * w * c));
    mx_code code = pixels ? take_pixels(image, first, h, w, c, pixels) : MX_ERR_MEMORY;
    if (!code && !mx_image_encode(&(mx_image_pixels){pixels, h, w, (int)c, true}, ".png", 3, &png))
        code = mx_error_code();
    if (!code) {
        mx_proto_put_int(&picture, 1, h);
        mx_proto_put_int(&picture, 2, w);
        mx_proto_put_int(&picture, 3, c);
        mx_proto_put_bytes(&picture, 4, png.data, png.length);
        mx_proto_put_message(&value, 4, &picture);
        code = put_value(writer, tag, &value, step);
    }
    mx_free(pixels, (size_t)(h * w * c));
    mx_text_free(&picture);
    mx_text_free(&png);
    return code;
}
