/* Ways between devices of different processes (see lane.c).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_COMM_LANE_H
#define MX_COMM_LANE_H

#include "comm/comm.h"
#include "ndarray/lane.h"

typedef struct mx_route {
    const mx_lanes *lanes;
    mx_lane *lane; /* never closed */
    bool grouped;  /* the devices exchange by themselves; false: the lane copies to the host and back */
} mx_route;

/* The way of a communicator's exchanges from the device of this context.  At the first call for both, all processes call
 * it.  NULL without an error: through host memory, without a lane; NULL with an error. */
const mx_route *mx_comm_route(mx_comm *comm, mx_context context);
/* The same for an exchange of such elements that the devices make by themselves; NULL without an error: they do not. */
const mx_route *mx_comm_group_route(mx_comm *comm, mx_context context, mx_dtype dtype);
/* Says that this process takes part in an exchange that devices make; the error of a process that failed. */
mx_code mx_comm_announce(mx_comm *comm, mx_exchange what);

#endif
