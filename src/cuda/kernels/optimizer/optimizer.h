/* Optimizer updates of many tensors by one launch.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_OPTIMIZER_H
#define MX_CUDA_OPTIMIZER_H

#include "cuda/cuda.h"
extern "C" {
#include "op/formula/optimizer.h"
}

struct mx_cuda_number {
    const void *data; /* on the device; NULL: none */
    int type;
};

/* One tensor of an update. */
struct mx_cuda_tensor {
    const mx_array *from, *grad; /* the weight, its gradient */
    mx_array *to, *copy;         /* the new weight; copy NULL: no copy */
    mx_array *state[3];
    mx_cuda_number number[2]; /* the entry's scalars; without any: learning rate and decay, if given */
    int64_t size;
    mx_update_constants k; /* constants; what depends on `number` is derived on the device */
};

/* One entry of op/formula/optimizer.h on n tensors of one device, computed in float or double. */
mx_code mx_cuda_update(const mx_kernel_call *call, mx_update_row row, mx_dtype compute, int n, const mx_cuda_tensor *x);

#endif
