/* The engine: one thread that makes all calls of the transport.
 *
 *     caller:  begin: append to the list      wait: sleep until it is done
 *     thread:  start what is new, in order -> test what runs -> hear what other processes have to say -> again
 *
 * So exchanges go on while the caller computes, and a process that fails or ends is noticed by those that wait for it.
 * A thread that waits does the same work, under the lock, if the transport allows it: exchanges that block need no hand-over, and the
 * thread sleeps on.
 * If only the calling thread may use the transport (MPI initialised by someone else without threads), it does all of it.
 *
 * Invariant: works of one channel are started in the order of begin(); numbers count them, so a process that ends can
 * say how many it took part in, and the others know which of theirs will never be done.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "base/error.h"
#include "base/flags.h"
#include "comm/check.h"
#include "comm/engine_state.h"

#define EAGER_NANOSECONDS 2000000 /* an exchange that takes longer is looked at less often */
#define SPIN_ROUNDS 50            /* looks at a short exchange before others may run: about as long as a switch to them */
#define REST_NANOSECONDS 50000    /* pause between two looks at it */
#define IDLE_NANOSECONDS 100000000

mx_engine_state mx_engine = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .last = &mx_engine.first};

int64_t mx_engine_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void mx_engine_rest(int64_t nanoseconds) { nanosleep(&(struct timespec){0, nanoseconds}, NULL); }

/* ---- works; the lock is held -------------------------------------------------------------------------------------- */

void mx_engine_finish(mx_work *work, mx_code code, const char *message)
{
    work->code = code;
    if (work->begun)
        work->ended = 1e-3 * (double)mx_engine_now();
    if (code)
        snprintf(work->message, sizeof work->message, "%s", message);
    mx_comm_check_free(work);
    work->stage = MX_WORK_DONE;
    for (mx_work **at = &mx_engine.first; *at; at = &(*at)->next)
        if (*at == work) {
            *at = work->next;
            if (mx_engine.last == &work->next)
                mx_engine.last = at;
            break;
        }
    pthread_cond_broadcast(&mx_engine.changed);
}

/* Takes the error of the thread. */
static void finish_failed(mx_work *work)
{
    const mx_code code = mx_error_code();
    mx_engine_finish(work, code ? code : MX_ERR_COMM, mx_error_message());
    mx_error_clear();
}

static void start(mx_work *work)
{
    const mx_transport *t = mx_engine.transport;
    work->stage = MX_WORK_RUNS;
    if (work->what.beside) {
        mx_engine.beside[work->what.channel].what = work->what;
        mx_engine.beside[work->what.channel].number = work->number;
        mx_engine_finish(work, MX_OK, "");
    } else if (t->start(&work->what, &work->request))
        finish_failed(work);
    else if (!work->request)
        mx_engine_finish(work, MX_OK, "");
}

/* A new work starts, or in checking mode asks first what the others are about to do. */
static void start_new(mx_work *work)
{
    if (mx_engine.fault) {
        mx_engine_finish(work, MX_ERR_COMM, mx_engine.fault_text);
        return;
    }
    if (!mx_flags_get()->comm_check || mx_engine.transport->size == 1) {
        start(work);
        return;
    }
    if (mx_engine.first != work) /* one at a time */
        return;
    work->stage = MX_WORK_COMPARES;
    if (mx_comm_check_start(work, mx_engine.transport))
        finish_failed(work);
}

/* Its memory is not complete, or that of one before it on its channel, which `held` has a bit for. */
static bool must_wait(const mx_work *work, unsigned *held)
{
    const unsigned bit = 1u << work->what.channel;
    if (work->ready && !mx_engine.fault && !work->ready(work->ready_user))
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
    const int done = mx_engine.transport->test(&work->request);
    if (!done)
        return false;
    if (done < 0 || (work->stage == MX_WORK_COMPARES && mx_comm_check_compare(work, mx_engine.transport)))
        finish_failed(work);
    else if (work->stage == MX_WORK_COMPARES)
        start(work);
    else
        mx_engine_finish(work, MX_OK, "");
    return true;
}

/* ---- the thread --------------------------------------------------------------------------------------------------- */

