/* The thread pool: one mailbox per worker.
 *
 *     caller:   take the pool | post RUN to workers 1..k | do part 0 | wait until `pending` is 0 | give it back
 *     worker i: wait for its mailbox | do part i | pending -= 1
 *
 * A waiting thread spins for some microseconds and then sleeps.  One region runs at a time; a caller that finds the
 * pool taken, or that is itself part of a region, does all its parts one after the other on its own thread.
 * The parts are the same either way, so results do not depend on which thread runs them.
 *
 * Invariant: everything in `pool` but the atomics is touched only by the holder of `pool.taken`, and by a worker
 * only between the RUN in its mailbox and its subtraction from `pending`.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "base/threads.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/interrupt.h"
#include "base/launched.h"

#define MAX_THREADS 256
#define SPIN_NANOSECONDS 50000 /* how long a waiting thread spins before it sleeps */
#define ROUNDS_PER_YIELD 32    /* how often a spinning thread yields */
#define ALIGNED_ITEMS 64       /* parts of cheap elements start at multiples of this: full vectors, full cache lines */
#define ALIGNED_GRAIN 1024     /* from this grain on items count as cheap elements */
#define MESSAGE_BYTES 1024

typedef enum { IDLE, RUN, STOP } command;

typedef struct worker {
    _Alignas(64) _Atomic int command; /* the mailbox: a command; the worker sets it back to IDLE */
    _Atomic bool asleep;              /* waits on `wake`: post() has to signal */
    pthread_mutex_t lock;             /* of the condition */
    pthread_cond_t wake;
    pthread_t thread;
    int part; /* 1.. */
} worker;

static struct {
    _Atomic bool taken;         /* a region runs, or the pool is being resized */
    _Atomic int wanted;         /* mx_num_threads(); 0: not determined yet */
    _Atomic int pending;        /* workers that have not finished their part */
    _Atomic bool caller_asleep; /* the caller waits on `done` */
    pthread_mutex_t lock;       /* of `done` and of the error */
    pthread_cond_t done;
    mx_part_fn body; /* the region */
    void *arg;
    int parts;
    _Atomic bool stopped; /* the parts should return early */
    int workers;          /* threads that run */
    bool stoppable;       /* the region's owner can be stopped */
    _Atomic int spins;    /* rounds of waiting before sleep; 0: not measured yet */
    bool closed;          /* the process ends: no new workers */
    int error_part;       /* part of the error below; 0: no worker failed */
    mx_code error;
    char message[MESSAGE_BYTES];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static worker workers[MAX_THREADS - 1];
static _Thread_local enum { OTHER, OWNER, WORKER } role; /* of this thread in the region that runs */

/* ---- how many ------------------------------------------------------------------------------------------- */

static int cpu_count(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)(online < MAX_THREADS ? online : MAX_THREADS) : 1;
}

/* The share of one of several processes on this machine.  A launcher may have bound this process to some CPUs, which
 * others may share; those of its parent are the ones to be divided. */
static int cpu_share(void)
{
    const int own = cpu_count(), sharing = mx_launched_get()->local_size;
    int all = own;
    if (sharing < 2)
        return own;
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(getppid(), sizeof set, &set) == 0 && CPU_COUNT(&set) > all)
        all = CPU_COUNT(&set);
#endif
    return all / sharing < own ? all / sharing : own;
}

static int clamp_threads(int64_t count) { return count < 1 ? 1 : count > MAX_THREADS ? MAX_THREADS : (int)count; }

int mx_num_threads(void)
{
    int wanted = atomic_load_explicit(&pool.wanted, memory_order_relaxed);
    if (wanted)
        return wanted;
    int64_t flag = mx_flags_get()->threads;
    int chosen = clamp_threads(flag > 0 ? flag : cpu_share());
    return atomic_compare_exchange_strong(&pool.wanted, &wanted, chosen) ? chosen : wanted;
}

/* ---- waiting -------------------------------------------------------------------------------------------- */

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Round `i` of spinning.  The thread we wait for may be queued on this CPU: yield now and then. */
static inline void spin(int i)
{
    pause_cpu();
    if (i % ROUNDS_PER_YIELD == ROUNDS_PER_YIELD - 1)
        sched_yield();
}

static int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A pause takes 5 to 150 cycles, depending on the processor: measured, the best of a few tries. */
static int measure_spins(void)
{
    enum { ROUNDS = 128 };
    int64_t best = 1000000000;
    for (int attempt = 0; attempt < 4; attempt++) {
        int64_t start = nanoseconds();
        for (int i = 0; i < ROUNDS; i++) {
            (void)atomic_load_explicit(&pool.pending, memory_order_acquire);
            spin(i);
        }
        int64_t took = nanoseconds() - start;
        best = took < best ? took : best;
    }
    return 1 + (int)((int64_t)SPIN_NANOSECONDS * ROUNDS / (best + 1));
}

/* With more threads than CPUs, spinning blocks other threads: sleep at once.  One thread waits for nobody, and measuring takes
 * long where other programs take over at every yield. */
