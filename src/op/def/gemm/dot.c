/* Matrix products: dot, batch_dot, FullyConnected.
 *
 * Their gradients are matrix products, so every order of differentiation works.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "op/emit.h"
#include "op/expect.h"
#include "op/op.h"

#define DOT_ATTRS(X) \
    X(BOOL, transpose_a, "False", "", "use lhs with its first axis moved to the end (2-D: its transpose)") \
    X(BOOL, transpose_b, "False", "", "use rhs with its last axis moved to the beginning (2-D: its transpose)") \
    X(ENUM, forward_stype, "None", "default|row_sparse|csr", "storage of the result if an input is sparse; None: chosen automatically")
MX_ATTRS(dot, DOT_ATTRS)

#define DENSE_ATTRS(X) \
    X(INT, num_hidden, REQUIRED, "1..", "number of outputs") \
    X(BOOL, no_bias, "False", "", "do not use a bias") \
    X(BOOL, flatten, "True", "", "all axes but the first are features; else only the last one")
MX_ATTRS(dense, DENSE_ATTRS)

static mx_shape_t matrix(int64_t rows, int64_t columns) { return (mx_shape_t){.ndim = 2, .dim = {rows, columns}}; }

static int64_t product(const mx_shape_t *s, int begin, int end)
{
    int64_t n = 1;
    for (int i = begin; i < end; i++)
        n *= s->dim[i];
    return n;
}

/* ---- dot: the last axis of lhs with the first of rhs -------------------------------------------------------- */

static mx_code infer_dot(mx_infer *infer)
{
    const mx_dot_attrs *attrs = infer->attrs;
    const mx_shape_t *a = &infer->in[0], *b = &infer->in[1];
    if (!mx_shape_known(a) || !mx_shape_known(b))
        return MX_OK;
    char left[MX_SHAPE_TEXT], right[MX_SHAPE_TEXT];
    if (a->ndim < 1 || b->ndim < 1)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "shapes %s and %s: both must have at least one axis",
                          mx_shape_text(a, left), mx_shape_text(b, right));
    const int a_axis = attrs->transpose_a ? 0 : a->ndim - 1, b_axis = attrs->transpose_b ? b->ndim - 1 : 0;
    if (a->dim[a_axis] != b->dim[b_axis])
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "shapes %s and %s: axis %d of lhs and axis %d of rhs must be equal",
                          mx_shape_text(a, left), mx_shape_text(b, right), a_axis, b_axis);
    mx_shape_t out = {0};
    if (a->ndim + b->ndim - 2 > MX_MAX_NDIM)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "the result would have %d axes, at most %d are supported",
                          a->ndim + b->ndim - 2, MX_MAX_NDIM);
    for (int i = 0; i < a->ndim; i++)
        if (i != a_axis)
            out.dim[out.ndim++] = a->dim[i];
    for (int i = 0; i < b->ndim; i++)
        if (i != b_axis)
            out.dim[out.ndim++] = b->dim[i];
    if (!out.ndim)
        out = (mx_shape_t){.ndim = 1, .dim = {1}}; /* two vectors: a scalar is (1,) in classic arrays */
    return mx_infer_out(infer, 0, &out);
}

static mx_array *multiply(mx_array *a, bool transpose_a, mx_array *b, bool transpose_b)
{
    mx_dot_attrs attrs = {transpose_a, transpose_b, -1};
    return mx_g_call(MX_OP("dot"), &attrs, 2, (mx_array *const[]){a, b});
}

/* With A (m, k) and B (k, n) after transposition, C = A B:  dA = dC B', dB = A' dC; transposed where the input was. */
static mx_code grad_dot(mx_grad *grad)
{
    const mx_dot_attrs *attrs = grad->attrs;
    const mx_shape_t *a = &grad->in_shape[0], *b = &grad->in_shape[1];
    const bool ta = attrs->transpose_a, tb = attrs->transpose_b;
    const int64_t k = ta ? a->dim[0] : a->dim[a->ndim - 1];
    const int64_t m = ta ? product(a, 1, a->ndim) : product(a, 0, a->ndim - 1);
    const int64_t n = tb ? product(b, 0, b->ndim - 1) : product(b, 1, b->ndim);
    mx_shape_t a2 = ta ? matrix(k, m) : matrix(m, k), b2 = tb ? matrix(n, k) : matrix(k, n), g2 = matrix(m, n);
    mx_array *g = mx_g_reshape(grad->ograd[0], &g2);
    if (grad->wanted[0]) {
        mx_array *other = mx_g_reshape(grad->in[1], &b2);
        grad->igrad[0] = mx_g_reshape(ta ? multiply(other, tb, g, true) : multiply(g, false, other, !tb), a);
    }
    if (grad->wanted[1]) {
        mx_array *other = mx_g_reshape(grad->in[0], &a2);
        grad->igrad[1] = mx_g_reshape(tb ? multiply(g, true, other, ta) : multiply(other, !ta, g, false), b);
    }
    return (grad->wanted[0] && !grad->igrad[0]) || (grad->wanted[1] && !grad->igrad[1]) ? mx_error_code() : MX_OK;
}

