/* Sums over GPUs by NCCL.
 *
 * The library is opened at the first use, so nothing depends on it; without it the caller sums by copies between the
 * devices.  Each list of devices gets one group of communicators, which is cached.  All calls are queued on the compute
 * streams, so they are in order with earlier and later work, and the host does not wait.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/device.h"

/* What we use of nccl.h; these are parts of its binary interface. */
typedef struct ncclComm *communicator;
enum {
    NCCL_SUM = 0,
    NCCL_INT8 = 0,
    NCCL_UINT8 = 1,
    NCCL_INT32 = 2,
    NCCL_INT64 = 4,
    NCCL_FLOAT16 = 6,
    NCCL_FLOAT32 = 7,
    NCCL_FLOAT64 = 8,
    NCCL_BFLOAT16 = 9,
    NCCL_NONE = -1
};

struct nccl {
    int (*init_all)(communicator *made, int n, const int *devices);
    int (*all_reduce)(const void *from, void *to, size_t count, int type, int op, communicator c, cudaStream_t stream);
    int (*reduce)(const void *from, void *to, size_t count, int type, int op, int root, communicator c,
                  cudaStream_t stream);
    int (*group_start)(void);
    int (*group_end)(void);
    const char *(*text)(int status);
    bool usable;
};

static const nccl &library(void)
{
    static const nccl found = [] {
        nccl n = {};
        void *file = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
        const struct {
            const char *name;
            void **place;
        } symbols[] = {{"ncclCommInitAll", (void **)&n.init_all}, {"ncclAllReduce", (void **)&n.all_reduce},
                       {"ncclReduce", (void **)&n.reduce},        {"ncclGroupStart", (void **)&n.group_start},
                       {"ncclGroupEnd", (void **)&n.group_end},   {"ncclGetErrorString", (void **)&n.text}};
        n.usable = file != nullptr;
        for (const auto &s : symbols)
            n.usable = n.usable && (*s.place = dlsym(file, s.name));
        return n;
    }();
    return found;
}

static mx_code fail(int status)
{
    return status ? mx_fail(MX_ERR_DEVICE, "sum over GPUs: NCCL failed: %s", library().text(status)) : MX_OK;
}

static int type_of(mx_dtype dtype)
{
    switch (dtype) {
    case MX_FLOAT32: return NCCL_FLOAT32;
    case MX_FLOAT64: return NCCL_FLOAT64;
    case MX_FLOAT16: return NCCL_FLOAT16;
    case MX_BFLOAT16: return NCCL_BFLOAT16;
    case MX_INT8: return NCCL_INT8;
    case MX_UINT8: return NCCL_UINT8;
    case MX_INT32: return NCCL_INT32;
    case MX_INT64: return NCCL_INT64;
    default: return NCCL_NONE;
    }
}

static std::mutex lock; /* of the groups; held during a call, as the calls of a group must be queued together */
static std::map<std::vector<int>, std::vector<communicator>> &groups =
    *new std::map<std::vector<int>, std::vector<communicator>>;

/* NULL with an error. */
static std::vector<communicator> *group_of(const std::vector<int> &ids)
{
    const auto known = groups.find(ids);
    if (known != groups.end())
        return &known->second;
    std::vector<communicator> made(ids.size());
    if (fail(library().init_all(made.data(), (int)ids.size(), ids.data())))
        return nullptr;
    return &(groups[ids] = made);
}

static mx_code queue(int n, mx_cuda_device *const *devices, const std::vector<communicator> &group,
                     const void *const *from, void *const *to, int64_t count, int type)
{
    const nccl &l = library();
    const bool all = n < 2 || to[1];
    int status = l.group_start();
    for (int i = 0; i < n && !status; i++)
        status = all ? l.all_reduce(from[i], to[i], (size_t)count, type, NCCL_SUM, group[(size_t)i], devices[i]->stream)
                     : l.reduce(from[i], to[i], (size_t)count, type, NCCL_SUM, 0, group[(size_t)i], devices[i]->stream);
    const int ended = l.group_end();
    return fail(status ? status : ended);
}

mx_code mx_cuda_all_reduce(int n, const mx_context *contexts, const void *const *from, void *const *to, int64_t count,
                           mx_dtype dtype)
{
    mx_cuda_device *devices[MX_CUDA_MOST];
    std::vector<int> ids;
    const int type = type_of(dtype);
    if (n > MX_CUDA_MOST || type == NCCL_NONE || !library().usable)
        return MX_DECLINED;
    for (int i = 0; i < n; i++) {
        if (!(devices[i] = mx_cuda_of(contexts[i])))
            return mx_error_code();
        ids.push_back(contexts[i].id);
    }
    std::lock_guard<std::mutex> guard(lock);
    const std::vector<communicator> *group = group_of(ids);
    const mx_code code = group ? queue(n, devices, *group, from, to, count, type) : mx_error_code();
    cudaSetDevice(devices[n - 1]->id); /* as mx_cuda_of() left it */
    return code;
}
