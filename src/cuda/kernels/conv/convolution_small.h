/* Convolutions that are too small for cuDNN's kernels.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_CONVOLUTION_SMALL_H
#define MX_CUDA_CONVOLUTION_SMALL_H

#include "cuda/kernels/conv/convolution_dnn.h"

/* Declines large convolutions and other forms.  In the same kernel: forward adds the bias (NULL: none) and applies
 * relu, weight makes the sums of y over pixels, the gradient of the bias (NULL: not wanted). */
mx_code mx_cuda_convolve_small(const mx_kernel_call *call, const mx_cuda_convolution &s, const mx_cuda_convolved &t,
                               const mx_array *bias, bool relu, mx_array *sums);

#endif
