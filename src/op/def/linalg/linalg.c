/* Products and triangular solves of linear algebra: gemm, gemm2, syrk, trmm, trsm.
 *
 * Matrices are in the last two axes, one per leading index.  All gradients are products and solves.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "op/emit.h"
#include "op/formula/linalg.h"

#define GEMM_ATTRS(X) \
    X(BOOL, transpose_a, "False", "", "use A transposed") \
    X(BOOL, transpose_b, "False", "", "use B transposed") \
    X(FLOAT, alpha, "1.0", "", "factor of the product") \
    X(FLOAT, beta, "1.0", "", "factor of C") \
    X(INT, axis, "-2", "", "axis of the matrix rows; columns are the last axis")
MX_ATTRS(linalg_gemm, GEMM_ATTRS)

#define GEMM2_ATTRS(X) \
    X(BOOL, transpose_a, "False", "", "use A transposed") \
    X(BOOL, transpose_b, "False", "", "use B transposed") \
    X(FLOAT, alpha, "1.0", "", "factor of the product") \
    X(INT, axis, "-2", "", "axis of the matrix rows; columns are the last axis")
MX_ATTRS(linalg_gemm2, GEMM2_ATTRS)

#define TRIANGULAR_ATTRS(X) \
    X(BOOL, transpose, "False", "", "use A transposed") \
    X(BOOL, rightside, "False", "", "A is the right operand") \
    X(BOOL, lower, "True", "", "A is lower triangular, else upper; the other triangle is not read") \
    X(FLOAT, alpha, "1.0", "", "factor of B")
MX_ATTRS(linalg_triangular, TRIANGULAR_ATTRS)

#define SYRK_ATTRS(X) \
    X(BOOL, transpose, "False", "", "A' A instead of A A'") \
    X(FLOAT, alpha, "1.0", "", "factor of the product")
MX_ATTRS(linalg_syrk, SYRK_ATTRS)

/* ---- shared (linalg.h) ------------------------------------------------------------------------------------------- */

mx_code mx_linalg_check(const mx_infer *infer, int i, int least, bool square)
{
    const mx_shape_t *s = &infer->in[i];
    char text[MX_SHAPE_TEXT], name[64];
    const int n = s->ndim;
    if (n >= least && (!square || s->dim[n - 1] == s->dim[n - 2] || s->dim[n - 1] < 0 || s->dim[n - 2] < 0))
        return MX_OK;
    return mx_op_fail(infer->op, MX_ERR_SHAPE, "%s has shape %s, wanted %s%s", mx_op_input_name(infer->op, i, name),
                      mx_shape_text(s, text), square ? "square matrices (..., n, n)" : "matrices (..., m, n)",
                      least > 2 ? " and more axes" : "");
}

mx_code mx_linalg_infer_square(mx_infer *infer)
{
    if (mx_infer_out(infer, 0, &infer->in[0]) || mx_infer_in(infer, 0, &infer->out[0]))
        return mx_error_code();
    return infer->in[0].ndim < 0 ? MX_OK : mx_linalg_check(infer, 0, 2, true);
}

mx_code mx_linalg_infer_scalar(mx_infer *infer)
{
    mx_shape_t out = infer->in[0];
    if (out.ndim < 0)
        return MX_OK;
    if (mx_linalg_check(infer, 0, 2, true))
        return mx_error_code();
    out.ndim -= 2;
    if (!out.ndim)
        out = (mx_shape_t){.ndim = 1, .dim = {1}};
    for (int i = 0; i < infer->n_out; i++)
        if (mx_infer_out(infer, i, &out))
            return mx_error_code();
    return MX_OK;
}

static mx_array *product(mx_array *a, bool ta, mx_array *b, bool tb, double alpha, int64_t axis)
{
    mx_linalg_gemm2_attrs attrs = {ta, tb, alpha, axis};
    return mx_g_call(MX_OP("_linalg_gemm2"), &attrs, 2, (mx_array *const[]){a, b});
}

