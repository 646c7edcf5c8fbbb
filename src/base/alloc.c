/* The caching aligned allocator (see alloc.h).
 *
 * Size classes: four per power of two, from 64 bytes up.  Blocks up to SMALL_LIMIT are cached per thread without
 * a lock; larger ones share one list per class under a lock.  A thread whose cache of small blocks is full moves them to
 * the shared lists, so that other threads can reuse memory that this one freed.  If memory in use and cached memory would
 * exceed half of the machine's, the cache is returned to the system first.
 *
 * Counting small blocks must cost nothing: each thread has its own counters, which are summed on request.
 * A block freed by another thread than the one that allocated it can make a counter negative; the sum stays right.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#include <sys/sysinfo.h>
#endif

#include "base/assert.h"
#include "base/error.h"
#include "base/flags.h"

#define CLASSES 168 /* up to 2^48 bytes */
#define SMALL_LIMIT ((size_t)1 << 15)
#define SMALL_CLASSES 37 /* class_of(SMALL_LIMIT) + 1: few, because thread-local space of a loaded library is scarce */
#define THREAD_BYTES ((size_t)1 << 20) /* of one class in a thread's cache */
#define BIGGEST ((size_t)1 << 47)
#define HUGE_PAGE ((size_t)1 << 21)
#define HUGE_LIMIT ((size_t)1 << 23) /* from here on size classes are multiples of huge pages */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CACHING 0 /* a reused block would hide a use after free */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CACHING 0
#endif
#endif
#ifndef CACHING
#define CACHING 1
#endif

typedef struct block { struct block *next; } block;
typedef struct { block *head; size_t length; } block_list;

/* The cache of a thread; linked into `caches` while the thread lives. */
typedef struct thread_cache {
    block_list lists[SMALL_CLASSES];
    _Atomic int64_t bytes, blocks, calls; /* written by the owner only */
    bool registered;
    struct thread_cache *next; /* under `lock` */
} thread_cache;

static _Thread_local thread_cache mine;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block_list shared[CLASSES];                     /* under `lock` */
static thread_cache *caches;                           /* under `lock` */
static int64_t ended_bytes, ended_blocks, ended_calls; /* counted by threads that have ended; under `lock` */

static _Atomic int64_t large_bytes, large_peak, cached_bytes;
static _Atomic size_t limit = BIGGEST; /* bytes of one block; from start() on at most the machine's memory */
static size_t machine = BIGGEST;       /* total memory of the machine */
static _Atomic size_t total = BIGGEST; /* bytes of all large blocks; from start() on at most the machine's memory */
static _Atomic int64_t fail_countdown; /* test hook: 0 off, 1 the next call fails */

static pthread_key_t exit_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool caching = CACHING;

/* ---- guards --------------------------------------------------------------------------------------------- */
/* Checked builds write a word after every block, derived from its size, and check it when the block is freed; new and
 * freed memory is filled with unlikely bytes. */

#if MX_CHECKED
#define GUARD_BYTES sizeof(uint64_t)
#define MOST_FILLED ((size_t)1 << 16) /* bytes of a block that are filled */

static void fill(void *memory, int with, size_t bytes)
{
    memset(memory, with, bytes < MOST_FILLED ? bytes : MOST_FILLED);
}

static void set_guard(void *memory, size_t bytes)
{
    const uint64_t guard = 0x6d78677561726421u ^ bytes;
    fill(memory, 0xcb, bytes);
    memcpy((char *)memory + bytes, &guard, sizeof guard);
}

static void check_guard(void *memory, size_t bytes)
{
    uint64_t guard;
    memcpy(&guard, (char *)memory + bytes, sizeof guard);
    MX_ASSERT(guard == (0x6d78677561726421u ^ bytes),
              "a block of %zu bytes was written past its end, or has another size", bytes);
    fill(memory, 0xdb, bytes);
}
#else
#define GUARD_BYTES 0
static void set_guard(void *memory, size_t bytes) { (void)memory, (void)bytes; }
static void check_guard(void *memory, size_t bytes) { (void)memory, (void)bytes; }
#endif

