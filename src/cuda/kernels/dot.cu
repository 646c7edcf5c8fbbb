/* Matrix products by cuBLAS.
 *
 * Our matrices are stored by rows; cuBLAS reads them by columns, as their transposes: C = A B is C' = B' A'.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <cublas_v2.h>
#include <mutex>

#include "cuda/kernels/gemm.h"

#define WORKSPACE (32u << 20) /* bytes, as recommended for Hopper */

/* C (m, n) = op(A) op(B) + bias, `batch` times with everything contiguous. */
struct product {
    const mx_array *a, *b, *bias; /* bias NULL: none */
    mx_array *c;
    bool trans_a, trans_b;
    int64_t m, n, k, batch;
    bool relu;
    double alpha = 1; /* multiplies the product */
};

static mx_code blas_fail(const mx_kernel_call *call, cublasStatus_t status)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return MX_OK;
    return mx_op_fail(call->op, status == CUBLAS_STATUS_ALLOC_FAILED ? MX_ERR_MEMORY : MX_ERR_DEVICE, "cuBLAS: %s",
                      cublasGetStatusString(status));
}

/* One handle per device, its workspace from our own pool so that streams capture it. */
static cublasHandle_t blas_of(mx_cuda_device *d)
{
    static std::mutex lock;
    std::lock_guard<std::mutex> guard(lock);
    if (d->blas)
        return d->blas;
    cublasHandle_t handle;
    if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS)
        return mx_fail(MX_ERR_DEVICE, "gpu(%d): cuBLAS could not be started", d->id), nullptr;
    void *workspace = mx_cuda_alloc(d, WORKSPACE);
    cublasSetStream(handle, d->stream);
    if (workspace)
        cublasSetWorkspace(handle, workspace, WORKSPACE);
    return d->blas = handle;
}

static cudaDataType data_type(int dtype)
{
    return dtype == MX_FLOAT64 ? CUDA_R_64F : dtype == MX_FLOAT16 ? CUDA_R_16F : dtype == MX_BFLOAT16 ? CUDA_R_16BF : CUDA_R_32F;
}

mx_code mx_cuda_gemm_run(const mx_kernel_call *call, int dtype, const mx_cuda_gemm &g)
{
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d || !blas_of(d))
        return mx_error_code();
    if (g.m > INT32_MAX || g.n > INT32_MAX || g.k > INT32_MAX || g.batch > INT32_MAX)
        return mx_op_fail(call->op, MX_ERR_SHAPE, "matrices of %lld x %lld x %lld are too large for gpu(%d)", (long long)g.m,
                          (long long)g.n, (long long)g.k, d->id);
    const float alpha_f = (float)g.alpha, beta_f = (float)g.beta;
    const bool wide = dtype == MX_FLOAT64, fast = dtype == MX_FLOAT32 && mx_flags_get()->cuda_tf32;
    const cudaDataType type = data_type(dtype);
    const cublasComputeType_t compute = wide ? CUBLAS_COMPUTE_64F : fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const void *alpha = wide ? (const void *)&g.alpha : &alpha_f, *beta = wide ? (const void *)&g.beta : &beta_f;
    return blas_fail(call, cublasGemmStridedBatchedEx(
        d->blas, g.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, g.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N, (int)g.n, (int)g.m, (int)g.k,
        alpha, g.b, type, (int)g.ldb, g.stride_b, g.a, type, (int)g.lda, g.stride_a, beta, g.c, type, (int)g.ldc, g.stride_c,
        (int)g.batch, compute, CUBLAS_GEMM_DEFAULT));
}

static mx_code multiply(const mx_kernel_call *call, const product &p)
{
    return mx_cuda_gemm_run(call, p.c->dtype,
                            {p.trans_a, p.trans_b, p.m, p.n, p.k, mx_data(p.a), p.trans_a ? p.m : p.k, mx_data(p.b),
                             p.trans_b ? p.k : p.n, mx_data(p.c), p.n, p.alpha, 0, p.batch, p.m * p.k, p.k * p.n, p.m * p.n});
}

