/* The engine: one thread that makes all calls of the transport.
 *
 *     caller:  begin: append to the list      wait: sleep until it is done
 *     thread:  start what is new, in order -> test what runs -> hear what other processes have to say -> again
 *
 * So exchanges go on while the caller computes, and a process that fails or ends is noticed by those that wait for it.
 * A thread that waits does the same work, under the lock, if the transport allows it: short exchanges then need no hand-over.
 * If only the calling thread may use the transport (MPI initialised by someone else without threads), it does all of it.
 *
 * Invariant: works of one channel are started in the order of begin(); numbers count them, so a process that ends can
 * say how many it took part in, and the others know which of theirs will never be done.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* on_exit */
#include "comm/engine.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/launched.h"
#include "comm/alive.h"
#include "comm/check.h"

#define EAGER_NANOSECONDS 2000000 /* an exchange that takes longer is looked at less often */
#define LAST_LOOKS 100             /* at works that are under way when a process has failed */
#define SPIN_ROUNDS 50            /* looks at a short exchange before others may run: about as long as a switch to them */
#define REST_NANOSECONDS 50000    /* pause between two looks at it */
#define IDLE_NANOSECONDS 100000000
#define GRACE_SECONDS 2 /* that the others have to end by themselves when this process fails */
/* A launcher that has to tell a lost machine about the end waits for it; given time, it notices the loss (cli/run.c). */
#define LOST_SECONDS 6

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    const mx_transport *transport;    /* NULL: not opened */
    mx_work *first, **last;           /* works that are not done, in the order of begin() */
    int64_t begun[MX_COMM_CHANNELS];  /* number of works, per channel */
    mx_work beside[MX_COMM_CHANNELS]; /* the last exchange that devices make; number 0: none */
    void (*on_fault)(void);
    mx_notice *heard; /* (size) the last notice of every process; kind 0: none */
    mx_alive alive;   /* signs of life */
    bool lost;        /* the fault is a process that is silent */
    int fault;        /* rank + 1 of a process that failed; 0: none */
    char fault_text[1200];
    int channels; /* that were handed out */
    pid_t owner;  /* the process that opened the transport: not one forked from it */
    enum { CLOSED, OPEN, ENDING, ENDED } state;
    bool threaded;
    pthread_t thread;
    mx_code open_code;
    char open_text[1500];
} engine = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .last = &engine.first};

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void rest(int64_t nanoseconds) { nanosleep(&(struct timespec){0, nanoseconds}, NULL); }

/* ---- works; the lock is held -------------------------------------------------------------------------------------- */

static void finish(mx_work *work, mx_code code, const char *message)
{
    work->code = code;
    work->ended = 1e-3 * (double)now();
    snprintf(work->message, sizeof work->message, "%s", message);
    mx_comm_check_free(work);
    work->stage = MX_WORK_DONE;
    for (mx_work **at = &engine.first; *at; at = &(*at)->next)
        if (*at == work) {
            *at = work->next;
            if (engine.last == &work->next)
                engine.last = at;
            break;
        }
    pthread_cond_broadcast(&engine.changed);
}

/* Takes the error of the thread. */
static void finish_failed(mx_work *work)
{
    const mx_code code = mx_error_code();
    finish(work, code ? code : MX_ERR_COMM, mx_error_message());
    mx_error_clear();
}

static void start(mx_work *work)
{
    const mx_transport *t = engine.transport;
    work->stage = MX_WORK_RUNS;
    if (work->what.beside) {
        engine.beside[work->what.channel].what = work->what;
        engine.beside[work->what.channel].number = work->number;
        finish(work, MX_OK, "");
    } else if (t->start(&work->what, &work->request))
        finish_failed(work);
    else if (!work->request)
        finish(work, MX_OK, "");
}

/* A new work starts, or in checking mode asks first what the others are about to do. */
static void start_new(mx_work *work)
{
    if (engine.fault) {
        finish(work, MX_ERR_COMM, engine.fault_text);
        return;
    }
    if (!mx_flags_get()->comm_check || engine.transport->size == 1) {
        start(work);
        return;
    }
    if (engine.first != work) /* one at a time */
        return;
    work->stage = MX_WORK_COMPARES;
    if (mx_comm_check_start(work, engine.transport))
        finish_failed(work);
}

