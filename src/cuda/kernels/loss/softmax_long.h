/* Cross entropy of long rows (softmax_long.cu).  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_SOFTMAX_LONG_H
#define MX_CUDA_SOFTMAX_LONG_H

#include "cuda/kernels/lanes.h"

/* `count` rows of n scores and one class number each; arrays that are not wanted are absent. */
struct mx_cuda_long_rows {
    int64_t count, n;
    mx_cuda_values x, label, loss, lse, g, dx;
};

/* MX_DECLINED: rows that are not aligned, or too long for shared memory. */
mx_code mx_cuda_long_losses(const mx_kernel_call *call, const mx_cuda_long_rows &t);

#endif