mx_code mx_cuda_bias_relu(const mx_kernel_call *call, mx_array *out, const mx_array *bias, int64_t channels, int64_t inner,
                          bool relu)
{
    if ((!bias && !relu) || !out->size)
        return MX_OK;
    void *y = mx_data(out);
    const void *b = bias ? mx_data(bias) : nullptr;
    const int type = out->dtype;
    if (type == MX_FLOAT64)
        return mx_cuda_each(call, out->size, [=] __device__(int64_t i) {
            const double x = ((double *)y)[i] + (b ? ((const double *)b)[i / inner % channels] : 0);
            ((double *)y)[i] = relu && x < 0 ? 0 : x;
        });
    return mx_cuda_each(call, out->size, [=] __device__(int64_t i) {
        const float x = mx_cuda_load<float>(y, type, i) + (b ? mx_cuda_load<float>(b, type, i / inner % channels) : 0);
        mx_cuda_store<float>(y, type, i, relu && x < 0 ? 0 : x);
    });
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
    const mx_code code = p.k ? multiply(call, p) : zero(call, d, p.c);
    return code ? code : mx_cuda_bias_relu(call, p.c, p.bias, p.n, 1, p.relu);
}

static mx_code run_dot(const mx_kernel_call *call)
{
    const mx_dot_attrs *attrs = (const mx_dot_attrs *)call->attrs;
    const mx_array *a = call->in[0], *b = call->in[1];
    const int64_t k = attrs->transpose_a ? a->shape[0] : a->shape[a->ndim - 1];
    int64_t m = 1, n = 1;
    for (int i = 0; i < a->ndim; i++)
        m *= i == (attrs->transpose_a ? 0 : a->ndim - 1) ? 1 : a->shape[i];
    for (int i = 0; i < b->ndim; i++)
        n *= i == (attrs->transpose_b ? b->ndim - 1 : 0) ? 1 : b->shape[i];
    return run_product(call, {a, b, nullptr, call->out[0], attrs->transpose_a, attrs->transpose_b, m, n, k, 1, false});
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

/* Matrices in the last two axes. */
static mx_code run_gemm2(const mx_kernel_call *call)
{
    const mx_linalg_gemm2_attrs *attrs = (const mx_linalg_gemm2_attrs *)call->attrs;
    const mx_array *a = call->in[0], *out = call->out[0];
    const int axes = out->ndim;
    if (mx_axis(attrs->axis, axes) != axes - 2)
        return MX_DECLINED;
    const int64_t m = out->shape[axes - 2], n = out->shape[axes - 1];
    return run_product(call, {a, call->in[1], nullptr, call->out[0], attrs->transpose_a, attrs->transpose_b, m, n,
                              a->shape[attrs->transpose_a ? axes - 2 : axes - 1], out->size ? out->size / (m * n) : 0, false, attrs->alpha});
}

static mx_code run_affine(const mx_kernel_call *call, bool relu)
{
    const mx_dense_attrs *attrs = (const mx_dense_attrs *)call->attrs;
    const mx_array *weight = call->in[1];
    const bool has_bias = !attrs->no_bias && !mx_is_none(call->in[2]);
    return run_product(call, {call->in[0], weight, has_bias ? call->in[2] : nullptr, call->out[0], false, true,
                              call->out[0]->size / attrs->num_hidden, attrs->num_hidden, weight->shape[1], 1, relu});
}
static mx_code run_dense(const mx_kernel_call *call) { return run_affine(call, false); }
static mx_code run_dense_relu(const mx_kernel_call *call) { return run_affine(call, true); }

MX_CUDA_KERNELS(dot) = {{"dot", run_dot, NULL},
                        {"batch_dot", run_batch_dot, NULL},
                        {"_linalg_gemm2", run_gemm2, NULL},
                        {"FullyConnected", run_dense, NULL},
                        {"_dense_relu", run_dense_relu, NULL},
                        {NULL, NULL, NULL}};
