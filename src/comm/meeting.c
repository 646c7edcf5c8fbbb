/* Meetings: threads of one process, each with a context of its own, sum numbers.
 *
 *     first calls:  join the meeting of their key, wait
 *     last call:    adds the numbers of all in the order of contexts, then those of other processes, and hands everyone the sum
 *
 * A meeting is open until its last call or its failure; then it leaves the list, so the next call with this key opens a new one, and
 * the last thread that leaves it frees it.  Nobody waits for ever: partners come within some seconds, or all that wait fail.  A
 * partner that cannot come leaves a meeting that has failed in the list, for those that come later, for as long as they would have
 * waited.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "comm/meeting.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/interrupt.h"
#include "comm/comm.h"
#include "comm/engine_state.h"
#include "ndarray/device.h"

#define SLICE_NANOSECONDS 50000000 /* between two looks for Ctrl-C */

typedef struct party {
    mx_context context;
    double *numbers; /* of its thread, which waits */
} party;

typedef struct meeting {
    struct meeting *next; /* in the list */
    char *key;            /* owned */
    const char *phase;
    int64_t count;            /* of numbers */
    int64_t began;            /* nanoseconds */
    int wanted, come, inside; /* parties: in all, that have come, that have not left yet */
    bool open, done;          /* in the list; over */
    mx_code code;             /* of its failure */
    char message[1200];
    party parties[]; /* (wanted) */
} meeting;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards everything here */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static meeting *first;
static void *(*begin_wait)(void); /* set before threads are started; NULL: none */
static void (*end_wait)(void *state);

static int64_t patience(void) { return mx_flags_get()->sync_seconds * INT64_C(1000000000); }
static size_t bytes_of(int wanted) { return sizeof(meeting) + (size_t)wanted * sizeof(party); }

/* ---- the list; the lock is held ------------------------------------------------------------------------------------- */

static void free_meeting(meeting *m)
{
    mx_strfree(m->key);
    mx_free(m, bytes_of(m->wanted));
}

/* Those that come from now on open another one. */
static void take_out(meeting *m)
{
    for (meeting **at = &first; *at; at = &(*at)->next)
        if (*at == m) {
            *at = m->next;
            break;
        }
    m->open = false;
    if (!m->inside)
        free_meeting(m);
}

static bool has(const meeting *m, mx_context context)
{
    for (int i = 0; i < m->come; i++)
        if (m->parties[i].context.type == context.type && m->parties[i].context.id == context.id)
            return true;
    return false;
}

/* A failure that nobody will ask for any more: too old, or of the step before. */
static bool is_stale(const meeting *m, mx_context context)
{
    return m->code && (has(m, context) || mx_engine_now() - m->began > patience());
}

static meeting *open_meeting(const mx_meeting_call *call, int64_t count)
{
    meeting *m = mx_alloc_zero(bytes_of(call->contexts));
    if (!m)
        return NULL;
    m->wanted = call->contexts, m->phase = call->phase, m->count = count, m->began = mx_engine_now();
    if (!(m->key = mx_strdup(call->key))) {
        free_meeting(m);
        return NULL;
    }
    m->open = true;
    m->next = first;
    return first = m;
}

static meeting *find(const mx_meeting_call *call, int64_t count)
{
    for (meeting *m = first, *next; m; m = next) {
        next = m->next;
        if (strcmp(m->key, call->key))
            continue;
        if (!is_stale(m, call->context))
            return m;
        take_out(m);
    }
    return open_meeting(call, count);
}

/* ---- the end of a meeting; the lock is held ------------------------------------------------------------------------- */

/* stays: in the list, for those that come later. */
static void fail(meeting *m, mx_code code, const char *message, bool stays)
{
    m->code = code, m->done = true;
    snprintf(m->message, sizeof m->message, "%s", message);
    if (!stays && m->open) {
        m->inside++; /* not freed here */
        take_out(m);
        m->inside--;
    }
    pthread_cond_broadcast(&changed);
}

static void fail_late(meeting *m)
{
    char text[1200], where[32];
    snprintf(
        text, sizeof text,
        "%s, %s: %d of %d contexts came within %lld seconds, the first is %s: each context needs a thread of its own that runs "
        "its part of the network and its backward; a loop over contexts in one thread cannot wait for itself. "
        "Start one process per device instead, or use BatchNorm (GLUON_SYNC_SECONDS sets how long to wait)",
        m->key, m->phase, m->come, m->wanted, (long long)mx_flags_get()->sync_seconds,
        mx_context_text(m->parties[0].context, where));
    fail(m, MX_ERR_STATE, text, false);
}

static int by_context(const void *a, const void *b)
{
    const mx_context x = ((const party *)a)->context, y = ((const party *)b)->context;
    return x.type != y.type ? (x.type < y.type ? -1 : 1) : (x.id > y.id) - (x.id < y.id);
}

