/* Products of a network that is written as C: dense layers, matrices, attention.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "gluon/emit/emit.h"
#include "gluon/op.gen.h"

static mx_code write_dense(const mx_emit_node *n)
{
    const mx_dense_attrs *attrs = n->node->attrs;
    char bias[48];
    const int64_t k = mx_emit_shape(n, 1)->dim[1];
    mx_emit_open(n, "dense", 2);
    mx_text_print(mx_emit_body(n), "%s, %lld, %lld, %lld);\n", attrs->no_bias ? "NULL" : mx_emit_or_null(n, 2, bias),
                  (long long)mx_emit_over(mx_shape_size(n->x), k), (long long)attrs->num_hidden, (long long)k);
    return MX_OK;
}

static mx_code write_matmul(const mx_emit_node *n, bool ta, bool tb, double alpha)
{
    const mx_shape_t *a = n->x, *b = mx_emit_shape(n, 1);
    if (a->ndim < 2 || a->ndim != b->ndim)
        return mx_emit_fail(n, "inputs have %d and %d axes, wanted two matrices or batches of them", a->ndim, b->ndim);
    const int64_t m = a->dim[a->ndim - (ta ? 1 : 2)], k = a->dim[a->ndim - (ta ? 2 : 1)];
    const int64_t cols = b->dim[b->ndim - (tb ? 2 : 1)];
    mx_emit_open(n, "matmul", 2);
    mx_text_print(mx_emit_body(n), "%lld, %lld, %lld, %lld, %d, %d",
                  (long long)mx_emit_over(mx_shape_size(n->y), m * cols), (long long)m, (long long)cols, (long long)k,
                  ta, tb);
    mx_emit_add(n, alpha);
    mx_text_add(mx_emit_body(n), ");\n");
    return MX_OK;
}

static mx_code write_dot(const mx_emit_node *n)
{
    const mx_dot_attrs *attrs = n->node->attrs;
    if (!strcmp(n->node->op->name, "dot") && (n->x->ndim != 2 || mx_emit_shape(n, 1)->ndim != 2))
        return mx_emit_fail(n, "only products of two matrices can be written as C");
    return write_matmul(n, attrs->transpose_a, attrs->transpose_b, 1);
}

static mx_code write_gemm2(const mx_emit_node *n)
{
    const mx_linalg_gemm2_attrs *attrs = n->node->attrs;
    if (attrs->axis != -2)
        return mx_emit_fail(n, "axis=%lld cannot be written as C, only -2", (long long)attrs->axis);
    return write_matmul(n, attrs->transpose_a, attrs->transpose_b, attrs->alpha);
}

/* x / sqrt(size of the last axis) */
static mx_code write_div_sqrt_dim(const mx_emit_node *n)
{
    const int64_t last = n->x->ndim ? n->x->dim[n->x->ndim - 1] : 1;
    mx_emit_open(n, "scale", 1);
    mx_text_print(mx_emit_body(n), "%lld", (long long)mx_shape_size(n->y));
    mx_emit_add(n, 1 / sqrt((double)last));
    return mx_emit_close(n);
}

/* ---- attention on interleaved rows: (length, batch, heads, roles, size) ------------------------------------------ */

/* Which inputs hold queries, keys and values, as (length, batch, heads * roles * size), and their place in a row. */
typedef struct attention {
    const char *op;
    bool values; /* attention times values; else queries times keys */
    bool apart;  /* queries are an input of their own: keys and values are the second one */
} attention;

static const attention attentions[] = {
    {"_contrib_interleaved_matmul_selfatt_qk", false, false},
    {"_contrib_interleaved_matmul_selfatt_valatt", true, false},
    {"_contrib_interleaved_matmul_encdec_qk", false, true},
    {"_contrib_interleaved_matmul_encdec_valatt", true, true},
};

static mx_code write_attention(const mx_emit_node *n)
{
    const mx_attention_heads_attrs *attrs = n->node->attrs;
    const attention *a = attentions;
    while (strcmp(a->op, n->node->op->name))
        a++;
    const int roles = a->apart ? 2 : 3;
    const mx_shape_t *rows = !a->values && a->apart ? mx_emit_shape(n, 1) : n->x; /* (Lk, B, heads * roles * D) */
    const int64_t lk = rows->dim[0], batch = rows->dim[1], each = mx_emit_over(rows->dim[2], attrs->heads * roles),
                  lq = a->values ? mx_emit_shape(n, 1)->dim[1] : n->x->dim[0];
    char first[48], second[48], to[48];
    mx_emit_at(n->emit, n->in[0], first), mx_emit_at(n->emit, n->in[a->values || a->apart ? 1 : 0], second);
    const char *kernel = a->values ? "weigh_values" : "match_keys";
    mx_emit_use(n->emit, kernel);
    mx_text_print(mx_emit_body(n), "    %s(%s, %s, %s, %lld, %lld, %lld, %lld, %lld", kernel, first, second,
                  mx_emit_at(n->emit, n->out, to), (long long)lq, (long long)lk, (long long)batch,
                  (long long)attrs->heads, (long long)each);
    if (!a->values)
        mx_text_print(mx_emit_body(n), ", %d", a->apart ? 1 : 3); /* roles of the rows that hold the queries */
    mx_text_print(mx_emit_body(n), ", %d);\n", roles);
    return MX_OK;
}

const mx_emit_row mx_emit_product_rows[] = {
    {.op = "FullyConnected", .write = write_dense},
    {.op = "dot", .write = write_dot},
    {.op = "batch_dot", .write = write_dot},
    {.op = "_linalg_gemm2", .write = write_gemm2},
    {.op = "_contrib_div_sqrt_dim", .write = write_div_sqrt_dim},
    {.op = "_contrib_interleaved_matmul_selfatt_qk", .write = write_attention},
    {.op = "_contrib_interleaved_matmul_selfatt_valatt", .write = write_attention},
    {.op = "_contrib_interleaved_matmul_encdec_qk", .write = write_attention},
    {.op = "_contrib_interleaved_matmul_encdec_valatt", .write = write_attention},
    {0},
};
