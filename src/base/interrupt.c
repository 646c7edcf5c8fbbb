/* Stopping long work (see interrupt.h).
 *
 * The registered function may be slow (Python's takes a lock), so it is called every 50 ms at most.  Once it has said yes, the
 * answer stays until the check after the kernel reports it.
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
    bool (*asked)(void); /* NULL: this thread is never stopped */
    bool stopped;        /* it has said yes; not reported yet */
    int64_t last;        /* when it was called, in nanoseconds */
    int64_t pause;       /* from one call to the next */
} mine = {.pause = 50000000};

void mx_interrupt_set_pause(int64_t nanoseconds) { mine.pause = nanoseconds; }

void mx_set_interrupt(bool (*asked)(void))
{
    mine.asked = asked;
    mine.stopped = false;
}

static bool is_due(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const int64_t at = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    if (at - mine.last < mine.pause)
        return false;
    mine.last = at;
    return true;
}

bool mx_stop_possible(void) { return mine.asked || mx_region_stoppable(); }

bool mx_stop_wanted(void)
{
    if (!mine.asked)
        return mx_region_stopped();
    if (!mine.stopped && is_due() && mine.asked()) {
        mine.stopped = true;
        mx_region_stop();
    }
    return mine.stopped;
}

mx_code mx_interrupt_check(void)
{
    if (__builtin_expect(!mine.asked, 1) || !mx_stop_wanted())
        return MX_OK;
    mine.stopped = false;
    return mx_fail(MX_ERR_STATE, "interrupted");
}
