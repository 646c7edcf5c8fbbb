/* Stopping long work, as Ctrl-C does (gluon/limits.h: mx_set_interrupt).
 *
 *     kernels       leave their outer loops when mx_stop_wanted(): the results are lost
 *     their callers turn that into an error, with mx_interrupt_check() after each kernel
 *
 * Only the thread that registered a function is ever stopped, and the threads of the pool that work for it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_INTERRUPT_H
#define MX_BASE_INTERRUPT_H

#include "gluon/base.h"

bool mx_stop_wanted(void); /* costs some nanoseconds: for loops whose rounds take microseconds */
/* The same in round i of a loop whose rounds take nanoseconds: asks in every 4096th. */
static inline bool mx_stop_wanted_at(int64_t i) { return i % 4096 == 0 && mx_stop_wanted(); }
bool mx_stop_possible(void);      /* whether it can be true in this thread */
mx_code mx_interrupt_check(void); /* an error if the work of this thread was stopped, or should be now */

/* base/threads.c: asks the other threads of the parallel region that this thread has started to stop; whether this thread,
 * one of the pool, has been asked to. */
void mx_region_stop(void);
bool mx_region_stopped(void);
bool mx_region_stoppable(void); /* whether the owner of the region that this thread of the pool works for can be */

/* For tests: nanoseconds between two calls of the function that this thread registered; 50 ms unless set. */
void mx_interrupt_set_pause(int64_t nanoseconds);

#endif