mx_array *mx_linalg_multiply(mx_array *a, bool ta, mx_array *b, bool tb, double alpha)
{
    return product(a, ta, b, tb, alpha, -2);
}

static mx_array *triangular(mx_op *op, mx_array *a, mx_array *b, bool transpose, bool right, bool lower, double alpha)
{
    mx_linalg_triangular_attrs attrs = {transpose, right, lower, alpha};
    return mx_g_call(op, &attrs, 2, (mx_array *const[]){a, b});
}

mx_array *mx_linalg_solve(mx_array *a, mx_array *b, bool transpose, bool right, bool lower)
{
    return triangular(MX_OP("_linalg_trsm"), a, b, transpose, right, lower, 1);
}

mx_array *mx_linalg_transpose(mx_array *a)
{
    struct { int64_t dim1, dim2; } attrs = {a ? a->ndim - 2 : 0, a ? a->ndim - 1 : 0};
    return mx_g_call(MX_OP("SwapAxis"), &attrs, 1, &a);
}

mx_array *mx_linalg_symmetric(mx_array *a) { return mx_g_scale(mx_g_add(a, mx_linalg_transpose(a)), 0.5); }

static mx_code done(const mx_grad *grad)
{
    for (int i = 0; i < grad->n_in; i++)
        if (grad->wanted[i] && !grad->igrad[i])
            return mx_error_code();
    return MX_OK;
}

/* ---- gemm, gemm2: alpha op(A) op(B) + beta C ------------------------------------------------------------------------ */

/* gemm and gemm2 as one struct. */
static mx_linalg_gemm_attrs gemm_attrs(const mx_op *op, const void *given)
{
    if (op->schema == &linalg_gemm_schema)
        return *(const mx_linalg_gemm_attrs *)given;
    const mx_linalg_gemm2_attrs *a = given;
    return (mx_linalg_gemm_attrs){a->transpose_a, a->transpose_b, a->alpha, 0, a->axis};
}

static mx_code gemm_misfit(const mx_infer *infer)
{
    char left[MX_SHAPE_TEXT], right[MX_SHAPE_TEXT];
    const mx_linalg_gemm_attrs attrs = gemm_attrs(infer->op, infer->attrs);
    return mx_op_fail(infer->op, MX_ERR_SHAPE,
                      "A %s and B %s (transpose_a=%d, transpose_b=%d, axis=%lld) do not fit: wanted (..., m, k) and "
                      "(..., k, n) with all other axes equal",
                      mx_shape_text(&infer->in[0], left), mx_shape_text(&infer->in[1], right), attrs.transpose_a,
                      attrs.transpose_b, (long long)attrs.axis);
}

static mx_code infer_gemm(mx_infer *infer)
{
    const mx_linalg_gemm_attrs attrs = gemm_attrs(infer->op, infer->attrs);
    const mx_shape_t *a = &infer->in[0], *b = &infer->in[1];
    if (!mx_shape_known(a) || !mx_shape_known(b))
        return MX_OK;
    const int n = a->ndim, row = mx_axis(attrs.axis, n);
    bool fits = n >= 2 && b->ndim == n && row >= 0 && row < n - 1;
    for (int i = 0; fits && i < n - 1; i++)
        fits = i == row || a->dim[i] == b->dim[i];
    if (!fits || a->dim[attrs.transpose_a ? row : n - 1] != b->dim[attrs.transpose_b ? n - 1 : row])
        return gemm_misfit(infer);
    mx_shape_t out = *a;
    out.dim[row] = a->dim[attrs.transpose_a ? n - 1 : row];
    out.dim[n - 1] = b->dim[attrs.transpose_b ? row : n - 1];
    if (infer->n_in > 2 && mx_infer_in(infer, 2, &out))
        return mx_error_code();
    return mx_infer_out(infer, 0, &out);
}

