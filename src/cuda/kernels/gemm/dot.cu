/* Operators that are matrix products.  SPDX-License-Identifier: Apache-2.0 */
#include "cuda/kernels/gemm/gemm.h"

/* C (m, n) = op(A) op(B) + bias, `batch` times with everything contiguous. */
struct product {
    const mx_array *a, *b, *bias; /* bias NULL: none */
    mx_array *c;
    bool trans_a, trans_b;
    int64_t m, n, k, batch;
    bool relu;
    const mx_array *mask = nullptr;   /* as c: the result of relu */
    const mx_array *addend = nullptr; /* as c */
};

static mx_code multiply(const mx_kernel_call *call, const product &p)
{
    const mx_cuda_gemm g = {
        p.trans_a, p.trans_b, p.m, p.n, p.k, mx_data(p.a), p.trans_a ? p.m : p.k, mx_data(p.b),
        p.trans_b ? p.k : p.n, mx_data(p.c), p.n, 1, 0, p.batch, p.m * p.k, p.k * p.n, p.m * p.n, false,
        p.bias ? mx_data(p.bias) : nullptr, p.relu, nullptr, p.mask ? mx_data(p.mask) : nullptr,
        p.addend ? mx_data(p.addend) : nullptr};
    return mx_cuda_gemm_run(call, p.c->dtype, g);
}

static mx_code zero(const mx_kernel_call *call, mx_cuda_device *d, const mx_array *x)
{
    return mx_cuda_fail(cudaMemsetAsync(mx_data(x), 0, mx_bytes(x), d->stream), call->op->name);
}

static mx_code run_product(const mx_kernel_call *call, const product &p)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!mx_dtype_is_float(p.c->dtype) || p.a->dtype != p.c->dtype || p.b->dtype != p.c->dtype)
        return MX_DECLINED;
    if (!d)
        return mx_error_code();
    if (p.k)
        return multiply(call, p);
    const mx_code code = zero(call, d, p.c);
    return code ? code : mx_cuda_bias_relu(call, p.c, p.bias, p.n, 1, p.relu);
}

static mx_code run_dot_masked(const mx_kernel_call *call, const mx_array *mask)
{
    const mx_dot_attrs *attrs = (const mx_dot_attrs *)call->attrs;
    const mx_array *a = call->in[0], *b = call->in[1];
    const int64_t k = attrs->transpose_a ? a->shape[0] : a->shape[a->ndim - 1];
    int64_t m = 1, n = 1;
    for (int i = 0; i < a->ndim; i++)
        m *= i == (attrs->transpose_a ? 0 : a->ndim - 1) ? 1 : a->shape[i];
    for (int i = 0; i < b->ndim; i++)
        n *= i == (attrs->transpose_b ? b->ndim - 1 : 0) ? 1 : b->shape[i];
    return run_product(call,
                       {a, b, nullptr, call->out[0], attrs->transpose_a, attrs->transpose_b, m, n, k, 1, false, mask});
}
static mx_code run_dot(const mx_kernel_call *call) { return run_dot_masked(call, nullptr); }
static mx_code run_dot_relu_grad(const mx_kernel_call *call)
{
    return call->in[2]->dtype == call->out[0]->dtype ? run_dot_masked(call, call->in[2]) : MX_DECLINED;
}

static mx_code run_batch_dot(const mx_kernel_call *call)
{
    const mx_dot_attrs *attrs = (const mx_dot_attrs *)call->attrs;
    const mx_array *a = call->in[0], *out = call->out[0];
    const int axes = out->ndim;
    const int64_t m = out->shape[axes - 2], n = out->shape[axes - 1];
    return run_product(call, {a, call->in[1], nullptr, call->out[0], attrs->transpose_a, attrs->transpose_b, m, n,
                              a->shape[attrs->transpose_a ? axes - 2 : axes - 1], out->size / (m * n), false});
}

static mx_code run_affine(const mx_kernel_call *call, bool relu, const mx_array *addend = nullptr)
{
    const mx_dense_attrs *attrs = (const mx_dense_attrs *)call->attrs;
    const mx_array *weight = call->in[1];
    const bool has_bias = !attrs->no_bias && !mx_is_none(call->in[2]);
    return run_product(call, {call->in[0], weight, has_bias ? call->in[2] : nullptr, call->out[0], false, true,
                              call->out[0]->size / attrs->num_hidden, attrs->num_hidden, weight->shape[1], 1, relu,
                              nullptr, addend});
}
static mx_code run_dense(const mx_kernel_call *call) { return run_affine(call, false); }
static mx_code run_dense_relu(const mx_kernel_call *call) { return run_affine(call, true); }
static mx_code run_dense_add(const mx_kernel_call *call)
{
    const mx_array *addend = call->in[3];
    return addend->dtype == call->out[0]->dtype && call->in[0]->size ? run_affine(call, false, addend) : MX_DECLINED;
}

/* dW (hidden, features) = dY' X and db (hidden) = sum of dY over the rows, from one product. */
static mx_code run_dense_gradients(const mx_kernel_call *call)
{
    const mx_array *ograd = call->in[0], *data = call->in[1];
    const int64_t rows = ograd->shape[0], hidden = ograd->shape[1], features = data->shape[1];
    mx_cuda_device *d = mx_cuda_of(call);
    if (!mx_dtype_is_float(ograd->dtype) || ograd->dtype == MX_FLOAT64 || data->dtype != ograd->dtype)
        return MX_DECLINED;
    if (!d)
        return mx_error_code();
    if (!rows || !features) /* nothing to multiply */
        return zero(call, d, call->out[0]) || zero(call, d, call->out[1]) ? mx_error_code() : MX_OK;
    const mx_cuda_gemm g = {
        true, false, hidden, features, rows, mx_data(ograd), hidden, mx_data(data), features, mx_data(call->out[0]),
        features, 1, 0, 1, 0, 0, 0, false, nullptr, false, mx_data(call->out[1])};
    return mx_cuda_gemm_run(call, ograd->dtype, g);
}

MX_CUDA_KERNELS(dot) = {{"dot", run_dot, NULL},
                        {"batch_dot", run_batch_dot, NULL},
                        {"FullyConnected", run_dense, NULL},
                        {"_dense_relu", run_dense_relu, NULL},
                        {"_dense_add", run_dense_add, NULL},
                        {"_dense_gradients", run_dense_gradients, NULL},
                        {"_dot_relu_grad", run_dot_relu_grad, NULL},
                        {NULL, NULL, NULL}};
