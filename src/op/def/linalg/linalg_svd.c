/* Singular values: A = U diag(L) V, of matrices in the last two axes with no more rows than columns.
 *
 * The gradient is made of products, so every order works.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "op/formula/linalg.h"
#include "op/formula/linalg_svd.h"

static mx_code infer_svd(mx_infer *infer)
{
    const mx_shape_t *a = &infer->in[0];
    char text[MX_SHAPE_TEXT];
    if (mx_infer_out(infer, 2, a) || mx_infer_in(infer, 0, &infer->out[2]))
        return mx_error_code();
    if (!mx_shape_known(a))
        return MX_OK;
    if (mx_linalg_check(infer, 0, 2, false))
        return mx_error_code();
    if (a->dim[a->ndim - 2] > a->dim[a->ndim - 1])
        return mx_op_fail(infer->op, MX_ERR_SHAPE, "A has shape %s, wanted no more rows than columns",
                          mx_shape_text(a, text));
    mx_shape_t u = *a, values = *a; /* known by now, perhaps from V */
    u.dim[u.ndim - 1] = u.dim[u.ndim - 2];
    values.ndim--;
    return mx_infer_out(infer, 0, &u) ? mx_error_code() : mx_infer_out(infer, 1, &values);
}

/* 1 / x, and 0 where x is 0 */
static mx_array *inverse_or_zero(mx_array *x)
{
    mx_array *none = mx_g_text(MX_OP("_equal_scalar"), "scalar=0", 1, &x);
    return mx_g_div(mx_g_rsub(1, none), mx_g_add(x, none));
}
static mx_array *twice_symmetric(mx_array *x) { return mx_g_scale(mx_linalg_symmetric(x), 2); }

typedef struct factors {
    mx_array *u, *v;        /* (..., m, m), (..., m, n) */
    mx_array *row, *column; /* the singular values as (..., 1, m) and (..., m, 1) */
} factors;

/* F[i][j] = 1 / (l[j]^2 - l[i]^2), 0 where they are equal, times x */
static mx_array *by_distance(const factors *f, mx_array *x)
{
    return mx_g_mul(inverse_or_zero(mx_g_sub(mx_g1("square", f->row), mx_g1("square", f->column))), x);
}

/* dA = U (diag(dL) + (J + J') diag(L) + diag(L) (K + K')) V + U diag(L)^-1 dV (I - V' V) with J = F * (U' dU), K = F * (V dV') */
static mx_code grad_svd(mx_grad *grad)
{
    mx_array *const *d = grad->ograd, *sum = mx_g1("zeros_like", grad->out[0]);
    mx_shape_t row = grad->in_shape[0], column;
    row.dim[row.ndim - 1] = row.dim[row.ndim - 2], column = row;
    row.dim[row.ndim - 2] = column.dim[row.ndim - 1] = 1;
    const factors f = {grad->out[0], grad->out[2], mx_g_reshape(grad->out[1], &row),
                       mx_g_reshape(grad->out[1], &column)};
    if (d[1])
        sum = mx_g_add(sum, mx_g1("_linalg_makediag", d[1]));
    if (d[0])
        sum = mx_g_add(
            sum, mx_g_mul(twice_symmetric(by_distance(&f, mx_linalg_multiply(f.u, true, d[0], false, 1))), f.row));
    mx_array *beside = d[2] ? mx_linalg_multiply(d[2], false, f.v, true, 1) : NULL; /* dV V' */
    if (d[2])
        sum = mx_g_add(sum, mx_g_mul(f.column, twice_symmetric(by_distance(&f, mx_linalg_transpose(beside)))));
    mx_array *inner = mx_linalg_multiply(sum, false, f.v, false, 1);
    if (d[2]) { /* the part of dV outside of the span of V */
        mx_array *outside = mx_g_sub(d[2], mx_linalg_multiply(beside, false, f.v, false, 1));
        inner = mx_g_add(inner, mx_g_mul(inverse_or_zero(f.column), outside));
    }
    return mx_give(grad, 0, mx_linalg_multiply(f.u, false, inner, false, 1));
}

#define LARGEST 64 /* rows and columns of a matrix in a sample */

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* One pair after the other, in order. */
static void orthogonalize(double *a, double *w, int64_t m, int64_t n)
{
    for (int sweep = 0; sweep < MX_SVD_SWEEPS; sweep++)
        for (int64_t p = 0; p < m; p++)
            for (int64_t q = p + 1; q < m; q++) {
                double *x = a + p * n, *y = a + q * n, c, s;
                if (!mx_svd_rotation(dot(x, x, n), dot(y, y, n), dot(x, y, n), &c, &s))
                    continue;
                for (int64_t k = 0; k < n; k++)
                    mx_rotate(c, s, &x[k], &y[k]);
                for (int64_t k = 0; k < m; k++)
                    mx_rotate(c, s, &w[p * m + k], &w[q * m + k]);
            }
}

static void ref_svd(const mx_reference_call *call)
{
    static double a[LARGEST * LARGEST], w[LARGEST * LARGEST], values[LARGEST];
    const mx_matrices s = mx_matrices_of(&call->in_shape[0]);
    const int64_t m = s.rows, n = s.columns;
    for (int64_t b = 0; b < s.batch; b++) {
        memcpy(a, call->in[0] + b * m * n, (size_t)(m * n) * sizeof *a);
        for (int64_t e = 0; e < m * m; e++)
            w[e] = e / m == e % m;
        orthogonalize(a, w, m, n);
        for (int64_t i = 0; i < m; i++)
            values[i] = sqrt(dot(a + i * n, a + i * n, n));
        for (int64_t i = 0; i < m; i++) {
            const int64_t rank = mx_svd_rank(values, m, i);
            const double sign = mx_eigen_sign(a + i * n, n);
            call->out[1][b * m + rank] = values[i];
            for (int64_t k = 0; k < m; k++)
                call->out[0][(b * m + k) * m + rank] = sign * w[i * m + k];
            for (int64_t k = 0; k < n; k++)
                call->out[2][(b * m + rank) * n + k] = sign * a[i * n + k] / values[i];
        }
    }
}

#define SAMPLES(...) (const mx_sample[]){__VA_ARGS__, {0}}
#define DOMINANT "floatonly dominant"

mx_op mx_family_linalg_svd[] = {
    {.name = "_npi_svd", .precision = MX_PRECISION_FLOAT32, .c_name = "linalg_gesvd", .inputs = "A", .outputs = "U L V", .outputs_numbered = true, .n_out = 3,
     .doc = "A = U diag(L) V with L descending, orthonormal columns of U and orthonormal rows of V, whose largest component is positive; A has no "
            "more rows than columns",
     .infer_shape = infer_svd, .gradient = grad_svd, .grad_out = 7, .reference = ref_svd,
     .samples = SAMPLES({"2,3", "", 0, 0, DOMINANT}, {"3,3", "", 0, 0, DOMINANT}, {"2,2,5", "", 0, 0, DOMINANT}, {"1,1", "", 0, 0, DOMINANT},
                        {"20,30", "", 0, 0, "f32only dominant nograd"})},
    {0},
};
