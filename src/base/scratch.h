/* Scratch memory: what a kernel needs only while it runs.
 *
 *     kernel asks ---> the reserve that the thread follows, if it has room      (a frame of a plan brings one)
 *                 \--> else the allocator
 *
 * A reserve counts what was wanted at once and is that large the next time: running a plan again allocates nothing.
 * Pieces are given back by the thread that took them, before it leaves the reserve, in any order.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_SCRATCH_H
#define MX_BASE_SCRATCH_H

#include "base/alloc.h"

typedef struct mx_scratch {
    char *memory;  /* owned; NULL: none yet */
    size_t bytes;  /* of it */
    size_t used;   /* from its start; may point behind its end, where pieces came from the allocator */
    size_t wanted; /* the most that `used` ever was */
    int64_t live;  /* pieces that are out */
} mx_scratch;

void *mx_scratch_take(size_t bytes); /* uninitialised, 64-byte aligned; NULL with an error */
void *mx_scratch_take_zero(size_t bytes);
void mx_scratch_give(void *memory, size_t bytes); /* the same `bytes`; NULL is ignored */

/* The thread follows `own` until it leaves it again for what it followed before. */
mx_scratch *mx_scratch_enter(mx_scratch *own);
void mx_scratch_leave(mx_scratch *own, mx_scratch *previous);
void mx_scratch_free(mx_scratch *own); /* its memory */

#endif
