/* Convolutions with their endings, by the fastest kernel.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_CONVOLUTION_FUSED_H
#define MX_CUDA_CONVOLUTION_FUSED_H

#include "cuda/kernels/conv/convolution_dnn.h"

/* Forward with channels last; declines other forms. */
mx_code mx_cuda_convolve_fused(const mx_kernel_call *call, const mx_cuda_convolution &s, const mx_cuda_convolved &t,
                               const mx_cuda_ending &e);

#endif