/* dA = alpha dO op(B)', dB = alpha op(A)' dO, each transposed where the input was; dC = beta dO */
static mx_code grad_gemm(mx_grad *grad)
{
    const mx_linalg_gemm_attrs p = gemm_attrs(grad->op, grad->attrs);
    mx_array *g = grad->ograd[0], *a = grad->in[0], *b = grad->in[1];
    if (grad->wanted[0])
        grad->igrad[0] = p.transpose_a ? product(b, p.transpose_b, g, true, p.alpha, p.axis)
                                       : product(g, false, b, !p.transpose_b, p.alpha, p.axis);
    if (grad->wanted[1])
        grad->igrad[1] = p.transpose_b ? product(g, true, a, p.transpose_a, p.alpha, p.axis)
                                       : product(a, !p.transpose_a, g, false, p.alpha, p.axis);
    if (grad->n_in > 2 && grad->wanted[2])
        grad->igrad[2] = mx_g_scale(g, p.beta);
    return done(grad);
}

/* Element (row, column) of matrix number `which`, with the rows on `axis`. */
static double at(const double *x, const mx_shape_t *s, int axis, int64_t which, int64_t row, int64_t column)
{
    int64_t inner = 1;
    for (int i = axis + 1; i < s->ndim - 1; i++)
        inner *= s->dim[i];
    return x[((which / inner * s->dim[axis] + row) * inner + which % inner) * s->dim[s->ndim - 1] + column];
}

static void reference_gemm(const mx_reference_call *call, mx_linalg_gemm_attrs p)
{
    const mx_shape_t *a = &call->in_shape[0], *b = &call->in_shape[1], *out = &call->out_shape[0];
    const int axis = mx_axis(p.axis, out->ndim);
    const int64_t m = out->dim[axis], n = out->dim[out->ndim - 1], k = a->dim[p.transpose_a ? axis : a->ndim - 1];
    int64_t inner = 1;
    for (int i = axis + 1; i < out->ndim - 1; i++)
        inner *= out->dim[i];
    for (int64_t e = 0; e < mx_shape_size(out); e++) {
        const int64_t j = e % n, which = e / n / inner / m * inner + e / n % inner, i = e / n / inner % m;
        double sum = 0;
        for (int64_t q = 0; q < k; q++)
            sum += (p.transpose_a ? at(call->in[0], a, axis, which, q, i) : at(call->in[0], a, axis, which, i, q)) *
                   (p.transpose_b ? at(call->in[1], b, axis, which, j, q) : at(call->in[1], b, axis, which, q, j));
        call->out[0][e] = p.alpha * sum + (call->n_in > 2 ? p.beta * call->in[2][e] : 0);
    }
}
static void ref_gemm(const mx_reference_call *call)
{
    reference_gemm(call, *(const mx_linalg_gemm_attrs *)call->attrs);
}
static void ref_gemm2(const mx_reference_call *call)
{
    const mx_linalg_gemm2_attrs *a = call->attrs;
    reference_gemm(call, (mx_linalg_gemm_attrs){a->transpose_a, a->transpose_b, a->alpha, 0, a->axis});
}

/* ---- syrk: alpha A A' ------------------------------------------------------------------------------------------------ */

static mx_code infer_syrk(mx_infer *infer)
{
    const mx_linalg_syrk_attrs *attrs = infer->attrs;
    mx_shape_t out = infer->in[0];
    if (out.ndim < 0)
        return MX_OK;
    if (mx_linalg_check(infer, 0, 2, false))
        return mx_error_code();
    out.dim[out.ndim - 1] = out.dim[out.ndim - 2] = out.dim[out.ndim - (attrs->transpose ? 1 : 2)];
    return mx_infer_out(infer, 0, &out);
}

