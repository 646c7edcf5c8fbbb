/* The memory of a bucket and the way that it takes to the other processes (see wire.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_WIRE_H
#define MX_GLUON_WIRE_H

#include "comm/lane.h"

typedef struct mx_wire {
    mx_dtype dtype;        /* of what is sent */
    int64_t count;         /* elements */
    mx_array *host;        /* what MPI sends and receives; retained; NULL: devices exchange by themselves */
    mx_array *array;       /* on the device; retained; NULL: gradients are in host memory */
    const mx_route *route; /* of the device; NULL: none */
    int64_t ticket;        /* of the copy to the host */
    mx_work work;          /* if devices exchange it: only its times */
} mx_wire;

/* Whether gradients on this context travel through device memory; all processes ask for the first one together. */
mx_code mx_wire_open(mx_wire *self, mx_comm *comm, mx_context context, mx_dtype dtype, int64_t count);
void mx_wire_close(mx_wire *self);
mx_code mx_wire_pack(mx_wire *self, int64_t offset, mx_array *gradient); /* elements, to place `offset` */
mx_code mx_wire_pack_zeros(mx_wire *self, int64_t offset, int64_t count);
mx_code mx_wire_start(mx_wire *self, mx_comm *comm);    /* the sum over all processes */
mx_code mx_wire_announce(mx_wire *self, mx_comm *comm); /* the engine's part of start(), if devices exchange ... */
mx_code mx_wire_launch(mx_wire *self);                  /* ... and the devices', which can be captured */
mx_code mx_wire_wait(mx_wire *self);                    /* the sums can be unpacked; devices may still compute them */
mx_code mx_wire_unpack(mx_wire *self, int64_t offset, mx_array *gradient);
static inline bool mx_wire_grouped(const mx_wire *self) { return self->array && !self->host; }

#endif
