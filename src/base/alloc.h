/* The caching aligned allocator.
 *
 * Host memory is allocated in size classes.  A freed block goes to its class's free list (thread-local for small
 * blocks, shared for large ones) and is reused without a system call.  Everything is 64-byte
 * aligned so that kernels may use full vectors.  mx_alloc never aborts: it returns NULL with MX_ERR_MEMORY set.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_ALLOC_H
#define MX_BASE_ALLOC_H

#include "gluon/base.h"

#define MX_ALIGN 64

void *mx_alloc(size_t bytes); /* uninitialised; bytes 0 gives a valid pointer */
void *mx_alloc_zero(size_t bytes);
void mx_free(void *memory, size_t bytes);                           /* the same `bytes` as allocated; NULL is ignored */
void *mx_realloc(void *memory, size_t old_bytes, size_t new_bytes); /* keeps min(old, new) bytes */
char *mx_strdup(const char *text);                                  /* free with mx_strfree */
void mx_strfree(char *text);

/* The same without the cache and at the alignment of malloc, for what there are many of and kernels never touch: names and
 * nodes of graphs.  A name takes 32 bytes instead of 128. */
void *mx_alloc_packed(size_t bytes);
void mx_free_packed(void *memory, size_t bytes);
char *mx_strdup_packed(const char *text); /* free with mx_strfree_packed */
void mx_strfree_packed(char *text);

void mx_alloc_release_cache(void); /* returns every cached block to the system */

typedef struct mx_alloc_stats {
    int64_t live_bytes, live_blocks; /* allocated and not freed */
    int64_t cached_bytes;            /* in free lists */
    int64_t peak_bytes;              /* peak of all large blocks (over 32 KiB) together */
    int64_t calls;                   /* number of mx_alloc calls */
} mx_alloc_stats;
mx_alloc_stats mx_alloc_get_stats(void);

/* Single allocations above this many bytes fail; 0: only those above the machine's memory (or the container's). */
void mx_alloc_set_limit(size_t bytes);

/* Large blocks (over 32 KiB) together are limited to this many bytes; 0: to the memory of the machine. */
void mx_alloc_set_total(size_t bytes);
int64_t mx_alloc_left(void); /* what is left of that */

/* Test hook: the n-th allocation from now on fails (1 = the next); 0 disables it. Affects the whole process. */
void mx_alloc_fail_at(int64_t n);
bool mx_alloc_fails(void); /* for memory from elsewhere: counts as an allocation; true: it must fail */

#endif
