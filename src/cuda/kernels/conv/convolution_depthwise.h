/* Convolutions of every channel by itself, channels last.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_CONVOLUTION_DEPTHWISE_H
#define MX_CUDA_CONVOLUTION_DEPTHWISE_H

#include "cuda/kernels/conv/convolution_dnn.h"

/* Declines other forms.  In the same kernel: forward adds the bias and applies the limits; it declines an addend. */
mx_code mx_cuda_convolve_depthwise(const mx_kernel_call *call, const mx_cuda_convolution &s, const mx_cuda_convolved &t,
                                   const mx_cuda_ending &e);

#endif
