/* Products of interleaved attention on the CPU: one batched matrix product over strided rows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cpu/kernels/gemm/gemm.h"
#include "cpu/kernels/widen.h"
#include "gluon/op.gen.h"

/* One product per head; strides in elements, `offset` to the role that is used. */
typedef struct head_product {
    int64_t heads, m, n, k;
    bool trans_b;
    double alpha;
    const mx_array *a, *b;
    mx_array *c;
    int64_t a_row, a_head, b_row, b_head, b_offset, c_row, c_head;
} head_product;

#define RUN(GEMM, GEMM_RUN, T)                                                                                            \
    GEMM g = {.trans_b = p->trans_b, .m = p->m, .n = p->n, .k = p->k, .alpha = (T)p->alpha, .batch = p->heads,            \
              .a = mx_data(p->a), .lda = p->a_row, .stride_a = p->a_head, .b = (const T *)mx_data(p->b) + p->b_offset,    \
              .ldb = p->b_row, .stride_b = p->b_head, .c = mx_data(p->c), .ldc = p->c_row, .stride_c = p->c_head};        \
    return GEMM_RUN(&g)

static mx_code run_f32(const head_product *p) { RUN(mx_gemm_f32, mx_gemm_f32_run, float); }
static mx_code run_f64(const head_product *p) { RUN(mx_gemm_f64, mx_gemm_f64_run, double); }

#define ACCEPT()                                \
    const mx_dtype compute = mx_compute_type(call); \
    if (!mx_inputs_are(call, compute, 0))           \
        return MX_DECLINED;                         \
    if (!call->out[0]->size)                        \
        return MX_OK

static mx_code run_qk(const mx_kernel_call *call)
{
    ACCEPT();
    const bool self = call->n_in == 1;
    const mx_array *q = call->in[0], *k = call->in[call->n_in - 1];
    const int64_t heads = call->out[0]->shape[0], each = ((const mx_attention_heads_attrs *)call->attrs)->heads;
    const int64_t size = q->shape[2] / (each * (self ? 3 : 1)), q_roles = self ? 3 : 1, k_roles = self ? 3 : 2;
    const head_product p = {.heads = heads, .m = q->shape[0], .n = k->shape[0], .k = size, .trans_b = true, .alpha = 1 / sqrt((double)size),
                            .a = q, .b = k, .c = call->out[0], .a_row = heads * q_roles * size, .a_head = q_roles * size,
                            .b_row = heads * k_roles * size, .b_head = k_roles * size, .b_offset = self ? size : 0, .c_row = k->shape[0],
                            .c_head = q->shape[0] * k->shape[0]};
    return compute == MX_FLOAT32 ? run_f32(&p) : run_f64(&p);
}

static mx_code run_values(const mx_kernel_call *call)
{
    ACCEPT();
    const mx_array *rows = call->in[0], *attention = call->in[1];
    const int64_t roles = *(const int *)call->op->user, heads = attention->shape[0],
                  size = call->out[0]->size / (attention->shape[1] * heads);
    const head_product p = {.heads = heads, .m = attention->shape[1], .n = size, .k = attention->shape[2], .alpha = 1, .a = attention, .b = rows,
                            .c = call->out[0], .a_row = attention->shape[2], .a_head = attention->shape[1] * attention->shape[2],
                            .b_row = heads * roles * size, .b_head = roles * size, .b_offset = (roles - 1) * size, .c_row = heads * size,
                            .c_head = size};
    return compute == MX_FLOAT32 ? run_f32(&p) : run_f64(&p);
}

MX_CPU_KERNELS(attention) = {{"_contrib_interleaved_matmul_selfatt_qk", run_qk, NULL, MX_KERNEL_WIDEN},
                             {"_contrib_interleaved_matmul_selfatt_valatt", run_values, NULL, MX_KERNEL_WIDEN},
                             {"_contrib_interleaved_matmul_encdec_qk", run_qk, NULL, MX_KERNEL_WIDEN},
                             {"_contrib_interleaved_matmul_encdec_valatt", run_values, NULL, MX_KERNEL_WIDEN},
                             {NULL, NULL, NULL}};
