/* Matrix products and dense layers.  SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/einsum.h"
#include "gluon/onnx/onnx.h"
#include "ndarray/array.h"

/* ---- Gemm and dense layers ---------------------------------------------------------------------------------------- */

static mx_code read_gemm(mx_onnx_in *n)
{
    const double alpha = mx_onnx_float(n, "alpha", 1), beta = mx_onnx_float(n, "beta", 1);
    const bool ta = mx_onnx_int(n, "transA", 0), tb = mx_onnx_int(n, "transB", 0);
    mx_array *c = mx_onnx_input(n, 2);
    const int64_t units = n->in[1]->ndim == 2 ? n->in[1]->shape[0] : 0;
    if (tb && !ta && alpha == 1 && beta == 1 && units > 0 && c != MX_NONE && c->ndim == 1 && c->shape[0] == units &&
        mx_onnx_rank(n, 0) == 2 && mx_dtype_is_float(n->in[0]->dtype)) {
        n->out[0] = mx_fully_connected(n->in[0], n->in[1], c, .num_hidden = units, .flatten = false);
        return MX_OK;
    }
    mx_array *y = mx_dot(n->in[0], n->in[1], .transpose_a = ta, .transpose_b = tb);
    y = alpha == 1 ? y : mx_mul_scalar(y, .scalar = alpha);
    n->out[0] = c == MX_NONE ? y : mx_add(y, beta == 1 ? c : mx_mul_scalar(c, .scalar = beta));
    return MX_OK;
}

static mx_code write_dense(mx_onnx_out *o)
{
    const mx_dense_attrs *a = o->attrs;
    const int rank = mx_onnx_out_rank(o, 0);
    const char *x = o->in[0], *bias = a->no_bias || o->n_in < 3 ? NULL : o->in[2];
    if (rank < 0)
        return mx_error_code();
    if (a->flatten && rank != 2)
        x = mx_onnx_put(o, NULL, "Flatten", x);
    if (a->flatten || rank == 2) {
        mx_onnx_put(o, o->out[0], "Gemm", x, o->in[1], bias);
        mx_onnx_set_int(o, "transB", 1);
        return mx_onnx_done(o);
    }
    const char *w = mx_onnx_put(o, NULL, "Transpose", o->in[1]);
    mx_onnx_set_ints(o, "perm", MX_ONNX_LIST(1, 0));
    const char *y = mx_onnx_put(o, bias ? NULL : o->out[0], "MatMul", x, w);
    if (bias)
        mx_onnx_put(o, o->out[0], "Add", y, bias);
    return mx_onnx_done(o);
}

/* ---- MatMul ---------------------------------------------------------------------------------------------------- */

/* Batches of matrices: the axes before the last two as one. */
static mx_array *multiply_batches(mx_onnx_in *n, mx_array *a, mx_array *b)
{
    const int rank = a->ndim > b->ndim ? a->ndim : b->ndim;
    mx_dims lead = {.n = rank}, one = {.n = rank};
    bool equal = a->ndim == b->ndim;
    for (int i = 0; equal && i < rank - 2; i++)
        equal = a->shape[i] == b->shape[i] && a->shape[i] >= 0;
    if (b->ndim == 2 && rank > 2) /* weights: one product of all rows */
        return mx_dot(a, b);
    if (rank == 3 && equal)
        return mx_batch_dot(a, b);
    for (int i = 0; i < rank; i++) {
        const int64_t x = i - rank + a->ndim >= 0 ? a->shape[i - rank + a->ndim] : 1;
        const int64_t y = i - rank + b->ndim >= 0 ? b->shape[i - rank + b->ndim] : 1;
        lead.d[i] = i < rank - 2 ? (x == 1 ? y : x) : 0;
        one.d[i] = i < rank - 2 ? lead.d[i] : 1;
    }
    int unknown = 0;
    for (int i = 0; i < rank - 2; i++)
        unknown += lead.d[i] < 0;
    if (unknown && equal == false && a->ndim != b->ndim)
        return mx_onnx_fail(n, MX_ERR_SHAPE, "sizes of batches are not known; give the shapes of the inputs"), NULL;
    if (!unknown && !equal) { /* broadcast by adding zeros of the common shape */
        mx_array *zeros = mx_zeros(.shape = one, .dtype = (mx_dtype)a->dtype);
        a = mx_add(a, zeros);
        b = mx_add(b, zeros);
    }
    if (!a || !b)
        return NULL;
    const int64_t rows = a->shape[rank - 2], inner = a->shape[rank - 1], columns = b->shape[rank - 1];
    mx_array *like = a;
    if (rows < 0 || inner < 0 || columns < 0) { /* codes: -3 merges two axes, -2 keeps the rest */
        mx_array *x = a, *y = b;
        for (int i = 0; i < rank - 3; i++) {
            x = mx_reshape(x, .shape = MX_DIMS(-3, -2));
            y = mx_reshape(y, .shape = MX_DIMS(-3, -2));
        }
        return mx_reshape_like(mx_batch_dot(x, y), like, .lhs_begin = 0, .lhs_end = 1, .rhs_begin = 0,
                               .rhs_end = rank - 2);
    }
    mx_array *y = mx_batch_dot(mx_reshape(a, .shape = MX_DIMS(-1, rows, inner)),
                               mx_reshape(b, .shape = MX_DIMS(-1, inner, columns)));
    if (unknown > 1)
        return mx_reshape_like(y, like, .lhs_begin = 0, .lhs_end = 1, .rhs_begin = 0, .rhs_end = rank - 2);
    for (int i = 0; i < rank; i++) /* one unknown size, the batch, is what is left */
        lead.d[i] = i == rank - 2 ? rows : i == rank - 1 ? columns : lead.d[i] < 0 ? -1 : lead.d[i];
    return mx_reshape(y, .shape = lead);
}