/* Its memory is not complete, or that of one before it on its channel, which `held` has a bit for. */
static bool must_wait(const mx_work *work, unsigned *held)
{
    const unsigned bit = 1u << work->what.channel;
    if (work->ready && !engine.fault && !work->ready(work->ready_user))
        *held |= bit;
    return *held & bit;
}

/* Looks at a running work; true: something happened. */
static bool look(mx_work *work, unsigned *held)
{
    if (work->stage == MX_WORK_QUEUED && must_wait(work, held))
        return false;
    if (work->stage == MX_WORK_QUEUED) {
        start_new(work);
        return work->stage != MX_WORK_QUEUED;
    }
    const int done = engine.transport->test(&work->request);
    if (!done)
        return false;
    if (done < 0 || (work->stage == MX_WORK_COMPARES && mx_comm_check_compare(work, engine.transport)))
        finish_failed(work);
    else if (work->stage == MX_WORK_COMPARES)
        start(work);
    else
        finish(work, MX_OK, "");
    return true;
}

/* ---- other processes ---------------------------------------------------------------------------------------------- */

static void set_fault(int rank, const char *format, ...) MX_PRINTF(2, 3);
static void set_fault(int rank, const char *format, ...)
{
    va_list arguments;
    if (engine.fault)
        return;
    engine.fault = rank + 1;
    va_start(arguments, format);
    vsnprintf(engine.fault_text, sizeof engine.fault_text, format, arguments);
    va_end(arguments);
    if (engine.on_fault)
        engine.on_fault();
}

/* A work that a process which has ended will never take part in. */
static void check_work(const mx_work *w)
{
    char text[256];
    for (int r = 0; w->number && !engine.fault && r < engine.transport->size; r++) {
        const mx_notice *n = &engine.heard[r];
        if (n->kind == MX_NOTICE_ENDS && n->done[w->what.channel] < w->number)
            set_fault(r, "rank %d has ended after %lld exchanges, but rank %d waits for it in exchange %lld: %s", r,
                      (long long)n->done[w->what.channel], engine.transport->rank, (long long)w->number,
                      mx_comm_describe(&w->what, text, sizeof text));
    }
}

static void check_ended(void)
{
    for (const mx_work *w = engine.first; w && !engine.fault; w = w->next)
        check_work(w);
    for (int c = 0; c < MX_COMM_CHANNELS; c++)
        check_work(&engine.beside[c]);
}

static void take_notice(const mx_notice *notice)
{
    if (notice->from < 0 || notice->from >= engine.transport->size)
        return;
    mx_alive_hear(&engine.alive, engine.transport, notice, now());
    if (notice->kind == MX_NOTICE_LIVES)
        return;
    engine.heard[notice->from] = *notice;
    if (notice->kind == MX_NOTICE_FAILED)
        set_fault(notice->from, "rank %d failed: %s", notice->from, notice->text);
    engine.lost |= notice->kind == MX_NOTICE_FAILED && notice->lost;
}

static void tell_all(mx_notice *notice);
static bool progress(void);

/* The process that this one watches is silent: its machine, or the way to it, is gone. */
static void check_alive(void)
{
    const int64_t seconds = engine.threaded ? mx_alive_turn(&engine.alive, engine.transport, now()) : 0;
    if (!seconds || engine.fault)
        return;
    mx_notice notice = {.kind = MX_NOTICE_FAILED, .lost = 1, .from = mx_alive_watched(engine.transport)};
    snprintf(notice.text, sizeof notice.text,
             "rank %d has not heard of it for %lld seconds; its machine or the network is down (GLUON_COMM_SILENCE "
             "sets how long to wait)",
             engine.transport->rank, (long long)seconds);
    fprintf(stderr, "gluon: rank %d failed: %s\n", notice.from, notice.text);
    set_fault(notice.from, "rank %d failed: %s", notice.from, notice.text);
    engine.lost = true;
    tell_all(&notice);
}

