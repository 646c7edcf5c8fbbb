/* Factorisations: potrf, potri, inverse, solve, det, slogdet, sumlogdiag.
 *
 * Matrices are in the last two axes.  Gradients are products and triangular solves, so every order works.  The
 * gradient of a symmetric matrix is symmetric.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "op/formula/linalg.h"

#define POTRF_ATTRS(X) X(BOOL, lower, "True", "", "factor A = L L' with L lower triangular; else A = U' U")
MX_ATTRS(linalg_potrf, POTRF_ATTRS)

static mx_array *flip(mx_array *a, bool yes) { return yes ? mx_linalg_transpose(a) : a; }

/* ---- potrf: A = L L' -------------------------------------------------------------------------------------------- */

/* With P = the lower triangle of L' dL, diagonal halved: dA = L'^-1 (P + P') / 2 L^-1 */
static mx_code grad_potrf(mx_grad *grad)
{
    const bool upper = !((const mx_linalg_potrf_attrs *)grad->attrs)->lower;
    mx_array *l = flip(grad->out[0], upper), *g = flip(grad->ograd[0], upper);
    mx_array *p = mx_linalg_symmetric(mx_linalg_triangle(mx_linalg_multiply(l, true, g, false, 1), true, 0.5));
    return mx_give(grad, 0, mx_linalg_solve(l, mx_linalg_solve(l, p, true, false, true), false, true, true));
}

static void cholesky(const double *a, double *l, int64_t n)
{
    memset(l, 0, (size_t)(n * n) * sizeof *l);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = a[i * n + j];
            for (int64_t k = 0; k < j; k++)
                sum -= l[i * n + k] * l[j * n + k];
            l[i * n + j] = i == j ? sqrt(sum) : sum / l[j * n + j];
        }
}

static void transpose_in_place(double *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            const double swap = a[i * n + j];
            a[i * n + j] = a[j * n + i];
            a[j * n + i] = swap;
        }
}

static void ref_potrf(const mx_reference_call *call)
{
    const mx_matrices m = mx_matrices_of(&call->in_shape[0]);
    for (int64_t b = 0; b < m.batch; b++) {
        double *out = call->out[0] + b * m.rows * m.rows;
        cholesky(call->in[0] + b * m.rows * m.rows, out, m.rows);
        if (!((const mx_linalg_potrf_attrs *)call->attrs)->lower)
            transpose_in_place(out, m.rows);
    }
}

/* ---- potri: (L L')^-1 from L ---------------------------------------------------------------------------------------- */

/* B = (L L')^-1: dL = the lower triangle of -B (dB + dB') L'^-1 */
static mx_code grad_potri(mx_grad *grad)
{
    const bool upper = !((const mx_linalg_potrf_attrs *)grad->attrs)->lower;
    mx_array *l = flip(grad->in[0], upper), *g = mx_linalg_symmetric(grad->ograd[0]);
    mx_array *p = mx_linalg_solve(l, mx_linalg_multiply(grad->out[0], false, g, false, -2), true, true, true);
    return mx_give(grad, 0, flip(mx_linalg_triangle(p, true, 1), upper));
}

/* Gauss-Jordan with the largest pivot; destroys a; returns the determinant (0: b is not the inverse). */
static double invert(double *a, double *b, int64_t n)
{
    double determinant = 1;
    for (int64_t e = 0; e < n * n; e++)
        b[e] = e / n == e % n;
    for (int64_t k = 0; k < n; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < n; i++)
            best = fabs(a[i * n + k]) > fabs(a[best * n + k]) ? i : best;
        determinant *= (best == k ? 1 : -1) * a[best * n + k];
        if (a[best * n + k] == 0)
            return 0;
        for (int64_t j = 0; j < n; j++) {
            const double x = a[k * n + j], y = b[k * n + j];
            a[k * n + j] = a[best * n + j], b[k * n + j] = b[best * n + j];
            a[best * n + j] = x, b[best * n + j] = y;
        }
        const double pivot = a[k * n + k];
        for (int64_t j = 0; j < n; j++)
            a[k * n + j] /= pivot, b[k * n + j] /= pivot;
        for (int64_t i = 0; i < n; i++) {
            const double factor = a[i * n + k];
            for (int64_t j = 0; j < n && i != k; j++)
                a[i * n + j] -= factor * a[k * n + j], b[i * n + j] -= factor * b[k * n + j];
        }
    }
    return determinant;
}

