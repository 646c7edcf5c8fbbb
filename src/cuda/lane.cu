/* Lanes of GPUs (ndarray/lane.h): a stream beside the one that computes, and a communicator of NCCL if it is in a group.
 *
 * While a plan is captured, begin() and end() connect the lane's stream with the stream that is captured, so exchanges
 * become part of the CUDA graph.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <atomic>
#include <cstring>
#include <mutex>

#include "cuda/entry.h"
#include "cuda/nccl.h"
extern "C" {
#include "ndarray/lane.h"
}

#define TICKETS 64 /* marks that can be asked for; an older one counts as the newest in its place */

struct mx_lane {
    mx_context context;
    cudaStream_t stream;
    cudaEvent_t computed, exchanged; /* where begin() and end() wait */
    cudaEvent_t marks[TICKETS];
    int64_t tickets;
    std::mutex lock;    /* of `group`: abort() comes from another thread */
    mx_nccl_comm group; /* NULL: none, or aborted */
};

static const char who[] = "exchange between processes";

static mx_code name(char group[MX_LANE_GROUP])
{
    static_assert(sizeof(mx_nccl_id) == MX_LANE_GROUP, "the identifier of a group");
    const mx_nccl &nccl = mx_nccl_library();
    return nccl.usable ? mx_nccl_fail(nccl.new_id((mx_nccl_id *)group), who) : MX_DECLINED;
}

static void close_lane(mx_lane *lane)
{
    for (cudaEvent_t mark : lane->marks)
        if (mark)
            cudaEventDestroy(mark);
    if (lane->computed)
        cudaEventDestroy(lane->computed);
    if (lane->exchanged)
        cudaEventDestroy(lane->exchanged);
    if (lane->group)
        mx_nccl_library().destroy(lane->group);
    if (lane->stream)
        cudaStreamDestroy(lane->stream);
    delete lane;
}

/* The highest priority: exchanges need few multiprocessors, and other processes wait for them. */
static cudaError_t make_stream(mx_lane *lane)
{
    int least = 0, greatest = 0;
    cudaError_t status = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (!status)
        status = cudaStreamCreateWithPriority(&lane->stream, cudaStreamNonBlocking, greatest);
    if (!status)
        status = cudaEventCreateWithFlags(&lane->computed, cudaEventDisableTiming);
    if (!status)
        status = cudaEventCreateWithFlags(&lane->exchanged, cudaEventDisableTiming);
    for (int i = 0; i < TICKETS && !status; i++)
        status = cudaEventCreateWithFlags(&lane->marks[i], cudaEventDisableTiming);
    return status;
}

static mx_code join(mx_lane *lane, int rank, int size, const char *group)
{
    const mx_nccl &nccl = mx_nccl_library();
    mx_nccl_id id;
    if (!nccl.usable)
        return mx_fail(MX_ERR_UNSUPPORTED, "%s: NCCL (libnccl.so.2) is not installed", who);
    memcpy(&id, group, sizeof id);
    return mx_nccl_fail(nccl.init_rank(&lane->group, size, id, rank), who);
}

static mx_lane *open_lane(mx_context context, int rank, int size, const char *group)
{
    if (!mx_cuda_of(context))
        return nullptr;
    mx_lane *lane = new mx_lane{};
    lane->context = context;
    if (!mx_cuda_fail(make_stream(lane), who) && (!group || !join(lane, rank, size, group)))
        return lane;
    close_lane(lane);
    return nullptr;
}

static bool takes(mx_dtype dtype) { return mx_nccl_library().usable && mx_nccl_type(dtype) != MX_NCCL_NONE; }

static mx_code begin(mx_lane *lane)
{
    const mx_cuda_device *d = mx_cuda_of(lane->context);
    if (!d)
        return mx_error_code();
    const cudaError_t status = cudaEventRecord(lane->computed, d->stream);
    return mx_cuda_fail(status ? status : cudaStreamWaitEvent(lane->stream, lane->computed), who);
}

static mx_code end(mx_lane *lane)
{
    const mx_cuda_device *d = mx_cuda_of(lane->context);
    if (!d)
        return mx_error_code();
    const cudaError_t status = cudaEventRecord(lane->exchanged, lane->stream);
    return mx_cuda_fail(status ? status : cudaStreamWaitEvent(d->stream, lane->exchanged), who);
}

