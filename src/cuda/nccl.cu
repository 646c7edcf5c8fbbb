/* Sums over GPUs by NCCL.
 *
 * The library is opened at the first use, so nothing depends on it; without it the caller sums by copies between the
 * devices.  Each list of devices gets one group of communicators, which is cached.  All calls are queued on the compute
 * streams, so they are in order with earlier and later work, and the host does not wait.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/nccl.h"

enum {
    NCCL_INT8 = 0,
    NCCL_UINT8 = 1,
    NCCL_INT32 = 2,
    NCCL_INT64 = 4,
    NCCL_FLOAT16 = 6,
    NCCL_FLOAT32 = 7,
    NCCL_FLOAT64 = 8,
    NCCL_BFLOAT16 = 9
};

/* The system's, or that of PyPI's package: this file is in site-packages/mxnet, NCCL in site-packages/nvidia/nccl/lib. */
static void *open_library(void)
{
    static const char file[] = "libnccl.so.2";
    const char *named = mx_flags_get()->nccl_library;
    if (*named)
        return strcmp(named, "-") ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (void *found = dlopen(file, RTLD_NOW | RTLD_LOCAL))
        return found;
    Dl_info self;
    char path[4096];
    const char *slash = dladdr((void *)file, &self) && self.dli_fname ? strrchr(self.dli_fname, '/') : nullptr;
    const int length = slash ? (int)(slash - self.dli_fname) : -1;
    if (length < 0 ||
        (size_t)snprintf(path, sizeof path, "%.*s/../nvidia/nccl/lib/%s", length, self.dli_fname, file) >= sizeof path)
        return nullptr;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

const mx_nccl &mx_nccl_library(void)
{
    static const mx_nccl found = [] {
        mx_nccl n = {};
        void *file = open_library();
        const struct {
            const char *name;
            void **place;
        } symbols[] = {{"ncclCommInitAll", (void **)&n.init_all},   {"ncclGetUniqueId", (void **)&n.new_id},
                       {"ncclCommInitRank", (void **)&n.init_rank}, {"ncclAllReduce", (void **)&n.all_reduce},
                       {"ncclReduce", (void **)&n.reduce},          {"ncclBroadcast", (void **)&n.broadcast},
                       {"ncclAllGather", (void **)&n.all_gather},   {"ncclReduceScatter", (void **)&n.reduce_scatter},
                       {"ncclGroupStart", (void **)&n.group_start}, {"ncclGroupEnd", (void **)&n.group_end},
                       {"ncclCommAbort", (void **)&n.abort},        {"ncclCommDestroy", (void **)&n.destroy},
                       {"ncclGetErrorString", (void **)&n.text}};
        n.usable = file != nullptr;
        for (const auto &s : symbols)
            n.usable = n.usable && (*s.place = dlsym(file, s.name));
        return n;
    }();
    return found;
}

mx_code mx_nccl_fail(int status, const char *who)
{
    return status ? mx_fail(MX_ERR_DEVICE, "%s: NCCL failed: %s", who, mx_nccl_library().text(status)) : MX_OK;
}

static mx_code fail(int status) { return mx_nccl_fail(status, "sum over GPUs"); }

int mx_nccl_type(mx_dtype dtype)
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
    default: return MX_NCCL_NONE;
    }
}

static std::mutex lock; /* of the groups; held during a call, as the calls of a group must be queued together */
static std::map<std::vector<int>, std::vector<mx_nccl_comm>> &groups =
    *new std::map<std::vector<int>, std::vector<mx_nccl_comm>>;

/* NULL with an error. */
static std::vector<mx_nccl_comm> *group_of(const std::vector<int> &ids)
{
    const auto known = groups.find(ids);
    if (known != groups.end())
        return &known->second;
    std::vector<mx_nccl_comm> made(ids.size());
    if (fail(mx_nccl_library().init_all(made.data(), (int)ids.size(), ids.data())))
        return nullptr;
    return &(groups[ids] = made);
}

static mx_code queue(int n, mx_cuda_device *const *devices, const std::vector<mx_nccl_comm> &group,
                     const void *const *from, void *const *to, int64_t count, int type)
{
    const mx_nccl &l = mx_nccl_library();
    const bool all = n < 2 || to[1];
    int status = l.group_start();
    for (int i = 0; i < n && !status; i++)
        status =
            all ? l.all_reduce(from[i], to[i], (size_t)count, type, MX_NCCL_SUM, group[(size_t)i], devices[i]->stream)
                : l.reduce(from[i], to[i], (size_t)count, type, MX_NCCL_SUM, 0, group[(size_t)i], devices[i]->stream);
    const int ended = l.group_end();
    return fail(status ? status : ended);
}

mx_code mx_cuda_all_reduce(int n, const mx_context *contexts, const void *const *from, void *const *to, int64_t count,
                           mx_dtype dtype)
{
    mx_cuda_device *devices[MX_CUDA_MOST];
    std::vector<int> ids;
    const int type = mx_nccl_type(dtype);
    if (n > MX_CUDA_MOST || type == MX_NCCL_NONE || !mx_nccl_library().usable)
        return MX_DECLINED;
    for (int i = 0; i < n; i++) {
        if (!(devices[i] = mx_cuda_of(contexts[i])))
            return mx_error_code();
        ids.push_back(contexts[i].id);
    }
    std::lock_guard<std::mutex> guard(lock);
    const std::vector<mx_nccl_comm> *group = group_of(ids);
    const mx_code code = group ? queue(n, devices, *group, from, to, count, type) : mx_error_code();
    cudaSetDevice(devices[n - 1]->id); /* as mx_cuda_of() left it */
    return code;
}
