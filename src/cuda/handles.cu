/* Handles of NVIDIA's libraries, one per device and stream, created when they are first needed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cublas_v2.h>
#include <cudnn.h>
#include <mutex>

#include "cuda/cuda.h"

#define WORKSPACE (32u << 20) /* bytes for cuBLAS, as recommended for Hopper */

static std::mutex lock;

/* The usual reason is a kernel that broke the device; then the device reports it. */
static void refused(const mx_cuda_device *d, const char *library, const char *why)
{
    const cudaError_t state = cudaStreamQuery(d->stream);
    mx_fail(MX_ERR_DEVICE, "gpu(%d): %s could not be started: %s%s%s", d->id, library, why,
            state == cudaSuccess || state == cudaErrorNotReady ? "" : "; ",
            state == cudaSuccess || state == cudaErrorNotReady ? "" : cudaGetErrorString(state));
}

/* We allocate the workspace, so that streams can be captured. */
cublasHandle_t mx_cuda_blas(mx_cuda_device *d)
{
    std::lock_guard<std::mutex> guard(lock);
    if (d->blas)
        return d->blas;
    cublasHandle_t handle;
    const cublasStatus_t status = cublasCreate(&handle);
    if (status != CUBLAS_STATUS_SUCCESS)
        return refused(d, "cuBLAS", cublasGetStatusString(status)), nullptr;
    void *workspace = mx_cuda_alloc(d, WORKSPACE);
    if (!workspace)
        return cublasDestroy(handle), nullptr;
    cublasSetStream(handle, d->stream);
    cublasSetWorkspace(handle, workspace, WORKSPACE);
    return d->blas = handle;
}

cudnnHandle_t mx_cuda_dnn(mx_cuda_device *d)
{
    std::lock_guard<std::mutex> guard(lock);
    if (d->dnn)
        return d->dnn;
    cudnnHandle_t handle;
    const cudnnStatus_t status = cudnnCreate(&handle);
    if (status != CUDNN_STATUS_SUCCESS)
        return refused(d, "cuDNN", cudnnGetErrorString(status)), nullptr;
    cudnnSetStream(handle, d->stream);
    return d->dnn = handle;
}