static void choose_spins(void)
{
    const int threads = mx_num_threads();
    const bool spins = threads > 1 && threads <= cpu_count();
    atomic_store_explicit(&pool.spins, spins ? measure_spins() : 1, memory_order_relaxed);
}

static int await_command(worker *self)
{
    int spins = atomic_load_explicit(&pool.spins, memory_order_relaxed), posted;
    for (int i = 0; i < spins; i++) {
        if ((posted = atomic_load_explicit(&self->command, memory_order_acquire)) != IDLE)
            return posted;
        spin(i);
    }
    /* Sequentially consistent against post(): either we see its command or it sees us asleep. */
    pthread_mutex_lock(&self->lock);
    atomic_store(&self->asleep, true);
    while ((posted = atomic_load(&self->command)) == IDLE)
        pthread_cond_wait(&self->wake, &self->lock);
    atomic_store(&self->asleep, false);
    pthread_mutex_unlock(&self->lock);
    return posted;
}

static void post(worker *to, command what)
{
    atomic_store(&to->command, what);
    if (atomic_load(&to->asleep)) {
        pthread_mutex_lock(&to->lock);
        pthread_cond_signal(&to->wake);
        pthread_mutex_unlock(&to->lock);
    }
}

static void await_done(void)
{
    int spins = atomic_load_explicit(&pool.spins, memory_order_relaxed);
    for (int i = 0; i < spins; i++) {
        if (atomic_load_explicit(&pool.pending, memory_order_acquire) == 0)
            return;
        spin(i);
    }
    pthread_mutex_lock(&pool.lock);
    atomic_store(&pool.caller_asleep, true);
    while (atomic_load(&pool.pending))
        pthread_cond_wait(&pool.done, &pool.lock);
    atomic_store(&pool.caller_asleep, false);
    pthread_mutex_unlock(&pool.lock);
}

/* ---- workers -------------------------------------------------------------------------------------------- */

/* Saves a worker's error for the caller's thread; of several errors, that of the lowest part. */
static void hand_over_error(int part)
{
    pthread_mutex_lock(&pool.lock);
    if (!pool.error_part || part < pool.error_part) {
        pool.error_part = part;
        pool.error = mx_error_code();
        snprintf(pool.message, sizeof pool.message, "%s", mx_error_message());
    }
    pthread_mutex_unlock(&pool.lock);
    mx_error_clear();
}

static void finish_part(void)
{
    if (atomic_fetch_sub(&pool.pending, 1) == 1 && atomic_load(&pool.caller_asleep)) {
        pthread_mutex_lock(&pool.lock);
        pthread_cond_signal(&pool.done);
        pthread_mutex_unlock(&pool.lock);
    }
}

static void *work(void *argument)
{
    worker *self = argument;
    mx_thread.in_part = true;
    role = WORKER;
    while (await_command(self) == RUN) {
        atomic_store_explicit(&self->command, IDLE, memory_order_relaxed);
        pool.body(pool.arg, self->part, pool.parts);
        if (mx_has_error())
            hand_over_error(self->part);
        finish_part();
    }
    return NULL;
}

static bool start_worker(int index)
{
    worker *self = &workers[index];
    self->part = index + 1;
    atomic_store(&self->command, IDLE);
    atomic_store(&self->asleep, false);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->wake, NULL);
    return pthread_create(&self->thread, NULL, work, self) == 0;
}

static void stop_worker(int index)
{
    worker *self = &workers[index];
    post(self, STOP);
    pthread_join(self->thread, NULL);
    pthread_cond_destroy(&self->wake);
    pthread_mutex_destroy(&self->lock);
}

/* Starts workers until there are `count`, or as many as the system allows. Workers block all signals. */
static void start_workers(int count)
{
    if (pool.closed || pool.workers >= count)
        return;
    if (!atomic_load_explicit(&pool.spins, memory_order_relaxed))
        choose_spins();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.workers < count && start_worker(pool.workers))
        pool.workers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void stop_workers(int keep)
{
    while (pool.workers > keep)
        stop_worker(--pool.workers);
}

static bool take_pool(void) { return !atomic_exchange_explicit(&pool.taken, true, memory_order_acquire); }
static void give_pool_back(void) { atomic_store_explicit(&pool.taken, false, memory_order_release); }

void mx_set_num_threads(int count)
{
    if (count < 1) {
        mx_fail(MX_ERR_ARGUMENT, "mx_set_num_threads: count is %d, wanted 1 or more", count);
        return;
    }
    atomic_store(&pool.wanted, clamp_threads(count));
    choose_spins();
    if (!mx_thread.in_part && take_pool()) { /* otherwise the next region stops them */
        stop_workers(mx_num_threads() - 1);
        give_pool_back();
    }
}

/* ---- fork and exit -------------------------------------------------------------------------------------- */

