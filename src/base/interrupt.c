/* Stopping long work (see interrupt.h).
 *
 * The registered function may be slow (Python's takes a lock), so it is called every 50 ms at most.  Once it has said yes, the
 * answer stays until the check after the kernel reports it.  A time limit is one more question, which needs no function.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* CLOCK_MONOTONIC_COARSE */
#include "base/interrupt.h"

#include <time.h>

#include "base/error.h"
#include "gluon/limits.h"

#ifndef CLOCK_MONOTONIC_COARSE
#define CLOCK_MONOTONIC_COARSE CLOCK_MONOTONIC
#endif

static _Thread_local struct {
    bool (*asked)(void); /* NULL: none */
    int64_t deadline;    /* in nanoseconds; 0: none */
    double seconds;      /* of the time limit, for the message */
    bool watched;        /* there is one of both */
    bool stopped;        /* one has said yes; not reported yet */
    int64_t last;        /* when they were asked, in nanoseconds */
    int64_t pause;       /* from one question to the next */
} mine = {.pause = 50000000};

void mx_interrupt_set_pause(int64_t nanoseconds) { mine.pause = nanoseconds; }

void mx_set_interrupt(bool (*asked)(void))
{
    mine.asked = asked;
    mine.watched = mine.asked || mine.deadline;
    mine.stopped = false;
}

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#define LONGEST 1e9 /* seconds of a time limit: 30 years */

double mx_set_time_limit(double seconds)
{
    const int64_t now = nanoseconds();
    const double left = mine.deadline ? (double)(mine.deadline - now) / 1e9 : 0;
    if (seconds != seconds || seconds < 0) {
        mx_fail(MX_ERR_ARGUMENT, "time limit: wanted at least 0 seconds, got %g", seconds);
        return -1;
    }
    mine.seconds = seconds < LONGEST ? seconds : LONGEST;
    mine.deadline = seconds > 0 ? now + 1 + (int64_t)(mine.seconds * 1e9) : 0;
    mine.watched = mine.asked || mine.deadline;
    mine.stopped = false;
    return left > 0 ? left : 0;
}

static bool is_due(void)
{
    const int64_t at = nanoseconds();
    if (at - mine.last < mine.pause)
        return false;
    mine.last = at;
    return true;
}

static bool is_late(void) { return mine.deadline && mine.last >= mine.deadline; }

static bool must_stop(void) { return is_late() || (is_due() && (is_late() || (mine.asked && mine.asked()))); }

bool mx_stop_possible(void) { return mine.watched || mx_region_stoppable(); }

bool mx_stop_wanted(void)
{
    if (!mine.watched)
        return mx_region_stopped();
    if (!mine.stopped && must_stop()) {
        mine.stopped = true;
        mx_region_stop();
    }
    return mine.stopped;
}

mx_code mx_interrupt_check(void)
{
    if (__builtin_expect(!mine.watched, 1) || !mx_stop_wanted())
        return MX_OK;
    mine.stopped = false;
    if (is_late())
        return mx_fail(MX_ERR_STATE, "the time limit of %g seconds has passed", mine.seconds);
    return mx_fail(MX_ERR_STATE, "interrupted");
}