/* ---- exchanges --------------------------------------------------------------------------------------------------- */

/* Calls NCCL unless the group was aborted. */
template <class F> static mx_code with_group(mx_lane *lane, F call)
{
    if (!mx_cuda_of(lane->context)) /* NCCL wants the thread's device to be its own */
        return mx_error_code();
    lane->lock.lock();
    mx_nccl_comm group = lane->group;
    lane->lock.unlock();
    return group ? mx_nccl_fail(call(mx_nccl_library(), group), who)
                 : mx_fail(MX_ERR_COMM, "%s: another process has failed", who);
}

static int op_of(mx_reduction how)
{
    static const int ops[] = {MX_NCCL_SUM, MX_NCCL_MEAN, MX_NCCL_MIN, MX_NCCL_MAX, MX_NCCL_PRODUCT};
    return ops[how];
}

static mx_code all_reduce(mx_lane *lane, const void *from, void *to, int64_t count, mx_dtype dtype, mx_reduction how)
{
    return with_group(lane, [=](const mx_nccl &nccl, mx_nccl_comm group) {
        return nccl.all_reduce(from, to, (size_t)count, mx_nccl_type(dtype), op_of(how), group, lane->stream);
    });
}

static mx_code broadcast(mx_lane *lane, void *x, int64_t count, mx_dtype dtype, int root)
{
    return with_group(lane, [=](const mx_nccl &nccl, mx_nccl_comm group) {
        return nccl.broadcast(x, x, (size_t)count, mx_nccl_type(dtype), root, group, lane->stream);
    });
}

static mx_code all_gather(mx_lane *lane, const void *from, void *to, int64_t count, mx_dtype dtype)
{
    return with_group(lane, [=](const mx_nccl &nccl, mx_nccl_comm group) {
        return nccl.all_gather(from, to, (size_t)count, mx_nccl_type(dtype), group, lane->stream);
    });
}

static mx_code reduce_scatter(mx_lane *lane, const void *from, void *to, int64_t count, mx_dtype dtype,
                              mx_reduction how)
{
    return with_group(lane, [=](const mx_nccl &nccl, mx_nccl_comm group) {
        return nccl.reduce_scatter(from, to, (size_t)count, mx_nccl_type(dtype), op_of(how), group, lane->stream);
    });
}

static void give_up(mx_lane *lane)
{
    const std::lock_guard<std::mutex> guard(lane->lock);
    mx_nccl_comm group = lane->group;
    lane->group = nullptr;
    if (group)
        mx_nccl_library().abort(group);
}

/* ---- copies ------------------------------------------------------------------------------------------------------ */

static mx_code to_host(mx_lane *lane, void *to, const void *from, size_t bytes)
{
    return mx_cuda_fail(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, lane->stream), who);
}

static mx_code from_host(mx_lane *lane, void *to, const void *from, size_t bytes)
{
    return mx_cuda_fail(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, lane->stream), who);
}

static mx_code mark(mx_lane *lane, int64_t *ticket)
{
    *ticket = ++lane->tickets;
    return mx_cuda_fail(cudaEventRecord(lane->marks[*ticket % TICKETS], lane->stream), who);
}

/* An error counts as reached: who uses the device next gets it. */
static bool reached(mx_lane *lane, int64_t ticket)
{
    return cudaEventQuery(lane->marks[ticket % TICKETS]) != cudaErrorNotReady;
}

static const mx_lanes table = {MX_CUDA_ENTRY(name),       MX_CUDA_ENTRY(open_lane),       MX_CUDA_ENTRY(takes),
                               MX_CUDA_ENTRY(begin),      MX_CUDA_ENTRY(end),        MX_CUDA_ENTRY(all_reduce),
                               MX_CUDA_ENTRY(broadcast),  MX_CUDA_ENTRY(all_gather), MX_CUDA_ENTRY(reduce_scatter),
                               MX_CUDA_ENTRY(to_host),    MX_CUDA_ENTRY(from_host),  MX_CUDA_ENTRY(mark),
                               MX_CUDA_ENTRY(reached),    MX_CUDA_ENTRY(give_up),      MX_CUDA_ENTRY(close_lane)};

extern "C" __attribute__((visibility("default"))) const mx_lanes *mx_cuda_lanes(void) { return &table; }