#define LARGEST 64 /* rows of a matrix in a sample */

static void ref_potri(const mx_reference_call *call)
{
    const bool lower = ((const mx_linalg_potrf_attrs *)call->attrs)->lower;
    const mx_matrices m = mx_matrices_of(&call->in_shape[0]);
    static double product[LARGEST * LARGEST];
    const int64_t n = m.rows;
    for (int64_t b = 0; b < m.batch; b++) {
        const double *l = call->in[0] + b * n * n;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;
                for (int64_t k = 0; k <= i && k <= j; k++)
                    sum += lower ? l[i * n + k] * l[j * n + k] : l[k * n + i] * l[k * n + j];
                product[i * n + j] = sum;
            }
        invert(product, call->out[0] + b * n * n, n);
    }
}

/* ---- inverse ------------------------------------------------------------------------------------------------------- */

/* B = A^-1: dA = -B' dB B' */
static mx_code grad_inverse(mx_grad *grad)
{
    mx_array *b = grad->out[0];
    return mx_give(grad, 0,
                   mx_linalg_multiply(mx_linalg_multiply(b, true, grad->ograd[0], false, -1), false, b, true, 1));
}

static void ref_inverse(const mx_reference_call *call)
{
    const mx_matrices m = mx_matrices_of(&call->in_shape[0]);
    static double copy[LARGEST * LARGEST];
    for (int64_t b = 0; b < m.batch; b++) {
        memcpy(copy, call->in[0] + b * m.rows * m.rows, (size_t)(m.rows * m.rows) * sizeof *copy);
        invert(copy, call->out[0] + b * m.rows * m.rows, m.rows);
    }
}

/* ---- solve: A X = B ------------------------------------------------------------------------------------------------- */

static mx_code infer_solve(mx_infer *infer)
{
    const mx_shape_t *a = &infer->in[0];
    char text[2][MX_SHAPE_TEXT];
    if (mx_infer_out(infer, 0, &infer->in[1]) || mx_infer_in(infer, 1, &infer->out[0]))
        return mx_error_code();
    const mx_shape_t *b = &infer->in[1];
    if (!mx_shape_known(a) || !mx_shape_known(b))
        return MX_OK;
    if (mx_linalg_check(infer, 0, 2, true))
        return mx_error_code();
    bool fits = a->ndim == b->ndim || a->ndim - 1 == b->ndim; /* matrices or vectors */
    for (int i = 0; fits && i < a->ndim - 1; i++)
        fits = a->dim[i] == b->dim[i];
    return fits ? MX_OK
                : mx_op_fail(infer->op, MX_ERR_SHAPE,
                             "A has shape %s, B %s; wanted matrices or vectors with the rows of A",
                             mx_shape_text(a, text[0]), mx_shape_text(b, text[1]));
}

/* dB = A'^-1 dX, dA = -dB X' */
static mx_code grad_solve(mx_grad *grad)
{
    mx_array *g = mx_g2("_npi_solve", mx_linalg_transpose(grad->in[0]), grad->ograd[0]), *columns = g,
             *x = grad->out[0];
    mx_shape_t shape = grad->in_shape[1];
    if (shape.ndim < grad->in_shape[0].ndim) { /* vectors as matrices of one column */
        shape.dim[shape.ndim++] = 1;
        columns = mx_g_reshape(g, &shape), x = mx_g_reshape(x, &shape);
    }
    if (grad->wanted[0] && mx_give(grad, 0, mx_linalg_multiply(columns, false, x, true, -1)))
        return mx_error_code();
    return mx_give(grad, 1, g);
}

static void ref_solve(const mx_reference_call *call)
{
    const mx_matrices m = mx_matrices_of(&call->in_shape[0]);
    const bool vectors = call->in_shape[1].ndim < call->in_shape[0].ndim;
    const mx_matrices x = {m.batch, m.rows, vectors ? 1 : mx_matrices_of(&call->in_shape[1]).columns};
    static double copy[LARGEST * LARGEST], inverse[LARGEST * LARGEST];
    for (int64_t b = 0; b < m.batch; b++) {
        const double *right = call->in[1] + b * x.rows * x.columns;
        memcpy(copy, call->in[0] + b * m.rows * m.rows, (size_t)(m.rows * m.rows) * sizeof *copy);
        invert(copy, inverse, m.rows);
        for (int64_t e = 0; e < x.rows * x.columns; e++) {
            double sum = 0;
            for (int64_t k = 0; k < x.rows; k++)
                sum += inverse[e / x.columns * m.rows + k] * right[k * x.columns + e % x.columns];
            call->out[0][b * x.rows * x.columns + e] = sum;
        }
    }
}

