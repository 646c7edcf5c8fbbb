/* Orthogonal factorisations: gelqf (A = L Q) and syevd (A = U' diag(L) U, of symmetric matrices).
 *
 * Matrices stand in the last two axes.  Gradients are products and triangular solves, so every order works.  Where a
 * matrix is symmetric its gradient is, too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "op/formula/linalg.h"

#define LARGEST 64 /* rows of a matrix in a sample */

/* ---- gelqf: A = L Q ------------------------------------------------------------------------------------------------- */

static mx_code infer_gelqf(mx_infer *infer)
{
    const mx_shape_t *a = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (mx_infer_out(infer, 0, a) || mx_infer_in(infer, 0, &infer->out[0]))
        return mx_error_code();
    if (!mx_shape_known(a))
        return MX_OK;
    if (mx_linalg_check(infer, 0, 2, false))
        return mx_error_code();
    if (a->dim[a->ndim - 2] > a->dim[a->ndim - 1])
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "A has shape %s, wanted no more rows than columns",
                          mx_shape_text(a, text));
    mx_shape_t l = *a; /* now that it is known, perhaps from Q */
    l.dim[l.ndim - 1] = l.dim[l.ndim - 2];
    return mx_infer_out(infer, 1, &l);
}

/* With M = L' dL - dQ Q' and its lower triangle copied to the upper: dA = L'^-1 (dQ + M Q) */
static mx_code grad_gelqf(mx_grad *grad)
{
    mx_array *q = grad->out[0], *l = grad->out[1];
    mx_array *dq = grad->ograd[0] ? grad->ograd[0] : mx_g1("zeros_like", q);
    mx_array *dl = grad->ograd[1] ? grad->ograd[1] : mx_g1("zeros_like", l);
    mx_array *m = mx_g_sub(mx_linalg_multiply(l, true, dl, false, 1), mx_linalg_multiply(dq, false, q, true, 1));
    m = mx_g_add(mx_linalg_triangle(m, true, 1), mx_linalg_transpose(mx_linalg_triangle(m, true, 0)));
    mx_array *sum = mx_g_add(dq, mx_linalg_multiply(m, false, q, false, 1));
    return mx_give(grad, 0, mx_linalg_solve(l, sum, true, false, true));
}

/* Reflections I - v v' / c from the right make one row after the other end at its diagonal; Q is what they do to I. */
static void reflect(double *rows, int64_t count, int64_t n, const double *v, double c)
{
    for (int64_t i = 0; i < count; i++) {
        double dot = 0;
        for (int64_t j = 0; j < n; j++)
            dot += rows[i * n + j] * v[j];
        for (int64_t j = 0; j < n; j++)
            rows[i * n + j] -= dot / c * v[j];
    }
}

static void ref_lq(const double *a, double *q, double *l, int64_t m, int64_t n)
{
    static double work[LARGEST * LARGEST], v[LARGEST][LARGEST], c[LARGEST];
    memcpy(work, a, (size_t)(m * n) * sizeof *work);
    for (int64_t k = 0; k < m; k++) {
        double norm = 0;
        for (int64_t j = 0; j < n; j++) {
            v[k][j] = j < k ? 0 : work[k * n + j];
            norm += v[k][j] * v[k][j];
        }
        norm = k == n - 1 ? -v[k][k] : copysign(sqrt(norm), v[k][k]); /* the last one has nothing to turn */
        v[k][k] += norm;
        c[k] = norm * v[k][k];
        if (c[k] == 0)
            v[k][k] = c[k] = 0;
        else
            reflect(work, m, n, v[k], c[k]);
    }
    for (int64_t e = 0; e < m * m; e++)
        l[e] = e % m <= e / m ? work[e / m * n + e % m] : 0;
    for (int64_t e = 0; e < m * n; e++)
        q[e] = e / n == e % n;
    for (int64_t k = m - 1; k >= 0; k--)
        if (c[k] != 0)
            reflect(q, m, n, v[k], c[k]);
}

static void ref_gelqf(const mx_reference_call *call)
{
    const mx_matrices s = mx_matrices_of(&call->in_shape[0]);
    for (int64_t b = 0; b < s.batch; b++)
        ref_lq(call->in[0] + b * s.rows * s.columns, call->out[0] + b * s.rows * s.columns,
               call->out[1] + b * s.rows * s.rows, s.rows, s.columns);
}

/* ---- syevd: A = U' diag(L) U ------------------------------------------------------------------------------------------ */

static mx_code infer_syevd(mx_infer *infer)
{
    if (mx_linalg_infer_square(infer) || infer->in[0].ndim < 0)
        return mx_error_code();
    mx_shape_t values = infer->in[0];
    values.ndim--;
    return mx_infer_out(infer, 1, &values);
}

