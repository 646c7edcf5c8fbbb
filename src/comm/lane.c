/* Ways between devices of different processes: a lane for each device and channel, opened at its first exchange.
 *
 *     every process: is NCCL here? --all--> rank 0: a name for the group --all--> join it --did all?--> a group
 *                                                             no, anywhere --> lanes that copy to pinned host memory
 *
 * NCCL is missing, or refuses (two processes share one GPU): then MPI carries what the lanes copy to the host.
 *
 * The engine counts these exchanges and compares them in checking mode, as it does its own.  If a process fails, it
 * aborts the lanes, since devices would wait for that process forever.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "comm/lane.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"

#define MOST_DEVICES 16

static struct route {
    mx_route route;
    bool known;
} routes[MOST_DEVICES][MX_COMM_CHANNELS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;                /* held while a lane is opened */
static _Atomic(mx_lane *) open_groups[MOST_DEVICES * MX_COMM_CHANNELS]; /* for abort_all(), which takes no lock */
static atomic_int n_groups;

static void abort_all(void)
{
    const int n = atomic_load(&n_groups);
    for (int i = 0; i < n; i++) {
        mx_lane *lane = atomic_exchange(&open_groups[i], NULL);
        if (lane)
            mx_gpu_lanes()->abort(lane);
    }
}

static mx_code all_agree(mx_comm *comm, bool mine, bool *all)
{
    int32_t agreed = mine;
    const mx_code code = mx_comm_reduce_memory(comm, &agreed, 1, MX_INT32, MX_MIN);
    *all = agreed;
    return code;
}

/* A lane of a group of all processes; NULL without an error: there can be none. */
static mx_lane *open_grouped(mx_comm *comm, const mx_lanes *lanes, mx_context context)
{
    char group[MX_LANE_GROUP] = {0};
    const mx_transport *t = comm->transport;
    bool usable = lanes->takes(MX_FLOAT32), all;
    if (all_agree(comm, usable, &all) || !all)
        return NULL;
    usable = t->rank || lanes->name(group) == MX_OK;
    if (!usable)
        mx_error_clear();
    if (mx_comm_broadcast_memory(comm, group, sizeof group, MX_UINT8, 0) || all_agree(comm, usable, &all) || !all)
        return NULL;
    mx_lane *lane = lanes->open(context, t->rank, t->size, group);
    if (!lane)
        mx_error_clear(); /* NCCL's reason: the host is the way then */
    if (!all_agree(comm, lane != NULL, &all) && all)
        return lane;
    if (lane)
        lanes->close(lane);
    return NULL;
}

static mx_code open_route(mx_comm *comm, mx_context context, struct route *r)
{
    const mx_lanes *lanes = mx_gpu_lanes();
    mx_engine_on_fault(abort_all);
    mx_lane *lane = open_grouped(comm, lanes, context);
    if (mx_has_error())
        return mx_error_code();
    r->route = (mx_route){lanes, lane ? lane : lanes->open(context, 0, 1, NULL), lane != NULL};
    if (lane)
        atomic_store(&open_groups[atomic_fetch_add(&n_groups, 1)], lane);
    r->known = r->route.lane != NULL;
    return r->known ? MX_OK : mx_error_code();
}

const mx_route *mx_comm_route(mx_comm *comm, mx_context context)
{
    if (mx_context_is_host(context) || mx_comm_alone(comm) || !mx_gpu_lanes() || context.id >= MOST_DEVICES)
        return NULL;
    struct route *r = &routes[context.id][mx_comm_channel(comm)];
    pthread_mutex_lock(&lock);
    const mx_code code = r->known ? MX_OK : open_route(comm, context, r);
    pthread_mutex_unlock(&lock);
    return code ? NULL : &r->route;
}

const mx_route *mx_comm_group_route(mx_comm *comm, mx_context context, mx_dtype dtype)
{
    const mx_route *route = mx_comm_route(comm, context);
    return route && route->grouped && route->lanes->takes(dtype) ? route : NULL;
}

mx_code mx_comm_announce(mx_comm *comm, mx_exchange what)
{
    mx_work work = {.what = what};
    work.what.channel = mx_comm_channel(comm);
    work.what.beside = true;
    return mx_engine_run(&work);
}
