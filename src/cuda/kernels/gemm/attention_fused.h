/* Attention on GPUs: what its kernels are given.
 *
 * attention_fused.cu chooses: cuDNN (attention_dnn.cu) where it is faster, kernels on tiles (attention_fused_forward.cu,
 * attention_fused_backward.cu) for aligned rows of up to 256 elements per head, plain ones (attention_fused_plain.cu) for
 * everything else.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CUDA_ATTENTION_FUSED_H
#define MX_CUDA_ATTENTION_FUSED_H

#include "cuda/cuda.h"
#include "op/formula/attention.h"

namespace attention
{
/* An array of any type, or NULL. */
struct numbers {
    const void *data;
    int type;
    __device__ double get(int64_t i) const { return mx_cuda_load<double>(data, type, i); }
};

struct job {
    mx_attention_shape s;
    const void *query, *key, *value, *out, *out_grad; /* where the roles begin */
    void *result;                                     /* forward */
    void *query_grad, *key_grad, *value_grad;         /* backward; NULL: not wanted */
    void *lse;                                        /* (batch, heads, queries) */
    void *delta; /* of that shape: sum of out times its gradient, for every query */
    numbers mask, length;
    mx_rng rng;          /* forward */
    const int64_t *seed; /* backward: the numbers that forward used */

    __device__ int64_t keys_of(int64_t n) const
    {
        const double given = length.data ? length.get(n) : (double)s.keys;
        return given < (double)s.keys ? given > 0 ? (int64_t)given : 0 : s.keys;
    }
    __device__ bool shows(int64_t n, int64_t h, int64_t i, int64_t j) const
    {
        return !mask.data || mask.get(n * s.mask_batch + h * s.mask_head + i * s.keys + j) != 0;
    }
    __device__ mx_rng used() const { return seed ? mx_rng{(uint64_t)seed[0], (uint64_t)seed[1]} : rng; }
    __device__ int64_t row(int64_t n, int64_t h, int64_t i) const { return (n * s.heads + h) * s.queries + i; }
};

template <class T>
static inline __device__ __host__ T *at(T *x, const mx_attention_place &p, int64_t n, int64_t h, int64_t t)
{
    return x + n * p.batch + h * p.head + t * p.time;
}
static inline bool dropping(const job &j) { return j.s.dropout > 0; }
} // namespace attention

/* MX_DECLINED: not for this kernel.  exact: floats are not rounded to TF32. */
mx_code mx_cuda_attention_forward(const mx_kernel_call *call, const attention::job &job, int type, bool exact);
mx_code mx_cuda_attention_backward(const mx_kernel_call *call, const attention::job &job, int type, bool exact);
/* By cuDNN, where it is faster; j.delta is scratch. */
mx_code mx_cuda_attention_dnn(const mx_kernel_call *call, const attention::job &j, int type);
mx_code mx_cuda_attention_dnn_back(const mx_kernel_call *call, const attention::job &j, int type);
/* Any type and size. */
mx_code mx_cuda_attention_plain(const mx_kernel_call *call, const attention::job &job, int type);
mx_code mx_cuda_attention_plain_back(const mx_kernel_call *call, const attention::job &job, int type);

#endif
