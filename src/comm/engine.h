/* The engine: runs exchanges in the background, in the order in which they were begun (see engine.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_COMM_ENGINE_H
#define MX_COMM_ENGINE_H

#include "comm/transport.h"

/* One exchange; memory of the caller, which stays until it is done.  The caller sets `what` and `ready`. */
typedef struct mx_work {
    mx_exchange what;
    struct mx_work *next; /* in the engine's list; guarded by its lock */
    void *request;        /* of the transport */
    int64_t number;       /* of exchanges on its channel, from 1 on */
    /* Whether its memory is complete: until then neither it nor what follows on its channel starts.  NULL: it is. */
    bool (*ready)(void *user);
    void *ready_user;
    struct mx_header *heads; /* checking mode: (size + 1) descriptions, the own one last; owned; NULL: none */
    enum { MX_WORK_QUEUED, MX_WORK_COMPARES, MX_WORK_RUNS, MX_WORK_DONE } stage; /* guarded by the lock */
    double begun, ended; /* microseconds of the monotonic clock; 0: the caller waits, nobody asks */
    mx_code code;
    char message[1500]; /* of the error */
} mx_work;

/* The transport of the processes that were started together; NULL with an error.  need_part: an error if the MPI part
 * is missing, even if this process is alone. */
const mx_transport *mx_engine_world(bool need_part);
mx_code mx_engine_begin(mx_work *work);
mx_code mx_engine_run(mx_work *work); /* begins it and waits */
bool mx_engine_done(const mx_work *work);
mx_code mx_engine_wait(mx_work *work);
int mx_engine_channel(void); /* a channel for a user of its own; all processes ask for theirs in the same order */
void mx_engine_fail(const char *message);
void mx_engine_on_fault(void (*function)(void)); /* called once when a process has failed; it must not use the engine */
mx_code mx_engine_end(void);

#endif