static void reference_matmul(const double *a, bool ta, const double *b, bool tb, double *c, int64_t m, int64_t n,
                             int64_t k)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += a[ta ? p * m + i : i * k + p] * b[tb ? j * k + p : p * n + j];
            c[i * n + j] = sum;
        }
}

static void reference_dot(const mx_reference_call *call)
{
    const mx_dot_attrs *attrs = call->attrs;
    const mx_shape_t *a = &call->in_shape[0], *b = &call->in_shape[1];
    const int64_t k = attrs->transpose_a ? a->dim[0] : a->dim[a->ndim - 1];
    reference_matmul(call->in[0], attrs->transpose_a, call->in[1], attrs->transpose_b, call->out[0],
                     attrs->transpose_a ? product(a, 1, a->ndim) : product(a, 0, a->ndim - 1),
                     attrs->transpose_b ? product(b, 0, b->ndim - 1) : product(b, 1, b->ndim), k);
}

/* ---- batch_dot: a product per leading index ------------------------------------------------------------------ */

static mx_code infer_batch_dot(mx_infer *infer)
{
    const mx_dot_attrs *attrs = infer->attrs;
    const mx_shape_t *a = &infer->in[0], *b = &infer->in[1];
    if (!mx_shape_known(a) || !mx_shape_known(b))
        return MX_OK;
    char left[MX_SHAPE_TEXT], right[MX_SHAPE_TEXT];
    const int n = a->ndim;
    bool fits = n >= 3 && b->ndim == n;
    for (int i = 0; fits && i < n - 2; i++)
        fits = a->dim[i] == b->dim[i];
    fits = fits && a->dim[attrs->transpose_a ? n - 2 : n - 1] == b->dim[attrs->transpose_b ? n - 1 : n - 2];
    if (!fits)
        return mx_op_fail(infer->op, MX_ERR_SHAPE,
                          "shapes %s and %s (transpose_a=%d, transpose_b=%d) do not fit: wanted "
                          "(..., m, k) and (..., k, n) with equal leading axes",
                          mx_shape_text(a, left), mx_shape_text(b, right), attrs->transpose_a, attrs->transpose_b);
    mx_shape_t out = *a;
    out.dim[n - 2] = a->dim[attrs->transpose_a ? n - 1 : n - 2];
    out.dim[n - 1] = b->dim[attrs->transpose_b ? n - 2 : n - 1];
    return mx_infer_out(infer, 0, &out);
}

static mx_array *batch_multiply(mx_array *a, bool transpose_a, mx_array *b, bool transpose_b)
{
    mx_dot_attrs attrs = {transpose_a, transpose_b, -1};
    return mx_g_call(MX_OP("batch_dot"), &attrs, 2, (mx_array *const[]){a, b});
}

static mx_code grad_batch_dot(mx_grad *grad)
{
    const mx_dot_attrs *attrs = grad->attrs;
    const bool ta = attrs->transpose_a, tb = attrs->transpose_b;
    mx_array *g = grad->ograd[0], *a = grad->in[0], *b = grad->in[1];
    if (grad->wanted[0])
        grad->igrad[0] = ta ? batch_multiply(b, tb, g, true) : batch_multiply(g, false, b, !tb);
    if (grad->wanted[1])
        grad->igrad[1] = tb ? batch_multiply(g, true, a, ta) : batch_multiply(a, !ta, g, false);
    return (grad->wanted[0] && !grad->igrad[0]) || (grad->wanted[1] && !grad->igrad[1]) ? mx_error_code() : MX_OK;
}

static void reference_batch_dot(const mx_reference_call *call)
{
    const mx_dot_attrs *attrs = call->attrs;
    const mx_shape_t *a = &call->in_shape[0], *out = &call->out_shape[0];
    const int axes = out->ndim;
    const int64_t m = out->dim[axes - 2], n = out->dim[axes - 1], k = a->dim[attrs->transpose_a ? axes - 2 : axes - 1];
    for (int64_t i = 0; i < product(out, 0, axes - 2); i++)
        reference_matmul(call->in[0] + i * m * k, attrs->transpose_a, call->in[1] + i * k * n, attrs->transpose_b,
                         call->out[0] + i * m * n, m, n, k);
}