/* dA = alpha (dO + dO') A, or alpha A (dO + dO') */
static mx_code grad_syrk(mx_grad *grad)
{
    const mx_linalg_syrk_attrs *attrs = grad->attrs;
    mx_array *g = mx_linalg_symmetric(grad->ograd[0]), *a = grad->in[0];
    grad->igrad[0] = attrs->transpose ? mx_linalg_multiply(a, false, g, false, 2 * attrs->alpha)
                                      : mx_linalg_multiply(g, false, a, false, 2 * attrs->alpha);
    return done(grad);
}

static void ref_syrk(const mx_reference_call *call)
{
    const mx_linalg_syrk_attrs *attrs = call->attrs;
    const mx_matrices in = mx_matrices_of(&call->in_shape[0]);
    const int64_t n = attrs->transpose ? in.columns : in.rows, depth = attrs->transpose ? in.rows : in.columns;
    for (int64_t e = 0; e < in.batch * n * n; e++) {
        const double *a = call->in[0] + e / n / n * in.rows * in.columns;
        const int64_t i = e / n % n, j = e % n;
        double sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += attrs->transpose ? a[k * n + i] * a[k * n + j] : a[i * depth + k] * a[j * depth + k];
        call->out[0][e] = attrs->alpha * sum;
    }
}

/* ---- trmm: alpha op(A) B, trsm: op(A) X = alpha B ---------------------------------------------------------------------- */

static mx_code infer_triangular(mx_infer *infer)
{
    const mx_linalg_triangular_attrs *attrs = infer->attrs;
    if (mx_infer_out(infer, 0, &infer->in[1]) || mx_infer_in(infer, 1, &infer->out[0]))
        return mx_error_code();
    const mx_shape_t *b = &infer->in[1];
    if (infer->in[0].ndim >= 0 && mx_linalg_check(infer, 0, 2, true))
        return mx_error_code();
    if (b->ndim < 0)
        return MX_OK;
    if (mx_linalg_check(infer, 1, 2, false))
        return mx_error_code();
    mx_shape_t a = *b;
    a.dim[a.ndim - 1] = a.dim[a.ndim - 2] = b->dim[b->ndim - (attrs->rightside ? 1 : 2)];
    return mx_infer_in(infer, 0, &a);
}

/* Left: dB = alpha op(A)' dO and dA = alpha dO B' (its transpose when A was); right: mirrored.  Only A's triangle. */
static mx_code grad_trmm(mx_grad *grad)
{
    const mx_linalg_triangular_attrs *p = grad->attrs;
    mx_array *g = grad->ograd[0], *a = grad->in[0], *b = grad->in[1];
    if (grad->wanted[1])
        grad->igrad[1] = triangular(MX_OP("_linalg_trmm"), a, g, !p->transpose, p->rightside, p->lower, p->alpha);
    if (grad->wanted[0]) {
        mx_array *full = p->rightside == p->transpose ? mx_linalg_multiply(g, p->rightside, b, !p->rightside, p->alpha)
                                                      : mx_linalg_multiply(b, p->rightside, g, !p->rightside, p->alpha);
        grad->igrad[0] = mx_linalg_triangle(full, p->lower, 1);
    }
    return done(grad);
}

/* Left: with G the solution of op(A)' G = dX, dB = alpha G and dA = -G X' (its transpose when A was); right: mirrored. */
static mx_code grad_trsm(mx_grad *grad)
{
    const mx_linalg_triangular_attrs *p = grad->attrs;
    mx_array *x = grad->out[0],
             *g = mx_linalg_solve(grad->in[0], grad->ograd[0], !p->transpose, p->rightside, p->lower);
    if (grad->wanted[1])
        grad->igrad[1] = mx_g_scale(g, p->alpha);
    if (grad->wanted[0]) {
        mx_array *full = p->rightside == p->transpose ? mx_linalg_multiply(g, p->rightside, x, !p->rightside, -1)
                                                      : mx_linalg_multiply(x, p->rightside, g, !p->rightside, -1);
        grad->igrad[0] = mx_linalg_triangle(full, p->lower, 1);
    }
    return done(grad);
}