static int class_of(size_t bytes)
{
    if (bytes <= 64)
        return 0;
    int power = 63 - __builtin_clzll(bytes - 1);       /* 2^power < bytes <= 2^(power + 1) */
    size_t quarter = ((bytes - 1) >> (power - 2)) & 3; /* which quarter of that interval */
    return (power - 6) * 4 + (int)quarter + 1;
}

static size_t class_bytes(int class)
{
    if (class == 0)
        return 64;
    int power = (class - 1) / 4 + 6, quarter = (class - 1) % 4;
    size_t bytes = ((size_t)1 << power) + (((size_t)quarter + 1) << (power - 2));
    return (bytes + MX_ALIGN - 1) & ~(size_t)(MX_ALIGN - 1);
}

static inline void *pop(block_list *list)
{
    block *b = list->head;
    if (b) {
        list->head = b->next;
        list->length--;
    }
    return b;
}

static inline void put(block_list *list, void *memory)
{
    block *b = memory;
    b->next = list->head;
    list->head = b;
    list->length++;
}

static inline void add(_Atomic int64_t *counter, int64_t n) /* the owner's counter: no locked instruction */
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

/* ---- threads start and end ------------------------------------------------------------------------------ */

static void spill(thread_cache *from, int class, size_t keep)
{
    size_t moved = from->lists[class].length - keep;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < moved; i++)
        put(&shared[class], pop(&from->lists[class]));
    pthread_mutex_unlock(&lock);
    atomic_fetch_add_explicit(&cached_bytes, (int64_t)(moved * class_bytes(class)), memory_order_relaxed);
}

static void thread_exit(void *cache)
{
    thread_cache *self = cache;
    for (int c = 0; c < SMALL_CLASSES; c++)
        if (self->lists[c].length)
            spill(self, c, 0);
    pthread_mutex_lock(&lock);
    thread_cache **link = &caches;
    while (*link && *link != self)
        link = &(*link)->next;
    if (*link)
        *link = self->next;
    ended_bytes += self->bytes, ended_blocks += self->blocks, ended_calls += self->calls;
    self->bytes = self->blocks = self->calls = 0;
    self->registered = false;
    pthread_mutex_unlock(&lock);
}

static void lock_for_fork(void) { pthread_mutex_lock(&lock); }
static void unlock_after_fork(void) { pthread_mutex_unlock(&lock); }
static void unlock_in_child(void)
{
    mine.next = NULL; /* the child has no other threads */
    caches = mine.registered ? &mine : NULL;
    pthread_mutex_unlock(&lock);
}

/* The largest possible block.  Systems that overcommit would otherwise kill the process when the memory is used. */
static size_t machine_memory(void)
{
    unsigned long long bytes = BIGGEST, group;
#ifdef __linux__
    struct sysinfo info;
    if (!sysinfo(&info))
        bytes = ((unsigned long long)info.totalram + info.totalswap) * info.mem_unit;
#endif
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "r"); /* of the container; "max": no limit */
    if (file && fscanf(file, "%llu", &group) == 1 && group < bytes)
        bytes = group;
    if (file)
        fclose(file);
    return bytes && bytes < BIGGEST ? (size_t)bytes : BIGGEST;
}

static void start(void)
{
    size_t none = BIGGEST;
    machine = machine_memory();
    atomic_compare_exchange_strong(&limit, &none, machine); /* keeps a limit that a test has set */
    mx_alloc_set_total((size_t)(mx_flags_get()->limit_memory_mb > 0 ? mx_flags_get()->limit_memory_mb : 0) << 20);
    pthread_key_create(&exit_key, thread_exit);
    pthread_atfork(lock_for_fork, unlock_after_fork, unlock_in_child);
    caching = CACHING && mx_flags_get()->alloc_cache != 0;
}

static void register_thread(void)
{
    pthread_once(&once, start);
    pthread_setspecific(exit_key, &mine);
    pthread_mutex_lock(&lock);
    mine.next = caches;
    caches = &mine;
    mine.registered = true;
    pthread_mutex_unlock(&lock);
}

/* ---- blocks --------------------------------------------------------------------------------------------- */

