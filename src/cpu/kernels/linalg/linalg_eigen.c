/* gelqf and syevd on the CPU: orthogonal factorisations, computed in double.
 *
 * Both work on rows, which are contiguous: reflections and rotations of rows are dot products and sums of vectors.
 * Eigenvalues: reflections make the matrix tridiagonal, then rotations with implicit shifts make it diagonal
 * (op/formula/linalg_eigen.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "cpu/kernels/linalg/linalg.h"
#include "cpu/kernels/widen.h"
#include "ndarray/convert.h"
#include "op/formula/linalg_eigen.h"

static double dot(const double *x, const double *y, int64_t n)
{
    double lanes[8] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            lanes[k] += x[i + k] * y[i + k];
    for (int k = 0; k < 8; k++)
        sum += lanes[k];
    for (; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static void add_scaled(double *restrict to, const double *restrict x, double factor, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += factor * x[i];
}

/* The reflection that maps x to (beta, 0, ...): its vector replaces x.  Returns its c. */
static double reflection(double *x, int64_t n, double *beta)
{
    const mx_reflection r = mx_reflection_of(x[0], n > 1 ? dot(x + 1, x + 1, n - 1) : 0);
    *beta = r.beta, x[0] = r.head;
    return r.c;
}

static void reflect_rows(double *rows, int64_t count, int64_t stride, int64_t n, const double *v, double c)
{
    for (int64_t i = 0; i < count && c != 0; i++)
        add_scaled(rows + i * stride, v, mx_reflection_factor(dot(rows + i * stride, v, n), c), n);
}

/* ---- gelqf ------------------------------------------------------------------------------------------------------ */

/* a (m, n) -> q (m, n), l (m, m); c: m numbers.  a keeps the vectors of the reflections right of its diagonal. */
static void factor_lq(double *a, double *q, double *l, double *c, int64_t m, int64_t n)
{
    memset(l, 0, (size_t)(m * m) * sizeof *l);
    memset(q, 0, (size_t)(m * n) * sizeof *q);
    for (int64_t k = 0; k < m && !mx_stop_wanted(); k++) {
        double *v = a + k * n + k;
        for (int64_t j = 0; j < k; j++)
            l[k * m + j] = a[k * n + j];
        c[k] = reflection(v, n - k, &l[k * m + k]);
        reflect_rows(v + n, m - 1 - k, n, n - k, v, c[k]);
        q[k * n + k] = 1;
    }
    for (int64_t k = m - 1; k >= 0 && !mx_stop_wanted(); k--)
        reflect_rows(q + k * n + k, m - k, n, n - k, a + k * n + k, c[k]);
}

static mx_code lq_matrix(const linalg_job *job, int64_t which)
{
    const int64_t m = job->n, n = job->others;
    const mx_dtype type = (mx_dtype)job->dtype;
    const size_t item = (size_t)mx_dtype_size(type), bytes = (size_t)(2 * m * n + m * m + m) * sizeof(double);
    double *a = mx_alloc(bytes);
    if (!a)
        return MX_ERR_MEMORY;
    double *q = a + m * n, *l = q + m * n, *c = l + m * m;
    mx_convert(a, MX_FLOAT64, (const char *)job->in[0] + (size_t)(which * m * n) * item, type, m * n);
    factor_lq(a, q, l, c, m, n);
    mx_convert((char *)job->out[0] + (size_t)(which * m * n) * item, type, q, MX_FLOAT64, m * n);
    mx_convert((char *)job->out[1] + (size_t)(which * m * m) * item, type, l, MX_FLOAT64, m * m);
    mx_free(a, bytes);
    return MX_OK;
}

/* ---- syevd ------------------------------------------------------------------------------------------------------ */

typedef struct eigen {
    int64_t n;
    double *a;     /* (n, n) symmetric; destroyed */
    double *u;     /* (n, n): rows become eigenvectors */
    double *d, *e; /* (n) diagonal and what stands below it: e[i] beside d[i] and d[i + 1] */
    double *c, *w; /* (n) scratch: scales of the reflections, vectors */
} eigen;

/* Row i of A - v w' - w v'; own_v and own_w: v[i] and w[i] */
static void reflect_row(double *restrict row, const double *restrict v, const double *restrict w, double own_v,
                        double own_w, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        row[k] = mx_rank2_update(row[k], own_v, w[k], own_w, v[k]);
}

/* A - v w' - w v' for the trailing block, with w = p - (v'p / 2c) v and p = A v / c */
static void update_block(eigen *z, double *block, const double *v, double c, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        z->w[i] = dot(block + i * z->n, v, n) / c;
    add_scaled(z->w, v, mx_reflection_factor(dot(z->w, v, n), 2 * c), n);
    for (int64_t i = 0; i < n; i++)
        reflect_row(block + i * z->n, v, z->w, v[i], z->w[i], n);
}