static void listen(void)
{
    mx_notice notice;
    while (engine.transport->hear(&notice))
        take_notice(&notice);
    check_alive();
    check_ended();
    /* A notice may overtake the last messages of an exchange that the failed process did take part in. */
    for (int i = 0; engine.fault && engine.first && i < LAST_LOOKS; i++)
        progress();
    while (engine.fault && engine.first)
        finish(engine.first, MX_ERR_COMM, engine.fault_text);
}

/* All but this process and the one that it is about. */
static void tell_all(mx_notice *notice)
{
    memcpy(notice->done, engine.begun, sizeof notice->done);
    for (int r = 0; r < engine.transport->size; r++)
        if (r != engine.transport->rank && r != notice->from)
            engine.transport->tell(r, notice);
}

static void tell_about_this(mx_notice_kind kind, const char *text)
{
    mx_notice notice = {.kind = kind, .from = engine.transport->rank};
    snprintf(notice.text, sizeof notice.text, "%s", text);
    tell_all(&notice);
}

/* ---- the thread --------------------------------------------------------------------------------------------------- */

/* One round; false: nothing changed. */
static bool progress(void)
{
    bool changed = false;
    unsigned held = 0;
    for (mx_work *work = engine.first, *next; work; work = next) {
        next = work->next;
        changed |= look(work, &held);
    }
    return changed;
}

static void wait_for_change(int64_t nanoseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += nanoseconds;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&engine.changed, &engine.lock, &until);
}

/* Lets go of the lock for a moment: the longer nothing has happened, the longer. */
static void pause_between(int64_t since)
{
    const bool eager = now() - since < EAGER_NANOSECONDS;
    pthread_mutex_unlock(&engine.lock);
    if (eager)
        sched_yield();
    else
        rest(REST_NANOSECONDS);
    pthread_mutex_lock(&engine.lock);
}

static bool all_have_ended(void)
{
    for (int r = 0; r < engine.transport->size; r++)
        if (r != engine.transport->rank && !engine.heard[r].kind)
            return false;
    return true;
}

/* Until all processes are about to end, or one has failed. */
static void leave_together(void)
{
    tell_about_this(MX_NOTICE_ENDS, "");
    while (!engine.fault && !all_have_ended()) {
        listen();
        pause_between(0);
    }
    if (!engine.fault)
        engine.transport->end();
}

static void run(void)
{
    int64_t since = now();
    int rounds = 0;
    while (engine.state == OPEN) {
        if (!engine.first) {
            wait_for_change(IDLE_NANOSECONDS);
            since = now();
            if (!engine.first)
                listen();
            continue;
        }
        if (progress())
            since = now();
        else if (++rounds % 64 == 0 || now() - since > EAGER_NANOSECONDS)
            listen();
        if (engine.first)
            pause_between(since);
    }
}

/* ---- opening ------------------------------------------------------------------------------------------------------ */

static void leave(int status, void *unused);
static void leave_cleanly(void) { leave(0, NULL); }

static void note_open_error(mx_code code, const char *message)
{
    engine.open_code = code;
    snprintf(engine.open_text, sizeof engine.open_text, "%s", message);
}

static mx_code open_transport(void)
{
    const char *why;
    const mx_mpi_library library = {MX_MPI_BORDER, mx_error_set, mx_version()};
    mx_mpi_open_fn open = mx_mpi_part(&why);
    if (!open) {
        note_open_error(MX_ERR_UNSUPPORTED, why);
        return MX_ERR_UNSUPPORTED;
    }
    const mx_transport *made = open(&library);
    const int started = mx_launched_get()->size;
    if (made && made->size != started) {
        char text[256];
        snprintf(text, sizeof text,
                 "the launcher started %d processes, but MPI counts %d: it belongs to another MPI than "
                 "libgluon_mpi.so",
                 started, made->size);
        note_open_error(MX_ERR_COMM, text);
        made->end();
        return MX_ERR_COMM;
    }
    engine.heard = made ? calloc((size_t)made->size, sizeof *engine.heard) : NULL;
    if (!engine.heard) {
        note_open_error(MX_ERR_COMM, made ? "out of memory" : mx_error_message());
        mx_error_clear();
        return MX_ERR_COMM;
    }
    engine.transport = made;
    engine.state = OPEN;
    pthread_cond_broadcast(&engine.changed);
    return MX_OK;
}

