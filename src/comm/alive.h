/* Signs of life around the ring of processes: one whose machine or network is gone is noticed (see alive.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_COMM_ALIVE_H
#define MX_COMM_ALIVE_H

#include "comm/transport.h"

typedef struct mx_alive {
    int64_t sent;   /* when the last sign went out; nanoseconds */
    int64_t heard;  /* when the process before this one was last heard of; 0: it sends none, or has ended */
    int64_t looked; /* when mx_alive_turn() last ran */
} mx_alive;

int mx_alive_watched(const mx_transport *transport); /* the rank that this process listens to */
void mx_alive_hear(mx_alive *self, const mx_transport *transport, const mx_notice *notice, int64_t now);
/* Sends a sign if it is time.  Seconds for which the watched process has been silent; 0: not for too long. */
int64_t mx_alive_turn(mx_alive *self, const mx_transport *transport, int64_t now);

#endif
