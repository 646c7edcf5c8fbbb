/* Matrix product operators on top of the GEMM kernels.
 *
 * float32 and float64 run directly, 16-bit floats as dot_half.h says.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/scratch.h"
#include "base/error.h"
#include "base/threads.h"
#include "cpu/kernel.h"
#include "cpu/kernels/convert_level.h"
#include "cpu/kernels/gemm/gemm.h"
#include "cpu/kernels/level.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

#define STRIP 16 /* features, or panels, at a time: their part of a panel stays in the first-level cache */

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

#include "cpu/kernels/gemm/dot_half.h"

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

/* Plans use it on devices whose products can add; here it runs the two kernels. */
static mx_code run_dense_add(const mx_kernel_call *call)
{
    mx_op *sum = MX_OP("elemwise_add");
    const mx_code code = run_affine(call, false);
    const mx_kernel_call rest = {.op = sum, .n_in = 2, .n_out = 1, .in = (mx_array *[]){call->out[0], call->in[3]},
                                 .out = call->out};
    return code ? code : mx_kernel_run(sum->kernels[MX_CPU][0], &rest);
}

/* Plans use it on devices where one product computes both; here it runs the two kernels. */
static mx_code run_dense_gradients(const mx_kernel_call *call)
{
    const mx_array *ograd = call->in[0], *data = call->in[1];
    product p = {ograd,           data, NULL, call->out[0], true, false, ograd->shape[1], data->shape[1],
                 ograd->shape[0], 1,    false};
    mx_op *sum = MX_OP("_sum_to");
    const mx_sum_to_attrs attrs = {.shape = {.n = 1, .d = {ograd->shape[1]}}};
    mx_code code = run_product(&p);
    const mx_kernel_call rest = {
        .op = sum, .attrs = &attrs, .n_in = 1, .n_out = 1, .in = call->in, .out = call->out + 1};
    return code ? code : mx_kernel_run(sum->kernels[MX_CPU][0], &rest);
}

/* Likewise: the product, then the gradient of relu. */
static mx_code run_dot_relu_grad(const mx_kernel_call *call)
{
    const mx_dtype compute = mx_compute_type(call);
    if (!mx_inputs_are(call, compute, 0))
        return MX_DECLINED;
    const mx_code code = run_dot(call);
    const void *y = mx_data(call->in[2]);
    void *out = mx_data(call->out[0]);
    for (int64_t i = 0; !code && i < call->out[0]->size; i++)
        if (compute == MX_FLOAT32)
            ((float *)out)[i] = ((const float *)y)[i] > 0 ? ((float *)out)[i] : 0;
        else
            ((double *)out)[i] = ((const double *)y)[i] > 0 ? ((double *)out)[i] : 0;
    return code;
}

/* ---- weights in panels ------------------------------------------------------------------------------------------- */

typedef struct pack_job {
    const float *weight; /* (outputs, features) */
    float *panels;       /* (panels, features, columns) */
    int64_t outputs, features, columns;
} pack_job;

static void pack_panels(void *arg, int64_t begin, int64_t end)
{
    const pack_job *job = arg;
    const int64_t features = job->features, columns = job->columns, strips = (features + STRIP - 1) / STRIP;
    for (int64_t i = begin * strips; i < end * strips; i++) {
        const int64_t panel = i / strips, first = i % strips * STRIP;
        const int64_t last = first + STRIP < features ? first + STRIP : features;
        float *to = job->panels + panel * features * columns;
        for (int64_t j = 0; j < columns; j++) {
            const int64_t n = panel * columns + j;
            const float *from = job->weight + n * features;
            for (int64_t k = first; k < last; k++)
                to[k * columns + j] = n < job->outputs ? from[k] : 0;
        }
    }
}

static mx_code run_pack(const mx_kernel_call *call)
{
    const mx_array *weight = call->in[0], *panels = call->out[0];
    if (weight->dtype != MX_FLOAT32)
        return MX_DECLINED;
    pack_job job = {mx_data(weight), mx_data(panels), weight->shape[0], weight->shape[1], panels->shape[2]};
    mx_parallel(panels->shape[0], 1 + MX_GRAIN / (job.features * job.columns + 1), pack_panels, &job);
    return MX_OK;
}

/* Panels of this level's width are one product; others are a product each. */
static mx_code run_packed(const mx_kernel_call *call)
{
    const mx_packed_dense_attrs *attrs = call->attrs;
    const mx_array *x = call->in[0], *panels = call->in[1];
    if (x->dtype != MX_FLOAT32 || panels->dtype != MX_FLOAT32)
        return MX_DECLINED;
    const int64_t n = attrs->num_hidden, k = panels->shape[1], columns = panels->shape[2];
    const bool whole = columns == MX_GEMM_COLUMNS;
    mx_gemm_f32 g = {.m = call->out[0]->size / n, .n = n, .k = k, .alpha = 1, .a = mx_data(x), .lda = k,
                     .b = mx_data(panels), .ldb = columns, .c = mx_data(call->out[0]), .ldc = n,
                     .bias = mx_is_none(call->in[2]) ? NULL : mx_data(call->in[2]), .relu = attrs->relu,
                     .panels_b = whole, .batch = 1};
    if (whole)
        return mx_gemm_f32_run(&g);
    mx_code code = MX_OK;
    for (int64_t at = 0; at < n && !code; at += columns) {
        mx_gemm_f32 part = g;
        part.n = n - at < columns ? n - at : columns;
        part.b += at * k, part.c += at, part.bias = g.bias ? g.bias + at : NULL;
        code = mx_gemm_f32_run(&part);
    }
    return code;
}

MX_CPU_KERNELS_ARM(dot) = {{"dot", run_dot, NULL},
                       {"batch_dot", run_batch_dot, NULL},
                       {"FullyConnected", run_dense, NULL},
                       {"_dense_relu", run_dense_relu, NULL},
                       {"_pack_dense", run_pack, NULL},
                       {"_packed_dense", run_packed, NULL},
                       {"_dense_add", run_dense_add, NULL},
                       {"_dense_gradients", run_dense_gradients, NULL},
                       {"_dot_relu_grad", run_dot_relu_grad, NULL, MX_KERNEL_WIDEN},
                       {NULL, NULL, NULL}};