static void *thread_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&engine.lock);
    if (!open_transport()) {
        if (!engine.transport->threads) { /* the callers drive it */
            engine.threaded = false;
            pthread_cond_broadcast(&engine.changed);
            pthread_mutex_unlock(&engine.lock);
            return NULL;
        }
        run();
        if (engine.state == ENDING)
            leave_together();
        engine.state = ENDED;
    }
    pthread_cond_broadcast(&engine.changed);
    pthread_mutex_unlock(&engine.lock);
    return NULL;
}

/* MPI is initialised by the thread that uses it, so the lowest level of thread support is enough. */
static void open_engine(void)
{
    engine.owner = getpid();
    engine.threaded = true;
    if (pthread_create(&engine.thread, NULL, thread_main, NULL)) {
        note_open_error(MX_ERR_STATE, "a thread could not be started");
        return;
    }
    while (!engine.transport && !engine.open_code)
        pthread_cond_wait(&engine.changed, &engine.lock);
    if (!engine.transport)
        return;
#ifdef __GLIBC__
    on_exit(leave, NULL);
#else
    atexit(leave_cleanly);
#endif
}

static mx_code check_usable(void)
{
    if (engine.open_code)
        return mx_fail(engine.open_code, "several processes: %s", engine.open_text);
    if (engine.owner && engine.owner != getpid())
        return mx_fail(MX_ERR_STATE,
                       "several processes: this process was forked from one that exchanges messages; only "
                       "that one may");
    if (engine.state >= ENDING)
        return mx_fail(MX_ERR_STATE, "several processes: the communication has been shut down");
    return MX_OK;
}

const mx_transport *mx_engine_world(bool need_part)
{
    (void)leave_cleanly;
    const char *why;
    if (mx_launched_get()->size < 2) {
        if (need_part && !mx_mpi_part(&why))
            return mx_fail_null(MX_ERR_UNSUPPORTED, "several processes: %s", why);
        return &mx_alone;
    }
    pthread_mutex_lock(&engine.lock);
    if (engine.state == CLOSED && !engine.open_code)
        open_engine();
    const mx_code code = check_usable();
    pthread_mutex_unlock(&engine.lock);
    return code ? NULL : engine.transport;
}

/* ---- using -------------------------------------------------------------------------------------------------------- */

/* quietly: the caller is about to wait, and will do what the thread would. */
static mx_code begin(mx_work *work, bool quietly)
{
    const mx_transport *t = mx_engine_world(false);
    if (!t)
        return mx_error_code();
    work->stage = MX_WORK_QUEUED;
    work->begun = work->ended = 1e-3 * (double)now();
    work->next = NULL, work->request = NULL, work->heads = NULL, work->code = MX_OK;
    if (t == &mx_alone) {
        work->code = t->start(&work->what, &work->request);
        work->stage = MX_WORK_DONE;
        return work->code;
    }
    pthread_mutex_lock(&engine.lock);
    work->number = ++engine.begun[work->what.channel];
    *engine.last = work;
    engine.last = &work->next;
    if (!engine.threaded)
        progress();
    else if (!quietly || !t->anyone)
        pthread_cond_broadcast(&engine.changed);
    pthread_mutex_unlock(&engine.lock);
    return MX_OK;
}

mx_code mx_engine_begin(mx_work *work) { return begin(work, false); }
mx_code mx_engine_run(mx_work *work) { return begin(work, true) ? mx_error_code() : mx_engine_wait(work); }

bool mx_engine_done(const mx_work *work)
{
    pthread_mutex_lock(&engine.lock);
    if (!engine.threaded && engine.transport)
        progress();
    const bool done = work->stage == MX_WORK_DONE;
    pthread_mutex_unlock(&engine.lock);
    return done;
}

