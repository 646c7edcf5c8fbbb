/* Kernels that are launched before those that they wait for have ended.
 *
 *     wait     A | B                     A kernel begins with mx_cuda_wait_for_earlier(): it lets the next one start its blocks,
 *     early    A .. B waits inside |     then waits until everything before it is done and visible.
 *
 * So the launch overlaps with the kernel before it, which saves much of the time of small kernels.  This holds for captured
 * launches only (cuda/capture_flow.cu); elsewhere the wait does nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_EARLY_H
#define MX_CUDA_EARLY_H

#include <utility>

#include "cuda/cuda.h"

/* Before this call a kernel must not read what others write, nor write anything. */
static __device__ inline void mx_cuda_wait_for_earlier()
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Writes the launch attribute of such a kernel; returns the number of attributes, 0 or 1. */
static inline unsigned mx_cuda_early(const mx_cuda_device *d, cudaLaunchAttribute *early)
{
    early->id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early->val.programmaticStreamSerializationAllowed = 1;
    return d->pool && d->code >= 90 ? 1 : 0;
}

/* Launches a kernel that begins with mx_cuda_wait_for_earlier(). */
template <class... P, class... A>
static cudaError_t mx_cuda_launch_early(const mx_cuda_device *d, void (*kernel)(P...), dim3 grid, int threads,
                                        A &&...arguments)
{
    cudaLaunchAttribute early;
    cudaLaunchConfig_t launch = {};
    launch.gridDim = grid, launch.blockDim = dim3((unsigned)threads), launch.stream = d->stream;
    launch.attrs = &early, launch.numAttrs = mx_cuda_early(d, &early);
    return cudaLaunchKernelEx(&launch, kernel, std::forward<A>(arguments)...);
}

#endif
