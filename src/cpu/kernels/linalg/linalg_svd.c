/* Singular values on the CPU, computed in double: rotations of rows, which are contiguous (op/formula/linalg_svd.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "cpu/kernels/linalg/linalg.h"
#include "ndarray/convert.h"
#include "op/formula/linalg_svd.h"

typedef struct svd {
    int64_t m, n;
    double *a;      /* (m, n): its rows become orthogonal */
    double *w;      /* (m, m): the product of all rotations */
    double *values; /* (m) */
    double *u, *v;  /* (m, m), (m, n): the results, in order */
} svd;

static void rotate_rows(double *restrict upper, double *restrict lower, double cosine, double sine, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        mx_rotate(cosine, sine, &upper[k], &lower[k]);
}

/* xx, yy and xy in one pass; eight lanes each. */
static void products(const double *restrict x, const double *restrict y, int64_t n, double *sums)
{
    double lanes[3][8] = {{0}};
    for (int64_t i = 0; i < n; i++) {
        lanes[0][i % 8] += x[i] * x[i];
        lanes[1][i % 8] += y[i] * y[i];
        lanes[2][i % 8] += x[i] * y[i];
    }
    for (int i = 0; i < 3; i++) {
        sums[i] = 0;
        for (int k = 0; k < 8; k++)
            sums[i] += lanes[i][k];
    }
}

/* Rotates every pair of rows once; false: all were orthogonal. */
static bool sweep(svd *z)
{
    bool any = false;
    for (int64_t round = 0; round < mx_svd_rounds(z->m) && !mx_stop_wanted(); round++)
        for (int64_t pair = 0; pair < mx_svd_pairs(z->m); pair++) {
            int64_t p, q;
            double sums[3], cosine, sine;
            if (!mx_svd_pair(z->m, round, pair, &p, &q))
                continue;
            products(z->a + p * z->n, z->a + q * z->n, z->n, sums);
            if (!mx_svd_rotation(sums[0], sums[1], sums[2], &cosine, &sine))
                continue;
            any = true;
            rotate_rows(z->a + p * z->n, z->a + q * z->n, cosine, sine, z->n);
            rotate_rows(z->w + p * z->m, z->w + q * z->m, cosine, sine, z->m);
        }
    return any;
}

/* Descending; rows that are 0 become orthogonal to the others. */
static void arrange(svd *z)
{
    const int64_t m = z->m, n = z->n;
    double sums[3], largest = 0;
    int64_t rank_of_zero = m;
    for (int64_t i = 0; i < m; i++) {
        products(z->a + i * n, z->a + i * n, n, sums);
        z->values[i] = sqrt(sums[0]);
        largest = z->values[i] > largest ? z->values[i] : largest;
    }
    for (int64_t i = 0; i < m; i++) {
        const int64_t rank = mx_svd_rank(z->values, m, i);
        const bool zero = mx_svd_is_zero(z->values[i], largest, n);
        const double sign = zero ? 1 : mx_eigen_sign(z->a + i * n, n);
        rank_of_zero = zero && rank < rank_of_zero ? rank : rank_of_zero;
        for (int64_t k = 0; k < m; k++)
            z->u[k * m + rank] = sign * z->w[i * m + k];
        for (int64_t k = 0; k < n; k++)
            z->v[rank * n + k] = zero ? 0 : sign * z->a[i * n + k] / z->values[i];
    }
    for (int64_t rank = rank_of_zero; rank < m; rank++)
        mx_svd_complete(z->v, rank, n);
}

static void store(const linalg_job *job, int i, int64_t which, const double *from, int64_t count)
{
    const mx_dtype type = (mx_dtype)job->dtype;
    mx_convert((char *)job->out[i] + (size_t)(which * count) * (size_t)mx_dtype_size(type), type, from, MX_FLOAT64,
               count);
}

/* The results in order.  Behind them is room for m numbers: the ranks need the values as they are. */
static void finish(const linalg_job *job, int64_t which, svd *z)
{
    const int64_t m = z->m, n = z->n;
    double *values = z->v + m * n;
    arrange(z);
    for (int64_t i = 0; i < m; i++)
        values[mx_svd_rank(z->values, m, i)] = z->values[i];
    store(job, 0, which, z->u, m * m);
    store(job, 1, which, values, m);
    store(job, 2, which, z->v, m * n);
}

static mx_code svd_matrix(const linalg_job *job, int64_t which)
{
    const int64_t m = job->n, n = job->others;
    const mx_dtype type = (mx_dtype)job->dtype;
    const size_t bytes = (size_t)(2 * m * n + 2 * m * m + 2 * m) * sizeof(double);
    double *a = mx_alloc(bytes);
    if (!a)
        return MX_ERR_MEMORY;
    svd z = {m, n, a, a + m * n, a + m * n + m * m, a + m * n + m * m + m, a + m * n + 2 * m * m + m};
    mx_convert(a, MX_FLOAT64, (const char *)job->in[0] + (size_t)(which * m * n) * (size_t)mx_dtype_size(type), type,
               m * n);
    memset(z.w, 0, (size_t)(m * m) * sizeof(double));
    for (int64_t i = 0; i < m; i++)
        z.w[i * (m + 1)] = 1;
    for (int count = 0; count < MX_SVD_SWEEPS && sweep(&z); count++)
        continue;
    if (!mx_stop_wanted())
        finish(job, which, &z);
    mx_free(a, bytes);
    return MX_OK;
}

static mx_code run_svd(const mx_kernel_call *call)
{
    const mx_array *a = call->in[0];
    const int64_t rows = a->shape[a->ndim - 2], columns = a->shape[a->ndim - 1];
    if (!mx_dtype_is_float(a->dtype))
        return MX_DECLINED;
    linalg_job job = {.in = {mx_data(a)}, .out = {mx_data(call->out[0]), mx_data(call->out[1]), mx_data(call->out[2])}, .n = rows,
                      .others = columns, .dtype = a->dtype, .run = svd_matrix};
    return a->size ? mx_linalg_each(call, &job, a->size / (rows * columns),
                                    20 * (double)rows * (double)rows * (double)columns, "")
                   : MX_OK;
}

MX_CPU_KERNELS(linalg_svd) = {{"_npi_svd", run_svd, NULL}, {NULL, NULL, NULL}};
