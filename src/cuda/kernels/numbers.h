/* Arrays of any type as doubles, and checks of inputs.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_NUMBERS_H
#define MX_CUDA_NUMBERS_H

#include "cuda/cuda.h"

/* The elements of an array, read as doubles. */
struct mx_cuda_numbers {
    const void *data;
    int type;
    mx_cuda_numbers(const mx_array *x) : data(mx_data(x)), type(x->dtype) {}
    __device__ double operator[](int64_t i) const { return mx_cuda_load<double>(data, type, i); }
    __device__ void read(int64_t at, int n, double *to) const
    {
        for (int k = 0; k < n; k++)
            to[k] = (*this)[at + k];
    }
};

/* The elements of an array, written as doubles. */
struct mx_cuda_results {
    void *data;
    int type;
    mx_cuda_results(mx_array *x) : data(mx_data(x)), type(x->dtype) {}
    __device__ void put(int64_t i, double v) const { mx_cuda_store<double>(data, type, i, v); }
};

/* True if all inputs are of type T, except absent ones and those in the mask (labels, lengths, places). */
template <class T> bool mx_cuda_inputs_are(const mx_kernel_call *call, uint32_t except)
{
    for (int i = 0; i < call->n_in; i++)
        if (!(i < 32 && (except >> i & 1)) && !mx_is_none(call->in[i]) &&
            call->in[i]->dtype != (sizeof(T) == 8 ? MX_FLOAT64 : MX_FLOAT32))
            return false;
    return true;
}

/* Zeros in an array, in the order of the stream. */
static inline mx_code mx_cuda_zero(const mx_kernel_call *call, mx_array *x)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    return mx_bytes(x) ? mx_cuda_fail(cudaMemsetAsync(mx_data(x), 0, mx_bytes(x), d->stream), call->op->name) : MX_OK;
}

#endif
