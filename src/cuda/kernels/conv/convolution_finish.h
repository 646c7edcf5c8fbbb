/* What follows a convolution whose kernel does not do it itself.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_CONVOLUTION_FINISH_H
#define MX_CUDA_CONVOLUTION_FINISH_H

#include "cuda/kernels/conv/convolution_dnn.h"

/* out = limits(out + bias + addend), in one pass; last: channels are the last axis, else the second one. */
mx_code mx_cuda_finish_convolution(const mx_kernel_call *call, mx_array *out, const mx_cuda_ending &e, bool last);

#endif