mx_array *mx_onnx_matmul(mx_onnx_in *n, mx_array *a, mx_array *b)
{
    if (!a || !b)
        return NULL;
    if (a->ndim < 0 || b->ndim < 0)
        return mx_onnx_fail(n, MX_ERR_SHAPE, "the number of axes is not known; give the shapes of the inputs"), NULL;
    const mx_dtype type = (mx_dtype)a->dtype;
    if (!mx_dtype_is_float(type)) {
        mx_array *y = mx_onnx_matmul(n, mx_cast(a, .dtype = MX_FLOAT64), mx_cast(b, .dtype = MX_FLOAT64));
        return mx_onnx_cast(y, type);
    }
    if (a->ndim <= 2 && b->ndim <= 2) {
        mx_array *y = mx_dot(a, b);
        return y && a->ndim == 1 && b->ndim == 1 ? mx_onnx_as_scalar(y) : y;
    }
    const bool row = a->ndim == 1, column = b->ndim == 1;
    a = row ? mx_expand_dims(a, .axis = 0) : a;
    b = column ? mx_expand_dims(b, .axis = 1) : b;
    mx_array *y = a && b ? multiply_batches(n, a, b) : NULL;
    y = row ? mx_squeeze(y, .axis = MX_DIMS(-2)) : y;
    return column ? mx_squeeze(y, .axis = MX_DIMS(-1)) : y;
}

static mx_code read_matmul(mx_onnx_in *n) { return n->out[0] = mx_onnx_matmul(n, n->in[0], n->in[1]), MX_OK; }

static mx_code write_batch_dot(mx_onnx_out *o)
{
    const mx_dot_attrs *a = o->attrs;
    const char *x = a->transpose_a ? mx_onnx_put_transposed(o, o->in[0], 3) : o->in[0];
    const char *y = a->transpose_b ? mx_onnx_put_transposed(o, o->in[1], 3) : o->in[1];
    mx_onnx_put(o, o->out[0], "MatMul", x, y);
    return mx_onnx_done(o);
}

/* The last axis of the first with the first axis of the second. */
static mx_code write_dot(mx_onnx_out *o)
{
    const mx_dot_attrs *a = o->attrs;
    const int p = mx_onnx_out_rank(o, 0), q = mx_onnx_out_rank(o, 1);
    if (p < 0 || q < 0)
        return mx_error_code();
    if (p > 2 || q > 2) {
        if (a->transpose_a || a->transpose_b || q > 2)
            return mx_onnx_refuse(o, "products of arrays with %d and %d axes cannot be written", p, q);
    }
    const char *x = a->transpose_a && p == 2 ? mx_onnx_put_transposed(o, o->in[0], 2) : o->in[0];
    const char *y = a->transpose_b && q == 2 ? mx_onnx_put_transposed(o, o->in[1], 2) : o->in[1];
    const bool scalar = p == 1 && q == 1;
    const char *z = mx_onnx_put(o, scalar ? NULL : o->out[0], "MatMul", x, y);
    if (scalar)
        mx_onnx_put(o, o->out[0], "Reshape", z, mx_onnx_put_ints(o, MX_ONNX_LIST(1)));
    return mx_onnx_done(o);
}

static mx_code read_einsum(mx_onnx_in *n)
{
    char text[64];
    n->out[0] = mx_einsum(mx_onnx_text(n, "equation", text, ""), (mx_arrays){n->in, n->n_in});
    return MX_OK;
}

const mx_onnx_row mx_onnx_gemm[] = {
    BOTH("Gemm", "FullyConnected", read_gemm, write_dense),
    BOTH("MatMul", "batch_dot", read_matmul, write_batch_dot),
    BOTH("MatMul", "dot", read_matmul, write_dot),
    READ("Einsum", read_einsum),
    {0}};
