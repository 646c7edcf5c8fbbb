/* Lanes: a second queue of a device, beside the one that computes (ndarray/device.h), for what goes to other processes.
 *
 *     device   gradients | more gradients | more gradients | updates
 *                      begin \                           / end
 *     lane                    exchange | exchange | copies
 *
 * A lane may belong to a group: one lane of each process, which exchange elements by themselves (NCCL).  Without a group
 * it copies to and from pinned host memory, and the processes exchange that.
 *
 * Nothing here waits for the device, except open().  All calls but `reached` and `abort` come from one thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_LANE_H
#define MX_NDARRAY_LANE_H

#include "gluon/array.h"
#include "gluon/comm.h"

#define MX_LANE_GROUP 128 /* bytes that identify a group */

typedef struct mx_lane mx_lane;
typedef struct mx_lanes {
    /* An identifier for a new group, which one process makes and all get.  MX_DECLINED: this device has no groups. */
    mx_code (*name)(char group[MX_LANE_GROUP]);
    /* A lane of the context's device; group NULL: of none.  Otherwise all members call it.  NULL with an error. */
    mx_lane *(*open)(mx_context context, int rank, int size, const char *group);
    bool (*takes)(mx_dtype dtype);   /* whether a group can exchange such elements */
    mx_code (*begin)(mx_lane *lane); /* what follows in the lane waits for what the device has been given */
    mx_code (*end)(mx_lane *lane);   /* what the device is given from now on waits for the lane */
    /* Exchanges of a group, between memory of the device. */
    mx_code (*all_reduce)(mx_lane *lane, const void *from, void *to, int64_t count, mx_dtype dtype, mx_reduction how);
    mx_code (*broadcast)(mx_lane *lane, void *x, int64_t count, mx_dtype dtype, int root);
    mx_code (*all_gather)(mx_lane *lane, const void *from, void *to, int64_t count, mx_dtype dtype);
    mx_code (*reduce_scatter)(mx_lane *lane, const void *from, void *to, int64_t count, mx_dtype dtype,
                              mx_reduction how);
    /* Copies between the device and pinned host memory. */
    mx_code (*to_host)(mx_lane *lane, void *to, const void *from, size_t bytes);
    mx_code (*from_host)(mx_lane *lane, void *to, const void *from, size_t bytes);
    mx_code (*mark)(mx_lane *lane, int64_t *ticket); /* for what the lane has been given so far ... */
    bool (*reached)(mx_lane *lane, int64_t ticket);  /* ... whether that is done; any thread */
    void (*abort)(mx_lane *lane); /* another process is gone: exchanges that wait for it end; any thread */
    void (*close)(mx_lane *lane);
} mx_lanes;

/* cuda/load.c: those of GPUs; NULL: there are none. */
const mx_lanes *mx_gpu_lanes(void);

#endif
