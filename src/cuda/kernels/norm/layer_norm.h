/* Which calls of LayerNorm the kernels for rows of some thousand elements take.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_LAYER_NORM_H
#define MX_CUDA_LAYER_NORM_H

#include "cuda/cuda.h"

/* Rows along the last axis of at most `most` vectors of 16 bytes, all inputs of one type; inputs whose bits are set in `single`
 * are read one by one, so their places do not matter. */
static inline bool mx_cuda_norm_rows_suit(const mx_kernel_call *call, const mx_array *x, int64_t axis, int64_t most,
                                          unsigned single)
{
    const int lanes = x->dtype == MX_FLOAT32 ? 4 : 8;
    if ((x->dtype != MX_FLOAT32 && x->dtype != MX_FLOAT16 && x->dtype != MX_BFLOAT16) || !x->size ||
        mx_axis(axis, x->ndim) != x->ndim - 1)
        return false;
    const int64_t n = x->shape[x->ndim - 1];
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i]->dtype != x->dtype || (!(single >> i & 1) && (uintptr_t)mx_data(call->in[i]) % 16))
            return false;
    return n % lanes == 0 && n <= lanes * most && (uintptr_t)mx_data(call->out[0]) % 16 == 0;
}

#endif
