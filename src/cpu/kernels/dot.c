/* Matrix product operators on top of the GEMM kernels.
 *
 * float32 and float64 run directly; 16-bit floats are widened to float32 and the result is narrowed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/scratch.h"
#include "base/error.h"
#include "cpu/kernel.h"
#include "cpu/kernels/gemm.h"
#include "cpu/kernels/level.h"
#include "gluon/op.gen.h"
#include "ndarray/convert.h"

/* C (m, n) = op(A) op(B) + bias, `batch` times with everything contiguous. */
typedef struct product {
    const mx_array *a, *b, *bias; /* bias NULL: none */
    mx_array *c;
    bool trans_a, trans_b;
    int64_t m, n, k, batch;
    bool relu;
} product;

static mx_code run_f32(const product *p, const float *a, const float *b, const float *bias, float *c)
{
    mx_gemm_f32 g = {.trans_a = p->trans_a, .trans_b = p->trans_b, .m = p->m, .n = p->n, .k = p->k, .alpha = 1,
                     .a = a, .lda = p->trans_a ? p->m : p->k, .b = b, .ldb = p->trans_b ? p->k : p->n, .c = c, .ldc = p->n,
                     .bias = bias, .relu = p->relu, .batch = p->batch, .stride_a = p->m * p->k, .stride_b = p->k * p->n, .stride_c = p->m * p->n};
    return mx_gemm_f32_run(&g);
}

static mx_code run_f64(const product *p)
{
    mx_gemm_f64 g = {.trans_a = p->trans_a, .trans_b = p->trans_b, .m = p->m, .n = p->n, .k = p->k, .alpha = 1,
                     .a = mx_data(p->a), .lda = p->trans_a ? p->m : p->k, .b = mx_data(p->b), .ldb = p->trans_b ? p->k : p->n,
                     .c = mx_data(p->c), .ldc = p->n, .bias = p->bias ? mx_data(p->bias) : NULL, .relu = p->relu, .batch = p->batch,
                     .stride_a = p->m * p->k, .stride_b = p->k * p->n, .stride_c = p->m * p->n};
    return mx_gemm_f64_run(&g);
}

static float *widen(float **room, const mx_array *x)
{
    float *at = *room;
    if (!x)
        return NULL;
    mx_convert(at, MX_FLOAT32, mx_data(x), (mx_dtype)x->dtype, x->size);
    *room += x->size;
    return at;
}

static mx_code run_half(const product *p)
{
    const size_t bytes = (size_t)(p->a->size + p->b->size + p->c->size + (p->bias ? p->bias->size : 0)) * sizeof(float);
    float *scratch = mx_scratch_take(bytes), *room = scratch;
    if (!scratch)
        return mx_error_code();
    float *a = widen(&room, p->a), *b = widen(&room, p->b), *bias = widen(&room, p->bias);
    mx_code code = run_f32(p, a, b, bias, room);
    if (!code)
        mx_convert(mx_data(p->c), (mx_dtype)p->c->dtype, room, MX_FLOAT32, p->c->size);
    mx_scratch_give(scratch, bytes);
    return code;
}

static mx_code run_product(const product *p)
{
    switch (p->c->dtype) {
    case MX_FLOAT32: return run_f32(p, mx_data(p->a), mx_data(p->b), p->bias ? mx_data(p->bias) : NULL, mx_data(p->c));
    case MX_FLOAT64: return run_f64(p);
    case MX_FLOAT16:
    case MX_BFLOAT16: return run_half(p);
    default: return MX_DECLINED;
    }
}

static mx_code run_dot(const mx_kernel_call *call)
{
    const mx_dot_attrs *attrs = call->attrs;
    const mx_array *a = call->in[0], *b = call->in[1];
    const int64_t k = attrs->transpose_a ? a->shape[0] : a->shape[a->ndim - 1];
    int64_t m = 1, n = 1;
    for (int i = 0; i < a->ndim; i++)
        m *= i == (attrs->transpose_a ? 0 : a->ndim - 1) ? 1 : a->shape[i];
    for (int i = 0; i < b->ndim; i++)
        n *= i == (attrs->transpose_b ? b->ndim - 1 : 0) ? 1 : b->shape[i];
    product p = {a, b, NULL, call->out[0], attrs->transpose_a, attrs->transpose_b, m, n, k, 1, false};
    return run_product(&p);
}

static mx_code run_batch_dot(const mx_kernel_call *call)
{
    const mx_dot_attrs *attrs = call->attrs;
    const mx_array *a = call->in[0], *out = call->out[0];
    const int axes = out->ndim;
    const int64_t m = out->shape[axes - 2], n = out->shape[axes - 1];
    product p = {a, call->in[1], NULL, call->out[0], attrs->transpose_a, attrs->transpose_b, m, n,
                 a->shape[attrs->transpose_a ? axes - 2 : axes - 1], out->size / (m * n), false};
    return run_product(&p);
}

static mx_code run_affine(const mx_kernel_call *call, bool relu)
{
    const mx_dense_attrs *attrs = call->attrs;
    const mx_array *weight = call->in[1];
    const bool has_bias = !attrs->no_bias && !mx_is_none(call->in[2]);
    product p = {call->in[0], weight, has_bias ? call->in[2] : NULL, call->out[0], false, true,
                 call->out[0]->size / attrs->num_hidden, attrs->num_hidden, weight->shape[1], 1, relu};
    return run_product(&p);
}
static mx_code run_dense(const mx_kernel_call *call) { return run_affine(call, false); }
static mx_code run_dense_relu(const mx_kernel_call *call) { return run_affine(call, true); }

MX_CPU_KERNELS(dot) = {{"dot", run_dot, NULL},
                       {"batch_dot", run_batch_dot, NULL},
                       {"FullyConnected", run_dense, NULL},
                       {"_dense_relu", run_dense_relu, NULL},
                       {NULL, NULL, NULL}};
