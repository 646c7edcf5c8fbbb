/* Products of interleaved attention: one strided batched product over all heads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/gemm/gemm.h"
#include "cuda/kernels/numbers.h"

/* The arrays are of one floating type. */
static bool of_one_type(const mx_kernel_call *call)
{
    const int type = call->out[0]->dtype;
    for (int i = 0; i < call->n_in; i++)
        if (call->in[i]->dtype != type)
            return false;
    return mx_dtype_is_float(type);
}

static const void *from(const mx_array *x, int64_t offset)
{
    return (const char *)mx_data(x) + offset * (int64_t)mx_dtype_size((mx_dtype)x->dtype);
}

/* (heads, queries, keys) = queries keys' / sqrt(size); rows hold queries, keys and values of every head side by side,
 * or queries alone, and keys and values. */
static mx_code run_qk(const mx_kernel_call *call)
{
    const bool self = call->n_in == 1;
    const mx_array *q = call->in[0], *k = call->in[call->n_in - 1];
    if (!of_one_type(call))
        return MX_DECLINED;
    if (!call->out[0]->size)
        return MX_OK;
    const int64_t heads = call->out[0]->shape[0], each = ((const mx_attention_heads_attrs *)call->attrs)->heads,
                  q_roles = self ? 3 : 1, k_roles = self ? 3 : 2, size = q->shape[2] / (each * q_roles);
    if (!size)
        return mx_cuda_zero(call, call->out[0]);
    return mx_cuda_gemm_run(call, q->dtype,
                            {false, true, q->shape[0], k->shape[0], size, mx_data(q), heads * q_roles * size,
                             from(k, self ? size : 0), heads * k_roles * size, mx_data(call->out[0]), k->shape[0],
                             1 / sqrt((double)size), 0, heads, q_roles * size, k_roles * size,
                             q->shape[0] * k->shape[0]});
}

/* (queries, batch, heads * size) = attention (heads, queries, keys) values */
static mx_code run_values(const mx_kernel_call *call)
{
    const mx_array *rows = call->in[0], *attention = call->in[1];
    if (!of_one_type(call))
        return MX_DECLINED;
    if (!call->out[0]->size)
        return MX_OK;
    const int64_t roles = *(const int *)call->op->user, heads = attention->shape[0], queries = attention->shape[1],
                  keys = attention->shape[2], size = call->out[0]->size / (queries * heads);
    if (!keys)
        return mx_cuda_zero(call, call->out[0]);
    return mx_cuda_gemm_run(call, rows->dtype,
                            {false, false, queries, size, keys, mx_data(attention), keys,
                             from(rows, (roles - 1) * size), heads * roles * size, mx_data(call->out[0]), heads * size,
                             1, 0, heads, queries * keys, roles * size, size});
}

MX_CUDA_KERNELS(attention) = {{"_contrib_interleaved_matmul_selfatt_qk", run_qk, NULL},
                              {"_contrib_interleaved_matmul_selfatt_valatt", run_values, NULL},
                              {"_contrib_interleaved_matmul_encdec_qk", run_qk, NULL},
                              {"_contrib_interleaved_matmul_encdec_valatt", run_values, NULL},
                              {NULL, NULL, NULL}};