/* op(A)[i][j] with zeros outside the triangle */
static double element(const mx_linalg_triangular_attrs *p, const double *a, int64_t n, int64_t i, int64_t j)
{
    const int64_t row = p->transpose ? j : i, column = p->transpose ? i : j;
    return (p->lower ? row >= column : row <= column) ? a[row * n + column] : 0;
}

static void ref_trmm(const mx_reference_call *call)
{
    const mx_linalg_triangular_attrs *p = call->attrs;
    const mx_matrices b = mx_matrices_of(&call->in_shape[1]);
    const int64_t n = p->rightside ? b.columns : b.rows;
    for (int64_t e = 0; e < b.batch * b.rows * b.columns; e++) {
        const int64_t which = e / b.rows / b.columns, i = e / b.columns % b.rows, j = e % b.columns;
        const double *A = call->in[0] + which * n * n, *B = call->in[1] + which * b.rows * b.columns;
        double sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += p->rightside ? B[i * b.columns + k] * element(p, A, n, k, j)
                                : element(p, A, n, i, k) * B[k * b.columns + j];
        call->out[0][e] = p->alpha * sum;
    }
}

/* One unknown vector x of `n` numbers `step` apart: op(A) x = x, or x op(A) = x. */
static void ref_solve(const mx_linalg_triangular_attrs *p, const double *a, int64_t n, double *x, int64_t step)
{
    const bool forward = (p->lower != p->transpose) != p->rightside;
    for (int64_t s = 0; s < n; s++) {
        const int64_t i = forward ? s : n - 1 - s;
        for (int64_t r = 0; r < s; r++) {
            const int64_t k = forward ? r : n - 1 - r;
            x[i * step] -= x[k * step] * (p->rightside ? element(p, a, n, k, i) : element(p, a, n, i, k));
        }
        x[i * step] /= a[i * n + i];
    }
}

static void ref_trsm(const mx_reference_call *call)
{
    const mx_linalg_triangular_attrs *p = call->attrs;
    const mx_matrices b = mx_matrices_of(&call->in_shape[1]);
    const int64_t n = p->rightside ? b.columns : b.rows, others = p->rightside ? b.rows : b.columns;
    for (int64_t e = 0; e < b.batch * b.rows * b.columns; e++)
        call->out[0][e] = p->alpha * call->in[1][e];
    for (int64_t e = 0; e < b.batch * others; e++)
        ref_solve(p, call->in[0] + e / others * n * n, n,
                  call->out[0] + e / others * n * others + e % others * (p->rightside ? n : 1),
                  p->rightside ? 1 : others);
}

/* ---- as C text (op/emit.h) ---------------------------------------------------------------------------------------- */

static mx_code emit_gemm2(const mx_emit_call *n)
{
    const mx_linalg_gemm2_attrs *attrs = n->attrs;
    if (attrs->axis != -2)
        return mx_emit_fail(n, "axis=%lld cannot be written as C, only -2", (long long)attrs->axis);
    return mx_emit_matmul(n, attrs->transpose_a, attrs->transpose_b, attrs->alpha);
}

/* ---- the table -------------------------------------------------------------------------------------------------------- */

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
#define TRIANGULAR_SAMPLES SAMPLES({"3,3;3,4", "", 0, 0, "floatonly dominant"}, {"2,3,3;2,3,2", "transpose=True, alpha=2", 0, 0, "floatonly dominant"}, \
    {"4,4;3,4", "rightside=True", 0, 0, "floatonly dominant"}, {"2,4,4;2,3,4", "rightside=True, transpose=True, alpha=-0.5", 0, 0, "floatonly dominant"}, \
    {"3,3;3,4", "lower=False", 0, 0, "floatonly dominant"}, {"3,3;3,4", "lower=False, transpose=True", 0, 0, "floatonly dominant"}, \
    {"1,1;3,1", "lower=False, rightside=True", 0, 0, "floatonly dominant"}, {"4,4;3,4", "lower=False, rightside=True, transpose=True", 0, 0, "floatonly dominant"}, \
    {"70,70;70,5", "alpha=3", 0, 0, "floatonly dominant nograd"}, {"70,70;70,5", "transpose=True", 0, 0, "floatonly dominant nograd"}, \
    {"5,5;70,5", "rightside=True", 0, 0, "floatonly dominant nograd"}, {"67,67;3,67", "rightside=True, lower=False", 0, 0, "floatonly dominant nograd"})
