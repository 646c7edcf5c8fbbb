/* The one thread pool of the process.
 *
 * Nothing runs before the first large piece of work.  Work is split statically, so results do not depend on
 * timing.  Calls from inside a worker run on that worker.  After fork the child starts its own pool when needed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_THREADS_H
#define MX_BASE_THREADS_H

#include "gluon/base.h"

/* Calls body(arg, begin, end) for parts that cover [0, n); parts hold at least `grain` items, and there are at
 * most mx_num_threads() of them.  A single part runs as a direct call on the caller's thread.
 * For kernels: where this thread can be stopped (base/interrupt.h), a long part is several calls, and those after the stop
 * are left out.  What follows in the kernel may not trust what they would have written. */
typedef void (*mx_range_fn)(void *arg, int64_t begin, int64_t end);
void mx_parallel(int64_t n, int64_t grain, mx_range_fn body, void *arg);
/* The same to its end, for work that is no kernel: nobody checks afterwards whether it was stopped. */
void mx_parallel_all(int64_t n, int64_t grain, mx_range_fn body, void *arg);

/* Calls body(arg, part, parts) once per part, parts = min(wanted, mx_num_threads()), in parallel. */
typedef void (*mx_part_fn)(void *arg, int part, int parts);
void mx_parallel_parts(int wanted, mx_part_fn body, void *arg);

#define MX_GRAIN 16384 /* elements of cheap work that are not worth waking a thread for */

#endif
