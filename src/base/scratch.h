/* Scratch memory: temporary memory of a running kernel.
 *
 *     kernel requests ---> the thread's current reserve, if it has room      (a frame of a plan has one)
 *                     \--> else the allocator
 *
 * A reserve measures the peak of a run and has that size the next time: running a plan again allocates nothing.
 * Blocks are returned by the thread that took them, before it leaves the reserve, in any order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_SCRATCH_H
#define MX_BASE_SCRATCH_H

#include "base/alloc.h"

typedef struct mx_scratch {
    char *memory;  /* owned; NULL: none yet */
    size_t bytes;  /* size of `memory` */
    size_t used;   /* from its start; may exceed `bytes`: the rest came from the allocator */
    size_t wanted; /* the peak of `used` */
    int64_t live;  /* blocks in use */
} mx_scratch;

void *mx_scratch_take(size_t bytes); /* uninitialised, 64-byte aligned; NULL with an error */
void *mx_scratch_take_zero(size_t bytes);
void mx_scratch_give(void *memory, size_t bytes); /* the same `bytes`; NULL is ignored */

/* The thread uses `own` until it switches back to the previous one. */
mx_scratch *mx_scratch_enter(mx_scratch *own);
void mx_scratch_leave(mx_scratch *own, mx_scratch *previous);
void mx_scratch_free(mx_scratch *own); /* its memory */

#endif
