/* The caching aligned allocator.
 *
 * Host memory comes in size classes.  A freed block goes to its class's free list (thread-local for small
 * blocks, shared for large ones) and is handed out again without asking the system.  Everything is 64-byte
 * aligned so that kernels may use full vectors.  mx_alloc never aborts: it returns NULL with MX_ERR_MEMORY set.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_ALLOC_H
#define MX_BASE_ALLOC_H

#include "gluon/base.h"

#define MX_ALIGN 64

void *mx_alloc(size_t bytes); /* uninitialised; bytes 0 gives a valid pointer */
void *mx_alloc_zero(size_t bytes);
void mx_free(void *memory, size_t bytes);                           /* the same `bytes` as asked for; NULL is ignored */
void *mx_realloc(void *memory, size_t old_bytes, size_t new_bytes); /* keeps min(old, new) bytes */
char *mx_strdup(const char *text);                                  /* free with mx_strfree */
void mx_strfree(char *text);
void mx_alloc_release_cache(void); /* gives every cached block back to the system */

typedef struct mx_alloc_stats {
    int64_t live_bytes, live_blocks; /* handed out and not returned */
    int64_t cached_bytes;            /* waiting in free lists */
    int64_t peak_bytes;              /* the most that large blocks (over 32 KiB) ever held together */
    int64_t calls;                   /* number of mx_alloc calls */
} mx_alloc_stats;
mx_alloc_stats mx_alloc_get_stats(void);

/* Single allocations above this many bytes fail; 0: only those above the machine's memory (or the container's). */
void mx_alloc_set_limit(size_t bytes);

/* Test hook: the n-th allocation from now on fails (1 = the next); 0 switches it off. Affects the whole process. */
void mx_alloc_fail_at(int64_t n);
bool mx_alloc_fails(void); /* counts as an allocation, of memory that comes from elsewhere: it must fail */

#endif