static void *take_shared(int class)
{
    if (!atomic_load_explicit(&cached_bytes, memory_order_relaxed))
        return NULL;
    pthread_mutex_lock(&lock);
    void *memory = pop(&shared[class]);
    pthread_mutex_unlock(&lock);
    return memory;
}

/* Large blocks ask for huge pages: kernels that stream through memory otherwise spend half their time on page walks. */
static void *system_block(size_t bytes)
{
    const bool huge = bytes >= HUGE_LIMIT && bytes % HUGE_PAGE == 0;
    void *memory = aligned_alloc(huge ? HUGE_PAGE : MX_ALIGN, bytes);
#ifdef MADV_HUGEPAGE
    if (memory && huge)
        madvise(memory, bytes, MADV_HUGEPAGE); /* only a hint: failure is harmless */
#endif
    return memory;
}

static void *from_system(size_t bytes)
{
    void *memory = system_block(bytes);
    if (!memory) {
        mx_alloc_release_cache();
        memory = system_block(bytes);
    }
    return memory;
}

/* Whether blocks in use, cached ones and a new one would take more than half of the machine's memory: then the cache is
 * of sizes that are not asked for again, such as those of networks that are gone. */
static bool is_crowded(size_t bytes)
{
    return (size_t)atomic_load_explicit(&large_bytes, memory_order_relaxed) +
               (size_t)atomic_load_explicit(&cached_bytes, memory_order_relaxed) + bytes >
           machine / 2;
}

static void count_large(int64_t bytes)
{
    int64_t now = atomic_fetch_add_explicit(&large_bytes, bytes, memory_order_relaxed) + bytes;
    int64_t peak = atomic_load_explicit(&large_peak, memory_order_relaxed);
    while (now > peak && !atomic_compare_exchange_weak(&large_peak, &peak, now))
        ;
}

bool mx_alloc_fails(void)
{
    return atomic_load_explicit(&fail_countdown, memory_order_relaxed) > 0 && atomic_fetch_sub(&fail_countdown, 1) == 1;
}

static void *fail(size_t bytes)
{
    return mx_fail_null(MX_ERR_MEMORY, "out of memory: could not allocate %zu bytes", bytes);
}

void *mx_alloc(size_t bytes)
{
    if (!mine.registered)
        register_thread();
    if (bytes > atomic_load_explicit(&limit, memory_order_relaxed) || mx_alloc_fails())
        return fail(bytes);
    const size_t room = bytes + GUARD_BYTES;
    int class = class_of(room);
    bool small = room <= SMALL_LIMIT;
    if (!small && (size_t)atomic_load_explicit(&large_bytes, memory_order_relaxed) + bytes >
                      atomic_load_explicit(&total, memory_order_relaxed))
        return fail(bytes);
    void *memory = small ? pop(&mine.lists[class]) : NULL;
    if (!memory && (memory = take_shared(class)))
        atomic_fetch_sub_explicit(&cached_bytes, (int64_t)class_bytes(class), memory_order_relaxed);
    if (!memory && !small && is_crowded(bytes))
        mx_alloc_release_cache();
    if (!memory && !(memory = from_system(caching ? class_bytes(class) : (room + 63) / 64 * 64 + !room * 64)))
        return fail(bytes);
    add(&mine.bytes, (int64_t)bytes);
    add(&mine.blocks, 1);
    add(&mine.calls, 1);
    if (!small)
        count_large((int64_t)bytes);
    set_guard(memory, bytes);
    return memory;
}

void mx_free(void *memory, size_t bytes)
{
    if (!memory)
        return;
    if (!mine.registered)
        register_thread();
    const size_t room = bytes + GUARD_BYTES;
    int class = class_of(room);
    check_guard(memory, bytes);
    add(&mine.bytes, -(int64_t)bytes);
    add(&mine.blocks, -1);
    if (room > SMALL_LIMIT)
        atomic_fetch_sub_explicit(&large_bytes, (int64_t)bytes, memory_order_relaxed);
    if (!caching) {
        free(memory);
        return;
    }
    if (room <= SMALL_LIMIT) {
        put(&mine.lists[class], memory);
        size_t keep = THREAD_BYTES / class_bytes(class);
        if (mine.lists[class].length > 2 * keep)
            spill(&mine, class, keep);
        return;
    }
    pthread_mutex_lock(&lock);
    put(&shared[class], memory);
    pthread_mutex_unlock(&lock);
    atomic_fetch_add_explicit(&cached_bytes, (int64_t)class_bytes(class), memory_order_relaxed);
}