/* ---- det, slogdet ---------------------------------------------------------------------------------------------------- */

/* The gradient of a determinant per matrix, times A'^-1; zero where A is singular. */
static mx_code scaled_inverse(mx_grad *grad, mx_array *scale)
{
    mx_shape_t shape = grad->in_shape[0];
    shape.dim[shape.ndim - 2] = shape.dim[shape.ndim - 1] = 1;
    mx_array *inverse = mx_linalg_transpose(mx_g1("_linalg_inverse_or_zero", grad->in[0]));
    return mx_give(grad, 0, mx_g_mul(mx_g_reshape(scale, &shape), inverse));
}

static mx_code grad_det(mx_grad *grad) { return scaled_inverse(grad, mx_g_mul(grad->ograd[0], grad->out[0])); }
static mx_code grad_slogdet(mx_grad *grad) /* the sign is piecewise constant */
{
    return grad->ograd[1] ? scaled_inverse(grad, grad->ograd[1]) : MX_OK;
}

static double determinant(const double *a, int64_t n)
{
    static double copy[LARGEST * LARGEST], unused[LARGEST * LARGEST];
    memcpy(copy, a, (size_t)(n * n) * sizeof *copy);
    return invert(copy, unused, n);
}

static void ref_det(const mx_reference_call *call)
{
    const mx_matrices m = mx_matrices_of(&call->in_shape[0]);
    for (int64_t b = 0; b < m.batch; b++)
        call->out[0][b] = determinant(call->in[0] + b * m.rows * m.rows, m.rows);
}

static void ref_slogdet(const mx_reference_call *call)
{
    const mx_matrices m = mx_matrices_of(&call->in_shape[0]);
    for (int64_t b = 0; b < m.batch; b++) {
        const double value = determinant(call->in[0] + b * m.rows * m.rows, m.rows);
        call->out[0][b] = (value > 0) - (value < 0);
        call->out[1][b] = log(fabs(value));
    }
}

/* ---- sumlogdiag -------------------------------------------------------------------------------------------------------- */

static mx_code grad_sumlogdiag(mx_grad *grad)
{
    mx_array *diagonal = mx_g1("_linalg_extractdiag", grad->in[0]);
    mx_shape_t shape = grad->in_shape[0];
    shape.dim[--shape.ndim - 1] = 1;
    return mx_give(grad, 0, mx_g1("_linalg_makediag", mx_g_div(mx_g_reshape(grad->ograd[0], &shape), diagonal)));
}