/* One round; false: nothing changed. */
bool mx_engine_progress(void)
{
    bool changed = false;
    unsigned held = 0;
    for (mx_work *work = mx_engine.first, *next; work; work = next) {
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
    pthread_cond_timedwait(&mx_engine.wake, &mx_engine.lock, &until);
}

/* Lets go of the lock for a moment: the longer nothing has happened, the longer. */
void mx_engine_pause(int64_t since)
{
    const bool eager = mx_engine_now() - since < EAGER_NANOSECONDS;
    pthread_mutex_unlock(&mx_engine.lock);
    if (eager)
        sched_yield();
    else
        mx_engine_rest(REST_NANOSECONDS);
    pthread_mutex_lock(&mx_engine.lock);
}

void mx_engine_loop(void)
{
    int64_t since = mx_engine_now();
    int rounds = 0;
    while (mx_engine.state == MX_ENGINE_OPEN) {
        if (!mx_engine.first) {
            wait_for_change(IDLE_NANOSECONDS);
            since = mx_engine_now();
            if (!mx_engine.first)
                mx_engine_listen();
            continue;
        }
        if (mx_engine_progress())
            since = mx_engine_now();
        else if (++rounds % 64 == 0 || mx_engine_now() - since > EAGER_NANOSECONDS)
            mx_engine_listen();
        if (mx_engine.first)
            mx_engine_pause(since);
    }
}

/* ---- using -------------------------------------------------------------------------------------------------------- */

/* The transport, for a work that is about to begin; NULL with an error.  A process alone runs it here. */
static const mx_transport *prepare(mx_work *work)
{
    const mx_transport *t = mx_engine_world(false);
    work->stage = t == &mx_alone ? MX_WORK_DONE : MX_WORK_QUEUED;
    work->next = NULL, work->request = NULL, work->heads = NULL;
    work->begun = work->ended = 0, work->number = 0, work->message[0] = 0;
    work->code = t == &mx_alone ? t->start(&work->what, &work->request) : MX_OK;
    return t;
}

/* The lock is held. */
static void append(mx_work *work)
{
    work->number = ++mx_engine.begun[work->what.channel];
    *mx_engine.last = work;
    mx_engine.last = &work->next;
}

mx_code mx_engine_begin(mx_work *work)
{
    const mx_transport *t = prepare(work);
    work->begun = work->ended = 1e-3 * (double)mx_engine_now();
    if (!t || t == &mx_alone)
        return t ? work->code : mx_error_code();
    pthread_mutex_lock(&mx_engine.lock);
    append(work);
    if (!mx_engine.threaded)
        mx_engine_progress();
    else
        pthread_cond_signal(&mx_engine.wake);
    pthread_mutex_unlock(&mx_engine.lock);
    return MX_OK;
}

bool mx_engine_done(const mx_work *work)
{
    pthread_mutex_lock(&mx_engine.lock);
    if (!mx_engine.threaded && mx_engine.transport)
        mx_engine_progress();
    const bool done = work->stage == MX_WORK_DONE;
    pthread_mutex_unlock(&mx_engine.lock);
    return done;
}

/* The lock is held.  The caller does what the thread would, if it may. */
static void wait_for(const mx_work *work)
{
    int64_t since = 0; /* when nothing has happened any more */
    int rounds = 0;
    while (work->stage != MX_WORK_DONE) {
        if (mx_engine.threaded && !mx_engine.transport->anyone)
            pthread_cond_wait(&mx_engine.changed, &mx_engine.lock);
        else if (mx_engine_progress())
            since = 0;
        else if (++rounds > SPIN_ROUNDS) {
            since = since ? since : mx_engine_now();
            if (rounds % 64 == 0 || mx_engine_now() - since > EAGER_NANOSECONDS)
                mx_engine_listen();
            if (work->stage != MX_WORK_DONE)
                mx_engine_pause(since);
        }
    }
}

static mx_code result_of(const mx_work *work) { return work->code ? mx_fail(work->code, "%s", work->message) : MX_OK; }

mx_code mx_engine_wait(mx_work *work)
{
    pthread_mutex_lock(&mx_engine.lock);
    wait_for(work);
    pthread_mutex_unlock(&mx_engine.lock);
    return result_of(work);
}

mx_code mx_engine_run(mx_work *work)
{
    const mx_transport *t = prepare(work);
    if (!t || t == &mx_alone)
        return t ? work->code : mx_error_code();
    pthread_mutex_lock(&mx_engine.lock);
    append(work);
    if (!t->anyone)
        pthread_cond_signal(&mx_engine.wake);
    wait_for(work);
    pthread_mutex_unlock(&mx_engine.lock);
    return result_of(work);
}

void mx_engine_on_fault(void (*function)(void))
{
    pthread_mutex_lock(&mx_engine.lock);
    mx_engine.on_fault = function;
    pthread_mutex_unlock(&mx_engine.lock);
}

int mx_engine_channel(void)
{
    pthread_mutex_lock(&mx_engine.lock);
    const int channel = 1 + mx_engine.channels++ % (MX_COMM_CHANNELS - 1);
    pthread_mutex_unlock(&mx_engine.lock);
    return channel;
}
