/* Internals of communicators (see comm.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_COMM_COMM_H
#define MX_COMM_COMM_H

#include "comm/engine.h"
#include "ndarray/array.h"

struct mx_comm {
    mx_object object;
    const mx_transport *transport;
    int channel; /* -1: none yet; see mx_comm_channel() */
};

struct mx_comm_work {
    mx_object object;
    mx_work work;
    mx_array *x;                  /* retained until it is done */
    void *stage;                  /* its elements in host memory, if it is on a device; NULL: they are used in place */
    const struct mx_route *route; /* devices make the exchange; NULL: the engine does */
    int64_t ticket;               /* of the route's lane: when it is done */
    size_t bytes;                 /* of the stage */
    mx_reduction how;             /* MX_MEAN: the sum is divided at the end */
    bool waited;
};

extern const mx_kind mx_comm_kind, mx_comm_work_kind;

/* The world on a channel of its own: its exchanges need not be in order with those of others.  A new reference; NULL
 * with an error.  need_part: as for mx_engine_world(). */
mx_comm *mx_comm_new(bool need_part);
int mx_comm_channel(mx_comm *comm); /* chosen at the first exchange, which all processes make in the same order */
static inline bool mx_comm_alone(const mx_comm *comm) { return comm->transport->size == 1; }

/* Exchanges of host memory; they wait. */
mx_code mx_comm_reduce_memory(mx_comm *comm, void *x, int64_t count, mx_dtype dtype, mx_reduction how);
mx_code mx_comm_broadcast_memory(mx_comm *comm, void *x, int64_t count, mx_dtype dtype, int root);
/* counts: (size) elements of every process; NULL: all have `count`. */
mx_code mx_comm_gather_memory(mx_comm *comm, const void *from, void *to, int64_t count, const int64_t *counts,
                              mx_dtype dtype);
/* An error, on every process, if the texts differ; `what` names them in it. */
mx_code mx_comm_same_text(mx_comm *comm, const char *text, const char *what);

#endif