/* ---- FullyConnected: x W' + b ---------------------------------------------------------------------------------- */

/* The batch of data may follow from the output's. */
static mx_code infer_batch(mx_infer *infer)
{
    mx_shape_t x = infer->in[0];
    if (x.ndim < 1 || x.dim[0] >= 0 || infer->out[0].ndim < 1)
        return MX_OK;
    x.dim[0] = infer->out[0].dim[0];
    return mx_infer_in(infer, 0, &x);
}

/* -1: not known */
static int64_t features_of(const mx_dense_attrs *attrs, const mx_shape_t *x)
{
    if (!attrs->flatten)
        return x->dim[x->ndim - 1];
    for (int i = 1; i < x->ndim; i++)
        if (x->dim[i] < 0)
            return -1;
    return product(x, 1, x->ndim);
}

static mx_code infer_dense(mx_infer *infer)
{
    const mx_dense_attrs *attrs = infer->attrs;
    const mx_shape_t *x = &infer->in[0];
    if (infer_batch(infer))
        return mx_error_code();
    if (x->ndim < 0)
        return MX_OK;
    if (x->ndim < 1)
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "data has shape (), wanted at least one axis");
    mx_shape_t bias = {.ndim = 1, .dim = {attrs->num_hidden}},
               weight = matrix(attrs->num_hidden, features_of(attrs, x));
    mx_shape_t out = attrs->flatten ? matrix(x->dim[0], 0) : *x;
    out.dim[out.ndim - 1] = attrs->num_hidden;
    if (mx_infer_out(infer, 0, &out) || mx_infer_expects(infer, 1, 2, 1, 1, weight.dim[1], "features") ||
        mx_infer_in(infer, 1, &weight))
        return mx_error_code();
    return attrs->no_bias ? MX_OK : mx_infer_in(infer, 2, &bias);
}

static int count_dense_inputs(const void *attrs) { return ((const mx_dense_attrs *)attrs)->no_bias ? 2 : 3; }

/* dX = dY W,  dW = dY' X,  db = sum of dY over the rows */
static mx_code grad_dense(mx_grad *grad)
{
    const int64_t hidden = grad->in_shape[1].dim[0], features = grad->in_shape[1].dim[1];
    mx_shape_t data =
        matrix(product(&grad->in_shape[0], 0, grad->in_shape[0].ndim) / (features ? features : 1), features);
    mx_shape_t output = matrix(data.dim[0], hidden);
    mx_array *g = mx_g_reshape(grad->ograd[0], &output);
    bool ok = g != NULL;
    if (ok && grad->wanted[0])
        ok = (grad->igrad[0] = mx_g_reshape(multiply(g, false, grad->in[1], false), &grad->in_shape[0])) != NULL;
    if (ok && grad->wanted[1])
        ok = (grad->igrad[1] = multiply(g, true, mx_g_reshape(grad->in[0], &data), false)) != NULL;
    if (ok && grad->wanted[2])
        ok = (grad->igrad[2] = mx_g_sum_to(g, &grad->in_shape[2])) != NULL;
    return ok ? MX_OK : mx_error_code();
}

/* _dense_gradients(ograd (rows, hidden), data (rows, features)) -> weight's (hidden, features), bias's (hidden) */
static mx_code infer_dense_gradients(mx_infer *infer)
{
    const mx_shape_t *g = &infer->in[0], *x = &infer->in[1];
    if (!mx_shape_known(g) || !mx_shape_known(x))
        return MX_OK;
    if (g->ndim != 2 || x->ndim != 2 || g->dim[0] != x->dim[0]) {
        char left[MX_SHAPE_TEXT], right[MX_SHAPE_TEXT];
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "shapes %s and %s, wanted two matrices with equally many rows",
                          mx_shape_text(g, left), mx_shape_text(x, right));
    }
    const mx_shape_t weight = matrix(g->dim[1], x->dim[1]), bias = {.ndim = 1, .dim = {g->dim[1]}};
    return mx_infer_out(infer, 0, &weight) || mx_infer_out(infer, 1, &bias) ? mx_error_code() : MX_OK;
}

static void reference_dense_gradients(const mx_reference_call *call)
{
    const int64_t rows = call->in_shape[0].dim[0], hidden = call->in_shape[0].dim[1],
                  features = call->in_shape[1].dim[1];
    reference_matmul(call->in[0], true, call->in[1], false, call->out[0], hidden, features, rows);
    for (int64_t h = 0; h < hidden; h++)
        call->out[1][h] = 0;
    for (int64_t i = 0; i < rows * hidden; i++)
        call->out[1][i % hidden] += call->in[0][i];
}

