/* cuDNN's graphs: descriptors, the engines that can run a graph, the choice among them.
 *
 *     graph --heuristics--> list of engines, the likeliest first --measured--> plan
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_DNN_H
#define MX_CUDA_DNN_H

#include <cudnn.h>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/cuda.h"

/* An error names the call's operator. */
mx_code mx_cuda_dnn_fail(const mx_kernel_call *call, cudnnStatus_t status);

namespace dnn
{
/* One descriptor of cuDNN's; the first failure stays in `status` and makes the rest do nothing. */
class part
{
  public:
    cudnnBackendDescriptor_t raw = nullptr;
    cudnnStatus_t status = CUDNN_STATUS_NOT_INITIALIZED;

    part() {}
    explicit part(cudnnBackendDescriptorType_t type) { status = cudnnBackendCreateDescriptor(type, &raw); }
    part(part &&other) : raw(other.raw), status(other.status) { other.raw = nullptr; }
    part &operator=(part &&other)
    {
        std::swap(raw, other.raw), std::swap(status, other.status);
        return *this;
    }
    ~part()
    {
        if (raw)
            cudnnBackendDestroyDescriptor(raw);
    }
    part &set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void *value)
    {
        if (!status)
            status = cudnnBackendSetAttribute(raw, name, type, count, value);
        return *this;
    }
    part &numbers(cudnnBackendAttributeName_t name, int64_t count, const int64_t *value)
    {
        return set(name, CUDNN_TYPE_INT64, count, value);
    }
    part &number(cudnnBackendAttributeName_t name, int64_t value) { return numbers(name, 1, &value); }
    part &yes(cudnnBackendAttributeName_t name)
    {
        const bool value = true;
        return set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
    }
    part &type(cudnnBackendAttributeName_t name, cudnnDataType_t value)
    {
        return set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
    }
    part &link(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t other)
    {
        return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other);
    }
    part &link(cudnnBackendAttributeName_t name, const part &other)
    {
        if (!status)
            status = other.status;
        return link(name, other.raw);
    }
    part &finish()
    {
        if (!status)
            status = cudnnBackendFinalize(raw);
        return *this;
    }
    int64_t get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t room, void *value) const
    {
        int64_t count = 0;
        return status || cudnnBackendGetAttribute(raw, name, type, room, &count, value) ? 0 : count;
    }
};

cudnnDataType_t data_type(int dtype);
part graph_of(cudnnHandle_t handle, const std::vector<cudnnBackendDescriptor_t> &operations);

/* The tensors that a graph reads and writes, by their numbers in it; a number that is given by value lies in host memory. */
struct tensors {
    std::vector<int64_t> ids;
    std::vector<const void *> data;
    void add(int64_t id, const void *x) { ids.push_back(id), data.push_back(x); }
};

/* A plan, and the engine's configuration, which lives as long. */
struct choice {
    part config, plan;
    size_t workspace = 0;
    bool measured = false;
};

/* What an engine must be like. */
struct wishes {
    unsigned never;        /* bits of numerical notes that it must not have */
    unsigned rather_not;   /* bits that it may have if no other engine works */
    size_t most_workspace; /* bytes */
    int candidates;        /* engines that are measured */
};

/* The fastest of the likeliest engines, or the first one that works where nothing can be measured (while launches are
 * captured); false: no engine does.  milliseconds: of a run, if it was measured. */
bool choose(choice *c, mx_cuda_device *d, const part &graph, const wishes &w, const tensors &t, float *milliseconds);

cudnnStatus_t execute(cudnnHandle_t handle, const choice &c, const tensors &t, void *workspace);

bool capturing(mx_cuda_device *d);

/* Milliseconds of a run; run() says whether it failed.  Negative: it does. */
float timed(mx_cuda_device *d, const std::function<bool()> &run);

/* A handle serves one thread at a time. */
std::mutex &lock();
} // namespace dnn

#endif