/* The child has only the forking thread: its pool is empty, and all locks are free. */
static void forget_workers(void)
{
    static const pthread_mutex_t new_lock = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t new_condition = PTHREAD_COND_INITIALIZER;
    pool.lock = new_lock;
    pool.done = new_condition;
    pool.workers = 0;
    pool.error_part = 0;
    atomic_store(&pool.pending, 0);
    atomic_store(&pool.caller_asleep, false);
    atomic_store(&pool.taken, false);
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forget_workers); }

/* Joins the workers at exit or dlclose, unless the process ends in the middle of a region. */
__attribute__((destructor)) static void close_pool(void)
{
    if (mx_thread.in_part || !take_pool())
        return;
    pool.closed = true;
    stop_workers(0);
    give_pool_back();
}

/* ---- regions -------------------------------------------------------------------------------------------- */

static void run_serially(int parts, mx_part_fn body, void *arg)
{
    for (int part = 0; part < parts; part++)
        body(arg, part, parts);
}

/* The caller runs part 0 and the parts without a worker. */
static void run_region(int parts, mx_part_fn body, void *arg)
{
    stop_workers(mx_num_threads() - 1);
    start_workers(parts - 1);
    int helpers = pool.workers < parts - 1 ? pool.workers : parts - 1;
    pool.body = body;
    pool.arg = arg;
    pool.parts = parts;
    pool.error_part = 0;
    pool.stoppable = mx_stop_possible();
    /* After a stop in an earlier region of the same kernel this one works on numbers that were not written. */
    atomic_store_explicit(&pool.stopped, pool.stoppable && mx_stop_wanted(), memory_order_relaxed);
    atomic_store_explicit(&pool.pending, helpers, memory_order_relaxed);
    for (int i = 0; i < helpers; i++)
        post(&workers[i], RUN);
    mx_thread.in_part = true;
    role = OWNER;
    body(arg, 0, parts);
    for (int part = helpers + 1; part < parts; part++)
        body(arg, part, parts);
    mx_thread.in_part = false;
    role = OTHER;
    await_done();
    if (pool.error_part)
        mx_fail(pool.error, "%s", pool.message);
}

static void run_parts(int parts, mx_part_fn body, void *arg)
{
    if (parts > 1 && !mx_thread.in_part && take_pool()) {
        run_region(parts, body, arg);
        give_pool_back();
    } else {
        run_serially(parts, body, arg);
    }
}

void mx_region_stop(void)
{
    if (role == OWNER)
        atomic_store_explicit(&pool.stopped, true, memory_order_relaxed);
}

bool mx_region_stoppable(void) { return role == WORKER && pool.stoppable; }
bool mx_region_stopped(void) { return role == WORKER && atomic_load_explicit(&pool.stopped, memory_order_relaxed); }

void mx_parallel_parts(int wanted, mx_part_fn body, void *arg)
{
    int threads = mx_num_threads();
    run_parts(wanted < threads ? wanted : threads, body, arg);
}

typedef struct range {
    int64_t n, unit; /* items; boundaries are multiples of `unit` */
    int64_t piece;   /* items between two questions whether to stop; 0: none is asked */
    mx_range_fn body;
    void *arg;
} range;

/* Pieces are long enough that neither the question nor what a body prepares is felt. */
#define PIECES 32
#define GRAINS_OF_PIECE 4

static void run_pieces(const range *r, int64_t begin, int64_t end)
{
    const int64_t share = (end - begin) / PIECES / r->unit * r->unit, step = share > r->piece ? share : r->piece;
    if (!r->piece) {
        r->body(r->arg, begin, end);
        return;
    }
    for (int64_t at = begin; at < end && !mx_stop_wanted(); at += step)
        r->body(r->arg, at, end - at < step ? end : at + step);
}

static void run_range(void *arg, int part, int parts)
{
    const range *r = arg;
    int64_t units = r->n / r->unit, each = units / parts, extra = units % parts;
    int64_t begin = part * each + (part < extra ? part : extra), end = begin + each + (part < extra);
    run_pieces(r, begin * r->unit, part == parts - 1 ? r->n : end * r->unit);
}

static void run_all(int64_t n, int64_t grain, mx_range_fn body, void *arg, bool stoppable)
{
    if (n <= 0)
        return;
    int64_t unit = grain >= ALIGNED_GRAIN ? ALIGNED_ITEMS : 1;
    int64_t least = grain > unit ? grain / unit + (grain % unit != 0) : 1; /* units of a part */
    int64_t most = n / unit / least;
    range r = {n, unit, stoppable && mx_stop_possible() ? GRAINS_OF_PIECE * least * unit : 0, body, arg};
    if (most <= 1 || mx_num_threads() == 1)
        run_pieces(&r, 0, n);
    else
        mx_parallel_parts(most < MAX_THREADS ? (int)most : MAX_THREADS, run_range, &r);
}

void mx_parallel(int64_t n, int64_t grain, mx_range_fn body, void *arg) { run_all(n, grain, body, arg, true); }
void mx_parallel_all(int64_t n, int64_t grain, mx_range_fn body, void *arg) { run_all(n, grain, body, arg, false); }
