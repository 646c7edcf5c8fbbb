/* Recording errors: internals of the thread's error record.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_ERROR_H
#define MX_BASE_ERROR_H

#include "gluon/base.h"

/* Both record (the first error wins) and return; use as `return mx_fail(MX_ERR_SHAPE, "...", ...);`.
 * Messages say: operator or block, argument, what was given, what is expected, what to do. */
#define mx_fail(...) mx_error_set(__VA_ARGS__)
#define mx_fail_null(...) (mx_error_set(__VA_ARGS__), NULL)

/* Context that is put before messages while it is set: the operator or block path now running. */
const char *mx_error_context(const char *who); /* sets, returns the previous one to be restored */

bool mx_has_error(void);
const char *mx_error_last(void); /* the last message, cleared or not: "" if there was none; of MXGetLastError */
/* Puts "who: " before the recorded message unless it mentions `who` already. */
void mx_error_mention(const char *who);

#endif
