/* Hyperparameters of a run, for TensorBoard's plugin "hparams": three values without data, whose metadata is a message
 *
 *     _hparams_/experiment            the names of hyperparameters with their types, and of metrics
 *     _hparams_/session_start_info    the hyperparameters of this run
 *     _hparams_/session_end_info      that the run has ended
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "gluon/summary/events.h"

typedef enum kind { TEXT = 1, BOOL = 2, NUMBER = 3 } kind; /* DataType */

static kind kind_of(const char *text, double *number)
{
    char *end = NULL;
    if (!strcmp(text, "True") || !strcmp(text, "False"))
        return *number = *text == 'T', BOOL;
    *number = mx_text_to_number(text, &end);
    return *text && end && !*end ? NUMBER : TEXT;
}

/* google.protobuf.Value */
static void put_any(mx_text *to, const char *text)
{
    double number;
    switch (kind_of(text, &number)) {
    case NUMBER: mx_proto_put_double(to, 2, number); break;
    case BOOL: mx_proto_put_int(to, 4, number != 0); break;
    case TEXT: mx_proto_put_text(to, 3, text); break;
    }
}

/* One value of the plugin; `message` is field `field` of its data, and is emptied. */
static mx_code put_plugin(mx_summary_writer *w, const char *tag, uint32_t field, mx_text *message)
{
    mx_text content = {0}, plugin = {0}, metadata = {0}, value = {0};
    mx_proto_put_message(&content, field, message);
    mx_proto_put_text(&plugin, 1, "hparams");
    mx_proto_put_message(&plugin, 2, &content);
    mx_proto_put_message(&metadata, 1, &plugin);
    mx_proto_put_message(&value, 9, &metadata);
    mx_text_free(message);
    mx_text_free(&content);
    mx_text_free(&plugin);
    mx_text_free(&metadata);
    return mx_event_put_value(w, tag, &value, 0);
}

static mx_code put_experiment(mx_summary_writer *w, const struct mx_hparams *h)
{
    mx_text experiment = {0}, one = {0}, name = {0};
    double number;
    for (int i = 0; i < h->count; i++) {
        mx_proto_put_text(&one, 1, h->names[i]);
        mx_proto_put_int(&one, 4, kind_of(h->values[i], &number));
        mx_proto_put_message(&experiment, 4, &one);
    }
    for (int i = 0; i < h->n_metrics; i++) {
        mx_proto_put_text(&name, 2, h->metrics[i]);
        mx_proto_put_message(&one, 1, &name);
        mx_proto_put_message(&experiment, 5, &one);
    }
    mx_text_free(&one);
    mx_text_free(&name);
    return put_plugin(w, "_hparams_/experiment", 2, &experiment);
}

static mx_code put_start(mx_summary_writer *w, const struct mx_hparams *h)
{
    mx_text start = {0}, entry = {0}, value = {0};
    for (int i = 0; i < h->count; i++) {
        put_any(&value, h->values[i]);
        mx_proto_put_text(&entry, 1, h->names[i]);
        mx_proto_put_message(&entry, 2, &value);
        mx_proto_put_message(&start, 1, &entry);
    }
    mx_proto_put_double(&start, 5, mx_event_now());
    mx_text_free(&entry);
    mx_text_free(&value);
    return put_plugin(w, "_hparams_/session_start_info", 3, &start);
}

static mx_code put_end(mx_summary_writer *w)
{
    mx_text end = {0};
    mx_proto_put_int(&end, 1, 1); /* STATUS_SUCCESS */
    mx_proto_put_double(&end, 2, mx_event_now());
    return put_plugin(w, "_hparams_/session_end_info", 4, &end);
}

static mx_code check(const struct mx_hparams *h)
{
    if (!h || h->count < 0 || h->n_metrics < 0)
        return mx_fail(MX_ERR_ARGUMENT, "mx_summary_hparams: there are no hyperparameters");
    if ((h->count && (!h->names || !h->values)) || (h->n_metrics && !h->metrics))
        return mx_fail(MX_ERR_ARGUMENT, "mx_summary_hparams: a list is NULL");
    for (int i = 0; i < h->count; i++)
        if (!h->names[i] || !h->values[i])
            return mx_fail(MX_ERR_ARGUMENT, "mx_summary_hparams: hyperparameter %d has no %s", i,
                           h->names[i] ? "value" : "name");
    for (int i = 0; i < h->n_metrics; i++)
        if (!h->metrics[i])
            return mx_fail(MX_ERR_ARGUMENT, "mx_summary_hparams: metric %d has no name", i);
    return MX_OK;
}

mx_code mx_summary_hparams(mx_summary_writer *writer, const struct mx_hparams *hparams)
{
    if (!mx_summary_ok(writer, "hparams", "mx_summary_hparams") || check(hparams))
        return mx_error_code();
    mx_code code = put_experiment(writer, hparams);
    if (!code)
        code = put_start(writer, hparams);
    return code ? code : put_end(writer);
}