/* With F[i][j] = 1 / (l[j] - l[i]), zero where they are equal: dA = U' (diag(dL) + sym(F * (U dU'))) U */
static mx_code grad_syevd(mx_grad *grad)
{
    mx_array *u = grad->out[0], *values = grad->out[1], *inner = NULL;
    if (grad->ograd[0]) {
        mx_shape_t row = grad->in_shape[0], column = row;
        row.dim[row.ndim - 2] = column.dim[row.ndim - 1] = 1;
        mx_array *d = mx_g_sub(mx_g_reshape(values, &row), mx_g_reshape(values, &column));
        mx_array *same = mx_g_text(MX_OP("_equal_scalar"), "scalar=0", 1, &d);
        mx_array *f = mx_g_div(mx_g_rsub(1, same), mx_g_add(d, same));
        inner = mx_linalg_symmetric(mx_g_mul(f, mx_linalg_multiply(u, false, grad->ograd[0], true, 1)));
        if (!inner)
            return mx_error_code();
    }
    mx_array *diagonal = grad->ograd[1] ? mx_g1("_linalg_makediag", grad->ograd[1]) : NULL;
    if (grad->ograd[1] && !diagonal)
        return mx_error_code();
    mx_array *sum = inner && diagonal ? mx_g_add(inner, diagonal) : inner ? inner : diagonal;
    return sum ? mx_give(grad, 0, mx_linalg_multiply(mx_linalg_multiply(u, true, sum, false, 1), false, u, false, 1))
               : MX_OK;
}

/* Jacobi: one plane after the other is turned until nothing is left beside the diagonal of a; u collects the turns. */
static void jacobi(double *a, double *u, int64_t n)
{
    for (int64_t e = 0; e < n * n; e++)
        u[e] = e / n == e % n;
    for (int sweep = 0; sweep < 30; sweep++)
        for (int64_t p = 0; p < n; p++)
            for (int64_t q = p + 1; q < n; q++) {
                if (fabs(a[p * n + q]) < 1e-300)
                    continue;
                const double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
                const double t = (theta < 0 ? -1 : 1) / (fabs(theta) + sqrt(theta * theta + 1));
                const double c = 1 / sqrt(t * t + 1), s = t * c;
                for (int64_t k = 0; k < n; k++) {
                    const double x = a[k * n + p], y = a[k * n + q];
                    a[k * n + p] = c * x - s * y, a[k * n + q] = s * x + c * y;
                }
                for (int64_t k = 0; k < n; k++) {
                    const double x = a[p * n + k], y = a[q * n + k], z = u[p * n + k], w = u[q * n + k];
                    a[p * n + k] = c * x - s * y, a[q * n + k] = s * x + c * y;
                    u[p * n + k] = c * z - s * w, u[q * n + k] = s * z + c * w;
                }
            }
}

static void ref_syevd(const mx_reference_call *call)
{
    static double a[LARGEST * LARGEST], u[LARGEST * LARGEST];
    const mx_matrices m = mx_matrices_of(&call->in_shape[0]);
    const int64_t n = m.rows;
    for (int64_t b = 0; b < m.batch; b++) {
        memcpy(a, call->in[0] + b * n * n, (size_t)(n * n) * sizeof *a);
        jacobi(a, u, n);
        for (int64_t i = 0; i < n; i++) {
            int64_t rank = 0, largest = 0;
            for (int64_t k = 0; k < n; k++) {
                rank += a[k * n + k] < a[i * n + i] || (a[k * n + k] == a[i * n + i] && k < i);
                largest = fabs(u[i * n + k]) > fabs(u[i * n + largest]) ? k : largest;
            }
            call->out[1][b * n + rank] = a[i * n + i];
            for (int64_t k = 0; k < n; k++)
                call->out[0][(b * n + rank) * n + k] = copysign(1, u[i * n + largest]) * u[i * n + k];
        }
    }
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
#define SQUARE "floatonly dominant"

mx_op mx_family_linalg_eigen[] = {
    {.name = "_linalg_gelqf", .aliases = "linalg_gelqf", .c_name = "linalg_gelqf", .inputs = "A", .outputs_numbered = true, .outputs = "Q L", .n_out = 2,
     .doc = "A = L Q with L lower triangular and orthonormal rows of Q", .infer_shape = infer_gelqf, .gradient = grad_gelqf, .grad_out = 3,
     .reference = ref_gelqf, .samples = SAMPLES({"2,3", "", 0, 0, SQUARE}, {"3,3", "", 0, 0, SQUARE}, {"2,2,5", "", 0, 0, SQUARE}, {"1,1", "", 0, 0, SQUARE})},
    {.name = "_linalg_syevd", .precision = MX_PRECISION_FLOAT32, .c_name = "linalg_syevd", .inputs = "A", .outputs_numbered = true, .outputs = "U L", .n_out = 2,
     .doc = "eigenvalues L, ascending, and eigenvectors, the rows of U, of symmetric matrices, of which the lower triangle is read; the largest "
            "component of each eigenvector is positive",
     .infer_shape = infer_syevd, .gradient = grad_syevd, .grad_out = 3, .reference = ref_syevd,
     .samples = SAMPLES({"3,3", "", 0, 0, "floatonly symmetric"}, {"2,4,4", "", 0, 0, "floatonly symmetric"}, {"1,1", "", 0, 0, "floatonly symmetric"},
                        {"20,20", "", 0, 0, "f32only symmetric nograd"})},
    {0},
};