static void ref_sumlogdiag(const mx_reference_call *call)
{
    const mx_matrices m = mx_matrices_of(&call->in_shape[0]);
    for (int64_t b = 0; b < m.batch; b++) {
        call->out[0][b] = 0;
        for (int64_t i = 0; i < m.rows; i++)
            call->out[0][b] += log(call->in[0][(b * m.rows + i) * m.rows + i]);
    }
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
#define SQUARE "floatonly dominant"
#define SYMMETRIC "floatonly dominant symmetric"
#define INVERSE_SAMPLES SAMPLES({"3,3", "", 0, 0, SQUARE}, {"2,4,4", "", 0, 0, SQUARE}, {"1,1", "", 0, 0, SQUARE}, {"50,50", "", 0, 0, SQUARE " nograd"})
mx_op mx_family_linalg_factor[] = {
    {.name = "_linalg_potrf", .precision = MX_PRECISION_FLOAT32, .aliases = "linalg_potrf", .c_name = "linalg_potrf",
     .inputs = "A", .schema = &linalg_potrf_schema,
     .doc = "Cholesky factor of symmetric positive definite matrices; only one triangle is read", .infer_shape = mx_linalg_infer_square,
     .gradient = grad_potrf, .grad_out = 1, .reference = ref_potrf,
     .samples = SAMPLES({"3,3", "", 0, 0, SYMMETRIC}, {"2,3,3", "lower=False", 0, 0, SYMMETRIC}, {"1,1", "", 0, 0, SYMMETRIC}, {"45,45", "", 0, 0, SYMMETRIC " nograd"})},
    {.name = "_linalg_potri", .precision = MX_PRECISION_FLOAT32, .aliases = "linalg_potri", .c_name = "linalg_potri",
     .inputs = "A", .schema = &linalg_potrf_schema,
     .doc = "the inverse of a matrix, from its Cholesky factor", .infer_shape = mx_linalg_infer_square, .gradient = grad_potri,
     .grad_in = 1, .grad_out = 1, .reference = ref_potri,
     .samples = SAMPLES({"3,3", "", 0, 0, SQUARE}, {"2,3,3", "lower=False", 0, 0, SQUARE}, {"50,50", "", 0, 0, SQUARE " nograd"})},
    {.name = "_linalg_inverse", .precision = MX_PRECISION_FLOAT32, .aliases = "linalg_inverse _npi_inv",
     .c_name = "linalg_inverse", .inputs = "A", .doc = "the inverse of square matrices",
     .infer_shape = mx_linalg_infer_square, .gradient = grad_inverse, .grad_out = 1, .reference = ref_inverse, .samples = INVERSE_SAMPLES},
    {.name = "_linalg_inverse_or_zero", .inputs = "A", .doc = "the inverse, or zeros for a singular matrix", .flags = MX_OP_HIDDEN,
     .infer_shape = mx_linalg_infer_square, .gradient = grad_inverse, .grad_out = 1, .reference = ref_inverse, .samples = INVERSE_SAMPLES},
    {.name = "_npi_solve", .precision = MX_PRECISION_FLOAT32, .c_name = "linalg_gesv", .inputs = "A B",
     .doc = "X such that A X = B, for square matrices A, by L U factorisation with row exchanges",
     .infer_shape = infer_solve, .gradient = grad_solve, .grad_in = 1, .grad_out = 1, .reference = ref_solve,
     .samples = SAMPLES({"3,3;3,2", "", 0, 0, SQUARE}, {"2,4,4;2,4,1", "", 0, 0, SQUARE}, {"2,3,3;2,3", "", 0, 0, SQUARE}, {"3,3;3", "", 0, 0, SQUARE}, {"1,1;1,3", "", 0, 0, SQUARE}, {"50,50;50,7", "", 0, 0, SQUARE " nograd"})},
    {.name = "_linalg_det", .precision = MX_PRECISION_FLOAT32, .aliases = "linalg_det _npi_det",
     .c_name = "linalg_det", .inputs = "A", .doc = "the determinant of square matrices",
     .infer_shape = mx_linalg_infer_scalar, .gradient = grad_det, .grad_in = 1, .grad_out = 1, .reference = ref_det,
     .samples = SAMPLES({"3,3", "", 0, 0, "floatonly"}, {"2,4,4", "", 0, 0, "floatonly"}, {"2,3,1,1", "", 0, 0, "floatonly"})},
    {.name = "_linalg_slogdet", .aliases = "linalg_slogdet _npi_slogdet", .c_name = "linalg_slogdet", .inputs = "A", .outputs_numbered = true, .outputs = "sign logabsdet", .n_out = 2,
     .doc = "sign and logarithm of the absolute value of the determinant", .infer_shape = mx_linalg_infer_scalar, .gradient = grad_slogdet,
     .grad_in = 1, .reference = ref_slogdet, .samples = SAMPLES({"3,3", "", 0, 0, SQUARE}, {"2,4,4", "", 0, 0, SQUARE})},
    {.name = "_linalg_sumlogdiag", .precision = MX_PRECISION_FLOAT32, .aliases = "linalg_sumlogdiag",
     .c_name = "linalg_sumlogdiag", .inputs = "A",
     .doc = "sum of the logarithms of the diagonal", .infer_shape = mx_linalg_infer_scalar, .gradient = grad_sumlogdiag, .grad_in = 1,
     .reference = ref_sumlogdiag, .samples = SAMPLES({"3,3", "", 0, 0, SQUARE}, {"2,4,4", "", 0, 0, SQUARE})},
    {0},
};