mx_op mx_family_linalg[] = {
    {.name = "_linalg_gemm", .precision = MX_PRECISION_TARGET, .aliases = "linalg_gemm", .c_name = "linalg_gemm",
     .inputs = "A B C", .schema = &linalg_gemm_schema,
     .doc = "alpha op(A) op(B) + beta C, for each matrix of a batch", .infer_shape = infer_gemm, .gradient = grad_gemm, .grad_in = 3, .reference = ref_gemm,
     .samples = SAMPLES({"2,3;3,4;2,4", "", 0, 0, "floatonly"}, {"2,3,2;2,4,3;2,2,4", "transpose_a=True, transpose_b=True, alpha=2, beta=0.5", 0, 0, "floatonly"},
                        {"2,3,4;4,3,5;2,3,5", "axis=-3, alpha=0.5", 0, 0, "floatonly"}, {"2,4,3,2;2,4,3,5;2,2,3,5", "axis=1, transpose_a=True", 0, 0, "floatonly"})},
    {.name = "_linalg_gemm2", MX_EMIT(emit_gemm2), .precision = MX_PRECISION_TARGET, .aliases = "linalg_gemm2",
     .c_name = "linalg_gemm2",
     .inputs = "A B", .schema = &linalg_gemm2_schema,
     .doc = "alpha op(A) op(B), for each matrix of a batch", .infer_shape = infer_gemm, .gradient = grad_gemm, .grad_in = 3, .reference = ref_gemm2,
     .samples = SAMPLES({"2,3;3,4", "", 0, 0, "floatonly"}, {"2,3,2;2,3,4", "transpose_a=True, alpha=2", 0, 0, "floatonly"}, {"2,2,3;2,4,3", "transpose_b=True", 0, 0, "floatonly"},
                        {"3,4,2;2,4,5", "axis=0", 0, 0, "floatonly"}, {"19,33;33,17", "", 0, 0, "floatonly"})},
    {.name = "_linalg_syrk", .aliases = "linalg_syrk", .c_name = "linalg_syrk", .inputs = "A", .schema = &linalg_syrk_schema,
     .doc = "alpha A A', or alpha A' A, for each matrix of a batch", .infer_shape = infer_syrk, .gradient = grad_syrk, .grad_in = 1, .reference = ref_syrk,
     .samples = SAMPLES({"2,3", "", 0, 0, "floatonly"}, {"2,3,4", "transpose=True, alpha=0.5", 0, 0, "floatonly"})},
    {.name = "_linalg_trmm", .aliases = "linalg_trmm", .c_name = "linalg_trmm", .inputs = "A B", .schema = &linalg_triangular_schema,
     .doc = "product with a triangular matrix: alpha op(A) B, or alpha B op(A)", .infer_shape = infer_triangular, .gradient = grad_trmm, .grad_in = 3,
     .reference = ref_trmm, .samples = TRIANGULAR_SAMPLES},
    {.name = "_linalg_trsm", .precision = MX_PRECISION_FLOAT32, .aliases = "linalg_trsm", .c_name = "linalg_trsm",
     .inputs = "A B", .schema = &linalg_triangular_schema,
     .doc = "solves with a triangular matrix: op(A) X = alpha B, or X op(A) = alpha B", .infer_shape = infer_triangular, .gradient = grad_trsm,
     .grad_in = 1, .grad_out = 1, .reference = ref_trsm, .samples = TRIANGULAR_SAMPLES},
    {0},
};
