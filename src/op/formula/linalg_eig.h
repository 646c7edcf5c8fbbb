/* Eigenvalues of square matrices that need not be symmetric.  Shared by the kernels of all devices.
 *
 * Reflections make the matrix zero below the elements beside its diagonal (Hessenberg), then complex rotations with shifts make
 * it triangular: A = Z T Z*, with the eigenvalues on the diagonal of T.  Eigenvectors of T follow by substitution.  Computing with
 * complex numbers keeps one case where real numbers have two; only real eigenvalues are returned.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_OP_LINALG_EIG_H
#define MX_OP_LINALG_EIG_H

#include "op/formula/linalg_eigen.h"

#define MX_EIG_SWEEPS 60      /* for one eigenvalue; three are usual */
#define MX_EIG_REAL 1e-7      /* imaginary parts up to this, times the size of the matrix, are rounding errors */
#ifndef MX_EIG_STOP
#define MX_EIG_STOP() false /* where work can be interrupted: whether it should end now, without a result */
#endif

typedef struct mx_complex {
    double re, im;
} mx_complex;

MX_ANY_DEVICE static inline mx_complex mx_c_add(mx_complex a, mx_complex b)
{
    return (mx_complex){a.re + b.re, a.im + b.im};
}
MX_ANY_DEVICE static inline mx_complex mx_c_sub(mx_complex a, mx_complex b)
{
    return (mx_complex){a.re - b.re, a.im - b.im};
}
MX_ANY_DEVICE static inline mx_complex mx_c_mul(mx_complex a, mx_complex b)
{
    return (mx_complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
MX_ANY_DEVICE static inline mx_complex mx_c_scale(mx_complex a, double factor)
{
    return (mx_complex){a.re * factor, a.im * factor};
}
MX_ANY_DEVICE static inline mx_complex mx_c_conj(mx_complex a) { return (mx_complex){a.re, -a.im}; }
MX_ANY_DEVICE static inline double mx_c_abs(mx_complex a) { return hypot(a.re, a.im); }
MX_ANY_DEVICE static inline mx_complex mx_c_div(mx_complex a, mx_complex b)
{
    const double size = mx_c_abs(b);
    return mx_c_mul(mx_c_scale(a, 1 / size), mx_c_scale(mx_c_conj(b), 1 / size));
}
MX_ANY_DEVICE static inline mx_complex mx_c_sqrt(mx_complex a)
{
    const double size = mx_c_abs(a), re = sqrt((size + a.re) / 2), im = sqrt((size - a.re) / 2);
    return (mx_complex){re, a.im < 0 ? -im : im};
}

typedef struct mx_eig {
    int64_t n;
    mx_complex *t;    /* (n, n): the matrix, then T */
    mx_complex *z;    /* (n, n) */
    mx_complex *work; /* (n) cosines and sines of a sweep, or a vector */
    double *cosine;   /* (n) */
    double size;      /* the largest sum of a row of |A| */
} mx_eig;

/* ---- Hessenberg ------------------------------------------------------------------------------------------------- */

/* I - v v' / c with v = work[from ...] from the left and the right, and into z.  All numbers are real here. */
MX_ANY_DEVICE static inline void mx_eig_reflect(const mx_eig *e, int64_t from, double c)
{
    const int64_t n = e->n;
    for (int64_t j = 0; j < n; j++) {
        double left = 0;
        for (int64_t i = from; i < n; i++)
            left += e->t[i * n + j].re * e->work[i].re;
        for (int64_t i = from; i < n; i++)
            e->t[i * n + j].re -= left / c * e->work[i].re;
    }
    for (int64_t i = 0; i < n; i++) {
        double right = 0, total = 0;
        for (int64_t j = from; j < n; j++)
            right += e->t[i * n + j].re * e->work[j].re, total += e->z[i * n + j].re * e->work[j].re;
        for (int64_t j = from; j < n; j++)
            e->t[i * n + j].re -= right / c * e->work[j].re, e->z[i * n + j].re -= total / c * e->work[j].re;
    }
}

MX_ANY_DEVICE static inline void mx_eig_hessenberg(const mx_eig *e)
{
    const int64_t n = e->n;
    for (int64_t k = 0; k + 2 < n && !MX_EIG_STOP(); k++) {
        double tail = 0;
        for (int64_t i = k + 2; i < n; i++)
            tail += e->t[i * n + k].re * e->t[i * n + k].re;
        const mx_reflection r = mx_reflection_of(e->t[(k + 1) * n + k].re, tail);
        if (r.c == 0)
            continue;
        for (int64_t i = k + 1; i < n; i++)
            e->work[i] = i == k + 1 ? (mx_complex){r.head, 0} : e->t[i * n + k];
        mx_eig_reflect(e, k + 1, r.c);
        for (int64_t i = k + 2; i < n; i++)
            e->t[i * n + k] = (mx_complex){0, 0};
    }
}

/* ---- triangular ------------------------------------------------------------------------------------------------- */

/* The eigenvalue of the last two rows of a block that is nearer to its last element. */
MX_ANY_DEVICE static inline mx_complex mx_eig_shift(const mx_eig *e, int64_t last)
{
    const mx_complex *row = e->t + (last - 1) * e->n + last - 1, a = row[0], b = row[1], c = row[e->n],
                     d = row[e->n + 1];
    const mx_complex half = mx_c_scale(mx_c_sub(a, d), 0.5);
    const mx_complex root = mx_c_sqrt(mx_c_add(mx_c_mul(half, half), mx_c_mul(b, c)));
    const mx_complex plus = mx_c_add(half, root), minus = mx_c_sub(half, root);
    return mx_c_add(d, mx_c_abs(plus) < mx_c_abs(minus) ? plus : minus);
}

/* Rows k and k + 1 become c x + s y and -s* x + c y, such that the element of the second in column k is 0. */
MX_ANY_DEVICE static inline void mx_eig_rotate_rows(const mx_eig *e, int64_t k)
{
    const int64_t n = e->n;
    mx_complex *x = e->t + k * n, *y = x + n;
    const double one = mx_c_abs(x[k]), two = mx_c_abs(y[k]), length = hypot(one, two);
    if (length == 0)
        e->cosine[k] = 1, e->work[k] = (mx_complex){0, 0};
    else if (one == 0)
        e->cosine[k] = 0, e->work[k] = mx_c_scale(mx_c_conj(y[k]), 1 / two);
    else
        e->cosine[k] = one / length, e->work[k] = mx_c_scale(mx_c_mul(x[k], mx_c_conj(y[k])), 1 / (one * length));
    const mx_complex s = e->work[k];
    for (int64_t j = k; j < n; j++) {
        const mx_complex upper = x[j], lower = y[j];
        x[j] = mx_c_add(mx_c_scale(upper, e->cosine[k]), mx_c_mul(s, lower));
        y[j] = mx_c_sub(mx_c_scale(lower, e->cosine[k]), mx_c_mul(mx_c_conj(s), upper));
    }
}

MX_ANY_DEVICE static inline void mx_eig_rotate_columns(mx_complex *m, int64_t n, int64_t rows, int64_t k, double c,
                                                       mx_complex s)
{
    for (int64_t i = 0; i < rows; i++) {
        mx_complex *x = m + i * n + k, left = x[0], right = x[1];
        x[0] = mx_c_add(mx_c_scale(left, c), mx_c_mul(mx_c_conj(s), right));
        x[1] = mx_c_sub(mx_c_scale(right, c), mx_c_mul(s, left));
    }
}

/* One step on the block [first, last]: T - shift = Q R, then R Q + shift. */
MX_ANY_DEVICE static inline void mx_eig_step(const mx_eig *e, int64_t first, int64_t last, mx_complex shift)
{
    const int64_t n = e->n;
    for (int64_t i = first; i <= last; i++)
        e->t[i * (n + 1)] = mx_c_sub(e->t[i * (n + 1)], shift);
    for (int64_t k = first; k < last; k++)
        mx_eig_rotate_rows(e, k);
    for (int64_t k = first; k < last; k++) {
        mx_eig_rotate_columns(e->t, n, k + 2, k, e->cosine[k], e->work[k]);
        mx_eig_rotate_columns(e->z, n, n, k, e->cosine[k], e->work[k]);
    }
    for (int64_t i = first; i <= last; i++)
        e->t[i * (n + 1)] = mx_c_add(e->t[i * (n + 1)], shift);
}

/* The first row of the block that ends at `last`. */
MX_ANY_DEVICE static inline int64_t mx_eig_block(const mx_eig *e, int64_t last)
{
    const int64_t n = e->n;
    for (int64_t i = last; i > 0; i--) {
        mx_complex *below = &e->t[i * n + i - 1];
        const double beside = mx_c_abs(e->t[(i - 1) * (n + 1)]) + mx_c_abs(e->t[i * (n + 1)]);
        if (mx_c_abs(*below) <= DBL_EPSILON * (beside > 0 ? beside : e->size)) {
            *below = (mx_complex){0, 0};
            return i;
        }
    }
    return 0;
}

/* False: no convergence, as with NaN. */
MX_ANY_DEVICE static inline bool mx_eig_triangular(const mx_eig *e)
{
    int count = 0;
    for (int64_t last = e->n - 1; last > 0;) {
        const int64_t first = mx_eig_block(e, last);
        if (first == last) {
            last--, count = 0;
            continue;
        }
        if (++count > MX_EIG_SWEEPS || MX_EIG_STOP())
            return false;
        /* now and then another shift, in case the usual one goes in circles */
        const mx_complex odd = {mx_c_abs(e->t[last * e->n + last - 1]), e->size * 1e-3};
        mx_eig_step(e, first, last, count % 10 ? mx_eig_shift(e, last) : mx_c_add(odd, e->t[last * (e->n + 1)]));
    }
    return true;
}

/* ---- vectors ---------------------------------------------------------------------------------------------------- */

/* Eigenvector k of T by substitution, into work. */
MX_ANY_DEVICE static inline void mx_eig_substitute(const mx_eig *e, int64_t k)
{
    const int64_t n = e->n;
    e->work[k] = (mx_complex){1, 0};
    for (int64_t i = k - 1; i >= 0; i--) {
        mx_complex sum = {0, 0}, distance = mx_c_sub(e->t[k * (n + 1)], e->t[i * (n + 1)]);
        for (int64_t j = i + 1; j <= k; j++)
            sum = mx_c_add(sum, mx_c_mul(e->t[i * n + j], e->work[j]));
        if (mx_c_abs(distance) < DBL_EPSILON * e->size || mx_c_abs(distance) == 0)
            distance = (mx_complex){e->size > 0 ? DBL_EPSILON * e->size : 1, 0};
        e->work[i] = mx_c_div(sum, distance);
    }
}

/* Column `to` of vectors: eigenvector k, real and of length 1, its largest component positive. */
MX_ANY_DEVICE static inline void mx_eig_vector(const mx_eig *e, int64_t k, double *vectors, int64_t to)
{
    const int64_t n = e->n;
    mx_complex largest = {0, 0};
    double square = 0;
    mx_eig_substitute(e, k);
    for (int pass = 0; pass < 2; pass++) /* the first finds the factor that makes it real */
        for (int64_t i = 0; i < n; i++) {
            mx_complex sum = {0, 0};
            for (int64_t j = 0; j <= k; j++)
                sum = mx_c_add(sum, mx_c_mul(e->z[i * n + j], e->work[j]));
            if (!pass && mx_c_abs(sum) > mx_c_abs(largest))
                largest = sum;
            if (pass) {
                const double value = mx_c_div(sum, largest).re;
                vectors[i * n + to] = value, square += value * value;
            }
        }
    for (int64_t i = 0; i < n; i++)
        vectors[i * n + to] /= sqrt(square);
}

/* Ascending eigenvalues and, if vectors is not NULL, their vectors as columns.  t holds the matrix.  False: they are not real. */
MX_ANY_DEVICE static inline bool mx_eig_solve(mx_eig *e, double *values, double *vectors)
{
    const int64_t n = e->n;
    e->size = 0;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++) {
            sum += fabs(e->t[i * n + j].re);
            e->z[i * n + j] = (mx_complex){i == j ? 1.0 : 0.0, 0};
        }
        e->size = sum > e->size ? sum : e->size;
    }
    mx_eig_hessenberg(e);
    bool real = mx_eig_triangular(e);
    for (int64_t i = 0; i < n; i++) {
        real = real && fabs(e->t[i * (n + 1)].im) <= MX_EIG_REAL * e->size;
        e->cosine[i] = e->t[i * (n + 1)].re;
    }
    for (int64_t i = 0; i < n && !MX_EIG_STOP(); i++) {
        const int64_t rank = mx_eigen_rank(e->cosine, n, i);
        values[rank] = real ? e->cosine[i] : NAN;
        if (vectors)
            mx_eig_vector(e, i, vectors, rank);
    }
    return real;
}

/* Doubles of scratch for one matrix; mx_eig_in lays it out. */
MX_ANY_DEVICE static inline int64_t mx_eig_doubles(int64_t n) { return 5 * n * n + 4 * n; }
MX_ANY_DEVICE static inline mx_eig mx_eig_in(double *room, int64_t n, double **values, double **vectors)
{
    mx_complex *t = (mx_complex *)room, *z = t + n * n, *work = z + n * n;
    double *cosine = (double *)(work + n);
    *values = cosine + n, *vectors = *values + n;
    return (mx_eig){n, t, z, work, cosine, 0};
}

#endif
