/* What the files of the engine share (see engine.c); all of it is used with the lock held.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_COMM_ENGINE_STATE_H
#define MX_COMM_ENGINE_STATE_H

#include <pthread.h>
#include <sys/types.h>

#include "comm/alive.h"
#include "comm/engine.h"

typedef struct mx_engine_state {
    pthread_mutex_t lock;
    pthread_cond_t changed;               /* for callers: a work is done, or the state is another */
    pthread_cond_t wake;                  /* for the thread: there is something to do */
    const mx_transport *transport;        /* NULL: not opened */
    _Atomic(const mx_transport *) usable; /* the same while exchanges may begin, else NULL; read without the lock */
    mx_work *first, **last;               /* works that are not done, in the order of begin() */
    int64_t begun[MX_COMM_CHANNELS];      /* number of works, per channel */
    mx_work beside[MX_COMM_CHANNELS];     /* the last exchange that devices make; number 0: none */
    void (*on_fault)(void);
    mx_notice *heard; /* (size) the last notice of every process; kind 0: none */
    mx_alive alive;   /* signs of life */
    bool lost;        /* the fault is a process that is silent */
    int fault;        /* rank + 1 of a process that failed; 0: none */
    char fault_text[1200];
    int channels; /* that were handed out */
    pid_t owner;  /* the process that opened the transport: not one forked from it */
    enum { MX_ENGINE_CLOSED, MX_ENGINE_OPEN, MX_ENGINE_ENDING, MX_ENGINE_ENDED } state;
    bool threaded;
    pthread_t thread;
    mx_code open_code;
    char open_text[1500];
} mx_engine_state;
extern mx_engine_state mx_engine;

int64_t mx_engine_now(void); /* nanoseconds */
void mx_engine_rest(int64_t nanoseconds);

/* ---- works (engine.c) ---------------------------------------------------------------------------------------------- */
void mx_engine_finish(mx_work *work, mx_code code, const char *message);
bool mx_engine_progress(void);       /* one round; false: nothing changed */
void mx_engine_pause(int64_t since); /* lets go of the lock for a moment: the longer nothing has happened, the longer */
void mx_engine_loop(void);           /* what the thread does until the end begins */

/* ---- other processes (engine_notices.c) ---------------------------------------------------------------------------- */
void mx_engine_set_fault(int rank, const char *format, ...) MX_PRINTF(2, 3); /* the first one stays */
void mx_engine_listen(void);
void mx_engine_notify(mx_notice_kind kind, const char *text); /* all others, about this process */

#endif