/* ---- conveniences --------------------------------------------------------------------------------------- */

void *mx_alloc_zero(size_t bytes)
{
    void *memory = mx_alloc(bytes);
    return memory ? memset(memory, 0, bytes) : NULL;
}

void *mx_realloc(void *memory, size_t old_bytes, size_t new_bytes)
{
    void *moved = mx_alloc(new_bytes);
    if (!moved)
        return NULL;
    if (memory)
        memcpy(moved, memory, old_bytes < new_bytes ? old_bytes : new_bytes);
    mx_free(memory, old_bytes);
    return moved;
}

char *mx_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = mx_alloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void mx_strfree(char *text)
{
    if (text)
        mx_free(text, strlen(text) + 1);
}

/* ---- small things beside the cache ------------------------------------------------------------------------ */

void *mx_alloc_packed(size_t bytes)
{
    if (!mine.registered)
        register_thread();
    const bool possible = bytes <= atomic_load_explicit(&limit, memory_order_relaxed) && !mx_alloc_fails();
    void *memory = possible ? malloc(bytes + GUARD_BYTES + !bytes) : NULL;
    if (!memory)
        return fail(bytes);
    add(&mine.bytes, (int64_t)bytes);
    add(&mine.blocks, 1);
    add(&mine.calls, 1);
    set_guard(memory, bytes);
    return memory;
}

void mx_free_packed(void *memory, size_t bytes)
{
    if (!memory)
        return;
    if (!mine.registered)
        register_thread();
    check_guard(memory, bytes);
    add(&mine.bytes, -(int64_t)bytes);
    add(&mine.blocks, -1);
    free(memory);
}

char *mx_strdup_packed(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = mx_alloc_packed(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

void mx_strfree_packed(char *text)
{
    if (text)
        mx_free_packed(text, strlen(text) + 1);
}

/* ---- the cache and its numbers ---------------------------------------------------------------------------- */

void mx_alloc_release_cache(void)
{
    for (int c = 0; c < CLASSES; c++) {
        if (c < SMALL_CLASSES && mine.lists[c].length)
            spill(&mine, c, 0);
        pthread_mutex_lock(&lock);
        block_list list = shared[c];
        shared[c] = (block_list){0};
        pthread_mutex_unlock(&lock);
        for (void *memory; (memory = pop(&list));)
            free(memory);
    }
    atomic_store(&cached_bytes, 0);
}

mx_alloc_stats mx_alloc_get_stats(void)
{
    pthread_mutex_lock(&lock);
    mx_alloc_stats s = {.live_bytes = ended_bytes, .live_blocks = ended_blocks, .calls = ended_calls};
    for (thread_cache *c = caches; c; c = c->next)
        s.live_bytes += c->bytes, s.live_blocks += c->blocks, s.calls += c->calls;
    pthread_mutex_unlock(&lock);
    s.cached_bytes = atomic_load(&cached_bytes);
    s.peak_bytes = atomic_load(&large_peak);
    return s;
}

void mx_alloc_set_limit(size_t bytes) { atomic_store(&limit, bytes && bytes < machine ? bytes : machine); }
int64_t mx_alloc_left(void)
{
    const int64_t left = (int64_t)atomic_load(&total) - atomic_load(&large_bytes);
    return left > 0 ? left : 0;
}
void mx_alloc_set_total(size_t bytes) { atomic_store(&total, bytes && bytes < machine ? bytes : machine); }
void mx_alloc_fail_at(int64_t n) { atomic_store(&fail_countdown, n); }

/* Cached blocks would look like leaks to a leak checker: free them at exit. */
__attribute__((destructor)) static void process_exit(void) { mx_alloc_release_cache(); }