mx_code mx_engine_wait(mx_work *work)
{
    pthread_mutex_lock(&engine.lock);
    int64_t since = now();
    int rounds = 0;
    while (work->stage != MX_WORK_DONE) {
        if (engine.threaded && !engine.transport->anyone)
            pthread_cond_wait(&engine.changed, &engine.lock);
        else if (progress())
            since = now();
        else if (++rounds > SPIN_ROUNDS) {
            if (rounds % 64 == 0 || now() - since > EAGER_NANOSECONDS)
                listen();
            if (work->stage != MX_WORK_DONE)
                pause_between(since);
        }
    }
    pthread_mutex_unlock(&engine.lock);
    return work->code ? mx_fail(work->code, "%s", work->message) : MX_OK;
}

void mx_engine_on_fault(void (*function)(void))
{
    pthread_mutex_lock(&engine.lock);
    engine.on_fault = function;
    pthread_mutex_unlock(&engine.lock);
}

int mx_engine_channel(void)
{
    pthread_mutex_lock(&engine.lock);
    const int channel = 1 + engine.channels++ % (MX_COMM_CHANNELS - 1);
    pthread_mutex_unlock(&engine.lock);
    return channel;
}

/* ---- the end ------------------------------------------------------------------------------------------------------ */

static bool ours(void) { return engine.transport && engine.owner == getpid(); }

mx_code mx_engine_end(void)
{
    pthread_mutex_lock(&engine.lock);
    if (!ours() || engine.state != OPEN) {
        pthread_mutex_unlock(&engine.lock);
        return MX_OK;
    }
    engine.state = ENDING;
    if (engine.threaded) {
        pthread_cond_broadcast(&engine.changed);
        while (engine.state != ENDED)
            pthread_cond_wait(&engine.changed, &engine.lock);
    } else {
        leave_together();
        engine.state = ENDED;
    }
    const int fault = engine.fault;
    pthread_mutex_unlock(&engine.lock);
    pthread_join(engine.thread, NULL); /* it has nothing left to do */
    return fault ? mx_fail(MX_ERR_COMM, "%s", engine.fault_text) : MX_OK;
}

/* The others learn why.  Nothing happens if one of them, or this one, has failed before. */
static void announce(const char *message)
{
    pthread_mutex_lock(&engine.lock);
    if (!engine.fault) {
        const int rank = engine.transport->rank;
        fprintf(stderr, "gluon: rank %d failed: %s\n", rank, message);
        tell_about_this(MX_NOTICE_FAILED, message);
        set_fault(rank, "rank %d failed: %s", rank, message);
        pthread_cond_broadcast(&engine.changed);
    }
    pthread_mutex_unlock(&engine.lock);
}

static bool is_open(void)
{
    if (engine.owner != getpid()) /* a forked process: its copy of the lock may be held forever */
        return false;
    pthread_mutex_lock(&engine.lock);
    const bool open = ours() && engine.state == OPEN;
    pthread_mutex_unlock(&engine.lock);
    return open;
}

void mx_engine_fail(const char *message)
{
    if (is_open())
        announce(message && *message ? message : "no message was given");
}

/* Processes that do not end by themselves are ended; so is this one. */
static void abort_all(int status)
{
    fflush(NULL);
    pthread_mutex_lock(&engine.lock);
    const int64_t seconds = engine.lost ? LOST_SECONDS : GRACE_SECONDS;
    pthread_mutex_unlock(&engine.lock);
    for (int64_t until = now() + seconds * INT64_C(1000000000); now() < until;)
        rest(20 * 1000 * 1000); /* the thread goes on and delivers the notices */
    pthread_mutex_lock(&engine.lock);
    engine.transport->abort(status);
    pthread_mutex_unlock(&engine.lock);
}

static void leave(int status, void *unused)
{
    (void)unused;
    char text[1100];
    if (!is_open())
        return;
    if (status) {
        snprintf(text, sizeof text, "it exited with status %d%s%.900s", status, *mx_error_last() ? ": " : "",
                 mx_error_last());
        announce(text);
        abort_all(status);
    } else if (mx_engine_end()) {
        fprintf(stderr, "gluon: rank %d: %s\n", engine.transport->rank, mx_error_message());
        engine.transport->abort(1);
    }
}