/* The sum, in the memory of the first context. */
static double *add_up(meeting *m)
{
    qsort(m->parties, (size_t)m->wanted, sizeof *m->parties, by_context);
    for (int64_t i = 0; i < m->count; i++) {
        double sum = 0;
        for (int p = 0; p < m->wanted; p++)
            sum += m->parties[p].numbers[i];
        m->parties[0].numbers[i] = sum;
    }
    return m->parties[0].numbers;
}

/* The lock is let go of while processes exchange the sum. */
static void finish(meeting *m)
{
    double *sum = add_up(m);
    take_out(m);
    pthread_mutex_unlock(&lock);
    mx_comm *world = mx_comm_world();
    const mx_code code = world ? mx_comm_reduce_memory(world, sum, m->count, MX_FLOAT64, MX_SUM) : mx_error_code();
    pthread_mutex_lock(&lock);
    for (int p = 1; p < m->wanted; p++)
        memcpy(m->parties[p].numbers, sum, (size_t)m->count * sizeof *sum);
    if (code)
        fail(m, code, mx_error_message(), false);
    m->done = true;
    pthread_cond_broadcast(&changed);
}

/* ---- a call; the lock is held --------------------------------------------------------------------------------------- */

static void wait_a_little(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += SLICE_NANOSECONDS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&changed, &lock, &until);
}

/* Until it is over. */
static void wait_for(meeting *m)
{
    while (!m->done) {
        wait_a_little();
        if (m->done || !m->open) /* the last one has come: it ends the meeting */
            continue;
        pthread_mutex_unlock(&lock); /* an interpreter takes its own lock in there */
        const mx_code stopped = mx_interrupt_check();
        pthread_mutex_lock(&lock);
        if (m->done || !m->open)
            continue;
        if (stopped)
            fail(m, mx_error_code(), mx_error_message(), false);
        else if (mx_engine_now() - m->began > patience())
            fail_late(m);
    }
}

/* Partners that compute different things would never agree. */
static bool differs(meeting *m, const mx_meeting_call *call, int64_t count)
{
    char text[600], a[32], b[32];
    mx_context_text(call->context, b);
    if (has(m, call->context))
        snprintf(text, sizeof text, "%s, %s: %s came twice, from two threads; each context needs one thread", m->key,
                 m->phase, b);
    else if (m->wanted == call->contexts && m->count == count && !strcmp(m->phase, call->phase))
        return false;
    else
        snprintf(text, sizeof text,
                 "%s: contexts differ: %s is at the %s of %lld numbers for %d contexts, %s at the %s of %lld for %d",
                 m->key, mx_context_text(m->parties[0].context, a), m->phase, (long long)m->count, m->wanted, b,
                 call->phase, (long long)count, call->contexts);
    fail(m, MX_ERR_STATE, text, false);
    return true;
}

static void join(meeting *m, const mx_meeting_call *call, double *numbers)
{
    m->parties[m->come++] = (party){call->context, numbers};
    if (m->done) {
        if (m->come == m->wanted) /* all know of the failure */
            take_out(m);
    } else if (m->come == m->wanted)
        finish(m);
    else
        wait_for(m);
}

/* Takes part in a meeting; its error, with the message. */
static mx_code take_part(meeting *m, const mx_meeting_call *call, double *numbers, int64_t count, char message[1200])
{
    m->inside++;
    if (m->done || !m->come || !differs(m, call, count))
        join(m, call, numbers);
    const mx_code code = m->code;
    if (code)
        memcpy(message, m->message, sizeof m->message);
    if (!--m->inside && !m->open)
        free_meeting(m);
    return code;
}

mx_code mx_meeting_sum(const mx_meeting_call *call, double *numbers, int64_t count)
{
    char message[1200];
    void *state = begin_wait ? begin_wait() : NULL;
    pthread_mutex_lock(&lock);
    meeting *m = find(call, count);
    const mx_code code = m ? take_part(m, call, numbers, count, message) : mx_error_code();
    pthread_mutex_unlock(&lock);
    if (begin_wait)
        end_wait(state);
    return code && !mx_has_error() ? mx_fail(code, "%s", message) : code;
}

void mx_meeting_around(void *(*begin)(void), void (*end)(void *state))
{
    end_wait = end;
    begin_wait = begin;
}

void mx_meeting_fail(const mx_meeting_call *call)
{
    char text[1200], where[32];
    snprintf(text, sizeof text, "the partner on %s failed: %.1000s", mx_context_text(call->context, where),
             mx_error_message());
    pthread_mutex_lock(&lock);
    meeting *m = find(call, 0);
    if (m && !m->done)
        fail(m, mx_error_code() ? mx_error_code() : MX_ERR_STATE, text, true);
    if (m && m->come < m->wanted && !has(m, call->context))
        m->parties[m->come++] = (party){call->context, NULL};
    if (m && m->come == m->wanted)
        take_out(m);
    pthread_mutex_unlock(&lock);
}
