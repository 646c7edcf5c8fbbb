/* Records of event files (events.c), for the files that write values and graphs.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_SUMMARY_EVENTS_H
#define MX_GLUON_SUMMARY_EVENTS_H

#include "base/object.h"
#include "base/protobuf.h"
#include "gluon/summary.h"

extern const mx_kind mx_summary_writer_kind;

/* A writer and a tag that is not empty; otherwise an error that names the function. */
bool mx_summary_ok(const mx_summary_writer *writer, const char *tag, const char *function);

double mx_event_now(void);                                       /* seconds since 1970 */
mx_code mx_event_put(mx_summary_writer *w, const mx_text *data); /* an Event message as a record */
/* An event with one value, whose fields but the tag are in `value`; it is emptied. */
mx_code mx_event_put_value(mx_summary_writer *w, const char *tag, mx_text *value, int64_t step);

#endif
