/* The engine's beginning and end: the transport is opened by the thread that uses it, processes end together, and one that fails
 * sends its error to the others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* on_exit */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/launched.h"
#include "comm/engine_state.h"

#define GRACE_SECONDS 2 /* that the others have to end by themselves when this process fails */
/* A launcher that has to tell a lost machine about the end waits for it; given time, it notices the loss (cli/run.c). */
#define LOST_SECONDS 6

static bool all_have_ended(void)
{
    for (int r = 0; r < mx_engine.transport->size; r++)
        if (r != mx_engine.transport->rank && !mx_engine.heard[r].kind)
            return false;
    return true;
}

/* Until all processes are about to end, or one has failed. */
static void leave_together(void)
{
    mx_engine_notify(MX_NOTICE_ENDS, "");
    while (!mx_engine.fault && !all_have_ended()) {
        mx_engine_listen();
        mx_engine_pause(0);
    }
    if (!mx_engine.fault)
        mx_engine.transport->end();
}

/* ---- opening ------------------------------------------------------------------------------------------------------ */

static void leave(int status, void *unused);
static void leave_cleanly(void) { leave(0, NULL); }

static void note_open_error(mx_code code, const char *message)
{
    mx_engine.open_code = code;
    snprintf(mx_engine.open_text, sizeof mx_engine.open_text, "%s", message);
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
    mx_engine.heard = made ? calloc((size_t)made->size, sizeof *mx_engine.heard) : NULL;
    if (!mx_engine.heard) {
        note_open_error(MX_ERR_COMM, made ? "out of memory" : mx_error_message());
        mx_error_clear();
        return MX_ERR_COMM;
    }
    mx_engine.transport = made;
    mx_engine.state = MX_ENGINE_OPEN;
    atomic_store(&mx_engine.usable, made);
    pthread_cond_broadcast(&mx_engine.changed);
    return MX_OK;
}

static void *thread_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&mx_engine.lock);
    if (!open_transport()) {
        if (!mx_engine.transport->threads) { /* the callers drive it */
            mx_engine.threaded = false;
            pthread_cond_broadcast(&mx_engine.changed);
            pthread_mutex_unlock(&mx_engine.lock);
            return NULL;
        }
        mx_engine_loop();
        if (mx_engine.state == MX_ENGINE_ENDING)
            leave_together();
        mx_engine.state = MX_ENGINE_ENDED;
    }
    pthread_cond_broadcast(&mx_engine.changed);
    pthread_mutex_unlock(&mx_engine.lock);
    return NULL;
}

static void not_usable(void) { atomic_store(&mx_engine.usable, NULL); }

/* MPI is initialised by the thread that uses it, so the lowest level of thread support is enough. */
static void open_engine(void)
{
    mx_engine.owner = getpid();
    mx_engine.threaded = true;
    pthread_atfork(NULL, NULL, not_usable);
    if (pthread_create(&mx_engine.thread, NULL, thread_main, NULL)) {
        note_open_error(MX_ERR_STATE, "a thread could not be started");
        return;
    }
    while (!mx_engine.transport && !mx_engine.open_code)
        pthread_cond_wait(&mx_engine.changed, &mx_engine.lock);
    if (!mx_engine.transport)
        return;
#ifdef __GLIBC__
    on_exit(leave, NULL);
#else
    atexit(leave_cleanly);
#endif
}

static mx_code check_usable(void)
{
    if (mx_engine.open_code)
        return mx_fail(mx_engine.open_code, "several processes: %s", mx_engine.open_text);
    if (mx_engine.owner && mx_engine.owner != getpid())
        return mx_fail(MX_ERR_STATE,
                       "several processes: this process was forked from one that exchanges messages; only "
                       "that one may");
    if (mx_engine.state >= MX_ENGINE_ENDING)
        return mx_fail(MX_ERR_STATE, "several processes: the communication has been shut down");
    return MX_OK;
}

const mx_transport *mx_engine_world(bool need_part)
{
    (void)leave_cleanly;
    const char *why;
    const mx_transport *open = atomic_load(&mx_engine.usable);
    if (open)
        return open;
    if (mx_launched_get()->size < 2) {
        if (need_part && !mx_mpi_part(&why))
            return mx_fail_null(MX_ERR_UNSUPPORTED, "several processes: %s", why);
        return &mx_alone;
    }
    pthread_mutex_lock(&mx_engine.lock);
    if (mx_engine.state == MX_ENGINE_CLOSED && !mx_engine.open_code)
        open_engine();
    const mx_code code = check_usable();
    pthread_mutex_unlock(&mx_engine.lock);
    return code ? NULL : mx_engine.transport;
}

/* ---- the end ------------------------------------------------------------------------------------------------------ */

static bool ours(void) { return mx_engine.transport && mx_engine.owner == getpid(); }

mx_code mx_engine_end(void)
{
    pthread_mutex_lock(&mx_engine.lock);
    if (!ours() || mx_engine.state != MX_ENGINE_OPEN) {
        pthread_mutex_unlock(&mx_engine.lock);
        return MX_OK;
    }
    mx_engine.state = MX_ENGINE_ENDING;
    not_usable();
    if (mx_engine.threaded) {
        pthread_cond_signal(&mx_engine.wake);
        while (mx_engine.state != MX_ENGINE_ENDED)
            pthread_cond_wait(&mx_engine.changed, &mx_engine.lock);
    } else {
        leave_together();
        mx_engine.state = MX_ENGINE_ENDED;
    }
    const int fault = mx_engine.fault;
    pthread_mutex_unlock(&mx_engine.lock);
    pthread_join(mx_engine.thread, NULL); /* it has nothing left to do */
    return fault ? mx_fail(MX_ERR_COMM, "%s", mx_engine.fault_text) : MX_OK;
}

/* The others learn why.  Nothing happens if one of them, or this one, has failed before. */
static void announce(const char *message)
{
    pthread_mutex_lock(&mx_engine.lock);
    if (!mx_engine.fault) {
        const int rank = mx_engine.transport->rank;
        fprintf(stderr, "gluon: rank %d failed: %s\n", rank, message);
        mx_engine_notify(MX_NOTICE_FAILED, message);
        mx_engine_set_fault(rank, "rank %d failed: %s", rank, message);
        pthread_cond_signal(&mx_engine.wake);
    }
    pthread_mutex_unlock(&mx_engine.lock);
}

static bool is_open(void)
{
    if (mx_engine.owner != getpid()) /* a forked process: its copy of the lock may be held forever */
        return false;
    pthread_mutex_lock(&mx_engine.lock);
    const bool open = ours() && mx_engine.state == MX_ENGINE_OPEN;
    pthread_mutex_unlock(&mx_engine.lock);
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
    pthread_mutex_lock(&mx_engine.lock);
    const int64_t seconds = mx_engine.lost ? LOST_SECONDS : GRACE_SECONDS;
    pthread_mutex_unlock(&mx_engine.lock);
    for (int64_t until = mx_engine_now() + seconds * INT64_C(1000000000); mx_engine_now() < until;)
        mx_engine_rest(20 * 1000 * 1000); /* the thread goes on and delivers the notices */
    pthread_mutex_lock(&mx_engine.lock);
    mx_engine.transport->abort(status);
    pthread_mutex_unlock(&mx_engine.lock);
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
        fprintf(stderr, "gluon: rank %d: %s\n", mx_engine.transport->rank, mx_error_message());
        mx_engine.transport->abort(1);
    }
}
