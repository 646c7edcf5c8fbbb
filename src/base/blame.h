/* Where an error arose, as a path from the outermost block: "net0.body.1 (net0_dense1): data has 4 features ...".
 *
 * A message begins with the name of the innermost block that was running (mx_error_context).  While the failed calls return,
 * every block that one of them belongs to puts itself before the path:
 *
 *     net0_dense1: ...   ->   net0_body0.1 (net0_dense1): ...   ->   net0.body.1 (net0_dense1): ...
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_BLAME_H
#define MX_BASE_BLAME_H

#include "gluon/base.h"

/* What the path of the last error begins with, to be compared only; NULL: nothing. */
const void *mx_blamed(void);
/* `thing` is blamed now.  key: what it calls the thing that was blamed before, which is in it; NULL: a new path. */
void mx_blame(const void *thing, const char *name, const char *key);

/* For messages that have left the record (exceptions): the first bytes of `text`, whose number is returned, are to be
 * replaced by `prefix`, the path so far.  0: the text is about something else. */
#define MX_BLAME_TEXT 256
size_t mx_blame_prefix(const char *text, char prefix[MX_BLAME_TEXT]);

/* While true, the context of messages stands for the operator: a layer that is one operator.  Returns the old value. */
bool mx_context_is_operator(bool on);
bool mx_context_speaks(void);

#endif
