/* Elements as untyped items of their size, and as doubles.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_ITEMS_H
#define MX_CUDA_ITEMS_H

#include "cuda/cuda.h"

/* f(an unsigned integer of the size of x's elements): for kernels that only move elements. */
template <class F> mx_code mx_cuda_by_item(const mx_array *x, F f)
{
    switch (mx_dtype_size((mx_dtype)x->dtype)) {
    case 1: return f((uint8_t)0);
    case 2: return f((uint16_t)0);
    case 4: return f((uint32_t)0);
    default: return f((uint64_t)0);
    }
}

/* to (x->size) = x */
static inline mx_code mx_cuda_to_doubles(const mx_kernel_call *call, const mx_array *x, double *to)
{
    const void *from = x->size ? mx_data(x) : nullptr;
    const int type = x->dtype;
    return mx_cuda_each(call, x->size, [=] __device__(int64_t i) { to[i] = mx_cuda_load<double>(from, type, i); });
}

#endif
