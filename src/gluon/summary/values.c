/* Values of event files: scalars, texts, histograms.  SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/summary/events.h"
#include "ndarray/array.h"

mx_code mx_summary_scalar(mx_summary_writer *writer, const char *tag, double value, int64_t step)
{
    mx_text text = {0};
    if (!mx_summary_ok(writer, tag, "mx_summary_scalar"))
        return mx_error_code();
    mx_proto_put_float(&text, 2, (float)value);
    return mx_event_put_value(writer, tag, &text, step);
}

/* A tensor of one text, which the plugin "text" shows. */
mx_code mx_summary_text(mx_summary_writer *writer, const char *tag, const char *text, int64_t step)
{
    mx_text value = {0}, tensor = {0}, plugin = {0}, metadata = {0};
    if (!mx_summary_ok(writer, tag, "mx_summary_text") || !text)
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
    return mx_event_put_value(writer, tag, &value, step);
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
    if (!mx_summary_ok(writer, tag, "mx_summary_histogram") || !mx_array_ok(values, "mx_summary_histogram", "values"))
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
        code = mx_event_put_value(writer, tag, &value, step);
    }
    mx_free(numbers, bytes);
    return code;
}