/* A = U' T U with T tridiagonal.  Row k of A keeps the reflection that cleared it. */
static void tridiagonal(eigen *z)
{
    const int64_t n = z->n;
    for (int64_t k = 0; k + 1 < n && !mx_stop_wanted(); k++) {
        double *v = z->a + k * n + k + 1;
        z->d[k] = z->a[k * n + k];
        z->c[k] = reflection(v, n - 1 - k, &z->e[k]);
        if (z->c[k] != 0)
            update_block(z, z->a + (k + 1) * (n + 1), v, z->c[k], n - 1 - k);
    }
    z->d[n - 1] = z->a[n * n - 1], z->e[n - 1] = 0;
    memset(z->u, 0, (size_t)(n * n) * sizeof *z->u);
    for (int64_t i = 0; i < n; i++)
        z->u[i * (n + 1)] = 1;
    for (int64_t k = n - 2; k >= 0 && !mx_stop_wanted(); k--)
        reflect_rows(z->u + (k + 1) * (n + 1), n - 1 - k, n, n - 1 - k, z->a + k * n + k + 1, z->c[k]);
}

static void rotate_rows(double *restrict upper, double *restrict lower, double cosine, double sine, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        mx_rotate(cosine, sine, &upper[k], &lower[k]);
}

static void sweep(eigen *z, int64_t first, int64_t last)
{
    mx_sweep s = mx_sweep_begin(z->d, z->e, first, last);
    for (int64_t i = last - 1; i >= first; i--) {
        if (!mx_sweep_row(&s, i))
            return;
        rotate_rows(z->u + i * z->n, z->u + (i + 1) * z->n, s.cosine, s.sine, z->n);
    }
    mx_sweep_end(&s);
}

static void diagonalize(eigen *z)
{
    for (int64_t first = 0; first < z->n; first++)
        for (int count = 0; count < MX_EIGEN_SWEEPS && !mx_stop_wanted(); count++) {
            const int64_t last = mx_eigen_block(z->d, z->e, z->n, first);
            if (last == first)
                break;
            sweep(z, first, last);
        }
}

/* Ascending, and the largest component of every vector positive. */
static void arrange(const eigen *z, double *vectors, double *values)
{
    for (int64_t i = 0; i < z->n; i++) {
        const double *u = z->u + i * z->n, sign = mx_eigen_sign(u, z->n);
        const int64_t rank = mx_eigen_rank(z->d, z->n, i);
        values[rank] = z->d[i];
        for (int64_t k = 0; k < z->n; k++)
            vectors[rank * z->n + k] = sign * u[k];
    }
}

static mx_code eigen_matrix(const linalg_job *job, int64_t which)
{
    const int64_t n = job->n;
    const mx_dtype type = (mx_dtype)job->dtype;
    const size_t item = (size_t)mx_dtype_size(type), bytes = (size_t)(2 * n * n + 4 * n) * sizeof(double);
    double *a = mx_alloc(bytes);
    if (!a)
        return MX_ERR_MEMORY;
    eigen z = {n, a, a + n * n, a + 2 * n * n, a + 2 * n * n + n, a + 2 * n * n + 2 * n, a + 2 * n * n + 3 * n};
    mx_convert(a, MX_FLOAT64, (const char *)job->in[0] + (size_t)(which * n * n) * item, type, n * n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++)
            a[i * n + j] = a[j * n + i];
    tridiagonal(&z);
    diagonalize(&z);
    if (!mx_stop_wanted()) {
        arrange(&z, a, z.c); /* a and the scales are free now */
        mx_convert((char *)job->out[0] + (size_t)(which * n * n) * item, type, a, MX_FLOAT64, n * n);
        mx_convert((char *)job->out[1] + (size_t)(which * n) * item, type, z.c, MX_FLOAT64, n);
    }
    mx_free(a, bytes);
    return MX_OK;
}

/* ---- the kernels ------------------------------------------------------------------------------------------------- */

static mx_code each(const mx_kernel_call *call, linalg_fn run)
{
    const mx_array *a = call->in[0];
    const int64_t rows = a->shape[a->ndim - 2], columns = a->shape[a->ndim - 1];
    linalg_job job = {.in = {mx_data(a)}, .out = {mx_data(call->out[0]), mx_data(call->out[1])}, .n = rows,
                      .others = columns, .dtype = a->dtype, .run = run};
    return rows ? mx_linalg_each(call, &job, a->size / (rows * (columns ? columns : 1)),
                                 4 * (double)rows * (double)rows * (double)columns, "")
                : MX_OK;
}

static mx_code run_gelqf(const mx_kernel_call *call)
{
    return mx_dtype_is_float(call->in[0]->dtype) ? each(call, lq_matrix) : MX_DECLINED;
}
static mx_code run_syevd(const mx_kernel_call *call)
{
    return mx_dtype_is_float(call->in[0]->dtype) ? each(call, eigen_matrix) : MX_DECLINED;
}

MX_CPU_KERNELS(linalg_eigen) = {
    {"_linalg_gelqf", run_gelqf, NULL}, {"_linalg_syevd", run_syevd, NULL}, {NULL, NULL, NULL}};
