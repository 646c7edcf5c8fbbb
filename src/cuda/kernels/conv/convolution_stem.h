/* The first convolution of networks for images.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_CONVOLUTION_STEM_H
#define MX_CUDA_CONVOLUTION_STEM_H

#include "cuda/kernels/conv/convolution_dnn.h"

/* Declines other forms, and the gradient of data.  In the same kernel: forward adds the bias and applies the limits; it
 * declines an addend. */
mx_code mx_cuda_convolve_stem(const mx_kernel_call *call, const mx_cuda_convolution &s, const mx_cuda_convolved &t,
                              const mx_cuda_ending &e);

#endif