/* _dot_relu_grad(lhs, rhs, output): dot(lhs, rhs) where output is positive, else 0 */
static mx_code infer_dot_relu_grad(mx_infer *infer)
{
    if (infer_dot(infer))
        return mx_error_code();
    return mx_shape_known(&infer->out[0]) ? mx_infer_in(infer, 2, &infer->out[0]) : MX_OK;
}

static void reference_dot_relu_grad(const mx_reference_call *call)
{
    reference_dot(call);
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = call->in[2][i] > 0 ? call->out[0][i] : 0;
}

static void reference_dense(const mx_reference_call *call)
{
    const mx_dense_attrs *attrs = call->attrs;
    const int64_t hidden = attrs->num_hidden, features = call->in_shape[1].dim[1];
    const int64_t rows = mx_shape_size(&call->out_shape[0]) / hidden;
    reference_matmul(call->in[0], false, call->in[1], true, call->out[0], rows, hidden, features);
    for (int64_t i = 0; i < rows * hidden && !attrs->no_bias && call->in[2]; i++)
        call->out[0][i] += call->in[2][i % hidden];
}

static void reference_dense_relu(const mx_reference_call *call)
{
    reference_dense(call);
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] = call->out[0][i] < 0 ? 0 : call->out[0][i];
}

static mx_code infer_dense_add(mx_infer *infer)
{
    if (infer_dense(infer))
        return mx_error_code();
    return mx_shape_known(&infer->out[0]) ? mx_infer_in(infer, 3, &infer->out[0]) : MX_OK;
}

