/* A meeting point of threads, each of which computes on a context of its own (see meeting.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_COMM_MEETING_H
#define MX_COMM_MEETING_H

#include "gluon/array.h"

/* One call, of one context, that waits for those of the others. */
typedef struct mx_meeting_call {
    const char *key;   /* those with the same key meet */
    const char *phase; /* what it computes, in words: all partners compute the same */
    int contexts;      /* that meet, this one included */
    mx_context context;
} mx_meeting_call;

/* Sums over the contexts of this process and over all processes, the same bits everywhere and in every run.  An error on every
 * context if a partner fails, or does not come within GLUON_SYNC_SECONDS. */
mx_code mx_meeting_sum(const mx_meeting_call *call, double *numbers, int64_t count);
/* This context cannot come, because of the thread's error: the others get it instead of a sum. */
void mx_meeting_fail(const mx_meeting_call *call);

/* Called around every wait, without a lock: an interpreter lets its other threads run.  What `begin` returns is given to `end`. */
void mx_meeting_around(void *(*begin)(void), void (*end)(void *state));

#endif
