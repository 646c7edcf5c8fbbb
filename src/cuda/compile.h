/* Kernels compiled at run time, by NVRTC.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_COMPILE_H
#define MX_CUDA_COMPILE_H

#include <string>

#include "cuda/cuda.h"

/* Our headers as text, for programs that include them; made by the build (cmake/cuda.cmake).  Ended by an empty row. */
typedef struct mx_cuda_source {
    const char *name, *text;
} mx_cuda_source;
extern "C" const mx_cuda_source mx_cuda_sources[];

/* The function `entry` (extern "C") of the program, compiled for the device or found in the cache on disk.
 * NULL, and no error, where that cannot be: NVRTC is not there, the program is wrong.  Takes tens of milliseconds. */
cudaKernel_t mx_cuda_compile(const mx_cuda_device *d, const std::string &program, const char *entry);

#endif