static void reference_dense_add(const mx_reference_call *call)
{
    reference_dense(call);
    for (int64_t i = 0; i < mx_shape_size(&call->out_shape[0]); i++)
        call->out[0][i] += call->in[3][i];
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_dense(const mx_emit_call *n)
{
    const mx_dense_attrs *attrs = n->attrs;
    const int64_t k = n->in[1].shape->dim[1];
    mx_emit_open(n, "dense", 2);
    mx_emit_print(n, "%s, %lld, %lld, %lld", attrs->no_bias ? "NULL" : mx_emit_or_null(n, 2),
                  (long long)mx_emit_over(mx_shape_size(n->x), k), (long long)attrs->num_hidden, (long long)k);
    return mx_emit_close(n);
}

static mx_code emit_batch_dot(const mx_emit_call *n)
{
    const mx_dot_attrs *attrs = n->attrs;
    return mx_emit_matmul(n, attrs->transpose_a, attrs->transpose_b, 1);
}

/* A matrix on the right: all axes of the other but the last are rows. */
static mx_code emit_dot(const mx_emit_call *n)
{
    const mx_dot_attrs *attrs = n->attrs;
    const mx_shape_t *w = n->in[1].shape;
    if (n->x->ndim == 2 && w->ndim == 2)
        return emit_batch_dot(n);
    if (n->x->ndim < 2 || w->ndim != 2 || attrs->transpose_a)
        return mx_emit_fail(n, "only products with a matrix can be written as C");
    const int64_t k = n->x->dim[n->x->ndim - 1], columns = w->dim[attrs->transpose_b ? 0 : 1];
    mx_emit_open(n, "matmul", 2);
    mx_emit_print(n, "1, %lld, %lld, %lld, 0, %d", (long long)mx_emit_over(mx_shape_size(n->x), k), (long long)columns,
                  (long long)k, attrs->transpose_b);
    mx_emit_add(n, 1);
    return mx_emit_close(n);
}

mx_op mx_family_dot[] = {
    {.name = "dot", MX_EMIT(emit_dot), .methods = "dot", .sparse = MX_SPARSE_DOT, .sparse_gradient = true,
     .precision = MX_PRECISION_TARGET,
     .aliases = "_sparse_dot",
     .doc = "product that sums over the last axis of lhs and the first of rhs: y[i, j] = sum over k of lhs[i, k] rhs[k, j]", .inputs = "lhs rhs",
     .schema = &dot_schema, .infer_shape = infer_dot, .gradient = grad_dot, .grad_in = 3, .reference = reference_dot,
     .samples = SAMPLES({"2,3;3,4", "", 0, 0, NULL}, {"3,2;3,4", "transpose_a=True", 0, 0, NULL}, {"2,3;4,3", "transpose_b=True", 0, 0, NULL},
                        {"3,2;4,3", "transpose_a=True, transpose_b=True", 0, 0, NULL}, {"5;5", "", 0, 0, NULL}, {"2,3,4;4,5", "", 0, 0, NULL},
                        {"3;3,4", "", 0, 0, NULL}, {"2,3;3", "", 0, 0, NULL}, {"17,33;33,19", "", 0, 0, NULL})},
    {.name = "batch_dot", MX_EMIT(emit_batch_dot), .methods = "batch_dot", .precision = MX_PRECISION_TARGET,
     .aliases = "_npx_batch_dot",
     .doc = "batch of matrix products: y[b, i, j] = sum over k of lhs[b, i, k] rhs[b, k, j]", .inputs = "lhs rhs", .schema = &dot_schema,
     .infer_shape = infer_batch_dot, .gradient = grad_batch_dot, .grad_in = 3, .reference = reference_batch_dot,
     .samples = SAMPLES({"2,2,3;2,3,4", "", 0, 0, NULL}, {"2,3,2;2,3,4", "transpose_a=True", 0, 0, NULL},
                        {"2,2,3;2,4,3", "transpose_b=True", 0, 0, NULL}, {"2,3,2;2,4,3", "transpose_a=True, transpose_b=True", 0, 0, NULL})},
    {.name = "FullyConnected", MX_EMIT(emit_dense), .shows = "num_hidden", .look = MX_LOOK_WEIGHTS,
     .precision = MX_PRECISION_TARGET,
     .aliases = "_sparse_FullyConnected _npx_fully_connected",
     .doc = "data times the transposed weight, plus bias: y[n, h] = b[h] + sum over d of w[h, d] x[n, d]",
     .inputs = "data weight bias?", .schema = &dense_schema, .count_in = count_dense_inputs, .infer_shape = infer_dense,
     .gradient = grad_dense, .grad_in = 3, .reference = reference_dense,
     .samples = SAMPLES({"2,3;4,3;4", "num_hidden=4", 0, 0, NULL}, {"2,3;4,3", "num_hidden=4, no_bias=True", 0, 0, "absent:2"},
                        {"2,3,2;4,6;4", "num_hidden=4", 0, 0, NULL}, {"2,3,5;4,5;4", "num_hidden=4, flatten=False", 0, 0, NULL},
                        {"1,1;1,1;1", "num_hidden=1", 0, 0, NULL}, {"9,33;17,33;17", "num_hidden=17", 0, 0, NULL})},
    {.name = "_dense_gradients", .doc = "gradients of FullyConnected with respect to weight and bias, fused by plans",
     .inputs = "ograd data", .outputs = "weight bias", .n_out = 2, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT,
     .infer_shape = infer_dense_gradients, .reference = reference_dense_gradients,
     .samples = SAMPLES({"5,4;5,3", "", 0, 0, "floatonly"}, {"9,17;9,33", "", 0, 0, "floatonly"}, {"1,1;1,1", "", 0, 0, "floatonly"})},
    {.name = "_dot_relu_grad", .doc = "dot(lhs, rhs), then the gradient of the relu that computed output, fused by plans",
     .inputs = "lhs rhs output", .schema = &dot_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT,
     .infer_shape = infer_dot_relu_grad, .reference = reference_dot_relu_grad,
     .samples = SAMPLES({"2,3;3,4;2,4", "", 0, 0, "floatonly"}, {"9,17;17,33;9,33", "", 0, 0, "floatonly"},
                        {"3,2;4,3;2,4", "transpose_a=True, transpose_b=True", 0, 0, "floatonly"})},
    {.name = "_dense_relu", .doc = "relu(FullyConnected(...)), fused by plans", .inputs = "data weight bias?",
     .schema = &dense_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .count_in = count_dense_inputs,
     .infer_shape = infer_dense, .reference = reference_dense_relu,
     .samples = SAMPLES({"2,3;4,3;4", "num_hidden=4", 0, 0, NULL}, {"2,3;4,3", "num_hidden=4, no_bias=True", 0, 0, "absent:2"},
                        {"9,33;17,33;17", "num_hidden=17", 0, 0, NULL})},
    {.name = "_dense_add", .doc = "FullyConnected(...) + addend, fused by plans", .inputs = "data weight bias addend",
     .schema = &dense_schema, .flags = MX_OP_HIDDEN | MX_OP_NO_GRADIENT, .infer_shape = infer_dense_add, .reference = reference_dense_add,
     .samples = SAMPLES({"2,3;4,3;4;2,4", "num_hidden=4", 0, 0, "floatonly"}, {"9,33;17,33;17;9,17", "num_hidden=17", 0, 0, "floatonly"},
                        {"2,3,8;16,8;16;2,3,16", "num_hidden=16, flatten=False", 0, 0, "floatonly"})},
    {0},
};
